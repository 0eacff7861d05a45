"""Kimi K3 by hand, tensor by tensor as mlx-lm 0.32.2 makes them (models/kimi_k3.py)."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.model.modules import Add, DepthAttention

WIDTH, INNER = 64, 3 * 16
TEXT: dict[str, Any] = {
    "model_type": "kimi_linear", "hidden_size": WIDTH, "intermediate_size": 96, "moe_intermediate_size": 24,
    "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 128, "q_lora_rank": 32,
    "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12, "num_experts": 8,
    "num_shared_experts": 2, "num_experts_per_token": 2, "first_k_dense_replace": 1, "hidden_act": "situ",
    "attn_res_block_size": 2, "routed_expert_hidden_size": 40, "latent_moe_use_norm": True,
    "mla_use_output_gate": True, "mla_use_nope": True,
    "linear_attn_config": {
        "num_heads": 3, "head_dim": 16, "short_conv_kernel_size": 4, "kda_layers": [1, 2, 3, 5],
        "full_attn_layers": [4], "use_full_rank_gate": True,
    },
}  # fmt: skip
K3: dict[str, Any] = {"model_type": "kimi_k3", "text_config": TEXT, "dtype": "bfloat16"}


def delta(full_gate: bool = True) -> int:
    gate = WIDTH * INNER if full_gate else WIDTH * 16 + 16 * INNER
    decay = WIDTH * 16 + 16 * INNER
    vectors = 3 * INNER * 4 + 3 + INNER + 16  # convolution, A, bias of the decay, norm of a head
    return WIDTH * 3 * INNER + WIDTH * 3 + decay + gate + vectors + INNER * WIDTH


def latent(gate: bool = True) -> int:
    queries = WIDTH * 32 + 32 + 32 * 4 * (8 + 4)
    keys = WIDTH * (16 + 4) + 16 + 16 * 4 * (8 + 12)
    return queries + keys + 4 * 12 * WIDTH + (WIDTH * 4 * 12 if gate else 0)


def experts(wide: int | None = 40, norm: bool = True) -> int:
    around = 0 if wide is None else 2 * WIDTH * wide + (wide if norm else 0)
    return WIDTH * 8 + around + 3 * (wide or WIDTH) * 24 * 8 + 3 * WIDTH * 48


def whole(mixers: int, sparse: int, mixes: bool = True) -> int:
    layers = mixers + 3 * WIDTH * 96 + sparse + 5 * 2 * WIDTH
    return 2 * 128 * WIDTH + layers + WIDTH + (11 * 2 * WIDTH if mixes else 0)


def test_parameters() -> None:
    assert rl.load(K3).parameters == whole(4 * delta() + latent(), 4 * experts())


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"attn_res_block_size": None}, whole(4 * delta() + latent(), 4 * experts(), mixes=False)),
        ({"mla_use_output_gate": False}, whole(4 * delta() + latent(False), 4 * experts())),
        ({"routed_expert_hidden_size": None}, whole(4 * delta() + latent(), 4 * experts(None))),
        ({"latent_moe_use_norm": False}, whole(4 * delta() + latent(), 4 * experts(norm=False))),
        (
            {"linear_attn_config": {**TEXT["linear_attn_config"], "use_full_rank_gate": False}},
            whole(4 * delta(False) + latent(), 4 * experts()),
        ),
        ({"moe_layer_freq": 2}, whole(4 * delta() + latent(), 2 * experts() + 2 * 3 * WIDTH * 96)),
    ],
)
def test_its_settings(changed: dict[str, Any], expected: int) -> None:
    assert rl.load({**K3, "text_config": {**TEXT, **changed}}).parameters == expected


def test_sublayers_read_the_sums_of_the_blocks_before() -> None:
    """Played out as the code does: a block starts at layers 0, 2 and 4, whose attention adds to no sum."""
    model, stored = rl.load(K3), 0
    for i, block in enumerate(model.layers):
        before, behind = (m for m in block.modules if isinstance(m, DepthAttention))
        assert (before.states, before.idle) == (stored + 1, i == 0)
        stored += i % 2 == 0
        assert behind.states == stored + 1
        assert ("attn_residual" in {m.name for m in block.modules if isinstance(m, Add)}) == (i % 2 == 1)
    last = next(m for m in model.head if isinstance(m, DepthAttention))
    assert last.states == stored + 1 == 4


def test_cache_and_layers_by_the_numbers_of_the_others() -> None:
    inside = {k: v for k, v in TEXT["linear_attn_config"].items() if k != "full_attn_layers"}
    model = rl.load({**K3, "text_config": {**TEXT, "linear_attn_config": inside}})
    assert model.parameters == rl.load(K3).parameters
    assert model.kv_bytes(100) == 100 * (16 + 4) * 2
    assert model.warnings == rl.load(K3).warnings
    assert not any("attn_res" in line or "gate" in line for line in model.warnings)
