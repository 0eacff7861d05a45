"""Points of a roofline and shares: exact figures."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.whatif.markers import GROUPS, formats, group_of, points, time_shares, work_shares
from roofline.work import ops as o

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
V3 = rl.load("deepseek-ai/DeepSeek-V3")
PREFILL, DECODE = rl.prefill(batch=1, tokens=2048), rl.decode(batch=8, context=2048)


def test_a_product_by_hand() -> None:
    e = rl.estimate(LLAMA, PREFILL, on="h100-sxm")
    point = next(p for p in points(e) if p.label == "qkv_proj")
    flops = 32 * 2 * 2048 * 4096 * 6144
    moved = 32 * 2 * (4096 * 6144 + 2048 * 4096 + 2048 * 6144)
    assert (point.flops, point.bytes, point.group) == (flops, moved, "matmul")
    assert point.intensity == flops / moved
    assert point.light == pytest.approx(989.4e12, rel=1e-12)
    timed = next(op for op in e.ops if op.name == "qkv_proj")
    assert point.performance == flops / timed.expected
    assert point.share == pytest.approx(timed.expected / e.time, rel=1e-12)


@pytest.mark.parametrize(("model", "chip"), [(LLAMA, "h100-sxm"), (V3, "h200-sxm")])
@pytest.mark.parametrize("step", [PREFILL, DECODE])
def test_every_point_is_under_the_roof_and_below_its_speed_of_light(model: rl.Model, chip: str, step: rl.Step) -> None:
    e = rl.estimate(model, step, on=chip)
    top = max(e.chip.peak(f) for f in formats([e]))
    for point in points(e):
        assert point.performance <= point.light * (1 + 1e-12)
        assert point.light <= min(top, point.intensity * e.chip.bandwidth) * (1 + 1e-12), point.label


def test_layers_and_phases_hold_all_of_the_step() -> None:
    e = rl.estimate(V3, DECODE, on="h200-sxm")
    layers, (phase,) = points(e, "layers"), points(e, "phases")
    assert [p.label for p in layers] == ["dense", "moe", "head"]  # the embedding's look-up has no FLOPs
    assert sum(p.flops for p in layers) == pytest.approx(e.analysis.flops, rel=1e-12)
    assert phase.flops == pytest.approx(e.analysis.flops, rel=1e-12)
    assert phase.bytes == pytest.approx(e.analysis.bytes, rel=1e-12)
    assert phase.expected == pytest.approx(e.time, rel=1e-12)
    assert phase.share == pytest.approx(1)


def test_quantising_counts_with_its_product() -> None:
    e = rl.estimate(V3, PREFILL, on="h200-sxm")
    both = [op for op in e.ops if op.cost.name == "o_proj" and op.cost.block == "moe"]
    assert [op.kind for op in both] == ["quantise", "matmul"]
    _, moe = (p for p in points(e) if p.label == "o_proj")
    assert moe.expected == both[0].expected + both[1].expected
    assert moe.flops == both[1].cost.flops


def test_what_rides_is_no_point_under_fused_traffic() -> None:
    fused = {p.label for p in points(rl.estimate(LLAMA, DECODE, on="h100-sxm"))}
    unfused = {p.label for p in points(rl.estimate(LLAMA, DECODE, on="h100-sxm", traffic="unfused"))}
    assert fused == {"qkv_proj", "attention", "o_proj", "gate_up_proj", "down_proj", "lm_head"}
    assert unfused - fused == {"attn_norm", "ffn_norm", "final_norm", "rope", "act"}


def test_every_kind_of_op_has_a_group_and_so_has_a_gradient() -> None:
    assert set(o.NAMES) == set(GROUPS)
    norm = o.Normalise(name="norm", rows=1, width=1, center=False, scaled=True, shifted=False)
    assert group_of(o.Backward(name="norm_backward", of=norm), "norm") == GROUPS[o.Normalise] == "norm"
    assert group_of(norm, "quantise") == "elementwise"


def test_formats_in_use() -> None:
    assert formats([rl.estimate(V3, DECODE, on="h200-sxm")]) == ("fp8", "bf16")


def test_shares_are_those_of_the_analysis() -> None:
    e = rl.estimate(LLAMA, DECODE, on="h100-sxm")
    work = work_shares(e.analysis)
    attention = e.analysis.op("attention")
    assert work["FLOPs"]["attention"] == attention.flops / e.analysis.flops
    assert work["bytes"]["attention"] == attention.bytes / e.analysis.bytes
    assert sum(work["bytes"].values()) == pytest.approx(1)
    assert time_shares(e)["attention"] == pytest.approx(dict(e.shares)["attention"])


def test_no_such_points() -> None:
    with pytest.raises(rl.InputError, match="points"):
        points(rl.estimate(LLAMA, DECODE, on="h100-sxm"), "kernels")  # type: ignore[arg-type]


def test_a_gradient_is_work_of_its_ops_kind() -> None:
    t = rl.train("meta-llama/Llama-3.2-1B", batch=1, tokens=1024, on="h100-sxm")
    e = t.micro(t.stages[0])
    groups = {p.label: p.group for p in points(e)}
    assert groups["attention_backward"] == groups["attention"] == "attention"
    assert dict(e.shares)["attention"] > sum(float(op.expected) for op in e.ops if op.name == "attention") / e.time


def test_factors_do_not_fuse_what_is_unfused() -> None:
    by = {
        t: {p.label for p in points(rl.estimate(LLAMA, PREFILL, on="h100-sxm", traffic=t))}
        for t in ("unfused", "unfused(weights=0.5)", "fused")
    }
    assert by["unfused"] == by["unfused(weights=0.5)"] > by["fused"]
