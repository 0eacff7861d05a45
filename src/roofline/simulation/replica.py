"""One replica of a server: its queue, its running sequences, its memory, step after step.

Steps in which nothing begins or ends differ by their contexts alone, so that a row of them is passed at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil, inf
from typing import Protocol

from roofline.simulation.policy import Policy, Room
from roofline.simulation.prefixes import Prefixed
from roofline.simulation.request import Request
from roofline.simulation.steps import StepTimes

CLIPPED, LEAST, DECAY, RETRACTED = 4096, 0.14, 600, 20
"""Of SGLang's estimate of tokens to come (python/sglang/srt/managers/schedule_policy.py and environ.py): the most that
a new request counts, the share of the first ratio that is left after so many decode steps, and the steps of each
request for which a retraction makes room."""
ROUNDING = 1e-9
"""Share of the memory by which sums of shares may be beyond it."""


State = tuple[int, int, float]
"""Requests that run and that wait, and the share of the memory that is taken."""


class Watcher(Protocol):
    """What is told of a replica's steps and of requests that are done."""

    def steps(self, start: float, end: float, number: int, decodes: int, state: State) -> None:
        """A row of like steps, in each of which so many sequences got a token."""

    def prompts(self, start: float, end: float, decodes: int, waits: bool, state: State) -> None:
        """A step that computes prompts beside so many decodes; others wait for it."""

    def done(self, request: Request) -> None:
        """A request has its last token."""


@dataclass(eq=False)
class Replica:
    """The scheduler of one replica at work; `clock` is the end of its last step, `scheduled` when the next one was put
    together: at the end of the last step, or where steps are scheduled ahead at its start.

    `decoded`: decode steps so far. `ending`: those that decode, by the step of their last token. `tokens`: the tokens
    in the caches of those that decode, `growing` those that a step adds to them. `taken`: the share of the memory that
    running sequences hold, `rate` what a step adds to it. `bending`: sequences that reach the length from which they
    take less a token, by the step. `finals`: the tokens that those that decode will have in the end, `expected` the
    share of those to come for which room is kept. `joined`: those whose caches came from elsewhere and that decode for
    the first time in the next step. `together`: advances all replicas that step together with this one.
    """

    times: StepTimes
    policy: Policy
    room: Room
    watcher: Watcher
    steps_of: Callable[[Request], int]
    block: int = 1

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

    # -- from outside ----------------------------------------------------------------------------------------------
    @property
    def running(self) -> int:
        """Sequences that have begun."""
        return len(self.filling) + len(self.ending)

    @property
    def present(self) -> int:
        """Requests that are here."""
        return len(self.waiting) + self.running

    def receive(self, request: Request) -> None:
        """A request reaches the scheduler, at its `ready`."""
        if not self.running and not self.waiting and self.clock <= request.ready:
            self.clock = self.scheduled = request.ready
            self.expected = self.policy.expects
        self.waiting.append(request)

    def advance(self, until: float) -> None:
        """All steps that begin before a time, or before the `horizon` that those told of an end have set.

        Of a replica that steps together with others, theirs too.
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

    # -- a step with prompts ---------------------------------------------------------------------------------------
    def chunks(self) -> list[tuple[Request, int]]:
        """The chunks of the next step, for which the memory has room; none where it is one of decodes alone.

        Some of those that run may lose their places for them.
        """
        while chunks := self._chosen():
            while self.running > 1 and self.policy.mixes and self.full + self._adding(chunks) > 1.0 + ROUNDING:
                last = self._preempt()
                chunks = [(r, n) for r, n in chunks if r is not last]
            if chunks:
                break
        return chunks

    def _chosen(self) -> list[tuple[Request, int]]:
        """The chunks of the next step: of prompts begun, then of those that wait, while tokens and memory last."""
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
        """Whether the memory holds a request's whole prompt beside those begun and a step of all decodes.

        So vLLM has it (`scheduler_reserve_full_isl`): of prompts that fit by their first chunks alone, the last ones
        would be stopped and computed again and again.
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
        """The share of the memory that running sequences and what they use of the prefix cache take."""
        return self.taken + self.prefixes.pinned

    def _adding(self, chunks: list[tuple[Request, int]]) -> float:
        """The share of the memory that chunks and a step of all decodes add."""
        if self.policy.reserves:
            return 0.0
        room = self.room
        return self.rate + sum(room.held(r.computed + n) - room.held(r.computed) for r, n in chunks)

    def _take(self, request: Request) -> None:
        """A request whose cache came from elsewhere, but for the last token of its prompt, decodes from now on."""
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
        """The share of memory of a sequence, without what it shares with others."""
        if self.policy.reserves:
            tokens = request.input + request.output
        own = self.room.held(tokens)
        return own - self.prefixes.share(request.pinned) if request.pinned else own

    def mixed_seconds(self, chunks: list[tuple[Request, int]]) -> float:
        """Seconds of a step of these chunks, and of all decodes where they share it."""
        decodes = len(self.ending) if self.policy.mixes else 0
        context = self.tokens / decodes if decodes else 0.0
        return self.times.mixed([(r.computed, n) for r, n in chunks], decodes, context)

    def compute(self, chunks: list[tuple[Request, int]], seconds: float) -> None:
        """A step of these chunks that lasts so long."""
        policy = self.policy
        decodes = len(self.ending) if policy.mixes else 0
        start, state = self.clock, self._state()
        self.clock += seconds
        self.scheduled = start if policy.ahead else self.clock
        self.watcher.prompts(start, self.clock, max(0, decodes - len(self.joined)), bool(self.ending), state)
        for request, tokens in chunks:
            self.taken -= self._held(request, request.computed)
            request.computed += tokens
            self.taken += self._held(request, request.computed)
        if decodes:
            self._pass(1)
        for request, _ in chunks:
            if request.computed == request.prompt:
                self.filling.remove(request)
                self._generated(request)
        self._evict()

    def _evict(self) -> None:
        """Cached tokens that nobody uses make room for those of running sequences."""
        cached = self.prefixes
        if cached.loose and self.full + cached.loose > 1.0:
            cached.shrink(1.0 - self.full)

    def _generated(self, request: Request) -> None:
        """The step that computed the whole prompt generates a token."""
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
        """A sequence decodes from the next step on."""
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
        """A sequence is as long as the windows of some layers, which take no more of it from now on."""
        request = heappop(self.bending)[2]
        room, beyond = self.room, self._cached(request) - self.room.full
        self.taken += (room.later - room.token) * beyond
        self.rate += request.growth * room.later - request.memory_growth
        request.memory_growth = request.growth * room.later

    def _cached(self, request: Request) -> float:
        """Tokens in the cache of a sequence that decodes; the last one that it generates is sent, not cached."""
        return request.input + request.output - 1 - (request.ends - self.decoded) * request.growth

    # -- steps of decodes alone ------------------------------------------------------------------------------------
    def alone(self, until: float) -> tuple[int, float]:
        """How many steps of decodes alone follow, and their seconds; none where one loses its place instead.

        They end at the next end of a request, before the first that begins at a time or later, and at a full memory.
        """
        decodes = len(self.ending)
        if not decodes:
            raise AssertionError("a request that no memory holds")  # `room_of` refuses those
        row, growth, context = self.times.row(decodes), self.growing / decodes, self.tokens / decodes
        due = self.waiting and self.waiting[0].ready > self.scheduled  # the step after this one takes it
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
        """Seconds of so many steps of decodes alone, and of the last of them."""
        decodes = len(self.ending)
        row, growth, context = self.times.row(decodes), self.growing / decodes, self.tokens / decodes
        return row.steps(context, number, growth), row.step(context + growth * (number - 1))

    def decode(self, number: int, seconds: float, last: float | None = None) -> None:
        """So many steps of decodes alone, which last so long together; `last`: the last one, its own where None."""
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
        """The decodes go on by so many steps, and some of them end."""
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
            tokens = request.input + request.output - 1  # the last token is sent, not cached
            self._stop(request, tokens)
            self._leave(request, tokens)

    def _stop(self, request: Request, tokens: float) -> None:
        """One decode fewer, which had so many tokens."""
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
        """A request is done: its memory is free, and what is cached of it may stay there."""
        self.taken = self.taken - self._held(request, tokens) if self.running else 0.0
        if self.policy.caches:
            self.prefixes.leave(request)
        request.finished = self.clock
        request.left = 0
        self.watcher.done(request)

    def _preempt(self) -> Request:
        """The request that began last loses its cache, and waits at the front of the queue to compute it again."""
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
