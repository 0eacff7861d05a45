"""Depth Pro: one vision transformer over an image at several sizes, cut into patches, and one over all of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from roofline.declared.errors import InputError
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv, everywhere, resized, transposed
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    head_of,
    image_model,
    not_used,
    read_part,
    stage_sizes,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import shown
from roofline.model.families.vision.maps.dpt import DEPTH
from roofline.model.families.vision.vit import dinov2_sight
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Linear, Modules


def _inside(c: Config, key: str, side: int | None = None) -> Sight:
    """DINOv2 of a section, for an image of `side` pixels or of the size of its config."""
    part = read_part(c, key)
    if part.kind not in ("dinov2", "dinov2_with_registers"):
        raise InputError(part.field("model_type"), part.kind, "a backbone that is covered: dinov2")
    size = side or part.size("image_size")
    return dinov2_sight(replace(part, own_inputs=replace(c.inputs, height=size, width=size)))


def _numbers(c: Config, key: str) -> list[float]:
    value = c.value(key)[1]
    if not isinstance(value, (list, tuple)) or not 0 < len(value) <= MOST_LAYERS:
        raise c.error(key, "a list of numbers")
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) or not 0 <= v <= 64 for v in value):
        raise c.error(key, "numbers from 0 to 64")
    return [float(v) for v in value if isinstance(v, (int, float))]


def _patches(c: Config, height: int, width: int, ratio: float, overlap: float) -> int:
    """Number of the patches of an image at a scale, which overlap."""
    side, rows, columns = c.size("patch_size", 384), int(height * ratio), int(width * ratio)
    if min(rows, columns) < side or overlap >= 1:
        raise c.error("patch_size", f"at most {min(rows, columns)}, the image at its smallest scale")
    step = int(side * (1 - overlap))
    return ((rows - side) // step + 1) * ((columns - side) // step + 1)


def _unit(c: Config, x: Map, name: str) -> Modules:
    """Two convolutions with activations before them, added to their input."""
    norm, given = c.flag("use_batch_norm_in_fusion_residual"), c.get("use_bias_in_fusion_residual")
    bias = given if isinstance(given, bool) else not norm
    steps: list[MapStep] = []
    for j in (1, 2):
        act = Activation(name=f"{name}_act{j}", width=x.channels, function="relu", gated=False)
        steps += [
            everywhere(act),
            conv(f"{name}_conv{j}", x.channels, bias=bias, norm=layer_norm if norm else None),
        ]
    return chain(x, *steps, everywhere(Add(name=f"{name}_residual", width=x.channels)))[0]


def _fused(c: Config, maps: Sequence[Map]) -> tuple[list[Block], Map]:
    """Maps from the smallest to the largest, each enlarged and added to the next."""
    blocks = []
    y = maps[0]
    for i, x in enumerate(maps):
        last = i + 1 == len(maps)
        beside = _unit(c, x, "skip")
        grow = () if last else (transposed("grow", x.channels, 2, 2, bias=False),)
        product, y = chain(x, *grow, conv("projection", x.channels, 1, bias=True, norm=None))
        blocks.append(Block("fusion", (*(beside if i else not_used(beside)), *_unit(c, x, "unit"), *product)))
    return blocks, y


def _enlarged(name: str, x: Map, middle: int, outputs: int, times: int) -> tuple[Modules, Map]:
    """A product and transposed convolutions, each of which doubles the map."""
    grow = [transposed(f"{name}_grow{j}", outputs, 2, 2, bias=False) for j in range(times)]
    return chain(x, conv(f"{name}_proj", middle, 1, norm=None), *grow)


@complete("depth_pro")
def depth_pro(c: Config) -> Model:
    """Depth Pro (arXiv:2410.02073), with its network of the field of view where `use_fov_model` says so."""
    task = head_of(c, DEPTH)
    c = shown(c, 1536, 1536)
    height, width = c.inputs.height or 0, c.inputs.width or 0
    ratios, overlaps = _numbers(c, "scaled_images_ratios"), _numbers(c, "scaled_images_overlap_ratios")
    scaled, hooked = stage_sizes(c, "scaled_images_feature_dims"), stage_sizes(c, "intermediate_feature_dims")
    hooks, wide = stage_sizes(c, "intermediate_hook_ids", least=0), c.size("fusion_hidden_size", 256)
    if not len(ratios) == len(overlaps) == len(scaled) or len(hooks) != len(hooked):
        raise c.error("scaled_images_ratios", "as many entries in every list of scales")
    count = sum(_patches(c, height, width, r, o) for r, o in zip(ratios, overlaps, strict=True))
    whole, patch = _inside(c, "image_model_config"), _inside(c, "patch_model_config", c.size("patch_size", 384))
    pieces = [Block(f"patches {b.name}", tuple(replace(m, runs=count) for m in b.modules)) for b in patch.every]
    halves = 2 ** int(math.log2(width / whole.columns))
    small = Map(whole.width, height // halves, width // halves)
    modules, image = chain(small, transposed("image_grow", scaled[0], 2, 2))
    maps: list[Map] = []
    for i, dims in enumerate(scaled):
        x = Map(patch.width, small.rows * 2**i, small.columns * 2**i)
        built, y = _enlarged(f"scale{i}", x, dims, dims, 1)
        modules, maps = (*modules, *built), [*maps, y]
    top = Map(patch.width, small.rows * 2 ** (len(scaled) - 1), small.columns * 2 ** (len(scaled) - 1))
    for i, dims in enumerate(hooked):
        built, y = _enlarged(f"hook{i}", top, wide if i == 0 else dims, dims, 2 + i)
        modules, maps = (*modules, *built), [*maps, y]
    both = Map(2 * scaled[0], image.rows, image.columns)
    joined, maps[0] = chain(both, conv("join", scaled[0], 1, bias=True, norm=None))
    modules += joined
    for i, x in enumerate(maps):
        if i + 1 < len(maps) or x.channels != wide:
            modules += chain(x, conv(f"map{i}", wide, norm=None))[0]
    levels = [Map(wide, x.rows, x.columns) for x in maps]
    blocks = [*whole.blocks, *pieces, Block("neck", modules)]
    c.mark_read("merge_padding_value", "num_fov_head_layers", "fov_model_config", "use_bias_in_fusion_residual")
    c.mark_read("use_batch_norm_in_fusion_residual", "use_fov_model")
    if not task:
        return image_model(c, replace(whole, blocks=tuple(blocks)))
    fusion, y = _fused(c, levels)
    head, _ = chain(
        y, conv("head1", wide // 2, bias=True, norm=None), transposed("head_grow", wide // 2, 2, 2),
        conv("head2", 32, bias=True, norm=None, act="relu"), conv("head3", 1, 1, bias=True, norm=None, act="relu"),
    )  # fmt: skip
    field = _field_of_view(c, levels[0], small, whole.rows) if c.flag("use_fov_model") else []
    return image_model(c, replace(whole, blocks=(*blocks, *fusion, *field)), head)


def _field_of_view(c: Config, x: Map, small: Map, side: int) -> list[Block]:
    """The angle that an image shows: a transformer of its own beside the smallest map."""
    sight, wide, count = _inside(c, "fov_model_config"), x.channels, c.size("num_fov_head_layers", 2, least=0)
    neck = at(sight.positions, (Linear(name="fov_neck", inputs=sight.width, outputs=wide // 2, bias=True),))
    beside, _ = chain(x, conv("fov_conv", wide // 2, 3, 2, bias=True, norm=None, act="relu"))
    narrower = [
        conv(f"fov{i}", math.ceil(wide / 2 ** (i + 2)), 3, 2, bias=True, norm=None, act="relu") for i in range(count)
    ]
    last = conv("fov_angle", 1, int((side - 1) / 2**count + 1), bias=True, norm=None, padding=0)
    angle, _ = chain(Map(wide // 2, small.rows, small.columns), resized(side, side), *narrower, last)
    blocks = [Block(f"field of view {b.name}", b.modules) for b in sight.every]
    return [*blocks, Block("field of view", (*neck, *beside, *angle))]
