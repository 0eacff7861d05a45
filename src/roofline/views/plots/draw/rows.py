"""One column of a sweep over an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.views.plots.data import RowsPlot
from roofline.views.plots.draw.canvas import MARGIN, axes, legend, log_axis, sheet
from roofline.views.plots.draw.sweep import DASHES
from roofline.views.plots.style import Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKED = 40
"""Largest number of points of a line that are marked individually."""


def draw_rows(plot: RowsPlot, style: Style) -> Figure:
    """A line for each combination; an axis is logarithmic if all its values are positive."""
    theme = style.colours
    left, wide, high = 0.95, 5.6, 3.6
    longest = max(len(line.label) for line in plot.curves)
    beside = 0.6 + 0.07 * longest if style.legend == "beside" and len(plot.curves) > 1 else 0.0
    figure, top, bottom = sheet(style, left + wide + beside + 2 * MARGIN, high + 0.55, plot.title, plot.note)
    ax = axes(figure, style, left, bottom + 0.5, wide, high)
    colours = [theme.palette[i % len(theme.palette)] for i in range(len(plot.curves))]
    dashes = [DASHES[i // len(theme.palette) % len(DASHES)] for i in range(len(plot.curves))]
    for line, colour, dash in zip(plot.curves, colours, dashes, strict=True):
        mark = "o" if len(line.x) <= MARKED else ""
        ax.plot(line.x, line.y, color=colour, linewidth=1.8, linestyle=dash, marker=mark, markersize=3, zorder=3)
    ax.margins(y=0.1)
    if plot.logarithmic("x"):
        ax.set_xscale("log")
        log_axis(ax.xaxis)
    if plot.logarithmic("y"):
        ax.set_yscale("log")
        log_axis(ax.yaxis, plot.ticks)
    ax.set_xlabel(plot.x_label)
    ax.set_ylabel(plot.y_label)
    if beside:
        entries = [(line.label, "line", colour) for line, colour in zip(plot.curves, colours, strict=True)]
        drawn = legend(figure, style, entries, left + wide + 0.2, figure.get_size_inches()[1] - top)
        for handle, dash in zip(drawn.legend_handles, dashes, strict=True):
            handle.set_linestyle(dash)
    return figure
