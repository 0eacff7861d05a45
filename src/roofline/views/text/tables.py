"""A table once, printed for a terminal, as Markdown or as CSV."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeAlias, TypeVar

from roofline.declared.maths import Count
from roofline.declared.result import Figured, Units
from roofline.declared.sanitize import csv_cell, inert_line, inert_lines, inert_markdown, markdown_cell
from roofline.declared.units import written
from roofline.extras import check_frames

T = TypeVar("T")
TableCell: TypeAlias = Count | str | tuple[Count, Count] | None
"""A value under a column: a number of its unit, a word, an interval, or nothing."""
GAP = 2
"""Blanks between two columns."""
WRAPPED = 24
"""Characters that a column of long text keeps at least."""


@dataclass(frozen=True)
class Column(Figured):
    """A heading and the unit of the values below it, one of `roofline.declared.units.TEXTS`; words have none.

    `drop`: in a window too narrow for the table the columns with the highest go first, those with 0 never. `wrap`: long
    text that may run over several lines.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("name", "unit"), "")

    name: str
    unit: str = ""
    drop: int = 0
    wrap: bool = False

    @property
    def right(self) -> bool:
        """Numbers stand to the right."""
        return bool(self.unit)

    @property
    def header(self) -> str:
        """The name in a file, with an SI unit where it has one."""
        return f"{self.name} ({self.unit})" if self.unit in ("s", "B", "FLOP", "FLOP/B", "USD") else self.name


@dataclass(frozen=True)
class Table(Figured):
    """Rows of values under columns; `total` rows come last, set apart. `name`: of its file; `hidden`: only a file."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("name", "columns", "rows", "total"), "")

    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    total: tuple[tuple[TableCell, ...], ...] = ()
    title: str = ""
    name: str = ""
    hidden: bool = False

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The rows as a person reads them."""
        return tuple(map(self._texts, self.rows))

    @cached_property
    def total_cells(self) -> tuple[tuple[str, ...], ...]:
        """The total rows as a person reads them."""
        return tuple(map(self._texts, self.total))

    def _texts(self, row: tuple[TableCell, ...]) -> tuple[str, ...]:
        return tuple(inert_line(written(v, c.unit)) for v, c in zip(row, self.columns, strict=True))

    @property
    def header(self) -> tuple[str, ...]:
        """The columns' names in a file."""
        return tuple(c.header for c in self.columns)

    def widths(self) -> list[int]:
        """Characters each column takes where nothing is wrapped."""
        body = [[c.name for c in self.columns], *self.cells, *self.total_cells]
        return [max(len(row[i]) for row in body) for i in range(len(self.columns))]

    def least(self) -> list[int]:
        """Characters each column needs."""
        return [min(w, WRAPPED) if c.wrap else w for c, w in zip(self.columns, self.widths(), strict=True)]

    def within(self, width: int) -> Table:
        """The table with as many of its columns as a window of `width` characters has room for."""
        if sum(self.least()) + GAP * (len(self.columns) - 1) <= width or not any(c.drop for c in self.columns):
            return self
        first = max(range(len(self.columns)), key=lambda i: self.columns[i].drop)

        def rest(row: tuple[T, ...]) -> tuple[T, ...]:
            return row[:first] + row[first + 1 :]

        rows, total = tuple(map(rest, self.rows)), tuple(map(rest, self.total))
        return replace(self, columns=rest(self.columns), rows=rows, total=total).within(width)

    def csv(self) -> str:
        """Plain figures, a line for each row."""
        return csv_text(self.header, [*self.rows, *self.total])

    def parquet(self) -> bytes:
        """A column of plain figures for each of the table's; the totals are left out."""
        return parquet(self.header, self.rows)


def print_table(table: Table) -> None:
    """To stdout: on a terminal what its window has room for, all of it in a file or pipe."""
    print_tables((table, ""))


def json_text(data: object) -> str:
    """JSON, indented. Raises ValueError for a number that JSON cannot hold."""
    from json import dumps

    return dumps(data, indent=2, allow_nan=False)


def print_json(data: object) -> None:
    """JSON to stdout."""
    print_line(json_text(data))


def print_tables(*tables: tuple[Table, str]) -> None:
    """Tables, each with the note below it, and on stderr the columns for which the window is too narrow."""
    window = sys.stdout.isatty()
    missing: dict[str, Column] = {}
    for i, (table, note) in enumerate(tables):
        if i:
            print_line("")
        if window:
            width = window_width()
            shown = table.within(width)
            missing |= {c.name: c for c in table.columns if c not in shown.columns}
            _print_rich(shown, width)
        else:
            print_line(plain_text(table))
        if note:
            print_text(note)
    if missing:
        sys.stdout.flush()
        print(f"too narrow for {', '.join(missing)}: a pipe gets all columns", file=sys.stderr)


def plain_text(table: Table) -> str:
    """Columns padded with spaces, nothing cut: for files, pipes and whoever reads them line by line."""
    heads, widths = tuple(c.name for c in table.columns), table.widths()

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, table.columns, strict=True)
        return (GAP * " ").join(t.rjust(w) if c.right else t.ljust(w) for t, w, c in cells).rstrip()

    rule = "─" * (sum(widths) + GAP * (len(widths) - 1))
    lines = [line(heads), rule, *(line(row) for row in table.cells)]
    if table.total:
        lines += [rule, *(line(row) for row in table.total_cells)]
    return "\n".join([inert_line(table.title), *lines] if table.title else lines)


def _print_rich(table: Table, width: int) -> None:
    """Long text is wrapped, a number never: what then is too wide for the window, the window folds."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    least = table.least()
    console = Console(width=max(width, sum(least) + GAP * (len(least) - 1)))
    drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False)
    for column, needs in zip(table.columns, least, strict=True):
        drawn.add_column(
            column.name, justify="right" if column.right else "left", header_style="bold", no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis", min_width=None if column.wrap else needs,
        )  # fmt: skip
    for row in table.cells:
        drawn.add_row(*map(Text, row))
    for i, row in enumerate(table.total_cells):
        if i == 0 and table.rows:
            drawn.add_section()
        drawn.add_row(*map(Text, row), style="bold")
    if table.title:
        console.print(Text(inert_line(table.title), style="bold"), width=width)
    console.print(drawn)


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
    """Characters in a line of the terminal."""
    from shutil import get_terminal_size

    return get_terminal_size().columns


def print_line(text: str) -> None:
    """A line of plain text to stdout."""
    sys.stdout.write(f"{inert_lines(text)}\n")


def print_text(text: str) -> None:
    """Lines for people to stdout: in a window broken between words, in a file or pipe as they are."""
    text = inert_lines(text)
    if sys.stdout.isatty():
        width = window_width()
        text = "\n".join(_broken(line, width) for line in text.split("\n"))
    print_line(text)


def _broken(line: str, width: int) -> str:
    """The line over several, the further ones indented as far as its text is (behind `name   text` too)."""
    from textwrap import fill

    if len(line) <= width:
        return line
    start = re.match(r" *(\S+( \S+)?  +)?", line)
    indent = (start.end() if start else 0) * " "
    return fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
