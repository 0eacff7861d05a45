"""Pipeline schedules: in which order stages take micro-batches, and how long that takes.

A micro-batch runs forward (F) through all stages, then its input gradients (B) run back; a stage's weight gradients (W)
need only its own B. Every schedule is a fixed order of work on each stage: GPipe (arXiv:1811.06965), 1F1B
(arXiv:1806.03377), interleaved 1F1B (arXiv:2104.04473 §2.2), zero-bubble H1 and H2 (arXiv:2401.10241), DualPipe
(arXiv:2412.19437 §3.2.1). A stage starts an item as soon as it is free and what the item needs has arrived. Stage times
may be arrays, and numbers of micro-batches too: the orders of fewer micro-batches are parts of that of most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.distinct import distinct, everyone
from roofline.estimates.waves import Waves, waves_of
from roofline.model.errors import InputError, not_one_of
from roofline.model.maths import Count, ceil_div, is_array, least, most
from roofline.work.training import SCHEDULES

PassKind: TypeAlias = Literal["F", "B", "W"]
ROUNDS = 4
"""So many times the stages' number of micro-batches run before a schedule is looked at for its period."""
REACH = 3
"""Rounds of a stage's neighbours that an item may wait for, its own included."""
MOST_ITEMS = 2**18
"""Items that are played out at most; beyond them a schedule goes on as in its last rounds."""
MOST_DRAWN = 2**17
"""Items of a timeline, which holds every one of them: the longest takes a second and 100 MB."""


@dataclass(frozen=True)
class StageTimes:
    """Seconds of one micro-batch on one stage, or on one of its chunks: forward, input gradient, weight gradient.

    `send`: exposed seconds until the neighbour has the stream or its gradient.
    """

    forward: Count
    backward: Count
    weight: Count
    send: Count = 0.0

    @property
    def by_kind(self) -> tuple[Count, Count, Count]:
        """Seconds of each kind of work: F, B, W."""
        return self.forward, self.backward, self.weight

    @property
    def busy(self) -> Count:
        """Seconds of all three."""
        return self.forward + self.backward + self.weight

    def at(self, take: Callable[[Any], Any]) -> StageTimes:
        """The times at some elements."""
        numbers = (self.forward, self.backward, self.weight, self.send)
        return StageTimes(*(take(v) if is_array(v) else v for v in numbers))


def side_by_side(times: Sequence[StageTimes], axes: int) -> StageTimes:
    """Several times of one stage, numbers or arrays of so many axes, as one along a first axis of their own."""

    def together(values: Sequence[Count]) -> Count:
        if any(is_array(v) for v in values):
            return np.stack(np.broadcast_arrays(*values))
        same = all(v == values[0] for v in values)
        return values[0] if same else np.reshape(np.asarray(values), (len(values), *(1 for _ in range(axes))))

    names = ("forward", "backward", "weight", "send")
    return StageTimes(*(together([getattr(t, name) for t in times]) for name in names))


@dataclass(frozen=True)
class Item:
    """One piece of work on one stage: kind, micro-batch, chunk; start and end in seconds."""

    stage: int
    kind: PassKind
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

    @property
    def bubble(self) -> float:
        """Share of the time in which a stage waits, on average."""
        return 1 - sum(self.busy) / (self.stages * self.length)

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


def check_micro_batches(schedule: str, stages: int, micro_batches: Count, chunks: int) -> None:
    """Raises InputError where a schedule cannot take that many micro-batches, stages or chunks, naming what it can."""
    if schedule not in SCHEDULES:
        raise not_one_of("schedule", schedule, SCHEDULES)
    if chunks > 1 and stages == 1:
        raise InputError("layout.vp", chunks, "1 without pipeline stages: only stages are cut in chunks", ["1"])
    if (chunks > 1) != (schedule == "interleaved") and stages > 1:
        expected = "more than 1 for an interleaved schedule" if schedule == "interleaved" else "1 but for interleaved"
        raise InputError("layout.vp", chunks, expected)
    numbers = np.atleast_1d(micro_batches)
    if schedule == "interleaved" and (numbers % stages).any():
        wrong = int(numbers[numbers % stages > 0].flat[0])
        near = sorted({max(1, wrong // stages) * stages, ceil_div(wrong, stages) * stages})
        raise InputError("micro-batches", wrong, f"a multiple of the {stages} stages", [str(n) for n in near])
    uneven = (numbers % 2 > 0) | (numbers < 2 * stages)
    if schedule == "dualpipe" and stages > 1 and (stages % 2 or uneven.any()):
        wrong = int(numbers[uneven].flat[0]) if uneven.any() else int(numbers.flat[0])
        expected = f"an even number of at least {2 * stages}, and an even number of stages"
        raise InputError("micro-batches", wrong, expected, [str(max(2 * stages, wrong + 1) // 2 * 2)])


# -- orders --------------------------------------------------------------------------------------------------------
Task: TypeAlias = tuple[PassKind, int, int]
"""Kind, micro-batch, and place: which of the model's chunks it is, along the model (of DualPipe, from which end)."""


def warm_up(schedule: str, stage: int, p: int, v: int) -> int:
    """Forwards of a stage before its first gradient, where there are enough micro-batches; GPipe's are all of them."""
    return {"interleaved": 2 * (p - stage - 1) + (v - 1) * p, "zb-h2": 2 * (p - stage - 1)}.get(schedule, p - stage - 1)


def lag(schedule: str, stage: int) -> int:
    """Micro-batches by which a stage's weight gradients stay behind: as its neighbours' in-flight forwards allow."""
    return {"zb-h1": stage, "zb-h2": 2 * stage}.get(schedule, 0)


def order(schedule: str, stage: int, p: int, m: int, v: int) -> Iterator[Task]:
    """The work of one stage in order. Chunks take turns of p micro-batches, forwards first to last, gradients back."""
    total, behind = m * v, lag(schedule, stage)
    warm = total if schedule == "gpipe" else min(total, warm_up(schedule, stage, p, v))

    def forward(k: int) -> Task:
        return ("F", k // (p * v) * p + k % p, k // p % v * p + stage) if v > 1 else ("F", k, stage)

    def gradient(kind: PassKind, k: int) -> Task:
        if schedule == "gpipe":
            return kind, m - 1 - k, stage
        _, micro, place = forward(k)
        return kind, micro, (v - 1) * p + 2 * stage - place

    yield from (forward(k) for k in range(warm))
    for k in range(total):
        if warm + k < total:
            yield forward(warm + k)
        yield gradient("B", k)
        if k >= behind:
            yield gradient("W", k - behind)
    yield from (gradient("W", k) for k in range(max(0, total - behind), total))


@lru_cache(maxsize=256)
def sequence(schedule: str, p: int, m: int, v: int) -> tuple[tuple[int, Task, Task | None, int], ...]:
    """All work in an order in which it can be played out: the stage, the work, what must have arrived, and from where.

    `from`: the stage whose send lies between, −1 where there is none.
    """
    two_ends = schedule == "dualpipe"
    orders = _dualpipe(p, m) if two_ends else [list(order(schedule, i, p, m, v)) for i in range(p)]
    whole = frozenset[Task]() if schedule in ("zb-h1", "zb-h2") else _together(orders)
    place, played = [0] * p, set[Task]()
    items: list[tuple[int, Task, Task | None, int]] = []
    moved = True
    while moved:
        moved = False
        for stage in range(p):
            while place[stage] < len(orders[stage]):
                work = orders[stage][place[stage]]
                needed, sender = _needed(work, p, v, two_ends)
                if needed in whole:  # its stream is ready where the whole backward pass is
                    needed = ("W", *needed[1:])
                if needed is not None and needed not in played:
                    break
                items.append((stage, work, needed, sender))
                played.add(work)
                place[stage] += 1
                moved = True
    if len(items) < sum(map(len, orders)):
        raise AssertionError(f"the order of {schedule} waits for itself")
    return tuple(items)


def _needed(work: Task, p: int, v: int, two_ends: bool) -> tuple[Task | None, int]:
    """What an item needs of another stage: the stream of the place before it, or the gradient of the one behind."""
    kind, micro, place = work
    if kind == "F" and place:
        return ("F", micro, place - 1), _along(micro, place - 1, p) if two_ends else (place - 1) % p
    if kind == "B" and place < p * v - 1:
        return ("B", micro, place + 1), _along(micro, place, p) if two_ends else place % p
    return None, -1


# -- DualPipe ------------------------------------------------------------------------------------------------------
def _dualpipe(p: int, m: int) -> list[list[Task]]:
    """The order of each stage where half of the micro-batches come in at either end, as it is published.

    Stage i and its mirror image do the same with the ends exchanged. With h = m/2 and i < p/2: forwards of the own end,
    h − p + i + 1 rounds of a forward and a gradient of either end, gradients. Weight gradients stand apart while the
    pipeline fills and empties (arXiv:2412.19437, fig. 5; github.com/deepseek-ai/DualPipe). `place` counts stages along
    the way of a micro-batch; odd ones begin at the last stage.
    """
    return [_mirrored(min(i, p - 1 - i), i >= p // 2, p, m) for i in range(p)]


def _mirrored(i: int, far: bool, p: int, m: int) -> list[Task]:
    counts = {(kind, end): 0 for kind in "FBW" for end in (0, 1)}
    works: list[Task] = []
    apart: deque[int] = deque()  # gradients whose weights' gradients stand apart, by the end they came in at

    def add(kind: PassKind, end: int) -> None:
        way = end ^ far
        works.append((kind, 2 * counts[kind, end] + way, i if end == 0 else p - 1 - i))
        counts[kind, end] += 1

    def gradients(end: int, alone: bool) -> None:
        add("B", end)
        if alone:
            apart.append(end)
        else:
            add("W", end)

    outer = p // 2 - i - 1
    for _ in range(2 * outer):
        add("F", 0)
    for _ in range(i + 1):
        add("F", 0)
        add("F", 1)
    for _ in range(outer):
        gradients(1, True)
        add("W", apart.popleft())
        add("F", 1)
    for _ in range(m // 2 - p + i + 1):
        add("F", 0)
        gradients(1, False)
        add("F", 1)
        gradients(0, False)
    for _ in range(outer):
        gradients(1, False)
        add("F", 1)
        gradients(0, False)
    for n in range(2 * (i + 1)):
        gradients(1 - n % 2, n > i)
    for _ in range(outer):
        add("W", apart.popleft())
        gradients(0, True)
    while apart:
        add("W", apart.popleft())
    return works


def _together(orders: Sequence[Sequence[Task]]) -> frozenset[Task]:
    """The gradients that one backward pass makes with those of the weights, which follow at once."""
    pairs = (pair for works in orders for pair in pairwise(works))
    return frozenset(one for one, other in pairs if one[0] == "B" and other == ("W", *one[1:]))


def _along(micro: int, place: int, p: int) -> int:
    """The stage at a place of a micro-batch's way."""
    return place if micro % 2 == 0 else p - 1 - place


# -- time ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Played:
    """Items of a schedule, and when each ends: along a first axis, in the order of their waves, and 0 behind them."""

    schedule: str
    waves: Waves
    ends: Any
    sends: Any

    @property
    def seconds(self) -> Count:
        """That the busiest stage takes from its first start to its last end.

        ZB-H2 lets a stage begin the next step while others end this one, so that the longest span of a stage counts
        (arXiv:2401.10241 §4); of the others the first stage's is the whole.
        """
        last = self.ends[[items[-1] for items in self.waves.of_stage]]
        if self.schedule == "zb-h2":
            last = last - self.waves.starts(self.ends, self.sends, [items[0] for items in self.waves.of_stage])
        longest = last.max(axis=0)
        return longest if longest.ndim else float(longest)

    def of_stage(self, stage: int) -> Any:
        """When each item of a stage ends, in its order."""
        return self.ends[self.waves.of_stage[stage]]


@lru_cache(maxsize=256)
def _waves(schedule: str, p: int, m: int, v: int) -> Waves:
    return waves_of(sequence(schedule, p, m, v), "FBW")


def play(schedule: str, stages: Sequence[StageTimes], m: Count, v: int, longest: int) -> Played:
    """When everything happens.

    `m` micro-batches, at most `longest`, of which all elements together are played: those that an element does not have
    take no time and are not waited for.
    """
    waves = _waves(schedule, len(stages), longest, v)
    shape = np.broadcast_shapes(np.shape(m), *(np.shape(x) for s in stages for x in (*s.by_kind, s.send)))
    seconds, sends = np.zeros((len(stages), 3, *shape)), np.zeros((len(stages) + 1, *shape))
    for i, stage in enumerate(stages):
        sends[i] = stage.send
        for kind, value in enumerate(stage.by_kind):
            seconds[i, kind] = value
    some = m if is_array(m) and np.ndim(m) and int(m.min()) < longest else None
    return Played(schedule, waves, waves.ends(seconds, sends, some), sends)


def length(schedule: str, stages: Sequence[StageTimes], micro_batches: Count, chunks: int = 1) -> Count:
    """Seconds of `micro_batches` through the stages; with chunks a stage's times are those of one of them.

    A schedule is played out until it repeats itself; what comes then is added period by period. Raises InputError for
    what a schedule cannot take.
    """
    check_micro_batches(schedule, len(stages), micro_batches, chunks)
    p = len(stages)
    if p == 1:
        return micro_batches * stages[0].busy
    if not is_array(micro_batches) and not any(is_array(v) for s in stages for v in (s.forward, s.backward, s.weight)):
        return _length(schedule, stages, micro_batches, chunks)
    kinds = {id(s): s for s in stages}
    numbers = [v for s in kinds.values() for v in (s.forward, s.backward, s.weight, s.send)]
    shape = np.broadcast_shapes(*map(np.shape, (micro_batches, *numbers)))
    alike = distinct([v for v in (micro_batches, *numbers) if is_array(v)]) or everyone(shape)
    few = {key: s.at(alike.take) for key, s in kinds.items()}
    flat, m = [few[id(s)] for s in stages], alike.take(np.asarray(micro_batches))
    return np.asarray(_length(schedule, flat, m, chunks))[alike.within(shape)].reshape(shape)


def _played(schedule: str, stages: Sequence[StageTimes], m: Count, v: int) -> Count:
    """The length of `m` micro-batches, all played out; of DualPipe number by number: its orders are no parts of one."""
    if not is_array(m):
        return play(schedule, stages, m, v, int(m)).seconds
    if schedule != "dualpipe":
        return play(schedule, stages, m, v, int(m.max())).seconds
    lengths = np.zeros(m.shape)
    for number in np.unique(m):
        places = np.flatnonzero(m == number)
        some = [s.at(itemgetter(places)) for s in stages]
        lengths[places] = play(schedule, some, int(number), v, int(number)).seconds
    return lengths


def _length(schedule: str, stages: Sequence[StageTimes], m: Count, v: int, rounds: int = ROUNDS) -> Count:
    """The length of `m` micro-batches, played out only until every element repeats itself."""
    p = len(stages)
    longest, enough = int(m.max()) if is_array(m) else m, rounds * p
    if schedule == "gpipe":  # two flow shops of equal jobs: every further one takes as long as its slowest stage
        slowest = reduce(most, (s.forward for s in stages)) + reduce(most, (s.backward + s.weight for s in stages))
        return play(schedule, stages, 1, v, 1).seconds + (m - 1) * slowest
    if longest <= enough + p:
        return _played(schedule, stages, m, v)
    again, seconds = _repeat(schedule, stages, enough, v)
    if 3 * p * v * enough >= MOST_ITEMS:
        again = most(again, _shift(schedule, p, v)[1])
    repeats = again > 0
    if not is_array(m) and not repeats:
        return _length(schedule, stages, m, v, 4 * rounds)
    again = most(again, 1)
    size = least(m, enough + (m - enough) % again)
    lengths = _played(schedule, stages, size, v) + (m - size) / again * seconds
    if is_array(m) and is_array(lengths) and not np.all(repeats):
        rest = np.flatnonzero(~repeats)
        lengths[rest] = _length(schedule, [s.at(itemgetter(rest)) for s in stages], m[rest], v, 4 * rounds)
    return lengths


def _shift(schedule: str, p: int, v: int) -> tuple[int, int]:
    """After so many rounds, and micro-batches, the order of the work is the same again."""
    return {"interleaved": (p * v, p), "dualpipe": (1, 2)}.get(schedule, (1, 1))


def _rounds(schedule: str, stage: int, p: int, m: int, v: int) -> tuple[int, int, int]:
    """Where the rounds of a forward, its gradient and its weights' stand in a stage's order: first, items, number."""
    if schedule == "dualpipe":
        i = min(stage, p - 1 - stage)
        return 5 * (p // 2 - i - 1) + 2 * (i + 1), 6, m // 2 - p + i + 1
    warm, behind = warm_up(schedule, stage, p, v), lag(schedule, stage)
    return warm + 2 * behind, 3, m * v - warm - behind


def _repeat(schedule: str, stages: Sequence[StageTimes], m: int, v: int) -> tuple[Count, Count]:
    """After how many more micro-batches the last rounds of `m` come again, all later by the same seconds; 0 if not.

    An item starts at the maximum of what ends before it, plus its time. Whatever it needs stands at most `REACH` rounds
    back (p + 1 of an interleaved schedule). So where the last rounds of all stages are earlier ones shifted by the same
    time, all that follow are shifted too (a max-plus linear recurrence: Baccelli et al., Synchronization and Linearity,
    §3.7).
    """
    p = len(stages)
    every = play(schedule, stages, m, v, m)
    (rounds, micro_batches), reach = _shift(schedule, p, v), max(REACH, p + 1 if v > 1 else 0)
    places = [_rounds(schedule, i, p, m, v) for i in range(p)]
    window = min(number for *_, number in places)
    rows = (slice(start + items * (number - window), start + items * number) for start, items, number in places)
    played = np.stack([every.of_stage(i)[some] for i, some in enumerate(rows)], axis=1)
    by_round = played.reshape(window, -1, *played.shape[2:])
    again, seconds = np.zeros(by_round.shape[2:], dtype=np.int64), np.zeros(by_round.shape[2:])
    for times in range(1, min(p, (window - reach) // rounds) + 1):
        later = by_round[window - reach :] - by_round[window - reach - times * rounds : window - times * rounds]
        low, high = later.min(axis=(0, 1)), later.max(axis=(0, 1))
        same = (again == 0) & (high - low <= 1e-12 * by_round[-1].max(axis=0))
        again, seconds = np.where(same, times * micro_batches, again), np.where(same, low, seconds)
    last = (by_round[-1, 0] - by_round[-1 - rounds, 0]) if window > rounds else np.zeros(again.shape)
    seconds = np.where(again > 0, seconds, last)
    return (again, seconds) if again.ndim else (int(again), float(seconds))


def timeline(schedule: str, stages: Sequence[StageTimes], micro_batches: int, chunks: int = 1) -> Timeline:
    """Everything that happens to `micro_batches`.

    Raises InputError for what a schedule cannot take, and for more than `MOST_DRAWN` items: three for each micro-batch
    on each chunk of each stage.
    """
    check_micro_batches(schedule, len(stages), micro_batches, chunks)
    p = len(stages)
    most_drawn = MOST_DRAWN // (3 * p * chunks)
    if micro_batches > most_drawn:
        expected = f"at most {most_drawn} for a timeline of {p} stages, which draws every one"
        raise InputError("micro-batches", micro_batches, expected)
    played = play(schedule, stages, micro_batches, chunks, micro_batches)
    works, starts = sequence(schedule, p, micro_batches, chunks), played.waves.starts(played.ends, played.sends)
    times = sorted(zip(played.waves.numbers, starts.tolist(), played.ends.tolist(), strict=False))
    items = (
        Item(stage, kind, micro, micro % 2 if schedule == "dualpipe" and p > 1 else place // p, start, end)
        for (_, start, end), (stage, (kind, micro, place), *_) in zip(times, works, strict=True)
    )
    return Timeline(p, chunks, tuple(items))


def in_flight(schedule: str, stage: int, stages: int, micro_batches: Count, chunks: int = 1) -> Count:
    """Micro-batches whose activations a stage keeps at most: its warm-up, one more, and those whose W stays behind.

    GPipe m; 1F1B p − i; interleaved (2(p−i−1) + (v−1)·p + 1)/v (arXiv:2104.04473 §2.2); ZB-H1 p; ZB-H2 2p − 1;
    DualPipe p + 1. Never more than m.
    """
    if schedule == "gpipe":
        return micro_batches
    if schedule == "dualpipe":
        return least(micro_batches, stages + 1 if stages > 1 else 1)
    kept = warm_up(schedule, stage, stages, chunks) + 1 + lag(schedule, stage)
    return least(micro_batches * chunks, kept) / chunks if chunks > 1 else least(micro_batches, kept)


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
