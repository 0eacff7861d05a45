"""The types of settings: Python type, unit, range, how a user writes a value, and a sentence of help.

To a type checker `Tokens` is a number of tokens. To the interfaces its `ValueKind` says how `4Ki` is parsed, that the
minimum is one, and that JSON has an integer. A declaration adds the sentence:

    input: Annotated[Tokens, "Prompt tokens of a request."]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any, Literal, TypeAlias

from roofline.declared.checks import LARGEST, count, flag, numbers, real, requests_a_second
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.numbers.maths import Count, is_array
from roofline.declared.numbers.spelling import amount_named, bandwidth_named, real_named, seconds_named, whole_named

LARGEST_VARIATION = 100.0

Given: TypeAlias = Any
"""A value as passed: text, or the object that it stands for, such as a `Chip`, a `Layout` or a length distribution."""
ReadWords: TypeAlias = Callable[[str, str], Given]
"""Field and text → the value. Raises InputError."""
CheckValue: TypeAlias = Callable[[str, Given], Given]
"""Field and value → the value as questions take it. Raises InputError."""


def as_written(field: str, value: Given) -> Given:
    """The value unchanged; it is parsed later, with other settings."""
    del field
    return value


@dataclass(frozen=True)
class ValueKind:
    """The kind of a setting, for every interface.

    `json`: its types in JSON. `least`, `most`: the range of a number; `above`, `below`: whether `least` or `most` is
    excluded. `varies`: a list is an axis of the answer. `several`: a list is one value. `words`: the choices, if there
    are few. `names`: what a text names: a `machine`, a `model`, a `file`, an `engine`, a `format` or a `law`.
    `classes`: further types that the library accepts, by their names in it or with their modules.
    """

    json: tuple[type, ...]
    unit: str = ""
    read: ReadWords = as_written
    check: CheckValue = as_written
    least: float | None = None
    most: float | None = None
    above: bool = False
    below: bool = False
    varies: bool = False
    words: tuple[str, ...] = ()
    names: str = ""
    classes: tuple[str, ...] = ()
    several: bool = False


def count_kind(unit: str, least: int = 1) -> ValueKind:
    """Whole numbers of a unit, at least `least`."""
    return ValueKind((int,), unit, whole_named, lambda field, value: count(field, value, least), least, LARGEST)


def word_kind(*words: str) -> ValueKind:
    """One of a few words."""

    def check(field: str, value: Given) -> Given:
        if value not in words:
            raise not_one_of(field, value, words)
        return value

    return ValueKind((str,), check=check, words=words)


def text_kind(*classes: str, varies: bool = False, names: str = "", several: bool = False) -> ValueKind:
    """Text that is parsed with the rest of the question, or a value of one of the `classes`."""
    return ValueKind((str,), varies=varies, names=names, classes=classes, several=several)


def share_kind(least: float, most: float, expected: str, above: bool = False, below: bool = False) -> ValueKind:
    """A number between `least` and `most`."""

    def check(field: str, value: Given) -> Given:
        number = real(value)
        if number is None and not above:
            return numbers(field, value, least, most, expected)
        inside = number is not None and least <= number <= most
        if not inside or (above and number == least) or (below and number == most):
            raise InputError(field, value, expected)
        return number

    return ValueKind((float,), "share", real_named, check, least, most, above, below)


MEAN = "mean"
"""Keyword in place of a share of requests: limits apply to the mean."""


def _share_or_mean(field: str, value: Given) -> Given:
    expected = f"a share of requests from 0.5 up to, but not including, 1, or `{MEAN}`"
    if value == MEAN:
        return MEAN
    try:
        number = real_named(field, value) if isinstance(value, str) else real(value)
    except InputError:
        number = None
    if number is None or not 0.5 <= number < 1:
        raise InputError(field, value, expected)
    return number


def amount_kind(unit: str, least: float, expected: str, above: bool = False, varies: bool = False) -> ValueKind:
    """A number of at least `least`, which may be written `15T`; an array too where it `varies`."""

    def check(field: str, value: Given) -> Given:
        number = numbers(field, value, least, inf, expected, above=above)
        if is_array(number) and not varies:
            raise InputError(field, value, f"{expected}, one of them")
        return number

    return ValueKind((float,), unit, amount_named, check, least, None, above)


def _above_zero(field: str, value: Given) -> Given:
    number = seconds_named(field, value) if isinstance(value, str) else real(value)
    if number is None or not number > 0:
        raise InputError(field, value, "a time above 0, such as 300ms: seconds where no unit is given")
    return number


def _a_time(field: str, words: str) -> float:
    number: float = _above_zero(field, words)
    return number


def _a_duration(field: str, words: str) -> float:
    number: float = _above_zero(field, float(words) if words.replace(".", "", 1).isdecimal() else words)
    return number


Tokens: TypeAlias = Annotated[Count, count_kind("tokens")]
Sequences: TypeAlias = Annotated[Count, count_kind("sequences")]
Requests: TypeAlias = Annotated[Count, count_kind("requests")]
Replicas: TypeAlias = Annotated[Count, count_kind("replicas")]
ChipCount: TypeAlias = Annotated[Count, count_kind("chips")]
RankCount: TypeAlias = Annotated[Count, count_kind("ranks")]
Whole: TypeAlias = Annotated[int, count_kind("")]
WholeOrNone: TypeAlias = Annotated[int, count_kind("", 0)]
OneTokens: TypeAlias = Annotated[int, count_kind("tokens")]
OneTokensOrNone: TypeAlias = Annotated[int, count_kind("tokens", 0)]
OneSequences: TypeAlias = Annotated[int, count_kind("sequences")]
OneRequests: TypeAlias = Annotated[int, count_kind("requests")]
OneChipCount: TypeAlias = Annotated[int, count_kind("chips")]
KindName: TypeAlias = Annotated[
    Given, ValueKind((str,), words=("aggregated", "disaggregated"), classes=("Sequence[str]",))
]
ObjectiveName: TypeAlias = Annotated[
    str,
    word_kind(
        "throughput",
        "total",
        "interactivity",
        "latency",
        "cost",
        "energy",
        "chips",
        "time",
        "days",
        "dollars",
        "goodput",
    ),
]
TrainingAim: TypeAlias = Annotated[str, word_kind("time", "cost", "chips", "days", "dollars", "energy", "goodput")]
PhaseName: TypeAlias = Annotated[Literal["prefill", "decode"], word_kind("prefill", "decode")]
ExtremeName: TypeAlias = Annotated[str, word_kind("greatest", "least")]
StepName: TypeAlias = Annotated[str, word_kind("prefill", "decode", "training")]
TokensOrNone: TypeAlias = Annotated[Count, count_kind("tokens", 0)]
CountingName: TypeAlias = Annotated[Given, ValueKind((str,), words=("standard", "torch", "original", "llm-para"))]
"""The name of a FLOP counting convention, or the convention itself."""
TrafficName: TypeAlias = Annotated[Given, text_kind()]
QueryTokens: TypeAlias = Annotated[Count, replace(count_kind("tokens", 0), several=True)]
NewTokens: TypeAlias = Annotated[Count, replace(count_kind("tokens"), several=True)]
Seed: TypeAlias = Annotated[int, count_kind("", 0)]
PerSecond: TypeAlias = Annotated[Count, ValueKind((float,), "requests/s", real_named, requests_a_second, 0, 1e9, True)]
Seconds: TypeAlias = Annotated[float, ValueKind((float, str), "s", _a_time, _above_zero, 0, None, True)]
Duration: TypeAlias = Annotated[float, ValueKind((float,), "s", _a_duration, _above_zero, 0, None, True)]
"""Seconds of work: a plain number, or a time with its unit."""
Bandwidth: TypeAlias = Annotated[float, ValueKind((float, str), "B/s", bandwidth_named, bandwidth_named, 0, None, True)]
Share: TypeAlias = Annotated[Count, share_kind(0, 1, "a share from 0 up to, but not including, 1", below=True)]
Probability: TypeAlias = Annotated[float, share_kind(0, 1, "a probability from 0 to 1")]
WorkedShare: TypeAlias = Annotated[float, share_kind(0, 1, "a share above 0, at most 1", above=True)]
Attained: TypeAlias = Annotated[
    float | str, ValueKind((float, str), "share", _share_or_mean, _share_or_mean, 0.5, 1, below=True)
]
"""A share of requests, or the word `mean`."""
PlainNumber: TypeAlias = Annotated[float, ValueKind((float,), "", real_named)]
Variation: TypeAlias = Annotated[
    Count, share_kind(0, LARGEST_VARIATION, f"a coefficient of variation from 0 to {LARGEST_VARIATION:g}")
]
"""A coefficient of variation: standard deviation over mean."""
Switch: TypeAlias = Annotated[bool, ValueKind((bool,), check=flag)]
Text: TypeAlias = Annotated[str, text_kind()]
TokensOfRun: TypeAlias = Annotated[Count, amount_kind("tokens", 1, "a number, at least 1", varies=True)]
RequestsOfDay: TypeAlias = Annotated[float, amount_kind("requests", 0, "a number above 0, such as 200k", above=True)]
AboveZero: TypeAlias = Annotated[float, amount_kind("", 0, "a positive number", above=True)]
FromZero: TypeAlias = Annotated[float, amount_kind("", 0, "a number, zero or more")]
Word: TypeAlias = Annotated[str, text_kind(varies=True)]
Words: TypeAlias = Annotated[str | Sequence[str], text_kind(varies=True)]
"""Words as a list or separated by commas; for some settings a list is several questions, for others one."""
Names: TypeAlias = Annotated[str | Sequence[str], text_kind(several=True)]
"""Names, as a list or separated by commas."""
NamesOrLists: TypeAlias = Annotated[str | Sequence[str], text_kind(varies=True, several=True)]
"""Names as a list or separated by commas, or a list of such lists."""
PackText: TypeAlias = Annotated[str | Sequence[object], text_kind()]
MachineName: TypeAlias = Annotated[Given, text_kind("Chip", "Cluster", varies=True, names="machine")]
MachineNames: TypeAlias = Annotated[Given, text_kind("Chip", names="machine", several=True)]
"""Machines that form one place together."""
ChipName: TypeAlias = Annotated[Given, text_kind("Chip", names="machine")]
LayoutText: TypeAlias = Annotated[Given, text_kind("Layout", "Mapping[str, Any]", varies=True)]
Formats: TypeAlias = Annotated[Given, text_kind("Precision", "Mapping[str, Any]", varies=True, names="format")]
EngineName: TypeAlias = Annotated[Given, text_kind("Engine", varies=True, names="engine")]
LawName: TypeAlias = Annotated[Given, text_kind("roofline.kernels.target.Mode", varies=True, names="law")]
ModelName: TypeAlias = Annotated[Given, text_kind("Model", "Mapping[str, Any]", "PathLike[str]", names="model")]
LengthsText: TypeAlias = Annotated[
    Given, ValueKind((str, int), "tokens", classes=("Sequence[int]", "roofline.serving.simulate.load.lengths.Lengths"))
]
ArrivalsText: TypeAlias = Annotated[Given, text_kind("roofline.serving.simulate.load.arrivals.Arrivals")]
PrefixesText: TypeAlias = Annotated[Given, text_kind("Prefixes")]
FileName: TypeAlias = Annotated[Given, text_kind("PathLike[str]", "Trace", names="file")]
MeasuredFile: TypeAlias = Annotated[Given, text_kind("PathLike[str]", names="file")]
TimeText: TypeAlias = Annotated[Given, ValueKind((str, float), "s")]
RouterName: TypeAlias = Annotated[str, ValueKind((str,), words=("round-robin", "least-loaded", "prefix-aware"))]
PlainCount: TypeAlias = Annotated[int, ValueKind((int,), "requests", whole_named)]
"""A count whose range is checked by its question."""
OtherSide: TypeAlias = Annotated[Given, text_kind("Mapping[str, Any]", "roofline.whatif.solve.break_even.Owned")]
"""Settings of the other side of a comparison, or the cost of owning."""
ImageSize: TypeAlias = Annotated[Given, text_kind()]
