"""Requests of equal lengths that begin together and are always as many, in closed loops: they go on in step.

What began in one step ends in one step, and the next requests of those users begin in one step again: a server at a
concurrency runs a few cohorts in turn, not requests in no order. Load generators (`vllm bench serve --max-concurrency`,
aiconfigurator's) send all requests at once, and their lengths are fixed; so that is what they measure. The course of
the cohorts hangs on nothing drawn. It is followed from step to step, by the scheduler's rules that `simulate` follows
for each request, until every user has been served a few times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

SETTLING, MEASURED = 3, 2
"""Requests of each user that are served before the course counts, and those that count."""
MOST_STEPS = 6000
"""Steps at most, rows of like decode steps being one; those that count are then the last half."""


@dataclass(eq=False)
class StepTable:
    """Seconds of a step by decodes and by prompts, linear in between, of one server.

    `decodes`: the nodes, 0 the first. `alone[k]`: a step of decodes alone; `prompts`: numbers of prompts, or of chunks
    where one takes several; `mixed[b][k]`: a step of so many of these at each node.
    """

    decodes: Sequence[float]
    alone: Sequence[float]
    prompts: Sequence[float]
    mixed: Sequence[Sequence[float]]
    _known: dict[tuple[float, int], float] = field(default_factory=dict, init=False, repr=False)

    def seconds(self, prompts: float, decodes: int) -> float:
        """A step of so many prompts and decodes, one of them at least."""
        key = (round(prompts, 6), decodes)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._interpolated(prompts, decodes)
        return known

    def _interpolated(self, prompts: float, decodes: int) -> float:
        if not prompts:
            return _between(self.decodes[1:], self.alone[1:], decodes)
        j = min(max(bisect_right(self.prompts, prompts), 1), len(self.prompts) - 1)
        low, high = (_between(self.decodes, self.mixed[i], decodes) for i in (j - 1, j))
        if prompts < self.prompts[0]:  # a part of one: what it takes alone is in proportion
            base = _between(self.decodes, self.alone, decodes)
            first = _between(self.decodes, self.mixed[0], decodes)
            return base + (first - base) * prompts / self.prompts[0]
        width = self.prompts[j] - self.prompts[j - 1]
        return low if width <= 0 else low + (high - low) * (prompts - self.prompts[j - 1]) / width


def _between(points: Sequence[float], values: Sequence[float], at: float) -> float:
    """Linear between the points, of which the last ones may be equal; flat beyond."""
    i = bisect_right(points, at)
    if i == 0 or i == len(points):
        return values[min(i, len(points) - 1)]
    part = (at - points[i - 1]) / (points[i] - points[i - 1])
    return values[i - 1] + part * (values[i] - values[i - 1])


@dataclass(frozen=True)
class Rules:
    """A scheduler and what it is given.

    `prompt`: tokens to compute of each; `piece`: tokens of a prompt, or of a chunk, as the table counts them; `more`:
    decode steps of each; `late`: seconds from an answer's end until the scheduler sees the next request. `tokens`: most
    new tokens of a step, `places`: most requests at once. `mixes`, `splits`, `ahead`: as of an `Engine`.
    """

    prompt: int
    piece: float
    more: int
    late: float
    tokens: int
    places: int
    mixes: bool
    splits: bool
    ahead: bool


@dataclass(eq=False)
class Cohorts:
    """The course of so many users' requests. Times are seconds.

    `waiting`: when requests are seen, and how many of them; `decoding`: the decode step of the last token, when
    the first one came, and how many. `begun`: tokens computed of a prompt that a step did not finish, 0 of none.
    """

    rules: Rules
    table: StepTable
    users: int

    def __post_init__(self) -> None:
        self.clock = self.scheduled = self.rules.late
        self.waiting: deque[list[float]] = deque([[self.rules.late, self.users]])
        self.decoding: deque[tuple[int, float, int]] = deque()
        self.decodes = self.decoded = self.begun = self.done = self.steps = 0
        self.after = 0.0

    def pair(self) -> tuple[float, float]:
        """Requests a second and seconds between tokens, once the course repeats."""
        each = min(self.users, self.rules.places)
        marks = [(0.0, 0, 0.0)]
        until, end = SETTLING * each, (SETTLING + MEASURED) * each
        while self.done < end and self.steps < MOST_STEPS:
            before = self.done
            self._go_on()
            if self.done > before:
                marks.append((self.clock, self.done, self.after))
        last = marks[-1]
        if self.done < end:
            until = self.done // 2
        first = next((m for m in marks if m[1] >= until), marks[0])
        if first is last:
            first = marks[0]
        served = last[1] - first[1]
        return served / (last[0] - first[0]), (last[2] - first[2]) / served / max(1, self.rules.more)

    def _go_on(self) -> None:
        """A step with prompts, or a row of steps without."""
        self.steps += 1
        if not self.decodes and not self.begun and self.waiting[0][0] > self.clock:
            self.clock = self.scheduled = self.waiting[0][0]
        whole, tokens = self._chosen()
        if tokens:
            self._compute(whole, tokens)
        else:
            self._decode()

    def _chosen(self) -> tuple[int, int]:
        """Prompts that the next step finishes, and the tokens of all that it computes."""
        r = self.rules
        budget = r.tokens - (self.decodes if r.mixes else 0)
        whole, used = 0, 0
        if self.begun and budget > 0:
            used = min(r.prompt - self.begun, budget)
            whole = int(self.begun + used == r.prompt)
            if not whole:
                self.begun += used
                return 0, used
            self.begun = 0
        running = self.decodes + whole
        while self.waiting and used < budget and running < r.places:
            ready, number = self.waiting[0]
            if ready > self.scheduled and running:
                break
            fitting = min(int(number), (budget - used) // r.prompt, r.places - running)
            if fitting:
                whole, used, running = whole + fitting, used + fitting * r.prompt, running + fitting
                self._taken(fitting)
                continue
            if not r.splits and (used or r.prompt <= r.tokens):
                break
            self.begun = budget - used
            self._taken(1)
            return whole, budget
        return whole, used

    def _taken(self, number: int) -> None:
        entry = self.waiting[0]
        entry[1] -= number
        if entry[1] <= 0:
            self.waiting.popleft()

    def _compute(self, whole: int, tokens: int) -> None:
        r, beside = self.rules, self.decodes if self.rules.mixes else 0
        start = self.clock
        self.clock += self.table.seconds(tokens / r.piece, beside)
        self.scheduled = start if r.ahead else self.clock
        if beside:
            self._passed(1)
        if whole and r.more:
            self.decoding.append((self.decoded + r.more, self.clock, whole))
            self.decodes += whole
        elif whole:
            self._answered(whole, self.clock)

    def _decode(self) -> None:
        """To the next end, or to the step that takes the next request."""
        r = self.rules
        seconds = self.table.seconds(0.0, self.decodes)
        number = self.decoding[0][0] - self.decoded
        room = self.decodes < r.places and (not r.mixes or self.decodes < r.tokens)
        if self.waiting and room:
            ready = self.waiting[0][0]
            aim = (ready - self.clock) / seconds + (1 if r.ahead else 0)
            number = max(1, min(number, ceil(aim - 1e-9)))
        self.clock += number * seconds
        self.scheduled = self.clock - seconds if r.ahead else self.clock
        self._passed(number)

    def _passed(self, number: int) -> None:
        self.decoded += number
        while self.decoding and self.decoding[0][0] <= self.decoded:
            _, first, ended = self.decoding.popleft()
            self.decodes -= ended
            self._answered(ended, first)

    def _answered(self, number: int, first: float) -> None:
        self.done += number
        self.after += number * (self.clock - first)
        ready = self.clock + self.rules.late
        if self.waiting and self.waiting[-1][0] == ready:
            self.waiting[-1][1] += number
        else:
            self.waiting.append([ready, number])


def in_step(rules: Rules, table: StepTable, users: int, groups: int) -> tuple[float, float]:
    """Requests a second and seconds between tokens of users who are dealt out to so many groups that share no step."""
    least, more = divmod(users, groups)
    parts = [(n, Cohorts(rules, table, k).pair()) for k, n in ((least, groups - more), (least + 1, more)) if k and n]
    rate = sum(n * pair[0] for n, pair in parts)
    return rate, sum(n * pair[0] * pair[1] for n, pair in parts) / rate
