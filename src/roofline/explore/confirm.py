"""Plans simulated, request by request: what becomes of their limits when nothing is taken in the mean, and their order
by that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, isnan
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.groups import SLO, LengthSpread
from roofline.declared.kinds import Given
from roofline.declared.question import group_settings
from roofline.declared.result import Figured, Units
from roofline.explore.ranking import Ranked
from roofline.explore.serving_plans import Group, ServingPlan
from roofline.layout.layout import Layout
from roofline.simulation.pooled import PrefillPool
from roofline.simulation.simulate import Extent, simulate
from roofline.simulation.simulation import Simulation

EACH, FEWEST = 20, 1000
"""Requests that count: for each in flight, and at least."""
LONGER, MOST_CONFIRMING = 4, 40_000
"""Times as many requests, and most of them, where fewer do not tell whether a share of them keeps the limits."""
SHARP = 36.0
"""Requests over share / (1 − share): the share is then known to ± a third of the requests that may miss a limit."""


@dataclass(frozen=True)
class Confirmation(Figured):
    """Means of a simulation in seconds, the share of requests that keep the limits, and whether that is enough.

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
    """What is missed."""


def confirmed(plan: ServingPlan, seed: int = 0) -> ServingPlan:
    """The plan with its confirmation: of replicas that do both phases one is simulated, of two pools all.

    The load is that of `serve`.

    Limits are kept where `Simulation.keeps` says so. Pools of several replicas whose ranks share experts cannot be
    simulated side by side: such a plan stays as it is. Raises InputError for a known prefix.
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
    """How many requests are simulated, at first."""
    share = (plan.limits.share or 0.0) if plan.limits.limits else 0.0
    return max(FEWEST, EACH * _in_flight(plan), min(ceil(SHARP * share / (1 - share)), MOST_CONFIRMING))


def _in_flight(plan: ServingPlan) -> int:
    """Requests in flight of what is simulated: one replica that does both phases, or both pools."""
    if plan.prefill is not None:
        return plan.concurrency
    return plan.batch if plan.demand.rate is None else max(1, plan.concurrency // plan.group.replicas)


def _undecided(s: Simulation) -> bool:
    """Whether a longer run may say otherwise: the share that is asked for is within the confidence of that which is."""
    if s.attainment is None or s.overloaded:
        return False
    return isnan(s.attained_half_width) or abs(s.attained - s.attainment) <= s.attained_half_width


def _why(s: Simulation) -> str:
    """What a simulation misses, and by how much."""
    if s.overloaded:
        return "misses in the simulation: overloaded"
    if s.attainment is not None:
        return f"misses in the simulation: {100 * s.attained:.1f} % of requests keep the limits"
    over = (f"{name.upper()} at {100 * share:.0f} % of its limit" for name, share in s.exceeded.items())
    return f"misses in the simulation: {', '.join(over)}"


def reranked(ranked: Ranked, number: int) -> tuple[Ranked, tuple[ServingPlan, ...]]:
    """The first plans simulated: those that keep their limits by what that says, then the others; and those that do
    not keep them."""
    every = [confirmed(plan) for plan in ranked.plans[:number]]
    kept = sorted((p for p in every if not p.broken), key=lambda p: ranked.aim.least(p.simulated))
    missed = tuple(replace(p, why=p.confirmation.why) for p in every if p.broken)
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
        plan.model, where=group.site.under(layout), prefill=pool, extent=Extent(requests=number, seed=seed),
        slo=SLO(*plan.limits.bounds, plan.limits.attainment), **settings,
    )  # fmt: skip
    return answer


def replicas_of(group: Group) -> Layout:
    """The layout of all replicas of a pool; one whose ranks share experts is alone."""
    return replace(group.layout, dp=int(group.layout.dp) * group.replicas)
