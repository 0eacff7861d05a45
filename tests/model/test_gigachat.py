"""GigaChat 3.5 by hand, tensor by tensor as SGLang 0.5.23 makes them (models/gigachat35.py)."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl

CONFIG: dict[str, Any] = {
    "model_type": "gigachat3_5", "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 24,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 128, "q_lora_rank": 32,
    "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12, "n_routed_experts": 8,
    "n_shared_experts": 2, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "full_attention_layers": [3],
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4, "norm_type": "ZeroCenteredGatedNorm", "layernorm_type": "pre_post",
    "gated_attention": True, "dtype": "bfloat16",
}  # fmt: skip
WIDTH = 64


def norm(width: int, gated: bool = True) -> int:
    return width + (2 * 16 * width if gated else 0)


def linear() -> int:
    keys, values, heads = 2 * 8, 4 * 16, 4
    projections = WIDTH * (2 * keys + 2 * values) + WIDTH * 2 * heads + values * WIDTH
    return projections + (2 * keys + values) * 4 + 2 * heads + 16  # convolution, A and dt, norm of a head


def latent(gated: bool = True, gate: bool = True) -> int:
    queries = WIDTH * 32 + norm(32, gated) + 32 * 4 * (8 + 4)
    keys = WIDTH * (16 + 4) + norm(16, gated) + 16 * 4 * (8 + 12)
    return queries + keys + 4 * 12 * WIDTH + (WIDTH * 4 * 12 if gate else 0)


DENSE = 3 * WIDTH * 96
EXPERTS = WIDTH * 8 + 3 * WIDTH * 24 * 8 + 3 * WIDTH * 24 * 2
ENDS = 2 * 128 * WIDTH


def test_parameters() -> None:
    layers = 3 * linear() + latent() + DENSE + 3 * EXPERTS + 4 * 4 * norm(WIDTH)
    assert rl.load(CONFIG).parameters == ENDS + layers + norm(WIDTH)


@pytest.mark.parametrize(
    ("changed", "norms", "gated", "gate"),
    [
        ({"layernorm_type": "pre"}, 2, True, True),
        ({"norm_type": "LlamaRMSNorm"}, 4, False, True),
        ({"gated_attention": False}, 4, True, False),
    ],
)
def test_its_settings(changed: dict[str, Any], norms: int, gated: bool, gate: bool) -> None:
    layers = 3 * linear() + latent(gated, gate) + DENSE + 3 * EXPERTS + 4 * norms * norm(WIDTH, gated)
    assert rl.load({**CONFIG, **changed}).parameters == ENDS + layers + norm(WIDTH, gated)


def test_layers_are_listed_or_named() -> None:
    kinds = ["linear_attention", "attention", "full_attention", "linear_attention"]
    named = rl.load({**CONFIG, "full_attention_layers": None, "layer_types": kinds})
    listed = rl.load({**CONFIG, "full_attention_layers": [1, 2]})
    assert [b.name for b in named.layers] == [b.name for b in listed.layers]


def test_cache_and_state() -> None:
    model = rl.load(CONFIG)
    assert model.kv_bytes(1000) == 1000 * (16 + 4) * 2
    scan, taps = 4 * 8 * 16, (2 * 16 + 64) * 3
    assert model.state_bytes() == 3 * (scan * 4 + taps * 2)


def test_products_of_a_prompt() -> None:
    """Every matrix once for each token, of the experts two and the shared ones; scans and pairs apart."""
    tokens = 5
    ops = rl.analyze(rl.load(CONFIG), rl.prefill(batch=1, tokens=tokens)).ops
    products = sum(row.flops for row in ops if row.kind in ("matmul", "experts") and "lm_head" not in row.name)
    gates = 2 * 16 * (4 * 4 * WIDTH + 32 + 16 + WIDTH)
    per_linear = WIDTH * (2 * 16 + 2 * 64) + WIDTH * 8 + 64 * WIDTH
    matrices = latent() - norm(32) - norm(16)
    experts = WIDTH * 8 + 3 * WIDTH * 24 * (2 + 2)
    assert products == 2 * tokens * (gates + 3 * per_linear + matrices + DENSE + 3 * experts)
