"""Distributed Muon: which matrices a rank orthogonalises, and the bytes that it gathers for them.

Newton–Schulz needs whole matrices. ZeRO gives each of N ranks a contiguous share, S/N of S parameters, whose borders
cut through matrices. As in Distributed Muon (arXiv:2502.16982, algorithm 1), a rank gathers the rest of every matrix
that is partly in its share, in 16 bits, orthogonalises it whole, and keeps its own part of the update. Each of the N −
1 borders therefore adds one matrix to orthogonalise and gather. A border falls into a matrix of s parameters with
probability s/S, so an average rank

    orthogonalises   1/N + (1 − 1/N)·s/S   of each matrix
    receives         (1 − 1/N)·Σ s²/S      elements

which for many ranks is one whole matrix each, however many there are. Matrices of experts are shared among fewer ranks,
separately. Tensor-parallel ranks orthogonalise their own part of a matrix (Megatron-LM's --muon-tp-mode blockwise).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from roofline.declared.maths import Count, least, most
from roofline.layout.layout import Layout
from roofline.model import modules as m
from roofline.model.model import Model
from roofline.training.memory.workspace import Parameters
from roofline.work import ops as o

GATHERED_BYTES = 2
"""Bytes of an element of a gathered gradient, in bf16 (arXiv:2502.16982 §2.3)."""


@dataclass(frozen=True)
class Matrices:
    """Equal matrices of a rank that Newton–Schulz runs on: their sides and number; `routed`: of experts."""

    name: str
    rows: Count
    columns: Count
    number: Count
    routed: bool

    @property
    def size(self) -> Count:
        """Elements of one matrix."""
        return self.rows * self.columns


def learning_matrices(holds: Sequence[Model]) -> Iterator[Matrices]:
    """The trainable matrices of layers, over the stages that a rank holds; no embedding, head or vector."""
    for module, n in (x for rank in holds for x in rank.modules()):
        if module.frozen or getattr(module, "part", "") == "head" or getattr(module, "tied", False):
            continue
        if isinstance(module, m.Experts):
            number = n * module.held * (3 if module.gated else 2)
            yield Matrices(module.name, module.hidden, module.inner, number, True)
        elif isinstance(module, m.ExpertLinear):
            yield Matrices(module.name, module.inputs, module.outputs, n * module.experts, False)
        elif isinstance(module, m.Linear):
            g = module.groups
            yield Matrices(module.name, module.inputs // g, module.outputs // g, n * g, False)


def orthogonalised(holds: Sequence[Model], learning: Parameters, layout: Layout, rounds: int) -> list[o.Op]:
    """The products of Newton–Schulz on one rank: X·Xᵀ, its square, and their product with X (Muon, Jordan 2024)."""
    ops: list[o.Op] = []
    for x in learning_matrices(holds):
        ranks, every = _shares(x.routed, learning, layout)
        many = x.number * (1 / ranks + (1 - 1 / ranks) * x.size / every) * rounds
        short, long = least(x.rows, x.columns), most(x.rows, x.columns)
        ops += [
            o.MatMul(
                name=f"{x.name}_orthogonalise", phase="update", m=short, k=k, n=n, groups=many,
                input=many * short * k, output=many * short * n,
            )
            for k, n in ((long, short), (short, short), (short, long))
        ]  # fmt: skip
    return ops


def whole_bytes(holds: Sequence[Model], learning: Parameters, layout: Layout, routed: bool) -> Count:
    """Bytes of an all-gather that completes a rank's cut matrices: one matrix of the mean size of those cut."""
    every = learning.experts if routed else learning.dense
    squares = sum(x.number * x.size * (x.size / every) for x in learning_matrices(holds) if x.routed == routed)
    return GATHERED_BYTES * squares if layout.zero else 0


def _shares(routed: bool, learning: Parameters, layout: Layout) -> tuple[Count, Count]:
    """Ranks that share the parameters, and the number of parameters."""
    ranks = layout.expert_sharers if routed else layout.sharers
    return ranks if layout.zero else 1, learning.experts if routed else learning.dense
