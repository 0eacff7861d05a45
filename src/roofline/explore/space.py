"""A space of settings and numbers along labelled axes, its points numbered, cut into pieces of one size.

Settings (model, machine, layout, formats, engine, …) make a plan for each combination, the last fastest; the numbers of
a plan (batch, context, …) are arrays that broadcast through it. A piece is a few plans whole, or a box of one plan's
points, so that the arrays of its axes stay short. Points, pieces and their order follow from the axes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from roofline.arrays import Array
from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.question import Settings
from roofline.explore.questions import Question, question_named

PIECE_POINTS = 2**17
"""Points of a piece at most: a row group of a file."""
PIECE_PLANS = 2**14
"""Plans of a piece at most."""


@dataclass(frozen=True)
class Choice:
    """An axis of settings: its name, the settings, and what each is called. One may be the error that it is."""

    name: str
    settings: tuple[Given, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Numbers:
    """An axis of numbers of one dimension."""

    name: str
    values: Array


@dataclass(frozen=True)
class Segment:
    """A box of a plan's points: the range of each of its numeric axes."""

    plan: int
    box: tuple[tuple[int, int], ...]

    @property
    def points(self) -> int:
        """How many they are."""
        return prod(stop - start for start, stop in self.box)


@dataclass(frozen=True)
class Space:
    """Axes of settings and of numbers, and what is asked at every point. `most`: points of a piece."""

    phase: str
    choices: tuple[Choice, ...]
    numbers: tuple[Numbers, ...]
    most: int = PIECE_POINTS

    @property
    def question(self) -> Question:
        """What is asked."""
        return question_named(self.phase)

    @cached_property
    def plans(self) -> int:
        """Combinations of settings, those included that cannot be."""
        return prod(len(choice.labels) for choice in self.choices)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Numbers of each numeric axis."""
        return tuple(len(axis.values) for axis in self.numbers)

    @cached_property
    def each(self) -> int:
        """Points of a plan."""
        return prod(self.shape)

    @property
    def points(self) -> int:
        """All points, those included that cannot be."""
        return self.plans * self.each

    # -- plans -----------------------------------------------------------------------------------------------------
    def places(self, plan: int) -> tuple[int, ...]:
        """Which of each choice's settings a plan has."""
        places = []
        for choice in reversed(self.choices):
            plan, place = divmod(plan, len(choice.labels))
            places.append(place)
        return tuple(reversed(places))

    def settings(self, plan: int) -> Settings:
        """The settings of a plan. Raises InputError where one of them cannot be."""
        pairs = zip(self.choices, self.places(plan), strict=True)
        chosen = {choice.name: choice.settings[i] for choice, i in pairs}
        for setting in chosen.values():
            if isinstance(setting, InputError):
                raise setting
        return chosen

    def labels(self, plan: int) -> Mapping[str, str]:
        """What they are called."""
        pairs = zip(self.choices, self.places(plan), strict=True)
        return {choice.name: choice.labels[i] for choice, i in pairs}

    # -- pieces ----------------------------------------------------------------------------------------------------
    @cached_property
    def _cut(self) -> tuple[int, int]:
        """The axis along which a plan's points are cut, and how many of its numbers a box has."""
        behind = 1
        for axis in range(len(self.shape) - 1, -1, -1):
            if behind * self.shape[axis] > self.most:
                return axis, max(1, self.most // behind)
            behind *= self.shape[axis]
        return 0, self.shape[0] if self.shape else 1

    @cached_property
    def _boxes(self) -> int:
        """Boxes of a plan."""
        axis, length = self._cut
        return prod(self.shape[:axis]) * -(-self.shape[axis] // length) if self.shape else 1

    @cached_property
    def _plans_together(self) -> int:
        """Plans of a piece, where a plan is one box."""
        return 1 if self._boxes > 1 else max(1, min(PIECE_PLANS, self.most // max(1, self.each)))

    @property
    def pieces(self) -> int:
        """How many pieces it is cut into."""
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
        """All of them, piece by piece."""
        return (segment for number in range(self.pieces) for segment in self.piece(number))

    def point(self, segment: Segment) -> dict[str, Array]:
        """The numbers of a segment, each array along an axis of its own."""
        axes = len(self.numbers)
        return {
            n.name: n.values[start:stop].reshape((*(1,) * i, -1, *(1,) * (axes - 1 - i)))
            for i, (n, (start, stop)) in enumerate(zip(self.numbers, segment.box, strict=True))
        }

    @property
    def given(self) -> frozenset[str]:
        """The names of its axes."""
        return frozenset((*(choice.name for choice in self.choices), *(axis.name for axis in self.numbers)))
