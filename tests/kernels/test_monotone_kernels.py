"""A seeded sample of what `benchmarks/monotone.py` draws: models with experts on chips, under engines."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from monotone import Draw, breaks, draws

DRAWS = 10
sample = cache(draws)
"""The draws of a seed: all models of the catalog are loaded for them, once."""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("number", range(DRAWS))
def test_constants_turn_nothing_round(number: int) -> None:
    """Throughput grows with the batch, a rank's own work shrinks with more ranks, fp8 is no slower than 16 bits."""
    draw = sample(3, DRAWS)[number]
    assert list(breaks(draw)) == [], draw


def test_a_chip_with_slow_arithmetic_reads_its_weights_as_fast_as_others() -> None:
    """H20 has H100's kernels and more bandwidth: one sequence takes no longer, whatever tiles cost."""
    h20, h100 = (
        Draw("meta-llama/Llama-3.1-8B", chip, None, 500).seconds(1, precision="bf16") for chip in ("h20", "h100-sxm")
    )
    assert h20 < h100
