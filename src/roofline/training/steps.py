"""The stages of a training step with their passes and memory, what goes between replicas, and the estimate of both."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from roofline.declared.numbers.maths import Count
from roofline.inference.contention import contention_on
from roofline.inference.settings import Setup
from roofline.inference.span import NOTHING, Span
from roofline.kernels.power import Busy
from roofline.layout.layout import Layout
from roofline.layout.shard import parts_of, pipeline
from roofline.model.model import Model
from roofline.training.estimate import Stage, TrainingEstimate, TrainingSetup
from roofline.training.layouts.validation import copies_of, memory_in_flight, stage_kind, stage_memory
from roofline.training.memory.memo import Shared
from roofline.training.memory.memory import TrainingMemory
from roofline.training.memory.workspace import adding_up, in_a_row
from roofline.training.passes import (
    Passes,
    Sections,
    axes_beside,
    behind_host,
    offloaded,
    on_ranks,
    passes_of,
    run_passes,
    timed_sections,
)
from roofline.training.replicas.optimizer import update_of
from roofline.training.replicas.replicas import between_replicas, sent_between
from roofline.training.replicas.stragglers import late_seconds, waiting_of
from roofline.training.second_model import forward_busy, forward_span, plainly, with_second
from roofline.work.training import V_SHAPED, Training, with_batch


@dataclass(frozen=True)
class Stages:
    """Stages of a pipeline: one per distinct kind, with one micro-batch in flight; all in order; the times of
    layers."""

    kinds: Mapping[int, Stage]
    order: Sequence[Stage]
    sections: Sections


@dataclass(frozen=True)
class _Ranks:
    """One layer of each block with embedding and head; for each kind of stage the first stage, its rank and its copy.

    `order`: the kind of every stage.
    """

    layers: Model
    kinds: Mapping[int, tuple[int, Model, Model | None]]
    order: tuple[int, ...]


def _ranks(model: Model, spread: Layout, step: Training, shared: Shared) -> _Ranks:
    v_shaped = step.schedule in V_SHAPED
    if spread.alone:
        layers, ranks = pipeline(model, spread, v_shaped)
    else:
        layers, ranks = shared.of("parts", (), lambda: parts_of(model, spread)).pipeline(spread, v_shaped)
    known: dict[Hashable, int] = shared.of("kinds", (), dict)
    kinds: dict[int, tuple[int, Model, Model | None]] = {}
    order = []
    for i, (rank, copy) in enumerate(zip(ranks, copies_of(ranks, step), strict=True)):
        kind = known.setdefault((stage_kind(rank), copy and stage_kind(copy)), len(known))
        kinds.setdefault(kind, (i, rank, copy))
        order.append(kind)
    return _Ranks(layers, kinds, tuple(order))


def stages_of(asked: Setup, step: Training, shared: Shared) -> Stages:
    """The stages of a step, with the passes and the memory of one micro-batch."""
    model, spread, micro = asked.model, asked.layout, with_batch(step, step.micro_batch)
    again, zero, vp, waits = step.recompute, spread.zero, spread.vp, chunks_waited(step, spread)
    whole = adding_up(step, spread)
    ranks = shared.of("ranks", (vp, step.schedule in V_SHAPED), lambda: _ranks(model, spread, step, shared))
    sections, known = shared.of(
        "sections", (again,), lambda: timed_sections(asked, micro, ranks.layers, shared.among, shared.alone)
    )
    contention = contention_on(asked.target)
    kinds: dict[int, Stage] = {}
    for kind, (number, rank, copy) in ranks.kinds.items():

        def run(rank: Model = rank) -> Passes:
            alone = passes_of(rank, sections.running_again(rank, micro), micro, spread, contention)
            alone = behind_host(alone, rank, asked.target, micro)
            return offloaded(alone, rank, known, micro, asked.deployment.chip)

        def kept(rank: Model = rank, copy: Model | None = copy) -> TrainingMemory:
            return stage_memory(rank, copy, micro, spread, known, shared, asked.engine.retained)

        passes = shared.of("passes", (again, waits, kind), run)
        kinds[kind] = Stage(number, rank, passes, shared.of("memory", (again, zero, whole, kind), kept), passes, copy)
    turns = on_ranks(step, [kinds[kind].passes for kind in ranks.order])
    kinds = {kind: replace(stage, turns=turns[stage.number]) for kind, stage in kinds.items()}
    return Stages(kinds, [kinds[kind] for kind in ranks.order], sections)


def chunks_waited(step: Training, layout: Layout) -> int:
    """The number of chunks where it changes the time of a pass, which is where sends are exposed."""
    return 0 if "pp" in axes_beside(step) else layout.vp


def replicas_and_update(
    every: Stages, asked: Setup, step: Training, micro_batches: Count, shared: Shared
) -> tuple[Span, Span, Span]:
    """Exposed seconds of gradient reduction and of weight gathering, and seconds of an optimizer that is not paged."""
    deployment, spread, again = asked.deployment, asked.layout, step.recompute
    zero, waits, kinds, differing = spread.zero, chunks_waited(step, spread), every.kinds, list(every.kinds.values())
    sent = shared.of("sent", (zero, *kinds), lambda: sent_between(differing, deployment, step, micro_batches))
    reduction, gathering = shared.of(
        "replicas", (again, zero, waits, in_a_row(step, spread), *kinds),
        lambda: between_replicas(differing, sent, step, spread, micro_batches, contention_on(asked.target)),
    )  # fmt: skip
    return reduction, gathering, shared.of("update", (zero, *kinds), lambda: update_of(differing, asked, step))


def estimated(asked: TrainingSetup, step: Training, micro_batches: Count, shared: Shared) -> TrainingEstimate:
    """The estimate of a step; `shared` keeps what others have in common with it."""
    deployment, software, spread = asked.deployment, asked.engine, asked.layout
    every = stages_of(asked, step, shared)
    passes = run_passes(step, [s.passes for s in every.order], micro_batches, spread.vp)
    stages = tuple(
        replace(stage, number=i, memory=memory_in_flight(stage.memory, i, step, deployment, software, micro_batches))
        for i, stage in enumerate(every.order)
    )
    reduction, gathering, update = replicas_and_update(every, asked, step, micro_batches, shared)
    if step.optimizer.paged:
        update = update_of(stages, asked, step)
    second, busy = NOTHING, Busy()
    if asked.second is not None:
        other, still = asked.second.setup, plainly(step)
        frozen = stages_of(other, still, Shared())
        stages = with_second(stages, frozen.order, asked.second, step)
        shown = replicas_and_update(frozen, other, still, micro_batches, Shared())[1] if spread.zero == 3 else NOTHING
        second, busy = forward_span(frozen.order, micro_batches) + shown, forward_busy(frozen.order, asked.second, step)
    work = passes + second + reduction + gathering + update
    late = late_seconds(asked.stragglers, [s.turns for s in every.order], micro_batches, spread)
    waiting = waiting_of(work, spread.chips, asked.target, late)
    parts = (passes, reduction.ordered(), gathering.ordered(), update, waiting)
    whole = work + waiting
    return TrainingEstimate(asked, step, micro_batches, stages, whole, *parts, every.sections, second.ordered(), busy)
