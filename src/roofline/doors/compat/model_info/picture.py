"""The roofline of a report: each phase under both sets of rules, on the chip and on the target chips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.doors.compat.chips import Peaks
from roofline.doors.compat.model_info.request import ReportRequest
from roofline.doors.compat.model_info.rules import PHASES
from roofline.hardware.chip import Chip

if TYPE_CHECKING:
    from roofline.views.plots.data import Panel, RooflinePlot


def picture(a: ReportRequest) -> RooflinePlot:
    """A point at (FLOP/B, F / T) for each phase and set of rules, with a hollow one above at the attainable
    performance.

    Each panel uses the times of its own chip, and has none if tokens must reach other chips over an unknown link.
    """
    from roofline.views.plots.data import RooflinePlot

    panels = tuple(_panel(a, chip, fmt, on) for chip, fmt, on in a.chips)
    ranks = f"each of {a.ep} ranks, " if a.ep > 1 else ""
    apart = [p.roof.chip for p in panels if not p.points]
    unknown = f" · no times where the link is not known: {', '.join(apart)}" if apart else ""
    note = f"{ranks}{a.batch} × {a.length} tokens, by the rules {' and '.join(r.name for r in a.rules)}{unknown}"
    return RooflinePlot(f"{a.model.name} · {a.chip.name}", panels, note)


def _panel(a: ReportRequest, chip: Chip, fmt: str, on: Peaks) -> Panel:
    from roofline.views.plots.data import Ceiling, DrawnRoof, Panel, RooflinePoint, Slope

    roof = DrawnRoof(chip.name, (Ceiling(fmt, on.peak, on.knee),), (Slope("memory", on.bandwidth),))
    if on.link is None and any(one.network_bytes for pair in a.accounts.values() for one in pair):
        return Panel(roof, ())
    steps = [(phase, a.account(phase, rules, on=on)) for phase in PHASES for rules in a.rules]
    points = (
        RooflinePoint(phase, one.rules.name, phase, one.intensity, one.flops / one.time, one.attainable, 0.0)
        for phase, one in steps
    )
    return Panel(roof, tuple(points))
