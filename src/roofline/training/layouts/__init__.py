"""Layouts of a training step: which are legal, which are tried, and what would make one fit."""
