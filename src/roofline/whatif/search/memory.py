"""Memory over context: the terms that grow with it, the constant ones, and the limit of each chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.declared.checks import count
from roofline.declared.kinds import Given
from roofline.declared.numbers.bracketing import spread
from roofline.declared.numbers.maths import Count
from roofline.engines.engine import Engine
from roofline.hardware.named_chip import chip_named
from roofline.inference.deployment import Deployment, Machine
from roofline.inference.fit import Fit
from roofline.inference.memory.memory import Memory
from roofline.inference.settings import setup
from roofline.model.model import Model
from roofline.whatif.sweep.crossovers import Values, longest_context

AMPLE = "peak=1T,bw=1T,mem=1P"
"""A chip with practically unlimited memory, for a curve without chips."""


@dataclass(frozen=True)
class Limit:
    """The limit of a chip: the `longest` context that fits; 0 where none fits, None beyond the last context drawn."""

    deployment: Deployment
    engine: Engine
    longest: int | None


@dataclass(frozen=True)
class MemoryCurve:
    """Bytes of the fullest rank at each `context` [n], for `batch` sequences of all replicas; `limits`: capacities."""

    batch: int
    context: Values
    memory: Memory
    limits: tuple[Limit, ...]

    @property
    def terms(self) -> tuple[tuple[str, Values], ...]:
        """Bytes by term, each [n], from the bottom up; terms that are zero everywhere are left out."""
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

    All are bytes of the fullest rank of a layout; `batch` is divided among its replicas. The default layout is that of
    the first machine as a whole. Terms, limits and `options` are those of `fit`. Raises InputError for invalid
    settings.
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
    """The longest context, or None where it is at least the last one drawn."""
    return None if longest is None or longest >= last else int(longest)
