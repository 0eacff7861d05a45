"""Checks of the numbers that the earlier tools take."""

from __future__ import annotations

from roofline.declared.checks import LARGEST, integer, real
from roofline.declared.errors import InputError
from roofline.declared.kinds import Given


def number(field: str, value: Given, *, zero: bool = False) -> float:
    """A finite number above 0, or from 0 with `zero`. Raises InputError naming `field`."""
    known = real(value)
    if known is None or not 0 <= known < float("inf") or (known == 0 and not zero):
        raise InputError(field, value, "a number of at least 0" if zero else "a positive number")
    return known


def whole_number(field: str, value: Given, most: int = LARGEST) -> int:
    """A single whole number from 1 to `most`. Raises InputError naming `field`."""
    known = integer(value)
    if known is None or not 1 <= known <= most:
        raise InputError(field, value, f"a whole number from 1 to {most}")
    return known
