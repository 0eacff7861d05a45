"""Attention whose queries, keys and values pass through short convolutions: ZAYA, Inkling and Inkling 2."""

from __future__ import annotations

from dataclasses import replace

from roofline.declared.numbers.maths import ceil_div
from roofline.declared.question import Settings
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import rotary
from roofline.model.families.blocks.feed_forward import activation, mlp, mlp_layer_types, moe
from roofline.model.families.blocks.layers import causal_lm, layer, stack, untied
from roofline.model.families.blocks.norms import per_head, plain_per_head, rms
from roofline.model.families.blocks.projections import column_product, replicated_product, row_product
from roofline.model.families.blocks.sizes import Dims, depth, dims
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Activation,
    Add,
    Attention,
    Conv,
    Delay,
    DepthAttention,
    Experts,
    Gate,
    Modules,
    Norm,
    RelativeBias,
    Rope,
    Router,
)

LAYER_TYPES = ("hybrid", "hybrid_sliding")


def scaled_stream(name: str, width: int, learned: int) -> Activation:
    """Product of the hidden state and learned values."""
    return Activation(name=name, width=width, function="linear", gated=False, learned=learned)


# -- ZAYA ----------------------------------------------------------------------------------------------------------
@family("zaya")
def zaya(c: Config) -> Model:
    """ZAYA1 (arXiv:2511.17127): convolved attention in a narrow space, and experts chosen by a small network.

    The router has one more choice than there are experts, which skips the layer; its tokens are counted as the
    experts', as they run in the published code.
    """
    d, inner = dims(c, head_dim=128), c.size("router_hidden_size", 256)
    window, bias = c.size("sliding_window", None), c.flag("attention_bias")
    kinds = c.per_layer("layer_types", d.layers, LAYER_TYPES, ["hybrid"] * d.layers)
    if window is None and "hybrid_sliding" in kinds:
        raise c.error("sliding_window", "the window of the hybrid_sliding layers, in tokens")
    mixers = {kind: _convolved(c, d, kind, window if kind == "hybrid_sliding" else None, bias) for kind in set(kinds)}
    later, first = (_zaya_experts(c, d.width, inner, carries=carries) for carries in (True, False))
    blocks = [layer(kind, d.width, mixers[kind], later if i else first) for i, kind in enumerate(kinds)]
    start = scaled_stream("embedding_scale", d.width, 2 * d.width)
    head_bias = c.flag("lm_head_bias")
    return causal_lm(c, d.width, map(_scaled, blocks), tied=True, head_bias=head_bias, before=(start,))


def _scaled(block: Block) -> Block:
    """The layer with learned vectors on both inputs of its residual sums."""
    residual = ("attn_residual", "ffn_residual")
    modules = (replace(x, scaled=True) if isinstance(x, Add) and x.name in residual else x for x in block.modules)
    return Block(block.name, tuple(modules))


def _convolved(c: Config, d: Dims, kind: str, window: int | None, bias: bool) -> Modules:
    """Compressed convolutional attention (arXiv:2510.04476 §3).

    Queries and keys pass through a convolution within channels and one within heads, their mean is added to both, and
    half of each value comes from the previous token.
    """
    queries, keys = d.heads * d.head_dim, d.kv_heads * d.head_dim
    shared: Settings = {"channels": queries + keys, "bias": True, "kv": keys, "kv_groups": d.kv_heads}
    first, second = c.size("cca_time0", 2), c.size("cca_time1", 2)
    return (
        column_product("qkv_proj", d.width, queries + 2 * keys, bias, kv=2 * keys, kv_groups=d.kv_heads),
        Add(name="qk_mean", width=queries),
        Conv(name="conv", kernel=first, padding=second - 1, **shared),
        Conv(name="head_conv", kernel=second, width=d.head_dim, padding=0, **shared),
        Add(name="q_add", width=queries),
        Add(name="k_add", width=keys),
        Delay(name="value_delay", width=keys // 2, inputs=d.width, kv_groups=d.kv_heads),
        plain_per_head("q_norm", d.heads, d.head_dim),
        plain_per_head("k_norm", d.kv_heads, d.head_dim),
        scaled_stream("k_scale", keys, d.kv_heads),
        Rope(name="rope", heads=d.heads + d.kv_heads, dims=rotary(c, d.head_dim, 0.5, kind)),
        Attention(
            name="attention", heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=d.head_dim,
            window=window,
        ),
        row_product("o_proj", queries, d.width, bias),
    )  # fmt: skip


def _zaya_experts(c: Config, width: int, inner: int, *, carries: bool) -> Modules:
    """Experts chosen by a network of width `inner`; `carries`: it adds the router state of the previous layer."""
    experts = c.size("num_experts", 16)
    before = (scaled_stream("router_scale", inner, inner), Add(name="router_add", width=inner)) if carries else ()
    return (
        replace(replicated_product("router_down_proj", width, inner, True), part="router"),
        *before,
        rms("router_norm", inner),
        *(x for i in (1, 2) for x in _router_layer(f"router_{i}", inner)),
        Router(name="router", inputs=inner, experts=experts + 1),
        Experts(
            name="experts", hidden=width, inner=c.size("moe_intermediate_size"), experts=experts,
            top_k=c.size("num_experts_per_tok", 1, most=experts), function=activation(c),
        ),
    )  # fmt: skip


def _router_layer(name: str, width: int) -> Modules:
    return (
        replace(replicated_product(f"{name}_proj", width, width, True), part="router"),
        Activation(name=f"{name}_act", width=width, function="gelu", gated=False),
    )


# -- Inkling -------------------------------------------------------------------------------------------------------
@family("inkling_text")
def inkling(c: Config) -> Model:
    """Inkling (Thinking Machines, 2026): no RoPE but a bias for each distance, and short convolutions throughout."""
    c, kernel = untied(c), c.size("conv_kernel_size|sconv_kernel_size", 4)
    width, layers = c.size("hidden_size"), depth(c)
    wide, inner = _inkling_widths(c)
    dense = mlp(width, wide, activation(c))
    mixers = [(kind, _relative_attention(c, width, kind, kernel)) for kind in _inkling_kinds(c, layers)]
    sparse = mlp_layer_types(c, layers, c.size("dense_mlp_idx", 0, least=0))
    dense = (*dense, scaled_stream("ffn_scale", width, 1), *_residual_conv("ffn_conv", width, kernel))
    experts = (*_inkling_experts(c, width, inner), *_residual_conv("ffn_conv", width, kernel))
    c.mark_read(*_INKLING_SCALES, *_INKLING_KINDS)
    blocks = stack(width, mixers, dense, experts=experts, sparse=sparse)
    return causal_lm(c, width, blocks, before=(rms("embedding_norm", width),))


def _inkling_widths(c: Config) -> tuple[int, int]:
    """Widths of the dense feed-forward and of an expert, under either of two pairs of names.

    Checkpoints call them dense_intermediate_size and intermediate_size.
    """
    c.size("moe_intermediate_size", None)
    if c.has("dense_intermediate_size"):
        return c.size("dense_intermediate_size"), c.size("intermediate_size")
    return c.size("intermediate_size"), c.size("moe_intermediate_size")


def _inkling_kinds(c: Config, layers: int) -> list[str]:
    """Attention type of each layer: one full layer in six, or all but those in `local_layer_ids`."""
    local = c.layer_set("local_layer_ids", layers)
    sliding = [(i + 1) % 6 != 0 if local is None else i in local for i in range(layers)]
    return c.per_layer("layer_types", layers, LAYER_TYPES, [LAYER_TYPES[slides] for slides in sliding])


def _residual_conv(name: str, channels: int, kernel: int, kv_groups: int = 0, dynamic: int = 0) -> Modules:
    """Residual convolution: x + conv(x)."""
    kv: Settings = {"kv": channels, "kv_groups": kv_groups} if kv_groups else {}
    return (
        Conv(name=name, channels=channels, kernel=kernel, dynamic=dynamic, **kv),
        Add(name=f"{name}_add", width=channels),
    )


def _relative_attention(c: Config, width: int, kind: str, kernel: int) -> Modules:
    """Attention with convolved keys and values, norms of each head, and a bias per distance computed from the token."""
    slides, prefix = kind == "hybrid_sliding", "swa_" if kind == "hybrid_sliding" else ""
    heads, kv_heads = c.size(f"{prefix}num_attention_heads"), c.size(f"{prefix}num_key_value_heads")
    window, dim, relative = c.size("sliding_window_size|sliding_window"), c.size(f"{prefix}head_dim"), c.size("d_rel")
    extent, queries, keys = window if slides else c.size("rel_extent"), heads * dim, kv_heads * dim
    return (
        column_product("qkv_proj", width, queries + heads * relative + 2 * keys, kv=2 * keys, kv_groups=kv_heads),
        *_residual_conv("kv_conv", 2 * keys, kernel, kv_heads),
        per_head("q_norm", heads, dim),
        per_head("k_norm", kv_heads, dim),
        RelativeBias(name="relative_bias", heads=heads, dim=relative, extent=extent),
        Attention(
            name="attention", heads=heads, kv_heads=kv_heads, head_dim=dim, v_head_dim=dim,
            window=window if slides else None,
        ),
        row_product("o_proj", queries, width),
        *_residual_conv("attn_conv", width, kernel),
    )  # fmt: skip


def _inkling_experts(c: Config, width: int, inner: int) -> Modules:
    """Inkling's experts: the router weighs the shared experts together with the chosen ones."""
    experts, shared = c.size("n_routed_experts|num_local_experts"), c.size("n_shared_experts", 2)
    act, top_k = activation(c), c.size("num_experts_per_tok", 6, most=experts)
    weigh = Gate(name="shared_weights", width=shared * inner, gates=shared, sigmoid=False)
    return (
        Router(name="router", inputs=width, experts=experts + shared),
        scaled_stream("router_scale", top_k + shared, 1),
        Experts(name="experts", hidden=width, inner=inner, experts=experts, top_k=top_k, function=act),
        *mlp(width, shared * inner, act, prefix="shared_", middle=(weigh,)),
        Add(name="shared_add", width=width),
    )


# -- Inkling 2 -----------------------------------------------------------------------------------------------------
@family("inkling2_text")
def inkling2(c: Config) -> Model:
    """Inkling 2 (Thinking Machines, 2026): a layer attends to the outputs of earlier blocks of layers."""
    c, kernel = untied(c), c.size("conv_kernel_size|sconv_kernel_size", 4)
    width, layers, every = c.size("hidden_size"), depth(c), c.size("n_layers_per_attn_res_block", 6)
    kinds = c.per_layer("layer_types", layers, LAYER_TYPES, [LAYER_TYPES[(i + 1) % 6 != 0] for i in range(layers)])
    mixers = {kind: _clipped_attention(c, width, kind, kernel) for kind in set(kinds)}
    experts, top_k = c.size("n_routed_experts|num_local_experts"), c.size("num_experts_per_tok", 8)
    ffn = (
        *moe(c, width, experts, top_k, c.size("moe_intermediate_size|intermediate_size")),
        *_residual_conv("ffn_conv", width, kernel),
    )
    blocks = [_chosen_layer(i, every, width, kind, mixers[kind], ffn) for i, kind in enumerate(kinds)]
    c.mark_read(*_INKLING_SCALES, *_INKLING_KINDS)
    last = _among("final_input", width, layers, every)
    return causal_lm(c, width, blocks, before=(rms("embedding_norm", width),), after=last)


def _among(name: str, width: int, layer: int, every: int, queries: int = 1) -> Modules:
    """Attention over the outputs of blocks of layers before a layer, and of its own block."""
    states = ceil_div(layer, every) + 1
    norm = Norm(name=f"{name}_norm", width=width, repeats=states, weight=False)
    return norm, DepthAttention(name=name, width=width, states=states, queries=queries)


def _chosen_layer(i: int, every: int, width: int, kind: str, mixer: Modules, ffn: Modules) -> Block:
    """Layer `i`. Every `every`-th layer starts a block and adds nothing to the hidden state before it.

    A full layer attends separately for queries, keys and values.
    """
    streams = ("attn",) if kind == "hybrid_sliding" else ("q_input", "k_input", "v_input")
    before = _among("attn_input", width, i, every, len(streams)) if i else ()
    added = () if i % every == 0 else (Add(name="attn_residual", width=width),)
    return Block(kind, (
        *before, *(rms(f"{name}_norm", width) for name in streams), *mixer, *added,
        *_among("ffn_input", width, i + 1, every), rms("ffn_norm", width), *ffn, Add(name="ffn_residual", width=width),
    ))  # fmt: skip


def _clipped_attention(c: Config, width: int, kind: str, kernel: int) -> Modules:
    """Inkling's attention with clipped lengths of queries, keys and bias values, a gate, and a sink from each token.

    In a full layer, the taps of the convolutions are computed from the token.
    """
    slides, prefix = kind == "hybrid_sliding", "swa_" if kind == "hybrid_sliding" else ""
    heads, kv_heads = c.size(f"{prefix}num_attention_heads"), c.size(f"{prefix}num_key_value_heads")
    window, dim, relative = c.size("sliding_window_size|sliding_window"), c.size(f"{prefix}head_dim"), c.size("d_rel")
    extent, queries, keys = window if slides else c.size("rel_extent"), heads * dim, kv_heads * dim
    taps = (
        ()
        if slides
        else (column_product("taps_proj", width, 2 * kv_heads * kernel, kv=2 * kv_heads * kernel, kv_groups=kv_heads),)
    )
    outputs = 2 * queries + heads * (relative + 1) + 2 * keys
    return (
        column_product("qkv_proj", width, outputs, kv=2 * keys, kv_groups=kv_heads),
        *taps,
        *_residual_conv("kv_conv", 2 * keys, kernel, kv_heads, dynamic=0 if slides else 2 * kv_heads),
        Norm(name="q_clip", width=dim, repeats=heads, per_repeat=True),
        Norm(name="relative_clip", width=relative, repeats=heads, per_repeat=True),
        plain_per_head("k_clip", kv_heads, dim),
        plain_per_head("v_norm", kv_heads, dim),
        RelativeBias(name="relative_bias", heads=heads, dim=relative, extent=extent),
        Attention(
            name="attention", heads=heads, kv_heads=kv_heads, head_dim=dim, v_head_dim=dim,
            window=window if slides else None,
        ),
        Gate(name="attention_gate", width=queries, gates=queries),
        row_product("o_proj", queries, width),
        *_residual_conv("attn_conv", width, kernel),
    )  # fmt: skip


# Keys of scales, and of draft layers that the published code leaves out.
_INKLING_SCALES = (
    "chain_hidden_post_norm", "log_scaling_alpha", "log_scaling_n_floor", "logits_mup_width_multiplier",
    "embedding_multiplier", "mtp_hidden_states_first", "mtp_local_layer_ids", "num_mtp_layers", "number_of_conv_states",
    "rms_norm_eps_moe_gate", "route_scale", "shared_expert_sink", "unpadded_vocab_size",
    "final_logit_softcapping", "mlp_gate_softcap", "mlp_up_softcap", "qk_l2_clip_threshold", "rel_l2_clip_threshold",
    "routed_scaling_factor", "scoring_func",
)  # fmt: skip
# Sizes of one type of layer, for models without such layers.
_INKLING_KINDS = ("swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim", "rel_extent")
