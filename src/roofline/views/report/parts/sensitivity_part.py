"""How times depend on each parameter."""

from __future__ import annotations

from roofline.declared.numbers.units import seconds
from roofline.views.plots import build
from roofline.views.report.parts.section import PHASE, Section
from roofline.views.report.parts.subject import Report
from roofline.views.text.tables import Column, Table
from roofline.whatif.sensitivity.tornado import GridPoint, grid


def sensitivity_section(r: Report) -> Section:
    """Elasticities and swings, deployment separate from architecture, and the grid as a file."""
    every = r.answers
    fields = (
        PHASE, Column("Kind"), Column("Parameter"), Column("Low", "factor"), Column("High", "factor"),
        Column("Time at low", "factor"), Column("Time at high", "factor"), Column("Elasticity", "elasticity"),
    )  # fmt: skip
    rows = tuple(
        (a.phase, a.kind, a.knob, a.low, a.high, a.at_low, a.at_high, a.elasticity)
        for a in sorted(every, key=lambda a: (a.phase, a.kind, -a.swing))
    )
    lines = []
    for phase in ("prefill", "decode"):
        for kind in ("deployment", "architecture"):
            some = [(a.elasticity, a.knob) for a in every if (a.phase, a.kind) == (phase, kind)]
            known = [(value, knob) for value, knob in some if value is not None]
            if known:
                lines.append(_most_sensitive(phase, kind, *max(known, key=lambda pair: abs(pair[0]))))
    points = tuple(grid(r.point))
    if points:
        least, most = min(points, key=lambda p: p.time), max(points, key=lambda p: p.time)
        lines.append(
            f"The grid has {len(points)} decode steps. The fastest takes {seconds(least.time)}: {_knobs(least)}."
        )
        lines.append(f"The slowest takes {seconds(most.time)}: {_knobs(most)}.")
    picture = ("Tornado", build.tornado_plot(r.point, every))
    return Section("Sensitivity", tuple(lines), (Table(fields, rows, name="sensitivity"), _grid(points)), (picture,))


def _most_sensitive(phase: str, kind: str, elasticity: float, knob: str) -> str:
    """The knob that changes a phase's time most, and by how much."""
    how = f"{abs(elasticity):.2f} % {'more' if elasticity > 0 else 'less'} time"
    return f"{phase.capitalize()} is most sensitive to {knob} ({kind}): 1 % more gives {how}."


def _knobs(p: GridPoint) -> str:
    experts = f", {p.experts_per_token} experts a token" if p.experts_per_token else ""
    return (
        f"weights {p.weights}, cache {p.cache}{experts}, keys and values × {p.kv:g}, width × {p.width:g}, "
        f"batch {p.batch}, context {p.context}"
    )


def _grid(points: tuple[GridPoint, ...]) -> Table:
    fields = (
        Column("Weights"), Column("Cache"), Column("Experts per token", "count"), Column("Keys and values", "factor"),
        Column("Width", "factor"), Column("Batch", "count"), Column("Context", "count"), Column("FLOPs", "FLOP"),
        Column("Bytes", "B"), Column("Expected", "s"), Column("Floor", "s"), Column("Bound"),
        Column("Tokens/s", "tokens/s"), Column("Memory", "B"),
    )  # fmt: skip
    rows = tuple(
        (
            p.weights, p.cache, p.experts_per_token, p.kv, p.width, p.batch, p.context, p.flops, p.bytes, p.time,
            p.floor, p.bound, p.tokens_per_second, p.memory,
        )
        for p in points
    )  # fmt: skip
    return Table(fields, rows, hidden=True, name="grid")
