"""Parse numbers as users write them: counts with k and Ki, times, bandwidths, image sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

from roofline.declared.checks import real
from roofline.declared.errors import InputError

COUNT_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20}
SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
TIME_UNITS: Mapping[str, float] = {"us": 1e6, "µs": 1e6, "ms": 1e3, "s": 1.0, "min": 1 / 60, "h": 1 / 3600}
"""Unit → how many of it make a second."""
LONGEST_TIME = 2.0**31
"""Maximum time in seconds, 68 years; more is a typing error."""


def whole_named(field: str, text: str) -> int:
    """Parse a whole number: `10000`, `10_000`, `10k`, `1.5M`, `4Ki`.

    Raises InputError for anything else.
    """
    match = re.fullmatch(r"([+-]?[0-9]{1,99}(?:_[0-9]{1,99})*)(?:(?:\.([0-9]{1,9}))?(k|M|G|T|Ki|Mi))?", text)
    if match and len(text) <= 100:
        places = match[2] or ""
        number, rest = divmod(int(match[1] + places) * COUNT_PREFIXES[match[3] or ""], int(10 ** len(places)))
        if not rest:
            return number
    raise InputError(field, text, "a whole number, such as 4096, 4k or 4Ki")


def amount_named(field: str, text: str) -> float:
    """Parse a number: `15e12`, `15T`, `400G`. Raises InputError for anything else."""
    try:
        return float(text)
    except ValueError:
        return float(whole_named(field, text))


def real_named(field: str, text: str) -> float:
    """Parse a number in Python's notation. Raises InputError for anything else."""
    try:
        return float(text)
    except ValueError:
        raise InputError(field, text, "a number") from None


def seconds_named(field: str, value: object) -> float:
    """Parse a time, at least 0: a number of seconds, or a text with a unit (`200ms`, `1.5s`, `2min`).

    Raises InputError for anything else, and for more than 2^31 seconds.

    >>> seconds_named("think", "200ms"), seconds_named("think", 1)
    (0.2, 1.0)
    """
    number = real(value)
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*(us|µs|ms|s|min|h)\s*", value, re.ASCII)
        try:
            number = float(match[1]) / TIME_UNITS[match[2]] if match else None
        except ValueError:
            number = None
    if number is None or not isfinite(number) or not 0 <= number <= LONGEST_TIME:
        raise InputError(field, value, "a time such as 1s or 200ms")
    return number


def bandwidth_named(field: str, value: object) -> float:
    """Parse bytes/s: a number, or a text (`50GB/s`, `1.5TB/s`). Raises InputError for anything else."""
    number = real(value)
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?([kMGT])B/s", value)
        number = None if match is None else float(match[1]) * SCALES[match[2]]
    if number is None or not 0 < number < float("inf"):
        raise InputError(field, value, "bytes a second, such as 50GB/s")
    return number


def pixels_named(field: str, value: object) -> tuple[int, int]:
    """Parse width and height in pixels: a pair, or a text such as `1024x768`. Raises InputError for anything else."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return value[0], value[1]
    match = re.fullmatch(r"([0-9]{1,6})[x×]([0-9]{1,6})", value) if isinstance(value, str) else None
    if match is None:
        raise InputError(field, value, "pixels across and down, such as 1024x768")
    return int(match[1]), int(match[2])
