"""How the times answer to each knob."""

from __future__ import annotations

from roofline.explore.sensitivity import GridPoint, grid
from roofline.show.plots import build
from roofline.show.report.section import PHASE, Section
from roofline.show.report.subject import Report
from roofline.show.sheets import Field, Sheet
from roofline.show.units import seconds


def sensitivity(r: Report) -> Section:
    """Elasticities and swings, deployment apart from architecture, and the grid as a file."""
    found = r.answers
    fields = (
        PHASE, Field("Kind"), Field("Knob"), Field("Low", "factor"), Field("High", "factor"),
        Field("Time at low", "factor"), Field("Time at high", "factor"), Field("Elasticity", "elasticity"),
    )  # fmt: skip
    rows = tuple(
        (a.phase, a.kind, a.knob, a.low, a.high, a.at_low, a.at_high, a.elasticity)
        for a in sorted(found, key=lambda a: (a.phase, a.kind, -abs(a.elasticity)))
    )
    lines = []
    for phase in ("prefill", "decode"):
        for kind in ("deployment", "architecture"):
            here = [a for a in found if (a.phase, a.kind) == (phase, kind)]
            if here:
                best = max(here, key=lambda a: abs(a.elasticity))
                lines.append(f"Of {kind}, {phase} answers most to {best.knob}: elasticity {best.elasticity:+.2f}.")
    points = tuple(grid(r.point))
    if points:
        least, most = min(points, key=lambda p: p.time), max(points, key=lambda p: p.time)
        lines.append(
            f"The grid has {len(points)} decode steps, from {seconds(least.time)} ({_knobs(least)}) to "
            f"{seconds(most.time)} ({_knobs(most)})."
        )
    picture = ("Tornado", build.tornado(r.point, found))
    return Section("Sensitivity", tuple(lines), (Sheet("sensitivity", fields, rows), _grid(points)), (picture,))


def _knobs(p: GridPoint) -> str:
    experts = f", {p.experts_per_token} experts a token" if p.experts_per_token else ""
    return (
        f"weights {p.weights}, cache {p.cache}{experts}, keys and values × {p.kv:g}, width × {p.width:g}, "
        f"batch {p.batch}, context {p.context}"
    )


def _grid(points: tuple[GridPoint, ...]) -> Sheet:
    fields = (
        Field("Weights"), Field("Cache"), Field("Experts per token", "count"), Field("Keys and values", "factor"),
        Field("Width", "factor"), Field("Batch", "count"), Field("Context", "count"), Field("FLOPs", "FLOP"),
        Field("Bytes", "B"), Field("Expected", "s"), Field("Speed of light", "s"), Field("Bound"),
        Field("Tokens/s", "tokens/s"), Field("Memory", "B"),
    )  # fmt: skip
    rows = tuple(
        (
            p.weights, p.cache, p.experts_per_token, p.kv, p.width, p.batch, p.context, p.flops, p.bytes, p.time,
            p.floor, p.bound, p.tokens_per_second, p.memory,
        )
        for p in points
    )  # fmt: skip
    return Sheet("grid", fields, rows, hidden=True)
