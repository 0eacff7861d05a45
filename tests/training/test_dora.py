"""DoRA: adapters that learn the magnitude of each output (arXiv:2402.09353), by hand."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.model.adapters import with_lora
from roofline.work.training import kept_by

LLAMA, RANK = rl.load("meta-llama/Llama-3.1-8B"), 16
SHAPES = {"qkv_proj": (4096, 6144), "o_proj": (4096, 4096), "gate_up_proj": (4096, 28672), "down_proj": (14336, 4096)}
"""Inputs and outputs of a layer's products."""
GIVEN: dict[str, Any] = {"on": "8xh100-sxm", "batch": 16, "tokens": 2048, "lora": RANK}


def test_each_output_has_a_magnitude() -> None:
    """A parameter for each output of each layer: 43,008 in each of 32."""
    plain, dora = with_lora(LLAMA, RANK), with_lora(LLAMA, RANK, magnitudes=True)
    assert dora.parameters - plain.parameters == 32 * sum(outputs for _, outputs in SHAPES.values())
    one = with_lora(LLAMA, RANK, ["o_proj"], magnitudes=True)
    assert one.parameters - with_lora(LLAMA, RANK, ["o_proj"]).parameters == 32 * 4096


def test_the_norms_take_as_much_however_many_tokens() -> None:
    """B·A is 2·r·in·out FLOPs of a pass and writes 2 bytes of each weight; the norm reads W and B·A, 4 bytes."""
    for tokens in (1, 4096):
        ops = {op.name: op for op in rl.analyze(with_lora(LLAMA, RANK, magnitudes=True), rl.training(1, tokens)).ops}
        for name, (inputs, outputs) in SHAPES.items():
            product, norm = ops[f"{name}_dora_product"], ops[f"{name}_dora_norm"]
            assert product.each_flops == 2 * RANK * inputs * outputs
            assert norm.bytes == pytest.approx(32 * (2 * inputs * outputs * 2), rel=0.01)
            assert product.bytes == pytest.approx(32 * 2 * (inputs * outputs + RANK * (inputs + outputs)))
        assert not [name for name in ops if "dora_product_" in name or "dora_norm_" in name]  # no gradients


def test_both_outputs_are_kept_for_the_gradient_of_the_magnitudes() -> None:
    """W·x and B·A·x, as autograd saves them of PEFT's layer: 2 values of each output and token, and no norm."""
    kept = []
    for model in (with_lora(LLAMA, RANK), with_lora(LLAMA, RANK, magnitudes=True)):
        (block, _) = model.blocks[0]
        kept.append(sum(need.products + need.stream for _, need in kept_by(block.modules, rl.training(1, 512))))
    assert kept[1] - kept[0] == 2 * 512 * sum(outputs for _, outputs in SHAPES.values())


@folded("layout", ["dp=8,zero=3", "tp=8,sp,dp=1", "tp=2,pp=2,dp=2"], ids=str)
def test_it_costs_what_is_by_hand_under_every_layout(layout: str) -> None:
    """The ranks of a stage share the norms by tensor parallelism alone; each micro-batch computes them again."""
    plain, dora = (rl.train(LLAMA, layout=layout, dora=dora, **GIVEN) for dora in (False, True))
    assert dora.time > plain.time
    assert dora.memory.total > plain.memory.total
    parts = rl.breakdown(dora)
    norms = {op.name: op.seconds for op in parts.ops if op.name.endswith("_dora_norm")}
    layers, tp = dora.slowest.layers, dora.deployment.layout.tp
    for name, (inputs, outputs) in SHAPES.items():
        floor = layers * dora.micro_batches * 4 * inputs * outputs / tp / dora.chip.bandwidth
        assert floor < norms[f"{name}_dora_norm"] < 3 * floor + layers * dora.micro_batches * 2e-5
    again = rl.train(LLAMA, layout=layout, dora=True, recompute="full", **GIVEN)
    assert again.memory.total < dora.memory.total


def test_ranks_with_a_part_of_each_row_add_up_their_squares() -> None:
    """An all-reduce of one bf16 value a row for o_proj and down_proj, cut by inputs, in each forward pass alone."""
    sent = {}
    for tp in (1, 8):
        ranked = rl.shard(with_lora(LLAMA, RANK, magnitudes=True), f"tp={tp}")
        ops = rl.analyze(ranked, rl.training(1, 2048)).ops
        sent[tp] = {op.name: (op.op.elements, op.layers) for op in ops if op.name.endswith("_dora_reduce")}
    assert sent[1] == {}
    assert sent[8] == dict.fromkeys(("o_proj_dora_reduce", "down_proj_dora_reduce"), (4096, 32))
    exposed = [rl.train(LLAMA, layout="tp=8,dp=1", dora=dora, **GIVEN).exposed["tp"] for dora in (False, True)]
    assert 16 * 64 * 2e-6 < exposed[1] - exposed[0] < 16 * 64 * 5e-5  # latency of 64 small all-reduces a micro-batch


def test_larger_micro_batches_have_fewer_norms() -> None:
    small, large = (rl.train(LLAMA, layout="dp=8,zero=3", dora=True, micro_batch=n, **GIVEN) for n in (1, 2))
    products = 32 * sum(2 * RANK * a * b for a, b in SHAPES.values())
    assert 1 < (small.model_flops - large.model_flops) / (8 * products) < 1.2  # norms are a few FLOPs a weight


def test_it_needs_an_adapter() -> None:
    with pytest.raises(rl.InputError, match=r"dora.*lora"):
        rl.train(LLAMA, on="8xh100-sxm", batch=16, tokens=2048, layout="dp=8", dora=True)
