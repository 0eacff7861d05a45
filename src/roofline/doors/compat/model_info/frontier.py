"""Batch size from which a decode step is compute bound: on one curve, and over expert parallelism and length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from roofline.doors.compat.chips import H200, Peaks
from roofline.doors.compat.model_info.conventions import Convention, work
from roofline.doors.compat.model_info.outline import checked_ranks, outline
from roofline.doors.compat.model_info.rules import NAIVE, Rules
from roofline.model.model import Model
from roofline.work import ops as o
from roofline.work.step import decode

LARGEST_BATCH = 16384
NEAR = 0.9
"""A step counts as compute bound if arithmetic takes at least this share of the longest other time."""


@dataclass(frozen=True)
class CriticalBatch:
    """Batch size at which the intensity reaches the ridge point; `already`: it is the smallest batch given."""

    batch: float
    already: bool


def frontier_batch(batches: Iterable[int], intensity: Callable[[int], float], knee: float) -> CriticalBatch | None:
    """Batch at which the intensity reaches the ridge point, interpolated between two batches; None if it never does."""
    curve = [(b, intensity(b)) for b in sorted(set(batches))]
    if curve[0][1] >= knee:
        return CriticalBatch(curve[0][0], True)
    for (b0, i0), (b1, i1) in pairwise(curve):
        if i0 < knee <= i1:
            return CriticalBatch(b0 + (b1 - b0) * (knee - i0) / (i1 - i0), False)
    return None


@dataclass(frozen=True)
class Frontier:
    """Decode with a growing batch per rank, at one length and degree of expert parallelism.

    `memory`, `network`: FLOPs per byte of cache and of dispatch in the limit of large batches. `batch`: smallest power
    of two at which the step is compute bound, or None; then `limiter` names what dominates: "cache" and "network" at
    any batch, "memory" up to LARGEST_BATCH, or "either" if tokens are sent too.
    """

    ep: int
    length: int
    memory: float
    network: float
    batch: int | None
    limiter: str


def frontier(model: Model, *, ep: int, length: int, on: Peaks = H200, rules: Rules = NAIVE) -> Frontier:
    """Attention, routers and a rank's share of the experts, every weight once; no dense layers, embedding or head.

    The tool's slips: a rank's experts do k / ep of a token's work, shared ones none, and tokens are sent in one layer.
    The rules give the bytes of weights, cache and dispatch, and how experts are drawn. Nothing is sent on one rank or
    over a link that is not known. Raises InputError for layers without one attention and more ranks than experts.
    """
    once = Convention(replace(rules, residency=(1.0, 1.0, 1.0)), checked_ranks(model, ep))
    batches = 2 ** np.arange(LARGEST_BATCH.bit_length())
    flops, weights, cache, sent = (np.zeros(batches.size) for _ in range(4))
    for cost in work(outline(model, decoding=True, ranks=ep), decode(batches, length), once).ops:
        match cost.op:
            case o.Communicate(elements=elements):
                sent = np.maximum(sent, 2 * rules.activation_bytes * elements)
            case o.ExpertMatMul():
                flops, weights = flops + cost.flops / ep, weights + cost.moved.weight
            case o.MatMul(part="experts"):
                weights = weights + cost.moved.weight
            case o.MatMul(part="attention" | "router") | o.Attend():
                flops, weights, cache = flops + cost.flops, weights + cost.moved.weight, cache + cost.moved.cache
    memory, network = float(flops[0] / cache[0]), float(flops[0] / sent[0]) if sent[0] else math.inf
    over = on.link if rules.network and ep > 1 else None
    if memory < NEAR * on.knee:
        return Frontier(ep, length, memory, network, None, "cache")
    if over and network < NEAR * on.peak / over:
        return Frontier(ep, length, memory, network, None, "network")
    others = np.maximum((weights + cache) / on.bandwidth, sent / over if over else 0.0)
    keeps_up = flops / on.peak >= NEAR * others
    if keeps_up.any():
        return Frontier(ep, length, memory, network, int(batches[keeps_up.argmax()]), "")
    return Frontier(ep, length, memory, network, None, "either" if over else "memory")
