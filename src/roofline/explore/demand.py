"""What a server is asked to do: requests, how many of them, and within which times."""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, inf, log, sqrt
from typing import Annotated

import numpy as np

from roofline.declared.groups import SLO, Load
from roofline.declared.kinds import Attained, Given, Switch
from roofline.declared.maths import Count
from roofline.declared.question import OLD_NAMES, group, group_settings
from roofline.distinct import Array
from roofline.estimates.span import Span
from roofline.estimates.tails import DEVIATIONS, Percentiles
from roofline.explore.attainment import seconds_of, share_within

TENTH = DEVIATIONS[1]
"""Standard deviations from the median of a normal distribution to its 90 % point."""


def Demand(*sizes: Count, **settings: Given) -> Load:  # noqa: N802
    """A `Load` by its former name, taken for a release."""
    return Load(*sizes, **{OLD_NAMES.get(name, name): value for name, value in settings.items()})


@group
@dataclass(frozen=True)
class Limits(SLO):
    """The most seconds of TTFT, TPOT and of a whole request: in the mean, or for a share of the requests."""

    strict: Annotated[Switch, "Limits hold at the far end of the 80 % interval."] = False
    attainment: Annotated[
        Attained | None, "Share of requests that keep all limits, as in `0.99` (default: their means keep them)."
    ] = None

    def limited(self, ttft: Span, tpot: Span, latency: Span, tails: Percentiles) -> tuple[Span, Span, Span]:
        """The seconds that limits are of: the means, or what a share of the requests does not exceed.

        The share that may miss a limit is that of all, over the number of limits: whoever misses one may keep others.
        """
        means, number = (ttft, tpot, latency), sum(limit < inf for limit in self.bounds)
        if self.attainment is None or not number:
            return means
        share = 1 - (1 - self.attainment) / number
        pairs = zip(means, (tails.ttft, tails.tpot, tails.latency), strict=True)
        first, then, whole = (mean.times(seconds_of(tail, share) / mean.expected) for mean, tail in pairs)
        return first, then, whole

    def attained(self, tails: Percentiles) -> float:
        """The share of requests that keep all limits, at least: as if none of them missed two."""
        pairs = zip((tails.ttft, tails.tpot, tails.latency), self.bounds, strict=True)
        return max(0.0, 1 - sum(1 - share_within(tail, limit) for tail, limit in pairs if limit < inf))

    def shares(self, ttft: Count, tpot: Count, latency: Count) -> Array:
        """How much of each limit is used, [3, …]: 1 is all of it."""
        used = zip((ttft, tpot, latency), self.bounds, strict=True)
        return np.stack(np.broadcast_arrays(*(np.asarray(value) / limit for value, limit in used)))

    def spans(self, ttft: Span, tpot: Span, latency: Span) -> Array:
        """The same of spans, of the end that counts."""
        end = "high" if self.strict else "expected"
        return self.shares(*(getattr(span, end) for span in (ttft, tpot, latency)))

    def chance(self, ttft: Span, tpot: Span, latency: Span) -> float:
        """The probability that all limits hold: that of the least likely, as errors of one model and chip go together.

        Errors are taken to be log-normal to either side of what is expected, with 10 % beyond each end of a span.
        """
        spans, limits = (ttft, tpot, latency), self.bounds
        return min(_within(span, limit) for span, limit in zip(spans, limits, strict=True))


NAMES = tuple(group_settings(SLO))
"""Times that can be limited, in the order in which shares of them stand."""


def _within(span: Span, limit: float) -> float:
    """The probability that a time is at most a limit."""
    if limit == inf:
        return 1.0
    expected, end = float(span.expected), float(span.high if limit >= span.expected else span.low)
    if expected <= 0 or end <= 0 or end == expected:
        return float(expected <= limit)
    deviations = TENTH * log(limit / expected) / abs(log(end / expected))
    return (1 + erf(deviations / sqrt(2))) / 2
