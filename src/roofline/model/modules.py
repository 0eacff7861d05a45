"""The parts of a transformer: sizes and weights, nothing else.

Every module is frozen, and says how many parameters it holds (`parameters`). What it does at a step is in
`roofline.work.lower`. Sizes are element counts.

`part` names the role of a module's weights for the precision: attention, ffn, experts, router, embedding,
head, or other (norms and state parameters, which quantised checkpoints leave alone).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from roofline.declared.maths import Count, ceil_div
from roofline.model.formats import Format
from roofline.model.popularity import Popularity, slot_chances
from roofline.model.record import Value, record

Part: TypeAlias = Literal["attention", "ffn", "experts", "router", "embedding", "head", "other"]
PARTS: tuple[Part, ...] = ("attention", "ffn", "experts", "router", "embedding", "head", "other")
Cut: TypeAlias = Literal["columns", "rows", "groups", "none"]
Degree: TypeAlias = Literal["tp", "ep", "cp", "pp", "dp"]


@record(frozen=True, kw_only=True, eq=False)
class Module(Value):
    """One layer's part. `name` is unique in its block.

    On one rank of a layout: it runs for one in `split` of a step's new tokens, and `copies` ranks of a stage hold the
    same weights. `frozen`: it does not learn. `idle`: it has weights, and a step of text alone passes it over.
    `format`: that of its matrices, where it is not that of its part.
    """

    name: str
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
        """Those of them that stand in matrices, which quantisation changes; biases and norms stay as they are."""
        return 0


Modules: TypeAlias = tuple[Module, ...]


@record(frozen=True, kw_only=True, eq=False)
class Embedding(Module):
    """A table [rows, width], one row looked up for each token. `shared`: the head multiplies by the same table."""

    rows: int
    width: int
    shared: bool = False

    @property
    def matrix(self) -> int:
        return self.rows * self.width

    @property
    def parameters(self) -> int:
        return self.matrix


@record(frozen=True, kw_only=True, eq=False)
class Linear(Module):
    """y = x·Wᵀ (+ b), W [outputs, inputs].

    `tied`: W is counted elsewhere, as the embedding table or as the same layer's first run. `groups`: W is
    block-diagonal, that many blocks of [outputs / groups, inputs / groups]. `gated`: gate and up-projection side by
    side, whose halves the activation behind multiplies. `beside`: a product of the layer before it reads the same
    input, and what quantises that serves both.

    `cut`: along which side the architecture is made of independent pieces that ranks can share out: its outputs
    (columns: heads, inner neurons), its inputs (rows), its blocks (groups), or none. `kv`: so many of the outputs are
    keys and values, of `kv_groups` heads. `gathered`: so many ranks bring their tokens together just before.
    `stacked`: outputs of it and of another that reads the same input, which engines make in one product; 0 where none.
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
    """RMSNorm or LayerNorm over `width`, `repeats` times a token (once per head for q/k norms).

    One weight vector serves all repeats unless `per_repeat` (a weight for each). `tied`: the weights are those of the
    same norm's first run, counted there.
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
        """Weights and biases that a run reads."""
        return (self.weight + self.bias) * self.width * (self.repeats if self.per_repeat else 1)

    @property
    def parameters(self) -> int:
        return 0 if self.tied else self.vector


@record(frozen=True, kw_only=True, eq=False)
class Rope(Module):
    """Rotary position embedding on `dims` of each of `heads` heads (queries and keys together)."""

    heads: int
    dims: int


@record(frozen=True, kw_only=True, eq=False)
class Attention(Module):
    """softmax(q·kᵀ)·v over `heads` query and `kv_heads` key/value heads (MHA, GQA, MQA).

    `window`: a query sees that many last tokens, itself included. `chunk`: a query sees its own chunk's
    beginning up to itself. `select`: of blocks of `block` tokens a query sees its own up to itself and the others that
    an indexer picks, so many in all. `sinks`: one learned logit per head. `borrowed`: the keys and values are those
    that an earlier layer holds in its cache. `differential`: a value head, twice as wide, serves two key heads
    (arXiv:2410.05258 §2.1); the published code multiplies queries and keys once for each half of the values, which
    only `torch` counting follows. `keeps_all`: so does it that code keeps all keys in its cache, those behind the
    window too.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None
    chunk: int | None = None
    block: int = 1
    select: int | None = None
    differential: bool = False
    keeps_all: bool = False
    sinks: bool = False
    borrowed: bool = False

    @property
    def parameters(self) -> int:
        return self.heads if self.sinks else 0

    @property
    def kv_width(self) -> int:
        """Elements of the keys and values of one token."""
        values = self.kv_heads // 2 if self.differential else self.kv_heads
        return self.kv_heads * self.head_dim + values * self.v_head_dim

    @property
    def cache_width(self) -> int:
        """Elements per token that this layer adds to the cache."""
        return 0 if self.borrowed else self.kv_width


@record(frozen=True, kw_only=True, eq=False)
class LatentAttention(Module):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434).

    Caches one latent of `rank` and one rotary key of `rope` per token, for all heads. Holds the up-projection
    kv_b [rank → heads·(nope + v)], which is either applied to the context (expanded) or folded into query and
    output (absorbed). `select`: an indexer picks that many tokens for each query (sparse attention), in pools of `pool`
    that are complete; to what follows the last of them it attends besides. `window` and `sinks` as in `Attention`.
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

    Caches one key of `head_dim` per token. `rate`: scores the entries that a `Compressor` makes of that many tokens
    each, and caches nothing itself. `summed`: the heads' scores are weighed and summed; otherwise each head picks.
    `sum_by_product`: the published code sums them by a matrix product, which only `torch` counting follows.
    """

    heads: int
    head_dim: int
    rate: int | None = None
    summed: bool = True
    sum_by_product: bool = True

    @property
    def cache_width(self) -> int:
        """Cached elements per token."""
        return self.head_dim if self.rate is None else 0


@record(frozen=True, kw_only=True, eq=False)
class Compressor(Module):
    """Makes one entry of `width` of every `rate` tokens: their weighted sum, `normed` and rotated (DeepSeek-V4).

    `overlap`: an entry also sums over the `rate` tokens before. The weights have a learned bias for each place.
    """

    width: int
    rate: int
    rope: int
    overlap: bool = False
    normed: bool = True

    @property
    def terms(self) -> int:
        """Tokens that one entry sums over."""
        return self.rate * (2 if self.overlap else 1)

    @property
    def parameters(self) -> int:
        return (self.terms + self.normed) * self.width

    @property
    def cache_width(self) -> int:
        """Cached elements per token, rounded up."""
        return ceil_div(self.width, self.rate)


@record(frozen=True, kw_only=True, eq=False)
class CompressedAttention(Module):
    """Multi-query attention, keys and values one, over the last `window` tokens and over compressed entries.

    DeepSeek-V4: an entry stands for `rate` tokens (None: no entries), and a query sees all that are complete, or the
    `select` best of them. `sinks` as in `Attention`. Caches the window; the entries are the `Compressor`'s.
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
    """f(x) on `width` values, or f(gate)·up from 2·`width` where `gated`. `learned`: its own scalars."""

    width: int
    function: str
    gated: bool = True
    learned: int = 0

    @property
    def parameters(self) -> int:
        return self.learned


@record(frozen=True, kw_only=True, eq=False)
class Add(Module):
    """The sum of two streams of `width` (residual, shared and routed experts).

    `scaled`: a learned vector is added to each of the two, and the sum multiplied by another, before they meet.
    `weighed`: each of the two is multiplied by a function of one learned vector.
    """

    width: int
    scaled: bool = False
    weighed: bool = False

    @property
    def parameters(self) -> int:
        return 4 * self.width if self.scaled else self.width if self.weighed else 0


@record(frozen=True, kw_only=True, eq=False)
class Gate(Module):
    """A stream of `width` times σ of another of `gates` values (`gates` < width: one for each head).

    `sigmoid` False: times the values themselves.
    """

    width: int
    gates: int
    sigmoid: bool = True


@record(frozen=True, kw_only=True, eq=False)
class Mix(Module):
    """Each of `streams` residual streams of `width` becomes a sum of all, weighted by the token itself.

    Alternating updates (arXiv:2301.13310) and hyper-connections (arXiv:2409.19606).
    """

    streams: int
    width: int


@record(frozen=True, kw_only=True, eq=False)
class Router(Module):
    """Scores `experts` for a token of width `inputs` and keeps the best.

    `correction`: a learned value for each expert besides, a score bias or a scale.
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


@record(frozen=True, kw_only=True, eq=False)
class Experts(Module):
    """`experts` feed-forward networks hidden → inner → hidden, `top_k` of them for each token.

    `top_k` None: the config does not say; parameters are known, the work is not. `reference`: how the published code
    multiplies, which only `torch` counting follows: all routed rows in one grouped product, each expert's rows by
    themselves (DBRX), or every expert on all tokens (Llama-4).

    `groups`: a token's experts stand in `top_groups` of so many groups (node-limited routing, arXiv:2412.19437 §2.1.2).
    `identities`: experts besides that hand a token on as it is (zero experts, arXiv:2509.01322 §2.1). They have no
    weights, and what falls on them does no work and goes nowhere; the router takes all for equals.
    On one rank of a layout: it holds one in `ranks` of the experts, and their tokens come from `gathered` ranks;
    `load`: rows of the busiest rank over the mean. `redundant`: copies of experts besides, among which and the
    originals an expert's tokens are shared out (redundant experts, arXiv:2412.19437 §3.4.1). `popularity`: how tokens
    spread over experts (roofline.model.popularity); 0: evenly.
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

    @property
    def slots(self) -> int:
        """Experts and their copies."""
        return self.experts + self.redundant

    @property
    def chances(self) -> tuple[float, ...]:
        """The share of tokens that choose each expert or copy; of identities they choose as many as of others."""
        share = (self.top_k or 1) * self.experts / (self.experts + self.identities)
        return slot_chances(self.experts, self.redundant, share, self.popularity)

    @property
    def each(self) -> int:
        """Parameters of one expert."""
        wide = self.inner * (2 if self.gated else 1)
        return self.hidden * (wide + self.inner) + ((wide + self.hidden) if self.bias else 0)

    def routed(self, choices: Count) -> Count:
        """Of so many choices of an expert those that fall on one with weights, as expected, rounded up."""
        return ceil_div(choices * self.experts, self.experts + self.identities) if self.identities else choices

    @property
    def held(self) -> int:
        """Experts, copies among them, whose weights a rank holds."""
        ranks: Any = self.ranks  # an array on ranks of many layouts, and so is what they hold
        share: int = self.slots // ranks
        return share

    @property
    def matrix(self) -> int:
        return self.held * self.hidden * self.inner * (3 if self.gated else 2)

    @property
    def parameters(self) -> int:
        return self.held * self.each


@record(frozen=True, kw_only=True, eq=False)
class ExpertLinear(Module):
    """`experts` matrices [outputs, inputs], `top_k` of them for each token: heads as experts (arXiv:2210.05144 §3).

    What they make stands side by side; where `summed`, each reads an input of its own, and a token's outputs add up,
    weighted by the router.
    """

    inputs: int
    outputs: int
    experts: int
    top_k: int
    summed: bool = False

    @property
    def each(self) -> int:
        """Parameters of one expert."""
        return self.inputs * self.outputs

    @property
    def matrix(self) -> int:
        return self.experts * self.each

    @property
    def parameters(self) -> int:
        return self.matrix


@record(frozen=True, kw_only=True, eq=False)
class Conv(Module):
    """Causal convolution over time: `kernel` taps on `channels`, kernel − 1 inputs kept as state.

    Depthwise, or in groups of `width` channels that all read one another. `kv`: so many of the channels belong to
    `kv_groups` groups that heads share. `padding`: outputs of a sequence that the published code makes besides those of
    its tokens, kernel − 1 where None; only `torch` counting follows it. `dynamic`: to the taps are added those that a
    projection makes of each token for so many heads; the published code multiplies them element by element.
    """

    channels: int
    kernel: int
    width: int = 1
    padding: int | None = None
    dynamic: int = 0
    bias: bool = False
    kv: int = 0
    kv_groups: int = 1

    @property
    def parameters(self) -> int:
        return self.channels * (self.kernel * self.width + (1 if self.bias else 0))

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.channels * (self.kernel - 1)


@record(frozen=True, kw_only=True, eq=False)
class SelectiveScan(Module):
    """Mamba-1 (arXiv:2312.00752): `channels` independent states of `state_size`, A [channels, state_size] and D.

    `groups`: the channels fall into so many heads, with B and C for each (Zamba, arXiv:2405.16712).
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
    """Mamba-2 (arXiv:2405.21060): a state [head_dim, state_size] a head, B and C shared in `groups`; A, D, dt bias."""

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

    `channelwise`: a decay of its own for each key channel (Kimi Delta Attention, arXiv:2510.26692), not for each head.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    chunk: int = 64
    channelwise: bool = False

    @property
    def decays(self) -> int:
        """Decays of one token."""
        return self.value_heads * (self.key_dim if self.channelwise else 1)

    @property
    def parameters(self) -> int:
        return self.value_heads + self.decays

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.value_heads * self.key_dim * self.value_dim


@record(frozen=True, kw_only=True, eq=False)
class LinearAttention(Module):
    """Lightning attention (arXiv:2401.04658): a state [head_dim, head_dim] a head, which decays at a fixed rate."""

    heads: int
    head_dim: int
    chunk: int

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.heads * self.head_dim * self.head_dim


@record(frozen=True, kw_only=True, eq=False)
class GatedRecurrence(Module):
    """Real-gated linear recurrent unit (Griffin, arXiv:2402.19427 §2.4): `channels` states of one value, Λ for each."""

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
    """Each token's stream of `width` mixed with that of the token before, in `streams` learned ways (RWKV).

    x'ₜ = μ·xₜ + (1 − μ)·xₜ₋₁, a μ of `width` for each of the ways (arXiv:2305.13048, eq. 11–13).
    """

    width: int
    streams: int

    @property
    def parameters(self) -> int:
        return self.streams * self.width

    @property
    def state(self) -> int:
        """State elements per sequence: its last token."""
        return self.width


@record(frozen=True, kw_only=True, eq=False)
class Delay(Module):
    """Each token gets the `width` values of the token before (ZAYA's values, arXiv:2510.04476).

    A projection from `inputs` made them. The published code projects a zero for the first token, which only `torch`
    counting follows. `kv_groups`: heads that other heads share.
    """

    width: int
    inputs: int
    kv_groups: int = 1

    @property
    def state(self) -> int:
        """State elements per sequence: its last token's."""
        return self.width


@record(frozen=True, kw_only=True, eq=False)
class RelativeBias(Module):
    """A bias of attention for each distance up to `extent`: a token's `dim` values of each head, times a table.

    The table [dim, extent] is one for all `heads`. Its formula is that of the published code of Inkling (transformers).
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
    """Learned queries attend, at each token alone, to `states` streams of `width`: those of blocks of layers before.

    Its formula is that of the published code of Inkling 2 (transformers). Each query's answer is a stream of its own.
    """

    width: int
    states: int
    queries: int = 1

    @property
    def parameters(self) -> int:
        return self.queries * self.width


@record(frozen=True, kw_only=True, eq=False)
class Wkv(Module):
    """RWKV's mean of all values before, weighted by their keys and a decay (arXiv:2305.13048, eq. 16).

    Each of `channels` has a decay w and a bonus u of its own. Its state is a numerator, a denominator, and the largest
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
    """mLSTM (xLSTM, arXiv:2405.04517 §2.3): a matrix [key_dim, value_dim] a head, with a normaliser of key_dim.

    Exponential input gates and forget gates, one of each a head, are scaled by their largest exponent so far.
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
"""Kinds whose state the published code keeps in fp32, whatever format the weights have.

It is the sum of all tokens before, and its kernels read and write it so (flash-linear-attention, SGLang). Of state
spaces most engines keep it in the weights' format, unless `mamba_ssm_dtype` or the like says otherwise; vLLM does so
with gated delta nets, too, but not with Kimi Delta Attention (vllm/model_executor/layers/mamba/mamba_utils.py).
"""


@record(frozen=True, kw_only=True, eq=False)
class Collective(Module):
    """What `ranks` ranks of a layout, every `stride`-th, exchange: `width` elements of each token.

    `op` is one of `roofline.machine.collectives`, and so is what its size means. A token of a `dispatch` or `combine`
    goes to `top_k` of `experts` experts and `identities`, in at most `top_groups` of `groups` groups. `axis`: the
    degree of the layout that it belongs to. `again`: what it gathers is not kept for the backward pass.
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
