"""Llama and models on its plan: RMSNorm, RoPE, grouped queries, gated feed-forward."""

from __future__ import annotations

from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import (
    attention,
    layer_windows,
    pattern_length,
    rotary,
    same_window,
    windowed,
)
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, layer, stack
from roofline.model.families.blocks.norms import layer_norm, per_head, plain_per_head, rms
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Modules


@family("llama")
def llama(c: Config) -> Model:
    """Llama 1–3 (arXiv:2302.13971, 2307.09288, 2407.21783)."""
    d, bias, act = dims(c), c.flag("attention_bias"), activation(c)
    ffn = mlp(d.width, c.size("intermediate_size"), act, bias=c.flag("mlp_bias"))
    block = layer("dense", d.width, attention(d, rotary=rotary(c, d.head_dim), bias=bias), ffn)
    return causal_lm(c, d.width, [block] * d.layers)


@family("mistral")
def mistral(c: Config) -> Model:
    """Mistral 7B (arXiv:2310.06825): no biases, a sliding window if set."""
    return _mistral(c, dims(c))


@family("ministral")
def ministral(c: Config) -> Model:
    """Ministral 8B: Mistral with sliding windows in the layers of `layer_types`, or in all if a window is set."""
    d, slides = dims(c), c.has("sliding_window")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim))
    windows = layer_windows(c, d.layers, lambda _: slides)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn))


@family("ministral3")
def ministral3(c: Config) -> Model:
    """Ministral 3: Mistral with heads of 128."""
    return _mistral(c, dims(c, head_dim=128))


def _mistral(c: Config, d: Dims) -> Model:
    act = activation(c)
    ffn, rope = mlp(d.width, c.size("intermediate_size"), act), rotary(c, d.head_dim)
    mixers = windowed(same_window(c, d.layers), partial(attention, d, rotary=rope))
    return causal_lm(c, d.width, stack(d.width, mixers, ffn))


@family("mixtral")
def mixtral(c: Config) -> Model:
    """Mixtral of experts (arXiv:2401.04088)."""
    d, inner = dims(c), c.size("intermediate_size")
    experts = moe(c, d.width, c.size("num_local_experts"), c.size("num_experts_per_tok"), inner)
    rope, windows = rotary(c, d.head_dim), same_window(c, d.layers)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, partial(attention, d, rotary=rope)), experts=experts))


@family("llama4_text")
def llama4(c: Config) -> Model:
    """Llama 4: chunked attention with RoPE, full attention without; experts in some layers, with one shared."""
    d, inner, act = dims(c, head_dim=128), c.size("intermediate_size"), activation(c)
    step, listed = c.size("interleave_moe_layer_step", 1), c.layer_set("moe_layers", d.layers)
    routed = set(range(step - 1, d.layers, step) if listed is None else listed)
    dense = mlp(d.width, c.size("intermediate_size_mlp"), act)
    top_k, count = c.size("num_experts_per_tok"), c.size("num_local_experts")
    experts = moe(c, d.width, count, top_k, inner, shared=inner, reference="all")
    sparse = [i in routed for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, _llama4_mixers(c, d), dense, experts=experts, sparse=sparse))


def _llama4_mixers(c: Config, d: Dims) -> list[tuple[str, Modules]]:
    """Mixers of Llama 4: layers with RoPE see their own chunk; every fourth has no RoPE and sees all tokens."""
    bias, unsaid = c.flag("attention_bias"), c.get("no_rope_layers") == []
    with_rope = _rope_layers(c.with_values(no_rope_layers=None) if unsaid else c, d)
    default = ["chunked_attention" if rope else "full_attention" for rope in with_rope]
    kinds = c.per_layer("layer_types", d.layers, ("chunked_attention", "full_attention"), default)
    size, norm = c.size("attention_chunk_size", None), plain_per_head if c.flag("use_qk_norm", True) else None
    rotated = rotary(c, d.head_dim)

    def mixer(rope: int, chunk: int | None) -> tuple[str, Modules]:
        modules = attention(d, rotary=rope * rotated, bias=bias, qk_norm=norm if rope else None, chunk=chunk)
        return "chunked" if chunk else "full", modules

    chunks = [size if kind == "chunked_attention" else None for kind in kinds]
    return [mixer(*layer) for layer in zip(with_rope, chunks, strict=True)]


def _rope_layers(c: Config, d: Dims) -> list[int]:
    """1 for each layer with RoPE, 0 for others: from `no_rope_layers`, or 0 in every `no_rope_layer_interval`-th."""
    if c.has("no_rope_layers"):
        c.unused_sizes("no_rope_layer_interval")
        return c.per_layer("no_rope_layers", d.layers, (0, 1))
    every = c.size("no_rope_layer_interval", 4)
    return c.per_layer("no_rope_layers", d.layers, (0, 1), [int((i + 1) % every != 0) for i in range(d.layers)])


@family("smollm3")
def smollm3(c: Config) -> Model:
    """SmolLM3: Llama without RoPE in every fourth layer."""
    d, bias = dims(c), c.flag("attention_bias")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    rotated, with_rope = rotary(c, d.head_dim), _rope_layers(c, d)
    windows = layer_windows(
        c, d.layers, lambda i: c.flag("use_sliding_window") and c.has("sliding_window") and not with_rope[i]
    )
    pairs = zip(with_rope, windows, strict=True)
    mixers = [("sliding" if w else "", attention(d, rotary=r * rotated, bias=bias, window=w)) for r, w in pairs]
    return causal_lm(c, d.width, stack(d.width, mixers, ffn), tied=True)


@family("seed_oss")
def seed_oss(c: Config) -> Model:
    """Seed-OSS: Llama with biased q, k, v."""
    d = dims(c, head_dim=128)
    bias, out = c.flag("attention_bias", True), c.flag("attention_out_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias, out_bias=out)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("internlm3")
def internlm3(c: Config) -> Model:
    """InternLM3: Llama under other names for its bias flags."""
    d = dims(c, head_dim=128)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias|qkv_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias|bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("arcee")
def arcee(c: Config) -> Model:
    """Arcee AFM: Llama with a squared-ReLU feed-forward, not gated."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    inner, act = c.size("intermediate_size"), activation(c, default="relu2")
    ffn = mlp(d.width, inner, act, gated=False, bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("apertus")
def apertus(c: Config) -> Model:
    """Apertus: q/k norms, and an ungated feed-forward with xIELU (arXiv:2411.13010), which has two learned scalars."""
    d, act = dims(c), activation(c, default="xielu")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    learned = 2 if act == "xielu" else 0
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, learned=learned)
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("helium")
def helium(c: Config) -> Model:
    """Helium: Llama whose output projection has no bias."""
    d = dims(c, head_dim=128)
    if d.heads * d.head_dim != d.width:
        raise c.error("head_dim", f"hidden_size / num_attention_heads = {d.width} / {d.heads}: o_proj is square")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), out_bias=False)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("bitnet")
def bitnet(c: Config) -> Model:
    """BitNet b1.58 2B4T (arXiv:2504.12285): a norm before each output projection, squared ReLU."""
    d, inner = dims(c), c.size("intermediate_size")
    *heads, out = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    mixer = (*heads, rms("attn_sub_norm", d.heads * d.head_dim), out)
    ffn = mlp(d.width, inner, activation(c, default="relu2"), middle=(rms("ffn_sub_norm", inner),))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("exaone4")
def exaone4(c: Config) -> Model:
    """EXAONE 4.0 (arXiv:2507.11407): norms after sublayers, three sliding layers with RoPE to one full without."""
    d, every, has_window = dims(c), pattern_length(c, 4), c.has("sliding_window")
    ffn, rope = mlp(d.width, c.size("intermediate_size"), activation(c)), rotary(c, d.head_dim)
    windows = layer_windows(c, d.layers, lambda i: has_window and (i + 1) % every != 0)

    def mixer(window: int | None) -> Modules:
        return attention(d, rotary=rope if window or not has_window else 0, window=window, qk_norm=per_head)

    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn, before=False, after=True))


@family("nemotron")
def nemotron(c: Config) -> Model:
    """Nemotron-4 (arXiv:2402.16819): LayerNorm1P, RoPE on half of each head, squared ReLU without gate."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.5), bias=c.flag("attention_bias"))
    inner, act = c.size("intermediate_size"), activation(c, default="relu2")
    ffn = mlp(d.width, inner, act, gated=False, bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, norm=layer_norm)] * d.layers, norm=layer_norm)
