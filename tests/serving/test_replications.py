"""Servers of short answers, followed in many replications: against queueing theory, and against the simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import by_day
from roofline.inference.settings import setup
from roofline.kernels.target import CALIBRATED, IDEAL, Mode
from roofline.serving.replications import (
    Drawn,
    FollowedLoad,
    Replications,
    RequestTimes,
    StepArrays,
    arrival_times,
    drawn_lengths,
)  # fmt: skip
from roofline.serving.serve import server_of
from roofline.serving.server import UNSURE, Server, answers_are_followed
from roofline.serving.simulate.policy import Policy

LLAMA, EQUAL = "meta-llama/Llama-3.1-8B", {"input_cv": 0.0, "output_cv": 0.0}


def asked_at_a_rate(model: str, given: dict[str, Any]) -> Server:
    """The server of settings."""
    where = rl.Where(on=given["on"], engine=given["engine"], layout=given["layout"])
    return server_of(setup(rl.load(model), where), rl.Load(given["input"], given["output_tokens"], rate=1))


def one_by_one(seconds: float) -> StepArrays:
    """Steps of one prompt of a token that take so long, whatever else there is."""
    none, flat = np.zeros(8), (np.arange(1.0, 3.0), np.arange(2.0), np.zeros((2, 2)))
    return StepArrays(
        np.array([0.0, *(8 * [seconds])]),
        none,
        flat,
        np.arange(2.0),
        np.zeros((8, 2)),
        np.zeros((8, 2)),
        *(4 * [0.0]),
        None,
    )


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_prompts_one_by_one_are_an_m_d_1_queue(load: float) -> None:
    """Pollaczek and Khinchine: the mean wait is ρ·S/(2(1 − ρ))."""
    shape, seconds = (200, 1, 900), 2.0
    ready = arrival_times(np.random.default_rng(1), load / seconds, shape, 1, 1)
    one = np.ones(shape)
    drawn = Drawn(one, one, np.zeros(shape, dtype=np.int64), 0 * one, ready)
    sample = FollowedLoad(drawn, ready[:, 0, 100], ready[:, 0, 850])
    run = Replications(one_by_one(seconds), Policy(1, 4, ahead=False), [sample])
    run.run()
    [seen] = run.seen()
    assert float(seen.first.mean()) == pytest.approx(seconds * (1 + load / (2 * (1 - load))), rel=0.01)
    assert not seen.after.any()


def test_requests_dealt_out_in_turn_arrive_more_evenly() -> None:
    """Gaps of one of four groups have a gamma law of shape 4; two ranks of a group take turns."""
    times = arrival_times(np.random.default_rng(2), 4.0, (50, 1, 400), 4, 1)
    gaps = np.diff(times, axis=2)
    assert (gaps.mean(), gaps.var()) == pytest.approx((1.0, 0.25), rel=0.03)
    first, second = np.moveaxis(arrival_times(np.random.default_rng(2), 4.0, (50, 2, 400), 4, 1), 1, 0)
    assert (second - first).mean() == pytest.approx(0.25, rel=0.05)
    assert (first[:, 1:] > second[:, :-1]).all()


def test_lengths_are_a_stratified_sample() -> None:
    drawn = drawn_lengths(np.random.default_rng(3), 500, 0.8, 131_072, (40, 1, 200))
    assert drawn.mean() == pytest.approx(500, rel=0.005)
    assert drawn.std() / drawn.mean() == pytest.approx(0.8, rel=0.03)
    of_some = drawn[:, 0, 26:52].mean()  # two blocks of 13 places of 40 replications
    assert of_some == pytest.approx(500, rel=0.01)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("engine", "users", "given"), [("vllm", 40, (2000, 8)), ("sglang", 5, (900, 12)), ("sglang", 64, (1000, 60))]
)
def test_users_of_short_answers_are_what_a_simulation_sees(engine: str, users: int, given: tuple[int, int]) -> None:
    """Throughput, TTFT and TPOT, within the simulation's own confidence and the sample's."""
    asked = {"on": "h100-sxm", "engine": engine, "concurrency": users, "input": given[0], "output_tokens": given[1]}
    served = rl.serve(LLAMA, **asked)
    seen = rl.simulate(LLAMA, **asked, extent=rl.Extent(requests=8000, seed=3))
    pairs = ((users / served.requests_per_second, seen.latency), (served.ttft.expected, seen.ttft))
    for expected, mean in (*pairs, (served.tpot.expected, seen.tpot)):
        assert abs(float(expected) - mean.mean) < 0.02 * mean.mean + mean.half_width


def test_prompts_of_one_rank_keep_all_waiting_as_in_a_simulation() -> None:
    """SGLang's prompts go first: TPOT, of answers that are not short."""
    given = {"on": "8xh100-sxm", "engine": "sglang", "layout": "dp=4,ep=4", "input": 1000, "output_tokens": 380}
    rate = 0.7 * float(asked_at_a_rate("Qwen/Qwen3-30B-A3B", given).fastest)
    served = rl.serve("Qwen/Qwen3-30B-A3B", rate=rate, **given)
    seen = rl.simulate("Qwen/Qwen3-30B-A3B", rate=rate, extent=rl.Extent(requests=4000, seed=1), **given)
    assert served.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.03)
    assert served.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)


@pytest.mark.parametrize(
    ("engine", "layout", "new", "out"), [("sglang", "dp=8,ep=8", 153, 125), ("trtllm", "dp=16,ep=16", 118, 1)]
)
def test_ranks_whose_every_step_has_prompts_have_times(engine: str, layout: str, new: int, out: int) -> None:
    """Ranks take turns so evenly that hardly a step is without prompts: the formula divides by no lull."""
    given = {"on": "16xb200", "engine": engine, "layout": layout, "input": new, "output_tokens": out}
    server = asked_at_a_rate("deepseek-ai/DeepSeek-V3", given)
    for load in (0.7, 0.95):
        seen = server.open_loop(load * float(server.fastest), 1).answer()
        assert 0 < float(seen.ttft) < 5
        assert 0 < float(seen.following) < 5


@pytest.mark.parametrize("users", [1, 2])
def test_users_alone_on_their_ranks_wait_for_nobody(users: int) -> None:
    """Hardly any prompt has attention to count, so that its time says nothing of the rate."""
    given = {"on": "4xh200-sxm", "engine": "vllm", "layout": "tp=2,dp=2", "input": 149, "output_tokens": 3}
    served = rl.serve("Qwen/Qwen3-Next-80B-A3B-Instruct", concurrency=users, **given)
    alone = served.ttft.expected + 2 * served.tpot.expected
    assert users / served.requests_per_second == pytest.approx(alone, rel=0.01)


@pytest.mark.parametrize(("law", "users"), [(CALIBRATED, True), (IDEAL, False)])
def test_users_by_an_ideal_law_are_the_formulas(law: Mode, users: bool) -> None:
    load = rl.Load(input=900, output_tokens=8)
    for mixes in (True, False):
        assert answers_are_followed(8, 1, load, True, drafts=False, law=law, mixes=mixes) == users
        assert answers_are_followed(8, 1, load, False, drafts=False, law=law, mixes=mixes)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("users", [2, 12])
def test_users_of_prompts_alone_are_what_a_simulation_sees(users: int) -> None:
    given = {"on": "h100-sxm", "engine": "vllm", "input": 3000, "output_tokens": 1, "concurrency": users}
    served, seen = rl.serve(LLAMA, **given), rl.simulate(LLAMA, **given, extent=rl.Extent(requests=6000, seed=3))
    assert served.percentiles.ttft.p99 == pytest.approx(seen.ttft.p99, rel=0.15)
    assert users / served.requests_per_second == pytest.approx(seen.latency.mean, rel=0.04)


def test_few_users_of_prompts_alone_queue_as_the_formula_says() -> None:
    """A prompt that finds nobody starts at once; each takes a step for itself."""
    given = {"on": "h100-sxm", "engine": "vllm", "input": 7800, "output_tokens": 1, "concurrency": 3}
    by_formula, seen = (
        rl.serve(LLAMA, **given, rounds=10**6), rl.simulate(LLAMA, **given, extent=rl.Extent(requests=6000, seed=3))
    )  # fmt: skip
    assert 3 / by_formula.requests_per_second == pytest.approx(seen.latency.mean, rel=0.06)


def test_users_beyond_all_places_wait_for_the_highest_rate() -> None:
    given = {"input": 2000, "output_tokens": 8, "on": "h100-sxm", "engine": "vllm(max_num_seqs=16)"}
    served = rl.serve(LLAMA, concurrency=np.array([64, 640]), **given)
    most = rl.serve(LLAMA, concurrency=2**20, **given).requests_per_second
    assert served.requests_per_second == pytest.approx(most, rel=1e-9)
    assert np.diff(served.latency.expected) == pytest.approx(576 / most, rel=1e-6)
    assert served.tpot.expected[0] == pytest.approx(served.tpot.expected[1], rel=1e-12)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("engine", "layout", "given"),
    [
        ("vllm", "tp=1", {"input": 2000, "output_tokens": 4, "rate": 8.0}),
        ("trtllm", "tp=1", {"input": 500, "output_tokens": 9, "rate": 20.0, **EQUAL}),
        ("sglang", "dp=2", {"input": 9000, "output_tokens": 6, "rate": 3.0, "input_cv": 0.4, "output_cv": 0.0}),
    ],
)
def test_short_answers_are_what_a_simulation_sees(engine: str, layout: str, given: dict[str, float]) -> None:
    """TTFT, TPOT and their 99th percentiles, within the simulation's own confidence and the sample's."""
    where = {"on": "h100-sxm" if layout == "tp=1" else "2xh100-sxm", "engine": engine, "layout": layout}
    served = rl.serve(LLAMA, **where, **given)
    requests = 60_000 if given["output_tokens"] < 5 else 20_000  # a p99 of TPOT scatters by 4 % in 20,000 of 4 tokens
    seen = rl.simulate(LLAMA, **where, **given, extent=rl.Extent(requests=requests, seed=3))
    for name in ("ttft", "tpot"):
        mean, expected = getattr(seen, name), float(getattr(served, name).expected)
        assert abs(expected - mean.mean) < 0.03 * mean.mean + mean.half_width
        assert getattr(served.percentiles, name).p99 == pytest.approx(mean.p99, rel=0.12)


def test_ranks_in_step_wait_for_the_slowest() -> None:
    given = {"input": 1500, "output_tokens": 4, "rate": 40.0, "on": "4xh100-sxm", "engine": "vllm", **EQUAL}
    apart, in_step = (rl.serve("Qwen/Qwen3-30B-A3B", layout=f"dp=4{ep}", **given) for ep in ("", ",ep=4"))
    seen = rl.simulate(
        "Qwen/Qwen3-30B-A3B", layout="dp=4,ep=4", **given, extent=rl.Extent(requests=by_day(2500, 8000), seed=1)
    )  # fmt: skip
    assert in_step.tpot.expected > 1.3 * apart.tpot.expected
    assert float(in_step.tpot.expected) == pytest.approx(seen.tpot.mean, rel=0.03, abs=seen.tpot.half_width)


def test_prompts_wait_for_those_of_other_ranks() -> None:
    """TensorRT-LLM's `timeout_iters`; answers that are not followed refuse it."""
    given = {"input": 800, "on": "8xb200", "layout": "dp=8,ep=8", "engine": "trtllm(timeout_iters=20)", "rate": 60.0}
    served = rl.serve("Qwen/Qwen3-30B-A3B", output_tokens=60, **given)
    seen = rl.simulate(
        "Qwen/Qwen3-30B-A3B", output_tokens=60, **given, extent=rl.Extent(requests=by_day(1500, 4000), seed=3)
    )
    for name in ("ttft", "tpot"):
        mean, expected = getattr(seen, name), float(getattr(served, name).expected)
        assert abs(expected - mean.mean) < 0.03 * mean.mean + mean.half_width
    with pytest.raises(rl.InputError, match="timeout_iters=20"):
        rl.serve("Qwen/Qwen3-30B-A3B", output_tokens=300, **given)


def test_loads_that_are_followed_at_once_are_those_followed_alone() -> None:
    """Their replications share steps, whichever load is over first."""
    shapes, seconds = ((20, 1, 60), (12, 1, 200)), 2.0
    samples = []
    for shape in shapes:
        ready = arrival_times(np.random.default_rng(shape[2]), 0.3, shape, 1, 1)
        one = np.ones(shape)
        drawn = Drawn(one, 5 * one, np.full(shape, 4), 0 * one, ready)
        samples.append(FollowedLoad(drawn, ready[:, 0, 10], ready[:, 0, shape[2] - 10]))

    def followed(*these: FollowedLoad) -> list[RequestTimes]:
        run = Replications(one_by_one(seconds), Policy(1, 4, ahead=False), these)
        run.run()
        return run.seen()

    for at_once, sample in zip(followed(*samples), samples, strict=True):
        [alone] = followed(sample)
        assert (at_once.first == alone.first).all()
        assert (at_once.after == alone.after).all()


def test_arrays_are_their_elements() -> None:
    given = {"on": "h100-sxm", "engine": "vllm", "output_tokens": 3}
    rates, prompts = np.array([2.0, 5.0]), np.array([[300], [900]])
    every = rl.serve(LLAMA, input=prompts, rate=rates, **given)
    for i in range(2):
        for j in range(2):
            one = rl.serve(LLAMA, input=int(prompts[i, 0]), rate=float(rates[j]), **given)
            assert every.ttft.expected[i, j] == pytest.approx(one.ttft.expected, rel=1e-12)
            assert every.percentiles.tpot.p99[i, j] == pytest.approx(one.percentiles.tpot.p99, rel=1e-12)


def test_a_full_server_takes_as_many_short_prompts_whoever_waits() -> None:
    many = {"on": "h200-sxm", "input": 128, "prefix": 0.5, "output_tokens": 1}
    rates = [rl.serve("meta-llama/Llama-3.1-8B", concurrency=n, **many).requests_per_second for n in (320, 512, 896)]
    assert max(rates) < (1 + UNSURE) * min(rates)  # to which replications know a rate
