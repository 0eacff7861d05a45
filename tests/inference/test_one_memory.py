"""One meaning of memory: the engine's rule, to the byte, in every estimate, and what fits follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.layout.layout import layout_named

LLAMA, QWEN = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"
HYBRID, LATENT = "Qwen/Qwen3-Next-80B-A3B-Instruct", "deepseek-ai/DeepSeek-V3"
ENGINES = ("none", "vllm", "sglang")
CASES: list[tuple[str, dict[str, Any]]] = [
    (LLAMA, {"on": "h100-sxm"}),
    (LLAMA, {"on": "8xl40s", "layout": "tp=2,dp=2,pp=2"}),
    (LLAMA, {"on": "8xh100-sxm", "layout": "cp=4,dp=2", "precision": "weights=int4,kv=fp8"}),
    (QWEN, {"on": "8xh100-sxm", "layout": "dp=8,ep=8"}),
    (HYBRID, {"on": "8xh100-sxm", "layout": "tp=2,pp=3"}),
    (LATENT, {"on": "2xdgx-h200", "layout": "tp=8,pp=2"}),
]


@folded(("name", "settings"), CASES, ids=[f"{n.split('/')[1]}-{s}" for n, s in CASES], drawn=3)
@folded("engine", ENGINES)
def test_the_same_sequences_take_the_same_bytes_whatever_is_asked(
    name: str, settings: dict[str, Any], engine: str
) -> None:
    """48 sequences of 1,280 tokens of all replicas: every term, and what the rule leaves for the cache."""
    given = {**settings, "engine": engine}
    fit = rl.fit(name, batch=48, context=1280, **given)
    assert rl.estimate(name, rl.decode(48, 1279), **given).memory == fit.memory
    assert rl.generate(name, batch=48, input=1024, output=256, **given).memory == fit.memory
    assert rl.serve(name, concurrency=48, input=1024, output=256, **given).memory == fit.memory


def test_memory_by_hand() -> None:
    """Llama-3.1-8B under vLLM, three sequences of 100 tokens on half of its heads.

    A layer's weights are 2·4096·4096 + 2·4096·1024 + 3·4096·14336 and two norms, of which tp=2 halves the matrices;
    the cache 3 · 7 blocks of 16 tokens, 4 of 8 heads of 128, keys and values. Of the 8,192 new tokens that vLLM tries
    out a stream of 4096 is left, and the sampling of 1,024 of them over the whole vocabulary, which comes together on
    a rank, takes 14 bytes a logit; kernels alone have 300 new tokens, of which the widest op is the activation: gate
    and up in, 14336, and 7168 out; beside it two streams of 4096.
    """
    m = rl.fit(LLAMA, on="2xh100-sxm", layout="tp=2", batch=3, context=100).memory
    matrices = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert m.weights == 2 * (32 * (matrices // 2 + 2 * 4096) + 2 * 128256 * 4096 // 2 + 4096)
    assert m.cache == 3 * 7 * 16 * 32 * 2 * 4 * 128 * 2
    assert m.activations == 8192 * 2 * 4096 + 14 * 1024 * 128256
    assert (m.state, m.gradients, m.optimizer) == (0, 0, 0)
    assert m.overhead == 139586437 + 1041529569 + 2**29  # 0.13, 0.97 and 0.5 GiB
    assert m.total == m.weights + m.cache + m.activations + m.overhead
    assert m.budget == 0.9 * (m.capacity - 644245094) - m.weights - m.activations - m.overhead
    assert m.room == m.budget - m.cache
    alone = rl.fit(LLAMA, on="2xh100-sxm", layout="tp=2", batch=3, context=100, engine="none").memory
    assert alone.activations == 300 * 2 * (14336 + 7168 + 2 * 4096)


@folded(("name", "settings"), CASES, ids=[f"{n.split('/')[1]}-{s}" for n, s in CASES], drawn=3)
@folded("engine", ENGINES)
def test_the_largest_batch_fits_and_serve_holds_it(name: str, settings: dict[str, Any], engine: str) -> None:
    """And one more, on the busiest replica, does not; the longest context likewise, to the token."""
    given = {**settings, "engine": engine}
    fit = rl.fit(name, batch=1, context=1280, **given)
    batch, replicas = fit.largest_batch, fit.deployment.layout.dp
    assert batch % replicas == 0
    near = rl.fit(name, batch=np.array([batch, batch + 1]), context=1280, **given)
    assert near.fits.tolist() == [True, fit.bound_by_scheduler]
    assert batch <= replicas * fit.engine.most_running
    assert rl.serve(name, input=1024, output=256, concurrency=1, **given).capacity == batch
    waves = rl.generate(name, input=1024, output=256, batch=np.array([batch, batch + 1]), **given)
    assert waves.waves.tolist() == [1, 2]
    longest = rl.fit(name, batch=batch, context=1280, **given).longest_context
    assert 1280 <= longest <= fit.model.context
    if longest < fit.model.context:
        ends = rl.fit(name, batch=batch, context=np.array([longest, longest + 1]), **given)
        assert ends.fits.tolist() == [True, False]


def test_a_batch_is_that_of_all_replicas() -> None:
    """5 sequences over 4 replicas: the busiest has 2, three have one fewer; memory is that of 2 on one replica."""
    alone = rl.fit(LLAMA, on="h100-sxm", batch=2, context=1000)
    fit = rl.fit(LLAMA, on="8xh100-sxm", layout="dp=4", batch=5, context=1000)
    assert (fit.batch_per_replica, fit.idle_replicas) == (2, 3)
    assert fit.memory == alone.memory
    assert fit.largest_batch == 4 * alone.largest_batch
    for batch, per_replica, idle in ((1, 1, 3), (3, 1, 1), (4, 1, 0), (6, 2, 2), (8, 2, 0)):
        e = rl.estimate(LLAMA, rl.decode(batch, 999), on="8xh100-sxm", layout="dp=4")
        assert (e.batch, e.batch_per_replica, e.idle_replicas) == (batch, per_replica, idle)
        one = rl.estimate(LLAMA, rl.decode(per_replica, 999), on="h100-sxm")
        assert (e.time, e.memory) == (one.time, one.memory)
        assert e.tokens_per_second == batch / e.time


def test_every_stage_has_its_own_and_the_fullest_counts() -> None:
    """Of two stages of Llama-3.1-8B the one with the head has the logits; both have a table of 128256 × 4096."""
    for layout in ("pp=2", "pp=3", "tp=2,pp=4"):
        spread = layout_named(layout)
        fit = rl.fit(LLAMA, on="8xh100-sxm", layout=layout, batch=7, context=500)
        stages = [(s.weight_bytes(), 7 * 512 * 2 * s.kv_elements(1)) for s in rl.stages(rl.load(LLAMA), spread)]
        assert (fit.memory.weights, fit.memory.cache) in stages
        assert fit.memory.weights + fit.memory.cache == max(map(sum, stages))


@pytest.mark.parametrize("layout", ["tp=8", "tp=2,pp=2,dp=2,zero=1", "dp=8,zero=3"])
def test_training_has_the_same_terms_and_its_fullest_stage_counts(layout: str) -> None:
    e = rl.train(LLAMA, batch=16, tokens=2048, on="8xh100-sxm", layout=layout)
    full = max(e.stages, key=lambda s: s.memory.total).memory
    assert (e.memory.weights, e.memory.gradients, e.memory.optimizer) == (full.weights, full.gradients, full.optimizer)
    assert e.memory.activations == full.activations + full.working
    assert e.memory.total == pytest.approx(full.total, rel=1e-15)
    assert e.memory.capacity == e.chip.capacity == rl.fit(LLAMA, on="h100-sxm").memory.capacity
    assert (e.memory.cache, e.memory.state) == (0, 0)
    assert e.fits == (e.memory.total <= e.memory.capacity)


def test_training_weights_are_those_of_inference_in_its_format() -> None:
    """bf16 throughout: a rank's weights of a step are those that serve the model, to the byte."""
    for layout in ("tp=4", "tp=2,pp=2", "tp=2,dp=4"):
        served = rl.fit(LLAMA, on="8xh100-sxm", layout=layout, engine="none").memory.weights
        stages = rl.train(LLAMA, batch=8, tokens=1024, on="8xh100-sxm", layout=layout).stages
        assert max(stage.memory.weights for stage in stages) == served


SEEING = "Qwen/Qwen3-VL-8B-Instruct"
SEEN: dict[str, Any] = {"images": rl.Images(4, 1920, 1080)}


def test_images_in_memory_by_hand() -> None:
    """Four images of 1920 × 1080 under vLLM on an L40S: 60 × 34 squares of 32 pixels and two markers each.

    A profiling run of 2,048 tokens takes one image. The tower's widest op is the MLP's activation, 2 · 4304 a patch,
    beside a stream of 1152 twice: less than the sampling of 256 tokens. What it yields, 2,042 · 4096 in bf16, stays.
    Kernels alone with 1,024 new tokens have more in the tower.
    """
    place = {"on": "l40s", "batch": 8, "context": 4096}
    plain, seen = rl.fit(SEEING, **place), rl.fit(SEEING, **place, **SEEN)
    each = 60 * 34 + 2
    assert seen.images is not None
    assert (seen.images.tokens, seen.tokens, plain.tokens) == (4 * each, 4096 + 4 * each, 4096)
    assert seen.memory.activations - plain.memory.activations == each * 4096 * 2
    assert seen.memory.weights == plain.memory.weights
    assert seen.memory.cache == rl.fit(SEEING, on="l40s", batch=8, context=4096 + 4 * each).memory.cache
    assert seen.longest_context < plain.longest_context - 4 * each + 16
    alone = rl.fit(SEEING, on="l40s", engine="none", context=100, chunk=1024, **SEEN)
    patches = 60 * 34 * 4
    assert alone.memory.activations == 2 * (patches * (2 * 4304 + 2 * 1152) + each * 4096)


def test_a_model_that_is_text_alone_holds_no_tower() -> None:
    text = rl.load(SEEING, text_only=True)
    whole, alone = (rl.fit(m, on="l40s", batch=8, context=4096, **SEEN).memory for m in (SEEING, text))
    towers = rl.load(SEEING).parameters - text.parameters
    assert whole.weights - alone.weights == 2 * towers
    assert alone.activations == rl.fit(text, on="l40s", batch=8, context=4096).memory.activations


def test_images_take_the_same_bytes_whatever_is_asked() -> None:
    given = {"on": "2xh100-sxm", "layout": "tp=2"}
    tokens = 1024 + SEEN["images"].number * 2042
    fit = rl.fit(SEEING, batch=16, context=1280, **given, **SEEN)
    assert rl.generate(SEEING, batch=16, input=1024, output_tokens=256, **given, **SEEN).memory == fit.memory
    served = rl.serve(SEEING, concurrency=16, input=1024, output_tokens=256, **given, **SEEN)
    assert (served.memory, served.input) == (fit.memory, tokens)


def test_a_search_has_the_figures_of_the_server() -> None:
    one = {"images": rl.Images(1, 1024, 1024)}
    lengths = {"input": 300, "output_tokens": 200}
    found = rl.search(SEEING, on="h100-sxm", chips=1, kind="aggregated", concurrency=16, **lengths, **one)
    served = rl.serve(SEEING, on="h100-sxm", layout="tp=1", concurrency=16, **lengths, **one)
    best = found.highest
    assert best is not None
    assert (found.input, served.input) == (1326, 1326)
    assert best.ttft.expected == pytest.approx(float(served.ttft.expected), rel=1e-9)
    assert best.tpot.expected == pytest.approx(float(served.tpot.expected), rel=1e-9)
    text = rl.search(SEEING, on="h100-sxm", chips=1, kind="aggregated", concurrency=16, **lengths).highest
    assert text is not None
    assert text.ttft.expected < best.ttft.expected
