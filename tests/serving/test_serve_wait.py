"""How long a prompt waits in a server that always has the same number of requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from roofline.inference.settings import setup
from roofline.serving.serve import server_of
from roofline.serving.server import SHORT_APART


@pytest.mark.parametrize("concurrency", [2, 3, 8])
def test_prompts_wait_for_those_in_flight_and_no_more(concurrency: int) -> None:
    """Nearly all of the work is prompts: who comes finds at most the others' before its own."""
    alone, many = (
        rl.serve("meta-llama/Llama-3.1-8B", on="h100-sxm", engine="none", input=32768, output=2, concurrency=n)
        for n in (1, concurrency)
    )
    assert alone.ttft.expected < many.ttft.expected < concurrency * alone.ttft.expected
    assert many.requests_per_second == pytest.approx(alone.requests_per_second, rel=0.02)


H100 = {"on": "h100-sxm", "engine": "none"}
LLAMA = "meta-llama/Llama-3.1-8B"


def step(prompts: int, decodes: int) -> float:
    """Seconds of a step of prompts of 1,000 tokens and of decodes at a context of 1,050."""
    work = rl.Step((rl.Queries(0, 1000, prompts), rl.Queries(1050, 1, decodes))[: 2 if decodes else 1])
    return float(rl.estimate(LLAMA, work, **H100).time)


def test_requests_that_end_make_room_for_the_next() -> None:
    """Eight of 100 tokens, in no order: each begins in a step with one chance in 100.

    A prompt is in a step with 0.07 others; 1 − 0.99⁷ = 6.79 % of a request's decode steps have prompts of others, 1.03
    in the mean.
    """
    asked = setup(rl.load(LLAMA), rl.Where(**H100))
    load = rl.Load(input=1000, output_tokens=100, concurrency=8, **EQUAL)
    s = replace(server_of(asked, load), follows=False).at(8)
    alone = float(rl.estimate(LLAMA, rl.decode(batch=8, context=1050), **H100).time)
    share = 1 - 0.99**7
    one, two = step(1, 7), step(2, 7)
    first, others = (one + more * (two - one) for more in (0.07, 0.07 / share - 1))
    assert s.ttft.expected == pytest.approx(first, rel=0.005)
    assert s.tpot.expected == pytest.approx((1 - share) * alone + share * others, rel=0.005)
    assert s.latency.expected == pytest.approx(s.ttft.expected + 99 * s.tpot.expected)
    assert s.requests_per_second == pytest.approx(8 / s.latency.expected)


def test_whoever_comes_to_an_idle_server_waits_for_nobody() -> None:
    slow = rl.serve(LLAMA, input=1000, output=100, rate=1e-3, **H100)
    lone = rl.serve(LLAMA, input=1000, output=100, concurrency=1, **H100)
    assert slow.ttft.expected == pytest.approx(lone.ttft.expected, rel=1e-3)
    assert slow.tpot.expected == pytest.approx(lone.tpot.expected, rel=1e-3)
    assert (slow.in_flight, slow.requests_per_second) == (1, 1e-3)


@pytest.mark.parametrize("formula", [False, True])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_throughput_never_falls_with_concurrency(engine: str, formula: bool, whole: bool) -> None:
    """By day servers that are followed have fewer points, and up to 16 users: each takes longer than a simulation."""
    for size in ((100, 10), (2000, 8), (20000, 100), (300, 1000), (3000, 1)):
        followed = formula and size[1] <= SHORT_APART
        most, points = (16, 3) if followed and not whole else (2000, 60 if formula else 10)
        many = np.unique(np.geomspace(1, most, points).astype(int))
        given = {"input": size[0], "output": size[1], **H100, "engine": engine, "formula": formula}
        rates = rl.serve(LLAMA, concurrency=many, **given).requests_per_second
        assert (rates[1:] >= 0.99 * np.maximum.accumulate(rates)[:-1]).all(), size


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_waits_grow_with_the_rate_up_to_the_capacity_that_a_refusal_names(engine: str) -> None:
    given = {"input": 2000, "output": 50, **H100, "engine": engine}
    with pytest.raises(rl.InputError) as error:
        rl.serve(LLAMA, rate=1000.0, **given)
    most = rl.serve(LLAMA, concurrency=100_000, formula=True, **given).requests_per_second
    assert f"at most {most:.3g} requests a second" in str(error.value)
    s = rl.serve(LLAMA, rate=most * np.linspace(0.02, 0.98, 49), formula=True, **given)
    assert (np.diff(s.ttft.expected) > 0).all()
    assert (np.diff(s.tpot.expected) > -1e-3 * s.tpot.expected[1:]).all()
