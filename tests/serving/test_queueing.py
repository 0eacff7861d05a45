"""Requests that come at random, in closed form: queues whose answers are known, and the course of requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from roofline.serving.closed_forms.batches import excess, poisson_shares, spread_points, stationary
from roofline.serving.closed_forms.queueing import Open, ReplicaTimes

LOADS = np.array([0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])


def replica(plain: float, prompt: float, room: float = 1.0, *, fixed: float = 0.0, places: float = 1e6) -> ReplicaTimes:
    """Steps of `plain` seconds, `prompt` longer for each prompt and `fixed` for any; prompts and decodes share them."""
    nodes = np.array([0.0, 1.0, 2.0, places])
    alone = np.where(nodes > 0, plain, 0.0)
    prompts = np.array([1.0, max(room, 1.0)])
    mixed = alone + fixed + prompt * prompts[:, np.newaxis]
    full = np.full(4, room)
    return ReplicaTimes(nodes, alone, prompts, mixed, full, full, np.ones(()), mixed, True)


def opened(table: ReplicaTimes, rate: Any, more: float, fastest: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean TTFT and TPOT at these rates."""
    seen = Open(
        wide(table), np.asarray(rate), np.full(np.shape(rate), more), np.ones(()), np.full(np.shape(rate), fastest)
    ).answer()
    return seen.ttft, seen.tpot


def wide(table: ReplicaTimes) -> ReplicaTimes:
    """With an axis for rates."""
    names = ("decodes", "alone", "prompts", "mixed", "room", "per_step", "chunks", "partly")
    return replace(table, **{name: getattr(table, name)[..., np.newaxis] for name in names})


def test_prompts_one_at_a_time_wait_as_in_m_d_1() -> None:
    """Answers of one token: D + ρ·D / (2·(1 − ρ)), Pollaczek–Khinchine."""
    ttft, _ = opened(replica(1e-9, 0.5), LOADS / 0.5, 0.0, 2.0)
    assert ttft == pytest.approx(0.5 + LOADS * 0.5 / (2 * (1 - LOADS)), rel=1e-6)


def test_shared_steps_are_processor_sharing() -> None:
    """Prompts of no time and steps as long as there are sequences: latency S / (1 − ρ), so that TPOT is its share."""
    more, each = 400.0, 1 / 400
    nodes = np.array([0.0, *np.geomspace(1, 4096, 64)])
    none = np.zeros(65)
    table = ReplicaTimes(
        nodes, nodes * each, np.array([1.0, 1e6]), np.stack([nodes * each] * 2), none + 1e6, none + 1e6,
        np.ones(()), np.stack([nodes * each] * 2), True,
    )  # fmt: skip
    loads = LOADS[:-1]
    _, tpot = opened(table, loads, more, 1.0)
    assert more * tpot == pytest.approx(1 / (1 - loads), rel=0.01)


def test_a_step_takes_all_that_came_during_the_last_one() -> None:
    """Steps of one length and no limit: who comes waits half a step, and has its own; at low rates it finds nobody."""
    ttft, _ = opened(replica(1e-9, 0.0, 1e4, fixed=1.0), np.array([1e-4, 20.0]), 0.0, 1e5)
    assert ttft == pytest.approx([1.0, 1.5], rel=1e-3)


def _simulated_ttft(rate: float, turns: int, plain: float, prompt: float) -> float:
    """Mean TTFT where each step takes the requests that came during the last but one, and one is always under way."""
    arrivals = np.cumsum(np.random.default_rng(1).gamma(turns, 1 / (rate * turns), 20_000)).tolist()
    clock = before = waits = 0.0
    first = 0
    while first < len(arrivals) - 100:
        last = first
        while last < len(arrivals) and arrivals[last] <= before:
            last += 1
        before, clock = clock, clock + plain + prompt * (last - first)
        waits += sum(clock - arrived for arrived in arrivals[first:last])
        first = last
    return waits / first


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("turns", [1, 4, 16])
def test_requests_dealt_out_in_turn_wait_as_simulated(load: float, turns: int) -> None:
    """Even gaps leave the rest of the step under way, whose end no request can choose: only fewer of them meet.

    A formula that shrinks the whole wait by the unevenness of the gaps is up to 45 % too short here.
    """
    plain, prompt, more, rate = 0.01, 0.02, 1e5, load / 0.02
    table = wide(replace(replica(plain, prompt, 40.0), ahead=True))
    each = (np.array([rate]), np.array([more]), np.array([1 / turns]), np.array([1 / prompt]))
    ttft = float(Open(table, *each)._prompting(np.ones(1)).ttft[0])
    assert ttft == pytest.approx(_simulated_ttft(rate, turns, plain, prompt), rel=0.12)


def test_chances_of_poisson_numbers() -> None:
    """Shares add up to one and keep the mean; a chain of them has the stationary distribution that it keeps."""
    points = spread_points(np.array(40.0))
    means = np.array([0.01, 1.0, 8.0, 20.0])
    shares = poisson_shares(means, points)
    assert shares.sum(axis=1) == pytest.approx(np.ones(4))
    assert shares[:, 1:] @ points == pytest.approx(means, rel=2e-3)
    assert shares[:, 0] == pytest.approx(np.exp(-means), abs=1e-3)
    assert excess(means, np.zeros(1)) == pytest.approx(means)
    chain = poisson_shares(np.array([2.0, *(2 + 0.3 * points)]), points)
    kept = stationary(chain)
    assert kept @ chain == pytest.approx(kept, abs=1e-6)


NAMED = [
    ("openai/gpt-oss-20b", {"on": "h200-sxm"}, 2048, 1),
    ("deepseek-ai/DeepSeek-V3", {"on": "4xgb200", "tp": 4, "precision": "nvfp4"}, 100, 1),
    ("meta-llama/Llama-3.1-8B", {"on": "h100-sxm", "engine": "none"}, 128, 128),
    ("meta-llama/Llama-3.1-8B", {"on": "h100-sxm", "engine": "none"}, 8192, 1),
    ("meta-llama/Llama-3.1-8B", {"on": "h100-sxm"}, 1024, 256),
    ("Qwen/Qwen3-30B-A3B", {"on": "h100-sxm", "engine": "sglang"}, 1024, 256),
]


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("model", "place", "new", "out"), NAMED)
def test_the_formula_is_what_requests_see_that_are_followed(
    model: str, place: dict[str, Any], new: int, out: int
) -> None:
    """At loads from 0.01 to 0.9, and neither TTFT nor TPOT ever falls."""
    given = {"input": new, "output_tokens": out, **EQUAL, **place}
    apart = {**given, "output_cv": 0.01}  # of SGLang, users of equal lengths stay in step, which arrivals never do
    most = rl.serve(model, concurrency=2**20, formula=True, **apart).requests_per_second
    loads = np.array([0.01, 0.4, 0.6, 0.9])
    by_formula, followed = (rl.serve(model, rate=loads * most, formula=f, **given) for f in (True, False))
    assert by_formula.ttft.expected == pytest.approx(followed.ttft.expected, rel=0.1)
    assert by_formula.tpot.expected == pytest.approx(followed.tpot.expected, rel=0.05)
    curve = rl.serve(model, rate=np.linspace(0.01, 0.98, 50) * most, formula=True, **given)
    for values in (curve.ttft.expected, curve.tpot.expected):
        assert (values[1:] >= 0.995 * np.maximum.accumulate(values)[:-1]).all()


def test_one_rate_and_many_are_the_same() -> None:
    given = {"on": "h100-sxm", "input": 1024, "output_tokens": 64, "formula": True}
    rates = np.array([1.0, 10.0, 20.0])
    many = rl.serve("meta-llama/Llama-3.1-8B", rate=rates, **given)
    for rate, ttft, tpot in zip(rates, many.ttft.expected, many.tpot.expected, strict=True):
        one = rl.serve("meta-llama/Llama-3.1-8B", rate=float(rate), **given)
        assert (one.ttft.expected, one.tpot.expected) == pytest.approx((ttft, tpot), rel=1e-9)
