"""Sweeps, crossing points, the decode map and memory over context."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from roofline.declared.numbers.bracketing import spread
from roofline.whatif.search.memory import memory_over_context
from roofline.whatif.sweep.crossovers import binding, crossings, floor_bound, map_decode, sweep_steps

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
QWEN = rl.load("Qwen/Qwen3-30B-A3B")


def at(batch: int, context: int = 256) -> rl.Estimate:
    return rl.estimate(LLAMA, rl.decode(batch=batch, context=context), on="h100-sxm")


def test_crossings_are_exact() -> None:
    """On a grid of powers of two, the first batch whose limit is another."""
    swept = sweep_steps(LLAMA, on="h100-sxm", context=256)
    crossed = {c.of: c for c in swept.crossings}
    assert set(crossed) == {"floor", "expected"}
    for of, bound in (("floor", floor_bound), ("expected", binding)):
        c = crossed[of]
        assert (c.before, c.after) == ("memory", "compute")
        assert bound(at(c.at - 1)) == "memory"
        assert bound(at(c.at)) == "compute"
    assert at(crossed["floor"].at).compute_time >= at(crossed["floor"].at).memory_time


def test_the_floor_crosses_where_the_algebra_says() -> None:
    """Σ FLOPs / peak = Σ bytes / bandwidth, both linear in the batch: b = fixed / (per sequence) of the two lines."""
    crossing = next(c for c in sweep_steps(LLAMA, on="h100-sxm", context=256).crossings if c.of == "floor")
    one, two = at(1), at(2)
    gap_one, gap_two = one.memory_time - one.compute_time, two.memory_time - two.compute_time
    assert crossing.at == int(np.ceil(1 + gap_one / (gap_one - gap_two)))


def test_long_contexts_never_become_compute_bound() -> None:
    """Each sequence brings its own cache: grouped-query attention alone is far below the ridge."""
    swept = sweep_steps(LLAMA, on="h100-sxm", context=8192, most=4096)
    assert [c for c in swept.crossings if c.of == "floor"] == []


def test_sweeps_equal_single_steps() -> None:
    swept = sweep_steps(LLAMA, on="a100-sxm-80gb", context=1000, most=8)
    assert swept.values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    single = rl.estimate(LLAMA, rl.decode(batch=5, context=1000), on="a100-sxm-80gb")
    assert swept.estimate.time[4] == pytest.approx(single.time, rel=1e-12)
    assert swept.tokens_per_second[4] == pytest.approx(5 / single.time, rel=1e-12)
    over = sweep_steps(LLAMA, on="a100-sxm-80gb", over="context", batch=3, most=4096)
    single = rl.estimate(LLAMA, rl.decode(batch=3, context=4096), on="a100-sxm-80gb")
    assert over.values[-1] == 4096
    assert over.tokens_per_second[-1] == pytest.approx(3 / single.time, rel=1e-12)


def test_a_sweep_over_context_ends_with_the_models() -> None:
    assert sweep_steps(QWEN, on="h100-sxm", over="context").values[-1] == 40959


def test_crossings_between_far_neighbours() -> None:
    def names(v: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(v) >= 777_777, "b", "a")

    (one,) = crossings("floor", np.array([1, 10, 10**6]), names)
    assert (one.at, one.before, one.after) == (777_777, "a", "b")
    assert crossings("floor", np.array([1, 2]), names) == ()


def test_spread_is_whole_and_ends_where_told() -> None:
    assert spread(1, 1000, 2)[[0, -1]].tolist() == [1, 1000]
    assert spread(5, 5).tolist() == [5]


def test_the_map_says_what_fit_says() -> None:
    m = map_decode(QWEN, on="h100-sxm", most_batch=16)
    assert m.batch.tolist() == [1, 2, 4, 8, 16]
    assert m.context.tolist() == [256, 512, 1024, 2048, 4096, 8192, 16384, 40959]
    for i, batch in enumerate(m.batch.tolist()):
        for j, context in enumerate(m.context.tolist()):
            longest = rl.fit(QWEN, on="h100-sxm", batch=batch, context=40959, engine=None).longest_context
            assert m.fits[i, j] == (context <= longest)
    single = rl.estimate(QWEN, rl.decode(batch=4, context=2048), on="h100-sxm")
    assert m.tokens_per_second[2, 3] == pytest.approx(4 / single.time, rel=1e-12)
    assert not map_decode(rl.load("deepseek-ai/DeepSeek-V3"), on="h200-sxm", most_batch=1).fits.any()


def test_memory_terms_are_those_of_fit() -> None:
    curve = memory_over_context(LLAMA, on=["a100-sxm-40gb", "b200"], batch=8)
    terms = dict(curve.terms)
    assert list(terms) == ["weights", "activations and overhead", "KV cache"]
    fit = rl.fit(LLAMA, on="a100-sxm-40gb", batch=8, context=int(curve.context[-1]), engine=None)
    assert terms["weights"][-1] == fit.memory.weights
    assert terms["activations and overhead"][-1] == fit.memory.activations + fit.memory.overhead
    assert terms["KV cache"][-1] == fit.memory.cache
    assert curve.total[-1] == pytest.approx(fit.memory.total)
    assert [limit.longest for limit in curve.limits] == [fit.longest_context, None]


def test_recurrent_state_is_a_term_of_its_own() -> None:
    model = rl.load("state-spaces/mamba-2.8b-hf")
    terms = dict(memory_over_context(model, batch=3).terms)
    assert "KV cache" not in terms
    assert terms["recurrent state"][0] == 3 * model.state_bytes()


@pytest.mark.parametrize(
    ("options", "field"),
    [({"over": "tokens"}, "over"), ({"batch": 0}, "batch"), ({"most": 0}, "batch"), ({"context": -1}, "context")],
)
def test_bad_sweeps(options: dict[str, object], field: str) -> None:
    with pytest.raises(rl.InputError, match=f"^{field}:"):
        sweep_steps(LLAMA, on="h100-sxm", **options)  # type: ignore[arg-type]
