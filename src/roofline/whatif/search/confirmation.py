"""Confirm plans of a search by simulating them request by request, and rank them by the simulated figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, isnan
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.groups import SLO, LengthSpread
from roofline.declared.kinds import Given
from roofline.declared.question import group_settings
from roofline.declared.result import Figured, Units
from roofline.layout.layout import Layout
from roofline.serving.simulate.disaggregated import PrefillPool
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.simulation import Simulation
from roofline.whatif.search.ranking import Ranked
from roofline.whatif.search.serving.plans import Group, ServingPlan

EACH, FEWEST = 20, 1000
"""Simulated requests: at least 20 per request in flight, and at least 1,000."""
LONGER, MOST_CONFIRMING = 4, 40_000
"""Growth factor and maximum of the number of requests where attainment is within its confidence interval."""
SHARP = 36.0
"""Requests per share / (1 − share). The attainment is then known to ± a third of the share that may miss a limit."""


@dataclass(frozen=True)
class Confirmation(Figured):
    """Simulated mean times in seconds, the SLO attainment as a share of requests, and whether the limits hold.

    `attained_half_width`: half of the 95 % confidence interval of the share.
    """

    FIGURES: ClassVar[Units] = {
        "ttft": "s", "tpot": "s", "latency": "s", "tokens_per_second_per_chip": "tokens/s", "requests": "",
        "attained": "share", "attained_half_width": "share", "keeps": "",
    }  # fmt: skip

    ttft: float
    tpot: float
    latency: float
    tokens_per_second_per_chip: float
    requests: int
    attained: float
    attained_half_width: float
    keeps: bool
    why: str = ""
    """Which limits are missed; empty where all hold."""


def confirmed(plan: ServingPlan, seed: int = 0) -> ServingPlan:
    """The plan with its simulation. Without a prefill pool one replica is simulated, with one both pools.

    The load is that of `serve`. Limits hold as `Simulation.keeps` decides. Pools of several replicas whose ranks share
    experts cannot be simulated side by side: such a plan is returned unchanged. Raises InputError for a known prefix.
    """
    if plan.demand.prefix:
        raise InputError("confirm", plan.demand.prefix, "requests without a known prefix")
    if plan.prefill is not None and any(int(g.layout.dp) > 1 < g.replicas for g in plan.groups):
        return plan
    number = _requests(plan)
    s = _simulation(plan, number, seed)
    while _undecided(s) and number < MOST_CONFIRMING:
        number = min(LONGER * number, MOST_CONFIRMING)
        s = _simulation(plan, number, seed)
    several = plan.replicas if plan.prefill is None else 1
    rate = s.tokens_per_second * several / plan.chips
    width = 0.0 if isnan(s.attained_half_width) else s.attained_half_width
    times, shares = (s.ttft.mean, s.tpot.mean, s.latency.mean), (s.attained, width)
    kept = s.keeps is not False
    return replace(plan, confirmation=Confirmation(*times, rate, s.requests, *shares, kept, "" if kept else _why(s)))


def _requests(plan: ServingPlan) -> int:
    """The number of requests to simulate at first."""
    share = (plan.limits.share or 0.0) if plan.limits.limits else 0.0
    return max(FEWEST, EACH * _in_flight(plan), min(ceil(SHARP * share / (1 - share)), MOST_CONFIRMING))


def _in_flight(plan: ServingPlan) -> int:
    """Requests in flight in the simulated part: one replica, or both pools."""
    if plan.prefill is not None:
        return plan.concurrency
    return plan.batch if plan.demand.rate is None else max(1, plan.concurrency // plan.group.replicas)


def _undecided(s: Simulation) -> bool:
    """Whether a longer run might decide otherwise: the required share is within the confidence interval."""
    if s.attainment is None or s.overloaded:
        return False
    return isnan(s.attained_half_width) or abs(s.attained - s.attainment) <= s.attained_half_width


def _why(s: Simulation) -> str:
    """The limits that a simulation misses, and by how much."""
    if s.overloaded:
        return "misses in the simulation: overloaded"
    if s.attainment is not None:
        return f"misses in the simulation: {100 * s.attained:.1f} % of requests keep the limits"
    over = (f"{name.upper()} at {100 * share:.0f} % of its limit" for name, share in s.exceeded.items())
    return f"misses in the simulation: {', '.join(over)}"


def reranked(ranked: Ranked, number: int) -> tuple[Ranked, tuple[ServingPlan, ...]]:
    """Simulate the first `number` plans and rank them again.

    Returns the ranking, with the simulated plans that keep their limits in simulated order and then the plans that were
    not simulated; and the simulated plans that miss a limit.
    """
    every = [confirmed(plan) for plan in ranked.plans[:number]]
    kept = sorted((p for p in every if not p.broken), key=lambda p: ranked.aim.least(p.simulated))
    missed = tuple(replace(p, why=p.confirmation.why) for p in every if p.broken)
    return replace(ranked, plans=(*kept, *ranked.plans[number:])), missed


def recommended(ranked: Ranked, number: int) -> ServingPlan | None:
    """The simplest of the first `number` plans within the error whose simulation keeps the limits.

    If there is none, the first of those that cannot be simulated; None if all were simulated and miss the limits.
    """
    left = list[ServingPlan]()
    for simple in ranked.as_good[:number]:
        plan = confirmed(ranked.eased(replace(simple, confirmation=None)))
        if plan.confirmation is not None and not plan.broken:
            return plan
        left += [] if plan.broken else [plan]
    return left[0] if left else None


def _simulation(plan: ServingPlan, number: int, seed: int) -> Simulation:
    demand, group, first = plan.demand, plan.group, plan.prefill
    settings: dict[str, Given] = {
        "input": int(demand.input), "output_tokens": int(demand.output_tokens), "bill": group.site.bill,
        **{name: getattr(demand, name) for name in group_settings(LengthSpread)},
    }  # fmt: skip
    pool = None if first is None else PrefillPool(first.site.on, replicas_of(first), first.site.where.engine)
    if demand.rate is None:
        settings["concurrency"] = _in_flight(plan)
    else:
        settings["rate"] = demand.rate / (group.replicas if first is None else 1)
    layout = group.layout if first is None else replicas_of(group)
    answer: Simulation = simulate(
        plan.model, where=group.site.under(layout), prefill=pool, images=plan.images,
        extent=Extent(requests=number, seed=seed), slo=SLO(*plan.limits.bounds, plan.limits.attainment), **settings,
    )  # fmt: skip
    return answer


def replicas_of(group: Group) -> Layout:
    """The layout of all replicas of a pool as one, with `dp` times the replicas."""
    return replace(group.layout, dp=int(group.layout.dp) * group.replicas)
