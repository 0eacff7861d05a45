"""`serve` in closed form against `simulate`, request by request; a benchmark of the same name draws many more."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.simulation.simulate import Extent, simulate

LLAMA = "meta-llama/Llama-3.1-8B"
OPEN = [
    ("vllm", 1000, 200, 0.1), ("vllm", 1000, 200, 0.5), ("vllm", 3000, 400, 0.8), ("vllm", 200, 64, 0.7),
    ("trtllm", 1000, 200, 0.6), ("trtllm", 300, 500, 0.85), ("sglang", 1000, 200, 0.4), ("sglang", 400, 300, 0.8),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "new", "out", "load"), OPEN)
def test_requests_at_random(engine: str, new: int, out: int, load: float) -> None:
    """TPOT within 5 %, TTFT within 15 %, beyond the simulation's own confidence."""
    given = {"input": new, "output": out, "on": "h100-sxm", "engine": engine}
    most = rl.serve(LLAMA, concurrency=2**20, **given).requests_per_second
    s = rl.serve(LLAMA, rate=load * most, **given)
    seen = simulate(LLAMA, rate=load * most, extent=Extent(requests=5000, seed=3), **given)
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, abs=0.05 * seen.tpot.mean + seen.tpot.half_width)
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, abs=0.15 * seen.ttft.mean + seen.ttft.half_width)


@pytest.mark.parametrize(("engine", "new", "out", "users"), [
    ("vllm", 1000, 200, 1), ("vllm", 1000, 200, 40), ("vllm", 4000, 500, 8), ("trtllm", 1000, 200, 20),
])  # fmt: skip
def test_always_as_many(engine: str, new: int, out: int, users: int) -> None:
    """Throughput within 3 %, TPOT within 5 %, TTFT within 15 %, of users who did not all begin at once."""
    given = {"input": new, "output": out, "on": "h100-sxm", "engine": engine, "concurrency": users}
    s = rl.serve(LLAMA, **given)
    extent = Extent(requests=max(400, 10 * users), warmup=4 * users, seed=3)
    seen = simulate(LLAMA, ramp=float(s.latency.expected), extent=extent, **given)
    assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.03)
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.15)


def test_replicas_that_take_turns() -> None:
    """Gaps between the requests of one of four are more even than at random, and waits shorter."""
    given = {"input": 2000, "output": 50, "on": "4xh100-sxm", "layout": "dp=4"}
    rate = 0.6 * rl.serve(LLAMA, concurrency=2**20, **given).requests_per_second
    s = rl.serve(LLAMA, rate=rate, **given)
    seen = simulate(LLAMA, rate=rate, extent=Extent(requests=6000, seed=3), **given)
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, abs=0.15 * seen.ttft.mean + seen.ttft.half_width)
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, abs=0.05 * seen.tpot.mean + seen.tpot.half_width)
