"""Does it fit: the memory of a deployment, the largest batch, the longest context, and what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from roofline.declared.checks import LARGEST
from roofline.declared.errors import InputError
from roofline.declared.groups import PlaceSettings, Where
from roofline.declared.kinds import Sequences, Tokens, Whole
from roofline.declared.numbers.maths import Count, is_array, most
from roofline.declared.numbers.units import counted
from roofline.declared.result import Flag, Units, Word
from roofline.engines.engine import UNBOUNDED
from roofline.hardware.chip import Chip, limited_chip
from roofline.hardware.tiers import CACHE, WEIGHTS
from roofline.inference.deployment import Deployment
from roofline.inference.memory.memory import Holding, Memory
from roofline.inference.settings import Deployed, Setup, broadcast, holding_of, question, setup
from roofline.inference.span import shaped
from roofline.layout.layout import Layout
from roofline.model.load import Source, stepping
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import Model
from roofline.model.precision import Precision

CHIPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of chips that `fit` tries."""
LONGEST = 2**31
USUAL_CONTEXT = 4096
"""Tokens where a model states no context of its own."""
LEAST_CONTEXT = 1024
"""Fewest tokens, or the model's context where shorter, that must fit where no context is given."""
NODE = 8
"""Most chips that tensor parallelism spans when `fit` searches for the fewest chips."""


@dataclass(frozen=True)
class Remedy:
    """A change that makes a deployment fit: a description, its options as text, and the bytes per chip that result."""

    what: str
    detail: str
    needed: float


@dataclass(frozen=True, repr=False)
class Fit(Deployed):
    """Whether `batch` sequences of `context` tokens, over all replicas, fit beside the weights.

    `memory`: of the fullest rank. `chunk`: most new tokens of a step. `largest_batch` at this context and
    `longest_context` at this batch (None: without limit) are over all replicas. A replica's scheduler runs at most
    `most_running` sequences at once. `gpu_kv_cache_size` and `maximum_concurrency`: what vLLM logs under these names at
    start-up, per replica, with this context as `max_model_len`; null for other engines. `context_chosen`: no context
    was given; it is the longest that fits, at most the model's own. `images`: of each sequence, whose tokens come on
    top of `context`; null without any.
    """

    SCHEMA: ClassVar[str] = "roofline.fit/2"
    FIGURES: ClassVar[Units] = {
        "model": "", "deployment": "", "engine": "", "formats": "", "batch": "", "batch_per_replica": "",
        "idle_replicas": "", "context": "", "chunk": "", "memory": "B", "fits": "", "largest_batch": "",
        "longest_context": "", "fewest_chips": "", "fewest_layout": "", "most_running": "",
        "gpu_kv_cache_size": "", "maximum_concurrency": "", "changes": "", "context_chosen": "",
        "images": "",
    }  # fmt: skip

    asked: Setup
    batch: Count
    context: Count
    chunk: int
    context_chosen: bool = False

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of batch, context and the layout's degrees."""
        return np.broadcast_shapes(np.shape(self.batch), np.shape(self.context), self.asked.layout.shape)

    @property
    def images(self) -> ImageTokens | None:
        """Images of each sequence; None without any."""
        return self.asked.seen

    @property
    def tokens(self) -> Count:
        """Tokens of each sequence, those of its images included."""
        return self.context + self._seen

    @property
    def _seen(self) -> int:
        return 0 if self.images is None else self.images.tokens

    @cached_property
    def _holding(self) -> Holding:
        return self._held_by(self.deployment, self.formats)

    def _held_by(self, deployment: Deployment, formats: Precision) -> Holding:
        return holding_of(self.model, deployment, formats, self.engine, self.chunk, self.images)

    @cached_property
    def batch_per_replica(self) -> Count:
        """Sequences of the busiest replica."""
        return self.deployment.share(self.batch)

    @property
    def idle_replicas(self) -> Count:
        """Replicas with fewer sequences than the busiest one."""
        return self.deployment.idle(self.batch)

    @cached_property
    def memory(self) -> Memory:
        """Memory of the fullest rank."""
        return self._holding.memory(((self.batch_per_replica, self.tokens),)).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether the cache fits in the memory that the engine leaves for it."""
        return self.memory.fits

    @property
    def weights_alone(self) -> bool:
        """Whether weights and overhead alone are already too large; for a single case."""
        m = self.memory
        alone = ((m.weights + m.overhead, m.capacity), *((t.weights + t.rest, t.capacity) for t in m.tiers))
        return any(bool(needed > capacity) for needed, capacity in alone)

    @property
    def most_running(self) -> int | None:
        """Most sequences that a replica's scheduler runs at once; null where there is no scheduler."""
        return self.engine.most_running if self.engine.most_running < UNBOUNDED else None

    @cached_property
    def bound_by_scheduler(self) -> bool:
        """Whether the scheduler's limit, not memory, bounds the batch at this context; for a single case."""
        most = self.engine.most_running
        return not self.shape and most < UNBOUNDED and bool(self._holding.fits(most + 1, self.tokens))

    @cached_property
    def tables(self) -> Count:
        """Block tables per sequence: several where a hybrid cache is allocated in groups of equal pages."""
        pages = self._holding.pages(self._holding.ranks[0])
        return 1 if pages is None else pages.tables

    @cached_property
    def gpu_kv_cache_size(self) -> Count | None:
        """Tokens of cache, as vLLM logs them: the requests of this context that fit, times its tokens, rounded down."""
        requests = self._holding.cache_concurrency(self.tokens)
        return None if requests is None else shaped_whole(requests * self.tokens // 1, self.shape)

    @cached_property
    def maximum_concurrency(self) -> Count | None:
        """Sequences of this context that the cache holds, each at its peak, as vLLM logs them."""
        requests = self._holding.cache_concurrency(self.tokens)
        return None if requests is None else shaped(requests, self.shape)

    @cached_property
    def largest_batch(self) -> Count:
        """Most sequences of this context that fit and run at once, over all replicas; at most 2^40."""
        most = self._holding.most_sequences(self.tokens, LARGEST)
        return shaped_whole(most * self.asked.layout.dp, self.shape)

    @cached_property
    def longest_context(self) -> Count | None:
        """Most tokens per sequence at this batch, at most the model's context; null where there is no limit."""
        longest = self._holding.most_tokens(self.batch_per_replica, self.model.context or LONGEST)
        return _known(shaped_whole(most(0, longest - self._seen), self.shape), longest != LONGEST)

    @cached_property
    def _fewest(self) -> Any:
        """Index of the first layout that suffices, or the number of layouts where none does."""
        number = np.full(np.broadcast_shapes(np.shape(self.batch), np.shape(self.context)), len(LAYOUTS))
        for i, layout in enumerate(LAYOUTS):
            number = np.where((number == len(LAYOUTS)) & self._fits(layout), i, number)
            if (number < len(LAYOUTS)).all():
                break
        return np.broadcast_to(number, self.shape)

    @property
    def fewest(self) -> Layout | None:
        """The smallest layout that suffices, for a single case."""
        return None if self.shape or self._fewest == len(LAYOUTS) else LAYOUTS[int(self._fewest)]

    @property
    def fewest_chips(self) -> Count | None:
        """Fewest chips that suffice; null where 1,024 do not."""
        chips = np.array([layout.chips for layout in LAYOUTS] + [0])[self._fewest]
        return _known(shaped_whole(chips, self.shape), chips > 0)

    @property
    def fewest_layout(self) -> Word | None:
        """The smallest layout that suffices, as text."""
        words = np.array([layout.text() for layout in LAYOUTS] + [""])[self._fewest]
        return words if self.shape else str(words) or None

    def _fits(self, layout: Layout) -> Any:
        deployment = Deployment(self.chip, self.deployment.cluster, layout)
        try:
            chosen = self._held_by(deployment, self.formats)
        except InputError:  # a degree that does not divide
            return False
        return chosen.fits(deployment.share(self.batch), self.tokens)

    @cached_property
    def whole_context(self) -> Fit | None:
        """The fit at the model's whole context, for a single case; None where this is it or a context was given."""
        own = _own(self.model.context, self._seen)
        if self.shape or not self.context_chosen or own is None or own <= self.context:
            return None
        return replace(self, context=own, context_chosen=False)

    @cached_property
    def changes(self) -> tuple[Remedy, ...]:
        """Changes that would make it fit, cheapest first; empty for arrays and where it fits."""
        return () if self.shape or self.fits else tuple(_changes(self))


@question
def fit(
    model: Model | Source,
    place: PlaceSettings,
    *,
    batch: Annotated[Sequences, "Sequences held at once, those of all replicas."] = 1,
    context: Annotated[Tokens | None, "Tokens of each (the longest that fits, at most the model's context)."] = None,
    chunk: Annotated[Whole | None, "Most new tokens of a step, for the activations (the engine's own)."] = None,
    images: Images | None = None,
) -> Fit:
    """Whether `batch` sequences of `context` tokens fit beside the weights: a `Fit`, of lists of settings a `Grid`.

    `model`: a Model, its name, path or config. `context`: where not given the longest that fits, from 1024 tokens up to
    the model's own, or 4096 where it has none. The memory rule is the engine's. `images`: in every sequence, on top of
    `context`; the vision tower's activations and what it yields count. Numbers may be arrays, which broadcast.
    Raises InputError for what is not understood, and for a degree that does not divide what it shares out.
    """
    asked = setup(stepping(model, images), Where(**vars(place))).seeing(images)
    asked.deployment.rank(asked.model)  # an error where a degree does not divide
    tokens = asked.engine.chunk if chunk is None else chunk
    if context is None:
        broadcast(batch=batch, layout=asked.layout)
        return _with_longest_context(Fit(asked, batch, 1, tokens, context_chosen=True))
    broadcast(batch=batch, context=context, layout=asked.layout)
    return Fit(asked, batch, context, tokens)


def _own(context: int | None, seen: int) -> int | None:
    """Tokens of the model's context that the images leave; None where the model states no context."""
    return None if context is None else max(1, context - seen)


def _with_longest_context(f: Fit) -> Fit:
    """The fit with the longest context that fits, between LEAST_CONTEXT and the model's own."""
    own = _own(f.model.context, f._seen) or USUAL_CONTEXT
    longest = f.longest_context
    fitting = own if longest is None else longest
    return replace(f, context=shaped_whole(np.clip(fitting, min(LEAST_CONTEXT, own), own), f.shape))


def shaped_whole(value: Count, shape: tuple[int, ...]) -> Count:
    """A plain int where the shape is (), else an array of that shape."""
    return shaped(value, shape) if shape else int(value)


def _known(value: Count, known: Any) -> Count | None:
    """An int where `known` holds, else None."""
    if not is_array(value):
        return value if known else None
    return value if np.all(known) else np.where(known, value, np.nan)


def layouts() -> Iterator[Layout]:
    """Layouts of increasing size: tensor parallelism within a node, then pipeline stages of whole nodes."""
    for n in CHIPS:
        tp = min(n, NODE)
        yield Layout(tp=tp, pp=n // tp)
        if n > 1:
            yield Layout(tp=1, dp=n, ep=n)


LAYOUTS = tuple(layouts())


def _changes(f: Fit) -> Iterator[Remedy]:
    """Changes to try: another of the chip's memories, an 8-bit cache, fewer or shorter sequences, smaller weights, more
    chips."""
    layout, formats = f.asked.layout, f.formats

    def tried(what: str, detail: str, other: Precision, chip: Chip = f.chip) -> Iterator[Remedy]:
        deployment = replace(f.deployment, chip=chip)
        memory = f._held_by(deployment, other).memory(((f.batch_per_replica, f.tokens),))
        if memory.fits:
            yield Remedy(what, detail, float(memory.total - memory.overhead))

    for tier in f.chip.tiers:
        moved = f.chip
        for roles in ((WEIGHTS,), (CACHE,), (WEIGHTS, CACHE)):
            for role in roles:
                moved = limited_chip(moved if len(roles) > 1 else f.chip, f"{role}={tier.name}")
            yield from tried("placement", f"{' and '.join(roles)} in {tier.name}", formats, moved)
    if formats.kv.bits > 8:
        yield from tried("cache", "kv=fp8", formats.merged({"kv": "fp8"}))
    if f.largest_batch >= 1:
        yield Remedy("batch", f"batch {f.largest_batch}", 0.0)
    if f.longest_context and f.longest_context >= 1:
        yield Remedy("context", f"context {f.longest_context}", 0.0)
    smaller = False
    for name in ("fp8", "int4"):
        if formats.ffn.bits > (8 if name == "fp8" else 4):
            options = tuple(tried("weights", f"weights={name}", formats.merged({"weights": name})))
            smaller = smaller or bool(options)
            yield from options
    if not smaller and formats.kv.bits > 8:
        both = formats.merged({"weights": "int4", "kv": "fp8"})
        yield from tried("weights and cache", "weights=int4,kv=fp8", both)
    if f.fewest is not None and f.fewest != layout:
        yield Remedy("chips", counted(f.fewest.chips, "chip"), 0.0)
