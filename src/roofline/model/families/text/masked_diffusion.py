"""Language models that write by filling in masks (arXiv:2502.09992): every step reads all tokens, both ways."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, layer
from roofline.model.families.blocks.norms import per_head
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.decoders.dense.qwen import qwen2
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Attention


def denoising(model: Model) -> Model:
    """A language model's plan without a mask or a cache, whose one step gives logits of all tokens."""

    def seeing_all(block: Block) -> Block:
        return Block(
            block.name, tuple(replace(m, causal=False) if isinstance(m, Attention) else m for m in block.modules)
        )

    blocks = {block: seeing_all(block) for block in dict.fromkeys(model.layers)}
    return replace(model, layers=tuple(blocks[block] for block in model.layers), steps=("encode",))


@complete("llada")
def llada(c: Config) -> Model:
    """LLaDA (arXiv:2502.09992): Llama's plan under the keys of OLMo's code."""
    kv, tied = c.size("n_kv_heads", None), c.flag("weight_tying")
    c.mark_read("mask_token_id", "block_type", "layer_norm_type", "rope", "vocab_size", "mlp_ratio", *_STEERING)
    c = c.with_values(
        hidden_size=c.size("d_model"), num_hidden_layers=c.size("n_layers"), num_attention_heads=c.size("n_heads"),
        num_key_value_heads=kv or c.size("n_heads"), tie_word_embeddings=tied,
        vocab_size=c.size("embedding_size|vocab_size"),
    )  # fmt: skip
    d, bias = dims(c), c.flag("include_bias") or c.flag("include_qkv_bias")
    ffn = mlp(d.width, c.size("mlp_hidden_size"), activation(c, "activation_type", "silu"))
    block = layer("dense", d.width, attention(d, rotary=rotary(c, d.head_dim), bias=bias, out_bias=False), ffn)
    return denoising(causal_lm(c, d.width, [block] * d.layers))


_STEERING = (
    "alibi", "alibi_bias_max", "attention_layer_norm", "attention_layer_norm_with_affine", "bias_for_layer_norm",
    "block_group_size", "flash_attention", "init_device", "init_fn", "init_std", "input_emb_norm",
    "layer_norm_with_affine", "max_sequence_length", "multi_query_attention", "precision", "rope_full_precision",
    "scale_logits", "init_cutoff_factor",
)  # fmt: skip
"""Keys of OLMo's code that change no size at the values of LLaDA."""


@complete("llada_moe")
def llada_moe(c: Config) -> Model:
    """LLaDA-MoE (arXiv:2509.24389): norms of queries and keys on each head, 64 experts in every layer."""
    c.mark_read("dense_intermediate_size", "moe_layer_freq", "qk_layernorm", "moe_router_score_function", "clip_qkv")
    c.mark_read("moe_router_enable_expert_bias", "moe_router_topk_scaling_factor", "routed_scaling_factor")
    d, norm = dims(c), per_head if c.flag("qk_layernorm", True) else None
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=norm)
    shared = c.size("shared_expert_intermediate_size", 0, least=0)
    inner, count = c.size("expert_intermediate_size"), c.size("num_experts")
    experts = moe(c, d.width, count, c.size("num_experts_per_tok"), inner, shared=shared)
    return denoising(causal_lm(c, d.width, [layer("sparse", d.width, mixer, experts)] * d.layers))


@complete("Dream")
def dream(c: Config) -> Model:
    """Dream (arXiv:2508.15487): Qwen2's plan."""
    c.mark_read("mask_token_id")
    return denoising(qwen2(c))
