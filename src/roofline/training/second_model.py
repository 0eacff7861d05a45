"""A frozen second model of a training step: the teacher of distillation, or the reference of DPO.

Its forward passes see the same sequences under the same layout, before those of the model that learns. Its stages hold
its weights, sharded as the stage of ZeRO says; nothing of it is kept for a backward pass. A teacher's logits of one
micro-batch are kept until the loss (arXiv:1503.02531); of a reference only each token's log-probability is
(arXiv:2305.18290, eq. 7).

    seconds = Σ Fᵢ + Σ sends + (m − 1)·max Fᵢ, and what gathering of its weights shows under ZeRO-3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from roofline.declared.numbers.maths import Count, most
from roofline.inference.cost.busy import busy_of
from roofline.inference.plan import Plan
from roofline.inference.span import Span, total
from roofline.kernels.power import Busy
from roofline.training.estimate import SecondModel, Stage
from roofline.work import ops as o
from roofline.work.step import Queries, decode
from roofline.work.step import replace as changed
from roofline.work.training import Training, forward_ops, with_batch, with_options


def plainly(step: Training) -> Training:
    """A step of which nothing is run again or offloaded: a forward pass alone has nothing to run again."""
    return with_options(step, recompute="none", recompute_layers=None, recompute_every=None, offload=())


def forward_span(stages: Sequence[Stage], micro_batches: Count) -> Span:
    """Seconds of all micro-batches' forward passes through stages one after another."""
    forwards = [stage.passes.forward for stage in stages]
    sends = total(stage.passes.send for stage in stages[:-1])
    return total(forwards) + sends + reduce(Span.most, forwards).times(micro_batches - 1)


def with_second(own: Sequence[Stage], second: Sequence[Stage], of: SecondModel, step: Training) -> tuple[Stage, ...]:
    """The stages with the weights of the second model's, and with a teacher's logits of one micro-batch."""
    micro = with_batch(step, step.micro_batch)
    stages = []
    for stage, other in zip(own, second, strict=True):
        weights = 0 if of.shares else other.memory.weights
        losses = [op for op in forward_ops(other.rank.head, micro) if isinstance(op, o.Loss)] if of.logits else []
        logits = step.precision.activations.bytes(sum(op.rows * op.width for op in losses))
        memory = replace(
            stage.memory, weights=stage.memory.weights + weights, second=weights,
            working=most(stage.memory.working + logits, other.memory.working),
        )  # fmt: skip
        stages.append(replace(stage, memory=memory))
    return tuple(stages)


def forward_busy(stages: Sequence[Stage], of: SecondModel, step: Training) -> Busy:
    """Work of one chip of each stage for the forward passes of one micro-batch, added up."""
    once = changed(decode(1, 1), (Queries(0, step.tokens_each, step.micro_batch),)).with_logits("all")
    return reduce(lambda a, b: a + b, (busy_of(Plan(s.rank, of.setup.target).total(once)) for s in stages))
