"""Evaluate a sweep's space piece by piece: each plan is compiled once and evaluated at arrays of points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from roofline.declared.errors import InputError, nearest
from roofline.declared.numbers.arrays import Array
from roofline.declared.result import FigureValue, Result
from roofline.whatif.query.column_types import column_kinds, typed_values
from roofline.whatif.query.columns import ColumnValues, Rows, Words, at_rows, joined_values, words_of
from roofline.whatif.query.compiled import KEPT_PLANS, PlanFamily, compiled, plan_families, reason_of
from roofline.whatif.query.condition import Clause, Condition, condition_of
from roofline.whatif.query.figures import ColumnKind, by_name, figure_leaves, in_conditions, units_of
from roofline.whatif.query.questions import Compiled, Coordinates
from roofline.whatif.search.space import Segment, Space

MEMORY = "memory"
ALONE = {"deployment"}
"""Figures that cannot be arrays."""
BEYOND = "longer than the context of the model"
OVERLOADED = "rate: more requests a second than the server takes"


@dataclass(frozen=True)
class PieceRows:
    """The rows of a piece: its columns, and the number of points left out by reason."""

    rows: Rows
    size: int
    dropped: Mapping[str, int]


@dataclass(frozen=True)
class Sweeper:
    """A space with the requested columns and the condition on its rows."""

    space: Space
    known: tuple[ColumnKind, ...]
    columns: tuple[ColumnKind, ...]
    condition: Condition
    _compiled: dict[int, Compiled | InputError] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[Sweeper], tuple[Space, tuple[ColumnKind, ...], tuple[ColumnKind, ...], str]]:
        """Pickle without compiled plans; each process compiles its own."""
        return Sweeper, (self.space, self.known, self.columns, self.condition.text)

    def __post_init__(self) -> None:
        if isinstance(self.condition, str):
            object.__setattr__(self, "condition", condition_of(self.condition, units_of(self.known)))

    @cached_property
    def _by_name(self) -> Mapping[str, ColumnKind]:
        return in_conditions(self.known)

    @cached_property
    def _together(self) -> bool:
        """Whether plans may be evaluated together: no requested column needs a plan by itself."""
        wanted = {c.figure for c in self.columns} | {self._by_name[name].figure for name in self.condition.names}
        return self.space.question.together and not wanted & ALONE

    @cached_property
    def _parts(self) -> tuple[tuple[Clause, ...], tuple[Clause, ...]]:
        """The parts of the condition that need no times, and the other parts."""
        early = [p for p in self.condition.parts if all(self._by_name[n].figure in ("", MEMORY) for n in p.names)]
        return tuple(early), tuple(p for p in self.condition.parts if p not in early)

    # -- plans -----------------------------------------------------------------------------------------------------
    def compiled(self, plan: int) -> Compiled:
        """A compiled plan of the space. Raises InputError where the plan is invalid."""
        if plan not in self._compiled:
            while len(self._compiled) >= KEPT_PLANS:
                del self._compiled[next(iter(self._compiled))]
            try:
                self._compiled[plan] = compiled(self.space, plan)
            except InputError as error:
                self._compiled[plan] = error
        known = self._compiled[plan]
        if isinstance(known, InputError):
            raise known
        return known

    # -- rows ------------------------------------------------------------------------------------------------------
    def piece(self, number: int) -> PieceRows:
        """The rows of a piece, in order."""
        dropped: Counter[str] = Counter()
        segments = self.space.piece(number)
        alone, families = (
            plan_families(self.space, segments, self.compiled, dropped) if self._together else (segments, ())
        )
        parts = [(part, s.plan) for s in alone for part in self.evaluate(s, dropped)]
        together = [part for family in families for part in self.all_of(family, dropped)]
        if not parts and not together:
            return PieceRows(self.no_rows(), 0, dict(dropped))
        every = [part for part, _ in (*parts, *together)]
        rows = {c.name: joined_values([part[c.name] for part in every]) for c in self.columns}
        size = len(next(iter(rows.values())))
        if together:
            plans = [np.full(len(next(iter(part.values()))), plan) for part, plan in parts]
            order = np.argsort(np.concatenate([*plans, *(plan for _, plan in together)]), kind="stable")
            rows = {name: at_rows(values, order) for name, values in rows.items()}
        return PieceRows(rows, size, dict(dropped))

    def all_of(self, family: PlanFamily, dropped: Counter[str]) -> Iterator[tuple[Rows, Array]]:
        """The rows of plans that differ only in their degrees: columns, and the plan of each row."""
        counts: Counter[str] = Counter()
        try:
            rows = self._box(family, counts)
        except InputError:
            if len(family.plans) > 1:
                for half in family.halves():
                    yield from self.all_of(half, dropped)
                return
            segment = Segment(family.plans[0], family.box)
            for part in self.evaluate(segment, dropped):
                yield part, np.full(len(next(iter(part.values()))), segment.plan)
            return
        dropped.update(counts)
        if rows is not None:
            yield rows

    def no_rows(self) -> Rows:
        """The columns with no rows."""
        return {c.name: typed_values(c, np.zeros(0), 0) for c in self.columns}

    def evaluate(self, segment: Segment, dropped: Counter[str]) -> Iterator[Rows]:
        """The columns of the rows of a segment, in parts; `dropped` counts the points left out.

        A segment with invalid points is halved until they are isolated.
        """
        try:
            family = PlanFamily((segment.plan,), segment.box, self.compiled(segment.plan))
            rows = self._box(family, dropped)
        except InputError as error:
            if segment.points == 1 or isinstance(self._compiled.get(segment.plan), InputError):
                dropped[reason_of(error)] += segment.points
                return
            for half in halves(segment):
                yield from self.evaluate(half, dropped)
            return
        if rows is not None:
            yield rows[0]

    def _box(self, family: PlanFamily, dropped: Counter[str]) -> tuple[Rows, Array] | None:
        """The rows of a box of points for each plan: columns, and the plan of each row; None without rows."""
        question, plan, point = self.space.question, family.compiled, family.point(self.space)
        shape = (len(family.plans), *(stop - start for start, stop in family.box))
        counts: Counter[str] = Counter()
        rows = np.ones(shape, dtype=bool)
        longest = plan.model.context
        if longest is not None:
            within = np.broadcast_to(question.longest(point) <= longest, shape)
            counts[BEYOND] += int(np.count_nonzero(~within))
            rows = rows & within
            point, rows = trimmed(point, rows)
        if rows.any():
            allowed = np.broadcast_to(question.allowed(plan, point), rows.shape)
            counts[OVERLOADED] += int(np.count_nonzero(rows & ~allowed))
            rows = rows & allowed
        early, late = self._parts
        answer = self._answer(family, point, rows)
        if early and rows.any():
            rows = self._met(early, answer, rows)
            smaller, rows = trimmed(point, rows)
            if any(len(smaller[name].reshape(-1)) < point[name].size for name in point):
                point = smaller
                answer = self._answer(family, point, rows)
        if late and rows.any():
            rows = self._met(late, answer, rows)
        size = int(np.count_nonzero(rows))
        dropped.update(+counts)
        if not size:
            return None
        columns = {c.name: answer.column(c, rows, size) for c in self.columns}
        plans = np.broadcast_to(np.reshape(family.plans, (-1, *(1,) * (rows.ndim - 1))), rows.shape)
        return columns, plans[rows]

    def _answer(self, family: PlanFamily, point: Coordinates, rows: Array) -> _Answer:
        return _Answer(self, family, self.space.labels(family.plans[0]), point, rows.shape)

    def _met(self, parts: Sequence[Clause], answer: _Answer, rows: Array) -> Array:
        """The rows that meet some parts of the condition."""

        def look(name: str) -> ColumnValues:
            return answer.column(self._by_name[name], None, size)

        size = rows.size
        for part in parts:
            met = part.value(look)
            rows = rows & np.broadcast_to(np.asarray(met), rows.size).reshape(rows.shape)
            if not rows.any():
                break
        return rows


@dataclass(frozen=True)
class _Answer:
    """The answer of a plan at a box of points, computed lazily."""

    sweeper: Sweeper
    family: PlanFamily
    labels: Mapping[str, str]
    point: Coordinates
    shape: tuple[int, ...]

    @cached_property
    def result(self) -> Result:
        """The result with all figures."""
        return self.sweeper.space.question.answer(self.family.compiled, self.point)

    @cached_property
    def _figures(self) -> dict[str, dict[str, FigureValue]]:
        return {}

    def column(self, column: ColumnKind, rows: Array | None, size: int) -> ColumnValues:
        """A column at some rows of the box, or at all of it."""
        if column.name == "layout" and self.family.layouts:
            codes = np.arange(len(self.family.layouts), dtype=np.uint32).reshape(-1, *(1,) * (len(self.shape) - 1))
            whole = np.broadcast_to(codes, self.shape)
            return Words(whole.reshape(-1) if rows is None else whole[rows], self.family.layouts)
        value = self._value(column)
        if column.kind == "word" and isinstance(value, str):
            return words_of(value, size)
        if value is None and column.kind != "float":
            raise InputError(column.name, None, "a value at every point: columns without it")
        whole = np.broadcast_to(np.nan if value is None else value, self.shape)
        return typed_values(column, whole.reshape(-1) if rows is None else whole[rows], size)

    def _value(self, column: ColumnKind) -> FigureValue:
        if not column.figure:
            return self.point[column.name] if column.name in self.point else self._label(column.name)
        if column.figure not in self._figures:
            leaves = figure_leaves(self.sweeper.space.question, self.result, column.figure)
            self._figures[column.figure] = {name: value for name, value, _ in leaves}
        return self._figures[column.figure].get(column.name)

    def _label(self, name: str) -> FigureValue:
        if name == "layout":
            return self.result.deployment.text  # type: ignore[attr-defined]
        return self.labels[name]


# -- columns -------------------------------------------------------------------------------------------------------
def sweeper_of(space: Space, wanted: Sequence[str] | None, where: str) -> Sweeper:
    """A sweep of the space: columns by name (None: the question's own; `all`) and a condition.

    Raises InputError for an unknown column, an invalid condition, and where no plan is valid.
    """
    known = column_kinds(space)
    columns = by_name(known)
    condition = condition_of(where, units_of(known))
    axes = tuple(column for column in known if not column.figure)
    names = [c.name for c in known if c.figure] if wanted == ["all"] else list(wanted or space.question.columns)
    for name in names:
        if name not in columns:
            raise InputError("columns", name, "the name of a column, or all", nearest(name, columns))
    chosen = dict.fromkeys(columns[name].name for name in (*(c.name for c in axes), *names))
    return Sweeper(space, known, tuple(columns[name] for name in chosen), condition)


# -- boxes ---------------------------------------------------------------------------------------------------------
def halves(segment: Segment) -> tuple[Segment, Segment]:
    """Halve a box along its first axis with more than one number, which keeps the order of points."""
    axis = next(i for i, (start, stop) in enumerate(segment.box) if stop - start > 1)
    start, stop = segment.box[axis]
    middle = (start + stop) // 2
    low, high = ((*segment.box[:axis], part, *segment.box[axis + 1 :]) for part in ((start, middle), (middle, stop)))
    return replace(segment, box=low), replace(segment, box=high)


def trimmed(point: Mapping[str, Array], rows: Array) -> tuple[dict[str, Array], Array]:
    """The box without the coordinates that have no row left; the first axis of `rows` is the plans."""
    numbers, left = dict(point), rows
    if rows.all() or not rows.any():
        return numbers, rows
    for axis, name in enumerate(point, 1):  # axis 0 is the plans
        others = tuple(i for i in range(rows.ndim) if i != axis)
        kept = np.flatnonzero(rows.any(axis=others))
        numbers[name], left = np.take(numbers[name], kept, axis=axis), np.take(left, kept, axis=axis)
    return numbers, left
