"""A way to serve: replicas that do both phases, or a pool for each, with what it gives at a load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from roofline.declared.groups import Load
from roofline.declared.result import Figured, Units
from roofline.estimates.cost import Cost, Spending, Spent, tariff
from roofline.estimates.deployment import Machine, machine_chip
from roofline.estimates.pools import pools
from roofline.estimates.serve import serve
from roofline.estimates.server import rounded_down
from roofline.estimates.settings import bill_of, setup
from roofline.estimates.span import Span
from roofline.estimates.spending import SteadyLoad, server_spending
from roofline.explore.demand import NAMES, Limits
from roofline.layout.layout import Layout
from roofline.machine.chip import Chip
from roofline.machine.engine import Engine, default_engine, engine_named
from roofline.machine.target import Mode
from roofline.model.model import Model

HOUR, MILLION = 3600.0, 1e6


@dataclass(frozen=True)
class Site:
    """Where and how replicas may run: a machine, formats, an engine, a bill; None for those of checkpoint and chip.

    `law`: that which times follow.
    """

    on: Machine
    precision: Any = None
    engine: Any = None
    bill: Any = None
    law: str | Mode = "calibrated"

    @cached_property
    def chip(self) -> Chip:
        """The chip."""
        return machine_chip(self.on)

    @cached_property
    def how(self) -> Engine:
        """The engine."""
        return default_engine(self.chip) if self.engine is None else engine_named(self.engine)

    @property
    def settings(self) -> dict[str, Any]:
        """What estimates take."""
        given = {"on": self.on, "precision": self.precision, "engine": self.engine}
        return {**given, "bill": self.bill, "law": self.law}


@dataclass(frozen=True)
class Group:
    """Replicas of one layout."""

    site: Site
    layout: Layout
    replicas: int

    @property
    def chips(self) -> int:
        """Chips of all of them."""
        return self.replicas * int(self.layout.chips)


@dataclass(frozen=True)
class ServingPlan(Spent, Figured):
    """One way to serve, at a load.

    `group`: replicas that serve, or that decode what those of `prefill` have computed. `concurrency`: requests in
    flight in all, of a rate their mean; `capacity`: requests that replicas which serve hold and
    run at once, 0 where each phase has its own. `limit`: what more load would
    exceed first, `used`: how much of it is. `formula`: its times are means in closed form; where not, requests are
    followed from step to step. `chance`: that all limits hold. USD and J are of generated tokens.
    """

    FIGURES: ClassVar[Units] = {
        "kind": "", "on": "", "engine": "", "precision": "", "layout": "", "replicas": "", "prefill_on": "",
        "prefill_layout": "", "prefills": "", "chips": "", "concurrency": "", "batch": "", "ttft": "s", "tpot": "s",
        "latency": "s", "requests_per_second": "requests/s", "tokens_per_second": "tokens/s",
        "tokens_per_second_per_chip": "tokens/s", "tokens_per_second_per_user": "tokens/s",
        **Spent.BILLED, "limit": "", "used": "share", "chance": "share", "formula": "", "why": "", "confirmation": "",
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
    requests_per_second: float
    formula: bool = True
    why: str = ""
    """Why it is not the first of those that were looked for."""
    confirmation: Any = None
    """What a simulation says, where there was one."""

    # -- what and where --------------------------------------------------------------------------------------------
    @property
    def kind(self) -> str:
        """Whether each replica does both phases (`aggregated`) or each phase has its own (`disaggregated`)."""
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
        """The formats asked for, "" where they are the checkpoint's."""
        return "" if self.group.site.precision is None else str(self.group.site.precision)

    @property
    def layout(self) -> str:
        """The layout of a replica that serves or decodes."""
        return self.group.layout.text()

    @property
    def replicas(self) -> int:
        """How many replicas serve or decode."""
        return self.group.replicas

    @property
    def prefill_on(self) -> str:
        """The chip of those that prefill, "" where each does both phases."""
        return "" if self.prefill is None else self.prefill.site.chip.id

    @property
    def prefill_layout(self) -> str:
        """The layout of one of these."""
        return "" if self.prefill is None else self.prefill.layout.text()

    @property
    def prefills(self) -> int:
        """How many of them there are."""
        return 0 if self.prefill is None else self.prefill.replicas

    @property
    def chips(self) -> int:
        """All chips."""
        return self.group.chips + (0 if self.prefill is None else self.prefill.chips)

    # -- figures ---------------------------------------------------------------------------------------------------
    @property
    def batch(self) -> int:
        """Requests in flight of a replica that serves or decodes, the busiest one."""
        return -(-self.concurrency // self.replicas)

    @property
    def latency(self) -> Span:
        """End to end, for one request."""
        return self.ttft + self.tpot.times(self.demand.output_tokens - 1)

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens a second."""
        return self.requests_per_second * int(self.demand.output_tokens)

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Generated tokens a second over all chips."""
        return self.tokens_per_second / self.chips

    @property
    def tokens_per_second_per_user(self) -> float:
        """1 / TPOT."""
        return 1 / float(self.tpot.expected)

    @property
    def usd_per_hour(self) -> float | None:
        """USD of an hour of all chips, None where one has no price."""
        parts = [part for part in (self.group, self.prefill) if part is not None]
        hours = [Cost(part.chips, HOUR, tariff(part.site.chip, bill_of(part.site.bill))) for part in parts]
        if any(hour.tariff.own is not None for hour in hours):
            usd = self.spending.usd_per_hour
            return None if usd is None else float(usd)
        known = [float(hour.usd) for hour in hours if hour.usd is not None]
        return sum(known) if len(known) == len(hours) else None

    @property
    def usd_per_million_tokens(self) -> float | None:
        """USD of an hour / generated tokens of an hour · 10⁶."""
        price = self.usd_per_hour
        return None if price is None else price / HOUR / self.tokens_per_second * MILLION

    @cached_property
    def spending(self) -> Spending:
        """What all of it spends in a second."""
        if self.prefill is not None:
            both: Spending = self.evaluated().spending
            return both
        d = self.demand
        asked = setup(self.model, layout=self.group.layout, **self.group.site.settings)
        load = SteadyLoad(self.requests_per_second, d.input, d.output_tokens, rounded_down(d.input * d.prefix))
        return server_spending(asked, load, float(self.tpot.expected), self.replicas)

    @cached_property
    def _shares(self) -> Mapping[str, float]:
        used = self.limits.spans(self.ttft, self.tpot, self.latency)
        shares = {name: float(share) for name, share in zip(NAMES, used, strict=True) if share > 0}
        places = {"places": self.concurrency / self.capacity} if self.capacity else {}
        return {**shares, **places}

    @property
    def limit(self) -> str:
        """What more load would exceed first: a limit, or the places for requests; "" where nothing is known."""
        return max(self._shares, key=lambda name: self._shares[name], default="")

    @property
    def used(self) -> float:
        """How much of that is used."""
        return self._shares.get(self.limit, 0.0)

    @property
    def chance(self) -> float:
        """The probability that all limits hold."""
        return self.limits.chance(self.ttft, self.tpot, self.latency)

    # -- once more -------------------------------------------------------------------------------------------------
    def evaluated(self) -> Any:
        """The same by itself: a `Serving` of one of its replicas, or the `Pools`."""
        site, rate = self.group.site, self.demand.rate
        if self.prefill is None:
            load = replace(self.demand, concurrency=self.batch if rate is None else None,
                           rate=None if rate is None else rate / self.replicas)  # fmt: skip
            return serve(self.model, load=load, layout=self.group.layout, formula=self.formula, **site.settings)
        first = self.prefill.site
        apart = {"prefill_on": first.on, "prefill_engine": first.engine} if first != site else {}
        return pools(
            self.model, load=replace(self.demand, concurrency=self.concurrency if rate is None else None),
            prefills=self.prefills, decodes=self.replicas, prefill_layout=self.prefill.layout,
            layout=self.group.layout, **site.settings, **apart,
        )  # fmt: skip


@dataclass(frozen=True)
class PlanPlace(Figured):
    """A plan that was asked about. `rejected`: what it exceeds and by how much, "" where nothing.

    `rank`: among the `of` plans that were worked out to the last digit and itself, by the search's objective; behind
    all of these others may come before it. None where it is rejected.
    """

    FIGURES: ClassVar[Units] = {"plan": "", "rank": "", "of": "", "rejected": ""}

    plan: ServingPlan
    rank: int | None
    of: int
    rejected: str


def part(value: Any, i: int) -> Any:
    """An element of an array, or of the ends of a span."""
    if isinstance(value, Span):
        return Span(*(part(end, i) for end in value.ends()))
    return np.asarray(value).reshape(-1)[i].item()
