"""Memory over context: what grows with it, what does not, and where each chip ends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roofline.estimates.memory import activation_bytes, cache_bytes, fit
from roofline.explore.sweep import Array, longest_context, spread
from roofline.machine.chip import Chip, chip_named
from roofline.machine.engine import engine_named
from roofline.model.checks import count
from roofline.model.model import Model


@dataclass(frozen=True)
class Limit:
    """Where a chip ends: `longest` context that fits, 0 where none does, None where the model's own ends first."""

    chip: Chip
    longest: int | None


@dataclass(frozen=True)
class MemoryCurve:
    """Bytes of `batch` sequences over `context` [n]: terms by name, each [n], from the bottom up."""

    batch: int
    context: Array
    terms: tuple[tuple[str, Array], ...]
    limits: tuple[Limit, ...]

    @property
    def total(self) -> Array:
        """Sum of the terms, [n]."""
        return sum(values for _, values in self.terms)


def memory_over_context(
    model: Model,
    *,
    on: Sequence[str | os.PathLike[str] | Chip] = (),
    batch: int = 1,
    most: int | None = None,
    engine: str | None = None,
    precision: object = None,
) -> MemoryCurve:
    """Weights, activations with the engine's overhead, recurrent state and KV cache, over context up to `most`.

    The terms and the limits are those of `fit`. Raises InputError for what is not understood.
    """
    import numpy

    formats, how, size = model.precision.merged(precision), engine_named(engine), count("batch", batch, 1)
    last = longest_context(model, most)
    lengths = spread(min(256, last), last)
    step = (min(how.chunk, size * int(n)) for n in lengths)
    acts = numpy.array([activation_bytes(model, formats, t, min(size, t)) for t in step])
    flat = numpy.ones(len(lengths))
    state: Any = size * model.state_bytes(formats) * flat
    terms = (
        ("weights", model.weight_bytes(formats) * flat),
        ("activations and overhead", acts + how.overhead_bytes),
        ("recurrent state", state),
        ("KV cache", cache_bytes(model, formats, how, size, lengths) - state),
    )
    found = ((chip_named(c), fit(model, on=c, batch=size, context=last, engine=how, precision=formats)) for c in on)
    limits = tuple(Limit(chip, _within(f.longest_context, last)) for chip, f in found)
    return MemoryCurve(size, lengths, tuple((n, v) for n, v in terms if v.any()), limits)


def _within(longest: int | None, last: int) -> int | None:
    """The longest context where it ends before the last one drawn, None beyond."""
    return None if longest is None or longest >= last else longest
