"""Arithmetic that one formula needs for an int, a NumPy array and a SymPy symbol alike.

Plain `+ - * //` already serve all three. These few functions are the rest. NumPy and SymPy are
imported only when a value of theirs arrives.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Count: TypeAlias = Any
"""A number of something: an `int` (exact), a NumPy array (a sweep) or a SymPy expression."""


def is_symbol(value: Count) -> bool:
    """Whether it is a SymPy expression."""
    return hasattr(value, "free_symbols")


def is_array(value: Count) -> bool:
    """Whether it is a NumPy array (or scalar)."""
    return hasattr(value, "__array_interface__") or hasattr(value, "ndim")


def _dispatch(builtin: Any, numpy_name: str, sympy_name: str, a: Count, b: Count) -> Count:
    if is_symbol(a) or is_symbol(b):
        import sympy

        return getattr(sympy, sympy_name)(a, b)
    if is_array(a) or is_array(b):
        import numpy

        return getattr(numpy, numpy_name)(a, b)
    return builtin(a, b)


def least(a: Count, b: Count) -> Count:
    """min(a, b), element by element."""
    return _dispatch(min, "minimum", "Min", a, b)


def most(a: Count, b: Count) -> Count:
    """max(a, b), element by element."""
    return _dispatch(max, "maximum", "Max", a, b)


def half(even: Count) -> Count:
    """An even number divided by two, exactly."""
    return even / 2 if is_symbol(even) else even // 2


def ceil_div(a: Count, b: Count) -> Count:
    """⌈a / b⌉ in whole numbers."""
    if is_symbol(a) or is_symbol(b):
        import sympy

        return sympy.ceiling(a / b)
    return -(-a // b)


def no_more(a: Count, b: Count) -> Count:
    """1 where a ≤ b, else 0."""
    if is_symbol(a) or is_symbol(b):
        import sympy

        return sympy.Piecewise((1, a <= b), (0, True))
    return (a <= b) * 1


def distinct(experts: Count, top_k: Count, tokens: Count) -> Count:
    """Expected number of distinct experts that `tokens` tokens visit, `top_k` of `experts` each.

    E·(1 − (1 − k/E)^T), exact for uniform routing without replacement: a token misses a given
    expert with probability 1 − k/E.
    """
    if not is_symbol(tokens) and not is_array(tokens) and not is_symbol(experts):
        if tokens == 0:
            return 0
        if tokens == 1 or top_k == experts:
            return top_k
    return experts - experts * (1 - top_k / experts) ** tokens
