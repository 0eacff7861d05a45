"""Decoders with latent or compressed attention, most with experts."""

from oracle.cases.axes import (
    ABSENT,
    DENSE_FIRST,
    LATENT,
    LATENT_SIZES,
    MLP_BIAS,
    MLP_LAYER_TYPES,
    ROUTED,
    ROUTED_EXPERTS,
    TIED,
    Axes,
    Case,
)

INDEXER_SIZES = {"index_head_dim": 32, "index_n_heads": 4, "index_topk": 16}
INDEXER: Axes = {"index_head_dim": (32, 48), "index_n_heads": (4, 6), "index_topk": (16, 2048)}

CASES: dict[str, Case] = {
    "glm4_moe_lite": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS},
        {**LATENT, **ROUTED, "num_hidden_layers": (3,), **MLP_LAYER_TYPES},
    ),
    "deepseek_v2": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS, "topk_method": "greedy", "first_k_dense_replace": 1},
        {**LATENT, **ROUTED, **DENSE_FIRST, **MLP_BIAS, "topk_method": ("greedy", "group_limited_greedy")},
    ),
    "deepseek_v3": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1},
        {**LATENT, **ROUTED, **DENSE_FIRST, "num_nextn_predict_layers": (ABSENT, 0, 1)},
    ),
    "deepseek_v32": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS, **INDEXER_SIZES},
        {
            **LATENT,
            **ROUTED,
            **DENSE_FIRST,
            "num_hidden_layers": (3,),
            "q_lora_rank": (56, 72),
            **INDEXER,
            **MLP_LAYER_TYPES,
        },
    ),
    "glm_moe_dsa": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS, **INDEXER_SIZES},
        {
            **LATENT,
            **ROUTED,
            **INDEXER,
            **DENSE_FIRST,
            **MLP_LAYER_TYPES,
            "num_hidden_layers": (3,),
            "q_lora_rank": (56, 72),
            ("indexer_types", "index_topk_freq"): (
                (ABSENT, ABSENT),
                (["full", "shared", "shared"], ABSENT),
                (ABSENT, 2),
            ),
        },
    ),
    "mistral4": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS}, {**LATENT, **ROUTED, **DENSE_FIRST, "num_hidden_layers": (3,)}
    ),
    "axk1": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS},
        {
            **LATENT,
            **ROUTED,
            **MLP_LAYER_TYPES,
            "num_hidden_layers": (3,),
            "q_lora_rank": (56, 72),
            "first_k_dense_replace": (ABSENT, 0, 2),
            "moe_layer_freq": (ABSENT, 1, 2),
        },
    ),
    "youtu": Case(LATENT_SIZES, LATENT),
    "minicpm3": Case(LATENT_SIZES, {**LATENT, **MLP_BIAS, "v_head_dim": (32, 24, ABSENT)}),
    "deepseek_v4": Case(
        {
            "vocab_size": 1000,
            "hidden_size": 128,
            "moe_intermediate_size": 48,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "q_lora_rank": 56,
            "o_groups": 2,
            "o_lora_rank": 24,
            "index_n_heads": 4,
            "index_head_dim": 32,
            "index_topk": 8,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "sliding_window": 8,
            "max_position_embeddings": 256,
        },
        {
            "vocab_size": (1000, 517),
            "hidden_size": (128, 192),
            "num_attention_heads": (8, 4),
            "head_dim": (32, 64),
            "q_lora_rank": (56, 72),
            "o_groups": (2, 4),
            "o_lora_rank": (24, 40),
            "index_n_heads": (4, 6),
            "index_head_dim": (32, 48),
            "n_routed_experts": (8, 12),
            "num_experts_per_tok": (1, 3),
            "moe_intermediate_size": (48, 80),
            "hc_mult": (ABSENT, 2),
            "compress_rates": (ABSENT, {"compressed_sparse_attention": 8, "heavily_compressed_attention": 32}),
            ("layer_types", "compress_ratios"): (
                (ABSENT, ABSENT),
                (ABSENT, [0, 4, 128, 4]),
                (
                    [
                        "sliding_attention",
                        "compressed_sparse_attention",
                        "heavily_compressed_attention",
                        "sliding_attention",
                    ],
                    ABSENT,
                ),
            ),
            **TIED,
        },
    ),
}
