"""Decoders that vary others by one thing."""

from oracle.cases.axes import (
    ABSENT,
    ATTENTION_BIAS,
    DENSE,
    DEPTH,
    EXPERTS,
    FLAG,
    HEAD_OR_DEFAULT,
    HEAD_OR_NULL,
    KV,
    KV_OR_ALL,
    LOCAL,
    LOCAL_EXPERTS,
    MLP_BIAS,
    MULTI_HEAD_SIZES,
    NUMBERED,
    SHARED_EXPERT,
    SIZES,
    SPARSE_LAYERS,
    TIED,
    WIDTHS,
    WINDOWED_OR_DEFAULT,
    WINDOWED_SIZES,
    Case,
    without,
)

ROPE = {"rope_type": "default", "rope_theta": 10000.0}

VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}

KOSMOS = Case(
    {"vocab_size": 1000, "embed_dim": 64, "layers": 3, "ffn_dim": 96, "attention_heads": 4},
    {
        "vocab_size": (1000, 517),
        "embed_dim": (64, 128),
        "layers": (1, 3),
        "ffn_dim": (96, 200),
        "attention_heads": (4, 8),
        **TIED,
    },
)

CASES: dict[str, Case] = {
    "beam": Case(
        {**WINDOWED_SIZES, **EXPERTS, "head_dim": 16, "n_group": 2, "topk_group": 1, "num_hidden_layers": 4},
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            **NUMBERED,
            "num_hidden_layers": (1, 4, 7),
            "sliding_window": (ABSENT, 8, 4096),
            ("mlp_layer_types", "layer_types", "num_hidden_layers"): (
                (["sparse", "dense", "sparse"], ["full_attention", "sliding_attention", "full_attention"], 3),
                (ABSENT, ABSENT, 4),
            ),
            "rope_parameters": (
                ABSENT,
                {"sliding_attention": ROPE, "full_attention": None},
                {"sliding_attention": None, "full_attention": ROPE},
            ),
        },
    ),
    "flint": Case(
        {**WINDOWED_SIZES, **EXPERTS, "head_dim": 16, "shared_expert_intermediate_size": 64},
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            **NUMBERED,
            **SPARSE_LAYERS,
            **SHARED_EXPERT,
            **WINDOWED_OR_DEFAULT,
        },
    ),
    "doge": Case(
        SIZES,
        {
            **DENSE,
            **KV_OR_ALL,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            "sliding_window": (ABSENT, None, 8),
            "keep_window_size": (ABSENT, 16, 4096),
            ("is_moe", "num_experts", "num_experts_per_tok"): (
                (ABSENT, ABSENT, ABSENT),
                (True, 64, 4),
                (True, 50, 8),
            ),
        },
    ),
    "diffllama": Case(SIZES, {**DENSE, "num_key_value_heads": (2, 4, None, ABSENT), **HEAD_OR_NULL, **ATTENTION_BIAS}),
    "lfm3": Case(
        {**WINDOWED_SIZES, "head_dim": 16, "num_hidden_layers": 5, "conv_L_cache": 3},
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            ("num_hidden_layers", "layer_types"): (
                (1, ABSENT),
                (9, ABSENT),
                (3, ["full_attention", "conv", "sliding_attention"]),
            ),
            "sliding_window": (ABSENT, 8, 4096),
            "conv_L_cache": (ABSENT, 3, 5),
            "conv_bias": FLAG,
            "use_sandwich_norm": FLAG,
            "use_attention_gate": FLAG,
        },
    ),
    "kosmos_2_text_model": KOSMOS,
    "kosmos_2_5_text_model": KOSMOS,
    "git": Case(
        {**MULTI_HEAD_SIZES, "vision_config": VISION},
        {
            **DENSE,
            "max_position_embeddings": (256, 300),
            "num_image_with_embedding": (ABSENT, None, 3),
        },
    ),
    "imagegpt": Case(
        {"vocab_size": 65, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128},
        {
            "vocab_size": (65, 1000),
            "n_embd": (64, 96),
            "n_layer": (1, 3),
            "n_head": (4, 8),
            "n_positions": (128, 300),
            "n_inner": (ABSENT, None, 80),
            "tie_word_embeddings": (ABSENT, False),
        },
    ),
    "cosmos3_edge_text": Case(
        {**SIZES, "head_dim": 16, "rope_parameters": {**ROPE, "mrope_section": [4, 2, 2]}},
        {
            **without("tie_word_embeddings", of=DENSE),
            **KV,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            "tie_word_embeddings": (ABSENT, False),
        },
    ),
    "muse_glimmer_text": Case(
        {**WINDOWED_SIZES, "head_dim": 16, "num_hidden_layers": 6},
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            "sliding_window": (ABSENT, 8, 4096),
            ("num_hidden_layers", "layer_types", "layer_rope_theta"): (
                (1, ABSENT, ABSENT),
                (5, ABSENT, ABSENT),
                (3, ["full_attention", "sliding_attention", "sliding_attention"], [10000.0, 0, 500000.0]),
            ),
        },
    ),
    "muse_spark_text": Case(
        {
            **WINDOWED_SIZES,
            **LOCAL_EXPERTS,
            "head_dim": 16,
            "num_hidden_layers": 6,
            "moe_hidden_size": 64,
            "moe_intermediate_size": 48,
        },
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            **LOCAL,
            "moe_hidden_size": (64, 80),
            "moe_intermediate_size": (48, 80),
            "sliding_window": (ABSENT, 8, 4096),
            ("num_hidden_layers", "layer_types", "layer_rope_theta", "mlp_layer_types"): (
                (1, ABSENT, ABSENT, ABSENT),
                (3, ABSENT, [0, 0, 10000.0], ["dense", "sparse", "dense"]),
            ),
        },
    ),
    "voxtral_realtime_text": Case(WINDOWED_SIZES, {**DENSE, **KV, **HEAD_OR_NULL, "sliding_window": (ABSENT, None, 8)}),
    "jetmoe": Case(
        {**without("num_attention_heads", of=SIZES), **LOCAL_EXPERTS, "num_hidden_layers": 2, "kv_channels": 16},
        {
            **without("num_attention_heads", of=WIDTHS),
            **DEPTH,
            **LOCAL,
            "num_key_value_heads": (1, 2, 4),
            "kv_channels": (16, 24),
        },
    ),
    "zamba": Case(
        {
            **SIZES,
            "num_key_value_heads": 8,
            "num_hidden_layers": 4,
            "mamba_d_state": 8,
            "mamba_dt_rank": 6,
            "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        },
        {
            **without("num_attention_heads", of=WIDTHS),
            ("num_attention_heads", "num_key_value_heads"): ((8, 2), (4, 4), (4, 1)),
            "attention_head_dim": (ABSENT, None, 24),
            "n_mamba_heads": (ABSENT, 1, 4),
            "mamba_d_state": (ABSENT, 12),
            "mamba_d_conv": (ABSENT, 3),
            "mamba_expand": (ABSENT, 1, 3),
            "mamba_dt_rank": (ABSENT, "auto", 10),
            "mamba_conv_bias": FLAG,
            "mamba_proj_bias": FLAG,
            ("num_hidden_layers", "layers_block_type", "attn_layer_period", "attn_layer_offset"): (
                (5, ABSENT, 2, 1),
                (3, ["hybrid", "mamba", "hybrid"], ABSENT, ABSENT),
            ),
        },
    ),
}
