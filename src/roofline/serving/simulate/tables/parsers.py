"""Parse settings written as calls, such as `lognormal(1024,0.8,max=8192)`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from roofline.declared.checks import real
from roofline.declared.errors import InputError

MOST_TOKENS = 2**31 - 1
"""Maximum tokens of a prompt or an answer; more is a typing error."""


@dataclass(frozen=True)
class Spelled:
    """A parsed call: its name and its arguments in order, each with its keyword, "" for a positional one."""

    name: str
    arguments: tuple[tuple[str, str], ...]

    def numbers(self, *names: str, optional: tuple[str, ...] = ()) -> tuple[float | None, ...] | None:
        """The arguments as numbers, each None where optional and missing; None where they do not match the names."""
        texts = self.texts(*names, *optional)
        if texts is None or any(texts[name] is None for name in names):
            return None
        try:
            return tuple(None if text is None else float(text) for text in texts.values())
        except ValueError:
            return None

    def texts(self, *names: str) -> dict[str, str | None] | None:
        """The argument of each name, by position or keyword; None if one is unknown, repeated or superfluous."""
        given: dict[str, str | None] = dict.fromkeys(names)
        for position, (keyword, text) in enumerate(self.arguments):
            name = keyword or (names[position] if position < len(names) else "")
            if name not in given or given[name] is not None:
                return None
            given[name] = text
        return given


def spelled(text: str) -> Spelled | None:
    """Parse a call with its arguments, or a name; None for any other text.

    >>> spelled("gamma(2.5, cv=3)")
    Spelled(name='gamma', arguments=(('', '2.5'), ('cv', '3')))
    """
    match = re.fullmatch(r"\s*([A-Za-z]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if match is None:
        return None
    inside = (match[2] or "").strip()
    pairs = (part.rpartition("=") for part in inside.split(",")) if inside else ()
    return Spelled(match[1].lower(), tuple((key.strip().lower(), value.strip()) for key, _, value in pairs))


def number_above(field: str, value: object, most: float) -> float:
    """A number above 0, at most `most`. Raises InputError for anything else."""
    number = real(value)
    if number is None or not 0 < number <= most:
        raise InputError(field, value, f"a number above 0, at most {most:g}")
    return number
