"""`answer`: whether a model fits on machines, how fast it serves, what limits it, what it costs, what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from roofline.declared.errors import InputError
from roofline.declared.groups import SLO, KernelSettings, LawSettings, LengthSpread, Load, PlaceSettings, Where
from roofline.declared.kinds import MachineName, OneTokens, Seconds
from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import seconds
from roofline.declared.question import group, question
from roofline.declared.result import Figured, Result, Units
from roofline.engines.engine import Engine, engine_named
from roofline.hardware.detect.recognise import HERE
from roofline.inference.cost.bill import Bill
from roofline.inference.deployment import Deployment, Machine, listed_machines, machine_chip
from roofline.inference.fit import Fit, fit
from roofline.inference.memory.memory import Memory
from roofline.model.load import Source, decoder_of
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import Model
from roofline.serving.serve import serve
from roofline.serving.server import Serving
from roofline.whatif.search.demand import Limits, UnderLimits
from roofline.whatif.search.recommendations import Advice, BatchSizes, advice, best_of_levers, served, usual_lengths
from roofline.whatif.search.search import Choices, Ranking, Search, search
from roofline.whatif.search.serving.plans import PLACE, Planned, ServingPlan
from roofline.whatif.search.what_fits import CHECKPOINT, LADDER, LOCAL, usual_engine

USUAL_MACHINES = ("rtx-4090", "h100-sxm", "8xb200")
"""Machines that are answered for beside this one: a desktop card, a rented accelerator, a server of eight."""
SERVER_FORMATS = (CHECKPOINT, "fp8", "int8", "weights=int4")
"""Formats to try on chips of a serving engine, the widest first; elsewhere those of GGUF files."""


@group
@dataclass(frozen=True, kw_only=True)
class AnsweredLoad(LengthSpread):
    """The requests of a first answer."""

    input: Annotated[OneTokens | None, "Prompt tokens of a request (1024, or what the model's context leaves)."] = None
    output_tokens: Annotated[
        OneTokens | None, "Generated tokens of a request (256, at most a quarter of the model's context)."
    ] = None


@group
@dataclass(frozen=True)
class AnsweredSLO(SLO):
    """The limits that the highest load keeps."""

    ttft: Annotated[Seconds, "Maximum time to first token at the highest load."] = 2.0
    tpot: Annotated[Seconds, "Maximum time per output token after the first at the highest load."] = 0.05


@group
@dataclass(frozen=True, kw_only=True)
class AnsweredPlace(LawSettings, KernelSettings):
    """Machines, and how models run on them."""

    on: Annotated[
        MachineName | None,
        "Machines, as in every command, one or several (default: this one, a desktop card, a rented chip, a server).",
    ] = None


@dataclass(frozen=True)
class MachineAnswer(Planned, Figured):
    """The answer for one machine. Figures that need a model that fits are null where it does not.

    `formats`: the formats that were given or chosen, "" for the checkpoint's own: the widest that fits. `memory`: of
    one request on the fullest chip. `remedies`: what would make it fit. `plan`: the plan that `search` recommends for
    the most tokens/s of the whole machine, at the highest load that keeps the limits. `user_tokens_per_second`: 1/TPOT
    of a single user under the plan's layout. `bound`: what limits decode steps at that load, `bound_by`: the kind of op
    that takes most of their time, with its `bound_share`. `power_low`, `power_high`: the ends of the interval of the
    plan's power, in watts, that holds 80 % of boards. `change`: the change with the largest gain in tokens/s per chip,
    its `option` and its `gain` as a factor.
    """

    FIGURES: ClassVar[Units] = {
        "machine": "", "engine": "", "chips": "", "fits": "", "formats": "", "memory": "B", "remedies": "",
        "user_tokens_per_second": "tokens/s", "user_ttft": "s", "plan": "", "bound": "", "bound_by": "",
        "bound_share": "share", "power_low": "W", "power_high": "W", "change": "", "option": "", "gain": "",
        "gain_of": "",
        "grade": "", "why": "",
    }  # fmt: skip

    fitted: Fit
    formats: str
    remedies: tuple[str, ...] = ()
    plan: ServingPlan | None = None
    alone: Serving | None = None
    loaded: Serving | None = None
    helps: Advice | None = None
    why: str = ""
    """Why there is no plan."""

    @property
    def deployment(self) -> Deployment:
        """The layout that memory was looked at under: the whole machine."""
        return self.fitted.deployment

    @property
    def machine(self) -> str:
        """The machine, as `on` takes it."""
        return self.deployment.cluster.name.removeprefix("1x")

    @property
    def engine(self) -> Engine:
        """The engine."""
        return self.fitted.engine

    @property
    def chips(self) -> int:
        """Chips of the machine."""
        return int(self.deployment.cluster.chips)

    @property
    def fits(self) -> bool:
        """Whether one request fits."""
        return bool(self.fitted.fits)

    @property
    def memory(self) -> Memory:
        """Memory of the fullest chip with one request."""
        return self.fitted.memory if self.alone is None else self.alone.memory

    # -- a single user, what limits, what helps ----------------------------------------------------------------------
    @property
    def user_tokens_per_second(self) -> Count | None:
        """Tokens/s of a single user."""
        return None if self.alone is None else self.alone.tokens_per_second_per_user

    @property
    def user_ttft(self) -> Count | None:
        """TTFT of a single user, in seconds."""
        return None if self.alone is None else self.alone.ttft.expected

    @property
    def bound(self) -> str | None:
        """What limits decode steps at the highest load."""
        return None if self.loaded is None else str(self.loaded.decode.bound)

    @property
    def bound_by(self) -> str | None:
        """The kind of op that takes most of a decode step."""
        return None if self.loaded is None else next(iter(self.loaded.decode_shares))

    @property
    def bound_share(self) -> float | None:
        """Its share of the step's time."""
        return None if self.loaded is None else next(iter(self.loaded.decode_shares.values()))

    @property
    def grade(self) -> str | None:
        """How well the times are known."""
        return None if self.loaded is None else self.loaded.grade

    @property
    def change(self) -> str | None:
        """The change that helps most."""
        return None if self.helps is None else self.helps.what

    @property
    def option(self) -> str | None:
        """Its option."""
        return None if self.helps is None else self.helps.option

    @property
    def gain(self) -> float | None:
        """The gain of that change as a factor, of what `gain_of` says."""
        return None if self.helps is None else self.helps.gain

    @property
    def gain_of(self) -> str | None:
        """What grows by the gain: tokens/s per chip, or tokens per dollar on another machine."""
        return None if self.helps is None else self.helps.gain_of


@dataclass(frozen=True, repr=False)
class FirstAnswer(UnderLimits, Result):
    """The first answer about a model: one `MachineAnswer` for each machine.

    `ttft_limit`, `tpot_limit`, `attainment`: the limits that the highest load keeps.
    """

    SCHEMA: ClassVar[str] = "roofline.answer/1"
    FIGURES: ClassVar[Units] = {
        "model": "", **UnderLimits.FIGURES, "machines": "",
    }  # fmt: skip

    model: Model
    demand: Load
    limits: Limits
    machines: tuple[MachineAnswer, ...]
    images: ImageTokens | None = None

    @property
    def fits(self) -> bool:
        """Whether it fits on any of the machines."""
        return any(machine.fits for machine in self.machines)


@question()
def answer(
    model: Model | Source,
    load: AnsweredLoad = AnsweredLoad(),
    limits: AnsweredSLO = AnsweredSLO(),
    place: AnsweredPlace = AnsweredPlace(),
    *,
    images: Images | None = None,
    bill: Bill | None = None,
    progress: Callable[[str], None] | None = None,
) -> FirstAnswer:
    """The first answer about a model: does it fit, how fast does it serve, what limits it, what does it cost?

    For each machine it takes the widest format that fits, the plan that `search` recommends for the most tokens/s of
    the whole machine, and the change that gains most of those that `report` tries. `progress` is called with each
    machine before it is worked out.
    Raises InputError for invalid settings.
    """
    built = decoder_of(model, images)
    prompt, output = usual_lengths(built, load.input, load.output_tokens)
    asked = Load(prompt, output, input_cv=load.input_cv, output_cv=load.output_cv)
    kept = Limits(**vars(limits))
    chosen = _usual_machines() if place.on is None else listed_machines(place.on)
    where = Where(**vars(place) | {"on": chosen[0]})
    rows = []
    for machine in chosen:
        if progress is not None:
            progress(machine_chip(machine).name)
        rows.append(_on_machine(built, replace(where, on=machine), asked, kept, images, bill))
    return FirstAnswer(built, asked, kept, tuple(rows), built.seen(images))


def _usual_machines() -> tuple[Machine, ...]:
    """This machine, where it is recognised, and three usual ones."""
    try:
        machine_chip(HERE)
    except InputError:
        return USUAL_MACHINES
    return (HERE, *USUAL_MACHINES)


def _on_machine(
    model: Model, where: Where, load: Load, limits: Limits, images: Images | None, bill: Bill | None
) -> MachineAnswer:
    """The answer for one machine."""
    tried = _fits(model, where, load, images)
    where, fitted = tried[-1]
    if not fitted.fits:
        where, fitted = tried[0]
        return MachineAnswer(fitted, _formats(where), tuple(_remedies(tried)), why="does not fit")
    about = MachineAnswer(fitted, _formats(where))
    chips = int(fitted.deployment.cluster.chips)
    choices = Choices(**vars(where), chips=chips, kind="aggregated")
    plans = search(model, load, limits, choices=choices, ranking=Ranking(objective="total"), images=images, bill=bill)
    plan = plans.recommended or plans.highest
    placed = replace(where, layout=fitted.deployment.layout if plan is None else plan.group.layout)
    batch = 1 if plan is None else plan.batch
    alone = _served(model, placed, replace(load, concurrency=1), images)
    loaded = _served(model, placed, replace(load, concurrency=batch), images)
    helps = _best_change(model, placed, load, batch, images)
    return replace(about, plan=plan, alone=alone, loaded=loaded, helps=helps, why="" if plan else why_no_plan(plans))


def _fits(model: Model, where: Where, load: Load, images: Images | None) -> Sequence[tuple[Where, Fit]]:
    """The formats down to the widest that fits, each with one request of the load, on the whole machine.

    Formats that the engine or the chip does not compute in are left out. Raises InputError where none is left.
    """
    usual = usual_engine(where.on, CHECKPOINT)
    ladder = LADDER if usual.id == engine_named(LOCAL).id else SERVER_FORMATS
    engine = usual if where.engine is None else where.engine
    tried: list[tuple[Where, Fit]] = []
    refusals: list[InputError] = []
    for precision in (where.precision, *(ladder[1:] if where.precision is None else ())):
        placed = replace(where, precision=precision, engine=engine)
        try:
            place = PlaceSettings(**{name: getattr(placed, name) for name in PLACE})
            fitted = fit(model, place, context=int(load.input) + int(load.output_tokens), images=images)
            if fitted.fits:
                _served(model, placed, replace(load, concurrency=1), images)
        except InputError as error:
            refusals.append(error)
            continue
        tried.append((placed, fitted))
        if fitted.fits:
            break
    if not tried:
        raise refusals[0]
    return tried


def _formats(where: Where) -> str:
    return "" if where.precision is None else str(where.precision)


def _remedies(tried: Sequence[tuple[Where, Fit]]) -> Iterator[str]:
    """What would make the first of these formats fit, and the fewest chips for the narrowest one."""
    yield from (remedy.detail for remedy in tried[0][1].changes)
    where, fitted = tried[-1]
    if where.precision is not None and len(tried) > 1:
        wide = tuple(remedy.detail for remedy in tried[0][1].changes)
        few = (r for r in fitted.changes if r.what == "chips" and r.detail not in wide)
        yield from (f"{r.detail} with {_formats(where)}" for r in few)


def _served(model: Model, where: Where, load: Load, images: Images | None) -> Serving | None:
    """A server of one replica; None where it is refused."""
    answer = serve(model, where, load, images=images)
    return answer if isinstance(answer, Serving) else None


def _best_change(model: Model, where: Where, load: Load, batch: int, images: Images | None) -> Advice | None:
    """The change that gains most of those that a report tries, but a larger batch: the limits say how large it is."""
    sizes = BatchSizes(batch=batch, input=int(load.input), output_tokens=int(load.output_tokens))
    now = served(model, where, sizes, command="serve")
    every = [a for a in advice(replace(now, asked=now.asked.seeing(images))) if a.lever != "batch"]
    best = best_of_levers(every, lambda a: a.lever, lambda a: a.gain, lambda a: a.generation.grade)
    return best[0] if best else None


def why_no_plan(plans: Search) -> str:
    """Why no plan keeps the limits: those that none keeps, at any load or, where the load is given, by how much."""
    beyond = [near for near in plans.nearest if near.least > near.limit]
    if plans.demand.concurrency is None and plans.demand.rate is None:
        names = " and ".join(near.name.upper() for near in beyond)
        return f"no load keeps the limit on {names}" if beyond else "no load keeps all limits"
    if beyond:
        return ", ".join(f"{near.name.upper()} ≥ {seconds(near.least)}" for near in beyond)
    return "not all limits" if plans.nearest else "too much load"
