"""Text of servers, simulations and searches."""
