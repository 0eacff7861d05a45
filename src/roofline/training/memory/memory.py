"""Memory of a training step on one rank: weights, gradients, optimizer state, activations, workspace of the passes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from roofline.declared.numbers.maths import Count, ceil_div, is_array, least, most, where
from roofline.declared.result import Figured, Units
from roofline.inference.memory.memory import Memory
from roofline.inference.span import shaped
from roofline.layout.layout import Layout
from roofline.model.model import Model
from roofline.model.modules import Module
from roofline.training.memory.matrices import state_bytes
from roofline.training.memory.memo import Shared
from roofline.training.memory.saved_activations import (
    FUSED,
    LayerBytes,
    Retained,
    kept_bytes,
    kept_of,
    layer_bytes,
    layers_away,
)
from roofline.training.memory.workspace import (
    Parameters,
    Working,
    adding_up,
    ending_of,
    largest_matrix,
    parameters,
    peak_of,
    reduced_in,
    stored,
    total_bytes,
)
from roofline.work import ops as o
from roofline.work.training import Training, forward_ops

CONTEXT = 0.6e9
"""Bytes of a CUDA context, and (next constant) of one communicator's buffers: assumptions (formulas: 0.5 to 0.6 and 0.3
to 0.4 GB)."""
COMMUNICATOR = 0.35e9
RESERVED = 0.96
"""Allocated bytes over the bytes that the allocator reserves from the device: 0.93 to 0.97 in SimuMax's runs on 8 B200,
which measure both; the rest is fragmentation."""


@dataclass(frozen=True)
class TrainingMemory(Figured):
    """Bytes on one rank of a stage: numbers or arrays.

    `weights`, `gradients`, `optimizer`: the rank's share under ZeRO. `activations`: kept by the micro-batches in
    flight; each keeps `each` bytes, or `other` for the stage at the other end with DualPipe. `away`, `other_away`: the
    offloaded part of these. `under_way`: bytes kept by two layers, the most of the offloaded part that is on the
    device. `working`: further bytes at the peak of the backward pass (`peak_of`); `ending`: further bytes at its end.
    `fragments`: free blocks too small for later allocations. `context`: the runtime and its communicators, outside the
    allocator. `second`: the part of the weights that is a frozen second model's.
    """

    FIGURES: ClassVar[Units] = {
        **dict.fromkeys(("weights", "gradients", "optimizer", "activations", "working", "allocated"), "B"),
        "reserved": "B", "context": "B",
        "total": "B", "each": "B", "in_flight": "",
    }  # fmt: skip

    weights: Count
    gradients: Count
    optimizer: Count
    activations: Count
    working: Count
    context: Count
    each: Count
    in_flight: Count
    fragments: Count = 0
    ending: Count = 0
    under_way: Count = 0
    away: Count = 0
    other: Count = 0
    other_away: Count = 0
    second: Count = 0

    @property
    def allocated(self) -> Count:
        """Peak bytes that the framework's allocator has handed out."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.working

    @property
    def reserved(self) -> Count:
        """Peak bytes that the framework's allocator has taken from the device."""
        return (self.allocated + self.fragments) / RESERVED

    @property
    def total(self) -> Count:
        """Bytes that the device needs: reserved by the allocator, plus those outside it."""
        return self.reserved + self.context

    def resident(self, capacity: Count) -> TrainingMemory:
        """The memory with pages of the optimizer state moved to the host as far as the device lacks room."""
        room = (capacity - self.context) * RESERVED - (self.allocated - self.optimizer) - self.fragments
        return replace(self, optimizer=least(self.optimizer, most(room, 0)))

    def keeping(self, in_flight: Count, others: Count = 0) -> TrainingMemory:
        """The memory with `in_flight` micro-batches of the rank's own stage, and `others` of the stage at the other
        end.

        Part of their activations is on the host where offloaded. One layer is then in use while another is transferred
        (TransformerEngine, pytorch/cpu_offload.py; torchtune, training/_activation_offloading.py).
        """
        away = in_flight * self.away + others * self.other_away
        stays = in_flight * self.each + others * self.other - away
        return replace(self, activations=stays + least(away, self.under_way), in_flight=in_flight + others)

    def as_made(self) -> TrainingMemory:
        """The memory where gradients have no buffer: none exist at the loss, all of them at the end of the backward
        pass.

        PyTorch frees gradients after a step (`Optimizer.zero_grad`, set_to_none). With one micro-batch per step they
        are created while activations are freed. The terms are those of whichever moment needs more.
        """
        last = self.gradients + self.ending > self.activations + self.working
        return replace(
            self, gradients=where(last, self.gradients, 0), activations=where(last, 0, self.activations),
            working=where(last, self.ending, self.working), fragments=where(last, 0, self.fragments),
        )  # fmt: skip

    def beside(self, other: TrainingMemory) -> TrainingMemory:
        """The memory of a rank that holds another stage too."""
        return replace(
            self, weights=self.weights + other.weights, gradients=self.gradients + other.gradients,
            optimizer=self.optimizer + other.optimizer, working=most(self.working, other.working),
            fragments=most(self.fragments, other.fragments), under_way=most(self.under_way, other.under_way),
            other=other.each, other_away=other.away,
        )  # fmt: skip

    def on(self, capacity: float) -> Memory:
        """Memory in the terms of all estimates; what is reserved but not allocated counts as overhead."""
        return Memory(
            capacity, weights=self.weights, activations=self.activations + self.working, gradients=self.gradients,
            optimizer=self.optimizer, overhead=self.total - self.allocated,
        )  # fmt: skip

    def fuller(self, other: TrainingMemory) -> TrainingMemory:
        """The larger of two, element by element."""
        return other.either(self.total >= other.total, self)

    def either(self, condition: Count, other: TrainingMemory) -> TrainingMemory:
        """Select elementwise: `other` where the condition holds, else this memory."""
        names = [f.name for f in fields(self)]
        return TrainingMemory(**{name: where(condition, getattr(other, name), getattr(self, name)) for name in names})

    def shaped(self, shape: tuple[int, ...]) -> TrainingMemory:
        """Plain numbers where the shape is (), else arrays of that shape."""
        return TrainingMemory(**{f.name: shaped(getattr(self, f.name), shape) for f in fields(self)})


def modules_of(*ranks: Model) -> list[tuple[Module, Count]]:
    """The modules of the stages that a rank holds, each with its number of occurrences."""
    return [x for rank in ranks for x in rank.modules()]


def trained(*ranks: Model) -> Parameters:
    """The parameters that train, over the stages that a rank holds."""
    return parameters((module, n) for module, n in modules_of(*ranks) if not module.frozen)


def two_ended(step: Training, stages: int) -> bool:
    """Whether micro-batches enter at both ends, so that a rank holds two stages (DualPipe: arXiv:2412.19437 §3.2.1,
    table 2: parameters twice)."""
    return step.schedule == "dualpipe" and stages > 1


def sharing(step: Training, layout: Layout) -> Layout:
    """The layout that shards gradients and optimizer state: the two copies of a DualPipe stage count as replicas."""
    return replace(layout, dp=2 * layout.dp) if two_ended(step, layout.pp) else layout


@dataclass(frozen=True)
class RankState:
    """Bytes of weights, gradients and optimizer state on a rank; they do not depend on recomputation."""

    weights: Count
    gradients: Count
    optimizer: Count


@dataclass(frozen=True)
class RankKeeps:
    """Bytes that a rank keeps for each micro-batch and needs in its passes; they do not depend on ZeRO.

    `layer`: mean per layer. `away`: the offloaded part of `each`. `fragments`: free blocks too small for later
    allocations.
    """

    each: Count
    layer: Count
    away: Count
    needs: Working
    fragments: Count


def memory_of(
    rank: Model, micro: Training, layout: Layout, known: Mapping[int, LayerBytes] | None = None,
    shared: Shared | None = None, kind: Hashable = None, retained: Retained = FUSED,
) -> TrainingMemory:  # fmt: skip
    """Memory of a rank that keeps one micro-batch's activations.

    With Ψ parameters on a rank, N ranks with copies, and w, g, s bytes of a parameter's weight, gradient and state:
    Ψ·(w + g + s) without ZeRO, Ψ·(w + g + s/N), Ψ·(w + (g + s)/N), Ψ·(w + g + s)/N in stages 1, 2, 3 (arXiv:1910.02054
    §5). Activations: in flight · Σ over layers of what their ops keep (arXiv:2205.05198, generalised). `known`: bytes
    that the blocks keep, by identity, where already computed for several stages. With DualPipe both copies of a stage
    also shard its state, so each holds half. `shared` caches what ranks of one kind have in common. `retained`: of a
    framework whose ops are several kernels each.
    """
    shared = shared or Shared()
    again, zero = micro.recompute, layout.zero
    state = shared.of("state", (zero, adding_up(micro, layout), kind), lambda: _state_of(rank, micro, layout))
    keeps = shared.of("keeps", (again, kind), lambda: _keeps_of(rank, micro, layout, known, retained))
    peak, ending = shared.of("moments", (again, zero >= 3, kind), lambda: _moments_of(keeps, rank, micro, layout))
    groups = sum(_several(d) for d in (layout.tp, layout.cp, layout.dp, layout.pp, layout.ep))
    memory = TrainingMemory(
        state.weights, state.gradients, state.optimizer, 0, peak, CONTEXT + COMMUNICATOR * groups, keeps.each, 0,
        keeps.fragments, ending, 2 * keeps.layer, keeps.away,
    )  # fmt: skip
    return memory.keeping(1)


def _moments_of(keeps: RankKeeps, rank: Model, micro: Training, layout: Layout) -> tuple[Count, Count]:
    """Bytes beyond the kept activations at the peak of the passes, and at the end of the backward pass."""
    peak = peak_of(keeps.needs, rank, micro, layout, keeps.each)
    return peak, ending_of(keeps.needs, rank, micro, layout) + keeps.layer


def _state_of(rank: Model, micro: Training, layout: Layout) -> RankState:
    zero, sharers = layout.zero, sharing(micro, layout)
    away = micro.offload
    weights = 0 if "parameters" in away else total_bytes(stored(rank.modules(), micro), sharers, zero >= 3)
    optimizer = 0 if "optimizer" in away else state_bytes(modules_of(rank), micro, sharers, zero >= 1)
    return RankState(weights, _gradients_of(rank, micro, sharers), optimizer)


def _keeps_of(
    rank: Model, micro: Training, layout: Layout, known: Mapping[int, LayerBytes] | None, retained: Retained
) -> RankKeeps:
    precision = micro.precision
    layers = [
        (layer_bytes(block.modules, micro, retained) if known is None else known[id(block)], n)
        for block, n in rank.blocks
    ]
    each = kept_of(layers, micro)
    streams: Count = 0
    for layer, _ in layers:
        streams = most(streams, layer.widest + layer.again)
    logits = _logits_of(rank, micro)
    ends = [precision.other.bytes(largest_matrix(modules)) for modules in (rank.head, rank.embedding)]
    loss = kept_bytes(rank.head, micro, retained) + _loss_shared_out(rank, micro, layout)
    if micro.loss == "chunked":  # gradient of the head's weights so far, and of one chunk
        loss = loss + 2 * ends[0]
    fragments = logits if micro.loss == "eager" and precision.activations.bits < 32 else 0
    number = sum(int(n) for _, n in layers)
    one = each / most(1, number)
    gone = layers_away(number, micro)
    away = each if gone == number else each * gone / number
    return RankKeeps(each, one, away, Working(streams, loss, logits, *ends), fragments)


def _logits_of(rank: Model, micro: Training) -> Count:
    """Bytes of a micro-batch's logits in the stream's format; 0 where they are never stored."""
    return 0 if micro.fused_loss else micro.precision.activations.bytes(_logits(rank, micro))


def _logits(rank: Model, micro: Training) -> Count:
    """Logits of a micro-batch on a rank; 0 where it has no head."""
    return sum(op.rows * op.width for op in forward_ops(rank.head, micro) if isinstance(op, o.Loss))


def _loss_shared_out(rank: Model, micro: Training, layout: Layout) -> Count:
    """Bytes of the fourth fp32 copy that an eager loss makes where the vocabulary is sharded.

    The log-softmax, its exponential, the gradient and their sum (torch/distributed/tensor/parallel/loss.py,
    `_nll_loss_and_log_softmax_backward`).
    """
    return 4 * _logits(rank, micro) * _several(layout.tp) if micro.loss == "eager" else 0


def _gradients_of(rank: Model, micro: Training, layout: Layout) -> Count:
    """Bytes of the gradients that a rank keeps between the micro-batches of a step.

    Those of a chunk are whole while they add up over micro-batches in a row, and while they are reduced.
    With the optimizer in the backward pass only the largest gradient; without synchronisation until the last
    micro-batch all of them, in the format in which they are reduced.
    """
    if "gradients" in micro.offload:
        return 0
    learning, fmt = trained(rank), micro.precision.gradients
    if micro.optimizer_in_backward:
        sizes = largest_matrix(module for module, _ in rank.modules())
        return fmt.bytes(ceil_div(sizes, layout.sharers) if layout.zero >= 2 else sizes)
    if micro.no_sync:
        return learning.bytes(reduced_in(micro), layout, False)
    shares, whole = learning.bytes(fmt, layout, layout.zero >= 2), adding_up(micro, layout)
    return shares + whole * learning.bytes(fmt, layout, False) if whole else shares


def _several(degree: Count) -> Count:
    return (degree > 1) * 1 if is_array(degree) else int(degree > 1)
