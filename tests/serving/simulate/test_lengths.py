"""How many tokens prompts and answers have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from folded import folded
from roofline.declared.errors import InputError
from roofline.serving.simulate.load.lengths import (
    About,
    Empirical,
    Fixed,
    Lengths,
    Lognormal,
    Uniform,
    about,
    lengths_named,
)

MANY = 400_000


def drawn(lengths: Lengths) -> np.ndarray:
    return lengths.draw(np.random.default_rng(3), MANY)


def test_fixed() -> None:
    assert set(drawn(Fixed(7)).tolist()) == {7}
    assert (Fixed(7).mean, Fixed(7).largest) == (7.0, 7)


def test_uniform_takes_both_ends() -> None:
    values = drawn(Uniform(3, 6))
    assert np.bincount(values)[3:] / MANY == pytest.approx([0.25] * 4, abs=0.004)
    assert (Uniform(3, 6).mean, Uniform(3, 6).largest) == (4.5, 6)


def test_lognormal_has_the_mean_and_variation_of_the_length_itself() -> None:
    values = drawn(Lognormal(1024, 0.8))
    assert values.mean() == pytest.approx(1024, rel=0.005)
    assert values.std() / values.mean() == pytest.approx(0.8, rel=0.01)
    assert np.median(values) == pytest.approx(1024 / np.sqrt(1 + 0.64), rel=0.01)
    assert Lognormal(1024, 0.8).mean == pytest.approx(1024, abs=1e-4)
    assert Lognormal(1024, 0.8).largest is None


@pytest.mark.parametrize(
    "law", [Lognormal(3, 2, 50), Lognormal(3000, 2, 20_000), Lognormal(1, 0.5), Lognormal(2, 1, 1)]
)
def test_mean_of_what_is_rounded_and_cut(law: Lognormal) -> None:
    values = drawn(law)
    assert values.min() >= 1
    assert law.most is None or values.max() <= law.most
    assert values.mean() == pytest.approx(law.mean, abs=5 * values.std() / np.sqrt(MANY))


def test_wide_lognormals_stay_whole_numbers() -> None:
    values = drawn(Lognormal(1e9, 100))
    assert values.min() >= 1
    assert values.max() <= 2**31 - 1


@pytest.mark.parametrize(
    ("tokens", "cv", "most"),
    [(1024, 0.96, 100_000), (256, 0.78, 25_000), (1024, 0.96, 2048), (256, 0.78, 400), (3, 2, 50), (2, 0.96, 3)],
)
def test_lengths_about_a_mean_have_it_although_the_longest_are_cut(tokens: int, cv: float, most: int) -> None:
    law = About(tokens, cv, most)
    values = drawn(law)
    assert law.mean == tokens
    assert law.law.mean == pytest.approx(tokens, rel=1e-8)
    assert values.mean() == pytest.approx(tokens, abs=5 * values.std() / np.sqrt(MANY))
    assert 1 <= values.min() <= values.max() <= law.largest == most


@pytest.mark.parametrize(("tokens", "cv"), [(1024, 0.96), (256, 0.78), (1000, 0.1)])
def test_lengths_about_a_mean_vary_as_asked_where_few_are_cut(tokens: int, cv: float) -> None:
    """Those that are cut at 100 times the mean are one in a million or none."""
    law = About(tokens, cv, 100 * tokens)
    values = drawn(law)
    assert law.law.center == pytest.approx(tokens, rel=1e-4)
    assert values.std() / values.mean() == pytest.approx(cv, rel=0.01)


def test_what_a_cut_takes_from_the_longest_the_others_have() -> None:
    """At twice the mean the uncut lengths are longer on average, and the cut ones vary less."""
    law = About(1024, 0.96, 2048)
    values = drawn(law)
    assert law.law.center > 1.1 * 1024
    assert (values == 2048).mean() > 0.1
    assert values.std() / values.mean() < 0.7


def test_lengths_about_a_mean_in_text() -> None:
    assert About(1024, 0.96, 4096).text == "1024 (cv 0.96)"
    assert About(256, 1.0, 4096).text == "256 (cv 1)"


@folded(
    ("tokens", "cv", "most", "law"),
    [
        (256, 0.78, 4096, About(256, 0.78, 4096)),
        (256, 0.0, 4096, Fixed(256)),
        (1, 0.78, 4096, Fixed(1)),
        (256, 0.78, 256, Fixed(256)),
    ],
)
def test_lengths_vary_where_they_can(tokens: int, cv: float, most: int, law: Lengths) -> None:
    assert about(tokens, cv, most) == law


@folded(("tokens", "most"), [(1, 10), (0, 10), (10, 10), (11, 10), (2.5, 10)])
def test_a_mean_between_one_token_and_the_longest(tokens: int, most: int) -> None:
    with pytest.raises(InputError, match="length"):
        About(tokens, 0.5, most)


def test_empirical_draws_what_was_seen() -> None:
    law = Empirical(np.array([5, 5, 5, 9]))
    values = drawn(law)
    assert set(values.tolist()) == {5, 9}
    assert (values == 5).mean() == pytest.approx(0.75, abs=0.005)
    assert (law.mean, law.largest) == (6.0, 9)


@pytest.mark.parametrize("law", [Uniform(1, 10**6), Lognormal(1000, 1.0), Empirical(np.arange(1, 1000))])
def test_draws_follow_each_other(law: Lengths) -> None:
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    assert np.concatenate([law.draw(two, 37), law.draw(two, 63)]).tolist() == law.draw(one, 100).tolist()


# -- names ---------------------------------------------------------------------------------------------------------
@folded(
    ("value", "law"),
    [
        (1024, Fixed(1024)),
        (np.int64(3), Fixed(3)),
        ("1024", Fixed(1024)),
        ("1_024", Fixed(1024)),
        ("uniform(100,2000)", Uniform(100, 2000)),
        ("Uniform( low=100, high=2e3 )", Uniform(100, 2000)),
        ("lognormal(1024,0.8)", Lognormal(1024.0, 0.8)),
        ("lognormal(1024,0.8,max=8192)", Lognormal(1024.0, 0.8, 8192)),
        ("lognormal(1024,0.8,8192)", Lognormal(1024.0, 0.8, 8192)),
        (Uniform(1, 2), Uniform(1, 2)),
    ],
)
def test_named(value: object, law: Lengths) -> None:
    assert lengths_named(value) == law


@pytest.mark.parametrize("value", [[3, 4], (3, 4), np.array([3, 4])])
def test_a_list_is_what_was_seen(value: object) -> None:
    law = lengths_named(value)
    assert isinstance(law, Empirical)
    assert law.values.tolist() == [3, 4]


@folded(
    "value",
    [
        0, -1, 2.5, True, None, float("nan"), 2**31, 10**40, "", "0", "-5", "abc", "9" * 99, "uniform", "uniform()",
        "uniform(5)", "uniform(5,2)", "uniform(0,5)", "uniform(1.5,5)", "uniform(1,2,3)", "uniform(1,nan)",
        "uniform(1,inf)", "lognormal(10)", "lognormal(0.5,1)", "lognormal(10,0)", "lognormal(10,-1)",
        "lognormal(10,nan)", "lognormal(nan,1)", "lognormal(10,1,min=2)", "lognormal(10,1,max=0)",
        "lognormal(10,1,max=2.5)", "file()", "file", [], [0], [1.5], ["a"], [[1]],
    ],
)  # fmt: skip
def test_refused(value: object) -> None:
    with pytest.raises(InputError) as caught:
        lengths_named(value, "input")
    assert "\n" not in str(caught.value)


def test_nearest_name() -> None:
    with pytest.raises(InputError, match=r"input: .*nearest: lognormal"):
        lengths_named("lognorm(5,1)", "input")


# -- files ---------------------------------------------------------------------------------------------------------
def test_lengths_of_a_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("tokens\n5\n9\n")
    two.write_text("input,output\n5,1\n9,2\n")
    for text in (f"file({one})", f"file({one},tokens)", f"file({two}, input)"):
        law = lengths_named(text)
        assert isinstance(law, Empirical)
        assert law.values.tolist() == [5, 9]


@folded(
    ("content", "column", "says"),
    [
        ("a,b\n1,2\n", "", "one column, or its name"),
        ("a,b\n1,2\n", ",c", "a column that is there, got 'c'; nearest: a, b"),
        ("input,b\n1,2\n", ",inputs", "nearest: input"),
        ("a\n1\n0\n", "", "line 3"),
        ("a\n1\n1.5\n", "", "line 3"),
        ("a\nnan\n", "", "line 2"),
        ("a\n2147483648\n", "", "line 2"),
        ("a\n", "", "at least one row"),
        ("", "", "at least one row"),
    ],
)
def test_files_refused(tmp_path: Path, content: str, column: str, says: str) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=says) as caught:
        lengths_named(f"file({path}{column})")
    assert "\n" not in str(caught.value)
