"""Pipeline schedules: the order in which stages process micro-batches, and how long that takes.

A micro-batch runs forward (F) through all stages, then its input gradients (B) run back. The weight gradients (W) of a
stage need only its own B. Every schedule is a fixed order of work on each stage: GPipe (arXiv:1811.06965), 1F1B
(arXiv:1806.03377), interleaved 1F1B (arXiv:2104.04473 §2.2), zero-bubble H1, H2 and V (arXiv:2401.10241), DualPipe
(arXiv:2412.19437 §3.2.1) and DualPipeV, the half of it. A stage starts an item as soon as it is free and the item's
inputs have arrived. Stage times and numbers of micro-batches may be arrays: the order for fewer micro-batches is part
of the order for the most, except in `WRITTEN` ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import itemgetter
from typing import Any

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, ceil_div, is_array, least, most
from roofline.declared.numbers.unique_rows import distinct, everyone
from roofline.training.pipeline.order import KINDS, WRITTEN, PassKind, lag, warm_up, waves_of, whole_passes
from roofline.training.pipeline.recurrence import Waves
from roofline.work.training import CHUNKED, FACING, SCHEDULES, V_SHAPED

ROUNDS = 3
"""Micro-batches, as a multiple of the stages, that are simulated before a schedule is tested for its period; if there
is none, twice as many."""
REACH = 3
"""Rounds of a stage's neighbours that an item may wait for, its own included."""
MOST_ITEMS = 2**18
"""Most items that are simulated; beyond them a schedule is extrapolated from its last rounds."""
MOST_DRAWN = 2**17
"""Most items of a timeline, which holds every one of them: the longest takes a second and 100 MB."""


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

    def stacked(values: Sequence[Count]) -> Count:
        if any(is_array(v) for v in values):
            return np.stack(np.broadcast_arrays(*values))
        same = all(v == values[0] for v in values)
        return values[0] if same else np.reshape(np.asarray(values), (len(values), *(1 for _ in range(axes))))

    names = ("forward", "backward", "weight", "send")
    return StageTimes(*(stacked([getattr(t, name) for t in times]) for name in names))


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


def takes_chunks(schedule: str, chunks: int) -> bool:
    """Whether a schedule of several stages takes so many chunks per stage."""
    return chunks == 2 if schedule in V_SHAPED else (chunks > 1) == (schedule in CHUNKED)


def check_micro_batches(schedule: str, stages: int, micro_batches: Count, chunks: int) -> None:
    """Raises InputError where a schedule cannot take that many micro-batches, stages or chunks, naming what it can."""
    if schedule not in SCHEDULES:
        raise not_one_of("schedule", schedule, SCHEDULES)
    if chunks > 1 and stages == 1:
        raise InputError("layout.vp", chunks, "1 without pipeline stages: only stages are cut in chunks", ["1"])
    if not takes_chunks(schedule, chunks) and stages > 1:
        some = "more than 1 for an interleaved schedule" if schedule == "interleaved" else "1 but for interleaved"
        v_shaped = schedule in V_SHAPED
        raise InputError("layout.vp", chunks, f"2 for {schedule}" if v_shaped else some, ["2"] if v_shaped else [])
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
    if schedule == "dualpipev" and stages > 1 and int(numbers.min()) < 2 * stages:
        raise InputError(
            "micro-batches", int(numbers.min()), f"at least {2 * stages}, one for each chunk", [str(2 * stages)]
        )


MOST_NUMBERS = 8_000_000
"""End times simulated at once: more would leave the processor's cache, and take memory."""


# -- time ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Played:
    """Simulated items of a schedule and their end times: along the first axis in order of their waves, followed by a
    0.

    `took`: seconds by stage and kind; `sends`: by stage, followed by a 0.
    """

    schedule: str
    waves: Waves
    ends: Any
    took: Array
    sends: Any

    @property
    def seconds(self) -> Count:
        """Seconds that the busiest stage takes from its first start to its last end.

        With ZB-H2 and ZB-V a stage begins the next step while others still end this one, so the longest span of any
        stage counts (arXiv:2401.10241 §4). With the other schedules the first stage spans the whole.
        """
        last = self.ends[[items[-1] for items in self.waves.of_stage]]
        if self.schedule in ("zb-h2", "zb-v"):
            last = last - self.waves.starts(self.ends, self.sends, [items[0] for items in self.waves.of_stage])
        longest = last.max(axis=0)
        return longest if longest.ndim else float(longest)

    def of_stage(self, stage: int, some: slice) -> Any:
        """End times of some items of a stage, in its order."""
        return self.ends[self.waves.of_stage[stage][some]]


def play(schedule: str, stages: Sequence[StageTimes], m: Count, v: int, longest: int, whole: bool = False) -> Played:
    """Simulate a schedule: the end time of every item.

    `m`: micro-batches of each element, at most `longest`. All elements are simulated together; items beyond an
    element's own micro-batches take no time and nothing waits for them. `whole`: treat a backward pass and its weight
    gradients as one item, for a schedule that never delays the latter.
    """
    waves = waves_of(schedule, len(stages), longest, v, whole)
    times = [(s.forward, s.backward + s.weight) if whole else s.by_kind for s in stages]
    shape = np.broadcast_shapes(np.shape(m), *(np.shape(x) for s in stages for x in (*s.by_kind, s.send)))
    seconds, sends = np.zeros((len(stages), len(times[0]), *shape)), np.zeros((len(stages) + 1, *shape))
    for i, (stage, by_kind) in enumerate(zip(stages, times, strict=True)):
        sends[i] = stage.send
        for kind, value in enumerate(by_kind):
            seconds[i, kind] = value
    some = m if is_array(m) and np.ndim(m) and int(m.min()) < longest else None
    return Played(schedule, waves, waves.ends(seconds, sends, some), seconds, sends)


def length(schedule: str, stages: Sequence[StageTimes], micro_batches: Count, chunks: int = 1) -> Count:
    """Seconds of `micro_batches` through the stages; with chunks, a stage's times are those of one chunk.

    A schedule is simulated until it repeats; the remaining periods are added. Raises InputError for sizes that the
    schedule cannot take.
    """
    check_micro_batches(schedule, len(stages), micro_batches, chunks)
    p = len(stages)
    if p == 1:
        return micro_batches * stages[0].busy
    if not is_array(micro_batches) and not any(is_array(v) for s in stages for v in (*s.by_kind, s.send)):
        return float(_length(schedule, stages, np.array([micro_batches]), chunks)[0])
    kinds = {id(s): s for s in stages}
    numbers = [v for s in kinds.values() for v in (s.forward, s.backward, s.weight, s.send)]
    shape = np.broadcast_shapes(*map(np.shape, (micro_batches, *numbers)))
    alike = distinct([v for v in (micro_batches, *numbers) if is_array(v)]) or everyone(shape)
    few = {key: s.at(alike.take) for key, s in kinds.items()}
    flat, m = [few[id(s)] for s in stages], alike.take(np.asarray(micro_batches))
    at_once = max(1, MOST_NUMBERS // (3 * p * chunks * p * ROUNDS))
    blocks = [np.arange(start, min(start + at_once, len(m))) for start in range(0, len(m), at_once)]
    lengths = [_length(schedule, _some(flat, block), m[block], chunks) for block in blocks]
    return np.concatenate(lengths)[alike.within(shape)].reshape(shape)


def _played(schedule: str, stages: Sequence[StageTimes], m: Array, v: int) -> Array:
    """Length of `m` micro-batches, fully simulated; each number apart where the orders do not nest."""
    p = len(stages)
    if schedule not in WRITTEN:
        longest = ceil_div(int(m.max()), p) * p
        return np.asarray(play(schedule, stages, m, v, longest, whole_passes(schedule)).seconds)
    lengths = np.zeros(m.shape)
    for number in np.unique(m):
        places = np.flatnonzero(m == number)
        lengths[places] = play(schedule, _some(stages, places), int(number), v, int(number)).seconds
    return lengths


def _some(stages: Sequence[StageTimes], places: Array) -> list[StageTimes]:
    """The stages at some elements; equal stages stay one object."""
    few = {key: s.at(itemgetter(places)) for key, s in {id(s): s for s in stages}.items()}
    return [few[id(s)] for s in stages]


def _length(schedule: str, stages: Sequence[StageTimes], m: Array, v: int, rounds: int = ROUNDS) -> Array:
    """Length of `m` [n] micro-batches, each element simulated only until it repeats."""
    p = len(stages)
    if schedule == "gpipe":  # two flow shops of equal jobs: each further job takes as long as the slowest stage
        slowest = reduce(most, (s.forward for s in stages)) + reduce(most, (s.backward + s.weight for s in stages))
        lengths: Array = play(schedule, stages, 1, v, 1).seconds + (m - 1) * slowest
        return lengths
    enough = rounds * p
    long, slow = np.flatnonzero(m > enough + p), np.zeros(m.shape, dtype=bool)
    size, repeats, lengths, beyond = m.copy(), np.ones(m.shape, dtype=bool), np.zeros(m.shape), np.zeros(m.shape)
    if len(long):
        every = play(schedule, _some(stages, long), enough, v, enough, whole_passes(schedule))
        again, seconds = _repeat(every, schedule, enough, v)
        if 3 * p * v * enough >= MOST_ITEMS:
            again = np.maximum(again, _shift(schedule, p, v)[1])
        period, more = np.maximum(again, 1), m[long] - enough
        size[long], repeats[long], lengths[long] = enough + more % period, again > 0, every.seconds
        beyond[long] = more // period * seconds
        if whole_passes(schedule) and rounds > ROUNDS and not again.all():
            slow[long] = again == 0
            lengths[slow], beyond[slow] = _overtaking(every, schedule, v, enough, m[slow], again == 0), 0
    rest = np.flatnonzero(repeats & ((size > enough) | (m <= enough + p)))
    if len(rest):
        lengths[rest] = _played(schedule, _some(stages, rest), size[rest], v)
    lengths += beyond
    rest = np.flatnonzero(~repeats & ~slow)
    if len(rest):
        lengths[rest] = _length(schedule, _some(stages, rest), m[rest], v, 2 * rounds)
    return lengths


def _shift(schedule: str, p: int, v: int) -> tuple[int, int]:
    """Rounds, and micro-batches, after which the order of work is the same again."""
    return {"interleaved": (p * v, p), "dualpipe": (1, 2)}.get(schedule, (1, 1))


def _rounds(schedule: str, stage: int, p: int, m: int, v: int) -> tuple[int, int, int]:
    """Positions of the rounds of F, B and W in a stage's order: where they begin, items in each, number of them."""
    if schedule in FACING:
        two_ended = schedule == "dualpipe"
        i, half, each = (min(stage, p - 1 - stage), p // 2, m // 2) if two_ended else (stage, p, m)
        return 5 * (half - i - 1) + 2 * (i + 1), 6, each - 2 * half + i + 1
    if schedule == "zb-v":
        return 5 * p - 3 * stage - 1, 6, m - 2 * p + stage + 1
    warm, behind = warm_up(schedule, stage, p, v), lag(schedule, stage)
    return warm + 2 * behind, 2 if whole_passes(schedule) else 3, m * v - warm - behind


def _repeat(every: Played, schedule: str, m: int, v: int) -> tuple[Array, Array]:
    """Micro-batches, and seconds, of the period with which the last rounds of `m` repeat; 0 micro-batches where none.

    An item starts at the maximum of what ends before it, plus its time. Whatever it needs stands at most `REACH` rounds
    back (p + 1 of an interleaved schedule). So where the last rounds of all stages are earlier ones shifted by the same
    time, all that follow are shifted too (a max-plus linear recurrence: Baccelli et al., Synchronization and Linearity,
    §3.7).
    """
    p = len(every.waves.of_stage)
    (rounds, micro_batches), reach = _shift(schedule, p, v), max(REACH, p + 1 if v > 1 else 0)
    places = [_rounds(schedule, i, p, m, v) for i in range(p)]
    window = min(number for *_, number in places)

    def ends_of(first: int, last: int) -> Array:
        """End times in the rounds from `first` to before `last`: [round, stage and item, element]."""
        begins = ((at + n * (number - window), n) for at, n, number in places)
        rows = (slice(begin + n * first, begin + n * last) for begin, n in begins)
        played = np.stack([every.of_stage(i, some) for i, some in enumerate(rows)], axis=1)
        return played.reshape(last - first, -1, *played.shape[2:])

    latest = ends_of(max(0, window - reach), window)
    again, seconds = np.zeros(latest.shape[2:], dtype=np.int64), np.zeros(latest.shape[2:])
    for times in range(1, min(p, (window - reach) // rounds) + 1):
        later = latest - ends_of(window - reach - times * rounds, window - times * rounds)
        low, high = later.min(axis=(0, 1)), later.max(axis=(0, 1))
        same = (again == 0) & (high - low <= 1e-12 * latest[-1].max(axis=0))
        again, seconds = np.where(same, times * micro_batches, again), np.where(same, low, seconds)
        if again.all():
            break
    if window <= rounds:
        return again, np.where(again > 0, seconds, 0.0)
    last = latest[-1, 0] - ends_of(window - 1 - rounds, window - rounds)[0, 0]
    return again, np.where(again > 0, seconds, last)


def _overtaking(every: Played, schedule: str, v: int, enough: int, m: Array, some: Array) -> Array:
    """Length of `m` micro-batches of some elements, of which `enough` are simulated and do not repeat yet.

    Where two stages take nearly as long, each repeats with a period of its own until one has waited long enough for the
    other. Until then every end of a stage moves by the same time in each period, as long as no item begins to wait for
    another one than before. So all periods but those near such a change are added at once.
    """
    waves, took, sends = every.waves, *(np.array(x[..., some]) for x in (every.took, every.sends))
    p = len(waves.of_stage)
    (rounds, micro_batches), reach = _shift(schedule, p, v), max(REACH, p + 1 if v > 1 else 0)
    places = [_rounds(schedule, i, p, enough, v) for i in range(p)]
    window, block = min(number for *_, number in places), max(rounds, reach)
    most_followed = max(2, min((window - block - rounds) // (2 * rounds), p + block))

    def items(first: int, last: int | None) -> list[Array]:
        """The items of each stage in the rounds from `first` to before `last`, or to the end."""
        begins = (at + n * (number - window) for at, n, number in places)
        return [
            waves.of_stage[i][begin + 2 * first : None if last is None else begin + 2 * last]
            for i, begin in enumerate(begins)
        ]

    latest, earlier = (np.concatenate(items(window - block - n, window - n)) for n in (0, rounds))
    waited, stage = waves.needed[latest], waves.stage[latest]
    alone = waited == len(waves.stage)
    sender = np.where(alone, stage, waves.stage[np.where(alone, 0, waited)])
    again = np.concatenate(items(max(0, window - block - most_followed * rounds), None))
    needs = [x[np.append(again, latest)] for x in (waves.needed, waves.before)]
    used = np.unique(np.concatenate([again, earlier, *needs]))  # of which alone the end times are followed
    place = np.zeros(len(waves.stage) + 1, dtype=np.int64)
    place[used] = np.arange(len(used))
    ends, sent = every.ends[used][:, some], waves.sender[latest]
    latest, earlier, previous, waited, last = (
        place[x] for x in (latest, earlier, waves.before[latest], waited, [order[-1] for order in waves.of_stage])
    )
    lengths, left, at = np.zeros(m.shape), (m - enough) // micro_batches, np.arange(len(m))
    while len(at):
        moved = (ends[latest] - ends[earlier]).reshape(p, 2 * block, -1)
        low, high = moved.min(axis=1), moved.max(axis=1)
        near = 1e-12 * ends[latest[-1]]
        steady, alike = (high - low <= near).all(axis=0), high.max(axis=0) - low.min(axis=0) <= near
        gain = high[sender] - high[stage]
        slack = ends[previous] - ends[waited] - sends[sent]
        until = np.where(gain > near, slack, np.inf) / np.where(gain > near, gain, 1.0)
        free = np.maximum(np.floor(until.min(axis=0)), 0.0)
        added = np.where(steady, np.where(alike, left, np.minimum(free, left)), 0).astype(np.int64)
        followed = np.minimum(most_followed, left - added)
        for number in np.unique(followed).tolist():
            some = followed == number
            part, back = ends[:, some], number * rounds
            part[place[np.concatenate(items(window - block - back, window - back))]] = (
                part[latest] + added[some] * high[stage][:, some]
            )
            waves.follow(part, place, took[..., some], sends[..., some], np.concatenate(items(window - back, None)))
            ends[:, some] = part
        left = left - added - followed
        over = left == 0
        lengths[at[over]] = ends[last].max(axis=0)[over]
        at, left = at[~over], left[~over]
        ends, took, sends = ends[:, ~over], took[..., ~over], sends[..., ~over]
    return lengths


def timeline(schedule: str, stages: Sequence[StageTimes], micro_batches: int, chunks: int = 1) -> Timeline:
    """Every item of the passes of `micro_batches`, with its start and end.

    Raises InputError for sizes that the schedule cannot take, and for more than `MOST_DRAWN` items: three for each
    micro-batch on each chunk of each stage.
    """
    check_micro_batches(schedule, len(stages), micro_batches, chunks)
    p = len(stages)
    most_drawn = MOST_DRAWN // (3 * p * chunks)
    if micro_batches > most_drawn:
        expected = f"at most {most_drawn} for a timeline of {p} stages, which draws every one"
        raise InputError("micro-batches", micro_batches, expected)
    played = play(schedule, stages, micro_batches, chunks, micro_batches)
    waves, starts = played.waves, played.waves.starts(played.ends, played.sends)
    rows = [v.tolist() for v in (starts, played.ends, waves.kind, waves.micro, waves.place)]
    two_ends = schedule == "dualpipe" and p > 1
    items = (
        Item(stage, KINDS[kind], micro, micro % 2 if two_ends else place // p, start, end)
        for stage, order in enumerate(waves.of_stage)
        for start, end, kind, micro, place in ([row[i] for row in rows] for i in order.tolist())
    )
    return Timeline(p, chunks, tuple(items))


def in_flight(schedule: str, stage: int, stages: int, micro_batches: Count, chunks: int = 1) -> Count:
    """Most micro-batches whose activations a stage keeps: its warm-up, one more, and those whose W is delayed.

    GPipe m; 1F1B p − i; interleaved (2(p−i−1) + (v−1)·p + 1)/v (arXiv:2104.04473 §2.2); ZB-H1 p; ZB-H2 2p − 1;
    ZB-V p (arXiv:2401.10241 §6); DualPipe p + 1; DualPipeV p + 1/2, which is 2p + 1 of its chunks. Never more than m.
    """
    if schedule == "gpipe":
        return micro_batches
    if schedule == "dualpipe":
        return least(micro_batches, stages + 1 if stages > 1 else 1)
    if schedule in V_SHAPED:
        return least(micro_batches, stages + (schedule == "dualpipev") / 2 if stages > 1 else 1)
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
    has them overlapped), DualPipeV that of 2p stages of half the time; ZB-V (p−1)(max(F, B) − W), none where all are
    equal (§6). Those with W hold where the gradients are no shorter than W.
    """
    whole = forward + backward + weight
    fill = stages - 1
    bubble = {
        "gpipe": fill * whole,
        "1f1b": fill * whole,
        "interleaved": fill * whole / chunks,
        "zb-h1": fill * (forward + backward - weight),
        "zb-h2": fill * (forward + backward - 2 * weight),
        "zb-v": fill * (most(forward, backward) - weight),
        "dualpipe": (stages / 2 - 1) * (forward + 2 * backward - weight),
        "dualpipev": fill * (forward + 2 * backward - weight) / 2,
    }[schedule]
    return micro_batches * whole + bubble * (bubble > 0)
