"""A Pareto front: tokens/s per chip over tokens/s per user, with a list of the plans."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from roofline.views.plots.data import FrontPlot
from roofline.views.plots.draw.canvas import MARGIN, axes, legend, log_axis, sheet
from roofline.views.plots.style import Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE, HIGH, LINE = 6.6, 3.9, 0.17
"""Inches of the axes, and of a line of the list."""


def draw_front(plot: FrontPlot, style: Style) -> Figure:
    """Numbered plans joined by steps, and the list of plans below."""
    theme, left, number = style.colours, 0.85, len(plot.plans)
    beside = 1.5 if style.legend == "beside" else 0.0
    listed = LINE * number + 0.1
    figure, _, bottom = sheet(style, left + WIDE + beside + 2 * MARGIN, HIGH + listed + 0.75, plot.title, plot.note)
    ax = axes(figure, style, left, bottom + listed + 0.5, WIDE, HIGH)
    kinds = tuple(dict.fromkeys(p.kind for p in plot.plans))
    colours = {kind: theme.palette[i] for i, kind in enumerate(kinds)}
    for p, after in pairwise(plot.plans):
        ax.plot(
            [p.user, after.user, after.user], [p.chip, p.chip, after.chip], color=theme.muted, linewidth=0.8, zorder=2
        )
    for i, p in enumerate(plot.plans, 1):
        ax.scatter([p.user], [p.chip], s=28, color=colours[p.kind], zorder=3)
        ax.annotate(str(i), (p.user, p.chip), xytext=(4, 4), textcoords="offset points", size=8, color=theme.ink)
    if plot.plans:
        users = [p.user for p in plot.plans]
        ax.set_xscale("log")
        ax.set_xlim(min(users) / 1.15, max(users) * 1.15)
        log_axis(ax.xaxis)
        ax.set_ylim(0, 1.1 * max(p.chip for p in plot.plans))
    ax.set_xlabel("Tokens/s for a user (1 / TPOT)")
    ax.set_ylabel("Tokens/s per chip")
    across, up = figure.get_size_inches()
    for i, p in enumerate(plot.plans, 1):
        y = (bottom + listed - LINE * i) / up
        figure.text(left / across, y, f"{i}  {p.label}", size=8, color=theme.ink)
    if beside:
        legend(
            figure,
            style,
            [(kind, "o", colours[kind]) for kind in kinds],
            left + WIDE + 0.15,
            bottom + listed + 0.5 + HIGH,
        )
    return figure
