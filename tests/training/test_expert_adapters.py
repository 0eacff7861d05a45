"""Adapters of routed experts, and what kernels of a framework keep, by hand."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.engines.engine import engine_named
from roofline.model.adapters import with_lora
from roofline.training.memory.saved_activations import kept_bytes, layer_bytes

SPARSE, DENSE, RANK = rl.load("Qwen/Qwen3-30B-A3B"), rl.load("Qwen/Qwen3-0.6B"), 16
HIDDEN, INNER, EXPERTS, TOP, LAYERS = 2048, 768, 128, 8, 48
PAIRS = 3 * RANK * (HIDDEN + INNER)
"""Parameters of the adapters of gate, up and down of one expert."""
HELD = engine_named("prime-rl").retained


def test_every_expert_has_its_own_adapters() -> None:
    """Three pairs of r·(in + out) parameters for each of 128 experts of 48 layers, unless targets leave experts out."""
    every, attention = with_lora(SPARSE, RANK), with_lora(SPARSE, RANK, ["qkv_proj", "o_proj"])
    assert every.parameters - attention.parameters == LAYERS * EXPERTS * PAIRS
    alone = with_lora(SPARSE, RANK, ["experts"])
    assert alone.parameters - SPARSE.parameters == LAYERS * EXPERTS * PAIRS
    assert every.active_parameters - attention.active_parameters == LAYERS * TOP * PAIRS


@pytest.mark.parametrize("layout", ["ep=8,dp=8", "tp=2,ep=4,dp=4,sp", "tp=2,etp=2,ep=4,dp=4,sp", "tp=8,dp=1"])
def test_ranks_together_hold_all_adapters(layout: str) -> None:
    """Summed over ranks, each parameter by the number of ranks that hold it, they are the model's."""
    model = with_lora(SPARSE, RANK)
    rank = rl.shard(model, layout)
    assert rank.layout.ranks * rank.distinct_parameters == pytest.approx(model.parameters)


def test_ranks_share_the_adapters_of_experts_out_with_them() -> None:
    """With ep = dp nobody else has a rank's share: its optimizer state is not divided again."""
    given: dict[str, Any] = {
        "on": "8xh100-sxm", "batch": 8, "tokens": 4096, "lora": RANK, "lora_targets": "experts", "optimizer": "adamw",
    }  # fmt: skip
    share, whole = (
        rl.train("Qwen/Qwen3-30B-A3B", layout=layout, **given).fullest for layout in ("dp=8,ep=8,zero=1", "dp=8")
    )
    assert share.optimizer == pytest.approx(whole.optimizer / 8)
    assert share.gradients == pytest.approx(whole.gradients / 8)


def test_a_product_of_adapters_is_that_of_its_rows() -> None:
    """8 rows a token: 2·8·r·(in + out) FLOPs a token for each of three pairs, in the forward pass."""
    ops = {op.name: op for op in rl.analyze(with_lora(SPARSE, RANK, ["experts"]), rl.training(1, 1024)).ops}
    names = ("gate_up_proj_lora_a", "gate_up_proj_lora_b", "down_proj_lora_a", "down_proj_lora_b")
    assert sum(ops[f"experts_{name}"].flops for name in names) == 2 * TOP * 1024 * LAYERS * PAIRS


def test_kernels_keep_what_they_do_of_a_norm_and_an_activation() -> None:
    """A norm's input in fp32 and what is weighted, 6 bytes for 2; gate, up and silu, 6 bytes for 4."""
    (block, _), step = DENSE.blocks[0], rl.training(1, 512)
    norms, inner = 1024 + 2048 + 1024 + 1024, 3072
    more = kept_bytes(block.modules, step, HELD) - kept_bytes(block.modules, step)
    assert more == 512 * (norms * (6 - 2) + inner * (6 - 4))


def test_an_output_of_an_expert_takes_sixteen_bytes_in_its_backward_pass() -> None:
    """4 bytes in fp32 kept, and 12 more: its gradient, that times the score and times the output."""
    block = next(b for b, _ in SPARSE.blocks)
    kept, fused = (layer_bytes(block.modules, rl.training(1, 512, recompute="full"), h) for h in (HELD, {}))
    assert kept.widest == 512 * TOP * HIDDEN * 12
    combine = kept.plain - fused.plain - 512 * ((4096 + 512 + 2 * HIDDEN) * (6 - 2) + TOP * INNER * (6 - 4))
    assert combine == 512 * TOP * HIDDEN * 4


def test_logits_of_prime_rl_are_four_copies_in_fp32() -> None:
    """Its head multiplies in fp32, so that the logits themselves are the fourth (lm_head.py)."""
    step = rl.training(1, 512, loss="eager")
    assert kept_bytes(DENSE.head, step, HELD) - kept_bytes(DENSE.head, step) >= 512 * DENSE.vocab * 4


def test_a_run_that_ran_out_of_memory_does_not_fit() -> None:
    """prime-rl's LoRA of a 235B mixture on 8 B200 (178.4 GiB): 16,384 tokens ran in 150 GiB, 65,536 did not."""
    given: dict[str, Any] = {
        "on": "8xb200", "engine": "prime-rl", "layout": "dp=8,zero=3", "batch": 16, "recompute": "full", "lora": RANK,
        "offload": "activations",
    }  # fmt: skip
    ran, failed = (rl.train("Qwen/Qwen3-235B-A22B-Instruct-2507", tokens=n, **given) for n in (16384, 65536))
    assert ran.fits
    assert not failed.fits
    assert 140 * 2**30 < float(ran.fullest.reserved) < 155 * 2**30
