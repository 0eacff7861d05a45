"""The page in a real browser: every view, every control, the address, readers of screens, and whom it contacts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from browser import needs_chromium, watched
from roofline.declared.question import question_settings
from roofline.doors.web.page.export import ASKED
from roofline.doors.web.page.scenario import ASKS as ASKED_BY
from roofline.doors.web.page.scenario import Scenario, SettingValue, asked_body, scenario_of, usual
from served_page import CARDS, DRAWN, Page, page_server

pytestmark = needs_chromium
expect = pytest.importorskip("playwright.sync_api", reason="playwright, of the test extra, is not installed").expect
VIEWS = ("overview", "roofline", "memory", "serving", "encoding", "sweep", "training", "simulation", "advice",
         "running", "machines", "structure", "compare", "away")  # fmt: skip
MODEL, ON = "meta-llama/Llama-3.1-8B", "h100-sxm"
LARGE = "meta-llama/Llama-3.3-70B-Instruct"
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


@pytest.mark.parametrize("model", ["google-bert/bert-base-uncased", "openai/clip-vit-large-patch14"])
def test_a_model_that_reads_its_input_as_a_whole(page: Page, address: str, model: str) -> None:
    """Its verdict and its first view are those of `encode`; a model that generates is shown as before again."""
    page.fresh(address)
    page.set_to("model", model)
    page.tab.wait_for_function("() => document.querySelector('#tab-encoding').ariaSelected === 'true'")
    page.tab.wait_for_function("() => document.querySelectorAll('#verdict .card b').length === 6")
    answer = rl.encode(model, on=ON, input=512) if model.startswith("google") else rl.encode(model, on=ON)
    shown = page.sees("[...document.querySelectorAll('#verdict .card b')].map((b) => b.textContent)")
    assert float(shown[1].replace(",", "")) == pytest.approx(answer.inputs_per_second, rel=5e-3)
    assert page.tab.inner_text("#verdict h2").startswith(f"{model} · {ON}: fits")
    assert page.tab.is_hidden("#problem")
    page.set_to("model", MODEL)
    page.tab.wait_for_function("() => document.querySelector('#tab-overview').ariaSelected === 'true'")
    assert page.tab.is_hidden("#problem")


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
        lambda: page.slide("output_tokens", 8),
        lambda: page.slide("concurrency", -8),
        lambda: page.set_to("precision", "fp8"),
        lambda: page.set_to("on", "8xh100-sxm"),
        lambda: page.set_to("layout", "tp=4"),
        lambda: page.set_to("law", "ideal"),
        lambda: page.set_to("engine", "sglang"),
        lambda: page.set_to("model", "Qwen/Qwen3-8B"),
        lambda: page.set_to("rate", "3"),
        lambda: page.set_to("ttft", "100ms"),
        lambda: page.set_to("tpot", "9ms"),
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


def test_limits_are_of_most_requests_and_of_the_mean_on_request(page: Page, address: str, whole: bool) -> None:
    """In the headline, in the picture of the server, and among the ways to serve; by day without the share of 90 %."""
    served: Any = rl.serve(MODEL, on=ON, input=1024, output=256, concurrency=32)
    between = f"{1e3 * (served.tpot.expected + served.percentiles.tpot.p99) / 2:.3f}ms"
    for attainment, of, sign, whose in (
        (None, " p99", ">", "99.0 % of requests within"), ("0.9", " p90", ">", "90.0 % of requests within"),
        ("mean", "", "≤", "means within"),
    )[:: 1 if whole else 2]:  # fmt: skip
        page.fresh(address)
        page.set_to("tpot", between if of != " p90" else f"{1e3 * served.tpot.expected:.3f}ms")
        if attainment is not None:
            page.set_to("attainment", attainment)
        assert f"TPOT{of} {sign} " in page.tab.inner_text("#verdict .headline")
        page.open("serving")
        titles = page.sees("[...document.querySelectorAll('#view .plot')].map((p) => p.layout.xaxis.title.text)")
        assert titles[0] == f"TPOT{of} (ms)"
        page.open("advice")
        assert whose in page.tab.inner_text("#view")
        assert f"TPOT{of}" in page.sees("[...document.querySelectorAll('#view th')].map((cell) => cell.innerText)")
    page.set_to("tpot", "1us")
    assert "nearest to the limits: TPOT" in page.tab.inner_text("#view")


def test_the_page_asks_what_its_export_computes(page: Page, address: str) -> None:
    page.fresh(address)
    more: dict[str, SettingValue] = {
        "concurrency": 300, "layout": "tp=1", "precision": "fp8", "input": 77, "prefix": 0.25, "draft_length": 2,
        "draft": "none", "acceptance": 0.5, "formula": False, "price": "own(30000)", "utilisation": 1.0, "grid": "fr",
        "text_only": True, "images": 2, "image_size": "64x64", "frames": 4,
    }  # fmt: skip
    full = Scenario(settings={**usual(), **more}, phase="prefill")
    for scenario in (Scenario(), full, scenario_of(rate=2.5, law="calibrated")):
        asks = page.sees(ASKS, {**scenario.settings, "phase": scenario.phase})
        for view in ASKED:
            assert asks[view] == json.dumps(scenario.body(view)[1], separators=(",", ":")), view


def test_the_page_asks_nothing_that_its_routes_do_not_take(page: Page, address: str) -> None:
    """Not one field too many, with every setting of a scenario given and with none."""
    page.fresh(address)
    given = {"layout": "tp=1", "precision": "fp8", "engine": "vllm", "law": "ideal", "price": "2", "grid": "fr",
             "pue": 1.2, "ttft": "300ms", "tpot": "10ms"}  # fmt: skip
    for more in ({}, given):
        for view, text in page.sees(ASKS, more).items():
            beside = {"op": "qkv_proj"} if view == "explain" else {}
            asked_body(ASKED_BY[view].question).model_validate({**json.loads(text), **beside})


EVERY = """() => ROWS.map((id) => {
  const field = document.getElementById(id), hint = document.getElementById(field.getAttribute("aria-describedby"));
  return [id, field.labels.length, hint.textContent];
})"""


def test_every_setting_of_a_server_has_a_control_that_says_what_it_is(page: Page, address: str) -> None:
    page.fresh(address)
    declared = question_settings(rl.serve)
    for name, labels, hint in page.sees(EVERY.replace("ROWS", json.dumps(list(declared)))):
        assert labels == 1, name
        assert hint.startswith(declared[name].help.replace("`", "")), name
        assert declared[name].kind.unit in hint, name


SET_ALL = """async (given) => {
  const page = await import("/static/state.js"), known = Object.keys(page.form.settings);
  page.take({ scenarios: [given] });
  const kept = await page.encoded();
  page.take({ scenarios: [{}] });
  await page.decoded(kept);
  return [page.now(), page.asks.serve(page.now())];
}"""


def test_every_setting_goes_into_the_address_and_the_body(page: Page, address: str) -> None:
    page.fresh(address)
    for name, setting in question_settings(rl.serve).items():
        kind = setting.kind
        value: SettingValue = (
            not setting.default if bool in kind.json else "x" if str in kind.json else 0.5 if float in kind.json else 3
        )
        kept, body = page.sees(SET_ALL, {"model": MODEL, name: value})
        assert (kept[name], body[name]) == (value, value), name


def test_addresses_of_former_releases_still_load(page: Page, address: str) -> None:
    """With `output`, SLOs in milliseconds and empty texts; what is no setting is left out."""
    page.fresh(address)
    old = {
        "model": MODEL, "config": None, "on": "h200", "layout": "", "precision": "fp8", "engine": "", "law": "ideal",
        "input": 99, "output": 77, "concurrency": 5, "rate": None, "phase": "prefill", "ttft": 300, "tpot": None,
        "price": "2.5", "grid": "", "pue": 1.5, "trainBatch": 8, "__proto__": 1, "nonsense": 2, "seed": "x",
    }  # fmt: skip
    kept, body = page.sees(SET_ALL, old)
    assert body == {"model": MODEL, "on": "h200", "precision": "fp8", "law": "ideal", "input": 99, "output_tokens": 77,
                    "concurrency": 5, "price": 2.5, "pue": 1.5}  # fmt: skip
    assert (kept["ttft"], kept["phase"], kept["trainBatch"], kept["seed"]) == ("300ms", "prefill", 8, 0)
    assert "nonsense" not in kept


def test_a_setting_that_a_view_does_not_take_is_said(page: Page, address: str) -> None:
    page.fresh(address)
    page.tab.click("#all summary")
    page.set_to("draft", "none")
    assert page.tab.inner_text("#view-without") == "Not part of this view: Draft model"
    page.open("serving")
    assert page.tab.inner_text("#view-without") == ""


LINK = """async (given) => {
  const page = await import("/static/state.js");
  page.take({ scenarios: [{ ...page.FRESH, ...given }] });
  return page.encoded();
}"""


def test_pools_have_cards_too(page: Page, address: str) -> None:
    page.fresh(address)
    link = page.sees(LINK, {"layout": "tp=1", "prefill_layout": "tp=1", "chips": 4})
    page.fresh(f"{address}#{link}")
    served: Any = rl.serve(
        MODEL, on=ON, layout="tp=1", prefill_layout="tp=1", chips=4, input=1024, output_tokens=256, concurrency=32
    )
    assert f"{served.prefills} × one chip (prefill) + {served.decodes} × one chip" in page.tab.inner_text("h2 small")
    assert f"{served.tokens_per_second:,.0f}" in page.sees(CARDS)[3]
    assert page.tab.input_value("#chips") == "4"
    assert page.tab.is_visible("#chips")


STRUCK = "[...document.querySelectorAll('%s .card')].map((card) => [...card.querySelectorAll('s')].length)"
ALONE = "[...document.querySelectorAll('%s .card')].map((card) => card.querySelector('.struck .hidden')?.textContent)"
MAP = """(() => {
  const [none, some] = [...document.querySelectorAll('#view .plot')].at(-1).data;
  return [none.text, none.customdata, some.text, some.z];
})()"""


def would_fit(model: str, on: str) -> str:
    """The line that says what would make the page's first question fit, of the library's own remedies."""
    fit = rl.fit(model, on=on, batch=32, context=1280)
    ways = [f"{fit.fewest_chips} chips ({fit.fewest_layout})" if c.what == "chips" else c.detail for c in fit.changes]
    assert ways
    return "It would fit with: " + " or ".join(ways)


def test_figures_of_what_does_not_fit_are_struck_out(page: Page, address: str) -> None:
    page.fresh(address)
    page.set_to("model", LARGE)
    assert page.tab.inner_text("#verdict h2").startswith(f"Does not fit (bf16): {LARGE}")
    assert page.tab.inner_text("#verdict .would") == would_fit(LARGE, ON)
    assert page.sees(STRUCK % "#verdict") == [2, 2, 2, 2, 0, 0, 2, 2]
    assert page.sees(ALONE % "#verdict")[3] == "does not fit: "
    assert page.sees(STRUCK % "#view") == [2, 2, 0, 2]
    assert page.tab.inner_text("#view .card:last-child s >> nth=0") == "A"
    assert "does not fit" in page.tab.inner_text("#view section >> nth=0")
    page.open("training")
    memory = rl.train(LARGE, on=ON, batch=64, tokens=4096).memory
    needed = f"{memory.total / 1e12:.2f} TB of {memory.capacity / 1e9:.1f} GB"
    assert needed in page.tab.inner_text("#view .misfit")
    assert page.sees(STRUCK % "#view") == [2, 2, 2, 1]
    page.tab.wait_for_selector("#view .misfit b")
    assert page.sees("document.querySelectorAll('#view table s').length") == 3
    for view in ("memory", "serving", "simulation", "away"):
        page.open(view)
        assert would_fit(LARGE, ON) in page.tab.inner_text("#view .misfit"), view
    page.tab.get_by_role("button", name="Run").nth(1).click()
    page.tab.wait_for_selector("#view .misfit >> nth=1")
    assert needed in page.tab.inner_text("#view .misfit >> nth=1")
    assert page.tab.locator("#view .misfit >> nth=1").locator(".would b").count() >= 1
    assert page.tab.locator("#view pre[aria-label=megatron]").count() == 0
    assert page.seen.said == []


def test_cells_of_the_map_that_do_not_fit_have_no_time(page: Page, address: str) -> None:
    page.fresh(address)
    page.open("sweep")
    crossed, said, times, colours = page.sees(MAP)
    batches, contexts = [1 << i for i in range(9)], [512, 2048, 8192, 32768]
    fits = [[rl.estimate(MODEL, rl.decode(b, c), on=ON).memory.fits for b in batches] for c in contexts]
    assert [[not cell for cell in row] for row in crossed] == fits
    assert [[cell is not None for cell in row] for row in colours] == fits
    assert [[bool(cell) for cell in row] for row in times] == fits
    assert not fits[3][8]
    assert said[3][8].startswith("does not fit: 1.12 TB of 85.9 GB")
    shown = page.sees("[...document.querySelectorAll('#view .plot')][0].data.map((d) => d.y.map((y) => y !== null))")
    assert shown == fits


def test_nothing_is_compared_with_what_does_not_fit(page: Page, address: str) -> None:
    page.fresh(address)
    page.set_to("model", LARGE)
    page.answers(lambda: page.tab.click("#scenarios button"))
    page.set_to("on", "8xh100-sxm")
    page.open("compare")
    rows = page.sees(
        "[...document.querySelectorAll('#view tbody tr')].map((r) => [...r.children].map((c) => c.innerText))"
    )
    said = {row[0]: row[1:] for row in rows}
    struck = page.sees("[...document.querySelectorAll('#view tbody tr')].map((r) => r.querySelectorAll('s').length)")
    assert said["Fits"] == ["does not fit", "fits"]
    assert "%" not in said["Generated tokens/s"][1]
    assert said["Memory"][1].endswith("%)")
    assert dict(zip(said, struck, strict=True))["Generated tokens/s"] == 1
    assert dict(zip(said, struck, strict=True))["Memory"] == 0


def test_an_old_answer_is_faded_and_says_what_it_was_for(page: Page, address: str) -> None:
    page.fresh(address)
    cards = {part: page.tab.locator(f"#{part} .card b").first for part in ("verdict", "view")}
    muted, full = "rgb(88, 96, 106)", cards["verdict"].evaluate("(value) => getComputedStyle(value).color")
    page.tab.fill("#on", "h1000")
    page.tab.locator("#on").blur()
    page.tab.wait_for_selector("#view.wrong")
    was = f"Previous answer, for {MODEL} · {ON} · 1,024 → 256 tokens · 32 in flight"
    for part in ("verdict", "view"):
        assert page.tab.inner_text(f"#{part}-was") == was
        expect(cards[part]).to_have_css("color", muted)  # colours fade
        expect(cards[part]).to_have_css("text-decoration-line", "line-through")
    assert muted != full
    page.seen.said.clear()  # the browser itself logs the 422
    page.set_to("on", ON)
    assert page.tab.inner_text("#verdict-was") + page.tab.inner_text("#view-was") == ""
    expect(cards["verdict"]).to_have_css("color", full)
    waiting: list[Any] = []
    page.tab.route("**/api/v1/batch", lambda request: waiting.append(request))
    page.tab.fill("#on", "h200")
    page.tab.locator("#on").blur()
    page.tab.wait_for_timeout(400)
    assert page.tab.get_attribute("#verdict", "aria-busy") == "true"
    for part in ("verdict", "view"):
        expect(cards[part]).to_have_css("color", muted)
    assert page.tab.inner_text("#verdict h2").endswith("previous answer")
    page.tab.click("#tab-memory")
    page.tab.wait_for_timeout(400)
    assert page.tab.inner_text("#view") == "Working …"  # and no longer the overview
    page.tab.unroute("**/api/v1/batch")
    page.open("overview")
    assert page.tab.get_attribute("#verdict", "aria-busy") == "false"
    expect(cards["verdict"]).to_have_css("color", full)


FIRST = "#verdict .first[aria-busy=false]"


def test_the_verdict_is_before_all_figures(page: Page, address: str) -> None:
    """Whether it fits, in which formats, what would make it fit, and what `roofline MODEL --on MACHINE` answers."""
    page.fresh(address)
    page.tab.wait_for_selector(FIRST)
    order = "[...document.querySelectorAll('#verdict > *')].map((node) => node.className)"
    assert page.sees(order) == ["headline", "first", "cards", "note assumed"]
    assert page.tab.inner_text("#verdict h2").startswith(f"{MODEL} · {ON}: fits (bf16)\n")
    page.set_to("precision", "weights=int4,kv=fp8")
    formats = rl.fit(MODEL, on=ON, precision="weights=int4,kv=fp8", batch=32, context=1280).formats.text()
    assert f"fits ({formats})" in page.tab.inner_text("#verdict h2")
    page.set_to("precision", "")
    page.set_to("model", LARGE)
    page.tab.wait_for_selector(FIRST)
    assert page.sees(order) == ["headline", "would", "first", "cards", "note assumed"]
    first = page.tab.inner_text("#verdict .first")
    answer = rl.answer(LARGE, on=ON, input=1024, output_tokens=256)
    (machine,) = answer.machines
    assert (machine.formats, machine.option) == ("fp8", "--precision weights=int4")
    assert machine.plan is not None
    assert f"yes, {machine.formats}, where answers may change" in first
    assert f"{machine.plan.tokens_per_second:,.0f} tokens/s · {machine.plan.concurrency} in flight" in first
    assert f"${machine.plan.usd_per_million_output:.2f} generated · ${machine.plan.usd_per_hour:.2f} an hour" in first
    assert f"{machine.change}: {machine.option} (× {machine.gain:.2f} tokens/s per chip)" in first
    assert f"roofline {LARGE} --input 1024 --output-tokens 256 --on {ON}" in first


def test_remedies_of_the_first_answer(page: Page, address: str) -> None:
    page.fresh(address)
    page.set_to("model", "deepseek-ai/DeepSeek-V3")
    page.tab.wait_for_selector(FIRST)
    first = page.tab.inner_text("#verdict .first")
    (machine,) = rl.answer("deepseek-ai/DeepSeek-V3", on=ON, input=1024, output_tokens=256).machines
    assert not machine.fits
    assert "It would fit with: " + " or ".join(machine.remedies) in first
    assert "tokens/s" not in first
    assert "Grade" not in page.tab.inner_text("#verdict > .assumed")


def test_what_is_shown_fades_as_soon_as_a_control_is_touched(page: Page, address: str) -> None:
    """At the first key, before anything is asked; and comes back where the text is as it was."""
    page.fresh(address)
    both = "[...document.querySelectorAll('#verdict, #view')].map((node) => node.classList.contains('old'))"
    assert page.sees(both) == [False, False]
    page.tab.locator("#on").press("End")
    page.tab.locator("#on").press("x")
    assert page.sees(both) == [True, True]
    page.tab.locator("#on").press("Backspace")
    page.tab.locator("#on").blur()
    page.tab.wait_for_function("() => !document.querySelector('#verdict.old, #view.old')")
    seen = page.sees(
        "(() => { const s = document.getElementById('concurrency'); s.value = 8; "
        f"s.dispatchEvent(new Event('input', {{ bubbles: true }})); return {both}; }})()"
    )
    assert seen == [True, True]
    page.tab.wait_for_function("() => !document.querySelector('#verdict.old, #view.old')")
    page.open("machines")
    page.tab.fill("#more-users", "7")
    assert page.sees(both) == [True, True]
    page.answers(lambda: page.tab.locator("#more-users").blur())
    assert page.sees(both) == [False, False]


ROWS = "[...document.querySelectorAll('#view table')].map((t) => [...t.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.innerText)))"  # noqa: E501


def test_which_machine_is_the_choice_of_the_command(page: Page, address: str, whole: bool) -> None:
    """By day of documents alone, of which machines serve few."""
    page.fresh(address)
    page.set_to("model", LARGE)
    page.open("machines")
    for settings, asked in (
        ({}, {"users": 50}),
        ({"demandBy": "day", "requestsADay": "5000", "work": "documents", "reads": "yes"},
         {"requests_a_day": 5000, "work": "documents", "reading_speed": True}),
        ({"requestsADay": "100000"}, {"requests_a_day": 100_000, "work": "documents", "reading_speed": True}),
    )[slice(None) if whole else slice(1, 2)]:  # fmt: skip
        for name, value in settings.items():
            page.set_to(f"more-{name}", value)
        choice = rl.machines(LARGE, **asked)
        able = [row for row in choice.machines if row.plan is not None]
        unable = [row for row in choice.machines if row.plan is None]
        tables = page.sees(ROWS)
        assert len(tables) == bool(able) + bool(unable)
        rows, left = (tables[0] if able else []), (tables[-1] if unable else [])
        assert [row[1] for row in rows] == [row.machine for row in able]
        assert [row[0] == "≈" for row in rows] == [row.equal for row in able]
        assert left == [[row.machine, row.why] for row in unable]
        assert bool(able) == (asked.get("requests_a_day") != 100_000)
        for shown, row in zip(rows, able, strict=True):
            plan = row.plan
            assert plan is not None
            assert shown[4:6] == [f"{plan.replicas} × {plan.layout}", f"{plan.chips:,}"]
            assert shown[2:4] == [f"${plan.usd_per_hour:,.2f}", f"${row.usd_per_month:,.2f}"]
            assert shown[6] == f"{100 * plan.chance:.1f} %"
            assert shown[7] == f"{plan.power:,.0f} W ({row.power_low:,.0f} – {row.power_high:,.0f})"
        command = page.tab.inner_text("#view pre")
        assert command.startswith(f"roofline machines {LARGE} ")
    assert f"--requests-a-day {asked['requests_a_day']} --work documents --reading-speed" in command
    page.set_to("more-demandBy", "users")
    waiting: list[Any] = []
    page.tab.route("**/api/v1/machines", lambda request: waiting.append(request))
    page.tab.fill("#more-users", "11")
    page.tab.locator("#more-users").blur()
    page.tab.wait_for_selector("#view progress")
    page.tab.unroute("**/api/v1/machines")
    page.open("overview")


def test_results_are_above_controls_on_a_phone(page: Page, address: str) -> None:
    page.fresh(address)
    top = "(id) => document.getElementById(id).getBoundingClientRect().top"
    page.tab.wait_for_selector(FIRST)
    assert page.sees(top, "choose") == pytest.approx(page.sees(top, "main"), abs=40)
    assert not page.tab.is_visible("#to-controls")
    page.tab.set_viewport_size({"width": 390, "height": 800})
    assert page.sees(top, "main") < 200 < 800 < page.sees(top, "choose")
    page.tab.focus("#to-controls")
    page.tab.keyboard.press("Enter")
    assert page.sees("document.activeElement.id") == "model"
    assert -5 < page.sees(top, "choose") < 800
    page.tab.focus("#to-results")
    page.tab.keyboard.press("Enter")
    assert abs(page.sees(top, "main")) < 5
    page.tab.set_viewport_size({"width": 1200, "height": 900})


def test_tabs_are_reached_by_keys(page: Page, address: str) -> None:
    page.fresh(address)
    page.tab.focus("#tab-overview")
    for key, view in (("ArrowRight", "roofline"), ("ArrowLeft", "overview"), ("ArrowLeft", "away"),
                      ("Home", "overview"), ("End", "away")):  # fmt: skip
        page.answers(lambda key=key: page.tab.keyboard.press(key))
        assert page.sees("document.activeElement.id") == f"tab-{view}"
        assert page.tab.get_attribute(f"#tab-{view}", "aria-selected") == "true"
    for view, field in (("machines", "more-work"), ("training", "more-trainBatch")):
        page.open(view)
        page.tab.focus(f"#{field}")
        page.answers(lambda field=field: (page.tab.keyboard.press("ArrowDown"), page.tab.keyboard.press("Enter")))
        assert page.sees("document.activeElement.id") == field


ENDS = """async ([name, end, long]) => {
  const slider = document.getElementById(name);
  slider.value = slider[end];
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const state = await import("/static/state.js"), api = await import("/static/api.js"), s = state.now();
  const quick = ["serve", "front", "estimate", "plot", "analyze", "fit", "sweep"], problems = [];
  for (const view of [...quick, ...(long ? ["advice", "simulate"] : [])]) {
    const asked = api.ask(view === "front" ? "serve" : view, state.asks[view](s));
    await asked.catch((error) => problems.push(`${view}: ${error.message}`));
  }
  return [s.input, s.output_tokens, s.concurrency, problems];
}"""


@pytest.mark.drawn(1)
@pytest.mark.parametrize("model", [MODEL, "openai-community/gpt2"])
def test_every_end_of_a_slider_is_a_question(page: Page, address: str, model: str, whole: bool) -> None:
    """Long answers too where a slider ends at its most, which take minutes: not by day."""
    page.fresh(address)
    if model != MODEL:
        page.set_to("model", model)
    longest = rl.load(model).context
    assert longest is not None
    for name in ("input", "output_tokens", "concurrency"):
        for end in ("max", "min"):
            long = end == "max" and whole
            *sizes, problems = page.sees(ENDS, [name, end, long])
            assert problems == [], (name, end)
            if (name, end) == ("input", "max"):
                assert sizes[:2] == [longest - 256, 256]
    expect(page.tab.locator("#verdict")).to_have_attribute("aria-busy", "false")
    page.answers(lambda: page.sees(ENDS, ["output_tokens", "max", whole]))
    assert (
        page.sees("document.querySelector('output[for=output_tokens]').textContent") == f"{min(16384, longest - 16):,}"
    )


def test_prices_are_of_prompts_and_of_generated_tokens(page: Page, address: str) -> None:
    page.fresh(address)
    served: Any = rl.serve(MODEL, on=ON, input=1024, output=256, concurrency=32)
    each = 1024 * served.usd_per_million_input + 256 * served.usd_per_million_output
    assert each == pytest.approx(256 * served.usd_per_million_tokens)
    price = page.tab.inner_text("#verdict .card >> nth=6")
    assert price.lower().startswith("usd per million generated tokens")
    assert f"${served.usd_per_million_tokens:.2f}" in price
    apart = (
        f"${served.usd_per_million_input:.2g} per million prompt tokens, ${served.usd_per_million_output:.2f} generated"
    )
    assert f"by the time each takes: {apart}" in price
    page.open("training")
    assert "usd per million tokens trained" in page.tab.inner_text("#view .cards").lower()


def test_cards_say_what_they_assume(page: Page, address: str) -> None:
    page.fresh(address)
    assert page.tab.inner_text("#verdict > .assumed") == (
        "Assumed: 1,024 → 256 tokens · 32 requests always in flight, of varying length (means; a formula) · "
        f"vLLM 0.25 · Grade A · Roofline {rl.__version__} · price: 2.99 $/h a chip, assumed 2025-11 · "
        "utilisation: chips work all the time"
    )
    page.set_to("rate", "2.5")
    assert "2.5 requests/s at random times, of varying length (means; a formula)" in page.tab.inner_text(
        "#verdict > .assumed"
    )
    page.open("simulation")
    assert "Each request is followed; lengths vary as in served conversations." in page.tab.inner_text("#view .assumed")
    for view in [view for view in VIEWS if view not in ("simulation", "compare")]:
        page.open(view)
        said = page.tab.inner_text("#view .assumed >> nth=0")
        assert said.startswith("Assumed: "), view
        assert f"{'Megatron-LM 0.18' if view == 'training' else 'vLLM 0.25'} · " in said, view
        assert f"Roofline {rl.__version__}" in said, view


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


@pytest.mark.drawn(1)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_struck_out_figures_can_be_read(page: Page, address: str, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe, of the test extra, is missing").Axe
    page.tab.emulate_media(color_scheme=theme)
    page.fresh(address)
    page.set_to("model", LARGE)
    page.open("compare")
    wrong = [(v["id"], v["nodes"][0]["html"][:120]) for v in axe().run(page.tab, options=AXE).response["violations"]]
    page.tab.fill("#on", "h1000")
    page.tab.locator("#on").blur()
    page.tab.wait_for_selector("#verdict.wrong")
    wrong += [(v["id"], v["nodes"][0]["html"][:120]) for v in axe().run(page.tab, options=AXE).response["violations"]]
    page.tab.emulate_media(color_scheme="light")
    page.seen.said.clear()  # the browser itself logs the 422
    assert not wrong


@pytest.mark.drawn(1)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_for_readers_of_screens(page: Page, address: str, theme: str, whole: bool) -> None:
    """Every view in both colours, at every width; by day half of the views in one, and axe at one of the widths."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe, of the test extra, is missing").Axe
    page.tab.emulate_media(color_scheme=theme)
    page.fresh(address)
    page.tab.add_style_tag(content="* { transition: none !important }")
    wrong = []
    for i, view in enumerate(VIEWS):
        if not whole and i % 2 != (theme == "dark"):
            continue
        page.open(view)
        for j, (width, height) in enumerate(SIZES):
            page.tab.set_viewport_size({"width": width, "height": height})
            sideways = page.sees("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if sideways > 0:
                wrong.append((view, width, "sideways", sideways))
            if not whole and (i + j) % len(SIZES):
                continue
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
