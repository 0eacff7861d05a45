"""Communication between replicas in a training step: how often gradients are reduced and weights gathered.

With N ranks that shard a weight and D sets of them (HSDP), the parameters of a rank take, in each micro-batch

    ZeRO-3   gather weights for the forward pass, again for the backward unless they stay (`reshard`), and
             reduce-scatter gradients after it; between sets all-reduce a rank's share
    ZeRO-2   reduce-scatter gradients; gather weights once a step
    ZeRO-1   both once a step
    ZeRO-0   all-reduce gradients once a step

(arXiv:1910.02054 §7; torch/distributed/fsdp/_fully_shard). With `no_sync` gradients are reduced only in the last
micro-batch. Under ZeRO-2 an interleaved pipeline of p stages runs a chunk over p micro-batches in a row, adds up their
gradients and reduces them once (arXiv:2211.05953 §4.2, depth-first schedule). Offloaded weights come from the host
before they are gathered; offloaded gradients go to the host after they are reduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count, ceil_div, some
from roofline.layout.layout import Layout
from roofline.model.formats import Format
from roofline.model.model import Model
from roofline.training.memory.workspace import Parameters, in_a_row, reduced_in, travelling
from roofline.work.training import Training


@dataclass(frozen=True)
class Times:
    """How often per step a rank gathers weights for the forward pass, for the backward pass, and reduces gradients.

    `row`: micro-batches whose gradients add up before they are reduced, beside whose passes a reduction runs.
    """

    forward: Count
    backward: Count
    reduced: Count
    row: int = 1


def times_of(step: Training, layout: Layout, micro_batches: Count) -> Times:
    """Gathers and reductions per step."""
    zero, row = layout.zero, in_a_row(step, layout)
    reduced = 1 if zero < 2 or step.no_sync else ceil_div(micro_batches, row)
    if zero < 3:
        return Times(1 if zero else 0, 0, reduced, row)
    return Times(micro_batches, micro_batches if step.reshard else 0, reduced)


def gathered_of(holds: Sequence[Model], step: Training, zero: int) -> Mapping[Format, Parameters]:
    """The parameters that a rank gathers once, by format.

    Frozen parameters are only gathered with ZeRO-3: otherwise every rank holds them all, and no update changes them.
    """
    every = [(module, n) for rank in holds for module, n in rank.modules() if zero >= 3 or not module.frozen]
    return travelling(every, step)


def gradient_format(step: Training) -> Format:
    """The format in which gradients are reduced."""
    return reduced_in(step)


def check_sharded(step: Training, layout: Layout, micro_batches: Count) -> None:
    """Raises InputError for a sharding option that has no effect under the layout, or that is not possible."""
    several = some(layout.sharers > 1)
    if not step.reshard and layout.zero < 3:
        raise InputError("reshard", step.reshard, "only with zero=3 in the layout: nothing is gathered else", ["true"])
    if step.no_sync and layout.zero < 2:
        raise InputError("no_sync", step.no_sync, "only with zero=2 or 3: gradients are reduced once else", ["false"])
    if step.gather_format is not None and not (layout.zero and several):
        raise InputError("gather_format", step.gather_format, "only with zero=1 to 3 and several replicas")
    if step.reduce_format is not None and not some(layout.dp * layout.cp > 1):
        raise InputError("reduce_format", step.reduce_format, "only with several replicas")
    if step.optimizer_in_backward and some(micro_batches > 1):
        expected = f"only with one micro-batch a step, not {micro_batches}: none is added up"
        raise InputError("optimizer_in_backward", True, expected, ["false"])
    if step.optimizer_in_backward and step.no_sync:
        raise InputError("optimizer_in_backward", True, "not beside no_sync, which keeps gradients", ["false"])
    for name, least_zero in (("parameters", 3), ("gradients", 2)):
        if name in step.offload and layout.zero < least_zero:
            raise InputError("offload", name, f"only with zero={least_zero} or more: a rank's share goes to the host")
    if "gradients" in step.offload and (step.no_sync or step.optimizer_in_backward):
        raise InputError("offload", "gradients", "gradients that are kept between micro-batches and shared out")
