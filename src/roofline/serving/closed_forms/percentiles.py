"""Percentiles of TTFT, TPOT and latency: of requests that were followed, or around the formula's means by a variance.

The formula gives means. What a request takes beyond the least possible is modelled by a gamma distribution of that
mean, or a lognormal one as far as lengths make it vary. Its variance sums what is random: which step is under way when
a request arrives and how much of it is left, the prompts in the same step and before it, the prompts that arrive while
it decodes, and the drafts that are accepted. This is an approximation, as good as the formula's means at best; it keeps
these means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import ClassVar

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, most, where
from roofline.declared.result import Figured, Leaf, Units
from roofline.inference.span import Span, shaped
from roofline.serving.closed_forms.queueing import ReplicaTimes, dispersed

SHARES = (0.5, 0.9, 0.95, 0.99)
"""Shares of the requests for which percentiles are given."""
DEVIATIONS = (0.0, 1.2815515655446004, 1.6448536269514722, 2.3263478740408408)
"""Quantiles of the standard normal distribution at these shares."""
MOST_VARIED = 4.0
"""Largest variance of the random part, over the square of its mean."""
IDLE = 0.05
"""Least share of fluctuations in the number of decodes that does not amplify itself."""
QUEUED = 3.0
"""Standard deviation of a long wait behind prompts, over the seconds of one prompt; a queue that never empties varies
little. Simulated servers with more users than prompts they can take give 1.1 to 8.8."""


def normal_quantile(share: Array) -> Array:
    """Quantiles of the standard normal distribution, to 7 digits (Wichura 1988, algorithm AS 241, PPND7)."""
    share = np.clip(share, 1e-10, 1 - 1e-10)
    q = share - 0.5
    r = 0.180625 - np.minimum(q * q, 0.180625)
    middle = q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179)
    middle = middle / (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1)
    r = np.sqrt(-np.log(np.minimum(share, 1 - share))) - 1.6
    tail = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
    tail = tail / ((0.12021132975 * r + 0.73700164250) * r + 1)
    return np.asarray(np.where(np.abs(q) <= 0.425, middle, np.sign(q) * tail))


@dataclass(frozen=True)
class Tail(Figured):
    """Seconds that 50, 90, 95 and 99 % of the requests do not exceed."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("p50", "p90", "p95", "p99"), "s")

    p50: Count
    p90: Count
    p95: Count
    p99: Count

    def shaped(self, shape: tuple[int, ...]) -> Tail:
        """Plain numbers for shape (), else arrays of that shape."""
        return self.each(lambda seconds: shaped(seconds, shape))

    def each(self, change: Callable[[Count], Count]) -> Tail:
        """Apply a function to all four percentiles."""
        return Tail(*(change(getattr(self, name)) for name in self.FIGURES))


@dataclass(frozen=True)
class Tails(Figured):
    """Percentiles of TTFT, TPOT and latency."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("ttft", "tpot", "latency"), "s")

    ttft: Tail
    tpot: Tail
    latency: Tail

    def shaped(self, shape: tuple[int, ...]) -> Tails:
        """Plain numbers for shape (), else arrays of that shape."""
        return Tails(*(tail.shaped(shape) for tail in (self.ttft, self.tpot, self.latency)))


@dataclass(frozen=True)
class Percentiles(Tails):
    """Percentiles of TTFT, TPOT and latency, with intervals.

    `approximate`: whether they follow from means and variances and not from requests that were followed. `low`, `high`:
    ends of the interval in which 80 % of measurements of each percentile fall.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys((*Tails.FIGURES, "low", "high"), "s")

    approximate: bool = False
    low: Tails | None = None
    high: Tails | None = None

    def leaves(self, name: str, unit: str) -> Iterator[Leaf]:
        """As columns `ttft_p50` and so on, with the interval's ends as `ttft_p50_low` and `ttft_p50_high`."""
        ends = {"": self, "_low": self.low, "_high": self.high}
        for figure in Tails.FIGURES:
            for part in Tail.FIGURES:
                yield from (
                    (f"{figure}_{part}{end}", getattr(getattr(tails, figure), part), unit)
                    for end, tails in ends.items() if tails is not None
                )  # fmt: skip

    def shaped(self, shape: tuple[int, ...]) -> Percentiles:
        """Plain numbers for shape (), else arrays of that shape."""
        low, high = (None if tails is None else tails.shaped(shape) for tails in (self.low, self.high))
        tails = Tails.shaped(self, shape)
        return Percentiles(tails.ttft, tails.tpot, tails.latency, self.approximate, low, high)

    def chosen(self, these: Array, others: Percentiles) -> Percentiles:
        """Select elementwise: these percentiles where `these` is true, else those of `others`."""

        def tail(figure: str) -> Tail:
            own, other = getattr(self, figure), getattr(others, figure)
            return Tail(*(where(these, getattr(own, part), getattr(other, part)) for part in Tail.FIGURES))

        ttft, tpot, latency = map(tail, Tails.FIGURES)
        return Percentiles(ttft, tpot, latency, self.approximate or others.approximate)

    def within(self, first: Callable[[Count], Span], following: Span, whole: Span) -> Percentiles:
        """Add intervals: `first` gives that of a TTFT; those of TPOT and latency scale with their means'."""

        def ends(end: str) -> Tails:
            def as_wide(mean: Span) -> Callable[[Count], Count]:
                return lambda seconds: most(mean.floor, seconds * (getattr(mean, end) / mean.expected))

            ttft = self.ttft.each(lambda seconds: getattr(first(seconds), end))
            return Tails(ttft, self.tpot.each(as_wide(following)), self.latency.each(as_wide(whole)))

        return replace(self, low=ends("low"), high=ends("high"))


@dataclass(frozen=True)
class Varied:
    """Random seconds between `least` and `greatest`, with this mean and variance; numbers or arrays.

    `by_length`: part of the variance that is due to the lengths of requests; `lengths`: squared coefficient of
    variation of these, 0 where it is that of the whole. `never`: probability that nothing is added to `least`.
    """

    least: Array
    mean: Array
    variance: Array
    greatest: Array | float = inf
    by_length: Array | float = 0.0
    lengths: Array | float = 0.0
    never: Array | float = 0.0

    def __add__(self, other: Varied) -> Varied:
        """The sum of two independent ones."""
        by_length = self.by_length + other.by_length
        lengths = self.lengths * self.by_length + other.lengths * other.by_length
        return Varied(
            self.least + other.least, self.mean + other.mean, self.variance + other.variance,
            self.greatest + other.greatest, by_length, lengths / np.maximum(by_length, 1e-300),
            self.never * other.never,
        )  # fmt: skip

    def times(self, factor: Count) -> Varied:
        """These seconds multiplied by a factor."""
        greatest = np.where(np.asarray(factor) > 0, self.greatest * np.maximum(factor, 1e-12), 0.0)
        square = np.asarray(factor) * factor
        variance, by_length = self.variance * square, self.by_length * square
        return Varied(self.least * factor, self.mean * factor, variance, greatest, by_length, self.lengths, self.never)

    def tail(self) -> Tail:
        """Seconds that the `SHARES` of the requests do not exceed.

        With k = mean²/variance these are the gamma quantile mean·(1 − 1/9k + z/3√k)³ (Wilson and Hilferty, PNAS 17,
        1931) and the lognormal quantile mean·exp(zσ − σ²/2), σ² = ln(1 + 1/k). The two are weighted: lognormal by the
        part of the variance due to lengths, gamma by the rest.
        """
        every = np.maximum(self.mean - self.least, 0.0)
        over = self.variance / np.maximum(every**2, 1e-300)
        # where something is added, with probability p, its mean is 1/p times, and its second moment too
        some = np.maximum(1 - np.minimum(self.never, over / (1 + over)), 1e-9)
        over, added = np.minimum(np.maximum((1 + over) * some - 1, 0.0), MOST_VARIED), every / some
        least = self.mean - every
        root = np.sqrt(over) / 3
        greatest = np.maximum(self.greatest, self.mean)
        part = np.clip(self.by_length / np.maximum(self.variance, 1e-300), 0.0, 1.0)
        varied = np.where(np.asarray(self.lengths) > 0, self.lengths, over)
        square, deviations = np.log1p(varied), np.sqrt(over / np.maximum(varied, 1e-300))

        seldom = some < 1

        def beyond(share: float, deviation: float) -> Array:
            z = np.where(seldom, normal_quantile(1 - (1 - share) / some), deviation) if seldom.any() else deviation
            gamma = np.maximum(1 - over / 9 + z * root, 0.0) ** 3
            lognormal = 1 + deviations * np.expm1(z * np.sqrt(square) - square / 2)
            seconds = least + added * np.maximum((1 - part) * gamma + part * lognormal, 0.0)
            return np.asarray(np.where(1 - share < some, np.minimum(seconds, greatest), least))

        return Tail(*map(beyond, SHARES, DEVIATIONS))


@dataclass(frozen=True)
class Steady:
    """Requests of a group in steady state. Times are seconds; the variations are variances over squared means.

    `rate`: requests per second. `others`: from 0 for a request that is alone to 1 for many. `late`: time until the
    scheduler sees a request, `soonest` the shortest such time. `ttft`: mean from then to the first token. `tpot`: mean
    for each of the `more` further tokens. `varied`: variation of the number of steps of a request. `step`: mean of a
    step. `round`: time after which each user sends again, infinite for random arrivals. `prompts_vary`, `answers_vary`:
    variation of lengths. `longer`: mean time per token over all tokens, divided by `tpot`, the mean over requests.
    `apart`: of random arrivals, variance of a request's TPOT due to prompts, in s². `uneven`: squared coefficient of
    variation of the gaps between arrivals, 1 for Poisson arrivals, 1/R where R replicas take turns. `waiting`,
    `waiting_by_length`: of random arrivals, `variance` and `by_length` of `queueing.Prompting`. `apart_by_length`: part
    of `apart` that comes from the lengths of prompts. `ranks`: groups that run every step together.
    `weight`: E[1/n]·E[n] of the further tokens n.
    """

    rate: Array
    others: Array
    late: Array
    soonest: Array
    ttft: Array
    tpot: Array
    more: Array
    varied: Array
    step: Array
    round: Array
    prompts_vary: Array
    answers_vary: Array
    longer: Array
    apart: Array
    uneven: Array
    waiting: Array
    waiting_by_length: Array
    apart_by_length: Array
    ranks: Array
    weight: Array


@dataclass(frozen=True)
class Chances:
    """The random parts of TTFT, TPOT and latency, for requests in steady state and the steps that serve them."""

    table: ReplicaTimes
    steady: Steady

    @cached_property
    def percentiles(self) -> Percentiles:
        """Percentiles of TTFT, TPOT and latency."""
        latency = self.first + self._answering
        return Percentiles(self.first.tail(), self.following.tail(), latency.tail(), True)

    @property
    def _answering(self) -> Varied:
        """Seconds after the first token: the TPOT for each further token. Answers that vary may be short."""
        s = self.steady
        varied, all_equal = s.answers_vary, self.following.times(s.more * s.longer)
        by_length = varied * all_equal.mean**2
        variance = all_equal.variance / (1 + varied) + by_length
        some = varied > 0
        least, greatest = np.where(some, 0.0, all_equal.least), np.where(some, inf, all_equal.greatest)
        return Varied(least, all_equal.mean, variance, greatest, by_length, varied)

    # -- an ordinary step ------------------------------------------------------------------------------------------
    @cached_property
    def decodes(self) -> Array:
        """Decodes of an average step."""
        s = self.steady
        return np.asarray(np.minimum(np.maximum(s.rate * s.more * s.tpot * s.longer, 1.0), self.table.decodes[-1]))

    @cached_property
    def plain(self) -> Array:
        """Seconds of a decode-only step."""
        return self.table.at(self.table.alone, self.decodes)

    @cached_property
    def full(self) -> Array:
        """Seconds of a step with a prompt, or with a chunk of one."""
        return self.table.at(self.table.mixed[0], self.decodes)

    @property
    def own(self) -> Array:
        """Seconds that a prompt takes."""
        return self.table.chunks * self.full

    @cached_property
    def shortest(self) -> Array:
        """Part of these seconds that even the shortest prompt takes."""
        if not np.any(self.steady.prompts_vary > 0):
            return self.own
        growing = np.sqrt(self.varied / np.maximum(self.steady.prompts_vary, 1e-12))
        return np.asarray(self.own * np.clip(1 - growing, 0.0, 1.0))

    @cached_property
    def varied(self) -> Array:
        """Squared coefficient of variation of a prompt's seconds."""
        each = self.table.varied(self.steady.prompts_vary)
        return self.table.at(each + 0 * self.table.alone, self.decodes)

    @property
    def rate(self) -> Array:
        """Requests per second of the others."""
        return self.steady.rate * self.steady.others

    @cached_property
    def prompts(self) -> Array:
        """Share of the time in which prompts of others are computed."""
        return np.asarray(np.minimum(self.rate * self.own, 1.0))

    @cached_property
    def some(self) -> Array:
        """Share of the steps with prompts of others, of any of the ranks that run every step together.

        Where prompts share a step their number is Poisson.
        """
        prompts, full, plain = self.prompts, self.full, self.plain
        one_by_one = prompts * plain / np.maximum((1 - prompts) * full + prompts * plain, 1e-300)
        shared = self.several & self.table.mixes
        some = np.where(shared, -np.expm1(-self.rate * self.steady.step), one_by_one)
        return np.asarray(1 - (1 - some) ** self.steady.ranks)

    @cached_property
    def usual(self) -> Array:
        """Seconds of a step with prompts of others. Where prompts share it, the mean step says how long it is."""
        s, some, shared = self.steady, self.some, self.several & self.table.mixes & (self.steady.more > 0)
        longer = (s.step * s.longer - (1 - some) * self.plain) / np.maximum(some, 1e-12)
        return np.asarray(np.where(shared, np.maximum(longer, self.full), self.full))

    @cached_property
    def prompting(self) -> Array:
        """Share of the time that steps with prompts of others take."""
        some, usual = self.some, self.usual
        return np.asarray(some * usual / np.maximum(some * usual + (1 - some) * self.plain, 1e-300))

    @cached_property
    def several(self) -> Array:
        """Whether prompts share a step."""
        return np.asarray(self.table.at(self.table.room, self.decodes) >= 2)

    @cached_property
    def random(self) -> Array:
        """Whether requests arrive at random, and not from users who wait for answers."""
        return np.isinf(self.steady.round)

    # -- TTFT ------------------------------------------------------------------------------------------------------
    @cached_property
    def first(self) -> Varied:
        """TTFT; the least is that of a lone prompt.

        A random part of the step under way is left when a request arrives. Users whose answer ended with a step and who
        are back before the next one ends are the exception. With asynchronous scheduling another step follows. Other
        requests that arrive meanwhile run in the request's own step, or before it where they do not fit. What the mean
        has beyond all this is a wait in a queue.
        """
        t, s, own = self.table, self.steady, self.own
        left, variance = self._under_way
        if t.ahead:
            after, chance = (self.usual, self.some) if t.mixes else (np.zeros_like(own), self.prompts)
            left = left + chance * after + (1 - chance) * self.plain
            variance = variance + chance * (1 - chance) * (after - self.plain) ** 2
        more = t.at(t.step(np.asarray(2.0)) - t.step(np.asarray(1.0)), self.decodes)
        each, together = np.where(self.several, more, own), self.rate * self._met
        waits = np.maximum(s.ttft - own - left * self._anyone - together * each * s.others, 0.0)
        longer = 1 + self.varied
        beside = together * each**2 * longer
        variance = variance * self._anyone + beside * s.others + 2 / 3 * np.minimum(waits, own) * own * longer
        queue = (QUEUED * own) ** 2 * longer
        bounded = queue / (waits**2 + queue)
        variance = variance + waits**2 * bounded
        with_host = np.sqrt(self.varied) * own + np.sqrt(s.prompts_vary) * (s.late - s.soonest)
        # of a step with a long prompt more is left, λ·E[S³]/3 for its seconds S, and the following step is long too
        heavy = self.rate * each**3 * ((1 + s.prompts_vary) ** 3 - 1) / 3
        following = self.some * each**2 * s.prompts_vary if t.ahead else 0.0
        by_length = with_host**2 + (heavy + following) * s.others
        variance = np.where(self.random, s.waiting + with_host**2, variance + by_length)
        by_length = np.where(self.random, s.waiting_by_length + with_host**2, by_length)
        ahead = self.plain * (1 + t.ahead)
        bound = self._placed & (s.prompts_vary <= 0)
        greatest = s.late + ahead + own * np.where(bound, self._users, inf)
        least = np.minimum(self.shortest, s.ttft) + np.where(s.prompts_vary > 0, s.soonest, s.late)
        lengths = np.maximum(s.prompts_vary, self.varied)  # attention grows with the square of a length
        return Varied(least, s.ttft + s.late, variance, greatest, by_length, lengths)

    @property
    def _anyone(self) -> Array:
        """Probability that a request finds a step under way: one of the other users is not away, or any of many."""
        s, others = self.steady, np.maximum(np.where(self.random, 0.0, self._users) - 1, 0.0)
        away = np.clip(s.late / np.maximum(s.round, 1e-300), 0.0, 1.0)
        some = np.where(others >= 1, 1 - away ** np.maximum(others, 1.0), others * (1 - away))
        return np.where(self.random, s.others, some)

    @property
    def _users(self) -> Array:
        """Users of the group, by Little's law; infinite for random arrivals."""
        return np.asarray(self.steady.rate * self.steady.round)

    @property
    def _placed(self) -> Array:
        """Whether all users run at once, so that a request waits only for prompts of others, at most one of each."""
        return np.asarray(self._users <= self.table.decodes[-1] + 1e-6)

    @property
    def _met(self) -> Array:
        """Mean seconds of the step under way at a random time."""
        return np.asarray(self.prompting * self.usual + (1 - self.prompting) * self.plain)

    @property
    def _under_way(self) -> tuple[Array, Array]:
        """Mean and variance of the seconds left of the step under way when a request arrives."""
        prompts, full, plain, some, late = self.prompting, self.usual, self.plain, self.some, self.steady.late
        aligned = ~self.random & (late < plain)
        left = np.where(aligned, some * full + (1 - some) * plain - late, self._met / 2)
        uneven = some * (1 - some) * (full - plain) ** 2
        variance = np.where(aligned, uneven, (prompts * full**2 + (1 - prompts) * plain**2) / 3 - left**2)
        there = aligned & (late <= 0)  # users are back before the next step begins
        return np.where(there, 0.0, left), np.where(there, 0.0, variance)

    # -- TPOT ------------------------------------------------------------------------------------------------------
    @cached_property
    def following(self) -> Varied:
        """TPOT: at least a decode-only step, and longer by the prompts that arrive while a request decodes.

        Where a random number of drafts is accepted, the least is 0.
        """
        s = self.steady
        least = np.where(s.varied > 0, 0.0, np.minimum(self.plain, s.tpot))
        t = self.table
        slowest = np.maximum(t.at(t.step(self._users), self.decodes), self.plain)  # a token takes one such step
        equal = (s.varied <= 0) & (s.prompts_vary <= 0)
        greatest = np.where(t.mixes & (s.varied <= 0), np.where(self._placed & equal, slowest, self._fullest), inf)
        accepted = s.varied * s.tpot**2 * (1 + s.answers_vary)
        beside = self._prompts_beside * (1 + s.answers_vary)
        by_length = np.where(s.prompts_vary + s.answers_vary > 0, beside + accepted, 0.0)
        few, few_by_length, lengths = self._few_prompts
        rare = few > s.apart
        beside = np.where(self.random, np.maximum(few, s.apart), beside)
        by_length = np.where(self.random, np.where(rare, few_by_length, s.apart_by_length), by_length)
        lengths = np.where(self.random & rare, lengths, 0.0)
        return Varied(least, s.tpot, beside + accepted + self._crowd, greatest, by_length, lengths, self._undisturbed)

    @property
    def _few_prompts(self) -> tuple[Array, Array, Array]:
        """Variance of TPOT where few prompts delay an answer, its part by lengths, and the variation of these lengths.

        A Poisson number of prompts each adds a/n seconds per token to an answer of n further tokens, so that what is
        added has a variance of its mean times E[a²/n²]/E[a/n]. Prompts arrive during the request's own prompt, however
        short its answer is, and during its decode steps. No token takes longer than a full step.
        """
        s, t = self.steady, self.table
        plain = self.plain * s.tpot / s.step  # seconds per token, of which drafts give a step several
        own = self.own / np.maximum(self.own + s.more * plain, 1e-300)
        w = s.weight
        each = self._added / np.maximum(s.more, 1.0)
        shorter = (own * w**3 + (1 - own) * w) / (own * w + 1 - own)
        added = np.maximum(s.tpot - plain, 0.0)
        behind = added / np.maximum(each * (own * w + 1 - own), 1e-300) / np.maximum(self._exposed, 1e-300)
        clusters = 2 * np.maximum(behind, 1.0) - 1  # E[K²]/E[K] of a geometric number: prompts delay others behind them
        even = dispersed(self._exposed, s.uneven)
        varies = added * each * (even + self.varied) * shorter * (1 + even * (clusters - 1))
        if t.mixes:
            varies = np.minimum(varies, np.maximum(self._fullest - s.tpot, 0.0) * added)  # Bhatia and Davis 2000
        lengths = (1 + s.prompts_vary) * (1 + own * (w**2 - 1)) - 1
        return varies, varies * (1 - 1 / ((1 + self.varied / even) * shorter)), lengths

    @property
    def _fullest(self) -> Array:
        """Seconds of a step full of prompts, which no token exceeds where they share steps."""
        t = self.table
        return np.asarray(np.maximum(t.at(np.maximum(t.partly[-1], t.mixed[-1]), self.decodes), self.steady.tpot))

    @property
    def _added(self) -> Array:
        """Seconds that a prompt adds to a step with as many as are usual."""
        t, s = self.table, self.steady
        fresh = np.maximum(np.minimum(s.rate * s.step, t.at(t.room, self.decodes)), 1.0)
        longer = np.maximum(t.at(t.step(fresh), self.decodes) - t.at(t.base, self.decodes), 0.0)
        return np.asarray(t.chunks * longer / fresh)

    @property
    def _undisturbed(self) -> Array:
        """Share of the answers that no prompt delays, as none arrives from the start of the request's own prompt until
        the last step but one; 0 of arrivals that are not Poisson."""
        poisson = self.random & (self.steady.varied <= 0) & (self.steady.uneven >= 1)
        return np.asarray(np.where(poisson, np.exp(-self._exposed), 0.0))

    @property
    def _exposed(self) -> Array:
        """Mean number of prompts that arrive from the start of a request's own prompt to its last step but one."""
        t, s = self.table, self.steady
        steps = s.more if t.ahead or not t.mixes else np.maximum(s.more - 1, 0.0)
        return np.asarray(s.rate * s.ranks * (self.own + steps * self.plain * s.tpot / s.step))

    @property
    def _prompts_beside(self) -> Array:
        """Variance of TPOT due to prompts of other users, whose number is about Poisson.

        Up to half of it goes, since each user sends about once per round; less so the more answers vary. Where steps
        are always full of prompts, none is left. The seconds that a prompt adds vary as much as those of the prompt
        itself.
        """
        t, s = self.table, self.steady
        decoding = s.more * s.tpot
        turns = 1 - np.minimum(s.answers_vary, 1.0)
        number = self.rate * decoding * (1 - turns * np.minimum(decoding / s.round, 1.0) / 2)
        if t.mixes:
            most = np.maximum(t.at(t.per_step, self.decodes), 1e-12)
            number = number * (1 - np.minimum(s.rate * s.step / most, 1.0))
        square = self._added**2 + self.varied * self.own**2
        return np.asarray(number * square / np.maximum(s.more, 1.0) ** 2)

    @property
    def _crowd(self) -> Array:
        """Variance of TPOT due to the number of decodes, which is Poisson for random arrivals and amplifies itself."""
        s, deviation = self.steady, np.sqrt(self.decodes)
        more, fewer = self.decodes + deviation, np.maximum(self.decodes - deviation, 1.0)
        wider = (self.table.at(self.table.alone, more) - self.table.at(self.table.alone, fewer)) / 2
        longer = wider / (np.maximum(s.step, self.plain) if self.table.mixes else self.plain)
        grown = np.minimum(longer * deviation, 1 - IDLE)
        return np.where(self.random, (longer * s.tpot) ** 2 / (1 - grown), 0.0)
