"""Parts of untrusted tables, whatever their file format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.declared.errors import InputError

MOST_COLUMNS = 256
LONGEST_NAME = 256

ChooseColumns = Callable[[tuple[str, ...]], Sequence[str]]
"""The names of a table's columns → those needed. Raises InputError where one is missing."""


@dataclass(frozen=True, eq=False)
class TablePart:
    """Consecutive rows of a table. columns: name → a list or an array, all of one length.

    numbers: the line of each row in the file, from 1; in Parquet, where `unit` is `row`, its index from 0.
    """

    path: str
    columns: Mapping[str, Any]
    numbers: Sequence[int]
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.numbers)

    def wrong(self, row: int, column: str, value: object, expected: str) -> InputError:
        """The error for a cell: its position and what it should be."""
        return InputError(f"{self.path}, {self.unit} {self.numbers[row]}: {column}", value, expected)


def checked_names(path: str, names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table. Raises InputError for too many, a repeated one, or one that cannot be printed."""
    if len(names) > MOST_COLUMNS:
        raise InputError(path, f"{len(names)} columns", f"at most {MOST_COLUMNS} columns")
    for name in names:
        if not name.isprintable() or len(name) > LONGEST_NAME:
            raise InputError(path, name, f"columns of at most {LONGEST_NAME} printable characters")
        if names.count(name) > 1:
            raise InputError(path, f"{name!r} twice", "each column once")
    return tuple(names)
