"""More work takes longer and more memory takes more bytes, over drawn points; where physics lets a time fall, why."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

import roofline as rl
from folded import folded

LLAMA, LATENT = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"
MODELS = (
    LLAMA, LATENT, "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-1b-it",
    "deepseek-ai/DeepSeek-V3.2-Exp", "openai/gpt-oss-20b", "AntonV/mamba2-130m-hf",
)  # fmt: skip
CHIPS = ("h100-sxm", "b200", "a100-sxm-80gb", "l40s", "mi300x")
NARROWER = ("weights=fp16,kv=fp16", "weights=fp8,kv=fp16", "weights=fp8,kv=fp8", "weights=int4,kv=fp8")
"""Each takes no more bits of anything than the one before."""
KERNELS = 0.01
"""A query of 17 new tokens runs the kernel for prompts, one of 16 that for tokens to verify: by so much it may be
faster. Elsewhere, but for TILES, no time falls: tiles and waves round the work up, and what is rounded up does not
fall."""
TILES = 0.05
"""Where the tile of a dense product fills, the rows of one more are shared out over smaller tiles, which an MI300X with
idle units works on at once."""


def rising(rng: Generator, low: int, high: int, number: int = 60) -> NDArray[np.int64]:
    """Whole numbers in order, small and large ones, and the next of each."""
    drawn = np.exp(rng.uniform(np.log(low), np.log(high), number)).astype(np.int64)
    return np.unique([drawn, drawn + 1])


def fall(values: Any) -> float:
    """By how much values fall at most below what came before, as a share of it."""
    array = np.asarray(values, dtype=float)
    return float(np.max(1 - array / np.maximum.accumulate(array), initial=0.0))


def grows(values: Any, by: float = 0.0) -> bool:
    """Whether values never fall by more than a share, and by rounding."""
    return fall(values) <= by + 1e-12


def spans_grow(span: rl.Span, by: float = 0.0) -> bool:
    """The speed of light never falls, the expected time by no more than that; how well it is known may."""
    return grows(span.floor) and grows(span.expected, by)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_grows_with_its_batch_its_context_and_its_tokens(name: str) -> None:
    rng = np.random.default_rng(3)
    for on in CHIPS:
        batch, context = int(rng.integers(1, 100)), int(rng.integers(8, 6000))
        new, several = int(rng.integers(1, 400)), rising(rng, 1, 2000)
        for step in (
            rl.decode(several, context), rl.decode(batch, rising(rng, 1, 16000)), rl.prefill(several, new),
            rl.prefill(1 + batch // 16, rising(rng, 1, 8000)), rl.prefill(2, new, cached=rising(rng, 1, 8000)),
        ):  # fmt: skip
            e = rl.estimate(name, step, on=on, precision="weights=bf16" if on == "a100-sxm-80gb" else None)
            by = TILES if on == "mi300x" else KERNELS
            assert spans_grow(e.span, by), (on, step.queries[0].__dict__, fall(e.time))
            assert grows(e.floor)
            assert grows(e.memory.total)
            assert grows(e.flops)


def test_a_context_of_chunks_begins_anew() -> None:
    """A token of a layer in chunks of 8,192 sees its own chunk alone: the time falls there, and nowhere else."""
    context = np.arange(7000, 17000, 50)
    time = rl.estimate("meta-llama/Llama-4-Scout-17B-16E", rl.decode(64, context), on="h200-sxm").time
    for first in (0, 8192):
        assert grows(time[(context >= first) & (context < first + 8192)])


@folded("name", [LLAMA, "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct"])
@folded("engine", ["none", "vllm"])
def test_a_generation_grows_with_batch_input_and_output(name: str, engine: str) -> None:
    """Waves too: a batch that no longer fits together takes at least as long."""
    rng = np.random.default_rng(5)

    def run(**given: Any) -> rl.Generation:
        result: rl.Generation = rl.generate(
            name, on="2xh100-sxm", layout="tp=2", engine=engine, **{"batch": 8, "input": 300, "output": 12, **given}
        )
        return result

    several = run(batch=rising(rng, 1, 3000), input=2000)
    assert np.max(several.waves) == 1 or engine in ("none", "vllm")
    for g in (several, run(input=rising(rng, 1, 6000)), run(output=rising(rng, 1, 200))):
        assert spans_grow(g.latency, KERNELS)
        assert spans_grow(g.ttft, KERNELS)
        assert grows(g.memory.total)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", [LLAMA, LATENT, "Qwen/Qwen3-Next-80B-A3B-Instruct"])
@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
def test_a_server_holds_fewer_of_longer_requests(name: str, engine: str) -> None:
    rng = np.random.default_rng(7)
    given = {"on": "16xh200-sxm", "layout": "tp=8", "engine": engine, "concurrency": 1}
    longer = rl.serve(name, input=rising(rng, 1, 60000), output=100, **given)
    answers = rl.serve(name, input=100, output=rising(rng, 1, 60000), **given)
    for s in (longer, answers):
        assert (np.diff(s.capacity) <= 0).all()
        assert s.capacity[0] > s.capacity[-1] > 0
        assert grows(s.memory.total)


def test_a_server_slows_with_every_request_in_flight() -> None:
    """And with the length of what is asked; queues are another matter."""
    rng = np.random.default_rng(9)
    given = {"on": "h100-sxm", "input": 800, "output": 100, "concurrency": 32}
    for name, values in (
        ("concurrency", rising(rng, 1, 200)), ("input", rising(rng, 1, 8000)),
    ):  # fmt: skip
        tpot = rl.serve(LLAMA, **{**given, name: values}).tpot
        assert grows(tpot.expected, KERNELS), name
        assert grows(tpot.floor), name


@pytest.mark.parametrize("name", [LLAMA, LATENT, "Qwen/Qwen3-Next-80B-A3B-Instruct", "AntonV/mamba2-130m-hf"])
def test_what_fits_shrinks_with_length_and_number(name: str) -> None:
    rng = np.random.default_rng(11)
    for engine in ("none", "vllm", "sglang"):
        given: dict[str, Any] = {"on": "16xh200-sxm", "layout": "tp=8", "engine": engine}
        longer = rl.fit(name, batch=8, context=rising(rng, 1, 100_000), **given)
        more = rl.fit(name, batch=rising(rng, 1, 5000), context=4000, **given)
        assert (np.diff(longer.largest_batch) <= 0).all()
        assert more.longest_context is None or not (np.diff(more.longest_context) > 0).any()
        for f in (longer, more):
            assert grows(f.memory.total)
            assert (np.diff(f.memory.room) <= 0).all()


@folded("name", MODELS)
def test_narrower_formats_take_no_more_memory(name: str) -> None:
    batch, context = np.array([[1], [40], [900]]), np.array([10, 3000, 90_000])
    for on, layout in (("h100-sxm", "tp=1"), ("16xh100-sxm", "tp=2,pp=2")):
        totals = [
            rl.fit(name, on=on, layout=layout, batch=batch, context=context, precision=p).memory for p in NARROWER
        ]
        for wide, narrow in pairwise(totals):
            for (term, more), (_, less) in zip(wide.terms, narrow.terms, strict=True):
                assert np.all(np.asarray(less) <= more), (term, layout)


@folded("name", [LLAMA, "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct"])
@folded("layout", ["dp=4,zero=1", "tp=2,pp=2,dp=2", "tp=2,dp=2,zero=3,sp"])
def test_training_grows_with_batch_tokens_and_micro_batch(name: str, layout: str) -> None:
    """A larger micro-batch takes more memory; the step's time it may well make shorter."""
    rng = np.random.default_rng(13)
    given: dict[str, Any] = {"on": "8xh200-sxm", "layout": layout, "batch": 64, "tokens": 1024}
    steps = {
        "batch": 8 * np.arange(1, 60), "tokens": np.unique(rng.integers(1, 64, 40)) * 64,
        "micro_batch": np.array([1, 2, 4, 8, 16]),
    }  # fmt: skip
    for what, values in steps.items():
        e = rl.train(name, **{**given, what: values})
        assert grows(e.memory.total), what
        if what != "micro_batch":
            assert spans_grow(e.span), (what, fall(e.time))


@pytest.mark.parametrize("zero", range(3))
def test_training_shares_out_more_from_stage_to_stage(zero: int) -> None:
    less, more = (
        rl.train(LLAMA, batch=8, tokens=512, on="8xh200-sxm", layout=f"dp=8,zero={z}") for z in (zero + 1, zero)
    )
    assert less.memory.total < more.memory.total
    for (term, shared), (_, whole) in zip(less.memory.terms, more.memory.terms, strict=True):
        assert shared <= whole or term == "activations"  # ZeRO-3 gathers the weights of a layer
