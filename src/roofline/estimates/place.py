"""Where it runs: the chip, the cluster it is one of, and the model that one of its ranks holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import roofline.layout.shard as sharding
from roofline.layout.layout import Layout, layout_named
from roofline.machine.chip import Chip, chip_named
from roofline.machine.fabric import Cluster, cluster_named, is_cluster, of_chips
from roofline.model.errors import InputError
from roofline.model.maths import is_array
from roofline.model.model import Model

Place: TypeAlias = str | os.PathLike[str] | Chip | Cluster
"""A chip or a cluster, by its name, its file or as it is."""


def places(on: Place | Sequence[Place]) -> tuple[Place, ...]:
    """One place or several, each of them one of several.

    >>> places("h100-sxm"), places(["h100-sxm", "8xl4"])
    (('h100-sxm',), ('h100-sxm', '8xl4'))
    """
    return (on,) if isinstance(on, (str, os.PathLike, Chip, Cluster)) else tuple(on)


@dataclass(frozen=True)
class Placed:
    """A layout on a cluster of one kind of chip."""

    chip: Chip
    cluster: Cluster
    layout: Layout

    def rank(self, model: Model, stage: int | None = None) -> Model:
        """The model that one rank holds."""
        return sharding.shard(model, self.layout, stage)

    @property
    def chips(self) -> int:
        """How many chips the layout takes."""
        return int(self.layout.chips.max() if is_array(self.layout.chips) else self.layout.chips)


def placed(on: Place, layout: object = None) -> Placed:
    """The layout on a cluster: the one named, else as many chips of that name as the layout takes, joined as usual.

    Raises InputError where the cluster has fewer chips than the layout takes.
    """
    spread = layout_named(layout)
    if isinstance(on, Cluster) or is_cluster(on):
        cluster = cluster_named(on)
        found = Placed(chip_named(cluster.chip), cluster, spread)
        if found.chips > cluster.chips:
            raise InputError("layout", spread.text(), f"at most the {cluster.chips} chips of {cluster.name}")
        return found
    chip = chip_named(on if not isinstance(on, Path) else os.fspath(on))
    alone = Placed(chip, of_chips(1, chip), spread)
    return alone if alone.chips == 1 else Placed(chip, of_chips(_whole_nodes(alone.chips, chip), chip), spread)


def _whole_nodes(chips: int, chip: Chip) -> int:
    """The number rounded up to whole nodes of the chip's preset, where it takes more than one."""
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
