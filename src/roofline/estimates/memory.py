"""Does it fit: weights, KV cache by the engine's rule, activations, overhead; the largest batch and longest context."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from roofline.machine.chip import Chip, chip_named
from roofline.machine.engine import Engine, engine_named
from roofline.model.checks import count
from roofline.model.maths import Count
from roofline.model.model import Model
from roofline.model.modules import LatentAttention
from roofline.model.precision import Precision, part_of
from roofline.work.analysis import analyze
from roofline.work.step import prefill

CHIPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LONGEST = 2**31
State = Callable[[Precision, int], tuple[float, float, float, float]]


@dataclass(frozen=True)
class Change:
    """A change that makes it fit: what, its options in words, and the bytes it then needs on a chip."""

    what: str
    detail: str
    needed: float


@dataclass(frozen=True)
class Fit:
    """Memory of one chip, in bytes, and what goes into it.

    `cache`: the KV cache of the batch in whole blocks, with recurrent state; `budget`: what the engine's rule leaves
    for it. `chunk`: new tokens of the step that the activations are for. `largest_batch` at this context,
    `longest_context` at this batch (None: beyond every limit).
    """

    chip: Chip
    engine: Engine
    precision: Precision
    batch: int
    context: int
    capacity: float
    weights: float
    cache: float
    activations: float
    overhead: float
    budget: float
    largest_batch: int
    longest_context: int | None
    fewest_chips: int | None
    changes: tuple[Change, ...]
    chunk: int

    @property
    def needed(self) -> float:
        """Sum of the terms."""
        return self.weights + self.cache + self.activations + self.overhead

    @property
    def fits(self) -> bool:
        """Whether the cache stays within the engine's budget."""
        return self.cache <= self.budget


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


def chip_share(model: Model, precision: Precision, chips: int) -> tuple[float, float]:
    """Bytes of weights, and the share of the cache, on one of `chips` chips under tensor parallelism.

    Matrices divide; norms do not. KV heads replicate beyond their number; a latent cache is never divided.
    """
    matrices = sum(n * int(precision.weights(part_of(m)).bytes(m.matrix)) for m, n in model.modules())
    rest = model.weight_bytes(precision) - matrices
    latent = any(isinstance(m, LatentAttention) for m, _ in model.modules())
    heads = [getattr(m, "kv_heads", 0) for m, _ in model.modules() if getattr(m, "kv_heads", 0)]
    share = 1.0 if latent else max((max(1.0, g / chips) / g for g in heads), default=1.0 / chips)
    return matrices / chips + rest, share


def fit(
    model: Model,
    *,
    on: str | os.PathLike[str] | Chip,
    batch: int = 1,
    context: int | None = None,
    engine: str | Engine | None = "vllm",
    precision: object = None,
    chunk: int | None = None,
) -> Fit:
    """Whether `batch` sequences of `context` tokens fit on a chip beside the weights, and what would.

    `context`: the model's own where not given. `chunk`: most new tokens of a step (the engine's own).
    Raises InputError for what is not understood.
    """
    chip, how, formats = chip_named(on), engine_named(engine), model.precision.merged(precision)
    length = count("context", model.context or 4096 if context is None else context, 1)
    sequences = count("batch", batch, 1)
    step_tokens = min(count("chunk", how.chunk if chunk is None else chunk, 1), sequences * length)

    def state(formats: Precision, chips: int) -> tuple[float, float, float, float]:
        """Weights, activations, the cache of the batch, and the budget for it, on one of `chips`."""
        weights, share = (model.weight_bytes(formats), 1.0) if chips == 1 else chip_share(model, formats, chips)
        acts = activation_bytes(model, formats, step_tokens, min(sequences, step_tokens))
        cache = float(cache_bytes(model, formats, how, sequences, length)) * share
        return float(weights), acts, cache, float(how.cache_budget(chip.capacity, weights, acts))

    weights, acts, cache, budget = state(formats, 1)

    def fits(tokens: int, many: int) -> bool:
        return float(cache_bytes(model, formats, how, many, tokens)) <= budget

    per = float(cache_bytes(model, formats, how, 1, length))
    largest = int(max(0.0, budget) // per) if per else 0
    longest = _longest(lambda tokens: fits(tokens, sequences), model.context or LONGEST)
    fewest = next((n for n in CHIPS if (lambda s: s[2] <= s[3])(state(formats, n))), None)
    changes = () if cache <= budget else tuple(_changes(formats, state, largest, longest, fewest))
    return Fit(
        chip, how, formats, sequences, length, chip.capacity, weights, cache, acts, how.overhead_bytes, budget,
        largest, None if longest == LONGEST else longest, fewest, changes, step_tokens,
    )  # fmt: skip


def _longest(fits: Callable[[int], bool], limit: int) -> int:
    """The longest context up to `limit` that fits, by bisection; 0 where none does."""
    return bisect_left(range(limit + 1), True, lo=1, key=lambda tokens: not fits(tokens)) - 1


def _changes(formats: Precision, state: State, largest: int, longest: int, fewest: int | None) -> list[Change]:
    """What would make it fit, cheapest first: an 8-bit cache, fewer or shorter sequences, smaller weights, chips."""
    found: list[Change] = []

    def tried(what: str, detail: str, other: Precision) -> None:
        weights, acts, cache, budget = state(other, 1)
        if cache <= budget:
            found.append(Change(what, detail, weights + acts + cache))

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
        found.append(Change("chips", f"{fewest} chips", 0.0))
    return found
