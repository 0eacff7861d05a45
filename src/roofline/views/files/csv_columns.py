"""CSV from columns: RFC 4180 with unix line ends; every number is the shortest that reads back as itself (`repr`).

Flags are `true` and `false`; what is missing is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from roofline.declared.result import FigureValue
from roofline.declared.sanitize import csv_cell
from roofline.whatif.query.columns import ColumnValues, Words

Column = ColumnValues | Sequence[FigureValue]
AT_ONCE = 2**13
"""Rows whose cells are held in memory at the same time."""


def csv_bytes(columns: Mapping[str, Column]) -> bytes:
    """A header line and a line for each row."""
    return csv_header(columns) + csv_lines(list(columns.values()))


def csv_header(names: Iterable[str]) -> bytes:
    """The line of column names."""
    return f"{','.join(map(_word, names))}\n".encode()


def csv_lines(columns: Sequence[Column]) -> bytes:
    """A line for each row."""
    alike = [values if isinstance(values, (np.ndarray, Words)) else _of_one_type(values) for values in columns]
    size = len(alike[0]) if alike else 0
    return b"".join(_lines(alike, slice(start, start + AT_ONCE)) for start in range(0, size, AT_ONCE))


def _of_one_type(values: Sequence[FigureValue]) -> Sequence[FigureValue]:
    """Values of one type and None: text if any value is text, else floats if types differ."""
    kinds = set(map(type, values))
    kind = str if str in kinds else float if {int, float} <= kinds else None
    return values if kind is None else [None if value is None else kind(value) for value in values]


def _lines(columns: Sequence[Column], rows: slice) -> bytes:
    """Lines of some rows."""
    parts = (Words(c.codes[rows], c.names) if isinstance(c, Words) else c[rows] for c in columns)
    return "".join(f"{','.join(row)}\n" for row in zip(*map(_cells, parts), strict=True)).encode()


def _cells(values: Column) -> Iterable[str]:
    """Cells of a column."""
    if isinstance(values, Words):
        words = list(map(_word, values.names))
        return [words[code] for code in values.codes.tolist()]
    return map(_cell, values.tolist() if isinstance(values, np.ndarray) else values)


def _cell(value: FigureValue) -> str:
    if isinstance(value, str):
        return _word(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else repr(value)


def _word(word: str) -> str:
    """A text cell, quoted if needed; empty text is quoted, to distinguish it from a missing value."""
    text = str(csv_cell(word))
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if not text or set(text) & set(',"') else text
