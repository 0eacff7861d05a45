"""The Pareto front of a search: tokens per second of a user against tokens per second of a chip."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from roofline.explore.search import Search, ranked_plans
from roofline.explore.serving_plans import ServingPlan

STEPS = 12
"""Limits of TPOT at which the best plan is looked for, from that of no limit to that of a request alone."""


def pareto_front(s: Search) -> Search:
    """The search without its limit of TPOT, whose plans are those that none beats both for a user and for a chip.

    From the slowest answers to the fastest. Each has the most tokens per second and chip of all whose TPOT is no longer
    than one of `STEPS` limits, of equals the least TPOT, so that no plan of the space dominates it.
    """
    free = replace(s, limits=replace(s.limits, tpot=inf), objective="front", plans=())
    best = _best(free, inf)
    if best is None:
        return free
    plans = [best]
    for limit in np.geomspace(float(best.tpot.expected), _alone(s) * (1 + 1e-9), STEPS)[1:].tolist():
        if limit < plans[-1].tpot.expected:
            plan = _best(free, limit)
            if plan is None:
                break
            plans.append(plan)
    return replace(free, plans=tuple(replace(plan, limits=free.limits) for plan in plans))


def _best(s: Search, tpot: float) -> ServingPlan | None:
    """The most tokens per second and chip where TPOT is no longer, of equals the soonest."""
    plans = ranked_plans(s.space, s.demand, replace(s.limits, tpot=tpot), s.kinds, _aim)[0]
    return plans[0] if plans else None


def _aim(p: ServingPlan) -> tuple[float, ...]:
    return -p.tokens_per_second_per_chip, float(p.tpot.expected), p.chips


def _alone(s: Search) -> float:
    """TPOT of a request that has the fastest replica for itself."""
    every = [kinds.server.table.alone[1] for site in s.space.sites for kinds in s.space.replicas(site, s.demand).kinds]
    return float(min(np.min(seconds) for seconds in every))
