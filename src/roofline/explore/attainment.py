"""The share of requests that keep a limit, and the seconds that a share of them does not exceed.

Both come from percentiles of a server, and of pools from the variance of their waits.
"""

from __future__ import annotations

from dataclasses import replace
from math import erfc, exp, log, sqrt
from statistics import NormalDist

import numpy as np

from roofline.declared.maths import Count
from roofline.distinct import Array
from roofline.estimates.tails import DEVIATIONS, MOST_VARIED, Percentiles, Tail, Varied

UNEVEN = 0.03
"""Deviation of TPOT in a pool that only decodes, over its mean."""


def seconds_of(tail: Tail, share: float) -> Array:
    """What so many of the requests do not exceed.

    Cube roots are taken to be linear in normal deviations, between the percentiles and beyond them, as those of a gamma
    distribution nearly are.
    """
    z, roots = NormalDist().inv_cdf(share), _roots(tail)
    i = int(np.clip(np.searchsorted(DEVIATIONS, z), 1, len(DEVIATIONS) - 1))
    slope = (roots[i] - roots[i - 1]) / (DEVIATIONS[i] - DEVIATIONS[i - 1])
    return np.asarray(np.maximum(roots[i] + slope * (z - DEVIATIONS[i]), 0.0) ** 3)


def share_beyond(tail: Tail, limit: float) -> Array:
    """The share of requests that exceed a limit: what `seconds_of` leaves out."""
    roots, root, normal = _roots(tail), np.cbrt(limit), np.asarray(DEVIATIONS)
    i = np.clip(np.sum(roots < root, axis=0), 1, len(DEVIATIONS) - 1)
    below, above = (np.take_along_axis(roots, place[np.newaxis], axis=0)[0] for place in (i - 1, i))
    each = np.maximum((above - below) / (normal[i] - normal[i - 1]), 1e-12)
    beyond = np.asarray(_ABOVE((normal[i] + (root - above) / each) / sqrt(2)), dtype=float) / 2
    return np.asarray(np.where(roots[-1] <= roots[0], roots[-1] > root, beyond))


_ABOVE = np.frompyfunc(erfc, 1, 1)


def least_over_mean(share: float) -> float:
    """What so many of the requests do not exceed, over the mean, at least: 1 of shares from 0.75 on.

    Of distributions as `Varied` has them, gamma or lognormal, whose variance is at most `MOST_VARIED` times the mean
    squared. Both are least at the ends: where nothing varies, and where all of it does.
    """
    z, deviation = NormalDist().inv_cdf(share), sqrt(log(1 + MOST_VARIED))
    gamma = max(1 - MOST_VARIED / 9 + z * sqrt(MOST_VARIED) / 3, 0.0) ** 3
    return min(1.0, gamma, exp(z * deviation - deviation**2 / 2))


def _roots(tail: Tail) -> Array:
    every = np.broadcast_arrays(*(np.asarray(getattr(tail, name)) for name in tail.FIGURES))
    return np.asarray(np.cbrt(np.stack(every)))


def pool_percentiles(
    ttft: Count, tpot: Count, more: Count, waits: tuple[Count, Count], varied: tuple[Count, Count]
) -> Percentiles:
    """Percentiles of requests that pass two pools, of means; `waits`: those for prefill and for a decode step.

    `varied`: squared coefficients of variation of the lengths of prompts and answers. A prompt varies by its length. A
    wait for prefill varies by more than its mean, as that of a queue that is often empty does; one for a decode step is
    of any part of it.
    """
    mean, each = np.asarray(ttft), np.asarray(tpot)
    queue, joining = map(np.asarray, waits)
    own = mean - queue - joining
    prompts = varied[0] * own**2
    first = Varied(np.zeros_like(mean), mean, prompts + 3 * queue**2 + joining**2 / 3, by_length=prompts)
    following = Varied(np.zeros_like(each), each, (UNEVEN * each) ** 2)
    whole = following.times(more)
    by_length = varied[1] * whole.mean**2
    latency = first + replace(whole, variance=whole.variance + by_length, by_length=by_length)
    return Percentiles(first.tail(), following.tail(), latency.tail(), True)
