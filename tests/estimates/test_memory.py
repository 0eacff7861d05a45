"""Memory: terms, engine rules, and the numbers at the edge."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.estimates.memory import cache_bytes, fit
from roofline.machine.engine import Engine, engines

LLAMA = rl.load("meta-llama/Llama-3.1-8B")


def test_terms() -> None:
    f = fit(LLAMA, on="h100-sxm", batch=4, context=1000)
    assert f.weights == LLAMA.weight_bytes()
    assert f.cache == 4 * 1008 * 131_072  # whole blocks of 16 tokens
    assert f.needed == f.weights + f.cache + f.activations + f.overhead
    assert f.fits


@pytest.mark.parametrize("engine", [e for e in engines() if e != "none"])
def test_the_largest_batch_fits_and_one_more_does_not(engine: str) -> None:
    f = fit(LLAMA, on="h100-sxm", batch=1, context=4096, engine=engine)
    assert fit(LLAMA, on="h100-sxm", batch=f.largest_batch, context=4096, engine=engine).cache <= f.budget
    assert float(cache_bytes(LLAMA, LLAMA.precision, f.engine, f.largest_batch + 1, 4096)) > f.budget


def test_the_longest_context_fits_and_one_block_more_does_not() -> None:
    f = fit(LLAMA, on="a100", batch=32, context=1000)
    assert float(cache_bytes(LLAMA, LLAMA.precision, f.engine, 32, f.longest_context)) <= f.budget
    assert float(cache_bytes(LLAMA, LLAMA.precision, f.engine, 32, f.longest_context + 16)) > f.budget


def test_budget_rules_differ_by_engine() -> None:
    capacity, weights, activations = 80e9, 16e9, 1e9
    rule = {e.id: e.cache_budget(capacity, weights, activations) for e in engines().values()}
    assert rule["vllm"] == 0.9 * 80e9 - 16e9 - 1e9 - 1.5e9
    assert rule["trtllm"] == 0.9 * (80e9 - 16e9 - 1e9 - 1.5e9)
    assert rule["sglang"] == pytest.approx(0.88 * 80e9 - 16e9)
    assert Engine("x", "x").cache_budget(capacity, weights, activations) == 63e9


def test_what_does_not_fit_says_what_would() -> None:
    f = fit(rl.load("meta-llama/Llama-3.1-70B"), on="h100-sxm", batch=1, context=8192)
    assert not f.fits
    assert f.fewest_chips == 2
    assert any(c.detail == "weights=int4" for c in f.changes)
    assert any(c.detail == "2 chips" for c in f.changes)


def test_kv_heads_replicate_beyond_their_number_and_a_latent_cache_is_never_divided() -> None:
    def share(model: rl.Model, tp: int) -> float:
        return float(rl.shard(model, rl.Layout(tp=tp)).kv_bytes(1)) / float(model.kv_bytes(1))

    assert share(LLAMA, 4) == 1 / 4
    assert share(LLAMA, 16) == 1 / 8
    assert share(rl.load("deepseek-ai/DeepSeek-V3"), 8) == 1.0


def test_quantised_weights_count_their_scales() -> None:
    f = fit(LLAMA, on="h100-sxm", precision="weights=int4", context=1000)
    inner = sum(n * m.matrix for m, n in LLAMA.modules() if getattr(m, "part", "") in ("attention", "ffn"))
    assert f.weights == pytest.approx(inner * (4 + 20 / 128) / 8 + 2 * (LLAMA.parameters - inner), rel=1e-6)
