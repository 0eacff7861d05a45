"""A server of short answers, followed step by step in many independent replications at once.

Which prompts share a step with the few tokens of a short answer depends on the steps before, which no mean over steps
shows. Here the scheduler's own rules are followed, those of `simulate`, with the same step times. An element of an
array is a replication, so that a step of all of them is one pass of NumPy (independent replications: Law,
Simulation Modeling and Analysis, §9.5). Prompts are first come, first served: what is computed of all of a rank's
prompts is one number of tokens. Random numbers are the same for every server and load, lengths a stratified sample.

Axes: replications, ranks that run every step together, requests in the order in which the scheduler sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from roofline.declared.arrays import Array
from roofline.serving.closed_forms.percentiles import normal_quantile
from roofline.serving.drafting import step_quantiles
from roofline.serving.simulate.load.lengths import About, about
from roofline.serving.simulate.policy import Policy
from roofline.serving.simulate.steps import StepTimes

SEED = 31
"""Seed of all random numbers."""
COUNTED, FEWEST, MOST_WARM = 16_384, 96, 512
"""Requests that count in all replications, in each rank at least, and requests of a rank that warm up at most because
the server is busy."""
PRESENT = 6
"""Requests that warm up for each one in flight."""
FEW = 4
"""Ranks that run every step together from which on each has no fewer requests."""
AHEAD = 32
"""Steps without prompts that are taken at once, at most."""
CHECKED, MOST_STEPS = 16, 40_000
"""Steps between two checks of whether enough are answered, and steps at most."""


@dataclass(frozen=True, eq=False)
class StepArrays:
    """`StepTimes` as arrays, with decodes of one mean context.

    `alone[k]`, `beside[k]`: seconds of a step of k decodes, and of their attention and drafting beside prompts.
    `prompts`: new and cached tokens of chunks, and seconds of their attention. `draft`: times of the draft model, which
    computes prompts too.
    """

    products: Array
    heads: Array
    prompts: tuple[Array, Array, Array]
    alone: Array
    beside: Array
    shared: float
    sequence_s: float
    token_s: float
    step_s: float
    draft: StepArrays | None

    def attending(self, new: Array, cached: Array) -> Array:
        """Seconds of the attention of lone chunks."""
        rows, columns, values = self.prompts
        (i, a), (j, b) = _place(rows, new), _place(columns, cached)
        low, high = (values[k, j] + b * (values[k, j + 1] - values[k, j]) for k in (i, i + 1))
        return np.asarray(low + a * (high - low))


def step_arrays(times: StepTimes, most: int, context: float) -> StepArrays:
    """The step times of a replica as arrays, for up to `most` decodes of this mean context."""
    times.heads.at(most * times.width + 1)
    row = [times.row(k).step(context) for k in range(1, most + 1)]
    beside = [times.decodes.at(k, context) for k in range(1, most + 1)]
    if times.width > 1:
        beside = [seconds + times.proposed(k, context) for k, seconds in enumerate(beside, 1)]
    p = times.prompts
    draft = None if times.drafting is None else step_arrays(times.drafting, most, context)
    return StepArrays(
        np.array(times.products), np.array(times.heads), (np.array(p.rows), np.array(p.columns), np.array(p.values)),
        np.array([0.0, *row]), np.array([0.0, *beside]), times.shared, times.sequence_s, times.token_s, times.step_s,
        draft,
    )  # fmt: skip


def _place(points: Array, values: Array) -> tuple[Array, Array]:
    """The cell of a grid that contains each value, and the position within it."""
    i = np.clip(np.searchsorted(points, values, "right") - 1, 0, len(points) - 2)
    return i, (values - points[i]) / (points[i + 1] - points[i])


# -- requests --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Drawn:
    """Requests of all ranks: tokens of prompts and of answers, decode steps after the first token, seconds until the
    scheduler sees them, and when it does."""

    input: Array
    output: Array
    steps: Array
    late: Array
    ready: Array


_about = lru_cache(256)(about)


def drawn_lengths(random: np.random.Generator, mean: int, cv: float, most: int, shape: tuple[int, ...]) -> Array:
    """A stratified sample of lengths about a mean, in random order."""
    law = _about(mean, cv, most)
    if not isinstance(law, About):
        return np.full(shape, float(mean))
    number = int(np.prod(shape))
    z = normal_quantile((np.arange(number) + random.random(number)) / number)
    values = np.rint(np.clip(np.exp(law.law.mu + law.law.sigma * z), 1, most))
    return random.permutation(values).reshape(shape)


def arrival_times(random: np.random.Generator, rate: float, shape: Sequence[int], groups: int, apart: int) -> Array:
    """When requests arrive that do so at random, `rate` per second in all, and are dealt out to `groups` in turn.

    The ranks are `apart` groups from each other. The gap between every n-th of Poisson arrivals has a gamma law.
    """
    replications, ranks, number = shape
    gaps = random.standard_gamma(float(apart), (replications, number, ranks))
    gaps[:, :, 0] = random.standard_gamma(float(max(1, groups - (ranks - 1) * apart)), (replications, number))
    times = np.cumsum(gaps.reshape(replications, -1), axis=1) / rate
    return np.asarray(times.reshape(replications, number, ranks).swapaxes(1, 2))


# -- the scheduler ---------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Replications:
    """All replications on their way. `cached`: tokens of a prompt in the prefix cache. `encode_s`: seconds in which the
    images of a prompt are encoded.

    `first`: when each request has its first token, and `ends` the decode step of its rank in which it has its last one;
    `clocks`: when each decode step ends.
    """

    times: StepArrays
    policy: Policy
    requests: Drawn
    cached: float = 0.0
    encode_s: float = 0.0

    def __post_init__(self) -> None:
        r = self.requests
        self.shape = replications, ranks, _ = r.input.shape
        self.at = np.ogrid[:replications, :ranks]
        self.ready = np.concatenate([r.ready, np.full((replications, ranks, 1), np.inf)], axis=2)
        self.steps, fresh = r.steps, np.maximum(r.input - self.cached, 1.0)
        each, self.once = self._attention(fresh, self.cached + 0 * fresh)
        none = np.zeros((replications, ranks, 1))
        self.upto = np.concatenate([none, np.cumsum(fresh, axis=2)], axis=2)
        self.attended = np.concatenate([none, np.cumsum(each, axis=2)], axis=2)
        self.rows = np.arange(replications * ranks).reshape(replications, ranks)
        self.wide = 2 * float(self.upto.max()) + 1e6
        self.line = (self.upto + self.wide * self.rows[:, :, np.newaxis]).reshape(-1)
        self.first, self.ends = np.full(self.shape, np.inf), np.zeros(self.shape, dtype=np.int64)
        self.clock = np.zeros(replications)
        self.longest = int(self.steps.max()) + 2
        self.clocks = np.zeros((replications, ranks, 2 * (self.longest + AHEAD) + 256))
        self.ending = np.zeros(self.clocks.shape, dtype=np.int64)
        self.decoded = np.zeros((replications, ranks), dtype=np.int64)

    def _attention(self, new: Array, cached: Array) -> tuple[Array, Array]:
        """Seconds of the attention of chunks without what only one of a step pays, and that."""
        seconds, t = self.times.attending(new, cached), self.times
        rest, once = np.maximum(seconds - t.shared, 0.0), np.minimum(seconds, t.shared)
        if t.draft is not None:
            seconds = t.draft.attending(new, cached)
            rest, once = rest + np.maximum(seconds - t.draft.shared, 0.0), once + np.minimum(seconds, t.draft.shared)
        return rest, once

    def run(self, upto: int) -> None:
        """Run until the first `upto` requests of each rank are answered, or for the most steps."""
        p, (replications, ranks, _) = self.policy, self.shape
        each_rank, zero = self.at, np.zeros((replications, ranks), dtype=np.int64)
        scheduled, done = np.zeros(replications), np.zeros((replications, ranks))
        served, known, begun, decodes = zero, zero, zero, zero.copy()
        for step in range(1, MOST_STEPS + 1):
            cut = done > self.upto[(*each_rank, served)]
            running = (decodes > 0) | cut
            nobody = ~(running | (known > begun)).any(axis=1)
            if nobody.any():
                arrival = self.ready[(*each_rank, known)].min(axis=1)
                moves = nobody & (arrival > self.clock) & np.isfinite(arrival)
                self.clock, scheduled = (np.where(moves, arrival, t) for t in (self.clock, scheduled))
            while (more := self.ready[(*each_rank, known)] <= scheduled[:, np.newaxis]).any():
                known = known + more
            starts = ~running & (known <= begun) & (self.ready[(*each_rank, known)] <= self.clock[:, np.newaxis])
            known = known + starts  # an idle rank takes who is there, however late
            some, whole = np.zeros_like(cut), served
            seconds = self.times.alone[decodes]
            if cut.any() or (known > begun).any():
                aim, whole, some = self._chosen(done, served, begun, known, cut, decodes)
                seconds = self._seconds(some, done, aim, served, whole, cut, decodes)
                now = np.where(some, whole + (aim > self.upto[(*each_rank, whole)]), begun)
                seconds = seconds + self.encode_s * np.maximum(now - begun, 0)
                begun, done = np.maximum(begun, now), aim
            longest = seconds.max(axis=1)
            times = self._alike(longest, some, decodes, known)
            self.clock = self.clock + times * longest
            scheduled = np.where(longest > 0, self.clock - longest if p.ahead else self.clock, scheduled)
            self._decode(np.where((decodes > 0) & (p.mixes | ~some), times[:, np.newaxis], 0), decodes)
            if whole is not served:
                self._generated(served, whole, decodes)
                served = whole
            if step % CHECKED == 0 and self._over(served, upto):
                return

    def _chosen(
        self, done: Array, served: Array, begun: Array, known: Array, cut: Array, decodes: Array
    ) -> tuple[Array, Array, Array]:
        """Tokens up to which each rank's next step computes its prompts, how many are whole then, and whether it
        computes any. `known`: requests that the step may start; `cut`: whether a prompt is computed in part."""
        p, each_rank, number = self.policy, self.at, self.shape[2]
        places = np.maximum(p.running - decodes - (begun - served), 0)
        budget = np.maximum(p.tokens - (p.width * decodes if p.mixes else 0), 0)
        aim = np.minimum(done + budget, self.upto[(*each_rank, np.minimum(known, begun + places))])
        aim = np.maximum(aim, done)
        whole = np.searchsorted(self.line, aim + self.wide * self.rows, "right") - 1 - self.rows * (number + 1)
        if not p.splits:
            end = self.upto[(*each_rank, whole)]
            size = self.upto[(*each_rank, np.minimum(served + 1, number))] - self.upto[(*each_rank, served)]
            split = (whole <= served) & (cut | (size > p.tokens))
            aim = np.where((aim > end) & ~split, np.maximum(end, done), aim)
        some = aim > done
        return aim, np.where(some, whole, served), some

    def _over(self, served: Array, upto: int) -> bool:
        """Whether the first `upto` requests of each rank have their last token."""
        if int(served.min()) < upto:
            return False
        return bool((self.ends[:, :, :upto] <= self.decoded[:, :, np.newaxis]).all())

    def _seconds(
        self, some: Array, done: Array, aim: Array, served: Array, whole: Array, cut: Array, decodes: Array
    ) -> Array:
        """Seconds of each rank's step, which computes its prompts from `done` to `aim` tokens."""
        t, p, each_rank, last = self.times, self.policy, self.at, self.shape[2]
        inside = np.minimum(served + cut, last)
        full = np.maximum(whole - inside, 0)
        attended = np.where(full > 0, self.attended[(*each_rank, whole)] - self.attended[(*each_rank, inside)], 0.0)
        once = np.where(full > 0, self.once[(*each_rank, np.minimum(inside, last - 1))], 0.0)
        begins, ends = self.upto[(*each_rank, served)], self.upto[(*each_rank, whole)]
        parts = (
            (cut & some, np.minimum(aim, self.upto[(*each_rank, np.minimum(served + 1, last))]) - done, done - begins),
            (some & (aim > ends) & (whole >= inside), aim - ends, np.zeros_like(aim)),
        )
        for mask, new, before in parts:
            if mask.any():
                rest, own = self._attention(new[mask], before[mask] + self.cached)
                attended[mask] += rest
                once[mask] = np.maximum(once[mask], own)
                full = full + mask
        new = (aim - done).astype(np.int64)
        beside = decodes if p.mixes else np.where(some, 0, decodes)
        tokens = beside * p.width
        host = t.step_s + t.sequence_s * (full + beside) + t.token_s * (new + tokens)
        seconds = attended + once + host + t.beside[beside]
        seconds = seconds + t.products[np.minimum(new + tokens, len(t.products) - 1)]
        seconds = seconds + t.heads[np.minimum(full + tokens, len(t.heads) - 1)]
        if t.draft is not None:
            seconds = seconds + t.draft.products[new] + t.draft.heads[np.minimum(full, len(t.draft.heads) - 1)]
        return np.where(some, seconds, t.alone[decodes])

    def _alike(self, seconds: Array, some: Array, decodes: Array, known: Array) -> Array:
        """How many steps without prompts are alike: until a request has its last token, or one arrives."""
        alone = (seconds > 0) & ~some.any(axis=1)
        number = np.ones(len(seconds), dtype=np.int64)
        if not alone.any():
            return number
        next_one = self.ready[(*self.at, known)].min(axis=1)[alone]
        ahead = np.arange(1, AHEAD + 1)
        i, j = self.at
        place = self.decoded[alone][:, :, np.newaxis] + ahead
        ends = self.ending[i[alone][:, :, np.newaxis], j[:, :, np.newaxis], place] > 0
        ends = np.where(ends.any(axis=2), ends.argmax(axis=2) + 1, AHEAD)
        ends = np.where(decodes[alone] > 0, ends, AHEAD).min(axis=1)
        arrives = np.ceil((next_one - self.clock[alone]) / seconds[alone] - 1e-9)
        number[alone] = np.clip(np.minimum(ends, arrives), 1, AHEAD).astype(np.int64)
        return number

    def _decode(self, number: Array, decodes: Array) -> None:
        """Advance the decodes of each rank by a number of steps; requests that have their last token leave."""
        self.decoded, decoding = self.decoded + number, number > 0
        if int(self.decoded.max()) + self.longest + AHEAD >= self.clocks.shape[2]:
            room = ((0, 0), (0, 0), (0, self.clocks.shape[2]))
            self.clocks, self.ending = np.pad(self.clocks, room), np.pad(self.ending, room)
        i, j = np.nonzero(decoding)
        place = self.decoded[i, j]
        self.clocks[i, j, place] = self.clock[i]
        decodes[i, j] -= self.ending[i, j, place]

    def _generated(self, served: Array, whole: Array, decodes: Array) -> None:
        """Let requests whose prompt is computed decode."""
        i, j, place = _each(whole - served, served)
        steps = self.steps[i, j, place]
        self.first[i, j, place] = self.clock[i]
        self.ends[i, j, place] = ends = self.decoded[i, j] + steps
        more = steps > 0
        np.add.at(self.ending, (i[more], j[more], ends[more]), 1)
        np.add.at(decodes, (i[more], j[more]), 1)

    # -- what they saw -----------------------------------------------------------------------------------------------
    def seen(self, since: int, upto: int) -> RequestTimes:
        """What requests `since` to `upto` of each rank saw, of those that were answered."""
        span = np.s_[:, :, since:upto]
        ends, first, ready = self.ends[span], self.first[span], self.requests.ready[span]
        there = np.isfinite(first) & (ends <= self.decoded[:, :, np.newaxis])
        last = np.take_along_axis(self.clocks, np.minimum(ends, self.clocks.shape[2] - 1), axis=2)
        last = np.where(self.steps[span] > 0, last, first)
        columns = (self.requests.late[span], first - ready, last - first, self.requests.output[span])
        return RequestTimes(*(c[there] for c in columns))


def _each(number: Array, since: Array) -> tuple[Array, Array, Array]:
    """Indices of `number` consecutive requests of each rank, from `since` on."""
    i, j = np.nonzero(number)
    many = number[i, j]
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    return np.repeat(i, many), np.repeat(j, many), np.repeat(since[i, j], many) + within


@dataclass(frozen=True)
class RequestTimes:
    """What requests saw, in seconds: `late` until the scheduler saw them, `first` from then to the first token, `after`
    from the first token to the last of `output`."""

    late: Array
    first: Array
    after: Array
    output: Array


# -- loads -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RankGroup:
    """A group of ranks of a server: its step times, scheduler, requests, and how it is among the others.

    `input`, `output`: mean tokens; `spread`: coefficients of variation; `longest`: tokens of the longest request.
    `late`: seconds until the scheduler sees a prompt of 0 and of 1 token. `draft`: acceptance and length of drafts.
    `groups`: all that take turns; `ranks`: of these that run every step together, each
    `apart` turns from the next.
    """

    times: StepArrays
    policy: Policy
    input: int
    output: int
    spread: tuple[float, float]
    longest: int
    late: tuple[float, float]
    cached: float
    encode_s: float
    groups: int
    ranks: int
    apart: int
    draft: tuple[float, int] | None

    def drawn(self, random: np.random.Generator, shape: tuple[int, int, int], ready: Array) -> Drawn:
        """Requests that the scheduler sees at these times."""
        room = self.longest / (self.input + self.output)
        new, out = (
            drawn_lengths(random, mean, cv, int(mean * room), shape)
            for mean, cv in zip((self.input, self.output), self.spread, strict=True)
        )
        steps = np.maximum(out - 1, 0).astype(np.int64)
        if self.draft is not None:
            for tokens in np.unique(steps[steps > 0]):
                mine = steps == tokens
                each = step_quantiles(*self.draft, int(tokens))
                steps[mine] = random.permutation(np.resize(random.permutation(each), int(mine.sum())))
        return Drawn(new, out, steps, self.late[0] + (self.late[1] - self.late[0]) * new, ready)

    def at_rate(self, rate: float, load: float, present: float) -> RequestTimes:
        """An open loop of `rate` requests per second over all groups; `load`: its share of the most they take.
        `present`: about how many are in flight in a rank."""
        fewest = FEWEST // min(self.ranks, FEW)
        warm = int(min(MOST_WARM, fewest / 4 + 8 / (1 - min(load, 0.95)) ** 2) + PRESENT * min(present, MOST_WARM))
        counted = max(fewest, warm)
        replications = max(2, ceil(COUNTED / (counted * self.ranks)))
        number = warm + counted + max(16, counted // 8)
        random, shape = np.random.default_rng(SEED), (replications, self.ranks, number)
        ready = arrival_times(random, rate, shape, self.groups, self.apart)  # late by whatever, arrivals stay at random
        requests = self.drawn(random, shape, ready)
        run = Replications(self.times, self.policy, requests, self.cached, self.encode_s)
        run.run(warm + counted)
        return run.seen(warm, warm + counted)
