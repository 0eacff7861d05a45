"""A simulated server: requests and shares over time, above the distributions of their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.declared.numbers.units import brief, seconds
from roofline.views.plots.data import Distributed, SimulationPlot, Traced
from roofline.views.plots.draw.canvas import MARGIN, axes, legend, log_axis, sheet
from roofline.views.plots.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKED = (0.5, 0.9, 0.99)
"""Shares of requests whose times are labelled."""
LEAST = 2.0
"""Smallest range of a time axis, as a factor."""


def draw_simulation(plot: SimulationPlot, style: Style) -> Figure:
    """Two panels over time, and one for each distribution below."""
    left, wide, between = 0.8, 7.2, 0.85
    heights, low = (1.6, 1.1), 2.1
    beside = 1.4 if style.legend == "beside" else 0.0
    width = left + wide + beside + 2 * MARGIN
    high = sum(heights) + 0.2 + 0.95 + low + 0.5
    figure, _, bottom = sheet(style, width, high + 0.1, plot.title, plot.note)
    columns = len(plot.distributions)
    each = (wide - (columns - 1) * between * 0.75) / columns
    for i, distribution in enumerate(plot.distributions):
        ax = axes(figure, style, left + i * (each + between * 0.75), bottom + 0.5, each, low)
        _distribution(ax, distribution, style, first=i == 0)
    shares_at = bottom + 0.5 + low + 0.95
    shares = axes(figure, style, left, shares_at, wide, heights[1])
    _over_time(shares, plot.seconds, plot.shares, style, 2, 100.0)
    shares.set_ylim(0, 105)
    shares.set_ylabel("Share (%)")
    shares.set_xlabel("Time (s)")
    requests_at = shares_at + heights[1] + 0.2
    requests = axes(figure, style, left, requests_at, wide, heights[0])
    _over_time(requests, plot.seconds, plot.requests, style, 0, 1.0)
    requests.set_ylim(0, max(1.0, 1.1 * max((max(q.values, default=0.0) for q in plot.requests), default=1.0)))
    requests.set_ylabel("Requests")
    requests.tick_params(axis="x", labelbottom=False)
    if beside:
        for quantities, first, y in (
            (plot.requests, 0, requests_at + heights[0]),
            (plot.shares, 2, shares_at + heights[1]),
        ):
            entries = [(q.label, "line", style.colours.palette[first + i]) for i, q in enumerate(quantities)]
            legend(figure, style, entries, left + wide + 0.15, y)
        if any(distribution.most is not None for distribution in plot.distributions):
            drawn = legend(figure, style, [("asked for", "line", style.colours.palette[1])], left + wide + 0.15,
                           bottom + 0.5 + low)  # fmt: skip
            drawn.legend_handles[0].set_linestyle("--")
    return figure


def _over_time(
    ax: Axes, times: Sequence[float], quantities: Sequence[Traced], style: Style, first: int, scale: float
) -> None:
    """Step curves of the mean in each time interval."""
    from matplotlib.ticker import FuncFormatter

    edges = [0.0, *times]
    for i, quantity in enumerate(quantities):
        values, colour = [scale * v for v in quantity.values], style.colours.palette[first + i]
        ax.stairs(values, edges, baseline=None, color=colour, linewidth=1.3, zorder=3)
        ax.stairs(values, edges, fill=True, color=colour, alpha=0.12, linewidth=0, zorder=2)
    ax.set_xlim(0, edges[-1] or 1.0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda v, _: brief(v) if v >= 1000 else f"{v:g}"))


def _distribution(ax: Axes, drawn: Distributed, style: Style, first: bool) -> None:
    """Share of requests over the time that they do not exceed, with some quantiles and the limit labelled."""
    theme = style.colours
    known = [(x, share) for x, share in zip(drawn.seconds, drawn.shares, strict=True) if x > 0]
    ax.set_xscale("log")
    ax.set_ylim(0, 103)
    ax.set_title(drawn.label, loc="left", size=9, color=theme.ink, pad=16)
    if known:
        low, high = known[0][0], max(known[-1][0], drawn.most or 0.0)
        wider = max(1.0, (LEAST * low / high) ** 0.5) * 1.05
        ax.set_xlim(low / wider, high * wider)
        ax.step([low, *(x for x, _ in known)], [0, *(100 * s for _, s in known)], where="post", color=theme.palette[0],
                linewidth=1.6, zorder=3)  # fmt: skip
    reached = [(share, next((x for x, s in known if s >= share), None)) for share in MARKED]
    marks = [(share, x) for share, x in reached if x is not None]
    ax.scatter([x for _, x in marks], [100 * share for share, _ in marks], s=16, color=theme.palette[0], zorder=4)
    said = " · ".join(f"p{100 * share:.0f} {seconds(x)}" for share, x in marks)
    ax.text(0, 1.03, said, transform=ax.transAxes, size=7.5, color=theme.muted, va="bottom", ha="left")
    if drawn.most is not None:
        ax.axvline(drawn.most, color=theme.palette[1], linewidth=1.1, linestyle="--", zorder=2)
    log_axis(ax.xaxis, "s")
    if first:
        ax.set_ylabel("Requests (%)")
    ax.set_xlabel("Time")
