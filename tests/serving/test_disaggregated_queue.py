"""The queues of two pools in closed form beside known answers and beside a simulation of their events."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roofline as rl
from pools_events import Plant, Run
from roofline.serving.closed_forms.disaggregated_queue import (
    Batches,
    Passage,
    Places,
    Tandem,
    balance,
    dealt,
    fullest_rank,
    of_rank,
)
from roofline.serving.closed_forms.interpolation import interpolated


def batches_of(plant: Plant, number: int = 10) -> Batches:
    sizes = np.rint(np.geomspace(1, plant.largest, number))
    return Batches(sizes, np.array([plant.batch(int(n)) for n in sizes]), np.array(1.0))


def tandem_of(plant: Plant) -> Tandem:
    sequences = np.rint(np.geomspace(1, plant.places, 24))
    seconds = np.array([plant.step(int(n)) for n in sequences])
    steps, prefills, decodes = (np.array(float(n)) for n in (plant.steps, plant.prefills, plant.decodes))
    links, transfer, before = np.array(1e6), np.array(1e-9), np.array(0.0)
    running = Places(sequences, seconds, steps, 0.0)
    return Tandem(batches_of(plant), running, prefills, decodes, links, transfer, 1, before)


def first_token(p: Passage) -> float:
    return float(p.prefill_wait + p.prefill + p.shown + p.decode_wait + p.step)


def test_a_line_through_nodes() -> None:
    nodes, values = np.array([1.0, 2.0, 4.0, 4.0]), np.array([10.0, 20.0, 60.0, 60.0])
    assert [float(interpolated(nodes, values, np.array(x))) for x in (0, 1, 1.5, 3, 4, 9)] == [10, 10, 15, 40, 60, 60]
    assert float(balance(nodes, nodes - 3)) == 3
    assert float(balance(nodes, nodes - 0.5)) == 1
    assert float(balance(nodes, nodes - 9)) == 4


def test_one_prompt_at_a_time_is_the_md1_queue() -> None:
    one = Batches(np.ones(3), np.full(3, 0.2), np.array(1.0))
    for load in (0.1, 0.5, 0.9):
        wait, prompts = one.wait(np.array(load / 0.2), np.array(1.0))
        assert wait == pytest.approx(load * 0.2 / (2 * (1 - load)))
        assert prompts == 1


def test_batches_that_cost_what_their_prompts_cost_wait_for_the_work_before_them() -> None:
    """s(n) = nΔ: the work is that of M/D/1, ρΔ/(2(1 − ρ)), of which one's own batch, (n − 1)/2, is no wait."""
    sizes = np.arange(1.0, 101)
    batches = Batches(sizes, sizes, np.array(1.0))
    for load in (0.3, 0.6, 0.8):
        wait, own = batches.wait(np.array(load), np.array(1.0))
        assert wait == pytest.approx(load / (2 * (1 - load)) - (own - 1) / 2, rel=0.05)


def test_batches_without_end_that_take_as_long_as_one() -> None:
    """M/D/∞-in-batches: n = x + e^−x, so the server works x/n of the time, and who meets it waits half a batch."""
    sizes = np.arange(1.0, 1001)
    all_at_once = Batches(sizes, np.full(1000, 0.1), np.array(1.0))
    for x in (0.2, 1.0, 3.0):
        wait, _ = all_at_once.wait(np.array(x / 0.1), np.array(1.0))
        assert wait == pytest.approx(x / (x + math.exp(-x)) * 0.05, rel=1e-3)


def test_sequences_whose_steps_do_not_slow_each_other_are_poisson() -> None:
    """Then k is Poisson of mean a = rate · steps · t, to the places and geometric beyond: Erlang C's wait, halved."""
    places, steps, second = 8, 50.0, 0.01
    running = Places(np.array([1.0, 8.0]), np.full(2, second), np.array(steps), 0.0)
    assert running.fastest == pytest.approx(places / (steps * second))
    for load in (0.3, 0.7, 0.95):
        a = load * places
        terms = [a**k / math.factorial(k) for k in range(places)]
        last = a**places / math.factorial(places) / (1 - load)
        erlang = last / (sum(terms) + last)
        wait = running.place(np.array(a / (steps * second)), np.array(1.0))
        assert wait == pytest.approx(erlang * steps * second / (places - a) / 2)


def test_sequences_that_share_one_speed_are_geometric() -> None:
    """t(k) = k·t: a processor-sharing queue of one server, whose mean time is S/(1 − ρ)."""
    sequences = np.arange(1.0, 2001)
    shared = Places(sequences, 1e-3 * sequences, np.array(100.0), 0.0)
    running = shared.running(np.array(8.0), np.array(1.0))
    assert running == pytest.approx(1 / (1 - 0.8))
    assert shared.place(np.array(8.0), np.array(1.0)) == pytest.approx(0.0, abs=1e-12)
    few = Places(sequences[:10], 1e-3 * sequences[:10], np.array(100.0), 0.0)
    assert few.place(np.array(8.0), np.array(1.0)) == pytest.approx(0.8**10 * 0.1 / (1 - 0.8) / 2)


def test_an_engine_that_schedules_ahead_waits_a_step_more() -> None:
    plain, ahead = (Places(np.array([1.0, 9.0]), np.full(2, 0.01), np.array(9.0), a) for a in (0.0, 1.0))
    busy = 1 - math.exp(-4)
    assert plain.joining(np.array(5.0), np.array(1e9)) == pytest.approx(busy * 0.005)
    assert ahead.joining(np.array(5.0), np.array(1e9)) == pytest.approx(busy * 0.015)
    assert plain.joining(np.array(1.0), np.array(1e9)) == 0
    assert plain.joining(np.array(2.0), np.array(1.0)) == pytest.approx(0.005)  # the one other is always there


PLANTS = {
    "one prompt at a time": Plant(lambda n: 0.1, 1, 1, lambda k: 0.005 + 1e-4 * k, 64, 1, 20),
    "three that prefill": Plant(lambda n: 0.1, 1, 3, lambda k: 0.005 + 1e-4 * k, 64, 2, 20),
    "batches": Plant(lambda n: 0.02 + 0.005 * n, 16, 1, lambda k: 0.01, 64, 2, 20),
    "few places": Plant(lambda n: 0.01 + 0.002 * n, 8, 1, lambda k: 0.01, 8, 1, 40),
    "slower together": Plant(lambda n: 0.005 + 0.005 * n, 8, 2, lambda k: 0.01 + 0.001 * k, 32, 2, 40),
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("load", [0.3, 0.6, 0.85])
def test_requests_at_random(name: str, load: float) -> None:
    plant = PLANTS[name]
    tandem = tandem_of(plant)
    seen = Run(plant, 10_000).go(rate=load * float(tandem.capacity), seed=4)
    p = tandem.at(np.array(seen.rate))
    assert first_token(p) == pytest.approx(seen.ttft, rel=0.15)
    assert p.step == pytest.approx(seen.tpot, rel=0.03)


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("users", [1, 2, 6, 40])
def test_requests_that_are_always_there(name: str, users: int) -> None:
    plant = PLANTS[name]
    p = tandem_of(plant).always(np.array(float(users)))
    seen = Run(replace(plant, spread=0.5), 4000).go(users=users)
    assert p.rate == pytest.approx(seen.rate, rel=0.05)
    assert first_token(p) == pytest.approx(seen.ttft, rel=0.15)
    assert p.step == pytest.approx(seen.tpot, rel=0.05)


def test_a_cache_that_travels_longer_than_its_prefill_shows_but_for_a_layer_of_it() -> None:
    plant = Plant(lambda n: 0.1 * n, 4, 1, lambda k: 0.01, 64, 1, 8)
    slow, fast = (
        replace(tandem_of(plant), links=np.array(1.0), transfer=np.array(t), layers=32).always(np.array(1.0))
        for t in (0.32, 0.032)
    )
    assert slow.shown == pytest.approx(0.1 / 32 + 0.32 - 0.1)
    assert fast.shown == pytest.approx(0.032 / 32)


def test_one_user_waits_for_nobody() -> None:
    plant = PLANTS["batches"]
    p = tandem_of(plant).always(np.array(1.0))
    assert p.rate == pytest.approx(1 / (0.025 + 20 * 0.01))
    assert [float(v) for v in (p.prefill_wait, p.decode_wait, p.prompts)] == [0, 0, 1]


def test_the_queue_of_a_closed_loop_is_bounded_by_its_users() -> None:
    """Two users of long prompts: the other one's prompt is all that one waits for."""
    plant = Plant(lambda n: 1.0, 1, 1, lambda k: 0.005, 64, 1, 2)
    p = tandem_of(plant).always(np.array(2.0))
    assert p.rate == pytest.approx(1.0)
    assert p.prefill_wait + p.decode_wait == pytest.approx(2.0 - 1.01)


def test_ranks_in_step_are_one_group_whose_fullest_decides() -> None:
    """Of 4 ranks that take n seconds of n prompts: ⌈N/4⌉ of N in all, in the mean over four N that follow."""
    numbers = np.arange(1.0, 9.0)
    every, seconds = dealt(numbers, numbers, np.array(4.0))
    assert (every[0], every[-1], seconds[0], seconds[-1]) == (1, 32, 1, 8)
    whole = np.arange(5.0, 29.0)
    fullest = interpolated(every, seconds, whole)
    assert fullest.reshape(-1, 4).mean(axis=1) == pytest.approx(np.ceil(whole / 4).reshape(-1, 4).mean(axis=1))
    assert of_rank(whole, every, 4.0) == pytest.approx(fullest)
    assert of_rank(np.array(32.0), every, 4.0) == 8
    assert of_rank(numbers, numbers, 1.0).tolist() == numbers.tolist()


@pytest.mark.parametrize(("number", "ranks"), [(0.9, 8), (5.0, 4), (40.0, 8), (40.0, 16)])
@pytest.mark.parametrize("answers", [0.16, 0.61, 1.0])
def test_the_fullest_of_ranks_that_are_dealt_requests_in_turn(number: float, ranks: int, answers: float) -> None:
    """Poisson arrivals, dealt out in turn, stay for lognormal times: the largest number on any rank, as simulated."""
    random, square = np.random.default_rng(3), np.log1p(answers)
    arrive = np.cumsum(random.exponential(1 / (number * ranks), 40_000))
    leave = arrive + np.exp(random.normal(-square / 2, square**0.5, 40_000))
    looks = random.uniform(20, arrive[-1] - 1, 400)
    there = (arrive <= looks[:, np.newaxis]) & (leave > looks[:, np.newaxis])
    fullest = np.stack([there[:, first::ranks].sum(axis=1) for first in range(ranks)]).max(axis=0).mean()
    said = fullest_rank(np.array(number), np.array(float(ranks)), answers)
    assert float(said) == pytest.approx(fullest, rel=0.08)


def test_at_a_concurrency_lengths_vary_as_in_a_simulation() -> None:
    """Means of pools are those of a simulation whose lengths have the same variation."""
    asked: dict[str, Any] = {"on": "h100-sxm", "layout": "tp=2", "prefill_layout": "tp=1"}
    load = {"input": 2000, "output_tokens": 100, "input_cv": 0.5, "output_cv": 0.5, "concurrency": 30}
    p = rl.pools("Qwen/Qwen3-8B", prefills=3, decodes=1, **load, **asked)
    several = {**asked, "prefill_layout": "tp=1,dp=3"}
    lengths = {"input": "lognormal(2000,0.5)", "output_tokens": "lognormal(100,0.5)"}
    s = rl.simulate("Qwen/Qwen3-8B", concurrency=30, requests=3000, **several, **lengths)
    assert p.ttft.expected == pytest.approx(s.ttft.mean, rel=0.03)
    assert p.tpot.expected == pytest.approx(s.tpot.mean, rel=0.03)
    assert p.requests_per_second * 100 == pytest.approx(s.tokens_per_second, rel=0.05)
