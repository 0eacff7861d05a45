"""Bars for shares, parameters and quantities by operation, and stacked memory over context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.declared.numbers.units import brief, tokens_text
from roofline.views.plots.data import BarsPlot, MemoryPlot, ParametersPlot, SharesPlot
from roofline.views.plots.draw.canvas import MARGIN, axes, context_ticks, folded, legend, log_axis, sheet
from roofline.views.plots.labels import Rectangle, extent, overlap, write_labels
from roofline.views.plots.style import Style, colours_of, hatches_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND = 1.5
ROW = 0.34
"""Inches of a bar with its spacing."""
INSIDE = 75
"""Share in percent from which a bar holds its own label."""
SEEN = 0.0005
"""Smallest share that is drawn."""


def on_colour(colour: str) -> str:
    """Black or white, whichever has more contrast with a colour (WCAG 2.2, relative luminance)."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "#ffffff"


def draw_shares(plot: SharesPlot, style: Style) -> Figure:
    """A stacked bar for each quantity of each phase; shares are labelled if there is room."""
    theme = style.colours
    phases = list(dict.fromkeys(b.phase for b in plot.bars))
    beside = LEGEND if style.legend == "beside" else 0.0
    left, wide = 0.5 + 0.075 * max(len(b.quantity) for b in plot.bars), 5.4
    width = left + wide + beside + 2 * MARGIN
    high = len(plot.bars) * ROW + len(phases) * 0.34
    figure, top, bottom = sheet(style, width, high + 0.5, plot.title, plot.note)
    ax = axes(figure, style, left, bottom + 0.38, wide, high)
    groups = list(dict.fromkeys(g for b in plot.bars for g, value in b.parts if value >= SEEN))
    colours, hatches = colours_of(groups, theme), hatches_of(groups)
    ax.set_xlim(0, 100)
    place, ticks = 0.0, []
    for phase in phases:
        ax.text(0, place + 0.1, phase, color=theme.ink, weight="bold", size=9, va="center", ha="left")
        place += 0.85
        for bar in (b for b in plot.bars if b.phase == phase):
            ticks.append((place, bar.quantity))
            start = 0.0
            for group, value in bar.parts:
                if value < SEEN:
                    continue
                percent = 100 * value
                ax.barh(place, percent, left=start, height=0.78, color=colours[group], edgecolor=theme.paper,
                        linewidth=0.8, hatch=hatches[group], zorder=2)  # fmt: skip
                text = f"{percent:.0f} %" if percent >= 1 else ""
                if text and extent(ax, text, 7.5)[0] < percent / 100 * wide * style.dpi * 0.9:
                    ax.text(start + percent / 2, place, text, ha="center", va="center", size=7.5,
                            color=on_colour(colours[group]), zorder=3,
                            bbox={"facecolor": colours[group], "edgecolor": "none", "pad": 1.0})  # fmt: skip
                start += percent
            place += 1.0
    ax.set_ylim(place - 0.4, -0.4)
    ax.set_yticks([p for p, _ in ticks], [name for _, name in ticks])
    ax.tick_params(axis="y", length=0, labelcolor=theme.ink)
    ax.spines["left"].set_visible(False)
    ax.grid(False, axis="y")
    ax.set_xlabel("share (%)")
    if beside:
        entries = [(g, "patch", colours[g]) for g in groups]
        drawn = legend(figure, style, entries, left + wide + 0.2, figure.get_size_inches()[1] - top)
        for handle, group in zip(drawn.legend_handles, groups, strict=True):
            handle.set(hatch=hatches[group], edgecolor=theme.paper)
    return figure


def draw_parameters(plot: ParametersPlot, style: Style) -> Figure:
    """A bar for each part, largest first, with its count and share."""
    theme = style.colours
    left, wide = 1.5, 4.4
    width, high = left + wide + 1.3, len(plot.parts) * ROW
    figure, _, bottom = sheet(style, width, high + 0.5, plot.title, plot.note)
    ax = axes(figure, style, left, bottom + 0.38, wide, high)
    values = [100 * share for _, _, share in plot.parts]
    ax.barh(range(len(values)), values, height=0.72, color=theme.palette[0], zorder=2)
    for i, (_, count, share) in enumerate(plot.parts):
        text, bar = f"{tokens_text(count)} · {100 * share:.3g} %", theme.palette[0]
        if values[i] < INSIDE:
            write_labels(ax, values[i] + 1, i, text, theme.ink, 8, theme.paper, ha="left")
        else:
            write_labels(ax, values[i] - 1, i, text, on_colour(bar), 8, bar, ha="right")
    ax.set_yticks(range(len(values)), [name for name, _, _ in plot.parts])
    ax.tick_params(axis="y", length=0, labelcolor=theme.ink)
    ax.set_ylim(len(values) - 0.45, -0.55)
    ax.set_xlim(0, 100)
    ax.grid(False, axis="y")
    ax.set_xlabel("share of the parameters (%)")
    return figure


def draw_memory(plot: MemoryPlot, style: Style) -> Figure:
    """Terms stacked over the context, with a line for each chip's memory and a mark where it is full."""
    theme, gigabyte = style.colours, 1e9
    left, wide, high = 0.8, 5.4, 3.9
    beside = 2.4 if style.legend == "beside" else 0.0
    width = left + wide + beside + 2 * MARGIN
    figure, top, bottom = sheet(style, width, high + 0.6, plot.title, plot.note)
    ax = axes(figure, style, left, bottom + 0.5, wide, high)
    names = [name for name, _ in plot.terms]
    colours, hatches = colours_of(names, theme), hatches_of(names)
    stacks = [[v / gigabyte for v in values] for _, values in plot.terms]
    drawn = ax.stackplot(plot.context, stacks, colors=[colours[n] for n in names], edgecolor=theme.paper, linewidth=0.6)
    for area, name in zip(drawn, names, strict=True):
        area.set_hatch(hatches[name])
        area.set_zorder(1.5)
    total = max(sum(stack[i] for stack in stacks) for i in range(len(plot.context)))
    ax.set_ylim(0, 1.12 * max([total, *(c.bytes / gigabyte for c in plot.capacities)]))
    context_ticks(ax, plot.context[0], plot.context[-1])
    taken: list[Rectangle] = []
    for c in plot.levels:
        height = c.bytes / gigabyte
        ax.axhline(height, color=theme.ink, linewidth=1.1, linestyle="--", zorder=3)
        text = brief(c.bytes, "B") if beside else f"{c.chip} · {brief(c.bytes, 'B')} · {c.says}"
        _name_line(ax, height, "\n".join(folded(figure, text, 0.95 * wide, len(text), size=7.5)), taken, style)
        if c.longest:
            ax.plot([c.longest] * 2, [0, height], color=theme.ink, linewidth=0.9, linestyle=":", zorder=3)
            ax.scatter([c.longest], [height], s=34, color=theme.ink, edgecolor=theme.paper, zorder=4)
    ax.set_xlabel("Context (tokens)")
    ax.set_ylabel("Memory (GB)")
    if beside:
        entries = [(n, "patch", colours[n]) for n in reversed(names)]
        for c in plot.levels:
            text = f"{brief(c.bytes, 'B')}: {c.chip}, {c.says}"
            entries.append(("\n".join(folded(figure, text, beside - 0.5, len(text), size=8)), "line", theme.ink))
        drawn = legend(figure, style, entries, left + wide + 0.2, figure.get_size_inches()[1] - top)
        for handle in drawn.legend_handles[len(names) :]:
            handle.set(linestyle="--", linewidth=1.1)
        for handle, name in zip(drawn.legend_handles, reversed(names), strict=False):
            handle.set(hatch=hatches[name], edgecolor=theme.paper)
    return figure


def _name_line(ax: Axes, level: float, text: str, taken: list[Rectangle], style: Style) -> None:
    """Label a level line at its left or right end, above, below or further up, where there is room."""
    from matplotlib.patheffects import withStroke

    theme, frame, scale = style.colours, ax.get_window_extent(), ax.figure.dpi / 72
    across, up = extent(ax, text, 7.5)
    y = ax.transData.transform((ax.get_xlim()[0], level))[1]
    spots = [
        (share, lift, (left, y + lift * scale, left + across, y + lift * scale + up))
        for lift in (3.0, -3.0 - up / scale, *range(6, 150, 3))
        for share, left in ((0.015, frame.x0), (0.985, frame.x1 - across))
    ]
    share, lift, box = next((s for s in spots if not any(overlap(s[2], other) for other in taken)), spots[0])
    taken.append(box)
    ax.annotate(text, (share, level), xycoords=("axes fraction", "data"), xytext=(0, lift + 1),
                textcoords="offset points", ha="left" if share < 0.5 else "right", va="bottom", size=7.5,
                color=theme.ink, zorder=6, multialignment="left",
                path_effects=[withStroke(linewidth=3, foreground=theme.paper)])  # fmt: skip


def draw_bars(plot: BarsPlot, style: Style) -> Figure:
    """A panel for each quantity with bars by phase and operation, on logarithmic axes."""
    theme = style.colours
    left, each, gap = 0.35 + 0.078 * max(len(o) for o in plot.operations), 2.35, 0.25
    beside = 1.2 if style.legend == "beside" else 0.0
    width = left + len(plot.panels) * (each + gap) + beside
    high = len(plot.operations) * (0.12 * len(plot.phases) + 0.12)
    figure, top, bottom = sheet(style, width, high + 0.55, plot.title, plot.note)
    thick = 0.8 / len(plot.phases)
    for i, panel in enumerate(plot.panels):
        ax = axes(figure, style, left + i * (each + gap), bottom + 0.5, each, high)
        ax.set_xscale("log")
        known = [v for row in panel.values for v in row if v]
        ax.set_xlim(min(known) / 2, max(known) * 2)
        log_axis(ax.xaxis, most=5)
        for j, row in enumerate(panel.values):
            places = [k + (j - (len(plot.phases) - 1) / 2) * thick for k in range(len(row))]
            ax.barh(places, [v or 0 for v in row], height=thick * 0.92, color=theme.palette[j], zorder=2)
        ax.set_yticks(range(len(plot.operations)), plot.operations if i == 0 else [""] * len(plot.operations))
        ax.tick_params(axis="y", length=0, labelcolor=theme.ink)
        ax.set_ylim(len(plot.operations) - 0.5, -0.5)
        ax.grid(False, axis="y")
        ax.set_xlabel(f"{panel.label} ({panel.unit})" if panel.unit else panel.label)
    if beside:
        entries = [(phase, "patch", theme.palette[j]) for j, phase in enumerate(plot.phases)]
        legend(figure, style, entries, width - beside, figure.get_size_inches()[1] - top)
    return figure
