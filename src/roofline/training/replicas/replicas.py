"""Communication between replicas: gradient reduction, weight gathering, and the exposed part of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, most, some
from roofline.inference.contention import Contention
from roofline.inference.deployment import Deployment
from roofline.inference.span import NOTHING, Span, end_by_end
from roofline.kernels.collectives import collective
from roofline.layout.layout import Layout
from roofline.model import modules as m
from roofline.training.estimate import Stage
from roofline.training.host import to_host
from roofline.training.memory.memory import sharing, trained, two_ended
from roofline.training.memory.workspace import parameters
from roofline.training.passes import axes_beside
from roofline.training.replicas.traffic import gathered_of, gradient_format, times_of
from roofline.training.replicas.whole_matrices import whole_bytes
from roofline.work.training import V_SHAPED, Training


@dataclass(frozen=True)
class SentBetween:
    """Seconds to reduce all gradients once, and to gather all weights once, on each stage.

    `apart`: seconds for gradients sent once per step after all passes. Stages lie on the first axis, before `axes`
    others.
    """

    reduced: Span
    gathered: Span
    apart: Span
    axes: int


def sent_between(stages: Sequence[Stage], deployment: Deployment, step: Training, micro_batches: Count) -> SentBetween:
    """Seconds of one reduction and one gather between replicas, for all distinct stages at once."""
    layout, zero = sharing(step, deployment.layout), deployment.layout.zero
    learning = [trained(*s.holds) for s in stages]
    gathers = [gathered_of(s.holds, step, zero) for s in stages]
    gradient = gradient_format(step)
    axes = max(len(layout.shape), np.ndim(micro_batches), *(np.ndim(v) for s in stages for v in s.turns.busy.ends()))
    reduced, gathered, apart = NOTHING, NOTHING, _of_tables(stages, deployment, step, axes)
    for part, ranks, stride in (
        ("dense", layout.dp * layout.cp, layout.tp),
        ("experts", layout.ranks // (layout.ep * layout.expert_tp), layout.ep * layout.expert_tp),
    ):
        sharers = layout.sharers if part == "dense" else layout.expert_sharers
        if step.optimizer.rounds or step.optimizer.sides:
            rest = zip(stages, learning, strict=True)
            whole = _along(
                [whole_bytes(s.holds, of, layout, part == "experts", step.optimizer) for s, of in rest], axes
            )
            apart = apart + _sent("all_gather", whole, sharers, stride, deployment)
        grads = _along([gradient.bytes(getattr(p, part)) for p in learning], axes)
        weights = _along([sum(f.bytes(getattr(p, part)) for f, p in by_format.items()) for by_format in gathers], axes)
        if zero == 0:
            reduced = reduced + _sent("all_reduce", grads, ranks, stride, deployment)
            continue
        reduced = reduced + _sent("reduce_scatter", grads, sharers, stride, deployment)
        if some(ranks > sharers):
            reduced = reduced + _sent("all_reduce", grads / sharers, ranks // sharers, stride * sharers, deployment)
        gathered = gathered + _sent("all_gather", weights, sharers, stride, deployment)
        if "parameters" in step.offload:
            gathered = gathered + to_host(weights / sharers, deployment.chip)
        if "gradients" in step.offload:
            reduced = reduced + to_host(grads / sharers, deployment.chip)
    return SentBetween(reduced, gathered, apart, axes)


def _of_tables(stages: Sequence[Stage], deployment: Deployment, step: Training, axes: int) -> Span:
    """Seconds of the all-reduce between the first and the last stage for the gradient of a shared embedding table.

    Both stages hold a copy (Megatron-LM, core/distributed/finalize_model_grads.py, `_allreduce_embedding_grads`). It
    follows the reduction between replicas, and is not sharded unless they shard gradients. With DualPipe the ranks of
    both stages hold both copies, which are replicas.
    """
    layout = deployment.layout
    if layout.pp == 1 or two_ended(step, layout.pp) or step.schedule in V_SHAPED:
        return NOTHING
    tables = parameters(
        (x, 1) for s in stages for x in s.rank.embedding if isinstance(x, m.Embedding) and x.shared and not x.frozen
    )
    size = tables.bytes(gradient_format(step), layout, layout.zero >= 2)
    sizes = _along([size if s.rank.embedding or s.rank.head else 0 * size for s in stages], axes)
    return _sent("all_reduce", sizes, 2, (layout.pp - 1) * layout.stride("pp"), deployment)


def between_replicas(
    stages: Sequence[Stage],
    sent: SentBetween,
    step: Training,
    layout: Layout,
    micro_batches: Count,
    contention: Contention,
) -> tuple[Span, Span]:
    """Exposed seconds per step of gradient reduction and weight gathering, on the stage where they add most.

    All distinct stages at once, along the first axis; communication that is sent apart overlaps with nothing. Sharded
    gradients are reduced after every micro-batch, because a rank cannot accumulate gradients it does not keep
    (DeepSpeed, runtime/engine.py, `allreduce_gradients`: from stage 2 on in every backward pass, below it only in the
    step's last), except for micro-batches in a row on one chunk (`in_a_row`).
    """
    layers = [max(1, sum(int(n) for _, n in s.rank.blocks)) for s in stages]
    forward = _over([s.turns.forward for s in stages], sent.axes)
    back = _over([s.turns.backward + s.turns.weight for s in stages], sent.axes)
    many = _along([float(n) for n in layers], sent.axes)
    reduced, gathered = sent.reduced, sent.gathered

    def exposed(seconds: Span, behind: Span) -> Span:
        return _exposed(seconds, behind, many, contention) if "dp" in axes_beside(step) else seconds

    times = times_of(step, layout, micro_batches)
    alone = exposed(gathered, back)  # a backward pass without a reduction
    both = exposed(gathered + reduced if some(times.backward > 0) else reduced, back.times(times.row))
    reduction = both.times(times.reduced) + alone.times(most(times.backward - times.reduced, 0))
    return _worst(reduction + sent.apart, exposed(gathered, forward).times(times.forward))


def _along(values: Sequence[Count], axes: int) -> Array:
    """Stack numbers or arrays of the stages along a first axis, before `axes` others."""
    stacked = np.stack(np.broadcast_arrays(*values)).astype(float)
    return stacked.reshape(len(values), *(1 for _ in range(axes + 1 - stacked.ndim)), *stacked.shape[1:])


def _over(spans: Sequence[Span], axes: int) -> Span:
    """Stack spans of the stages along a first axis, before `axes` others."""
    return end_by_end(spans, lambda values: _along(values, axes))


def _worst(reduction: Span, gathering: Span) -> tuple[Span, Span]:
    """Values of the stage, along the first axis, with the largest sum of both; the first one on a tie."""
    both = np.asarray((reduction + gathering).expected)
    if not both.ndim:
        return reduction, gathering
    stage = both.argmax(axis=0)[np.newaxis]

    def of(value: Count) -> Count:
        chosen = np.take_along_axis(np.broadcast_to(value, both.shape), stage, axis=0)[0]
        return float(chosen) if not chosen.ndim else chosen

    return reduction.mapped(of), gathering.mapped(of)


def _sent(op: str, size: Count, ranks: Count, stride: Count, deployment: Deployment) -> Span:
    if not some(size):
        return NOTHING
    t = collective(op, size, ranks, deployment.cluster, stride=stride)
    return Span(t.floor, t.expected, t.low, t.high)


def _exposed(sent: Span, behind: Span, layers: Count, contention: Contention) -> Span:
    """Exposed part beside a pass of `layers` layers: at least one layer's share, and any excess over the other
    layers."""
    return contention.shown("dp", sent, behind.times((layers - 1) / layers), apart=1 / layers)
