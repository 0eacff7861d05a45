"""Words, tables and pictures of a simulation: the figures of the answer and nothing else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import roofline as rl
from roofline.views.plots.build import simulation_plot
from roofline.views.plots.data import Distributed
from roofline.views.text.serving.simulate import simulation_head, simulation_text, times_table

LLAMA = "meta-llama/Llama-3.1-8B"


@cache
def answer() -> rl.Simulation:
    """Two replicas, half a second of objective, one request longer than the context."""
    result = rl.simulate(
        LLAMA, on="2xh100-sxm", layout="dp=2", input="uniform(100,900)", output=50, output_cv=0, rate=12,
        arrivals="constant", extent=rl.Extent(requests=640, warmup=10, seed=3),
        objective=rl.Objective(ttft=0.5, latency=60), prefixes=rl.Prefixes(3, 64),
    )  # fmt: skip
    assert isinstance(result, rl.Simulation)
    return result


def test_the_traffic_is_said_in_words() -> None:
    assert answer().traffic == "12 requests/s (constant), input uniform(100,900), output 50, 3 prefixes of 64 tokens"
    assert simulation_head(answer()).endswith("640 requests after 10 to warm up in 53.2 s simulated, seed 3")


def test_constant_requests_come_as_long_as_they_take() -> None:
    """From request 10 to request 649, which come at i / 12 s."""
    assert answer().seconds == pytest.approx(639 / 12, rel=1e-12)


def test_the_table_has_a_line_for_each_time() -> None:
    table, s = times_table(answer()), answer()
    assert [row[0] for row in table.rows] == ["TTFT", "TPOT (request)", "TPOT (tokens)", "latency", "queue"]
    assert table.rows[0][1:] == (s.ttft.mean, s.ttft.half_width, s.ttft.p50, s.ttft.p90, s.ttft.p95, s.ttft.p99)
    assert table.rows[2][2] is None  # no interval of a mean over tokens


def test_latency_is_the_first_token_and_those_after_it() -> None:
    """Every answer has 50 tokens, so that the means add up."""
    s = answer()
    assert s.latency.mean == pytest.approx(s.ttft.mean + 49 * s.tpot.mean, rel=1e-12)


def test_the_goodput_says_what_was_asked_for() -> None:
    assert "100.0 % of requests within TTFT 500 ms, latency 60 s" in simulation_text(answer())
    assert answer().goodput == answer().requests_per_second


def test_the_course_over_time_adds_up(tmp_path: Path) -> None:
    """What runs and waits, summed over time, is the time that requests are in the server, within the steps' length."""
    trace = tmp_path / "trace.csv"
    trace.write_text("time,input,output\n" + "".join(f"{i * 0.11},500,50\n" for i in range(400)), encoding="utf-8")
    s = rl.simulate(LLAMA, on="h100-sxm", trace=trace)
    course = s.timeline
    lengths = [end - start for start, end in zip((0.0, *course.seconds), course.seconds, strict=False)]
    present = sum(n * (r + w) for n, r, w in zip(lengths, course.running, course.waiting, strict=True))
    assert s.requests == 400
    assert present == pytest.approx(400 * s.latency.mean, abs=400 * 4 * s.inter_token.p99)
    assert max(course.busy) <= 1 + 1e-9
    assert max(course.memory) <= 1 + 1e-9


def test_the_picture_has_the_answers_numbers() -> None:
    s, plot = answer(), simulation_plot(answer())
    assert plot.seconds == s.timeline.seconds
    assert [q.values for q in plot.requests] == [s.timeline.running, s.timeline.waiting]
    ttft = plot.distributions[0]
    assert (ttft.seconds[99], ttft.seconds[179], ttft.seconds[197]) == (s.ttft.p50, s.ttft.p90, s.ttft.p99)
    assert (ttft.shares[99], ttft.most, plot.fits) == (0.5, 0.5, True)
    assert Distributed("x", (1.0, 2.0)).shares == (0.5, 1.0)
