"""One replica of a server: its queue, its running sequences, its memory, step after step.

Steps in which nothing begins or ends differ by their contexts alone, so that a row of them is passed at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import Protocol

from roofline.simulate.policy import Policy, Room
from roofline.simulate.prefixes import Prefixed
from roofline.simulate.steps import StepTimes


class Request:
    """A request under way. Times are seconds, −1 where they have not come.

    `arrival`: when it was sent; `ready`: when the scheduler sees it. `prompt`: tokens to compute before the next token
    is generated, `computed` of them done; `left`: tokens still to generate. `hit`: prompt tokens found in the cache.
    `ends`: the number of the decode step that generates its last token. `prefix`, `shared`, `kept`, `chain`: as in
    `Requests`, of a chain `shared` is the tokens of each key; `pins`, `pinned`: the keys and tokens of the prefix cache
    that it uses.
    """

    __slots__ = (
        "arrival", "begun", "chain", "computed", "ends", "finished", "first", "hit", "input", "kept", "left", "number",
        "output", "pinned", "pins", "preempted", "prefix", "prompt", "ready", "shared", "source",
    )  # fmt: skip

    def __init__(self, number: int, arrival: float, ready: float, input: int, output: int) -> None:
        self.number, self.arrival, self.ready = number, arrival, ready
        self.input, self.output = input, output
        self.prompt, self.computed, self.left = input, 0, output
        self.begun = self.first = self.finished = -1.0
        self.hit = self.preempted = self.ends = self.pinned = 0
        self.prefix, self.shared, self.kept = -1, 0, 0
        self.chain: tuple[int, ...] = ()
        self.pins: list[int] = []
        self.source = 0


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

    `decoded`: decode steps so far. `ending`: those that decode, by the step of their last token. `windowed`: those of
    them that are shorter than the windows, by the step at which they pass them. `tokens`: the tokens in the caches of
    those that decode. `taken`: the share of the memory that running sequences hold.
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
        self.windowed: list[tuple[float, int]] = []
        self.bent = self.room.full < inf
        self.decoded = 0
        self.tokens = 0.0
        self.taken = 0.0
        self.order = 0
        self.prefixes = Prefixed(self.room, self.block)

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
        self.waiting.append(request)

    def advance(self, until: float) -> None:
        """All steps that begin before a time, or before the `horizon` that those told of an end have set."""
        self.horizon = until
        while self.clock < self.horizon and (self.filling or self.ending or self.waiting):
            chunks = self._chosen()
            if chunks:
                self._compute(chunks)
            else:
                self._decode(self.horizon)

    # -- a step with prompts ---------------------------------------------------------------------------------------
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
            hit = self.prefixes.matching(request) if policy.caches else 0
            rest = request.prompt - hit
            tokens = min(rest, budget)
            if tokens < rest and not policy.splits and chunks:
                break
            needed = self._needed(request, hit, hit + tokens)
            if self.taken + self.prefixes.pinned + needed + self._growth(1) > 1.0 and self.running:
                break
            self.waiting.popleft()
            self._begin(request, hit)
            self.filling.append(request)
            chunks.append((request, tokens))
            budget -= tokens
        return chunks

    def _needed(self, request: Request, hit: int, tokens: int) -> float:
        """The share of memory a request takes when it begins."""
        if self.policy.reserves:
            tokens = request.input + request.output
        return self.room.held(tokens) - self.prefixes.share(hit)

    def _begin(self, request: Request, hit: int) -> None:
        if request.begun < 0:
            request.begun = self.clock
            request.hit = hit
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

    def _compute(self, chunks: list[tuple[Request, int]]) -> None:
        policy = self.policy
        decodes = len(self.ending) if policy.mixes else 0
        while decodes > 1 and self.taken + self.prefixes.pinned + self._growth(1) > 1.0:
            self._preempt()
            decodes = len(self.ending)
        context = self.tokens / decodes if decodes else 0.0
        start, state = self.clock, self._state()
        self.clock += self.times.mixed([(r.computed, n) for r, n in chunks], decodes, context)
        self.scheduled = start if policy.ahead else self.clock
        self.watcher.prompts(start, self.clock, decodes, bool(self.ending), state)
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
        if cached.loose and self.taken + cached.pinned + cached.loose > 1.0:
            cached.shrink(1.0 - self.taken - cached.pinned)

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
        request.ends = self.decoded + self.steps_of(request)
        self.order += 1
        heappush(self.ending, (request.ends, self.order, request))
        self.tokens += request.computed
        if self.bent and request.computed < self.room.full and not self.policy.reserves:
            passes = self.decoded + (self.room.full - request.computed) / self.policy.yields
            heappush(self.windowed, (passes, request.number))

    # -- steps of decodes alone ------------------------------------------------------------------------------------
    def _decode(self, until: float) -> None:
        """A row of decode steps: to the next end, to the first that begins at `until` or later, or to a full memory."""
        decodes = len(self.ending)
        if not decodes:
            raise AssertionError("a request that no memory holds")  # `room_of` refuses those
        row, growth, context = self.times.row(decodes), self.policy.yields, self.tokens / decodes
        due = self.waiting and self.waiting[0].ready > self.scheduled  # the step after this one takes it
        number = 1 if due else self.ending[0][0] - self.decoded
        room = 1.0 - self.taken - self.prefixes.pinned
        each = self._growth(1)
        if each > 0 and number * each > room:
            number = int(room / each + 1e-9)
            if number <= 0:
                if decodes > 1:
                    self._preempt()
                    return
                number = 1
        seconds = row.steps(context, number, growth)
        if self.clock + seconds > until:
            number = min(number, row.number(context, until - self.clock, growth))
            seconds = row.steps(context, number, growth)
        start = self.clock
        self.clock += seconds
        self.scheduled = self.clock - row.step(context + growth * (number - 1)) if self.policy.ahead else self.clock
        self.watcher.steps(start, self.clock, number, decodes, self._state())
        self._pass(number)
        self._evict()

    def _state(self) -> State:
        return self.running, len(self.waiting), self.taken + self.prefixes.pinned

    def _growth(self, steps: int) -> float:
        """The share of memory that the decodes need for so many steps more, at most: some may pass their windows."""
        if self.policy.reserves or not self.ending:
            return 0.0
        room, windowed = self.room, len(self.windowed)
        slope = windowed * room.token + (len(self.ending) - windowed) * (room.later if self.bent else room.token)
        return steps * slope * self.policy.yields

    def _pass(self, number: int) -> None:
        """The decodes go on by so many steps, and some of them end."""
        self.taken += self._growth(number)
        self.decoded += number
        self.tokens += number * len(self.ending) * self.policy.yields
        while self.windowed and self.windowed[0][0] <= self.decoded:
            beyond = self.decoded - heappop(self.windowed)[0]
            self.taken -= beyond * self.policy.yields * (self.room.token - self.room.later)
        while self.ending and self.ending[0][0] <= self.decoded:
            request = heappop(self.ending)[2]
            tokens = request.input + request.output - 1  # the last token is sent, not cached
            self._stop(request, tokens)
            self._leave(request, tokens)

    def _stop(self, request: Request, tokens: int) -> None:
        """One decode fewer, which had so many tokens."""
        self.tokens = self.tokens - tokens if self.ending else 0.0
        if self.bent and tokens < self.room.full:
            self.windowed = [entry for entry in self.windowed if entry[1] != request.number]
            heapify(self.windowed)

    def _leave(self, request: Request, tokens: int) -> None:
        """A request is done: its memory is free, and what is cached of it may stay there."""
        self.taken = self.taken - self._held(request, tokens) if self.running else 0.0
        self.prefixes.leave(request)
        request.finished = self.clock
        request.left = 0
        self.watcher.done(request)

    def _preempt(self) -> None:
        """The request that began last loses its cache, and waits at the front of the queue to compute it again."""
        place = max(range(len(self.ending)), key=lambda i: (self.ending[i][2].begun, self.ending[i][1]))
        ends, _, request = self.ending.pop(place)
        self.ending.sort()
        steps = max(0, ends - self.decoded)
        left = min(request.left, max(1, round(steps * self.policy.yields)))
        tokens = request.input + request.output - left
        self._stop(request, tokens - 1)
        self.taken = self.taken - self._held(request, tokens - 1) if self.running else 0.0
        self.prefixes.unpin(request)
        request.prompt, request.computed, request.left = tokens, 0, left
        request.preempted += 1
        self.waiting.appendleft(request)
