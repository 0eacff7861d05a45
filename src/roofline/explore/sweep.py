"""Decode steps over batch, over context and over both, with the points where what limits them changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from roofline.estimates.estimate import estimate
from roofline.estimates.latency import Estimate
from roofline.estimates.memory import fit
from roofline.machine.chip import Chip
from roofline.model.checks import count
from roofline.model.errors import not_one_of
from roofline.model.model import Model
from roofline.work.step import decode

Axis: TypeAlias = Literal["batch", "context"]
AXES: tuple[Axis, ...] = ("batch", "context")
Array: TypeAlias = Any
MOST_BATCH, MOST_CONTEXT = 1024, 131072
PIECES = 64
"""Points of the array that looks for a crossing between two neighbours; each pass narrows it that many times."""


@dataclass(frozen=True)
class Crossing:
    """The first value `at` which the limit is `after` and no longer `before`.

    `of` floor: Σ compute against Σ memory at full peak and bandwidth; expected: see `binding`.
    """

    of: Literal["floor", "expected"]
    at: int
    before: str
    after: str


@dataclass(frozen=True)
class DecodeSweep:
    """Decode steps over one axis on one chip. `values` [n] and every figure of `estimate` [n]."""

    over: Axis
    values: Array
    estimate: Estimate
    batch: Array
    crossings: tuple[Crossing, ...]

    @property
    def tokens_per_second(self) -> Array:
        """New tokens of the batch over the step's expected time."""
        return self.batch / self.estimate.time


@dataclass(frozen=True)
class DecodeMap:
    """Decode steps over batch [b] × context [c] on one chip; every figure of `estimate` is [b, c].

    `longest`: the longest context that fits beside the weights at each batch, 0 where none does.
    """

    batch: Array
    context: Array
    estimate: Estimate
    longest: tuple[int, ...]

    @property
    def tokens_per_second(self) -> Array:
        """New tokens of the batch over the step's expected time, [b, c]."""
        return self.batch[:, None] / self.estimate.time

    @property
    def fits(self) -> Array:
        """Whether the batch's cache fits at that context, [b, c]."""
        import numpy

        return self.context[None, :] <= numpy.array(self.longest)[:, None]


def spread(least: int, most: int, each: int = 4) -> Array:
    """Whole numbers from least to most, `each` of them to a doubling.

    >>> spread(1, 8, 1).tolist()
    [1, 2, 4, 8]
    """
    import numpy

    steps = max(1, round(each * numpy.log2(most / least)))
    return numpy.unique(numpy.round(numpy.geomspace(least, most, steps + 1)).astype(numpy.int64))


def longest_context(model: Model, most: int | None = None) -> int:
    """The last context length at which a decode still stays within the model's own, at most `most`."""
    asked = MOST_CONTEXT if most is None else count("context", most, 1)
    return asked if model.context is None else max(1, min(asked, model.context - 1))


def sweep_decode(
    model: Model,
    *,
    on: str | os.PathLike[str] | Chip,
    over: Axis = "batch",
    batch: int = 1,
    context: int = 1024,
    most: int | None = None,
    **options: Any,
) -> DecodeSweep:
    """Decode over batch (1 … `most`, 1024 where not given, at `context`) or over context (1 … `most` at `batch`).

    `options` are those of `estimate`. Raises InputError for what is not understood.
    """
    if over not in AXES:
        raise not_one_of("over", over, AXES)
    size, length = count("batch", batch, 1), count("context", context)
    last = count("batch", MOST_BATCH if most is None else most, 1) if over == "batch" else longest_context(model, most)
    values = spread(1, last, 8)

    def at(points: Array) -> Estimate:
        step = decode(points, length) if over == "batch" else decode(size, points)
        return estimate(model, step, on=on, **options)

    floor = crossings("floor", values, lambda points: floor_bound(at(points)))
    expected = crossings("expected", values, lambda points: binding(at(points)))
    return DecodeSweep(over, values, at(values), values if over == "batch" else size, (*floor, *expected))


def map_decode(
    model: Model,
    *,
    on: str | os.PathLike[str] | Chip,
    most_batch: int | None = None,
    most_context: int | None = None,
    engine: str | None = None,
    **options: Any,
) -> DecodeMap:
    """Decode over batch (powers of two up to `most_batch`, 1024) × context (powers of two from 256 up, and the last).

    What fits is what `fit` says for the engine. Raises InputError for what is not understood.
    """
    import numpy

    last = longest_context(model, most_context)
    sizes = spread(1, count("batch", MOST_BATCH if most_batch is None else most_batch, 1), 1)
    powers = [2**k for k in range(8, last.bit_length()) if 3 * 2**k <= 2 * last]
    lengths = numpy.array([*powers, last])
    step = decode(sizes[:, None], lengths[None, :])
    timed = estimate(model, step, on=on, engine=engine, **options)
    precision = timed.analysis.precision
    fits = (fit(model, on=on, batch=int(b), context=last, engine=engine, precision=precision) for b in sizes)
    longest = tuple(last if f.longest_context is None else f.longest_context for f in fits)
    return DecodeMap(sizes, lengths, timed, longest)


# -- what limits a step --------------------------------------------------------------------------------------------
def floor_bound(e: Estimate) -> Array:
    """`compute` where Σ compute ≥ Σ memory at the speed of light, else `memory`."""
    import numpy

    return numpy.where(numpy.asarray(e.compute_time) >= e.memory_time, "compute", "memory")


def binding(e: Estimate) -> Array:
    """The bound (compute, memory, latency) of the ops that take most of the expected time together."""
    import numpy

    names = numpy.array(["compute", "memory", "latency"])
    total = [sum(op.expected * (numpy.asarray(op.bound) == name) for op in e.ops) for name in names]
    return names[numpy.argmax(numpy.stack([numpy.asarray(t) for t in total]), axis=0)]


def crossings(of: Literal["floor", "expected"], values: Array, names: Callable[[Array], Array]) -> tuple[Crossing, ...]:
    """Where `names(values)` changes, to the exact whole number; at most one change between two neighbours."""
    here = names(values)
    changes = [i for i in range(1, len(values)) if here[i] != here[i - 1]]
    return tuple(
        Crossing(of, _first(int(values[i - 1]), int(values[i]), names), str(here[i - 1]), str(here[i])) for i in changes
    )


def _first(low: int, high: int, names: Callable[[Array], Array]) -> int:
    """The first whole number in (low, high] whose name is not that of `low`; array by array."""
    import numpy

    while high - low > 1:
        points = numpy.unique(numpy.linspace(low, high, min(PIECES, high - low + 1)).astype(numpy.int64))
        place = int(numpy.argmax(names(points) != names(points[:1])[0]))
        low, high = int(points[place - 1]), int(points[place])
    return high
