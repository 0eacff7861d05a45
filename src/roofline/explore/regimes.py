"""Where a phase changes its regime: critical batch and lengths, and which term dominates the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roofline.estimates.latency import Estimate, time_of
from roofline.explore.sensitivity import Point
from roofline.explore.sweep import Array, first_true, longest_context
from roofline.work.analysis import analyze
from roofline.work.step import PHASES, Phase, Step, decode, prefill

MOST = 2**20
"""The largest batch that is looked at: weights then cost next to nothing a token."""


@dataclass(frozen=True)
class Critical:
    """Where compute at full peak takes as long as memory, and links, at full bandwidth, in one place.

    `batch`: the first at which a decode at the point's context is compute bound, None where none is up to MOST.
    `balance`: Σ compute / max(Σ memory, Σ network) of MOST sequences there: below 1 no batch suffices. `reach`: the
    context from which on no batch suffices, None where one does throughout. `prompt`: the first length at which a
    prefill of the point's batch is compute bound. `cache`: the first context at which a decode of that batch moves
    more bytes of cache than of weights. Each None where there is none up to `longest`.
    """

    batch: int | None
    balance: float
    reach: int | None
    prompt: int | None
    cache: int | None
    longest: int


def critical(p: Point) -> Critical:
    """The critical batch and lengths about a point."""
    import numpy

    longest, rank = longest_context(p.model), p.where.rank(p.model)

    def of(step: Step) -> Estimate:
        return time_of(rank, step, p.where, p.law, p.precision, p.engine)

    def traffic(e: Estimate) -> Array:
        return numpy.maximum(e.memory_time, e.network_time)

    def balanced(make: Callable[[Array], Step]) -> Callable[[Array], Array]:
        def computes(values: Array) -> Array:
            e = of(make(values))
            return numpy.asarray(e.compute_time) >= traffic(e)

        return computes

    def cached(values: Array) -> Array:
        moved = analyze(rank, decode(p.batch, values), precision=p.precision).moved
        return numpy.asarray(moved.cache >= moved.weights)

    most = of(decode(MOST, p.context))
    reached = balanced(lambda n: decode(MOST, n))
    return Critical(
        first_true(1, MOST, balanced(lambda b: decode(b, p.context))), float(most.compute_time / traffic(most)),
        first_true(1, longest, lambda n: ~reached(n)), first_true(1, longest, balanced(lambda n: prefill(p.batch, n))),
        first_true(1, longest, cached), longest,
    )  # fmt: skip


@dataclass(frozen=True)
class Dominance:
    """A term of a phase's bytes: its `share`, the share from which it dominates, its share at twice the context.

    `halved`: all bytes were the term half, over those now. `unfused`: of the traffic in which every op moves all.
    """

    phase: Phase
    term: str
    unfused: bool
    share: float
    threshold: float
    doubled: float

    @property
    def dominates(self) -> bool:
        """Whether the share is beyond the threshold."""
        return self.share > self.threshold

    @property
    def halved(self) -> float:
        """Bytes that would be left."""
        return 1.0 - self.share / 2


TESTS = (
    ("weights", "fused", 0.7),
    ("cache", "fused", 0.3),
    ("activations", "fused", 0.3),
    ("scratch", "unfused", 0.3),
)
"""Term of the bytes, the traffic it is a part of, and the share from which it dominates."""


def dominance(p: Point) -> Iterator[Dominance]:
    """The tests of both phases, of one rank."""
    rank = p.where.rank(p.model)

    def shares(phase: Phase, longer: int, traffic: str) -> dict[str, float]:
        a = analyze(rank, p.step(phase, longer), traffic=traffic, precision=p.precision)
        terms = {
            "weights": a.moved.weights, "cache": a.moved.cache, "scratch": a.moved.scratch,
            "activations": a.moved.input + a.moved.output,
        }  # fmt: skip
        return {name: float(value) / float(a.bytes) for name, value in terms.items()}

    for phase in PHASES:
        here = {t: (shares(phase, 1, t), shares(phase, 2, t)) for t in ("fused", "unfused")}
        for term, traffic, threshold in TESTS:
            now, twice = (found[term] for found in here[traffic])
            yield Dominance(phase, term, traffic == "unfused", now, threshold, twice)
