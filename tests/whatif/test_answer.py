"""The first answer: every figure is that of the question that it comes from."""

from __future__ import annotations

import json

import pytest

import roofline as rl
from roofline.declared.errors import InputError
from roofline.doors.cli.main import main, with_command
from roofline.views.text.whatif.answer import answers_table, machine_text
from roofline.whatif.answer import USUAL_MACHINES
from roofline.whatif.search.recommendations import BatchSizes, advice, served

LLAMA = "meta-llama/Llama-3.1-8B"
MOST_LINES = 15


def test_figures_are_those_of_fit_search_and_serve() -> None:
    model = rl.load(LLAMA)
    (m,) = rl.answer(model, on="h100-sxm").machines
    load = {"input": 1024, "output_tokens": 256}
    plan = rl.search(model, on="h100-sxm", chips=1, kind="aggregated", objective="total", ttft=2, tpot=0.05, **load)
    assert plan.recommended is not None
    alone = rl.serve(model, on="h100-sxm", concurrency=1, **load)
    full = rl.serve(model, on="h100-sxm", concurrency=plan.recommended.concurrency, **load)
    assert isinstance(alone, rl.Serving)
    assert isinstance(full, rl.Serving)
    assert m.fits == rl.fit(model, on="h100-sxm", context=1280).fits
    assert m.plan is not None
    assert (m.plan.concurrency, m.plan.layout, m.formats) == (plan.recommended.concurrency, "one chip", "")
    assert m.user_tokens_per_second == pytest.approx(alone.tokens_per_second_per_user, rel=1e-12)
    assert m.plan.tokens_per_second == pytest.approx(full.tokens_per_second, rel=1e-9)
    assert m.plan.ttft.expected == pytest.approx(full.ttft.expected, rel=1e-9)
    assert m.plan.limited[0].expected <= 2
    assert m.plan.usd_per_million_output == pytest.approx(full.usd_per_million_output, rel=1e-9)
    assert (m.bound, m.bound_by) == (full.decode.bound, next(iter(full.decode_shares)))


def test_power_lies_within_its_interval_and_below_what_the_boards_draw() -> None:
    (m,) = rl.answer(LLAMA, on="2xh100-sxm").machines
    assert m.plan is not None
    assert m.plan.power is not None
    assert m.power_low is not None
    assert m.power_high is not None
    assert m.power_low < m.plan.power <= m.power_high <= 700 * m.plan.chips


def test_the_change_is_the_best_of_a_report_that_is_no_larger_batch() -> None:
    model = rl.load(LLAMA)
    (m,) = rl.answer(model, on="h100-sxm").machines
    assert m.plan is not None
    sizes = BatchSizes(batch=m.plan.batch, input=1024, output_tokens=256)
    every = advice(served(model, rl.Where(on="h100-sxm"), sizes, command="serve"))
    assert (m.change, m.gain) in [(a.what, a.gain) for a in every]
    assert m.option is not None
    assert not m.option.startswith("--concurrency")


def test_the_widest_format_that_fits() -> None:
    model = rl.load("meta-llama/Llama-3.3-70B-Instruct")
    one, two, card, mac = rl.answer(model, on=["h100-sxm", "2xh100-sxm", "rtx-4090", "m4-max"]).machines
    assert (one.fits, one.formats) == (True, "fp8")
    assert (two.fits, two.formats) == (True, "")
    assert (card.fits, card.plan, card.user_tokens_per_second) == (False, None, None)
    assert card.remedies == ("8 chips", "2 chips with weights=int4")
    assert (mac.fits, mac.formats, mac.engine.id) == (True, "q8_0", "llama-cpp")


def test_no_load_keeps_the_limits_but_one_user_is_told() -> None:
    (m,) = rl.answer("meta-llama/Llama-3.3-70B-Instruct", on="m4-max").machines
    assert m.why == "no load keeps the limit on TTFT and TPOT"
    assert m.user_tokens_per_second is not None
    assert (m.plan, m.power_low) == (None, None)


def test_a_precision_that_is_given_is_the_only_one_tried() -> None:
    (m,) = rl.answer("meta-llama/Llama-3.3-70B-Instruct", on="h100-sxm", precision="bf16").machines
    assert not m.fits
    with pytest.raises(InputError, match="precision"):
        rl.answer(LLAMA, on="h100-sxm", precision="fp9")


def test_formats_that_a_chip_does_not_compute_in_are_left_out() -> None:
    """A CPU without fp8: 8-bit integers are the next that fit."""
    (m,) = rl.answer("Qwen/Qwen2.5-14B-Instruct", on="like=epyc-9654,mem=24G").machines
    assert (m.fits, m.formats) == (True, "int8")


def test_lengths_are_no_longer_than_the_context() -> None:
    a = rl.answer("openai-community/gpt2", on="l4")
    assert (a.input, a.output) == (768, 256)
    with pytest.raises(InputError, match="1024"):
        rl.answer("openai-community/gpt2", on="l4", input=4096)


def test_a_law_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="law"):
        rl.answer(LLAMA, on="h100-sxm", law="nonsense")


def test_a_layout_whose_half_does_not_divide_has_advice() -> None:
    """`tp=8,ep=8` has no half of its tensor parallelism."""
    (m,) = rl.answer("deepseek-ai/DeepSeek-V3", on="8xh200-sxm", input=256, output_tokens=1024).machines
    assert m.plan is not None
    assert m.plan.layout == "tp=8, ep=8"
    assert m.change is not None


@pytest.mark.parametrize("on", ["h100-sxm", "8xh200-sxm", "rtx-4090", "m4-max"])
def test_a_machine_takes_fifteen_lines_at_most(on: str) -> None:
    a = rl.answer("meta-llama/Llama-3.3-70B-Instruct", on=on)
    assert len(machine_text(a, a.machines[0]).splitlines()) <= MOST_LINES


def test_a_row_for_each_machine() -> None:
    a = rl.answer(LLAMA, on=["l4", "h100-sxm"])
    assert [row[0] for row in answers_table(a).rows] == ["l4", "h100-sxm"]


# -- the command ---------------------------------------------------------------------------------------------------
def test_a_model_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    main([LLAMA, "--on", "h100-sxm", "--json"])
    first = json.loads(capsys.readouterr().out)
    main(["answer", LLAMA, "--on", "h100-sxm", "--json"])
    assert first == json.loads(capsys.readouterr().out)
    assert first["schema"] == "roofline.answer/1"


def test_without_a_machine_there_are_this_one_and_three(capsys: pytest.CaptureFixture[str]) -> None:
    main([LLAMA])
    out = capsys.readouterr().out
    assert all(name in out for name in USUAL_MACHINES)


def test_roofline_alone_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    out = capsys.readouterr().out
    assert out.startswith("Roofline says how much compute and memory a transformer needs")
    assert out.count("\n  roofline ") == 3


def test_what_does_not_fit_exits_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["meta-llama/Llama-3.3-70B-Instruct", "--on", "rtx-4090"])
    assert stop.value.code == 1
    assert "would fit with 8 chips, or 2 chips with weights=int4" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["serv", "zzzzzzzz"])
def test_a_word_that_is_no_model_is_an_error(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([word])
    assert stop.value.code == 2
    assert word in capsys.readouterr().err


def test_paths_and_owners_are_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("model"))
    assert with_command([folder]) == ["answer", folder]
    assert with_command(["owner/name", "--json"]) == ["answer", "owner/name", "--json"]
    assert with_command(["--help"]) == ["--help"]
