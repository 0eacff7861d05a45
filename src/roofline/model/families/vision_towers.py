"""Towers of multimodal models: what sees or hears beside a language model."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.model.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import patch_embedding, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import towers
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Linear


@towers("qwen2_5_vl")
def qwen2_5_vl(whole: Config, text: Model) -> Iterator[Tower]:
    """Qwen2.5-VL (arXiv:2502.13923): RMSNorm and gated SiLU, windows of 112 pixels except in four layers."""
    c = whole.section("vision_config")
    width, heads, layers = c.size("hidden_size", 3584), c.size("num_heads", 16), c.size("depth", 32, most=MOST_LAYERS)
    patch, merge = c.size("patch_size", 14), c.size("spatial_merge_size", 2)
    window, full = c.size("window_size", 112) // patch, c.layer_set("fullatt_block_indexes", layers) or [7, 15, 23, 31]
    d = Dims(layers, width, heads, heads, width // heads)
    ffn = mlp(width, c.size("intermediate_size", 3420), activation(c), bias=True)

    def block(i: int) -> Block:
        chunk = None if i in full else window * window
        mixer = attention(d, rotary=d.head_dim, bias=True, causal=False, chunk=chunk)
        return layer("full" if i in full else "windowed", width, mixer, ffn)

    pixels = c.size("in_channels|in_chans", 3) * c.size("temporal_patch_size", 2)
    front = Block("patches", (patch_embedding("patch_embedding", pixels, patch * patch, width, bias=False),))
    yield tower("vision", "images", width, [front, *map(block, range(layers))])
    four, out = merge * merge, c.size("out_hidden_size", 3584)
    merger = Block("merger", (
        rms("merger_norm", width),
        Linear(name="merger_up_proj", inputs=four * width, outputs=four * width, bias=True, split=four),
        Activation(name="merger_act", width=four * width, function="gelu", gated=False, split=four),
        Linear(name="merger_down_proj", inputs=four * width, outputs=out, bias=True, split=four),
    ))  # fmt: skip
    yield tower("projector", "images", width, [merger])
