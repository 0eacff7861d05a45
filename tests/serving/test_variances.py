"""Variances that percentiles at a rate rest on, against distributions that are known."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

import roofline as rl
from roofline.serving.closed_forms.percentiles import Varied, normal_quantile
from roofline.serving.closed_forms.queueing import time_left, variance_of_mean


def test_the_time_left_of_a_lognormal_step() -> None:
    """Sampled: a step is met with a probability that grows with its length, at a uniform place."""
    random, seconds, uneven = np.random.default_rng(0), 3.0, 0.25
    square = np.log1p(uneven)
    steps = seconds * np.exp(random.standard_normal(2_000_000) * np.sqrt(square) - square / 2)
    left = random.choice(steps, 500_000, p=steps / steps.sum()) * random.random(500_000)
    mean, variance, by_length = time_left(np.asarray(seconds), np.asarray(uneven))
    assert float(mean) == pytest.approx(left.mean(), rel=0.005)
    assert float(variance + by_length) == pytest.approx(left.var(), rel=0.02)
    equal = time_left(np.asarray(seconds), np.asarray(0.0))
    assert [float(x) for x in equal] == pytest.approx([1.5, 0.75, 0.0])


@pytest.mark.parametrize("number", [1, 2, 7, 40])
@pytest.mark.parametrize(("leaves", "returns"), [(0.1, 0.3), (0.5, 0.5), (0.02, 0.2)])
def test_the_mean_of_successive_steps(number: int, leaves: float, returns: float) -> None:
    """Of two states the covariances fall geometrically, so that they can be summed one by one."""
    chance = np.array([[1 - leaves, leaves], [returns, 1 - returns]])
    shares, values = np.array([returns, leaves]) / (leaves + returns), np.array([1.0, 4.0])
    one = shares @ values**2 - (shares @ values) ** 2
    apart = np.abs(np.subtract.outer(np.arange(number), np.arange(number)))
    expected = (one * (1 - leaves - returns) ** apart).sum() / number**2
    assert float(variance_of_mean(chance, shares, values, np.asarray(float(number)))) == pytest.approx(expected)


def test_quantiles_of_the_normal_distribution() -> None:
    shares = np.array([1e-9, 1e-4, 0.02, 0.075, 0.3, 0.5, 0.8, 0.925, 0.999, 1 - 1e-9])
    exact = [NormalDist().inv_cdf(float(share)) for share in shares]
    assert normal_quantile(shares) == pytest.approx(exact, abs=1e-6)


def test_what_is_never_added_leaves_the_least() -> None:
    """An exponential time in 30 % of the cases: its quantile at 0.99 is that of 1 − 0.01/0.3, and others are 0."""
    tail = Varied(*(np.asarray(x) for x in (5.0, 5.0 + 0.3, 2 * 0.3 - 0.3**2)), never=np.asarray(0.7)).tail()
    assert float(tail.p50) == 5.0
    assert float(tail.p90) == pytest.approx(5 + np.log(3), rel=0.01)
    assert float(tail.p99) == pytest.approx(5 + np.log(30), rel=0.01)


def test_a_short_answer_that_no_prompt_delays_has_the_tpot_of_a_decode_step() -> None:
    """Of 5 tokens at a third of the load most answers are undelayed; the slowest wait for several prompts."""
    given = {"on": "mi300x", "engine": "vllm", "input": 4478, "output_tokens": 5, "input_cv": 0.0, "output_cv": 0.0}
    served = rl.serve("meta-llama/Llama-3.1-8B", rate=3.4, **given)
    alone = rl.serve("meta-llama/Llama-3.1-8B", concurrency=1, **given)
    tpot = served.percentiles.tpot
    assert tpot.p50 == pytest.approx(alone.tpot.expected, rel=0.02)
    seen = rl.simulate("meta-llama/Llama-3.1-8B", rate=3.4, extent=rl.Extent(requests=4000), **given).tpot
    assert (tpot.p90, tpot.p99) == pytest.approx((seen.p90, seen.p99), rel=0.15)
