"""Ops: the work of a module at a step, with its kind, its shape, and its tensors by role, in elements.

Kinds are classes, compared by identity (which starts faster). Conventions (`counting`, `traffic`) and machines depend
on the kind and its fields, never on a model.

Roles: `weight` is the part of the weight matrices that the step touches, `vector` that of biases and norm weights.
`input` and `output` are activations. `cache_read` and `cache_write` go to the KV cache or the recurrent state.
`scratch` is what an unfused kernel stores in memory in between (attention scores and probabilities), each element
written once and read once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from roofline.declared.numbers.arrays import np
from roofline.declared.numbers.maths import Count
from roofline.model.formats import Format
from roofline.model.kind_table import KindTable
from roofline.model.modules import Degree, Part
from roofline.model.record import Record, record
from roofline.work.step import Queries, Step

Store: TypeAlias = Literal["kv", "state", "activations", "gradients", "optimizer"]
PassPhase: TypeAlias = Literal["forward", "recompute", "backward", "weight", "update"]


@record(frozen=True, kw_only=True, eq=False)
class Op(Record):
    """Base class of all kinds. `part` and `store` name the formats of weights and cache in a `Precision`."""

    name: str
    part: Part = "other"
    format: Format | None = None
    """Format of the weights, where it is not the one of their part."""
    store: Store = "kv"
    weight: Count = 0
    vector: Count = 0
    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0
    scratch: Count = 0
    rides: bool = False
    """Part of a neighbour's kernel in every engine, so never launched by itself (e.g. a residual sum)."""
    frozen: bool = False
    """The weights are frozen: they have no gradient, and nothing is kept for one."""
    detached: bool = False
    """Outside of what is differentiated: it has no backward pass, and nothing is kept for one."""
    phase: PassPhase = "forward"
    """Phase in training: forward, recompute, backward (gradient of the inputs), weight (of the weights) or update."""

    @property
    def kind(self) -> str:
        """The kind's name, in the words of the tables: matmul, attention, norm, …"""
        return NAMES[type(self.origin)]

    @property
    def origin(self) -> Op:
        """The op that determines the kind of work: itself, or for a gradient the op that it belongs to."""
        return self


@record(frozen=True, kw_only=True, eq=False)
class MatMul(Op):
    """`groups` products [m, k]·[k, n], one weight each (groups = 1 for a linear layer).

    `gathered`: number of ranks whose rows were gathered just before. `gated`: n holds a gate and its partner side by
    side. `beside`: an earlier product reads the same input. `stacked`: total outputs of both, where engines fuse them
    into one product; else 0. `absorbs`: the key or value weights were split at load time and are multiplied with
    queries or outputs instead.
    """

    m: Count
    k: Count
    n: Count
    groups: Count = 1
    bias: bool = False
    gathered: Count = 1
    gated: bool = False
    beside: bool = False
    stacked: int = 0
    absorbs: bool = False


@record(frozen=True, kw_only=True, eq=False)
class ExpertMatMul(Op):
    """A grouped product: `m` routed rows spread over `touched` of `experts` weights [k, n].

    One of the two products of a feed-forward hidden → inner → hidden, `gated` or not; `up` marks the first.

    `tokens`·`top_k` = m, except for rows that go to experts without weights. `decoding`: 1 where every query adds one
    token to cached ones, else 0. `reference`: how the published code multiplies, as in the module.
    """

    m: Count
    k: Count
    n: Count
    tokens: Count
    decoding: Count = 0
    top_k: Count
    experts: Count
    touched: Count
    hidden: Count
    inner: Count
    gated: bool
    up: bool
    bias: bool = False
    reference: Literal["grouped", "each", "all"] = "grouped"

    @property
    def reference_runs_all(self) -> bool:
        """Whether the published code multiplies every token by every expert."""
        return self.reference == "all"


@record(frozen=True, kw_only=True, eq=False)
class Attend(Op):
    """softmax(q·kᵀ)·v: `pairs` unmasked query-key pairs per query head, `square` with no mask at all.

    `kept_pairs`: pairs of every new token with all keys of a cache that drops what is outside its window, as the
    published code multiplies them (`torch` counting). `plain_dims`, `expanding`: where latents are absorbed, elements
    of a query, a key and a value of one head in the expanded form, and multiply-adds to expand all latents to keys and
    values, which the published code does in every step.

    `kv_tokens`: tokens of all queries, cached and new together. `pairs_of` gives one query's pairs, for kernels that
    run the queries of `step` separately. `form`: separate keys and values (plain), made from latents (expanded), or one
    latent for both (absorbed). `flash`: scores and probabilities stay on the chip. `keys_per_value`: key heads that
    share a value head, and as often the published code multiplies queries with keys (`torch` counting). `picks`: tokens
    that an indexer selects for each query, 0 without an indexer. `absorbed`: multiply-adds per pair and head in the
    absorbed form. `sinks`: the softmax of a head has a learned score more, which kernels have to support.
    """

    step: Step
    pairs_of: Callable[[Queries], Count]
    form: Literal["plain", "expanded", "absorbed"] = "plain"
    heads: Count
    kv_heads: Count
    qk_dim: Count
    v_dim: Count
    sequences: Count
    tokens: Count
    kv_tokens: Count
    pairs: Count
    square: Count
    kept_pairs: Count
    plain_dims: Count = 0
    expanding: Count = 0
    flash: bool = True
    keys_per_value: int = 1
    picks: int = 0
    absorbed: int = 0
    sinks: bool = False

    @property
    def unmasked(self) -> bool:
        """Whether a token also sees the tokens after it, as in an encoder: two tokens make four pairs, not three."""
        return bool(np.all(self.pairs_of(Queries(0, 2)) == 4))

    @property
    def kv_width(self) -> Count:
        """Elements of the keys and values of one token."""
        return self.kv_heads * self.qk_dim + self.kv_heads // self.keys_per_value * self.v_dim


@record(frozen=True, kw_only=True, eq=False)
class Score(Op):
    """An indexer's scores: `heads` small heads over `pairs`, summed to one score per pair where `summed`.

    `sum_by_product`: the published code sums the heads by a matrix product, not element by element.
    """

    heads: Count
    dim: Count
    pairs: Count
    square: Count
    summed: bool = True
    sum_by_product: bool = True


@record(frozen=True, kw_only=True, eq=False)
class Normalise(Op):
    """RMSNorm or LayerNorm of `rows` rows of `width`."""

    rows: Count
    width: Count
    center: bool
    scaled: bool
    shifted: bool


@record(frozen=True, kw_only=True, eq=False)
class Rotate(Op):
    """RoPE on `elements` values. `angles`: cosines and sines that are read, one for each dimension and position."""

    elements: Count
    angles: Count = 0


@record(frozen=True, kw_only=True, eq=False)
class Activate(Op):
    """f on `rows` of `width` values, times a second stream where `gated`; `biased`: of experts that have biases."""

    rows: Count
    width: Count
    function: str
    gated: bool
    biased: bool = False


@record(frozen=True, kw_only=True, eq=False)
class Sum(Op):
    """`elements` sums of `terms` values, each weighted where `weighted`, and first added to another where `shifted`.

    `biased`: they are outputs of experts, whose bias each one has.
    """

    elements: Count
    terms: Count = 2
    weighted: bool = False
    shifted: bool = False
    biased: bool = False


@record(frozen=True, kw_only=True, eq=False)
class Scale(Op):
    """`elements` values times σ of `gates` values."""

    elements: Count
    gates: Count


@record(frozen=True, kw_only=True, eq=False)
class Choose(Op):
    """The best `top_k` of `experts` scores for each of `rows` tokens, with their softmax."""

    rows: Count
    experts: Count


@record(frozen=True, kw_only=True, eq=False)
class Lookup(Op):
    """`rows` rows of a table; `shared`: the head reads the same table; `hashed`: a table of n-grams."""

    rows: Count
    width: Count
    shared: bool = False
    hashed: bool = False


@record(frozen=True, kw_only=True, eq=False)
class Convolve(Op):
    """Causal convolution: `kernel` taps on `channels` at every token, of `width` channels each.

    `padding`: extra outputs, over all sequences, that the published code computes. `dynamic`: the taps are sums of
    learned ones and a token's own, and the op is not a matrix product.
    """

    tokens: Count
    sequences: Count
    channels: Count
    kernel: Count
    width: Count
    padding: Count
    dynamic: bool


@record(frozen=True, kw_only=True, eq=False)
class Shift(Op):
    """Mix every token's value with that of the token before, in `streams` ways: `elements` interpolations in all.

    `zeros`: number of first tokens for which the published code projects a zero, from `inputs` to `width`.
    """

    elements: Count
    streams: Count
    zeros: Count = 0
    inputs: Count = 0
    width: Count = 0


@record(frozen=True, kw_only=True, eq=False)
class ScanOp(Op):
    """A linear recurrence over the tokens of `step`; subclasses say which."""

    step: Step


@record(frozen=True, kw_only=True, eq=False)
class Selective(ScanOp):
    """Mamba-1: `channels` states of `state_size`."""

    channels: Count
    state_size: Count


@record(frozen=True, kw_only=True, eq=False)
class Dual(ScanOp):
    """Mamba-2: `heads` states [head_dim, state_size], B and C in `groups`, computed in chunks by the reference."""

    heads: Count
    head_dim: Count
    state_size: Count
    groups: Count
    chunk: Count


@record(frozen=True, kw_only=True, eq=False)
class Delta(ScanOp):
    """Gated delta rule: `heads` states [key_dim, value_dim], computed in chunks by the reference."""

    heads: Count
    key_heads: Count
    key_dim: Count
    value_dim: Count
    chunk: Count


@record(frozen=True, kw_only=True, eq=False)
class LinearAttend(ScanOp):
    """Linear attention with a fixed decay: `heads` states [dim, dim], computed in chunks by the reference."""

    heads: Count
    dim: Count
    chunk: Count


@record(frozen=True, kw_only=True, eq=False)
class Recur(ScanOp):
    """A linear recurrence of `channels` that do not mix, with `work` FLOPs per token and channel."""

    channels: Count
    work: int


@record(frozen=True, kw_only=True, eq=False)
class Memorise(ScanOp):
    """mLSTM: `heads` matrices [key_dim, value_dim] and normalisers, computed in whole chunks by the reference."""

    heads: Count
    key_dim: Count
    value_dim: Count
    chunk: Count

    @property
    def key_heads(self) -> Count:
        """Every head has keys of its own."""
        return self.heads


@record(frozen=True, kw_only=True, eq=False)
class Communicate(Op):
    """A collective over `elements`, counted as its size is, among `ranks` chips, every `stride`-th of a cluster.

    `decoding`: 1 where the step adds one token to each sequence, for which engines have separate exchange kernels.
    `again`: the collective is repeated in the backward pass. `beside`: the phase of the products that it overlaps with.
    """

    collective: str
    elements: Count
    ranks: Count
    stride: Count = 1
    axis: Degree = "tp"
    top_k: int = 1
    experts: int = 1
    groups: int = 1
    top_groups: int = 1
    identities: int = 0
    decoding: Count = 0
    again: bool = False
    beside: str = ""


@record(frozen=True, kw_only=True, eq=False)
class Backward(Op):
    """The gradient of an op that is not a product, with respect to all its inputs: work of the same kind."""

    of: Op

    @property
    def origin(self) -> Op:
        """The op that it is the gradient of."""
        return self.of


@record(frozen=True, kw_only=True, eq=False)
class Loss(Op):
    """Cross-entropy of `rows` rows of `width` logits.

    `way`: how it keeps them, as in `Training`. `kept`, `single`: elements kept until its backward pass, in the stream's
    format and in fp32.
    """

    rows: Count
    width: Count
    way: str = "in-place"
    kept: Count = 0
    single: Count = 0


@record(frozen=True, kw_only=True, eq=False)
class Update(Op):
    """One step of an optimizer over `elements` weights, `work` FLOPs each."""

    elements: Count
    work: int


NAMES: KindTable[str] = KindTable("names", Op, without=(Backward,))
"""Kind of op → its name in tables. Several kinds may share a name, and a gradient has the name of its op."""
for _name, _kinds in (
    ("matmul", (MatMul,)), ("experts", (ExpertMatMul,)), ("attention", (Attend,)), ("indexer", (Score,)),
    ("norm", (Normalise,)), ("rope", (Rotate,)), ("activation", (Activate,)), ("add", (Sum,)), ("gate", (Scale,)),
    ("route", (Choose,)), ("embedding", (Lookup,)), ("conv", (Convolve,)),
    ("shift", (Shift,)), ("scan", (Selective, Dual, Delta, LinearAttend, Recur, Memorise)),
    ("communication", (Communicate,)), ("loss", (Loss,)),
    ("optimizer", (Update,)),
):  # fmt: skip
    NAMES.add(_name, *_kinds)
