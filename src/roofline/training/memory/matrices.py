"""The weight matrices that an optimizer treats as matrices: their sides, and the state that follows from them.

Adafactor factors the second moment of a matrix into the means of its rows and of its columns. SOAP keeps a covariance
and its eigenvectors for each side. Muon orthogonalises a matrix. All three see matrices as the published code stores
them: queries, keys and values apart, and gate and up projections apart.

ZeRO gives each of N ranks a contiguous share, S/N of S parameters, whose N − 1 borders cut through matrices. What needs
a whole matrix is done by every rank that has a part of it. A border falls into a matrix of s parameters with
probability s/S, so that an average rank handles

    1/N + (1 − 1/N)·s/S

of each matrix (Distributed Muon, arXiv:2502.16982, algorithm 1), which for many ranks is one whole matrix. Matrices of
experts are shared among fewer ranks, separately. Tensor-parallel ranks treat their own part of a matrix as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofline.declared.numbers.maths import Count, ceil_div, some, where
from roofline.layout.layout import Layout
from roofline.model import modules as m
from roofline.training.memory.workspace import ModuleCounts, Parameters, parameters
from roofline.work.recipe import LARGEST_SIDE, Optimizer
from roofline.work.training import Training


@dataclass(frozen=True)
class Matrices:
    """Equal matrices of a rank: their sides and number. `routed`: of experts."""

    name: str
    rows: Count
    columns: Count
    number: Count
    routed: bool = False

    @property
    def size(self) -> Count:
        """Elements of one matrix."""
        return self.rows * self.columns

    def handled(self, learning: Parameters, layout: Layout) -> Count:
        """Matrices that a rank handles whole: 1/N + (1 − 1/N)·s/S of each, all without ZeRO."""
        ranks = layout.expert_sharers if self.routed else layout.sharers
        ranks, every = ranks if layout.zero else 1, learning.experts if self.routed else learning.dense
        return self.number * (1 / ranks + (1 - 1 / ranks) * self.size / every)


def matrices(modules: ModuleCounts, optimizer: Optimizer) -> Iterator[Matrices]:
    """The trainable matrices that an optimizer treats as such; embeddings and heads only with its `ends`."""
    for module, n in modules:
        end = isinstance(module, m.Embedding) or getattr(module, "part", "") == "head"
        if module.frozen or getattr(module, "tied", False) or (end and not optimizer.ends):
            continue
        name = module.name
        match module:
            case m.Embedding():
                yield Matrices(name, module.rows, module.width, n)
            case m.Experts():
                number = n * module.held * (3 if module.gated else 2)
                yield Matrices(name, module.hidden, module.inner, number, True)
            case m.ExpertLinear():
                yield Matrices(name, module.inputs, module.outputs, n * module.held, module.adapts)
            case m.LatentAttention():
                yield Matrices(name, module.rank, module.heads * (module.nope + module.v), n)
            case m.Router():
                yield Matrices(name, module.inputs, module.experts, n)
            case m.Linear():
                for outputs, number in _apart(module):
                    g = module.groups
                    yield Matrices(name, module.inputs // g, outputs // g, n * number * g)
            case _:  # vectors, and kernels of convolutions
                pass


def _apart(x: m.Linear) -> tuple[tuple[Count, int], ...]:
    """Outputs of the matrices that a fused product consists of, each with the number of such matrices."""
    if some(x.kv > 0):
        return (x.outputs - x.kv, 1), (x.kv // 2, 2)
    return ((x.outputs // 2, 2),) if x.gated else ((x.outputs, 1),)


def kept_side(side: Count) -> Count:
    """A side that SOAP preconditions, else 0: it leaves sides beyond LARGEST_SIDE as they are."""
    return where(side <= LARGEST_SIDE, side, 0)


def state_bytes(modules: ModuleCounts, step: Training, layout: Layout, shared: bool) -> Count:
    """Bytes of an optimizer's state of the trainable parameters of modules, the master copy included.

    Elementwise state, by the bits of a weight inside and outside matrices; for each matrix [r, c] further `factors` ·
    (r + c) bits, and `sides` · (r² + c²) bits. `shared`: sharded over the ranks that hold copies.
    """
    every = [(module, n) for module, n in modules if not module.frozen]
    optimizer, learning = step.optimizer, parameters(every)
    state = learning.bytes(step.precision.optimizer, layout, shared)
    if optimizer.elementwise:
        return state
    bits: dict[bool, Count] = {False: 0, True: 0}
    inside: dict[bool, Count] = {False: 0, True: 0}
    whole: Count = 0
    for x in matrices(every, optimizer):
        inside[x.routed] = inside[x.routed] + x.number * x.size
        bits[x.routed] = bits[x.routed] + optimizer.factors * x.number * (x.rows + x.columns)
        if optimizer.sides:
            squares = kept_side(x.rows) ** 2 + kept_side(x.columns) ** 2
            handled = x.handled(learning, layout) if shared else x.number
            whole = whole + optimizer.sides * handled * squares
    for routed, number, ranks in (
        (False, learning.dense, layout.sharers), (True, learning.experts, layout.expert_sharers)
    ):  # fmt: skip
        more = int(optimizer.others - optimizer.bits) * (number - inside[routed]) + bits[routed]
        state = state + (ceil_div(more, ranks) if shared else more) / 8
    return state + whole / 8
