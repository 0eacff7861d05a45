"""Constants of chips outside NVIDIA's data centres, the pass that quantises, and grades of what is assumed."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.engines.engine import engine_named
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import OTHER_VENDORS, constants_for
from roofline.kernels.target import CALIBRATED, Target, experts_path, path_of
from roofline.kernels.timing import time_quantise
from roofline.model.formats import FORMATS
from roofline.model.precision import uniform
from roofline.work import ops as o

LLAMA = "meta-llama/Llama-3.1-8B"


def target(chip: str, weights: str, engine: str = "none") -> Target:
    """A chip that multiplies weights in a format."""
    precision = uniform(FORMATS["bf16"]).with_roles(weights=weights)
    return Target(chip_named(chip), precision, engine_named(engine), CALIBRATED)


def product(**given: Any) -> o.MatMul:
    """A square product of one row."""
    return o.MatMul(**{"name": "proj", "part": "ffn", "m": 1, "k": 4096, "n": 4096, **given})


def seconds(chip: str, precision: str, batch: int = 1) -> float:
    """Expected seconds of a step that adds a token to 100 of each sequence."""
    return float(rl.estimate(LLAMA, rl.decode(batch, 100), on=chip, precision=precision).time)


@folded(
    ("chip", "dtype", "kind", "grade"),
    [
        ("mi355x", "bf16", "matmul", "A"), ("mi355x", "mxfp4", "experts", "A"), ("mi350x", "fp8_block", "experts", "B"),
        ("mi300x", "fp8_block", "quantised_matmul", "A"), ("mi325x", "sq", "quantised_matmul", "B"),
        ("mi300x", "bf16", "matmul", "C"), ("mi300x", "bf16", "prefill", "C"),
    ],
)  # fmt: skip
def test_amd_has_constants_of_its_own(chip: str, dtype: str, kind: str, grade: str) -> None:
    assert constants_for(chip_named(chip), dtype, kind).grade == grade


def test_mxfp4_is_multiplied_in_four_bits_on_cdna4_alone() -> None:
    for engine in ("none", "vllm", "sglang"):
        path = target("mi355x", "mxfp4", engine).path(product())
        assert (path.dtype, path.compute, path.activation) == ("mxfp4", "fp4", 17 / 32)
    assert target("mi300x", "mxfp4").path(product()).dtype == "w4a16_mxfp4"
    assert experts_path(FORMATS["mxfp4"], FORMATS["bf16"], "mxfp4").compute == "fp4"


def test_int8_quantises_its_activations_as_fp8_does() -> None:
    assert path_of(FORMATS["int8"], FORMATS["bf16"]).quantise == path_of(FORMATS["fp8"], FORMATS["bf16"]).quantise == 3
    int8, fp8 = (time_quantise(product(), target("h100-sxm", fmt)) for fmt in ("int8", "fp8"))
    assert int8 is not None
    assert fp8 is not None
    assert int8.expected == fp8.expected > 0


def test_a_pass_nobody_measured_is_an_element_wise_op() -> None:
    """3 bytes of each of 4,096 values after a launch, at the stream's share of MI355X's 8 TB/s."""
    timing = time_quantise(product(), target("mi355x", "fp8"))
    stream = constants_for(chip_named("mi355x"), "bf16", "stream").record
    assert timing is not None
    assert timing.expected == pytest.approx(stream.t0 + 3 * 4096 / (stream.memory * 8e12))


def test_products_of_one_input_quantise_it_once() -> None:
    at = target("h100-sxm", "fp8")
    assert time_quantise(product(beside=True), at) is None
    assert time_quantise(product(beside=True, phase="backward"), at) is not None
    e = rl.estimate("deepseek-ai/DeepSeek-V3", rl.decode(1, 100), on="h100-sxm")
    quantised = {op.name.removesuffix("_quantise") for op in e.ops if op.kind == "quantise"}
    assert "q_a_proj" in quantised
    assert "kv_a_proj" not in quantised


@folded(
    ("model", "precision", "measured"),
    [
        ("meta-llama/Llama-2-7b-hf", "bf16", 104.9), ("meta-llama/Llama-2-7b-hf", "weights=int8-g4096", 155.6),
        ("meta-llama/Llama-2-7b-hf", "weights=int4-g32", 196.8), (LLAMA, "weights=int8-g4096", 137.64),
        ("meta-llama/Llama-2-70b-hf", "weights=int8-g4096", 19.13),
        ("meta-llama/Llama-2-70b-hf", "weights=int4-g32", 25.25),
    ],
)  # fmt: skip
def test_gpt_fast_on_one_a100(model: str, precision: str, measured: float) -> None:
    """Tokens per second of pytorch-labs/gpt-fast (commit 32971d31, README), batch 1, prompt of 5: none was fitted.

    Its kernels are those of torch.compile, not an engine's: vLLM's would be Marlin.
    """
    e = rl.estimate(model, rl.decode(1, 100), on="a100-sxm-80gb", engine="none", precision=precision)
    assert float(e.span.low) < 1 / measured < float(e.span.high)
    assert 1 / float(e.time) == pytest.approx(measured, rel=0.13)


def test_weights_in_four_bits_are_read_not_multiplied_on_a_small_chip() -> None:
    """M1 Max, 400 GB/s: a row costs what reading costs and launches, whatever tiles a data-centre GPU would fill."""
    ratio = seconds("m1-max", "weights=int4,activations=fp16,kv=fp16") / seconds("m1-max", "fp16")
    assert 0.3 < ratio < 0.45


def test_intervals_of_foreign_chips_are_as_wide_as_foreign_chips_fell() -> None:
    amd, nvidia = (constants_for(chip_named(chip), "bf16", "prefill") for chip in ("mi300x", "a10"))
    assert amd.large[0] <= OTHER_VENDORS[0]
    assert amd.large[1] >= OTHER_VENDORS[1]
    assert nvidia.large[1] < OTHER_VENDORS[1]


def test_twice_the_exponentials_shorten_attention_by_half_of_softmax() -> None:
    """At head size 128 softmax is 0.3 of a pair's time: it takes 0.85 of what it took."""
    b300, plain = (constants_for(c, "bf16", "prefill").record for c in (chip_named("b300"), chip_named("b100")))
    assert plain.compute / b300.compute == pytest.approx(0.85)


def test_the_products_of_experts_share_one_launch() -> None:
    e = rl.estimate("Qwen/Qwen3-30B-A3B", rl.decode(1, 100), on="h100-sxm")
    launch = constants_for(chip_named("h100-sxm"), "bf16", "experts", "vllm").launch
    assert sum(float(op.fixed) for op in e.ops if op.kind == "experts") == pytest.approx(48 * launch)


def test_an_assumed_factor_has_no_better_a_grade_than_it_deserves() -> None:
    megatron = engine_named("megatron")
    assert [megatron.grade(g, "wide") for g in ("ampere", "cdna3")] == ["B", "C"]
    assert engine_named("vllm").grade("hopper", "products") == "A"


@folded("chip, slower", [("tpu-v6e", 1.35), ("tpu-v7", 1.0)])
def test_fp8_prompts_of_a_tpu_take_no_latency_of_a_gpu(chip: str, slower: float) -> None:
    """vLLM's fp8 kernel has one a step of a block's loop, of many blocks side by side. On a TPU's one unit prompts
    took 2.8 and 3.5 times as long as in bf16. A v6e is no faster in fp8, and quantises; a v7 is twice as fast."""
    kernels = (constants_for(chip_named(c), "fp8", "quantised_matmul", "vllm").record for c in (chip, "mi250x"))
    assert [kernel.step > 0 for kernel in kernels] == [False, True]
    times = [
        rl.estimate("meta-llama/Llama-3.1-8B", rl.prefill(1, 4096), on=chip, engine="vllm", precision=p).time
        for p in ("fp8", "bf16")
    ]
    assert times[0] < slower * times[1]


def test_a_wide_unit_is_not_kept_busy_as_long_as_one_multiprocessor() -> None:
    """A core of Trainium2 has the bandwidth of 14 multiprocessors of an H100; GPUs are as before. A TPU's core takes
    sequence after sequence while the next one's cache arrives, so that a block takes no time of its own.

    Llama-3.3-70B by vLLM on eight TPU v6e, 64 users of 999 and 1,000 tokens, took 25.35 ms a token
    (AI-Hypercomputer/tpu-recipes, inference/trillium/vLLM/Llama3.x).
    """
    trainium = chip_named("trainium2")
    one, gpu, tpu = (
        constants_for(chip_named(c), "bf16", "decode").record for c in ("trainium2", "rx-7900-xtx", "tpu-v6e")
    )
    wide = trainium.bandwidth / (trainium.units or 1) / (3.35e12 / 132)
    assert wide == pytest.approx(14, rel=0.05)
    assert gpu.block / one.block == pytest.approx(wide, rel=0.01)
    assert tpu.block == 0
    seen = rl.serve(
        "meta-llama/Llama-3.3-70B-Instruct", on="8xtpu-v6e", layout="tp=8", input=999,
        engine="vllm(max_num_seqs=256,max_num_batched_tokens=512)", output_tokens=1000, concurrency=64,
        input_cv=0.0, output_cv=0.0,
    )  # fmt: skip
    assert seen.tpot.expected == pytest.approx(0.02535, rel=0.15)
