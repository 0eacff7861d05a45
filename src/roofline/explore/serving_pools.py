"""Pools for both phases, side by side in arrays: the most that every pair of layouts and split of the chips takes.

What replicas of a layout give is worked out once, for every number of prompts and of sequences in a table; of the
splits that come out best the figures are those of `pools`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Any

import numpy as np

from roofline.distinct import Array
from roofline.estimates.pool_replicas import Columns, Load, Pair, Replicas
from roofline.estimates.pools import Pools, pools
from roofline.estimates.serve import rounded_down
from roofline.estimates.settings import Setup, setup
from roofline.estimates.span import Span
from roofline.estimates.tandem import Passage, Tandem
from roofline.estimates.transfer import moved_bytes, networks
from roofline.explore.demand import Demand, Limits
from roofline.explore.serving_layouts import Degrees
from roofline.explore.serving_plans import Group, ServingPlan, Site, part
from roofline.explore.serving_space import Looked, ReplicaKinds, SiteSpace
from roofline.model.errors import InputError

HALVINGS = 14
"""Times that the rate of two pools is sought between too little and too much."""
NEAR = np.arange(-3, 3).reshape(-1, 1)
"""Numbers in flight beside that which the search comes to, of which the last that keeps the limits is taken."""
EXACT = 24
"""Ways of each kind whose figures are worked out to the last digit, of those that come out best."""


# -- a pool for each phase -----------------------------------------------------------------------------------------
def disaggregated(space: SiteSpace, prefill: Site, decode: Site, demand: Demand, limits: Limits) -> Looked:
    """Every pair of layouts, one of replicas that prefill and one of those that decode, and every number of either.

    Without a load: the most requests in flight within the limits; with one: every split that keeps them. Both pools
    hold weights and caches in the same formats.
    """
    if prefill.precision != decode.precision:
        return Looked((), 0, 0)
    sites = (prefill, decode)
    try:
        networks(decode.on, prefill.on, min(space.chips, space.room(decode)))
    except InputError:
        return Looked((), 0, 0, ((f"no network known between {prefill.chip.id} and {decode.chip.id}", 1),))
    legal = [space.replicas(site, demand).kinds for site in sites]
    pairs = [_PoolPair(space, sites, demand, limits, (first, then)) for first, then in product(*legal)]
    scores = [pair.score for pair in pairs if len(pair.splits)]
    if not scores:
        return Looked((), 0, 0)
    least = np.sort(np.concatenate(scores))[::-1][:EXACT][-1]
    plans = tuple(plan for pair in pairs if len(pair.splits) for plan in pair.plans(max(least, 1e-300)))
    considered, kept = sum(len(pair.splits) for pair in pairs), sum(int(np.sum(score > 0)) for score in scores)
    missed = (("limits", considered - kept),) if kept < considered else ()
    return Looked(plans, considered, considered * (1 if demand.load else HALVINGS), missed)


@dataclass(frozen=True)
class _PoolPair:
    """Pools whose replicas have as many pipeline stages each."""

    space: SiteSpace
    sites: tuple[Site, Site]
    demand: Demand
    limits: Limits
    kinds: tuple[ReplicaKinds, ReplicaKinds]

    @cached_property
    def degrees(self) -> tuple[Degrees, Degrees]:
        """The layouts of both."""
        return self.kinds[0].degrees, self.kinds[1].degrees

    @cached_property
    def splits(self) -> Splits:
        return _splits(self.space, self.sites, self.degrees)

    @cached_property
    def columns(self) -> Columns:
        """Step times of both kinds of replicas."""
        known, key = self.space.columns, (id(self.kinds[0]), id(self.kinds[1]))
        if key not in known:
            pair = _pair(self.space, self.sites, self.demand, self.degrees)
            known[key] = Columns(pair, Load(1, None), (len(self.degrees[0]), len(self.degrees[1])))
        return known[key]

    def tandem(self, splits: Splits) -> Tandem:
        """Pools of so many replicas."""
        return self.columns.of(splits.first * self.columns.shape[1] + splits.then, splits.prefills, splits.decodes)

    def keeps(self, tandem: Tandem, p: Passage) -> Array:
        """Whether all limits are kept, by what is expected; `strict` is asked of those that come out best."""
        ttft = tandem.first_token(p)
        return np.asarray(self.limits.shares(ttft, p.step, ttft + (self.demand.output - 1) * p.step).max(axis=0) <= 1)

    @cached_property
    def highest(self) -> tuple[Array, Array]:
        """Requests a second within the limits, 0 where none, and how many are then in flight; of a load those of it."""
        tandem, demand, number = self.tandem(self.splits), self.demand, len(self.splits)
        if demand.concurrency is not None:
            p = tandem.always(np.full(number, float(demand.concurrency)))
            return np.where(self.keeps(tandem, p), p.rate, 0.0), np.full(number, demand.concurrency)
        if demand.rate is not None:
            p = tandem.at(np.minimum(demand.rate, tandem.capacity * 0.999))
            holds = (demand.rate < tandem.capacity) & self.keeps(tandem, p)
            return np.where(holds, demand.rate, 0.0), np.ceil(demand.rate * tandem.latency(p)).astype(np.int64)
        low, high = np.zeros(number), np.asarray(tandem.capacity, dtype=float)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            enough = self.keeps(tandem, tandem.always_at(middle)[1])
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        return low, np.floor(tandem.always_at(np.maximum(low, 1e-12))[0]).astype(np.int64)

    @cached_property
    def score(self) -> Array:
        """What is looked for: requests a second of a chip, or under a load few chips; 0 where a limit is missed."""
        rates, chips = self.highest[0], self.splits.chips
        return np.asarray(rates / chips if not self.demand.load else (rates > 0) / chips)

    def plans(self, least: float) -> tuple[ServingPlan, ...]:
        """Those that come out at least so well, at most `EXACT`."""
        order = np.argsort(-self.score, kind="stable")[:EXACT]
        order = order[self.score[order] >= least]
        splits, flights = self.splits.where(order), self.highest[1][order]
        if not self.demand.load and len(splits):
            near, several = np.maximum(1, flights + NEAR), np.tile(np.arange(len(splits)), len(NEAR))
            tandem = self.tandem(splits.where(several))
            keeps = self.keeps(tandem, tandem.always(near.reshape(-1).astype(float))).reshape(near.shape)
            last = np.max(np.where(keeps, np.arange(len(NEAR)).reshape(-1, 1), 0), axis=0)
            flights = near[last, np.arange(len(flights))]
        return _exactly(self.space, self.sites, self.demand, self.limits, self.degrees, splits, flights)


@dataclass(frozen=True)
class Splits:
    """Numbers of replicas of two pools, for pairs of layouts, and the chips that they take."""

    first: Array
    then: Array
    prefills: Array
    decodes: Array
    chips: Array

    def __len__(self) -> int:
        return len(self.first)

    def where(self, kept: Array) -> Splits:
        """Those that are kept, or those at places."""
        return Splits(*(values[kept] for values in (self.first, self.then, self.prefills, self.decodes, self.chips)))


def _splits(space: SiteSpace, sites: tuple[Site, Site], degrees: tuple[Degrees, Degrees]) -> Splits:
    """Every number of replicas of every pair that the chips have room for."""
    rooms = [space.room(site) for site in sites]
    apart = sites[0].on != sites[1].on
    parts = []
    for i, each in enumerate(degrees[0].chips):
        for j, other in enumerate(degrees[1].chips):
            x, y = np.arange(1, rooms[0] // each + 1), np.arange(1, rooms[1] // other + 1)
            prefills, decodes = (n.reshape(-1) for n in np.meshgrid(x, y, indexing="ij"))
            chips = prefills * each + decodes * other
            kept = chips <= (space.chips if apart else min(space.chips, *rooms))
            place = np.ones(len(chips), dtype=np.int64)
            parts.append(Splits(i * place, j * place, prefills, decodes, chips).where(kept))
    names = ("first", "then", "prefills", "decodes", "chips")
    return Splits(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def _pair(space: SiteSpace, sites: tuple[Site, Site], demand: Demand, degrees: tuple[Degrees, Degrees]) -> Pair:
    """Pools of every pair of layouts, [first, then]."""
    first: Setup = setup(space.model, layout=degrees[0].layout(1), **sites[0].settings)
    then: Setup = setup(space.model, layout=degrees[1].layout(0), **sites[1].settings)
    room = min(space.chips, space.room(sites[1]))
    size = moved_bytes(first, then, demand.input)
    ways = (network.seconds(size) for network in networks(sites[1].on, sites[0].on, room))
    known = rounded_down(demand.input * demand.prefix)
    replicas = Replicas(room, None, None, room, (room, room))
    return Pair(first, then, demand.input, demand.output, known, replicas, reduce(Span.most, ways))


def _exactly(
    space: SiteSpace, sites: tuple[Site, Site], demand: Demand, limits: Limits, degrees: tuple[Degrees, Degrees],
    splits: Splits, flights: Array,
) -> tuple[ServingPlan, ...]:  # fmt: skip
    """The figures of `pools`, of those that keep the limits: where these are strict, with as few requests as that
    takes."""
    if not len(splits):
        return ()
    first, then = degrees[0].where(splits.first), degrees[1].where(splits.then)
    apart = {"prefill_on": sites[0].on, "prefill_engine": sites[0].engine} if sites[0] != sites[1] else {}
    sizes: dict[str, Any] = {"input": demand.input, "output": demand.output, "prefix": demand.prefix}

    def answer(flights: Array) -> tuple[Pools, Array]:
        p = pools(
            space.model, prefills=splits.prefills, decodes=splits.decodes, prefill_layout=first.layout(0),
            decode_layout=then.layout(0), **sizes, **(demand.load or {"concurrency": flights}), **sites[1].settings,
            **apart,
        )  # fmt: skip
        return p, np.broadcast_to(limits.spans(p.ttft, p.tpot, p.latency).max(axis=0), (len(splits),))

    p, used = answer(flights)
    if limits.strict and not demand.load:
        low, high = np.zeros_like(flights), flights
        while np.any(high > low):
            middle = (low + high + 1) // 2
            p, used = answer(np.maximum(middle, 1))
            keeps = (used <= 1) & (middle > 0)
            low, high = np.where(keeps, middle, low), np.where(keeps, high, np.maximum(middle - 1, low))
        flights = np.maximum(low, 1)
        p, used = answer(flights)
    return tuple(
        ServingPlan(
            space.model, demand, limits, Group(sites[1], then.one(i), int(splits.decodes[i])),
            Group(sites[0], first.one(i), int(splits.prefills[i])), int(flights[i]), 0,
            part(p.ttft, i), part(p.tpot, i), part(p.requests_per_second, i),
        )
        for i in map(int, np.flatnonzero(used <= 1))
    )  # fmt: skip
