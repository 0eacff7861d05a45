"""All ways to serve on so many chips, side by side in arrays: the most that each takes within its limits.

What a replica's layout gives is worked out once for each load, what two pools give by their step tables; of those that
come out best the public functions `serve` and `pools` give the figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roofline.distinct import Array
from roofline.estimates.deployment import is_several
from roofline.estimates.pool_replicas import Columns, Load, Pair, Replicas
from roofline.estimates.pools import pools
from roofline.estimates.serve import Server, rounded_down, serve
from roofline.estimates.settings import Setup, setup
from roofline.estimates.span import Span
from roofline.estimates.transfer import moved_bytes, networks
from roofline.explore.demand import Demand, Limits
from roofline.explore.serving_layouts import Degrees, serving_layouts, side_by_side
from roofline.explore.serving_plans import Group, ServingPlan, Site, part
from roofline.layout.layout import Layout
from roofline.machine.fabric import cluster_named
from roofline.model.errors import InputError
from roofline.model.model import Model

LOADS = 40
"""Numbers of requests in flight at which a layout is looked at first."""
FINER = 16
"""Numbers between two of these at which those that come out best are looked at again."""
HALVINGS = 18
"""Times that the rate of two pools is sought between too little and too much."""
EXACT = 48
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
            return side_by_side(serving_layouts(self.model, site.on, self.room(site), holds))
        return side_by_side(x for x in self.layouts if x.chips <= self.room(site))

    def room(self, site: Site) -> int:
        """Chips that there are."""
        return min(self.chips, cluster_named(site.on).chips) if is_several(site.on) else self.chips


@dataclass(frozen=True)
class Looked:
    """What was looked at: `plans` that keep all limits, `considered` legal ways at a load, those left out by reason."""

    plans: tuple[ServingPlan, ...]
    considered: int
    left_out: tuple[tuple[str, int], ...] = ()


# -- replicas that do both phases ----------------------------------------------------------------------------------
def aggregated(space: Space, site: Site, demand: Demand, limits: Limits) -> Looked:
    """Every layout of a replica, as many replicas as there is room for or as the load needs.

    Without a load: the most requests in flight within the limits, on all chips. With one: the fewest replicas that keep
    the limits.
    """
    every = [_aggregated(space, site, demand, limits, degrees) for degrees in space.degrees(site, demand)]
    return together(every)


def together(every: Sequence[Looked]) -> Looked:
    """All that was looked at."""
    left_out: dict[str, int] = {}
    for reason, number in (pair for looked in every for pair in looked.left_out):
        left_out[reason] = left_out.get(reason, 0) + number
    plans = tuple(plan for looked in every for plan in looked.plans)
    return Looked(plans, sum(looked.considered for looked in every), tuple(left_out.items()))


def _aggregated(space: Space, site: Site, demand: Demand, limits: Limits, degrees: Degrees) -> Looked:
    server = _server(space.model, site, degrees, demand)
    capacity = np.broadcast_to(np.asarray(server.capacity), (len(degrees), 1))[:, 0]
    fits = capacity >= 1
    unfit = (("does not fit", int(np.sum(~fits))),) if not fits.all() else ()
    degrees, capacity = degrees.where(fits), capacity[fits]
    if not len(degrees):
        return Looked((), 0, unfit)
    most = space.room(site) // degrees.chips
    if demand.concurrency is None and demand.rate is None:
        return replace(_freely(space, site, demand, limits, degrees, capacity, most), left_out=unfit)
    return _loaded(space, site, demand, limits, degrees, capacity, most, unfit)


def _server(model: Model, site: Site, degrees: Degrees, demand: Demand) -> Server:
    asked = setup(model, layout=degrees.layout(1), **site.settings)
    return Server(asked, demand.input, demand.output, rounded_down(demand.input * demand.prefix), 2)


def _served(space: Space, site: Site, demand: Demand, degrees: Degrees, **load: Array) -> Any:
    sizes = {"input": demand.input, "output": demand.output, "prefix": demand.prefix}
    return serve(space.model, layout=degrees.layout(1), **sizes, **load, **site.settings)


def _freely(
    space: Space, site: Site, demand: Demand, limits: Limits, degrees: Degrees, capacity: Array, most: Array
) -> Looked:
    powers = np.linspace(0, 1, LOADS)
    numbers = np.rint(capacity[:, np.newaxis] ** powers).astype(np.int64)
    used, considered = _used(space, site, demand, limits, degrees, numbers), int(np.sum(_distinct(numbers)))
    last = np.max(np.where(used <= 1, np.arange(LOADS), -1), axis=1)
    possible = last >= 0
    if not possible.any():
        return Looked((), considered)
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
    return Looked(plans, considered)


def _distinct(numbers: Array) -> Array:
    """Whether each differs from the one before it."""
    return np.concatenate([np.ones_like(numbers[:, :1], dtype=bool), np.diff(numbers, axis=1) > 0], axis=1)


def _used(space: Space, site: Site, demand: Demand, limits: Limits, degrees: Degrees, numbers: Array) -> Array:
    """The most that is used of any limit."""
    s = _served(space, site, demand, degrees, concurrency=numbers)
    return np.asarray(limits.spans(s.ttft, s.tpot, s.latency).max(axis=0))


def _loaded(
    space: Space, site: Site, demand: Demand, limits: Limits, degrees: Degrees, capacity: Array, most: Array,
    unfit: tuple[tuple[str, int], ...],
) -> Looked:  # fmt: skip
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
    for i in np.flatnonzero(keeps.any(axis=1)):
        j = int(np.argmax(keeps[i]))
        at = i * replicas.shape[1] + j
        flight = demand.concurrency or int(numbers[i, j] * replicas[i, j])
        plans.append(
            ServingPlan(
                space.model, demand, limits, Group(site, degrees.one(i), int(replicas[i, j])), None, flight,
                int(capacity[i] * replicas[i, j]), part(s.ttft, at), part(s.tpot, at), float(total[i, j]),
            )
        )  # fmt: skip
    return Looked(tuple(plans), considered, unfit)


# -- a pool for each phase -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Splits:
    """Numbers of replicas of both pools, every pair of layouts with each: `pair` counts them row by row."""

    pair: Array
    prefills: Array
    decodes: Array

    def where(self, kept: Array) -> Splits:
        """Those that are kept."""
        return Splits(self.pair[kept], self.prefills[kept], self.decodes[kept])


def disaggregated(space: Space, prefill: Site, decode: Site, demand: Demand, limits: Limits) -> Looked:
    """Every pair of layouts, one of replicas that prefill and one of those that decode, and every number of either.

    Without a load: the most requests in flight within the limits; with one: every split that keeps them.
    """
    if prefill.precision != decode.precision:
        return Looked((), 0)
    degrees, unfit = [], 0
    for site in (prefill, decode):
        legal = space.degrees(site)
        capacity = np.broadcast_to(np.asarray(_server(space.model, site, legal, demand).capacity), (len(legal), 1))
        unfit += int(np.sum(capacity < 1))
        degrees.append(legal.where(capacity[:, 0] >= 1))
    left_out = (("does not fit", unfit),) if unfit else ()
    if not all(map(len, degrees)):
        return Looked((), 0, left_out)
    apart = decode.on != prefill.on
    splits = _splits(space, prefill, decode, degrees, apart)
    if not len(splits.pair):
        return Looked((), 0, (*left_out, ("too few chips for two pools", 1)))
    pair = _pair(space, prefill, decode, demand, degrees)
    columns = Columns(pair, Load(1, None), (len(degrees[0]), len(degrees[1])))
    rates, flights = _highest(columns, splits, demand, limits)
    possible = rates > 0
    considered, splits, rates, flights = len(possible), splits.where(possible), rates[possible], flights[possible]
    chips = _chips(splits, degrees)
    order = np.lexsort((chips, -np.round(rates / chips, 12) if not demand.load else chips))[:EXACT]
    plans = _exactly(space, (prefill, decode), demand, limits, degrees, splits.where(order), flights[order])
    return Looked(plans, considered, left_out)


def _splits(space: Space, prefill: Site, decode: Site, degrees: Sequence[Degrees], apart: bool) -> Splits:
    rows = []
    each = [d.chips for d in degrees]
    rooms = [space.room(site) for site in (prefill, decode)]
    for i, first in enumerate(each[0]):
        for j, then in enumerate(each[1]):
            x = np.arange(1, (rooms[0] - (0 if apart else int(then))) // int(first) + 1)
            left = np.minimum(space.chips - x * first, rooms[1] if apart else rooms[1] - x * first) // then
            for prefills, most in zip(x, left, strict=True):
                rows.extend((i * len(each[1]) + j, int(prefills), y) for y in range(1, int(most) + 1))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Splits(table[:, 0], table[:, 1], table[:, 2])


def _chips(splits: Splits, degrees: Sequence[Degrees]) -> Array:
    first, then = np.divmod(splits.pair, len(degrees[1]))
    return np.asarray(splits.prefills * degrees[0].chips[first] + splits.decodes * degrees[1].chips[then])


def _pair(space: Space, prefill: Site, decode: Site, demand: Demand, degrees: Sequence[Degrees]) -> Pair:
    first: Setup = setup(space.model, layout=degrees[0].layout(1), **prefill.settings)
    then: Setup = setup(space.model, layout=_across(degrees[1]).layout(0), **decode.settings)
    chips = min(space.chips, space.room(decode))
    size = moved_bytes(first, then, demand.input)
    times = [network.seconds(size) for network in networks(decode.on, prefill.on, chips)]
    longest = times[0] if len(times) == 1 else times[0].most(times[1])
    known = rounded_down(demand.input * demand.prefix)
    return Pair(first, then, demand.input, demand.output, known, Replicas(chips, None, None, chips, (chips, chips)), longest)


def _across(degrees: Degrees) -> Degrees:
    return degrees


def _highest(columns: Columns, splits: Splits, demand: Demand, limits: Limits) -> tuple[Array, Array]:
    """Requests a second within the limits, 0 where none, and how many are then in flight; of a load those of it."""
    raise NotImplementedError


def _exactly(*_: Any) -> tuple[ServingPlan, ...]:
    raise NotImplementedError


def everywhere(space: Space, demand: Demand, limits: Limits, kinds: Sequence[str]) -> Iterator[Looked]:
    """All of it, part by part."""
    for site in space.sites:
        if "aggregated" in kinds:
            yield aggregated(space, site, demand, limits)
    if "disaggregated" in kinds:
        for prefill in space.sites:
            for decode in space.sites:
                yield disaggregated(space, prefill, decode, demand, limits)
