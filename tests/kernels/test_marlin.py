"""Which kernels widen weights and attend with sinks where a chip or an engine's first kernel cannot, and how fast."""

from __future__ import annotations

import dataclasses

import pytest

import roofline as rl
from roofline.engines.engine import engine_named
from roofline.hardware.named_chip import chip_named
from roofline.kernels import law
from roofline.kernels.constants import marlin_constants
from roofline.kernels.target import MARLIN_FLOATS, roof_of

PUBLISHED = ((128, 140.903), (256, 141.424), (512, 141.350), (1024, 141.152), (2048, 141.425), (4000, 141.124))
"""Rows and TFLOP/s of Marlin on an A100, by its own bench.py (github.com/vllm-project/vllm/pull/2497)."""


@pytest.mark.parametrize(("rows", "rate"), PUBLISHED)
def test_marlin_on_an_a100_is_as_fast_as_published(rows: int, rate: float) -> None:
    """Its constants are of grouped products; the benchmark's matrix has 162 MB in 4 bits, and no part in them."""
    chip = chip_named("a100-sxm-80gb")
    n, k = 18432, 17408
    c = marlin_constants(chip, "int4_wo", "vllm").record
    seconds = law.matmul_seconds(rows, n, k, 2, 0.5 + 2 / 128, 2, roof_of(chip, "bf16"), c)
    assert 2 * rows * n * k / seconds / 1e12 == pytest.approx(rate, rel=0.06)


def test_other_engines_have_kernels_of_their_own() -> None:
    """Weights in 4 bits under TensorRT-LLM and of no engine run CUTLASS's mixed products, twice as fast in a prompt."""

    def seconds(engine: str, on: str) -> float:
        step = rl.prefill(1, 4096)
        return float(rl.estimate("Qwen/Qwen3-8B", step, on=on, engine=engine, precision="int4").time)

    assert seconds("vllm", "a100-sxm-80gb") > 1.4 * seconds("trtllm", "a100-sxm-80gb")
    assert seconds("sglang", "a100-sxm-80gb") == pytest.approx(seconds("vllm", "a100-sxm-80gb"), rel=0.05)
    plain = float(rl.estimate("Qwen/Qwen3-8B", rl.prefill(1, 4096), on="h100-sxm", engine="vllm").time)
    assert seconds("vllm", "h100-sxm") < 1.2 * plain  # Machete


def test_experts_run_marlin_where_the_engine_has_no_other_kernel() -> None:
    """mxfp4 experts of gpt-oss on Ampere, and on Hopper from a wheel: slower in prompts than Triton's on Hopper."""

    def seconds(engine: str) -> float:
        return float(rl.estimate("openai/gpt-oss-120b", rl.prefill(1, 8192), on="h100-sxm", engine=engine).time)

    assert seconds("vllm(mxfp4_use_marlin=1)") > 1.4 * seconds("vllm")
    assert seconds("vllm@0.10(mxfp4_use_marlin=1)") == pytest.approx(seconds("vllm(mxfp4_use_marlin=1)"), rel=0.05)
    for release in ("vllm", "vllm@0.11"):
        assert engine_named(release).kernel("mxfp4", "ampere") == "marlin"
    assert 1.1 < MARLIN_FLOATS < 1.26


def test_attention_with_sinks_runs_tritons_kernel_where_others_lack_them() -> None:
    """gpt-oss has sinks, Qwen3 has none; Hopper's FlashAttention 3 has them, Ampere's FlashAttention 2 has not."""

    def slower(model: str, on: str) -> float:
        vllm = engine_named("vllm")
        with_and_without = vllm, dataclasses.replace(vllm, sinks={})
        one, other = (rl.estimate(model, rl.prefill(1, 32768), on=on, engine=e) for e in with_and_without)
        return float(one.time / other.time)

    assert slower("openai/gpt-oss-20b", "a100-sxm-80gb") > 1.5
    assert slower("openai/gpt-oss-20b", "l40s") > 1.5
    assert slower("openai/gpt-oss-20b", "h100-sxm") == slower("Qwen/Qwen3-8B", "a100-sxm-80gb") == 1


def test_without_deep_gemm_no_rows_are_filled() -> None:
    """vLLM 0.11 from a wheel lacks the package: its experts are as fast as later ones', the memory is the same."""

    def time(engine: str) -> float:
        step = rl.decode(16, 1024)
        model = "Qwen/Qwen3-235B-A22B"
        return float(
            rl.estimate(model, step, on="8xh100-sxm", layout="tp=8", engine=engine, precision="fp8-block").time
        )

    assert time("vllm@0.11") > 1.2 * time("vllm@0.11(use_deep_gemm=0)")
    assert time("vllm") == time("vllm(use_deep_gemm=0)")
