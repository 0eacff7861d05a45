"""An LRU cache for functions with some unhashable arguments, such as arrays; calls with those are not cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def remembered(size: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the last `size` results of a function, for hashable arguments.

    >>> @remembered(2)
    ... def doubled(value):
    ...     return [value, value]
    >>> doubled(1) is doubled(1), doubled([1]) is doubled([1])
    (True, False)
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kept = lru_cache(maxsize=size)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                hash((args, tuple(kwargs.items())))
            except TypeError:
                return function(*args, **kwargs)
            return kept(*args, **kwargs)  # type: ignore[arg-type]

        return call

    return decorate
