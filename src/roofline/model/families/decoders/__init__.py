"""Decoders of text, one file for each lineage or maker."""
