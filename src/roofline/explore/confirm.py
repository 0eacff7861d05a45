"""Plans simulated, request by request: what becomes of their limits when nothing is taken in the mean, and their order
by that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.groups import SLO, LengthSpread
from roofline.declared.kinds import Given
from roofline.declared.question import group_settings
from roofline.declared.result import Figured, Units
from roofline.explore.demand import NAMES
from roofline.explore.ranking import Ranked
from roofline.explore.serving_plans import Group, ServingPlan
from roofline.layout.layout import Layout
from roofline.simulation.pooled import PrefillPool
from roofline.simulation.simulate import Extent, simulate
from roofline.simulation.simulation import Simulation

EACH, FEWEST = 20, 1000
"""Requests that count, for each in flight, and at least."""
TOLERANCE = 0.02
"""Share by which a mean may exceed its limit, which is about what a simulation's own 95 % confidence allows."""


@dataclass(frozen=True)
class Confirmation(Figured):
    """Means of a simulation in seconds, and whether they keep the limits; `attained`: share of requests that do."""

    FIGURES: ClassVar[Units] = {
        "ttft": "s", "tpot": "s", "latency": "s", "tokens_per_second_per_chip": "tokens/s", "attained": "share",
        "keeps": "",
    }  # fmt: skip

    ttft: float
    tpot: float
    latency: float
    tokens_per_second_per_chip: float
    attained: float
    keeps: bool


def confirmed(plan: ServingPlan, seed: int = 0) -> ServingPlan:
    """The plan with its confirmation: of replicas that do both phases one is simulated, of two pools all.

    The load is that of `serve`.

    Limits are kept where the simulation's means are within `TOLERANCE` of them, or where as many requests keep them as
    were asked for, less two standard errors. Pools of several replicas whose ranks share experts cannot be simulated
    side by side: such a plan stays as it is. Raises InputError for a known prefix.
    """
    if plan.demand.prefix:
        raise InputError("confirm", plan.demand.prefix, "requests without a known prefix")
    if plan.prefill is not None and any(int(g.layout.dp) > 1 < g.replicas for g in plan.groups):
        return plan
    s = _simulation(plan, seed)
    ttft, tpot, latency = s.ttft.mean, s.tpot.mean, s.latency.mean
    asked = plan.limits.attainment
    if asked is None:
        keeps = bool(plan.limits.shares(ttft, tpot, latency).max() <= 1 + TOLERANCE)
    else:
        keeps = s.attained >= asked - 2 * sqrt(asked * (1 - asked) / s.requests)
    several = plan.replicas if plan.prefill is None else 1
    rate = s.tokens_per_second * several / plan.chips
    return replace(plan, confirmation=Confirmation(ttft, tpot, latency, rate, s.attained, keeps))


def missed_limits(plan: ServingPlan) -> str:
    """The limits that the simulation of a plan misses, and by how much."""
    c = plan.confirmation
    if plan.limits.attainment is not None:
        return f"misses in the simulation: {100 * c.attained:.0f} % of requests keep the limits"
    used = zip(NAMES, plan.limits.shares(c.ttft, c.tpot, c.latency), strict=True)
    over = (f"{name.upper()} at {100 * share:.0f} % of its limit" for name, share in used if share > 1 + TOLERANCE)
    return f"misses in the simulation: {', '.join(over)}"


def reranked(ranked: Ranked, number: int) -> tuple[Ranked, tuple[ServingPlan, ...]]:
    """The first plans simulated: those that keep their limits by what that says, then the others; and those that do
    not keep them."""
    every = [confirmed(plan) for plan in ranked.plans[:number]]
    kept = sorted((p for p in every if not p.broken), key=lambda p: ranked.aim.least(p.simulated))
    missed = tuple(replace(p, why=missed_limits(p)) for p in every if p.broken)
    return replace(ranked, plans=(*kept, *ranked.plans[number:])), missed


def recommended(ranked: Ranked, number: int) -> ServingPlan | None:
    """The simplest of the plans within the error whose simulation keeps the limits, of the first so many of them; where
    there is none, of those that cannot be simulated."""
    left = list[ServingPlan]()
    for simple in ranked.as_good[:number]:
        plan = confirmed(ranked.eased(replace(simple, confirmation=None)))
        if plan.confirmation is not None and not plan.broken:
            return plan
        left += [] if plan.broken else [plan]
    return left[0] if left else None


def _simulation(plan: ServingPlan, seed: int) -> Simulation:
    demand, group, first = plan.demand, plan.group, plan.prefill
    settings: dict[str, Given] = {
        "input": int(demand.input), "output_tokens": int(demand.output_tokens), "bill": group.site.bill,
        **{name: getattr(demand, name) for name in group_settings(LengthSpread)},
    }  # fmt: skip
    pool = None if first is None else PrefillPool(first.site.on, replicas_of(first), first.site.where.engine)
    if demand.rate is None:
        flight = plan.batch if first is None else plan.concurrency
        settings["concurrency"] = flight
    else:
        settings["rate"] = demand.rate / (group.replicas if first is None else 1)
        flight = max(1, plan.concurrency // (group.replicas if first is None else 1))
    layout = group.layout if first is None else replicas_of(group)
    extent = Extent(requests=max(FEWEST, EACH * flight), seed=seed)
    answer: Simulation = simulate(
        plan.model, where=group.site.under(layout), prefill=pool, extent=extent, slo=SLO(*plan.limits.bounds),
        **settings,
    )  # fmt: skip
    return answer


def replicas_of(group: Group) -> Layout:
    """The layout of all replicas of a pool; one whose ranks share experts is alone."""
    return replace(group.layout, dp=int(group.layout.dp) * group.replicas)
