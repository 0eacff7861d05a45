"""Unique rows of arrays, so that work that depends only on them is done once per unique row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from roofline.declared.numbers.arrays import Array, np
from roofline.declared.numbers.maths import Count, is_array

FEW = 64
"""Arrays of up to this size are used as they are."""
WORTH = 0.5
"""Maximum share of unique elements for which gathering them pays off."""


@dataclass(frozen=True)
class Distinct:
    """The unique elements of arrays that broadcast to `shape`.

    `first`: flat index of the first occurrence of each. `index`: for every element of the shape, the number of its
    unique element.
    """

    shape: tuple[int, ...]
    first: Array
    index: Array

    def take(self, values: Array) -> Array:
        """The unique elements of one of the arrays."""
        shape = self.shape or (1,)  # an array without axes has one element too
        return np.broadcast_to(values, shape)[np.unravel_index(self.first, shape)]

    def within(self, shape: tuple[int, ...]) -> Array:
        """For every element of a larger shape, flat, the number of its unique element."""
        return np.broadcast_to(self.index, shape).reshape(-1)


def distinct(columns: Sequence[Array]) -> Distinct | None:
    """The unique combinations in some arrays; None where they are too many, or the arrays are small."""
    shape = np.broadcast_shapes(*(c.shape for c in columns))
    size = prod(shape)
    if size <= FEW:
        return None
    factors = [_factors(c.reshape(-1)) for c in columns]
    if len(columns) == 1:
        first, index = factors[0]
    elif prod(c.size for c in columns) == size:
        return None  # they span a grid, which has every combination once
    else:
        codes = np.zeros((1,) * len(shape), dtype=np.int64)
        count = 1
        for column, (known, flat) in zip(columns, factors, strict=True):
            codes, count = codes * len(known) + flat.reshape(column.shape), count * len(known)
            if count > 2**40:
                known, flat = _factors(codes.reshape(-1))
                codes, count = flat.reshape(codes.shape), len(known)
        first, index = _factors(np.broadcast_to(codes, shape).reshape(-1))
    if len(first) > WORTH * size:
        return None
    return Distinct(shape, first, index.reshape(shape))


def everyone(shape: tuple[int, ...]) -> Distinct:
    """Every element of a shape as a unique element."""
    numbers = np.arange(prod(shape), dtype=np.int32)
    return Distinct(shape, numbers, numbers.reshape(shape))


def on_distinct(function: Callable[..., Count], *arguments: Count) -> Count:
    """Apply `function` to numbers and arrays, once per unique combination in the arrays."""
    arrays = [v for v in arguments if is_array(v) and v.ndim]
    kinds = distinct(arrays) if arrays else None
    if kinds is None:
        return function(*arguments)
    result = function(*(kinds.take(v) if is_array(v) and v.ndim else v for v in arguments))
    return np.asarray(result)[kinds.index]


def _factors(values: Array) -> tuple[Array, Array]:
    """Index of the first occurrence of each unique value, and the number of each element's value.

    Small integers are looked up in a table.
    """
    if values.dtype.kind in "iub" or (values == np.floor(values)).all():
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * values.size + 1024:
            offsets = (values - low).astype(np.int32)
            first = np.full(high - low + 1, -1, dtype=np.int32)
            first[offsets[::-1]] = np.arange(values.size - 1, -1, -1, dtype=np.int32)
            known = np.flatnonzero(first >= 0)
            number = np.empty(high - low + 1, dtype=np.int32)
            number[known] = np.arange(len(known), dtype=np.int32)
            return first[known], number[offsets]
    _, places, index = np.unique(values, return_index=True, return_inverse=True)
    return places, index.reshape(-1).astype(np.int32)
