"""Layers of their own kind: RWKV, xLSTM, stacks run in cycles, layers that attend to images."""

from oracle.cases.axes import (
    ABSENT,
    ATTENTION_BIAS,
    DENSE,
    DEPTH,
    EXPERTS,
    FLAG,
    HEAD_OR_DEFAULT,
    KV,
    KV_OR_ALL,
    MLP_BIAS,
    MULTI_HEAD_SIZES,
    NUMBERED,
    SIZES,
    TIED,
    WIDTHS,
    Axes,
    Case,
    without,
)

NARROW: Axes = {"vocab_size": (1000, 517), "hidden_size": (128, 192), **TIED, **DEPTH}

INKLING_SIZES = {
    **SIZES,
    "head_dim": 16,
    "swa_num_attention_heads": 8,
    "swa_num_key_value_heads": 4,
    "swa_head_dim": 16,
    "sliding_window_size": 8,
    "d_rel": 8,
    "rel_extent": 24,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "n_shared_experts": 2,
}
INKLING: Axes = {
    **without("intermediate_size", of=WIDTHS),
    **KV,
    "head_dim": (16, 40),
    ("swa_num_attention_heads", "swa_num_key_value_heads"): ((8, 1), (4, 2)),
    "swa_head_dim": (16, 24),
    "sliding_window_size": (8, 40),
    "d_rel": (8, 24),
    "rel_extent": (24, 80),
    ("conv_kernel_size", "sconv_kernel_size"): ((ABSENT, ABSENT), (2, ABSENT), (ABSENT, 3)),
    "n_routed_experts": (8, 12),
    "num_experts_per_tok": (1, 3),
}

CASES: dict[str, Case] = {
    "rwkv": Case(
        {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 3, "context_length": 256},
        {
            **NARROW,
            "attention_hidden_size": (ABSENT, None, 64, 192),
            "intermediate_size": (ABSENT, None, 352),
            "context_length": (ABSENT, 512),
            "rescale_every": (ABSENT, 0, 2),
        },
    ),
    "xlstm": Case(
        {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 3, "num_heads": 4, "chunk_size": 16},
        {
            "vocab_size": (1000, 517),
            ("hidden_size", "embedding_dim"): ((128, ABSENT), (192, ABSENT), (192, 192)),
            ("num_hidden_layers", "num_blocks"): ((1, ABSENT), (3, ABSENT), (3, 3)),
            "num_heads": (4, 2, ABSENT),
            "use_bias": FLAG,
            "qk_dim_factor": (ABSENT, 1.0, 0.25),
            "v_dim_factor": (ABSENT, 0.5, 2.0),
            "chunk_size": (16, 48, ABSENT),
            "ffn_proj_factor": (ABSENT, 2.0, 1.3),
            "ffn_round_up_to_multiple_of": (ABSENT, 8, 100),
            "weight_mode": (ABSENT, "single", "fused"),
            **TIED,
        },
    ),
    "hrm_text": Case(
        {**MULTI_HEAD_SIZES, "num_hidden_layers": 2, "head_dim": 16},
        {
            **DENSE,
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            ("num_hidden_layers", "num_layers_per_stack"): ((1, ABSENT), (3, ABSENT), (16, 2)),
            "H_cycles": (ABSENT, 1, 3),
            "L_cycles": (ABSENT, 1, 2),
            "prefix_lm": FLAG,
        },
    ),
    "mllama_text_model": Case(
        {**SIZES, "num_hidden_layers": 5, "cross_attention_layers": [1, 3]},
        {
            **without("num_hidden_layers", of=DENSE),
            **KV,
            ("num_hidden_layers", "cross_attention_layers"): ((5, [0]), (5, ABSENT), (9, ABSENT), (4, []), (2, [1, 0])),
        },
    ),
    "moshi": Case(
        {**without("intermediate_size", of=SIZES), "ffn_dim": 352, "audio_encoder_config": {"model_type": "mimi"}},
        {
            **without("intermediate_size", of=DENSE),
            **KV_OR_ALL,
            **HEAD_OR_DEFAULT,
            "ffn_dim": (352, 96),
            "sliding_window": (ABSENT, 8),
        },
    ),
    "zaya": Case(
        {
            **without("intermediate_size", of=SIZES),
            **without("num_experts_per_tok", of=EXPERTS),
            "head_dim": 16,
            "router_hidden_size": 40,
        },
        {
            **without("intermediate_size", of=DENSE),
            **KV,
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            **without("num_experts_per_tok", of=NUMBERED),
            ("layer_types", "sliding_window", "num_hidden_layers"): (
                (["hybrid", "hybrid_sliding", "hybrid"], 8, 3),
                (["hybrid_sliding"], 4096, 1),
                (ABSENT, 8, 2),
            ),
            "router_hidden_size": (40, 64, ABSENT),
            "cca_time0": (ABSENT, 3, 1),
            "cca_time1": (ABSENT, 4, 1),
            "lm_head_bias": FLAG,
        },
    ),
    "inkling_text": Case(
        {
            **INKLING_SIZES,
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "layer_types": ["hybrid_sliding", "hybrid", "hybrid_sliding"],
        },
        {
            **INKLING,
            "n_shared_experts": (1, 3, ABSENT),
            ("moe_intermediate_size", "dense_intermediate_size", "intermediate_size"): (
                (48, ABSENT, 96),
                (ABSENT, 96, 48),
                (80, 96, 48),
            ),
            ("num_hidden_layers", "layer_types", "local_layer_ids", "mlp_layer_types", "dense_mlp_idx"): (
                (1, ABSENT, ABSENT, ABSENT, ABSENT),
                (7, ABSENT, ABSENT, ABSENT, 2),
                (3, ABSENT, [1], ["sparse", "dense", "sparse"], ABSENT),
            ),
            "unpadded_vocab_size": (ABSENT, 500),
        },
    ),
    "inkling2_text": Case(
        {
            **without("intermediate_size", "n_shared_experts", of=INKLING_SIZES),
            "num_hidden_layers": 4,
            "n_layers_per_attn_res_block": 2,
            "layer_types": ["hybrid_sliding", "hybrid", "hybrid", "hybrid_sliding"],
        },
        {
            **INKLING,
            "moe_intermediate_size": (48, 80),
            ("num_hidden_layers", "layer_types", "n_layers_per_attn_res_block"): (
                (1, ABSENT, ABSENT),
                (7, ABSENT, 3),
                (2, ["hybrid", "hybrid"], 1),
            ),
        },
    ),
}
