"""Breakdown of the memory of a training rank, by module and over the time of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.result import Figured, Units
from roofline.layout.shard import PIPELINE
from roofline.model.model import Model
from roofline.model.modules import Module
from roofline.training.breakdown import module_of
from roofline.training.estimate import Stage, TrainingEstimate
from roofline.training.layouts.validation import kept_in_flight
from roofline.training.memory.matrices import state_bytes
from roofline.training.memory.memory import sharing, two_ended
from roofline.training.memory.saved_activations import Retained, op_bytes
from roofline.training.memory.workspace import parameters, stored
from roofline.work.training import Training, with_batch

LAYER_INPUTS = "inputs of layers"
"""Name for what full recomputation keeps, which belongs to no module."""


SECOND = "frozen model"
"""Row of a second model's weights."""


# -- by module -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RankBytes(Figured):
    """Bytes of a module on one rank, over all its layers: state, and activations of all micro-batches in flight."""

    FIGURES: ClassVar[Units] = {
        "module": "", **dict.fromkeys(("weights", "gradients", "optimizer", "activations", "total"), "B"),
    }  # fmt: skip

    module: str
    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0

    @property
    def total(self) -> float:
        """Sum of the four terms."""
        return self.weights + self.gradients + self.optimizer + self.activations


def module_bytes(e: TrainingEstimate, stage: int | None = None) -> tuple[RankBytes, ...]:
    """Bytes of a stage's rank by module, the largest first; by default of the fullest stage.

    They add up to the stage's weights, gradients, optimizer state and activations; the rounding of shards is divided
    among the modules. Raises InputError for arrays of steps, and for an unknown stage.
    """
    chosen = _stage(e, stage)
    memory, micro = chosen.memory, with_batch(e.step, e.micro_batch)
    every = [(x, n) for rank in chosen.holds for x, n in rank.modules()]
    rows = {x.name: RankBytes(x.name) for x, _ in every}
    for term in ("weights", "gradients", "optimizer"):
        own = float(getattr(memory, term)) - (float(memory.second) if term == "weights" else 0.0)
        _share_out(rows, term, own, _state(e, every, term))
    if memory.second:
        rows[SECOND] = RankBytes(SECOND, weights=float(memory.second))
    flying = kept_in_flight(e.step, chosen.number, e.asked.layout, e.micro_batches)
    kept = [
        (name, float(number) * size)
        for rank, number in zip(chosen.holds, flying, strict=False)
        for name, size in _kept(rank, micro, e.asked.engine.retained)
    ]
    whole = sum(float(n) * float(each) for n, each in zip(flying, (memory.each, memory.other), strict=True))
    left = whole - sum(size for _, size in kept)
    if left > 1e-9 * whole:
        kept.append((LAYER_INPUTS, left))
    _share_out(rows, "activations", float(memory.activations), kept)
    return tuple(sorted((row for row in rows.values() if row.total), key=lambda row: -row.total))


def _stage(e: TrainingEstimate, stage: int | None) -> Stage:
    if e.shape:
        raise InputError("stage", f"{e.shape} points", "one batch and one layout")
    if stage is None:
        return max(e.stages, key=lambda s: float(s.memory.total))
    if not 0 <= stage < len(e.stages):
        raise InputError("stage", stage, f"one of the {len(e.stages)} stages, from 0")
    return e.stages[stage]


def _state(e: TrainingEstimate, every: Iterable[tuple[Module, object]], term: str) -> Iterator[tuple[str, float]]:
    """Bytes of one term of each module's state, before rounding of shards."""
    step, layout = e.step, e.asked.layout
    zero, wide = layout.zero, sharing(step, layout)
    for module, n in every:
        alone = [(module, n)]
        if term == "weights":
            yield module.name, float(sum(p.bytes(f, wide, zero >= 3) for f, p in stored(alone, step).items()))
        elif not module.frozen:
            yield (
                module.name,
                float(
                    parameters(alone).bytes(step.precision.gradients, wide, zero >= 2)
                    if term == "gradients"
                    else state_bytes(alone, step, wide, zero >= 1)
                ),
            )


def _kept(rank: Model, micro: Training, retained: Retained) -> Iterator[tuple[str, float]]:
    """Activation bytes that ops of a stage's layers keep per micro-batch; none under full recomputation."""
    if micro.recompute == "full":
        return
    for block, n in rank.blocks:
        if block.name == PIPELINE:
            continue
        for op, size in op_bytes(block.modules, micro, retained):
            yield module_of(op.name), float(n * size)


def _share_out(rows: dict[str, RankBytes], term: str, total: float, parts: Iterable[tuple[str, float]]) -> None:
    """Add a total to the rows of a table, in proportion to the parts."""
    every = list(parts)
    whole = sum(size for _, size in every)
    for name, size in every if whole else ():
        row = rows.get(name, RankBytes(name))
        rows[name] = replace(row, **{term: getattr(row, term) + total * size / whole})


# -- over time -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StageOverStep(Figured):
    """The memory of a stage's rank over a step: `total` bytes from each of `seconds` on.

    `in_flight`: micro-batches whose activations are kept. `activations` rise where a forward pass begins and fall where
    the gradients of its weights end. Working memory exists during backward passes. `state`: the constant rest: weights,
    gradients (their buffers), optimizer, the allocator's reserve and the context.
    """

    FIGURES: ClassVar[Units] = {
        "stage": "", "seconds": "s", "in_flight": "", "state": "B", "activations": "B", "total": "B", "peak": "B",
        "capacity": "B",
    }  # fmt: skip

    stage: int
    seconds: tuple[float, ...]
    in_flight: tuple[float, ...]
    state: float
    activations: tuple[float, ...]
    total: tuple[float, ...]
    capacity: float

    @property
    def peak(self) -> float:
        """The maximum, in bytes."""
        return max(self.total)


def memory_over_step(e: TrainingEstimate) -> tuple[StageOverStep, ...]:
    """The memory of every stage's rank over a step, following the pipeline schedule; the peak is the stage's own.

    Raises InputError for arrays of steps.
    """
    line, both = e.timeline, two_ended(e.step, e.asked.layout.pp)
    changes: list[list[InFlightChange]] = [[] for _ in e.stages]
    for item in line.items:
        flying = {"F": 1, "B": 0, "W": -1}[item.kind] / line.chunks
        other = bool(both and item.chunk)  # for DualPipe: whether it entered at the last stage
        if item.kind == "F":
            changes[item.stage].append((item.start, flying, other, 0))
        else:
            changes[item.stage].append((item.start, 0.0, other, 1))
            changes[item.stage].append((item.end, flying, other, -1))
    return tuple(_curve(e, stage, line.length, changes[i]) for i, stage in enumerate(e.stages))


InFlightChange = tuple[float, float, bool, int]
"""Time, change of micro-batches in flight, whether they came in at the other end, change of running backward passes."""


def _curve(e: TrainingEstimate, stage: Stage, length: float, changes: list[InFlightChange]) -> StageOverStep:
    """The curve of one stage: activations kept at each moment, and working memory while a backward pass runs."""
    memory = stage.memory
    idle = replace(memory.keeping(0), working=0)
    points: dict[float, tuple[float, float, int]] = {0.0: (0.0, 0.0, 0)}
    flying, running = [0.0, 0.0], 0
    for time, more, other, works in sorted(changes, key=lambda change: change[0]):
        flying[other] += more
        running += works
        points[time] = (round(flying[0], 9), round(flying[1], 9), running)
    points.setdefault(length, (0.0, 0.0, 0))
    totals, kept = [], []
    for number, others, works in points.values():
        now = memory.keeping(number, others)
        now = now if works else replace(now, working=0)
        kept.append(float(now.activations))
        totals.append(float(now.total))
    return StageOverStep(
        stage.number, tuple(points), tuple(one + other for one, other, _ in points.values()), float(idle.total),
        tuple(kept),
        tuple(totals), float(e.chip.capacity),
    )  # fmt: skip
