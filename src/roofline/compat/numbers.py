"""Checks on the numbers that the earlier tools take."""

from __future__ import annotations

import math
from typing import Any

from roofline.model.checks import count
from roofline.model.errors import InputError


def number(field: str, value: Any, *, zero: bool = False) -> float:
    """A finite number above 0, or from 0 on with `zero`. Raises InputError naming `field`."""
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fine or value < 0 or (value == 0 and not zero):
        raise InputError(field, value, "a number of at least 0" if zero else "a positive number")
    return value  # type: ignore[no-any-return]


def whole_number(field: str, value: Any) -> int:
    """A single whole number of at least 1. Raises InputError naming `field`."""
    if type(value) is not int:
        raise InputError(field, value, "a whole number from 1")
    return count(field, value, 1)  # type: ignore[return-value]
