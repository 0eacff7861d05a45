"""Laws and constants: limits, monotone, every kind covered."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.engines.engine import engine_named
from roofline.hardware.chip import chips
from roofline.hardware.named_chip import chip_named
from roofline.kernels import law
from roofline.kernels.constants import FOLDER, Constants, constants_for
from roofline.kernels.kernels import KERNELS
from roofline.kernels.law import RECORDS
from roofline.kernels.target import CALIBRATED, Target, path_of, roof_of
from roofline.model.formats import FORMATS
from roofline.work.lower import lower
from roofline.work.ops import NAMES, Backward, Communicate

ROOF = law.Roof(peak=1e15, bandwidth=4e12, l2=50e6, units=132)


def test_every_kind_of_op_has_a_law() -> None:
    assert set(KERNELS) - {Backward} == set(NAMES) - {Communicate}  # a collective's is in machine.collectives


@pytest.mark.parametrize("chip", ["b200", "h100-sxm", "mi300x", "l4"])
def test_adding_to_the_experts_gradients_takes_their_bytes(chip: str) -> None:
    """fp32 gradients of every expert that is touched are read and written: no mark of them lies above the roof."""
    training = rl.train("Qwen/Qwen1.5-MoE-A2.7B", batch=1, tokens=2048, on=chip)
    e = training.micro(training.stages[0])
    gradients = [op for op in e.ops if op.name.startswith("experts_") and op.name.endswith("_wgrad")]
    assert len(gradients) == 2
    for op in gradients:
        assert float(op.expected) > float(op.cost.bytes) / e.chip.bandwidth


@settings(max_examples=50, deadline=None)
@given(m=st.integers(1, 10_000), n=st.integers(1, 10_000), k=st.integers(1, 10_000))
def test_a_product_is_never_faster_than_its_roof(m: int, n: int, k: int) -> None:
    c = law.MatmulLaw(t0=0.0, compute=1.0, memory=1.0, sharp=8.0, split=0.0)
    floor = max(2 * m * n * k / ROOF.peak, 2 * (m * k + n * k + m * n) / ROOF.bandwidth)
    assert law.matmul_seconds(m, n, k, 2, 2, 2, ROOF, c) >= floor * (1 - 1e-9)


def test_laws_take_arrays() -> None:
    m = np.array([1, 64, 4096])
    together = law.matmul_seconds(m, 4096, 4096, 2, 2, 2, ROOF, law.MatmulLaw())
    apart = [law.matmul_seconds(int(x), 4096, 4096, 2, 2, 2, ROOF, law.MatmulLaw()) for x in m]
    assert together == pytest.approx(apart)


@folded("kind", RECORDS)
def test_every_chip_finds_constants_and_says_how_well_they_are_known(kind: str) -> None:
    for chip in chips().values():
        fitted = constants_for(chip, "bf16_kv_bf16" if kind.startswith("latent") else "bf16", kind)
        assert fitted.grade in "ABC"
        assert fitted.small[0] <= 1.05
        assert fitted.large[1] >= 0.95
        assert all(
            np.isfinite(v) or f in ("split", "group", "pack") for f, v in dataclasses.asdict(fitted.record).items()
        )


def test_a_chip_of_a_measured_generation_takes_its_constants() -> None:
    h800, h100 = chip_named("h800"), chip_named("h100-sxm")
    assert constants_for(h100, "bf16", "matmul").grade == "A"
    assert constants_for(h800, "bf16", "matmul").grade == "B"
    assert constants_for(chip_named("m2-ultra"), "bf16", "matmul").grade == "C"


def test_shipped_constants_carry_their_error() -> None:
    assert list(FOLDER.glob("*.toml"))
    fitted = constants_for(chip_named("h100-sxm"), "bf16", "matmul", "trtllm")
    assert fitted.rows > 500
    assert fitted.mape is not None
    assert 0 < fitted.mape < 0.2


@folded(
    ("weights", "activations", "compute", "dtype"),
    [
        ("bf16", "bf16", "bf16", "bf16"), ("fp16", "fp16", "fp16", "fp16"), ("int4", "bf16", "bf16", "int4_wo"),
        ("mxfp4", "bf16", "bf16", "w4a16_mxfp4"), ("fp8", "bf16", "fp8", "fp8"),
        ("fp8-block", "bf16", "fp8", "fp8_block"),
        ("nvfp4", "bf16", "fp4", "nvfp4"), ("int8", "bf16", "int8", "sq"), ("bnb-int8", "bf16", "bf16", "int8_wo"),
        ("nf4", "fp16", "fp16", "int4_wo"), ("fp32", "fp32", "fp32", "fp32"),
    ],
)  # fmt: skip
def test_which_unit_a_product_runs_on(weights: str, activations: str, compute: str, dtype: str) -> None:
    path = path_of(FORMATS[weights], FORMATS[activations])
    assert (path.compute, path.dtype) == (compute, dtype)


def test_tiles_of_experts_are_chosen_by_their_rows() -> None:
    """Even loads of 64 rows in tiles of 8, 16, 32, 64, which cost 16 rows more each: 192, 128, 96, 80.

    One row is fastest in a tile of 8, nine in one of 16; with tiles of 8 alone nine rows take 16 too.
    """
    assert law.tile_rows(64.0, 8.0, 16.0, 1.0) == (64, 80)
    assert law.tile_rows(64.0, 8.0, 0.0, 1.0) == (64, 64)
    rows, time = law.tile_rows(np.array([1.0, 9.0]), 8.0, 16.0, 1.0)
    assert (rows.tolist(), time.tolist()) == ([8, 16], [24, 32])
    alone, _ = law.tile_rows(np.array([1.0, 9.0]), 8.0, np.array([0.0, 0.0]), 1.0)
    assert alone.tolist() == [8, 16]


def test_pairs_of_other_ranks_are_passed_over() -> None:
    """1000 pairs of 4096 elements, 3 bytes each, at half of 4 TB/s; and what a rank apart costs once."""
    c = law.ExpertsLaw(passes=0.5, apart=1e-6, remote=3.0)
    args = {"tokens": 64, "rows": 64, "touched": 8, "hidden": 4096, "inner": 512, "gated": 1, "x": 2, "w": 2}
    whole, part = (law.experts_seconds(**args, chip=ROOF, c=c, remote=r) for r in (0, 1000))
    assert part - whole == pytest.approx(1e-6 + 1000 * 4096 * 3 / 2e12)


def test_the_interval_of_later_releases_is_their_own() -> None:
    """Short below three launches of 1 µs; where no later release was measured, as on the rows that were fitted."""
    known = Constants(law.StreamLaw(t0=1e-6), "A", (0.8, 1.5), (0.9, 1.2), later=((0.6, 2.0), (0.7, 1.4)))
    assert [known.interval(t) for t in (2e-6, 4e-6)] == [(0.6, 2.0), (0.7, 1.4)]
    assert [known.interval(t, fitted=True) for t in (2e-6, 4e-6)] == [(0.8, 1.5), (0.9, 1.2)]
    assert dataclasses.replace(known, later=None).interval(4e-6) == (0.9, 1.2)


def test_matrix_units_that_are_cut_down_are_used_for_more_of_their_time() -> None:
    """The H20 has an H100's processors with less than a quarter of the matrix rate: 148 of 44, 989.4 of 66.9 TFLOP/s.

    What else than multiplying limits a product is as fast as on an H100, and fits beside it by a smooth maximum.
    """
    whole, cut = (constants_for(chip_named(c), "bf16", "experts", "vllm").record for c in ("h200-sxm", "h20"))
    generation = constants_for(chip_named("gh200"), "bf16", "experts", "vllm").record
    ratio = (148 / 44) / (989.4 / 66.9)
    other = (generation.compute**-4 - 1) ** (1 / 4) * ratio
    assert cut.compute == pytest.approx(1 / (1 + other**4) ** (1 / 4), rel=1e-3)
    assert cut.compute > whole.compute
    turned = dataclasses.replace(chip_named("h20"), peaks={"bf16": 1e14})
    assert constants_for(turned, "bf16", "experts", "vllm").record.compute == cut.compute


@pytest.mark.parametrize(
    ("chip", "published"), [("l20", (105 / 119.5, 115 / 119.5)), ("rtx-5060-ti-16gb", (0.95, 1.0))]
)
def test_products_of_cut_down_matrix_units_reach_what_was_published(chip: str, published: tuple[float, float]) -> None:
    """cuBLAS on an L20: 105 to 115 of 119.5 TFLOP/s; on an RTX 5060 Ti 47.0 of 36 cores · 512 FLOP · 2.57 GHz."""
    low, high = published
    assert low <= constants_for(chip_named(chip), "bf16", "matmul").record.compute <= high


@pytest.mark.parametrize(("layout", "batch", "keys"), [("tp=8", 64, 0), ("tp=8,ep=8", 16, 64), ("tp=8,ep=8", 17, 32)])
def test_experts_without_tuned_blocks_wait_for_each_step_of_their_loop(layout: str, batch: int, keys: int) -> None:
    """Qwen3-235B: 94 layers with loops over 4,096 and 1,536; a rank of eight has 16 experts, and no tuned blocks."""
    engine = engine_named("vllm@0.11.1")
    times = [
        rl.estimate(
            "Qwen/Qwen3-235B-A22B", rl.decode(batch, 1000), on="8xh100-sxm", layout=layout, engine=e
        ).span.expected
        for e in (engine, dataclasses.replace(engine, untuned={}))
    ]
    steps = (4096 + 1536) / keys if keys else 0.0
    assert times[0] - times[1] == pytest.approx(94 * steps * engine.untuned["bf16"]["hopper"])
    assert not engine_named("vllm@0.12").untuned


def test_picked_latents_by_hand() -> None:
    """Two tokens with 100 keys of 2,048 that they may pick, 16 heads in a tile of 64, 1,088 multiply-adds a pair."""
    roof = law.Roof(1e15, 1e12, 1e6, 100)
    c = law.Sparse(t0=1e-5, compute=0.5, heads=64, least=0)
    assert law.sparse_seconds(2, 100, 2048, 16, 1088, roof, c) == pytest.approx(1e-5 + 2 * 100 * 64 * 2 * 1088 / 5e14)
    padded = law.sparse_seconds(2, 100, 2048, 16, 1088, roof, dataclasses.replace(c, least=1))
    assert padded == pytest.approx(1e-5 + 2 * 2048 * 64 * 2 * 1088 / 5e14)


LATENT = rl.load("deepseek-ai/DeepSeek-V3")


def seconds_of(engine: str, *names: str) -> list[float]:
    """Seconds of ops of a layer of DeepSeek-V3 at a decode on H200, by the kernels of an engine."""
    target = Target(chip_named("h200-sxm"), LATENT.precision, engine_named(engine), CALIBRATED)
    ops = {op.name: op for module in LATENT.layers[0].modules for op in lower(module, rl.decode(8, 100))}
    return [float(KERNELS[type(ops[n])].law(ops[n], target)[0]) for n in names]


def test_products_of_one_input_are_one_product() -> None:
    """q_a and kv_a of DeepSeek-V3, 1,536 and 576 outputs, take what one product of 2,112 takes, by their outputs."""
    target = Target(chip_named("h200-sxm"), LATENT.precision, engine_named("sglang"), CALIBRATED)
    ops = {op.name: op for module in LATENT.layers[0].modules for op in lower(module, rl.decode(8, 100))}
    whole = dataclasses.replace(ops["q_a_proj"], n=2112, stacked=0)
    both = seconds_of("sglang", "q_a_proj", "kv_a_proj")
    assert sum(both) == pytest.approx(float(KERNELS[type(whole)].law(whole, target)[0]))
    assert both[0] / both[1] == pytest.approx(1536 / 576)


def test_absorbed_weights_are_multiplied_in_16_bits_where_engines_hold_them_so() -> None:
    """vLLM has no fp8 of them: the constants are those of a 16-bit product, of twice the bytes."""
    target = Target(chip_named("h200-sxm"), LATENT.precision, engine_named("vllm"), CALIBRATED)
    ops = {op.name: op for module in LATENT.layers[0].modules for op in lower(module, rl.decode(8, 100))}
    absorbed, other = target.path(ops["attention_q_absorb"]), target.path(ops["q_b_proj"])
    assert (absorbed.dtype, absorbed.weight, absorbed.quantise) == ("bf16", 2.0, 0.0)
    assert (other.dtype, other.weight) == ("fp8_block", 1 + 4 / 128**2)


# -- weights alone -------------------------------------------------------------------------------------------------
def test_a_chip_without_the_arithmetic_runs_the_weights_alone_where_its_engine_has_a_kernel() -> None:
    """FP8 and NVFP4 checkpoints on Ampere and Hopper: bf16 products whose weights are as small as they are stored."""
    step = rl.decode(8, 512)
    plain = rl.estimate("Qwen/Qwen3-8B", step, on="a100-sxm-80gb", engine="vllm")
    for precision, alone in (("fp8", "weights=fp8"), ("fp8-block", "weights=fp8-block"), ("nvfp4", "weights=nvfp4")):
        e = rl.estimate("Qwen/Qwen3-8B", step, on="a100-sxm-80gb", engine="vllm", precision=precision)
        assert e.flops == plain.flops
        assert plain.time / 3 < e.time < plain.time
        assert (
            e.memory.weights
            == rl.estimate(
                "Qwen/Qwen3-8B", step, on="h100-sxm" if "fp8" in precision else "b200", engine="vllm", precision=alone
            ).memory.weights
        )
    rl.estimate("Qwen/Qwen3-8B", step, on="h100-sxm", engine="vllm", precision="nvfp4")
    rl.estimate("Qwen/Qwen3-8B", step, on="a100-sxm-80gb", engine="sglang", precision="fp8")
    for on, engine, precision in (
        ("a100-sxm-80gb", "trtllm", "fp8"), ("a100-sxm-80gb", "none", "fp8"), ("h100-sxm", "sglang", "nvfp4"),
        ("v100-sxm-32gb", "vllm", "fp8"),
    ):  # fmt: skip
        with pytest.raises(rl.InputError):
            rl.estimate("Qwen/Qwen3-8B", step, on=on, engine=engine, precision=precision).time  # noqa: B018


def test_attention_that_hides_nothing_is_padded_by_no_more_keys_than_there_are() -> None:
    """The padding of a causal mask is its diagonal's; where every query sees every key there is none."""
    roof, constants = roof_of(chip_named("gb200"), "bf16"), law.PrefillLaw(fixed=0.0, tail=0.0)
    sizes = {"batch": 4, "new": 512, "cached": 0, "heads": 16, "kv_heads": 16, "key": 64, "value": 64, "window": 0,
             "q": 2, "kv": 2}  # fmt: skip

    def seconds(pad: float, pairs: int) -> float:
        c = dataclasses.replace(constants, pad=pad)
        return float(law.prefill_seconds(**sizes, chip=roof, c=c, pairs=pairs, reach=512))

    assert seconds(600.0, 512 * 512) == seconds(0.0, 512 * 512)
    assert seconds(600.0, 512 * 513 // 2) > seconds(0.0, 512 * 513 // 2)


def test_a_lone_query_runs_the_tile_of_a_causal_mask() -> None:
    """It sees every key whatever the mask, so that a prompt of one token is padded as one of two is: by hand."""
    roof, c = roof_of(chip_named("gb200"), "bf16"), law.PrefillLaw(t0=0.0, fixed=0.0, tail=0.0, pad=600.0, memory=1e9)
    sizes = {"batch": 4, "cached": 0, "heads": 16, "kv_heads": 16, "key": 64, "value": 64, "window": 0, "q": 2, "kv": 2}
    one, two = (float(law.prefill_seconds(**sizes, new=n, chip=roof, c=c)) for n in (1, 2))
    by_hand = 4 * 16 * 64 * (1 + 600) * 4 * 64 / (c.compute * roof.peak) * c.other  # a tile of 64 queries, 1 + 600 keys
    assert one == pytest.approx(by_hand, rel=1e-6)
    assert two == pytest.approx(by_hand * 601.5 / 601, rel=1e-6)
