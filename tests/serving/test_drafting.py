"""The law of the steps in which drafted answers come, and a server that drafts, in closed form."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from alike import EQUAL
from folded import by_day
from roofline.declared.errors import InputError
from roofline.inference.generate import Speculation
from roofline.serving.drafting import QUANTILES, SUMMED, expected_steps, step_quantiles, yields
from roofline.serving.serve import serve

LARGE, SMALL = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B"


def law(a: Fraction, length: int, tokens: int) -> dict[int, Fraction]:
    """P(N = n), by what the first step yields."""

    @cache
    def of(left: int) -> dict[int, Fraction]:
        if left <= 0:
            return {0: Fraction(1)}
        steps: dict[int, Fraction] = {}
        for accepted in range(length + 1):
            chance = a**accepted * (1 - a if accepted < length else 1)
            for n, p in of(left - accepted - 1).items():
                steps[n + 1] = steps.get(n + 1, Fraction(0)) + chance * p
        return steps

    return of(tokens)


def test_steps_by_hand() -> None:
    """Of a = 1/2 and one draft: a token takes one step; two take 1.5; three 1 + (m(2) + m(1)) / 2 = 2.25."""
    s = Speculation(0.5, 1)
    assert yields(s).tolist() == [0.5, 0.5]
    assert [expected_steps(s, n) for n in range(5)] == [0, 1, 1.5, 2.25, 2.875]
    assert expected_steps(s, np.array([2, 3])).tolist() == [1.5, 2.25]


@pytest.mark.parametrize(("a", "length"), [("1/3", 2), ("7/10", 3), ("9/10", 5)])
def test_mean_and_quantiles(a: str, length: int) -> None:
    chance, tokens = Fraction(a), 40
    chances, s = law(chance, length, tokens), Speculation(float(chance), length)
    assert sum(chances.values()) == 1
    mean = sum(n * p for n, p in chances.items())
    assert expected_steps(s, tokens) == pytest.approx(float(mean), rel=1e-12)
    drawn = step_quantiles(s.acceptance, s.length, tokens)
    assert drawn.mean() == pytest.approx(float(mean), abs=0.01)
    for n in chances:
        below = float(sum(p for m, p in chances.items() if m <= n))
        assert abs((drawn <= n).mean() - below) <= 0.5 / QUANTILES + 1e-9


@given(a=st.floats(0, 1), length=st.integers(1, 8), tokens=st.integers(0, 300))
def test_between_all_and_one(a: float, length: int, tokens: int) -> None:
    """No fewer steps than if all drafts were right nor than tokens over the mean yield, no more than tokens."""
    s = Speculation(a, length)
    steps = expected_steps(s, tokens)
    assert -(-tokens // (length + 1)) - 1e-6 <= steps <= tokens + 1e-6
    assert tokens / s.tokens_per_step - 1e-6 <= steps <= (tokens + length) / s.tokens_per_step + 1e-6


@pytest.mark.parametrize(("a", "length"), [(0.7, 3), (0.2, 1), (1.0, 3), (0.0, 2)])
def test_long_answers(a: float, length: int) -> None:
    """What is beyond the sums goes on from them, and so do the quantiles."""
    s = Speculation(a, length)
    added = expected_steps(s, SUMMED + length + 1) - expected_steps(s, SUMMED)
    assert added == pytest.approx((length + 1) / s.tokens_per_step, abs=1e-6)
    near, far = (step_quantiles(a, length, n) for n in (SUMMED, SUMMED + 1))
    assert far.mean() == pytest.approx(near.mean(), abs=2)
    assert far.std() == pytest.approx(near.std(), rel=0.02, abs=0.3)


# -- serve ---------------------------------------------------------------------------------------------------------
def test_drafts_that_are_never_right_bring_a_token_a_step() -> None:
    """As many steps as without, each longer by what verifying and proposing takes."""
    given_ = {"input": 500, "output": 100, "concurrency": 8, "on": "h100-sxm"}
    plain, free = serve(LARGE, **given_), serve(LARGE, speculation=Speculation(0.0, 3), **given_)
    with_draft = serve(LARGE, speculation=Speculation(0.0, 3, rl.load(SMALL)), **given_)
    assert plain.tpot.expected < free.tpot.expected < with_draft.tpot.expected
    assert free.speculation == Speculation(0.0, 3)
    assert plain.speculation is None
    assert plain.to_dict()["speculation"] is None
    assert free.to_dict()["speculation"]["tokens_per_step"] == 1


def test_all_drafts_right() -> None:
    """Four tokens a step: a fourth of the time between tokens of drafts that are never right."""
    given_ = {"input": 500, "output": 101, "concurrency": 1, "on": "h100-sxm", "engine": "none"}
    none, every = (serve(LARGE, speculation=Speculation(a, 3), **given_) for a in (0.0, 1.0))
    assert every.tpot.expected == pytest.approx(none.tpot.expected / 4, rel=1e-9)


def test_arrays_are_their_elements() -> None:
    users = by_day(np.array([1, 64]), np.array([1, 8, 64]))
    outputs = by_day(np.array([[2], [300]]), np.array([[1], [2], [300]]))
    given_ = {"input": 700, "on": "h100-sxm", "speculation": Speculation(0.6, 4, rl.load(SMALL))}
    every = serve(LARGE, output=outputs, concurrency=users, **given_)
    for i, out in enumerate(outputs[:, 0].tolist()):
        for j, n in enumerate(users.tolist()):
            one = serve(LARGE, output=out, concurrency=n, **given_)
            for name in ("ttft", "tpot"):
                of_all, alone = getattr(every, name).expected[i, j], getattr(one, name).expected
                assert of_all == pytest.approx(alone, rel=1e-9), (name, out, n)
            assert every.capacity.reshape(-1)[i] == one.capacity
            assert every.power[i, j] == pytest.approx(one.power, rel=1e-9)


def test_a_draft_takes_room_for_requests() -> None:
    """Its weights and its cache, of one token more for each that it proposes."""
    given_ = {"input": 4000, "output": 96, "concurrency": 1, "on": "h100-sxm", "engine": "vllm"}
    draft = rl.load(SMALL)
    plain, drafted = (serve(LARGE, speculation=s, **given_) for s in (None, Speculation(0.7, 3, draft)))
    assert plain.memory.budget is not None
    budget = plain.memory.budget - draft.weight_bytes()
    block = 16
    tokens = -(-(4096 + 3) // block) * block
    each = plain.model.kv_bytes(1) * tokens + draft.kv_bytes(1) * (4096 + 3)
    assert drafted.capacity == int(budget / each)
    assert plain.capacity == int(plain.memory.budget / (plain.model.kv_bytes(1) * 4096))
    assert drafted.memory.weights == plain.memory.weights + draft.weight_bytes()


def test_a_step_holds_the_drafts_of_fewer() -> None:
    """Of 1,024 sequences and 8,192 tokens a step, 15 drafts and one more leave 512."""
    given_ = {"input": 10, "output": 10, "on": "h100-sxm", "engine": "vllm"}
    most = rl.serve(LARGE, concurrency=2**16, speculation=Speculation(0.5, 15), **given_)
    other = rl.serve(LARGE, concurrency=512, speculation=Speculation(0.5, 15), **given_)
    assert most.requests_per_second == pytest.approx(other.requests_per_second, rel=0.03)


def test_layers_of_its_own_that_are_not_there() -> None:
    with pytest.raises(InputError, match="draft layers of its own"):
        serve(LARGE, input=10, output=10, concurrency=1, on="h100-sxm", speculation=Speculation(0.5, 1, mtp=True))


def test_a_prompt_goes_through_the_draft_too() -> None:
    """TTFT of one user, in `generate`, `serve` and `simulate`: later by the draft's own prefill, without a host."""
    where = {"on": "h100-sxm", "engine": "vllm"}
    lengths = {"input": 2048, "output_tokens": 64}
    drafts = rl.Speculation(0.7, 3, draft=rl.load(SMALL))
    own = rl.estimate(SMALL, rl.prefill(1, 2048), on="h100-sxm", engine="vllm").span.expected
    generated = [rl.generate(LARGE, **where, **lengths, speculation=s).ttft.expected for s in (None, drafts)]
    assert generated[1] - generated[0] == pytest.approx(own, rel=1e-6)
    load = {**lengths, "concurrency": 1, **EQUAL}
    served = [rl.serve(LARGE, **where, **load, speculation=s).ttft.expected for s in (None, drafts)]
    assert served[1] - served[0] == pytest.approx(own, rel=0.02)
    extent = rl.Extent(requests=20, warmup=2)
    simulated = [rl.simulate(LARGE, **where, **load, extent=extent, speculation=s).ttft.mean for s in (None, drafts)]
    assert simulated[1] - simulated[0] == pytest.approx(own, rel=0.02)


def test_n_grams_are_looked_up_by_the_host() -> None:
    """Two nanoseconds a token of a text of 100,000: 0.2 ms a step of one sequence; no host, no time."""
    load = {"input": 100_000, "output_tokens": 64, "concurrency": 1, **EQUAL}
    n_grams, width = rl.Speculation(0.5, 3), 4
    for engine, more in (("vllm", 2e-9 * 100_032), ("none", 0.0)):
        s = rl.serve(LARGE, on="h100-sxm", engine=engine, speculation=n_grams, **load)
        step = rl.decode(1, 100_032, new=width)
        plain = rl.estimate(LARGE, step, on="h100-sxm", engine=engine).span.expected
        steps = expected_steps(n_grams, 63)
        assert s.tpot.expected * 63 / steps - plain == pytest.approx(more, abs=2e-6)


def test_how_often_drafts_are_right_depends_on_what_drafts_them() -> None:
    kinds = {"n-grams": {"draft": "none"}, "a model": {"draft": SMALL}, "layers": {"mtp": True}}
    right = {kind: rl.Speculation.asked(**how).acceptance for kind, how in kinds.items()}
    assert right == {"n-grams": 0.5, "a model": 0.7, "layers": 0.85}
