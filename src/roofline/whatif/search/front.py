"""The Pareto front of a search: tokens/s per user against tokens/s per chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import inf

import numpy as np

from roofline.declared.groups import Load
from roofline.declared.numbers.arrays import Array
from roofline.serving.closed_forms.percentiles import Percentiles
from roofline.whatif.query.figures import OBJECTIVES
from roofline.whatif.search.demand import Limits, ServedTimes
from roofline.whatif.search.ranking import ranked_plans
from roofline.whatif.search.serving.followed import may_be_followed
from roofline.whatif.search.serving.plans import ServingPlan
from roofline.whatif.search.serving.space import SiteSpace

STEPS = 12
"""Number of TPOT limits at which the best plan is sought, from the unlimited optimum to a single request alone."""


@dataclass(frozen=True)
class _Paced(Limits):
    """Limits with an additional limit `pace` on the mean TPOT."""

    pace: float = inf

    def used(self, means: ServedTimes, percentiles: Percentiles) -> Array:
        """How much of all limits is used, that on the mean TPOT included."""
        return np.maximum(super().used(means, percentiles), np.asarray(means[1].expected) / self.pace)

    @property
    def loosest(self) -> tuple[float, float, float]:
        """Means above which the limits cannot hold, in seconds."""
        ttft, tpot, latency = super().loosest
        return ttft, min(tpot, self.pace), latency


def front_plans(space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str]) -> tuple[ServingPlan, ...]:
    """The Pareto-optimal plans for tokens/s per user and per chip, from the slowest to the fastest for a user.

    `limits` has none on TPOT. Each plan maximises tokens/s per chip under one of `STEPS` limits on the mean TPOT; ties
    go to the lowest TPOT. No plan of the space therefore dominates it.
    """
    space.clock.start()
    own = {field.name: getattr(limits, field.name) for field in fields(limits)}

    def best(tpot: float) -> ServingPlan | None:
        aim = OBJECTIVES["throughput"]
        again = int(may_be_followed(demand))
        plans = ranked_plans(space, demand, _Paced(**own, pace=tpot), kinds, aim, again).plans
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
    whole = (replace(plan, limits=limits) for plan in plans)
    return tuple(plan.answered(plan.evaluated()) if plan.prefill is None else plan for plan in whole)


def _alone(space: SiteSpace, demand: Load) -> float:
    """TPOT of a request alone on the fastest replica, in seconds."""
    every = [kinds.server.table.alone[1] for site in space.sites for kinds in space.replicas(site, demand).kinds]
    return float(min(np.min(seconds) for seconds in every))
