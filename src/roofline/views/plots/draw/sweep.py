"""Throughput and latency over batch or context, and the decode map of batch × context."""

from __future__ import annotations

from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING

from roofline.declared.numbers.units import binary, brief, seconds, whole
from roofline.views.plots import labels
from roofline.views.plots.data import Curve, MapPlot, SweepPlot
from roofline.views.plots.draw.canvas import MARGIN, axes, legend, log_axis, power_ticks, sheet
from roofline.views.plots.draw.charts import on_colour
from roofline.views.plots.style import MAP_COLOURS, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import ColorType, LineStyleType

LETTERS = {"memory": "M", "compute": "C", "latency": "L", "network": "N"}
"""Bottleneck of a cell, in its corner; launches count as latency."""
UNFIT = "does not fit; figures\nas if it did"
FAINT = 0.4
"""Opacity of a curve beyond the memory limit."""
LEAST = 1.5
"""Smallest range of an axis as a factor, so that a flat curve looks flat."""
DASHES: tuple[LineStyleType, ...] = ("-", (0, (6, 1.5)), (0, (3, 1.2)), (0, (1, 1)))


def draw_sweep(plot: SweepPlot, style: Style) -> Figure:
    """Tokens/s above, seconds per step below, with a colour for each chip; bottleneck changes on the lower axes."""
    theme = style.colours
    left, wide, high, between = 0.85, 5.6, 2.3, 0.3
    names = [c.chip for c in plot.curves]
    beside = 0.6 + 0.07 * max(20, *(len(n) for n in names)) if style.legend == "beside" else 0.0
    width = left + wide + beside + 2 * MARGIN
    figure, top, bottom = sheet(style, width, 2 * high + between + 0.55, plot.title, plot.note)
    below = axes(figure, style, left, bottom + 0.5, wide, high)
    above = axes(figure, style, left, bottom + 0.5 + high + between, wide, high)
    for i, curve in enumerate(plot.curves):
        colour, dash = theme.palette[i % len(theme.palette)], DASHES[i % len(DASHES)]
        below.fill_between(curve.values, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0, zorder=2)
        for ax, y in ((above, curve.tokens_per_second), (below, curve.latency)):
            _memory_ends(ax, curve, y, colour, dash)
        below.plot(curve.values, curve.floor, color=colour, linewidth=0.9, linestyle=":", zorder=3)
    for ax in (above, below):
        ax.set_yscale("log")
        ax.margins(y=0.15)
        power_ticks(ax, plot.curves[0].values[0], plot.curves[0].values[-1])
        _widen(ax)
    log_axis(above.yaxis)
    log_axis(below.yaxis, "s")
    above.tick_params(axis="x", labelbottom=False)
    above.set_ylabel("Throughput (tokens/s)")
    below.set_ylabel(plot.step_label)
    below.set_xlabel(plot.axis_label)
    _crossings(above, plot, style)
    if beside:
        entries = [(c.chip, "line", theme.palette[i % len(theme.palette)]) for i, c in enumerate(plot.curves)]
        marked = [c for curve in plot.curves for c in curve.crossings]
        if any(c.unfit_from is not None for c in plot.curves):
            entries.append(("out of memory; faint:\nif memory were unlimited", "|", theme.muted))
        if any(c.floor for c in marked):
            entries.append(("the speed of light's\nlimit changes", "o", theme.muted))
        if any(not c.floor for c in marked):
            entries.append(("what most of the time\nis limited by changes", "hollowo", theme.muted))
        drawn = legend(figure, style, entries, left + wide + 0.2, figure.get_size_inches()[1] - top)
        for i, handle in enumerate(drawn.legend_handles[: len(names)]):
            handle.set_linestyle(DASHES[i % len(DASHES)])
    return figure


def _memory_ends(ax: Axes, curve: Curve, y: tuple[float, ...], colour: str, dash: LineStyleType) -> None:
    """Draw a curve as far as its steps fit in memory; faint beyond a bar across it."""
    n, end = curve.fitting, curve.unfit_from
    ax.plot(curve.values[:n], y[:n], color=colour, linewidth=1.8, linestyle=dash, zorder=3)
    if end is None:
        return
    start = max(0, n - 1)
    ax.plot(curve.values[start:], y[start:], color=colour, linewidth=1.2, linestyle=dash, zorder=3, alpha=FAINT)
    height = _between(curve.values, y, end)
    ax.plot([end], [height], marker="|", markersize=15, markeredgewidth=2.2, color=colour, linestyle="none", zorder=5)


def _widen(ax: Axes) -> None:
    """Extend a logarithmic y axis to span at least LEAST, around its present middle."""
    low, high = ax.get_ylim()
    if high / low < LEAST:
        more = (LEAST * low / high) ** 0.5
        ax.set_ylim(low / more, high * more)


def _crossings(ax: Axes, plot: SweepPlot, style: Style) -> None:
    """A ring where the bottleneck changes: filled for the floor, hollow for the expected time."""
    theme = style.colours
    taken = labels.Taken()
    named: list[labels.Label] = []
    for i, curve in enumerate(plot.curves):
        colour = theme.palette[i % len(theme.palette)]
        if curve.unfit_from is not None:
            y = _between(curve.values, curve.tokens_per_second, curve.unfit_from)
            taken.marks.append(labels.around_point(ax, curve.unfit_from, y, 8))
            text = curve.memory_ends
            named.append(labels.Label(text, curve.unfit_from, y, theme.ink, clear=8))
        ends = list(zip(curve.values, curve.tokens_per_second, strict=True))
        for start, end in pairwise(ends):
            taken.lines += labels.along(ax, start, end, 3.0)
        for crossing in curve.crossings:
            y = _between(curve.values, curve.tokens_per_second, crossing.at)
            ax.scatter([crossing.at], [y], s=46, zorder=5, facecolor=colour if crossing.floor else theme.paper,
                       edgecolor=colour, linewidth=1.4)  # fmt: skip
            taken.marks.append(labels.around_point(ax, crossing.at, y, 4))
            named.append(labels.Label(crossing.label, crossing.at, y, theme.ink, clear=4))
    labels.place(ax, named, taken, theme.paper)


def _between(x: tuple[int, ...], y: tuple[float, ...], at: int) -> float:
    """Height of a drawn line between its points, on logarithmic axes."""
    i = next(i for i, value in enumerate(x) if value >= at)
    if x[i] == at or i == 0:
        return y[i]
    part = (log2(at) - log2(x[i - 1])) / (log2(x[i]) - log2(x[i - 1]))
    return float(2 ** (log2(y[i - 1]) + part * (log2(y[i]) - log2(y[i - 1]))))


def draw_map(plot: MapPlot, style: Style) -> Figure:
    """Cells shaded by tokens/s with tokens/s and time as text; hatched where memory does not suffice, with lines
    between bottlenecks."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_hex
    from matplotlib.patches import Rectangle

    theme = style.colours
    columns, rows = len(plot.rows[0]), len(plot.rows)
    cell, tall = 0.74, 0.44
    left, beside = 0.85, 1.75 if style.legend == "beside" else 0.0
    width = left + columns * cell + beside + 2 * MARGIN
    figure, top, bottom = sheet(style, width, rows * tall + 0.6, plot.title, plot.note)
    ax = axes(figure, style, left, bottom + 0.5, columns * cell, rows * tall)
    ax.grid(False)
    rates = [c.tokens_per_second for row in plot.rows for c in row]
    shade = LinearSegmentedColormap.from_list("rate", MAP_COLOURS[style.theme])
    norm = LogNorm(min(rates), max(rates))
    for i, row in enumerate(plot.rows):
        for j, c in enumerate(row):
            colour = to_hex(shade(norm(c.tokens_per_second))) if c.fits else theme.paper
            ax.add_patch(Rectangle((j, i), 1, 1, facecolor=colour, edgecolor=theme.paper, linewidth=1.2))
            ink = on_colour(colour) if c.fits else theme.muted
            if not c.fits:
                ax.add_patch(Rectangle((j, i), 1, 1, facecolor="none", edgecolor=theme.grid, hatch="////", linewidth=0))
            labels.write_labels(ax, j + 0.5, i + 0.66, brief(c.tokens_per_second), ink, 8, colour)
            labels.write_labels(ax, j + 0.5, i + 0.28, seconds(c.latency), ink, 6.3, colour)
            labels.write_labels(ax, j + 0.96, i + 0.95, LETTERS[c.bound], ink, 5.5, colour, ha="right", va="top")
    _bounds(ax, plot, theme.palette[1])
    ax.set_xlim(0, columns)
    ax.set_ylim(0, rows)
    ax.set_xticks([j + 0.5 for j in range(columns)], [binary(c.context) for c in plot.rows[0]])
    ax.set_yticks([i + 0.5 for i in range(rows)], [whole(row[0].batch) for row in plot.rows])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xlabel("Context (tokens)")
    ax.set_ylabel("Batch (sequences)")
    if beside:
        _map_legend(figure, plot, style, left + columns * cell + 0.2, figure.get_size_inches()[1] - top, shade(0.6))
    return figure


def _bounds(ax: Axes, plot: MapPlot, colour: str) -> None:
    """Lines between cells with different bottlenecks."""
    rows = plot.rows
    for i, row in enumerate(rows):
        for j, c in enumerate(row):
            right = row[j + 1] if j + 1 < len(row) else c
            over = rows[i + 1][j] if i + 1 < len(rows) else c
            if right.bound != c.bound:
                ax.plot([j + 1] * 2, [i, i + 1], color=colour, linewidth=2.2, solid_capstyle="round", zorder=4)
            if over.bound != c.bound:
                ax.plot([j, j + 1], [i + 1] * 2, color=colour, linewidth=2.2, solid_capstyle="round", zorder=4)


def _map_legend(figure: Figure, plot: MapPlot, style: Style, x: float, y: float, filled: ColorType) -> None:
    theme = style.colours
    cells = [c for row in plot.rows for c in row]
    entries: list[tuple[str, str, ColorType]] = [("tokens/s, and\ntime per token", "patch", filled)]
    if not all(c.fits for c in cells):
        entries.append((UNFIT, "patch", theme.paper))
    bounds = [b for b in LETTERS if any(c.bound == b for c in cells)]
    if len(bounds) > 1:
        entries.append(("the limit changes", "line", theme.palette[1]))
    entries += [(f"{LETTERS[b]}  {b} bound", "", theme.muted) for b in bounds]
    drawn = legend(figure, style, entries, x, y)
    for handle, (label, _, _) in zip(drawn.legend_handles, entries, strict=True):
        if label == UNFIT:
            handle.set(hatch="////", edgecolor=theme.grid)
