"""Own errors of ops as the root of their squares, common ones as their sum."""

import math
from dataclasses import replace

import pytest

import roofline as rl
from roofline.engines.engine import engine_named
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import Constants, constants_for
from roofline.kernels.deviation import EXACT, Deviation, deviation_between, deviation_within
from roofline.kernels.law import StreamLaw
from roofline.kernels.target import CALIBRATED, Target
from roofline.kernels.timing import time_op
from roofline.work import ops as o
from roofline.work.lower import lower

LLAMA = "meta-llama/Llama-3.1-8B"


def test_own_parts_go_as_squares_and_common_ones_as_a_sum() -> None:
    """Two ops of common parts 1 and 2 and own ones 3 and 4: √(3² + 3² + 4²)."""
    both = Deviation(1.0, 2.0, 9.0, 0.0) + Deviation(2.0, 4.0, 16.0, 64.0)
    assert both.below == pytest.approx(math.sqrt(34))
    assert both.above == pytest.approx(10.0)
    assert (EXACT.below, EXACT.above) == (0.0, 0.0)


def test_many_times_the_same_op_err_alike_and_blocks_apart() -> None:
    one = Deviation(3.0, 3.0, 16.0, 16.0)
    assert one.below == 5.0
    assert one.times(32).below == 160.0
    assert one.times(8, 6**2 + 2**2).below == pytest.approx(math.sqrt(24**2 + 16 * 40))


def test_parts_of_a_kernel_have_its_error_together() -> None:
    """A third and two thirds of the time of a kernel that errs by 6 s on its own account and by 0 in common."""
    parts = [Deviation(0.0, 0.0, (6.0 * share) ** 2, 0.0).of_a_part(share) for share in (1 / 3, 2 / 3)]
    assert (parts[0] + parts[1]).below == pytest.approx(6.0)


@pytest.mark.parametrize(("grade", "common"), [("A", 0.10), ("B", 0.25), ("C", 0.75), ("-", 0.0)])
def test_an_interval_is_taken_apart_by_its_grade(grade: str, common: float) -> None:
    """10 s with 8 to 13: the squares of the parts are the grade's shares of 4 and of 9."""
    d = deviation_between(10.0, 8.0, 13.0, grade)
    assert (d.below, d.above) == (pytest.approx(2.0), pytest.approx(3.0))
    assert d.common_below**2 == pytest.approx(common * 4)
    assert d.own_above == pytest.approx((1 - common) * 9)


def test_what_later_releases_add_is_common() -> None:
    """0.9 to 1.1 of the fitted rows, 0.8 to 1.2 of later ones: an op alone is as stated, of 100 the common is left."""
    c = Constants(StreamLaw(t0=0.0), "A", (0.9, 1.1), (0.9, 1.1), later=((0.8, 1.2), (0.8, 1.2)))
    d = c.deviation(1.0)
    assert (d.below, d.above) == (pytest.approx(0.2), pytest.approx(0.2))
    assert d.own_below == pytest.approx(0.9 * 0.01)
    assert d.common_below == pytest.approx(math.sqrt(0.04 - 0.009))
    hundred = d.times(100, 100)
    assert hundred.below / 100 == pytest.approx(math.sqrt(0.031 + 0.009 / 100))


def test_an_interval_on_one_side_of_what_is_expected_has_no_other_side() -> None:
    c = Constants(StreamLaw(t0=0.0), "C", (1.1, 1.3), (1.1, 1.3))
    assert (c.deviation(1.0).below, c.deviation(1.0).above) == (0.0, pytest.approx(0.3))


def test_an_op_alone_is_as_wide_as_its_constants() -> None:
    chip, model = chip_named("h100-sxm"), rl.load(LLAMA)
    target = Target(chip, model.precision, engine_named("vllm"), CALIBRATED)
    (op,) = (x for _, m, _ in model.placed() if m.name == "qkv_proj" for x in lower(m, rl.decode(8192, 100)))
    assert isinstance(op, o.MatMul)
    t, known = time_op(op, target), constants_for(chip, "bf16", "matmul", "vllm")
    low, high = known.interval(t.expected)
    assert (t.low / t.expected, t.high / t.expected) == (pytest.approx(low), pytest.approx(high))


def test_a_fitted_factor_has_the_interval_of_the_models_it_was_fitted_on() -> None:
    """MI250 under vLLM of 2024: within e^0.22 either way, whatever the generic kernels' is, of all products' kinds."""
    d = deviation_within(10.0, 0.2)
    assert (10.0 + d.above, 10.0 - d.below) == (pytest.approx(10 * math.exp(0.2)), pytest.approx(10 * math.exp(-0.2)))
    assert [engine_named("vllm-2024").within("cdna2", kind) for kind in ("products", "wide", "experts")] == 3 * [0.22]
    assert engine_named("vllm-2024").within("cdna2", "collectives") is None
    assert engine_named("trtllm").within("hopper", "latency") is None


ASSUMED = replace(
    engine_named("none"), id="assumed", slower={"hopper": {"products": 1.3, "wide": 1.3}}, assumes=("hopper",)
)
"""An engine whose products take 1.3 times as long as alone on Hopper, by assumption."""


def test_no_grade_a_where_an_assumed_or_fitted_factor_decides() -> None:
    """TensorRT-LLM on Hopper: that of the latency of collectives, which one chip lacks, was fitted on whole models."""
    step = rl.decode(4, 1000)
    alone = rl.estimate(LLAMA, step, on="h100-sxm", engine="trtllm")
    eight = rl.estimate(LLAMA, step, on="8xh100-sxm", layout="tp=8", engine="trtllm")
    assert eight.communication_time > 0.1 * eight.time
    assert (alone.grade, eight.grade) == ("A", "B")
    assumed = rl.estimate(LLAMA, step, on="h100-sxm", engine=ASSUMED)
    fitted = rl.estimate(LLAMA, step, on="b200", engine="megatron-2025")
    assert (assumed.grade, fitted.grade) == ("C", "B")


def test_an_assumed_factor_widens_what_it_decides() -> None:
    """Products 1.3 times as long as alone, by assumption: e^(±ln 1.3) beside the kernel's own interval."""
    chip, model = chip_named("h100-sxm"), rl.load(LLAMA)
    (op,) = (x for _, m, _ in model.placed() if m.name == "qkv_proj" for x in lower(m, rl.decode(8192, 100)))
    t = time_op(op, Target(chip, model.precision, ASSUMED, CALIBRATED))
    _, high = constants_for(chip, "bf16", "matmul").interval(t.expected)
    assert t.high / t.expected - 1 == pytest.approx(math.hypot(high - 1, 0.3))


def test_independent_errors_of_one_op() -> None:
    """3 and 4 in common are 5; own squares add up."""
    both = Deviation(3.0, 0.0, 1.0, 0.0).beside(Deviation(4.0, 0.0, 2.0, 0.0))
    assert (both.common_below, both.own_below) == (5.0, 3.0)


def test_attention_without_a_mask_errs_more_than_the_causal_prompts_that_were_fitted() -> None:
    """The logarithms of both errors add in quadrature."""
    known = constants_for(rl.chips()["h100-sxm"], "bf16", "prefill")
    for own, wide in ((known.large, known.unmasked.large), (known.small, known.unmasked.small)):
        ends = [-math.hypot(math.log(own[0]), 0.30), math.hypot(math.log(own[1]), 0.30)]
        assert [math.log(end) for end in wide] == pytest.approx(ends)


def test_an_engine_without_measured_kernels_has_the_spread_between_engines() -> None:
    """B200's latent attention was measured of TensorRT-LLM and SGLang: vLLM's has their constants, and errs more."""
    chip = chip_named("b200")
    both, own, vllm = (constants_for(chip, "bf16_kv_bf16", "latent_decode", name) for name in (None, "sglang", "vllm"))
    assert vllm.record == both.record != own.record
    assert vllm.grade == "A"
    for fitted, wide in ((both.large, vllm.large), (both.small, vllm.small)):
        ends = [-math.hypot(math.log(fitted[0]), 0.97), math.hypot(math.log(fitted[1]), 0.97)]
        assert [math.log(end) for end in wide] == pytest.approx(ends)


def test_an_engine_that_the_chips_constants_speak_of_has_their_interval() -> None:
    """GB200's products are fitted on TensorRT-LLM's alone."""
    every, own, other = (
        constants_for(chip_named("gb200"), "bf16", "matmul", name) for name in (None, "trtllm", "vllm")
    )
    assert own == every
    assert math.log(other.large[1]) == pytest.approx(math.hypot(math.log(every.large[1]), 0.07))


def test_an_encoder_has_no_mask_and_a_decoder_has_one() -> None:
    def unmasked(name: str) -> set[bool]:
        modules = [module for _, module, _ in rl.load(name).placed()]
        ops = [op for module in modules for op in lower(module, rl.prefill(1, 64))]
        return {op.unmasked for op in ops if isinstance(op, o.Attend)}

    assert unmasked("google/vit-base-patch16-224") == {True}
    assert unmasked(LLAMA) == unmasked("google/gemma-2-2b") == {False}
