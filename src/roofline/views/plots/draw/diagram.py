"""A model as boxes: from embedding to head, and beside it the modules of each kind of layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from roofline.views.plots.data import Box, DiagramPlot, Stack
from roofline.views.plots.draw.canvas import MARGIN, axes, sheet
from roofline.views.plots.labels import fitting
from roofline.views.plots.style import GROUP_ORDER, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

WIDE, TALL, GAP, BETWEEN, HEAD = 2.15, 0.34, 0.12, 0.55, 0.34
"""Inches: box width and height, gaps between boxes and columns, and column title."""
BESIDE = 0.12
"""Inches between parallel paths."""


@dataclass
class Strokes:
    """Shapes drawn in one call: boxes, coloured edges, lines, and arrowheads down and to the right."""

    boxes: list[Patch] = field(default_factory=list)
    edges: list[tuple[Patch, str]] = field(default_factory=list)
    lines: list[list[tuple[float, float]]] = field(default_factory=list)
    down: list[tuple[float, float]] = field(default_factory=list)
    right: list[tuple[float, float]] = field(default_factory=list)


def draw_diagram(plot: DiagramPlot, style: Style) -> Figure:
    """The model's column on the left, one for each kind of layer to its right."""
    columns = (plot.model, *plot.layers)
    high = HEAD + max(max(c.rows) + 1 for c in columns) * (TALL + GAP)
    lefts = list(accumulate((BETWEEN + _wide(c) for c in columns), initial=BETWEEN))
    width = lefts[-1] - BETWEEN + 0.05 + 2 * MARGIN
    figure, _, bottom = sheet(style, width, high + 0.1, plot.title, plot.note)
    ax = axes(figure, style, MARGIN, bottom, width - 2 * MARGIN, high)
    ax.set_xlim(0, width - 2 * MARGIN)
    ax.set_ylim(high, 0)
    ax.axis("off")
    strokes = Strokes()
    for column, left in zip(columns, lefts, strict=False):
        _column(ax, strokes, column, left, style)
    _draw(ax, strokes, style)
    return figure


def _wide(column: Stack) -> float:
    """Width of a column in inches."""
    return column.lanes * (WIDE + BESIDE) - BESIDE


def _draw(ax: Axes, s: Strokes, style: Style) -> None:
    from matplotlib.collections import LineCollection, PatchCollection

    theme = style.colours
    ax.add_collection(LineCollection(s.lines, colors=theme.muted, linewidths=0.9, zorder=1))
    boxes = PatchCollection(s.boxes, facecolors=theme.paper, edgecolors=theme.muted, linewidths=0.8, zorder=2)
    ax.add_collection(boxes)
    colours = [colour for _, colour in s.edges]
    ax.add_collection(PatchCollection([p for p, _ in s.edges], facecolors=colours, linewidths=0, zorder=3))
    for points, marker in ((s.down, "v"), (s.right, ">")):
        ax.scatter([x for x, _ in points], [y for _, y in points], s=9, marker=marker, color=theme.muted, zorder=2.5)


def _column(ax: Axes, strokes: Strokes, column: Stack, x: float, style: Style) -> None:
    theme = style.colours
    ax.text(
        x,
        HEAD / 2,
        column.title,
        color=theme.ink,
        weight="bold",
        size=fitting(ax, column.title, 8.5, WIDE),
        va="center",
    )
    stream, middle = HEAD - GAP / 2, x + WIDE / 2
    places = [
        (x + max(0, box.lane - 1) * (WIDE + BESIDE), HEAD + row * (TALL + GAP))
        for box, row in zip(column.boxes, column.rows, strict=True)
    ]
    for a, b in column.edges:
        (x0, y0), (x1, y1) = places[a], places[b]
        start, end = (x0 + WIDE / 2, y0 + TALL), (x1 + WIDE / 2, y1)
        level = (start[1] if x1 > x0 else end[1] - GAP) + GAP / 2
        strokes.lines.append([start, (start[0], level), (end[0], level), end])
        strokes.down.append((end[0], end[1] - 0.025))
    for box, (left, y) in zip(column.boxes, places, strict=True):
        if box.adds:
            side, level = x - 0.2, y + TALL / 2
            strokes.lines.append([(middle, stream), (side, stream), (side, level), (x, level)])
            strokes.right.append((x - 0.025, level))
            stream = y + TALL + GAP / 2
        _box(ax, strokes, box, left, y, style)


def _box(ax: Axes, strokes: Strokes, box: Box, x: float, y: float, style: Style) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    theme = style.colours
    colour = theme.palette[GROUP_ORDER.index(box.group)] if box.group in GROUP_ORDER else theme.muted
    strokes.boxes.append(FancyBboxPatch((x, y), WIDE, TALL, boxstyle="round,pad=0,rounding_size=0.05"))
    strokes.edges.append((Rectangle((x, y), 0.07, TALL), colour))
    label = f"+ {box.label}" if box.adds else box.label
    for text, level, size, ink in ((label, 0.32, 7.5, theme.ink), (box.detail, 0.72, 6.5, theme.muted)):
        ax.text(
            x + 0.13, y + TALL * level, text, color=ink, size=fitting(ax, text, size, WIDE - 0.2), va="center", zorder=4
        )
