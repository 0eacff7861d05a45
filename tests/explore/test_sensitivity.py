from __future__ import annotations

import pytest

import roofline as rl
from roofline.estimates.place import placed
from roofline.explore.sensitivity import Point, answers

LLAMA = rl.load("meta-llama/Llama-3.1-8B")


def at(id: str = "meta-llama/Llama-3.1-8B", batch: int = 4) -> dict[tuple[str, str], float]:
    model = rl.load(id)
    point = Point(model, placed("h100-sxm"), model.precision, batch, 2048)
    return {(a.phase, a.knob): a.elasticity for a in answers(point)}


def test_decode_answers_to_bandwidth_and_prefill_to_the_peak() -> None:
    found = at()
    assert found["decode", "memory bandwidth"] < -0.7 < found["prefill", "memory bandwidth"]
    assert found["prefill", "peak"] < -0.6 < found["decode", "peak"]
    assert found["decode", "layers"] == pytest.approx(0.95, abs=0.05)
    assert 0.5 < found["decode", "bits of a weight"] < 1
    assert 0 < found["decode", "bits of the cache"] < 0.3


def test_a_mixture_answers_to_its_experts() -> None:
    found = at("Qwen/Qwen3-30B-A3B")
    assert 0.2 < found["decode", "experts per token"] < 1
    assert ("decode", "experts per token") not in at()


def test_the_elasticity_is_the_slope_between_the_ends() -> None:
    point = Point(LLAMA, placed("h100-sxm"), LLAMA.precision, 8, 1024)
    answer = next(a for a in answers(point) if (a.phase, a.knob) == ("decode", "batch"))
    times = [rl.estimate(LLAMA, rl.decode(b, 1024), on="h100-sxm").time for b in (4, 8, 16)]
    assert (answer.at_low, answer.at_high) == pytest.approx((times[0] / times[1], times[2] / times[1]))
