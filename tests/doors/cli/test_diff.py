"""`roofline diff`: both sides are the library's, and the causes add up."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import roofline as rl
from roofline.doors.cli.main import main
from roofline.whatif.diff import phase_figures, side

LLAMA = "meta-llama/Llama-3.1-8B"


def changed(capsys: pytest.CaptureFixture[str], a: str, b: str) -> dict[tuple[str, str], tuple[float, float]]:
    main(["diff", a, b, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "roofline.diff/2"
    return {(c["phase"], c["name"]): (c["a"], c["b"]) for c in data["changes"]}


def test_two_chips(capsys: pytest.CaptureFixture[str]) -> None:
    figures = changed(capsys, f"{LLAMA}@a100-sxm-80gb:batch=8,context=2048", f"{LLAMA}@h100-sxm:batch=8,context=2048")
    model, step = rl.load(LLAMA), rl.decode(8, 2048)
    times = tuple(rl.estimate(model, step, on=chip).time for chip in ("a100-sxm-80gb", "h100-sxm"))
    assert figures["decode", "time"] == pytest.approx(times)
    assert figures["decode", "FLOPs"] == (rl.analyze(model, step).flops,) * 2


def test_two_formats_and_layouts(capsys: pytest.CaptureFixture[str]) -> None:
    figures = changed(
        capsys, f"{LLAMA}@h100-sxm:precision=[weights=int4,kv=fp8]", f"{LLAMA}@8xh100-sxm:layout=[tp=8,sp]"
    )
    model = rl.load(LLAMA)
    assert figures["model", "KV cache per token"] == (65536, 131072)
    e = rl.estimate(model, rl.decode(1, 1024), on="8xh100-sxm", layout="tp=8,sp")
    assert figures["decode", "memory"][1] == e.memory.total


def test_two_models_without_a_chip(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diff", LLAMA, "Qwen/Qwen3-8B"])
    out = capsys.readouterr().out
    assert "8,030,261,248" in out
    assert "decode: mostly " in out


def whole(capsys: pytest.CaptureFixture[str], a: str, b: str) -> dict[str, Any]:
    main(["diff", a, b, "--json"])
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def test_the_settings_factors_multiply_to_the_change(capsys: pytest.CaptureFixture[str]) -> None:
    a = f"{LLAMA}@a100-sxm-80gb:context=4096"
    b = "meta-llama/Llama-3.1-70B@8xh100-sxm:precision=fp8,layout=[tp=4],batch=8,engine=vllm,context=4096"
    data = whole(capsys, a, b)
    for phase in ("prefill", "decode"):
        factors = [t["factor"] for t in data["turns"] if t["phase"] == phase]
        (time,) = (c["ratio"] for c in data["changes"] if (c["phase"], c["name"]) == (phase, "time"))
        assert math.prod(factors) == pytest.approx(time, rel=1e-12)
    order = [t["settings"] for t in data["turns"] if t["phase"] == "decode"]
    assert order[:2] == [["model"], ["on"]]
    model = rl.load("meta-llama/Llama-3.1-70B")
    step = rl.decode(1, 4096)
    first = (
        rl.estimate(model, step, on="a100-sxm-80gb").time / rl.estimate(rl.load(LLAMA), step, on="a100-sxm-80gb").time
    )
    assert data["turns"][len([t for t in data["turns"] if t["phase"] == "prefill"])]["factor"] == pytest.approx(first)


def test_settings_that_cannot_be_turned_alone_turn_together(capsys: pytest.CaptureFixture[str]) -> None:
    """fp8 cannot be had on an MI250X, so that chip and format change at once."""
    data = whole(capsys, f"{LLAMA}@h100-sxm:precision=fp8", f"{LLAMA}@mi250x:precision=bf16")
    turned = [t["settings"] for t in data["turns"] if t["phase"] == "decode"]
    assert turned == [["on", "precision"]]


def test_what_differs_of_two_models(capsys: pytest.CaptureFixture[str]) -> None:
    data = whole(capsys, LLAMA, "meta-llama/Llama-3.1-70B")
    facts = {f["property"]: (f["a"], f["b"]) for f in data["facts"]}
    assert facts["width"] == ("4,096", "8,192")
    assert "vocabulary" not in facts


def test_a_prefill_beside_a_decode(capsys: pytest.CaptureFixture[str]) -> None:
    data = whole(
        capsys, f"{LLAMA}@h100-sxm:step=prefill,prompt=2048", f"{LLAMA}@h100-sxm:step=decode,context=2048,batch=8"
    )
    model = rl.load(LLAMA)
    (time,) = (c for c in data["changes"] if c["name"] == "time")
    assert time["phase"] == "prefill → decode"
    assert time["a"] == rl.estimate(model, rl.prefill(1, 2048), on="h100-sxm").time
    assert time["b"] == rl.estimate(model, rl.decode(8, 2048), on="h100-sxm").time
    assert [t["settings"] for t in data["turns"]] == [["step"], ["batch"], ["context"]]


def test_two_layouts_of_training(capsys: pytest.CaptureFixture[str]) -> None:
    side = f"{LLAMA}@8xh100-sxm:train=4096,batch=16,step=training,layout="
    data = whole(capsys, f"{side}[tp=8]", f"{side}[tp=2,dp=4,zero=1]")
    t = rl.train(LLAMA, batch=16, tokens=4096, on="8xh100-sxm", layout="tp=2,dp=4,zero=1")
    figures = {c["name"]: c["b"] for c in data["changes"] if c["phase"] == "training"}
    assert (figures["time"], figures["memory"], figures["MFU"]) == (t.time, t.memory.total, t.mfu)
    assert {c["op"] for c in data["causes"]} & {"forward", "backward"}


@pytest.mark.parametrize("name", [LLAMA, "deepseek-ai/DeepSeek-V3"])
def test_the_parts_of_a_training_step_add_up(name: str) -> None:
    layout = "dp=8,ep=8,zero=1" if "DeepSeek" in name else "pp=4,dp=2"
    m = phase_figures(side(f"{name}@8xh200-sxm:train=1024,batch=16,layout=[{layout}]"), "training")
    assert sum(m.by_op.values()) == pytest.approx(m.cost)
    assert m.unit == "s"


@pytest.mark.parametrize(
    ("words", "said"),
    [([f"{LLAMA}:batches=3", LLAMA], "nearest: batch"), ([LLAMA, f"{LLAMA}:batch=x"], "whole number"),
     ([LLAMA, "no/such"], "no/such"), ([f"{LLAMA}:batch", LLAMA], "key=value"),
     ([f"{LLAMA}:step=decoding", LLAMA], "nearest: decode")],
)  # fmt: skip
def test_bad_input(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["diff", *words])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


def test_training_takes_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    spec = f"{LLAMA}@8xh100-sxm:layout=[dp=8,zero=1],train=2048,batch=8"
    seconds = changed(capsys, spec, f"{spec},engine=none")["training", "time"]
    settings = {"batch": 8, "tokens": 2048, "on": "8xh100-sxm", "layout": "dp=8,zero=1"}
    assert seconds == pytest.approx(tuple(rl.train(LLAMA, **settings, engine=e).time for e in ("megatron", "none")))


def test_what_does_not_fit_is_said_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["diff", "Qwen/Qwen3-32B@l4", "Qwen/Qwen3-32B@h100-sxm"])
    assert stop.value.code == 1
    out = capsys.readouterr().out
    assert out.startswith("prefill of Qwen/Qwen3-32B on l4: does not fit, ")
    assert "decode: mostly " in out


def test_without_a_chip_a_layout_is_one_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    flops = changed(capsys, LLAMA, f"{LLAMA}:layout=[tp=8]")["prefill", "FLOPs"]
    rank = rl.analyze(rl.shard(rl.load(LLAMA), rl.Layout(tp=8)), rl.prefill(1, 1024))
    assert flops == (rl.analyze(rl.load(LLAMA), rl.prefill(1, 1024)).flops, rank.flops)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (f"{LLAMA}@", "on"),
        (f"{LLAMA}:on=", "on"),
        (f"{LLAMA}:train=0", "train"),
        (f"{LLAMA}:batch=1,batch=2", "spec"),
        (f"{LLAMA}:engine=bogus", "--engine"),
    ],
)
def test_a_side_that_is_not_understood(spec: str, field: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["diff", LLAMA, spec])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith(f"roofline: {field}: ")
