"""PP-OCR: lines of text found in an image and read; UVDoc, which flattens a page; SLANet, which reads tables."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import (
    MapStep,
    chain,
    conv,
    everywhere,
    in_groups,
    residual,
    squeeze,
    transposed,
)
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    head_of,
    image_model,
    inner_width,
    sees_all,
    stage_sizes,
    vision_layer,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import backbone_of, shown
from roofline.model.families.vision.convnets import BACKBONE, image_map, network
from roofline.model.families.vision.detection.detr import DETECTS
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Linear, Modules


# -- text found ----------------------------------------------------------------------------------------------------
def _text_map(c: Config, x: Map) -> tuple[Modules, Map]:
    """Whether each pixel is of text: a convolution and two transposed ones."""
    inner, kernels = x.channels // 4, stage_sizes(c, "kernel_list")
    if len(kernels) != 3:
        raise c.error("kernel_list", "three sizes")
    act = everywhere(
        layer_norm("head_up_norm", inner), Activation(name="head_up_act", width=inner, function="relu", gated=False)
    )
    first = conv("head_down", inner, kernels[0], act="relu")
    down, y = chain(x, first, transposed("head_up", inner, kernels[1], 2), act)
    end, _ = chain(y, transposed("head_last", 1, kernels[2], 2))
    return (*down, *end), y


def _excited(x: Map, name: str, part: int, *steps: MapStep) -> tuple[Modules, Map]:
    """Steps whose output is added to its own squeeze and excitation."""
    inside, y = chain(x, *steps)
    return (
        *inside,
        *residual(y, squeeze(f"{name}_se", y.channels // part, gate="hardsigmoid"), name=f"{name}_sum")[0],
    ), y


@complete("pp_ocrv5_mobile_det", "pp_ocrv6_small_det")
def small_text_finder(c: Config) -> Model:
    """The small detectors of PP-OCR v5 and v6: maps of a backbone, gated and added."""
    task, c = head_of(c, DETECTS), shown(c, 640, 640)
    sight, maps = backbone_of(c)
    widths, wide = stage_sizes(c, "layer_list_out_channels"), c.size("neck_out_channels", 96)
    part = c.size("reduction", 4)
    if len(widths) != len(maps):
        raise c.error("layer_list_out_channels", "as many entries as the backbone has maps")
    separable = c.kind == "pp_ocrv6_small_det"
    modules: Modules = ()
    for i, (x, width) in enumerate(zip(maps, widths, strict=True)):
        if not separable:
            built, x = chain(x, conv(f"map{i}", width, 1, bias=True, norm=None))
            modules += built
        built, y = _excited(x, f"insert{i}", part, conv(f"insert{i}", wide, 1, norm=None))
        steps: tuple[MapStep, ...] = (conv(f"input{i}", wide // 4, 3, norm=None),)
        if separable:
            kernel = c.size("dilated_kernel_size", 7)
            depthwise = in_groups(conv(f"input{i}_depthwise", wide, kernel, bias=True, norm=None))
            steps = (depthwise, conv(f"input{i}", wide // 4, 1, norm=None))
        more, _ = _excited(y, f"input{i}", part, *steps)
        modules += (*built, *more)
    c.mark_read("interpolate_mode", "kernel_list", "id2label")
    head, _ = _text_map(c, Map(wide, maps[0].rows, maps[0].columns))
    return image_model(c, replace(sight, blocks=(*sight.blocks, Block("neck", modules))), head if task else ())


SHAPES = tuple(
    f"{shape}_{ratio}ratio"
    for ratio in ("long", "mid", "short")
    for shape in ("symmetric_conv_long", "vertical_long_to_small_conv", "horizontal_small_to_long_conv")
)
"""Convolutions of long and flat kernels, of three lengths."""


def _kernel(c: Config, key: str) -> tuple[int, int]:
    """Kernel of a convolution that keeps the size of its map, from its kernel, stride and padding."""
    value = c.value(key)[1]
    kernel = value[0] if isinstance(value, (list, tuple)) and value else value
    both = tuple(kernel) if isinstance(kernel, (list, tuple)) else (kernel, kernel)
    if len(both) != 2 or any(type(v) is not int or not 1 <= v <= 64 for v in both):
        raise c.error(key, "kernel, stride and padding")
    return both


def _long_and_flat(c: Config, x: Map, name: str) -> Modules:
    """Convolutions of several shapes, added: text is long and flat."""
    part, shapes = x.channels // c.size("reduce_factor", 2), c.section("intraclass_block_config")
    modules, y = chain(x, conv(f"{name}_reduce", part, _kernel(shapes, "reduce_channel"), bias=True, norm=None))
    for key in SHAPES:
        modules += chain(y, conv(f"{name}_{key}", part, _kernel(shapes, key), bias=True, norm=None))[0]
    back = conv(f"{name}_return", x.channels, _kernel(shapes, "return_channel"), bias=True, act="relu")
    return (*modules, *chain(y, back)[0], *at(x.positions, (Add(name=f"{name}_sum", width=x.channels),)))


@complete("pp_ocrv5_server_det", "pp_ocrv6_medium_det")
def large_text_finder(c: Config) -> Model:
    """The large detectors of PP-OCR v5 and v6: a pyramid with large kernels, there and back."""
    task, c = head_of(c, DETECTS), shown(c, 640, 640)
    sight, maps = backbone_of(c)
    wide, refined = c.size("neck_out_channels", 256), c.size("intraclass_block_number", 4)
    second, quarter = c.kind.startswith("pp_ocrv6"), wide // 4
    modules: Modules = ()
    for i, x in enumerate(maps):
        large = conv(f"project{i}", quarter, 9, bias=second, norm=None)
        built, y = chain(x, conv(f"adjust{i}", wide, 1, norm=None), large)
        if i + 1 < len(maps):
            built += chain(y, conv(f"down{i}", quarter, 3, 2, norm=None))[0]
        built += chain(y, conv(f"lateral{i}", quarter, 9, bias=second, norm=None))[0]
        modules += (*built, *(_long_and_flat(c, y, f"shape{i}") if i < refined else ()))
    c.mark_read("interpolate_mode", "scale_factor_list", "scale_factor", "kernel_list", "id2label", "hidden_act")
    head, y = _text_map(c, Map(wide, maps[0].rows, maps[0].columns))
    if not second:
        act, times = activation(c, default="relu"), c.size("scale_factor", 2)
        beside = Map(y.channels + 1, times * y.rows, times * y.columns)
        head += chain(beside, conv("refine", y.channels, act=act), conv("refine_last", 1, 1, bias=True, norm=None))[0]
    return image_model(c, replace(sight, blocks=(*sight.blocks, Block("neck", modules))), head if task else ())


# -- text read -----------------------------------------------------------------------------------------------------
def _read_blocks(c: Config, x: Map, act: str) -> list[Block]:
    """SVTR's layers (arXiv:2205.00159) over the positions of a line."""
    width, heads, bias = c.size("hidden_size", 120), c.size("num_attention_heads", 8), c.flag("qkv_bias", True)
    d = Dims(c.size("depth|num_hidden_layers", 2, most=MOST_LAYERS), width, heads, heads, width // heads)
    ffn = mlp(width, inner_width(c, width, default=2.0), act, gated=False, bias=True)
    block = vision_layer(width, sees_all(d, (bias, bias, bias)), ffn)
    return [
        *[Block("dense", at(x.positions, block.modules))] * d.layers,
        Block("norm", at(x.positions, (layer_norm("final_norm", width),))),
    ]


@complete("pp_ocrv5_mobile_rec", "pp_ocrv5_server_rec", "pp_ocrv6_small_rec", "pp_ocrv6_tiny_rec")
def text_reader(c: Config) -> Model:
    """PP-OCR's readers of a line of text, v5 and v6."""
    task, c = head_of(c, "ForTextRecognition"), shown(c, 48, 320)
    sight, maps = backbone_of(c)
    width, labels = c.size("hidden_size", 120), c.size("head_out_channels")
    x = Map(maps[-1].channels, max(1, maps[-1].rows // 3), max(1, maps[-1].columns // 2))
    if not task:
        c.mark_read(*c.raw)
        return image_model(c, sight)
    if c.kind == "pp_ocrv6_tiny_rec":
        deep = in_groups(conv("conv1", x.channels, (1, 5), act="hardswish"))
        line, y = chain(x, deep, conv("conv2", x.channels, 1, act="hardswish"))
        words = Linear(name="fc1", inputs=x.channels, outputs=width, bias=True)
        last = Linear(name="head", inputs=width, outputs=labels, bias=True, part="head")
        return image_model(c, sight, (*line, *at(y.positions, (words, last))))
    side = [c.get("conv_kernel_size") or [1, 7 if c.kind == "pp_ocrv6_small_rec" else 3]]
    act, size = activation(c), _kernel(c.with_values(conv_kernel_size=side), "conv_kernel_size")
    if c.kind == "pp_ocrv6_small_rec":
        first, _ = chain(x, conv("skip", width, 1, act=act))
        more, y = chain(x, conv("reduce", width, 1, act=act))
        local, _ = chain(y, in_groups(conv("local", width, size, act=act)))
        blocks = [Block("front", (*first, *more, *local)), *_read_blocks(c, y, act)]
    else:
        eighth = x.channels // 8
        first, y = chain(x, conv("conv1", eighth, size, act="silu"), conv("conv2", width, 1, act="silu"))
        back, _ = chain(y, conv("conv3", x.channels, 1, act="silu"))
        both = Map(2 * x.channels, y.rows, y.columns)
        joined, _ = chain(both, conv("conv4", eighth, size, act="silu"), conv("conv5", width, 1, act="silu"))
        blocks = [Block("front", first), *_read_blocks(c, y, act), Block("back", (*back, *joined))]
    head = at(y.positions, (Linear(name="head", inputs=width, outputs=labels, bias=True, part="head"),))
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)), head)


# -- UVDoc ---------------------------------------------------------------------------------------------------------
def _rows(c: Config, key: str, count: int) -> list[list[int]]:
    """Rows of `count` numbers or flags."""
    value = c.value(key)[1]
    rows = value if isinstance(value, (list, tuple)) else []
    if not rows or any(not isinstance(r, (list, tuple)) or len(r) != count for r in rows):
        raise c.error(key, f"rows of {count} entries")
    if any(not isinstance(v, int) or not 0 <= v <= 2**16 for r in rows for v in r):
        raise c.error(key, "whole numbers and flags")
    return [[int(v) for v in r] for r in rows]


def _groups(c: Config, key: str, count: int) -> list[list[list[int]]]:
    value = c.value(key)[1]
    if not isinstance(value, (list, tuple)) or not value:
        raise c.error(key, f"stages of rows of {count} entries")
    return [_rows(c.with_values(**{key: stage}), key, count) for stage in value]


def uvdoc_sight(c: Config) -> tuple[Sight, int]:
    """UVDoc's network (arXiv:2302.02887): residual layers, and dilated convolutions side by side; their number."""
    kernel, x = c.size("kernel_size", 5), image_map(c, 712)
    front: Modules = ()
    for i, (_, outputs) in enumerate(_rows(c, "resnet_head", 2)):
        built, x = chain(x, conv(f"stem{i}", outputs, kernel, 2, act="relu"))
        front += built
    blocks = []
    for i, stage in enumerate(_groups(c, "resnet_configs", 4)):
        for _, outputs, _, down in stage:
            stride = 2 if down else 1
            short = (conv("down", outputs, kernel, stride, bias=True),) if down else ()
            first = conv("conv1", outputs, kernel, stride, bias=True, act="relu")
            modules, x = residual(x, first, conv("conv2", outputs, kernel, bias=True), shortcut=short, act="relu")
            blocks.append(Block(f"stage{i + 1}", modules))
    bridges = _groups(c, "stage_configs", 2)
    for i, bridge in enumerate(bridges):
        steps = tuple(conv(f"bridge{j}", outputs, act="relu") for j, (outputs, _) in enumerate(bridge))
        blocks.append(Block(f"bridge{i + 1}", chain(x, *steps)[0]))
    c.mark_read("depths", "out_features", "out_indices", "stage_names")
    return network(front, blocks, [x]), len(bridges)


@complete("uvdoc_backbone")
def uvdoc_backbone(c: Config) -> Model:
    """UVDoc's network."""
    head_of(c, BACKBONE)
    return image_model(c, uvdoc_sight(c)[0])


@complete("uvdoc")
def uvdoc(c: Config) -> Model:
    """UVDoc (arXiv:2302.02887): where each point of a page goes."""
    head_of(c)
    part = shown(c, 712, 488).section("backbone_config").of_kind("uvdoc_backbone")
    sight, count = uvdoc_sight(part)
    connects, points = stage_sizes(c, "bridge_connector"), _rows(c, "out_point_positions2D", 2)
    act, kernel = activation(c, default="prelu"), c.size("kernel_size", 5)
    learned = Activation(name="points_act", width=points[0][1], function=act, gated=False, learned=int(act == "prelu"))
    head, _ = chain(
        Map(connects[0] * count, sight.rows, sight.columns), conv("connect", connects[1], 1, act="relu"),
        conv("points", points[0][1], kernel), everywhere(learned),
        conv("places", points[1][1], kernel, bias=True, norm=None),
    )  # fmt: skip
    c.mark_read("padding_mode")
    return image_model(c, sight, head)


# -- SLANet --------------------------------------------------------------------------------------------------------
def _separable(name: str, outputs: int, kernel: int, act: str, stride: int = 1) -> tuple[MapStep, ...]:
    deep = in_groups(conv(f"{name}_depthwise", outputs, kernel, stride, act=act))
    return deep, conv(f"{name}_pointwise", outputs, 1, act=act)


def _csp(c: Config, x: Map, name: str, act: str) -> Modules:
    """Half of the map as it is, half through separable convolutions."""
    wide, kernel = c.size("post_conv_out_channels", 96), c.size("csp_kernel_size", 5)
    half = wide // 2
    beside, _ = chain(x, conv(f"{name}_beside", half, 1, act=act))
    steps: list[MapStep] = [conv(f"{name}_first", half, 1, act=act)]
    for i in range(c.size("csp_num_blocks", 1, least=0)):
        steps += [conv(f"{name}{i}_narrow", half, 1, act=act), *_separable(f"{name}{i}", half, kernel, act)]
    inside, y = chain(x, *steps)
    return (*beside, *inside, *chain(Map(2 * half, y.rows, y.columns), conv(f"{name}_join", wide, 1, act=act))[0])


@complete("slanet")
def slanet(c: Config) -> Model:
    """SLANet (PaddlePaddle, 2022): a pyramid, and a recurrent network that writes a table's tags one after another.

    A step is counted for each tag of the longest table.
    """
    task, c = head_of(c, "ForTableRecognition"), shown(c, 488, 488)
    sight, maps = backbone_of(c)
    act, wide = activation(c, default="hardswish"), c.size("post_conv_out_channels", 96)
    kernel = c.size("csp_kernel_size", 5)
    modules: Modules = ()
    for i, x in enumerate(maps):
        modules += chain(x, conv(f"map{i}", wide, 1, act=act))[0]
    levels = [Map(2 * wide, x.rows, x.columns) for x in maps]
    for i, x in enumerate(reversed(levels[:-1])):
        modules += _csp(c, x, f"down{i}", act)
    y = Map(wide, levels[0].rows, levels[0].columns)
    for i in range(len(maps) - 1):
        built, y = chain(y, *_separable(f"shrink{i}", wide, kernel, act, 2))
        modules += (*built, *_csp(c, levels[i + 1], f"up{i}", act))
    n, hidden, labels = y.positions, c.size("hidden_size", 256), c.size("out_channels", 50)
    steps = c.size("max_text_length", 500) + 1

    def product(name: str, inputs: int, outputs: int, *, bias: bool = True) -> Linear:
        return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias, part="other")

    head = (
        *at(n, (product("values", wide, hidden, bias=False), product("score", hidden, 1, bias=False)), steps),
        *at(1, (
            product("query", hidden, hidden), Linear(name="context", inputs=n, outputs=wide, tied=True, part="other"),
            product("gru_inputs", wide + labels, 3 * hidden), product("gru_state", hidden, 3 * hidden),
            product("structure1", hidden, hidden), product("structure2", hidden, labels),
        ), steps),
    )  # fmt: skip
    return image_model(c, replace(sight, blocks=(*sight.blocks, Block("neck", modules))), head if task else ())
