"""The answer of a simulation: percentiles of what requests saw, and what the server did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import ClassVar

import numpy as np

from roofline.declared.result import Figured, Leaf, Units
from roofline.estimates.cost import Spending, Spent
from roofline.estimates.deployment import Deployment
from roofline.estimates.generate import Speculation
from roofline.estimates.settings import Deployed, Setup
from roofline.machine.engine import Engine
from roofline.model.images import ImageTokens
from roofline.simulation.recorder import TIMES, Recorder
from roofline.simulation.statistics import Means, OverTime, Sample

SHARES = (0.5, 0.9, 0.95, 0.99)
"""Of requests, whose percentiles are told."""


@dataclass(frozen=True)
class Distribution(Figured):
    """Of many requests, in seconds: the mean, half of its 95 % confidence interval, and percentiles.

    `half_width`: from the means of 32 parts of the run, one after another, or of 16 where those hang together; null of
    fewer, where these do too, and where nothing is left to chance.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("mean", "half_width", "p50", "p90", "p95", "p99"), "s")

    mean: float
    half_width: float
    p50: float
    p90: float
    p95: float
    p99: float

    def leaves(self, name: str, unit: str) -> Iterator[Leaf]:
        """As columns: the mean bears the name."""
        yield name, self.mean, unit
        yield from ((f"{name}_{part}", getattr(self, part), unit) for part in list(self.FIGURES)[1:])


def distribution(sample: Sample, means: Means | None = None) -> Distribution:
    """The distribution of a sample; how sure its mean is where the means of parts are given, and tell it."""
    width = float("nan") if means is None else means.sure
    return Distribution(sample.mean, width, *sample.percentiles(SHARES))


@dataclass(frozen=True)
class Quantiles:
    """Seconds that equal shares of all requests do not exceed, 200 of each, for pictures."""

    ttft: tuple[float, ...]
    tpot: tuple[float, ...]
    latency: tuple[float, ...]


@dataclass(frozen=True)
class TimeCourse(Figured):
    """A server from the first request to the last, in at most 512 pieces of time, each of which ends at `seconds`.

    `running`, `waiting`: requests at all replicas, on average over the piece; `memory`: the share that running
    requests take of what the engine leaves the cache, and `busy` the share of the time, on average over the replicas.
    """

    FIGURES: ClassVar[Units] = {"seconds": "s", "running": "", "waiting": "", "memory": "share", "busy": "share"}

    seconds: tuple[float, ...]
    running: tuple[float, ...]
    waiting: tuple[float, ...]
    memory: tuple[float, ...]
    busy: tuple[float, ...]


def time_course(timeline: OverTime, replicas: int) -> TimeCourse:
    """What became of so many replicas over time."""
    times, series = timeline.series()
    sums = (series["running"], series["waiting"], series["memory"] / replicas, series["busy"] / replicas)
    return TimeCourse(tuple(times.tolist()), *(tuple(values.tolist()) for values in sums))


@dataclass(frozen=True)
class Prefilling(Figured):
    """The pool that prefills. `utilization`: the share of the time in which a replica is busy; `transfer`: seconds from
    the end of a prefill until its cache is where it decodes; `queue`: from then until a replica takes it.
    """

    FIGURES: ClassVar[Units] = {
        "deployment": "", "engine": "", "replicas": "", "utilization": "share", "transfer": "s", "queue": "s",
    }  # fmt: skip

    deployment: Deployment
    engine: Engine
    replicas: int
    utilization: float
    transfer: Distribution
    queue: Distribution


@dataclass(frozen=True, repr=False)
class Simulation(Spent, Deployed):
    """A server under traffic, request by request.

    `requests`: those that count, after the first `warmup`. `ttft`: arrival to first token; `tpot`: of each request,
    (latency − TTFT) / (output − 1); `inter_token`: between any two tokens of a request, all tokens alike; `latency`:
    arrival to last token; `queue`: until its first step begins. Rates are of `seconds`, the time between the arrivals
    of the first and the last that count; `offered`: the requests that come in it, null where users wait for answers.
    `objective`: the most seconds that were asked for, `attainment`: the share of requests that are to be within all of
    them, null where their means are; `attained`: the share that is, `goodput`: those a second. `keeps`: whether that is
    enough, as far as the run tells; null where nothing was asked for. `utilization`: the share of the time in which a
    replica is busy; `running`: the requests in a busy replica. `cached_share`: of the prompts' tokens, those found in
    the prefix cache. `overloaded`: the number in flight grows for as long as requests come. `settled`: it did not, and
    as many requests count as tell the rates and what hangs on them: ten times those in flight or more, three times
    where users wait for answers; and of an open stream as many are done a second as come, within 3 %. `left_out`: why
    requests were not sent, and how many. `prefill`: the pool that does, where there is one; the other figures of
    replicas are then of those that decode. `speculation`: what drafts tokens for decode steps to verify, `lora`: the
    rank of the adapter that requests use, `images`: those of each request, whose tokens are in its prompt; null where
    there is none.
    """

    SCHEMA: ClassVar[str] = "roofline.simulate/3"
    FIGURES: ClassVar[Units] = {
        **Deployed.PLACE, "traffic": "", "router": "", "seed": "", "warmup": "", "requests": "", "seconds": "s",
        "offered": "requests/s", "ttft": "s", "tpot": "s", "inter_token": "s", "latency": "s", "queue": "s",
        "requests_per_second": "requests/s", "tokens_per_second": "tokens/s",
        "tokens_per_second_per_chip": "tokens/s", "objective": "", "attainment": "share",
        "attained": "share", "attained_half_width": "share", "keeps": "",
        "goodput": "requests/s", "utilization": "share", "running": "", "preemptions": "", "cached_share": "share",
        "steps": "", **Spent.BILLED, "overloaded": "", "settled": "", "left_out": "", "timeline": "", "prefill": "",
        "speculation": "", "lora": "", "images": "",
    }  # fmt: skip

    asked: Setup
    traffic: str
    router: str
    seed: int
    warmup: int
    requests: int
    seconds: float
    offered: float | None
    ttft: Distribution
    tpot: Distribution
    inter_token: Distribution
    latency: Distribution
    queue: Distribution
    requests_per_second: float
    tokens_per_second: float
    objective: dict[str, float]
    attainment: float | None
    attained: float
    attained_half_width: float
    """Half of the 95 % confidence interval of the share, from the means of 32 parts; null of fewer requests."""
    utilization: float
    running: float
    preemptions: int
    cached_share: float
    steps: int
    overloaded: bool
    settled: bool
    left_out: dict[str, int]
    timeline: TimeCourse
    quantiles: Quantiles
    prefill: Prefilling | None = None
    speculation: Speculation | None = None
    lora: int | None = None
    images: ImageTokens | None = None
    spent: Spending | None = None

    @property
    def spending(self) -> Spending | None:
        """What it takes in a second, at the mean lengths; None where no request counts, and of drafted tokens in
        pools."""
        return self.spent

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Generated tokens of all users per second, over the chips of the layout, and of that which prefills."""
        chips = self.asked.layout.chips + (self.prefill.deployment.layout.chips if self.prefill else 0)
        return float(self.tokens_per_second / chips)

    @property
    def goodput(self) -> float:
        """Requests a second that meet the objective."""
        return self.requests_per_second * self.attained

    @property
    def keeps(self) -> bool | None:
        """Whether the limits are kept, None where there is none or no request counts.

        As large a share of the requests keeps them as was asked for, but for half of its 95 % confidence interval or of
        what may miss them, whichever is less; or their means do, but for `TOLERANCE`. An overloaded server keeps none.
        """
        if not self.objective or not self.requests:
            return None
        if self.overloaded or self.attainment is None:
            return not self.overloaded and not self.exceeded
        width = 0.0 if isnan(self.attained_half_width) else self.attained_half_width
        return self.attained + min(width, (1 - self.attainment) / 2) >= self.attainment

    @property
    def exceeded(self) -> dict[str, float]:
        """The limits that means exceed by more than `TOLERANCE`, by how many times."""
        shares = {name: getattr(self, name).mean / limit for name, limit in self.objective.items()}
        return {name: share for name, share in shares.items() if share > 1 + TOLERANCE}

    @property
    def shape(self) -> tuple[int, ...]:
        """A single answer."""
        return ()


TOLERANCE = 0.02
"""Share by which a mean may exceed its limit, which is about what a simulation's own 95 % confidence allows."""
CERTAIN = 3.0
"""Standard errors by which a growth is more than chance."""
LASTING = 0.5
"""Share of its growth before that the number in flight still grows by, where it grows for as long as requests come."""
RISING = 1.25
"""What is answered in the last third over that of the second from which on the server is not at its limit yet."""
STEADY = 10
"""Requests of an open stream that count, over those in flight, from which on they tell rates."""
BALANCED = 0.03
"""Largest share by which the requests done differ from those that come, of an open stream whose rates are told."""
FEWEST = 16
"""Times at which the number in flight is known from which on a trend is looked for."""


def falls_behind(recorder: Recorder) -> bool:
    """Whether a server of an open stream is overloaded: the number in flight grows for as long as requests come.

    Of the times at which it is known, from the first request that counts to the last that was sent, three thirds are
    compared. It grows where it does so by more than chance, `CERTAIN` standard errors of the sum of its changes; where
    it does not level out, which is what an empty server's does; and where the server is at its limit, so that it
    answers no more in the last third than in the one before.
    """
    sent, answered = np.array(recorder.flow, dtype=float).reshape(-1, 2).T
    if sent.size < FEWEST:
        return False
    in_flight = sent - answered
    first, second, third = (float(part.mean()) for part in np.array_split(in_flight, 3))
    changes = np.diff(in_flight)
    chance = float(changes.std() * np.sqrt(changes.size))
    done = np.diff(answered[[0, sent.size // 3, 2 * sent.size // 3, -1]])
    lasting = third - second >= LASTING * (second - first) > 0
    return bool(lasting and 1.5 * (third - first) > CERTAIN * chance and 0 < done[2] <= RISING * done[1])


def long_enough(recorder: Recorder, closed: bool) -> bool:
    """Whether as many requests count as tell rates, and `TIMES` as many as are in flight came before them.

    Of users who wait for answers `TIMES` as many as are in flight are enough, `STEADY` times of an open stream: there
    it is chance how many are in flight at the ends, which is a part of what is done between them.
    """
    sent, answered = np.array(recorder.flow, dtype=float).reshape(-1, 2).T
    counts = sent < recorder.last
    if not counts.any():
        return False
    in_flight = float((sent - answered)[counts].mean())
    rule = recorder.settling
    begun = rule is None or recorder.first < rule.most or recorder.first >= TIMES * (sent - answered)[0]
    return bool(begun and recorder.counted >= (TIMES if closed else STEADY) * in_flight)


def balanced(rate: float, offered: float | None) -> bool:
    """Whether as many requests are done a second as come, but for `BALANCED`; users who wait for answers send those."""
    return offered is None or abs(rate - offered) <= BALANCED * offered
