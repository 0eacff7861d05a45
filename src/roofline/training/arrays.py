"""Training steps for many ZeRO stages, recomputations, degrees and micro-batches at once.

Memory is computed first, for all of them. The passes are then simulated, as in `train`, only where a step fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, most
from roofline.inference.settings import Setup
from roofline.inference.span import exactly
from roofline.training.estimate import Stage, TrainingEstimate, TrainingSetup
from roofline.training.layouts.validation import memory_in_flight
from roofline.training.memory.memo import Shared
from roofline.training.passes import Passes, stage_times
from roofline.training.pipeline.schedule import StageTimes, length, side_by_side
from roofline.training.replicas.optimizer import update_of
from roofline.training.replicas.stragglers import late_seconds, waiting_of
from roofline.training.replicas.traffic import check_sharded
from roofline.training.steps import Stages, estimated, replicas_and_update, stages_of
from roofline.work.training import Training


@dataclass(frozen=True)
class TrainingFamily:
    """Steps by recomputation, ZeRO stage and point [again, zeros, points]: bytes of the fullest rank, and whether they
    fit.

    `seconds`: expected, per step; NaN where it does not fit. `worth`: what a goal makes of each; seconds without one.
    """

    seconds: Array
    bytes: Array
    fits: Array
    worth: Array


@dataclass(frozen=True)
class _Asked:
    """Steps with one recomputation, and their setups for each ZeRO stage."""

    step: Training
    micro_batches: Count
    setups: tuple[TrainingSetup, ...]
    stages: tuple[Stages, ...]


def family_of(
    shared: Shared,
    asked: Sequence[tuple[TrainingSetup, Training, Count]],
    zeros: Sequence[int],
    points: int,
    goal: Callable[[TrainingEstimate], Count] | None = None,
) -> TrainingFamily:
    """Steps for every ZeRO stage over `points` combinations of degrees and micro-batches.

    `asked`: for every recomputation the setup under the first of the `zeros`, the step, and its micro-batches. Its
    degrees and micro-batches are those that `shared` belongs to. `goal`: what is minimised, of an estimate.
    Raises InputError where one of the steps is not possible.
    """
    layout = asked[0][0].layout
    setups = _of_zeros(*asked[0], zeros)
    every = [
        _Asked(step, micro_batches, setups, tuple(stages_of(setup, step, shared) for setup in setups))
        for _, step, micro_batches in asked
    ]
    total = np.empty((len(asked), len(zeros), points))
    for i, some in enumerate(every):
        for j, (setup, stages) in enumerate(zip(some.setups, some.stages, strict=True)):
            total[i, j] = reduce(most, (s.memory.total for s in _in_flight(some, setup, stages)))
    fits = total <= every[0].setups[0].deployment.chip.capacity
    seconds = np.full(total.shape, np.nan)
    if fits.any():
        passes = _passes(every, layout.vp, np.asarray(fits.any(axis=1)))
        beyond, slow = np.zeros(total.shape), asked[0][0].stragglers
        late = None if slow is None else np.zeros(total.shape)
        for i, some in enumerate(every):
            for j, (setup, stages) in enumerate(zip(some.setups, some.stages, strict=True)):
                if not fits[i, j].any():
                    continue
                parts = replicas_and_update(stages, setup, some.step, some.micro_batches, shared)
                if some.step.optimizer.paged:
                    parts = (*parts[:2], update_of(_in_flight(some, setup, stages), setup, some.step))
                beyond[i, j] = sum(part.expected for part in parts)
                if late is not None:
                    late[i, j] = late_seconds(slow, [s.turns for s in stages.order], some.micro_batches, layout)
        work = passes[:, np.newaxis] + beyond
        waiting = waiting_of(exactly(work), layout.chips, every[0].setups[0].target, late).expected
        seconds = np.where(fits, work + waiting, np.nan)
    worth = seconds
    if goal is not None:
        worth = np.full(total.shape, np.nan)
        for i, some in enumerate(every):
            for j, setup in enumerate(some.setups):
                if fits[i, j].any():
                    worth[i, j] = goal(estimated(setup, some.step, some.micro_batches, shared))
    return TrainingFamily(seconds, total, fits, worth)


def _of_zeros(
    asked: TrainingSetup, step: Training, micro_batches: Count, zeros: Sequence[int]
) -> tuple[TrainingSetup, ...]:
    """The setup for each ZeRO stage. Raises InputError where one of them is not possible."""
    where = asked.deployment
    setups = tuple(replace(asked, deployment=replace(where, layout=replace(where.layout, zero=zero))) for zero in zeros)
    for setup in setups:
        check_sharded(step, setup.layout, micro_batches)
    return setups


def _in_flight(some: _Asked, setup: Setup, stages: Stages) -> list[Stage]:
    """The first stage of each kind with its micro-batches in flight, which are no fewer than those of later stages."""
    where, engine = setup.deployment, setup.engine
    return [
        replace(s, memory=memory_in_flight(s.memory, s.number, some.step, where, engine, some.micro_batches))
        for s in stages.kinds.values()
    ]


def _passes(every: Sequence[_Asked], chunks: int, wanted: Array) -> Array:
    """Expected seconds of the passes, [again, points], where `wanted`."""
    first = every[0]
    orders = [[s.passes for s in some.stages[0].order] for some in every]
    variants: dict[tuple[int, ...], tuple[Passes, ...]] = {}
    keys = []
    for passes in zip(*orders, strict=True):
        key = tuple(map(id, passes))
        variants[key] = passes
        keys.append(key)

    def few(values: Count) -> Array:
        return np.asarray(np.broadcast_to(values, wanted.shape)[wanted])

    def at(passes: Sequence[Passes]) -> StageTimes:
        return side_by_side([stage_times(p, "expected", chunks) for p in passes], 1).at(few)

    times = {key: at(passes) for key, passes in variants.items()}
    lengths = np.full(wanted.shape, np.nan)
    lengths[wanted] = length(first.step.schedule, [times[key] for key in keys], few(first.micro_batches), chunks)
    return lengths
