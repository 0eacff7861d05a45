"""What a server is asked to do: requests, how many of them, and within which times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import erf, inf, log, sqrt
from typing import Any

import numpy as np

from roofline.declared.checks import count, real, requests_a_second
from roofline.declared.errors import InputError
from roofline.declared.maths import Count
from roofline.distinct import Array
from roofline.estimates.span import Span

TENTH = 1.2815515655446004
"""Standard deviations from the median of a normal distribution to its 90 % point."""


@dataclass(frozen=True)
class Demand:
    """Requests of `input` tokens, a share `prefix` of them known, answered with `output` tokens.

    `concurrency`: always so many in all; `rate`: so many a second in all; neither: as many as the limits allow.
    """

    input: int
    output: int
    prefix: float = 0.0
    concurrency: int | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output"):
            object.__setattr__(self, name, count(name, getattr(self, name), 1))
        if self.concurrency is not None and self.rate is not None:
            raise InputError("concurrency", self.concurrency, "a concurrency or a rate, or neither")
        if self.concurrency is not None:
            object.__setattr__(self, "concurrency", count("concurrency", self.concurrency, 1))
        if self.rate is not None:
            if real(self.rate) is None:
                raise InputError("rate", self.rate, "a number of requests a second")
            requests_a_second("rate", self.rate)
        share = real(self.prefix)
        if share is None or not 0 <= share < 1:
            raise InputError("prefix", self.prefix, "a share from 0 up to, but not including, 1")

    @property
    def load(self) -> Mapping[str, Any]:
        """What is given of a load, as estimates take it."""
        given = {"concurrency": self.concurrency, "rate": self.rate}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Limits:
    """The most seconds, in the mean, of TTFT, TPOT and of a whole request.

    `strict`: they hold at the far end of the 80 % interval, not just of what is expected.
    """

    ttft: float = inf
    tpot: float = inf
    latency: float = inf
    strict: bool = False

    def __post_init__(self) -> None:
        for name in NAMES:
            value = real(getattr(self, name))
            if value is None or not value > 0:
                raise InputError(name, getattr(self, name), "seconds, more than 0")

    def shares(self, ttft: Count, tpot: Count, latency: Count) -> Array:
        """How much of each limit is used, [3, …]: 1 is all of it."""
        used = zip((ttft, tpot, latency), (self.ttft, self.tpot, self.latency), strict=True)
        return np.stack(np.broadcast_arrays(*(np.asarray(value) / limit for value, limit in used)))

    def spans(self, ttft: Span, tpot: Span, latency: Span) -> Array:
        """The same of spans, of the end that counts."""
        end = "high" if self.strict else "expected"
        return self.shares(*(getattr(span, end) for span in (ttft, tpot, latency)))

    def chance(self, ttft: Span, tpot: Span, latency: Span) -> float:
        """The probability that all limits hold: that of the least likely, as errors of one model and chip go together.

        Errors are taken to be log-normal to either side of what is expected, with 10 % beyond each end of a span.
        """
        spans, limits = (ttft, tpot, latency), (self.ttft, self.tpot, self.latency)
        return min(_within(span, limit) for span, limit in zip(spans, limits, strict=True))


NAMES = ("ttft", "tpot", "latency")
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
