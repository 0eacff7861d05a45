"""Plans of a space, understood: each by itself, or many that differ in degrees alone as one whose degrees are arrays.

A layout's degrees may be arrays wherever they may be numbers, so thousands of layouts on the same chips take little
longer than one. Whether a degree divides a model is looked at once for all layouts with the same degrees of what cuts
the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np

from roofline.arrays import Array
from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.maths import is_array
from roofline.declared.question import Settings
from roofline.estimates.deployment import Machine, deploy
from roofline.estimates.settings import LISTED, Setup, setup
from roofline.estimates.step import check_formats
from roofline.explore.questions import Compiled
from roofline.explore.space import Segment, Space
from roofline.layout.layout import Layout
from roofline.layout.shard import shard
from roofline.machine.fabric import Cluster
from roofline.machine.named_chip import chip_named
from roofline.model.model import Model
from roofline.remember import remembered

KEPT_PLANS = 64
"""Plans that stay compiled."""
FEWEST_TOGETHER = 4
"""Plans that are worth an array."""
VARIED = ("tp", "dp", "cp", "ep")
"""Degrees that are arrays where plans are answered together."""
ALIKE = tuple(f.name for f in fields(Layout) if f.name not in VARIED)
"""What is the same of them."""
Compile: TypeAlias = Callable[[int], Compiled]


# -- one plan ------------------------------------------------------------------------------------------------------
def compiled(space: Space, plan: int) -> Compiled:
    """A plan of a space, understood. Raises InputError where it cannot be."""
    settings = _settings(space, plan)
    model: Model = settings.pop("model")
    if space.phase == "train":
        return Compiled(model, settings)
    where = {name: settings[name] for name in LISTED if name in settings}
    asked = _asked(model, **where)
    check_formats(asked.plan)
    return Compiled(model, settings, asked)


def _settings(space: Space, plan: int) -> dict[str, Given]:
    """The settings of a plan, the chip with its figures changed."""
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
    """A chip with some figures changed, as in `like=h100-sxm,bw=4.8T`. Raises InputError where it is no chip."""
    if not isinstance(on, str):
        raise InputError("figures", figures, "chips by name or by figures, whose figures then change")
    return chip_named(f"{on},{figures}" if "=" in on else f"like={on},{figures}")


def reason_of(error: InputError) -> str:
    """Why a point or a plan cannot be, without the value."""
    return f"{error.field}: expected {error.expected}"


# -- many plans ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PlanFamily:
    """Plans that differ in degrees of their layouts alone, as one whose degrees are arrays [plans, 1, …].

    `box`: the points of each; `layouts`: what theirs are called, nothing of a plan alone.
    """

    plans: tuple[int, ...]
    box: tuple[tuple[int, int], ...]
    compiled: Compiled
    layouts: tuple[str, ...] = ()

    def point(self, space: Space) -> dict[str, Array]:
        """The numbers of the box, each array along an axis of its own behind that of the plans."""
        return {name: v[np.newaxis] for name, v in space.point(Segment(self.plans[0], self.box)).items()}

    def halves(self) -> Iterator[PlanFamily]:
        """The plans in two."""
        middle, layout = len(self.plans) // 2, self.setup.layout
        for part in (slice(None, middle), slice(middle, None)):
            degrees: Settings = {name: v[part] for name in VARIED if is_array(v := getattr(layout, name))}
            spread = with_layout(self.compiled, replace(layout, **degrees))
            yield replace(self, plans=self.plans[part], layouts=self.layouts[part], compiled=spread)

    @property
    def setup(self) -> Setup:
        """The settings, understood."""
        assert self.compiled.asked is not None
        return self.compiled.asked


def with_layout(plan: Compiled, layout: Layout) -> Compiled:
    """A plan under another layout of the same cluster."""
    assert plan.asked is not None
    return replace(plan, asked=replace(plan.asked, deployment=replace(plan.asked.deployment, layout=layout)))


def plan_families(
    space: Space, segments: Sequence[Segment], compile_plan: Compile, dropped: Counter[str]
) -> tuple[Sequence[Segment], Sequence[PlanFamily]]:
    """The plans of a piece that are answered alone, and those that are answered together.

    Together are plans on the same chips that differ in tp, dp, cp and ep alone. Those that cannot be are counted.
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
    """What was found out of plans: the chips that so many of a machine are, and which degrees cut a model."""

    clusters: dict[Hashable, Cluster | InputError]
    cuts: dict[Hashable, InputError | None]

    def key(self, settings: Settings, rest: tuple[int, ...]) -> Hashable:
        """Plans with the same key may be answered together; None of one that is alone.

        `rest`: the places of its settings but the layout. Raises InputError where the plan cannot be.
        """
        layout = settings["layout"]
        if layout is None:
            return None
        like = tuple(getattr(layout, name) for name in ALIKE)
        cluster = self._cluster(settings)
        self._check_cut(settings["model"], layout, (rest[0], like))
        return rest, like, layout.ep > 1, cluster

    def _check_cut(self, model: Model, layout: Layout, like: Hashable) -> None:
        """Raises InputError where the degrees do not divide the model; replicas never decide that."""
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
        """The chips that it runs on, of so many."""
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
    """Plans as one, that of the first under all their layouts. Raises InputError where the first cannot be."""
    first = compile_plan(members[0].plan)
    layouts = [space.settings(segment.plan)["layout"] for segment in members]
    shape = (-1, *(1,) * len(space.numbers))
    degrees = {name: [getattr(layout, name) for layout in layouts] for name in VARIED}
    arrays = {name: np.reshape(v, shape) for name, v in degrees.items() if len(set(v)) > 1}
    spread = with_layout(first, replace(layouts[0], **arrays))
    plans = tuple(segment.plan for segment in members)
    return PlanFamily(plans, members[0].box, spread, tuple(layout.text() for layout in layouts))
