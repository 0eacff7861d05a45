"""Small configs of every kind of architecture."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl

BASE = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 4, "vocab_size": 96,
    "intermediate_size": 112, "dtype": "bfloat16", "max_position_embeddings": 4096,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "dense": {**BASE, "model_type": "llama"},
    "biased": {**BASE, "model_type": "qwen2"},
    "sliding": {**BASE, "model_type": "gemma2", "head_dim": 16, "sliding_window": 24},
    "chunked": {
        **BASE, "model_type": "llama4_text", "head_dim": 16, "attention_chunk_size": 16, "intermediate_size_mlp": 128,
        "num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
    },
    "moe": {
        **BASE, "model_type": "qwen3_moe", "head_dim": 16, "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    },
    "latent": {
        **BASE, "model_type": "deepseek_v3", "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 24,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1,
    },
    "delta": {
        **BASE, "model_type": "qwen3_next", "head_dim": 16, "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4,
    },
    "mamba2": {
        "model_type": "mamba2", "hidden_size": 64, "num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2,
        "num_hidden_layers": 3, "vocab_size": 96, "conv_kernel": 4, "chunk_size": 16, "dtype": "bfloat16",
    },
    "jamba": {
        **BASE, "model_type": "jamba", "num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 8,
        "mamba_d_conv": 4,
        "mamba_expand": 2, "mamba_dt_rank": 8, "attn_layer_period": 2, "attn_layer_offset": 1,
        "num_hidden_layers": 4,
    },
    "learned positions": {
        "model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 2048, "vocab_size": 96,
        "dtype": "float16",
    },
}  # fmt: skip


@pytest.fixture(params=list(CONFIGS), scope="session")
def model(request: pytest.FixtureRequest) -> rl.Model:
    """A small model of each kind."""
    return rl.load(CONFIGS[request.param])
