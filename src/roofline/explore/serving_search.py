"""All ways to serve on so many chips, side by side in arrays: the most that each takes within its limits.

What a replica's layout gives is worked out once for each load, what two pools give by their step tables; of those that
come out best the public functions `serve` and `pools` give the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from typing import Any

import numpy as np

from roofline.distinct import Array
from roofline.estimates.deployment import is_several
from roofline.estimates.pool_replicas import Columns, Load, Pair, Replicas
from roofline.estimates.pools import Pools, pools
from roofline.estimates.serve import Server, rounded_down, serve
from roofline.estimates.settings import Setup, setup
from roofline.estimates.span import Span
from roofline.estimates.tandem import Passage, Tandem
from roofline.estimates.transfer import moved_bytes, networks
from roofline.explore.demand import Demand, Limits
from roofline.explore.serving_layouts import Degrees, by_stages, serving_layouts
from roofline.explore.serving_plans import Group, ServingPlan, Site, part
from roofline.layout.layout import Layout
from roofline.machine.fabric import cluster_named
from roofline.model.errors import InputError
from roofline.model.model import Model

LOADS = 24
"""Numbers of requests in flight at which a layout is looked at first."""
FINER = 16
"""Numbers between two of these at which those that come out best are looked at again."""
HALVINGS = 14
"""Times that the rate of two pools is sought between too little and too much."""
NEAR = np.arange(-3, 3).reshape(-1, 1)
"""Numbers in flight beside that which the search comes to, of which the last that keeps the limits is taken."""
EXACT = 24
"""Ways of each kind whose figures are worked out to the last digit, of those that come out best."""


@dataclass(frozen=True)
class Space:
    """What may be chosen: sites, at most `chips` in all, and `layouts` of replicas, all that divide where None."""

    model: Model
    sites: Sequence[Site]
    chips: int
    layouts: Sequence[Layout] | None = None

    def degrees(self, site: Site, demand: Demand) -> tuple[Degrees, ...]:
        """The layouts that a replica can have there, in groups of equal pipelines."""

        def holds(layout: Layout) -> bool:
            server = Server(setup(self.model, layout=layout, **site.settings), demand.input, demand.output, 0, 0)
            return bool(server.capacity >= 1)

        if self.layouts is None:
            return by_stages(serving_layouts(self.model, site.on, self.room(site), holds))
        return by_stages(x for x in self.layouts if x.chips <= self.room(site))

    def room(self, site: Site) -> int:
        """Chips that there are."""
        return min(self.chips, cluster_named(site.on).chips) if is_several(site.on) else self.chips


@dataclass(frozen=True)
class Looked:
    """What was looked at.

    `plans`: those that keep all limits, of two pools the best of them. `deployments`: replicas and their layouts that
    fit; `considered`: these, each with the numbers in flight or rates at which its times were worked out.
    """

    plans: tuple[ServingPlan, ...]
    deployments: int
    considered: int
    left_out: tuple[tuple[str, int], ...] = ()


# -- replicas that do both phases ----------------------------------------------------------------------------------
def aggregated(space: Space, site: Site, demand: Demand, limits: Limits) -> Looked:
    """Every layout of a replica, as many replicas as there is room for or as the load needs.

    Without a load: the most requests in flight within the limits, on all chips. With one: the fewest replicas that keep
    the limits.
    """
    every = [_aggregated(space, site, demand, limits, degrees) for degrees in space.degrees(site, demand)]
    return all_looked(every)


def all_looked(every: Sequence[Looked]) -> Looked:
    """All that was looked at."""
    left_out: dict[str, int] = {}
    for reason, number in (pair for looked in every for pair in looked.left_out):
        left_out[reason] = left_out.get(reason, 0) + number
    plans = tuple(plan for looked in every for plan in looked.plans)
    deployments, considered = (sum(getattr(x, name) for x in every) for name in ("deployments", "considered"))
    return Looked(plans, deployments, considered, tuple(left_out.items()))


def _aggregated(space: Space, site: Site, demand: Demand, limits: Limits, degrees: Degrees) -> Looked:
    server = _server(space.model, site, degrees, demand)
    capacity = np.broadcast_to(np.asarray(server.capacity), (len(degrees), 1))[:, 0]
    fits = capacity >= 1
    unfit = (("memory", int(np.sum(~fits))),) if not fits.all() else ()
    degrees, capacity = degrees.where(fits), capacity[fits]
    if not len(degrees):
        return Looked((), 0, 0, unfit)
    most = space.room(site) // degrees.chips
    if demand.concurrency is None and demand.rate is None:
        looked = _freely(space, site, demand, limits, degrees, capacity, most)
    else:
        looked = _loaded(space, site, demand, limits, degrees, capacity, most)
    kept = {plan.group.layout for plan in looked.plans}
    missed = (("limits", len(degrees) - len(kept)),) if len(kept) < len(degrees) else ()
    return replace(looked, left_out=(*unfit, *missed))


def _server(model: Model, site: Site, degrees: Degrees, demand: Demand) -> Server:
    asked = setup(model, layout=degrees.layout(1), **site.settings)
    return Server(asked, demand.input, demand.output, rounded_down(demand.input * demand.prefix), 2)


def _served(space: Space, site: Site, demand: Demand, degrees: Degrees, **load: Array) -> Any:
    asked: dict[str, Any] = {"input": demand.input, "output": demand.output, "prefix": demand.prefix, **load}
    return serve(space.model, layout=degrees.layout(1), formula=True, **asked, **site.settings)


def _freely(
    space: Space, site: Site, demand: Demand, limits: Limits, degrees: Degrees, capacity: Array, most: Array
) -> Looked:
    powers = np.linspace(0, 1, LOADS)
    numbers = np.rint(capacity[:, np.newaxis] ** powers).astype(np.int64)
    used, considered = _used(space, site, demand, limits, degrees, numbers), int(np.sum(_distinct(numbers)))
    last = np.max(np.where(used <= 1, np.arange(LOADS), -1), axis=1)
    possible = last >= 0
    legal = int(np.sum(most))
    if not possible.any():
        return Looked((), legal, considered)
    degrees, most, numbers, last = degrees.where(possible), most[possible], numbers[possible], last[possible]
    capacity, rows = capacity[possible], np.arange(len(last))
    low, high = numbers[rows, last], numbers[rows, np.minimum(last + 1, LOADS - 1)]
    while np.any(high > low):
        finer = np.rint(low[:, np.newaxis] + (high - low)[:, np.newaxis] * np.linspace(0, 1, FINER)).astype(np.int64)
        keeps = _used(space, site, demand, limits, degrees, finer) <= 1
        keeps[:, 0] = True
        last = np.max(np.where(keeps, np.arange(FINER), -1), axis=1)
        considered += int(np.sum(_distinct(finer)))
        low, high = finer[rows, last], finer[rows, np.minimum(last + 1, FINER - 1)]
        high = np.where(high <= low + 1, low, high)
    answer = _served(space, site, demand, degrees, concurrency=low[:, np.newaxis])
    plans = tuple(
        ServingPlan(
            space.model, demand, limits, Group(site, degrees.one(i), int(most[i])), None, int(low[i] * most[i]),
            int(capacity[i] * most[i]), part(answer.ttft, i), part(answer.tpot, i),
            part(answer.requests_per_second, i) * int(most[i]),
        )
        for i in range(len(low))
    )  # fmt: skip
    return Looked(plans, legal, considered)


def _distinct(numbers: Array) -> Array:
    """Whether each differs from the one before it."""
    return np.concatenate([np.ones_like(numbers[:, :1], dtype=bool), np.diff(numbers, axis=1) > 0], axis=1)


def _used(space: Space, site: Site, demand: Demand, limits: Limits, degrees: Degrees, numbers: Array) -> Array:
    """The most that is used of any limit."""
    s = _served(space, site, demand, degrees, concurrency=numbers)
    return np.asarray(limits.spans(s.ttft, s.tpot, s.latency).max(axis=0))


def _loaded(
    space: Space, site: Site, demand: Demand, limits: Limits, degrees: Degrees, capacity: Array, most: Array
) -> Looked:
    replicas = np.minimum(np.arange(1, int(most.max()) + 1), most[:, np.newaxis])
    if demand.concurrency is not None:
        numbers = -(-demand.concurrency // replicas)
        s = _served(space, site, demand, degrees, concurrency=numbers)
        total = np.asarray(demand.concurrency / s.latency.expected)
        holds = numbers <= capacity[:, np.newaxis]
    else:
        rates = np.asarray(demand.rate) / replicas
        fastest = np.broadcast_to(np.asarray(_server(space.model, site, degrees, demand).fastest), (len(degrees), 1))
        holds = rates < fastest
        s = _served(space, site, demand, degrees, rate=np.minimum(rates, fastest * (1 - 1e-9)))
        numbers, total = np.asarray(s.in_flight), np.full(replicas.shape, demand.rate)
    keeps = (limits.spans(s.ttft, s.tpot, s.latency).max(axis=0) <= 1) & holds
    considered = int(np.sum(_distinct(replicas)))
    plans = []
    for i in map(int, np.flatnonzero(keeps.any(axis=1))):
        j = int(np.argmax(keeps[i]))
        at = i * replicas.shape[1] + j
        flight = demand.concurrency or int(numbers[i, j] * replicas[i, j])
        plans.append(
            ServingPlan(
                space.model, demand, limits, Group(site, degrees.one(i), int(replicas[i, j])), None, flight,
                int(capacity[i] * replicas[i, j]), part(s.ttft, at), part(s.tpot, at), float(total[i, j]),
            )
        )  # fmt: skip
    return Looked(tuple(plans), considered, considered)


# -- a pool for each phase -----------------------------------------------------------------------------------------
def disaggregated(space: Space, prefill: Site, decode: Site, demand: Demand, limits: Limits) -> Looked:
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
    legal = [[_fitting(space, site, group, demand) for group in space.degrees(site, demand)] for site in sites]
    pairs = [
        _PoolPair(space, sites, demand, limits, (f, t)) for f, t in product(legal[0], legal[1]) if len(f) and len(t)
    ]
    scores = [pair.score for pair in pairs if len(pair.splits)]
    if not scores:
        return Looked((), 0, 0)
    least = np.sort(np.concatenate(scores))[::-1][:EXACT][-1]
    plans = tuple(plan for pair in pairs if len(pair.splits) for plan in pair.plans(max(least, 1e-300)))
    considered, kept = sum(len(pair.splits) for pair in pairs), sum(int(np.sum(score > 0)) for score in scores)
    missed = (("limits", considered - kept),) if kept < considered else ()
    return Looked(plans, considered, considered * (1 if demand.load else HALVINGS), missed)


def _fitting(space: Space, site: Site, degrees: Degrees, demand: Demand) -> Degrees:
    """Those whose memory holds a request."""
    capacity = np.asarray(_server(space.model, site, degrees, demand).capacity)
    return degrees.where(np.broadcast_to(capacity, (len(degrees), 1))[:, 0] >= 1)


@dataclass(frozen=True)
class _PoolPair:
    """Pools whose replicas have as many pipeline stages each."""

    space: Space
    sites: tuple[Site, Site]
    demand: Demand
    limits: Limits
    degrees: tuple[Degrees, Degrees]

    @cached_property
    def splits(self) -> Splits:
        return _splits(self.space, self.sites, self.degrees)

    @cached_property
    def columns(self) -> Columns:
        """Step times of both kinds of replicas."""
        pair = _pair(self.space, self.sites, self.demand, self.degrees)
        return Columns(pair, Load(1, None), (len(self.degrees[0]), len(self.degrees[1])))

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


def _splits(space: Space, sites: tuple[Site, Site], degrees: tuple[Degrees, Degrees]) -> Splits:
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


def _pair(space: Space, sites: tuple[Site, Site], demand: Demand, degrees: tuple[Degrees, Degrees]) -> Pair:
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
    space: Space, sites: tuple[Site, Site], demand: Demand, limits: Limits, degrees: tuple[Degrees, Degrees],
    splits: Splits, flights: Array,
) -> tuple[ServingPlan, ...]:  # fmt: skip
    """The figures of `pools`, of those that keep the limits: where these are strict, with as few requests as that
    takes."""
    if not len(splits):
        return ()
    first, then = degrees[0].where(splits.first), degrees[1].where(splits.then)
    apart = {"prefill_on": sites[0].on, "prefill_engine": sites[0].engine} if sites[0] != sites[1] else {}
    sizes = {"input": demand.input, "output": demand.output, "prefix": demand.prefix}

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
