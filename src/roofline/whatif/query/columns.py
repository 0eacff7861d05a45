"""Columns of rows: arrays of numbers and flags, and dictionary-encoded words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.declared.arrays import Array
from roofline.declared.result import FigureValue

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


def frame_of(rows: Rows) -> DataFrame:
    """The rows as a Polars frame; words become text."""
    import polars

    def series(name: str, values: ColumnValues) -> Series:
        if isinstance(values, Words):
            names = polars.Series(name, values.names, dtype=polars.String)
            return names.gather(polars.Series(values.codes)) if len(values) else names.clear()
        return polars.Series(name, values)

    return polars.DataFrame([series(name, values) for name, values in rows.items()])
