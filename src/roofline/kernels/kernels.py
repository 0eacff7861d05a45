"""Op × target → the law that times it, with the constants of the kernel that runs: one function for each kind of op.

Nothing here knows a model. A law's seconds are those of one layer's op, before an engine's slow-downs and the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.declared.arrays import Array
from roofline.declared.maths import Count, is_array, least, most, some, where
from roofline.declared.unique_rows import on_distinct
from roofline.kernels import law
from roofline.kernels.constants import UNKNOWN, Constants, Either
from roofline.kernels.target import WIDE, Target, wide_key
from roofline.model.kind_table import KindTable
from roofline.work import ops as o
from roofline.work.counting import STANDARD
from roofline.work.step import Queries, Step

VERIFYING = 16
"""Most new tokens of a query that run the decode kernel (drafts to verify); more run the prefill kernel."""
ATTENTION_BACKWARD = 2.5 / 0.85
"""Time of attention's gradient over that of its forward: five products instead of two (scores are recomputed), each at
0.85 of the forward's rate. FlashAttention-2 (arXiv:2307.08691, figs. 5 and 6) and -3 (arXiv:2407.08608, figs. 5, 6)."""

Seconds: TypeAlias = tuple[Count, Constants | Either]
"""Seconds, and the constants used."""
WorkSort: TypeAlias = Literal["products", "wide", "experts", "attention", "streams"]
Code: TypeAlias = Count


def one_kernel(op: o.Op) -> Code:
    """The same kernel whatever the sizes."""
    return 0


Law = Callable[[Any, Target], Seconds]


@dataclass(frozen=True)
class Kernel:
    """How a kind of op runs: its `law`; `matrix`: on the matrix units; `work`: what an engine may slow it down as.

    `regime`: a number for each element that says which kernels run it, elements of one number being timed together;
    -1 where none does.
    """

    law: Law
    matrix: bool = False
    work: WorkSort = "streams"
    regime: Callable[[Any], Code] = one_kernel


KERNELS: KindTable[Kernel] = KindTable("kernels", o.Op, without=(o.Communicate,))
"""Every kind of op except Communicate, which the network times."""
GRADIENT_LAWS: KindTable[Law] = KindTable("laws of gradients", o.Op)
"""Kind of op → the law of the `Backward` that is its gradient."""


def runs(
    *kinds: type[o.Op], matrix: bool = False, work: WorkSort = "streams", regime: Callable[[Any], Code] = one_kernel
) -> Callable[[Law], Law]:
    """Registers the law of kinds of op."""

    def register(function: Law) -> Law:
        KERNELS.add(Kernel(function, matrix, work, regime), *kinds)
        return function

    return register


def is_matrix(op: o.Op) -> bool:
    """Whether an op, or the op it is the gradient of, runs on the matrix units; what the network does is no kernel."""
    return not isinstance(op, o.Communicate) and KERNELS[type(op.origin)].matrix


def work_of(op: o.Op) -> WorkSort:
    """What sort of work an engine may slow down; attention that is run kernel by kernel streams its scores."""
    of = op.origin
    return "streams" if isinstance(of, o.Attend) and not of.flash else KERNELS[type(of)].work


def matrix_format(op: o.Op, target: Target) -> str:
    """The format an op's matrix products run in; for attention and scans, that of the activations."""
    if isinstance(op, (o.MatMul, o.ExpertMatMul)):
        return target.path(op).compute
    return target.precision.activations.compute or "bf16"


# -- products ------------------------------------------------------------------------------------------------------
@runs(o.MatMul, matrix=True, work="products")
def _matmul(op: o.MatMul, target: Target) -> Seconds:
    path = target.path(op)
    out = _added(op, target) if op.phase == "weight" else float(target.precision.activations.stored_bits) / 8
    kind = "matmul" if path.dtype in WIDE else "quantised_matmul"
    constants = target.constants("int4_wo" if path.dtype == "w4a16_mxfp4" else path.dtype, kind)
    roof, record = target.roof(path.compute), constants.record

    def seconds(m: Count, n: Count, k: Count, groups: Count) -> Count:
        return law.matmul_seconds(m, n, k, path.activation, path.weight, out, roof, record, groups=groups)

    if op.stacked:
        return on_distinct(seconds, op.m, op.stacked, op.k, op.groups) * stacked_share(op), constants
    return on_distinct(seconds, op.m, op.n, op.k, op.groups), constants


def stacked_share(op: o.MatMul) -> Count:
    """A product's share of the one that engines make of it and of another."""
    return op.n / op.stacked if op.stacked else 1.0


def _added(op: o.MatMul | o.ExpertMatMul, target: Target) -> float:
    """Bytes per weight of adding to the gradient of the micro-batches before: it is read and written."""
    return 2 * float(getattr(target.precision, op.store).stored_bits) / 8


@runs(o.ExpertMatMul, matrix=True, work="experts")
def _experts(op: o.ExpertMatMul, target: Target) -> Seconds:
    """The fused layer's time, shared out between its two products by their weights.

    Of tokens gathered from other ranks only those enter that some expert here computes: at most one a row.
    """
    path = target.path(op)
    constants = target.constants(path.dtype, "experts")
    weight = _added(op, target) if op.phase == "weight" else path.weight
    entering = least(op.tokens, op.m)
    remote = most(entering * op.top_k - op.m, 0.0)
    whole = law.experts_seconds(
        entering, op.m, op.touched, op.hidden, op.inner, float(op.gated), path.activation, weight,
        target.roof(path.compute), constants.record, remote=remote,
    )  # fmt: skip
    return whole * share_of(op), constants.of_ranks(remote > 0)


def share_of(op: o.ExpertMatMul) -> Count:
    """A product's share of the weights of the fused layer."""
    return op.k * op.n / ((2 + op.gated) * op.hidden * op.inner)


def launch_of(op: o.Op, constants: Constants | Either) -> Count:
    """Seconds of an op's time that its launch takes; the products of experts share one, and so do stacked ones."""
    match op:
        case o.ExpertMatMul():
            return constants.launch * share_of(op)
        case o.MatMul():
            return constants.launch * stacked_share(op)
        case _:
            return constants.launch


# -- attention -----------------------------------------------------------------------------------------------------
def by_length(op: o.Attend) -> Code:
    """Of each query: none of it, so many tokens to verify, or a prompt."""
    alone = len(op.step.queries) == 1 and not is_array(op.step.parts)
    code: Code = 0
    for q in op.step.queries:
        present = where(q.count > 0, 1, 0) if is_array(q.count) else 1
        length = where(q.new > VERIFYING, VERIFYING + 1, 1 if alone else least(q.new, VERIFYING))
        code = code * (VERIFYING + 2) + present * length
    return where(code == 0, -1, code)


@runs(o.Attend, matrix=True, work="attention", regime=by_length)
def _attend(op: o.Attend, target: Target) -> Seconds:
    """Queries of a few tokens together in the decode kernel, prompts one kind after another in the prefill kernel.

    The keys a token sees are those of the op's own mask: pairs / new tokens, whatever the mask is. Ranks that share out
    a decode each attend to the keys that they cache.
    """
    if not op.flash or (not target.engine.flash and any(is_long(q) for q in op.step.queries)):
        return _unfused(op, target, 2, target.engine.score_passes)
    cache, latent = target.precision.kv, op.form != "plain"
    plain = wide_key(target.precision.activations.compute)
    suffix = "fp8" if cache.bits == 8 else "bf16" if latent else plain
    one = target.constants(f"bf16_kv_{suffix}" if latent else suffix, "latent_decode" if latent else "decode")
    many = target.constants("bf16_kv_bf16" if latent else plain, "latent_prefill" if latent else "prefill")
    roof, kv = target.roof(target.precision.activations.compute or "bf16"), float(cache.stored_bits) / 8
    parts = op.step.parts

    def short(sequences: Count, new: Count, keys: Count) -> Count:
        heads = op.heads * new
        if op.form == "absorbed":
            return law.latent_decode(sequences, keys, heads, op.v_dim, op.qk_dim - op.v_dim, kv, roof, one.record)
        return law.decode_seconds(sequences, keys, heads, op.kv_heads, op.v_dim, 0, kv, roof, one.record)

    def verified(q: Queries) -> Count:
        return short(q.count, q.new, op.pairs_of(q) / q.new / parts)

    def long(q: Queries) -> Count:
        if op.form == "absorbed":
            return verified(q)
        pairs, reach, new = op.pairs_of(q), op.pairs_of(Queries(q.cached + q.new - 1, 1)), q.new
        if is_array(parts) or parts > 1:  # a rank's share of the queries, to all keys
            new, pairs = q.new / parts, pairs / parts
        return law.prefill_seconds(
            q.count, new, q.cached + q.new - new, op.heads, op.kv_heads, op.qk_dim, op.v_dim, 0, 2.0, kv, roof,
            many.record, pairs, reach,
        )  # fmt: skip

    if op.picks:
        own = target.constants(f"bf16_kv_{suffix}", "latent_sparse")
        return _picked(op, own, roof, short, long), own

    brief = [q for q in op.step.queries if op.form != "expanded" and not is_long(q)]
    prompts = [q for q in op.step.queries if op.form == "expanded" or is_long(q)]
    seconds: Count = 0.0
    for new in dict.fromkeys(q.new for q in brief if not is_array(q.new)):
        alike = [q for q in brief if not is_array(q.new) and q.new == new]
        sequences = sum(q.count for q in alike)
        keys = sum(q.count * op.pairs_of(q) for q in alike) / (new * most(sequences, 1) * parts)
        seconds = seconds + where(sequences > 0, short(sequences, new, keys), 0.0)
    for q in brief:
        if is_array(q.new):  # alone in its step, or drafts of many lengths, each verified by itself
            seconds = seconds + where(q.count > 0, verified(q), 0.0)
    for i, q in enumerate(prompts):
        each = where(q.count > 0, long(q), 0.0)
        seconds = seconds + (each if i == 0 else most(each - many.launch, 0.0))
    return seconds, many if prompts else one


def _picked(
    op: o.Attend, own: Constants, roof: law.Roof, short: Callable[..., Count], dense: Callable[[Queries], Count]
) -> Count:
    """Queries that pick latents of their own, one kind after another, whatever form takes fewer FLOPs.

    A few tokens take no less than without picking. Queries that see no more than they may pick run dense where an
    engine has them so, with their latents expanded.
    """
    seconds: Count = 0.0
    for i, q in enumerate(op.step.queries):
        tokens, keys = q.count * q.new / op.step.parts, op.pairs_of(q) / q.new
        each = law.sparse_seconds(tokens, keys, op.picks, op.heads, op.absorbed, roof, own.record)
        if op.form == "absorbed" and not is_long(q):
            each = most(each, short(q.count, q.new, keys / op.step.parts))
        elif op.form == "expanded" and not own.record.short:
            each = where(q.cached + q.new > op.picks, each, dense(q))
        each = where(q.count > 0, each, 0.0)
        seconds = seconds + (each if i == 0 else most(each - own.launch, 0.0))
    return seconds


def is_long(q: Queries) -> bool:
    """Whether a query runs the prefill kernel: its elements all do, or none does, in one regime."""
    return some(q.new > VERIFYING)


def _unfused(op: o.Attend, target: Target, products: int, passes: float) -> Seconds:
    """Attention kernel by kernel: products over the full square, and passes over its scores.

    Forward 2 products and 4 passes (an engine's own number, where it is known), back 4 and 6: what arXiv:2205.05198,
    table 4, measured of the layers of a 22B model (softmax and dropout skip the masked half).
    """
    roof, plain = target.roof(target.precision.activations.compute or "bf16"), target.precision.activations
    constants = target.constants(wide_key(plain.compute), "matmul")
    streams = target.constants(wide_key(plain.compute), "stream").record
    many, each = op.sequences * op.heads, op.tokens / op.sequences
    width, keys = float(plain.stored_bits) / 8, op.kv_tokens / op.sequences
    size = (op.qk_dim + op.v_dim) / 2
    one = law.matmul_seconds(each, keys, size, width, width, 0.0, roof, constants.record, groups=many)
    moved = law.stream(passes * op.scratch / 2 * width, roof, streams)
    return products * one + moved, constants


@runs(o.Score, matrix=True)
def _score(op: o.Score, target: Target) -> Seconds:
    """An indexer: its products at the prefill kernel's share of the peak, its keys at the stream's of the bandwidth.

    No engine's was fitted: what it takes from others is an assumption, whatever the grade of theirs.
    """
    streamed, _ = one_pass(op, target)
    many = target.constants("bf16", "prefill").record
    compute = STANDARD.flops(op) / target.chip.peak(matrix_format(op, target))
    assumed = Constants(target.constants("bf16", "stream").record, "C", UNKNOWN, UNKNOWN)
    return streamed + compute / many.compute, assumed


# -- scans and streams ---------------------------------------------------------------------------------------------
@runs(
    o.Normalise, o.Rotate, o.Activate, o.Sum, o.Scale, o.Choose, o.Lookup, o.Convolve, o.Shift, o.Selective,
    o.LinearAttend, o.Recur, o.Loss, o.Update,
)  # fmt: skip
def one_pass(op: o.Op, target: Target) -> Seconds:
    """Reads its inputs, writes its output; what rides on a neighbour pays for its bytes and not for a launch.

    Recurrences of channels and token shifts have not been measured: they touch each value once, as any stream does.
    """
    constants = target.constants(wide_key(target.precision.activations.compute), "stream")
    width = float(target.precision.activations.stored_bits) / 8
    roof = target.roof(next(iter(target.chip.peaks)))
    if op.rides:
        extra = (op.input - op.output) * width if isinstance(op, o.Sum) and not op.weighted else 0.0 * op.input
        return law.stream(2 * extra, roof, constants.record) - constants.launch, constants
    size = (op.input + op.output + op.weight + op.vector) * width
    size = size + getattr(target.precision, op.store).bytes(op.cache_read + op.cache_write)
    return law.stream(size, roof, constants.record), constants


def by_tokens(op: o.Dual | o.Delta | o.Memorise) -> Code:
    """One token a sequence, or more; or no sequence."""
    return where(op.step.sequences > 0, where(op.step.tokens > op.step.sequences, 1, 0), -1)


@runs(o.Dual, o.Delta, o.Memorise, matrix=True, regime=by_tokens)
def _scan(op: o.Delta | o.Dual | o.Memorise, target: Target) -> Seconds:
    """Chunked over a prompt, one pass over the state for a single token.

    No mLSTM has been measured: its chunks are the same products as Mamba-2's, and take that kernel's constants.
    """
    singles, single = split_singles(op.step)
    batch, tokens = op.step.sequences - singles, op.step.tokens - single
    if not some(op.step.tokens > op.step.sequences):
        return one_pass(op, target)
    constants = target.constants("bf16", "scan")
    if isinstance(op, o.Dual):
        keys, key, value = op.groups, op.state_size, op.head_dim
    else:
        keys, key, value = op.key_heads, op.key_dim, op.value_dim
    roof = target.roof(matrix_format(op, target))
    seconds = law.scan(batch, tokens / batch, keys, op.heads, key, value, roof, constants.record)
    if some(singles > 0):
        seconds = seconds + one_pass(op, target)[0] * singles / op.step.sequences
    return seconds, constants


def split_singles(step: Step) -> tuple[Count, Count]:
    """Queries of one token beside longer ones, and their tokens on this rank: a kernel of their own passes over them.

    Those of array lengths stay with the longer ones.
    """
    alone = [q for q in step.queries if not is_array(q.new) and q.new == 1]
    if len(alone) == len(step.queries):
        return 0, 0
    count = sum((q.count for q in alone), 0)
    return count, step.share(count)


# -- gradients -----------------------------------------------------------------------------------------------------
@runs(o.Backward, regime=lambda op: KERNELS[type(op.of)].regime(op.of))
def _backward(op: o.Backward, target: Target) -> Seconds:
    return GRADIENT_LAWS[type(op.of)](op, target)


@GRADIENT_LAWS.of(o.Attend)
def _attend_backward(op: o.Backward, target: Target) -> Seconds:
    assert isinstance(op.of, o.Attend)
    if not op.of.flash:
        return _unfused(op.of, target, 4, 6.0)
    seconds, constants = _attend(op.of, target)
    return constants.launch + ATTENTION_BACKWARD * (seconds - constants.launch), constants


@GRADIENT_LAWS.of(o.Score, o.Selective, o.Dual, o.Delta, o.LinearAttend, o.Recur, o.Memorise)
def twice(op: o.Backward, target: Target) -> Seconds:
    """As long as its forward, for the gradients of what it reads and of what it makes."""
    seconds, constants = KERNELS[type(op.of)].law(op.of, target)
    return 2 * seconds, constants


@GRADIENT_LAWS.of(o.MatMul, o.ExpertMatMul, o.Communicate, o.Backward, o.Update)
def of_no_backward(op: o.Backward, target: Target) -> Seconds:
    """A kind that has none: its gradients are ops of a kind with a law of its own, as a product's are."""
    raise TypeError(f"{type(op.of).__name__} has no Backward")


GRADIENT_LAWS.add(
    one_pass, o.Normalise, o.Rotate, o.Activate, o.Sum, o.Scale, o.Choose, o.Lookup, o.Convolve,
    o.Shift, o.Loss,
)  # fmt: skip


# -- some elements ------------------------------------------------------------------------------------------------
def shape_of(op: o.Op) -> tuple[int, ...]:
    """The broadcast shape of an op's arrays."""
    values = [getattr(op, f.name) for f in fields(op)]
    shapes = [v.shape for v in values if is_array(v) or isinstance(v, Step)]
    return np.broadcast_shapes(*shapes, *(shape_of(v) for v in values if isinstance(v, o.Op)))


def restricted(op: o.Op, shape: tuple[int, ...], places: Array) -> o.Op:
    """The op at some elements of its arrays, flattened from `shape`; queries that none of them has are left out."""

    def at(value: Any) -> Any:
        if isinstance(value, Step):
            return _uniform(value.mapped(at))
        if isinstance(value, o.Op):
            return restricted(value, shape, places)
        return np.broadcast_to(value, shape).reshape(-1)[places] if is_array(value) else value

    return replace(op, **{f.name: at(getattr(op, f.name)) for f in fields(op)})


def plainer(op: o.Op) -> o.Op:
    """The op, where lengths of queries that all elements share are plain numbers."""
    parts = {f.name: getattr(op, f.name) for f in fields(op)}
    steps: dict[str, Any] = {n: v.with_queries(_plainer(v.queries)) for n, v in parts.items() if isinstance(v, Step)}
    ops: dict[str, Any] = {name: plainer(v) for name, v in parts.items() if isinstance(v, o.Op)}
    return replace(op, **steps, **ops)


def _uniform(step: Step) -> Step:
    """The step without queries of no sequence, lengths that all elements share as plain numbers."""
    return step.with_queries(_plainer(q for q in step.queries if some(q.count)))


def _plainer(queries: Iterable[Queries]) -> tuple[Queries, ...]:
    return tuple(
        Queries(q.cached, int(q.new.flat[0]) if is_array(q.new) and _alike(q.new) else q.new, q.count) for q in queries
    )


def _alike(values: Array) -> bool:
    return bool((values == values.flat[0]).all())
