"""Decoders with experts by many makers: grouped-query attention, full or sliding, and many small experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, pattern_length, rotary, windowed
from roofline.model.families.blocks.feed_forward import ACTIVATIONS, activation, fine_moe, mlp, mlp_layer_types, moe
from roofline.model.families.blocks.layers import causal_lm, kind, layer, parallel_layer, stack
from roofline.model.families.blocks.norms import across_heads, layer_norm_no_bias, per_head, rms
from roofline.model.families.blocks.sizes import Dims, depth, dims
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Modules


@family("dots1")
def dots1(c: Config) -> Model:
    """dots.llm1 (arXiv:2506.05767): q/k norms, a dense layer, then experts with two shared ones."""
    d, first, slide = dims(c), c.size("first_k_dense_replace", 0, least=0), c.size("max_window_layers", 62, least=0)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    mixers = windowed(layer_windows(c, d.layers, lambda i: c.has("sliding_window") and i >= slide), mixer)
    dense, sparse = mlp(d.width, c.size("intermediate_size"), activation(c)), [i >= first for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=fine_moe(c, d.width), sparse=sparse))


@family("exaone_moe")
def exaone_moe(c: Config) -> Model:
    """K-EXAONE: q/k norms, three sliding layers with RoPE to one full without, a dense layer first."""
    d, every, has_window = dims(c), pattern_length(c, 4), c.has("sliding_window")
    windows, rope = layer_windows(c, d.layers, lambda i: has_window and (i + 1) % every != 0), rotary(c, d.head_dim)

    def mixer(window: int | None) -> Modules:
        return attention(d, rotary=rope if window or not has_window else 0, window=window, qk_norm=per_head)

    sparse = mlp_layer_types(c, d.layers, c.size("first_k_dense_replace", 1, least=0))
    dense, experts = mlp(d.width, c.size("intermediate_size"), activation(c)), fine_moe(c, d.width)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), dense, experts=experts, sparse=sparse))


@family("solar_open")
def solar_open(c: Config) -> Model:
    """Solar Open: experts in every layer."""
    d, _ = dims(c, head_dim=128), c.size("intermediate_size", None)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), out_bias=False)
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, fine_moe(c, d.width))] * d.layers)


@family("hy_v3")
def hy_v3(c: Config) -> Model:
    """Hunyuan 3: q/k norms, a dense layer, then experts with a shared one."""
    d, bias = dims(c, head_dim=128), c.flag("mlp_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    dense = mlp(d.width, c.size("intermediate_size"), activation(c), bias=bias)
    experts, sparse = fine_moe(c, d.width, shared_bias=bias), mlp_layer_types(c, d.layers, 1)
    return causal_lm(c, d.width, stack(d.width, [("", mixer)] * d.layers, dense, experts=experts, sparse=sparse))


@family("afmoe")
def afmoe(c: Config) -> Model:
    """Arcee Trinity: gated attention, RoPE on the sliding layers only, norms on both sides, a learned correction."""
    d, bias, every = dims(c, head_dim=128), c.flag("attention_bias"), c.size("global_attn_every_n_layers", 4)
    rope, windows = rotary(c, d.head_dim), layer_windows(c, d.layers, lambda i: (i + 1) % every != 0)
    mixer = partial(attention, d, bias=bias, qk_norm=per_head, gates=d.heads * d.head_dim)
    mixers = windowed(windows, lambda window: mixer(rotary=rope if window else 0, window=window))
    dense, experts = mlp(d.width, c.size("intermediate_size"), activation(c)), fine_moe(c, d.width, correction=True)
    sparse = [i >= c.size("num_dense_layers", 1, least=0) for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts, sparse=sparse, after=True))


@family("mimo_v2_flash", "mimo_v2")
def mimo_v2_flash(c: Config) -> Model:
    """MiMo-V2-Flash (arXiv:2601.02780) and V2.5: sliding layers with sinks, between full ones at a list's places."""
    if c.has("sliding_window_size"):
        c = c.with_values(sliding_window=c.size("sliding_window_size") + 1)
    c.mark_read("swa_rope_theta", "attention_chunk_size", "layernorm_epsilon", "attention_projection_layout")
    if c.size("n_shared_experts", 0, least=0):
        c.note(f"{c.field('n_shared_experts')} was not used: this architecture has no shared experts")
    c = c.with_values(n_shared_experts=0)
    windows, mixers = _mimo_windows(c, depth(c)), {slides: _mimo_attention(c, slides) for slides in (False, True)}
    dense, sparse = mlp(c.size("hidden_size"), c.size("intermediate_size"), activation(c)), _mimo_sparse(c, depth(c))
    layers = windowed(windows, lambda window: mixers[window is not None](window=window))
    width, experts = c.size("hidden_size"), fine_moe(c, c.size("hidden_size"))
    return causal_lm(c, width, stack(width, layers, dense, experts=experts, sparse=sparse))


def _mimo_windows(c: Config, layers: int) -> list[int | None]:
    """Window of each layer: by `layer_types`, or by `hybrid_layer_pattern`, in which 1 is a sliding layer."""
    pattern = [int(i != 0 and (i + 1) % 6 != 0) for i in range(layers)]
    listed = c.per_layer("hybrid_layer_pattern", layers, (0, 1), pattern)
    return layer_windows(c, layers, lambda i: listed[i] == 1, assumed=129)


def _mimo_sparse(c: Config, layers: int) -> list[bool]:
    """Whether each layer has experts: by `mlp_layer_types`, or by a list `moe_layer_freq`, else all but the first."""
    if not isinstance(c.raw.get("moe_layer_freq"), list):
        return mlp_layer_types(c, layers, 1)
    return [each == 1 for each in c.per_layer("moe_layer_freq", layers, (0, 1))]


def _mimo_attention(c: Config, slides: bool) -> Callable[..., Modules]:
    """Attention of full or sliding layers, the latter with separate sizes (`swa_*`); twice the KV heads by default."""
    d, v = dims(c, head_dim=192), c.assumed("v_head_dim", 128)
    sinks = c.flag("add_swa_attention_sink_bias", True), c.flag("add_full_attention_sink_bias")
    own = c.size("swa_head_dim", d.head_dim), c.size("swa_v_head_dim", v)
    heads, kv_heads = c.size("swa_num_attention_heads", d.heads), c.size("swa_num_key_value_heads", 2 * d.kv_heads)
    if heads % kv_heads:
        raise c.error("swa_num_key_value_heads", f"a divisor of the {heads} query heads of a sliding layer")
    sizes = replace(d, heads=heads, kv_heads=kv_heads, head_dim=own[0]) if slides else d
    rope = rotary(c, sizes.head_dim, 0.334, "sliding_attention" if slides else "full_attention")
    return partial(
        attention, sizes, rotary=rope, bias=c.flag("attention_bias"), out_bias=False, v_dim=own[1] if slides else v,
        sinks=sinks[0] if slides else sinks[1],
    )  # fmt: skip


@family("flex_olmo")
def flex_olmo(c: Config) -> Model:
    """FlexOlmo (arXiv:2507.07024): norms after sublayers, q/k norms over all heads, a few wide experts."""
    d, top_k = dims(c), c.size("num_experts_per_tok", 5)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=across_heads)
    ffn = moe(c, d.width, c.size("num_experts|num_local_experts"), top_k, c.size("intermediate_size"))
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, ffn, before=False, after=True)] * d.layers)


@family("cohere2_moe")
def cohere2_moe(c: Config) -> Model:
    """Command with experts: parallel residual, three sliding layers with RoPE to one full without."""
    d, bias, inner = dims(c, head_dim=128), c.flag("attention_bias"), c.size("intermediate_size")
    first, norm = c.size("first_k_dense_replace", 0, least=0), rms if c.has("rms_norm_eps") else layer_norm_no_bias
    dense = mlp(d.width, c.size("prefix_dense_intermediate_size", inner), activation(c))
    shared, top_k = inner * c.size("num_shared_experts", 0, least=0), c.size("num_experts_per_tok")
    experts = moe(c, d.width, c.size("num_experts"), top_k, inner, shared=shared)
    sparse = mlp_layer_types(c, d.layers, first)
    mixers = _cohere2_mixers(c, d, bias, first, sparse)
    pairs = zip(sparse, mixers, strict=True)
    blocks = [parallel_layer(kind(s, name), d.width, m, experts if s else dense, norm=norm) for s, (name, m) in pairs]
    return causal_lm(c, d.width, blocks, norm=norm, tied=True)


def _cohere2_mixers(c: Config, d: Dims, bias: bool, first: int, sparse: list[bool]) -> list[tuple[str, Modules]]:
    """Mixers: sliding layers have RoPE, and so have dense ones; the `first` layers have a separate pattern."""
    every, always = pattern_length(c, 4), c.size("prefix_dense_sliding_window_pattern", 1)
    windows = layer_windows(c, d.layers, lambda i: (i + 1) % always != 0 if i < first else (i + 1 - first) % every != 0)

    def mixer(window: int | None, experts: bool) -> tuple[str, Modules]:
        rope = rotary(c, d.head_dim) if window or (not experts and always == 1) else 0
        return "sliding" if window else "", attention(d, rotary=rope, bias=bias, window=window)

    return [mixer(*layer) for layer in zip(windows, sparse, strict=True)]


@family("mellum")
def mellum(c: Config) -> Model:
    """Mellum 2: q/k norms, experts without a shared one."""
    d, windows = dims(c, head_dim=128), layer_windows(c, depth(c), lambda i: False, assumed=1024)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    mixers = windowed(windows, mixer)
    dense, sparse = mlp(d.width, c.size("intermediate_size"), activation(c)), mlp_layer_types(c, d.layers, 0)
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=fine_moe(c, d.width), sparse=sparse))


@family("laguna")
def laguna(c: Config) -> Model:
    """Laguna: gated attention, a number of heads per layer, a learned correction in the router."""
    d, bias = dims(c, head_dim=128), c.flag("attention_bias")
    windows, gates = layer_windows(c, d.layers, lambda i: False, assumed=512), _laguna_gates(c, d.head_dim)
    inner, shared = c.size("moe_intermediate_size"), c.size("shared_expert_intermediate_size")
    top_k, dense = c.size("num_experts_per_tok"), mlp(d.width, c.size("intermediate_size"), activation(c))
    experts = moe(c, d.width, c.size("num_experts"), top_k, inner, shared=shared, correction=True)

    def block(heads: int, sparse: bool, window: int | None) -> Block:
        rope = rotary(c, d.head_dim, *((1.0, "sliding_attention") if window else (0.5, "full_attention")))
        mixer = partial(attention, replace(d, heads=heads), qk_norm=per_head, gates=heads * gates)
        name = kind(sparse, "sliding" if window else "") + (f" of {heads} heads" if heads != d.heads else "")
        return layer(name, d.width, mixer(rotary=rope, bias=bias, window=window), experts if sparse else dense)

    layers = zip(_laguna_heads(c, d), mlp_layer_types(c, d.layers, 1), windows, strict=True)
    return causal_lm(c, d.width, [block(*each) for each in layers])


def _laguna_gates(c: Config, head_dim: int) -> int:
    """Output gates per head: one, or one for each of its values."""
    _, gating = c.value("gating", True)
    if gating not in (True, "per-head", "per-element"):
        raise c.error("gating", "true, per-head or per-element")
    return head_dim if gating == "per-element" else 1


def _laguna_heads(c: Config, d: Dims) -> list[int]:
    """Query heads of each layer; the number of KV heads is the same in all."""
    heads = c.per_layer_size("num_attention_heads_per_layer", d.layers, d.heads)
    if any(n % d.kv_heads for n in heads):
        raise c.error("num_attention_heads_per_layer", f"multiples of num_key_value_heads = {d.kv_heads}")
    return heads


@family("granitemoe_swa")
def granitemoe_swa(c: Config) -> Model:
    """Granite MoE with attention sinks, three sliding layers after each full one."""
    d, top_k, shared = dims(c), c.size("num_experts_per_tok"), c.size("shared_intermediate_size", 0, least=0)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), sinks=True)
    ffn = moe(c, d.width, c.size("num_local_experts"), top_k, c.size("intermediate_size"), shared=shared)
    windows = layer_windows(c, d.layers, lambda i: i % 4 != 0, assumed=128)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), experts=ffn))


@family("kolibri1")
def kolibri1(c: Config) -> Model:
    """Kolibri 1: four sliding layers to one full, q/k norms, norms on both sides of sublayers, one shared expert."""
    d, inner, top_k = dims(c, head_dim=128), c.size("moe_intermediate_size"), c.size("num_experts_per_tok")
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), qk_norm=per_head)
    shared, count = c.size("shared_expert_intermediate_size"), c.size("num_local_experts|num_experts")
    ffn = moe(c, d.width, count, top_k, inner, shared=shared)
    windows = layer_windows(c, d.layers, lambda i: (i + 1) % 5 != 0, assumed=513)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), experts=ffn, after=True))


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
    attn, ffn = c.section("attn_config"), c.section("ffn_config")
    c = c.with_values(num_key_value_heads=attn.size("kv_n_heads", 1))
    d, act = dims(c), _dbrx_activation(ffn)
    rope, top_k = rotary(c, d.head_dim), ffn.size("moe_top_k", 1)
    count, inner = ffn.size("moe_num_experts", 4), ffn.size("ffn_hidden_size", 3584)
    experts = moe(c, d.width, count, top_k, inner, act=act, reference="each")
    block = layer("moe", d.width, attention(d, rotary=rope), experts, norm=layer_norm_no_bias)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm_no_bias)


def _dbrx_activation(ffn: Config) -> str:
    """Name of the activation in `ffn_act_fn`, which is an object or a name."""
    if isinstance(ffn.raw.get("ffn_act_fn"), str):
        return activation(ffn, "ffn_act_fn")
    return ffn.section("ffn_act_fn").text("name", "silu", ACTIVATIONS)
