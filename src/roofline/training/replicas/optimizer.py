"""The optimizer's update of the weights of one rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roofline.declared.numbers.maths import Count, ceil_div, is_array, some
from roofline.inference.settings import Setup
from roofline.inference.span import NOTHING, Span, total
from roofline.kernels.timing import time_op
from roofline.layout.layout import Layout
from roofline.model.formats import FORMATS
from roofline.model.model import Model
from roofline.training.estimate import Stage
from roofline.training.host import to_host
from roofline.training.memory.matrices import state_bytes
from roofline.training.memory.memory import modules_of, sharing, trained
from roofline.training.replicas.whole_matrices import whole_ops
from roofline.work import ops as o
from roofline.work.training import Training


def update_of(stages: Sequence[Stage], asked: Setup, step: Training) -> Span:
    """Seconds of the update on the stage with most parameters: read and write state, read gradients, write weights."""
    worst = NOTHING
    for stage in stages:
        timings = (time_op(op, asked.target) for op in update_ops(stage.holds, sharing(step, asked.layout), step))
        seconds = total(Span(t.floor, t.expected, t.low, t.high) for t in timings)
        if "optimizer" in step.offload:
            shared = sharing(step, asked.layout)
            state = state_bytes(modules_of(*stage.holds), step, shared, shared.zero >= 1)
            seconds = seconds + to_host(2 * state, asked.deployment.chip)
        worst = worst.most(seconds + _fetched(stage, step, asked))
    return worst


def _fetched(stage: Stage, step: Training, asked: Setup) -> Span:
    """Seconds to fetch and return what lies on the host: gradients, weights, pages of optimizer state."""
    learning, shared = trained(*stage.holds), sharing(step, asked.layout)
    moved: Count = 0
    if "gradients" in step.offload:
        moved = moved + learning.bytes(step.precision.gradients, shared, True)
    if "parameters" in step.offload:
        moved = moved + learning.bytes(FORMATS[step.recipe.weights], shared, True)
    if step.optimizer.paged and "optimizer" not in step.offload:
        state = state_bytes(modules_of(*stage.holds), step, shared, shared.zero >= 1)
        moved = moved + 2 * (state - stage.memory.optimizer)
    return to_host(moved, asked.deployment.chip) if some(moved > 0) else NOTHING


def update_ops(holds: Sequence[Model], layout: Layout, step: Training) -> list[o.Op]:
    """The optimizer's ops on one rank: on its share of the parameters, with Newton–Schulz rounds where it has them."""
    precision, learning, shared = step.precision, trained(*holds), layout.zero >= 1
    dense = ceil_div(learning.dense, layout.sharers) if shared else learning.dense
    experts = ceil_div(learning.experts, layout.expert_sharers) if shared else learning.experts
    n, unit = dense + experts, precision.activations.stored_bits
    further = state_bytes(modules_of(*holds), step, layout, shared) - precision.optimizer.bytes(n)
    read, written = (
        _whole(n * float(f.stored_bits / unit) + 8 * further / float(unit))
        for f in (precision.gradients, FORMATS[step.recipe.weights])
    )
    ops: list[o.Op] = [
        o.Update(
            name=step.optimizer.name, phase="update", elements=n, work=step.optimizer.flops, store="optimizer",
            cache_read=n, cache_write=n, input=read, output=written,
        )
    ]  # fmt: skip
    return [*ops, *whole_ops(holds, learning, layout, step.optimizer)]


def _whole(value: Count) -> Count:
    return np.floor(value) if is_array(value) else int(value)
