"""Validation of a training step's batch, layout and model, and the default layout of a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.numbers.maths import Count, ceil_div, some
from roofline.engines.engine import Engine
from roofline.inference.deployment import Deployment, Machine, training_layouts, whole_machine
from roofline.inference.settings import broadcast
from roofline.inference.step import check_context
from roofline.layout.layout import Layout
from roofline.layout.shard import contents, pipeline
from roofline.model import modules as m
from roofline.model.formats import FORMATS
from roofline.model.model import Model
from roofline.training.memory.memo import Shared
from roofline.training.memory.memory import TrainingMemory, memory_of, two_ended
from roofline.training.memory.saved_activations import FUSED, LayerBytes, Retained
from roofline.training.pipeline.schedule import check_micro_batches, in_flight
from roofline.training.replicas.traffic import check_sharded
from roofline.work.recipe import TRAINABLE
from roofline.work.training import V_SHAPED, Training, forward_ops, with_batch

EAGER = frozenset({"fsdp", "prime-rl", "torchtitan"})
"""Engines whose loss is PyTorch's own, kernel by kernel, and which have no separate gradient buffer."""


def copies_of(ranks: Sequence[Model], step: Training) -> tuple[Model | None, ...]:
    """The second stage on each rank: with DualPipe the one at the other end, else None."""
    return tuple(reversed(ranks)) if two_ended(step, len(ranks)) else (None,) * len(ranks)


def stage_memory(
    rank: Model, copy: Model | None, micro: Training, layout: Layout, known: Mapping[int, LayerBytes] | None = None,
    shared: Shared | None = None, retained: Retained = FUSED,
) -> TrainingMemory:  # fmt: skip
    """Memory of a rank with one micro-batch in flight, including the stage at the other end if it holds one."""
    beside = shared or Shared()
    own, *rest = (
        memory_of(x, micro, layout, known, beside, stage_kind(x), retained) for x in (rank, copy) if x is not None
    )
    return own.beside(rest[0]) if rest else own


def stage_kind(rank: Model) -> object:
    """Key of stages that take the same time."""
    return contents(rank), len(rank.blocks)


def kept_in_flight(step: Training, stage: int, layout: Layout, micro_batches: Count) -> tuple[Count, Count]:
    """Most micro-batches whose activations a rank keeps at once: of its own stage, and of the stage at the other end.

    With DualPipe p + 1 in total; of each stage as many as there are stages from it to the end.
    """
    if two_ended(step, layout.pp):
        return layout.pp - stage, stage + 1
    return in_flight(step.schedule, stage, layout.pp, micro_batches, layout.vp), 0


def memory_in_flight(
    memory: TrainingMemory, stage: int, step: Training, where: Deployment, engine: Engine, micro_batches: Count
) -> TrainingMemory:
    """The memory with a stage's micro-batches in flight, and gradients as they are produced where there is no buffer.

    Paged optimizer state that does not fit is not counted.
    """
    kept = memory.keeping(*kept_in_flight(step, stage, where.layout, micro_batches))
    if where.layout.pp == 1 and (step.optimizer_in_backward or engine.id in EAGER):
        kept = kept.either(micro_batches == 1, kept.as_made())
    return kept.resident(where.chip.capacity) if step.optimizer.paged else kept


def check_run_again(model: Model, step: Training) -> None:
    """Raises InputError, with the nearest name, for a name in `recompute` that no module of the model has."""
    if isinstance(step.recompute, tuple):
        sections = (model.embedding, model.head, *(block.modules for block, _ in model.blocks))
        ops = [op for modules in sections for op in forward_ops(modules, with_batch(step, 1))]
        names = list(dict.fromkeys(op.name for op in ops))
        for name in step.recompute:
            if name not in names:
                raise not_one_of("recompute", name, names)


def check(model: Model, step: Training, layout: Layout) -> Count:
    """Micro-batches of a replica. Raises InputError where a batch or sequence does not divide, or is too long."""
    check_context(model, step)
    if FORMATS[step.recipe.weights].bits < TRAINABLE and not any(x.frozen for x, _ in model.modules()):
        raise InputError("recipe", step.recipe.name, f"one whose weights can learn, or adapters; {step.recipe.about}")
    check_run_again(model, step)
    if some(layout.ep > 1) and not any(isinstance(x, m.Experts) for x, _ in model.modules()):
        raise InputError("layout.ep", layout.ep, f"1: {model.name} has no experts to share out", ["1"])
    batch, tokens = step.batch, step.tokens_each
    broadcast(batch=batch, tokens=tokens, micro_batch=step.micro_batch, layout=layout)
    replicas = layout.dp * step.micro_batch
    if some(batch % replicas):
        batch, groups = _first(batch % replicas, batch, replicas)
        near = sorted({max(1, batch // groups) * groups, ceil_div(batch, groups) * groups})
        raise InputError("batch", batch, f"a multiple of dp · micro_batch, {groups}", [str(n) for n in near])
    if some(tokens % layout.cp):
        tokens, ranks = _first(tokens % layout.cp, tokens, layout.cp)
        raise InputError("layout.cp", ranks, f"a divisor of the {tokens} tokens of a sequence")
    micro_batches = batch // replicas
    check_sharded(step, layout, micro_batches)
    check_micro_batches(step.schedule, layout.pp, micro_batches, layout.vp)
    return micro_batches


def _first(wrong: Count, *values: Count) -> tuple[int, ...]:
    """The values at the first element where `wrong` holds."""
    arrays = np.broadcast_arrays(wrong, *values)
    place = np.flatnonzero(arrays[0])[0]
    return tuple(int(a.flat[place]) for a in arrays[1:])


def of_whole_shape(model: Model, step: Training, on: Machine, engine: Engine) -> Deployment:
    """The whole machine under the first layout that divides the batch and fits."""

    def holds(deployment: Deployment) -> bool:
        try:
            return has_room(model, step, deployment, engine)
        except InputError:  # a batch that does not divide
            return False

    deployment = whole_machine(on, lambda cluster: training_layouts(model, cluster), holds)
    try:
        check(model, step, deployment.layout)
    except InputError:
        return whole_machine(on, lambda cluster: training_layouts(model, cluster), lambda d: divides(model, step, d))
    return deployment


def divides(model: Model, step: Training, deployment: Deployment) -> bool:
    """Whether the batch divides into micro-batches of every replica."""
    try:
        check(model, step, deployment.layout)
    except InputError:
        return False
    return True


def has_room(model: Model, step: Training, deployment: Deployment, engine: Engine) -> bool:
    """Whether the first and the last stage fit, without computing times. Raises InputError as `train` does."""
    layout, micro = deployment.layout, with_batch(step, step.micro_batch)
    micro_batches = check(model, step, layout)
    _, ranks = pipeline(model, layout, step.schedule in V_SHAPED)
    copies = copies_of(ranks, step)
    for stage in {0, layout.pp - 1}:
        memory = stage_memory(ranks[stage], copies[stage], micro, layout, retained=engine.retained)
        memory = memory_in_flight(memory, stage, step, deployment, engine, micro_batches)
        if some(memory.total > deployment.chip.capacity):
            return False
    return True
