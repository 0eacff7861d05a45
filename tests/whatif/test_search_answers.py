"""What a search answers with: the highest plan, the recommended one, and the best of every machine."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

import roofline as rl
from folded import by_day
from roofline.declared.kinds import ObjectiveName
from roofline.whatif.query.figures import OBJECTIVES
from roofline.whatif.search.confirmation import confirmed
from roofline.whatif.search.ranking import ROOM_OF_MOST, SURE
from roofline.whatif.search.search import Search
from roofline.whatif.search.serving.plans import OFF, ServingPlan, simplicity
from roofline.whatif.search.training_search import TRAINING_AIMS

SMALL = rl.load(
    {
        "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 32000,
        "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 4, "dtype": "bfloat16",
        "max_position_embeddings": 32768,
    }
)  # fmt: skip
SIZES: dict[str, Any] = {"input": 1000, "output_tokens": 100}
ON = "h100-sxm"
CHIPS = by_day(2, 4)


def searched(**asked: Any) -> Search:
    """A search of the small model, of which all plans are listed."""
    answer: Search = rl.search(SMALL, **{"on": ON, "chips": 4, "top": 500, **SIZES, **asked})
    return answer


def test_objectives_are_figures_of_a_plan_and_words_of_the_setting() -> None:
    words = next(kind.words for kind in get_args(ObjectiveName)[1:])
    assert set(words) == {*OBJECTIVES, *TRAINING_AIMS}
    assert all(aim.figure in ServingPlan.FIGURES for aim in OBJECTIVES.values())


@pytest.mark.parametrize("objective", ["throughput", "total", "latency", "interactivity", "cost", "energy"])
def test_the_first_plan_has_the_best_figure(objective: str) -> None:
    s, aim = searched(objective=objective, chips=CHIPS, ttft=0.2, tpot=0.006), OBJECTIVES[objective]
    values = [float(getattr(p.figure(aim.figure), "expected", p.figure(aim.figure))) for p in s.plans]
    assert values == sorted(values, reverse=aim.most)
    assert s.highest is s.plans[0]


def test_of_equal_plans_the_simpler_stands_first() -> None:
    """Fewer pools, chips and ranks of a replica, then the higher chance."""
    s = searched(objective="chips", concurrency=64, ttft=0.2, tpot=0.006)
    order = [(p.chips, *simplicity(p)) for p in s.plans]
    assert order == sorted(order)
    assert len({p.chips for p in s.plans}) < len(s.plans)


def test_the_recommended_plan_is_the_simplest_within_the_error() -> None:
    s = searched(ttft=0.2, tpot=0.006, attainment="mean")
    first, plan = s.best, s.recommended
    assert plan is not None
    assert s.error == pytest.approx(1 - first.tpot.low / first.tpot.expected, rel=1e-12)
    least = (1 - s.error) * first.tokens_per_second_per_chip
    simplest = min(simplicity(p)[:3] for p in s.plans if p.tokens_per_second_per_chip >= least)
    assert simplicity(plan)[:3] == simplest
    assert plan.tokens_per_second_per_chip >= least * (1 - 1e-9)
    assert plan.chance > first.chance
    [itself] = [p for p in s.plans if (p.layout, p.prefill_layout) == (plan.layout, plan.prefill_layout)][:1]
    assert plan.concurrency < itself.concurrency
    alone = plan.evaluated()
    assert plan.ttft.ends() == pytest.approx(alone.ttft.ends(), rel=1e-9)
    assert plan.tokens_per_second == pytest.approx(alone.tokens_per_second, rel=1e-9)


def test_a_plan_for_most_requests_has_room_for_a_simulation() -> None:
    """The error has that of percentiles in it, and of the plans within it one with room is recommended."""
    s = searched(ttft=0.4, tpot=0.007)
    first, plan = s.best, s.recommended
    assert plan is not None
    assert s.error == pytest.approx(math.hypot(1 - first.tpot.low / first.tpot.expected, OFF), rel=1e-12)
    assert plan.tokens_per_second_per_chip >= (1 - s.error) * first.tokens_per_second_per_chip * (1 - 1e-9)
    assert first.used_with(ROOM_OF_MOST) > 1 >= plan.used_with(ROOM_OF_MOST)
    assert plan.chance > 0.8 > first.chance
    assert confirmed(plan).confirmation.keeps


def test_a_recommended_plan_gives_up_no_more_than_makes_it_sure() -> None:
    s = searched(kind="aggregated", layout="tp=1", tpot=0.008)
    plan, first = s.recommended, s.best
    assert plan is not None
    assert (plan.replicas, plan.layout) == (first.replicas, first.layout)
    one_more = replace(plan, concurrency=plan.concurrency + 2 * plan.replicas)
    assert plan.chance >= SURE or plan.tokens_per_second <= (1 - 0.8 * (s.error or 0)) * first.tokens_per_second
    assert one_more.answered(one_more.evaluated()).chance < plan.chance


def test_a_budget_of_chips_has_the_most_tokens_in_all() -> None:
    """Of three chips, brute force over pools and replicas."""
    sizes, flight = {"on": ON, **SIZES}, np.arange(1, 513)
    most = 0.0
    together = rl.serve(SMALL, layout="tp=1", concurrency=flight, **sizes)
    kept = (together.ttft.expected <= 0.2) & (together.tpot.expected <= 0.006)
    most = 3 * float(np.max(np.where(kept, together.tokens_per_second, 0)))
    for prefills, decodes in ((1, 1), (2, 1), (1, 2)):
        pooled = rl.pools(SMALL, prefills=prefills, decodes=decodes, prefill_layout="tp=1", layout="tp=1",
                          concurrency=flight, **sizes)  # fmt: skip
        kept = (pooled.ttft.expected <= 0.2) & (pooled.tpot.expected <= 0.006)
        most = max(most, float(np.max(np.where(kept, pooled.tokens_per_second, 0))))
    s = searched(objective="total", chips=3, layout="tp=1", ttft=0.2, tpot=0.006, attainment="mean")
    assert s.best.tokens_per_second >= most * (1 - 1e-9)
    with pytest.raises(rl.InputError, match="objective"):
        searched(objective="total", rate=10.0)


@pytest.mark.parametrize("load", [{"concurrency": 24}, {"rate": 40.0}])
def test_most_tokens_for_a_user_take_all_replicas(load: dict[str, Any]) -> None:
    s = searched(objective="interactivity", kind="aggregated", layout="tp=1", ttft=0.3, **load)
    assert s.best.chips == 4
    alone = rl.serve(SMALL, on=ON, layout="dp=4", **SIZES, **load)
    assert s.best.tokens_per_second_per_user == pytest.approx(alone.tokens_per_second_per_user, rel=1e-9)
    few = searched(objective="chips", kind="aggregated", layout="tp=1", ttft=0.3, **load)
    assert few.best.chips < 4


def test_the_best_of_every_machine_is_told(capsys: pytest.CaptureFixture[str], whole: bool) -> None:
    from roofline.doors.cli.main import main

    machines = [ON, "l4", "a100-sxm-80gb"][: by_day(2, 3)]
    layout = None if whole else "tp=1"
    s = searched(on=machines, top=2, tpot=0.02, chips=CHIPS, layout=layout)
    assert len(s.plans) == 2
    assert [place.plan.on for place in s.machines] == machines
    for place in s.machines:
        alone = searched(on=place.plan.on, top=1, tpot=0.02, chips=CHIPS, layout=layout).best
        assert alone.tokens_per_second_per_chip == place.plan.tokens_per_second_per_chip
        assert place.rank is not None
        assert place.of >= place.rank
    main(["search", "Qwen/Qwen2.5-0.5B", *(w for m in machines for w in ("--on", m)), "--chips", by_day("1", "2"),
          "--input", "64", "--output-tokens", "28", "--top", "1", "--kind", "aggregated",
          "--layout", "tp=1"])  # fmt: skip
    printed = capsys.readouterr().out
    assert all(f"on {machine}" in printed for machine in machines)
    assert "highest throughput:" in printed
    assert "recommended, the simplest within" in printed


def test_both_answers_are_in_the_json() -> None:
    answer = json.loads(json.dumps(searched(ttft=0.2, tpot=0.006, chips=CHIPS, top=3).to_dict()))
    assert answer["highest"] == answer["plans"][0]
    assert answer["recommended"]["chips"] <= answer["highest"]["chips"]
    assert 0 < answer["error"] < 1
    assert [place["rank"] for place in answer["machines"]] == [1]
    nothing = searched(tpot=1e-6, chips=CHIPS).to_dict()
    assert (nothing["highest"], nothing["recommended"], nothing["error"], nothing["machines"]) == (None, None, None, [])


def test_simulations_rank_the_plans_that_they_confirm(whole: bool) -> None:
    """First plans that keep their limits in the simulation, then plans without one, then plans that miss them."""
    top, confirm = (8, 6) if whole else (3, 3)
    s = searched(ttft=0.2, tpot=0.006, attainment="mean", chips=CHIPS, top=top, confirm=confirm)
    told = [p.confirmation for p in s.plans]
    kept = [c for c in told if c is not None and c.keeps]
    missed = [c for c in told if c is not None and not c.keeps]
    assert told == [*kept, *[None] * (top - len(kept)), *missed]
    rates = [c.tokens_per_second_per_chip for c in kept]
    assert rates == sorted(rates, reverse=True)
    assert all("misses in the simulation" in p.why for p in s.plans if p.broken)
    assert s.recommended is not None
    assert s.recommended.confirmation.keeps


def test_a_simulation_has_the_load_of_the_search() -> None:
    """Lengths that vary, of as many requests as are in flight; four times as many while a share is not decided."""
    limits = {"ttft": 0.4, "tpot": 0.007}
    first = searched(kind="aggregated", layout="tp=1", chips=1, confirm=1, **limits).plans[0]
    load = {"input": 1000, "output_tokens": 100, "concurrency": first.concurrency}
    c = first.confirmation
    fewest = max(1000, 20 * first.concurrency, math.ceil(36 * 0.99 / 0.01))
    assert c.requests in (fewest, 4 * fewest, 40_000)
    one = rl.simulate(SMALL, on=ON, requests=c.requests, seed=0, **load, **limits)
    assert (c.ttft, c.tpot, c.latency) == (one.ttft.mean, one.tpot.mean, one.latency.mean)
    assert (c.attained, c.attained_half_width, c.keeps) == (one.attained, one.attained_half_width, one.keeps)


def test_limits_that_no_simulation_keeps_are_a_clear_answer(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    words = ["search", "Qwen/Qwen2.5-0.5B", "--on", ON, "--chips", "2", "--input", "4000", "--output-tokens", "20",
             "--top", "1", "--kind", "disaggregated", "--layout", "tp=1", "--confirm", "1", "--wide"]  # fmt: skip
    with pytest.raises(SystemExit) as left:
        main([*words, "--ttft", "60ms", "--attainment", "mean"])
    printed = capsys.readouterr()
    assert left.value.code == 1
    assert "misses in the simulation: TTFT at" in printed.out
    assert "nothing keeps these limits" in printed.err


def test_replicas_that_share_experts_stay_without_a_simulation() -> None:
    """Several of them in a pool cannot be simulated, one can."""
    sizes = by_day({"input": 100, "output_tokens": 110}, {"input": 500, "output_tokens": 20})
    asked: dict[str, Any] = {**sizes, "tpot": 0.02, "top": 3, "confirm": 3}
    s = rl.search("Qwen/Qwen3-30B-A3B", on=ON, chips=6, layout="dp=2,ep=2", kind="disaggregated", **asked)
    assert {(p.prefills, p.decodes) for p in s.plans if p.confirmation is None} == {(2, 1), (1, 2)}
    assert [(p.prefills, p.decodes) for p in s.plans if p.confirmation is not None] == [(1, 1)]
