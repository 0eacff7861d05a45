"""Arrays of which some elements do less than others are the single estimates one by one."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from roofline.training.pipeline.schedule import StageTimes, length


def test_dualpipe_of_several_times_and_many_micro_batches() -> None:
    times = np.array([1.0, 2.0, 0.5])
    together = length("dualpipe", [StageTimes(times, 2 * times, times)] * 4, 100)
    alone = [length("dualpipe", [StageTimes(t, 2 * t, t)] * 4, 100) for t in times.tolist()]
    assert np.shape(together) == (3,)
    assert together == pytest.approx(alone, rel=1e-12)


def test_scans_of_waves_that_leave_nothing_over() -> None:
    sizes = {"batch": np.array([64, 150, 202]), "input": 20_000, "output": 16}
    asked = {"on": "h200-sxm", "precision": "fp8", "engine": "vllm"}
    model = rl.load("Qwen/Qwen3-Next-80B-A3B-Instruct")
    together = rl.generate(model, **sizes, **asked)
    alone = [rl.generate(model, **{**sizes, "batch": n}, **asked) for n in (64, 150, 202)]
    assert [int(n) for n in together.waves] == [int(g.waves) for g in alone]
    assert together.latency.expected == pytest.approx([g.latency.expected for g in alone], rel=1e-12)
