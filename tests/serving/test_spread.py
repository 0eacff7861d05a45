"""Requests whose lengths vary: `serve` against `simulate`, which draws them, and arrays of their spread."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from drawn import RELATIVE

LLAMA = "meta-llama/Llama-3.1-8B"
LOADS = [(engine, load) for load in ("concurrency", "rate") for engine in ("vllm", "trtllm", "sglang")]


@cache
def told_and_seen(engine: str, load: str) -> tuple[rl.Serving, rl.Simulation]:
    """1,024 in and 256 out, of 32 users or at 0.6 of the most, as `serve` tells it and as 4,000 requests see it."""
    given: dict[str, Any] = {"input": 1024, "output": 256, "on": "h100-sxm", "engine": engine}
    number = 32 if load == "concurrency" else 0.6 * rl.serve(LLAMA, concurrency=2**20, **given).requests_per_second
    given = {**given, load: number}
    told, seen = rl.serve(LLAMA, **given), rl.simulate(LLAMA, extent=rl.Extent(requests=4000, seed=3), **given)
    assert isinstance(told, rl.Serving)
    assert isinstance(seen, rl.Simulation)
    return told, seen


@pytest.mark.parametrize(("engine", "load"), LOADS)
def test_means_are_those_that_varying_requests_see(engine: str, load: str) -> None:
    """TPOT within 5 %, TTFT within 10 %."""
    told, seen = told_and_seen(engine, load)
    assert told.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)
    assert told.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.1)


@pytest.mark.parametrize("name", ["ttft", "tpot", "latency"])
@pytest.mark.parametrize(("engine", "load"), LOADS)
def test_the_slowest_of_a_hundred_are_those_that_varying_requests_see(engine: str, load: str, name: str) -> None:
    """p99 within 25 %."""
    told, seen = told_and_seen(engine, load)
    assert getattr(told.percentiles, name).p99 == pytest.approx(getattr(seen, name).p99, rel=0.25)


@pytest.mark.parametrize(("new", "cv", "users"), [(8192, 0.3, 32), (9000, 0.05, 32), (8192, 0.3, 8), (16384, 0.96, 4)])
def test_prompts_of_several_steps_wait_for_those_that_come_together(new: int, cv: float, users: int) -> None:
    """Users whose answers ended in short steps are back during a long one, and fill the last chunk of a prompt: TTFT
    within 6 %."""
    given = {"on": "h100-sxm", "engine": "vllm", "input": new, "output_tokens": 128, "input_cv": cv}
    told = rl.serve(LLAMA, concurrency=users, **given)
    seen = rl.simulate(LLAMA, concurrency=users, extent=rl.Extent(requests=4000, seed=1), **given)
    assert told.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.06)
    assert told.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.03)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("new", "out"), [(848, 95), (729, 899)])
@pytest.mark.parametrize("load", [0.9, 0.6])
def test_ranks_in_step_at_random(new: int, out: int, load: float) -> None:
    """Equally long requests to four ranks that share experts: TTFT and TPOT within 10 %."""
    given: dict[str, Any] = {"on": "8xh100-sxm", "layout": "dp=4,ep=4", "engine": "trtllm", "input": new, "output": out}
    model = "Qwen/Qwen3-30B-A3B"
    rate = load * rl.serve(model, concurrency=2**20, **given, **EQUAL).requests_per_second
    told = rl.serve(model, rate=rate, **given, **EQUAL)
    seen = rl.simulate(model, rate=rate, extent=rl.Extent(requests=4000, seed=3), **given, **EQUAL)
    assert told.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.1)
    assert told.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.1)


# -- arrays --------------------------------------------------------------------------------------------------------
INPUTS, OUTPUTS = [0.0, 0.5, 0.96, 2.0], [0.0, 0.78]
FIGURES = ("ttft", "tpot", "latency")
PLACES: list[dict[str, Any]] = [
    {"on": "h100-sxm", "concurrency": 24},
    {"on": "h100-sxm", "rate": 4.0},
    {"on": "h100-sxm", "engine": "trtllm", "rate": 4.0},
    {"on": "4xh100-sxm", "prefill_layout": "tp=1", "prefills": 2, "decodes": 2, "rate": 4.0},
    {"on": "4xh100-sxm", "prefill_layout": "tp=1", "prefills": 2, "decodes": 2, "concurrency": 24},
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: " ".join(map(str, place.values())))
def test_an_array_of_spreads_is_each_of_them(place: dict[str, Any]) -> None:
    given = {"input": 1500, "output": 200, **place}
    every = rl.serve(LLAMA, input_cv=np.array(INPUTS)[:, np.newaxis], output_cv=np.array(OUTPUTS), **given)
    assert every.ttft.expected.shape == (len(INPUTS), len(OUTPUTS))
    for i, new in enumerate(INPUTS):
        for j, out in enumerate(OUTPUTS):
            one = rl.serve(LLAMA, input_cv=new, output_cv=out, **given)
            for name in FIGURES:
                both, alone = getattr(every, name), getattr(one, name)
                for end in ("floor", "low", "expected", "high"):
                    seen = np.broadcast_to(getattr(both, end), (len(INPUTS), len(OUTPUTS)))[i, j]
                    assert seen == pytest.approx(getattr(alone, end), rel=RELATIVE), (name, end)


@pytest.mark.parametrize("load", [{"concurrency": 24}, {"rate": 4.0}])
def test_percentiles_of_an_array_of_spreads_are_those_of_each(load: dict[str, float]) -> None:
    given = {"input": 1500, "output": 200, "on": "h100-sxm", **load}
    every = rl.serve(LLAMA, input_cv=np.array(INPUTS), **given).percentiles
    for i, cv in enumerate(INPUTS):
        one = rl.serve(LLAMA, input_cv=cv, **given).percentiles
        for name in FIGURES:
            for part in ("p50", "p90", "p95", "p99"):
                mine, alone = getattr(getattr(every, name), part)[i], getattr(getattr(one, name), part)
                assert mine == pytest.approx(alone, rel=RELATIVE), (name, part)


@pytest.mark.parametrize("load", [{"concurrency": 24}, {"rate": 4.0}])
@pytest.mark.parametrize("axis", ["input_cv", "output_cv"])
def test_a_spread_is_an_axis_of_a_sweep(axis: str, load: dict[str, float]) -> None:
    given = {"input": 1500, "output_tokens": 200, "on": "h100-sxm", **load}
    swept = rl.sweep(LLAMA, phase="serve", **given, **{axis: INPUTS})
    frame = swept.to_frame()
    assert frame[axis].to_list() == INPUTS
    for i, cv in enumerate(INPUTS):
        one = rl.serve(LLAMA, **given, **{axis: cv})
        for name in ("ttft", "tpot"):
            assert frame[name][i] == pytest.approx(getattr(one, name).expected, rel=RELATIVE)


def test_prompts_that_vary_more_wait_longer() -> None:
    """At a rate and at a concurrency."""
    for load in ({"concurrency": 24}, {"rate": 6.0}):
        given = {"input": 1500, "output": 200, "on": "h100-sxm", "input_cv": np.array(INPUTS), **load}
        ttft = rl.serve(LLAMA, **given).ttft.expected
        assert (np.diff(ttft) > 0).all()


@pytest.mark.parametrize("cv", [-0.1, float("nan"), float("inf"), "much"])
@pytest.mark.parametrize("name", ["input_cv", "output_cv"])
def test_a_spread_is_a_number_from_nothing(name: str, cv: Any) -> None:
    with pytest.raises(rl.InputError, match=name) as caught:
        rl.serve(LLAMA, input=1500, output=200, on="h100-sxm", concurrency=24, **{name: cv})
    assert caught.value.field == name


def test_an_engine_that_reserves_room_runs_fewer_where_answers_vary() -> None:
    where = {"on": "2xh200-sxm", "layout": "tp=2", "precision": "weights=fp8,kv=fp8"}
    load = {"input": 1024, "output_tokens": 8192, "concurrency": 128}

    def served(engine: str, cv: float) -> rl.Serving:
        vary = {"input_cv": 0.0, "output_cv": cv}
        s: rl.Serving = rl.serve("meta-llama/Llama-3.1-70B", **where, **load, **vary, engine=engine)
        return s

    alike, varied = served("trtllm", 0.0), served("trtllm", 0.5)
    assert alike.places == alike.capacity == varied.capacity
    assert varied.places == pytest.approx(alike.places * (1024 + 8192) / (1024 + 1.25 * 8192), abs=1.5)  # (1 + v)·O
    assert varied.ttft.expected > 10 > alike.ttft.expected
    assert served("vllm", 0.5).ttft.expected < 1  # starts with room for the prompt
