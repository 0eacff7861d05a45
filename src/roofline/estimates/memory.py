"""What a rank of a deployment needs of its memory, by term, and whether it has it: one rule for every estimate.

For inference the rule is the engine's: weights, the KV cache in whole blocks, recurrent state, the activations of a
step of at most `chunk` new tokens, overhead; the cache may take what the engine leaves it. The fullest rank counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, TypeAlias

import numpy as np

from roofline.distinct import distinct
from roofline.estimates.deployment import Deployment
from roofline.estimates.span import shaped
from roofline.machine.engine import Engine
from roofline.model.maths import Count, is_array, least, most, some, where
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.result import Figured, Flag, Units
from roofline.work.lower import lower
from roofline.work.step import Queries, prefill
from roofline.work.step import replace as replaced

TERMS = ("weights", "cache", "state", "activations", "gradients", "optimizer", "overhead")


@dataclass(frozen=True)
class Memory(Figured):
    """Bytes of the fullest rank: numbers or arrays.

    `cache`: the KV cache in whole blocks; `state`: recurrent state. `budget`: what the rule of the engine leaves for
    both, None where all terms may fill the `capacity`. `overhead`: the runtime and what an allocator cannot use.
    """

    FIGURES: ClassVar[Units] = {**dict.fromkeys((*TERMS, "total", "capacity", "budget"), "B"), "fits": ""}

    capacity: float
    weights: Count = 0
    cache: Count = 0
    state: Count = 0
    activations: Count = 0
    gradients: Count = 0
    optimizer: Count = 0
    overhead: Count = 0
    budget: Count | None = None

    @property
    def total(self) -> Count:
        """Sum of the terms."""
        return sum(getattr(self, name) for name in TERMS)

    @property
    def room(self) -> Count:
        """Bytes that are left, negative where it does not fit."""
        return self.capacity - self.total if self.budget is None else self.budget - self.cache - self.state

    @property
    def fits(self) -> Flag:
        """Whether there is room."""
        enough = self.room >= 0
        return np.asarray(enough) if is_array(enough) and enough.ndim else bool(enough)

    @property
    def terms(self) -> tuple[tuple[str, Count], ...]:
        """The terms by name."""
        return tuple((name, getattr(self, name)) for name in TERMS)

    def leaves(self, name: str, unit: str) -> Iterator[tuple[str, Any, str]]:
        """As columns."""
        yield from ((f"{name}_{term}", amount, unit) for term, amount in self.terms)
        yield from ((f"{name}_{end}", getattr(self, end), unit) for end in ("total", "capacity"))
        yield "fits", self.fits, ""

    def fuller(self, other: Memory) -> Memory:
        """That of two ranks which has less room, element by element."""
        mine = self.room <= other.room
        if not is_array(mine):
            return self if mine else other
        numbers: dict[str, Any] = {name: where(mine, getattr(self, name), getattr(other, name)) for name in _NUMBERS}
        return replace(self, **numbers)

    def shaped(self, shape: tuple[int, ...]) -> Memory:
        """Plain numbers where the shape is (), else arrays of that shape."""
        known = (name for name in _NUMBERS if getattr(self, name) is not None)
        numbers: dict[str, Any] = {name: shaped(getattr(self, name), shape) for name in known}
        return replace(self, **numbers)


_NUMBERS = tuple(f.name for f in fields(Memory) if f.name != "capacity")


Sequences: TypeAlias = Sequence[tuple[Count, Count]]
"""So many sequences of so many tokens, of each kind."""
REMEMBERED = 2**14
"""Steps whose activations are remembered."""


@dataclass(frozen=True)
class Holding:
    """What holds the sequences: the ranks of a deployment that differ, formats, the engine and its chunk."""

    deployment: Deployment
    ranks: tuple[Model, ...]
    formats: Precision
    engine: Engine
    chunk: int
    _known: dict[tuple[int, Count, Count], Count] = field(default_factory=dict, init=False, compare=False, repr=False)

    def memory(self, groups: Sequences, new: Count = 0) -> Memory:
        """The memory of the fullest rank of a replica that holds so many sequences of so many tokens, of each kind.

        `new`: new tokens of the step that is asked for, where it is larger than the engine's.
        """
        return reduce(Memory.fuller, (self._of(rank, groups, new) for rank in self.ranks))

    def _of(self, rank: Model, groups: Sequences, new: Count) -> Memory:
        sequences, tokens = sum(n for n, _ in groups), sum(n * length for n, length in groups)
        weights, step = rank.weight_bytes(self.formats), most(least(self.chunk, tokens), new)
        active = self.activations(rank, step, least(sequences, step))
        capacity, overhead = self.deployment.chip.capacity, self.engine.overhead_bytes
        cache = sum(cache_bytes(rank, self.formats, self.engine, n, length) for n, length in groups)
        return Memory(
            capacity, weights=weights, cache=cache, state=sequences * rank.state_bytes(self.formats),
            activations=active, overhead=overhead, budget=self.engine.cache_budget(capacity, weights, active),
        )  # fmt: skip

    def activations(self, rank: Model, tokens: Count, sequences: Count) -> Count:
        """Bytes of activations of a step, remembered."""
        if is_array(tokens) or is_array(sequences) or rank.shape:
            return activation_bytes(rank, self.formats, tokens, sequences)
        key = (id(rank), tokens, sequences)
        if key not in self._known:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            self._known[key] = activation_bytes(rank, self.formats, tokens, sequences)
        return self._known[key]

    def fits(self, batch: Count, tokens: Count) -> Any:
        """Whether so many sequences a replica fit."""
        return self.memory(((batch, tokens),)).fits

    def most_sequences(self, tokens: Count, limit: Count) -> Count:
        """Sequences of so many tokens that a replica holds at once, at most `limit`; 0 where not one fits."""
        return largest(lambda batch: self.fits(batch, tokens), self._each(limit, tokens))

    def most_tokens(self, batch: Count, limit: Count) -> Count:
        """Tokens that each of so many sequences may have, at most `limit`; 0 where not one fits."""
        return largest(lambda tokens: self.fits(batch, tokens), self._each(limit, batch))

    def _each(self, limit: Count, other: Count) -> Count:
        """A limit for every element of another number and of the layout's degrees."""
        shape = np.broadcast_shapes(np.shape(limit), np.shape(other), self.deployment.layout.shape)
        return np.broadcast_to(limit, shape) if shape else limit

    @cached_property
    def growing(self) -> bool:
        """Whether sequences need memory of their own at all."""
        return any(rank.kv_elements(1) or rank.state_bytes(self.formats) for rank in self.ranks)


def holding(
    model: Model, deployment: Deployment, formats: Precision, engine: Engine, chunk: int | None = None
) -> Holding:
    """What holds sequences of a model under a deployment; `chunk`: most new tokens of a step, the engine's own."""
    return Holding(deployment, deployment.ranks(model), formats, engine, engine.chunk if chunk is None else chunk)


def cache_bytes(rank: Model, precision: Precision, engine: Engine, batch: Count, tokens: Count) -> Count:
    """KV cache of `batch` sequences of so many tokens in whole blocks, bytes."""
    return batch * precision.kv.bytes(rank.kv_elements(engine.cached_tokens(tokens)))


def activation_bytes(rank: Model, precision: Precision, tokens: Count, sequences: Count) -> Count:
    """The largest set of activations alive at once in a step of `tokens` new tokens, an upper estimate.

    max over ops of (input + output), the residual stream beside it, and the logits in fp32. Scores stay on the chip.
    """
    arrays = [v for v in (tokens, sequences) if is_array(v)]
    kinds = distinct(arrays) if arrays and not rank.shape else None
    if kinds is not None:
        tokens, sequences = (kinds.take(v) if is_array(v) else v for v in (tokens, sequences))
    each, longer = most(1, tokens // sequences), most(0, tokens - sequences) % sequences
    queries = (Queries(0, each, sequences - longer), Queries(0, each + 1, longer))
    step = replaced(prefill(1, 1), queries if some(longer) else queries[:1])
    widest: Count = 0
    for module in dict.fromkeys(x for x, _ in rank.modules()) if not rank.shape else (x for x, _ in rank.modules()):
        for op in lower(module, step):
            widest = most(widest, op.input + op.output)
    stream = precision.activations.bytes(2 * rank.hidden * tokens)
    active = precision.activations.bytes(widest) + stream + 4 * rank.vocab * sequences
    return active if kinds is None else np.asarray(active)[kinds.index]


# -- searching -----------------------------------------------------------------------------------------------------
SECTIONS = 256
"""Values that a search looks at together."""


def largest(allowed: Callable[[Count], Any], limit: Count) -> Count:
    """The largest whole number from 1 to `limit` that is allowed, 0 where none is; if one is, so are all below it.

    For every element of an array `limit`.
    """
    shape = np.shape(limit)
    low, high = np.zeros(shape), np.broadcast_to(limit, shape) + 1.0
    sections = max(1, SECTIONS // max(1, low.size))
    steps = np.arange(1, sections + 1).reshape(-1, *(1 for _ in shape))
    while (high - low > 1).any():
        tried = low + np.maximum(1, (high - low) * steps // (sections + 1))
        tried = np.minimum(tried, np.maximum(high - 1, 1))  # in float64, which no product of sizes overflows
        passed = np.broadcast_to(allowed(tried), tried.shape)
        low = np.maximum(low, np.where(passed, tried, 0).max(axis=0))
        high = np.maximum(np.minimum(high, np.where(passed, high, tried).min(axis=0)), low + 1)
    whole = low.astype(np.int64)
    whole = np.where((whole > 0) & ~np.asarray(allowed(np.maximum(whole, 1))), whole - 1, whole)
    return whole if shape else int(whole)
