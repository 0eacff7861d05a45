"""The Pareto front of a search: tokens per second of a user against tokens per second of a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import inf

import numpy as np

from roofline.declared.groups import Load
from roofline.distinct import Array
from roofline.estimates.tails import Percentiles
from roofline.explore.demand import Limits, ServedTimes
from roofline.explore.figures import OBJECTIVES
from roofline.explore.ranking import ranked_plans
from roofline.explore.serving_plans import ServingPlan
from roofline.explore.serving_space import SiteSpace

STEPS = 12
"""Limits of TPOT at which the best plan is looked for, from that of no limit to that of a request alone."""


@dataclass(frozen=True)
class _Paced(Limits):
    """Limits, and one of the mean TPOT, whatever the others are of."""

    pace: float = inf

    def used(self, means: ServedTimes, percentiles: Percentiles) -> Array:
        """How much of all of them is used."""
        return np.maximum(super().used(means, percentiles), np.asarray(means[1].expected) / self.pace)

    @property
    def loosest(self) -> tuple[float, float, float]:
        """Means beyond which none is kept."""
        ttft, tpot, latency = super().loosest
        return ttft, min(tpot, self.pace), latency


def front_plans(space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str]) -> tuple[ServingPlan, ...]:
    """Plans that none beats both for a user and for a chip, from the slowest answers to the fastest.

    `limits` have none of TPOT. Each has the most tokens per second and chip of all whose mean TPOT is no longer than
    one of `STEPS` limits, of equals the least TPOT, so that no plan of the space dominates it.
    """
    own = {field.name: getattr(limits, field.name) for field in fields(limits)}

    def best(tpot: float) -> ServingPlan | None:
        aim = OBJECTIVES["throughput"]
        plans = ranked_plans(space, demand, _Paced(**own, pace=tpot), kinds, aim).plans
        equal = (p for p in plans if aim.least(p) == aim.least(plans[0]))
        return min(equal, key=lambda p: (float(p.tpot.expected), p.chips), default=None)

    first = best(inf)
    if first is None:
        return ()
    plans = [first]
    for limit in np.geomspace(float(first.tpot.expected), _alone(space, demand) * (1 + 1e-9), STEPS)[1:].tolist():
        if limit < plans[-1].tpot.expected:
            plan = best(limit)
            if plan is None:
                break
            plans.append(plan)
    return tuple(replace(plan, limits=limits) for plan in plans)


def _alone(space: SiteSpace, demand: Load) -> float:
    """TPOT of a request that has the fastest replica for itself."""
    every = [kinds.server.table.alone[1] for site in space.sites for kinds in space.replicas(site, demand).kinds]
    return float(min(np.min(seconds) for seconds in every))
