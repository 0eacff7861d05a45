"""Hypothetical chips: area, power and price by hand, and the front against every chip of a grid."""

from __future__ import annotations

from itertools import product
from math import pi, sqrt
from typing import Any

import pytest

import roofline as rl
from roofline.whatif.codesign import Bounds, Design, Process, drawing_board, front_of, worked_out

MODEL = rl.load("meta-llama/Llama-3.1-8B")
QUESTION: dict[str, Any] = {"on": "h100-sxm", "batch": 8, "input": 512, "output": 64}
H100 = Design(989.4e12, 5, 50 * 2**20, 450e9, Process())


def test_the_models_are_a_line_each() -> None:
    """GH100 is 814 mm² with six stacks' interfaces: one less, of 16.07, are 798; H100's 700 W by construction."""
    six = Design(989.4e12, 6, 50 * 2**20, 450e9, Process())
    assert six.area == pytest.approx(814, abs=0.2)
    assert H100.area == pytest.approx(814 - 16.07, abs=0.2)
    assert H100.power == pytest.approx(700, abs=0.5)
    assert (H100.bandwidth, H100.capacity) == (3.35e12, 80 * 2**30)
    p = Process()
    assert p.yielded(300) == pytest.approx((1 + 3 * 0.1 / 3) ** -3)  # 3 cm², 0.1 a cm²
    assert p.dies(600) == pytest.approx(pi * 150**2 / 600 - pi * 300 / sqrt(1200))
    die = 16988 / p.dies(H100.area) / p.yielded(H100.area)
    assert H100.usd == pytest.approx(die + 7 * 80 * 2**30 / 1e9 + 1000)


def test_a_chip_like_the_one_given_is_the_one_given() -> None:
    q, of = drawing_board(MODEL, None, "usd", QUESTION)
    assert of == "latency"
    nominal = Process(stack_bytes=rl.chips()["h100-sxm"].capacity / 5)
    same = worked_out(q, of, Design(989.4e12, 5, 50 * 2**20, 450e9, nominal))
    assert same.value == pytest.approx(rl.generate(MODEL, **QUESTION).latency.expected, rel=1e-12)
    small = worked_out(q, of, Design(989.4e12, 1, 50 * 2**20, 450e9, Process(stack_bytes=8 * 2**30)))
    assert small.value == float("inf")


def test_a_front_has_nothing_that_another_beats() -> None:
    points = [Design(1e14 * i, 1 + j, 2**25, 1e11, Process(), value=1 / i + 1 / (j + 1)) for i, j in
              product(range(1, 8), range(6))]  # fmt: skip
    front = front_of(points, "usd")

    def beats(a: Design, b: Design) -> bool:
        return a.value <= b.value and a.usd <= b.usd and (a.value, a.usd) != (b.value, b.usd)

    every = [p for p in points if not any(beats(q, p) for q in points)]
    assert sorted(d.value for d in front) == sorted({d.value for d in every})


def test_the_front_is_that_of_a_grid(whole: bool) -> None:
    pytest.importorskip("pymoo", reason="pymoo, of the codesign extra, is not installed")
    bounds = Bounds(peak=(100e12, 1000e12), stacks=(2, 8), cache=(50 * 2**20, 50 * 2**20), link=(25e9, 25e9), power=700)
    result = rl.codesign(MODEL, bounds=bounds, seed=3, generations=15 if whole else 5, **QUESTION)
    few, again = (rl.codesign(MODEL, bounds=bounds, seed=7, generations=1, **QUESTION) for _ in range(2))
    assert few.to_dict() == again.to_dict()
    q, of = drawing_board(MODEL, None, "usd", QUESTION)
    grid = [
        worked_out(q, of, Design(peak, stacks, 50 * 2**20, 25e9, Process()))
        for peak, stacks in product((100e12, 200e12, 400e12, 700e12, 1000e12), range(2, 9) if whole else (3, 7))
    ]
    for g in (g for g in grid if g.area <= 858 and g.power <= 700):
        near = 1.02 if whole else 1.15
        assert any(d.value <= near * g.value and d.usd <= near * g.usd for d in result.designs)
    for d in result.designs:
        assert d.area <= 858
        assert d.power <= 700
    for d in result.designs[:: 1 if whole else 4]:
        on = f"like=h100-sxm,bw={d.bandwidth!r}B/s,mem={d.capacity!r}B,l2={d.cache!r}B,link={d.link!r}B/s," + ",".join(
            f"{f}={v * d.peak / 989.4e12!r}FLOP/s" for f, v in rl.chips()["h100-sxm"].peaks.items()
        )
        alone = rl.generate(MODEL, **{**QUESTION, "on": on})
        assert alone.latency.expected == pytest.approx(d.value, rel=1e-9)
    assert len(result.designs) > 5


def test_errors() -> None:
    with pytest.raises(rl.InputError, match="peak: expected two numbers"):
        Bounds(peak=(2e14, 1e14))
    with pytest.raises(rl.InputError, match="process wafer"):
        Process(wafer=-1)
    with pytest.raises(rl.InputError, match="against: expected one of"):
        drawing_board(MODEL, None, "beauty", QUESTION)
    with pytest.raises(rl.InputError, match="of: expected one of"):
        drawing_board(MODEL, "bound", "usd", QUESTION)
