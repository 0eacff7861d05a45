"""Parse columns of untrusted tables into arrays: whole numbers, times, ids and lists of ids."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.serving.simulate.tables.parsers import MOST_TOKENS
from roofline.serving.simulate.tables.parts import TablePart

LATEST = 2.0**53
"""Times beyond it lose integer precision in a float."""
LONGEST_ID = 256
NOBODY = ("", "-1")
"""Ids that stand for no id."""
ZONED = re.compile(
    r"((?:19[7-9]|20\d|21\d)\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
"""A date and time from 1970 to 2199, with or without an offset from UTC."""
TIMES = "a number from 0, or a date and time such as 2023-11-16 18:15:46.680590"


def whole_column(part: TablePart, name: str, least: int = 0, values: Any = None) -> NDArray[np.int64]:
    """Whole numbers from `least` to 2^31 − 1; `values` replaces the column's own. Raises InputError for other cells."""
    values = part.columns[name] if values is None else values
    expected = f"a whole number from {least} to {MOST_TOKENS}"
    numbers = _whole(values)
    if numbers is None:
        each = [_whole_cell(value) for value in values]
        for row, number in enumerate(each):
            if number is None:
                raise part.wrong(row, name, _plain(values[row]), expected)
        numbers = np.array(each, dtype=np.int64)
    bad = np.flatnonzero((numbers < least) | (numbers > MOST_TOKENS))
    if bad.size:
        raise part.wrong(int(bad[0]), name, _plain(values[bad[0]]), expected)
    return numbers


def _whole(values: Any) -> NDArray[np.int64] | None:
    """Whole numbers in plain notation; None if any cell has another."""
    if isinstance(values, np.ndarray):
        return values.astype(np.int64) if values.dtype.kind in "iu" and values.dtype.itemsize < 8 else _exact(values)
    kinds = set(map(type, values))
    try:
        if kinds == {int}:
            return np.array(values, dtype=np.int64)
        together = "".join(values) if kinds == {str} else "_"
        if together.isascii() and "_" not in together:
            return np.array(list(map(int, values)), dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    return None


def _exact(values: NDArray[Any]) -> NDArray[np.int64] | None:
    if values.dtype.kind not in "iuf":
        return None
    inside = (values >= -(2**53)) & (values <= 2**53)
    if not inside.all() or (values.dtype.kind == "f" and (values != np.floor(values)).any()):
        return None
    return values.astype(np.int64)


def _whole_cell(value: Any) -> int | None:
    """The whole number in a cell, which may end in `.0`; None for any other cell, and beyond 2^53."""
    if isinstance(value, str):
        try:
            value = float(value) if value.isascii() and "_" not in value else None
        except ValueError:
            return None
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -LATEST <= value <= LATEST:
        return None
    return int(value) if value == int(value) else None


def _plain(value: Any) -> Any:
    """A NumPy scalar as a Python value."""
    return value.item() if isinstance(value, np.generic) else value


# -- times ---------------------------------------------------------------------------------------------------------
def time_column(part: TablePart, name: str) -> NDArray[Any]:
    """Times, all of one kind: numbers as float64, or dates as int64 nanoseconds since 1970.

    Raises InputError for negative and infinite numbers, NaN, numbers beyond 2^53, other cells, and for a mix of dates
    with and without an offset from UTC.
    """
    values = part.columns[name]
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return values.astype("datetime64[ns]").astype(np.int64)
    if isinstance(values, list) and isinstance(values[0], str) and ZONED.fullmatch(values[0].strip()):
        return _dates(part, name, values)
    numbers = _numbers(values)
    if numbers is None:
        for row, value in enumerate(values):
            if _numbers([value]) is None:
                raise part.wrong(row, name, _plain(value), TIMES)
    assert numbers is not None
    bad = np.flatnonzero(~((numbers >= 0) & (numbers <= LATEST)))
    if bad.size:
        raise part.wrong(int(bad[0]), name, _plain(values[bad[0]]), TIMES)
    return numbers


def _numbers(values: Any) -> NDArray[np.float64] | None:
    if isinstance(values, np.ndarray):
        return values.astype(np.float64) if values.dtype.kind in "iuf" else None
    kinds = set(map(type, values))
    if not (kinds <= {int, float} or (kinds == {str} and "_" not in "".join(values))):
        return None
    try:
        return np.array(list(map(float, values)))
    except (ValueError, OverflowError):
        return None


def _dates(part: TablePart, name: str, texts: list[Any]) -> NDArray[np.int64]:
    expected = "dates and times such as 2023-11-16 18:15:46.680590, all with an offset from UTC or all without"
    matches = [ZONED.fullmatch(text.strip()) if isinstance(text, str) else None for text in texts]
    zoned = matches[0] is not None and matches[0][2] is not None
    for row, match in enumerate(matches):
        if match is None or (match[2] is not None) != zoned:
            raise part.wrong(row, name, texts[row], expected)
    plain = [match[1] for match in matches if match]
    try:
        times = np.array(plain, dtype="datetime64[ns]").astype(np.int64)
    except ValueError:
        row = next(row for row, text in enumerate(plain) if not _is_date(text))
        raise part.wrong(row, name, texts[row], expected) from None
    if zoned:
        zones = [match[2] for match in matches if match]
        seconds = {zone: _offset(zone) for zone in set(zones)}
        times = times - np.array([seconds[zone] for zone in zones], dtype=np.int64) * 10**9
    return times


def _is_date(text: str) -> bool:
    try:
        np.datetime64(text, "ns")
    except ValueError:
        return False
    return True


def _offset(zone: str) -> int:
    """Offset of a time zone from UTC in seconds, positive to the east."""
    if zone == "Z":
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (3600 * int(zone[1:3]) + 60 * int(zone[-2:]))


# -- ids -----------------------------------------------------------------------------------------------------------
def id_column(part: TablePart, name: str) -> list[str | None]:
    """Ids as text, from text or whole numbers; None for an empty cell and for −1. Raises InputError for other cells."""
    values = part.columns[name]
    values = values.tolist() if isinstance(values, np.ndarray) else values
    if set(map(type, values)) == {str} and max(map(len, values)) <= LONGEST_ID:
        return [None if (text := value.strip()) in NOBODY else text for value in values]
    ids: list[str | None] = []
    for row, value in enumerate(values):
        if isinstance(value, bool) or not (value is None or isinstance(value, (str, int))):
            raise part.wrong(row, name, value, "an id: text or a whole number")
        text = "" if value is None else str(value).strip()
        if len(text) > LONGEST_ID:
            raise part.wrong(row, name, text, f"an id of at most {LONGEST_ID} characters")
        ids.append(None if text in NOBODY else text)
    return ids


def chain_column(part: TablePart, name: str, most: Sequence[int]) -> list[tuple[int, ...]]:
    """Lists of block ids, each from 0 to 2^63 − 1; `most`: number of blocks that each row's prompt fills.

    Raises InputError for other cells, and for more blocks than the prompt fills.
    """
    chains = []
    for row, value in enumerate(part.columns[name]):
        ids = _list(value)
        if ids is None or not set(map(type, ids)) <= {int} or (ids and not 0 <= min(ids) <= max(ids) < 2**63):
            raise part.wrong(row, name, value, "a list of whole numbers from 0 to 2^63")
        if len(ids) > most[row]:
            raise part.wrong(row, name, f"{len(ids)} blocks", f"at most {most[row]}, those that its prompt fills")
        chains.append(tuple(ids))
    return chains


def _list(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None
