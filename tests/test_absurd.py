"""A sample of `benchmarks/absurd.py`: numbers that nobody means are answered or refused in one line, in bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import roofline as rl
from folded import folded

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "absurd.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and its limits")
def test_no_number_is_a_fault(whole: bool) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "60" if whole else "3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("faults 0")


@folded("rate", [1e-320, 1e-9, 0.99e-6, 1e9, float("inf"), float("nan"), -1.0, 0.0])
def test_a_rate_has_a_least_and_a_most(rate: float) -> None:
    """At 1e-9 a clock of seconds no longer told microseconds, and TTFT was 1 % off."""
    asked = {"on": "h100-sxm", "input": 64, "output": 8, "rate": rate}
    for ask in (rl.serve, rl.simulate):
        with pytest.raises(rl.InputError, match="requests a second, at least 1e-06 and below 1e\\+09"):
            ask("openai-community/gpt2", **asked)


def test_at_the_least_rate_a_request_is_alone() -> None:
    alone = rl.serve("openai-community/gpt2", on="h100-sxm", input=64, output=8, concurrency=1)
    rare = rl.serve("openai-community/gpt2", on="h100-sxm", input=64, output=8, rate=1e-6)
    assert rare.ttft.expected == pytest.approx(alone.ttft.expected, rel=0.05)
    seldom = rl.serve("openai-community/gpt2", on="h100-sxm", input=64, output=8, rate=1e-3)
    assert rare.ttft.expected == pytest.approx(seldom.ttft.expected, rel=1e-4)
