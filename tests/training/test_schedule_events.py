"""Every schedule against an event simulation that shares no code with it: orders written anew, items one by one.

A rank works through its list. An item starts when the rank is free and what it needs has arrived, and takes the time
of the stage of the model that it is of: with DualPipe a rank takes turns with its own stage and that of the other end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest

from roofline.training.pipeline.schedule import StageTimes, length, timeline
from roofline.work.training import SCHEDULES

Work = tuple[str, int, int]
"""What is done, of which micro-batch, at which place along the model: F, B and W, or BW, a backward pass in one."""


def gpipe(rank: int, p: int, m: int, v: int) -> Iterator[Work]:
    """All forwards, then all backward passes, the last micro-batch first (arXiv:1811.06965)."""
    yield from (("F", micro, rank) for micro in range(m))
    yield from (("BW", micro, rank) for micro in reversed(range(m)))


def one_by_one(rank: int, p: int, m: int, v: int) -> Iterator[Work]:
    """As many forwards as stages follow, then one forward and one backward pass in turns (arXiv:1806.03377)."""
    forwards, backwards = iter(range(m)), iter(range(m))
    for _ in range(min(m, p - 1 - rank)):
        yield "F", next(forwards), rank
    for micro in backwards:
        later = next(forwards, None)
        if later is not None:
            yield "F", later, rank
        yield "BW", micro, rank


def interleaved(rank: int, p: int, m: int, v: int) -> Iterator[Work]:
    """p micro-batches through a rank's first chunk, its second, …; back last chunk first (arXiv:2104.04473)."""
    rounds = [(first, chunk) for first in range(0, m, p) for chunk in range(v)]
    forwards = deque(("F", first + n, chunk * p + rank) for first, chunk in rounds for n in range(p))
    backwards = deque(("BW", first + n, (v - 1 - chunk) * p + rank) for first, chunk in rounds for n in range(p))
    for _ in range(min(m * v, 2 * (p - rank - 1) + (v - 1) * p)):
        yield forwards.popleft()
    while backwards:
        if forwards:
            yield forwards.popleft()
        yield backwards.popleft()


def zero_bubble(warm: int, behind: int, rank: int, m: int) -> Iterator[Work]:
    """1F1B with so many forwards first, the gradients of weights so many micro-batches behind (arXiv:2401.10241)."""
    forwards = iter(range(m))
    for _ in range(min(m, warm)):
        yield "F", next(forwards), rank
    for micro in range(m):
        later = next(forwards, None)
        if later is not None:
            yield "F", later, rank
        yield "B", micro, rank
        if micro >= behind:
            yield "W", micro - behind, rank
    for micro in range(max(0, m - behind), m):
        yield "W", micro, rank


def zb_h1(rank: int, p: int, m: int, v: int) -> Iterator[Work]:
    return zero_bubble(p - 1 - rank, rank, rank, m)


def zb_h2(rank: int, p: int, m: int, v: int) -> Iterator[Work]:
    return zero_bubble(2 * (p - 1 - rank), 2 * rank, rank, m)


def dualpipe(rank: int, p: int, m: int, v: int) -> list[Work]:
    """github.com/deepseek-ai/DualPipe, dualpipe.py, `step`: eight stretches of chunks of phase 0 and phase 1.

    Phase 0 comes from the near end. A backward chunk with `enable_zb` leaves its weights' gradients in a queue, which a
    weight chunk takes from; any other makes them at once, after the gradient that goes on (arXiv:2412.19437 §3.2.1:
    backward chunks are split in two parts as in zero-bubble schedules).
    """
    half, second = min(rank, p - 1 - rank), rank >= p // 2
    place = rank, p - 1 - rank  # of what comes in at the first rank, and at the last
    works: list[Work] = []
    queue: deque[Work] = deque()
    counts = {"F": [0, 0], "B": [0, 0]}

    def chunk(kind: str, phase: int) -> tuple[int, int]:
        way = phase ^ second
        number = counts[kind][way]
        counts[kind][way] += 1
        return 2 * number + way, place[way]

    def forward(phase: int) -> None:
        works.append(("F", *chunk("F", phase)))

    def backward(phase: int, enable_zb: bool = False) -> None:
        micro, where = chunk("B", phase)
        works.append(("B", micro, where))
        (queue if enable_zb else works).append(("W", micro, where))

    for _ in range(2 * (p // 2 - half - 1)):  # 1: F0
        forward(0)
    for _ in range(half + 1):  # 2: F0 F1
        forward(0)
        forward(1)
    for _ in range(p // 2 - half - 1):  # 3: B1 W1 F1
        backward(1, enable_zb=True)
        works.append(queue.popleft())
        forward(1)
    for _ in range(m // 2 - p + half + 1):  # 4: F0 B1 F1 B0
        forward(0)
        backward(1)
        forward(1)
        backward(0)
    for _ in range(p // 2 - half - 1):  # 5: B1 F1 B0
        backward(1)
        forward(1)
        backward(0)
    enable_zb, steps = False, half + 1
    for i in range(steps):  # 6: B1 B0
        enable_zb = enable_zb or (i == steps // 2 and half % 2 == 1)
        backward(1, enable_zb)
        enable_zb = enable_zb or (i == steps // 2 and half % 2 == 0)
        backward(0, enable_zb)
    for _ in range(p // 2 - half - 1):  # 7: W B0
        works.append(queue.popleft())
        backward(0, enable_zb=True)
    return works + list(queue)  # 8: W


def dualpipev(rank: int, p: int, m: int, v: int) -> list[Work]:
    """github.com/deepseek-ai/DualPipe, dualpipev.py: DualPipe's near half, whose far end is the second chunk."""
    return [(kind, micro // 2, place) for kind, micro, place in dualpipe(rank, 2 * p, 2 * m, 1)]


def zb_v(rank: int, p: int, m: int, v: int) -> list[Work]:
    """torch/distributed/pipelining/schedules.py, `ScheduleZBVZeroBubble`: of each chunk what comes by turns.

    The first chunk's forward of a micro-batch, the second's forward with gradients, and the first's gradients, as the
    cells of a table whose columns are shifted: 2(p − rank) − 1 forwards and `rank` pairs come before, the gradients of
    the last p (second chunk: `rank`) micro-batches are followed by those of weights only at the end.
    """
    most, near, far = max(m, 2 * p - 1), rank, 2 * p - 1 - rank
    works: list[Work] = [("F", n, near) for n in range(2 * (p - rank) - 1)]
    for n in range(rank):
        works += [("F", n, far), ("F", 2 * (p - rank) - 1 + n, near)]
    for n in range(p - rank):
        works += [("F", rank + n, far), ("B", n, far), ("W", n, far)]
    for n in range(most - p):
        ahead = 2 * p - 1 - rank + n
        works += [("F", ahead, near)] if ahead < most else []
        works += [("B", n, near), ("W", n, near), ("F", p + n, far), ("B", p - rank + n, far), ("W", p - rank + n, far)]
    for n in range(rank):
        works += [("B", most - p + n, near), ("B", most - rank + n, far)]
    for n in range(p - rank):
        works += [("B", most - p + rank + n, near), ("W", most - p + n, near)]
    works += [("W", most - rank + n, far) for n in range(rank)]
    works += [("W", most - rank + n, near) for n in range(rank)]
    return [work for work in works if work[1] < m]


ORDERS = {
    "gpipe": gpipe, "1f1b": one_by_one, "interleaved": interleaved, "zb-h1": zb_h1, "zb-h2": zb_h2, "zb-v": zb_v,
    "dualpipe": dualpipe, "dualpipev": dualpipev,
}  # fmt: skip


def sent_to_next(schedule: str, stages: list[StageTimes], place: int) -> float:
    """Seconds from a chunk to the next; a V that turns sends nothing, and goes back over the links it came by."""
    p = len(stages)
    if schedule in ("zb-v", "dualpipev") and place >= p - 1:
        return 0.0 if place == p - 1 else stages[2 * p - 2 - place].send
    return stages[place % p].send


def simulated(schedule: str, stages: list[StageTimes], m: int, v: int = 1) -> float:
    """Seconds, event by event; of ZB-H2 and ZB-V, which let steps overlap, the longest that a rank is at it."""
    p = len(stages)
    lists = [deque(ORDERS[schedule](rank, p, m, v)) for rank in range(p)]
    free, began = [0.0] * p, [-1.0] * p
    arrived: dict[tuple[str, int, int], float] = {}
    while any(lists):
        moved = False
        for rank, works in enumerate(lists):
            while works:
                kind, micro, place = works[0]
                first = kind == "F" and place == 0
                turned = kind in ("B", "BW") and place == p * v - 1
                ready: float | None = 0.0
                if kind != "W" and not first and not turned:
                    ready = arrived.get((kind[0], micro, place))
                if ready is None:
                    break
                works.popleft()
                moved = True
                back = schedule in ("zb-v", "dualpipev") and place >= p
                stage = stages[2 * p - 1 - place if back else place % p]
                seconds = {
                    "F": stage.forward,
                    "B": stage.backward,
                    "W": stage.weight,
                    "BW": stage.backward + stage.weight,
                }
                start = max(free[rank], ready)
                free[rank] = start + seconds[kind]
                began[rank] = start if began[rank] < 0 else began[rank]
                if kind == "F":
                    arrived["F", micro, place + 1] = free[rank] + sent_to_next(schedule, stages, place)
                elif kind != "W" and place:
                    arrived["B", micro, place - 1] = free[rank] + sent_to_next(schedule, stages, place - 1)
        assert moved, "the order waits for itself"
    return (
        max(end - start for end, start in zip(free, began, strict=True)) if schedule in ("zb-h2", "zb-v") else max(free)
    )


def drawn(schedule: str, rng: np.random.Generator) -> tuple[list[StageTimes], int, int]:
    """Stages that have nothing to do with one another, and numbers that the schedule takes."""
    p = int(rng.choice([2, 4, 6, 8] if schedule == "dualpipe" else [2, 3, 4, 5, 8]))
    v = int(rng.choice([2, 3])) if schedule == "interleaved" else 2 if schedule in ("zb-v", "dualpipev") else 1
    m = int(rng.integers(2 * p, 12 * p))
    m -= m % p if schedule == "interleaved" else m % 2 if schedule == "dualpipe" else 0
    numbers = rng.uniform(0.2, 3.0, (p, 4)) * (1, 1.2, 0.8, rng.choice([0, 0.2]))
    return [StageTimes(*row) for row in numbers.tolist()], m, v


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_random_unequal_stages_take_what_an_event_simulation_takes(schedule: str) -> None:
    rng = np.random.default_rng(29)
    for _ in range(40):
        stages, m, v = drawn(schedule, rng)
        expected = simulated(schedule, stages, m, v)
        assert length(schedule, stages, m, v) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_arrays_of_random_unequal_stages_are_simulated_one_by_one(schedule: str) -> None:
    rng = np.random.default_rng(31)
    p, v = 4, 2 if schedule in ("interleaved", "zb-v", "dualpipev") else 1
    numbers, m = rng.uniform(0.2, 3.0, (p, 3, 8)), rng.integers(2, 9, 8) * p
    lengths = length(schedule, [StageTimes(*rows, 0.1) for rows in numbers], m, v)
    for i, number in enumerate(m.tolist()):
        alone = [StageTimes(*rows, 0.1) for rows in numbers[:, :, i].tolist()]
        assert lengths[i] == pytest.approx(simulated(schedule, alone, number, v), rel=1e-9)


def test_dualpipe_shares_the_work_of_unequal_stages_between_both_ends() -> None:
    """Stages of 0.5, 1, 1 and 1.5 s a pass, 200 micro-batches: every rank works 100 · (0.5 + 1.5) · 3 or as much."""
    stages = [StageTimes(x, x, x) for x in (0.5, 1.0, 1.0, 1.5)]
    assert length("dualpipe", stages, 200) == pytest.approx(601.5, abs=1)
    assert timeline("dualpipe", stages, 200).busy == pytest.approx((600, 600, 600, 600))
