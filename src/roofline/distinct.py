"""Which elements of some arrays are alike: what depends on them alone is worked out once for each kind of element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from roofline.arrays import Array as Array
from roofline.arrays import np
from roofline.declared.maths import Count, is_array

FEW = 64
"""Arrays of up to so many elements are taken as they are."""
WORTH = 0.5
"""At most this share of the elements is distinct where taking them alone is worth its gathering."""


@dataclass(frozen=True)
class Distinct:
    """The distinct elements of arrays that broadcast to `shape`.

    `first`: where each stands first, flat; `index`: of every element of the shape the number of its own.
    """

    shape: tuple[int, ...]
    first: Array
    index: Array

    def take(self, values: Array) -> Array:
        """The distinct elements of one of the arrays."""
        return np.broadcast_to(values, self.shape)[np.unravel_index(self.first, self.shape)]

    def within(self, shape: tuple[int, ...]) -> Array:
        """Of every element of a larger shape, flat, the number of its own."""
        return np.broadcast_to(self.index, shape).reshape(-1)


def distinct(columns: Sequence[Array]) -> Distinct | None:
    """The distinct combinations of some arrays; None where there are too many of them, or too few elements."""
    shape = np.broadcast_shapes(*(c.shape for c in columns))
    size = prod(shape)
    if size <= FEW:
        return None
    factors = [_factors(c.reshape(-1)) for c in columns]
    if len(columns) == 1:
        first, index = factors[0]
    elif prod(c.size for c in columns) == size:
        return None  # they span a grid, every combination of theirs once
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
    """Every element of a shape as one of its own."""
    numbers = np.arange(prod(shape), dtype=np.int32)
    return Distinct(shape, numbers, numbers.reshape(shape))


def on_distinct(function: Callable[..., Count], *arguments: Count) -> Count:
    """`function` of numbers and arrays, worked out once for each distinct combination of what the arrays hold."""
    arrays = [v for v in arguments if is_array(v) and v.ndim]
    kinds = distinct(arrays) if arrays else None
    if kinds is None:
        return function(*arguments)
    result = function(*(kinds.take(v) if is_array(v) and v.ndim else v for v in arguments))
    return np.asarray(result)[kinds.index]


def _factors(values: Array) -> tuple[Array, Array]:
    """Where each distinct value stands first, and which of them every element is. Small whole numbers by a table."""
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
