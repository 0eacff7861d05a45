"""Deviation of measured from predicted times, in two parts: independent for each op, and common to all ops of a step.

A kernel's law has an error that differs from shape to shape, and an error shared by all shapes on a chip, engine and
release. In a sum over ops, independent errors add in quadrature and common errors add linearly:

    below = √((Σ common_below)² + Σ own_below²),   and the same for above.

The relative error of a step of many kernels is therefore smaller than that of each kernel, but at least the common one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, root, where

COMMON: Mapping[str, float] = {"A": 0.10, "B": 0.25, "C": 0.75, "-": 0.0}
"""Grade → share of a deviation's variance that is common to a step's ops.

A: share of the variance of the fit's residuals that products with the same number of rows and different widths have in
common (median of 59 sets of constants; `benchmarks/common_error.py`). B and C: excess variance on a chip (B) or a
generation (C) that was held out of the fit; products, attention and experts.
"""


@dataclass(frozen=True)
class Deviation:
    """The interval around a predicted time that holds 80 % of measurements, as deviations below and above.

    `common_below`, `common_above`: sums over ops of the common parts, s. `own_below`, `own_above`: sums over ops of
    the squares of the independent parts, s².
    """

    common_below: Count = 0.0
    common_above: Count = 0.0
    own_below: Count = 0.0
    own_above: Count = 0.0

    def __add__(self, other: Deviation) -> Deviation:
        return Deviation(*(getattr(self, name) + getattr(other, name) for name in PARTS))

    @property
    def below(self) -> Count:
        """Seconds from the lower end of the 80 % interval to the prediction."""
        return root(self.common_below**2 + self.own_below)

    @property
    def above(self) -> Count:
        """Seconds from the prediction to the upper end of the 80 % interval."""
        return root(self.common_above**2 + self.own_above)

    def where(self, condition: Count, other: Deviation) -> Deviation:
        """Select elementwise: `self` where the condition is true, else `other`."""
        return Deviation(*(where(condition, getattr(self, name), getattr(other, name)) for name in PARTS))

    def beside(self, other: Deviation) -> Deviation:
        """Combine with an independent source of error of the same ops: common parts add in quadrature too."""
        below, above = (
            root(getattr(self, name) ** 2 + getattr(other, name) ** 2) for name in ("common_below", "common_above")
        )
        return Deviation(below, above, self.own_below + other.own_below, self.own_above + other.own_above)

    def times(self, factor: Count, squares: Count | None = None) -> Deviation:
        """Deviation of `factor` equal ops. `squares`: Σ n² over groups of n ops with equal errors; None: one group."""
        each = factor * factor if squares is None else squares
        return Deviation(
            factor * self.common_below, factor * self.common_above, each * self.own_below, each * self.own_above
        )

    def of_a_part(self, share: Count) -> Deviation:
        """Deviation of a part of a kernel, scaled so that the squares of all parts add up to those of the kernel."""
        return replace(self, own_below=self.own_below / share, own_above=self.own_above / share)


PARTS = ("common_below", "common_above", "own_below", "own_above")
EXACT = Deviation()
"""Deviation of an exactly known time."""


def deviation_between(expected: Count, low: Count, high: Count, grade: str | Array) -> Deviation:
    """Deviation of an op from its 80 % interval and the grade, or array of grades, of its constants."""
    share: Count = COMMON[grade] if isinstance(grade, str) else 0.0
    if not isinstance(grade, str):
        for letter, value in COMMON.items():
            share = where(grade == letter, value, share)
    below, above = expected - low, high - expected
    common = share**0.5
    return Deviation(common * below, common * above, (1 - share) * below**2, (1 - share) * above**2)


def deviation_within(expected: Count, within: float) -> Deviation:
    """Deviation of ops with a fully common error: a factor whose logarithm is at most `within`."""
    return Deviation(expected * -math.expm1(-within), expected * math.expm1(within))
