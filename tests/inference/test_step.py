"""Times: bounds that always hold, sweeps, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import by_day, folded
from roofline.declared.errors import InputError
from roofline.hardware.named_chip import chip_named

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
MODELS = [
    "meta-llama/Llama-3.1-8B",
    "deepseek-ai/DeepSeek-V3",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
]
EACH = settings(max_examples=by_day(8, 25), deadline=None)


@folded("name", MODELS)
@folded("on", ["h100-sxm", "b200", "peak=1000T,fp8=2000T,fp4=4000T,bw=5T,mem=200G"])
def test_floor_overlap_expected_and_interval_in_that_order(name: str, on: str) -> None:
    model = rl.load(name)
    for step in (rl.prefill(batch=2, tokens=512), rl.decode(batch=16, context=2048), rl.Step([(0, 256), (900, 1, 8)])):
        e = rl.estimate(model, step, on=on)
        low, high = e.interval
        assert 0 < e.floor <= e.serial_floor <= low <= e.time <= high
        assert sum(op.expected for op in e.ops) == pytest.approx(e.time)
        for op in e.ops:
            assert op.floor <= op.expected + 1e-15
            assert op.interval[0] <= op.expected <= op.interval[1]
            assert op.bound in ("compute", "memory", "latency")


def test_the_floor_is_the_roofline() -> None:
    chip = chip_named("h100-sxm")
    e = rl.estimate(LLAMA, rl.decode(batch=1, context=0), on=chip)
    assert e.memory_time == pytest.approx(
        rl.analyze(LLAMA, rl.decode(batch=1, context=0), traffic="floor").bytes / 3.35e12
    )
    assert e.bound == "memory"
    big = rl.estimate(LLAMA, rl.prefill(batch=8, tokens=4096), on=chip)
    matrices = rl.analyze(LLAMA, rl.prefill(batch=8, tokens=4096)).flops
    assert big.compute_time == pytest.approx(matrices / chip.peak("bf16"), rel=0.05)
    assert big.bound == "compute"


def test_ideal_and_fixed_laws() -> None:
    step = rl.decode(batch=32, context=1024)
    ideal, half = (rl.estimate(LLAMA, step, on="h100-sxm", law=law) for law in ("ideal", "fixed(0.5,0.5)"))
    assert ideal.time == ideal.serial_floor == pytest.approx(half.time / 2)


@EACH
@given(batch=st.integers(1, 256), context=st.integers(0, 8000))
def test_time_grows_with_batch_and_context(batch: int, context: int) -> None:
    def time(b: int, c: int) -> float:
        return float(rl.estimate(LLAMA, rl.decode(batch=b, context=c), on="h100-sxm").floor)

    assert time(batch + 1, context) >= time(batch, context)
    assert time(batch, context + 100) >= time(batch, context)


@pytest.mark.parametrize("name", MODELS)
def test_arrays_equal_a_loop_of_scalars(name: str) -> None:
    model = rl.load(name)
    batch, context = np.array([[1], [8], [64]]), np.array([128, 1000, 8000])
    sweep = rl.estimate(model, rl.decode(batch=batch, context=context), on="h200-sxm")
    assert sweep.time.shape == sweep.floor.shape == sweep.bound.shape == (3, 3)
    for i in range(3):
        for j in range(3):
            one = rl.estimate(model, rl.decode(batch=int(batch[i, 0]), context=int(context[j])), on="h200-sxm")
            assert sweep.time[i, j] == pytest.approx(one.time, rel=1e-9)
            assert sweep.floor[i, j] == pytest.approx(one.floor, rel=1e-9)
            assert sweep.bound[i, j] == one.bound


def test_communication_is_a_share_of_the_time() -> None:
    e = rl.estimate(LLAMA, rl.decode(8, 1024), on="8xh100-sxm", layout="tp=8")
    sent = [op for op in e.ops if op.kind == "communication"]
    assert e.communication_time == pytest.approx(sum(op.expected for op in sent)) != 0
    assert sum(e.part(op) for op in sent) == pytest.approx(dict(e.shares)["communication"])
    assert e.traffic_time == e.analysis.bytes / e.chip.bandwidth


def test_tokens_are_the_new_ones() -> None:
    e = rl.estimate(LLAMA, rl.Step([(0, 256), (900, 1, 8)]), on="h100-sxm")
    assert e.tokens_per_second == pytest.approx((256 + 8) / e.time)


def test_dynamic_quantisation_is_an_op_of_its_own() -> None:
    plain = rl.estimate(LLAMA, rl.prefill(batch=1, tokens=2048), on="h100-sxm")
    eight = rl.estimate(LLAMA, rl.prefill(batch=1, tokens=2048), on="h100-sxm", precision="fp8")
    assert {op.name for op in eight.ops} - {op.name for op in plain.ops} == {
        "qkv_proj_quantise", "o_proj_quantise", "gate_up_proj_quantise", "down_proj_quantise",
    }  # fmt: skip
    assert eight.time < plain.time


def test_weight_only_formats_compute_at_the_activations_peak() -> None:
    step = rl.prefill(batch=4, tokens=2048)
    four, sixteen = (rl.estimate(LLAMA, step, on="a100", precision=p) for p in ("weights=int4", None))
    assert four.compute_time == pytest.approx(sixteen.compute_time)
    assert four.memory_time < sixteen.memory_time


def test_a_chip_without_data_inherits_and_says_so() -> None:
    step = rl.decode(batch=8, context=1024)
    assert rl.estimate(LLAMA, step, on="h100-sxm").grade == "A"
    assert rl.estimate(LLAMA, step, on="gh200").grade == "B"
    assert rl.estimate(LLAMA, step, on="mi300x").grade == "C"


@folded(
    ("arguments", "field"),
    [
        ({"on": "h1000"}, "chip"),
        ({"on": "mi250x", "precision": "fp8"}, "mi250x peak"),
        ({"on": "v100"}, "v100-sxm2-16gb peak"),
        ({"on": "h100", "law": "perfect"}, "law"),
        ({"on": "h100", "law": "fixed(2,1)"}, "law"),
        ({"on": "peak=1000T,bw=4.8T"}, "chip mem"),
        ({"on": "peak=1000T,bw=-4.8T,mem=1G"}, "chip bw"),
        ({"on": "peak=1000T,bw=4.8W,mem=1G"}, "chip bw"),
    ],
)
def test_bad_input_names_the_field(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as error:
        rl.estimate(LLAMA, rl.decode(batch=1, context=1), **arguments)
    assert error.value.field == field
    assert "\n" not in str(error.value)


def test_a_step_beyond_the_context_is_an_error() -> None:
    with pytest.raises(InputError) as error:
        rl.estimate(LLAMA, rl.decode(batch=1, context=131072), on="h100")
    assert error.value.field == "context"
    rl.estimate(LLAMA, rl.decode(batch=1, context=131071), on="h100")


def test_sparse_attention_is_faster_than_dense() -> None:
    step = rl.decode(batch=8, context=131072)
    dense, sparse = (
        rl.estimate(rl.load(f"deepseek-ai/DeepSeek-{v}"), step, on="h200-sxm") for v in ("V3.1", "V3.2-Exp")
    )
    assert sparse.time < dense.time


def test_a_chunk_that_just_began_reads_nothing() -> None:
    scout = rl.load("meta-llama/Llama-4-Scout-17B-16E")

    def chunked(context: int) -> float:
        e = rl.estimate(scout, rl.decode(batch=64, context=context), on="h200-sxm")
        return sum(float(op.expected) for op in e.ops if op.name == "attention" and op.cost.block.startswith("chunked"))

    assert chunked(8192) < 0.2 * chunked(8191)


def test_a_product_of_one_row_reads_its_weights_at_any_peak() -> None:
    """Chips with a low ridge: fewer bits take less time, as on every laptop."""
    wide, narrow = (
        rl.estimate(LLAMA, rl.decode(batch=1, context=100), on="m2-ultra", precision=p).time
        for p in ("fp16", {"attention": "int4", "ffn": "int4", "head": "int4", "activations": "fp16", "kv": "fp16"})
    )
    assert narrow < 0.7 * wide


@pytest.mark.parametrize(
    ("name", "chip", "fmt"),
    [
        ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "a10", "fp16"),
        ("meta-llama/Llama-3.1-8B", "h100-sxm", "bf16"),
        ("deepseek-ai/DeepSeek-V3", "h200-sxm", "fp8"),
    ],
)
def test_mfu_is_against_the_peak_of_the_format_that_is_multiplied(name: str, chip: str, fmt: str) -> None:
    e = rl.estimate(rl.load(name), rl.prefill(1, 1024), on=chip)
    assert e.mfu == pytest.approx(e.analysis.flops / (e.chip.peak(fmt) * e.time))
    assert 0 < e.mfu < 1
