"""End times of items with dependencies, computed wave by wave: the items of one wave do not depend on each other.

An item starts once the item before it on its stage has ended and its input from another item has arrived:

    start = max(end of the one before, end of what it needs + its sender's send),   end = start + seconds

so all items at the same depth of this recurrence take a few array operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from roofline.declared.numbers.arrays import Array


@dataclass(frozen=True, eq=False)
class Waves:
    """Items by wave: the stage, kind, micro-batch and place of each.

    `runs`: index of the stage whose seconds the item takes; with DualPipe the ranks of two stages alternate between
    both. `before`, `needed`: number of the previous item on the stage and of the item whose output it needs, or one
    past the last where there is none. `sender`: stage whose send lies between, or one past the last. `edges`: where
    waves begin and end. `of_stage`: the items of each stage in its order.
    """

    stage: Array
    kind: Array
    micro: Array
    place: Array
    runs: Array
    before: Array
    needed: Array
    sender: Array
    edges: tuple[int, ...]
    of_stage: tuple[Array, ...]

    @cached_property
    def _steps(self) -> list[tuple[int, int, Array, Array, Array, int]]:
        """For each wave: its begin and end, whose seconds it takes, its dependencies (`needed`, then `before`), its
        senders, and its last micro-batch."""
        firsts, lasts, number = np.array(self.edges[:-1]), np.array(self.edges[1:]), np.arange(len(self.stage))
        sizes = lasts - firsts
        awaited = np.empty(2 * len(number), dtype=np.int64)
        awaited[number + np.repeat(firsts, sizes)], awaited[number + np.repeat(lasts, sizes)] = self.needed, self.before
        kinds, highest = self.runs * (1 + int(self.kind.max())) + self.kind, np.maximum.reduceat(self.micro, firsts)
        return [
            (first, last, kinds[first:last], awaited[2 * first : 2 * last], self.sender[first:last], micro)
            for first, last, micro in zip(self.edges, self.edges[1:], highest.tolist(), strict=False)
        ]

    def ends(self, seconds: Array, sends: Array, micro_batches: Array | None) -> Array:
        """End times of all items along the first axis, followed by a 0.

        `seconds`: by stage and kind. `sends`: by stage, followed by a 0. Elements lie on the remaining axes. With
        `micro_batches`, items beyond an element's own number take no time and nothing waits for them.
        """
        shape = seconds.shape[2:]
        ends = np.zeros((len(self.stage) + 1, *shape))
        flat, sent = seconds.reshape(-1, *shape), bool(sends.any())
        fewest = None if micro_batches is None else int(micro_batches.min())
        for first, last, kinds, awaited, senders, micro in self._steps:
            took, both = ends[first:last], ends.take(awaited, axis=0)
            flat.take(kinds, axis=0, out=took, mode="clip")
            arrived, free = both[: last - first], both[last - first :]
            if sent:
                arrived += sends.take(senders, axis=0)
            if fewest is not None and micro >= fewest:
                there = self.micro[first:last].reshape(-1, *(1 for _ in shape)) < micro_batches
                took *= there
                arrived *= there
            np.maximum(arrived, free, out=arrived)
            took += arrived
        return ends

    def follow(self, ends: Array, place: Array, seconds: Array, sends: Array, items: Array) -> None:
        """Compute the end times of some items anew, from those that the items before them have in `ends`.

        `place`: the row of each item in `ends`. Elements lie on the second axis; every one has all micro-batches.
        """
        order = np.sort(items)
        wave = np.searchsorted(self.edges, order, side="right")
        flat = seconds.reshape(-1, *seconds.shape[2:])
        took = flat[(self.runs * seconds.shape[1] + self.kind)[order]]
        rows, needed, before = (place[x] for x in (order, self.needed[order], self.before[order]))
        sent = sends[self.sender[order]]
        edges = (0, *(np.flatnonzero(np.diff(wave)) + 1).tolist(), len(order))
        for first, last in pairwise(edges):
            arrived = ends[needed[first:last]] + sent[first:last]
            ends[rows[first:last]] = np.maximum(arrived, ends[before[first:last]]) + took[first:last]

    def starts(self, ends: Array, sends: Array, items: Any = slice(None)) -> Array:
        """Start times of some items, where all elements have every micro-batch."""
        return np.asarray(np.maximum(ends[self.before[items]], ends[self.needed[items]] + sends[self.sender[items]]))
