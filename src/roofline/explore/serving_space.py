"""What a search may choose from, and what it has looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import Load
from roofline.distinct import Array
from roofline.estimates.deployment import is_several
from roofline.estimates.pool_replicas import Columns
from roofline.estimates.requests import requests_of
from roofline.estimates.server import Server
from roofline.estimates.step import check_context
from roofline.explore.serving_layouts import Degrees, by_stages, serving_layouts
from roofline.explore.serving_plans import ServingPlan, Site
from roofline.layout.layout import Layout
from roofline.machine.fabric import cluster_named
from roofline.model.model import Model
from roofline.work.step import prefill

MOST_LAYOUTS = 1024
"""Layouts of a replica of one site that a search looks at."""


@dataclass(frozen=True, eq=False)
class ReplicaKinds:
    """Layouts of a replica that fit, side by side along the first axis: their server, and the requests each holds."""

    degrees: Degrees
    server: Server
    capacity: Array


@dataclass(frozen=True)
class FittingReplicas:
    """All of a site, in groups of equal pipelines, and how many layouts do not fit."""

    kinds: tuple[ReplicaKinds, ...]
    unfit: int


@dataclass(frozen=True, eq=False)
class SiteSpace:
    """What may be chosen: sites, at most `chips` in all, and `layouts` of replicas, all that divide where None."""

    model: Model
    sites: Sequence[Site]
    chips: int
    layouts: Sequence[Layout] | None = None
    _known: dict[tuple[int, Load], FittingReplicas] = field(default_factory=dict, init=False, repr=False)
    columns: dict[tuple[int, int], Columns] = field(default_factory=dict, init=False, repr=False)
    """Step times of pools of two kinds of replicas, by which kinds these are."""

    def replicas(self, site: Site, demand: Load) -> FittingReplicas:
        """The replicas that the memory there has room for."""
        key = (id(site), demand)
        if key not in self._known:
            check_context(self.model, prefill(1, demand.input + demand.output_tokens - 1))
            kinds, unfit = list[ReplicaKinds](), 0
            for degrees in self.degrees(site, demand):
                server = _server(self.model, site, degrees, demand)
                capacity = np.broadcast_to(np.asarray(server.capacity), (len(degrees), 1))[:, 0]
                fits = capacity >= 1
                unfit += int(np.sum(~fits))
                if not fits.any():
                    continue
                if not fits.all():
                    degrees = degrees.where(fits)
                    server = _server(self.model, site, degrees, demand)
                kinds.append(ReplicaKinds(degrees, server, capacity[fits]))
            self._known[key] = FittingReplicas(tuple(kinds), unfit)
        return self._known[key]

    def degrees(self, site: Site, demand: Load) -> tuple[Degrees, ...]:
        """The layouts that a replica can have there, in groups of equal pipelines. Raises InputError for too many."""

        def holds(layout: Layout) -> bool:
            server = Server(site.setup(self.model, layout), requests_of(self.model, replace(demand, prefix=0.0)), 0)
            return bool(server.capacity >= 1)

        layouts = self.layouts
        if layouts is None:
            layouts = serving_layouts(self.model, site.on, self.room(site), holds)
        if len(layouts) > MOST_LAYOUTS:
            raise InputError("layouts", len(layouts), f"at most {MOST_LAYOUTS}")
        return by_stages(x for x in layouts if x.chips <= self.room(site))

    def room(self, site: Site) -> int:
        """Chips that there are."""
        return min(self.chips, cluster_named(site.on).chips) if is_several(site.on) else self.chips


def _server(model: Model, site: Site, degrees: Degrees, demand: Load) -> Server:
    return Server(site.setup(model, degrees.layout(1)), requests_of(model, demand), 2)


@dataclass(frozen=True)
class Looked:
    """What was looked at.

    `plans`: those that keep all limits, of two pools the best of them. `deployments`: replicas and their layouts that
    fit; `considered`: these, each with the numbers in flight or rates at which its times were worked out.
    """

    plans: tuple[ServingPlan, ...]
    deployments: int
    considered: int
    left_out: tuple[tuple[str, int], ...] = ()


def all_looked(every: Sequence[Looked]) -> Looked:
    """All that was looked at."""
    left_out: dict[str, int] = {}
    for reason, number in (pair for looked in every for pair in looked.left_out):
        left_out[reason] = left_out.get(reason, 0) + number
    plans = tuple(plan for looked in every for plan in looked.plans)
    deployments, considered = (sum(getattr(x, name) for x in every) for name in ("deployments", "considered"))
    return Looked(plans, deployments, considered, tuple(left_out.items()))
