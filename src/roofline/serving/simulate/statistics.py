"""Statistics of many requests in bounded memory: percentiles, means with confidence intervals, and a timeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, isnan, log, sqrt

import numpy as np

from roofline.declared.numbers.arrays import Array

EXACT = 2**16
"""Number of values that a sample stores exactly; beyond it, values are counted in bins."""
BIN = 1e-3
"""Relative width of a bin."""
BATCHES = 32
"""Number of batches for the confidence interval of the mean (batch means: Law, Simulation Modeling and
Analysis, §9.5).
"""
STUDENT = {32: 2.0395, 16: 2.1314}
"""Number of batches → 97.5 % quantile of Student's t, with one degree of freedom fewer."""
EQUAL = 1e-6
"""Relative difference of batch means that rounding of clocks can cause."""
SMALLEST = 1e-9
POINTS = 512
"""Maximum number of intervals in a timeline."""


class Sample:
    """Weighted values of at least 0: exact up to EXACT values of weight one, beyond within 0.05 %."""

    def __init__(self) -> None:
        self.values: list[float] | None = []
        self.bins: dict[int, float] = {}
        self.number = 0.0
        self.sum = 0.0

    def add(self, value: float, weight: float = 1.0) -> None:
        """Add a value with a weight."""
        self.number += weight
        self.sum += value * weight
        if self.values is not None:
            if weight == 1.0 and len(self.values) < EXACT:
                self.values.append(value)
                return
            kept, self.values = self.values, None
            for other in kept:
                self._count(other, 1.0)
        self._count(value, weight)

    def _count(self, value: float, weight: float) -> None:
        place = int(log(max(value, SMALLEST) / SMALLEST) / BIN)
        self.bins[place] = self.bins.get(place, 0.0) + weight

    @property
    def mean(self) -> float:
        """The mean; NaN without values."""
        return self.sum / self.number if self.number else float("nan")

    def percentiles(self, shares: tuple[float, ...]) -> tuple[float, ...]:
        """The smallest values that are at least these shares of all values (nearest rank); NaN without values."""
        if not self.number:
            return tuple(float("nan") for _ in shares)
        if self.values is not None:
            ordered = np.sort(np.array(self.values))
            places = [max(0, int(np.ceil(share * ordered.size)) - 1) for share in shares]
            return tuple(float(ordered[place]) for place in places)
        bins, weights = np.array(sorted(self.bins)), np.array([self.bins[p] for p in sorted(self.bins)])
        reached = np.cumsum(weights)
        least = [int(bins[np.searchsorted(reached, share * reached[-1] - 1e-9)]) for share in shares]
        return tuple(SMALLEST * exp((place + 0.5) * BIN) if place else 0.0 for place in least)

    def quantiles(self, number: int = 200) -> tuple[float, ...]:
        """Quantiles at equal steps; the last one is the maximum."""
        return self.percentiles(tuple((i + 1) / number for i in range(number)))


class Means:
    """Batch means of a series of unknown length, and the confidence interval of the overall mean.

    Batches start with one value each and are merged in pairs whenever there are twice as many as needed.
    """

    def __init__(self) -> None:
        self.size, self.sums = 1, list[float]()
        self.inside, self.sum = 0, 0.0

    def add(self, value: float) -> None:
        """Add the next value of the series."""
        self.sum += value
        self.inside += 1
        if self.inside == self.size:
            self.sums.append(self.sum)
            self.inside, self.sum = 0, 0.0
            if len(self.sums) == 2 * BATCHES:
                self.sums = [a + b for a, b in zip(self.sums[::2], self.sums[1::2], strict=True)]
                self.size *= 2

    def batches(self, number: int = BATCHES) -> Array:
        """The means of `number` batches, at most 32; empty while there are fewer than 32."""
        if len(self.sums) < BATCHES:
            return np.zeros(0)
        per = len(self.sums) // number
        return np.asarray(np.reshape(self.sums[: per * number], (number, per)).sum(axis=1) / (per * self.size))

    @property
    def half_width(self) -> float:
        """Half-width of the 95 % confidence interval of the mean, from 32 batches; NaN with fewer."""
        means = self.batches()
        return _half_width(means) if means.size else float("nan")

    @property
    def sure(self) -> float:
        """Half-width of the 95 % confidence interval from 32 batches, or 16 if the 32 are correlated; NaN if both are.

        With correlated neighbours the interval is too narrow (Law, Simulation Modeling and Analysis, §9.5.3). The lag-1
        correlation of n independent batches is −1/n on average and exceeds 1.64/√n − 1/n one time in twenty. NaN too
        where batches differ by no more than rounding.
        """
        for number in STUDENT:
            means = self.batches(number)
            off = means - means.mean() if means.size else means
            if means.size and means.std() <= EQUAL * means.mean():
                break
            if means.size and off[1:] @ off[:-1] <= (1.64 / sqrt(number) - 1 / number) * (off @ off):
                return _half_width(means)
        return float("nan")

    def within(self, share: float, drawn: bool) -> bool:
        """Whether the half-width is known and at most `share` of the mean; `drawn`: whether the series is random."""
        width, mean = self.half_width, sum(self.sums) / max(1, len(self.sums) * self.size)
        if isnan(width) or width > share * mean:
            return False
        return not drawn or width <= EQUAL * mean or self.sure <= share * mean


def _half_width(means: Array) -> float:
    return float(STUDENT[means.size] * means.std(ddof=1) / sqrt(means.size))


@dataclass
class OverTime:
    """Quantities over time, in intervals of equal length that double whenever there are too many."""

    names: tuple[str, ...]
    width: float = 0.0
    end: float = 0.0
    sums: list[list[float]] = field(default_factory=list)

    def add(self, start: float, end: float, values: tuple[float, ...]) -> None:
        """Add values that held from `start` to `end`; time before 0 is left out."""
        start = max(start, 0.0)
        if end <= start:
            return
        self.end = max(self.end, end)
        if not self.width:
            self.width = max((end - start) / 8, SMALLEST)
        while end > self.width * POINTS:
            self._double()
        first, last = int(start / self.width), min(int(end / self.width), POINTS - 1)
        while len(self.sums) <= last:
            self.sums.append([0.0] * len(self.names))
        for place in range(first, last + 1):
            seconds = min(end, (place + 1) * self.width) - max(start, place * self.width)
            row = self.sums[place]
            for i, value in enumerate(values):
                row[i] += value * seconds

    def _double(self) -> None:
        pairs = [self.sums[i : i + 2] for i in range(0, len(self.sums), 2)]
        self.sums = [[sum(column) for column in zip(*pair, strict=True)] for pair in pairs]
        self.width *= 2

    def series(self) -> tuple[Array, dict[str, Array]]:
        """The ends of the intervals, and the mean of every quantity in each; the last interval may be shorter."""
        sums = np.array(self.sums) if self.sums else np.zeros((0, len(self.names)))
        times = np.minimum(self.width * np.arange(1, len(self.sums) + 1), self.end)
        lengths = np.diff(times, prepend=0.0)
        there = lengths > 0
        return times[there], {name: sums[there, i] / lengths[there] for i, name in enumerate(self.names)}
