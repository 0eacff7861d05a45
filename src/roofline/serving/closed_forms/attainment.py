"""SLO attainment: the share of requests that keep a limit, and the quantile of a latency at a given share.

Both are interpolated from the percentiles of a server. The percentiles of a disaggregated server come from the
variance of its waiting times.
"""

from __future__ import annotations

from dataclasses import replace
from math import erfc, exp, log, sqrt
from statistics import NormalDist

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count
from roofline.serving.closed_forms.percentiles import DEVIATIONS, MOST_VARIED, Percentiles, Tail, Varied

UNEVEN = 0.03
"""Coefficient of variation of TPOT in a decode pool."""


def seconds_of(tail: Tail, share: float) -> Array:
    """The quantile in seconds: the time that this `share` of the requests does not exceed.

    Cube roots of times are taken as linear in normal deviates, between the known percentiles and beyond them. For a
    gamma distribution this is nearly exact (Wilson–Hilferty).
    """
    z, roots = NormalDist().inv_cdf(share), _roots(tail)
    i = int(np.clip(np.searchsorted(DEVIATIONS, z), 1, len(DEVIATIONS) - 1))
    slope = (roots[i] - roots[i - 1]) / (DEVIATIONS[i] - DEVIATIONS[i - 1])
    return np.asarray(np.maximum(roots[i] + slope * (z - DEVIATIONS[i]), 0.0) ** 3)


def share_beyond(tail: Tail, limit: float) -> Array:
    """The share of requests that exceed a limit in seconds: the inverse of `seconds_of`."""
    roots, root, normal = _roots(tail), np.cbrt(limit), np.asarray(DEVIATIONS)
    i = np.clip(np.sum(roots < root, axis=0), 1, len(DEVIATIONS) - 1)
    below, above = (np.take_along_axis(roots, place[np.newaxis], axis=0)[0] for place in (i - 1, i))
    each = np.maximum((above - below) / (normal[i] - normal[i - 1]), 1e-12)
    beyond = np.asarray(_ABOVE((normal[i] + (root - above) / each) / sqrt(2)), dtype=float) / 2
    return np.asarray(np.where(roots[-1] <= roots[0], roots[-1] > root, beyond))


_ABOVE = np.frompyfunc(erfc, 1, 1)


def least_over_mean(share: float) -> float:
    """Lower bound of the quantile at this `share`, as a multiple of the mean; 1 for shares from 0.75 on.

    It covers the distributions of `Varied`, gamma and lognormal, with a variance of at most `MOST_VARIED` times the
    mean squared. The quantile over the mean is least at one end of that range: no variance, or the largest.
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
    """Percentiles of requests that pass a prefill pool and a decode pool, from mean times in seconds.

    `more`: tokens after the first. `waits`: mean waits for prefill and for a decode step. `varied`: squared
    coefficients of variation of the lengths of prompts and answers. Prefill time varies with the prompt's length. The
    wait for prefill has variance 3·mean², as in a queue that is often empty. The wait for a decode step is uniform:
    mean²/3.
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
