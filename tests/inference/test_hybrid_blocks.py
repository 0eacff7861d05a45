"""A hybrid cache in groups of equal pages, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.engines.engine import engine_named
from roofline.inference.memory.hybrid_blocks import CachedLayers, cache_pages, cached_layers
from roofline.model.precision import Precision

FULL, WINDOW = CachedLayers(10, token=8192), CachedLayers(52, token=8192, span=1024)


def layers_of(name: str, tp: int = 1, **formats: str) -> tuple[CachedLayers, ...]:
    model = rl.load(name)
    stored: Precision = model.precision.merged(formats) if formats else model.precision
    precision = engine_named("vllm").running(stored, rl.chips()["h100-sxm"])
    layers = cached_layers(rl.shard(model, rl.Layout(tp=tp)), precision)
    assert layers is not None
    return layers


def test_layers_that_cache_alike_are_one_group() -> None:
    """Llama-3.1-8B: 32 layers, 16 tokens of 8 heads of 128, keys and values, in bf16."""
    pages = cache_pages(layers_of("meta-llama/Llama-3.1-8B"), 16)
    assert pages is not None
    assert pages.block_bytes == 32 * 16 * 2 * 8 * 128 * 2 == 2**21
    assert (pages.pool(2**30), pages.smallest_tables(2**30)) == (512, 8192)
    assert pages.bytes(3, 100, False) == 3 * 7 * 2**21
    assert pages.concurrency(2**30, 100, 2048) == 512 / 7


def test_windows_and_full_layers_by_hand() -> None:
    """Gemma-3-27B: 10 full layers and 52 with a window of 1,024 make 1 + 6 groups of 10, 8 of 60 places empty.

    A page is 16 tokens of 8 KiB, a block ten of them. 4,096 tokens take 256 blocks of the full group; of a group of
    windows between two steps 1,024/16 + 1, while 8,192 tokens are computed all 256 and one more.
    """
    pages = cache_pages((WINDOW, FULL), 16)
    assert pages is not None
    assert (pages.page, pages.group, pages.tables) == (16 * 8192, 10, 7)
    assert pages.block_bytes == 10 * 16 * 8192
    assert pages.bytes(2, 4096, False) == 2 * (256 + 6 * 65) * 10 * 16 * 8192
    assert pages.bytes(1, 512, False) == 7 * 32 * pages.block_bytes
    budget = 89994 * pages.block_bytes + 17
    assert pages.smallest_tables(budget) == 89994 // 7 * 16 == 205_696
    assert pages.concurrency(budget, 4096, 8192) == 89994 / (256 + 6 * 257)
    assert cache_pages(layers_of("google/gemma-3-27b-it"), 16) == pages


def test_smaller_pages_hold_more_tokens() -> None:
    """Gemma-4-31B: a full layer's token has half the bytes of a window layer's, so its blocks are of 32 tokens."""
    pages = cache_pages(layers_of("google/gemma-4-31B"), 16)
    assert pages is not None
    assert sorted((g.layers.layers, g.block, g.tables) for g in pages.groups) == [(10, 32, 1), (50, 16, 5)]
    assert pages.page == 16 * 16 * 256 * 2 * 2
    per_request = 262144 // 32 + 5 * (-(-(1023 + 8192) // 16) + 1)
    assert pages.concurrency(1000 * pages.block_bytes, 262144, 8192) == 1000 / per_request


def test_kinds_about_as_numerous_are_padded_to_the_larger() -> None:
    """13 full layers and 12 windows are two groups of 13; 10 and 15 are groups of 10."""
    near = cache_pages((CachedLayers(13, token=1024), CachedLayers(12, token=1024, span=128)), 16)
    far = cache_pages((CachedLayers(10, token=1024), CachedLayers(15, token=1024, span=128)), 16)
    assert near is not None
    assert far is not None
    assert (near.group, near.tables, far.group, far.tables) == (13, 2, 10, 3)


@pytest.mark.parametrize(
    ("name", "tp", "block", "attention"), [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 1, 544, 2 * 2 * 256 * 2),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2, 544, 2 * 1 * 256 * 2),
        ("Qwen/Qwen3.5-27B", 1, 784, 2 * 4 * 256 * 2),
    ],
)  # fmt: skip
def test_blocks_grow_until_a_page_holds_a_state(name: str, tp: int, block: int, attention: int) -> None:
    """vLLM logs them as `Setting attention block size to N tokens`; Qwen3-Next's state is bf16, Qwen3.5's fp32.

    The one because vLLM leaves a gated delta net's in the weights' format, the other because its config says so.
    """
    pages = cache_pages(layers_of(name, tp), 16)
    assert pages is not None
    state, full = sorted(pages.groups, key=lambda g: g.layers.recurrent, reverse=True)
    assert (full.block, pages.page, full.layers.token) == (block, block * attention, attention)
    assert (block - 16) * attention < state.layers.state <= pages.page
    assert (full.tables, state.tables, pages.group) == (1, 3, full.layers.layers)
    assert pages.bytes(2, block + 1, False) == 2 * 2 * pages.block_bytes
    assert pages.bytes(2, 10**6, True) == 2 * 3 * pages.block_bytes


def test_a_sparse_latent_cache() -> None:
    """DeepSeek-V3.2, 61 layers: in fp8 656 bytes of latent and 132 of the indexer's key a token, whatever the TP."""
    for tp in (1, 8):
        eight = {layers.token: layers.layers for layers in layers_of("deepseek-ai/DeepSeek-V3.2", tp, kv="fp8")}
        assert eight == {656: 61, 132: 61}
        pages = cache_pages(layers_of("deepseek-ai/DeepSeek-V3.2", tp, kv="fp8"), 64)
        assert pages is not None
        assert pages.block_bytes == 64 * 61 * (656 + 132)
    whole = {layers.token: layers.layers for layers in layers_of("deepseek-ai/DeepSeek-V3.2")}
    assert whole == {1152: 61, 132: 61}
    assert {layers.token for layers in layers_of("deepseek-ai/DeepSeek-V3", kv="fp8")} == {576}


def test_experts_in_mxfp4_are_padded_in_memory() -> None:
    """gpt-oss-20b: 24 layers of 32 experts, three matrices of 2880 × 2880 in 4.25 bits; 13.72 and 13.47 GiB logged."""
    plain, wide = (rl.fit("openai/gpt-oss-20b", on="a100-sxm-80gb", engine=e).memory.weights for e in ("none", "vllm"))
    assert wide - plain == 24 * 32 * 3 * (2944 * 3072 - 2880 * 2880) * 4.25 / 8
    assert wide / 2**30 == pytest.approx(13.72, rel=0.005)
    hopper = rl.fit("openai/gpt-oss-20b", on="h100-sxm", engine="vllm").memory.weights
    assert hopper / 2**30 == pytest.approx(13.47, rel=0.005)
    assert rl.fit("openai/gpt-oss-20b", on="h100-sxm", engine="sglang").memory.weights == hopper
    halves = rl.fit("openai/gpt-oss-20b", on="2xb200", layout="tp=2", engine="vllm").memory.weights
    held = rl.fit("openai/gpt-oss-20b", on="2xb200", layout="tp=2", engine="none").memory.weights
    assert halves - held == 24 * 32 * 3 * (1536 * 3072 - 1440 * 2880) * 4.25 / 8


def test_layouts_of_their_own_are_left_alone() -> None:
    assert (
        cached_layers(rl.load("deepseek-ai/DeepSeek-V4-Flash"), rl.load("deepseek-ai/DeepSeek-V4-Flash").precision)
        is None
    )


@given(
    st.integers(1, 40), st.integers(1, 60), st.sampled_from((256, 512, 1024)), st.sampled_from((256, 512, 1024)),
    st.integers(1, 4096), st.integers(1, 10_000), st.integers(1, 64),
)  # fmt: skip
def test_pages_never_hold_less_than_the_tokens(
    full: int, slides: int, one: int, other: int, span: int, tokens: int, block: int
) -> None:
    kinds = (CachedLayers(full, token=one), CachedLayers(slides, token=other, span=span))
    pages = cache_pages(kinds, block)
    assert pages is not None
    needed = full * one * tokens + slides * other * min(tokens, span)
    assert pages.bytes(1, tokens, False) >= needed
    assert pages.bytes(1, tokens + 1, False) >= pages.bytes(1, tokens, False)
    doubled = cache_pages(tuple(replace(k, token=2 * k.token) for k in kinds), block)
    assert doubled is not None
    assert doubled.bytes(1, tokens, False) == 2 * pages.bytes(1, tokens, False)
