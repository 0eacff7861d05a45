"""Nothing is faster than the speed of light: of every span floor ≤ low ≤ expected ≤ high, whatever is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from drawn import cases, disordered
from folded import by_day
from roofline.inference.span import Span

SMALL, LATENT = "Qwen/Qwen1.5-MoE-A2.7B", "deepseek-ai/DeepSeek-V3"
ANSWERS = np.array([2, 17, 200])
USERS = np.array([[1], [3], [40], [300]])
RATES = np.array([[0.01], [0.3], [1.0]])


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("kind", "draws"), [("estimate", 20), ("generate", 6), ("serve", 6), ("pools", 6), ("train", by_day(8, 24))]
)
def test_spans_are_in_order_over_drawn_settings(kind: str, draws: int) -> None:
    """Arrays of batches, lengths and degrees, on all kinds of chips, by every law; benchmarks/arrays.py draws more."""
    looked_at = 0
    for case in cases(29, draws, [kind]):
        try:
            answer = case.together()
        except rl.InputError:
            continue
        looked_at += 1
        assert not (wrong := disordered(answer)), f"{case}: {wrong}"
    assert looked_at >= draws / 2


@pytest.mark.drawn(1)
@pytest.mark.parametrize("law", ["ideal", "calibrated"])
def test_spans_of_servers_are_in_order_at_every_load(law: str) -> None:
    """By the ideal law a lone request takes exactly the speed of light, drafted or not, followed or by the formula."""
    for engine, speculation in (("none", None), ("vllm", rl.Speculation(0.6, 4))):
        given: dict[str, Any] = {"law": law, "engine": engine, "speculation": speculation, "on": "h100-sxm"}
        sizes = {"input": np.array([9, 700, 3000]), "output": ANSWERS}
        for load in ({"concurrency": USERS}, {"concurrency": USERS, "rounds": 10}, {"rate": RATES, "formula": True}):
            assert not disordered(rl.serve(SMALL, **sizes, **given, **load)), (given, load)
        for load in ({"concurrency": 1}, {"concurrency": 7}, {"rate": 0.5}):
            answer = rl.serve(SMALL, input=50, output=8, formula=False, **given, **load)
            assert not disordered(answer), (given, load)


def test_a_prompt_alone_is_the_speed_of_light_of_a_lone_request() -> None:
    """DeepSeek-V3 in fp8 on a Gaudi 3, 30 tokens: the interval of a step with a decode beside it began below."""
    s = rl.serve(LATENT, on="gaudi-3", engine="none", precision="fp8", input=30, output=2, concurrency=1, formula=False)
    assert s.ttft.floor <= s.ttft.low <= s.ttft.expected


def test_pools_have_the_speed_of_light_of_the_sequences_that_run() -> None:
    """By the ideal law a step takes its speed of light, of as many sequences as run in the mean."""
    p = rl.pools(LATENT, on="b200", law="ideal", precision="weights=int4", input=4437, output=674, concurrency=218,
                 chips=8, prefill_layout="tp=2", decode_layout="tp=1")  # fmt: skip
    assert not disordered(p)
    assert p.tpot.floor == pytest.approx(p.tpot.expected, rel=1e-12)


def test_spans_of_ranks_in_step_are_in_order() -> None:
    """Servers and pools, whose fullest rank decides, from one request to more than run at once; by day fewer."""
    users, rates, answers = by_day((USERS[::2], RATES[1:], ANSWERS[1:]), (USERS, RATES, ANSWERS))
    given: dict[str, Any] = {"on": "16xb200", "layout": "dp=8,ep=8", "law": "ideal", "input": 900}
    for engine in by_day(("vllm",), ("none", "vllm", "sglang")):
        for load in ({"concurrency": users}, {"rate": rates, "formula": True}):
            assert not disordered(rl.serve(LATENT, engine=engine, output_tokens=answers, **given, **load))
        pools = {"prefill_layout": "dp=8,ep=8", "prefills": 1, "decodes": 1, "engine": engine}
        for number in ({"concurrency": 10 * users}, {"rate": rates}):
            answer = rl.serve(LATENT, output_tokens=answers, **given, **pools, **number)
            assert np.isfinite(answer.ttft.expected).all()
            assert not disordered(answer)


def test_what_shows_of_an_exchange_is_in_order_and_the_step_is_the_sum() -> None:
    """gpt-oss on eight H200: more of the reduction shows beside passes at the speed of light than beside slow ones."""
    e = rl.train("openai/gpt-oss-20b", batch=16, tokens=1974, on="8xh200-sxm", precision="weights=int4")
    assert not disordered(e)
    parts = e.passes + e.reduction + e.gathering + e.update + e.waiting
    assert e.time == pytest.approx(parts.expected, rel=1e-12)
    assert e.floor >= parts.floor


def test_an_interval_begins_at_the_speed_of_light_and_a_wrong_floor_stays_in_sight() -> None:
    """Clocks round; a floor that is above what is expected by more than that is not hidden."""
    span = Span(1.0, 3.0, 1.5, 5.0)
    assert span.resting_on(2.0) == Span(2.0, 3.0, 2.0, 5.0)
    assert span.resting_on(1.0) == span
    assert span.resting_on(3.0 * (1 + 1e-9)) == Span(3.0, 3.0, 3.0, 5.0)
    assert span.resting_on(3.1).floor == 3.1
    assert Span(4.0, 3.0, 3.5, 2.0).ordered() == Span(3.0, 3.0, 3.0, 3.0)
