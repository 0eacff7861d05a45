"""Between replicas: gradients reduced and weights gathered, and what of it the passes do not hide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from roofline.estimates.contention import Contention
from roofline.estimates.deployment import Deployment
from roofline.estimates.span import NOTHING, Span
from roofline.estimates.training_estimate import Stage
from roofline.estimates.training_memory import (
    sharing,
    stored,
    trained,
)
from roofline.estimates.training_passes import axes_beside
from roofline.machine.collectives import collective
from roofline.model.maths import Count, some
from roofline.model.modules import Module
from roofline.work.training import Training


def between_replicas(
    stages: Sequence[Stage], deployment: Deployment, step: Training, micro_batches: Count, contention: Contention
) -> tuple[Span, Span]:
    """What reducing gradients and gathering weights adds to a step, on the stage where it adds most.

    All stages that differ at once, along a first axis. Gradients that are shared out are reduced after every
    micro-batch, since no rank can add up what it does not keep (DeepSpeed, runtime/engine.py, `allreduce_gradients`:
    from stage 2 at every backward pass, before at the last one of a step).
    """
    layout, zero = sharing(step, deployment.layout), deployment.layout.zero
    learning = [trained(*s.holds) for s in stages]
    gathers = [stored(_gathered(s, zero), step) for s in stages]
    gradient = step.precision.gradients
    layers = [max(1, sum(int(n) for _, n in s.rank.blocks)) for s in stages]
    axes = max(len(layout.shape), np.ndim(micro_batches), *(np.ndim(v) for s in stages for v in s.passes.busy.ends()))
    forward = _over([s.passes.forward for s in stages], axes)
    back = _over([s.passes.backward + s.passes.weight for s in stages], axes)
    many = _along([float(n) for n in layers], axes)
    reduced, gathered = NOTHING, NOTHING
    for part, ranks, stride in (
        ("dense", layout.dp * layout.cp, layout.tp),
        ("experts", layout.ranks // (layout.ep * layout.expert_tp), layout.ep * layout.expert_tp),
    ):
        sharers = layout.sharers if part == "dense" else layout.expert_sharers
        grads = _along([gradient.bytes(getattr(p, part)) for p in learning], axes)
        weights = _along([sum(f.bytes(getattr(p, part)) for f, p in by_format.items()) for by_format in gathers], axes)
        if zero == 0:
            reduced = reduced + _sent("all_reduce", grads, ranks, stride, deployment)
            continue
        reduced = reduced + _sent("reduce_scatter", grads, sharers, stride, deployment)
        if some(ranks > sharers):
            reduced = reduced + _sent("all_reduce", grads / sharers, ranks // sharers, stride * sharers, deployment)
        gathered = gathered + _sent("all_gather", weights, sharers, stride, deployment)

    def exposed(sent: Span, behind: Span) -> Span:
        return _exposed(sent, behind, many, contention) if "dp" in axes_beside(step) else sent

    if zero == 3:  # weights are gathered for either pass of every micro-batch, gradients scattered after it
        backward = exposed(gathered + reduced, back).times(micro_batches)
        forward = exposed(gathered, forward).times(micro_batches)
        return _worst(backward, forward)
    times = micro_batches if zero == 2 else 1
    return _worst(exposed(reduced, back).times(times), exposed(gathered, forward))


def _gathered(stage: Stage, zero: int) -> Iterator[tuple[Module, Count]]:
    """The modules whose weights ranks gather: of ZeRO-3 all of them, else those that the optimizer has changed."""
    every = (x for rank in stage.holds for x in rank.modules())
    return ((module, n) for module, n in every if zero == 3 or not module.frozen)


def _along(values: Sequence[Count], axes: int) -> Any:
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
