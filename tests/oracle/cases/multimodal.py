"""Language models of multimodal wholes, by their text part."""

from typing import Any

from oracle.cases.axes import (
    ABSENT,
    ATTENTION_BIAS,
    DENSE,
    DENSE_FIRST,
    DEPTH,
    EXPERTS,
    FLAG,
    HEAD,
    KV,
    KV_OR_ALL,
    LATENT,
    LATENT_SIZES,
    MLP_BIAS,
    NUMBERED,
    ROUTED,
    ROUTED_EXPERTS,
    SIZES,
    SPARSE_LAYERS,
    WIDTHS,
    WINDOW,
    WINDOWED_SIZES,
    Axes,
    Case,
    without,
)


def _rope(*sections: int) -> dict[str, Any]:
    """Rotary positions in time, height and width, which share out half of a head's rotated values."""
    return {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(sections)}


SEEING_SIZES = {**SIZES, "rope_parameters": _rope(3, 3, 2)}
SEEING: Axes = {
    **without("hidden_size", "num_attention_heads", of=WIDTHS),
    ("hidden_size", "num_attention_heads", "rope_parameters"): (
        (192, 12, _rope(3, 3, 2)),
        (256, 8, _rope(5, 5, 6)),
        (64, 8, _rope(1, 1, 2)),
    ),
    **KV,
}
GLM_V = Case(SEEING_SIZES, {**SEEING, **DEPTH})
GRANITE = Case(SIZES, {**DENSE, **KV, **ATTENTION_BIAS, **MLP_BIAS})

CASES: dict[str, Case] = {
    "phi4_multimodal": Case(SIZES, {**DENSE, **KV, **WINDOW}),
    "glm4v_text": GLM_V,
    "glm_ocr_text": GLM_V,
    "glm_image_text": GLM_V,
    "glm4v_moe_text": Case(
        {**SEEING_SIZES, **ROUTED_EXPERTS, "head_dim": 32}, {**WIDTHS, **KV, **ATTENTION_BIAS, **ROUTED, **DENSE_FIRST}
    ),
    "ernie4_5_vl_moe_text": Case(
        {
            **SEEING_SIZES,
            "moe_num_experts": 8,
            "moe_k": 2,
            "moe_intermediate_size": [48, 24],
            "moe_num_shared_experts": 1,
        },
        {
            **SEEING,
            "moe_num_experts": (8, 6),
            "moe_k": (1, 3),
            "moe_intermediate_size": ([48, 24], [80, 16]),
            "moe_num_shared_experts": (0, 2),
            "mlp_layer_types": (ABSENT, ["sparse", "dense", "sparse"]),
            "use_bias": FLAG,
        },
    ),
    "qwen2_5_omni_text": Case(
        {**SEEING_SIZES, "tie_word_embeddings": False},  # absent: the text part is tied, the whole is not
        {
            **SEEING,
            **DEPTH,
            "tie_word_embeddings": (True,),
            ("use_sliding_window", "sliding_window", "max_window_layers"): ((ABSENT, 8, 1), (True, 8, 1)),
        },
    ),
    "qwen3_omni_moe_text": Case(
        {**SIZES, **EXPERTS, "head_dim": 24}, {**WIDTHS, **KV, **HEAD, **ATTENTION_BIAS, **NUMBERED, **SPARSE_LAYERS}
    ),
    "paddleocr_vl_text": Case(
        {**SEEING_SIZES, "head_dim": 16},
        {**DENSE, **KV, ("head_dim", "rope_parameters"): ((ABSENT, ABSENT), (40, _rope(6, 6, 8))), "use_bias": FLAG},
    ),
    "hunyuan_vl_text": Case(
        {**SEEING_SIZES, "head_dim": 16},
        {**DENSE, **KV_OR_ALL, ("head_dim", "rope_parameters"): ((40, _rope(6, 6, 8)),), **ATTENTION_BIAS},
    ),
    "granite4_vision_text": GRANITE,
    "granite_docling_text": GRANITE,
    "deepseek_ocr2_text": Case(
        {**SIZES, **ROUTED_EXPERTS, "mlp_layer_types": ["dense", "sparse", "sparse"]},
        {
            **WIDTHS,
            **KV_OR_ALL,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            **ROUTED,
            "mlp_layer_types": (["sparse", "dense", "sparse"], ["sparse"] * 3),
        },
    ),
    "molmo2_text": Case(
        {**SIZES, "head_dim": 16},
        {
            **without("tie_word_embeddings", of=DENSE),
            **KV,
            "head_dim": (ABSENT, 24),
            **ATTENTION_BIAS,
            "qk_norm_type": (ABSENT, "qwen3", "olmo"),
            "norm_after": FLAG,
            "additional_vocab_size": (ABSENT, 0, 40),
        },
    ),
    "chameleon": Case(
        {**SIZES, "vocabulary_map": {"<image>": 4}}, {**DENSE, **KV, **ATTENTION_BIAS, **MLP_BIAS, "swin_norm": FLAG}
    ),
    "step3p5": Case(
        {
            **WINDOWED_SIZES,
            **without("n_group", "topk_group", "n_shared_experts", of=ROUTED_EXPERTS),
            "head_dim": 16,
            "share_expert_dim": 40,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "num_sliding_attention_heads": 12,
        },
        {
            **WIDTHS,
            **KV,
            **HEAD,
            **ATTENTION_BIAS,
            **MLP_BIAS,
            **without("n_shared_experts", of=ROUTED),
            "share_expert_dim": (40, 96),
            "num_sliding_attention_heads": (ABSENT, 4),
            ("mlp_layer_types", "moe_layers_enum"): ((ABSENT, ABSENT), (ABSENT, "0,2"), (["sparse"] * 3, ABSENT)),
            ("num_sliding_attention_heads", "attention_other_setting"): ((ABSENT, {"num_attention_heads": 4}),),
        },
    ),
    "mistral_large4_text": Case(
        {
            **without("q_lora_rank", of=LATENT_SIZES),
            **ROUTED_EXPERTS,
            "num_hidden_layers": 4,
            "index_topk": 16,
            "index_head_dim": 32,
            "index_n_heads": 4,
        },
        {
            **without("q_lora_rank", "num_hidden_layers", of=LATENT),
            **ROUTED,
            **DENSE_FIRST,
            "qk_nope_head_dim": (32,),  # 48 would make it cheaper absorbed, as the real code never runs it
            "index_topk": (8, 64),
            "index_head_dim": (48,),
            "index_n_heads": (2,),
            "no_rope_layers": (ABSENT, [1, 1, 1, 1], [0, 1, 0, 1]),
            "mlp_layer_types": (ABSENT, ["sparse", "dense", "sparse", "dense"]),
        },
    ),
}
