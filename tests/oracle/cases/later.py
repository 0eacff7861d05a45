"""Types that transformers 5.23 has for the first time: gates, latent attention, experts of narrower streams."""

from typing import Any

from oracle.cases.axes import (
    ABSENT,
    ATTENTION_BIAS,
    DENSE,
    DENSE_FIRST,
    FINE,
    FINE_EXPERTS,
    HEAD_OR_DEFAULT,
    KV,
    KV_OR_ALL,
    LATENT,
    LATENT_SIZES,
    LOCAL,
    LOCAL_EXPERTS,
    MLP_BIAS,
    MLP_LAYER_TYPES,
    ROUTED,
    ROUTED_EXPERTS,
    SIZES,
    WINDOWED,
    WINDOWED_SIZES,
    Axes,
    Case,
    without,
)
from oracle.cases.latent import INDEXER, INDEXER_SIZES

SPARSE_LATENT: Axes = {
    **LATENT,
    **ROUTED,
    **INDEXER,
    **MLP_LAYER_TYPES,
    "num_hidden_layers": (3,),
    "q_lora_rank": (56, 72),
}
MUSE: Axes = {
    **DENSE,
    **KV,
    **HEAD_OR_DEFAULT,
    **ATTENTION_BIAS,
    **WINDOWED,
    "num_hidden_layers": (3,),
    "layer_rope_theta": (ABSENT, [0, 0, 10000.0]),
}
HYBRID_LATENT: Axes = {
    **without("q_lora_rank", of=LATENT),
    **without("num_experts", of=FINE),
    "num_experts": (8, 12),
    **DENSE_FIRST,
    **MLP_LAYER_TYPES,
    "num_hidden_layers": (3,),
    "head_dim": (16, 32, ABSENT),
    "short_conv_kernel_size": (ABSENT, 3),
    "layer_group_size": (3, 2),
    "layer_types": (ABSENT, ["full_attention", "linear_attention", "full_attention"]),
}

PICKED = "minimax_m3_sparse"
SLIDING_LATENT = {
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 4,
    "swa_q_lora_rank": 24,
    "swa_kv_lora_rank": 32,
    "swa_head_dim": 40,
    "swa_qk_nope_head_dim": 24,
    "swa_v_head_dim": 16,
}


def _rope(*sections: int) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(sections)}


def _ropes(sliding: bool = True) -> dict[str, Any]:
    """Rotary positions by the type of layer, none on full ones."""
    return {"sliding_attention": _rope(3, 3, 2) if sliding else None, "full_attention": None}


CASES: dict[str, Case] = {
    "axk2": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS, **INDEXER_SIZES, "gated_norm_rank": 6},
        {
            **SPARSE_LATENT,
            "gated_norm_rank": (ABSENT, 4),
            "first_k_dense_replace": (ABSENT, 0, 2),
            "moe_layer_freq": (ABSENT, 2),
        },
    ),
    "hy_v4": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS, **INDEXER_SIZES},
        {
            **without("q_lora_rank", "num_hidden_layers", of=SPARSE_LATENT),
            "q_lora_rank": (56, 72),
            "hc_mult": (ABSENT, 2),
            "indexer_types": (ABSENT, ["full", "shared", "shared"]),
        },
    ),
    "bailing_hybrid": Case(
        {
            **without("q_lora_rank", of=LATENT_SIZES),
            **FINE_EXPERTS,
            "n_group": 2,
            "topk_group": 1,
            "layer_group_size": 3,
            "first_k_dense_replace": 1,
        },
        HYBRID_LATENT,
    ),
    "dots3_note_text": Case(
        {
            **LATENT_SIZES,
            **ROUTED_EXPERTS,
            **INDEXER_SIZES,
            "num_hidden_layers": 4,
            "shared_experts_intermediate_size": 40,
            "sliding_window": 8,
            **SLIDING_LATENT,
        },
        {
            **without("num_hidden_layers", "n_shared_experts", of=SPARSE_LATENT),
            **without("mlp_layer_types", of=MLP_LAYER_TYPES),
            "num_hidden_layers": (4,),
            "n_shared_experts": (1, 2),
            "shared_experts_intermediate_size": (40, ABSENT),
            "mlp_layer_types": (ABSENT, ["sparse", "dense", "sparse", "dense"]),
            ("first_k_dense_replace", "moe_layer_freq"): ((ABSENT, [0, 0, 1, 1]), (2, ABSENT), (0, 2)),
            ("layer_types", "use_dsa"): (
                (["sliding_attention", "full_attention", "sliding_attention", "indexed_attention"], ABSENT),
                (["sliding_attention", "full_attention", "sliding_attention", "indexed_attention"], False),
                (ABSENT, False),
            ),
            "swa_v_head_dim": (16, 24),
            "swa_q_lora_rank": (24, 32),
            "swa_kv_lora_rank": (32, 40),
        },
    ),
    "glm5_next_text": Case(
        {
            **LATENT_SIZES,
            **ROUTED_EXPERTS,
            **INDEXER_SIZES,
            "num_hidden_layers": 4,
            "qk_rope_head_dim": 0,
            "linear_num_heads": 4,
            "linear_head_dim": 16,
            "index_kpool": 4,
        },
        {
            **without("num_hidden_layers", "q_lora_rank", "qk_rope_head_dim", of=LATENT),
            **ROUTED,
            **INDEXER,
            "q_lora_rank": (56, 72),
            "num_hidden_layers": (4,),
            "hc_mult": (ABSENT, 2),
            "index_kpool": (8, 2),
            "linear_conv_kernel_dim": (ABSENT, 3),
            "linear_attn_config": (ABSENT, {"num_heads": 2, "head_dim": 32, "short_conv_kernel_size": 2}),
            "mlp_layer_types": (ABSENT, ["sparse", "dense", "sparse", "dense"]),
            ("layer_types", "indexer_types", "index_topk_pattern"): (
                (["full_attention", "indexed_attention", "linear_attention", "indexed_attention"], ABSENT, "FSSF"),
                (["indexed_attention"] * 4, ["full", "shared", "full", "shared"], ABSENT),
            ),
        },
    ),
    "longcat_flash": Case(
        {
            **without("num_hidden_layers", "intermediate_size", of=LATENT_SIZES),
            "num_layers": 2,
            "head_dim": 16,
            "ffn_hidden_size": 96,
            "expert_ffn_hidden_size": 48,
            "n_routed_experts": 8,
            "zero_expert_num": 4,
            "moe_topk": 6,
        },
        {
            **without("num_hidden_layers", "q_lora_rank", "qk_rope_head_dim", of=LATENT),
            "q_lora_rank": (56, 72),
            ("qk_rope_head_dim", "head_dim"): ((16, 16), (8, 8)),
            "num_layers": (1, 3),
            "ffn_hidden_size": (96, 160),
            "expert_ffn_hidden_size": (48, 80),
            # Six choices of each of 64, 140 or 256 tokens are whole rounds of 8, 12 or 24 experts.
            ("n_routed_experts", "zero_expert_num"): ((8, 4), (8, 0), (6, 6), (16, 8)),
            "router_bias": (ABSENT, True),
        },
    ),
    "minimax_m3_vl_text": Case(
        {
            **SIZES,
            **LOCAL_EXPERTS,
            "intermediate_size": 48,
            "dense_intermediate_size": 352,
            "shared_intermediate_size": 40,
            "head_dim": 16,
            "rotary_dim": 8,
            "index_n_heads": 2,
            "index_head_dim": 16,
            "index_block_size": 8,
            "index_topk_blocks": 2,
            "layer_types": ["full_attention", PICKED, PICKED],
        },
        {
            **without("intermediate_size", "num_hidden_layers", of=DENSE),
            **LOCAL,
            "intermediate_size": (48, 80),
            "dense_intermediate_size": (352, 96),
            "shared_intermediate_size": (40, 200),
            "num_key_value_heads": (2, 4),
            ("index_n_heads", "index_head_dim"): ((1, 32),),
            ("index_block_size", "index_topk_blocks"): ((16, 3),),
            "sparse_attention_config": (ABSENT, {"sparse_num_index_heads": 4, "sparse_index_dim": 24}),
            "layer_types": (ABSENT, ["full_attention", PICKED, PICKED]),
            ("mlp_layer_types", "moe_layer_freq"): ((["dense", "sparse", "sparse"], ABSENT), (ABSENT, [0, 1, 0])),
        },
    ),
    "cohere_compass_text": Case(
        {**WINDOWED_SIZES, "rope_parameters": _ropes()},
        {
            **without("hidden_size", "num_attention_heads", of=DENSE),
            **KV_OR_ALL,
            **ATTENTION_BIAS,
            **WINDOWED,
            "num_hidden_layers": (3,),
            "rope_parameters": (_ropes(False),),
        },
    ),
    "cosmos3_edge_text": Case(
        {**SIZES, "head_dim": 16, "rope_parameters": _rope(3, 3, 2)},
        # The whole, which alone has a head, never ties it.
        {
            **without("tie_word_embeddings", of=DENSE),
            **KV,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            ("head_dim", "rope_parameters"): ((32, _rope(6, 5, 5)),),
        },
    ),
    "muse_glimmer_text": Case(WINDOWED_SIZES, MUSE),
    "muse_spark_text": Case(
        {**WINDOWED_SIZES, **LOCAL_EXPERTS, "moe_intermediate_size": 48, "moe_hidden_size": 64},
        {
            **MUSE,
            **LOCAL,
            **MLP_LAYER_TYPES,
            "moe_intermediate_size": (48, 80),
            "moe_hidden_size": (64, 72),
        },
    ),
}
