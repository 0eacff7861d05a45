from __future__ import annotations

import pytest

import roofline as rl

LLAMA = rl.load("meta-llama/Llama-3.1-8B")


def pools_of(**changes: object) -> rl.Pools:
    given = {
        "on": "2xdgx-h100", "chips": 16, "prefill_layout": "tp=2", "decode_layout": "tp=4", "input": 2048,
        "output": 256, "concurrency": 32,
    }  # fmt: skip
    pools: rl.Pools = rl.pools(LLAMA, **{**given, **changes})  # type: ignore[arg-type]
    return pools


def test_the_numbers_of_replicas_let_most_requests_through() -> None:
    p = pools_of()
    assert p.chips == 2 * p.prefills + 4 * p.decodes <= 16
    best = max(
        min(x * p.prefill_rate, y * p.decode_rate) for x in range(1, 8) for y in range(1, 4) if 2 * x + 4 * y <= 16
    )
    assert p.requests_per_second == pytest.approx(best)
    assert p.prefill_requests_per_second == p.prefills * p.prefill_rate
    assert p.decode_requests_per_second == p.decodes * p.decode_rate
    assert p.tokens_per_second_per_chip == pytest.approx(256 * best / p.chips)
    assert p.bottleneck == ("prefill" if p.prefills * p.prefill_rate < p.decodes * p.decode_rate else "decode")


def test_a_prompt_is_one_prefill_and_its_cache_travels() -> None:
    p = pools_of()
    alone = rl.generate(LLAMA, on="2xdgx-h100", layout="tp=2", input=2048, output=1, engine="vllm")
    assert p.cache == LLAMA.kv_bytes(2048)
    assert p.ttft.expected == pytest.approx(alone.ttft.expected + p.transfer.expected / 32 + p.tpot.expected)
    assert p.transfer.floor == pytest.approx(p.cache / 2 / 50e9)  # two ranks, each its half by one 400 Gb/s link


@pytest.mark.parametrize(
    ("layout", "parts"), [("tp=4", 4), ("tp=16", 8), ("tp=2,pp=2", 4), ("tp=2,cp=2", 4), ("dp=4", 1)]
)
def test_a_cache_travels_in_the_parts_that_ranks_hold(layout: str, parts: int) -> None:
    """Eight heads of keys and values: sixteen ranks hold copies; data-parallel replicas other sequences."""
    p = pools_of(on="4xdgx-h100", chips=32, prefill_layout=layout, decode_layout=layout)
    assert p.transfer.floor == pytest.approx(p.cache / parts / 50e9)


def test_a_latent_cache_is_not_divided() -> None:
    """61 layers of 576 numbers of 2 bytes for each of 4,096 tokens, 287,834,112 bytes, by one link of 50 GB/s."""
    p = rl.pools(
        "deepseek-ai/DeepSeek-V3", on="8xdgx-h100", chips=64, prefill_layout="dp=32,ep=32",
        decode_layout="dp=32,ep=32", input=4096, output=256, concurrency=32,
    )  # fmt: skip
    assert p.cache == 61 * 576 * 2 * 4096
    assert p.transfer.floor == pytest.approx(61 * 576 * 2 * 4096 / 50e9)


def test_per_chip_the_pools_serve_no_more_than_their_balance() -> None:
    p = pools_of(chips=64, on="8xdgx-h100")
    balance = 1 / (2 / p.prefill_rate + 4 / p.decode_rate)
    assert 0.8 * balance < p.requests_per_second / 64 <= balance * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"chips": 5}, "chips"),
        ({"concurrency": 0}, "concurrency"),
        ({"input": 2**18}, "context"),
        ({"chips": 0}, "chips"),
    ],
)
def test_what_cannot_be_is_an_input_error(changes: dict[str, int], field: str) -> None:
    with pytest.raises(rl.InputError) as caught:
        pools_of(**changes)
    assert caught.value.field == field


def test_requests_that_a_decode_replica_does_not_hold_are_said_not_to_fit() -> None:
    capacity = rl.serve(LLAMA, on="2xdgx-h100", layout="tp=4", input=2048, output=256, concurrency=1).capacity
    assert [pools_of(concurrency=n).fits for n in (capacity, capacity + 1, 10**5)] == [True, False, False]
