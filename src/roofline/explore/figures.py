"""The figures of an answer by their names: columns of a sweep, words of a condition, objectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.declared.result import Leaf, Result, leaves_of
from roofline.explore.questions import Question

Kind: TypeAlias = Literal["float", "int", "flag", "word"]
OLD_FIGURES: Mapping[str, str] = MappingProxyType({"memory": "memory_total"})
"""Former names of figures in conditions and objectives."""


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
    """The numbers, flags and words of an answer; a figure that the question adds replaces that of the result."""
    names: set[str] = set()
    for figure in dict.fromkeys((*result.FIGURES, *question.more)):
        for name, value, unit in figure_leaves(question, result, figure):
            kind = _kind_of(value, unit)
            if kind is not None and name not in names and (figure == name or name not in question.more):
                names.add(name)
                yield ColumnKind(name, unit, kind, figure)


def figure_leaves(question: Question, result: Result, figure: str) -> Iterable[Leaf]:
    """The numbers and words of a figure of a result, or of one that the question adds."""
    more = question.more.get(figure)
    if more is not None:
        return leaves_of(figure, more[1](result), more[0])
    return leaves_of(figure, result.figure(figure), result.FIGURES[figure])


def _kind_of(value: Any, unit: str) -> Kind | None:
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


def units_of(columns: Iterable[ColumnKind]) -> Mapping[str, str]:
    """The names that a condition on these columns may have, each with its unit, `flag` or `word`."""
    return {name: column.spelled for name, column in by_name(columns).items()}
