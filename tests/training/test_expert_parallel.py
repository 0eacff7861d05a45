from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import by_day
from roofline.inference.overlap import MULTIPROCESSORS
from roofline.layout.layout import Layout, layout_named
from roofline.model import modules as m
from roofline.serving.closed_forms.mean_value_analysis import fullest
from roofline.work import ops as o
from roofline.work.step import Step

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from expert_parallel import NODES, Node

V3, QWEN = rl.load("deepseek-ai/DeepSeek-V3"), rl.load("Qwen/Qwen3-30B-A3B")


def on_ranks(step: Step, ranks: int, *, more: str = "", **settings: object) -> rl.Estimate:
    layout = f"dp={ranks},ep={ranks}{more}"
    estimate: rl.Estimate = rl.estimate(V3, step, on=f"{max(1, ranks // 8)}xhgx-h800", layout=layout, **settings)
    return estimate


def seconds(e: rl.Estimate, kind: str) -> float:
    return float(sum(op.expected for op in e.ops if op.kind == kind))


# -- published nodes -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("node", [n for n in NODES if n.saturated], ids=lambda n: n.what)
def test_published_nodes(node: Node) -> None:
    """The figure is in the interval, the estimate within 30 % of it."""
    e = node.estimate()
    tokens = node.step.new_tokens * 8 / e.deployment.chips
    low, high = e.interval
    assert tokens / high <= node.figure <= tokens / low
    assert tokens / e.time == pytest.approx(node.figure, rel=0.3)


# -- the kernels ---------------------------------------------------------------------------------------------------
def test_a_decode_is_exchanged_by_the_low_latency_kernels() -> None:
    """16 tokens a rank: the latency of normal kernels is several times as long."""
    new, longer = (on_ranks(step, 32) for step in (rl.decode(16 * 32, 16), rl.prefill(32, 16)))
    assert 2 * seconds(new, "communication") < seconds(longer, "communication")
    assert new.plan.total(new.share).communication == pytest.approx(seconds(new, "communication"))
    assert longer.plan.total(longer.share).communication == pytest.approx(seconds(longer, "communication"))


def test_a_step_of_arrays_is_its_elements() -> None:
    """New tokens 1 and 256: each element by the kernel of its phase."""
    news = np.array([1, 2, 256])
    many = on_ranks(step_of(news), 32)
    alone = [on_ranks(step_of(int(n)), 32).communication_time for n in news]
    assert many.communication_time.tolist() == pytest.approx(alone)


def step_of(new: object) -> Step:
    return rl.Step([(1024, new, 4 * 32)])  # type: ignore[list-item]


# -- formats -------------------------------------------------------------------------------------------------------
def test_what_is_dispatched() -> None:
    """SGLang and vLLM send fp8 with an fp32 scale for each 128 to experts of fp8 blocks, and get 16 bits back."""
    step = rl.prefill(128, 4096)
    plain, sglang = on_ranks(step, 32, engine="none"), on_ranks(step, 32, engine="sglang")
    asked = on_ranks(step, 32, engine="none", precision="dispatch=fp8-group")
    wide = on_ranks(step, 32, engine="vllm", precision="dispatch=bf16")

    def floors(e: rl.Estimate) -> list[float]:
        return [float(op.each.network) for op in e.ops if op.kind == "communication"]

    (there, back), (eight, same) = floors(plain), floors(sglang)
    assert there == back == same
    assert eight == pytest.approx(there * (1 + 4 / 128) / 2)
    assert floors(asked) == floors(sglang)
    assert floors(wide) == floors(plain)
    assert sglang.formats.plain()["dispatch"] == "fp8-group"
    assert "dispatch" not in rl.estimate(V3, rl.decode(1, 1), on="8xb200", layout="tp=8", engine="vllm").formats.plain()
    assert on_ranks(step, 32, engine="trtllm").formats.dispatch is None


# -- redundant experts ---------------------------------------------------------------------------------------------
def experts_of(layout: Layout) -> m.Experts:
    return next(x for x, _ in rl.shard(V3, layout).modules() if isinstance(x, m.Experts))


def test_redundant_experts_by_hand() -> None:
    """DeepSeek: 256 experts and 32 copies, two on each of 144 ranks, nine on each of 32 (arXiv:2412.19437, §3.4)."""
    for ranks, held in ((144, 2), (32, 9)):
        layout = Layout(dp=ranks, ep=ranks, redundant=32)
        experts = experts_of(layout)
        assert (experts.held, experts.parameters) == (held, held * 3 * 7168 * 2048)
    more = rl.shard(V3, Layout(dp=32, ep=32, redundant=32)).parameters - rl.shard(V3, Layout(dp=32, ep=32)).parameters
    assert more == 58 * 1 * 3 * 7168 * 2048
    with_copies, without = on_ranks(rl.decode(32, 1), 32, more=",redundant=32"), on_ranks(rl.decode(32, 1), 32)
    assert with_copies.memory.weights - without.memory.weights == pytest.approx(more, rel=0.001)


def test_slots_visited_by_hand() -> None:
    """224 experts stand once, 32 twice; of one of two, half the tokens that choose the expert are there."""
    product = next(
        c.op for c in rl.analyze(rl.shard(V3, Layout(dp=144, ep=144, redundant=32)), rl.decode(2, 9)).ops
        if isinstance(c.op, o.ExpertMatMul)
    )  # fmt: skip
    tokens = 2 * 144
    visited = 224 * (1 - (1 - 8 / 256) ** tokens) + 64 * (1 - (1 - 4 / 256) ** tokens)
    assert product.touched == pytest.approx(visited / 144)
    assert product.m == 2 * 8


def test_errors_name_what_divides() -> None:
    with pytest.raises(rl.InputError, match=r"256.*128"):
        rl.shard(V3, Layout(dp=144, ep=144))
    with pytest.raises(rl.InputError, match=r"256 experts and 30 copies, 286.*143"):
        rl.shard(V3, Layout(dp=144, ep=144, redundant=30))
    with pytest.raises(rl.InputError, match=r"layout\.redundant"):
        Layout(tp=8, redundant=32)
    with pytest.raises(rl.InputError, match=r"layout\.redundant"):
        Layout(dp=8, ep=8, redundant=-1)
    with pytest.raises(rl.InputError, match=r"layout\.overlap"):
        Layout(dp=8, overlap=True)
    with pytest.raises(rl.InputError, match=r"layout\.overlap"):
        rl.train(QWEN, batch=8, tokens=128, on="dgx-h100", layout="dp=8,ep=8,overlap")


# -- overlap -------------------------------------------------------------------------------------------------------
def test_overlap_by_hand() -> None:
    """Layers with experts: max(2x, 2c + 2fx); dense ones and the ends 2c; and once min(c, x) of a layer."""
    both, half = on_ranks(rl.prefill(128, 4096), 32, more=",overlap"), on_ranks(rl.prefill(64, 4096), 32)
    parts: dict[tuple[str, bool], float] = {}
    for op in half.ops:
        key = op.block, op.kind == "communication"
        parts[key] = parts.get(key, 0.0) + op.expected
    c, x = parts["moe", False], parts["moe", True]
    others = sum(value for (block, _), value in parts.items() if block != "moe")
    expected = 2 * others + max(2 * x, 2 * c + 2 * MULTIPROCESSORS / 132 * x) + min(c, x) / 58
    assert both.time == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 256), st.integers(1, 4096), st.booleans(), st.sampled_from([8, 32, 144]))
def test_overlap_never_slows_a_step(batch: int, tokens: int, decoding: bool, ranks: int) -> None:
    step = rl.decode(batch * ranks, tokens) if decoding else rl.prefill(batch * ranks, tokens)
    one, two = (on_ranks(step, ranks, more=f",redundant=32{word}") for word in ("", ",overlap"))
    assert two.time <= one.time
    assert two.serial_floor <= two.time
    assert two.serial_floor <= one.serial_floor
    assert two.interval[0] <= two.time <= two.interval[1]


def test_overlap_of_arrays_is_that_of_their_elements() -> None:
    batches = np.array([32, 64, 4096])
    many = on_ranks(rl.decode(batches, 4096), 32, more=",overlap")
    alone = [on_ranks(rl.decode(int(n), 4096), 32, more=",overlap").time for n in batches]
    assert many.time.tolist() == pytest.approx(alone)


# -- more ranks ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tokens", [16, 64, 256])
def test_more_ranks_never_slow_a_ranks_experts(tokens: int) -> None:
    """The same tokens a rank: as many rows, of fewer experts."""
    times = [seconds(on_ranks(rl.decode(tokens * n, 1024), n), "experts") for n in (32, 64, 128, 256)]
    assert times == sorted(times, reverse=True)


def test_formats_name_a_dispatch_where_experts_are_dispatched() -> None:
    """Of layouts with and without expert parallelism side by side, as of each alone."""
    given = {"on": "8xh100-sxm", "engine": "vllm", "precision": "fp8-block", "law": "ideal"}
    layouts = [rl.Layout(dp=4, ep=ep) for ep in (1, 4)]
    model = "Qwen/Qwen3-30B-A3B"
    words = [rl.estimate(model, rl.decode(8, 99), layout=each, **given).to_frame()["formats"][0] for each in layouts]
    both = rl.Layout(dp=4, ep=np.array([1, 4]))
    assert rl.estimate(model, rl.decode(8, 99), layout=both, **given).to_frame()["formats"].to_list() == words
    assert ["dispatch" in word for word in words] == [False, True]


STEADY = {"on": "4xh100-sxm", "layout": "dp=4,ep=4", "engine": "vllm"}


def test_ranks_that_share_experts_step_together_as_in_a_simulation() -> None:
    sizes = {"input": 1000, "output_tokens": 100}
    asked, seen = (
        rl.serve(QWEN, rate=20, **sizes, **STEADY),
        rl.simulate(QWEN, rate=20, requests=by_day(2500, 12_000), **sizes, **STEADY),
    )
    assert asked.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.1)
    assert asked.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.06)
    varied = {"input": "lognormal(1000,0.5)", "output_tokens": "lognormal(100,0.5)"}
    asked = rl.serve(QWEN, concurrency=32, **sizes, **STEADY)
    seen = rl.simulate(QWEN, concurrency=32, requests=by_day(600, 1500), **varied, **STEADY)
    assert asked.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)
    assert asked.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.05)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("users", [1, 2, 3, 4])
def test_few_users_of_ranks_in_step(users: int) -> None:
    sizes = {"input": 1000, "output_tokens": 100, "concurrency": users}
    apart, together = (
        rl.serve(QWEN, **sizes, **STEADY | {"layout": "tp=1", "on": "h100-sxm"}),
        rl.serve(QWEN, **sizes, **STEADY),
    )
    assert 0 < together.ttft.expected < 2 * apart.ttft.expected
    assert together.requests_per_second == pytest.approx(users / together.latency.expected, rel=0.02)


def test_ranks_in_step() -> None:
    layouts = {
        "tp=8": 1,
        "dp=8": 1,
        "dp=8,ep=8": 8,
        "tp=2,dp=4,ep=8": 4,
        "dp=16,ep=8": 8,
        "tp=8,ep=8": 1,
        "tp=2,dp=4,ep=4,etp=2": 4,
    }
    assert {text: int(layout_named(text).in_step) for text in layouts} == layouts
    tp, dp, ep = np.array([1, 2, 8]), np.array([8, 4, 1]), np.array([8, 8, 1])
    assert Layout(tp=tp, dp=dp, ep=ep).in_step.tolist() == [8, 4, 1]


def test_the_fullest_of_several_ranks_by_hand() -> None:
    mean, e = np.array([0.5]), np.exp(-0.5)
    assert fullest(mean, np.array([1.0])) == pytest.approx(0.5, rel=1e-4)
    upto = np.cumsum([e, e * 0.5, e * 0.125, e * 0.125 / 6, e * 0.0625 / 24, e * 0.03125 / 120])
    assert fullest(mean, np.array([3.0])) == pytest.approx(float(np.sum(1 - upto**3)), rel=1e-3)
