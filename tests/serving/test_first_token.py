"""Intervals of TTFT: by hand, and that they follow from load, engine and law."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.engines.engine import engine_named
from roofline.engines.first_token import Scatter, scatter
from roofline.inference.span import Span, exactly
from roofline.measured.accuracy.fitted import FILE
from roofline.serving.closed_forms.percentiles import Tail, Tails
from roofline.serving.server import LIGHTER, Serving, _steepness

LLAMA = "meta-llama/Llama-3.1-8B"
LOAD = {"input": 1024, "output_tokens": 256, "on": "h100-sxm"}


def served(**settings: Any) -> Serving:
    answer: Serving = rl.serve(LLAMA, **{**LOAD, **settings})
    return answer


def width(span: Span) -> float:
    return float(log(float(span.high) / float(span.low)))


def test_logarithms_of_independent_errors_add_as_their_squares() -> None:
    span = Span(1.0, 2.0, 2 / exp(0.3), 2 * exp(0.4)).scattered(0.3)
    assert (span.floor, span.expected) == (1.0, 2.0)
    assert span.low == pytest.approx(2 * exp(-sqrt(0.18)))
    assert span.high == pytest.approx(2 * exp(0.5))


def test_a_steeper_span_has_the_power_of_its_ends() -> None:
    span = Span(1.0, 2.0, 1.0, 3.0).steeper(2)
    assert (span.expected, span.low, span.high) == pytest.approx((2.0, 0.5, 4.5))
    assert exactly(2.0).steeper(9) == exactly(2.0)


def test_parts_scatter_in_proportion_to_their_shares() -> None:
    constants = Scatter(0.3, 0.6, {"vllm": 0.8})
    assert constants.log("vllm", 0.5, 0.0) == pytest.approx(0.4)
    assert constants.log("vllm", 0.5, 1.0) == pytest.approx(0.5)
    assert constants.log("mlx", 0.5, 1.0) == pytest.approx(0.3)
    assert constants.log("vllm", 0.5, 0.5, alike=True) == pytest.approx(0.5)
    known = tomllib.loads(FILE.read_text())
    assert set(known["first_token"]) <= set(known["tables"])
    assert all(engine_named(name).before(1000) > 0 for name in scatter().host)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_a_queue_is_steeper_than_its_steps_by_its_load(load: float) -> None:
    """M/D/1 of a step of a second: T = 1 + λ/2(1 − λ), so that d log T / d log s = 1 + λ/2(1 − λ)²/T."""

    def waits(rate: float) -> float:
        return 1 + rate / (2 * (1 - rate))

    right = 1 + load / (2 * (1 - load) ** 2) / waits(load)
    near = float(np.asarray(_steepness(waits(load), waits(load * (1 - LIGHTER)))))
    assert near == pytest.approx(right, rel=0.25)
    assert _steepness(2.0, 3.0) == 1.0


def test_an_ideal_law_has_no_interval() -> None:
    """Pools have that of the transfer between them, which no law of a chip speaks of."""
    loads = ({"concurrency": 32}, {"rate": 5.0}, {"concurrency": 8, "prefill_layout": "tp=1", "chips": 2})
    for load, far in zip(loads, (1e-12, 1e-12, 1e-3), strict=True):
        answer: Any = rl.serve(LLAMA, **{**LOAD, "on": "8xh100-sxm"}, law="ideal", **load)
        for span in (answer.ttft, answer.tpot, answer.latency):
            assert span.interval == pytest.approx((span.expected, span.expected), rel=far)


def test_kernels_alone_err_as_their_step() -> None:
    ttft = served(concurrency=8, engine="none").ttft
    assert 1 < ttft.high / ttft.expected < 1.2
    assert 0.8 < ttft.low / ttft.expected < 1


def test_a_host_nobody_knows_well_is_a_wider_interval() -> None:
    widths = [width(served(concurrency=1, engine=engine).ttft) for engine in ("none", "vllm", "trtllm", "sglang")]
    assert widths == sorted(widths)


def test_a_busy_server_is_known_less_than_an_idle_one() -> None:
    widths = [[width(getattr(served(rate=rate, formula=True), name)) for rate in (0.5, 10, 20, 22)]
              for name in ("ttft", "tpot")]  # fmt: skip
    assert all(each == sorted(each) and each[-1] > 2 * each[0] for each in widths)


def test_percentiles_have_intervals_of_the_same_kind() -> None:
    s = served(concurrency=32)
    low, high = s.percentiles.low, s.percentiles.high
    assert low is not None
    assert high is not None
    for name in Tails.FIGURES:
        for part in Tail.FIGURES:
            value, below, above = (getattr(getattr(tails, name), part) for tails in (s.percentiles, low, high))
            assert getattr(s, name).floor <= below < value < above
    assert s.to_dict()["percentiles"]["high"]["ttft"]["p99"] == high.ttft.p99
    columns = s.columns()
    assert (columns["ttft_p99_low"], columns["ttft_p99"]) == ([low.ttft.p99], [s.percentiles.ttft.p99])


def test_arrays_are_their_elements() -> None:
    users = np.array([1, 32, 600])
    every = served(concurrency=users)
    for i, n in enumerate(users.tolist()):
        one = served(concurrency=n)
        assert every.ttft.high[i] == pytest.approx(one.ttft.high)
        assert every.percentiles.high is not None
        assert one.percentiles.high is not None
        assert every.percentiles.high.ttft.p99[i] == pytest.approx(one.percentiles.high.ttft.p99)


def test_users_who_begin_together_wait_for_the_host_in_turn() -> None:
    engine = engine_named("vllm")
    one, many = (
        [served(concurrency=n, rounds=4, engine=e).ttft.expected for e in (engine, replace(engine, queues=False))]
        for n in (1, 33)
    )
    assert one[0] == one[1]
    assert many[0] - many[1] == pytest.approx(16 * engine.before(1024) / 4)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_early_first_tokens_are_those_of_prompts_that_take_the_host_less() -> None:
    """A median below the host's time of the mean prompt has an interval too, at a load where steps matter most."""
    given: dict[str, Any] = {
        "on": "8xb200",
        "engine": "sglang",
        "layout": "tp=1",
        "input": 11056,
        "output_tokens": 1114,
    }
    answer: Serving = rl.serve("Qwen/Qwen3-30B-A3B", **given, rate=1.917)
    p = answer.percentiles
    assert p.low is not None
    assert p.high is not None
    assert p.ttft.p50 < engine_named("sglang").before(11056)
    assert 0 < p.low.ttft.p50 < p.ttft.p50 < p.high.ttft.p50
