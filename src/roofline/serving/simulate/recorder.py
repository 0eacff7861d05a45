"""Recording of a simulation: every counted request, every step, and their sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from roofline.declared.groups import SLO
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.statistics import Means, OverTime, Sample

ROW = {
    "request": int, "replica": int, "arrival_s": float, "input_tokens": int, "output_tokens": int, "cached_tokens": int,
    "queue_s": float, "ttft_s": float, "tpot_s": float, "latency_s": float, "preemptions": int,
}  # fmt: skip
"""Columns of the request rows that a simulation writes; TPOT is None for an answer of one token."""
Row = tuple[float | None, ...]


Objective = SLO
"""Former name of `SLO`, kept for one release."""


@dataclass(frozen=True)
class Settling:
    """The warm-up rule: requests count after `TIMES` as many as are in flight, at least `least` and at most `most`.

    By then the requests that met an empty server are gone. `requests`: number of requests that count.
    """

    least: int
    most: int
    requests: float

    def over(self, sent: int, in_flight: int) -> bool:
        """Whether the warm-up is over after this many requests."""
        return sent >= min(max(self.least, TIMES * in_flight), self.most)


TIMES = 3
"""Length of the warm-up, and of a closed loop's measurement, in multiples of the requests in flight."""
SAMPLES = 64
"""Minimum number of samples of the requests in flight, given as many requests; there are fewer than twice as many."""


@dataclass(eq=False)
class Recorder:
    """Sums over the requests numbered from `first` up to, but not including, `last`, in the order they finish.

    `settling`: the warm-up rule that sets `first` while it is infinite. `start`, `end`: arrival times of the first and
    the last counted request, between which throughput is measured; `end` is infinite until known, and where all are
    sent at once: then throughput is measured until the last answer. `written`: receives
    the row of each request. `sent`, `answered`: requests so far, counted or not. `flow`: for every `apart`-th request
    from the first counted one, how many were sent and answered before it. `contexts`: tokens in the cache, summed over
    the generated tokens of finished requests.
    """

    first: float
    last: float
    objective: Objective
    written: Callable[[Row], None] | None = None
    settling: Settling | None = None
    start: float = inf
    end: float = inf
    sent: int = 0
    answered: int = 0
    apart: int = 1
    flow: list[tuple[int, int]] = field(default_factory=list)
    ttft: Sample = field(default_factory=Sample)
    tpot: Sample = field(default_factory=Sample)
    gap: Sample = field(default_factory=Sample)
    latency: Sample = field(default_factory=Sample)
    queue: Sample = field(default_factory=Sample)
    ttft_means: Means = field(default_factory=Means)
    tpot_means: Means = field(default_factory=Means)
    latency_means: Means = field(default_factory=Means)
    met_means: Means = field(default_factory=Means)
    counted: int = 0
    met: int = 0
    finished: int = 0
    tokens: int = 0
    contexts: int = 0
    prompts_done: int = 0
    cached: int = 0
    preempted: int = 0
    steps: int = 0
    busy: float = 0.0
    decoding: float = 0.0
    timeline: OverTime = field(default_factory=lambda: OverTime(("running", "waiting", "memory", "busy")))

    def arrived(self, number: int, time: float) -> None:
        """Record that a request is sent, unless a run that was resumed has recorded it."""
        if number < self.sent:
            return
        if self.settling is not None and self.first == inf and self.settling.over(number, number - self.answered):
            self.first, self.last = number, number + self.settling.requests
        if number == self.first:
            self.start = time
        if number + 1 == self.last and time > self.start:
            self.end = time
        self.sent = number + 1
        if number >= self.first and not (number - int(self.first)) % self.apart:
            self.flow.append((number, self.answered))
            if len(self.flow) == 2 * SAMPLES:
                self.flow, self.apart = self.flow[::2], 2 * self.apart

    def step(self, start: float, end: float, state: tuple[int, int, float]) -> None:
        """Record a busy period of a replica: requests running, requests waiting, share of memory."""
        self.timeline.add(start, end, (*state, 1.0))
        within = min(end, self.end) - max(start, self.start)
        if within > 0:
            self.busy += within
            self.decoding += within * state[0]

    def gaps(self, seconds: float, tokens: float, end: float) -> None:
        """Record the inter-token latency of a number of tokens."""
        if tokens and self.start <= end <= self.end:
            self.gap.add(seconds, tokens)

    def done(self, request: Request, replica: int) -> None:
        """Record a finished request."""
        self.answered += 1
        if self.start < request.finished <= self.end:  # half-open: users in step finish in groups
            self.finished += 1
            self.tokens += request.output
            self.contexts += request.output * (request.input + request.output // 2)
        if not self.first <= request.number < self.last:
            return
        ttft, latency = request.first - request.arrival, request.finished - request.arrival
        queue = request.queued
        self.counted += 1
        self.cached += request.hit
        self.prompts_done += request.input
        self.preempted += request.preempted
        tpot: float | None = None
        self.ttft.add(ttft)
        self.ttft_means.add(ttft)
        self.latency.add(latency)
        self.latency_means.add(latency)
        self.queue.add(queue)
        if request.output > 1:
            tpot = (latency - ttft) / (request.output - 1)
            self.tpot.add(tpot)
            self.tpot_means.add(tpot)
        met = self.objective.met(ttft, tpot or 0.0, latency)
        self.met += met
        self.met_means.add(float(met))
        if self.written is not None:
            self.written((
                request.number, replica, request.arrival, request.input, request.output, request.hit, queue, ttft,
                tpot, latency, request.preempted,
            ))  # fmt: skip


@dataclass(eq=False)
class Watch:
    """The watcher of a replica. `finished`: callback for finished requests."""

    SAVED: ClassVar[tuple[str, ...]] = ("stalled",)

    recorder: Recorder
    replica: int
    finished: Callable[[Request], None] | None = None
    stalled: float = 0.0

    def steps(self, start: float, end: float, number: int, decodes: int, state: tuple[int, int, float]) -> None:
        """Record a run of decode steps; the first tokens also waited for the prompts before."""
        recorder, each = self.recorder, (end - start) / number
        recorder.steps += number
        recorder.step(start, end, state)
        if self.stalled:
            recorder.gaps(each + self.stalled, decodes, end)
            number, self.stalled = number - 1, 0.0
        if number:
            recorder.gaps(each, number * decodes, end)

    def prompts(self, start: float, end: float, decodes: int, waits: bool, state: tuple[int, int, float]) -> None:
        """Record a step with prompts; decodes that do not share it wait."""
        self.recorder.steps += 1
        self.recorder.step(start, end, state)
        if decodes:
            self.recorder.gaps(end - start, decodes, end)
        elif waits:
            self.stalled += end - start

    def done(self, request: Request) -> None:
        """Record a request's last token."""
        self.recorder.done(request, self.replica)
        if self.finished is not None:
            self.finished(request)
