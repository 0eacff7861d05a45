"""Text of a sweep: its size, its best or first rows, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofline.declared.errors import not_one_of
from roofline.declared.numbers.units import TEXTS, counted, whole
from roofline.views.files.sweep_file import encoded
from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.query.columns import Rows, dicts_of, first_rows
from roofline.whatif.query.evaluate import Sweeper
from roofline.whatif.query.figures import ColumnKind
from roofline.whatif.search.space import Space
from roofline.whatif.sweep.sweep import axis_sizes

MANY = 100
"""Number of columns above which the ends of intervals are left out first if a table is too wide."""


@dataclass(frozen=True)
class Order:
    """Which rows of a sweep are shown: the first `most`, or those with the lowest or (`falling`) highest values of a
    column."""

    most: int
    column: str = ""
    falling: bool = False

    def best(self, rows: Rows) -> Rows:
        """The rows to show."""
        return first_rows(rows, self.most, self.column, self.falling)


def order_named(text: str | None, most: int, sweeper: Sweeper) -> Order:
    """Parse `tpot`, lowest first, or `-tokens_per_second`, highest first. Raises InputError if the rows have no such
    column."""
    if text is None:
        return Order(most)
    name = text.removeprefix("-")
    names = [column.name for column in sweeper.columns]
    if name not in names:
        raise not_one_of("--sort", name, names)
    return Order(most, name, text.startswith("-"))


@dataclass(frozen=True)
class PieceFile:
    """A piece for a file: its bytes, number of rows, what was left out, and the rows to show."""

    content: bytes
    rows: int
    dropped: Mapping[str, int]
    best: Rows


@dataclass(frozen=True)
class PieceTask:
    """Work of a worker on a piece of a sweep for a file."""

    sweeper: Sweeper
    ending: str
    order: Order

    def __call__(self, number: int) -> PieceFile:
        piece = self.sweeper.piece(number)
        return PieceFile(
            encoded(piece.rows, self.ending) if piece.size else b"", piece.size, piece.dropped,
            self.order.best(piece.rows),
        )  # fmt: skip


# -- text ----------------------------------------------------------------------------------------------------------
def size_text(space: Space) -> str:
    """Number of points and the axes."""
    sizes = [f"{whole(size)} {name}" for name, size in axis_sizes(space).items() if size > 1]
    return f"{counted(space.points, 'point')} of {space.phase}" + (f": {' × '.join(sizes)}" if len(sizes) > 1 else "")


def rows_table(sweeper: Sweeper, shown: Rows) -> Table:
    """Rows under their columns; axes with one value are in the title."""
    single = {name for name, size in axis_sizes(sweeper.space).items() if size == 1}
    dicts = dicts_of(shown)
    if "layout" not in axis_sizes(sweeper.space) and len({row["layout"] for row in dicts}) == 1:
        single.add("layout")
    title = [f"{name} {value}" for row in dicts[:1] for name, value in row.items() if name in single]
    kinds = [column for column in sweeper.columns if column.name not in single]
    columns = tuple(_column(kind, place) for place, kind in enumerate(kinds))
    rows = tuple(
        tuple(_cell(row[kind.name], column) for kind, column in zip(kinds, columns, strict=True)) for row in dicts
    )
    return Table(columns, rows, title=f"{sweeper.space.phase}: {', '.join(title)}" if title else sweeper.space.phase)


def _column(kind: ColumnKind, place: int) -> Column:
    unit = {"int": "count", "float": kind.unit or "plain", "flag": "", "word": ""}[kind.kind]
    ends = MANY if kind.name.endswith(("_low", "_high")) else 0
    return Column(kind.name, unit if unit in TEXTS else "", place + ends if kind.figure else 0)


def _cell(value: str | float | None, column: Column) -> TableCell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–" if not column.unit else None
    return value


def rows_text(space: Space, rows: int, shown: int, order: Order) -> str:
    """Number of rows, and which are shown."""
    ends = "the most" if order.falling else "the least"
    which = f"those with {ends} {order.column}" if order.column else "the first"
    more = f", {whole(shown)} shown, {which}" if shown < rows else ""
    return f"{whole(rows)} of {counted(space.points, 'point')}{more}"


def dropped_text(dropped: Mapping[str, int], most: int = 5) -> Sequence[str]:
    """Lines with the number of points left out by reason, the most frequent first."""
    ordered = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"left out: {counted(points, 'point')}, {reason}" for reason, points in ordered[:most]]
    rest = sum(points for _, points in ordered[most:])
    return [*lines, f"left out: {counted(rest, 'point')} for other reasons"] if rest else lines
