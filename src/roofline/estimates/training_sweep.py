"""Training steps of many layouts and batches at once: degrees and batches in arrays, step time and memory in arrays.

The same ops, laws and memory as `estimate_training`, with the pipeline's closed form in place of its timeline: stages
of equal layers (the most that one has), the slower of the first with the embedding and the last with the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy

from roofline.estimates.latency import Estimate, time_of
from roofline.estimates.place import Place, Placed, placed
from roofline.estimates.schedule import closed_in_flight, closed_length
from roofline.estimates.training import of_attention
from roofline.estimates.training_memory import held, memory_of, trained
from roofline.layout.layout import Layout
from roofline.machine.engine import TRAINER, Engine, engine_named
from roofline.machine.timing import Mode, Target, mode_named, time_op
from roofline.model.maths import Count, is_array
from roofline.model.model import Model
from roofline.model.precision import FORMATS
from roofline.work import ops as o
from roofline.work.training import Training, with_batch


@dataclass(frozen=True)
class TrainingSweep:
    """Arrays of the broadcast shape of the layout's degrees and the batch.

    `time`: expected seconds of a step. `memory`: bytes of the fullest rank. `valid`: whether the batch divides into
    micro-batches of every replica; elsewhere the figures mean nothing.
    """

    model: Model
    step: Training
    where: Placed
    micro: Estimate
    passes: Count
    exposed: Count
    update: Count
    memory: Count
    valid: Count

    @cached_property
    def time(self) -> Count:
        """Expected seconds of one step."""
        return self.passes + self.exposed + self.update

    @property
    def chips(self) -> Count:
        """Chips of each layout."""
        return self.where.layout.chips

    @property
    def tokens_per_second(self) -> Count:
        """Tokens of all chips per expected second."""
        return self.step.new_tokens / self.time

    @property
    def fits(self) -> Count:
        """Whether the fullest rank has room."""
        return self.valid & (self.memory <= self.where.chip.capacity)


def sweep_training(
    model: Model, step: Training, *, on: Place, layout: Layout, law: str | Mode = "calibrated",
    engine: str | Engine | None = TRAINER, precision: object = None,
) -> TrainingSweep:  # fmt: skip
    """Step time and memory of every layout with every batch; arrays of degrees and of `step`'s batch broadcast.

    Raises InputError where a degree, in any element, does not divide what it shares out.
    """
    # Degrees of stages in an array make each an average one, with all that the first and the last have.
    if not is_array(layout.pp):
        layout = replace(layout, pp=numpy.full((1,) * max(len(layout.shape), len(step.shape)), layout.pp))
    where = placed(on, layout)
    rank, micro = where.rank(model, 0), with_batch(step, step.micro_batch)
    e = time_of(rank, micro, where, law, precision, engine)
    (query,) = step.queries
    replicas = layout.dp * step.micro_batch
    count = query.count // replicas
    phases: tuple[tuple[str, ...], ...] = (("forward",), ("recompute", "backward"), ("weight",))
    body = [
        _phase(e, phase, ("embedding", "head"), inside=False) - _hidden(e, phase, layout, step.schedule)
        for phase in phases
    ]
    ends = [sum(_phase(e, phase, (end,)) for phase in phases) for end in ("embedding", "head")]
    many = layout.pp > 1
    slower = numpy.where(many, numpy.maximum(*ends), ends[0] + ends[1])
    passes = closed_length(step.schedule, body[0], body[1], body[2], layout.pp, count, layout.vp)
    passes = passes + (count - 1) * slower + ends[0] + ends[1] + 2 * (layout.pp - 1) * _handed(e)

    def shown(held: Model, ends: tuple[str, ...]) -> Count:
        forward, backward, weight = (b + _phase(e, phase, ends) for b, phase in zip(body, phases, strict=True))
        return _exposed(held, step, layout, e.target, forward, backward + weight, count)

    first, last = shown(replace(rank, head=()), ("embedding",)), shown(replace(rank, embedding=()), ("head",))
    exposed = numpy.where(many, numpy.maximum(first, last), shown(rank, ("embedding", "head")))
    return TrainingSweep(
        model, step, where, e, passes, exposed, _update(rank, step, layout, e.target),
        _memory(rank, micro, layout, count), query.count % replicas == 0,
    )  # fmt: skip


def _phase(e: Estimate, phases: tuple[str, ...], blocks: tuple[str, ...], inside: bool = True) -> Count:
    """Expected seconds of some passes of one micro-batch, in some blocks or in all others."""
    total: Count = 0.0
    for op in e.ops:
        if op.cost.op.phase in phases and (op.cost.block in blocks) == inside and op.cost.block != "pipeline":
            total = total + op.cost.layers * op.each.expected
    return total


def _hidden(e: Estimate, phases: tuple[str, ...], layout: Layout, schedule: str) -> Count:
    """Seconds of exchange that a pass hides: a ring's behind attention, in DualPipe experts' behind all other work."""

    def total(chosen: Callable[[o.Op], bool]) -> Count:
        found = (op for op in e.ops if op.cost.op.phase in phases and op.cost.block != "pipeline")
        return sum((op.cost.layers * op.each.expected for op in found if chosen(op.cost.op)), 0.0)

    def sent(axis: str) -> Count:
        return total(lambda op: isinstance(op, o.Communicate) and op.axis == axis)

    hidden: Count = 0.0
    if layout.exchange == "ring":
        attention = total(lambda op: isinstance(op, o.Attend) or of_attention(op))
        hidden = numpy.minimum(sent("cp"), attention)
    if schedule == "dualpipe":
        work = total(lambda op: not isinstance(op, o.Communicate)) + sent("tp")
        hidden = hidden + numpy.minimum(sent("ep"), work)
    return hidden


def _handed(e: Estimate) -> Count:
    """Seconds to hand one micro-batch's stream to the next stage."""
    sends = (op for op in e.ops if op.cost.block == "pipeline" and op.cost.op.phase == "forward")
    return sum((op.each.expected for op in sends), 0.0)


def _memory(rank: Model, micro: Training, layout: Layout, count: Count) -> Count:
    """Bytes of the only stage, or of the fuller of the first and the last."""

    def of(held: Model, stage: Count) -> Count:
        return memory_of(
            held, micro, layout, closed_in_flight(micro.schedule, stage, layout.pp, count, layout.vp)
        ).total

    several = numpy.maximum(of(replace(rank, head=()), 0), of(replace(rank, embedding=()), layout.pp - 1))
    return numpy.where(layout.pp > 1, several, of(rank, 0))


def _exposed(
    rank: Model, step: Training, layout: Layout, target: Target, forward: Count, back: Count, count: Count
) -> Count:
    """Gradients and weights between replicas that the passes do not hide: see `roofline.estimates.training`."""
    learning, everything, unit = trained(rank), held(rank.modules()), target.precision.activations
    alone = replace(target, engine=engine_named(None), mode=mode_named("calibrated"))
    layers: Count = 0
    for block, n in rank.blocks:
        layers = layers + n * (block.name != "pipeline")

    def sent(op: str, size: Count, ranks: Count, stride: Count) -> Count:
        some = o.Communicate(
            name=op, collective=op, elements=size / float(unit.stored_bits / 8), ranks=ranks, stride=stride
        )
        return time_op(some, alone).expected

    reduced: Count = 0.0
    gathered: Count = 0.0
    groups = (
        (learning.dense, everything.dense, layout.sharers, layout.tp),
        (learning.experts, everything.experts, layout.expert_sharers, layout.ep * layout.expert_tp),
    )
    for grads, weights, sharers, stride in groups:
        if isinstance(weights, int) and weights == 0:
            continue
        gradient, weight = target.precision.gradients.bytes(grads), FORMATS[step.recipe.weights].bytes(weights)  # type: ignore[attr-defined]
        reduced = reduced + sent("reduce_scatter" if layout.zero else "all_reduce", gradient, sharers, stride)
        gathered = gathered + (sent("all_gather", weight, sharers, stride) if layout.zero else 0.0)

    def shown(travels: Count, behind: Count) -> Count:
        if not step.overlap:
            return travels
        return numpy.maximum(travels - behind * (layers - 1) / layers, travels / layers)

    if layout.zero == 3:
        return count * (shown(gathered, forward) + shown(gathered + reduced, back))
    return shown(reduced, back) + shown(gathered, forward)


def _update(rank: Model, step: Training, layout: Layout, target: Target) -> Count:
    learning = trained(rank)
    one, shared = FORMATS["int8"], layout.zero >= 1
    n = learning.bytes(one, layout, shared)
    unit = float(target.precision.activations.stored_bits)
    read = float(step.precision.gradients.stored_bits) / unit
    written = float(FORMATS[step.recipe.weights].stored_bits) / unit
    op = o.Update(
        name=step.optimizer.name, phase="update", elements=n, work=step.optimizer.flops, store="optimizer",
        cache_read=n, cache_write=n, input=read * n, output=written * n,
    )  # fmt: skip
    return time_op(op, target).expected
