"""A step: one forward pass over queries, each with cached tokens and new tokens.

A prefill is (cached 0, new S), a decode (L, 1), a chunk of a long prompt (L, C); a list mixes them. Formulas use only a
few sums over the queries: sequences, tokens, tokens read from the cache, attended pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from roofline.declared.checks import count, lengths_differ
from roofline.declared.checks import count as count_of
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.kinds import NewTokens, PhaseName, QueryTokens, Sequences, Tokens, TokensOrNone
from roofline.declared.numbers.arrays import np
from roofline.declared.numbers.maths import Count, ceil_div, half, is_array, least, most, no_more, where
from roofline.declared.question import group
from roofline.model.media.images import ImageTokens
from roofline.model.modules import Pace

Logits: TypeAlias = Literal["last", "all"]
Phase: TypeAlias = Literal["prefill", "decode"]
PHASES: tuple[Phase, ...] = ("prefill", "decode")
AnyStep = TypeVar("AnyStep", bound="Step")
EachLength: TypeAlias = Count | Sequence[int] | None
"""One length for all queries, or one for each."""


@dataclass(frozen=True)
class Queries:
    """`count` equal sequences: each has `cached` tokens in the cache and `new` ones to process."""

    cached: Count
    new: Count
    count: Count = 1


@dataclass(frozen=True)
class Beside:
    """What a step reads beside its tokens: the queries of another `stream` of the model.

    Streams are named by the towers of a model: `images`, `sound`, or `source`, the sequence that an encoder reads for
    a decoder. Positions that were processed in an earlier step are `cached`.
    """

    stream: str
    queries: tuple[Queries, ...]


def images_beside(images: ImageTokens, prompts: Count, begun: Count = 1) -> tuple[Beside, ...]:
    """What a step reads of the images and sound of `prompts` prompts; nothing where no tower is counted.

    `begun`: 1 where the step begins the prompts, 0 where their images are in the cache.
    """
    return tuple(
        Beside(part.stream, (Queries(0, begun * part.positions, prompts * part.inputs * part.number),))
        for part in images.encoded
    )


@group
@dataclass(frozen=True, init=False)
class Step:
    """One forward pass.

    Step([(0, 512), (4096, 1)])            a batch of queries, each (cached, new)
    Step([(0, 512, 8)])                    eight queries alike
    Step(cached=[0, 4096], new=[512, 1])   the same as two lists, one entry a query
    Step(cached=array, new=1, batch=32)    a sweep: arrays broadcast, every element is a step of its own

    `logits`: the tokens that the head runs for: the `last` of each query or `all`. `parts`: ranks of a layout that
    share the new tokens; sums over the queries are then those of one rank, rounded up. `beside`: the queries of other
    streams, such as the patches of images. `stream`: the stream whose positions the queries are; "" for tokens.
    Raises InputError for negative, fractional, missing or unequal entries.
    """

    queries: tuple[Queries, ...]
    logits: Logits
    parts: Count
    beside: tuple[Beside, ...]
    stream: str

    def __init__(
        self,
        queries: Iterable[Queries | Sequence[Count]] | None = None,
        *,
        cached: EachLength = None,
        new: EachLength = None,
        batch: Count = None,
        logits: Logits = "last",
    ) -> None:
        if logits not in ("last", "all"):
            raise InputError("logits", logits, "'last' or 'all'")
        if queries is None:
            entries = _from_fields(cached, new, batch)
        else:
            if cached is not None or new is not None or batch is not None:
                raise InputError("queries", queries, "either queries or cached, new and batch")
            entries = [_entry(q) for q in queries]
        if not entries:
            raise InputError("queries", entries, "at least one query")
        checked = [
            Queries(count("cached", q.cached), count("new", q.new, 1), count("batch", q.count, 1)) for q in entries
        ]
        object.__setattr__(self, "queries", _merged(checked))
        object.__setattr__(self, "logits", logits)
        object.__setattr__(self, "parts", 1)
        object.__setattr__(self, "beside", ())
        object.__setattr__(self, "stream", "")
        try:
            self.shape  # noqa: B018
        except ValueError:
            shapes = {name: np.shape(v) for q in checked for name, v in q.__dict__.items()}
            raise lengths_differ("step", shapes) from None

    def __add__(self, other: Step) -> Step:
        """Combine the queries of two steps."""
        return replace(self, (*self.queries, *other.queries), beside=(*self.beside, *other.beside))

    def with_logits(self, logits: Logits) -> Step:
        """A copy with logits for the `last` token of each query or for `all`."""
        return replace(self, logits=logits)

    def with_symbols(self, cached: Count, new: Count, count: Count) -> Step:
        """A copy with one kind of query, given as symbols, and the same head."""
        return replace(self, (Queries(cached, new, count),))

    def with_queries(self, queries: tuple[Queries, ...]) -> Step:
        """A copy with other queries."""
        return replace(self, queries)

    def of_replica(self, replicas: Count) -> Step:
        """The share of the busiest of `replicas` replicas, among which the queries of each kind are divided, rounded
        up."""
        if isinstance(replicas, int) and replicas == 1:
            return self
        return replace(self, _divided(self.queries, replicas), beside=tuple(
            Beside(other.stream, _divided(other.queries, replicas)) for other in self.beside
        ))  # fmt: skip

    def reading(self, stream: str, positions: Count, count: Count = None, *, cached: Count = 0) -> Step:
        """The step with `count` inputs of `positions` positions each in another stream: one for each query by default.

        `cached`: positions that an earlier step processed. Raises InputError for numbers that are not whole.
        """
        many = self.sequences if count is None else count_of(f"{stream} inputs", count, 1)
        new = count_of(f"{stream} positions", positions)
        entry = Queries(count_of(f"cached {stream} positions", cached), new, many)
        return replace(self, beside=(*self.beside, Beside(stream, (entry,))))

    def read(self, stream: str) -> tuple[Queries, ...]:
        """What the step reads of another stream, new and cached."""
        return tuple(q for other in self.beside if other.stream == stream for q in other.queries)

    def of(self, stream: str) -> Step:
        """The step of one stream: its new positions as the queries. Without any, the step has no queries."""
        if stream == self.stream:
            return self
        there = [q for q in self.read(stream) if is_array(q.new) or not isinstance(q.new, int) or q.new]
        queries = tuple(
            Queries(q.cached, most(q.new, 1), q.count * no_more(1, q.new)) if is_array(q.new) else q for q in there
        )
        return replace(self, queries, "all", beside=(), stream=stream)

    def at(self, positions: int, runs: int = 1) -> Step:
        """The step of a module that runs over `positions` positions in each of `runs` pieces of every new input."""
        return replace(self, tuple(Queries(0, positions, q.count * runs * no_more(1, q.new)) for q in self.queries))

    def paced(self, pace: Pace) -> Step:
        """The step of a module whose positions follow from the length of each new input."""
        if pace.last and self.logits == "all":
            return self

        def length(new: Count) -> Count:
            kept = new // pace.every if pace.down else ceil_div(new, pace.every)
            spaced = ceil_div(kept, pace.multiple) * pace.multiple * pace.times + pace.extra
            return spaced if pace.most is None else least(spaced, pace.most)

        kept = [(q, length(q.new)) for q in self.queries]
        queries = (Queries(q.cached + pace.last * (q.new - new), new, q.count) for q, new in kept)
        return replace(self, tuple(queries), "all")

    def shared(self, parts: Count) -> Step:
        """The share of one of `parts` ranks: its part of the new tokens, and all cached tokens."""
        return self if isinstance(parts, int) and parts == 1 else replace(self, parts=self.parts * parts)

    def share(self, count: Count) -> Count:
        """One rank's share of a number, rounded up."""
        return count if isinstance(self.parts, int) and self.parts == 1 else ceil_div(count, self.parts)

    # -- sums over the queries -------------------------------------------------------------------------------------
    def total(self, each: Callable[[Queries], Count]) -> Count:
        """Σ over the queries of count · each(query)."""
        if not self.queries:
            return 0
        first, *rest = self.queries
        result = first.count * each(first)
        for query in rest:
            result = result + query.count * each(query)
        return result

    @cached_property
    def sequences(self) -> Count:
        """Number of queries."""
        return self.total(lambda q: 1)

    @cached_property
    def continued(self) -> Count:
        """Number of queries with cached tokens, whose recurrent state is read; for others the state starts at zero."""
        return self.total(lambda q: no_more(1, q.cached))

    @cached_property
    def new_tokens(self) -> Count:
        """New tokens of all queries, over all ranks."""
        return self.total(lambda q: q.new)

    @cached_property
    def tokens(self) -> Count:
        """New tokens of all queries on this rank."""
        return self.share(self.new_tokens)

    @cached_property
    def cached_tokens(self) -> Count:
        """Tokens of all queries that are cached before the step."""
        return self.total(lambda q: q.cached)

    @classmethod
    def asked(
        cls,
        *,
        phase: Annotated[
            PhaseName | None, "A `prefill` or a `decode` (default: a prefill where `input` is given, else a decode)."
        ] = None,
        batch: Annotated[
            Sequences | None,
            "Sequences of all replicas together (1), or a multiple of the length of `cached` and `new`, which then "
            "repeat.",
        ] = None,
        input: Annotated[
            Tokens | None, "Prompt tokens: a prefill of that many new tokens for each sequence (1024)."
        ] = None,
        context: Annotated[
            TokensOrNone | None,
            "Tokens cached: a decode step of one new token for each sequence after that many (1024).",
        ] = None,
        cached: Annotated[QueryTokens | None, "Cached tokens of each query of a mixed batch."] = None,
        new: Annotated[NewTokens | None, "New tokens of each query of a mixed batch."] = None,
    ) -> Step:
        """A step from settings. Raises InputError for combinations that are not possible."""
        if cached is not None or new is not None:
            beside = {"phase": phase, "input": input, "context": context}
            if any(value is not None for value in beside.values()):
                raise InputError("cached", cached, "either `input` and `context` or `cached` and `new`")
            return _listed(batch, cached, new)
        if input is not None and context is not None:
            raise InputError("input and context", "both", "one of them: a prefill, or a decode")
        if phase == "decode" and input is not None:
            raise InputError("input", input, "context as well: a decode has tokens cached")
        if phase is None and input is None and context is None:
            return UsualStep([(USUAL_TOKENS, 1, 1 if batch is None else batch)])
        name, tokens = ("context", context) if input is None else ("input", input)
        tokens, how = USUAL_TOKENS if tokens is None else tokens, phase or ("prefill" if name == "input" else "decode")
        return step_of(how, 1 if batch is None else batch, count(name, tokens, 1) if how == "prefill" else tokens)

    @property
    def logit_tokens(self) -> Count:
        """Tokens whose logits are computed."""
        return self.sequences if self.logits == "last" else self.tokens

    @cached_property
    def square_pairs(self) -> Count:
        """Query-key pairs without any mask: Σ new·(cached + new)."""
        return self.share(self.total(lambda q: q.new * (q.cached + q.new)))

    def kept_pairs(self, window: Count | None = None) -> Count:
        """Query-key pairs without a mask, over a cache that keeps only what a window needs: Σ new·(kept + new).

        Of P cached tokens the last min(P, W − 1) are kept; without a window all.
        """
        if window is None:
            return self.square_pairs
        return self.share(self.total(lambda q: q.new * (least(q.cached, window - 1) + q.new)))

    def pairs(self, window: Count | None = None, chunk: Count | None = None) -> Count:
        """Query-key pairs a causal mask leaves, in a sliding window or in chunks where given.

        Full: Σ over the new tokens i = 1…T of P + i, which is T·P + T(T+1)/2 after P cached ones.
        Window W: Σ min(P + i, W). Chunks of C: each token sees its own chunk up to itself.
        """
        return self.share(self.total(lambda q: query_pairs(q, window, chunk)))

    def reads(self, each: Callable[[Queries], Count]) -> Count:
        """Σ over the queries of count · each(query), the cache entries that a rank reads.

        If there is at least one new token for each of the ranks that share them, every rank reads all entries. With
        fewer, as in decode, a rank reads the share that it caches.
        """
        if isinstance(self.parts, int) and self.parts == 1:
            return self.total(each)
        return self.total(lambda q: ceil_div(each(q) * least(q.new, self.parts), self.parts))

    def cache_reads(self, window: Count | None = None, chunk: Count | None = None) -> Count:
        """Cached tokens that at least one new token attends to."""
        if chunk is not None:
            return self.reads(lambda q: q.cached % chunk)
        if window is None:
            return self.reads(lambda q: q.cached)
        return self.reads(lambda q: least(q.cached, window - 1))

    # -- arrays ----------------------------------------------------------------------------------------------------
    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of the arrays in the step, () where it holds none."""
        shapes = [v.shape for v in self.numbers if is_array(v)]
        if not shapes:
            return ()
        return np.broadcast_shapes(*shapes)

    @property
    def numbers(self) -> tuple[Count, ...]:
        """Every number of the step: those of its queries in all streams, and the ranks that share them."""
        queries = (*self.queries, *(q for other in self.beside for q in other.queries))
        return (self.parts, *(v for q in queries for v in (q.cached, q.new, q.count)))

    def mapped(self, each: Callable[[Count], Count]) -> Step:
        """Apply `each` to every number of the queries, and to the number of ranks that share them."""

        def all_of(queries: tuple[Queries, ...]) -> tuple[Queries, ...]:
            return tuple(Queries(each(q.cached), each(q.new), each(q.count)) for q in queries)

        beside = tuple(Beside(other.stream, all_of(other.queries)) for other in self.beside)
        return replace(self, all_of(self.queries), parts=each(self.parts), beside=beside)

    def largest(self) -> Step:
        """The step with the largest value of each array, an upper bound on the cost of all elements."""
        return replace(self.mapped(_peak), parts=1)

    def blocks(self, points: int) -> Iterator[Step]:
        """Split the flattened step into pieces of at most `points` elements, in order."""
        shape = self.shape
        flat = self.mapped(lambda v: np.broadcast_to(v, shape).reshape(-1) if is_array(v) else v)
        for start in range(0, self.points, points):
            piece = slice(start, start + points)
            yield flat.mapped(lambda v, piece=piece: v[piece] if is_array(v) else v)  # type: ignore[misc]

    @property
    def points(self) -> int:
        """Number of elements of the sweep, 1 where there are no arrays."""
        return math.prod(self.shape)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence after the step, over all elements."""
        return max(int(q.cached + q.new) for q in self.largest().queries)

    def as_floats(self) -> Step:
        """The step with its arrays as float64, for sweeps beyond 64-bit integers."""
        return self.mapped(lambda v: v.astype("float64") if is_array(v) else v)


MOST_QUERIES = 4096
"""Most queries of a step that are listed individually."""
USUAL_TOKENS = 1024
"""Default prompt or context length of a step, in tokens."""


def _listed(batch: Count, cached: EachLength, new: EachLength) -> Step:
    """A step from individual queries. Raises InputError for lists that do not match."""
    name, first = ("new", new) if cached is None else ("cached", cached)
    size = len(first) if isinstance(first, (list, tuple)) else 1
    if size > MOST_QUERIES:
        raise InputError(name, f"{size} queries", f"at most {MOST_QUERIES}")
    if cached is not None and new is not None and isinstance(new, (list, tuple)) and len(new) != size:
        raise InputError("new", new, f"{size} values, as many as `cached`")
    if isinstance(batch, int) and batch % size:
        raise InputError("batch", batch, f"a multiple of the {size} queries listed")
    return Step(cached=[0] * size if cached is None else cached, new=[1] * size if new is None else new, batch=batch)


def prefill(batch: Count = 1, tokens: Count = None, *, cached: Count = 0, logits: Logits = "last") -> Step:
    """`batch` prompts of `tokens` new tokens each, after `cached` ones (a shared prefix, an earlier chunk).

    `logits`: for the `last` token of each prompt, or for `all`. Numbers may be arrays, which broadcast. Raises
    InputError for numbers that are not whole or out of range, arrays that do not broadcast, and other logits.
    """
    return Step([(count("cached", cached), count("tokens", tokens, 1), count("batch", batch, 1))], logits=logits)


def decode(batch: Count = 1, context: Count = None, *, new: Count = 1) -> Step:
    """`batch` sequences with `context` cached tokens each that add one token (or `new`, when verifying drafts).

    Numbers may be arrays, which broadcast. With several new tokens, all have logits. Raises InputError for numbers that
    are not whole or out of range, and arrays that do not broadcast.
    """
    added = count("new", new, 1)
    entry = (count("context", context), added, count("batch", batch, 1))
    return Step([entry], logits="last" if _is_one(added) else "all")


@dataclass(frozen=True, init=False)
class UsualStep(Step):
    """The step of which no length is said: a decode, or for a model that reads its input as a whole, its pass."""


def step_of(phase: str, batch: Count, tokens: Count) -> Step:
    """The step of a phase: a prefill of `tokens` tokens, or a decode after `tokens` cached tokens.

    Raises InputError for another phase, and for sizes that are no whole numbers.
    """
    if phase not in PHASES:
        raise not_one_of("phase", phase, PHASES)
    return prefill(batch, tokens) if phase == "prefill" else decode(batch, tokens)


def read_whole(batch: Count = 1, tokens: Count = None) -> Step:
    """`batch` inputs of `tokens` positions each that an encoder reads, with an output for every position.

    Numbers may be arrays, which broadcast. Raises InputError for numbers that are not whole or out of range.
    """
    return prefill(batch, tokens, logits="all")


# -- what a module sees of a step ----------------------------------------------------------------------------------
View = Callable[[AnyStep], AnyStep]
"""A function that reduces a step to what determines a module's time: steps with equal views are timed once."""


def tokens_alone(step: AnyStep) -> AnyStep:
    """All new tokens as one query: the view of a product, a norm or a sum."""
    return replace(step, (Queries(0, step.new_tokens, 1),), beside=())


def adds_one(q: Queries) -> Count:
    """1 where a query adds one token to cached ones, else 0."""
    return no_more(1, q.cached) * no_more(q.new, 1)


def decodes(step: Step) -> Count:
    """1 where every query of the step adds one token to cached ones, else 0."""
    return math.prod(adds_one(q) for q in step.queries)


def tokens_and_phase(step: AnyStep) -> AnyStep:
    """The new tokens as one query, or one query each in a decode step, which selects an exchange's kernel."""
    decoding = decodes(step)
    alone, tokens = where(decoding == 1, 1, step.new_tokens), where(decoding == 1, step.new_tokens, 1)
    return replace(step, (Queries(decoding, alone, tokens),), beside=())


def logits_alone(step: AnyStep) -> AnyStep:
    """The tokens whose logits are computed, each as one query."""
    if step.logits == "all":
        return tokens_alone(step)
    return replace(step, (Queries(0, 1, step.sequences),), beside=())


def lengths_alone(step: AnyStep) -> AnyStep:
    """The queries without cached tokens, only marked as continued or not: the view of a recurrence."""
    return replace(step, tuple(Queries(no_more(1, q.cached), q.new, q.count) for q in step.queries), beside=())


def inputs_alone(step: AnyStep) -> AnyStep:
    """The new inputs without their lengths: the view of a module whose positions are fixed."""
    return replace(step, tuple(Queries(0, 1, q.count * no_more(1, q.new)) for q in step.queries), beside=())


@cache
def in_stream(stream: str, view: View[Step]) -> View[Step]:
    """The view of a module of another stream: `view` of the step of that stream; no queries where it has none."""

    def seen(step: Step) -> Step:
        part = step.of(stream)
        return view(part) if part.queries else part

    return seen


def whole_step(step: AnyStep) -> AnyStep:
    """The step unchanged: the view of attention."""
    return step


def _divided(queries: tuple[Queries, ...], replicas: Count) -> tuple[Queries, ...]:
    """The queries of the busiest of `replicas` replicas."""
    return tuple(Queries(q.cached, q.new, ceil_div(q.count, replicas)) for q in queries)


def _is_one(new: Count) -> bool:
    return isinstance(new, int) and new == 1


def replace(
    step: AnyStep,
    queries: tuple[Queries, ...] | None = None,
    logits: Logits | None = None,
    parts: Count = None,
    beside: tuple[Beside, ...] | None = None,
    stream: str | None = None,
) -> AnyStep:
    """A copy of the step with other queries, logits, parts or streams, without validation."""
    merged = None if queries is None else _merged(queries)
    given = {"queries": merged, "logits": logits, "parts": parts, "beside": beside, "stream": stream}
    other = object.__new__(type(step))
    kind: Any = type(step)
    for name in _field_names(kind):
        value = given.get(name)
        object.__setattr__(other, name, getattr(step, name) if value is None else value)
    return other


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _entry(query: Queries | Sequence[Count]) -> Queries:
    if isinstance(query, Queries):
        return query
    if isinstance(query, (tuple, list)) and len(query) in (2, 3):
        return Queries(*query)
    raise InputError("queries", query, "pairs (cached, new) or triples (cached, new, count)")


def _from_fields(cached: EachLength, new: EachLength, batch: Count) -> list[Queries]:
    cached, new = 0 if cached is None else cached, 1 if new is None else new
    lists = [v for v in (cached, new) if isinstance(v, (list, tuple, range))]
    if not lists:
        return [Queries(cached, new, 1 if batch is None else batch)]
    size = len(lists[0])
    if any(len(v) != size for v in lists):
        raise InputError("new", new, f"{size} entries, as many as `cached`")
    columns = [list(v) if isinstance(v, (list, tuple, range)) else [v] * size for v in (cached, new)]
    repeat = 1
    if batch is not None:
        total = count("batch", batch, 1)
        if not isinstance(total, int) or not size or total % size:
            raise InputError("batch", batch, f"a multiple of the {size} queries listed")
        repeat = total // size
    return [Queries(c, n, repeat) for c, n in zip(*columns, strict=True)]


def _merged(queries: Sequence[Queries]) -> tuple[Queries, ...]:
    """Merge equal scalar queries by count, so that a large mixed batch stays short."""
    if len(queries) == 1:
        return tuple(queries)
    counts: Counter[tuple[int, int]] = Counter()
    others: list[Queries] = []
    for q in queries:
        if type(q.cached) is int and type(q.new) is int and type(q.count) is int:
            counts[q.cached, q.new] += q.count
        else:
            others.append(q)
    return (*(Queries(c, n, k) for (c, n), k in counts.items()), *others)


def query_pairs(q: Queries, window: Count | None = None, chunk: Count | None = None) -> Count:
    """The pairs of one of the queries: see `Step.pairs`."""
    if chunk is not None:
        return _chunked(q.cached + q.new, chunk) - _chunked(q.cached, chunk)
    if window is None:
        return q.new * q.cached + half(q.new * (q.new + 1))
    return _windowed(q.cached, q.new, window)


def _windowed(cached: Count, new: Count, window: Count) -> Count:
    """Σ_{i=1…new} min(cached + i, window); the first `growing` tokens still see everything."""
    growing = most(least(window - cached, new), 0)
    return growing * cached + half(growing * (growing + 1)) + (new - growing) * window


def _chunked(length: Count, chunk: Count) -> Count:
    """Query-key pairs of a sequence of `length` tokens in which each sees its own chunk up to itself."""
    rest = length % chunk
    return (length // chunk) * half(chunk * (chunk + 1)) + half(rest * (rest + 1))


def _peak(value: Count) -> Count:
    return int(value.max()) if is_array(value) else value
