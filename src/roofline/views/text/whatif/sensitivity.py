"""Text of a sensitivity: elasticities, regimes, and the map of what limits decodes."""

from __future__ import annotations

from roofline.declared.numbers.units import binary, seconds, whole
from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.sensitivity.sensitivity import Elasticity, RegimeMap, Sensitivity

KNOBS = (
    Column("knob"),
    Column("of", drop=1),
    Column("elasticity", "elasticity"),
    Column("between", drop=2),
    Column("how", drop=3),
)
REGIMES = (
    Column("step"), Column("bound"), Column("compute", "share"), Column("memory", "share"), Column("network", "share"),
    Column("latency", "share"),
)  # fmt: skip


def sensitivity_text(s: Sensitivity) -> str:
    """The figure, and the point at which it is varied."""
    value = seconds(s.value) if s.unit == "s" else f"{s.value:,.6g} {s.unit}"
    place = f"{s.model.name} on {s.deployment.chips} × {s.chip.id}, {s.deployment.layout.text()}, {s.engine.titled}"
    return f"{place}\n{s.of} ({s.subject}) = {value}; its change in percent when a knob grows by 1 %:"


def elasticity_table(s: Sensitivity) -> Table:
    """Elasticities by knob."""
    return Table(KNOBS, tuple(_row(e) for e in s.elasticities), name="elasticities")


def regime_table(s: Sensitivity) -> Table:
    """Shares of time by bottleneck."""
    rows = tuple((r.phase, r.bound, r.compute, r.memory, r.network, r.latency) for r in s.regimes)
    return Table(REGIMES, rows, name="regimes")


def map_table(m: RegimeMap) -> Table:
    """Bottlenecks over batch and context by first letter, in brackets where memory does not suffice."""
    columns = (Column("batch"), *(Column(binary(n)) for n in m.context))
    rows = tuple(
        (whole(size), *(b[0].upper() if f else f"({b[0].upper()})" for b, f in zip(bounds, fits, strict=True)))
        for size, bounds, fits in zip(m.batch, m.bound, m.fits, strict=True)
    )
    return Table(columns, rows, name="map")


def _row(e: Elasticity) -> tuple[TableCell, ...]:
    return e.knob, e.side, e.value, f"× {e.low:.4g} … × {e.high:.4g}" if e.low < e.high else "", e.method
