"""Every command means the same by the memory of a chip: that of the fullest stage of a pipeline."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl

LLAMA = rl.load("meta-llama/Llama-3.1-70B")
PLACE: dict[str, Any] = {"on": "8xl40s", "layout": "tp=2,pp=4"}


def fullest(sequences: int, tokens: int) -> float:
    """By hand: 20 of 80 layers, half of every matrix, the embedding on the first and the head on the last stage."""
    layer = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672
    parameters = 20 * (layer // 2 + 2 * 8192) + 128256 * 8192 // 2 + 8192
    return 2 * (parameters + sequences * tokens * 20 * 2 * 1024 // 2)


def weights_and_cache(result: Any) -> float:
    return float(result.memory.weights + result.memory.cache)


def test_a_step() -> None:
    assert weights_and_cache(rl.estimate(LLAMA, rl.prefill(8, 1024), **PLACE)) == fullest(8, 1024)
    assert weights_and_cache(rl.estimate(LLAMA, rl.decode(8, 1023), **PLACE)) == fullest(8, 1024)


def test_a_generation_holds_every_group_of_its_batch() -> None:
    """At its last token, for which the engine keeps a place too."""
    assert weights_and_cache(rl.generate(LLAMA, batch=8, input=1024, output=256, **PLACE)) == fullest(8, 1280)


def test_a_server_holds_every_group_in_flight() -> None:
    """Every request at its last token: 80 whole blocks of 16 tokens each."""
    s = rl.serve(LLAMA, input=1024, output=256, concurrency=8, **PLACE)
    assert weights_and_cache(s) == fullest(8, 1280)


@pytest.mark.parametrize("layout", ["tp=2", "tp=2,pp=4", "pp=8", "tp=4,pp=2"])
def test_as_fit_says(layout: str) -> None:
    fit = rl.fit(LLAMA, on="8xb200", layout=layout, batch=8, context=2048)
    step = rl.estimate(LLAMA, rl.decode(8, 2047), on="8xb200", layout=layout)
    assert step.memory == fit.memory
