"""Checks on numbers a caller passes in."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.model.errors import InputError
from roofline.model.maths import Count, is_array, is_symbol

LARGEST = 2**40
"""No batch, length or context a step accepts goes beyond this; a larger one is a slip of the keyboard."""


def count(field: str, value: Count, least: int = 0) -> Count:
    """A whole number ≥ `least`: an int, an integer array (lists become arrays) or a symbol.

    Raises InputError naming `field` for text, fractions, negatives, nothing at all or absurd sizes.
    """
    if type(value) is int:
        if not least <= value <= LARGEST:
            raise InputError(field, value, f"a whole number from {least} to 2^40")
        return value
    if is_symbol(value):
        return value
    if (isinstance(value, (Sequence, range)) and not isinstance(value, (str, bytes))) or is_array(value):
        import numpy

        try:
            array = numpy.asarray(value)
        except (ValueError, OverflowError):
            raise InputError(field, value, "whole numbers") from None
        if array.size == 0 or array.dtype.kind not in "iuf":
            raise InputError(field, value, f"whole numbers from {least}")
        if not numpy.all(numpy.isfinite(array)) or numpy.any(array != numpy.floor(array)):
            raise InputError(field, value, "whole numbers")
        if numpy.any(array < least) or numpy.any(array > LARGEST):
            raise InputError(field, value, f"whole numbers from {least} to 2^40")
        if array.dtype.kind == "u" or array.dtype.itemsize < 8:
            array = array.astype(numpy.int64)
        return int(array) if array.ndim == 0 and array.dtype.kind == "i" else array
    raise InputError(field, value, f"a whole number from {least}")
