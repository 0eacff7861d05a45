"""How many numbers, layouts and figures are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folded import folded
from roofline import InputError, Layout
from roofline.whatif.query.axes import figures_named
from roofline.whatif.query.ranges import layouts_named, numbers_named, values_of


@folded(
    ("text", "numbers"),
    [
        ("8", [8]), ("4Ki", [4096]), ("1.5k", [1500]), ("1,2,4", [1, 2, 4]), ("3..6", [3, 4, 5, 6]),
        ("1..512:x2", [2**i for i in range(10)]), ("1..100:x3", [1, 3, 9, 27, 81]), ("16..70:+16", [16, 32, 48, 64]),
        ("0.5..2:+0.5", [0.5, 1.0, 1.5, 2.0]), ("1..4:x1.5", [1.0, 1.5, 2.25, 3.375]), ("1..2,1Ki..4Ki:x2",
        [1, 2, 1024, 2048, 4096]), ("0.1..0.3:+0.1", [0.1, 0.2, 0.3]),
    ],
)  # fmt: skip
def test_numbers(text: str, numbers: list[float]) -> None:
    values = numbers_named("batch", text)
    assert values.tolist() == numbers
    assert values.dtype.kind == ("i" if all(n == int(n) for n in numbers) else "f")


@folded(
    "text",
    ["", "x", "1..", "5..1", "1..8:x1", "0..8:x2", "1..8:+0", "1,1", "1..4,2", "-1", "1e9", "1..999M", "9" * 5000,
     "1..2..3", "1..8:2", "1..1G:x1.0000001"],
)  # fmt: skip
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(InputError, match=r"^batch: expected"):
        numbers_named("batch", text)


@given(st.integers(1, 10**6), st.integers(1, 300), st.integers(1, 50))
def test_a_step_is_that_of_a_range(first: int, size: int, step: int) -> None:
    last = first + (size - 1) * step
    assert numbers_named("n", f"{first}..{last}:+{step}").tolist() == list(range(first, last + 1, step))


def test_values_of_python() -> None:
    assert values_of("n", range(3, 9, 3)).tolist() == [3, 6]
    assert values_of("n", 7).tolist() == [7]
    assert values_of("n", ["1..4:x2", "9"]).tolist() == [1, 2, 4, 9]
    for wrong in ([], [[1, 2]], [True], [1, 1], [float("nan")], None, {}, [1, "x"]):
        with pytest.raises(InputError):
            values_of("n", wrong)


def names(text: str) -> list[str]:
    return [layout.text() for layout in layouts_named("layout", text) if isinstance(layout, Layout)]


def test_layouts_are_every_combination() -> None:
    assert names("tp=1,2,pp=1,2") == ["one chip", "pp=2", "tp=2", "tp=2, pp=2"]
    assert names("tp=1..8:x2") == ["one chip", "tp=2", "tp=4", "tp=8"]
    assert names("tp=2 dp=3 sp") == ["tp=2, dp=3, sp"]
    assert names("pp=3,stages=2+2+1") == ["pp=3, stages=2+2+1"]


def test_a_layout_that_cannot_be_is_its_error() -> None:
    layouts = layouts_named("layout", "tp=1,2,ep=1,2")
    assert [isinstance(layout, InputError) for layout in layouts] == [False, True, False, False]


@folded("text", ["", "2", "tp=1,tpp=2", "tp=x", "tp=1,tp=2", "zero=7", "tp=0", "tp=1..2..3"])
def test_what_is_no_layout(text: str) -> None:
    with pytest.raises(InputError):
        layouts_named("layout", text)


def test_figures() -> None:
    assert figures_named("bw=2T,4T,peak=1P,2P") == ["bw=2T,peak=1P", "bw=2T,peak=2P", "bw=4T,peak=1P", "bw=4T,peak=2P"]
    with pytest.raises(InputError, match="figures"):
        figures_named("2T")
    assert len(figures_named(",".join(12 * ["bw=1T,2T"]))) == 4096
    with pytest.raises(InputError, match=r"at most 4,096 combinations, got '1,048,576'"):
        figures_named(",".join(20 * ["bw=1T,2T"]))
