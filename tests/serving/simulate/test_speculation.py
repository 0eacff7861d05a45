"""Drafted decoding, request by request: how many steps an answer takes, and how long they are."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from alike import EQUAL
from folded import folded
from roofline.declared.errors import InputError
from roofline.inference.generate import Speculation, generate
from roofline.inference.settings import setup
from roofline.model.load import model_of
from roofline.serving.drafting import Drafting
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.policy import policy_of, room_of
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.speculation import steps_of, steps_until

LARGE, SMALL = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B"


@folded(("tokens", "steps"), [(1, 1), (2, 2), (3, 2), (4, 3), (6, 3), (7, 4), (9, 4), (10, 5)])
def test_steps_by_hand(tokens: int, steps: int) -> None:
    """Of a = 1/2 and two drafts: 0.4 accepts none, 0.6 one, 0.8 both, 0.9 three of two. So 1, 2, 3 and 3 tokens."""
    uniform = np.array([0.4, 0.6, 0.8, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert steps_until(uniform, tokens, Speculation(0.5, 2)) == steps


@pytest.mark.parametrize(("acceptance", "steps"), [(0.0, 10), (1.0, 3)])
def test_all_or_none_are_right(acceptance: float, steps: int) -> None:
    assert steps_until(np.full(10, 0.5), 10, Speculation(acceptance, 3)) == steps


def law(tokens: int, a: float, length: int) -> tuple[float, float]:
    """Mean and variance of the steps, from the law of the tokens after each: Σ P(N > n) and Σ (2n + 1)·P(N > n)."""
    each = [a**k * (1 - a) for k in range(length)] + [a**length]
    reached = {0: 1.0}
    mean = square = 0.0
    for n in range(tokens):
        left = sum(p for s, p in reached.items() if s < tokens)
        mean, square = mean + left, square + (2 * n + 1) * left
        after: dict[int, float] = {}
        for s, p in reached.items():
            for k, q in enumerate(each):
                if s < tokens:
                    after[s + 1 + k] = after.get(s + 1 + k, 0.0) + p * q
        reached = after
    return mean, square - mean * mean


@pytest.mark.parametrize(("a", "length"), [(0.7, 3), (0.3, 5)])
def test_the_law_of_the_steps(a: float, length: int) -> None:
    mean, variance = law(60, a, length)
    needed = steps_of(Speculation(a, length), 7)
    drawn = []
    for number in range(4000):
        request = Request(number, 0.0, 0.0, 10, 61)
        request.left = 60
        drawn.append(needed(request))
    assert np.mean(drawn) == pytest.approx(mean, abs=4 * sqrt(variance / len(drawn)))
    assert np.var(drawn) == pytest.approx(variance, rel=0.12)


def test_a_request_draws_the_same_whatever_comes_before() -> None:
    needed = steps_of(Speculation(0.6, 3), 1)
    requests = [Request(number, 0.0, 0.0, 10, 100) for number in range(20)]
    assert [needed(r) for r in requests] == [needed(r) for r in requests[::-1]][::-1]
    assert len({needed(r) for r in requests}) > 5


@pytest.mark.parametrize("draft", [None, SMALL])
def test_one_request_at_a_time_takes_what_generate_says(draft: str | None) -> None:
    speculation = Speculation(0.7, 3, None if draft is None else model_of(draft))
    apart = generate(LARGE, batch=1, input=1000, output=1024, speculation=speculation, on="h100-sxm")
    seen = simulate(
        LARGE, input=1000, output=1024, concurrency=1, on="h100-sxm", speculation=speculation,
        extent=Extent(requests=200, warmup=1), **EQUAL,
    )  # fmt: skip
    assert seen.tpot.mean == pytest.approx(apart.tpot.expected, rel=0.01)


def test_draft_layers_propose_on_the_ranks_of_the_model() -> None:
    """Their step is longer than a free one by three passes of one layer and the head."""
    extent = Extent(requests=20, warmup=1)
    one = {"input": 1000, "output": 256, "concurrency": 1, "on": "8xh200", "extent": extent, **EQUAL}
    name = "deepseek-ai/DeepSeek-V3"
    free, own = (simulate(name, speculation=Speculation(0.8, 3, mtp=mtp), **one) for mtp in (False, True))  # type: ignore[arg-type]
    apart = [
        generate(name, batch=1, input=1000, output=256, speculation=Speculation(0.8, 3, mtp=m), on="8xh200")
        for m in (False, True)
    ]
    assert own.tpot.mean / free.tpot.mean == pytest.approx(apart[1].tpot.expected / apart[0].tpot.expected, rel=0.01)
    assert 1.02 < own.tpot.mean / free.tpot.mean < 1.6


def test_draft_layers_that_are_not_there() -> None:
    with pytest.raises(InputError, match="draft layers of its own"):
        generate(LARGE, batch=1, input=100, output=10, speculation=Speculation(0.8, 3, mtp=True), on="h100-sxm")
    with pytest.raises(InputError, match="no draft model"):
        Speculation(0.8, 3, model_of(SMALL), mtp=True)


def test_a_draft_takes_memory() -> None:
    """Its weights, its keys and values, and the places of tokens that are proposed."""
    asked = setup(model_of(LARGE), on="h100-sxm")
    draft = model_of(SMALL)
    plain, with_draft = room_of(asked, 1, 4096), room_of(asked, 1, 4096, Drafting(asked, Speculation(0.7, 3, draft)))
    budget = asked.model.kv_bytes(1) / plain.token
    token = (asked.model.kv_bytes(1) + draft.kv_bytes(1)) / (budget - draft.weight_bytes())
    assert with_draft.token == pytest.approx(token, rel=1e-9)
    half_blocks = plain.each * budget / (budget - draft.weight_bytes())
    assert with_draft.each - 3 * token == pytest.approx(half_blocks, rel=1e-6)
    assert policy_of(asked, 1, with_draft, 4).running == min(asked.engine.most_running, asked.engine.chunk // 4)
