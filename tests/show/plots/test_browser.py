"""The HTML pictures in a real browser: drawn, without a word on the console and without a request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from browser import Watched, needs_chromium, watched
from roofline.show.plots.data import Panel, Plot, RooflinePlot
from roofline.show.plots.style import Style
from roofline.show.plots.write import write
from show_plots_pictures import PICTURES

pytestmark = needs_chromium
NAMES = ("roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram", "bars")


@pytest.fixture(scope="module")
def browser() -> Iterator[Watched]:
    pytest.importorskip("plotly", reason="plotly, of the web extra, is not installed")
    with watched() as seen:
        yield seen


def shown(browser: Watched, plot: Plot, page: Path) -> None:
    """Opens the page of a plot."""
    write(plot, page, Style(theme="dark"))
    browser.said.clear()
    browser.asked.clear()
    browser.tab.goto(page.as_uri())
    browser.tab.wait_for_selector(".main-svg")


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_is_drawn_without_a_word_or_a_request(name: str, browser: Watched, tmp_path: Path) -> None:
    page = tmp_path / f"{name}.html"
    shown(browser, PICTURES[name](), page)
    box = browser.tab.evaluate(
        "(b => [b.width, b.height])(document.querySelector('.main-svg').getBoundingClientRect())"
    )
    marks = browser.tab.evaluate("document.querySelectorAll('.main-svg path, .main-svg text').length")
    assert min(box) > 300
    assert marks > 10
    assert browser.tab.title()
    assert browser.said == []
    assert browser.asked == [page.as_uri()]


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
