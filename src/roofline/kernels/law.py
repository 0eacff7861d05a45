"""Laws: the time of one op on one chip as a function of its sizes and of fitted constants.

Arguments, fields of a chip and fitted constants may be floats or NumPy arrays that broadcast.  Units are SI: FLOP,
bytes, seconds.  Every law has the form

    t = t0 + smooth_max(arithmetic, memory, ...)

``t0`` is the launch floor, *arithmetic* the FLOPs that the tensor cores really execute (whole tiles, whole waves) over
a fraction of the peak, *memory* the bytes over a fraction of the bandwidth.  With t0 = 0, fractions of 1, p = infinity
and tiles of one element, a law is the roofline.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from roofline.declared.numbers.maths import ceil, is_array, least, most, root, where

Number: TypeAlias = Any
"""A float, or an array of floats."""

TILES = (64, 128, 256)  # edges of the square output tile that one block of a GEMM computes
SPLITS = (1, 2, 4, 8, 16)  # numbers of blocks that may split the k loop of one tile
GRAIN = 8  # step between the available tile heights of a GEMM, in rows
QUERY_TILE = 64  # query rows are padded to multiples of this
LONG_TILE = 128  # query rows of the block that finishes last in causal attention
SINGLE_REACH = 256.0  # `reach` of DecodeLaw for kernels with one query head per block
HEAD_TILE = 16  # query heads of MLA decode are padded to multiples of this
CHOSEN = (1, 2, 4, 8)  # tile heights of MoE kernels, as multiples of the smallest
UNBOUNDED = 1e18  # attention window that stands for no window


@dataclass(frozen=True)
class Roof:
    """The properties of a chip that the laws use.

    peak: dense FLOP/s of the dtype the op computes in.  bandwidth: B/s of the memory.  l2: bytes of last-level cache.
    units: streaming multiprocessors (or cores).  keeps: share of l2 in which data survives from one kernel to the
    next; 1 for a single L2 (Ada, GB202), 0 where the L2 is two halves and the gain does not show (A100, H100, B200).
    """

    peak: Number
    bandwidth: Number
    l2: Number
    units: Number
    keeps: Number = 0.0


@dataclass(frozen=True)
class StreamLaw:
    """Element-wise op. t0: s; memory: fraction of the bandwidth; l2: speed of cached traffic, in bandwidths."""

    t0: Number = 2e-6
    memory: Number = 0.8
    l2: Number = 3.0


@dataclass(frozen=True)
class MatmulLaw:
    """GEMM.

    t0: s.  compute, memory: fractions of peak and bandwidth.  sharp: exponent p of the smooth maximum.  split: s, the
    cost of splitting k over blocks; infinite if the kernel cannot.  step: minimum s per element of k in one block
    (load latency).  l2: speed of cached traffic, in bandwidths.  height: rows are padded to multiples of this (64:
    Hopper's wgmma; 16: mma).  tile: edge of the only tile; 0: the best of TILES, 1: no padding (a CPU).  pack:
    fraction of the bandwidth at which a product of more than one row first copies its weights (BLAS on a CPU);
    infinite if it does not.
    """

    t0: Number = 3e-6
    compute: Number = 0.75
    memory: Number = 0.8
    sharp: Number = 2.5
    split: Number = 2.5e-6
    step: Number = 0.0
    l2: Number = 2.0
    height: Number = 64.0
    tile: float = 0.0
    pack: Number = np.inf


@dataclass(frozen=True)
class Quantised(MatmulLaw):
    """GEMM preceded by a pass that quantises its activations. quantise_t0: s; quantise_memory: fraction of the
    bandwidth; quantise_row: s per row of x (for block scales laid out row by row)."""

    quantise_t0: Number = 0.0
    quantise_memory: Number = 0.5
    quantise_row: Number = 0.0

    @property
    def passes(self) -> bool:
        """Whether the measured products included the pass. If not, the `quantise_` constants were not fitted."""
        return bool(np.any(self.quantise_t0 > 0) or np.any(self.quantise_memory != 0.5))


@dataclass(frozen=True)
class PrefillLaw:
    """Attention of many new tokens.

    t0: s.  compute: fraction of peak at head size 128.  memory: fraction of bandwidth (includes the passes of RoPE and
    cache write).  fixed: share of a query-key pair's time, at head size 128, that does not shrink with the head size
    (softmax).  pad: keys that each query tile costs beyond those it sees.  tail: weight of the block that finishes
    last.  other: slowdown at head sizes other than 128, if only that size has a dedicated kernel.  l2: speed of cached
    traffic, in bandwidths.  capped: 1 if padding never exceeds the number of keys (a CPU's large key blocks), else 0.
    """

    t0: Number = 1.2e-5
    compute: Number = 0.55
    memory: Number = 0.5
    fixed: Number = 0.3
    pad: Number = 150.0
    tail: Number = 0.7
    other: Number = 1.0
    l2: Number = 1.5
    capped: float = 0.0


@dataclass(frozen=True)
class DecodeLaw:
    """Attention of one new token per sequence.

    t0: s.  memory: fraction of bandwidth.  sharp: exponent p.  block: s of a unit per (sequence, KV head); head: s per
    (sequence, query head) for kernels with one query head per block.  walk: s per cached token in one block; reach:
    tokens after which more blocks split the cache (10⁷: never).  l2: speed of cached traffic, in bandwidths.
    group: most query heads per KV head that the kernel processes together; beyond it each head reads the cache itself.
    again: speed of these repeated reads, in bandwidths; 0: `l2`.
    """

    t0: Number = 9e-6
    memory: Number = 0.85
    sharp: Number = 2.0
    block: Number = 3e-6
    head: Number = 3e-6
    walk: Number = 2e-8
    reach: Number = 256.0
    l2: Number = 2.0
    group: Number = np.inf
    again: float = 0.0


@dataclass(frozen=True)
class Latent:
    """Absorbed MLA decode. As DecodeLaw, plus compute: fraction of peak; block: s of a unit per 64 query heads."""

    t0: Number = 1.1e-5
    compute: Number = 0.6
    memory: Number = 0.8
    sharp: Number = 2.0
    block: Number = 5e-6
    walk: Number = 5e-9
    reach: Number = 3000.0
    l2: Number = 2.0


@dataclass(frozen=True)
class Sparse:
    """Absorbed sparse MLA, in which each query selects latents. t0: s. compute: fraction of peak. heads: tile of query
    heads. least: minimum cost of a query, as a share of the keys it may select. short: 1 if queries that see no more
    keys than they may select also run absorbed, 0 if their latents are expanded."""

    t0: Number = 1.1e-5
    compute: Number = 0.4
    heads: Number = 64.0
    least: Number = 0.0
    short: float = 0.0


@dataclass(frozen=True)
class ExpertsLaw:
    """Fused MoE layer. t0: s; compute, memory, sharp as MatmulLaw; passes: fraction of bandwidth of the activation
    passes (permute, activation, combine); expert: s per expert touched; apart: additional s if a rank holds only some
    of the experts that its tokens choose; remote: bytes per hidden element of a pair that another rank computes;
    stage: time to load a tile of weights, in rows, 0 for kernels with one tile height; l2: speed of cached traffic, in
    bandwidths; height, tile: as MatmulLaw, height being the smallest one for kernels that choose among CHOSEN."""

    t0: Number = 2.5e-5
    compute: Number = 0.8
    memory: Number = 0.85
    sharp: Number = 2.0
    passes: Number = 0.5
    expert: Number = 1e-7
    apart: Number = 0.0
    remote: Number = 0.0
    stage: Number = 0.0
    l2: Number = 2.5
    height: Number = 64.0
    tile: float = TILES[0]


@dataclass(frozen=True)
class Scan:
    """Linear attention over a chunked sequence. t0: s; compute, memory: fractions; chunk: s per serial chunk of 64."""

    t0: Number = 2e-5
    compute: Number = 0.2
    memory: Number = 0.5
    chunk: Number = 1e-6


RECORDS: Mapping[str, type[Any]] = {
    "matmul": MatmulLaw,
    "quantised_matmul": Quantised,
    "prefill": PrefillLaw,
    "latent_prefill": PrefillLaw,
    "decode": DecodeLaw,
    "latent_decode": Latent,
    "latent_sparse": Sparse,
    "experts": ExpertsLaw,
    "stream": StreamLaw,
    "scan": Scan,
}
"""Kind of law → the class of its constants."""


def smooth_max(p: Number, *terms: Number) -> Number:
    """(Σ terms^p)^(1/p), scaled by the largest term so that no power overflows."""
    top: Number = 1e-30
    for term in terms:
        top = most(top, term)
    total: Number = 0.0
    for term in terms:
        total = total + (term / top) ** p
    return top * total ** (1 / p)


def waves(blocks: Number, units: Number) -> Number:
    """Time of `blocks` equal blocks on `units` units, in block times: √(1 + (blocks/units)²), a smooth ceiling."""
    return root(1 + (blocks / units) ** 2)


def padded(count: Number, tile: Number) -> Number:
    """`count` rounded up to whole tiles."""
    return ceil(count / tile) * tile


def resident(footprint: Number, chip: Roof, full: float, none: float) -> Number:
    """Share of a working set of `footprint` bytes that is still in L2 at its next use: chip.keeps for footprints below
    `full` times the L2 size, falling to 0 at `none` times it.  The fall is steep for cyclic reuse under LRU (1 to 1.12)
    and gradual for a tensor passed from kernel to kernel (0.5 to 1.5)."""
    if isinstance(chip.keeps, float) and chip.keeps == 0:
        return 0.0
    return chip.keeps * least(most((none - footprint / chip.l2) / (none - full), 0.0), 1.0)


def transfer(size: Number, hit: Number, chip: Roof, memory: Number, l2: Number) -> Number:
    """Seconds to move `size` bytes if the share `hit` comes from L2."""
    return size * ((1 - hit) / memory + hit / l2) / chip.bandwidth


def causal_pairs(new: Number, cached: Number, window: Number) -> Number:
    """Query-key pairs of `new` causal queries after `cached` tokens with a sliding `window` (0 = no window):
    Σ_{i=1..new} min(cached + i, window)."""
    span = where(window > 0, window, UNBOUNDED)
    inside = most(least(span - cached, new), 0.0)
    return inside * cached + inside * (inside + 1) / 2 + (new - inside) * span


def tiled(m: Number, n: Number, k: Number, groups: Number, memory: Number, chip: Roof, c: MatmulLaw) -> Number:
    """Seconds of `groups` products [m,k]·[k,n] with the fastest tiling. `memory`: seconds of their traffic."""
    tiles = (c.tile,) if c.tile else TILES
    splits = SPLITS[:1] if c.split == np.inf else SPLITS
    if not any(is_array(v) for v in (m, n, k, groups, memory)):
        return min(tiling(float(t), float(s), m, n, k, groups, memory, chip, c) for t in tiles for s in splits)
    axes = (-1, *(1 for _ in np.broadcast_shapes(*(np.shape(v) for v in (m, n, k, groups, memory)))))
    tile, split = (np.array(v, float).reshape(axes) for v in zip(*product(tiles, splits), strict=True))
    return np.asarray(tiling(tile, split, m, n, k, groups, memory, chip, c).min(axis=0))


def tiling(
    tile: Number, split: Number, m: Number, n: Number, k: Number, groups: Number, memory: Number, chip: Roof,
    c: MatmulLaw,
) -> Number:  # fmt: skip
    """Seconds with output tiles of edge τ = `tile` and the k loop of each split over s = `split` blocks.

    blocks = groups·⌈m/τ⌉·⌈n/τ⌉·s;  arithmetic = waves(blocks)·2·τ·η·(k/s)·units/(compute·peak),
    η = min(τ, max(height, ⌈m/⌈m/τ⌉⌉_8)): rows are divided evenly, and libraries have tiles of many heights, as one side
    of the matrix instructions is a multiple of 8 (PTX ISA, wgmma.mma_async, mma and tcgen05.mma);
    latency = waves(blocks)·(k/s)·step;  a split (s > 1) adds its fixed cost and the traffic of s partial sums in fp32.
    """
    tall = tile if c.tile else most(tile, c.height)
    rows = ceil(m / tall)
    blocks = groups * rows * ceil(n / tile)
    turns = waves(blocks * split, chip.units) * k / split
    high = least(tall, most(c.height, padded(m / most(rows, 1), least(c.height, GRAIN))))
    arithmetic = turns * 2 * tile * high * chip.units / (c.compute * chip.peak)
    price = where(split > 1, c.split + groups * m * n * 4 * split / (c.l2 * chip.bandwidth), 0.0)
    return smooth_max(c.sharp, arithmetic, memory, turns * c.step) + price


def matmul_seconds(
    m: Number, n: Number, k: Number, x: Number, w: Number, y: Number, chip: Roof, c: MatmulLaw,
    cycle: Number = np.inf, groups: Number = 1.0,
) -> Number:  # fmt: skip
    """y[m,n] = x[m,k]·w[n,k]ᵀ, `groups` times; x, w, y are bytes per element (scales included).

    t = t0 + tiled(...), traffic x·mk + w·nk + y·mn.  `cycle`: bytes of weights used before the same weights are used
    again; infinite (always cold) in a model, min(5, ⌈L2/w⌉) copies in the benchmark used for the fit.
    """
    size = groups * (x * m * k + w * n * k + y * m * n)
    hit = resident(cycle + groups * (x * m * k + y * m * n), chip, 1.0, 1.12)
    packed = where(m > 1, groups * w * n * k / (c.pack * chip.bandwidth), 0.0)
    return c.t0 + packed + tiled(m, n, k, groups, transfer(size, hit, chip, c.memory, c.l2), chip, c)


def quantised_matmul_seconds(
    m: Number, n: Number, k: Number, x: Number, w: Number, y: Number, quantise: Number, chip: Roof, c: Quantised,
    cycle: Number = np.inf,
) -> Number:  # fmt: skip
    """A matmul and the pass before it that quantises x from 16 bits. The pass moves `quantise` bytes per element of x:
    5 for per-tensor scales (read for the maximum, read again, write), 3 for block scales, 0 = no pass (weight-only)."""
    return quantise_pass(m, k, quantise, chip, c) + matmul_seconds(m, n, k, x, w, y, chip, c, cycle)


def quantise_pass(m: Number, k: Number, each: Number, chip: Roof, c: Quantised) -> Number:
    """Seconds of the pass that quantises x[m,k] from 16 bits and moves `each` bytes per element; 0 if `each` is 0."""
    fixed = where(each > 0, c.quantise_t0 + c.quantise_row * m, 0.0)
    return fixed + transfer(each * m * k, resident(2 * m * k, chip, 0.5, 1.5), chip, c.quantise_memory, c.l2)


def stream(size: Number, chip: Roof, c: StreamLaw) -> Number:
    """Element-wise op that reads and writes `size` bytes in total: t = t0 + size/(memory·W)."""
    return c.t0 + transfer(size, resident(size, chip, 0.5, 1.5), chip, c.memory, c.l2)


def prefill_seconds(
    batch: Number, new: Number, cached: Number, heads: Number, kv_heads: Number, key: Number, value: Number,
    window: Number, q: Number, kv: Number, chip: Roof, c: PrefillLaw, pairs: Number | None = None,
    reach: Number | None = None,
) -> Number:  # fmt: skip
    """Causal attention of `new` tokens after `cached` ones, in each of `batch` sequences.

    key, value: head sizes; q, kv: bytes per element of queries/outputs and of keys/values; window 0 = full. For other
    masks, `pairs`: query-key pairs of a sequence, and `reach`: keys that its last token sees. One that hides
    nothing has no tile on a diagonal, so that no more than all keys are padded; a lone query tells no mask.
    t = t0 + B/(memory·W) + √(all² + longest²),
    all = 2(key+value)·batch·heads·⌈new⌉₆₄·(pairs/new + pad)·g/(compute·P), g = (1−fixed) + fixed·128/d, d = mean head
    size; longest = the time of one block of 128 queries that sees every key, on one unit.
    """
    total = new + cached
    span = where((window > 0) & (window < total), window, total) if reach is None else reach
    context = total if reach is None else least(total, new + span)
    size = batch * ((new * heads) * q + (context * kv_heads) * kv) * (key + value)
    hit = resident(size, chip, 0.5, 1.5)
    d = (key + value) / 2
    pair = 4 * d * ((1 - c.fixed) + c.fixed * 128 / d) / (c.compute * chip.peak) * where(d == 128, 1.0, c.other)
    seen = causal_pairs(new, cached, window) if pairs is None else pairs
    keys = seen / new + c.pad * (1 + (span < total))
    hides_nothing = (seen >= new * total) & (new > 1)
    keys = where(hides_nothing | (c.capped > 0), least(keys, total), keys)
    work = batch * heads * padded(new, QUERY_TILE) * keys * pair
    last = least(LONG_TILE, padded(new, QUERY_TILE)) * least(total + c.pad, span + 2 * c.pad)
    longest = c.tail * last * pair * chip.units
    return c.t0 + transfer(size, hit, chip, c.memory, c.l2) + root(work**2 + longest**2)


def decode_seconds(
    batch: Number, length: Number, heads: Number, kv_heads: Number, head: Number, window: Number, kv: Number,
    chip: Roof, c: DecodeLaw,
) -> Number:  # fmt: skip
    """Attention of one token per sequence over `length` cached tokens (itself included).

    head: head size; kv: bytes per element of the cache.
    t = t0 + r·walk·L/(1 + L/reach) + smooth_max(memory, blocks), memory = KV and Q/O bytes over memory·W,
    blocks = batch·kv_heads/units · r·block, r = √(head/128).
    """
    span = where(window > 0, least(length, window), length)
    group = heads / kv_heads
    alone = group > c.group
    cache = 2 * batch * span * kv_heads * head * kv
    size = cache + 4 * batch * heads * head
    again = where(alone, cache * (group - 1), 0.0)
    traffic = transfer(size, resident(size, chip, 0.5, 1.5), chip, c.memory, c.l2)
    traffic = traffic + again / ((c.again or c.l2) * chip.bandwidth)
    single = alone | (group == 1)
    size_factor = root(head / 128)
    blocks = batch * where(alone, heads, kv_heads) / chip.units * where(single, c.head, c.block)
    walk = c.walk * span / (1 + span / where(single, SINGLE_REACH, c.reach))
    return c.t0 + walk * size_factor + smooth_max(c.sharp, traffic, blocks * size_factor)


def latent_decode(
    batch: Number, length: Number, heads: Number, rank: Number, rope: Number, kv: Number, chip: Roof, c: Latent
) -> Number:
    """Absorbed MLA attention of one token per sequence: all heads read the same latent cache.

    rank, rope: sizes of the latent and of the rotary part; kv: bytes per element of the cache.
    FLOP = 2·batch·L·⌈heads⌉₁₆·(2·rank + rope); bytes = batch·L·(rank + rope)·kv + queries and outputs.
    """
    size = batch * (length * (rank + rope) * kv + heads * (2 * rank + rope) * 2)
    traffic = transfer(size, resident(size, chip, 0.5, 1.5), chip, c.memory, c.l2)
    work = 2 * batch * length * padded(heads, HEAD_TILE) * (2 * rank + rope) / (c.compute * chip.peak)
    blocks = batch * ceil(heads / 64) / chip.units * c.block
    return c.t0 + c.walk * length / (1 + length / c.reach) + smooth_max(c.sharp, traffic, work, blocks)


def sparse_seconds(
    tokens: Number, keys: Number, picks: Number, heads: Number, width: Number, chip: Roof, c: Sparse
) -> Number:
    """MLA of queries that each select and gather their own latents, shared by the heads of that query only.

    `keys`: mean selected keys per token; `picks`: the maximum; width: multiply-adds per pair and head, 2·rank + rope.
    t = t0 + tokens·max(keys, least·picks)·⌈heads/tile⌉·tile·2·width / (compute·peak).
    """
    pairs = tokens * most(keys, c.least * picks)
    return c.t0 + 2 * pairs * padded(heads, c.heads) * width / (c.compute * chip.peak)


def experts_seconds(
    tokens: Number, rows: Number, touched: Number, hidden: Number, inner: Number, gated: Number, x: Number, w: Number,
    chip: Roof, c: ExpertsLaw, cycle: Number = np.inf, even: Number = 0.0, remote: Number = 0.0,
    passed: Number = 1.0,
) -> Number:  # fmt: skip
    """Fused MoE layer on one rank: permute, grouped up (and gate) product, activation, down product, combine.

    tokens: input tokens; rows: token-expert pairs computed here, on `touched` distinct experts; gated: 1 for three
    matrices, 0 for two; x, w: bytes per element of activations and weights; even: 1 if all experts have the same
    number of rows, as in a benchmark with balanced loads; remote: token-expert pairs whose experts are on other ranks:
    they are routed here, and contribute zeros when the pairs of a token are summed.
    t = t0 + touched·expert + two grouped GEMMs with tiles for rows/touched rows per expert, which share one traffic
    term (the weights of the experts touched) + activation passes.
    """
    touched = most(touched, 1.0)
    weights = touched * (2 + gated) * hidden * inner * w
    passes = 4 * tokens * hidden + rows * hidden * (2 * x + 4) + 2 * rows * inner * x + c.remote * remote * hidden
    passes = passed * passes
    again = resident(cycle + passes, chip, 1.0, 1.12)
    per = rows / touched
    tiles, (_, height) = expert_tiles(per, c.tile, even), tile_rows(per, c.height, c.stage, even)
    work: Number = 0.0
    for n, k in (((1 + gated) * inner, hidden), (hidden, inner)):
        blocks = touched * tiles * ceil(n / c.tile)
        full = touched * height * ceil(n / c.tile) * c.tile
        work = work + 2 * full * k / (c.compute * chip.peak) * root(1 + (chip.units / blocks) ** 2)
    gemm = smooth_max(c.sharp, work, transfer(weights, again, chip, c.memory, c.l2))
    handed = transfer(passes, resident(passes, chip, 0.5, 1.5), chip, c.passes, c.l2)
    return c.t0 + where(remote > 0, c.apart, 0.0) + touched * c.expert + gemm + handed


def expert_tiles(per: Number, tile: Number, even: Number) -> Number:
    """Expected number of tiles of `tile` rows per touched expert, which has `per` rows on average.

    Loads are assumed geometric, P(N > n) = (1 − 1/per)ⁿ for n ≥ 0: wider than random routing, about as wide as a power
    law of exponent 1. Then E⌈N/tile⌉ = Σ_j P(N > j·tile) = 1/(1 − (1 − 1/per)^tile), which grows smoothly from 1 to
    per/tile + 1/2. For even loads it is ⌈per/tile⌉.
    """
    spread = 1 / (1 - (1 - 1 / most(per, 1.0)) ** tile)
    return where(even > 0, padded(per, tile) / tile, spread)


def tile_rows(per: Number, height: Number, stage: Number, even: Number) -> tuple[Number, Number]:
    """Rows of whole tiles that one expert with `per` rows on average takes, and the time of these tiles, in rows.

    Loading a tile of weights into the tensor cores takes as long as `stage` rows. So kernels have tiles of several
    heights h and choose the one whose time is least: (h + stage)·tiles. With stage 0 there is one tile height,
    `height`.
    """
    tiles = expert_tiles(per, height, even)
    rows, time = height * tiles, (height + stage) * tiles
    for h in CHOSEN[1:]:
        tiles = expert_tiles(per, h * height, even)
        taken = where(stage > 0, (h * height + stage) * tiles, np.inf)
        rows, time = where(taken < time, h * height * tiles, rows), least(taken, time)
    return rows, time


def scan(
    batch: Number, tokens: Number, key_heads: Number, value_heads: Number, key: Number, value: Number,
    chip: Roof, c: Scan,
) -> Number:  # fmt: skip
    """Chunked gated delta rule over `tokens` tokens in each of `batch` sequences (chunks of 64).

    Per token and value head: 2·(64·(key + value) + 3·key·value) FLOP; per token: q, k of key_heads, v and o of
    value_heads, each moved twice.  The chunks of a sequence are serial: ⌈tokens/64⌉·chunk·waves.
    """
    flops = 2 * batch * padded(tokens, 64) * value_heads * (64 * (key + value) + 3 * key * value)
    size = 4 * batch * tokens * (2 * key_heads * key + 2 * value_heads * value)
    serial = ceil(tokens / 64) * c.chunk * waves(batch * value_heads, chip.units)
    return c.t0 + flops / (c.compute * chip.peak) + size / (c.memory * chip.bandwidth) + serial
