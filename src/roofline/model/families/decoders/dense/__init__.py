"""Decoders whose layers are mostly dense: attention with a cache, and one feed-forward network."""
