"""From which batch on a decode step is compute bound: on one curve, and over expert parallelism and length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from roofline.compat.model_info import parts
from roofline.compat.model_info.accounting import dispatch
from roofline.compat.model_info.rules import H200, NAIVE, Peaks, Rules
from roofline.model import modules as m
from roofline.model.model import Model, chosen

LARGEST_BATCH = 16384
NEAR = 0.9
"""A step counts as compute bound where arithmetic takes that share of the longest of the others."""


@dataclass(frozen=True)
class Crossing:
    """The batch from which on the intensity reaches the knee; `already`: it is the smallest one asked for."""

    batch: float
    already: bool


def crossing(batches: Iterable[int], intensity: Callable[[int], float], knee: float) -> Crossing | None:
    """Where the intensity first reaches the knee, between two batches by interpolation; None where it does not."""
    found = [(b, intensity(b)) for b in sorted(set(batches))]
    if found[0][1] >= knee:
        return Crossing(found[0][0], True)
    for (b0, i0), (b1, i1) in pairwise(found):
        if i0 < knee <= i1:
            return Crossing(b0 + (b1 - b0) * (knee - i0) / (i1 - i0), False)
    return None


@dataclass(frozen=True)
class Frontier:
    """Decode as the batch of a rank grows, at one length and degree of expert parallelism.

    `memory`, `network`: FLOPs a byte of cache and of dispatch, all that is left of the traffic then. `batch`: the
    smallest power of two at which arithmetic keeps up, None where none does; `limiter` says what it does not keep up
    with: "cache" and "network" at any batch, up to LARGEST_BATCH "memory", or "either" where tokens are sent too.
    """

    ep: int
    length: int
    memory: float
    network: float
    batch: int | None
    limiter: str


def frontier(model: Model, *, ep: int, length: int, on: Peaks = H200, rules: Rules = NAIVE) -> Frontier:
    """Attention, routers and a rank's share of the experts; no dense layers, every weight once.

    The rules give the bytes of weights, cache and dispatch, and how experts are drawn. Nothing is sent on one rank or
    over a link that is not known. Raises InputError for layers without one attention and more ranks than experts.
    """
    ranks = parts.checked_ranks(model, ep)
    flops = cache = weights = 0.0
    routed: list[tuple[int, m.Experts]] = []
    for block, layers in model.blocks:
        a, e = parts.mixer(block), parts.experts(block)
        matrices = parts.matrices(block)
        flops += layers * (2 * matrices + parts.scores(a, length))
        cache += layers * rules.cache_bytes * parts.cached(a, length, decoding=True)
        weights += layers * matrices
        if e is not None:
            router, shared = parts.router(block), sum(parts.product(x) for x in parts.dense(block))
            flops += layers * (2 * router + chosen(e) / ranks * 2 * parts.one_expert(e))
            weights += layers * (router + shared)
            routed.append((layers, e))
    sent = max((dispatch(rules, model.hidden, chosen(e)) for _, e in routed), default=0.0)
    memory, network = flops / cache, flops / sent if sent else math.inf
    over = on.link if rules.network and ranks > 1 else None

    def keeps_up(batch: int) -> bool:
        read = sum(n * parts.one_expert(e) * parts.touched(e, rules, batch, ranks) for n, e in routed)
        moved = (rules.weight_bytes * (weights + read) + batch * cache) / on.bandwidth
        away = batch * sent / over if over else 0.0
        return batch * flops / on.peak >= NEAR * max(moved, away)

    if memory < NEAR * on.knee:
        return Frontier(ep, length, memory, network, None, "cache")
    if over and network < NEAR * on.peak / over:
        return Frontier(ep, length, memory, network, None, "network")
    batches = (2**k for k in range(LARGEST_BATCH.bit_length()))
    found = next((b for b in batches if keeps_up(b)), None)
    return Frontier(ep, length, memory, network, found, "" if found else "either" if over else "memory")
