"""`search_training`: every legal layout of a training step on a machine, and the best of them.

Degrees, micro-batches, ZeRO and recomputation are worked out side by side in arrays, for each choice of stages, chunks
and recipe: memory first, and the time of what fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np

from roofline.declared.checks import count
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import DEGREES
from roofline.declared.kinds import OneChipCount, OneSequences, OneTokens, TrainingAim, Whole
from roofline.declared.question import Setting, group_settings, question_settings
from roofline.declared.result import Figured, Result, Units
from roofline.distinct import Array
from roofline.estimates.deployment import Machine, is_several
from roofline.estimates.settings import LISTED, bill_of
from roofline.estimates.train import Learner, is_one, train
from roofline.estimates.training_family import TrainingFamily, family_beside
from roofline.estimates.training_shapes import check_run_again
from roofline.estimates.training_sharing import Shared
from roofline.explore.training_points import (
    DegreePoints,
    chunk_numbers,
    degree_points,
    machine_sizes,
    stage_numbers,
    takes,
)
from roofline.layout.layout import Layout
from roofline.machine.engine import trainer_named
from roofline.machine.target import mode_named
from roofline.model.load import model_of
from roofline.model.model import Model
from roofline.model.quantization.asked import formats_of
from roofline.work.training import Recompute, training

Recomputed: TypeAlias = Recompute | tuple[str, ...]
ZEROS = (0, 1, 2, 3)
RECOMPUTED = ("none", "selective", "full")
SCHEDULED = ("1f1b", "interleaved")
"""What is tried where no recomputation and no schedule is asked for."""


@dataclass(frozen=True)
class TrainingPlan(Figured):
    """A legal way to train that fits: seconds of a step, bytes of the fullest rank, and what tells it from others."""

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
        """Its chips."""
        return int(self.spread.chips)

    @property
    def chip_seconds(self) -> float:
        """Chips times seconds: what a step costs, whatever a chip does."""
        return self.chips * self.seconds


TRAINING_AIMS: Mapping[str, Callable[[Any], tuple[Any, ...]]] = {
    "time": lambda p: (p.seconds, p.chips), "cost": lambda p: (p.chip_seconds, p.chips),
    "chips": lambda p: (p.chips, p.seconds),
}  # fmt: skip
"""Objective → what is least of the best: seconds of a step, chip-seconds, chips; of a plan, or of many side by side."""


@dataclass(frozen=True, repr=False)
class TrainingSearch(Result):
    """Ways to train, the best first. `considered`: legal layouts, those that fit timed; `left_out`: how many were no
    plan, by reason: degrees that do not divide, a format or schedule that is not legal there, or memory."""

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


def search_training(
    model: Any,
    *,
    batch: Annotated[OneSequences, "Sequences of one step, over all replicas."],
    tokens: Annotated[OneTokens, "Tokens of a sequence."],
    on: Machine,
    recipe: str | Sequence[str] = "bf16",
    objective: Annotated[TrainingAim, "What is least of the best: `time` of a step, `cost` or `chips`."] = "time",
    chips: Annotated[OneChipCount | None, "Chips of the layout (default: the whole machine)."] = None,
    top: Annotated[Whole, "Layouts that are listed."] = 10,
    **options: Any,
) -> TrainingSearch:
    """The best layouts to train on a machine, of all: tp within a node, pp, cp, ep, dp, ZeRO, chunks, micro-batches of
    1 to 8, recomputation and recipes; sequence parallelism with tp.

    By `time` on `chips`, the whole machine where not given; by `cost` (chip-seconds of a step) or `chips` on halves of
    them too. `options`: what else `train` takes, but for the layout and the micro-batch. Of `schedule` and `recompute`
    one or several are chosen from: 1f1b and interleaved, and none, selective and full, where not given.
    Raises InputError for what is not understood, and for a machine of one chip.
    """
    built = model_of(model)
    batch, tokens, top = (count(n, v, 1) for n, v in (("batch", batch), ("tokens", tokens), ("top", top)))
    if objective not in TRAINING_AIMS:
        raise not_one_of("objective", objective, TRAINING_AIMS)
    for name in SEARCHED:
        if name in options:
            raise InputError(name, options[name], "nothing, as it is searched for")
    if not is_several(on):
        raise InputError("on", str(on), "a machine of several chips")
    recipes = (recipe,) if isinstance(recipe, str) else tuple(recipe)
    left_out, considered, timed = Counter[str](), 0, list[_Timed]()
    learning = Learner(**{name: options.pop(name) for name in group_settings(Learner) if name in options}).of(built)
    wanted = (options.pop("schedule", None), options.pop("recompute", None))
    how = _understood(learning, (batch, tokens), recipes, wanted, options)
    sizes = machine_sizes(on, objective, chips)
    for pp in stage_numbers(built, max(sizes)):
        every = degree_points(built, on, [n // pp for n in sizes if n % pp == 0], (batch, tokens))
        for kind in recipes:
            steps = {"batch": batch, "tokens": tokens, "on": on, "recipe": kind, **options}
            shared: dict[object, Shared] = {}
            for order, vp in how.pipelines(pp, chunk_numbers(built, pp)):
                kept = takes(order, every, batch, pp, vp)
                left_out["micro-batches"] += int(np.sum(~kept)) * len(ZEROS) * len(how.recomputed)
                if not kept.any():
                    continue
                points = every if kept.all() else every.where(kept)
                alike = _Alike(points, (pp, vp), ZEROS, how.recomputed, order)
                beside = shared.setdefault(SCHEDULED if points is every and order in SCHEDULED else order, Shared())
                for some, family in _families(learning, alike, {**steps, "schedule": order}, left_out, beside):
                    considered += family.fits.size
                    left_out["memory"] += int(np.sum(~family.fits))
                    timed += some.timed(family, kind)
    ranked = [t.plan(int(i)) for t, i in _first(timed, TRAINING_AIMS[objective], top)]
    reasons = {reason: n for reason, n in left_out.items() if n}
    return TrainingSearch(built, batch, tokens, objective, considered, reasons, tuple(ranked))


SEARCHED = ("layout", *DEGREES, "micro_batch")
"""Settings of `train` that are searched for."""


def search_settings() -> Mapping[str, Setting]:
    """What a search for layouts is asked: what `train` is, but for what is searched for, and its own."""
    own = {name: s for name, s in question_settings(train).items() if name not in SEARCHED}
    chosen = {name: replace(own[name], default=None) for name in ("schedule", "recompute")}
    return {**own, **chosen, **question_settings(search_training)}


@dataclass(frozen=True)
class _Choices:
    """Schedules and recomputations to choose from, the latter as a step has them: a word, or names of modules."""

    schedules: tuple[str, ...]
    recomputed: tuple[Recomputed, ...]

    def pipelines(self, stages: int, chunks: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Each schedule with the numbers of chunks that go with it; of one stage, where all are alike, the first."""
        if stages == 1:
            yield self.schedules[0], 1
            return
        for schedule in self.schedules:
            yield from ((schedule, vp) for vp in chunks if (vp > 1) == (schedule == "interleaved"))


def _understood(
    model: Model, work: tuple[int, int], recipes: Sequence[str], wanted: tuple[Any, Any], options: Mapping[str, Any]
) -> _Choices:
    """What is chosen from, of a schedule and a recomputation that are `wanted`, or several of each.

    Raises InputError for a word that `train` does not know, in one of these or the options.
    """
    (batch, tokens), (schedule, recompute) = work, wanted
    orders: tuple[Any, ...] = SCHEDULED
    if schedule is not None:
        orders = (schedule,) if isinstance(schedule, str) else tuple(schedule)
    again: tuple[Any, ...] = RECOMPUTED
    if recompute is not None:
        one = isinstance(recompute, str) or is_one("recompute", recompute)
        again = (recompute,) if one else tuple(recompute)
    for name, several in (("schedule", orders), ("recompute", again), ("recipe", recipes)):
        if not several:
            raise InputError(name, [], "at least one")
    settings = {name: value for name, value in options.items() if name in (*LISTED, "bill")}
    given = {name: value for name, value in options.items() if name not in settings}
    mode_named(settings.get("law", "calibrated"))
    bill_of(settings.get("bill"))
    for order in orders:
        trainer_named(settings.get("engine"), training(batch, tokens, schedule=order).schedule)
    for kind in recipes:
        training(batch, tokens, recipe=kind)
    steps = [training(batch, tokens, recompute=what) for what in again]
    for step in steps:
        check_run_again(model, step)
    formats_of(model, settings.get("precision"), steps[0].precision)
    problems = [_problem(batch, tokens, {**given, "recompute": step.recompute}) for step in steps]
    known = [problem for problem in problems if problem is not None]
    if len(known) == len(steps):
        raise known[0]
    return _Choices(orders, tuple(dict.fromkeys(step.recompute for step in steps)))


def _problem(batch: int, tokens: int, options: Mapping[str, Any]) -> InputError | None:
    """Why a step cannot be; None where it can."""
    try:
        training(batch, tokens, **options)
    except InputError as error:
        return error
    return None


@dataclass(frozen=True)
class _Alike:
    """Points under the same stages, chunks and schedule, of every ZeRO and recomputation."""

    points: DegreePoints
    pipeline: tuple[int, int]
    zeros: tuple[int, ...]
    recomputed: tuple[Recomputed, ...]
    schedule: str

    def __len__(self) -> int:
        return len(self.points) * len(self.zeros) * len(self.recomputed)

    def halves(self) -> tuple[_Alike, _Alike]:
        """Fewer ZeROs, else fewer recomputations, else fewer points."""
        for name in ("zeros", "recomputed"):
            half = len(getattr(self, name)) // 2
            if half:
                parts: tuple[dict[str, Any], ...] = tuple(
                    {name: getattr(self, name)[part]} for part in (slice(half), slice(half, None))
                )
                return replace(self, **parts[0]), replace(self, **parts[1])
        half = len(self.points) // 2
        first, second = (self.points.where(part) for part in (slice(half), slice(half, None)))
        return replace(self, points=first), replace(self, points=second)

    def timed(self, family: TrainingFamily, recipe: str) -> Iterator[_Timed]:
        """Those that fit, of one ZeRO and recomputation each."""
        for j, zero in enumerate(self.zeros):
            for i, again in enumerate(self.recomputed):
                kept = np.flatnonzero(family.fits[i, j])
                seconds, fullest = family.seconds[i, j, kept], family.bytes[i, j, kept]
                told = again if isinstance(again, str) else "".join(f"{name}," for name in again)
                how = (self.schedule, told, recipe)
                yield _Timed(self.points, kept, seconds, fullest, (*self.pipeline, zero), how)


@dataclass(frozen=True)
class _Timed:
    """Points that fit, by their place among others, with seconds and bytes; their (pp, vp, zero), and what they have of
    schedule, recomputation and recipe."""

    points: DegreePoints
    places: Array
    seconds: Array
    bytes: Array
    discrete: tuple[int, int, int]
    how: tuple[str, str, str]

    @property
    def chips(self) -> Array:
        """As of a `TrainingPlan`."""
        points, (pp, _, _) = self.points, self.discrete
        return (points.tp * points.cp * points.dp)[self.places] * pp

    @property
    def chip_seconds(self) -> Array:
        """As of a `TrainingPlan`."""
        return self.chips * self.seconds

    def plan(self, number: int) -> TrainingPlan:
        """One of them."""
        i, (pp, vp, zero), (schedule, recompute, recipe) = int(self.places[number]), self.discrete, self.how
        return TrainingPlan(
            self.points.one(i, pp, vp, zero), int(self.points.micro[i]), recompute, schedule, recipe,
            float(self.seconds[number]), float(self.bytes[number]),
        )  # fmt: skip


def _first(timed: Sequence[_Timed], aim: Callable[[Any], tuple[Any, ...]], top: int) -> Iterator[tuple[_Timed, int]]:
    """Which are least of an aim, and their numbers within, the least first; of equals in the order they came."""
    if not timed:
        return
    columns = [np.concatenate(column) for column in zip(*map(aim, timed), strict=True)]
    ends = np.cumsum([len(t.seconds) for t in timed])
    for number in np.lexsort(columns[::-1])[:top]:
        family = int(np.searchsorted(ends, number, side="right"))
        yield timed[family], int(number - (ends[family] - len(timed[family].seconds)))


def _families(
    model: Model, alike: _Alike, options: Mapping[str, Any], left_out: Counter[str], beside: Shared
) -> Iterator[tuple[_Alike, TrainingFamily]]:
    """The steps of points that are legal, in halves around those that are not."""
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
