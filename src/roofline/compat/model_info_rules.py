"""How the report of dump_model_info counts a step: its FLOPs, bytes, network and time, as settings for any model.

Its figures come from the sizes of our modules under its own rules, which differ from the physics: weights that cross
memory less than once (residency above 1), one time for the whole step as the greatest of three sums, experts drawn by
Poisson, every FLOP of a scalar unit at a share of the matrix units' peak. `beyond_floor` says where they fall below
what memory must carry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from typing import Literal, TypeAlias

from roofline.machine.chip import Chip
from roofline.model import modules as m
from roofline.model.checks import count
from roofline.model.errors import InputError, not_one_of
from roofline.model.model import Block, Model, chosen
from roofline.work.analysis import analyze
from roofline.work.step import decode, prefill

Phase: TypeAlias = Literal["training", "prefill", "decode"]
PHASES: tuple[Phase, ...] = ("training", "prefill", "decode")
MIXERS = (m.Attention, m.LatentAttention)


@dataclass(frozen=True)
class Rules:
    """The settings. `residency`: weight bytes are divided by it (attention, dense, experts); above 1: below the floor.

    `fusion`: share of the activations that move. `elementwise`: share of the scores' bytes; `flash`: one value a row
    instead of all scores. `saturation`: rows at which a matrix unit is busy. `scalar`: speed of what is no product, in
    peaks. `tensor`: share of products by category. `training_flops`, `training_bytes`: multiples of prefill's.
    """

    name: str
    residency: tuple[float, float, float] = (1.0, 1.0, 1.0)
    fusion: float = 1.0
    elementwise: float = 1.0
    flash: bool = False
    saturation: float = 64.0
    scalar: float = 0.35
    tensor: tuple[tuple[str, float], ...] = (
        ("attention", 0.95), ("ffn", 0.98), ("experts", 0.98), ("head", 0.98), ("embedding", 0.70),
    )  # fmt: skip
    training_flops: int = 3
    training_bytes: int = 2
    weight_bytes: float = 1.0
    activation_bytes: float = 1.0
    cache_bytes: float = 1.0

    def at_peak(self) -> Rules:
        """These rules with every FLOP at the peak: F instead of F·e/η + F·(1 − e)/scalar."""
        return replace(self, saturation=1e-30, scalar=1.0)


NAIVE = Rules("naive")
EFFICIENT = Rules("efficient", residency=(4.0, 4.0, 2.0), fusion=0.5, elementwise=0.7, flash=True)
RULES = {r.name: r for r in (NAIVE, EFFICIENT)}


@dataclass(frozen=True)
class Term:
    """One category of work in a step: FLOPs, those in units of peak, and bytes by term, over all its layers."""

    category: str
    flops: float = 0.0
    realizable: float = 0.0
    weights: float = 0.0
    activations: float = 0.0
    cache: float = 0.0
    temporary: float = 0.0

    @property
    def bytes(self) -> float:
        """All bytes that cross memory."""
        return self.weights + self.activations + self.cache + self.temporary

    def times(self, work: float, moved: float) -> Term:
        """So many times the work, so many times the bytes."""
        return replace(
            self, flops=work * self.flops, realizable=work * self.realizable, weights=moved * self.weights,
            activations=moved * self.activations, cache=moved * self.cache, temporary=moved * self.temporary,
        )  # fmt: skip


@dataclass(frozen=True)
class Account:
    """A step under the rules on a chip. Seconds: `compute`, `memory`, `network`, and their maximum, `time`."""

    phase: Phase
    rules: Rules
    tokens: int
    terms: tuple[Term, ...]
    network_bytes: float
    dispatch_bytes: float
    peak: float
    bandwidth: float
    link: float

    def _sum(self, field: str) -> float:
        return math.fsum(getattr(t, field) for t in self.terms)

    @property
    def flops(self) -> float:
        """F."""
        return self._sum("flops")

    @property
    def realizable(self) -> float:
        """FLOPs in units of peak: F·e/η + F·(1 − e)/scalar, category by category."""
        return self._sum("realizable")

    @property
    def bytes(self) -> float:
        """Bytes that cross memory."""
        return self._sum("bytes")

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.bytes

    @property
    def compute(self) -> float:
        """Seconds of arithmetic."""
        return self.realizable / self.peak

    @property
    def memory(self) -> float:
        """Seconds of traffic."""
        return self.bytes / self.bandwidth

    @property
    def network(self) -> float:
        """Seconds of what goes to other chips."""
        return self.network_bytes / self.link

    @property
    def time(self) -> float:
        """The greatest of the three sums: a lower bound, as if everything overlapped."""
        return max(self.compute, self.memory, self.network)

    @property
    def regime(self) -> str:
        """Which of the three it is."""
        return "compute" if self.compute == self.time else "hbm" if self.memory == self.time else "network"

    @property
    def mfu(self) -> float:
        """F over peak · time."""
        return self.flops / (self.peak * self.time)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the step over its time."""
        return self.tokens / self.time

    def term(self, category: str) -> Term:
        """One category, empty where the model has none of it."""
        return next((t for t in self.terms if t.category == category), Term(category))


def account(
    model: Model, phase: Phase, rules: Rules, *, batch: int, length: int, peak: float = 1979e12,
    bandwidth: float = 4.8e12, link: float = 900e9, ep: int = 1, attention: float = 1.0, latent: float = 1.0,
) -> Account:  # fmt: skip
    """A step of `batch` sequences: of `length` tokens each, or of one token after as many.

    `ep`: every rank of expert parallelism keeps its own tokens and ⌈experts / ep⌉ experts. `link`: bytes/s, as that
    report takes them, of both directions together. `attention`: multiplies its FLOPs and weights, `latent` what it
    caches a token. Raises InputError for a phase there is not and layers it cannot count.
    """
    if phase not in PHASES:
        raise not_one_of("phase", phase, PHASES)
    b, s, ranks = count("batch", batch, 1), count("length", length, 1), count("ep", ep, 1)
    here = _Step(rules, b, s, phase == "decode", ranks, attention, latent)
    found: dict[str, Term] = {}
    sparse = 0
    for part, layers in (
        (_ends(model, here), 1),
        *((_layer(block, model.hidden, here), n) for block, n in model.blocks),
    ):
        for term in part:
            scaled = term.times(layers, layers)
            old = found.get(term.category, Term(term.category))
            found[term.category] = Term(term.category, *(getattr(old, f) + getattr(scaled, f) for f in FIELDS))
            sparse += layers if term.category == "experts" else 0
    times = (rules.training_flops, rules.training_bytes) if phase == "training" else (1, 1)
    terms = tuple(t.times(*times) for t in found.values())
    widest = max((chosen(x) for x, _ in model.modules() if isinstance(x, m.Experts)), default=0)
    sent = 2 * here.tokens * model.hidden * widest * rules.activation_bytes * sparse
    return Account(phase, rules, here.tokens, terms, sent * (ranks - 1) / ranks, sent, peak, bandwidth, link)


FIELDS = ("flops", "realizable", "weights", "activations", "cache", "temporary")


@dataclass(frozen=True)
class _Step:
    rules: Rules
    batch: int
    length: int
    decoding: bool
    ep: int
    attention: float
    latent: float

    @property
    def tokens(self) -> int:
        """T."""
        return self.batch if self.decoding else self.batch * self.length

    @property
    def queries(self) -> int:
        """q, tokens of one sequence."""
        return 1 if self.decoding else self.length

    def realizable(self, category: str, flops: float, rows: float) -> float:
        """F·e/η + F·(1 − e)/scalar, η = min(1, rows / saturation)."""
        tensor = dict(self.rules.tensor)[category]
        busy = min(1.0, rows / self.rules.saturation)
        return flops * tensor / busy + flops * (1 - tensor) / self.rules.scalar


def _ends(model: Model, s: _Step) -> Iterator[Term]:
    """Embedding (the whole table, every step) and head (every position)."""
    r, t, h, v = s.rules, s.tokens, model.hidden, model.vocab
    flops = float(t * h)
    table = r.weight_bytes * v * h / r.residency[1]
    moved = r.fusion * r.activation_bytes * t * h
    yield Term("embedding", flops, s.realizable("embedding", flops, t), table, moved)
    flops = 2.0 * t * h * v
    moved = r.fusion * r.activation_bytes * t * (h + v)
    yield Term("head", flops, s.realizable("head", flops, t), table, moved)


def _layer(block: Block, hidden: int, s: _Step) -> Iterator[Term]:
    """Attention and a feed-forward, dense or of experts. Raises InputError for layers that mix tokens otherwise."""
    mixers = [x for x in block.modules if isinstance(x, MIXERS)]
    if len(mixers) != 1:
        raise InputError("block", block.name, "a layer with one attention of keys and values or of latents")
    yield _attention(block, mixers[0], hidden, s)
    experts = [x for x in block.modules if isinstance(x, m.Experts)]
    dense = [x for x in block.modules if isinstance(x, m.Linear) and x.part == "ffn"]
    if experts:
        yield _experts(block, experts[0], dense, s)
    elif dense:
        yield _dense(dense, hidden, s)


def _sizes(a: m.Attention | m.LatentAttention) -> tuple[int, int, int]:
    """Key and value of a head as they are multiplied, and what a token leaves in the cache."""
    if isinstance(a, m.LatentAttention):
        return a.nope + a.rope, a.v, a.cache_width
    return a.head_dim, a.v_head_dim, a.kv_width


def _attention(block: Block, a: m.Attention | m.LatentAttention, hidden: int, s: _Step) -> Term:
    """Projections 2·T·weights; scores, softmax (1 each), values B·h·q·L·(2·dq + 1 + 2·dv); latents never absorbed."""
    r, b, t, q = s.rules, s.batch, s.tokens, s.queries
    key, value, width = _sizes(a)
    inside = [x for x in block.modules if getattr(x, "part", "") == "attention" or x is a]
    matrices = sum(x.matrix for x in inside)
    norms = sum(x.parameters for x in block.modules if isinstance(x, m.Norm) and x.width != hidden)
    flops = s.attention * (2.0 * t * matrices + float(b * a.heads * q * s.length) * (2 * key + 1 + 2 * value))
    width = round(s.latent * width)
    rows = a.heads * q * b * r.elementwise * r.activation_bytes
    return Term(
        "attention", flops, s.realizable("attention", flops, t),
        s.attention * r.weight_bytes * (matrices + norms) / r.residency[0],
        r.fusion * r.activation_bytes * (7 if s.decoding else 5) * t * hidden,
        r.cache_bytes * b * width * (s.length + 1 if s.decoding else s.length),
        rows if r.flash else 2 * rows * s.length,
    )  # fmt: skip


def _dense(linears: list[m.Linear], hidden: int, s: _Step) -> Term:
    r, t = s.rules, s.tokens
    matrices = sum(x.matrix for x in linears)
    flops = 2.0 * t * matrices
    inner = linears[-1].inputs
    moved = r.fusion * r.activation_bytes * t * matrices / (hidden * inner) * (hidden + inner)
    return Term("ffn", flops, s.realizable("ffn", flops, t), r.weight_bytes * matrices / r.residency[1], moved)


def _experts(block: Block, e: m.Experts, shared: list[m.Linear], s: _Step) -> Term:
    """Tokens fall on a rank's experts by Poisson: λ = T·k / E_r, of E_r experts E_r·(1 − e^−λ) get any."""
    r, t, k = s.rules, s.tokens, chosen(e)
    one = e.hidden * e.inner * (3 if e.gated else 2)
    beside = sum(x.matrix for x in shared) / one
    router = next(x.matrix for x in block.modules if isinstance(x, m.Router))
    held = -(-e.experts // s.ep)
    drawn = t * k / held
    some = 1 - math.exp(-drawn)
    flops = 2.0 * t * (router + one * (k + beside))
    rows = max(1, round((k * drawn / some + beside * t) / (k + beside)))
    weights = r.weight_bytes * (router + one * (held * some + beside)) / r.residency[2]
    each = (e.hidden + e.experts) + (3 if e.gated else 2) * (k + beside) * (e.hidden + e.inner)
    return Term(
        "experts", flops, s.realizable("experts", flops, rows), weights, r.fusion * r.activation_bytes * t * each
    )


def on_chip(chip: Chip, fmt: str = "fp8") -> dict[str, float]:
    """The figures of `account` for a chip: peak, bandwidth, and the link of both directions."""
    return {"peak": chip.peak(fmt), "bandwidth": chip.bandwidth, "link": 2 * (chip.link or chip.bandwidth)}


@dataclass(frozen=True)
class Beyond:
    """Where an account is below what memory must carry: bytes it says, bytes at least, and their ratio."""

    phase: Phase
    bytes: float
    floor: float

    @property
    def share(self) -> float:
        """Bytes it says over those that must move."""
        return self.bytes / self.floor


def beyond_floor(model: Model, a: Account, *, batch: int, length: int) -> Beyond | None:
    """Each weight touched once, the cache once, in the account's own formats; None where it is not below.

    Of one rank that holds everything; a training step moves no less than its prefill. A width in between is taken as
    the next narrower format, so that nothing is flagged that could be.
    """
    step = decode(batch, length) if a.phase == "decode" else prefill(batch, length)
    formats = dict.fromkeys(ROLES, _narrower(a.rules.weight_bytes))
    formats |= {"activations": _narrower(a.rules.activation_bytes), "kv": _narrower(a.rules.cache_bytes)}
    floor = float(analyze(model, step, traffic="floor", precision=formats).bytes)
    return Beyond(a.phase, a.bytes, floor) if a.bytes < floor else None


def _narrower(width: float) -> str:
    """The format of that many bytes, or the next narrower one."""
    return "fp32" if width >= 4 else "bf16" if width >= 2 else "fp8" if width >= 1 else "fp4"


ROLES = ("attention", "ffn", "experts", "router", "embedding", "head", "other", "activations", "kv", "state")


# -- the frontier --------------------------------------------------------------------------------------------------
LARGEST_BATCH = 16384
NEAR = 0.9
"""A step counts as compute bound where arithmetic takes that share of the longest of the others."""


@dataclass(frozen=True)
class Frontier:
    """Decode as the batch of a rank grows, at one length and degree of expert parallelism.

    `memory`, `network`: FLOPs a byte of cache and of dispatch, all that is left of the traffic then. `batch`: the
    smallest power of two at which arithmetic keeps up, None where none does; `limiter` says what it does not keep up
    with ("cache", "network", or "either" up to LARGEST_BATCH).
    """

    ep: int
    length: int
    memory: float
    network: float
    batch: int | None
    limiter: str


def frontier(
    model: Model, *, ep: int, length: int, peak: float = 1979e12, bandwidth: float = 4.8e12, link: float = 900e9,
    width: float = 1.0,
) -> Frontier:  # fmt: skip
    """Attention, routers and a rank's share of the experts; weights of `width` bytes, Poisson experts, no dense layers.

    Raises InputError for layers without one attention.
    """
    attention = routed = held = cache = weights = 0.0
    widest = 0
    for block, layers in model.blocks:
        mixers = [x for x in block.modules if isinstance(x, MIXERS)]
        if len(mixers) != 1:
            raise InputError("block", block.name, "a layer with one attention of keys and values or of latents")
        a = mixers[0]
        key, value, row = _sizes(a)
        matrices = sum(x.matrix for x in block.modules if getattr(x, "part", "") == "attention" or x is a)
        attention += layers * (2 * matrices + a.heads * length * (2 * key + 1 + 2 * value))
        cache += layers * row * (length + 1)
        weights += layers * matrices
        for e in (x for x in block.modules if isinstance(x, m.Experts)):
            one = e.hidden * e.inner * (3 if e.gated else 2)
            beside = sum(x.matrix for x in block.modules if isinstance(x, m.Linear) and x.part == "ffn")
            routed += layers * (2 * e.hidden * e.experts + chosen(e) / ep * 2 * one)
            weights += layers * (e.hidden * e.experts + beside)
            held += layers * one * e.experts / ep
            widest = max(widest, chosen(e))
    experts = max((x.experts for x, _ in model.modules() if isinstance(x, m.Experts)), default=1)
    flops, sent = attention + routed, 2 * widest * model.hidden * width
    memory, network = flops / (cache * width), flops / sent if sent else math.inf

    def keeps_up(batch: int) -> bool:
        touched = 1 - math.exp(-batch * ep * widest / experts)
        moved = width * (weights + held * touched + batch * cache) / bandwidth
        return batch * flops / peak >= NEAR * max(moved, batch * sent / link)

    if memory < NEAR * peak / bandwidth:
        return Frontier(ep, length, memory, network, None, "cache")
    if network < NEAR * peak / link:
        return Frontier(ep, length, memory, network, None, "network")
    batches = (2**k for k in range(LARGEST_BATCH.bit_length()))
    found = next((b for b in batches if keeps_up(b)), None)
    return Frontier(ep, length, memory, network, found, "" if found else "either")


# -- the grid ------------------------------------------------------------------------------------------------------
KNOBS = ("kv_dtype_bytes", "top_k", "kv_rank_scale", "hidden_scale", "cache_len")


@dataclass(frozen=True)
class Point:
    """One combination of the grid's knobs under one set of rules, and what a decode step then is."""

    exec_model: str
    kv_dtype_bytes: int
    top_k: int
    kv_rank_scale: float
    hidden_scale: float
    cache_len: int
    account: Account


def scaled(model: Model, hidden: float, top_k: int | None) -> Model:
    """The stream, the feed-forwards and the experts that many times as wide; attention's own sizes as they are."""

    def size(value: int) -> int:
        return round(hidden * value)

    def changed(x: m.Module) -> m.Module:
        match x:
            case m.Experts():
                return replace(x, hidden=size(x.hidden), inner=size(x.inner), top_k=top_k or x.top_k)
            case m.Linear(part="ffn"):
                return replace(x, inputs=size(x.inputs), outputs=size(x.outputs))
            case m.Router():
                return replace(x, inputs=size(x.inputs))
            case m.Norm() if x.width == model.hidden:
                return replace(x, width=size(x.width))
            case _:
                return x

    blocks = {b: Block(b.name, tuple(changed(x) for x in b.modules)) for b, _ in model.blocks}
    return replace(model, hidden=size(model.hidden), layers=tuple(blocks[b] for b in model.layers))


def grid(model: Model, *, batch: int, ep: int = 1, **figures: float) -> Iterator[Point]:
    """The 432 decode steps of its sensitivity analysis: 216 combinations of five knobs under both sets of rules."""
    for rules, bytes_each, k, rank, hidden, length in product(
        (NAIVE, EFFICIENT), (1, 2), (2, 4, 8), (0.5, 1.0, 1.5), (0.75, 1.0, 1.25), (2048, 4096, 8192, 16384)
    ):
        here = account(
            scaled(model, hidden, k), "decode", replace(rules, cache_bytes=float(bytes_each)), batch=batch,
            length=length, ep=ep, attention=hidden * max(hidden, rank), latent=rank, **figures,
        )  # fmt: skip
        yield Point(rules.name, bytes_each, k, rank, hidden, length, here)


def ranking(points: Iterable[Point]) -> list[tuple[str, float]]:
    """Knobs by effect: greatest over least median time of its values, less 1, in the efficient rows; largest first."""
    rows = [p for p in points if p.exec_model == EFFICIENT.name]

    def effect(knob: str) -> float:
        medians = [
            median(p.account.time for p in rows if getattr(p, knob) == value)
            for value in {getattr(p, knob) for p in rows}
        ]
        return max(medians) / min(medians) - 1

    return sorted(((knob, effect(knob)) for knob in KNOBS), key=lambda pair: -pair[1])
