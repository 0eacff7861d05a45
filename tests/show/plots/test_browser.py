"""The HTML pictures in a real browser: drawn, without a word on the console and without a request."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from roofline.show.plots.style import Style
from roofline.show.plots.write import write
from show_plots_pictures import PICTURES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NAMES = ("roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram", "bars")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium, as .ci/run does")
def test_every_kind_is_drawn_without_a_word_or_a_request(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright, of the test extra, is not installed")
    pytest.importorskip("plotly", reason="plotly, of the web extra, is not installed")
    said: list[str] = []
    asked: list[str] = []
    with playwright.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 800})
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        for name in NAMES:
            (page,) = write(PICTURES[name](), tmp_path / f"{name}.html", Style(theme="dark"))
            tab.goto(page.as_uri())
            tab.wait_for_selector(".main-svg")
            box = tab.evaluate(
                "(b => [b.width, b.height])(document.querySelector('.main-svg').getBoundingClientRect())"
            )
            marks = tab.evaluate("document.querySelectorAll('.main-svg path, .main-svg text, .main-svg image').length")
            assert min(box) > 300, name
            assert marks > 10, name
            assert tab.inner_text("title") == tab.title() != ""
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [
        (tmp_path / f"{name}.html").as_uri() for name in NAMES
    ]
