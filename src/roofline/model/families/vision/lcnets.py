"""PP-LCNet v3 and v4: separable convolutions that can be merged, or mix channels as a transformer does."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.images.convolutions import (
    MapStep,
    chain,
    conv,
    everywhere,
    in_groups,
    residual,
    squeeze,
)
from roofline.model.families.blocks.images.sight import Map, Sight, head_of, image_model, stage_sizes
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.registry import complete
from roofline.model.families.vision.convnets import BACKBONE, divisible, image_map, network
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Learned, Modules

LcBlock = tuple[int, int, int, int | tuple[int, int], bool]
"""Kernel, input and output channels, stride of both sides or of each, and whether it has a squeeze."""


def lc_blocks(c: Config) -> list[list[LcBlock]]:
    """The blocks of each stage, as the config lists them."""
    given = c.value("block_configs")[1]
    error = c.error("block_configs", "stages of blocks: kernel, input channels, output channels, stride, squeeze")
    if not isinstance(given, (list, tuple)) or not given:
        raise error
    stages: list[list[LcBlock]] = []
    for stage in given:
        if not isinstance(stage, (list, tuple)) or not stage:
            raise error
        blocks: list[LcBlock] = []
        for entry in stage:
            if not isinstance(entry, (list, tuple)) or len(entry) != 5:
                raise error
            kernel, inputs, outputs, stride, excited = entry
            both = tuple(stride) if isinstance(stride, (list, tuple)) else (stride, stride)
            sizes = (kernel, inputs, outputs, *both)
            if len(both) != 2 or any(type(v) is not int or not 1 <= v <= 2**16 for v in sizes):
                raise error
            blocks.append((kernel, inputs, outputs, both[0] if both[0] == both[1] else both, bool(excited)))
        stages.append(blocks)
    return stages


def scale_and_shift(name: str, wanted: bool = True) -> tuple[MapStep, ...]:
    """One learned scale and one shift for all of a map."""
    return (everywhere(Learned(name=name, width=1, rows=2, applied=False)),) if wanted else ()


# -- v3 ------------------------------------------------------------------------------------------------------------
def _branches(
    c: Config, x: Map, name: str, outputs: int, kernel: int, stride: int | tuple[int, int], act: str, grouped: bool
) -> tuple[Modules, Map]:
    """Convolutions side by side, one of a single position, and a norm of the input where the sizes agree."""
    modules: Modules = ()
    y = x

    def one(label: str, side: int) -> MapStep:
        step = conv(f"{name}_{label}", outputs, side, stride)
        return in_groups(step) if grouped else step

    for i in range(c.size("conv_symmetric_num", 4)):
        built, y = chain(x, one(f"branch{i}", kernel))
        modules += built
    if kernel > 1:
        modules += chain(x, one("small", 1))[0]
    if outputs == x.channels and stride == 1:
        modules += at(x.positions, (layer_norm(f"{name}_identity", x.channels),))
    own = everywhere(Activation(name=f"{name}_act", width=outputs, function=act, gated=False))
    last = (own,) if stride != 2 else ()
    more, _ = chain(y, *scale_and_shift(f"{name}_affine"), *last, *scale_and_shift(f"{name}_act_affine"))
    return (*modules, *more), y


def pp_lcnet_v3_sight(c: Config) -> Sight:
    """PP-LCNet v3."""
    act, scale, divisor = activation(c, default="hardswish"), c.number("scale", 1.0), c.size("divisor", 8)
    reduction = c.size("reduction", 4)
    front, x = chain(
        image_map(c), conv("stem", divisible(c.size("stem_channels", 16) * scale, divisor), 3, c.size("stem_stride", 2))
    )
    blocks, maps = [], [x]
    for i, stage in enumerate(lc_blocks(c)):
        for kernel, inputs, outputs, stride, excited in stage:
            x = Map(divisible(inputs * scale, divisor), x.rows, x.columns)
            deep, x = _branches(c, x, "depthwise", x.channels, kernel, stride, act, grouped=True)
            gate = chain(x, squeeze("se", x.channels // reduction))[0] if excited else ()
            wide, x = _branches(c, x, "pointwise", divisible(outputs * scale, divisor), 1, 1, act, grouped=False)
            blocks.append(Block(f"stage{i + 1}", (*deep, *gate, *wide)))
        maps.append(x)
    c.mark_read("depths")
    return network(front, blocks, maps)


# -- v4 ------------------------------------------------------------------------------------------------------------
def gathered_stem(
    channels: tuple[int, int, int], strides: list[int], act: str, learned: bool, x: Map
) -> tuple[Modules, Map]:
    """HGNet v2's stem: a pooled map beside two small convolutions."""
    _, middle, last = channels

    def unit(name: str, outputs: int, kernel: int, stride: int, padding: int | None = None) -> tuple[MapStep, ...]:
        return conv(name, outputs, kernel, stride, act=act, padding=padding), *scale_and_shift(
            f"{name}_affine", learned
        )

    first, x = chain(x, *unit("stem1", middle, 3, strides[0]))
    half, y = chain(Map(x.channels, x.rows + 1, x.columns + 1), *unit("stem2a", middle // 2, 2, strides[1], 0))
    again, y = chain(Map(y.channels, y.rows + 1, y.columns + 1), *unit("stem2b", middle, 2, strides[2], 0))
    both = Map(2 * middle, y.rows, y.columns)
    rest, y = chain(both, *unit("stem3", middle, 3, strides[3]), *unit("stem4", last, 1, strides[4]))
    return (*first, *half, *again, *rest), y


def pp_lcnet_v4_sight(c: Config) -> Sight:
    """PP-LCNet v4."""
    act, learned = activation(c, default="relu"), c.flag("use_learnable_affine_block")
    channels, strides = stage_sizes(c, "stem_channels"), stage_sizes(c, "stem_strides")
    if len(channels) != 3 or len(strides) != 5:
        raise c.error("stem_channels", "three sizes, with five strides")
    x = replace(image_map(c), channels=channels[0])
    if c.text("stem_type", "large") == "large":
        front, x = gathered_stem((channels[0], channels[1], channels[2]), strides, act, learned, x)
    else:
        front, x = chain(x, conv("stem1", channels[1], 3, 2, act="gelu"), conv("stem2", channels[2], 3, 2))
    blocks, maps, reduction = [], [x], c.size("reduction", 4)
    for i, stage in enumerate(lc_blocks(c)):
        for kernel, inputs, outputs, stride, excited in stage:
            x = Map(inputs, x.rows, x.columns)
            same = inputs == outputs and stride == 1
            deep = conv("tokens", inputs, kernel, stride, bias=same, norm=None if same else layer_norm)
            gate = (squeeze("se", inputs // reduction),) if excited else ()
            tokens, x = chain(x, in_groups(deep), *gate)
            steps = (conv("expand", 2 * inputs, 1, act="gelu"), conv("project", outputs, 1))
            mixed, x = residual(x, *steps) if same else chain(x, *steps)
            blocks.append(Block(f"stage{i + 1}", (*tokens, *mixed)))
        maps.append(x)
    c.mark_read("depths", "scale", "stage_out_channels")
    return network(front, blocks, maps)


@complete("pp_lcnet_v3", "pp_lcnet_v4")
def pp_lcnets(c: Config) -> Model:
    """The backbones PP-LCNet v3 and v4 of text recognition."""
    head_of(c, BACKBONE)
    return image_model(c, pp_lcnet_v3_sight(c) if c.kind == "pp_lcnet_v3" else pp_lcnet_v4_sight(c))
