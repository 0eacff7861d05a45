"""Decoders that keep a state: state spaces, linear attention, recurrence, and hybrids with attention."""
