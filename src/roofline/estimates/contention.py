"""Communication beside work: what of it shows, and what it costs the work that it travels beside.

Sending x seconds beside w seconds of work takes

    max(w + f·h, w + x − h),   h = min(w, (1 − q)·x)

h is hidden and q the share that cannot be: the first or the last of the pieces that a collective is cut in. f is the
share of the multiprocessors that the collective's kernels take from the work meanwhile. It shows x − h + f·h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.declared.maths import Count
from roofline.estimates.span import NOTHING, Span
from roofline.machine.target import Target

MULTIPROCESSORS_TAKEN: Mapping[str, int] = {"dp": 16, "cp": 16, "tp": 16, "ep": 20, "pp": 1}
"""Multiprocessors of an axis's kernels. tp: `num_sm` of Transformer Engine's user buffers (pytorch/module/base.py); ep:
of DeepSeek's exchanges (arXiv:2412.19437 §3.2.2). dp, cp: a block for each of NCCL's channels, of which 16 are assumed.
pp: one, assumed: a copy from chip to chip."""
USUAL_MULTIPROCESSORS = 132
"""Those of a chip whose number is not known."""


@dataclass(frozen=True)
class Contention:
    """The share of a chip that the communication of each axis takes; none where the law is of perfect kernels."""

    shares: Mapping[str, float]

    def shown(self, axis: str, sent: Span, work: Span, apart: Count = 0.0) -> Span:
        """Seconds that sending adds to work; `apart`: the share of it that cannot be beside any."""
        if sent is NOTHING:
            return NOTHING
        exposed = sent.minus(work).most(sent.times(apart))
        slowed = sent.minus(exposed).times(self.shares.get(axis, 0.0))
        return exposed + Span(0.0, *slowed.ends()[1:])


def contention_on(target: Target) -> Contention:
    """Of the chip: what copies by engines of its own, as TPUs do, takes nothing from the work."""
    if target.mode.name != "calibrated" or target.chip.kind != "gpu":
        return Contention({})
    units = target.chip.units or USUAL_MULTIPROCESSORS
    return Contention({axis: taken / units for axis, taken in MULTIPROCESSORS_TAKEN.items()})
