"""The log–log roofline: ceilings, slopes, and points at expected performance and at the speed of light."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import atan2, degrees, hypot, log10, sqrt
from typing import TYPE_CHECKING

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import ceil_div
from roofline.declared.numbers.units import brief
from roofline.views.plots import labels
from roofline.views.plots.data import MOST_NAMED, Ceiling, DrawnRoof, EnergyPlot, Panel, RooflinePlot, RooflinePoint
from roofline.views.plots.draw.canvas import MARGIN, axes, legend, log_axis, sheet, tick_boxes, ticks_in_view
from roofline.views.plots.style import Style, colours_of, marker_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis
    from matplotlib.figure import Figure

Range = tuple[float, float]
PANEL = (5.6, 4.4)
"""Inches of a single panel's axes; two share a row."""
LEGEND = 1.45
WIDEST = 12.0
"""Width in inches of a separate legend, unless one name is longer."""
ROOM = 1.8
"""Factor between the outermost point and the edge of the frame."""
HOLLOW = 4.0
FAR = 36
"""Largest distance in points between a ceiling and its label."""


def size_of(point: RooflinePoint) -> float:
    """Area of a mark in points², by its share of the step's time."""
    return 26.0 + 420.0 * point.share


def frame(plot: RooflinePlot) -> tuple[Range, Range]:
    """Ranges of the axes that just contain every point and ridge."""
    x = [p.intensity for panel in plot.panels for p in panel.points]
    y = [v for panel in plot.panels for p in panel.points for v in (p.performance, p.light)]
    for panel in plot.panels:
        x += [c.ridge for c in panel.roof.ceilings]
        y += [c.peak for c in panel.roof.ceilings]
    return (min(x) / ROOM, max(x) * ROOM), (min(y) / ROOM, max(y) * ROOM)


def breaks(plot: RooflinePlot) -> tuple[Range, ...]:
    """The x ranges of a broken axis: up to the last memory-bound point, and from the ridge on; one range if there is no
    gap."""
    whole = frame(plot)[0]
    ridges = [c.ridge for panel in plot.panels for c in panel.roof.ceilings if not c.vector]
    x = [p.intensity for panel in plot.panels for p in panel.points]
    below = [v for v in x if v < min(ridges)]
    if not below or len(below) == len(x):
        return (whole,)
    left, right = max(below) * ROOM, min(ridges) / 1.3
    return ((whole[0], left), (right, whole[1])) if left < right else ((whole[0], right), (right, whole[1]))


def draw_roofline(plot: RooflinePlot, style: Style) -> Figure:
    """One panel per chip on the same axes, with the other chips' roofs faint behind."""
    spans = breaks(plot) if style.broken else (frame(plot)[0],)
    across = 1 if len(plot.panels) == 1 else 2
    down = ceil_div(len(plot.panels), across)
    wide, high = PANEL if across == 1 else (4.6, 3.7)
    beside = LEGEND if style.legend == "beside" else 0.0
    left, gap, foot, head = 0.72, 0.62, 0.55, 0.3 if across > 1 else 0.1
    width = left + across * wide + (across - 1) * gap + beside + MARGIN + 0.1
    figure, top, bottom = sheet(style, width, down * (high + foot + head), plot.title, plot.note)
    for i, panel in enumerate(plot.panels):
        x = left + (i % across) * (wide + gap)
        y = bottom + foot + (down - 1 - i // across) * (high + foot + head)
        others = [p.roof for p in plot.panels if p is not panel]
        name = panel.roof.chip if across > 1 else ""
        _panel(figure, style, _Spot((x, y, wide, high), name, i % across == 0), plot, panel, others, spans)
    if beside:
        up = figure.get_size_inches()[1]
        legend(figure, style, entries(plot, style), width - beside - MARGIN + 0.1, up - top - head)
    return figure


@dataclass(frozen=True)
class _Spot:
    """Position of a panel: its box in inches, its title, and whether it is the first of its row."""

    box: tuple[float, float, float, float]
    name: str
    first: bool


def _panel(
    figure: Figure, style: Style, spot: _Spot, plot: RooflinePlot, panel: Panel, others: Sequence[DrawnRoof],
    spans: Sequence[Range],
) -> None:  # fmt: skip
    """Axes of a panel: one, or one for each part of a broken axis."""
    x, y, wide, high = spot.box
    decades = [max(0.5, log10(b / a)) for a, b in spans]
    gap = 0.14
    room = wide - gap * (len(spans) - 1)
    everything = frame(plot)[1]
    panels: list[Axes] = []
    for span, share in zip(spans, decades, strict=True):
        part = room * share / sum(decades)
        ax = axes(figure, style, x, y, part, high)
        x += part + gap
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(*span)
        ax.set_ylim(*everything)
        ax.tick_params(which="minor", length=1.5)
        log_axis(ax.xaxis)
        log_axis(ax.yaxis)
        if panels:
            ax.spines["left"].set_visible(False)
            ax.tick_params(axis="y", which="both", left=False, labelleft=False)
        panels.append(ax)
    for ax in panels:
        _fill(ax, style, plot, panel, others, last=ax is panels[-1], first=ax is panels[0])
    if len(panels) > 1:
        _ticks_apart(panels[0].xaxis, panels[1].xaxis)
        _slashes(panels[0], panels[1], style)
    if spot.first:
        panels[0].set_ylabel("Performance (FLOP/s)")
    middle = (panels[0].get_position().x0 + panels[-1].get_position().x1) / 2
    below = panels[0].get_position().y0 - 0.4 / figure.get_size_inches()[1]
    figure.text(
        middle, below, "Arithmetic intensity (FLOP/B)", ha="center", va="center", color=style.colours.ink, size=9
    )
    if spot.name:
        above = panels[0].get_position().y1 + 0.1 / figure.get_size_inches()[1]
        size = labels.fitting(panels[0], spot.name, 9, wide)
        left, ink = panels[0].get_position().x0, style.colours.ink
        figure.text(left, above, spot.name, ha="left", va="bottom", color=ink, size=size)


def _ticks_apart(left: XAxis, right: XAxis) -> None:
    """Remove the tick nearest to the gap of a broken axis if labels would overlap, from the part with more ticks."""
    from matplotlib.ticker import FixedLocator

    ends = tick_boxes(left)[-1:], tick_boxes(right)[:1]
    if not all(ends) or ends[0][0][1] <= ends[1][0][0]:
        return
    before, after = ticks_in_view(left), ticks_in_view(right)
    if len(before) > len(after):
        left.set_major_locator(FixedLocator(before[:-1]))
    else:
        right.set_major_locator(FixedLocator(after[1:]))


def _slashes(left: Axes, right: Axes, style: Style) -> None:
    """Break marks at the bottom of both parts of a broken axis."""
    for ax, end in ((left, 1), (right, 0)):
        ax.plot(
            [end], [0], transform=ax.transAxes, marker=[(-0.6, -1), (0.6, 1)], markersize=9, linestyle="none",
            color=style.colours.muted, mew=1, clip_on=False,
        )  # fmt: skip


def _fill(
    ax: Axes, style: Style, plot: RooflinePlot, panel: Panel, others: Sequence[DrawnRoof], *, last: bool, first: bool
) -> None:
    """Draw everything of a panel within these axes."""
    theme, span = style.colours, ax.get_xlim()
    taken = labels.Taken()
    for roof in others:
        for (xs, ys), _ in lines(replace(roof, slopes=roof.slopes[:1]), span):
            ax.plot(xs, ys, color=theme.grid, linewidth=1.0, zorder=1)
    for (xs, ys), style_of in lines(panel.roof, span):
        ax.plot(xs, ys, color=theme.ink if style_of == "-" else theme.muted, linewidth=1.3 if style_of == "-" else 0.9,
                linestyle=style_of, zorder=2)  # fmt: skip
        taken.lines += labels.along(ax, (xs[0], ys[0]), (xs[1], ys[1]))
    inside = [p for p in panel.points if span[0] <= p.intensity <= span[1]]
    draw_points(ax, style, [p for other in plot.panels for p in other.points], inside, taken)
    named = _name_roof(ax, style, panel.roof, taken, last, first) + point_labels(ax, style, inside)
    for label in labels.place(ax, named, taken, theme.paper):
        if label.needed:
            labels.write_labels(
                ax, label.x, label.y, label.text, label.colour, label.size, theme.paper, ha="right", va="bottom"
            )


def draw_points(
    ax: Axes, style: Style, every: Sequence[RooflinePoint], inside: Sequence[RooflinePoint], taken: labels.Taken
) -> None:
    """Draw the points that are inside the axes, with the colours and markers that `every` point has."""
    theme = style.colours
    colours, markers = colours_of((p.group for p in every), theme), marker_of(p.phase for p in every)
    for point, size in _rings(inside):
        colour, marker = colours[point.group], markers[point.phase]
        if point.light > point.performance * 1.001:
            ax.plot([point.intensity] * 2, [point.performance, point.light], color=colour, linewidth=0.7, zorder=3)
            ax.scatter([point.intensity], [point.light], s=HOLLOW**2, marker=marker, facecolor=theme.paper,
                       edgecolor=colour, linewidth=0.9, zorder=4)  # fmt: skip
            taken.lines += labels.along(ax, (point.intensity, point.performance), (point.intensity, point.light))
            taken.marks.append(labels.around_point(ax, point.intensity, point.light, HOLLOW / 2))
        ax.scatter([point.intensity], [point.performance], s=size, marker=marker, color=colour, edgecolor=theme.paper,
                   linewidth=0.6, zorder=5, alpha=0.92)  # fmt: skip
        taken.marks.append(labels.around_point(ax, point.intensity, point.performance, sqrt(size) / 2))


def point_labels(ax: Axes, style: Style, inside: Sequence[RooflinePoint]) -> list[labels.Label]:
    """Names of the points with the most time."""
    return [
        labels.Label(text, p.intensity, p.performance, style.colours.ink, clear=sqrt(size_of(p)) / 2)
        for p, text in _merged(ax, longest(inside))
    ]


def lines(roof: DrawnRoof, span: Range) -> list[tuple[tuple[tuple[float, float], tuple[float, float]], str]]:
    """Straight lines of a roof within a range of x, as ((x, x), (y, y)) with their line style."""
    segments: list[tuple[tuple[tuple[float, float], tuple[float, float]], str]] = []
    top = roof.ceilings[0]
    for slope in roof.slopes:
        start, end = span[0], min(span[1], top.peak / slope.bandwidth)
        if start < end:
            segments.append(
                (((start, end), (start * slope.bandwidth, end * slope.bandwidth)), ":" if slope.link else "-")
            )
    for ceiling in roof.levels:
        start = max(span[0], ceiling.ridge)
        if start < span[1]:
            segments.append((((start, span[1]), (ceiling.peak, ceiling.peak)), "--" if ceiling.vector else "-"))
    return segments


def _rings(points: Sequence[RooflinePoint]) -> list[tuple[RooflinePoint, float]]:
    """Points with their sizes, largest first; coinciding points become concentric rings, so that all are visible."""
    ordered = sorted(points, key=lambda p: (p.intensity, p.performance, p.light))
    sized: list[tuple[RooflinePoint, float]] = []
    for _, same in groupby(ordered, key=lambda p: (p.intensity, p.performance)):
        for i, point in enumerate(sorted(same, key=lambda p: p.share)):
            sized.append((point, size_of(point) * 2.2**i))
    return sorted(sized, key=lambda item: -item[1])


def longest(points: Sequence[RooflinePoint], most: int = MOST_NAMED) -> list[RooflinePoint]:
    """For each phase the points with the largest shares of its time, which are named."""
    rank: Counter[str] = Counter()
    named = []
    for point in sorted(points, key=lambda p: -p.share):
        rank[point.phase] += 1
        if rank[point.phase] <= most:
            named.append(point)
    return named


def _merged(ax: Axes, points: Sequence[RooflinePoint]) -> list[tuple[RooflinePoint, str]]:
    """One label for coinciding points, the largest share first."""
    figure = ax.figure
    scale = figure.dpi / 72
    groups: list[tuple[RooflinePoint, list[str]]] = []
    for point in sorted(points, key=lambda p: -p.share):
        place = ax.transData.transform((point.intensity, point.performance))
        for other, names in groups:
            there = ax.transData.transform((other.intensity, other.performance))
            close = max(7.0, 0.4 * (sqrt(size_of(point)) + sqrt(size_of(other)))) * scale
            if hypot(*(place - there)) < close:
                if point.label not in names:
                    names.append(point.label)
                break
        else:
            groups.append((point, [point.label]))
    return [(point, "\n".join(names)) for point, names in groups]


def _name_roof(
    ax: Axes, style: Style, roof: DrawnRoof, taken: labels.Taken, last: bool, first: bool
) -> list[labels.Label]:
    """Label peaks along ceilings, bandwidths along slopes, and ridge points at the bottom.

    Returns the peaks that do not fit at their ceilings.
    """
    theme, span, low = style.colours, ax.get_xlim(), ax.get_ylim()[0]
    figure = ax.figure
    scale = figure.dpi / 72
    for slope in roof.slopes if first else ():
        _name_slope(ax, style, slope.label, slope.bandwidth, roof.ceilings[0].peak, taken)
    named = [_name_ceiling(ax, style, c, taken) for c in roof.levels] if last else []
    for ceiling in roof.levels:
        if ceiling.vector or not span[0] <= ceiling.ridge <= span[1]:
            continue
        ax.plot([ceiling.ridge] * 2, [low, ceiling.peak], color=theme.muted, linewidth=0.7, linestyle=":", zorder=1.5)
        text = f"ridge {brief(ceiling.ridge)} FLOP/B"
        height, width = labels.extent(ax, text, 7.5)
        px, py = ax.transData.transform((ceiling.ridge, low))
        sides = (px - width - 1 * scale, px + 2 * scale)
        spots = [(side, py + up * scale) for up in range(5, 200, 15) for side in sides]
        box = _free(spots, (width, height), taken) or _box(spots[0], (width, height))
        _write(ax, style, text, box, taken, theme.muted, rotation=90)
        taken.lines += labels.along(ax, (ceiling.ridge, low), (ceiling.ridge, ceiling.peak), 1.0)
    return [label for label in named if label]


def _name_ceiling(ax: Axes, style: Style, ceiling: Ceiling, taken: labels.Taken) -> labels.Label | None:
    """Write a peak along its ceiling in one or two lines if there is room; otherwise return its label."""
    figure = ax.figure
    scale, right = figure.dpi / 72, ax.get_xlim()[1]
    px, py = ax.transData.transform((right, ceiling.peak))
    left = ax.transData.transform((max(ceiling.ridge, ax.get_xlim()[0]), ceiling.peak))[0]
    marks = [b for b in taken.marks if abs(b[1] - py) < 30 * scale]
    peak = brief(ceiling.peak, "FLOP/s")
    for text in (f"{ceiling.label} {peak}", f"{ceiling.label}\n{peak}"):
        width, height = size = labels.extent(ax, text, 7.5)
        backs = range(0, max(1, int((px - width - left) / scale)), 4)
        spots = [(px - width - back * scale, py + gap) for back in backs for gap in (3 * scale, -3 * scale - height)]
        ordered = sorted(spots, key=partial(_neighbours, marks, width, 6 * scale))
        away = [
            (px - width - back, py + side)
            for gap in range(3, FAR)
            for side in (gap * scale, -gap * scale - height)
            for back in (0, 20 * scale, 40 * scale)
        ]
        box = _free([*ordered, *away], size, taken)
        if box:
            _write(ax, style, text, box, taken, style.colours.ink)
            return None
    return labels.Label(f"{ceiling.label} {peak}", right, ceiling.peak, style.colours.ink, needed=True)


def _neighbours(marks: Sequence[labels.Rectangle], width: float, room: float, spot: tuple[float, float]) -> int:
    """Marks above or below a text of that width, whose labels it would displace."""
    return sum(spot[0] - room < b[2] and b[0] < spot[0] + width + room for b in marks)


def _box(spot: tuple[float, float], size: tuple[float, float]) -> labels.Rectangle:
    """Box of a size in pixels with its lower left at the spot."""
    return (spot[0], spot[1], spot[0] + size[0], spot[1] + size[1])


def _free(
    spots: Iterable[tuple[float, float]], size: tuple[float, float], taken: labels.Taken
) -> labels.Rectangle | None:
    """The first box at a spot that is free."""
    boxes = (_box(spot, size) for spot in spots)
    return next((b for b in boxes if not any(labels.overlap(b, other) for other in taken.all)), None)


def _write(
    ax: Axes, style: Style, text: str, box: labels.Rectangle, taken: labels.Taken, colour: str, **how: str | float
) -> None:
    """Write into a box given in pixels."""
    taken.texts.append(box)
    x, y = ax.transData.inverted().transform(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2))
    labels.write_labels(ax, x, y, text, colour, 7.5, style.colours.paper, **how)


def _name_slope(ax: Axes, style: Style, label: str, rate: float, peak: float, taken: labels.Taken) -> None:
    """Write the bandwidth along its line, above or below it within the axes; upright if the line is too short."""
    (x_low, x_high), (y_low, _) = ax.get_xlim(), ax.get_ylim()
    start, end = max(x_low, y_low / rate), min(x_high, peak / rate)
    if start >= end:
        return
    a, b = ax.transData.transform([(start, start * rate), (end, end * rate)])
    text = f"{label} {brief(rate, 'B/s')}"
    width, height = labels.extent(ax, text, 7.5)
    long = hypot(*(b - a))
    along = (b - a) / long
    up = along[::-1] * (-1, 1)
    half, frame = along * width / 2, ax.get_window_extent()
    corners = [sign * half + side * height / 2 * up for sign in (-1, 1) for side in (-1, 1)]
    steps = [along * (width / 2 + 22 + step * 10) for step in range(40) if width + 30 + step * 10 < long]
    above, below = ([a + step + side * 0.72 * height * up for step in steps] for side in (1, -1))
    above, below = (
        [at for at in places if all(frame.contains(*(at + corner)) for corner in corners)] for places in (above, below)
    )
    if not above and not below:
        lefts = (frame.x0 + (step + 0.5) * height / 2 for step in range(max(1, int(2 * frame.width / height) - 2)))
        spots = [(x, a[1] + (x + height - a[0]) * along[1] / along[0] + height / 2) for x in lefts]
        box = _free(spots, (height, width), taken) or _box(spots[0], (height, width))
        _write(ax, style, text, box, taken, style.colours.ink, rotation=90)
        return

    def covered(at: Array) -> list[labels.Rectangle]:
        return labels.straight(at - half, at + half, height / 3)

    free = (at for at in (*above, *below) if not any(labels.overlap(x, y) for x in covered(at) for y in taken.all))
    at = next(free, (above or below)[-1])
    taken.texts += covered(at)
    x, y = ax.transData.inverted().transform(at)
    labels.write_labels(ax, x, y, text, style.colours.ink, 7.5, style.colours.paper,
                 rotation=degrees(atan2(along[1], along[0])), rotation_mode="anchor")  # fmt: skip


# -- the legend ----------------------------------------------------------------------------------------------------
def entries(plot: RooflinePlot | EnergyPlot, style: Style) -> list[tuple[str, str, str]]:
    """Legend entries: colours of groups, markers of phases, and hollow marks."""
    points = [p for panel in plot.panels for p in panel.points]
    theme = style.colours
    colours, markers = colours_of((p.group for p in points), theme), marker_of(p.phase for p in points)
    entries = [(phase, marker, theme.ink) for phase, marker in markers.items()]
    if list(colours) == list(markers):
        entries = [(phase, marker, colours[phase]) for phase, marker in markers.items()]
    else:
        entries = [(group, "patch", colour) for group, colour in colours.items()] + entries
    if any(p.light > p.performance * 1.001 for p in points):
        entries += [("expected", "o", theme.muted), ("speed of light", "hollowo", theme.muted)]
    return [*entries, ("size: share of\nthe step's time", "", theme.muted)]


def draw_legend(plot: RooflinePlot, style: Style) -> Figure:
    """A picture with only the legend: every group in every phase that has it, in columns by phase if there is room."""
    points = [p for panel in plot.panels for p in panel.points]
    theme = style.colours
    colours, markers = colours_of((p.group for p in points), theme), marker_of(p.phase for p in points)
    pairs = sorted(
        {(p.group, p.phase) for p in points}, key=lambda k: (list(markers).index(k[1]), list(colours).index(k[0]))
    )
    sizes = [
        (f"{group} · {phase}" if group != phase else group, markers[phase], colours[group]) for group, phase in pairs
    ]
    if any(p.light > p.performance * 1.001 for p in points):
        sizes.append(("speed of light", "hollowo", theme.muted))
    columns = len(markers) if len(pairs) > 6 else 1
    width, height = _legend_size(style, sizes, columns)
    while width > WIDEST and columns > 1:
        columns = min(columns - 1, max(1, int(columns * WIDEST / width)))
        width, height = _legend_size(style, sizes, columns)
    figure, _, bottom = sheet(style, width, height)
    legend(figure, style, sizes, MARGIN, bottom + height, ncols=columns)
    return figure


def _legend_size(style: Style, entries: Sequence[tuple[str, str, str]], columns: int) -> tuple[float, float]:
    """Width with margins and height in inches of a separate legend with this many columns."""
    figure, _, _ = sheet(style, WIDEST, WIDEST)
    box = legend(figure, style, entries, 0.0, WIDEST, ncols=columns).get_window_extent()
    return box.width / style.dpi + 2 * MARGIN, box.height / style.dpi
