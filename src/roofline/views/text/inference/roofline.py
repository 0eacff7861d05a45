"""Explanation of a roofline plot in words."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.declared.numbers.units import percent, si
from roofline.views.plots.data import EnergyPanel, EnergyPlot, Panel, RooflinePlot, RooflinePoint

READING = "left of the ridge, memory bandwidth limits an op; right of it, compute does; no op is above the roof"


def roofline_text(plot: RooflinePlot) -> str:
    """Ridge points of each chip, and the point with the most time in each phase."""
    return "\n".join([READING, *(line for panel in plot.panels for line in _panel_lines(panel))])


def _panel_lines(panel: Panel) -> Iterator[str]:
    ridges = [c for c in panel.roof.levels if not c.vector]
    yield f"{panel.roof.chip}: ridge {', '.join(f'{c.ridge:.0f} FLOP/B in {c.label}' for c in ridges)}"
    for phase in dict.fromkeys(p.phase for p in panel.points):
        point = max((p for p in panel.points if p.phase == phase), key=lambda p: p.share)
        yield f"  {phase:<8}  {_point_text(point)}{_side(point, [c.ridge for c in ridges])}"


def energy_text(plot: EnergyPlot) -> str:
    """What each chip attains per joule, and the point with the most time in each phase."""
    return "\n".join(line for panel in plot.panels for line in _energy_lines(panel))


def _energy_lines(panel: EnergyPanel) -> Iterator[str]:
    arches = ", ".join(
        f"{si(a.most, 'FLOP/J')} in {a.label}, FLOPs and bytes take as many joules at {a.balance:.0f} FLOP/B"
        for a in panel.arches
    )  # fmt: skip
    yield f"{panel.chip}: at most {arches}"
    for phase in dict.fromkeys(p.phase for p in panel.points):
        point = max((p for p in panel.points if p.phase == phase), key=lambda p: p.share)
        reached = f"{si(point.performance, 'FLOP/J')} of {si(point.light, 'FLOP/J')} at the speed of light"
        share = percent(point.share)
        yield f"  {phase:<8}  {point.label}, {share} of the time: {point.intensity:,.3g} FLOP/B, {reached}"


def _point_text(p: RooflinePoint) -> str:
    reached = f"{si(p.performance, 'FLOP/s')} of {si(p.light, 'FLOP/s')} under the roof"
    return f"{p.label}, {percent(p.share)} of the time: {p.intensity:,.3g} FLOP/B, {reached}"


def _side(p: RooflinePoint, ridges: list[float]) -> str:
    """What limits a point, if it lies on the same side of all ridge points."""
    if ridges and p.intensity < min(ridges):
        return "; memory bound"
    return "; compute bound" if ridges and p.intensity > max(ridges) else ""
