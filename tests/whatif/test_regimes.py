"""Critical sizes: on the side they are said to be, one less on the other; shares of bytes add up."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from roofline.inference.settings import setup
from roofline.whatif.query.regimes import MOST, Critical, Dominance, critical, dominance
from roofline.whatif.sensitivity.tornado import OperatingPoint, grid
from roofline.whatif.sweep.crossovers import first_true

LLAMA = rl.load("meta-llama/Llama-3.1-8B")


def at(name: str, on: str, context: int, batch: int = 4, layout: str | None = None) -> OperatingPoint:
    model = rl.load(name)
    return OperatingPoint(setup(model, on=on, layout=layout), batch, context)


def computes(p: OperatingPoint, step: rl.Step) -> bool:
    e = rl.estimate(p.model, step, on="h100-sxm")
    return bool(e.compute_time >= e.memory_time)


def test_critical_batch_and_prompt_are_exact() -> None:
    p = at("meta-llama/Llama-3.1-8B", "h100-sxm", 128)
    c = critical(p)
    assert c.batch is not None
    assert c.prompt is not None
    assert c.balance > 1
    assert computes(p, rl.decode(c.batch, 128))
    assert not computes(p, rl.decode(c.batch - 1, 128))
    assert computes(p, rl.prefill(4, c.prompt))
    assert not computes(p, rl.prefill(4, c.prompt - 1))


def test_there_is_a_context_from_which_the_cache_alone_is_too_much() -> None:
    """As the batch grows, intensity tends to FLOPs a token over cache bytes a token, whatever the weights are."""
    c = critical(at("meta-llama/Llama-3.1-8B", "h100-sxm", 4096))
    assert c.batch is None
    assert c.balance < 1
    assert c.beyond is not None
    for context, enough in ((c.beyond - 1, True), (c.beyond, False)):
        a = rl.analyze(LLAMA, rl.decode(MOST, context), traffic="floor")
        assert (a.intensity >= rl.chips()["h100-sxm"].ridge("bf16")) == enough


def test_the_cache_outweighs_the_weights_from_there_on() -> None:
    c = critical(at("meta-llama/Llama-3.1-8B", "h100-sxm", 1024, batch=32))
    assert c.cache is not None
    for context, more in ((c.cache - 1, False), (c.cache, True)):
        moved = rl.analyze(LLAMA, rl.decode(32, context)).moved
        assert (moved.cache >= moved.weights) == more


@pytest.mark.parametrize("name", ["state-spaces/mamba-2.8b-hf", "deepseek-ai/DeepSeek-V3", "openai-community/gpt2"])
def test_any_model_has_an_answer(name: str) -> None:
    c = critical(at(name, "h100-sxm", 512))
    assert isinstance(c, Critical)
    assert c.longest <= (rl.load(name).context or 131072)


def test_first_true() -> None:
    assert first_true(1, 10**6, lambda v: np.asarray(v) >= 777_777) == 777_777
    assert first_true(3, 9, lambda v: np.asarray(v) >= 0) == 3
    assert first_true(1, 9, lambda v: np.asarray(v) > 9) is None


def test_shares_of_bytes() -> None:
    p = at("meta-llama/Llama-3.1-8B", "h100-sxm", 1024)
    terms = {(t.phase, t.term): t for t in dominance(p)}
    assert len(terms) == 8
    fused = [terms["decode", term].share for term in ("weights", "cache", "activations")]
    assert sum(fused) == pytest.approx(1)
    a = rl.analyze(LLAMA, rl.decode(4, 1024))
    assert fused[0] == pytest.approx(a.moved.weights / a.bytes)
    assert terms["decode", "weights"].dominates
    assert not terms["decode", "cache"].dominates
    assert terms["decode", "cache"].doubled > terms["decode", "cache"].share
    assert Dominance("decode", "x", False, 0.5, 0.3, 0.6).halved == 0.75


def test_the_grid_is_the_full_product_and_each_point_an_estimate() -> None:
    p = at("Qwen/Qwen3-30B-A3B", "h100-sxm", 512, batch=8)
    points = list(grid(p))
    assert len(points) == 4 * 2 * 2 * 3 * 4 * 4
    assert len(set(points)) == len(points)
    one = next(
        g for g in points
        if (g.weights, g.cache, g.experts_per_token, g.kv, g.width, g.batch, g.context)
        == ("bf16", "bf16", 8, 1.0, 1.0, 16, 1024)
    )  # fmt: skip
    e = rl.estimate(p.model, rl.decode(16, 1024), on="h100-sxm")
    assert (one.time, one.floor) == pytest.approx((e.time, e.serial_floor), rel=1e-12)
    assert (one.flops, one.bound) == (e.analysis.flops, e.bound)
    assert one.tokens_per_second == pytest.approx(16 / e.time)


def test_the_grid_of_a_layout_leaves_out_what_does_not_divide() -> None:
    points = list(grid(at("meta-llama/Llama-3.1-8B", "8xh100-sxm", 512, layout="tp=8")))
    assert {g.kv for g in points} == {1.0, 0.5}
    assert {g.experts_per_token for g in points} == {0}


def test_a_prompt_that_waits_for_the_links_is_not_compute_bound() -> None:
    model = rl.load("meta-llama/Llama-4-Scout-17B-16E")
    c = critical(OperatingPoint(setup(model, on="8xmi325x", layout="tp=8"), 32, 1024))
    assert c.prompt is not None
    before, at = (rl.estimate(model, rl.prefill(32, n), on="8xmi325x", layout="tp=8") for n in (c.prompt - 1, c.prompt))
    assert at.compute_time >= max(at.memory_time, at.network_time)
    assert before.compute_time < max(before.memory_time, before.network_time)
