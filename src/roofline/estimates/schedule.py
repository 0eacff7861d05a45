"""Pipeline schedules: in which order stages take micro-batches, and when everything happens.

A micro-batch runs forward (F) through all stages, then its input gradients (B) run back; a stage's weight gradients (W)
need only its own B. GPipe (arXiv:1811.06965), 1F1B (arXiv:1806.03377), interleaved 1F1B (arXiv:2104.04473 §2.2) have a
fixed order. Zero-bubble H1 and H2 (arXiv:2401.10241) and DualPipe (arXiv:2412.19437 §3.2.1) are run as the greedy rule
behind them: gradients first, then a forward where memory allows one more, weight gradients where nothing else can run.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from roofline.model.errors import InputError, not_one_of
from roofline.model.maths import Count, ceil_div, least
from roofline.work.training import SCHEDULES

Kind: TypeAlias = Literal["F", "B", "W"]
KINDS: tuple[Kind, ...] = ("B", "F", "W")
"""What a free stage of a greedy schedule takes first."""


@dataclass(frozen=True)
class StageTimes:
    """Seconds of one micro-batch on one stage, or on one of its chunks: forward, input gradient, weight gradient.

    `send`: exposed seconds until the neighbour has the stream or its gradient.
    """

    forward: float
    backward: float
    weight: float
    send: float = 0.0

    def of(self, kind: Kind) -> float:
        """Seconds of one kind of work."""
        return {"F": self.forward, "B": self.backward, "W": self.weight}[kind]


@dataclass(frozen=True)
class Item:
    """One piece of work on one stage: kind, micro-batch, chunk; start and end in seconds."""

    stage: int
    kind: Kind
    micro_batch: int
    chunk: int
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """Everything that happens in a step's passes."""

    stages: int
    chunks: int
    items: tuple[Item, ...]

    @cached_property
    def length(self) -> float:
        """Seconds from the first start to the last end."""
        return max(item.end for item in self.items)

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """Seconds in which each stage works."""
        total = [0.0] * self.stages
        for item in self.items:
            total[item.stage] += item.end - item.start
        return tuple(total)

    @cached_property
    def bubble(self) -> float:
        """Share of the time that a stage waits, on average."""
        return 1 - sum(self.busy) / (self.stages * self.length) if self.length else 0.0

    @cached_property
    def in_flight(self) -> tuple[float, ...]:
        """Most micro-batches whose activations a stage keeps at once: from the start of F to the end of W.

        A chunk's count for 1 / chunks each.
        """
        changes: list[list[tuple[float, int]]] = [[] for _ in range(self.stages)]
        for item in self.items:
            if item.kind == "F":
                changes[item.stage].append((item.start, 1))
            elif item.kind == "W":
                changes[item.stage].append((item.end, -1))
        return tuple(_peak(c) / self.chunks for c in changes)


def _peak(changes: list[tuple[float, int]]) -> int:
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def check_micro_batches(schedule: str, stages: int, micro_batches: int, chunks: int) -> None:
    """Raises InputError where a schedule cannot take that many micro-batches, stages or chunks, naming what it can."""
    if schedule not in SCHEDULES:
        raise not_one_of("schedule", schedule, SCHEDULES)
    if (chunks > 1) != (schedule == "interleaved") and stages > 1:
        expected = "more than 1 for an interleaved schedule" if schedule == "interleaved" else "1 but for interleaved"
        raise InputError("layout.vp", chunks, expected)
    if schedule == "interleaved" and micro_batches % stages:
        near = sorted({max(1, micro_batches // stages) * stages, ceil_div(micro_batches, stages) * stages})
        raise InputError("micro-batches", micro_batches, f"a multiple of the {stages} stages", [str(n) for n in near])
    if schedule == "dualpipe" and stages > 1 and (stages % 2 or micro_batches % 2 or micro_batches < stages):
        expected = f"an even number of at least {stages}, and an even number of stages"
        raise InputError("micro-batches", micro_batches, expected, [str(max(stages, micro_batches + 1) // 2 * 2)])


def simulate(schedule: str, stages: Sequence[StageTimes], micro_batches: int, chunks: int = 1) -> Timeline:
    """The timeline of `micro_batches` through the stages; with chunks a stage's times are those of one of them.

    Raises InputError for a schedule there is not, or a number of micro-batches it cannot take.
    """
    p = len(stages)
    check_micro_batches(schedule, p, micro_batches, chunks)
    if schedule in ("zb-h1", "zb-h2", "dualpipe") and p > 1:
        return Timeline(p, 1, tuple(_greedy(schedule, stages, micro_batches)))
    orders = [_order(schedule, i, p, micro_batches, chunks) for i in range(p)]
    return Timeline(p, chunks, tuple(_in_order(orders, stages, chunks)))


# -- fixed orders --------------------------------------------------------------------------------------------------
def _order(schedule: str, stage: int, p: int, m: int, v: int) -> list[tuple[Kind, int, int]]:
    """The work of one stage in order: kind, micro-batch, chunk. A weight gradient follows its input gradient."""
    total = m * v
    warm = {"gpipe": total, "interleaved": 2 * (p - stage - 1) + (v - 1) * p}.get(schedule, p - stage - 1)
    warm = min(total, warm)

    def forward(k: int) -> tuple[Kind, int, int]:
        return "F", k // (p * v) * p + k % p if v > 1 else k, k // p % v if v > 1 else 0

    def backward(k: int) -> list[tuple[Kind, int, int]]:
        _, micro, chunk = forward(k)
        micro, chunk = (m - 1 - k, 0) if schedule == "gpipe" else (micro, v - 1 - chunk)
        return [("B", micro, chunk), ("W", micro, chunk)]

    order = [forward(k) for k in range(warm)]
    for k in range(total):
        if warm + k < total:
            order.append(forward(warm + k))
        order += backward(k)
    return order


def _in_order(orders: list[list[tuple[Kind, int, int]]], stages: Sequence[StageTimes], v: int) -> list[Item]:
    """Starts every item as soon as its stage is free and what it needs has arrived."""
    p = len(stages)
    done: dict[tuple[Kind, int, int], float] = {}
    place, free = [0] * p, [0.0] * p
    items: list[Item] = []
    waiting = deque(range(p))
    idle = 0
    while waiting:
        stage = waiting.popleft()
        moved = False
        while place[stage] < len(orders[stage]):
            kind, micro, chunk = orders[stage][place[stage]]
            ready = _ready(done, kind, micro, chunk * p + stage, p * v, stages)
            if ready is None:
                break
            start = max(free[stage], ready)
            free[stage] = end = start + stages[stage].of(kind)
            done[kind, micro, chunk * p + stage] = end
            items.append(Item(stage, kind, micro, chunk, start, end))
            place[stage] += 1
            moved = True
        if place[stage] < len(orders[stage]):
            waiting.append(stage)
        idle = 0 if moved else idle + 1
        if idle > p:
            raise AssertionError("the order of a schedule waits for itself")
    return items


def _ready(
    done: dict[tuple[Kind, int, int], float],
    kind: Kind,
    micro: int,
    place: int,
    last: int,
    stages: Sequence[StageTimes],
) -> float | None:
    """When what an item needs is there; None where that is not known yet. `place` counts chunks along the model."""
    p = len(stages)
    if kind == "W":
        return done.get(("B", micro, place))
    if kind == "F":
        if place == 0:
            return 0.0
        before = done.get(("F", micro, place - 1))
        return None if before is None else before + stages[(place - 1) % p].send
    own = done.get(("F", micro, place))
    if own is None or place == last - 1:
        return own
    after = done.get(("W", micro, place + 1))  # one backward pass makes both gradients
    return None if after is None else max(own, after + stages[place % p].send)


# -- greedy --------------------------------------------------------------------------------------------------------
def ahead(schedule: str, stage: int, way: int, p: int) -> int:
    """How many forwards a stage may be ahead of its gradients: p − i as in 1F1B, counted from the end a way comes in.

    ZB-H2 lets it be 2(p − i) − 1.
    """
    left = p - stage if way == 0 else stage + 1
    return 2 * left - 1 if schedule == "zb-h2" else left


def most_kept(schedule: str, p: int) -> int:
    """Micro-batches whose activations a stage may keep for weight gradients: p (H1), 2p − 1 (H2), p + 1 (DualPipe)."""
    return {"zb-h1": p, "zb-h2": 2 * p - 1, "dualpipe": p + 1}[schedule]


def _greedy(schedule: str, stages: Sequence[StageTimes], m: int) -> list[Item]:
    """A free stage takes a gradient that has arrived, else a forward if it may keep one more, else a weight gradient.

    DualPipe's micro-batches come in at either end, half of them each; a stage then holds the weights of two places.
    """
    p = len(stages)
    ways = 2 if schedule == "dualpipe" else 1
    arrived: list[list[tuple[Kind, int, int]]] = [[] for _ in range(p)]
    for way in range(ways):
        arrived[way * (p - 1)] += [("F", k, way) for k in range(way, m, ways)]
    kept, free, serial = [0] * p, [True] * p, itertools.count()
    leading = [[0] * ways for _ in range(p)]
    items: list[Item] = []
    events: list[tuple[float, int, Item | None, tuple[int, Kind, int, int] | None]] = []

    def tell(when: float, finished: Item | None, arrival: tuple[int, Kind, int, int] | None) -> None:
        heapq.heappush(events, (when, next(serial), finished, arrival))

    def may(stage: int, kind: Kind, way: int) -> bool:
        """Whether memory allows it."""
        room = kept[stage] < most_kept(schedule, p) and leading[stage][way] < ahead(schedule, stage, way, p)
        return kind != "F" or room

    def begin(stage: int, now: float) -> None:
        if not free[stage]:
            return
        ready = [work for work in arrived[stage] if may(stage, work[0], work[2])]
        if not ready:
            return
        kind, micro, way = work = min(ready, key=lambda w: KINDS.index(w[0]))
        arrived[stage].remove(work)
        kept[stage] += kind == "F"
        leading[stage][way] += kind == "F"
        free[stage] = False
        items.append(Item(stage, kind, micro, way, now, now + stages[stage].of(kind)))
        tell(items[-1].end, items[-1], None)

    def follow(item: Item) -> None:
        """What an item's end lets begin: W and the neighbour's B after B, the next stage's F or the own B after F."""
        free[item.stage] = True
        step, first, last = (1, 0, p - 1) if item.chunk == 0 else (-1, p - 1, 0)
        if item.kind == "W":
            kept[item.stage] -= 1
            return
        if item.kind == "B":
            leading[item.stage][item.chunk] -= 1
            arrived[item.stage].append(("W", item.micro_batch, item.chunk))
        ends = last if item.kind == "F" else first
        if item.stage == ends:
            if item.kind == "F":
                arrived[item.stage].append(("B", item.micro_batch, item.chunk))
            return
        goes = item.stage + (step if item.kind == "F" else -step)
        sent = stages[min(item.stage, goes)].send
        tell(item.end + sent, None, (goes, item.kind, item.micro_batch, item.chunk))

    for stage in range(p):
        begin(stage, 0.0)
    while events:
        now, touched = events[0][0], set()
        while events and events[0][0] == now:
            _, _, finished, arrival = heapq.heappop(events)
            if finished is not None:
                follow(finished)
                touched.add(finished.stage)
            if arrival is not None:
                arrived[arrival[0]].append(arrival[1:])
                touched.add(arrival[0])
        for stage in touched:
            begin(stage, now)
    return items


# -- closed forms --------------------------------------------------------------------------------------------------
def closed_length(
    schedule: str,
    forward: Count,
    backward: Count,
    weight: Count,
    stages: Count,
    micro_batches: Count,
    chunks: Count = 1,
) -> Count:
    """Seconds of the passes through equal stages, sends apart: m·(F + B + W) and the bubble.

    GPipe and 1F1B (p−1)(F+B+W); interleaved that over v; ZB-H1 (p−1)(F+B−W) and ZB-H2 (p−1)(F+B−2W)
    (arXiv:2401.10241, table 2); DualPipe (p/2−1)(F+2B−W), with F and B one after the other (arXiv:2412.19437, table 2,
    has them overlapped). Those of the last three hold where the gradients are no shorter than W.
    """
    whole = forward + backward + weight
    fill = stages - 1
    bubble = {
        "gpipe": fill * whole,
        "1f1b": fill * whole,
        "interleaved": fill * whole / chunks,
        "zb-h1": fill * (forward + backward - weight),
        "zb-h2": fill * (forward + backward - 2 * weight),
        "dualpipe": (stages / 2 - 1) * (forward + 2 * backward - weight),
    }[schedule]
    return micro_batches * whole + bubble * (bubble > 0)


def closed_in_flight(schedule: str, stage: Count, stages: Count, micro_batches: Count, chunks: Count = 1) -> Count:
    """Micro-batches whose activations a stage keeps, at most m: GPipe m; 1F1B p − i.

    Interleaved (2(p−i−1) + (v−1)·p + 1)/v, the warm-up of Megatron-LM and one more (arXiv:2104.04473 §2.2). ZB-H1 p,
    ZB-H2 2p − 1, DualPipe p + 1: what they may keep.
    """
    if schedule == "interleaved":
        return least(micro_batches * chunks, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1) / chunks
    kept = {
        "gpipe": micro_batches,
        "1f1b": stages - stage,
        "zb-h1": stages,
        "zb-h2": 2 * stages - 1,
        "dualpipe": stages + 1,
    }[schedule]
    return least(micro_batches, kept)
