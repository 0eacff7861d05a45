"""Which machine: every row is the plan that `search` recommends for the demand."""

from __future__ import annotations

import json

import pytest

import roofline as rl
from roofline.declared.errors import InputError
from roofline.doors.cli.main import main
from roofline.whatif.machine_choice import READING_S, RENTED, WORK

MODEL = "meta-llama/Llama-3.1-8B"


def test_a_row_is_what_search_recommends_for_the_load() -> None:
    chosen = rl.machines(MODEL, users=40, on=["h100-sxm", "l40s"])
    for row in chosen.machines:
        plan = rl.search(
            MODEL, on=row.machine, chips=8, kind="aggregated", objective="cost", concurrency=40, input=1155,
            output_tokens=211, ttft=2, tpot=0.05,
        ).recommended  # fmt: skip
        assert row.plan is not None
        assert plan is not None
        assert (row.plan.layout, row.plan.replicas, row.plan.chips) == (plan.layout, plan.replicas, plan.chips)
        assert row.plan.usd_per_hour == plan.usd_per_hour
        assert row.usd_per_month == pytest.approx(730 * plan.usd_per_hour)


def test_requests_a_day_are_a_rate_of_the_busiest_hour() -> None:
    chosen = rl.machines(MODEL, requests_a_day=86_400, on="h100-sxm", peak=3)
    assert (chosen.requests_per_second, chosen.in_flight) == (3.0, None)


def test_the_cheapest_comes_first_and_its_equals_are_marked() -> None:
    rows = rl.machines(MODEL, users=40, on=["b200", "h100-sxm", "h200-sxm", "a100-sxm-80gb"]).machines
    prices = [row.plan.usd_per_hour for row in rows if row.plan is not None]
    assert prices == sorted(prices)
    most = prices[0] * (1 + rows[0].error)
    assert [row.equal for row in rows[1:]] == [price <= most for price in prices[1:]]
    assert not rows[0].equal


@pytest.mark.parametrize("work", list(WORK))
def test_a_kind_of_work_has_its_lengths(work: str) -> None:
    chosen = rl.machines(MODEL, users=4, work=work, on="h100-sxm")
    kind = WORK[work]
    assert (chosen.input, chosen.output, chosen.prefix) == (kind.input, kind.output_tokens, kind.prefix)
    other = rl.machines(MODEL, users=4, work=work, on="h100-sxm", input=500, output_tokens=50, prefix=0)
    assert (other.input, other.output, other.prefix) == (500, 50, 0)


def test_reading_speed_is_238_words_a_minute() -> None:
    assert pytest.approx(238 / 60 * 4 / 3) == 1 / READING_S
    assert rl.machines(MODEL, users=4, on="h100-sxm", reading_speed=True).tpot_limit == READING_S


def test_reading_speed_drops_no_limit_that_is_given() -> None:
    with pytest.raises(InputError, match="tpot"):
        rl.machines(MODEL, users=4, on="h100-sxm", reading_speed=True, tpot=0.02)


def test_what_cannot_serve_says_why_and_comes_last() -> None:
    *_, last = rl.machines("meta-llama/Llama-3.1-405B", users=4, on=["l4", "b200"]).machines
    assert (last.machine, last.plan, last.why) == ("l4", None, "does not fit 8 chips")


def test_a_load_that_is_given_says_how_near_its_limits_come() -> None:
    chosen = rl.machines("meta-llama/Llama-3.1-70B", users=400, on="h100-sxm", tpot=0.02)
    (row,) = chosen.machines
    assert not chosen.found
    name, least = row.why.split(" ≥ ")
    assert (name, float(least.removesuffix(" ms")) > 20) == ("TPOT", True)


def test_a_chip_without_a_link_serves_alone() -> None:
    (row,) = rl.machines(MODEL, users=1, on="m4-max", ttft=60, tpot=1).machines
    assert row.plan is not None
    assert row.plan.chips == 1


def test_users_or_requests() -> None:
    for both in ({}, {"users": 4, "requests_a_day": 1000}):
        with pytest.raises(InputError, match="users and requests_a_day"):
            rl.machines(MODEL, on="h100-sxm", **both)
    with pytest.raises(InputError, match="peak"):
        rl.machines(MODEL, on="h100-sxm", requests_a_day=1000, peak=0.5)
    with pytest.raises(InputError, match="peak"):
        rl.machines(MODEL, on="h100-sxm", users=4, peak=2)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["machines", MODEL, "--users", "8"])
    out = capsys.readouterr().out
    assert all(f" {name} " in out for name in RENTED)
    main(["machines", MODEL, "--requests-a-day", "200k", "--work", "code", "--on", "h100-sxm"])
    out = capsys.readouterr().out
    assert "code: 4.63 requests/s of 2,048 tokens in, 28 out" in out
    main(["machines", MODEL, "--users", "8", "--on", "h100-sxm", "--json"])
    assert json.loads(capsys.readouterr().out)["schema"] == "roofline.machines/1"
    with pytest.raises(SystemExit) as stop:
        main(["machines", "meta-llama/Llama-3.1-405B", "--users", "8", "--on", "l4"])
    assert stop.value.code == 1


def test_a_machine_that_refuses_a_setting_says_so_in_its_row() -> None:
    """CDNA 2 does not multiply in FP8, and no engine widens it there; what every machine refuses is an error."""
    rows = rl.machines(MODEL, users=20, on=["h100-sxm", "mi250x"], precision="fp8").machines
    assert [(row.machine, row.plan is None) for row in rows] == [("h100-sxm", False), ("mi250x", True)]
    assert rows[1].why.startswith("mi250x peak: expected a format it multiplies in (")
    assert rows[1].why.endswith("got 'fp8'")
    with pytest.raises(InputError, match=r"^mi250x peak: "):
        rl.machines(MODEL, users=20, on="mi250x", precision="fp8")
