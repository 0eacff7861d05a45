"""Memory over context: what grows with it, what does not, and where each chip ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roofline.estimates.memory import activation_bytes, cache_bytes, fit
from roofline.estimates.place import Place, placed
from roofline.explore.sweep import Array, longest_context, spread
from roofline.layout.layout import layout_named
from roofline.layout.shard import distinct, stages
from roofline.machine.chip import Chip
from roofline.machine.engine import Engine, engine_named
from roofline.model.checks import count
from roofline.model.maths import ceil_div
from roofline.model.model import Model
from roofline.model.precision import Precision


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
    on: Sequence[Place] = (),
    layout: object = None,
    batch: int = 1,
    most: int | None = None,
    engine: str | None = None,
    precision: object = None,
) -> MemoryCurve:
    """Weights, activations with the engine's overhead, recurrent state and KV cache, over context up to `most`.

    Of the fullest rank of a layout; `batch` is shared out over its replicas. The terms and the limits are those of
    `fit`. Raises InputError for what is not understood.
    """
    formats, how, size = model.precision.merged(precision), engine_named(engine), count("batch", batch, 1)
    over, last = layout_named(layout), longest_context(model, most)
    mine = int(ceil_div(size, over.dp))
    lengths = spread(min(256, last), last)
    ranks = distinct(stages(model, over))
    terms = max(
        (_terms(rank, formats, how, mine, lengths) for rank in ranks), key=lambda found: sum(v[-1] for _, v in found)
    )
    options: dict[str, Any] = {"layout": over, "batch": size, "context": last, "engine": how, "precision": formats}
    found = ((placed(c, over).chip, fit(model, on=c, **options)) for c in on)
    limits = tuple(Limit(chip, _within(f.longest_context, last)) for chip, f in found)
    return MemoryCurve(size, lengths, terms, limits)


def _terms(
    rank: Model, formats: Precision, engine: Engine, batch: int, lengths: Array
) -> tuple[tuple[str, Array], ...]:
    """What one rank holds at each length, term by term; none that is nothing throughout."""
    import numpy

    step = (min(engine.chunk, batch * int(n)) for n in lengths)
    acts = numpy.array([activation_bytes(rank, formats, t, min(batch, t)) for t in step])
    flat = numpy.ones(len(lengths))
    state: Any = batch * rank.state_bytes(formats) * flat
    terms = (
        ("weights", rank.weight_bytes(formats) * flat),
        ("activations and overhead", acts + engine.overhead_bytes),
        ("recurrent state", state),
        ("KV cache", cache_bytes(rank, formats, engine, batch, lengths) - state),
    )
    return tuple((n, v) for n, v in terms if v.any())


def _within(longest: int | None, last: int) -> int | None:
    """The longest context where it ends before the last one drawn, None beyond."""
    return None if longest is None or longest >= last else longest
