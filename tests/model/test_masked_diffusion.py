"""Language models that fill in masks: the published checkpoints' parameters, and a step that reads all tokens."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.work.step import read_whole

LLADA: dict[str, Any] = {
    "model_type": "llada", "architectures": ["LLaDAModelLM"], "d_model": 4096, "n_layers": 32, "n_heads": 32,
    "n_kv_heads": 32, "mlp_hidden_size": 12288, "vocab_size": 126464, "embedding_size": 126464, "weight_tying": False,
    "activation_type": "silu", "block_type": "llama", "include_bias": False, "include_qkv_bias": False, "rope": True,
    "rope_theta": 500000.0, "max_sequence_length": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
LLADA_MOE: dict[str, Any] = {
    "model_type": "llada_moe", "architectures": ["LLaDAMoEModelLM"], "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 16, "num_key_value_heads": 16, "expert_intermediate_size": 1024, "num_experts": 64,
    "num_experts_per_tok": 8, "dense_intermediate_size": 8192, "shared_expert_intermediate_size": None,
    "vocab_size": 157184, "qk_layernorm": True, "torch_dtype": "bfloat16",
}  # fmt: skip
DREAM: dict[str, Any] = {
    "model_type": "Dream", "architectures": ["DreamModel"], "hidden_size": 3584, "intermediate_size": 18944,
    "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLADA, 8_015_581_184),  # GSAI-ML/LLaDA-8B-Instruct
        (LLADA_MOE, 7_356_880_896),  # inclusionAI/LLaDA-MoE-7B-A1B-Instruct
        (DREAM, 7_615_616_512),  # Dream-org/Dream-v0-Instruct-7B, as Qwen2.5-7B
    ],
)
def test_parameters_are_those_of_the_checkpoint(config: dict[str, Any], parameters: int) -> None:
    model = rl.load(config)
    assert model.parameters == parameters
    assert model.weight_bytes() == 2 * parameters


def test_a_step_reads_all_tokens_and_nothing_is_cached() -> None:
    """FLOPs of a step over 512 tokens by hand: twice the matrices for each token, all pairs, logits of all."""
    model = rl.load(LLADA)
    matrices = 32 * (4 * 4096**2 + 3 * 4096 * 12288) + 4096 * 126464

    flops = rl.analyze(model, read_whole(1, 512), counting="torch").flops
    assert flops == 2 * 512 * matrices + 32 * 4 * 512**2 * 4096
    assert model.kv_bytes(1) == 0
    with pytest.raises(rl.InputError, match="a model that generates tokens"):
        rl.serve(model, on="h100-sxm", input=64, output_tokens=64, concurrency=1)
    assert rl.encode(model, on="h100-sxm", batch=1, input=512).latency.expected > 2 * 8.0e9 * 512 / 989e12
