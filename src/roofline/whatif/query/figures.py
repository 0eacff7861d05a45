"""The figures of an answer by name: columns of a sweep, names in a condition, objectives of a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from roofline.declared.result import Figured, FigureValue, Leaf, Result, leaves_of

if TYPE_CHECKING:
    from roofline.whatif.query.questions import Question

Kind: TypeAlias = Literal["float", "int", "flag", "word"]
OLD_FIGURES: Mapping[str, str] = MappingProxyType({"memory": "memory_total"})
"""Former names of figures in conditions and objectives."""


@dataclass(frozen=True)
class Aim:
    """An objective: a figure to maximise (`most`) or to minimise.

    `worse`: words after the amount by which an answer is worse. `needs`: what an answer without the figure lacks.
    `faster`: whether more chips than a load needs improve the objective.
    """

    figure: str
    most: bool
    worse: str
    needs: str = ""
    faster: bool = False

    def least(self, answer: Figured) -> float:
        """The objective as a number to minimise; infinite where the figure is missing."""
        value = answer.figure(self.figure)
        if value is None:
            return inf
        expected = float(value.expected if hasattr(value, "expected") else value)
        return -expected if self.most else expected

    def far(self, answer: Figured, best: Figured) -> str:
        """How much worse an answer is than the best: integers as a difference, other figures in percent."""
        ours, theirs = self.least(answer), self.least(best)
        if ours == theirs or not theirs:
            return f"as good in {self.figure.replace('_', ' ')}"
        if isinstance(answer.figure(self.figure), int):
            return f"{ours - theirs:.0f} {self.worse}"
        return f"{abs(ours / theirs - 1) * 100:.1f} % {self.worse}"


OBJECTIVES: Mapping[str, Aim] = MappingProxyType(
    {
        "throughput": Aim("tokens_per_second_per_chip", True, "fewer tokens/s per chip"),
        "total": Aim("tokens_per_second", True, "fewer tokens/s", faster=True),
        "interactivity": Aim("tokens_per_second_per_user", True, "fewer tokens/s per user", faster=True),
        "latency": Aim("latency", False, "slower", faster=True),
        "cost": Aim("usd_per_million_tokens", False, "dearer", "chips with a price"),
        "energy": Aim("joules_per_token", False, "more energy a token", "chips whose power is known"),
        "chips": Aim("chips", False, "more chips"),
    }
)
"""Name → objective of a search for ways to serve."""


@dataclass(frozen=True)
class ColumnKind:
    """A column: its unit, the type of its values, and the figure it belongs to; "" for an axis."""

    name: str
    unit: str
    kind: Kind
    figure: str = ""

    @property
    def spelled(self) -> str:
        """The column's type in conditions: its unit, `flag` or `word`."""
        return self.kind if self.kind in ("flag", "word") else self.unit


def figure_columns(question: Question, result: Result) -> Iterator[ColumnKind]:
    """The columns of an answer: its numbers, flags and words, and the figures that the question adds."""
    names: set[str] = set()
    for figure in dict.fromkeys((*result.FIGURES, *question.more)):
        for name, value, unit in figure_leaves(question, result, figure):
            kind = _kind_of(value, unit)
            if kind is not None and name not in names:
                names.add(name)
                yield ColumnKind(name, unit, kind, figure)


def figure_leaves(question: Question, result: Result, figure: str) -> Iterable[Leaf]:
    """The numbers and words within a figure of a result, or within a figure that the question adds."""
    more = question.more.get(figure)
    if more is not None:
        return leaves_of(figure, more[1](result), more[0])
    return leaves_of(figure, result.figure(figure), result.FIGURES[figure])


def _kind_of(value: FigureValue, unit: str) -> Kind | None:
    """The type of a column; None for values that only some plans have."""
    if value is None:
        return "float" if unit else None
    array = np.asarray(value)
    if array.dtype.kind == "b":
        return "flag"
    if array.dtype.kind in "iu" and not unit:
        return "int"
    if array.dtype.kind in "iuf":
        return "float"
    return "word" if array.dtype.kind == "U" else None


def by_name(columns: Iterable[ColumnKind]) -> Mapping[str, ColumnKind]:
    """Columns by name, former names included."""
    named = {column.name: column for column in columns}
    return named | {old: named[new] for old, new in OLD_FIGURES.items() if new in named and old not in named}


def in_conditions(columns: Iterable[ColumnKind]) -> Mapping[str, ColumnKind]:
    """Columns by the names that conditions use. `fits` means `all_in_memory` where that column exists."""
    named = by_name(columns)
    return {**named, "fits": named["all_in_memory"]} if "all_in_memory" in named else named


def units_of(columns: Iterable[ColumnKind]) -> Mapping[str, str]:
    """The names that a condition on these columns may use, each with its unit, `flag` or `word`."""
    return {name: column.spelled for name, column in in_conditions(columns).items()}
