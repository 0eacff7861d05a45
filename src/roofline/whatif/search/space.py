"""The space of a sweep: labelled axes of settings and numbers, with numbered points, cut into pieces.

Every combination of settings (model, machine, layout, formats, engine, …) is a plan, the last axis fastest. The numbers
of a plan (batch, context, …) are arrays that broadcast. A piece is several whole plans, or a box of one plan's points,
so that arrays stay short. Points, pieces and their order follow from the axes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.numbers.arrays import Array
from roofline.declared.question import Settings
from roofline.whatif.query.questions import Question, question_named

PIECE_POINTS = 2**17
"""Maximum number of points in a piece, which is a row group of a file."""
PIECE_PLANS = 2**14
"""Maximum number of plans in a piece."""


@dataclass(frozen=True)
class Choice:
    """An axis of settings: its name, its settings and their labels. An invalid setting is represented by its error."""

    name: str
    settings: tuple[Given, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Numbers:
    """A one-dimensional axis of numbers."""

    name: str
    values: Array


@dataclass(frozen=True)
class Segment:
    """A box of a plan's points: the index range of each numeric axis."""

    plan: int
    box: tuple[tuple[int, int], ...]

    @property
    def points(self) -> int:
        """Number of points."""
        return prod(stop - start for start, stop in self.box)


@dataclass(frozen=True)
class Space:
    """Axes of settings and of numbers, and the question asked at every point. `most`: maximum points of a piece."""

    phase: str
    choices: tuple[Choice, ...]
    numbers: tuple[Numbers, ...]
    most: int = PIECE_POINTS

    @property
    def question(self) -> Question:
        """The question asked."""
        return question_named(self.phase)

    @cached_property
    def plans(self) -> int:
        """Number of combinations of settings, invalid ones included."""
        return prod(len(choice.labels) for choice in self.choices)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Length of each numeric axis."""
        return tuple(len(axis.values) for axis in self.numbers)

    @cached_property
    def each(self) -> int:
        """Number of points per plan."""
        return prod(self.shape)

    @property
    def points(self) -> int:
        """Number of points, invalid ones included."""
        return self.plans * self.each

    # -- plans -----------------------------------------------------------------------------------------------------
    def places(self, plan: int) -> tuple[int, ...]:
        """Index of a plan's setting on each axis."""
        places = []
        for choice in reversed(self.choices):
            plan, place = divmod(plan, len(choice.labels))
            places.append(place)
        return tuple(reversed(places))

    def settings(self, plan: int) -> Settings:
        """The settings of a plan. Raises InputError where one of them is invalid."""
        pairs = zip(self.choices, self.places(plan), strict=True)
        chosen = {choice.name: choice.settings[i] for choice, i in pairs}
        for setting in chosen.values():
            if isinstance(setting, InputError):
                raise setting
        return chosen

    def labels(self, plan: int) -> Mapping[str, str]:
        """The labels of a plan's settings."""
        pairs = zip(self.choices, self.places(plan), strict=True)
        return {choice.name: choice.labels[i] for choice, i in pairs}

    # -- pieces ----------------------------------------------------------------------------------------------------
    @cached_property
    def _cut(self) -> tuple[int, int]:
        """The axis along which a plan's points are cut, and the length of a box along it."""
        behind = 1
        for axis in range(len(self.shape) - 1, -1, -1):
            if behind * self.shape[axis] > self.most:
                return axis, max(1, self.most // behind)
            behind *= self.shape[axis]
        return 0, self.shape[0] if self.shape else 1

    @cached_property
    def _boxes(self) -> int:
        """Number of boxes per plan."""
        axis, length = self._cut
        return prod(self.shape[:axis]) * -(-self.shape[axis] // length) if self.shape else 1

    @cached_property
    def _plans_together(self) -> int:
        """Number of plans in a piece, where a plan is one box."""
        return 1 if self._boxes > 1 else max(1, min(PIECE_PLANS, self.most // max(1, self.each)))

    @property
    def pieces(self) -> int:
        """Number of pieces."""
        return self.plans * self._boxes if self._boxes > 1 else -(-self.plans // self._plans_together)

    def piece(self, number: int) -> tuple[Segment, ...]:
        """The segments of a piece, in the order of their points."""
        if self._boxes == 1:
            first = number * self._plans_together
            whole = tuple((0, n) for n in self.shape)
            return tuple(Segment(p, whole) for p in range(first, min(first + self._plans_together, self.plans)))
        plan, box = divmod(number, self._boxes)
        axis, length = self._cut
        along = -(-self.shape[axis] // length)
        before, part = divmod(box, along)
        lead = np.unravel_index(before, self.shape[:axis]) if axis else ()
        ranges = [(int(i), int(i) + 1) for i in lead]
        ranges.append((part * length, min((part + 1) * length, self.shape[axis])))
        return (Segment(plan, (*ranges, *((0, n) for n in self.shape[axis + 1 :]))),)

    def segments(self) -> Iterator[Segment]:
        """All segments, piece by piece."""
        return (segment for number in range(self.pieces) for segment in self.piece(number))

    def point(self, segment: Segment) -> dict[str, Array]:
        """The coordinates of a segment, each array along its own axis."""
        axes = len(self.numbers)
        return {
            n.name: n.values[start:stop].reshape((*(1,) * i, -1, *(1,) * (axes - 1 - i)))
            for i, (n, (start, stop)) in enumerate(zip(self.numbers, segment.box, strict=True))
        }

    @property
    def given(self) -> frozenset[str]:
        """The names of the axes."""
        return frozenset((*(choice.name for choice in self.choices), *(axis.name for axis in self.numbers)))
