"""Decoders that change one part of a known one: biased gates, masks, differential attention, heads as experts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import isqrt

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rope_section, rotary, windowed
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types, moe
from roofline.model.families.blocks.layers import again, causal_lm, layer, stack
from roofline.model.families.blocks.norms import per_head, plain_per_head, rms
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.recurrent import in_heads, mamba, short_conv
from roofline.model.families.blocks.sizes import depth, dims, split
from roofline.model.families.decoders.recurrent.short_convolutions import scaled_stream
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Activation,
    Add,
    Attention,
    ExpertLinear,
    Experts,
    Linear,
    Module,
    Modules,
    Rope,
    Router,
)


# -- biased gates: Beam --------------------------------------------------------------------------------------------
@family("beam")
def beam(c: Config) -> Model:
    """Beam (Reflection AI, model card of Beam-1.0): five sliding layers with RoPE to one full without, gated heads."""
    d, bias, given = dims(c, head_dim=128), c.flag("attention_bias"), rope_section(c).raw
    windows = layer_windows(c, d.layers, lambda i: (i + 1) % 6 != 0 and i != d.layers - 1, assumed=512)

    def mixer(window: int | None) -> Modules:
        kind = "sliding_attention" if window else "full_attention"
        rope = d.head_dim if (given.get(kind) is not None if given else window) else 0
        gates = d.heads * d.head_dim
        *inside, gate, out = attention(d, rotary=rope, bias=bias, qk_norm=per_head, window=window, gates=gates)
        return (*inside, scaled_stream("attention_gate_bias", gates, d.heads), gate, out)

    dense, experts = mlp(d.width, c.size("intermediate_size"), activation(c)), fine_moe(c, d.width)
    sparse, mixers = mlp_layer_types(c, d.layers, 3), windowed(windows, mixer)
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts, sparse=sparse, after=True))


# -- few full layers without RoPE: Flint ---------------------------------------------------------------------------
@family("flint")
def flint(c: Config) -> Model:
    """Flint (Recursive SI, model card of flint): sinks, RoPE on the sliding layers only, an ungated shared expert."""
    d, bias = dims(c, head_dim=128), c.flag("attention_bias")
    full, rope = {0, 1, d.layers - 1, *range(1, d.layers, 4)}, rotary(c, d.head_dim)
    mixer = partial(attention, d, bias=bias, qk_norm=per_head, sinks=True)
    windows = layer_windows(c, d.layers, lambda i: i not in full, assumed=513)
    mixers = windowed(windows, lambda window: mixer(rotary=rope if window else 0, window=window))
    inner, shared = c.size("moe_intermediate_size"), c.size("shared_expert_intermediate_size")
    experts = moe(c, d.width, c.size("num_experts"), c.size("num_experts_per_tok"), inner, shared=shared)
    dense, sparse = mlp(d.width, c.size("intermediate_size"), activation(c)), _flint_sparse(c, d.layers)
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts, sparse=sparse))


def _flint_sparse(c: Config, layers: int) -> list[bool]:
    """Whether each layer has experts: by default all but the first two."""
    listed, step = c.layer_set("mlp_only_layers", layers), c.size("decoder_sparse_step", 1)
    only = (0, 1) if listed is None else listed
    return [i not in only and (i + 1) % step == 0 for i in range(layers)]


# -- dynamic masks: Doge -------------------------------------------------------------------------------------------
@family("doge")
def doge(c: Config) -> Model:
    """Doge (SmallDoge, model card of Doge-320M): each KV head masks all but `keep_window_size` tokens by their values.

    A token's mask value is computed once, when the token is processed, not again for every later token.
    """
    d, bias, window = dims(c), c.flag("attention_bias"), c.size("sliding_window", None)
    select, rope = c.size("keep_window_size", 2048), rotary(c, d.head_dim)
    plain = attention(d, rotary=rope, bias=bias, qk_norm=per_head, window=window)
    mask = (
        Linear(name="dt_proj", inputs=d.kv_heads * d.head_dim, outputs=d.kv_heads, bias=bias, part="attention"),
        scaled_stream("mask_scale", d.kv_heads, d.kv_heads),
    )
    c.mark_read("num_experts", "num_experts_per_tok", "norm_topk_prob")
    mixer = [y for x in plain for y in ((*mask, replace(x, select=select)) if isinstance(x, Attention) else (x,))]
    ffn, scale = _doge_experts(c, d.width) if c.flag("is_moe") else _doge_mlp(c, d.width), partial(_weighted, d.width)
    return causal_lm(c, d.width, [layer("dense", d.width, scale("attn", mixer), scale("ffn", ffn))] * d.layers)


def _weighted(width: int, name: str, modules: Iterable[Module]) -> Modules:
    """The modules, followed by a learned scale of the residual stream to which their output is added."""
    return (*modules, scaled_stream(f"{name}_residual_scale", width, width))


def _doge_mlp(c: Config, width: int) -> Modules:
    return mlp(width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))


def _doge_experts(c: Config, width: int) -> Modules:
    """Experts of one neuron each beside a dense network, found by sums of two keys' scores (arXiv:2407.04153 §2)."""
    count, top_k, act = c.size("num_experts", 16384), c.size("num_experts_per_tok", 64), activation(c)
    keys = isqrt(count)
    if keys * keys < top_k:
        raise c.error("num_experts_per_tok", f"at most {keys * keys}, the pairs of two of {keys} keys")
    experts = Experts(
        name="experts", hidden=width, inner=1, experts=count, top_k=top_k, function=act, gated=False, reference="each"
    )
    add = Add(name="experts_add", width=width)
    return (Router(name="router", inputs=width, experts=2 * keys), experts, *_doge_mlp(c, width), add)


# -- differences of attentions: DiffLlama --------------------------------------------------------------------------
@family("diffllama")
def diffllama(c: Config) -> Model:
    """Llama with differential attention (arXiv:2410.05258): heads in pairs share values and take their difference."""
    d, bias = dims(c), c.flag("attention_bias")
    if d.kv_heads % 2:
        raise c.error("num_key_value_heads", "an even number: two heads share a value")
    width, pair = d.heads * d.head_dim, 2 * d.head_dim
    *inside, core, out = attention(d, rotary=rotary(c, d.head_dim), bias=bias)
    assert isinstance(core, Attention)
    differential = (
        replace(core, v_head_dim=pair, differential=True),
        Activation(name="attention_difference", width=width, function="linear", learned=4 * d.head_dim),
        plain_per_head("attention_norm", d.heads // 2, pair),
    )
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    return causal_lm(c, d.width, [layer("dense", d.width, (*inside, *differential, out), ffn)] * d.layers)


# -- three kinds of layers: LFM3 -----------------------------------------------------------------------------------
@family("lfm3")
def lfm3(c: Config) -> Model:
    """LFM3 (Liquid AI, model card of LFM3-1.7B): LFM2 with sliding layers, gates and norms on both sides."""
    d, kernel, bias = dims(c, head_dim=128), c.size("conv_L_cache", 7), c.flag("conv_bias")
    default = [
        "full_attention" if i % 4 == 2 else "conv" if i % 4 or not i else "sliding_attention" for i in range(d.layers)
    ]
    kinds = c.per_layer("layer_types", d.layers, ("full_attention", "sliding_attention", "conv"), default)
    gates, qkv_bias = d.heads * c.flag("use_attention_gate", True), c.flag("attention_bias")
    mixer = partial(attention, d, bias=qkv_bias, qk_norm=per_head, gates=gates)
    slides = "sliding_attention" in kinds
    window = c.assumed("sliding_window", 256, null=True) if slides else c.size("sliding_window", None)
    full, sliding = (rotary(c, d.head_dim, *each) for each in ((0.5, "full_attention"), (1.0, "sliding_attention")))
    mixers = {
        "full_attention": ("", mixer(rotary=full)),
        "sliding_attention": ("sliding", mixer(rotary=sliding, window=window)),
        "conv": ("conv", short_conv(d.width, kernel, bias)),
    }
    ffn, after = mlp(d.width, c.size("intermediate_size"), "silu"), c.flag("use_sandwich_norm", True)
    return causal_lm(c, d.width, stack(d.width, [mixers[kind] for kind in kinds], ffn, after=after), tied=True)


# -- one shared transformer among Mamba: Zamba ---------------------------------------------------------------------
@family("zamba")
def zamba(c: Config) -> Model:
    """Zamba (arXiv:2405.16712): Mamba layers, and one shared transformer that runs before some of them.

    If weights are not tied, the published code gives each such layer a separate transformer.
    """
    width, layers = c.size("hidden_size"), depth(c)
    every, offset = c.size("attn_layer_period", 6), c.size("attn_layer_offset", 4, least=0)
    default = ["hybrid" if i == 2 or (i > 2 and (i - 3) % every == offset) else "mamba" for i in range(layers)]
    key = "layers_block_type" if c.has("layers_block_type") else "layer_types"
    kinds = c.per_layer(key, layers, ("mamba", "linear_attention", "hybrid"), default)
    plain, shared = layer("mamba", width, _zamba_scan(c, width)), _zamba_transformer(c, width)
    own = (Linear(name="hybrid_proj", inputs=width, outputs=width), Add(name="hybrid_residual", width=width))
    hybrid = Block("hybrid", (*shared, *own, *plain.modules))
    repeat = Block("hybrid again", (*again(shared), *own, *plain.modules))
    shares = c.flag("tie_word_embeddings", True)
    repeats = [shares and "hybrid" in kinds[:i] for i in range(layers)]
    pairs = zip(kinds, repeats, strict=True)
    blocks = [plain if name != "hybrid" else repeat if repeated else hybrid for name, repeated in pairs]
    return causal_lm(c, width, blocks, tied=True)


def _zamba_scan(c: Config, width: int) -> Modules:
    """Mamba whose channels are split into heads with separate projections."""
    heads, inner, state = c.size("n_mamba_heads", 2), c.size("mamba_expand", 2) * width, c.size("mamba_d_state", 16)
    split(c, "n_mamba_heads", inner, heads, "mamba_expand · hidden_size")
    auto = c.raw.get("mamba_dt_rank", "auto") == "auto"
    c.mark_read("mamba_dt_rank", "hidden_mamba_act")
    rank, kernel = ceil_div(width, 16) if auto else c.size("mamba_dt_rank"), c.size("mamba_d_conv", 4)
    conv_bias, bias = c.flag("mamba_conv_bias", True), c.flag("mamba_proj_bias")
    return in_heads(mamba(width, inner, state, rank, kernel, conv_bias=conv_bias, bias=bias), heads)


def _zamba_transformer(c: Config, width: int) -> Modules:
    """Attention over the hidden state concatenated with the embedding, twice as wide, then a feed-forward."""
    wide, heads = 2 * width, c.size("num_attention_heads")
    if c.size("attention_hidden_size", wide) != wide:
        raise c.error("attention_hidden_size", f"twice hidden_size, {wide}")
    head_dim = c.size("attention_head_dim|head_dim", None) or wide // heads
    d = dims(c.with_values(hidden_size=wide, head_dim=head_dim))
    *inside, out = attention(d, rotary=0)
    mixer = (rms("attn_in_norm", wide), *inside, row_product(out.name, heads * head_dim, width))
    ffn = mlp(width, c.size("intermediate_size"), activation(c, default="gelu"))
    return tuple(replace(x, name=f"shared_{x.name}") for x in (*mixer, rms("ffn_norm", width), *ffn))


# -- heads as experts: JetMoE --------------------------------------------------------------------------------------
@family("jetmoe")
def jetmoe(c: Config) -> Model:
    """JetMoE (arXiv:2404.07413): attention has experts too, each with queries and an output for every KV head."""
    width, heads, head_dim = c.size("hidden_size"), c.size("num_key_value_heads"), c.size("kv_channels|head_dim")
    count, top_k = c.size("num_local_experts"), c.size("num_experts_per_tok")
    c.mark_read("num_attention_heads")
    rope, inner, all_heads = rotary(c, head_dim), heads * head_dim, heads * top_k
    experts = partial(ExpertLinear, experts=count, top_k=top_k)
    mixer = (
        Router(name="attn_router", inputs=width, experts=count),
        experts(name="q_experts", inputs=width, outputs=inner),
        column_product("kv_proj", width, 2 * inner, kv=2 * inner, kv_groups=heads),
        Rope(name="rope", heads=all_heads + heads, dims=rope),
        Attention(name="attention", heads=all_heads, kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim),
        experts(name="o_experts", inputs=inner, outputs=width, summed=True),
        scaled_stream("attn_bias", width, width),
    )
    act, ffn_inner = activation(c, "activation_function"), c.size("intermediate_size")
    network = moe(c, width, count, top_k, ffn_inner, act=act, reference="each")
    ffn = (*network, scaled_stream("ffn_bias", width, width))
    return causal_lm(c, width, [layer("moe", width, mixer, ffn)] * depth(c), tied=True)
