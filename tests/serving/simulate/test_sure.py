"""What is told of a simulation's means and rates: no more than it knows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from roofline.serving.simulate.statistics import Means
from roofline.views.text.serving.simulate import simulation_text, times_table

LLAMA = "meta-llama/Llama-3.1-8B"


@cache
def long_answers(requests: int) -> rl.Simulation:
    """1,024 in and 2,000 out at 2.5 a second, of which 70 are in flight, each for half a minute."""
    extent = rl.Extent(requests=requests)
    answer = rl.simulate(LLAMA, on="h100-sxm", input=1024, output=2000, rate=2.5, extent=extent, **EQUAL)
    assert isinstance(answer, rl.Simulation)
    return answer


def test_throughput_is_that_of_a_server_that_has_filled_up() -> None:
    """Of an empty one it came out at 1.8 requests a second, and the cost of a token a third too high."""
    short, enough = long_answers(200), long_answers(1000)
    assert short.warmup > 2 * short.requests_per_second * short.latency.mean * 0.75
    assert short.requests_per_second == pytest.approx(2.5, rel=0.08)
    assert enough.requests_per_second == pytest.approx(2.5, rel=0.03)
    assert (short.overloaded, short.settled) == (False, False)
    assert (enough.overloaded, enough.settled) == (False, True)
    assert "too short to tell: 200 requests count, and about 70 are in flight" in simulation_text(short)
    assert "too short" not in simulation_text(enough)
    assert short.to_dict()["settled"] is False
    costs = [s.to_dict()["usd_per_million_tokens"] for s in (short, enough)]
    assert costs[0] == pytest.approx(costs[1], rel=0.09)
    assert costs[1] == pytest.approx(2.99 / 3600 / (2.5 * 2000) * 1e6, rel=0.03)


def test_a_rate_that_is_not_the_one_that_comes_is_not_told() -> None:
    """Of a thousand requests drawn by another seed 2.34 a second are done of the 2.5 that come."""
    extent = rl.Extent(requests=1000, seed=7)
    s = rl.simulate(LLAMA, on="h100-sxm", input=1024, output=2000, rate=2.5, extent=extent, **EQUAL)
    assert s.requests_per_second < 0.97 * 2.5
    assert (s.overloaded, s.settled) == (False, False)
    assert "too short to tell: 1,000 requests count" in simulation_text(s)


def test_nothing_is_plus_or_minus_where_nothing_is_left_to_chance() -> None:
    """Equal requests of users who wait: every run is this one, whatever the seed."""
    users = {"on": "h100-sxm", "input": 1024, "output": 256, "concurrency": 32, **EQUAL}
    s = rl.simulate(LLAMA, extent=rl.Extent(requests=400), **users)
    assert [d["half_width"] for d in (s.to_dict()["ttft"], s.to_dict()["tpot"], s.to_dict()["latency"])] == [None] * 3
    assert [column.name for column in times_table(s).columns] == ["", "mean", "p50", "p90", "p95", "p99"]
    assert "±" not in simulation_text(s)
    other = rl.simulate(LLAMA, extent=rl.Extent(requests=400, seed=7), **users)
    assert (other.ttft.mean, other.tpot.mean) == (s.ttft.mean, s.tpot.mean)


def test_an_interval_that_the_digits_of_the_mean_do_not_show_is_not_printed() -> None:
    """12.9 ms ± 1 µs is 12.9 ms; where no line has one, no column has."""
    s = long_answers(1000)
    near, far = (replace(s.ttft, mean=0.0129, half_width=width) for width in (1e-6, 1e-3))
    table = times_table(replace(s, ttft=near, tpot=far))
    assert [row[2] for row in table.rows[:2]] == [None, 1e-3]
    same = replace(s, ttft=near, tpot=near, latency=near)
    assert "±" not in [column.name for column in times_table(same).columns]


def test_of_equal_values_no_interval_is_told() -> None:
    """A request at a time that meets no other takes what all do, whenever it comes."""
    lone = {"on": "h100-sxm", "input": 100, "output": 5, "rate": 0.001, **EQUAL}
    s = rl.simulate(LLAMA, extent=rl.Extent(requests=200), engine="none", **lone)
    assert s.to_dict()["latency"]["half_width"] is None
    sure = rl.simulate(LLAMA, extent=rl.Extent(until=0.02), **lone)
    assert sure.requests < 512


def test_an_interval_is_of_parts_that_tell_nothing_of_the_next_ones() -> None:
    """Independent values: the known half width. A walk whose parts follow one another has none."""
    random = np.random.default_rng(5)
    independent, walk = Means(), Means()
    place = 0.0
    for value in random.normal(10.0, 2.0, 3200):
        independent.add(value)
        place += 0.1 * (value - 10.0)
        walk.add(100 + place)
    assert independent.sure == independent.half_width == pytest.approx(1.96 * 2 / np.sqrt(3200), rel=0.3)
    assert walk.half_width > 0
    assert np.isnan(walk.sure)
    assert independent.within(0.01, drawn=True)
    assert [walk.within(0.5, drawn) for drawn in (True, False)] == [False, True]
