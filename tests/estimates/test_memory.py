"""Memory: terms, engine rules, and the numbers at the edge."""

from __future__ import annotations

from itertools import pairwise

import pytest

import roofline as rl
from roofline.estimates.fit import fit
from roofline.estimates.memory import activation_bytes, cache_bytes
from roofline.machine.engine import Engine, engines

LLAMA = rl.load("meta-llama/Llama-3.1-8B")


def test_terms() -> None:
    f = fit(LLAMA, on="h100-sxm", batch=4, context=1000)
    assert f.memory.weights == LLAMA.weight_bytes()
    assert f.memory.cache == 4 * 1008 * 131_072  # whole blocks of 16 tokens
    assert f.memory.total == f.memory.weights + f.memory.cache + f.memory.activations + f.memory.overhead
    assert f.fits


@pytest.mark.parametrize("engine", [e for e in engines() if e != "none"])
def test_the_largest_batch_fits_and_one_more_does_not(engine: str) -> None:
    """The budget is that of the batch itself: every sequence's logits are activations."""
    f = fit(LLAMA, on="h100-sxm", batch=1, context=4096, engine=engine)
    full, over = (fit(LLAMA, on="h100-sxm", batch=f.largest_batch + n, context=4096, engine=engine) for n in (0, 1))
    assert (full.fits, over.fits) == (True, False)
    assert full.memory.cache <= full.memory.budget
    assert over.memory.cache == cache_bytes(LLAMA, LLAMA.precision, f.engine, f.largest_batch + 1, 4096)
    assert over.memory.cache > over.memory.budget


def test_the_longest_context_fits_and_one_block_more_does_not() -> None:
    f = fit(LLAMA, on="a100", batch=32, context=1000)
    assert float(cache_bytes(LLAMA, LLAMA.precision, f.engine, 32, f.longest_context)) <= f.memory.budget
    assert float(cache_bytes(LLAMA, LLAMA.precision, f.engine, 32, f.longest_context + 16)) > f.memory.budget


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3.2-Exp"])
def test_activations_are_those_of_exactly_so_many_tokens(name: str) -> None:
    """More sequences of a chunk of 8,192 tokens need no less: their logits, and what 8,192 tokens need."""
    model = rl.load(name)
    needed = [activation_bytes(model, model.precision, 8192, n) for n in range(4090, 4104)]
    assert all(b - a >= 4 * model.vocab for a, b in pairwise(needed))


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
    assert f.memory.weights == pytest.approx(inner * (4 + 20 / 128) / 8 + 2 * (LLAMA.parameters - inner), rel=1e-6)
