"""A serving plan: aggregated replicas or a pool for each phase, with its figures at a load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import hypot
from typing import Any, ClassVar, TypeAlias

import numpy as np

from roofline.declared.groups import DEGREES, LIMITED, Load, PlaceSettings, PoolSizes, Where
from roofline.declared.numbers.maths import Count
from roofline.declared.question import group_settings
from roofline.declared.result import Figured, Units
from roofline.engines.engine import Engine, default_engine, engine_named
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import MOST
from roofline.inference.cost.bill import Bill
from roofline.inference.cost.cost import Cost, Spending, Spent, tariff
from roofline.inference.deployment import Machine, machine_chip
from roofline.inference.settings import Setup, bill_of, setup
from roofline.inference.span import Span, exactly
from roofline.kernels.power import draw_of
from roofline.layout.layout import Layout
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.serving.closed_forms.attainment import pool_percentiles
from roofline.serving.closed_forms.percentiles import Percentiles, Tail, Tails
from roofline.serving.energy import SteadyLoad, server_spending
from roofline.serving.pool_sizing import TimedPools
from roofline.serving.pools import Pools, pools_serving
from roofline.serving.requests import ServedLoad, requests_of
from roofline.serving.serve import server_of
from roofline.serving.server import Serving
from roofline.whatif.search.demand import Limits, ServedTimes

HOUR, MILLION = 3600.0, 1e6
PLACE = tuple(name for name in group_settings(PlaceSettings) if name not in DEGREES)
"""Settings of a place."""
UNKNOWN_PERCENTILES = Percentiles(*(Tail(1.0, 1.0, 1.0, 1.0),) * 3)
"""Placeholder for percentiles that are not computed."""
OFF = 0.2
"""Relative error of the closed form's percentiles against those of a simulation."""


@dataclass(frozen=True)
class Site:
    """Where and how replicas may run, whatever their layout, and the bill.

    `most`: chips of this kind that a budget or watts of the whole allow.
    """

    where: Where
    bill: Bill | None = None
    most: int = MOST

    @property
    def on(self) -> Machine:
        """The machine."""
        machine: Machine = self.where.on
        return machine

    @cached_property
    def chip(self) -> Chip:
        """The chip."""
        return machine_chip(self.on)

    @cached_property
    def how(self) -> Engine:
        """The engine."""
        return default_engine(self.chip) if self.where.engine is None else engine_named(self.where.engine)

    def under(self, layout: Layout) -> Where:
        """The place settings with a layout."""
        return replace(self.where, layout=layout)

    def setup(self, model: Model, layout: Layout) -> Setup:
        """The resolved settings of a replica."""
        return setup(model, self.under(layout), self.bill)


@dataclass(frozen=True)
class Group:
    """Replicas of one layout."""

    site: Site
    layout: Layout
    replicas: int

    @property
    def chips(self) -> int:
        """Chips of all replicas."""
        return self.replicas * int(self.layout.chips)


@dataclass(frozen=True)
class ServingPlan(Spent, Figured):
    """A serving plan at a load.

    `group`: replicas that serve, or that decode what the replicas of `prefill` computed. `concurrency`: requests in
    flight in total, at a rate their mean. `capacity`: requests that aggregated replicas can run at once; 0 for two
    pools. `limit`: what a higher load would exceed first; `used`: how much of it is used. `chance`: the probability
    that all limits hold; `attained`: the SLO attainment, from percentiles. USD and J are per generated token.
    """

    FIGURES: ClassVar[Units] = {
        "kind": "", **dict.fromkeys(PLACE, ""), "replicas": "", **dict.fromkeys(group_settings(PoolSizes), ""),
        "concurrency": "", "batch": "", "ttft": "s", "tpot": "s",
        "latency": "s", "percentiles": "s", "requests_per_second": "requests/s", "tokens_per_second": "tokens/s",
        "tokens_per_second_per_chip": "tokens/s", "tokens_per_second_per_user": "tokens/s",
        **Spent.BILLED, "limit": "", "used": "share", "chance": "share", "attained": "share", "formula": "", "why": "",
        "confirmation": "",
    }  # fmt: skip

    model: Model
    demand: Load
    limits: Limits
    group: Group
    prefill: Group | None
    concurrency: int
    capacity: int
    ttft: Span
    tpot: Span
    percentiles: Percentiles
    requests_per_second: float
    why: str = ""
    """How far the plan is from the best one, and its binding limit."""
    confirmation: Any = None
    """The figures of a simulation, if there was one."""
    longer: float = 1.0
    """Mean seconds per token over all tokens, divided by the mean TPOT over requests."""
    images: Images | None = None
    """Images of every request."""
    timed: TimedPools | None = field(default=None, compare=False, repr=False)
    """Step times of its pools, where a search has them."""

    # -- settings --------------------------------------------------------------------------------------------------
    @property
    def kind(self) -> str:
        """`aggregated`: each replica does both phases; `disaggregated`: each phase has its own pool."""
        return "aggregated" if self.prefill is None else "disaggregated"

    @property
    def on(self) -> str:
        """The chip."""
        return self.group.site.chip.id

    @property
    def engine(self) -> str:
        """The engine."""
        return self.group.site.how.plain()

    @property
    def precision(self) -> str:
        """The requested formats; "" for the checkpoint's own."""
        precision = self.group.site.where.precision
        return "" if precision is None else str(precision)

    @property
    def layout(self) -> str:
        """The layout of a replica that serves or decodes."""
        return self.group.layout.text()

    @property
    def replicas(self) -> int:
        """Number of replicas that serve or decode."""
        return self.group.replicas

    @property
    def prefill_on(self) -> str:
        """The chip of the prefill pool; "" without one."""
        return "" if self.prefill is None else self.prefill.site.chip.id

    @property
    def prefill_layout(self) -> str:
        """The layout of a prefill replica; "" without one."""
        return "" if self.prefill is None else self.prefill.layout.text()

    @property
    def prefill_engine(self) -> str:
        """The engine of the prefill pool; "" without one."""
        return "" if self.prefill is None else self.prefill.site.how.id

    @property
    def prefills(self) -> int:
        """Number of prefill replicas."""
        return 0 if self.prefill is None else self.prefill.replicas

    @property
    def decodes(self) -> int:
        """Number of decode replicas; 0 without a prefill pool."""
        return 0 if self.prefill is None else self.group.replicas

    @property
    def groups(self) -> tuple[Group, ...]:
        """The pools: one, or one per phase."""
        return (self.group,) if self.prefill is None else (self.prefill, self.group)

    @property
    def chips(self) -> int:
        """Chips in total."""
        return sum(group.chips for group in self.groups)

    # -- figures ---------------------------------------------------------------------------------------------------
    @property
    def formula(self) -> bool:
        """Whether times come from the closed form: always true; kept for one release."""
        return True

    @property
    def batch(self) -> int:
        """Requests in flight of the busiest replica that serves or decodes."""
        return -(-self.concurrency // self.replicas)

    @property
    def latency(self) -> Span:
        """End-to-end latency of a request."""
        return self.ttft + self.tpot.times((self.demand.output_tokens - 1) * self.longer)

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second."""
        return self.requests_per_second * int(self.demand.output_tokens)

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Generated tokens per second, over all chips."""
        return self.tokens_per_second / self.chips

    @property
    def tokens_per_second_per_user(self) -> float:
        """1 / TPOT."""
        return 1 / float(self.tpot.expected)

    @property
    def usd_per_hour(self) -> float | None:
        """USD per hour of all chips; None where a chip has no price."""
        hours = [Cost(part.chips, HOUR, tariff(part.site.chip, bill_of(part.site.bill))) for part in self.groups]
        if any(hour.tariff.own is not None for hour in hours):
            usd = self.spending.usd_per_hour
            return None if usd is None else float(usd)
        known = [float(hour.usd) for hour in hours if hour.usd is not None]
        return sum(known) if len(known) == len(hours) else None

    @property
    def usd_per_million_tokens(self) -> float | None:
        """USD per hour / generated tokens per hour · 10⁶."""
        price = self.usd_per_hour
        return None if price is None else price / HOUR / self.tokens_per_second * MILLION

    @property
    def requests(self) -> ServedLoad:
        """The requests, images among their tokens."""
        return requests_of(self.model, self.demand, images=self.images)

    @cached_property
    def spending(self) -> Spending:
        """Cost and energy per second of the whole plan."""
        if self.prefill is not None:
            both: Spending = self.evaluated().spending
            return both
        r = self.requests
        asked = self.group.site.setup(self.model, self.group.layout).seeing(self.images)
        load = SteadyLoad(self.requests_per_second, r.input, r.output, r.context, r.cached)
        return server_spending(asked, load, float(self.tpot.expected) * self.longer, self.replicas)

    @property
    def power_interval(self) -> tuple[float | None, float | None]:
        """The interval of the plan's watts that holds 80 % of boards, at most what they may draw; None if unknown."""
        draws = [draw_of(part.site.chip) for part in self.groups]
        known = [draw for draw in draws if draw is not None]
        if self.power is None or len(known) < len(draws):
            return None, None
        most = sum(draw.most * part.chips for draw, part in zip(known, self.groups, strict=True))
        low, high = min(draw.low for draw in known), max(draw.high for draw in known)
        return float(self.power * low), float(min(self.power * high, most))

    @property
    def means(self) -> ServedTimes:
        """Mean TTFT, TPOT and latency."""
        return self.ttft, self.tpot, self.latency

    @property
    def limited(self) -> ServedTimes:
        """The times that the limits apply to."""
        return self.limits.limited(self.means, self.percentiles)

    @cached_property
    def _shares(self) -> Mapping[str, float]:
        used = self.limits.shares(self.limited)
        shares = {name: float(share) for name, share in zip(LIMITED, used, strict=True) if share > 0}
        places = {"places": self.concurrency / self.capacity} if self.capacity else {}
        return {**shares, **places}

    @property
    def limit(self) -> str:
        """What a higher load would exceed first: a limit, or the capacity (`places`); "" where unknown."""
        return max(self._shares, key=lambda name: self._shares[name], default="")

    @property
    def used(self) -> float:
        """How much of `limit` is used."""
        return self._shares.get(self.limit, 0.0)

    @property
    def keeps(self) -> bool:
        """Whether the limits hold."""
        return bool(self.limits.used(self.means, self.percentiles) <= 1)

    def used_with(self, room: tuple[float, float, float]) -> float:
        """How much of the limits is used if TTFT, TPOT and latency are longer by these factors."""
        ttft, tpot, latency = (limit / longer for limit, longer in zip(self.limits.bounds, room, strict=True))
        shorter = replace(self.limits, ttft=ttft, tpot=tpot, latency=latency)
        return float(shorter.used(self.means, self.percentiles))

    @property
    def simulated(self) -> ServingPlan:
        """The plan with the times and the throughput of its simulation; unchanged without one."""
        c = self.confirmation
        if c is None:
            return self
        rate = c.tokens_per_second_per_chip * self.chips / int(self.demand.output_tokens)
        return replace(self, ttft=exactly(c.ttft), tpot=exactly(c.tpot), requests_per_second=rate)

    @property
    def broken(self) -> bool:
        """Whether the simulation misses the limits."""
        return self.confirmation is not None and not self.confirmation.keeps

    @cached_property
    def chance(self) -> float:
        """The probability that all limits hold."""
        return self.limits.chance(self.means, self.percentiles)

    @property
    def attained(self) -> float:
        """The SLO attainment: the share of requests that keep all limits, from percentiles."""
        return self.limits.attained(self.percentiles)

    # -- evaluation ------------------------------------------------------------------------------------------------
    def evaluated(self, concurrency: Count | None = None) -> Any:
        """The answer of `serve` for one replica with its share of the requests, or of `pools`.

        `concurrency`: one number or an array of requests in flight, in place of the plan's own.
        """
        site, rate, number = self.group.site, self.demand.rate, self.replicas
        flight = self.concurrency if concurrency is None else concurrency
        if self.prefill is None:
            share = flight / number if np.any(np.asarray(flight) % number) else flight // number
            load = self.demand if rate is not None else replace(self.demand, concurrency=flight)
            server = server_of(site.setup(self.model, self.group.layout), load, images=self.images)
            return server.at(share) if rate is None else server.at_rate(rate / number, turns=number)
        load = replace(self.demand, concurrency=flight if rate is None else None)
        sizes = pool_sizes((self.prefill.site, site), self.prefill.layout, (self.prefills, self.decodes))
        settled = None if self.timed is None else self.timed.settled(load, self.prefills, self.decodes)
        return pools_serving(
            self.model, site.under(self.group.layout), load, sizes, images=self.images, bill=site.bill, settled=settled
        )

    def answered(self, answer: Any, i: int = 0, percentiles: Percentiles | None = None) -> ServingPlan:
        """The plan with the figures of an answer, or of its i-th element. `percentiles`: those of the whole answer."""
        ttft, tpot = part(answer.ttft, i), part(answer.tpot, i)
        longer = part(answer.longer, i) if self.prefill is None else 1.0
        latency = float((ttft + tpot.times((self.demand.output_tokens - 1) * longer)).expected)
        rate = self.concurrency / latency if self.demand.rate is None else float(self.demand.rate)
        flight = self.concurrency if self.demand.rate is None else max(1, round(rate * latency))
        capacity = part(answer.capacity, i) * self.replicas if self.prefill is None else 0
        tails = part(percentiles_of(answer) if percentiles is None else percentiles, i)
        return replace(
            self, concurrency=flight, capacity=capacity, ttft=ttft, tpot=tpot, percentiles=tails,
            requests_per_second=rate, longer=longer,
        )  # fmt: skip


def error_of(plan: ServingPlan) -> float:
    """The relative error of a plan's throughput: plans that are worse by at most this share may be as good.

    It is the near end of the 80 % interval of TPOT: by how much steps may be shorter than expected. The far end is
    wider, since more things slow a step down than speed it up, but these slow other plans too. The interval of TTFT is
    mostly that of waits. Where limits apply to a share of requests, `OFF` is added as an independent error.
    """
    own = 1 - float(plan.tpot.low / plan.tpot.expected)
    return own if plan.limits.share is None or not plan.limits.limits else hypot(own, OFF)


def simplicity(plan: ServingPlan) -> tuple[float, ...]:
    """Sort key: the simpler plan is smaller.

    Number of pools, then chips, then ranks of the largest replica, then the probability of missing the limits.
    """
    return len(plan.groups), plan.chips, max(int(group.layout.chips) for group in plan.groups), 1 - plan.chance


class Planned:
    """A row of an answer with a plan, where there is one: the interval of its power."""

    plan: ServingPlan | None

    @property
    def power_low(self) -> float | None:
        """The low end of the interval of the plan's power, in watts."""
        return None if self.plan is None else self.plan.power_interval[0]

    @property
    def power_high(self) -> float | None:
        """The high end of that interval, in watts; at most what the boards may draw."""
        return None if self.plan is None else self.plan.power_interval[1]


def unanswered(
    model: Model, demand: Load, limits: Limits, groups: tuple[Group, Group | None], flight: int,
    images: Images | None = None,
) -> ServingPlan:  # fmt: skip
    """A plan without figures yet."""
    one = exactly(1.0)
    return ServingPlan(
        model, demand, limits, *groups, flight, 0, one, one, UNKNOWN_PERCENTILES, 1.0, images=images
    )  # fmt: skip


def pool_sizes(sites: tuple[Site, Site], layout: Layout, replicas: tuple[Count, Count]) -> PoolSizes:
    """The sizes of two pools; `layout` is that of the prefill replicas."""
    first, then = sites
    apart = {"prefill_on": first.on, "prefill_engine": first.where.engine} if first != then else {}
    return PoolSizes(prefill_layout=layout, prefills=replicas[0], decodes=replicas[1], **apart)


@dataclass(frozen=True)
class PlanPlace(Figured):
    """The rank of a plan that was asked about. `rejected`: the limits that it exceeds and by how much, "" if none.

    `rank`: by the search's objective, among the `of` plans with exact figures and itself. Plans without exact figures
    could rank above it where it comes last. None where it is rejected.
    """

    FIGURES: ClassVar[Units] = {"plan": "", "rank": "", "of": "", "rejected": ""}

    plan: ServingPlan
    rank: int | None
    of: int
    rejected: str


def percentiles_of(answer: Any) -> Percentiles:
    """Percentiles of a server or of pools. Those of pools have intervals as wide as those of the means."""
    if isinstance(answer, Pools):
        waits, r = (answer.prefill_wait, answer.decode_wait), answer.requests
        means = (answer.ttft.expected, answer.tpot.expected, answer.output - 1)
        wide = answer.ttft.times(1 / answer.ttft.expected)
        expected = pool_percentiles(*means, waits, (r.prompts_vary, r.answers_vary))
        return expected.within(wide.times, answer.tpot, answer.latency)
    percentiles: Percentiles = answer.percentiles
    return percentiles


PlanTimes: TypeAlias = tuple[Span, Span, Percentiles, float]
"""TTFT, TPOT and percentiles of a plan, and the factor `longer` of the time of its answers."""


def plan_times(answer: Serving, i: int) -> PlanTimes:
    """The times of the i-th element of an answer."""
    return part(answer.ttft, i), part(answer.tpot, i), part(answer.percentiles, i), float(part(answer.longer, i))


def part(value: Any, i: int) -> Any:
    """The i-th element of an array, or of each array in a span or in percentiles; a scalar is returned unchanged."""
    if isinstance(value, Span):
        return Span(*(part(end, i) for end in value.ends()))
    if isinstance(value, Tail):
        return Tail(*(part(getattr(value, name), i) for name in value.FIGURES))
    if isinstance(value, Tails):
        ttft, tpot, latency = (part(tail, i) for tail in (value.ttft, value.tpot, value.latency))
        if not isinstance(value, Percentiles):
            return Tails(ttft, tpot, latency)
        ends = (None if end is None else part(end, i) for end in (value.low, value.high))
        return Percentiles(ttft, tpot, latency, value.approximate, *ends)
    flat = np.asarray(value).reshape(-1)
    return flat[i if flat.size > 1 else 0].item()
