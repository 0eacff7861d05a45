"""Splits of the chips between two pools: how many there are, and which of them can be among the best.

Splits are counted before any is built, and built in pieces. No times are computed here: a split is ruled out where an
upper bound on its score, from the steps of either pool alone, is below a score already reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roofline.declared.groups import Load
from roofline.declared.numbers.arrays import Array
from roofline.serving.closed_forms.disaggregated_queue import Tandem
from roofline.whatif.search.demand import Limits

PIECE = 2**13
"""Splits evaluated at once: about 15 kB each at a rate."""
ROUNDING = 1 - 1e-9
"""Tolerance for rounding when a bound is compared with a score."""
_NONE = (np.zeros(0, dtype=np.int64),) * 3


@dataclass(frozen=True)
class Splits:
    """Numbers of prefill and decode replicas for pairs of layouts, and the chips that they need."""

    first: Array
    then: Array
    prefills: Array
    decodes: Array
    chips: Array

    def __len__(self) -> int:
        return len(self.first)

    def where(self, kept: Array) -> Splits:
        """The splits selected by a mask or by indices."""
        return Splits(*(values[kept] for values in (self.first, self.then, self.prefills, self.decodes, self.chips)))

    def pieces(self) -> Iterator[Splits]:
        """The splits, `PIECE` at a time."""
        for start in range(0, len(self), PIECE):
            yield self.where(np.arange(start, min(start + PIECE, len(self))))

    def without(self, others: Splits) -> Splits:
        """These splits, each once, without the others."""
        own, theirs = self._keys(), others._keys()
        _, places = np.unique(own, return_index=True)
        return self.where(places[~np.isin(own[places], theirs)])

    def _keys(self) -> Array:
        """A number of its own for each split: layouts and replicas are below 2¹⁰ and 2²¹."""
        return np.asarray(((self.first * 2**10 + self.then) * 2**21 + self.prefills) * 2**21 + self.decodes)

    def and_then(self, others: Splits) -> Splits:
        """These splits followed by others."""
        names = ("first", "then", "prefills", "decodes", "chips")
        return Splits(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in names))


@dataclass(frozen=True)
class PoolRates:
    """Upper bounds of the requests/s of one prefill or decode replica, for each pair of layouts.

    `capacity`: in full steps, and through its links. `kept`: in steps that by themselves are within the limits. In a
    closed loop the rate is at most `kept` times the replicas plus `extra`: a request waits for the others but not for
    itself, so that one request per latency is added.
    """

    capacity: Array
    kept: Array
    extra: Array

    def fewest(self, i: int, rate: float) -> int:
        """The smallest number of replicas of the i-th pair that can sustain a rate within the limits."""
        needed = max(rate / self.capacity[i], (rate - self.extra[i]) / self.kept[i])
        return max(1, int(np.ceil(needed * ROUNDING)))

    def all_of(self, i: int | Array, replicas: Array) -> Array:
        """Upper bound of the requests/s of replicas of the i-th pair."""
        return np.asarray(np.minimum(replicas * self.capacity[i], replicas * self.kept[i] + self.extra[i]))


def pool_rates(each: Tandem, ranks: tuple[Array, Array], demand: Load, limits: Limits) -> tuple[PoolRates, PoolRates]:
    """Bounds for pools of one replica each: for prefill and for decode.

    Waits are at least 0, and a batch or a step is at least as long as the shortest in its table. A group with batches
    of n prompts starts at most n of them per batch time; likewise steps of n sequences. `ranks`: data-parallel ranks of
    a replica of either kind; each has its own link.
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
    """The maximum of n / seconds(n) up to the last n within the limit, interpolated; 0 where there is none."""
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

    `each`: chips per replica of either kind, for every pair. `rooms`: maximum chips of either pool. `chips`: maximum of
    both together. `layouts`: number of decode layouts; the i-th pair has prefill layout i // layouts and decode layout
    i % layouts.
    """

    each: tuple[Array, Array]
    rooms: tuple[int, int]
    chips: int
    layouts: int

    @cached_property
    def number(self) -> int:
        """Number of splits."""
        return self.count(np.ones(len(self.each[0]), dtype=bool))

    def count(self, chosen: Array) -> int:
        """Number of splits of the chosen pairs of layouts, without building them."""
        pairs, several = np.unique(np.stack(self.each)[:, chosen], axis=1, return_counts=True)
        return sum(int(times) * self._number(int(a), int(b)) for a, b, times in zip(*pairs, several, strict=True))

    def _number(self, first: int, then: int) -> int:
        prefills = np.arange(1, min(self.rooms[0], self.chips - then) // first + 1)
        return int(np.minimum(self.rooms[1] // then, (self.chips - first * prefills) // then).sum())

    def around(self, splits: Splits, factors: Sequence[float]) -> Splits:
        """The splits whose numbers of replicas differ from those of these by a factor each, or by one."""

        def near(replicas: Array) -> Array:
            by = np.rint(replicas[:, np.newaxis] * np.asarray(factors)).astype(np.int64)
            return np.concatenate([by, replicas[:, np.newaxis] + np.array([-2, -1, 1, 2])], axis=1)

        pairs = (splits.first * self.layouts + splits.then)[:, np.newaxis, np.newaxis]
        each = (pairs, near(splits.prefills)[:, :, np.newaxis], near(splits.decodes)[:, np.newaxis, :])
        pairs, prefills, decodes = (values.reshape(-1) for values in np.broadcast_arrays(*each))
        some = self.splits(pairs, prefills, decodes)
        first, then = prefills * self.each[0][pairs], decodes * self.each[1][pairs]
        fits = (first <= self.rooms[0]) & (then <= self.rooms[1]) & (some.chips <= self.chips)
        return some.where(fits & (prefills >= 1) & (decodes >= 1))

    def splits(self, pairs: Array, prefills: Array, decodes: Array) -> Splits:
        """The splits at these pairs and numbers of replicas."""
        chips = prefills * self.each[0][pairs] + decodes * self.each[1][pairs]
        return Splits(pairs // self.layouts, pairs % self.layouts, prefills, decodes, chips)


@dataclass(frozen=True)
class BoundedSplits:
    """Splits whose score can be at least `least`; 0 for all splits.

    The score is requests/s per chip. Under a load it is 1 / chips, for splits that sustain `needed` requests/s.
    """

    space: SplitSpace
    rates: tuple[PoolRates, PoolRates]
    needed: float | None
    least: float

    @cached_property
    def can_keep(self) -> Array:
        """Whether a pair of layouts keeps the limits at some number of prompts and of sequences."""
        return np.asarray((self.rates[0].kept > 0) & (self.rates[1].kept > 0))

    def bound(self, splits: Splits) -> Array:
        """Upper bound of the score of each split."""
        if self.needed is not None:
            return np.asarray(1 / splits.chips)
        pairs = splits.first * self.space.layouts + splits.then
        rates = zip(self.rates, (splits.prefills, splits.decodes), strict=True)
        first, then = (rate.all_of(pairs, replicas) for rate, replicas in rates)
        return np.asarray(np.minimum(first, then) / splits.chips)

    @cached_property
    def counts(self) -> Array:
        """Number of splits per pair of layouts."""
        return np.array([self._rows(i)[2].sum() for i in range(len(self.space.each[0]))], dtype=np.int64)

    @cached_property
    def number(self) -> int:
        """Number of splits."""
        return int(self.counts.sum())

    def pieces(self) -> Iterator[Splits]:
        """All splits, `PIECE` at a time, ordered by layouts, prefill replicas and decode replicas."""
        for start in range(0, self.number, PIECE):
            yield self.at(np.arange(start, min(start + PIECE, self.number)))

    def sample(self, number: int) -> Splits:
        """Evenly spaced splits, each once."""
        return self.at(np.linspace(0, self.number - 1, min(number, self.number)).astype(np.int64))

    def at(self, places: Array) -> Splits:
        """The splits at increasing indices."""
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
        """For the i-th pair: numbers of prefill replicas, with the fewest decode replicas and the number of choices."""
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
