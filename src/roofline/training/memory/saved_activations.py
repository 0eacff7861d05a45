"""Activations that layers keep for their backward pass, op by op, and which of them are offloaded to the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TypeAlias

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, is_array, least, most, some
from roofline.model import modules as m
from roofline.model.formats import FORMATS
from roofline.work import ops as o
from roofline.work.checkpointing import by_op, layers_again
from roofline.work.lower import lower
from roofline.work.training import Kept, Training, forward_ops, kept_by, product_format, run_again, with_options

Retained: TypeAlias = Mapping[str, tuple[float, float]]
"""Bytes that a framework's kernels keep of a value until the backward pass, and more in it (`Engine.retained`)."""
FUSED: Retained = MappingProxyType({})
"""One kernel for every op, which keeps what its derivative needs and nothing else."""


def kept_bytes(modules: tuple[m.Module, ...], step: Training, retained: Retained = FUSED) -> Count:
    """Bytes that a layer keeps of one micro-batch for its backward pass."""
    return sum(size for _, size in op_bytes(modules, step, retained))


def op_bytes(modules: tuple[m.Module, ...], step: Training, retained: Retained = FUSED) -> Iterator[tuple[o.Op, Count]]:
    """The ops of a layer, with the bytes that each keeps of one micro-batch.

    The backward pass of flash attention reads its own output. If the next product keeps that output in the stream's
    format it is stored once. If the product keeps another format, or nothing because its weights are frozen, attention
    stores it itself (TransformerEngine, pytorch/attention/dot_product_attention/backends.py, `FusedAttnFunc`). A recipe
    may store it once for both (`attended`). Where an op is several kernels, it keeps what they do (`retained`).
    """
    every = list(kept_by(modules, step))
    activated = FORMATS[step.recipe.activated or step.recipe.stream]
    stream = step.precision.activations
    attended = None if step.recipe.attended is None else FORMATS[step.recipe.attended]
    before = False
    for (op, k), behind in zip(every, (*every[1:], None), strict=False):
        read = activated if isinstance(op, o.Activate) else stream
        needed, products = _needs_output(op, step), 0 if before else k.products
        before = needed and attended is not None and behind is not None and some(behind[1].products > 0)
        once = 0 if attended is None or not before else attended.bytes(op.output)
        own = once if before else stream.bytes(op.output) if needed and not _kept_behind(behind, step) else 0
        kernels = _kernels_of(op, retained)
        if kernels is None or run_again(op, step, whole=False):
            own = own + read.bytes(k.stream) + 4 * k.single
        else:
            own = own + (sum(kernels[0]) if isinstance(op, o.Loss) else kernels[0][0]) * kernels[1]
        yield op, product_format(op, step).bytes(products) + own


def _kernels_of(op: o.Op, retained: Retained) -> tuple[tuple[float, float], Count] | None:
    """Bytes of each value that the kernels of an op keep and hold, and its values; None where it is one kernel."""
    if isinstance(op, o.Loss):
        name, values = op.way, op.rows * op.width
    elif isinstance(op, o.Sum) and op.weighted:
        name, values = "combine", op.input
    else:
        name, values = {o.Normalise: "norm", o.Activate: "act"}.get(type(op), ""), op.output
    return (retained[name], values) if name in retained else None


def _needs_output(op: o.Op, step: Training) -> bool:
    """Whether the backward pass of an op reads the op's output without recomputing it."""
    return isinstance(op, o.Attend) and op.flash and not run_again(op, step, whole=False)


def _kept_behind(behind: tuple[o.Op, Kept] | None, step: Training) -> bool:
    """Whether the next op keeps this op's output in the stream's format."""
    if behind is None:
        return False
    op, k = behind
    return bool(some(k.stream > 0) or (some(k.products > 0) and product_format(op, step) == step.precision.activations))


def input_bytes(modules: tuple[m.Module, ...], step: Training) -> Count:
    """Bytes of a layer's input, which is all that full recomputation keeps."""
    ops = (op for module in modules for op in lower(module, step))
    first = next((op.input for op in ops if not isinstance(op, o.Communicate)), 0)
    return step.precision.activations.bytes(first)


def kept_by_op(modules: tuple[m.Module, ...], step: Training) -> Count:
    """Bytes that a layer keeps where every second product is recomputed: its input, and the outputs that `by_op`
    keeps."""
    ops = forward_ops(modules, step)
    sums = sum(4 * op.heads * op.tokens for op in ops if isinstance(op, o.Attend))
    outputs = sum(kept for _, kept in by_op(ops))
    return input_bytes(modules, step) + step.precision.activations.bytes(outputs) + sums


def widest_bytes(modules: tuple[m.Module, ...], step: Training, retained: Retained = FUSED) -> Count:
    """Bytes of the widest op of a layer in the backward pass: its inputs and output, or their gradients."""
    widest: Count = 0
    apart: Count = 0
    for module in modules:
        for op in lower(module, step):
            kernels = _kernels_of(op, retained)
            if kernels is not None:
                apart = most(apart, kernels[0][1] * kernels[1])
            if not isinstance(op, (o.Communicate, o.Sum)):
                widest = most(widest, op.input + op.output)
    return most(step.precision.activations.bytes(widest), apart)


@dataclass(frozen=True)
class LayerBytes:
    """Bytes of a layer for one micro-batch: kept, kept without recomputation, and of its widest op.

    `again`: extra bytes while the layer is recomputed.
    """

    kept: Count
    plain: Count
    widest: Count
    again: Count

    def at(self, places: Array) -> LayerBytes:
        """The bytes at some elements; numbers shared by all elements are kept."""
        numbers = (getattr(self, f.name) for f in fields(self))
        return LayerBytes(*(v[places] if is_array(v) and v.ndim else v for v in numbers))


def layer_bytes(modules: tuple[m.Module, ...], micro: Training, retained: Retained = FUSED) -> LayerBytes:
    """The bytes that one layer keeps and needs."""
    plain = kept_bytes(modules, with_options(micro, recompute="none"), retained)
    widest = widest_bytes(modules, micro, retained)
    if micro.recompute == "full":
        return LayerBytes(input_bytes(modules, micro), plain, widest, plain)
    if micro.recompute == "op":
        kept = least(kept_by_op(modules, micro), plain)
        return LayerBytes(kept, plain, widest, plain - kept)
    return LayerBytes(kept_bytes(modules, micro, retained), plain, widest, 0)


def layers_away(layers: int, micro: Training) -> int:
    """Layers of a stage whose activations are offloaded to the host."""
    if "activations" not in micro.offload:
        return 0
    return layers if micro.offload_layers is None else min(micro.offload_layers, layers)


def kept_of(layers: Sequence[tuple[LayerBytes, Count]], micro: Training) -> Count:
    """Bytes that the layers of a rank keep for one micro-batch; partial recomputation is spread evenly over the
    layers."""
    number = sum(int(n) for _, n in layers)
    again = layers_again(number, micro.recompute_layers, micro.recompute_every)
    if again == number:
        return sum(n * layer.kept for layer, n in layers)
    return sum(n * (again * layer.kept + (number - again) * layer.plain) for layer, n in layers) / number
