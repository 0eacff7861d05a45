"""What was run and how long it took, as a row of a table; and what is predicted for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from roofline.accuracy.scoring import Scored
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import DEGREES
from roofline.declared.question import Setting, group_settings, question_settings
from roofline.estimates.bill import Bill
from roofline.estimates.estimate import estimate
from roofline.estimates.generate import generate
from roofline.estimates.serve import serve
from roofline.estimates.span import Span
from roofline.estimates.train import train
from roofline.layout.layout import layout_named
from roofline.model.adapters import named_targets, with_drafts, with_lora
from roofline.model.load import load
from roofline.model.model import Model
from roofline.work.analysis import analyze
from roofline.work.step import decode, prefill
from roofline.work.training import training

RunSizes: TypeAlias = Mapping[str, Any]
"""batch, input, output, concurrency, rate → a number or an array of each."""


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A run and its seconds.

    quantity: one of QUANTITIES. model: a name, a path or a Model. on, layout, engine, precision: as elsewhere. batch:
    sequences of all replicas at once; input and output: tokens of each; concurrency: requests in flight of a server,
    or rate: those that arrive in a second. options: what else `generate`, `serve`, `estimate` or `train` is told.
    slices: the groups that it belongs to. software: what ran it, where that is not the engine that is predicted.
    """

    quantity: str
    seconds: float
    model: Any
    on: Any
    layout: Any = None
    engine: Any = None
    precision: str | None = None
    batch: int | None = None
    input: int | None = None
    output: int | None = None
    concurrency: int | None = None
    rate: float | None = None
    slices: tuple[str, ...] = ("all",)
    system: str = ""
    software: str = ""

    options: Mapping[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """What it was run on and how; what is not given is the library's own."""
        given = {"on": self.on, "layout": self.layout, "engine": self.engine, "precision": self.precision}
        return {name: value for name, value in given.items() if value is not None} | dict(self.options)

    @property
    def several(self) -> bool:
        """Whether its layout has several chips; one where none is given."""
        return self.layout is not None and bool(np.any(np.asarray(layout_named(self.layout).chips) > 1))

    def sizes(self) -> dict[str, float]:
        """The sizes that are given."""
        given = {name: getattr(self, name) for name in SIZES}
        return {name: value for name, value in given.items() if value is not None}


SIZES = ("batch", "input", "output", "concurrency", "rate")
Predict: TypeAlias = Callable[[Any, RunSizes, Mapping[str, Any]], Span]


@dataclass(frozen=True)
class Quantity:
    """What can be measured: the sizes that it needs, how it is predicted, and the question that predicts it.

    `asks` is None where a row is predicted as one step, which has no settings beyond the place and the sizes.
    """

    needs: tuple[str, ...]
    predict: Predict
    says: str
    asks: Callable[..., Any] | None = None

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The settings of its question that a row may give in columns of their own."""
        return {} if self.asks is None else further_settings(self.asks)


def further_settings(question: Callable[..., Any]) -> dict[str, Setting]:
    """The settings of a question that a `MeasuredRun` has no field for, by name.

    Degrees stand in the layout, and no time depends on the bill.
    """
    said = {*_settings(dict.fromkeys(f.name for f in fields(MeasuredRun))), *DEGREES, *group_settings(Bill)}
    return {name: s for name, s in question_settings(question).items() if name not in said}


def _generated(name: str) -> Predict:
    return lambda model, sizes, settings: getattr(generate(model, **_settings(sizes), **settings), name)


def _served(name: str) -> Predict:
    return lambda model, sizes, settings: getattr(serve(model, **_settings(sizes), **settings), name)


def _settings(sizes: RunSizes) -> RunSizes:
    """Columns as the questions' settings."""
    return {"output_tokens" if name == "output" else name: value for name, value in sizes.items()}


def _per_token(model: Any, sizes: RunSizes, settings: Mapping[str, Any]) -> Span:
    """Seconds for each token that a server generates; as certain as its time between tokens."""
    serving = serve(model, **_settings(sizes), **settings)
    tokens = np.asarray(serving.tokens_per_second, dtype=float)
    return serving.tpot.times(1 / (tokens * np.asarray(serving.tpot.expected, dtype=float)))  # type: ignore[no-any-return]


def _prefill(model: Any, sizes: RunSizes, settings: Mapping[str, Any]) -> Span:
    how = dict(settings)
    step = prefill(sizes["batch"], sizes["input"], cached=how.pop("cached", 0))
    return estimate(model, step, **how).span  # type: ignore[no-any-return]


def _decode(model: Any, sizes: RunSizes, settings: Mapping[str, Any]) -> Span:
    step = decode(sizes["batch"], sizes["input"])
    return estimate(model, step, **settings).span  # type: ignore[no-any-return]


def _training(model: Any, sizes: RunSizes, settings: Mapping[str, Any]) -> Span:
    return train(model, batch=sizes["batch"], tokens=sizes["input"], **settings).span  # type: ignore[no-any-return]


def _training_bytes(model: Any, sizes: RunSizes, settings: Mapping[str, Any]) -> Span:
    """Bytes of the fullest rank at its peak, which the interval takes to within 3 %."""
    e = train(model, batch=sizes["batch"], tokens=sizes["input"], **settings)
    peak = np.max([np.asarray(s.memory.allocated, dtype=float) for s in e.stages], axis=0)
    return Span(float("nan"), peak, 0.97 * peak, 1.03 * peak)


def _training_flops(model: Any, sizes: RunSizes, settings: Mapping[str, Any]) -> Span:
    """Model FLOPs of a step, which are known to 1 %: the conventions differ in small ops."""
    changed = with_drafts(model, settings["drafts"]) if "drafts" in settings else model
    if "lora" in settings:
        changed = with_lora(changed, settings["lora"], named_targets(settings.get("lora_targets"), settings["lora"]))
    flops = np.asarray(analyze(changed, training(sizes["batch"], sizes["input"])).flops, dtype=float)
    return Span(float("nan"), flops, 0.99 * flops, 1.01 * flops)


BATCH = ("batch", "input", "output")
SERVER = ("input", "output")
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
    """The measurement as it is. Raises InputError for an unknown quantity, a missing size, or no positive seconds."""
    if m.quantity not in QUANTITIES:
        raise not_one_of("quantity", m.quantity, QUANTITIES)
    sizes = m.sizes()
    for name in QUANTITIES[m.quantity].needs:
        if sizes.get(name, 0) < 1:
            raise InputError(name, sizes.get(name), f"a whole number from 1 for {m.quantity}")
    if QUANTITIES[m.quantity].needs is SERVER and (m.concurrency is None) == (m.rate is None):
        raise InputError("concurrency", m.concurrency, f"either a concurrency or a rate for {m.quantity}")
    if not 0 < m.seconds < np.inf:
        raise InputError("seconds", m.seconds, "a number above 0")
    return m


@cache
def _model(name: str) -> Model | InputError:
    """A model by name or path, or why there is none; looked for once."""
    try:
        return load(name)
    except InputError as error:
        return error


def model_named(name: str) -> Model:
    """A model by name or path. Raises InputError where there is none."""
    model = _model(name)
    if isinstance(model, InputError):
        raise model
    return model


def predictions(measurements: Sequence[MeasuredRun]) -> list[Span | InputError]:
    """What is predicted for each, or why nothing is. Those that differ in sizes alone are predicted at once."""
    answers: list[Span | InputError] = [InputError("row", "", "a prediction")] * len(measurements)
    groups: dict[Any, list[int]] = {}
    for i, m in enumerate(measurements):
        try:
            checked(m)
        except InputError as error:
            answers[i] = error
            continue
        key = (m.quantity, m.model if isinstance(m.model, str) else id(m.model), str(m.settings()), used(m))
        groups.setdefault(key, []).append(i)
    for rows in groups.values():
        for i, answer in zip(rows, _alike([measurements[i] for i in rows]), strict=True):
            answers[i] = answer
    return answers


def _alike(measurements: Sequence[MeasuredRun]) -> Iterable[Span | InputError]:
    """Of measurements that differ in sizes alone; one by one where they cannot all be predicted."""
    first = measurements[0]
    quantity = QUANTITIES[first.quantity]
    try:
        model = model_named(first.model) if isinstance(first.model, str) else first.model
        columns = {name: np.array([m.sizes()[name] for m in measurements]) for name in used(first)}
        sizes = columns if len(measurements) > 1 else {name: first.sizes()[name] for name in columns}
        span = quantity.predict(model, sizes, first.settings())
    except InputError as error:
        if len(measurements) == 1:
            return [error]
        return [answer for m in measurements for answer in _alike([m])]
    ends = [np.broadcast_to(end, (len(measurements),)) for end in span.ends()]
    return [Span(*(float(e[i]) for e in ends)) for i in range(len(measurements))]


def used(m: MeasuredRun) -> tuple[str, ...]:
    """The sizes that its prediction takes."""
    needs = QUANTITIES[m.quantity].needs
    return (*needs, "rate" if m.concurrency is None else "concurrency") if needs is SERVER else needs


def scored(span: Span, measured: float, fitted: str = "no", apart: float | None = None) -> Scored:
    """One row."""
    floor, expected, low, high = (np.array([float(end)]) for end in span.ends())
    return Scored(expected, np.array([measured]), floor, low, high, np.array([True]), "-", fitted, apart)
