"""Layers of their own kind: RWKV, xLSTM, stacks run in cycles, layers that attend to images."""

from oracle.cases.axes import (
    ABSENT,
    ATTENTION_BIAS,
    DENSE,
    DEPTH,
    FLAG,
    HEAD_OR_DEFAULT,
    KV,
    KV_OR_ALL,
    MLP_BIAS,
    MULTI_HEAD_SIZES,
    SIZES,
    TIED,
    Axes,
    Case,
    without,
)

NARROW: Axes = {"vocab_size": (1000, 517), "hidden_size": (128, 192), **TIED, **DEPTH}

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
}
