"""Decimals of many floats at once are those of Python, one by one."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from numpy.typing import NDArray

from folded import by_day
from roofline.views.files import decimals
from roofline.views.files.decimals import float_texts, python_texts, whole_texts

NUMBER = by_day(20_000, every=1_000_000)


def read(texts: NDArray[np.uint8]) -> list[str]:
    return [bytes(row).translate(None, b"\0").decode() for row in texts]


def drawn(kind: str) -> NDArray[np.float64]:
    rng = np.random.default_rng(7)
    scale = 10.0 ** rng.integers(-8, 19, NUMBER)
    match kind:
        case "shares":
            return rng.random(NUMBER)
        case "of every size":
            return (rng.random(NUMBER) - 0.5) * scale
        case "of every bit":
            return rng.integers(-(2**63), 2**63, NUMBER).view(np.float64)
        case "of few digits":
            return rng.integers(0, 10**6, NUMBER) / 10.0 ** rng.integers(0, 9, NUMBER)
        case "whole":
            return rng.integers(0, 2**53, NUMBER) // 2 ** rng.integers(0, 50, NUMBER) * 1.0
        case "halfway":
            return (rng.integers(1, 10**6, NUMBER) + 0.5) * scale
        case "parts of a power of two":
            return rng.integers(0, 2**53, NUMBER) * 2.0 ** rng.integers(-70, 0, NUMBER)
        case "beside powers":
            powers = np.concatenate([10.0 ** np.arange(-9, 19), 2.0 ** np.arange(-40, 60)])
            return np.concatenate([powers, np.nextafter(powers, 0), np.nextafter(powers, np.inf), -powers])
        case _:
            return np.array(
                [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.7976931348623157e308, -2.2250738585072014e-308]
            )


KINDS = (
    "shares", "of every size", "of every bit", "of few digits", "whole", "halfway", "parts of a power of two",
    "beside powers", "special",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_shortest_decimals(kind: str) -> None:
    values = drawn(kind)
    texts = read(float_texts(values))
    assert texts == read(python_texts(values.tolist()))
    for value, text in zip(values.tolist(), texts, strict=True):
        if value == value:
            assert Decimal(text) == Decimal(repr(value)), value


def test_most_are_found_without_asking_python(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        decimals, "python_texts", lambda values, width: asked.append(len(values)) or python_texts(values, width)
    )
    float_texts(drawn("shares"))
    float_texts(drawn("of few digits") + 1 / 3)
    assert sum(asked) < NUMBER / 100


def test_whole_numbers() -> None:
    values = np.array([0, 1, 9, 10, 1000, 10**16, 10**17 - 1])
    assert read(whole_texts(values)) == list(map(str, values.tolist()))
    values = np.array([-1, 5, 10**17, 2**63 - 1, -(2**63)])
    assert read(whole_texts(values)) == list(map(str, values.tolist()))
