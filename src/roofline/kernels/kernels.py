"""Times of ops on a target: one function per kind of op, which selects the kernel, its constants and its law.

Nothing here depends on a model. Times are for the op of one layer, before an engine's slowdown factors and the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, is_array, least, most, some, where
from roofline.declared.numbers.unique_rows import on_distinct
from roofline.kernels import law
from roofline.kernels.constants import FEW, UNKNOWN, Constants, Either, worse
from roofline.kernels.target import WIDE, Target, wide_key
from roofline.model.kind_table import KindTable
from roofline.work import ops as o
from roofline.work.counting import STANDARD
from roofline.work.step import Queries, Step

VERIFYING = 16
"""Maximum new tokens per query for the decode kernel (drafts to verify); longer queries use the prefill kernel."""
ATTENTION_BACKWARD = 2.5 / 0.85
"""Time of attention's backward pass over its forward pass: five products instead of two (scores are recomputed), each
at 0.85 of the forward rate. Figures 5 and 6 of FlashAttention-2 (arXiv:2307.08691) and of FlashAttention-3
(arXiv:2407.08608).
"""

Seconds: TypeAlias = tuple[Count, Constants | Either]
"""Seconds of an op, and the constants they were computed with."""
WorkSort: TypeAlias = Literal["products", "wide", "experts", "attention", "streams"]
Code: TypeAlias = Count


def one_kernel(op: o.Op) -> Code:
    """Regime of ops that run the same kernel at every size."""
    return 0


Law = Callable[[Any, Target], Seconds]


@dataclass(frozen=True)
class Kernel:
    """How a kind of op runs: its `law`; `matrix`: on matrix units; `work`: category of an engine's slowdown factors.

    `regime`: function from an op to a number per array element. Elements with the same number run the same kernels and
    are timed together; -1: no kernel runs.
    """

    law: Law
    matrix: bool = False
    work: WorkSort = "streams"
    regime: Callable[[Any], Code] = one_kernel


KERNELS: KindTable[Kernel] = KindTable("kernels", o.Op, without=(o.Communicate,))
"""Kind of op → kernel, for every kind except Communicate, which runs on the network."""
GRADIENT_LAWS: KindTable[Law] = KindTable("laws of gradients", o.Op)
"""Kind of op → law of its `Backward` op."""


def runs(
    *kinds: type[o.Op], matrix: bool = False, work: WorkSort = "streams", regime: Callable[[Any], Code] = one_kernel
) -> Callable[[Law], Law]:
    """Decorator that registers a function as the law of kinds of ops."""

    def register(function: Law) -> Law:
        KERNELS.add(Kernel(function, matrix, work, regime), *kinds)
        return function

    return register


def is_matrix(op: o.Op) -> bool:
    """Whether an op, or the forward op of a gradient, runs on the matrix units. False for communication."""
    return not isinstance(op, o.Communicate) and KERNELS[type(op.origin)].matrix


def work_of(op: o.Op) -> WorkSort:
    """Category of work for an engine's slowdown factors. Unfused attention counts as "streams"."""
    of = op.origin
    return "streams" if isinstance(of, o.Attend) and not of.flash else KERNELS[type(of)].work


def matrix_format(op: o.Op, target: Target) -> str:
    """Compute format of an op's matrix products; for attention and scans, that of the activations."""
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
        one = law.matmul_seconds(m, n, k, path.activation, path.weight, out, roof, record, groups=groups)
        return one * path.slower

    if op.stacked:
        return on_distinct(seconds, op.m, op.stacked, op.k, op.groups) * stacked_share(op), constants
    return on_distinct(seconds, op.m, op.n, op.k, op.groups), constants


def stacked_share(op: o.MatMul) -> Count:
    """A product's share of the stacked product into which engines merge it with others."""
    return op.n / op.stacked if op.stacked else 1.0


def _added(op: o.MatMul | o.ExpertMatMul, target: Target) -> float:
    """Bytes per weight to accumulate gradients over micro-batches: the gradient is read and written."""
    return 2 * float(getattr(target.precision, op.store).stored_bits) / 8


@runs(o.ExpertMatMul, matrix=True, work="experts")
def _experts(op: o.ExpertMatMul, target: Target) -> Seconds:
    """Time of the fused layer, divided between its two products in proportion to their weights.

    Of tokens gathered from other ranks, only those that a local expert computes enter: at most one per row.
    """
    path = target.path(op)
    constants = target.constants(path.dtype, "experts")
    if path.slower != 1:
        constants = replace(constants, grade=worse(constants.grade, "B"))
    weight = _added(op, target) if op.phase == "weight" else path.weight
    entering = least(op.tokens, op.m)
    remote = most(entering * op.top_k - op.m, 0.0)
    whole = law.experts_seconds(
        entering, op.m, op.touched, op.hidden, op.inner, float(op.gated), path.activation, weight,
        target.roof(path.compute), constants.record, remote=remote, passed=float(op.phase != "weight"),
    )  # fmt: skip
    filled = filling_of(op, target) / (constants.record.compute * target.chip.peak(path.compute))
    return (whole * path.slower + waits_of(op, target)) * share_of(op) + filled, constants.of_sort(remote > 0)


def padding_of(op: o.ExpertMatMul, target: Target) -> Count:
    """FLOPs of the rows that a grouped product computes without a token.

    2·k·n for each row of the touched experts' whole tiles beyond the m that have one, and what `filling_of` adds.
    """
    record = target.constants(target.path(op).dtype, "experts").record
    touched = most(op.touched, 1.0)
    rows, _ = law.tile_rows(op.m / touched, record.height, record.stage, 0.0)
    beyond = where(op.m > 0, 2 * most(touched * rows - op.m, 0.0) * op.k * op.n, 0.0)
    return beyond + filling_of(op, target)


def filling_of(op: o.ExpertMatMul, target: Target) -> Count:
    """FLOPs of the rows that the engine's kernel computes for every expert that the rank holds, without a token.

    2·k·n for each row of `fills` and each expert; 0 for a product without tokens.
    """
    rows = target.engine.filled(target.path(op).dtype)
    return where(op.m > 0, 2 * rows * op.experts * op.k * op.n, 0.0) if rows else 0.0


BLOCKS = (64, 32)
"""Keys that Triton's kernel of experts multiplies in a step of its loop without tuned blocks: where no more tokens
enter than a rank has experts, and else (`get_default_config` in vllm/model_executor/layers/fused_moe/fused_moe.py)."""


def waits_of(op: o.ExpertMatMul, target: Target) -> Count:
    """Seconds that a fused layer takes longer without tuned blocks: its loops' steps one after another.

    (hidden + inner)/keys steps of `untuned` seconds, where other ranks compute pairs of a token and an expert too.
    """
    seconds = target.engine.untuned.get(target.path(op).dtype, {}).get(target.chip.generation, 0.0)
    if not seconds:
        return 0.0
    few, many = ((op.hidden + op.inner) / keys * seconds for keys in BLOCKS)
    return where(op.tokens * op.top_k > op.m, where(op.tokens <= op.experts, few, many), 0.0)


def share_of(op: o.ExpertMatMul) -> Count:
    """A product's share of the fused layer's weights."""
    return op.k * op.n / ((2 + op.gated) * op.hidden * op.inner)


def launch_of(op: o.Op, constants: Constants | Either) -> Count:
    """Launch seconds within an op's time. The products of an MoE layer share one launch, as do stacked products."""
    match op:
        case o.ExpertMatMul():
            return constants.launch * share_of(op)
        case o.MatMul():
            return constants.launch * stacked_share(op)
        case _:
            return constants.launch


# -- attention -----------------------------------------------------------------------------------------------------
def by_length(op: o.Attend) -> Code:
    """Regime of attention by query length: no sequences, 1 to `VERIFYING` new tokens, or a prompt."""
    alone = len(op.step.queries) == 1 and not is_array(op.step.parts)
    code: Code = 0
    for q in op.step.queries:
        present = where(q.count > 0, 1, 0) if is_array(q.count) else 1
        length = where(q.new > VERIFYING, VERIFYING + 1, 1 if alone else least(q.new, VERIFYING))
        code = code * (VERIFYING + 2) + present * length
    return where(code == 0, -1, code)


WIDE_HEAD = 256
"""Elements of a head beyond which FlashAttention 2 and 3 have no kernel, and engines run another (`wide_heads`)."""


@runs(o.Attend, matrix=True, work="attention", regime=by_length)
def _attend(op: o.Attend, target: Target) -> Seconds:
    """Short queries run together in the decode kernel; prompts run in the prefill kernel, one group after another.

    A token sees pairs / new keys on average, as the op's mask determines. Ranks that split a decode each attend to the
    keys in their own cache.
    """
    if not op.flash or (not target.engine.flash and any(is_long(q) for q in op.step.queries)):
        return _unfused(op, target, 2, target.engine.score_passes)
    cache, latent = target.precision.kv, op.form != "plain"
    plain = wide_key(target.precision.activations.compute)
    suffix = "fp8" if cache.bits == 8 else "bf16" if latent else plain
    wide = target.engine.wide_heads.get(target.chip.generation) if op.qk_dim > WIDE_HEAD and not latent else None
    one = target.constants(f"bf16_kv_{suffix}" if latent else suffix, "latent_decode" if latent else "decode", wide)
    special = target.engine.sinks.get(target.chip.generation) if op.sinks and plain == "bf16" else None
    usual = f"{plain}_{special}" if special else plain
    many = target.constants("bf16_kv_bf16" if latent else usual, "latent_prefill" if latent else "prefill", wide)
    many = many.unmasked if op.unmasked else many
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
        if is_array(parts) or parts > 1:  # the rank's share of the queries attends to all keys
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
        if is_array(q.new):  # the only queries of the step, or drafts of different lengths: one kernel per group
            seconds = seconds + where(q.count > 0, verified(q), 0.0)
    for i, q in enumerate(prompts):
        each = where(q.count > 0, long(q), 0.0)
        seconds = seconds + (each if i == 0 else most(each - many.launch, 0.0))
    if prompts:
        return seconds, many.of_sort(prompts[0].new >= FEW)
    width = op.kv_heads * (op.v_dim if latent else op.qk_dim + op.v_dim)
    cached = sum(q.count * op.pairs_of(q) / q.new for q in brief) * width * kv / parts
    return seconds, one.of_sort(cached > roof.l2)


def _picked(
    op: o.Attend, own: Constants, roof: law.Roof, short: Callable[..., Count], dense: Callable[[Queries], Count]
) -> Count:
    """Seconds of sparse MLA, one group of queries after another; absorbed even if expanding takes fewer FLOPs.

    Short queries take at least as long as with dense attention. Queries whose keys are all selected run
    dense with expanded latents, if the engine does so.
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


def tiles_of(op: o.Attend, compute: Count) -> Count:
    """Seconds at peak of the whole tiles of query rows that short queries fill in part, of an op of `compute` seconds.

    A tile has `QUERY_TILE` rows: the query heads that share keys, times new tokens. A single row runs without tensor
    cores, and full tiles are those of the counted FLOPs.
    """
    if op.form == "expanded" or not op.flash:
        return 0.0
    every: Count = 0.0
    part: Count = 0.0
    for q in op.step.queries:
        pairs, rows = q.count * op.pairs_of(q), op.heads / op.kv_heads * q.new
        every = every + pairs
        partial = where(rows > 1, where(rows < law.QUERY_TILE, 1.0, 0.0), 0.0)
        part = part + pairs * partial * law.QUERY_TILE / most(rows, 1)
    return compute * part / most(every, 1)


def is_long(q: Queries) -> bool:
    """Whether queries use the prefill kernel. Within a regime, either all array elements do or none."""
    return some(q.new > VERIFYING)


def _unfused(op: o.Attend, target: Target, products: int, passes: float) -> Seconds:
    """Unfused attention: products over the full score matrix (no causal savings), and passes over the scores.

    Forward: 2 products and 4 passes (or the engine's number, if known); backward: 4 and 6, as measured in
    arXiv:2205.05198, table 4, for the layers of a 22B model (softmax and dropout skip the masked half).
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
    """An indexer: products at the prefill kernel's fraction of peak, keys at the stream law's fraction of bandwidth.

    No indexer was measured. Its grade is C, whatever the grades of the borrowed constants.
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
    """One pass that reads inputs and writes outputs. An op fused with its neighbour adds bytes, but no launch.

    Channel recurrences and token shifts have not been measured: they are assumed to touch each value once.
    """
    constants = target.constants(wide_key(target.precision.activations.compute), "stream")
    width = float(target.precision.activations.stored_bits) / 8
    roof = target.roof(next(iter(target.chip.peaks)))
    if op.rides and not target.engine.unfused:
        extra = (op.input - op.output) * width if isinstance(op, o.Sum) and not op.weighted else 0.0 * op.input
        extra = 2 * extra + _biased(op, target)
        return law.stream(extra, roof, constants.record) - constants.launch, constants
    size = _moved(op, target)
    if size is None:
        size = (op.input + op.output + op.weight + op.vector) * width
        size = size + getattr(target.precision, op.store).bytes(op.cache_read + op.cache_write)
    return law.stream(size, roof, constants.record), constants


def _moved(op: o.Op, target: Target) -> Count | None:
    """Bytes that a training engine's kernels move for experts' outputs or a loss; None where they are the op's own."""
    of, moved = op.origin, target.engine.moved
    name = of.way if isinstance(of, o.Loss) else "combine" if isinstance(of, o.Sum) and of.weighted else ""
    if name not in moved:
        return None
    forward, back = moved[name]
    values = of.rows * of.width if isinstance(of, o.Loss) else of.input
    return (back if isinstance(op, o.Backward) else forward) * values


def _biased(op: o.Op, target: Target) -> Count:
    """Bytes that a training engine moves to give experts their biases and activation kernel by kernel."""
    of, engine = op.origin, target.engine
    if not isinstance(of, (o.Activate, o.Sum)) or not of.biased or not engine.biased_experts:
        return 0.0
    if target.precision.experts.name in engine.fused_experts:
        return 0.0
    each, values = (
        (engine.biased_experts["act"], of.output) if isinstance(of, o.Activate)
        else (engine.biased_experts["combine"], of.input)
    )  # fmt: skip
    return (2 if isinstance(op, o.Backward) else 1) * each * values


def by_tokens(op: o.Dual | o.Delta | o.Memorise) -> Code:
    """Regime of scans: 0 for one token per sequence, 1 for more, -1 for no sequences."""
    return where(op.step.sequences > 0, where(op.step.tokens > op.step.sequences, 1, 0), -1)


@runs(o.Dual, o.Delta, o.Memorise, matrix=True, regime=by_tokens)
def _scan(op: o.Delta | o.Dual | o.Memorise, target: Target) -> Seconds:
    """Chunked scan of a prompt; for a single token, one pass over the state.

    No mLSTM has been measured: its chunks have the same products as Mamba-2's, so it uses that kernel's constants.
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
    """Number of one-token queries beside longer ones, and their tokens on this rank; they run in a separate kernel.

    Queries whose length is an array count as longer ones. (0, 0) if all queries have one token.
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
    """Backward pass at twice the forward time: gradients of the inputs and of the parameters."""
    seconds, constants = KERNELS[type(op.of)].law(op.of, target)
    return 2 * seconds, constants


@GRADIENT_LAWS.of(o.MatMul, o.ExpertMatMul, o.Communicate, o.Backward, o.Update)
def of_no_backward(op: o.Backward, target: Target) -> Seconds:
    """Raise TypeError for kinds without a Backward op: gradients of products, for example, are products themselves."""
    raise TypeError(f"{type(op.of).__name__} has no Backward")


GRADIENT_LAWS.add(
    one_pass, o.Normalise, o.Rotate, o.Activate, o.Sum, o.Scale, o.Choose, o.Lookup, o.Convolve,
    o.Shift, o.Loss,
)  # fmt: skip


# -- selected elements --------------------------------------------------------------------------------------------
def shape_of(op: o.Op) -> tuple[int, ...]:
    """The broadcast shape of an op's arrays."""
    values = [getattr(op, f.name) for f in fields(op)]
    shapes = [v.shape for v in values if is_array(v) or isinstance(v, Step)]
    return np.broadcast_shapes(*shapes, *(shape_of(v) for v in values if isinstance(v, o.Op)))


def restricted(op: o.Op, shape: tuple[int, ...], places: Array) -> o.Op:
    """Select elements of an op's arrays by flat index into `shape`; queries absent from all of them are dropped."""

    def at(value: Any) -> Any:
        if isinstance(value, Step):
            return _uniform(value.mapped(at))
        if isinstance(value, o.Op):
            return restricted(value, shape, places)
        return np.broadcast_to(value, shape).reshape(-1)[places] if is_array(value) else value

    return replace(op, **{f.name: at(getattr(op, f.name)) for f in fields(op)})


def plainer(op: o.Op) -> o.Op:
    """Convert query lengths that are constant arrays to plain numbers."""
    parts = {f.name: getattr(op, f.name) for f in fields(op)}
    steps: dict[str, Any] = {n: v.with_queries(_plainer(v.queries)) for n, v in parts.items() if isinstance(v, Step)}
    ops: dict[str, Any] = {name: plainer(v) for name, v in parts.items() if isinstance(v, o.Op)}
    return replace(op, **steps, **ops)


def _uniform(step: Step) -> Step:
    """Drop queries without sequences, and convert query lengths that are constant arrays to plain numbers."""
    return step.with_queries(_plainer(q for q in step.queries if some(q.count)))


def _plainer(queries: Iterable[Queries]) -> tuple[Queries, ...]:
    return tuple(
        Queries(q.cached, int(q.new.flat[0]) if is_array(q.new) and _alike(q.new) else q.new, q.count) for q in queries
    )


def _alike(values: Array) -> bool:
    return bool((values == values.flat[0]).all())
