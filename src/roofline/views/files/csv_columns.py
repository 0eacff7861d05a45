"""CSV from columns: RFC 4180 with unix line ends; every number is the shortest that reads back as itself.

Exponents have no leading zeros (`1e-7`) and begin below 1e-5; flags are `true` and `false`; what is missing is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from roofline.declared.result import FigureValue
from roofline.declared.sanitize import csv_cell
from roofline.views.files.decimals import Texts, float_texts, python_texts, text_rows, whole_texts
from roofline.whatif.query.columns import ColumnValues, Words

Column = ColumnValues | Sequence[FigureValue]
AT_ONCE = 2**13
"""Rows whose cells are in memory at the same time."""
FLAGS = text_rows([b"false", b"true"])


def csv_bytes(columns: Mapping[str, Column]) -> bytes:
    """A header, and a line for each row."""
    return csv_header(columns) + csv_lines(list(columns.values()))


def csv_header(names: Iterable[str]) -> bytes:
    """The line of the columns' names."""
    return f"{','.join(map(_word, names))}\n".encode()


def csv_lines(columns: Sequence[Column]) -> bytes:
    """A line for each row."""
    alike = [values if isinstance(values, (np.ndarray, Words)) else _of_one_type(values) for values in columns]
    size = len(alike[0]) if alike else 0
    return b"".join(_lines(alike, slice(start, start + AT_ONCE)) for start in range(0, size, AT_ONCE))


def _of_one_type(values: Sequence[FigureValue]) -> Sequence[FigureValue]:
    """Words, numbers or flags of one type, and None: words where any is one, else floats."""
    kinds = set(map(type, values))
    kind = str if str in kinds else float if {int, float} <= kinds else None
    return values if kind is None else [None if value is None else kind(value) for value in values]


def _lines(columns: Sequence[Column], rows: slice) -> bytes:
    """The lines of some rows; floats that are equal to those of a column before are written once."""
    cells: list[Texts] = []
    known: dict[bytes, Texts] = {}
    for column in columns:
        part = Words(column.codes[rows], column.names) if isinstance(column, Words) else column[rows]
        if isinstance(part, np.ndarray) and part.dtype == np.float64:
            content = part.tobytes()
            if content not in known:
                known[content] = float_texts(part)
            cells.append(known[content])
        else:
            cells.append(_cells(part))
    ends = [np.full((len(cells[0]), 1), end, dtype=np.uint8) for end in b"," * (len(cells) - 1) + b"\n"]
    parts = [part for cell_and_end in zip(cells, ends, strict=True) for part in cell_and_end]
    return np.concatenate(parts, axis=1).tobytes().translate(None, b"\0")


def _cells(values: Column) -> Texts:
    """The cells of a column."""
    if isinstance(values, Words):
        return text_rows([_word(name).encode() for name in values.names])[values.codes]
    if isinstance(values, np.ndarray):
        return FLAGS[values.astype(int)] if values.dtype.kind == "b" else whole_texts(values)
    if any(isinstance(value, str) for value in values):
        return text_rows([b"" if value is None else _word(value).encode() for value in values])
    return python_texts(list(values))


def _word(word: str) -> str:
    """A cell of text, in quotes where it needs them; what is empty has them, since a missing value has none."""
    text = str(csv_cell(word))
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if not text or set(text) & set(',"') else text
