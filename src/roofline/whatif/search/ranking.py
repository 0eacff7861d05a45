"""Rank plans that keep the limits: the best for an objective, the simplest within the error, the best per machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import inf
from typing import ClassVar

import numpy as np

from roofline.declared.groups import LIMITED, Load
from roofline.declared.result import Figured, Units
from roofline.whatif.query.figures import Aim
from roofline.whatif.search.demand import Limits
from roofline.whatif.search.serving.followed import (
    answers_may_be_followed,
    followed_plans,
    is_followed,
    known_numbers,
    may_be_followed,
    plan_order,
)
from roofline.whatif.search.serving.plans import ServingPlan, Site, error_of, percentiles_of, simplicity
from roofline.whatif.search.serving.pools import connected, disaggregated, lightest_pools, pool_pairs
from roofline.whatif.search.serving.replicas import aggregated, lightest
from roofline.whatif.search.serving.space import Looked, SiteSpace, all_looked

SURE, FEWER, FEWER_FOLLOWED = 0.9, 25, 5
"""Probability of keeping the limits that a recommended plan aims for, and how many smaller concurrencies are tried; of
servers that are followed, fewer."""

ROOM, ROOM_OF_MOST, MOST_EASED = (1.15, 1.02, 1.05), (1.3, 1.3, 1.1), 5
"""Safety factors of a recommended plan: how much longer simulated TTFT, TPOT and latency may be than the closed form's,
for means and for percentiles; and how many plans are tried.
"""


LOOSER = 1.25
"""Times as long times by the formula as limits allow, with which a server that is followed is still looked at."""
UNTIMED = Looked((), 0, 0, (("time", 1),), 0, None)
"""The outcome at a site, or a pair of sites, for which no time was left."""


def _use_with_room(plan: ServingPlan) -> float:
    """How much of its limits a plan would use with times longer by the safety factors."""
    return plan.used_with(ROOM if plan.limits.share is None else ROOM_OF_MOST)


@dataclass(frozen=True)
class Ranked:
    """Plans that keep the limits, sorted by an objective, and the outcome of the whole search."""

    aim: Aim
    plans: tuple[ServingPlan, ...]
    looked: Looked

    @cached_property
    def as_good(self) -> tuple[ServingPlan, ...]:
        """Plans within the error of the best plan (`error_of`), the simplest first."""
        if not self.plans:
            return ()
        best, error = self.aim.least(self.plans[0]), error_of(self.plans[0])
        worst = best * (1 - error) if best < 0 else best / (1 - error)
        return tuple(sorted((p for p in self.plans if self.aim.least(p) <= worst), key=simplicity))

    def eased(self, plan: ServingPlan) -> ServingPlan:
        """The plan with fewer requests in flight, if their number is free.

        Fewer requests make it more likely that the limits hold. The result has the largest number with a chance of at
        least `SURE` and the safety factors kept; its throughput stays within the error of the best plan.
        """
        if plan.demand.given or plan.concurrency <= plan.replicas:
            return plan
        best = self.aim.least(self.plans[0])
        ratio = self.aim.least(plan) / best if best < 0 else best / self.aim.least(plan)
        least_rate = plan.requests_per_second * (1 - error_of(self.plans[0])) / ratio
        each = plan.replicas if plan.prefill is None else 1
        most = plan.concurrency // each
        followed = is_followed(plan)
        numbers = np.rint(np.linspace(max(1, most // 4), most, FEWER_FOLLOWED if followed else FEWER)).astype(np.int64)
        if followed:
            numbers = np.array([*(known_numbers(plan, int(n))[0] for n in numbers[:-1]), most])
        numbers = each * np.unique(numbers)
        answer = plan.evaluated(numbers)
        percentiles, enough = percentiles_of(answer), list[ServingPlan]()
        for i, number in reversed(list(enumerate(numbers))):
            eased = replace(plan, concurrency=int(number)).answered(answer, i, percentiles)
            if eased.requests_per_second < least_rate or not eased.keeps:
                continue
            if eased.chance >= SURE and _use_with_room(eased) <= 1:
                return eased
            enough.append(eased)
        return min(reversed(enough), key=_use_with_room, default=plan)

    @cached_property
    def recommended(self) -> ServingPlan | None:
        """Of the simplest plans within the error, the first that keeps the safety factors.

        If none does, the plan that uses least of its limits with them; None without plans.
        """
        plans, roomiest, least = self.as_good[:MOST_EASED], None, inf
        for plan in plans:
            eased = self.eased(plan)
            used = _use_with_room(eased)
            if roomiest is None or used < least:
                roomiest, least = eased, used
            if used <= 1:
                break
        return roomiest

    def of_machines(self, space: SiteSpace) -> tuple[tuple[int, ServingPlan], ...]:
        """The best plan of each machine by itself, with its rank."""
        best: dict[int, tuple[int, ServingPlan]] = {}
        machines = [site.on for site in space.sites]
        for rank, plan in enumerate(self.plans, 1):
            first, *others = (group.site.on for group in plan.groups)
            if all(other == first for other in others):
                best.setdefault(machines.index(first), (rank, plan))
        return tuple(best[machine] for machine in sorted(best))


@dataclass(frozen=True)
class NearestPlan(Figured):
    """A limit, the least time that any plan reaches for it, and that plan.

    Under the load, or without one with a single request in each replica.
    """

    FIGURES: ClassVar[Units] = {"name": "", "limit": "s", "least": "s", "plan": ""}

    name: str
    limit: float
    least: float
    plan: ServingPlan


def nearest_plans(space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str]) -> tuple[NearestPlan, ...]:
    """The nearest that any plan comes to each limit; empty where no plan sustains the load."""
    plans = list[ServingPlan]()
    for site in space.sites if "aggregated" in kinds else ():
        plans += lightest(space, site, demand, limits)
    if "disaggregated" in kinds:
        both = [sites for sites in _pool_sites(space) if connected(space, *sites)]
        plans += lightest_pools(space, both, demand, limits)

    def nearest(name: str, limit: float) -> NearestPlan:
        def seconds(plan: ServingPlan) -> float:
            span = plan.limited[LIMITED.index(name)]
            return float(span.high if limits.strict else span.expected)

        plan = min(plans, key=seconds)
        return NearestPlan(name, limit, seconds(plan), plan)

    return tuple(nearest(name, limit) for name, limit in limits.limits.items()) if plans else ()


def plans_to_look_at(space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str]) -> int:
    """The size of the search: layouts × numbers of replicas, and splits of two pools, counted without building them.

    Where the time of the search ends meanwhile, what was counted so far.
    Raises InputError for too many layouts, or pairs of them.
    """
    number = 0
    for site in space.sites:
        if number and space.clock.is_over:
            return number
        if "aggregated" in kinds:
            fitting = space.replicas(site, demand)
            number += sum(int((space.room(site) // k.degrees.chips).sum()) for k in fitting.kinds)
    for sites in _pool_sites(space) if "disaggregated" in kinds else ():
        number += sum(pair.splits.number for pair in pool_pairs(space, sites, demand, limits))
    return number


def _pool_sites(space: SiteSpace) -> Iterator[tuple[Site, Site]]:
    """Pairs of a prefill and a decode site that can work together: same engine, same formats."""
    for site, prefill in product(space.sites, space.sites):
        if prefill.how.id == site.how.id and prefill.where.precision == site.where.precision:
            yield prefill, site


def ranked_plans(
    space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str], aim: Aim, again: int = 0
) -> Ranked:  # fmt: skip
    """The plans that keep the limits, sorted by the objective and then by simplicity, and the outcome of the search.

    `again`: how many are looked at again at least, where servers are followed; 0 leaves the formula's figures.
    """
    looked = all_looked(list(_looked(space, demand, limits, kinds, aim, again)))
    plans = sorted(looked.plans, key=lambda plan: plan_order(aim, plan))
    if again and may_be_followed(demand):
        plans = followed_plans(space, plans, aim, again)
        looked = replace(looked, plans=tuple(plans))
    return Ranked(aim, tuple(plans), looked)


def _looser(limits: Limits, demand: Load) -> Limits | None:
    """Limits for the formula's figures of servers that are followed and have a load: such a server may be faster."""
    if not answers_may_be_followed(demand) or not demand.given:  # the formula answers
        return None
    return replace(limits, ttft=LOOSER * limits.ttft, tpot=LOOSER * limits.tpot, latency=LOOSER * limits.latency)


def _looked(
    space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str], aim: Aim, again: int
) -> Iterator[Looked]:
    """The outcome at each site and pair of sites, until the time of the search has ended; the first always."""
    number, looser = 0, _looser(limits, demand) if again else None
    for site in space.sites if "aggregated" in kinds else ():
        number += 1
        late = number > 1 and space.clock.is_over
        yield UNTIMED if late else aggregated(space, site, demand, limits, aim.faster, looser)
    for site, prefill in product(space.sites, space.sites) if "disaggregated" in kinds else ():
        if prefill.how.id == site.how.id:
            number += 1
            late = number > 1 and space.clock.is_over
            yield UNTIMED if late else disaggregated(space, prefill, site, demand, limits, aim)
