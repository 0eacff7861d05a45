"""The space of a serving search, and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import Load
from roofline.declared.numbers.arrays import Array
from roofline.declared.time_limit import SearchClock
from roofline.hardware.cluster import cluster_named
from roofline.inference.deployment import is_several
from roofline.inference.step import check_context
from roofline.layout.layout import Layout
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.serving.pool_sizing import Columns, Timings
from roofline.serving.requests import ServedLoad, requests_of
from roofline.serving.server import Server
from roofline.whatif.search.serving.layouts import Degrees, by_stages, serving_layouts
from roofline.whatif.search.serving.plans import ServingPlan, Site
from roofline.work.step import prefill

MOST_LAYOUTS = 1024
"""Maximum number of layouts of a replica at one site."""


@dataclass(frozen=True, eq=False)
class ReplicaKinds:
    """Layouts of a replica that fit, along the first axis: their server, and the requests that each can hold."""

    degrees: Degrees
    server: Server
    capacity: Array


@dataclass(frozen=True)
class FittingReplicas:
    """The replicas of a site, grouped by pipeline stages, and the number of layouts that do not fit."""

    kinds: tuple[ReplicaKinds, ...]
    unfit: int


@dataclass(frozen=True, eq=False)
class SiteSpace:
    """The search space: sites, at most `chips` in total, and `layouts` of replicas; None for all that divide.

    `clock`: the time that is left for it. `images`: of every request.
    """

    model: Model
    sites: Sequence[Site]
    chips: int
    layouts: Sequence[Layout] | None = None
    clock: SearchClock = field(default_factory=SearchClock)
    images: Images | None = None
    _known: dict[tuple[int, Load], FittingReplicas] = field(default_factory=dict, init=False, repr=False)
    columns: dict[tuple[int, int], Columns] = field(default_factory=dict, init=False, repr=False)
    """Step times of two pools, by the kinds of their replicas."""
    timings: dict[tuple[int, str, tuple[int, int]], Timings] = field(default_factory=dict, init=False, repr=False)
    """Step times of a pool, by the kind of its replicas, their phase and the shape: beside any other pool."""

    def replicas(self, site: Site, demand: Load) -> FittingReplicas:
        """The replicas that fit the memory of a site."""
        key = (id(site), demand)
        if key not in self._known:
            check_context(self.model, prefill(1, self.requests(demand).input + demand.output_tokens - 1))
            kinds, unfit = list[ReplicaKinds](), 0
            for degrees in self.degrees(site, demand):
                server = self._server(site, degrees, demand)
                capacity = np.broadcast_to(np.asarray(server.capacity), (len(degrees), 1))[:, 0]
                fits = capacity >= 1
                unfit += int(np.sum(~fits))
                if not fits.any():
                    continue
                if not fits.all():
                    degrees = degrees.where(fits)
                    server = self._server(site, degrees, demand)
                kinds.append(ReplicaKinds(degrees, server, capacity[fits]))
            self._known[key] = FittingReplicas(tuple(kinds), unfit)
        return self._known[key]

    def degrees(self, site: Site, demand: Load) -> tuple[Degrees, ...]:
        """The layouts of a replica at a site, grouped by pipeline stages. Raises InputError for too many."""

        def holds(layout: Layout) -> bool:
            asked = site.setup(self.model, layout).seeing(self.images)
            server = Server(asked, self.requests(replace(demand, prefix=0.0)), 0)
            return bool(server.capacity >= 1)

        layouts = self.layouts
        if layouts is None:
            layouts = serving_layouts(self.model, site.on, self.room(site), holds)
        if len(layouts) > MOST_LAYOUTS:
            raise InputError("layouts", len(layouts), f"at most {MOST_LAYOUTS}")
        return by_stages(x for x in layouts if x.chips <= self.room(site))

    def room(self, site: Site) -> int:
        """Number of chips available at a site."""
        most = self.together((site,))
        return min(most, cluster_named(site.on).chips) if is_several(site.on) else most

    def together(self, sites: Iterable[Site]) -> int:
        """Most chips of one deployment at these sites; of several kinds as many as of the one that allows fewest."""
        return min(self.chips, *(site.most for site in sites))

    def requests(self, demand: Load) -> ServedLoad:
        """The requests of a load, images among their tokens."""
        return requests_of(self.model, demand, images=self.images)

    def _server(self, site: Site, degrees: Degrees, demand: Load) -> Server:
        asked = site.setup(self.model, degrees.layout(1)).seeing(self.images)
        return Server(asked, self.requests(demand), 2, follows=False)


@dataclass(frozen=True)
class Looked:
    """The outcome of a search.

    `plans`: those that keep all limits; for two pools, the best of them. `deployments`: layouts × numbers of replicas
    that fit. `considered`: these, at each concurrency or rate that was evaluated. `left_out`: numbers rejected, by
    reason. `unseen`: deployments that were not looked at, since the time ended or they were too many; `beyond`: the
    score that they cannot exceed, over the best one's; None where no bound is known.
    """

    plans: tuple[ServingPlan, ...]
    deployments: int
    considered: int
    left_out: tuple[tuple[str, int], ...] = ()
    unseen: int = 0
    beyond: float | None = 1.0


def all_looked(every: Sequence[Looked]) -> Looked:
    """The combined outcome of several searches."""
    left_out: dict[str, int] = {}
    for reason, number in (pair for looked in every for pair in looked.left_out):
        left_out[reason] = left_out.get(reason, 0) + number
    plans = tuple(plan for looked in every for plan in looked.plans)
    deployments, considered, unseen = (
        sum(getattr(x, name) for x in every) for name in ("deployments", "considered", "unseen")
    )
    bounds = [looked.beyond for looked in every if looked.unseen or looked.beyond is None]
    known = [bound for bound in bounds if bound is not None]
    beyond = max(known, default=1.0) if len(known) == len(bounds) else None
    return Looked(plans, deployments, considered, tuple(left_out.items()), unseen, beyond)
