"""Distribution of tokens over experts: uniform, a power law, or measured counts.

A popularity is an exponent a, with which the i-th most popular expert gets tokens in proportion to i⁻ᵃ (0: uniform), or
the number of tokens that each expert got in a measurement. It affects the number of experts that a step visits, and the
load of the busiest rank.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.numbers.arrays import np
from roofline.declared.numbers.maths import Count, is_array, is_symbol

Popularity: TypeAlias = float | tuple[float, ...]

STEEPEST = 16.0
"""Largest exponent; beyond it, one expert gets nearly all tokens."""


def popularity_given(field: str, value: Given) -> Popularity:
    """Check a popularity. Raises InputError for anything other than an exponent or counts of tokens."""
    if isinstance(value, (list, tuple)):
        if all(_is_number(v) and 0 <= v < float("inf") for v in value) and any(value):
            return tuple(float(v) for v in value)
        raise InputError(field, value, "tokens that each expert got, none of them negative, some of them above 0")
    if not _is_number(value) or not 0 <= value <= STEEPEST:
        expected = f"an exponent from 0 to {STEEPEST:g}, or tokens that each expert got, as in 90+60+30+20"
        raise InputError(field, value, expected)
    return float(value)


def _is_number(value: Given) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@cache
def chances(experts: int, top_k: float, popularity: Popularity) -> tuple[float, ...]:
    """Share of tokens that choose each expert, in the experts' order: min(1, c·popularity), which sum to `top_k`.

    A token chooses an expert at most once; c makes up for the experts that all tokens choose. Raises InputError where
    the number of counts differs from that of experts, or where fewer than `top_k` counts are positive.
    """
    if isinstance(popularity, tuple):
        if len(popularity) != experts:
            raise InputError("layout.popularity", f"{len(popularity)} counts", f"one for each of {experts} experts")
        if sum(v > 0 for v in popularity) < top_k:
            raise InputError("layout.popularity", list(popularity), f"tokens for {top_k:g} experts or more")
        shares = np.array(popularity)
    else:
        shares = np.arange(1, experts + 1, dtype=float) ** -popularity
    chosen = np.zeros(experts)
    certain = np.zeros(experts, dtype=bool)
    while True:
        rest = np.where(certain, 0.0, shares)
        chosen = np.where(certain, 1.0, rest * ((top_k - certain.sum()) / rest.sum() if rest.any() else 0.0))
        beyond = (chosen >= 1) & ~certain
        if not beyond.any():
            return tuple(chosen.tolist())
        certain |= beyond


@cache
def slot_chances(experts: int, redundant: int, top_k: float, popularity: Popularity) -> tuple[float, ...]:
    """Share of tokens that choose each expert or copy; copies share an expert's tokens equally.

    With E experts and r copies, each expert has ⌊r/E⌋ copies, and the r mod E most popular experts have one more.
    """
    each = chances(experts, top_k, popularity)
    all_get, more = divmod(redundant, experts)
    ranked = sorted(range(experts), key=lambda i: (-each[i], i))
    slots = {i: 1 + all_get + (place < more) for place, i in enumerate(ranked)}
    return tuple(each[i] / slots[i] for i in range(experts) for _ in range(slots[i]))


def popular_visited(chances: tuple[float, ...], tokens: Count) -> Count:
    """Expected number of distinct experts (or copies) that T tokens visit: Σ 1 − (1 − chance)ᵀ.

    For uniform chances k/E it is E·(1 − (1 − k/E)ᵀ).
    """
    if is_symbol(tokens):
        return len(chances) - sum((1 - c) ** tokens for c in chances)
    missed = (1 - np.array(chances)) ** np.asarray(tokens)[..., None]
    visited = len(chances) - missed.sum(axis=-1)
    return visited if is_array(tokens) else float(visited)


def busiest(chances: tuple[float, ...], ranks: Count, counted: bool) -> Count:
    """Tokens of the busiest of several ranks over the mean, where each rank holds consecutive experts.

    `counted`: the experts keep their order. Otherwise popular experts are at random positions, and the result is the
    mean over random assignments of experts to ranks, which are the same in every call.
    """
    if is_array(ranks):
        values, each = np.unique(ranks, return_inverse=True)
        return np.array([busiest(chances, int(r), counted) for r in values])[each].reshape(np.shape(ranks))
    return _busiest(chances, int(ranks), counted)


@cache
def _busiest(chances: tuple[float, ...], ranks: int, counted: bool) -> float:
    size = len(chances) // ranks
    if ranks == 1 or not size:
        return 1.0
    loads = np.array(chances)[: size * ranks] / np.mean(chances)
    if not counted:
        draws = max(16, min(1024, 2**20 // len(loads)))
        loads = np.random.default_rng(0).permuted(np.broadcast_to(loads, (draws, len(loads))), axis=1)
    return float(loads.reshape(-1, ranks, size).mean(axis=2).max(axis=1).mean())
