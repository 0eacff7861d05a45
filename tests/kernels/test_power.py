"""The energy roofline: by hand, and what always holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.hardware.grids import grid_named, grids
from roofline.hardware.named_chip import chip_named
from roofline.kernels.power import Busy, draw_of

H100 = rl.chips()["h100-sxm"]
SECONDS = st.floats(0, 1e6)


def test_an_h100_by_hand() -> None:
    """TDP 700 W, idle 70 W: 210 W awake; a product at 0.75 of peak and reading at 0.8 of bandwidth fix the rest."""
    d = draw_of(H100)
    assert d is not None
    assert (d.idle, d.idle + d.awake, d.most) == (70, 210, 700)
    assert d.idle + d.awake + 0.75 * d.compute == pytest.approx(700)
    assert d.idle + d.awake + 0.80 * d.memory == pytest.approx(0.633 * 700)
    assert d.link == pytest.approx(70)
    assert (d.grade, d.low < 1 < d.high) == ("C", True)


def test_ten_seconds_by_hand() -> None:
    """70·10 idle, 140·8 awake, (490/0.75)·1 of products, (233.1/0.8)·6 of reading."""
    d = draw_of(H100)
    assert d is not None
    expected = 700 + 1120 + 490 / 0.75 + 6 * (0.633 * 700 - 210) / 0.8
    assert d.joules(10.0, Busy(8.0, 1.0, 6.0)) == pytest.approx(expected)


@given(seconds=SECONDS, shares=st.tuples(*[st.floats(0, 1)] * 4))
def test_never_above_the_tdp_nor_below_idle(seconds: float, shares: tuple[float, ...]) -> None:
    for id in ("h100-sxm", "a100-sxm-80gb", "mi300x", "b200", "rtx-4090", "tpu-v5e"):
        d = draw_of(rl.chips()[id])
        assert d is not None
        joules = d.joules(seconds, Busy(*(s * seconds for s in shares)))
        assert d.idle * seconds * (1 - 1e-12) <= joules <= d.most * seconds * (1 + 1e-12)


def test_every_chip_with_a_tdp_has_watts_that_are_none_below_zero() -> None:
    for id, chip in rl.chips().items():
        d = draw_of(chip)
        assert (d is None) == (chip.tdp is None), id
        if d is not None:
            assert min(d.idle, d.awake, d.compute, d.memory, d.link) >= 0, id


def test_arrays_are_their_elements() -> None:
    d = draw_of(H100)
    assert d is not None
    busy = Busy(np.array([1.0, 2.0]), np.array([0.5, 2.0]), 0.25)
    assert d.joules(np.array([1.0, 3.0]), busy) == pytest.approx(
        [d.joules(1.0, Busy(1.0, 0.5, 0.25)), d.joules(3.0, Busy(2.0, 2.0, 0.25))]
    )


def test_nobody_knows_the_tdp() -> None:
    assert draw_of(chip_named("peak=100T,bw=1T,mem=16G")) is None


def test_grids_by_code_and_by_number() -> None:
    assert (grid_named("FR").kg, grid_named("0.4").kg, grid_named(0).kg) == (0.067, 0.4, 0)
    assert all(0 < grid.kg < 1 for grid in grids().values())


@folded("value", ["xx", 400, -0.1, None, "", float("nan"), True])
def test_no_such_grid(value: object) -> None:
    with pytest.raises(rl.InputError, match="grid"):
        grid_named(value)
