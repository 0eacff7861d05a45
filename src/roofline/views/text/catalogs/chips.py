"""Text of chips and clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.numbers.units import seconds, si
from roofline.declared.result import Figured, FigureValue, Result, Units
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import Cluster, Level
from roofline.hardware.named_chip import chip_named
from roofline.hardware.tiers import MemoryTier
from roofline.views.text.tables import Column, Table

SEVERAL = 4
"""Number of machines in the example name for several."""


@dataclass(frozen=True)
class ChipFacts(Figured):
    """All figures of a chip in SI units: `capacity` is usable memory, links are per direction."""

    FIGURES: ClassVar[Units] = {
        "id": "", "name": "", "vendor": "", "generation": "", "kind": "", "peaks": "FLOP/s", "vector": "FLOP/s",
        "ridge": "FLOP/B", "bandwidth": "B/s", "capacity": "B", "nominal_capacity": "B", "cache": "B", "units": "",
        "link": "B/s", "host": "B/s", "tdp": "", "idle": "", "price": "", "aliases": "", "source": "", "date": "",
        "note": "", "tiers": "", "placement": "",
    }  # fmt: skip
    OF: ClassVar[type] = Chip

    of: Chip

    @property
    def ridge(self) -> Mapping[str, float]:
        """Ridge points: peak over bandwidth, by format."""
        return {f: self.of.ridge(f) for f in self.of.peaks}

    def figure(self, name: str) -> FigureValue:
        """A figure of the chip, or its ridge points."""
        return getattr(self if name == "ridge" else self.of, name)


@dataclass(frozen=True, repr=False)
class Chips(Result):
    """Answer of `chips`."""

    SCHEMA: ClassVar[str] = "roofline.chips/2"
    FIGURES: ClassVar[Units] = {"chips": ""}

    chips: tuple[ChipFacts, ...]


@dataclass(frozen=True)
class ClusterFacts(Figured):
    """Chips of one kind and the levels that join them, innermost first; `network`: joins several of the machine."""

    FIGURES: ClassVar[Units] = dict.fromkeys(
        ("name", "chip", "chips", "levels", "network", "aliases", "source", "date"), ""
    )
    OF: ClassVar[type] = Cluster

    of: Cluster

    def figure(self, name: str) -> FigureValue:
        """A figure of the cluster."""
        return getattr(self.of, name)


@dataclass(frozen=True, repr=False)
class Clusters(Result):
    """Answer of `chips --clusters`."""

    SCHEMA: ClassVar[str] = "roofline.clusters/2"
    FIGURES: ClassVar[Units] = {"clusters": ""}

    clusters: tuple[ClusterFacts, ...]


def chips_table(chips: dict[str, Chip]) -> Table:
    """One line for each chip of the catalog."""
    columns = (
        Column("Chip"), Column("Name", drop=6), Column("bf16 or fp16", "FLOP/s", drop=1),
        Column("fp8", "FLOP/s", drop=4),
        Column("Memory", "B"), Column("Bandwidth", "B/s"), Column("Ridge FLOP/B", "plain", drop=3),
        Column("TDP", "W", drop=5),
        Column("$/h", "USD", drop=2),
    )  # fmt: skip
    rows = tuple(
        (
            c.id, c.name, c.peak(c.main_format), c.peaks.get("fp8"), c.capacity, c.bandwidth,
            f"{c.ridge(c.main_format):.0f}", c.tdp, c.price.usd_per_hour if c.price else None,
        )
        for c in chips.values()
    )  # fmt: skip
    return Table(columns, rows)


def chip_table(c: Chip) -> Table:
    """All figures of one chip."""
    rows = [("name", c.name), ("vendor, generation, kind", ", ".join(v for v in (c.vendor, c.generation, c.kind) if v))]
    rows += [(f"peak {f}, dense", f"{si(p, 'FLOP/s')} · ridge {c.ridge(f):.0f} FLOP/B") for f, p in c.peaks.items()]
    rows += [(f"vector {f}", si(p, "FLOP/s")) for f, p in c.vector.items()]
    rows += [("memory", " ".join([si(c.capacity, "B"), *c.memory_kind.split(), "at", si(c.bandwidth, "B/s")]))]
    rows += [(f"memory tier {tier.name}", _tier_text(tier)) for tier in c.tiers]
    rows += [("kept in", ", ".join(f"{memory}: {role}" for role, memory in c.placement.items()))] if c.placement else []
    pairs = (
        ("memory on the datasheet", f"{si(c.nominal_capacity, 'B')}; {_usable(c)}" if c.nominal_capacity else None),
        ("last-level cache", si(c.cache, "B") if c.cache else None), ("cores", str(c.units) if c.units else None),
        ("link, one direction", f"{c.link_kind} {si(c.link, 'B/s')}" if c.link else None),
        ("host link, one direction", f"{c.host_kind} {si(c.host, 'B/s')}" if c.host else None),
        ("power", f"{c.limit:.0f} W, idle {c.idle or 0:.0f} W" if c.limit else None),
        ("price", f"{c.price.usd_per_hour:.2f} $/h, assumed {c.price.date} ({c.price.source})" if c.price else None),
        ("also called", ", ".join(c.aliases) or None), ("source", f"{c.source}, {c.date}" if c.source else None),
        ("note", c.note or None),
    )  # fmt: skip
    rows += [(k, v) for k, v in pairs if v]
    return Table((Column(c.id), Column("", long=20)), tuple(rows), facts=True)


def _tier_text(tier: MemoryTier) -> str:
    """Figures of a memory beside the main one."""
    words = [si(tier.capacity, "B"), *tier.kind.split(), "at", si(tier.bandwidth, "B/s")]
    energy = f", {tier.energy * 1e12:g} pJ/bit" if tier.energy is not None else ""
    if tier.inside is None or tier.inside_flops is None:
        return " ".join(words) + energy
    return f"{' '.join(words)}{energy}, multiplies at {si(tier.inside, 'B/s')} and {si(tier.inside_flops, 'FLOP/s')}"


def cluster_table(c: Cluster) -> Table:
    """All figures of one machine with several chips."""
    chip = chip_named(c.chip)
    rows = [("chips", f"{c.chips:,} × {chip.name} ({chip.id})")]
    rows += [(f"level {level.name}", f"{level.size:,} by {_links(level)}") for level in c.levels]
    pairs = (
        ("between several", f"{_links(c.network)}: {SEVERAL}x{c.name}" if c.network else None),
        ("memory, of all chips", si(c.chips * chip.capacity, "B")),
        ("price", f"{c.chips * chip.price.usd_per_hour:,.2f} $/h, that of {c.chips:,} chips" if chip.price else None),
        ("also called", ", ".join(c.aliases) or None), ("source", ", ".join(filter(None, (c.source, c.date))) or None),
        ("note", c.note or None),
    )  # fmt: skip
    rows += [(k, v) for k, v in pairs if v]
    return Table((Column(c.name), Column("", long=20)), tuple(rows), facts=True)


def _links(level: Level) -> str:
    """Links of one level."""
    axes = f" of {'×'.join(map(str, level.axes))}" if level.axes else ""
    adds = ", adds in the switch" if level.in_switch else ""
    over = f", oversubscribed {level.oversubscription:g} : 1" if level.oversubscription > 1 else ""
    adds += ", rails" if level.rails else ""
    speed = f"{si(level.bandwidth, 'B/s')} per chip and direction"
    return f"{level.kind}{axes}, {speed}, {seconds(level.latency)}{over}{adds}"


def _usable(c: Chip) -> str:
    """What determines the usable share of memory."""
    return ", ".join(["usable is the above", *filter(None, (c.usable_source, c.usable_date))])


def _with_network(c: Cluster) -> list[tuple[Level, int | None]]:
    """Levels with their sizes, followed by the network between machines, without a size."""
    return [*((level, level.size) for level in c.levels), *([(c.network, None)] if c.network else [])]


def clusters_table(clusters: Sequence[Cluster]) -> Table:
    """One line for each level of each cluster; the network between machines is `network`, without a size."""
    columns = (
        Column("Cluster"), Column("Chip", drop=3), Column("Chips", "count"), Column("Level", drop=1),
        Column("Size", "count"),
        Column("Kind", drop=2), Column("Bandwidth, one way", "B/s"), Column("Latency", "s", drop=4),
        Column("Adds in the switch", drop=5),
    )  # fmt: skip
    rows = [
        (
            *((c.name, c.chip, c.chips) if i == 0 else ("", "", None)), level.name, size, level.kind,
            level.bandwidth, level.latency, "yes" if level.in_switch else "",
        )
        for c in clusters
        for i, (level, size) in enumerate(_with_network(c))
    ]  # fmt: skip
    return Table(columns, tuple(rows))
