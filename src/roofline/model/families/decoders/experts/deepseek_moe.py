"""DeepSeekMoE (arXiv:2401.06066): many small experts with plain attention, the predecessor of latent attention."""

from __future__ import annotations

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types
from roofline.model.families.blocks.layers import causal_lm, stack
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.registry import family
from roofline.model.model import Model


@family("deepseek", "deepseek_ocr2_text")
def deepseek_moe(c: Config) -> Model:
    """DeepSeekMoE 16B, and the language models of DeepSeek-OCR and the small DeepSeek-VL2 (arXiv:2412.10302)."""
    c.mark_read(
        "lm_head",
        "rm_head",
        "head_dim",
        "kv_lora_rank",
        "q_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "v_head_dim",
    )
    d, bias, mlp_bias = dims(c.with_values(head_dim=None)), c.flag("attention_bias"), c.flag("mlp_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias)
    dense = mlp(d.width, c.size("intermediate_size"), activation(c), bias=mlp_bias)
    first, every = c.size("first_k_dense_replace", 1, least=0), c.size("moe_layer_freq", 1)
    sparse = mlp_layer_types(c, d.layers, first, every)
    experts, mixers = fine_moe(c, d.width, shared_bias=mlp_bias), [("", mixer)] * d.layers
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts, sparse=sparse))


@family("unlimited_ocr_text")
def unlimited_ocr(c: Config) -> Model:
    """Unlimited-OCR (Baidu, 2026): DeepSeekMoE; a token of the answer sees the prompt and its last neighbours.

    The cache is counted as if all of the answer stayed in it, an upper bound that a note states.
    """
    window = c.size("sliding_window", None)
    if window is not None:
        c.note(f"{c.field('sliding_window')} = {window} was not used: all tokens of an answer are counted as kept")
    c.mark_read("layer_types")
    return deepseek_moe(c)
