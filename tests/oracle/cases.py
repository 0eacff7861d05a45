"""How the configs of each model type may vary, as data.

A case is a small config as published ones look, and axes: for a key, the values it may take besides. Every axis changes
what the real code builds or runs, or might seem to. `ABSENT` leaves the key out, so that the class's default holds.
A tuple of keys is one axis: those keys only make sense together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Final

from hypothesis import strategies as st

ABSENT: Final[EllipsisType] = ...

Axes = Mapping[str | tuple[str, ...], Sequence[Any]]


@dataclass(frozen=True)
class Case:
    """A base config without its model type, and what may vary in it."""

    base: Mapping[str, Any]
    axes: Axes = field(default_factory=dict)


def base(model_type: str) -> dict[str, Any]:
    """The config of that type from which the others vary."""
    if model_type in WRAPPERS:
        return _wrap(model_type, base(WRAPPERS[model_type]))
    return {"model_type": model_type, **CASES[model_type].base}


def one_by_one(model_type: str) -> Iterator[dict[str, Any]]:
    """The base config, then one config for each other value of each axis, the rest as in the base."""
    if model_type in WRAPPERS:
        yield from (_wrap(model_type, config) for config in one_by_one(WRAPPERS[model_type]))
        return
    yield base(model_type)
    for keys, values in CASES[model_type].axes.items():
        varied = (_vary(base(model_type), [(keys, value)]) for value in values)
        yield from (config for config in varied if config != base(model_type))


def draw(model_type: str) -> st.SearchStrategy[dict[str, Any]]:
    """Configs of that type, complete as a `config.json`, that the real code accepts."""
    if model_type in WRAPPERS:
        return draw(WRAPPERS[model_type]).map(lambda config: _wrap(model_type, config))
    axes = CASES[model_type].axes
    choices = st.tuples(*(st.sampled_from(list(values)) for values in axes.values()))
    return choices.map(lambda chosen: _vary(base(model_type), zip(axes, chosen, strict=True)))


def _vary(config: dict[str, Any], chosen: Iterable[tuple[str | tuple[str, ...], Any]]) -> dict[str, Any]:
    for keys, value in chosen:
        config |= zip(keys, value, strict=True) if isinstance(keys, tuple) else {keys: value}
    return {key: value for key, value in config.items() if value is not ABSENT}


def _wrap(model_type: str, text_config: dict[str, Any]) -> dict[str, Any]:
    return {"model_type": model_type, "text_config": text_config}


# Axes that many types share.

FLAG = (ABSENT, False, True)
TIED: Axes = {"tie_word_embeddings": FLAG}
WIDTHS: Axes = {
    "vocab_size": (1000, 517),
    "hidden_size": (128, 192),
    "intermediate_size": (352, 96),
    "num_attention_heads": (8, 4),
    **TIED,
}
DEPTH: Axes = {"num_hidden_layers": (1, 3)}
KV: Axes = {"num_key_value_heads": (1, 2, 4)}
KV_OR_ALL: Axes = {"num_key_value_heads": (1, 2, 4, None, ABSENT)}  # null or absent: as many as there are heads
HEAD: Axes = {"head_dim": (16, 40)}
HEAD_OR_DEFAULT: Axes = {"head_dim": (16, 40, ABSENT)}
HEAD_OR_NULL: Axes = {"head_dim": (16, 40, None, ABSENT)}
ATTENTION_BIAS: Axes = {"attention_bias": FLAG}
MLP_BIAS: Axes = {"mlp_bias": FLAG}
WINDOW: Axes = {"sliding_window": (ABSENT, None, 8, 4096)}
PARTIAL_ROTARY: Axes = {"partial_rotary_factor": (ABSENT, 0.5)}

SIZES = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
}
DENSE: Axes = {**WIDTHS, **DEPTH}

WINDOWED_SIZES = {**SIZES, "sliding_window": 8}
WINDOWED: Axes = {
    "layer_types": (ABSENT, ["sliding_attention", "full_attention", "full_attention"]),
    "sliding_window": (8, 4096),
}

# Experts. Widths are multiples of 8: the grouped matmul wants rows of 16 bytes.

LOCAL_EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
LOCAL: Axes = {"num_local_experts": (8, 6), "num_experts_per_tok": (1, 2)}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
NUMBERED: Axes = {"num_experts": (8, 6), "num_experts_per_tok": (1, 2), "moe_intermediate_size": (48, 80)}
SPARSE_LAYERS: Axes = {"mlp_only_layers": (ABSENT, [], [0, 2]), "decoder_sparse_step": (ABSENT, 1, 2)}
SHARED_EXPERT: Axes = {"shared_expert_intermediate_size": (64, 200)}

ROUTED_EXPERTS = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
}
ROUTED: Axes = {
    "n_routed_experts": (8, 12),
    "num_experts_per_tok": (1, 3),
    "moe_intermediate_size": (48, 80),
    "n_shared_experts": (1, 2),
}
DENSE_FIRST: Axes = {"first_k_dense_replace": (ABSENT, 0, 1, 3)}

LATENT_SIZES = {
    **SIZES,
    "num_key_value_heads": 8,
    "q_lora_rank": 56,
    "kv_lora_rank": 40,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
}
LATENT: Axes = {
    "vocab_size": (1000, 517),
    "hidden_size": (128, 192),
    "q_lora_rank": (56, None),
    "kv_lora_rank": (40, 72),
    "qk_nope_head_dim": (24, 48),
    "qk_rope_head_dim": (16, 8),
    "v_head_dim": (32, 24),
    "num_hidden_layers": (3, 4),
    **ATTENTION_BIAS,
    **TIED,
}

# Linear attention and state spaces.

DELTA_SIZES = {
    **SIZES,
    "num_hidden_layers": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 24,
    "linear_value_head_dim": 40,
    "linear_conv_kernel_dim": 4,
}
DELTA: Axes = {
    **WIDTHS,
    **KV,
    **HEAD_OR_DEFAULT,
    **ATTENTION_BIAS,
    "linear_num_key_heads": (1, 2),
    "linear_num_value_heads": (4, 6),
    "linear_key_head_dim": (24, 16),
    "linear_value_head_dim": (40, 56),
    "linear_conv_kernel_dim": (4, 3),
    ("layer_types", "full_attention_interval"): (
        (ABSENT, ABSENT),
        (ABSENT, 2),
        (["linear_attention", "full_attention", "full_attention", "linear_attention"], ABSENT),
    ),
}

MAMBA_1 = Case(
    {
        "vocab_size": 1000,
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "state_size": 16,
        "conv_kernel": 4,
        "expand": 2,
        "time_step_rank": 8,
    },
    {
        "vocab_size": (1000, 517),
        "hidden_size": (128, 72),
        "num_hidden_layers": (1, 2),
        "state_size": (16, 24),
        "conv_kernel": (ABSENT, 3),
        "expand": (ABSENT, 1, 3),
        "time_step_rank": (8, "auto", ABSENT),
        "use_bias": FLAG,
        "use_conv_bias": FLAG,
        **TIED,
    },
)

MAMBA_2_LAYERS = {
    "mamba_n_heads": 8,
    "mamba_d_head": 32,
    "mamba_n_groups": 2,
    "mamba_d_state": 24,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 64,
}
MAMBA_2_AXES: Axes = {
    ("hidden_size", "mamba_n_heads", "mamba_d_head"): ((128, 8, 32), (128, 4, "auto"), (192, 8, ABSENT)),
    "mamba_n_groups": (1, 2),
    "mamba_d_state": (24, 40),
    "mamba_d_conv": (ABSENT, 3),
    "mamba_chunk_size": (64, 48, ABSENT),
    "mamba_conv_bias": FLAG,
    "mamba_proj_bias": FLAG,
    "vocab_size": (1000, 517),
    "intermediate_size": (352, 96),
    **ATTENTION_BIAS,
    **TIED,
}

GPT_SIZES = {"vocab_size": 1000, "n_positions": 256, "n_embd": 128, "n_layer": 3, "n_head": 8}
GPT: Axes = {
    "vocab_size": (1000, 517),
    "n_positions": (256, 130),
    "n_embd": (128, 192),
    "n_layer": (1, 3),
    "n_head": (4, 8),
    "n_inner": (ABSENT, None, 200),
    **TIED,
}

LLAMA = Case(SIZES, {**DENSE, **KV_OR_ALL, **HEAD_OR_NULL, **ATTENTION_BIAS, **MLP_BIAS})
MISTRAL = Case(SIZES, {**DENSE, **KV, **HEAD_OR_NULL, **WINDOW})
OLMO = Case(SIZES, {**DENSE, **KV_OR_ALL, **HEAD_OR_DEFAULT, **ATTENTION_BIAS})
GLM = Case(SIZES, {**DENSE, **KV, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **PARTIAL_ROTARY})

CASES: dict[str, Case] = {
    "llama": LLAMA,
    "llama4_text": Case(
        {
            **SIZES,
            **LOCAL_EXPERTS,
            "num_hidden_layers": 4,
            "intermediate_size_mlp": 264,
            "interleave_moe_layer_step": 2,
        },
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            **LOCAL,
            "intermediate_size_mlp": (264, 80),
            ("interleave_moe_layer_step", "moe_layers"): (
                (1, ABSENT),
                (2, None),
                (ABSENT, ABSENT),
                (2, [0, 3]),
                (1, []),
            ),
            "no_rope_layers": (ABSENT, [], [1, 0, 1, 0]),
            "attention_chunk_size": (ABSENT, 16),
            "use_qk_norm": FLAG,
        },
    ),
    "mistral": MISTRAL,
    "ministral3": Case(SIZES, {**DENSE, **KV, **HEAD_OR_DEFAULT, **WINDOW}),
    "mixtral": Case({**SIZES, **LOCAL_EXPERTS}, {**MISTRAL.axes, **LOCAL}),
    "qwen2": Case(
        SIZES,
        {
            **DENSE,
            "num_key_value_heads": (1, 2, 4, None),
            **HEAD_OR_DEFAULT,
            ("use_sliding_window", "sliding_window", "max_window_layers"): (
                (ABSENT, 8, 1),
                (True, 8, 1),
                (False, None, 0),
            ),
        },
    ),
    "qwen2_moe": Case(
        {**SIZES, **EXPERTS, "shared_expert_intermediate_size": 64},
        {**WIDTHS, **KV, **HEAD_OR_DEFAULT, **NUMBERED, **SPARSE_LAYERS, **SHARED_EXPERT, "qkv_bias": FLAG},
    ),
    "qwen3": Case(
        SIZES,
        {
            **DENSE,
            "num_key_value_heads": (1, 2, 4, None),
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            "use_sliding_window": FLAG,
        },
    ),
    "qwen3_moe": Case(
        {**SIZES, **EXPERTS, "head_dim": 16},
        {**WIDTHS, **KV, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **NUMBERED, **SPARSE_LAYERS},
    ),
    "qwen3_next": Case(
        {**DELTA_SIZES, **EXPERTS, "shared_expert_intermediate_size": 64},
        {**DELTA, **NUMBERED, **SPARSE_LAYERS, **SHARED_EXPERT},
    ),
    "qwen3_5_text": Case(DELTA_SIZES, DELTA),
    "qwen3_5_moe_text": Case(
        {**DELTA_SIZES, **EXPERTS, "shared_expert_intermediate_size": 64}, {**DELTA, **NUMBERED, **SHARED_EXPERT}
    ),
    "gemma": Case(SIZES, {**DENSE, **KV, **HEAD_OR_DEFAULT, **ATTENTION_BIAS}),
    "gemma2": Case(WINDOWED_SIZES, {**WIDTHS, **KV, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **WINDOWED}),
    "gemma3_text": Case(
        WINDOWED_SIZES,
        {**WIDTHS, **KV, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **WINDOWED, "sliding_window_pattern": (ABSENT, 2)},
    ),
    "phi": Case(SIZES, {**DENSE, **KV_OR_ALL, **PARTIAL_ROTARY, "qk_layernorm": FLAG}),
    "phi3": Case(SIZES, {**DENSE, **KV_OR_ALL, **HEAD_OR_DEFAULT, **WINDOW}),
    "phimoe": Case(
        {**SIZES, **LOCAL_EXPERTS},
        {**DENSE, **KV, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **LOCAL, "lm_head_bias": FLAG},
    ),
    "gpt2": Case(GPT_SIZES, GPT),
    "gpt_bigcode": Case(GPT_SIZES, {**GPT, "multi_query": FLAG}),
    "gptj": Case({**GPT_SIZES, "rotary_dim": 8}, {**GPT, "rotary_dim": (8, 16)}),
    "gpt_neox": Case(
        {key: value for key, value in SIZES.items() if key != "num_key_value_heads"},
        {**DENSE, **ATTENTION_BIAS, "use_parallel_residual": FLAG, "rotary_pct": (ABSENT, 0.5)},
    ),
    "gpt_oss": Case(
        {**WINDOWED_SIZES, **LOCAL_EXPERTS}, {**WIDTHS, **KV, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **LOCAL, **WINDOWED}
    ),
    "opt": Case(
        {
            "vocab_size": 1000,
            "hidden_size": 128,
            "ffn_dim": 352,
            "num_hidden_layers": 3,
            "num_attention_heads": 8,
            "max_position_embeddings": 256,
            "word_embed_proj_dim": 128,
        },
        {
            "vocab_size": (1000, 517),
            "hidden_size": (128, 192),
            "ffn_dim": (352, 96),
            "num_hidden_layers": (1, 3),
            "max_position_embeddings": (256, 130),
            "word_embed_proj_dim": (ABSENT, None, 128, 48),
            "do_layer_norm_before": FLAG,
            "_remove_final_layer_norm": FLAG,
            "enable_bias": FLAG,
            "layer_norm_elementwise_affine": FLAG,
            **TIED,
        },
    ),
    "bloom": Case(
        {"vocab_size": 1000, "hidden_size": 128, "n_layer": 3, "n_head": 8},
        {
            "vocab_size": (1000, 517),
            ("hidden_size", "n_embed", "n_layer", "num_hidden_layers", "n_head", "num_attention_heads"): (
                (128, ABSENT, 2, ABSENT, 4, ABSENT),
                (ABSENT, 192, 3, ABSENT, ABSENT, 8),
                (192, ABSENT, ABSENT, 1, 8, ABSENT),
            ),
            **TIED,
        },
    ),
    "falcon": Case(
        {
            "vocab_size": 1000,
            "hidden_size": 128,
            "num_hidden_layers": 3,
            "num_attention_heads": 8,
            "multi_query": True,
            "new_decoder_architecture": False,
            "parallel_attn": True,
        },
        {
            "vocab_size": (1000, 517),
            "hidden_size": (128, 192),
            "num_hidden_layers": (1, 3),
            (
                "new_decoder_architecture",
                "multi_query",
                "num_kv_heads",
                "parallel_attn",
                "num_ln_in_parallel_attn",
            ): (
                (False, True, ABSENT, True, ABSENT),
                (ABSENT, ABSENT, 4, ABSENT, 1),
                (False, True, ABSENT, False, ABSENT),
                (False, False, ABSENT, False, 2),
                (False, False, None, True, None),
                (True, True, 2, True, ABSENT),
                (True, True, 4, True, 1),
                (True, False, None, True, 2),
            ),
            "ffn_hidden_size": (ABSENT, None, 200),
            "alibi": FLAG,
            "bias": FLAG,
            **TIED,
        },
    ),
    "mpt": Case(
        {"vocab_size": 1000, "d_model": 128, "n_layers": 3, "n_heads": 8, "max_seq_len": 256, "expansion_ratio": 4},
        {
            "vocab_size": (1000, 517),
            "d_model": (128, 192),
            "n_layers": (1, 3),
            "n_heads": (4, 8),
            "max_seq_len": (256, 512),
            **TIED,
        },
    ),
    "stablelm": Case(
        SIZES,
        {
            **DENSE,
            **KV,
            **PARTIAL_ROTARY,
            "use_qkv_bias": FLAG,
            "qk_layernorm": FLAG,
            "use_parallel_residual": FLAG,
        },
    ),
    "starcoder2": Case(SIZES, {**DENSE, **KV, **HEAD_OR_NULL, **WINDOW, "use_bias": FLAG}),
    "olmo": OLMO,
    "olmo2": OLMO,
    "olmo3": Case(WINDOWED_SIZES, {**OLMO.axes, "num_hidden_layers": (3,), **WINDOWED}),
    "olmoe": Case(
        {**SIZES, "num_experts": 8, "num_experts_per_tok": 2},
        {**DENSE, **KV_OR_ALL, **ATTENTION_BIAS, "num_experts": (8, 6), "num_experts_per_tok": (1, 2)},
    ),
    "granite": Case(SIZES, {**DENSE, **KV_OR_ALL, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **MLP_BIAS}),
    "granitemoe": Case({**SIZES, **LOCAL_EXPERTS}, {**OLMO.axes, **LOCAL}),
    "granitemoehybrid": Case(
        {**SIZES, **LOCAL_EXPERTS, **MAMBA_2_LAYERS, "shared_intermediate_size": 88, "position_embedding_type": "nope"},
        {
            **MAMBA_2_AXES,
            **KV_OR_ALL,
            "num_local_experts": (8, 6, 0),
            "num_experts_per_tok": (1, 2),
            "shared_intermediate_size": (88, 40, ABSENT),
            "position_embedding_type": (ABSENT, "nope", "rope"),
            "layer_types": (
                ABSENT,
                ["mamba", "attention", "mamba"],
                ["full_attention", "linear_attention", "full_attention"],
            ),
        },
    ),
    "bamba": Case(
        {**SIZES, **MAMBA_2_LAYERS, "attn_layer_indices": [1]},
        {**MAMBA_2_AXES, **KV_OR_ALL, **MLP_BIAS, **HEAD_OR_DEFAULT, "attn_layer_indices": (ABSENT, [1], [0, 2])}
        | {"num_key_value_heads": (1, 2, 4, None)},
    ),
    "cohere": Case(SIZES, {**DENSE, **KV_OR_ALL, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, "use_qk_norm": FLAG}),
    "cohere2": Case(WINDOWED_SIZES, {**WIDTHS, **KV_OR_ALL, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **WINDOWED}),
    "glm": GLM,
    "glm4": GLM,
    "glm4_moe": Case(
        {**SIZES, **ROUTED_EXPERTS, "head_dim": 16, "first_k_dense_replace": 1},
        {**WIDTHS, **KV, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, **PARTIAL_ROTARY, **ROUTED, **DENSE_FIRST}
        | {"use_qk_norm": FLAG},
    ),
    "glm4_moe_lite": Case(
        {**LATENT_SIZES, **ROUTED_EXPERTS},
        {**LATENT, **ROUTED, "num_hidden_layers": (3,), "mlp_layer_types": (ABSENT, ["sparse", "dense", "sparse"])},
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
        {**LATENT_SIZES, **ROUTED_EXPERTS, "index_head_dim": 32, "index_n_heads": 4, "index_topk": 16},
        {
            **LATENT,
            **ROUTED,
            **DENSE_FIRST,
            "num_hidden_layers": (3,),
            "q_lora_rank": (56, 72),
            "index_head_dim": (32, 48),
            "index_n_heads": (4, 6),
            "index_topk": (16, 2048),
            "mlp_layer_types": (ABSENT, ["sparse", "dense", "sparse"]),
        },
    ),
    "kimi_linear": Case(
        {
            **LATENT_SIZES,
            "q_lora_rank": None,
            "num_experts": 8,
            "num_experts_per_token": 2,
            "num_shared_experts": 1,
            "moe_intermediate_size": 48,
            "first_k_dense_replace": 1,
            "linear_attn_config": {
                "head_dim": 24,
                "num_heads": 4,
                "short_conv_kernel_size": 4,
                "full_attn_layers": [2],
                "kda_layers": [1, 3],
            },
        },
        {
            **LATENT,
            "num_hidden_layers": (3,),
            **DENSE_FIRST,
            "num_experts": (8, 6),
            "num_experts_per_token": (1, 2),
            "num_shared_experts": (1, 2),
            "moe_intermediate_size": (48, 80),
            ("layer_types", "linear_attn_config"): (
                (ABSENT, {"head_dim": 24, "num_heads": 4, "full_attn_layers": [2], "kda_layers": [1, 3]}),
                (ABSENT, {"head_dim": 16, "num_heads": 6, "short_conv_kernel_size": 3}),
                (["linear_attention", "full_attention", "full_attention"], {"head_dim": 40, "num_heads": 2}),
            ),
        },
    ),
    "exaone4": Case(
        SIZES,
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            ("sliding_window", "sliding_window_pattern", "layer_types"): (
                (8, 4, ABSENT),
                (8, "LLG", ["sliding_attention", "sliding_attention", "full_attention"]),
                (None, None, ["full_attention", "full_attention", "full_attention"]),
            ),
        },
    ),
    "smollm3": Case(
        SIZES,
        {
            **WIDTHS,
            "num_key_value_heads": (1, 2, 4, None),
            **HEAD_OR_DEFAULT,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            "no_rope_layers": (ABSENT, [1, 0, 1]),
            ("use_sliding_window", "sliding_window"): ((ABSENT, ABSENT), (True, 8)),
        },
    ),
    "seed_oss": Case(
        SIZES,
        {
            **DENSE,
            "num_key_value_heads": (1, 2, 4, None),
            **HEAD_OR_NULL,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            "attention_out_bias": FLAG,
        },
    ),
    "ernie4_5": Case(SIZES, {**DENSE, "num_key_value_heads": (1, 2, 4, None), **HEAD_OR_NULL, "use_bias": FLAG}),
    "ernie4_5_moe": Case(
        {
            **SIZES,
            "moe_num_experts": 8,
            "moe_k": 2,
            "moe_intermediate_size": 48,
            "moe_num_shared_experts": 2,
            "moe_layer_start_index": 1,
        },
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            "use_bias": FLAG,
            "moe_num_experts": (8, 6),
            "moe_k": (1, 2),
            "moe_intermediate_size": (48, 80),
            "moe_num_shared_experts": (ABSENT, 0, 1),
            "moe_layer_start_index": (ABSENT, 0, 2),
            "moe_layer_end_index": (ABSENT, -1, 1),
            "moe_layer_interval": (ABSENT, 1, 2),
        },
    ),
    "hunyuan_v1_dense": Case({**SIZES, "head_dim": 16}, {**DENSE, **KV_OR_ALL, **HEAD, **ATTENTION_BIAS}),
    "hunyuan_v1_moe": Case(
        {**SIZES, "num_experts": 8, "moe_topk": 2, "head_dim": 16},
        {
            **WIDTHS,
            **KV_OR_ALL,
            **HEAD,
            **ATTENTION_BIAS,
            ("num_experts", "moe_topk"): ((8, 2), (6, [1, 2, 2]), (8, ABSENT), (1, 1)),
        },
    ),
    "minimax_m2": Case({**SIZES, **LOCAL_EXPERTS}, {**DENSE, **KV, **HEAD_OR_DEFAULT, **LOCAL}),
    "bitnet": Case(SIZES, {**DENSE, "num_key_value_heads": (1, 2, 4, None), **ATTENTION_BIAS}),
    "nemotron": Case(SIZES, {**DENSE, **KV, **HEAD_OR_NULL, **ATTENTION_BIAS, **MLP_BIAS, **PARTIAL_ROTARY}),
    "internlm3": Case(
        SIZES,
        {
            **DENSE,
            "num_key_value_heads": (1, 2, 4, None),
            **HEAD_OR_NULL,
            ("qkv_bias", "bias"): ((ABSENT, ABSENT), (False, False), (True, True)),
        },
    ),
    "apertus": Case(
        SIZES, {**DENSE, **KV_OR_ALL, **HEAD_OR_DEFAULT, **ATTENTION_BIAS, "hidden_act": (ABSENT, "xielu", "silu")}
    ),
    "arcee": LLAMA,
    "helium": Case(
        {**SIZES, "head_dim": 16},
        {
            "vocab_size": (1000, 517),
            "intermediate_size": (352, 96),
            **DEPTH,
            **TIED,
            **KV,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            ("hidden_size", "num_attention_heads", "head_dim"): ((128, 8, 16), (128, 4, 32), (192, 4, 48)),
        },
    ),
    "lfm2": Case(
        {
            **SIZES,
            "num_hidden_layers": 4,
            "block_multiple_of": 64,
            "layer_types": ["conv", "conv", "full_attention", "conv"],
        },
        {
            **WIDTHS,
            **KV,
            **HEAD_OR_DEFAULT,
            ("layer_types", "full_attn_idxs"): (
                (["conv", "conv", "full_attention", "conv"], ABSENT),
                (ABSENT, [0, 2]),
                (ABSENT, ABSENT),
            ),
            "conv_bias": FLAG,
            "conv_L_cache": (ABSENT, 4),
            "block_auto_adjust_ff_dim": FLAG,
            "block_ffn_dim_multiplier": (ABSENT, 1.0, 1.3),
            "block_multiple_of": (64, ABSENT),
            "block_ff_dim": (ABSENT, 300),
            "tie_embedding": FLAG,
        },
    ),
    "mamba": MAMBA_1,
    "falcon_mamba": MAMBA_1,
    "mamba2": Case(
        {
            "vocab_size": 1000,
            "hidden_size": 128,
            "num_hidden_layers": 2,
            "num_heads": 8,
            "head_dim": 32,
            "expand": 2,
            "state_size": 24,
            "n_groups": 2,
            "conv_kernel": 4,
            "chunk_size": 64,
        },
        {
            "vocab_size": (1000, 517),
            ("hidden_size", "num_heads", "head_dim", "expand"): ((128, 8, 32, 2), (64, 16, 8, ABSENT), (128, 4, 32, 1)),
            "num_hidden_layers": (1, 2),
            "state_size": (24, 40),
            "n_groups": (1, 2, 4),
            "conv_kernel": (ABSENT, 3),
            "chunk_size": (64, 48, ABSENT),
            "use_bias": FLAG,
            "use_conv_bias": FLAG,
            **TIED,
        },
    ),
    "jamba": Case(
        {
            **SIZES,
            "num_hidden_layers": 4,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "attn_layer_period": 4,
            "attn_layer_offset": 2,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_dt_rank": 12,
        },
        {
            **WIDTHS,
            **KV,
            "num_experts": (4, 1),
            "num_experts_per_tok": (1, 2),
            ("attn_layer_period", "attn_layer_offset"): ((4, 2), (2, 0), (8, 7)),
            ("expert_layer_period", "expert_layer_offset"): ((2, 1), (3, 0), (1, 0)),
            "mamba_d_state": (16, 24),
            "mamba_d_conv": (ABSENT, 3),
            "mamba_expand": (ABSENT, 1),
            "mamba_dt_rank": (12, "auto", ABSENT),
            "mamba_conv_bias": FLAG,
            "mamba_proj_bias": FLAG,
        },
    ),
}

# Wrappers around a text model: a `text_config` inside.
WRAPPERS = {"llama4": "llama4_text", "gemma3": "gemma3_text"}

TYPES = sorted([*CASES, *WRAPPERS])
