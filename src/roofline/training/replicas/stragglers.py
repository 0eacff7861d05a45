"""Time of a training step besides its work: waiting for the slowest rank, and host time between steps.

Every rank waits for the slowest. If rank times scatter by a relative σ, the slowest of N is later than the mean by
about σ·√(2 ln N) (maximum of N normal variables: Cramér, Mathematical Methods of Statistics, §28.6). Steps measured on
a node of eight already include its share:

    waiting = (σ·(√(2 ln N) − √(2 ln 8)) for N > 8) · seconds + step_s

Where a call says which share of chips is how much slower, that takes its place. Every chip's slowdown f is drawn; a
stage waits for the slowest of its chips, a pipeline for its slowest stage, which passes all micro-batches m:

    waiting = m · (E[max over stages of communication + f · computation] − max over stages of both) + step_s
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.numbers.maths import Count, is_array, most
from roofline.inference.span import Span, total
from roofline.kernels.target import Target
from roofline.layout.layout import Layout
from roofline.training.passes import Passes

NODE = 8
"""Least number of ranks in the runs that an engine's slow-down factors were fitted on."""
UNFITTED = 1.1
"""Factor on the interval of an engine without a known run on this chip: an assumption."""
MOST = 2.0
"""Upper end of the waiting time's interval, relative to the expected value; the lower end is 0."""
SLOWED = "SHARE:SLOWDOWN of chips, such as 0.01:1.2, or several with commas; shares add up to at most 1"


@dataclass(frozen=True)
class Stragglers:
    """Chips that compute more slowly than others: each (share of chips, slowdown above 1), the least slow first."""

    slower: tuple[tuple[float, float], ...]

    @property
    def drawn(self) -> tuple[tuple[float, float], ...]:
        """Each (share of chips, slowdown), with the chips that are not slower."""
        return (max(0.0, 1 - sum(share for share, _ in self.slower)), 1.0), *self.slower

    def later(self, stages: Sequence[tuple[Passes, int]], chips: Count) -> Count:
        """Expected seconds of a micro-batch by which the slowest stage is later than with equal chips.

        `stages`: the passes of a stage, and how many have these; `chips`: of one stage. The maximum of independent
        times has the product of their distributions: E = Σ tₖ·(F(tₖ) − F(tₖ₋₁)), F(t) = Π P(stage's time ≤ t)^chips.
        """
        shares = [share for share, _ in self.drawn]
        times = [
            [p.busy.expected + (slowdown - 1) * (p.busy.expected - total(p.exchange.values()).expected)
             for _, slowdown in self.drawn]
            for p, _ in stages
        ]  # fmt: skip
        every = np.sort(np.stack(np.broadcast_arrays(*(t for row in times for t in row), 0.0 * chips)[:-1]), axis=0)
        result, before = 0.0 * every[0], 0.0 * every[0]
        for t in every:
            below = 1.0 + 0.0 * t
            for row, (_, number) in zip(times, stages, strict=True):
                below = below * sum(s * (x <= t) for s, x in zip(shares, row, strict=True)) ** (chips * number)
            result, before = result + t * (below - before), below
        later = result - reduce(most, (row[0] for row in times))
        return later if later.ndim else float(later)


def stragglers_named(value: Given) -> Stragglers | None:
    """The stragglers of a text such as `0.01:1.2,0.001:2`. Raises InputError for anything else."""
    if value is None or isinstance(value, Stragglers):
        return value
    try:
        rows = [tuple(map(float, row.split(":"))) for row in value.split(",")]
        slower = tuple(sorted(((share, slowdown) for share, slowdown in rows), key=lambda row: row[1]))
    except (AttributeError, ValueError):
        raise InputError("stragglers", value, SLOWED) from None
    possible = all(0 < share <= 1 and 1 < slowdown < np.inf for share, slowdown in slower)
    if not possible or sum(share for share, _ in slower) > 1:
        raise InputError("stragglers", value, SLOWED)
    return Stragglers(slower)


def late_seconds(
    slow: Stragglers | None, stages: Sequence[Passes], micro_batches: Count, layout: Layout
) -> Count | None:
    """Seconds of a step that it waits for the slowest of its chips; None where nothing is said of them."""
    if slow is None:
        return None
    kinds = {id(passes): passes for passes in stages}
    number = Counter(map(id, stages))
    return micro_batches * slow.later([(p, number[key]) for key, p in kinds.items()], layout.chips // layout.pp)


def waiting_of(step: Span, chips: Count, target: Target, late: Count | None = None) -> Span:
    """Seconds that a step on `chips` chips takes besides its work.

    `late`: those for the slowest chip; by default as ranks scatter under the engine, and 0 under an ideal law.
    """
    measured = target.mode.name == "calibrated"
    if late is None:
        beyond = most(0.0, deviations(chips) - deviations(NODE))
        late = target.engine.scatter * beyond * step.expected if measured else 0.0
    seconds = late + target.engine.between_s if measured else late
    return Span(0.0, seconds, 0.0 * seconds, MOST * seconds)


def deviations(ranks: Count) -> Count:
    """Standard deviations by which the slowest of N ranks is later than the mean, √(2 ln N).

    >>> round(deviations(8), 3), deviations(1)
    (2.039, 0.0)
    """
    value = np.sqrt(2 * np.log(ranks))
    return value if is_array(ranks) else float(value)


def known_interval(step: Span, target: Target, sparse: bool) -> Span:
    """The span with the interval that the engine's measured runs had around predictions, never below the floor.

    Without measured runs it is the interval of the ops, widened by UNFITTED on both sides.
    """
    engine, generation = target.engine, target.chip.generation
    if target.mode.name != "calibrated":
        return step
    ends = engine.ends(generation, sparse)
    wider = UNFITTED if engine.unfitted(generation) else 1.0
    low, high = (step.low / wider, step.high * wider) if ends is None else (x * step.expected for x in ends)
    return Span(step.floor, step.expected, most(low, step.floor), high)
