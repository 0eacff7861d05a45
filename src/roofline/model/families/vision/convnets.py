"""Convolutional networks of images: ResNet, RegNet, ConvNeXt, MobileNet, EfficientNet, PoolFormer, PP-LCNet."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonValue
from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.images.convolutions import (
    MapStep,
    chain,
    conv,
    everywhere,
    in_groups,
    pool,
    residual,
    squeeze,
)
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    classifier,
    head_of,
    image_model,
    indices,
    pixels,
    same_length,
    stage_names,
    stage_sizes,
    stages_out,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.registry import complete
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Convolution, Learned, Linear, Modules

CLASSIFIES, BACKBONE = "ForImageClassification", "Backbone"


def image_map(c: Config, size: int = 224) -> Map:
    """The image itself: its channels at every pixel."""
    height, width = pixels(c) if c.has("image_size") else (c.inputs.height or size, c.inputs.width or size)
    return Map(c.size("num_channels", 3), height, width)


def network(front: Modules, blocks: Sequence[Block], maps: Sequence[Map], last: Map | None = None) -> Sight:
    """What a convolutional network makes of an image; `last`: the map behind its last stage, where it is another."""
    end = last or maps[-1]
    return Sight(front, tuple(blocks), end.channels, end.rows, end.columns, maps=tuple(maps))


# -- ResNet and RegNet ---------------------------------------------------------------------------------------------
def resnet_sight(c: Config) -> Sight:
    """ResNet (arXiv:1512.03385), with the deep stem of RT-DETR's where the type says so."""
    act, wide = activation(c, default="relu"), c.size("embedding_size", 64)
    depths, widths = stage_sizes(c, "depths"), stage_sizes(c, "hidden_sizes")
    same_length(c, "depths", depths, widths)
    deep, basic = c.kind == "rt_detr_resnet", c.text("layer_type", "bottleneck", ("bottleneck", "basic")) == "basic"
    early = c.flag("downsample_in_bottleneck")
    c.mark_read("image_size")
    stem = (
        (conv("stem1", wide // 2, 3, 2, act=act), conv("stem2", wide // 2, act=act), conv("stem3", wide, act=act))
        if deep else (conv("stem", wide, 7, 2, act=act),)
    )  # fmt: skip
    front, x = chain(image_map(c), *stem, pool(3, 2))
    blocks, maps = [], [x]
    first = c.flag("downsample_in_first_stage")
    for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        for j in range(depth):
            stride = (2 if i or first else 1) if j == 0 else 1
            half = width // 4
            steps: tuple[MapStep, ...] = (
                (conv("conv1", width, 3, stride, act="relu"), conv("conv2", width))
                if basic else (
                    conv("conv1", half, 1, stride if early else 1, act="relu"),
                    conv("conv2", half, 3, 1 if early else stride, act="relu"),
                    conv("conv3", width, 1),
                )
            )  # fmt: skip
            kept = deep and basic and j == 0 and x.channels == width
            short = (conv("shortcut", width, 1, stride),) if kept else _shortcut(x, width, stride, deep)
            modules, x = residual(x, *steps, shortcut=short, act=act)
            blocks.append(Block(f"stage{i + 1}", modules))
        maps.append(x)
    return network(front, blocks, maps)


def _shortcut(x: Map, width: int, stride: int, pooled_first: bool = False) -> tuple[MapStep, ...]:
    """A product that fits the input to the output, where they differ; RT-DETR's averages 2 × 2 positions before."""
    if x.channels == width and stride == 1:
        return ()
    if pooled_first and stride == 2:
        return pool(2, 2, 0, up=True), conv("shortcut", width, 1)
    return (conv("shortcut", width, 1, stride),)


@complete("resnet", "rt_detr_resnet")
def resnet(c: Config) -> Model:
    """ResNet (arXiv:1512.03385) and RT-DETR's."""
    task, sight = head_of(c, CLASSIFIES, BACKBONE), resnet_sight(c)
    return image_model(c, sight, classifier(c, sight.width) if task == CLASSIFIES else ())


@complete("regnet")
def regnet(c: Config) -> Model:
    """RegNet (arXiv:2003.13678): in_groups convolutions, squeeze and excitation in its Y layers."""
    act, group, task = activation(c, default="relu"), c.size("groups_width", 64), head_of(c, CLASSIFIES)
    depths, widths = stage_sizes(c, "depths"), stage_sizes(c, "hidden_sizes")
    same_length(c, "depths", depths, widths)
    excited, first = c.text("layer_type", "y") != "x", c.flag("downsample_in_first_stage", True)
    front, x = chain(image_map(c), conv("stem", c.size("embedding_size", 32), 3, 2, act=act))
    blocks, maps = [], [x]
    for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        for j in range(depth):
            stride = (2 if i or first else 1) if j == 0 else 1
            steps = (
                conv("conv1", width, 1, act=act),
                in_groups(conv("conv2", width, 3, stride, act=act), max(1, width // group)),
                *((squeeze("se", round(x.channels / 4)),) if excited else ()),
                conv("conv3", width, 1),
            )
            modules, x = residual(x, *steps, shortcut=_shortcut(x, width, stride), act=act)
            blocks.append(Block(f"stage{i + 1}", modules))
        maps.append(x)
    sight = network(front, blocks, maps)
    return image_model(c, sight, classifier(c, sight.width) if task else ())


# -- ConvNeXt ------------------------------------------------------------------------------------------------------
def convnext_sight(c: Config) -> Sight:
    """ConvNeXt (arXiv:2201.03545), v2 with a norm of responses instead of a scale (arXiv:2301.00808)."""
    act, second = activation(c, default="gelu"), c.kind == "convnextv2"
    depths, widths = stage_sizes(c, "depths"), stage_sizes(c, "hidden_sizes")
    same_length(c, "depths", depths, widths)
    c.mark_read("num_stages")
    patch = c.size("patch_size", 4)
    scale = not second and c.number("layer_scale_init_value", 1e-6) > 0
    front, x = chain(image_map(c), conv("patch_embedding", widths[0], patch, patch, bias=True, padding="valid"))
    blocks, maps = [], [x]
    for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if i:
            norm, down = layer_norm("down_norm", x.channels), conv("down", width, 2, 2, bias=True, norm=None, padding=0)
            modules, x = chain(x, everywhere(norm), down)
            blocks.append(Block(f"down{i}", modules))
        inner = 4 * width
        steps = (
            in_groups(conv("depthwise", width, 7, bias=True)),
            everywhere(
                Linear(name="up_proj", inputs=width, outputs=inner, bias=True),
                Activation(name="act", width=inner, function=act, gated=False),
                *((Learned(name="response_norm", width=inner, rows=2),) if second else ()),
                Linear(name="down_proj", inputs=inner, outputs=width, bias=True),
                *((Learned(name="scale", width=width),) if scale else ()),
            ),
        )
        blocks += [Block(f"stage{i + 1}", residual(x, *steps)[0])] * depth
        maps.append(x)
    return network(front, blocks, maps)


def convnext_maps(c: Config, sight: Sight) -> Modules:
    """Norms of the feature maps that a backbone gives."""
    given = stages_out(c, stage_names(sight.maps[1:]))
    return tuple(
        m for i in given for m in at(sight.maps[i].positions, (layer_norm(f"map_norm{i}", sight.maps[i].channels),))
    )


@complete("convnext", "convnextv2", "dinov3_convnext")
def convnext(c: Config) -> Model:
    """ConvNeXt, v2, and DINOv3's."""
    task, sight = head_of(c, CLASSIFIES, BACKBONE), convnext_sight(c)
    if task == BACKBONE:
        return image_model(c, sight, () if c.kind == "dinov3_convnext" else convnext_maps(c, sight))
    norm = at_one((layer_norm("final_norm", sight.width),))
    return image_model(c, sight, (*norm, *(classifier(c, sight.width) if task else ())))


# -- MobileNet -----------------------------------------------------------------------------------------------------
def divisible(value: float, divisor: int = 8, least: int | None = None) -> int:
    """The multiple of `divisor` nearest to a number of channels, no more than a tenth below it."""
    near = max(divisor if least is None else least, int(value + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * value else near


@complete("mobilenet_v1")
def mobilenet_v1(c: Config) -> Model:
    """MobileNet (arXiv:1704.04861): a convolution of each channel, then a product."""
    act, least, factor = activation(c, default="relu6"), c.size("min_depth", 8), c.number("depth_multiplier", 1.0)
    padding = "same" if c.flag("tf_padding", True) else None
    task = head_of(c, CLASSIFIES)
    c.mark_read("classifier_dropout_prob")

    def wide(depth: int) -> int:
        return max(int(depth * factor), least)

    front, x = chain(image_map(c), conv("stem", wide(32), 3, 2, act=act, padding=padding))
    blocks, depth = [], 32
    for i, stride in enumerate((1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)):
        depth *= 2 if stride == 2 or i == 0 else 1
        pair = (
            in_groups(conv("depthwise", x.channels, 3, stride, act=act, padding=padding)),
            conv("pointwise", wide(depth), 1, act=act),
        )
        modules, x = chain(x, *pair)
        blocks.append(Block("separable", modules))
    sight = network(front, blocks, [x])
    return image_model(c, sight, classifier(c, x.channels) if task else ())


@complete("mobilenet_v2")
def mobilenet_v2(c: Config) -> Model:
    """MobileNet v2 (arXiv:1801.04381): inverted residuals, and DeepLab v3+'s head."""
    act, least, divisor = activation(c, default="relu6"), c.size("min_depth", 8), c.size("depth_divisible_by", 8)
    factor, expand = c.number("depth_multiplier", 1.0), c.number("expand_ratio", 6.0)
    padding, most = "same" if c.flag("tf_padding", True) else None, c.size("output_stride", 32)
    task = head_of(c, CLASSIFIES, "ForSemanticSegmentation")
    c.mark_read("classifier_dropout_prob")

    def wide(channels: int) -> int:
        return divisible(round(channels * factor), divisor, least)

    widths = [wide(v) for v in (16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320)]
    stem = wide(32)
    front, x = chain(
        image_map(c), conv("stem", stem, 3, 2, act=act, padding=padding),
        *(() if c.flag("first_layer_is_expansion", True) else (conv("stem_expand", stem, 1, act=act),)),
        in_groups(conv("stem_depthwise", stem, 3, act=act, padding=padding)), conv("stem_reduce", widths[0], 1),
    )  # fmt: skip
    blocks, reached = [], 2
    for width, own in zip(widths[1:], (2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1), strict=True):
        stride = 1 if reached == most else own
        reached *= stride
        inner = divisible(round(x.channels * expand), divisor, least)
        steps = (
            conv("expand", inner, 1, act=act),
            in_groups(conv("depthwise", inner, 3, stride, act=act, padding=padding)),
            conv("reduce", width, 1),
        )
        same = stride == 1 and x.channels == width
        modules, x = residual(x, *steps) if same else chain(x, *steps)
        blocks.append(Block("inverted", modules))
    last = 1280 if c.flag("finegrained_output", True) and factor < 1 else wide(1280)
    modules, y = chain(x, conv("last", last, 1, act=act))
    sight = network(front, [*blocks, Block("last", modules)], [x], y)
    if task == "ForSemanticSegmentation":
        return image_model(c, sight, _deeplab(c, x))
    return image_model(c, sight, classifier(c, last) if task else ())


def _deeplab(c: Config, x: Map) -> Modules:
    """DeepLab v3+'s head (arXiv:1802.02611) without atrous convolutions."""
    mean, _ = chain(Map(x.channels, 1, 1), conv("pool_proj", 256, 1, act="relu"))
    seen_all, y = chain(x, conv("aspp", 256, 1, act="relu"))
    both = Map(512, y.rows, y.columns)
    end, _ = chain(
        both, conv("projection", 256, 1, act="relu"), conv("classifier", label_count(c), 1, bias=True, norm=None)
    )
    return (*mean, *seen_all, *end)


@complete("efficientnet")
def efficientnet(c: Config) -> Model:
    """EfficientNet (arXiv:1905.11946): inverted residuals with squeeze and excitation, scaled in width and depth."""
    sight = efficientnet_sight(c)
    task = head_of(c, CLASSIFIES)
    return image_model(c, sight, classifier(c, c.size("hidden_dim", sight.width)) if task else ())


def efficientnet_sight(c: Config, top: bool = True) -> Sight:
    """EfficientNet without its head; `top`: with the product behind its last stage."""
    act, divisor = activation(c, default="swish"), c.size("depth_divisor", 8)
    width, depth = c.number("width_coefficient", 2.0), c.number("depth_coefficient", 3.1)
    part, odd = c.number("squeeze_expansion_ratio", 0.25), indices(c, "depthwise_padding")
    lists = [
        stage_sizes(c, key)
        for key in ("in_channels", "out_channels", "strides", "kernel_sizes", "expand_ratios", "num_block_repeats")
    ]
    same_length(c, "in_channels", *lists)
    c.mark_read(
        "hidden_dim", "pooling_type", "batch_norm_eps", "batch_norm_momentum", "dropout_rate", "drop_connect_rate"
    )
    c.mark_read("num_hidden_layers")

    def wide(channels: int) -> int:
        return divisible(channels * width, divisor)

    image = image_map(c, 600)
    front, x = chain(
        Map(image.channels, image.rows + 1, image.columns + 1), conv("stem", wide(32), 3, 2, act=act, padding=0)
    )
    blocks: list[Block] = []
    for inputs, outputs, first, kernel, expand, repeats in zip(*lists, strict=True):
        if wide(inputs) != x.channels:
            raise c.error("in_channels", "the output channels of the stage before")
        for j in range(math.ceil(depth * repeats)):
            stride, inner = first if j == 0 else 1, x.channels * expand
            pads = 2 * (kernel // 2) - (0 if len(blocks) in odd else 1)
            y = Map(x.channels, x.rows + pads, x.columns + pads) if stride == 2 else x
            grow = (conv("expand", inner, 1, act=act),) if expand != 1 else ()
            wider, z = chain(x, *grow)
            deep, z = chain(
                Map(z.channels, y.rows, y.columns),
                in_groups(conv("depthwise", inner, kernel, stride, act=act, padding=0 if stride == 2 else "same")),
                squeeze("se", max(1, int(x.channels * part)), act), conv("project", wide(outputs), 1),
            )  # fmt: skip
            blocks.append(Block("inverted", (*wider, *deep)))
            x = z
    if not top:
        return network(front, blocks, [x])
    last = wide(1280)
    normed = c.size("hidden_dim", last)
    modules, y = chain(x, conv("top", last, 1, act=act, norm=lambda name, _: layer_norm(name, normed)))
    return network(front, [*blocks, Block("top", modules)], [x], y)


# -- others --------------------------------------------------------------------------------------------------------
@complete("pp_lcnet")
def pp_lcnet(c: Config) -> Model:
    """PP-LCNet (arXiv:2109.15099): separable convolutions, squeeze and excitation in the last stage."""
    task, sight = head_of(c, CLASSIFIES, BACKBONE), pp_lcnet_sight(c)
    if task != CLASSIFIES:
        return image_model(c, sight)
    wide, act = c.size("class_expand", 1280), activation(c, default="hardswish")
    last = at_one((
        Convolution(name="last", inputs=sight.width, outputs=wide, kernel=1),
        Activation(name="last_act", width=wide, function=act, gated=False),
    ))  # fmt: skip
    return image_model(c, sight, (*last, *classifier(c, wide)))


LCNET = (
    ((3, 16, 32, 1, False),), ((3, 32, 64, 2, False), (3, 64, 64, 1, False)),
    ((3, 64, 128, 2, False), (3, 128, 128, 1, False)),
    ((3, 128, 256, 2, False), *((5, 256, 256, 1, False),) * 5), ((5, 256, 512, 2, True), (5, 512, 512, 1, True)),
)  # fmt: skip
"""Kernel, input and output channels, stride, and squeeze of each block (arXiv:2109.15099, table 1)."""


def pp_lcnet_sight(c: Config) -> Sight:
    """PP-LCNet without its head."""
    act, scale, divisor = activation(c, default="hardswish"), c.number("scale", 1.0), c.size("divisor", 8)
    part, given = c.size("reduction", 4), c.value("block_configs", LCNET)[1]
    c.mark_read("class_expand", "depths")
    if not isinstance(given, (list, tuple)) or not given:
        raise c.error("block_configs", "a list of stages, each a list of blocks")

    def wide(channels: int) -> int:
        return divisible(channels * scale, divisor)

    stem = conv("stem", wide(c.size("stem_channels", 16)), 3, c.size("stem_stride", 2), act=act)
    front, x = chain(image_map(c), stem)
    blocks, maps = [], [x]
    for i, stage in enumerate(given):
        for entry in stage if isinstance(stage, (list, tuple)) else ():
            if not isinstance(entry, (list, tuple)) or len(entry) != 5 or any(type(v) is not int for v in entry[:3]):
                raise c.error("block_configs", "blocks of kernel, input channels, output channels, stride, squeeze")
            kernel, inputs, outputs, stride, excited = entry
            x = Map(wide(inputs), x.rows, x.columns)
            steps = (
                in_groups(conv("depthwise", x.channels, kernel, _stride(stride), act=act)),
                *((squeeze("se", x.channels // part, "relu", "sigmoid"),) if excited else ()),
                conv("pointwise", wide(outputs), 1, act=act),
            )
            modules, x = chain(x, *steps)
            blocks.append(Block(f"stage{i + 1}", modules))
        maps.append(x)
    return network(front, blocks, maps)


def _stride(value: JsonValue) -> int | tuple[int, int]:
    """A stride of both sides, or of each."""
    high, wide = value if isinstance(value, (list, tuple)) and len(value) == 2 else (value, value)
    if not isinstance(high, int) or not isinstance(wide, int):
        raise InputError("block_configs", value, "a stride, or one for each side")
    return high if high == wide else (high, wide)


@complete("poolformer")
def poolformer(c: Config) -> Model:
    """PoolFormer (arXiv:2111.11418): pooling in place of attention."""
    act, task = activation(c, default="gelu"), head_of(c, CLASSIFIES)
    lists = [stage_sizes(c, key, 0) for key in ("depths", "hidden_sizes", "patch_sizes", "strides", "padding")]
    same_length(c, "depths", *lists)
    scale, times = c.flag("use_layer_scale", True), c.number("mlp_ratio", 4.0)
    c.mark_read("pool_size", "patch_size", "stride", "num_encoder_blocks", "layer_scale_init_value")
    x, blocks, maps = image_map(c), [], []
    for i, (depth, width, patch, stride, padding) in enumerate(zip(*lists, strict=True)):
        modules, x = chain(x, conv("patch_embedding", width, patch, stride, bias=True, norm=None, padding=padding))
        inner = int(width * times)
        blocks.append(Block(f"patches{i + 1}", modules))
        ffn = (
            layer_norm("ffn_norm", width), Linear(name="up_proj", inputs=width, outputs=inner, bias=True),
            Activation(name="act", width=inner, function=act, gated=False),
            Linear(name="down_proj", inputs=inner, outputs=width, bias=True),
            *((Learned(name="ffn_scale", width=width),) if scale else ()),
        )  # fmt: skip
        mixer = (layer_norm("pool_norm", width), *((Learned(name="pool_scale", width=width),) if scale else ()))
        mixed, fed = residual(x, everywhere(*mixer), name="pool_residual")[0], residual(x, everywhere(*ffn))[0]
        blocks += [Block(f"stage{i + 1}", (*mixed, *fed))] * depth
        maps.append(x)
    sight = network((), blocks, maps)
    norm = at(x.positions, (layer_norm("final_norm", x.channels),))
    return image_model(c, sight, (*norm, *classifier(c, x.channels)) if task else ())


# -- HGNet v2 ------------------------------------------------------------------------------------------------------
def hgnet_sight(c: Config) -> Sight:
    """HGNet v2 (PaddlePaddle, 2023): blocks that gather the maps of all their layers."""
    act, affine = activation(c, default="relu"), c.flag("use_learnable_affine_block")
    channels, strides = stage_sizes(c, "stem_channels"), stage_sizes(c, "stem_strides")
    keys = (
        "in_channels",
        "mid_channels",
        "out_channels",
        "num_blocks",
        "kernel_size",
        "numb_of_layers",
    )
    lists = [stage_sizes(c, f"stage_{key}") for key in keys]
    shrinks = _strides(c, "stage_downsample_strides")
    downs, lights = _flags(c, "stage_downsample"), _flags(c, "stage_light_block")
    if len(channels) != 3 or len(strides) != 5:
        raise c.error("stem_channels", "three sizes, with five strides")
    same_length(c, "stage_in_channels", *lists, downs, lights, shrinks)
    c.mark_read("embedding_size", "depths", "hidden_sizes")

    def unit(
        name: str,
        outputs: int,
        kernel: int = 3,
        stride: int | tuple[int, int] = 1,
        *,
        groups: int = 1,
        active: str = act,
        padding: int | None = None,
    ) -> MapStep:
        learned = (
            (everywhere(Learned(name=f"{name}_affine", width=1, rows=2, applied=False)),) if affine and active else ()
        )
        return lambda x: chain(
            x,
            in_groups(
                conv(
                    name,
                    outputs,
                    kernel,
                    stride,
                    act=active,
                    padding=(kernel - 1) // 2 if padding is None else padding,
                ),
                groups,
            ),
            *learned,
        )

    first, x = chain(image_map(c), unit("stem1", channels[1], 3, strides[0]))
    wider = Map(x.channels, x.rows + 1, x.columns + 1)
    half, y = chain(wider, unit("stem2a", channels[1] // 2, 2, strides[1], padding=0))
    again, y = chain(Map(y.channels, y.rows + 1, y.columns + 1), unit("stem2b", channels[1], 2, strides[2], padding=0))
    both = Map(2 * channels[1], y.rows, y.columns)
    last, x = chain(both, unit("stem3", channels[1], 3, strides[3]), unit("stem4", channels[2], 1, strides[4]))
    blocks, maps = [], [x]
    for i, (inputs, middle, outputs, count, kernel, layers) in enumerate(zip(*lists, strict=True)):
        x = Map(inputs, x.rows, x.columns)
        if downs[i]:
            modules, x = chain(x, unit("down", inputs, 3, shrinks[i], groups=0, active=""))
            blocks.append(Block(f"down{i + 1}", modules))
        for j in range(count):
            parts: Modules = ()
            y = x
            for k in range(layers):
                steps = (
                    (
                        unit(f"conv{k}a", middle, 1, active=""),
                        unit(f"conv{k}b", middle, kernel, groups=0, active="relu"),
                    )
                    if lights[i]
                    else (unit(f"conv{k}", middle, kernel, active="relu"),)
                )
                built, y = chain(y, *steps)
                parts += built
            every = Map(x.channels + layers * middle, x.rows, x.columns)
            built, y = chain(
                every, unit("squeeze", outputs // 2, 1, active="relu"), unit("excite", outputs, 1, active="relu")
            )
            end = at(y.positions, (Add(name="residual", width=outputs),)) if j else ()
            blocks.append(Block(f"stage{i + 1}", (*parts, *built, *end)))
            x = y
        maps.append(x)
    return network((*first, *half, *again, *last), blocks, maps)


def _strides(c: Config, key: str) -> list[int | tuple[int, int]]:
    """A stride for each stage: one number for both sides, or a list of two."""
    value = c.value(key)[1]
    entries = value if isinstance(value, (list, tuple)) else []
    sides = [tuple(e) if isinstance(e, (list, tuple)) else (e, e) for e in entries]
    if not sides or any(len(s) != 2 or any(type(v) is not int or not 1 <= v <= 8 for v in s) for s in sides):
        raise c.error(key, "a whole number for each stage, or two")
    return [s[0] if s[0] == s[1] else (s[0], s[1]) for s in sides]


def _flags(c: Config, key: str) -> list[int]:
    """A list of true and false, as 1 and 0."""
    value = c.value(key)[1]
    if not isinstance(value, (list, tuple)) or any(type(v) is not bool for v in value):
        raise c.error(key, "a list of true and false")
    return [int(bool(v)) for v in value]


@complete("hgnet_v2")
def hgnet_v2(c: Config) -> Model:
    """HGNet v2."""
    task, sight = head_of(c, CLASSIFIES, BACKBONE), hgnet_sight(c)
    return image_model(c, sight, classifier(c, sight.width) if task == CLASSIFIES else ())


# -- BiT -----------------------------------------------------------------------------------------------------------
def bit_sight(c: Config) -> Sight:
    """BiT (arXiv:1912.11370): ResNet v2 with GroupNorm and standardised weights."""
    act, early = activation(c, default="relu"), c.text("layer_type", "preactivation") == "preactivation"
    depths = stage_sizes(c, "depths")
    widths = stage_sizes(c, "hidden_sizes")[: len(depths)]
    same_length(c, "depths", depths, widths)
    same = str(c.get("global_padding") or "").upper() == "SAME"
    dynamic, most = c.flag("embedding_dynamic_padding"), c.size("output_stride", 32)
    factor, padding = c.size("width_factor", 1), "same" if same else None
    c.mark_read("global_padding", "num_groups")
    wide = c.size("embedding_size", 64)

    def unit(name: str, outputs: int, kernel: int, stride: int = 1, *, norm: bool = True, active: str = "") -> MapStep:
        return conv(name, outputs, kernel, stride, act=active, norm=layer_norm if norm else None, padding=padding)

    first = unit("stem", wide, 7, 2, norm=not early, active="" if early else act)
    halves: MapStep = (
        (lambda x: ((), Map(x.channels, -(-x.rows // 2), -(-x.columns // 2))))
        if dynamic
        else pool(3, 2, 0 if same else 1)
    )
    front, x = chain(image_map(c), first, halves)
    blocks, maps, reached = [], [x], 4
    for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        width = divisible(width * factor)
        step = 1 if i == 0 or reached >= most else 2
        reached *= step
        for j in range(depth):
            stride, inner = step if j == 0 else 1, divisible(width * 0.25)
            before = (
                everywhere(
                    layer_norm("norm1", x.channels),
                    Activation(name="norm1_act", width=x.channels, function=act, gated=False),
                ),
            )
            steps = (
                *(before if early else ()),
                unit("conv1", inner, 1, active=act),
                unit("conv2", inner, 3, stride, active=act),
                unit("conv3", width, 1, norm=not early),
            )
            short = (unit("shortcut", width, 1, stride, norm=not early),) if j == 0 else ()
            modules, x = residual(x, *steps, shortcut=short, act="" if early else act)
            blocks.append(Block(f"stage{i + 1}", modules))
        maps.append(x)
    if early:
        blocks.append(Block("norm", at(x.positions, (layer_norm("final_norm", widths[-1]),))))
    return network(front, blocks, maps)


@complete("bit")
def bit(c: Config) -> Model:
    """BiT (arXiv:1912.11370)."""
    task, sight = head_of(c, CLASSIFIES, BACKBONE), bit_sight(c)
    return image_model(c, sight, classifier(c, sight.width) if task == CLASSIFIES else ())
