"""Read tables of measurements in the documented format (docs/accuracy.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path

from roofline.declared.errors import InputError, nearest, not_one_of
from roofline.declared.kinds import Given
from roofline.declared.question import OLD_NAMES, Setting
from roofline.measured.accuracy.measurements import ALL_SETTINGS, QUANTITIES, SIZES, MeasuredRun, checked, measured_run
from roofline.model.sources.pieces import csv_file
from roofline.model.sources.untrusted import LARGEST_TABLE, printable

COLUMNS: Mapping[str, str] = {
    "quantity": f"what was measured: {', '.join(f'`{q}`' for q in QUANTITIES)}",
    "model": "a name of the catalog, a Hub id, or the path of a config.json",
    "seconds": "how long it took",
    "cached": "tokens of each sequence that were in the cache before a `prefill`",
    "group": "a name; rows of the same name are scored together, besides all of the file",
    **{name: setting.help for name, setting in ALL_SETTINGS.items()},
}
"""Column → its content."""
NEEDED = ("quantity", "model", "on", "seconds")
_NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d+)?")


class CellError(InputError):
    """Raised for a cell that does not hold what its column requires."""


@dataclass(frozen=True)
class TableRow:
    """A row of a table; its methods check cells and raise a CellError for missing or invalid ones."""

    row: int
    values: Mapping[str, str]

    def text(self, column: str) -> str:
        """Text of a cell, "" if it is empty or there is no such column."""
        return (self.values.get(column) or "").strip()

    def number(self, column: str) -> float:
        """A number above 0, with optional commas between thousands; the first of `1933 (1858)`."""
        text = self.text(column).partition(" ")[0]
        value = float(text.replace(",", "")) if re.search(r"\d", text) and _NUMBER.fullmatch(text) else float("nan")
        if not (isfinite(value) and value > 0):
            raise CellError(column, self.text(column), "a number above 0")
        return value

    def whole(self, column: str, default: int | None = None) -> int:
        """A whole number from 1; `default`, if given, for an empty cell."""
        if default is not None and not self.text(column):
            return default
        value = self.number(column)
        if not value.is_integer():
            raise CellError(column, self.text(column), "a whole number from 1")
        return int(value)


MOST_ROWS = 100_000
"""Most rows of a table of measurements."""


def cells(path: Path) -> Iterator[TableRow]:
    """Rows of a CSV file, numbered from 0. Raises InputError for anything else."""
    yield from _rows(_lines(path))


def _lines(path: Path) -> Iterator[list[str]]:
    return (cells for _, cells in csv_file(path, printable(str(path)), LARGEST_TABLE, MOST_ROWS + 1))


def _rows(lines: Iterator[list[str]]) -> Iterator[TableRow]:
    columns = next(lines, [])
    for row, values in enumerate(lines):
        yield TableRow(row, dict(zip(columns, values, strict=False)))


def documented(path: Path) -> Iterator[TableRow]:
    """Rows of a table in the documented format. Raises InputError for missing or unknown columns."""
    lines = _lines(path)
    columns = [_column(c) for c in next(lines, [])]
    for column in columns:
        if column not in COLUMNS:
            raise InputError("column", column, "a column of docs/accuracy.md", nearest(column, COLUMNS))
    for column in NEEDED:
        if column not in columns:
            raise InputError("columns", ",".join(columns), f"one named {column}")
    first = next(lines, None)
    if first is None:
        raise InputError(printable(str(path)), "no rows", "at least one measurement")
    yield from _rows(chain((columns, first), lines))


def _column(name: str) -> str:
    """The current name of a column."""
    return OLD_NAMES.get(name.strip(), name.strip())


def measurement(r: TableRow) -> MeasuredRun:
    """The measurement in a row of the documented format. Raises InputError for an invalid cell."""
    quantity, group, settings = r.text("quantity"), r.text("group"), _settings(r)
    if r.text("cached"):
        settings["cached"] = r.whole("cached")
        if quantity != "prefill":
            raise CellError("cached", r.text("cached"), "nothing, for all but `prefill`")
    slices = (group, "all") if group else ("all",)
    on = r.text("on")
    return checked(measured_run(quantity, r.number("seconds"), r.text("model"), slices=slices, system=on, **settings))


def _settings(r: TableRow) -> dict[str, Given]:
    """Settings of a row. Raises InputError for one that its quantity's question does not have."""
    known = QUANTITIES[r.text("quantity")].settings if r.text("quantity") in QUANTITIES else ALL_SETTINGS
    settings: dict[str, Given] = {}
    for name, setting in ALL_SETTINGS.items():
        if words := r.text(name):
            if name not in known:
                raise CellError(name, words, f"nothing, for `{r.text('quantity')}`")
            settings[name] = setting.kind.check(name, _read(r, name, setting))
    return settings


def _read(r: TableRow, name: str, setting: Setting) -> Given:
    words = r.text(name)
    if name in SIZES:
        return r.whole(name) if int in setting.kind.json else r.number(name)
    if bool not in setting.kind.json:
        return setting.kind.read(name, words)
    if words not in _SWITCHES:
        raise not_one_of(name, words, _SWITCHES)
    return _SWITCHES[words]


_SWITCHES: Mapping[str, bool] = {"true": True, "false": False}
