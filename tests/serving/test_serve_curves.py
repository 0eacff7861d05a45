"""A few drawn curves of `serve`: more users never get less, more requests never come sooner."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from folded import by_day
from roofline.serving.server import SHORT_APART

CURVES = [
    ("meta-llama/Llama-3.1-8B", "l40s", "vllm", 700, 6), ("Qwen/Qwen3-30B-A3B", "b200", "trtllm", 9000, 20),
    ("openai/gpt-oss-20b", "h100-sxm", "sglang", 300, 40), ("meta-llama/Llama-3.2-1B", "l4", "vllm", 60, 300),
    ("Qwen/Qwen3-32B", "h200-sxm", "sglang", 2000, 3), ("openai/gpt-oss-120b", "b200", "trtllm", 4000, 100),
]  # fmt: skip


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("model", "chip", "engine", "new", "out"), CURVES)
def test_no_curve_falls(model: str, chip: str, engine: str, new: int, out: int) -> None:
    given = {"on": chip, "engine": engine, "input": new, "output": out}
    few = by_day(11 if out <= SHORT_APART else 1, 1)  # users of short answers are followed
    for formula, users in ((False, [1, 2, 4, 8, 16, 48]), (True, list(range(1, 65, few)))):
        rates = rl.serve(model, concurrency=np.array(users), formula=formula, **given).requests_per_second
        assert (rates[1:] > (0.995 if formula else 0.999) * np.maximum.accumulate(rates)[:-1]).all()
    most = rl.serve(model, concurrency=2**20, formula=True, **given).requests_per_second
    waits = rl.serve(model, rate=most * np.array([0.05, 0.3, 0.6, 0.8]), **given).ttft.expected
    assert (waits[1:] > 0.99 * np.maximum.accumulate(waits)[:-1]).all()


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("model", "chip", "new", "out"),
    [
        ("openai/gpt-oss-120b", "b200", 94, 146), ("Qwen/Qwen3-30B-A3B", "h100-sxm", 58, 44),
        ("meta-llama/Llama-3.1-8B", "mi300x", 92, 14),
    ],
)  # fmt: skip
def test_waits_never_fall_where_every_place_is_taken(model: str, chip: str, new: int, out: int) -> None:
    """Prompts that run apart and share few places: a decode step and those prompts take what that many ends take."""
    given = {"on": chip, "engine": "sglang", "input": new, "output": out, "formula": True}
    most = rl.serve(model, concurrency=2**20, **given).requests_per_second
    waits = rl.serve(model, rate=most * np.linspace(0.05, 0.95, 19), **given).ttft.expected
    assert (waits[1:] > 0.99 * np.maximum.accumulate(waits)[:-1]).all()


def test_a_step_of_many_short_prompts_takes_time() -> None:
    """What a kernel costs once, found of long chunks, is more than 53 tokens of linear attention take; steps
    of many of these were negative."""
    given = {"on": "4xh200-sxm", "layout": "tp=4", "engine": "vllm", "input": 53, "output": 938}
    s = rl.serve("Qwen/Qwen3-Next-80B-A3B-Instruct", rate=13.6, **given)
    assert 0 < s.tpot.expected < 1
    seen = rl.simulate("Qwen/Qwen3-Next-80B-A3B-Instruct", rate=13.6, extent=rl.Extent(requests=300), **given)
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.1)


EVENLY = 0.2 / 12**0.5 / 0.9
"""Coefficient of variation of lengths drawn evenly from [0.8·L, L]."""
ROUNDS = [
    ("meta-llama/Llama-3.1-8B", "h100-sxm", "vllm", 1024, 1024, 64),
    ("openai/gpt-oss-120b", "b200", "sglang", 1024, 1024, 128),
    ("Qwen/Qwen3-32B", "h200-sxm", "trtllm", 1024, 512, 16),
]


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("model", "chip", "engine", "new", "out", "users"), ROUNDS)
def test_rounds_of_a_benchmark_have_its_opening(
    model: str, chip: str, engine: str, new: int, out: int, users: int
) -> None:
    """Ten requests of each user, from 0.8 of a length to all of it, all users beginning at once, against `simulate`."""
    given = {"on": chip, "engine": engine, "concurrency": users}
    mean = {"input": int(0.9 * new), "output": int(0.9 * out), "input_cv": EVENLY, "output_cv": EVENLY}
    steady = rl.serve(model, **given, **mean)
    ten, hundred = (rl.serve(model, rounds=n, **given, **mean) for n in (10, 100))
    drawn = {"input": f"uniform({int(0.8 * new)},{new})", "output": f"uniform({int(0.8 * out)},{out})"}
    seen = rl.simulate(model, extent=rl.Extent(requests=10 * users, warmup=0, seed=3), **given, **drawn)
    assert ten.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.15)
    assert ten.ttft.expected - steady.ttft.expected == pytest.approx(
        10 * (hundred.ttft.expected - steady.ttft.expected)
    )
    assert (ten.tpot, ten.requests_per_second, ten.rounds) == (steady.tpot, steady.requests_per_second, 10)


def test_one_user_has_no_opening() -> None:
    given = {"on": "h100-sxm", "input": 1000, "output": 100}
    alone = rl.serve("meta-llama/Llama-3.1-8B", concurrency=1, **given)
    assert rl.serve("meta-llama/Llama-3.1-8B", concurrency=1, rounds=1, **given).ttft == alone.ttft
    for wrong in ({"rate": 1.0}, {"concurrency": 4, "formula": False}):
        with pytest.raises(rl.InputError, match="rounds"):
            rl.serve("meta-llama/Llama-3.1-8B", rounds=3, **given, **wrong)
