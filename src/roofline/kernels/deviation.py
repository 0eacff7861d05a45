"""How far measurements fall from what is expected, in two parts: an op's own, and one common to all ops of a step.

The law of a kernel is off at each shape by another amount, and at all shapes of a chip, an engine and a release by
some of it. In a sum over ops the own parts go as the root of their squares and the common ones add up,

    below = √((Σ common_below)² + Σ own_below²),   above alike,

so that a step of many kernels is better known than each of them, and never better than what they have in common.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline.declared.arrays import Array
from roofline.declared.maths import Count, root, where

COMMON: Mapping[str, float] = {"A": 0.10, "B": 0.25, "C": 0.75, "-": 0.0}
"""Share of a deviation's variance that is common to a step's ops, by grade.

A: what products of a step, of one number of rows and many widths, have in common of the variance of the fit's
residuals (the median of 59 sets of constants; `benchmarks/common_error.py`). B and C: what the variance of a chip, or
of a generation, that took no part in the fit has more than that of one which did; products, attention and experts.
"""


@dataclass(frozen=True)
class Deviation:
    """80 % of measurements are at most so many seconds below and above what is expected.

    `common_below`, `common_above`: the sum of the parts that ops have in common. `own_below`, `own_above`: the sums of
    the squares, s², of the parts that each has by itself.
    """

    common_below: Count = 0.0
    common_above: Count = 0.0
    own_below: Count = 0.0
    own_above: Count = 0.0

    def __add__(self, other: Deviation) -> Deviation:
        return Deviation(*(getattr(self, name) + getattr(other, name) for name in PARTS))

    @property
    def below(self) -> Count:
        """Seconds by which measurements fall short at most, four fifths of them within both ends."""
        return root(self.common_below**2 + self.own_below)

    @property
    def above(self) -> Count:
        """Seconds by which they exceed."""
        return root(self.common_above**2 + self.own_above)

    def where(self, condition: Count, other: Deviation) -> Deviation:
        """This one where the condition holds, the other elsewhere."""
        return Deviation(*(where(condition, getattr(self, name), getattr(other, name)) for name in PARTS))

    def beside(self, other: Deviation) -> Deviation:
        """With an independent one of the same ops: common parts, too, as the root of their squares."""
        below, above = (
            root(getattr(self, name) ** 2 + getattr(other, name) ** 2) for name in ("common_below", "common_above")
        )
        return Deviation(below, above, self.own_below + other.own_below, self.own_above + other.own_above)

    def times(self, factor: Count, squares: Count | None = None) -> Deviation:
        """Of so many times the same op; `squares`: Σ n² over the n that err alike, all if None."""
        each = factor * factor if squares is None else squares
        return Deviation(
            factor * self.common_below, factor * self.common_above, each * self.own_below, each * self.own_above
        )

    def of_a_part(self, share: Count) -> Deviation:
        """Of a part of a kernel's time, whose own error is that of its other parts: squares add up to the kernel's."""
        return replace(self, own_below=self.own_below / share, own_above=self.own_above / share)


PARTS = ("common_below", "common_above", "own_below", "own_above")
EXACT = Deviation()
"""Of what is known."""


def deviation_between(expected: Count, low: Count, high: Count, grade: str | Array) -> Deviation:
    """The deviation of an op whose interval is known, of constants of a grade or of an array of them."""
    share: Count = COMMON[grade] if isinstance(grade, str) else 0.0
    if not isinstance(grade, str):
        for letter, value in COMMON.items():
            share = where(grade == letter, value, share)
    below, above = expected - low, high - expected
    common = share**0.5
    return Deviation(common * below, common * above, (1 - share) * below**2, (1 - share) * above**2)


def deviation_within(expected: Count, within: float) -> Deviation:
    """Of ops that err alike, by a factor whose logarithm is at most `within`."""
    return Deviation(expected * -math.expm1(-within), expected * math.expm1(within))
