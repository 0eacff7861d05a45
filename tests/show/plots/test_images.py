"""What is drawn: equal to the pictures that were looked at, in both themes; no text on another or off the paper."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from roofline.explore.marks import GROUPS
from roofline.show.plots import canvas
from roofline.show.plots.draw_roofline import breaks, draw_legend, frame
from roofline.show.plots.style import DARK, GROUP_ORDER, LIGHT, Style, Theme
from roofline.show.plots.write import renderers, write
from show_plots_pictures import PICTURES

BASELINE = Path(__file__).with_name("baseline")
DRAWN_BY = "3.11"
"""The Matplotlib that drew the baseline; another sets its text a little differently."""
TOLERANCE = 1.0 if matplotlib.__version__.startswith(DRAWN_BY) else 25.0
"""Root mean square difference of the pixels, of 255."""
STYLES = {"light": Style(dpi=50), "dark": Style(theme="dark", dpi=50)}
COMPARED = ("roofline", "roofline-fp8", "shares", "sweep", "memory", "parameters", "map", "bars", "tornado", "diagram")


def difference(one: Path, other: Path) -> float:
    a, b = (255 * imread(p)[..., :3] for p in (one, other))
    assert a.shape == b.shape
    return float(np.sqrt(np.mean((a - b) ** 2)))


@pytest.mark.parametrize("theme", STYLES)
@pytest.mark.parametrize("name", COMPARED)
def test_pictures_are_as_they_were_looked_at(name: str, theme: str, tmp_path: Path) -> None:
    (drawn,) = write(PICTURES[name](), tmp_path / "new.png", STYLES[theme])
    assert difference(drawn, BASELINE / f"{name}-{theme}.png") < TOLERANCE


def test_a_broken_axis_and_a_legend_of_its_own(tmp_path: Path) -> None:
    style = Style(theme="dark", dpi=50, broken=True, legend="separate")
    drawn = write(PICTURES["roofline"](), tmp_path / "roof.png", style)
    assert [p.name for p in drawn] == ["roof.png", "roof_legend.png"]
    for path, name in zip(drawn, ("broken-dark.png", "broken-dark_legend.png"), strict=True):
        assert difference(path, BASELINE / name) < TOLERANCE


def test_the_comparison_sees_a_missing_point(tmp_path: Path) -> None:
    from dataclasses import replace

    plot = PICTURES["roofline-phases"]()
    (panel,) = plot.panels  # type: ignore[union-attr]
    fewer = replace(plot, panels=(replace(panel, points=panel.points[:1]),))
    (a,) = write(plot, tmp_path / "a.png", Style(dpi=50))
    (b,) = write(fewer, tmp_path / "b.png", Style(dpi=50))
    assert imread(a).shape != imread(b).shape or difference(a, b) > 1.0


# -- nothing on anything else --------------------------------------------------------------------------------------
def texts(figure: Any) -> list[tuple[str, Any]]:
    """Every text with its box; none at a slant, whose box is larger than it is."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    found: list[Any] = [*figure.texts]
    for ax in figure.axes:
        found += [*ax.texts, ax.xaxis.label, ax.yaxis.label]
        for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim()))):
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    for legend in figure.legends:
        found += legend.get_texts()
    shown = [t for t in found if t.get_text().strip() and t.get_visible() and t.get_rotation() % 90 == 0]
    return [(t.get_text(), t.get_window_extent(renderer)) for t in shown]


@pytest.mark.parametrize("style", [Style(), Style(theme="dark", broken=True, legend="none")], ids=["light", "broken"])
@pytest.mark.parametrize("name", PICTURES)
def test_no_text_covers_another_or_leaves_the_paper(name: str, style: Style) -> None:
    with canvas.settings():
        plot = PICTURES[name]()
        figure = renderers()[type(plot)](plot, style)
        found = texts(figure)
        paper = figure.bbox
    assert len(found) > 5
    for text, box in found:
        assert paper.x0 <= box.x0, text
        assert box.x1 <= paper.x1, text
        assert paper.y0 <= box.y0, text
        assert box.y1 <= paper.y1, text
    for (one, a), (other, b) in itertools.combinations(found, 2):
        overlap = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert min(overlap) <= 2.0, (one, other)


@pytest.mark.parametrize("name", [n for n in PICTURES if n.startswith("roofline")])
def test_axes_frame_the_data(name: str) -> None:
    """Every point and ridge inside, no more than a factor of two of nothing around them."""
    plot: Any = PICTURES[name]()
    (left, right), (low, high) = frame(plot)
    points = [p for panel in plot.panels for p in panel.points]
    ridges = [c.ridge for panel in plot.panels for c in panel.roof.ceilings]
    x, y = [p.intensity for p in points] + ridges, [p.performance for p in points]
    assert left < min(x) < 2 * left
    assert right / 2 < max(x) < right
    assert low < min(y) < 2 * low
    peak = max(c.peak for panel in plot.panels for c in panel.roof.ceilings)
    assert high / 2 < peak < high


def test_a_broken_axis_leaves_out_only_the_empty_middle() -> None:
    plot: Any = PICTURES["roofline"]()
    (a, b), (c, d) = breaks(plot)
    assert a < b < c < d
    for panel in plot.panels:
        assert all(a < p.intensity < b or c < p.intensity < d for p in panel.points)
        assert all(c < ceiling.ridge < d for ceiling in panel.roof.ceilings)


def test_the_separate_legend_has_every_group_in_every_phase() -> None:
    with canvas.settings():
        figure = draw_legend(PICTURES["roofline-fp8"](), Style())  # type: ignore[arg-type]
        (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == [
        "matmul · prefill", "attention · prefill", "experts · prefill",
        "matmul · decode", "attention · decode", "experts · decode", "speed of light",
    ]  # fmt: skip


# -- colours -------------------------------------------------------------------------------------------------------
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    "none": np.eye(3).tolist(),
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB of linear sRGB under D65."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    t = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_every_group_has_a_colour() -> None:
    assert set(GROUPS.values()) == set(GROUP_ORDER)


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_groups_differ_to_the_colour_blind(theme: Theme, kind: str) -> None:
    """ΔE of at least 12 between any two groups of ops, and from the paper."""
    used = theme.palette[: len(GROUP_ORDER)]
    seen = [lab(np.array(BLINDNESS[kind]) @ linear(c)) for c in [*used, theme.paper]]
    for (i, a), (j, b) in itertools.combinations(enumerate(seen), 2):
        assert np.linalg.norm(a - b) > 12, (i, j)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_legible(theme: Theme) -> None:
    """Contrast of 4.5 to 1 or more (WCAG 2.2, AA)."""
    for colour in (theme.ink, theme.muted):
        a, b = sorted((luminance(colour), luminance(theme.paper)))
        assert (b + 0.05) / (a + 0.05) > 4.5
