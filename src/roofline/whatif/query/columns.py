"""Columns of rows: arrays of numbers and flags, and dictionary-encoded words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.declared.numbers.arrays import Array
from roofline.declared.result import FigureValue
from roofline.extras import check_frames

if TYPE_CHECKING:
    from polars import DataFrame, Series


@dataclass(frozen=True)
class Words:
    """A column of words, dictionary-encoded: `codes` [rows] are indices into `names`."""

    codes: NDArray[np.uint32]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def text(self) -> Array:
        """The words themselves."""
        return np.array(self.names, dtype=object)[self.codes]

    def equal(self, word: str) -> NDArray[np.bool_]:
        """Whether each row is this word, [rows]."""
        code = self.names.index(word) if word in self.names else len(self.names)
        return np.equal(self.codes, code)


ColumnValues: TypeAlias = Array | Words
Rows: TypeAlias = Mapping[str, ColumnValues]
"""Name of a column → its values; all columns have the same length."""


def words_of(value: FigureValue, size: int) -> Words:
    """Encode one word for all `size` rows, or an array with a word per row."""
    if isinstance(value, str):
        return Words(np.zeros(size, dtype=np.uint32), (value,))
    flat = np.asarray(value).reshape(-1)
    codes, names = np.zeros(flat.size, dtype=np.uint32), list[str]()
    left = np.ones(flat.size, dtype=bool)
    while left.any():
        name = str(flat[int(np.argmax(left))])
        same = flat == name
        codes[same] = len(names)
        names.append(name)
        left &= ~same
    return Words(codes, tuple(names))


def joined_values(parts: Sequence[ColumnValues]) -> ColumnValues:
    """Concatenate the values of several parts."""
    if len(parts) == 1:
        return parts[0]
    words = [part for part in parts if isinstance(part, Words)]
    if not words:
        return np.concatenate(parts)  # type: ignore[arg-type]
    names = tuple(dict.fromkeys(name for part in words for name in part.names))
    place = {name: i for i, name in enumerate(names)}
    maps = (np.array([place[name] for name in part.names], dtype=np.uint32)[part.codes] for part in words)
    return Words(np.concatenate(list(maps)), names)


def at_rows(values: ColumnValues, rows: Array) -> ColumnValues:
    """The values at some rows."""
    return Words(values.codes[rows], values.names) if isinstance(values, Words) else values[rows]


def row_count(rows: Rows) -> int:
    """Number of rows."""
    return len(next(iter(rows.values())))


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Rows of several parts, one after the other; all have the same columns."""
    return {name: joined_values([part[name] for part in parts]) for name in parts[0]}


def first_rows(rows: Rows, most: int, column: str = "", falling: bool = False) -> Rows:
    """The first `most` rows, or those with the least, if `falling` with the most, of a column; NaN comes last.

    Equal ones keep their order.
    """
    if not column:
        return {name: at_rows(values, np.arange(min(most, row_count(rows)))) for name, values in rows.items()}
    values = rows[column]
    if isinstance(values, Words):
        values = np.unique(np.array(values.names), return_inverse=True)[1][values.codes]
    keys = values.astype(np.int64) if values.dtype.kind == "b" else values
    keys = -keys if falling else keys
    chosen = np.arange(len(keys))
    if most < len(keys):  # only these are sorted
        chosen = np.flatnonzero(~(keys > np.partition(keys, most - 1)[most - 1]))
    order = chosen[np.argsort(keys[chosen], kind="stable")][:most]
    return {name: at_rows(values, order) for name, values in rows.items()}


def listed_values(values: ColumnValues) -> list[FigureValue]:
    """The values as plain Python values."""
    plain: list[FigureValue] = (values.text() if isinstance(values, Words) else values).tolist()
    return plain


def dicts_of(rows: Rows) -> list[dict[str, FigureValue]]:
    """Every row as a mapping of plain values; for few rows."""
    columns = [listed_values(values) for values in rows.values()]
    return [dict(zip(rows, row, strict=True)) for row in zip(*columns, strict=True)]


def rows_of(dicts: Sequence[Mapping[str, FigureValue]], like: Rows) -> Rows:
    """Rows from mappings as `dicts_of` makes them, with the columns of `like`.

    Raises LookupError, TypeError or ValueError for mappings that are none of such rows.
    """
    rows: dict[str, ColumnValues] = {}
    for name, known in like.items():
        values = [row[name] for row in dicts]
        kinds = (str,) if isinstance(known, Words) else KINDS[known.dtype.kind]
        if not all(type(value) in kinds for value in values):
            raise TypeError(f"{name}: values of another kind")
        if isinstance(known, Words):
            rows[name] = words_of(np.array(values), len(values))
        else:
            rows[name] = np.array(values, dtype=known.dtype)
    return rows


KINDS = {"b": (bool,), "i": (int,), "f": (float,)}
"""Kind of a column's numbers → the types of its plain values."""


def frame_of(rows: Rows) -> DataFrame:
    """The rows as a Polars frame; words become text. Raises InputError if Polars is missing."""
    check_frames("to_frame", "no polars", "columns()")
    import polars

    def series(name: str, values: ColumnValues) -> Series:
        if isinstance(values, Words):
            names = polars.Series(name, values.names, dtype=polars.String)
            return names.gather(polars.Series(values.codes)) if len(values) else names.clear()
        return polars.Series(name, values)

    return polars.DataFrame([series(name, values) for name, values in rows.items()])
