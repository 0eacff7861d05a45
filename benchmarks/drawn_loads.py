"""How many rows each expert has in the tables of experts: the loads that aiconfigurator's collector draws.

`balanced` deals tokens out at even strides.  `power_law_α` draws a weight for each expert from a density ∝ x^-α between
1 and 0.8 of the tokens (between 0.01 and 2 where there are fewer pairs than experts), scales the weights to all pairs,
rounds them, bounds them by the tokens, gives or takes what is left over one pair at a time, rank by rank, and calls the
most loaded rank rank 0.  (github.com/ai-dynamo/aiconfigurator, collector/helper.py: balanced_logits and
_generate_power_law_distribution.)  A row of the tables is the mean time of five draws.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

DRAWS = 5
"""Draws behind each row of the tables."""
FULLEST = 0.8
"""Share of the tokens that the most popular expert is drawn up to."""


@dataclass(frozen=True)
class Loads:
    """What rank 0 computes, on average: distinct experts and token-expert pairs."""

    touched: float
    rows: float


@cache
def balanced(tokens: int, topk: int, count: int, ranks: int) -> Loads:
    """Slot j of token t goes to expert t + j·⌈count/topk⌉; fewer tokens than that stride are spread out over it."""
    mine = max(1, count // ranks)
    step = -(-count // topk)
    whole, rest = divmod(tokens, count)
    slots = np.arange(topk)[None, :] * step
    gap = max(1.0, step / tokens)

    def chosen(span: int) -> NDArray[np.int64]:
        each = (np.arange(span)[:, None] * gap + slots).astype(np.int64) % count
        return each[each < mine]

    pairs = whole * topk * mine + chosen(rest).size
    return Loads(len(np.unique(chosen(min(tokens, count)))), pairs)


@cache
def drawn(exponent: float, tokens: int, topk: int, count: int, ranks: int, heaped: bool = False) -> Loads:
    """Means over draws of `power_law_exponent`, of the most loaded rank. Seeded: the same each time.

    `heaped`: as the collector did at first, which gave what was left over to the most popular experts.
    """
    rng = np.random.default_rng((round(1000 * exponent), tokens, topk, count, ranks))
    low, high = (1.0, max(FULLEST * tokens, 1.0)) if tokens * topk > count else (0.01, 2.0)
    touched, rows = [], []
    for _ in range(DRAWS):
        weight = truncated_power_law(rng.random(max(1, count // ranks) * ranks), exponent, low, high)
        loads = dealt(weight, tokens, topk, ranks, heaped)
        fullest = loads[np.argmax(loads.sum(axis=1))]
        touched.append(np.count_nonzero(fullest))
        rows.append(int(fullest.sum()))
    return Loads(float(np.mean(touched)), float(np.mean(rows)))


def truncated_power_law(chance: NDArray[np.float64], exponent: float, low: float, high: float) -> NDArray[np.float64]:
    """The values with these chances of a smaller one, of a density ∝ x^-exponent between `low` and `high`."""
    if exponent == 1:
        return np.asarray(low * (high / low) ** chance)
    power = 1 - exponent
    return np.asarray((low**power + chance * (high**power - low**power)) ** (1 / power))


def dealt(weight: NDArray[np.float64], tokens: int, topk: int, ranks: int, heaped: bool = False) -> NDArray[np.int64]:
    """Whole loads [rank, expert] in proportion to `weight`: tokens·topk in all, no expert with more than the tokens.

    What rounding leaves over goes to the least popular experts, too much comes from the most popular; `heaped`: both
    concern the most popular ones, one pair each.
    """
    pairs = tokens * topk
    loads = np.minimum(np.rint(weight / weight.sum() * pairs).astype(np.int64), tokens).reshape(ranks, -1)
    while left := pairs - int(loads.sum()):
        step = 1 if left > 0 else -1
        free: NDArray[np.bool_] = loads < tokens if left > 0 else loads > 0
        if heaped:
            order = np.argsort(-loads, axis=None)
            most = order[free.reshape(-1)[order]][: abs(left)]
            loads.reshape(-1)[most] += step
            continue
        for rank in np.flatnonzero(free.any(axis=1))[: abs(left)]:
            ends = np.where(free[rank], loads[rank], tokens + 1 if left > 0 else -1)
            loads[rank, ends.argmin() if left > 0 else ends.argmax()] += step
    return loads


Row = tuple[str, int, int, int, int]


def loads_of(rows: Iterable[Row], heaped: bool = False) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(distinct experts, pairs) of rank 0 of rows of distribution, tokens, topk, experts and ranks."""
    each = [
        balanced(*sizes)
        if distribution == "balanced"
        else drawn(float(distribution.rpartition("_")[2]), *sizes, heaped=heaped)
        for distribution, *sizes in rows
    ]
    return np.array([e.touched for e in each], dtype=float), np.array([e.rows for e in each], dtype=float)
