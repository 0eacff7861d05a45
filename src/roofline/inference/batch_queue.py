"""Dynamic batching: as soon as a server is free, it reads all waiting inputs together.

This is a queue with Poisson arrivals and service in batches (N. T. J. Bailey, "On queueing processes with bulk
service", 1954). Here the time of a batch also depends on its size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log
from statistics import NormalDist

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array

FULLEST = 0.99
"""Highest load for which the queue is computed."""
REST = 1e-10
"""Probability of the queues that are left out because they are too long."""
_EDGES = np.array([0, 0.1, 0.25, 0.4, 0.6, 0.75, 0.9, 0.96, 0.99, 0.997, 1])
POINTS, WEIGHTS = (_EDGES[1:] + _EDGES[:-1]) / 2, np.diff(_EDGES)
"""Probabilities whose quantiles represent a number of arrivals, and the weight of each."""
MOMENTS = (np.arange(12) + 0.5) / 12
"""Points of a batch's time at which inputs are taken to arrive, as shares of it."""
MANY = 50.0
"""Mean from which a Poisson number is approximated by a normal one, corrected for skewness."""
RARE = 1e-9
"""Probability of numbers of waiting inputs that the percentiles leave out."""


@dataclass(frozen=True)
class BatchQueue:
    """A server at which inputs arrive at random, `rate` per second.

    `seconds[b - 1]`: the time of a batch of b inputs; the last is the largest batch. Raises InputError for a rate that
    fills more than 99 % of the largest batches.
    """

    rate: float
    seconds: Array

    def __post_init__(self) -> None:
        if not self.load <= FULLEST:
            most = FULLEST * self.largest / self.seconds[-1]
            batches = f"batches of {self.largest}" if self.largest > 1 else "inputs one at a time"
            raise InputError("rate", self.rate, f"at most {most:.4g} inputs/s, 99 % of what {batches} allow")

    @property
    def largest(self) -> int:
        """Inputs of the largest batch."""
        return len(self.seconds)

    @property
    def load(self) -> float:
        """The rate as a share of that of the largest batches, one after another."""
        return float(self.rate * self.seconds[-1] / self.largest)

    @cached_property
    def waiting(self) -> Array:
        """Probability of each number of inputs that wait when a batch ends.

        This is the stationary distribution of a Markov chain: a batch takes all waiting inputs, up to its largest size,
        and those that arrive during it wait at its end. Each further input makes a long queue rarer by a factor of at
        least 2/load − 1.
        """
        longest = 2 * self.largest + ceil(-log(REST) / log(2 / self.load - 1))
        numbers = np.arange(longest + 1)
        factorials = np.concatenate(([0.0], np.cumsum(np.log(numbers[1:]))))
        means = self.rate * self.seconds[:, np.newaxis]
        arrivals = np.exp(numbers * np.log(means) - means - factorials)
        moves = np.zeros((longest + 1, longest + 1))
        for waits in range(longest + 1):
            left = max(0, waits - self.largest)
            moves[waits, left:] = arrivals[min(max(waits, 1), self.largest) - 1, : longest + 1 - left]
        moves[:, -1] += 1 - moves.sum(axis=1)
        balance = moves.T - np.eye(longest + 1)
        balance[-1] = 1.0
        return np.asarray(np.maximum(np.linalg.solve(balance, np.eye(longest + 1)[-1]), 0.0))

    @cached_property
    def _taken(self) -> Array:
        """Inputs of the next batch by the number that waits; with none waiting, the server waits for one."""
        return np.clip(np.arange(len(self.waiting)), 1, self.largest)

    @property
    def mean_batch(self) -> float:
        """Mean number of inputs in a batch."""
        return float(self.waiting @ self._taken)

    @cached_property
    def _cycle(self) -> float:
        """Mean seconds from the end of a batch to the end of the next."""
        return float(self.waiting @ self.seconds[self._taken - 1] + self.waiting[0] / self.rate)

    @property
    def busy(self) -> float:
        """Share of the time in which the server is busy."""
        return float(self.waiting @ self.seconds[self._taken - 1]) / self._cycle

    @property
    def mean(self) -> float:
        """Mean seconds from an input's arrival until its batch is read, by Little's law."""
        times = self.seconds[self._taken - 1]
        present = np.maximum(np.arange(len(times)), 1) * times + self.rate * times**2 / 2
        return float(self.waiting @ present) / self._cycle / self.rate

    def percentile(self, share: float) -> float:
        """Seconds within which this share of the inputs is read.

        An input that arrives during a batch waits for the end of it, then for the full batches of the inputs ahead, and
        is read together with those that arrive until its own batch begins. Times and numbers of arrivals are taken at a
        dozen quantiles.
        """
        return float(np.interp(share, *self._distribution))

    @cached_property
    def _distribution(self) -> tuple[Array, Array]:
        """Shares of inputs and the seconds within which they are read, in ascending order."""
        likely = np.flatnonzero(self.waiting > RARE)
        times = self.seconds[self._taken[likely] - 1][:, np.newaxis]
        left = np.maximum(likely - self.largest, 0)[:, np.newaxis, np.newaxis]
        ahead = left + _arrivals(self.rate * times * MOMENTS)
        rest = (times * (1 - MOMENTS))[:, :, np.newaxis]
        full = ahead // self.largest
        start = rest + full * self.seconds[-1]
        later = _arrivals(self.rate * start, self.largest)
        own = np.minimum((ahead % self.largest)[..., np.newaxis] + 1 + later, self.largest)
        seconds = start[..., np.newaxis] + self.seconds[own - 1]
        inputs = (self.waiting[likely] * self.rate * times[:, 0] / len(MOMENTS))[:, None, None, None]
        each = np.broadcast_to(inputs * WEIGHTS[:, np.newaxis] * WEIGHTS, seconds.shape)
        weights = np.append(each.ravel(), self.waiting[0])
        latencies = np.append(seconds.ravel(), self.seconds[0])
        order = np.argsort(latencies)
        below = np.cumsum(weights[order])
        return (below - weights[order] / 2) / below[-1], latencies[order]


def _arrivals(means: Array, most: int | None = None) -> Array:
    """Quantiles of Poisson numbers with these means, along a new last axis; those beyond `most` may be too small.

    Large numbers are approximated by normal ones, with the first term of the Cornish–Fisher expansion.
    """
    means = means[..., np.newaxis]
    normal = np.array([NormalDist().inv_cdf(float(point)) for point in POINTS])
    numbers = np.rint(means + np.sqrt(means) * normal + (normal**2 - 1) / 6).astype(int)
    few = np.broadcast_to(means < MANY, numbers.shape)
    small = np.minimum(means, MANY)
    term = np.exp(-small)
    below = np.broadcast_to(term, numbers.shape).copy()
    counted = np.zeros(numbers.shape, dtype=int)
    longest = int(small.max() + 6 * np.sqrt(small.max()) + 10)
    for number in range(1, (longest if most is None else min(longest, most)) + 1):
        counted += below < POINTS
        term = term * small / number
        below += term
    return np.where(few, counted, np.maximum(numbers, 0))
