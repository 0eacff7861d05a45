"""What comes to a simulated server: arrivals, lengths, shared prefixes."""
