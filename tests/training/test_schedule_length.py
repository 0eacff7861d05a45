"""The length of a schedule, found by its period, is that of playing all of it out, item by item."""

from __future__ import annotations

import numpy as np
import pytest

from folded import by_day, folded
from roofline.training.pipeline.schedule import StageTimes, length, play
from roofline.work.training import CHUNKED, SCHEDULES, V_SHAPED


def drawn(schedule: str, rng: np.random.Generator) -> tuple[list[StageTimes], int, int]:
    """Stages that are equal, nearly equal or all different, and numbers that the schedule takes."""
    p = int(rng.choice([2, 4, 6, 8] if schedule == "dualpipe" else [2, 3, 4, 5, 8]))
    v = int(rng.choice([2, 3])) if schedule == "interleaved" else 2 if schedule in V_SHAPED else 1
    m = int(rng.integers(2 * p, 30 * p))
    m -= m % p if schedule == "interleaved" else m % 2 if schedule == "dualpipe" else 0
    spread = rng.choice([0.0, 0.1, 0.4])
    numbers = 1 + spread * rng.random((p, 4))
    return [StageTimes(f, 1.7 * b, 0.8 * w, 0.05 * send) for f, b, w, send in numbers.tolist()], m, v


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_length_is_that_of_every_item_played_out(schedule: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(by_day(15, 60)):
        stages, m, v = drawn(schedule, rng)
        assert length(schedule, stages, m, v) == pytest.approx(play(schedule, stages, m, v, m).seconds, rel=1e-12)


def test_stages_that_take_nearly_as_long_are_played_near_the_changes_alone() -> None:
    """Two stages within a thousandth: each repeats by itself for hundreds of micro-batches before one waits."""
    rng = np.random.default_rng(11)
    for _ in range(12):
        p, v = int(rng.integers(2, 6)), int(rng.choice([1, 2, 4]))
        schedule, m = "interleaved" if v > 1 else "1f1b", p * int(rng.integers(30, 60))
        near = 1 + rng.choice([-1, 1], (p, 3)) * 10 ** rng.uniform(-4, -2, (p, 3))
        times = rng.uniform(0.5, 2, 3) * near
        stages = [StageTimes(f, b, w, 0.02 * rng.integers(2)) for f, b, w in times.tolist()]
        assert length(schedule, stages, m, v) == pytest.approx(play(schedule, stages, m, v, m).seconds, rel=1e-11)


@folded("schedule", SCHEDULES)
def test_arrays_of_stage_times_and_micro_batches_are_the_elements_one_by_one(schedule: str) -> None:
    rng = np.random.default_rng(8)
    p, v = 4, 2 if schedule in CHUNKED else 1
    m = rng.integers(2, 40, 30) * p
    numbers = 1 + 0.2 * rng.random((p, 30))
    stages = [StageTimes(x, 1.7 * x, 0.8, 0.05) for x in numbers]
    lengths = length(schedule, stages, m, v)
    for i, number in enumerate(m.tolist()):
        alone = [s.at(lambda values, i=i: values[i].item()) for s in stages]
        assert lengths[i] == pytest.approx(play(schedule, alone, number, v, number).seconds, rel=1e-12)
