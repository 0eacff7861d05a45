"""The parts of a transformer: sizes and weights, nothing else.

Every module is frozen, and says how many parameters it holds (`parameters`). What it does at a step is in
`roofline.work.lower`. Sizes are element counts.

`part` names the role of a module's weights for the precision: attention, ffn, experts, router, embedding,
head, or other (norms and state parameters, which quantised checkpoints leave alone).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from roofline.model.formats import Format
from roofline.model.maths import Count, ceil_div

Part: TypeAlias = Literal["attention", "ffn", "experts", "router", "embedding", "head", "other"]
PARTS: tuple[Part, ...] = ("attention", "ffn", "experts", "router", "embedding", "head", "other")
Cut: TypeAlias = Literal["columns", "rows", "groups", "none"]
Axis: TypeAlias = Literal["tp", "ep", "cp", "pp", "dp"]


@dataclass(frozen=True, kw_only=True)
class Module:
    """One layer's part. `name` is unique in its block.

    On one rank of a layout: it runs for one in `split` of a step's new tokens, and `copies` ranks of a stage hold the
    same weights. `frozen`: it does not learn. `format`: that of its matrices, where it is not that of its part.
    """

    name: str
    split: Count = 1
    copies: Count = 1
    frozen: bool = False
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Linear(Module):
    """y = x·Wᵀ (+ b), W [outputs, inputs].

    `tied`: W is counted elsewhere, as the embedding table or as the same layer's first run. `groups`: W is
    block-diagonal, that many blocks of [outputs / groups, inputs / groups]. `gated`: gate and up-projection side by
    side, whose halves the activation behind multiplies.

    `cut`: along which side the architecture is made of independent pieces that ranks can share out: its outputs
    (columns: heads, inner neurons), its inputs (rows), its blocks (groups), or none. `kv`: so many of the outputs are
    keys and values, of `kv_groups` heads. `gathered`: so many ranks bring their tokens together just before.
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

    @property
    def matrix(self) -> int:
        return 0 if self.tied else self.inputs * self.outputs // self.groups

    @property
    def parameters(self) -> int:
        return self.matrix + (self.outputs if self.bias else 0)


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Rope(Module):
    """Rotary position embedding on `dims` of each of `heads` heads (queries and keys together)."""

    heads: int
    dims: int


@dataclass(frozen=True, kw_only=True)
class Attention(Module):
    """softmax(q·kᵀ)·v over `heads` query and `kv_heads` key/value heads (MHA, GQA, MQA).

    `window`: a query sees that many last tokens, itself included. `chunk`: a query sees its own chunk's
    beginning up to itself. `sinks`: one learned logit per head. `borrowed`: the keys and values are those that an
    earlier layer holds in its cache.
    """

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None
    chunk: int | None = None
    sinks: bool = False
    borrowed: bool = False

    @property
    def parameters(self) -> int:
        return self.heads if self.sinks else 0

    @property
    def kv_width(self) -> int:
        """Elements of the keys and values of one token."""
        return self.kv_heads * (self.head_dim + self.v_head_dim)

    @property
    def cache_width(self) -> int:
        """Elements per token that this layer adds to the cache."""
        return 0 if self.borrowed else self.kv_width


@dataclass(frozen=True, kw_only=True)
class LatentAttention(Module):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434).

    Caches one latent of `rank` and one rotary key of `rope` per token, for all heads. Holds the up-projection
    kv_b [rank → heads·(nope + v)], which is either applied to the context (expanded) or folded into query and
    output (absorbed). `select`: an indexer picks that many tokens for each query (sparse attention).
    """

    heads: int
    rank: int
    nope: int
    rope: int
    v: int
    select: int | None = None

    @property
    def matrix(self) -> int:
        return self.rank * self.heads * (self.nope + self.v)

    @property
    def parameters(self) -> int:
        return self.matrix

    @property
    def cache_width(self) -> int:
        """Cached elements per token."""
        return self.rank + self.rope


@dataclass(frozen=True, kw_only=True)
class Indexer(Module):
    """Scores every cached token for sparse attention with `heads` small heads (DeepSeek-V3.2's lightning indexer).

    Caches one key of `head_dim` per token. `rate`: scores the entries that a `Compressor` makes of that many tokens
    each, and caches nothing itself.
    """

    heads: int
    head_dim: int
    rate: int | None = None

    @property
    def cache_width(self) -> int:
        """Cached elements per token."""
        return self.head_dim if self.rate is None else 0


@dataclass(frozen=True, kw_only=True)
class Compressor(Module):
    """Makes one entry of `width` of every `rate` tokens: their weighted sum, normed and rotated (DeepSeek-V4).

    `overlap`: an entry also sums over the `rate` tokens before. The weights have a learned bias for each place.
    """

    width: int
    rate: int
    rope: int
    overlap: bool = False

    @property
    def terms(self) -> int:
        """Tokens that one entry sums over."""
        return self.rate * (2 if self.overlap else 1)

    @property
    def parameters(self) -> int:
        return (self.terms + 1) * self.width

    @property
    def cache_width(self) -> int:
        """Cached elements per token, rounded up."""
        width: int = ceil_div(self.width, self.rate)
        return width


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Activation(Module):
    """f(x) on `width` values, or f(gate)·up from 2·`width` where `gated`. `learned`: its own scalars."""

    width: int
    function: str
    gated: bool = True
    learned: int = 0

    @property
    def parameters(self) -> int:
        return self.learned


@dataclass(frozen=True, kw_only=True)
class Add(Module):
    """The sum of two streams of `width` (residual, shared and routed experts)."""

    width: int


@dataclass(frozen=True, kw_only=True)
class Gate(Module):
    """A stream of `width` times σ of another of `gates` values (`gates` < width: one for each head).

    `sigmoid` False: times the values themselves.
    """

    width: int
    gates: int
    sigmoid: bool = True


@dataclass(frozen=True, kw_only=True)
class Mix(Module):
    """Each of `streams` residual streams of `width` becomes a sum of all, weighted by the token itself.

    Alternating updates (arXiv:2301.13310) and hyper-connections (arXiv:2409.19606).
    """

    streams: int
    width: int


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Experts(Module):
    """`experts` feed-forward networks hidden → inner → hidden, `top_k` of them for each token.

    `top_k` None: the config does not say; parameters are known, the work is not. `reference`: how the published code
    multiplies, which only `torch` counting follows: all routed rows in one grouped product, each expert's rows by
    themselves (DBRX), or every expert on all tokens (Llama-4).

    `groups`: a token's experts stand in `top_groups` of so many groups (node-limited routing, arXiv:2412.19437 §2.1.2).
    On one rank of a layout: it holds one in `ranks` of the experts, and their tokens come from `gathered` ranks;
    `load`: rows of the busiest rank over the mean.
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
    ranks: Count = 1
    gathered: Count = 1
    load: Count = 1.0

    @property
    def each(self) -> int:
        """Parameters of one expert."""
        wide = self.inner * (2 if self.gated else 1)
        return self.hidden * (wide + self.inner) + ((wide + self.hidden) if self.bias else 0)

    @property
    def held(self) -> int:
        """Experts whose weights a rank holds."""
        held: int = self.experts // self.ranks
        return held

    @property
    def matrix(self) -> int:
        return self.held * self.hidden * self.inner * (3 if self.gated else 2)

    @property
    def parameters(self) -> int:
        return self.held * self.each


@dataclass(frozen=True, kw_only=True)
class Conv(Module):
    """Causal depthwise convolution over time: `kernel` taps on `channels`, kernel − 1 inputs kept as state.

    `kv`: so many of the channels belong to `kv_groups` groups that heads share.
    """

    channels: int
    kernel: int
    bias: bool = False
    kv: int = 0
    kv_groups: int = 1

    @property
    def parameters(self) -> int:
        return self.channels * (self.kernel + (1 if self.bias else 0))

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.channels * (self.kernel - 1)


@dataclass(frozen=True, kw_only=True)
class SelectiveScan(Module):
    """Mamba-1 (arXiv:2312.00752): `channels` independent states of `state_size`, A [channels, state_size] and D."""

    channels: int
    state_size: int

    @property
    def parameters(self) -> int:
        return self.channels * (self.state_size + 1)

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.channels * self.state_size


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class LinearAttention(Module):
    """Lightning attention (arXiv:2401.04658): a state [head_dim, head_dim] a head, which decays at a fixed rate."""

    heads: int
    head_dim: int
    chunk: int

    @property
    def state(self) -> int:
        """State elements per sequence."""
        return self.heads * self.head_dim * self.head_dim


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Collective(Module):
    """What `ranks` ranks of a layout, every `stride`-th, exchange: `width` elements of each token.

    `op` is one of `roofline.machine.collectives`, and so is what its size means. A token of a `dispatch` or `combine`
    goes to `top_k` of `experts` experts, in at most `top_groups` of `groups` groups. `axis`: the degree of the layout
    that it belongs to.
    """

    op: str
    width: Count
    ranks: Count
    stride: Count = 1
    axis: Axis = "tp"
    top_k: int = 1
    experts: int = 1
    groups: int = 1
    top_groups: int = 1
