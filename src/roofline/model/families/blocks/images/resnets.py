"""Residual convolutions over images and videos, attention between them, and the sides of what they read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.images.denoisers import StreamSizes, function, product
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.modules import Add, Attention, Convolution, Gate, Module, Modules, Norm


@dataclass(frozen=True)
class Sides:
    """Frames, height and width of what a stage reads."""

    frames: int
    height: int
    width: int

    @property
    def positions(self) -> int:
        """Number of positions."""
        return self.frames * self.height * self.width

    def halved(self, *, up: bool = False) -> Sides:
        """Half the height and width, rounded down, or up where a convolution pads both sides."""
        more = 1 if up else 0
        return replace(self, height=(self.height + more) // 2, width=(self.width + more) // 2)

    def doubled(self, space: int = 2, time: int = 1) -> Sides:
        """Sides multiplied by so many."""
        return Sides(self.frames * time, self.height * space, self.width * space)


def group_norm(name: str, width: int) -> Norm:
    """GroupNorm: weight and bias of each channel."""
    return Norm(name=name, width=width, center=True, bias=True)


def convolution(
    name: str, inputs: int, outputs: int, taps: int | tuple[int, ...] = 9, *, stride: int = 1, bias: bool = True
) -> Convolution:
    """A convolution of so many taps."""
    kernel = taps if isinstance(taps, int) else prod(taps)
    return Convolution(name=name, inputs=inputs, outputs=outputs, kernel=kernel, stride=stride, bias=bias)


@dataclass(frozen=True, kw_only=True)
class Residual:
    """What residual convolutions of a model have in common.

    `taps` of each convolution; `time`: width of the embedded time step, none without one; `shifts`: vectors that it
    gives; `norm` of the channels; `conditioned`: channels of latents from
    which each norm gets a scale and a shift at every position (arXiv:2209.09002). `shortcut_norm`: a norm before a
    shortcut.
    """

    taps: int = 9
    time: int | None = None
    shifts: int = 1
    act: str = "silu"
    norm: Callable[[str, int], Norm] = group_norm
    conditioned: int | None = None
    shortcut_norm: bool = False

    def normed(self, name: str, width: int) -> Modules:
        """The norm of `width` channels, with what conditions it."""
        if self.conditioned is None:
            return (self.norm(name, width),)
        return (
            self.norm(name, width), convolution(f"{name}_scale", self.conditioned, width, 1),
            convolution(f"{name}_shift", self.conditioned, width, 1),
            Gate(name=f"{name}_scaled", width=width, gates=width, sigmoid=False),
        )  # fmt: skip

    def block(self, name: str, inputs: int, outputs: int, positions: int) -> Modules:
        """Two convolutions with norms before them, and the sum with the input."""
        timed: Modules = ()
        if self.time is not None:
            timed = at_one((
                function(f"{name}_time_act", self.time, self.act),
                product(f"{name}_time_proj", self.time, self.shifts * outputs),
            ))  # fmt: skip
        shortcut: Modules = (convolution(f"{name}_shortcut", inputs, outputs, 1),) if inputs != outputs else ()
        if shortcut and self.shortcut_norm:
            shortcut = (layer_norm(f"{name}_shortcut_norm", inputs), *shortcut)
        return (
            *at(positions, (
                *self.normed(f"{name}_norm1", inputs), function(f"{name}_act1", inputs, self.act),
                convolution(f"{name}_conv1", inputs, outputs, self.taps),
            )), *timed,
            *at(positions, (
                *self.normed(f"{name}_norm2", outputs), function(f"{name}_act2", outputs, self.act),
                convolution(f"{name}_conv2", outputs, outputs, self.taps), *shortcut,
                Add(name=f"{name}_residual", width=outputs),
            )),
        )  # fmt: skip


def plain_attention(
    name: str, width: int, heads: int, positions: int, *, runs: int = 1, norm: Callable[[str, int], Norm] = group_norm
) -> Modules:
    """Attention of an image's positions with a norm before it, in each of `runs` frames."""
    return at(positions, (
        norm(f"{name}_norm", width), product(f"{name}_qkv_proj", width, 3 * width),
        Attention(
            name=f"{name}_attention", heads=heads, kv_heads=heads, head_dim=width // heads, v_head_dim=width // heads,
            causal=False,
        ),
        product(f"{name}_o_proj", width, width), Add(name=f"{name}_residual", width=width),
    ), runs)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """Transformer blocks between convolutions, which read a prompt.

    `text`: its tokens, each of `read` values (none: no cross-attention); `blocks`: how many; `alone`: whether the first
    attention too reads the prompt; `twice`: attention to all positions again in its place.
    """

    heads: int
    blocks: int
    text: int
    read: int | None
    alone: bool = False
    twice: bool = False
    act: str = "geglu"

    def stream(self, width: int) -> StreamSizes:
        """The sizes of a block."""
        return StreamSizes(
            width=width, heads=self.heads, head=width // self.heads, inner=4 * width, act=self.act, qk="",
            rotated=False, biases=(False, True, True), norm=layer_norm,
        )  # fmt: skip

    def over(self, name: str, width: int, positions: int, *, runs: int = 1) -> Modules:
        """The blocks over an image of `width` channels."""
        s = self.stream(width)
        modules: list[Module] = [group_norm("norm", width), product("in_proj", width, width)]
        for i in range(self.blocks):
            own = (*s.projected(), *s.attention(), *s.output(gated=False))
            if self.alone and self.read is not None:
                own = (layer_norm("norm", width), *s.crossed(self.text, self.read, prefix="own_", bias=False))
            crossed: Modules = ()
            if self.read is not None:
                crossed = (layer_norm("cross_norm", width), *s.crossed(self.text, self.read, bias=False))
            again = (
                layer_norm("again_norm", width), product("again_qkv_proj", width, 3 * width, False),
                *s.attention("again_"), *s.output("again_", gated=False),
            )  # fmt: skip
            each = (*own, *(again if self.twice else crossed), *s.fed(gated=False))
            modules += [replace(m, name=f"{i}_{m.name}") for m in each]
        modules += [product("proj", width, width), Add(name="residual", width=width)]
        return tuple(
            replace(m, name=f"{name}_{m.name}", runs=runs) if m.positions is not None
            else replace(m, name=f"{name}_{m.name}", positions=positions, runs=runs)
            for m in modules
        )  # fmt: skip
