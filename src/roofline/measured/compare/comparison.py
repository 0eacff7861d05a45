"""Compare a profile with the prediction, op by op: measured and expected times, and where time is lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.result import Figured, Result, Units
from roofline.inference.step import Estimate, OpTime
from roofline.measured.compare.kernels import ProfiledKernel
from roofline.measured.compare.match import matched_ops
from roofline.measured.compare.rules import attention_sizes, is_product
from roofline.work.step import Step, decode, prefill

MOST_UNMATCHED = 50
"""Number of unmatched kernel names that are listed, by time."""


@dataclass(frozen=True)
class ComparedOp(Figured):
    """An op, summed over its layers, in one step.

    `measured`: seconds of its `kernels` kernels. `expected`, `low`, `high`: prediction and its interval, seconds.
    `floor`: speed of light, seconds. `lost`: measured − floor. `reached`: measured FLOP/s, at `intensity`.
    """

    FIGURES: ClassVar[Units] = {
        "name": "", "kind": "", "block": "", "kernels": "", "measured": "s", "expected": "s", "low": "s", "high": "s",
        "floor": "s", "lost": "s", "inside": "", "bound": "", "intensity": "FLOP/B", "reached": "FLOP/s",
    }  # fmt: skip

    op: OpTime
    kernels: float
    measured: float

    @property
    def name(self) -> str:
        """Name of the op."""
        return self.op.name

    @property
    def kind(self) -> str:
        """Kind of the op."""
        return self.op.kind

    @property
    def block(self) -> str:
        """Block that contains the op."""
        return self.op.block

    @property
    def bound(self) -> str:
        """Resource that limits the op in the prediction."""
        return str(self.op.bound)

    @property
    def expected(self) -> float:
        """Seconds as predicted."""
        return float(self.op.expected)

    @property
    def low(self) -> float:
        """The short end of the interval."""
        return float(self.op.interval[0])

    @property
    def high(self) -> float:
        """The long end of the interval."""
        return float(self.op.interval[1])

    @property
    def floor(self) -> float:
        """The speed of light."""
        return float(self.op.floor)

    @property
    def lost(self) -> float:
        """Seconds beyond the speed of light."""
        return self.measured - self.floor

    @property
    def inside(self) -> bool:
        """Whether the measurement lies within the predicted interval."""
        return self.low <= self.measured <= self.high

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOPs per byte."""
        return float(self.op.cost.intensity)

    @property
    def reached(self) -> float | None:
        """Measured FLOP/s."""
        return float(self.op.cost.flops) / self.measured if self.measured else None


@dataclass(frozen=True)
class Unmatched(Figured):
    """Kernels of one name that match no op, over the whole profile."""

    FIGURES: ClassVar[Units] = {"name": "", "kernels": "", "measured": "s"}

    name: str
    kernels: int
    measured: float


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """A profile of `steps` steps and the prediction of one.

    `measured`: seconds of all kernels per step. `matched`: share of the profile's time that is matched to ops.
    """

    SCHEMA: ClassVar[str] = "roofline.comparison/1"
    FIGURES: ClassVar[Units] = {
        "model": "", "on": "", "step": "", "steps": "", "kernels": "", "measured": "s", "expected": "s", "low": "s",
        "high": "s", "floor": "s", "matched": "share", "ops": "", "unmatched": "",
    }  # fmt: skip

    predicted: Estimate
    step: str
    steps: int
    kernels: int
    total: float
    ops: tuple[ComparedOp, ...]
    unmatched: tuple[Unmatched, ...]

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.predicted.model.name

    @property
    def on(self) -> str:
        """Id of the chip."""
        return self.predicted.chip.id

    @property
    def measured(self) -> float:
        """Measured seconds per step, of matched and unmatched kernels."""
        return self.total / self.steps

    @property
    def expected(self) -> float:
        """Seconds as predicted."""
        return float(self.predicted.span.expected)

    @property
    def low(self) -> float:
        """The short end of the interval."""
        return float(self.predicted.span.low)

    @property
    def high(self) -> float:
        """The long end of the interval."""
        return float(self.predicted.span.high)

    @property
    def floor(self) -> float:
        """Speed of light of the step, seconds, with kernels one after another."""
        return float(self.predicted.span.floor)

    @property
    def matched(self) -> float:
        """Share of the profile's time that is matched to ops."""
        return sum(op.measured for op in self.ops) * self.steps / self.total if self.total else 0.0

    @property
    def worst(self) -> ComparedOp:
        """The op with the most time beyond its speed of light."""
        return max(self.ops, key=lambda op: op.lost)

    @property
    def worst_share(self) -> float:
        """Time lost by the worst op, as a share of the step's measured time."""
        return self.worst.lost / self.measured if self.measured else 0.0


def compared(predicted: Estimate, kernels: Sequence[ProfiledKernel]) -> Comparison:
    """Compare kernels of one or several equal steps with the prediction of one step.

    The number of steps is that of the head's products, else it follows from the kernels of attention.
    """
    ops = predicted.ops
    places = matched_ops(ops, kernels)
    seconds: defaultdict[int, float] = defaultdict(float)
    counts: defaultdict[int, int] = defaultdict(int)
    left: defaultdict[str, list[float]] = defaultdict(list)
    for kernel, place in zip(kernels, places, strict=True):
        if place is None:
            left[kernel.name or kernel.call].append(kernel.seconds)
        else:
            seconds[place] += kernel.seconds
            counts[place] += 1
    products = Counter(place for kernel, place in zip(kernels, places, strict=True) if is_product(kernel))
    steps = max(1, _steps_of(ops, products, counts))
    rows = tuple(ComparedOp(op, counts[i] / steps, seconds[i] / steps) for i, op in enumerate(ops))
    unmatched = sorted((Unmatched(n, len(s), sum(s)) for n, s in left.items()), key=lambda u: -u.measured)
    total = sum(k.seconds for k in kernels)
    return Comparison(
        predicted, _sizes(predicted.step), steps, len(kernels), total, rows, tuple(unmatched[:MOST_UNMATCHED])
    )


def _steps_of(ops: Sequence[OpTime], products: Mapping[int | None, int], counts: Mapping[int, int]) -> int:
    """Number of forward passes in a profile: head products, else attention kernels over attention layers."""
    heads = [products[i] for i, op in enumerate(ops) if op.block == "head" and op.kind == "matmul" and products[i]]
    if heads:
        return min(heads)
    per_layer = [counts[i] // op.layers for i, op in enumerate(ops) if op.kind == "attention" and counts[i]]
    return min(per_layer, default=1)


def step_of_kernels(kernels: Sequence[ProfiledKernel]) -> Step:
    """The step of a profile, from the shapes of its first attention.

    Raises InputError if no kernel has such shapes.
    """
    sizes = next(filter(None, map(attention_sizes, kernels)), None)
    if sizes is None:
        raise InputError("measured", "no shapes of attention", "`input` or `context`, which say the step")
    sequences, new, keys = sizes
    return decode(sequences, keys - 1) if new == 1 and keys > 1 else prefill(sequences, new, cached=max(0, keys - new))


def _sizes(step: Step) -> str:
    q = step.queries[0]
    return f"{q.count} × ({q.cached} cached, {q.new} new)"
