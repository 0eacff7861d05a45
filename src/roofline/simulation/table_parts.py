"""Parts of tables nobody vouches for, whatever the form of their file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.declared.errors import InputError

MOST_COLUMNS = 256
LONGEST_NAME = 256

ChooseColumns = Callable[[tuple[str, ...]], Sequence[str]]
"""The names of a table's columns → those that are needed; raises InputError where one is missing."""


@dataclass(frozen=True, eq=False)
class TablePart:
    """Rows of a table that follow each other. columns: a list or an array of each, of one length.

    numbers: of each row its line in the file, from 1; of Parquet the row, from 0, where `unit` is `row`.
    """

    path: str
    columns: Mapping[str, Any]
    numbers: Sequence[int]
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.numbers)

    def wrong(self, row: int, column: str, value: object, expected: str) -> InputError:
        """The error for a cell: where it is and what it should be."""
        return InputError(f"{self.path}, {self.unit} {self.numbers[row]}: {column}", value, expected)


def checked_names(path: str, names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table. Raises InputError for too many, one twice, or one that cannot be printed."""
    if len(names) > MOST_COLUMNS:
        raise InputError(path, f"{len(names)} columns", f"at most {MOST_COLUMNS} columns")
    for name in names:
        if not name.isprintable() or len(name) > LONGEST_NAME:
            raise InputError(path, name, f"columns of at most {LONGEST_NAME} printable characters")
        if names.count(name) > 1:
            raise InputError(path, f"{name!r} twice", "each column once")
    return tuple(names)
