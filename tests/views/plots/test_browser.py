"""The HTML pictures in a real browser: every mark in its axes, without a word on the console and without a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

import roofline as rl
from browser import Watched, needs_chromium, watched
from roofline.views.plots.data import Capacity, MemoryPlot, Panel, Plot, RooflinePlot
from roofline.views.plots.make import KINDS
from roofline.views.plots.style import Style, ThemeName
from roofline.views.plots.write import write
from show_plots_pictures import PICTURES, QWEN, STEPS

pytestmark = needs_chromium
CHIPS = ("h100-sxm", "a100-sxm-40gb", "mi300x")
CASES = [(kind, n) for kind in ("roofline", "energy", "shares", "sweep", "memory") for n in (1, 2, 3)]
CASES += [("map", 1), ("tornado", 1), ("parameters", 0), ("diagram", 0), ("bars", 0)]
"""Every kind of plot on one to three chips, or on as many as it takes."""
SEEN = Path(__file__).with_name("seen.js").read_text(encoding="utf-8")
"""What Plotly has drawn, in pixels of the page."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Watched]:
    pytest.importorskip("plotly", reason="plotly, of the web extra, is not installed")
    with watched() as seen:
        yield seen


@cache
def pictured(kind: str, chips: int) -> Plot:
    """A plot of a kind on the first so many chips."""
    if kind == "bars":
        return PICTURES["bars"]()
    return rl.plot(rl.load(QWEN), STEPS, kind=kind, on=CHIPS[:chips])  # type: ignore[arg-type]


def shown(browser: Watched, plot: Plot, page: Path, theme: ThemeName = "dark") -> None:
    """Opens the page of a plot."""
    write(plot, page, Style(theme=theme))
    browser.said.clear()
    browser.asked.clear()
    browser.tab.goto(page.as_uri())
    browser.tab.wait_for_selector(".main-svg")


def test_every_kind_has_a_case() -> None:
    assert {kind for kind, _ in CASES} == {*KINDS, "bars"}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("kind", "chips"), CASES)
def test_every_mark_is_seen_in_its_axes(
    kind: str, chips: int, theme: ThemeName, browser: Watched, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    shown(browser, pictured(kind, chips), page, theme)
    assert browser.said == []
    assert browser.asked == [page.as_uri()]
    assert browser.tab.title()
    seen: dict[str, Any] = browser.tab.evaluate(SEEN)
    paper = rgb(Style(theme=theme).colours.paper)
    image = (255 * imread(BytesIO(browser.tab.screenshot()))[:, :, :3]).astype(np.int16)
    assert seen["areas"]
    for area in seen["areas"].values():
        left, top, width, height = area["box"]
        assert min(width, height) > 100
        assert area["points"], "axes without a mark"
        for x, y in area["points"]:
            assert -1 <= x <= width + 1, (kind, x, width)
            assert -1 <= y <= height + 1, (kind, y, height)
        drawn = image[round(top) : round(top + height), round(left) : round(left + width)]
        assert area["colours"]
        for colour, opacity in dict.fromkeys(map(tuple, area["colours"])):
            mixed = np.rint(opacity * rgb(colour) + (1 - opacity) * paper).astype(np.int16)
            assert (np.abs(drawn - mixed).max(axis=2) <= 10).sum() >= 8, (kind, colour, opacity)
    for text, left, top, right, bottom in seen["texts"]:
        assert left >= 0, text
        assert top >= 0, text
        assert right <= image.shape[1], text
        assert bottom <= image.shape[0], text
    for ticks in seen["ticks"]:
        for i, (text, left, top, right, bottom) in enumerate(ticks):
            for other, x0, y0, x1, y1 in ticks[:i]:
                assert left >= x1 or x0 >= right or top >= y1 or y0 >= bottom, f"{text} on {other}"


def rgb(colour: str) -> Any:
    """Red, green and blue, up to 255, of `#rrggbb` or `rgb(…)`."""
    if colour.startswith("#"):
        return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], float)
    return np.array([float(v) for v in re.findall(r"[\d.]+", colour)[:3]])


MARKUP = "<b>a</b> $x_1$ &lt; %{x} <script>1</script>"


def test_names_are_shown_letter_by_letter(browser: Watched, tmp_path: Path) -> None:
    """Of a title, a chip, a group and a phase: no tag, formula, entity or template."""
    plot = PICTURES["roofline-layers"]()
    assert isinstance(plot, RooflinePlot)
    panels = tuple(
        Panel(
            replace(panel.roof, chip=f"chip {MARKUP}"),
            tuple(replace(p, group=f"group {MARKUP}", phase=f"phase {MARKUP}") for p in panel.points),
        )
        for panel in plot.panels
    )
    shown(
        browser, replace(plot, title=f"title {MARKUP}", note=f"note {MARKUP}", panels=panels), tmp_path / "named.html"
    )
    texts = browser.tab.evaluate("[...document.querySelectorAll('.main-svg text')].map(t => t.textContent)")
    said = " ".join(" ".join(texts).split())
    assert browser.tab.title() == f"title {MARKUP}"
    for word in ("title", "note", "chip", "group", "phase"):
        assert f"{word} {MARKUP}" in said


def test_a_capacitys_name_is_shown_letter_by_letter(browser: Watched, tmp_path: Path) -> None:
    plot = MemoryPlot("memory", (1, 2), (("weights", (1e9, 1e9)),), (Capacity(f"chip {MARKUP}", 2e9, None),))
    shown(browser, plot, tmp_path / "named.html")
    texts = browser.tab.evaluate("[...document.querySelectorAll('.main-svg text')].map(t => t.textContent)")
    assert any(f"chip {MARKUP} · 2 GB" in " ".join(text.split()) for text in texts)
