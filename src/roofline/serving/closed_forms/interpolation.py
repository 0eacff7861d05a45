"""Linear interpolation on grids. Arrays: the first axis is that of the grid's points."""

from __future__ import annotations

import numpy as np

from roofline.declared.numbers.arrays import Array


def interpolated(grid: Array, values: Array, at: Array) -> Array:
    """Interpolate values linearly between the points of a grid, both along the first axis; constant beyond its ends.

    >>> interpolated(np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 40.0]), np.array([0.0, 1.5, 3.0, 9.0])).tolist()
    [10.0, 15.0, 30.0, 40.0]
    """
    left, part = neighbour(grid, at)
    first = taken(values, left)
    return np.asarray(first + (taken(values, left + 1) - first) * part)


def neighbour(grid: Array, at: Array) -> tuple[Array, Array]:
    """Index of the grid point left of each place, at most the last but one, and the fraction towards the next."""
    line = grid.size == len(grid)
    grid = grid.reshape(-1) if line else grid.reshape(len(grid), *(1,) * (at.ndim + 1 - grid.ndim), *grid.shape[1:])
    right = np.searchsorted(grid[1:], at, "right") if line else (grid[1:] <= at).sum(axis=0)
    left = np.minimum(right, len(grid) - 2)
    start, end = taken(grid, left), taken(grid, left + 1)
    return left, np.minimum(np.maximum((at - start) / np.where(end > start, end - start, 1.0), 0.0), 1.0)


def taken(values: Array, *places: Array) -> Array:
    """Values at indices of the first axes, one for each element of the other axes, which broadcast with the indices."""
    others = values.shape[len(places) :]
    along = (np.arange(n).reshape(-1, *(1,) * (len(others) - 1 - i)) for i, n in enumerate(others))
    return np.asarray(values[(*places, *along)])
