"""The energy roofline: arches of attainable work per joule, and points at expected work per joule."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from roofline.declared.numbers.maths import ceil_div
from roofline.declared.numbers.units import brief
from roofline.views.plots import labels
from roofline.views.plots.data import EnergyPanel, EnergyPlot
from roofline.views.plots.draw.canvas import MARGIN, axes, legend, log_axis, sheet
from roofline.views.plots.draw.roofline import LEGEND, ROOM, Range, draw_points, entries, point_labels
from roofline.views.plots.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL, SMALL = (5.6, 4.4), (4.6, 3.7)
"""Inches of the axes of a single panel, and of one of two in a row."""
UNIT = "FLOP/J"


def reach(plot: EnergyPlot) -> tuple[Range, Range]:
    """Ranges of the axes that hold every arch and point."""
    arches = [arch for panel in plot.panels for arch in panel.arches]
    points = [p for panel in plot.panels for p in panel.points]
    x = [end for arch in arches for end in (arch.intensity[0], arch.intensity[-1])]
    y = [v for p in points for v in (p.performance, p.light)] + [arch.most for arch in arches]
    y += [v for arch in arches for v in arch.work_per_joule[:1]] if not points else []
    return (min(x), max(x)), (min(y) / ROOM, max(y) * ROOM)


def draw_energy(plot: EnergyPlot, style: Style) -> Figure:
    """One panel per chip on the same axes, with the other chips' arches faint behind."""
    across = 1 if len(plot.panels) == 1 else 2
    down = ceil_div(len(plot.panels), across)
    wide, high = PANEL if across == 1 else SMALL
    beside = LEGEND if style.legend == "beside" else 0.0
    left, gap, foot, head = 0.72, 0.62, 0.55, 0.3 if across > 1 else 0.1
    width = left + across * wide + (across - 1) * gap + beside + MARGIN + 0.1
    figure, top, bottom = sheet(style, width, down * (high + foot + head), plot.title, plot.note)
    for i, panel in enumerate(plot.panels):
        x = left + (i % across) * (wide + gap)
        y = bottom + foot + (down - 1 - i // across) * (high + foot + head)
        ax = axes(figure, style, x, y, wide, high)
        _panel(ax, style, plot, panel)
        ax.set_xlabel("Arithmetic intensity (FLOP/B)")
        if i % across == 0:
            ax.set_ylabel("Work per joule (FLOP/J)")
        if across > 1:
            ax.set_title(panel.chip, loc="left", color=style.colours.ink, size=labels.fitting(ax, panel.chip, 9, wide))
    if beside:
        up = figure.get_size_inches()[1]
        legend(figure, style, entries(plot, style), width - beside - MARGIN + 0.1, up - top - head)
    return figure


def _panel(ax: Axes, style: Style, plot: EnergyPlot, panel: EnergyPanel) -> None:
    theme, (across, up) = style.colours, reach(plot)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*across)
    ax.set_ylim(*up)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    taken = labels.Taken()
    for other in plot.panels:
        for arch in other.arches if other is not panel else ():
            ax.plot(arch.intensity, arch.work_per_joule, color=theme.grid, linewidth=1.0, zorder=1)
    named: list[labels.Label] = []
    for arch in panel.arches:
        ax.plot(arch.intensity, arch.work_per_joule, color=theme.ink, linewidth=1.3, zorder=2)
        for (x0, y0), (x1, y1) in pairwise(zip(arch.intensity, arch.work_per_joule, strict=True)):
            taken.lines += labels.along(ax, (x0, y0), (x1, y1))
        text = f"{arch.label} at most {brief(arch.most, UNIT)}"
        named.append(labels.Label(text, arch.intensity[-8], arch.work_per_joule[-8], theme.ink, needed=True))
        if across[0] < arch.balance < across[1]:
            ax.axvline(arch.balance, color=theme.muted, linewidth=0.7, linestyle=":", zorder=1.5)
            note = f"as many joules\nat {brief(arch.balance)} FLOP/B"
            named.append(labels.Label(note, arch.balance, up[0] * 1.6, theme.muted, needed=True))
    draw_points(ax, style, [p for other in plot.panels for p in other.points], panel.points, taken)
    labels.place(ax, [*named, *point_labels(ax, style, panel.points)], taken, theme.paper)
