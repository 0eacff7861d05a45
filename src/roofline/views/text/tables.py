"""A table that prints to a terminal, as Markdown or as CSV."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import written
from roofline.declared.result import Figured, Units
from roofline.declared.sanitize import csv_cell, inert_line, inert_lines, inert_markdown, markdown_cell
from roofline.extras import check_frames

TableCell: TypeAlias = Count | str | tuple[Count, Count] | None
"""A table cell: a number with a unit, a word, an interval, or None."""
GAP = 2
"""Spaces between two columns."""
LEAST_VALUE = 12
"""Characters of a line that the value of a fact has at least."""
TOGETHER = re.compile(r"(?<=\d) (?=[%A-Za-zµ])|(?<=[×±≤≥]) ")
"""Spaces that do not break: between a number and its unit, and after a sign."""
JOINT = "\ue000"
"""Private-use character that replaces such a space during wrapping."""
WIDEST = 120
"""Maximum line width, also in wider windows, files and pipes; `--wide` removes the limit."""
_ALL_COLUMNS: ContextVar[bool] = ContextVar("_ALL_COLUMNS", default=False)


@dataclass(frozen=True)
class Column(Figured):
    """A heading and the unit of its values, one of `roofline.declared.numbers.units.TEXTS`; words have none."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("name", "unit"), "")

    name: str
    unit: str = ""
    drop: int = 0
    """Order in which columns are left out of a table that is too wide: empty ones, then the highest number, then 0 from
    the last; the first column stays."""
    long: int = 0
    """Characters to which text may be truncated; 0 for text that is never truncated."""

    @property
    def right(self) -> bool:
        """Whether values are aligned to the right, as numbers are."""
        return bool(self.unit)

    @property
    def header(self) -> str:
        """Column name in a file, with its SI unit, if any."""
        return f"{self.name} ({self.unit})" if self.unit in ("s", "B", "FLOP", "FLOP/B", "USD") else self.name


@dataclass(frozen=True)
class Table(Figured):
    """Rows of values under columns; `total` rows come last, set apart. `name`: file name; `hidden`: only written to
    files."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("name", "columns", "rows", "total"), "")

    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    total: tuple[tuple[TableCell, ...], ...] = ()
    title: str = ""
    name: str = ""
    hidden: bool = False
    facts: bool = False
    """Names and values of one object instead of records: a long value wraps over several lines."""

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """Rows as displayed text."""
        return tuple(map(self._texts, self.rows))

    @cached_property
    def total_cells(self) -> tuple[tuple[str, ...], ...]:
        """Total rows as displayed text."""
        return tuple(map(self._texts, self.total))

    def _texts(self, row: tuple[TableCell, ...]) -> tuple[str, ...]:
        return tuple(inert_line(written(v, c.unit)) for v, c in zip(row, self.columns, strict=True))

    @property
    def header(self) -> tuple[str, ...]:
        """Column names in a file."""
        return tuple(c.header for c in self.columns)

    def widths(self) -> list[int]:
        """Width of each column in characters, without wrapping."""
        body = [[c.name for c in self.columns], *self.cells, *self.total_cells]
        return [max(len(row[i]) for row in body) for i in range(len(self.columns))]

    def fitted(self, width: int) -> FittedTable:
        """The columns that fit into `width` characters, chosen by `Column.drop`, with their widths."""
        natural = self.widths()
        if self.facts:
            name, value = natural
            return FittedTable(self, (0, 1), (name, min(value, max(LEAST_VALUE, width - name - GAP))))
        pairs = zip(self.columns, natural, strict=True)
        least = [min(w, max(c.long, len(c.name))) if c.long else w for c, w in pairs]
        filled = [any(row[i] for row in (*self.cells, *self.total_cells)) for i in range(len(self.columns))]
        shown = list(range(len(self.columns)))
        while len(shown) > 1 and _total(least[i] for i in shown) > width:
            shown.remove(max(shown[1:], key=lambda i: (not filled[i], self.columns[i].drop, i)))
        if len(shown) == 1:
            least[shown[0]] = min(least[shown[0]], width)
        spare = max(0, width - _total(least[i] for i in shown))
        for i in sorted(shown, key=lambda i: natural[i] - least[i]):  # what lacks least is whole first
            more = min(natural[i] - least[i], spare)
            least[i], spare = least[i] + more, spare - more
        return FittedTable(self, tuple(shown), tuple(least[i] for i in shown))

    def csv(self) -> str:
        """Plain figures, a line for each row."""
        return csv_text(self.header, [*self.rows, *self.total])

    def parquet(self) -> bytes:
        """Parquet with plain figures in the table's columns, without totals."""
        return parquet(self.header, self.rows)


@dataclass(frozen=True)
class FittedTable:
    """A table fitted to the available width: indices of the columns shown, and their widths."""

    table: Table
    shown: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names of the columns that are not shown."""
        return tuple(c.name for i, c in enumerate(self.table.columns) if i not in self.shown)

    @property
    def cut(self) -> tuple[str, ...]:
        """Names of the columns with truncated text."""
        natural = self.table.widths()
        pairs = zip(self.shown, self.widths, strict=True)
        return () if self.table.facts else tuple(self.table.columns[i].name for i, w in pairs if w < natural[i])

    @property
    def lines(self) -> Iterator[tuple[str, bool]]:
        """Lines of heading, rule and rows, and whether each is emphasized; one line per row."""
        yield self._line(tuple(c.name for c in self.table.columns)), True
        rule = "─" * _total(self.widths)
        yield rule, False
        for row in self.table.cells:
            yield from ((line, False) for line in self._row(row))
        if self.table.total:
            yield rule, False
        for row in self.table.total_cells:
            yield from ((line, True) for line in self._row(row))

    def _row(self, row: Sequence[str]) -> Iterator[str]:
        if not self.table.facts:
            yield self._line(row)
            return
        from textwrap import wrap

        name, value = row
        for i, part in enumerate(wrap(value, self.widths[-1], break_on_hyphens=False) or [""]):
            yield self._line(("" if i else name, part))

    def _line(self, row: Sequence[str]) -> str:
        cells = []
        for i, width in zip(self.shown, self.widths, strict=True):
            text = _cut(row[i], width)
            cells.append(text.rjust(width) if self.table.columns[i].right else text.ljust(width))
        return (GAP * " ").join(cells).rstrip()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _total(widths: Iterable[int]) -> int:
    """Total width of adjacent columns."""
    each = tuple(widths)
    return sum(each) + GAP * (len(each) - 1)


@contextmanager
def all_columns(asked: bool) -> Iterator[None]:
    """Context in which tables show all columns and whole texts if `asked`, at any width: `--wide`."""
    token = _ALL_COLUMNS.set(asked)
    try:
        yield
    finally:
        _ALL_COLUMNS.reset(token)


def print_table(table: Table) -> None:
    """Print a table to stdout, at most as wide as a line may be."""
    print_tables((table, ""))


def json_text(data: object) -> str:
    """JSON, indented. Raises ValueError for a number that JSON cannot hold."""
    from json import dumps

    return dumps(data, indent=2, allow_nan=False)


def print_json(data: object) -> None:
    """JSON to stdout."""
    print_line(json_text(data))


def print_tables(*tables: tuple[Table, str]) -> None:
    """Print tables; each is followed by the columns that did not fit and its note."""
    width = window_width()
    for i, (table, note) in enumerate(tables):
        if i:
            print_line("")
        if table.title:
            _print_lines((line, True) for line in broken(inert_line(table.title), width))
        fitted = table.fitted(sys.maxsize if _ALL_COLUMNS.get() else width)
        _print_lines(fitted.lines)
        if missing := missing_text(fitted, width):
            print_text(missing)
        if note:
            print_text(note)


def missing_text(fitted: FittedTable, width: int) -> str:
    """The columns that a table of `width` characters lacks, and how to show them; empty if it has all."""
    said = [f"not shown at {width} columns: {', '.join(fitted.dropped)}"] if fitted.dropped else []
    if fitted.cut:
        where = "cut" if said else f"cut at {width} columns"
        said.append(f"{where}: {', '.join(fitted.cut)}")
    return "; ".join([*said, "--wide shows all"]) if said else ""


def plain_text(table: Table) -> str:
    """Columns padded with spaces and not truncated, for files and line-by-line readers."""
    lines = [line for line, _ in table.fitted(sys.maxsize).lines]
    return "\n".join([inert_line(table.title), *lines] if table.title else lines)


def _print_lines(lines: Iterable[tuple[str, bool]]) -> None:
    """Print lines to stdout, emphasized ones in bold on a terminal."""
    if not sys.stdout.isatty():
        print_line("\n".join(line for line, _ in lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(width=sys.maxsize, highlight=False)
    for line, bold in lines:
        console.print(Text(line, style="bold" if bold else ""), crop=False, no_wrap=True, overflow="ignore")


def markdown(table: Table) -> str:
    """A GitHub-style table."""
    heads = [c.name for c in table.columns]
    rule = ["--:" if c.right else ":--" for c in table.columns]
    lines = [_row(heads), _row(rule), *(_row(r) for r in (*table.cells, *table.total_cells))]
    return "\n".join([f"**{inert_markdown(table.title)}**\n", *lines] if table.title else lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_cell(cell) for cell in cells) + " |"


def csv_text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """RFC 4180 with unix line ends."""
    import csv  # loaded where a file is asked for

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([csv_cell(cell) for cell in row] for row in (header, *rows))
    return out.getvalue()


def parquet(header: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    """A Parquet file of plain numbers and words, a column for each heading. Raises InputError if Polars is missing."""
    check_frames("form", "parquet", "csv")
    import polars

    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    content = io.BytesIO()
    polars.DataFrame(columns, strict=False).write_parquet(content)
    return content.getvalue()


def window_width() -> int:
    """Line width: that of the window (`COLUMNS`, else the terminal), at most WIDEST; WIDEST for a pipe."""
    from shutil import get_terminal_size

    return min(get_terminal_size((WIDEST, 24)).columns, WIDEST)


def print_line(text: str) -> None:
    """Print plain text to stdout unchanged."""
    sys.stdout.write(f"{inert_lines(text)}\n")


def print_text(text: str) -> None:
    """Print prose to stdout, wrapped at the line width."""
    width = window_width()
    print_line("\n".join(part for line in inert_lines(text).split("\n") for part in broken(line, width)))


def broken(line: str, width: int) -> list[str]:
    """Wrap a line; continuation lines are indented to the start of its text (also after `name text`)."""
    from textwrap import wrap

    if len(line) <= width:
        return [line]
    start = re.match(r" *(\S+( \S+)?  +)?", line)
    indent = start.end() if start and start.end() <= width // 2 else 0
    parts = wrap(TOGETHER.sub(JOINT, line), width, subsequent_indent=indent * " ", break_on_hyphens=False)
    return [part.replace(JOINT, " ") for part in parts]
