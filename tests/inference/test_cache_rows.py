"""Bytes of a token in caches whose rows mix formats, by hand from the layouts in vLLM 0.33 and SGLang 0.5.23."""

from __future__ import annotations

import pytest

import roofline as rl
from folded import folded

TOKENS = 10_048
"""Whole blocks of either engine."""


def cache(model: str, engine: str, precision: str | None, **more: str) -> float:
    options = {"on": "8*h200", "layout": "tp=8", "engine": engine, "context": TOKENS, "batch": 1, **more}
    return rl.fit(model, precision=precision, **options).memory.cache


@folded("engine", ["vllm", "sglang"])
def test_a_sparse_latent_in_fp8_has_scales_and_a_wide_rotary_key(engine: str) -> None:
    """DeepSeek-V3.2, 61 layers: 512 + 4 scales of 4 bytes + 64 of 2; the indexer's key is 128 and one scale."""
    assert cache("deepseek-ai/DeepSeek-V3.2", engine, "kv=fp8") == TOKENS * 61 * (656 + 132)


@folded("engine", ["vllm", "sglang"])
def test_the_key_of_an_indexer_is_in_fp8_beside_a_latent_in_bf16(engine: str) -> None:
    assert cache("deepseek-ai/DeepSeek-V3.2", engine, None) == TOKENS * 61 * (2 * 576 + 132)


def test_other_latents_and_engines_have_plain_rows() -> None:
    assert cache("deepseek-ai/DeepSeek-V3", "sglang", "kv=fp8") == TOKENS * 61 * 576
    assert cache("deepseek-ai/DeepSeek-V3.2", "trtllm", "kv=fp8") == TOKENS * 61 * (576 + 128)


@folded("engine", ["vllm", "sglang"])
def test_an_entry_of_deepseek_v4_takes_584_bytes(engine: str) -> None:
    """43 layers with windows of 128 tokens; entries of 4 tokens, with an indexer's, in 21, and of 128 tokens in 20."""
    entries = TOKENS * (21 * (584 / 4 + 132 / 4) + 20 * 584 / 128)
    stored = cache("deepseek-ai/DeepSeek-V4-Flash", engine, "kv=fp8")
    assert stored == pytest.approx(43 * 128 * 584 + entries, rel=3e-3)  # bytes of an entry are rounded up per token


def test_a_cache_in_fp4_has_a_scale_for_each_16_values() -> None:
    """vLLM's `nvfp4` and SGLang's FP4 pools: half a byte a value and a byte for each 16 (kv_cache_full_dim)."""
    layers, heads, dim = 36, 8, 128
    assert cache("Qwen/Qwen3-8B", "sglang", "kv=nvfp4") == TOKENS * layers * 2 * heads * (dim // 2 + dim // 16) // 8
