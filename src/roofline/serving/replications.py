"""A server of short answers, followed step by step in many independent replications at once.

Which prompts share a step with the few tokens of a short answer depends on the steps before it, so means over steps
are not enough. This module applies the scheduler's own rules step by step, the rules and step times of `simulate`. Each
element of an array is one replication, so NumPy advances all of them in one pass (independent replications: Law,
Simulation Modeling and Analysis, §9.5). Prompts are served in order of arrival, so one number per rank, the tokens
computed so far, says how far its prompts are. All servers and loads use the same random numbers, and lengths are a
stratified sample. A closed loop starts in the middle of answers, and its rate follows from the work done, so short runs
are enough.

Axes: replications, ranks that run every step together, requests in the order in which the scheduler sees them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
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
COUNTED, FEWEST, MOST_WARM = 16_384, 48, 512
"""Requests counted over all replications; the fewest counted on each rank; the most warm-up requests that a rank gets
because the server is busy."""
WIDE = 80
"""Number of ranks, over all replications, at which advancing one step takes twice as long as with a single rank."""
BRIEF = 16
"""Longest answer, in tokens, for which `COUNTED` requests count; for longer ones fewer do, in proportion, since each
takes more steps."""
BUSIER, MOST_MORE = 0.4, 4.0
"""Share of idle time below which more requests are counted, in proportion, and the largest factor."""
PRESENT = 3
"""Warm-up requests for each request in flight."""
FEW = 4
"""Number of ranks that run every step together beyond which the requests of each are no longer reduced."""
ROUNDS, ROUNDS_APART, ROUNDS_CERTAIN, ROUNDS_ALIKE = (2, 2), (5, 4), (5, 10), (10, 3)
"""Warm-up requests and counted requests of each user of a closed loop: in general; where prompts run in steps of their
own, which keeps users in step for longer; where nothing is random; and where only drafts are random, so that all users
send at the start."""
REPLICATIONS, STRATA = 64, 512
"""Fewest replications of a closed loop, and fewest lengths in a stratified sample."""
LEAST_COUNTED, SPARE = 32, 1.3
"""Fewest counted requests of a rank, and the factor by which more requests are drawn than expected, since they may be
answered sooner."""
BLOCK, AHEAD = 8, 64
"""Arrivals examined at a time, and steps searched at a time for the next last token."""
MOST_ALIKE, FAR = 288, 2**62
"""Most steps without prompts that are taken at once, and the number of a step that never comes."""
MOST_STEPS, MOST_AT_ONCE = 40_000, 2**19
"""Most steps of a run, and most requests of the loads that are followed together."""


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
        """Seconds of attention of a chunk that is alone in its step."""
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
    """Requests of all ranks.

    `input`, `output`: tokens of prompts and answers. `steps`: decode steps after the first token. `late`: seconds from
    sending a request until the scheduler sees it. `ready`: when it sees it; infinite for a request that is sent only
    when another is answered.
    """

    input: Array
    output: Array
    steps: Array
    late: Array
    ready: Array


_about = lru_cache(256)(about)


def drawn_lengths(random: np.random.Generator, mean: int, cv: float, most: int, shape: tuple[int, ...]) -> Array:
    """Lengths drawn about a mean, in random order.

    The lengths at one place, or at some consecutive places, of all replications are a stratified sample. So they have
    the mean of the law whichever places count (McKay, Beckman and Conover 1979).
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
    """Times of Poisson arrivals, `rate` per second in all, which are dealt out to `groups` in turn.

    The ranks are `apart` groups from each other. The gap between every n-th Poisson arrival has a gamma distribution.
    """
    replications, ranks, number = shape
    gaps = random.standard_gamma(float(apart), (replications, number, ranks))
    gaps[:, :, 0] = random.standard_gamma(float(max(1, groups - (ranks - 1) * apart)), (replications, number))
    times = np.cumsum(gaps.reshape(replications, -1), axis=1) / rate
    return np.asarray(times.reshape(replications, number, ranks).swapaxes(1, 2))


@dataclass(frozen=True)
class Window:
    """The requests of each rank that count: in each replication `number` of them, from the `start`-th on."""

    start: Array
    number: int


@dataclass(frozen=True)
class Underway:
    """Requests of each rank that are already decoding when a replication begins.

    `tokens`: tokens in their caches, to which a decode step adds `growth`. `left`: remaining steps, 0 where there is no
    request. `reserved`: share of memory that the engine keeps for them.
    """

    tokens: Array
    growth: Array
    left: Array
    reserved: Array


@dataclass(frozen=True)
class FollowedLoad:
    """A load in independent replications.

    `underway`: requests that are already decoding at the start. Requests count if they are answered after `since` and
    up to `until`, in seconds of each replication, or if they are among `these` of a rank, in the order of sending.
    """

    requests: Drawn
    since: Array
    until: Array
    underway: Underway | None = None
    these: Window | None = None


# -- the scheduler ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StepSeconds:
    """Seconds of the steps of a rank. `cached`: tokens of a prompt in the prefix cache."""

    times: StepArrays
    width: int
    cached: float

    def attention(self, new: Array, cached: Array) -> tuple[Array, Array]:
        """Seconds of attention of each chunk: the part that every chunk takes, and the part that a step takes once."""
        seconds, t = self.times.attending(new, cached), self.times
        rest, once = np.maximum(seconds - t.shared, 0.0), np.minimum(seconds, t.shared)
        if t.draft is not None:
            seconds = t.draft.attending(new, cached)
            rest, once = rest + np.maximum(seconds - t.draft.shared, 0.0), once + np.minimum(seconds, t.draft.shared)
        return rest, once

    def plain(self, new: Array, chunks: Array, decodes: Count) -> Array:
        """Seconds of a step without its attention: `new` prompt tokens in `chunks` chunks beside `decodes` decodes."""
        t, tokens = self.times, np.asarray(decodes) * self.width
        seconds = t.step_s + t.sequence_s * (chunks + decodes) + t.token_s * (new + tokens)
        seconds = seconds + t.products.take(new + tokens, mode="clip") + t.heads.take(chunks + tokens, mode="clip")
        if t.draft is not None:
            seconds = seconds + t.draft.products.take(new, mode="clip") + t.draft.heads.take(chunks, mode="clip")
        return np.asarray(seconds)

    def decoding(self, table: Array, decodes: Array, context: tuple[Array, Array]) -> Array:
        """Seconds of `decodes` decodes by a table of `StepArrays`. `context`: the position of their mean context."""
        j, part = context
        at = decodes * table.shape[1] + j
        low = table.take(at)
        return np.asarray(low + part * (table.take(at + 1) - low))

    def placed(self, context: Array) -> tuple[Array, Array]:
        """The position of a context in the tables."""
        return _place(self.times.contexts, context)


@dataclass(eq=False)
class Replications:
    """The state of all replications of several loads of a server; the replications of one load follow those of another.

    `cached`: tokens of a prompt in the prefix cache. `encode_s`: seconds to encode the images of a prompt. `room`:
    memory of a rank, None where it always suffices. While memory is full no request starts; running requests continue,
    and none is preempted.

    Arrays over ranks have the ranks of all replications on one axis, and arrays over requests the requests of all
    ranks. `sent`: requests that each rank was sent. `tokens`: tokens in the caches of its decodes, to which a step adds
    `growing`. `reserved`: share of memory that an engine keeps for them.
    `first`: when each request gets its first token. `ends`: the decode step of its rank in which it gets its last one.
    `ended`: for each future decode step, sums over the requests that end in it: their number, and their parts of
    `tokens`, `growing` and `reserved`. `leaving`: the first such step.
    """

    times: StepArrays
    policy: Policy
    samples: Sequence[FollowedLoad]
    cached: float = 0.0
    encode_s: float = 0.0
    room: Room | None = None

    def __post_init__(self) -> None:
        shapes = [s.requests.input.shape for s in self.samples]
        self.pace = StepSeconds(self.times, self.policy.width, self.cached)
        self.begins = np.cumsum([0, *(replications for replications, _, _ in shapes)])
        self.shape = replications, ranks, number = (
            int(self.begins[-1]), shapes[0][1], max(n for _, _, n in shapes) + BLOCK
        )  # fmt: skip
        self.numbers = np.repeat([n for _, _, n in shapes], [many * ranks for many, _, _ in shapes])
        names = ("ready", "input", "output", "steps", "late")
        slots = np.zeros((10, replications, ranks, number))
        for values, name in zip(slots, names, strict=False):
            for sample, since, until in zip(self.samples, self.begins[:-1], self.begins[1:], strict=True):
                given = getattr(sample.requests, name)
                values[since:until, :, : given.shape[2]] = given
                values[since:until, :, given.shape[2] :] = np.inf if name == "ready" else given[:, :, -1:]
        ready, input, output, steps, _, growth, fresh, each, once, taken = slots
        self.closed = any(np.isinf(s.requests.ready).any() for s in self.samples)
        self.sent = np.isfinite(ready).sum(axis=2).reshape(-1)
        fresh[:] = np.maximum(input - self.cached, 1.0)
        each[:], once[:] = self.pace.attention(fresh, self.cached + 0 * fresh)
        if self.room is not None:
            taken[:] = taken_of(self.room, self.policy, input, output)
        growth[:] = np.maximum(output - 1, 0) / np.maximum(steps, 1)
        sums = [_summed(v) for v in (fresh, each, taken)]
        self.slots = slots.reshape(10, -1)
        (
            self.ready, self.input, self.output, self.steps, self.late, self.growth, self.fresh, self.each, self.once,
            self.taken,
        ) = self.slots  # fmt: skip
        self.upto, self.attended, self.held = (v.reshape(-1) for v in sums)
        self.rows = np.arange(replications * ranks)
        self.of = self.rows // ranks
        self.base, self.sums = self.rows * number, self.rows * (number + 1)
        self.apart, self.most = 2 * float(self.upto.max()) + 1e6, 2 * float(self.held.max()) + 1e3
        self.lines = self.apart * self.rows
        self.line, self.places = (
            (s + apart * self.rows.reshape(replications, ranks, 1)).reshape(-1)
            for s, apart in ((sums[0], self.apart), (sums[2], self.most))
        )
        self.first, self.ends = np.full(len(self.ready), np.inf), np.zeros(len(self.ready), dtype=np.int64)
        self.clock = np.zeros(replications)
        self.until = np.concatenate([s.until for s in self.samples])
        self.goal = np.repeat(
            [np.inf if s.these is None else 0.0 for s in self.samples], [m * ranks for m, *_ in shapes]
        )
        underway = [s.underway for s in self.samples]
        longest = max([int(steps.max()), *(int(u.left.max(initial=0)) for u in underway if u is not None)])
        self.wide = longest + 2
        self.ended = np.zeros((4, replications * ranks * self.wide))
        self.leaving = np.full(replications * ranks, FAR)
        self.decoded, self.decodes = np.zeros((2, replications * ranks), dtype=np.int64)
        self.tokens, self.growing, self.reserved = np.zeros((3, replications * ranks))
        for sample, since, until in zip(self.samples, self.begins[:-1], self.begins[1:], strict=True):
            if sample.these is not None:
                goal = sample.these.start + sample.these.number
                self.goal[since * ranks : until * ranks] = np.repeat(goal, ranks)
            if (u := sample.underway) is not None:
                i, j, k = np.nonzero(u.left)
                left, tokens, grows, kept = (v[i, j, k] for v in (u.left, u.tokens, u.growth, u.reserved))
                self._join((since + i) * ranks + j, left, tokens, grows, kept)
        self.history: list[tuple[Array, Array]] = []

    def run(self) -> None:
        """Run each load until its end.

        A load ends at its time in seconds, when enough requests of each rank have their first token, when a closed loop
        has no more requests to send, or after `MOST_STEPS` steps.
        """
        p, of, (replications, ranks, _) = self.policy, self.of, self.shape
        zero = np.zeros(replications * ranks, dtype=np.int64)
        nothing, one = zero.astype(bool), np.ones(replications, dtype=np.int64)
        scheduled, done = np.zeros(replications), np.zeros(replications * ranks)
        served, known, begun, decodes = zero, zero, zero, self.decodes
        waited, over = np.zeros(replications, dtype=np.int64), np.zeros(len(self.samples), dtype=bool)
        for _ in range(MOST_STEPS):
            cut = done > self.upto.take(self.sums + served)
            running = (decodes > 0) | cut
            following = self.ready.take(self.base + known)
            nobody = ~self._any(running | (known > begun))
            if nobody.any():
                arrival = self._least(following)
                moves = nobody & (arrival > self.clock) & np.isfinite(arrival)
                self.clock, scheduled = (np.where(moves, arrival, t) for t in (self.clock, scheduled))
            known, following = self._seen_by(scheduled, known)
            starts = ~running & (known <= begun) & (following <= self.clock.take(of))
            if starts.any():
                known = known + starts  # an idle rank takes any request that is there, however late
                following = self.ready.take(self.base + known)
            some, whole, waits = nothing, served, None
            context = self.tokens / np.maximum(decodes, 1)
            placed = self.pace.placed(context)
            seconds = self.pace.decoding(self.times.alone, decodes, placed)
            if cut.any() or (known > begun).any():
                aim, whole, some = self._chosen(done, served, begun, known, cut, decodes, context)
                if p.balanced and ranks > 1 and some.any():
                    waits = self._waiting(some, decodes, known > begun, waited)
                    waited = np.where(self._any(some) & ~waits, 0, waited)
                    stay = waits.take(of)
                    aim, whole, some = np.where(stay, done, aim), np.where(stay, served, whole), some & ~stay
                if some.any():
                    mixed = self._seconds(some, done, aim, served, whole, cut, decodes, placed)
                    seconds = np.where(some, mixed, seconds)
                now = np.where(some, whole + (aim > self.upto.take(self.sums + whole)), begun)
                if self.encode_s:
                    seconds = seconds + self.encode_s * np.maximum(now - begun, 0)
                begun, done = np.maximum(begun, now), aim
            longest = self._most(seconds)
            times = self._alike(longest, some, following, one)
            if waits is not None:
                times = np.where(waits, np.minimum(times, p.balanced - waited), times)
                waited = np.where(waits, waited + times, waited)
            last = longest
            if int(times.max()) > 1:  # contexts grow, and steps with them
                later = context + (times.take(of) - 1) / 2 * self.growing / np.maximum(decodes, 1)
                slower = self._most(self.pace.decoding(self.times.alone, decodes, self.pace.placed(later)))
                longest = np.where(times > 1, slower, longest)
                last = 2 * longest - last
            self.clock = self.clock + times * longest
            scheduled = np.where(longest > 0, self.clock - last if p.ahead else self.clock, scheduled)
            number = times.take(of) * (decodes > 0)
            answered = self._decode(number if p.mixes else np.where(some, 0, number), decodes)
            if whole is not served:
                answered = answered + self._generated(served, whole)
                served = whole
            if self.closed and answered.any():
                self._send(answered, known)
                ends = self._any(self.sent >= self.numbers)
                self.until = np.where(ends, np.minimum(self.until, self.clock), self.until)
            enough = np.where(np.isinf(self.goal), (self.clock >= self.until).take(of), served >= self.goal)
            ends = np.logical_and.reduceat(enough, self.begins[:-1] * ranks)
            if ends.all():
                return
            if (ends & ~over).any():  # loads that are over stand still while others are followed
                over = ends
                still = np.repeat(over, np.diff(self.begins) * ranks)
                decodes[still], self.leaving[still] = 0, FAR
                served, known, begun = (np.where(still, self.numbers, n) for n in (served, known, begun))
                done = np.where(still, self.upto.take(self.sums + self.numbers), done)

    def _any(self, ranks: Array) -> Array:
        """Whether a condition holds on any rank of each replication."""
        return ranks if self.shape[1] == 1 else np.asarray(ranks.reshape(self.shape[:2]).any(axis=1))

    def _most(self, ranks: Array) -> Array:
        """The largest value of each replication's ranks."""
        return ranks if self.shape[1] == 1 else ranks.reshape(self.shape[:2]).max(axis=1)

    def _least(self, ranks: Array) -> Array:
        """The smallest value of each replication's ranks."""
        return ranks if self.shape[1] == 1 else ranks.reshape(self.shape[:2]).min(axis=1)

    def _waiting(self, some: Array, decodes: Array, waiting: Array, waited: Array) -> Array:
        """Whether the prompts of `some` ranks wait for prompts of the others, as in `simulate.dp_attention.LockStep`.

        They wait while some ranks have no prompts, every rank with requests is decoding, and they have `waited` fewer
        steps than the policy allows.
        """
        decoding = ~self._any((decodes == 0) & (some | waiting))
        return np.asarray(self._any(some) & self._any(~some) & decoding & (waited < self.policy.balanced))

    def _seen_by(self, when: Array, known: Array) -> tuple[Array, Array]:
        """How many requests the scheduler of each rank has seen by a time, and when it will see the next one.

        `known`: requests already known to be seen. The time of the next is infinite where none was sent.
        """
        until = when.take(self.of)
        following = self.ready.take(self.base + known)
        left = np.flatnonzero(following <= until)
        if not left.size:
            return known, following
        known = known.copy()
        while left.size:
            first = self.base[left] + known[left] + 1
            more = (self.ready.take(first[:, np.newaxis] + np.arange(BLOCK - 1)) <= until[left, np.newaxis]).sum(axis=1)
            known[left] += 1 + more
            following[left] = self.ready.take(first + more)
            left = left[(more == BLOCK - 1) & (following[left] <= until[left])]
        return known, following

    def _chosen(
        self, done: Array, served: Array, begun: Array, known: Array, cut: Array, decodes: Array, context: Array
    ) -> tuple[Array, Array, Array]:
        """The prompt tokens up to which each rank's next step computes, how many prompts are then complete, and whether
        the step computes any.

        `known`: requests that the step may start. `cut`: whether a prompt is partly computed.
        """
        p = self.policy
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
        aim = np.maximum(np.minimum(done + budget, self.upto.take(self.sums + most)), done)
        whole = self.line.searchsorted(aim + self.lines, "right") - 1 - self.sums
        if not p.splits:
            end, (before, after) = self.upto.take(self.sums + whole), self._ends(served)
            size = after - before
            split = (whole <= served) & (cut | (size > p.tokens))
            aim = np.where((aim > end) & ~split, np.maximum(end, done), aim)
        some = aim > done
        return aim, np.where(some, whole, served), some

    def _ends(self, served: Array) -> tuple[Array, Array]:
        """Total tokens of the first `served` prompts of each rank, and of those and the next one."""
        at = self.sums + served
        return self.upto.take(at), self.upto.take(at + 1)

    def _seconds(
        self, some: Array, done: Array, aim: Array, served: Array, whole: Array, cut: Array, decodes: Array,
        placed: tuple[Array, Array],
    ) -> Array:  # fmt: skip
        """Seconds of each rank's step that computes its prompts from `done` to `aim` tokens."""
        t, p, pace = self.times, self.policy, self.pace
        inside = served + cut
        full = np.maximum(whole - inside, 0)
        attended = self.attended.take(self.sums + whole) - self.attended.take(self.sums + inside)
        attended = np.where(full > 0, attended, 0.0)
        once = np.where(full > 0, self.once.take(self.base + inside), 0.0)
        (begins, after), ends = self._ends(served), self.upto.take(self.sums + whole)
        parts = (
            (cut & some, np.minimum(aim, after) - done, done - begins),
            (some & (aim > ends) & (whole >= inside), aim - ends, np.zeros_like(aim)),
        )
        for mask, new, before in parts:
            if mask.any():
                rest, own = pace.attention(new[mask], before[mask] + self.cached)
                attended[mask] += rest
                once[mask] = np.maximum(once[mask], own)
                full = full + mask
        beside = decodes if p.mixes else np.where(some, 0, decodes)
        plain = pace.plain((aim - done).astype(np.int64), full, beside)
        return np.asarray(attended + once + plain + pace.decoding(t.beside, beside, placed))

    def _alike(self, seconds: Array, some: Array, following: Array, one: Array) -> Array:
        """How many steps without prompts can be taken at once: until a request gets its last token, or one arrives."""
        alone = (seconds > 0) & ~self._any(some)
        if not alone.any():
            return one
        arrives = np.ceil((self._least(following) - self.clock) / np.where(alone, seconds, 1.0) - 1e-9)
        most = np.minimum(np.minimum(self._least(self.leaving - self.decoded), arrives), MOST_ALIKE)
        return np.asarray(np.where(alone, np.maximum(most, 1.0), 1.0).astype(np.int64))

    def _decode(self, number: Array, decodes: Array) -> Array:
        """Advance the decodes of each rank by `number` steps. Returns how many requests got their last token."""
        self.decoded = self.decoded + number
        self.tokens = self.tokens + number * self.growing
        self.history.append((self.clock, self.decoded))
        answered = np.zeros_like(number)
        r = np.flatnonzero(self.decoded >= self.leaving)
        if r.size:
            at = r * self.wide + self.leaving[r] % self.wide
            many, *left = self.ended[:, at]
            answered[r] = many
            decodes[r] -= answered[r]
            for total, value in zip((self.tokens, self.growing, self.reserved), left, strict=True):
                total[r] -= value
            self.ended[:, at] = 0.0
            self._await(r, decodes)
        return answered

    def _await(self, r: Array, decodes: Array) -> None:
        """Find the next step in which a request of these ranks gets its last token."""
        self.leaving[r] = FAR
        r, since, several = r[decodes[r] > 0], 1, AHEAD
        while r.size:
            place = self.decoded[r, np.newaxis] + np.arange(since, since + several)
            ends = self.ended[0].take(r[:, np.newaxis] * self.wide + place % self.wide) > 0
            step = ends.argmax(axis=1)
            there = ends[np.arange(len(r)), step]
            self.leaving[r[there]] = (self.decoded[r] + since + step)[there]
            r, since, several = r[~there], since + several, 4 * several

    def _generated(self, served: Array, whole: Array) -> Array:
        """Start decoding requests whose prompt is computed. Returns how many that one token already answers."""
        r, at = self._each(whole - served, served)
        steps = self.steps.take(at).astype(np.int64)
        self.first[at] = self.clock.take(self.of.take(r))
        self.ends[at] = self.decoded.take(r) + steps
        answered = np.zeros_like(served)
        if not steps.all():
            more = steps > 0
            np.add.at(answered, r[~more], 1)
            r, at, steps = r[more], at[more], steps[more]
        self._join(r, steps, *(v.take(at) for v in (self.input, self.growth, self.taken)))
        return answered

    def _join(self, r: Array, left: Array, tokens: Array, growth: Array, kept: Array) -> None:
        """Add requests with `left` steps to the decodes of these ranks."""
        ends = self.decoded.take(r) + left
        np.minimum.at(self.leaving, r, ends)
        np.add.at(self.decodes, r, 1)
        for total, value in ((self.tokens, tokens), (self.growing, growth), (self.reserved, kept)):
            np.add.at(total, r, value)
        at = r * self.wide + ends % self.wide
        for total, value in zip(self.ended, (1.0, tokens + growth * left, growth, kept), strict=True):
            np.add.at(total, at, value)

    def _each(self, number: Array, since: Array) -> tuple[Array, Array]:
        """Ranks and indices of `number` consecutive requests of each rank, from request `since` on."""
        r = np.flatnonzero(number)
        many, first = number[r], self.base[r] + since[r]
        if int(many.max(initial=0)) > 1:
            within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
            r, first = np.repeat(r, many), np.repeat(first, many) + within
        return r, first

    def _send(self, answered: Array, known: Array) -> None:
        """Send the next request of each user whose request is answered; the scheduler sees it after its prompt's delay.

        `known`: requests of each rank that the scheduler has seen.
        """
        several = np.minimum(answered, self.numbers - self.sent)
        r, at = self._each(several, self.sent)
        self.ready[at] = self.clock.take(self.of.take(r)) + self.late.take(at)
        self.sent = self.sent + several
        self._order(*self._each(np.where(several > 0, self.sent - known, 0), known))

    def _order(self, r: Array, at: Array) -> None:
        """Sort requests that the scheduler has not seen by when it will see them.

        Long prompts spend longer in the front end, so shorter ones overtake them.
        """
        ready = self.ready.take(at)
        if not ((ready[1:] < ready[:-1]) & (r[1:] == r[:-1])).any():
            return
        order = np.lexsort((ready, r))
        moved = np.flatnonzero(order != np.arange(len(order)))
        self.slots[:, at[moved]] = self.slots[:, at[order[moved]]]
        first = np.flatnonzero(np.diff(r, prepend=-1))
        number = np.diff(first, append=len(r))
        for values, total in ((self.fresh, self.upto), (self.each, self.attended), (self.taken, self.held)):
            each = values.take(at)
            upto = np.cumsum(each)
            before = (upto - each).take(first) - total.take(at.take(first) + r.take(first))
            total[at + r + 1] = upto - np.repeat(before, number)
        self.line[at + r + 1] = self.upto.take(at + r + 1) + self.lines.take(r)
        self.places[at + r + 1] = self.held.take(at + r + 1) + self.most * r

    def seen(self) -> list[RequestTimes]:
        """What the counted requests of each load experienced."""
        clocks, decoded = (np.stack(each) for each in zip(*self.history, strict=True))
        replications, ranks, number = self.shape
        decoded, several = decoded.reshape(-1, replications, ranks), (replications, ranks, -1)
        slots = self.slots.reshape(10, replications, ranks, number)
        values = [v.reshape(several) for v in (self.first, self.ends, self.upto, self.attended)]
        seen = []
        for sample, since, until in zip(self.samples, self.begins[:-1], self.begins[1:], strict=True):
            mine, n = slice(since, until), sample.requests.input.shape[2]
            first, ends, upto, attended = (v[mine, :, : n + (k > 1)] for k, v in enumerate(values))
            requests = slots[:, mine, :, :n], first, ends, upto, attended
            after = self.clock[mine], self.until[mine], clocks[:, mine], decoded[:, mine]
            followed = Followed(sample, self.pace, self.policy.tokens, self.encode_s, *requests, *after)
            seen.append(followed.seen())
        return seen


# -- what they saw ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Followed:
    """What happened to the requests of a load.

    `tokens`: most new tokens of a step. `slots`: the figures of each request, as drawn. `first`, `ends`: as in
    `Replications`. `upto`, `attended`: running sums of the tokens of prompts and of the seconds of their attention.
    `clock`: seconds at the end of each replication. `until`: seconds up to which requests count. `clocks`, `decoded`:
    seconds of each replication and decode steps of each rank after each step.
    """

    sample: FollowedLoad
    pace: StepSeconds
    tokens: int
    encode_s: float
    slots: Array
    first: Array
    ends: Array
    upto: Array
    attended: Array
    clock: Array
    until: Array
    clocks: Array
    decoded: Array

    def seen(self) -> RequestTimes:
        """What the counted requests experienced.

        At a rate, means are over requests that get their last token while requests are counted. Percentiles of
        latencies need the longest answers, which a short run does not see to their end. So they are over all requests
        that get their first token in that time.
        """
        these, (ready, _, output, _, late, *_) = self.sample.these, self.slots
        ended, last = self._last
        if these is None:
            there, some = ended & self._in_time(last), self._in_time(self.first)
        else:
            place = np.arange(ready.shape[2]) - these.start[:, np.newaxis, np.newaxis]
            there = some = np.isfinite(self.first) & (place >= 0) & (place < these.number)
        whole = self._whole(some)
        latency = (late + whole - ready)[some]
        if these is not None:
            last = whole
        late, first, ready, last, output = (v[there] for v in (late, self.first, ready, last, output))
        seen = RequestTimes(late, first - ready, last - first, output, latency, *self._alone(there))
        if these is None:
            return seen
        lone_s = sum(float(s.mean()) for s in (self.slots[4], *self._alone(np.ones_like(there))))
        return replace(seen, between=self._between(these), lone=lone_s)

    def _in_time(self, seconds: Array) -> Array:
        """Whether something happens while requests are counted."""
        since, until = (v[:, np.newaxis, np.newaxis] for v in (self.sample.since, self.until))
        return np.asarray((seconds > since) & (seconds <= until))

    @cached_property
    def _last(self) -> tuple[Array, Array]:
        """Whether each request got its last token, and when; for the others the time at the end of the run."""
        steps, decoded = self.slots[3], self.decoded[-1][:, :, np.newaxis]
        ended = np.isfinite(self.first) & (self.ends <= decoded)
        wide, number = int(decoded.max()) + 1, len(self.decoded)
        ranks = np.arange(decoded.size)
        line = (self.decoded.reshape(number, -1) + wide * ranks).T.reshape(-1)
        offsets = ranks.reshape(decoded.shape)
        passes = np.searchsorted(line, np.where(ended, self.ends, 0) + wide * offsets) - number * offsets
        rows = np.arange(len(self.clock))[:, np.newaxis, np.newaxis]
        last = np.where(steps > 0, self.clocks[np.minimum(passes, number - 1), rows], self.first)
        return ended, np.where(ended, last, self.clock[:, np.newaxis, np.newaxis])

    def _whole(self, some: Array) -> Array:
        """When requests get their last token. The steps that an unfinished answer still needs are extrapolated.

        Without the longest answers means would be too small.
        """
        ended, last = self._last
        steps = self.slots[3]
        left = np.where(some & ~ended, self.ends - self.decoded[-1][:, :, np.newaxis], 0)
        begun = some & (steps > left)
        once, each = decode_line((steps - left)[begun], last[begun] - self.first[begun])
        return np.asarray(last + left * each + ((left > 0) & (left >= steps)) * once)

    def _between(self, these: Window) -> float:
        """Mean seconds from one request of a rank to the next one, while `these` get their first token.

        The prompt tokens, the attention of prompts and the decode steps of that time are control variates, whose
        expectations are known (Law, §11.4): a rank does the work of its requests, except for those that are halfway at
        either end. A variate is ignored where its mean is further from the expectation than replications are from each
        other, for example where none of `these` have such work.
        """
        *_, fresh, each, _, _ = self.slots
        steps, underway = self.slots[3], self.sample.underway
        ends = these.start[:, np.newaxis, np.newaxis] - 1 + np.array([0, these.number])
        ends, starts = np.broadcast_to(ends, (*self.first.shape[:2], 2)), self.ends - steps
        since, until = np.split(np.take_along_axis(starts, ends, axis=2), 2, axis=2)
        begun = np.isfinite(self.first)
        decoded = np.where(begun, np.clip(np.minimum(self.ends, until) - np.maximum(starts, since), 0, None), 0).sum(2)
        if underway is not None:
            decoded = decoded + np.clip(np.minimum(underway.left, until) - since, 0, None).sum(axis=2)
        prompts, attention = (
            np.diff(np.take_along_axis(v, ends + 1, axis=2), axis=2).mean(axis=(1, 2))
            for v in (self.upto, self.attended)
        )
        seconds = np.diff(self._within_steps(ends), axis=2).mean(axis=(1, 2))
        known = ((prompts, fresh), (attention, each), (decoded.mean(axis=1), steps))
        apart = [(done - these.number * v.mean()) / max(v.mean(), 1e-300) for done, v in known]
        told = [v for v in apart if abs(v.mean()) <= v.std()]
        solved, *_ = np.linalg.lstsq(np.stack([np.ones(len(seconds)), *told], axis=1), seconds, rcond=None)
        return float(solved[0]) / these.number

    def _within_steps(self, these: Array) -> Array:
        """When requests of each rank would get their first token if the prompts of a step ended one after another.

        Many short prompts end in the same step, and whole steps would measure time too coarsely.
        """
        at = np.take_along_axis(self.first, these, axis=2)
        low, high = (
            np.stack([compared(self.first, at[:, :, i : i + 1]).sum(axis=2) for i in range(at.shape[2])], axis=2)
            for compared in (np.less, np.less_equal)
        )  # fmt: skip
        before = np.take_along_axis(self.first, np.maximum(low - 1, 0), axis=2)
        done, since, until = (np.take_along_axis(self.upto, at_, axis=2) for at_ in (these + 1, low, high))
        return np.asarray(before + (at - before) * (done - since) / np.maximum(until - since, 1e-300))

    def _alone(self, these: Array) -> tuple[Array, Array]:
        """Seconds until the first token, and from there to the last, of requests that run alone."""
        _, input, _, steps, _, growth, fresh, *_ = (v[these] for v in self.slots)
        pace, one = self.pace, np.ones(len(fresh), dtype=np.int64)
        first, done = np.full(len(fresh), self.encode_s), np.zeros(len(fresh))
        left = np.arange(len(fresh))
        while left.size:
            new = np.minimum(fresh[left] - done[left], self.tokens)
            rest, once = pace.attention(new, pace.cached + done[left])
            first[left] += rest + once + pace.plain(new.astype(np.int64), one[: len(new)], 0)
            done[left] += new
            left = left[done[left] < fresh[left]]
        context = pace.placed(input + (steps - 1) / 2 * growth)
        return first, steps * pace.decoding(pace.times.alone, one, context)


def decode_line(steps: Array, seconds: Array) -> tuple[float, float]:
    """A line through the `seconds` that answers of so many `steps` took: its value at 0 steps, and seconds per step.

    The first step takes longer, since it waits for the prompts behind the request's own.
    """
    if not steps.size:
        return 0.0, 0.0
    apart = steps - steps.mean()
    mean = float(seconds.sum() / steps.sum())
    each = min(max(float(apart @ seconds) / float(apart @ apart), 0.0), mean) if apart.any() else mean
    return (mean - each) * float(steps.mean()), each


def _summed(values: Array) -> Array:
    """Sums of the first 0, 1, … values along the last axis."""
    return np.concatenate([np.zeros((*values.shape[:2], 1)), np.cumsum(values, axis=2)], axis=2)


def taken_of(room: Room, policy: Policy, input: Array, output: Array) -> Array:
    """Share of memory that has to be free when a request starts."""
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


@dataclass(frozen=True)
class RequestTimes:
    """What requests experienced, in seconds.

    `late`: until the scheduler saw them. `first`: from then to the first token. `after`: from the first token to the
    last of `output`. `first_alone`, `after_alone`: the same for a request that runs alone. `latency`: from sending a
    request to its last token; at a rate, of another sample of requests. `between`: mean time from one request of a rank
    to its next one in a random closed loop, else 0. `lone`: mean time that one of the drawn requests takes alone, else
    0.
    """

    late: Array
    first: Array
    after: Array
    output: Array
    latency: Array
    first_alone: Array
    after_alone: Array
    between: float = 0.0
    lone: float = 0.0


def neighbouring_users(users: float, ranks: int, every: bool) -> tuple[int, int]:
    """The nearest numbers of users, below and above, for which a group of ranks is followed.

    Each rank has as many users, or, below one per rank, some ranks have one. `every`: follow all such numbers; else
    four in each octave from eight on.
    """
    unit = 1 if users < ranks else ranks
    number = users / unit
    apart = 1 if every or number < 8 else 2 ** (int(np.log2(number)) - 2)
    low = int(number // apart) * apart
    return low * unit, min(low + apart, ranks if unit < ranks else low + apart) * unit


# -- loads -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RankGroup:
    """A group of ranks of a server: its step times, its scheduler, its requests, and its place among the other groups.

    `input`, `output`: mean tokens; `spread`: coefficients of variation; `longest`: tokens of the longest request.
    `late`: seconds until the scheduler sees a prompt of 0 and of 1 token. `draft`: acceptance and length of drafts.
    `room`: memory of a rank, None where it always suffices. `certain`: all requests are alike. `groups`: all groups
    that take turns. `ranks`: those of them that run every step together, each `apart` turns from the next.
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
        """Draw the requests that the scheduler sees at the times `ready`."""
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

    def of_users(self, users: int, round_s: float, decoding: float) -> FollowedLoad:
        """A closed loop of `users` users over all ranks.

        At the start `decoding` users of each rank are in the middle of their answers. The others send during the rest
        of a round of `round_s` seconds, in turn or at random. Where lengths do not vary, all send within a round. With
        fewer users than ranks, some ranks have none. Where nothing is random, one replication is followed.
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
            return FollowedLoad(requests, since, until)
        phase = random.permutation(each * np.arange(replications) // replications)  # users may stay in step
        return FollowedLoad(requests, since, np.full(replications, np.inf), underway, Window(warm + phase, counted))

    def _underway(self, random: np.random.Generator, requests: Drawn, number: Array) -> Underway:
        """`number` requests of each rank at a random step of their answers; longer answers are drawn more often."""
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

    def at_rate(self, rate: float, load: float, present: float, decoding: float) -> FollowedLoad:
        """An open loop of `rate` requests per second over all groups.

        `load`: the rate as a share of the highest possible one. `present`: approximate requests in flight on a rank, of
        which `decoding` are decoding; these are there from the start. Arrivals are scaled so that their number over all
        replications is the expected one.
        """
        ranks = self.ranks
        warm = ceil(min(MOST_WARM, FEWEST / 2 + 8 / (1 - min(load, 0.95)) ** 2) + PRESENT * min(present, MOST_WARM))
        total = self.counted * min(max(BUSIER / (1 - load), 1.0), MOST_MORE) / ranks
        replications = ceil(min(total / (FEWEST // min(ranks, FEW)), (WIDE / ranks * total / warm) ** 0.5))
        counted = ceil(total / replications)
        number = warm + counted + ceil(4 * (warm + counted) ** 0.5) + 16
        random, shape = np.random.default_rng(SEED), (replications, ranks, number)
        ready = arrival_times(random, rate, shape, self.groups, self.apart)  # delays keep arrivals random
        apart = self.groups / rate
        ready *= (warm + counted) * apart / ready[:, -1, warm + counted - 1].mean()
        requests = self.drawn(random, shape, ready)
        mine = np.floor(min(decoding, self.policy.running) + random.random(shape[:2])).astype(int)
        underway = self._underway(random, requests, mine)
        since, until = (np.full(replications, number * apart) for number in (warm, warm + counted))
        return FollowedLoad(requests, since, until, underway)

    def followed(self, samples: Iterable[FollowedLoad]) -> list[RequestTimes]:
        """What the requests of several loads experience. Loads are independent; following them together is faster."""
        seen, some, rows, longest = list[RequestTimes](), list[FollowedLoad](), 0, 0
        for sample in samples:
            replications, ranks, number = sample.requests.input.shape
            rows, longest = rows + replications * ranks, max(longest, number)
            if some and (rows * longest > MOST_AT_ONCE or ranks != some[0].requests.input.shape[1]):
                seen += self._seen(some)
                some, rows, longest = [], replications * ranks, number
            some.append(sample)
        return seen + self._seen(some)

    def _seen(self, samples: Sequence[FollowedLoad]) -> list[RequestTimes]:
        run = Replications(self.times, self.policy, samples, self.cached, self.encode_s, self.room)
        run.run()
        return run.seen()
