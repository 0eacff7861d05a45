"""`roofline diff`: both sides are the library's, and the causes add up."""

from __future__ import annotations

import json

import pytest

import roofline as rl
from roofline.cli.main import main

LLAMA = "meta-llama/Llama-3.1-8B"


def made(capsys: pytest.CaptureFixture[str], a: str, b: str) -> dict[tuple[str, str], tuple[float, float]]:
    main(["diff", a, b, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "roofline.diff/1"
    return {(c["phase"], c["figure"]): (c["a"], c["b"]) for c in data["changes"]}


def test_two_chips(capsys: pytest.CaptureFixture[str]) -> None:
    found = made(capsys, f"{LLAMA}@a100-sxm-80gb:batch=8,context=2048", f"{LLAMA}@h100-sxm:batch=8,context=2048")
    model, step = rl.load(LLAMA), rl.decode(8, 2048)
    times = tuple(rl.estimate(model, step, on=chip).time for chip in ("a100-sxm-80gb", "h100-sxm"))
    assert found["decode", "time"] == pytest.approx(times)
    assert found["decode", "FLOPs"] == (rl.analyze(model, step).flops,) * 2


def test_two_formats_and_layouts(capsys: pytest.CaptureFixture[str]) -> None:
    found = made(capsys, f"{LLAMA}@h100-sxm:precision=[weights=int4,kv=fp8]", f"{LLAMA}@8xh100-sxm:layout=[tp=8,sp]")
    model = rl.load(LLAMA)
    assert found["model", "KV cache per token"] == (65536, 131072)
    assert (
        found["decode", "memory"][1] == rl.estimate(model, rl.decode(1, 1024), on="8xh100-sxm", layout="tp=8,sp").memory
    )


def test_two_models_without_a_chip(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diff", LLAMA, "Qwen/Qwen3-8B"])
    out = capsys.readouterr().out
    assert "8,030,261,248" in out
    assert "decode: mostly " in out


@pytest.mark.parametrize(
    ("words", "said"),
    [([f"{LLAMA}:batches=3", LLAMA], "nearest: batch"), ([LLAMA, f"{LLAMA}:batch=x"], "whole number"),
     ([LLAMA, "no/such"], "no/such")],
)  # fmt: skip
def test_bad_input(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["diff", *words])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err
