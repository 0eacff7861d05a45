"""Gemma 1–4 (arXiv:2403.08295, 2408.00118, 2503.19786): wide heads, tied embedding, GeGLU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import again, causal_lm, kind, layer, stack
from roofline.model.families.blocks.norms import per_head, plain_per_head, rms
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Activation,
    Add,
    Attention,
    Embedding,
    Gate,
    Linear,
    Mix,
    Modules,
    Norm,
    Rope,
)

ACT, GELU = "hidden_activation|hidden_act", "gelu_pytorch_tanh"


@family("gemma")
def gemma(c: Config) -> Model:
    """Gemma 1."""
    d = dims(c, head_dim=256)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, ACT, GELU))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers, tied=True)


@family("gemma2")
def gemma2(c: Config) -> Model:
    """Gemma 2: norms on both sides of each sublayer; every other layer has a sliding window."""
    d, bias = dims(c, head_dim=256), c.flag("attention_bias")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, ACT, GELU))
    windows = layer_windows(c, d.layers, lambda i: i % 2 == 0)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn, after=True), tied=True)


@family("vaultgemma")
def vaultgemma(c: Config) -> Model:
    """VaultGemma (arXiv:2510.15001): Gemma 2 with norms only before each sublayer."""
    d = dims(c, head_dim=256)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, ACT, GELU))
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    windows = layer_windows(c, d.layers, lambda i: i % 2 == 0)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn), tied=True)


@family("gemma3_text")
def gemma3(c: Config) -> Model:
    """Gemma 3: Gemma 2 with q/k norms and five sliding layers to one full. Published configs leave out defaults."""
    d, bias = dims(c, head_dim=256), c.flag("attention_bias")
    every = c.size("sliding_window_pattern|_sliding_window_pattern", 6)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, ACT, GELU))
    windows = layer_windows(c, d.layers, lambda i: (i + 1) % every != 0)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias, qk_norm=per_head)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn, after=True), tied=True)


@dataclass(frozen=True)
class _Kind:
    """Attention of a layer of Gemma 3n and 4.

    `borrowed`: it uses the keys and values of an earlier layer. `same`: keys and values are the same projection.
    """

    window: int | None
    borrowed: bool
    same: bool = False


def _kinds(c: Config, layers: int, every: int, *, same: bool = False, last: bool = False) -> list[_Kind]:
    """Attention of each layer: full at every `every`-th (and at the last if `last`), else sliding; some borrow.

    The last `num_kv_shared_layers` layers borrow keys and values.
    """
    shared = c.size("num_kv_shared_layers", 0, least=0, most=layers - 1)
    if c.get("use_bidirectional_attention") == "vision":
        c.mark_read("use_bidirectional_attention")
    windows = layer_windows(c, layers, lambda i: (i + 1) % every != 0 and not (last and i == layers - 1))
    return [_Kind(w, i >= layers - shared, same and w is None) for i, w in enumerate(windows)]


def _attention(d: Dims, k: _Kind, rope: int, bias: bool) -> Modules:
    """Attention with norms of q, k and (without weight) v; a borrowing layer projects queries only."""
    inner, heads = d.heads * d.head_dim, 0 if k.borrowed else d.kv_heads
    norms = (per_head("k_norm", heads, d.head_dim), plain_per_head("v_norm", heads, d.head_dim)) if heads else ()
    kv = heads * d.head_dim * (1 if k.same else 2)
    return (
        column_product("qkv_proj", d.width, inner + kv, bias, kv=kv, kv_groups=d.kv_heads),
        per_head("q_norm", d.heads, d.head_dim),
        *norms,
        Rope(name="rope", heads=d.heads + heads, dims=rope),
        Attention(
            name="attention", heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=d.head_dim,
            window=k.window, borrowed=k.borrowed,
        ),
        row_product("o_proj", inner, d.width, bias),
    )  # fmt: skip


def _per_layer_embedding(c: Config, d: Dims, inner: int) -> tuple[Modules, Modules]:
    """Per-layer embeddings: a table with `inner` values for each layer, and the modules that add them in a layer."""
    rows, every, act = c.size("vocab_size_per_layer_input", 262144), d.layers * inner, activation(c, ACT, GELU)
    table = (
        Embedding(name="per_layer_embedding", rows=rows, width=every),
        Linear(name="per_layer_model_proj", inputs=d.width, outputs=every, part="embedding"),
        Norm(name="per_layer_norm", width=inner, repeats=d.layers),
        Add(name="per_layer_add", width=every),
    )
    added = (
        Linear(name="per_layer_gate", inputs=d.width, outputs=inner),
        Activation(name="per_layer_act", width=inner, function=act),
        Linear(name="per_layer_proj", inputs=inner, outputs=d.width),
        rms("per_layer_post_norm", d.width),
        Add(name="per_layer_residual", width=d.width),
    )
    return table, added


@family("gemma4_text")
def gemma4(c: Config) -> Model:
    """Gemma 4: wider heads in full layers, per-layer embeddings, borrowed keys and values, experts beside the dense."""
    return _gemma4(c, per_layer_input=256)


@family("gemma4_unified_text")
def gemma4_unified(c: Config) -> Model:
    """Gemma 4 with one network for all modalities: no per-layer embeddings unless the config sets them."""
    return _gemma4(c, per_layer_input=0)


def _gemma4(c: Config, *, per_layer_input: int) -> Model:
    kinds = c.raw.get("layer_types")
    if isinstance(kinds, list) and kinds and kinds[-1] == "sliding_attention":
        c.note(f"the last of {c.field('layer_types')} was not used: the last layer has full attention")
        c = c.with_values(layer_types=[*kinds[:-1], "full_attention"])
    same, bias = c.flag("attention_k_eq_v"), c.flag("attention_bias")
    d, act, wide = dims(c, head_dim=256), activation(c, ACT, GELU), c.flag("use_double_wide_mlp")
    per_layer = c.size("hidden_size_per_layer_input", per_layer_input, least=0)
    table, added = _per_layer_embedding(c, d, per_layer) if per_layer else ((), ())
    c.size("vocab_size_per_layer_input", None)
    experts = _gemma4_experts(c, d, act) if c.flag("enable_moe_block") else ()

    def block(i: int, k: _Kind) -> Block:
        mixer = _gemma4_attention(c, _gemma4_dims(c, d, i, k.window is None), k, bias)
        ffn = mlp(d.width, c.size("intermediate_size") * (2 if wide and k.borrowed else 1), act)
        return _layer(d.width, k, mixer, (*ffn, *experts), sparse=bool(experts), last=added)

    blocks = [block(i, k) for i, k in enumerate(_kinds(c, d.layers, 6, same=same, last=True))]
    return causal_lm(c, d.width, blocks, tied=True, before=table)


def _gemma4_attention(c: Config, d: Dims, k: _Kind, bias: bool) -> Modules:
    """Gemma 4's attention: RoPE on whole heads in sliding layers, on a quarter of each in full ones."""
    layer_type = (1.0, "sliding_attention") if k.window else (0.25, "full_attention")
    return _attention(d, k, rotary(c, d.head_dim, *layer_type), bias)


def _layer(
    width: int, k: _Kind, mixer: Modules, ffn: Modules, *, sparse: bool = False, first: Modules = (), last: Modules = ()
) -> Block:
    """A layer with norms on both sides of each sublayer, between the modules `first` and `last`."""
    name = kind(sparse, "sliding" if k.window else "")
    inside = layer(f"borrowing {name}" if k.borrowed else name, width, mixer, ffn, after=True)
    return Block(inside.name, (*first, *inside.modules, *last))


def _gemma4_dims(c: Config, d: Dims, i: int, full: bool) -> Dims:
    """Attention sizes of layer i: by `per_layer_config`, or the global ones in full layers."""
    if c.has("per_layer_config"):
        listed = c.section("per_layer_config")
        key = next((k for k in listed.raw if k.isdigit() and int(k) == i), "")
        inside = listed.section(key)
        heads, head_dim = inside.size("num_key_value_heads", d.kv_heads), inside.size("head_dim", d.head_dim)
        return replace(d, kv_heads=heads, head_dim=head_dim)
    head_dim, heads = c.size("global_head_dim", 512), c.size("num_global_key_value_heads", d.kv_heads)
    kv_heads = heads if c.flag("attention_k_eq_v") else d.kv_heads
    return replace(d, kv_heads=kv_heads, head_dim=head_dim) if full else d


def _gemma4_experts(c: Config, d: Dims, act: str) -> Modules:
    """Experts beside the dense network, each followed by a norm; the router has a norm and a scale per expert."""
    count, top_k, inner = c.size("num_experts"), c.size("top_k_experts"), c.size("moe_intermediate_size")
    router, experts = moe(c, d.width, count, top_k, inner, act=act, correction=True, top_k_key="top_k_experts")
    before = (rms("dense_norm", d.width), rms("router_norm", d.width), router, rms("experts_norm", d.width))
    return (*before, experts, rms("experts_post_norm", d.width), Add(name="experts_add", width=d.width))


@family("gemma3n_text")
def gemma3n(c: Config) -> Model:
    """Gemma 3n: four alternating streams (arXiv:2301.13310), a low-rank path beside attention, per-layer embeddings."""
    d, act, streams = dims(c, head_dim=256), activation(c, ACT, GELU), c.size("altup_num_inputs", 4)
    rope, bias, rank = rotary(c, d.head_dim), c.flag("attention_bias"), c.size("laurel_rank", 64)
    inner = c.per_layer_size("intermediate_size", d.layers, 16384)
    table, added = _per_layer_embedding(c, d, c.size("hidden_size_per_layer_input", 256))
    spread, predict, correct, gather = _altup(d.width, streams)

    def block(k: _Kind, inner: int) -> Block:
        mixer = (*_laurel(d.width, rank), *_attention(d, k, rope, bias))
        return _layer(d.width, k, mixer, mlp(d.width, inner, act), first=predict, last=(*correct, *added))

    c.mark_read("altup_active_idx", "altup_coef_clip", "altup_correct_scale", "activation_sparsity_pattern")
    blocks = [block(*each) for each in zip(_kinds(c, d.layers, 5), inner, strict=True)]
    return causal_lm(c, d.width, blocks, tied=True, before=(*table, *spread), after=gather)


def _laurel(width: int, rank: int) -> Modules:
    """A low-rank path beside attention (arXiv:2411.07501)."""
    return (
        Linear(name="laurel_left", inputs=width, outputs=rank),
        Linear(name="laurel_right", inputs=rank, outputs=width),
        rms("laurel_norm", width),
        Add(name="laurel_add", width=width),
        Add(name="laurel_residual", width=width),
    )


def _altup(width: int, streams: int) -> tuple[Modules, Modules, Modules, Modules]:
    """Alternating updates: a layer predicts all streams from all, and corrects each by the change in the first.

    A product spreads the embedding over the streams before the layers, and another gathers them after the layers.
    """
    others = (streams - 1) * width
    spread = Linear(name="altup_proj", inputs=width, outputs=others, part="embedding")
    gather = Linear(name="altup_unembed", inputs=others, outputs=others, part="head", groups=max(1, streams - 1))
    router = (rms("altup_norm", width), Linear(name="altup_router", inputs=width, outputs=streams))
    second = tuple(replace(m, name=f"{m.name}_again") for m in again(router))
    predict = (
        *router,
        Linear(name="altup_predict_coefs", inputs=streams, outputs=streams * streams),
        Mix(name="altup_predict", streams=streams, width=width),
        Add(name="altup_predict_residual", width=streams * width),
    )
    correct = (
        *second,
        Linear(name="altup_correct_coefs", inputs=streams, outputs=streams),
        Gate(name="altup_correct", width=streams * width, gates=streams, sigmoid=False),
        Add(name="altup_correct_residual", width=streams * width),
        Activation(name="altup_scale", width=width, function="linear", gated=False, learned=width),
    )
    alone = streams == 1
    return () if alone else (spread,), predict, correct, () if alone else (gather,)
