"""A space cut into pieces: every point once, in order, whatever the axes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.whatif.query.evaluate import halves, trimmed
from roofline.whatif.search import space as spaces
from roofline.whatif.search.space import Choice, Numbers, Segment, Space


def space(choices: list[int], numbers: list[int]) -> Space:
    settings = (Choice(f"c{i}", tuple(range(n)), tuple(map(str, range(n)))) for i, n in enumerate(choices))
    axes = (Numbers(f"n{i}", np.arange(n)) for i, n in enumerate(numbers))
    return Space("decode", tuple(settings), tuple(axes))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.integers(1, 40), st.integers(1, 5),
)  # fmt: skip
def test_every_point_once_and_in_order(choices: list[int], numbers: list[int], most: int, plans: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spaces, "PIECE_PLANS", plans)
        whole = replace(space(choices, numbers), most=most)
        points = []
        for number in range(whole.pieces):
            segments = whole.piece(number)
            assert 0 < sum(s.points for s in segments) <= most or (len(segments) == 1 and segments[0].points == 1)
            for segment in segments:
                grids = np.meshgrid(*whole.point(segment).values(), indexing="ij")
                assert whole.point(segment)["n0"].ndim == len(numbers)
                points += [(segment.plan, *map(int, p)) for p in zip(*(g.reshape(-1) for g in grids), strict=True)]
    assert points == list(product(range(int(np.prod(choices))), *map(range, numbers)))
    assert whole.points == len(points)


def test_settings_of_a_plan() -> None:
    whole = space([2, 3], [1])
    assert [tuple(whole.settings(i).values()) for i in range(6)] == list(product(range(2), range(3)))
    assert whole.labels(4) == {"c0": "1", "c1": "1"}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=3))
def test_halves_are_the_whole(ranges: list[tuple[int, int]]) -> None:
    whole = Segment(3, tuple((start, start + size) for start, size in ranges))
    if whole.points == 1:
        return
    points = [list(product(*(range(*r) for r in half.box))) for half in halves(whole)]
    assert points[0] + points[1] == list(product(*(range(*r) for r in whole.box)))


def test_a_box_without_its_empty_sides() -> None:
    rows = np.zeros((2, 3, 4), dtype=bool)
    rows[0, 1, 1] = rows[1, 1, 3] = True
    point, left = trimmed({"a": np.arange(3).reshape(1, 3, 1), "b": np.arange(4).reshape(1, 1, 4)}, rows)
    assert point["a"].tolist() == [[[1]]]
    assert point["b"].tolist() == [[[1, 3]]]
    assert left.tolist() == [[[True, False]], [[False, True]]]
