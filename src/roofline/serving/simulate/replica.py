"""A replica of a server: its queue, running sequences and memory, advanced step by step.

Steps between which no request starts or finishes differ only in context length. A run of them is advanced at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil, inf
from typing import Protocol

from roofline.serving.simulate.load.prefixes import Prefixed
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.policy import Policy, Room
from roofline.serving.simulate.steps import StepTimes

CLIPPED, LEAST, DECAY, RETRACTED = 4096, 0.14, 600, 20
"""SGLang's estimate of future tokens (python/sglang/srt/managers/schedule_policy.py and environ.py).

The maximum counted for a new request; the factor to which the ratio decays, and over how many decode steps; and the
decode steps per request for which a retraction makes room.
"""
ROUNDING = 1e-9
"""Tolerance for rounding of sums of memory shares."""


State = tuple[int, int, float]
"""Numbers of running and of waiting requests, and the share of memory in use."""


class Watcher(Protocol):
    """An observer of a replica's steps and finished requests."""

    def steps(self, start: float, end: float, number: int, decodes: int, state: State) -> None:
        """Called after a run of similar decode steps, each with a token for `decodes` sequences."""

    def prompts(self, start: float, end: float, decodes: int, waits: bool, state: State) -> None:
        """Called after a step with prompts and `decodes` decodes; other decodes wait for it."""

    def done(self, request: Request) -> None:
        """Called when a request has its last token."""


@dataclass(eq=False)
class Replica:
    """The scheduler of one replica, advanced step by step.

    `clock`: end of its last step. `scheduled`: time at which the next step is scheduled: the end of the last step, or
    with async scheduling its start. `decoded`: decode steps so far. `ending`: heap of decoding requests, by the step of
    their last token. `tokens`: tokens in the caches of decoding requests; `growing`: tokens that a step adds to them.
    `taken`: share of memory held by running sequences; `rate`: share that a step adds. `bending`: heap of sequences
    that will fill the attention window, by step. `finals`: final tokens of all decoding requests; `expected`: share of
    their remaining tokens for which memory is kept free. `joined`: requests whose caches arrived from a prefill pool
    and that decode for the first time in the next step. `together`: advances all replicas in lock step with this one.
    `encode_s`: seconds in which the images of a prompt are encoded, in the step that begins it.
    """

    times: StepTimes
    policy: Policy
    room: Room
    watcher: Watcher
    steps_of: Callable[[Request], int]
    block: int = 1
    encode_s: float = 0.0

    def __post_init__(self) -> None:
        self.clock = self.horizon = self.scheduled = 0.0
        self.waiting: deque[Request] = deque()
        self.filling: list[Request] = []
        self.ending: list[tuple[int, int, Request]] = []
        self.decoded = 0
        self.tokens = self.growing = 0.0
        self.taken = 0.0
        self.order = self.entered = 0
        self.prefixes = Prefixed(self.room, self.block)
        self.rate = 0.0
        self.bending: list[tuple[int, int, Request]] = []
        self.joined: list[Request] = []
        self.finals, self.expected = 0, self.policy.expects
        self.together: Callable[[float], None] | None = None

    # -- interface -------------------------------------------------------------------------------------------------
    @property
    def running(self) -> int:
        """Number of running sequences."""
        return len(self.filling) + len(self.ending)

    @property
    def present(self) -> int:
        """Number of running and waiting requests."""
        return len(self.waiting) + self.running

    def receive(self, request: Request) -> None:
        """Add a request to the queue, at its `ready` time."""
        if not self.running and not self.waiting and self.clock <= request.ready:
            self.clock = self.scheduled = request.ready
            self.expected = self.policy.expects
        self.waiting.append(request)

    def advance(self, until: float) -> None:
        """Run all steps that begin before `until`, or before an earlier `horizon` that a finished request has set.

        In lock step with other replicas, this advances them too.
        """
        self.horizon = until
        if self.together is not None:
            self.together(until)
            return
        while self.clock < self.horizon and (self.filling or self.ending or self.waiting):
            chunks = self.chunks()
            if chunks:
                self.compute(chunks, self.mixed_seconds(chunks))
                continue
            number, seconds = self.alone(self.horizon)
            if number:
                self.decode(number, seconds)

    # -- steps with prompts ----------------------------------------------------------------------------------------
    def chunks(self) -> list[tuple[Request, int]]:
        """The prompt chunks of the next step, for which memory has room; empty for a decode-only step.

        Running requests may be preempted to make room.
        """
        while chunks := self._chosen():
            while self.running > 1 and self.policy.mixes and self.full + self._adding(chunks) > 1.0 + ROUNDING:
                last = self._preempt()
                chunks = [(r, n) for r, n in chunks if r is not last]
            if chunks:
                break
        return chunks

    def _chosen(self) -> list[tuple[Request, int]]:
        """The prompt chunks of the next step: started prompts first, then waiting ones, as tokens and memory allow."""
        policy, width = self.policy, self.policy.width
        budget = policy.tokens - (len(self.ending) * width if policy.mixes else 0)
        if budget <= 0 or not (self.filling or self.waiting):
            return []
        chunks = []
        for request in self.filling:
            tokens = min(request.prompt - request.computed, budget)
            if tokens <= 0:
                break
            chunks.append((request, tokens))
            budget -= tokens
        while self.waiting and budget > 0 and self.running < policy.running:
            request = self.waiting[0]
            if request.ready > self.scheduled and self.running:
                break
            if request.computed:
                if self.running and not self._room_for(request, 0):
                    break
                self._take(self.waiting.popleft())
                budget -= width
                continue
            hit = self.prefixes.matching(request) if policy.caches else 0
            rest = request.prompt - hit
            tokens = min(rest, budget)
            if tokens < rest and not policy.splits and (chunks or rest <= policy.tokens):
                break
            if self.running and not self._room_for(request, hit):
                break
            self.waiting.popleft()
            self._begin(request, hit)
            self.filling.append(request)
            chunks.append((request, tokens))
            budget -= tokens
        return chunks

    def _room_for(self, request: Request, hit: int) -> bool:
        """Whether memory holds a request's whole prompt, the rest of the started prompts, and a step of all decodes.

        vLLM does the same (`scheduler_reserve_full_isl`): if only first chunks had to fit, the last prompts would be
        preempted and computed again and again.
        """
        tokens = request.prompt + 1 if not self.policy.reserves else request.input + request.output
        needed = self.room.held(tokens) - self.prefixes.share(hit) + self.prefixes.awakened(request, hit)
        rest = self._adding([(r, r.prompt + 1 - r.computed) for r in self.filling])
        if self.policy.expects and not self.policy.reserves:
            own = sum(min(r.left - 1, CLIPPED) for r in (request, *self.filling))
            slope = self.room.token if self.room.full == inf else self.room.later
            rest += slope * (own + self.expected * (self.finals - self.tokens))
        return self.full + rest + needed <= 1.0

    @property
    def full(self) -> float:
        """Share of memory used by running sequences, their part of the prefix cache included."""
        return self.taken + self.prefixes.pinned

    def _adding(self, chunks: list[tuple[Request, int]]) -> float:
        """Share of memory that chunks and a step of all decodes add."""
        if self.policy.reserves:
            return 0.0
        room = self.room
        return self.rate + sum(room.held(r.computed + n) - room.held(r.computed) for r, n in chunks)

    def _take(self, request: Request) -> None:
        """Start to decode a request whose cache, all but the last prompt token, arrived from a prefill pool."""
        self.entered += 1
        request.entered = self.entered
        request.parked = self.clock - request.ready
        self.taken += self._held(request, request.computed)
        self.joined.append(request)
        self._join(request)

    def _begin(self, request: Request, hit: int) -> None:
        if request.begun < 0:
            request.begun = self.clock
            request.queued = self.clock - request.ready
            request.hit = hit
        self.entered += 1
        request.entered = self.entered
        request.computed = hit
        if hit:
            self.prefixes.pin(request, hit)
        self.taken += self._held(request, request.computed)

    def _held(self, request: Request, tokens: float) -> float:
        """Share of memory of a sequence, without what it shares in the prefix cache."""
        if self.policy.reserves:
            tokens = request.input + request.output
        own = self.room.held(tokens)
        return own - self.prefixes.share(request.pinned) if request.pinned else own

    def mixed_seconds(self, chunks: list[tuple[Request, int]]) -> float:
        """Seconds of a step with these chunks, its wait for the host, and all decodes if they share the step."""
        decodes = len(self.ending) if self.policy.mixes else 0
        context = self.tokens / decodes if decodes else 0.0
        hosted = sum(request.hosted for request, _ in chunks)
        if self.encode_s:
            hosted += self.encode_s * sum(request.computed == request.hit for request, _ in chunks)
        return hosted + self.times.mixed([(r.computed, n) for r, n in chunks], decodes, context)

    def compute(self, chunks: list[tuple[Request, int]], seconds: float) -> None:
        """Run a step with these chunks that lasts `seconds`."""
        policy = self.policy
        decodes = len(self.ending) if policy.mixes else 0
        start, state = self.clock, self._state()
        self.clock += seconds
        self.scheduled = start if policy.ahead else self.clock
        self.watcher.prompts(start, self.clock, max(0, decodes - len(self.joined)), bool(self.ending), state)
        for request, tokens in chunks:
            self.taken -= self._held(request, request.computed)
            request.computed += tokens
            request.hosted = 0.0
            self.taken += self._held(request, request.computed)
        if decodes:
            self._pass(1)
        for request, _ in chunks:
            if request.computed == request.prompt:
                self.filling.remove(request)
                self._generated(request)
        self._evict()

    def _evict(self) -> None:
        """Evict unused cached tokens to make room for running sequences."""
        cached = self.prefixes
        if cached.loose and self.full + cached.loose > 1.0:
            cached.shrink(1.0 - self.full)

    def _generated(self, request: Request) -> None:
        """Record the token generated by the step that finished a prompt."""
        if self.policy.caches and (request.prefix >= 0 or request.chain):
            self.taken -= self._held(request, request.computed)
            self.prefixes.keep(request)
            self.taken += self._held(request, request.computed)
        if request.first < 0:
            request.first = self.clock
        request.left -= 1
        if request.left <= 0:
            self._leave(request, request.computed)
            return
        self._join(request)

    def _join(self, request: Request) -> None:
        """Let a sequence decode from the next step on."""
        steps = self.steps_of(request)
        request.ends, request.growth = self.decoded + steps, request.left / steps
        self.order += 1
        request.order = self.order
        heappush(self.ending, (request.ends, self.order, request))
        self.tokens += request.computed
        self.growing += request.growth
        self.finals += request.input + request.output - 1
        if self.policy.reserves:
            return
        room, tokens = self.room, request.computed
        request.memory_growth = request.growth * (room.token if tokens < room.full else room.later)
        self.rate += request.memory_growth
        if tokens < room.full < tokens + request.left:
            bends = self.decoded + ceil((room.full - tokens) / request.growth)
            heappush(self.bending, (bends, self.order, request))

    def _bend(self) -> None:
        """Slow the memory growth of a sequence that has filled the attention window."""
        request = heappop(self.bending)[2]
        room, beyond = self.room, self._cached(request) - self.room.full
        self.taken += (room.later - room.token) * beyond
        self.rate += request.growth * room.later - request.memory_growth
        request.memory_growth = request.growth * room.later

    def _cached(self, request: Request) -> float:
        """Tokens in the cache of a decoding sequence; its last token is sent but never cached."""
        return request.input + request.output - 1 - (request.ends - self.decoded) * request.growth

    # -- decode-only steps -----------------------------------------------------------------------------------------
    def alone(self, until: float) -> tuple[int, float]:
        """The number of decode-only steps that follow, and their seconds; 0 steps where a request is preempted instead.

        The run ends when a request finishes, before the first step that begins at `until` or later, or when memory is
        full.
        """
        decodes = len(self.ending)
        if not decodes:
            raise AssertionError("a request that no memory holds")  # `room_of` refuses such requests
        row, growth, context = self.times.row(decodes), self.growing / decodes, self.tokens / decodes
        due = self.waiting and self.waiting[0].ready > self.scheduled  # the step after this one admits it
        number = 1 if due or self.joined else self.ending[0][0] - self.decoded
        if self.bending:
            number = min(number, self.bending[0][0] - self.decoded)
        room, each = 1.0 + ROUNDING - self.full, self.rate
        if each > 0 and number * each > room:
            number = int(room / each)
            if number <= 0:
                if self.running > 1:
                    self._preempt()
                    return 0, 0.0
                number = 1
        seconds = row.steps(context, number, growth)
        if self.clock + seconds > until:
            number = min(number, row.number(context, until - self.clock, growth))
            seconds = row.steps(context, number, growth)
        return number, seconds

    def row_seconds(self, number: int) -> tuple[float, float]:
        """Seconds of a run of decode-only steps, and of its last step."""
        decodes = len(self.ending)
        row, growth, context = self.times.row(decodes), self.growing / decodes, self.tokens / decodes
        return row.steps(context, number, growth), row.step(context + growth * (number - 1))

    def decode(self, number: int, seconds: float, last: float | None = None) -> None:
        """Run decode-only steps that last `seconds` in total. `last`: seconds of the last one; None for its own."""
        decodes, start = len(self.ending), self.clock
        self.clock += seconds
        self.scheduled = self.clock
        if self.policy.ahead:
            self.scheduled -= self.row_seconds(number)[1] if last is None else last
        self.watcher.steps(start, self.clock, number, decodes - len(self.joined), self._state())
        self._pass(number)
        self._evict()
        first = self.policy.expects
        self.expected = max(LEAST * first, self.expected - number * (1 - LEAST) * first / DECAY)

    def _state(self) -> State:
        return self.running, len(self.waiting), self.full

    def _pass(self, number: int) -> None:
        """Advance all decodes by a number of steps; finished requests leave."""
        self.taken += number * self.rate
        self.decoded += number
        self.tokens += number * self.growing
        for request in self.joined:
            request.first = self.clock
        self.joined.clear()
        while self.bending and self.bending[0][0] <= self.decoded:
            self._bend()
        while self.ending and self.ending[0][0] <= self.decoded:
            request = heappop(self.ending)[2]
            tokens = request.input + request.output - 1  # the last token is sent but never cached
            self._stop(request, tokens)
            self._leave(request, tokens)

    def _stop(self, request: Request, tokens: float) -> None:
        """Remove a decoding sequence of this many tokens from the sums."""
        if not self.ending:
            self.tokens = self.growing = self.rate = 0.0
            self.finals = 0
            self.bending.clear()
        else:
            self.tokens -= tokens
            self.growing -= request.growth
            self.finals -= request.input + request.output - 1
            self.rate -= request.memory_growth
            if tokens < self.room.full < inf:
                self.bending = [entry for entry in self.bending if entry[1] != request.order]
                heapify(self.bending)
        request.order, request.memory_growth = 0, 0.0

    def _leave(self, request: Request, tokens: int) -> None:
        """Finish a request: its memory is freed, and its tokens may stay in the prefix cache."""
        self.taken = self.taken - self._held(request, tokens) if self.running else 0.0
        if self.policy.caches:
            self.prefixes.leave(request)
        request.finished = self.clock
        request.left = 0
        self.watcher.done(request)

    def _preempt(self) -> Request:
        """Preempt the request that started last: it loses its cache and returns to the front of the queue.

        Its tokens are recomputed when it runs again.
        """
        begun = max(self.filling, key=lambda r: r.entered) if self.filling else None
        place = max(range(len(self.ending)), key=lambda i: (self.ending[i][2].entered, self.ending[i][1]), default=-1)
        if begun is None or (place >= 0 and self.ending[place][2].entered > begun.entered):
            request = self.ending.pop(place)[2]
            heapify(self.ending)
            tokens = self._cached(request)
            self._stop(request, tokens)
            request.left = min(request.left, max(1, round((request.ends - self.decoded) * request.growth)))
            request.prompt = request.input + request.output - request.left
        else:
            request, tokens = begun, begun.computed
            self.filling.remove(request)
        self.taken = self.taken - self._held(request, tokens) if self.running else 0.0
        self.prefixes.unpin(request)
        if request in self.joined:
            self.joined.remove(request)
        request.computed = 0
        request.preempted += 1
        if self.policy.expects and self.ending:
            allowed = sum(r.output for _, _, r in self.ending)
            sent = allowed - (self.finals - self.tokens)
            self.expected = min(1.0, (sent + RETRACTED * len(self.ending)) / (allowed + 1))
        self.waiting.appendleft(request)
        return request
