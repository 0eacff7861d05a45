"""Hybrids: attention beside or between convolutions, state spaces and linear attention."""

from __future__ import annotations

from roofline.model.config import Config
from roofline.model.families.parts import (
    Modules,
    across_heads,
    attention,
    causal_lm,
    depth,
    dims,
    fine_moe,
    function,
    gated_delta_net,
    griffin,
    kimi_delta,
    kind,
    latent_attention,
    layer,
    lightning,
    mamba2,
    mlp,
    mlp_layer_types,
    moe,
    per_head,
    rotary,
    short_conv,
)
from roofline.model.families.registry import family
from roofline.model.maths import ceil_div
from roofline.model.model import Model
from roofline.model.modules import Add, Experts, Linear


# -- short convolutions: LFM2 --------------------------------------------------------------------------------------
def _lfm2_mixers(c: Config) -> list[tuple[str, Modules]]:
    """Attention on some layers, a short convolution on the others."""
    d, full = dims(c), c.layer_set("full_attn_idxs", depth(c))
    default = ["full_attention" if full is None or i in full else "conv" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("full_attention", "conv"), default)
    conv = short_conv(d.width, c.size("conv_L_cache", 3), c.flag("conv_bias"))
    attend = attention(d, rotary=rotary(c, d.head_dim), qk_norm=per_head)
    return [("conv", conv) if k == "conv" else ("", attend) for k in kinds]


@family("lfm2")
def lfm2(c: Config) -> Model:
    """LFM2 (arXiv:2511.23404): the feed-forward's width is two thirds of the given one, rounded up to `multiple_of`."""
    width, inner = c.size("hidden_size"), c.size("block_ff_dim|intermediate_size")
    step, factor = c.size("block_multiple_of", 256), c.number("block_ffn_dim_multiplier", 1.0)
    c.size("block_dim", None), c.size("conv_dim", None), c.size("conv_dim_out", None)
    if c.flag("block_auto_adjust_ff_dim", True):
        inner = step * ceil_div(int(factor * int(2 * inner / 3)), step)
    ffn = mlp(width, inner, "silu")
    blocks = [layer(kind(False, mixer=name), width, mixer, ffn) for name, mixer in _lfm2_mixers(c)]
    return causal_lm(c, width, blocks, tied=True)


@family("lfm2_moe")
def lfm2_moe(c: Config) -> Model:
    """LFM2 with experts on all but the first layers."""
    width, first = c.size("hidden_size"), c.size("num_dense_layers", 2, least=0)
    dense, experts = mlp(width, c.size("intermediate_size"), "silu"), fine_moe(c, width)
    mixers = enumerate(_lfm2_mixers(c))
    blocks = [layer(kind(i >= first, mixer=n), width, m, experts if i >= first else dense) for i, (n, m) in mixers]
    return causal_lm(c, width, blocks, tied=True)


# -- state spaces: Granite 4, Bamba, Falcon-H1, Nemotron-H ---------------------------------------------------------
MAMBA = ("mamba", "linear_attention")


def _mamba2(c: Config, width: int, inner: int, *, out_bias: bool | None = None, norm: bool = True) -> Modules:
    """A Mamba-2 mixer by the keys that Bamba introduced; "auto" heads share `inner` evenly."""
    heads = c.size("mamba_n_heads", 128)
    auto = c.raw.get("mamba_d_head", "auto") == "auto"
    head_dim = inner // heads if auto else c.size("mamba_d_head")
    c.read.add("mamba_d_head")
    if heads * head_dim != inner:
        raise c.error("mamba_n_heads", f"a number of heads that, times mamba_d_head, makes {inner}")
    state, groups, kernel = c.size("mamba_d_state", 256), c.size("mamba_n_groups", 1), c.size("mamba_d_conv", 4)
    conv_bias, bias, chunk = c.flag("mamba_conv_bias", True), c.flag("mamba_proj_bias"), c.size("mamba_chunk_size", 256)
    return mamba2(
        width, heads, head_dim, state, groups, kernel, chunk,
        conv_bias=conv_bias, bias=bias, out_bias=out_bias, norm=norm,
    )  # fmt: skip


@family("granitemoehybrid")
def granitemoehybrid(c: Config) -> Model:
    """Granite 4: Mamba-2, a few attention layers, no RoPE unless asked for; experts, if any, beside a shared one."""
    d, count, shared = dims(c), c.size("num_local_experts", 8, least=0), c.size("shared_intermediate_size", 1024)
    kinds = c.per_layer("layer_types", d.layers, (*MAMBA, "attention", "full_attention"), ["mamba"] * d.layers)
    turn = rotary(c, d.head_dim) * (c.text("position_embedding_type", "nope") == "rope")
    full = attention(d, rotary=turn, bias=c.flag("attention_bias"))
    scan = _mamba2(c, d.width, c.size("mamba_expand", 2) * d.width)
    inner, top_k = c.size("intermediate_size"), c.size("num_experts_per_tok", 2, least=0)
    ffn = moe(c, d.width, count, top_k, inner, shared=shared) if count else mlp(d.width, shared, function(c))
    blocks = {k: layer(kind(count > 0, mixer="mamba"), d.width, scan, ffn) for k in MAMBA}
    other = layer(kind(count > 0), d.width, full, ffn)
    return causal_lm(c, d.width, [blocks.get(k, other) for k in kinds])


@family("bamba")
def bamba(c: Config) -> Model:
    """Bamba: Mamba-2 with a few attention layers that rotate half of a head."""
    d, full = dims(c), c.layer_set("attn_layer_indices", depth(c)) or ()
    attend = attention(d, rotary=d.head_dim // 2, bias=c.flag("attention_bias"))
    scan = _mamba2(c, d.width, c.size("mamba_expand", 2) * d.width)
    c.read.update(("rope_parameters", "rope_scaling", "partial_rotary_factor"))
    ffn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias"))
    attends, scans = layer("dense", d.width, attend, ffn), layer("mamba dense", d.width, scan, ffn)
    return causal_lm(c, d.width, [attends if i in full else scans for i in range(d.layers)])


@family("falcon_h1")
def falcon_h1(c: Config) -> Model:
    """Falcon-H1 (arXiv:2507.22448): attention and Mamba-2 side by side in every layer."""
    d, norm = dims(c), c.flag("mamba_rms_norm")
    inner = c.size("mamba_d_ssm", int(c.number("mamba_expand", 2) * d.width))
    scan = _mamba2(c, d.width, inner, out_bias=c.flag("projectors_bias"), norm=norm)
    attend = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias"))
    both = (*scan, *attend, Add(name="mixer_add", width=d.width))
    return causal_lm(c, d.width, [layer("hybrid dense", d.width, both, ffn)] * d.layers)


@family("nemotron_h")
def nemotron_h(c: Config) -> Model:
    """Nemotron-H (arXiv:2504.03624) and Nemotron 3: one mixer a layer, Mamba-2, attention, feed-forward or experts."""
    _untied(c)
    kinds = _nemotron_kinds(c)
    c.raw = {**c.raw, "num_hidden_layers": len(kinds)}
    d, act = dims(c, head_dim=128), function(c, "mlp_hidden_act", "relu2")
    heads, head_dim, state = c.size("mamba_num_heads"), c.size("mamba_head_dim"), c.size("ssm_state_size")
    groups, kernel, chunk = c.size("n_groups", 8), c.size("conv_kernel|mamba_d_conv", 4), c.size("chunk_size", 128)
    conv_bias, bias = c.flag("use_conv_bias", True), c.flag("use_bias")
    c.number("expand", None), c.flag("mamba_proj_bias"), function(c, "mamba_hidden_act")
    scan = mamba2(d.width, heads, head_dim, state, groups, kernel, chunk, conv_bias=conv_bias, bias=bias)
    dense = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=c.flag("mlp_bias"))
    attend = attention(d, rotary=0)
    experts = _nemotron_experts(c, d.width, act) if "E" in kinds else ()
    blocks = {
        "M": layer("mamba", d.width, scan),
        "*": layer("attention", d.width, attend),
        "-": layer("dense", d.width, (), dense),
        "E": layer("moe", d.width, (), experts),
    }
    return causal_lm(c, d.width, [blocks[k] for k in kinds])


def _untied(c: Config) -> None:
    """The head has a matrix of its own whatever the config says: the published code has no way to tie it."""
    c.flag("tie_word_embeddings")
    c.raw = {**c.raw, "tie_word_embeddings": False}


def _nemotron_kinds(c: Config) -> str:
    """The mixers of the layers as letters: M, *, - and E."""
    letters = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
    key = "layers_block_type" if c.has("layers_block_type") else "layer_types"
    if c.has(key):
        listed = c.raw[key] if isinstance(c.raw[key], list) else []
        return "".join(letters[k] for k in c.per_layer(key, len(listed), tuple(letters)))
    pattern = c.text("hybrid_override_pattern|layers_block_type")
    if not pattern or set(pattern) - set("M*-E"):
        raise c.error(
            "hybrid_override_pattern", "a string of M (Mamba), * (attention), - (feed-forward) and E (experts)"
        )
    return pattern


def _nemotron_experts(c: Config, width: int, act: str) -> Modules:
    """Experts without gate; where `moe_latent_size` is set they work on a narrower stream."""
    inner, latent, bias = c.size("moe_intermediate_size"), c.size("moe_latent_size", None), c.flag("mlp_bias")
    shared, top_k = c.size("moe_shared_expert_intermediate_size"), c.size("num_experts_per_tok")
    count, _ = c.size("n_routed_experts|num_local_experts"), c.size("n_shared_experts", 1, least=0)
    router, experts, *rest = moe(c, width, count, top_k, inner, act=act, gated=False, shared=shared, shared_bias=bias)
    if latent is None:
        return (router, experts, *rest)
    return (
        router,
        Linear(name="experts_in_proj", inputs=width, outputs=latent, bias=bias),
        Experts(name="experts", hidden=latent, inner=inner, experts=count, top_k=top_k, function=act, gated=False),
        Linear(name="experts_out_proj", inputs=latent, outputs=width, bias=bias),
        *rest,
    )


# -- gated recurrence: Griffin -------------------------------------------------------------------------------------
@family("recurrent_gemma")
def recurrent_gemma(c: Config) -> Model:
    """RecurrentGemma (arXiv:2402.19427, 2404.07839): two layers of gated recurrence to one of sliding attention."""
    d, window, act = (
        dims(c),
        c.size("attention_window_size", 2048),
        function(c, "hidden_activation", "gelu_pytorch_tanh"),
    )
    lru, kernel, turn = c.size("lru_width", d.width), c.size("conv1d_width", 4), rotary(c, d.head_dim, 0.5)
    attend = attention(d, rotary=turn, bias=c.flag("attention_bias"), out_bias=True, window=window)
    scan = griffin(d.width, lru, d.heads, kernel, act)
    ffn = mlp(d.width, c.size("intermediate_size") // 2, act, bias=True)
    _, pattern = c.value("block_types", ["recurrent", "recurrent", "attention"])
    blocks = {
        "recurrent": layer("recurrent dense", d.width, scan, ffn),
        "attention": layer("sliding dense", d.width, attend, ffn),
    }
    if not isinstance(pattern, list) or not pattern or any(name not in blocks for name in pattern):
        raise c.error("block_types", "a list of recurrent and attention")
    return causal_lm(c, d.width, [blocks[pattern[i % len(pattern)]] for i in range(d.layers)], tied=True)


# -- linear attention: Kimi Linear, OLMo Hybrid, MiniMax-01 --------------------------------------------------------
@family("kimi_linear")
def kimi_linear(c: Config) -> Model:
    """Kimi Linear (arXiv:2510.26692): three layers of delta attention to one of latent attention without RoPE."""
    _untied(c)
    width, layers, inside = c.size("hidden_size"), depth(c), c.section("linear_attn_config")
    heads, dim = (
        inside.size("num_heads", c.size("linear_num_heads", 32)),
        inside.size("head_dim", c.size("linear_head_dim", 128)),
    )
    kernel = inside.size("short_conv_kernel_size", c.size("linear_conv_kernel_dim", 4))
    delta, full = kimi_delta(width, heads, dim, kernel), latent_attention(c, bias=c.flag("attention_bias"), rope=False)
    listed = inside.value("full_attn_layers", None)[1]
    default = [i + 1 in listed if isinstance(listed, list) else i > 0 and i % 4 == 0 for i in range(layers)]
    names = ["full_attention" if there else "linear_attention" for there in default]
    kinds = c.per_layer("layer_types", layers, ("linear_attention", "full_attention"), names)
    dense, experts = mlp(width, c.size("intermediate_size"), function(c)), fine_moe(c, width)
    pairs = zip(kinds, mlp_layer_types(c, layers, c.size("first_k_dense_replace", 1, least=0)), strict=True)
    mixers = {"full_attention": ("", full), "linear_attention": ("linear", delta)}
    return causal_lm(
        c, width, [layer(kind(s, mixer=mixers[k][0]), width, mixers[k][1], experts if s else dense) for k, s in pairs]
    )


@family("olmo_hybrid")
def olmo_hybrid(c: Config) -> Model:
    """OLMo Hybrid: three layers of gated delta rule, norms before, to one of attention as in OLMo 3, norms after."""
    d, last = dims(c), depth(c) - 1
    default = ["full_attention" if i % 4 == 3 or i == last < 3 else "linear_attention" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("linear_attention", "full_attention"), default)
    keys, values = c.size("linear_num_key_heads", d.heads), c.size("linear_num_value_heads", d.heads)
    key_dim = c.size("linear_key_head_dim", int(0.75 * d.width / keys))
    value_dim, kernel = c.size("linear_value_head_dim", 2 * key_dim), c.size("linear_conv_kernel_dim", 4)
    delta, turn = gated_delta_net(d.width, keys, values, key_dim, value_dim, kernel), rotary(c, d.head_dim)
    full = attention(d, rotary=turn, bias=c.flag("attention_bias"), qk_norm=across_heads)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c))
    blocks = {
        "linear_attention": layer("linear dense", d.width, delta, ffn),
        "full_attention": layer("dense", d.width, full, ffn, before=False, after=True),
    }
    return causal_lm(c, d.width, [blocks[k] for k in kinds])


@family("minimax")
def minimax(c: Config) -> Model:
    """MiniMax-01 (arXiv:2501.08313): lightning attention on most layers, softmax attention on the others, experts."""
    d, top_k, act = dims(c), c.size("num_experts_per_tok"), function(c)
    default = ["linear_attention" if i % 2 else "full_attention" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("linear_attention", "full_attention"), default)
    turn = c.size("rotary_dim", None, most=d.head_dim) or rotary(c, d.head_dim)
    experts = moe(c, d.width, c.size("num_local_experts"), top_k, c.size("intermediate_size"))
    linear = lightning(d.width, d.heads, d.head_dim, c.size("block_size", 256), act)
    blocks = {
        "linear_attention": layer("linear moe", d.width, linear, experts),
        "full_attention": layer(
            "moe", d.width, attention(d, rotary=turn, window=c.size("sliding_window", None)), experts
        ),
    }
    return causal_lm(c, d.width, [blocks[k] for k in kinds])
