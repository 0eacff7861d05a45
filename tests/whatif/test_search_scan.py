"""`search` against a scan of `serve`: a few of the drawn cases of the benchmark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from search_against_scan import SAME, WITHIN, compared

CASES = (1, 4, 8, 9, 13, 15, 17, 18, 20, 24, 34, 36)


@pytest.mark.drawn(5)
@pytest.mark.parametrize("seed", CASES)
def test_a_search_finds_the_best_of_a_scan(seed: int) -> None:
    one = compared(seed)
    assert one.ours >= (1 - WITHIN) * one.scan, one.case
    assert one.apart <= SAME, one.case
