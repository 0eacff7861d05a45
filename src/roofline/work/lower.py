"""Model × step → ops: one small function for each kind of module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count, ceil_div, experts_visited, half, is_array, least, most, no_more, some
from roofline.declared.question import Settings
from roofline.model import modules as m
from roofline.model.kind_table import KindTable
from roofline.model.media.images import Images
from roofline.model.model import SOURCE, Model, chosen
from roofline.model.popularity import popular_visited
from roofline.work import ops as o
from roofline.work.step import (
    USUAL_TOKENS,
    AnyStep,
    Beside,
    Queries,
    Step,
    UsualStep,
    View,
    adds_one,
    decodes,
    images_beside,
    in_stream,
    inputs_alone,
    lengths_alone,
    logits_alone,
    query_pairs,
    tokens_alone,
    tokens_and_phase,
    whole_step,
)
from roofline.work.step import replace as changed

Ops = Callable[[Any, Step], Iterator[o.Op]]
GRIFFIN = 9
"""FLOPs a token and channel: Λ·r, exp, √(1 − a²) of three, two products, a·h, add (arXiv:2402.19427, eq. 1–4)."""
RWKV = 23
"""FLOPs per token and channel of a mean weighted by exponentials (arXiv:2305.13048, appendix D).

The new state takes 11: the decayed exponent, the larger of two, two differences, two exponentials, 3 for the
numerator's sum and 2 for the denominator's. The output takes as many, with the bonus in place of the decay, and a
quotient.
"""


@dataclass(frozen=True)
class Lowering:
    """`ops`: the function (module, step) → ops. `sees`: the view of a step that determines how long they take
    (`step.View`)."""

    ops: Ops
    sees: View[Step]


LOWERINGS: KindTable[Lowering] = KindTable("lowerings", m.Module)


def lowers(kind: type[m.Module], sees: View[Step]) -> Callable[[Ops], Ops]:
    """Register the lowering of a kind of module, and its view of a step."""

    def register(function: Ops) -> Ops:
        LOWERINGS.add(Lowering(function, sees), kind)
        return function

    return register


SPACED = "spaced"
"""The stream of keys at a pace of their own."""


def lower(module: m.Module, step: Step) -> tuple[o.Op, ...]:
    """The ops of one module at a step, in the order they run; on a rank of a layout, of its share of the tokens.

    An idle module has none, since every step is text only, and neither has a module of a stream that has no new inputs.
    """
    if module.idle:
        return ()
    if module.stream != step.stream:
        step = step.of(module.stream)
    if not step.queries:
        return ()
    if isinstance(module, m.Attention) and module.spaced is not None:
        step = changed(step, beside=(Beside(SPACED, step.paced(module.spaced).queries),))
    if module.pace is not None:
        step = step.paced(module.pace)
    if module.positions is not None:
        step = step.at(module.positions, module.runs)
    ops = LOWERINGS[type(module)].ops(module, step.shared(module.split))
    return tuple(ops) if module.format is None else tuple(replace(op, format=module.format) for op in ops)


def view_of(module: m.Module) -> View[Step]:
    """The view of a step that determines how long a module takes: for the head the logits, else that of its kind."""
    if module.positions is not None:
        sees: View[Step] = inputs_alone
    elif module.pace is not None and LOWERINGS[type(module)].sees is tokens_alone:
        sees = lengths_alone
    elif isinstance(module, m.Linear) and module.part == "head":
        sees = logits_alone
    else:
        sees = LOWERINGS[type(module)].sees
    return in_stream(module.stream, sees) if module.stream else sees


def seeing(model: Model, step: AnyStep, images: Images | None) -> AnyStep:
    """The step with images in every prompt that it begins: their tokens, and the patches that a tower encodes.

    Behind cached tokens the images of a prompt are in the cache. Raises InputError where the model does not state how
    an image becomes tokens.
    """
    seen = model.seen(images)
    if seen is None:
        return step
    begun = [(q, no_more(q.cached, 0)) for q in step.queries]
    queries = tuple(Queries(q.cached, q.new + begins * seen.tokens, q.count) for q, begins in begun)
    read = (beside for q, begins in begun for beside in images_beside(seen, q.count, begins))
    return changed(step, queries, beside=(*step.beside, *read))


def fed(model: Model, step: AnyStep) -> AnyStep:
    """The step with the inputs of a model's towers, where the config fixes them and the step does not name them.

    An encoder reads its fixed number of positions for every new sequence. One whose length is not fixed reads the
    prompt, and its decoder begins with one token. Inputs of fixed size, as images of a classifier, have as many
    positions, whatever the step says, and a model that does not decode has outputs for all of them; where no length is
    said, it reads a usual number. A tower that reads
    images or sound beside text reads none.

    Raises InputError for a model of which the weights alone are known.
    """
    if not model.steps:
        raise InputError("step", f"any of {model.name}", f"`shapes` of inputs to trace ({model.not_counted[0]})")
    if model.positions is not None:
        step = changed(step, tuple(Queries(0, model.positions, q.count) for q in step.queries))
    elif "decode" not in model.steps and isinstance(step, UsualStep):
        usual = USUAL_TOKENS if model.context is None else min(USUAL_TOKENS, model.context)
        step = changed(step, tuple(Queries(0, usual, q.count) for q in step.queries))
    if "decode" not in model.steps:
        step = changed(step, logits="all")
    named = {other.stream for other in step.beside}
    if model.reads_distances and m.DISTANCES not in named:
        longest: Count = 0
        for q in step.queries:
            longest = most(longest, q.new)
        step = changed(step, beside=(*step.beside, Beside(m.DISTANCES, (Queries(0, 2 * longest, 1),))))
    for tower in model.towers:
        if tower.stream in named or tower.stream != SOURCE:
            continue
        fixed = tower.positions
        read = [(q, no_more(q.cached, 0), q.cached + q.new if fixed is None else fixed) for q in step.queries]
        source = tuple(Queries((1 - begins) * size, begins * size, q.count) for q, begins, size in read)
        queries = step.queries
        if fixed is None:
            queries = tuple(Queries(q.cached, begins + (1 - begins) * q.new, q.count) for q, begins, _ in read)
        step = changed(step, queries, beside=(*step.beside, Beside(SOURCE, source)))
        named.add(SOURCE)
    return step


def encoded_before(model: Model, step: AnyStep) -> AnyStep:
    """The step where an earlier one has encoded the sources that its sequences read: their keys are in the cache."""
    step = fed(model, step)
    old = {SOURCE: tuple(Queries(q.cached + q.new, 0 * q.new, q.count) for q in step.read(SOURCE))}
    return changed(step, beside=tuple(replace(b, queries=old.get(b.stream, b.queries)) for b in step.beside))


@lowers(m.Embedding, tokens_alone)
def _embedding(e: m.Embedding, step: Step) -> Iterator[o.Op]:
    """Each token reads its rows; at most as many as the table has."""
    t = step.tokens * e.lookups
    touched = least(t, e.rows) * e.width
    yield o.Lookup(
        name=e.name, part="embedding", rows=t, width=e.width, shared=e.shared, hashed=e.hashed, weight=touched,
        output=t * e.width,
    )  # fmt: skip


@lowers(m.Linear, tokens_alone)
def _linear(l: m.Linear, step: Step) -> Iterator[o.Op]:
    """The head runs for the tokens whose logits are needed, every other layer for all new ones."""
    rows = step.logit_tokens if l.part == "head" else step.tokens
    yield o.MatMul(
        name=l.name, part=l.part, m=rows, k=l.inputs // l.groups, n=l.outputs // l.groups, groups=l.groups, bias=l.bias,
        gathered=l.gathered, frozen=l.frozen, gated=l.gated, beside=l.beside, stacked=l.stacked,
        weight=l.inputs * l.outputs // l.groups, vector=l.outputs if l.bias else 0,
        input=l.inputs * rows, output=l.outputs * rows,
    )  # fmt: skip


@lowers(m.Norm, tokens_alone)
def _norm(n: m.Norm, step: Step) -> Iterator[o.Op]:
    rows = n.repeats * step.tokens
    moved = n.width * rows
    yield o.Normalise(
        name=n.name, rows=rows, width=n.width, center=n.center, scaled=n.weight, shifted=n.bias,
        vector=n.vector, input=moved, output=moved,
    )  # fmt: skip


@lowers(m.Rope, tokens_alone)
def _rope(r: m.Rope, step: Step) -> Iterator[o.Op]:
    """Rotate `dims` of each head; the rest of a head is unchanged. Equal queries share the angles of their
    positions."""
    turned = r.heads * r.dims * step.tokens
    places = sum(q.new for q in step.queries)
    yield o.Rotate(name=r.name, elements=turned, angles=r.dims * places, input=turned, output=turned)


@lowers(m.Attention, whole_step)
def _attention(a: m.Attention, step: Step) -> Iterator[o.Op]:
    """The queries, keys and values of new tokens are inputs; older keys and values come from the cache.

    Keys of another stream are all inputs in the step that reads it, and come from the cache afterwards.
    """
    t = step.tokens
    if a.reads or a.keys is not None or a.spaced is not None:
        yield _cross_attention(a, step)
        return
    square = step.square_pairs
    picked, read = a.select, step.cache_reads(a.window, a.chunk)
    if not a.causal:
        read = 0
    if picked is not None:
        seen = picked * a.block + a.pool - 1
        read = least(read, step.reads(lambda q: least(q.cached, q.new * seen)))
    yield o.Attend(
        name=a.name, step=step, pairs_of=lambda q: attended_pairs(a, q), heads=a.heads,
        kv_heads=a.kv_heads, qk_dim=a.head_dim, v_dim=a.v_head_dim, keys_per_value=2 if a.differential else 1,
        sequences=step.sequences, tokens=t, kv_tokens=step.cached_tokens + step.new_tokens,
        pairs=step.share(step.total(lambda q: attended_pairs(a, q))), square=square,
        kept_pairs=_reference_pairs(a, step), vector=a.parameters, sinks=a.sinks,
        input=a.heads * a.head_dim * t + a.kv_width * step.new_tokens, output=a.heads * a.v_head_dim * t,
        cache_read=a.kv_width * read, cache_write=a.cache_width * t,
        scratch=2 * a.heads * square,
    )  # fmt: skip


def _reference_pairs(a: m.Attention, step: Step) -> Count:
    """Pairs that the published code multiplies: those with all kept keys, or of whole pieces without a mask."""
    if not a.causal and a.chunk is not None:
        return step.share(step.total(lambda q: attended_pairs(a, q)))
    return step.kept_pairs(None if a.keeps_all or not a.causal else a.window or a.chunk)


def _cross_attention(a: m.Attention, step: Step) -> o.Op:
    """Attention to keys that are not those of the queries: a fixed number, or the positions of another stream."""
    t, read = step.tokens, step.read(SPACED if a.spaced else a.reads)
    if a.keys is not None:  # of every sequence, made in its first step
        begins = [no_more(q.cached, 0) if a.reads else 1 for q in step.queries]
        read = tuple(Queries((1 - b) * a.keys, b * a.keys, q.count) for q, b in zip(step.queries, begins, strict=True))
    if len(read) != len(step.queries):  # one length for all
        first = read[0] if read else Queries(0, 0)
        read = tuple(Queries(first.cached, first.new, q.count) for q in step.queries)
    keys = [r.cached + r.new for r in read]
    asked = list(zip(step.queries, read, keys, strict=True))
    pairs: Count = step.share(sum(q.count * q.new * k for q, _, k in asked))
    new: Count = sum(q.count * r.new for q, r, _ in asked)
    old: Count = sum(q.count * r.cached for q, r, _ in asked)
    seen = changed(step, tuple(Queries(most(k - q.new, 0), q.new, q.count) for q, _, k in asked), beside=())
    return o.Attend(
        name=a.name, step=seen, pairs_of=lambda q: q.new * (q.cached + q.new if a.keys is None else a.keys),
        heads=a.heads, kv_heads=a.kv_heads, qk_dim=a.head_dim, v_dim=a.v_head_dim, sequences=step.sequences, tokens=t,
        kv_tokens=new + old, pairs=pairs, square=pairs, kept_pairs=pairs,
        input=a.heads * a.head_dim * t + a.kv_width * new, output=a.heads * a.v_head_dim * t,
        cache_read=a.kv_width * old, cache_write=a.kv_width * new if a.reads else 0, scratch=2 * a.heads * pairs,
    )  # fmt: skip


def attended_pairs(a: m.Attention, q: Queries) -> Count:
    """Query-key pairs of one query: within its window or chunk, or within its own block and the selected ones.

    Without a causal mask: all of the sequence, a window with half of it on either side, or whole chunks.

    For k blocks of B tokens in all, token i (from 0) sees i mod B + 1 tokens of its own block and B·min(⌊i / B⌋, k − 1)
    others.
    """
    if not a.causal:
        return _both_sides(a, q)
    if a.select is not None and a.pool > 1:
        return _pooled_pairs(q, a.pool, a.select)
    if a.select is None or a.block == 1:
        ends = [most_seen for most_seen in (a.window, a.select) if most_seen is not None]
        return query_pairs(q, min(ends, default=None), a.chunk)
    others = _entries_seen(Queries(q.cached - 1, q.new), a.block, a.select - 1)
    return query_pairs(q, chunk=a.block) + a.block * others


def _both_sides(a: m.Attention, q: Queries) -> Count:
    """Query-key pairs of one query without a causal mask: T², Σ chunks², or Σ min(i, w) + min(T − 1 − i, w) + 1."""
    length = q.cached + q.new
    if a.chunk is not None:
        rest = q.new % a.chunk
        return (q.new // a.chunk) * a.chunk * a.chunk + rest * rest
    if a.window is None:
        return q.new * length
    side = least(a.window // 2, length - 1)  # keys on one side of a token in the middle
    return q.new * (2 * side + 1) - side * (side + 1)


def expands(a: m.LatentAttention, q: Queries) -> Count:
    """1 where a query is cheaper with latents expanded to keys and values, 0 where it is cheaper absorbed.

    Per query of T new after P cached tokens, in multiply-adds:
    expanded = pairs·h·(nope + rope + v) + (P + T)·rank·h·(nope + v)
    absorbed = pairs·h·(2·rank + rope) + T·h·rank·(nope + v)
    (arXiv:2405.04434 §2.1.2; without a mask they meet near T = 171 for DeepSeek-V3's sizes.)
    Where an indexer selects tokens, queries after cached ones run absorbed, because it selects latents
    (arXiv:2512.02556 §2.1).
    """
    pairs = _latent_pairs(a, q)
    up = a.rank * (a.nope + a.v)
    cached = q.cached if a.window is None else least(q.cached, a.window - 1)
    expanded = pairs * (a.nope + a.rope + a.v) + (cached + q.new) * up
    absorbed = pairs * (2 * a.rank + a.rope) + q.new * up
    return no_more(expanded, absorbed) * (1 if a.select is None else no_more(q.cached, 0))


def _latent_pairs(a: m.LatentAttention, q: Queries) -> Count:
    """Query-key pairs of one query: all of its window, or those that an indexer selects."""
    if a.select is None:
        return query_pairs(q, a.window)
    if a.pool == 1:
        return query_pairs(q, a.select)
    return _pooled_pairs(q, a.pool, a.select)


def _pooled_pairs(q: Queries, pool: int, select: int) -> Count:
    """Query-key pairs where an indexer selects from pools of B tokens k / B complete ones.

    All pairs except those with other complete pools; tokens after the last complete one are seen.
    """
    left = _entries_seen(q, pool) - _entries_seen(q, pool, select // pool)
    return query_pairs(q) - pool * left


@lowers(m.LatentAttention, whole_step)
def _latent(a: m.LatentAttention, step: Step) -> Iterator[o.Op]:
    """Each query runs expanded or absorbed, whichever takes fewer FLOPs; one step may contain both."""
    cheaper = [expands(a, q) for q in step.queries]
    for expanded in (True, False):
        runs = cheaper if expanded else [1 - k for k in cheaper]
        queries = [Queries(q.cached, q.new, q.count * k) for q, k in zip(step.queries, runs, strict=True) if some(k)]
        if queries:
            yield from _latent_form(a, step.with_queries(tuple(queries)), expanded)


def latent_forms(a: m.LatentAttention, step: Step) -> Iterator[o.Op]:
    """The ops of both forms, as if every query ran in each."""
    yield from _latent_form(a, step, True)
    yield from _latent_form(a, step, False)


def _latent_form(a: m.LatentAttention, step: Step, expanded: bool) -> Iterator[o.Op]:
    t, select = step.tokens, a.select
    context = step.cached_tokens + t if a.window is None else step.cache_reads(a.window) + t
    used = no_more(1, step.sequences)  # in a sweep, only the elements that run in this form read its weights
    square, pairs = step.square_pairs, step.share(step.total(lambda q: _latent_pairs(a, q)))
    read = step.cache_reads(a.window) if select is None else step.reads(lambda q: least(q.cached, q.new * select))
    moved: Settings = {"cache_read": a.cache_width * read, "cache_write": a.cache_width * t}
    shared: Settings = {
        "step": step,
        "pairs_of": lambda q: _latent_pairs(a, q),
        "sequences": step.sequences,
        "tokens": t,
        "kv_tokens": step.cached_tokens + step.new_tokens,
        "pairs": pairs,
        "square": square,
        "kept_pairs": step.kept_pairs(a.window),
        "vector": a.parameters - a.matrix,
        "picks": select or 0,
        "absorbed": 2 * a.rank + a.rope,
    }
    if expanded:
        # The latents of the whole context become keys and values, then attention is plain multi-head.
        width = a.heads * (a.nope + a.v)
        yield o.MatMul(
            name=f"{a.name}_kv_b", part="attention", m=context, k=a.rank, n=width, weight=used * a.matrix,
            input=a.rank * t, output=width * context, **moved,
        )  # fmt: skip
        yield o.Attend(
            name=a.name, form="expanded", heads=a.heads, kv_heads=a.heads, qk_dim=a.nope + a.rope, v_dim=a.v, **shared,
            input=a.heads * (a.nope + a.rope) * t + width * context + a.rope * t, output=a.heads * a.v * t,
            scratch=2 * a.heads * square,
        )  # fmt: skip
        return
    # The up-projection moves to the queries and to the output; all heads share one latent key and value.
    yield o.MatMul(
        name=f"{a.name}_q_absorb", part="attention", absorbs=True, m=t, k=a.nope, n=a.rank, groups=a.heads,
        weight=used * a.heads * a.nope * a.rank, input=a.heads * a.nope * t, output=a.heads * a.rank * t,
    )  # fmt: skip
    yield o.Attend(
        name=f"{a.name}_absorbed", form="absorbed", heads=a.heads, kv_heads=1, qk_dim=a.rank + a.rope, v_dim=a.rank,
        plain_dims=a.nope + a.rope + a.v, expanding=context * a.matrix, **shared,
        input=(a.heads * (a.rank + a.rope) + a.cache_width) * t, output=a.heads * a.rank * t,
        scratch=2 * a.heads * square, **moved,
    )  # fmt: skip
    yield o.MatMul(
        name=f"{a.name}_v_absorb", part="attention", absorbs=True, m=t, k=a.rank, n=a.v, groups=a.heads,
        weight=used * a.heads * a.rank * a.v, input=a.heads * a.rank * t, output=a.heads * a.v * t,
    )  # fmt: skip


@lowers(m.Indexer, whole_step)
def _indexer(i: m.Indexer, step: Step) -> Iterator[o.Op]:
    t, rate = step.tokens, i.rate or 1
    pairs = step.share(step.total(lambda q: _entries_seen(q, rate, i.most)))
    square = step.share(step.total(lambda q: q.new * _at_most(_entries(q, rate), i.most)))
    yield o.Score(
        name=i.name, heads=i.heads, dim=i.head_dim, pairs=pairs, square=square, summed=i.summed,
        sum_by_product=i.summed and i.sum_by_product,
        input=(i.heads * (i.head_dim + (1 if i.summed else 0)) + i.head_dim) * t, output=0, scratch=square,
        cache_read=i.head_dim * step.reads(lambda q: _read_of(q, rate, i.most)), cache_write=i.cache_width * t,
    )  # fmt: skip


def _at_most(entries: Count, most: int | None) -> Count:
    return entries if most is None else least(entries, most)


def _read_of(q: Queries, rate: int, most: int | None) -> Count:
    """Cached entries that a query's new tokens read: each once, or what they chose in all if that is less."""
    return q.cached // rate if most is None else least(q.cached // rate, q.new * most)


def _entries(q: Queries, rate: int) -> Count:
    """Compressed entries made by a query's cached and new tokens: one per `rate` tokens."""
    return (q.cached + q.new) // rate


def _entries_seen(q: Queries, rate: int, select: int | None = None) -> Count:
    """Σ over new tokens at position p of min(⌊p / rate⌋, `select`): the complete entries that each can attend to."""

    def up_to(tokens: Count) -> Count:
        free = tokens if select is None else least(tokens, rate * select)
        full = free // rate
        seen = rate * half(full * (full - 1)) + full * (free - rate * full + 1)
        return seen if select is None else seen + (tokens - free) * select

    return up_to(q.cached + q.new) - up_to(q.cached)


@lowers(m.Compressor, whole_step)
def _compressor(z: m.Compressor, step: Step) -> Iterator[o.Op]:
    """Keys and gates of the new tokens are inputs; each entry that they complete is summed, normalised and rotated."""
    completed = step.share(step.total(lambda q: _entries(q, z.rate) - q.cached // z.rate))
    moved, wide = z.width * completed, (1 + z.weighted) * (2 if z.overlap else 1) * z.width * step.tokens
    yield o.Sum(
        name=z.name, elements=moved, terms=z.terms, weighted=z.weighted,
        vector=z.bias, input=wide + moved, output=moved, cache_write=moved,
    )  # fmt: skip
    if z.normed:
        yield o.Normalise(
            name=f"{z.name}_norm", rows=completed, width=z.width, center=False, scaled=True, shifted=False,
            vector=z.width, input=moved, output=moved,
        )  # fmt: skip
    if z.rope:
        turned = z.rope * completed
        yield o.Rotate(name=f"{z.name}_rope", elements=turned, input=turned, output=turned)


@lowers(m.CompressedAttention, whole_step)
def _compressed_attention(a: m.CompressedAttention, step: Step) -> Iterator[o.Op]:
    """Entries read from the cache: each once, or the total of the queries' selections if that is less."""
    t, rate, square, kept = step.tokens, a.rate, step.square_pairs, step.kept_pairs(a.window)
    read, context = step.cache_reads(a.window), step.cached_tokens + step.new_tokens

    def each(q: Queries) -> Count:
        return query_pairs(q, a.window) + (0 if rate is None else _entries_seen(q, rate, a.select))

    if rate is not None:
        entries = step.share(step.total(lambda q: q.new * _entries(q, rate)))
        square, kept = square + entries, kept + entries
        most = a.select
        read = read + step.reads(lambda q: _read_of(q, rate, most))
    yield o.Attend(
        name=a.name, step=step, pairs_of=each, form="absorbed", heads=a.heads, kv_heads=1, qk_dim=a.head_dim,
        v_dim=a.head_dim,
        sequences=step.sequences, tokens=t, kv_tokens=context, pairs=step.share(step.total(each)), square=square,
        kept_pairs=kept, vector=a.parameters, input=(a.heads + 1) * a.head_dim * t, output=a.heads * a.head_dim * t,
        cache_read=a.head_dim * read, cache_write=a.head_dim * t, scratch=2 * a.heads * square,
    )  # fmt: skip


def _activate(
    name: str, width: int, rows: Count, function: str, gated: bool, learned: int = 0, rides: bool = False,
    biased: bool = False,
) -> o.Op:  # fmt: skip
    return o.Activate(
        name=name, rides=rides, biased=biased, rows=rows, width=width, function=function, gated=gated, vector=learned,
        input=(2 if gated else 1) * width * rows, output=width * rows,
    )  # fmt: skip


@lowers(m.Activation, tokens_alone)
def _activation(a: m.Activation, step: Step) -> Iterator[o.Op]:
    yield _activate(a.name, a.width, step.tokens, a.function, a.gated, a.learned)


@lowers(m.Add, tokens_alone)
def _add(a: m.Add, step: Step) -> Iterator[o.Op]:
    moved = a.width * step.tokens
    yield o.Sum(
        name=a.name, rides=not a.parameters, elements=moved, weighted=a.parameters > 0, shifted=a.scaled,
        vector=a.parameters,
        input=2 * moved, output=moved,
    )  # fmt: skip


@lowers(m.Gate, tokens_alone)
def _gate(g: m.Gate, step: Step) -> Iterator[o.Op]:
    moved, gates = g.width * step.tokens, g.gates * step.tokens
    squashed = gates if g.sigmoid else 0
    yield o.Scale(name=g.name, elements=moved, gates=squashed, input=moved + gates, output=moved)


@lowers(m.Mix, tokens_alone)
def _mix(x: m.Mix, step: Step) -> Iterator[o.Op]:
    """A product [width, streams]·[streams, streams] for each token."""
    t = step.tokens
    moved = x.streams * x.width * t
    yield o.MatMul(
        name=x.name, m=x.width * t, k=x.streams, n=x.streams, input=moved + x.streams * x.streams * t, output=moved
    )


@lowers(m.Router, tokens_alone)
def _router(r: m.Router, step: Step) -> Iterator[o.Op]:
    t = step.tokens
    scores = r.experts * t
    yield o.MatMul(
        name=r.name, part="router", m=t, k=r.inputs, n=r.experts, bias=r.bias,
        weight=r.matrix, vector=r.parameters - r.matrix, input=r.inputs * t, output=scores,
    )  # fmt: skip
    # The kernel of the experts chooses: rides.
    yield o.Choose(name=f"{r.name}_choice", rides=True, rows=t, experts=r.experts, input=scores, output=scores)


@lowers(m.Experts, tokens_alone)
def _experts(e: m.Experts, step: Step) -> Iterator[o.Op]:
    """T tokens make T·top_k rows, less those of identity experts; only the distinct experts they visit are read.

    One of several ranks has its share of the experts and their copies, and of the rows and distinct experts of all
    their tokens. It sums its own rows: one sum for each token with any row on the rank, so at most one per row.
    """
    t, k = step.share(step.new_tokens * e.gathered), chosen(e)
    rows = _loaded(ceil_div(e.routed(k * t), e.ranks), e.load)
    chosen_by = replace(e, popularity=e.assumed) if e.assumed else e
    touched = _part(slots_visited(chosen_by, k, t), e.ranks)
    wide, decoding = e.inner * (2 if e.gated else 1), decodes(step)

    def product(name: str, inputs: int, outputs: int, up: bool) -> o.Op:
        return o.ExpertMatMul(
            name=name, part="experts", m=rows, k=inputs, n=outputs, tokens=t, decoding=decoding,
            top_k=k, experts=e.held,
            touched=touched, hidden=e.hidden, inner=e.inner, gated=e.gated, up=up, bias=e.bias,
            reference=e.reference, frozen=e.frozen,
            weight=inputs * outputs * touched, vector=outputs * touched if e.bias else 0,
            input=inputs * rows, output=outputs * rows,
        )  # fmt: skip

    yield product(f"{e.name}_gate_up_proj" if e.gated else f"{e.name}_up_proj", e.hidden, wide, True)
    yield _activate(f"{e.name}_act", e.inner, rows, e.function, e.gated, rides=True, biased=e.bias)
    yield product(f"{e.name}_down_proj", e.inner, e.hidden, False)
    yield o.Sum(
        name=f"{e.name}_combine", rides=True, elements=e.hidden * ceil_div(t, e.ranks), terms=k, weighted=True,
        biased=e.bias,
        input=e.hidden * rows, output=e.hidden * least(t, rows),
    )  # fmt: skip


@lowers(m.ExpertLinear, tokens_alone)
def _expert_linear(e: m.ExpertLinear, step: Step) -> Iterator[o.Op]:
    """T tokens make T·top_k rows, and the distinct experts they visit are read; one of several ranks has its share."""
    t, k = step.share(step.new_tokens * e.gathered), chosen(e)
    rows, touched = _loaded(ceil_div(k * t, e.ranks), e.load), _part(experts_visited(e.experts, k, t), e.ranks)
    yield o.ExpertMatMul(
        name=e.name, part="experts", m=rows, k=e.inputs, n=e.outputs, tokens=t, decoding=decodes(step), top_k=k,
        experts=e.held, touched=touched, hidden=e.inputs, inner=e.outputs, gated=False, up=not e.summed,
        reference="each", frozen=e.frozen, weight=e.each * touched, input=e.inputs * rows, output=e.outputs * rows,
    )  # fmt: skip
    if e.summed:
        yield o.Sum(
            name=f"{e.name}_combine", rides=True, elements=e.outputs * t, terms=k, weighted=True,
            input=e.outputs * rows, output=e.outputs * t,
        )  # fmt: skip


def slots_visited(e: m.Experts, top_k: Count, tokens: Count) -> Count:
    """Expected number of distinct experts, copies included, that tokens visit.

    Of S = qE + r slots of E experts, r experts have q + 1 copies and the others q. A token that chooses an expert goes
    to each of its c copies with equal probability, so T tokens visit a given one with probability 1 − (1 − k/(cA))^T
    for A experts and identities. With unequal popularity each expert has its own probability.
    """
    if e.popularity:
        return popular_visited(e.chances, tokens)
    if not e.redundant:
        return experts_visited(e.experts, top_k, tokens, e.identities)
    fewest, more = divmod(e.slots, e.experts)
    visited: Count = 0
    for copies, experts in ((fewest, e.experts - more), (fewest + 1, more)):
        visited = visited + experts * copies * (1 - (1 - top_k / (copies * (e.experts + e.identities))) ** tokens)
    return visited


def _loaded(rows: Count, load: Count) -> Count:
    """Rows of the busiest rank, rounded up."""
    return rows if not is_array(load) and load == 1 else -(-rows * load // 1)


def _part(value: Count, ranks: Count) -> Count:
    return value if isinstance(ranks, int) and ranks == 1 else value / ranks


@lowers(m.Collective, tokens_and_phase)
def _collective(c: m.Collective, step: Step) -> Iterator[o.Op]:
    """Tokens of this rank, or of all ranks where the collective's size counts them all."""
    tokens = step.tokens * (c.ranks if c.op in ("all_gather", "reduce_scatter") else 1)
    yield o.Communicate(
        name=c.name, collective=c.op, elements=c.width * tokens, ranks=c.ranks, stride=c.stride, axis=c.axis,
        top_k=c.top_k, experts=c.experts, groups=c.groups, top_groups=c.top_groups,
        identities=c.identities, decoding=decodes(step), again=c.again,
    )  # fmt: skip


def _state(size: Count, step: Step) -> Settings:
    """Recurrent state of `size` elements per sequence: read for sequences that continue, written for all."""
    return {"cache_read": size * step.continued, "cache_write": size * step.sequences}


@lowers(m.Conv, lengths_alone)
def _conv(v: m.Conv, step: Step) -> Iterator[o.Op]:
    moved, cut = v.channels * step.tokens, v.kernel - 1 if v.padding is None else v.padding
    # Behind a cache the published code runs over as many kept inputs as it has taps, and cuts the first output.
    padding = step.total(lambda q: adds_one(q) * least(cut, 1) + (1 - adds_one(q)) * cut)
    taps = v.dynamic * v.kernel * step.tokens
    yield o.Convolve(
        name=v.name, store="activations", tokens=step.tokens, sequences=step.sequences, channels=v.channels,
        kernel=v.kernel, width=v.width, padding=padding, dynamic=some(v.dynamic),
        vector=v.parameters, input=moved + taps, output=moved, **_state(v.state, step),
    )  # fmt: skip


@lowers(m.Convolution, tokens_alone)
def _convolution(v: m.Convolution, step: Step) -> Iterator[o.Op]:
    """A product of every output position with its taps; channel by channel, a pass over the input."""
    t = step.tokens
    wide, narrow = (1, v.stride) if v.transposed else (v.stride, 1)
    moved: Settings = {"input": v.inputs * t * wide, "output": v.outputs * t * narrow}
    if v.groups == v.inputs and v.groups > 1:
        yield o.Convolve(
            name=v.name, store="activations", tokens=t, sequences=step.sequences, channels=v.outputs, kernel=v.kernel,
            width=1, padding=0, dynamic=False, vector=v.parameters, **moved,
        )  # fmt: skip
        return
    yield o.MatMul(
        name=v.name, part=v.part, m=t, k=v.kernel * v.inputs // v.groups, n=v.outputs // v.groups, groups=v.groups,
        bias=v.bias, frozen=v.frozen, weight=v.matrix, vector=v.outputs if v.bias else 0, **moved,
    )  # fmt: skip


@lowers(m.Learned, tokens_alone)
def _learned(l: m.Learned, step: Step) -> Iterator[o.Op]:
    """One product or sum for each value of the stream, beside its neighbour's."""
    if l.applied:
        moved = l.width * step.tokens
        yield o.Scale(name=l.name, rides=True, elements=moved, gates=0, vector=l.parameters, input=moved, output=moved)


@lowers(m.Magnitude, tokens_alone)
def _magnitude(d: m.Magnitude, step: Step) -> Iterator[o.Op]:
    """B·A and the norm of each row of W + B·A, however many tokens; then the scale of each output.

    Ranks with a part of each row add up their squares, one value a row (`linalg.vector_norm` of PyTorch's DTensor). The
    norm is a constant to the gradient (§4.3), so that neither is differentiated. The scale reads W·x and B·A·x, and
    keeps both for the gradient of the magnitudes (PEFT, tuners/lora/dora.py, `DoraLinearLayer.forward`).
    """
    matrix, moved = d.inputs * d.outputs, d.outputs * step.tokens
    yield o.MatMul(
        name=f"{d.name}_product", part=d.part, m=d.outputs, k=d.rank, n=d.inputs, weight=d.rank * d.inputs,
        input=d.rank * d.outputs, output=matrix, frozen=True, detached=True,
    )  # fmt: skip
    yield o.Normalise(
        name=f"{d.name}_norm", part=d.part, rows=d.outputs, width=d.inputs, center=False, scaled=False, shifted=False,
        weight=matrix, input=matrix + d.outputs, output=d.outputs, detached=True,
    )  # fmt: skip
    if some(d.sharers > 1):
        yield o.Communicate(
            name=f"{d.name}_reduce", collective="all_reduce", elements=d.outputs, ranks=d.sharers, detached=True
        )
    yield o.Scale(name=d.name, elements=moved, gates=0, vector=d.outputs, input=2 * moved, output=moved)


@lowers(m.SelectiveScan, lengths_alone)
def _selective(s: m.SelectiveScan, step: Step) -> Iterator[o.Op]:
    t = step.tokens
    yield o.Selective(
        name=s.name, store="state", step=step, channels=s.channels, state_size=s.state_size, vector=s.parameters,
        input=(2 * s.channels + 2 * s.groups * s.state_size) * t, output=s.channels * t,
        scratch=s.state * t, **_state(s.state, step),
    )  # fmt: skip


@lowers(m.StateSpace, lengths_alone)
def _dual(s: m.StateSpace, step: Step) -> Iterator[o.Op]:
    t, inner = step.tokens, s.heads * s.head_dim
    yield o.Dual(
        name=s.name, store="state", step=step, heads=s.heads, head_dim=s.head_dim, state_size=s.state_size,
        groups=s.groups, chunk=s.chunk, vector=s.parameters, input=(inner + 2 * s.groups * s.state_size + s.heads) * t,
        output=inner * t, scratch=s.heads * s.chunk * t, **_state(s.state, step),
    )  # fmt: skip


@lowers(m.DeltaRule, lengths_alone)
def _delta(r: m.DeltaRule, step: Step) -> Iterator[o.Op]:
    t = step.tokens
    keys, values = r.key_heads * r.key_dim, r.value_heads * r.value_dim
    yield o.Delta(
        name=r.name, store="state", step=step, heads=r.value_heads, key_heads=r.key_heads, key_dim=r.key_dim,
        value_dim=r.value_dim,
        chunk=r.chunk, vector=r.parameters, input=(2 * keys + values + r.value_heads + r.decays) * t, output=values * t,
        scratch=r.value_heads * r.chunk * t, **_state(r.state, step),
    )  # fmt: skip


@lowers(m.LinearAttention, lengths_alone)
def _linear_attention(a: m.LinearAttention, step: Step) -> Iterator[o.Op]:
    t, width = step.tokens, a.heads * a.head_dim
    yield o.LinearAttend(
        name=a.name, store="state", step=step, heads=a.heads, dim=a.head_dim, chunk=a.chunk,
        input=3 * width * t, output=width * t, scratch=a.heads * a.chunk * t, **_state(a.state, step),
    )  # fmt: skip


@lowers(m.GatedRecurrence, lengths_alone)
def _recurrence(r: m.GatedRecurrence, step: Step) -> Iterator[o.Op]:
    """The stream and its two gates are inputs."""
    t = step.tokens
    yield o.Recur(
        name=r.name, store="state", step=step, channels=r.channels, work=GRIFFIN, vector=r.parameters,
        input=3 * r.channels * t, output=r.channels * t, **_state(r.state, step),
    )  # fmt: skip


@lowers(m.Wkv, lengths_alone)
def _wkv(w: m.Wkv, step: Step) -> Iterator[o.Op]:
    """Keys and values are inputs."""
    t = step.tokens
    yield o.Recur(
        name=w.name, store="state", step=step, channels=w.channels, work=RWKV, vector=w.parameters,
        input=2 * w.channels * t, output=w.channels * t, **_state(w.state, step),
    )  # fmt: skip


@lowers(m.MatrixMemory, lengths_alone)
def _matrix_memory(x: m.MatrixMemory, step: Step) -> Iterator[o.Op]:
    """Queries, keys, values and two gates per head are inputs."""
    t = step.tokens
    yield o.Memorise(
        name=x.name, store="state", step=step, heads=x.heads, key_dim=x.key_dim, value_dim=x.value_dim, chunk=x.chunk,
        input=x.heads * (2 * x.key_dim + x.value_dim + 2) * t, output=x.heads * x.value_dim * t,
        scratch=x.heads * x.chunk * t, **_state(x.state, step),
    )  # fmt: skip


@lowers(m.Delay, lengths_alone)
def _delay(d: m.Delay, step: Step) -> Iterator[o.Op]:
    moved = d.width * step.tokens
    yield o.Shift(
        name=d.name, store="activations", elements=0, streams=1, zeros=step.sequences - step.continued,
        inputs=d.inputs, width=d.width, input=moved, output=moved, **_state(d.state, step),
    )  # fmt: skip


@lowers(m.RelativeBias, tokens_alone)
def _relative(r: m.RelativeBias, step: Step) -> Iterator[o.Op]:
    rows = r.heads * step.tokens
    yield o.MatMul(
        name=r.name, part="attention", m=rows, k=r.dim, n=r.extent, weight=r.matrix, input=r.dim * rows,
        output=r.extent * rows,
    )  # fmt: skip


@lowers(m.DepthAttention, tokens_alone)
def _depth_attention(a: m.DepthAttention, step: Step) -> Iterator[o.Op]:
    """Scores [states, width]·[width, queries] of each token, and the sums [width, states]·[states, queries]."""
    t, scores = step.tokens, a.states * a.queries * step.tokens
    moved = a.states * a.width * t
    yield o.MatMul(
        name=f"{a.name}_scores", m=a.states * t, k=a.width, n=a.queries, vector=a.parameters, input=moved, output=scores
    )
    yield o.MatMul(
        name=a.name, m=a.width * t, k=a.states, n=a.queries, input=moved + scores, output=a.queries * a.width * t
    )


@lowers(m.TokenShift, lengths_alone)
def _shift(s: m.TokenShift, step: Step) -> Iterator[o.Op]:
    moved = s.width * step.tokens
    yield o.Shift(
        name=s.name, store="activations", elements=s.streams * moved, streams=s.streams, vector=s.parameters,
        input=moved, output=s.streams * moved, **_state(s.state, step),
    )  # fmt: skip
