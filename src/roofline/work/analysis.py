"""Analysis of a model at a step under counting and traffic conventions: FLOPs, bytes, intensity, per op and in
total."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

from roofline.declared.errors import InputError, nearest
from roofline.declared.groups import CountingText, PrecisionText, TrafficText
from roofline.declared.numbers.arrays import np
from roofline.declared.numbers.maths import Count, is_array
from roofline.declared.question import question
from roofline.declared.result import Figured, Result, Units
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, model_of
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.work.counting import Counting, counting_named
from roofline.work.lower import fed, seeing
from roofline.work.ops import Op
from roofline.work.step import Queries, Step
from roofline.work.traffic import Moved, Traffic, traffic_named
from roofline.work.training import Training, step_ops

EXACT = 2**62
"""Sweeps whose largest figure is below this run in exact 64-bit integers, larger ones in float64."""
PIECE = 2**14
"""Elements of a sweep evaluated at a time: arrays of this size fit a core's own cache."""


@dataclass(frozen=True)
class OpCost(Figured):
    """One op over all layers that contain it. `flops` and `bytes` cover all those layers, `each_…` one of them."""

    FIGURES: ClassVar[Units] = {
        "name": "", "kind": "", "block": "", "layers": "", "flops": "FLOP", "flops_per_layer": "FLOP", "bytes": "B",
        "bytes_by_role": "B", "intensity": "FLOP/B",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"flops_per_layer": "each_flops", "bytes_by_role": "moved"}

    block: str
    layers: int
    op: Op
    analysis: Analysis

    @property
    def name(self) -> str:
        """Name of the op, after its module."""
        return self.op.name

    @property
    def kind(self) -> str:
        """Kind of the op: matmul, attention, norm, …"""
        return self.op.kind

    @property
    def each_flops(self) -> Count:
        """FLOPs in one layer."""
        return self.analysis.counting.flops(self.op)

    @property
    def each_moved(self) -> Moved:
        """Bytes by role in one layer."""
        return self.analysis.traffic.bytes(self.op, self.analysis.precision)

    @property
    def flops(self) -> Count:
        """FLOPs in all its layers."""
        return self.analysis.shaped(self.layers * self.each_flops)

    @property
    def moved(self) -> Moved:
        """Bytes by role in all its layers."""
        each = self.each_moved
        return Moved(*(self.analysis.shaped(self.layers * getattr(each, f.name)) for f in fields(Moved)))

    @property
    def bytes(self) -> Count:
        """Bytes in all its layers."""
        return self.analysis.shaped(self.layers * self.each_moved.total)

    @property
    def intensity(self) -> Count:
        """FLOPs per byte."""
        return quotient(self.flops, self.bytes)


@dataclass(frozen=True, repr=False)
class Analysis(Result):
    """The cost of a model's step under a counting, a traffic convention and a precision.

    Every figure has the broadcast shape of the step's arrays: a plain int or float where it has none.
    """

    SCHEMA: ClassVar[str] = "roofline.analysis/2"
    FIGURES: ClassVar[Units] = {
        "model": "", "layout": "", "formats": "", "queries": "", "logits": "", "counting": "", "traffic": "",
        "flops": "FLOP", "bytes": "B", "bytes_by_role": "B", "intensity": "FLOP/B", "ops": "",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"formats": "precision", "bytes_by_role": "moved"}

    model: Model
    step: Step
    counting: Counting
    traffic: Traffic
    precision: Precision

    @property
    def layout(self) -> str:
        """The layout whose rank is analysed, as text."""
        return self.model.layout_text or "one chip"

    @property
    def queries(self) -> tuple[Queries, ...]:
        """The kinds of query of the step."""
        return self.step.queries

    @property
    def logits(self) -> str:
        """The tokens that the head runs for: last or all."""
        return self.step.logits

    @cached_property
    def ops(self) -> tuple[OpCost, ...]:
        """The ops in order: towers, embedding, the blocks' (once for each distinct block), head."""
        model, step = self.model, self.step
        rows = [OpCost(b.name, n, op, self) for b, n in model.blocks for op in step_ops(b.modules, step)]
        if self.counting.layers_only or self.traffic.layers_only:
            return tuple(rows)
        towers = [(f"{t.name} {b.name}", n, op) for t in model.towers for b, n in t.blocks for op in
                  step_ops(b.modules, step)]  # fmt: skip
        before = [OpCost(name, n, op, self) for name, n, op in towers]
        before += [OpCost("embedding", 1, op, self) for op in step_ops(model.embedding, step, whole=False)]
        after = [OpCost("head", 1, op, self) for op in step_ops(model.head, step, whole=False)]
        return (*before, *rows, *after)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of the step's arrays and of the layout's."""
        if not self.model.shape:
            return self.step.shape
        return np.broadcast_shapes(self.step.shape, self.model.shape)

    def shaped(self, value: Count) -> Count:
        """A figure broadcast to the analysis's shape."""
        if not self.shape:
            return value
        return np.broadcast_to(value, self.shape)

    def _total(self, each: Callable[[OpCost], Count]) -> Count:
        """Σ over ops of layers · each(op). Large sweeps run in pieces that fit the processor's cache."""
        if self.model.shape or self.step.points <= PIECE:
            total: Count = 0
            for row in self.ops:
                total = total + row.layers * each(row)
            return self.shaped(total)
        pieces = [replace(self, step=step)._total(each) for step in self.step.blocks(PIECE)]
        return np.concatenate(pieces).reshape(self.step.shape)

    @cached_property
    def flops(self) -> Count:
        """FLOPs of the step."""
        return self._total(lambda row: row.each_flops)

    @cached_property
    def bytes(self) -> Count:
        """Bytes that cross memory in the step."""
        return self._total(lambda row: row.each_moved.total)

    @cached_property
    def moved(self) -> Moved:
        """Bytes by role."""
        return Moved(*(self._total(lambda row, f=f: getattr(row.each_moved, f.name)) for f in fields(Moved)))  # type: ignore[misc]

    @cached_property
    def intensity(self) -> Count:
        """Arithmetic intensity: FLOPs per byte."""
        return quotient(self.flops, self.bytes)

    @cached_property
    def below_floor(self) -> Count | None:
        """Bytes relative to the least that must move (`floor`), where traffic factors bring any below it; else None."""
        if self.traffic.factors is None:
            return None
        least = replace(self, traffic=traffic_named("floor")).bytes
        share = quotient(self.bytes, least)
        below = share.min() if is_array(share) else share
        return share if below < 1 else None

    def op(self, name: str) -> OpCost:
        """The first op of that name, or an InputError with the nearest."""
        for row in self.ops:
            if row.name == name:
                return row
        names = list(dict.fromkeys(row.name for row in self.ops))
        raise InputError("op", name, "an op of this model", nearest(name, names) or names)


@question()
def analyze(
    model: Model | Source,
    step: Step,
    *,
    counting: CountingText = "standard",
    traffic: TrafficText = "fused",
    precision: PrecisionText = None,
    images: Images | None = None,
) -> Analysis:
    """The cost of `step` on `model`: a Model, its name, path or config.

    `counting`: standard, torch, original or llm-para. `traffic`: fused, unfused, floor, original or llm-para,
    optionally with factors (`fused(weights=0.5)`). `precision`: the checkpoint's, or changes to it (`"fp8"`,
    `"weights=int4,kv=fp8"`, a mapping of roles, a Precision). `images`: in every prompt that the step begins; a vision
    tower encodes them. Ints give exact ints. Arrays broadcast, and every figure has their shape. Expected numbers of
    distinct experts are floats. Raises InputError for invalid arguments.
    """
    built = model_of(model).hearing(images)
    how, what = counting_named(counting), traffic_named(traffic)
    base = step.precision if isinstance(step, Training) else built.precision
    built, formats = formats_of(built, precision, base)
    step = fed(built, seeing(built, step, images))
    if how.all_logits:
        step = step.with_logits("all")
    if step.shape and not _fits(Analysis(built, step.largest(), how, what, formats)):
        step = step.as_floats()
    return Analysis(built, step, how, what, formats)


def _fits(largest: Analysis) -> bool:
    """Whether 64-bit integers can hold every figure of a sweep, given the analysis of its largest step."""
    flops, moved = (v.max() if is_array(v) else v for v in (largest.flops, largest.bytes))
    return bool(max(float(flops), 2.0**16 * float(moved)) < EXACT)


def quotient(flops: Count, moved: Count) -> Count:
    """flops / bytes; infinite where nothing moves but work is done, 0 where neither."""
    if is_array(flops) or is_array(moved):
        flops, moved = np.asarray(flops), np.asarray(moved)
        empty = np.where(flops > 0, np.inf, 0.0)
        return np.divide(flops, moved, out=empty, where=moved > 0)
    if moved == 0:
        return float("inf") if flops else 0.0
    return flops / moved
