"""An open-loop replica in closed form: steps of k decodes, with the prompts that arrived since the previous step.

Every request takes `more` decode steps after its prompt, output − 1 without drafts. Arrays: the first axis is that of
the nodes, the numbers of decodes at which step times are tabulated; the other axes are those of the settings.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.bracketing import halved
from roofline.serving.closed_forms.batches import (
    excess,
    normal_excess,
    poisson_shares,
    solved,
    spread_points,
    stationary,
    token_points,
    token_shares,
)
from roofline.serving.closed_forms.disaggregated_queue import fullest_rank, regularity
from roofline.serving.closed_forms.interpolation import interpolated, neighbour, taken
from roofline.serving.closed_forms.mixed_batches import Pieces

NEARLY = 0.9999
"""Load at which a queue that would grow without bound is cut off."""
EXACT, SPACED = 32, 96
"""Number of requests up to which states are summed one by one; number of sample points beyond it."""

PARTS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 1.0)
"""Fractions of a prompt at which steps are timed too; of a full step where a prompt takes several."""

FEW_FULL = 2.0
"""Prompts per step below which the chunks of long prompts say how long a full step of ranks in lock step lasts."""

SINGLE = 1.5
"""Prompts per step below which prompts are modelled one after another."""

FEW_PROMPTS = 3.0
"""Prompts per step below which a batch of prompts is modelled by its tokens instead of its number."""

NORMAL = 13
"""Points of a normal distribution at which prompts of different lengths are timed."""
HALVED = 8
"""Halvings of the bracket in which the prompts of a step are found."""
ITERATED = 8
"""Rounds in which the ranks that compute prompts are found."""

LATER = 5
"""Requests that follow one and are counted one by one where gaps are less uneven than exponential ones."""

CROWD = 16.0
"""Decode steps of a request at which half of a long queue of prompts runs beside more decodes than the mean number."""
LARGE = 600.0
"""Magnitude of a logarithm that stands for infinity."""

NEVER = 12.2
"""Drop in the log-probability of a number in the system that no server passes within 200,000 requests. Where more
requests slow each other down, a second stable state may exist; this drop separates it from the state in which a server
starts."""


@dataclass(frozen=True)
class ReplicaTimes:
    """Step times of a replica.

    `decodes`: the nodes k, from 0 to the most that run at once. `alone`: seconds of a step of k decodes, 0 for none.
    `prompts`: numbers b of prompts, from 1 to those that fill a step without decodes. `mixed[b]`: seconds of a step
    with chunks of b prompts at each k; without the decodes where the engine does not mix phases (`mixes`). `room`: most
    prompts of a step at each k, 1 where a prompt takes several `chunks`. `per_step`: prompts that a step's token budget
    is worth, below 1 where a prompt takes several steps. `partly`: as `mixed`, for fractions of one prompt, or of a
    step full of one, from the smallest to the whole. `ahead`: asynchronous scheduling, which puts a step together while
    the one before runs. `again`: share of its prompt that a request recomputes where all places are always taken.
    `squared`: share of a prompt's seconds that grows with the square of its length. `lengths`: squared coefficient of
    variation of prompt lengths, `answers` of answers, 0 where these are `alike`. `pieces`: the chunks of prompts, known
    where ranks run every step in lock step and a prompt takes several. `further`: mean number of steps of a lone prompt
    beyond `chunks`, since some lengths take more of them or fewer than the mean one; these have no more tokens.
    """

    decodes: Array
    alone: Array
    prompts: Array
    mixed: Array
    room: Array
    per_step: Array
    chunks: Array
    partly: Array
    mixes: bool
    ahead: bool = False
    again: Array | float = 0.0
    squared: Array | float = 0.0
    lengths: Array | float = 0.0
    answers: Array | float = 1.0
    pieces: Pieces | None = None
    further: Array | float = 0.0

    @cached_property
    def lone_more(self) -> Array:
        """Seconds of the steps that a prompt takes beyond `chunks`, at each node: hardly more than those of none."""
        return np.asarray(self.further * self.partly[0])

    @property
    def lone(self) -> Array:
        """Seconds of a prompt that nobody is beside."""
        return np.asarray(self.chunks * self.mixed[0, 0] + self.lone_more[0])

    def in_step(self, ranks: Array) -> ReplicaTimes:
        """The table of a rank beside others in lock step, `ranks` of which compute prompts, itself included.

        Where a prompt takes several steps, each lasts as long as the slowest chunk of these ranks. Where a step has
        room for about one, a full step does.
        """
        if self.pieces is None:
            return self
        several, slowest, each = self.chunks > 1, self.pieces.slowest(ranks), self.pieces.each
        mixed, partly = (
            np.where(several, slowest + np.maximum(seconds - seconds[:, :1], 0.0), seconds)
            for seconds in (self.mixed, self.partly)
        )
        full = mixed[0, :1] + (mixed[-1, :1] - mixed[0, :1]) * np.clip(self.room[:1] - 1, 0.0, 1.0)
        wider = np.where(several | (self.per_step[0] >= FEW_FULL), 1.0, np.maximum(slowest / full, 1.0))
        filled = np.clip((self.prompts - 1) / np.maximum(self.room[0] - 1, 1e-9), 0.0, 1.0)
        mixed = mixed * (1 + (wider - 1) * filled[:, np.newaxis])
        chunks = np.where(several, np.maximum(each, 1 + 1e-6), self.chunks)
        per_step = np.where(several, 1 / chunks, self.per_step)
        further = np.where(several, 0.0, self.further)
        return replace(self, mixed=mixed, partly=partly, chunks=chunks, per_step=per_step, pieces=None, further=further)

    @property
    def alike(self) -> Array:
        """Whether all answers are equally long."""
        return np.asarray(np.asarray(self.answers) == 0)

    def fuller(self, ranks: Array) -> ReplicaTimes:
        """The table by the decodes of one of `ranks` in lock step, with the steps of that which has most."""
        number = np.minimum(fullest_rank(self.decodes, ranks, self.answers), self.decodes[-1])

        def beside(values: Array) -> Array:
            return np.where(self.decodes > 0, self.at(values, np.maximum(number, 1.0)), values)

        mixed, partly = (
            np.stack([beside(each) for each in values]) if self.mixes else values
            for values in (self.mixed, self.partly)
        )
        return replace(self, alone=beside(self.alone), mixed=mixed, partly=partly)

    def varied(self, lengths: Array | float) -> Array:
        """Squared coefficient of variation of a prompt's seconds at each node, from that of the lengths.

        For lognormal lengths E[Lⁿ] = mⁿ·(1 + v)^(n(n − 1)/2). Part of the seconds of a prompt of one chunk does not
        depend on its length.
        """
        v = np.asarray(lengths, dtype=float)
        if not v.any():
            return v
        growing = np.clip(
            self._deviation(v) / np.maximum(self.partly[-1] * np.sqrt(np.maximum(v, 1e-12)), 1e-300), 0, 1
        )
        square = np.asarray(self.squared)
        rest = np.maximum(np.where(self.chunks > 1, 1.0, growing) - square, 0.0)
        return np.asarray(rest**2 * v + 2 * rest * square * ((1 + v) ** 2 - 1) + square**2 * ((1 + v) ** 4 - 1))

    def _deviation(self, lengths: Array) -> Array:
        """Standard deviation of the seconds of a step with one prompt, at each node; lengths are lognormal."""
        parts = np.asarray(PARTS).reshape(-1, *(1 for _ in self.prompts.shape[1:]))
        grid = np.concatenate([parts + 0 * self.prompts[:1], np.maximum(self.prompts[1:], 1.0)])[:, np.newaxis]
        seconds = np.concatenate([self.partly, np.maximum(self.mixed[1:], self.partly[-1])])
        z = np.linspace(-3.0, 3.0, NORMAL).reshape(-1, *(1 for _ in self.alone.shape))
        square, weights = np.log1p(lengths), np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
        prompts = np.exp(z * np.sqrt(square) - square / 2) + 0 * self.alone
        beyond = np.maximum(prompts / grid[-1], 1.0)  # steps of what no step has room for
        each = interpolated(grid, seconds, prompts) * beyond
        mean = (weights * each).sum(axis=0)
        return np.asarray(np.sqrt(np.maximum((weights * each**2).sum(axis=0) - mean**2, 0.0)))

    @cached_property
    def base(self) -> Array:
        """Seconds of a step that could take prompts but has none: a decode step, or 0 where phases do not mix."""
        return self.alone if self.mixes else np.zeros_like(self.alone)

    def step(self, prompts: Array) -> Array:
        """Seconds of a step with `prompts` prompts, at each node."""
        grid = np.concatenate([np.zeros_like(self.prompts[:1]), self.prompts])[:, np.newaxis]
        return interpolated(grid, np.concatenate([self.base[np.newaxis], self.mixed]), np.minimum(prompts, self.room))

    def with_prompts(self, prompts: Array, decodes: Array) -> Array:
        """Seconds of a step with at least one prompt, and any number of decodes."""
        (i, more), (k, part) = neighbour(self.prompts, prompts), neighbour(self.decodes, decodes)
        few, many = (
            start + (taken(self.mixed, row, k + 1) - start) * part
            for row, start in ((row, taken(self.mixed, row, k)) for row in (i, i + 1))
        )
        return np.asarray(few + (many - few) * more)

    def at(self, values: Array, decodes: Array) -> Array:
        """Interpolate values of the nodes k ≥ 1 at another number of decodes."""
        return interpolated(self.decodes[1:], values[1:], decodes)


# -- users who begin together ----------------------------------------------------------------------------------------
def opening(table: ReplicaTimes, users: Array, rounds: Array) -> Array:
    """Mean increase of TTFT, in seconds, where all users of a replica start at once and send `rounds` requests each.

    The first n prompts, of S seconds each, end in steps of b: on average after (n + b)/2·S instead of S. Later prompts
    are as far apart as the first answers and wait for none of them.
    """
    room = np.where(table.chunks > 1, 1.0, table.at(table.room, users / 2))
    batch = np.clip(users, 1.0, room)
    beside = (users - batch) / 2 if table.mixes else np.zeros_like(users)
    each = table.chunks * table.with_prompts(batch, beside) / batch
    return np.asarray(((users + batch) / 2 - 1) * each / rounds)


def geometric(logarithm: Array, number: Array) -> tuple[Array, Array]:
    """Σ rⁱ for i = 1, …, number, from log r, and the mean i with these weights; 0 and 0 for number 0."""
    log = np.where(np.abs(logarithm) < 1e-6, 1e-6, logarithm)
    log, whole, some = np.clip(log, -LARGE, LARGE), np.clip(log * number, -LARGE, LARGE), number > 0
    total = np.exp(log) * np.expm1(whole) / np.expm1(log)
    mean = number / np.where(some, -np.expm1(-whole), 1.0) - 1 / np.expm1(log)
    return np.where(some, total, 0.0), np.where(some, mean, 0.0)


def dispersed(number: Array, uneven: Array) -> Array:
    """Variance of a number of arrivals over its mean: 1 for Poisson arrivals.

    A stationary renewal process with Erlang gaps of this squared coefficient of variation has a variance of
    c²·n + (1 − c⁴)/6 for a large mean n (Cox, Renewal Theory, §4.5), and of n for a small one.
    """
    return np.asarray(np.minimum(1.0, uneven + (1 - uneven**2) / (6 * np.maximum(number, 1e-12))))


def time_left(seconds: Array, uneven: Array) -> tuple[Array, Array, Array]:
    """Time left of a step that is met at a random time: mean, variance, and what lengths add to the variance.

    `uneven`: squared coefficient of variation of its seconds. E[S²]/2E[S] and E[S³]/3E[S] for lognormal seconds S, of
    which E[Sⁿ] = (1 + v)^(n(n − 1)/2)·E[S]ⁿ.
    """
    longer, square = 1 + uneven, seconds**2
    return seconds / 2 * longer, square / 12, square * (longer**3 / 3 - longer**2 / 4 - 1 / 12)


def variance_of_mean(chance: Array, shares: Array, values: Array, number: Array) -> Array:
    """Variance of the mean of n = `number` successive values of a stationary Markov chain.

    With autocorrelation r that is ((1 + r)/(1 − r) − 2r(1 − rⁿ)/(n(1 − r)²))/n of the variance of one value.
    """
    mean = (shares * values).sum(axis=0)
    one = np.maximum((shares * values**2).sum(axis=0) - mean**2, 0.0)
    both = (shares * values * (chance * values).sum(axis=1)).sum(axis=0) - mean**2
    r = np.clip(both / np.maximum(one, 1e-300), 0.0, 0.99)
    longer = (1 + r) / (1 - r) - 2 * r * (1 - r**number) / (number * (1 - r) ** 2)
    return np.asarray(one * longer / number)


# -- at random ------------------------------------------------------------------------------------------------------
def largest_of(number: Array, varied: Array) -> Array:
    """Mean of the largest of `number` lognormal numbers over their mean, from their squared coefficient of variation.

    The largest of n normal numbers has mean (3/4)·ln(n)^0.78 and variance 1/(1 + (3/4)·ln n), within 7 %.
    """
    logarithm, square = 0.75 * np.log(number), np.log1p(varied)
    mean = 0.75**0.22 * logarithm**0.78
    return np.asarray(np.exp(mean * np.sqrt(square) - square / 2 * logarithm / (1 + logarithm)))


@dataclass(frozen=True)
class Prompting:
    """Effect of prompts on a replica with k decodes: mean TTFT and `excess`, in seconds.

    `excess`: by how much all decode steps of a request together take longer than at a random time, since requests
    behind it arrive soon after its own prompt. `last`: share of these that arrive during the step that ends its own
    prompt. `variance`: of TTFT, in s², for requests of one length; `by_length`: the part of it that comes from the
    lengths of other requests. `spread`: where phases mix, variance of the seconds per decode step of a request;
    `spread_by_length`: the part of it that comes from the lengths of prompts.
    """

    ttft: Array
    excess: Array
    last: Array | float = 1.0
    variance: Array | float = 0.0
    by_length: Array | float = 0.0
    spread: Array | float = 0.0
    spread_by_length: Array | float = 0.0


@dataclass(frozen=True)
class Between:
    """Seconds of prompts between two decode steps: mean `seconds` and `variance` at each node. `until`: mean seconds
    from the end of a step with each number of prompts until none waits and decoding goes on."""

    seconds: Array
    variance: Array
    until: Array


@dataclass(frozen=True)
class Phases:
    """Prompts that run between two decode steps of a replica with k decodes, at each node.

    `begun`: prompts that start there: as many as arrive until none waits, an about geometric number, or as many as find
    a free place. `variance`: of the seconds between the two steps. `together`: size of batches that would make the
    number of decodes vary as much, (1 + Var N/E[N])/2. `left`: share of the prompts behind a request's own that find a
    place.
    """

    begun: Array
    variance: Array
    together: Array
    left: Array


@dataclass(frozen=True)
class OtherRanks:
    """What a request meets of `ranks` in lock step: at a random time steps are `longer`, in seconds, than on average
    over steps, since long steps take more of the time. Each step loses the share `lost` of that. At each node.
    """

    ranks: Array
    longer: Array
    lost: Array


@dataclass(frozen=True)
class RateMeans:
    """Means at a request rate, in seconds: `ttft`, and for a decode step `tpot`, averaged over requests, and
    `following`, averaged over all steps. `spread`: variance of a request's TPOT due to prompts in or between its decode
    steps. `variance`, `by_length`: as in `Prompting`, of a TTFT that includes the wait for a place
    in the batch. `spread_by_length`: part of `spread` that comes from lengths.
    """

    ttft: Array
    tpot: Array
    following: Array
    spread: Array
    variance: Array
    by_length: Array
    spread_by_length: Array


@dataclass(frozen=True)
class Open:
    """An open-loop replica: `rate` requests per second arrive at random; at most the last node's number run at once.

    `uneven`: squared coefficient of variation of the gaps between requests: 1 for Poisson arrivals, 1/R where R
    replicas take turns, since a gap is then a sum of R exponential ones. Waits shrink with it (Kingman). `fastest`:
    highest rate, requests per second. `varied`: squared coefficient of variation of prompt lengths. `company`: other
    ranks that run every step in lock step with this one. `waiting`: fraction of the running decodes that pause
    while one prompt runs. `meets`: what other ranks in lock step do at a random time, where prompts take several steps.
    `several`, `two`: shares of answers with more than one token, and with two. `weight`: of a delay common to
    all requests in the mean TPOT, relative to 1/(E[O] − 1); short answers weigh most. `ranks`: to which the prompts of
    a step are dealt out in turn.
    From one decode step to the next X(k) seconds pass, prompts included. This is a queue whose speed depends on the
    number k in it, so that the distribution of that number depends on lengths only through their mean: π(n) ∝ Π
    λ·more·X(j)/j (Kelly, Reversibility and Stochastic Networks, §3.3). At the mean number of decodes the prompts are a
    Markov chain: a step takes those that arrived during the previous one, and without any the replica decodes until one
    arrives or all answers are done. A step with room for one prompt gives an M/G/1 queue with vacations (Doshi 1986).
    """

    table: ReplicaTimes
    rate: Array
    more: Array
    uneven: Array
    fastest: Array
    varied: Array | float = 0.0
    company: Array | float = 0.0
    waiting: Array | float = 0.0
    meets: OtherRanks | None = None
    several: Array | float = 1.0
    two: Array | float = 0.0
    weight: Array | float = 1.0
    ranks: Array | float = 1.0

    # -- ranks in step ---------------------------------------------------------------------------------------------
    @property
    def beside_others(self) -> Open:
        """One of the ranks in lock step, where prompts take several steps: steps last as long as on the slowest rank.

        While any rank has prompts, steps are long, and each rank is a queue of its own: it has prompts for a share ρ of
        the time, and others have some for 1 − (1 − ρ)^company of it. That goes on and off at random, so that a request
        which begins to decode meets more long steps at first than later (`meets`).
        """
        company = np.asarray(self.company)
        t = several = self.table.fuller(1 + company)
        busy = np.full(np.broadcast_shapes(np.shape(self.rate), t.chunks.shape), 0.5)
        for _ in range(ITERATED):
            t = several.in_step(1 + company * busy)
            busy = np.minimum(self.rate * t.chunks * np.maximum(t.mixed[0, 0], t.alone[1]), 1.0)
        long = np.maximum(t.mixed[0], t.alone)
        none = (1 - np.minimum(self.rate * t.chunks * long, 1.0)) ** company
        others = 1 - none * long / np.maximum(none * long + (1 - none) * t.alone, 1e-300)
        begins = self.rate * company  # of others' prompts, per second, where none has any
        changes = begins * (t.alone + long * none / np.maximum(1 - none, 1e-12))
        meets = OtherRanks(1 + company, (long - t.alone) * (1 - none - others), np.clip(changes, 1e-9, 1.0))
        alone = t.alone + others * (long - t.alone)
        mixed, partly = t.mixed + 0 * alone, t.partly + 0 * alone
        return replace(self, table=replace(t, alone=alone, mixed=mixed, partly=partly), company=0.0, meets=meets)

    @property
    def all_ranks(self) -> Open:
        """All ranks in lock step as one server.

        Requests are dealt out in turn: of n prompts the fullest rank has (n + (ranks − 1)/2)/ranks, at least one. A
        decode without others is alone on its rank, however many ranks there are. Where
        lengths vary, a step lasts as long as its longest share of prompts, at most as long as a full one. Where phases
        do not mix, ranks without prompts decode beside those with some, whose own decodes wait.
        """
        ranks = 1 + np.asarray(self.company)
        t = self.table.fuller(ranks).in_step(ranks)
        numbers = t.prompts * ranks - (ranks - 1) / 2
        prompts = np.concatenate([np.ones_like(numbers[:1]), numbers, t.prompts[-1:] * ranks])
        mixed = np.concatenate([t.mixed[:1], t.mixed, t.mixed[-1:]])
        if np.any(np.asarray(self.varied) > 0):
            each, some = np.maximum(prompts / ranks, 1.0), np.minimum(prompts, ranks)
            if t.mixes:
                fullest = np.concatenate([t.prompts[:1], t.prompts, t.prompts[-1:]])
                mixed = np.stack([t.step(n) for n in fullest * largest_of(some, np.asarray(self.varied) / each)])
            else:
                longest = largest_of(some[:, np.newaxis], t.varied(self.varied) / each[:, np.newaxis])
                mixed = np.minimum(mixed * longest, t.step(t.room))
        mixed = mixed if t.mixes else np.maximum(mixed, t.alone)

        def with_one(values: Array, one: Array) -> Array:
            return np.concatenate([values[:1], one, values[1:]])

        decodes = with_one(t.decodes * ranks, np.ones_like(t.decodes[:1]))
        alone = with_one(t.alone, self.table.alone[1:2])
        room, per_step = (with_one(each * ranks, each[1:2] * ranks) for each in (t.room, t.per_step))
        mixed, partly = (np.stack([with_one(each, each[1:2]) for each in values]) for values in (mixed, t.partly))
        table = replace(
            t, decodes=decodes, alone=alone, prompts=prompts, mixed=mixed, partly=partly, room=room, per_step=per_step,
            mixes=True,
        )  # fmt: skip
        uneven = np.minimum(self.uneven * ranks, 1.0)
        return replace(
            self, table=table, rate=self.rate * ranks, uneven=uneven, fastest=self.fastest * ranks, company=0.0,
            waiting=0.0 if t.mixes else 1 / ranks, ranks=ranks,
        )  # fmt: skip

    # -- prompts one after another ---------------------------------------------------------------------------------
    @cached_property
    def single(self) -> Array:
        """Whether prompts are taken one by one: one takes several steps, or a step has room for about one."""
        return np.asarray((self.table.chunks > 1) | (self.table.room.max(axis=0) < SINGLE))

    @cached_property
    def shared(self) -> Array:
        """Whether the next prompt uses what a long prompt leaves of its last step."""
        return np.asarray((self.table.per_step * self.table.chunks > 1 + 1e-9).any(axis=0) & (self.table.chunks > 1))

    @cached_property
    def full(self) -> Array:
        """Seconds of a step full of prompts, at each node."""
        return np.asarray(np.where(self.shared, self.table.partly[-1], self.table.step(self.table.room)))

    @cached_property
    def turns(self) -> Array:
        """Full steps that a prompt takes, a fraction where a step takes several prompts."""
        t = self.table
        several = np.where(self.shared, 1 / np.maximum(t.per_step, 1e-9), t.chunks)
        return np.asarray(np.where(t.chunks > 1, several, 1 / t.room))

    # -- the steps of decodes --------------------------------------------------------------------------------------
    @cached_property
    def interval(self) -> Array:
        """Mean seconds X from the end of one decode step to the end of the next, prompts included, at each node.

        In mixed steps no more prompts start than a step has room for, so that each adds at least as much as one of a
        full step.
        """
        t, rate, plain = self.table, self.rate, self.table.alone
        if not t.mixes:
            return np.asarray(np.maximum(self.phases.begun / np.maximum(rate, 1e-300), plain))
        full = np.maximum(self.full, plain)
        fitting = t.prompts[:, np.newaxis] <= t.room
        each = np.where(fitting, (t.mixed - plain) / t.prompts[:, np.newaxis], np.inf).min(axis=0)
        each = np.where(self.single, self.turns * (full - plain), np.clip(each, 0.0, (full - plain) / t.room))
        least = np.minimum(full, plain / np.maximum(1 - rate * each, 1e-9))
        if self.single.all():
            return np.asarray(least)
        begin = -np.expm1(-rate * plain)

        def beyond(prompts: Array) -> Array:
            return np.asarray(self._alternating(t.step(prompts), plain, begin)[0] - prompts)

        one = np.ones_like(plain) + 0 * rate
        low, high = halved(lambda n: beyond(n) > 0, one, np.maximum(t.room, 1.0) + 0 * one, HALVED)
        more, fewer = np.maximum(beyond(low), 0.0), np.maximum(-beyond(high), 0.0)
        prompts = low + (high - low) * more / np.maximum(more + fewer, 1e-300)  # nearly linear in between
        _, mean, share = self._alternating(t.step(prompts), plain, begin)
        mean = np.where(self.single, least, np.clip(mean, least, full))
        if np.any(np.asarray(self.waiting) > 0):
            mean = np.maximum(np.minimum(mean / self._without(share, prompts), self._until_full), mean)
        return np.asarray(mean)

    @property
    def _until_full(self) -> Array:
        """Seconds in which as many requests arrive as there are places free, those of answers that end included."""
        return np.asarray(self._free(self.table.decodes) / np.maximum(self.rate, 1e-300))

    def _free(self, decodes: Array) -> Array:
        """Places that are free after a step of `decodes` decodes."""
        return np.asarray(self.table.decodes[-1] - decodes * (1 - 1 / np.maximum(self.more, 1.0)))

    def _without(self, share: Array, prompts: Array) -> Array:
        """Share of the steps in which a rank decodes because it has no prompt.

        Where n prompts are dealt out in turn, max(R − n, 0) of R ranks have none. The number n follows from the length
        t of the step before, which makes it autoregressive with coefficient λ·t′: its variance is 1/(1 − (λ·t′)²) times
        that of independent steps. Varying lengths add to it.
        """
        t, ranks = self.table, 1 / np.maximum(self.waiting, 1e-9)
        slope = np.clip(self.rate * (t.step(prompts + 1) - t.step(prompts)), 0.0, 0.9)
        growing = 1 - t.alone / np.maximum(t.step(prompts), 1e-300)
        each = np.maximum(prompts / ranks, 1.0)
        lengths = np.log1p(np.asarray(self.varied) / each) / (1 + 0.75 * np.log(np.clip(prompts, 1.0, ranks)))
        deviation = np.sqrt((prompts + (growing * prompts) ** 2 * lengths) / (1 - slope**2))
        free = normal_excess(ranks - prompts, deviation)
        return np.asarray(1 - share * (1 - np.clip(free / ranks, 1e-6, 1.0)))

    def _alternating(self, some: Array, plain: Array, begin: Array) -> tuple[Array, Array, Array]:
        """Prompts of a step that has any, mean seconds of all steps, and the share of the steps with prompts.

        Prompts that arrive during a step run in the next one, so that long steps follow long ones. This is a Markov
        chain of two states: after a step of s seconds the next one has prompts with probability 1 − e^(−λ·s), which is
        `begin` after a step without. `some`: seconds of a step with prompts, `plain`: of one without.
        """
        ends = np.exp(-self.rate * some)
        share = begin / np.maximum(begin + ends, 1e-300)
        mean = share * some + (1 - share) * plain
        return self.rate * mean / np.maximum(share, 1e-300), mean, share

    # -- prompts that run apart ------------------------------------------------------------------------------------
    @cached_property
    def batches(self) -> tuple[Array, Array]:
        """Numbers of prompts of a prefill-only step, and its seconds."""
        numbers = spread_points(np.maximum(self.table.room[0] + 0 * self.rate, 1.0))
        return numbers, self._alone(numbers)

    def _alone(self, prompts: Array) -> Array:
        return interpolated(self.table.prompts, self.table.mixed[:, 0], prompts)

    @cached_property
    def each(self) -> Array:
        """Least seconds of the server that a prompt takes where phases do not mix."""
        numbers, seconds = self.batches
        return np.asarray(np.where(self.single, self.turns[0] * self.full[0], (seconds / numbers).min(axis=0)))

    @cached_property
    def apart(self) -> Array:
        """Least share of the time that prompts take where phases do not mix."""
        return np.asarray(np.minimum(self.rate * self.each, NEARLY))

    @cached_property
    def _by_work(self) -> Array:
        """Whether prompts between decode steps are modelled by their tokens, for unequal lengths and where a step has
        room for few prompts and part of another. Otherwise they are modelled by their number."""
        return np.asarray((self.varied > np.zeros(())) | (self.table.per_step[0] < FEW_PROMPTS))

    @cached_property
    def between(self) -> Between:
        """Seconds of prompts from one decode step to the next."""
        if self._by_work.all():
            return self._spells(*self._work_chain)
        if not self._by_work.any():
            return self._spells(*self._number_chain)
        pairs = (self._spells(*chain) for chain in (self._work_chain, self._number_chain))
        work, number = ([getattr(each, f.name) for f in fields(Between)] for each in pairs)
        return Between(*(np.where(self._by_work, a, b) for a, b in zip(work, number, strict=True)))

    @property
    def _number_chain(self) -> tuple[Array, Array, Array, Array]:
        """Markov chain of the number of prompts in a prefill-only step: the numbers, the seconds of such a step, and
        the probability of each number after such a step and, at each node, after a decode step."""
        numbers, seconds = self.batches
        after, first = (poisson_shares(self.rate * s, numbers, self.uneven) for s in (seconds, self.table.alone))
        return numbers, seconds, after[:, 1:], first[:, 1:]

    @property
    def _work_chain(self) -> tuple[Array, Array, Array, Array]:
        """The chain of `_number_chain` for tokens, in multiples of a prompt's; tokens beyond a step's room wait."""
        t, rate = self.table, self.rate
        several = t.chunks > 1
        room = np.where(several, t.per_step[0], np.maximum(t.per_step[0], 1.0)) + 0 * rate
        whole, parts = np.where(several, room, 1.0), np.asarray(PARTS).reshape(-1, *(1 for _ in room.shape))
        longer = np.where(several, 0.0, t.mixed[0, 0] - t.partly[-1, 0])
        grid = np.concatenate([parts * whole, np.where(several, whole, np.maximum(t.prompts, 1.0))])
        values = np.concatenate([t.partly[:, 0] + parts * longer, np.where(several, t.partly[-1, 0], t.mixed[:, 0])])
        numbers = token_points(room)
        seconds = interpolated(grid, values, np.minimum(numbers, room))
        left, none = np.maximum(numbers - room, 0.0), np.zeros_like(t.alone + 0 * rate)
        each, varied = ((seconds, left), (t.alone, none)), np.asarray(self.varied, dtype=float)
        after, first = (token_shares(rate * s, numbers, w, varied, self.uneven) for s, w in each)
        return numbers, seconds, after[:, 1:], first[:, 1:]

    def _spells(self, numbers: Array, seconds: Array, chance: Array, first: Array) -> Between:
        """Solve a chain for the seconds from a step with each amount of prompts until none waits."""
        one = np.eye(len(chance)).reshape(len(chance), len(chance), *(1 for _ in chance.shape[2:]))
        mean = solved((1 + 1e-9) * one - chance, seconds)
        mean = np.where((mean >= seconds) & np.isfinite(mean), mean, 1e9 * seconds[-1])
        mean = np.maximum(mean, seconds / (1 - self.apart))
        square = solved((1 + 1e-9) * one - chance, seconds * (2 * mean - seconds))
        square = np.where((square >= mean**2) & np.isfinite(square), square, 2 * mean**2)
        least = self.table.alone * self.apart / (1 - self.apart)
        every, squared = ((first * each).sum(axis=1) for each in (mean, square))
        every = np.maximum(every, least)
        until = np.maximum(interpolated(numbers, mean - seconds, self.batches[0]), 0.0)
        until = np.maximum(until, self.batches[1] * self.apart / (1 - self.apart))
        return Between(every, np.maximum(squared - every**2, 0.0), until)

    @cached_property
    def phases(self) -> Phases:
        """Prompts between decode steps at each node; none, and batches of one, where phases mix."""
        t = self.table
        if t.mixes:
            none, one = np.zeros_like(t.alone), np.ones_like(t.alone)
            return Phases(none, none, one, one)
        return self._phases(t.decodes, t.alone + self.between.seconds, self.between.variance)

    def _phases(self, decodes: Array, between: Array, variance: Array) -> Phases:
        """Prompts between steps of `decodes` decodes.

        `between`, `variance`: mean and variance of the seconds from one of these steps to the next if places were
        unlimited.
        """
        rate, between = self.rate, np.maximum(between, 1e-300)
        begun, wider = np.maximum(rate * between, 1e-300), rate * variance / between
        free = self._free(decodes)
        # mean n, variance (1 + w)·n: a constant plus an exponential number, or an exponential number in some of the
        # cases
        square = (1 + wider) / begun
        part, often = np.sqrt(np.minimum(square, 1.0)), np.minimum(2 / (1 + square), 1.0)
        sure, more = (1 - part) * begun, part * begun / often
        fill = np.maximum(free - sure, 0.0) / np.maximum(more, 1e-300)
        one = -np.expm1(-fill)
        two = np.where(fill < 1e-3, fill**2, 2 * (one - fill * np.exp(-np.minimum(fill, 700.0))))
        certain = np.minimum(sure, free)
        kept = often * (certain + more * one)
        squared = often * (certain**2 + 2 * certain * more * one + more**2 * two)
        left = squared / np.maximum(kept, 1e-300) / (begun * (1 + square))
        variance = np.maximum(squared - kept**2 - kept, 0.0) / rate**2
        return Phases(kept, variance, 1 + rate**2 * variance / kept / 2, np.minimum(left, 1.0))

    # -- the server ------------------------------------------------------------------------------------------------
    @cached_property
    def cold(self) -> Array:
        """TTFT, in seconds, of a request that finds the replica idle."""
        return np.asarray((self.table.chunks * self.table.step(np.ones_like(self.table.alone)))[0])

    @cached_property
    def _varied(self) -> Array:
        """Squared coefficient of variation of a prompt's seconds, at each node."""
        return np.asarray(self.table.varied(self.varied) + 0 * self.table.alone)

    @cached_property
    def load(self) -> Array:
        """The request rate over the highest one, at most NEARLY."""
        return np.asarray(np.minimum(self.rate / self.fastest, NEARLY))

    @cached_property
    def numbers(self) -> tuple[Array, Array]:
        """Numbers of requests that decode or wait for a place, and how many each stands for, 1 up to EXACT."""
        most = self.table.decodes[-1]
        steps = np.arange(1, EXACT + SPACED + 1, dtype=float).reshape(-1, *(1 for _ in most.shape))
        beyond = np.sqrt(EXACT) + (np.sqrt(np.maximum(most, EXACT)) - np.sqrt(EXACT)) * (steps - EXACT) / SPACED
        points = np.minimum(np.where(steps <= EXACT, steps, np.rint(beyond**2)), most)
        ends = np.concatenate([points[:1] - 1, points])
        return points, np.diff(ends, axis=0)

    def answer(self) -> RateMeans:
        """Mean TTFT and TPOT of requests."""
        in_step = np.asarray(self.company) > 0
        if in_step.any():
            one, every = self.beside_others.answer(), self.all_ranks.answer()
            alone = one if in_step.all() else replace(self, company=0.0).answer()
            each = ([getattr(a, f.name) for f in fields(RateMeans)] for a in (alone, one, every))
            several = self.table.chunks > 1
            return RateMeans(*(np.where(in_step, np.where(several, b, c), a) for a, b, c in zip(*each, strict=True)))
        t, rate, more, load = self.table, self.rate, self.more, self.load
        steps = np.maximum(more, 1.0)
        points, widths = self.numbers
        together, between = np.ones(()), t.at(self.interval if t.mixes else t.alone, points)
        if not t.mixes:  # the limit of free places changes much from node to node
            unlimited = (t.at(each, points) for each in (t.alone + self.between.seconds, self.between.variance))
            phases = self._phases(points, *unlimited)
            together, between = np.maximum(phases.together, 1.0), np.maximum(phases.begun / rate, between)
        busy = np.maximum(rate * more, 1e-300) * between / points
        ratios = np.log((together - 1 + busy) / together)
        before = np.concatenate([ratios[:1], ratios[:-1]])
        logs = np.cumsum(widths * (ratios + before) / 2 + np.minimum(widths, 1) * (ratios - before) / 2, axis=0)
        drop = logs - np.maximum(np.maximum.accumulate(logs, axis=0), 0.0)
        rarest = np.minimum.accumulate(drop, axis=0)
        logs = np.where((rarest < -NEVER) & (drop > rarest), -LARGE, logs)  # the rise to a second state
        top = np.maximum(logs.max(axis=0), 0.0)
        starts = np.concatenate([np.zeros_like(logs[:1]), logs[:-1]])
        sums, places_in = geometric((logs - starts) / np.maximum(widths, 1.0), widths)
        joins = busy / (together - 1 + busy)
        shares, nobody = np.exp(starts - top) * sums * joins, np.exp(-top)
        at = points - widths + places_in
        last = np.exp(logs - top)[-1] * joins[-1]
        waiting = last * load / (1 - load)
        everything = nobody + shares.sum(axis=0) + waiting
        decoding = ((shares * at).sum(axis=0) + waiting * t.decodes[-1]) / everything
        present = (shares.sum(axis=0) + waiting) / everything
        places = 0.5 * (1 + self.varied) * self.uneven * last * load / (1 - load) ** 2 / everything / rate
        decodes = np.clip(decoding / np.maximum(present, 1e-12), 1.0, t.decodes[-1])
        prompting = self._prompting(decodes)
        spread, (share, weight) = self._spread(decodes, prompting), self._waiting(decodes, prompting.last)
        tpot, following = ((decoding / rate + part * prompting.excess) / steps for part in (weight, share))
        tpot = tpot + self._longer_at_first(decodes, more / np.maximum(weight, 1.0))
        following = following + self._longer_at_first(decodes, more)
        if not t.mixes:
            convoy = self._convoy
            ends = rate * (more * t.alone[-1]) ** 2 / t.decodes[-1] / (2 * np.maximum(1 - self.apart, 0.02))
            places = np.maximum(places, convoy * (last + waiting) / everything * ends * self.uneven)
        tpot, following = (np.where(more > 0, np.maximum(each, t.alone[1]), t.alone[1]) for each in (tpot, following))
        often = np.clip((last + waiting) / everything, 1e-9, 1.0)
        variance = prompting.variance + places**2 * (2 / often - 1)  # an exponential wait in `often` of the cases
        from_lengths = prompting.spread_by_length if t.mixes else spread * (np.asarray(self.varied) > 0)
        ttft = prompting.ttft + places + self._beside(t.lone_more, decodes)
        means = (ttft, tpot, following, spread, variance, prompting.by_length, from_lengths)
        return RateMeans(*(np.asarray(each + 0 * tpot) for each in means))

    def _spread(self, decodes: Array, prompting: Prompting) -> Array:
        """Variance of a request's seconds per decode step due to prompts that run between its steps.

        The prompts behind its own last r seconds on average, with a variance of r², or of r²/3 where they fill the
        places. Every step adds the variance of the chain.
        """
        t, steps = self.table, np.maximum(self.more, 1.0)
        if np.any(np.asarray(self.waiting) > 0):
            between = self._beside(self.interval, decodes)  # a geometric number of steps, at least one
            mean = np.minimum(between, self._beside(np.maximum(t.alone, t.mixed[0]), decodes))
            return np.where(self.more > 0, between * (between - mean) / steps, 0.0)
        if t.mixes:
            return np.asarray(prompting.spread)
        left, between = self._beside(self.phases.left, decodes), self._beside(self.interval, decodes)
        own = np.maximum(prompting.excess + between - self._beside(t.alone, decodes), 0.0)
        answering = self.more * between  # numbers of arrivals in this time vary less where gaps are less uneven
        even = self.uneven + (1 - self.uneven) / (1 + self.rate * answering)
        varied = self._beside(self._varied, decodes)
        part = self._coming(answering) * (even + varied) / (1 + varied)
        each = self._beside(self.phases.variance, decodes) * part
        return np.where(self.more > 0, (each * steps + own**2 * (1 + 2 * left) / 3) / steps**2, 0.0)

    def _longer_at_first(self, decodes: Array, steps: Array) -> Array | float:
        """Seconds by which so many decode steps of a request are longer, on average, as they begin at a random time."""
        if self.meets is None:
            return 0.0
        longer, lost = (self._beside(each, decodes) for each in (self.meets.longer, self.meets.lost))
        return np.asarray(longer * (1 - (1 - lost) ** steps) / (lost * np.maximum(steps, 1e-12)))

    def _waiting(self, decodes: Array, last: Array | float) -> tuple[Array | float, Array | float]:
        """Share of the requests that wait for prompts behind their own, and its weight in the mean TPOT.

        With asynchronous scheduling the step after a prompt's own takes the prompts that arrived before that one began.
        An answer that ends with this step does not wait for arrivals during the `last` step, only for the usual ones.
        """
        t = self.table
        if t.mixes:
            return 1.0, 1.0  # `excess` already shrinks with fewer steps
        if not t.ahead:
            return self.several, self.weight
        plain = self._beside(t.alone, decodes)
        steps = (self._beside(self.interval, decodes) - plain) / t.mixed[0, 0]
        never = self.two / (1 + np.maximum(steps, 0.0)) * last
        return self.several - never, self.weight - never / self.several * np.maximum(self.more, 1.0)

    @property
    def _convoy(self) -> Array:
        """Share of the time in which places are being filled, where all answers are equally long: requests that started
        together end together, and prompts go first. 0 where answers vary."""
        t = self.table
        filling = self.each * t.decodes[-1]
        return np.asarray(np.where(t.alike, filling / (filling + self.more * t.alone[-1]), 0.0))

    def _prompting(self, decodes: Array) -> Prompting:
        if self.single.all():
            return self._one_by_one(decodes)
        if not self.single.any():
            return self._together(decodes)
        one, several = self._one_by_one(decodes), self._together(decodes)
        pairs = ((getattr(one, f.name), getattr(several, f.name)) for f in fields(Prompting))
        return Prompting(*(np.where(self.single, *pair) for pair in pairs))

    def _coming(self, seconds: Array) -> Array:
        """Factor on the λ·t requests that arrive within t seconds of one, for gaps less uneven than exponential ones.

        Where R replicas take turns, each gets every R-th request: Σⱼ (x/(x + 1/R))^(R·j) arrive, with x = λt.
        """
        mean = np.maximum(self.rate * seconds, 1e-3)
        next_one = np.exp(-np.log1p(self.uneven / mean) / self.uneven)
        return np.asarray(next_one / (1 - next_one) / mean)

    def _within(self, seconds: Array) -> Array:
        """As `_coming`, where the time is exactly so many seconds, or as random as lengths of prompts make it.

        R·λ·t of all R replicas' requests arrive on average, and j of this one's where at least R·j do. Of a long time
        the number is λ·t − (1 − 1/R)/2 (Cox, Renewal Theory, §4.2).
        """
        if np.all(self.uneven >= 1):
            return np.ones_like(seconds + self.rate)
        mean, turns = np.maximum(self.rate * seconds, 1e-3), 1 / self.uneven
        several = turns * np.arange(1.0, LATER + 1).reshape(-1, *(1 for _ in mean.shape[1:])) + 0 * mean[:1]
        before, upto = (excess((mean * turns)[:, np.newaxis], n[np.newaxis]) for n in (several - 1, several))
        sure = (before - upto).sum(axis=1)
        sure = np.where(mean < LATER - 1, sure, mean - (1 - self.uneven) / 2)
        part = np.minimum(np.asarray(self.varied), 1.0)
        counted = (1 - part) * sure / mean + part * self._coming(seconds)
        return np.where(self.uneven >= 1, 1.0, counted)  # the sum over j, cut off, falls short of 1

    def _behind(self, seconds: Array) -> Array:
        """Factor on the prompts that follow a request's own within `seconds`, and on those that follow these in turn,
        for gaps less uneven than exponential ones."""
        part = self._coming(seconds)
        return np.asarray(part * (1 - self.apart) / (1 - part * self.apart))

    def _between_own(self, decodes: Array) -> Array:
        """Change of the seconds of prompts between all decode steps of a request due to less uneven gaps, at most 0."""
        between = self._beside(self.interval, decodes)
        fewer = self._coming(self.more * between) - 1
        return np.asarray(self.more * (between - self._beside(self.table.alone, decodes)) * fewer)

    def _beside(self, values: Array, decodes: Array) -> Array:
        """Interpolate values of the nodes at `decodes`; the value of the first node where answers have one token."""
        return np.asarray(np.where(self.more > 0, self.table.at(values, decodes), values[0]))

    def _uneven_steps(self, varied: Array, prompts: Array) -> Array:
        """Squared coefficient of variation of a step with so many prompts, from that of one prompt's seconds.

        Ranks in step wait for the longest of their shares; its logarithm varies as in `largest_of`.
        """
        each = varied * self.ranks / np.maximum(prompts, self.ranks)
        logarithm = 0.75 * np.log(np.clip(prompts, 1.0, self.ranks))
        return np.asarray(np.expm1(np.log1p(each) / (1 + logarithm)))

    def _one_by_one(self, decodes: Array) -> Prompting:
        """An M/G/1 queue of prompts with vacations: without prompts the replica takes a decode step, or is idle."""
        t, rate, more = self.table, self.rate, self.more
        beside = decodes if t.mixes else np.zeros_like(decodes)
        full, turns, first = (self._beside(v, beside) if t.mixes else v[0] for v in (self.full, self.turns, t.mixed[0]))
        plain, own = self._beside(t.alone, decodes), t.chunks * first
        busy = np.minimum(rate * turns * full, NEARLY)
        calm = np.exp(-rate * plain * more)
        crowded = more / (more + CROWD) * (more < turns * t.decodes[-1])
        bound = busy + crowded * np.maximum(self.load - busy, 0.0)
        varied = self._beside(self._varied, beside)
        wait = busy * turns * full / 2 / np.sqrt((1 - busy) * (1 - bound)) * (self.uneven + varied)
        # the wait ends with a step that the next prompt shares
        wait = wait + np.where(self.shared, busy * full / 2, 0.0)
        under_way = plain
        if self.meets is not None:
            calm, under_way = calm**self.meets.ranks, plain + self._beside(self.meets.longer, decodes)
        met = (1 - calm) * under_way * (0.5 + (1 - busy if t.ahead else 0.0))
        idle = (1 - busy) * calm
        ttft = wait + met + idle * self.cold + (1 - idle) * own
        # Pollaczek–Khinchine: E[W²] = 2·E[W]² + λ·E[S³]/(3(1 − ρ)); E[S³] = (1 + v)³·E[S]³ for lognormal S
        cubed = busy * (turns * full) ** 2 / (3 * (1 - busy))
        by_length = cubed * ((1 + varied) ** 3 - 1)
        variance = wait**2 + cubed * self.uneven + by_length + (1 - calm) * under_way**2 / 12
        moments = {"variance": variance, "by_length": by_length}
        between = self._beside(self.interval, decodes)
        if not t.mixes:
            left = self._beside(self.phases.left, decodes) * self._behind(wait + own)
            excess = (wait + own) * busy / (1 - busy) * left - (between - plain) + self._between_own(decodes)
            return Prompting(ttft, excess, np.minimum(t.mixed[0, 0] / (wait + own), 1.0), **moments)
        # a prompt leaves λ·TTFT of work behind, more than a random step finds
        added, often = np.maximum(full - plain, 0.0), np.minimum(rate * turns * between, 1.0)
        behind = np.maximum(busy * (wait + met + turns * full) - often * (wait + met + turns * full / 2), 0.0)
        most = behind * added / full * between / np.maximum(plain, 1e-12)
        chunk = np.where(t.chunks > 1, self._beside(t.partly[-1], beside), full)
        final = np.maximum(own - (t.chunks - 1) * chunk, 0.0)
        seen = 1 - (1 - busy) * np.exp(np.minimum(rate * final, 50.0)) if t.ahead else busy
        following = np.maximum(seen, 0.0) * np.maximum(chunk - under_way, 0.0) - (between - plain)
        later = np.maximum(more - 1, 0.0) * np.maximum(busy * added - (between - plain), 0.0)
        rest = np.maximum(most - following, 0.0) * -np.expm1(-later / np.maximum(most, 1e-30))
        # λ·T prompts arrive, each delayed by others; no more than full steps among plain ones make
        some, steps = np.clip((between - plain) / np.maximum(added, 1e-300), 0.0, 1.0), np.maximum(more, 1.0)
        even = dispersed(rate * between * steps, self.uneven)
        arrived = rate * between * (turns * added) ** 2 * (even + varied) / (1 - busy) ** 2 * self.weight / steps
        spread = np.minimum(arrived, some * (1 - some) * added**2)
        moments = {**moments, "spread": spread, "spread_by_length": spread * varied / (1 + varied)}
        return Prompting(ttft, following + rest + self._between_own(decodes), **moments)

    def _together(self, decodes: Array) -> Prompting:
        """A Markov chain of steps that take the prompts which arrived during the previous one, as many as fit.

        Where none arrived, decode steps follow until one arrives, or the replica is idle once all answers end. With
        asynchronous scheduling a step takes the arrivals of the last but one; on a replica without decodes the first of
        them starts sooner.
        """
        t, rate, more = self.table, self.rate, self.more
        plain, room = np.where(more > 0, t.at(t.alone, decodes), 0.0), self._beside(t.room, decodes)
        beside = np.where(more > 0, decodes, 0.0)

        def step(prompts: Array) -> Array:
            prompts = np.minimum(prompts, room)
            return t.with_prompts(prompts, beside) if t.mixes else self._alone(prompts)

        numbers = spread_points(np.maximum(room + 0 * rate, 1.0))
        seconds = step(numbers)
        every = np.concatenate([plain[np.newaxis] + 0 * seconds[:1], seconds])
        means, coming = rate * every, self._within(every)
        sooner = np.asarray(t.ahead & (more == 0))
        taken, fewer, often = np.zeros_like(plain + rate), np.ones_like(means), np.ones_like(plain + rate)
        for _ in range(3 if sooner.any() or np.any(self.uneven < 1) else 1):
            chance = poisson_shares(means * fewer * (1 - taken), numbers, self.uneven)
            calm = np.exp(-rate * often * plain * more)
            none = np.where(more > 0, chance[0, 0], 0.0)
            decode_steps = np.where(more > 0, (1 - calm) / np.maximum(1 - none, 1e-300), 0.0)
            after = (1 - calm) * chance[0, 1:] / np.maximum(1 - none, 1e-300)
            after[0] += calm
            among = chance[1:, 1:] + chance[1:, :1] * after
            shares = stationary(among / among.sum(axis=1, keepdims=True))
            empty = (shares * chance[1:, 0]).sum(axis=0)
            stolen = empty * (1 - empty) / (rate * (shares * seconds).sum(axis=0))
            taken = np.where(sooner, np.minimum(stolen, 0.9), 0.0)
            # a step that ends a lull follows close behind its prompts' arrival: with less uneven gaps fewer requests
            # arrive during it, and more in lulls
            fewer[1:] = 1 - empty * (1 - coming[1:])
            lull = (
                rate * often * decode_steps * plain + calm
            )  # requests that arrive in one, however few lulls there are
            often = 1 / np.maximum(1 - (shares * means[1:] * (1 - coming[1:])).sum(axis=0) / lull, 0.1)
            fewer[0] = often
        quiet = np.where(sooner, empty, 1.0)

        def times(shares: Array) -> tuple[Array, Array, Array, Array]:
            """For each step with prompts: their number, its seconds, and the seconds of decode steps and of idling."""
            ends = (shares * chance[1:, 0]).sum(axis=0) * quiet
            prompts, busy = (shares * numbers).sum(axis=0), (shares * seconds).sum(axis=0)
            return prompts, busy, ends * decode_steps * plain, ends * calm / (rate * often)

        # prompts that find no room: as many more steps are full as it takes to serve all
        load = np.minimum(rate * (seconds / numbers).min(axis=0), NEARLY)
        prompts, *each = times(shares)
        missing = np.maximum(rate * sum(each) - prompts, 0.0)
        full = missing / (missing + np.maximum(room * (1 - load), 1e-9))
        shares = (1 - full) * shares
        shares[-1] += full
        prompts, busy, decoding, nobody = times(shares)
        cycle = busy + decoding + nobody
        finds = shares * seconds / cycle * coming[1:]  # of those that came just before it
        quieter = (1 - finds.sum(axis=0)) / np.maximum(decoding + nobody, 1e-300)
        idle, calmly = nobody * quieter, decoding * quieter
        bound = np.where(more * room < t.decodes[-1], np.maximum(load, self.load), load)
        over = load ** np.sqrt(2 * (room + 1)) / (2 * (1 - bound)) * seconds[-1] / room
        varied = self._beside(self._varied, beside)
        over = over * (1 + varied / room) * np.sqrt(shares[-1] * seconds[-1] / busy)

        # lengths make steps uneven, and long ones bring more prompts for those after, as numbers do in the chain
        slope = np.clip(rate * (seconds[-1] - seconds[0]) / np.maximum(room - 1, 1e-9), 0.0, 0.9)
        uneven = self._uneven_steps(varied, numbers) / (1 - slope**2)
        beside_it = means * coming
        beside_it[1:] *= 1 + uneven
        own, alone = step(1 + beside_it), step(np.ones_like(room))
        # a request meets a step with prompts, a decode step or an idle replica: mean and variance of its TTFT in each
        met, spread, by_length = time_left(seconds, uneven)
        met, decoded = met + own[1:], plain / 2 + own[0]
        # a Poisson number of prompts joins its step
        joined = (own[1:] - alone) ** 2 / np.maximum(beside_it[1:], 1e-12)
        spread = spread + joined
        others_vary = own[1:] ** 2 * self._uneven_steps(varied, 1 + beside_it[1:])
        by_length = by_length + np.where(np.asarray(self.ranks) > 1, others_vary, joined * varied)
        if t.ahead:
            mean = (busy + decoding) / (1 + (shares * chance[1:, 0]).sum(axis=0) * quiet * decode_steps)
            free = chance[1:, 0]
            direct = free * -np.expm1(-means[1:]) / np.maximum(means[1:], 1e-12)
            others = own[1:] + free * alone + (1 - free) * mean
            met = met + np.where(more > 0, mean, direct * alone + (1 - direct) * others - own[1:])
            decoded = decoded + np.where(more > 0, mean, 0.0)
            following, squared = ((chance[1:] * each).sum(axis=1) for each in (every, every**2))
            again = np.where(more > 0, 1.0, (1 - direct) * (1 - free))
            spread = spread + again * (squared - following**2)
            by_length = by_length + again * (chance[1:, 1:] * seconds**2 * uneven).sum(axis=1)
            spread = spread + np.where(more > 0, 0.0, direct * (1 - direct) * (others - alone) ** 2)
        ttft = idle * self.cold + calmly * decoded + (finds * met).sum(axis=0)
        spread = (
            idle * (self.cold - ttft) ** 2
            + calmly * ((decoded - ttft) ** 2 + plain**2 / 12)
            + (finds * ((met - ttft) ** 2 + spread)).sum(axis=0)
        )
        waits = np.clip(load ** (np.sqrt(2 * (room + 1)) - 1), 1e-9, 1.0)  # Sakasegawa 1977
        heavy = load * (seconds[-1] / room) ** 2 * ((1 + varied) ** 3 - 1) / (3 * (1 - bound))
        by_length = (finds * by_length).sum(axis=0) + heavy
        left = regularity(np.minimum(busy / cycle, NEARLY), self.uneven, varied)
        over = over * left
        ttft = ttft + over
        variance = spread + by_length + over**2 * (2 / waits - 1)
        moments = {"variance": variance, "by_length": by_length}
        begins = shares * numbers / prompts
        if not t.mixes:
            after_own = np.maximum((begins * self.between.until).sum(axis=0), 0.0)
            # a long step brings more arrivals
            longer = self.uneven * rate * (finds * seconds * varied / numbers).sum(axis=0)
            least = ((begins * seconds).sum(axis=0) + over) * self.apart / (1 - self.apart)
            left = self._beside(self.phases.left, decodes) * self._behind((begins * seconds).sum(axis=0) + over)
            after_own = np.maximum(after_own, least) * (1 + longer / (begins * numbers).sum(axis=0))
            excess = after_own * left - (self._beside(self.interval, decodes) - plain) + self._between_own(decodes)
            own_step = (begins * seconds).sum(axis=0)
            return Prompting(ttft, excess, own_step / (own_step + over), **moments)
        # the steps after a request's own return to the stationary mean
        often = stationary(chance)
        usual = (often * every).sum(axis=0)
        first = (begins[:, np.newaxis] * chance[1:]).sum(axis=0)
        second = (first[:, np.newaxis] * chance).sum(axis=0)
        longer, still = ((part * every).sum(axis=0) - usual for part in (first, second))
        kept = np.clip(still / np.where(np.abs(longer) > 1e-12 * usual, longer, 1.0), 0.0, 0.99)
        turns = np.floor(more / 2) if t.ahead else more  # arrivals join the next step or the one after
        excess = longer * (1 - kept**turns) / (1 - kept)
        if t.ahead:
            excess = excess - idle * (usual - plain)
        added = np.maximum(seconds[-1] - plain, 0.0) / room
        crowd = rate * over * np.maximum(1 - usual / seconds[-1], 0.0) * added * usual / np.maximum(plain, 1e-12)
        soon = added * np.minimum(rate * over, room - np.minimum((begins * means[1:]).sum(axis=0), room))
        excess = excess + self._between_own(decodes)
        number = np.maximum(more / self.weight, 1.0)
        even = dispersed(rate * usual * number, self.uneven)
        spread = even * variance_of_mean(chance, often, every, number)
        lengths = (often[1:] * seconds**2 * uneven).sum(axis=0) / number  # independent in each step
        excess = excess + crowd * -np.expm1(-turns * soon / np.maximum(crowd, 1e-30))
        return Prompting(ttft, excess, **moments, spread=spread + lengths, spread_by_length=lengths)
