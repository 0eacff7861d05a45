"""The time of one inference step: speed of light, expected time, interval, memory, and what limits each op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from roofline.declared.checks import flag
from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, is_array, least, most
from roofline.declared.result import Figured, Flag, Units, Word
from roofline.hardware.tiers import MAIN
from roofline.inference.cost.busy import busy_of, ranks_of, shared
from roofline.inference.cost.cost import Cost, Spending, Spent, tariff
from roofline.inference.memory.memory import Memory
from roofline.inference.plan import Plan, Total, grade_of
from roofline.inference.settings import Deployed, Setup, broadcast
from roofline.inference.span import Span, shaped
from roofline.kernels.kernels import is_matrix, matrix_format
from roofline.kernels.memories import bytes_by_memory, memory_seconds
from roofline.kernels.power import Busy
from roofline.kernels.target import Target
from roofline.kernels.timing import Timing, time_op, time_quantise
from roofline.model.model import Model
from roofline.work import ops as o
from roofline.work.analysis import Analysis, OpCost, analyze
from roofline.work.counting import Counting, counting_named
from roofline.work.lower import lower
from roofline.work.step import Step, decode
from roofline.work.traffic import Traffic, traffic_named

Bound: TypeAlias = Literal["compute", "memory", "network", "latency"]
UNLIMITED = 1e30
"""Watts of a board without a limit: finite, so that an op that takes no time has no joules."""


@dataclass(frozen=True)
class MemoryTraffic(Figured):
    """Bytes that a step reads and writes in one of a chip's memories, and their time at its full bandwidth."""

    FIGURES: ClassVar[Units] = {"name": "", "bandwidth": "B/s", "bytes": "B", "seconds": "s"}

    name: str
    bandwidth: float
    bytes: Count

    @property
    def seconds(self) -> Count:
        """Seconds at full bandwidth."""
        return self.bytes / self.bandwidth


@dataclass(frozen=True)
class OpTime(Figured):
    """The time of one op in all layers that have it, in seconds.

    `kind`: the op's, or `quantise` for the pass before it.
    """

    FIGURES: ClassVar[Units] = {
        "name": "", "kind": "", "block": "", "layers": "", "time": "s", "joules": "J", "bound": "", "grade": "",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"time": "span"}

    cost: OpCost
    kind: str
    each: Timing
    shape: tuple[int, ...]
    carried: Count = 0.0
    """Seconds at full bandwidth of the bytes that the traffic counts, in one layer; 0 where the law is the floor."""
    joules: Count | None = None
    """Joules of one chip, a part of its step's; None where power is unknown."""

    @property
    def busy(self) -> Busy:
        """Seconds of each unit in all layers."""
        return busy_of(self.each).times(self.cost.layers)

    @property
    def name(self) -> str:
        """Name of the op; that of the pass before it ends in `_quantise`."""
        return self.cost.name if self.kind != "quantise" else f"{self.cost.name}_quantise"

    @property
    def block(self) -> str:
        """Block of the model that the op belongs to."""
        return self.cost.block

    @property
    def layers(self) -> int:
        """Number of layers with the op."""
        return self.cost.layers

    @property
    def grade(self) -> Word:
        """How well the constants are known."""
        return self.each.grade

    def _all(self, value: Count) -> Count:
        return shaped(self.cost.layers * value, self.shape)

    @property
    def span(self) -> Span:
        """Expected time, speed of light and interval."""
        return Span(self.floor, self.expected, *self.interval)

    @property
    def expected(self) -> Count:
        """Expected seconds."""
        return self._all(self.each.expected)

    @property
    def floor(self) -> Count:
        """Seconds at the speed of light."""
        return self._all(self.each.floor)

    @property
    def interval(self) -> tuple[Count, Count]:
        """Interval in which 80 % of measurements fall."""
        return self._all(self.each.low), self._all(self.each.high)

    @property
    def fixed(self) -> Count:
        """Seconds of kernel launches in the expected time."""
        return self._all(self.each.fixed)

    @property
    def bound(self) -> Word:
        """What limits the op: `latency`, `compute`, `memory` or `network`.

        `latency` where launches are more than half of the expected time, else the longest of arithmetic, the bytes that
        the traffic counts, and the bytes between chips. So an addition at 0.5 FLOP/B is bound by memory, although its
        floor, which counts no activations, is arithmetic alone.
        """
        memory = most(self.each.memory, self.carried)
        return bound(self.each.compute, memory, self.each.fixed, self.each.expected, self.each.network)


def bound(compute: Count, memory: Count, fixed: Count, expected: Count, network: Count = 0.0) -> str | Array:
    """What limits an op: compute, memory, network or latency (launches and other fixed costs)."""
    if not any(is_array(v) for v in (compute, memory, fixed, expected, network)):
        if 2 * fixed > expected:
            return "latency"
        return "network" if network > max(compute, memory) else "compute" if compute >= memory else "memory"
    limits = np.where(compute >= memory, 0, 1)
    limits = np.where(network > np.maximum(compute, memory), 2, limits)
    named = _BOUNDS[np.where(2 * fixed > expected, 3, limits)]
    return str(named) if named.ndim == 0 else named


_BOUNDS = np.array(["compute", "memory", "network", "latency"])


STEP_BILLED: Units = {name: unit for name, unit in Spent.BILLED.items() if name[-5:] not in ("input", "utput")}
"""Cost figures of a step, without those per input and output token: a step belongs to no single request."""


@dataclass(frozen=True, repr=False)
class Estimate(Spent, Deployed):
    """One step on a deployment. Times are in seconds: numbers, or arrays of the step's and the layout's shape.

    `step`: that of all replicas together; the share of the busiest replica is timed. `time`: kernels one after another;
    a server adds the time of its host (see `generate` and `serve`). `floor`: perfect overlap, max(Σ compute, Σ memory)
    at full peak and bandwidth. `serial_floor`: Σ max(compute, memory), the speed of light of kernels that run one after
    another, and the floor of `span`. `grade`: the worst grade needed to account for nine tenths of the time.
    """

    SCHEMA: ClassVar[str] = "roofline.estimate/3"
    FIGURES: ClassVar[Units] = {
        **Deployed.PLACE, "batch": "", "batch_per_replica": "",
        "idle_replicas": "", "flops": "FLOP", "bytes": "B", "intensity": "FLOP/B", "time": "s", "overlap_floor": "s",
        "compute_time": "s", "memory_time": "s", "network_time": "s", "communication_time": "s", "bound": "",
        "memory": "B", "mfu": "share", "tokens_per_second": "tokens/s", **STEP_BILLED, "grade": "", "ops": "",
        "memory_traffic": "",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"time": "span", "overlap_floor": "floor"}

    asked: Setup
    step: Step
    counting: str | Counting = "standard"
    traffic: str | Traffic = "fused"
    stage_plan: Plan | None = None
    """The plan of one pipeline stage, where the step is already that of one replica."""

    # -- what and where --------------------------------------------------------------------------------------------
    @property
    def plan(self) -> Plan:
        """The plan of what one rank holds."""
        return self.asked.plan if self.stage_plan is None else self.stage_plan

    @property
    def target(self) -> Target:
        """The chip, formats, engine and law that ops are timed with."""
        return self.plan.target

    @cached_property
    def share(self) -> Step:
        """The busiest replica's share of the step."""
        return self.step if self.stage_plan is not None else self.step.of_replica(self.deployment.layout.dp)

    @property
    def batch(self) -> Count:
        """Sequences of all replicas together."""
        return self.step.sequences

    @property
    def batch_per_replica(self) -> Count:
        """Sequences of the busiest replica."""
        return self.share.sequences

    @property
    def idle_replicas(self) -> Count:
        """Replicas with fewer sequences than the busiest."""
        return self.deployment.idle(self.batch)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of the step and the layout."""
        return np.broadcast_shapes(self.step.shape, self.deployment.layout.shape)

    @cached_property
    def analysis(self) -> Analysis:
        """The work of the busiest replica's share, op by op."""
        rank, formats = self.plan.rank, self.asked.formats
        how = {"counting": self.counting, "traffic": self.traffic, "precision": formats}
        own: Analysis = analyze(rank, self.share, **how)
        return own

    @property
    def flops(self) -> Count:
        """FLOPs of one rank."""
        return self.analysis.flops

    @property
    def bytes(self) -> Count:
        """Bytes that cross the memory of one chip."""
        return self.analysis.bytes

    @property
    def intensity(self) -> Count:
        """Arithmetic intensity: FLOPs per byte."""
        return self.analysis.intensity

    # -- time ------------------------------------------------------------------------------------------------------
    @cached_property
    def total(self) -> Total:
        """Sums over the ops."""
        return self.plan.total(self.share)

    def _shaped(self, value: Count) -> Count:
        return shaped(value, self.shape)

    @cached_property
    def span(self) -> Span:
        """Kernels one after another, in seconds: expected, sum of the ops' floors, and interval of whole models."""
        t = self.total
        return Span(t.floor, t.expected, t.low, t.high).wider(self.plan.unexplained).shaped(self.shape)

    @property
    def time(self) -> Count:
        """Expected seconds."""
        return self.span.expected

    @property
    def interval(self) -> tuple[Count, Count]:
        """Interval in which 80 % of measurements fall: independent errors add in quadrature, common ones linearly."""
        return self.span.interval

    @property
    def serial_floor(self) -> Count:
        """Speed of light of ops that run one after another."""
        return self.span.floor

    @property
    def compute_time(self) -> Count:
        """Seconds of arithmetic at full peak."""
        return self._shaped(self.total.compute)

    @property
    def memory_time(self) -> Count:
        """Seconds of the least memory traffic at full bandwidth."""
        return self._shaped(self.total.memory)

    @property
    def network_time(self) -> Count:
        """Seconds of the least traffic between chips at full bandwidth."""
        return self._shaped(self.total.network)

    @property
    def communication_time(self) -> Count:
        """Expected seconds of the collectives."""
        return self._shaped(self.total.communication)

    @property
    def traffic_time(self) -> Count:
        """Seconds of the counted bytes, by the chosen traffic, at full bandwidth."""
        if not self.chip.placement:
            return self.analysis.bytes / self.chip.bandwidth
        each = (op.layers * memory_seconds(op.op, op.each_moved, self.chip) for op in self.analysis.ops)
        return self._shaped(sum(each, start=0.0))

    @cached_property
    def memory_traffic(self) -> tuple[MemoryTraffic, ...]:
        """The counted bytes by the memory of the chip that they are in; empty for a chip with one memory."""
        amounts: dict[str, Count] = dict.fromkeys((MAIN, *(tier.name for tier in self.chip.tiers)), 0)
        for op in self.analysis.ops if self.chip.tiers else ():
            for tier, amount in bytes_by_memory(op.op, op.each_moved, self.chip).items():
                name = MAIN if tier is None else tier.name
                amounts[name] = amounts[name] + op.layers * amount
        speeds = {MAIN: self.chip.bandwidth, **{tier.name: tier.bandwidth for tier in self.chip.tiers}}
        if not self.chip.tiers:
            return ()
        return tuple(MemoryTraffic(name, speeds[name], self._shaped(amount)) for name, amount in amounts.items())

    @property
    def floor(self) -> Count:
        """Speed of light with perfect overlap."""
        return self._shaped(most(most(self.total.compute, self.total.memory), self.total.network))

    @cached_property
    def bound(self) -> Word:
        """What limits the step as a whole."""
        t = self.total
        limits = bound(t.compute, t.memory, t.fixed, t.expected, t.network)
        return np.broadcast_to(limits, self.shape) if self.shape else limits

    @cached_property
    def grade(self) -> Word:
        """How well the constants are known: A measured on this chip, B on its generation, C on others."""
        grade = grade_of(self.total.graded, self.total.expected)
        return np.broadcast_to(grade, self.shape) if self.shape else grade

    # -- rates -----------------------------------------------------------------------------------------------------
    @property
    def tokens_per_second(self) -> Count:
        """New tokens of the step, of all replicas, per expected second."""
        return self.step.new_tokens / self.time

    @cached_property
    def spending(self) -> Spending:
        """The cost of the step, per new token; replicas without sequences idle."""
        layout = self.asked.layout
        ranks = least(self.batch, layout.dp) * ranks_of(self.asked)
        costs = shared(self.asked, layout.chips, self.time, Busy(), busy_of(self.total).times(ranks))
        return Spending(*costs, self.time, 0, self.step.new_tokens)

    @cached_property
    def mfu(self) -> Count:
        """FLOPs over the expected time at the peak of the format in which most FLOPs of the matrix products run."""
        sums: dict[str, Count] = {}
        for cost in (cost for cost in self.analysis.ops if is_matrix(cost.op)):
            fmt = matrix_format(cost.op, self.target)
            sums[fmt] = sums.get(fmt, 0) + cost.flops
        peaks = [self.chip.peak(fmt) for fmt in sums] or [max(self.chip.peaks.values())]
        flops = list(sums.values()) or [0]
        peak: Count = peaks[0]
        most_flops = flops[0]
        for other, count in zip(peaks[1:], flops[1:], strict=True):
            peak = np.where(count > most_flops, other, peak) if self.shape else other if count > most_flops else peak
            most_flops = most(most_flops, count)
        return self.analysis.flops / (peak * self.time)

    # -- memory ----------------------------------------------------------------------------------------------------
    @cached_property
    def memory(self) -> Memory:
        """Memory of the fullest rank with all sequences after the step, by the engine's rule."""
        groups = tuple((q.count, q.cached + q.new) for q in self.share.queries)
        return self.asked.holding.memory(groups, self.share.new_tokens).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether that memory is available."""
        return self.memory.fits

    # -- op by op --------------------------------------------------------------------------------------------------
    @cached_property
    def ops(self) -> tuple[OpTime, ...]:
        """Every op of the busiest replica's share, in order, with its time."""
        times: list[OpTime] = []
        for cost in self.analysis.ops:
            before = time_quantise(cost.op, self.target)
            if before is not None:
                times.append(OpTime(cost, "quantise", before, self.shape))
            calibrated = self.target.mode.name == "calibrated"  # other laws are the floor, which counts the least bytes
            carried = memory_seconds(cost.op, cost.each_moved, self.chip) if calibrated else 0.0
            times.append(OpTime(cost, cost.kind, time_op(cost.op, self.target), self.shape, carried))
        return self._with_joules(times)

    @cached_property
    def chip_joules(self) -> Count | None:
        """Joules of one chip of the busiest replica for the step; None where power is unknown."""
        return Cost(1, self.time, tariff(self.chip, self.asked.bill), busy=busy_of(self.total)).working_joules

    def _with_joules(self, times: Sequence[OpTime]) -> tuple[OpTime, ...]:
        """Ops with their parts of the step's joules, which add up to `chip_joules`.

        The parts are in proportion to what each op would draw on a board without a limit; where watts are given, or are
        not known by unit, in proportion to its time.
        """
        whole, draw = self.chip_joules, tariff(self.chip, self.asked.bill).draw
        if whole is None:
            return tuple(times)
        free = None if draw is None else replace(draw, most=UNLIMITED)
        alone = [op.expected if free is None else free.joules(op.expected, op.busy) for op in times]
        total = most(sum(alone, start=0.0), 1e-30)
        return tuple(
            replace(op, joules=shaped(whole * own / total, self.shape)) for op, own in zip(times, alone, strict=True)
        )

    def part(self, op: OpTime) -> Count:
        """Share of the expected time that an op takes."""
        return op.expected / self.time

    @cached_property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """Share of the expected time by kind of op, over all elements, largest first."""
        sums = {str(kind): float(np.sum(shaped(t.expected, self.shape))) for kind, t in self._kinds.items()}
        total = sum(sums.values())
        return tuple((kind, value / total) for kind, value in sorted(sums.items(), key=lambda item: -item[1]))

    @property
    def _kinds(self) -> Mapping[Any, Total]:
        return self.plan.totals(self.share, by_kind)

    @property
    def launches(self) -> int:
        """Kernels launched in a step."""
        return int(np.max(self.total.launches))


def by_kind(section: str, op: o.Op, kind: str) -> str:
    """Put each kind of op into a sum of its own."""
    return kind


def step_estimate(
    asked: Setup, step: Step, *, counting: str | Counting = "standard", traffic: str | Traffic = "fused",
    within: bool = True,
) -> Estimate:  # fmt: skip
    """Estimate a step of all replicas. `within`: check the step against the model's context.

    Raises InputError for a step beyond the context, and for a format that the chip lacks.
    """
    flag("within", within)
    if within:
        check_context(asked.model, step)
    check_formats(asked.plan)
    broadcast(step=step, layout=asked.layout)
    return Estimate(asked, step, counting_named(counting), traffic_named(traffic))


def check_context(model: Model, step: Step) -> None:
    """Raise an InputError where a query is longer than the model's context."""
    if model.context is not None and step.longest > model.context:
        raise InputError("context", step.longest, f"at most {model.context} tokens, the context of {model.name}")


@lru_cache(maxsize=256)
def check_formats(plan: Plan) -> None:
    """Raise an InputError where the chip lacks a format that the plan's products run in."""
    for op in (op for entry in plan.entries for op in lower(entry.module, decode(1, 1))):
        if is_matrix(op):
            plan.target.chip.peak(matrix_format(op, plan.target))
