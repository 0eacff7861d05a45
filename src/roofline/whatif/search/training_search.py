"""`search_training`: all legal layouts of a training step on a machine, ranked.

Degrees, micro-batches, ZeRO stages and recomputation are evaluated as arrays, for each choice of pipeline stages,
chunks and recipe: first memory, then the time of what fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from roofline.declared.arrays import Array
from roofline.declared.errors import InputError
from roofline.declared.groups import LawSettings, MachineSettings
from roofline.declared.kinds import Given, OneChipCount, OneSequences, OneTokens, TrainingAim, Whole, Word, Words
from roofline.declared.maths import Count
from roofline.declared.question import Settings, group, question, ungrouped
from roofline.declared.result import Figured, Result, Units
from roofline.engines.engine import trainer_named
from roofline.inference.bill import BY_ENERGY, Bill, MeanPower
from roofline.inference.deployment import is_several
from roofline.kernels.target import mode_named
from roofline.layout.layout import Layout
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.training.arrays import TrainingFamily, family_beside
from roofline.training.memory.memo import Shared
from roofline.training.train import Learner, TrainerSettings, is_one
from roofline.training.validation import check_run_again
from roofline.whatif.sweep.training_points import (
    DegreePoints,
    chunk_numbers,
    degree_points,
    machine_sizes,
    stage_numbers,
    takes,
)
from roofline.work.recipe import Recipe
from roofline.work.training import Recompute, StepOptions, TrainingOptions, training, training_step

Recomputed: TypeAlias = Recompute | tuple[str, ...]
ZEROS = (0, 1, 2, 3)
RECOMPUTED = ("none", "selective", "full")
SCHEDULED = ("1f1b", "interleaved")
"""Schedules tried by default."""


@dataclass(frozen=True)
class TrainingPlan(Figured):
    """A legal training layout that fits: seconds per step, bytes of the fullest rank, and its settings."""

    FIGURES: ClassVar[Units] = {
        "layout": "", "micro_batch": "", "recompute": "", "schedule": "", "recipe": "", "chips": "", "seconds": "s",
        "bytes": "B", "chip_seconds": "s",
    }  # fmt: skip

    spread: Layout
    micro_batch: int
    recompute: str
    schedule: str
    recipe: str
    seconds: float
    bytes: float

    @property
    def layout(self) -> str:
        """The layout."""
        return self.spread.text()

    @property
    def chips(self) -> int:
        """Number of chips."""
        return int(self.spread.chips)

    @property
    def chip_seconds(self) -> float:
        """Chips × seconds: the cost of a step, whatever the price of a chip."""
        return self.chips * self.seconds


TRAINING_AIMS: Mapping[str, Callable[[TrainingPlan | _Timed], tuple[Count, Count]]] = {
    "time": lambda p: (p.seconds, p.chips), "cost": lambda p: (p.chip_seconds, p.chips),
    "chips": lambda p: (p.chips, p.seconds),
}  # fmt: skip
"""Objective → sort key, least is best: seconds of a step, chip-seconds or chips. Takes a plan, or arrays of them."""


@dataclass(frozen=True, repr=False)
class TrainingSearch(Result):
    """Training layouts, the best first. `considered`: legal layouts, whose time is computed where they fit.

    `left_out`: number of rejected layouts by reason: degrees that do not divide, a format or schedule that is not legal
    there, or memory.
    """

    SCHEMA: ClassVar[str] = "roofline.search_training/1"
    FIGURES: ClassVar[Units] = {
        "model": "", "batch": "", "tokens": "", "objective": "", "considered": "", "left_out": "", "plans": "",
    }  # fmt: skip

    model: Model
    batch: int
    tokens: int
    objective: str
    considered: int
    left_out: Mapping[str, int]
    plans: tuple[TrainingPlan, ...]


@group
@dataclass(frozen=True, kw_only=True)
class TrainingMachine(LawSettings, TrainerSettings, MachineSettings):
    """The machine to train on, with its law and the training framework."""


@group
@dataclass(frozen=True, kw_only=True)
class ChosenOptions(StepOptions):
    """Options of a training step; schedules, recomputations and recipes may be several to choose from."""

    schedule: Annotated[Word | None, "Pipeline schedule, as in `train` (default: `1f1b` or `interleaved`)."] = None
    recompute: Annotated[
        Words | None, "What is recomputed, as in `train` (default: `none`, `selective` or `full`)."
    ] = None


AS_FAST_AS_CAN_BE, AS_IT_IS = ChosenOptions(), Learner()


@question()
def search_training(
    model: Model | Source,
    where: TrainingMachine,
    *,
    batch: Annotated[OneSequences, "Sequences of one step, over all replicas."],
    tokens: Annotated[OneTokens, "Tokens of a sequence."],
    how: ChosenOptions = AS_FAST_AS_CAN_BE,
    learner: Learner = AS_IT_IS,
    objective: Annotated[TrainingAim, "What to minimise: `time` of a step, `cost` or `chips`."] = "time",
    chips: Annotated[OneChipCount | None, "Chips of the layout (default: the whole machine)."] = None,
    top: Annotated[Whole, "Layouts to list."] = 10,
    bill: Bill | None = None,
    drawn: MeanPower = BY_ENERGY,
) -> TrainingSearch:
    """The best layouts for training on a machine, over degrees, ZeRO, micro-batches, recomputation and recipes.

    The degrees are tp within a node (with sequence parallelism), pp, chunks, cp, ep and dp; micro-batches are 1 to 8
    sequences. By `time`: on `chips`, by default the whole machine. By `cost` (chip-seconds of a step) or `chips`: on
    halves of them too. `schedule`, `recompute` and `recipe` are one value or several to choose from.
    Raises InputError for invalid settings, and for a machine of one chip.
    """
    built, on = model_of(model), where.on
    if not is_several(on):
        raise InputError("on", str(on), "a machine of several chips")
    left_out, considered, timed = Counter[str](), 0, list[_Timed]()
    learning = learner.of(built)
    choices = _understood(learning, (batch, tokens), where, how)
    beside = {name: value for name, value in ungrouped(how, ChosenOptions).items() if name not in CHOSEN}
    asked = {"batch": batch, "tokens": tokens, "bill": bill, **ungrouped(where, TrainingMachine),
             **ungrouped(drawn, MeanPower), **beside}  # fmt: skip
    sizes = machine_sizes(on, objective, chips)
    for pp in stage_numbers(built, max(sizes)):
        every = degree_points(built, on, [n // pp for n in sizes if n % pp == 0], (batch, tokens))
        for kind in choices.recipes:
            steps = {**asked, "recipe": kind}
            shared: dict[object, Shared] = {}
            for order, vp in choices.pipelines(pp, chunk_numbers(built, pp)):
                kept = takes(order, every, batch, pp, vp)
                left_out["micro-batches"] += int(np.sum(~kept)) * len(ZEROS) * len(choices.recomputed)
                if not kept.any():
                    continue
                points = every if kept.all() else every.where(kept)
                alike = _Alike(points, (pp, vp), ZEROS, choices.recomputed, order)
                common = shared.setdefault(SCHEDULED if points is every and order in SCHEDULED else order, Shared())
                for some, family in _families(learning, alike, {**steps, "schedule": order}, left_out, common):
                    considered += family.fits.size
                    left_out["memory"] += int(np.sum(~family.fits))
                    timed += some.timed(family, kind if isinstance(kind, str) else kind.name)
    ranked = [t.plan(int(i)) for t, i in _first(timed, TRAINING_AIMS[objective], top)]
    reasons = {reason: n for reason, n in left_out.items() if n}
    return TrainingSearch(built, batch, tokens, objective, considered, reasons, tuple(ranked))


CHOSEN = ("schedule", "recompute", "recipe")
"""Options that may be several values to choose from."""


@dataclass(frozen=True)
class _Choices:
    """Schedules, recomputations (words or modules) and recipes to choose from."""

    schedules: tuple[str, ...]
    recomputed: tuple[Recomputed, ...]
    recipes: tuple[str | Recipe, ...]

    def pipelines(self, stages: int, chunks: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Each schedule with the numbers of chunks it supports; with one stage only the first, since all are equal."""
        if stages == 1:
            yield self.schedules[0], 1
            return
        for schedule in self.schedules:
            yield from ((schedule, vp) for vp in chunks if (vp > 1) == (schedule == "interleaved"))


def _understood(model: Model, work: tuple[int, int], where: TrainingMachine, how: ChosenOptions) -> _Choices:
    """Parse the choices. Raises InputError for a word that `train` does not know."""
    batch, tokens = work
    orders: tuple[str, ...] = SCHEDULED if how.schedule is None else _several("schedule", how.schedule)
    again: tuple[Given, ...] = RECOMPUTED if how.recompute is None else _several("recompute", how.recompute)
    recipes = _several("recipe", how.recipe)
    mode_named(where.law)
    for order in orders:
        trainer_named(where.engine, training(batch, tokens, schedule=order).schedule)
    for kind in recipes:
        training(batch, tokens, recipe=kind)
    steps = [training(batch, tokens, recompute=what) for what in again]
    for step in steps:
        check_run_again(model, step)
    formats_of(model, where.precision, steps[0].precision)
    alike = replace(how, recipe="bf16", schedule="1f1b")
    problems = [_problem(batch, tokens, replace(alike, recompute=step.recompute)) for step in steps]
    known = [problem for problem in problems if problem is not None]
    if len(known) == len(steps):
        raise known[0]
    return _Choices(orders, tuple(dict.fromkeys(step.recompute for step in steps)), recipes)


def _several(name: str, value: Given) -> tuple[Given, ...]:
    """A value or a list of values, as a tuple. Raises InputError for an empty list."""
    values = tuple(value) if isinstance(value, (list, tuple)) and not is_one(name, value) else (value,)
    if not values:
        raise InputError(name, [], "at least one")
    return values


def _problem(batch: int, tokens: int, how: StepOptions) -> InputError | None:
    """The error of an invalid step; None for a valid one."""
    try:
        training_step(batch, tokens, TrainingOptions(**vars(how)))
    except InputError as error:
        return error
    return None


@dataclass(frozen=True)
class _Alike:
    """Points with the same stages, chunks and schedule, for several ZeRO stages and recomputations."""

    points: DegreePoints
    pipeline: tuple[int, int]
    zeros: tuple[int, ...]
    recomputed: tuple[Recomputed, ...]
    schedule: str

    def __len__(self) -> int:
        return len(self.points) * len(self.zeros) * len(self.recomputed)

    def halves(self) -> tuple[_Alike, _Alike]:
        """Split by ZeRO stages, else by recomputations, else by points."""
        for name in ("zeros", "recomputed"):
            half = len(getattr(self, name)) // 2
            if half:
                parts = getattr(self, name)[:half], getattr(self, name)[half:]
                return replace(self, **{name: parts[0]}), replace(self, **{name: parts[1]})
        half = len(self.points) // 2
        first, second = (self.points.where(part) for part in (slice(half), slice(half, None)))
        return replace(self, points=first), replace(self, points=second)

    def timed(self, family: TrainingFamily, recipe: str) -> Iterator[_Timed]:
        """The points that fit, for each ZeRO stage and recomputation."""
        for j, zero in enumerate(self.zeros):
            for i, again in enumerate(self.recomputed):
                kept = np.flatnonzero(family.fits[i, j])
                seconds, fullest = family.seconds[i, j, kept], family.bytes[i, j, kept]
                told = again if isinstance(again, str) else "".join(f"{name}," for name in again)
                how = (self.schedule, told, recipe)
                yield _Timed(self.points, kept, seconds, fullest, (*self.pipeline, zero), how)


@dataclass(frozen=True)
class _Timed:
    """Points that fit, as indices, with seconds and bytes.

    `discrete`: their (pp, vp, ZeRO stage). `how`: their (schedule, recomputation, recipe).
    """

    points: DegreePoints
    places: Array
    seconds: Array
    bytes: Array
    discrete: tuple[int, int, int]
    how: tuple[str, str, str]

    @property
    def chips(self) -> Array:
        """Chips per point."""
        points, (pp, _, _) = self.points, self.discrete
        return (points.tp * points.cp * points.dp)[self.places] * pp

    @property
    def chip_seconds(self) -> Array:
        """Chips × seconds per point."""
        return self.chips * self.seconds

    def plan(self, number: int) -> TrainingPlan:
        """The plan of one point."""
        i, (pp, vp, zero), (schedule, recompute, recipe) = int(self.places[number]), self.discrete, self.how
        return TrainingPlan(
            self.points.one(i, pp, vp, zero), int(self.points.micro[i]), recompute, schedule, recipe,
            float(self.seconds[number]), float(self.bytes[number]),
        )  # fmt: skip


def _first(
    timed: Sequence[_Timed], aim: Callable[[TrainingPlan | _Timed], tuple[Count, Count]], top: int
) -> Iterator[tuple[_Timed, int]]:
    """The best points by an objective, best first, as a family and an index within it; ties keep their order."""
    if not timed:
        return
    columns = [np.concatenate(column) for column in zip(*map(aim, timed), strict=True)]
    ends = np.cumsum([len(t.seconds) for t in timed])
    for number in np.lexsort(columns[::-1])[:top]:
        family = int(np.searchsorted(ends, number, side="right"))
        yield timed[family], int(number - (ends[family] - len(timed[family].seconds)))


def _families(
    model: Model, alike: _Alike, options: Settings, left_out: Counter[str], beside: Shared
) -> Iterator[tuple[_Alike, TrainingFamily]]:
    """Evaluate the legal points, by halving around points that are not legal."""
    points, (pp, vp) = alike.points, alike.pipeline
    try:
        yield alike, family_beside(
            beside, model, alike.recomputed, alike.zeros, layout=points.layout(pp, vp, alike.zeros[0]),
            points=len(points), micro_batch=points.micro, **options,
        )  # fmt: skip
    except InputError as error:
        if len(alike) == 1:
            left_out[error.field] += 1
            return
        for part in alike.halves():
            yield from _families(model, part, options, left_out, beside if part.points is points else Shared())
