"""Chips that are slower than others: what a step waits for the slowest of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.training.pipeline.schedule import StageTimes, length
from roofline.training.replicas.stragglers import stragglers_named

LLAMA_8B = "meta-llama/Llama-3.1-8B"
STEP: dict[str, Any] = {"batch": 64, "tokens": 4096, "on": "4xdgx-h100"}
SLOW = "0.01:1.2,0.002:2"


def slowed(step: Any, factors: list[float]) -> float:
    """Seconds of the passes by the schedule itself, where each stage computes so many times as long."""
    stages = []
    for stage, factor in zip(step.stages, factors, strict=True):
        p = stage.turns
        sent = sum(float(span.expected) for span in p.exchange.values())
        busy = sent + factor * (float(p.busy.expected) - sent)
        stages.append(StageTimes(busy / 3, 2 * busy / 3, 0.0))
    return float(length("1f1b", stages, int(step.micro_batches)))


@folded("layout", ["tp=2,dp=16,zero=1", "tp=2,pp=4,dp=4,zero=1", "tp=2,pp=2,dp=8,zero=1"], ids=str)
def test_a_step_waits_as_pipelines_of_drawn_chips_do(layout: str) -> None:
    """Each chip draws its slowdown, a stage has that of its slowest chip, and the schedule puts the stages in order."""
    e = rl.train(LLAMA_8B, layout=layout, stragglers=SLOW, **STEP)
    pp, draw = len(e.stages), random.Random(1)
    usual = slowed(e, [1.0] * pp)
    later = 0.0
    for _ in range(3000):
        factors = [max(draw.choices([1.0, 1.2, 2.0], [0.988, 0.01, 0.002], k=32 // pp)) for _ in range(pp)]
        later += (slowed(e, factors) - usual) / 3000
    assert e.late == pytest.approx(later, rel=0.1)


def test_a_slow_chip_of_one_stage_alone_by_hand() -> None:
    """One in a hundred chips takes 1.2 times as long: a step of 32 equal chips waits for one in 1 − 0.99³² of cases."""
    e = rl.train(LLAMA_8B, layout="dp=32,zero=3", stragglers="0.01:1.2", recompute="full", **STEP)
    p = e.slowest.turns
    computed = p.busy.expected - sum(span.expected for span in p.exchange.values())
    assert e.late == pytest.approx(e.micro_batches * computed * 0.2 * (1 - 0.99**32))
    usual = rl.train(LLAMA_8B, layout="dp=32,zero=3", recompute="full", **STEP)
    assert e.time - e.late == pytest.approx(usual.time - usual.late)


def test_the_breakdown_names_them_and_adds_up() -> None:
    e = rl.train(LLAMA_8B, layout="tp=2,pp=4,dp=4,zero=1", stragglers=SLOW, **STEP)
    parts = rl.breakdown(e)
    assert parts.stragglers == parts.rest["stragglers"] == e.late > 0
    assert parts.total == pytest.approx(e.time)
    assert parts.between == pytest.approx(e.asked.engine.between_s)
    ideal = rl.train(LLAMA_8B, layout="dp=32,zero=3", law="ideal", **STEP)
    assert rl.breakdown(ideal).stragglers == 0


def test_many_layouts_at_once_wait_as_one_by_one() -> None:
    best = rl.search_training(LLAMA_8B, on="dgx-h100", batch=16, tokens=4096, stragglers="0.1:1.5", top=40)
    assert len({plan.spread.pp for plan in best.plans}) > 1
    for plan in best.plans[::5]:
        assert plan.seconds == pytest.approx(plan.estimate.time)
        assert plan.estimate.late > 0


@folded("text", ["1.2", "0.1:0.9", "0.6:1.2,0.6:1.3", "0:2", "0.1:inf", "a:b", "0.1:1.2:3", "", "nan:2"], ids=str)
def test_what_is_no_share_of_slower_chips_is_an_input_error(text: str) -> None:
    with pytest.raises(rl.InputError, match=r"stragglers.*0\.01:1\.2"):
        rl.train(LLAMA_8B, stragglers=text, layout="dp=32", **STEP)


def test_a_larger_machine_is_never_faster() -> None:
    slow = stragglers_named("0.3:1.1,0.05:3")
    assert slow is not None
    one = rl.train(LLAMA_8B, layout="dp=32,zero=3", **STEP).slowest.turns
    waits = np.asarray(slow.later([(one, 1)], 2 ** np.arange(15)))
    assert np.all(np.diff(waits) >= 0)
    computed = one.busy.expected - sum(span.expected for span in one.exchange.values())
    assert waits[-1] == pytest.approx(2 * computed)
