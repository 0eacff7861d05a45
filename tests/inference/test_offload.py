"""Models over tiers: sums of what is on each, llama.cpp's placement, the split that is found, drives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import by_day, folded
from roofline.hardware.named_chip import chip_named

LLAMA, GPT, V3 = "meta-llama/Llama-3.1-8B", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3"
CARD, CPU = "rtx-4090", "ryzen-9-7950x"
SIZES = {"batch": 1, "input": 512, "output_tokens": 129}


def split(gpu_layers: int | None, model: str = LLAMA, **options: object) -> rl.Offload:
    given: dict[str, object] = {"on": CARD, "host": CPU, "precision": "q4_k_m", **SIZES, **options}
    return rl.offload(model, gpu_layers=gpu_layers, **given)  # type: ignore[arg-type]


def test_everything_on_the_card_takes_what_the_card_takes() -> None:
    """But for the embedding, which llama.cpp keeps on the host, and one handing over."""
    plain = rl.generate(LLAMA, on=CARD, engine="llama.cpp", precision="q4_k_m", **SIZES)
    every = split(33)
    assert [(t.name.partition(":")[0], t.layers) for t in every.tiers] == [("card", 32), ("host", 0)]
    assert every.tpot.expected == pytest.approx(plain.tpot.expected, rel=5e-3)
    assert every.ttft.expected == pytest.approx(plain.ttft.expected, rel=1e-2)
    assert sum(t.weights for t in every.tiers) == float(plain.memory.weights)


def test_nothing_on_the_card_takes_what_the_host_takes() -> None:
    plain = rl.generate(LLAMA, on=CPU, engine="llama.cpp", precision="q4_k_m", **SIZES)
    none = split(0)
    assert len(none.tiers) == 1
    assert none.tpot == plain.tpot
    assert none.ttft == plain.ttft
    assert none.tiers[0].needed == plain.memory.total


def test_one_token_is_that_of_the_prompt() -> None:
    """No token follows, of which a rate could be told."""
    given_ = {"on": "h100-sxm", "host": "ryzen-9-7950x", "engine": "vllm", "precision": "q4_k_m"}
    o = rl.offload("google/gemma-3-4b-it", input=500, output_tokens=1, batch=2, **given_)
    assert o.tokens_per_second == pytest.approx(2 / o.ttft.expected)


def test_half_a_model_by_hand() -> None:
    """17 of 33 on the card: 16 layers and the output there, 16 layers and the embedding on the host."""
    half, every, none, output = split(17), split(33), split(0), split(1)
    card, host = half.tiers
    assert (card.layers, host.layers) == (16, 16)
    step = 4 * 4096 / 25e9 + 2e-5
    assert half.crossing == pytest.approx(step)
    assert half.tpot.expected == pytest.approx(card.token.expected + host.token.expected + step)
    layer = (every.tiers[0].token.expected - output.tiers[0].token.expected) / 32
    assert card.token.expected == pytest.approx(output.tiers[0].token.expected + 16 * layer, rel=0.02)
    assert host.token.expected == pytest.approx(output.tiers[1].token.expected / 2, rel=0.02)
    assert card.cache + host.cache == none.tiers[0].cache == 768 * 131_072  # 641 tokens in blocks of 256


def test_more_layers_on_the_faster_chip_are_never_slower() -> None:
    times = [split(k).tpot.expected for k in range(1, 34, by_day(4, 1))]
    assert all(later < earlier for earlier, later in pairwise(times))


def test_experts_on_the_host_leave_attention_and_cache_on_the_card() -> None:
    some = split(None, GPT, precision=None, cpu_experts=10)
    card, host = some.tiers
    assert (some.gpu_layers, card.layers, host.layers) == (37, 36, 10)
    assert host.cache == 0
    routed = 10 / 36 * rl.load(GPT).parameters_by_part()["experts"]
    assert host.weights == pytest.approx(routed * 4.25 / 8 + 2 * 201_088 * 2880, rel=0.005)
    assert some.crossing == pytest.approx(21 * (2e-5 + 4 * 2880 / 25e9))


def test_the_split_that_is_found_is_the_largest_that_fits() -> None:
    found = split(None, "meta-llama/Llama-3.1-70B")
    assert found.fits
    assert found.chosen
    assert split(found.gpu_layers, "meta-llama/Llama-3.1-70B").tpot == found.tpot
    assert not split(found.gpu_layers + 1, "meta-llama/Llama-3.1-70B").fits
    sparse = split(None, GPT, precision=None)
    assert (sparse.gpu_layers, sparse.fits) == (37, True)
    assert not split(37, GPT, precision=None, cpu_experts=sparse.cpu_experts - 1).fits


def test_cards_share_layers_by_their_memory() -> None:
    two = split(None, "meta-llama/Llama-3.1-70B", on=["rtx-3090", CARD])
    first, second, host = two.tiers
    assert (first.layers, second.layers, host.layers) == (40, 40, 0)
    assert second.weights > first.weights  # the output
    assert first.token.expected > second.token.expected


def test_what_memory_does_not_hold_is_read_from_the_drive() -> None:
    cpu = chip_named(CPU)
    without, drive = split(None, V3), split(None, V3, host=rl.Host(cpu, drive=5e9))
    faster = split(None, V3, host=rl.Host(cpu, drive=10e9))
    assert not without.fits
    assert drive.fits
    host, other, plain = (r.tiers[-1] for r in (drive, faster, without))
    assert host.missing == pytest.approx(host.needed - cpu.capacity)
    reading = host.token.expected - plain.token.expected
    assert reading == pytest.approx(2 * (other.token.expected - plain.token.expected))
    per_layer = 8 * 3 * 7168 * 2048
    touched = 56 * per_layer * 4.5 / 8  # of 58 sparse layers those whose experts lie on the host; q4_k has 4.5 bits
    assert reading == pytest.approx(touched * host.missing / host.weights / 5e9, rel=0.15)


def test_prompts_copy_the_hosts_weights_to_the_card_and_a_few_tokens_do_not() -> None:
    long, longer, short = split(17), split(17, input=1024), split(17, input=31)
    assert short.streamed == 0
    assert longer.streamed == 2 * long.streamed
    assert long.streamed == pytest.approx(long.tiers[-1].weights - 128_256 * 4096 * 4.5 / 8, rel=0.01)
    assert long.tiers[-1].prompt.expected > long.streamed / 25e9


def test_a_cache_on_the_host_is_attended_to_there() -> None:
    """llama.cpp's --no-kv-offload: to the CPU and back in each of 32 layers, beside the embedding's one crossing."""
    there = rl.Host(chip_named(CPU), cache=True)
    card, host = split(33, host=there).tiers
    assert (card.layers, host.layers, card.cache) == (32, 32, 0)
    assert host.cache == 768 * 131_072
    assert split(33, host=there).crossing == pytest.approx(65 * (2e-5 + 4 * 4096 / 25e9))
    slow, fast = (split(33, host=host, input=8192, output_tokens=2).tpot.expected for host in (there, CPU))
    assert slow - fast > 8192 * 131_072 / chip_named(CPU).bandwidth - 8192 * 131_072 / chip_named(CARD).bandwidth


def test_an_engine_that_computes_on_cards_alone_reads_weights_over_the_link() -> None:
    """Llama-3.1-70B in bf16 on one H100: what the card does not hold takes its bytes over the link in every step."""
    given = {"on": "h100-sxm", "engine": "vllm", "precision": None, "batch": 8}
    model, cpu = "meta-llama/Llama-3.1-70B", chip_named("epyc-9654")
    one, other = (split(None, model, host=rl.Host(cpu, pcie=link), **given) for link in (50e9, 400e9))
    card, host = one.tiers
    plain = rl.generate(model, on="h100-sxm", engine="vllm", **{**SIZES, "batch": 8})
    assert one.fits
    assert card.weights + host.weights == float(plain.memory.weights)
    assert (card.cache, host.cache, one.crossing) == (float(plain.memory.cache), 0, 0)
    layer = 2 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192)
    assert host.weights == layer * (81 - one.gpu_layers)
    assert host.token.expected == pytest.approx(host.weights / 50e9, rel=1e-4)
    assert other.tiers[1].token.expected == pytest.approx(host.weights / 400e9, rel=1e-4)
    assert card.token.expected + host.weights / 3.35e12 < plain.tpot.expected
    for wrong in ({"on": ["h100-sxm", "h100-sxm"]}, {"host": rl.Host(cpu, cache=True)}):
        with pytest.raises(rl.InputError):
            split(None, model, **{"host": cpu, **given, **wrong})


@given(st.integers(0, 33), st.integers(0, 32), st.integers(1, 700))
@settings(max_examples=15, deadline=None)
def test_weights_and_cache_are_all_somewhere(gpu_layers: int, cpu_experts: int, tokens: int) -> None:
    placed = split(gpu_layers, input=tokens, output_tokens=1, cpu_experts=cpu_experts)
    model = rl.load(LLAMA)
    whole = split(0, input=tokens, output_tokens=1).tiers[0]
    assert sum(t.weights for t in placed.tiers) == whole.weights
    assert sum(t.cache for t in placed.tiers) == whole.cache == model.kv_bytes(-(-(tokens + 1) // 256) * 256)


@folded(
    ("options", "field"),
    [
        ({"gpu_layers": 34}, "gpu_layers"),
        ({"gpu_layers": -1}, "gpu_layers"),
        ({"gpu_layers": 3, "cpu_experts": 33}, "cpu_experts"),
        ({"gpu_layers": 3, "host": "ryzen-9-7950"}, "chip"),
        ({"gpu_layers": 3, "ram": "64"}, "ram"),
        ({"gpu_layers": 3, "input": 0}, "input"),
    ],
)
def test_bad_input(options: dict[str, object], field: str) -> None:
    with pytest.raises(rl.InputError) as error:
        split(**options)  # type: ignore[arg-type]
    assert field in error.value.field


def test_a_layout_is_no_setting_of_it() -> None:
    with pytest.raises(TypeError, match="has no setting 'layout'"):
        split(3, layout="tp=2")


def test_a_host_is_given_flat_or_whole() -> None:
    flat = split(17, ram="64GB", pcie="12GB/s", no_kv_offload=True)
    whole = rl.Host(replace(chip_named(CPU), capacity=64e9, nominal_capacity=None), pcie=12e9, cache=True)
    assert flat == split(17, host=whole)
    assert flat.to_dict() == split(17, host=whole).to_dict()
