"""A server of short answers, followed step by step in many independent replications at once.

Which prompts share a step with the few tokens of a short answer depends on the steps before, which no mean over steps
shows. Here the scheduler's own rules are followed, those of `simulate`, with the same step times. An element of an
array is a replication, so that a step of all of them is one pass of NumPy (independent replications: Law,
Simulation Modeling and Analysis, §9.5). Prompts are first come, first served: what is computed of all of a rank's
prompts is one number of tokens. Random numbers are the same for every server and load, lengths a stratified sample.
A closed loop begins in the middle of answers, and its rate is that of the work done, so that short runs are enough.

Axes: replications, ranks that run every step together, requests in the order in which the scheduler sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count
from roofline.serving.closed_forms.percentiles import normal_quantile
from roofline.serving.drafting import step_quantiles
from roofline.serving.simulate.load.lengths import About, about
from roofline.serving.simulate.policy import Policy, Room
from roofline.serving.simulate.replica import CLIPPED
from roofline.serving.simulate.steps import StepTimes

SEED = 31
"""Seed of all random numbers."""
COUNTED, FEWEST, MOST_WARM = 16_384, 96, 512
"""Requests that count in all replications, in each rank at least, and requests of a rank that warm up at most because
the server is busy."""
BRIEF = 16
"""Tokens of answers up to which so many count; of longer ones that many fewer, each of which takes more steps."""
BUSIER, MOST_MORE = 0.4, 4.0
"""Share of idle time below which more requests count, in proportion, and how many times as many at most."""
PRESENT = 6
"""Requests that warm up for each one in flight."""
FEW = 4
"""Ranks that run every step together from which on each has no fewer requests."""
ROUNDS, ROUNDS_APART, ROUNDS_CERTAIN, ROUNDS_ALIKE = (2, 2), (5, 4), (5, 10), (10, 3)
"""Requests of each user of a closed loop that warm up and that count; where prompts run apart, which keeps users
together for longer; where nothing is random; and where only drafts are, so that all users send at first."""
REPLICATIONS, STRATA = 64, 512
"""Replications of a closed loop at least, and lengths at least of which each is from a stratum of its own."""
LEAST_COUNTED, SPARE = 32, 1.3
"""Requests of all users of a rank that count at least; and by how much more are at hand, since they may be answered
sooner than expected."""
AHEAD = (32, 256)
"""Steps ahead in which a request may have its last token, looked at one after the other: as many without prompts are
taken at once."""
MOST_STEPS = 40_000
"""Steps at most."""


@dataclass(frozen=True, eq=False)
class StepArrays:
    """`StepTimes` as arrays.

    `alone[k, c]`, `beside[k, c]`: seconds of a step of k decodes whose mean context is `contexts[c]`, and of their
    attention and drafting beside prompts. `prompts`: new and cached tokens of chunks, and seconds of their attention.
    `draft`: times of the draft model, which computes prompts too.
    """

    products: Array
    heads: Array
    prompts: tuple[Array, Array, Array]
    contexts: Array
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
        at, wide = i * len(columns) + j, len(columns)
        low, high = (first + b * (values.take(k + 1) - first) for k in (at, at + wide) for first in [values.take(k)])
        return np.asarray(low + a * (high - low))


def step_arrays(times: StepTimes, most: int) -> StepArrays:
    """The step times of a replica as arrays, for up to `most` decodes."""
    d, p, width = times.decodes, times.prompts, times.width
    several, tokens = np.arange(1, most + 1), width * np.arange(1, most + 1)
    times.heads.at(most * width + 1)
    products = times.decoding if width == 1 else times.products
    products.at(most * width)
    contexts, values = np.array(d.columns), np.array(d.values)
    i, part = _place(np.array(d.rows), several)
    beside = values[i] + part[:, np.newaxis] * (values[i + 1] - values[i])
    draft = None if times.drafting is None else step_arrays(times.drafting, most)
    if width > 1 and draft is None:
        beside = beside + times.lookup_s * several[:, np.newaxis] * contexts
    elif draft is not None:
        beside = beside + (width - 1) * np.stack([np.interp(contexts, draft.contexts, row) for row in draft.alone[1:]])
    fixed = np.array(products)[tokens] + np.array(times.heads)[tokens]
    fixed = fixed + times.step_s + times.sequence_s * several + times.token_s * tokens
    none = np.zeros((1, len(contexts)))
    return StepArrays(
        np.array(times.products), np.array(times.heads), (np.array(p.rows), np.array(p.columns), np.array(p.values)),
        contexts, np.concatenate([none, beside + fixed[:, np.newaxis]]), np.concatenate([none, beside]),
        times.shared, times.sequence_s, times.token_s, times.step_s, draft,
    )  # fmt: skip


def _place(points: Array, values: Array) -> tuple[Array, Array]:
    """The cell of a grid that contains each value, and the position within it."""
    i = points[1:-1].searchsorted(values, "right")
    low = points.take(i)
    return i, (values - low) / (points.take(i + 1) - low)


# -- requests --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Drawn:
    """Requests of all ranks: tokens of prompts and of answers, decode steps after the first token, seconds until the
    scheduler sees them, and when it does. `ready` is infinite of those that are sent when another is answered."""

    input: Array
    output: Array
    steps: Array
    late: Array
    ready: Array


_about = lru_cache(256)(about)


def drawn_lengths(random: np.random.Generator, mean: int, cv: float, most: int, shape: tuple[int, ...]) -> Array:
    """Lengths about a mean, in random order. Those of one or of some consecutive places of all replications are a
    stratified sample, so that they have the mean of the law whichever places count (McKay, Beckman and Conover 1979).
    """
    law = _about(mean, cv, most)
    if not isinstance(law, About):
        return np.full(shape, float(mean))
    replications, ranks, number = shape
    block = max(1, ceil(STRATA / (replications * ranks)))
    blocks, strata = ceil(number / block), replications * ranks * block
    order = random.permuted(np.broadcast_to(np.arange(strata), (blocks, strata)), axis=1)
    z = normal_quantile((order + random.random(order.shape)) / strata)
    values = np.rint(np.clip(np.exp(law.law.mu + law.law.sigma * z), 1, most))
    values = values.reshape(blocks, replications, ranks, block).transpose(1, 2, 0, 3)
    return np.asarray(values.reshape(replications, ranks, -1)[:, :, :number])


def arrival_times(random: np.random.Generator, rate: float, shape: Sequence[int], groups: int, apart: int) -> Array:
    """When requests arrive that do so at random, `rate` per second in all, and are dealt out to `groups` in turn.

    The ranks are `apart` groups from each other. The gap between every n-th of Poisson arrivals has a gamma law.
    """
    replications, ranks, number = shape
    gaps = random.standard_gamma(float(apart), (replications, number, ranks))
    gaps[:, :, 0] = random.standard_gamma(float(max(1, groups - (ranks - 1) * apart)), (replications, number))
    times = np.cumsum(gaps.reshape(replications, -1), axis=1) / rate
    return np.asarray(times.reshape(replications, number, ranks).swapaxes(1, 2))


@dataclass(frozen=True)
class Window:
    """Requests of each rank that count: `number` from the `start`-th one on of each replication."""

    start: Array
    number: int


@dataclass(frozen=True)
class Underway:
    """Requests that decode already when replications begin, in each rank: `tokens` in their caches, to which a decode
    step adds `growth`, and the steps that are `left`; 0 where there is none."""

    tokens: Array
    growth: Array
    left: Array
    reserved: Array


# -- the scheduler ---------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Replications:
    """All replications on their way. `cached`: tokens of a prompt in the prefix cache. `encode_s`: seconds in which the
    images of a prompt are encoded. `room`: memory of a rank, None where it holds all that come. Where it is full,
    nobody starts; those that run go on, and none is preempted.

    `sent`: requests of each rank that were sent. `tokens`: in the caches of its decodes, to which a step adds
    `growing`; `reserved`: share of memory that an engine keeps for them.
    `first`: when each request has its first token, and `ends` the decode step of its rank in which it has its last one.
    `ended`: sums over the requests that end in each decode step to come: their number, and what they leave of `tokens`,
    `growing` and `reserved`.
    """

    times: StepArrays
    policy: Policy
    requests: Drawn
    cached: float = 0.0
    encode_s: float = 0.0
    room: Room | None = None
    underway: Underway | None = None

    def __post_init__(self) -> None:
        r = self.requests
        self.shape = replications, ranks, number = r.input.shape
        self.closed = bool(np.isinf(r.ready).any())
        self.sent = np.isfinite(r.ready).sum(axis=2)
        fresh, steps = np.maximum(r.input - self.cached, 1.0), np.maximum(r.steps, 1)
        each, once = self._attention(fresh, self.cached + 0 * fresh)
        taken = 0 * fresh if self.room is None else taken_of(self.room, self.policy, r.input, r.output)
        growth = np.maximum(r.output - 1, 0) / steps
        self.slots = np.stack([r.ready, r.input, r.output, r.steps, r.late, growth, fresh, each, once, taken])
        (
            self.ready, self.input, self.output, self.steps, self.late, self.growth, self.fresh, self.each, self.once,
            self.taken,
        ) = self.slots  # fmt: skip
        self.rows = np.arange(replications * ranks).reshape(replications, ranks)
        self.base, self.sums = self.rows * number, self.rows * (number + 1)
        self.upto, self.attended, self.held = (_summed(v) for v in (self.fresh, self.each, self.taken))
        self.apart, self.most = 2 * float(self.upto.max()) + 1e6, 2 * float(self.held.max()) + 1e3
        self.lines = self.apart * self.rows
        self.line, self.places = _lined(self.upto, self.apart), _lined(self.held, self.most)
        self.first, self.ends = np.full(self.shape, np.inf), np.zeros(self.shape, dtype=np.int64)
        self.clock = np.zeros(replications)
        longest = self.steps.max() if self.underway is None else max(self.steps.max(), self.underway.left.max())
        self.ended = np.zeros((4, replications, ranks, int(longest) + sum(AHEAD) + 2))
        self.decoded = np.zeros((replications, ranks), dtype=np.int64)
        self.tokens, self.growing, self.reserved = np.zeros((3, replications, ranks))
        self.decodes = np.zeros((replications, ranks), dtype=np.int64)
        if self.underway is not None:
            u, (i, j, k) = self.underway, np.nonzero(self.underway.left)
            self._joined(self.decodes, i, j, u.left[i, j, k], u.tokens[i, j, k], u.growth[i, j, k], u.reserved[i, j, k])
        self.history: list[tuple[Array, Array]] = []

    def _attention(self, new: Array, cached: Array) -> tuple[Array, Array]:
        """Seconds of the attention of chunks without what only one of a step pays, and that."""
        seconds, t = self.times.attending(new, cached), self.times
        rest, once = np.maximum(seconds - t.shared, 0.0), np.minimum(seconds, t.shared)
        if t.draft is not None:
            seconds = t.draft.attending(new, cached)
            rest, once = rest + np.maximum(seconds - t.draft.shared, 0.0), once + np.minimum(seconds, t.draft.shared)
        return rest, once

    def run(self, until: Array, goal: Array | None = None) -> None:
        """Run each replication until a time, in seconds, or for the most steps; or until no more requests are sent in a
        closed loop, whose time is then `until`; or all until so many of each rank have their first token."""
        self.until = until
        p, (replications, ranks, _) = self.policy, self.shape
        zero = np.zeros((replications, ranks), dtype=np.int64)
        scheduled, done = np.zeros(replications), np.zeros((replications, ranks))
        served, known, begun, decodes, waited = zero, zero, zero, self.decodes, np.zeros(replications, dtype=np.int64)
        for _ in range(MOST_STEPS):
            cut = done > self.upto.take(self.sums + served)
            running = (decodes > 0) | cut
            following = self._following(known)
            nobody = ~(running | (known > begun)).any(axis=1)
            if nobody.any():
                arrival = following.min(axis=1)
                moves = nobody & (arrival > self.clock) & np.isfinite(arrival)
                self.clock, scheduled = (np.where(moves, arrival, t) for t in (self.clock, scheduled))
            while (more := following <= scheduled[:, np.newaxis]).any():
                known = known + more
                following = self._following(known)
            starts = ~running & (known <= begun) & (following <= self.clock[:, np.newaxis])
            if starts.any():
                known = known + starts  # an idle rank takes who is there, however late
                following = self._following(known)
            some, whole, waits = np.zeros_like(cut), served, None
            context = self.tokens / np.maximum(decodes, 1)
            seconds = self._decoding(self.times.alone, decodes, context)
            if cut.any() or (known > begun).any():
                aim, whole, some = self._chosen(done, served, begun, known, cut, decodes, context)
                if p.balanced and ranks > 1 and some.any():
                    waits = self._waiting(some, decodes, known > begun, waited)
                    waited = np.where(some.any(axis=1) & ~waits, 0, waited)
                    stay = waits[:, np.newaxis]
                    aim, whole, some = np.where(stay, done, aim), np.where(stay, served, whole), some & ~stay
                mixed = self._seconds(some, done, aim, served, whole, cut, decodes, context)
                seconds = np.where(some, mixed, seconds)
                now = np.where(some, whole + (aim > self.upto.take(self.sums + whole)), begun)
                if self.encode_s:
                    seconds = seconds + self.encode_s * np.maximum(now - begun, 0)
                begun, done = np.maximum(begun, now), aim
            longest = seconds.max(axis=1)
            times = self._alike(longest, some, decodes, following)
            if waits is not None:
                times = np.where(waits, np.minimum(times, p.balanced - waited), times)
                waited = np.where(waits, waited + times, waited)
            last = longest
            if int(times.max()) > 1:  # contexts grow, and steps with them
                later = context + (times[:, np.newaxis] - 1) / 2 * self.growing / np.maximum(decodes, 1)
                longest = np.where(times > 1, self._decoding(self.times.alone, decodes, later).max(axis=1), longest)
                last = 2 * longest - last
            self.clock = self.clock + times * longest
            scheduled = np.where(longest > 0, self.clock - last if p.ahead else self.clock, scheduled)
            answered = self._decode(np.where((decodes > 0) & (p.mixes | ~some), times[:, np.newaxis], 0), decodes)
            if whole is not served:
                answered = answered + self._generated(served, whole, decodes)
                served = whole
            if self.closed and answered.any():
                self._send(answered, known)
            if self.closed:
                ends = (self.sent >= self.shape[2]).any(axis=1)
                self.until = np.where(ends, np.minimum(self.until, self.clock), self.until)
            if ((self.clock >= self.until) if goal is None else (served >= goal[:, np.newaxis])).all():
                return

    def _waiting(self, some: Array, decodes: Array, waiting: Array, waited: Array) -> Array:
        """Whether the prompts of `some` ranks wait for those of the others, as in `simulate.dp_attention.LockStep`: not
        all have any, all with requests decode, and they have `waited` fewer steps than they are to."""
        decoding = ((decodes > 0) | ~(some | waiting)).all(axis=1)
        return np.asarray(some.any(axis=1) & ~some.all(axis=1) & decoding & (waited < self.policy.balanced))

    def _following(self, known: Array) -> Array:
        """When the next request of each rank will be seen, in seconds; infinite where none was sent."""
        last = self.shape[2] - 1
        return np.where(known <= last, self.ready.take(self.base + np.minimum(known, last)), np.inf)

    def _chosen(
        self, done: Array, served: Array, begun: Array, known: Array, cut: Array, decodes: Array, context: Array
    ) -> tuple[Array, Array, Array]:
        """Tokens up to which each rank's next step computes its prompts, how many are whole then, and whether it
        computes any. `known`: requests that the step may start; `cut`: whether a prompt is computed in part."""
        p, number = self.policy, self.shape[2]
        places = np.maximum(p.running - decodes - (begun - served), 0)
        budget = np.maximum(p.tokens - (p.width * decodes if p.mixes else 0), 0)
        most = np.minimum(known, begun + places)
        if self.room is not None:
            full = self.reserved if p.reserves else decodes * _held(self.room, context + 1)
            full = full - self.held.take(self.sums + served)
            room = np.minimum(np.maximum(1 - full, 0.0), self.most / 2) + self.most * self.rows
            fitting = self.places.searchsorted(room, "right") - 1 - self.sums
            idle = (decodes == 0) & (begun <= served)
            most = np.minimum(most, np.maximum(fitting, begun + idle))
        aim = np.maximum(np.minimum(done + budget, self.upto.take(self.sums + np.minimum(most, number))), done)
        whole = self.line.searchsorted(aim + self.lines, "right") - 1 - self.sums
        if not p.splits:
            end, (before, after) = self.upto.take(self.sums + whole), self._ends(served)
            size = after - before
            split = (whole <= served) & (cut | (size > p.tokens))
            aim = np.where((aim > end) & ~split, np.maximum(end, done), aim)
        some = aim > done
        return aim, np.where(some, whole, served), some

    def _ends(self, served: Array) -> tuple[Array, Array]:
        """Tokens up to which the first prompts of each rank reach, and those with the next one."""
        return self.upto.take(self.sums + served), self.upto.take(self.sums + np.minimum(served + 1, self.shape[2]))

    def _decoding(self, table: Array, decodes: Array, context: Array) -> Array:
        """Seconds of so many decodes of this mean context, by one of the tables of `StepArrays`."""
        j, part = _place(self.times.contexts, context)
        at = decodes * table.shape[1] + j
        low = table.take(at)
        return np.asarray(low + part * (table.take(at + 1) - low))

    def _seconds(
        self, some: Array, done: Array, aim: Array, served: Array, whole: Array, cut: Array, decodes: Array,
        context: Array,
    ) -> Array:  # fmt: skip
        """Seconds of each rank's step if it computes its prompts from `done` to `aim` tokens."""
        t, p, last = self.times, self.policy, self.shape[2]
        inside = np.minimum(served + cut, last)
        full = np.maximum(whole - inside, 0)
        attended = self.attended.take(self.sums + whole) - self.attended.take(self.sums + inside)
        attended = np.where(full > 0, attended, 0.0)
        once = np.where(full > 0, self.once.take(self.base + np.minimum(inside, last - 1)), 0.0)
        (begins, after), ends = self._ends(served), self.upto.take(self.sums + whole)
        parts = (
            (cut & some, np.minimum(aim, after) - done, done - begins),
            (some & (aim > ends) & (whole >= inside), aim - ends, np.zeros_like(aim)),
        )
        for mask, new, before in parts:
            if mask.any():
                rest, own = self._attention(new[mask], before[mask] + self.cached)
                attended[mask] += rest
                once[mask] = np.maximum(once[mask], own)
                full = full + mask
        beside = decodes if p.mixes else np.where(some, 0, decodes)
        plain = self._plain((aim - done).astype(np.int64), full, beside)
        return np.asarray(attended + once + plain + self._decoding(t.beside, beside, context))

    def _plain(self, new: Array, chunks: Array, decodes: Count) -> Array:
        """Seconds of a step with so many new tokens of so many prompts and with decodes, but for attention."""
        t, tokens = self.times, np.asarray(decodes) * self.policy.width
        seconds = t.step_s + t.sequence_s * (chunks + decodes) + t.token_s * (new + tokens)
        seconds = seconds + t.products.take(new + tokens, mode="clip") + t.heads.take(chunks + tokens, mode="clip")
        if t.draft is not None:
            seconds = seconds + t.draft.products.take(new, mode="clip") + t.draft.heads.take(chunks, mode="clip")
        return np.asarray(seconds)

    def _alike(self, seconds: Array, some: Array, decodes: Array, following: Array) -> Array:
        """How many steps without prompts are alike: until a request has its last token, or one arrives."""
        alone = (seconds > 0) & ~some.any(axis=1)
        number = np.ones(len(seconds), dtype=np.int64)
        if not alone.any():
            return number
        arrives = np.ceil((following.min(axis=1)[alone] - self.clock[alone]) / seconds[alone] - 1e-9)
        most = np.full(len(arrives), 1 + sum(AHEAD))
        left, since, wide = np.flatnonzero(alone), 1, self.ended.shape[3]
        for several in AHEAD:
            place = (self.decoded[left][:, :, np.newaxis] + np.arange(since, since + several)) % wide
            ends = self.ended[0].take(self.rows[left][:, :, np.newaxis] * wide + place).any(axis=1)
            there = ends.any(axis=1)
            of = np.searchsorted(np.flatnonzero(alone), left)
            most[of[there]] = since + ends[there].argmax(axis=1)
            left, since = left[~there & (arrives[of] >= since + several)], since + several
            if not left.size:
                break
        number[alone] = np.maximum(np.minimum(np.minimum(most, arrives), sum(AHEAD)), 1).astype(np.int64)
        return number

    def _decode(self, number: Array, decodes: Array) -> Array:
        """Advance the decodes of each rank by a number of steps; requests that have their last token leave. Returns how
        many."""
        self.decoded = self.decoded + number
        self.tokens = self.tokens + number * self.growing
        self.history.append((self.clock, self.decoded))
        place = self.decoded % self.ended.shape[3]
        ended = self.ended[0].take(self.rows * self.ended.shape[3] + place)
        answered = np.where(number > 0, ended, 0.0).astype(np.int64)
        if answered.any():
            i, j = np.nonzero(answered)
            at = i, j, place[i, j]
            decodes[i, j] -= answered[i, j]
            for n, total in enumerate((self.tokens, self.growing, self.reserved), 1):
                total[i, j] -= self.ended[(n, *at)]
            self.ended[(slice(None), *at)] = 0.0
        return answered

    def _generated(self, served: Array, whole: Array, decodes: Array) -> Array:
        """Let requests whose prompt is computed decode. Returns how many are answered, with one token."""
        i, j, place = _each(whole - served, served)
        steps = self.steps[i, j, place].astype(np.int64)
        self.first[i, j, place] = self.clock[i]
        self.ends[i, j, place] = self.decoded[i, j] + steps
        answered, more = np.zeros_like(decodes), steps > 0
        np.add.at(answered, (i[~more], j[~more]), 1)
        i, j, place, steps = i[more], j[more], place[more], steps[more]
        tokens, growth, kept = (v[i, j, place] for v in (self.input, self.growth, self.taken))
        self._joined(decodes, i, j, steps, tokens, growth, kept)
        return answered

    def _joined(
        self, decodes: Array, i: Array, j: Array, left: Array, tokens: Array, growth: Array, kept: Array
    ) -> None:
        """Let requests of these replications and ranks decode, with so many steps left."""
        ends = (self.decoded[i, j] + left) % self.ended.shape[3]
        np.add.at(decodes, (i, j), 1)
        for total, value in ((self.tokens, tokens), (self.growing, growth), (self.reserved, kept)):
            np.add.at(total, (i, j), value)
        for n, value in enumerate((1.0, tokens + growth * left, growth, kept)):
            np.add.at(self.ended[n], (i, j, ends), value)

    def _send(self, answered: Array, known: Array) -> None:
        """Let users whose request is answered send their next one, which the scheduler sees after its own delay."""
        number = self.shape[2]
        i, j, place = _each(np.minimum(answered, number - self.sent), self.sent)
        self.ready[i, j, place] = self.clock[i] + self.late[i, j, place]
        self.sent = np.minimum(self.sent + answered, number)
        i, j = np.nonzero(answered)
        wide = int((self.sent[i, j] - known[i, j]).max(initial=0))
        if wide < 2:
            return
        i, j, since = (v[:, np.newaxis] for v in (i, j, np.minimum(known[i, j], number - wide)))
        there = since + np.arange(wide)
        when = self.ready[i, j, there]
        moved = (when[:, 1:] < when[:, :-1]).any(axis=1)
        if not moved.any():
            return
        i, j, since, there = i[moved], j[moved], since[moved], there[moved]  # whoever is seen sooner goes first
        order = np.argsort(when[moved], axis=1, kind="stable")
        self.slots[:, i, j, there] = self.slots[:, i, j, since + order]
        for sums, each in ((self.upto, self.fresh), (self.attended, self.each), (self.held, self.taken)):
            sums[i, j, there + 1] = sums[i, j, since] + np.cumsum(each[i, j, there], axis=1)
        row = self.rows[i, j]
        at = row * (number + 1) + there + 1
        self.line[at] = self.upto[i, j, there + 1] + self.apart * row
        self.places[at] = self.held[i, j, there + 1] + self.most * row

    # -- what they saw -----------------------------------------------------------------------------------------------
    def seen(self, since: Array, these: Window | None = None) -> RequestTimes:
        """What requests saw that were answered after a time, in seconds, or `these` of each rank in the order in which
        they were sent. Decode steps that these have left take as long as those of all until then: without the longest
        answers, means would be too small."""
        rows = self.rows[:, :, np.newaxis]
        begun = np.isfinite(self.first)
        there = begun & (self.ends <= self.decoded[:, :, np.newaxis])
        clocks, decoded = (np.stack(each) for each in zip(*self.history, strict=True))
        wide = int(decoded[-1].max()) + 1
        line = (decoded.reshape(len(decoded), -1) + wide * self.rows.reshape(-1)).T.reshape(-1)
        passes = np.searchsorted(line, np.where(there, self.ends, 0) + wide * rows) - len(decoded) * rows
        last = clocks[np.minimum(passes, len(clocks) - 1), np.arange(len(clocks[0]))[:, np.newaxis, np.newaxis]]
        last = np.where(self.steps > 0, last, self.first)
        round_s = lone_s = 0.0
        if these is None:
            since, until = (v[:, np.newaxis, np.newaxis] for v in (since, self.until))
            there &= (last > since) & (last <= until)
        else:
            place = np.arange(self.shape[2]) - these.start[:, np.newaxis, np.newaxis]
            counted = begun & (place >= 0) & (place < these.number)
            left = np.where(counted & ~there, self.ends - self.decoded[:, :, np.newaxis], 0)
            last = np.where(left > 0, self.clock[:, np.newaxis, np.newaxis], last)
            step_s = (last[counted] - self.first[counted]).sum() / max((self.steps - left)[counted].sum(), 1)
            last, there = last + left * step_s, counted
            round_s = self._between(these)
            lone_s = sum(float(s.mean()) for s in (self.late, *self._alone(np.ones_like(begun))))
        late, first, ready, last, output = (v[there] for v in (self.late, self.first, self.ready, last, self.output))
        alone = self._alone(there)
        return RequestTimes(late, first - ready, last - first, output, *alone, round_s, lone_s)

    def _between(self, these: Window) -> float:
        """Mean seconds from one request of a rank to the next one, while `these` have their first token.

        The tokens and the attention of prompts and the decode steps meanwhile are control variates of known expectation
        (Law, §11.4): what a rank does is what all its requests take, but for those that are halfway at either end. One
        whose mean is further from it than replications are from each other says nothing: none of `these` may have it.
        """
        ends = these.start[:, np.newaxis, np.newaxis] - 1 + np.array([0, these.number])
        ends, starts = np.broadcast_to(ends, (*self.shape[:2], 2)), self.ends - self.steps
        since, until = np.split(np.take_along_axis(starts, ends, axis=2), 2, axis=2)
        begun = np.isfinite(self.first)
        decoded = np.where(begun, np.clip(np.minimum(self.ends, until) - np.maximum(starts, since), 0, None), 0).sum(2)
        if self.underway is not None:
            decoded = decoded + np.clip(np.minimum(self.underway.left, until) - since, 0, None).sum(axis=2)
        prompts, attention, seconds = (
            np.diff(np.take_along_axis(v, ends + more, axis=2), axis=2).mean(axis=(1, 2))
            for v, more in ((self.upto, 1), (self.attended, 1), (self.first, 0))
        )
        known = ((prompts, self.fresh), (attention, self.each), (decoded.mean(axis=1), self.steps))
        apart = [(done - these.number * each.mean()) / max(each.mean(), 1e-300) for done, each in known]
        told = [each for each in apart if abs(each.mean()) <= each.std()]
        solved, *_ = np.linalg.lstsq(np.stack([np.ones(len(seconds)), *told], axis=1), seconds, rcond=None)
        return float(solved[0]) / these.number

    def _alone(self, these: Array) -> tuple[Array, Array]:
        """Seconds until the first token, and from there to the last, of requests that nobody else is beside."""
        t, fresh, steps = self.times, self.fresh[these], self.steps[these]
        first, done = np.full(len(fresh), self.encode_s), np.zeros(len(fresh))
        left = np.arange(len(fresh))
        while left.size:
            new = np.minimum(fresh[left] - done[left], self.policy.tokens)
            rest, once = self._attention(new, self.cached + done[left])
            first[left] += rest + once + self._plain(new.astype(np.int64), np.ones(len(new), dtype=np.int64), 0)
            done[left] += new
            left = left[done[left] < fresh[left]]
        context = self.input[these] + (steps - 1) / 2 * self.growth[these]
        return first, steps * self._decoding(t.alone, np.ones(len(fresh), dtype=np.int64), context)


def _summed(values: Array) -> Array:
    """Sums of the first 0, 1, … values along the last axis."""
    return np.concatenate([np.zeros((*values.shape[:2], 1)), np.cumsum(values, axis=2)], axis=2)


def _lined(sums: Array, apart: float) -> Array:
    """All ranks' sums in one sorted line, each rank's `apart` from the next."""
    rows = np.arange(sums.shape[0] * sums.shape[1]).reshape(*sums.shape[:2], 1)
    return np.asarray((sums + apart * rows).reshape(-1))


def taken_of(room: Room, policy: Policy, input: Array, output: Array) -> Array:
    """Share of memory for which there has to be room when a request starts."""
    if policy.reserves:
        return _held(room, input + output)
    ahead = policy.expects * np.minimum(np.maximum(output - 2, 0), CLIPPED)
    return _held(room, input + 1 + (ahead > 0) * ahead / max(policy.expects, 1e-9))


def _held(room: Room, tokens: Array) -> Array:
    """`Room.held` of many sequences."""
    return (
        np.asarray(
            room.each + room.token * np.minimum(tokens, room.full) + room.later * np.maximum(tokens - room.full, 0.0)
        )
        if room.later or np.isfinite(room.full)
        else np.asarray(room.each + room.token * tokens)
    )


def _each(number: Array, since: Array) -> tuple[Array, Array, Array]:
    """Indices of `number` consecutive requests of each rank, from `since` on."""
    i, j = np.nonzero(number)
    many = number[i, j]
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    return np.repeat(i, many), np.repeat(j, many), np.repeat(since[i, j], many) + within


@dataclass(frozen=True)
class RequestTimes:
    """What requests saw, in seconds: `late` until the scheduler saw them, `first` from then to the first token, `after`
    from the first token to the last of `output`; `first_alone`, `after_alone`: what they would have seen alone.
    `between`: from one request of a rank to its next one, in a closed loop that is random, and `lone`: of a request
    that is alone, as a mean of all that were drawn, whose work `between` is of; else 0."""

    late: Array
    first: Array
    after: Array
    output: Array
    first_alone: Array
    after_alone: Array
    between: float
    lone: float


def neighbouring_users(users: float, ranks: int, every: bool) -> tuple[int, int]:
    """The numbers of users, next to this one, with which a group of ranks is followed: as many on each rank, or one on
    some ranks. `every`: all such numbers, else four in each octave from eight on."""
    unit = 1 if users < ranks else ranks
    number = users / unit
    apart = 1 if every or number < 8 else 2 ** (int(np.log2(number)) - 2)
    low = int(number // apart) * apart
    return low * unit, min(low + apart, ranks if unit < ranks else low + apart) * unit


# -- loads -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RankGroup:
    """A group of ranks of a server: its step times, scheduler, requests, and how it is among the others.

    `input`, `output`: mean tokens; `spread`: coefficients of variation; `longest`: tokens of the longest request.
    `late`: seconds until the scheduler sees a prompt of 0 and of 1 token. `draft`: acceptance and length of drafts.
    `room`: memory of a rank, None where it always has some. `certain`: all requests are alike.
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
    room: Room | None = None
    certain: bool = False

    @property
    def counted(self) -> float:
        """Requests that count in all replications."""
        return COUNTED * min(1.0, BRIEF / self.output)

    def drawn(self, random: np.random.Generator, shape: tuple[int, int, int], ready: Array) -> Drawn:
        """Requests that the scheduler sees at these times."""
        room = self.longest / (self.input + self.output)
        new, out = (
            drawn_lengths(each, mean, cv, int(mean * room), shape)
            for each, mean, cv in zip(random.spawn(2), (self.input, self.output), self.spread, strict=True)
        )
        if self.room is not None:
            large = np.nonzero(_held(self.room, new + out) > 1)  # a server refuses these
            others = random.permutation(np.flatnonzero(_held(self.room, new + out) <= 1))
            instead = np.resize(others, len(large[0]))
            new[large], out[large] = new.reshape(-1)[instead], out.reshape(-1)[instead]
        steps = np.maximum(out - 1, 0).astype(np.int64)
        if self.draft is not None:
            for tokens in np.unique(steps[steps > 0]):
                mine = steps == tokens
                each = step_quantiles(*self.draft, int(tokens))
                steps[mine] = random.permutation(np.resize(random.permutation(each), int(mine.sum())))
        return Drawn(new, out, steps, self.late[0] + (self.late[1] - self.late[0]) * new, ready)

    def of_users(self, users: int, round_s: float, decoding: float) -> RequestTimes:
        """A closed loop of `users` in all ranks, of whom `decoding` on each rank decode at the start, in the middle of
        their answers; the others send within the rest of a round of `round_s` seconds, in turn or at random. Where
        lengths do not vary, all send within a round.

        With fewer users than ranks, some ranks have none. Requests that are alike are followed once, since nothing is
        random.
        """
        ranks = min(self.ranks, users)
        each = users // ranks
        rounds = ROUNDS if self.policy.mixes else ROUNDS_APART
        if not any(self.spread):
            rounds = ROUNDS_CERTAIN if self.certain else ROUNDS_ALIKE
        warm, counted = (ceil(number * each) for number in rounds)
        if not self.certain:
            counted = min(counted, ceil(self.counted / REPLICATIONS))
        counted = max(LEAST_COUNTED, counted)
        replications = 1 if self.certain else max(REPLICATIONS, 2 ** round(np.log2(self.counted / (counted * ranks))))
        shape = (replications, ranks, ceil(SPARE * (warm + counted + each)) + max(16, each))
        random, ready = np.random.default_rng(SEED + 1), np.full(shape, np.inf)
        turn, underway = np.arange(users).reshape(each, ranks).T / users, None
        if not self.certain:
            turn = np.sort(random.random((replications, ranks, each)), axis=2)
        ready[:, :, :each] = turn * round_s
        requests = self.drawn(np.random.default_rng(SEED), shape, ready)
        if any(self.spread):
            mine = np.floor(min(decoding, self.policy.running) + random.random((replications, ranks))).astype(int)
            sent = each - np.minimum(mine, min(self.policy.running, each))[:, :, np.newaxis]
            ready[:, :, :each] = np.where(np.arange(each) < sent, turn * sent / each * round_s, np.inf)
            underway = self._underway(random, requests, each - sent[:, :, 0])
        since, until = (np.full(replications, number / each * round_s) for number in (warm, warm + counted))
        if self.certain:
            return self._seen(requests, since, until)
        phase = random.permutation(each * np.arange(replications) // replications)  # users may stay together
        return self._seen(requests, since, np.full(replications, np.inf), underway, Window(warm + phase, counted))

    def _underway(self, random: np.random.Generator, requests: Drawn, number: Array) -> Underway:
        """So many requests of each rank at a random step of their answers: long ones are met more often."""
        steps = requests.steps.reshape(-1)
        shape = (*number.shape, max(1, int(number.max())))
        if not steps.any():
            return Underway(np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64), np.zeros(shape))
        many = int(np.prod(shape))
        share = random.permutation((np.arange(many) + random.random(many)) / many)
        upto = np.cumsum(steps)
        of = np.minimum(np.searchsorted(upto, share * upto[-1], "right"), len(steps) - 1).reshape(shape)
        left = 1 + (random.random(shape) * steps[of]).astype(np.int64)
        new, out = (v.reshape(-1)[of] for v in (requests.input, requests.output))
        growth = np.maximum(out - 1, 0) / np.maximum(steps[of], 1)
        left = np.where(np.arange(shape[2]) < number[:, :, np.newaxis], left, 0)
        taken = 0 * new if self.room is None else taken_of(self.room, self.policy, new, out)
        return Underway(new + growth * (steps[of] - left), growth, left, taken)

    def at_rate(self, rate: float, load: float, present: float) -> RequestTimes:
        """An open loop of `rate` requests per second over all groups; `load`: its share of the most they take.
        `present`: about how many are in flight in a rank."""
        fewest = FEWEST // min(self.ranks, FEW)
        warm = int(min(MOST_WARM, fewest / 4 + 8 / (1 - min(load, 0.95)) ** 2) + PRESENT * min(present, MOST_WARM))
        counted = max(fewest, warm)
        replications = max(
            2, ceil(self.counted * min(max(BUSIER / (1 - load), 1.0), MOST_MORE) / (counted * self.ranks))
        )
        number = warm + counted + max(16, counted // 4)
        random, shape = np.random.default_rng(SEED), (replications, self.ranks, number)
        ready = arrival_times(random, rate, shape, self.groups, self.apart)  # late by whatever, arrivals stay at random
        return self._seen(self.drawn(random, shape, ready), ready[:, 0, warm], ready[:, 0, warm + counted])

    def _seen(
        self, requests: Drawn, since: Array, until: Array, underway: Underway | None = None,
        these: Window | None = None,
    ) -> RequestTimes:  # fmt: skip
        run = Replications(self.times, self.policy, requests, self.cached, self.encode_s, self.room, underway)
        run.run(until, None if these is None else these.start + these.number)
        return run.seen(since, these)
