"""The page in a real browser: every view, the URL as its state, only this server, axe in both themes and widths."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from browser import CHROMIUM, needs_chromium

pytestmark = needs_chromium
WIDTHS = (390, 768, 1300)
SETTLED = "() => !document.querySelector('.old') && document.querySelector('#verdict').innerText.length > 0"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of the page on a free port of this machine."""
    import uvicorn

    from roofline.web.app import page_app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(page_app(), host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(5)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(chromium: Any, url: str, width: int = 1300, theme: str = "light") -> tuple[Any, list[str]]:
    """A page of its own at a URL, and what goes wrong on it: console errors, and hosts that are not this one."""
    page = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme).new_page()
    wrong: list[str] = []
    host = re.match(r"http://[^/]+", url)
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith((host[0], "data:", "blob:")) else wrong.append(r.url))  # type: ignore[index]
    page.goto(url)
    page.wait_for_function(SETTLED)
    page.wait_for_load_state("networkidle")
    return page, wrong


def card(page: Any, name: str) -> str:
    """The text of a card of the verdict."""
    texts = page.eval_on_selector_all("#verdict .card", "cards => cards.map(card => card.innerText)")
    return next(text for text in texts if text.startswith(name))


def test_every_view_opens_without_an_error_and_asks_nobody_else(chromium: Any, address: str) -> None:
    page, wrong = opened(chromium, address)
    tabs = page.query_selector_all("[role=tab]")
    assert len(tabs) >= 11
    for place in range(len(tabs)):
        page.query_selector_all("[role=tab]")[place].click()
        page.wait_for_load_state("networkidle")
        page.wait_for_function("() => document.querySelector('#view').innerText.length > 0")
        assert page.eval_on_selector("#problem", "e => e.hidden"), page.inner_text("#problem")
    assert not wrong
    page.context.close()


def test_figures_are_the_librarys(chromium: Any, address: str) -> None:
    page, _ = opened(chromium, address)
    served = rl.serve("meta-llama/Llama-3.1-8B", on="h100-sxm", input=1024, output=256, concurrency=32)
    shown = float(card(page, "TPOT").split("\n")[1].split()[0])
    assert shown == pytest.approx(float(served.tpot.expected) * 1e3, rel=0.005)
    rate = float(card(page, "Generated").split("\n")[1].replace(",", ""))
    assert rate == pytest.approx(float(served.tokens_per_second), rel=0.005)
    page.context.close()


def test_the_url_is_the_whole_state(chromium: Any, address: str) -> None:
    page, wrong = opened(chromium, address)
    page.fill("#on", "2xrtx-4090")
    page.fill("#layout", "tp=2")
    page.dispatch_event("#layout", "change")
    page.eval_on_selector("#concurrency", "e => { e.value = 24; e.dispatchEvent(new Event('input', {bubbles: true})) }")
    page.wait_for_timeout(600)
    page.wait_for_function(SETTLED)
    verdict, view = page.inner_text("#verdict"), page.inner_text("#view")
    fresh, also_wrong = opened(chromium, page.url)
    assert "rtx-4090" in verdict
    assert (fresh.inner_text("#verdict"), fresh.inner_text("#view")) == (verdict, view)
    assert not wrong + also_wrong
    page.context.close()
    fresh.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium: Any, address: str, theme: str) -> None:
    import axe_playwright_python

    script = next(Path(axe_playwright_python.__file__).parent.rglob("axe*.js")).read_text(encoding="utf-8")
    for width in WIDTHS:
        page, _ = opened(chromium, address, width, theme)
        page.evaluate(script)
        every = page.query_selector_all("[role=tab]")
        tabs = every if width == WIDTHS[-1] else every[:2]
        for place in range(len(tabs)):
            page.query_selector_all("[role=tab]")[place].click()
            page.wait_for_timeout(60)
            page.wait_for_function(SETTLED)
            page.wait_for_timeout(250)  # until what was faded while it was asked is not
            found = page.evaluate("() => axe.run({resultTypes: ['violations']})")
            bad = [
                (v["id"], v["nodes"][0]["html"][:120], v["nodes"][0].get("failureSummary", "")[:160])
                for v in found["violations"]
                if v["impact"] in ("serious", "critical")
            ]
            assert not bad, (width, place, bad)
        page.context.close()
