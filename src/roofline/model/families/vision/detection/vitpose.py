"""Maps of images from vision transformers: key points of ViTPose, mattes of ViTMatte."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv, everywhere, resized, transposed
from roofline.model.families.blocks.images.sight import Map, head_of, image_model, stage_sizes
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import backbone_of, shown
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Modules


@complete("vitpose")
def vitpose(c: Config) -> Model:
    """ViTPose (arXiv:2204.12484)."""
    head_of(c, "ForPoseEstimation")
    sight, maps = backbone_of(shown(c, 256, 192))
    x, times, labels = maps[-1], c.size("scale_factor", 4), label_count(c)
    c.mark_read("scale_factor")
    if c.flag("use_simple_decoder", True):
        larger = resized(times * x.rows, times * x.columns)
        return image_model(c, sight, chain(x, larger, conv("heatmaps", labels, bias=True, norm=None))[0])
    steps: list[MapStep] = []
    for i in range(2):
        act = Activation(name=f"grow{i}_act", width=256, function="relu", gated=False)
        steps += [
            transposed(f"grow{i}", 256, 4, 2, bias=False),
            everywhere(layer_norm(f"grow{i}_norm", 256), act),
        ]
    return image_model(c, sight, chain(x, *steps, conv("heatmaps", labels, 1, bias=True, norm=None))[0])


@complete("vitmatte")
def vitmatte(c: Config) -> Model:
    """ViTMatte (arXiv:2305.15272): convolutions of the image beside ViTDet, fused up to the size of the image."""
    head_of(c, "ForImageMatting")
    c.mark_read("batch_norm_eps")
    c = shown(c, 512, 512)
    sight, maps = backbone_of(c)
    streams, fusions = stage_sizes(c, "convstream_hidden_sizes"), stage_sizes(c, "fusion_hidden_sizes")
    if len(fusions) != len(streams) + 1:
        raise c.error("fusion_hidden_sizes", "one entry more than convstream_hidden_sizes")
    channels = c.section("backbone_config").size("num_channels", 4)
    x = Map(channels, c.inputs.height or 512, c.inputs.width or 512)
    modules: Modules = ()
    details = [x]
    for i, wide in enumerate(streams):
        built, x = chain(x, conv(f"stream{i}", wide, 3, 2, act="relu"))
        modules, details = (*modules, *built), [*details, x]
    y = Map(c.size("hidden_size", 384), maps[-1].rows, maps[-1].columns)
    for i, (wide, beside) in enumerate(zip(fusions, reversed(details), strict=True)):
        both = Map(y.channels + beside.channels, beside.rows, beside.columns)
        built, y = chain(both, conv(f"fusion{i}", wide, act="relu"))
        modules += built
    head, _ = chain(y, conv("matte1", 16, bias=True, act="relu"), conv("matte2", 1, 1, bias=True, norm=None))
    return image_model(c, replace(sight, blocks=(*sight.blocks, Block("details", modules))), head)
