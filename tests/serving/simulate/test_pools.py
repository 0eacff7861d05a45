"""Prefill and decode in pools of their own: queues one behind the other, and caches on their way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alike import EQUAL
from folded import by_day
from roofline.declared.errors import InputError
from roofline.inference.settings import setup
from roofline.model.load import model_of
from roofline.serving.pools import pools
from roofline.serving.simulate.disaggregated import (
    Handover,
    PrefillPool,
    Travel,
    TwoPools,
    run_pools_closed,
    run_pools_open,
)
from roofline.serving.simulate.load.arrivals import Closed
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.policy import Policy, Room
from roofline.serving.simulate.recorder import Objective, Recorder, Watch
from roofline.serving.simulate.replica import Replica
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.steps import Decodes

NO_LIMIT = Room(0.0, 0.0)
SERVICE, STEP = 0.5, 0.01


@dataclass
class Clockwork:
    """Prompts take 5 ms a token, and decodes `alone` seconds however many they are."""

    token: float = SERVICE / 100
    alone: float = STEP

    def mixed(self, chunks: list[tuple[int, int]], decodes: int, context: float) -> float:
        return self.token * sum(n for _, n in chunks) + (self.alone if decodes else 0.0)

    def row(self, decodes: int) -> Decodes:
        return Decodes([0.0, 1e9], [self.alone, self.alone], [0.0, self.alone * 1e9])


@dataclass
class Courier:
    """Caches in four layers that take the same time each."""

    time: float
    layers: int = 4

    def seconds(self, tokens: int) -> float:
        return self.time


def two_pools(recorder: Recorder, travel: float, numbers: tuple[int, int] = (1, 1), room: Room = NO_LIMIT) -> TwoPools:
    rule: Any = Clockwork()
    courier: Any = Courier(travel)
    deliveries: list[tuple[float, int, Request]] = []
    prefills = []
    for _ in range(numbers[0]):
        watch = Handover(recorder, courier, deliveries)
        watch.replica = Replica(rule, Policy(100, 1000), NO_LIMIT, watch, lambda r: r.left)
        prefills.append(watch.replica)
    decodes = [
        Replica(rule, Policy(4096, 1000, caches=False), room, Watch(recorder, i), lambda r: r.left)
        for i in range(numbers[1])
    ]
    first: Any = None
    return TwoPools(first, prefills, decodes, deliveries, recorder, "round-robin")


def poisson(rate: float, number: int, out: int, seed: int = 1) -> list[Request]:
    times = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, number)).tolist()
    return [Request(i, t, t, 100, out) for i, t in enumerate(times)]


def open_run(requests: list[Request], travel: float, numbers: tuple[int, int] = (1, 1)) -> tuple[Recorder, TwoPools]:
    recorder = Recorder(0, inf, Objective())
    both = two_pools(recorder, travel, numbers)
    run_pools_open(iter(requests), both, lambda: False)
    return recorder, both


@pytest.mark.parametrize("load", [0.3, 0.9])
def test_the_first_queue_follows_lindley_and_the_second_adds_what_it_takes(load: float) -> None:
    """W′ = max(0, W + D − gap); behind it the last layer's cache, and one step."""
    requests = poisson(load / SERVICE, 3000, 1)
    waits, wait = [], 0.0
    for one, following in zip(requests, [*requests[1:], None], strict=True):
        waits.append(wait)
        wait = max(0.0, wait + SERVICE - (following.arrival - one.arrival)) if following else 0.0
    recorder, both = open_run(requests, travel=0.2)
    by_number = sorted(requests, key=lambda r: r.number)
    assert [r.queued for r in by_number] == pytest.approx(waits, abs=1e-6)
    assert [r.first - r.arrival for r in by_number] == pytest.approx(
        [w + SERVICE + 0.05 + STEP for w in waits], abs=1e-6
    )
    assert recorder.counted == 3000
    assert both.transfer.mean == pytest.approx(0.05)
    assert both.parked.mean == pytest.approx(0.0, abs=1e-9)


def test_a_link_that_is_slower_than_the_prefill() -> None:
    """Two seconds of cache from the first layer on, done after an eighth; the next cache waits for the link."""
    requests = [Request(0, 0.0, 0.0, 100, 1), Request(1, 0.0, 0.0, 100, 1)]
    open_run(requests, travel=2.0)
    assert requests[0].first == pytest.approx(0.125 + 2.0 + STEP)
    assert requests[1].first == pytest.approx(0.125 + 4.0 + STEP)


def test_all_tokens_come_from_decode_steps() -> None:
    """Ten steps for ten tokens, the first of them the first token; the third request waits for the end of a step."""
    requests = [Request(0, 0.0, 0.0, 100, 10), Request(1, 10.0, 10.0, 100, 1), Request(2, 10.0, 10.0, 100, 300)]
    _, both = open_run(requests, travel=0.0)
    assert requests[0].first == pytest.approx(SERVICE + STEP)
    assert requests[0].finished == pytest.approx(SERVICE + 10 * STEP)
    assert requests[2].finished == pytest.approx(10 + 2 * SERVICE + 300 * STEP)
    assert all(r.taken == 0.0 and not r.present for r in (*both.prefills, *both.decodes))


@pytest.mark.parametrize("travel", [0.2, 2.0])
def test_one_user_by_hand(travel: float) -> None:
    """Prefill, what the transfer adds, twenty steps, and again."""
    recorder = Recorder(1, 41, Objective())
    both = two_pools(recorder, travel)
    requests = (Request(i, 0.0, 0.0, 100, 20) for i in range(100))
    run_pools_closed(requests, both, Closed(1, think=1.0), lambda tokens: 0.0, lambda: recorder.counted >= 40)
    exposed = max(travel / 4, travel - SERVICE * 3 / 4)
    assert recorder.latency.mean == pytest.approx(SERVICE + exposed + 20 * STEP)
    assert recorder.ttft.mean == pytest.approx(SERVICE + exposed + STEP)
    assert recorder.tpot.mean == pytest.approx(STEP)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("numbers", [(1, 1), (2, 3), (3, 1)])
def test_users_are_as_many_as_littles_law_says(numbers: tuple[int, int]) -> None:
    users, number = 7, by_day(500, 1000)
    recorder = Recorder(50, 50 + number, Objective())
    both = two_pools(recorder, 0.3, numbers)
    requests = (Request(i, 0.0, 0.0, 100, 60) for i in range(10**6))
    run_pools_closed(requests, both, Closed(users), lambda tokens: 0.0, lambda: recorder.counted >= number)
    rate = recorder.finished / (recorder.end - recorder.start)
    assert rate * recorder.latency.mean == pytest.approx(users, rel=0.02)
    assert rate <= numbers[0] / SERVICE * 1.01


@pytest.mark.drawn(0)
def test_littles_law_of_an_open_stream_and_utilisation() -> None:
    requests = poisson(1.2, 20_000, 100, seed=3)
    recorder, both = open_run(requests, 0.2)
    span = recorder.end - recorder.start
    busy = both.prefills[0].watcher.busy  # type: ignore[attr-defined]
    assert busy / span == pytest.approx(1.2 * SERVICE, rel=0.02)
    seconds, series = recorder.timeline.series()
    present = (series["running"] + series["waiting"]).mean() * len(seconds) * recorder.timeline.width
    assert present == pytest.approx(sum(r.finished - r.ready for r in requests), rel=0.01)


def test_a_full_memory_makes_requests_wait_for_a_replica() -> None:
    """It holds one request at a time: the second cache is there and waits for the end of the first answer."""
    recorder = Recorder(0, inf, Objective())
    both = two_pools(recorder, 0.0, room=Room(0.0, 1 / 220))
    requests = [Request(0, 0.0, 0.0, 100, 110), Request(1, 0.0, 0.0, 100, 110)]
    run_pools_open(iter(requests), both, lambda: False)
    assert requests[0].finished == pytest.approx(SERVICE + 110 * STEP)
    assert requests[1].parked == pytest.approx(110 * STEP - SERVICE)
    assert requests[1].finished == pytest.approx(SERVICE + 220 * STEP)


def turns() -> Iterator[Request]:
    first, second = Request(0, 0.0, 0.0, 10, 5), Request(1, 0.1, 0.1, 20, 1)
    first.prefix, first.shared, first.kept = 3, 0, 15
    second.prefix, second.shared, second.kept = 3, 15, 21
    yield from (first, second)


def test_the_next_turn_is_sent_when_the_answer_is_there() -> None:
    """Its replica has kept the prompt, but not the answer, which it never saw: ten of twenty tokens are computed."""
    requests = list(turns())
    open_run(requests, 0.0)
    assert requests[0].finished == pytest.approx(10 * SERVICE / 100 + 5 * STEP)
    assert requests[1].arrival == pytest.approx(requests[0].finished)
    assert requests[1].hit == 10
    assert requests[1].finished == pytest.approx(requests[1].arrival + 10 * SERVICE / 100 + STEP)


@st.composite
def sendings(draw: st.DrawFn) -> list[Request]:
    """Requests of at most 180 tokens, some of them turns of two sessions."""
    time, all_of = 0.0, []
    for number in range(draw(st.integers(1, 20))):
        time += draw(st.sampled_from([0.0, 0.1, 3.0, 40.0]))
        request = Request(number, time, time, draw(st.integers(2, 120)), draw(st.integers(1, 60)))
        if draw(st.booleans()):
            request.prefix, request.shared = draw(st.integers(0, 1)), draw(st.integers(0, request.input))
            request.kept = request.input + request.output
        all_of.append(request)
    return all_of


@settings(max_examples=by_day(20, 60), deadline=None)
@given(
    sendings(), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.sampled_from(["round-robin", "least-loaded"]),
    st.sampled_from([0.0, 0.3, 20.0]),
)  # fmt: skip
def test_all_requests_pass_through_both_pools_once(
    requests: list[Request], prefills: int, decodes: int, closed: bool, router: str, travel: float
) -> None:
    recorder = Recorder(0, inf, Objective(), start=0.0)
    both = two_pools(recorder, travel, (prefills, decodes), Room(0.0, 1 / 200))
    both.router = router
    if closed:
        run_pools_closed(iter(requests), both, Closed(5, think=0.5), lambda tokens: 0.125, lambda: False)
    else:
        run_pools_open(iter(requests), both, lambda: False)
    assert recorder.counted == len(requests)
    for request in requests:
        assert min(request.queued, request.parked, request.travelled) >= -1e-9
        assert request.ready < request.first <= request.finished
        assert request.preempted or request.finished >= request.ready + request.output * STEP - 1e-6
    assert all(not r.present and r.taken == 0.0 and not r.joined for r in (*both.prefills, *both.decodes))


# -- real ones -----------------------------------------------------------------------------------------------------
def test_caches_are_divided_by_ranks_that_hold_parts_alone() -> None:
    """Keys and values of eight heads stand on eight ranks; a latent is on all of them, 61 layers of 576 in bfloat16."""
    llama = [setup(model_of("meta-llama/Llama-3.1-8B"), on="8xh100-sxm", layout=f"tp={n}") for n in (8, 2)]
    whole = 1000 * 32 * 2 * 8 * 128 * 2
    assert Travel(llama[0], llama[0], 50e9).cache(1000) == whole / 8
    assert Travel(llama[0], llama[1], 50e9).cache(1000) == whole / 2
    deepseek = setup(model_of("deepseek-ai/DeepSeek-V3"), on="8xh200", layout="tp=8")
    travel = Travel(deepseek, deepseek, 50e9)
    assert travel.cache(4096) == 4096 * 61 * 576 * 2
    assert travel.seconds(4096) == 4096 * 61 * 576 * 2 / 50e9


def test_one_request_at_a_time_as_pools_has_it() -> None:
    """TTFT is the prompt's time, the exposed part of the transfer and a step; TPOT that step."""
    name = "meta-llama/Llama-3.1-8B"
    asked: dict[str, Any] = {"input": 4000, "output": 64, **EQUAL}
    seen = simulate(
        name, concurrency=1, on="h100-sxm", prefill=PrefillPool("h100-sxm"), engine="none", **asked,
        extent=Extent(requests=20, warmup=1),
    )  # fmt: skip
    apart = pools(
        name, chips=2, prefill_layout="tp=1", decode_layout="tp=1", concurrency=1, on="h100-sxm", engine="none", **asked
    )
    assert seen.tpot.mean == pytest.approx(apart.tpot.expected, rel=0.01)
    assert seen.ttft.mean == pytest.approx(apart.ttft.expected, rel=0.02)
    assert seen.latency.mean == pytest.approx(apart.latency.expected, rel=0.02)
    assert seen.prefill.transfer.mean > 0
    assert seen.prefill.queue.mean == pytest.approx(0, abs=1e-9)


def test_unlike_chips_share_the_work() -> None:
    seen = simulate(
        "meta-llama/Llama-3.1-8B", input=2000, output=200, rate=4, on="2xh200", layout="dp=2",
        prefill=PrefillPool("4xh100-sxm", "tp=2,dp=2"), extent=Extent(requests=300, warmup=30),
    )  # fmt: skip
    assert seen.prefill.replicas == 2
    assert 0 < seen.prefill.utilization < 1
    assert not seen.overloaded
    assert seen.tokens_per_second_per_chip == pytest.approx(seen.tokens_per_second / 6)
    assert seen.ttft.mean < 0.5


def test_between_machines_caches_take_the_network() -> None:
    """Eight H100 are joined by one 400 Gbit/s port each: a gigabyte takes 20 ms at least, and less than twice that."""
    one = setup(model_of("meta-llama/Llama-3.1-8B"), on="h100-sxm")
    travel = Travel(one, one, None)
    tokens = 2**30 // (32 * 2 * 8 * 128 * 2)
    assert 2**30 / 50e9 <= travel.seconds(tokens) < 2 * 2**30 / 50e9


def test_a_bandwidth_is_more_than_nothing() -> None:
    with pytest.raises(InputError, match="more than 0"):
        PrefillPool("h100-sxm", bandwidth=0.0)
