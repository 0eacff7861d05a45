"""Predictions beside measurements: which rows can be predicted, how far off they are, and why others are left out."""
