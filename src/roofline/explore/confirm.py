"""A plan simulated, request by request: what becomes of its limits when nothing is taken in the mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from roofline.declared.errors import InputError
from roofline.declared.groups import SLO
from roofline.declared.result import Figured, Units
from roofline.explore.serving_plans import ServingPlan
from roofline.simulation.pooled import PrefillPool
from roofline.simulation.simulate import Extent, simulate
from roofline.simulation.simulation import Simulation

EACH, FEWEST = 20, 1000
"""Requests that count, for each in flight, and at least."""
SPREAD = 0.5
"""Deviation of lengths over their mean where requests are always as many: `serve` takes them to be in no order."""
SHORTEST = 4
"""Tokens from which lengths vary."""


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

    The load is that of `serve`: at a rate requests are equally long; where they are always as many, lengths are
    log-normal about those asked for, since equal ones would go on in step for ever.

    Limits are kept where the simulation's means are within 2 % of them, which is about what its own 95 % confidence
    allows. Raises InputError for pools whose replicas share experts: those cannot be put side by side.
    """
    s = _simulation(plan, seed)
    ttft, tpot, latency = s.ttft.mean, s.tpot.mean, s.latency.mean
    of = replace(plan.limits, strict=False)
    keeps = bool(of.shares(ttft, tpot, latency).max() <= 1.02)
    several = plan.replicas if plan.prefill is None else 1
    rate = s.tokens_per_second * several / plan.chips
    return replace(plan, confirmation=Confirmation(ttft, tpot, latency, rate, s.attained, keeps))


def _simulation(plan: ServingPlan, seed: int) -> Simulation:
    demand, group, first = plan.demand, plan.group, plan.prefill
    if demand.prefix:
        raise InputError("confirm", demand.prefix, "requests without a known prefix")
    varied = demand.rate is None
    settings: dict[str, Any] = {
        "input": _lengths(int(demand.input), varied),
        "output_tokens": _lengths(int(demand.output_tokens), varied),
        "bill": group.site.bill,
    }
    several = 1 if first is None else group.replicas
    pool = None
    if first is not None:
        if max(group.layout.dp, first.layout.dp) > 1:
            raise InputError("confirm", group.layout.text(), "pools whose replicas share no experts")
        pool = PrefillPool(first.site.on, replace(first.layout, dp=first.replicas), first.site.where.engine)
    if demand.rate is None:
        flight = plan.batch if first is None else plan.concurrency
        settings["concurrency"] = flight
    else:
        settings["rate"] = demand.rate / (group.replicas if first is None else 1)
        flight = max(1, plan.concurrency // (group.replicas if first is None else 1))
    layout = group.layout if first is None else replace(group.layout, dp=several)
    extent = Extent(requests=max(FEWEST, EACH * flight), seed=seed)
    answer: Simulation = simulate(
        plan.model, where=group.site.under(layout), prefill=pool, extent=extent, slo=SLO(*plan.limits.bounds),
        **settings,
    )  # fmt: skip
    return answer


def _lengths(tokens: int, varied: bool) -> int | str:
    """Lengths of so many tokens, as a simulation takes them."""
    return f"lognormal({tokens},{SPREAD})" if varied and tokens >= SHORTEST else tokens
