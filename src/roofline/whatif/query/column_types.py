"""The columns of a space: its axes, and the figures of its answers, each of one type for all plans."""

from __future__ import annotations

from itertools import islice, product

import numpy as np
from numpy.typing import ArrayLike

from roofline.declared.errors import InputError
from roofline.declared.result import Result
from roofline.whatif.query.columns import ColumnValues, words_of
from roofline.whatif.query.compiled import compiled
from roofline.whatif.query.figures import ColumnKind, figure_columns
from roofline.whatif.search.space import Segment, Space

TRIED_POINTS = 16
"""Number of points of a plan at which a first answer is tried."""


def column_kinds(space: Space) -> tuple[ColumnKind, ...]:
    """All columns of the space: its axes, then the figures of its answers.

    Raises InputError, that of the first plan, where no plan has an answer.
    """
    result = first_answer(space)
    given = {*space.given, "model", "on", "layout"}
    words = [name for name in ("model", "on", *(c.name for c in space.choices), "layout") if name in given]
    axes = [ColumnKind(name, "", "word") for name in dict.fromkeys(words)]
    axes += [ColumnKind(n.name, "", "int" if n.values.dtype.kind == "i" else "float") for n in space.numbers]
    names = {axis.name for axis in axes}
    return (*axes, *(column for column in figure_columns(space.question, result) if column.name not in names))


def first_answer(space: Space) -> Result:
    """The answer at the first valid point. Raises the InputError of the first point where none is valid."""
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


def typed_values(column: ColumnKind, values: ArrayLike, size: int) -> ColumnValues:
    """Values converted to the type of the column."""
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
