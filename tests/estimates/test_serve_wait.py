"""How long a prompt waits in a server that always has the same number of requests."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.estimates.serve import closed_wait


@pytest.mark.parametrize("concurrency", [2, 3, 8])
def test_prompts_wait_for_those_in_flight_and_no_more(concurrency: int) -> None:
    """Nearly all of the work is prompts: who comes finds at most the others' before its own."""
    alone, many = (
        rl.serve("meta-llama/Llama-3.1-8B", on="h100-sxm", input=32768, output=2, concurrency=n)
        for n in (1, concurrency)
    )
    assert alone.ttft.expected < many.ttft.expected < concurrency * alone.ttft.expected
    assert many.requests_per_second == pytest.approx(alone.requests_per_second, rel=0.02)


def test_wait_of_a_closed_queue() -> None:
    """R² + (Z − n·S)·R − S·Z + (n − 1)·S²/2 = 0 with S = 1, Z = 3, n = 4: R = (1 + √(1 + 12 − 6))/2."""
    assert closed_wait(4, 1.0, 3.0) == pytest.approx((1 + 7**0.5) / 2 - 1)
    assert closed_wait(1, 1.0, 3.0) == 0.0
