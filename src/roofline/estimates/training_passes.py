"""The passes of one micro-batch on a pipeline stage, and those of all micro-batches through all stages.

A pass is a sum over the layers of a stage, by what is done: work on the chip, and communication by axis of the layout,
of which only counts what does not travel beside work.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np

from roofline.declared.maths import Count, is_array
from roofline.distinct import distinct
from roofline.estimates.contention import Contention
from roofline.estimates.plan import EMPTY, Plan, Total, grade_of
from roofline.estimates.schedule import (
    StageTimes,
    length,
    side_by_side,
)
from roofline.estimates.settings import Setup
from roofline.estimates.span import NOTHING, Span, total
from roofline.estimates.training_host import to_host
from roofline.estimates.training_kept import LayerBytes, kept_of, layer_bytes, layers_away
from roofline.estimates.training_memory import two_ended
from roofline.layout.layout import Layout
from roofline.layout.shard import handing, pipeline
from roofline.model.model import Model
from roofline.work import ops as o
from roofline.work.checkpointing import layers_again
from roofline.work.step import Queries
from roofline.work.step import replace as changed
from roofline.work.training import Training, with_batch

PASSES: Mapping[str, int] = {"forward": 0, "recompute": 3, "backward": 1, "weight": 2}
"""The phase of an op → the pass of a micro-batch that it belongs to: forward, backward, weight gradients, and what of
the backward pass is run again (`Sections.running_again`)."""


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

    def mean(self, other: Passes) -> Passes:
        """Of a rank that takes turns with two stages: a micro-batch of each, over two."""
        both = {name: getattr(self, name) + getattr(other, name) for name in ("forward", "backward", "weight", "send")}
        axes = dict.fromkeys((*self.exchange, *other.exchange))
        exchange = {axis: self.exchange.get(axis, NOTHING) + other.exchange.get(axis, NOTHING) for axis in axes}
        return Passes(
            exchange={axis: span.times(0.5) for axis, span in exchange.items()},
            **{name: span.times(0.5) for name, span in both.items()},
        )


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


def span_of(t: Total) -> Span:
    """The seconds of a sum of ops."""
    return Span(t.floor, t.expected, t.low, t.high)


@dataclass(frozen=True)
class Sections:
    """The times of one layer of each block and of the ends, by pass and by what is done."""

    totals: Mapping[Any, Total]

    def grade(self, rank: Model) -> Any:
        """The grade of a rank's micro-batch."""
        layers = dict(layers_of(rank))
        parts = [t.times(layers[key[0]]) for key, t in self.totals.items() if key[0] in layers]
        both = reduce(Total.__add__, parts, EMPTY)
        return grade_of(both.graded, both.expected)

    def running_again(self, rank: Model, step: Training) -> Sections:
        """The same with what a rank runs again in its backward pass: of all its layers, or of a share of them."""
        layers = sum(int(n) for _, n in rank.blocks)
        again = layers_again(layers, step.recompute_layers, step.recompute_every)
        return self.all_again if again == layers else self._with_again(again / layers)

    @cached_property
    def all_again(self) -> Sections:
        """The same with what all layers run again."""
        return self._with_again(1)

    def _with_again(self, share: float) -> Sections:
        merged = {key: t for key, t in self.totals.items() if key[1] != PASSES["recompute"]}
        for (section, number, what), t in self.totals.items():
            if number == PASSES["recompute"]:
                key = section, PASSES["backward"], what
                merged[key] = merged.get(key, EMPTY) + (t if share == 1 else t.times(share))
        return Sections(merged)

    def of(self, rank: Model, number: int, what: Hashable) -> Span:
        """Seconds of a pass of a rank."""
        keys = (((section, number, what), n) for section, n in layers_of(rank))
        return total(self.spans[key].times(n) for key, n in keys if key in self.totals)

    @cached_property
    def spans(self) -> Mapping[Any, Span]:
        """The seconds of each sum."""
        return {key: span_of(t) for key, t in self.totals.items()}

    @property
    def longest_send(self) -> Span:
        """Until a stream is at the next stage: the last one, which sends none, receives it."""
        return reduce(Span.most, (t for (_, _, what), t in self.spans.items() if what == "pp"), NOTHING)


def layers_of(rank: Model) -> Iterable[tuple[str, int]]:
    """The sections of a rank, each with its number of layers."""
    yield from ((name, 1) for name, modules in (("embedding", rank.embedding), ("head", rank.head)) if modules)
    yield from ((block.name, n) for block, n in rank.blocks)


def passes_of(rank: Model, sections: Sections, micro: Training, layout: Layout, contention: Contention) -> Passes:
    """One micro-batch on a rank.

    Of the axes in the step's `overlap`, and of `ep` with DualPipe, which runs one micro-batch's exchange of tokens
    beside another's work (arXiv:2412.19437 §3.2.1), only what is longer than the work beside it shows, and what
    the work is slowed. A ring of keys and values travels beside attention. Collectives of tensor parallelism are cut
    in as many pieces as there are ranks, of which one has no product beside it (Transformer Engine's user buffers,
    pytorch/module/base.py, `num_splits`). Collectives beside a product's gradients are beside them whatever overlaps;
    not beside those of its weights where the schedule puts them off. A stage's output that does not overlap is waited
    for by either side.
    """
    exchange: dict[str, Span] = {}
    passes: list[Span] = []
    hides = BESIDE_PHASES[:1] if micro.schedule in APART else BESIDE_PHASES
    overlaps = axes_beside(micro)
    for number in range(3):
        attention = sections.of(rank, number, ATTENTION)
        products = sections.of(rank, number, WORK) + sections.of(rank, number, BESIDE)
        work = products + attention
        for axis in ("tp", "ep", "cp"):
            sent = sections.of(rank, number, axis)
            if axis not in overlaps or (axis == "cp" and layout.exchange != "ring"):
                shown = sent
            elif axis == "tp":
                shown = contention.shown(axis, sent, products, apart=1 / layout.tp)
            else:
                shown = contention.shown(axis, sent, attention if axis == "cp" else work)
            for phase in BESIDE_PHASES:
                gradients = sections.of(rank, PASSES[phase], BESIDE) if phase in hides else NOTHING
                shown = shown + contention.shown(axis, sections.of(rank, number, (axis, phase)), gradients)
            exchange[axis] = exchange.get(axis, NOTHING) + shown
            work = work + shown
        passes.append(work)
    forward, backward, weight = passes
    send = sections.of(rank, 0, "pp")
    if "pp" in overlaps:
        return Passes(forward, backward, weight, exchange, send)
    waited = sections.longest_send.times(layout.vp)
    return Passes(forward + waited, backward + waited, weight, {**exchange, "pp": waited.times(2)}, NOTHING)


def axes_beside(step: Training) -> tuple[str, ...]:
    """The axes whose communication travels beside work; DualPipe's exchanges always do."""
    return (*(step.overlap or ()), "ep") if step.schedule == "dualpipe" else step.overlap or ()


def offloaded(passes: Passes, rank: Model, known: Mapping[int, LayerBytes], micro: Training, chip: Any) -> Passes:
    """Activations go to the host beside the forward pass and come back beside the backward; what is longer shows."""
    number = sum(int(n) for _, n in rank.blocks)
    away = layers_away(number, micro)
    if not away:
        return passes
    kept = kept_of([(known[id(b)], n) for b, n in rank.blocks], micro)
    moved = to_host(kept if away == number else kept * away / number, chip)
    back = passes.backward + passes.weight
    forward, backward = passes.forward + moved.minus(passes.forward), passes.backward + moved.minus(back)
    return replace(passes, forward=forward, backward=backward)


def stage_times(passes: Passes, end: str, chunks: int) -> StageTimes:
    """One end of the passes' seconds, of one of a stage's chunks."""
    f, b, w, send = (getattr(x, end) for x in (passes.forward, passes.backward, passes.weight, passes.send))
    return StageTimes(f / chunks, b / chunks, w / chunks, send)


def on_ranks(step: Training, stages: Sequence[Passes]) -> Sequence[Passes]:
    """A micro-batch on the rank of each stage: with DualPipe the mean of its own and of that at the other end."""
    if not two_ended(step, len(stages)):
        return stages
    return [one.mean(other) for one, other in zip(stages, reversed(stages), strict=True)]


def run_passes(step: Training, stages: Sequence[Passes], micro_batches: Count, chunks: int) -> Span:
    """The passes of all micro-batches through all stages. The interval is as wide as the slowest rank's."""
    busy = reduce(lambda a, b: a.where(a.expected >= b.expected, b), (p.busy for p in on_ranks(step, stages)))
    axes = np.ndim(busy.expected + micro_batches)
    kinds = {id(p): p for p in stages}
    ends = {key: [stage_times(p, end, chunks) for end in ("expected", "floor")] for key, p in kinds.items()}
    if axes:
        times = {key: side_by_side(both, axes) for key, both in ends.items()}
        lengths = np.asarray(length(step.schedule, [times[id(p)] for p in stages], micro_batches, chunks))
        expected, floor = np.broadcast_to(lengths, (2, *lengths.shape[-axes:]))  # of one, where both are equal
    else:
        expected, floor = (
            length(step.schedule, [ends[id(p)][end] for p in stages], micro_batches, chunks) for end in (0, 1)
        )
    scale = expected / busy.expected
    return Span(floor, expected, busy.low * scale, busy.high * scale).resting_on(floor)


def timed_sections(asked: Setup, micro: Training, layers: Model) -> tuple[Sections, Mapping[int, LayerBytes]]:
    """The times of a micro-batch by section, and what each block keeps of it, by the identity of the block in `layers`.

    Of arrays once for every distinct micro-batch: numbers of replicas and of micro-batches make no difference to one,
    but for where the next stage is.
    """
    layout = asked.layout
    capacity = layout.capacity if layout.capacity is not None else 0
    numbers = (
        layout.tp, layout.cp, layout.ep, layout.expert_tp, layout.imbalance, capacity, micro.tokens_each, micro.batch,
    )  # fmt: skip
    columns = [v for v in numbers if is_array(v)]
    alike = distinct(columns) if columns else None

    def few(value: Count) -> Count:
        return value if alike is None or not is_array(value) else alike.take(value)

    tp, cp, ep, etp, imbalance, capacity, tokens, batch = map(few, numbers)
    alone = replace(
        layout, tp=tp, cp=cp, ep=ep, etp=etp, dp=ep * etp, imbalance=imbalance, shard=None, zero=0, pp=1, vp=1,
        capacity=None if layout.capacity is None else capacity, stages=(),
    )  # fmt: skip
    step = with_batch(micro, batch) if micro.lengths else changed(micro, (Queries(0, tokens, batch),))
    totals, kept = _sections_of(asked, step, alone)

    def gather(value: Count) -> Count:
        return value[alike.index] if alike is not None and is_array(value) and value.ndim else value

    sends = Plan(handing(layers), asked.target).totals(micro, by_pass)
    sections = Sections({**{key: t.mapped(gather) for key, t in totals.items()}, **sends})
    blocks = [block for block, _ in layers.blocks]
    known = {id(block): k.mapped(gather) for block, k in zip(blocks, kept, strict=False)}
    return sections, {**{id(block): LayerBytes(0, 0, 0, 0) for block in blocks[len(kept) :]}, **known}


MOST_KNOWN = 32
"""Micro-batches whose times are kept: those that replicas, stages and schedules ask for again one after another."""


@dataclass(frozen=True)
class MicroBatch:
    """What is asked, known by everything that its times depend on."""

    key: tuple[Hashable, ...]
    asked: Setup = field(compare=False)
    micro: Training = field(compare=False)
    layout: Layout = field(compare=False)


def _sections_of(asked: Setup, micro: Training, layout: Layout) -> tuple[Mapping[Any, Total], Sequence[LayerBytes]]:
    """The times of a micro-batch by section, and what each block keeps of it."""
    names = ("recompute", "flash", "loss", "recipe", "optimizer", "offload", "lengths")
    sizes = [getattr(layout, f.name) for f in fields(layout)] + list(vars(micro.queries[0]).values())
    key = (
        asked.model, asked.deployment.chip, asked.deployment.cluster, asked.formats, asked.engine, asked.law,
        *(getattr(micro, name) for name in names),
        *((v.shape, v.astype(float).tobytes()) if is_array(v) else v for v in sizes),
    )  # fmt: skip
    return timed_micro_batch(MicroBatch(key, asked, micro, layout))


@lru_cache(maxsize=MOST_KNOWN)
def timed_micro_batch(one: MicroBatch) -> tuple[Mapping[Any, Total], Sequence[LayerBytes]]:
    """The seconds of its layers and ends by pass, and the bytes that a layer of each block keeps."""
    layers, _ = pipeline(one.asked.model, one.layout)
    kept = [layer_bytes(b.modules, one.micro) for b, _ in layers.blocks]
    return Plan(layers, one.asked.target).totals(one.micro, by_pass), kept
