"""Hybrids: attention beside or between convolutions, state spaces and linear attention."""

from __future__ import annotations

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, layer, stack, untied
from roofline.model.families.blocks.norms import across_heads, per_head
from roofline.model.families.blocks.recurrent import gated_delta_net, griffin, lightning, mamba2, short_conv
from roofline.model.families.blocks.sizes import Dims, depth, dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Add, Experts, Linear, Modules


# -- short convolutions: LFM2 --------------------------------------------------------------------------------------
def _lfm2_mixers(c: Config) -> list[tuple[str, Modules]]:
    """Mixers of LFM2: attention in some layers, a short convolution in the others."""
    d, listed = dims(c), c.layer_set("full_attn_idxs", depth(c))
    default = ["full_attention" if listed is None or i in listed else "conv" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("full_attention", "conv"), default)
    conv = short_conv(d.width, c.size("conv_L_cache", 3), c.flag("conv_bias"))
    full = attention(d, rotary=rotary(c, d.head_dim), qk_norm=per_head)
    return [("conv", conv) if k == "conv" else ("", full) for k in kinds]


@family("lfm2")
def lfm2(c: Config) -> Model:
    """LFM2 (arXiv:2511.23404): the feed-forward's width is two thirds of the given one, rounded up to `multiple_of`."""
    width, inner = c.size("hidden_size"), c.size("block_ff_dim|intermediate_size")
    step, factor = c.size("block_multiple_of", 256), c.number("block_ffn_dim_multiplier", 1.0)
    c.size("block_dim", None), c.size("conv_dim", None), c.size("conv_dim_out", None)
    if c.flag("block_auto_adjust_ff_dim", True):
        inner = step * ceil_div(int(factor * int(2 * inner / 3)), step)
    ffn = mlp(width, inner, "silu")
    return causal_lm(c, width, stack(width, _lfm2_mixers(c), ffn), tied=True)


@family("lfm2_moe")
def lfm2_moe(c: Config) -> Model:
    """LFM2 with experts in all but the first layers."""
    width, first = c.size("hidden_size"), c.size("num_dense_layers", 2, least=0)
    dense, experts = mlp(width, c.size("intermediate_size"), "silu"), fine_moe(c, width)
    mixers = _lfm2_mixers(c)
    sparse = [i >= first for i in range(len(mixers))]
    return causal_lm(c, width, stack(width, mixers, dense, experts=experts, sparse=sparse), tied=True)


# -- state spaces: Granite 4, Bamba, Falcon-H1, Nemotron-H ---------------------------------------------------------
MAMBA = ("mamba", "linear_attention")


def _mamba2(c: Config, width: int, inner: int, *, out_bias: bool | None = None, norm: bool = True) -> Modules:
    """A Mamba-2 mixer from the keys that Bamba introduced; "auto" heads share `inner` evenly."""
    heads = c.size("mamba_n_heads", 128)
    auto = c.get("mamba_d_head", "auto") == "auto"
    head_dim = inner // heads if auto else c.size("mamba_d_head")
    c.mark_read("mamba_d_head")
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
    """Granite 4: Mamba-2, a few attention layers, no RoPE by default; experts, if any, with a shared one."""
    d, count, shared = dims(c), c.size("num_local_experts", 8, least=0), c.size("shared_intermediate_size", 1024)
    kinds = c.per_layer("layer_types", d.layers, (*MAMBA, "attention", "full_attention"), ["mamba"] * d.layers)
    rope = rotary(c, d.head_dim) * (c.text("position_embedding_type", "nope") == "rope")
    full = attention(d, rotary=rope, bias=c.flag("attention_bias"))
    scan = _mamba2(c, d.width, c.size("mamba_expand", 2) * d.width)
    inner, top_k = c.size("intermediate_size"), c.size("num_experts_per_tok", 2, least=0)
    experts = moe(c, d.width, count, top_k, inner, shared=shared) if count else ()
    dense = () if count else mlp(d.width, shared, activation(c))
    mixers = [("mamba", scan) if k in MAMBA else ("", full) for k in kinds]
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts))


@family("bamba")
def bamba(c: Config) -> Model:
    """Bamba: Mamba-2 with a few attention layers that rotate half of a head."""
    d, listed = dims(c), c.layer_set("attn_layer_indices", depth(c)) or ()
    full = attention(d, rotary=d.head_dim // 2, bias=c.flag("attention_bias"))
    scan = _mamba2(c, d.width, c.size("mamba_expand", 2) * d.width)
    c.mark_read("rope_parameters", "rope_scaling", "partial_rotary_factor")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    mixers = [("", full) if i in listed else ("mamba", scan) for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, mixers, ffn))


@family("falcon_h1")
def falcon_h1(c: Config) -> Model:
    """Falcon-H1 (arXiv:2507.22448): attention and Mamba-2 side by side in every layer."""
    d, norm = dims(c), c.flag("mamba_rms_norm")
    inner = c.size("mamba_d_ssm", int(c.number("mamba_expand", 2) * d.width))
    scan = _mamba2(c, d.width, inner, out_bias=c.flag("projectors_bias"), norm=norm)
    full = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    both = (*scan, *full, Add(name="mixer_add", width=d.width))
    return causal_lm(c, d.width, [layer("hybrid dense", d.width, both, ffn)] * d.layers)


@family("nemotron_h")
def nemotron_h(c: Config) -> Model:
    """Nemotron-H (arXiv:2504.03624) and Nemotron 3: one mixer a layer, Mamba-2, attention, feed-forward or experts."""
    c = untied(c)
    kinds = _nemotron_kinds(c)
    c = c.with_values(num_hidden_layers=len(kinds))
    d, act = dims(c, head_dim=128), activation(c, "mlp_hidden_act", "relu2")
    scan = _nemotron_scan(c, d.width)
    dense = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=c.flag("mlp_bias"))
    experts = _nemotron_experts(c, d.width, act) if "E" in kinds else ()
    blocks = {
        "M": layer("mamba", d.width, scan),
        "*": layer("attention", d.width, attention(d, rotary=0)),
        "-": layer("dense", d.width, (), dense),
        "E": layer("moe", d.width, (), experts),
    }
    return causal_lm(c, d.width, [blocks[k] for k in kinds])


def _nemotron_scan(c: Config, width: int) -> Modules:
    """A Mamba-2 mixer from Nemotron's keys."""
    heads, head_dim, state = c.size("mamba_num_heads"), c.size("mamba_head_dim"), c.size("ssm_state_size")
    groups, kernel, chunk = c.size("n_groups", 8), c.size("conv_kernel|mamba_d_conv", 4), c.size("chunk_size", 128)
    conv_bias, bias = c.flag("use_conv_bias", True), c.flag("use_bias")
    c.number("expand", None), c.flag("mamba_proj_bias"), activation(c, "mamba_hidden_act")
    return mamba2(width, heads, head_dim, state, groups, kernel, chunk, conv_bias=conv_bias, bias=bias)


def _nemotron_kinds(c: Config) -> str:
    """Mixers of the layers as a string of the letters M, *, - and E."""
    letters = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
    key = "layers_block_type" if c.has("layers_block_type") else "layer_types"
    if c.has(key):
        listed = value if isinstance(value := c.get(key), list) else []
        return "".join(letters[k] for k in c.per_layer(key, len(listed), tuple(letters)))
    if not c.has("hybrid_override_pattern"):
        c.note_assumed("hybrid_override_pattern", "ME*-")
    pattern = c.text("hybrid_override_pattern|layers_block_type", "ME*-")
    if not pattern or set(pattern) - set("M*-E"):
        raise c.error(
            "hybrid_override_pattern", "a string of M (Mamba), * (attention), - (feed-forward) and E (experts)"
        )
    return pattern


def _nemotron_experts(c: Config, width: int, act: str) -> Modules:
    """Experts without gate, on a narrower hidden state if `moe_latent_size` is set."""
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
    d, window = dims(c), c.size("attention_window_size", 2048)
    act, lru = activation(c, "hidden_activation", "gelu_pytorch_tanh"), c.size("lru_width", d.width)
    kernel, rope = c.size("conv1d_width", 4), rotary(c, d.head_dim, 0.5)
    local = attention(d, rotary=rope, bias=c.flag("attention_bias"), out_bias=True, window=window)
    ffn = mlp(d.width, c.size("intermediate_size") // 2, act, bias=True)
    mixers = {"recurrent": ("recurrent", griffin(d.width, lru, d.heads, kernel, act)), "attention": ("sliding", local)}
    _, pattern = c.value("block_types", ["recurrent", "recurrent", "attention"])
    if not isinstance(pattern, list) or not pattern or any(name not in mixers for name in pattern):
        raise c.error("block_types", "a list of recurrent and attention")
    layers = [mixers[pattern[i % len(pattern)]] for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, layers, ffn), tied=True)


# -- linear attention: OLMo Hybrid, MiniMax-01 ---------------------------------------------------------------------
@family("olmo_hybrid")
def olmo_hybrid(c: Config) -> Model:
    """OLMo Hybrid: three layers of gated delta rule, norms before, to one of attention as in OLMo 3, norms after."""
    d, last = dims(c), depth(c) - 1
    default = ["full_attention" if i % 4 == 3 or i == last < 3 else "linear_attention" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("linear_attention", "full_attention"), default)
    delta, rope = _olmo_delta(c, d), rotary(c, d.head_dim)
    full = attention(d, rotary=rope, bias=c.flag("attention_bias"), qk_norm=across_heads)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    blocks = {
        "linear_attention": layer("linear dense", d.width, delta, ffn),
        "full_attention": layer("dense", d.width, full, ffn, before=False, after=True),
    }
    return causal_lm(c, d.width, [blocks[k] for k in kinds])


def _olmo_delta(c: Config, d: Dims) -> Modules:
    """Gated DeltaNet, by default with as many heads as attention."""
    keys, values = c.size("linear_num_key_heads", d.heads), c.size("linear_num_value_heads", d.heads)
    key_dim = c.size("linear_key_head_dim", int(0.75 * d.width / keys))
    value_dim, kernel = c.size("linear_value_head_dim", 2 * key_dim), c.size("linear_conv_kernel_dim", 4)
    return gated_delta_net(d.width, keys, values, key_dim, value_dim, kernel)


@family("minimax")
def minimax(c: Config) -> Model:
    """MiniMax-01 (arXiv:2501.08313): lightning attention in some layers, softmax attention in others, experts."""
    d, top_k, act = dims(c), c.size("num_experts_per_tok"), activation(c)
    default = ["linear_attention" if i % 2 else "full_attention" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("linear_attention", "full_attention"), default)
    rope = c.size("rotary_dim", None, most=d.head_dim) or rotary(c, d.head_dim)
    experts = moe(c, d.width, c.size("num_local_experts"), top_k, c.size("intermediate_size"))
    linear = lightning(d.width, d.heads, d.head_dim, c.size("block_size", 256), act)
    full = attention(d, rotary=rope, window=c.size("sliding_window", None))
    mixers = [("linear", linear) if k == "linear_attention" else ("", full) for k in kinds]
    return causal_lm(c, d.width, stack(d.width, mixers, experts=experts))
