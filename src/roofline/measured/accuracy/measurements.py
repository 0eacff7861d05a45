"""Measured runs as rows of a table, and their predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import DEGREES, PlaceSettings, StaticBatch
from roofline.declared.kinds import Given
from roofline.declared.question import (
    OLD_NAMES,
    Function,
    Setting,
    Settings,
    group_settings,
    question_settings,
    ungrouped,
)
from roofline.engines.engine import Engine
from roofline.inference.cost.bill import Bill
from roofline.inference.deployment import Machine, deploy
from roofline.inference.generate import generate
from roofline.inference.span import Span
from roofline.layout.layout import layout_named
from roofline.measured.accuracy.scoring import Scored
from roofline.model.adapters import named_targets, with_drafts, with_lora
from roofline.model.load import load
from roofline.model.model import Model
from roofline.programs.estimate import estimate
from roofline.serving.serve import serve
from roofline.serving.server import Serving
from roofline.training.estimate import TrainingEstimate
from roofline.training.train import train
from roofline.work.analysis import analyze
from roofline.work.step import decode, prefill
from roofline.work.training import training

SIZES = (*group_settings(StaticBatch), "concurrency", "rate")
"""Settings that are numbers of requests and tokens; rows that differ only in these are predicted together."""


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A run and its measured seconds.

    quantity: one of QUANTITIES. model: a name, a path or a Model. settings: settings of the quantity's question under
    their declared names. slices: groups that the row belongs to. software: what ran it, if not the engine that is
    predicted.
    """

    quantity: str
    seconds: float
    model: str | Model
    where: PlaceSettings
    settings: Settings
    slices: tuple[str, ...] = ("all",)
    system: str = ""
    software: str = ""

    @property
    def several(self) -> bool:
        """Whether the layout has several chips; false without a layout."""
        layout = self.where.layout
        return layout is not None and bool(np.any(np.asarray(layout_named(layout).chips) > 1))

    @property
    def sizes(self) -> Settings:
        """Sizes that the prediction needs."""
        needs = QUANTITIES[self.quantity].needs
        names = (*needs, "rate" if "concurrency" not in self.settings else "concurrency") if needs is SERVER else needs
        return {name: self.settings[name] for name in names}

    @property
    def options(self) -> Settings:
        """Settings other than the place and the sizes."""
        return {name: value for name, value in self.settings.items() if name not in SIZES}

    @property
    def others(self) -> Settings:
        """Settings other than the sizes, including the place."""
        return {**ungrouped(self.where, type(self.where)), **self.options}


def measured_run(
    quantity: str, seconds: float, model: str | Model, *, slices: tuple[str, ...] = ("all",), system: str = "",
    software: str = "", **settings: Given,
) -> MeasuredRun:  # fmt: skip
    """A run from flat settings; the question's defaults apply to those that are None."""
    given = {OLD_NAMES.get(name, name): value for name, value in settings.items() if value is not None}
    if "on" not in given:
        raise InputError("on", "nothing", "the chip or machine of the row")
    where = PlaceSettings(**{name: given.pop(name) for name in group_settings(PlaceSettings) if name in given})
    return MeasuredRun(
        quantity=quantity, seconds=seconds, model=model, where=where, settings=given, slices=slices, system=system,
        software=software,
    )  # fmt: skip


CALLED = (*SIZES, "precision", "recipe", "images", "cached", "lora", "lora_targets", "drafts")
"""What a user's call says besides the model, the machine and the engine's name: sizes, formats, what is trained."""


def as_called(m: MeasuredRun) -> MeasuredRun:
    """The run as a user asks for it who knows the model, the machine, the sizes, the formats and the engine's name.

    Without the layout, the engine's release and settings, how a benchmark opened, and what else a row tells. The
    machine has the chips that were used.
    """
    engine = m.where.engine.id if isinstance(m.where.engine, Engine) else m.where.engine
    given = ungrouped(m.where, PlaceSettings)
    where = PlaceSettings(**{
        **{name: value for name, value in given.items() if name in CALLED},
        "on": _machine_used(m.where), "engine": engine and engine.partition("(")[0].partition("@")[0],
    })  # fmt: skip
    return replace(m, where=where, settings={name: value for name, value in m.settings.items() if name in CALLED})


def _machine_used(where: PlaceSettings) -> Machine:
    """The machine's name; of one that the layout does not fill, or that has no name, as many chips as are used."""
    on: Machine = where.on
    used = deploy(on, where.layout)
    chips = used.cluster.chips if where.layout is None else used.chips
    if isinstance(on, str) and chips == used.cluster.chips:
        return on
    name = used.chip.id if chips == 1 else f"{chips}x{used.chip.id}"
    try:
        deploy(name)
    except InputError:
        return on
    return name


Predict: TypeAlias = Callable[[Model, Settings], Span]
"""Predicts a quantity from a model and a run's settings."""


@dataclass(frozen=True)
class Quantity:
    """A measurable quantity: the sizes that it needs, its prediction, and the question that predicts it.

    `asks` is None for a row predicted as one step, which has no settings other than the place and the sizes.
    """

    needs: tuple[str, ...]
    predict: Predict
    says: str
    asks: Function | None = None

    @property
    def settings(self) -> Mapping[str, Setting]:
        """Settings that a row may give in columns."""
        return PLAIN_SETTINGS if self.asks is None else PLAIN_SETTINGS | run_settings(self.asks)


def run_settings(question: Function) -> dict[str, Setting]:
    """Settings of a question that a row may have, by name.

    Parallelism degrees are part of the layout, and the bill does not affect times.
    """
    left_out = {*DEGREES, *group_settings(Bill)}
    return {name: s for name, s in question_settings(question).items() if name not in left_out}


ALL_SETTINGS: Mapping[str, Setting] = run_settings(generate) | run_settings(serve)
PLAIN_SETTINGS = {name: s for name, s in ALL_SETTINGS.items() if name in (*SIZES, *group_settings(PlaceSettings))}
"""Settings of every row: the place and the sizes."""


def _generated(name: str) -> Predict:
    return lambda model, settings: getattr(generate(model, **settings), name)


def _served(name: str) -> Predict:
    return lambda model, settings: getattr(serve(model, **settings), name)


def _per_token(model: Model, settings: Settings) -> Span:
    """Seconds per token that a server generates, with the relative interval of TPOT."""
    serving: Serving = serve(model, **settings)
    tokens = np.asarray(serving.tokens_per_second, dtype=float)
    return serving.tpot.times(1 / (tokens * np.asarray(serving.tpot.expected, dtype=float)))


def _prefill(model: Model, settings: Settings) -> Span:
    how = dict(settings)
    step = prefill(how.pop("batch"), how.pop("input"), cached=how.pop("cached", 0))
    return estimate(model, step, **how).span  # type: ignore[no-any-return]


def _decode(model: Model, settings: Settings) -> Span:
    how = dict(settings)
    step = decode(how.pop("batch"), how.pop("input"))
    return estimate(model, step, **how).span  # type: ignore[no-any-return]


def _trained(model: Model, settings: Settings) -> TrainingEstimate:
    asked = {"tokens" if name == "input" else name: value for name, value in settings.items()}
    trained: TrainingEstimate = train(model, **asked)
    return trained


def _training(model: Model, settings: Settings) -> Span:
    return _trained(model, settings).span


def _training_bytes(model: Model, settings: Settings) -> Span:
    """Peak bytes of the fullest rank, with an interval of ± 3 %."""
    stages = _trained(model, settings).stages
    peak = np.max([np.asarray(s.memory.allocated, dtype=float) for s in stages], axis=0)
    return Span(float("nan"), peak, 0.97 * peak, 1.03 * peak)


def _training_flops(model: Model, settings: Settings) -> Span:
    """Model FLOPs of a step, with an interval of ± 1 %, since conventions differ for small ops."""
    changed = with_drafts(model, settings["drafts"]) if "drafts" in settings else model
    if "lora" in settings:
        changed = with_lora(changed, settings["lora"], named_targets(settings.get("lora_targets"), settings["lora"]))
    step = training(settings["batch"], settings["input"])
    flops = np.asarray(analyze(changed, step).flops, dtype=float)
    return Span(float("nan"), flops, 0.99 * flops, 1.01 * flops)


BATCH = ("batch", "input", "output_tokens")
SERVER = ("input", "output_tokens")
QUANTITIES: Mapping[str, Quantity] = {
    "latency": Quantity(BATCH, _generated("latency"), "a static batch, from its prompts to its last token", generate),
    "ttft": Quantity(BATCH, _generated("ttft"), "a static batch, until its first token", generate),
    "tpot": Quantity(
        BATCH, _generated("tpot"), "a static batch, the mean time between tokens after the first", generate
    ),
    "served-latency": Quantity(
        SERVER, _served("latency"), "a server, from a request's arrival to its last token", serve
    ),
    "served-ttft": Quantity(SERVER, _served("ttft"), "a server, from a request's arrival to its first token", serve),
    "served-tpot": Quantity(SERVER, _served("tpot"), "a server, the mean time between a request's tokens", serve),
    "served-token": Quantity(
        SERVER, _per_token, "a server, seconds for each token generated: 1 / (output tokens/s)", serve
    ),
    "prefill": Quantity(("batch", "input"), _prefill, "one step over `batch` prompts of `input` tokens"),
    "decode": Quantity(("batch", "input"), _decode, "one step of a token each for `batch` contexts of `input` tokens"),
    "training": Quantity(("batch", "input"), _training, "an optimizer step over `batch` sequences of `input` tokens"),
    "training-bytes": Quantity(("batch", "input"), _training_bytes, "bytes of the fullest rank in such a step"),
    "training-flops": Quantity(("batch", "input"), _training_flops, "model FLOPs of such a step"),
}


def checked(m: MeasuredRun) -> MeasuredRun:
    """The measurement, checked. Raises InputError for an unknown quantity, a missing size or non-positive seconds."""
    if m.quantity not in QUANTITIES:
        raise not_one_of("quantity", m.quantity, QUANTITIES)
    given = m.settings
    for name in QUANTITIES[m.quantity].needs:
        if given.get(name, 0) < 1:
            raise InputError(name, given.get(name), f"a whole number from 1 for {m.quantity}")
    if QUANTITIES[m.quantity].needs is SERVER and ("concurrency" in given) == ("rate" in given):
        expected = f"either a concurrency or a rate for {m.quantity}"
        raise InputError("concurrency", given.get("concurrency"), expected)
    if not 0 < m.seconds < np.inf:
        raise InputError("seconds", m.seconds, "a number above 0")
    return m


@cache
def _model(name: str) -> Model | InputError:
    """A model by name or path, or the error if there is none; cached."""
    try:
        return load(name)
    except InputError as error:
        return error


def model_named(name: str) -> Model:
    """A model by name or path. Raises InputError if there is none."""
    model = _model(name)
    if isinstance(model, InputError):
        raise model
    return model


def predictions(measurements: Sequence[MeasuredRun]) -> list[Span | InputError]:
    """The prediction of each measurement, or an error. Rows that differ only in sizes are predicted together.

    A training step without a layout is predicted for its own sizes, since these decide which layout is fastest.
    """
    answers: list[Span | InputError] = [InputError("row", "", "a prediction")] * len(measurements)
    groups: dict[Hashable, list[int]] = {}
    for i, m in enumerate(measurements):
        try:
            checked(m)
        except InputError as error:
            answers[i] = error
            continue
        key = (m.quantity, m.model if isinstance(m.model, str) else id(m.model), str(m.others), *m.sizes)
        if m.where.layout is None and m.quantity.startswith("training"):
            key += tuple(m.sizes.values())
        groups.setdefault(key, []).append(i)
    for rows in groups.values():
        for i, answer in zip(rows, _alike([measurements[i] for i in rows]), strict=True):
            answers[i] = answer
    return answers


def _alike(measurements: Sequence[MeasuredRun]) -> Iterable[Span | InputError]:
    """Predictions of measurements that differ only in sizes; one by one if they cannot be predicted together."""
    first = measurements[0]
    quantity = QUANTITIES[first.quantity]
    try:
        model = model_named(first.model) if isinstance(first.model, str) else first.model
        columns = {name: np.array([m.sizes[name] for m in measurements]) for name in first.sizes}
        alike = all(m.sizes == first.sizes for m in measurements)
        span = quantity.predict(model, {**first.others, **(first.sizes if alike else columns)})
    except InputError as error:
        if len(measurements) == 1:
            return [error]
        return [answer for m in measurements for answer in _alike([m])]
    ends = [np.broadcast_to(end, (len(measurements),)) for end in span.ends()]
    return [Span(*(float(e[i]) for e in ends)) for i in range(len(measurements))]


def scored(span: Span, measured: float, fitted: str = "no", apart: float | None = None) -> Scored:
    """A scored row."""
    floor, expected, low, high = (np.array([float(end)]) for end in span.ends())
    return Scored(expected, np.array([measured]), floor, low, high, np.array([True]), "-", fitted, apart)
