"""Text of a Pareto front of hypothetical chips."""

from __future__ import annotations

from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.codesign import Codesign, Design

DESIGN_COLUMNS = (
    Column("peak (bf16)", "FLOP/s"), Column("stacks", "count", drop=4), Column("bandwidth", "B/s"),
    Column("memory", "B", drop=1), Column("cache", "B", drop=7), Column("link", "B/s", drop=6),
    Column("mm²", "count", drop=5),
    Column("power", "W", drop=2), Column("USD", "USD"),
)  # fmt: skip


def codesign_text(c: Codesign) -> str:
    """The question, and the number of chips tried."""
    place = f"{c.model.name} on {c.deployment.chips} × {c.chip.id}, {c.deployment.layout.text()}, {c.engine.id}"
    return (
        f"{place}\nchips like it, {c.of} against {c.against}: {c.looked:,} tried, {len(c.designs):,} that none beats "
        "in both\nmm², watts with everything busy and USD to make one by rough models (docs/what-if.md)"
    )


def codesign_table(c: Codesign) -> Table:
    """The front, best first."""
    return Table((Column(c.of, c.unit), *DESIGN_COLUMNS), tuple(_row(d) for d in c.designs), name="designs")


def _row(d: Design) -> tuple[TableCell, ...]:
    return d.value, d.peak, d.stacks, d.bandwidth, d.capacity, d.cache, d.link, d.area, d.power, d.usd
