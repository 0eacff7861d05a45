"""Memory that a rank of a deployment needs, by term, and whether it has that much: one rule for every estimate.

For inference the rule is the engine's. The terms are weights, the KV cache in whole blocks or pages, recurrent state,
activations and overhead; the cache may take what the engine leaves it. An engine that profiles such a step keeps the
activations of `chunk` new tokens and the logits of `most_running` sequences; others keep those of the step asked for.
Where requests have images, a vision tower's activations count where they are larger, and what it yields is kept beside.
An engine that sets buffers aside has activations in fp32 and logits for every token of the step. The fullest rank
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, TypeAlias

import numpy as np

from roofline.declared.numbers.maths import Count, ceil_div, is_array, least, most, some, where
from roofline.declared.numbers.unique_rows import distinct
from roofline.declared.result import Figured, Flag, Units
from roofline.engines.engine import Engine
from roofline.hardware.tiers import CACHE, MAIN, WEIGHTS, TierPlaces, keeper_of
from roofline.inference.deployment import Deployment
from roofline.inference.memory.cache_rows import row_bytes
from roofline.inference.memory.hybrid_blocks import CachePages, cache_pages, cached_layers
from roofline.inference.span import shaped
from roofline.model.media.images import ImageTokens
from roofline.model.model import Model
from roofline.model.modules import Attention, Embedding, Experts, LatentAttention, Module
from roofline.model.precision import Precision, part_of
from roofline.work.lower import lower
from roofline.work.ops import Activate
from roofline.work.step import AnyStep, Beside, Queries, prefill
from roofline.work.step import replace as replaced

TERMS = ("weights", "cache", "state", "activations", "gradients", "optimizer", "overhead")


@dataclass(frozen=True)
class TierMemory(Figured):
    """Bytes of a rank in one of its chip's memories: numbers or arrays. `main`: the chip's memory outside its tiers.

    `cache`: the KV cache and recurrent state. `rest`: activations and overhead.
    """

    FIGURES: ClassVar[Units] = {
        "name": "", **dict.fromkeys(("capacity", "weights", "cache", "rest", "total"), "B"), "fits": "",
    }  # fmt: skip

    name: str
    capacity: float
    weights: Count = 0
    cache: Count = 0
    rest: Count = 0

    @property
    def total(self) -> Count:
        """Bytes needed in this memory."""
        return self.weights + self.cache + self.rest

    @property
    def fits(self) -> Flag:
        """Whether this memory holds them."""
        enough = self.total <= self.capacity
        return np.asarray(enough) if is_array(enough) and enough.ndim else bool(enough)

    def mapped(self, each: Callable[..., Any], *others: TierMemory) -> TierMemory:
        """Apply a function to every number, and to those of other memories."""
        amounts = ("weights", "cache", "rest")
        return replace(self, **{n: each(getattr(self, n), *(getattr(o, n) for o in others)) for n in amounts})


@dataclass(frozen=True)
class Memory(Figured):
    """Memory of the fullest rank in bytes: numbers or arrays.

    `cache`: the KV cache in whole blocks. `state`: recurrent state. `budget`: what the engine's rule leaves for these
    two; None where all terms together may fill the `capacity`. `overhead`: the runtime, and what an allocator cannot
    use. `tiers`: which memory of the chip has how much of it, where it has several; `capacity` is that of all.
    """

    FIGURES: ClassVar[Units] = {
        **dict.fromkeys((*TERMS, "total", "capacity", "budget"), "B"), "fits": "", "tiers": "",
    }  # fmt: skip

    capacity: float
    weights: Count = 0
    cache: Count = 0
    state: Count = 0
    activations: Count = 0
    gradients: Count = 0
    optimizer: Count = 0
    overhead: Count = 0
    budget: Count | None = None
    tiers: tuple[TierMemory, ...] = ()

    @property
    def total(self) -> Count:
        """Sum of the terms."""
        return sum(getattr(self, name) for name in TERMS)

    @property
    def room(self) -> Count:
        """Free bytes, negative where it does not fit."""
        return self.capacity - self.total if self.budget is None else self.budget - self.cache - self.state

    @property
    def fits(self) -> Flag:
        """Whether it fits."""
        enough = self.room >= 0
        return np.asarray(enough) if is_array(enough) and enough.ndim else bool(enough)

    @property
    def terms(self) -> tuple[tuple[str, Count], ...]:
        """The terms by name, in bytes."""
        return tuple((name, getattr(self, name)) for name in TERMS)

    def leaves(self, name: str, unit: str) -> Iterator[tuple[str, Any, str]]:
        """As columns: the terms, the total, the capacity, and whether it fits."""
        yield from ((f"{name}_{term}", amount, unit) for term, amount in self.terms)
        yield from ((f"{name}_{end}", getattr(self, end), unit) for end in ("total", "capacity"))
        yield "fits", self.fits, ""

    def fuller(self, other: Memory) -> Memory:
        """Select elementwise the memory of the rank that has less room."""
        mine = self.room <= other.room
        if not is_array(mine):
            return self if mine else other
        numbers: dict[str, Any] = {name: where(mine, getattr(self, name), getattr(other, name)) for name in _NUMBERS}
        pairs = zip(self.tiers, other.tiers, strict=True)
        tiers = tuple(tier.mapped(lambda a, b: where(mine, a, b), another) for tier, another in pairs)
        return replace(self, **numbers, tiers=tiers)

    def beside(self, weights: Count, cache: Count, placement: TierPlaces) -> Memory:
        """This memory plus the weights and the cache of another model, such as a draft model."""
        both = replace(self, weights=self.weights + weights, cache=self.cache + cache)
        keeping, caching = keeper_of(placement, WEIGHTS), keeper_of(placement, CACHE)
        if self.budget is None or not self.tiers or keeping == caching:
            both = replace(both, budget=None if self.budget is None else self.budget - weights)
        tiers = tuple(
            replace(
                tier, weights=tier.weights + (weights if tier.name == keeping else 0),
                cache=tier.cache + (cache if tier.name == caching else 0),
            )
            for tier in self.tiers
        )  # fmt: skip
        return replace(both, tiers=tiers, budget=cache_room(both.budget, tiers, caching))

    def shaped(self, shape: tuple[int, ...]) -> Memory:
        """Plain numbers for shape (), else arrays of that shape."""
        known = (name for name in _NUMBERS if getattr(self, name) is not None)
        numbers: dict[str, Any] = {name: shaped(getattr(self, name), shape) for name in known}
        return replace(self, **numbers, tiers=tuple(tier.mapped(lambda v: shaped(v, shape)) for tier in self.tiers))


_NUMBERS = tuple(f.name for f in fields(Memory) if f.name not in ("capacity", "tiers"))


def cache_room(budget: Count | None, tiers: Iterable[TierMemory], caching: str) -> Count | None:
    """Room for the cache, less what other memories lack. `caching`: the memory that holds the cache."""
    for tier in tiers:
        room = tier.capacity - tier.total + (tier.cache if tier.name == caching else 0)
        budget = room if budget is None else where(room < 0, least(budget, room), budget)
    return budget


Sequences: TypeAlias = Sequence[tuple[Count, Count]]
"""Numbers of sequences and the tokens of each, for every length."""
REMEMBERED = 2**14
"""Steps whose activations are cached."""


@dataclass(frozen=True)
class Holding:
    """What holds the sequences: the distinct ranks of a deployment, their formats, and the engine with its chunk.

    `images`: images of every sequence, whose tokens are among its own.
    """

    deployment: Deployment
    ranks: tuple[Model, ...]
    formats: Precision
    engine: Engine
    chunk: int
    images: ImageTokens | None = None
    _known: dict[tuple[int, Count, Count], Count] = field(default_factory=dict, init=False, compare=False, repr=False)
    _pages: dict[int, CachePages | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    def memory(self, groups: Sequences, new: Count = 0) -> Memory:
        """Memory of the fullest rank of a replica that holds these numbers of sequences of these lengths.

        `new`: new tokens of the step asked for, where it is larger than the engine's.
        """
        return reduce(Memory.fuller, (self._of(rank, groups, new) for rank in self.ranks))

    def _of(self, rank: Model, groups: Sequences, new: Count) -> Memory:
        sequences, tokens = sum(n for n, _ in groups), sum(n * length for n, length in groups)
        engine, chip = self.engine, self.deployment.chip
        weights = rank.weight_bytes(self.formats) + self.padding(rank) - self.on_host.get(id(rank), 0)
        profiled = engine.profiled and "decode" in rank.steps
        step = most(self.chunk if profiled else least(self.chunk, tokens), new)
        step = step if "decode" in rank.steps else most(tokens, new)
        running = engine.most_running if profiled else sequences
        active = self.activations(rank, step, least(running, step))
        if self.images is not None:
            active = with_encoder(active, rank, self.formats, self.images, running, step)
        if engine.buffers and not engine.flash:
            active = most(active, score_bytes(rank, step, engine.cached_tokens(tokens), chip.kind == "cpu"))
        overhead = engine.overhead(self.together)
        pages, parts = self._paged(rank), self.deployment.layout.cp > 1
        cache = sum(cache_bytes(rank, self.formats, engine, n, length) for n, length in groups)
        state = sequences * rank.state_bytes(self.formats)
        if pages is not None:
            paged = (sum(pages.bytes(n, length, kind) for n, length in groups) for kind in (False, True))
            cache, state = (where(parts, a, b) for a, b in zip((cache, state), paged, strict=True))
        memory = Memory(
            chip.capacity, weights=weights, cache=cache, state=state, activations=active, overhead=overhead,
        )  # fmt: skip
        if chip.tiers:
            return self._in_tiers(rank, memory)
        return replace(memory, budget=engine.cache_budget(engine.seen(chip), weights, active, overhead))

    def _in_tiers(self, rank: Model, memory: Memory) -> Memory:
        """The memory of a rank whose chip has several, by what each keeps.

        In main memory the engine's rule leaves the cache its room, in a tier the tier's capacity does. The cache has
        none where another memory has too little for what it keeps.
        """
        chip, engine = self.deployment.chip, self.engine
        weights: dict[str, Count] = {}
        for module, layers in rank.modules():
            if engine.hosted(chip) and hashed(module):
                continue
            name = keeper_of(chip.placement, part_of(module))
            weights[name] = weights.get(name, 0) + layers * self.formats.weight_bytes(module)
        experts = keeper_of(chip.placement, "experts")
        weights[experts] = weights.get(experts, 0) + self.padding(rank)
        caching = keeper_of(chip.placement, CACHE)
        capacities = {MAIN: chip.capacity, **{tier.name: tier.capacity for tier in chip.tiers}}
        tiers = tuple(
            TierMemory(
                name, capacity, weights.get(name, 0), memory.cache + memory.state if name == caching else 0,
                memory.activations + memory.overhead if name == MAIN else 0,
            )
            for name, capacity in capacities.items()
        )  # fmt: skip
        if caching == MAIN:
            budget = engine.cache_budget(engine.seen(chip), weights.get(MAIN, 0), memory.activations, memory.overhead)
        else:
            budget = capacities[caching] - weights.get(caching, 0)
        return replace(memory, capacity=chip.whole_capacity, budget=cache_room(budget, tiers, caching), tiers=tiers)

    def padding(self, rank: Model) -> Count:
        """Bytes that the engine adds to the weights of routed experts by padding."""
        fmt = self.formats.experts
        inner, hidden = self.engine.multiples(fmt.name, self.deployment.chip.generation)
        if (inner, hidden) == (1, 1):
            return 0
        padded: Count = 0
        for module, layers in rank.modules():
            if isinstance(module, Experts) and self.formats.of(module) == fmt:
                wide, high = ceil_div(module.inner, inner) * inner, ceil_div(module.hidden, hidden) * hidden
                more = module.held * (wide * high - module.inner * module.hidden) * (3 if module.gated else 2)
                padded = padded + layers * fmt.bytes(more)
        return padded

    @cached_property
    def on_host(self) -> dict[int, Count]:
        """Bytes of each rank's tables of n-grams that the engine leaves in the memory of the host, by its id."""
        if not self.engine.hosted(self.deployment.chip):
            return {}
        weigh = self.formats.weight_bytes
        return {id(r): sum(n * weigh(x) for x, n in r.modules() if hashed(x)) for r in self.ranks}

    @cached_property
    def together(self) -> Count:
        """Chips that hold a replica together."""
        layout = self.deployment.layout
        return where(layout.ep > 1, layout.chips, layout.chips // layout.dp)

    def pages(self, rank: Model) -> CachePages | None:
        """Pages of a rank's cache; None where the engine does not page it or ranks hold only part of the tokens."""
        return self._paged(rank) if self._all_tokens else None

    def _paged(self, rank: Model) -> CachePages | None:
        """Pages of a rank's cache where at least one of several layouts has ranks that hold all tokens."""
        key = id(rank)
        if key not in self._pages:
            layers = cached_layers(rank, self.formats) if self.engine.paged and self._some_tokens else None
            self._pages[key] = cache_pages(layers, self.engine.block) if layers else None
        return self._pages[key]

    @cached_property
    def _all_tokens(self) -> bool:
        return not some(self.deployment.layout.cp > 1)

    @cached_property
    def _some_tokens(self) -> bool:
        return some(self.deployment.layout.cp == 1)

    def cache_concurrency(self, tokens: Count) -> Count | None:
        """Sequences of `tokens` tokens whose cache fits, each at its fullest; None where the cache has no pages."""
        known: list[Count] = []
        for rank in self.ranks:
            pages, budget = self.pages(rank), self._of(rank, ((1, 1),), 0).budget
            if pages is not None and budget is not None:
                known.append(pages.concurrency(budget, tokens, self.chunk))
        return reduce(least, known) if known else None

    def activations(self, rank: Model, tokens: Count, sequences: Count) -> Count:
        """Bytes of the activations of a step, cached for plain numbers."""
        if is_array(tokens) or is_array(sequences) or rank.shape:
            return self._activations(rank, tokens, sequences)
        key = (id(rank), tokens, sequences)
        if key not in self._known:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            self._known[key] = self._activations(rank, tokens, sequences)
        return self._known[key]

    def _activations(self, rank: Model, tokens: Count, sequences: Count) -> Count:
        engine = self.engine
        if not engine.buffers:
            return activation_bytes(rank, self.formats, tokens, sequences, engine.sampled_bytes)
        wide = self.formats.with_roles(activations="fp32")
        streams = 2 if self.deployment.chip.kind == "cpu" else 1  # a CPU's buffer also holds the tokens' embeddings
        return activation_bytes(rank, wide, tokens, tokens, engine.sampled_bytes, streams, in_place=True)

    def fits(self, batch: Count, tokens: Count) -> Flag:
        """Whether `batch` sequences per replica fit."""
        return self.memory(((batch, tokens),)).fits

    def most_sequences(self, tokens: Count, limit: Count) -> Count:
        """Most sequences of `tokens` tokens that a replica holds and runs at once, up to `limit`; 0 where none fits."""
        return largest(
            lambda batch: self.fits(batch, tokens), self._each(least(limit, self.engine.most_running), tokens)
        )

    def most_tokens(self, batch: Count, limit: Count) -> Count:
        """Most tokens that each of `batch` sequences may have, up to `limit`; 0 where not even one fits."""
        return largest(lambda tokens: self.fits(batch, tokens), self._each(limit, batch))

    def _each(self, limit: Count, other: Count) -> Count:
        """Broadcast a limit to the shape of another number and of the layout's degrees."""
        shape = np.broadcast_shapes(np.shape(limit), np.shape(other), self.deployment.layout.shape)
        return np.broadcast_to(limit, shape) if shape else limit

    @cached_property
    def growing(self) -> bool:
        """Whether a further sequence needs any memory."""
        return any(rank.kv_elements(1) or rank.state_bytes(self.formats) for rank in self.ranks)


def hashed(module: Module) -> bool:
    """Whether a module is a table of n-grams."""
    return isinstance(module, Embedding) and module.hashed


def holding(
    model: Model, deployment: Deployment, formats: Precision, engine: Engine, chunk: int | None = None,
    images: ImageTokens | None = None,
) -> Holding:  # fmt: skip
    """What holds the sequences of a model in a deployment. `chunk`: most new tokens of a step (the engine's)."""
    tokens = engine.chunk if chunk is None else chunk
    return Holding(deployment, deployment.ranks(model), formats, engine, tokens, images)


def cache_bytes(rank: Model, precision: Precision, engine: Engine, batch: Count, tokens: Count) -> Count:
    """Bytes of the KV cache of `batch` sequences of `tokens` tokens, in whole blocks.

    An engine that sets buffers aside has room for a step beside the window of sliding-window layers: in llama.cpp
    (`src/llama-kv-cache-iswa.cpp`) min(n_ctx, n_swa + n_ubatch) cells in multiples of 256.
    """
    whole = engine.cached_tokens(tokens)
    kept = rank.kv_elements(whole, engine.chunk, engine.block) if engine.buffers else rank.kv_elements(whole)
    rows = row_bytes(rank, precision, whole, getattr(rank, "token_shares", 1)) if engine.rows else 0
    return batch * (precision.kv.bytes(kept) + rows)


def score_bytes(rank: Model, step: Count, tokens: Count, cpu: bool) -> Count:
    """Bytes of llama.cpp's buffer for a step without flash attention: scores and mask in fp32, beside the activations.

    4·step·(tokens·(heads + 1) + 4·d) on a GPU; a CPU has 5·d and the new keys and values. Its logs agree: on a GPU, 296
    MiB for Llama-2-7B at 4,096 tokens and 560 for Llama-3-8B at 8,192; on a CPU, those of
    `benchmarks/llama_cpp_here.py`.
    """
    heads: Count = 0
    new: Count = 0
    for module, _ in rank.modules():
        if isinstance(module, Attention):
            heads, new = most(heads, module.heads), most(new, module.kv_width)
        elif isinstance(module, LatentAttention):
            heads = most(heads, module.heads)
    beside = 5 * rank.hidden + new if cpu else 4 * rank.hidden
    return 4 * step * (tokens * (heads + 1) + beside)


def activation_bytes(
    rank: Model, precision: Precision, tokens: Count, sequences: Count, sampled: float = 4.0, streams: int = 1,
    in_place: bool = False,
) -> Count:  # fmt: skip
    """Bytes of activations alive at once in a step of `tokens` new tokens, an upper estimate.

    The larger of two sums. In the layers: max over ops of (input + output), and the residual stream twice. After them:
    `streams` residual streams, and `sampled` bytes for each logit of `sequences` sequences. Attention scores stay on
    the chip. `in_place`: elementwise activations overwrite their input, and the input of the head is one of the
    streams.
    """
    arrays = [v for v in (tokens, sequences) if is_array(v)]
    kinds = distinct(arrays) if arrays and not rank.shape else None
    if kinds is not None:
        tokens, sequences = (kinds.take(v) if is_array(v) else v for v in (tokens, sequences))
    each, longer = most(1, tokens // sequences), most(0, tokens - sequences) % sequences
    queries = (Queries(0, each, sequences - longer), Queries(0, each + 1, longer))
    step = replaced(prefill(1, 1), queries if some(longer) else queries[:1])
    modules = (x for x, _ in rank.modules() if not (in_place and x in rank.head))
    widest = widest_op(modules if rank.shape else dict.fromkeys(modules), step, in_place)
    stream = precision.activations.bytes(rank.hidden * tokens)
    active = most(precision.activations.bytes(widest) + 2 * stream, streams * stream + sampled * rank.vocab * sequences)
    return active if kinds is None else np.asarray(active)[kinds.index]


def widest_op(modules: Iterable[Module], step: AnyStep, in_place: bool = False) -> Count:
    """Elements of the input and the output of the op that has most; `in_place`: activations overwrite their input."""
    widest: Count = 0
    for module in modules:
        for op in lower(module, step):
            over = in_place and isinstance(op, Activate)
            widest = most(widest, most(op.input, op.output) if over else op.input + op.output)
    return widest


def with_encoder(
    active: Count, rank: Model, precision: Precision, images: ImageTokens, running: Count, tokens: Count
) -> Count:
    """Bytes alive in a step of `tokens` tokens that encodes the images of at most `running` prompts before them.

    Towers and language model run one after another: max(active, widest op of a tower + twice its stream). What a tower
    yields, hidden elements a token, is kept until the prompt is computed, as in vLLM's encoder cache
    (`vllm/v1/worker/gpu_model_runner.py`, `profile_run`). A rank without a tower needs nothing.
    """
    kept: Count = 0
    for part in images.encoded:
        towers = [tower for tower in rank.towers if tower.stream == part.stream and tower.blocks]
        if not towers:
            continue
        number = least(running * part.number, most(1, tokens // part.tokens))
        read = Beside(part.stream, (Queries(0, part.positions, number * part.inputs),))
        step = replaced(prefill(1, 1), beside=(read,))
        for tower in towers:
            stream = 2 * tower.hidden * number * part.inputs * part.positions
            wide = widest_op((module for block, _ in tower.blocks for module in block.modules), step)
            active = most(active, precision.activations.bytes(wide + stream))
        kept = kept + precision.activations.bytes(number * part.tokens * rank.hidden)
    return active + kept


# -- searching -----------------------------------------------------------------------------------------------------
SECTIONS = 256
"""Values that a search evaluates at once."""


def largest(allowed: Callable[[Count], Any], limit: Count) -> Count:
    """The largest whole number from 1 to `limit` that is allowed, 0 where none is.

    `allowed` must hold for all numbers below one for which it holds. With an array `limit`, for each of its elements.
    """
    shape = np.shape(limit)
    low, high = np.zeros(shape), np.broadcast_to(limit, shape) + 1.0
    sections = max(1, SECTIONS // max(1, low.size))
    steps = np.arange(1, sections + 1).reshape(-1, *(1 for _ in shape))
    while (high - low > 1).any():
        tried = low + np.maximum(1, (high - low) * steps // (sections + 1))
        tried = np.minimum(tried, np.maximum(high - 1, 1))  # float64, in which products of sizes do not overflow
        passed = np.broadcast_to(allowed(tried), tried.shape)
        low = np.maximum(low, np.where(passed, tried, 0).max(axis=0))
        high = np.maximum(np.minimum(high, np.where(passed, high, tried).min(axis=0)), low + 1)
    whole = low.astype(np.int64)
    whole = np.where((whole > 0) & ~np.asarray(allowed(np.maximum(whole, 1))), whole - 1, whole)
    return whole if shape else int(whole)
