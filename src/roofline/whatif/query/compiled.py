"""Compile plans of a space one by one, or those that differ only in degrees as one plan with arrays of degrees.

The degrees of a layout may be arrays wherever they may be numbers, so thousands of layouts on the same chips take
little longer than one. Whether degrees divide a model is checked once for all layouts with the same sharding degrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np

from roofline.declared.caching import remembered
from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import is_array
from roofline.declared.question import Settings
from roofline.hardware.cluster import Cluster
from roofline.hardware.named_chip import chip_named
from roofline.inference.deployment import Machine, deploy
from roofline.inference.settings import LISTED, Setup, setup
from roofline.inference.step import check_formats
from roofline.layout.layout import Layout
from roofline.layout.shard import shard
from roofline.model.model import Model
from roofline.whatif.query.questions import Compiled
from roofline.whatif.search.space import Segment, Space

KEPT_PLANS = 64
"""Number of compiled plans in the cache."""
FEWEST_TOGETHER = 4
"""Minimum number of plans worth evaluating together."""
VARIED = ("tp", "dp", "cp", "ep")
"""Degrees that are arrays where plans are evaluated together."""
ALIKE = tuple(f.name for f in fields(Layout) if f.name not in VARIED)
"""Fields of a layout that plans evaluated together have in common."""
Compile: TypeAlias = Callable[[int], Compiled]


# -- one plan ------------------------------------------------------------------------------------------------------
def compiled(space: Space, plan: int) -> Compiled:
    """Compile a plan of a space. Raises InputError where it is invalid."""
    settings = _settings(space, plan)
    model: Model = settings.pop("model")
    if space.phase == "train":
        return Compiled(model, settings)
    where = {name: settings[name] for name in LISTED if name in settings}
    asked = _asked(model, **where)
    check_formats(asked.plan)
    return Compiled(model, settings, asked)


def _settings(space: Space, plan: int) -> dict[str, Given]:
    """The settings of a plan, with the modified chip."""
    settings = dict(space.settings(plan))
    figures = settings.pop("figures", None)
    if figures is not None:
        settings["on"] = turned_chip(settings["on"], figures)
    return {name: value for name, value in settings.items() if value is not None}


@remembered(KEPT_PLANS)
def _asked(model: Model, **where: Given) -> Setup:
    return setup(model, **where)


@remembered(KEPT_PLANS)
def turned_chip(on: Machine, figures: str) -> Machine:
    """A chip with modified figures, as in `like=h100-sxm,bw=4.8T`. Raises InputError where `on` is not a chip."""
    if not isinstance(on, str):
        raise InputError("figures", figures, "chips by name or by figures, whose figures then change")
    return chip_named(f"{on},{figures}" if "=" in on else f"like={on},{figures}")


def reason_of(error: InputError) -> str:
    """Why a point or plan is invalid, without the offending value."""
    return f"{error.field}: expected {error.expected}"


# -- many plans ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PlanFamily:
    """Plans that differ only in degrees of their layouts, as one plan whose degrees are arrays [plans, 1, …].

    `box`: the points of each plan. `layouts`: the names of their layouts; empty for a single plan.
    """

    plans: tuple[int, ...]
    box: tuple[tuple[int, int], ...]
    compiled: Compiled
    layouts: tuple[str, ...] = ()

    def point(self, space: Space) -> dict[str, Array]:
        """The coordinates of the box, each array along its own axis after the axis of plans."""
        return {name: v[np.newaxis] for name, v in space.point(Segment(self.plans[0], self.box)).items()}

    def halves(self) -> Iterator[PlanFamily]:
        """The family as two halves."""
        middle, layout = len(self.plans) // 2, self.setup.layout
        for part in (slice(None, middle), slice(middle, None)):
            degrees: Settings = {name: v[part] for name in VARIED if is_array(v := getattr(layout, name))}
            spread = with_layout(self.compiled, replace(layout, **degrees))
            yield replace(self, plans=self.plans[part], layouts=self.layouts[part], compiled=spread)

    @property
    def setup(self) -> Setup:
        """The resolved settings."""
        assert self.compiled.asked is not None
        return self.compiled.asked


def with_layout(plan: Compiled, layout: Layout) -> Compiled:
    """The plan with another layout of the same cluster."""
    assert plan.asked is not None
    return replace(plan, asked=replace(plan.asked, deployment=replace(plan.asked.deployment, layout=layout)))


def plan_families(
    space: Space, segments: Sequence[Segment], compile_plan: Compile, dropped: Counter[str]
) -> tuple[Sequence[Segment], Sequence[PlanFamily]]:
    """The plans of a piece that are evaluated alone, and the families that are evaluated together.

    A family has plans on the same chips that differ only in tp, dp, cp and ep. Invalid plans are counted in `dropped`.
    """
    places = [i for i, choice in enumerate(space.choices) if choice.name != "layout"]
    if len(segments) < FEWEST_TOGETHER or len(places) == len(space.choices):
        return segments, ()
    alone, families = list[Segment](), list[PlanFamily]()
    keyed: dict[Hashable, list[Segment]] = {}
    possible = _Possible({}, {})
    for segment in segments:
        try:
            each = space.places(segment.plan)
            rest = tuple(each[i] for i in places)
            key = possible.key(space.settings(segment.plan), rest)
        except InputError as error:
            dropped[reason_of(error)] += segment.points
        else:
            keyed.setdefault(key, []).append(segment)
    for key, members in keyed.items():
        if key is None or len(members) < FEWEST_TOGETHER:
            alone += members
            continue
        try:
            families.append(_family(space, members, compile_plan))
        except InputError as error:  # a format that the chip lacks
            dropped[reason_of(error)] += sum(segment.points for segment in members)
    return alone, families


@dataclass(frozen=True)
class _Possible:
    """Cache of checks: the cluster of a number of chips, and whether degrees divide a model."""

    clusters: dict[Hashable, Cluster | InputError]
    cuts: dict[Hashable, InputError | None]

    def key(self, settings: Settings, rest: tuple[int, ...]) -> Hashable:
        """Key of plans that may be evaluated together; None for a plan that is evaluated alone.

        `rest`: indices of its settings without the layout. Raises InputError where the plan is invalid.
        """
        layout = settings["layout"]
        if layout is None:
            return None
        like = tuple(getattr(layout, name) for name in ALIKE)
        cluster = self._cluster(settings)
        self._check_cut(settings["model"], layout, (rest[0], like))
        return rest, like, layout.ep > 1, cluster

    def _check_cut(self, model: Model, layout: Layout, like: Hashable) -> None:
        """Raises InputError where the degrees do not divide the model. The number of replicas does not matter."""
        cut = like, layout.tp, layout.cp, layout.ep, layout.expert_tp
        if cut not in self.cuts:
            try:
                shard(model, layout)
                self.cuts[cut] = None
            except InputError as error:
                self.cuts[cut] = error
        wrong = self.cuts[cut]
        if wrong is not None:
            raise wrong

    def _cluster(self, settings: Settings) -> Cluster:
        """The cluster with the number of chips of the layout."""
        key = id(settings["on"]), settings.get("figures"), settings["layout"].chips
        if key not in self.clusters:
            on, figures = settings["on"], settings.get("figures")
            try:
                machine = on if figures is None else turned_chip(on, figures)
                self.clusters[key] = deploy(machine, Layout(dp=settings["layout"].chips)).cluster
            except InputError as error:
                self.clusters[key] = error
        cluster = self.clusters[key]
        if isinstance(cluster, InputError):
            raise cluster
        return cluster


def _family(space: Space, members: Sequence[Segment], compile_plan: Compile) -> PlanFamily:
    """Plans as one family: the first plan with all their layouts. Raises InputError where the first is invalid."""
    first = compile_plan(members[0].plan)
    layouts = [space.settings(segment.plan)["layout"] for segment in members]
    shape = (-1, *(1,) * len(space.numbers))
    degrees = {name: [getattr(layout, name) for layout in layouts] for name in VARIED}
    arrays = {name: np.reshape(v, shape) for name, v in degrees.items() if len(set(v)) > 1}
    spread = with_layout(first, replace(layouts[0], **arrays))
    plans = tuple(segment.plan for segment in members)
    return PlanFamily(plans, members[0].box, spread, tuple(layout.text() for layout in layouts))
