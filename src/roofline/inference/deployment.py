"""Where a model runs: a layout on a cluster of one kind of chip; without a layout, one that uses the whole machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import ClassVar, TypeAlias

import roofline.layout.shard as sharding
from roofline.declared.errors import InputError, nearest
from roofline.declared.numbers.maths import Count, ceil_div, is_array
from roofline.declared.result import Figured, Leaf, Units, plain
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import Cluster, cluster_named, clusters, is_cluster, of_chips
from roofline.hardware.named_chip import chip_named
from roofline.layout.layout import Layout, layout_named
from roofline.model import modules as m
from roofline.model.model import Model

Machine: TypeAlias = str | os.PathLike[str] | Chip | Cluster
"""A chip or a cluster: its name, its file, or the object itself."""


def listed_machines(on: Machine | Sequence[Machine]) -> tuple[Machine, ...]:
    """A tuple of machines, from one machine or several.

    >>> listed_machines("h100-sxm"), listed_machines(["h100-sxm", "8xl4"])
    (('h100-sxm',), ('h100-sxm', '8xl4'))
    """
    return (on,) if isinstance(on, (str, os.PathLike, Chip, Cluster)) else tuple(on)


@dataclass(frozen=True)
class Deployment(Figured):
    """A layout on a cluster of one kind of chip. `chosen`: no layout was given, and this one uses the whole machine."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("chip", "cluster", "chips", "layout", "degrees", "chosen"), "")
    NAMES: ClassVar[Mapping[str, str]] = {"layout": "text", "degrees": "layout"}

    chip: Chip
    cluster: Cluster
    layout: Layout
    chosen: bool = False

    @property
    def text(self) -> str:
        """The layout in words, such as `one chip` or `tp=8, pp=2`."""
        return self.layout.text()

    def leaves(self, name: str, unit: str) -> Iterator[Leaf]:
        """As columns under their own names; with the figure's name in front for one of several deployments."""
        before = "" if name == "deployment" else f"{name}_"
        yield from ((before + part, plain(self.figure(part)), "") for part in ("chip", "cluster", "chips", "layout"))

    def rank(self, model: Model, stage: int | None = None) -> Model:
        """The model that one rank holds."""
        return sharding.shard(model, self.layout, stage)

    def ranks(self, model: Model) -> tuple[Model, ...]:
        """What a rank of each pipeline stage holds, without duplicates."""
        return sharding.distinct_ranks(sharding.stages(model, self.layout))

    @cached_property
    def chips(self) -> int:
        """Chips that the layout takes; the most of several layouts."""
        chips = self.layout.chips
        return int(chips.max()) if is_array(chips) else int(chips)

    def share(self, batch: Count) -> Count:
        """Sequences of the busiest replica, of a batch over all replicas."""
        return ceil_div(batch, self.layout.dp)

    def idle(self, batch: Count) -> Count:
        """Replicas with fewer sequences than the busiest."""
        rest = batch % self.layout.dp
        return (rest > 0) * (self.layout.dp - rest)


def deploy(on: Machine, layout: object = None) -> Deployment:
    """Place a layout on a cluster: the one named, or as many chips of a kind as the layout takes, with the usual links.

    Raises InputError where the cluster has fewer chips than the layout takes.
    """
    spread = layout_named(layout)
    if isinstance(on, Cluster) or is_cluster(on):
        cluster = cluster_named(on)
        deployment = Deployment(machine_chip(cluster), cluster, spread)
        if deployment.chips > cluster.chips:
            raise InputError("layout", spread.text(), f"at most the {cluster.chips} chips of {cluster.name}")
        return deployment
    chip = machine_chip(on)
    alone = Deployment(chip, of_chips(1, chip), spread)
    return alone if alone.chips == 1 else replace(alone, cluster=of_chips(_whole_nodes(alone.chips, chip), chip))


def machine_chip(on: Machine) -> Chip:
    """The kind of chip of a machine. Raises InputError with the nearest names where there is none of that name."""
    if isinstance(on, Cluster) or is_cluster(on):
        return chip_named(cluster_named(on).chip)
    try:
        return chip_named(on if not isinstance(on, Path) else os.fspath(on))
    except InputError as error:
        if error.field != "chip" or not isinstance(on, str) or error.value != on:
            raise
        near = nearest(on, [*error.nearest, *clusters()])
        raise InputError("chip", on, "a chip or a cluster by name, a .toml file or peak=…,bw=…", near) from None


def is_several(on: Machine) -> bool:
    """Whether the machine is a cluster of more than one chip."""
    return (isinstance(on, Cluster) or is_cluster(on)) and cluster_named(on).chips > 1


def _whole_nodes(chips: int, chip: Chip) -> int:
    """The number of chips, rounded up to whole nodes of the chip's preset where it takes more than one."""
    try:
        of_chips(chips, chip)
    except InputError:
        for count in range(chips + 1, chips + 73):
            try:
                of_chips(count, chip)
            except InputError:
                continue
            return count
    return chips


# -- a whole machine -----------------------------------------------------------------------------------------------
def node_size(cluster: Cluster) -> int:
    """Number of chips in a node, which are joined by more than a network."""
    inner = [level.size for level in cluster.levels if level.kind != "network"]
    return min(prod(inner) if inner else 1, cluster.chips)


@lru_cache(maxsize=256)
def tensor_degrees(model: Model, chips: int) -> tuple[int, ...]:
    """Degrees of tensor parallelism that divide a node's chips and the model's sharded sizes, largest first."""
    heads = {x.heads for x, _ in model.language().modules() if isinstance(x, (m.Attention, m.LatentAttention))}

    def divides(degree: int) -> bool:
        if chips % degree or any(h % degree for h in heads):
            return False
        try:
            sharding.shard(model, Layout(tp=degree))
        except InputError:
            return False
        return True

    return tuple(degree for degree in range(chips, 0, -1) if divides(degree))


def inference_layouts(model: Model, cluster: Cluster) -> Iterator[Layout]:
    """Layouts of all chips of a machine for inference, from the best one if it fits to those that hold larger models.

    Tensor parallelism over a node's chips, by the largest degree that divides; then replicas of such groups, or
    pipelines of two or more of them.
    """
    tp = tensor_degrees(model, node_size(cluster))[0]
    groups = cluster.chips // tp
    for pp in (n for n in range(1, groups + 1) if groups % n == 0 and n <= len(model.layers)):
        yield Layout(tp=tp, pp=pp, dp=groups // pp)


def training_layouts(model: Model, cluster: Cluster) -> Iterator[Layout]:
    """Layouts of all chips of a machine for training: ZeRO-1 replicas, then tensor parallel in a node, then stages."""
    degrees, chips = tensor_degrees(model, node_size(cluster))[::-1], cluster.chips
    for tp in degrees:
        yield Layout(tp=tp, dp=chips // tp, zero=1)
    tp = degrees[-1]
    for pp in (n for n in range(2, chips // tp + 1) if (chips // tp) % n == 0 and n <= len(model.layers)):
        yield Layout(tp=tp, pp=pp, dp=chips // tp // pp, zero=1)


def whole_machine(
    on: Machine, layouts: Callable[[Cluster], Iterator[Layout]], holds: Callable[[Deployment], bool]
) -> Deployment:
    """All chips of a machine under the first of the layouts that holds the model, else under the last."""
    cluster = cluster_named(on)
    deployment = Deployment(chip_named(cluster.chip), cluster, Layout(), chosen=True)
    for layout in layouts(cluster):
        deployment = replace(deployment, layout=layout)
        if holds(deployment):
            return deployment
    return deployment
