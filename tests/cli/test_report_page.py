"""The report's first screen and its page as people see it: figures, words, themes, widths, print."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

import roofline as rl
from browser import needs_chromium, watched
from plain import LONGEST, length, spoken
from roofline.show.report.write import Finished, html
from roofline.units import change, seconds
from test_words import quaint

LLAMA, V3, HYBRID = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct"
MACHINES = {LLAMA: "h100-sxm", V3: "8xh200-sxm", HYBRID: "8xh100-sxm"}
WIDTHS = {390: 844, 768: 1024, 1300: 900}


@pytest.fixture(scope="module")
def reports() -> dict[str, Finished]:
    """A dense model, one of experts and latents, a hybrid."""
    return {model: rl.report(model, on=on) for model, on in MACHINES.items()}


def test_cards_are_the_librarys_figures(reports: dict[str, Finished]) -> None:
    g = rl.generate(LLAMA, on="h100-sxm", batch=16, input=1024, output=256)
    first, rest, throughput, memory = reports[LLAMA].sections[0].cards
    assert (first.value, first.note) == (seconds(g.ttft.expected), f"floor {seconds(g.ttft.floor)}")
    assert first.interval == f"{seconds(g.ttft.low)} to {seconds(g.ttft.high)}"
    assert rest.value == seconds(g.tpot.expected)
    low, high = 16 * 256 / g.latency.high, 16 * 256 / g.latency.low
    assert throughput.value == f"{16 * 256 / g.latency.expected:,.0f} tokens/s"
    assert throughput.interval == f"{low:,.0f} to {high:,.0f}"
    assert throughput.note == f"{g.usd_per_million_tokens:,.3g} USD per million tokens"
    assert memory.value == f"{g.memory.total / 1e9:.2f} GB"


def test_a_change_says_everything_that_it_changes(reports: dict[str, Finished]) -> None:
    (best,) = reports[LLAMA].sections[0].tables
    now = rl.generate(LLAMA, on="h100-sxm", batch=16, input=1024, output=256)
    then = rl.generate(LLAMA, on="h100-sxm", batch=64, input=1024, output=256)
    (row,) = (cells for cells in best.cells if cells[-2] == "--batch 64")
    factors = (
        then.tokens_per_second / now.tokens_per_second,
        then.ttft.expected / now.ttft.expected,
        then.tpot.expected / now.tpot.expected,
        then.usd_per_million_tokens / now.usd_per_million_tokens,
        then.joules_per_token / now.joules_per_token,
        then.memory.total / now.memory.total,
    )
    assert tuple(row[1:7]) == tuple(map(change, factors))
    assert row[7] == "unchanged"
    accuracy = {cells[-2]: cells[7] for cells in best.cells}
    assert accuracy["--precision weights=int4"] == "to be measured"


def test_plain_words(reports: dict[str, Finished]) -> None:
    for done in reports.values():
        said = [s for part in done.sections for text in part.text for s in spoken(re.sub(r"`[^`]+`", "CODE", text))]
        assert [s for s in said if length(s) > LONGEST] == []
        assert [s for s in said if quaint(s)] == []


def test_what_does_not_fit_says_so_first() -> None:
    done = rl.report(V3, on="h200-sxm", batch=4)
    assert done.sections[0].text[0].startswith("It does not fit: ")
    assert "8 chips" in done.sections[0].text[0]


# -- a real browser ------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def pages(reports: dict[str, Finished], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Their pages."""
    folder = tmp_path_factory.mktemp("reports")
    every = {model: folder / f"{i}.html" for i, model in enumerate(reports)}
    for model, path in every.items():
        path.write_text(html(reports[model]), encoding="utf-8")
    return every


@needs_chromium
def test_the_first_screen_has_verdict_cards_picture_limits_and_changes(pages: dict[str, Path]) -> None:
    with watched() as seen:
        seen.tab.set_viewport_size({"width": 1300, "height": 900})
        for path in pages.values():
            seen.tab.goto(path.as_uri())
            for part in (".verdict", ".card:last-child", "figure svg", "h3", ".best li"):
                box = seen.tab.locator(part).first.bounding_box()
                assert 0 <= box["y"] < 900, part
            bottom = seen.tab.locator("figure svg").first.bounding_box()
            assert bottom["y"] + bottom["height"] <= 950
    assert seen.said == []


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_for_readers_of_screens(pages: dict[str, Path], theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe, of the test extra, is missing").Axe
    with watched() as seen:
        seen.tab.emulate_media(color_scheme=theme)
        for path, (width, height) in product(pages.values(), WIDTHS.items()):
            seen.tab.set_viewport_size({"width": width, "height": height})
            seen.tab.goto(path.as_uri())
            assert seen.tab.evaluate("document.documentElement.scrollWidth") <= width
            violations = axe().run(seen.tab, options={"resultTypes": ["violations"]}).response["violations"]
            serious = [v for v in violations if v["impact"] in ("serious", "critical")]
            assert [(v["id"], v["nodes"][0]["html"][:200]) for v in serious] == [], (path.name, width)


@needs_chromium
def test_pictures_follow_the_theme(pages: dict[str, Path]) -> None:
    """Ink on paper, of the page and of its pictures, is dark on light or light on dark."""
    lightness = """() => [document.body, document.querySelector("figure svg text")].map(
        (x, i) => getComputedStyle(x)[i ? "fill" : "backgroundColor"].match(/\\d+/g).slice(0, 3).map(Number)
            .reduce((a, b) => a + b) / 765)"""
    with watched() as seen:
        for theme, light in (("light", True), ("dark", False)):
            seen.tab.emulate_media(color_scheme=theme)
            seen.tab.goto(pages[LLAMA].as_uri())
            paper, ink = seen.tab.evaluate(lightness)
            assert (paper > 0.9, ink < 0.5) == (light, light)
            assert abs(paper - ink) > 0.5


@needs_chromium
def test_print_is_on_white_without_what_only_a_screen_needs(pages: dict[str, Path]) -> None:
    with watched() as seen:
        seen.tab.emulate_media(media="print", color_scheme="dark")
        seen.tab.goto(pages[LLAMA].as_uri())
        paper = seen.tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
        assert not seen.tab.locator("nav").is_visible()
        assert seen.tab.pdf(format="A4").startswith(b"%PDF")
