"""Op × chip → seconds: the floor that physics sets, the time to expect, and how sure that is.

The floor is max(FLOPs / peak, least bytes / bandwidth). The expected time is the op kind's law with the constants
fitted for this chip, its generation, or any chip (grades A, B, C). Nothing here knows a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import comb
from typing import Any

from roofline.machine import law
from roofline.machine.chip import Chip
from roofline.machine.collectives import Transfer, collective
from roofline.machine.constants import Constants, constants_for
from roofline.machine.engine import Engine
from roofline.machine.fabric import Cluster, of_chips
from roofline.model.errors import InputError, nearest
from roofline.model.maths import Count, ceil_div, is_array
from roofline.model.precision import Format, Precision
from roofline.work import ops as o
from roofline.work.counting import STANDARD
from roofline.work.step import Queries
from roofline.work.traffic import FLOOR, unfused

VERIFYING = 16
"""Up to this many new tokens a query runs the decode kernel (drafts to verify); beyond it the prefill kernel."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one op. `compute`, `memory`, `network`: at full peak and bandwidths. `fixed`: launches in `expected`.

    `low`, `high`: the interval that 80 % of measurements fall in. `grade`: A fitted on this chip, B on its
    generation, C on others.
    """

    compute: Count
    memory: Count
    expected: Count
    low: Count
    high: Count
    fixed: Count
    grade: str
    network: Count = 0.0

    @property
    def floor(self) -> Count:
        """Speed of light: max of compute, memory and network."""
        import numpy

        return numpy.maximum(numpy.maximum(self.compute, self.memory), self.network)


@dataclass(frozen=True)
class Mode:
    """How expected times are made: `calibrated`, `ideal` (the floor), or `fixed` shares of peak and bandwidth."""

    name: str
    mfu: float = 1.0
    mbu: float = 1.0


CALIBRATED, IDEAL = Mode("calibrated"), Mode("ideal")


@dataclass(frozen=True)
class Target:
    """A chip as ops meet it: the formats in use, the engine whose kernels run, and the cluster it is one of."""

    chip: Chip
    precision: Precision
    engine: Engine
    mode: Mode
    cluster: Cluster | None = None

    def constants(self, dtype: str, kind: str) -> Constants:
        """The fitted constants, and how well they are known."""
        found = constants_for(self.chip, dtype, kind, self.engine.software)
        if kind == "decode" and self.engine.rereads:
            return replace(found, record=replace(found.record, group=1.0, l2=self.engine.rereads))
        return found

    def roof(self, fmt: str) -> law.Roof:
        """The chip with the peak of one format."""
        return roof_of(self.chip, fmt)


def mode_named(spec: str | Mode) -> Mode:
    """`calibrated`, `ideal`, or `fixed(mfu,mbu)` such as `fixed(0.5,0.8)`.

    Raises InputError for anything else, and for shares outside (0, 1].
    """
    if isinstance(spec, Mode):
        return spec
    text = spec.strip().lower().replace(" ", "") if isinstance(spec, str) else ""
    if text in ("calibrated", "ideal"):
        return CALIBRATED if text == "calibrated" else IDEAL
    expected = "calibrated, ideal or fixed(mfu,mbu) with shares in (0, 1]"
    if text.startswith("fixed(") and text.endswith(")"):
        parts = [p.partition("=")[2] or p for p in text[6:-1].split(",")]
        try:
            mfu, mbu = (float(p) for p in parts)
        except ValueError:
            raise InputError("law", spec, expected) from None
        if 0 < mfu <= 1 and 0 < mbu <= 1:
            return Mode("fixed", mfu, mbu)
    raise InputError("law", spec, expected, nearest(text, ("calibrated", "ideal")))


def roof_of(chip: Chip, fmt: str) -> law.Roof:
    """What a law needs to know of a chip that multiplies in a format.

    Data survives from kernel to kernel in one undivided last-level cache (Ada, GB202, CPUs), not in one of two.
    """
    keeps = 1.0 if chip.kind == "cpu" or chip.generation in ("ada", "blackwell-rtx") else 0.0
    return law.Roof(chip.peak(fmt), chip.bandwidth, chip.cache or 1.0, chip.units or 100, keeps)


# -- formats -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Path:
    """How a product runs: the fitted dtype, the format multiplied in, bytes a value of weights and activations.

    `quantise`: bytes a value of the pass that quantises the activations just before, 0 where there is none.
    """

    dtype: str
    compute: str
    weight: float
    activation: float
    quantise: float = 0.0


WIDE = ("fp32", "bf16", "fp16")


def wide_key(fmt: str | None) -> str:
    """Whose constants a format of 16 bits or more has: its own, bf16's where nobody measured them."""
    return fmt if fmt in WIDE else "bf16"


def path_of(weights: Format, activations: Format) -> Path:
    """A product's path: weight-only formats multiply at the activations' peak, others quantise the activations."""
    stored, wide = float(weights.stored_bits) / 8, float(activations.stored_bits) / 8
    plain = activations.compute or "bf16"
    if weights.compute is None:
        dtype = "int8_wo" if weights.bits >= 8 else "w4a16_mxfp4" if weights.name == "mxfp4" else "int4_wo"
        return Path(dtype, plain, stored, wide)
    if weights.compute == plain or weights.bits >= 16:
        return Path(wide_key(plain) if weights.bits >= 16 else weights.compute, plain, stored, wide)
    fmt = weights.compute
    if fmt == "fp8" and weights.overhead:
        return Path("fp8_block", fmt, stored, 1 + 4 / 128, 3 + 4 / 128)
    if fmt == "fp8":
        return Path("fp8", fmt, stored, 1.0, 5.0)
    if fmt == "int8":
        return Path("sq", fmt, stored, 1.0)
    if fmt == "fp4":
        return Path("nvfp4", fmt, stored, 0.5625, 2.5625)
    return Path(wide_key(plain), plain, stored, wide)


def matrix_format(op: o.Op, target: Target) -> str:
    """The format an op's matrix products run in; for attention and scans, that of the activations."""
    activations = target.precision.activations
    if isinstance(op, (o.MatMul, o.ExpertMatMul)):
        return path_of(target.precision.weights(op.part), activations).compute
    return activations.compute or "bf16"


MATRIX = (o.MatMul, o.ExpertMatMul, o.Attend, o.Score, o.Dual, o.Delta)
ATTENTION_BACKWARD = 2.5 / 0.85
"""Time of attention's gradient in that of its forward: five products for two (the scores are made again), each at 0.85
of the forward's rate. FlashAttention-2 (arXiv:2307.08691, figs. 5 and 6) and -3 (arXiv:2407.08608, figs. 5 and 6)."""


def ideal(op: o.Op, target: Target) -> tuple[Count, Count]:
    """Seconds at full peak and at full bandwidth of the least bytes."""
    chip, done = target.chip, op.of if isinstance(op, o.Backward) else op
    if isinstance(done, MATRIX):
        peak = chip.peak(matrix_format(done, target))
        if isinstance(done, o.Attend):  # a cache in 8 bits may be multiplied in 8 bits
            peak = max(peak, chip.peaks.get(target.precision.kv.compute or "", 0.0))
        if isinstance(done, o.Score):  # indexers run in 8 bits where the chip can
            peak = max(peak, chip.peaks.get("fp8", 0.0))
    else:
        peak = max(chip.vector.values(), default=max(chip.peaks.values()))
    return STANDARD.flops(op) / peak, FLOOR.bytes(op, target.precision).total / chip.bandwidth


def time_op(op: o.Op, target: Target) -> Timing:
    """The timing of one op. Raises InputError where the chip lacks the format the op needs."""
    import numpy

    if isinstance(op, o.Communicate):
        return _communicate(op, target)
    compute, memory = ideal(op, target)
    floor = numpy.maximum(compute, memory)
    if target.mode.name == "ideal":
        return Timing(compute, memory, floor, floor, floor, 0.0 * floor, "-")
    if target.mode.name == "fixed":
        expected = numpy.maximum(compute / target.mode.mfu, memory / target.mode.mbu)
        return Timing(compute, memory, expected, expected, expected, 0.0 * floor, "-")
    seconds, found = LAWS[type(op)](op, target)
    seconds = seconds * target.engine.factor(target.chip.generation, work_of(op))
    seconds = numpy.where(unfused(op).total > 0, seconds, 0.0)  # an element of a sweep may not run this op at all
    expected = numpy.maximum(seconds, floor)
    low, high = found.interval(expected)
    fixed = found.record.t0 * (seconds > 0) * (0 if op.rides else 1)
    return Timing(compute, memory, expected, numpy.maximum(low * expected, floor), high * expected, fixed, found.grade)


def work_of(op: o.Op) -> str:
    """What sort of work an engine may slow down: products, attention, collectives or streams."""
    done = op.of if isinstance(op, o.Backward) else op
    if isinstance(done, (o.MatMul, o.ExpertMatMul)):
        return "products"
    return "attention" if isinstance(done, o.Attend) and done.flash else "streams"


def time_quantise(op: o.Op, target: Target) -> Timing | None:
    """The pass that quantises a product's activations, an op of its own; None where there is none."""
    import numpy

    if not isinstance(op, o.MatMul) or op.phase == "weight" or target.mode.name != "calibrated":
        return None
    path = path_of(target.precision.weights(op.part), target.precision.activations)
    if not path.quantise:
        return None
    found = target.constants(path.dtype, "quantised_matmul")
    seconds = law.quantise_pass(op.m, op.k, path.quantise, target.roof(path.compute), found.record)
    seconds = numpy.where(op.m > 0, seconds, 0.0)
    none = 0.0 * seconds
    low, high = found.interval(seconds)
    fixed = numpy.minimum(seconds, found.record.quantise_t0)
    return Timing(none, none, seconds, low * seconds, high * seconds, fixed, found.grade)


# -- a law for each kind -------------------------------------------------------------------------------------------
Result = tuple[Count, Constants]


def _matmul(op: o.MatMul, target: Target) -> Result:
    path = path_of(target.precision.weights(op.part), target.precision.activations)
    out = _added(op, target) if op.phase == "weight" else float(target.precision.activations.stored_bits) / 8
    kind = "matmul" if path.dtype in WIDE else "quantised_matmul"
    found = target.constants("int4_wo" if path.dtype == "w4a16_mxfp4" else path.dtype, kind)
    seconds = law.matmul(
        op.m, op.n, op.k, path.activation, path.weight, out, target.roof(path.compute), found.record, groups=op.groups
    )
    return seconds, found


def _added(op: o.MatMul | o.ExpertMatMul, target: Target) -> float:
    """Bytes per weight of adding to the gradient of the micro-batches before: it is read and written."""
    return 2 * float(getattr(target.precision, op.store).stored_bits) / 8


def _experts(op: o.ExpertMatMul, target: Target) -> Result:
    """The fused layer's time, shared out between its two products by their weights."""
    path = path_of(target.precision.weights(op.part), target.precision.activations)
    found = target.constants(path.dtype, "experts")
    weight = _added(op, target) if op.phase == "weight" else path.weight
    whole = law.experts(
        op.tokens, op.m, op.m, op.touched, op.hidden, op.inner, float(op.gated), path.activation, weight,
        target.roof(path.compute), found.record,
    )  # fmt: skip
    return whole * (op.k * op.n) / ((2 + op.gated) * op.hidden * op.inner), found


def _attend(op: o.Attend, target: Target) -> Result:
    """Queries of a few tokens together in the decode kernel, prompts one kind after another in the prefill kernel.

    The keys a token sees are those of the op's own mask: pairs / new tokens, whatever the mask is. Ranks that share out
    a decode each attend to the keys that they cache.
    """
    import numpy

    if not op.flash:
        return _unfused(op, target, 2, 4.0)
    cache, latent = target.precision.kv, op.form != "plain"
    plain = wide_key(target.precision.activations.compute)
    suffix = "fp8" if cache.bits == 8 else "bf16" if latent else plain
    one = target.constants(f"bf16_kv_{suffix}" if latent else suffix, "latent_decode" if latent else "decode")
    many = target.constants("bf16_kv_bf16" if latent else plain, "latent_prefill" if latent else "prefill")
    roof, kv = target.roof(target.precision.activations.compute or "bf16"), float(cache.stored_bits) / 8

    def short(sequences: Count, new: Count, keys: Count) -> Count:
        heads = op.heads * new
        if op.form == "absorbed":
            return law.latent_decode(sequences, keys, heads, op.v_dim, op.qk_dim - op.v_dim, kv, roof, one.record)
        return law.decode(sequences, keys, heads, op.kv_heads, op.v_dim, 0, kv, roof, one.record)

    def long(q: Queries) -> Count:
        pairs, reach = op.pairs_of(q), op.pairs_of(Queries(q.cached + q.new - 1, 1))
        new = q.new
        if is_array(op.step.parts) or op.step.parts > 1:  # a rank's share of the queries, to all keys
            new, pairs = q.new / op.step.parts, pairs / op.step.parts
        return law.prefill(
            q.count, new, q.cached + q.new - new, op.heads, op.kv_heads, op.qk_dim, op.v_dim, 0, 2.0, kv, roof,
            many.record, pairs, reach,
        )  # fmt: skip

    def each(q: Queries) -> Count:
        if op.form == "expanded":
            return long(q)
        brief = short(q.count, q.new, op.pairs_of(q) / q.new / op.step.parts)
        return brief if op.form == "absorbed" else numpy.where(q.new <= VERIFYING, brief, long(q))

    few = [q for q in op.step.queries if isinstance(q.new, int) and q.new <= VERIFYING and op.form != "expanded"]
    rest = [q for q in op.step.queries if not any(q is f for f in few)]
    seconds: Count = 0.0
    for new in {q.new for q in few}:
        alike = [q for q in few if q.new == new]
        sequences = sum(q.count for q in alike)
        keys = sum(q.count * op.pairs_of(q) for q in alike) / (new * numpy.maximum(sequences, 1) * op.step.parts)
        seconds = seconds + numpy.where(sequences > 0, short(sequences, new, keys), 0.0)
    for i, q in enumerate(rest):
        here = numpy.where(q.count > 0, each(q), 0.0)
        seconds = seconds + (here if i == 0 else numpy.maximum(here - many.record.t0, 0.0))
    decoding = all(numpy.all(q.new <= VERIFYING) for q in op.step.queries) and op.form != "expanded"
    return seconds, one if decoding else many


def _unfused(op: o.Attend, target: Target, products: int, passes: float) -> Result:
    """Attention kernel by kernel: products over the full square, and passes over its scores.

    Forward 2 products and 4 passes, back 4 and 6: what arXiv:2205.05198, table 4, measured of the layers of a 22B model
    (softmax and dropout skip the masked half).
    """
    roof, plain = target.roof(target.precision.activations.compute or "bf16"), target.precision.activations
    found = target.constants(wide_key(plain.compute), "matmul")
    streams = target.constants(wide_key(plain.compute), "stream").record
    many, each = op.sequences * op.heads, op.tokens / op.sequences
    width, keys = float(plain.stored_bits) / 8, op.kv_tokens / op.sequences
    size = (op.qk_dim + op.v_dim) / 2
    one = law.matmul(each, keys, size, width, width, 0.0, roof, found.record, groups=many)
    moved = law.stream(passes * op.scratch / 2 * width, roof, streams)
    return products * one + moved, found


def _score(op: o.Score, target: Target) -> Result:
    """An indexer: its products at the prefill kernel's share of the peak, its keys at the stream's of the bandwidth."""
    streamed, found = _stream(op, target)
    many = target.constants("bf16", "prefill").record
    compute = STANDARD.flops(op) / target.chip.peak(matrix_format(op, target))
    return streamed + compute / many.compute, found


def _stream(op: o.Op, target: Target) -> Result:
    """Reads its inputs, writes its output; what rides on a neighbour pays for its bytes and not for a launch."""
    found = target.constants(wide_key(target.precision.activations.compute), "stream")
    moved = unfused(op)
    width = float(target.precision.activations.stored_bits) / 8
    size = (moved.input + moved.output + moved.weight + moved.vector) * width
    size = size + getattr(target.precision, op.store).bytes(moved.cache_read + moved.cache_write)
    roof = target.roof(next(iter(target.chip.peaks)))
    if op.rides:
        extra = (moved.input - moved.output) * width if isinstance(op, o.Sum) and not op.weighted else 0.0 * size
        return law.stream(2 * extra, roof, found.record) - found.record.t0, found
    return law.stream(size, roof, found.record), found


def _backward(op: o.Backward, target: Target) -> Result:
    """Attention and scans in multiples of their forward; everything else streams its inputs and gradients."""
    if isinstance(op.of, o.Attend):
        if not op.of.flash:
            return _unfused(op.of, target, 4, 6.0)
        seconds, found = _attend(op.of, target)
        return found.record.t0 + ATTENTION_BACKWARD * (seconds - found.record.t0), found
    if isinstance(op.of, (o.ScanOp, o.Score)):
        seconds, found = LAWS[type(op.of)](op.of, target)
        return 2 * seconds, found
    return _stream(op, target)


def _communicate(op: o.Communicate, target: Target) -> Timing:
    """A collective on the target's cluster; sizes in the format of the activations."""
    import numpy

    size = target.precision.activations.bytes(op.elements)
    parts = [_transfer(op, size, *group, target) for group in _groups(op)]
    if len(parts) == 1:
        (_, t), *_ = parts
    else:
        names = ("floor", "expected", "low", "high", "fixed")
        picked = {n: numpy.select([w for w, _ in parts], [getattr(t, n) for _, t in parts]) for n in names}
        t = Transfer(**picked, moved=(), grade=max(t.grade for _, t in parts))
    slower = target.engine.factor(target.chip.generation, "collectives")
    later = (target.engine.factor(target.chip.generation, "latency") - 1) * t.fixed
    t = replace(t, expected=slower * t.expected + later, low=slower * t.low + later, high=slower * t.high + later)
    if target.mode.name != "calibrated":
        share = target.mode.mbu if target.mode.name == "fixed" else 1.0
        t = Transfer(t.floor, t.floor / share, t.floor / share, t.floor / share, 0.0 * t.floor, (), "-")
    none = 0.0 * t.floor
    return Timing(none, none, t.expected, t.low, t.high, t.fixed, t.grade, t.floor)


def _groups(op: o.Communicate) -> list[tuple[int, int]]:
    """The sizes and strides of group that occur among the elements of a sweep."""
    import numpy

    ranks, strides = numpy.broadcast_arrays(op.ranks, op.stride)
    return sorted({(int(n), int(s)) for n, s in zip(ranks.flat, strides.flat, strict=True)})


def _transfer(op: o.Communicate, size: Count, ranks: int, stride: int, target: Target) -> tuple[Any, Transfer]:
    """Where a sweep's groups are of this size, and how long their collective takes."""
    import numpy

    cluster = target.cluster or of_chips(1, target.chip)
    here = (numpy.asarray(op.ranks) == ranks) & (numpy.asarray(op.stride) == stride)
    software = target.engine.network or target.engine.software or "nccl"
    shares: dict[str, float] = {}
    if op.collective in ("dispatch", "combine"):
        parts = cluster.span(ranks, stride)
        nodes = ranks // parts[0].count if parts else 1
        shares = {"crossing": sent_share(op, nodes), "landing": sent_share(op, ranks)}
    return here, collective(op.collective, size, ranks, cluster, stride=stride, software=software, **shares)


def sent_share(op: o.Communicate, places: int) -> float:
    """Nodes, or ranks, that a token is sent to over its experts: to each once, however many of its experts are there.

    N·(1 − C(E − E/N, k)/C(E, k)) of N places, at most as many as its groups of experts span; over k.
    """
    if places <= 1 or op.top_k < 1 or op.experts % places:
        return 1.0
    absent = comb(op.experts - op.experts // places, op.top_k) / comb(op.experts, op.top_k)
    most = places if op.groups <= 1 else op.top_groups * ceil_div(places, op.groups)
    return min(places * (1 - absent), most) / op.top_k


def _scan(op: o.Delta | o.Dual, target: Target) -> Result:
    """Chunked over a prompt, one pass over the state for a single token."""
    import numpy

    found = target.constants("bf16", "scan")
    if isinstance(op, o.Dual):
        keys, key, value = op.groups, op.state_size, op.head_dim
    else:
        keys, key, value = op.key_heads, op.key_dim, op.value_dim
    batch = op.step.sequences
    roof = target.roof(matrix_format(op, target))
    chunked = law.scan(batch, op.step.tokens / batch, keys, op.heads, key, value, roof, found.record)
    single, streamed = _stream(op, target)
    alone = op.step.tokens == batch
    return numpy.where(alone, single, chunked), streamed if numpy.all(alone) else found


LAWS: Mapping[type[o.Op], Callable[[Any, Target], Result]] = {
    o.MatMul: _matmul,
    o.ExpertMatMul: _experts,
    o.Attend: _attend,
    o.Score: _score,
    o.Dual: _scan,
    o.Delta: _scan,
    o.Backward: _backward,
    **dict.fromkeys(
        (
            o.LinearAttend,
            o.Recur,
            o.Normalise,
            o.Rotate,
            o.Activate,
            o.Sum,
            o.Scale,
            o.Choose,
            o.Lookup,
            o.Convolve,
            o.Selective,
            o.Loss,
            o.Update,
        ),
        _stream,
    ),
}
