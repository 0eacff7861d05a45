"""Detectors that refine distributions of the edges of boxes: D-FINE, DEIMv2; PP-DocLayout's reading order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import chain, conv, in_groups, pool
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    head_of,
    image_model,
    not_used,
    over,
    read_part,
    sees_all,
    stage_sizes,
)
from roofline.model.families.blocks.layers import again, layer
from roofline.model.families.blocks.norms import MakeNorm, layer_norm, rms
from roofline.model.families.blocks.projections import column_product
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import backbone_of, frozen_norms, shown
from roofline.model.families.vision.detection.detr import (
    DETECTS,
    heads_of,
    levels_of,
    mark_detector,
    proposes,
    pyramid,
    samples,
    smallest_attends,
)
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Embedding, Gate, Learned, Linear, Modules

MapStage = Callable[[str, Map], Modules]
"""Name and map → the modules of a stage of the pyramid, which keeps the size of the map."""


def _backbone(c: Config) -> tuple[Sight, list[Map]]:
    sight, maps = backbone_of(c)
    return (frozen_norms(sight) if c.flag("freeze_backbone_batch_norms", True) else sight), maps


def _rep(x: Map, name: str, act: str) -> tuple[Modules, Map]:
    """A RepVGG block (arXiv:2101.03697): two convolutions beside each other."""
    beside, y = chain(x, conv(f"{name}_3x3", x.channels))
    narrow, _ = chain(x, conv(f"{name}_1x1", x.channels, 1))
    ends = (
        Add(name=f"{name}_sum", width=x.channels),
        Activation(name=f"{name}_act", width=x.channels, function=act, gated=False),
    )
    return (*beside, *narrow, *at(y.positions, ends)), y


def _csp(x: Map, outputs: int, count: int, act: str, name: str) -> Modules:
    """Two products, one through RepVGG blocks."""
    first, y = chain(x, conv(f"{name}_conv1", outputs, 1, act=act))
    second, _ = chain(x, conv(f"{name}_conv2", outputs, 1, act=act))
    parts: Modules = ()
    for i in range(count):
        built, y = _rep(y, f"{name}_rep{i}", act)
        parts += built
    return (*first, *second, *parts, *at(y.positions, (Add(name=f"{name}_sum", width=outputs),)))


def _joined_csp(x: Map, outputs: int, count: int, act: str, name: str, last: bool) -> Modules:
    """A CSP stage of RepVGG blocks: one product for both halves, and a convolution behind them where `last`."""
    first, _ = chain(x, conv(f"{name}_conv1", 2 * outputs, 1, act=act))
    y, parts = Map(outputs, x.rows, x.columns), first
    for i in range(count):
        built, y = _rep(y, f"{name}_rep{i}", act)
        parts += built
    end = chain(y, conv(f"{name}_conv2", outputs, act=act))[0] if last else ()
    return (*parts, *at(y.positions, (Add(name=f"{name}_sum", width=outputs),)), *end)


def _elan(c: Config) -> MapStage:
    """D-FINE's stage: both halves of a product and two CSP layers, each with a convolution, gathered."""
    wide, act, count = c.size("encoder_hidden_dim", 256), activation(c, "activation_function"), _depth(c)
    inner = round(c.number("hidden_expansion", 1.0) * wide // 2)

    def stage(name: str, x: Map) -> Modules:
        both, half = Map(2 * wide, x.rows, x.columns), Map(wide, x.rows, x.columns)
        y = Map(inner, x.rows, x.columns)
        return (
            *chain(both, conv(f"{name}_conv1", 2 * wide, 1, act="silu"))[0],
            *_csp(half, inner, count, act, f"{name}_csp1"), *chain(y, conv(f"{name}_conv2", inner, act="silu"))[0],
            *_csp(y, inner, count, act, f"{name}_csp2"), *chain(y, conv(f"{name}_conv3", inner, act="silu"))[0],
            *chain(Map(2 * wide + 2 * inner, x.rows, x.columns), conv(f"{name}_conv4", wide, 1, act="silu"))[0],
        )  # fmt: skip

    return stage


def _light_elan(c: Config) -> MapStage:
    """DEIMv2's stage."""
    wide, act, count = c.size("encoder_hidden_dim", 256), activation(c, "activation_function"), _depth(c)
    inner, last = round(c.number("hidden_expansion", 1.0) * wide // 2), c.flag("encoder_has_trailing_conv", True)

    def stage(name: str, x: Map) -> Modules:
        return (
            *chain(x, conv(f"{name}_conv1", 2 * wide, 1, act=act))[0],
            *_joined_csp(x, inner, count, act, f"{name}_csp1", last),
            *_joined_csp(Map(inner, x.rows, x.columns), inner, count, act, f"{name}_csp2", last),
            *chain(Map(2 * wide + 2 * inner, x.rows, x.columns), conv(f"{name}_conv2", wide, 1, act=act))[0],
        )

    return stage


def _depth(c: Config) -> int:
    return round(3 * float(c.number("depth_mult", 1.0)))


def _both_ways(levels: Sequence[Map], stage: MapStage) -> list[Block]:
    """From the smallest map to the largest, and back."""
    blocks = []
    for i in range(len(levels) - 1, 0, -1):
        lateral, _ = chain(levels[i], conv("lateral", levels[i].channels, 1))
        blocks.append(Block("pyramid", (*lateral, *stage("fpn", levels[i - 1]))))
    for x in levels[:-1]:
        down, y = chain(x, conv("down1", x.channels, 1), in_groups(conv("down2", x.channels, 3, 2)))
        blocks.append(Block("back", (*down, *stage("pan", y))))
    return blocks


# -- D-FINE and DEIMv2 ---------------------------------------------------------------------------------------------
def _spots(d: Dims, points: int) -> Modules:
    """Deformable attention without products of its values and outputs."""
    return (
        column_product("cross_offsets", d.width, 2 * d.heads * points, True, beside=True),
        column_product("cross_weights", d.width, d.heads * points, True, beside=True),
        Add(name="cross_samples", width=d.width * points),
    )


def _points(c: Config, levels: int) -> int:
    points = c.value("decoder_n_points", 4)[1]
    if isinstance(points, (list, tuple)) and all(type(p) is int and 0 < p <= 1024 for p in points):
        return sum(points)
    return levels * c.size("decoder_n_points", 4)


def _refined(
    c: Config, sight: Sight, blocks: list[Block], levels: Sequence[Map], ffn: Modules, norm: MakeNorm
) -> Model:
    """Queries whose boxes each layer refines, for the maps of a pyramid.

    Each layer has a head of boxes of its own unless `share_bbox_head`, and one of classes, of which the last is used.
    """
    task, width, queries = head_of(c, DETECTS), c.size("d_model|hidden_size", 256), c.size("num_queries", 300)
    labels, count, second = label_count(c), c.size("num_feature_levels", 3), c.kind == "deimv2"
    heads, layers = c.size("decoder_attention_heads", 8), c.size("decoder_layers", 6)
    if c.get("eval_idx") not in (None, -1, layers - 1):
        raise c.error("eval_idx", "the last layer, as published models have")
    kept = width == stage_sizes(c, "decoder_in_channels")[-1]
    mixed, every = ((), [*levels, *[levels[-1]] * (count - len(levels))]) if kept else levels_of(
        c, levels, width, count, bias=False, name="decoder_input"
    )  # fmt: skip
    n, edges = sum(x.positions for x in every), 4 * (c.size("max_num_bins", 32) + 1)
    boxes = heads_of("box", width, width, width, 4)
    blocks.append(Block("queries", (*mixed, *proposes(c, n, labels, boxes, denoised=labels + 1))))
    d = Dims(layers, width, heads, heads, width // heads)
    gate = (
        Linear(name="gate_proj", inputs=2 * width, outputs=2 * width, bias=True),
        Gate(name="gate", width=2 * width, gates=2 * width), Add(name="cross_residual", width=width),
        norm("gate_norm", width),
    ) if c.flag("use_gateway", True) else (
        Add(name="cross_residual", width=width), norm("cross_norm", width),
    )  # fmt: skip
    own = layer("decoder", width, sees_all(d), norm=norm, before=False, after=True)
    feeds = layer("decoder", width, (), ffn, norm=norm, before=False, after=True)
    place = heads_of("place", 4, *((width, width) if second else (2 * width,)), width)
    tops, inner, deep = c.size("top_prob_values", 4), c.size("lqe_hidden_dim", 64), c.size("lqe_layers", 2)
    quality = heads_of("quality", 4 * (tops + 1), *[inner] * (deep - 1), 1)
    shape = heads_of("edges", width, width, width, edges)
    shared = c.flag("share_bbox_head")
    for i in range(layers):
        last, first = i + 1 == layers, i == 0
        score: Modules = (Linear(name="class", inputs=width, outputs=labels, bias=True, part="other"),) if task else ()
        blocks.append(over(queries, Block("decoder", (
            *(place if first else again(place)), *own.modules, *_spots(d, _points(c, count)), *gate, *feeds.modules,
            *(heads_of("first_box", width, width, width, 4) if first else ()),
            *((shape if first or not shared else again(shape)) if task else ()),
            *(score if last else not_used(score)), *(quality if last and task else not_used(quality)),
        ))))  # fmt: skip
    steps = Learned(name="steps", width=1, rows=2, applied=False)
    model = image_model(c, replace(sight, blocks=(*sight.blocks, *blocks, Block("steps", at(queries, (steps,))))))
    mark_detector(c)
    c.mark_read("layer_scale", "reg_scale", "up", "eval_idx", "use_dense_one_to_one", "mal_alpha", "encoder_fuse_op")
    return model


@complete("d_fine")
def d_fine(c: Config) -> Model:
    """D-FINE (arXiv:2410.13842)."""
    c = shown(c, 640, 640)
    sight, maps = _backbone(c)
    blocks, levels = smallest_attends(c, maps)
    blocks += _both_ways(levels, _elan(c))
    act = activation(c, "decoder_activation_function", "relu")
    ffn = mlp(c.size("d_model|hidden_size", 256), c.size("decoder_ffn_dim", 1024), act, gated=False, bias=True)
    return _refined(c, sight, blocks, levels, ffn, layer_norm)


def _tuned(c: Config) -> tuple[Sight, list[Block], list[Map]]:
    """DINOv3 whose maps are joined with those of a few convolutions of the image (arXiv:2509.20787)."""
    sight, maps = backbone_of(c)
    part, wide, thin = (
        read_part(c, "backbone_config"),
        c.size("encoder_hidden_dim", 256),
        c.size("spatial_tuning_adapter_inplanes", 16),
    )
    image = Map(3, sight.rows * part.size("patch_size"), sight.columns * part.size("patch_size"))
    modules, x = chain(image, conv("tune1", thin, 3, 2, act="gelu"), pool(3, 2, 1))
    levels: list[Map] = []
    for i, times in enumerate((2, 4, 4)):
        built, x = chain(x, conv(f"tune{i + 2}", times * thin, 3, 2, act="" if i == 2 else "gelu"))
        both = Map(sight.width + x.channels, x.rows, x.columns)
        product, y = chain(both, conv(f"fuse{i}", wide, 1))
        modules, levels = (*modules, *built, *product), [*levels, y]
    if len(maps) != len(levels):
        raise part.error("out_indices", "three layers")
    return sight, [Block("tuning", modules)], levels


def _lite(c: Config, maps: Sequence[Map], stage: MapStage) -> tuple[list[Block], list[Map]]:
    """The pyramid of the smallest DEIMv2: two maps, without attention."""
    wide, act = c.size("encoder_hidden_dim", 256), activation(c, "activation_function")
    inputs: Modules = ()
    for i, x in enumerate(maps):
        inputs += chain(x, conv(f"input{i}", wide, 1))[0]
    last, below = chain(Map(wide, maps[-1].rows, maps[-1].columns), pool(3, 2, 1), conv("down1", wide, 1, act=act))
    fusion, _ = chain(below, conv("fusion", wide, 1, act=act))
    levels = [Map(wide, x.rows, x.columns) for x in (*maps, below)][:2]
    down, _ = chain(levels[0], pool(3, 2, 1), conv("down2", wide, 1, act=act))
    return [
        Block("inputs", (*inputs, *last, *fusion)), Block("pyramid", stage("fpn", levels[0])),
        Block("back", (*down, *stage("pan", levels[1]))),
    ], levels  # fmt: skip


@complete("deimv2")
def deimv2(c: Config) -> Model:
    """DEIMv2 (arXiv:2509.20787): D-FINE over DINOv3 or HGNet v2, with lighter stages and SwiGLU."""
    c = shown(c, 640, 640)
    stage, lite = _light_elan(c), c.text("encoder_type", "hybrid", ("hybrid", "lite")) == "lite"
    if read_part(c, "backbone_config").kind == "dinov3_vit":
        sight, tuned, maps = _tuned(c)
        c.flag("freeze_backbone_batch_norms", True)
    else:
        (sight, maps), tuned = _backbone(c), []
    if lite:
        blocks, levels = _lite(c, maps, stage)
        c.mark_read("encode_proj_layers", "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim")
        c.mark_read("encoder_activation_function")
    else:
        blocks, levels = smallest_attends(c, maps, projects=not tuned)
        blocks += _both_ways(levels, stage)
    width = c.size("d_model|hidden_size", 256)
    c.mark_read("decoder_activation_function", "spatial_tuning_adapter_inplanes")
    ffn = mlp(width, c.size("decoder_ffn_dim", 1024) // 2, "silu", bias=True)
    return _refined(c, sight, [*tuned, *blocks], levels, ffn, rms)


# -- PP-DocLayout --------------------------------------------------------------------------------------------------
def _decodes(c: Config, width: int, n: int) -> tuple[Block, Dims]:
    """A layer of RT-DETR's queries over `n` positions of all maps."""
    heads, act = c.size("decoder_attention_heads", 8), activation(c, "decoder_activation_function", "relu")
    d = Dims(c.size("decoder_layers", 6), width, heads, heads, width // heads)
    own = layer("decoder", width, sees_all(d), norm=layer_norm, before=False, after=True)
    points = c.size("num_feature_levels", 3) * c.size("decoder_n_points", 4)
    looks = samples(width, heads, points, n, "cross_")
    ffn = mlp(width, c.size("decoder_ffn_dim", 1024), act, gated=False, bias=True)
    feeds = layer("decoder", width, (), ffn, norm=layer_norm, before=False, after=True)
    cross = (*looks, Add(name="cross_residual", width=width), layer_norm("cross_norm", width))
    return Block("decoder", (*own.modules, *cross, *feeds.modules)), d


@complete("pp_doclayout_v4")
def pp_doclayout_v4(c: Config) -> Model:
    """PP-DocLayout v4: boxes of four corners, and which of two comes first on a page."""
    head_of(c, DETECTS)
    c = shown(c, 640, 640)
    act, width, queries = (
        activation(c, "activation_function"),
        c.size("d_model|hidden_size", 256),
        c.size("num_queries", 300),
    )
    sight, maps = _backbone(c)
    blocks, levels = smallest_attends(c, maps)
    blocks += pyramid(c, levels, c.size("encoder_hidden_dim", 256), act)
    mixed, every = levels_of(c, levels, width, c.size("num_feature_levels", 3), bias=False, name="decoder_input")
    n, labels, corners = sum(x.positions for x in every), label_count(c), c.size("num_coords", 10)
    boxes = heads_of("box", width, width, width, corners)
    blocks.append(Block("queries", (*mixed, *proposes(c, n, labels, boxes, denoised=labels))))
    block, d = _decodes(c, width, n)
    place, pointer = heads_of("place", corners, 2 * width, width), c.size("global_pointer_head_size", 64)
    powers, damped = c.size("s2r_steps", 3), Linear(name="power", inputs=queries, outputs=queries, tied=True)

    def ordered(name: str) -> Modules:
        return (
            *(Linear(name=f"{name}_query_proj", inputs=width, outputs=width, bias=True),),
            Linear(name=f"{name}_q_proj", inputs=width, outputs=pointer, bias=True),
            Linear(name=f"{name}_k_proj", inputs=width, outputs=pointer, bias=True),
            Linear(name=f"{name}_products", inputs=pointer, outputs=queries, tied=True, part="other"),
        )

    for i in range(d.layers):
        last = i + 1 == d.layers
        score = (Linear(name="class", inputs=width, outputs=labels, bias=True, part="other"),)
        unused = tuple(
            Linear(name=f"{name}_query_proj", inputs=width, outputs=width, bias=True)
            for name in ("successor", "relative")
        )
        ends = (*score, *ordered("successor"), *ordered("relative")) if last else not_used((*score, *unused))
        blocks.append(over(queries, Block("decoder", (
            *(place if i == 0 else again(place)), *block.modules, *boxes, *ends,
        ))))  # fmt: skip
    closure = tuple(replace(damped, name=f"power{i}", part="other") for i in range(powers - 1))
    blocks.append(
        Block("order", at(queries, (Learned(name="closure_weight", width=1, rows=1, applied=False), *closure)))
    )
    mark_detector(c)
    c.mark_read("s2r_damping", "s2r_closure_weight_init", "gp_dropout_value")
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)))


def _mask_map(c: Config, fine: Map, levels: Sequence[Map]) -> tuple[Modules, Map]:
    """A map of masks at a quarter of the image: those of the pyramid added, then the backbone's first."""
    first, second = stage_sizes(c, "mask_feature_channels")
    strides = stage_sizes(c, "feat_strides")
    if len(strides) != len(levels) or list(strides) != sorted(strides):
        raise c.error("feat_strides", "rising, one for each map")
    modules: Modules = ()
    for i, (x, stride) in enumerate(zip(levels, strides, strict=True)):
        y = x
        for j in range(max(1, int(math.log2(stride) - math.log2(strides[0])))):
            built, y = chain(y, conv(f"scale{i}_{j}", first, act="silu"))
            modules += built
            y = Map(y.channels, 2 * y.rows, 2 * y.columns) if stride != strides[0] else y
    out, y = chain(Map(first, levels[0].rows, levels[0].columns), conv("mask_out", second, act="silu"))
    beside, y = chain(fine, conv("mask_lateral", second, act="silu"))
    count = c.size("num_prototypes", 32)
    last, y = chain(y, conv("mask_base", second, act="silu"), conv("prototypes", count, 1, bias=True, norm=None))
    return (*modules, *out, *beside, *last), y


@complete("pp_doclayout_v3")
def pp_doclayout_v3(c: Config) -> Model:
    """PP-DocLayout v3: masks of layout elements, and their order from each layer's queries."""
    head_of(c, DETECTS)
    c = shown(c, 640, 640)
    act, width, queries = (
        activation(c, "activation_function"),
        c.size("d_model|hidden_size", 256),
        c.size("num_queries", 300),
    )
    sight, (fine, *maps) = _backbone(c)
    blocks, levels = smallest_attends(c, maps)
    blocks += pyramid(c, levels, c.size("encoder_hidden_dim", 256), act)
    masks, y = _mask_map(c, fine, levels)
    mixed, every = levels_of(c, levels, width, c.size("num_feature_levels", 3), bias=False, name="decoder_input")
    n, labels, pointer = sum(x.positions for x in every), label_count(c), c.size("global_pointer_head_size", 64)
    boxes, count = heads_of("box", width, width, width, 4), c.size("num_prototypes", 32)
    product = Linear(name="masks", inputs=count, outputs=y.positions, tied=True, part="other")
    asks = (layer_norm("decoder_norm", width), *heads_of("mask_query", width, width, width, count))
    blocks += [
        Block("masks", masks), Block("queries", (*mixed, *proposes(c, n, labels, boxes, denoised=labels))),
        Block("first masks", at(queries, (*asks, *((product,) if c.flag("mask_enhanced", True) else ())))),
    ]  # fmt: skip
    block, d = _decodes(c, width, n)
    place = heads_of("place", 4, 2 * width, width)
    score = (Linear(name="class", inputs=width, outputs=labels, bias=True, part="other"),)
    points = (Linear(name="pointer", inputs=width, outputs=2 * pointer, bias=True),)
    for i in range(d.layers):
        first = i == 0
        blocks.append(over(queries, Block("decoder", (
            *(place if first else again(place)), *block.modules, *again(boxes), *again(asks), product,
            *again(score), Linear(name="order", inputs=width, outputs=width, bias=True),
            *(points if first else again(points)),
            Linear(name="order_products", inputs=pointer, outputs=queries, tied=True, part="other"),
        ))))  # fmt: skip
    mark_detector(c)
    c.mark_read("gp_dropout_value", "x4_feat_dim", "disable_custom_kernels")
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)))


def _reading_order(c: Config, count: int) -> list[Block]:
    """An encoder of boxes and their kinds that says which of two is read first, for `count` boxes and two ends."""
    width, heads, n = c.size("hidden_size", 512), c.size("num_attention_heads", 8), count + 2
    act, places, sizes = activation(c, default="gelu"), c.size("coordinate_size", 171), c.size("shape_size", 170)
    grid, rank = c.size("max_2d_position_embeddings", 1024), c.size("global_pointer_head_size", 64)

    def table(name: str, rows: int, wide: int) -> Embedding:
        return Embedding(name=name, rows=rows, width=wide)

    front = at(n, (
        table("words", c.size("vocab_size", 4), width), table("types", c.size("type_vocab_size", 1), width),
        table("positions", c.size("max_position_embeddings", 514), width), table("x", grid, places),
        table("y", grid, places), table("heights", grid, sizes), table("widths", grid, sizes),
        Linear(name="box_proj", inputs=4 * places + 2 * sizes, outputs=width, bias=True), layer_norm("norm", width),
    ))  # fmt: skip
    labels = at(count, (
        table("kinds", c.size("num_classes", 20), width),
        Linear(name="kind_proj", inputs=width, outputs=width, bias=True),
    ))  # fmt: skip
    biases: Modules = ()
    if c.flag("has_relative_attention_bias"):
        biases += not_used((Linear(name="distances", inputs=c.size("rel_pos_bins", 32), outputs=heads),))
    if c.flag("has_spatial_attention_bias", True):
        bins = c.size("rel_2d_pos_bins", 64)
        biases += not_used(Linear(name=f"distances_{side}", inputs=bins, outputs=heads) for side in "xy")
    wide = 4 * c.size("relation_bias_embed_dim", 16)
    relation = at(n * n, (Linear(name="relation", inputs=wide, outputs=heads, bias=True, part="other"),))
    if not c.flag("has_spatial_attention_bias", True):
        relation = not_used(relation)
    ffn = mlp(width, c.size("intermediate_size", 2048), act, gated=False, bias=True)
    d = Dims(c.size("num_hidden_layers", 6), width, heads, heads, width // heads)
    block = over(n, layer("order", width, sees_all(d), ffn, norm=layer_norm, before=False, after=True))
    points = at(count, (
        Linear(name="pointer", inputs=width, outputs=2 * rank, bias=True),
        Linear(name="order_products", inputs=rank, outputs=count, tied=True, part="other"),
    ))  # fmt: skip
    c.mark_read(*c.raw)
    return [Block("order front", (*front, *labels, *biases, *relation)), *[block] * d.layers, Block("order", points)]


@complete("pp_doclayout_v2")
def pp_doclayout_v2(c: Config) -> Model:
    """PP-DocLayout v2: RT-DETR, and an encoder of all boxes that orders them."""
    task, c = head_of(c, DETECTS), shown(c, 640, 640)
    act, width = activation(c, "activation_function"), c.size("d_model|hidden_size", 256)
    queries = c.size("num_queries", 300)
    sight, maps = _backbone(c)
    blocks, levels = smallest_attends(c, maps)
    blocks += pyramid(c, levels, c.size("encoder_hidden_dim", 256), act)
    mixed, every = levels_of(c, levels, width, c.size("num_feature_levels", 3), bias=False, name="decoder_input")
    n, labels = sum(x.positions for x in every), label_count(c)
    boxes = heads_of("box", width, width, width, 4)
    blocks.append(Block("queries", (*mixed, *proposes(c, n, labels, boxes, denoised=labels))))
    block, d = _decodes(c, width, n)
    place = heads_of("place", 4, 2 * width, width)
    score = Linear(name="class", inputs=width, outputs=labels, bias=True, part="other")
    for i in range(d.layers):
        ends = (*boxes, score) if task else ()
        blocks.append(over(queries, Block("decoder", (*(place if i == 0 else again(place)), *block.modules, *ends))))
    if task:
        blocks += _reading_order(c.section("reading_order_config"), queries)
    mark_detector(c)
    c.mark_read("class_order", "class_thresholds", "reading_order_config")
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)))
