"""Items that wait for one another, worked out in waves: those of a wave wait for none of their own.

An item starts where the one before it on its stage has ended, and what it needs from another has arrived,

    start = max(end of the one before, end of what it needs + its sender's send),   end = start + seconds

so that all items at the same depth of this recurrence are a few operations on arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from roofline.distinct import Array


@dataclass(frozen=True, eq=False)
class Waves:
    """Items by wave: stage, kind, micro-batch and place along the model of each.

    `runs`: the stage whose seconds it takes: of DualPipe the ranks of two stages take turns with both.
    `before`, `needed`: the item that ends before it on its stage, and the one it needs, each a number of an item, or
    that after the last where there is none; `sender`: the stage whose send lies between, or that after the last.
    `edges`: where waves begin and end; `of_stage`: the items of each stage in its order.
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
        """Of each wave where it begins and ends, whose seconds it takes, what it waits for (what it needs, then the one
        before), its senders, and its last micro-batch."""
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
        """The end of every item, along a first axis, and 0 behind them.

        `seconds`: by stage and kind, `sends`: by stage, and none behind them; each element on the axes that follow.
        Of `micro_batches`, the items of those that an element does not have take no time and are not waited for.
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

    def starts(self, ends: Array, sends: Array, items: Any = slice(None)) -> Array:
        """Where some items start, all micro-batches being there."""
        return np.asarray(np.maximum(ends[self.before[items]], ends[self.needed[items]] + sends[self.sender[items]]))
