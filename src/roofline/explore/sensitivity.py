"""How a step's expected time answers to each knob: elasticities at the operating point, and swings over a range.

The elasticity is d log(time) / d log(knob), here between the knob's two ends: −1 where the time halves as the knob
doubles, 0 where it does not care. Knobs of deployment (batch, context, formats, chip) stand apart from those of the
architecture (experts per token, layers, feed-forward), which make another model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from roofline.estimates.latency import time_of
from roofline.estimates.place import Placed
from roofline.machine.engine import Engine
from roofline.model import modules as m
from roofline.model.model import Block, Model
from roofline.model.precision import Precision
from roofline.work.step import Step, decode, prefill

Phase: TypeAlias = Literal["prefill", "decode"]
Kind: TypeAlias = Literal["deployment", "architecture"]


@dataclass(frozen=True)
class Point:
    """Where the knobs are turned: a model, its place and formats, `batch` sequences of `context` tokens."""

    model: Model
    where: Placed
    precision: Precision
    batch: int
    context: int
    engine: str | Engine | None = None

    def time(self, phase: Phase) -> float:
        """Expected seconds of a prefill of the context, or of one token after it."""
        step: Step = prefill(self.batch, self.context) if phase == "prefill" else decode(self.batch, self.context)
        rank = self.where.rank(self.model)
        return float(time_of(rank, step, self.where, "calibrated", self.precision, self.engine).time)


@dataclass(frozen=True)
class Answer:
    """One knob: its range as a factor at either end, the time there over that at the point, and the elasticity."""

    knob: str
    kind: Kind
    phase: Phase
    low: float
    high: float
    at_low: float
    at_high: float

    @property
    def elasticity(self) -> float:
        """d log(time) / d log(knob)."""
        return math.log(self.at_high / self.at_low) / math.log(self.high / self.low)

    @property
    def swing(self) -> float:
        """How much the time moves over the range, of that at the point."""
        return abs(self.at_high - self.at_low)


def answers(p: Point) -> tuple[Answer, ...]:
    """Every knob's answer in either phase, the largest swing first."""
    found = []
    for phase in ("prefill", "decode"):
        here = p.time(phase)
        for knob, kind, ends in knobs(p):
            (low, one), (high, other) = ends
            found.append(Answer(knob, kind, phase, low, high, one.time(phase) / here, other.time(phase) / here))
    return tuple(sorted(found, key=lambda a: (a.phase != "prefill", -a.swing)))


Ends: TypeAlias = tuple[tuple[float, Point], tuple[float, Point]]


def knobs(p: Point) -> Iterator[tuple[str, Kind, Ends]]:
    """The knobs that a model on a chip has, each turned down and up."""

    def chip(field: str, factor: float) -> Point:
        made = replace(p.where.chip, **{field: factor * getattr(p.where.chip, field)})
        return replace(p, where=replace(p.where, chip=made))

    def peak(factor: float) -> Point:
        peaks = {f: factor * v for f, v in p.where.chip.peaks.items()}
        return replace(p, where=replace(p.where, chip=replace(p.where.chip, peaks=peaks)))

    def turned(make: Callable[[float], Point], low: float = 0.5, high: float = 2.0) -> Ends:
        return (low, make(low)), (high, make(high))

    if p.batch > 1:
        yield "batch", "deployment", turned(lambda f: replace(p, batch=round(f * p.batch)))
    if p.context > 1:
        yield "context", "deployment", turned(lambda f: replace(p, context=round(f * p.context)), 0.5, 1.0)
    yield "memory bandwidth", "deployment", turned(lambda f: chip("bandwidth", f))
    yield "peak", "deployment", turned(peak)
    if p.precision.ffn.bits >= 16:
        narrow = replace(p, precision=p.precision.merged({"weights": "int8"}))
        yield "bits of a weight", "deployment", ((0.5, narrow), (1.0, p))
    if p.precision.kv.bits >= 16:
        narrow = replace(p, precision=p.precision.merged({"kv": "fp8"}))
        yield "bits of the cache", "deployment", ((0.5, narrow), (1.0, p))
    layers = len(p.model.layers)
    if layers > 1:
        half = layers // 2
        fewer = replace(p, model=replace(p.model, layers=p.model.layers[:half]))
        yield "layers", "architecture", ((half / layers, fewer), (1.0, p))
    experts = [x for x, _ in p.model.modules() if isinstance(x, m.Experts)]
    if experts and experts[0].top_k and experts[0].top_k > 1:
        k = experts[0].top_k
        fewer = replace(p, model=_with_experts(p.model, k // 2))
        yield "experts per token", "architecture", ((k // 2 / k, fewer), (1.0, p))


def _with_experts(model: Model, top_k: int) -> Model:
    """The model with another number of experts per token."""

    def changed(x: m.Module) -> m.Module:
        return replace(x, top_k=top_k) if isinstance(x, m.Experts) else x

    made = {b: Block(b.name, tuple(changed(x) for x in b.modules)) for b, _ in model.blocks}
    return replace(model, layers=tuple(made[b] for b in model.layers))
