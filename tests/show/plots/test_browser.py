"""The HTML pictures in a real browser: drawn, without a word on the console and without a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import needs_chromium, watched
from roofline.show.plots.style import Style
from roofline.show.plots.write import write
from show_plots_pictures import PICTURES

NAMES = ("roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram", "bars")


@needs_chromium
def test_every_kind_is_drawn_without_a_word_or_a_request(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="plotly, of the web extra, is not installed")
    pages = {name: tmp_path / f"{name}.html" for name in NAMES}
    with watched() as seen:
        for name, page in pages.items():
            write(PICTURES[name](), page, Style(theme="dark"))
            seen.tab.goto(page.as_uri())
            seen.tab.wait_for_selector(".main-svg")
            box = seen.tab.evaluate(
                "(b => [b.width, b.height])(document.querySelector('.main-svg').getBoundingClientRect())"
            )
            marks = seen.tab.evaluate("document.querySelectorAll('.main-svg path, .main-svg text').length")
            assert min(box) > 300, name
            assert marks > 10, name
            assert seen.tab.title(), name
    assert seen.said == []
    assert seen.asked == [page.as_uri() for page in pages.values()]
