"""Decoders from the time of GPT-2 and GPT-3: LayerNorm, biases; learned, sinusoidal or rotary positions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm, layer, position_table, stack
from roofline.model.families.blocks.norms import layer_norm, layer_norm_per_head
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Attention, Linear, Modules


@family("gpt_neo")
def gpt_neo(c: Config) -> Model:
    """GPT-Neo (Black et al., 2021): every other layer has a window of 256 tokens, but caches all tokens."""
    d = dims(c, kv_key=HEADS)
    inner, act = c.size("intermediate_size", 4 * d.width), activation(c, "activation_function", "gelu_new")
    ffn, window = mlp(d.width, inner, act, gated=False, bias=True), c.size("window_size", 256)
    windows = [window if name == "local" else None for name in _attention_layers(c, d.layers)]
    mixers = [
        (name, tuple(replace(x, keeps_all=True) if isinstance(x, Attention) else x for x in mixer))
        for name, mixer in windowed(windows, partial(attention, d, rotary=0, out_bias=True))
    ]
    blocks, table = stack(d.width, mixers, ffn, norm=layer_norm), position_table(c, d.width)
    return causal_lm(c, d.width, blocks, norm=layer_norm, tied=True, before=(table,))


def _attention_layers(c: Config, layers: int) -> list[str]:
    """Global or local attention of each layer; `attention_types` holds patterns with their numbers of repeats."""
    c.mark_read("attention_layers")
    groups: Any = c.value("attention_types", [[["global", "local"], layers // 2]])[1]
    try:
        kinds = [name for names, times in groups for _ in range(times) for name in names]
    except (TypeError, ValueError):
        kinds = []
    if len(kinds) != layers or set(kinds) - {"global", "local"}:
        raise c.error("attention_types", f"pairs of a list of global or local and a count, {layers} layers in all")
    return kinds


@family("biogpt")
def biogpt(c: Config) -> Model:
    """BioGPT (arXiv:2210.10341): its position table has two additional rows."""
    d = dims(c, kv_key=HEADS)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    block = layer("dense", d.width, attention(d, rotary=0, bias=True), ffn, norm=layer_norm)
    table = position_table(c, d.width, 2)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True, before=(table,))


@family("xglm")
def xglm(c: Config) -> Model:
    """XGLM (arXiv:2112.10668): sinusoidal positions."""
    d, act = dims(c, kv_key=HEADS), activation(c, "activation_function", "gelu")
    ffn = mlp(d.width, c.size("ffn_dim"), act, gated=False, bias=True)
    block = layer("dense", d.width, attention(d, rotary=0, bias=True), ffn, norm=layer_norm)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True)


@family("gpt_neox_japanese")
def gpt_neox_japanese(c: Config) -> Model:
    """GPT-NeoX Japanese: no biases except one, after the attention of the last layer."""
    d, act = dims(c, kv_key=HEADS), activation(c, default="gelu")
    ffn, rope = mlp(d.width, d.width * c.size("intermediate_multiple_size", 4), act, gated=False), rotary(c, d.head_dim)
    block = layer("dense", d.width, attention(d, rotary=rope), ffn, norm=layer_norm)
    last = layer("last", d.width, attention(d, rotary=rope, out_bias=True), ffn, norm=layer_norm)
    return causal_lm(c, d.width, [block] * (d.layers - 1) + [last], norm=layer_norm, tied=True)


@family("persimmon")
def persimmon(c: Config) -> Model:
    """Persimmon: q/k norms on each head, RoPE on half of each head, squared ReLU without gate."""
    d, norm = dims(c, kv_key=HEADS), layer_norm_per_head if c.flag("qk_layernorm", True) else None
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.5), bias=True, qk_norm=norm)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="relu2"), gated=False, bias=True)
    blocks = [layer("dense", d.width, mixer, ffn, norm=layer_norm)] * d.layers
    return causal_lm(c, d.width, blocks, norm=layer_norm, before=_fuyu_patches(c.parent, d.width))


def _fuyu_patches(whole: Config | None, width: int) -> Modules:
    """Fuyu's projection of image patches, its only part besides Persimmon; text skips it."""
    if whole is None or whole.raw.get("model_type") != "fuyu":
        return ()
    inputs = whole.size("patch_size", 30) ** 2 * whole.size("num_channels", 3)
    return (Linear(name="image_proj", inputs=inputs, outputs=width, bias=True, part="other", idle=True),)


@family("openai-gpt")
def openai_gpt(c: Config) -> Model:
    """GPT (Radford et al., 2018): norms after attention and feed-forward, none at the end."""
    d = dims(c, kv_key=HEADS)
    ffn = mlp(d.width, 4 * d.width, activation(c, "afn", "gelu"), gated=False, bias=True)
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
