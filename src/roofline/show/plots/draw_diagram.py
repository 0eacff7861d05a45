"""A model as boxes: from embedding to head, and beside it the modules of each kind of layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.show.plots.canvas import MARGIN, axes, sheet
from roofline.show.plots.data import Box, DiagramPlot, Stack
from roofline.show.plots.labels import extent
from roofline.show.plots.style import GROUP_ORDER, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE, TALL, GAP, BETWEEN, HEAD = 2.15, 0.34, 0.12, 0.55, 0.34
"""Inches: of a box, between two, between columns, of a column's title."""
WIDEST = 0.7
"""Width of a character over the size of its font, at most on average."""


def draw(plot: DiagramPlot, style: Style) -> Figure:
    """The model's column on the left, one for each kind of layer to its right."""
    columns = (plot.model, *plot.layers)
    high = HEAD + max(len(c.boxes) for c in columns) * (TALL + GAP)
    width = len(columns) * (WIDE + BETWEEN) + 0.05 + 2 * MARGIN
    _, top, bottom = sheet(style, width, 1.0, plot.title, plot.note)
    figure, _, bottom = sheet(style, width, top + bottom + high + 0.1, plot.title, plot.note)
    ax = axes(figure, style, MARGIN, bottom, width - 2 * MARGIN, high)
    ax.set_xlim(0, width - 2 * MARGIN)
    ax.set_ylim(high, 0)
    ax.axis("off")
    for i, column in enumerate(columns):
        _column(ax, column, i * (WIDE + BETWEEN) + BETWEEN, style)
    return figure


def _column(ax: Any, column: Stack, x: float, style: Style) -> None:
    theme = style.colours
    ax.text(
        x, HEAD / 2, column.title, color=theme.ink, weight="bold", size=_fitting(ax, column.title, 8.5), va="center"
    )
    stream = HEAD - GAP / 2
    for i, box in enumerate(column.boxes):
        y = HEAD + i * (TALL + GAP)
        if i:
            ax.annotate("", (x + WIDE / 2, y), (x + WIDE / 2, y - GAP), arrowprops=_arrow(theme.muted))
        if box.adds:
            side, middle = x - 0.2, y + TALL / 2
            ax.plot([x + WIDE / 2, side, side], [stream, stream, middle], color=theme.muted, linewidth=0.9, zorder=1)
            ax.annotate("", (x, middle), (side, middle), arrowprops=_arrow(theme.muted))
            stream = y + TALL + GAP / 2
        _draw_box(ax, box, x, y, style)


def _draw_box(ax: Any, box: Box, x: float, y: float, style: Style) -> None:
    from matplotlib.patches import FancyBboxPatch

    theme = style.colours
    colour = theme.palette[GROUP_ORDER.index(box.group)] if box.group in GROUP_ORDER else theme.muted
    ax.add_patch(
        FancyBboxPatch((x, y), WIDE, TALL, boxstyle="round,pad=0,rounding_size=0.05", facecolor=theme.paper,
                       edgecolor=theme.muted, linewidth=0.8, zorder=2)
    )  # fmt: skip
    ax.add_patch(FancyBboxPatch((x, y), 0.07, TALL, boxstyle="square,pad=0", color=colour, linewidth=0, zorder=3))
    label = f"+ {box.label}" if box.adds else box.label
    ax.text(x + 0.13, y + TALL * 0.32, label, color=theme.ink, size=_fitting(ax, label, 7.5), va="center", zorder=4)
    ax.text(x + 0.13, y + TALL * 0.72, box.detail, color=theme.muted, size=_fitting(ax, box.detail, 6.5), va="center",
            zorder=4)  # fmt: skip


def _fitting(ax: Any, text: str, size: float) -> float:
    """The size of a text, smaller where it would leave its box."""
    if len(text) * size * WIDEST / 72 <= WIDE - 0.2:
        return size
    wide = extent(ax, text, size)[0] / ax.figure.dpi
    return size if wide <= WIDE - 0.2 else max(3.5, 0.94 * size * (WIDE - 0.2) / wide)


def _arrow(colour: str) -> dict[str, Any]:
    return {"arrowstyle": "-|>", "color": colour, "linewidth": 0.8, "mutation_scale": 6, "shrinkA": 0, "shrinkB": 0}
