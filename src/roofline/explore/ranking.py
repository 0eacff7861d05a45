"""Plans of a space of ways to serve that keep limits: the best by an aim, the simplest of those that are as good, and
the best of every machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import hypot, inf
from typing import ClassVar

import numpy as np

from roofline.declared.groups import LIMITED, Load
from roofline.declared.result import Figured, Units
from roofline.explore.demand import Limits
from roofline.explore.figures import Aim
from roofline.explore.serving_plans import ServingPlan, Site
from roofline.explore.serving_pools import connected, disaggregated, lightest_pools, pool_pairs
from roofline.explore.serving_replicas import aggregated, lightest
from roofline.explore.serving_space import Looked, SiteSpace, all_looked

SURE, FEWER = 0.9, 25
"""The chance of keeping the limits beyond which a recommended plan takes no fewer requests, and numbers of these that
are looked at."""

OFF = 0.2
"""How far percentiles of the formula are from those of a simulation, as a share of these."""
ROOM, ROOM_OF_MOST, MOST_EASED = (1.15, 1.02, 1.05), (1.3, 1.3, 1.1), 5
"""By how much a simulation's TTFT, TPOT and latency may be longer than the closed form's, in the mean and for most
requests, for which a recommended plan has room, and how many plans are looked at for one that has."""


def simplicity(plan: ServingPlan) -> tuple[float, ...]:
    """What is least of the simpler plan; the first that differs decides.

    Pools, then chips, then ranks of the largest replica, then the chance that limits are not kept.
    """
    return len(plan.groups), plan.chips, max(int(group.layout.chips) for group in plan.groups), 1 - plan.chance


def error_of(plan: ServingPlan) -> float:
    """The share by which its throughput may be lower: by as much as steps may be shorter than is expected.

    That is at the near end of the 80 % interval of its TPOT. A plan that is worse by no more may be as good. The far
    end is wider, since more slows a step than speeds it up, but it does so in other plans too. TTFT's interval is
    mostly that of waits. Where limits are of most requests, `OFF` comes on top, as an independent error.
    """
    own = 1 - float(plan.tpot.low / plan.tpot.expected)
    return own if plan.limits.share is None or not plan.limits.limits else hypot(own, OFF)


def _use_with_room(plan: ServingPlan) -> float:
    """How much of its limits a plan would use if times were as long as a simulation may have them."""
    return plan.used_with(ROOM if plan.limits.share is None else ROOM_OF_MOST)


@dataclass(frozen=True)
class Ranked:
    """Plans that keep the limits, the best by an aim first, and all that was looked at."""

    aim: Aim
    plans: tuple[ServingPlan, ...]
    looked: Looked

    @cached_property
    def as_good(self) -> tuple[ServingPlan, ...]:
        """Plans within the error of the first (`error_of`), the simplest first."""
        if not self.plans:
            return ()
        best, error = self.aim.least(self.plans[0]), error_of(self.plans[0])
        worst = best * (1 - error) if best < 0 else best / (1 - error)
        return tuple(sorted((p for p in self.plans if self.aim.least(p) <= worst), key=simplicity))

    def eased(self, plan: ServingPlan) -> ServingPlan:
        """The plan with fewer requests in flight, where their number is not asked for: of equally simple plans those
        stand first that are more likely to keep the limits.

        As many as are kept with a chance of `SURE` and with room for a simulation's longer times, or as the error of
        the first plan allows.
        """
        if plan.demand.given or plan.concurrency <= plan.replicas:
            return plan
        best = self.aim.least(self.plans[0])
        ratio = self.aim.least(plan) / best if best < 0 else best / self.aim.least(plan)
        least_rate = plan.requests_per_second * (1 - error_of(self.plans[0])) / ratio
        each = plan.replicas if plan.prefill is None else 1
        most = plan.concurrency // each
        numbers = each * np.unique(np.rint(np.linspace(max(1, most // 4), most, FEWER)).astype(np.int64))
        answer = plan.evaluated(numbers)
        fewer = [replace(plan, concurrency=int(n)).answered(answer, i) for i, n in enumerate(numbers)]
        enough = [p for p in fewer if p.requests_per_second >= least_rate and p.keeps]
        sure = [p for p in enough if p.chance >= SURE and _use_with_room(p) <= 1]
        return sure[-1] if sure else min(enough, key=_use_with_room, default=plan)

    @cached_property
    def recommended(self) -> ServingPlan | None:
        """The simplest plan within the error that has room for what a simulation differs by, of the simplest few.

        Where none of them has, that with most room.
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
        """The best plan of every machine alone that has one, and its rank."""
        best: dict[int, tuple[int, ServingPlan]] = {}
        machines = [site.on for site in space.sites]
        for rank, plan in enumerate(self.plans, 1):
            first, *others = (group.site.on for group in plan.groups)
            if all(other == first for other in others):
                best.setdefault(machines.index(first), (rank, plan))
        return tuple(best[machine] for machine in sorted(best))


@dataclass(frozen=True)
class NearestPlan(Figured):
    """A limit, the least seconds of what it is of that any way to serve has, and the plan that has them.

    Of the load, or where there is none of a request in each replica.
    """

    FIGURES: ClassVar[Units] = {"name": "", "limit": "s", "least": "s", "plan": ""}

    name: str
    limit: float
    least: float
    plan: ServingPlan


def nearest_plans(space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str]) -> tuple[NearestPlan, ...]:
    """How near any way to serve comes to each limit; none where no way takes the load."""
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
    """Layouts × numbers of replicas, and splits of two pools, counted before any of them is built or worked out.

    Raises InputError for more layouts, or pairs of them, than a search takes.
    """
    number = 0
    for site in space.sites:
        if "aggregated" in kinds:
            fitting = space.replicas(site, demand)
            number += sum(int((space.room(site) // k.degrees.chips).sum()) for k in fitting.kinds)
    for sites in _pool_sites(space) if "disaggregated" in kinds else ():
        number += sum(pair.splits.number for pair in pool_pairs(space, sites, demand, limits))
    return number


def _pool_sites(space: SiteSpace) -> Iterator[tuple[Site, Site]]:
    """Sites of which one can prefill for the other: of one engine and one set of formats."""
    for site, prefill in product(space.sites, space.sites):
        if prefill.how.id == site.how.id and prefill.where.precision == site.where.precision:
            yield prefill, site


def ranked_plans(
    space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str], aim: Aim
) -> Ranked:  # fmt: skip
    """What keeps the limits, the best of an aim first, the simplest of equals, and all that was looked at."""
    looked = all_looked(list(_looked(space, demand, limits, kinds, aim)))
    return Ranked(aim, tuple(sorted(looked.plans, key=lambda p: (aim.least(p), *simplicity(p)))), looked)


def _looked(space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str], aim: Aim) -> Iterator[Looked]:
    for site in space.sites:
        if "aggregated" in kinds:
            yield aggregated(space, site, demand, limits, aim.faster)
        for prefill in space.sites if "disaggregated" in kinds else ():
            if prefill.how.id == site.how.id:
                yield disaggregated(space, prefill, site, demand, limits, aim)
