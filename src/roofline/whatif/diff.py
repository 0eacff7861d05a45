"""Two models, machines, formats, layouts or steps side by side: all figures, and where the change comes from.

The change of a phase is accounted for twice. By setting: settings are changed from one side to the other in the order
of SETTINGS, each with its factor; the product of the factors is the whole change. By op: what each op adds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar

from roofline.declared.errors import InputError, nearest
from roofline.declared.groups import DEGREES, EncoderReplicas, PlaceSettings, Where
from roofline.declared.kinds import (
    EngineName,
    Given,
    ImageSize,
    MachineName,
    OneSequences,
    OneTokens,
    OneTokensOrNone,
    Seconds,
    StepName,
    Whole,
)
from roofline.declared.numbers.units import written
from roofline.declared.question import group, group_settings, question
from roofline.declared.result import Figured, Result, Units
from roofline.engines.engine import TRAINER, Engine, default_engine, engine_named
from roofline.hardware.chip import Chip
from roofline.inference.deployment import is_several, machine_chip
from roofline.inference.memory.memory import Memory
from roofline.inference.settings import setup
from roofline.inference.step import Estimate
from roofline.layout.layout import Layout, layout_named
from roofline.layout.shard import ONE_CHIP, shard
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, load, model_of
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.model.summary import fingerprint
from roofline.programs.estimate import estimate
from roofline.serving.encoders import Encoders, encoders_of
from roofline.training.estimate import TrainingEstimate
from roofline.training.settings import TrainingWhere
from roofline.training.train import train
from roofline.work.analysis import Analysis, analyze
from roofline.work.lower import seeing
from roofline.work.step import Step, step_of
from roofline.work.training import Training, training

CALLED = {"input": "prompt", "tokens": "train"}
"""Names that other commands use for two settings of a side."""
PHASES = ("prefill", "decode", "training")


@group
@dataclass(frozen=True, kw_only=True)
class SidePlace(PlaceSettings):
    """Where a side runs."""

    on: Annotated[MachineName | None, "A chip, or several; without one there are no times."] = None


@group
@dataclass(frozen=True, kw_only=True)
class SideStep(EncoderReplicas):
    """The sizes of a side's steps, and the encoder pool before its prefill."""

    batch: Annotated[OneSequences, "Sequences of all replicas."] = 1
    context: Annotated[OneTokensOrNone, "Cached tokens of the decode."] = 1024
    prompt: Annotated[OneTokens, "Tokens of the prefill."] = 1024
    train: Annotated[OneTokens | None, "Tokens of a sequence of a training step."] = None
    images: Annotated[Whole | None, "Images in every prompt of the prefill, on top of its tokens."] = None
    image_size: Annotated[ImageSize | None, "Width and height of each, such as `1024x768`."] = None
    frames: Annotated[Whole | None, "Frames of each; several make it a video (1)."] = None
    audio: Annotated[Seconds | None, "Length of a recording in every prompt of the prefill, such as `30s`."] = None
    step: Annotated[StepName | None, "The one phase that is compared."] = None


KEYS = (*(name for name in group_settings(SidePlace) if name not in (*DEGREES, "engine")), "engine",
        *group_settings(SideStep))  # fmt: skip
SETTINGS = ("model", "step", *KEYS[:-1])
"""Settings in the order in which they are changed from one side to the other: formats before the engine."""


@dataclass(frozen=True, kw_only=True)
class Side(SideStep, SidePlace, Figured):
    """One side of a comparison: a model, and where and how it runs. Without a chip there are no times.

    `layout`: None for one chip, or for the whole of a cluster. `train`: None for no training. `step`: None for all
    phases.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("model", *KEYS), "")
    NAMES: ClassVar[Mapping[str, str]] = {"on": "machine", "layout": "spread", "engine": "software"}

    model: Model

    @property
    def where(self) -> PlaceSettings:
        """The place settings alone."""
        return PlaceSettings(**{name: getattr(self, name) for name in group_settings(PlaceSettings)})

    @property
    def trained(self) -> int:
        """Tokens of a training sequence; those of the prompt by default."""
        return self.prompt if self.train is None else self.train

    def __post_init__(self) -> None:
        if self.audio is not None:
            object.__setattr__(self, "model", self.model.hearing(Images.asked(audio=self.audio)))

    @cached_property
    def parted(self) -> tuple[Model, Encoders | None]:
        """The model that its replicas hold, and the encoder pool before them, which needs a chip."""
        if not self.apart:
            return self.model, None
        if self.on is None:
            raise InputError("encoders", self.encoders, "a chip as well (`MODEL@CHIP`)")
        return encoders_of(self.model, Where(**vars(self.where)), self.beside, self, None)

    @property
    def beside(self) -> Images | None:
        """Images and sound of every prompt. Raises InputError for one setting of them without the other."""
        given = {name: getattr(self, name) for name in group_settings(Images) if getattr(self, name) is not None}
        return Images.asked(**given) if given else None

    def of(self, phase: str) -> Step:
        """The step of a phase; a prefill encodes the images of its prompts, unless an encoder pool does."""
        if phase == "training":
            return training(self.batch, self.trained)
        step = step_of(phase, self.batch, self.prompt if phase == "prefill" else self.context)
        return seeing(self.parted[0], step, self.beside) if phase == "prefill" else step

    @property
    def formats(self) -> Precision:
        """The checkpoint's formats with the requested changes."""
        return self.typed.precision

    @cached_property
    def typed(self) -> Model:
        """The model in its requested formats."""
        model, formats = formats_of(self.model, self.precision)
        return replace(model, precision=formats)

    @cached_property
    def spread(self) -> Layout:
        """The layout of inference; by default the whole cluster."""
        if self.layout is not None or self.on is None or not is_several(self.on):
            return self.layout or ONE_CHIP
        return setup(self.model, Where(**vars(self.where))).layout

    def engine_of(self, phase: str) -> Engine | None:
        """The engine of a phase; None without a chip."""
        if self.on is None:
            return None
        if self.engine is not None:
            return engine_named(self.engine)
        return engine_named(TRAINER) if phase == "training" else default_engine(machine_chip(self.on))

    @property
    def machine(self) -> str | None:
        """The name of the machine or chip; None without one."""
        return self.on.plain() if isinstance(self.on, Chip) else self.on

    @property
    def software(self) -> str | None:
        """The engine: as given, or the default for the step; None without a chip."""
        engine = self.engine_of(self.step or PHASES[0])
        return None if engine is None else engine.plain()

    @property
    def label(self) -> str:
        """The model, and the machine if there is one."""
        return self.model.name if self.on is None else f"{self.model.name} on {self.machine}"

    def said(self, setting: str) -> str:
        """A setting as text."""
        value = self.machine if setting == "on" else getattr(self, setting)
        if setting == "model":
            return self.model.name
        if setting == "layout":
            return self.spread.text()
        if setting == "train":
            return str(self.trained)
        if setting == "engine":
            return self.software or "none"
        words = {"on": "no chip", "precision": "the checkpoint's", "step": "all"}
        return words.get(setting, "none") if value is None else str(value)


@dataclass(frozen=True)
class Change(Figured):
    """A figure on both sides. `ratio`: b / a, None where a is zero."""

    FIGURES: ClassVar[Units] = {"phase": "", "name": "", "unit": "", "a": "", "b": "", "ratio": ""}

    phase: str
    name: str
    unit: str
    a: float
    b: float

    @property
    def ratio(self) -> float | None:
        """b / a."""
        return self.b / self.a if self.a else None


@dataclass(frozen=True)
class Turn:
    """Settings changed from one side to the other on top of the earlier ones, and the `factor` on the phase's cost.

    Several settings are changed together where the state between them is invalid (a layout that does not divide).
    """

    phase: str
    settings: tuple[str, ...]
    factor: float


@dataclass(frozen=True)
class Cause:
    """An op's cost on both sides, in the phase's `unit`, where they differ."""

    phase: str
    op: str
    a: float
    b: float
    unit: str

    @property
    def change(self) -> float:
        """b − a."""
        return self.b - self.a


@dataclass(frozen=True)
class Fact:
    """A property in which the models differ, with both values in words."""

    property: str
    a: str
    b: str


@dataclass(frozen=True)
class Misfit:
    """A phase of a side (a or b) that does not fit in memory. Its times assume chips with enough memory."""

    side: str
    phase: str
    memory: Memory


@dataclass(frozen=True, repr=False)
class Difference(Result):
    """All differences of two sides and their causes; the largest causes of each phase come first."""

    SCHEMA: ClassVar[str] = "roofline.diff/2"
    FIGURES: ClassVar[Units] = dict.fromkeys(
        ("a", "b", "fits", "misfits", "facts", "changes", "turns", "causes"), "",
    )  # fmt: skip

    a: Side
    b: Side
    misfits: tuple[Misfit, ...]
    changes: tuple[Change, ...]
    turns: tuple[Turn, ...]
    causes: tuple[Cause, ...]

    @property
    def fits(self) -> bool:
        """Whether both sides have the memory for every phase compared."""
        return not self.misfits

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Properties in which the two models differ."""
        one, other = (dict(fingerprint(side.model)) for side in (self.a, self.b))
        names = (name for name in one | other if one.get(name) != other.get(name))
        return tuple(Fact(name, one.get(name, ""), other.get(name, "")) for name in names)

    def lines(self) -> list[tuple[str, str]]:
        """The changes as text."""
        return [(f"{c.phase}, {c.name}", f"{written(c.a, c.unit)} → {written(c.b, c.unit)}") for c in self.changes]


def side(spec: str) -> Side:
    """Parse `MODEL`, `MODEL@CHIP`, or either followed by `:key=value,…` with keys of KEYS.

    Values that contain commas stand in brackets: `:layout=[tp=8,sp],batch=32`. Raises InputError for an invalid text.
    """
    head, _, rest = spec.partition(":")
    name, at, chip = head.partition("@")
    given: dict[str, Given] = {"on": chip} if at else {}
    left = re.sub(r"\s*([^=,\[\]]+)=(?:\[[^\]]*\]|[^,\[\]]*)\s*(?:,|$)", "", rest)
    if left:
        raise InputError("spec", left, "`key=value` pairs separated by commas, values with commas in brackets")
    for word, bracketed, plain in re.findall(r"([^=,]+)=(?:\[([^\]]*)\]|([^,]*))", rest):
        key = CALLED.get(word.strip(), word.strip())
        if key not in KEYS:
            raise InputError("spec", word, f"one of {', '.join((*KEYS, *CALLED))}", nearest(word, (*KEYS, *CALLED)))
        if key in given:
            raise InputError("spec", f"{word}=", f"{word.strip()} once")
        given[key] = (bracketed or plain).strip()
    for key, value in given.items():
        if not value:
            raise InputError(key, value, "a value")
    settings = group_settings(SideStep)
    for key in given.keys() & settings.keys():
        kind = settings[key].kind
        given[key] = kind.check(key, kind.read(key, given[key]))
    if "engine" in given:
        engine_named(given["engine"])
    if "layout" in given:
        given["layout"] = layout_named(given["layout"])
    return Side(model=load(name), **given)


def _side_of(given: str | Side | Model | Source) -> Side:
    if isinstance(given, Side):
        return given
    return side(given) if isinstance(given, str) else Side(model=model_of(given))


@question()
def diff(
    a: str | Side | Model | Source,
    b: str | Side | Model | Source,
    engine: Annotated[
        EngineName | None, "Engine of a side that names none: its kernels, host time and memory rule."
    ] = None,
) -> Difference:
    """Compare two sides phase by phase. A side is a text as `side` parses it, a model, its config or a `Side`.

    `engine`: for sides that name none. Raises InputError for an invalid side, and for an engine where neither side has
    a chip.
    """
    one, other = _side_of(a), _side_of(b)
    if engine is None:
        return differ(one, other)
    engine_named(engine)
    if one.on is None and other.on is None:
        raise InputError("engine", engine, "a chip as well (`MODEL@CHIP`): without one there are no times")
    return differ(_run_by(engine, one), _run_by(engine, other))


def _run_by(engine: str, s: Side) -> Side:
    """The side with an engine, where it has a chip and names no engine."""
    return s if s.engine or s.on is None else replace(s, engine=engine)


def differ(a: Side, b: Side, most: int = 3) -> Difference:
    """The figures of both sides phase by phase, the effect of each setting, and the ops that change most.

    Compared in time where both sides have a chip, else in FLOPs. Raises InputError where a side is invalid.
    """
    changes = [
        Change("model", "parameters", "count", a.model.parameters, b.model.parameters),
        Change("model", "active parameters", "count", a.model.active_parameters, b.model.active_parameters),
        Change("model", "weights", "B", *(float(s.typed.weight_bytes()) for s in (a, b))),
        Change("model", "KV cache per token", "B", *(float(s.model.kv_bytes(1, s.formats)) for s in (a, b))),
    ]
    turns: list[Turn] = []
    causes: list[Cause] = []
    misfits: list[Misfit] = []
    timed = a.on is not None and b.on is not None
    for one, other in phase_pairs(a, b):
        phase = one if one == other else f"{one} → {other}"
        first, second = phase_figures(a, one, timed), phase_figures(b, other, timed)
        sides = (("a", one, first.memory), ("b", other, second.memory))
        misfits += [Misfit(which, at, memory) for which, at, memory in sides if memory is not None and not memory.fits]
        by_name = {f.name: f.value for f in second.figures}
        changes += [Change(phase, f.name, f.unit, f.value, by_name[f.name]) for f in first.figures if f.name in by_name]
        turns += _turns(a, b, (one, other), phase, timed, (first.cost, second.cost))
        x, y = first.by_op, second.by_op
        differing = (Cause(phase, op, x.get(op, 0.0), y.get(op, 0.0), first.unit) for op in {**x, **y})
        causes += sorted((c for c in differing if c.change), key=lambda c: -abs(c.change))[:most]
    return Difference(a, b, tuple(misfits), tuple(changes), tuple(turns), tuple(causes))


def phase_pairs(a: Side, b: Side) -> list[tuple[str, str]]:
    """Pairs of phases to compare: the requested ones, else prefill and decode, and training where a side trains."""
    if a.step or b.step:
        return [(a.step or b.step or "", b.step or a.step or "")]
    names = PHASES if a.train or b.train else PHASES[:2]
    return [(name, name) for name in names]


def _turns(
    a: Side, b: Side, phases: tuple[str, str], phase: str, timed: bool, costs: tuple[float, float]
) -> list[Turn]:
    """Change one setting after another from a to b, whose costs are given. Settings without effect are left out."""
    side, turns = a, []
    (one, other), (before, last) = phases, costs
    waiting: list[str] = []
    differing = [s for s in SETTINGS if getattr(a, s) != getattr(b, s)]
    for setting in differing:
        side = replace(side, **{setting: getattr(b, setting)})
        waiting.append(setting)
        try:
            at_b = setting == differing[-1]
            now = last if at_b else phase_figures(side, one if side.step == a.step else other, timed).cost
        except InputError:
            continue
        if now != before:
            turns.append(Turn(phase, tuple(waiting), now / before))
        before, waiting = now, []
    return turns


# -- one side ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Figure:
    """A value with its name and unit; the unit `share` is a fraction of one."""

    name: str
    unit: str
    value: float


@dataclass(frozen=True)
class PhaseFigures:
    """A phase of a side: figures, and cost in total and by op, in `unit`: seconds if timed, else FLOP."""

    figures: tuple[Figure, ...]
    unit: str
    cost: float
    by_op: Mapping[str, float]
    memory: Memory | None = None


def phase_figures(s: Side, phase: str, timed: bool = True) -> PhaseFigures:
    """The figures of a phase, without times unless `timed`. Raises InputError where the side is invalid."""
    step, (model, front) = s.of(phase), s.parted
    if s.on is None or not timed:
        share = step if isinstance(step, Training) else step.of_replica(s.spread.dp)
        model, formats = formats_of(model, s.precision, step.precision if isinstance(step, Training) else None)
        a = analyze(shard(model, s.spread), share, precision=formats)
        return PhaseFigures(_counted(a), "FLOP", float(a.flops), _by_op((c.name, float(c.flops)) for c in a.ops))
    if isinstance(step, Training):
        return _trained(train(s.model, TrainingWhere(**vars(s.where)), batch=s.batch, tokens=s.trained))
    return _timed(estimate(model, step, s.where), front if phase == "prefill" else None)


def _timed(e: Estimate, front: Encoders | None) -> PhaseFigures:
    """An inference step: its ops one after another, behind those of an encoder pool."""
    spans = {} if front is None else {ENCODING: front.seconds, SENDING: front.transfer}
    before = {name: float(span.expected) for name, span in spans.items()}
    time, floor = float(e.time) + sum(before.values()), sum(float(span.floor) for span in spans.values())
    times = (
        Figure("time", "s", time), Figure("speed of light", "s", float(e.serial_floor) + floor),
        Figure("memory", "B", float(e.memory.total)),
    )  # fmt: skip
    by_op = _by_op((*before.items(), *((op.name, float(op.expected)) for op in e.ops)))
    return PhaseFigures((*_counted(e.analysis), *times), "s", time, by_op, e.memory)


ENCODING, SENDING = "encoding (pool)", "sending embeddings"
"""What an encoder pool does before a prefill."""


def _trained(t: TrainingEstimate) -> PhaseFigures:
    """A training step: the passes of the slowest stage, waiting, and the work done once per step."""
    figures = (
        Figure("FLOPs", "FLOP", float(t.hardware_flops)), Figure("time", "s", float(t.time)),
        Figure("speed of light", "s", float(t.floor)), Figure("memory", "B", float(t.memory.total)),
        Figure("MFU", "share", float(t.mfu)),
        Figure("tokens/s per chip", "tokens/s", float(t.tokens_per_second_per_chip)),
    )  # fmt: skip
    slowest = t.slowest.turns
    spans = {"forward": slowest.forward, "backward": slowest.backward, "weight gradients": slowest.weight}
    times = {name: float(t.micro_batches * span.expected) for name, span in spans.items()}
    times["waiting"] = float(t.passes.expected) - sum(times.values())
    times |= {
        "gradients between replicas": float(t.reduction.expected),
        "weights between replicas": float(t.gathering.expected),
        "optimizer": float(t.update.expected),
        "other ranks and the host": float(t.waiting.expected),
    }  # fmt: skip
    return PhaseFigures(figures, "s", float(t.time), times, t.memory)


def _counted(a: Analysis) -> tuple[Figure, ...]:
    return (
        Figure("FLOPs", "FLOP", float(a.flops)), Figure("bytes", "B", float(a.bytes)),
        Figure("intensity", "FLOP/B", float(a.intensity)),
    )  # fmt: skip


def _by_op(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, value in pairs:
        sums[name] = sums.get(name, 0.0) + value
    return sums
