"""OLMo, Granite, Cohere, ERNIE, Hunyuan, GLM, MiniMax: dense and sparse decoders of the open laboratories."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, kind, layer, parallel_layer, stack
from roofline.model.families.blocks.norms import (
    across_heads,
    layer_norm_no_bias,
    layer_norm_of_each_head,
    per_head,
    plain_layer_norm,
)
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Modules


@family("olmo")
def olmo(c: Config) -> Model:
    """OLMo (arXiv:2402.00838): LayerNorm without parameters."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    block = layer("dense", d.width, mixer, ffn, norm=plain_layer_norm)
    return causal_lm(c, d.width, [block] * d.layers, norm=plain_layer_norm)


@family("olmo2")
def olmo2(c: Config) -> Model:
    """OLMo 2 (arXiv:2501.00656): norms after sublayers, q/k norms over all heads."""
    return _olmo2(c, sliding=lambda i: False)


@family("olmo3")
def olmo3(c: Config) -> Model:
    """OLMo 3 (Allen Institute for AI, 2025): OLMo 2 with a window in three of four layers."""
    return _olmo2(c, sliding=lambda i: (i + 1) % 4 != 0)


def _olmo2(c: Config, sliding: Callable[[int], bool]) -> Model:
    d, bias = dims(c), c.flag("attention_bias")
    ffn, rope = mlp(d.width, c.size("intermediate_size"), activation(c)), rotary(c, d.head_dim)
    mixer = partial(attention, d, rotary=rope, bias=bias, qk_norm=across_heads)
    mixers = windowed(layer_windows(c, d.layers, sliding), mixer)
    return causal_lm(c, d.width, stack(d.width, mixers, ffn, before=False, after=True))


@family("olmoe")
def olmoe(c: Config) -> Model:
    """OLMoE (arXiv:2409.02060): 64 small experts, q/k norms over all heads."""
    d, top_k = dims(c), c.size("num_experts_per_tok")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=across_heads)
    ffn = moe(c, d.width, c.size("num_experts"), top_k, c.size("intermediate_size"))
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, ffn)] * d.layers)


@family("granite")
def granite(c: Config) -> Model:
    """Granite 3: Llama with scalar multipliers."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("granitemoe", "granitemoeshared")
def granitemoe(c: Config) -> Model:
    """Granite 3 MoE, with a shared expert in its `shared` form."""
    d, top_k = dims(c), c.size("num_experts_per_tok")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    shared = c.size("shared_intermediate_size", 0, least=0)
    ffn = moe(c, d.width, c.size("num_local_experts"), top_k, c.size("intermediate_size"), shared=shared)
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, ffn)] * d.layers)


@family("cohere")
def cohere(c: Config) -> Model:
    """Command R: one LayerNorm without bias, parallel residual."""
    d = dims(c)
    norm = layer_norm_of_each_head if c.flag("use_qk_norm") else None
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=norm)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    block = parallel_layer("dense", d.width, mixer, ffn, norm=layer_norm_no_bias)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm_no_bias, tied=True)


@family("cohere2")
def cohere2(c: Config) -> Model:
    """Command R7B and A: three sliding layers with RoPE to one full layer without."""
    d, bias = dims(c), c.flag("attention_bias")
    c.mark_read("use_qk_norm")
    every = c.size("sliding_window_pattern|_sliding_window_pattern", 4)
    ffn, rope = mlp(d.width, c.size("intermediate_size"), activation(c)), rotary(c, d.head_dim)
    windows = layer_windows(c, d.layers, lambda i: (i + 1) % every != 0)

    def mixer(window: int | None) -> Modules:
        return attention(d, rotary=rope if window else 0, bias=bias, window=window)

    mixers = windowed(windows, mixer)
    blocks = [parallel_layer(kind(False, name), d.width, m, ffn, norm=layer_norm_no_bias) for name, m in mixers]
    return causal_lm(c, d.width, blocks, norm=layer_norm_no_bias, tied=True)


@family("glm")
def glm(c: Config) -> Model:
    """GLM-4 9B (arXiv:2406.12793): two KV heads, RoPE on half of each head."""
    return _glm(c, after=False)


@family("glm4")
def glm4(c: Config) -> Model:
    """GLM-4 9B and 32B 0414: GLM-4 with norms on both sides of each sublayer."""
    return _glm(c, after=True)


def _glm(c: Config, *, after: bool) -> Model:
    d, bias = dims(c, head_dim=128), c.flag("attention_bias", True)
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.5), bias=bias, out_bias=False)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, after=after)] * d.layers)


@family("glm4_moe")
def glm4_moe(c: Config) -> Model:
    """GLM-4.5 and 4.6 (arXiv:2508.06471): a few dense layers, then experts with a shared one."""
    d, inner = dims(c, uneven=True), c.size("moe_intermediate_size")
    top_k, shared = c.size("num_experts_per_tok"), inner * c.size("n_shared_experts", least=0)
    norm = per_head if c.flag("use_qk_norm") else None
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.5), bias=c.flag("attention_bias"), out_bias=False, qk_norm=norm)
    experts = moe(c, d.width, c.size("n_routed_experts"), top_k, inner, shared=shared)
    dense, first = mlp(d.width, c.size("intermediate_size"), activation(c)), c.size("first_k_dense_replace", 1, least=0)
    sparse = [i >= first for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, [("", mixer)] * d.layers, dense, experts=experts, sparse=sparse))


@family("ernie4_5")
def ernie(c: Config) -> Model:
    """ERNIE 4.5, dense."""
    d, bias = dims(c, head_dim=128), c.flag("use_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=bias)
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers, tied=True)


@family("ernie4_5_moe")
def ernie_moe(c: Config) -> Model:
    """ERNIE 4.5 MoE: experts in a range of layers, and a learned correction in the router."""
    d, bias, inner = dims(c), c.flag("use_bias"), c.size("moe_intermediate_size")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias)
    dense = mlp(d.width, c.size("intermediate_size"), activation(c), bias=bias)
    top_k, shared = c.size("moe_k"), inner * c.size("moe_num_shared_experts", 0, least=0)
    experts = moe(
        c, d.width, c.size("moe_num_experts"), top_k, inner, shared=shared, shared_bias=bias, correction=True,
        top_k_key="moe_k",
    )  # fmt: skip
    blocks = stack(d.width, [("", mixer)] * d.layers, dense, experts=experts, sparse=_ernie_sparse(c, d.layers))
    return causal_lm(c, d.width, blocks, tied=True, head_bias=bias)


def _ernie_sparse(c: Config, layers: int) -> list[bool]:
    """Whether each layer has experts: every `moe_layer_interval`-th from a first to a last one."""
    first, last = c.size("moe_layer_start_index", 1, least=0), c.size("moe_layer_end_index", -1, least=-1)
    every, end = c.size("moe_layer_interval", 1), layers - 1 if last == -1 else last
    return [(i + 1) % every == 0 and first <= i <= end for i in range(layers)]


@family("hunyuan_v1_dense")
def hunyuan(c: Config) -> Model:
    """Hunyuan, dense: q/k norms on each head. `attention_head_dim` repeats `head_dim`."""
    d, _ = dims(c), c.size("attention_head_dim", None)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("hunyuan_v1_moe")
def hunyuan_moe(c: Config) -> Model:
    """Hunyuan-A13B: experts in every layer with one shared, all of width `intermediate_size`."""
    d, inner, count = dims(c), c.size("intermediate_size"), c.size("num_experts")
    c.size("attention_head_dim", None), c.flag("use_mixed_mlp_moe")
    top_k = c.per_layer_size("moe_topk|num_experts_per_tok", d.layers, 1)
    c.per_layer_size("moe_intermediate_size", d.layers, inner), c.per_layer_size("num_shared_expert", d.layers, 1)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    experts = {k: moe(c, d.width, count, k, inner, shared=inner, top_k_key="moe_topk") for k in set(top_k)}
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, experts[k]) for k in top_k])


@family("minimax_m2")
def minimax_m2(c: Config) -> Model:
    """MiniMax-M2: full attention with q/k norms over all heads, 256 experts."""
    d, top_k = dims(c, head_dim=128), c.size("num_experts_per_tok")
    rope = c.size("rotary_dim", None, most=d.head_dim) or rotary(c, d.head_dim)
    mixer = attention(d, rotary=rope, qk_norm=across_heads)
    ffn = moe(c, d.width, c.size("num_local_experts"), top_k, c.size("intermediate_size"))
    c.per_layer("attn_type_list", d.layers, (1,), [1] * d.layers), c.size("mlp_intermediate_size", None)
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, ffn)] * d.layers)
