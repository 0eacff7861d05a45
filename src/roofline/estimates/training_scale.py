"""What a training step takes beside its work: waiting for the slowest of many ranks, and the host between steps.

Every rank waits for the slowest. Where the times of ranks scatter by a share σ, the slowest of N is later than the mean
by about σ·√(2 ln N) of them (the greatest of N normal numbers: Cramér, Mathematical Methods of Statistics, §28.6).
What is measured on a node of eight has its part of it already:

    waiting = (σ·(√(2 ln N) − √(2 ln 8)) for N > 8) · seconds + step_s
"""

from __future__ import annotations

import numpy as np

from roofline.declared.maths import Count, is_array, most
from roofline.estimates.span import Span
from roofline.machine.target import Target

NODE = 8
"""Ranks on which a step was timed that an engine's slow-downs are fitted on, at least."""
UNFITTED = 1.1
"""Factor on the interval of an engine of which no run on such a chip is known: an assumption."""
MOST = 2.0
"""The upper end of the interval of waiting, over what is expected; the lower end is none."""


def waiting_of(step: Span, chips: Count, target: Target) -> Span:
    """Seconds that a step on so many chips takes beside its work, by the engine; none where kernels are perfect."""
    if target.mode.name != "calibrated":
        return Span(0.0, 0.0, 0.0, 0.0)
    beyond = late(chips) - late(NODE)
    seconds = target.engine.scatter * most(0.0, beyond) * step.expected + target.engine.between_s
    return Span(0.0, seconds, 0.0 * seconds, MOST * seconds)


def late(ranks: Count) -> Count:
    """By how many standard deviations the slowest of N ranks is later than the mean, √(2 ln N).

    >>> round(late(8), 3), late(1)
    (2.039, 0.0)
    """
    value = np.sqrt(2 * np.log(ranks))
    return value if is_array(ranks) else float(value)


def known_interval(step: Span, target: Target, sparse: bool) -> Span:
    """The span with the interval that an engine's own runs had about its predictions, never below the floor.

    Where none were fitted, that of its ops, and UNFITTED wider on both sides.
    """
    engine, generation = target.engine, target.chip.generation
    if target.mode.name != "calibrated":
        return step
    ends = engine.ends(generation, sparse)
    wider = UNFITTED if engine.unfitted(generation) else 1.0
    low, high = (step.low / wider, step.high * wider) if ends is None else (x * step.expected for x in ends)
    return Span(step.floor, step.expected, most(low, step.floor), high)
