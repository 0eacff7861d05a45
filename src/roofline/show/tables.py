"""A table once, printed for a terminal, as Markdown or as CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A heading; numbers stand to the right."""

    name: str
    right: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of text under columns; `total` rows come last, set apart."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[tuple[str, ...], ...] = ()
    title: str = ""


def print_table(table: Table) -> None:
    """To stdout: with Rich on a terminal, as wide as it needs in a file or pipe."""
    if sys.stdout.isatty():
        _print_rich(table)
    else:
        print_line(plain(table))


def plain(table: Table) -> str:
    """Columns padded with spaces, nothing cut: for files, pipes and whoever reads them line by line."""
    heads = tuple(c.name for c in table.columns)
    body = [heads, *table.rows, *table.total]
    widths = [max(len(row[i]) for row in body) for i in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, table.columns, strict=True)
        return "  ".join(t.rjust(w) if c.right else t.ljust(w) for t, w, c in cells).rstrip()

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [line(heads), rule, *(line(row) for row in table.rows)]
    if table.total:
        lines += [rule, *(line(row) for row in table.total)]
    return "\n".join([table.title, *lines] if table.title else lines)


def _print_rich(table: Table) -> None:
    """A column too long for the window is folded, never cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console()
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for column in table.columns:
        drawn.add_column(column.name, justify="right" if column.right else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*row)
    for i, row in enumerate(table.total):
        if i == 0 and table.rows:
            drawn.add_section()
        drawn.add_row(*row, style="bold")
    if table.title:
        console.print(table.title, style="bold", highlight=False, markup=False, soft_wrap=True)
    console.print(drawn)


def markdown(table: Table) -> str:
    """A GitHub-style table."""
    heads = [c.name for c in table.columns]
    rule = ["--:" if c.right else ":--" for c in table.columns]
    lines = [_row(heads), _row(rule), *(_row(r) for r in (*table.rows, *table.total))]
    return "\n".join([f"**{table.title}**\n", *lines] if table.title else lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def csv_text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """RFC 4180 with unix line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def print_line(text: str) -> None:
    """A line of plain text to stdout."""
    sys.stdout.write(f"{text}\n")
