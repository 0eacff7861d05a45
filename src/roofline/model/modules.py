"""Modules of a transformer: their sizes and weights only.

Every module is frozen and gives its number of parameters (`parameters`). Its work in a step is in
`roofline.work.lower`. Sizes are element counts.

`part` is the role of a module's weights for the precision: attention, ffn, experts, router, embedding, head, or other
(norms and state parameters, which quantised checkpoints leave unquantised).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from roofline.declared.numbers.maths import Count, ceil_div
from roofline.model.formats import Format
from roofline.model.popularity import Popularity, slot_chances
from roofline.model.record import Value, record

Part: TypeAlias = Literal["attention", "ffn", "experts", "router", "embedding", "head", "other"]
PARTS: tuple[Part, ...] = ("attention", "ffn", "experts", "router", "embedding", "head", "other")
Cut: TypeAlias = Literal["columns", "rows", "groups", "none"]
Degree: TypeAlias = Literal["tp", "ep", "cp", "pp", "dp"]


DISTANCES = "distances"
"""The stream of the distances between the tokens of a pass, 2·T for sequences of T, which all its sequences share."""


@record(frozen=True, kw_only=True, eq=False)
class Pace(Value):
    """Positions that a module has of an input of any length: one of `every` tokens, rounded up unless `down`; then to
    whole multiples of `multiple`, to which the published code pads; each `times`; and `extra` more; `most`
    at most. `last`: they are the last ones, behind the others; where all tokens have logits, all of them.
    """

    every: int = 1
    multiple: int = 1
    times: int = 1
    extra: int = 0
    down: bool = False
    most: int | None = None
    last: bool = False


@record(frozen=True, kw_only=True, eq=False)
class Module(Value):
    """A module of a layer. `name` is unique in its block.

    On a rank of a layout, the module processes one `split`-th of a step's new tokens, and `copies` ranks of a stage
    hold the same weights. `frozen`: its weights are not trained. `idle`: it has weights, but a step of text alone skips
    it. `format`: format of its matrices, where it differs from that of its part.

    `stream`: the inputs that it runs over: "" for the tokens of a step, else those of a tower, such as `images`; a step
    without any skips it. `positions`: number of positions of each input, where it is not that of the input itself: a
    stage of a vision model at a lower resolution, a pooled output (1). `runs`: number of independent pieces of that
    many positions in each input, such as the windows of an image.
    `pace`: positions that depend on the length of the input, where they are not as many.
    """

    name: str
    stream: str = ""
    positions: int | None = None
    runs: int = 1
    pace: Pace | None = None
    split: Count = 1
    copies: Count = 1
    frozen: bool = False
    idle: bool = False
    format: Format | None = None

    @property
    def parameters(self) -> int:
        """Number of trainable values, exact."""
        return 0

    @property
    def matrix(self) -> int:
        """Number of parameters in matrices, which quantisation changes; biases and norms stay unquantised."""
        return 0


Modules: TypeAlias = tuple[Module, ...]


@record(frozen=True, kw_only=True, eq=False)
class Embedding(Module):
    """A table [rows, width]; each token looks up one row. `shared`: the head multiplies by the same table.

    `lookups`: rows that each token looks up, side by side, where they are several (hashes of its last tokens).
    """

    rows: int
    width: int
    shared: bool = False
    lookups: int = 1

    @property
    def hashed(self) -> bool:
        """Whether it is a table of n-grams."""
        return self.lookups > 1

    @property
    def matrix(self) -> int:
        return self.rows * self.width

    @property
    def parameters(self) -> int:
        return self.matrix


@record(frozen=True, kw_only=True, eq=False)
class Linear(Module):
    """y = x·Wᵀ (+ b), W [outputs, inputs].

    `tied`: W is counted elsewhere, as the embedding table or in the same layer's first run. `groups`: W is
    block-diagonal with this many blocks of [outputs / groups, inputs / groups]. `gated`: gate and up projection side by
    side, whose halves the following activation multiplies. `beside`: an earlier product of the layer reads the same
    input, and quantising it serves both.

    `cut`: the side along which tensor parallelism can split the layer into independent pieces: its outputs (columns:
    heads, inner neurons), its inputs (rows), its blocks (groups), or none. `kv`: number of outputs that are keys and
    values, of `kv_groups` heads. `gathered`: number of ranks whose tokens are gathered just before. `stacked`: total
    outputs of this and other products of the same input that engines compute as one product; 0 if there are none.
    """

    inputs: int
    outputs: int
    bias: bool = False
    part: Part = "ffn"
    tied: bool = False
    groups: int = 1
    cut: Cut = "none"
    kv: int = 0
    kv_groups: int = 1
    gathered: Count = 1
    gated: bool = False
    beside: bool = False
    stacked: int = 0

    @property
    def matrix(self) -> int:
        return 0 if self.tied else self.inputs * self.outputs // self.groups

    @property
    def parameters(self) -> int:
        return self.matrix + (self.outputs if self.bias else 0)


@record(frozen=True, kw_only=True, eq=False)
class Norm(Module):
    """RMSNorm or LayerNorm over `width`, `repeats` times per token (once per head for q/k norms).

    One weight vector serves all repeats unless `per_repeat`. `tied`: the weights are counted in the same norm's first
    run.
    """

    width: int
    repeats: int = 1
    center: bool = False
    weight: bool = True
    bias: bool = False
    per_repeat: bool = False
    tied: bool = False

    @property
    def vector(self) -> int:
        """Number of weights and biases that a run reads."""
        return (self.weight + self.bias) * self.width * (self.repeats if self.per_repeat else 1)

    @property
    def parameters(self) -> int:
        return 0 if self.tied else self.vector


@record(frozen=True, kw_only=True, eq=False)
class Rope(Module):
    """Rotary position embedding of `dims` dimensions of each of `heads` heads (query and key heads together)."""

    heads: int
    dims: int


@record(frozen=True, kw_only=True, eq=False)
class Attention(Module):
    """softmax(q·kᵀ)·v over `heads` query and `kv_heads` key/value heads (MHA, GQA, MQA).

    `window`: a query sees this many last tokens, including its own. `chunk`: a query sees its own chunk from the start
    up to itself. `select`: number of blocks of `block` tokens that a query sees: its own up to itself, and others that
    an indexer selects. Or tokens that it selects, in complete pools of `pool`, beside the incomplete one. `sinks`: one
    learned logit per head. `borrowed`: keys and values are those that an earlier layer holds in its cache.
    `differential`: a value head, twice as wide, serves two key heads (arXiv:2410.05258 §2.1); the published code
    multiplies queries and keys once for each half of the values, which only `torch` counting follows. `keeps_all`: the
    published code caches all keys, including those outside the window, which likewise only `torch` counting follows.

    `causal`: a token sees earlier ones only; otherwise all of its sequence, its window (half of it on either side) or
    its chunk, and nothing is cached. `keys`: number of keys that each input has of its own, where they are not those of
    the queries: latents of a resampler, text of an image generator. `reads`: the stream whose positions the keys are,
    as `source`, the encoder's output that a decoder attends to; they are cached.
    `spaced`: the keys are positions of the input at this pace.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None
    chunk: int | None = None
    block: int = 1
    pool: int = 1
    select: int | None = None
    differential: bool = False
    keeps_all: bool = False
    sinks: bool = False
    borrowed: bool = False
    causal: bool = True
    keys: int | None = None
    reads: str = ""
    spaced: Pace | None = None

    @property
    def parameters(self) -> int:
        return self.heads if self.sinks else 0

    @property
    def kv_width(self) -> int:
        """Elements of one token's keys and values."""
        values = self.kv_heads // 2 if self.differential else self.kv_heads
        return self.kv_heads * self.head_dim + values * self.v_head_dim

    @property
    def cache_width(self) -> int:
        """Elements per token that this layer adds to the cache; none for keys of fixed number, which are a state."""
        cached = (self.causal or self.reads) and self.keys is None
        return self.kv_width if cached and not self.borrowed else 0

    @property
    def state(self) -> int:
        """Elements per sequence of the keys and values of an encoder's output, where its length is fixed."""
        return self.kv_width * self.keys if self.reads and self.keys is not None else 0


@record(frozen=True, kw_only=True, eq=False)
class LatentAttention(Module):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434).

    Caches one latent of `rank` and one rotary key of `rope` elements per token, for all heads. Holds the up-projection
    kv_b [rank → heads·(nope + v)], which is either applied to the context (expanded) or folded into query and output
    (absorbed). `select`: an indexer selects this many tokens for each query (sparse attention), in complete pools of
    `pool` tokens; tokens after the last complete pool are attended to as well. `window` and `sinks` as in `Attention`.
    """

    heads: int
    rank: int
    nope: int
    rope: int
    v: int
    select: int | None = None
    pool: int = 1
    window: int | None = None
    sinks: bool = False

    @property
    def matrix(self) -> int:
        return self.rank * self.heads * (self.nope + self.v)

    @property
    def parameters(self) -> int:
        return self.matrix + (self.heads if self.sinks else 0)

    @property
    def cache_width(self) -> int:
        """Cached elements per token."""
        return self.rank + self.rope


@record(frozen=True, kw_only=True, eq=False)
class Indexer(Module):
    """Scores every cached token for sparse attention with `heads` small heads (DeepSeek-V3.2's lightning indexer).

    Caches one key of `head_dim` per token. `rate`: instead scores entries that a `Compressor` makes of this many tokens
    each, and caches nothing itself. `summed`: the heads' scores are combined in a weighted sum; otherwise each head
    selects separately. `sum_by_product`: the published code sums them with a matrix product, which only `torch`
    counting follows. `most`: it scores at most this many entries, which an earlier indexer chose.
    """

    heads: int
    head_dim: int
    rate: int | None = None
    summed: bool = True
    sum_by_product: bool = True
    most: int | None = None

    @property
    def cache_width(self) -> int:
        """Cached elements per token."""
        return self.head_dim if self.rate is None else 0


@record(frozen=True, kw_only=True, eq=False)
class Compressor(Module):
    """Makes one entry of `width` from every `rate` tokens: their weighted sum, `normed` and rotated (DeepSeek-V4).

    `overlap`: an entry also sums over the preceding `rate` tokens. The weights have a learned bias for each position
    if `biased`; if not `weighted`, an entry is the mean.
    """

    width: int
    rate: int
    rope: int
    overlap: bool = False
    normed: bool = True
    weighted: bool = True
    biased: bool = True

    @property
    def terms(self) -> int:
        """Number of tokens that one entry sums over."""
        return self.rate * (2 if self.overlap else 1)

    @property
    def parameters(self) -> int:
        return self.bias + self.normed * self.width

    @property
    def bias(self) -> int:
        """Number of learned biases of its weights."""
        return self.terms * self.width * (self.weighted and self.biased)

    @property
    def cache_width(self) -> int:
        """Cached elements per token, rounded up."""
        return ceil_div(self.width, self.rate)


@record(frozen=True, kw_only=True, eq=False)
class CompressedAttention(Module):
    """Multi-query attention whose keys are also its values, over the last `window` tokens and compressed entries.

    In DeepSeek-V4 an entry stands for `rate` tokens (None: no entries), and a query sees all complete entries, or the
    `select` best of them. It has sinks as in `Attention`. It caches the window; the `Compressor` caches the entries.
    """

    heads: int
    head_dim: int
    window: int
    rate: int | None = None
    select: int | None = None

    @property
    def parameters(self) -> int:
        return self.heads

    @property
    def cache_width(self) -> int:
        """Cached elements per token of the window."""
        return self.head_dim


@record(frozen=True, kw_only=True, eq=False)
class Activation(Module):
    """f(x) on `width` values, or f(gate)·up from 2·`width` values if `gated`. `learned`: number of learned scalars."""

    width: int
    function: str
    gated: bool = True
    learned: int = 0

    @property
    def parameters(self) -> int:
        return self.learned


@record(frozen=True, kw_only=True, eq=False)
class Add(Module):
    """Sum of two inputs of `width` values (residual; shared and routed experts).

    `scaled`: before the sum, a learned vector is added to each input, and the result multiplied by another. `weighed`:
    each input is multiplied by a function of one learned vector.
    """

    width: int
    scaled: bool = False
    weighed: bool = False

    @property
    def parameters(self) -> int:
        return 4 * self.width if self.scaled else self.width if self.weighed else 0


@record(frozen=True, kw_only=True, eq=False)
class Gate(Module):
    """Product of `width` values and σ of `gates` values (`gates` < `width`: one gate per head).

    If not `sigmoid`, the gates are used directly.
    """

    width: int
    gates: int
    sigmoid: bool = True


@record(frozen=True, kw_only=True, eq=False)
class Mix(Module):
    """Each of `streams` residual streams of `width` becomes a weighted sum of all; the weights come from the token.

    Used by alternating updates (arXiv:2301.13310) and hyper-connections (arXiv:2409.19606).
    """

    streams: int
    width: int


@record(frozen=True, kw_only=True, eq=False)
class Router(Module):
    """Scores `experts` experts for a token of width `inputs` and keeps the best.

    `correction`: there is one more learned value per expert, a score bias or a scale.
    """

    inputs: int
    experts: int
    bias: bool = False
    correction: bool = False

    @property
    def matrix(self) -> int:
        return self.inputs * self.experts

    @property
    def parameters(self) -> int:
        return self.matrix + self.experts * (self.bias + self.correction)


def _held(experts: int, ranks: Count) -> int:
    """Number of experts of a rank; an array on ranks of many layouts."""
    several: Any = ranks
    each: int = experts // several
    return each


@record(frozen=True, kw_only=True, eq=False)
class Experts(Module):
    """`experts` feed-forward networks hidden → inner → hidden, of which each token uses `top_k`.

    `top_k` None: the config does not say; parameters are known, the work is not. `reference`: how the published code
    multiplies, which only `torch` counting follows: all routed rows in one grouped product, each expert's rows
    separately (DBRX), or every expert on all tokens (Llama-4).

    `groups`: a token's experts are in `top_groups` of this many groups (node-limited routing, arXiv:2412.19437 §2.1.2).
    `identities`: additional experts that return a token unchanged (zero experts, arXiv:2509.01322 §2.1). They have no
    weights, and tokens routed to them cause no work and no traffic; the router treats all experts equally.

    On a rank of a layout, the module holds one `ranks`-th of the experts, and their tokens come from `gathered` ranks.
    `load`: rows of the busiest rank over the mean. `redundant`: additional copies of experts, which share their tokens
    with the originals (redundant experts, arXiv:2412.19437 §3.4.1). `popularity`: distribution of tokens over experts
    (roofline.model.popularity); 0: uniform. `assumed`: exponent by which experts are visited where none is told; rows
    stay spread evenly over ranks.
    """

    hidden: int
    inner: int
    experts: int
    top_k: int | None
    function: str
    gated: bool = True
    bias: bool = False
    reference: Literal["grouped", "each", "all"] = "grouped"
    groups: int = 1
    top_groups: int = 1
    identities: int = 0
    ranks: Count = 1
    gathered: Count = 1
    load: Count = 1.0
    redundant: int = 0
    popularity: Popularity = 0.0
    assumed: float = 0.0

    @property
    def slots(self) -> int:
        """Number of experts and their copies."""
        return self.experts + self.redundant

    @property
    def chances(self) -> tuple[float, ...]:
        """Share of tokens that choose each expert or copy; an identity is chosen as often as an average expert."""
        share = (self.top_k or 1) * self.experts / (self.experts + self.identities)
        return slot_chances(self.experts, self.redundant, share, self.popularity)

    @property
    def each(self) -> int:
        """Parameters of one expert."""
        wide = self.inner * (2 if self.gated else 1)
        return self.hidden * (wide + self.inner) + ((wide + self.hidden) if self.bias else 0)

    def routed(self, choices: Count) -> Count:
        """Expected number of `choices` that fall on experts with weights, rounded up."""
        return ceil_div(choices * self.experts, self.experts + self.identities) if self.identities else choices

    @property
    def held(self) -> int:
        """Number of experts, copies included, whose weights a rank holds."""
        return _held(self.slots, self.ranks)

    @property
    def matrix(self) -> int:
        return self.held * self.hidden * self.inner * (3 if self.gated else 2)

    @property
    def parameters(self) -> int:
        return self.held * self.each


@record(frozen=True, kw_only=True, eq=False)
class ExpertLinear(Module):
    """`experts` matrices [outputs, inputs], of which each token uses `top_k`: heads as experts (arXiv:2210.05144 §3).

    Their outputs are concatenated. If `summed`, each reads a separate input, and a token's outputs are summed with the
    router's weights. `adapts`: they are one product of the adapters of `Experts`, beside which they run; `cut`: its
    columns or rows that ranks share out, with theirs. `ranks`, `gathered`, `load`: as of `Experts`.
    """

    inputs: int
    outputs: int
    experts: int
    top_k: int | None
    summed: bool = False
    adapts: bool = False
    cut: Cut = "none"
    ranks: Count = 1
    gathered: Count = 1
    load: Count = 1.0

    @property
    def each(self) -> int:
        """Parameters of one expert."""
        return self.inputs * self.outputs

    @property
    def held(self) -> int:
        """Number of experts whose matrices a rank holds."""
        return _held(self.experts, self.ranks)

    @property
    def matrix(self) -> int:
        return self.held * self.each

    @property
    def parameters(self) -> int:
        return self.matrix


@record(frozen=True, kw_only=True, eq=False)
class Conv(Module):
    """Causal convolution over time: `kernel` taps on `channels`, with the inputs between its taps kept as state.

    It is depthwise, or in groups of `width` channels that all read one another. `kv`: number of channels that belong to
    `kv_groups` groups shared by heads. `padding`: outputs of a sequence that the published code computes in addition to
    those of its tokens, kernel − 1 if None; only `torch` counting follows it. `dynamic`: number of heads for which taps
    that a projection computes from each token are added to the learned ones; the published code multiplies them
    elementwise. `dilation`: inputs from one tap to the next.
    """

    channels: int
    kernel: int
    width: int = 1
    padding: int | None = None
    dynamic: int = 0
    bias: bool = False
    kv: int = 0
    kv_groups: int = 1
    dilation: int = 1

    @property
    def parameters(self) -> int:
        return self.channels * (self.kernel * self.width + (1 if self.bias else 0))

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.channels * (self.kernel - 1) * self.dilation


@record(frozen=True, kw_only=True, eq=False)
class Convolution(Module):
    """A convolution over time, an image or a video: `outputs` channels at every position from `kernel` taps.

    W [outputs, inputs / groups, taps]; `kernel` is the product of its sides. `positions` of the module are those of
    its output. `stride`: positions of the input for each of the output. `transposed`: every position of the input,
    which `positions` then counts, adds to `stride` of the output. `fixed`: the taps are no parameters. Nothing is kept
    between steps (`Conv` is the causal kind, with a state).
    """

    inputs: int
    outputs: int
    kernel: int
    groups: int = 1
    stride: int = 1
    bias: bool = False
    transposed: bool = False
    fixed: bool = False
    part: Part = "ffn"

    @property
    def matrix(self) -> int:
        return 0 if self.fixed else self.inputs * self.outputs // self.groups * self.kernel

    @property
    def parameters(self) -> int:
        return self.matrix + (self.outputs if self.bias else 0)


@record(frozen=True, kw_only=True, eq=False)
class Learned(Module):
    """`rows` learned vectors of `width`: a class token, a table of positions, a scale of each channel.

    They are added to the stream of `width` or multiplied with it (`applied`); otherwise they have no work of their own.
    """

    width: int
    rows: int = 1
    applied: bool = True

    @property
    def parameters(self) -> int:
        return self.rows * self.width


@record(frozen=True, kw_only=True, eq=False)
class Magnitude(Module):
    """A learned scale of each output of an adapted linear layer, over the norm of its row (DoRA, arXiv:2402.09353).

    y = m ⊙ (W·x + B·A·x) / ‖W + B·A‖, a norm over the inputs. W [outputs, inputs] is frozen, B [outputs, rank], A
    [rank, inputs]; `part` and `cut` are those of the layer. `sharers`: tensor-parallel ranks, each with a part of every
    row.
    """

    inputs: int
    outputs: int
    rank: int
    part: Part = "ffn"
    cut: Cut = "none"
    sharers: Count = 1

    @property
    def parameters(self) -> int:
        return self.outputs


@record(frozen=True, kw_only=True, eq=False)
class SelectiveScan(Module):
    """Mamba-1 (arXiv:2312.00752): `channels` independent states of `state_size`; A [channels, state_size] and D.

    `groups`: the channels are split into this many heads, each with its B and C (Zamba, arXiv:2405.16712).
    """

    channels: int
    state_size: int
    groups: int = 1

    @property
    def parameters(self) -> int:
        return self.channels * (self.state_size + 1)

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.channels * self.state_size


@record(frozen=True, kw_only=True, eq=False)
class StateSpace(Module):
    """Mamba-2 (arXiv:2405.21060): state [head_dim, state_size] per head, B and C shared in `groups`; A, D, dt bias."""

    heads: int
    head_dim: int
    state_size: int
    groups: int
    chunk: int

    @property
    def parameters(self) -> int:
        return 3 * self.heads

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.heads * self.head_dim * self.state_size


@record(frozen=True, kw_only=True, eq=False)
class DeltaRule(Module):
    """Gated delta rule (arXiv:2412.06464): a state [key_dim, value_dim] per value head; A and dt bias.

    `channelwise`: a decay for each key channel (Kimi Delta Attention, arXiv:2510.26692) instead of one for each head.
    If not `learned`, decays and rates come whole from products, without A and dt bias (RWKV-7, arXiv:2503.14456).
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    chunk: int = 64
    channelwise: bool = False
    learned: bool = True

    @property
    def decays(self) -> int:
        """Number of decays per token."""
        return self.value_heads * (self.key_dim if self.channelwise else 1)

    @property
    def parameters(self) -> int:
        return self.value_heads + self.decays if self.learned else 0

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.value_heads * self.key_dim * self.value_dim


@record(frozen=True, kw_only=True, eq=False)
class LinearAttention(Module):
    """Lightning attention (arXiv:2401.04658): a state [head_dim, head_dim] per head, which decays at a fixed rate."""

    heads: int
    head_dim: int
    chunk: int

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.heads * self.head_dim * self.head_dim


@record(frozen=True, kw_only=True, eq=False)
class GatedRecurrence(Module):
    """Real-gated linear recurrent unit (Griffin, arXiv:2402.19427 §2.4): one state and one Λ for each of `channels`."""

    channels: int

    @property
    def parameters(self) -> int:
        return self.channels

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.channels


@record(frozen=True, kw_only=True, eq=False)
class TokenShift(Module):
    """Each token's `width` values are mixed with those of the previous token, in `streams` learned ways (RWKV).

    x'ₜ = μ·xₜ + (1 − μ)·xₜ₋₁ with a separate μ of `width` for each way (arXiv:2305.13048, eq. 11–13).
    """

    width: int
    streams: int

    @property
    def parameters(self) -> int:
        return self.streams * self.width

    @property
    def state(self) -> int:
        """State elements per sequence: the input of its last token."""
        return self.width


@record(frozen=True, kw_only=True, eq=False)
class Delay(Module):
    """Each token gets `width` values of the previous token (ZAYA's values, arXiv:2510.04476).

    A projection from `inputs` computed them. The published code also projects a zero for the first token, which only
    `torch` counting follows. `kv_groups`: KV heads that query heads share.
    """

    width: int
    inputs: int
    kv_groups: int = 1

    @property
    def state(self) -> int:
        """State elements per sequence: the values of its last token."""
        return self.width


@record(frozen=True, kw_only=True, eq=False)
class RelativeBias(Module):
    """Attention bias for each distance up to `extent`: `dim` values of a token per head, times a learned table.

    All `heads` share the table [dim, extent]. The formula is that of the published code of Inkling (transformers).
    """

    heads: int
    dim: int
    extent: int

    @property
    def matrix(self) -> int:
        return self.dim * self.extent

    @property
    def parameters(self) -> int:
        return self.matrix


@record(frozen=True, kw_only=True, eq=False)
class DepthAttention(Module):
    """Learned queries attend, separately at each token, to `states` vectors of `width` from earlier blocks of layers.

    The formula is that of the published code of Inkling 2 (transformers). Each query has a separate output.
    """

    width: int
    states: int
    queries: int = 1

    @property
    def parameters(self) -> int:
        return self.queries * self.width


@record(frozen=True, kw_only=True, eq=False)
class Wkv(Module):
    """RWKV's mean of all earlier values, weighted by their keys and a decay (arXiv:2305.13048, eq. 16).

    Each of `channels` has a separate decay w and bonus u. The state is a numerator, a denominator, and the largest
    exponent, which keeps both in range (appendix D there).
    """

    channels: int

    @property
    def parameters(self) -> int:
        return 2 * self.channels

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return 3 * self.channels


@record(frozen=True, kw_only=True, eq=False)
class MatrixMemory(Module):
    """mLSTM (xLSTM, arXiv:2405.04517 §2.3): a matrix [key_dim, value_dim] per head, with a normaliser of key_dim.

    Each head has an exponential input gate and a forget gate, which are scaled by their largest exponent so far.
    """

    heads: int
    key_dim: int
    value_dim: int
    chunk: int = 64

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.heads * (self.key_dim * self.value_dim + self.key_dim + 1)


SINGLE_STATES = (DeltaRule, Wkv, MatrixMemory)
"""Module kinds whose state the published code keeps in fp32, whatever the format of the weights.

The state is the sum over all earlier tokens, and kernels read and write it in fp32 (flash-linear-attention, SGLang).
Most engines keep the state of state spaces in the weights' format, unless `mamba_ssm_dtype` or the like says otherwise;
vLLM does so with gated delta nets too, but not with Kimi Delta Attention
(vllm/model_executor/layers/mamba/mamba_utils.py).
"""


@record(frozen=True, kw_only=True, eq=False)
class Collective(Module):
    """A collective among `ranks` ranks of a layout, `stride` apart, of `width` elements per token.

    `op` is one of `roofline.kernels.collectives`, which defines what the size means. A token of a `dispatch` or
    `combine` goes to `top_k` of `experts` experts and `identities`, in at most `top_groups` of `groups` groups. `axis`:
    the parallelism degree that it belongs to. `again`: the gathered values are not kept for the backward pass, which
    gathers again.
    """

    op: str
    width: Count
    ranks: Count
    stride: Count = 1
    axis: Degree = "tp"
    again: bool = False
    top_k: int = 1
    experts: int = 1
    groups: int = 1
    top_groups: int = 1
    identities: int = 0
