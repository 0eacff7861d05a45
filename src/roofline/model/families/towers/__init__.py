"""Towers beside language models: encoders of images and sound, and their projectors."""
