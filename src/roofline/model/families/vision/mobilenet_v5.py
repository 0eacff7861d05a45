"""MobileNet-V5, what Gemma 3n sees with: inverted residuals, multi-query attention, two maps fused at the end."""

from __future__ import annotations

from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.images.convolutions import (
    MapStep,
    chain,
    conv,
    everywhere,
    in_groups,
    residual,
    resized,
)
from roofline.model.families.blocks.images.sight import Map
from roofline.model.families.blocks.norms import rms
from roofline.model.model import Block
from roofline.model.modules import Attention, Learned, Linear, Modules

ACT = "gelu_pytorch_tanh"
OUTPUT, GRID = 2048, 16
"""Channels of what it gives, and positions on each side of it."""


def _scaled(width: int) -> MapStep:
    return everywhere(Learned(name="scale", width=width))


def _edge(width: int, stride: int) -> MapStep:
    """A convolution that widens four times, and a product back (EfficientNet-EdgeTPU's block)."""

    def step(x: Map) -> tuple[Modules, Map]:
        steps = (
            conv("expand", 4 * x.channels, 3, stride, act=ACT, norm=rms, padding="same"),
            conv("project", width, 1, norm=rms),
        )
        return residual(x, *steps) if stride == 1 and x.channels == width else chain(x, *steps)

    return step


def inverted(width: int, ratio: int, *, start: int = 0, middle: int = 0, stride: int = 1) -> MapStep:
    """A universal inverted residual (arXiv:2404.10518 §3): depthwise taps before and after the product that widens."""

    def step(x: Map) -> tuple[Modules, Map]:
        steps: tuple[MapStep, ...] = ()
        if start:
            first = conv("start", x.channels, start, 1 if middle else stride, norm=rms, padding="same")
            steps += (in_groups(first),)
        steps += (conv("expand", ratio * x.channels, 1, act=ACT, norm=rms),)
        if middle:
            steps += (in_groups(conv("middle", ratio * x.channels, middle, stride, act=ACT, norm=rms, padding="same")),)
        steps += (conv("project", width, 1, norm=rms), _scaled(width))
        return residual(x, *steps) if stride == 1 and x.channels == width else chain(x, *steps)

    return step


def _attention(heads: int, dim: int, apart: int) -> MapStep:
    """Multi-query attention over the map (arXiv:2404.10518 §4), whose keys stand `apart` positions on each side."""

    def step(x: Map) -> tuple[Modules, Map]:
        width = x.channels
        before: Modules = at(
            x.positions, (rms("attn_norm", width), Linear(name="q", inputs=width, outputs=heads * dim))
        )
        y = x
        for name in ("k", "v"):
            down = in_groups(conv(f"{name}_down", width, 3, apart, norm=rms, padding="same"))
            modules, y = down(x) if apart > 1 else ((), x)
            before += (*modules, *at(y.positions, (Linear(name=name, inputs=width, outputs=dim),)))
        core = Attention(
            name="attention", heads=heads, kv_heads=1, head_dim=dim, v_head_dim=dim, causal=False, keys=y.positions
        )
        out = (core, Linear(name="o", inputs=heads * dim, outputs=width))
        more, _ = residual(x, everywhere(*out), _scaled(width), name="attn_residual")
        return (*before, *more), x

    return step


STAGES: tuple[tuple[MapStep, ...], ...] = (
    (_edge(128, 2), *[_edge(128, 1)] * 2),
    (
        inverted(256, 6, start=3, middle=5, stride=2),
        *(inverted(256, 4, start=taps) for taps in (5, 3, 5, 3)),
    ),
    (
        inverted(640, 6, start=5, middle=5, stride=2), *[inverted(640, 4, start=5)] * 7, inverted(640, 1),
        *[_attention(12, 64, 2), inverted(640, 2)] * 14,
    ),
    (inverted(1280, 6, start=5, middle=5, stride=2), *[_attention(16, 96, 1), inverted(1280, 2)] * 19),
)  # fmt: skip
"""The 300M encoder, by timm's `mobilenetv5_300m_enc`."""


def mobilenet_v5(height: int, width: int) -> tuple[list[Block], int]:
    """Blocks of the 300M encoder for an image of these sides, and the positions that it gives."""
    modules, x = chain(Map(3, height, width), conv("stem", 64, 3, 2, act=ACT, norm=rms, bias=True, padding="same"))
    blocks, maps = [Block("stem", modules)], [x]
    for i, stage in enumerate(STAGES):
        for step in stage:
            modules, x = step(x)
            blocks.append(Block(f"stage{i + 1}", modules))
        maps.append(x)
    both = Map(maps[-1].channels + maps[-2].channels, maps[-2].rows, maps[-2].columns)
    wide = 2 * both.channels
    fused, _ = chain(both, conv("expand", wide, 1, act=ACT, norm=rms), conv("project", OUTPUT, 1, norm=rms))
    last, x = chain(Map(OUTPUT, both.rows, both.columns), resized(GRID, GRID), everywhere(rms("final_norm", OUTPUT)))
    return [*blocks, Block("fusion", (*fused, *last))], x.positions
