"""Linear interpolation on grids. Arrays: the first axis is that of the grid's points."""

from __future__ import annotations

from math import prod

import numpy as np

from roofline.declared.numbers.arrays import Array


def interpolated(grid: Array, values: Array, at: Array) -> Array:
    """Interpolate values linearly between the points of a grid, both along the first axis; constant beyond its ends.

    >>> interpolated(np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 40.0]), np.array([0.0, 1.5, 3.0, 9.0])).tolist()
    [10.0, 15.0, 30.0, 40.0]
    """
    left, part = neighbour(grid, at)
    first, second = both_ends(values, left)
    return np.asarray(first + (second - first) * part)


def neighbour(grid: Array, at: Array) -> tuple[Array, Array]:
    """Index of the grid point left of each place, at most the last but one, and the fraction towards the next."""
    line = grid.size == len(grid)
    grid = grid.reshape(-1) if line else grid.reshape(len(grid), *(1,) * (at.ndim + 1 - grid.ndim), *grid.shape[1:])
    right = np.searchsorted(grid[1:], at, "right") if line else (grid[1:] <= at).sum(axis=0)
    left = np.minimum(right, len(grid) - 2)
    start, end = both_ends(grid, left)
    return left, np.minimum(np.maximum((at - start) / np.where(end > start, end - start, 1.0), 0.0), 1.0)


def taken(values: Array, *places: Array) -> Array:
    """Values at indices of the first axes, one for each element of the other axes, which broadcast with the indices."""
    return np.asarray(values.reshape(-1).take(_flat(values.shape, *places)))


def both_ends(values: Array, left: Array) -> tuple[Array, Array]:
    """Values at indices of the first axis, as `taken` gives them, and those at the following indices."""
    flat, several = _flat(values.shape, left), values.reshape(-1)
    return several.take(flat), several.take(flat + prod(values.shape[1:]))


def _flat(shape: tuple[int, ...], *places: Array) -> Array:
    """Flat indices of these places of the first axes: gathering by one index is several times as fast as by many."""
    others, first = shape[len(places) :], np.zeros((), dtype=np.int64)
    for place, size in zip(places, shape, strict=False):
        first = first * size + place
    each = prod(others)
    return first * each + np.arange(each).reshape(others) if others else first
