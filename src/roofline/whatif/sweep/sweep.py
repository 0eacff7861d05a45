"""`sweep`: a table over any combination of axes, from a few rows to more than memory holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.kinds import Given
from roofline.declared.numbers.arrays import Array
from roofline.declared.result import FigureValue, Result, Units
from roofline.inference.deployment import machine_chip
from roofline.model.load import Source
from roofline.model.model import Model
from roofline.serving.simulate.checkpoint import digest_of
from roofline.version import __version__
from roofline.whatif.query.axes import space_of
from roofline.whatif.query.columns import Rows, Words, frame_of, joined_rows, listed_values, row_count
from roofline.whatif.query.evaluate import PieceRows, Sweeper, sweeper_of
from roofline.whatif.search.space import Space
from roofline.whatif.sweep.workers import each_in_order

if TYPE_CHECKING:
    from polars import DataFrame

MOST_IN_MEMORY = 10**7
"""Maximum number of points of a sweep in memory."""
MOST_POINTS = 10**12
"""Maximum number of points of any sweep."""


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """A table of all valid combinations of axes that meet a condition, the last axis fastest.

    `axes`: number of values of each; `points`: their product; `dropped`: number of invalid points by reason. A column
    has one value per row; `columns_of` gives the units.
    """

    SCHEMA: ClassVar[str] = "roofline.sweep/1"
    FIGURES: ClassVar[Units] = dict.fromkeys(
        ("phase", "where", "axes", "points", "plans", "rows", "dropped", "columns_of", "table"), ""
    )

    sweeper: Sweeper
    values: Rows
    dropped: Mapping[str, int]

    @property
    def phase(self) -> str:
        """The question asked at every point."""
        return self.sweeper.space.phase

    @property
    def where(self) -> str:
        """The condition on rows."""
        return self.sweeper.condition.text

    @property
    def axes(self) -> Mapping[str, int]:
        """The axes and their numbers of values."""
        return axis_sizes(self.sweeper.space)

    @property
    def points(self) -> int:
        """Number of points in the space."""
        return self.sweeper.space.points

    @property
    def plans(self) -> int:
        """Number of combinations of settings."""
        return self.sweeper.space.plans

    @property
    def rows(self) -> int:
        """Number of points that are valid and meet the condition."""
        return row_count(self.values)

    @property
    def columns_of(self) -> Mapping[str, str]:
        """The columns and their units."""
        return {column.name: column.unit for column in self.sweeper.columns}

    @property
    def table(self) -> Mapping[str, FigureValue]:
        """Every column, with a value per row."""
        return self.columns()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows,)

    def columns(self) -> dict[str, list[FigureValue]]:
        return {name: listed_values(values) for name, values in self.values.items()}

    def to_frame(self) -> DataFrame:
        return frame_of(self.values)

    def __getitem__(self, name: str) -> Array:
        """A column as an array. Raises InputError for an unknown column."""
        if name not in self.values:
            raise not_one_of("column", name, self.values)
        values = self.values[name]
        return values.text() if isinstance(values, Words) else values


def axis_sizes(space: Space) -> Mapping[str, int]:
    """The axes of a space and their numbers of values."""
    sizes = {choice.name: len(choice.labels) for choice in space.choices}
    return sizes | {axis.name: len(axis.values) for axis in space.numbers}


def sweep(
    model: Model | Source, *, phase: str = "decode", where: str = "", columns: Sequence[str] | None = None,
    cluster: str | None = None, **axes: Given,
) -> Sweep:  # fmt: skip
    """Evaluate every combination of axes, each of them one value or many, into a table.

    phase: the question asked at each point. `decode` over batch and context, `prefill` over batch and input, `generate`
    over batch, input and output, `serve` over input, output, prefix and either concurrency or rate, `train` over batch,
    tokens and micro_batch.
    axes: numbers are a number, a list, a range, an array or a text (`1..512:x2`, `1Ki,4Ki`, `16..256:+16`). Settings
    are those of a place (on, layout, precision, engine, law), each one value or a list. Layouts may be texts such as
    `tp=1,2,4,pp=1,2`, for every combination, or degrees by themselves (tp=[1, 2]). `figures` (`bw=2T,4T`) changes
    figures of the chips. `train` also takes recompute, recipe, optimizer, schedule and loss. `model`: one or a list.
    where: a condition on columns, `fits and tpot < 30ms`.
    columns: columns in addition to the axes, or `all`.
    cluster: `local` or the address of a Dask scheduler, whose workers evaluate the pieces.
    Invalid combinations (a degree that does not divide, a format that the chip lacks, too few chips, a sequence beyond
    the model's context, a rate above the server's maximum) are left out and counted in `dropped`.
    Raises InputError for invalid settings, where no combination is valid, and for more than 10^7 points.
    """
    sweeper = sweeper_of(space_of(model, phase, axes), split_names(columns), where)
    check_size(sweeper.space, MOST_IN_MEMORY)
    return collected(sweeper, each_in_order(sweeper.piece, range(sweeper.space.pieces), cluster))


def split_names(columns: object) -> list[str] | None:
    """Names of columns, from a list or separated by commas."""
    if columns is None:
        return None
    words = columns.split(",") if isinstance(columns, str) else columns
    if not isinstance(words, (list, tuple)) or not all(isinstance(w, str) for w in words):
        raise InputError("columns", columns, "names of columns")
    return [word.strip() for part in words for word in part.split(",") if word.strip()]


def collected(sweeper: Sweeper, pieces: Iterable[PieceRows]) -> Sweep:
    """The rows of all pieces as one table in memory."""
    dropped: Counter[str] = Counter()
    parts: list[Rows] = []
    for piece in pieces:
        dropped.update(piece.dropped)
        if piece.size or not parts:
            parts.append(piece.rows)
    return Sweep(sweeper, joined_rows(parts), dict(dropped))


def sweep_digest(sweeper: Sweeper) -> str:
    """SHA-256 of everything that determines the rows: axes, current chip data, columns, condition, version."""
    space = sweeper.space
    chips = [machine_chip(on) for choice in space.choices if choice.name == "on" for on in choice.settings]
    names = [column.name for column in sweeper.columns]
    return digest_of(space, chips, names, sweeper.condition.text, __version__)


def check_size(space: Space, most: int) -> None:
    """Raises InputError for more points than `most`."""
    if space.points > most:
        sizes = " × ".join(f"{size:,} {name}" for name, size in axis_sizes(space).items() if size > 1)
        expected = f"at most {most:,} points" + (" in memory: a file takes more" if most == MOST_IN_MEMORY else "")
        raise InputError("axes", f"{space.points:,} points ({sizes})", expected)
