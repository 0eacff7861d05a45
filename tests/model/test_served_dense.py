"""Dense decoders that only serving software has code for, by hand, tensor by tensor as mlx-lm 0.32.2 makes them."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.model.modules import Attention

SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128, "dtype": "bfloat16",
}  # fmt: skip
PLAMO3: dict[str, Any] = {
    "model_type": "plamo3", **SIZES, "window_size": 10, "sliding_window_pattern": 4, "tie_word_embeddings": True,
    "rope_local_theta": 10000.0,
}  # fmt: skip
SPARK: dict[str, Any] = {
    "model_type": "spark2_5", **SIZES, "sliding_window": 10, "tie_word_embeddings": True, "hidden_act": "gelu",
    "headwise_attn_output_gate": True, "gate_attn_act_mode": "sigmoid", "attention_bias": False, "mlp_bias": False,
    "rope_parameters": {
        "full_attention": {"rope_theta": 1e6, "partial_rotary_factor": 0.5},
        "sliding_attention": {"rope_theta": 1e4},
    },
}  # fmt: skip
ATTENTION, NETWORK, TABLE = 64 * (4 + 2 + 2) * 16 + 4 * 16 * 64, 3 * 64 * 96, 128 * 64


def windows(model: rl.Model) -> list[int | None]:
    return [m.window for block in model.layers for m in block.modules if isinstance(m, Attention)]


def test_plamo_3() -> None:
    model = rl.load(PLAMO3)
    assert model.parameters == TABLE + 8 * (ATTENTION + 2 * 16 + NETWORK + 4 * 64) + 64
    assert windows(model) == [11, 11, 11, None] * 2  # a query's own token and ten before it
    assert windows(rl.load({**PLAMO3, "sliding_window": 6}))[0] == 7


def test_spark() -> None:
    model = rl.load(SPARK)
    assert model.parameters == TABLE + 8 * (ATTENTION + 64 * 4 + NETWORK + 2 * 64) + 64
    assert windows(model) == [10, 10, 10, None] * 2
    turned = [row for row in rl.analyze(model, rl.decode(batch=1, context=5)).ops if row.kind == "rope"]
    assert len({row.each_flops for row in turned}) == 2


def test_spark_with_biases_is_refused() -> None:
    with pytest.raises(rl.InputError, match="attention_bias"):
        rl.load({**SPARK, "attention_bias": True})
