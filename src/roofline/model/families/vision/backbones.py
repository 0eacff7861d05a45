"""Backbones: what a detector or segmenter sees with, by the type of a section or by the name of a timm architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonValue
from roofline.model.configs.config import Config
from roofline.model.families.blocks.images.sight import Map, Sight, read_part, stage_names, stages_out
from roofline.model.families.vision.convnets import (
    bit_sight,
    convnext_maps,
    convnext_sight,
    hgnet_sight,
    pp_lcnet_sight,
    resnet_sight,
)
from roofline.model.families.vision.convolution_attention import focalnet_sight
from roofline.model.families.vision.lcnets import pp_lcnet_v3_sight, pp_lcnet_v4_sight
from roofline.model.families.vision.swin import map_norms, swin_last_norm, swin_sight
from roofline.model.families.vision.vit import beit_sight, dinov2_sight, dinov3_sight, vitdet_sight, vitpose_sight
from roofline.model.model import Block
from roofline.model.modules import Modules, Norm

SeenMaps = tuple[Sight, list[Map]]
"""A backbone and the feature maps that it gives."""


def shown(c: Config, height: int, width: int) -> Config:
    """The config with the size of an image that models of its kind read where a step does not say."""
    sizes = c.inputs
    return replace(c, own_inputs=replace(sizes, height=sizes.height or height, width=sizes.width or width))


def frozen_norms(sight: Sight) -> Sight:
    """The network with norms of fixed statistics and factors, which are no parameters (frozen BatchNorm)."""

    def still(modules: Modules) -> Modules:
        return tuple(replace(m, weight=False, bias=False) if isinstance(m, Norm) else m for m in modules)

    blocks = tuple(Block(b.name, still(b.modules)) for b in sight.blocks)
    return replace(sight, front=still(sight.front), blocks=blocks)


def _stages(c: Config, sight: Sight) -> SeenMaps:
    """A network of stages."""
    return sight, [sight.maps[i] for i in stages_out(c, stage_names(sight.maps[1:]))]


def _layers(c: Config, sight: Sight) -> SeenMaps:
    """A vision transformer, whose maps are those of layers, all of one size."""
    count = sum(b.name != "norm" for b in sight.blocks)
    given = stages_out(c, ["stem", *(f"stage{i + 1}" for i in range(count))])
    return sight, [Map(sight.width, sight.rows, sight.columns)] * len(given)


def _normed(c: Config) -> bool:
    """Whether BEiT has a norm behind its layers, which one that pools a mean has not."""
    return not c.flag("use_mean_pooling", True)


def _with(sight: Sight, modules: Modules) -> Sight:
    return replace(sight, blocks=(*sight.blocks, Block("maps", modules)))


def _swin(c: Config) -> SeenMaps:
    sight = swin_sight(c, second=c.kind == "swinv2", clamped=c.kind == "swinv2")
    seen = _stages(c, sight)
    if c.kind == "swinv2":
        return seen
    norms = map_norms(c, sight, every=c.kind == "maskformer-swin")
    return _with(sight, (*swin_last_norm(sight), *norms)), seen[1]


def _convnext(c: Config) -> SeenMaps:
    sight = convnext_sight(c)
    return _with(sight, () if c.kind == "dinov3_convnext" else convnext_maps(c, sight)), _stages(c, sight)[1]


BACKBONES: Mapping[str, Callable[[Config], SeenMaps]] = MappingProxyType({
    **dict.fromkeys(("resnet", "rt_detr_resnet"), lambda c: _stages(c, resnet_sight(c))),
    **dict.fromkeys(("swin", "swinv2", "maskformer-swin"), _swin),
    **dict.fromkeys(("convnext", "convnextv2", "dinov3_convnext"), _convnext),
    **dict.fromkeys(("dinov2", "dinov2_with_registers", "tipsv2_vision_model"), lambda c: _layers(c, dinov2_sight(c))),
    **dict.fromkeys(("beit", "data2vec-vision"), lambda c: _layers(c, beit_sight(c, norm=_normed(c)))),
    "vitdet": lambda c: _layers(c, vitdet_sight(c)),
    "vitpose_backbone": lambda c: _layers(c, vitpose_sight(c)),
    "dinov3_vit": lambda c: _layers(c, dinov3_sight(c)),
    "focalnet": lambda c: _stages(c, focalnet_sight(c)),
    "pp_lcnet_v3": lambda c: _stages(c, pp_lcnet_v3_sight(c)),
    "pp_lcnet_v4": lambda c: _stages(c, pp_lcnet_v4_sight(c)),
    "pp_lcnet": lambda c: _stages(c, pp_lcnet_sight(c)),
    "bit": lambda c: _stages(c, bit_sight(c)),
    "hgnet_v2": lambda c: _stages(c, hgnet_sight(c)),
    "timm_backbone": lambda c: timm_backbone(c),
})  # fmt: skip
"""Type of a backbone's config → the network and its maps."""

RESNETS: Mapping[str, tuple[str, tuple[int, ...]]] = MappingProxyType({
    "resnet18": ("basic", (2, 2, 2, 2)), "resnet34": ("basic", (3, 4, 6, 3)), "resnet50": ("bottleneck", (3, 4, 6, 3)),
    "resnet101": ("bottleneck", (3, 4, 23, 3)), "resnet152": ("bottleneck", (3, 8, 36, 3)),
})  # fmt: skip
"""timm's ResNets: kind and number of layers of each stage (arXiv:1512.03385, table 1)."""


def timm_resnet(c: Config, name: str) -> Sight:
    """A ResNet of timm, by its name."""
    kind, depths = RESNETS[name]
    widths = [64, 128, 256, 512] if kind == "basic" else [256, 512, 1024, 2048]
    built: dict[str, JsonValue] = {
        "model_type": "resnet",
        "layer_type": kind,
        "depths": list(depths),
        "hidden_sizes": widths,
    }
    return resnet_sight(Config({**built, "num_channels": c.size("num_channels", 3)}, c.path, c).of_kind("resnet"))


def timm_backbone(c: Config) -> SeenMaps:
    """A backbone that timm names. Raises InputError for one that is not covered."""
    name = c.text("backbone").partition(".")[0]
    if name not in RESNETS:
        raise InputError(
            c.field("backbone"),
            name,
            f"a network of timm that is covered: {', '.join(RESNETS)}",
            nearest(name, RESNETS),
        )
    if c.get("output_stride") not in (None, 32):
        raise c.error("output_stride", "32 or nothing, as dilated convolutions are not covered")
    c.mark_read("output_stride", "features_only", "freeze_batch_norm_2d")
    sight = timm_resnet(c, name)
    indices = c.get("out_indices")
    count = len(sight.maps)
    chosen = [i for i in indices if isinstance(i, int)] if isinstance(indices, (list, tuple)) else [count - 1]
    if any(not -count <= i < count for i in chosen):
        raise c.error("out_indices", f"indices of stages, below {count}")
    return sight, [sight.maps[i] for i in chosen]


def backbone_of(c: Config, key: str = "backbone_config") -> SeenMaps:
    """The backbone of a model: that of its section, or the one it names. Raises InputError if it is not covered."""
    c.mark_read("backbone", "use_timm_backbone", "use_pretrained_backbone", "backbone_kwargs", "dilation")
    if not c.raw.get(key) and isinstance(c.raw.get("backbone"), str):
        named = Config(
            {"model_type": "timm_backbone", "backbone": c.raw["backbone"], "out_indices": [1, 2, 3, 4]}, key, c
        )
        return timm_backbone(named.of_kind("timm_backbone"))
    part = read_part(c, key)
    if part.kind not in BACKBONES:
        raise InputError(part.field("model_type"), part.kind, f"a backbone that is covered: {', '.join(BACKBONES)}")
    return BACKBONES[part.kind](part)
