"""Own constants of a chip by llama-bench: what was put in comes out, and its chip file says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import roofline as rl
from roofline.declared.errors import InputError
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import constants_for
from roofline.measured.calibrate.file import known_chip_toml
from roofline.measured.compare.bench_fit import bench_fit
from roofline.measured.compare.results import Measured, measured_rows

MODEL = rl.load({
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "vocab_size": 32000,
    "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 8192,
    "dtype": "float16",
})  # fmt: skip
WHERE = {"engine": "llama.cpp", "precision": "q4_0"}


def rows(on: str, faster: float = 1.0) -> list[Measured]:
    """What a machine would measure that is as predicted, or so much faster in answers."""
    answer = 1 / rl.generate(MODEL, on=on, input=1, output=128, **WHERE).tpot.expected
    prompt = rl.estimate(MODEL, rl.prefill(1, 512), on=on, **WHERE).span.expected
    return [Measured("answer", faster * answer, 0, 128), Measured("prompt", 512 / prompt, 512, 0)]


def test_a_machine_that_is_as_predicted_keeps_its_constants() -> None:
    fit = bench_fit(MODEL, rows("rtx-3090"), "rtx-3090", precision="q4_0")
    assert fit.memory == pytest.approx(1, abs=2e-3)
    assert fit.compute == pytest.approx(1, abs=2e-3)
    assert all(row.fitted == pytest.approx(row.measured, rel=2e-3) for row in fit.rows)
    assert all(row.held_out is not None or len(fit.rows) == 2 for row in fit.rows)


def test_a_slower_memory_comes_out_and_other_formats_follow() -> None:
    """A card whose answers take 1.5 times as long: the share of its bandwidth falls below 1/1.5, as launches do not."""
    fit = bench_fit(MODEL, rows("rtx-3090", 1 / 1.5)[:1], "rtx-3090", precision="q4_0")
    assert fit.rows[0].fitted == pytest.approx(fit.rows[0].measured, rel=2e-3)
    assert 0.2 < fit.memory < 1 / 1.5
    assert fit.compute == 1
    base = constants_for(chip_named("rtx-3090"), "int8_wo", "quantised_matmul", "llama.cpp-cuda")
    own = constants_for(fit.chip, "int8_wo", "quantised_matmul", "llama.cpp-cuda")
    assert own.record.memory == pytest.approx(base.record.memory * fit.memory)
    assert own.grade == "A"


def test_rows_are_held_out_with_the_median_of_the_others() -> None:
    many = [row for faster in (0.7, 0.8, 0.9) for row in rows("rtx-3090", faster)[:1]]
    fit = bench_fit(MODEL, many, "rtx-3090", precision="q4_0")
    assert fit.rows[1].fitted == pytest.approx(fit.rows[1].measured, rel=2e-3)
    assert fit.rows[0].held_out is not None
    assert fit.rows[0].held_out > fit.rows[0].fitted > fit.rows[0].measured
    assert fit.high == pytest.approx(fit.rows[0].held_out / fit.rows[0].measured, rel=1e-6)
    assert fit.low == 1 / fit.high


def test_the_chip_file_says_the_same(tmp_path: Path) -> None:
    fit = bench_fit(MODEL, rows("m2-max", 0.8), "m2-max", precision="q4_0")
    path = tmp_path / "mine.toml"
    path.write_text(known_chip_toml(fit.chip))
    read, base = chip_named(str(path)), chip_named("m2-max")
    for figure in ("peaks", "bandwidth", "capacity", "units", "cache", "tdp", "generation", "vendor", "kind"):
        assert getattr(read, figure) == getattr(base, figure), figure
    assert read.clock == pytest.approx(base.clock)
    tpot = rl.generate(MODEL, on=str(path), input=1, output=128, **WHERE).tpot.expected
    assert 1 / tpot == pytest.approx(fit.rows[0].measured, rel=3e-3)
    assert rl.generate(MODEL, on=str(path), input=1, output=128, **WHERE).grade == "A"


def test_rows_of_a_file() -> None:
    text = json.dumps([{"n_prompt": 512, "n_gen": 0, "avg_ts": 1000.0}, {"n_prompt": 0, "n_gen": 128, "avg_ts": 90.0}])
    fit = bench_fit(MODEL, measured_rows(text, "bench.json"), "rtx-3090", precision="q4_0")
    assert [row.quantity for row in fit.rows] == ["prompt", "answer"]


@pytest.mark.parametrize(
    ("measured", "engine", "field"),
    [([], None, "--llama-bench"), ([Measured("ttft", 1.0, 5, 5)], None, "--llama-bench"),
     ([Measured("answer", 9.0, 0, 9)], "vllm", "--engine"), ([Measured("prompt", 9.0, 10**6, 0)], None, "")],
)  # fmt: skip
def test_what_is_no_such_benchmark(measured: list[Measured], engine: str | None, field: str) -> None:
    with pytest.raises(InputError) as error:
        bench_fit(MODEL, measured, "rtx-3090", engine=engine)
    assert field in str(error.value)
