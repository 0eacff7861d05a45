"""FastViT, what FastVLM sees with: convolutions with branches that can be merged, then attention (arXiv:2303.14189)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.images.convolutions import (
    MapStep,
    chain,
    conv,
    everywhere,
    in_groups,
    residual,
    squeeze,
)
from roofline.model.families.blocks.images.sight import Map
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.model import Block
from roofline.model.modules import Activation, Learned, Modules

HEAD_DIM = 32
SIDE = 1024
"""Pixels of a side of what FastVLM sees, by its `preprocessor_config.json`."""


@dataclass(frozen=True)
class Branches:
    """How MobileOne's blocks are held (arXiv:2206.04040): as in training, or `merged` into one convolution each."""

    merged: bool

    def conv(
        self, name: str, outputs: int, kernel: int, stride: int = 1, *, groups: int = 1, act: bool = True,
        small: int = 1, excited: int = 0,
    ) -> MapStep:  # fmt: skip
        """A convolution, one of `small` positions a side beside it, a norm of the input, summed.

        `small`: 0 for none. `excited`: width of a squeeze before the activation, 0 for none.
        """

        def step(x: Map) -> tuple[Modules, Map]:
            own = in_groups(
                conv(name, outputs, kernel, stride, bias=self.merged, norm=None if self.merged else layer_norm), groups
            )
            modules, y = own(x)
            if not self.merged:
                if small and kernel > small:
                    modules += in_groups(conv(f"{name}_small", outputs, small, stride), groups)(x)[0]
                if outputs == x.channels and stride == 1:
                    modules += at(x.positions, (layer_norm(f"{name}_identity", x.channels),))
            if excited:
                modules += squeeze(f"{name}_se", excited)(y)[0]
            if act:
                modules += at(
                    y.positions, (Activation(name=f"{name}_act", width=outputs, function="gelu", gated=False),)
                )
            return modules, y

        return step

    def mixer(self, width: int) -> MapStep:
        """Taps of each channel less a norm of it, scaled and added."""
        taps = self.conv("mixer", width, 3, groups=width, act=False)
        if self.merged:
            return taps
        less = everywhere(layer_norm("mixer_less", width))
        return lambda x: residual(
            x, less, taps, everywhere(Learned(name="mixer_scale", width=width)), name="mixer_residual"
        )

    def halved(self, inputs: int, width: int) -> MapStep:
        """A large convolution of each channel, which halves the map, and a product."""
        large = self.conv("down", width, 7, 2, groups=inputs, small=3)
        return lambda x: chain(x, large, self.conv("down_mixed", width, 1))

    def places(self, width: int) -> MapStep:
        """Positions by taps of each channel (arXiv:2102.10882), which are added."""
        taps = in_groups(conv("positions", width, 7, bias=True, norm=None))
        return taps if self.merged else lambda x: residual(x, taps, name="positions_sum")


def _mlp(width: int) -> MapStep:
    """Taps of each channel, then a feed-forward network four times as wide, scaled."""
    return lambda x: chain(
        x, in_groups(conv("taps", width, 7)), conv("fc1", 4 * width, 1, act="gelu", bias=True, norm=None),
        conv("fc2", width, 1, bias=True, norm=None), everywhere(Learned(name="ffn_scale", width=width)),
    )  # fmt: skip


def _attends(width: int) -> MapStep:
    heads = width // HEAD_DIM
    mixer = attention(Dims(1, width, heads, heads, HEAD_DIM), rotary=0, bias=False, out_bias=True, causal=False)
    steps = everywhere(layer_norm("attn_norm", width), *mixer, Learned(name="attn_scale", width=width))
    return lambda x: residual(x, steps, name="attn_residual")


VARIANTS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], int]] = MappingProxyType({
    "fastvit_mci3": ((2, 12, 24, 4, 2), (96, 192, 384, 768, 1536), 2),
    "fastvit_mci4": ((2, 12, 24, 4, 4), (128, 256, 512, 1024, 2048), 2),
})  # fmt: skip
"""timm's name → layers and widths of the stages, and how many of the last attend."""


def fastvit(name: str, height: int, width: int, *, merged: bool) -> tuple[list[Block], Map]:
    """Blocks of a network for an image of these sides, and the map that it gives."""
    (depths, widths, attending), b = VARIANTS[name], Branches(merged)
    first = widths[0]
    stem = (
        b.conv("stem1", first, 3, 2, small=0),
        b.conv("stem2", first, 3, 2, groups=first, small=0),
        b.conv("stem3", first, 1),
    )
    modules, x = chain(Map(3, height, width), *stem)
    blocks = [Block("stem", modules)]
    for i, (depth, wide) in enumerate(zip(depths, widths, strict=True)):
        attends = i >= len(depths) - attending
        modules, x = chain(x, *((b.halved(x.channels, wide),) if i else ()), *((b.places(wide),) if attends else ()))
        blocks += [Block(f"stage{i + 1} front", modules)] if modules else []
        for _ in range(depth):
            modules, x = chain(x, _attends(wide) if attends else b.mixer(wide))
            more, x = residual(x, _mlp(wide))
            blocks.append(Block(f"stage{i + 1}", (*modules, *more)))
    last = 2 * widths[-1]
    modules, x = b.conv("final", last, 3, groups=widths[-1], excited=last // 16)(x)
    return [*blocks, Block("final", modules)], x
