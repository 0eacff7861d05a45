"""Gemma 1–3 (arXiv:2403.08295, 2408.00118, 2503.19786): wide heads, tied embedding, GeGLU."""

from __future__ import annotations

from roofline.model.config import Config
from roofline.model.families.parts import (
    attention,
    causal_lm,
    dims,
    function,
    kind,
    layer,
    mlp,
    per_head,
    rotary,
    windows,
)
from roofline.model.families.registry import family
from roofline.model.model import Model

GELU = "gelu_pytorch_tanh"


@family("gemma")
def gemma(c: Config) -> Model:
    """Gemma 1."""
    d = dims(c, head_dim=256)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, "hidden_activation|hidden_act", GELU))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers, tied=True)


@family("gemma2")
def gemma2(c: Config) -> Model:
    """Gemma 2: norms on both sides, every other layer slides."""
    d, bias = dims(c, head_dim=256), c.flag("attention_bias")
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, "hidden_activation|hidden_act", GELU))
    slides, turn = windows(c, d.layers, lambda i: i % 2 == 0), rotary(c, d.head_dim)
    mixers = [attention(d, rotary=turn, bias=bias, window=w) for w in slides]
    blocks = [layer(kind(False, w), d.width, m, ffn, after=True) for m, w in zip(mixers, slides, strict=True)]
    return causal_lm(c, d.width, blocks, tied=True)


@family("gemma3_text")
def gemma3(c: Config) -> Model:
    """Gemma 3: as Gemma 2 with q/k norms, five sliding layers to one full. Published configs leave out defaults."""
    for key, default in (("num_attention_heads", 8), ("num_key_value_heads", 4), ("vocab_size", 262208)):
        c.fill(key, default)
    d, bias, every = (
        dims(c, head_dim=256),
        c.flag("attention_bias"),
        c.size("sliding_window_pattern|_sliding_window_pattern", 6),
    )
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, "hidden_activation|hidden_act", GELU))
    slides, turn = windows(c, d.layers, lambda i: (i + 1) % every != 0), rotary(c, d.head_dim)
    mixers = [attention(d, rotary=turn, bias=bias, window=w, qk_norm=per_head) for w in slides]
    blocks = [layer(kind(False, w), d.width, m, ffn, after=True) for m, w in zip(mixers, slides, strict=True)]
    return causal_lm(c, d.width, blocks, tied=True)
