"""Encoders and encoder-decoders of text."""
