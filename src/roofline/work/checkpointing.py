"""Partial activation checkpointing, by layers or by ops, and sequences packed into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count, ceil_div, some
from roofline.work import ops as o


def layers_again(layers: int, most: int | None, every: int | None) -> int:
    """Layers of a stage that are recomputed: `most` of them, or every `every`-th, else all.

    Megatron-LM's --recompute-method block with --recompute-num-layers (core/transformer/transformer_block.py);
    torchtitan's selective checkpointing by a number (`apply_ac`).
    """
    if most is not None:
        return min(most, layers)
    return layers if every is None else layers // every


def check_layers(recompute: object, most: Count, every: Count) -> None:
    """Raises InputError for recompute counts where nothing is recomputed, where both are given, or that are not
    whole."""
    if most is not None and every is not None:
        raise InputError("recompute_every", every, "not beside recompute_layers: one of them")
    for name, value in (("recompute_layers", most), ("recompute_every", every)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(name, value, "a whole number of at least 1")
        if recompute == "none":
            raise InputError(name, value, "only with recompute: selective, op, full or names", ["recompute=full"])


def check_offloaded(layers: Count, offload: Sequence[str]) -> None:
    """Raises InputError for a layer count where no activations are offloaded, or one that is not whole.

    Megatron-LM's `cpu_offloading_num_layers` (core/transformer/transformer_config.py).
    """
    if layers is None:
        return
    if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
        raise InputError("offload_layers", layers, "a whole number of at least 1")
    if "activations" not in offload:
        raise InputError("offload_layers", layers, "only with offload: activations", ["offload=activations"])


def by_op(forward: Sequence[o.Op]) -> Iterator[tuple[o.Op, Count]]:
    """Each op of a layer, and how many elements of its output are kept if every second product is recomputed.

    As in torchtitan (`_save_list` and `_apply_ac_to_transformer_block`), outputs of attention, of reduce-scatters, and
    of the first, third, fifth … product are kept; everything else is recomputed from the layer's input. Queries, keys
    and values count as three products, in that order, and a gate and its partner as two. Experts are not in the list.
    """
    number = 0
    widths = next((_heads(op) for op in forward if isinstance(op, o.Attend)), (0, 0, 0))
    for op in forward:
        if isinstance(op, o.MatMul) and not op.detached:
            parts = _parts(op, widths)
            stays: Count = 0
            for part in parts:
                number += 1
                stays = stays + part * (number % 2)
            yield op, op.m * op.groups * stays
        else:
            kept = isinstance(op, o.Attend) or (isinstance(op, o.Communicate) and op.collective == "reduce_scatter")
            yield op, _sent(op) if kept and isinstance(op, o.Communicate) else op.output if kept else 0


def _heads(op: o.Attend) -> tuple[Count, Count, Count]:
    """Widths of queries, keys and values."""
    keys = op.kv_heads * op.qk_dim
    return op.heads * op.qk_dim, keys, op.kv_width - keys


def _parts(op: o.MatMul, widths: tuple[Count, Count, Count]) -> tuple[Count, ...]:
    """The widths of the separate products that published code runs where this op is one."""
    if some(sum(widths) > 0) and not some(op.n - sum(widths)):
        return widths
    return (op.n // 2, op.n // 2) if op.gated else (op.n,)


def _sent(op: o.Communicate) -> Count:
    """Elements that a reduce-scatter leaves on a rank; 0 for a single rank."""
    return ceil_div(op.elements, op.ranks) * ((op.ranks > 1) * 1)


def again_by_op(forward: Sequence[o.Op]) -> Iterator[o.Op]:
    """The ops of a layer that are recomputed: all that `by_op` does not keep, and the rest of products kept in part."""
    for op, kept in by_op(forward):
        if isinstance(op, o.MatMul):
            left = op.n - kept // (op.m * op.groups)
            if some(left > 0):
                yield _narrower(op, left)
        elif not some(kept > 0) and not (isinstance(op, o.Communicate) and op.collective == "p2p"):
            yield op


def _narrower(op: o.MatMul, n: Count) -> o.MatMul:
    if not some(op.n - n):
        return op
    rows = op.m * op.groups
    return replace(op, n=n, weight=op.weight // op.n * n, vector=op.vector // op.n * n, output=rows * n)
