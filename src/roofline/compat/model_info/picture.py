"""The roofline of a report: each phase under each of the rules, on the chip and on its targets."""

from __future__ import annotations

from roofline.compat.model_info.asked import Asked
from roofline.compat.model_info.rules import PHASES, Peaks
from roofline.machine.chip import Chip
from roofline.show.plots import data as d


def picture(a: Asked) -> d.RooflinePlot:
    """A point for each phase and rules at (FLOP/B, F / T), hollow above it what the intensity would allow.

    Each panel has the times of its own chip, and none where tokens have to reach other chips over no known link.
    """
    panels = tuple(_panel(a, chip, fmt, on) for chip, fmt, on in a.chips)
    ranks = f"each of {a.ep} ranks, " if a.ep > 1 else ""
    apart = [p.roof.chip for p in panels if not p.points]
    unknown = f" · no times where the link is not known: {', '.join(apart)}" if apart else ""
    note = f"{ranks}{a.batch} × {a.length} tokens, by the rules {' and '.join(r.name for r in a.rules)}{unknown}"
    return d.RooflinePlot(f"{a.model.name} · {a.chip.name}", panels, note)


def _panel(a: Asked, chip: Chip, fmt: str, on: Peaks) -> d.Panel:
    roof = d.Roof(chip.name, (d.Ceiling(fmt, on.peak, on.knee),), (d.Slope("memory", on.bandwidth),))
    if on.link is None and any(one.network_bytes for pair in a.accounts.values() for one in pair):
        return d.Panel(roof, ())
    steps = [(phase, a.account(phase, rules, on=on)) for phase in PHASES for rules in a.rules]
    points = (
        d.Point(phase, one.rules.name, phase, one.intensity, one.flops / one.time, one.attainable, 0.0)
        for phase, one in steps
    )
    return d.Panel(roof, tuple(points))
