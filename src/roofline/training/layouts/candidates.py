"""All legal layouts of a training step on a machine, timed: what a search ranks, a default is the best of.

Degrees, micro-batches, ZeRO stages and recomputation are evaluated as arrays, for each choice of pipeline stages,
chunks and recipe: first memory, then the time of what fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count
from roofline.declared.question import Settings
from roofline.declared.time_limit import SearchClock
from roofline.engines.engine import Engine
from roofline.engines.stacks import stack_rows
from roofline.hardware.cluster import cluster_named
from roofline.inference.deployment import Machine, node_size
from roofline.layout.layout import Layout
from roofline.model.model import Model
from roofline.training.arrays import TrainingFamily, family_of
from roofline.training.estimate import TrainingEstimate, TrainingSetup
from roofline.training.layouts.degrees import (
    DegreePoints,
    chunk_numbers,
    degree_points,
    stage_numbers,
    takes,
    with_micro_batches,
)
from roofline.training.layouts.validation import check_run_again
from roofline.training.memory.memo import Shared
from roofline.training.pipeline.schedule import takes_chunks
from roofline.work.ops import Activate, Normalise
from roofline.work.recipe import Recipe
from roofline.work.training import RECOMPUTE, Recompute, Training, forward_ops, training, with_options

Recomputed: TypeAlias = Recompute | tuple[str, ...]
Asking: TypeAlias = Callable[[Settings, Shared], tuple[TrainingSetup, Training, Count]]
"""Settings that a candidate chooses (layout, micro_batch, recompute, schedule, recipe), and what it shares with others
→ its setup, its step, and the micro-batches of a replica."""
Goal: TypeAlias = Callable[[TrainingEstimate], Count]
"""What a search minimises, of an estimate over arrays of points."""
SCHEDULED = ("1f1b", "interleaved")
"""Schedules whose candidates have their passes in common."""
CHEAP = (Normalise, Activate)
"""Kinds of ops that take little to run again: `layernorm` and `moe_act` of Megatron's recompute_modules."""
MICROS = (1, 2, 4, 8)
"""Sequences of a micro-batch tried by default."""
PIECE = 4096
"""Points evaluated at once: the ops, stages and passes of one piece take some hundred megabytes at most."""


def recomputations(model: Model, engine: Engine) -> tuple[Recomputed, ...]:
    """What the engine can run again: its words, and where it has modules, all norms and activation functions."""
    words = tuple(word for word in RECOMPUTE if word in engine.recomputes)
    modules = cheap_modules(model) if "modules" in engine.recomputes else ()
    return (*words, modules) if modules else words


def cheap_modules(model: Model) -> tuple[str, ...]:
    """Names of all norms and activation functions of the layers."""
    once = training(1, 1)
    ops = (op for block, _ in model.blocks for op in forward_ops(block.modules, once) if isinstance(op, CHEAP))
    return tuple(dict.fromkeys(op.name for op in ops))


@dataclass(frozen=True)
class Candidates:
    """What candidates choose among: numbers of chips, micro-batches, schedules, recomputations (words or modules) and
    recipes, on a machine, for so many sequences of so many tokens; ZeRO stages as the engine runs them."""

    model: Model
    on: Machine
    engine: Engine
    sizes: tuple[int, ...]
    work: tuple[int, int]
    micros: tuple[int, ...]
    schedules: tuple[str, ...]
    recomputed: tuple[Recomputed, ...]
    recipes: tuple[str | Recipe | None, ...] = (None,)

    def pipelines(self, stages: int, chunks: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Each schedule with the numbers of chunks it supports; with one stage only the first, since all are equal."""
        if stages == 1:
            yield self.schedules[0], 1
            return
        for schedule in self.schedules:
            yield from ((schedule, vp) for vp in chunks if takes_chunks(schedule, vp))

    def sharings(self, stages: int, points: DegreePoints) -> Iterator[tuple[DegreePoints, tuple[int, ...]]]:
        """Points with the ZeRO stages that the engine runs with so many pipeline stages.

        Apart are ZeRO-3 where the engine's recipes differ with it, and gradients or weights that only the replicas of a
        node share (HSDP).
        """
        every = self.engine.zeros if stages == 1 else self.engine.staged_zeros
        apart = any(row.sharded is not None for row in stack_rows().get(self.engine.id, ()))
        groups = ((0, 1, 2), (3,)) if apart else ((0, 1, 2, 3),)
        yield from ((points, zeros) for group in groups if (zeros := tuple(z for z in every if z in group)))
        hybrid = points.sharing(node_size(cluster_named(self.on)))
        if len(hybrid):
            zeros = tuple(z for z in every if z in (2, 3))
            yield from ((hybrid, (zero,)) for zero in zeros)

    def pieces(self) -> Iterator[tuple[int, str | Recipe | None, DegreePoints, tuple[int, ...]]]:
        """Pipeline stages, a recipe, at most `PIECE` points and their ZeRO stages, few pipeline stages first."""
        stages = stage_numbers(self.model, max(self.sizes))
        ranks = [[n // pp for n in self.sizes if n % pp == 0] for pp in stages]
        every = [
            degree_points(self.model, self.on, some, pp, self.work, self.micros)
            for pp, some in zip(stages, ranks, strict=True)
        ]
        for pp, divided in zip(stages, with_micro_batches(every), strict=True):
            for recipe, (points, zeros) in product(self.recipes, self.sharings(pp, divided)):
                for start in range(0, len(points), PIECE):
                    yield pp, recipe, points.where(slice(start, start + PIECE)), zeros

    def timed(
        self, asking: Asking, left_out: Counter[str], clock: SearchClock | None = None, goal: Goal | None = None
    ) -> tuple[int, list[TimedLayouts]]:
        """The number of legal candidates, and those that fit; adds to `left_out` the others by reason.

        `goal`: what is worked out for each besides its seconds. Candidates that the clock leaves no time for are left
        out by `time`.
        """
        considered, timed, batch = 0, list[TimedLayouts](), self.work[0]
        for pp, recipe, points, zeros in self.pieces():
            shared: dict[Hashable, Shared] = {}
            for order, vp in self.pipelines(pp, chunk_numbers(self.model, pp)):
                kept = takes(order, points, batch, pp, vp)
                left_out["micro-batches"] += int(np.sum(~kept)) * len(zeros) * len(self.recomputed)
                some = points if kept.all() else points.where(kept)
                alike = Alike(some, (pp, vp), zeros, self.recomputed, order, recipe)
                if clock is not None and clock.is_over:
                    left_out["time"] += len(alike)
                    continue
                if not kept.any():
                    continue
                together = SCHEDULED if some is points and order in SCHEDULED else order
                common = shared.setdefault(together, Shared(some.among, goal is None))
                for part, family in _families(asking, alike, left_out, common, goal):
                    considered += family.fits.size
                    left_out["memory"] += int(np.sum(~family.fits))
                    timed += part.timed(family)
                if clock is not None:
                    clock.counts(len(alike))
        return considered, timed


@dataclass(frozen=True)
class Alike:
    """Points with the same stages, chunks and schedule, for several ZeRO stages and recomputations."""

    points: DegreePoints
    pipeline: tuple[int, int]
    zeros: tuple[int, ...]
    recomputed: tuple[Recomputed, ...]
    schedule: str
    recipe: str | Recipe | None

    def __len__(self) -> int:
        return len(self.points) * len(self.zeros) * len(self.recomputed)

    def halves(self) -> tuple[Alike, Alike]:
        """Split by ZeRO stages, else by recomputations, else by points."""
        for name in ("zeros", "recomputed"):
            half = len(getattr(self, name)) // 2
            if half:
                parts = getattr(self, name)[:half], getattr(self, name)[half:]
                return replace(self, **{name: parts[0]}), replace(self, **{name: parts[1]})
        half = len(self.points) // 2
        first, second = (self.points.where(part) for part in (slice(half), slice(half, None)))
        return replace(self, points=first), replace(self, points=second)

    def timed(self, family: TrainingFamily) -> Iterator[TimedLayouts]:
        """The points that fit, for each ZeRO stage and recomputation."""
        for j, zero in enumerate(self.zeros):
            for i, again in enumerate(self.recomputed):
                kept = np.flatnonzero(family.fits[i, j])
                seconds, fullest, worth = (x[i, j, kept] for x in (family.seconds, family.bytes, family.worth))
                how = (self.schedule, again, self.recipe)
                yield TimedLayouts(self.points, kept, seconds, fullest, worth, (*self.pipeline, zero), how)


@dataclass(frozen=True)
class TimedLayouts:
    """Points that fit, as indices, with seconds, bytes, and what a goal makes of them (seconds without one).

    `discrete`: their (pp, vp, ZeRO stage). `how`: their (schedule, recomputation, recipe).
    """

    points: DegreePoints
    places: Array
    seconds: Array
    bytes: Array
    worth: Array
    discrete: tuple[int, int, int]
    how: tuple[str, Recomputed, str | Recipe | None]

    @property
    def chips(self) -> Array:
        """Chips per point."""
        points, (pp, _, _) = self.points, self.discrete
        return (points.tp * points.cp * points.dp)[self.places] * pp

    @property
    def chip_seconds(self) -> Array:
        """Chips × seconds per point."""
        return self.chips * self.seconds

    def dividing(self, micro_batches: int, tokens: int) -> TimedLayouts:
        """The points whose replicas divide so many micro-batches, and whose context parallelism divides the tokens."""
        dp, cp = (degree[self.places] for degree in (self.points.dp, self.points.cp))
        kept = (micro_batches % dp == 0) & (tokens % cp == 0)
        columns = {name: getattr(self, name)[kept] for name in ("places", "seconds", "bytes", "worth")}
        return replace(self, **columns)

    def layout(self, number: int) -> Layout:
        """The layout of one point."""
        return self.points.one(int(self.places[number]), *self.discrete)


def first_of(
    timed: Sequence[TimedLayouts], aim: Callable[[TimedLayouts], tuple[Count, ...]], top: int | None
) -> Iterator[tuple[TimedLayouts, int]]:
    """The best points by an objective, all where `top` is None: best first, as a family and an index within it; ties
    keep their order."""
    if not timed:
        return
    columns = [np.concatenate(column) for column in zip(*map(aim, timed), strict=True)]
    ends = np.cumsum([len(t.seconds) for t in timed])
    for number in np.lexsort(columns[::-1])[:top]:
        family = int(np.searchsorted(ends, number, side="right"))
        yield timed[family], int(number - (ends[family] - len(timed[family].seconds)))


def _asked(
    asking: Asking, chosen: Settings, recomputed: Sequence[Recomputed], beside: Shared
) -> list[tuple[TrainingSetup, Training, Count]]:
    """The candidates for each recomputation, on which neither setup nor micro-batches depend."""
    first, *others = recomputed
    setup, step, micro_batches = asking({**chosen, "recompute": first}, beside)
    if step.recompute_layers is not None or step.recompute_every is not None:  # not of every recomputation
        return [(setup, step, micro_batches), *(asking({**chosen, "recompute": x}, beside) for x in others)]
    again = [with_options(step, recompute=x) for x in others]
    for other in again:
        check_run_again(setup.model, other)
    return [(setup, other, micro_batches) for other in (step, *again)]


def _families(
    asking: Asking, alike: Alike, left_out: Counter[str], beside: Shared, goal: Goal | None
) -> Iterator[tuple[Alike, TrainingFamily]]:
    """Evaluate the legal points, by halving around points that are not legal; one of the whole search's micro-batches
    may be so too."""
    points, (pp, vp) = alike.points, alike.pipeline
    layout = points.layout(pp, vp, alike.zeros[0])
    chosen = {"layout": layout, "micro_batch": points.micro, "schedule": alike.schedule}
    chosen |= {} if alike.recipe is None else {"recipe": alike.recipe}
    try:
        asked = _asked(asking, chosen, alike.recomputed, beside)
        yield alike, family_of(beside, asked, alike.zeros, len(points), goal)
    except InputError as error:
        alone = points.among is None
        if alone and len(alike) == 1:
            left_out[error.field] += 1
            return
        for part in alike.halves() if alone else (replace(alike, points=replace(points, among=None)),):
            yield from _families(
                asking, part, left_out, beside if part.points is points else Shared(None, goal is None), goal
            )
