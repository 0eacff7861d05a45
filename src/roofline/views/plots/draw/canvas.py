"""Shared parts of the Matplotlib pictures: sheet, title and note, themed axes, legend, file."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import isclose, log10
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from roofline.declared.numbers.units import binary, brief
from roofline.views.plots.labels import extent, text_box
from roofline.views.plots.style import Style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure
    from matplotlib.typing import ColorType

FONT = {
    "font.family": "DejaVu Sans", "font.size": 9.0, "svg.fonttype": "path", "svg.hashsalt": "roofline",
    "pdf.fonttype": 42, "axes.unicode_minus": True, "hatch.linewidth": 0.6, "text.parse_math": False,
}  # fmt: skip
MARGIN = 0.12
"""Inches between the paper's edge and its content."""
TICK = 8
"""Font size of tick labels in points."""
MOST_TICKS = 8
"""Largest number of ticks of a linear axis of tokens."""
METADATA: dict[str, dict[str, None]] = {
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
    ".png": {"Software": None},
}
"""No dates, so that equal pictures are equal files."""


class _Drawing:
    """Lock of the drawing thread; a process forked during drawing may draw too."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.lock = RLock()


_drawing = _Drawing()


@contextmanager
def settings(letters: bool = False) -> Iterator[None]:
    """Matplotlib settings for drawing: our fonts and sizes, no window, independent of the user's configuration.

    `letters`: text of an SVG stays text in the reader's font instead of shapes. Matplotlib has one set of settings for
    all threads, so that only one draws at a time.
    """
    import matplotlib

    with _drawing.lock, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast(Any, {**FONT, "svg.fonttype": "none"} if letters else FONT))
        yield


def sheet(style: Style, width: float, high: float, title: str = "", note: str = "") -> tuple[Figure, float, float]:
    """A figure of `width` inches with title, `high` inches of drawing, and note. Returns it with the inches above and
    below the drawing.

    Title and note are wrapped at the paper's width.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours, room = style.colours, width - 2 * MARGIN
    figure = Figure(figsize=(width, 1.0), dpi=style.dpi, facecolor=colours.paper)
    FigureCanvasAgg(figure)
    heading = folded(figure, title, room, len(title), size=11, weight="bold")
    lines = folded(figure, note, room, max(30, int(room * 17.5)), size=7)
    top = MARGIN + (0.28 + 0.19 * (len(heading) - 1) if heading else 0.0)
    bottom = MARGIN + (0.145 * len(lines) + 0.06 if lines else 0.0)
    height = top + bottom + high
    figure.set_size_inches(width, height)
    left, low = MARGIN / width, MARGIN / height
    figure.text(left, 1 - low, "\n".join(heading), va="top", color=colours.ink, size=11, weight="bold")
    figure.text(left, low, "\n".join(lines), va="bottom", color=colours.muted, size=7, linespacing=1.3)
    return figure, top, bottom


def folded(figure: Figure, text: str, room: float, most: int, size: float, weight: str = "normal") -> list[str]:
    """Lines of a text, each within `room` inches and a number of characters."""
    while text:
        lines = textwrap.wrap(text, most, break_on_hyphens=False)
        widest = max(text_box(figure, line, size, weight).width / figure.dpi for line in lines)
        if widest <= room or most == 1:
            return lines
        most = min(most - 1, max(1, int(most * room / widest)))
    return []


def axes(figure: Figure, style: Style, left: float, bottom: float, width: float, height: float) -> Axes:
    """Themed axes at a position in inches."""
    across, up = figure.get_size_inches()
    ax = figure.add_axes((left / across, bottom / up, width / across, height / up))
    return themed(ax, style)


def themed(ax: Axes, style: Style) -> Axes:
    """Apply the theme to axes: no frame, a faint grid."""
    colours = style.colours
    ax.set_facecolor(colours.paper)
    ax.set_axisbelow(True)
    ax.grid(True, which="major", color=colours.grid, linewidth=0.7)
    ax.tick_params(which="both", colors=colours.muted, labelsize=TICK, length=3, width=0.7)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(colours.muted)
        spine.set_linewidth(0.7)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(colours.ink)
        axis.label.set_fontsize(9)
    return ax


PARTS = (tuple(map(float, range(1, 10))), (1.0, 2.0, 3.0, 5.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Ticks within a decade, from many to few."""


def log_axis(axis: XAxis | YAxis, unit: str = "", most: int = 40) -> None:
    """A logarithmic axis with plain numbers at decades and, on a short axis, between them, as many as fit.

    The axes must already have their position and limits.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}" if not unit and 1e-3 <= v < 1 else brief(v, unit)))
    axis.set_minor_formatter(NullFormatter())
    low, high = view(axis)
    decades = log10(high / low)
    first = 4 if decades > 2.2 else 2 if decades > 0.8 else 0
    tries = [(parts, most) for parts in PARTS[first:]] + [(PARTS[-1], most // k) for k in (2, 4, 8) if most // k > 1]
    for parts, count in tries:
        axis.set_major_locator(LogLocator(subs=parts, numticks=count))
        if _legible(axis):
            return
    for count in range(9, 1, -1):
        axis.set_major_locator(MaxNLocator(count, steps=[1, 2, 5, 10]))
        if len(ticks_in_view(axis)) > 1 and _legible(axis):
            return
    ticks = [v for v in LogLocator(subs=PARTS[0]).tick_values(low, high) if low <= v <= high]
    axis.set_major_locator(FixedLocator(ticks[len(ticks) // 2 :][:1]))


def _legible(axis: XAxis | YAxis) -> bool:
    """Whether tick labels do not overlap and show each tick's value in three digits."""
    boxes, ticks = tick_boxes(axis), ticks_in_view(axis)
    return (
        bool(boxes)
        and all(a[1] <= b[0] for a, b in pairwise(boxes))
        and all(isclose(v, float(f"{v:.3g}"), rel_tol=1e-9) for v in ticks)
    )


def view(axis: XAxis | YAxis) -> tuple[float, float]:
    """Limits of an axis."""
    low, high = axis.axes.get_xlim() if axis.axis_name == "x" else axis.axes.get_ylim()
    return float(low), float(high)


def ticks_in_view(axis: XAxis | YAxis) -> list[float]:
    """Positions of the major ticks."""
    low, high = view(axis)
    return [float(v) for v in axis.get_majorticklocs() if low <= v <= high]


def tick_boxes(axis: XAxis | YAxis) -> list[tuple[float, float]]:
    """Extents of the major tick labels along a logarithmic axis, in pixels."""
    low, high = view(axis)
    frame, across = axis.axes.get_window_extent(), axis.axis_name == "x"
    start, long = (frame.x0, frame.width) if across else (frame.y0, frame.height)
    numbers = []
    for value in ticks_in_view(axis):
        middle = start + long * log10(value / low) / log10(high / low)
        room = extent(axis.axes, axis.get_major_formatter()(value, 0), TICK)[0 if across else 1] / 2
        numbers.append((middle - room, middle + room))
    return numbers


def powers_of_two(low: int, high: int) -> list[int]:
    """Ticks of an axis of whole numbers: every power of two, or every other one if there are many."""
    powers = [2**k for k in range(41) if low <= 2**k <= high + 1]
    return powers[:: 2 if len(powers) > 11 else 1]


def even_ticks(low: int, high: int) -> list[int]:
    """The ticks of a linear axis of tokens: multiples of a power of two, from four to eight of them where it is long.

    >>> even_ticks(256, 131071)
    [16384, 32768, 49152, 65536, 81920, 98304, 114688, 131072]
    """
    step = 1
    while (high + 1) // step > MOST_TICKS:
        step *= 2
    return [k for k in range(step, high + 2, step) if k >= low]


def context_ticks(ax: Axes, low: int, high: int) -> None:
    """A linear x axis of tokens."""
    ticks = even_ticks(low, high)
    ax.set_xlim(low, max(high, low + 1, *ticks[-1:]))
    ax.set_xticks(ticks, [binary(t) for t in ticks])


def power_ticks(ax: Axes, low: int, high: int) -> None:
    """An x axis of whole numbers, with ticks at powers of two."""
    from matplotlib.ticker import NullLocator

    powers = powers_of_two(low, high)
    ax.set_xscale("log", base=2)
    ax.set_xlim(low, max(high, low * 2, *powers[-1:]))
    ax.set_xticks(powers, [binary(p) for p in powers])
    ax.xaxis.set_minor_locator(NullLocator())


def handles(style: Style, entries: Sequence[tuple[str, str, ColorType]]) -> list[Artist]:
    """Legend handles: (label, marker or `patch` or `line` or `hollow…`, colour)."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = []
    for label, mark, colour in entries:
        if mark == "patch":
            handles.append(Patch(facecolor=colour, edgecolor="none", label=label))
        elif mark == "line":
            handles.append(Line2D([], [], color=colour, linewidth=1.6, label=label))
        elif mark.startswith("hollow"):
            handles.append(Line2D(
                [], [], color=colour, label=label, marker=mark.removeprefix("hollow"), linestyle="none",
                markerfacecolor=style.colours.paper, markersize=5, markeredgewidth=0.9,
            ))  # fmt: skip
        else:
            handles.append(Line2D([], [], color=colour, marker=mark, markersize=6, linestyle="none", label=label))
    return handles


def legend(
    figure: Figure, style: Style, entries: Sequence[tuple[str, str, ColorType]], x: float, y: float, **place: Any
) -> Any:
    """A legend at a position in inches from the lower left."""
    across, up = figure.get_size_inches()
    options = {
        "loc": "upper left", "frameon": False, "labelcolor": style.colours.ink, "fontsize": 8, "borderaxespad": 0.0,
        "handletextpad": 0.5, "handlelength": 1.3, "labelspacing": 0.5, **place,
    }  # fmt: skip
    return figure.legend(handles=handles(style, entries), bbox_to_anchor=(x / across, y / up), **options)


def save(figure: Figure, path: Path, style: Style) -> None:
    """Save as PNG, SVG or PDF, by the file's ending."""
    figure.savefig(path, dpi=style.dpi, facecolor=figure.get_facecolor(), metadata=METADATA[path.suffix.lower()])


def svg(figure: Figure, style: Style) -> str:
    """The SVG text of a figure."""
    text = io.StringIO()
    figure.savefig(text, format="svg", facecolor=figure.get_facecolor(), metadata=METADATA[".svg"])
    return text.getvalue()
