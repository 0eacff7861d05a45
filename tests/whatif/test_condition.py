"""Conditions on columns, against the same written in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folded import folded
from roofline import InputError
from roofline.whatif.query.columns import Words, words_of
from roofline.whatif.query.condition import DEEPEST_CONDITION, condition_of

UNITS = {"fits": "flag", "tpot": "s", "time": "s", "batch": "", "bound": "word", "total": "B", "mfu": "share"}
ROWS: dict[str, Any] = {
    "fits": np.array([True, True, False, True]), "tpot": np.array([0.001, 0.02, 0.03, 0.5]),
    "time": np.array([0.002, 0.01, 0.03, 1.0]), "batch": np.array([1, 2, 4, 8]),
    "bound": words_of(np.array(["memory", "compute", "memory", "latency"]), 4),
    "total": np.array([1e9, 2.0**30, 8e10, 2e11]), "mfu": np.array([0.1, 0.4, 0.5, float("nan")]),
}  # fmt: skip


def met(text: str) -> list[bool]:
    rows = np.ones(4, dtype=bool)
    for part in condition_of(text, UNITS).parts:
        rows &= part.value(ROWS.__getitem__)
    return rows.tolist()


@folded(
    ("text", "rows"),
    [
        ("", [1, 1, 1, 1]), ("fits", [1, 1, 0, 1]), ("not fits", [0, 0, 1, 0]), ("fits and tpot < 30ms", [1, 1, 0, 0]),
        ("tpot <= 30ms", [1, 1, 1, 0]), ("tpot < 30000us", [1, 1, 0, 0]), ("1ms < tpot < 0.5 s", [0, 1, 1, 0]),
        ("tpot - time > 0s", [0, 1, 0, 0]), ("tpot / time >= 1", [0, 1, 1, 0]), ("2 * tpot < 3ms", [1, 0, 0, 0]),
        ("batch * 2 - 1 == 3", [0, 1, 0, 0]), ("-batch < -3", [0, 0, 1, 1]), ("mfu > 40%", [0, 0, 1, 0]),
        ("mfu >= 40 %", [0, 1, 1, 0]), ("total <= 1GiB", [1, 1, 0, 0]), ("total < 1.1 GB", [1, 1, 0, 0]),
        ("total / 1GB > 79", [0, 0, 1, 1]), ('bound == "memory"', [1, 0, 1, 0]), ("bound != 'memory'", [0, 1, 0, 1]),
        ("bound == 'no such'", [0, 0, 0, 0]), ("not (fits and batch > 1)", [1, 0, 1, 0]),
        ("batch == 1 or batch > 2 and fits", [1, 0, 0, 1]), ("(batch == 1 or batch > 2) and fits", [1, 0, 0, 1]),
        ("batch < 2k and batch > 2 / 2", [0, 1, 1, 1]), ("not not fits", [1, 1, 0, 1]), ("tpot < 1min", [1, 1, 1, 1]),
        ("batch < 1 + 2 * 3", [1, 1, 1, 0]), ("batch > 8 / 2 / 2", [0, 0, 1, 1]),
    ],
)  # fmt: skip
def test_rows(text: str, rows: list[int]) -> None:
    assert met(text) == [bool(r) for r in rows]


@folded(
    ("text", "says"),
    [
        ("tpot < 30", "a time with its unit"), ("total < 80", "bytes with their unit"), ("tpot < 3GB", "of one unit"),
        ("tpott < 3ms", "nearest: tpot"), ("tpot", "a comparison"), ("tpot < 3parsecs", "a unit"),
        ("tpot < 3 parsecs", "a time"),
        ("fits == 1", "yes or no"), ("bound == memory", "the name of a figure"), ("bound < 'm'", "words compared"),
        ("fits and", "a figure or a number"), ("(fits", "a closing bracket"), ("fits)", "the end"),
        ("fits fits", "the end"), ("tpot + batch < 3ms", "a time"), ("fits + 1 > 0", "a number, not a flag"),
        ("batch @ 3", "a sign"), ("__import__('os')", "the name of a figure"), ("batch ** 2 > 1", "a figure"),
        ("a" * 2000, "at most 1000"), ("(" * 40 + "fits" + ")" * 40, f"at most {DEEPEST_CONDITION} levels"),
        ("not " * 40 + "fits", "levels"), ("-" * 40 + "batch > 1", "levels"), ("3", "a comparison"),
    ],
)  # fmt: skip
def test_what_is_not_understood(text: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        condition_of(text, UNITS)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_brackets_are_read_once() -> None:
    """Deep brackets take no longer than shallow ones."""
    assert met("(" * 31 + "fits" + ")" * 31) == [True, True, False, True]
    assert met("(" * 31 + "batch" + ")" * 31 + " > 3") == [False, False, True, True]


def test_what_joins_at_the_top_is_apart() -> None:
    assert [sorted(p.names) for p in condition_of("fits and tpot < 1s and (batch > 1 or fits)", UNITS).parts] == [
        ["fits"], ["tpot"], ["batch", "fits"],
    ]  # fmt: skip


NUMBERS = st.sampled_from(["batch", "mfu", "3", "0.25", "1k"])
SIGNS = st.sampled_from(["+", "-", "*", "/"])
SUMS = st.recursive(NUMBERS, lambda inner: st.tuples(inner, SIGNS, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"))
COMPARED = st.tuples(SUMS, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), SUMS).map(" ".join)
CONDITIONS = st.recursive(
    COMPARED,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"not ({t})"),
    ),
    max_leaves=6,
)


@given(CONDITIONS)
def test_the_same_in_python(text: str) -> None:
    if len(text) > 900:
        return
    rows = {"batch": 5.0, "mfu": 0.4}
    try:
        expected = eval(text.replace("1k", "1000"), {}, rows)
    except ZeroDivisionError:
        return
    try:
        parts = condition_of(text, {"batch": "", "mfu": "share"}).parts
    except InputError as error:
        assert "levels" in str(error)  # noqa: PT017
        return
    assert all(bool(np.all(p.value(lambda name: np.array([rows[name]])))) for p in parts) == bool(expected)


def test_words() -> None:
    words = words_of(np.array(["b", "a", "b"]), 3)
    assert words.names == ("b", "a")
    assert words.text().tolist() == ["b", "a", "b"]
    assert isinstance(words_of("x", 2), Words)
    assert words_of("x", 2).equal("x").tolist() == [True, True]


@pytest.mark.parametrize("text", ["bound = compute", "bound is compute", 'bound == "compute"', 'bound = "compute"'])
def test_a_bound_is_spelled_alike_in_sweep_and_solve(text: str) -> None:
    (clause,) = condition_of(text, {"bound": "word"}).parts
    assert clause.value({"bound": "compute"}.__getitem__)
    assert not clause.value({"bound": "memory"}.__getitem__)
    (looked_for,) = condition_of([text], {"bound": "word", "memory": "B"}, sides=True).parts
    assert looked_for == clause
    assert looked_for.text == "bound = compute"


@pytest.mark.parametrize("text", ["1ms < tpot < 30ms", "30ms > tpot > 1ms", "tpot > 1ms and 30ms > tpot"])
def test_a_comparison_is_turned_and_chained_alike_in_sweep_and_solve(text: str) -> None:
    condition = condition_of(text, {"tpot": "s"})
    for tpot, holds in ((0.001, False), (0.002, True), (0.03, False)):
        assert all(part.value({"tpot": tpot}.__getitem__) for part in condition.parts) == holds
    assert {part.text for part in condition.parts} == {"tpot > 1 ms", "tpot < 30 ms"}


def test_dollars_and_trillions_are_numbers_in_both() -> None:
    text = "tokens_per_second < 2T and usd_per_million_tokens < $2"
    tokens, usd = condition_of(text, {"tokens_per_second": "tokens/s", "usd_per_million_tokens": "USD"}).parts
    assert tokens.value({"tokens_per_second": 1.9e12}.__getitem__)
    assert not usd.value({"usd_per_million_tokens": 2.0}.__getitem__)
    assert (tokens.text, usd.text) == ("tokens_per_second < 2e+12 tokens/s", "usd_per_million_tokens < 2 USD")


def test_how_much_of_its_limits_a_condition_uses() -> None:
    """At most 1 where it holds: of `and` the most, of `or` the least, of `not` that of the opposite."""
    rows = {
        "tpot": np.array([0.01, 0.02, 0.04]),
        "ttft": np.array([3.0, 1.0, 0.5]),
        "fits": np.array([True, False, True]),
    }
    units = {"tpot": "s", "ttft": "s", "fits": "flag"}
    for text, uses in (
        ("tpot <= 20ms", [0.5, 1, 2]), ("tpot >= 20ms", [2, 1, 0.5]), ("tpot <= 20ms and ttft <= 2s", [1.5, 1, 2]),
        ("tpot <= 20ms or ttft <= 2s", [0.5, 0.5, 0.25]), ("not tpot > 20ms", [0.5, 1, 2]), ("fits", [0, np.inf, 0]),
        ("not (fits and tpot < 20ms)", [2, 0, 0.5]), ("2 * tpot < ttft / 50", [1 / 3, 2, 8]),
    ):  # fmt: skip
        condition = condition_of(text, units)
        assert condition.use(rows.__getitem__).tolist() == pytest.approx(uses, rel=1e-12), text
        holds = np.all([part.value(rows.__getitem__) for part in condition.parts], axis=0)
        assert (condition.use(rows.__getitem__) <= 1).tolist() == holds.tolist()


def test_what_only_solve_serves_is_refused_in_one_line() -> None:
    for text in ("time <= against", "time < against"):
        with pytest.raises(InputError, match="`against` compares two sides in `solve` alone"):
            condition_of(text, {"time": "s"})
    with pytest.raises(InputError, match=r"bound: expected one of compute, .*nearest: compute"):
        condition_of("bound = compoot", {"bound": "word"})


def test_a_limit_below_all_numbers_is_used_without_end() -> None:
    """A ratio beyond the largest number is no warning of NumPy."""
    limit = condition_of("tpot <= 1e-320ms", UNITS, sides=True)
    assert limit.use(ROWS.__getitem__).tolist() == [float("inf")] * 4
