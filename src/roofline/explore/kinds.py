"""The columns that a space has: its axes, and the figures of what is answered, each of one kind for all plans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.result import Leaf, Result, leaves_of
from roofline.explore.columns import ColumnValues, words_of
from roofline.explore.families import compiled
from roofline.explore.space import Segment, Space

Kind: TypeAlias = Literal["float", "int", "flag", "word"]
TRIED_POINTS = 16
"""Points of a plan at which a first answer is looked for."""


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


def column_kinds(space: Space) -> tuple[ColumnKind, ...]:
    """Every column that the space has: its axes, then the figures of what is answered.

    Raises InputError, that of the first plan, where none can be asked.
    """
    result = first_answer(space)
    given = {*space.given, "model", "on", "layout"}
    words = [name for name in ("model", "on", *(c.name for c in space.choices), "layout") if name in given]
    axes = [ColumnKind(name, "", "word") for name in dict.fromkeys(words)]
    axes += [ColumnKind(n.name, "", "int" if n.values.dtype.kind == "i" else "float") for n in space.numbers]
    names = {axis.name for axis in axes}
    figures = []
    for figure in dict.fromkeys((*result.FIGURES, *space.question.more)):
        for name, value, unit in figure_leaves(space, result, figure):
            kind = _kind_of(value, unit)
            if kind is not None and name not in names:
                names.add(name)
                figures.append(ColumnKind(name, unit, kind, figure))
    return (*axes, *figures)


def figure_leaves(space: Space, result: Any, figure: str) -> Iterable[Leaf]:
    """The numbers and words of a figure of a result, or of one that the question adds."""
    more = space.question.more.get(figure)
    if more is not None:
        return leaves_of(figure, more[1](result), more[0])
    return leaves_of(figure, result.figure(figure), result.FIGURES[figure])


def first_answer(space: Space) -> Result:
    """The answer at the first point that can be asked. Raises the first point's InputError where there is none."""
    first: InputError | None = None
    question = space.question
    for number in range(space.plans):
        try:
            plan = compiled(space, number)
            for places in islice(product(*map(range, space.shape)), TRIED_POINTS):
                segment = Segment(number, tuple((i, i + 1) for i in places))
                try:
                    return question.answer(plan, space.point(segment))
                except InputError as error:
                    first = first or error
        except InputError as error:
            first = first or error
    assert first is not None
    raise first


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


def typed_values(column: ColumnKind, values: Any, size: int) -> ColumnValues:
    """Values as the column has them."""
    match column.kind:
        case "word":
            return words_of(values, size)
        case "flag":
            return np.asarray(values).astype(bool)
        case "int":
            whole = np.asarray(values)
            if whole.dtype.kind == "f" and not (whole == np.floor(whole)).all():
                raise InputError(column.name, whole[whole != np.floor(whole)][0].item(), "whole numbers")
            return whole.astype(np.int64)
        case _:
            return np.asarray(values).astype(np.float64)
