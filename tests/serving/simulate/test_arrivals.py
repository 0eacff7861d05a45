"""When requests arrive."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.declared.numbers.spelling import seconds_named
from roofline.engines.engine import engine_named
from roofline.serving.simulate.load.arrivals import Arrivals, AtOnce, Closed, Constant, Gamma, Poisson, arrivals_named
from roofline.serving.simulate.load.lengths import Fixed, Lognormal, Uniform
from roofline.serving.simulate.load.workload import ARRAYS, Prefixes, Requests, Workload, joined


def drawn(arrivals: Arrivals, requests: int = 200_000, seed: int = 1) -> Requests:
    return next(Workload(Fixed(1), Fixed(1), arrivals).blocks(requests, seed, requests))


# -- processes -----------------------------------------------------------------------------------------------------
def test_constant_is_even() -> None:
    assert drawn(Constant(4.0), 5).arrival.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert drawn(Constant(3.0), 40_000).arrival[-1] == 39_999 / 3


def test_poisson_is_random() -> None:
    """Gaps are exponential: mean 1 / rate, as large a deviation, and P(gap > 1 / rate) = 1 / e."""
    gaps = np.diff(drawn(Poisson(2.5)).arrival)
    assert gaps.mean() == pytest.approx(0.4, rel=0.01)
    assert gaps.std() == pytest.approx(0.4, rel=0.01)
    assert (gaps > 0.4).mean() == pytest.approx(np.exp(-1), abs=0.005)


@pytest.mark.parametrize("cv", [0.2, 1.0, 3.0])
def test_gamma_has_its_burstiness(cv: float) -> None:
    """Over so many requests the mean is known to cv / √200,000; the deviation of heavy tails less well."""
    gaps = np.diff(drawn(Gamma(2.5, cv)).arrival)
    assert gaps.mean() == pytest.approx(0.4, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


def test_gamma_of_one_is_poisson() -> None:
    gaps = np.diff(drawn(Gamma(1.0, 1.0)).arrival)
    assert [(gaps > x).mean() for x in (0.5, 1, 2)] == pytest.approx(np.exp([-0.5, -1, -2]), abs=0.005)


def test_closed_leaves_times_to_the_server() -> None:
    assert np.isnan(drawn(Closed(32, 1.0, 10.0), 100).arrival).all()
    assert Closed(32).rate is None
    assert Poisson(2.5).rate == 2.5


# -- blocks --------------------------------------------------------------------------------------------------------
BURSTS = Workload(Uniform(10, 20), Lognormal(100, 0.8), Gamma(3.0, 2.0), Prefixes(5, 12))


def same(a: Requests, b: Requests) -> bool:
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ARRAYS)


@given(size=st.integers(1, 50_000), requests=st.integers(1, 40_000), seed=st.integers(0, 3))
def test_the_size_of_blocks_changes_no_byte(size: int, requests: int, seed: int) -> None:
    size = max(size, requests // 50)
    whole = next(BURSTS.blocks(requests, seed, requests))
    parts = list(BURSTS.blocks(requests, seed, size))
    assert [len(p) for p in parts[:-1]] == [size] * (len(parts) - 1)
    assert 1 <= len(parts[-1]) <= size
    assert len(whole) == requests
    assert same(joined(parts), whole)


def test_fewer_requests_are_the_first_of_more() -> None:
    long, short = (next(BURSTS.blocks(n, 7, n)) for n in (30_000, 100))
    assert same(long.at(slice(100)), short)


def test_seeds_differ() -> None:
    a, b = (next(BURSTS.blocks(100, seed)) for seed in (1, 2))
    assert not any(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ("arrival", "output"))


def test_a_law_of_one_leaves_the_others() -> None:
    other = Workload(Uniform(10, 20), Fixed(7), Gamma(3.0, 2.0), Prefixes(5, 12))
    a, b = next(BURSTS.blocks(100, 1)), next(other.blocks(100, 1))
    assert (a.arrival == b.arrival).all()
    assert (a.input == b.input).all()
    assert (a.prefix == b.prefix).all()
    assert (b.output == 7).all()


def test_without_a_number_there_is_no_end() -> None:
    assert [len(b) for b in islice(BURSTS.blocks(None, 1, 20_000), 3)] == [20_000] * 3


def test_prefixes() -> None:
    """Of 12 tokens, at the front of prompts of 10 to 20: a prompt of 10 is the front of one alone."""
    block = next(BURSTS.blocks(10_000, 1))
    assert set(block.prefix.tolist()) == {0, 1, 2, 3, 4}
    assert (block.shared == np.minimum(block.input, 12)).all()
    assert (block.kept == block.shared).all()
    assert np.bincount(block.prefix) == pytest.approx([2000] * 5, rel=0.1)
    plain = next(Workload(Fixed(5), Fixed(2), Constant(1.0)).blocks(3, 0))
    assert plain.prefix.tolist() == [-1] * 3
    assert plain.shared.tolist() == plain.kept.tolist() == [0] * 3
    assert plain.chains is None


@pytest.mark.parametrize("wrong", [{"requests": 0}, {"requests": 1, "size": 0}, {"requests": 1, "seed": -1}])
def test_blocks_refuse(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        next(BURSTS.blocks(**{"seed": 0, **wrong}))


def test_all_at_once_are_sent_at_zero_and_all_count() -> None:
    """Rates are until the last answer. By hand, without a host: a step of all prompts, then the decodes."""
    asked: dict[str, Any] = {"on": "h100-sxm", "engine": "none", "input": 64, "output_tokens": 9, "input_cv": 0.0,
                             "output_cv": 0.0}  # fmt: skip
    s = rl.simulate("openai-community/gpt2", **asked, arrivals="at-once", requests=8)
    assert (s.requests, s.warmup, s.offered, s.settled, s.overloaded) == (8, 0, None, True, False)
    prompts = rl.estimate("openai-community/gpt2", rl.prefill(8, 64), on="h100-sxm", engine="none").time
    decodes = [
        rl.estimate("openai-community/gpt2", rl.decode(8, 64 + i), on="h100-sxm", engine="none").time for i in range(8)
    ]
    assert s.latency.p99 == pytest.approx(float(prompts) + sum(map(float, decodes)), rel=0.02)
    assert s.seconds == pytest.approx(s.latency.p99)
    assert s.requests_per_second == pytest.approx(8 / s.seconds)
    assert s.tokens_per_second == pytest.approx(72 / s.seconds)
    trace = rl.simulate(
        "openai-community/gpt2", **asked, concurrency=8, requests=8, warmup=0, ramp=0.0
    )  # users who begin together, and whose run ends with their first answers
    assert trace.seconds == pytest.approx(s.seconds)
    for wrong in ({"until": 0.1}, {"warmup": 3}):
        with pytest.raises(InputError, match="arrivals at once"):
            rl.simulate("openai-community/gpt2", **asked, arrivals="at-once", **wrong)


# -- names ---------------------------------------------------------------------------------------------------------
@folded(
    ("asked", "process"),
    [
        ({"rate": 2.5}, Poisson(2.5)),
        ({"value": 2.5}, Poisson(2.5)),
        ({"value": "poisson(2.5)"}, Poisson(2.5)),
        ({"value": "poisson", "rate": 2.5}, Poisson(2.5)),
        ({"value": " Constant( 2.5 ) "}, Constant(2.5)),
        ({"value": "constant", "rate": 4}, Constant(4.0)),
        ({"value": "gamma(2.5,3)"}, Gamma(2.5, 3.0)),
        ({"value": "gamma(rate=2.5,cv=3)"}, Gamma(2.5, 3.0)),
        ({"value": "gamma(cv=3,rate=2.5)"}, Gamma(2.5, 3.0)),
        ({"value": "gamma(3)", "rate": 2.5}, Gamma(2.5, 3.0)),
        ({"value": Gamma(1.0, 2.0)}, Gamma(1.0, 2.0)),
        ({"concurrency": 32}, Closed(32)),
        ({"concurrency": 32, "think": "1s", "ramp": "500ms"}, Closed(32, 1.0, 0.5)),
        ({"concurrency": 32, "think": 2}, Closed(32, 2.0)),
        ({"value": "closed(32)"}, Closed(32)),
        ({"value": "closed(32,1s,ramp=2min)"}, Closed(32, 1.0, 120.0)),
        ({"value": Closed(3)}, Closed(3)),
        ({"value": " At-once "}, AtOnce()),
    ],
)
def test_named(asked: dict[str, Any], process: Arrivals) -> None:
    assert arrivals_named(**asked) == process


@folded(
    "asked",
    [
        {},
        {"rate": 0},
        {"rate": -1},
        {"rate": float("nan")},
        {"rate": float("inf")},
        {"rate": "2"},
        {"rate": 1e10},
        {"rate": 2.0, "concurrency": 3},
        {"value": "poisson", "concurrency": 3},
        {"value": "poisson"},
        {"value": "poisson(2)", "rate": 2.0},
        {"value": "poisson(2,3)"},
        {"value": "gamma(2)"},
        {"value": "gamma", "rate": 2.0},
        {"value": "gamma(0)", "rate": 2.0},
        {"value": "gamma(1,2,3)"},
        {"value": "gamma(2,x)"},
        {"value": "gamma(2,nan)"},
        {"value": "gamma(rate=2,rate=3,cv=1)"},
        {"value": "poisson(2"},
        {"value": ""},
        {"value": "closed(0)"},
        {"value": "closed(-1)"},
        {"value": "closed(3,1)"},
        {"value": "closed()"},
        {"value": "closed(3)", "rate": 1.0},
        {"value": Poisson(1.0), "rate": 1.0},
        {"value": True},
        {"value": [1.0]},
        {"concurrency": 0},
        {"concurrency": 2.5},
        {"concurrency": 3, "think": -1},
        {"concurrency": 3, "think": "1"},
        {"rate": 1.0, "think": "1s"},
        {"value": "at-once", "rate": 1.0},
        {"value": "at-once", "concurrency": 3},
        {"value": "at-once(3)"},
    ],
)
def test_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        arrivals_named(**asked)
    assert "\n" not in str(caught.value)


def test_nearest_name() -> None:
    with pytest.raises(InputError, match="nearest: poisson"):
        arrivals_named("poison(2)")


@folded(
    ("text", "seconds"),
    [("1s", 1.0), ("200ms", 0.2), ("1.5 s", 1.5), ("2min", 120.0), ("1h", 3600.0), ("5us", 5e-6), ("1e3ms", 1.0)],
)
def test_times(text: str, seconds: float) -> None:
    assert seconds_named("think", text) == pytest.approx(seconds, rel=1e-15)


@folded("text", ["", "s", "1", "1 day", "-1s", "1.2.3s", "1e400s", "1e12s", "nans", None, True])
def test_no_times(text: object) -> None:
    with pytest.raises(InputError, match="a time such as 1s or 200ms"):
        seconds_named("think", text)


def test_prompts_that_wait_are_prepared_beside_the_steps() -> None:
    """200 prompts sent at once: a front end that is faster than the model is no limit, a slower one is the only one."""

    def rate(seconds: float) -> float:
        engine = replace(engine_named("vllm"), request_s=seconds, request_token_s=0.0)
        s = rl.simulate(
            "meta-llama/Llama-3.1-8B", on="h100-sxm", engine=engine, input=2000, output_tokens=20, arrivals="at-once",
            requests=200, input_cv=0.0, output_cv=0.0,
        )  # fmt: skip
        return float(s.requests_per_second)

    assert rate(0.01) == pytest.approx(rate(0.0), rel=0.05)
    assert rate(0.5) == pytest.approx(2.0, rel=0.05)
