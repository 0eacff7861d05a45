"""Passes of a training micro-batch: which pass an op belongs to, and what kind of work it is."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from roofline.declared.numbers.maths import is_array
from roofline.work import ops as o

PASSES: Mapping[str, int] = {"forward": 0, "recompute": 3, "backward": 1, "weight": 2}
"""Phase of an op → index of the micro-batch pass it belongs to: forward, backward, weight gradients, or the recomputed
part of the backward pass."""
ATTENTION, WORK, BESIDE = "attention", "work", "beside"
"""Kinds of work in a pass: attention, other work, and products that a collective overlaps with; other keys are axes."""
BESIDE_PHASES = ("backward", "weight")
"""Phases whose products a collective overlaps with."""


def by_pass(section: str, op: o.Op, kind: str) -> Hashable:
    """Group ops by section of the model, pass, and kind of work: a communication axis, attention, or other work."""
    what: Hashable = WORK
    if isinstance(op, o.Communicate):
        what = (op.axis, op.beside) if op.beside else op.axis
    elif isinstance(op.origin, o.Attend):
        what = ATTENTION
    elif isinstance(op, o.MatMul) and op.phase in BESIDE_PHASES and (is_array(op.gathered) or op.gathered > 1):
        what = BESIDE
    return section, PASSES[op.phase], what
