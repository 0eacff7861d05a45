"""CSV from columns: RFC 4180 with unix line ends; every number is the shortest that reads back as itself.

Exponents have no leading zeros (`1e-7`) and begin below 1e-5; flags are `true` and `false`; what is missing is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from roofline.declared.result import FigureValue
from roofline.declared.sanitize import csv_cell
from roofline.whatif.query.columns import ColumnValues, Words

Column = ColumnValues | Sequence[FigureValue]
AT_ONCE = 2**13
"""Rows whose cells are in memory at the same time."""
TINY = "e-05"
"""The exponent that Python writes where CSV has none."""


def csv_bytes(columns: Mapping[str, Column]) -> bytes:
    """A header, and a line for each row."""
    return csv_header(columns) + csv_lines(list(columns.values()))


def csv_header(names: Mapping[str, object]) -> bytes:
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
    """The lines of some rows; an array that is equal to one before it is written once."""
    cells: list[list[str]] = []
    known: dict[tuple[str, bytes], list[str]] = {}
    for values in columns:
        if isinstance(values, np.ndarray):
            content = values.dtype.char, values[rows].tobytes()
            if content not in known:
                known[content] = _numbers(values[rows].tolist())
            cells.append(known[content])
        else:
            cells.append(_cells(Words(values.codes[rows], values.names) if isinstance(values, Words) else values[rows]))
    return ("\n".join(map(",".join, zip(*cells, strict=True))) + "\n").encode()


def _cells(values: Words | Sequence[FigureValue]) -> list[str]:
    """The cells of a column."""
    if isinstance(values, Words):
        names = list(map(_word, values.names))
        return [names[code] for code in values.codes.tolist()]
    if any(isinstance(value, str) for value in values):
        return ["" if value is None else _word(value) for value in values]
    return _numbers(list(values))


def _numbers(values: list[float | None]) -> list[str]:
    """Numbers or flags of one type, and None."""
    text = repr(values)[1:-1]
    for python, written in (("None", ""), ("nan", "NaN"), ("True", "true"), ("False", "false")):
        text = text.replace(python, written)
    for digit in "6789":
        text = text.replace(f"e-0{digit}", f"e-{digit}")
    cells = text.split(", ")
    return [_plain(cell) if cell.endswith(TINY) else cell for cell in cells] if TINY in text else cells


def _plain(cell: str) -> str:
    """A number of the exponent −5 without it."""
    digits = cell.removesuffix(TINY).replace(".", "")
    return f"-0.0000{digits[1:]}" if digits[0] == "-" else f"0.0000{digits}"


def _word(word: str) -> str:
    """A cell of text, in quotes where it needs them; what is empty has them, since a missing value has none."""
    text = str(csv_cell(word))
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if not text or set(text) & set(',"') else text
