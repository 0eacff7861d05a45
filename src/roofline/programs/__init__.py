"""Questions about both servers and training."""
