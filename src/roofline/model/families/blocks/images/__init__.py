"""Blocks of what reads or makes images."""
