"""A tornado: the effect of each knob on a step's time over its range, the widest swing on top."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.views.plots.data import TornadoPanel, TornadoPlot
from roofline.views.plots.draw.canvas import MARGIN, axes, sheet
from roofline.views.plots.labels import write_labels
from roofline.views.plots.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEFT, WIDE, ROW, HEAD, GAP = 1.5, 3.1, 0.3, 0.34, 0.3
"""Inches: knob names, bars, one bar, panel title, and gap between panels."""


def draw_tornado(plot: TornadoPlot, style: Style) -> Figure:
    """A column of panels for each phase, with the same logarithmic axis around no change."""
    phases = list(dict.fromkeys(p.phase for p in plot.panels))
    kinds = list(dict.fromkeys(p.kind for p in plot.panels))
    rows = {k: max(len(p.swings) for p in plot.panels if p.kind == k) for k in kinds}
    width = len(phases) * (LEFT + WIDE + GAP) + 2 * MARGIN
    high = sum(rows.values()) * ROW + len(kinds) * (HEAD + 0.4)
    figure, _, bottom = sheet(style, width, high, plot.title, plot.note)
    ends = [v for p in plot.panels for s in p.swings for v in (s.at_low, s.at_high)]
    span = min([0.5, *ends]) / 1.5, max([2.0, *ends]) * 1.5
    for panel in plot.panels:
        above = sum(rows[k] * ROW + HEAD + 0.4 for k in kinds[: kinds.index(panel.kind)]) + HEAD
        tall = rows[panel.kind] * ROW
        left = MARGIN + phases.index(panel.phase) * (LEFT + WIDE + GAP) + LEFT
        ax = axes(figure, style, left, bottom + high - above - tall, WIDE, tall)
        _panel(ax, panel, span, rows[panel.kind], style)
        if panel.kind == kinds[-1]:
            ax.set_xlabel(plot.AXIS, color=style.colours.ink, size=7, labelpad=2)
    return figure


def _panel(ax: Axes, panel: TornadoPanel, span: tuple[float, float], rows: int, style: Style) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    theme = style.colours
    down, up = theme.palette[0], theme.palette[1]
    ax.set_xscale("log", base=2)
    ax.set_xlim(*span)
    for i, s in enumerate(panel.swings):
        for value, text, colour, hatch in ((s.at_low, s.low, down, ""), (s.at_high, s.high, up, "///")):
            if value == 1.0:
                continue
            ax.barh(i, value - 1.0, left=1.0, height=0.62, color=colour, edgecolor=theme.paper, hatch=hatch,
                    linewidth=0.5, zorder=2)  # fmt: skip
            outward = value > 1.0
            write_labels(ax, value * (1.03 if outward else 1 / 1.03), i, text, theme.ink, 6, theme.paper,
                  ha="left" if outward else "right")  # fmt: skip
    ax.set_yticks(range(len(panel.swings)), [s.label for s in panel.swings])
    ax.set_ylim(rows - 0.5, -0.5)
    ax.tick_params(axis="y", length=0, labelcolor=theme.ink, labelsize=7)
    ax.axvline(1.0, color=theme.ink, linewidth=0.8, zorder=3)
    ax.grid(False, axis="y")
    ax.xaxis.set_major_locator(LogLocator(base=2, subs=(1.0,), numticks=8))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"× {v:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_title(f"{panel.phase}: {panel.kind}", loc="left", color=theme.ink, size=9, weight="bold", pad=5)
