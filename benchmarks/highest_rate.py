"""The highest rate at which something still meets its limits."""

from __future__ import annotations

from collections.abc import Callable


def highest_rate(meets: Callable[[float], bool], low: float, high: float, within: float = 0.01) -> float:
    """The highest rate at which limits are met, by bisection, to a share `within` of it; 0 where none is.

    low: a rate from which the search begins; high: the first guess of one at which they are not met, doubled while they
    are. `meets` is taken to fall from true to false once. A `low` at which they are not met gives 0: whoever asks knows
    something better already.
    """
    if low > 0 and not meets(low):
        return 0.0
    while meets(high):
        low, high = high, 2 * high
    while high - low > within * high and high > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low
