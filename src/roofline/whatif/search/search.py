"""`search`: the best of all legal ways to serve a model within limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from math import inf
from typing import Annotated, Any, ClassVar

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import Load, Where
from roofline.declared.kinds import (
    ChipCount,
    Duration,
    KindName,
    LayoutText,
    ObjectiveName,
    PlainNumber,
    Whole,
    WholeOrNone,
)
from roofline.declared.numbers.maths import is_array
from roofline.declared.question import group, group_settings, question
from roofline.declared.result import Result, Units
from roofline.declared.time_limit import SEARCH_S, SearchClock
from roofline.hardware.cluster import MOST, cluster_named
from roofline.inference.cost.bill import Bill
from roofline.inference.cost.cost import Cost, tariff
from roofline.inference.deployment import is_several, listed_machines
from roofline.inference.settings import bill_of
from roofline.kernels.target import mode_named
from roofline.layout.layout import Layout, layout_named
from roofline.model.load import Source, decoder_of
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import Model
from roofline.serving.requests import LENGTHS
from roofline.whatif.query.figures import OBJECTIVES, Aim
from roofline.whatif.search.demand import Limits, UnderLimits
from roofline.whatif.search.front import front_plans
from roofline.whatif.search.limits import POWER, chips_within
from roofline.whatif.search.ranking import (
    NearestPlan,
    nearest_plans,
    plans_to_look_at,
    ranked_plans,
)
from roofline.whatif.search.serving.plans import PlanPlace, ServingPlan, Site, error_of
from roofline.whatif.search.serving.space import Looked, SiteSpace

KINDS = ("aggregated", "disaggregated")
TOP = 10
"""Number of plans listed by default."""
DEGREES_OF_REPLICAS = ("tp", "pp", "dp", "ep")
MOST_SITES = 64
"""Maximum number of machines × formats × engines in a search."""


@group
@dataclass(frozen=True, kw_only=True)
class Choices(Where):
    """The search space of places: each setting is one value or several; and limits on their total size."""

    layout: Annotated[
        LayoutText | None, "Layouts of a replica to choose from, as in `tp=4` (default: all that divide)."
    ] = None
    chips: Annotated[
        ChipCount | None, "Total number of chips (those of the cluster; else what a budget or watts allow, else 8)."
    ] = None
    kind: Annotated[KindName | None, "Replicas that do both phases, or a pool for each phase (default: both)."] = None
    budget: Annotated[PlainNumber | None, "Maximum USD per hour; every chip needs a price."] = None
    power: Annotated[PlainNumber | None, POWER] = None
    seconds: Annotated[
        Duration,
        "Time for the search, in seconds or as `2min`: then the answer is the best of what it looked at, and says what "
        "it did not.",
    ] = SEARCH_S


@group
@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The objective, and how many plans are listed."""

    objective: Annotated[
        ObjectiveName | None,
        "What is best: most tokens a second of a chip (`throughput`, the default without a load), of all chips "
        "(`total`) or for a user (`interactivity`). Or least `latency`, `cost` or `energy` of a token, or fewest "
        "`chips` (the default with a load). Of training `time`, `cost` or `chips`.",
    ] = None
    top: Annotated[Whole, "Plans to list."] = TOP
    confirm: Annotated[WholeOrNone, "Number of the best plans to simulate request by request."] = 0


@dataclass(frozen=True, repr=False)
class Search(UnderLimits, Result):
    """Ways to serve, the best first, out of all legal ones.

    `highest`: the first plan. `recommended`: the simplest plan within the `error` of the first that keeps the safety
    factors for a simulation: fewest pools, then chips, then ranks per replica, then the highest chance that the limits
    hold; with fewer requests in flight where that helps. `error`: the relative error of the first plan's throughput,
    from the near end of the 80 % interval of its TPOT, and where limits apply to a share of requests, from the error of
    percentiles too. All three are null without a plan. `machines`: the best plan of each machine by itself, with its
    rank. `nearest`: without a plan, how near any way to serve comes to each limit. `deployments`: layouts × numbers of
    replicas that fit. `considered`: plans evaluated: deployments at a number of requests in flight, or at the rate.
    `left_out`: deployments that were rejected, by reason. `unseen`: deployments that were not looked at, since the time
    ended or they were too many. `unseen_gain`: by which share they could be better than the first plan at most, by a
    bound; null where none is known.
    """

    SCHEMA: ClassVar[str] = "roofline.search/2"
    FIGURES: ClassVar[Units] = {
        "model": "", **LENGTHS, "images": "", "chips": "", "law": "", "objective": "", "ttft_limit": "s",
        "tpot_limit": "s", "latency_limit": "s", "strict": "", "attainment": "share", "assumed_popularity": "",
        "deployments": "", "considered": "", "left_out": "", "unseen": "", "unseen_gain": "share",
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
    images: ImageTokens | None = None
    asked_plan: PlanPlace | None = None
    """The rank of a plan that was asked about; null if there was none."""

    @property
    def model(self) -> Model:
        """The model."""
        return self.space.model

    @property
    def chips(self) -> int:
        """Maximum number of chips."""
        return self.space.chips

    @property
    def law(self) -> str:
        """The law of the times."""
        return mode_named(self.space.sites[0].where.law).name

    @property
    def strict(self) -> bool:
        """Whether limits hold at the far end of intervals."""
        return self.limits.strict

    @property
    def deployments(self) -> int:
        """Number of layouts × numbers of replicas that fit."""
        return self.looked.deployments

    @property
    def considered(self) -> int:
        """Number of plans evaluated: deployments at a load."""
        return self.looked.considered

    @cached_property
    def left_out(self) -> Mapping[str, int]:
        """Reason → number of layouts of a replica, or splits of two pools, that were rejected.

        `memory`, `limits`; `bound`: not evaluated, since a bound on the score rules them out. `time`: number of
        machines with formats and engines, or pairs of them, that were not looked at, since the time ended.
        """
        return dict(self.looked.left_out)

    @property
    def unseen(self) -> int:
        """Number of deployments that were not looked at, since the time ended or they were too many."""
        return self.looked.unseen

    @property
    def unseen_gain(self) -> float | None:
        """By which share deployments that were not looked at could be better than the first plan, by a bound."""
        return None if self.looked.beyond is None else self.looked.beyond - 1

    @cached_property
    def front(self) -> Search:
        """The search without its limit on TPOT, with its Pareto front as plans; it takes several times as long."""
        free = replace(self.limits, tpot=inf)
        plans = front_plans(self.space, self.demand, free, self.kinds)
        return replace(self, limits=free, objective="front", plans=plans, recommended=None, machines=())

    @cached_property
    def nearest(self) -> tuple[NearestPlan, ...]:
        """Without a plan that keeps the limits: the nearest that any way to serve comes to each limit."""
        return () if self.plans else nearest_plans(self.space, self.demand, self.limits, self.kinds)

    @property
    def highest(self) -> ServingPlan | None:
        """The first plan; None for a front, and where its simulation misses the limits."""
        return next((p for p in self.plans[:1] if not p.broken and self.objective in OBJECTIVES), None)

    @property
    def error(self) -> float | None:
        """The relative error within which other plans may be as good as the first."""
        return None if self.highest is None else error_of(self.highest)

    @property
    def best(self) -> ServingPlan:
        """The first plan. Raises InputError where no plan keeps the limits."""
        if not self.plans or self.plans[0].broken:
            raise InputError("limits", "none that is kept", "limits that a deployment can keep")
        return self.plans[0]


@question()
def search(
    model: Model | Source,
    demand: Load,
    limits: Limits = Limits(),  # noqa: B008
    *,
    choices: Choices,
    ranking: Ranking = Ranking(),
    images: Images | None = None,
    bill: Bill | None = None,
    counted: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Search:
    """The best ways to serve a load within limits: replicas that do both phases, or a pool for each.

    The space is replicas × layouts (tensor, pipeline, data-parallel attention, expert parallelism) × machines × formats
    × engines; for two pools, every split of the chips. Without a load, each plan has the most requests in flight that
    keep the limits, in a closed loop. With a load, each has the fewest replicas that keep them. The figures of a plan
    are those of `serve` and `pools`.
    Limits are kept where 99 % of the requests keep them, by their percentiles, or the share given as `attainment`; with
    `attainment="mean"`, where the means keep them.
    `on`, `precision`, `engine` and `layout` are one value or several to choose from. `counted` is called with the
    number of plans before the evaluation starts, `progress` with the number looked at so far.
    Splits of the chips are counted before any is built, and those that a bound rules out are not built. Of more than
    half a million that are left, evenly spaced ones are looked at and then those around the best. After `seconds` the
    answer is the best of what was looked at; `unseen` says what was not. `images`: of every request, on top of its
    prompt; they are encoded where the prompt is computed.
    Raises InputError for invalid settings. Where no plan keeps the limits, `plans` is empty.
    """
    for name in group_settings(Load):
        if np.shape(getattr(demand, name)):
            raise InputError(name, getattr(demand, name), "one number")
    space, kinds = _space(decoder_of(model, images), choices, bill, images)
    space.clock.progress = progress
    space.clock.start()
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
    ranked = ranked_plans(space, demand, limits, kinds, aim, again=ranking.top + ranking.confirm)
    if ranked.plans and aim.least(ranked.plans[0]) == inf:
        raise InputError("objective", objective, aim.needs)
    missed: tuple[ServingPlan, ...] = ()
    if ranking.confirm:
        from roofline.whatif.search.confirmation import (  # a plain search does not need simulations
            recommended,
            reranked,
        )

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
    seen = space.model.seen(images)
    return Search(space, kinds, demand, limits, objective, ranked.looked, plans, simplest, machines, seen)


def _space(
    model: Model, choices: Choices, bill: Bill | None, images: Images | None
) -> tuple[SiteSpace, tuple[str, ...]]:
    """The search space, and the kinds of deployment."""
    mode_named(choices.law)
    place = Where(on=choices.on, law=choices.law)
    sites = [
        Site(replace(place, on=on, precision=precision, engine=engine), bill)
        for on, precision, engine in product(
            listed_machines(choices.on), _several(choices.precision), _several(choices.engine)
        )
    ]
    if not 1 <= len(sites) <= MOST_SITES:
        raise InputError("on × precision × engine", len(sites), f"at least 1, at most {MOST_SITES}")
    kinds = _several(choices.kind or KINDS)
    for kind in kinds:
        if kind not in KINDS:
            raise not_one_of("kind", kind, KINDS)
    layouts = None if choices.layout is None else tuple(map(_replica_layout, _several(choices.layout)))
    sites, chips = _within(choices, sites)
    if layouts and all(layout.chips > chips for layout in layouts):
        raise InputError("layout", ", ".join(layout.text() for layout in layouts), f"one of at most {chips} chips")
    return SiteSpace(model, tuple(sites), chips, layouts, SearchClock(choices.seconds), images), kinds


def _replica_layout(given: Any) -> Layout:
    """A layout of a replica. Raises InputError for one with more than the degrees that a search supports."""
    layout, plain = layout_named(given), Layout()
    for field in fields(Layout):
        value = getattr(layout, field.name)
        if field.name not in DEGREES_OF_REPLICAS and (is_array(value) or value != getattr(plain, field.name)):
            raise InputError(f"layout.{field.name}", value, f"degrees of {', '.join(DEGREES_OF_REPLICAS)} alone")
    return layout


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _within(choices: Choices, sites: Sequence[Site]) -> tuple[list[Site], int]:
    """The sites of which a budget and a power limit allow a chip, each with how many, and the total number of chips.

    The total is as given, else that of the largest machine, and at most what the site that may have most may have. Of
    chips alone there are as many as a budget or a power limit allows.
    """
    free = choices.budget is not None or choices.power is not None
    chips = max(_machine_chips(site, free) for site in sites) if choices.chips is None else choices.chips
    if chips > MOST:
        raise InputError("chips", chips, f"at most {MOST}")
    hours = [Cost(1, 3600.0, tariff(site.chip, bill_of(site.bill))).usd for site in sites]
    names = [site.chip.id for site in sites]
    limits = [
        chips_within(name, most, dict(zip(names, each, strict=True)))
        for name, most, each in (
            ("budget", choices.budget, [None if usd is None else float(usd) for usd in hours]),
            ("power", choices.power, [site.chip.limit for site in sites]),
        )
        if most is not None
    ]
    allowed = [replace(site, most=min([MOST, *(limit[site.chip.id] for limit in limits)])) for site in sites]
    kept = [site for site in allowed if site.most]
    return kept, min(int(chips), max(site.most for site in kept))


def _machine_chips(site: Site, free: bool) -> int:
    return cluster_named(site.on).chips if is_several(site.on) else MOST if free else 8


def _why(plan: ServingPlan, best: ServingPlan, aim: Aim) -> str:
    """How far a plan is from the best one, and its binding limit; by simulated figures where both are simulated."""
    if plan.confirmation is not None and best.confirmation is not None:
        plan, best = plan.simulated, best.simulated
    words = aim.far(plan, best)
    limit = f"; {plan.limit.upper() if plan.limit in ('ttft', 'tpot') else plan.limit}" if plan.limit else ""
    return f"{words}{limit} at {100 * plan.used:.0f} % of its limit" if limit else words
