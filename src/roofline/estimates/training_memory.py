"""Memory of a training step on one rank: weights, gradients, optimizer state, activations, what the passes need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from roofline.estimates.memory import Memory
from roofline.estimates.span import shaped
from roofline.layout.layout import Layout
from roofline.model import modules as m
from roofline.model.formats import FORMATS, Format
from roofline.model.maths import Count, ceil_div, is_array, least, most, where
from roofline.model.model import Model
from roofline.result import Figured, Units
from roofline.work import ops as o
from roofline.work.lower import lower
from roofline.work.recipe import TRAINABLE
from roofline.work.training import Training, kept_by

CONTEXT = 0.6e9
"""Bytes of a CUDA context, and below of one communicator's buffers: assumptions (formulas 0.5-0.6 and 0.3-0.4 GB)."""
COMMUNICATOR = 0.35e9
OFFLOADED = 1.0
"""Micro-batches whose activations stay on the chip where the others' are in the host's memory: the one under way."""
RESERVED = 0.96
"""What is allocated, in what the allocator reserves from the device: fragmentation."""


@dataclass(frozen=True)
class TrainingMemory(Figured):
    """Bytes on one rank of a stage: numbers or arrays.

    `weights`, `gradients`, `optimizer`: a rank's share of what ZeRO shares out. `activations`: kept by the
    micro-batches in flight; `each` of them keeps that much. `working`: what the peak of the backward pass needs
    besides: the streams of the widest op or their gradients, a layer that is run again, gathered weights, logits, the
    gradient of the embedding before it is added up. `context`: the runtime and its communicators, outside the
    allocator.
    """

    FIGURES: ClassVar[Units] = {
        **dict.fromkeys(("weights", "gradients", "optimizer", "activations", "working", "allocated", "context"), "B"),
        "total": "B", "each": "B", "in_flight": "",
    }  # fmt: skip

    weights: Count
    gradients: Count
    optimizer: Count
    activations: Count
    working: Count
    context: Count
    each: Count
    in_flight: Count

    @property
    def allocated(self) -> Count:
        """What the framework's allocator has handed out at its peak."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.working

    @property
    def total(self) -> Count:
        """What the device must have: reserved by the allocator, and outside it."""
        return self.allocated / RESERVED + self.context

    def keeping(self, in_flight: Count, micro: Training) -> TrainingMemory:
        """The same with so many micro-batches in flight; all but one of them in the host's memory where offloaded."""
        resident = least(in_flight, OFFLOADED) if "activations" in micro.offload else in_flight
        return replace(self, activations=resident * self.each, in_flight=in_flight)

    def beside(self, other: TrainingMemory) -> TrainingMemory:
        """Of a rank that holds another stage too, whose micro-batches are half of those in flight."""
        return replace(
            self, weights=self.weights + other.weights, gradients=self.gradients + other.gradients,
            optimizer=self.optimizer + other.optimizer, working=most(self.working, other.working),
            each=(self.each + other.each) / 2,
        )  # fmt: skip

    def on(self, capacity: float) -> Memory:
        """By the terms of every estimate: what is reserved beyond what is allocated is overhead."""
        return Memory(
            capacity, weights=self.weights, activations=self.activations + self.working, gradients=self.gradients,
            optimizer=self.optimizer, overhead=self.total - self.allocated,
        )  # fmt: skip

    def fuller(self, other: TrainingMemory) -> TrainingMemory:
        """The larger of two, element by element."""
        mine = self.total >= other.total
        names = [f.name for f in fields(self)]
        return TrainingMemory(**{name: where(mine, getattr(self, name), getattr(other, name)) for name in names})

    def shaped(self, shape: tuple[int, ...]) -> TrainingMemory:
        """Plain numbers where the shape is (), else arrays of that shape."""
        return TrainingMemory(**{f.name: shaped(getattr(self, f.name), shape) for f in fields(self)})


@dataclass(frozen=True)
class Parameters:
    """Parameters of a rank: those of experts apart, because fewer ranks hold copies of them."""

    dense: Count
    experts: Count

    def bytes(self, fmt: Format, layout: Layout, shared: bool) -> Count:
        """Bytes of one value a parameter; `shared`: shared out over the ranks that hold copies."""
        if not shared:
            return fmt.bytes(self.dense + self.experts)
        dense, experts = ceil_div(self.dense, layout.sharers), ceil_div(self.experts, layout.expert_sharers)
        return fmt.bytes(dense) + fmt.bytes(experts)


def parameters(modules: Iterable[tuple[m.Module, Count]]) -> Parameters:
    """The parameters of modules, each with the number of times it stands there."""
    dense: Count = 0
    experts: Count = 0
    for module, n in modules:
        if isinstance(module, m.Experts):
            experts = experts + n * module.parameters
        else:
            dense = dense + n * module.parameters
    return Parameters(dense, experts)


def stored(modules: Iterable[tuple[m.Module, Count]], step: Training) -> Mapping[Format, Parameters]:
    """Parameters by the format that they are kept in for the passes.

    Weights that no optimizer can update are those of frozen linear layers; embedding, head and vectors stay in the
    stream's format, and so do adapters (QLoRA, arXiv:2305.14314 §3: one storage type, one of computing).
    """
    every, weights = list(modules), FORMATS[step.recipe.weights]
    if weights.bits >= TRAINABLE:
        return {weights: parameters(every)}
    rows: dict[Format, list[tuple[bool, Count]]] = {}
    for module, n in every:
        routed, matrix = isinstance(module, m.Experts), module.matrix if module.frozen else 0
        rows.setdefault(step.precision.of(module), []).append((routed, n * matrix))
        rows.setdefault(step.precision.other, []).append((routed, n * (module.parameters - matrix)))
    return {
        f: Parameters(*(sum(n for routed, n in r if routed is of) for of in (False, True))) for f, r in rows.items()
    }


def stored_bytes(modules: Iterable[tuple[m.Module, Count]], step: Training, layout: Layout, shared: bool) -> Count:
    """Bytes of the weights of modules; `shared`: shared out over the ranks that hold copies."""
    return sum(p.bytes(fmt, layout, shared) for fmt, p in stored(modules, step).items())


def trained(*ranks: Model) -> Parameters:
    """The parameters that learn, of the stages that a rank holds."""
    return parameters((module, n) for rank in ranks for module, n in rank.modules() if not module.frozen)


def two_ended(step: Training, stages: int) -> bool:
    """Whether micro-batches come in at both ends, so that a rank holds two stages (DualPipe: arXiv:2412.19437 §3.2.1,
    table 2: parameters twice)."""
    return step.schedule == "dualpipe" and stages > 1


def sharing(step: Training, layout: Layout) -> Layout:
    """The layout by which gradients and state are shared out: the two copies of a stage are replicas of it too."""
    return replace(layout, dp=2 * layout.dp) if two_ended(step, layout.pp) else layout


def kept_bytes(modules: tuple[m.Module, ...], step: Training) -> Count:
    """Bytes that a layer keeps of one micro-batch for its backward pass."""
    precision = step.precision
    total: Count = 0
    for op, k in kept_by(modules, step):
        weights = precision.chosen(op.part, op.format)
        product = weights if weights.compute is not None and weights.bits < 16 else precision.activations
        total = total + product.bytes(k.products) + precision.activations.bytes(k.stream) + 4 * k.single
    return total


def input_bytes(modules: tuple[m.Module, ...], step: Training) -> Count:
    """Bytes of the stream that comes into a layer, which is all that full recomputation keeps."""
    ops = (op for module in modules for op in lower(module, step))
    first = next((op.input for op in ops if not isinstance(op, o.Communicate)), 0)
    return step.precision.activations.bytes(first)


def widest_bytes(modules: tuple[m.Module, ...], step: Training) -> Count:
    """The streams of a layer's widest op in the backward pass: its inputs and its output, or their gradients."""
    widest: Count = 0
    for module in modules:
        for op in lower(module, step):
            if not isinstance(op, (o.Communicate, o.Sum)):
                widest = most(widest, op.input + op.output)
    return step.precision.activations.bytes(widest)


@dataclass(frozen=True)
class LayerBytes:
    """Of one micro-batch: bytes that a layer keeps, of the stream that comes in, and of its widest op's streams."""

    kept: Count
    input: Count
    widest: Count

    def mapped(self, each: Callable[[Count], Count]) -> LayerBytes:
        """The same with every number put through `each`."""
        return LayerBytes(each(self.kept), each(self.input), each(self.widest))


def layer_bytes(modules: tuple[m.Module, ...], micro: Training) -> LayerBytes:
    """What one layer keeps and needs."""
    return LayerBytes(kept_bytes(modules, micro), input_bytes(modules, micro), widest_bytes(modules, micro))


def memory_of(
    rank: Model, micro: Training, layout: Layout, in_flight: Count, known: Mapping[int, LayerBytes] | None = None
) -> TrainingMemory:
    """Memory of a rank that keeps `in_flight` micro-batches' activations.

    With Ψ parameters a rank, N ranks with copies, and bytes w, g, s of a parameter's weight, gradient and state:
    Ψ·(w + g + s) without ZeRO, Ψ·(w + g + s/N), Ψ·(w + (g + s)/N), Ψ·(w + g + s)/N in stages 1, 2, 3
    (arXiv:1910.02054 §5). Activations: in flight · Σ over layers of what their ops keep, arXiv:2205.05198 made general.
    `known`: what the blocks keep, by their identity, where it has been worked out for several stages. Of DualPipe the
    copies of a stage share its state out too, so that this is half of what a rank holds of it.
    """
    precision, zero, full = micro.precision, layout.zero, micro.recompute == "full"
    learning = trained(rank)
    each: Count = 0
    working: Count = 0
    for block, n in rank.blocks:
        layer = layer_bytes(block.modules, micro) if known is None else known[id(block)]
        each = each + n * (layer.input if full else layer.kept)
        gathered = 2 * stored_bytes(((x, 1) for x in block.modules), micro, layout, False) if zero >= 3 else 0
        working = most(working, layer.widest + (layer.kept if full else 0) + gathered)
    working = working + kept_bytes(rank.head, micro) + (0 if zero >= 2 else precision.other.bytes(table(rank)))
    groups = sum(_several(d) for d in (layout.tp, layout.cp, layout.dp, layout.pp, layout.ep))
    layout = sharing(micro, layout)
    state = 0 if "optimizer" in micro.offload else learning.bytes(precision.optimizer, layout, zero >= 1)
    memory = TrainingMemory(
        stored_bytes(rank.modules(), micro, layout, zero >= 3), learning.bytes(precision.gradients, layout, zero >= 2),
        state, 0, working, CONTEXT + COMMUNICATOR * groups, each, 0,
    )  # fmt: skip
    return memory.keeping(in_flight, micro)


def table(rank: Model) -> Count:
    """Elements of the largest table of the embedding, or of the head where the stage has no embedding."""
    sizes = [x.inputs * x.outputs for x in rank.head if isinstance(x, m.Linear) and not x.frozen]
    sizes += [x.matrix for x in rank.embedding if isinstance(x, m.Embedding) and not x.frozen]
    largest: Count = 0
    for size in sizes:
        largest = most(largest, size)
    return largest


def _several(degree: Count) -> Count:
    return (degree > 1) * 1 if is_array(degree) else int(degree > 1)
