"""Crossovers: steps over batch, over context and over both, and the points where the bound changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.declared.checks import count
from roofline.declared.errors import not_one_of
from roofline.declared.kinds import Given
from roofline.declared.numbers.bracketing import adjacent, spread, whole_end
from roofline.inference.deployment import Machine
from roofline.inference.fit import Fit
from roofline.inference.settings import setup
from roofline.inference.step import Estimate, step_estimate
from roofline.model.model import Model
from roofline.model.modules import Attention, Compressor
from roofline.work.step import PHASES, Phase, Step, decode, step_of

Swept: TypeAlias = Literal["batch", "context"]
AXES: tuple[Swept, ...] = ("batch", "context")
Values: TypeAlias = Any
"""An array with a number per point."""
MOST_BATCH, MOST_CONTEXT = 1024, 131072
MOST_CHUNKS = 256
"""Maximum number of attention chunks drawn in a sweep over context."""
PIECES = 64
"""Points per pass of the search for a crossing between two neighbours; each pass narrows it by this factor."""


@dataclass(frozen=True)
class Crossing:
    """The first value `at` which the bound is `after` instead of `before`.

    `of` floor: Σ compute against Σ memory at full peak and bandwidth; expected: see `binding`.
    """

    of: Literal["floor", "expected"]
    at: int
    before: str
    after: str


@dataclass(frozen=True)
class StepSweep:
    """Steps of a phase over one axis. `values` [n] and every figure of `estimate` [n].

    `unfit_from`: the first value at which a step does not fit in memory; None if all fit.
    """

    phase: Phase
    over: Swept
    values: Values
    estimate: Estimate
    crossings: tuple[Crossing, ...]
    unfit_from: int | None = None

    @property
    def tokens_per_second(self) -> Values:
        """New tokens of the batch per expected second of the step, [n]."""
        return self.estimate.tokens_per_second


@dataclass(frozen=True)
class DecodeMap:
    """Decode steps over batch [b] × context [c]; every figure of `estimate` is [b, c].

    `longest`: the longest context that fits at each batch; 0 where none fits.
    """

    batch: Values
    context: Values
    estimate: Estimate
    longest: Values

    @property
    def tokens_per_second(self) -> Values:
        """New tokens of the batch per expected second of the step, [b, c]."""
        return self.estimate.tokens_per_second

    @property
    def fits(self) -> Values:
        """Whether the cache of the batch fits at that context, [b, c]."""
        return self.context[None, :] <= self.longest[:, None]


def longest_context(model: Model, most: int | None = None) -> int:
    """The longest context after which a decode step is still within the model's own context; at most `most`."""
    asked = MOST_CONTEXT if most is None else count("context", most, 1)
    return asked if model.context is None else max(1, min(asked, model.context - 1))


def lengths(model: Model, last: int, phase: Phase) -> Values:
    """Contexts from 1 to `last`, eight per doubling, with those at which a decode step's time jumps.

    With chunked attention they include the last and the first token of every chunk, or of about `MOST_CHUNKS` of them.
    Steps that complete a compressed entry are replaced by their neighbours: see `rates`.
    """
    values = spread(1, last, 8)
    if phase == "prefill":
        return values
    for chunk in {x.chunk for x, _ in model.modules() if isinstance(x, Attention) and x.chunk}:
        starts = np.arange(chunk, last + 1, max(1, last // chunk // MOST_CHUNKS) * chunk)
        values = np.union1d(values, np.concatenate([starts - 1, starts]))
    for rate in rates(model):
        values = np.unique(np.maximum(1, values - ((values + 1) % rate == 0)))
    return values


def rates(model: Model) -> tuple[int, ...]:
    """Tokens per compressed entry, largest first. A decode step that completes an entry does more work than others."""
    return tuple(sorted({x.rate for x, _ in model.modules() if isinstance(x, Compressor)}, reverse=True))


def sweep_steps(
    model: Model,
    *,
    on: Machine,
    phase: Phase = "decode",
    over: Swept = "batch",
    batch: int = 1,
    context: int = 1024,
    most: int | None = None,
    **options: Given,
) -> StepSweep:
    """Steps over batch (1 … `most`, 1024 by default, at `context`) or over context (1 … `most`, at `batch`).

    The contexts are those of `lengths`. For a decode step `context` is the cached tokens, for a prefill the prompt. The
    batch is over all replicas. The `options` are those of `estimate`. Raises InputError for invalid settings.
    """
    for name, value, known in (("over", over, AXES), ("phase", phase, PHASES)):
        if value not in known:
            raise not_one_of(name, value, known)
    size, length = count("batch", batch, 1), count("context", context, int(phase == "prefill"))
    last = count("batch", MOST_BATCH if most is None else most, 1) if over == "batch" else longest_context(model, most)
    values = spread(1, last, 8) if over == "batch" else lengths(model, last, phase)

    conventions = {name: options.pop(name) for name in ("counting", "traffic") if name in options}
    asked = setup(model, on=on, **options)

    def step(points: Values) -> Step:
        return step_of(phase, points, length) if over == "batch" else step_of(phase, size, points)

    def at(points: Values) -> Estimate:
        return step_estimate(asked, step(points), **conventions)

    drawn = at(values)
    floor = crossings("floor", values, lambda points: floor_bound(at(points)), floor_bound(drawn))
    expected = crossings("expected", values, lambda points: binding(at(points)), binding(drawn))
    unfit_from = _first_unfit(values, lambda points: np.asarray(at(points).fits), np.asarray(drawn.fits))
    return StepSweep(phase, over, values, drawn, (*floor, *expected), unfit_from)


def map_decode(
    model: Model,
    *,
    on: Machine,
    most_batch: int | None = None,
    most_context: int | None = None,
    counting: str = "standard",
    traffic: str = "fused",
    **options: Given,
) -> DecodeMap:
    """Decode over batch (powers of two up to `most_batch`, 1024) × context (powers of two from 256 up, and the last).

    The batch is over all replicas. Memory limits are those of `fit` for the engine. The `options` are those of
    `estimate`. Raises InputError for invalid settings.
    """
    last = longest_context(model, most_context)
    sizes = spread(1, count("batch", MOST_BATCH if most_batch is None else most_batch, 1), 1)
    powers = [2**k for k in range(8, last.bit_length()) if 3 * 2**k <= 2 * last]
    lengths = np.array([*powers, last])
    asked = setup(model, on=on, **options)
    timed = step_estimate(asked, decode(sizes[:, None], lengths[None, :]), counting=counting, traffic=traffic)
    longest = Fit(asked, sizes, last, asked.engine.chunk).longest_context
    return DecodeMap(sizes, lengths, timed, longest)


# -- bounds --------------------------------------------------------------------------------------------------------
def floor_bound(e: Estimate) -> Values:
    """The largest sum at the speed of light: network, compute or memory."""
    compute, memory = np.asarray(e.compute_time), np.asarray(e.memory_time)
    on_chip = np.where(compute >= memory, "compute", "memory")
    return np.where(e.network_time > np.maximum(compute, memory), "network", on_chip)


def binding(e: Estimate) -> Values:
    """The bound (compute, memory, network, latency) whose ops take most of the expected time in total."""
    names = np.array(["compute", "memory", "network", "latency"])
    total = [sum(op.expected * (np.asarray(op.bound) == name) for op in e.ops) for name in names]
    shape = np.shape(e.time)
    return names[np.argmax(np.stack([np.broadcast_to(t, shape) for t in total]), axis=0)]


def crossings(
    of: Literal["floor", "expected"], values: Values, names: Callable[[Values], Values], known: Values | None = None
) -> tuple[Crossing, ...]:
    """Where `names(values)` changes, to the exact integer; at most one change between two neighbours.

    `known`: names(values), if known already.
    """
    named = names(values) if known is None else known
    changes = [i for i in range(1, len(values)) if named[i] != named[i - 1]]
    return tuple(
        Crossing(of, _first(int(values[i - 1]), int(values[i]), names), str(named[i - 1]), str(named[i]))
        for i in changes
    )


def _first(low: int, high: int, names: Callable[[Values], Values]) -> int:
    """The first integer in (low, high] whose name differs from that of `low`."""
    name = names(np.array([low]))[0]
    return adjacent(high, low, lambda values: names(values) != name, PIECES)[0]


def _first_unfit(values: Values, fits: Callable[[Values], Values], known: Values) -> int | None:
    """The first integer from which on a step does not fit; `known`: fits(values)."""
    if known.all():
        return None
    i = int(known.argmin())
    return int(values[0]) if i == 0 else _first(int(values[i - 1]), int(values[i]), fits)


def first_true(low: int, high: int, holds: Callable[[Values], Values]) -> int | None:
    """The first integer from `low` to `high` for which `holds`, by `whole_end`; None if there is none."""
    end = whole_end(low, high, lambda values: np.where(holds(values), 0.0, np.inf), False, PIECES)
    return None if end.value is None else int(end.value)
