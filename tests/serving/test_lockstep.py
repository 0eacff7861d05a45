"""The course of requests from step to step, against hand-made schedules of a table of whole seconds."""

from __future__ import annotations

import numpy as np
import pytest

import roofline as rl
from roofline.serving.closed_forms.lockstep import Answers, Cohorts, Loop, StepRules, StepTable, at_random, looped

TABLE = StepTable([0.0, 1.0, 100.0], [0.0, 1.0, 1.0], [1.0, 8.0], [[3.0, 3.0, 3.0], [10.0, 10.0, 10.0]])
"""A decode step takes 1 s, one with b prompts b + 2 s, whatever decodes beside it."""


def rules(more: int, places: int = 100, tokens: int = 80, late: float = 0.0, mixes: bool = True) -> StepRules:
    """Prompts of 10 tokens; `tokens` to a step."""
    return StepRules(10, 10.0, more, late, tokens, places, mixes, True, False)


def test_one_user() -> None:
    """2 s until it is seen, 3 s of prompt, 4 steps of 1 s: a request every 9 s."""
    seen = looped(rules(4, late=2.0), TABLE, (1,))
    assert seen.number.sum() == pytest.approx(1 / 9)
    assert (seen.first == 3).all()
    assert (seen.after == 4).all()


def test_users_of_one_step_stay_together() -> None:
    """Five prompts take 7 s in one step, then 4 steps: five requests every 11 s."""
    seen = looped(rules(4), TABLE, (5,))
    assert seen.number.sum() == pytest.approx(5 / 11)
    assert (seen.first == 7).all()


def test_two_cohorts_take_turns() -> None:
    """Twelve prompts of a step that takes 80 tokens beside no decode: 8 go first, in 10 s, 4 beside their decodes, in
    6 s. After 3 more steps the first 8 are done, of whom 7 begin at once, since 4 decodes leave 76 tokens: 9.6 s with
    0.6 of the eighth. The 4 were through then; the rest of the eighth and they go next."""
    cohorts = Cohorts(rules(4), TABLE, [(0.0, 12)], True)
    cohorts.go_on(24, 40)
    seen = cohorts.answers
    assert seen.first[:2].tolist() == [10.0, 16.0]
    assert seen.ended[:2].tolist() == [19.0, 28.6]
    assert seen.number[:2].tolist() == [8, 4]


def test_places_bound_those_that_run() -> None:
    """Of six users two run at once: two every 3 + 1 + 4 = 8 s, and the others wait."""
    seen = looped(rules(4, places=2), TABLE, (6,))
    assert seen.number.sum() == pytest.approx(2 / 8)
    assert seen.mean(seen.first) == pytest.approx(4 + 2 * 8)


def test_groups_share_no_step() -> None:
    """Five users of two groups: 2 every 4 + 4 s and 3 every 5 + 4 s."""
    seen = Loop(rules(4), TABLE, 2).seen(5)
    assert seen.number.sum() == pytest.approx(2 / 8 + 3 / 9)


def test_groups_in_step_wait_for_the_fullest() -> None:
    """The prompts of two last as long as those of three beside them: all five every 5 + 4 s, also where two such pairs
    take turns in a pipeline, and of three such ranks, of which the third has no users."""
    assert Loop(rules(4), TABLE, 2, in_step=2).seen(5).number.sum() == pytest.approx(5 / 9)
    assert Loop(rules(4), TABLE, 4, in_step=2, turns=2).seen(10).number.sum() == pytest.approx(10 / 9)
    assert Loop(rules(4), TABLE, 3, in_step=3).seen(2).number.sum() == pytest.approx(2 / 7)
    assert Loop(rules(0), TABLE, 2, in_step=2).seen(5).number.sum() == pytest.approx(5 / 5)


def test_rare_requests_meet_nobody() -> None:
    seen = at_random(rules(4), TABLE, 1e-6, 1, 10, 100)
    assert seen.number.sum() == 100
    assert seen.first == pytest.approx(np.full(100, 3.0))
    assert seen.after == pytest.approx(np.full(100, 4.0))


def test_a_queue_with_a_known_answer() -> None:
    """One at a time, of 3 s, at a load of one half: the M/D/1 queue waits ρs/(2(1 − ρ)) = 1.5 s."""
    one = rules(0, places=1, tokens=10)
    seen = at_random(one, TABLE, 0.5 / 3, 1, 2000, 30000)
    assert seen.mean(seen.first) == pytest.approx(4.5, rel=0.03)


@pytest.mark.parametrize(("load", "p90", "p99"), [(0.9, 10.8, 21.9), (0.95, 22.3, 44.9), (0.97, 37.7, 75.6)])
def test_waits_at_high_loads_are_as_long_as_they_should_be(load: float, p90: float, p99: float) -> None:
    """M/D/1: the mean wait, and percentiles by its exact exponential tail: P(W > t) = C·e^(−θt), θ = ρ(e^θ − 1), in
    services, C = (1 − ρ)/(ρe^θ − 1)."""
    one = rules(0, places=1, tokens=10)
    seen = at_random(one, TABLE, load / 3, 1, 4000, 30000)
    assert seen.mean(seen.first) == pytest.approx(3 + 3 * load / 2 / (1 - load), rel=0.05)
    far = (seen.quantiles(seen.first, (0.9, 0.99)) - 3) / 3
    assert far[0] == pytest.approx(p90, rel=0.05)
    assert far[1] == pytest.approx(p99, rel=0.18)


def test_gaps_of_groups_that_take_turns_are_more_even() -> None:
    """Sums of four exponential gaps: a squared variation of a quarter; a wait of a quarter at high loads (Kingman)."""
    one = rules(0, places=1, tokens=10)
    alone, turns = (at_random(one, TABLE, 0.95 / 3, n, 4000, 30000) for n in (1, 4))
    waits = [seen.mean(seen.first) - 3 for seen in (alone, turns)]
    assert waits[1] == pytest.approx(waits[0] / 4, rel=0.15)


def test_quantiles_are_of_requests_not_rows() -> None:
    seen = Answers(np.array([1.0, 98.0, 1.0]), np.arange(3.0), np.array([5.0, 1.0, 9.0]), np.zeros(3), np.zeros(3))
    assert seen.quantiles(seen.first, (0.5, 0.98, 0.99, 1.0)).tolist() == [1.0, 1.0, 5.0, 9.0]


LLAMA, EQUAL = "meta-llama/Llama-3.1-8B", {"input_cv": 0.0, "output_cv": 0.0}
APART = [
    (700, 6, 4), (170, 1, 41), (394, 150, 6), (300, 8, 11), (300, 8, 12), (6000, 128, 33), (6000, 128, 34),
    (2500, 64, 64), (2500, 64, 65),
]  # fmt: skip


@pytest.mark.parametrize(("new", "out", "users"), APART)
def test_users_who_start_apart_form_the_cohorts_of_a_simulation(new: int, out: int, users: int) -> None:
    """Of an engine that does not keep users in step, those whose prompts share a step stay together, however long a
    round is. TTFT falls where the simulation's does: by a fifth from 11 to 12 users of 300 → 8 tokens. Cohorts of
    long prompts still grow, so that it is known to 8 %."""
    given = {"on": "h100-sxm", "engine": "vllm", "input": new, "output_tokens": out, "concurrency": users, **EQUAL}
    said = rl.serve(LLAMA, **given)
    seen = rl.simulate(LLAMA, requests=max(600, 15 * users), warmup=5 * users, **given)
    assert said.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.08)
    assert said.percentiles.ttft.p99 == pytest.approx(seen.ttft.p99, rel=0.1)
    if out > 1:
        assert said.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.03)


@pytest.mark.parametrize(("on", "new", "out", "users"), [("l40s", 3000, 100, 65), ("h100-sxm", 128, 16, 1040)])
def test_users_for_whom_no_place_is_left_wait_as_in_a_simulation(on: str, new: int, out: int, users: int) -> None:
    given = {"on": on, "engine": "vllm", "input": new, "output_tokens": out, "concurrency": users, **EQUAL}
    said, seen = rl.serve(LLAMA, **given), rl.simulate(LLAMA, requests=8 * users, warmup=4 * users, **given)
    assert said.places < users
    assert said.ttft.expected == pytest.approx(seen.ttft.mean, rel=0.02)
    assert said.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.02)
    assert said.percentiles.ttft.p99 == pytest.approx(seen.ttft.p99, rel=0.02)


def test_far_more_users_than_places_wait_longer_by_littles_law() -> None:
    given = {"on": "l40s", "engine": "vllm", "input": 3000, "output_tokens": 100, **EQUAL}
    few, many = (rl.serve(LLAMA, concurrency=n, **given) for n in (200, 20_000))
    assert many.tpot == few.tpot
    assert many.requests_per_second == pytest.approx(few.requests_per_second)
    assert many.ttft.expected - few.ttft.expected == pytest.approx(19_800 / few.requests_per_second)


def test_a_user_who_starts_late_comes_after_those_who_return() -> None:
    """One at 0 s, whose prompt takes 3 s, comes again before one at 9 s."""
    cohorts = Cohorts(rules(0, places=1), TABLE, [(0.0, 1), (9.0, 1)], True)
    cohorts.go_on(4, 40)
    assert cohorts.answers.ended.tolist() == [3.0, 6.0, 9.0, 12.0]
    assert cohorts.answers.first.max() == 3.0
