"""A grid of settings, its rows and its crossovers."""
