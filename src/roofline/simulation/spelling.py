"""Settings spelled as calls, such as `lognormal(1024,0.8,max=8192)`, and times such as `200ms`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

from roofline.declared.checks import real
from roofline.declared.errors import InputError

TIME_UNITS: Mapping[str, float] = MappingProxyType({
    "us": 1e6, "µs": 1e6, "ms": 1e3, "s": 1.0, "min": 1 / 60, "h": 1 / 3600,
})  # fmt: skip
"""Unit of a time → how many are a second."""
MOST_TOKENS = 2**31 - 1
"""Tokens of a prompt or an answer; more is a slip of the keyboard."""
LONGEST_TIME = 2.0**31
"""Seconds, 68 years; a longer time is a slip of the keyboard."""


@dataclass(frozen=True)
class Spelled:
    """A name and its arguments in the order given, each with its keyword, "" where it has none."""

    name: str
    arguments: tuple[tuple[str, str], ...]

    def numbers(self, *names: str, optional: tuple[str, ...] = ()) -> tuple[float | None, ...] | None:
        """The numbers of these arguments, None for an optional one that is not given; None where they do not fit."""
        texts = self.texts(*names, *optional)
        if texts is None or any(texts[name] is None for name in names):
            return None
        try:
            return tuple(None if text is None else float(text) for text in texts.values())
        except ValueError:
            return None

    def texts(self, *names: str) -> dict[str, str | None] | None:
        """The argument of each name, by position or keyword; None where one is unknown, given twice or too many."""
        given: dict[str, str | None] = dict.fromkeys(names)
        for position, (keyword, text) in enumerate(self.arguments):
            name = keyword or (names[position] if position < len(names) else "")
            if name not in given or given[name] is not None:
                return None
            given[name] = text
        return given


def spelled(text: str) -> Spelled | None:
    """A call with its arguments, or a name alone; None where it is neither.

    >>> spelled("gamma(2.5, cv=3)")
    Spelled(name='gamma', arguments=(('', '2.5'), ('cv', '3')))
    """
    match = re.fullmatch(r"\s*([A-Za-z]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if match is None:
        return None
    inside = (match[2] or "").strip()
    pairs = (part.rpartition("=") for part in inside.split(",")) if inside else ()
    return Spelled(match[1].lower(), tuple((key.strip().lower(), value.strip()) for key, _, value in pairs))


def seconds_named(field: str, value: object) -> float:
    """A time in seconds, from 0: a number of them, or a text with a unit (`200ms`, `1.5s`, `2min`).

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


def number_above(field: str, value: object, most: float) -> float:
    """A number above 0, at most `most`. Raises InputError for anything else."""
    number = real(value)
    if number is None or not 0 < number <= most:
        raise InputError(field, value, f"a number above 0, at most {most:g}")
    return number
