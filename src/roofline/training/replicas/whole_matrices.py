"""Work of an optimizer on whole matrices, Muon's and SOAP's, and the bytes that a rank gathers for it.

Under ZeRO a rank handles whole every matrix of which it has a part (`Matrices.handled`): it gathers the rest of the
gradient, in 16 bits (arXiv:2502.16982 §2.3), and keeps its own part of the update. It receives (1 − 1/N)·Σ s²/S
elements. Tensor-parallel ranks treat their own part of a matrix (Megatron-LM's --muon-tp-mode blockwise).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline.declared.numbers.maths import Count, least, most
from roofline.layout.layout import Layout
from roofline.model.formats import FORMATS
from roofline.model.model import Model
from roofline.training.memory.matrices import Matrices, kept_side, matrices
from roofline.training.memory.workspace import ModuleCounts, Parameters
from roofline.work import ops as o
from roofline.work.recipe import EIGENVECTORS_EVERY, Optimizer

GATHERED_BYTES = 2
"""Bytes of an element of a gathered gradient, in bf16 (arXiv:2502.16982 §2.3)."""


def whole_ops(holds: Sequence[Model], learning: Parameters, layout: Layout, optimizer: Optimizer) -> Iterator[o.Op]:
    """The products of an optimizer's update on one rank besides its elementwise work."""
    for x in matrices(_held(holds), optimizer):
        if optimizer.rounds:
            yield from _orthogonalised(x, x.handled(learning, layout) * optimizer.rounds)
        if optimizer.sides:
            yield from _preconditioned(x, x.handled(learning, layout))


def whole_bytes(
    holds: Sequence[Model], learning: Parameters, layout: Layout, routed: bool, optimizer: Optimizer
) -> Count:
    """Bytes of an all-gather that completes a rank's cut matrices: one matrix of the mean size of those cut."""
    every = learning.experts if routed else learning.dense
    cut = [x for x in matrices(_held(holds), optimizer) if x.routed == routed]
    return GATHERED_BYTES * sum(x.number * x.size * (x.size / every) for x in cut) if layout.zero else 0


def _held(holds: Sequence[Model]) -> ModuleCounts:
    return (x for rank in holds for x in rank.modules())


def _orthogonalised(x: Matrices, many: Count) -> Iterator[o.Op]:
    """The products of Newton–Schulz: X·Xᵀ, its square, and their product with X (Muon, Jordan 2024)."""
    short, long = least(x.rows, x.columns), most(x.rows, x.columns)
    for k, n in ((long, short), (short, short), (short, long)):
        yield o.MatMul(
            name=f"{x.name}_orthogonalise", phase="update", m=short, k=k, n=n, groups=many,
            input=many * short * k, output=many * short * n,
        )  # fmt: skip


def _preconditioned(x: Matrices, many: Count) -> Iterator[o.Op]:
    """SOAP's products in fp32, for each side that it preconditions (arXiv:2409.11321, algorithms 3 and 4).

    Gradient and momentum into the eigenbasis, the update out of it, and the covariance; a power iteration and a QR
    decomposition (8/3·s³ FLOPs, at the speed of products at best) every EIGENVECTORS_EVERY steps.
    """
    for side, other in ((x.rows, x.columns), (x.columns, x.rows)):
        s = kept_side(side)
        power = (1 + 4 / 3) / EIGENVECTORS_EVERY * many
        for name, columns, times in (("precondition", other, 4 * many), ("eigenvectors", s, power)):
            yield o.MatMul(
                name=f"{x.name}_{name}", phase="update", m=s, k=s, n=columns, groups=times, format=FORMATS["fp32"],
                input=2 * times * s * columns, output=2 * times * s * columns,
            )  # fmt: skip
