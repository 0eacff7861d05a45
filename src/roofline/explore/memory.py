"""Memory over context: what grows with it, what does not, and where each chip ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.bracketing import spread
from roofline.declared.checks import count
from roofline.declared.kinds import Given
from roofline.declared.maths import Count
from roofline.estimates.deployment import Deployment, Machine
from roofline.estimates.fit import Fit
from roofline.estimates.memory import Memory
from roofline.estimates.settings import setup
from roofline.explore.sweep import Values, longest_context
from roofline.machine.engine import Engine
from roofline.machine.named_chip import chip_named
from roofline.model.model import Model

AMPLE = "peak=1T,bw=1T,mem=1P"
"""A chip with memory enough for anything: that of a curve without chips."""


@dataclass(frozen=True)
class Limit:
    """Where a chip ends: `longest` context that fits, 0 where none does, None where the model's own ends first."""

    deployment: Deployment
    engine: Engine
    longest: int | None


@dataclass(frozen=True)
class MemoryCurve:
    """`memory` of the fullest rank for `batch` sequences, of all replicas, over `context` [n]; the chips' ends."""

    batch: int
    context: Values
    memory: Memory
    limits: tuple[Limit, ...]

    @property
    def terms(self) -> tuple[tuple[str, Values], ...]:
        """Bytes by term, each [n], from the bottom up; none that is nothing throughout."""
        m = self.memory
        named = (
            ("weights", m.weights), ("activations and overhead", m.activations + m.overhead),
            ("recurrent state", m.state), ("KV cache", m.cache),
        )  # fmt: skip
        return tuple((name, values) for name, values in named if np.any(values))

    @property
    def total(self) -> Values:
        """Sum of the terms, [n]."""
        return self.memory.total


def memory_over_context(
    model: Model, *, on: Sequence[Machine] = (), layout: object = None, batch: int = 1, most: int | None = None,
    **options: Given,
) -> MemoryCurve:  # fmt: skip
    """Weights, activations with the engine's overhead, recurrent state and KV cache, over context up to `most`.

    Of the fullest rank of a layout; `batch` is shared out over its replicas. Where none is given, the layout is that
    of the first machine as a whole. The terms and the limits are those of `fit`, which has the `options` too. Raises
    InputError for what is not understood.
    """
    size, last = count("batch", batch, 1), longest_context(model, most)
    first = setup(model, on=on[0] if on else AMPLE, layout=layout, **options)
    others = [setup(model, on=machine, layout=first.layout, **options) for machine in on[1:]]
    lengths = spread(min(256, last), last)
    ends = [Fit(asked, size, last, asked.engine.chunk) for asked in (first, *others)[: len(on)]]
    limits = tuple(Limit(f.deployment, f.engine, _within(f.longest_context, last)) for f in ends)
    ample = replace(first, deployment=replace(first.deployment, chip=chip_named(AMPLE)))
    return MemoryCurve(size, lengths, Fit(ample, size, lengths, first.engine.chunk).memory, limits)


def _within(longest: Count | None, last: int) -> int | None:
    """The longest context where it ends before the last one drawn, None beyond."""
    return None if longest is None or longest >= last else int(longest)
