"""Two models, chips, formats or layouts side by side: every figure of both, and which ops the change comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from roofline.estimates.latency import Estimate, check_context, time_of
from roofline.estimates.place import placed
from roofline.layout.layout import Layout, layout_named
from roofline.layout.shard import ONE_CHIP
from roofline.model.errors import InputError, nearest
from roofline.model.load import load
from roofline.model.model import Model
from roofline.work.analysis import Analysis, analyze
from roofline.work.step import Step, decode, prefill

KEYS = ("on", "layout", "precision", "batch", "context", "prompt")


@dataclass(frozen=True)
class Side:
    """One of two: a model, and where and how it runs. Without a chip there are no times."""

    model: Model
    on: str | None = None
    layout: Layout = ONE_CHIP
    precision: str | None = None
    batch: int = 1
    context: int = 1024
    prompt: int = 1024

    def steps(self) -> tuple[tuple[str, Step], ...]:
        """A prefill and a decode."""
        return ("prefill", prefill(self.batch, self.prompt)), ("decode", decode(self.batch, self.context))

    @property
    def label(self) -> str:
        """The model, and the chip where there is one."""
        return self.model.name if self.on is None else f"{self.model.name} on {self.on}"


@dataclass(frozen=True)
class Change:
    """A figure of both sides. `ratio` is b over a, None where a is nothing."""

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
class Cause:
    """An op that only one side has, or that costs another share: what it adds to b − a, in the phase's `unit`."""

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
class Difference:
    """Everything that differs, and what it comes from; the largest causes of each phase first."""

    a: Side
    b: Side
    changes: tuple[Change, ...]
    causes: tuple[Cause, ...]


def side(spec: str) -> Side:
    """`MODEL`, `MODEL@CHIP`, or either with `:key=value,…` (on, layout, precision, batch, context, prompt).

    Values that hold commas stand in brackets: `:layout=[tp=8,sp],batch=32`. Raises InputError for an unknown key.
    """
    head, _, rest = spec.partition(":")
    name, _, chip = head.partition("@")
    given: dict[str, Any] = {"on": chip} if chip else {}
    for key, bracketed, plain in re.findall(r"([^=,]+)=(?:\[([^\]]*)\]|([^,]*))", rest):
        if key.strip() not in KEYS:
            raise InputError("spec", key, f"one of {', '.join(KEYS)}", nearest(key, KEYS))
        given[key.strip()] = bracketed or plain
    for key in ("batch", "context", "prompt"):
        if key in given:
            if not re.fullmatch(r"\d{1,9}", given[key]):
                raise InputError(key, given[key], "a whole number")
            given[key] = int(given[key])
    if "layout" in given:
        given["layout"] = layout_named(given["layout"])
    return Side(load(name), **given)


def differ(a: Side, b: Side, most: int = 3) -> Difference:
    """Both sides' figures for a prefill and a decode, and the ops that most of each phase's change comes from.

    In time where both have a chip, else in FLOPs.
    """
    changes = [
        Change("model", "parameters", "", a.model.parameters, b.model.parameters),
        Change("model", "active parameters", "", a.model.active_parameters, b.model.active_parameters),
        Change("model", "weights", "B", *(float(s.model.weight_bytes(_precision(s))) for s in (a, b))),
        Change("model", "KV cache per token", "B", *(float(s.model.kv_bytes(1, _precision(s))) for s in (a, b))),
    ]
    causes: list[Cause] = []
    for (phase, step), (_, other) in zip(a.steps(), b.steps(), strict=True):
        pair = _figures(a, step), _figures(b, other)
        for (name, unit, one), (_, _, two) in zip(pair[0][0], pair[1][0], strict=False):
            changes.append(Change(phase, name, unit, one, two))
        unit = "s" if a.on and b.on else "FLOP"
        costs = [times if unit == "s" else flops for _, times, flops in pair]
        names = dict.fromkeys([*costs[0], *costs[1]])
        found = [Cause(phase, op, costs[0].get(op, 0.0), costs[1].get(op, 0.0), unit) for op in names]
        causes += sorted((c for c in found if c.change), key=lambda c: -abs(c.change))[:most]
    return Difference(a, b, tuple(changes), tuple(causes))


def _precision(s: Side) -> Any:
    return s.model.precision.merged(s.precision)


Figures = tuple[list[tuple[str, str, float]], dict[str, float], dict[str, float]]


def _figures(s: Side, step: Step) -> Figures:
    """A step's figures, its time by op and its FLOPs by op."""
    if s.on is None:
        a = analyze(s.model, step, precision=s.precision)
        return _counted(a), {}, _by_op((c.name, float(c.flops)) for c in a.ops)
    check_context(s.model, step)
    where = placed(s.on, s.layout)
    e: Estimate = time_of(where.rank(s.model), step, where, precision=s.precision)
    timed = [
        ("time", "s", float(e.time)),
        ("speed of light", "s", float(e.serial_floor)),
        ("memory", "B", float(e.memory)),
    ]
    flops = _by_op((c.name, float(c.flops)) for c in e.analysis.ops)
    return [*_counted(e.analysis), *timed], _by_op((op.name, float(op.expected)) for op in e.ops), flops


def _counted(a: Analysis) -> list[tuple[str, str, float]]:
    return [
        ("FLOPs", "FLOP", float(a.flops)), ("bytes", "B", float(a.bytes)),
        ("intensity", "FLOP/B", float(a.intensity)),
    ]  # fmt: skip


def _by_op(pairs: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in pairs:
        found[name] = found.get(name, 0.0) + value
    return found
