"""Arithmetic for formulas that take an int, a NumPy array or a SymPy symbol.

Plain `+ - * //` already work on all three. These few functions are the rest. SymPy is imported only when one of its
values arrives.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol, TypeAlias, overload

from roofline.declared.numbers.arrays import Array, np

if TYPE_CHECKING:
    from sympy import Expr
    from typing_extensions import TypeIs

    Count: TypeAlias = int | float | Array | Expr
else:

    class Count:
        """A number of something: an `int` (exact), a `float`, a NumPy array (a sweep) or a SymPy expression."""


class Symbol(Protocol):
    """A SymPy expression, for type checkers without SymPy's types."""

    @property
    def free_symbols(self) -> Collection[object]:
        """The symbols in the expression."""
        ...


PLAIN = frozenset({int, float, bool})
"""Types on which Python's own arithmetic is used."""
_SYMBOLS: dict[type, bool] = dict.fromkeys(PLAIN, False)
_ARRAYS: dict[type, bool] = dict.fromkeys(PLAIN, False)
"""Type → whether its values are SymPy expressions, or arrays: a cache of the types seen so far."""


def is_symbol(value: object) -> bool:
    """Whether a value is a SymPy expression."""
    kind = type(value)
    known = _SYMBOLS.get(kind)
    if known is None:
        known = _SYMBOLS[kind] = hasattr(value, "free_symbols")
    return known


def is_array(value: object) -> TypeIs[Array]:
    """Whether a value is a NumPy array or scalar."""
    kind = type(value)
    known = _ARRAYS.get(kind)
    if known is None:
        known = _ARRAYS[kind] = hasattr(value, "__array_interface__") or hasattr(value, "ndim")
    return known


def _dispatch(numpy_name: str, sympy_name: str, *values: Count) -> Count:
    for value in values:
        if is_symbol(value):
            import sympy

            return getattr(sympy, sympy_name)(*values)
    return getattr(np, numpy_name)(*values)


def least(a: Count, b: Count) -> Count:
    """Elementwise min(a, b)."""
    if type(a) in PLAIN and type(b) in PLAIN:
        return b if b < a else a
    return _dispatch("minimum", "Min", a, b)


def most(a: Count, b: Count) -> Count:
    """Elementwise max(a, b)."""
    if type(a) in PLAIN and type(b) in PLAIN:
        return b if b > a else a
    return _dispatch("maximum", "Max", a, b)


def root(value: Count) -> Count:
    """The square root."""
    return math.sqrt(value) if type(value) in PLAIN else _dispatch("sqrt", "sqrt", value)


def ceil(value: Count) -> Count:
    """The value rounded up, as a float."""
    return float(-(-value // 1)) if type(value) in PLAIN else _dispatch("ceil", "ceiling", value)


def where(condition: Count, then: Count, other: Count) -> Count:
    """Select elementwise: `then` where the condition is true, else `other`."""
    if type(condition) in PLAIN:
        return then if condition else other
    if is_symbol(condition) or is_symbol(then) or is_symbol(other):
        import sympy

        return sympy.Piecewise((then, condition), (other, True))
    return np.where(condition, then, other)


def half(even: Count) -> Count:
    """Half of an even number, exactly."""
    return even / 2 if is_symbol(even) else even // 2


@overload
def ceil_div(a: int, b: int) -> int: ...
@overload
def ceil_div(a: Count, b: Count) -> Count: ...
def ceil_div(a: Count, b: Count) -> Count:
    """⌈a / b⌉ in integers."""
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


def some(count: Count) -> bool:
    """Whether any element is, or may be, nonzero."""
    return is_symbol(count) or bool(count.any() if is_array(count) else count)


def experts_visited(experts: Count, top_k: Count, tokens: Count, identities: int = 0) -> Count:
    """Expected number of distinct experts for `tokens` tokens with `top_k` of `experts` + `identities` experts each.

    E·(1 − (1 − k/N)^T) with N = E + identities, exact for uniform routing without replacement: a token misses a given
    expert with probability 1 − k/N.
    """
    if not identities and not is_symbol(tokens) and not is_array(tokens) and not is_symbol(experts):
        if tokens == 0:
            return 0
        if tokens == 1 or top_k == experts:
            return top_k
    return experts - experts * (1 - top_k / (experts + identities)) ** tokens
