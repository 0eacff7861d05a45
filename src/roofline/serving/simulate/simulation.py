"""The result of a simulation: latency percentiles of requests, and figures of the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import ClassVar

import numpy as np

from roofline.declared.result import Figured, Leaf, Units
from roofline.engines.engine import Engine
from roofline.inference.cost.cost import Spending, Spent
from roofline.inference.deployment import Deployment
from roofline.inference.generate import Speculation
from roofline.inference.settings import Deployed, Setup
from roofline.model.media.images import ImageTokens
from roofline.serving.encoders import EncoderPool
from roofline.serving.simulate.recorder import TIMES, Recorder
from roofline.serving.simulate.statistics import Means, OverTime, Sample

SHARES = (0.5, 0.9, 0.95, 0.99)
"""Percentiles that are reported, as shares of requests."""


@dataclass(frozen=True)
class Distribution(Figured):
    """A distribution over requests, in seconds: mean, half-width of its 95 % confidence interval, and percentiles.

    `half_width`: by batch means over 32 consecutive parts of the run, or 16 where the 32 are correlated; null where the
    16 are correlated too, with fewer requests than 32, and where nothing is random.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("mean", "half_width", "p50", "p90", "p95", "p99"), "s")

    mean: float
    half_width: float
    p50: float
    p90: float
    p95: float
    p99: float

    def leaves(self, name: str, unit: str) -> Iterator[Leaf]:
        """The figures as columns; the mean has the plain name."""
        yield name, self.mean, unit
        yield from ((f"{name}_{part}", getattr(self, part), unit) for part in list(self.FIGURES)[1:])


def distribution(sample: Sample, means: Means | None = None) -> Distribution:
    """The distribution of a sample; `means` are its batch means, for the confidence interval."""
    width = float("nan") if means is None else means.sure
    return Distribution(sample.mean, width, *sample.percentiles(SHARES))


@dataclass(frozen=True)
class Quantiles:
    """200 quantiles at equal steps, in seconds, for plots."""

    ttft: tuple[float, ...]
    tpot: tuple[float, ...]
    latency: tuple[float, ...]


@dataclass(frozen=True)
class TimeCourse(Figured):
    """A server over time, from the first request to the last, in at most 512 intervals that end at `seconds`.

    `running`, `waiting`: mean numbers of requests over all replicas in the interval. `memory`: share of the engine's
    cache memory used by running requests, and `busy`: share of time, both averaged over replicas.
    """

    FIGURES: ClassVar[Units] = {"seconds": "s", "running": "", "waiting": "", "memory": "share", "busy": "share"}

    seconds: tuple[float, ...]
    running: tuple[float, ...]
    waiting: tuple[float, ...]
    memory: tuple[float, ...]
    busy: tuple[float, ...]


def time_course(timeline: OverTime, replicas: int) -> TimeCourse:
    """The time course of a number of replicas."""
    times, series = timeline.series()
    sums = (series["running"], series["waiting"], series["memory"] / replicas, series["busy"] / replicas)
    return TimeCourse(tuple(times.tolist()), *(tuple(values.tolist()) for values in sums))


@dataclass(frozen=True)
class Prefilling(Figured):
    """The prefill pool. `utilization`: share of time in which a replica is busy.

    `transfer`: seconds from the end of a prefill until its cache has arrived; `queue`: seconds from then until a decode
    replica takes it.
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
    """The result of simulating a server under traffic.

    `requests`: number that count, after `warmup` others. `ttft`: arrival to first token. `tpot`: per request, (latency
    − TTFT) / (output − 1). `inter_token`: time between consecutive tokens of a request, every token weighted equally.
    `latency`: arrival to last token. `queue`: until the first step begins. Rates are over `seconds`, between the
    arrivals of the first and the last counted request. `offered`: requests/s that arrive; null in a closed loop.
    `objective`: the limits, in seconds; `attainment`: required share of requests within all limits, null where limits
    apply to means; `attained`: SLO attainment; `goodput`: requests/s within all limits. `keeps`: whether the limits
    hold, within the accuracy of the run; null without limits. `utilization`: share of time in which a replica is busy;
    `running`: mean requests in a busy replica. `cached_share`: share of prompt tokens found in the prefix cache.
    `overloaded`: the number in flight grows for as long as requests come. `settled`: not overloaded, and enough
    requests count for the rates: at least ten times those in flight, three times in a closed loop; and in an open
    stream throughput equals the offered rate within 3 %. `left_out`: number of requests not sent, by reason. `prefill`:
    the prefill pool, if any; other figures of replicas are then of the decode pool. `speculation`: the drafts; `lora`:
    the rank of the adapter; `images`: images per request, whose tokens are in the prompt; `encoder`: the encoder pool,
    whose `wait` is the mean over all requests that came; null where there is none.
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
        "speculation": "", "lora": "", "images": "", "encoder": "",
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
    """Half-width of the 95 % confidence interval of the share, from 32 batch means; null with fewer requests."""
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
    encoder: EncoderPool | None = None
    spent: Spending | None = None
    at_once: bool = False
    """Whether all requests were sent at the start; rates are then until the last answer."""

    @property
    def spending(self) -> Spending | None:
        """Cost and energy per second, at the mean lengths of requests.

        None where no request counts, and for drafts with two pools.
        """
        return self.spent

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Generated tokens/s over all chips of the layout, of the prefill pool and of the encoder pool."""
        chips = self.asked.layout.chips + (self.prefill.deployment.layout.chips if self.prefill else 0)
        chips += 0 if self.encoder is None else int(self.encoder.chips)
        return float(self.tokens_per_second / chips)

    @property
    def goodput(self) -> float:
        """Requests/s within all limits."""
        return self.requests_per_second * self.attained

    @property
    def keeps(self) -> bool | None:
        """Whether the limits hold; None without limits or counted requests.

        The attained share may fall short by half of its 95 % confidence interval or half of the share that may miss,
        whichever is less. Means may exceed their limits by `TOLERANCE`. An overloaded server never keeps them.
        """
        if not self.objective or not self.requests:
            return None
        if self.overloaded or self.attainment is None:
            return not self.overloaded and not self.exceeded
        width = 0.0 if isnan(self.attained_half_width) else self.attained_half_width
        return self.attained + min(width, (1 - self.attainment) / 2) >= self.attainment

    @property
    def exceeded(self) -> dict[str, float]:
        """Limits that means exceed by more than `TOLERANCE`, with mean / limit."""
        shares = {name: getattr(self, name).mean / limit for name, limit in self.objective.items()}
        return {name: share for name, share in shares.items() if share > 1 + TOLERANCE}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a scalar."""
        return ()


TOLERANCE = 0.02
"""Share by which a mean may exceed its limit: about a simulation's own 95 % confidence interval."""
CERTAIN = 3.0
"""Standard errors above which growth is not chance."""
LASTING = 0.5
"""Growth in flight between the last two thirds, over that between the first two, from which it does not level out."""
RISING = 1.25
"""Answers in the last third over those in the second, above which the server is not at its limit yet."""
STEADY = 10
"""Counted requests of an open stream, over those in flight, from which rates are accurate."""
BALANCED = 0.03
"""Maximum relative difference of throughput and offered rate in an open stream with accurate rates."""
FEWEST = 16
"""Minimum number of samples of the number in flight for a trend."""


def falls_behind(recorder: Recorder) -> bool:
    """Whether a server of an open stream is overloaded: the number in flight grows for as long as requests come.

    The samples from the first counted request to the last sent one are split into thirds. The server is overloaded if
    growth is more than chance (`CERTAIN` standard errors of the sum of its changes), does not level out as it would
    after an empty start, and the server is at its limit: it answers hardly more in the last third than in the one
    before.
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
    """Whether enough requests count for accurate rates, after a long enough warm-up.

    A closed loop needs `TIMES` as many as are in flight, an open stream `STEADY` times: there the number in flight at
    either end is random, and it is part of what is done in between.
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
    """Whether throughput equals the offered rate within `BALANCED`; always true for a closed loop."""
    return offered is None or abs(rate - offered) <= BALANCED * offered
