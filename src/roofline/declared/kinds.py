"""The types of settings: what a value is, its unit, its range, how a person writes it, and one sentence of help.

`Tokens` is a count of tokens for the type checker; for the doors its `Kind` says how `4Ki` is read, that there is at
least one, and that JSON has an integer. A declaration adds the sentence:

    input: Annotated[Tokens, "Prompt tokens of a request."]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from roofline.declared.checks import LARGEST, count, flag, numbers, real, requests_a_second
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.maths import Count
from roofline.declared.spelling import bandwidth_named, number_named, seconds_named, whole_named

Read: TypeAlias = Callable[[str, str], Any]
"""A field and the words of a person → the value. Raises InputError."""
Check: TypeAlias = Callable[[str, Any], Any]
"""A field and a value of the library → the value as questions take it. Raises InputError."""


def as_written(field: str, value: Any) -> Any:
    """The value as it is: what it means is found with others beside it."""
    del field
    return value


@dataclass(frozen=True)
class Kind:
    """What a type of settings says to every door.

    `json`: types that JSON has for it. `least`, `most`: the range of a number, `above`: without `least` itself,
    `below`: without `most`. `varies`: a list is an axis of the answer.
    `words`: the choices, where there are a few.
    """

    json: tuple[type, ...]
    unit: str = ""
    read: Read = as_written
    check: Check = as_written
    least: float | None = None
    most: float | None = None
    above: bool = False
    below: bool = False
    varies: bool = False
    words: tuple[str, ...] = ()


def counted(unit: str, least: int = 1) -> Kind:
    """Whole numbers of something, from `least`."""
    return Kind((int,), unit, whole_named, lambda field, value: count(field, value, least), least, LARGEST)


def one_of(*words: str) -> Kind:
    """One of a few words."""

    def check(field: str, value: Any) -> Any:
        if value not in words:
            raise not_one_of(field, value, words)
        return value

    return Kind((str,), check=check, words=words)


def text(varies: bool = False) -> Kind:
    """Words that are understood where everything else of the question is known."""
    return Kind((str,), varies=varies)


def share(least: float, most: float, expected: str, above: bool = False, below: bool = False) -> Kind:
    """A number between two."""

    def check(field: str, value: Any) -> Any:
        number = real(value)
        if number is None and not above:
            return numbers(field, value, least, most, expected)
        inside = number is not None and least <= number <= most
        if not inside or (above and number == least) or (below and number == most):
            raise InputError(field, value, expected)
        return number

    return Kind((float,), "share", number_named, check, least, most, above, below)


def _above_zero(field: str, value: Any) -> Any:
    number = seconds_named(field, value) if isinstance(value, str) else real(value)
    if number is None or not number > 0:
        raise InputError(field, value, "a time above 0, such as 300ms: seconds where no unit is given")
    return number


def _a_time(field: str, words: str) -> float:
    number: float = _above_zero(field, words)
    return number


Tokens: TypeAlias = Annotated[Count, counted("tokens")]
Sequences: TypeAlias = Annotated[Count, counted("sequences")]
Requests: TypeAlias = Annotated[Count, counted("requests")]
Replicas: TypeAlias = Annotated[Count, counted("replicas")]
Chips: TypeAlias = Annotated[Count, counted("chips")]
Degree: TypeAlias = Annotated[Count, counted("ranks")]
Whole: TypeAlias = Annotated[int, counted("")]
Seed: TypeAlias = Annotated[int, counted("", 0)]
PerSecond: TypeAlias = Annotated[Count, Kind((float,), "requests/s", number_named, requests_a_second, 0, 1e9, True)]
Seconds: TypeAlias = Annotated[float, Kind((float, str), "s", _a_time, _above_zero, 0, None, True)]
Bandwidth: TypeAlias = Annotated[float, Kind((float, str), "B/s", bandwidth_named, bandwidth_named, 0, None, True)]
Share: TypeAlias = Annotated[Count, share(0, 1, "a share from 0 up to, but not including, 1", below=True)]
Probability: TypeAlias = Annotated[float, share(0, 1, "a probability from 0 to 1")]
WorkedShare: TypeAlias = Annotated[float, share(0, 1, "a share above 0, at most 1", above=True)]
Amount: TypeAlias = Annotated[float, Kind((float,), "", number_named)]
Switch: TypeAlias = Annotated[bool, Kind((bool,), check=flag)]
Text: TypeAlias = Annotated[str, text()]
MachineName: TypeAlias = Annotated[Any, text(varies=True)]
LayoutText: TypeAlias = Annotated[Any, text(varies=True)]
Formats: TypeAlias = Annotated[Any, text(varies=True)]
EngineName: TypeAlias = Annotated[Any, text(varies=True)]
LawName: TypeAlias = Annotated[Any, text(varies=True)]
ModelName: TypeAlias = Annotated[Any, text()]
PriceText: TypeAlias = Annotated[Any, text()]
ImageSize: TypeAlias = Annotated[Any, text()]
