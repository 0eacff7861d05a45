"""Memory of training ranks over a step: a panel for each stage, with its constant state below what the passes add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.declared.numbers.units import brief
from roofline.views.plots.data import StageMemory, StepMemoryPlot
from roofline.views.plots.draw.canvas import MARGIN, axes, legend, sheet
from roofline.views.plots.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, HIGH, BETWEEN = 6.6, 1.35, 0.42
"""Inches of a panel, and between two panels."""


def draw_step_memory(plot: StepMemoryPlot, style: Style) -> Figure:
    """Panels below each other on one time axis."""
    left, number = 0.85, len(plot.stages)
    beside = 1.5 if style.legend == "beside" else 0.0
    high = number * HIGH + number * BETWEEN + 0.3
    figure, _, bottom = sheet(style, left + WIDE + beside + 2 * MARGIN, high, plot.title, plot.note)
    most = 1.08 * max(plot.capacity, *(stage.peak for stage in plot.stages))
    for i, stage in enumerate(plot.stages):
        y = bottom + 0.45 + (number - 1 - i) * (HIGH + BETWEEN)
        ax = axes(figure, style, left, y, WIDE, HIGH)
        _panel(ax, stage, plot, style, most)
        if i < number - 1:
            ax.tick_params(axis="x", labelbottom=False)
        else:
            ax.set_xlabel("Time (s)")
    if beside:
        palette = style.colours.palette
        entries = [
            ("always there", "patch", palette[0]), ("the passes", "patch", palette[1]),
            ("capacity", "line", palette[3]),
        ]  # fmt: skip
        drawn = legend(figure, style, entries, left + WIDE + 0.15, bottom + 0.45 + number * (HIGH + BETWEEN) - BETWEEN)
        drawn.legend_handles[2].set_linestyle("--")
    return figure


def _panel(ax: Axes, stage: StageMemory, plot: StepMemoryPlot, style: Style, most: float) -> None:
    """One stage: its state, the memory of the passes above it, and the capacity."""
    from matplotlib.ticker import FuncFormatter

    theme = style.colours
    edges = [*stage.seconds, max(plot.length, stage.seconds[-1])]
    ax.stairs(stage.total, edges, baseline=stage.state, fill=True, color=theme.palette[1], linewidth=0, zorder=2)
    ax.stairs(stage.total, edges, baseline=None, color=theme.palette[1], linewidth=0.8, zorder=3)
    ax.fill_between([0, plot.length], 0, stage.state, color=theme.palette[0], linewidth=0, zorder=2)
    ax.axhline(plot.capacity, color=theme.palette[3], linewidth=1.1, linestyle="--", zorder=4)
    ax.set_xlim(0, plot.length)
    ax.set_ylim(0, most)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: brief(v, "B")))
    ax.set_title(f"{stage.label} · peak {brief(stage.peak, 'B')}", loc="left", size=8.5, color=theme.ink, pad=4)
