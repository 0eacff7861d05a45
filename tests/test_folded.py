"""A folded test runs every case and names each that fails."""

from __future__ import annotations

import pytest

from folded import WHOLE, CaseError, folded


def test_every_case_runs_and_every_failing_one_is_named() -> None:
    ran: list[int] = []

    @folded("number", [1, 2, pytest.param(3, id="three"), 4])
    def is_even(number: int) -> None:
        ran.append(number)
        assert number % 2 == 0, "odd"

    with pytest.raises(ExceptionGroup, match="2 of 4 cases of is_even failed") as raised:
        is_even()
    assert ran == [1, 2, 3, 4]
    lines = [str(error).splitlines()[0] for error in raised.value.exceptions]
    assert [line[:24] for line in lines] == ["[1] AssertionError: odd", "[three] AssertionError: "]
    assert all(isinstance(e, CaseError) and isinstance(e.__cause__, AssertionError) for e in raised.value.exceptions)


@folded("one, other", [(1, 2), (3, 4)], ids=["low", "high"])
def test_fixtures_stay_arguments(one: int, other: int, tmp_path: object) -> None:
    assert other == one + 1
    assert tmp_path


def test_a_case_that_skips_fails() -> None:
    @folded("number", [1])
    def skips(number: int) -> None:
        pytest.skip("not here")

    with pytest.raises(ExceptionGroup, match="1 of 1 cases"):
        skips()


@pytest.mark.parametrize(("value", "number"), [(None, 3), ("1", 20)])
def test_a_few_are_drawn_by_day_and_all_run_with_whole(
    value: str | None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WHOLE, value) if value else monkeypatch.delenv(WHOLE, raising=False)
    ran: list[int] = []

    @folded("case", range(20), drawn=3)
    def test_of_many(case: int) -> None:
        ran.append(case)

    test_of_many()
    once = list(ran)
    test_of_many()
    assert ran == 2 * once
    assert len(set(once)) == len(once) == number
