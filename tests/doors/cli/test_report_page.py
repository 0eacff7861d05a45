"""The report's page in a real browser: its first screen, themes, widths, paper, and readers of screens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from browser import needs_chromium, watched
from folded import folded
from plain import LONGEST, length, spoken
from roofline.views.report.completed import Finished
from roofline.views.report.parts.subject import report_on
from roofline.views.report.parts.summary import best_changes, cards, changes_table, slower_phase, verdict_lines
from roofline.views.report.picture import theme_styles

LATENCIES = ("expected", "low", "high")
LLAMA, V3 = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"
FIRST, PHONE, TABLET = (1300, 900), (390, 844), (768, 1000)
TOP = "s => document.querySelector(s).getBoundingClientRect().top"
BOTTOM = "s => document.querySelector(s).getBoundingClientRect().bottom"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def progress() -> list[str]:
    """The parts that were named while the report was made and written."""
    return []


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the report is written."""
    return tmp_path_factory.mktemp("written") / "r.html"


@pytest.fixture(scope="module")
def llama(progress: list[str], written: Path) -> Finished:
    return rl.report(LLAMA, on="h100-sxm", output=written, progress=lambda number, total, part: progress.append(part))


@pytest.fixture(scope="module")
def v3() -> Finished:
    return rl.report(V3, on="8xh200-sxm", layout="tp=8")


@pytest.fixture(scope="module")
def llama_page(llama: Finished, written: Path) -> str:
    return written.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tab(llama_page: str, v3_page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A tab, and the pages of both models in a folder."""
    folder = tmp_path_factory.mktemp("pages")
    for name, text in (("llama", llama_page), ("v3", v3_page.read_text(encoding="utf-8"))):
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    with watched() as seen:
        seen.tab.folder = folder
        yield seen.tab


def shown(tab: Any, name: str, size: tuple[int, int] = FIRST, theme: str = "light", media: str = "screen") -> Any:
    """The tab at a page."""
    tab.set_viewport_size({"width": size[0], "height": size[1]})
    tab.emulate_media(color_scheme=theme, media=media)
    tab.goto((tab.folder / f"{name}.html").as_uri())
    return tab


# -- figures -------------------------------------------------------------------------------------------------------
def test_cards_are_the_library_s(llama: Finished) -> None:
    """TTFT, TPOT, tokens/s, price and memory of `generate`, put into words here a second time."""
    g: Any = rl.generate(rl.load(LLAMA), on="h100-sxm", batch=16, input=1024, output=256, engine="vllm").to_dict()
    ttft, tpot, rate, memory = cards(llama.of)
    assert (ttft.name, tpot.name, rate.name, memory.name) == ("TTFT", "TPOT", "Throughput", "Memory")
    assert ttft.value == f"{1e3 * g['ttft']['expected']:.3g} ms"
    assert ttft.interval == f"{1e3 * g['ttft']['low']:.3g} ms to {1e3 * g['ttft']['high']:.3g} ms"
    assert tpot.value == f"{1e3 * g['tpot']['expected']:.3g} ms"
    assert f"{1 / g['tpot']['expected']:.1f} tokens/s per user" in tpot.more
    tokens, latency = 16 * 256, g["latency"]
    assert rate.value == f"{tokens / latency['expected']:,.0f} tokens/s"
    assert rate.interval == f"{tokens / latency['high']:,.0f} to {tokens / latency['low']:,.0f} tokens/s"
    price = llama.of.deployment.chip.price
    assert price is not None
    dollars = [price.usd_per_hour / 3600 * latency[k] / tokens * 1e6 for k in LATENCIES]
    assert rate.more[0] == "${:,.2f} per million generated tokens (${:,.2f} to ${:,.2f})".format(*dollars)
    assert memory.value == f"{g['memory']['total'] / 1e9:.2f} GB"
    assert memory.full == g["memory"]["total"] / g["memory"]["capacity"]


def test_the_verdict_says_whether_it_fits_how_fast_and_what_to_change(llama: Finished, v3: Finished) -> None:
    first, second = verdict_lines(llama.of)
    g = llama.of.generation
    assert first.startswith("It fits, with 21.33 GB of 85.90 GB")
    assert f"{float(g.tokens_per_second):,.0f} tokens/s" in first
    wait = 1 - float(g.ttft.expected / g.latency.expected)
    phase, part = slower_phase(g)
    assert (phase, f"{part:.12f}") == ("decode", f"{wait:.12f}")
    assert f"Decode takes {100 * wait:.1f} % of the time and is memory bound." in second
    assert best_changes(v3.of)[0].what in verdict_lines(v3.of)[1]
    none = report_on(rl.load("meta-llama/Llama-3.1-70B"), on=["h100-sxm"], batch=1, input=64, output_tokens=8)
    assert verdict_lines(none)[0].startswith("It does not fit: a chip would need")
    one = report_on(rl.load("openai-community/gpt2"), on=["l4"], batch=1, input=64, output_tokens=1)
    assert cards(one)[1].value == "–"
    assert "Prefill takes 100.0 % of the time" in verdict_lines(one)[1]


def test_best_changes_say_everything_that_they_change(llama: Finished) -> None:
    """A change's column is what `generate` gives with its option."""
    table = changes_table(llama.of)
    assert table is not None
    (column,) = (i for i, c in enumerate(table.columns) if c.name == "weights in 8 bits")
    cells = {row[0]: row[column] for row in table.rows}
    settings: dict[str, Any] = {"on": "h100-sxm", "batch": 16, "input": 1024, "output": 256, "engine": "vllm"}
    now, then = (rl.generate(rl.load(LLAMA), **settings, precision=p) for p in (None, "weights=fp8"))

    def percent(a: float, b: float) -> str:
        return f"({100 * (a / b - 1):+.0f} %)".replace("-", "−")

    assert cells["Option"] == "--precision weights=fp8"
    assert cells["TPOT"] == f"{1e3 * then.tpot.expected:.3g} ms {percent(then.tpot.expected, now.tpot.expected)}"
    assert cells["TTFT"].endswith(percent(then.ttft.expected, now.ttft.expected))
    assert cells["Memory of a chip"].startswith(f"{then.memory.total / 1e9:.2f} GB")
    each = then.usd_per_million_tokens, now.usd_per_million_tokens
    assert cells["USD per million generated tokens"] == f"{each[0]:.2f} {percent(*each)}"
    joules = then.joules_per_token, now.joules_per_token
    assert cells["Energy per token"] == f"{joules[0]:.3g} J {percent(*joules)}"
    assert cells["Quality"] == "answers may change"
    batch = next(i for i, c in enumerate(table.columns) if c.name.startswith("a batch of"))
    assert next(row[batch] for row in table.rows if row[0] == "Quality") == "unchanged"


def test_pictures_have_words_and_the_colours_of_the_page(llama: Finished, llama_page: str) -> None:
    text = llama_page
    pictures = re.findall(r"<svg[^>]*>", text)
    assert len(pictures) == sum(len(s.pictures) for s in llama.sections)
    assert all('role="img"' in p and re.search(r'aria-label="[^"]{20,}"', p) for p in pictures)
    left = set(re.findall(r"#[0-9a-f]{6}\b", "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL)))) - {"#000000"}
    assert left <= {"#ffffff"}, left
    assert re.findall(r"var\(--(\w+)\)", text)
    names = set(re.findall(r"var\(--(\w+)\)", text)) - {"link", "full", "over", "soft"}
    assert names <= set(re.findall(r"--(\w+):", theme_styles()))


def test_no_sentence_of_a_report_is_long(llama: Finished, v3: Finished) -> None:
    texts = [line for done in (llama, v3) for part in done.sections for line in part.text]
    assert [s for line in texts for s in spoken(line) if length(s) > LONGEST] == []


# -- a browser -----------------------------------------------------------------------------------------------------
@needs_chromium
@pytest.mark.parametrize("name", ["llama", "v3"])
def test_the_first_screen_has_verdict_cards_and_roofline(tab: Any, name: str) -> None:
    shown(tab, name)
    assert tab.inner_text(".verdict").startswith("It fits")
    assert tab.locator(".card").count() == 4
    assert tab.evaluate(BOTTOM, ".cards") < 450
    assert tab.evaluate(TOP, ".first svg") < 450
    assert tab.evaluate(TOP, "nav ol") < 200
    whole = tab.evaluate("document.querySelector('.first svg').getBoundingClientRect().width")
    assert whole > 550


@needs_chromium
@folded("size", [PHONE, TABLET, FIRST], ids=str)
@folded("name", ["llama", "v3"])
def test_nothing_is_wider_than_the_window(tab: Any, name: str, size: tuple[int, int]) -> None:
    shown(tab, name, size)
    assert tab.evaluate(WIDER) == 0
    tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.evaluate(WIDER) == 0


@needs_chromium
def test_paper_is_white_and_cuts_no_table(tab: Any) -> None:
    """A4 less its margins is 703 CSS pixels wide."""
    shown(tab, "v3", (703, 1000), "dark", "print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    beyond = "filter(x => x.getBoundingClientRect().right > innerWidth + 1).map(x => x.outerHTML.slice(0, 80))"
    assert tab.evaluate(f"[...document.querySelectorAll('table, svg')].{beyond}") == []
    assert not tab.is_visible("nav")


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, TABLET, FIRST], ids=str)
@pytest.mark.drawn(1)
def test_axe_finds_nothing_serious(tab: Any, size: tuple[int, int], theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe, of the test extra, is missing").Axe
    shown(tab, "v3", size, theme)
    violations = axe().run(tab, options={"resultTypes": ["violations"], "selectors": False}).response["violations"]
    grave = [v for v in violations if v["impact"] in ("serious", "critical")]
    assert [(v["id"], [n["html"][:90] for n in v["nodes"][:3]]) for v in grave] == []


@needs_chromium
def test_the_keyboard_reaches_contents_and_everything_that_scrolls(tab: Any) -> None:
    shown(tab, "llama", PHONE)
    scrolls = "[...document.querySelectorAll('.wide')].filter(x => x.scrollWidth > x.clientWidth)"
    assert tab.evaluate(f"{scrolls}.length") > 3
    assert tab.evaluate(f"{scrolls}.every(x => x.tabIndex === 0 && x.ariaLabel)")
    links = tab.eval_on_selector_all("nav a", "all => all.map(a => document.querySelector(a.hash)?.tagName)")
    assert len(links) > 8
    assert set(links) == {"H2"}


def test_the_page_is_a_file_that_asks_for_nothing(llama: Finished, llama_page: str, progress: list[str]) -> None:
    assert not re.findall(r'(?:src|href)="(?!#|data:)', llama_page)
    assert not re.findall(r"url\((?!#)", llama_page)
    assert [s.title for s in llama.sections] == progress[: len(llama.sections)]
    assert sum(part.startswith("picture of") for part in progress) == sum(len(s.pictures) for s in llama.sections)
