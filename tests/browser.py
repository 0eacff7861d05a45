"""A real browser for the tests: Chromium, driven by Playwright, that keeps what it was told and what it asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here: apt-get install chromium, as .ci/run does"
)


@dataclass
class Watched:
    """A tab, every word on its console, and every address it asked for but those that hold their own data."""

    tab: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def watched() -> Iterator[Watched]:
    """A tab of a headless browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright, of the test extra, is not installed")
    with playwright.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = Watched(browser.new_page(viewport={"width": 1200, "height": 900}))
        found.tab.on("console", lambda message: found.said.append(message.text))
        found.tab.on("pageerror", lambda error: found.said.append(str(error)))
        found.tab.on(
            "request", lambda r: found.asked.append(r.url) if not r.url.startswith(("data:", "blob:")) else None
        )
        yield found
        browser.close()
