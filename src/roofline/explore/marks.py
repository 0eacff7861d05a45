"""An estimate as the points of a roofline: ops, layers or the whole step, each with its work, time and floor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from roofline.estimates.latency import Estimate, OpTime
from roofline.machine.timing import MATRIX, matrix_format
from roofline.model.errors import not_one_of
from roofline.work.analysis import Analysis, ratio
from roofline.work.traffic import ELEMENTWISE

By: TypeAlias = Literal["ops", "layers", "phases"]
GROUPS: Mapping[str, str] = MappingProxyType({
    "matmul": "matmul", "experts": "experts", "attention": "attention", "indexer": "attention", "scan": "scan",
    "conv": "scan", "norm": "norm", "embedding": "embedding", "rope": "elementwise", "activation": "elementwise",
    "add": "elementwise", "gate": "elementwise", "route": "elementwise", "quantise": "elementwise",
    "loss": "elementwise",
    "communication": "communication", "optimizer": "optimizer",
})  # fmt: skip
"""Kind of op → the few groups that a picture can tell apart."""


@dataclass(frozen=True)
class Mark:
    """Work that is timed as one: `flops`, `bytes`, seconds `expected` and at the speed of light (`floor`).

    `floor` is that of these bytes, max(FLOPs / peak, bytes / bandwidth) of each op, so that it lies on the roof, and
    never longer than expected. `share`: of the step's expected time.
    """

    label: str
    group: str
    flops: float
    bytes: float
    expected: float
    floor: float
    share: float

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return float(ratio(self.flops, self.bytes))

    @property
    def performance(self) -> float:
        """FLOP/s to expect."""
        return float(ratio(self.flops, self.expected))

    @property
    def light(self) -> float:
        """FLOP/s at the speed of light."""
        return float(ratio(self.flops, self.floor))


def marks(estimate: Estimate, by: By = "ops") -> tuple[Mark, ...]:
    """The marks of a step: an op in all its layers, a layer of each distinct block, or the step as one.

    Ops are those that move bytes of their own: none that rides on its neighbour, in every engine or under this
    traffic. What has no FLOPs is no mark. The pass that quantises a product's activations counts with the product.
    Raises InputError for another `by`.
    """
    if by not in get_args(By):
        raise not_one_of("points", by, get_args(By))
    found: dict[Any, list[OpTime]] = {}
    for op in estimate.ops:
        if by != "ops" or _stands_alone(op, estimate):
            found.setdefault(_key(op, by), []).append(op)
    made = (_mark(ops, estimate, by) for ops in found.values())
    return tuple(mark for mark in made if mark.flops > 0 and mark.bytes > 0)


def _stands_alone(op: OpTime, estimate: Estimate) -> bool:
    work = op.cost.op
    fused = isinstance(work, ELEMENTWISE) and not estimate.analysis.traffic.unfused
    return not (work.rides or fused)


def _key(op: OpTime, by: By) -> object:
    if by == "ops":
        return id(op.cost)
    return op.cost.block if by == "layers" else ""


def _mark(ops: list[OpTime], estimate: Estimate, by: By) -> Mark:
    worked = [op for op in ops if op.kind != "quantise"]
    first = worked[0].cost
    label = {"ops": first.name, "layers": first.block, "phases": "step"}[by]
    flops, moved = (float(sum(v)) for v in ([op.cost.flops for op in worked], [op.cost.bytes for op in worked]))
    expected = float(sum(op.expected for op in ops))
    light = sum(max(op.cost.layers * op.each.compute, op.cost.bytes / estimate.chip.bandwidth) for op in worked)
    floor = min(float(light), expected)
    group = GROUPS[first.kind] if by == "ops" else label
    return Mark(label, group, flops, moved, expected, floor, expected / float(estimate.time))


def formats(estimates: Iterable[Estimate]) -> tuple[str, ...]:
    """The formats that the matrix products of these steps run in, in order of use."""
    used = (matrix_format(op.cost.op, e.target) for e in estimates for op in e.ops if isinstance(op.cost.op, MATRIX))
    return tuple(dict.fromkeys(used))


# -- shares --------------------------------------------------------------------------------------------------------
def shares(pairs: Iterable[tuple[str, float]]) -> Mapping[str, float]:
    """Kind of op and a quantity → share of each group in the sum, in the order of GROUPS."""
    sums = dict.fromkeys(GROUPS.values(), 0.0)
    for kind, value in pairs:
        sums[GROUPS[kind]] += float(value)
    total = sum(sums.values())
    return {group: value / total if total else 0.0 for group, value in sums.items()}


def work_shares(analysis: Analysis) -> Mapping[str, Mapping[str, float]]:
    """Shares of FLOPs and of bytes by group."""
    quantities: Mapping[str, Callable[[Any], float]] = {"FLOPs": lambda c: c.flops, "bytes": lambda c: c.bytes}
    return {name: shares((c.kind, of(c)) for c in analysis.ops) for name, of in quantities.items()}


def time_shares(estimate: Estimate) -> Mapping[str, float]:
    """Shares of the expected time by group."""
    return shares((op.kind, op.expected) for op in estimate.ops)
