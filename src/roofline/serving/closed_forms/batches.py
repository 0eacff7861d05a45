"""Steps that take the prompts which arrived during the previous one: a Markov chain of their number, on a few points.

Points up to a step's room stand for the numbers between them: a Poisson number is split between its two neighbouring
points so that its mean is kept, up to that room. Arrays: the first axes are those of the points, the others those of
the settings.
"""

from __future__ import annotations

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.serving.closed_forms.interpolation import interpolated

POINTS = 16
"""Points that stand for the number of prompts of a step."""
FEW = 12
"""Number from which a Poisson distribution is treated as normal."""
INSIDE, WAITING = 11, 8
"""Points for the work of a step, and for the work that waits for the next one."""
LITTLE, FAR = 0.12, 24.0
"""Least work that is distinguished from none, and the most that waits beyond eight full steps, in prompts."""
MIXED = 1e-9
"""Probability of a jump to a random state; without it, a chain of separate parts has no stationary distribution."""


def spread_points(room: Array) -> Array:
    """Numbers of prompts from 1 to a step's room: whole numbers first, then farther apart."""
    parts = np.linspace(0, 1, POINTS).reshape(-1, *(1 for _ in np.shape(room)))
    power = np.maximum(np.log(np.maximum(room - 1, 1e-9)) / np.log(POINTS - 1), 1.0)
    return np.asarray(1 + (room - 1) * parts**power)


def excess(mean: Array, number: Array) -> Array:
    """E max(N − number, 0) for Poisson numbers N: [means, numbers, …].

    Exact up to `FEW` and linear between whole numbers; beyond, σ·φ(z) + (mean − number)·Φ(z), as for normal numbers.
    """
    chance = upto = np.exp(-mean)
    beyond = [mean]
    for j in range(FEW):
        beyond.append(beyond[-1] - 1 + upto)
        chance = chance * mean / (j + 1)
        upto = upto + chance
    over = np.array(interpolated(np.arange(FEW + 1.0), np.stack(beyond), number))
    many = np.broadcast_to(number >= FEW, over.shape)
    if many.any():
        mean, number = np.broadcast_to(mean, over.shape)[many], np.broadcast_to(number, over.shape)[many]
        tail = normal_excess(mean - number, np.sqrt(np.maximum(mean, 1e-12)))
        over[many] = np.maximum(tail, np.maximum(mean - number, 0.0))
    return over


def poisson_shares(means: Array, points: Array, uneven: Array | float = 1.0) -> Array:
    """Probability of 0 and of each point for Poisson numbers of these means: [mean, 0 and the points].

    The last point stands for all numbers beyond. `uneven`: 1/R where every R-th arrival counts. Of n arrivals ⌊(n +
    U)/R⌋ then count, with U uniform, and E max(N − x, 0) is E max(n − R·x, 0)/R.
    """
    ends = np.concatenate([np.zeros_like(points[:1]), points])
    beyond = excess(means[:, np.newaxis] / uneven, ends[np.newaxis] / uneven) * uneven
    over = (beyond[:, :-1] - beyond[:, 1:]) / np.maximum(np.diff(ends, axis=0), 1e-12)
    shares = np.concatenate([1 - over[:, :1], over[:, :-1] - over[:, 1:], over[:, -1:]], axis=1)
    shares = np.maximum(shares, 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def token_points(room: Array) -> Array:
    """Amounts of work, in prompts, up to a step's room and beyond it."""
    inside, beyond = (np.linspace(0, 1, n).reshape(-1, *(1 for _ in np.shape(room))) for n in (INSIDE, WAITING))
    least = np.minimum(LITTLE, room / 8)
    return np.concatenate([least * (room / least) ** inside, room * (8 + FAR / room) ** beyond[1:]])


def compound_excess(mean: Array, number: Array, varied: Array, uneven: Array) -> Array:
    """E max(W − number, 0) for the work W of `mean` prompts on average, in prompts.

    `varied`: squared coefficient of variation of a prompt's work. `uneven`: as for `poisson_shares`. The work of at
    least one prompt is taken as lognormal with its own mean and variance, which is exact for a single lognormal prompt.
    """
    mean = np.maximum(mean, 1e-12)
    none = no_one(mean, uneven)
    some = np.maximum(1 - none, 1e-12)
    each = mean / some
    variance = (varied + uneven) * mean + (1 - uneven) * some * np.maximum(none, 1 / 6)  # with that of U
    square = np.maximum(np.log((1 + variance / mean**2) * some), 1e-6)
    deviation = np.sqrt(square)
    d = (np.log(each / np.maximum(number, 1e-12)) + square / 2) / deviation
    beyond = some * (each * normal_share(d) - number * normal_share(d - deviation))
    return np.asarray(np.where(number > 0, np.maximum(beyond, 0.0), mean - number))


def no_one(mean: Array, uneven: Array) -> Array:
    """Probability that no request arrives where `mean` do on average. `uneven`: as for `poisson_shares`."""
    if np.all(uneven >= 1):
        return np.asarray(np.exp(-mean))
    return np.asarray(np.clip(1 - mean + excess(mean / uneven, 1 / uneven) * uneven, 1e-300, 1.0))


def normal_excess(mean: Array, deviation: Array) -> Array:
    """E max(X, 0) of a normal X: σ·φ(z) + m·Φ(z), z = m/σ."""
    z = mean / deviation
    density = np.exp(-np.minimum(z * z / 2, 700.0)) / np.sqrt(2 * np.pi)
    return np.asarray(deviation * density + mean * normal_share(z))


def normal_share(z: Array) -> Array:
    """The standard normal distribution function Φ(z), to 2e-4."""
    return np.asarray(1 / (1 + np.exp(np.clip(z * (-1.5976 - 0.07056 * z * z), -500.0, 500.0))))


def token_shares(means: Array, points: Array, left: Array, varied: Array, uneven: Array) -> Array:
    """Probability of 0 and of each amount of work for these mean arrivals: [mean, 0 and the points].

    `left`: work left over from before. Work below the first point counts as that point; only no work at all counts as
    0.
    """
    beyond = compound_excess(means[:, np.newaxis], points[np.newaxis] - left[:, np.newaxis], varied, uneven)
    over = (beyond[:, :-1] - beyond[:, 1:]) / np.maximum(np.diff(points, axis=0), 1e-12)
    none = np.where(left > 0, 0.0, no_one(means, uneven))[:, np.newaxis]
    shares = np.concatenate([none, 1 - none - over[:, :1], over[:, :-1] - over[:, 1:], over[:, -1:]], axis=1)
    shares = np.maximum(shares, 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def solved(matrix: Array, right: Array) -> Array:
    """Solve matrix·x = right for every element; the first axes are the rows and columns."""
    rows, column = np.moveaxis(matrix, (0, 1), (-2, -1)), np.moveaxis(right, 0, -1)[..., np.newaxis]
    return np.moveaxis(np.linalg.solve(rows, column)[..., 0], -1, 0)


def stationary(steps: Array) -> Array:
    """Stationary distribution of a Markov chain with transition probabilities [from, to]."""
    number = len(steps)
    one = np.eye(number).reshape(number, number, *(1 for _ in steps.shape[2:]))
    balance = np.swapaxes((1 - MIXED) * steps + MIXED / number, 0, 1) - one
    balance[-1] = 1.0
    right = np.zeros(steps.shape[1:])
    right[-1] = 1.0
    return np.maximum(solved(balance, right), 0.0)
