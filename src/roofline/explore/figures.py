"""The figures of an answer by their names: columns of a sweep, words of a condition, objectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from roofline.declared.result import Figured, FigureValue, Leaf, Result, leaves_of

if TYPE_CHECKING:
    from roofline.explore.questions import Question

Kind: TypeAlias = Literal["float", "int", "flag", "word"]
OLD_FIGURES: Mapping[str, str] = MappingProxyType({"memory": "memory_total"})
"""Former names of figures in conditions and objectives."""


@dataclass(frozen=True)
class Aim:
    """What is best of several answers: the most of a figure, or the least.

    `worse`: how an answer with a worse figure is told, after how much. `needs`: what one without the figure lacks.
    `faster`: whether chips beyond those that a load needs make it better.
    """

    figure: str
    most: bool
    worse: str
    needs: str = ""
    faster: bool = False

    def least(self, answer: Figured) -> float:
        """A number that is least for the best answer, infinite where there is no figure."""
        value = answer.figure(self.figure)
        if value is None:
            return inf
        expected = float(value.expected if hasattr(value, "expected") else value)
        return -expected if self.most else expected

    def far(self, answer: Figured, best: Figured) -> str:
        """How much worse an answer is than the best: whole numbers by their difference, others in percent."""
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
"""What a way to serve can be best in, by its name."""


@dataclass(frozen=True)
class ColumnKind:
    """A column: its unit, what its values are, and the figure that it is of, "" of an axis."""

    name: str
    unit: str
    kind: Kind
    figure: str = ""

    @property
    def spelled(self) -> str:
        """How a condition sees it: its unit, `flag` or `word`."""
        return self.kind if self.kind in ("flag", "word") else self.unit


def figure_columns(question: Question, result: Result) -> Iterator[ColumnKind]:
    """The numbers, flags and words of an answer, and of what the question adds."""
    names: set[str] = set()
    for figure in dict.fromkeys((*result.FIGURES, *question.more)):
        for name, value, unit in figure_leaves(question, result, figure):
            kind = _kind_of(value, unit)
            if kind is not None and name not in names:
                names.add(name)
                yield ColumnKind(name, unit, kind, figure)


def figure_leaves(question: Question, result: Result, figure: str) -> Iterable[Leaf]:
    """The numbers and words of a figure of a result, or of one that the question adds."""
    more = question.more.get(figure)
    if more is not None:
        return leaves_of(figure, more[1](result), more[0])
    return leaves_of(figure, result.figure(figure), result.FIGURES[figure])


def _kind_of(value: FigureValue, unit: str) -> Kind | None:
    """What the values of a column are; None of what is there for some plans alone."""
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
    """The figures that a condition may name. Of many sequences `fits` says whether all are in memory at once."""
    named = by_name(columns)
    return {**named, "fits": named["all_in_memory"]} if "all_in_memory" in named else named


def units_of(columns: Iterable[ColumnKind]) -> Mapping[str, str]:
    """The names that a condition on these columns may have, each with its unit, `flag` or `word`."""
    return {name: column.spelled for name, column in in_conditions(columns).items()}
