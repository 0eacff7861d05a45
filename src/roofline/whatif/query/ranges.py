"""Parse lists and ranges of numbers and layouts: `1..512:x2`, `1,2,4`, `tp=1,2,4,pp=1,2`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from roofline.declared.checks import LARGEST
from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array
from roofline.layout.layout import FLAGS, Layout, layout_named

PREFIXES: Mapping[str, int] = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30,
}  # fmt: skip
MOST_VALUES = 2**24
"""Maximum number of values on an axis."""
LONGEST_TEXT = 4096
"""Maximum length of an axis, in characters."""
EXPECTED = "numbers such as 8, 4Ki, 1,2,4, 1..512, 1..512:x2 or 16..256:+16"
_NUMBER = r"([0-9]{1,15})(?:\.([0-9]{1,9}))?(k|M|G|Ki|Mi|Gi)?"
_RANGE = re.compile(rf"{_NUMBER}(?:\.\.{_NUMBER}(?::([x+]){_NUMBER})?)?")


def numbers_named(field: str, text: str) -> Array:
    """Parse a list of numbers, in its order: int64 if all are whole, else float64.

    `a..b` is every integer from a to b; `a..b:x2` multiplies by a factor and `a..b:+16` adds a step up to b; commas
    join such parts. k, M, G are powers of 1,000 and Ki, Mi, Gi of 1,024. Raises InputError for anything else, a
    descending range, a repeated number, and more than 2^24 numbers.

    >>> numbers_named("batch", "1..8:x2,12").tolist(), numbers_named("context", "1Ki..4Ki:x2").tolist()
    ([1, 2, 4, 8, 12], [1024, 2048, 4096])
    """
    if len(text) > LONGEST_TEXT:
        raise InputError(field, text, f"at most {LONGEST_TEXT} characters")
    parts = [_part(field, part.strip()) for part in text.split(",")]
    if sum(map(len, parts)) > MOST_VALUES:
        raise InputError(field, text, f"at most {MOST_VALUES:,} numbers")
    values = np.concatenate(parts)
    if _repeats(values):
        raise InputError(field, text, "each number once")
    return values


def _repeats(values: Array) -> bool:
    """Whether a number occurs twice."""
    rising = bool((values[1:] > values[:-1]).all())
    return not rising and len(np.unique(values)) < len(values)


def _part(field: str, text: str) -> Array:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InputError(field, text, EXPECTED)
    groups = match.groups()
    first, last, by = (_value(groups[i : i + 3]) for i in (0, 3, 7))
    if first is None or (last is not None and last < first):
        raise InputError(field, text, "a range from the smaller number to the larger")
    if last is None:
        return _array([first])
    if groups[6] == "x":
        return _array(_by_factor(field, text, first, last, by or Fraction(0)))
    step = Fraction(1) if by is None else by
    if step <= 0:
        raise InputError(field, text, "a step of more than 0")
    size = int((last - first) / step) + 1
    if size > MOST_VALUES:
        raise InputError(field, text, f"at most {MOST_VALUES:,} numbers")
    if first.denominator == step.denominator == 1:
        return first.numerator + step.numerator * np.arange(size, dtype=np.int64)
    return np.array([float(first + i * step) for i in range(size)])


def _by_factor(field: str, text: str, first: Fraction, last: Fraction, factor: Fraction) -> list[Fraction]:
    if factor <= 1 or first <= 0:
        raise InputError(field, text, "a factor of more than 1, from a number of more than 0")
    values = [first]
    while values[-1] * factor <= last:
        values.append(values[-1] * factor)
        if len(values) > 4096:
            raise InputError(field, text, "at most 4,096 numbers by a factor")
    return values


def _value(groups: Sequence[str | None]) -> Fraction | None:
    whole, places, prefix = groups
    if whole is None:
        return None
    places = places or ""
    return Fraction(int(whole + places), 10 ** len(places)) * PREFIXES[prefix or ""]


def _array(values: list[Fraction]) -> Array:
    if all(v.denominator == 1 for v in values) and max(values) <= LARGEST:
        return np.array([int(v) for v in values], dtype=np.int64)
    return np.array([float(v) for v in values])


def values_of(field: str, value: object) -> Array:
    """The numbers of an axis: a number, a text as in `numbers_named`, a list, a range or a 1-D array.

    Raises InputError for anything else, for no number, and for numbers that are not finite.
    """
    if isinstance(value, str):
        return numbers_named(field, value)
    if isinstance(value, (list, tuple)) and any(isinstance(v, (str, bool)) for v in value):
        texts = [v for v in value if isinstance(v, str)]
        if len(texts) < len(value):
            raise InputError(field, value, EXPECTED)
        return numbers_named(field, ",".join(texts))
    try:
        array = np.atleast_1d(np.asarray(value))
    except (ValueError, OverflowError):
        raise InputError(field, value, EXPECTED) from None
    if array.dtype.kind not in "iuf" or array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise InputError(field, value, EXPECTED)
    if array.size > MOST_VALUES:
        raise InputError(field, f"{array.size} numbers", f"at most {MOST_VALUES:,}")
    if _repeats(array):
        raise InputError(field, value, "each number once")
    whole = array.dtype.kind != "f" or bool((array == np.floor(array)).all() and np.abs(array).max() <= LARGEST)
    return array.astype(np.int64 if whole else np.float64)


# -- layouts -------------------------------------------------------------------------------------------------------
MOST_LAYOUTS = 2**20
JOINT = ("ep", "etp", "shard", "redundant", "overlap", "stages", "vp")
"""Keys whose valid values depend on other keys."""


def layouts_named(field: str, text: str) -> tuple[Layout | InputError, ...]:
    """Every layout in a text such as `tp=1,2,4,pp=1,2`; a bare number continues the key before it.

    The last key varies fastest. Degrees may be ranges (`tp=1..8:x2`). A layout that is invalid for any model is
    returned as its error. Raises InputError for unknown keys and values.

    >>> [layout.text() for layout in layouts_named("layout", "tp=1,2,pp=1,2")]
    ['one chip', 'pp=2', 'tp=2', 'tp=2, pp=2']
    """
    if len(text) > LONGEST_TEXT:
        raise InputError(field, text, f"at most {LONGEST_TEXT} characters")
    keys: dict[str, list[str]] = {}
    last = ""
    for word in (part.strip() for part in re.split(r"[,\s]+", text.strip())):
        if "=" in word or word in FLAGS:
            last, equals, value = word.partition("=")
            if last in keys:
                raise InputError(field, text, f"{last} once")
            keys[last] = [value if equals else "1"]
        elif word and last:
            keys[last].append(word)
        else:
            raise InputError(field, word, "degrees such as tp=1,2,4,pp=1,2")
    choices = [[f"{key}={value}" for part in parts for value in _degrees(part)] for key, parts in keys.items()]
    for word in (word for chosen in choices for word in chosen):
        _check_alone(word)
    size = int(np.prod([len(c) for c in choices], dtype=float))
    if size > MOST_LAYOUTS:
        raise InputError(field, text, f"at most {MOST_LAYOUTS:,} layouts")
    return tuple(map(_tried, product(*choices)))


def _degrees(text: str) -> list[str]:
    """A range of integers as a list of numbers; other text unchanged."""
    return [str(v) for v in numbers_named("layout", text).tolist()] if ".." in text else [text]


def _check_alone(word: str) -> None:
    """Raises InputError for an unknown key, and for a value that is invalid whatever the other keys are."""
    try:
        layout_named(word)
    except InputError as error:
        if word.partition("=")[0] not in JOINT or not isinstance(error.value, (int, bool, list)):
            raise


def _tried(words: Sequence[str]) -> Layout | InputError:
    try:
        return layout_named(",".join(words))
    except InputError as error:
        return error
