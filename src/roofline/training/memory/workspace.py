"""Peak memory of a training step besides kept activations: at the loss, or in a layer's backward pass.

At the loss there are logits and the gradient of the head's weights. In a layer's backward pass there are the streams of
its widest op, recomputed activations, and the gradient of its largest matrix before it is accumulated. Sharded weights
(ZeRO-3) are gathered meanwhile: the layer's, those of the prefetched next layer, and those outside layers, which FSDP's
root keeps from the forward pass on (torch/distributed/fsdp/_fully_shard, `_fsdp_state.py`, `_lazy_init`). Their
gradients are whole until they are reduced, and are copied if reduced in another format (`_fsdp_collectives.py`,
`foreach_reduce`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from roofline.declared.numbers.maths import Count, ceil_div, most, where
from roofline.layout.layout import Layout
from roofline.model import modules as m
from roofline.model.formats import FORMATS, Format
from roofline.model.model import Model
from roofline.work.recipe import TRAINABLE
from roofline.work.training import Training

ModuleCounts = Iterable[tuple[m.Module, Count]]
"""Modules, each with its number of occurrences."""

WORKSPACES = 2 * 2**25
"""Bytes of cuBLAS workspaces, from Hopper on: 32 MiB of PyTorch's (aten/src/ATen/cuda/CublasHandlePool.cpp,
`getChosenWorkspaceSize`), and 32 MiB of TransformerEngine's (pytorch/module/base.py)."""


BEING_REDUCED = 2
"""Chunks whose gradients are whole: one whose gradients add up, and one whose are being reduced meanwhile."""


@dataclass(frozen=True)
class Parameters:
    """Parameters of a rank; those of experts apart, because fewer ranks hold copies of them."""

    dense: Count
    experts: Count

    def bytes(self, fmt: Format, layout: Layout, shared: bool) -> Count:
        """Bytes at `fmt`; `shared`: sharded over the ranks that hold copies."""
        if not shared:
            return fmt.bytes(self.dense + self.experts)
        dense, experts = ceil_div(self.dense, layout.sharers), ceil_div(self.experts, layout.expert_sharers)
        return fmt.bytes(dense) + fmt.bytes(experts)


def parameters(modules: ModuleCounts) -> Parameters:
    """The parameters of modules, each with its number of occurrences."""
    dense: Count = 0
    experts: Count = 0
    for module, n in modules:
        if _of_experts(module):
            experts = experts + n * module.parameters
        else:
            dense = dense + n * module.parameters
    return Parameters(dense, experts)


def _of_experts(module: m.Module) -> bool:
    """Whether the ranks that share experts out share a module's weights out with them."""
    return isinstance(module, m.Experts) or (isinstance(module, m.ExpertLinear) and module.adapts)


def stored(modules: ModuleCounts, step: Training) -> Mapping[Format, Parameters]:
    """Parameters by the format in which the passes keep them.

    Weights in formats that no optimizer can update are those of frozen linear layers. Embedding, head, vectors and
    adapters stay in the stream's format (QLoRA, arXiv:2305.14314 §3: one storage type, one compute type).
    """
    weights = FORMATS[step.recipe.weights]
    other = step.precision.other if weights.bits < TRAINABLE else weights
    return _by_format(modules, lambda module: _matrix_format(module, step), other)


def travelling(modules: ModuleCounts, step: Training) -> Mapping[Format, Parameters]:
    """Parameters by the format in which they are gathered: the step's, else the recipe's, else their stored format.

    With fp8 only matrices of layers are gathered in fp8 (torchao, float8/fsdp_utils.py); frozen low-bit ones stay as
    stored.
    """
    asked, usual = step.gather_format, step.recipe.gathers
    whole = usual if asked in (None, "fp8") else asked
    if asked is None and whole is None:
        return stored(modules, step)
    weights = FORMATS[step.recipe.weights]
    other = FORMATS[whole] if whole is not None else step.precision.other if weights.bits < TRAINABLE else weights

    def matrix(module: m.Module) -> Format | None:
        kept = _matrix_format(module, step)
        if kept is not None and kept.bits < TRAINABLE:
            return kept
        return FORMATS["fp8"] if asked == "fp8" and _of_layer(module) else kept if asked is None else None

    return _by_format(modules, matrix, other)


def _of_layer(module: m.Module) -> bool:
    """Whether a module holds a matrix of a layer: no embedding, head or adapter vector."""
    return isinstance(module, (m.Linear, m.Experts, m.ExpertLinear)) and getattr(module, "part", "") != "head"


def _matrix_format(module: m.Module, step: Training) -> Format | None:
    """The format of a module's matrices where it differs from that of other weights, else None."""
    if FORMATS[step.recipe.weights].bits < TRAINABLE:
        return step.precision.of(module) if module.frozen else None
    if step.recipe.matrices is None or not _of_layer(module):
        return None
    kept = FORMATS[step.recipe.matrices]
    return kept if kept.bits >= TRAINABLE or module.frozen else None


def _by_format(
    modules: ModuleCounts, matrix_format: Callable[[m.Module], Format | None], other: Format
) -> Mapping[Format, Parameters]:
    """Parameters by format: matrices in the format that `matrix_format` gives, everything else in `other`."""
    rows: dict[Format, list[tuple[bool, Count]]] = {}
    for module, n in modules:
        routed, fmt = _of_experts(module), matrix_format(module)
        matrix = 0 if fmt is None else module.matrix
        if fmt is not None:
            rows.setdefault(fmt, []).append((routed, n * matrix))
        rows.setdefault(other, []).append((routed, n * (module.parameters - matrix)))
    return {
        f: Parameters(*(sum(n for routed, n in r if routed is of) for of in (False, True))) for f, r in rows.items()
    }


def total_bytes(formats: Mapping[Format, Parameters], layout: Layout, shared: bool) -> Count:
    """Bytes of parameters by format; `shared`: sharded over the ranks that hold copies."""
    return sum(p.bytes(fmt, layout, shared) for fmt, p in formats.items())


# -- moments -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Working:
    """Bytes that the passes of a rank need besides kept activations.

    `streams`: of the layer whose widest op and recomputation need most. `logits`: kept by the head and the loss;
    `logits_gradient`: their gradient, in the stream's format. `head`: the gradient of the head's weights; `table`: that
    of the embedding.
    """

    streams: Count
    logits: Count
    logits_gradient: Count
    head: Count
    table: Count


def peak_of(working: Working, rank: Model, micro: Training, layout: Layout, each: Count) -> Count:
    """Bytes at the largest of four peaks: the loss, the head's weights, a layer's backward pass, the embedding's.

    Weights that only one replica holds are never sharded or gathered, whatever the ZeRO stage.

    By the time of the embedding's gradient the micro-batch has released all of `each`.
    """
    blocks = [block.modules for block, _ in rank.blocks]
    loss = most(working.logits, working.logits_gradient + working.head)
    added: Count = 0
    for modules in blocks:
        added = most(added, _before_added(modules, micro))
    whole = added + most(most(loss, working.streams), working.table - each)
    if layout.zero < 3:
        return WORKSPACES + whole
    layer: Count = 0
    for modules in blocks:
        layer = most(layer, _whole_unit([(module, 1) for module in modules], micro, layout))
    outside = gathered_bytes([(x, 1) for x in (*rank.embedding, *rank.head)], micro, layout)
    units = [gathered_bytes([(x, 1) for x in modules], micro, layout) for modules in blocks]
    unit: Count = 0
    for size in units:
        unit = most(unit, size)
    if not micro.reshard:
        everything = sum(n * size for (_, n), size in zip(rank.blocks, units, strict=True))
        ahead, after = everything, everything
    else:
        ahead, after = unit, 2 * unit
    backward = after + layer + working.streams + working.head
    shared = outside + most(most(ahead + loss, backward), working.table + working.head - each)
    return WORKSPACES + where(layout.sharers > 1, shared, whole)


def ending_of(working: Working, rank: Model, micro: Training, layout: Layout) -> Count:
    """Bytes besides all gradients at the end of the backward pass, in the first layer.

    The weights of FSDP's root are still gathered, and its gradients not yet reduced.
    """
    if layout.zero < 3:
        return WORKSPACES + working.streams
    ends = [(x, 1) for x in (*rank.embedding, *rank.head)]
    unit: Count = 0
    for block, _ in rank.blocks:
        once = [(module, 1) for module in block.modules]
        unit = most(unit, 2 * gathered_bytes(once, micro, layout) + _whole_unit(once, micro, layout))
    shared = gathered_bytes(ends, micro, layout) + _whole_unit(ends, micro, layout) + unit
    return WORKSPACES + working.streams + where(layout.sharers > 1, shared, 0)


def gathered_bytes(modules: ModuleCounts, micro: Training, layout: Layout) -> Count:
    """Bytes of gathered weights; those of experts only where several ranks shard them."""
    every = travelling(modules, micro)
    dense, experts = (sum(f.bytes(getattr(p, part)) for f, p in every.items()) for part in ("dense", "experts"))
    return dense + where(layout.expert_sharers > 1, experts, 0)


def _whole_unit(modules: ModuleCounts, micro: Training, layout: Layout) -> Count:
    """Bytes of a layer's gradients before reduction, and of their copy in the reduction format."""
    learning = parameters((module, n) for module, n in modules if not module.frozen)
    stream, sent = micro.precision.other, reduced_in(micro)
    copy = 0 if micro.no_sync or sent.bits == stream.bits else sent.bytes(learning.dense + learning.experts)
    return stream.bytes(learning.dense + learning.experts) + copy


def _before_added(modules: Iterable[m.Module], micro: Training) -> Count:
    """Bytes of the gradients of a layer's matrices before they are accumulated, one for each shape.

    TransformerEngine accumulates in place and keeps a dummy gradient of each shape for autograd
    (pytorch/module/base.py, `get_dummy_wgrad`); for experts, one of a single expert.
    """
    sizes: dict[object, Count] = {}
    for module in modules:
        if module.frozen:
            continue
        if isinstance(module, m.Experts):
            wide = 2 * module.inner if module.gated else module.inner
            sizes[module.name] = module.hidden * (wide + module.inner)
        elif isinstance(module, (m.Linear, m.ExpertLinear)) and getattr(module, "part", "") != "head":
            groups = module.held if isinstance(module, m.ExpertLinear) else 1
            shape = (module.inputs, module.outputs)
            sizes[shape if all(isinstance(n, int) for n in shape) else module.name] = module.matrix // groups
    return micro.precision.other.bytes(sum(sizes.values()))


def reduced_in(micro: Training) -> Format:
    """The format in which gradients are reduced."""
    return FORMATS[micro.reduce_format or micro.recipe.gradients]


def in_a_row(step: Training, layout: Layout) -> int:
    """Micro-batches in a row on one chunk whose gradients are reduced together, under ZeRO-2."""
    return layout.pp if step.schedule == "interleaved" and layout.zero == 2 and not step.no_sync else 1


def adding_up(step: Training, layout: Layout) -> float:
    """Share of a stage's gradients that is whole while those of micro-batches in a row add up and are reduced."""
    return min(BEING_REDUCED / layout.vp, 1) if in_a_row(step, layout) > 1 else 0


def largest_matrix(modules: Iterable[m.Module]) -> Count:
    """Elements of the largest trainable matrix, including a head that shares the embedding's table."""
    size: Count = 0
    for module in modules:
        if module.frozen:
            continue
        if isinstance(module, m.Linear) and module.part == "head":
            size = most(size, module.inputs * module.outputs)
        elif isinstance(module, (m.Linear, m.Embedding, m.Experts, m.ExpertLinear)):
            size = most(size, module.matrix)
    return size
