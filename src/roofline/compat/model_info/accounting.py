"""A step as dump_model_info counts it: FLOPs, bytes, network and time under its rules.

The figures come from the sizes of our modules under rules that differ from the physics: weights that cross memory less
than once (residency above 1), one time for the whole step as the greatest of three sums, experts drawn by Poisson,
every FLOP of a scalar unit at a share of the matrix units' peak.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from roofline.compat.model_info import parts
from roofline.compat.model_info.rules import H200, PHASES, Peaks, Phase, Rules, rules_named
from roofline.model import modules as m
from roofline.model.errors import InputError, not_one_of
from roofline.model.model import Block, Model, chosen


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
    on: Peaks

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
        return self.realizable / self.on.peak

    @property
    def memory(self) -> float:
        """Seconds of traffic."""
        return self.bytes / self.on.bandwidth

    @property
    def network(self) -> float:
        """Seconds of what goes to other chips."""
        return self.network_bytes / self.on.link if self.network_bytes and self.on.link else 0.0

    @property
    def time(self) -> float:
        """The greatest of the three sums: a lower bound, as if everything overlapped."""
        return max(self.compute, self.memory, self.network)

    @property
    def attainable(self) -> float:
        """FLOP/s at its intensity: min(peak, bandwidth · intensity)."""
        return min(self.on.peak, self.on.bandwidth * self.intensity)

    @property
    def regime(self) -> str:
        """Which of the three it is."""
        return "compute" if self.compute == self.time else "hbm" if self.memory == self.time else "network"

    @property
    def mfu(self) -> float:
        """F over peak · time."""
        return self.flops / (self.on.peak * self.time)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the step over its time."""
        return self.tokens / self.time

    def term(self, category: str) -> Term:
        """One category, empty where the model has none of it."""
        return next((t for t in self.terms if t.category == category), Term(category))


def account(
    model: Model, phase: Phase, rules: Rules | str, *, batch: int, length: int, on: Peaks = H200, ep: int = 1,
    attention: float = 1.0, latent: float = 1.0,
) -> Account:  # fmt: skip
    """A step of `batch` sequences: of `length` tokens each, or of one token after as many.

    `ep`: every rank of expert parallelism keeps its own tokens and ⌈experts / ep⌉ experts. `attention`: multiplies its
    FLOPs and weights, `latent` what it caches a token. Raises InputError for a phase or rules there are not, layers it
    cannot count, more ranks than experts, and a chip without a link where anything is sent.
    """
    if phase not in PHASES:
        raise not_one_of("phase", phase, PHASES)
    r, ranks = rules_named(rules), parts.checked_ranks(model, ep)
    b, s = parts.whole_number("batch", batch), parts.whole_number("length", length)
    here = _Step(r, b, s, phase == "decode", ranks, attention, latent)
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
    times = (r.training_flops, r.training_bytes) if phase == "training" else (1, 1)
    terms = tuple(t.times(*times) for t in found.values())
    widest = max((chosen(e) for e in parts.every_experts(model)), default=0)
    dispatched = here.tokens * dispatch(r, model.hidden, widest) * sparse
    sent = dispatched * (ranks - 1) / ranks if r.network else 0.0
    if sent and on.link is None:
        raise InputError("link", None, "bytes/s of the link, over which experts of other chips get their tokens")
    return Account(phase, r, here.tokens, terms, sent, dispatched, on)


def dispatch(rules: Rules, hidden: int, top_k: int) -> float:
    """Bytes of one token to its experts and back, in one layer: 2·k·H·A."""
    return 2 * hidden * top_k * rules.activation_bytes


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
    yield _attention(block, hidden, s)
    if parts.experts(block):
        yield _experts(block, s)
    elif parts.dense(block):
        yield _dense(parts.dense(block), hidden, s)


def _attention(block: Block, hidden: int, s: _Step) -> Term:
    """Projections 2·T·weights; scores, softmax (1 each), values B·h·q·L·(2·dq + 1 + 2·dv); latents never absorbed."""
    a, r, b, t, q = parts.mixer(block), s.rules, s.batch, s.tokens, s.queries
    matrices = parts.matrices(block)
    norms = sum(x.parameters for x in block.modules if isinstance(x, m.Norm) and x.width != hidden)
    flops = s.attention * (2.0 * t * matrices + float(b * q * parts.scores(a, s.length)))
    rows = a.heads * q * b * r.elementwise * r.activation_bytes
    return Term(
        "attention", flops, s.realizable("attention", flops, t),
        s.attention * r.weight_bytes * (matrices + norms) / r.residency[0],
        r.fusion * r.activation_bytes * (7 if s.decoding else 5) * t * hidden,
        r.cache_bytes * b * parts.cached(a, s.length, decoding=s.decoding, scale=s.latent),
        rows if r.flash else 2 * rows * parts.seen(a, s.length),
    )  # fmt: skip


def _dense(linears: list[m.Linear], hidden: int, s: _Step) -> Term:
    r, t = s.rules, s.tokens
    matrices = sum(parts.product(x) for x in linears)
    flops = 2.0 * t * matrices
    inner = linears[-1].inputs
    moved = r.fusion * r.activation_bytes * t * matrices / (hidden * inner) * (hidden + inner)
    return Term("ffn", flops, s.realizable("ffn", flops, t), r.weight_bytes * matrices / r.residency[1], moved)


def _experts(block: Block, s: _Step) -> Term:
    """Experts of a rank with λ = T·k / E_r tokens each; those touched have λ·E_r / touched, shared ones all T."""
    e = parts.experts(block)
    assert e is not None
    r, t, k = s.rules, s.tokens, chosen(e)
    one, router = parts.one_expert(e), parts.router(block)
    beside = sum(parts.product(x) for x in parts.dense(block)) / one
    some = parts.touched(e, r, t, s.ep)
    flops = 2.0 * t * (router + one * (k + beside))
    rows = max(1, round((k * (t * k / some) + beside * t) / (k + beside)))
    weights = r.weight_bytes * (router + one * (some + beside)) / r.residency[2]
    each = (e.hidden + e.experts) + (3 if e.gated else 2) * (k + beside) * (e.hidden + e.inner)
    return Term(
        "experts", flops, s.realizable("experts", flops, rows), weights, r.fusion * r.activation_bytes * t * each
    )
