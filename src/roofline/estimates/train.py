"""A training run on many chips: step time, memory of every stage, bubble, exposed communication, MFU, days and money.

A micro-batch's forward, input-gradient and weight-gradient times of each stage come from its ops, the pipeline's
schedule puts them in order, and what data parallelism sends is exposed where the passes do not hide it:

    step = schedule(stages, micro-batches) + exposed(gradients) + exposed(weights) + optimizer

Batches, lengths and degrees may be arrays: every line below serves a number and an array.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, Unpack

import numpy as np

from roofline.distinct import distinct
from roofline.estimates.deployment import Deployment, Machine, deploy, is_several, training_layouts, whole_machine
from roofline.estimates.memory import Memory
from roofline.estimates.plan import EMPTY, Plan, Total, grade_of
from roofline.estimates.schedule import (
    StageTimes,
    Timeline,
    check_micro_batches,
    in_flight,
    length,
    side_by_side,
    timeline,
)
from roofline.estimates.settings import LISTED, Deployed, Settings, Setup, broadcast, each
from roofline.estimates.span import NOTHING, Span, shaped, total
from roofline.estimates.step import Estimate, check_context
from roofline.estimates.training_memory import (
    LayerBytes,
    TrainingMemory,
    kept_bytes,
    layer_bytes,
    memory_of,
    sharing,
    stored,
    trained,
    two_ended,
)
from roofline.layout.layout import Layout
from roofline.layout.shard import PIPELINE, contents, handing, pipeline
from roofline.machine.collectives import collective
from roofline.machine.constants import worse
from roofline.machine.engine import TRAINER, Engine, engine_named
from roofline.machine.target import mode_named
from roofline.machine.timing import time_op
from roofline.model import modules as m
from roofline.model.adapters import with_drafts, with_lora
from roofline.model.errors import InputError, not_one_of
from roofline.model.formats import FORMATS
from roofline.model.load import model_of
from roofline.model.maths import Count, ceil_div, is_array, least, most, some
from roofline.model.model import Model
from roofline.model.quantization.asked import formats_of
from roofline.result import Figured, Flag, Units, Word
from roofline.work import ops as o
from roofline.work.analysis import analyze
from roofline.work.counting import SQUARE, STANDARD, Counting
from roofline.work.recipe import TRAINABLE
from roofline.work.step import Queries
from roofline.work.step import replace as changed
from roofline.work.training import RECOMPUTE, Training, forward_ops, training, with_batch, with_options

HOST_SHARE = 0.8
"""Share of the host link's bandwidth that offloading reaches: an assumption."""
PASSES: Mapping[str, int] = {"forward": 0, "recompute": 1, "backward": 1, "weight": 2}
"""The phase of an op → the pass of a micro-batch that it belongs to: forward, backward, weight gradients."""


# -- one micro-batch -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Passes:
    """One micro-batch on one stage: what its passes take.

    forward, backward (with what is run again), weight: seconds, exposed communication included. `exchange`: the part of
    them that is communication, by axis of the layout. `send`: until the next stage has the stream.
    """

    forward: Span
    backward: Span
    weight: Span
    exchange: Mapping[str, Span]
    send: Span

    @property
    def busy(self) -> Span:
        """Seconds of one micro-batch."""
        return self.forward + self.backward + self.weight


@dataclass(frozen=True)
class Stage(Figured):
    """One pipeline stage: what its rank runs, its passes, its memory.

    `copy`: of DualPipe the stage at the other end, which the rank holds too.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("stage", "layers", "passes", "memory"), "")
    NAMES: ClassVar[Mapping[str, str]] = {"stage": "number"}

    number: int
    rank: Model
    passes: Passes
    memory: TrainingMemory
    copy: Model | None = None

    @property
    def holds(self) -> tuple[Model, ...]:
        """The stages whose parameters its rank holds."""
        return (self.rank,) if self.copy is None else (self.rank, self.copy)

    @property
    def layers(self) -> int:
        """Layers that its rank holds."""
        return sum(int(n) for block, n in self.rank.blocks if block.name != PIPELINE)


@dataclass(frozen=True, repr=False)
class TrainingEstimate(Deployed):
    """One optimizer step of `batch` sequences on a deployment: numbers, or arrays of batches, lengths and degrees.

    `time` expected, `floor` and `interval` in seconds. `passes`: the pipeline's schedule; `reduction` and `gathering`:
    exposed gradients and weights between replicas; `update`: the optimizer. `model_flops` of the whole step: forward
    and backward, nothing run again; `hardware_flops` with it.
    """

    SCHEMA: ClassVar[str] = "roofline.training/2"
    FIGURES: ClassVar[Units] = {
        "model": "", "deployment": "", "engine": "", "law": "", "formats": "", "recipe": "", "optimizer": "",
        "recompute": "", "loss": "", "schedule": "", "batch": "", "batch_per_replica": "", "tokens_each": "",
        "micro_batch": "", "micro_batches": "", "time": "s",
        "passes": "s", "reduction": "s", "gathering": "s", "update": "s", "bubble": "share", "model_flops": "FLOP",
        "hardware_flops": "FLOP", "mfu": "share", "mfu_palm": "share", "hfu": "share", "tokens_per_second": "tokens/s",
        "tokens_per_second_per_chip": "tokens/s", "memory": "B", "exposed": "s", "grade": "", "notes": "", "stages": "",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"time": "span"}

    asked: Setup
    step: Training
    micro_batches: Count
    stages: tuple[Stage, ...]
    passes: Span
    reduction: Span
    gathering: Span
    update: Span
    sections: Sections

    # -- what and where --------------------------------------------------------------------------------------------
    @property
    def recipe(self) -> str:
        """The recipe's name."""
        return self.step.recipe.name

    @property
    def optimizer(self) -> str:
        """The optimizer's name."""
        return self.step.optimizer.name

    @property
    def recompute(self) -> str:
        """What is run again."""
        again = self.step.recompute
        return again if isinstance(again, str) else ",".join(again)

    @property
    def loss(self) -> str:
        """How cross-entropy keeps its logits."""
        return str(self.step.loss)

    @property
    def schedule(self) -> str:
        """The order in which stages take micro-batches."""
        return self.step.schedule

    @property
    def batch(self) -> Count:
        """Sequences of one step, of all replicas."""
        return self.step.queries[0].count

    @property
    def batch_per_replica(self) -> Count:
        """Sequences of each replica."""
        return self.batch // self.asked.layout.dp

    @property
    def tokens_each(self) -> Count:
        """Tokens of a sequence."""
        return self.step.queries[0].new

    @property
    def micro_batch(self) -> Count:
        """Sequences that pass through a replica together."""
        return self.step.micro_batch

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of batch, tokens, micro-batch and the layout's degrees."""
        return np.broadcast_shapes(self.step.shape, np.shape(self.step.micro_batch), self.asked.layout.shape)

    # -- time ------------------------------------------------------------------------------------------------------
    @cached_property
    def span(self) -> Span:
        """Seconds of the step: floor, expected, and the interval."""
        return (self.passes + self.reduction + self.gathering + self.update).shaped(self.shape)

    @property
    def time(self) -> Count:
        """Expected seconds of one step."""
        return self.span.expected

    @property
    def floor(self) -> Count:
        """Speed of light."""
        return self.span.floor

    @property
    def interval(self) -> tuple[Count, Count]:
        """Where 80 % of measurements fall."""
        return self.span.interval

    @property
    def tokens(self) -> Count:
        """Tokens of one step."""
        return self.step.new_tokens

    @property
    def chips(self) -> Count:
        """Chips of the layout."""
        return self.asked.layout.chips

    @property
    def tokens_per_second(self) -> Count:
        """Tokens of all chips per expected second."""
        return self.tokens / self.time

    @property
    def tokens_per_second_per_chip(self) -> Count:
        """Tokens of all chips per expected second, over the chips of the layout."""
        return self.tokens_per_second / self.chips

    @cached_property
    def slowest(self) -> Stage:
        """The stage whose passes of one micro-batch take longest; of arrays, the one that most elements wait for."""
        return max(self.stages, key=lambda s: float(np.sum(s.passes.busy.expected)))

    @property
    def peak(self) -> float:
        """FLOP/s of one chip that MFU and HFU are shares of: of the products' format."""
        fmt = self.formats.ffn.compute or "bf16"
        return self.deployment.chip.peak(fmt)

    @cached_property
    def hardware_flops(self) -> Count:
        """FLOPs of one step, what is run again included, and masked pairs where attention runs kernel by kernel."""
        return _flops(self.model, self.step, STANDARD if self.step.flash else SQUARE)

    @cached_property
    def model_flops(self) -> Count:
        """FLOPs of one step's forward and backward."""
        return _flops(self.model, with_options(self.step, recompute="none"))

    @property
    def mfu(self) -> Count:
        """Model FLOPs utilization: FLOPs of forward and backward / (chips · peak · time).

        Attention counts the pairs that its mask leaves, as Megatron-LM does (training/training.py,
        `num_floating_point_operations`).
        """
        return self.model_flops / (self.chips * self.peak * self.time)

    @property
    def mfu_palm(self) -> Count:
        """The same as PaLM defines it: attention counts its whole square (arXiv:2204.02311, App. B)."""
        whole = _flops(self.model, with_options(self.step, recompute="none"), SQUARE)
        return whole / (self.chips * self.peak * self.time)

    @property
    def hfu(self) -> Count:
        """Hardware FLOPs utilization: what is run again counts too (arXiv:2205.05198 §6.3)."""
        return self.hardware_flops / (self.chips * self.peak * self.time)

    @cached_property
    def bubble(self) -> Count:
        """Share of the passes in which a stage waits, on average."""
        busy = sum(self.micro_batches * s.passes.busy.expected for s in self.stages)
        return shaped(1 - busy / (len(self.stages) * self.passes.expected), self.shape)

    @cached_property
    def timeline(self) -> Timeline:
        """Everything that happens in the passes. Raises InputError for arrays, which have one each."""
        if self.shape:
            raise InputError("timeline", f"{self.shape} points", "one batch and one layout")
        chunks = self.asked.layout.vp
        times = [_stage_times(s.passes, "expected", chunks) for s in self.stages]
        return timeline(self.step.schedule, times, int(self.micro_batches), chunks)

    @property
    def exposed(self) -> Mapping[str, Count]:
        """Expected seconds of a step that a rank of the slowest stage spends communicating, by axis, largest first."""
        seconds = {axis: span.expected * self.micro_batches for axis, span in self.slowest.passes.exchange.items()}
        seconds["dp"] = self.reduction.expected + self.gathering.expected
        shown = {axis: value for axis, value in seconds.items() if np.any(np.asarray(value) > 0)}
        return dict(sorted(shown.items(), key=lambda item: -float(np.max(item[1]))))

    # -- memory ----------------------------------------------------------------------------------------------------
    @cached_property
    def fullest(self) -> TrainingMemory:
        """That of the stage which needs most."""
        return reduce(TrainingMemory.fuller, (s.memory for s in self.stages)).shaped(self.shape)

    @cached_property
    def memory(self) -> Memory:
        """The fullest rank's, by term."""
        return self.fullest.on(self.deployment.chip.capacity).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether the fullest rank has room."""
        return self.memory.fits

    @cached_property
    def grade(self) -> Word:
        """How well the constants are known, at worst of all stages."""
        grade = reduce(
            worse, [self.sections.grade(rank) for rank in {_kind(s.rank): s.rank for s in self.stages}.values()]
        )
        return np.broadcast_to(grade, self.shape) if self.shape else grade

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was asked for and does next to nothing."""
        if self.step.recompute in ("none", "full"):
            return ()
        micro = with_batch(self.step, self.step.micro_batch)
        kept, plain = (_blocks_keep(self.stages, s) for s in (micro, with_options(micro, recompute="none")))
        freed = 1 - float(np.min(kept / plain)) if np.all(plain) else 0.0
        if freed >= LITTLE:
            return ()
        flash = self.step.recompute == "selective" and self.step.flash
        why = ": flash attention keeps no scores" if flash else ""
        return (f"recompute {self.recompute} costs time and frees {100 * freed:.1f} % of the activations{why}",)

    def micro(self, stage: Stage) -> Estimate:
        """One micro-batch on a stage, op by op."""
        step = with_batch(self.step, self.step.micro_batch)
        return Estimate(self.asked, step, stage_plan=Plan(stage.rank, self.asked.target))


LITTLE = 0.01
"""The share of the activations below which running something again is said to free nothing."""


def _blocks_keep(stages: Iterable[Stage], micro: Training) -> Any:
    """Bytes that the layers of all stages keep of one micro-batch."""
    return np.asarray(sum(n * kept_bytes(block.modules, micro) for s in stages for block, n in s.rank.blocks), float)


def _flops(model: Model, step: Training, counting: Counting = STANDARD) -> Count:
    """FLOPs of a step, by what one sequence takes: every sequence is as long."""
    one = analyze(model, with_batch(step, 1), counting=counting).flops
    return one * step.queries[0].count


# -- the passes of a stage -----------------------------------------------------------------------------------------
ATTENTION, WORK, BESIDE = "attention", "work", "beside"
"""What a pass does on the chip, beside which some travels or none; else the axes along which it communicates."""


BESIDE_PHASES = ("backward", "weight")
APART = ("zb-h1", "zb-h2", "dualpipe")
"""Schedules that put off the gradients of weights."""


def by_pass(section: str, op: o.Op, kind: str) -> Hashable:
    """The section of the model, the pass, and what is done in it: an axis of communication, attention, other work."""
    what: Hashable = WORK
    if isinstance(op, o.Communicate):
        what = (op.axis, op.beside) if op.beside else op.axis
    elif isinstance(op.origin, o.Attend):
        what = ATTENTION
    elif isinstance(op, o.MatMul) and op.phase in BESIDE_PHASES and (is_array(op.gathered) or op.gathered > 1):
        what = BESIDE
    return section, PASSES[op.phase], what


def _span(t: Total) -> Span:
    return Span(t.floor, t.expected, t.low, t.high)


@dataclass(frozen=True)
class Sections:
    """The times of one layer of each block and of the ends, by pass and by what is done."""

    totals: Mapping[Any, Total]

    def grade(self, rank: Model) -> Any:
        """The grade of a rank's micro-batch."""
        layers = dict(_layers(rank))
        parts = [t.times(layers[key[0]]) for key, t in self.totals.items() if key[0] in layers]
        both = reduce(Total.__add__, parts, EMPTY)
        return grade_of(both.graded, both.expected)

    def of(self, rank: Model, number: int, what: Hashable) -> Span:
        """Seconds of a pass of a rank."""
        keys = (((section, number, what), n) for section, n in _layers(rank))
        return total(_span(self.totals[key]).times(n) for key, n in keys if key in self.totals)


def _layers(rank: Model) -> Iterable[tuple[str, int]]:
    """The sections of a rank, each with its number of layers."""
    yield from ((name, 1) for name, modules in (("embedding", rank.embedding), ("head", rank.head)) if modules)
    yield from ((block.name, n) for block, n in rank.blocks)


def _passes(rank: Model, sections: Sections, micro: Training, layout: Layout) -> Passes:
    """One micro-batch on a rank.

    DualPipe runs one micro-batch's exchange of tokens beside another's arithmetic (arXiv:2412.19437 §3.2.1).

    A ring of keys and values travels while attention runs, and only what is longer than attention shows. So do the
    collectives beside a product's gradients; not beside those of its weights where the schedule puts them off.
    """
    exchange: dict[str, Span] = {}
    passes: list[Span] = []
    hides = BESIDE_PHASES[:1] if micro.schedule in APART else BESIDE_PHASES
    for number in range(3):
        attention = sections.of(rank, number, ATTENTION)
        work = sections.of(rank, number, WORK) + attention + sections.of(rank, number, BESIDE)
        for axis in ("tp", "ep", "cp"):
            sent = sections.of(rank, number, axis)
            if axis == "cp" and layout.exchange == "ring":
                shown = sent.minus(attention)
            else:
                shown = sent.minus(work) if axis == "ep" and micro.schedule == "dualpipe" else sent
            for phase in BESIDE_PHASES:
                products = sections.of(rank, PASSES[phase], BESIDE) if phase in hides else NOTHING
                shown = shown + sections.of(rank, number, (axis, phase)).minus(products)
            exchange[axis] = exchange.get(axis, NOTHING) + shown
            work = work + shown
        passes.append(work)
    forward, backward, weight = passes
    return Passes(forward, backward, weight, exchange, sections.of(rank, 0, "pp"))


def _offloaded(passes: Passes, rank: Model, known: Mapping[int, LayerBytes], micro: Training, chip: Any) -> Passes:
    """Activations go to the host beside the forward pass and come back beside the backward; what is longer shows."""
    if "activations" not in micro.offload:
        return passes
    moved = _to_host(sum(n * known[id(b)].kept for b, n in rank.blocks), chip)
    back = passes.backward + passes.weight
    forward, backward = passes.forward + moved.minus(passes.forward), passes.backward + moved.minus(back)
    return replace(passes, forward=forward, backward=backward)


def _stage_times(passes: Passes, end: str, chunks: int) -> StageTimes:
    f, b, w, send = (getattr(x, end) for x in (passes.forward, passes.backward, passes.weight, passes.send))
    return StageTimes(f / chunks, b / chunks, w / chunks, send)


def _run(step: Training, each_stage: Sequence[Passes], micro_batches: Count, chunks: int) -> Span:
    """The passes of all micro-batches through all stages; the interval is as wide as the slowest stage's."""

    slowest = reduce(lambda a, b: a.where(a.expected >= b.expected, b), (p.busy for p in each_stage))
    ends = {id(p): (_stage_times(p, "expected", chunks), _stage_times(p, "floor", chunks)) for p in each_stage}
    axes = np.ndim(slowest.expected + micro_batches)
    if axes:
        both = {key: side_by_side(one, other, axes) for key, (one, other) in ends.items()}
        lengths = np.asarray(length(step.schedule, [both[id(p)] for p in each_stage], micro_batches, chunks))
        expected, floor = np.broadcast_to(lengths, (2, *lengths.shape[-axes:]))  # the same where the law is ideal
    else:
        times = ([ends[id(p)][i] for p in each_stage] for i in (0, 1))
        expected, floor = (length(step.schedule, t, micro_batches, chunks) for t in times)
    scale = expected / slowest.expected
    return Span(floor, expected, slowest.low * scale, slowest.high * scale)


# -- between replicas ----------------------------------------------------------------------------------------------
def _replicas(
    stages: Sequence[Stage], deployment: Deployment, step: Training, micro_batches: Count
) -> tuple[Span, Span]:
    """What reducing gradients and gathering weights adds to a step, on the stage where it adds most.

    All stages that differ at once, along a first axis. Gradients that are shared out are reduced after every
    micro-batch, since no rank can add up what it does not keep (DeepSpeed, runtime/engine.py, `allreduce_gradients`:
    from stage 2 at every backward pass, before at the last one of a step).
    """
    layout, zero = sharing(step, deployment.layout), deployment.layout.zero
    learning = [trained(*s.holds) for s in stages]
    everything = [stored((x for rank in s.holds for x in rank.modules()), step) for s in stages]
    gradient = step.precision.gradients
    layers = [max(1, sum(int(n) for _, n in s.rank.blocks)) for s in stages]
    axes = max(len(layout.shape), np.ndim(micro_batches), *(np.ndim(v) for s in stages for v in s.passes.busy.ends()))
    forward = _over([s.passes.forward for s in stages], axes)
    back = _over([s.passes.backward + s.passes.weight for s in stages], axes)
    many = _along([float(n) for n in layers], axes)
    reduced, gathered = NOTHING, NOTHING
    for part, ranks, stride in (
        ("dense", layout.dp * layout.cp, layout.tp),
        ("experts", layout.ranks // (layout.ep * layout.expert_tp), layout.ep * layout.expert_tp),
    ):
        sharers = layout.sharers if part == "dense" else layout.expert_sharers
        grads = _along([gradient.bytes(getattr(p, part)) for p in learning], axes)
        weights = _along(
            [sum(f.bytes(getattr(p, part)) for f, p in by_format.items()) for by_format in everything], axes
        )
        if zero == 0:
            reduced = reduced + _sent("all_reduce", grads, ranks, stride, deployment)
            continue
        reduced = reduced + _sent("reduce_scatter", grads, sharers, stride, deployment)
        if some(ranks > sharers):
            reduced = reduced + _sent("all_reduce", grads / sharers, ranks // sharers, stride * sharers, deployment)
        gathered = gathered + _sent("all_gather", weights, sharers, stride, deployment)
    if zero == 3:  # weights are gathered for either pass of every micro-batch, gradients scattered after it
        backward = _exposed(gathered + reduced, back, many, step.overlap).times(micro_batches)
        forward = _exposed(gathered, forward, many, step.overlap).times(micro_batches)
        return _worst(backward, forward)
    times = micro_batches if zero == 2 else 1
    reduction = _exposed(reduced, back, many, step.overlap).times(times)
    return _worst(reduction, _exposed(gathered, forward, many, step.overlap))


def _along(values: Sequence[Count], axes: int) -> Any:
    """Numbers or arrays of the stages along a first axis, before so many others."""
    stacked = np.stack(np.broadcast_arrays(*values)).astype(float)
    return stacked.reshape(len(values), *(1 for _ in range(axes + 1 - stacked.ndim)), *stacked.shape[1:])


def _over(spans: Sequence[Span], axes: int) -> Span:
    """Spans of the stages in the same way."""
    return Span(*(_along([span.ends()[i] for span in spans], axes) for i in range(4)))


def _worst(reduction: Span, gathering: Span) -> tuple[Span, Span]:
    """Of the stages along the first axis, the first for which both together are longest."""
    both = np.asarray((reduction + gathering).expected)
    if not both.ndim:
        return reduction, gathering
    stage = both.argmax(axis=0)[np.newaxis]

    def of(value: Count) -> Count:
        chosen = np.take_along_axis(np.broadcast_to(value, both.shape), stage, axis=0)[0]
        return float(chosen) if not chosen.ndim else chosen

    return Span(*map(of, reduction.ends())), Span(*map(of, gathering.ends()))


def _sent(op: str, size: Count, ranks: Count, stride: Count, deployment: Deployment) -> Span:
    if not some(size):
        return NOTHING
    t = collective(op, size, ranks, deployment.cluster, stride=stride)
    return Span(t.floor, t.expected, t.low, t.high)


def _exposed(sent: Span, behind: Span, layers: Count, overlap: bool) -> Span:
    """What a pass of `layers` layers does not hide: one layer's share at least, and what is longer than the others."""
    if not overlap:
        return sent
    return sent.minus(behind.times((layers - 1) / layers)).most(sent.times(1 / layers))


# -- the optimizer -------------------------------------------------------------------------------------------------
def _update(stages: Sequence[Stage], asked: Setup, step: Training) -> Span:
    """Reads and writes the state, reads the gradient, writes the weight; on the stage with most parameters."""
    worst = NOTHING
    for stage in stages:
        timings = (time_op(op, asked.target) for op in update_ops(stage.holds, sharing(step, asked.layout), step))
        seconds = total(Span(t.floor, t.expected, t.low, t.high) for t in timings)
        if "optimizer" in step.offload:
            learning, shared = trained(*stage.holds), sharing(step, asked.layout)
            state = learning.bytes(step.precision.optimizer, shared, shared.zero >= 1)
            seconds = seconds + _to_host(2 * state, asked.deployment.chip)
        worst = worst.most(seconds)
    return worst


def _to_host(size: Count, chip: Any) -> Span:
    """Seconds for bytes over the link to the host. Raises InputError where the chip's is not known."""
    if chip.host is None:
        raise InputError("offload", chip.id, "a chip whose link to the host is known")
    least_seconds = size / chip.host
    return Span(least_seconds, least_seconds / HOST_SHARE, least_seconds, 2 * least_seconds / HOST_SHARE)


def update_ops(holds: Sequence[Model], layout: Layout, step: Training) -> list[o.Op]:
    """The optimizer's ops on one rank: over its share of the parameters, and Newton–Schulz rounds where it has them."""
    precision, learning, shared = step.precision, trained(*holds), layout.zero >= 1
    dense = ceil_div(learning.dense, layout.sharers) if shared else learning.dense
    experts = ceil_div(learning.experts, layout.expert_sharers) if shared else learning.experts
    n, unit = dense + experts, precision.activations.stored_bits
    read, written = (
        _whole(n * float(f.stored_bits / unit)) for f in (precision.gradients, FORMATS[step.recipe.weights])
    )
    ops: list[o.Op] = [
        o.Update(
            name=step.optimizer.name, phase="update", elements=n, work=step.optimizer.flops, store="optimizer",
            cache_read=n, cache_write=n, input=read, output=written,
        )
    ]  # fmt: skip
    if step.optimizer.rounds:
        for module, layers in (x for rank in holds for x in rank.modules()):
            learns = isinstance(module, (m.Linear, m.Experts, m.ExpertLinear)) and not module.frozen
            if learns and getattr(module, "part", "") != "head":
                sharers = layout.expert_sharers if isinstance(module, m.Experts) else layout.sharers
                ops += _orthogonalise(module, layers / (sharers if shared else 1), step.optimizer.rounds)
    return ops


def _whole(value: Count) -> Count:
    return np.floor(value) if is_array(value) else int(value)


def _orthogonalise(module: Any, times: Count, rounds: int) -> list[o.Op]:
    """The products of Newton–Schulz on a module's matrices: X·Xᵀ, its square, and both with X (Muon, Jordan 2024)."""
    if isinstance(module, m.Experts):
        a, b, matrices = module.hidden, module.inner, module.held * (3 if module.gated else 2)
    elif isinstance(module, m.ExpertLinear):
        a, b, matrices = module.inputs, module.outputs, module.experts
    else:
        a, b, matrices = module.inputs // module.groups, module.outputs // module.groups, module.groups
    short, long = least(a, b), most(a, b)
    many = times * matrices * rounds
    return [
        o.MatMul(
            name=f"{module.name}_orthogonalise", phase="update", m=short, k=k, n=n, groups=many,
            input=many * short * k, output=many * short * n,
        )
        for k, n in ((long, short), (short, short), (short, long))
    ]  # fmt: skip


# -- one step ------------------------------------------------------------------------------------------------------
EAGER = frozenset({"fsdp"})
"""Engines whose loss is PyTorch's own, kernel by kernel."""
CHOICES = ("recompute", "recipe", "optimizer", "schedule", "offload", "loss")
"""Options of a training step that may be lists."""


def train(
    model: Any, *, batch: Count, tokens: Count, lora: int | None = None, drafts: int | None = None, **options: Any
) -> Any:
    """A step of training: its time, the memory of every stage, what is exposed: a `TrainingEstimate`.

    `batch` sequences of `tokens` tokens, of all replicas together. `lora`: rank of adapters on frozen weights;
    `drafts`: multi-token-prediction layers that learn too. Options are those of `training` (recompute, recipe,
    optimizer, flash, loss, fused_loss, micro_batch, schedule, overlap, offload) and the settings of `Settings`, the
    engine Megatron-LM where not given. Without a layout a machine of several chips is used whole: ZeRO-1 replicas, then
    tensor parallelism in a node, then stages, the first that fits. Numbers may be arrays, which broadcast; of lists of
    settings, or of options but flash, fused_loss and overlap, a `Grid`. A list of names to run again, or to offload, is
    one setting.
    Raises InputError where the batch does not divide into micro-batches of every replica, tokens into context-parallel
    ranks, a degree what it shares out, or where the sequence is longer than the context.
    """

    def one(model: Any, **chosen: Any) -> TrainingEstimate:
        built = model_of(model)
        built = built if drafts is None else with_drafts(built, drafts)
        built = built if lora is None else with_lora(built, lora)
        settings = {name: chosen.pop(name) for name in LISTED if name in chosen}
        return _estimate(built, training(batch, tokens, **chosen), **settings)

    several = tuple(name for name in (*LISTED, *CHOICES) if not is_one(name, options.get(name)))
    return each(one, {"model": model, **options}, several)


def is_one(name: str, value: object) -> bool:
    """Whether a list is one setting: of names to run again, or to offload."""
    if name not in ("recompute", "offload") or not isinstance(value, (list, tuple)):
        return False
    words = RECOMPUTE if name == "recompute" else ()
    return all(isinstance(v, str) and v not in words for v in value) and (bool(value) or name == "offload")


def train_step(model: Any, step: Training, **settings: Unpack[Settings]) -> Any:
    """The same of a step that is there already."""
    return each(lambda model, **where: _estimate(model_of(model), step, **where), {"model": model, **settings})


def _estimate(
    model: Model, step: Training, *, on: Machine, layout: object = None, law: Any = "calibrated",
    engine: str | Engine | None = None, precision: object = None,
) -> TrainingEstimate:  # fmt: skip
    software = engine_named(TRAINER if engine is None else engine)
    if step.loss is None:
        step = with_options(step, loss="eager" if software.id in EAGER else "in-place")
    deployment = deploy(on, layout) if layout is not None or not is_several(on) else of_whole_shape(model, step, on)
    spread, micro = deployment.layout, with_batch(step, step.micro_batch)
    for name in ("redundant", "overlap"):
        if getattr(spread, name):
            raise InputError(f"layout.{name}", getattr(spread, name), "nothing in training: it is of inference")
    micro_batches = check(model, step, spread)
    model, formats = formats_of(model, precision, step.precision)
    asked = Setup(model, deployment, formats, software, mode_named(law))
    layers, ranks = pipeline(model, spread)
    sections, known = _micro_batch(asked, micro, layers)
    kinds: dict[Any, Stage] = {}
    order: list[Stage] = []
    for i, (rank, copy) in enumerate(zip(ranks, copies_of(ranks, step), strict=True)):
        kind = _kind(rank), copy and _kind(copy)
        if kind not in kinds:
            alone = _passes(rank, sections, micro, spread)
            alone = _offloaded(alone, rank, known, micro, deployment.chip)
            kinds[kind] = Stage(i, rank, alone, _stage_memory(rank, copy, micro, spread, known), copy)
        order.append(kinds[kind])
    passes = _run(step, [stage.passes for stage in order], micro_batches, spread.vp)
    stages = tuple(
        replace(stage, number=i, memory=stage.memory.keeping(_kept(step, i, spread, micro_batches), micro))
        for i, stage in enumerate(order)
    )
    reduction, gathering = _replicas(list(kinds.values()), deployment, step, micro_batches)
    update = _update(list(kinds.values()), asked, step)
    return TrainingEstimate(asked, step, micro_batches, stages, passes, reduction, gathering, update, sections)


def _micro_batch(asked: Setup, micro: Training, layers: Model) -> tuple[Sections, Mapping[int, LayerBytes]]:
    """The times of a micro-batch by section, and what each block keeps of it, by the identity of the block in `layers`.

    Of arrays once for every distinct micro-batch: numbers of replicas and of micro-batches make no difference to one,
    but for where the next stage is.
    """
    layout, (query,) = asked.layout, micro.queries
    numbers = (layout.tp, layout.cp, layout.ep, layout.expert_tp, layout.load, query.new, query.count)
    columns = [v for v in numbers if is_array(v)]
    alike = distinct(columns) if columns else None

    def few(value: Count) -> Count:
        return value if alike is None or not is_array(value) else alike.take(value)

    tp, cp, ep, etp, load, tokens, batch = map(few, numbers)
    alone = replace(
        layout, tp=tp, cp=cp, ep=ep, etp=etp, dp=ep * etp, imbalance=load, capacity=None, shard=None, zero=0, pp=1,
        vp=1, stages=(),
    )  # fmt: skip
    step = changed(micro, (Queries(0, tokens, batch),))
    totals, kept = _sections_of(asked, step, alone)

    def gather(value: Count) -> Count:
        return value[alike.index] if alike is not None and is_array(value) and value.ndim else value

    sends = Plan(handing(layers), asked.target).totals(micro, by_pass)
    sections = Sections({**{key: t.mapped(gather) for key, t in totals.items()}, **sends})
    blocks = [block for block, _ in layers.blocks]
    known = {id(block): k.mapped(gather) for block, k in zip(blocks, kept, strict=False)}
    return sections, {**{id(block): LayerBytes(0, 0, 0) for block in blocks[len(kept) :]}, **known}


MOST_KNOWN = 256
_KNOWN: dict[Hashable, tuple[Mapping[Any, Total], Sequence[LayerBytes]]] = {}
"""Micro-batches that have been timed, so many at most: replicas, stages and schedules ask for the same again."""


def _sections_of(asked: Setup, micro: Training, layout: Layout) -> tuple[Mapping[Any, Total], Sequence[LayerBytes]]:
    """The times of a micro-batch by section, and what each block keeps of it."""
    names = ("recompute", "flash", "loss", "recipe", "optimizer", "offload")
    sizes = [getattr(layout, f.name) for f in fields(layout)] + list(vars(micro.queries[0]).values())
    key = (
        asked.model, asked.deployment.chip, asked.deployment.cluster, asked.formats, asked.engine, asked.law,
        *(getattr(micro, name) for name in names),
        *((v.shape, v.astype(float).tobytes()) if is_array(v) else v for v in sizes),
    )  # fmt: skip
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        layers, _ = pipeline(asked.model, layout)
        kept = [layer_bytes(b.modules, micro) for b, _ in layers.blocks]
        known = _KNOWN[key] = Plan(layers, asked.target).totals(micro, by_pass), kept
    return known


def copies_of(ranks: Sequence[Model], step: Training) -> tuple[Model | None, ...]:
    """The stage that each rank holds besides its own: with DualPipe the one at the other end, else none."""
    return tuple(reversed(ranks)) if two_ended(step, len(ranks)) else (None,) * len(ranks)


def _stage_memory(
    rank: Model, copy: Model | None, micro: Training, layout: Layout, known: Mapping[int, LayerBytes] | None = None
) -> TrainingMemory:
    """Of a rank with one micro-batch in flight, and what it holds of the stage at the other end."""
    own = memory_of(rank, micro, layout, 1, known)
    return own if copy is None else own.beside(memory_of(copy, micro, layout, 1, known))


def _kind(rank: Model) -> object:
    """What stages have in common that take the same time."""
    return contents(rank), len(rank.blocks)


def _kept(step: Training, stage: int, layout: Layout, micro_batches: Count) -> Count:
    return in_flight(step.schedule, stage, layout.pp, micro_batches, layout.vp)


def check(model: Model, step: Training, layout: Layout) -> Count:
    """The micro-batches of a replica. Raises InputError where a batch or a sequence does not divide, or is too long."""
    check_context(model, step)
    if FORMATS[step.recipe.weights].bits < TRAINABLE and not any(x.frozen for x, _ in model.modules()):
        raise InputError("recipe", step.recipe.name, f"one whose weights can learn, or adapters; {step.recipe.about}")
    if isinstance(step.recompute, tuple):
        sections = (model.embedding, model.head, *(block.modules for block, _ in model.blocks))
        ops = [op for modules in sections for op in forward_ops(modules, with_batch(step, 1))]
        names = list(dict.fromkeys(op.name for op in ops))
        for name in step.recompute:
            if name not in names:
                raise not_one_of("recompute", name, names)
    if some(layout.ep > 1) and not any(isinstance(x, m.Experts) for x, _ in model.modules()):
        raise InputError("layout.ep", layout.ep, f"1: {model.name} has no experts to share out", ["1"])
    (query,) = step.queries
    broadcast(batch=query.count, tokens=query.new, micro_batch=step.micro_batch, layout=layout)
    replicas = layout.dp * step.micro_batch
    if some(query.count % replicas):
        batch, groups = _first(query.count % replicas, query.count, replicas)
        near = sorted({max(1, batch // groups) * groups, ceil_div(batch, groups) * groups})
        raise InputError("batch", batch, f"a multiple of dp · micro_batch, {groups}", [str(n) for n in near])
    if some(query.new % layout.cp):
        tokens, ranks = _first(query.new % layout.cp, query.new, layout.cp)
        raise InputError("layout.cp", ranks, f"a divisor of the {tokens} tokens of a sequence")
    micro_batches = query.count // replicas
    check_micro_batches(step.schedule, layout.pp, micro_batches, layout.vp)
    return micro_batches


def _first(wrong: Count, *values: Count) -> tuple[int, ...]:
    """The values of the first element that is wrong."""
    arrays = np.broadcast_arrays(wrong, *values)
    place = np.flatnonzero(arrays[0])[0]
    return tuple(int(a.flat[place]) for a in arrays[1:])


def of_whole_shape(model: Model, step: Training, on: Machine) -> Deployment:
    """The whole machine under the first layout that the batch divides into and that fits."""

    def holds(deployment: Deployment) -> bool:
        try:
            return has_room(model, step, deployment)
        except InputError:  # a batch that does not divide
            return False

    deployment = whole_machine(on, lambda cluster: training_layouts(model, cluster), holds)
    try:
        check(model, step, deployment.layout)
    except InputError:
        return whole_machine(on, lambda cluster: training_layouts(model, cluster), lambda d: divides(model, step, d))
    return deployment


def divides(model: Model, step: Training, deployment: Deployment) -> bool:
    """Whether the batch divides into micro-batches of every replica."""
    try:
        check(model, step, deployment.layout)
    except InputError:
        return False
    return True


def has_room(model: Model, step: Training, deployment: Deployment) -> bool:
    """Whether the first and the last stage fit, without the times. Raises InputError as `train` does."""
    layout, micro = deployment.layout, with_batch(step, step.micro_batch)
    micro_batches = check(model, step, layout)
    _, ranks = pipeline(model, layout)
    copies = copies_of(ranks, step)
    for stage in {0, layout.pp - 1}:
        memory = _stage_memory(ranks[stage], copies[stage], micro, layout)
        memory = memory.keeping(_kept(step, stage, layout, micro_batches), micro)
        if some(memory.total > deployment.chip.capacity):
            return False
    return True
