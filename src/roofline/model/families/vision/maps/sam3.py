"""SAM 3's images, and its tracker for one image."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import rope_section
from roofline.model.families.blocks.encoders import at, patch_embedding
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv, everywhere, pool, transposed
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    both_sides,
    image_model,
    indices,
    pixels,
    plain_mlp,
    read_part,
    refused_head,
    vision_dims,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import shown
from roofline.model.families.vision.maps.dpt import factors_of
from roofline.model.families.vision.maps.sam import masks_of
from roofline.model.families.vision.vit import windowed_layer
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Learned, Modules


def sam3_vit_sight(c: Config) -> Sight:
    """SAM 3's vision transformer (arXiv:2511.16719): rotary positions, windows in all but a few layers."""
    rope_section(c)
    d, act = vision_dims(c), activation(c, default="gelu")
    (height, width), patch, trained = pixels(c), both_sides(c, "patch_size"), both_sides(c, "pretrain_image_size", 336)
    grid, full = (height // patch[0], width // patch[1]), set(indices(c, "global_attn_indexes"))
    window, n = c.size("window_size", 24), grid[0] * grid[1]
    ffn = plain_mlp(c, d.width, act)
    stack = [
        windowed_layer(c, d, grid, 0 if i in full else window, ffn, own=grid, relative=False) for i in range(d.layers)
    ]
    rows = trained[0] // patch[0] * (trained[1] // patch[1])
    front = at(n, (
        patch_embedding("patch_embedding", c.size("num_channels", 3), patch[0] * patch[1], d.width, bias=False),
        Learned(name="position_embedding", width=d.width, rows=rows), layer_norm("patch_norm", d.width),
    ))  # fmt: skip
    c.mark_read("layer_scale_init_value", "hidden_dropout")
    return Sight(front, tuple(stack), d.width, *grid)


def _scaled(name: str, x: Map, factor: float) -> tuple[MapStep, ...]:
    """Four times, twice or half as large, or as it is."""
    half, quarter = x.channels // 2, x.channels // 4
    act = everywhere(Activation(name=f"{name}_act", width=half, function="gelu", gated=False))
    if factor == 4:
        return transposed(f"{name}_grow1", half, 2, 2), act, transposed(f"{name}_grow2", quarter, 2, 2)
    if factor == 2:
        return (transposed(f"{name}_grow", half, 2, 2),)
    return (pool(2, 2, 0),) if factor == 0.5 else ()


def sam3_sight(c: Config) -> Sight:
    """The transformer and its map at several sizes."""
    inside = sam3_vit_sight(read_part(c, "backbone_config", "sam3_vit_model"))
    wide, x = c.size("fpn_hidden_size", 256), Map(inside.width, inside.rows, inside.columns)
    neck: Modules = ()
    maps: list[Map] = []
    for i, factor in enumerate(factors_of(c, "scale_factors")):
        if factor not in (4, 2, 1, 0.5):
            raise c.error("scale_factors", "a list of 4, 2, 1 and 0.5")
        steps = _scaled(f"map{i}", x, factor)
        built, y = chain(
            x, *steps, conv(f"map{i}_proj", wide, 1, bias=True, norm=None), conv(f"map{i}", wide, bias=True, norm=None)
        )
        neck, maps = (*neck, *built), [*maps, y]
    c.mark_read("fpn_kernel_size", "fpn_stride", "num_feature_levels", "backbone_feature_sizes", "hidden_act")
    last = maps[min(2, len(maps) - 1)]
    return Sight(inside.front, (*inside.blocks, Block("neck", neck)), wide, last.rows, last.columns, maps=tuple(maps))


@complete("sam3_vit_model")
def sam3_vit(c: Config) -> Model:
    """The vision transformer of SAM 3."""
    return image_model(c, sam3_vit_sight(c))


@complete("sam3_vision_model")
def sam3_vision(c: Config) -> Model:
    """The images of SAM 3."""
    return image_model(c, sam3_sight(c))


@complete("sam3_tracker", "sam3_tracker_video", "sam3_video")
def sam3_tracker(c: Config) -> Model:
    """SAM 3's tracker (arXiv:2511.16719) for an image without a prompt, which has an empty point."""
    if c.kind != "sam3_tracker":
        if c.architecture != "Sam3TrackerModel":
            raise refused_head(c, "Sam3TrackerModel, for the memory of earlier frames is not covered")
        c.mark_read(*c.raw)
    inner = read_part(c, "tracker_config", "sam3_tracker_video") if c.kind == "sam3_video" else c
    inner.mark_read(*inner.raw)
    inner = shown(inner, 1008, 1008)
    model = masks_of(inner, sam3_sight(read_part(inner, "vision_config", "sam3_vision_model")))
    return replace(model, model_type=c.text("model_type", "model"))
