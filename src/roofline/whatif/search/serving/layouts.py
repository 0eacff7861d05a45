"""Layouts of a server's replica: all that divide the model, on the available chips."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import Cluster, cluster_named, of_chips
from roofline.inference.deployment import Machine, is_several, machine_chip, node_size, tensor_degrees
from roofline.layout.layout import Layout
from roofline.layout.shard import shard
from roofline.model.model import Model
from roofline.model.modules import Experts

MOST_RANKS = 1024
"""Maximum number of ranks in a replica."""


@dataclass(frozen=True)
class Degrees:
    """Layouts as arrays, all with `pp` stages. Data-parallel attention replicas share their experts."""

    pp: int
    tp: Array
    dp: Array
    ep: Array

    def __len__(self) -> int:
        return len(self.tp)

    @property
    def chips(self) -> Array:
        """Chips of each layout."""
        return np.asarray(self.tp * self.pp * self.dp)

    def layout(self, axes: int) -> Layout:
        """All layouts as one layout of arrays along the first axis, with `axes` further axes."""
        tp, dp, ep = (degree.reshape(-1, *(1,) * axes) for degree in (self.tp, self.dp, self.ep))
        return Layout(tp=tp, pp=self.pp, dp=dp, ep=ep)

    def one(self, i: int) -> Layout:
        """The i-th layout."""
        return Layout(tp=int(self.tp[i]), pp=self.pp, dp=int(self.dp[i]), ep=int(self.ep[i]))

    def where(self, kept: Array) -> Degrees:
        """The layouts selected by a mask or by indices."""
        return Degrees(self.pp, self.tp[kept], self.dp[kept], self.ep[kept])


def by_stages(layouts: Iterable[Layout]) -> tuple[Degrees, ...]:
    """Group layouts by their number of pipeline stages."""
    groups: dict[int, list[Layout]] = {}
    for layout in layouts:
        groups.setdefault(layout.pp, []).append(layout)
    return tuple(
        Degrees(pp, *(np.array([getattr(x, name) for x in group], dtype=np.int64) for name in ("tp", "dp", "ep")))
        for pp, group in groups.items()
    )


def serving_layouts(model: Model, on: Machine, chips: int, holds: Callable[[Layout], bool]) -> tuple[Layout, ...]:
    """The layouts of one replica on at most `chips` chips of a machine: tp within a node, pp, and for MoE dp and ep.

    tp divides the chips of a node and the model's heads and sizes. pp is a power of two, up to twice the first at which
    `holds` says that the model fits. ep is 1 or all ranks of a stage; dp above 1 goes with ep, since replicas that
    share nothing are counted separately. Layouts that do not divide the model are left out.
    """
    room = min(chips, MOST_RANKS, cluster_named(on).chips if is_several(on) else MOST_RANKS)
    mixture = any(isinstance(x, Experts) for x, _ in model.modules())
    legal: list[Layout] = []
    enough = False
    for pp in _doublings(min(room, len(model.layers))):
        stages = [layout for layout in _layouts(model, on, room, pp, mixture) if _divides(model, layout)]
        legal += stages
        if enough:
            break
        enough = any(map(holds, stages))
    return tuple(legal)


def _layouts(model: Model, on: Machine, room: int, pp: int, mixture: bool) -> Iterator[Layout]:
    for tp in sorted(d for d in tensor_degrees(model, _node(on, machine_chip(on))) if d * pp <= room):
        yield Layout(tp=tp, pp=pp)
        for dp in _doublings(room // tp // pp) if mixture else ():
            if tp * dp > 1:
                yield Layout(tp=tp, pp=pp, dp=dp, ep=tp * dp)


def _node(on: Machine, chip: Chip) -> int:
    """Chips per node of a machine; for a chip alone, those of its usual node."""
    if isinstance(on, Cluster) or is_several(on):
        return node_size(cluster_named(on))
    for size in (72, 64, 16, 8, 4, 2):
        try:
            return node_size(of_chips(size, chip))
        except InputError:
            continue
    return 1


def _doublings(most: int) -> Iterator[int]:
    n = 1
    while n <= most:
        yield n
        n *= 2


def _divides(model: Model, layout: Layout) -> bool:
    try:
        shard(model, layout)
    except InputError:
        return False
    return True
