"""What every Matplotlib picture shares: the sheet, its title and note, axes in the theme, the legend, the file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from roofline.show.plots.style import Style
from roofline.show.units import binary, brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT = {
    "font.family": "DejaVu Sans", "font.size": 9.0, "svg.fonttype": "path", "svg.hashsalt": "roofline",
    "pdf.fonttype": 42, "axes.unicode_minus": True, "hatch.linewidth": 0.6,
}  # fmt: skip
MARGIN = 0.12
"""Inches between the paper's edge and what is printed."""
METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
    ".png": {"Software": None},
}
"""No dates, so that the same picture is the same file."""


@contextmanager
def settings(letters: bool = False) -> Iterator[None]:
    """Our own fonts and sizes whatever the user's Matplotlib is set to; without a window in any case.

    `letters`: text of an SVG stays text, in the reader's font, instead of shapes.
    """
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast(Any, {**FONT, "svg.fonttype": "none"} if letters else FONT))
        yield


def sheet(style: Style, width: float, height: float, title: str = "", note: str = "") -> tuple[Figure, float, float]:
    """A figure of inches with its title and note, and the inches that they take at the top and at the bottom."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = style.colours
    figure = Figure(figsize=(width, height), dpi=style.dpi, facecolor=colours.paper)
    FigureCanvasAgg(figure)
    top, bottom = MARGIN, MARGIN
    if title:
        figure.text(MARGIN / width, 1 - MARGIN / height, title, ha="left", va="top", color=colours.ink, size=11,
                    weight="bold")  # fmt: skip
        top += 0.28
    if note:
        lines = textwrap.wrap(note, max(30, int((width - 2 * MARGIN) * 17.5)))
        figure.text(MARGIN / width, MARGIN / height, "\n".join(lines), ha="left", va="bottom", color=colours.muted,
                    size=7, linespacing=1.3)  # fmt: skip
        bottom += 0.145 * len(lines) + 0.06
    return figure, top, bottom


def axes(figure: Figure, style: Style, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place in inches, in the theme's colours."""
    across, up = figure.get_size_inches()
    ax = figure.add_axes((left / across, bottom / up, width / across, height / up))
    return themed(ax, style)


def themed(ax: Axes, style: Style) -> Axes:
    """The theme on axes: no box, a faint grid behind."""
    colours = style.colours
    ax.set_facecolor(colours.paper)
    ax.set_axisbelow(True)
    ax.grid(True, which="major", color=colours.grid, linewidth=0.7)
    ax.tick_params(which="both", colors=colours.muted, labelsize=8, length=3, width=0.7)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(colours.muted)
        spine.set_linewidth(0.7)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(colours.ink)
        axis.label.set_fontsize(9)
    return ax


def log_axis(axis: Any, unit: str = "", most: int = 40) -> None:
    """A logarithmic axis with plain figures at its decades, and between them where it is short."""
    from math import log10

    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.axes.get_xlim() if axis.axis_name == "x" else axis.axes.get_ylim()
    decades = log10(high / low)
    parts = (1.0,) if decades > 2.2 else (1.0, 2.0, 5.0) if decades > 0.8 else tuple(map(float, range(1, 10)))
    axis.set_major_locator(LogLocator(subs=parts, numticks=most))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}" if not unit and 1e-3 <= v < 1 else brief(v, unit)))
    axis.set_minor_formatter(NullFormatter())


def power_ticks(ax: Axes, low: int, high: int) -> None:
    """An x axis of whole numbers, with ticks at powers of two."""
    from matplotlib.ticker import NullLocator

    powers = [2**k for k in range(41) if low <= 2**k <= high + 1]
    powers = powers[:: 2 if len(powers) > 11 else 1]
    ax.set_xscale("log", base=2)
    ax.set_xlim(low, max(high, low * 2, *powers[-1:]))
    ax.set_xticks(powers, [binary(p) for p in powers])
    ax.xaxis.set_minor_locator(NullLocator())


def handles(style: Style, entries: Sequence[tuple[str, str, str]]) -> list[Any]:
    """Legend marks: (label, marker or `patch` or `line` or `hollow…`, colour)."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    made: list[Any] = []
    for label, mark, colour in entries:
        if mark == "patch":
            made.append(Patch(facecolor=colour, edgecolor="none", label=label))
        elif mark == "line":
            made.append(Line2D([], [], color=colour, linewidth=1.6, label=label))
        elif mark.startswith("hollow"):
            made.append(Line2D([], [], color=colour, marker=mark.removeprefix("hollow"), markersize=5, linestyle="none",
                               markerfacecolor=style.colours.paper, markeredgewidth=0.9, label=label))  # fmt: skip
        else:
            made.append(Line2D([], [], color=colour, marker=mark, markersize=6, linestyle="none", label=label))
    return made


def legend(
    figure: Figure, style: Style, entries: Sequence[tuple[str, str, str]], x: float, y: float, **place: Any
) -> Any:
    """A legend at a place in inches from the lower left."""
    across, up = figure.get_size_inches()
    options = {
        "loc": "upper left", "frameon": False, "labelcolor": style.colours.ink, "fontsize": 8, "borderaxespad": 0.0,
        "handletextpad": 0.5, "handlelength": 1.3, "labelspacing": 0.5, **place,
    }  # fmt: skip
    return figure.legend(handles=handles(style, entries), bbox_to_anchor=(x / across, y / up), **options)


def save(figure: Figure, path: Path, style: Style) -> None:
    """PNG, SVG or PDF by the file's ending."""
    figure.savefig(path, dpi=style.dpi, facecolor=figure.get_facecolor(), metadata=METADATA[path.suffix.lower()])
