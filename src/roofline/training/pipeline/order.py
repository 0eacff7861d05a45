"""The order of work on each stage of a pipeline, and the dependencies of every item, as arrays.

All stages have equally many items. An item has a kind, a micro-batch and a place. The place is the index of a model
chunk in model order. For DualPipe it is the index along the path of the micro-batch; odd micro-batches enter at the
last stage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.training.pipeline.recurrence import Waves
from roofline.work.training import V_SHAPED

PassKind: TypeAlias = Literal["F", "B", "W"]
KINDS: tuple[PassKind, ...] = ("F", "B", "W")
FORWARD, BACKWARD, WEIGHT = range(3)
StageNumber = TypeVar("StageNumber", int, Array)
"""The index of a stage, or an array of them."""


def warm_up(schedule: str, stage: StageNumber, p: int, v: int) -> StageNumber:
    """Forward passes of a stage before its first gradient, given enough micro-batches; for GPipe all of them."""
    return {"interleaved": 2 * (p - stage - 1) + (v - 1) * p, "zb-h2": 2 * (p - stage - 1)}.get(schedule, p - stage - 1)


def lag(schedule: str, stage: StageNumber) -> StageNumber:
    """Micro-batches by which a stage delays its weight gradients."""
    return {"zb-h1": stage, "zb-h2": 2 * stage}.get(schedule, 0 * stage)


def stage_of(schedule: str, place: Array, p: int) -> Array:
    """The stage that has a chunk: chunks go round the p stages, and back again where they have the shape of a V."""
    around = place % p
    return np.where(place < p, around, p - 1 - around) if schedule in V_SHAPED else around


def whole_passes(schedule: str) -> bool:
    """Whether a schedule never delays weight gradients, so that a backward pass is one item."""
    return schedule in ("gpipe", "1f1b", "interleaved")


@dataclass(frozen=True, eq=False)
class Orders:
    """The work of all stages, [stages, items] each."""

    kind: Array
    micro: Array
    place: Array


def orders(schedule: str, p: int, m: int, v: int) -> Orders:
    """The work of every stage in order. Chunks take turns of p micro-batches, first to last forward and back for
    gradients.

    Forward `warm + k` precedes gradient k, which is followed by the weight gradients of the gradient `lag` before it.
    """
    if schedule in WRITTEN and p > 1:
        works = np.array([WRITTEN[schedule](i, p, m) for i in range(p)], dtype=np.int64)
        return Orders(works[..., 0], works[..., 1], works[..., 2])
    total, stage = m * v, np.arange(p)[:, None]
    behind = lag(schedule, stage)
    warm = np.full((p, 1), total) if schedule == "gpipe" else np.minimum(total, warm_up(schedule, stage, p, v))
    k = np.arange(total)[None]
    micro, place = (k // (p * v) * p + k % p, k // p % v * p + stage) if v > 1 else (k, stage + 0 * k)
    micro = np.broadcast_to(micro, place.shape)
    back = m - 1 - micro if schedule == "gpipe" else micro
    mirrored = (v - 1) * p + 2 * stage - place
    last = np.minimum(k + behind, total)  # W delayed past the last gradient follows it, in order
    after = np.concatenate((3 * (k - warm), np.broadcast_to(3 * k + 1, place.shape), 3 * last + 2), axis=1)
    sequence = np.argsort(after, axis=1, kind="stable")

    def ordered(forward: Array, backward: Array, weight: Array) -> Array:
        return np.take_along_axis(np.concatenate((forward, backward, weight), axis=1), sequence, axis=1)

    kinds = (np.full(place.shape, kind) for kind in (FORWARD, BACKWARD, WEIGHT))
    return Orders(ordered(*kinds), ordered(micro, back, back), ordered(place, mirrored, mirrored))


Work: TypeAlias = tuple[int, int, int]
"""Kind, micro-batch, place."""


def _two_ended(stage: int, p: int, m: int) -> list[Work]:
    """DualPipe: half of the micro-batches enter at each end; a stage and its mirror image exchange the ends."""
    i, far = min(stage, p - 1 - stage), stage >= p // 2
    return [(kind, 2 * n + (end ^ far), p - 1 - i if end else i) for kind, n, end in _dualpipe(i, p // 2, m // 2)]


def _folded(stage: int, p: int, m: int) -> list[Work]:
    """DualPipeV: DualPipe's nearer half, where the far end of a stage is its second chunk (Qi et al., 2025, "DualPipe
    could be better without the Dual"; torch/distributed/pipelining/schedules.py, `ScheduleDualPipeV`)."""
    return [(kind, n, 2 * p - 1 - stage if end else stage) for kind, n, end in _dualpipe(stage, p, m)]


def _dualpipe(i: int, half: int, m: int) -> list[tuple[int, int, int]]:
    """DualPipe's published order of stage i of `half`, for m micro-batches from each end: kind, number, end.

    Forwards of the own end, m − 2·half + i + 1 rounds of a forward and a gradient of either end, gradients. Weight
    gradients are separate items while the pipeline fills and drains (arXiv:2412.19437, fig. 5;
    github.com/deepseek-ai/DualPipe).
    """
    counts = {(kind, end): 0 for kind in (FORWARD, BACKWARD, WEIGHT) for end in (0, 1)}
    works: list[tuple[int, int, int]] = []
    apart: deque[int] = deque()  # gradients whose weights' gradients stand apart, by the end they came in at

    def add(kind: int, end: int) -> None:
        works.append((kind, counts[kind, end], end))
        counts[kind, end] += 1

    def gradients(end: int, alone: bool) -> None:
        add(BACKWARD, end)
        if alone:
            apart.append(end)
        else:
            add(WEIGHT, end)

    outer = half - i - 1
    for _ in range(2 * outer):
        add(FORWARD, 0)
    for _ in range(i + 1):
        add(FORWARD, 0)
        add(FORWARD, 1)
    for _ in range(outer):
        gradients(1, True)
        add(WEIGHT, apart.popleft())
        add(FORWARD, 1)
    for _ in range(m - 2 * half + i + 1):
        add(FORWARD, 0)
        gradients(1, False)
        add(FORWARD, 1)
        gradients(0, False)
    for _ in range(outer):
        gradients(1, False)
        add(FORWARD, 1)
        gradients(0, False)
    for n in range(2 * (i + 1)):
        gradients(1 - n % 2, n > i)
    for _ in range(outer):
        add(WEIGHT, apart.popleft())
        gradients(0, True)
    while apart:
        add(WEIGHT, apart.popleft())
    return works


def _zb_v(stage: int, p: int, m: int) -> list[Work]:
    """ZB-V (arXiv:2401.10241 §6) as PyTorch writes it out (`ScheduleZBVZeroBubble`).

    The first chunk runs 2(p − i) − 1 micro-batches ahead; then forwards, then gradients of either chunk in turn. Weight
    gradients follow their gradient at once, except those of the last ones. Where there are fewer than 2p − 1
    micro-batches, the order is that of 2p − 1 without what is not there.
    """
    most = max(m, 2 * p - 1)
    places = (stage, 2 * p - 1 - stage)
    counts = {(kind, chunk): 0 for kind in (FORWARD, BACKWARD, WEIGHT) for chunk in (0, 1)}
    works: list[Work] = []

    def add(chunk: int, *kinds: int) -> None:
        for kind in kinds:
            works.append((kind, counts[kind, chunk], places[chunk]))
            counts[kind, chunk] += 1

    for _ in range(2 * (p - stage) - 1):
        add(0, FORWARD)
    for _ in range(stage):
        add(1, FORWARD)
        add(0, FORWARD)
    for _ in range(p - stage):
        add(1, FORWARD, BACKWARD, WEIGHT)
    while counts[FORWARD, 1] < most:
        if counts[FORWARD, 0] < most:
            add(0, FORWARD)
        add(0, BACKWARD, WEIGHT)
        add(1, FORWARD, BACKWARD, WEIGHT)
    for _ in range(stage):
        add(0, BACKWARD)
        add(1, BACKWARD)
    for _ in range(p - stage):
        add(0, BACKWARD, WEIGHT)
    for chunk in (1, 0):
        add(chunk, *[WEIGHT] * (most - counts[WEIGHT, chunk]))
    return [work for work in works if work[1] < m]


WRITTEN: Mapping[str, Callable[[int, int, int], list[Work]]] = {
    "zb-v": _zb_v, "dualpipe": _two_ended, "dualpipev": _folded,
}  # fmt: skip
"""Schedules whose order is published item by item, for a stage of p and m micro-batches. The order for fewer
micro-batches is no part of the order for more."""


# -- what waits for what -------------------------------------------------------------------------------------------
@lru_cache(maxsize=64)
def waves_of(schedule: str, p: int, m: int, v: int, whole: bool = False) -> Waves:
    """The items of a schedule by wave; `whole`: weight gradients are part of the backward passes.

    A forward needs the forward of the place before it, a gradient the gradient of the place after it. Where weight
    gradients are delayed a gradient is sent on at once, otherwise after the whole backward pass.
    """
    o = orders(schedule, p, m, v)
    if whole:
        kept = o.kind != WEIGHT
        o = Orders(*(values[kept].reshape(p, -1) for values in (o.kind, o.micro, o.place)))
    items = o.kind.shape[1]
    none = p * (items + 1)
    numbers = np.arange(none).reshape(p, items + 1)  # one dummy item after each stage's last
    of = np.full((3, m, p * v + 1), none)
    of[o.kind, o.micro, o.place] = numbers[:, :-1]
    forward = o.kind == FORWARD
    wanted = np.where(forward, of[FORWARD, o.micro, o.place - 1], of[BACKWARD, o.micro, o.place + 1])
    if not whole and whole_passes(schedule):
        wanted = _behind_passes(o, numbers, of, wanted)
    waits = np.where(forward, o.place > 0, (o.kind == BACKWARD) & (o.place < p * v - 1))
    needed = numbers.copy()
    needed[:, :-1] = np.where(waits, wanted, none)
    link = np.where(forward, o.place - 1, o.place)  # from a chunk to the next, of the lower of its two stages
    sender = stage_of(schedule, link, p)
    if schedule in V_SHAPED:
        sender = np.where(link < p - 1, sender, np.where(link < p, p, sender - 1))  # none where the V turns
    before = numbers - 1
    before[:, 0] = none
    return _by_wave(schedule, o, needed, before, np.where(waits, sender, p))


def _behind_passes(o: Orders, numbers: Array, of: Array, wanted: Array) -> Array:
    """The needed items, with each gradient replaced by the weight gradient that follows it at once."""
    follows = (o.kind[:, :-1] == BACKWARD) & (o.kind[:, 1:] == WEIGHT)
    follows &= (o.micro[:, :-1] == o.micro[:, 1:]) & (o.place[:, :-1] == o.place[:, 1:])
    later = np.arange(numbers.size + 1)
    later[numbers[:, :-2][follows]] += 1
    return np.asarray(later[wanted])


def _by_wave(schedule: str, o: Orders, needed: Array, before: Array, sender: Array) -> Waves:
    """Items in the earliest wave that their dependencies allow, as if all took equally long.

    `needed` and `before` [stages, items + 1] number items stage by stage, with one dummy item after each stage.
    """
    p, items = o.kind.shape
    size, flat = p * (items + 1), needed.reshape(-1)
    there = np.zeros(size + 1, dtype=bool)
    there[size] = True
    current = np.arange(p) * (items + 1)
    waves, left = list[Array](), p * items
    while left:
        ready = there[flat[current]]
        chosen = current[ready]
        if not len(chosen):
            raise AssertionError(f"the order of {schedule} waits for itself")
        there[chosen] = True
        waves.append(chosen)
        current += ready
        left -= len(chosen)
    every = np.concatenate(waves)
    stage, item = np.divmod(every, items + 1)
    place = np.full(size + 1, p * items)
    place[every] = np.arange(p * items)
    places = o.place[stage, item]
    return Waves(
        stage, o.kind[stage, item], o.micro[stage, item], places, stage_of(schedule, places, p),
        place[before.reshape(-1)[every]], place[flat[every]], sender[stage, item],
        (0, *np.cumsum([len(wave) for wave in waves]).tolist()),
        tuple(place[i * (items + 1) : (i + 1) * (items + 1) - 1] for i in range(p)),
    )  # fmt: skip
