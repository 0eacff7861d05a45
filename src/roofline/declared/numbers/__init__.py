"""Arithmetic that takes an int, an array or a symbol alike, and how people write numbers and read them."""
