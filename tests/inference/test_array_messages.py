"""Whatever is asked of arrays, errors are words: the first value that is wrong, never an array of NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import roofline as rl

HYBRIDS = (
    "ai21labs/Jamba-v0.1", "ibm-granite/granite-4.0-h-tiny", "Qwen/Qwen3-Next-80B-A3B-Instruct", "LiquidAI/LFM2-1.2B",
    "MiniMaxAI/MiniMax-Text-01-hf", "tiiuae/falcon-mamba-7b",
)  # fmt: skip
"""Attention beside recurrent state, and a state alone."""
NUMPY = re.compile(r"array|dtype|np\.|shape|broadcast|\(\d+,|\[\d+ ")
SIZES: dict[str, Any] = {"on": "8xh200-sxm", "input": 1000, "output": 20}
THREE, TWO = np.array([10, 20, 30]), np.array([10, 20])


def array(*values: float) -> Any:
    return np.array(values)


WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "lengths": (rl.serve, {"input": THREE, "output": TWO, "rate": 1.0}, "input of 3, output of 2"),
    "shares": (rl.serve, {"input": THREE, "prefix": TWO / 100, "rate": 1.0}, "input of 3, prefix of 2"),
    "rates": (rl.serve, {"input": THREE, "rate": TWO}, "input of 3, rate of 2"),
    "degrees": (rl.serve, {"layout": {"tp": array(1, 2), "dp": array(1, 2, 4)}, "rate": 1.0}, "tp of 2, dp of 3"),
    "negative": (rl.serve, {"rate": array(1.0, -2.0)}, "rate: expected requests a second, .* got -2.0"),
    "fraction": (rl.serve, {"input": array(10, 1.5), "rate": 1.0}, "input: expected whole numbers, got 1.5"),
    "small": (rl.serve, {"input": array(10, 0), "rate": 1.0}, r"input: expected whole numbers from 1 to 2\^40, got 0"),
    "share": (rl.serve, {"prefix": array(0.1, 1.5), "rate": 1.0}, "prefix: expected a share from 0 .* got 1.5"),
    "divisor": (rl.serve, {"layout": {"tp": array(1, 2, 3)}, "rate": 1.0}, "layout.tp: expected a divisor .* got 3;"),
    "words": (rl.serve, {"input": np.array(["a"]), "rate": 1.0}, r"input: expected whole numbers from 1, got \['a'\]"),
    "beyond": (rl.serve, {"input": array(10, 3000), "rate": array(1.0, 1e6)}, "rate: expected at most"),
    "generate": (rl.generate, {"batch": array(1, 2, 3), "output": array(10, 20)}, "batch of 3, output of 2"),
    "simulate": (rl.simulate, {"rate": array(1.0, 2.0)}, r"rate: expected a number of .*, got \[1.0, 2.0\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", HYBRIDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_arrays_is_said_in_words(name: str, wrong: str) -> None:
    run, given, words = WRONG[wrong]
    with pytest.raises(rl.InputError, match=words) as error:
        run(name, **{**SIZES, **given})
    assert not NUMPY.search(str(error.value).replace("arrays:", ""))


def test_arrays_of_a_step_are_told_by_their_lengths() -> None:
    with pytest.raises(
        rl.InputError, match=r"step: expected lists as long as one another, .* got 'cached of 3, count of 2'"
    ):
        rl.decode(array(1, 2), array(10, 20, 30))
    with pytest.raises(rl.InputError, match="'batch of 2 × 2, context of 3 × 1'"):
        rl.fit(HYBRIDS[0], on="h200-sxm", batch=np.ones((2, 2), dtype=int), context=np.array([[10], [20], [30]]))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", HYBRIDS)
def test_hybrids_are_served_at_a_rate(name: str) -> None:
    """As one number, as lists, followed and in closed form; a state alone, which no token makes larger, simulated."""
    given = {"on": "8xh200-sxm", "input": 500, "output": 20, "layout": "tp=4" if "granite" in name else "tp=8"}
    one = rl.serve(name, rate=1.0, formula=True, **given)
    many = rl.serve(name, rate=np.array([[0.5], [1.0]]), formula=True, **{**given, "input": np.array([100, 500])})
    assert many.ttft.expected[1, 1] == pytest.approx(one.ttft.expected, rel=1e-12)
    s = rl.simulate(name, rate=1.0, extent=rl.Extent(requests=20), **given)
    assert s.requests == 20
    assert s.ttft.mean > 0
