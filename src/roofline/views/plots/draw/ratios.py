"""Predictions over measurements: a line for each system, from 10 to 90 % of its rows, with a mark at the median."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.views.plots.data import RatiosPlot
from roofline.views.plots.draw.canvas import MARGIN, axes, legend, log_axis, sheet
from roofline.views.plots.style import MARKERS, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE, LINE, LETTER = 5.4, 0.2, 0.066
"""Inches of the axes, of a line, and of a letter of its label."""
APART = 0.36
"""Share of a line by which two series are apart."""


def draw_ratios(plot: RatiosPlot, style: Style) -> Figure:
    """The first system on top; 1 is a prediction that equals the measurement."""
    theme, lines = style.colours, plot.systems
    left = 0.3 + LETTER * max((len(line.label) for line in lines), default=1)
    beside = 1.75 if style.legend == "beside" else 0.0
    high = LINE * (len(lines) + 1)
    figure, _, bottom = sheet(style, left + WIDE + beside + 2 * MARGIN, high + 0.6, plot.title, plot.note)
    ax = axes(figure, style, left, bottom + 0.5, WIDE, high)
    ends = [end for line in lines for ratios in line.ratios if ratios is not None for end in ratios]
    ax.set_xscale("log")
    ax.set_xlim(min([0.5, *ends]) / 1.05, max([2.0, *ends]) * 1.05)
    ax.set_ylim(len(lines) - 0.3, -0.7)
    ax.axvline(1.0, color=theme.ink, linewidth=0.9, zorder=1)
    for i, line in enumerate(lines):
        for k, ratios in enumerate(line.ratios):
            if ratios is None:
                continue
            y = i + APART * (k - (len(plot.series) - 1) / 2)
            low, middle, most = ratios
            ax.plot([low, most], [y, y], color=theme.palette[k], linewidth=1.4, zorder=2)
            ax.plot(
                [middle], [y], marker=MARKERS[k], color=theme.palette[k], markersize=3.6, linestyle="none", zorder=3
            )
    ax.set_yticks(range(len(lines)), [line.label for line in lines])
    ax.grid(False, axis="y")
    log_axis(ax.xaxis)
    ax.set_xlabel("Predicted / measured")
    if beside:
        entries = [(name, MARKERS[k], theme.palette[k]) for k, name in enumerate(plot.series)]
        legend(figure, style, entries, left + WIDE + 0.15, bottom + 0.5 + high)
    return figure
