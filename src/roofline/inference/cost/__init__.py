"""Money, energy and carbon of predicted work."""
