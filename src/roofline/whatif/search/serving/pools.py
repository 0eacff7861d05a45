"""Prefill and decode pools in arrays: the highest load of every pair of layouts and every split of the chips.

The step times of a layout are computed once, in a table over numbers of prompts and of sequences. The best splits are
evaluated again with `pools`. Up to `WHOLE` splits per pair of kinds are all evaluated; beyond that, those that a bound
does not rule out (`serving_splits`). Where these are more than `MOST_SPLITS`, evenly spaced ones are evaluated, and
then those around the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import Load
from roofline.declared.numbers.arrays import Array
from roofline.inference.span import Span, exactly
from roofline.serving.closed_forms.attainment import pool_percentiles
from roofline.serving.closed_forms.disaggregated_queue import Passage, Tandem
from roofline.serving.closed_forms.percentiles import Percentiles
from roofline.serving.pool_sizing import Columns, Pair, Replicas, TimedPools, Timings
from roofline.serving.pools import Pools, pools_serving
from roofline.serving.transfer import moved_bytes, networks
from roofline.whatif.query.figures import Aim
from roofline.whatif.search.demand import Limits, ServedTimes
from roofline.whatif.search.serving.layouts import Degrees
from roofline.whatif.search.serving.plans import (
    UNKNOWN_PERCENTILES,
    Group,
    ServingPlan,
    Site,
    part,
    percentiles_of,
    pool_sizes,
    unanswered,
)
from roofline.whatif.search.serving.space import Looked, ReplicaKinds, SiteSpace
from roofline.whatif.search.serving.splits import ROUNDING, BoundedSplits, PoolRates, Splits, SplitSpace, pool_rates

HALVINGS = 14
"""Bisection steps for the rate of two pools."""
NEAR = np.arange(-3, 3).reshape(-1, 1)
"""Offsets around the concurrency found; the last that keeps the limits is taken."""
FEWER = 0.8
"""Share of the splits that are left below which the others are dropped from the bisection."""
EXACT = 24
"""Number of best splits per kind that are evaluated exactly."""
WHOLE, MANY_LEFT, MOST_SPLITS = 2**14, 2**15, 2**19
"""Splits per pair of kinds: up to the first number all are evaluated, and up to the last all that a bound leaves.
Beyond the second, those around the best of a sample come first, which raises the bound.
"""
SAMPLE, SHRINKS = 2**11, 0.7
"""Sample size for a lower bound on the best score, and the remaining share above which sampling stops."""
FACTORS = (1.0, *(f for step in (0.003, 0.01, 0.03, 0.1, 0.3) for f in (1 - step, 1 + step)))
"""Factors by which a good split's numbers of replicas are changed, besides by one replica more or less."""
ROUNDS, SETTLED = 24, 1e-5
"""Maximum number of rounds around the best splits, and the relative gain below which there is no further one."""
SPREAD, STARTS = 2**13, 64
"""Size of the sample before these rounds, and the pairs of layouts around whose best split the first one is."""
GAINS = (1.0001, 1.001, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Factors of the best score at which it is asked whether a bound leaves any split."""
LIGHTEST = 2**8
"""Splits evaluated per pair of kinds where none keeps the limits."""
LEAST = 1e-100
"""A score below that of any split that keeps the limits."""
MOST_PAIRS = 2**18
"""Maximum number of pairs of layouts for two pools."""


# -- disaggregated serving -----------------------------------------------------------------------------------------
def disaggregated(space: SiteSpace, prefill: Site, decode: Site, demand: Load, limits: Limits, aim: Aim) -> Looked:
    """Every pair of a prefill layout and a decode layout, with every number of replicas of either.

    Without a load: the most requests in flight within the limits. With a load: every split that keeps them. Both pools
    hold weights and caches in the same formats.
    """
    if prefill.where.precision != decode.where.precision:
        return Looked((), 0, 0)
    sites = (prefill, decode)
    if not connected(space, prefill, decode):
        return Looked((), 0, 0, ((f"no network known between {prefill.chip.id} and {decode.chip.id}", 1),))
    least, every = 0.0, list[_Walked]()
    for pair in pool_pairs(space, sites, demand, limits):
        late = bool(every) and space.clock.is_over
        every.append(pair.unwalked(aim) if late else pair.walked(least, aim))
        best = np.sort(np.concatenate([walked.score for walked in every]))[::-1][:EXACT]
        least = float(best[-1]) if len(best) == EXACT else 0.0
    plans = tuple(plan for walked in every for plan in walked.plans(max(least, LEAST)))
    worked, total = sum(walked.worked for walked in every), sum(walked.pair.splits.number for walked in every)
    missed, never = sum(walked.missed for walked in every), sum(walked.never for walked in every)
    unseen = sum(walked.unseen for walked in every)
    reasons = {"limits": missed + never, "bound": max(0, total - worked - never - unseen)}
    left_out = tuple((reason, number) for reason, number in reasons.items() if number)
    beyond = _beyond(every, max((float(walked.score[0]) for walked in every if len(walked.score)), default=0.0))
    return Looked(plans, total, worked * (1 if demand.given else HALVINGS), left_out, unseen, beyond)


def _beyond(every: Sequence[_Walked], best: float) -> float | None:
    """What the score of splits that were not looked at cannot exceed, over the best score; None if unknown."""
    rest = [walked for walked in every if walked.unseen]
    if not rest:
        return 1.0
    if best <= 0 or any(walked.aim.faster for walked in rest):
        return None
    return next((gain for gain in GAINS if not any(w.pair.bounded(gain * best).number for w in rest)), None)


def pool_pairs(space: SiteSpace, sites: tuple[Site, Site], demand: Load, limits: Limits) -> tuple[_PoolPair, ...]:
    """Pairs of prefill and decode kinds with room for a replica of each. Raises InputError for too many layouts."""
    legal = [space.replicas(site, demand).kinds for site in sites]
    layouts = [sum(len(kinds.degrees) for kinds in each) for each in legal]
    if layouts[0] * layouts[1] > MOST_PAIRS:
        raise InputError("layouts", f"{layouts[0]} × {layouts[1]}", f"at most {MOST_PAIRS} pairs of them for two pools")
    pairs = (_PoolPair(space, sites, demand, limits, (first, then)) for first, then in product(*legal))
    return tuple(pair for pair in pairs if pair.splits.number)


def connected(space: SiteSpace, prefill: Site, decode: Site) -> bool:
    """Whether a network between the machines of two pools is known."""
    try:
        networks(decode.on, prefill.on, min(space.chips, space.room(decode)))
    except InputError:
        return False
    return True


def lightest_pools(
    space: SiteSpace, sites: Sequence[tuple[Site, Site]], demand: Load, limits: Limits
) -> tuple[ServingPlan, ...]:
    """For each limit, the pools that use least of it, under the load or with one request, from a sample of splits."""
    least: dict[int, tuple[float, _PoolPair, Splits]] = {}
    flight = demand.concurrency or 1
    for pair in (pair for both in sites for pair in pool_pairs(space, both, demand, limits)):
        every = pair.bounded(0.0)
        splits = every.sample(min(LIGHTEST, every.number))
        tandem = pair.tandem(splits)
        if demand.rate is None:
            taken, p = np.ones(len(splits), dtype=bool), tandem.always(np.full(len(splits), float(flight)))
        else:
            most = tandem.capacity * 0.999
            taken, p = demand.rate < most, tandem.at(np.minimum(demand.rate, most))
        used = np.where(taken, limits.shares(limits.limited(*pair.times(tandem, p))), np.inf)
        for limit, each in enumerate(used):
            i = int(np.argmin(each))
            if 0 < each[i] < least.get(limit, (np.inf,))[0]:
                least[limit] = float(each[i]), pair, splits.where(np.array([i]))
    return tuple(pair.alone(splits, int(flight)) for _, pair, splits in least.values())


@dataclass(frozen=True)
class _PoolPair:
    """A prefill and a decode pool with fixed numbers of pipeline stages."""

    space: SiteSpace
    sites: tuple[Site, Site]
    demand: Load
    limits: Limits
    kinds: tuple[ReplicaKinds, ReplicaKinds]

    @cached_property
    def degrees(self) -> tuple[Degrees, Degrees]:
        """The layouts of both pools."""
        return self.kinds[0].degrees, self.kinds[1].degrees

    @cached_property
    def splits(self) -> SplitSpace:
        """Every number of replicas of every pair of layouts."""
        rooms = self.space.room(self.sites[0]), self.space.room(self.sites[1])
        apart = self.sites[0].on != self.sites[1].on
        first, then = (np.asarray(degrees.chips) for degrees in self.degrees)
        each = np.repeat(first, len(then)), np.tile(then, len(first))
        most = self.space.together(self.sites)
        return SplitSpace(each, rooms, most if apart else min(most, *rooms), len(then))

    @cached_property
    def columns(self) -> Columns:
        """Step times of both kinds of replicas."""
        known, key = self.space.columns, (id(self.kinds[0]), id(self.kinds[1]))
        if key not in known:
            pair = _pair(self.space, self.sites, self.demand, self.degrees)
            shape = len(self.degrees[0]), len(self.degrees[1])
            timings, load = self.space.timings, Load(input=pair.input, output_tokens=pair.output, concurrency=1)
            first = timings.setdefault((key[0], "prefill", shape), Timings(pair.of_prefills, shape))
            then = timings.setdefault((key[1], "decode", shape), Timings(pair.of_decodes, shape))
            known[key] = Columns(pair, load, shape, (first, then))
        return known[key]

    def tandem(self, splits: Splits) -> Tandem:
        """The two pools with these numbers of replicas, as a disaggregated queue."""
        return self.columns.of(splits.first * self.columns.shape[1] + splits.then, splits.prefills, splits.decodes)

    def keeps(self, tandem: Tandem, p: Passage) -> Array:
        """Whether the expected figures keep all limits; `strict` is checked later, for the best splits only."""
        expected = replace(self.limits, strict=False)
        return np.asarray(expected.used(*self.times(tandem, p)) <= 1)

    def times(self, tandem: Tandem, p: Passage) -> tuple[ServedTimes, Percentiles]:
        """Expected means and percentiles."""
        ttft, more = tandem.first_token(p), self.demand.output_tokens - 1
        means = exactly(ttft), exactly(p.step), exactly(ttft + more * p.step)
        if self.limits.share is None:
            return means, UNKNOWN_PERCENTILES
        asked = self.space.requests(self.demand)
        vary = (asked.prompts_vary, asked.answers_vary)
        return means, pool_percentiles(ttft, p.step, more, (p.prefill_wait, p.decode_wait), vary)

    def alone(self, splits: Splits, flight: int) -> ServingPlan:
        """The first of the splits as a plan, whether or not it keeps the limits."""
        first, then = self.degrees[0].one(int(splits.first[0])), self.degrees[1].one(int(splits.then[0]))
        groups = (
            Group(self.sites[1], then, int(splits.decodes[0])),
            Group(self.sites[0], first, int(splits.prefills[0])),
        )
        plan = unanswered(self.space.model, self.demand, self.limits, groups, flight, self.space.images)
        return plan.answered(plan.evaluated())

    def exactly(self, splits: Splits, flights: Array) -> tuple[ServingPlan, ...]:
        """Evaluate splits with `pools` and return the plans that keep the limits.

        At a rate the waits for prefill are the formula's, and `followed_plans` asks again. With `strict` limits and no
        load, the number of requests in flight is reduced until they hold.
        """
        if not len(splits):
            return ()
        space, sites, demand, limits = self.space, self.sites, self.demand, self.limits
        first, then = self.degrees[0].where(splits.first), self.degrees[1].where(splits.then)
        sizes = pool_sizes(sites, first.layout(0), (splits.prefills, splits.decodes))
        places, tandem = splits.first * self.columns.shape[1] + splits.then, self.tandem(splits)

        def answer(flights: Array) -> tuple[Pools, Percentiles, Array]:
            load = demand if demand.given else replace(demand, concurrency=flights)
            settled = self.columns.settled(places, tandem, (splits.prefills, splits.decodes), load)
            p = pools_serving(
                space.model, sites[1].under(then.layout(0)), load, sizes, images=space.images, bill=sites[1].bill,
                settled=replace(settled, follows=False),
            )  # fmt: skip
            percentiles = percentiles_of(p)
            used = limits.used((p.ttft, p.tpot, p.latency), percentiles)
            return p, percentiles, np.broadcast_to(used, (len(splits),))

        p, percentiles, used = answer(flights)
        if limits.strict and not demand.given:
            low, high = np.zeros_like(flights), flights
            while np.any(high > low):
                middle = (low + high + 1) // 2
                p, percentiles, used = answer(np.maximum(middle, 1))
                keeps = (used <= 1) & (middle > 0)
                low, high = np.where(keeps, middle, low), np.where(keeps, high, np.maximum(middle - 1, low))
            flights = np.maximum(low, 1)
            p, percentiles, used = answer(flights)
        return tuple(
            ServingPlan(
                space.model, demand, limits, Group(sites[1], then.one(i), int(splits.decodes[i])),
                Group(sites[0], first.one(i), int(splits.prefills[i])), int(flights[i]), 0,
                part(p.ttft, i), part(p.tpot, i), part(percentiles, i), part(p.requests_per_second, i),
                images=space.images, timed=TimedPools(self.columns, int(places[i])),
            )
            for i in map(int, np.flatnonzero(used <= 1))
        )  # fmt: skip

    @cached_property
    def rates(self) -> tuple[PoolRates, PoolRates]:
        """Maximum requests/s per replica of either kind, for every pair of layouts."""
        places = np.arange(len(self.splits.each[0]))
        one, ranks = np.ones_like(places), (self.degrees[0].dp, self.degrees[1].dp)
        each = self.columns.of(places, one, one)
        both = np.repeat(ranks[0], len(ranks[1])), np.tile(ranks[1], len(ranks[0]))
        return pool_rates(each, both, self.demand, self.limits)

    def bounded(self, least: float) -> BoundedSplits:
        """Splits whose score can reach `least`; 0 for all."""
        demand, needed = self.demand, None
        if demand.rate is not None:
            needed = float(demand.rate)
        elif demand.concurrency is not None:  # by Little's law, as many leave as come: N = rate · latency
            more = int(demand.output_tokens) - 1
            ttft, tpot, latency = self.limits.loosest
            longest = min(latency, ttft + (more * tpot if more else 0.0))
            needed = int(demand.concurrency) / longest
        return BoundedSplits(self.splits, self.rates, needed, least * ROUNDING)

    def scored(self, splits: Splits, aim: Aim, least: float | None = None) -> tuple[Array, Array]:
        """The score of each split, 0 where a limit is missed, and its requests in flight.

        The requests in flight are those of the load, or without one the most within the limits. The score is requests/s
        per chip, or under a load 1 / chips; for objectives that more chips improve, the objective itself.
        Of a score below `least` or the best `EXACT` a lower bound above 0 may stand for it, where `least` is given.
        """
        tandem, demand, number = self.tandem(splits), self.demand, len(splits)
        if demand.concurrency is not None:
            p = tandem.always(np.full(number, float(demand.concurrency)))
            holds, flights, rate = self.keeps(tandem, p), np.full(number, demand.concurrency), p.rate
        elif demand.rate is not None:
            p = tandem.at(np.minimum(demand.rate, tandem.capacity * 0.999))
            holds = (demand.rate < tandem.capacity) & self.keeps(tandem, p)
            flights, rate = np.ceil(demand.rate * tandem.latency(p)).astype(np.int64), p.rate
        else:
            rate = self.highest(tandem, splits.chips, None if aim.faster else least)
            several, p = tandem.always_at(np.maximum(rate, 1e-12))
            holds, flights = rate > 0, np.floor(several).astype(np.int64)
        if aim.faster:
            ttft = tandem.first_token(p)
            score = {
                "tokens_per_second": rate,
                "tokens_per_second_per_user": 1 / p.step,
                "latency": 1 / (ttft + (demand.output_tokens - 1) * p.step),
            }[aim.figure]
        else:
            score = (1.0 if demand.given else rate) / splits.chips
        return np.where(holds, score, 0.0), flights

    def highest(self, tandem: Tandem, chips: Array, least: float | None) -> Array:
        """The highest requests/s within the limits; 0 where they are missed at the lowest rate that is asked about.

        Pools that are sure to be worse per chip than `least` or than the best `EXACT` are not narrowed down further.
        """
        low, high = np.zeros(len(chips)), np.asarray(tandem.capacity, dtype=float)
        lowest = high / 2**HALVINGS
        places = np.flatnonzero(self.keeps(tandem, tandem.always_at(lowest)[1]))
        if not len(places):
            return low
        tandem = tandem.where(places)
        for _ in range(HALVINGS):
            start, end = low[places], high[places]
            middle = (start + end) / 2
            enough = self.keeps(tandem, tandem.always_at(middle)[1])
            low[places], high[places] = np.where(enough, middle, start), np.where(enough, end, middle)
            if least is not None and len(places) > EXACT:
                least = max(least, float(np.partition(low / chips, -EXACT)[-EXACT]))
                kept = high[places] >= least * chips[places] * ROUNDING
                if np.count_nonzero(kept) < FEWER * len(places):
                    low[places] = np.maximum(low[places], lowest[places])
                    places, tandem = places[kept], tandem.where(kept)
        return low

    def unwalked(self, aim: Aim) -> _Walked:
        """None of the splits, for which no time was left."""
        return replace(_Walked.none(self, aim), unseen=self.splits.number)

    def walked(self, least: float, aim: Aim) -> _Walked:
        """The best splits; those that score below `least` may be skipped."""
        most = MOST_SPLITS if aim.faster else WHOLE
        if self.splits.number <= most:
            return self._piece_by_piece(self.bounded(0.0), least, aim)
        bounded, around = self.bounded(0.0), _Walked.none(self, aim)
        if not aim.faster:
            bounded = self._narrowed(max(least, LEAST), aim)
        if bounded.number > MANY_LEFT:
            around = self._around(bounded, aim)
            if not aim.faster:
                bounded = self.bounded(max(least, around.least, LEAST))
        if bounded.number > MOST_SPLITS:
            best = replace(around, unseen=bounded.number - len(around.splits))
        else:
            best = self._piece_by_piece(bounded, max(least, around.least), aim)
        return best if aim.faster else replace(best, never=self.splits.count(~bounded.can_keep))

    def _piece_by_piece(self, bounded: BoundedSplits, least: float, aim: Aim) -> _Walked:
        """The best of these splits, until the time of the search ends; those below `least` or the best are skipped."""
        best, seen = _Walked.none(self, aim), 0
        for piece in bounded.pieces():
            if seen and self.space.clock.is_over:
                break
            seen += len(piece)
            if bounded.least > 0:
                piece = piece.where(bounded.bound(piece) >= max(least, best.least) * ROUNDING)
            best = best.with_others(piece, least)
        return replace(best, unseen=bounded.number - seen)

    def _narrowed(self, least: float, aim: Aim) -> BoundedSplits:
        """The splits that can be among the best, given a sample of scores."""
        bounded = self.bounded(least)
        while bounded.number > WHOLE:
            some = bounded.sample(SAMPLE)
            score = self.scored(some, aim, 0.0)[0]
            narrower = self.bounded(max(least, float(np.sort(score)[-EXACT])))
            shrinks = narrower.number <= SHRINKS * bounded.number
            bounded = narrower
            if not shrinks or self.space.clock.is_over:
                break
        return bounded

    def _around(self, bounded: BoundedSplits, aim: Aim) -> _Walked:
        """The best of a sample of the splits and of those around the best, until these do not get better."""
        some = bounded.sample(SPREAD)
        best = _Walked.none(self, aim).with_others(some)
        starts = some.where(_best_of_each(some.first * self.splits.layouts + some.then, self.scored(some, aim)[0]))
        for _ in range(ROUNDS):
            before = best.score.sum()
            for piece in self.splits.around(starts, FACTORS).pieces():
                best = best.with_others(piece.without(best.splits))
                if self.space.clock.is_over:
                    return best
            if best.score.sum() <= before * (1 + SETTLED):
                return best
            starts = best.splits
        return best


def _best_of_each(pairs: Array, score: Array) -> Array:
    """Places of the best score of each pair of layouts, the best `STARTS` of them."""
    order = np.lexsort((-score, pairs))
    firsts = order[np.flatnonzero(np.diff(pairs[order], prepend=-1))]
    return np.asarray(firsts[np.argsort(-score[firsts], kind="stable")][:STARTS])


@dataclass(frozen=True)
class _Walked:
    """The best splits of a pair of kinds, at most `EXACT`, of those evaluated.

    `worked`: number evaluated. `missed`: how many of these miss a limit. `never`: splits of layouts that miss a limit
    at any load. `unseen`: splits that were not looked at.
    """

    pair: _PoolPair
    aim: Aim
    splits: Splits
    score: Array
    flights: Array
    worked: int = 0
    missed: int = 0
    never: int = 0
    unseen: int = 0

    @classmethod
    def none(cls, pair: _PoolPair, aim: Aim) -> _Walked:
        """No splits yet."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(pair, aim, Splits(*(nothing,) * 5), np.zeros(0), nothing)

    @property
    def least(self) -> float:
        """The score of the last one; 0 where there are fewer than `EXACT`."""
        return float(self.score[-1]) if len(self.score) == EXACT else 0.0

    def with_others(self, splits: Splits, least: float = 0.0) -> _Walked:
        """The best of these and further splits; on equal scores these come first. Those below `least` do not matter."""
        if not len(splits):
            return self
        score, flights = self.pair.scored(splits, self.aim, max(least, self.least))
        missed = int(np.sum(score == 0))
        self.pair.space.clock.counts(len(splits))
        every, scores = self.splits.and_then(splits), np.concatenate([self.score, score])
        order = np.argsort(-scores, kind="stable")[:EXACT]
        return replace(
            self, splits=every.where(order), score=scores[order],
            flights=np.concatenate([self.flights, flights])[order], worked=self.worked + len(splits),
            missed=self.missed + missed,
        )  # fmt: skip

    def plans(self, least: float) -> tuple[ServingPlan, ...]:
        """The plans with at least this score."""
        pair, best = self.pair, self.score >= least
        splits, flights = self.splits.where(best), self.flights[best]
        if not pair.demand.given and len(splits):
            near, several = np.maximum(1, flights + NEAR), np.tile(np.arange(len(splits)), len(NEAR))
            tandem = pair.tandem(splits.where(several))
            keeps = pair.keeps(tandem, tandem.always(near.reshape(-1).astype(float))).reshape(near.shape)
            last = np.max(np.where(keeps, np.arange(len(NEAR)).reshape(-1, 1), 0), axis=0)
            flights = near[last, np.arange(len(flights))]
        return pair.exactly(splits, flights)


def _pair(space: SiteSpace, sites: tuple[Site, Site], demand: Load, degrees: tuple[Degrees, Degrees]) -> Pair:
    """Pools of every pair of layouts, [prefill, decode]."""
    first = sites[0].setup(space.model, degrees[0].layout(1)).seeing(space.images)
    then = sites[1].setup(space.model, degrees[1].layout(0))
    room = min(space.chips, space.room(sites[1]))
    requests = space.requests(demand)
    size = moved_bytes(first, then, requests.input)
    ways = (network.seconds(size) for network in networks(sites[1].on, sites[0].on, room))
    replicas = Replicas(room, None, None, room, (room, room))
    return Pair(first, then, requests, replicas, reduce(Span.most, ways))
