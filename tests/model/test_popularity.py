"""Routers whose tokens do not spread evenly over experts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.declared.numbers.maths import experts_visited
from roofline.doors.cli.main import main
from roofline.inference.settings import ROUTED
from roofline.layout.layout import Layout, layout_named
from roofline.model.popularity import busiest, chances, popular_visited, slot_chances
from roofline.work import ops as o

QWEN = rl.load("Qwen/Qwen3-30B-A3B")


def experts_of(step: rl.Step, **layout: Any) -> o.ExpertMatMul:
    """The last product of a layer's experts on a rank."""
    costs = rl.analyze(rl.shard(QWEN, Layout(**layout)), step).ops
    return next(c.op for c in reversed(costs) if isinstance(c.op, o.ExpertMatMul))


def test_counted_tokens_by_hand() -> None:
    # 12 tokens, one expert each: a half, a quarter, a sixth and a twelfth of them.
    one = chances(4, 1, (6.0, 3.0, 2.0, 1.0))
    assert one == pytest.approx((1 / 2, 1 / 4, 1 / 6, 1 / 12))
    assert popular_visited(one, 1) == pytest.approx(1)
    assert popular_visited(one, 2) == pytest.approx(4 - (1 / 4 + 9 / 16 + 25 / 36 + 121 / 144))
    # Of two each, all tokens choose the first; the other choices fall on the rest.
    assert chances(4, 2, (6.0, 3.0, 2.0, 1.0)) == pytest.approx((1, 1 / 2, 1 / 3, 1 / 6))
    # The busiest of two ranks, which hold experts 1 and 2 and experts 3 and 4, has 9 of 12 tokens.
    assert busiest(one, 2, True) == pytest.approx(9 / 6)
    # A copy of the first halves what comes to each.
    assert slot_chances(4, 1, 1, (6.0, 3.0, 2.0, 1.0)) == pytest.approx((1 / 4, 1 / 4, 1 / 4, 1 / 6, 1 / 12))


@given(st.integers(1, 300), st.integers(1, 16), st.integers(1, 4096), st.floats(0, 4), st.integers(0, 40))
def test_chances_add_up_and_even_ones_give_the_formula_of_even_ones(
    experts: int, top_k: int, tokens: int, exponent: float, redundant: int
) -> None:
    top_k = min(top_k, experts)
    each = chances(experts, top_k, exponent)
    assert sum(each) == pytest.approx(top_k)
    assert max(each) <= 1 + 1e-12
    assert sum(slot_chances(experts, redundant, top_k, exponent)) == pytest.approx(top_k)
    even = experts_visited(experts, top_k, tokens)
    assert popular_visited(chances(experts, top_k, 0.0), tokens) == pytest.approx(even)
    steeper = popular_visited(each, np.array([tokens, 2 * tokens]))
    assert top_k - 1e-6 <= popular_visited(each, tokens) == pytest.approx(steeper[0])
    assert steeper[0] <= steeper[1] + 1e-9
    assert steeper[0] <= even * (1 + 1e-9)


@pytest.mark.parametrize(
    ("experts", "ranks", "exponent"), [(256, 8, 0.7), (256, 64, 0.7), (128, 16, 1.0), (64, 4, 0.3)]
)
def test_the_busiest_rank_is_that_of_experts_dealt_out_at_random(experts: int, ranks: int, exponent: float) -> None:
    each, draw = chances(experts, 8, exponent), np.random.default_rng(7)
    dealt = np.array([draw.permutation(each).reshape(ranks, -1).mean(axis=1) for _ in range(4000)])
    drawn = float((dealt.max(axis=1) / np.mean(each)).mean())
    assert busiest(each, ranks, False) == pytest.approx(drawn, rel=0.02)
    assert busiest(each, np.array([[1, ranks]]), False).tolist() == [[1.0, busiest(each, ranks, False)]]


def test_a_step_reads_the_experts_that_popular_ones_leave() -> None:
    step = rl.decode(batch=16, context=100)
    even, skewed = experts_of(step), experts_of(step, popularity=0.7)
    assert skewed.touched == pytest.approx(popular_visited(chances(128, 8, 0.7), 16))
    assert skewed.touched < even.touched == pytest.approx(128 * (1 - (1 - 8 / 128) ** 16))
    assert (skewed.m, skewed.weight) == (even.m, pytest.approx(768 * 2048 * float(skewed.touched)))
    counts = tuple(3.0 if i < 64 else 1.0 for i in range(128))
    halves = experts_of(rl.prefill(1, 1000), dp=2, ep=2, popularity=counts)
    assert halves.m == 1000 * 8 * 3 // 2  # three of four tokens come to the first rank
    assert experts_of(rl.prefill(1, 1000), dp=2, ep=2, popularity=counts, imbalance=1.25).m == 1000 * 8 * 5 // 4
    assert experts_of(rl.prefill(1, 1000), dp=2, ep=2, popularity=counts, capacity=1.25).m == 1000 * 8 * 5 // 4


@given(st.lists(st.floats(0, 1e300), min_size=2, max_size=5).filter(any))
def test_any_counts_are_read_as_they_are_written(counts: list[float]) -> None:
    layout = Layout(popularity=tuple(counts))
    assert layout_named(layout.text()) == layout


@pytest.mark.parametrize("text", ["popularity=0.7", "dp=2, ep=2, popularity=3+2.5+1", "popularity=1"])
def test_it_is_said_in_a_layout(text: str) -> None:
    layout = layout_named(text)
    assert layout.text() == text
    assert layout_named(layout.text()) == layout


@folded("wrong", [-1, 17, True, "much", (), (0, 0), (1, -1), (1, float("nan")), float("nan")])
def test_what_is_no_popularity_is_refused(wrong: Any) -> None:
    with pytest.raises(rl.InputError, match="popularity"):
        Layout(popularity=wrong)


def test_text_that_is_no_popularity_is_refused() -> None:
    for text in ("popularity=x", "popularity=1+x", "popularity=", "popularity=1e3", "popularity=-1"):
        with pytest.raises(rl.InputError, match=r"layout\.popularity: expected an exponent from 0 to 16"):
            layout_named(text)


def test_counts_are_of_the_experts_that_the_model_has() -> None:
    with pytest.raises(rl.InputError, match="one for each of 128 experts, got '2 counts'"):
        rl.estimate(QWEN, rl.decode(1, 9), on="h100-sxm", layout="popularity=3+2")
    with pytest.raises(rl.InputError, match="tokens for 8 experts or more"):
        rl.estimate(QWEN, rl.decode(1, 9), on="h100-sxm", layout=Layout(popularity=(1.0, *[0.0] * 127)))
    with pytest.raises(rl.InputError, match="evenly spread tokens"):
        rl.explain(rl.shard(QWEN, Layout(popularity=1)), "experts_down_proj", rl.decode(4, 100))


def test_several_popularities_are_a_grid() -> None:
    grid = rl.estimate(QWEN, rl.decode(8, 9), on="h100-sxm", layout=["popularity=0", "popularity=0.7"])
    times = [e.time for e in grid.results]  # type: ignore[attr-defined]
    assert times[1] < rl.estimate(QWEN, rl.decode(8, 9), on="h100-sxm").time < times[0]


def test_a_step_on_a_machine_visits_fewer_experts() -> None:
    def at(popularity: float | None, batch: int = 16, ep: int = 1) -> rl.Estimate:
        layout = Layout(tp=ep, ep=ep, popularity=popularity, imbalance=1 + 1e-12)  # rows evenly over ranks
        estimate: rl.Estimate = rl.estimate(QWEN, rl.decode(batch, 100), on="h100-sxm", layout=layout)
        return estimate

    even, usual, told = at(0), at(None), at(ROUTED)
    assert usual.flops == even.flops
    assert usual.bytes == pytest.approx(told.bytes)
    assert usual.bytes < even.bytes == pytest.approx(rl.analyze(QWEN, rl.decode(16, 100)).bytes)
    assert usual.time == pytest.approx(told.time) != pytest.approx(even.time, rel=0.01)
    assert usual.serial_floor == pytest.approx(told.serial_floor)
    assert usual.serial_floor < even.serial_floor
    assert sum(op.expected for op in usual.ops) == pytest.approx(usual.time)
    assert at(None, 1).time == pytest.approx(at(0, 1).time)  # one token visits as many by any law
    assert at(None, ep=4).time == pytest.approx(at(ROUTED, ep=4).time)
    for op in (cost.op for cost in usual.analysis.ops):
        if isinstance(op, o.ExpertMatMul):
            assert op.touched == pytest.approx(sum(1 - (1 - c) ** 16 for c in chances(128, 8, ROUTED)))


def test_every_answer_on_a_machine_says_how_experts_are_visited(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sizes = ("--input", "64", "--output-tokens", "8")
    asked: dict[str, tuple[str, ...]] = {
        "generate": sizes, "serve": (*sizes, "--rate", "1"), "simulate": (*sizes, "--rate", "1", "--requests", "50"),
        "search": (*sizes, "--rate", "1", "--chips", "1"), "machines": ("--users", "3"), "answer": (),
    }  # fmt: skip
    for name, words in asked.items():
        with suppress(SystemExit):
            main([name, QWEN.name, "--on", "h100-sxm", *words])
        assert "experts visited as with popularity=0.6" in " ".join(capsys.readouterr().out.split()), name
    with suppress(SystemExit):
        main(["report", QWEN.name, "--on", "h100-sxm", "--out", str(tmp_path / "report.md")])
    assert "Assumed: experts visited as with popularity=0.6." in (tmp_path / "report.md").read_text(encoding="utf-8")
    found = rl.search(QWEN, input=64, output_tokens=8, rate=1.0, on="h100-sxm", chips=1)
    assert found.to_dict()["assumed_popularity"] == ROUTED


def test_models_without_experts_assume_nothing() -> None:
    first = rl.load("Qwen/Qwen2.5-0.5B")
    for model in (first, replace(first)):  # equal models, of which one may be remembered for the other
        assert rl.estimate(model, rl.decode(1, 100), on="h100-sxm").assumed_popularity is None
    told = rl.estimate(QWEN, rl.decode(1, 100), on="h100-sxm", layout=Layout(popularity=0.3))
    assert told.assumed_popularity is None
