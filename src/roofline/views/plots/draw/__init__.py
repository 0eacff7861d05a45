"""Matplotlib back end of pictures: one module for each kind of picture."""
