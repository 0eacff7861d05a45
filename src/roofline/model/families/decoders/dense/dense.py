"""Dense decoders on the plan of Llama, which differ in the placement of norms, biases and windows."""

from __future__ import annotations

from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm, layer, stack
from roofline.model.families.blocks.norms import (
    MakeNorm,
    layer_norm,
    layer_norm_no_bias,
    plain_per_head,
    plain_rms,
)
from roofline.model.families.blocks.sizes import HEADS, depth, dims
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Linear, Modules


@family("cwm")
def cwm(c: Config) -> Model:
    """Code World Model (arXiv:2510.02387): three sliding layers after each full one."""
    d, windows = dims(c, head_dim=128), layer_windows(c, depth(c), lambda i: i % 4 != 0, assumed=8192)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim))
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn))


@family("iquestcoder")
def iquestcoder(c: Config) -> Model:
    """IQuest-Coder: Llama with heads of 128."""
    d = dims(c, head_dim=128)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("hyperclovax")
def hyperclovax(c: Config) -> Model:
    """HyperCLOVA X SEED: scalar multipliers as in Granite, norms on both sides."""
    d, after = dims(c), c.flag("use_post_norm", True)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, after=after)] * d.layers)


@family("jais2")
def jais2(c: Config) -> Model:
    """Jais 2: LayerNorm, biases, squared ReLU without gate."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias", True))
    act, bias = activation(c, default="relu2"), c.flag("mlp_bias", True)
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=bias)
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, norm=layer_norm)] * d.layers, norm=layer_norm)


@family("nanochat")
def nanochat(c: Config) -> Model:
    """nanochat: norms without weights, also on the embedding; squared ReLU without gate."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=plain_per_head)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="relu2"), gated=False)
    block, before = layer("dense", d.width, mixer, ffn, norm=plain_rms), (plain_rms("embedding_norm", d.width),)
    return causal_lm(c, d.width, [block] * d.layers, norm=plain_rms, before=before)


@family("granite_swa")
def granite_swa(c: Config) -> Model:
    """Granite with attention sinks, three sliding layers after each full one."""
    d, bias = dims(c), c.flag("attention_bias")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias, sinks=True)
    windows = layer_windows(c, d.layers, lambda i: i % 4 != 0, assumed=128)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn), tied=True)


@family("modernbert-decoder")
def modernbert_decoder(c: Config) -> Model:
    """Ettin's decoders (arXiv:2507.11412): ModernBERT's layers, causal; no first norm, a dense head layer."""
    d, bias, every = dims(c, kv_key=HEADS), c.flag("attention_bias"), c.size("global_attn_every_n_layers", 3)
    norm = layer_norm if c.flag("norm_bias") else layer_norm_no_bias
    c = c.with_values(sliding_window=c.size("local_attention", 128, least=2) // 2)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias)
    windows = layer_windows(c, d.layers, lambda i: i % every != 0)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, "hidden_activation", "gelu"), bias=c.flag("mlp_bias"))
    first, *rest = stack(d.width, windowed(windows, mixer), ffn, norm=norm)
    blocks = [Block(f"first {first.name}", first.modules[1:]), *rest]
    last, before = _modernbert_head(c, d.width, norm), (norm("embedding_norm", d.width),)
    out = c.flag("decoder_bias", True)
    return causal_lm(c, d.width, blocks, norm=norm, tied=True, before=before, last=last, head_bias=out)


def _modernbert_head(c: Config, width: int, norm: MakeNorm) -> Modules:
    """The dense layer before the head."""
    bias, act = c.flag("classifier_bias"), activation(c, "classifier_activation", "gelu")
    return (
        Linear(name="head_proj", inputs=width, outputs=width, bias=bias, part="head"),
        Activation(name="head_act", width=width, function=act, gated=False),
        norm("head_norm", width),
    )
