"""Passes of one micro-batch on a pipeline stage, and of all micro-batches through all stages.

A pass is a sum over the layers of a stage, split into work on the chip and communication by axis of the layout. Only
communication that does not overlap with work counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np

from roofline.declared.numbers.maths import Count, is_array, some
from roofline.declared.numbers.unique_rows import distinct
from roofline.inference.contention import Contention
from roofline.inference.plan import EMPTY, Plan, Total, grade_of
from roofline.inference.settings import Setup
from roofline.inference.span import NOTHING, Span, expected_alone, total
from roofline.kernels.law import smooth_max
from roofline.kernels.target import Target
from roofline.layout.layout import Layout
from roofline.layout.shard import handing, pipeline
from roofline.model.model import Model
from roofline.model.modules import ExpertLinear, Experts
from roofline.training.host import to_host
from roofline.training.layouts.degrees import MicroBatches
from roofline.training.memory.memory import two_ended
from roofline.training.memory.saved_activations import LayerBytes, kept_of, layer_bytes, layers_away
from roofline.training.pipeline.schedule import StageTimes, length, side_by_side
from roofline.work.checkpointing import layers_again
from roofline.work.passes import ATTENTION, BESIDE, BESIDE_PHASES, PASSES, WORK, by_pass
from roofline.work.step import Queries
from roofline.work.step import replace as changed
from roofline.work.training import FACING, Training, with_batch


# -- one micro-batch -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Passes:
    """Times of one micro-batch on one stage.

    forward, backward (with recomputation), weight: seconds, including exposed communication. `exchange`: the
    communication in them, by axis of the layout. `send`: seconds until the next stage has the stream.
    """

    forward: Span
    backward: Span
    weight: Span
    exchange: Mapping[str, Span]
    send: Span

    @property
    def busy(self) -> Span:
        """Seconds of one micro-batch: forward, backward and weight gradients."""
        return self.forward + self.backward + self.weight

    def mean(self, other: Passes) -> Passes:
        """The mean of two stages' passes, for a rank that alternates between both."""
        both = {name: getattr(self, name) + getattr(other, name) for name in ("forward", "backward", "weight", "send")}
        axes = dict.fromkeys((*self.exchange, *other.exchange))
        exchange = {axis: self.exchange.get(axis, NOTHING) + other.exchange.get(axis, NOTHING) for axis in axes}
        return Passes(
            exchange={axis: span.times(0.5) for axis, span in exchange.items()},
            **{name: span.times(0.5) for name, span in both.items()},
        )


APART = ("zb-h1", "zb-h2", "zb-v", *FACING)
"""Schedules that delay weight gradients."""


def span_of(t: Total) -> Span:
    """The span of a sum of ops."""
    return Span(t.floor, t.expected, t.low, t.high)


def _expected_of(t: Total) -> Span:
    return expected_alone(t.expected)


@dataclass(frozen=True)
class Sections:
    """Times of one layer of each block, of the embedding and of the head, by pass and kind of work."""

    totals: Mapping[Any, Total]
    alone: bool = False
    """Whether only expected seconds are worked out."""

    def grade(self, rank: Model) -> Any:
        """The grade of a rank's micro-batch."""
        layers = dict(layers_of(rank))
        parts = [t.times(layers[key[0]]) for key, t in self.totals.items() if key[0] in layers]
        both = reduce(Total.__add__, parts, EMPTY)
        return grade_of(both.graded, both.expected)

    def running_again(self, rank: Model, step: Training) -> Sections:
        """The sections with a rank's recomputation added to the backward pass, for all of its layers or a share of
        them."""
        layers = sum(int(n) for _, n in rank.blocks)
        again = layers_again(layers, step.recompute_layers, step.recompute_every)
        return self.all_again if again == layers else self._with_again(again / layers)

    @cached_property
    def all_again(self) -> Sections:
        """The sections with recomputation of all layers."""
        return self._with_again(1)

    def _with_again(self, share: float) -> Sections:
        merged = {key: t for key, t in self.totals.items() if key[1] != PASSES["recompute"]}
        for (section, number, what), t in self.totals.items():
            if number == PASSES["recompute"]:
                key = section, PASSES["backward"], what
                merged[key] = merged.get(key, EMPTY) + (t if share == 1 or section == "head" else t.times(share))
        return Sections(merged, self.alone)

    def of(self, rank: Model, number: int, what: Hashable) -> Span:
        """Seconds of a pass of a rank."""
        keys = (((section, number, what), n) for section, n in layers_of(rank))
        return total(self.spans[key].times(n) for key, n in keys if key in self.totals)

    @cached_property
    def spans(self) -> Mapping[Any, Span]:
        """The span of each sum."""
        of = _expected_of if self.alone else span_of
        return {key: of(t) for key, t in self.totals.items()}

    @property
    def longest_send(self) -> Span:
        """Longest seconds until the next stage has a stream; the last stage, which sends none, receives it."""
        return reduce(Span.most, (t for (_, _, what), t in self.spans.items() if what == "pp"), NOTHING)


def layers_of(rank: Model) -> Iterable[tuple[str, int]]:
    """The sections of a rank, each with its number of layers."""
    yield from ((name, 1) for name, modules in (("embedding", rank.embedding), ("head", rank.head)) if modules)
    yield from ((block.name, n) for block, n in rank.blocks)


HOST = "host"
"""Key among a pass's exchanges: what the chip waits for the host's launches of layers with experts."""
HOST_ENDS = 0.8, 1.25
"""Ends of the interval of the host's seconds, relative to the expected: an assumption."""
SHARP = 8.0
"""Sharpness of the longer of host and chip, since some kernels wait for their launch before all do: an assumption."""


def _launching(seconds: Count) -> Span:
    """Seconds of the host, with their interval."""
    return Span(0.0, seconds, *(end * seconds for end in HOST_ENDS))


def behind_host(passes: Passes, rank: Model, target: Target, step: Training) -> Passes:
    """Passes no shorter than the host takes to launch their layers with experts: for the backward twice as long.

    Where a framework loops over experts with adapters, it launches the kernels of each. While a send blocks a stage,
    the host launches nothing.
    """
    if target.mode.name != "calibrated":
        return passes
    sparse = [(x, int(n)) for block, n in rank.blocks for x in block.modules if isinstance(x, Experts)]
    looped = [
        (x, int(n)) for block, n in rank.blocks if any(isinstance(a, ExpertLinear) and a.adapts for a in block.modules)
        for x in block.modules if isinstance(x, Experts)
    ]  # fmt: skip
    each = target.engine.expert_layer_s * sum(n for _, n in sparse)
    forward, backward = target.engine.launches_of_expert(target.chip.generation)
    loops = target.engine.eager_launch_s * sum(n * x.held for x, n in looped) if forward else 0.0
    again = forward if step.recompute == "full" else 0.0
    first, second = each + forward * loops, 2 * each + (backward + again) * loops
    if not some(first > 0):
        return passes
    blocked = passes.exchange.get("pp", NOTHING).times(1 / 2)
    ahead = _behind(passes.forward.minus(blocked), _launching(first))
    behind = _behind((passes.backward + passes.weight).minus(blocked), _launching(second))
    return replace(
        passes, forward=passes.forward + ahead, backward=passes.backward + behind,
        exchange={**passes.exchange, HOST: ahead + behind},
    )  # fmt: skip


def _behind(work: Span, host: Span) -> Span:
    """Seconds that the chip waits for the host, which launches its work."""
    waited = (
        smooth_max(SHARP, own, launches) - own for own, launches in zip(work.ends()[1:], host.ends()[1:], strict=True)
    )
    return Span(0.0, *waited)


def passes_of(rank: Model, sections: Sections, micro: Training, layout: Layout, contention: Contention) -> Passes:
    """One micro-batch on a rank.

    Communication on the axes in the step's `overlap` is exposed only where it is longer than the work beside it, plus
    its slow-down of that work. The same holds for `ep` with DualPipe, which overlaps one micro-batch's token exchange
    with another's work (arXiv:2412.19437 §3.2.1), on multiprocessors that all work lacks meanwhile. A ring of keys and
    values overlaps with attention. Tensor-parallel collectives are cut into as many pieces as there are ranks, of which
    one has no product beside it (Transformer Engine's user buffers, pytorch/module/base.py, `num_splits`). Collectives
    issued beside a product's gradients overlap with them whatever `overlap` says, but not with weight gradients that
    the schedule delays. A send that does not overlap blocks both stages.
    """
    exchange: dict[str, Span] = {}
    passes: list[Span] = []
    hides = BESIDE_PHASES[:1] if micro.schedule in APART else BESIDE_PHASES
    overlaps = axes_beside(micro)
    occupied = micro.schedule in FACING and sections.of(rank, 0, "ep") is not NOTHING
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
                shown = contention.shown(
                    axis, sent, attention if axis == "cp" else work, occupied=occupied and axis == "ep"
                )
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
    """Axes whose communication overlaps with work; DualPipe always includes token exchanges."""
    return (*(step.overlap or ()), "ep") if step.schedule in FACING else step.overlap or ()


def offloaded(passes: Passes, rank: Model, known: Mapping[int, LayerBytes], micro: Training, chip: Any) -> Passes:
    """Add activation offloading: copies overlap with the forward and backward passes, and only the excess is
    exposed."""
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
    """One bound (expected, low, …) of the passes' seconds, for one chunk of a stage."""
    f, b, w, send = (getattr(x, end) for x in (passes.forward, passes.backward, passes.weight, passes.send))
    return StageTimes(f / chunks, b / chunks, w / chunks, send)


def on_ranks(step: Training, stages: Sequence[Passes]) -> Sequence[Passes]:
    """One micro-batch on the rank of each stage: with DualPipe the mean of its two stages."""
    if not two_ended(step, len(stages)):
        return stages
    return [one.mean(other) for one, other in zip(stages, reversed(stages), strict=True)]


def run_passes(step: Training, stages: Sequence[Passes], micro_batches: Count, chunks: int) -> Span:
    """All micro-batches through all stages. The interval is as wide, relatively, as the slowest rank's."""
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


def timed_sections(
    asked: Setup, micro: Training, layers: Model, among: MicroBatches | None = None, alone: bool = False
) -> tuple[Sections, Mapping[int, LayerBytes]]:
    """Times of a micro-batch by section, and the bytes that each block keeps, by the identity of the block in `layers`.

    For arrays every distinct micro-batch is computed once: numbers of replicas and micro-batches do not change a
    micro-batch, except through the distance to the next stage. `among`: those of a whole search, computed at once.
    `alone`: only expected seconds are worked out.
    """
    layout = asked.layout
    capacity = layout.capacity if layout.capacity is not None else 0
    numbers = (
        layout.tp, layout.cp, layout.ep, layout.expert_tp, layout.imbalance, capacity, micro.tokens_each, micro.batch,
    )  # fmt: skip
    columns = [v for v in numbers if is_array(v)]
    alike = distinct(columns) if columns and among is None else None

    def few(value: Count) -> Count:
        return value if alike is None or not is_array(value) else alike.take(value)

    tp, cp, ep, etp, imbalance, capacity, tokens, batch = map(few, numbers)
    if among is not None:
        tp, cp, ep, etp, batch = among.tp, among.cp, among.ep, among.etp, among.micro
    one_stage = replace(
        layout, tp=tp, cp=cp, ep=ep, etp=etp, dp=ep * etp, imbalance=imbalance, shard=None, zero=0, pp=1, vp=1,
        capacity=None if layout.capacity is None else capacity, stages=(),
    )  # fmt: skip
    step = with_batch(micro, batch) if micro.lengths else changed(micro, (Queries(0, tokens, batch),))
    totals, kept = _sections_of(asked, step, one_stage)

    index = among.index if among is not None else None if alike is None else alike.index
    totals = {**totals}
    if alone:
        totals = {key: Total(expected=t.expected) for key, t in totals.items()}
    if index is not None:
        totals = {key: t.at(index) for key, t in totals.items()}
        kept = [k.at(index) for k in kept]
    sections = Sections({**totals, **Plan(handing(layers), asked.target).totals(micro, by_pass)}, alone)
    blocks = [block for block, _ in layers.blocks]
    known = {id(block): k for block, k in zip(blocks, kept, strict=False)}
    return sections, {**{id(block): LayerBytes(0, 0, 0, 0) for block in blocks[len(kept) :]}, **known}


MOST_KNOWN = 32
"""Micro-batches whose times are cached; replicas, stages and schedules ask for the same ones in turn."""


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch, identified by everything that its times depend on."""

    key: tuple[Hashable, ...]
    asked: Setup = field(compare=False)
    micro: Training = field(compare=False)
    layout: Layout = field(compare=False)


def _sections_of(asked: Setup, micro: Training, layout: Layout) -> tuple[Mapping[Any, Total], Sequence[LayerBytes]]:
    """Times of a micro-batch by section, and the bytes that each block keeps."""
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
    """Times of a micro-batch's layers and ends by pass, and the bytes that a layer of each block keeps."""
    layers, _ = pipeline(one.asked.model, one.layout)
    kept = [layer_bytes(b.modules, one.micro, one.asked.engine.retained) for b, _ in layers.blocks]
    return Plan(layers, one.asked.target).totals(one.micro, by_pass), kept
