"""Where a phase changes its regime: critical batch and lengths, and the term that dominates the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from roofline.inference.step import Estimate
from roofline.whatif.sensitivity.tornado import OperatingPoint
from roofline.whatif.sweep.crossovers import Values, first_true, longest_context
from roofline.work.step import PHASES, Phase, Step, decode, prefill

MOST = 2**20
"""Maximum batch per replica: weights then cost next to nothing per token."""


@dataclass(frozen=True)
class Critical:
    """Where compute at full peak takes as long as memory and links at full bandwidth, on one deployment.

    `batch`: the smallest compute-bound batch of a decode step at the point's context, over all replicas; None if none
    is up to MOST per replica. `balance`: Σ compute / max(Σ memory, Σ network) at MOST sequences per replica; below 1 no
    batch suffices. `beyond`: the context from which on no batch suffices. `prompt`: the shortest prompt whose prefill,
    at the point's batch, is compute bound. `cache`: the shortest context at which a decode step of that batch moves
    more bytes of cache than of weights. Contexts and prompts are searched up to `longest`; None means that none was
    found.
    """

    batch: int | None
    balance: float
    beyond: int | None
    prompt: int | None
    cache: int | None
    longest: int


def critical(p: OperatingPoint) -> Critical:
    """The critical batch and lengths around an operating point."""
    longest, replicas = longest_context(p.model), int(p.asked.layout.dp)

    def traffic(e: Estimate) -> Values:
        return np.maximum(e.memory_time, e.network_time)

    def balanced(step_of: Callable[[Values], Step]) -> Callable[[Values], Values]:
        def computes(values: Values) -> Values:
            e = p.at(step_of(values))
            return np.asarray(e.compute_time) >= traffic(e)

        return computes

    def cached(values: Values) -> Values:
        moved = p.at(decode(p.batch, values)).analysis.moved
        return np.asarray(moved.cache >= moved.weights)

    most = p.at(decode(MOST * replicas, p.context))
    of_most = balanced(lambda n: decode(MOST * replicas, n))
    batch = first_true(1, MOST, balanced(lambda b: decode(b * replicas, p.context)))
    return Critical(
        None if batch is None else batch * replicas, float(most.compute_time / traffic(most)),
        first_true(1, longest, lambda n: ~of_most(n)), first_true(1, longest, balanced(lambda n: prefill(p.batch, n))),
        first_true(1, longest, cached), longest,
    )  # fmt: skip


@dataclass(frozen=True)
class Dominance:
    """A term of a phase's bytes: its `share`, the `threshold` from which it dominates, its share at twice the context.

    `unfused`: the traffic is that of unfused ops, each of which moves all its tensors.
    """

    phase: Phase
    term: str
    unfused: bool
    share: float
    threshold: float
    doubled: float

    @property
    def dominates(self) -> bool:
        """Whether the share is above the threshold."""
        return self.share > self.threshold

    @property
    def halved(self) -> float:
        """Total bytes if the term were halved, as a fraction of those now."""
        return 1.0 - self.share / 2


TESTS = (
    ("weights", "fused", 0.7),
    ("cache", "fused", 0.3),
    ("activations", "fused", 0.3),
    ("scratch", "unfused", 0.3),
)
"""Term of the bytes, its traffic, and the share from which it dominates."""


def dominance(p: OperatingPoint) -> Iterator[Dominance]:
    """The dominance tests of both phases, for one rank."""

    def shares(phase: Phase, longer: int, traffic: str) -> dict[str, float]:
        a = p.at(p.step(phase, longer), traffic=traffic).analysis
        terms = {
            "weights": a.moved.weights, "cache": a.moved.cache, "scratch": a.moved.scratch,
            "activations": a.moved.input + a.moved.output,
        }  # fmt: skip
        return {name: float(value) / float(a.bytes) for name, value in terms.items()}

    for phase in PHASES:
        terms = {t: (shares(phase, 1, t), shares(phase, 2, t)) for t in ("fused", "unfused")}
        for term, traffic, threshold in TESTS:
            now, twice = (parts[term] for parts in terms[traffic])
            yield Dominance(phase, term, traffic == "unfused", now, threshold, twice)
