"""`serve` in closed form against `simulate`, request by request; a benchmark of the same name draws many more."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from confidence import width
from folded import by_day, folded
from roofline.serving.simulate.simulate import Extent, simulate

LLAMA = "meta-llama/Llama-3.1-8B"
EVENLY = 0.2 / 3**0.5
"""Coefficient of variation of lengths drawn evenly from 0.8 to 1.2 of their mean."""
OPEN = [
    ("vllm", 1000, 200, 0.1), ("vllm", 1000, 200, 0.5), ("vllm", 3000, 400, 0.8), ("vllm", 200, 64, 0.7),
    ("vllm", 800, 5, 0.5), ("sglang", 800, 3, 0.5), ("trtllm", 5000, 2, 0.85),
    ("trtllm", 1000, 200, 0.6), ("trtllm", 300, 500, 0.85), ("sglang", 1000, 200, 0.4), ("sglang", 400, 300, 0.8),
]  # fmt: skip


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("engine", "new", "out", "load"), OPEN)
def test_requests_at_random(engine: str, new: int, out: int, load: float) -> None:
    """TPOT within 5 %, TTFT within 15 %, beyond the simulation's own confidence."""
    given = {"input": new, "output": out, "on": "h100-sxm", "engine": engine, **EQUAL}
    most = rl.serve(LLAMA, concurrency=2**20, **given).requests_per_second
    s = rl.serve(LLAMA, rate=load * most, formula=False, **given)
    seen = simulate(LLAMA, rate=load * most, extent=Extent(requests=5000, seed=3), **given)
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, abs=0.05 * seen.tpot.mean + width(seen.tpot))
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, abs=0.15 * seen.ttft.mean + width(seen.ttft))


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("engine", "new", "out", "users"), [
    ("vllm", 1000, 200, 1), ("vllm", 1000, 200, 40), ("vllm", 4000, 500, 8), ("trtllm", 1000, 200, 20),
    ("sglang", 1000, 200, 20), ("vllm", 20000, 5, 6), ("trtllm", 9000, 4, 3), ("sglang", 300, 1, 50),
])  # fmt: skip
def test_always_as_many(engine: str, new: int, out: int, users: int) -> None:
    """Throughput within 3 %, TPOT within 5 %, TTFT within 15 %, of users who all begin at once."""
    given = {"input": new, "output": out, "on": "h100-sxm", "engine": engine, "concurrency": users, **EQUAL}
    s = rl.serve(LLAMA, formula=False, **given)
    seen = simulate(LLAMA, ramp=0.0, extent=Extent(requests=60 * users + 400, warmup=4 * users, seed=3), **given)
    assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.03)
    assert out == 1 or s.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.15)


@folded("engine, users, new, out", [
    ("vllm", 16, 1024, 256), ("vllm", 64, 256, 1024), ("trtllm", 16, 1024, 256), ("none", 64, 1024, 256),
    ("sglang", 16, 1024, 256), ("sglang", 64, 4096, 128),
], drawn=3)  # fmt: skip
def test_equally_long_requests_do_what_the_engine_does_with_them(engine: str, users: int, new: int, out: int) -> None:
    """SGLang's users stay in step in both, those of other engines in neither; nothing is said of it."""
    given = {"input": new, "output_tokens": out, "on": "h100-sxm", "engine": engine, "concurrency": users, **EQUAL}
    s, seen = rl.serve(LLAMA, **given), rl.simulate(LLAMA, extent=Extent(requests=30 * users), **given)
    assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.03)
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.15)
    marched = rl.serve(LLAMA, formula=False, **given).ttft.expected
    assert (s.ttft.expected == marched) == (engine == "sglang")
    assert marched > 1.2 * s.ttft.expected or engine == "sglang"


@folded("layout, new, out, load", [("dp=8", 1928, 2, 0.5), ("dp=4", 2528, 31, 0.4)], drawn=1)
def test_replicas_that_take_turns_have_even_arrivals(layout: str, new: int, out: int, load: float) -> None:
    """As if they came at random, TTFT was 79 and 14 % too long, and p99 of TPOT 41 % in the second."""
    given = {"on": "8xb200", "engine": "vllm", "layout": layout, "input": new, "output_tokens": out, **EQUAL}
    rate = load * rl.serve("Qwen/Qwen3-32B", concurrency=2**20, **given).requests_per_second
    s = rl.serve("Qwen/Qwen3-32B", rate=rate, **given)
    seen = rl.simulate("Qwen/Qwen3-32B", rate=rate, extent=Extent(requests=3000), **given)
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.1)
    assert s.percentiles.tpot.p99 == pytest.approx(seen.tpot.p99, rel=0.15)


def test_a_sweep_over_the_spread_has_both() -> None:
    given = {"input": 1024, "output_tokens": 128, "on": "h100-sxm", "engine": "sglang", "concurrency": 16}
    both = rl.serve(LLAMA, input_cv=np.array([0.0, 0.5]), output_cv=np.array([0.0, 0.5]), **given)
    alone = [rl.serve(LLAMA, input_cv=cv, output_cv=cv, **given) for cv in (0.0, 0.5)]
    assert both.ttft.expected == pytest.approx([s.ttft.expected for s in alone])
    assert both.percentiles.tpot.p99 == pytest.approx([s.percentiles.tpot.p99 for s in alone])


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("on", "model", "new", "out"), [
    ("a100-sxm-40gb", LLAMA, 1338, 305), ("h100-sxm", "Qwen/Qwen3-30B-A3B", 2219, 250),
])  # fmt: skip
def test_a_server_whose_memory_is_full(on: str, model: str, new: int, out: int) -> None:
    """It runs as many as fit in the middle of their answers, and computes prompts again: no queue below, and above it a
    throughput and a TPOT that are less by that."""
    given = {"on": on, "engine": "vllm", **EQUAL}
    evenly = {"input_cv": EVENLY, "output_cv": EVENLY}
    lengths = {"input": new, "output": out}
    sizes = {name: f"uniform({0.8 * n:.0f},{1.2 * n:.0f})" for name, n in lengths.items()}
    full = rl.serve(model, input=new, output=out, concurrency=2**20, **given)
    assert full.running > full.capacity
    for share in by_day((0.8, 1.3), (0.8, 1.3, 3.0)):
        users = round(share * full.running)
        s = rl.serve(model, input=new, output=out, concurrency=users, **{**given, **evenly})
        extent = Extent(requests=8 * users, warmup=4 * users, seed=3)
        seen = simulate(model, concurrency=users, extent=extent, **sizes, **given)
        assert (seen.preemptions > 0) == (share > 1)
        assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.03)
        assert s.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)
        assert s.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.15)
    s = rl.serve(model, input=new, output=out, rate=0.9 * full.requests_per_second, formula=False, **given)
    extent = Extent(requests=by_day(3000, 6000), seed=3)
    seen = simulate(model, rate=0.9 * full.requests_per_second, extent=extent, **sizes, **given)
    assert not seen.overloaded
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, abs=0.05 * seen.tpot.mean + width(seen.tpot))
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, abs=0.15 * seen.ttft.mean + width(seen.ttft))


def test_an_engine_that_keeps_room_for_whole_answers_runs_no_more_than_those() -> None:
    given = {"on": "a100-sxm-40gb", "input": 1338, "output": 305, "concurrency": 400}
    trtllm, vllm = (rl.serve(LLAMA, engine=engine, **given) for engine in ("trtllm", "vllm"))
    assert 0.85 * trtllm.capacity < trtllm.running < trtllm.capacity  # 89.6 simulated
    assert vllm.running > vllm.capacity
    assert vllm.memory.fits
    assert trtllm.memory.fits


def test_replicas_that_take_turns() -> None:
    """Gaps between the requests of one of four are more even than at random, and waits shorter."""
    given = {"input": 2000, "output": 50, "on": "4xh100-sxm", "layout": "dp=4", **EQUAL}
    rate = 0.6 * rl.serve(LLAMA, concurrency=2**20, **given).requests_per_second
    s = rl.serve(LLAMA, rate=rate, formula=False, **given)
    seen = simulate(LLAMA, rate=rate, extent=Extent(requests=6000, seed=3), **given)
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, abs=0.15 * seen.ttft.mean + width(seen.ttft))
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, abs=0.05 * seen.tpot.mean + width(seen.tpot))


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("engine", "load"), [("vllm", 0.5), ("sglang", 0.3), ("trtllm", 0.8)])
def test_percentiles_at_random(engine: str, load: float) -> None:
    """p90 within 15 %, p99 within 25 %."""
    given = {"input": 1500, "output": 30, "on": "h100-sxm", "engine": engine, **EQUAL}
    rate = load * rl.serve(LLAMA, concurrency=2**20, **given).requests_per_second
    told = rl.serve(LLAMA, rate=rate, formula=False, **given).percentiles
    seen = simulate(LLAMA, rate=rate, extent=Extent(requests=8000, seed=3), **given)
    for name in ("ttft", "tpot", "latency"):
        mine, theirs = getattr(told, name), getattr(seen, name)
        assert mine.p50 <= mine.p90 <= mine.p95 <= mine.p99
        assert mine.p90 == pytest.approx(theirs.p90, rel=0.15), name
        assert mine.p99 == pytest.approx(theirs.p99, rel=0.25), name


def test_the_formula_is_of_users_in_no_order() -> None:
    """Lengths that vary bring users out of step: the waits of requests at random, and percentiles by their variance."""
    lengths = {"input": 1000, "output": 200, "input_cv": 0.4, "output_cv": 0.4}
    given = {"on": "h100-sxm", "engine": "vllm", "concurrency": 40, **lengths}
    s = rl.serve(LLAMA, **given)
    seen = simulate(LLAMA, extent=Extent(requests=4000, warmup=400, seed=3), **given)
    assert s.percentiles.approximate
    assert s.to_dict()["percentiles"]["ttft"]["p99"] == s.percentiles.ttft.p99
    assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.05)
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.15)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("model", "chip", "engine", "new", "out", "users"), [
    ("meta-llama/Llama-3.1-8B", "h100-sxm", "vllm", 300, 12, 6), ("openai/gpt-oss-120b", "b200", "sglang", 900, 150, 5),
    ("Qwen/Qwen3-30B-A3B", "h200-sxm", "trtllm", 1177, 15, 2), ("meta-llama/Llama-3.2-1B", "l4", "vllm", 90, 40, 3),
    ("Qwen/Qwen3-32B", "h200-sxm", "sglang", 543, 8, 2), ("meta-llama/Llama-3.1-8B", "h200-sxm", "trtllm", 800, 60, 24),
])  # fmt: skip
def test_users_in_no_order(model: str, chip: str, engine: str, new: int, out: int, users: int) -> None:
    """Lengths that vary by two fifths: what few users and short answers see, whose requests wait for the host."""
    lengths = {"input": new, "output": out, "input_cv": 0.4, "output_cv": 0.4}
    given = {"on": chip, "engine": engine, "concurrency": users, **lengths}
    s = rl.serve(model, **given)
    seen = simulate(model, extent=Extent(requests=2500, warmup=200, seed=3), **given)
    assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.03)
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, abs=0.05 * seen.tpot.mean + width(seen.tpot))
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, abs=0.15 * seen.ttft.mean + width(seen.ttft))
