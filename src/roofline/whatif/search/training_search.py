"""`search_training`: all legal layouts of a training step on a machine, ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import nan
from typing import Annotated, ClassVar

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import LawSettings, MachineSettings
from roofline.declared.kinds import (
    Duration,
    Given,
    OneChipCount,
    OneSequences,
    OneTokens,
    PlainNumber,
    TokensOfRun,
    TrainingAim,
    Whole,
    Word,
    Words,
)
from roofline.declared.numbers.maths import Count
from roofline.declared.question import group, question
from roofline.declared.result import Figured, Result, Units
from roofline.declared.time_limit import SEARCH_S, SearchClock
from roofline.engines.engine import trainer_named
from roofline.inference.cost.bill import BY_ENERGY, Bill, MeanPower
from roofline.inference.deployment import Machine, is_several, machine_chip
from roofline.kernels.target import mode_named
from roofline.layout.layout import Layout
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.training.estimate import TrainingEstimate
from roofline.training.layouts.candidates import MICROS, Candidates, Recomputed, TimedLayouts, first_of, recomputations
from roofline.training.layouts.degrees import machine_sizes
from roofline.training.layouts.validation import check_run_again
from roofline.training.memory.memo import Shared
from roofline.training.replicas.stragglers import stragglers_named
from roofline.training.runs.run import Run, RunOptions, run
from roofline.training.settings import AS_IT_IS, Learner, TrainerSettings, TrainingWhere, is_one
from roofline.training.stack import Call, with_stack
from roofline.training.steps import estimated
from roofline.training.train import asking, recomputed_of, schedules_of
from roofline.whatif.search.limits import POWER, chips_within
from roofline.work.recipe import Recipe
from roofline.work.training import USUAL, StepOptions, TrainingOptions, training, training_step


@dataclass(frozen=True)
class TrainingPlan(Figured):
    """A legal training layout that fits: seconds per step, bytes of the fullest rank, and its settings.

    `usd`, `energy`: of the whole run where its tokens are given, else of a step; None where price or power is unknown.
    `run_time`: seconds of the run; `goodput`: its tokens a second of a chip, failures and checkpoints included.
    """

    FIGURES: ClassVar[Units] = {
        "layout": "", "micro_batch": "", "recompute": "", "schedule": "", "recipe": "", "chips": "", "seconds": "s",
        "bytes": "B", "chip_seconds": "s", "usd": "USD", "energy": "J", "run_time": "s", "goodput": "tokens/s",
    }  # fmt: skip

    spread: Layout
    micro_batch: int
    recompute: str
    schedule: str
    recipe: str
    seconds: float
    bytes: float
    resolved: Callable[[], tuple[TrainingEstimate, Run | None]] = field(repr=False, compare=False)
    """The estimate of the step, and the run of it."""

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

    @cached_property
    def _resolved(self) -> tuple[TrainingEstimate, Run | None]:
        return self.resolved()

    @property
    def estimate(self) -> TrainingEstimate:
        """The step, as `train` estimates it."""
        return self._resolved[0]

    @property
    def run(self) -> Run | None:
        """The whole run; None where its tokens are not given."""
        return self._resolved[1]

    @property
    def usd(self) -> Count | None:
        """USD of the run, else of a step."""
        return self.run.cost if self.run is not None else self.estimate.spending.usd

    @property
    def energy(self) -> Count | None:
        """Joules of the run, else of a step."""
        return self.run.energy if self.run is not None else self.estimate.spending.joules

    @property
    def run_time(self) -> Count | None:
        """Seconds of the run."""
        return None if self.run is None else self.run.seconds

    @property
    def goodput(self) -> Count | None:
        """Tokens of the run per second of a chip, failures, checkpoints and evaluations included."""
        return None if self.run is None else self.run.tokens / (self.run.seconds * self.run.chips)


@dataclass(frozen=True)
class TrainingGoal:
    """What a search minimises. `step`: sort keys of timed points; `run`: a figure of a step's estimate and its run.

    `needs`: what it cannot be known without; `of_run`: that is the tokens of a run.
    """

    step: Callable[[TimedLayouts], tuple[Count, ...]]
    run: Callable[[TrainingEstimate, Run | None], Count | None] | None = None
    needs: str = ""
    of_run: bool = False


def _worth(timed: TimedLayouts) -> tuple[Count, ...]:
    return timed.worth, timed.seconds, timed.chips


TRAINING_AIMS: Mapping[str, TrainingGoal] = {
    "time": TrainingGoal(lambda t: (t.seconds, t.chips)),
    "cost": TrainingGoal(lambda t: (t.chip_seconds, t.chips)),
    "chips": TrainingGoal(lambda t: (t.chips, t.seconds)),
    "days": TrainingGoal(_worth, lambda e, r: r and r.seconds, "run_tokens as well", True),
    "goodput": TrainingGoal(_worth, lambda e, r: r and r.seconds * r.chips, "run_tokens as well", True),
    "dollars": TrainingGoal(_worth, lambda e, r: r.cost if r else e.spending.usd, "a price of every chip"),
    "energy": TrainingGoal(_worth, lambda e, r: r.energy if r else e.spending.joules, "a chip whose power is known"),
}
"""Objective → what is least: seconds of a step, chip-seconds, chips; of a run its time, its chip-seconds for the tokens
(most goodput), USD and joules, the last two of a step where no run is given."""


@dataclass(frozen=True, repr=False)
class TrainingSearch(Result):
    """Training layouts, the best first. `considered`: legal layouts, whose time is computed where they fit.

    `left_out`: number of rejected layouts by reason: degrees that do not divide, a format or schedule that is not legal
    there, or memory. `time`: those that were not looked at, since the time ended.
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

    @property
    def best(self) -> TrainingPlan:
        """The first plan. Raises InputError where no layout fits."""
        if not self.plans:
            raise InputError("on", "a machine on which no layout fits", "one with more memory")
        return self.plans[0]


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


AS_FAST_AS_CAN_BE = ChosenOptions()
ONE_RUN = RunOptions()


@question()
def search_training(
    model: Model | Source,
    where: TrainingMachine,
    *,
    batch: Annotated[OneSequences, "Sequences of one step, over all replicas."],
    tokens: Annotated[OneTokens, "Tokens of a sequence."],
    how: ChosenOptions = AS_FAST_AS_CAN_BE,
    learner: Learner = AS_IT_IS,
    objective: Annotated[
        TrainingAim,
        "What is best: least `time` of a step, `cost` (chip-seconds), `chips`, `days` of a run, `dollars` or `energy`, "
        "or most `goodput` of a chip.",
    ] = "time",
    chips: Annotated[OneChipCount | None, "Chips of the layout (default: the whole machine)."] = None,
    site_power: Annotated[PlainNumber | None, POWER] = None,
    run_tokens: Annotated[
        TokensOfRun | None, "Tokens of the whole run, for its days, dollars, energy and goodput."
    ] = None,
    over: RunOptions = ONE_RUN,
    top: Annotated[Whole, "Layouts to list."] = 10,
    seconds: Annotated[Duration, "Time for the search: then the answer is the best of what it looked at."] = SEARCH_S,
    bill: Bill | None = None,
    drawn: MeanPower = BY_ENERGY,
    progress: Callable[[int], None] | None = None,
) -> TrainingSearch:
    """The best layouts for training on a machine, over degrees, ZeRO, micro-batches, recomputation and recipes.

    The degrees are tp within a node (with sequence parallelism), pp, chunks, cp, ep and dp; micro-batches are 1 to 8
    sequences. By `time` and `days`: on `chips`, by default the whole machine, or the largest of its halves, quarters
    and so on that `site_power` feeds. By any other objective: on halves of them too. `schedule`, `recompute` and
    `recipe` are one value or several to choose from. Few pipeline stages are looked at first; `progress` is called with
    the number of layouts looked at so far.
    Raises InputError for invalid settings, for a machine of one chip, and for an objective that needs more.
    """
    built, on = model_of(model), where.on
    if not is_several(on):
        raise InputError("on", str(on), "a machine of several chips")
    if objective not in TRAINING_AIMS:
        raise not_one_of("objective", objective, TRAINING_AIMS)
    aim = TRAINING_AIMS[objective]
    if run_tokens is None:
        if aim.of_run:
            raise InputError("objective", objective, aim.needs)
        for name, value in vars(over).items():
            if value != getattr(ONE_RUN, name):
                raise InputError(name, value, "run_tokens as well: it is of a whole run")
    left_out = Counter[str]()
    choices, call = _understood(built, (batch, tokens), where, how, learner)
    every = Candidates(
        built, on, call.engine, tuple(machine_sizes(on, objective, chips, _powered(on, site_power))), (batch, tokens),
        micros=MICROS, schedules=choices.schedules, recomputed=choices.recomputed, recipes=choices.recipes,
    )  # fmt: skip

    def runs(estimate: TrainingEstimate) -> Run | None:
        return None if run_tokens is None else run(estimate, run_tokens, over)

    def goal(estimate: TrainingEstimate) -> Count:
        assert aim.run is not None
        least = aim.run(estimate, runs(estimate))
        return nan if least is None else least

    ask, clock = asking(built, (batch, tokens), call, drawn.billed(bill)), SearchClock(seconds, progress)
    clock.start()
    considered, timed = every.timed(ask, left_out, clock, None if aim.run is None else goal)
    if any(np.isnan(t.worth).any() for t in timed):
        raise InputError("objective", objective, aim.needs)

    @cache
    def usual_recipe(zero: int) -> str | Recipe:
        """The recipe that the stack sets under layouts with a ZeRO stage."""
        under = replace(call, where=replace(call.where, layout=Layout(zero=zero)))
        return with_stack(built, under).how.recipe or str(USUAL["recipe"])

    def planned(timed: TimedLayouts, number: int) -> TrainingPlan:
        schedule, again, recipe = timed.how
        told = again if isinstance(again, str) else "".join(f"{name}," for name in again)
        chosen_recipe = usual_recipe(timed.discrete[-1]) if recipe is None else recipe
        name = chosen_recipe.name if isinstance(chosen_recipe, Recipe) else chosen_recipe
        layout, micro = timed.layout(number), int(timed.points.micro[timed.places[number]])
        chosen = {"layout": layout, "micro_batch": micro, "schedule": schedule, "recompute": again}
        chosen |= {} if recipe is None else {"recipe": recipe}

        def resolved() -> tuple[TrainingEstimate, Run | None]:
            estimate = estimated(*ask(chosen, Shared()), Shared())
            return estimate, runs(estimate)

        step, fullest = float(timed.seconds[number]), float(timed.bytes[number])
        return TrainingPlan(layout, micro, told, schedule, name, step, fullest, resolved)

    ranked = tuple(planned(t, i) for t, i in first_of(timed, aim.step, top))
    reasons = {reason: n for reason, n in left_out.items() if n}
    return TrainingSearch(built, batch, tokens, objective, considered, reasons, ranked)


def _powered(on: Machine, watts: Given) -> int | None:
    """Chips of a machine that a site's watts feed; None without a limit."""
    if watts is None:
        return None
    chip = machine_chip(on)
    return chips_within("site_power", watts, {chip.id: chip.limit})[chip.id]


@dataclass(frozen=True)
class _Choices:
    """Schedules, recomputations (words or modules) and recipes to choose from; None for the stack's own recipe."""

    schedules: tuple[str, ...]
    recomputed: tuple[Recomputed, ...]
    recipes: tuple[str | Recipe | None, ...]


def _understood(
    model: Model, work: tuple[int, int], where: TrainingMachine, how: ChosenOptions, learner: Learner
) -> tuple[_Choices, Call]:
    """The choices, and the call that leaves them open. Raises InputError for a word that `train` does not know."""
    batch, tokens = work
    mode_named(where.law)
    stragglers_named(where.stragglers)
    alike = {name: value for name, value in vars(how).items() if name not in CHOSEN}
    call = Call(TrainingWhere(**vars(where)), TrainingOptions(**alike), learner)
    usual = with_stack(model, call)
    orders = schedules_of(usual) if how.schedule is None else _several("schedule", how.schedule)
    for order in orders:
        trainer_named(where.engine, training(batch, tokens, schedule=order).schedule)
    if len(orders) == 1:
        call = replace(call, how=replace(call.how, schedule=orders[0]))
    recipes = (None,) if how.recipe is None else _several("recipe", how.recipe)
    for kind in recipes:
        training(batch, tokens, recipe=kind)
    again = _recomputed(model, usual) if how.recompute is None else _several("recompute", how.recompute)
    if learner.second(model) is not None:
        raise InputError("teacher", learner.teacher or model.name, "no second model in a search: `train` has one")
    learning, steps = learner.of(model), [training(batch, tokens, recompute=what) for what in again]
    for step in steps:
        check_run_again(learning, step)
    formats_of(learning, where.precision, steps[0].precision)
    problems = [_problem(batch, tokens, replace(call.how, recompute=step.recompute)) for step in steps]
    known = [problem for problem in problems if problem is not None]
    if len(known) == len(steps):
        raise known[0]
    return _Choices(orders, tuple(dict.fromkeys(step.recompute for step in steps)), recipes), call


def _recomputed(model: Model, usual: Call) -> tuple[Recomputed, ...]:
    """What is tried by default: what the stack runs again, and what its engine can."""
    own = recomputed_of(model, usual)
    return own if usual.how.recompute is None else (*own, *recomputations(model, usual.engine))


CHOSEN = ("schedule", "recompute", "recipe")
"""Options that may be several values to choose from."""


def _several(name: str, value: Given) -> tuple[Given, ...]:
    """A value or a list of values, as a tuple. Raises InputError for an empty list."""
    values = tuple(value) if isinstance(value, (list, tuple)) and not is_one(name, value) else (value,)
    if not values:
        raise InputError(name, [], "at least one")
    return values


def _problem(batch: int, tokens: int, how: TrainingOptions) -> InputError | None:
    """The error of an invalid step; None for a valid one."""
    try:
        training_step(batch, tokens, how)
    except InputError as error:
        return error
    return None
