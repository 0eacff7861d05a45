from __future__ import annotations

import pytest

import roofline as rl
from roofline.inference.settings import setup
from roofline.whatif.query.regimes import dominance
from roofline.whatif.sensitivity.tornado import OperatingPoint, answers

LLAMA = rl.load("meta-llama/Llama-3.1-8B")


def at(id: str = "meta-llama/Llama-3.1-8B", batch: int = 4) -> dict[tuple[str, str], float]:
    model = rl.load(id)
    point = OperatingPoint(setup(model, on="h100-sxm"), batch, 2048)
    return {(a.phase, a.knob): a.elasticity for a in answers(point) if a.elasticity is not None}


def test_decode_answers_to_bandwidth_and_prefill_to_the_peak() -> None:
    elasticity = at()
    assert elasticity["decode", "bandwidth"] < -0.7 < elasticity["prefill", "bandwidth"]
    assert elasticity["prefill", "peak"] < -0.6 < elasticity["decode", "peak"]
    assert elasticity["decode", "layers"] == pytest.approx(0.95, abs=0.05)
    times = [rl.estimate(LLAMA, rl.decode(4, 2048), on="h100-sxm", precision=p).time for p in (None, "weights=fp8")]
    point = OperatingPoint(setup(LLAMA, on="h100-sxm"), 4, 2048)
    swings = {a.knob: a for a in answers(point) if a.phase == "decode"}
    assert swings["weights in fp8"].at_low == pytest.approx(times[1] / times[0])
    assert 0.7 < swings["cache in fp8"].at_low < 1
    assert swings["weights in fp8"].elasticity is swings["cache in fp8"].elasticity is None


def test_a_mixture_answers_to_its_experts() -> None:
    elasticity = at("Qwen/Qwen3-30B-A3B")
    assert 0.2 < elasticity["decode", "experts per token"] < 1
    assert ("decode", "experts per token") not in at()


def test_the_elasticity_is_the_slope_between_the_ends() -> None:
    point = OperatingPoint(setup(LLAMA, on="h100-sxm"), 8, 1024)
    answer = next(a for a in answers(point) if (a.phase, a.knob) == ("decode", "batch"))
    times = [rl.estimate(LLAMA, rl.decode(b, 1024), on="h100-sxm").time for b in (4, 8, 16)]
    assert (answer.at_low, answer.at_high) == pytest.approx((times[0] / times[1], times[2] / times[1]))


def test_a_prefill_is_of_the_prompt_and_a_decode_after_the_context() -> None:
    point = OperatingPoint(setup(LLAMA, on="h100-sxm"), 4, 2176, prompt=128)
    assert point.time("prefill") == rl.estimate(LLAMA, rl.prefill(4, 128), on="h100-sxm").time
    assert point.time("decode") == rl.estimate(LLAMA, rl.decode(4, 2176), on="h100-sxm").time
    tests = {(t.phase, t.term): t.share for t in dominance(point)}
    moved = rl.analyze(LLAMA, rl.prefill(4, 128)).moved
    assert tests["prefill", "weights"] == pytest.approx(moved.weights / moved.total)
    knobs = {(a.phase, a.knob) for a in answers(point)}
    assert {("prefill", "input"), ("decode", "context")} <= knobs
    assert ("prefill", "context") not in knobs


def test_the_law_is_the_points() -> None:
    point = OperatingPoint(setup(LLAMA, on="h100-sxm", law="ideal"), 4, 1024)
    assert point.time("decode") == rl.estimate(LLAMA, rl.decode(4, 1024), on="h100-sxm", law="ideal").time
