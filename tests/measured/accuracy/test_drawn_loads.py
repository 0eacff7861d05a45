"""The loads behind the tables of experts, dealt out by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import drawn_loads as d


@pytest.mark.parametrize(
    ("sizes", "touched", "rows"),
    [
        ((1, 8, 128, 1), 8, 8),
        ((2, 8, 128, 8), 2, 2),  # token 0 to 0, 16, 32 …, token 1 to 8, 24 …: 0 and 8 are of the first 16
        ((16, 8, 128, 8), 16, 16),  # token t to t, t + 16 …: each of the first 16 by one token
        ((128, 8, 128, 1), 128, 1024),
        ((144, 8, 128, 8), 16, 144),  # 128 tokens give each expert 8 pairs, 16 more give it one
    ],
)
def test_balanced(sizes: tuple[int, int, int, int], touched: int, rows: int) -> None:
    assert d.balanced(*sizes) == d.Loads(touched, rows)


@pytest.mark.parametrize(
    ("weight", "tokens", "topk", "heaped", "loads"),
    [
        ([4, 2, 1, 1], 4, 2, False, [4, 2, 1, 1]),
        ([100, 1, 1, 1], 4, 2, False, [4, 2, 1, 1]),  # 8 are cut to the 4 tokens; four go to the least popular
        ([1, 1, 1, 1, 1], 4, 1, False, [0, 1, 1, 1, 1]),  # five times 0.8: one too many
        ([5, 4, 1, 1, 1], 1, 3, False, [1, 1, 1, 0, 0]),
        ([3, 3, 3, 3, 4], 4, 1, True, [0, 1, 1, 1, 1]),
    ],
)
def test_dealt(weight: list[float], tokens: int, topk: int, heaped: bool, loads: list[int]) -> None:
    assert d.dealt(np.array(weight, float), tokens, topk, 1, heaped).tolist() == [loads]


@given(st.integers(1, 300), st.sampled_from([(1, 16), (4, 60), (8, 128)]), st.sampled_from([1, 2, 4]), st.booleans())
def test_every_pair_is_dealt(tokens: int, sizes: tuple[int, int], ranks: int, heaped: bool) -> None:
    topk, count = sizes
    weight = d.truncated_power_law(np.random.default_rng(tokens).random(count), 1.2, 1.0, 50.0)
    loads = d.dealt(weight, tokens, topk, ranks, heaped)
    assert loads.sum() == tokens * topk
    assert 0 <= loads.min() <= loads.max() <= tokens


@pytest.mark.parametrize("exponent", [1, 1.2])
def test_the_weights_lie_between_their_ends(exponent: float) -> None:
    ends = d.truncated_power_law(np.array([0.0, 1.0]), exponent, 0.01, 2.0)
    assert ends == pytest.approx([0.01, 2.0])


def test_the_most_loaded_rank_has_more_than_its_share() -> None:
    one, whole = d.drawn(1.2, 512, 8, 128, 8), d.drawn(1.2, 512, 8, 128, 1)
    assert whole.rows == 512 * 8
    assert 512 < one.rows < 512 * 8
    assert one.touched <= 16
