"""Views of chips and clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from roofline.machine.chip import Chip
from roofline.machine.fabric import Cluster
from roofline.show.tables import Column, Table
from roofline.show.units import seconds, si


def chips_table(chips: dict[str, Chip]) -> Table:
    """One line for each chip of the catalog."""
    columns = (
        Column("Chip", False), Column("Name", False, drop=5), Column("bf16 or fp16"), Column("fp8", drop=3),
        Column("Memory"), Column("Bandwidth"), Column("Ridge", drop=2), Column("TDP", drop=4), Column("$/h", drop=1),
    )  # fmt: skip
    rows = []
    for c in chips.values():
        main = c.main_format
        rows.append((
            c.id, c.name, si(c.peak(main), "FLOP/s"), si(c.peaks["fp8"], "FLOP/s") if "fp8" in c.peaks else "",
            si(c.capacity, "B"), si(c.bandwidth, "B/s"), f"{c.ridge(main):.0f}", f"{c.tdp:.0f} W" if c.tdp else "",
            f"{c.price.usd_per_hour:.2f}" if c.price else "",
        ))  # fmt: skip
    return Table(columns, tuple(rows))


def chip_table(c: Chip) -> Table:
    """Everything known of one chip."""
    rows = [("name", c.name), ("vendor, generation, kind", ", ".join(v for v in (c.vendor, c.generation, c.kind) if v))]
    rows += [(f"peak {f}, dense", f"{si(p, 'FLOP/s')} · ridge {c.ridge(f):.0f} FLOP/B") for f, p in c.peaks.items()]
    rows += [(f"vector {f}", si(p, "FLOP/s")) for f, p in c.vector.items()]
    rows += [("memory", " ".join([si(c.capacity, "B"), *c.memory_kind.split(), "at", si(c.bandwidth, "B/s")]))]
    pairs = (
        ("last-level cache", si(c.cache, "B") if c.cache else None), ("cores", str(c.units) if c.units else None),
        ("link, one direction", f"{c.link_kind} {si(c.link, 'B/s')}" if c.link else None),
        ("host link, one direction", f"{c.host_kind} {si(c.host, 'B/s')}" if c.host else None),
        ("power", f"{c.tdp:.0f} W, idle {c.idle or 0:.0f} W" if c.tdp else None),
        ("price", f"{c.price.usd_per_hour:.2f} $/h, assumed {c.price.date} ({c.price.source})" if c.price else None),
        ("also called", ", ".join(c.aliases) or None), ("source", f"{c.source}, {c.date}" if c.source else None),
        ("note", c.note or None),
    )  # fmt: skip
    rows += [(k, v) for k, v in pairs if v]
    return Table((Column(c.id, False), Column("", False, wrap=True)), tuple(rows))


def chip_json(c: Chip) -> dict[str, Any]:
    """One chip in SI units."""
    return {
        "id": c.id, "name": c.name, "vendor": c.vendor, "generation": c.generation, "kind": c.kind,
        "peaks_flops": dict(c.peaks), "vector_flops": dict(c.vector), "bandwidth_bytes_per_second": c.bandwidth,
        "capacity_bytes": c.capacity, "cache_bytes": c.cache, "units": c.units, "link_bytes_per_second": c.link,
        "host_bytes_per_second": c.host, "tdp_watts": c.tdp, "idle_watts": c.idle,
        "price": asdict(c.price) if c.price else None,
        "ridge_flops_per_byte": {f: c.ridge(f) for f in c.peaks}, "source": c.source, "date": c.date, "note": c.note,
    }  # fmt: skip


def clusters_table(clusters: Sequence[Cluster]) -> Table:
    """One line for each level of each cluster."""
    columns = (
        Column("Cluster", False), Column("Chip", False), Column("Level", False), Column("Size"), Column("Kind", False),
        Column("Bandwidth, one direction"), Column("Latency", drop=2), Column("Adds in the switch", False, drop=1),
    )  # fmt: skip
    rows = [
        (
            c.name if i == 0 else "", c.chip if i == 0 else "", level.name, str(level.size), level.kind,
            si(level.bandwidth, "B/s"), seconds(level.latency), "yes" if level.in_switch else "",
        )
        for c in clusters
        for i, level in enumerate(c.levels)
    ]  # fmt: skip
    return Table(columns, tuple(rows))


def cluster_json(c: Cluster) -> dict[str, Any]:
    """One cluster in SI units."""
    return {
        "id": c.name, "chip": c.chip, "chips": c.chips, "source": c.source, "date": c.date,
        "levels": [
            {
                "name": level.name, "size": level.size, "kind": level.kind,
                "bandwidth_bytes_per_second": level.bandwidth, "latency_seconds": level.latency,
                "in_switch": level.in_switch, "axes": list(level.axes),
            }
            for level in c.levels
        ],
    }  # fmt: skip
