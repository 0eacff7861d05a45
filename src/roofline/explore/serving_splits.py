"""Numbers of replicas of two pools: how many splits of the chips there are, and which of them can be among the best.

Splits are counted before any is built, and built in pieces. No times are worked out here: a split is left out where a
bound on its score, from the steps of either pool alone, lies below a score that is already reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roofline.declared.groups import Load
from roofline.distinct import Array
from roofline.estimates.tandem import Tandem
from roofline.explore.demand import Limits

PIECE = 2**13
"""Splits whose times are worked out together: about 15 kB each at a rate."""
ROUNDING = 1 - 1e-9
"""Share of a score above which a bound is as good."""
_NONE = (np.zeros(0, dtype=np.int64),) * 3


@dataclass(frozen=True)
class Splits:
    """Numbers of replicas of two pools, for pairs of layouts, and the chips that they take."""

    first: Array
    then: Array
    prefills: Array
    decodes: Array
    chips: Array

    def __len__(self) -> int:
        return len(self.first)

    def where(self, kept: Array) -> Splits:
        """Those that are kept, or those at places."""
        return Splits(*(values[kept] for values in (self.first, self.then, self.prefills, self.decodes, self.chips)))

    def and_then(self, others: Splits) -> Splits:
        """These, and others behind them."""
        names = ("first", "then", "prefills", "decodes", "chips")
        return Splits(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in names))


@dataclass(frozen=True)
class PoolRates:
    """The most requests a second of one replica of each pair of layouts, where it prefills or where it decodes.

    `capacity`: in full steps, and through its links. `kept`: in steps that alone are no longer than the limits; with
    requests that are always there the rate is at most `kept` times the replicas, plus `extra`: a request waits for the
    others, but not for itself, so that one in each latency comes on top.
    """

    capacity: Array
    kept: Array
    extra: Array

    def fewest(self, i: int, rate: float) -> int:
        """Replicas of the i-th that a rate takes, of which a number keeps the limits."""
        needed = max(rate / self.capacity[i], (rate - self.extra[i]) / self.kept[i])
        return max(1, int(np.ceil(needed * ROUNDING)))

    def all_of(self, i: int | Array, replicas: Array) -> Array:
        """Requests a second of so many replicas of the i-th, at most."""
        return np.asarray(np.minimum(replicas * self.capacity[i], replicas * self.kept[i] + self.extra[i]))


def pool_rates(each: Tandem, ranks: tuple[Array, Array], demand: Load, limits: Limits) -> tuple[PoolRates, PoolRates]:
    """Bounds for pools of one replica each, of those that prefill and of those that decode.

    Waits are at least 0, and a batch or a step is at least as long as the shortest of its table. A group whose batches
    have n prompts starts at most n of them in the time of one; so with steps of n sequences. `ranks`: data-parallel
    ranks of a replica of either kind, each of which has a link of its own.
    """
    shortest_batch, shortest_step = each.batches.seconds.min(axis=0), each.running.seconds.min(axis=0)
    spent, more = each.before + shortest_batch, demand.output_tokens - 1
    ttft, tpot, latency = limits.loosest
    step = np.minimum(tpot, np.minimum(ttft - spent, (latency - spent) / demand.output_tokens))
    batch = np.minimum(ttft, latency - more * shortest_step) - each.before - shortest_step
    extra = np.zeros_like(spent) if demand.rate is not None else 1 / (spent + demand.output_tokens * shortest_step)
    step, batch = step / ROUNDING, batch / ROUNDING
    prompts = _most_per_second(each.batches.sizes, each.batches.seconds, batch) * each.batches.depth
    sequences = _most_per_second(each.running.sequences, each.running.seconds, step) / each.running.steps
    fastest = each.prefills * each.batches.fastest, each.decodes * each.running.fastest
    kept = each.prefills * prompts, each.decodes * sequences
    capacity = (np.minimum(most, links / each.transfer) for most, links in zip(fastest, ranks, strict=True))
    first, then = (PoolRates(c, k, extra) for c, k in zip(capacity, kept, strict=True))
    return first, then


def _most_per_second(numbers: Array, seconds: Array, limit: Array) -> Array:
    """The largest n / seconds(n) up to the last n that takes no longer than the limit, 0 where none does."""
    within = seconds <= limit
    last = np.where(within.any(axis=0), len(within) - 1 - np.argmax(within[::-1], axis=0), -1)
    places = np.arange(len(numbers)).reshape(-1, *(1,) * (numbers.ndim - 1))
    best = np.where(places <= last, numbers / seconds, 0.0).max(axis=0)
    left, right = np.maximum(last, 0)[np.newaxis], np.minimum(last + 1, len(numbers) - 1)[np.newaxis]
    n, t, m, u = (np.take_along_axis(v, at, axis=0)[0] for at in (left, right) for v in (numbers, seconds))
    longer = (last >= 0) & (u > limit)
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = n + (m - n) * (limit - t) / np.where(longer, u - t, 1.0)
        return np.asarray(np.where(longer, np.maximum(best, crossing / limit), best))


@dataclass(frozen=True)
class SplitSpace:
    """Every number of replicas of every pair of layouts that the chips have room for.

    `each`: chips of a replica of either kind, of every pair; `rooms`: chips that either pool can have, `chips`: both
    together. `layouts`: layouts of those that decode: the i-th pair is layout i // layouts before, i % layouts after.
    """

    each: tuple[Array, Array]
    rooms: tuple[int, int]
    chips: int
    layouts: int

    @cached_property
    def number(self) -> int:
        """How many there are."""
        return self.count(np.ones(len(self.each[0]), dtype=bool))

    def count(self, chosen: Array) -> int:
        """How many of some pairs of layouts, counted without building them."""
        pairs, several = np.unique(np.stack(self.each)[:, chosen], axis=1, return_counts=True)
        return sum(int(times) * self._number(int(a), int(b)) for a, b, times in zip(*pairs, several, strict=True))

    def _number(self, first: int, then: int) -> int:
        prefills = np.arange(1, min(self.rooms[0], self.chips - then) // first + 1)
        return int(np.minimum(self.rooms[1] // then, (self.chips - first * prefills) // then).sum())

    def splits(self, pairs: Array, prefills: Array, decodes: Array) -> Splits:
        """Those of places of pairs and of numbers of replicas."""
        chips = prefills * self.each[0][pairs] + decodes * self.each[1][pairs]
        return Splits(pairs // self.layouts, pairs % self.layouts, prefills, decodes, chips)


@dataclass(frozen=True)
class BoundedSplits:
    """Splits whose score can be at least `least`, 0 for all that there are.

    The score is requests a second of a chip. Under a load it is 1 over the chips, of splits that take `needed` requests
    a second.
    """

    space: SplitSpace
    rates: tuple[PoolRates, PoolRates]
    needed: float | None
    least: float

    @cached_property
    def can_keep(self) -> Array:
        """Whether there is a number of prompts and one of sequences at which a pair of layouts keeps the limits."""
        return np.asarray((self.rates[0].kept > 0) & (self.rates[1].kept > 0))

    def bound(self, splits: Splits) -> Array:
        """The score of each is at most that."""
        if self.needed is not None:
            return np.asarray(1 / splits.chips)
        pairs = splits.first * self.space.layouts + splits.then
        rates = zip(self.rates, (splits.prefills, splits.decodes), strict=True)
        first, then = (rate.all_of(pairs, replicas) for rate, replicas in rates)
        return np.asarray(np.minimum(first, then) / splits.chips)

    @cached_property
    def counts(self) -> Array:
        """How many of each pair of layouts."""
        return np.array([self._rows(i)[2].sum() for i in range(len(self.space.each[0]))], dtype=np.int64)

    @cached_property
    def number(self) -> int:
        """How many."""
        return int(self.counts.sum())

    def pieces(self) -> Iterator[Splits]:
        """All of them, `PIECE` at a time, by layouts, then prefill replicas, then decode replicas."""
        for start in range(0, self.number, PIECE):
            yield self.at(np.arange(start, min(start + PIECE, self.number)))

    def sample(self, number: int) -> Splits:
        """So many, evenly spaced."""
        return self.at(np.linspace(0, self.number - 1, number).astype(np.int64))

    def at(self, places: Array) -> Splits:
        """Those at places, which grow, in that order."""
        ends = np.cumsum(self.counts)
        pairs = np.searchsorted(ends, places, side="right")
        numbers = []
        for i in np.unique(pairs):
            prefills, low, counts = self._rows(int(i))
            within = places[pairs == i] - (ends[i] - self.counts[i])
            rows_end = np.cumsum(counts)
            rows = np.searchsorted(rows_end, within, side="right")
            numbers.append((prefills[rows], low[rows] + within - (rows_end[rows] - counts[rows])))
        prefills, decodes = (np.concatenate(values) for values in zip(*numbers, strict=True))
        return self.space.splits(pairs, prefills, decodes)

    def _rows(self, i: int) -> tuple[Array, Array, Array]:
        """Of the i-th pair numbers of prefill replicas, for each the fewest that decode, and how many there are."""
        space, (first, then) = self.space, self.rates
        if self.least > 0 and not self.can_keep[i]:
            return _NONE
        a, b = (int(chips[i]) for chips in space.each)
        chips, fewest = space.chips, (1, 1)
        if self.least > 0 and self.needed is not None:
            chips = min(chips, int(1 / self.least))
            fewest = first.fewest(i, self.needed), then.fewest(i, self.needed)
        x = np.arange(max(1, fewest[0]), min(space.rooms[0], chips - b * fewest[1]) // a + 1)
        high = np.minimum(space.rooms[1] // b, (chips - a * x) // b).astype(float)
        low = np.full(len(x), float(fewest[1]))
        if self.least > 0 and self.needed is None:
            high = np.minimum(high, (first.all_of(i, x) / self.least - a * x) / b)
            for each, extra in ((then.capacity[i], 0.0), (then.kept[i], then.extra[i])):
                over, needed = each / self.least - b, a * x - extra / self.least
                if over > 0:
                    low = np.maximum(low, needed / over)
                elif over < 0:
                    high = np.minimum(high, needed / over)
                else:
                    high = np.where(needed > 0, 0.0, high)
        low, high = np.ceil(low - 1e-6).astype(np.int64), np.floor(high + 1e-6).astype(np.int64)
        return x, low, np.maximum(0, high - low + 1)
