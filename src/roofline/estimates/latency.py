"""The time of one step on one chip: speed of light, expected, interval, and what limits each op."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal, TypeAlias

from roofline.estimates.place import Place, Placed, placed
from roofline.machine.chip import Chip
from roofline.machine.engine import Engine, engine_named
from roofline.machine.timing import MATRIX, Mode, Target, Timing, matrix_format, mode_named, time_op, time_quantise
from roofline.model.errors import InputError
from roofline.model.maths import Count, most
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.work.analysis import Analysis, OpCost, analyze
from roofline.work.counting import Counting
from roofline.work.ops import Communicate
from roofline.work.step import Step
from roofline.work.traffic import Traffic

Bound: TypeAlias = Literal["compute", "memory", "network", "latency"]


@dataclass(frozen=True)
class OpTime:
    """One op in all the layers it stands in, in seconds. `kind` is the op's, or `quantise` for the pass before it."""

    cost: OpCost
    kind: str
    each: Timing
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.cost.name if self.kind != "quantise" else f"{self.cost.name}_quantise"

    def _all(self, value: Count) -> Count:
        return _shaped(self.cost.layers * value, self.shape)

    @property
    def expected(self) -> Count:
        """The time to expect."""
        return self._all(self.each.expected)

    @property
    def floor(self) -> Count:
        """Speed of light."""
        return self._all(self.each.floor)

    @property
    def interval(self) -> tuple[Count, Count]:
        """Where 80 % of measurements fall."""
        return self._all(self.each.low), self._all(self.each.high)

    @property
    def fixed(self) -> Count:
        """Seconds of launches in the expected time."""
        return self._all(self.each.fixed)

    @property
    def bound(self) -> Any:
        """`latency` where launches are more than half of the expected time, else what sets the floor."""
        return bound(self.each.compute, self.each.memory, self.each.fixed, self.each.expected, self.each.network)


def bound(compute: Count, memory: Count, fixed: Count, expected: Count, network: Count = 0.0) -> Any:
    """What limits an op: compute, memory, network or latency (launches and other fixed costs)."""
    import numpy

    limits = numpy.where(numpy.asarray(compute) >= memory, "compute", "memory")
    limits = numpy.where(numpy.asarray(network) > numpy.maximum(compute, memory), "network", limits)
    named = numpy.where(2 * numpy.asarray(fixed) > expected, "latency", limits)
    return str(named) if named.ndim == 0 else named


def _shaped(value: Count, shape: tuple[int, ...]) -> Count:
    import numpy

    return numpy.broadcast_to(value, shape) if shape else float(value)


@dataclass(frozen=True)
class Estimate:
    """A step on a chip. Times in seconds, with the shape of the step's arrays.

    `time`: kernels one after another (a server adds its host's share: see `generate` and `serve`). `floor`: perfect
    overlap, max(Σ compute, Σ memory) at full peak and bandwidth. `serial_floor`: Σ max(compute, memory), the speed of
    light of kernels that run one after another. `grade`: the worst of the ops that make up nine tenths of the time.
    """

    analysis: Analysis
    target: Target
    ops: tuple[OpTime, ...]

    @property
    def chip(self) -> Chip:
        """The chip."""
        return self.target.chip

    def _sum(self, values: Any) -> Count:
        total: Count = 0.0
        for value in values:
            total = total + value
        return _shaped(total, self.analysis.shape)

    @cached_property
    def time(self) -> Count:
        """Expected seconds."""
        return self._sum(op.expected for op in self.ops)

    @cached_property
    def compute_time(self) -> Count:
        """Seconds of arithmetic at full peak."""
        return self._sum(op.cost.layers * op.each.compute for op in self.ops)

    @cached_property
    def memory_time(self) -> Count:
        """Seconds of the least traffic at full bandwidth."""
        return self._sum(op.cost.layers * op.each.memory for op in self.ops)

    @cached_property
    def network_time(self) -> Count:
        """Seconds of the least bytes between chips at full bandwidth."""
        return self._sum(op.cost.layers * op.each.network for op in self.ops)

    @property
    def traffic_time(self) -> Count:
        """Seconds of the bytes counted, of whatever traffic, at full bandwidth."""
        return self.analysis.bytes / self.chip.bandwidth

    @cached_property
    def communication_time(self) -> Count:
        """Expected seconds of the collectives."""
        return self._sum(op.expected for op in self.ops if isinstance(op.cost.op, Communicate))

    def share(self, op: OpTime) -> Count:
        """The part of the expected time that an op takes."""
        return op.expected / self.time

    @cached_property
    def floor(self) -> Count:
        """Speed of light with perfect overlap."""
        import numpy

        on_chip = numpy.maximum(self.compute_time, self.memory_time)
        return _shaped(numpy.maximum(on_chip, self.network_time), self.analysis.shape)

    @cached_property
    def serial_floor(self) -> Count:
        """Speed of light of one op after another."""
        return self._sum(op.floor for op in self.ops)

    @cached_property
    def interval(self) -> tuple[Count, Count]:
        """Sums of the ops' bounds: as wide as if their errors went together."""
        return self._sum(op.interval[0] for op in self.ops), self._sum(op.interval[1] for op in self.ops)

    @cached_property
    def bound(self) -> Any:
        """What limits the step as a whole."""
        return bound(
            self.compute_time, self.memory_time, self._sum(op.fixed for op in self.ops), self.time, self.network_time
        )

    @property
    def tokens_per_second(self) -> Count:
        """New tokens of the step, which is one replica's, over its expected seconds."""
        return self.analysis.step.new_tokens / self.time

    @cached_property
    def mfu(self) -> Count:
        """FLOPs over the expected time at the peak of the format that most of the matrix products' FLOPs run in."""
        import numpy

        sums: dict[str, float] = {}
        for op in (op for op in self.ops if isinstance(op.cost.op, MATRIX)):
            fmt = matrix_format(op.cost.op, self.target)
            sums[fmt] = sums.get(fmt, 0.0) + float(numpy.sum(op.cost.flops))
        peak = self.chip.peak(max(sums, key=lambda fmt: sums[fmt])) if sums else max(self.chip.peaks.values())
        return self.analysis.flops / (peak * self.time)

    @cached_property
    def memory(self) -> Count:
        """Bytes that have to be there: weights, KV cache and state after the step, of the fullest rank."""
        return self.analysis.shaped(held_bytes(self.analysis.model, self.analysis.precision, self.analysis.step))

    @cached_property
    def grade(self) -> str:
        """How well the constants are known: A this chip, B its generation, C others."""
        import numpy

        ranked = sorted(self.ops, key=lambda op: -float(numpy.max(op.expected)))
        total, seen, worst = sum(float(numpy.max(op.expected)) for op in ranked), 0.0, "-"
        for op in ranked:
            worst = max(worst, op.each.grade)
            seen += float(numpy.max(op.expected))
            if seen >= 0.9 * total:
                break
        return worst

    @cached_property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """Where the time goes: kind of op and its share of the expected time (over all elements), largest first."""
        import numpy

        sums: dict[str, float] = {}
        for op in self.ops:
            sums[op.kind] = sums.get(op.kind, 0.0) + float(numpy.sum(op.expected))
        total = sum(sums.values())
        return tuple((kind, value / total) for kind, value in sorted(sums.items(), key=lambda item: -item[1]))

    @property
    def launches(self) -> int:
        """Kernels launched in a step."""
        return sum(op.cost.layers for op in self.ops if not op.cost.op.rides)


def held_bytes(model: Model, precision: Precision, step: Step) -> Count:
    """Weights, KV cache and state of all the step's sequences after it, on the fullest of the ranks of a pass."""

    def of(rank: Model) -> Count:
        cache = step.total(lambda q: rank.kv_elements(q.cached + q.new))
        state = step.sequences * rank.state_bytes(precision)
        return rank.weight_bytes(precision) + precision.kv.bytes(cache) + state

    return reduce(most, map(of, model.resident))


def estimate_step(
    model: Model,
    step: Step,
    *,
    on: Place,
    layout: object = None,
    law: str | Mode = "calibrated",
    precision: object = None,
    engine: str | Engine | None = None,
    counting: str | Counting = "standard",
    traffic: str | Traffic = "fused",
    within: bool = True,
) -> Estimate:
    """How long `step` takes on a chip, or on the ranks of a layout.

    `on`: a chip of the catalog, a chip file, figures (`peak=1000T,bw=4.8T,mem=141G`), or a cluster. `layout`: degrees
    such as `tp=8` or a Layout; `step` is then that of one data-parallel replica. `law`: calibrated, ideal or
    fixed(mfu,mbu). `within`: check the step against the model's context. `engine`: whose kernels (vllm, trtllm,
    sglang), where they were measured; its host's time is not part of a step (see `generate`). Arrays broadcast.
    Raises InputError where the chip lacks a format that the precision needs, or the step is longer than the context.
    """
    where = placed(on, layout)
    if within:
        check_context(model, step)
    held = where.rank(model)
    return time_of(held, step, where, law, precision, engine, counting, traffic)


def time_of(
    rank: Model, step: Step, where: Placed, law: str | Mode = "calibrated", precision: object = None,
    engine: str | Engine | None = None, counting: str | Counting = "standard", traffic: str | Traffic = "fused",
) -> Estimate:  # fmt: skip
    """The estimate of a step of what one rank of a layout holds."""
    analysis = analyze(rank, step, counting=counting, traffic=traffic, precision=precision)
    target = Target(where.chip, analysis.precision, engine_named(engine), mode_named(law), where.cluster)
    times: list[OpTime] = []
    shape = analysis.shape
    for cost in analysis.ops:
        before = time_quantise(cost.op, target)
        if before is not None:
            times.append(OpTime(cost, "quantise", before, shape))
        times.append(OpTime(cost, cost.kind, time_op(cost.op, target), shape))
    return Estimate(analysis, target, tuple(times))


def check_context(model: Model, step: Step) -> None:
    """An InputError where a query gets longer than the model's context."""
    if model.context is not None and step.longest > model.context:
        raise InputError("context", step.longest, f"at most {model.context} tokens, the context of {model.name}")
