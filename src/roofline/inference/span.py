"""Seconds and how sure they are: speed of light, expected time and 80 % interval. Numbers or arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar

import numpy as np

from roofline.declared.numbers.maths import Count, is_array, least, most, root, where
from roofline.declared.result import Figured, Units

ROUNDING = 1e-6
"""Relative rounding error of a time between two readings of a clock that has run for long."""


@dataclass(frozen=True)
class Span(Figured):
    """Seconds: `floor`, the speed of light; `expected`; `low` and `high`, which hold 80 % of measurements."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("expected", "floor", "low", "high"), "s")

    floor: Count
    expected: Count
    low: Count
    high: Count

    def __add__(self, other: Span) -> Span:
        if other is NOTHING or self is NOTHING:
            return self if other is NOTHING else other
        return self._with(other, add)

    def times(self, factor: Count) -> Span:
        """The span of `factor` times the work."""
        return self.mapped(lambda value: factor * value)

    def mapped(self, each: Callable[[Count], Count]) -> Span:
        """The span with a function applied to every end."""
        return Span(*map(each, self.ends()))

    def minus(self, other: Span) -> Span:
        """The part of this span beyond the other, end by end; 0 where the other is longer."""
        return self._with(other, lambda a, b: most(0.0, a - b))

    def most(self, other: Span) -> Span:
        """The longer of both, end by end."""
        return self._with(other, most)

    def least(self, other: Span) -> Span:
        """The shorter of both, end by end."""
        return self._with(other, least)

    def where(self, condition: Count, other: Span) -> Span:
        """Select elementwise: this span where the condition holds, else the other."""
        return self._with(other, lambda a, b: where(condition, a, b))

    def wider(self, share: Count) -> Span:
        """Add an independent error, a share of the expected seconds; the interval stays above the floor."""
        more = share * self.expected
        under, over = self.expected - self.low, self.high - self.expected
        low = most(self.expected - root(under * under + more * more), least(self.floor, self.low))
        return Span(self.floor, self.expected, low, self.expected + root(over * over + more * more))

    def steeper(self, power: Count) -> Span:
        """The interval of seconds that grow as a power of this span's: the ratios of the ends, raised to that power."""
        low, high = ((np.asarray(end) / self.expected) ** power for end in self.interval)
        return Span(self.floor, self.expected, self.expected * low, self.expected * high)

    def scattered(self, log: Count) -> Span:
        """Add an independent error of the logarithm of the seconds: the ends become expected·exp(±√(own² + log²))."""
        under, over = (np.log(np.divide(a, b)) for a, b in ((self.expected, self.low), (self.high, self.expected)))
        low, high = np.exp(-root(under * under + log * log)), np.exp(root(over * over + log * log))
        return Span(self.floor, self.expected, self.expected * low, self.expected * high)

    def resting_on(self, floor: Count) -> Span:
        """Replace the floor, for seconds that include waits and host time, by that of the work alone.

        The interval begins at the new floor at the earliest. Where seconds summed step by step fall below it by a
        rounding error, the floor is lowered to the expected seconds.
        """
        rounded = where(np.asarray(floor) <= self.expected * (1 + ROUNDING), least(floor, self.expected), floor)
        return Span(rounded, self.expected, most(rounded, self.low), self.high)

    def ordered(self) -> Span:
        """A difference of spans as a span of its own, with its ends in order: floor ≤ low ≤ expected ≤ high.

        Each end of a difference assumes that everything is as fast as that end says. But the part of a time that other
        work does not hide is not shortest where everything is fastest, since slower work hides more.
        """
        low, high = least(self.low, self.expected), most(self.high, self.expected)
        return Span(least(self.floor, low), self.expected, low, high)

    def ends(self) -> tuple[Count, Count, Count, Count]:
        """Floor, expected, low and high."""
        return self.floor, self.expected, self.low, self.high

    def _with(self, other: Span, each: Callable[[Count, Count], Count]) -> Span:
        if isinstance(other, Expected):
            return expected_alone(each(self.expected, other.expected))
        return Span(*(each(a, b) for a, b in zip(self.ends(), other.ends(), strict=True)))

    @property
    def interval(self) -> tuple[Count, Count]:
        """Interval in which 80 % of measurements fall."""
        return self.low, self.high

    def leaves(self, name: str, unit: str) -> Iterator[tuple[str, Count, str]]:
        """As columns: the expected seconds under the name itself, the others with a suffix."""
        yield name, self.expected, unit
        yield from ((f"{name}_{end}", getattr(self, end), unit) for end in ("floor", "low", "high"))

    def shaped(self, shape: tuple[int, ...]) -> Span:
        """Floats for shape (), else arrays of that shape."""
        return Span(*(shaped(value, shape) for value in self.ends()))


@dataclass(frozen=True)
class Expected(Span):
    """A span of which only the expected seconds are computed; its other ends are the same number.

    Spans computed from it are such spans too. A search uses them, since it needs no others.
    """

    def mapped(self, each: Callable[[Count], Count]) -> Span:
        """The span with a function applied to its expected seconds."""
        return expected_alone(each(self.expected))

    def _with(self, other: Span, each: Callable[[Count, Count], Count]) -> Span:
        return expected_alone(each(self.expected, other.expected))


def expected_alone(seconds: Count) -> Expected:
    """A span of which only the expected seconds are known."""
    return Expected(seconds, seconds, seconds, seconds)


NOTHING = Span(0.0, 0.0, 0.0, 0.0)


def exactly(seconds: Count) -> Span:
    """A span without uncertainty: all its ends are `seconds`."""
    return Span(seconds, seconds, seconds, seconds)


def end_by_end(spans: Sequence[Span], each: Callable[[Sequence[Count]], Count]) -> Span:
    """Combine several spans into one, end by end."""
    if any(isinstance(span, Expected) for span in spans):
        return expected_alone(each([span.expected for span in spans]))
    return Span(*map(each, zip(*(span.ends() for span in spans), strict=True)))


def total(spans: Iterable[Span]) -> Span:
    """The sum of spans, for work done one after another."""
    return reduce(add, spans, NOTHING)


def shaped(value: Count, shape: tuple[int, ...]) -> Count:
    """A float for shape (), else an array of that shape."""
    if not shape:
        return float(value) if is_array(value) else value
    return np.broadcast_to(value, shape)
