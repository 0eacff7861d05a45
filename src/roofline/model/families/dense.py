"""Dense decoders of many makers on the plan of Llama: what differs is where norms, biases and windows stand."""

from __future__ import annotations

from functools import partial

from roofline.model.config import Config
from roofline.model.families.parts import (
    HEADS,
    attention,
    causal_lm,
    depth,
    dims,
    function,
    layer,
    layer_norm,
    layer_norm_no_bias,
    mlp,
    plain_per_head,
    plain_rms,
    rotary,
    stack,
    windows,
)
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Linear


@family("cwm")
def cwm(c: Config) -> Model:
    """Code World Model (arXiv:2510.02387): three sliding layers after each full one."""
    d, slides = dims(c, head_dim=128), windows(c, depth(c), lambda i: i % 4 != 0, assumed=8192)
    ffn, turn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias")), rotary(c, d.head_dim)
    blocks = stack(d.width, slides, partial(attention, d, rotary=turn), ffn)
    return causal_lm(c, d.width, blocks)


@family("iquestcoder")
def iquestcoder(c: Config) -> Model:
    """IQuest-Coder: Llama with heads of 128."""
    d = dims(c, head_dim=128)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("hyperclovax")
def hyperclovax(c: Config) -> Model:
    """HyperCLOVA X SEED: scalar multipliers as in Granite, norms on both sides."""
    d, after = dims(c), c.flag("use_post_norm", True)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, after=after)] * d.layers)


@family("jais2")
def jais2(c: Config) -> Model:
    """Jais 2: LayerNorm, biases, squared ReLU, not gated."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias", True))
    act, bias = function(c, default="relu2"), c.flag("mlp_bias", True)
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=bias)
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, norm=layer_norm)] * d.layers, norm=layer_norm)


@family("nanochat")
def nanochat(c: Config) -> Model:
    """nanochat: norms without weights, one on the embedding too, squared ReLU, not gated."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=plain_per_head)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, default="relu2"), gated=False)
    block, before = layer("dense", d.width, mixer, ffn, norm=plain_rms), (plain_rms("embedding_norm", d.width),)
    return causal_lm(c, d.width, [block] * d.layers, norm=plain_rms, before=before)


@family("granite_swa")
def granite_swa(c: Config) -> Model:
    """Granite with attention sinks, three sliding layers after each full one."""
    d, bias = dims(c), c.flag("attention_bias")
    ffn, turn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias")), rotary(c, d.head_dim)
    slides = windows(c, d.layers, lambda i: i % 4 != 0, assumed=128)
    mixer = partial(attention, d, rotary=turn, bias=bias, sinks=True)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, ffn), tied=True)


@family("modernbert-decoder")
def modernbert_decoder(c: Config) -> Model:
    """Ettin's decoders (arXiv:2507.11412): ModernBERT's layers, causal; no norm at first, a dense layer at last."""
    d, bias, every = dims(c, kv_key=HEADS), c.flag("attention_bias"), c.size("global_attn_every_n_layers", 3)
    norm = layer_norm if c.flag("norm_bias") else layer_norm_no_bias
    c.raw = {**c.raw, "sliding_window": c.size("local_attention", 128, least=2) // 2}
    turn, slides = rotary(c, d.head_dim), windows(c, d.layers, lambda i: i % every != 0)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, "hidden_activation", "gelu"), bias=c.flag("mlp_bias"))
    mixer = partial(attention, d, rotary=turn, bias=bias)
    first, *rest = stack(d.width, slides, mixer, ffn, norm=norm)
    last = (
        Linear(name="head_proj", inputs=d.width, outputs=d.width, bias=c.flag("classifier_bias"), part="head"),
        Activation(name="head_act", width=d.width, function=function(c, "classifier_activation", "gelu"), gated=False),
        norm("head_norm", d.width),
    )
    blocks = [Block(f"first {first.name}", first.modules[1:]), *rest]
    before, out = (norm("embedding_norm", d.width),), c.flag("decoder_bias", True)
    return causal_lm(c, d.width, blocks, norm=norm, tied=True, before=before, last=last, head_bias=out)
