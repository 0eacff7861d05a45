"""Scoring one's own measurements: the format, what is left out and why, the figures, and that the rows add up."""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.doors.cli.main import main
from roofline.engines.engine import engine_named, engines
from roofline.engines.releases import former_names, releases
from roofline.inference.span import Span
from roofline.measured.accuracy.accuracy import SAMPLE, TOO_FAST, accuracy
from roofline.measured.accuracy.csvs import CellError, TableRow, documented, measurement
from roofline.measured.accuracy.fitted import FILE as FITTED_ON
from roofline.measured.accuracy.fitted import WORDS, fits_of, fitted_table, fitted_words
from roofline.measured.accuracy.measurements import (
    QUANTITIES,
    SERVER,
    MeasuredRun,
    as_called,
    measured_run,
    predictions,
)
from roofline.measured.accuracy.scoring import Scored, pooled, scores_of
from roofline.measured.accuracy.tally import tally, tally_of_all

GPT2 = "openai-community/gpt2"
HEAD = "quantity,model,on,batch,input,output,concurrency,seconds,group"


def table(folder: Path, *rows: str, head: str = HEAD) -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return path


# -- cells ---------------------------------------------------------------------------------------------------------
@folded(
    ("text", "value"),
    [("12", 12), ("1,024", 1024), ("1933 (1858)", 1933), (" 7 ", 7), ("1e3", 1000), ("1,234,567.0", 1234567)],
)
def test_a_cell_is_a_number(text: str, value: int) -> None:
    assert TableRow(0, {"a": text}).whole("a") == value


@folded("text", ["", "x", "0", "-3", "nan", "inf", "1,2", "1.5", "1e999", ",", ".", "(7)", "1_000"])
def test_a_cell_that_is_none(text: str) -> None:
    with pytest.raises(CellError):
        TableRow(0, {"a": text}).whole("a")


def test_an_empty_cell_may_have_a_default() -> None:
    assert TableRow(0, {"a": ""}).whole("a", 1) == TableRow(0, {}).whole("a", 1) == 1


@given(st.text(max_size=12))
def test_no_text_crashes_a_cell(text: str) -> None:
    with suppress(CellError):
        assert TableRow(0, {"a": text}).number("a") > 0


# -- predictions ---------------------------------------------------------------------------------------------------
def test_every_quantity_is_predicted_as_the_library_does() -> None:
    sizes = {"batch": 2, "input": 64, "output": 28}
    generated = rl.generate(GPT2, on="h100-sxm", **sizes)
    served = rl.serve(GPT2, on="h100-sxm", input=64, output=28, concurrency=4)
    trained = rl.train(GPT2, batch=2, tokens=64, on="h100-sxm")
    expected = {
        "latency": generated.latency.expected, "ttft": generated.ttft.expected, "tpot": generated.tpot.expected,
        "served-latency": served.latency.expected, "served-ttft": served.ttft.expected,
        "served-tpot": served.tpot.expected, "served-token": 1 / served.tokens_per_second,
        "prefill": rl.estimate(GPT2, rl.prefill(2, 64), on="h100-sxm").time,
        "decode": rl.estimate(GPT2, rl.decode(2, 64), on="h100-sxm").time, "training": trained.time,
        "training-bytes": max(s.memory.allocated for s in trained.stages),
        "training-flops": rl.analyze(GPT2, rl.training(2, 64)).flops,
    }  # fmt: skip
    assert expected.keys() == QUANTITIES.keys()
    for quantity, value in expected.items():
        given_sizes = {"input": 64, "output": 28, "concurrency": 4} if QUANTITIES[quantity].needs is SERVER else sizes
        (span,) = predictions([measured_run(quantity=quantity, seconds=1.0, model=GPT2, on="h100-sxm", **given_sizes)])
        assert isinstance(span, Span), (quantity, span)
        assert span.expected == pytest.approx(value, rel=1e-12), quantity


def test_a_default_call_says_model_machine_sizes_formats_and_the_engines_name() -> None:
    told = measured_run(
        quantity="served-tpot", seconds=1.0, model=GPT2, on="h100-sxm", layout="tp=4", precision="fp8",
        engine="vllm@0.11(max_num_seqs=8)", input=64, output=28, concurrency=4, rounds=10, input_cv=0.2,
    )  # fmt: skip
    called = as_called(told)
    assert (called.where.on, called.where.layout, called.where.engine) == ("4xh100-sxm", None, "vllm")
    assert called.where.precision == "fp8"
    assert called.settings == {"input": 64, "output_tokens": 28, "concurrency": 4}
    trained = measured_run(
        quantity="training", seconds=1.0, model=GPT2, on="2xdgx-h100", layout="tp=2,dp=8,zero=1", engine="megatron",
        batch=16, input=64, micro_batch=1, recipe="fp8", lora=16,
    )  # fmt: skip
    called = as_called(trained)
    assert (called.where.on, called.where.layout) == ("2xdgx-h100", None)
    assert called.settings == {"batch": 16, "input": 64, "recipe": "fp8", "lora": 16}


def test_a_training_step_without_a_layout_is_predicted_for_its_own_sizes() -> None:
    runs = [
        measured_run(quantity="training", seconds=1.0, model=GPT2, on="2xh100-sxm", batch=b, input=64)
        for b in (8, 8, 64)
    ]
    together, apart = predictions(runs), [predictions([r])[0] for r in runs]
    assert [s.expected for s in together] == [s.expected for s in apart]  # type: ignore[union-attr]


def test_rows_at_once_are_the_rows_one_by_one() -> None:
    runs = [
        measured_run(quantity="latency", seconds=1.0, model=GPT2, on=on, batch=b, input=n, output=4)
        for on in ("h100-sxm", "l4") for b, n in ((1, 16), (8, 900), (2, 5000), (3, 100))
    ]  # fmt: skip
    together, apart = predictions(runs), [predictions([r])[0] for r in runs]
    for one, other in zip(together, apart, strict=True):
        if isinstance(one, InputError):
            assert isinstance(other, InputError)
            assert one.field == other.field == "context"
        else:
            assert isinstance(other, Span)
            assert one.ends() == pytest.approx(other.ends(), rel=1e-12)


def test_a_server_needs_a_concurrency_or_a_rate() -> None:
    run = {"quantity": "served-tpot", "seconds": 1.0, "model": GPT2, "on": "l4", "input": 64, "output": 28}
    neither, both, rate = predictions([
        measured_run(**run), measured_run(**run, concurrency=2, rate=1.0), measured_run(**run, rate=1.0),
    ])  # fmt: skip
    assert isinstance(neither, InputError)
    assert isinstance(both, InputError)
    expected = rl.serve(GPT2, on="l4", input=64, output=28, rate=1.0).tpot.expected
    assert isinstance(rate, Span)
    assert rate.expected == expected


# -- figures -------------------------------------------------------------------------------------------------------
def scored(predicted: list[float], measured: list[float], fitted: str = "no", apart: float | None = None) -> Scored:
    p, m = np.array(predicted), np.array(measured)
    return Scored(p, m, p / 2, 0.9 * p, 1.1 * p, np.ones(len(p), dtype=bool), "A", fitted, apart)


def test_the_figures_by_hand() -> None:
    s = scores_of(("f", "s", "all"), [scored([1.0, 2.0], [1.0, 4.0]), scored([3.0], [2.0])])
    assert (s.n, s.fitted, s.grade) == (3, "no", "A")
    assert s.mape == pytest.approx(100 * (0 + 0.5 + 0.5) / 3)
    assert s.median == pytest.approx(50)
    assert s.bias == pytest.approx(0)
    assert s.plain_mape == pytest.approx(100 * (0.5 + 0.75 + 0.25) / 3)
    assert s.covered == pytest.approx(100 / 3)
    assert s.floor_exceeds == 0
    assert s.held_out is None


def test_held_out_is_of_the_fit_where_the_rows_were_fitted() -> None:
    fitted = scored([1.0] * 3, [2.0] * 3, "the law's constants", 20.0)
    assert scores_of(("f", "s", "all"), [fitted]).held_out == 20
    both = scores_of(("f", "s", "all"), [fitted, scored([1.0], [2.0])])
    assert both.held_out == pytest.approx((3 * 20 + 50) / 4)
    assert both.fitted == "in part: the law's constants"
    two = scores_of(("f", "s", "all"), [scored([1.0], [1.0], "a"), scored([1.0], [1.0], "b, a"), scored([1.0], [1.0])])
    assert two.fitted == "in part: a, b"
    unknown = scores_of(("f", "s", "all"), [scored([1.0], [2.0], "something")])
    assert unknown.held_out is None


def test_what_has_no_roofline_has_no_error_of_it() -> None:
    none = Scored(*(np.ones(2) for _ in range(2)), np.full(2, np.nan), np.ones(2), np.ones(2), np.ones(2, dtype=bool))
    s = scores_of(("f", "s", "all"), [none])
    assert (s.plain_mape, s.floor_exceeds, s.covered) == (None, None, 100)


def test_ratios_are_of_predicted_over_measured() -> None:
    s = scores_of(("f", "s", "all"), [scored([1.0] * 11, [1.0 / (0.5 + 0.1 * i) for i in range(11)])])
    assert s.ratios == pytest.approx((0.6, 1.0, 1.4))


def test_systems_are_pooled() -> None:
    lines = pooled({("f", "a", "x"): [scored([1.0], [1.0])], ("f", "b", "x"): [scored([1.0, 1.0], [2.0, 2.0])]})
    assert [(s.system, s.n) for s in lines] == [("a", 1), ("all", 3), ("b", 2)]


@pytest.mark.parametrize(
    ("n", "inside", "outside"),
    [
        (50, 40, False),
        (50, 30, True),
        (50, 50, True),
        (49, 49, False),
        (50, 45, False),
        (400, 355, True),
        (400, 350, False),
    ],
)
def test_groups_whose_interval_is_off(n: int, inside: int, outside: bool) -> None:
    part = scored([1.0] * n, [1.0] * inside + [9.0] * (n - inside))
    assert scores_of(("f", "s", "all"), [part]).outside == outside


def test_a_tally_adds_up() -> None:
    one = tally("a.csv", 5, 2, ["x", "y", "x"])
    assert [(r.why, r.rows) for r in one.reasons] == [("x", 2), ("y", 1)]
    assert one.left == 3
    whole = tally_of_all([one, tally("b.csv", 1, 0, ["y"])])
    assert (whole.rows, whole.scored, whole.left) == (6, 2, 4)
    with pytest.raises(ValueError, match=r"a\.csv"):
        tally("a.csv", 5, 3, ["x"])


# -- files ---------------------------------------------------------------------------------------------------------
def test_every_row_is_scored_or_left_out(tmp_path: Path) -> None:
    expected = float(rl.generate(GPT2, on="l4", batch=1, input=8, output=8).latency.expected)
    path = table(
        tmp_path, f"latency,{GPT2},l4,1,8,8,,{2 * expected},mine", f"latency,{GPT2},l4,1,8,8,,{expected / 1e4},mine",
        f"latncy,{GPT2},l4,1,8,8,,1,", f"latency,{GPT2},l44,1,8,8,,1,", "latency,no/such,l4,1,8,8,,1,",
        f"latency,{GPT2},l4,,8,8,,1,", f"latency,{GPT2},l4,1,8,8,,soon,", f"latency,{GPT2},l4,1,8",
        f"latency,{GPT2},,1,8,8,,1,",
    )  # fmt: skip
    a = accuracy(path)
    assert (a.tally.rows, a.tally.scored, a.tally.left) == (9, 1, 8)
    assert [p.row for p in a.problems] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert a.problems[0].why == TOO_FAST
    names = ("quantity", "chip", "model", "batch", "seconds")
    assert a.problems[-1].why == "on: expected the chip or machine of the row, got 'nothing'"
    assert all(p.why.startswith(name) for name, p in zip(names, a.problems[1:], strict=False))
    assert {(s.system, s.slice, s.n) for s in a.scores} >= {("l4", "mine", 1), ("all", "all", 1)}
    assert a.scores[0].mape == pytest.approx(50)


def test_the_sample_is_scored_whole() -> None:
    a = accuracy(SAMPLE)
    assert a.tally.rows == a.tally.scored > 0
    assert not a.problems


@folded(
    ("content", "says"),
    [
        ("", "quantity"), ("quantity,model,on,seconds\n", "at least one measurement"),
        ("quantity,model,on,second\nx,x,x,1\n", "nearest: seconds"), ("quantity,model,on\nx,x,x\n", "seconds"),
        (b"\xff\xfe\x00", "text in UTF-8"), ("quantity,model,on,seconds\n\0,x\n", ""),
    ],
)  # fmt: skip
def test_a_file_that_is_no_such_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | bytes, says: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        main(["accuracy", str(path)])
    except SystemExit as stop:
        assert stop.code == 2  # noqa: PT017 - a row of nonsense may be counted instead
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert says in err


@pytest.mark.parametrize("name", ["missing.csv", "."])
def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["accuracy", str(tmp_path / name)])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_in_three_forms(capsys: pytest.CaptureFixture[str]) -> None:
    main(["accuracy"])
    text = capsys.readouterr().out
    assert "sample.csv: 5 rows, 5 scored, 0 left out" in text
    main(["accuracy", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "roofline.accuracy/1"
    assert data["tally"]["rows"] == data["tally"]["scored"] + sum(r["rows"] for r in data["tally"]["reasons"])
    main(["accuracy", "--md"])
    assert capsys.readouterr().out.startswith("| file |")


# -- what was fitted on a row --------------------------------------------------------------------------------------
def serving_run(what: str = "served-ttft", **changed: object) -> MeasuredRun:
    given = {"quantity": what, "seconds": 1.0, "model": "openai/gpt-oss-120b", "on": "h100-sxm", "engine": "vllm"}
    return measured_run(**{**given, "input": 64, "output": 28, "concurrency": 4, **changed})  # type: ignore[arg-type]


SILICON = "e2e_serving_silicon_aic.csv"
BENCH = "e2e_static_batch_llm_inference_bench.csv"


@pytest.mark.parametrize(
    ("table_of", "run", "words"),
    [
        (SILICON, serving_run(), "the engine's time of a request"),
        (SILICON, serving_run("served-tpot"), "no"),
        (SILICON, serving_run(model="Qwen/Qwen3-32B"), "no"),
        (SILICON, serving_run(on="a100-sxm-80gb"), "no"),
        ("e2e_vllm_rate_h100.csv", serving_run(model="Qwen/Qwen3-32B"), "the engine's time of a request"),
        ("mine.csv", serving_run(), "no"),
        (None, serving_run(), "no"),
        (SILICON, serving_run("served-tpot", engine="trtllm"), "the engine's host time"),
        (
            SILICON,
            serving_run("served-tpot", engine="trtllm", on="2xh100-sxm", layout="tp=2"),
            "the engine's host time, the engine's slow-downs",
        ),
        (SILICON, serving_run("served-tpot", engine="sglang"), "no"),
        (SILICON, serving_run("served-tpot", engine="sglang", on="b200"), "the engine's host time"),
        (SILICON, serving_run(engine="vllm(max_num_seqs=64)"), "the engine's time of a request"),
        (SILICON, serving_run(software="another"), "no"),
        (
            BENCH,
            serving_run("latency", engine="vllm-2024", on="max-1550"),
            "the engine's slow-downs, the engine's host time",
        ),
        (
            BENCH,
            serving_run("latency", engine="vllm-2024(cold=1)", on="max-1550"),
            "the engine's slow-downs, the engine's host time, the engine's start-up",
        ),
    ],
)
def test_what_was_fitted_on_a_row_is_what_stands_beside_the_constants(
    table_of: str | None, run: MeasuredRun, words: str
) -> None:
    assert fitted_words(table_of, run) == words


def test_every_table_that_something_was_fitted_on_is_declared_with_its_content() -> None:
    declared = tomllib.loads(FITTED_ON.read_text(encoding="utf-8"))
    earliest = [f"{id}@{next(iter(known.months))}" for id, known in releases().items() if known.months]
    named = map(engine_named, (*former_names(), *earliest))
    fits = [fit for engine in (*engines().values(), *named) for fit in fits_of(engine)]
    assert {fit.table for fit in fits} | set(declared["laws"]) | set(declared["collectives"]) == set(declared["tables"])
    assert all(value in WORDS for fit in fits for value in fit.values)
    assert all(len(digest) == 64 for digest in declared["tables"].values())


def test_a_table_of_the_name_but_of_other_content_took_part_in_no_fit(tmp_path: Path) -> None:
    other = tmp_path / SILICON
    other.write_text("model,system\n", encoding="utf-8")
    assert fitted_table(other) is None
    assert fitted_table(tmp_path / "missing.csv") is None


def test_nothing_was_fitted_on_a_users_own_rows(tmp_path: Path) -> None:
    """A row of one's own, of a chip and an engine that were fitted, took part in nothing; none was left out."""
    file = table(tmp_path, "ttft,openai-community/gpt2,h100-sxm,1,64,8,,0.02,mine")
    scores = accuracy(file).scores
    assert scores
    assert {(s.fitted, s.held_out) for s in scores} == {("no", None)}


def test_held_out_is_of_what_was_left_out_and_fitted_again_alone() -> None:
    assert scores_of(("f", "s", "all"), [scored([1.0], [2.0])]).held_out is None


def test_a_row_gives_any_setting_of_its_question(tmp_path: Path) -> None:
    path = tmp_path / "further.csv"
    path.write_text(
        "quantity,model,on,seconds,batch,input,output,concurrency,prefix,rounds,formula,mtp\n"
        "served-ttft,meta-llama/Llama-3.1-8B,h100-sxm,1,,1024,64,16,0.5,3,,\n"
        "served-ttft,meta-llama/Llama-3.1-8B,h100-sxm,1,,1024,64,16,,,false,\n"
        "latency,meta-llama/Llama-3.1-8B,h100-sxm,1,1,1024,64,,0.5,,,\n"
        "served-ttft,meta-llama/Llama-3.1-8B,h100-sxm,1,,1024,64,16,,,,maybe\n"
    )
    rows = list(documented(path))
    spans = predictions([measurement(row) for row in rows[:2]])
    load = {"on": "h100-sxm", "input": 1024, "output_tokens": 64, "concurrency": 16}
    for span, how in zip(spans, ({"prefix": 0.5, "rounds": 3}, {"formula": False}), strict=True):
        assert isinstance(span, Span)
        assert span.expected == pytest.approx(rl.serve("meta-llama/Llama-3.1-8B", **load, **how).ttft.expected)
    with pytest.raises(CellError, match="prefix: expected nothing, for `latency`"):
        measurement(rows[2])
    with pytest.raises(InputError, match="mtp: expected one of true, false"):
        measurement(rows[3])
