"""How long one op takes on one chip: the laws.

Every law is arithmetic on its arguments, which may be floats or NumPy arrays that broadcast; so are the fields of a
chip and of a record of constants.  Units are SI: FLOP, bytes, seconds.  A law has the same skeleton everywhere

    t = t0 + smooth_max(arithmetic, memory, ...)

``t0`` is the launch floor, *arithmetic* is FLOPs that the tensor cores really execute (whole tiles, whole waves) over
a fraction of the peak, *memory* is bytes over a fraction of the bandwidth.  With t0 = 0, fractions of 1, p = infinity
and tiles of one element it is the roofline.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from roofline.declared.maths import ceil, is_array, least, most, root, where

Number: TypeAlias = Any
"""A float, or an array of floats."""

TILES = (64, 128, 256)  # edge of the square output tile one block of a GEMM computes
SPLITS = (1, 2, 4, 8, 16)  # how many blocks may share the k loop of one tile
GRAIN = 8  # rows by which one tile of a GEMM is taller than another
QUERY_TILE = 64  # query rows are computed in multiples of this
LONG_TILE = 128  # rows of the block that ends last in causal attention
SINGLE_REACH = 256.0  # cached tokens after which a kernel that serves one query head per block shares the walk
HEAD_TILE = 16  # query heads of MLA decode are computed in multiples of this
CHOSEN = (1, 2, 4, 8)  # heights of tiles that a kernel of experts chooses from, in that of its lowest
UNBOUNDED = 1e18  # keys that no query is too far from


@dataclass(frozen=True)
class Roof:
    """What a law needs to know of a chip.

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
    price of splitting k over blocks; infinite where the kernel cannot.  step: s per element of k that one block
    needs at least (load latency).  l2: speed of cached traffic, in bandwidths.  height: rows are computed in
    multiples of this (64: Hopper's wgmma; 16: mma).  tile: edge of the only tile; 0: the best of TILES, 1: nothing is
    rounded up (a CPU).  pack: fraction of the bandwidth at which a product of more than one row first copies its
    weights (BLAS on a CPU); infinite where none does.
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
    """GEMM whose activations are quantised just before. quantise_t0: s; quantise_memory: fraction of the bandwidth;
    quantise_row: s per row of x (block scales that are laid out row by row)."""

    quantise_t0: Number = 0.0
    quantise_memory: Number = 0.5
    quantise_row: Number = 0.0

    @property
    def passes(self) -> bool:
        """Whether the products that were measured had the pass; where not, its constants are none."""
        return bool(np.any(self.quantise_t0 > 0) or np.any(self.quantise_memory != 0.5))


@dataclass(frozen=True)
class PrefillLaw:
    """Attention of many new tokens.

    t0: s.  compute: fraction of peak at head size 128.  memory: fraction of bandwidth (the passes of RoPE and cache
    write are in it).  fixed: share of a query-key pair's time, at head size 128, that does not shrink with the head
    (softmax).  pad: keys that each query tile costs beyond those it sees.  tail: weight of the block that ends last.
    other: slowdown at head sizes other than 128, where only that size has a kernel of its own.  l2: speed of cached
    traffic, in bandwidths.  capped: 1 where no query costs more keys than there are (a CPU's large key blocks), else 0.
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

    t0: s.  memory: fraction of bandwidth.  sharp: exponent p.  block: s a unit spends per (sequence, KV head); head:
    the same where each query head is a block of its own.  walk: s per cached token one block walks; reach: tokens
    after which more blocks share the walk (10⁷: they never do).  l2: speed of cached traffic, in bandwidths.
    group: most query heads per KV head that the kernel serves together; beyond it each walks the cache by itself.
    again: speed of those further walks, in bandwidths; 0: that of cached traffic.
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
    """MLA decode, absorbed. As Decode, plus compute: fraction of peak; block: s a unit spends per 64 query heads."""

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
    """MLA over the latents that each query picks, absorbed. t0: s. compute: fraction of peak. heads: a tile of query
    heads. least: keys that a query costs at least, as a share of those it may pick. short: 1 where queries that see no
    more than they may pick run so too, 0 where their latents are expanded."""

    t0: Number = 1.1e-5
    compute: Number = 0.4
    heads: Number = 64.0
    least: Number = 0.0
    short: float = 0.0


@dataclass(frozen=True)
class ExpertsLaw:
    """Fused MoE layer. t0: s; compute, memory, sharp as Matmul; passes: fraction of bandwidth the activation passes
    (permute, activation, combine) reach; expert: s per expert touched; apart: s more where a rank holds only some of
    the experts that its tokens choose; remote: bytes per hidden element of a pair that another rank computes; stage:
    rows whose time it takes to load a tile of weights, 0 where there is one height of tiles; l2: speed of cached
    traffic, in bandwidths; height, tile: as Matmul, the lowest of CHOSEN where kernels choose."""

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
"""The record of constants of each kind of law."""


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
    """Time of `blocks` equal blocks on `units` units, in blocks: √(1 + (blocks/units)²), a ceiling made smooth."""
    return root(1 + (blocks / units) ** 2)


def padded(count: Number, tile: Number) -> Number:
    """`count` rounded up to whole tiles."""
    return ceil(count / tile) * tile


def resident(footprint: Number, chip: Roof, full: float, none: float) -> Number:
    """Share of a working set of `footprint` bytes still in L2 when it is used again: chip.keeps while the footprint is
    under `full` L2s, falling to 0 at `none` L2s.  Cyclic reuse under LRU falls at once (1 to 1.12); a tensor handed
    from kernel to kernel falls slowly (0.5 to 1.5)."""
    if isinstance(chip.keeps, float) and chip.keeps == 0:
        return 0.0
    return chip.keeps * least(most((none - footprint / chip.l2) / (none - full), 0.0), 1.0)


def transfer(size: Number, hit: Number, chip: Roof, memory: Number, l2: Number) -> Number:
    """Seconds for `size` bytes of which the share `hit` comes from L2."""
    return size * ((1 - hit) / memory + hit / l2) / chip.bandwidth


def causal_pairs(new: Number, cached: Number, window: Number) -> Number:
    """Query-key pairs of `new` queries after `cached` tokens, each seeing itself and what precedes within `window`
    (0 = no window): Σ_{i=1..new} min(cached + i, window)."""
    span = where(window > 0, window, UNBOUNDED)
    inside = most(least(span - cached, new), 0.0)
    return inside * cached + inside * (inside + 1) / 2 + (new - inside) * span


def tiled(m: Number, n: Number, k: Number, groups: Number, memory: Number, chip: Roof, c: MatmulLaw) -> Number:
    """Seconds of `groups` products [m,k]·[k,n] in the best of the tilings, given the seconds of their traffic."""
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
    """Seconds in output tiles of edge τ = `tile` whose k loops s = `split` blocks share.

    blocks = groups·⌈m/τ⌉·⌈n/τ⌉·s;  arithmetic = waves(blocks)·2·τ·η·(k/s)·units/(compute·peak),
    η = min(τ, max(height, ⌈m/⌈m/τ⌉⌉_8)): the rows are shared out evenly, and libraries have tiles of many heights, for
    the matrix instructions take a side in multiples of 8 (PTX ISA, wgmma.mma_async, mma and tcgen05.mma);
    latency = waves(blocks)·(k/s)·step;  a split (s > 1) adds its price and the traffic of s partial sums in fp32.
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

    t = t0 + tiled(...), traffic x·mk + w·nk + y·mn.  `cycle` is the bytes of weights used before these come round
    again; infinite (always cold) in a model, min(5, ⌈L2/w⌉) copies in the benchmark that was fitted.
    """
    size = groups * (x * m * k + w * n * k + y * m * n)
    hit = resident(cycle + groups * (x * m * k + y * m * n), chip, 1.0, 1.12)
    packed = where(m > 1, groups * w * n * k / (c.pack * chip.bandwidth), 0.0)
    return c.t0 + packed + tiled(m, n, k, groups, transfer(size, hit, chip, c.memory, c.l2), chip, c)


def quantised_matmul_seconds(
    m: Number, n: Number, k: Number, x: Number, w: Number, y: Number, quantise: Number, chip: Roof, c: Quantised,
    cycle: Number = np.inf,
) -> Number:  # fmt: skip
    """matmul after the pass that quantises x from 16 bits, which moves `quantise` bytes per element of x: 5 where the
    scale is per tensor (read for the maximum, read again, write), 3 per block.  0 = weight-only, no such pass."""
    return quantise_pass(m, k, quantise, chip, c) + matmul_seconds(m, n, k, x, w, y, chip, c, cycle)


def quantise_pass(m: Number, k: Number, each: Number, chip: Roof, c: Quantised) -> Number:
    """Seconds of the pass that quantises x[m,k] from 16 bits and moves `each` bytes per element; 0 where each is 0."""
    fixed = where(each > 0, c.quantise_t0 + c.quantise_row * m, 0.0)
    return fixed + transfer(each * m * k, resident(2 * m * k, chip, 0.5, 1.5), chip, c.quantise_memory, c.l2)


def stream(size: Number, chip: Roof, c: StreamLaw) -> Number:
    """Element-wise op that reads and writes `size` bytes in all: t = t0 + size/(memory·W)."""
    return c.t0 + transfer(size, resident(size, chip, 0.5, 1.5), chip, c.memory, c.l2)


def prefill_seconds(
    batch: Number, new: Number, cached: Number, heads: Number, kv_heads: Number, key: Number, value: Number,
    window: Number, q: Number, kv: Number, chip: Roof, c: PrefillLaw, pairs: Number | None = None,
    reach: Number | None = None,
) -> Number:  # fmt: skip
    """Causal attention of `new` tokens after `cached` ones, in each of `batch` sequences.

    key, value: head sizes; q, kv: bytes per element of queries/outputs and of keys/values; window 0 = full. Masks that
    are no window give their own `pairs` of a sequence and `reach`, the keys its last token sees.
    t = t0 + B/(memory·W) + √(all² + longest²),
    all = 2(key+value)·batch·heads·⌈new⌉₆₄·(pairs/new + pad)·g/(compute·P), g = (1−fixed) + fixed·128/d, d = mean head
    size; longest = the same for one block of 128 queries that sees every key, on one unit.
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
    keys = least(keys, total) if c.capped else keys
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
    """MLA attention of one token per sequence, absorbed: every head reads the one latent cache.

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
    """MLA of queries that pick latents of their own: a gather for each, shared by its heads alone.

    `keys` of a token on average, of `picks` that it may pick; width: multiply-adds of a pair and head, 2·rank + rope.
    t = t0 + tokens·max(keys, least·picks)·⌈heads/tile⌉·tile·2·width / (compute·peak).
    """
    pairs = tokens * most(keys, c.least * picks)
    return c.t0 + 2 * pairs * padded(heads, c.heads) * width / (c.compute * chip.peak)


def experts_seconds(
    tokens: Number, rows: Number, touched: Number, hidden: Number, inner: Number, gated: Number, x: Number, w: Number,
    chip: Roof, c: ExpertsLaw, cycle: Number = np.inf, even: Number = 0.0, remote: Number = 0.0,
) -> Number:  # fmt: skip
    """Fused MoE layer on one rank: permute, grouped up (and gate) product, activation, down product, combine.

    tokens enter; `rows` token-expert pairs are computed here on `touched` distinct experts; gated: 1 for three
    matrices, 0 for two; x, w: bytes per element of activations and weights; even: 1 where every expert has as many
    rows as the next, as in a benchmark with balanced loads; remote: pairs of the tokens that enter whose experts other
    ranks hold: they are routed, and zeros stand in for them where the pairs of a token are added up.
    t = t0 + touched·expert + two grouped GEMMs of the tiles that rows/touched rows an expert fill, which share one
    traffic term (the weights of the experts touched) + activation passes.
    """
    touched = most(touched, 1.0)
    weights = touched * (2 + gated) * hidden * inner * w
    passes = 4 * tokens * hidden + rows * hidden * (2 * x + 4) + 2 * rows * inner * x + c.remote * remote * hidden
    again = resident(cycle + passes, chip, 1.0, 1.12)
    per = rows / touched
    tiles, height = expert_tiles(per, c.tile, even), tile_rows(per, c.height, c.stage, even)
    work: Number = 0.0
    for n, k in (((1 + gated) * inner, hidden), (hidden, inner)):
        blocks = touched * tiles * ceil(n / c.tile)
        full = touched * height * ceil(n / c.tile) * c.tile
        work = work + 2 * full * k / (c.compute * chip.peak) * root(1 + (chip.units / blocks) ** 2)
    gemm = smooth_max(c.sharp, work, transfer(weights, again, chip, c.memory, c.l2))
    handed = transfer(passes, resident(passes, chip, 0.5, 1.5), chip, c.passes, c.l2)
    return c.t0 + where(remote > 0, c.apart, 0.0) + touched * c.expert + gemm + handed


def expert_tiles(per: Number, tile: Number, even: Number) -> Number:
    """Expected tiles of `tile` rows that one of the experts touched fills, `per` rows on average.

    Loads are taken as geometric, P(N > n) = (1 − 1/per)ⁿ for n ≥ 0: wider than chance spreads them, about as wide as a
    power law of exponent 1. Then E⌈N/tile⌉ = Σ_j P(N > j·tile) = 1/(1 − (1 − 1/per)^tile), which grows without steps
    from 1 to per/tile + 1/2. Where loads are even it is ⌈per/tile⌉.
    """
    spread = 1 / (1 - (1 - 1 / most(per, 1.0)) ** tile)
    return where(even > 0, padded(per, tile) / tile, spread)


def tile_rows(per: Number, height: Number, stage: Number, even: Number) -> Number:
    """Rows of one expert, `per` on average, as the tensor cores run them: min over heights h of (h + stage)·tiles.

    Loading a tile of weights to the tensor cores takes as long as `stage` rows; kernels then have tiles of several
    heights and choose by the rows there are. With stage 0 there is one, of `height`.
    """
    rows = [(h * height + stage) * expert_tiles(per, h * height, even) for h in CHOSEN]
    best = rows[0]
    for other in rows[1:]:
        best = where(stage > 0, least(best, other), best)
    return best


def scan(
    batch: Number, tokens: Number, key_heads: Number, value_heads: Number, key: Number, value: Number,
    chip: Roof, c: Scan,
) -> Number:  # fmt: skip
    """Chunked gated delta rule over `tokens` tokens in each of `batch` sequences (chunks of 64).

    Per token and value head: 2·(64·(key + value) + 3·key·value) FLOP; per token: q, k of key_heads, v and o of
    value_heads, each passed twice.  Chunks of one sequence follow each other: ⌈tokens/64⌉·chunk·waves.
    """
    flops = 2 * batch * padded(tokens, 64) * value_heads * (64 * (key + value) + 3 * key * value)
    size = 4 * batch * tokens * (2 * key_heads * key + 2 * value_heads * value)
    serial = ceil(tokens / 64) * c.chunk * waves(batch * value_heads, chip.units)
    return c.t0 + flops / (c.compute * chip.peak) + size / (c.memory * chip.bandwidth) + serial
