"""Transformers over maps that shrink, whose keys are fewer than their queries: SegFormer, PVT, PVT v2, GLPN."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv, everywhere
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    both_sides,
    classifier,
    head_of,
    image_model,
    pixels,
    same_length,
    stage_sizes,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.registry import complete
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Convolution, Learned, Linear, Modules

CLASSIFIES = "ForImageClassification"


@dataclass(frozen=True)
class Shrunk:
    """How a layer's keys shrink: by a convolution of `ratio` positions a side, or to 7 × 7 by pooling (`pooled`)."""

    ratio: int
    pooled: bool = False
    bias: bool = True


def _attends(x: Map, heads: int, shrunk: Shrunk, extra: int = 0) -> Modules:
    """Attention of all positions to a smaller map."""
    wide, n = x.channels, x.positions + extra
    small: Modules = ()
    keys = n
    if shrunk.pooled:
        small, _ = chain(Map(wide, 7, 7), conv("reduction", wide, 1, bias=True, norm=layer_norm, act="gelu"))
        keys = 49
    elif shrunk.ratio > 1:
        small, y = chain(x, conv("reduction", wide, shrunk.ratio, shrunk.ratio, bias=True, padding=0))
        keys = y.positions
    kv = column_product("kv_proj", wide, 2 * wide, shrunk.bias, kv=2 * wide, kv_groups=heads)
    core = Attention(
        name="attention", heads=heads, kv_heads=heads, head_dim=wide // heads, v_head_dim=wide // heads, causal=False,
        keys=keys,
    )  # fmt: skip
    return (
        *at(n, (column_product("q_proj", wide, wide, shrunk.bias),)), *small, *at(keys, (kv,)),
        *at(n, (core, row_product("o_proj", wide, wide, True))),
    )  # fmt: skip


def _layer(x: Map, mixer: Modules, inner: int, act: str, *, mixed: bool, extra: int, name: str) -> Block:
    """A layer; `mixed`: the feed-forward network has a convolution of each channel inside."""
    wide, n = x.channels, x.positions + extra
    inside = (
        (Convolution(name="depthwise", inputs=inner, outputs=inner, kernel=9, groups=inner, bias=True),)
        if mixed
        else ()
    )
    return Block(name, (
        *at(n, (layer_norm("attn_norm", wide),)), *mixer,
        *at(n, (
            Add(name="attn_residual", width=wide), layer_norm("ffn_norm", wide),
            Linear(name="up_proj", inputs=wide, outputs=inner, bias=True, cut="columns"), *inside,
            Activation(name="act", width=inner, function=act, gated=False),
            Linear(name="down_proj", inputs=inner, outputs=wide, bias=True, cut="rows"),
            Add(name="ffn_residual", width=wide),
        )),
    ))  # fmt: skip


def pyramid_sight(c: Config) -> Sight:
    """SegFormer's encoder (arXiv:2105.15203), GLPN's, PVT (arXiv:2102.12122) and PVT v2 (arXiv:2106.13797)."""
    act, old = activation(c, default="gelu"), c.kind == "pvt"
    (height, width), own = pixels(c), both_sides(c, "image_size") if c.has("image_size") else (224, 224)
    ratios = next(key for key in ("sr_ratios", "sequence_reduction_ratios") if c.has(key))
    keys = ("depths", "hidden_sizes", "patch_sizes", "strides", "num_attention_heads", "mlp_ratios", ratios)
    lists = [stage_sizes(c, key) for key in keys]
    same_length(c, "depths", *lists)
    c.mark_read("num_encoder_blocks", "reshape_last_stage")
    bias, pooled = c.flag("qkv_bias", True), c.flag("linear_attention")
    x, blocks, maps, extra = Map(c.size("num_channels", 3), height, width), [], [], 0
    for i, (depth, wide, patch, stride, heads, times, ratio) in enumerate(zip(*lists, strict=True)):
        last = i + 1 == len(lists[0])
        step: MapStep = (
            conv("patch_embedding", wide, stride, patch, bias=True, padding=0) if old
            else conv("patch_embedding", wide, patch, stride, bias=True)
        )  # fmt: skip
        modules, x = chain(x, step)
        extra = int(old and last)
        if old:
            side = own[0] if i == 0 else own[0] // 2 ** (i + 1)
            rows = (side // patch) ** 2 + extra
            table = Learned(name="position_embedding", width=wide, rows=rows)
            token = (Learned(name="class_token", width=wide, applied=False),) if extra else ()
            modules = (*modules, *at(x.positions + extra, (table, *token)))
        blocks.append(Block(f"patches{i + 1}", modules))
        mixer = _attends(x, heads, Shrunk(ratio, pooled, bias), extra)
        layer = _layer(x, mixer, int(wide * times), act, mixed=not old, extra=extra, name=f"stage{i + 1}")
        blocks += [layer] * depth
        if not old or last:
            blocks.append(Block(f"norm{i + 1}", at(x.positions + extra, (layer_norm("stage_norm", wide),))))
        maps.append(x)
    return Sight((), tuple(blocks), x.channels, x.rows, x.columns, extra, tuple(maps))


@complete("pvt", "pvt_v2")
def pvt(c: Config) -> Model:
    """PVT (arXiv:2102.12122) and PVT v2 (arXiv:2106.13797)."""
    task, sight = head_of(c, CLASSIFIES, "Backbone"), pyramid_sight(c)
    return image_model(c, sight, classifier(c, sight.width) if task == CLASSIFIES else ())


@complete("segformer")
def segformer(c: Config) -> Model:
    """SegFormer (arXiv:2105.15203): a head of products over all maps."""
    task, sight = head_of(c, CLASSIFIES, "ForSemanticSegmentation"), pyramid_sight(c)
    wide, first = c.size("decoder_hidden_size", 256), sight.maps[0]
    if task != "ForSemanticSegmentation":
        return image_model(c, sight, classifier(c, sight.width) if task else ())
    products = tuple(
        m
        for i, x in enumerate(sight.maps)
        for m in at(
            x.positions, (Linear(name=f"map{i}_proj", inputs=x.channels, outputs=wide, bias=True, part="other"),)
        )
    )
    every = Map(len(sight.maps) * wide, first.rows, first.columns)
    fused, _ = chain(
        every, conv("fuse", wide, 1, act="relu"), conv("classifier", label_count(c), 1, bias=True, norm=None)
    )
    return image_model(c, sight, (*products, *fused))


@complete("glpn")
def glpn(c: Config) -> Model:
    """GLPN (arXiv:2201.07436): SegFormer's encoder, and a decoder that selects between maps."""
    task, sight = head_of(c, "ForDepthEstimation"), pyramid_sight(c)
    wide: int = c.size("decoder_hidden_size", 64)
    modules: Modules = ()
    c.mark_read("max_depth", "head_in_index", "decoder_hidden_size")
    for i, x in enumerate(reversed(sight.maps)):
        if x.channels != wide:
            modules += chain(x, conv(f"map{i}_proj", wide, 1, bias=True, norm=None))[0]
        if i:
            modules += chain(
                Map(2 * wide, x.rows, x.columns),
                conv(f"fuse{i}a", wide, bias=True, act="relu"),
                conv(f"fuse{i}b", wide // 2, bias=True, act="relu"),
                conv(f"fuse{i}c", 2, bias=True, norm=None, act="sigmoid"),
                lambda y: ((), Map(wide, y.rows, y.columns)),
                everywhere(Add(name=f"fuse{i}_sum", width=wide)),
            )[0]
    top = sight.maps[0]
    end = Map(wide, 4 * top.rows, 4 * top.columns)
    modules += chain(
        end, conv("head1", wide, bias=True, norm=None, act="relu"), conv("head2", 1, bias=True, norm=None)
    )[0]
    return image_model(c, sight, modules if task else ())
