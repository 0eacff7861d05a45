"""The points of a roofline plot: ops, layers or a whole step, each with its work, time and floor."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from roofline.declared.errors import not_one_of
from roofline.declared.numbers.maths import Count
from roofline.hardware.chip import Chip
from roofline.inference.step import Estimate, OpTime
from roofline.kernels.kernels import is_matrix, matrix_format
from roofline.kernels.memories import memory_seconds
from roofline.kernels.power import Busy, draw_of
from roofline.model.kind_table import KindTable
from roofline.work import ops as o
from roofline.work.analysis import Analysis, OpCost, quotient
from roofline.work.traffic import FUSED, with_neighbours

By: TypeAlias = Literal["ops", "layers", "phases"]
GROUPS: KindTable[str] = KindTable("groups of a picture", o.Op, without=(o.Backward,))
"""Kind of op → one of the few groups that a plot distinguishes."""
for _group, _kinds in (
    ("matmul", (o.MatMul,)), ("experts", (o.ExpertMatMul,)), ("attention", (o.Attend, o.Score)),
    ("scan", (o.Convolve, o.Selective, o.Dual, o.Delta, o.LinearAttend, o.Recur, o.Memorise)), ("norm", (o.Normalise,)),
    ("embedding", (o.Lookup,)), ("elementwise", (o.Rotate, o.Activate, o.Sum, o.Scale, o.Choose, o.Shift, o.Loss)),
    ("communication", (o.Communicate,)), ("optimizer", (o.Update,)),
):  # fmt: skip
    GROUPS.add(_group, *_kinds)


def group_of(op: o.Op, kind: str) -> str:
    """The group of an op; a gradient belongs to the group of its forward op, quantisation to `elementwise`."""
    return "elementwise" if kind == "quantise" else GROUPS[type(op.origin)]


def group_names() -> tuple[str, ...]:
    """The groups, in the order of plots."""
    return tuple(dict.fromkeys(GROUPS[kind] for kind in GROUPS))


@dataclass(frozen=True)
class Point:
    """Work timed as one: `flops`, `bytes`, `expected` seconds, and seconds at the speed of light (`floor`).

    `floor` is the sum over ops of max(FLOPs / peak, bytes / bandwidth), so that the point lies on the roof, and at most
    the expected time. `share`: of the step's expected time.
    """

    label: str
    group: str
    flops: float
    bytes: float
    expected: float
    floor: float
    share: float
    joules: float | None = None
    light_joules: float | None = None
    """Joules of one board that does this alone, expected and at the speed of light; None where its power is unknown."""

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return float(quotient(self.flops, self.bytes))

    @property
    def performance(self) -> float:
        """Expected FLOP/s."""
        return float(quotient(self.flops, self.expected))

    @property
    def light(self) -> float:
        """FLOP/s at the floor time, the speed of light."""
        return float(quotient(self.flops, self.floor))

    @property
    def work_per_joule(self) -> float | None:
        """Expected FLOP per joule."""
        return None if self.joules is None else float(quotient(self.flops, self.joules))

    @property
    def light_per_joule(self) -> float | None:
        """FLOP per joule at the speed of light."""
        return None if self.light_joules is None else float(quotient(self.flops, self.light_joules))


def points(estimate: Estimate, by: By = "ops") -> tuple[Point, ...]:
    """The points of a step: an op over all its layers, a layer of each distinct block, or the whole step.

    Points by op leave out ops that are fused with a neighbour, in every engine or under this traffic. Work without
    FLOPs has no point. Quantisation of a matmul's activations counts with the matmul. Raises InputError for another
    `by`.
    """
    if by not in get_args(By):
        raise not_one_of("points", by, get_args(By))
    together: dict[Hashable, list[OpTime]] = {}
    for op in estimate.ops:
        if by != "ops" or _stands_alone(op, estimate):
            together.setdefault(_key(op, by), []).append(op)
    every = (_point(ops, estimate, by) for ops in together.values())
    return tuple(point for point in every if point.flops > 0 and point.bytes > 0)


def _stands_alone(op: OpTime, estimate: Estimate) -> bool:
    work = op.cost.op
    fused = FUSED.rules[type(work)] is with_neighbours and not estimate.analysis.traffic.unfused
    return not (work.rides or fused)


def _key(op: OpTime, by: By) -> Hashable:
    if by == "ops":
        return id(op.cost)
    return op.cost.block if by == "layers" else ""


def _point(ops: list[OpTime], estimate: Estimate, by: By) -> Point:
    worked = [op for op in ops if op.kind != "quantise"]
    first = worked[0].cost
    label = {"ops": first.name, "layers": first.block, "phases": "step"}[by]
    flops, moved = (float(sum(v)) for v in ([op.cost.flops for op in worked], [op.cost.bytes for op in worked]))
    expected = float(sum(op.expected for op in ops))
    light = sum(max(op.cost.layers * op.each.compute, _moving(op, estimate.chip)) for op in worked)
    floor = min(float(light), expected)
    group = group_of(first.op, first.kind) if by == "ops" else label
    draw, busy = draw_of(estimate.chip), sum((op.busy for op in ops), Busy())
    joules = [None if draw is None else float(draw.joules(t, replace(busy, running=t))) for t in (expected, floor)]
    return Point(label, group, flops, moved, expected, floor, expected / float(estimate.time), *joules)


def _moving(op: OpTime, chip: Chip) -> Count:
    """Seconds of an op's counted bytes at full bandwidth, in all its layers."""
    if not chip.placement:
        return op.cost.bytes / chip.bandwidth
    return op.cost.layers * memory_seconds(op.cost.op, op.cost.each_moved, chip)


def formats(estimates: Iterable[Estimate]) -> tuple[str, ...]:
    """The formats of the matrix products of these steps, in order of use."""
    used = (matrix_format(op.cost.op, e.target) for e in estimates for op in e.ops if is_matrix(op.cost.op))
    return tuple(dict.fromkeys(used))


# -- shares --------------------------------------------------------------------------------------------------------
def shares(pairs: Iterable[tuple[str, Count]]) -> Mapping[str, float]:
    """Share of each group in the sum of (group, quantity) pairs, in the order of GROUPS."""
    sums = dict.fromkeys(group_names(), 0.0)
    for group, value in pairs:
        sums[group] = sums.get(group, 0.0) + float(value)
    total = sum(sums.values())
    return {group: value / total if total else 0.0 for group, value in sums.items()}


def work_shares(analysis: Analysis) -> Mapping[str, Mapping[str, float]]:
    """Shares of FLOPs and of bytes by group."""
    quantities: Mapping[str, Callable[[OpCost], Count]] = {"FLOPs": lambda c: c.flops, "bytes": lambda c: c.bytes}
    return {name: shares((group_of(c.op, c.kind), of(c)) for c in analysis.ops) for name, of in quantities.items()}


def time_shares(estimate: Estimate) -> Mapping[str, float]:
    """Shares of the expected time by group."""
    return shares((group_of(op.cost.op, op.kind), op.expected) for op in estimate.ops)
