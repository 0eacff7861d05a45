"""The page in a real browser: every view, every control, the address, readers of screens, and whom it contacts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from browser import needs_chromium, watched
from roofline.web.export import ASKED
from roofline.web.scenario import Scenario
from served_page import CARDS, DRAWN, Page, page_server

pytestmark = needs_chromium
VIEWS = ("overview", "roofline", "memory", "serving", "sweep", "training", "simulation", "advice", "running",
         "structure",
         "compare", "away")  # fmt: skip
MODEL, ON = "meta-llama/Llama-3.1-8B", "h100-sxm"
AXE = {"resultTypes": ["violations"], "selectors": False}
"""All of its rules, without a selector for each element."""
SIZES = ((1300, 900), (768, 1000), (390, 800))
ASKS = """async (given) => {
  const page = await import("/static/state.js"), s = { ...page.FRESH, ...given };
  return Object.fromEntries(Object.entries(page.asks).map(([view, body]) => [view, JSON.stringify(body(s))]));
}"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with page_server() as address:
        yield address


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    with watched() as seen:
        page = Page(seen, seen.tab)
        page.answers(lambda: seen.tab.goto(address))
        yield page


def test_every_view_opens(page: Page, address: str) -> None:
    page.fresh(address)
    assert tuple(page.sees("[...document.querySelectorAll('[role=tab]')].map((b) => b.id.slice(4))")) == VIEWS
    for view in VIEWS:
        page.open(view)
        assert page.tab.inner_text("#view").strip(), view
        assert page.sees("[...document.querySelectorAll('#view .plot')].every((p) => p.data?.length)"), view
    assert page.seen.said == []
    assert all(url.startswith(address) for url in page.seen.asked)


def test_figures_are_the_library_s(page: Page, address: str) -> None:
    page.fresh(address)
    served = rl.serve(MODEL, on=ON, input=1024, output=256, concurrency=32)
    answer: Any = served.to_dict()
    cards = page.sees(CARDS)
    assert f"{answer['tpot']['expected'] * 1e3:.1f} ms" in cards[1]
    assert f"{answer['tokens_per_second']:,.0f}" in cards[3]
    assert f"{answer['memory']['total'] / 1e9:.1f} GBof {answer['memory']['capacity'] / 1e9:.1f} GB" in cards[4]
    assert f"KV cache ≤ {answer['memory']['budget'] / 1e9:.1f} GB" in cards[4]
    assert f"{answer['capacity']:,}" in cards[5]


def test_every_control_changes_the_answer(page: Page, address: str) -> None:
    page.fresh(address)
    changes: tuple[Callable[[], None], ...] = (
        lambda: page.slide("input", 8),
        lambda: page.slide("output", 8),
        lambda: page.slide("concurrency", -8),
        lambda: page.set_to("precision", "fp8"),
        lambda: page.set_to("on", "8xh100-sxm"),
        lambda: page.set_to("layout", "tp=4"),
        lambda: page.set_to("law", "ideal"),
        lambda: page.set_to("engine", "sglang"),
        lambda: page.set_to("model", "Qwen/Qwen3-8B"),
        lambda: page.set_to("rate", "3"),
        lambda: page.set_to("ttft", "100"),
        lambda: page.set_to("tpot", "9"),
        lambda: page.set_to("price", "own(30000)"),
        lambda: page.set_to("grid", "de"),
        lambda: page.set_to("pue", "1.3"),
    )
    page.tab.click("#cost summary")
    seen = [page.tab.inner_text("#verdict")]
    for change in changes:
        change()
        seen.append(page.tab.inner_text("#verdict"))
        assert seen[-1] != seen[-2], len(seen)
    step = page.tab.inner_text("#view")
    page.set_to("phase", "prefill")
    assert page.tab.inner_text("#view") != step


def test_the_page_asks_what_its_export_computes(page: Page, address: str) -> None:
    page.fresh(address)
    for scenario in (Scenario(), Scenario(concurrency=300, phase="prefill", layout="tp=1", precision="fp8", input=77)):
        given = {f: getattr(scenario, f) for f in ("layout", "precision", "concurrency", "phase", "input")}
        asks = page.sees(ASKS, given)
        for view in ASKED:
            assert asks[view] == json.dumps(scenario.body(view)[1], separators=(",", ":")), view


def test_what_cannot_be_is_said_and_left(page: Page, address: str) -> None:
    page.fresh(address)
    page.tab.fill("#on", "h1000")
    page.tab.locator("#on").blur()
    page.tab.wait_for_selector("#problem:not([hidden])")
    assert "h100" in page.tab.inner_text("#problem")
    page.set_to("on", ON)
    page.seen.said.clear()  # the browser itself logs the 422


def test_a_pasted_config_is_in_the_address(page: Page, address: str) -> None:
    page.fresh(address)
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
    page.fresh(address)
    page.answers(lambda: page.tab.click("#scenarios button"))
    page.set_to("on", "h200")
    page.open("compare")
    assert "h200" in page.tab.inner_text("#view table")
    causes = rl.diff(*(f"{MODEL}@{on}:batch=32,context=1152" for on in (ON, "h200")))
    decode = next(turn for turn in causes.turns if turn.phase == "decode")
    assert f"decode Machine h100-sxm → h200: × {decode.factor:.3g}" in page.tab.inner_text("#view ul")


def test_a_click_explains(page: Page, address: str) -> None:
    page.fresh(address)
    page.open("roofline")
    page.tab.click("#view tbody tr:first-child button")
    page.tab.wait_for_selector("dl.formula dd code")
    page.tab.fill("#view .filter", "zzz")
    assert page.tab.locator("#view tbody tr").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_for_readers_of_screens(page: Page, address: str, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe, of the test extra, is missing").Axe
    page.tab.emulate_media(color_scheme=theme)
    page.fresh(address)
    page.tab.add_style_tag(content="* { transition: none !important }")
    wrong = []
    for view in VIEWS:
        page.open(view)
        for width, height in SIZES:
            page.tab.set_viewport_size({"width": width, "height": height})
            sideways = page.sees("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if sideways > 0:
                wrong.append((view, width, "sideways", sideways))
            violations = axe().run(page.tab, options=AXE).response["violations"]
            wrong += [
                (view, width, v["id"], v["nodes"][0]["html"][:120])
                for v in violations
                if v["impact"] in ("serious", "critical")
            ]
    page.tab.set_viewport_size({"width": 1300, "height": 900})
    assert not wrong, "\n".join(map(str, wrong))


def test_paper_is_white_and_has_no_controls(page: Page, address: str) -> None:
    page.tab.emulate_media(color_scheme="dark", media="print")
    page.fresh(address)
    assert page.sees("getComputedStyle(document.querySelector('.card')).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.tab.is_visible("#choose")
    assert page.tab.is_visible("#view")
    page.tab.emulate_media(color_scheme="light", media="screen")


def test_colours_follow_the_system_until_one_is_chosen(page: Page, address: str) -> None:
    page.fresh(address)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.sees(paper)
    page.answers(lambda: page.tab.emulate_media(color_scheme="dark"))
    dark = page.sees(paper)
    assert light != dark
    page.answers(lambda: page.tab.click("#theme"))
    assert page.sees(paper) == light
    page.fresh(address)
    assert page.sees(paper) == light
    page.sees("localStorage.clear()")
    page.tab.emulate_media(color_scheme="light")


def test_files_of_pictures(page: Page, address: str, tmp_path: Path) -> None:
    page.fresh(address)
    for view, kinds in (("overview", (b"<svg", b"\x89PNG")), ("serving", (b"<svg", b"\x89PNG"))):
        page.open(view)
        for form, kind in zip(("SVG", "PNG"), kinds, strict=True):
            with page.tab.expect_download() as waiting:
                page.tab.locator("#view").get_by_role("button", name=form, exact=True).first.click()
            waiting.value.save_as(tmp_path / form)
            assert kind in (tmp_path / form).read_bytes()[:400]
