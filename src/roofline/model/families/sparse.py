"""Decoders with experts by many makers: grouped-query attention, full or sliding, and DeepSeek's kind of experts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roofline.model.config import Config
from roofline.model.families.parts import (
    ACTIVATIONS,
    Modules,
    across_heads,
    attention,
    causal_lm,
    depth,
    dims,
    fine_moe,
    function,
    kind,
    layer,
    layer_norm_no_bias,
    mlp,
    mlp_layer_types,
    moe,
    parallel_layer,
    pattern_length,
    per_head,
    rms,
    rotary,
    stack,
    windows,
)
from roofline.model.families.registry import family
from roofline.model.model import Model


@family("dots1")
def dots1(c: Config) -> Model:
    """dots.llm1 (arXiv:2506.05767): q/k norms, a dense layer, then experts with two shared ones."""
    d, first, slide = dims(c), c.size("first_k_dense_replace", 0, least=0), c.size("max_window_layers", 62, least=0)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    slides = windows(c, d.layers, lambda i: c.has("sliding_window") and i >= slide)
    dense, sparse = mlp(d.width, c.size("intermediate_size"), function(c)), [i >= first for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, slides, mixer, dense, experts=fine_moe(c, d.width), sparse=sparse))


@family("exaone_moe")
def exaone_moe(c: Config) -> Model:
    """K-EXAONE: q/k norms, three sliding layers with RoPE to one full without, a dense layer first."""
    d, every, some = dims(c), pattern_length(c, 4), c.has("sliding_window")
    slides, turned = windows(c, d.layers, lambda i: some and (i + 1) % every != 0), rotary(c, d.head_dim)

    def mixer(window: int | None) -> Modules:
        return attention(d, rotary=turned if window or not some else 0, window=window, qk_norm=per_head)

    sparse = mlp_layer_types(c, d.layers, c.size("first_k_dense_replace", 1, least=0))
    dense, experts = mlp(d.width, c.size("intermediate_size"), function(c)), fine_moe(c, d.width)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, dense, experts=experts, sparse=sparse))


@family("solar_open")
def solar_open(c: Config) -> Model:
    """Solar Open: experts on every layer."""
    d, _ = dims(c, head_dim=128), c.size("intermediate_size", None)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), out_bias=False)
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, fine_moe(c, d.width))] * d.layers)


@family("hy_v3")
def hy_v3(c: Config) -> Model:
    """Hunyuan 3: q/k norms, a dense layer, then experts with a shared one."""
    d, bias = dims(c, head_dim=128), c.flag("mlp_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    dense = mlp(d.width, c.size("intermediate_size"), function(c), bias=bias)
    experts, sparse = fine_moe(c, d.width, shared_bias=bias), mlp_layer_types(c, d.layers, 1)
    return causal_lm(c, d.width, [layer(kind(s), d.width, mixer, experts if s else dense) for s in sparse])


@family("afmoe")
def afmoe(c: Config) -> Model:
    """Arcee Trinity: gated attention, RoPE on the sliding layers only, norms on both sides, a learned correction."""
    d, bias, every = dims(c, head_dim=128), c.flag("attention_bias"), c.size("global_attn_every_n_layers", 4)
    turned, slides = rotary(c, d.head_dim), windows(c, d.layers, lambda i: (i + 1) % every != 0)

    def mixer(window: int | None) -> Modules:
        turn, gates = turned if window else 0, d.heads * d.head_dim
        return attention(d, rotary=turn, bias=bias, qk_norm=per_head, gates=gates, window=window)

    dense, experts = mlp(d.width, c.size("intermediate_size"), function(c)), fine_moe(c, d.width, correction=True)
    sparse = [i >= c.size("num_dense_layers", 1, least=0) for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, slides, mixer, dense, experts=experts, sparse=sparse, after=True))


@family("mimo_v2_flash")
def mimo_v2_flash(c: Config) -> Model:
    """MiMo-V2-Flash (arXiv:2601.02780): five sliding layers, with sinks and twice the key heads, to one full."""
    if c.has("sliding_window_size"):
        c.raw = {**c.raw, "sliding_window": c.size("sliding_window_size") + 1}
    d, bias, v = dims(c, head_dim=192), c.flag("attention_bias"), c.assumed("v_head_dim", 128)
    wide = replace(d, kv_heads=2 * d.kv_heads)
    slides = windows(c, d.layers, lambda i: i != 0 and (i + 1) % 6 != 0, assumed=129)

    def mixer(window: int | None) -> Modules:
        turn = rotary(c, d.head_dim, 0.334, "sliding_attention" if window else "full_attention")
        sizes, sinks = wide if window else d, window is not None
        return attention(sizes, rotary=turn, bias=bias, out_bias=False, v_dim=v, sinks=sinks, window=window)

    dense, sparse = mlp(d.width, c.size("intermediate_size"), function(c)), mlp_layer_types(c, d.layers, 1)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, dense, experts=fine_moe(c, d.width), sparse=sparse))


@family("flex_olmo")
def flex_olmo(c: Config) -> Model:
    """FlexOlmo (arXiv:2507.07024): norms after, q/k norms over all heads, a few wide experts."""
    d, top_k = dims(c), c.size("num_experts_per_tok", 5)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=across_heads)
    ffn = moe(c, d.width, c.size("num_experts|num_local_experts"), top_k, c.size("intermediate_size"))
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, ffn, before=False, after=True)] * d.layers)


@family("cohere2_moe")
def cohere2_moe(c: Config) -> Model:
    """Command with experts: parallel residual, three sliding layers with RoPE to one full without."""
    d, bias, inner = dims(c, head_dim=128), c.flag("attention_bias"), c.size("intermediate_size")
    first, norm = c.size("first_k_dense_replace", 0, least=0), rms if c.has("rms_norm_eps") else layer_norm_no_bias
    dense = mlp(d.width, c.size("prefix_dense_intermediate_size", inner), function(c))
    shared, top_k = inner * c.size("num_shared_experts", 0, least=0), c.size("num_experts_per_tok")
    experts = moe(c, d.width, c.size("num_experts"), top_k, inner, shared=shared)
    sparse = mlp_layer_types(c, d.layers, first)
    every, always = pattern_length(c, 4), c.size("prefix_dense_sliding_window_pattern", 1)
    slides = windows(c, d.layers, lambda i: (i + 1) % always != 0 if i < first else (i + 1 - first) % every != 0)
    turns = [rotary(c, d.head_dim) if w or (not s and always == 1) else 0 for w, s in zip(slides, sparse, strict=True)]
    mixers = [attention(d, rotary=t, bias=bias, window=w) for t, w in zip(turns, slides, strict=True)]
    layers = zip(sparse, slides, mixers, strict=True)
    blocks = [parallel_layer(kind(s, w), d.width, m, experts if s else dense, norm=norm) for s, w, m in layers]
    return causal_lm(c, d.width, blocks, norm=norm, tied=True)


@family("mellum")
def mellum(c: Config) -> Model:
    """Mellum 2: q/k norms, experts without a shared one."""
    d, slides = dims(c, head_dim=128), windows(c, depth(c), lambda i: False, assumed=1024)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    dense, sparse = mlp(d.width, c.size("intermediate_size"), function(c)), mlp_layer_types(c, d.layers, 0)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, dense, experts=fine_moe(c, d.width), sparse=sparse))


@family("laguna")
def laguna(c: Config) -> Model:
    """Laguna: gated attention with a number of heads for each layer, a learned correction in the router."""
    d, bias = dims(c, head_dim=128), c.flag("attention_bias")
    slides = windows(c, d.layers, lambda i: False, assumed=512)
    _, gating = c.value("gating", True)
    if gating not in (True, "per-head", "per-element"):
        raise c.error("gating", "true, per-head or per-element")

    def mixer(heads: int, window: int | None) -> Modules:
        kind_of_rope = (1.0, "sliding_attention") if window else (0.5, "full_attention")
        gates, sizes = heads * (d.head_dim if gating == "per-element" else 1), replace(d, heads=heads)
        turn = rotary(c, d.head_dim, *kind_of_rope)
        return attention(sizes, rotary=turn, bias=bias, qk_norm=per_head, gates=gates, window=window)

    inner, shared = c.size("moe_intermediate_size"), c.size("shared_expert_intermediate_size")
    top_k, dense = c.size("num_experts_per_tok"), mlp(d.width, c.size("intermediate_size"), function(c))
    experts = moe(c, d.width, c.size("num_experts"), top_k, inner, shared=shared, correction=True)
    heads = c.per_layer_size("num_attention_heads_per_layer", d.layers, d.heads)
    if any(n % d.kv_heads for n in heads):
        raise c.error("num_attention_heads_per_layer", f"multiples of num_key_value_heads = {d.kv_heads}")
    layers = zip(mlp_layer_types(c, d.layers, 1), slides, heads, strict=True)
    names = {n: "" if n == d.heads else f" of {n} heads" for n in heads}
    blocks = [layer(kind(s, w) + names[n], d.width, mixer(n, w), experts if s else dense) for s, w, n in layers]
    return causal_lm(c, d.width, blocks)


@family("granitemoe_swa")
def granitemoe_swa(c: Config) -> Model:
    """Granite MoE with attention sinks, three sliding layers after each full one."""
    d, top_k, shared = dims(c), c.size("num_experts_per_tok"), c.size("shared_intermediate_size", 0, least=0)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), sinks=True)
    ffn = moe(c, d.width, c.size("num_local_experts"), top_k, c.size("intermediate_size"), shared=shared)
    slides = windows(c, d.layers, lambda i: i % 4 != 0, assumed=128)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, experts=ffn))


@family("kolibri1")
def kolibri1(c: Config) -> Model:
    """Kolibri 1: four sliding layers to one full, q/k norms, norms on both sides, one shared expert."""
    d, inner, top_k = dims(c, head_dim=128), c.size("moe_intermediate_size"), c.size("num_experts_per_tok")
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), qk_norm=per_head)
    shared, count = c.size("shared_expert_intermediate_size"), c.size("num_local_experts|num_experts")
    ffn = moe(c, d.width, count, top_k, inner, shared=shared)
    slides = windows(c, d.layers, lambda i: (i + 1) % 5 != 0, assumed=513)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, experts=ffn, after=True))


@family("aria_text")
def aria(c: Config) -> Model:
    """Aria's language model (arXiv:2410.05993): experts with two shared ones, all of the same width."""
    d, inner, count = dims(c), c.size("intermediate_size"), c.size("moe_num_experts")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    shared, bias = inner * c.size("moe_num_shared_experts"), c.flag("mlp_bias")
    ffn = moe(c, d.width, count, c.size("moe_topk"), inner, shared=shared, shared_bias=bias, top_k_key="moe_topk")
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, ffn)] * d.layers)


@family("dbrx")
def dbrx(c: Config) -> Model:
    """DBRX (Databricks, 2024): sixteen experts, LayerNorm without bias."""
    inside, ffn = c.section("attn_config"), c.section("ffn_config")
    c.raw = {**c.raw, "num_key_value_heads": inside.size("kv_n_heads", 1)}
    d, act = dims(c), ffn.section("ffn_act_fn").text("name", "silu", ACTIVATIONS)
    turn, top_k = rotary(c, d.head_dim), ffn.size("moe_top_k", 1)
    count, inner = ffn.size("moe_num_experts", 4), ffn.size("ffn_hidden_size", 3584)
    experts = moe(c, d.width, count, top_k, inner, act=act, reference="each")
    block = layer("moe", d.width, attention(d, rotary=turn), experts, norm=layer_norm_no_bias)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm_no_bias)
