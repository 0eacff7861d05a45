"""The course of a group's equally long requests from step to step.

Requests of equal length that start together also finish together. The group therefore processes cohorts, and its
schedule depends only on arrival times. It is followed by the same scheduling rules that `simulate` applies to every
request, with step times from a small table, for two kinds of traffic.
Closed loop: users start together and each sends the next request when the last one is answered. A few cohorts then
circulate in lock step. Load generators (`vllm bench serve --max-concurrency`, aiconfigurator's) send all requests at
once with fixed lengths, so this is what they measure. Nothing is random. Users of an engine that does not keep them in
step start one after another; those whose prompts share a step form cohorts nevertheless.
Open loop: requests arrive at random, by a sample of gaps that is the same for every server, scaled to the rate. The
times of answers of a few tokens depend on which prompts share a step with them, which no mean over steps shows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from heapq import heappop, heappush
from math import ceil, inf, isclose

import numpy as np

from roofline.declared.numbers.arrays import Array

SETTLING, MEASURED, FEW, MIXING = 5, 2, 600, 20
"""Closed loop: requests per user that warm up, requests per user that are measured, and the least that are measured
over all users; and requests per user that warm up where drafts bring requests out of step."""
ROUNDS_APART, FEW_APART, REPEATED = 10, 100, 1e-6
"""Users who start one after another: requests per user that are measured, the least over all users, and by what share
times of a round differ from those of the round before where the course repeats."""
QUEUED = 2
"""Users for each place of whom as many are followed: of more, all wait that much longer."""
MOST_STEPS = 6000
"""Most steps of a closed loop, a run of equal decode steps being one; it then measures its last half. Users who start
one after another have two rounds at least."""
SAMPLE, SEED = 2**15, 4609
"""Gaps between arrivals in the sample, and the seed of their order.

Chosen among 72,000 orders: with it an M/D/1 queue at loads of 0.3 to 0.98 comes nearest to the known mean and
percentiles (Erlang 1909): means within 6 %, p90 within 5 %, p99 within 16 %. Long waits need long stretches in which
more requests arrive than are served. A sample of this length has only a few, and with this order as many as expected.
"""


@dataclass(eq=False)
class StepTable:
    """Seconds of a step by its decodes and its prompts, linear in between, for one server.

    `decodes`: the nodes, from 0. `alone[k]`: a decode-only step. `prompts`: numbers of prompts, or fractions of a step
    full of one prompt where it takes several. `mixed[b][k]`: a step with as many of these at each node.
    """

    decodes: Sequence[float]
    alone: Sequence[float]
    prompts: Sequence[float]
    mixed: Sequence[Sequence[float]]
    _known: dict[tuple[float, int], float] = field(default_factory=dict, init=False, repr=False)

    def seconds(self, prompts: float, decodes: int) -> float:
        """Seconds of a step of prompts and decodes, not both 0."""
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
        if prompts < self.prompts[0]:  # for a fraction of the first node, what the prompt adds is in proportion
            base = _between(self.decodes, self.alone, decodes)
            first = _between(self.decodes, self.mixed[0], decodes)
            return base + (first - base) * prompts / self.prompts[0]
        width = self.prompts[j] - self.prompts[j - 1]
        return low if width <= 0 else low + (high - low) * (prompts - self.prompts[j - 1]) / width


def _between(points: Sequence[float], values: Sequence[float], at: float) -> float:
    """Interpolate linearly between points, the last of which may be equal; constant beyond them."""
    i = bisect_right(points, at)
    if i == 0 or i == len(points):
        return values[min(i, len(points) - 1)]
    part = (at - points[i - 1]) / (points[i] - points[i - 1])
    return values[i - 1] + part * (values[i] - values[i - 1])


@dataclass(frozen=True)
class StepRules:
    """A scheduler and the requests it is given.

    `prompt`: tokens to compute of each prompt. `piece`: tokens of the unit that the table counts prompts in. `more`:
    tokens of each answer after the first. `late`: seconds from sending a request until the scheduler sees it. `tokens`:
    most new tokens of a step. `places`: most requests at once. `mixes`, `splits`, `ahead`: as for an `Engine`. `width`:
    tokens of each sequence in a decode step. `drawn`: equally likely numbers of decode steps of a request, where drafts
    make them random; else None.
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
    width: int = 1
    drawn: Array | None = None


@dataclass(frozen=True)
class Answers:
    """What requests experienced, in seconds, in the order in which they ended.

    Each row stands for `number` requests, or requests per second. `ended`: when they were answered. `first`: from when
    the scheduler saw them to their first token. `after`: from the first token to the last one. `steps`: decode steps in
    that time.
    """

    number: Array
    ended: Array
    first: Array
    after: Array
    steps: Array

    def since(self, served: int, most: int) -> Answers:
        """The answers after the first `served` requests and up to `most`."""
        upto = np.cumsum(self.number)
        kept = (upto > served) & (upto <= most)
        return Answers(*(getattr(self, f.name)[kept] for f in fields(self)))

    def weighing(self, factor: float) -> Answers:
        """Multiply the number of requests that each row stands for."""
        return replace(self, number=self.number * factor)

    def quantiles(self, values: Array, shares: Sequence[float]) -> Array:
        """The least values that these shares of the requests do not exceed."""
        order = np.argsort(values, kind="stable")
        upto = np.cumsum(self.number[order])
        places = np.searchsorted(upto, np.asarray(shares) * upto[-1] * (1 - 1e-12))
        return np.asarray(values[order][np.minimum(places, values.size - 1)])

    def mean(self, values: Array) -> float:
        """The mean over requests."""
        return float(np.average(values, weights=self.number))


@dataclass(eq=False)
class Cohorts:
    """Requests on their way through a group. Times are in seconds.

    `waiting`: when requests reach the scheduler and how many do, future arrivals included. `admitted`: requests whose
    prompt is computed in part or in whole. `decoding`: a heap of the decode step in which a cohort ends, its serial
    number, the time of its first token, its number of steps, and its requests. `begun`: tokens computed of a prompt
    that a step did not finish, 0 for none. `loops`: users send the next request when one is answered. `in_step`: other
    ranks have requests in the steps that all ranks run in lock step.
    """

    rules: StepRules
    table: StepTable
    coming: Iterable[tuple[float, int]]
    loops: bool
    in_step: bool = False
    seed: int = SEED

    def __post_init__(self) -> None:
        self.waiting = deque(self.coming)
        self.clock = self.scheduled = self.waiting[0][0]
        self.admitted: deque[tuple[float, int]] = deque()
        self.decoding: list[tuple[int, int, float, int, list[tuple[float, int]]]] = []
        self.decodes = self.decoded = self.begun = self.done = self.steps = 0
        self.rows: list[tuple[int, float, float, float, int]] = []
        self.turn = 0
        self.needed = None if self.rules.drawn is None else _shuffled(self.rules.drawn, self.seed)

    @property
    def answers(self) -> Answers:
        """The answers so far."""
        return Answers(*np.array(self.rows, dtype=float).reshape(-1, 5).T)

    def go_on(self, answers: int, most_steps: float) -> None:
        """Run to a number of answers or of steps."""
        while self.done < answers and self.steps < most_steps:
            self._step()

    def _step(self) -> None:
        """Run a step with prompts, or a run of decode steps without."""
        self.steps += 1
        if not self.decodes and not self.begun and self.waiting[0][0] > self.clock:
            self.clock = self.scheduled = self.waiting[0][0]
        whole, tokens = self.chosen()
        if tokens:
            self.compute(whole, tokens, self.seconds(tokens))
        else:
            seconds = self.seconds(0)
            self.decode(int(self.steps_alone(seconds)), seconds)

    @property
    def present(self) -> bool:
        """Whether a step has anything to do."""
        return bool(self.decodes or self.begun or (self.waiting and self.waiting[0][0] <= self.clock))

    def seconds(self, tokens: int) -> float:
        """Seconds of a step with `tokens` prompt tokens, 0 for none; 0 if there are no decodes either."""
        beside = self.decodes if self.rules.mixes or not tokens else 0
        return self.table.seconds(tokens / self.rules.piece, beside) if tokens or beside else 0.0

    def chosen(self) -> tuple[int, int]:
        """The prompts that the next step finishes, and all the prompt tokens that it computes."""
        r = self.rules
        budget = r.tokens - (r.width * self.decodes if r.mixes else 0)
        whole, used = 0, 0
        if self.begun and budget > 0:
            used = min(r.prompt - self.begun, budget)
            if self.begun + used < r.prompt:
                self.begun += used
                return 0, used
            whole, self.begun = 1, 0
        running = self.decodes + whole + (1 if self.begun else 0)
        while self.waiting and used < budget and running < r.places:
            ready, number = self.waiting[0]
            if ready > (self.scheduled if running or self.in_step else self.clock):
                break
            fitting = min(number, (budget - used) // r.prompt, r.places - running)
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
        ready, others = self.waiting.popleft()
        if others > number:
            self.waiting.appendleft((ready, others - number))
        self.admitted.append((ready, number))

    def compute(self, whole: int, tokens: int, seconds: float) -> None:
        """Run a step of `seconds` that finishes `whole` prompts, beside decodes where the engine mixes them."""
        r, beside = self.rules, self.decodes if self.rules.mixes else 0
        start = self.clock
        self.clock += seconds
        self.scheduled = start if r.ahead else self.clock
        if beside:
            self._passed(1)
        if not whole:
            return
        requests = []
        left = whole
        while left:
            ready, number = self.admitted.popleft()
            if number > left:
                self.admitted.appendleft((ready, number - left))
                number = left
            requests.append((ready, number))
            left -= number
        if r.more:
            self._begin(requests)
            self.decodes += whole
        else:
            self._answered(requests, self.clock, 0)

    def _begin(self, requests: list[tuple[float, int]]) -> None:
        """Start decoding these requests; each takes `more` steps, or a random number where tokens are drafted."""
        if self.needed is None:
            parts = [(int(self.rules.more), requests)]
        else:
            parts = [(next(self.needed), [(ready, 1)]) for ready, number in requests for _ in range(number)]
        for steps, members in parts:
            self.turn += 1
            heappush(self.decoding, (self.decoded + steps, self.turn, self.clock, steps, members))

    def steps_alone(self, seconds: float) -> float:
        """Decode steps until a request ends, or until the step that can take the next arrival."""
        r = self.rules
        number = self.decoding[0][0] - self.decoded if self.decoding else inf
        if self.waiting and self.decodes < r.places and (not r.mixes or r.width * self.decodes < r.tokens):
            aim = (self.waiting[0][0] - self.clock) / seconds + (1 if r.ahead else 0)
            number = max(1, min(number, ceil(aim - 1e-9)))
        return number

    def decode(self, number: int, seconds: float) -> None:
        """Run `number` steps without prompts, possibly without decodes."""
        self.clock += number * seconds
        self.scheduled = self.clock - seconds if self.rules.ahead else self.clock
        if self.decodes:
            self._passed(number)

    def _passed(self, number: int) -> None:
        self.decoded += number
        while self.decoding and self.decoding[0][0] <= self.decoded:
            _, _, first, steps, requests = heappop(self.decoding)
            self.decodes -= sum(number for _, number in requests)
            self._answered(requests, first, steps)

    def _answered(self, requests: list[tuple[float, int]], first: float, steps: int) -> None:
        clock, together = self.clock, 0
        for ready, number in requests:
            self.rows.append((number, clock, first - ready, clock - first, steps))
            together += number
        self.done += together
        if self.loops:
            self._come(clock + self.rules.late, together)

    def _come(self, ready: float, number: int) -> None:
        """Let requests reach the scheduler, before those of users who send their first one later."""
        later = []
        while self.waiting and self.waiting[-1][0] > ready:
            later.append(self.waiting.pop())
        if self.waiting and self.waiting[-1][0] == ready:
            number += self.waiting.pop()[1]
        self.waiting.append((ready, number))
        self.waiting.extend(reversed(later))


@dataclass(frozen=True)
class Loop:
    """A server of several groups in a closed loop: users send the next request when one is answered.

    `in_step`: groups that run every step in lock step, since they share experts; other groups share no step. `turns`:
    groups that take turns in a pipeline; each turn is in lock step with the same turn of other pipelines. `apart`:
    seconds between the first requests of a group's users, 0 where all start together.
    """

    rules: StepRules
    table: StepTable
    groups: int
    in_step: int = 1
    turns: int = 1
    apart: float = 0.0

    def seen(self, users: int) -> Answers:
        """What requests of `users` users experience, who are dealt out to the groups.

        Each row stands for requests per second, not for a number of requests.
        """
        least, more = divmod(users, self.groups)
        dealt = [least + 1] * more + [least] * (self.groups - more)
        ranks = [dealt[turn :: self.turns] for turn in range(self.turns)]
        sets = Counter(tuple(r[i : i + self.in_step]) for r in ranks for i in range(0, len(r), self.in_step))
        every = [looped(self.rules, self.table, each, self.apart).weighing(n) for each, n in sets.items() if any(each)]
        return Answers(*(np.concatenate([getattr(s, f.name) for s in every]) for f in fields(Answers)))


def looped(rules: StepRules, table: StepTable, ranks: Sequence[int], apart: float = 0.0) -> Answers:
    """What requests of these users of each rank experience once the course repeats; rows are requests per second.

    `apart`: as in `Loop`.
    The ranks run every step in lock step. Ranks with equally many users do the same and are followed once, unless
    drafts make their numbers of steps random.
    """
    each = [(n, 1) for n in ranks if n] if rules.drawn is not None else [(n, k) for n, k in Counter(ranks).items() if n]
    if apart and len(each) == 1:
        return _circulating(rules, table, each[0][0], apart).weighing(each[0][1])
    followed = [Cohorts(rules, table, [(rules.late, n)], True, seed=SEED + i) for i, (n, _) in enumerate(each)]
    wanted = [_wanted(rules, n) for n, _ in each]
    if len(followed) == 1:
        followed[0].go_on(wanted[0], MOST_STEPS)
    else:
        join(followed, wanted, MOST_STEPS)
    parts = [_repeated(rules, r.answers, n).weighing(k) for r, (n, k) in zip(followed, each, strict=True)]
    return Answers(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Answers)))


def _circulating(rules: StepRules, table: StepTable, users: int, apart: float) -> Answers:
    """What requests of users experience whose first ones are so many seconds apart; rows are requests per second.

    Those of a round that is like the one before, since all further ones then are, else of many rounds, in which cohorts
    still grow.
    """
    few = min(users, QUEUED * rules.places)
    rank = Cohorts(rules, table, [(rules.late + apart * i, 1) for i in range(few)], True)
    ends, rows = [0], rank.rows
    for n in range(1, SETTLING + max(ROUNDS_APART, ceil(FEW_APART / few)) + 1):
        rank.go_on(rank.done + few, MOST_STEPS if n > 2 else inf)
        if len(rows) == ends[-1]:
            break
        ends.append(len(rows))
        if n > 2 and _alike(rows[ends[-2] :], rows[ends[-3] : ends[-2]]):
            counted = rows[ends[-2] :]
            break
        counted = rows[ends[min(SETTLING, n // 2)] :]
    seen = Answers(*np.array(counted, dtype=float).T)
    round_s = rules.late + seen.mean(seen.first + seen.after)
    seen = replace(seen, first=seen.first + (users / few - 1) * round_s)  # by Little's law
    return seen.weighing(few / round_s / seen.number.sum())


def _alike(these: Sequence[tuple[float, ...]], others: Sequence[tuple[float, ...]]) -> bool:
    """Whether as many requests were answered one after another, and saw the same."""
    return len(these) == len(others) and all(
        a[0] == b[0] and isclose(a[2], b[2], rel_tol=REPEATED) and isclose(a[3], b[3], rel_tol=REPEATED, abs_tol=1e-12)
        for a, b in zip(these, others, strict=True)
    )


def _wanted(rules: StepRules, users: int) -> int:
    """Number of answers after which a rank of `users` users is no longer followed."""
    each = min(users, rules.places)
    return (_settling(rules) + max(MEASURED, ceil(FEW / each))) * each


def _settling(rules: StepRules) -> int:
    return SETTLING if rules.drawn is None else MIXING


def _repeated(rules: StepRules, seen: Answers, users: int) -> Answers:
    """A rank's answers once the course repeats, as requests per second."""
    each, wanted = min(users, rules.places), _wanted(rules, users)
    upto = np.cumsum(seen.number)
    whole = bool(upto[-1] >= wanted)
    settled = _settling(rules) * each if whole else upto[-1] // 2
    if whole and each == users:  # equally many of each user: the rate follows from the time of a round
        last = seen.since(settled, wanted)
        rate = users / (rules.late + last.mean(last.first + last.after))
        return last.weighing(rate / last.number.sum())
    begin = seen.ended[np.searchsorted(upto, settled)]
    last = seen.since(int(upto[seen.ended <= begin][-1]), int(upto[-1]))
    if not last.number.size:  # everything served ended together
        last, begin = seen, 0.0
    return last.weighing(1 / (last.ended[-1] - begin))


def _shuffled(values: Array, seed: int) -> Iterator[int]:
    """The values in shuffled order, again and again; the orders are the same for every server."""
    random = np.random.default_rng(seed)
    while True:
        yield from random.permutation(values).tolist()


@cache
def _gaps(uneven: int) -> Array:
    """Gaps between the requests of one of `uneven` groups that take turns, of mean 1.

    They are sums of that many exponential gaps. Their ranks are in the same order for any number of groups.
    """
    shares = (np.arange(SAMPLE) + 0.5) / SAMPLE
    order = np.random.default_rng(SEED).permutation(SAMPLE)
    gaps = -np.log1p(-shares)
    if uneven > 1:
        gaps = np.sort(np.random.default_rng(SEED).gamma(uneven, 1 / uneven, SAMPLE))
    return np.asarray(gaps[order])


def at_random(
    rules: StepRules, table: StepTable, rate: float, groups: int, settling: int, counted: int, in_step: int = 1
) -> Answers:
    """What requests experienced in an open loop, after those that warm up.

    `rate`: requests per second of this group. `groups`: groups that take turns. `in_step`: groups that run every step
    in lock step, since they share experts.
    """
    number = min((settling + counted) * in_step, SAMPLE)
    gaps = _gaps(max(1, groups // in_step))[:number]
    times = (np.cumsum(gaps / gaps.mean()) / (rate * in_step)).tolist()
    ranks = [Cohorts(rules, table, [(t, 1) for t in times[i::in_step]], False) for i in range(in_step)]
    if in_step == 1:
        ranks[0].go_on(number, inf)
        seen = ranks[0].answers
    else:
        join(ranks, [len(r.waiting) for r in ranks], inf)
        rows = np.array([row for r in ranks for row in r.rows], dtype=float)
        seen = Answers(*rows[np.argsort(rows[:, 1], kind="stable")].T)
    return seen.since(min(settling * in_step, number // 2), number)


def join(ranks: Sequence[Cohorts], answers: Sequence[int], most_steps: float) -> None:
    """Run ranks in lock step to a number of answers of each, or of steps; the slowest rank sets a step's time."""
    steps = 0
    while any(r.done < wanted for r, wanted in zip(ranks, answers, strict=True)) and steps < most_steps:
        steps += 1
        if not any(r.present for r in ranks):
            clock = min(r.waiting[0][0] for r in ranks if r.waiting)
            for r in ranks:
                r.clock = r.scheduled = clock
        running = any(r.decodes or r.begun for r in ranks)
        for r in ranks:
            r.in_step = running
        chosen = [r.chosen() for r in ranks]
        seconds = max(r.seconds(tokens) for r, (_, tokens) in zip(ranks, chosen, strict=True))
        prompts = any(tokens for _, tokens in chosen)
        number = 1 if prompts else int(min(r.steps_alone(seconds) for r in ranks))
        for r, (whole, tokens) in zip(ranks, chosen, strict=True):
            if tokens:
                r.compute(whole, tokens, seconds)
            else:
                r.decode(number, seconds)
