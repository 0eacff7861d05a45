"""Convolutional networks: steps from one feature map to the next, chained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.images.sight import Map
from roofline.model.families.blocks.norms import MakeNorm, layer_norm
from roofline.model.model import Block
from roofline.model.modules import Activation, Add, Convolution, Gate, Module, Modules

MapStep: TypeAlias = Callable[[Map], tuple[Modules, Map]]
"""A step of a network: the feature map that it reads → its modules, and the map that it gives."""


def batch_norm(name: str, width: int) -> Modules:
    """BatchNorm with weight and bias of each channel, whose statistics are buffers."""
    return (layer_norm(name, width),)


def strided(size: int, kernel: int, stride: int, padding: int | None = None, dilation: int = 1) -> int:
    """Positions of a side after a convolution, padded by half of its kernel unless `padding` says otherwise."""
    pad = dilation * (kernel - 1) // 2 if padding is None else padding
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def conv(
    name: str, outputs: int, kernel: int | tuple[int, int] = 3, stride: int | tuple[int, int] = 1, *, act: str = "",
    bias: bool = False, norm: MakeNorm | None = layer_norm, padding: int | str | None = None,
) -> MapStep:  # fmt: skip
    """A convolution, BatchNorm and an activation.

    `padding`: positions added at each side, half of the kernel unless given; "same" for as many outputs as positions
    over the stride, rounded up; "valid" for none.
    """
    high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
    down, right = (stride, stride) if isinstance(stride, int) else stride

    def side(size: int, kernel: int, stride: int) -> int:
        if padding == "same":
            return -(-size // stride)
        added = 0 if padding == "valid" else padding if isinstance(padding, int) else None
        return strided(size, kernel, stride, added)

    def step(x: Map) -> tuple[Modules, Map]:
        y = Map(outputs, side(x.rows, high, down), side(x.columns, wide, right))
        modules: Modules = (
            Convolution(
                name=name, inputs=x.channels, outputs=outputs, kernel=high * wide, stride=down * right,
                bias=bias,
            ),
        )  # fmt: skip
        modules += (norm(f"{name}_norm", outputs),) if norm else ()
        modules += (Activation(name=f"{name}_act", width=outputs, function=act, gated=False),) if act else ()
        return at(y.positions, modules), y

    return step


def in_groups(step: MapStep, groups: int = 0) -> MapStep:
    """The convolutions of a step in groups of channels; 0 for one group of each channel."""

    def apart(x: Map) -> tuple[Modules, Map]:
        modules, y = step(x)
        return tuple(
            replace(m, groups=groups or x.channels) if isinstance(m, Convolution) else m for m in modules
        ), y  # fmt: skip

    return apart


def transposed(name: str, outputs: int, kernel: int, stride: int, *, bias: bool = True) -> MapStep:
    """A transposed convolution whose kernel is its stride: every position becomes `stride` × `stride`."""

    def step(x: Map) -> tuple[Modules, Map]:
        y = Map(outputs, x.rows * stride, x.columns * stride)
        module = Convolution(
            name=name, inputs=x.channels, outputs=outputs, kernel=kernel * kernel, stride=stride * stride, bias=bias,
            transposed=True,
        )  # fmt: skip
        return at(x.positions, (module,)), y

    return step


def pool(kernel: int, stride: int, padding: int | None = None, *, up: bool = False) -> MapStep:
    """Pooling, which has no weights; `up`: the last incomplete window counts."""

    def side(size: int) -> int:
        pad = kernel // 2 if padding is None else padding
        return -(-(size + 2 * pad - kernel) // stride) + 1 if up else (size + 2 * pad - kernel) // stride + 1

    return lambda x: ((), Map(x.channels, side(x.rows), side(x.columns)))


def resized(rows: int, columns: int) -> MapStep:
    """The map interpolated to another size."""
    return lambda x: ((), Map(x.channels, rows, columns))


def everywhere(*modules: Module) -> MapStep:
    """Modules at every position that leave the map as it is."""
    return lambda x: (at(x.positions, modules), x)


def squeeze(name: str, inner: int, act: str = "relu", gate: str = "sigmoid", *, bias: bool = True) -> MapStep:
    """Squeeze and excitation (arXiv:1709.01507): a gate for each channel from the mean of the map."""

    def step(x: Map) -> tuple[Modules, Map]:
        inside = at_one((
            Convolution(name=f"{name}_reduce", inputs=x.channels, outputs=inner, kernel=1, bias=bias),
            Activation(name=f"{name}_act", width=inner, function=act, gated=False),
            Convolution(name=f"{name}_expand", inputs=inner, outputs=x.channels, kernel=1, bias=bias),
            Activation(name=f"{name}_gate", width=x.channels, function=gate, gated=False),
        ))  # fmt: skip
        scale = at(x.positions, (Gate(name=f"{name}_scale", width=x.channels, gates=x.channels, sigmoid=False),))
        return (*inside, *scale), x

    return step


def chain(x: Map, *steps: MapStep) -> tuple[Modules, Map]:
    """Steps one after another."""
    modules: list[Modules] = []
    for step in steps:
        inside, x = step(x)
        modules.append(inside)
    return tuple(m for each in modules for m in each), x


def residual(
    x: Map, *steps: MapStep, shortcut: Iterable[MapStep] = (), act: str = "", name: str = "residual"
) -> tuple[Modules, Map]:
    """Steps whose output is added to their input, or to that of a `shortcut`; then an activation."""
    inside, y = chain(x, *steps)
    beside, _ = chain(x, *shortcut)
    end: Modules = (Add(name=name, width=y.channels),)
    end += (Activation(name=f"{name}_act", width=y.channels, function=act, gated=False),) if act else ()
    return (*inside, *beside, *at(y.positions, end)), y


def as_block(name: str, built: tuple[Modules, Map]) -> tuple[Block, Map]:
    """What a step made, as a block."""
    return Block(name, built[0]), built[1]
