"""Queues whose answers are known, out of the same replica and drivers that simulate a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import pytest

from roofline.engines.engine import engine_named
from roofline.serving.simulate.load.arrivals import Closed
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.policy import Policy, Room
from roofline.serving.simulate.recorder import Objective, Recorder, Settling, Watch
from roofline.serving.simulate.replica import Replica
from roofline.serving.simulate.run import run_closed, run_open
from roofline.serving.simulate.simulation import falls_behind, long_enough
from roofline.serving.simulate.steps import Decodes

ENGINE = engine_named("none")
NO_LIMIT = Room(0.0, 0.0)


@dataclass
class Clockwork:
    """Steps by a rule: `token` seconds for each prompt token, and for decodes `alone` + `each` a sequence."""

    token: float = 0.0
    alone: float = 0.0
    each: float = 0.0

    def mixed(self, chunks: Sequence[tuple[int, int]], decodes: int, context: float) -> float:
        return self.token * sum(n for _, n in chunks) + (self.alone + self.each * decodes if decodes else 0.0)

    def row(self, decodes: int) -> Decodes:
        seconds = self.alone + self.each * decodes
        return Decodes([0.0, 1e9], [seconds, seconds], [0.0, seconds * 1e9])


def replica(times: Clockwork, policy: Policy, recorder: Recorder, number: int = 0, room: Room = NO_LIMIT) -> Replica:
    return Replica(times, policy, room, Watch(recorder, number), lambda r: r.left)  # type: ignore[arg-type]


def poisson(rate: float, number: int, new: int, outs: Sequence[int], seed: int = 1) -> Iterator[Request]:
    times = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, number)).tolist()
    return (Request(i, t, t, new, out) for i, (t, out) in enumerate(zip(times, outs, strict=True)))


def open_run(
    requests: Iterator[Request], times: Clockwork, policy: Policy, warmup: int = 0, replicas: int = 1
) -> Recorder:
    recorder = Recorder(warmup, inf, Objective())
    run_open(
        requests, [replica(times, policy, recorder, i) for i in range(replicas)], recorder, "round-robin", lambda: False
    )
    return recorder


ONE_PROMPT = Policy(tokens=100, running=1000)
"""A step takes the tokens of one prompt."""


def test_prompts_one_at_a_time_wait_as_in_m_d_1(whole: bool) -> None:
    """Wait ρ·D / (2·(1 − ρ)), Pollaczek–Khinchine."""
    number, service, load = 300_000 if whole else 60_000, 0.5, 0.5
    r = open_run(poisson(load / service, number, 100, [1] * number), Clockwork(token=service / 100), ONE_PROMPT)
    wait = load * service / (2 * (1 - load))
    assert abs(r.queue.mean - wait) < r.ttft_means.half_width + 0.01 * wait
    assert r.ttft_means.half_width < (0.02 if whole else 0.05) * wait
    assert r.ttft.mean == pytest.approx(r.queue.mean + service, rel=1e-9)


@pytest.mark.parametrize("load", [0.1, 0.9, 1.1])
def test_every_wait_follows_lindley(load: float) -> None:
    """W′ = max(0, W + D − gap), request by request (Lindley 1952)."""
    number, service = 5_000, 0.5
    requests = list(poisson(load / service, number, 100, [1] * number))
    waits, wait = [], 0.0
    for one, following in zip(requests, [*requests[1:], None], strict=True):
        waits.append(wait)
        wait = max(0.0, wait + service - (following.arrival - one.arrival)) if following else 0.0
    r = open_run(iter(requests), Clockwork(token=service / 100), ONE_PROMPT)
    assert r.queue.values == pytest.approx(waits, abs=1e-6)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("load", [0.3, 0.7])
def test_answers_of_random_length_one_at_a_time_are_m_m_1(load: float, whole: bool) -> None:
    """Time in the system S / (1 − ρ). Geometric lengths of mean 500 are exponential to 0.1 %."""
    number, mean = 100_000 if whole else 20_000, 500
    outs = (np.random.default_rng(2).geometric(1 / mean, number) + 1).tolist()
    times = Clockwork(token=1e-9, alone=1.0 / mean)
    r = open_run(poisson(load, number, 1, outs), times, Policy(tokens=100, running=1))
    assert abs(r.latency.mean - 1 / (1 - load)) < r.latency_means.half_width + 0.01


@pytest.mark.drawn(1)
@pytest.mark.parametrize("outs", ["equal", "geometric"])
def test_shared_steps_are_processor_sharing(outs: str, whole: bool) -> None:
    """Steps as long as there are sequences: latency S / (1 − ρ), whatever the law of the lengths."""
    number, mean, load = 40_000 if whole else 10_000, 400, 0.6
    lengths = np.full(number, mean) if outs == "equal" else np.random.default_rng(3).geometric(1 / mean, number)
    times = Clockwork(token=1e-9, each=1.0 / mean)
    r = open_run(poisson(load, number, 1, (lengths + 1).tolist()), times, Policy(tokens=10_000, running=10_000))
    assert abs(r.latency.mean - 1 / (1 - load)) < r.latency_means.half_width + 0.01 / (1 - load)


def test_littles_law_and_conserved_work(whole: bool) -> None:
    """Requests present on average are the rate times how long each stays; a busy second does a second's work."""
    number = 50_000 if whole else 10_000
    outs = np.random.default_rng(4).integers(1, 200, number).tolist()
    times = Clockwork(token=1e-4, alone=2e-3, each=1e-4)
    r = open_run(poisson(8.0, number, 100, outs), times, Policy(tokens=4096, running=1000))
    seconds, series = r.timeline.series()
    present = (series["running"] + series["waiting"]).mean() * len(seconds) * r.timeline.width
    assert present == pytest.approx(r.latency.mean * number, rel=0.01)
    assert r.busy <= r.end - r.start


@pytest.mark.drawn(0)
def test_round_robin_over_replicas_is_less_random() -> None:
    """Every second request of a Poisson stream: gaps vary less, so that E2/D/1 waits less than M/D/1 at equal load."""
    number, service, load = 100_000, 0.5, 0.7
    times = Clockwork(token=service / 100)
    r = open_run(poisson(2 * load / service, number, 100, [1] * number), times, ONE_PROMPT, replicas=2)
    assert 0.3 < r.queue.mean / (load * service / (2 * (1 - load))) < 0.65


@pytest.mark.parametrize("users", [1, 2, 5])
def test_closed_loops_of_decodes(users: int) -> None:
    """Users whose prompts cost nothing decode together: latency is steps · (a + b·users), throughput users over it."""
    recorder = Recorder(100, 2100, Objective())
    one = replica(Clockwork(alone=0.01, each=0.001), Policy(tokens=4096, running=100), recorder)
    requests = (Request(i, 0.0, 0.0, 1, 51) for i in range(10**6))
    run_closed(requests, [one], recorder, Closed(users), ENGINE, lambda: recorder.counted >= 2000)
    step = 0.01 + 0.001 * users
    assert recorder.latency.mean == pytest.approx(50 * step, rel=1e-9)
    assert recorder.finished / (recorder.end - recorder.start) == pytest.approx(users / (50 * step), rel=0.01)


def test_one_user_who_thinks() -> None:
    """A request takes its prompt and its steps, then the user thinks."""
    recorder = Recorder(0, 50, Objective())
    one = replica(Clockwork(token=0.001, alone=0.01), Policy(tokens=64, running=8), recorder)
    requests = (Request(i, 0.0, 0.0, 100, 11) for i in range(100))
    run_closed(requests, [one], recorder, Closed(1, think=2.0), ENGINE, lambda: recorder.counted >= 50)
    assert recorder.ttft.mean == pytest.approx(0.1)
    assert recorder.latency.mean == pytest.approx(0.2)
    assert recorder.finished / (recorder.end - recorder.start) == pytest.approx(1 / 2.2, rel=0.03)


def test_memory_that_is_full_preempts_the_last_and_loses_nothing() -> None:
    """Ten tokens in all, two requests of 4 + 4: the second one is stopped, computes its tokens again, and ends."""
    recorder = Recorder(0, inf, Objective())
    one = replica(Clockwork(token=1.0, alone=1.0), Policy(tokens=64, running=8), recorder, room=Room(0.0, 0.1))
    run_open(
        iter([Request(0, 0.0, 0.0, 4, 4), Request(1, 0.0, 0.0, 4, 4)]), [one], recorder, "round-robin", lambda: False
    )
    assert recorder.counted == 2
    assert recorder.preempted == 1
    assert one.taken == pytest.approx(0.0)
    assert not one.ending


def test_a_prefix_is_computed_once() -> None:
    """The second request finds 64 of its 100 tokens; both hold them once."""
    recorder = Recorder(0, inf, Objective())
    one = replica(Clockwork(token=1.0, alone=1.0), Policy(tokens=1000, running=8), recorder, room=Room(0.0, 1e-3))
    requests = [Request(0, 0.0, 0.0, 100, 2), Request(1, 500.0, 500.0, 100, 2)]
    for request in requests:
        request.prefix, request.shared, request.kept = 7, 64, 64
    run_open(iter(requests), [one], recorder, "round-robin", lambda: False)
    assert recorder.ttft.values == [100.0, 36.0]
    assert recorder.cached == 64
    assert one.prefixes.loose == pytest.approx(0.064)
    assert one.taken == pytest.approx(0.0)


def test_the_next_turn_waits_for_the_answer() -> None:
    """A turn that is due while the one before runs is sent when that is done, and finds that in the cache."""
    recorder = Recorder(0, inf, Objective())
    one = replica(Clockwork(token=1.0, alone=1.0), Policy(tokens=1000, running=8), recorder)
    first, second = Request(0, 0.0, 0.0, 10, 5), Request(1, 1.0, 1.0, 20, 1)
    first.prefix, first.shared, first.kept = 3, 0, 15
    second.prefix, second.shared, second.kept = 3, 15, 21
    run_open(iter([first, second]), [one], recorder, "round-robin", lambda: False)
    assert first.finished == 14.0
    assert second.arrival == 14.0
    assert second.finished == 19.0


def test_memory_beside_windows_is_that_of_every_length() -> None:
    """Sequences pass their windows at different times: what is taken is the sum of what each of them holds."""
    recorder = Recorder(0, inf, Objective())
    room = Room(1e-3, 1e-4, 50.0, 2e-5)
    one = replica(Clockwork(token=0.01, alone=0.01), Policy(tokens=64, running=100), recorder, room=room)
    random = np.random.default_rng(5)
    for i in range(200):
        request = Request(i, 0.2 * i, 0.2 * i, int(random.integers(1, 90)), int(random.integers(2, 120)))
        one.advance(request.ready)
        one.receive(request)
        decoding = sum(room.held(r.input + r.output - 1 - (ends - one.decoded)) for ends, _, r in one.ending)
        filling = sum(room.held(r.computed) for r in one.filling)
        assert one.taken == pytest.approx(decoding + filling, abs=1e-12)
    assert recorder.counted > 50


# -- how long a run is ---------------------------------------------------------------------------------------------
def watched(rate: float, requests: int, seed: int) -> Recorder:
    """Prompts of a second each, one at a time, which come at random, until so many that count are done."""
    recorder = Recorder(inf, inf, Objective(), settling=Settling(requests // 10, max(requests, 1000), requests))
    stream = poisson(rate, 80 * requests, 100, [1] * (80 * requests), seed)
    run_open(stream, [replica(Clockwork(token=0.01), ONE_PROMPT, recorder)], recorder, "round-robin",
             lambda: recorder.counted >= requests)  # fmt: skip
    return recorder


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("rate", "behind"), [(0.5, False), (0.9, False), (0.95, False), (1.3, True), (20.0, True)])
def test_a_queue_that_grows_without_end_is_overloaded_and_a_busy_one_is_not(rate: float, behind: bool) -> None:
    """M/D/1 on both sides of its capacity of one request a second, by the trend of the number in flight."""
    assert [falls_behind(watched(rate, 400, seed)) for seed in range(5)] == [behind] * 5


def test_an_overload_of_a_tenth_takes_thousands_of_requests_to_tell() -> None:
    """Of 200 requests 20 more come than are served, which is 1.4 standard deviations of a Poisson number."""
    assert sum(falls_behind(watched(1.1, 200, seed)) for seed in range(6)) <= 3
    assert falls_behind(watched(1.1, 3000, 1))


def test_an_empty_server_that_fills_up_is_not_overloaded() -> None:
    """Answers of 50 s, of which 100 are in flight at 2 a second: the number rises, and then no more."""
    for warmup in (0, 30):
        recorder = Recorder(warmup, warmup + 60, Objective())
        stream = poisson(2.0, 5000, 1, [501] * 5000)
        run_open(stream, [replica(Clockwork(alone=0.1), Policy(100, 1000), recorder)], recorder, "round-robin",
                 lambda recorder=recorder: recorder.counted >= 60)  # fmt: skip
        assert not falls_behind(recorder)
        assert not long_enough(recorder, closed=False)


def test_requests_count_once_three_times_those_in_flight_have_come() -> None:
    """Little's law: 2 a second for 50 s are 100 in flight, so that the first 300 do not count."""
    recorder = Recorder(inf, inf, Objective(), settling=Settling(20, 1000, 1400))
    stream = poisson(2.0, 5000, 1, [501] * 5000)
    run_open(stream, [replica(Clockwork(alone=0.1), Policy(100, 1000), recorder)], recorder, "round-robin",
             lambda: recorder.counted >= 1400)  # fmt: skip
    assert recorder.first == pytest.approx(300, rel=0.15)
    assert recorder.last == recorder.first + 1400
    assert recorder.finished / (recorder.end - recorder.start) == pytest.approx(2.0, rel=0.05)
    assert long_enough(recorder, closed=False)


def test_users_count_from_their_third_round_on() -> None:
    recorder = Recorder(inf, inf, Objective(), settling=Settling(10, 1000, 100))
    stream = (Request(i, 0.0, 0.0, 1, 11) for i in range(5000))
    run_closed(stream, [replica(Clockwork(alone=0.1), Policy(100, 1000), recorder)], recorder, Closed(40), ENGINE,
               lambda: recorder.counted >= 100)  # fmt: skip
    assert 3 * 39 <= recorder.first <= 3 * 40
    assert not long_enough(recorder, closed=True)  # of 100 requests each user has two and a half
