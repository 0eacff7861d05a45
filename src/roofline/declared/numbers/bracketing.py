"""Bracketing and root search: the last or first value at which limits hold, over integers or real numbers.

All searches over numbers use this module, except `inference.memory.largest`, which finds an integer for each element of
an array. `use` says how much of its limits a value uses: at most 1 where they hold, infinite where there is no answer
or the answer is no.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, log2, sqrt

import numpy as np

from roofline.declared.numbers.arrays import Array

TOLERANCE = 1e-9
"""Relative tolerance of a real answer: the limits fail this far beyond it."""
LEAST, MOST_STEPS = 1e-300, 100
"""Use of the limits that counts as none, and steps of false position at most."""
EACH = 1
"""Points per doubling at which a real value is bracketed first."""
POINTS, MOST_AT_ONCE = 2**11, 6
"""Maximum number of array elements evaluated at once, and maximum number of bisection steps combined."""


@dataclass(frozen=True)
class Reached:
    """The outcome of a search.

    `value`: None where no value holds. `beyond`: the next value, where the limits fail; None at the end of the range.
    `evaluations`: number of values evaluated. `single`: every value evaluated on the inner side of `value` holds.
    """

    value: float | None
    beyond: float | None
    evaluations: int
    single: bool = True


def halved(holds: Callable[[Array], Array], low: Array, high: Array, times: int) -> tuple[Array, Array]:
    """Bisect each element of an array: the bracket in which `holds` turns false, after `times` halvings.

    For small arrays the points of several halvings are evaluated at once, along a new first axis, with the same result.

    >>> low, high = halved(lambda x: x * x <= np.array([2.0, 9.0]), np.zeros(2), np.full(2, 8.0), 30)
    >>> low.round(6).tolist(), high.round(6).tolist()
    ([1.414214, 3.0], [1.414214, 3.0])
    """
    low, high = np.broadcast_arrays(low, high)
    at_once = min(MOST_AT_ONCE, max(1, int(log2(POINTS / max(1, low.size)))))
    while times > 0:
        at_once = min(at_once, times)
        parts = 2**at_once
        width = (high - low) / parts
        points = low + width * np.arange(1, parts).reshape(-1, *(1 for _ in low.shape))
        answer = np.asarray(holds(points))
        holding = np.broadcast_to(answer, np.broadcast_shapes(answer.shape, points.shape))
        place = np.zeros(holding.shape[1:], dtype=np.int64)
        for level in reversed(range(at_once)):
            further = place + 2**level
            place = np.where(np.take_along_axis(holding, further[np.newaxis] - 1, axis=0)[0], further, place)
        low, high, times = low + width * place, low + width * (place + 1), times - at_once
    return low, high


def spread(least: int, most: int, each: int = 4) -> Array:
    """Integers from `least` to `most`, `each` per doubling.

    >>> spread(1, 8, 1).tolist()
    [1, 2, 4, 8]
    """
    steps = max(1, round(each * np.log2(most / least))) if most > least else 0
    return np.unique(np.round(np.geomspace(least, most, steps + 1)).astype(np.int64))


def adjacent(inner: int, outer: int, holds: Callable[[Array], Array], block: int = 1) -> tuple[int, int]:
    """The adjacent integers between which `holds` turns false, from `inner` (it holds) to `outer` (it fails).

    At most `block` numbers are evaluated at once; the last of them that holds is kept.

    >>> adjacent(1, 1000, lambda n: n <= 300), adjacent(1000, 0, lambda n: n > 7, 16)
    ((300, 301), (8, 7))
    """
    while abs(outer - inner) > 1:
        points = np.unique(np.linspace(inner, outer, min(block, abs(outer - inner) - 1) + 2).astype(np.int64))[1:-1]
        ordered = points if outer > inner else points[::-1]
        holding = np.flatnonzero(np.broadcast_to(holds(ordered), ordered.shape))
        last = int(holding[-1]) if holding.size else -1
        inner, outer = (
            int(ordered[last]) if last >= 0 else inner, int(ordered[last + 1]) if last + 1 < len(ordered) else outer
        )  # fmt: skip
    return inner, outer


def whole_end(low: int, high: int, use: Callable[[Array], Array], greatest: bool, block: int) -> Reached:
    """The greatest or the least integer from `low` to `high` at which the limits hold.

    Integers at four per doubling are evaluated first, then at most `block` at a time between two of them, in the end
    every one. A stretch that holds between two of the first points, both of which fail, is missed.
    """
    known: dict[int, bool] = {}

    def holds(values: Array) -> Array:
        holding = np.broadcast_to(use(values) <= 1, values.shape)
        known.update(zip(values.tolist(), holding.tolist(), strict=True))
        return holding

    values = spread(low, high)
    places = np.flatnonzero(holds(values))
    if not places.size:
        return Reached(None, None, len(known))
    i = int(places[-1] if greatest else places[0])
    inner, outer = int(values[i]), None
    if i != (len(values) - 1 if greatest else 0):
        inner, outer = adjacent(inner, int(values[i + 1 if greatest else i - 1]), holds, block)
    single = all(holding for value, holding in known.items() if (value < inner if greatest else value > inner))
    return Reached(inner, outer, len(known), single)


def real_end(low: float, high: float, use: Callable[[float], float], greatest: bool, tolerance: float) -> Reached:
    """The greatest or the least real number from `low` to `high` at which the limits hold, to a relative tolerance.

    Points at one per doubling bracket the answer. False position then finds the root in logarithms of the use of the
    limits if it is finite on both sides; otherwise bisection. The answer is on the side that holds, and
    `beyond` is at most the tolerance away on the other.
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
    """A value that holds and one that does not, at most the tolerance apart."""
    if used(inner) > 0 and used(outer) < inf:
        at = _root_between(
            inner, outer, lambda x: log(min(max(used(x), LEAST), 1 / LEAST)), tolerance * min(inner, outer) / 4
        )
        for near in (at, at * (1 - tolerance / 3), at * (1 + tolerance / 3)):
            if not min(inner, outer) < near < max(inner, outer):
                continue
            inner, outer = (near, outer) if used(near) <= 1 else (inner, near)
    while abs(outer - inner) > tolerance * min(inner, outer):
        middle = sqrt(inner) * sqrt(outer)
        if not min(inner, outer) < middle < max(inner, outer):
            break
        inner, outer = (middle, outer) if used(middle) <= 1 else (inner, middle)
    return inner, outer


def _root_between(a: float, b: float, function: Callable[[float], float], tolerance: float) -> float:
    """A root of a function with opposite signs at the ends, by the Illinois variant of false position.

    The value at an end that stays is halved each time (Dowell and Jarratt 1971, doi:10.1007/BF01934364). It ends where
    a step or the bracket is shorter than the tolerance.
    """
    at_a, at_b = function(a), function(b)
    for _ in range(MOST_STEPS):
        between = b - at_b * (b - a) / (at_b - at_a)
        value = function(between)
        near = abs(between - b) < tolerance or value == 0
        if value * at_b < 0:
            a, at_a = b, at_b
        else:
            at_a /= 2
        b, at_b = between, value
        if near or abs(b - a) < tolerance:
            break
    return b
