"""`search`: the best ways to serve a model within limits, of all that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from math import inf
from typing import Annotated, Any, ClassVar

import numpy as np

from roofline.declared.checks import real
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import Load, Where
from roofline.declared.kinds import (
    ChipCount,
    KindName,
    LayoutText,
    ObjectiveName,
    PlainNumber,
    Whole,
    WholeOrNone,
)
from roofline.declared.maths import is_array
from roofline.declared.question import group, group_settings, question
from roofline.declared.result import Result, Units
from roofline.estimates.bill import Bill
from roofline.estimates.cost import Cost, tariff
from roofline.estimates.deployment import is_several, machines
from roofline.estimates.requests import LENGTHS
from roofline.estimates.settings import bill_of
from roofline.explore.demand import Limits
from roofline.explore.figures import OBJECTIVES, Aim
from roofline.explore.front import front_plans
from roofline.explore.ranking import NearestPlan, error_of, nearest_plans, plans_to_look_at, ranked_plans
from roofline.explore.serving_plans import PlanPlace, ServingPlan, Site
from roofline.explore.serving_space import Looked, SiteSpace
from roofline.layout.layout import Layout, layout_named
from roofline.machine.fabric import MOST, cluster_named
from roofline.machine.target import mode_named
from roofline.model.load import Source, model_of
from roofline.model.model import Model

KINDS = ("aggregated", "disaggregated")
TOP = 10
"""Ways that are listed, where no number is given."""
DEGREES_OF_REPLICAS = ("tp", "pp", "dp", "ep")
MOST_SITES = 64
"""Machines × formats × engines that a search takes."""


@group
@dataclass(frozen=True, kw_only=True)
class Choices(Where):
    """Places to choose from, each setting one or several, and how much there is of them."""

    layout: Annotated[
        LayoutText | None, "Layouts of a replica to choose from, as in `tp=4` (default: all that divide)."
    ] = None
    chips: Annotated[ChipCount | None, "Chips in all (8, or those of the cluster)."] = None
    kind: Annotated[KindName | None, "Replicas that do both phases, or a pool for each alone (default: both)."] = None
    budget: Annotated[PlainNumber | None, "USD an hour at most, of chips with a price."] = None
    power: Annotated[PlainNumber | None, "Watts at most, of boards at their TDP."] = None


@group
@dataclass(frozen=True, kw_only=True)
class Ranking:
    """What is best, and how many plans are told."""

    objective: Annotated[
        ObjectiveName | None,
        "What is best: most tokens a second of a chip (`throughput`, the default without a load), of all chips "
        "(`total`) or for a user (`interactivity`). Or least `latency`, `cost` or `energy` of a token, or fewest "
        "`chips` (the default with a load). Of training `time`, `cost` or `chips`.",
    ] = None
    top: Annotated[Whole, "Plans to list."] = TOP
    confirm: Annotated[WholeOrNone, "So many of the best are simulated request by request."] = 0


@dataclass(frozen=True, repr=False)
class Search(Result):
    """Ways to serve, the best first, of all that are legal.

    `highest`: the first; `recommended`: the simplest of those that are within the `error` of it and have room for what
    a simulation differs by: fewest pools, then chips, then ranks of a replica, then the highest chance that the limits
    hold; with fewer requests in flight where that gives room. `error`: the share by which the throughput of the first
    may be lower, as by the near end of its TPOT's 80 % interval; where limits are of most requests, by the error of
    percentiles too. All are null without a plan. `machines`: the best plan of each machine alone, with its rank.
    `nearest`: where there is no plan, how near any way to serve comes to each limit. `deployments`: layouts and numbers
    of replicas that fit; `considered`: legal plans, each of these at the numbers in flight, or the rate, at which its
    times were worked out; `left_out`: how many deployments were not, by reason.
    """

    SCHEMA: ClassVar[str] = "roofline.search/2"
    FIGURES: ClassVar[Units] = {
        "model": "", **LENGTHS, "chips": "", "law": "", "objective": "", "ttft_limit": "s",
        "tpot_limit": "s", "latency_limit": "s", "strict": "", "attainment": "share",
        "deployments": "", "considered": "", "left_out": "",
        "plans": "", "highest": "", "recommended": "", "error": "share", "machines": "", "nearest": "",
        "asked_plan": "",
    }  # fmt: skip

    space: SiteSpace
    kinds: tuple[str, ...]
    demand: Load
    limits: Limits
    objective: str
    looked: Looked
    plans: tuple[ServingPlan, ...]
    recommended: ServingPlan | None = None
    machines: tuple[PlanPlace, ...] = ()
    asked_plan: PlanPlace | None = None
    """Where a plan that was asked about stands; null where none was."""

    @property
    def model(self) -> Model:
        """The model."""
        return self.space.model

    @property
    def chips(self) -> int:
        """The most chips."""
        return self.space.chips

    @property
    def law(self) -> str:
        """Which law the times follow."""
        return mode_named(self.space.sites[0].where.law).name

    @property
    def input(self) -> int:
        """Tokens of a prompt."""
        return int(self.demand.input)

    @property
    def output(self) -> int:
        """Tokens of an answer."""
        return int(self.demand.output_tokens)

    @property
    def ttft_limit(self) -> float | None:
        """The most seconds of TTFT, None where there is no limit; so with the others."""
        return _limit(self.limits.ttft)

    @property
    def tpot_limit(self) -> float | None:
        """The most seconds of TPOT."""
        return _limit(self.limits.tpot)

    @property
    def latency_limit(self) -> float | None:
        """The most seconds of a whole request."""
        return _limit(self.limits.latency)

    @property
    def strict(self) -> bool:
        """Whether limits hold at the far end of intervals."""
        return self.limits.strict

    @property
    def attainment(self) -> float | None:
        """The share of requests that limits are for, None where they are of means."""
        return self.limits.share

    @property
    def deployments(self) -> int:
        """Layouts and numbers of replicas that fit."""
        return self.looked.deployments

    @property
    def considered(self) -> int:
        """Legal plans: deployments at a load."""
        return self.looked.considered

    @cached_property
    def left_out(self) -> Mapping[str, int]:
        """Reason → layouts of a replica, or splits of two pools, that are no plan for it.

        `memory`, `limits`; `bound`: not worked out, since the steps alone allow no score among the best.
        """
        return dict(self.looked.left_out)

    @cached_property
    def front(self) -> Search:
        """The search without its limit of TPOT, whose plans are its Pareto front; it takes several times as long."""
        free = replace(self.limits, tpot=inf)
        plans = front_plans(self.space, self.demand, free, self.kinds)
        return replace(self, limits=free, objective="front", plans=plans, recommended=None, machines=())

    @cached_property
    def nearest(self) -> tuple[NearestPlan, ...]:
        """Where no plan keeps the limits, the nearest that any way to serve comes to each."""
        return () if self.plans else nearest_plans(self.space, self.demand, self.limits, self.kinds)

    @property
    def highest(self) -> ServingPlan | None:
        """The first, None where there is none whose simulation does not miss the limits, and of a front."""
        return next((p for p in self.plans[:1] if not p.broken and self.objective in OBJECTIVES), None)

    @property
    def error(self) -> float | None:
        """The share within which others may be as good as the first."""
        return None if self.highest is None else error_of(self.highest)

    @property
    def best(self) -> ServingPlan:
        """The first. Raises InputError where nothing keeps the limits."""
        if not self.plans or self.plans[0].broken:
            raise InputError("limits", "none that is kept", "limits that a deployment can keep")
        return self.plans[0]


def _limit(seconds: float) -> float | None:
    return None if seconds == inf else seconds


@question()
def search(
    model: Model | Source,
    demand: Load,
    limits: Limits = Limits(),  # noqa: B008
    *,
    choices: Choices,
    ranking: Ranking = Ranking(),
    bill: Bill | None = None,
    counted: Callable[[int], None] | None = None,
) -> Search:
    """The best ways to serve a load within limits: replicas that do both phases, or a pool for each.

    Replicas × layouts (tensor, pipeline, data-parallel attention, expert parallelism) × machines × formats × engines;
    of two pools every split of the chips. Without a load each has the most requests in flight that keep the limits, in
    a closed loop, as `serve` and `pools` have it. With one, each has as few replicas as keep them. A plan's figures are
    those of `serve` and `pools`. Limits are kept where 99 % of the requests keep them, by the percentiles of these, or
    as large a share as `attainment` says; with `mean` there, where their means do.
    `on`, `precision`, `engine` and `layout` are one or several to choose from. `counted` is given the number of plans
    to look at, before any is worked out.
    Raises InputError for what is not understood; where nothing keeps the limits, `plans` is empty.
    """
    for name in group_settings(Load):
        if np.shape(getattr(demand, name)):
            raise InputError(name, getattr(demand, name), "one number")
    space, kinds = _space(model_of(model), choices, bill)
    objective = ranking.objective
    if objective is None:
        objective = "chips" if demand.given else "throughput"
    if objective not in OBJECTIVES:
        raise not_one_of("objective", objective, OBJECTIVES)
    if objective == "total" and demand.rate is not None:
        raise InputError("objective", objective, "another, such as chips: a rate says how many tokens a second")
    if counted is not None:
        counted(plans_to_look_at(space, demand, limits, kinds))
    aim = OBJECTIVES[objective]
    ranked = ranked_plans(space, demand, limits, kinds, aim)
    if ranked.plans and aim.least(ranked.plans[0]) == inf:
        raise InputError("objective", objective, aim.needs)
    missed: tuple[ServingPlan, ...] = ()
    if ranking.confirm:
        from roofline.explore.confirm import recommended, reranked  # simulations load what a search does not need

        number = min(ranking.confirm, ranking.top)
        ranked, missed = reranked(ranked, number)
        simplest = recommended(ranked, number)
    else:
        simplest = ranked.recommended
    every = ranked.plans

    def told(plan: ServingPlan) -> ServingPlan:
        return plan if plan is every[0] else replace(plan, why=_why(plan, every[0], aim))

    plans = (*map(told, every[: ranking.top]), *missed)
    simplest = None if simplest is None else told(simplest)
    machines = tuple(PlanPlace(told(plan), rank, len(every), "") for rank, plan in ranked.of_machines(space))
    return Search(space, kinds, demand, limits, objective, ranked.looked, plans, simplest, machines)


def _space(model: Model, choices: Choices, bill: Bill | None) -> tuple[SiteSpace, tuple[str, ...]]:
    """All that may be chosen, and which kinds of replicas."""
    mode_named(choices.law)
    place = Where(on=choices.on, law=choices.law)
    sites = [
        Site(replace(place, on=on, precision=precision, engine=engine), bill)
        for on, precision, engine in product(
            machines(choices.on), _several(choices.precision), _several(choices.engine)
        )
    ]
    if not 1 <= len(sites) <= MOST_SITES:
        raise InputError("on × precision × engine", len(sites), f"at least 1, at most {MOST_SITES}")
    kinds = _several(choices.kind or KINDS)
    for kind in kinds:
        if kind not in KINDS:
            raise not_one_of("kind", kind, KINDS)
    layouts = None if choices.layout is None else tuple(map(_replica_layout, _several(choices.layout)))
    chips = _chips(choices, sites)
    if layouts and all(layout.chips > chips for layout in layouts):
        raise InputError("layout", ", ".join(layout.text() for layout in layouts), f"one of at most {chips} chips")
    return SiteSpace(model, tuple(sites), chips, layouts), kinds


def _replica_layout(given: Any) -> Layout:
    """A layout that replicas may have. Raises InputError for one that says more than a search takes into account."""
    layout, plain = layout_named(given), Layout()
    for field in fields(Layout):
        value = getattr(layout, field.name)
        if field.name not in DEGREES_OF_REPLICAS and (is_array(value) or value != getattr(plain, field.name)):
            raise InputError(f"layout.{field.name}", value, f"degrees of {', '.join(DEGREES_OF_REPLICAS)} alone")
    return layout


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _chips(choices: Choices, sites: Sequence[Site]) -> int:
    """Chips in all: those asked for, else those of the largest machine; no more than budget and power allow."""
    chips = max(_machine_chips(site) for site in sites) if choices.chips is None else choices.chips
    if chips > MOST:
        raise InputError("chips", chips, f"at most {MOST}")
    hours = [Cost(1, 3600.0, tariff(site.chip, bill_of(site.bill))).usd for site in sites]
    prices = [None if usd is None else float(usd) for usd in hours]
    for name, each in (("budget", prices), ("power", [site.chip.tdp for site in sites])):
        if getattr(choices, name) is not None:
            chips = min(chips, _paid(name, getattr(choices, name), sites, each))
    return int(chips)


def _paid(name: str, most: object, sites: Sequence[Site], each: Sequence[float | None]) -> int:
    """Chips that a budget or a power allows, of those that take the least."""
    value = real(most)
    if value is None or not 0 < value < inf:
        raise InputError(name, most, "a number above 0")
    known = [e for e in each if e]
    if len(known) < len(each):
        chip = next(site.chip.id for site, e in zip(sites, each, strict=True) if not e)
        raise InputError(name, most, f"chips whose {'price' if name == 'budget' else 'power'} is known, not {chip}")
    if value < min(known):
        raise InputError(name, most, f"enough for one chip, {min(known):g}")
    return int(min(value // min(known), MOST))


def _machine_chips(site: Site) -> int:
    return cluster_named(site.on).chips if is_several(site.on) else 8


def _why(plan: ServingPlan, best: ServingPlan, aim: Aim) -> str:
    """What a plan has less, or more, than the best, and what stops it there; of two that are simulated by that."""
    if plan.confirmation is not None and best.confirmation is not None:
        plan, best = plan.simulated, best.simulated
    words = aim.far(plan, best)
    limit = f"; {plan.limit.upper() if plan.limit in ('ttft', 'tpot') else plan.limit}" if plan.limit else ""
    return f"{words}{limit} at {100 * plan.used:.0f} % of its limit" if limit else words
