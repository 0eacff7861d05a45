"""`search_training`: all legal layouts of a training step on a machine, ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from roofline.declared.errors import InputError
from roofline.declared.groups import LawSettings, MachineSettings
from roofline.declared.kinds import Given, OneChipCount, OneSequences, OneTokens, TrainingAim, Whole, Word, Words
from roofline.declared.maths import Count
from roofline.declared.question import group, question
from roofline.declared.result import Figured, Result, Units
from roofline.engines.engine import trainer_named
from roofline.inference.bill import BY_ENERGY, Bill, MeanPower
from roofline.inference.deployment import is_several
from roofline.kernels.target import mode_named
from roofline.layout.layout import Layout
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.training.candidates import MICROS, Candidates, Recomputed, TimedLayouts, first_of, recomputations
from roofline.training.degrees import machine_sizes
from roofline.training.settings import AS_IT_IS, Learner, TrainerSettings, TrainingWhere, is_one
from roofline.training.stack import Call, with_stack
from roofline.training.train import asking, recomputed_of, schedules_of
from roofline.training.validation import check_run_again
from roofline.work.recipe import Recipe
from roofline.work.training import USUAL, StepOptions, TrainingOptions, training, training_step


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


TRAINING_AIMS: Mapping[str, Callable[[TrainingPlan | TimedLayouts], tuple[Count, Count]]] = {
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


AS_FAST_AS_CAN_BE = ChosenOptions()


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
    left_out = Counter[str]()
    choices, call = _understood(built, (batch, tokens), where, how, learner)
    every = Candidates(
        built, on, call.engine, tuple(machine_sizes(on, objective, chips)), (batch, tokens),
        micros=MICROS, schedules=choices.schedules, recomputed=choices.recomputed, recipes=choices.recipes,
    )  # fmt: skip
    considered, timed = every.timed(asking(built, (batch, tokens), call, drawn.billed(bill)), left_out)
    ranked = [_plan(t, i) for t, i in first_of(timed, TRAINING_AIMS[objective], top)]
    reasons = {reason: n for reason, n in left_out.items() if n}
    return TrainingSearch(built, batch, tokens, objective, considered, reasons, tuple(ranked))


def _plan(timed: TimedLayouts, number: int) -> TrainingPlan:
    """The plan of one candidate."""
    schedule, again, recipe = timed.how
    told = again if isinstance(again, str) else "".join(f"{name}," for name in again)
    name = recipe.name if isinstance(recipe, Recipe) else recipe or str(USUAL["recipe"])
    micro = int(timed.points.micro[timed.places[number]])
    return TrainingPlan(
        timed.layout(number), micro, told, schedule, name, float(timed.seconds[number]), float(timed.bytes[number])
    )


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
