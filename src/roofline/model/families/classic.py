"""Decoders of the GPT-2 and GPT-3 years: LayerNorm, biases, learned, sinusoidal or rotary positions."""

from __future__ import annotations

from roofline.model.config import Config
from roofline.model.families.parts import (
    HEADS,
    attention,
    causal_lm,
    dims,
    function,
    kind,
    layer,
    layer_norm,
    layer_norm_per_head,
    mlp,
    position_table,
    rotary,
)
from roofline.model.families.registry import family
from roofline.model.model import Model


@family("gpt_neo")
def gpt_neo(c: Config) -> Model:
    """GPT-Neo (Black et al., 2021): every other layer sees a window of 256 tokens."""
    d = dims(c, kv_key=HEADS)
    inner, act = c.size("intermediate_size", 4 * d.width), function(c, "activation_function", "gelu_new")
    ffn, window = mlp(d.width, inner, act, gated=False, bias=True), c.size("window_size", 256)
    slides = [window if name == "local" else None for name in _attention_layers(c, d.layers)]
    mixers = {w: attention(d, rotary=0, out_bias=True, window=w) for w in slides}
    blocks = {w: layer(kind(False, w), d.width, m, ffn, norm=layer_norm) for w, m in mixers.items()}
    table = position_table(c, d.width)
    return causal_lm(c, d.width, [blocks[w] for w in slides], norm=layer_norm, tied=True, before=(table,))


def _attention_layers(c: Config, layers: int) -> list[str]:
    """Global or local for each layer: `attention_types` holds patterns, each with the times it is repeated."""
    c.read.add("attention_layers")
    _, groups = c.value("attention_types", [[["global", "local"], layers // 2]])
    try:
        kinds = [name for names, times in groups for _ in range(times) for name in names]
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != layers or set(kinds) - {"global", "local"}:
        raise c.error("attention_types", f"pairs of a list of global or local and a count, {layers} layers in all")
    return kinds


@family("biogpt")
def biogpt(c: Config) -> Model:
    """BioGPT (arXiv:2210.10341): its position table has two rows more."""
    d = dims(c, kv_key=HEADS)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, default="gelu"), gated=False, bias=True)
    block = layer("dense", d.width, attention(d, rotary=0, bias=True), ffn, norm=layer_norm)
    table = position_table(c, d.width, 2)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True, before=(table,))


@family("xglm")
def xglm(c: Config) -> Model:
    """XGLM (arXiv:2112.10668): sinusoidal positions."""
    d, act = dims(c, kv_key=HEADS), function(c, "activation_function", "gelu")
    ffn = mlp(d.width, c.size("ffn_dim"), act, gated=False, bias=True)
    block = layer("dense", d.width, attention(d, rotary=0, bias=True), ffn, norm=layer_norm)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True)


@family("gpt_neox_japanese")
def gpt_neox_japanese(c: Config) -> Model:
    """GPT-NeoX Japanese: no biases but one, behind the attention of the last layer."""
    d, act = dims(c, kv_key=HEADS), function(c, default="gelu")
    ffn, turn = mlp(d.width, d.width * c.size("intermediate_multiple_size", 4), act, gated=False), rotary(c, d.head_dim)
    plain, biased = (attention(d, rotary=turn, out_bias=bias) for bias in (False, True))
    block, last = (
        layer("dense", d.width, plain, ffn, norm=layer_norm),
        layer("last", d.width, biased, ffn, norm=layer_norm),
    )
    return causal_lm(c, d.width, [block] * (d.layers - 1) + [last], norm=layer_norm, tied=True)


@family("persimmon")
def persimmon(c: Config) -> Model:
    """Persimmon: q/k norms on each head, half of RoPE, squared ReLU, not gated."""
    d, norm = dims(c, kv_key=HEADS), layer_norm_per_head if c.flag("qk_layernorm", True) else None
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.5), bias=True, qk_norm=norm)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, default="relu2"), gated=False, bias=True)
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, norm=layer_norm)] * d.layers, norm=layer_norm)


@family("openai-gpt")
def openai_gpt(c: Config) -> Model:
    """GPT (Radford et al., 2018): norms after attention and feed-forward, none at the end."""
    d = dims(c, kv_key=HEADS)
    ffn = mlp(d.width, 4 * d.width, function(c, "afn", "gelu"), gated=False, bias=True)
    mixer = attention(d, rotary=0, bias=True)
    block = layer("dense", d.width, mixer, ffn, norm=layer_norm, before=False, after=True)
    return causal_lm(c, d.width, [block] * d.layers, norm=None, tied=True, before=(position_table(c, d.width),))


@family("ctrl")
def ctrl(c: Config) -> Model:
    """CTRL (arXiv:1909.05858): sinusoidal positions, a bias on the head."""
    d = dims(c, kv_key=HEADS)
    ffn = mlp(d.width, c.size("dff"), "relu", gated=False, bias=True)
    block = layer("dense", d.width, attention(d, rotary=0, bias=True), ffn, norm=layer_norm)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True, head_bias=True)
