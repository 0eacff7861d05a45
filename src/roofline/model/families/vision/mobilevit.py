"""MobileViT: inverted residuals, and transformers over patches of their maps."""

from __future__ import annotations

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv, in_groups, residual
from roofline.model.families.blocks.images.sight import (
    Map,
    classifier,
    head_of,
    image_model,
    sees_all,
    stage_sizes,
    vision_layer,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.families.vision.convnets import CLASSIFIES, divisible, image_map, network
from roofline.model.families.vision.maps.dpt import SEGMENTS
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Gate, Linear, Modules


def _inverted(c: Config, x: Map, outputs: int, stride: int, act: str) -> tuple[Modules, Map]:
    """An inverted residual (arXiv:1801.04381)."""
    inner = divisible(round(x.channels * c.number("expand_ratio")))
    steps: tuple[MapStep, ...] = (
        conv("expand", inner, 1, act=act), in_groups(conv("depthwise", inner, 3, stride, act=act)),
        conv("project", outputs, 1),
    )  # fmt: skip
    return residual(x, *steps) if stride == 1 and x.channels == outputs else chain(x, *steps)


def _front(c: Config, widths: list[int], second: int, act: str) -> tuple[Modules, list[Block], Map]:
    """A convolution and two stages of inverted residuals, the second of `second` layers."""
    front, x = chain(image_map(c), conv("stem", widths[0], 3, 2, act=act))
    blocks = []
    for i, (width, depth) in enumerate(((widths[1], 1), (widths[2], second))):
        for j in range(depth):
            modules, x = _inverted(c, x, width, 2 if i and j == 0 else 1, act)
            blocks.append(Block(f"stage{i + 1}", modules))
    return front, blocks, x


def _strides(c: Config) -> tuple[int, int, int]:
    """Strides of the stages with transformers: dilated convolutions take the place of later ones."""
    reached = c.size("output_stride", 32)
    return 2, 1 if reached == 8 else 2, 1 if reached in (8, 16) else 2


def _deeplab(c: Config, x: Map) -> Modules:
    """DeepLab v3's head (arXiv:1706.05587): convolutions of several dilations, and the mean, side by side."""
    wide = c.size("aspp_out_channels")
    rates = stage_sizes(c, "atrous_rates")
    modules, _ = chain(x, conv("aspp", wide, 1, act="relu"))
    for i, _ in enumerate(rates):
        modules += chain(x, conv(f"aspp{i}", wide, 3, act="relu"))[0]
    mean, _ = chain(Map(x.channels, 1, 1), conv("pool_proj", wide, 1, act="relu"))
    every = Map((2 + len(rates)) * wide, x.rows, x.columns)
    end, _ = chain(
        every, conv("projection", wide, 1, act="relu"), conv("classifier", label_count(c), 1, bias=True, norm=None)
    )
    return (*modules, *mean, *end)


def _marked(c: Config) -> None:
    c.mark_read("aspp_out_channels", "atrous_rates", "aspp_dropout_prob", "classifier_dropout_prob", "output_stride")
    c.mark_read("semantic_loss_ignore_index")


@complete("mobilevit")
def mobilevit(c: Config) -> Model:
    """MobileViT (arXiv:2110.02178)."""
    task, act, bias = head_of(c, CLASSIFIES, SEGMENTS), activation(c), c.flag("qkv_bias", True)
    widths, hidden, side = stage_sizes(c, "neck_hidden_sizes"), stage_sizes(c, "hidden_sizes"), c.size("patch_size", 2)
    if len(widths) != 7 or len(hidden) != 3:
        raise c.error("neck_hidden_sizes", "seven sizes, with three of hidden_sizes")
    heads, kernel, times = c.size("num_attention_heads", 4), c.size("conv_kernel_size", 3), c.number("mlp_ratio", 2.0)
    front, blocks, x = _front(c, widths, 3, act)
    for i, (width, depth, stride) in enumerate(zip(hidden, (2, 4, 3), _strides(c), strict=True)):
        down, x = _inverted(c, x, widths[3 + i], stride, act)
        seen, y = chain(x, conv("conv", x.channels, kernel, act=act), conv("wider", width, 1, norm=None))
        patches = ceil_div(y.rows, side) * ceil_div(y.columns, side)
        d = Dims(depth, width, heads, heads, width // heads)
        ffn = mlp(width, int(width * times), act, gated=False, bias=True)
        block = vision_layer(width, sees_all(d, (bias, bias, bias)), ffn)
        back, z = chain(y, conv("narrower", x.channels, 1, act=act))
        joined, z = chain(Map(2 * x.channels, z.rows, z.columns), conv("fusion", x.channels, kernel, act=act))
        norm = at(patches, (layer_norm("final_norm", width),), side * side)
        blocks += [
            Block(f"stage{i + 3} front", (*down, *seen)),
            *[Block("dense", at(patches, block.modules, side * side))] * depth,
            Block(f"stage{i + 3} back", (*norm, *back, *joined)),
        ]
        x = z
    _marked(c)
    if task == SEGMENTS:
        return image_model(c, network(front, blocks, [x]), _deeplab(c, x))
    last, y = chain(x, conv("last", widths[6], 1, act=act))
    sight = network(front, [*blocks, Block("last", last)], [x], y)
    return image_model(c, sight, classifier(c, y.channels) if task else ())


@complete("mobilevitv2")
def mobilevitv2(c: Config) -> Model:
    """MobileViT v2 (arXiv:2206.02680): attention whose scores are one number for each position."""
    task, act, factor = (
        head_of(c, CLASSIFIES, SEGMENTS),
        activation(c, default="swish"),
        c.number("width_multiplier", 1.0),
    )
    stem = divisible(max(16, min(64, 32 * factor)), 8, 16)
    widths = [stem, divisible(64 * factor, 16), *(divisible(w * factor) for w in (128, 256, 384, 512))]
    units, depths, side = (
        stage_sizes(c, "base_attn_unit_dims"),
        stage_sizes(c, "n_attn_blocks", 0),
        c.size("patch_size", 2),
    )
    if len(units) != 3 or len(depths) != 3:
        raise c.error("base_attn_unit_dims", "three sizes, with three of n_attn_blocks")
    kernel, times = c.size("conv_kernel_size", 3), c.number("ffn_multiplier", 2)
    front, blocks, x = _front(c, widths, 2, act)
    for i, (unit, depth, stride) in enumerate(zip(units, depths, _strides(c), strict=True)):
        width = divisible(unit * factor)
        down, x = _inverted(c, x, widths[3 + i], stride, act)
        seen, y = chain(x, in_groups(conv("conv", x.channels, kernel, act=act)), conv("wider", width, 1, norm=None))
        n = (y.rows // side) * (y.columns // side) * side * side
        mixer = (
            Linear(name="qkv_proj", inputs=width, outputs=1 + 2 * width, bias=True, part="attention"),
            Activation(name="value_act", width=width, function="relu", gated=False),
            Gate(name="context", width=width, gates=width, sigmoid=False),
            Linear(name="o_proj", inputs=width, outputs=width, bias=True, part="attention"),
        )
        block = vision_layer(width, mixer, mlp(width, int(times * width // 16 * 16), act, gated=False, bias=True))
        back, z = chain(y, conv("narrower", x.channels, 1))
        blocks += [
            Block(f"stage{i + 3} front", (*down, *seen)), *[Block("dense", at(n, block.modules))] * depth,
            Block(f"stage{i + 3} back", (*at(n, (layer_norm("final_norm", width),)), *back)),
        ]  # fmt: skip
        x = z
    _marked(c)
    sight = network(front, blocks, [x])
    if task == SEGMENTS:
        return image_model(c, sight, _deeplab(c, x))
    return image_model(c, sight, classifier(c, x.channels) if task else ())
