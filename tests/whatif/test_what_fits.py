"""What runs on a machine: the widest format that fits, every format of one model, and what they are beside."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofline as rl
from roofline.declared.errors import InputError
from roofline.doors.cli.main import main
from roofline.whatif.search.what_fits import formats_that_run, what_runs

LLAMA = "meta-llama/Llama-3.1-8B"


def test_each_model_is_in_the_widest_format_that_fits() -> None:
    names = ["Qwen/Qwen3-0.6B", LLAMA, "google/gemma-3-27b-it", "meta-llama/Llama-3.1-70B"]
    answer = what_runs(names, on="rtx-4090", context=8192)
    assert [(r.model, r.format) for r in answer.running] == [
        ("google/gemma-3-27b-it", "q5_k_m"), (LLAMA, "checkpoint"), ("Qwen/Qwen3-0.6B", "checkpoint"),
    ]  # fmt: skip
    assert all(r.fits and r.memory <= r.capacity for r in answer.running)


def test_one_model_in_every_format_is_as_fit_and_generate_say() -> None:
    answer = formats_that_run(rl.load(LLAMA), on="rtx-3060", context=4096)
    assert [(r.format, r.fits) for r in answer.running] == [
        ("q8_0", True), ("q6_k", True), ("q5_k_m", True), ("q4_k_m", True), ("q3_k_m", True), ("q2_k", True),
        ("checkpoint", False),
    ]  # fmt: skip
    first = next(r for r in answer.running if r.format == "q4_k_m")
    where: dict[str, Any] = {"on": "rtx-3060", "precision": "q4_k_m", "engine": "llama.cpp"}
    spoken = rl.generate(LLAMA, input=4096 - 128, output_tokens=128, **where)
    assert first.tpot == spoken.tpot
    assert first.memory == rl.fit(LLAMA, context=4096, **where).memory.total
    # 4.58 GiB, as llama.cpp prints of Llama 3 8B in Q4_K_M
    assert first.weights == pytest.approx(4.58 * 2**30, rel=0.002)
    assert answer.running[-1].tpot is None


@pytest.mark.parametrize(
    ("on", "engines"),
    [("h100-sxm", ("vllm", "llama-cpp")), ("rtx-4090", ("vllm", "llama-cpp")), ("m4-max", ("llama-cpp", "llama-cpp"))],
)
def test_each_line_names_its_engine_and_is_what_generate_says_of_it(on: str, engines: tuple[str, str]) -> None:
    answer = formats_that_run(rl.load(LLAMA), on=on, context=4096, formats=("checkpoint", "q4_k_m"))
    assert tuple(r.engine.id for r in answer.running) == engines
    for row, precision in zip(answer.running, (None, "q4_k_m"), strict=True):
        where: dict[str, Any] = {"on": on, "precision": precision, "engine": row.engine.id}
        spoken = rl.generate(LLAMA, input=4096 - 128, output_tokens=128, **where)
        assert row.tpot == spoken.tpot
        assert row.memory == rl.fit(LLAMA, context=4096, **where).memory.total
    if engines[0] == "vllm":  # the engine that generate takes where none is given
        assert answer.running[0].tpot == rl.generate(LLAMA, on=on, input=4096 - 128, output_tokens=128).tpot


def test_an_engine_that_is_asked_for_runs_every_line() -> None:
    answer = formats_that_run(
        rl.load(LLAMA), on="h100-sxm", context=4096, formats=("checkpoint", "q4_k_m"), engine="llama.cpp"
    )
    assert {r.engine.id for r in answer.running} == {"llama-cpp"}
    alone = rl.generate(LLAMA, on="h100-sxm", input=4096 - 128, output_tokens=128, engine="llama.cpp")
    assert answer.running[0].tpot == alone.tpot


def test_the_engine_stands_in_text_json_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["models", LLAMA, "--on", "h100-sxm"])
    lines = capsys.readouterr().out.splitlines()
    assert "Engine" in lines[1]
    assert ["vLLM" in line for line in lines if "checkpoint" in line] == [True]
    assert all("llama.cpp" in line for line in lines if "q4_k_m" in line)
    main(["models", LLAMA, "--on", "h100-sxm", "--json"])
    assert [r["engine"] for r in json.loads(capsys.readouterr().out)["running"]] == ["vllm", *["llama-cpp"] * 6]
    main(["models", "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "vllm on the chips that it supports; llama.cpp on others" in text


def test_what_the_card_does_not_hold_is_split_over_both_as_offload_says() -> None:
    where: dict[str, Any] = {"on": "rtx-3060", "host": "ryzen-9-7950x"}
    answer = formats_that_run(rl.load(LLAMA), context=4096, formats=("q4_k_m", "checkpoint"), **where)
    whole, split = answer.running
    assert (whole.fits, whole.gpu_layers) == (True, None)
    placed = rl.offload(LLAMA, input=4096 - 128, output_tokens=128, **where)
    assert (split.fits, split.gpu_layers, split.cpu_experts) == (False, placed.gpu_layers, 0)
    assert split.tpot == placed.tpot
    assert split.tokens_per_second == 1 / placed.tpot.expected
    with pytest.raises(InputError, match="ryzen-9-7950x"):
        formats_that_run(rl.load(LLAMA), on="rtx-3060", context=4096, formats=("checkpoint",), host="ryzen-9-7950y")


def test_a_context_beyond_the_models_is_refused_or_left_out() -> None:
    with pytest.raises(InputError, match="context"):
        formats_that_run(rl.load("gpt2"), on="rtx-4090", context=2048)
    assert what_runs(["gpt2"], on="rtx-4090", context=2048).running == ()


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    main(["models", LLAMA, "--on", "m2-max-30c", "--context", "8k", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["context"], told["running"][0]["format"]) == (
        "roofline.running/1",
        8000,
        "checkpoint",
    )
    for words in (
        ["models", "--context", "8k"],
        ["models", "--on", "rtx-4090", "--types"],
        ["models", "--on", "rtx-4091"],
    ):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_here_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["here", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "roofline.here/1"
    assert told["chip"]["bandwidth"] > 1e9
