"""Users who send the next request when one is answered, with tables whose answers are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import roofline as rl
from folded import by_day, folded
from roofline.serving.closed_forms.mean_value_analysis import closed_loop, highest_rate, lasting, lesser
from roofline.serving.closed_forms.queueing import ReplicaTimes


def replica(plain: float, prompt: float, room: float = 1.0, mixes: bool = True, ahead: bool = False) -> ReplicaTimes:
    """Steps of `plain` seconds, `prompt` seconds longer for each prompt; up to 64 requests run."""
    nodes = np.array([0.0, 1.0, 2.0, 64.0])
    alone = np.where(nodes > 0, plain, 0.0)
    prompts = np.array([1.0, max(room, 1.0)])
    beside = alone if mixes else np.zeros(4)
    mixed = np.maximum(beside, plain) + prompt * prompts[:, np.newaxis]
    full = np.full(4, room)
    return ReplicaTimes(nodes, alone, prompts, mixed, full, full, np.ones(()), mixed, mixes, ahead)


@folded("mixes", [True, False])
@folded("ahead", [True, False])
@folded("late", [0.0, 0.3])
def test_one_user_meets_nobody(mixes: bool, ahead: bool, late: float) -> None:
    """A prompt of 0.01 + 0.05 s, nine steps of 0.01 s, the host's time before each."""
    rate, step, own = closed_loop(replica(0.01, 0.05, mixes=mixes, ahead=ahead), np.ones(()), np.array(9.0), late)
    assert float(rate) == pytest.approx(1 / (late + 0.06 + 0.09), rel=1e-6)
    assert float(step) == float(own) == pytest.approx(0.01, rel=1e-6)


def test_users_who_are_mostly_away_meet_few() -> None:
    """A hundred who each come once in some 100 s are a hundred alone, but for the few that meet."""
    rate, step, own = closed_loop(replica(0.01, 0.05), np.array(100.0), np.array(9.0), 100.0)
    assert float(rate) == pytest.approx(100 / 100.15, rel=1e-3)
    assert float(step) == float(own) == pytest.approx(0.01, rel=0.1)


def test_prompts_that_fill_every_step_are_all_that_a_server_takes() -> None:
    """One prompt a step and one step after it: of 64 users all steps are full, each of 0.06 s."""
    table = replica(0.01, 0.05)
    for users in (64.0, 1e6):
        assert float(closed_loop(table, np.array(users), np.ones(()), 0.0)[0]) == pytest.approx(1 / 0.06, rel=0.02)
    assert float(lasting(table, highest_rate(table, np.ones(()), 0.0, 0))) == pytest.approx(1 / 0.06, rel=0.02)


def test_a_step_under_way_keeps_who_comes_between_two() -> None:
    """Long answers of two users: steps of 0.01 s, of which who is away for 0.004 s misses the rest, and with steps put
    together one ahead another."""
    more, late = np.array(1e4), 0.004
    lone, *_ = closed_loop(replica(0.01, 0.0), np.ones(()), more, late)
    two, *_ = closed_loop(replica(0.01, 0.0), np.array(2.0), more, late)
    ahead, *_ = closed_loop(replica(0.01, 0.0, ahead=True), np.array(2.0), more, late)
    assert 2 / float(lone) == pytest.approx(2 * (late + 0.01 + 100), rel=1e-6)
    assert 2 / float(two) == pytest.approx(late + 0.006 + 0.01 + 100, rel=1e-6)
    assert 2 / float(ahead) == pytest.approx(late + 0.006 + 0.01 + 0.01 + 100, rel=1e-6)


@pytest.mark.parametrize("mixes", [True, False])
def test_short_answers_see_more_of_what_comes_right_behind_a_prompt(mixes: bool) -> None:
    """The mean over requests exceeds that over steps by the weight of short answers, where prompts run apart."""
    table = replica(0.01, 0.05, mixes=mixes)
    every, equal, own = (closed_loop(table, np.array(8.0), np.array(9.0), 0.02, weight=w) for w in (1.0, 1.0, 2.0))
    assert every == equal
    assert float(every[1]) == pytest.approx(float(every[2]), rel=1e-6)
    assert float(own[1]) == pytest.approx(float(every[1]), rel=1e-3)  # what full steps cut off depends on the answer
    assert (float(own[2]) != float(own[1])) if not mixes else (float(own[2]) >= float(own[1]))


def test_no_step_is_longer_than_one_full_of_prompts() -> None:
    """Answers of three tokens: of 64 users most wait for their prompts, each step has one, of 0.06 s."""
    _, step, _ = closed_loop(replica(0.01, 0.05), np.array(64.0), np.array(2.0), 0.0)
    assert 0.01 <= float(step) <= 0.06 * (1 + 1e-6)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("mixes", [True, False])
def test_more_users_never_get_less(mixes: bool) -> None:
    table = replica(0.01, 0.02, 4.0, mixes, True)
    each = (closed_loop(table, np.array(float(n)), np.array(7.0), 0.02)[0] for n in range(1, 100, by_day(9, 3)))
    rates = np.array([float(rate) for rate in each])
    assert (rates[1:] >= rates[:-1] * (1 - 1e-3)).all()


def test_prompts_computed_again_are_in_what_a_server_takes_at_most() -> None:
    """Each request brings half a prompt of 0.02 s more: its share of a replica's seconds is longer by 0.01 s."""
    plain = replica(0.01, 0.02)
    table = replace(plain, again=0.5)
    more = np.array(9.0)
    once, twice = (float(lasting(t, highest_rate(t, more, 0.0, 0))) for t in (plain, table))
    assert 1 / twice == pytest.approx(1 / once + 0.5 * 0.02)
    rates = [tuple(map(float, closed_loop(t, np.array(1e4), more, 0.0))) for t in (plain, table)]
    assert rates[1] == pytest.approx((twice, *(rates[0][i] * once / twice for i in (1, 2))))
    few = [tuple(map(float, closed_loop(t, np.array(2.0), more, 0.0))) for t in (plain, table)]
    assert few[0] == few[1]


def test_what_is_computed_again_is_one_sequence() -> None:
    """Four prompts share a step that takes 0.02 + 4 · 0.001 s longer: not four steps of 0.021 s."""
    plain = replica(0.01, 0.0, 8.0)
    plain = replace(plain, mixed=plain.mixed + 0.02 + 0.001 * plain.prompts[:, np.newaxis])
    rates = [float(lasting(replace(plain, again=n), np.ones(()))) for n in (0.0, 0.5, 4.0, 16.0)]
    assert 1 / np.array(rates) - 1 == pytest.approx([0.0, 0.5 * 0.021, 0.024, 2 * 0.028])


SPIKES = [
    ("Qwen/Qwen3-32B", "h20", 512, 128, range(56, 73, 2)),
    ("Qwen/Qwen2.5-0.5B", "l40s", 512, 128, range(240, 257, 2)),
]


@pytest.mark.parametrize(("model", "chip", "new", "out", "users"), SPIKES)
def test_a_larger_batch_that_is_slower_keeps_nobody_waiting(
    model: str, chip: str, new: int, out: int, users: range
) -> None:
    """A step of few decodes more may take longer by a tile: TTFT has no spike where a smaller batch would be faster."""
    s = rl.serve(model, on=chip, input=new, output_tokens=out, concurrency=np.array(users))
    ttft, tpot = s.ttft.expected, s.tpot.expected
    assert (ttft[1:] > 0.995 * ttft[:-1]).all()
    assert (ttft[1:] < 1.1 * ttft[:-1]).all()
    assert (tpot[1:] > 0.995 * tpot[:-1]).all()


def test_users_beyond_the_places_wait_and_no_ttft_is_negative() -> None:
    """654 places of an engine that runs prompts first: requests that end together begin together."""
    users = np.array([400, 654, 685, 800])
    nearly = {"input_cv": 0.06, "output_cv": 0.06}  # equally long ones would stay in step
    given = {"on": "h100-sxm", "engine": "sglang", "input": 137, "output_tokens": 60, **nearly}
    s = rl.serve("Qwen/Qwen3-30B-A3B", concurrency=users, **given)
    assert (np.diff(s.ttft.expected) > 0).all()
    assert s.requests_per_second == pytest.approx([79, 105, 105, 105], rel=0.05)  # of such a table followed one by one


def test_the_lesser_of_a_random_number_and_a_limit() -> None:
    """As the mean of drawn ones; one that does not vary is cut off at the limit."""
    drawn = 3 * np.exp(np.random.default_rng(2).normal(-0.3, 0.6**0.5, 200_000))
    for limit in (0.5, 2.0, 3.0, 12.0):
        mean = lesser(np.array(3.0), np.array(limit), np.array(0.6))
        assert float(mean) == pytest.approx(np.minimum(drawn, limit).mean(), rel=5e-3)
        assert float(lesser(np.array(3.0), np.array(limit), np.zeros(()))) == pytest.approx(min(3.0, limit), rel=1e-3)


@pytest.mark.parametrize(
    ("model", "on", "engine", "new", "out"),
    [("openai/gpt-oss-20b", "b200", "vllm", 13735, 19), ("Qwen/Qwen3-30B-A3B", "h200-sxm", "trtllm", 16802, 30)],
)  # fmt: skip
def test_steps_grow_with_users_until_all_are_full(model: str, on: str, engine: str, new: int, out: int) -> None:
    """Where steps fill with prompts, short answers meet as many as long ones: TPOT fell by 1 to 3 % there."""
    users = np.array([8, 13, 21, 34, 55, 89, 144, 377])
    s = rl.serve(model, on=on, engine=engine, input=new, output_tokens=out, concurrency=users)
    tpot = np.asarray(s.tpot.expected)
    assert (tpot[1:] > 0.999 * tpot[:-1]).all()
