"""The page in a real browser: every view, every control, the address, readers of screens, and whom it contacts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import pytest
import uvicorn

import roofline as rl
from browser import Watched, needs_chromium, watched
from roofline.web.app import page_app
from roofline.web.export import ASKED
from roofline.web.scenario import Scenario

pytestmark = needs_chromium
VIEWS = ("overview", "roofline", "memory", "serving", "sweep", "training", "simulation", "advice", "running",
         "structure",
         "compare", "away")  # fmt: skip
MODEL, ON = "meta-llama/Llama-3.1-8B", "h100-sxm"
SIZES = ((1300, 900), (768, 1000), (390, 800))
READY = "document.body.dataset.ready ?? 0"
CARDS = "[...document.querySelectorAll('#verdict .card')].map((card) => card.textContent)"
DRAWN = "[...document.querySelectorAll('#view .plot')].map((p) => JSON.stringify(p.data?.map((d) => [d.x, d.y])))"


ASKS = """async (given) => {
  const page = await import("/static/state.js"), s = { ...page.FRESH, ...given };
  return Object.fromEntries(Object.entries(page.asks).map(([view, body]) => [view, JSON.stringify(body(s))]));
}"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of the page's own on a port that is free."""
    server = uvicorn.Server(uvicorn.Config(page_app(), host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = monotonic() + 20
    while not server.started and monotonic() < end:
        sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


@dataclass
class Page:
    """A tab at the page, and how it is used."""

    seen: Watched
    tab: Any

    def answers(self, do: Callable[[], Any]) -> None:
        """Does it, and waits until the page has answered whatever that asked."""
        before = int(self.tab.evaluate(READY))
        do()
        end = monotonic() + 30
        while int(self.tab.evaluate(READY)) <= before:
            assert monotonic() < end, "no answer"
            self.tab.wait_for_timeout(15)
        assert not self.tab.is_visible("#problem"), self.tab.inner_text("#problem")

    def open(self, view: str) -> None:
        """Shows a view."""
        self.answers(lambda: self.tab.click(f"#tab-{view}"))

    def sees(self, script: str, given: Any = None) -> Any:
        """What a script of the tab evaluates to."""
        return self.tab.evaluate(script, given)


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    with watched() as seen:
        page = Page(seen, seen.tab)
        page.answers(lambda: seen.tab.goto(address))
        yield page


def fresh(page: Page, address: str) -> None:
    """The page as one who comes for the first time sees it."""
    page.tab.goto("about:blank")
    page.answers(lambda: page.tab.goto(address))


def slide(page: Page, name: str, by: int) -> None:
    script = f"(() => {{ const s = document.getElementById('{name}'); s.value = Number(s.value) + {by}; "
    page.answers(lambda: page.sees(script + "s.dispatchEvent(new Event('input', { bubbles: true })); })()"))


def set_to(page: Page, name: str, value: str) -> None:
    field = page.tab.locator(f"#{name}")
    if field.evaluate("f => f.tagName") == "SELECT":
        page.answers(lambda: field.select_option(value))
    else:
        page.answers(lambda: (field.fill(value), field.blur()))


def test_every_view_opens(page: Page, address: str) -> None:
    fresh(page, address)
    assert tuple(page.sees("[...document.querySelectorAll('[role=tab]')].map((b) => b.id.slice(4))")) == VIEWS
    for view in VIEWS:
        page.open(view)
        assert page.tab.inner_text("#view").strip(), view
        assert page.sees("[...document.querySelectorAll('#view .plot')].every((p) => p.data?.length)"), view
    assert page.seen.said == []
    assert all(url.startswith(address) for url in page.seen.asked)


def test_figures_are_the_library_s(page: Page, address: str) -> None:
    fresh(page, address)
    served = rl.serve(MODEL, on=ON, input=1024, output=256, concurrency=32)
    answer: Any = served.to_dict()
    cards = page.sees(CARDS)
    assert f"{answer['tpot']['expected'] * 1e3:.1f} ms" in cards[1]
    assert f"{answer['tokens_per_second']:,.0f}" in cards[3]
    assert f"{answer['memory']['total'] / 1e9:.1f} GB" in cards[4]
    assert f"{answer['capacity']:,}" in cards[5]


def test_every_control_changes_the_answer(page: Page, address: str) -> None:
    fresh(page, address)
    changes: tuple[Callable[[], None], ...] = (
        lambda: slide(page, "input", 8),
        lambda: slide(page, "output", 8),
        lambda: slide(page, "concurrency", -8),
        lambda: set_to(page, "precision", "fp8"),
        lambda: set_to(page, "on", "8xh100-sxm"),
        lambda: set_to(page, "layout", "tp=4"),
        lambda: set_to(page, "law", "ideal"),
        lambda: set_to(page, "engine", "sglang"),
        lambda: set_to(page, "model", "Qwen/Qwen3-8B"),
        lambda: set_to(page, "rate", "3"),
        lambda: set_to(page, "ttft", "100"),
        lambda: set_to(page, "tpot", "9"),
    )
    seen = [page.tab.inner_text("#verdict")]
    for change in changes:
        change()
        seen.append(page.tab.inner_text("#verdict"))
        assert seen[-1] != seen[-2], len(seen)
    step = page.tab.inner_text("#view")
    set_to(page, "phase", "prefill")
    assert page.tab.inner_text("#view") != step


def test_the_page_asks_what_its_export_computes(page: Page, address: str) -> None:
    fresh(page, address)
    for scenario in (Scenario(), Scenario(concurrency=300, phase="prefill", layout="tp=1", precision="fp8", input=77)):
        given = {f: getattr(scenario, f) for f in ("layout", "precision", "concurrency", "phase", "input")}
        asks = page.sees(ASKS, given)
        for view in ASKED:
            assert asks[view] == json.dumps(scenario.body(view)[1], separators=(",", ":")), view


def test_what_cannot_be_is_said_and_left(page: Page, address: str) -> None:
    fresh(page, address)
    page.tab.fill("#on", "h1000")
    page.tab.locator("#on").blur()
    page.tab.wait_for_selector("#problem:not([hidden])")
    assert "h100" in page.tab.inner_text("#problem")
    set_to(page, "on", ON)
    page.seen.said.clear()  # the browser itself logs the 422


def test_a_pasted_config_is_in_the_address(page: Page, address: str) -> None:
    fresh(page, address)
    config = json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "vocab_size": 32000,
        "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    })  # fmt: skip
    page.tab.click("#paste summary")
    page.tab.fill("#config", config)
    page.answers(lambda: page.tab.click("#use"))
    page.open("memory")
    cards, drawn, link = page.sees(CARDS), page.sees(DRAWN), page.sees("location.href")
    assert page.sees("document.getElementById('model').value") == "config.json (llama)"
    context = page.tab.context.browser.new_context()
    other = Page(page.seen, context.new_page())
    other.answers(lambda: other.tab.goto(link))
    assert (other.sees(CARDS), other.sees(DRAWN)) == (cards, drawn)
    context.close()


def test_scenarios_stand_side_by_side(page: Page, address: str) -> None:
    fresh(page, address)
    page.answers(lambda: page.tab.click("#scenarios button"))
    set_to(page, "on", "h200")
    page.open("compare")
    assert "h200" in page.tab.inner_text("#view table")


def test_a_click_explains(page: Page, address: str) -> None:
    fresh(page, address)
    page.open("roofline")
    page.tab.click("#view tbody tr:first-child button")
    page.tab.wait_for_selector("dl.formula dd code")
    page.tab.fill("#view .filter", "zzz")
    assert page.tab.locator("#view tbody tr").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_for_readers_of_screens(page: Page, address: str, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe, of the test extra, is missing").Axe
    page.tab.emulate_media(color_scheme=theme)
    fresh(page, address)
    page.tab.add_style_tag(content="* { transition: none !important }")
    wrong = []
    for view in VIEWS:
        page.open(view)
        for width, height in SIZES:
            page.tab.set_viewport_size({"width": width, "height": height})
            sideways = page.sees("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if sideways > 0:
                wrong.append((view, width, "sideways", sideways))
            violations = axe().run(page.tab, options={"resultTypes": ["violations"]}).response["violations"]
            wrong += [
                (view, width, v["id"], v["nodes"][0]["html"][:120])
                for v in violations
                if v["impact"] in ("serious", "critical")
            ]
    page.tab.set_viewport_size({"width": 1300, "height": 900})
    assert not wrong, "\n".join(map(str, wrong))
