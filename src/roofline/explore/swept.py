"""`sweep`: a table of anything over anything, from a few rows to more than memory holds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from roofline.estimates.deployment import machine_chip
from roofline.estimates.settings import setting_labels
from roofline.explore.columns import ColumnValues, Rows, Words, frame_of, joined_values
from roofline.explore.evaluate import PieceRows, Sweeper, sweeper_of
from roofline.explore.questions import Question, question_named
from roofline.explore.ranges import LONGEST_TEXT, layouts_named, values_of
from roofline.explore.space import Choice, Numbers, Space
from roofline.explore.workers import each_in_order
from roofline.layout.layout import DEGREES, Layout, layout_named
from roofline.machine.chip import Chip
from roofline.machine.engine import engine_named
from roofline.machine.fabric import Cluster
from roofline.machine.target import mode_named
from roofline.model.checks import numbers as checked_numbers
from roofline.model.errors import InputError, not_one_of
from roofline.model.load import model_of
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.model.quantization.asked import formats_of
from roofline.result import Result, Units
from roofline.simulation.checkpoint import digest_of
from roofline.version import __version__
from roofline.work.training import training

if TYPE_CHECKING:
    from polars import DataFrame

MOST_IN_MEMORY = 10**7
"""Points of a sweep whose rows stay in memory."""
MOST_POINTS = 10**12
"""Points of any sweep."""
SETTINGS = ("layout", "precision", "engine", "law", "figures")
"""Axes of settings beside the model and the machine."""
CHECKPOINT = "checkpoint"
"""What the formats of the checkpoint itself are called."""


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """Rows of a space: the combinations of its axes that can be and that meet the condition, the last axis fastest.

    `axes`: how many each has; `points`: their product; `dropped`: points left out because they cannot be, and why. A
    column has one value for each row; `columns_of` says their units.
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
        """What was asked at every point."""
        return self.sweeper.space.phase

    @property
    def where(self) -> str:
        """The condition that rows meet."""
        return self.sweeper.condition.text

    @property
    def axes(self) -> Mapping[str, int]:
        """The axes, and how many values each has."""
        return axis_sizes(self.sweeper.space)

    @property
    def points(self) -> int:
        """All points of the space."""
        return self.sweeper.space.points

    @property
    def plans(self) -> int:
        """Combinations of settings."""
        return self.sweeper.space.plans

    @property
    def rows(self) -> int:
        """Points that can be and meet the condition."""
        return len(next(iter(self.values.values())))

    @property
    def columns_of(self) -> Mapping[str, str]:
        """The columns, and the unit of each."""
        return {column.name: column.unit for column in self.sweeper.columns}

    @property
    def table(self) -> Mapping[str, Any]:
        """Every column, a value for each row."""
        return self.columns()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows,)

    def columns(self) -> dict[str, list[Any]]:
        return {name: _listed(values) for name, values in self.values.items()}

    def to_frame(self) -> DataFrame:
        return frame_of(self.values)

    def __getitem__(self, name: str) -> Any:
        """A column as an array. Raises InputError for one that is not there."""
        if name not in self.values:
            raise not_one_of("column", name, self.values)
        values = self.values[name]
        return values.text() if isinstance(values, Words) else values


def _listed(values: ColumnValues) -> list[Any]:
    plain: list[Any] = (values.text() if isinstance(values, Words) else values).tolist()
    return plain


def axis_sizes(space: Space) -> Mapping[str, int]:
    """The axes of a space, and how many values each has."""
    sizes = {choice.name: len(choice.labels) for choice in space.choices}
    return sizes | {axis.name: len(axis.values) for axis in space.numbers}


def sweep(
    model: Any, *, phase: str = "decode", where: str = "", columns: Sequence[str] | None = None,
    cluster: str | None = None, **axes: Any,
) -> Sweep:  # fmt: skip
    """A table over every combination of its axes, each of them one value or many: a `Sweep`.

    phase: what is asked at each point. `decode` over batch and context, `prefill` over batch and input, `generate` over
    batch, input and output, `serve` over input, output, prefix and either concurrency or rate, `train` over batch,
    tokens and micro_batch.
    axes: numbers are a number, a list, a range, an array or a text (`1..512:x2`, `1Ki,4Ki`, `16..256:+16`). Settings
    are those of `Settings` (on, layout, precision, engine, law), each one or a list; layouts may be texts such as
    `tp=1,2,4,pp=1,2`, of every combination, or degrees alone (tp=[1, 2]); `figures` (`bw=2T,4T`) changes figures of
    the chips; of `train` recompute, recipe, optimizer, schedule and loss too. `model`: one or a list.
    where: a condition on columns, `fits and tpot < 30ms`. columns: those that are wanted beside the axes, `all` of
    them. cluster: `local` or the address of a Dask scheduler, whose workers evaluate the pieces.
    Combinations that cannot be (a degree that does not divide, a format that the chip lacks, too few chips, a sequence
    beyond the model's context, a rate that no server takes) are left out and counted in `dropped`.
    Raises InputError for what is not understood, where nothing can be, and for more than 10^7 points.
    """
    sweeper = sweeper_of(space_of(model, phase, axes), split_names(columns), where)
    check_size(sweeper.space, MOST_IN_MEMORY)
    return collected(sweeper, each_in_order(sweeper.piece, range(sweeper.space.pieces), cluster))


def split_names(columns: object) -> list[str] | None:
    """Names of columns, listed or separated by commas."""
    if columns is None:
        return None
    words = columns.split(",") if isinstance(columns, str) else columns
    if not isinstance(words, (list, tuple)) or not all(isinstance(w, str) for w in words):
        raise InputError("columns", columns, "names of columns")
    return [word.strip() for part in words for word in part.split(",") if word.strip()]


def collected(sweeper: Sweeper, pieces: Iterable[PieceRows]) -> Sweep:
    """The rows of all pieces in memory."""
    dropped: Counter[str] = Counter()
    parts: list[Rows] = []
    for piece in pieces:
        dropped.update(piece.dropped)
        if piece.size or not parts:
            parts.append(piece.rows)
    values = {column.name: joined_values([part[column.name] for part in parts]) for column in sweeper.columns}
    return Sweep(sweeper, values, dict(dropped))


def sweep_digest(sweeper: Sweeper) -> str:
    """The SHA-256 of all that decides the rows: the axes, what machines are by now, columns, condition, version."""
    space = sweeper.space
    chips = [machine_chip(on) for choice in space.choices if choice.name == "on" for on in choice.settings]
    names = [column.name for column in sweeper.columns]
    return digest_of(space, chips, names, sweeper.condition.text, __version__)


def check_size(space: Space, most: int) -> None:
    """Raises InputError for more points than that."""
    if space.points > most:
        sizes = " × ".join(f"{size:,} {name}" for name, size in axis_sizes(space).items() if size > 1)
        expected = f"at most {most:,} points" + (" in memory: a file takes more" if most == MOST_IN_MEMORY else "")
        raise InputError("axes", f"{space.points:,} points ({sizes})", expected)


# -- axes ----------------------------------------------------------------------------------------------------------
def space_of(model: Any, phase: str, axes: Mapping[str, Any]) -> Space:
    """The space of axes as `sweep` takes them. Raises InputError for what is not understood."""
    question = question_named(phase)
    known = ("on", *SETTINGS, *DEGREES, *question.axes, *question.options)
    given = {name: value for name, value in axes.items() if value is not None}
    for name in given:
        if name not in known:
            raise not_one_of("axis", name, known)
    if "on" not in given:
        raise InputError("on", None, "a chip or a cluster, or a list of them")
    models = [model_of(m) for m in several(model, (str, os.PathLike, Mapping, Model))]
    settings = [_choice("model", models), _choice("on", several(given["on"], (str, os.PathLike, Chip, Cluster)))]
    for machine in settings[1].settings:
        machine_chip(machine)
    layouts = _layouts(given)
    settings += [] if layouts is None else [Choice("layout", *_named(layouts))]
    for name in (*SETTINGS[1:], *question.options):
        if name in given:
            settings.append(_choice(name, _checked(name, given[name], models)))
    return Space(phase, tuple(settings), _numbers(question, given))


def several(value: Any, one: tuple[type, ...]) -> list[Any]:
    """One value or a list of them as a list. Raises InputError for an empty one."""
    values = [value] if value is None or isinstance(value, one) else list(value)
    if not values:
        raise InputError("axis", value, "at least one value")
    return values


def _choice(name: str, values: Sequence[Any]) -> Choice:
    names = [CHECKPOINT if name == "precision" and value is None else value for value in values]
    return Choice(name, tuple(values), setting_labels(name, names))


def _checked(name: str, value: Any, models: Sequence[Model]) -> list[Any]:
    """The settings of an axis, each of which is one. Raises InputError for one that is none."""
    if name == "figures":
        return [text for word in several(value, (str,)) for text in figures_named(word)]
    kinds: Mapping[str, Callable[[Any], object]] = {
        "precision": lambda v: any(_has_formats(m, v, m is models[-1]) for m in models),
        "engine": lambda v: engine_named(v) if v is not None else None, "law": mode_named,
    }  # fmt: skip
    check = kinds.get(name, lambda v: training(1, 1, **{name: v}))
    values = several(value, (str, Precision, Mapping))
    for each in values:
        check(each)
    return values


def _has_formats(model: Model, spec: Any, last: bool) -> bool:
    """Whether a model can be had in these formats. Raises InputError where the last one cannot either."""
    try:
        formats_of(model, spec)
    except InputError:
        if last:
            raise
        return False
    return True


def figures_named(text: str) -> list[str]:
    """Every combination of figures of a chip: of `bw=2T,4T,mem=80G` two. A bare number continues the key before it.

    >>> figures_named("bw=2T,4T,mem=80G")
    ['bw=2T,mem=80G', 'bw=4T,mem=80G']
    """
    if len(text) > LONGEST_TEXT:
        raise InputError("figures", text, f"at most {LONGEST_TEXT} characters")
    keys: list[list[str]] = []
    for word in (part.strip() for part in text.split(",")):
        if "=" in word:
            keys.append([word])
        elif word and keys:
            keys[-1].append(f"{keys[-1][0].partition('=')[0]}={word}")
        else:
            raise InputError("figures", word, "figures such as bw=2T,4T")
    return [",".join(words) for words in product(*keys)]


def _layouts(given: Mapping[str, Any]) -> list[Any] | None:
    """Every layout asked for, each once; None where there is none."""
    degrees = {name: given[name] for name in DEGREES if name in given}
    if degrees and "layout" in given:
        raise InputError("layout", given["layout"], f"either layouts or {' and '.join(degrees)}")
    if degrees:
        texts = (f"{name}={','.join(map(str, values_of(name, v).tolist()))}" for name, v in degrees.items())
        return list(layouts_named("layout", ",".join(texts)))
    if "layout" not in given:
        return None
    layouts: list[Any] = []
    for spec in several(given["layout"], (str, Mapping, Layout)):
        if isinstance(spec, str):
            layouts += layouts_named("layout", spec)
        elif isinstance(spec, Mapping):
            names, lists = list(spec), [several(v, (int, str, float, np.integer)) for v in spec.values()]
            layouts += [layout_named(dict(zip(names, chosen, strict=True))) for chosen in product(*lists)]
        else:
            layouts.append(None if spec is None else layout_named(spec))
    for layout in layouts:
        if isinstance(layout, Layout) and layout.shape:
            raise InputError("layout", layout.text(), "one layout, or a list of them")
    return layouts


def _named(layouts: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Layouts and their names, each once; one that cannot be is its error."""
    by_name: dict[str, Any] = {}
    for layout in layouts:
        text = "whole machine" if layout is None else layout.text() if isinstance(layout, Layout) else str(layout)
        while isinstance(layout, InputError) and text in by_name:
            text += " "  # each layout that cannot be counts
        by_name.setdefault(text, layout)
    return tuple(by_name.values()), tuple(by_name)


def _numbers(question: Question, given: Mapping[str, Any]) -> tuple[Numbers, ...]:
    """The numeric axes of a question, in its order."""
    if question.name == "serve" and ("concurrency" in given) == ("rate" in given):
        got = "both" if "rate" in given else "neither"
        raise InputError("concurrency", got, "either a concurrency or a rate")
    axes = []
    for name in question.axes:
        value = given.get(name, question.given.get(name))
        if value is None:
            if name not in question.given:
                raise InputError(name, None, f"numbers: {question.name} is asked over {', '.join(question.axes)}")
            continue
        axes.append(Numbers(name, _in_range(name, values_of(name, value))))
    return tuple(axes)


def _in_range(name: str, values: Any) -> Any:
    """The numbers of an axis. Raises InputError for those that it cannot have."""
    if name == "prefix":
        return checked_numbers(name, values, 0.0, 1.0, "shares from 0 up to, but not including, 1")
    if name == "rate":
        return checked_numbers(name, values, 0.0, np.inf, "requests a second, more than 0", above=True)
    least = 0 if name == "context" else 1
    if values.dtype.kind == "f" or values.min() < least or values.max() > 2**40:
        raise InputError(name, values.tolist() if values.size < 9 else values.min(), f"whole numbers from {least}")
    return values
