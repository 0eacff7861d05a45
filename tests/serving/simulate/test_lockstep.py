"""Replicas that share experts: they step together, as long as the slowest takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from alike import EQUAL
from folded import folded
from roofline.layout.layout import layout_named
from roofline.serving.simulate.dp_attention import join_steps, locked_steps
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.policy import Policy, Room
from roofline.serving.simulate.recorder import Objective, Recorder, Watch
from roofline.serving.simulate.replica import Replica
from roofline.serving.simulate.steps import Decodes

MOE = "Qwen/Qwen3-30B-A3B"


class Rule:
    """Steps of 0.5 s + 0.25 a prompt token + 0.125 a decode, whatever the contexts."""

    def mixed(self, chunks: Sequence[tuple[int, int]], decodes: int, context: float) -> float:
        return 0.5 + 0.25 * sum(n for _, n in chunks) + 0.125 * decodes

    def row(self, decodes: int) -> Decodes:
        seconds = 0.5 + 0.125 * decodes
        return Decodes([0.0, 1e9], [seconds, seconds], [0.0, seconds * 1e9])


def ranks(number: int, policy: Policy, room: Room) -> tuple[list[Replica], Recorder]:
    recorder = Recorder(0, inf, Objective(), start=0.0)
    times: Any = Rule()
    return [Replica(times, policy, room, Watch(recorder, i), lambda r: r.left) for i in range(number)], recorder


@folded(
    ("layout", "size"),
    [
        ("dp=8,ep=8", 8),
        ("tp=2,dp=8,ep=16", 8),
        ("tp=2,dp=8,ep=4", 2),
        ("tp=8,ep=8", 1),
        ("dp=8", 1),
        ("tp=8,dp=2", 1),
    ],
)
def test_who_shares_experts(layout: str, size: int) -> None:
    assert locked_steps(layout_named(layout)) == size


def test_two_ranks_by_hand() -> None:
    """A: 4 tokens in, 4 out, at 0. B: 8 in, 2 out, at 1.

    0 to 1.5: A's prompt, B idle. 1.5 to 4: B's prompt of 2.5 s, with it A's second token. 4 to 4.625: both decode, and
    B ends. 4.625 to 5.25: A's last token. Alone A would end at 1.5 + 3 · 0.625 = 3.375, B at 1 + 2.5 + 0.625 = 4.125.
    """
    for together, ends in ((True, (5.25, 4.625)), (False, (3.375, 4.125))):
        both, recorder = ranks(2, Policy(64, 8), Room(0.0, 0.0))
        join_steps(both, 2 if together else 1, 1)
        a, b = Request(0, 0.0, 0.0, 4, 4), Request(1, 1.0, 1.0, 8, 2)
        both[0].receive(a)
        both[1].advance(1.0)
        both[1].receive(b)
        for replica in both:
            replica.advance(inf)
        assert (a.finished, b.finished) == ends
        assert recorder.counted == 2
        assert not together or b.begun == 1.5


def late_prompt(balanced: int, other: bool) -> float:
    """When one of two ranks, which decode in steps of 0.625 s, has answered a prompt; other: the second has one too."""
    both, _ = ranks(2, Policy(64, 8), Room(0.0, 0.0))
    join_steps(both, 2, 1, balanced)
    for i, replica in enumerate(both):
        replica.receive(Request(i, 0.0, 0.0, 4, 12))
    for replica in both:
        replica.advance(2.0)
    late = Request(2, 2.0, 2.0, 4, 2)
    both[0].receive(late)
    if other:
        both[1].receive(Request(3, 2.0, 2.0, 4, 2))
    for replica in both:
        replica.advance(inf)
    return float(late.first)


@pytest.mark.parametrize(("balanced", "other", "waits"), [(2, False, 2), (3, False, 3), (2, True, 0), (9, True, 0)])
def test_a_prompt_waits_for_those_of_the_other_ranks(balanced: int, other: bool, waits: int) -> None:
    assert late_prompt(balanced, other) == pytest.approx(late_prompt(0, other) + 0.625 * waits)


def test_ranks_that_have_the_same_step_as_one() -> None:
    """Two ranks with the same requests: all times are those of each alone."""
    times = []
    for together in (True, False):
        both, _ = ranks(2, Policy(16, 4), Room(0.0, 1 / 60))
        join_steps(both, 2 if together else 1, 1)
        requests = [Request(i, t := 1.7 * (i // 2), t, 9 + i // 2 % 5, 1 + 3 * (i // 2) % 11) for i in range(40)]
        for request in requests:
            for replica in both:
                replica.advance(request.ready)
            both[request.number % 2].receive(request)
        while any(replica.present for replica in both):
            for replica in both:
                replica.advance(inf)
        times.append([(r.begun, r.first, r.finished, r.preempted) for r in requests])
    assert times[0] == [pytest.approx(t) for t in times[1]]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 3.0, 20.0]), st.integers(1, 60), st.integers(1, 30)), min_size=1),
    st.builds(
        Policy, tokens=st.integers(1, 80), running=st.integers(1, 6), mixes=st.booleans(), splits=st.booleans(),
        reserves=st.booleans(), ahead=st.booleans(),
    ),
    st.integers(2, 4),
)  # fmt: skip
def test_all_requests_are_done_and_none_sooner_than_alone(
    sent: list[tuple[float, int, int]], policy: Policy, number: int
) -> None:
    replicas, recorder = ranks(number, policy, Room(0.0, 1 / 200))
    join_steps(replicas, number, 1)
    time, requests = 0.0, []
    for i, (gap, new, out) in enumerate(sent):
        time += gap
        requests.append(Request(i, time, time, new, out))
        replica = replicas[i * i % number]
        replica.advance(time)
        replica.receive(requests[-1])
    while any(replica.present for replica in replicas):
        for replica in replicas:
            replica.advance(inf)
    assert recorder.counted == len(requests)
    assert all(r.finished >= r.begun >= r.ready for r in requests)
    for r in requests:
        assert r.finished - r.begun >= 0.5 * r.output + 0.25 * r.input - 1e-6


def test_a_layout_with_shared_experts_steps_together() -> None:
    """Prompts to one rank hold up the others' decodes: p99 of the time between tokens has a prefill in it."""
    options: dict[str, Any] = {
        "on": "8xh200-sxm", "input": 4000, "output": 200, "rate": 6.0, "extent": rl.Extent(requests=300), **EQUAL,
    }  # fmt: skip
    shared = rl.simulate("deepseek-ai/DeepSeek-V3", layout="dp=8,ep=8", **options)
    assert shared.requests == 300
    assert not shared.overloaded
    again = rl.simulate("deepseek-ai/DeepSeek-V3", layout="dp=8,ep=8", **options)
    assert again.to_dict() == shared.to_dict()
    users = rl.simulate(
        "deepseek-ai/DeepSeek-V3", layout="dp=8,ep=8", on="8xh200-sxm", input=1000, output=50, concurrency=16,
        extent=rl.Extent(requests=100),
    )  # fmt: skip
    assert users.requests == 100


@folded("users", [3, 6, 12])
def test_serve_follows_users_of_ranks_in_step(users: int) -> None:
    """Also where some ranks have one user more, so that their steps are those of all."""
    case = {"on": "4xh100-sxm", "layout": "dp=4,ep=4", "engine": "vllm", "input": 1024, "output_tokens": 64, **EQUAL}
    p = rl.serve(MOE, concurrency=users, formula=False, **case)
    extent = rl.Extent(requests=40 * users, warmup=10 * users)
    s = rl.simulate(MOE, concurrency=users, ramp=0.0, extent=extent, **case)
    assert p.requests_per_second == pytest.approx(users / s.latency.mean, rel=0.01)
    assert (p.ttft.expected, p.tpot.expected) == pytest.approx((s.ttft.mean, s.tpot.mean), rel=0.01)


@folded("users, off", [(4, 0.02), (64, 0.05), (300, 0.25)], drawn=2)
def test_prompts_that_run_apart_hold_up_the_ranks_in_step(users: int, off: float) -> None:
    """Without the others' prompts the formula had up to 42 % more requests a second than the simulation."""
    lengths = {"input": 1024, "output_tokens": 128, "input_cv": 0.4, "output_cv": 0.4}
    case = {"on": "4xh100-sxm", "layout": "dp=4,ep=4", "engine": "sglang", "concurrency": users, **lengths}
    p = rl.serve(MOE, **case)
    extent = rl.Extent(requests=max(1500, 5 * users))
    s = rl.simulate(MOE, extent=extent, **case)
    assert p.requests_per_second == pytest.approx(users / s.latency.mean, rel=off)


@folded("load", [0.1, 0.5], drawn=1)
def test_pools_whose_ranks_run_in_step(load: float) -> None:
    """A prompt waits for those of other ranks: without them its TTFT was 12 and 21 % too short."""
    case = {"on": "8xh100-sxm", "engine": "vllm", "input": 1024, "output_tokens": 128, "layout": "dp=4,ep=4", **EQUAL}
    pools = {"prefill_layout": "dp=4,ep=4", "prefills": 1, "decodes": 1}
    most = rl.serve(MOE, concurrency=4000, **pools, **case).requests_per_second
    p = rl.serve(MOE, rate=load * most, **pools, **case)
    extent = rl.Extent(requests=3000)
    s = rl.simulate(MOE, rate=load * most, prefill_layout="dp=4,ep=4", extent=extent, **case)
    assert p.ttft.expected == pytest.approx(s.ttft.mean, rel=0.07)
    assert p.tpot.expected == pytest.approx(s.tpot.mean, rel=0.02)
