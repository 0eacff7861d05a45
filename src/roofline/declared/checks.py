"""Checks on numbers passed by callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from operator import index
from pathlib import Path
from typing import overload

from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array, np
from roofline.declared.numbers.maths import Count, is_array, is_symbol

LARGEST = 2**40
"""Maximum batch, length or context of a step; more is a typing error."""
RAREST, FASTEST = 1e-6, 1e9
"""Minimum and maximum requests/s. Below the minimum, a clock of that many seconds in double precision would not
resolve the microseconds of a token; more than the maximum is a typing error.
"""


@overload
def count(field: str, value: int, least: int = 0) -> int: ...
@overload
def count(field: str, value: Count, least: int = 0) -> Count: ...
def count(field: str, value: Count, least: int = 0) -> Count:
    """Check a whole number ≥ `least`: an int (NumPy's too), an integer array (lists become arrays) or a symbol.

    Raises InputError naming `field` for text, fractions, negatives, empty lists or absurd sizes.
    """
    if is_symbol(value):
        return value
    number = integer(value)
    if number is not None:
        if not least <= number <= LARGEST:
            raise InputError(field, value, f"a whole number from {least} to 2^40")
        return number
    if (isinstance(value, (Sequence, range)) and not isinstance(value, (str, bytes))) or is_array(value):
        try:
            array = np.asarray(value)
        except (ValueError, OverflowError):
            raise InputError(field, value, "whole numbers") from None
        if array.size == 0 or array.dtype.kind not in "iuf":
            raise InputError(field, value, f"whole numbers from {least}")
        fractions = ~np.isfinite(array) | (array != np.floor(array))
        if fractions.any():
            raise InputError(field, first_where(fractions, array), "whole numbers")
        beyond = (array < least) | (array > LARGEST)
        if beyond.any():
            raise InputError(field, first_where(beyond, array), f"whole numbers from {least} to 2^40")
        if array.dtype.kind == "u" or array.dtype.itemsize < 8:
            array = array.astype(np.int64)
        return array if array.ndim else int(array)
    raise InputError(field, value, f"a whole number from {least}")


def names_a_file(path: Path) -> bool:
    """Whether a regular file has this path; False for invalid paths, such as too long ones or ones with a null byte."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def integer(value: object) -> int | None:
    """An integer, NumPy's too, as an int; None for a bool or any other value."""
    if isinstance(value, bool):
        return None
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def flag(field: str, value: object) -> bool:
    """Check a bool. Raises InputError for anything else."""
    if not isinstance(value, bool):
        raise InputError(field, value, "true or false")
    return value


def real(value: object) -> float | None:
    """A number, NumPy's too, as a float; None for a bool, any other value, and numbers too large for a float."""
    if is_array(value) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def numbers(field: str, value: Count, low: float, high: float, expected: str, above: bool = False) -> Count:
    """Check a number or an array: at least `low` and below `high`; with `above`, above `low`.

    Raises InputError naming `field`, with what was `expected`, for anything else.
    """
    number = real(value)
    if number is not None:
        if not low <= number < high or (above and number == low):
            raise InputError(field, value, expected)
        return number
    if isinstance(value, (list, tuple)) or is_array(value):
        try:
            array = np.asarray(value, dtype=float)
        except (ValueError, TypeError):
            raise InputError(field, value, expected) from None
        inside = (array >= low) & (array < high) & ((array > low) | (not above))
        if array.size and inside.all():
            return array
        if array.size:
            raise InputError(field, first_where(~inside, array), expected)
    raise InputError(field, value, expected)


def first_where(wrong: Array, values: Array) -> object:
    """The first wrong element of an array, as a Python value."""
    return np.broadcast_to(values, wrong.shape)[wrong][0].item()


def lengths_differ(field: str, shapes: Mapping[str, tuple[int, ...]]) -> InputError:
    """The error for arrays that do not broadcast, with their names and shapes."""
    words = ", ".join(f"{name} of {' × '.join(map(str, shape))}" for name, shape in shapes.items() if shape)
    return InputError(field, words, "lists as long as one another, or on axes of their own")


def requests_a_second(field: str, value: Count) -> Count:
    """Check a rate of requests, or an array of rates. Raises InputError outside `RAREST` and `FASTEST`."""
    return numbers(field, value, RAREST, FASTEST, f"requests a second, at least {RAREST:g} and below {FASTEST:g}")
