"""Bytes of each kind of tensor in published files, as reports of a public repository list them, in GiB.

The configs are those that the reports print. Sizes are of moonshotai's, XiaomiMiMo's and MiniMaxAI's own files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import roofline as rl

SLIDES = [0, *[1] * 6, *[0, *[1] * 7] * 6, 0, *[1] * 6, 0, *[1] * 6, 0]
MIMO: dict[str, Any] = {
    "architectures": ["MiMoV2ForCausalLM"], "model_type": "mimo_v2", "torch_dtype": "bfloat16",
    "add_full_attention_sink_bias": False, "add_swa_attention_sink_bias": True, "attention_bias": False,
    "attention_chunk_size": 128, "attention_projection_layout": "fused_qkv", "attention_value_scale": 0.612,
    "head_dim": 192, "hidden_act": "silu", "hidden_size": 6144, "hybrid_layer_pattern": SLIDES,
    "intermediate_size": 16384, "layernorm_epsilon": 1e-05, "max_position_embeddings": 1048576,
    "moe_intermediate_size": 2048, "moe_layer_freq": [0, *[1] * 69], "n_group": 1, "n_routed_experts": 384,
    "n_shared_experts": None, "norm_topk_prob": True, "num_attention_heads": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 70, "num_key_value_heads": 8, "partial_rotary_factor": 0.334, "rope_theta": 10000000,
    "routed_scaling_factor": None, "scoring_func": "sigmoid", "sliding_window": 128, "sliding_window_size": 128,
    "swa_head_dim": 192, "swa_num_attention_heads": 128, "swa_num_key_value_heads": 8, "swa_rope_theta": 10000,
    "swa_v_head_dim": 128, "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc",
    "v_head_dim": 128, "vocab_size": 152576,
    "quantization_config": {
        "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128],
        "ignored_layers": [f"model.{at}.self_attn.o_proj" for at in (*(f"layers.{i}" for i in range(70)), "decoder")],
    },
}  # fmt: skip
SPARSE = [0] * 3 + [1] * 57
M3: dict[str, Any] = {
    "architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl",
    "torch_dtype": "bfloat16", "multimodal_projector_bias": True, "projector_hidden_act": "gelu",
    "projector_hidden_size": 6144,
    "text_config": {
        "dtype": "bfloat16", "hidden_size": 6144, "intermediate_size": 3072, "num_hidden_layers": 60,
        "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 200064,
        "max_position_embeddings": 1048576, "rms_norm_eps": 1e-06, "rope_theta": 5000000, "rotary_dim": 64,
        "hidden_act": "swigluoai", "use_qk_norm": True, "tie_word_embeddings": False,
        "dense_intermediate_size": 12288, "shared_intermediate_size": 3072, "num_local_experts": 128,
        "num_experts_per_tok": 4, "n_shared_experts": 1, "scoring_func": "sigmoid", "use_routing_bias": True,
        "moe_layer_freq": SPARSE, "qk_norm_type": "per_head",
        "sparse_attention_config": {
            "use_sparse_attention": True, "sparse_index_dim": 128, "sparse_num_index_heads": 4,
            "sparse_topk_blocks": 16, "sparse_block_size": 128, "sparse_local_block": 1,
            "sparse_attention_freq": SPARSE,
        },
    },
    "vision_config": {
        "hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 32, "intermediate_size": 5120,
        "patch_size": 14, "image_size": 2016, "projection_dim": 6144, "model_type": "clip_vision_model",
    },
}  # fmt: skip
MXFP8 = {
    "quant_method": "mxfp8", "activation_scheme": "dynamic", "weight_block_size": [1, 32],
    "ignored_layers": [
        "lm_head", "model.embed_tokens", "vision_tower", "multi_modal_projector", "patch_merge_mlp",
        *(f"language_model.model.layers.{i}.block_sparse_moe.gate" for i in range(3, 60)),
    ],
}  # fmt: skip
EXPERTS, INDEXER = 3 * (128.25 + 4.01), (42.75 + 1.34, 171 + 5.34)
TOWER = (2 * 400 + 4 * 100) / 1024
LISTED: dict[str, tuple[dict[str, Any], dict[tuple[str, ...], float]]] = {
    "MiMo-V2.5-Pro": (MIMO, {
        ("lm_head",): 1.75, ("embedding",): 1.75, ("o_proj",): 13.12, ("qkv_proj",): 10.87 + 2.77 / 1024,
        ("experts",): 3 * (310.50 + 77.62 / 1024), ("gate_up_proj", "down_proj"): 3 * 96 / 1024,
        ("router",): 621 / 1024 / 2,  # which the files hold in fp32
    }),
    "MiniMax-M3": (M3, {
        ("experts",): 3 * 256.50, ("o_proj",): 5.62, ("qkv_proj",): 5.62 + 2 * 360 / 1024,
        ("shared_gate_up_proj", "shared_down_proj"): 3 * 2.00, ("index_q_proj",): 342 / 1024,
        ("index_k_proj",): 85.5 / 1024, ("gate_up_proj", "down_proj"): 3 * 432 / 1024,
    }),
    "MiniMax-M3-MXFP8": ({**M3, "quantization_config": MXFP8}, {
        ("experts",): EXPERTS, ("o_proj",): 2.81 + 90 / 1024, ("index_k_proj",): INDEXER[0] / 1024,
        ("qkv_proj",): 2.81 + (90 + 2 * (180 + 5.62)) / 1024, ("index_q_proj",): INDEXER[1] / 1024,
        ("shared_gate_up_proj", "shared_down_proj"): 3 * (1.00 + 32.06 / 1024), ("router",): 171 / 1024 / 2,
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTED)
def test_bytes_of_every_kind_of_tensor(name: str) -> None:
    config, listed = LISTED[name]
    model = rl.load(config)
    assert (model.warnings, model.not_counted) == ((), ())
    ours = {names: gib(model, names.__contains__) for names in listed}
    assert ours == {names: pytest.approx(size, abs=0.015, rel=1e-4) for names, size in listed.items()}


def gib(model: rl.Model, kept: Callable[[str], bool]) -> float:
    its = [(m, n) for m, n in model.modules() if kept(m.name) and not m.stream]
    return sum(n * float(model.precision.weight_bytes(m)) for m, n in its) / 2**30


def test_the_whole_of_mimo() -> None:
    """962.40 GiB with three draft layers: a product of two streams, attention, a dense network."""
    drafts = 2 * (6144 * 12288 + 4 * 6144 + 6144 * 16384) + (1 + 4 / 128**2) * (27136 + 3 * 16384) * 6144
    assert rl.load(MIMO).weight_bytes() == pytest.approx(962.40 * 2**30 - 3 * drafts, rel=1e-3)


def test_mxfp8_of_other_groups_is_refused() -> None:
    with pytest.raises(rl.InputError, match=r"weight_block_size: expected \[1, 32\]"):
        rl.load({**M3, "quantization_config": {**MXFP8, "weight_block_size": [1, 16]}})
