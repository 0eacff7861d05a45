"""Time of a training step besides its work: waiting for the slowest rank, and host time between steps.

Every rank waits for the slowest. If rank times scatter by a relative σ, the slowest of N is later than the mean by
about σ·√(2 ln N) (maximum of N normal variables: Cramér, Mathematical Methods of Statistics, §28.6). Steps measured on
a node of eight already include its share:

    waiting = (σ·(√(2 ln N) − √(2 ln 8)) for N > 8) · seconds + step_s
"""

from __future__ import annotations

import numpy as np

from roofline.declared.maths import Count, is_array, most
from roofline.inference.span import Span
from roofline.kernels.target import Target

NODE = 8
"""Least number of ranks in the runs that an engine's slow-down factors were fitted on."""
UNFITTED = 1.1
"""Factor on the interval of an engine without a known run on this chip: an assumption."""
MOST = 2.0
"""Upper end of the waiting time's interval, relative to the expected value; the lower end is 0."""


def waiting_of(step: Span, chips: Count, target: Target) -> Span:
    """Seconds that a step on `chips` chips takes besides its work; 0 under an ideal law."""
    if target.mode.name != "calibrated":
        return Span(0.0, 0.0, 0.0, 0.0)
    beyond = late(chips) - late(NODE)
    seconds = target.engine.scatter * most(0.0, beyond) * step.expected + target.engine.between_s
    return Span(0.0, seconds, 0.0 * seconds, MOST * seconds)


def late(ranks: Count) -> Count:
    """Standard deviations by which the slowest of N ranks is later than the mean, √(2 ln N).

    >>> round(late(8), 3), late(1)
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
