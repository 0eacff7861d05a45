"""Percentiles of the formula: the gamma distribution by hand, and what they must always keep to."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from alike import EQUAL
from folded import by_day
from roofline.serving.closed_forms.percentiles import SHARES, Tail, Varied
from roofline.serving.server import FIRST_USERS
from roofline.serving.simulate.simulate import Extent, simulate

LLAMA = "meta-llama/Llama-3.1-8B"
PARTS = tuple(Tail.FIGURES)


def varied(least: float, mean: float, variance: float) -> list[float]:
    tail = Varied(*(np.asarray(v) for v in (least, mean, variance))).tail()
    return [float(getattr(tail, part)) for part in PARTS]


def test_exponential() -> None:
    """Of k = 1 the quantiles are −ln(1 − p): the cube root is right to 1.5 %."""
    for value, share in zip(varied(2.0, 5.0, 9.0), SHARES, strict=True):
        assert value == pytest.approx(2 - 3 * log(1 - share), rel=0.015)


def test_two_stages() -> None:
    """Of k = 2: (1 + x)·e^(−x) is left beyond x."""
    for value, share in zip(varied(0.0, 2.0, 2.0), SHARES, strict=True):
        assert (1 + value) * np.exp(-value) == pytest.approx(1 - share, rel=0.02)


def test_many_stages_are_normal() -> None:
    for value, z in zip(varied(0.0, 100.0, 1.0), (0.0, 1.28155, 1.64485, 2.32635), strict=True):
        assert value == pytest.approx(100 + z, abs=0.05)


@given(least=st.floats(0, 10), added=st.floats(0, 100), variance=st.floats(0, 1e6))
def test_in_order_and_never_below_the_least(least: float, added: float, variance: float) -> None:
    values = varied(least, least + added, variance)
    assert values == sorted(values)
    assert values[0] >= least - 1e-9
    assert added or values == [least] * 4


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "none"])
def test_one_user_sees_the_mean(engine: str) -> None:
    s = rl.serve(LLAMA, input=800, output=50, concurrency=1, on="h100-sxm", engine=engine, **EQUAL)
    for name in ("ttft", "tpot", "latency"):
        for part in PARTS:
            assert getattr(getattr(s.percentiles, name), part) == pytest.approx(getattr(s, name).expected, rel=0.01)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("input", [1000, 8192, 32768])
def test_one_of_two_users_waits_for_one_prompt_at_most(input: int) -> None:
    """The other's whole prompt, and a step of decodes that was put together already and one under way. Both may see
    the same, as nothing is random."""
    alone, both = (rl.serve(LLAMA, input=input, output=2, concurrency=n, on="h100-sxm", **EQUAL) for n in (1, 2))
    most = 2 * alone.ttft.expected + 2 * alone.tpot.expected
    assert both.percentiles.ttft.p50 <= both.percentiles.ttft.p99 <= most
    assert both.percentiles.latency.p99 <= most + both.percentiles.tpot.p99 * (1 + 1e-9)


@settings(max_examples=by_day(10, 25), deadline=None)
@given(
    new=st.integers(1, 30_000), out=st.integers(1, 2000), users=st.integers(1, 500),
    engine=st.sampled_from(("vllm", "sglang", "trtllm")),
)  # fmt: skip
def test_in_order_around_the_mean(new: int, out: int, users: int, engine: str) -> None:
    s = rl.serve(LLAMA, input=new, output=out, concurrency=users, on="h200-sxm", engine=engine)
    for name in ("ttft", "tpot", "latency"):
        values = [getattr(getattr(s.percentiles, name), part) for part in PARTS]
        assert all(np.isfinite(values))
        assert values == sorted(values)
        mean = getattr(s, name).expected
        assert 0 < values[0] <= values[3]
        assert mean <= values[3] * (1 + 1e-6)
        # not where servers are followed: simulated, three users of (1, 2) have a median TTFT of 18.8 ms, a mean of 16.7
        assert values[0] <= mean * (1 + 1e-9) or out <= FIRST_USERS


def test_arrays_are_their_elements() -> None:
    users, outputs = np.array([1, 20, 400]), np.array([[1], [200]])
    given_ = {"input": 900, "on": "h100-sxm"}
    every = rl.serve(LLAMA, output=outputs, concurrency=users, **given_).percentiles
    for i, out in enumerate((1, 200)):
        for j, n in enumerate((1, 20, 400)):
            one = rl.serve(LLAMA, output=out, concurrency=n, **given_).percentiles
            for name in ("ttft", "tpot", "latency"):
                assert getattr(every, name).p99[i, j] == pytest.approx(getattr(one, name).p99, rel=1e-9)


OUT_OF_STEP = 0.01
"""Coefficient of variation of answers, too small to show in any time but as users who are in no order."""
CLOSED: list[tuple[str, int, int, int, Any]] = [
    ("vllm", 1000, 200, 16, None), ("vllm", 4000, 400, 12, None), ("trtllm", 2000, 300, 20, None),
    ("sglang", 600, 200, 24, None), ("vllm", 1000, 200, 16, rl.Speculation(0.7, 3)),
]  # fmt: skip


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("engine", "new", "out", "users", "drafts"), CLOSED)
def test_users_in_no_order(engine: str, new: int, out: int, users: int, drafts: Any) -> None:
    """p90 within 20 %, p99 within 30 %, of answers whose lengths vary enough to bring users out of step.

    A latency is compared as that of an answer of the mean length, with the TPOT that its request saw.
    """
    apart = {**EQUAL, "output_cv": OUT_OF_STEP}  # of SGLang, users of equal lengths stay in step
    where = {"on": "h100-sxm", "engine": engine, "concurrency": users, "speculation": drafts, **apart}
    rows: list[Any] = []
    lengths = {"input": new, "output": f"uniform({out // 2},{out + out // 2})"}
    extent = Extent(requests=4000, warmup=400, seed=2)
    simulate(LLAMA, **lengths, extent=extent, written=rows.append, **{**where, **EQUAL})
    first, between = (np.array([row[k] for row in rows], dtype=float) for k in (7, 8))
    told = rl.serve(LLAMA, input=new, output=out, **where).percentiles
    pairs = (told.ttft, first), (told.tpot, between), (told.latency, first + (out - 1) * between)
    for tail, seen in pairs:
        assert tail.p90 == pytest.approx(np.quantile(seen, 0.9), rel=0.2)
        assert tail.p99 == pytest.approx(np.quantile(seen, 0.99), rel=0.3)


@pytest.mark.parametrize(("engine", "load"), [("vllm", 0.4), ("sglang", 0.3), ("trtllm", 0.6)])
def test_at_random(engine: str, load: float) -> None:
    """Of the formula at a rate, against requests that are followed: p90 within 15 %, p99 within 25 %."""
    given_ = {"input": 1500, "output": 200, "on": "h100-sxm", "engine": engine, **EQUAL}
    rate = load * rl.serve(LLAMA, concurrency=2**20, **given_).requests_per_second
    about, followed = (rl.serve(LLAMA, rate=rate, formula=f, **given_).percentiles for f in (True, False))
    assert about.approximate
    assert not followed.approximate
    for name in ("ttft", "tpot", "latency"):
        assert getattr(about, name).p90 == pytest.approx(getattr(followed, name).p90, rel=0.15)
        assert getattr(about, name).p99 == pytest.approx(getattr(followed, name).p99, rel=0.25)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("engine", "new", "out", "load"),
    [("vllm", 1000, 300, {"concurrency": 40}), ("sglang", 1000, 300, {"concurrency": 16}),
     ("vllm", 4000, 300, {"concurrency": 16}), ("trtllm", 128, 32, {"concurrency": 16})],
)  # fmt: skip
def test_tpot_where_lengths_vary(engine: str, new: int, out: int, load: dict[str, Any]) -> None:
    """p99 within 7 % of a simulation of the same load, with the spread of served conversations.

    Decodes take the least of a prompt's seconds anyway, so that what it adds varies more than its length.
    """
    given_ = {"input": new, "output_tokens": out, "on": "h100-sxm", "engine": engine, **load}
    told, seen = rl.serve(LLAMA, **given_).percentiles, rl.simulate(LLAMA, requests=6000, seed=4, **given_)
    assert told.tpot.p90 == pytest.approx(seen.tpot.p90, rel=0.05)
    assert told.tpot.p99 == pytest.approx(seen.tpot.p99, rel=0.07)
