"""Does it fit: weights, KV cache by the engine's rule, activations, overhead; the largest batch and longest context."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from roofline.estimates.place import Place, placed
from roofline.layout.layout import Layout
from roofline.layout.shard import distinct, stages
from roofline.machine.chip import Chip
from roofline.machine.engine import Engine, engine_named
from roofline.model.checks import count
from roofline.model.errors import InputError
from roofline.model.maths import Count, ceil_div
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.work.analysis import analyze
from roofline.work.step import prefill

CHIPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of chips that `fit` tries."""
LONGEST = 2**31
NODE = 8
"""Chips that tensor parallelism spans at most where `fit` looks for the fewest."""


@dataclass(frozen=True)
class Change:
    """A change that makes it fit: what, its options in words, and the bytes it then needs on a chip."""

    what: str
    detail: str
    needed: float


@dataclass(frozen=True)
class Room:
    """What the fullest rank of a layout holds, in bytes, and what the engine's rule leaves for the cache.

    `cache`: the KV cache of the batch in whole blocks, with recurrent state, `per_sequence` that of one sequence.
    `budget`: what the engine's rule leaves for it.
    """

    weights: float
    activations: float
    cache: float
    budget: float
    per_sequence: float
    overhead: float

    @property
    def needed(self) -> float:
        """Sum of the terms."""
        return self.weights + self.cache + self.activations + self.overhead

    @property
    def fits(self) -> bool:
        """Whether the cache stays within the engine's budget."""
        return self.cache <= self.budget


@dataclass(frozen=True, kw_only=True)
class Fit(Room):
    """Memory of the fullest chip of a layout, in bytes, and what goes into it.

    `chunk`: new tokens of the step that the activations are for. `largest_batch` at this context, `longest_context` at
    this batch (None: beyond every limit), both over all replicas. `fewest`: the layout of the fewest chips.
    """

    chip: Chip
    engine: Engine
    precision: Precision
    batch: int
    context: int
    capacity: float
    largest_batch: int
    longest_context: int | None
    fewest_chips: int | None
    changes: tuple[Change, ...]
    chunk: int
    layout: Layout
    fewest: Layout | None


def activation_bytes(model: Model, precision: Precision, tokens: int, sequences: int) -> float:
    """The largest set of activations alive at once in a step of `tokens` new tokens, an upper estimate.

    max over ops of (input + output), the residual stream beside it, and the logits in fp32. Scores stay on the chip.
    """
    each = max(1, tokens // sequences)
    analysis = analyze(model, prefill(sequences, each), precision=precision)
    widest = max(precision.activations.bytes(row.op.input + row.op.output) for row in analysis.ops)
    stream = precision.activations.bytes(2 * model.hidden * tokens)
    return float(widest + stream + 4 * model.vocab * sequences)


def cache_bytes(model: Model, precision: Precision, engine: Engine, batch: Count, context: Count) -> Count:
    """KV cache of `batch` sequences of `context` tokens in whole blocks, and their recurrent state."""
    held = model.kv_elements(engine.cached_tokens(context))
    return batch * (precision.kv.bytes(held) + model.state_bytes(precision))


def room(
    model: Model, layout: Layout, formats: Precision, chip: Chip, engine: Engine, batch: int, context: int, chunk: int
) -> Room:
    """The room of the stage that has least, under a layout; `batch` is shared out over its replicas.

    `chunk`: new tokens of a step, of all sequences of a replica.
    """
    mine = ceil_div(batch, layout.dp)
    step = min(chunk, mine * context)

    def of(rank: Model) -> Room:
        weights = float(rank.weight_bytes(formats))
        acts = activation_bytes(rank, formats, step, min(mine, step))
        per = float(cache_bytes(rank, formats, engine, 1, context))
        cache = float(cache_bytes(rank, formats, engine, mine, context))
        return Room(
            weights, acts, cache, float(engine.cache_budget(chip.capacity, weights, acts)), per, engine.overhead_bytes
        )

    return min((of(rank) for rank in distinct(stages(model, layout))), key=lambda r: r.budget - r.cache)


def fit(
    model: Model,
    *,
    on: Place,
    layout: object = None,
    batch: int = 1,
    context: int | None = None,
    engine: str | Engine | None = "vllm",
    precision: object = None,
    chunk: int | None = None,
) -> Fit:
    """Whether `batch` sequences of `context` tokens fit on a chip beside the weights, in bytes, and what would.

    `on`: a chip or a cluster; `layout`: how the model is spread over its chips (`tp=8`), the figures then being
    those of the fullest rank, `batch` that of all replicas. `context`: the model's own where not given, 4096 where it
    has none. `engine`: whose memory rule, `vllm`, `trtllm`, `sglang`, or None for all of the memory. `precision`:
    changes to the checkpoint's formats. `chunk`: most new tokens of a step (the engine's own).
    Raises InputError for what is not understood, and for a degree that does not divide what it shares out.
    """
    where, how, formats = placed(on, layout), engine_named(engine), model.precision.merged(precision)
    chip, spread = where.chip, where.layout
    length = count("context", model.context or 4096 if context is None else context, 1)
    sequences = count("batch", batch, 1)
    most = count("chunk", how.chunk if chunk is None else chunk, 1)

    def state(formats: Precision, spread: Layout, many: int = sequences, tokens: int = length) -> Room:
        return room(model, spread, formats, chip, how, many, tokens, most)

    here = state(formats, spread)
    mine = ceil_div(sequences, spread.dp)

    def fits(tokens: int) -> bool:
        ranks = distinct(stages(model, spread))
        caches = (float(cache_bytes(rank, formats, how, mine, tokens)) for rank in ranks)
        return max(caches) <= here.budget

    largest = int(max(0.0, here.budget) // here.per_sequence) * spread.dp if here.per_sequence else 0
    longest = _longest(fits, model.context or LONGEST)
    fewest = next((s for s in spreads() if _fits(state, formats, s)), None)
    changes = () if here.fits else tuple(_changes(formats, partial(_room, state, spread), largest, longest, fewest))
    return Fit(
        **vars(here), chip=chip, engine=how, precision=formats, batch=sequences, context=length,
        capacity=chip.capacity, largest_batch=largest, longest_context=None if longest == LONGEST else longest,
        fewest_chips=None if fewest is None else int(fewest.chips), changes=changes, chunk=min(most, mine * length),
        layout=spread, fewest=fewest,
    )  # fmt: skip


def spreads() -> Iterator[Layout]:
    """Layouts of more and more chips: tensor parallel within a node, pipeline stages of nodes beyond."""
    for n in CHIPS:
        tp = min(n, NODE)
        yield Layout(tp=tp, pp=n // tp)
        if n > 1:
            yield Layout(tp=1, dp=n, ep=n)


def _room(state: Callable[[Precision, Layout], Room], spread: Layout, formats: Precision) -> Room:
    return state(formats, spread)


def _fits(state: Callable[[Precision, Layout], Room], formats: Precision, spread: Layout) -> bool:
    try:
        return state(formats, spread).fits
    except InputError:  # a degree that does not divide
        return False


def _longest(fits: Callable[[int], bool], limit: int) -> int:
    """The longest context up to `limit` that fits, by bisection; 0 where none does."""
    return bisect_left(range(limit + 1), True, lo=1, key=lambda tokens: not fits(tokens)) - 1


def _changes(
    formats: Precision, state: Callable[[Precision], Room], largest: int, longest: int, fewest: Layout | None
) -> list[Change]:
    """What would make it fit, cheapest first: an 8-bit cache, fewer or shorter sequences, smaller weights, chips."""
    found: list[Change] = []

    def tried(what: str, detail: str, other: Precision) -> None:
        there = state(other)
        if there.fits:
            found.append(Change(what, detail, there.weights + there.activations + there.cache))

    if formats.kv.bits > 8:
        tried("cache", "kv=fp8", formats.merged({"kv": "fp8"}))
    if largest >= 1:
        found.append(Change("batch", f"batch {largest}", 0.0))
    if longest >= 1:
        found.append(Change("context", f"context {longest}", 0.0))
    for name in ("fp8", "int4"):
        if formats.ffn.bits > (8 if name == "fp8" else 4):
            tried("weights", f"weights={name}", formats.merged({"weights": name}))
    if not any(c.what == "weights" for c in found) and formats.kv.bits > 8:
        tried("weights and cache", "weights=int4,kv=fp8", formats.merged({"weights": "int4", "kv": "fp8"}))
    if fewest is not None:
        found.append(Change("chips", f"{fewest.chips} chips", 0.0))
    return found
