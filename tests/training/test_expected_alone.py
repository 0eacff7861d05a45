"""Spans of which only the expected seconds are worked out, as a search asks for no others."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from roofline.inference.span import NOTHING, Expected, Span, end_by_end, expected_alone, total

FULL, OTHER = Span(1.0, 2.0, 1.5, 3.0), Span(0.5, 0.75, 0.6, 1.0)


@pytest.mark.parametrize("name", ["__add__", "minus", "most", "least"])
def test_whatever_is_made_with_one_has_its_expected_seconds_alone(name: str) -> None:
    """On either side, and with nothing."""
    expected = getattr(FULL, name)(OTHER).expected
    for one, other in (
        (expected_alone(2.0), OTHER), (FULL, expected_alone(0.75)), (expected_alone(2.0), expected_alone(0.75)),
    ):  # fmt: skip
        made = getattr(one, name)(other)
        assert isinstance(made, Expected)
        assert made.ends() == (expected,) * 4
    assert getattr(expected_alone(2.0), name)(NOTHING).expected == getattr(FULL, name)(NOTHING).expected


def test_spans_side_by_side_and_in_sum() -> None:
    side = end_by_end([FULL, OTHER], np.array)
    assert [list(end) for end in side.ends()] == [[1.0, 0.5], [2.0, 0.75], [1.5, 0.6], [3.0, 1.0]]
    assert isinstance(end_by_end([FULL, expected_alone(1.0)], np.array), Expected)
    assert total([FULL, expected_alone(1.0)]).expected == 3.0
    assert expected_alone(2.0).times(3).ends() == (6.0,) * 4


def test_a_search_finds_the_seconds_that_train_does() -> None:
    """Whose spans are whole."""
    s = rl.search_training("meta-llama/Llama-3.1-8B", on="2xdgx-h100", batch=64, tokens=4096, top=5)
    for plan in s.plans:
        assert plan.seconds == pytest.approx(float(plan.estimate.time), rel=1e-12)
        assert plan.estimate.floor < plan.estimate.interval[0] < plan.seconds < plan.estimate.interval[1]
