"""Checks against the real model code, and the figures that it gave."""
