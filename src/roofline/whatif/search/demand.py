"""SLOs of a search: limits on TTFT, TPOT and latency, and how likely a plan is to keep them."""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, inf, log, sqrt
from statistics import NormalDist
from typing import Annotated, ClassVar, Protocol, TypeAlias

import numpy as np

from roofline.declared.deprecated import deprecated
from roofline.declared.groups import LIMITED, SLO, Load
from roofline.declared.kinds import Given, Switch
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count
from roofline.declared.question import OLD_NAMES, group
from roofline.declared.result import Units
from roofline.inference.settings import assumed_popularity
from roofline.inference.span import Span
from roofline.model.media.images import ImageTokens
from roofline.model.model import Model
from roofline.serving.closed_forms.attainment import least_over_mean, seconds_of, share_beyond
from roofline.serving.closed_forms.percentiles import DEVIATIONS, Percentiles, Tail, Tails
from roofline.serving.requests import LENGTHS

TENTH = DEVIATIONS[1]
"""Standard deviations from the median of a normal distribution to its 90 % point."""
ERRORS = np.linspace(-4, 4, 161)
"""Grid of model errors, in standard errors, at which the share that misses a limit is evaluated."""
EXACTLY, LEAST_MISSED = 1 - 1e-9, 1e-300
"""Tolerance for rounding of the share that may miss a limit, and a share that counts as zero."""
ServedTimes: TypeAlias = tuple[Span, Span, Span]
"""TTFT, TPOT and latency, in seconds."""


def Demand(*sizes: Count, **settings: Given) -> Load:  # noqa: N802
    """A `Load` under its former name, kept for one release."""
    deprecated("rl.Demand", "rl.Load")
    return Load(*sizes, **{OLD_NAMES.get(name, name): value for name, value in settings.items()})


@group
@dataclass(frozen=True)
class Limits(SLO):
    """Upper limits in seconds on TTFT, TPOT and request latency, for a share of the requests or for the means."""

    strict: Annotated[Switch, "Limits hold at the far end of the 80 % interval."] = False

    def limited(self, means: ServedTimes, percentiles: Percentiles) -> ServedTimes:
        """The times that the limits apply to: quantiles at the required share, or the means."""
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
        """Upper bound of the share of requests that miss a limit: the sum over limits, as if no request missed two."""
        shares = (share_beyond(getattr(tails, name), limit) for name, limit in self.limits.items())
        return np.asarray(sum(shares, np.zeros(())))

    def attained(self, tails: Tails) -> float:
        """Lower bound of the SLO attainment: the share of requests that keep all limits."""
        return max(0.0, 1 - float(self.missed(tails)))

    def used(self, means: ServedTimes, percentiles: Percentiles) -> Array:
        """How much of the limits is used; 1 is all of it.

        The share of requests that miss a limit, over the share that may. For means: the largest time over its limit.
        """
        if self.share is None or not self.limits:
            return np.asarray(self.shares(means).max(axis=0))
        far = percentiles.high if self.strict and percentiles.high is not None else percentiles
        return self.missed(far) / (1 - self.share) * EXACTLY

    def shares(self, times: ServedTimes) -> Array:
        """Times over their limits, [3, …]; with `strict` the far ends of the intervals."""
        end = "high" if self.strict else "expected"
        used = (np.asarray(getattr(span, end)) / limit for span, limit in zip(times, self.bounds, strict=True))
        return np.stack(np.broadcast_arrays(*used))

    def chance(self, means: ServedTimes, percentiles: Percentiles) -> float:
        """The probability that the limits hold, given the model's error.

        Errors of one model and chip are fully correlated. They are log-normal to either side of the expected value,
        with 10 % beyond each end of an interval. For means it is the probability of the least likely limit.
        """
        if self.share is None or not self.limits:
            return min(_within(span, limit) for span, limit in zip(means, self.bounds, strict=True))
        missed, most = self.missed(_in_error(percentiles)), 1 - self.share
        if missed[0] * EXACTLY > most or missed[-1] <= most:
            return float(missed[-1] <= most)
        return NormalDist().cdf(float(np.interp(log(most), np.log(np.maximum(missed, LEAST_MISSED)), ERRORS)))

    @property
    def loosest(self) -> tuple[float, float, float]:
        """Mean TTFT, TPOT and latency above which the limits cannot hold, in seconds."""
        least = 1.0 if self.share is None else least_over_mean(self.share)
        ttft, tpot, latency = (limit / least for limit in self.bounds)
        return ttft, tpot, latency


class AboutModel(Protocol):
    """An answer about a model."""

    @property
    def model(self) -> Model:
        """The model."""
        ...


class UnderLimits:
    """The lengths of a load and the limits that it must keep, as figures of an answer about both.

    `images`: of each request, whose tokens are in `input`; None without any.
    """

    FIGURES: ClassVar[Units] = {
        **LENGTHS, "images": "", "ttft_limit": "s", "tpot_limit": "s", "latency_limit": "s", "attainment": "share",
        "assumed_popularity": "",
    }  # fmt: skip

    demand: Load
    limits: Limits
    images: ImageTokens | None

    @property
    def input(self) -> int:
        """Prompt tokens of a request, images included."""
        return int(self.demand.input) + (0 if self.images is None else self.images.tokens)

    @property
    def output(self) -> int:
        """Generated tokens of a request."""
        return int(self.demand.output_tokens)

    @property
    def assumed_popularity(self: AboutModel) -> float | None:
        """The exponent by which steps visit experts, which no layout here tells; None without experts."""
        return assumed_popularity(self.model)

    @property
    def ttft_limit(self) -> float | None:
        """Limit on TTFT in seconds; None without a limit."""
        return _finite(self.limits.ttft)

    @property
    def tpot_limit(self) -> float | None:
        """Limit on TPOT in seconds; None without a limit."""
        return _finite(self.limits.tpot)

    @property
    def latency_limit(self) -> float | None:
        """Limit on request latency in seconds; None without a limit."""
        return _finite(self.limits.latency)

    @property
    def attainment(self) -> float | None:
        """The share of requests that must keep the limits; None where limits apply to means."""
        return self.limits.share


def _finite(seconds: float) -> float | None:
    return None if seconds == inf else seconds


def _in_error(percentiles: Percentiles) -> Tails:
    """Percentiles with a model error of each of the `ERRORS`, scaled by their intervals."""

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
