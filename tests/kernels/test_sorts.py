"""Kernels of wide heads, and intervals of the two sorts of ops of a kind."""

import dataclasses

import numpy as np

import roofline as rl
from roofline.engines.engine import engine_named
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import SORTS, Constants, constants_for


def test_heads_of_512_run_flash_attention_4_on_hopper() -> None:
    """Some layers of Gemma 4 have heads of 512. 64 sequences of 64 tokens, 32 heads, 4 of keys: 0.26 ms are measured
    for 64 or 128 blocks of a sequence and a key's head on an H100, and 0.02 by the law of FlashAttention 3."""

    def attention(on: str, engine: str) -> float:
        with_and_without = engine_named(engine), dataclasses.replace(engine_named(engine), wide_heads={})
        one, other = (rl.estimate("google/gemma-4-31B", rl.decode(64, 64), on=on, engine=e) for e in with_and_without)
        return float(one.time / other.time)

    assert attention("h100-sxm", "vllm") > 1.03
    assert attention("b200", "vllm") == attention("a100-sxm-80gb", "vllm") == 1
    assert attention("h100-sxm", "sglang") != 1
    h100 = chip_named("h100-sxm")
    fa4, fa3 = (constants_for(h100, "bf16", "decode", software).record for software in ("fa4", "vllm"))
    assert fa4.block > 30 * fa3.block


def test_qwen_has_no_wide_heads() -> None:
    """Heads of 128 run the engine's own kernel."""
    vllm = engine_named("vllm")
    one, other = (
        rl.estimate("Qwen/Qwen3-8B", rl.decode(64, 64), on="h100-sxm", engine=e).time
        for e in (vllm, dataclasses.replace(vllm, wide_heads={}))
    )
    assert one == other


def test_a_sort_has_powers_of_the_ends() -> None:
    """Of decode the far sort has a cache beyond the chip's; numbers and arrays agree."""
    assert SORTS["decode"] == ("near", "far")
    known = Constants(None, "A", (0.5, 2.0), (0.25, 4.0), usual=(1.0, 1.0), other=(0.5, 0.25))
    assert known.of_sort(False) is known
    assert known.of_sort(True) == dataclasses.replace(known, small=(0.5**0.5, 2.0**0.25), large=(0.5, 4.0**0.25))
    alike = dataclasses.replace(known, other=(1.0, 1.0))
    assert alike.of_sort(np.array([True, False])) is alike


def test_a_large_cache_is_known_better_than_a_small_one() -> None:
    """B200's decode attention of TensorRT-LLM, whose rows beyond the L2 lie closer to the law."""
    known = constants_for(chip_named("b200"), "bf16", "decode", "trtllm")
    near, far = (known.of_sort(np.array([True, False])).interval(1e-3)[0][i] for i in (1, 0))
    assert near < far < 1
