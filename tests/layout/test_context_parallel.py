"""Context parallelism: a rank works on its share of the new tokens, and keeps the share of the cache that it made."""

from __future__ import annotations

import pytest

import roofline as rl

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
V3 = rl.load("deepseek-ai/DeepSeek-V3")


def read(model: rl.Model, step: rl.Step, layout: rl.Layout) -> tuple[int, int]:
    """FLOPs and elements of cache that the attention of a layer reads."""
    a = next(c for c in rl.analyze(rl.shard(model, layout), step).ops if c.kind == "attention")
    return a.each_flops, a.op.cache_read


@pytest.mark.parametrize("exchange", ["ring", "all_gather", "ulysses"])
def test_a_decode_reads_its_share_of_the_cache(exchange: str) -> None:
    whole, part = (read(LLAMA, rl.decode(4, 8192), rl.Layout(cp=n, exchange=exchange)) for n in (1, 4))  # type: ignore[arg-type]
    assert part == (whole[0] // 4, whole[1] // 4)


def test_a_latent_cache_too() -> None:
    whole, part = (read(V3, rl.decode(4, 8192), rl.Layout(cp=n)) for n in (1, 4))
    assert part == (whole[0] // 4, whole[1] // 4)


def test_a_chunk_of_a_prompt_reads_all_that_is_cached() -> None:
    whole, part = (read(LLAMA, rl.prefill(2, 512, cached=4096), rl.Layout(cp=n)) for n in (1, 4))
    assert part == (whole[0] // 4, whole[1])


@pytest.mark.parametrize("layout", ["cp=4", "cp=4,exchange=ulysses", "tp=4", "tp=2,cp=2"])
def test_the_ranks_caches_add_up(layout: str) -> None:
    rank = rl.fit(LLAMA, on="4xh100-sxm", layout=layout, batch=8, context=8192, engine="none").memory.cache
    assert 4 * rank == rl.fit(LLAMA, on="h100-sxm", batch=8, context=8192, engine="none").memory.cache


def test_a_decode_over_ranks_is_faster_where_the_cache_is_what_it_reads() -> None:
    def attention(layout: str) -> float:
        e = rl.estimate(LLAMA, rl.decode(8, 65536), on="4xh100-sxm", layout=layout)
        return next(float(op.expected) for op in e.ops if op.kind == "attention")

    assert attention("cp=4") == pytest.approx(attention("tp=4"), rel=0.1)
