"""A training run on many chips: step time, memory of every stage, bubble, exposed communication, MFU, days and money.

A micro-batch's forward, input-gradient and weight-gradient times of each stage come from its ops, the pipeline's
schedule puts them in order, and what data parallelism sends is exposed where the passes do not hide it:

    step = schedule(stages, micro-batches) + exposed(gradients) + exposed(weights) + optimizer
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from roofline.estimates.generate import NOTHING, Span
from roofline.estimates.latency import Estimate, OpTime, check_context, time_of
from roofline.estimates.place import Place, Placed, placed
from roofline.estimates.schedule import StageTimes, Timeline, closed_in_flight, simulate
from roofline.estimates.training_memory import TrainingMemory, held, kept_bytes, memory_of, trained
from roofline.machine.collectives import collective
from roofline.machine.engine import TRAINER, Engine
from roofline.machine.timing import Mode, time_op
from roofline.model import modules as m
from roofline.model.errors import InputError
from roofline.model.maths import ceil_div
from roofline.model.model import Model
from roofline.model.precision import FORMATS
from roofline.work import ops as o
from roofline.work.analysis import analyze
from roofline.work.training import Training, with_batch, with_options

MTBF_HOURS = 50_000.0
"""Hours between failures of one chip: 419 in 54 days of 16,384 H100 (Llama 3, arXiv:2407.21783 §3.3.4)."""
SAVE_SECONDS = 60.0
"""Seconds that a checkpoint holds the run up: an assumption, as are the next three."""
RESTART_SECONDS = 600.0
HOST_SHARE = 0.8
IDLE_SHARE = 0.12


@dataclass(frozen=True)
class Passes:
    """One micro-batch on one stage: the estimate of its ops, and what its passes take.

    forward, backward (with what is run again), weight: seconds, exposed communication included. `exchange`: the part of
    them that is communication, by axis of the layout. `send`: until the next stage has the stream.
    """

    estimate: Estimate
    forward: Span
    backward: Span
    weight: Span
    exchange: tuple[tuple[str, Span], ...]
    send: Span

    @property
    def busy(self) -> Span:
        """Seconds of one micro-batch."""
        return self.forward + self.backward + self.weight


@dataclass(frozen=True)
class Stage:
    """One pipeline stage: what its rank holds, its passes, its memory."""

    number: int
    rank: Model
    passes: Passes
    memory: TrainingMemory


@dataclass(frozen=True)
class TrainingEstimate:
    """One optimizer step of `step.batch` sequences on a cluster.

    `time` expected, `floor` and `interval` as in `Estimate`, seconds. `reduction` and `gathering`: exposed gradients
    and weights between replicas; `update`: the optimizer. `model_flops` of the whole step: forward and backward,
    nothing run again; `hardware_flops` with it.
    """

    model: Model
    step: Training
    where: Placed
    micro_batches: int
    stages: tuple[Stage, ...]
    timeline: Timeline
    passes: Span
    reduction: Span
    gathering: Span
    update: Span
    model_flops: int
    hardware_flops: int

    @cached_property
    def span(self) -> Span:
        """Seconds of the step: floor, expected, and the interval."""
        return self.passes + self.reduction + self.gathering + self.update

    @property
    def time(self) -> float:
        """Expected seconds of one step."""
        return self.span.expected

    @property
    def floor(self) -> float:
        """Speed of light."""
        return self.span.floor

    @property
    def interval(self) -> tuple[float, float]:
        """Where 80 % of measurements fall."""
        return self.span.low, self.span.high

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        (query,) = self.step.queries
        return int(query.new * query.count)

    @property
    def chips(self) -> int:
        """Chips of the layout."""
        return self.where.chips

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all chips per expected second."""
        return self.tokens / self.time

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Tokens of all chips per expected second, over the chips of the layout."""
        return self.tokens_per_second / self.chips

    @cached_property
    def slowest(self) -> Stage:
        """The stage whose passes of one micro-batch take longest."""
        return max(self.stages, key=lambda s: s.passes.busy.expected)

    @property
    def peak(self) -> float:
        """FLOP/s of one chip that MFU and HFU are shares of: of the products' format."""
        fmt = self.step.precision.ffn.compute or "bf16"
        return self.where.chip.peak(fmt)

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: FLOPs of forward and backward / (chips · peak · time) (arXiv:2204.02311, App. B)."""
        return self.model_flops / (self.chips * self.peak * self.time)

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilization: what is run again counts too (arXiv:2205.05198 §6.3)."""
        return self.hardware_flops / (self.chips * self.peak * self.time)

    @property
    def bubble(self) -> float:
        """Share of the passes in which a stage waits, on average."""
        return self.timeline.bubble

    @property
    def exposed(self) -> tuple[tuple[str, float], ...]:
        """Expected seconds of a step that a rank of the slowest stage spends communicating, by axis, largest first."""
        found = [(axis, span.expected * self.micro_batches) for axis, span in self.slowest.passes.exchange]
        found.append(("dp", self.reduction.expected + self.gathering.expected))
        return tuple(sorted((f for f in found if f[1] > 0), key=lambda f: -f[1]))

    @property
    def memory(self) -> float:
        """Bytes of the fullest rank."""
        return max(float(s.memory.total) for s in self.stages)

    @property
    def fits(self) -> bool:
        """Whether the fullest rank has room."""
        return self.memory <= self.where.chip.capacity

    def run(self, tokens: float, mtbf_hours: float = MTBF_HOURS, save_seconds: float = SAVE_SECONDS) -> Run:
        """What learning from `tokens` tokens takes: see `Run`.

        `mtbf_hours`: mean time between failures of one chip. `save_seconds`: to write a checkpoint.
        """
        for field, value in (("tokens", tokens), ("mtbf_hours", mtbf_hours)):
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise InputError(field, value, "a positive number")
        if not isinstance(save_seconds, (int, float)) or not 0 <= save_seconds < float("inf"):
            raise InputError("save_seconds", save_seconds, "seconds, zero or more")
        return Run(self, float(tokens), float(mtbf_hours), float(save_seconds))

    @property
    def grade(self) -> str:
        """How well the constants are known, at worst."""
        return max(s.passes.estimate.grade for s in self.stages)


@dataclass(frozen=True)
class Run:
    """A whole run of `tokens` tokens.

    With failures every M = mtbf / chips, saving takes δ and is done every τ = √(2·δ·M); of the time the share
    1 − δ/τ − τ/(2M) − R/M is progress, R the restart (Young 1974, Daly 2006).
    """

    estimate: TrainingEstimate
    tokens: float
    mtbf_hours: float
    save_seconds: float

    @property
    def steps(self) -> int:
        """Optimizer steps."""
        return -int(-self.tokens // self.estimate.tokens)

    @property
    def failures_apart(self) -> float:
        """Mean seconds between failures of any chip."""
        return 3600 * self.mtbf_hours / self.estimate.chips

    @property
    def checkpoint_interval(self) -> float:
        """Seconds between checkpoints that lose least."""
        return math.sqrt(2 * self.save_seconds * self.failures_apart)

    @property
    def progress(self) -> float:
        """Share of the time not lost to checkpoints, work done twice and restarts; 0 where none is left."""
        apart, every = self.failures_apart, self.checkpoint_interval
        lost = (self.save_seconds / every if every else 0.0) + every / (2 * apart) + RESTART_SECONDS / apart
        return max(0.0, 1 - lost)

    @property
    def ideal_seconds(self) -> float:
        """Seconds without failures."""
        return self.steps * self.estimate.time

    @property
    def seconds(self) -> float:
        """Seconds with them; infinite where nothing is left."""
        return self.ideal_seconds / self.progress if self.progress else math.inf

    @property
    def interval(self) -> tuple[float, float]:
        """Where 80 % of runs fall, as the step does."""
        low, high = self.estimate.interval
        scale = self.seconds / self.estimate.time
        return low * scale, high * scale

    @property
    def chip_hours(self) -> float:
        """Chips times hours."""
        return self.estimate.chips * self.seconds / 3600

    @property
    def cost(self) -> float | None:
        """USD at the catalog's price, None where it has none."""
        price = self.estimate.where.chip.price
        return None if price is None else self.chip_hours * price.usd_per_hour

    @property
    def energy(self) -> float | None:
        """Joules of the chips, at idle power in the bubbles and full power else; None where power is not known."""
        chip = self.estimate.where.chip
        if chip.tdp is None:
            return None
        idle = chip.idle if chip.idle is not None else IDLE_SHARE * chip.tdp
        waiting = self.estimate.bubble * self.estimate.passes.expected / self.estimate.time
        return self.estimate.chips * self.seconds * (chip.tdp * (1 - waiting) + idle * waiting)


def estimate_training(
    model: Model, step: Training, *, on: Place, layout: object = None, law: str | Mode = "calibrated",
    engine: str | Engine | None = TRAINER, precision: object = None,
) -> TrainingEstimate:  # fmt: skip
    """A step of training on a cluster under a layout.

    Raises InputError where the batch does not divide into micro-batches of every replica, tokens into context-parallel
    ranks, a degree what it shares out, or where the sequence is longer than the context.
    """
    where = placed(on, layout)
    spread = where.layout
    check_context(model, step)
    if FORMATS[step.recipe.weights].bits < 8 and not any(x.frozen for x, _ in model.modules()):
        raise InputError("recipe", step.recipe.name, f"one whose weights can learn, or adapters; {step.recipe.about}")
    (query,) = step.queries
    replicas = spread.dp * step.micro_batch
    if query.count % replicas:
        near = sorted({max(1, query.count // replicas) * replicas, ceil_div(query.count, replicas) * replicas})
        raise InputError("batch", query.count, f"a multiple of dp · micro_batch, {replicas}", [str(n) for n in near])
    if query.new % spread.cp:
        raise InputError("layout.cp", spread.cp, f"a divisor of the {query.new} tokens of a sequence")
    count = query.count // replicas
    micro = with_batch(step, step.micro_batch)
    made: dict[Any, Passes] = {}
    ranks = [where.rank(model, i if spread.pp > 1 else None) for i in range(spread.pp)]
    for rank in ranks:
        key = (rank.embedding, rank.head, rank.blocks)
        if key not in made:
            made[key] = _passes(rank, micro, where, law, engine, precision)
    each = [made[rank.embedding, rank.head, rank.blocks] for rank in ranks]
    each = [_offloaded(p, rank, micro, where) for p, rank in zip(each, ranks, strict=True)]
    timeline, passes = _run(step, each, count, spread.vp)
    stages = [
        Stage(i, rank, found, memory_of(rank, micro, spread, timeline.in_flight[i]))
        for i, (rank, found) in enumerate(zip(ranks, each, strict=True))
    ]
    reduction, gathering = _replicas(stages, where, step, count)
    update = _update(stages, where, step)
    flops = analyze(model, step, precision=precision).flops
    plain = analyze(model, with_options(step, recompute="none"), precision=precision).flops
    return TrainingEstimate(
        model, step, where, count, tuple(stages), timeline, passes, reduction, gathering, update, int(plain), int(flops)
    )


def has_room(model: Model, step: Training, *, on: Place, layout: object = None) -> bool:
    """Whether the first and the last stage fit, without the times.

    Raises InputError as `estimate_training` does.
    """
    where = placed(on, layout)
    spread = where.layout
    (query,) = step.queries
    count = max(1, query.count // (spread.dp * step.micro_batch))
    micro = with_batch(step, step.micro_batch)
    for stage in {0, spread.pp - 1}:
        kept = closed_in_flight(step.schedule, stage, spread.pp, count, spread.vp)
        rank = where.rank(model, stage if spread.pp > 1 else None)
        if float(memory_of(rank, micro, spread, float(kept)).total) > where.chip.capacity:
            return False
    return True


# -- one micro-batch -----------------------------------------------------------------------------------------------
def spans(ops: Iterable[OpTime]) -> Span:
    """The sum of ops' times."""
    total = NOTHING
    for op in ops:
        low, high = op.interval
        total = total + Span(float(op.floor), float(op.expected), float(low), float(high))
    return total


def _passes(
    rank: Model, micro: Training, where: Placed, law: str | Mode, engine: str | Engine | None, precision: object
) -> Passes:
    """One micro-batch on a rank.

    DualPipe runs one micro-batch's exchange of tokens beside another's arithmetic (arXiv:2412.19437 §3.2.1).

    A ring of keys and values travels while attention runs, and only what is longer than attention shows.
    """
    e = time_of(rank, micro, where, law, precision, engine)
    exchange: dict[str, Span] = {}
    passes = []
    for phases in (("forward",), ("recompute", "backward"), ("weight",)):
        mine = [op for op in e.ops if op.cost.op.phase in phases]
        work = spans(op for op in mine if not isinstance(op.cost.op, o.Communicate))
        attention = spans(op for op in mine if isinstance(op.cost.op, o.Attend) or of_attention(op.cost.op))
        for axis in ("tp", "ep", "cp"):
            sent = spans(op for op in mine if isinstance(op.cost.op, o.Communicate) and op.cost.op.axis == axis)
            if axis == "cp" and where.layout.exchange == "ring":
                shown = sent.minus(attention)
            else:
                shown = sent.minus(work) if axis == "ep" and micro.schedule == "dualpipe" else sent
            exchange[axis] = exchange.get(axis, NOTHING) + shown
            work = work + shown
        passes.append(work)
    forward, backward, weight = passes
    return Passes(e, forward, backward, weight, tuple(exchange.items()), _handed(e))


def _offloaded(passes: Passes, rank: Model, micro: Training, where: Placed) -> Passes:
    """Activations go to the host beside the forward pass and come back beside the backward; what is longer shows."""
    if "activations" not in micro.offload:
        return passes
    moved = _to_host(float(sum(n * kept_bytes(b.modules, micro) for b, n in rank.blocks)), where)
    back = passes.backward + passes.weight
    forward, backward = passes.forward + moved.minus(passes.forward), passes.backward + moved.minus(back)
    return replace(passes, forward=forward, backward=backward)


def of_attention(op: o.Op) -> bool:
    """Whether an op is attention's gradient."""
    return isinstance(op, o.Backward) and isinstance(op.of, o.Attend)


def _handed(e: Estimate) -> Span:
    """Seconds to hand one micro-batch's stream to the next stage."""
    return spans(
        op for op in e.ops
        if isinstance(op.cost.op, o.Communicate) and op.cost.op.axis == "pp" and op.cost.op.phase == "forward"
    )  # fmt: skip


def _run(step: Training, stages: list[Passes], count: int, chunks: int) -> tuple[Timeline, Span]:
    """The passes of all micro-batches through all stages; the interval is as wide as the slowest stage's."""

    def times(field: str) -> list[StageTimes]:
        made = []
        for s in stages:
            f, b, w, send = (getattr(x, field) for x in (s.forward, s.backward, s.weight, s.send))
            made.append(StageTimes(f / chunks, b / chunks, w / chunks, send))
        return made

    timeline = simulate(step.schedule, times("expected"), count, chunks)
    floor = simulate(step.schedule, times("floor"), count, chunks)
    slowest = max(stages, key=lambda s: s.busy.expected).busy
    length = timeline.length
    scale = length / slowest.expected
    return timeline, Span(floor.length, length, slowest.low * scale, slowest.high * scale)


# -- between replicas ----------------------------------------------------------------------------------------------
def _replicas(stages: list[Stage], where: Placed, step: Training, count: int) -> tuple[Span, Span]:
    """What reducing gradients and gathering weights adds to a step, on the stage where it adds most."""
    found = [_of_stage(s, where, step, count) for s in stages]
    return max(found, key=lambda pair: pair[0].expected + pair[1].expected)


def _of_stage(stage: Stage, where: Placed, step: Training, count: int) -> tuple[Span, Span]:
    spread, zero = where.layout, where.layout.zero
    learning, everything = trained(stage.rank), held(stage.rank.modules())
    gradient, weight = step.precision.gradients, FORMATS[step.recipe.weights]
    layers = max(1, sum(int(n) for _, n in stage.rank.blocks))
    reduced, gathered, back = NOTHING, NOTHING, stage.passes.backward + stage.passes.weight
    for part, ranks, stride in (
        ("dense", spread.dp * spread.cp, spread.tp),
        ("experts", spread.ranks // (spread.ep * spread.expert_tp), spread.ep * spread.expert_tp),
    ):
        sharers = spread.sharers if part == "dense" else spread.expert_sharers
        grads = float(gradient.bytes(getattr(learning, part)))
        weights = float(weight.bytes(getattr(everything, part)))
        if zero == 0:
            reduced = reduced + _sent("all_reduce", grads, ranks, stride, where)
            continue
        reduced = reduced + _sent("reduce_scatter", grads, sharers, stride, where)
        reduced = reduced + _sent("all_reduce", grads / sharers, ranks // sharers, stride * sharers, where)
        gathered = gathered + _sent("all_gather", weights, sharers, stride, where)
    if zero == 3:  # weights are gathered for either pass of every micro-batch, gradients scattered after it
        forward = _exposed(gathered, stage.passes.forward, layers, step.overlap)
        backward = _exposed(gathered + reduced, back, layers, step.overlap)
        return backward.times(count), forward.times(count)
    return (
        _exposed(reduced, back, layers, step.overlap),
        _exposed(gathered, stage.passes.forward, layers, step.overlap),
    )


def _sent(op: str, size: float, ranks: int, stride: int, where: Placed) -> Span:
    if ranks <= 1 or size == 0:
        return NOTHING
    t = collective(op, size, ranks, where.cluster, stride=stride)
    return Span(float(t.floor), float(t.expected), float(t.low), float(t.high))


def _exposed(sent: Span, behind: Span, layers: int, overlap: bool) -> Span:
    """What a pass of `layers` layers does not hide: one layer's share at least, and what is longer than the others."""
    if not overlap:
        return sent
    return sent.minus(behind.times((layers - 1) / layers)).most(sent.times(1 / layers))


# -- the optimizer -------------------------------------------------------------------------------------------------
def _update(stages: list[Stage], where: Placed, step: Training) -> Span:
    """Reads and writes the state, reads the gradient, writes the weight; on the stage with most parameters."""
    worst = NOTHING
    for stage in stages:
        total = NOTHING
        for op in update_ops(stage.rank, where, step):
            t = time_op(op, stage.passes.estimate.target)
            total = total + Span(float(t.floor), float(t.expected), float(t.low), float(t.high))
        if "optimizer" in step.offload:
            total = total + _to_host(2 * _state_bytes(stage.rank, where, step), where)
        worst = worst.most(total)
    return worst


def _state_bytes(rank: Model, where: Placed, step: Training) -> float:
    return float(trained(rank).bytes(step.precision.optimizer, where.layout, where.layout.zero >= 1))


def _to_host(size: float, where: Placed) -> Span:
    """Seconds for bytes over the link to the host. Raises InputError where the chip's is not known."""
    speed = where.chip.host
    if speed is None:
        raise InputError("offload", where.chip.id, "a chip whose link to the host is known")
    least = size / speed
    return Span(least, least / HOST_SHARE, least, 2 * least / HOST_SHARE)


def update_ops(rank: Model, where: Placed, step: Training) -> list[o.Op]:
    """The optimizer's ops on one rank: over its share of the parameters, and Newton–Schulz rounds where it has them."""
    spread, precision = where.layout, step.precision
    learning = trained(rank)
    shared = spread.zero >= 1
    dense = ceil_div(learning.dense, spread.sharers) if shared else learning.dense
    experts = ceil_div(learning.experts, spread.expert_sharers) if shared else learning.experts
    n = dense + experts
    unit = precision.activations.stored_bits
    read, written = (n * f.stored_bits / unit for f in (precision.gradients, FORMATS[step.recipe.weights]))
    found: list[o.Op] = [
        o.Update(
            name=step.optimizer.name, phase="update", elements=n, work=step.optimizer.flops, store="optimizer",
            cache_read=n, cache_write=n, input=int(read), output=int(written),
        )
    ]  # fmt: skip
    if step.optimizer.rounds:
        for module, layers in rank.modules():
            if (
                isinstance(module, (m.Linear, m.Experts))
                and not module.frozen
                and getattr(module, "part", "") != "head"
            ):
                sharers = (spread.expert_sharers if isinstance(module, m.Experts) else spread.sharers) if shared else 1
                found += _orthogonalise(module, layers / sharers, step.optimizer.rounds)
    return found


def _orthogonalise(module: m.Linear | m.Experts, times: float, rounds: int) -> list[o.Op]:
    """The products of Newton–Schulz on a module's matrices: X·Xᵀ, its square, and both with X (Muon, Jordan 2024)."""
    if isinstance(module, m.Experts):
        sizes = [(module.hidden, module.inner, module.held * (3 if module.gated else 2))]
    else:
        sizes = [(module.inputs // module.groups, module.outputs // module.groups, module.groups)]
    made: list[o.Op] = []
    for a, b, each in sizes:
        short, long = min(a, b), max(a, b)
        many = times * each * rounds
        for k, n in ((long, short), (short, short), (short, long)):
            made.append(
                o.MatMul(
                    name=f"{module.name}_orthogonalise", phase="update", m=short, k=k, n=n, groups=many,
                    input=many * short * k, output=many * short * n,
                )
            )  # fmt: skip
    return made
