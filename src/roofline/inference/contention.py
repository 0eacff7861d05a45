"""Communication overlapped with compute: the exposed part, and how much it slows the compute.

Sending x seconds beside w seconds of work takes

    max(w + f·h, w + x − h),   h = min(w, (1 − q)·x)

h is the hidden part and q the share that cannot be hidden: the first or the last of the pieces that a collective is cut
into. f is the share of the multiprocessors that the collective's kernels occupy meanwhile. The exposed time is x − h +
f·h.

Multiprocessors that are held for communication all the time, as DualPipe holds those of its exchanges, leave work
w / (1 − f) instead (arXiv:2412.19437 §3.5.1: 20 of 132).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.declared.numbers.maths import Count
from roofline.inference.span import NOTHING, Span
from roofline.kernels.target import Target

MULTIPROCESSORS_TAKEN: Mapping[str, int] = {"dp": 16, "cp": 16, "tp": 16, "ep": 20, "pp": 1}
"""Multiprocessors that the communication kernels of an axis occupy. tp: `num_sm` of Transformer Engine's user buffers
(pytorch/module/base.py). ep: DeepSeek's exchanges (arXiv:2412.19437 §3.2.2). dp, cp: one block for each of NCCL's
channels, assumed to be 16. pp: 1, assumed, for a copy from chip to chip."""
USUAL_MULTIPROCESSORS = 132
"""Multiprocessors of a chip whose number is not known."""


@dataclass(frozen=True)
class Contention:
    """Share of a chip that the communication of each axis occupies; zero under an ideal law."""

    shares: Mapping[str, float]

    def shown(self, axis: str, sent: Span, work: Span, apart: Count = 0.0, occupied: bool = False) -> Span:
        """Seconds that communication adds to work.

        `apart`: the share of it that cannot overlap. `occupied`: its multiprocessors are lost to all of the work.
        """
        share = self.shares.get(axis, 0.0)
        if occupied:
            more = Span(0.0, *work.times(share / (1 - share)).ends()[1:])
            return sent.minus(work + more) + more
        if sent is NOTHING:
            return NOTHING
        exposed = sent.minus(work).most(sent.times(apart))
        slowed = sent.minus(exposed).times(share)
        return exposed + Span(0.0, *slowed.ends()[1:])


def contention_on(target: Target) -> Contention:
    """Contention on a chip. Chips that copy by separate engines, as TPUs do, lose no compute."""
    if target.mode.name != "calibrated" or target.chip.kind != "gpu":
        return Contention({})
    units = target.chip.units or USUAL_MULTIPROCESSORS
    return Contention({axis: taken / units for axis, taken in MULTIPROCESSORS_TAKEN.items()})
