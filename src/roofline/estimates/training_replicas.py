"""Between replicas: gradients reduced and weights gathered, and what of it the passes do not hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roofline.arrays import Array
from roofline.declared.maths import Count, most, some
from roofline.estimates.contention import Contention
from roofline.estimates.deployment import Deployment
from roofline.estimates.span import NOTHING, Span
from roofline.estimates.training_estimate import Stage
from roofline.estimates.training_host import to_host
from roofline.estimates.training_memory import sharing, trained, two_ended
from roofline.estimates.training_muon import whole_bytes
from roofline.estimates.training_passes import axes_beside
from roofline.estimates.training_traffic import gathered_of, gradient_format, times_of
from roofline.estimates.training_working import parameters
from roofline.machine.collectives import collective
from roofline.model import modules as m
from roofline.work.training import Training


@dataclass(frozen=True)
class SentBetween:
    """Seconds that reducing all gradients once, and gathering all weights once, take on each stage.

    `apart`: of gradients that are sent once a step, after all passes. Stages stand along a first axis, before `axes`
    others.
    """

    reduced: Span
    gathered: Span
    apart: Span
    axes: int


def sent_between(stages: Sequence[Stage], deployment: Deployment, step: Training, micro_batches: Count) -> SentBetween:
    """What replicas send each other once, of all stages that differ at once."""
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
        if step.optimizer.rounds:
            rest = zip(stages, learning, strict=True)
            whole = _along([whole_bytes(s.holds, of, layout, part == "experts") for s, of in rest], axes)
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
    """The gradient of the table that embedding and head share, added up between the first stage and the last.

    Each has a copy of it (Megatron-LM, core/distributed/finalize_model_grads.py, `_allreduce_embedding_grads`), after
    the replicas' reduction, and whole where these do not share gradients out. With DualPipe the ranks of both have both
    copies, which are replicas.
    """
    layout = deployment.layout
    if layout.pp == 1 or two_ended(step, layout.pp):
        return NOTHING
    tables = parameters(
        (x, 1) for s in stages for x in s.rank.embedding if isinstance(x, m.Embedding) and x.shared and not x.frozen
    )
    size = tables.bytes(gradient_format(step), layout, layout.zero >= 2)
    sizes = _along([size if s.rank.embedding or s.rank.head else 0 * size for s in stages], axes)
    return _sent("all_reduce", sizes, 2, (layout.pp - 1) * layout.stride("pp"), deployment)


def between_replicas(
    stages: Sequence[Stage], sent: SentBetween, step: Training, zero: int, micro_batches: Count, contention: Contention
) -> tuple[Span, Span]:
    """What reducing gradients and gathering weights adds to a step, on the stage where it adds most.

    All stages that differ at once, along a first axis; what is sent apart has nothing beside it. Gradients that are
    shared out are reduced after every micro-batch, since no rank can add up what it does not keep (DeepSpeed,
    runtime/engine.py, `allreduce_gradients`: from stage 2 at every backward pass, before at the last one of a step).
    """
    layers = [max(1, sum(int(n) for _, n in s.rank.blocks)) for s in stages]
    forward = _over([s.turns.forward for s in stages], sent.axes)
    back = _over([s.turns.backward + s.turns.weight for s in stages], sent.axes)
    many = _along([float(n) for n in layers], sent.axes)
    reduced, gathered = sent.reduced, sent.gathered

    def exposed(seconds: Span, behind: Span) -> Span:
        return _exposed(seconds, behind, many, contention) if "dp" in axes_beside(step) else seconds

    times = times_of(step, zero, micro_batches)
    alone = exposed(gathered, back)  # of a backward pass after which nothing is reduced
    both = exposed(gathered + reduced if some(times.backward > 0) else reduced, back)
    reduction = both.times(times.reduced) + alone.times(most(times.backward - times.reduced, 0))
    return _worst(reduction + sent.apart, exposed(gathered, forward).times(times.forward))


def _along(values: Sequence[Count], axes: int) -> Array:
    """Numbers or arrays of the stages along a first axis, before so many others."""
    stacked = np.stack(np.broadcast_arrays(*values)).astype(float)
    return stacked.reshape(len(values), *(1 for _ in range(axes + 1 - stacked.ndim)), *stacked.shape[1:])


def _over(spans: Sequence[Span], axes: int) -> Span:
    """Spans of the stages in the same way."""
    return Span(*(_along([span.ends()[i] for span in spans], axes) for i in range(4)))


def _worst(reduction: Span, gathering: Span) -> tuple[Span, Span]:
    """Of the stages along the first axis, the first for which both together are longest."""
    both = np.asarray((reduction + gathering).expected)
    if not both.ndim:
        return reduction, gathering
    stage = both.argmax(axis=0)[np.newaxis]

    def of(value: Count) -> Count:
        chosen = np.take_along_axis(np.broadcast_to(value, both.shape), stage, axis=0)[0]
        return float(chosen) if not chosen.ndim else chosen

    return Span(*map(of, reduction.ends())), Span(*map(of, gathering.ends()))


def _sent(op: str, size: Count, ranks: Count, stride: Count, deployment: Deployment) -> Span:
    if not some(size):
        return NOTHING
    t = collective(op, size, ranks, deployment.cluster, stride=stride)
    return Span(t.floor, t.expected, t.low, t.high)


def _exposed(sent: Span, behind: Span, layers: Count, contention: Contention) -> Span:
    """What a pass of `layers` layers does not hide: one layer's share at least, and what is longer than the others."""
    return contention.shown("dp", sent, behind.times((layers - 1) / layers), apart=1 / layers)
