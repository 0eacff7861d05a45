"""Depth of images: DPT and Depth Anything, which fuse maps of a vision transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roofline.declared.errors import InputError
from roofline.model.configs.config import LARGEST_SIZE, Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.images.convolutions import chain, conv, everywhere, resized, transposed
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    both_sides,
    head_of,
    image_model,
    indices,
    not_used,
    over,
    patched,
    plain_mlp,
    pooler,
    sees_all,
    stage_sizes,
    vision_dims,
    vision_layer,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import backbone_of, shown
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Learned, Linear, Modules

DEPTH, SEGMENTS = "ForDepthEstimation", "ForSemanticSegmentation"


def factors_of(c: Config, key: str = "reassemble_factors") -> list[float]:
    """How much each map grows (4, 2, 1) or shrinks (0.5)."""
    factors = c.value(key, [4, 2, 1, 0.5])[1]
    if not isinstance(factors, (list, tuple)) or any(
        isinstance(f, bool) or not isinstance(f, (int, float)) or not 0.01 <= f <= LARGEST_SIZE for f in factors
    ):
        raise InputError(c.field(key), factors, "a list of numbers above 0")
    return [float(f) for f in factors]


def reassembled(c: Config, x: Map, read: Modules = (), given: Sequence[Map] = ()) -> tuple[Modules, list[Map]]:
    """Maps of several sizes from maps of one: a product, then a convolution that enlarges or shrinks it.

    `given`: the first maps, which a network in front of the transformer made.
    """
    modules: Modules = ()
    maps: list[Map] = []
    widths, factors = stage_sizes(c, "neck_hidden_sizes"), factors_of(c)
    if len(widths) != len(factors):
        raise c.error("neck_hidden_sizes", "as many entries as reassemble_factors")
    for i, (wide, factor) in enumerate(zip(widths, factors, strict=True)):
        if i < len(given):
            maps.append(replace(given[i], channels=wide))
            continue
        steps = [conv(f"map{i}_proj", wide, 1, bias=True, norm=None)]
        if factor > 1:
            steps.append(transposed(f"map{i}_resize", wide, int(factor), int(factor)))
        elif factor < 1:
            steps.append(conv(f"map{i}_resize", wide, 3, int(1 / factor), bias=True, norm=None))
        built, y = chain(x, *steps)
        before = tuple(replace(m, name=f"map{i}_{m.name}") for m in at(x.positions, read))
        modules, maps = (*modules, *before, *built), [*maps, y]
    return modules, maps


def fused(
    c: Config, maps: Sequence[Map], *, doubled: bool, bias: bool = True, norm: bool = False, spare: bool = True
) -> tuple[Modules, Map]:
    """Maps of one width, added from the smallest to the largest (arXiv:2103.13413, §3.2).

    `doubled`: each sum is twice as large as its map; otherwise as large as the next map. `spare`: the smallest map has
    the weights of a sum, which are not used.
    """
    wide = c.size("fusion_hidden_size", 256)
    modules: Modules = ()
    levels: list[Map] = []
    for i, x in enumerate(maps):
        step, y = chain(x, conv(f"map{i}_conv", wide, 3, norm=None))
        modules, levels = (*modules, *step), [*levels, y]
    y = levels[-1]
    for i, x in enumerate(reversed(levels)):

        def unit(name: str, over: Map) -> Modules:
            built, _ = chain(over, *(
                stage for j in (1, 2) for stage in (
                    everywhere(Activation(name=f"{name}_act{j}", width=wide, function="relu", gated=False)),
                    conv(f"{name}_conv{j}", wide, 3, bias=bias, norm=layer_norm if norm else None),
                )
            ), everywhere(Add(name=f"{name}_residual", width=wide)))  # fmt: skip
            return built

        y = Map(wide, x.rows, x.columns) if i == 0 else y
        beside = unit(f"fuse{i}_skip", y)
        own = unit(f"fuse{i}", y)
        last = i + 1 == len(levels)
        below = levels[-2 - i] if not last else y
        z = Map(wide, 2 * y.rows, 2 * y.columns) if doubled or last else Map(wide, below.rows, below.columns)
        product, y = chain(y, resized(z.rows, z.columns), conv(f"fuse{i}_proj", wide, 1, bias=True, norm=None))
        modules = (*modules, *(beside if i else not_used(beside) if spare else ()), *own, *product)
    return modules, y


def depth_head(y: Map, rows: int, columns: int, inner: int) -> Modules:
    """Depth at every pixel from three convolutions."""
    half = y.channels // 2
    return chain(
        y,
        conv("head1", half, bias=True, norm=None),
        resized(rows, columns),
        conv("head2", inner, bias=True, norm=None, act="relu"),
        conv("head3", 1, 1, bias=True, norm=None, act="relu"),
    )[0]


@complete("depth_anything", "prompt_depth_anything")
def depth_anything(c: Config) -> Model:
    """Depth Anything (arXiv:2401.10891) and v2 (arXiv:2406.09414): DINOv2 with DPT's head.

    Prompt Depth Anything (arXiv:2412.14015) also reads a coarse map of depth, without which a step is counted.
    """
    head_of(c, DEPTH)
    c = shown(c, 518, 518)
    sight, _ = backbone_of(c)
    patch = c.size("patch_size", 14)
    built, maps = reassembled(c, Map(c.size("reassemble_hidden_size", sight.width), sight.rows, sight.columns))
    fuse, y = fused(c, maps, doubled=False)
    head = depth_head(y, sight.rows * patch, sight.columns * patch, c.size("head_hidden_size", 32))
    c.mark_read("depth_estimation_type", "max_depth", "head_in_index")
    blocks = [Block("reassemble", built), Block("fuse", fuse)]
    if c.kind == "prompt_depth_anything":
        wide = c.size("fusion_hidden_size", 64)
        reads, _ = chain(Map(1, y.rows, y.columns), *(conv(f"prompt{j}", wide, bias=True, norm=None) for j in range(3)))
        blocks += [Block("prompt", not_used(reads))] * len(maps)
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)), head)


@complete("dpt")
def dpt(c: Config) -> Model:
    """DPT (arXiv:2103.13413) over a vision transformer of its own, or a backbone of one size."""
    task = head_of(c, DEPTH, SEGMENTS)
    c, act, early = shown(c, 384, 384), activation(c, default="gelu"), list[Map]()
    if c.flag("is_hybrid"):
        sight, early = _hybrid_sight(c, act)
    elif c.raw.get("backbone_config") and task == DEPTH:
        sight, _ = backbone_of(c)
    else:
        sight = _dpt_sight(c, act)
    c.mark_read("pooler_output_size", "pooler_act", "backbone_out_indices", "backbone_featmap_shape", "backbone_config")
    if not task:
        c.mark_read("readout_type", "reassemble_factors", "neck_hidden_sizes", "fusion_hidden_size", "head_in_index")
        c.mark_read("use_batch_norm_in_fusion_residual", "add_projection", "use_auxiliary_head", "neck_ignore_stages")
        return image_model(
            c, sight, pooler(sight.width, c.size("pooler_output_size", None), c.text("pooler_act", "tanh"))
        )
    if indices(c, "neck_ignore_stages") != list(range(len(early))) and (early or c.get("neck_ignore_stages")):
        raise c.error("neck_ignore_stages", "0 and 1 for a transformer behind a ResNet, else an empty list")
    x = Map(sight.width, sight.rows, sight.columns)
    projects = c.text("readout_type", "project", ("project", "add", "ignore")) == "project"
    read = (
        Linear(name="read_proj", inputs=2 * x.channels, outputs=x.channels, bias=True, part="other"),
        Activation(name="read_act", width=x.channels, function=act, gated=False),
    ) if projects else ()  # fmt: skip
    built, maps = reassembled(c, x, read, early)
    norm = c.flag("use_batch_norm_in_fusion_residual")
    given = c.get("use_bias_in_fusion_residual")
    c.mark_read("use_bias_in_fusion_residual", "head_in_index", "semantic_classifier_dropout")
    bias = given if isinstance(given, bool) else not norm
    fuse, y = fused(c, maps, doubled=True, bias=bias, norm=norm)
    blocks = (*sight.blocks, Block("reassemble", built), Block("fuse", fuse))
    if task == SEGMENTS:
        head = _segments(c, y, "head")
        c.mark_read("add_projection")
        aside = _segments(c, y, "auxiliary") if c.flag("use_auxiliary_head", True) else ()
        return image_model(c, replace(sight, blocks=blocks), (*head, *aside))
    extra = chain(y, conv("projection", 256, bias=True, norm=None, act="relu"))[0] if c.flag("add_projection") else ()
    c.mark_read("use_auxiliary_head")
    return image_model(c, replace(sight, blocks=blocks), (*extra, *depth_head(y, 2 * y.rows, 2 * y.columns, 32)))


def _dpt_sight(c: Config, act: str) -> Sight:
    d, bias = vision_dims(c), c.flag("qkv_bias", True)
    block = vision_layer(d.width, sees_all(d, (bias, bias, bias)), plain_mlp(c, d.width, act))
    return patched(c, d, block, after=(layer_norm("final_norm", d.width),))


def _hybrid_sight(c: Config, act: str) -> tuple[Sight, list[Map]]:
    """A transformer over the last map of a ResNet, and that network's first two maps."""
    inside, maps = backbone_of(c)
    c.mark_read("num_channels")
    if len(maps) != 3:
        raise c.error("backbone_config", "a network that gives three maps")
    d, bias, x = vision_dims(c), c.flag("qkv_bias", True), maps[-1]
    own, patch = both_sides(c, "image_size", 384), both_sides(c, "patch_size", 16)
    product, _ = chain(x, conv("patch_proj", d.width, 1, bias=True, norm=None))
    rows, n = own[0] // patch[0] * (own[1] // patch[1]) + 1, x.positions + 1
    tokens = (
        Learned(name="class_token", width=d.width, applied=False),
        Learned(name="position_embedding", width=d.width, rows=rows),
    )
    block = over(n, vision_layer(d.width, sees_all(d, (bias, bias, bias)), plain_mlp(c, d.width, act)))
    stack = [Block("patches", (*product, *at(n, tokens))), *[block] * d.layers]
    last = Block("norm", at(n, (layer_norm("final_norm", d.width),)))
    sight = Sight(inside.front, (*inside.blocks, *stack, last), d.width, x.rows, x.columns, 1)
    return sight, maps[:2]


def _segments(c: Config, y: Map, name: str) -> Modules:
    return chain(
        y, conv(f"{name}1", y.channels, act="relu"), conv(f"{name}2", label_count(c), 1, bias=True, norm=None)
    )[0]


# -- TIPS ----------------------------------------------------------------------------------------------------------
@complete("tipsv2_dpt")
def tipsv2_dpt(c: Config) -> Model:
    """TIPS v2 with DPT's head for depth, normals or labels, or one for each of them."""
    every = "ForDensePrediction"
    task, c = head_of(c, DEPTH, SEGMENTS, "ForNormalEstimation", every), shown(c, 448, 448)
    sight, _ = backbone_of(c)
    act = activation(c, "readout_activation", "gelu_pytorch_tanh")
    bins, labels = c.size("num_depth_bins", 256), label_count(c)
    outputs = {DEPTH: (bins,), SEGMENTS: (labels,), "ForNormalEstimation": (3,), every: (bins, 3, labels)}
    read = (
        Linear(name="read_proj", inputs=2 * sight.width, outputs=sight.width, bias=True, part="other"),
        Activation(name="read_act", width=sight.width, function=act, gated=False),
    )
    built, maps = reassembled(c, Map(sight.width, sight.rows, sight.columns), read)
    fuse, y = fused(c, maps, doubled=True, bias=False, spare=False)
    blocks = []
    for count in outputs.get(task, (labels,)):
        scores = Linear(name="scores", inputs=y.channels, outputs=count, bias=True, part="head")
        head, _ = chain(y, conv("project", y.channels, bias=True, norm=None), everywhere(scores))
        blocks += [Block("reassemble", built), Block("fuse", fuse), Block("decoder", head)]
    c.mark_read("depth_decoder_activation", "min_depth", "max_depth", "num_depth_bins", "semantic_loss_ignore_index")
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)))
