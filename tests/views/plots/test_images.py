"""What is drawn: equal to the pictures that were looked at, in both themes; no text on another or off the paper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.transforms import Affine2D

from folded import folded
from roofline.views.plots.data import Ceiling, DrawnRoof, Panel, Plot, RooflinePlot, RooflinePoint, Slope
from roofline.views.plots.draw import canvas
from roofline.views.plots.draw.roofline import breaks, draw_legend, draw_roofline, frame
from roofline.views.plots.style import DARK, GROUP_ORDER, LIGHT, Style, Theme
from roofline.views.plots.write import renderers, write
from roofline.whatif.markers import group_names
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


@pytest.mark.drawn(2)
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


@pytest.mark.drawn(2)
@pytest.mark.parametrize("style", [Style(), Style(theme="dark", broken=True, legend="none")], ids=["light", "broken"])
@pytest.mark.parametrize("name", PICTURES)
def test_no_text_covers_another_or_leaves_the_paper(name: str, style: Style) -> None:
    check_texts(PICTURES[name](), style)


def check_texts(plot: Plot, style: Style) -> list[str]:
    """Draws a plot; no text may cover another or leave the paper. Returns the texts."""
    with canvas.settings():
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
    return [text for text, _ in found]


LONG = "AN-ORGANISATION/" + "A-MODEL-OF-A-LONG-NAME-" * 6 + " · attention/ffn fp8-block, experts mxfp4 · " * 4


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", COMPARED)
def test_long_titles_and_notes_are_folded(name: str) -> None:
    """Also where one word is wider than the paper; not a letter is lost."""
    said = check_texts(replace(PICTURES[name](), title=LONG, note=LONG), Style())
    assert sum("".join(text.split()) == "".join(LONG.split()) for text in said) == 2


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", [n for n in PICTURES if n.startswith("sweep")])
def test_ticks_are_what_they_say(name: str) -> None:
    """Of throughput and time: at least two, no two alike, each the value that it stands at."""
    plot: Any = PICTURES[name]()
    with canvas.settings():
        figure = renderers()[type(plot)](plot, Style())
        figure.canvas.draw()
        for ax in figure.axes:
            (low, high), ticks = ax.get_ylim(), ax.yaxis.get_major_ticks()
            said = {t.label1.get_text(): t.get_loc() for t in ticks if low <= t.get_loc() <= high}
            assert len(said) == sum(low <= t.get_loc() <= high for t in ticks) >= 2
            for text, value in said.items():
                number, _, unit = text.removesuffix("s").strip().partition(" ")
                scale = {"": 1, "k": 1e3, "M": 1e6, "m": 1e-3, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}[unit.strip()]
                assert float(number) * scale == pytest.approx(value, rel=1e-9)


def along(line: Any) -> list[Any]:
    """Places on a straight line, in pixels."""
    start, end = line.get_transform().transform(line.get_xydata())
    return [start + (end - start) * i / 200 for i in range(201)]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("name", [n for n in PICTURES if n.startswith("roofline")])
def test_no_line_strikes_a_label(name: str, broken: bool) -> None:
    """No leader through any text, no stem through the peak of a ceiling; every ceiling has its peak."""
    plot: Any = PICTURES[name]()
    with canvas.settings():
        figure = draw_roofline(plot, Style(broken=broken))
        figure.canvas.draw()
        for ax in figure.axes:
            level = [t for t in ax.texts if t.get_rotation() == 0]
            boxes = [(t.get_text(), t.get_window_extent().padded(-1)) for t in level]
            leaders = [at for line in ax.lines if line.get_linewidth() == 0.5 for at in along(line)]
            stems = [at for line in ax.lines if line.get_linewidth() == 0.7 and line.get_linestyle() == "-"
                     for at in along(line)]  # fmt: skip
            for text, box in boxes:
                strokes = leaders + stems if text.endswith("FLOP/s") else leaders
                assert not any(box.contains(*at) for at in strokes), text
    peaks = [t.get_text() for ax in figure.axes for t in ax.texts if t.get_text().endswith("FLOP/s")]
    assert len(peaks) == sum(len(panel.roof.levels) for panel in plot.panels)


@folded("name", [n for n in PICTURES if n.startswith("roofline")])
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


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("phases", "name", "columns"), [(2, "op", 2), (40, "op", 11), (40, "an op of a long name", 5), (12, 200 * "x", 1)]
)
def test_a_separate_legend_is_no_wider_than_a_page(phases: int, name: str, columns: int) -> None:
    points = tuple(RooflinePoint(f"{name} {i}", f"{name} {i}", f"p{i % phases}", i + 1, 1, 1, 0.0) for i in range(40))
    with canvas.settings():
        figure = draw_legend(roofline(points), Style())
        figure.canvas.draw()
        (legend,) = figure.legends
        boxes = [t.get_window_extent() for t in legend.get_texts()]
    assert len(boxes) == 40
    assert len({round(box.x0) for box in boxes}) == columns
    assert figure.get_figwidth() <= 12.0 or columns == 1
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)


# -- machines of any speed -----------------------------------------------------------------------------------------
def roofline(points: Sequence[RooflinePoint], peak: float = 1e12, bandwidth: float = 1e10) -> RooflinePlot:
    """Points at intensities under a roof, all on it."""
    on = tuple(replace(p, performance=y, light=y) for p in points for y in [min(peak, p.intensity * bandwidth)])
    roof = DrawnRoof("machine", (Ceiling("peak", peak, peak / bandwidth),), (Slope("memory", bandwidth),))
    return RooflinePlot("slow", (Panel(roof, on),))


MACHINES = {
    "NAND-PIM": (0.2e12, 0.2e12), "DRAM-PIM": (0.8e12, 0.8e12), "1 GFLOP/s": (1e9, 1e9), "little memory": (1e12, 1e9),
    "little else": (1e9, 1e12), "A100": (19.5e12, 1.555e12), "Xeon": (2.8e12, 204.8e9), "Snapdragon": (4.35e12, 51.2e9),
    "1 FLOP/s": (1.0, 1e12), "beyond": (1e30, 1.0), "a line too short for its name": (1e12, 1e8),
}  # fmt: skip
INTENSITIES = (0.45, 0.49, 1.0, 1.0, 3.9, 119.0, 585.0, 1024.0, 1247.0, 1550.0)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_of_any_speed_is_labelled_within_its_frame(machine: str, broken: bool) -> None:
    """No tick's label on another, and the bandwidth's name, at its slant, within the axes."""
    where = INTENSITIES if "short" not in machine else (0.45, 0.6, 3e4, 1e8)
    points = [RooflinePoint(f"op {i}", f"op {i}", "step", x, 1, 1, 0.0) for i, x in enumerate(where)]
    with canvas.settings():
        figure = draw_roofline(roofline(points, *MACHINES[machine]), Style(broken=broken))
        ticks = [(text, box) for text, box in texts(figure) if not text.startswith("op")]
        first = figure.axes[0]
        (name,) = [t for t in first.texts if t.get_text().startswith("memory")]
        turn, middle = Affine2D().rotate_deg(name.get_rotation()), name.get_transform().transform(name.get_position())
        angle = name.get_rotation()
        name.set_rotation(0)
        flat = name.get_window_extent()
    corners = turn.transform([(x * flat.width / 2, y * flat.height / 2) for x in (-1, 1) for y in (-1, 1)]) + middle
    frame = first.get_window_extent()
    assert all(frame.x0 <= x <= frame.x1 and frame.y0 <= y <= frame.y1 for x, y in corners), angle
    for (one, a), (other, b) in itertools.combinations(ticks, 2):
        overlap = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert min(overlap) <= 2.0, (one, other)
    for ax in figure.axes:
        assert canvas.tick_boxes(ax.xaxis)


# -- names as they are ---------------------------------------------------------------------------------------------
NAMES = ("title", "note", "label", "detail", "chip", "knob", "operations")
CODE = "$a_{b$"
"""A name that is broken mathematics to Matplotlib."""


def renamed(value: Any, field: str = "") -> Any:
    """A plot whose names, but for those that choose a colour or an axis, all end in CODE."""
    if isinstance(value, str):
        return f"{value}{CODE}" if field in NAMES else value
    if isinstance(value, tuple):
        return tuple(renamed(v, field) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: renamed(getattr(value, f.name), f.name) for f in fields(value)})
    return value


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", COMPARED)
def test_names_are_drawn_letter_by_letter(name: str, tmp_path: Path) -> None:
    plot = renamed(PICTURES[name]())
    for file in write(plot, tmp_path / "named.png", Style(dpi=50, legend="separate")):
        assert file.stat().st_size > 1000
    with canvas.settings():
        said = [text for text, _ in texts(renderers()[type(plot)](plot, Style(dpi=50)))]
    assert sum(CODE in text for text in said) >= 2
    assert not [text for text in said if "mathdefault" in text]


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
    assert set(group_names()) == set(GROUP_ORDER)


@folded("kind", BLINDNESS)
@folded("theme", [LIGHT, DARK], ids=["light", "dark"])
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
