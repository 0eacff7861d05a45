"""Items that wait for one another, worked out in waves: those of a wave wait for none of their own.

An item starts where the one before it on its stage has ended, and what it needs from another has arrived,

    start = max(end of the one before, end of what it needs + its sender's send),   end = start + seconds

so that all items at the same depth of this recurrence are a few operations on arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.distinct import Array


@dataclass(frozen=True, eq=False)
class Waves:
    """Items by wave: number, stage, kind and micro-batch of each.

    `before`, `needed`: the item that ends before it on its stage, and the one it needs, each a number of an item, or
    that after the last where there is none; `sender`: the stage whose send lies between, or that after the last.
    `edges`: where waves begin and end; `highest`: the last micro-batch of each; `of_stage`: the
    items of each stage in its order.
    """

    numbers: tuple[int, ...]
    stage: Array
    kind: Array
    micro: Array
    before: Array
    needed: Array
    sender: Array
    edges: tuple[int, ...]
    highest: tuple[int, ...]
    of_stage: tuple[Array, ...]

    def ends(self, seconds: Array, sends: Array, micro_batches: Array | None) -> Array:
        """The end of every item, along a first axis, and 0 behind them.

        `seconds`: by stage and kind, `sends`: by stage, and none behind them; each element on the axes that follow.
        Of `micro_batches`, the items of those that an element does not have take no time and are not waited for.
        """
        ends = np.zeros((len(self.numbers) + 1, *seconds.shape[2:]))
        flat, kinds = seconds.reshape(-1, *seconds.shape[2:]), self.stage * seconds.shape[1] + self.kind
        fewest = None if micro_batches is None else int(micro_batches.min())
        for first, last, micro in zip(self.edges, self.edges[1:], self.highest, strict=False):
            took = flat.take(kinds[first:last], axis=0)
            arrived = ends.take(self.needed[first:last], axis=0)
            arrived += sends.take(self.sender[first:last], axis=0)
            if fewest is not None and micro >= fewest:
                there = self.micro[first:last].reshape(-1, *(1 for _ in seconds.shape[2:])) < micro_batches
                took *= there
                arrived *= there
            np.maximum(ends.take(self.before[first:last], axis=0), arrived, out=arrived)
            np.add(took, arrived, out=ends[first:last])
        return ends

    def starts(self, ends: Array, sends: Array, items: Any = slice(None)) -> Array:
        """Where some items start, all micro-batches being there."""
        return np.asarray(np.maximum(ends[self.before[items]], ends[self.needed[items]] + sends[self.sender[items]]))


def waves_of(items: Sequence[tuple[int, Any, Any, int]], kinds: str) -> Waves:
    """The waves of items in an order in which they can be played: stage, work (kind, micro-batch, …), need, sender.

    >>> two = ((0, ("F", 0), None, -1), (0, ("F", 1), None, -1), (1, ("F", 0, 1), ("F", 0), 0))
    >>> waves_of(two, "FBW").edges
    (0, 1, 3)
    """
    number = {work: i for i, (_, work, _, _) in enumerate(items)}
    stages = 1 + max(on for on, *_ in items)
    none = len(items)
    latest = [none] * stages
    before, needed = list[int](), list[int]()
    depth: Array = np.zeros(none + 1, dtype=np.int64)
    for i, (on, _, need, _) in enumerate(items):
        behind, wanted = latest[on], none if need is None else number[need]
        depth[i] = 1 + max(depth[behind], depth[wanted])
        before.append(behind)
        needed.append(wanted)
        latest[on] = i
    order = np.argsort(depth[:none], kind="stable")
    place = np.empty(none + 1, dtype=np.int64)
    place[order], place[none] = np.arange(none), none
    stage = _numbers(on for on, *_ in items)
    micro = _numbers(work[1] for _, work, _, _ in items)[order]
    edges = np.cumsum(np.bincount(depth[:none]))

    def placed(values: Sequence[int]) -> Array:
        return np.asarray(place[np.asarray(values)][order])

    return Waves(
        tuple(order.tolist()), stage[order], _numbers(kinds.index(work[0]) for _, work, _, _ in items)[order],
        micro, placed(before), placed(needed),
        _numbers(stages if sender < 0 else sender for *_, sender in items)[order],
        tuple(edges.tolist()), tuple(np.maximum.reduceat(micro, edges[:-1]).tolist()),
        tuple(place[:none][stage == i] for i in range(stages)),
    )  # fmt: skip


def _numbers(values: Iterable[int]) -> Array:
    return np.fromiter(values, dtype=np.int64)
