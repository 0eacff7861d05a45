"""The last or the first value at which limits hold: whole numbers in blocks of an array, real ones by a root finder.

`use` says how much of its limits a value takes: at most 1 where they hold, infinite where the answer is no or there is
none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np

from roofline.distinct import Array
from roofline.explore.sweep import spread

TOLERANCE = 1e-9
"""Of a real value that is the answer, relative: as far beyond it the limits hold no longer."""
EACH = 1
"""Points to a doubling of a real value that are looked at first."""
HALVINGS_OF_WHOLE = 64
"""Times that a whole number's bracket may be narrowed: more than its binary digits."""


@dataclass(frozen=True)
class Reached:
    """What was looked for. `value`: None where there is none; `beyond`: the next value, where the limits hold no more,
    None where the range ends. `evaluations`: values that were worked out. `single`: of the values looked at, those at
    which the limits hold lie side by side up to the range's end.
    """

    value: float | None
    beyond: float | None
    evaluations: int
    single: bool = True


def whole_end(low: int, high: int, use: Callable[[Array], Array], greatest: bool, block: int) -> Reached:
    """The greatest, or the least, whole number from `low` to `high` at which the limits hold.

    Looked for between points four to a doubling, then between the points of at most `block` numbers a time, in the end
    all of them: a stretch that lies between two points with what does not hold on both sides is passed over.
    """
    values = spread(low, high) if high > low else np.array([low])
    holding = use(values) <= 1
    looked = len(values)
    if not holding.any():
        return Reached(None, None, looked)
    places = np.flatnonzero(holding)
    i = int(places[-1] if greatest else places[0])
    single = bool(np.all(holding[: i + 1] if greatest else holding[i:]))
    inner = int(values[i])
    if i == (len(values) - 1 if greatest else 0):
        return Reached(inner, None, looked, single)
    outer = int(values[i + 1 if greatest else i - 1])
    for _ in range(HALVINGS_OF_WHOLE):
        if abs(outer - inner) == 1:
            break
        lower, upper = min(inner, outer), max(inner, outer)
        points = np.unique(np.linspace(lower, upper, min(block, upper - lower - 1) + 2).astype(np.int64))[1:-1]
        ordered = points if greatest else points[::-1]
        holds = use(ordered) <= 1
        looked += len(points)
        last = int(np.flatnonzero(holds)[-1]) if holds.any() else -1
        single = single and bool(holds[: last + 1].all())
        if last + 1 < len(ordered):
            outer = int(ordered[last + 1])
        inner = int(ordered[last]) if last >= 0 else inner
    return Reached(inner, outer, looked, single)


def real_end(low: float, high: float, use: Callable[[float], float], greatest: bool, tolerance: float) -> Reached:
    """The greatest, or the least, real number from `low` to `high` at which the limits hold, to a relative tolerance.

    Points one to a doubling find where that changes, SciPy's `brentq` (Brent 1973) the place on logarithms: of the use
    of the limits where it is finite on both sides, else halving. The answer is on the side that holds, and `beyond` no
    further than the tolerance on the other.
    """
    known: dict[float, float] = {}

    def used(value: float) -> float:
        if value not in known:
            known[value] = float(use(value))
        return known[value]

    values = [float(v) for v in np.geomspace(low, high, max(2, round(EACH * log(high / low, 2)) + 1))]
    values[0], values[-1] = low, high
    holding = [used(v) <= 1 for v in values]
    if not any(holding):
        return Reached(None, None, len(known))
    places = [i for i, holds in enumerate(holding) if holds]
    i = places[-1] if greatest else places[0]
    single = all(holding[: i + 1] if greatest else holding[i:])
    if i == (len(values) - 1 if greatest else 0):
        return Reached(values[i], None, len(known), single)
    inner, outer = _narrowed(values[i], values[i + 1 if greatest else i - 1], used, tolerance)
    return Reached(inner, outer, len(known), single)


def _narrowed(inner: float, outer: float, used: Callable[[float], float], tolerance: float) -> tuple[float, float]:
    """A value that holds and one that does not, no further apart than the tolerance."""
    from scipy.optimize import brentq

    if used(inner) > 0 and used(outer) < inf:
        at = brentq(lambda x: log(used(float(x))), inner, outer, xtol=tolerance * min(inner, outer) / 4, rtol=1e-15)
        for near in (float(at), float(at) * (1 - tolerance / 3), float(at) * (1 + tolerance / 3)):
            if not min(inner, outer) < near < max(inner, outer):
                continue
            inner, outer = (near, outer) if used(near) <= 1 else (inner, near)
    while abs(outer - inner) > tolerance * min(inner, outer):
        middle = sqrt(inner) * sqrt(outer)
        if not min(inner, outer) < middle < max(inner, outer):
            break
        inner, outer = (middle, outer) if used(middle) <= 1 else (inner, middle)
    return inner, outer
