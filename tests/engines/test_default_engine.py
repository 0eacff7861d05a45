"""The engine that runs where none is given: the same in every function and command, and said by each."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.doors.cli.main import main
from roofline.engines.engine import default_engine, engine_named, engines
from roofline.hardware.chip import chips
from roofline.hardware.named_chip import chip_named
from roofline.inference.settings import setup
from roofline.views.plots.make import plot

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
VENDORS = {"nvidia", "amd", "intel", "google", "aws", "huawei"}


@folded(
    ("chip", "engine"),
    [
        ("h100-sxm", "vllm"), ("t4", "vllm"), ("rtx-4090", "vllm"), ("mi250", "vllm"), ("mi355x", "vllm"),
        ("rx-7900-xtx", "vllm"), ("arc-b60", "vllm"), ("max-1550", "vllm"), ("gaudi-3", "vllm"), ("tpu-v6e", "vllm"),
        ("trainium2", "vllm"), ("ascend-910b", "vllm"), ("xeon-8480", "vllm"), ("v100-sxm2-32gb", "none"),
        ("m4-max", "none"), ("p40", "none"), ("rtx-2080", "vllm"),
        ("groq-lpu", "none"), ("snapdragon-x-elite", "none"), ("peak=1P,bw=4T,mem=100G", "none"),
        ("like=h100-sxm,bw=4T", "vllm"),
    ],
)  # fmt: skip
def test_vllm_where_it_runs(chip: str, engine: str) -> None:
    assert default_engine(chip_named(chip)).id == engine


def test_whatever_it_serves_is_a_generation_or_a_kind_of_the_catalog() -> None:
    every = [*chips().values()]
    known = {c.generation for c in every} | {c.kind for c in every}
    assert set(engine_named("vllm").serves) <= known
    left = {c.generation for c in every if c.vendor.lower() in VENDORS and default_engine(c).id == "none"}
    announced = {"rubin", "cdna5", "tpu-v8", "ascend-950"}  # no release is known to run there
    assert left == {"pascal", "volta", "gcn5", "cdna1", "rdna2"} | announced


@pytest.mark.parametrize("on", ["h100-sxm", "8xh100-sxm", "m4-max", "xeon-8480"])
def test_every_function_takes_the_same(on: str) -> None:
    expected = setup(LLAMA, on=on).engine
    sizes: Any = {"input": 64, "output": 28}
    answers = (
        rl.estimate(LLAMA, rl.prefill(1, 64), on=on), rl.generate(LLAMA, on=on, **sizes), rl.fit(LLAMA, on=on),
        rl.serve(LLAMA, on=on, concurrency=2, **sizes),
    )  # fmt: skip
    assert {a.engine.id for a in answers} == {expected.id}
    assert {a.to_dict()["engine"] for a in answers} == {expected.id}
    named = rl.estimate(LLAMA, rl.prefill(1, 64), on=on, engine=expected.id)
    assert (answers[0].time, answers[0].memory) == (named.time, named.memory)


def test_kernels_alone_are_asked_for_by_name() -> None:
    step = rl.decode(1, 64)
    alone, default = (rl.estimate(LLAMA, step, on="h100-sxm", engine=e) for e in ("none", None))
    assert (alone.engine.id, default.engine.id) == ("none", "vllm")
    assert alone.memory.overhead == engines()["none"].overhead_bytes != default.memory.overhead


def test_training_keeps_its_own() -> None:
    times = {e: rl.train(LLAMA, on="8xh100-sxm", batch=8, tokens=64, engine=e) for e in (None, "megatron", "none")}
    assert (times[None].engine.id, times[None].time) == ("megatron", times["megatron"].time)
    assert times["none"].time < times[None].time


def test_the_speed_of_light_has_no_engine() -> None:
    light = [rl.estimate(LLAMA, rl.decode(4, 99), on="8xh100-sxm", layout="tp=8", law="ideal", engine=e) for e in
             (None, "none", "trtllm")]  # fmt: skip
    assert len({e.time for e in light}) == 1


def test_a_list_of_engines_names_the_default() -> None:
    grid = rl.estimate(LLAMA, rl.decode(1, 64), on="h100-sxm", engine=[None, "none", "sglang"])
    assert grid.axes[0].labels == ("default", "none", "sglang")
    assert [e.engine.id for e in grid.results] == ["vllm", "none", "sglang"]


# -- said by every command -----------------------------------------------------------------------------------------
SERVED = ["--input", "64", "--output-tokens", "28"]
COMMANDS = {
    "analyze": [], "generate": SERVED, "fit": [], "serve": [*SERVED, "--concurrency", "2"],
}  # fmt: skip


@folded("command", COMMANDS)
@folded(
    ("on", "argv", "named"),
    [
        ("h100-sxm", [], "vLLM 0.25"), ("h100-sxm", ["--engine", "sglang"], "SGLang 0.5.14"),
        ("h100-sxm", ["--engine", "none"], "no engine, kernels only"), ("m4-max", [], "no engine, kernels only"),
    ],
)  # fmt: skip
def test_the_first_line_says_which(
    command: str, on: str, argv: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "meta-llama/Llama-3.1-8B", "--on", on, *COMMANDS[command], *argv])
    assert capsys.readouterr().out.splitlines()[0] == f"{chip_named(on).name} · {named}"


def test_two_sides_say_which(capsys: pytest.CaptureFixture[str]) -> None:
    pair = ["diff", "meta-llama/Llama-3.1-8B@h100-sxm", "meta-llama/Llama-3.1-8B@m4-max:train=64,batch=1"]
    with pytest.raises(SystemExit):  # the training step does not fit
        main(pair)
    assert (
        "prefill, decode: vLLM 0.25 → no engine, kernels only; training: Megatron-LM 0.18\n" in capsys.readouterr().out
    )
    main(["diff", f"{pair[1]}:engine=sglang", f"{pair[1]}:precision=fp8", "--engine", "trtllm", "--json"])
    sides = json.loads(capsys.readouterr().out)
    assert (sides["a"]["engine"], sides["b"]["engine"]) == ("sglang", "trtllm")


@pytest.mark.parametrize(
    "command", [["analyze", "meta-llama/Llama-3.1-8B"], ["diff", *["meta-llama/Llama-3.1-8B"] * 2]]
)
def test_without_a_chip_no_engine_runs(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command, "--engine", "vllm"])
    assert stop.value.code == 2
    assert "without" in capsys.readouterr().err


def test_an_unknown_engine_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["analyze", "meta-llama/Llama-3.1-8B", "--on", "h100-sxm", "--engine", "vlm"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "vllm" in error


def test_captions_say_which() -> None:
    pair = ("h100-sxm", "m4-max")
    whose = "NVIDIA H100 SXM5 80GB: vLLM 0.25; Apple M4 Max: no engine, kernels only"
    for kind in ("roofline", "sweep", "memory"):
        assert whose in plot(LLAMA, on=pair, kind=kind).note
    assert " · vLLM 0.25 · " in plot(LLAMA, on="h100-sxm").note
    steps = {"decode": rl.decode(1, 64), "training": rl.training(1, 64)}
    assert "decode: vLLM 0.25; training: Megatron-LM 0.18" in plot(LLAMA, steps, on="h100-sxm").note
    assert "SGLang" in plot(LLAMA, on="h100-sxm", kind="map", engine="sglang", most_batch=2, most_context=512).note
    assert "vLLM" in plot(LLAMA, on="h100-sxm", kind="tornado").note
    assert "vLLM" not in plot(LLAMA, kind="shares").note
