"""What a simulation writes down: every request that counts, every step, and how both add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from roofline.declared.groups import SLO
from roofline.simulation.request import Request
from roofline.simulation.statistics import Means, OverTime, Sample

ROW = {
    "request": int, "replica": int, "arrival_s": float, "input_tokens": int, "output_tokens": int, "cached_tokens": int,
    "queue_s": float, "ttft_s": float, "tpot_s": float, "latency_s": float, "preemptions": int,
}  # fmt: skip
"""Columns of the requests that a simulation writes; TPOT is none where there is one token."""
Row = tuple[float | None, ...]


Objective = SLO
"""Its former name, taken for a release."""


@dataclass(frozen=True)
class Settling:
    """When requests begin to count: once `TIMES` as many have come as are in flight, by when those of an empty server
    are gone; after `least` of them, and after `most` whatever is in flight. So many `requests` count."""

    least: int
    most: int
    requests: float

    def over(self, sent: int, in_flight: int) -> bool:
        """Whether the requests after so many count."""
        return sent >= min(max(self.least, TIMES * in_flight), self.most)


TIMES = 3
"""Requests over those in flight from which on their number has settled, and as many are to count."""
SAMPLES = 64
"""Times at which the number in flight is looked at: so many at least of as many requests, and fewer than twice."""


@dataclass(eq=False)
class Recorder:
    """Sums over the requests numbered from `first` up to, but not including, `last`, in the order they finish.

    `settling`: when those begin to count of which `first` is infinite. `start`, `end`: the time between the arrivals of
    the first and the last that count, where throughput is counted; the end is infinite while it is not known.
    `written`: takes the rows of requests, where anything does. `sent`, `answered`: requests so far, counted or not.
    `flow`: of every `apart`th request from the first that counts on, how many were sent and answered before it.
    `contexts`: tokens in the cache of those that finished, summed over the tokens of their answers.
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
        """A request is sent; one that was before the simulation went on from what it saved changes nothing."""
        if number < self.sent:
            return
        if self.settling is not None and self.first == inf and self.settling.over(number, number - self.answered):
            self.first, self.last = number, number + self.settling.requests
        if number == self.first:
            self.start = time
        if number + 1 == self.last:
            self.end = time
        self.sent = number + 1
        if number >= self.first and not (number - int(self.first)) % self.apart:
            self.flow.append((number, self.answered))
            if len(self.flow) == 2 * SAMPLES:
                self.flow, self.apart = self.flow[::2], 2 * self.apart

    def step(self, start: float, end: float, state: tuple[int, int, float]) -> None:
        """A replica was busy, with so many requests running and waiting and so full a memory."""
        self.timeline.add(start, end, (*state, 1.0))
        within = min(end, self.end) - max(start, self.start)
        if within > 0:
            self.busy += within
            self.decoding += within * state[0]

    def gaps(self, seconds: float, tokens: float, end: float) -> None:
        """So many tokens came so long after the one before."""
        if tokens and self.start <= end <= self.end:
            self.gap.add(seconds, tokens)

    def done(self, request: Request, replica: int) -> None:
        """A request is done."""
        self.answered += 1
        if self.start < request.finished <= self.end:  # of users who march together, as many groups as intervals
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
    """A replica's side of the recorder. `finished`: what else happens when a request is done."""

    SAVED: ClassVar[tuple[str, ...]] = ("stalled",)

    recorder: Recorder
    replica: int
    finished: Callable[[Request], None] | None = None
    stalled: float = 0.0

    def steps(self, start: float, end: float, number: int, decodes: int, state: tuple[int, int, float]) -> None:
        """A row of decode steps; the first one's tokens waited for the prompts that ran before, too."""
        recorder, each = self.recorder, (end - start) / number
        recorder.steps += number
        recorder.step(start, end, state)
        if self.stalled:
            recorder.gaps(each + self.stalled, decodes, end)
            number, self.stalled = number - 1, 0.0
        if number:
            recorder.gaps(each, number * decodes, end)

    def prompts(self, start: float, end: float, decodes: int, waits: bool, state: tuple[int, int, float]) -> None:
        """A step with prompts; decodes that do not share it wait."""
        self.recorder.steps += 1
        self.recorder.step(start, end, state)
        if decodes:
            self.recorder.gaps(end - start, decodes, end)
        elif waits:
            self.stalled += end - start

    def done(self, request: Request) -> None:
        """A request has its last token."""
        self.recorder.done(request, self.replica)
        if self.finished is not None:
            self.finished(request)
