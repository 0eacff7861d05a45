"""What the page hands over runs: its command lines and its Python lines give the page's own figures."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from browser import needs_chromium, watched
from roofline.doors.cli.main import main
from roofline.doors.web.allow_list import Allowed
from roofline.doors.web.questions import answered
from served_page import CARDS, Page, page_server
from small_gguf import write_gguf

pytestmark = needs_chromium
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "vocab_size": 32000,
    "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
}  # fmt: skip
SCENARIOS: tuple[dict[str, Any], ...] = (
    {},
    {"on": "8xh100-sxm", "layout": "tp=4,dp=2", "engine": "sglang", "precision": "weights=fp8,kv=fp8", "law": "ideal"},
    {"rate": 2.5, "phase": "prefill", "price": "own(30000,electricity=0.08)", "grid": "de", "pue": 1.3},
    {"config": CONFIG, "on": "peak=1000T,bw=4.8T,mem=141G", "grid": "0.35", "price": "2.5", "rate": 3, "input": 777},
    {
        "draft": "none",
        "draft_length": 2,
        "acceptance": 0.6,
        "prefix": 0.25,
        "formula": False,
        "tp": 2,
        "on": "2xh100-sxm",
    },
    {
        "on": "8xh100-sxm",
        "layout": "tp=1",
        "prefill_layout": "tp=2",
        "chips": 6,
        "price": "own(30000)",
        "years": 3,
        "utilisation": 0.5,
    },
)
TEXTS = """async (given) => {
  const state = await import("/static/state.js"), take = await import("/static/take.js");
  const api = await import("/static/api.js");
  const s = { ...state.FRESH, ...given }, asks = state.asks;
  const bodies = [["serve", asks.serve(s)], ["estimate", asks.estimate(s)], ["fit", asks.fit(s)]];
  return [take.commands(s), take.python(s), await Promise.all(bodies.map(([name, body]) => api.ask(name, body)))];
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with page_server(Allowed(own_machine=True)) as address, watched() as seen:
        page = Page(seen, seen.tab)
        page.answers(lambda: seen.tab.goto(address))
        yield page


def printed(line: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON of a command of `roofline`."""
    words = shlex.split(line)
    assert words[0] == "roofline"
    with suppress(SystemExit):  # 1 where the answer is no
        main([*words[1:], "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("given", SCENARIOS)
def test_lines_run_and_say_the_same(
    page: Page, given: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    lines, python, (served, estimate, fit) = page.sees(TEXTS, given)
    serve, analyze, fits = (printed(line, capsys) for line in lines.splitlines())
    assert {**serve, "model": served["model"]} == served
    assert {**fits, "model": fit["model"]} == fit
    (step,) = analyze["steps"]
    assert estimate["time"] in (step.get("time"), step.get("estimate", {}).get("time"))
    results: list[Any] = []
    exec(compile(python, "page", "exec"), {"print": results.append})
    for result, answer in zip(results, (served, estimate, fit), strict=True):
        told = json.loads(json.dumps(result.to_dict()))
        assert {**told, "model": answer["model"]} == answer


CHOICES = """async (given) => {
  const state = await import("/static/state.js"), take = await import("/static/take.js");
  const api = await import("/static/api.js"), s = { ...state.FRESH, ...given }, machines = state.asks.machines(s);
  const answers = await Promise.all([api.ask("answer", state.asks.answer(s)), api.ask("machines", machines)]);
  return [[take.firstCommand(s), take.line("machines", s, machines)], answers];
}"""


def test_the_first_answer_and_the_machines_are_those_of_their_commands(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"precision": "fp8", "tpot": "40ms", "price": "2.5", "users": 20, "work": "agents"}
    lines, answers = page.sees(CHOICES, given)
    assert [printed(line, capsys) for line in lines] == answers
    assert [answer["schema"] for answer in answers] == ["roofline.answer/1", "roofline.machines/1"]


def test_options_of_advice_belong_to_the_command_beside_them(
    page: Page, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    page.open("advice")
    command = page.tab.inner_text("#view pre")
    rows = page.sees(
        "[...document.querySelectorAll('#view table')][0].querySelectorAll('tbody tr').values()"
        ".map((r) => [...r.children].map((c) => c.innerText)).toArray()"
    )
    body = {"model": "meta-llama/Llama-3.1-8B", "on": "h100-sxm", "batch": 32, "input": 1024, "output": 256}
    told = answered("advice", body)
    assert [(row[0], row[1]) for row in rows] == [(change["what"], change["option"]) for change in told["changes"]]
    count = next(option for _, option, *_ in rows if option.startswith(("--batch", "--concurrency"))).split()[0]
    assert count in command
    options = list({option.split()[0]: option for _, option, *_ in rows}.values())  # the last of each name
    for option in [option for _, option, *_ in rows] if whole else options:
        name = option.split()[0]
        line = re.sub(rf"{name} \S+", option, command) if name in command else f"{command} {option}"
        assert printed(line, capsys)["schema"].startswith(("roofline.generat", "roofline.serve")), line


def test_what_is_shown_is_what_is_handed_over(page: Page) -> None:
    page.open("away")
    lines, python, _ = page.sees(TEXTS, {})
    assert page.tab.inner_text("#view pre >> nth=0") == lines
    assert page.tab.inner_text("#view pre >> nth=1") == python


def test_files_come_down(page: Page, tmp_path: Path) -> None:
    page.open("away")
    for name in ("serve.json", "scenario.json", "serve.csv", "serve.parquet", "report.html"):
        with page.tab.expect_download(timeout=30_000) as waiting:
            page.tab.get_by_role("button", name=name, exact=True).click()
        waiting.value.save_as(tmp_path / name)
        assert waiting.value.suggested_filename == name
        assert (tmp_path / name).stat().st_size > 100, name
    assert json.loads((tmp_path / "serve.json").read_text())["tpot"] == json.loads(
        json.dumps(rl.serve("meta-llama/Llama-3.1-8B", on="h100-sxm", input=1024, output=256, concurrency=32).to_dict())
    )["tpot"]  # fmt: skip


def test_launch_commands_and_configs(page: Page) -> None:
    page.open("away")
    page.set_to("more-launcher", "sglang")
    runs = page.tab.locator("#view section", has=page.tab.get_by_role("button", name="Run"))
    runs.nth(0).get_by_role("button", name="Run").click()
    page.tab.wait_for_selector("#view section pre[aria-label$='.sh']")
    assert "sglang" in page.tab.inner_text("#view section pre[aria-label$='.sh']")
    page.set_to("on", "8xh100-sxm")
    runs.nth(1).get_by_role("button", name="Run").click()
    page.tab.wait_for_selector("#view section pre[aria-label='megatron']")
    assert "tensor-model-parallel-size" in page.tab.inner_text("#view section pre[aria-label='megatron']")
    page.set_to("on", "h100-sxm")


def test_a_dropped_header_is_a_model(page: Page, tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf")
    page.tab.click("#paste summary")
    page.answers(lambda: page.tab.set_input_files("#file", tmp_path / "model.gguf"))
    assert page.sees("document.getElementById('model').value") == "GGUF (Small)"
    fit = rl.fit(rl.load(tmp_path / "model.gguf"), on="h100-sxm", batch=32, context=1280)
    assert f"{fit.memory.total / 1e6:.0f} MB" in page.sees(CARDS)[4]
    (tmp_path / "broken.gguf").write_bytes(b"GGUF but not really")
    page.tab.set_input_files("#file", tmp_path / "broken.gguf")
    page.tab.wait_for_selector("#problem:not([hidden])")
    page.seen.said.clear()
    page.set_to("model", "meta-llama/Llama-3.1-8B")


def test_what_runs_on_this_machine(page: Page) -> None:
    page.set_to("on", "here")
    page.open("running")
    assert page.tab.locator("#view table tbody tr").count() >= 7
    page.set_to("more-runsContext", "1000")
    assert "1,000 tokens" in page.tab.inner_text("#view")
    page.set_to("on", "h100-sxm")


def test_training_s_timeline_and_layouts(page: Page) -> None:
    page.seen.said.clear()
    page.set_to("on", "8xh100-sxm")
    page.set_to("layout", "pp=2,dp=4")
    page.open("training")
    assert page.tab.locator("#view .misfit").count() == 1  # 96.5 of 85.9 GB a chip: no times, so no timeline
    assert page.tab.locator("#view .plot").count() == 0
    page.set_to("layout", "pp=2,dp=4,zero=1")
    assert page.sees("document.querySelector('#view .plot').data.length") >= 2
    page.tab.get_by_role("button", name="Run").click()
    row = "#view section [aria-label='Search for layouts'] tbody tr"
    page.tab.wait_for_selector(row, timeout=60_000)
    shortest = page.tab.inner_text(row)
    page.set_to("more-trainAim", "chips")
    page.set_to("more-trainRun", "10")
    page.tab.get_by_role("button", name="Run").click()
    page.tab.wait_for_selector(row, timeout=60_000)
    assert page.tab.inner_text(row) != shortest
    assert page.seen.said == []


def test_training_s_step_has_adapters_packs_and_stragglers_and_its_run_spare_nodes(page: Page) -> None:
    page.seen.said.clear()
    page.set_to("on", "dgx-h100")  # the tests before leave another name for it
    page.set_to("layout", "dp=4,pp=2,zero=1")
    page.open("training")
    cards = "[...document.querySelectorAll('#view .card')].map((card) => card.textContent)"
    step = page.sees(cards)
    for name, value in (("Stragglers", "0.5:2"), ("Lora", "16"), ("Dora", "yes"), ("Lengths", "1024x4"),
                        ("Reference", "yes")):  # fmt: skip
        page.set_to(f"more-train{name}", value)
        assert page.sees(cards) != step, name
        step = page.sees(cards)
    page.set_to("more-trainReference", "no")  # a search has no second model
    page.sees(cards)
    page.set_to("more-trainAim", "days")
    row, days = "#view section [aria-label='Search for layouts'] tbody tr", []
    for nodes in (0, 1):
        if nodes:
            page.set_to("more-spareNodes", f"{nodes}")
        page.tab.get_by_role("button", name="Run").click()
        page.tab.wait_for_selector(row, timeout=60_000)
        days.append(page.tab.inner_text(row))
    assert days[0] != days[1]
    assert page.seen.said == []
