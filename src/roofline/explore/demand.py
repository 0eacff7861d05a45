"""What a server is asked to do: requests, how many of them, and within which times."""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, inf, log, sqrt
from statistics import NormalDist
from typing import Annotated, TypeAlias

import numpy as np

from roofline.declared.groups import LIMITED, SLO, Load
from roofline.declared.kinds import Given, Switch
from roofline.declared.maths import Count
from roofline.declared.question import OLD_NAMES, group
from roofline.distinct import Array
from roofline.estimates.span import Span
from roofline.estimates.tails import DEVIATIONS, Percentiles, Tail, Tails
from roofline.explore.attainment import least_over_mean, seconds_of, share_beyond

TENTH = DEVIATIONS[1]
"""Standard deviations from the median of a normal distribution to its 90 % point."""
ERRORS = np.linspace(-4, 4, 161)
"""Standard errors at which the share that misses a limit is looked at."""
EXACTLY, LEAST_MISSED = 1 - 1e-9, 1e-300
"""Share of what may be missed that rounding takes, and a share that is as good as none."""
ServedTimes: TypeAlias = tuple[Span, Span, Span]
"""Of TTFT, TPOT and latency."""


def Demand(*sizes: Count, **settings: Given) -> Load:  # noqa: N802
    """A `Load` by its former name, taken for a release."""
    return Load(*sizes, **{OLD_NAMES.get(name, name): value for name, value in settings.items()})


@group
@dataclass(frozen=True)
class Limits(SLO):
    """The most seconds of TTFT, TPOT and of a whole request: for a share of the requests, or in the mean."""

    strict: Annotated[Switch, "Limits hold at the far end of the 80 % interval."] = False

    def limited(self, means: ServedTimes, percentiles: Percentiles) -> ServedTimes:
        """The seconds that each limit is of: what that share of the requests does not exceed, or the means."""
        share = self.share
        if share is None:
            return means
        ends = percentiles, percentiles.low or percentiles, percentiles.high or percentiles
        first, then, whole = (
            Span(mean.floor, *(seconds_of(getattr(tails, name), share) for tails in ends))
            for name, mean in zip(LIMITED, means, strict=True)
        )
        return first, then, whole

    def missed(self, tails: Tails) -> Array:
        """The share of requests that miss a limit, at most: as if none of them missed two."""
        shares = (share_beyond(getattr(tails, name), limit) for name, limit in self.limits.items())
        return np.asarray(sum(shares, np.zeros(())))

    def attained(self, tails: Tails) -> float:
        """The share of requests that keep all limits, at least."""
        return max(0.0, 1 - float(self.missed(tails)))

    def used(self, means: ServedTimes, percentiles: Percentiles) -> Array:
        """How much of the limits is used: 1 is all.

        The share of requests that miss one over the share that may; of means the largest share of a limit.
        """
        if self.share is None or not self.limits:
            return np.asarray(self.shares(means).max(axis=0))
        far = percentiles.high if self.strict and percentiles.high is not None else percentiles
        return self.missed(far) / (1 - self.share) * EXACTLY

    def shares(self, times: ServedTimes) -> Array:
        """How much of each limit times use, [3, …], by the end that counts."""
        end = "high" if self.strict else "expected"
        used = (np.asarray(getattr(span, end)) / limit for span, limit in zip(times, self.bounds, strict=True))
        return np.stack(np.broadcast_arrays(*used))

    def chance(self, means: ServedTimes, percentiles: Percentiles) -> float:
        """The probability that the limits hold.

        Errors of one model and chip go together. They are taken to be log-normal to either side of what is expected,
        with 10 % beyond each end of an interval. Of means it is that of the least likely limit.
        """
        if self.share is None or not self.limits:
            return min(_within(span, limit) for span, limit in zip(means, self.bounds, strict=True))
        missed, most = self.missed(_in_error(percentiles)), 1 - self.share
        if missed[0] * EXACTLY > most or missed[-1] <= most:
            return float(missed[-1] <= most)
        return NormalDist().cdf(float(np.interp(log(most), np.log(np.maximum(missed, LEAST_MISSED)), ERRORS)))

    @property
    def loosest(self) -> tuple[float, float, float]:
        """Means of TTFT, TPOT and latency beyond which no limit is kept."""
        least = 1.0 if self.share is None else least_over_mean(self.share)
        ttft, tpot, latency = (limit / least for limit in self.bounds)
        return ttft, tpot, latency


def _in_error(percentiles: Percentiles) -> Tails:
    """Percentiles that are so many standard `ERRORS` longer than expected, as by their intervals."""

    def tail(name: str) -> Tail:
        expected = getattr(percentiles, name)
        low, high = (getattr(end or percentiles, name) for end in (percentiles.low, percentiles.high))

        def seconds(figure: str) -> Array:
            middle = max(getattr(expected, figure), LEAST_MISSED)
            ends = (max(getattr(end, figure) / middle, LEAST_MISSED) for end in (low, high))
            shorter, longer = (abs(log(end)) / TENTH for end in ends)
            return np.asarray(middle * np.exp(ERRORS * np.where(ERRORS < 0, shorter, longer)))

        return Tail(*map(seconds, Tail.FIGURES))

    return Tails(*map(tail, LIMITED))


def _within(span: Span, limit: float) -> float:
    """The probability that a time is at most a limit."""
    if limit == inf:
        return 1.0
    expected, end = float(span.expected), float(span.high if limit >= span.expected else span.low)
    if expected <= 0 or end <= 0 or end == expected:
        return float(expected <= limit)
    deviations = TENTH * log(limit / expected) / abs(log(end / expected))
    return (1 + erf(deviations / sqrt(2))) / 2
