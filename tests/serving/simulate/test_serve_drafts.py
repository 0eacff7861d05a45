"""`serve` with drafts against `simulate`, which draws how many are right; a benchmark draws many more."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import roofline as rl
from alike import EQUAL
from confidence import width
from folded import by_day
from roofline.serving.simulate.simulate import Extent, simulate

LLAMA = "meta-llama/Llama-3.1-8B"


def drawn(seed: int) -> tuple[dict[str, Any], rl.Speculation, float]:
    """A server, what it drafts, and its load."""
    rng = Random(seed)
    models = LLAMA, "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b"
    where = {
        "model": rng.choice(models), "on": rng.choice(("h100-sxm", "b200")),
        "engine": rng.choice(("vllm", "sglang", "trtllm")), "input": round(10 ** rng.uniform(2, 3.7)),
        "output": round(10 ** rng.uniform(0.8, 2.7)), **EQUAL,
    }  # fmt: skip
    draft = rl.load("meta-llama/Llama-3.2-1B") if rng.random() < 0.5 else None
    return where, rl.Speculation(round(rng.uniform(0.3, 0.95), 2), rng.randint(1, 6), draft), rng.uniform(0.1, 0.75)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("seed", range(8))
def test_at_random(seed: int) -> None:
    """TPOT within 5 %, TTFT within 15 %, beyond the simulation's own confidence."""
    where, drafts, load = drawn(seed)
    rate = load * rl.serve(**where, speculation=drafts, concurrency=2**20).requests_per_second
    s = rl.serve(**where, speculation=drafts, rate=rate, formula=False)
    seen = simulate(**where, speculation=drafts, rate=rate, extent=Extent(requests=by_day(2000, 4000), seed=3))
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, abs=0.05 * seen.tpot.mean + width(seen.tpot))
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, abs=0.15 * seen.ttft.mean + width(seen.ttft))


@pytest.mark.drawn(1)
@pytest.mark.parametrize("seed", range(8, 14))
def test_always_as_many(seed: int) -> None:
    """Throughput within 3 %, TPOT within 5 %, TTFT within 15 %, of users who are out of step."""
    where, drafts, load = drawn(seed)
    users = max(1, round(40 * load))
    s = rl.serve(**where, speculation=drafts, concurrency=users, formula=False)
    extent = Extent(requests=60 * users + 400, warmup=25 * users, seed=3)
    seen = simulate(**where, speculation=drafts, concurrency=users, extent=extent)
    assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.03)
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, abs=0.05 * seen.tpot.mean + width(seen.tpot))
    assert s.ttft.expected == pytest.approx(seen.ttft.mean, abs=0.15 * seen.ttft.mean + width(seen.ttft))


def test_one_request_at_a_time() -> None:
    """Of a draft model: both take the mean number of steps."""
    given = {"input": 1000, "output": 256, "concurrency": 1, "on": "h100-sxm", **EQUAL}
    drafts = rl.Speculation(0.7, 3, rl.load("meta-llama/Llama-3.2-1B"))
    seen = simulate(LLAMA, **given, speculation=drafts, extent=Extent(requests=600, warmup=1))
    for formula in (True, False):
        s = rl.serve(LLAMA, **given, speculation=drafts, formula=formula)
        assert s.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.01)


def test_draft_layers() -> None:
    """On the ranks of the model."""
    given = {"input": 1000, "output": 128, "concurrency": 12, "on": "8xh200", "layout": "tp=8", **EQUAL}
    drafts = rl.Speculation(0.85, 1, mtp=True)
    seen = simulate("deepseek-ai/DeepSeek-V3", **given, speculation=drafts, extent=Extent(requests=800, warmup=200))
    for formula in (True, False):
        s = rl.serve("deepseek-ai/DeepSeek-V3", **given, speculation=drafts, formula=formula)
        assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.03)
        assert s.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)
