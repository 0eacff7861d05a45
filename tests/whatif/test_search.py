from __future__ import annotations

import itertools
import json
import random
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from folded import by_day, folded
from roofline.inference.span import Span, exactly
from roofline.serving.closed_forms.attainment import seconds_of
from roofline.serving.closed_forms.percentiles import Percentiles, Tail, Tails
from roofline.whatif.query.figures import OBJECTIVES
from roofline.whatif.search.demand import Demand, Limits
from roofline.whatif.search.search import Search, search
from roofline.whatif.search.serving.plans import ServingPlan, percentiles_of
from roofline.whatif.search.target import rank_plan

SMALL = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 32000,
    "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 4, "dtype": "bfloat16",
    "max_position_embeddings": 32768,
}  # fmt: skip
MODEL = rl.load(SMALL)
ON = "h100-sxm"


def within(plan: ServingPlan, limits: Limits) -> bool:
    """Whether as many requests keep the limits as are to."""
    return all(t.expected <= limit for t, limit in zip(plan.limited, limits.bounds, strict=True)) and plan.keeps


@pytest.mark.drawn(1)
@pytest.mark.parametrize("demand", [Demand(1000, 100), Demand(1000, 100, concurrency=64), Demand(1000, 100, rate=40)])
def test_every_plan_keeps_the_limits_and_equals_itself_alone(demand: Demand) -> None:
    limits = Limits(ttft=0.2, tpot=0.006)
    s = search(MODEL, demand, limits, on=ON, chips=by_day(3, 4), top=30)
    assert s.plans
    assert {p.kind for p in s.plans} == {"aggregated", "disaggregated"}
    for p in s.plans:
        assert within(p, limits)
        assert p.chips <= s.chips
        alone = p.evaluated()
        for name in ("ttft", "tpot"):
            assert getattr(alone, name).ends() == pytest.approx(getattr(p, name).ends(), rel=1e-9)
        several = p.replicas if p.prefill is None and demand.concurrency is None else 1
        if p.prefill is not None or demand.concurrency is None:
            assert alone.requests_per_second * several == pytest.approx(p.requests_per_second, rel=1e-9)
        assert p.usd_per_million_tokens == pytest.approx(
            rl.chips()[ON].price.usd_per_hour * p.chips / 3600 / p.tokens_per_second * 1e6, rel=1e-12  # type: ignore[union-attr]
        )  # fmt: skip


def brute(demand: Demand, limits: Limits, chips: int, layouts: list[str], objective: str) -> float:
    """The least of the objective over every plan at every number in flight, as `serve` and `pools` have them."""
    degree = {layout: int(layout.removeprefix("tp=")) for layout in layouts}
    sizes: dict[str, Any] = {"input": demand.input, "output": demand.output_tokens, "on": ON}
    every, best = np.arange(1, 513), np.inf

    def look(answer: Any, used: int, rate: Any, holds: Any = True) -> None:
        nonlocal best
        kept = limits.used((answer.ttft, answer.tpot, answer.latency), percentiles_of(answer)) <= 1
        kept = kept & answer.fits & holds
        tokens = np.broadcast_to(rate * demand.output_tokens, kept.shape)
        latency = np.broadcast_to(answer.latency.expected, kept.shape)
        value = {"throughput": -tokens / used, "chips": np.full(kept.shape, float(used)), "latency": latency}
        best = min(best, float(np.min(np.where(kept, value[objective], np.inf))))

    for layout in layouts:
        freely = None
        for replicas in range(1, chips // degree[layout] + 1):
            flight = every if demand.concurrency is None else np.array([demand.concurrency])
            several = f"{layout},dp={1 if demand.concurrency is None else replicas}"
            a = freely or rl.serve(MODEL, layout=several, concurrency=flight, **sizes)
            freely = a if demand.concurrency is None else None
            of_all = replicas if demand.concurrency is None else 1
            look(a, replicas * degree[layout], a.requests_per_second * of_all, flight <= a.capacity)
    for first, then in itertools.product(layouts, layouts):
        for x, y in itertools.product(range(1, chips + 1), repeat=2):
            used = x * degree[first] + y * degree[then]
            if used <= chips:
                flight = every if demand.concurrency is None else np.array([demand.concurrency])
                p = rl.pools(
                    MODEL, prefills=x, decodes=y, prefill_layout=first, decode_layout=then, concurrency=flight, **sizes
                )
                look(p, used, p.requests_per_second)
    return best


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(6))
def test_brute_force_finds_nothing_better(seed: int) -> None:
    draw = random.Random(seed)
    layouts = draw.choice([["tp=1"], ["tp=1", "tp=2"], ["tp=2"]])
    chips, loaded = draw.choice([2, 3, 4]), draw.random() < 0.5
    demand = Demand(
        draw.choice([500, 4000]), draw.choice([20, 100]), concurrency=draw.choice([4, 30]) if loaded else None
    )
    limits = Limits(ttft=draw.uniform(0.1, 0.4), tpot=draw.uniform(0.003, 0.008), attainment="mean")
    if seed % 2:  # of 99 % of the requests; about as many cases have a plan
        limits = Limits(ttft=3 * limits.ttft, tpot=1.5 * limits.tpot)
    objective = draw.choice(["chips", "latency"]) if loaded else "throughput"
    s = search(MODEL, demand, limits, on=ON, chips=chips, layouts=layouts, objective=objective)
    best = brute(demand, limits, chips, layouts, objective)
    ours = OBJECTIVES[objective].least(s.plans[0]) if s.plans else np.inf
    assert ours <= best + 1e-9 * abs(best)


def test_strict_is_stricter() -> None:
    asked: dict[str, Any] = {"on": ON, "chips": 2, "layouts": by_day(["tp=1"], None)}
    loose = search(MODEL, Demand(1000, 100), Limits(tpot=0.006), **asked)
    strict = search(MODEL, Demand(1000, 100), Limits(tpot=0.006, strict=True), **asked)
    assert strict.best.tokens_per_second_per_chip < loose.best.tokens_per_second_per_chip
    assert all(p.limited[1].high <= 0.006 and p.chance >= 0.9 for p in strict.plans)


def test_a_load_takes_no_more_chips_than_it_needs() -> None:
    few = search(MODEL, Demand(1000, 100, concurrency=2), Limits(ttft=1), on=ON, chips=by_day(3, 8)).best
    assert few.chips == 1
    chips = by_day(12, 64)
    many = search(MODEL, Demand(1000, 100, rate=200.0), Limits(ttft=0.3, tpot=0.02), on=ON, chips=chips)
    assert 1 < many.best.chips <= many.plans[-1].chips


def test_budget_power_and_several_machines() -> None:
    price, watts = rl.chips()[ON].price, rl.chips()[ON].tdp
    assert price is not None
    assert watts is not None
    demand, limits = Demand(1000, 100), Limits(tpot=0.02)
    layouts = by_day(["tp=1"], None)
    assert search(MODEL, demand, limits, on=ON, chips=64, layouts=layouts, budget=3.5 * price.usd_per_hour).chips == 3
    assert search(MODEL, demand, limits, on=ON, chips=64, layouts=layouts, power=2.5 * watts).chips == 2
    both = search(MODEL, demand, limits, on=[ON, "l4"], chips=by_day(2, 4), objective="cost", top=100)
    assert {p.on for p in both.plans} == {ON, "l4"}
    costs = [p.usd_per_million_tokens for p in both.plans]
    assert costs == sorted(costs, key=lambda c: c or np.inf)


def test_nothing_is_a_clear_answer() -> None:
    s = search(MODEL, Demand(1000, 100), Limits(tpot=1e-6), on=ON, chips=2)
    assert s.plans == ()
    assert s.left_out["limits"] > 0
    with pytest.raises(rl.InputError):
        s.best  # noqa: B018


def test_a_mixture_has_data_parallel_attention() -> None:
    s = search(
        rl.load("openai/gpt-oss-120b"),
        Demand(2000, 200),
        Limits(ttft=1.0, tpot=0.02),
        on=ON,
        chips=by_day(4, 8),
        top=200,
    )
    layouts = {p.layout for p in s.plans}
    assert any("dp=" in layout and "ep=" in layout for layout in layouts)


@folded(
    ("options", "field"),
    [
        ({"chips": 0}, "chips"), ({"kind": "pooled"}, "kind"), ({"objective": "joy"}, "objective"),
        ({"budget": 0.01}, "budget"), ({"power": "much"}, "power"), ({"engine": "vlm"}, "engine"),
        ({"layouts": "tp=two"}, "tp"), ({"chips": 10**12}, "chips"),
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError) as caught:
        search(MODEL, Demand(100, 10), on=ON, **{"chips": 1, **options})
    assert field in caught.value.field


@folded(
    "wrong",
    [{"input": 0}, {"output": 0}, {"prefix": 1.0}, {"concurrency": 0}, {"rate": -1.0}, {"rate": 1.0, "concurrency": 1}],
)
def test_bad_demands(wrong: dict[str, Any]) -> None:
    with pytest.raises(rl.InputError):
        Demand(**{"input": 10, "output": 10, **wrong})
    with pytest.raises(rl.InputError):
        Limits(ttft=0)


def test_chance_by_hand() -> None:
    """Of means, and of 99 % of the requests: that of the time that they do not exceed."""
    span, anything = Span(1.0, 2.0, 1.0, 4.0), Span(0.0, 1.0, 1.0, 1.0)
    times, any_tail = (span, anything, anything), Tail(0.01, 0.01, 0.01, 0.01)
    ends = {end: Tails(Tail(p99 / 4, p99 / 2, p99 / 1.5, p99), any_tail, any_tail)
            for end, p99 in (("expected", 2.0), ("low", 1.0), ("high", 4.0))}  # fmt: skip
    most = ends.pop("expected")
    percentiles = Percentiles(most.ttft, most.tpot, most.latency, True, **ends)
    for attainment in ("mean", 0.99):
        for limit, chance in ((2.0, 0.5), (4.0, 0.9), (1.0, 0.1)):
            limits = Limits(ttft=limit, tpot=1.0, attainment=attainment)
            assert limits.chance(times, percentiles) == pytest.approx(chance, abs=1e-4)
    assert Limits(tpot=0.001).chance(times, percentiles) == 0
    assert Limits(tpot=1.0).chance(times, percentiles) == 1


def test_errors_go_together_over_the_limits() -> None:
    """Two limits each of which half of 1 % misses: both are missed by more where times are longer, by hand."""
    tail = Tail(0.5, 0.8, 0.9, 1.0)
    longer, shorter = tail.each(lambda t: 1.3 * t), tail.each(lambda t: t / 1.3)
    ends = {"high": Tails(longer, longer, longer), "low": Tails(shorter, shorter, shorter)}
    percentiles, second = Percentiles(tail, tail, tail, True, **ends), exactly(1.0)
    limit = float(seconds_of(tail, 0.995))
    times = (second, second, second)
    both, one = Limits(ttft=limit, tpot=limit), Limits(ttft=limit)
    assert both.used(times, percentiles) == pytest.approx(1, rel=1e-6)
    assert both.chance(times, percentiles) == pytest.approx(0.5, abs=1e-6)
    assert one.chance(times, percentiles) == pytest.approx(
        NormalDist().cdf(1.2815515655446 * np.log(limit / 1.0) / np.log(1.3)), rel=1e-3
    )


def test_no_plan_dominates_one_of_the_front() -> None:
    demand, limits, chips = Demand(1000, 20), Limits(ttft=0.3, tpot=0.004), 3
    front = search(MODEL, demand, limits, on=ON, chips=chips, layouts=["tp=1"]).front
    assert len(front.plans) > 3
    users = [p.tokens_per_second_per_user for p in front.plans]
    assert users == sorted(users)
    sizes: dict[str, Any] = {"input": 1000, "output": 20, "on": ON}
    flight = np.arange(1, 201, by_day(3, 1))
    answers = [(rl.serve(MODEL, layout="tp=1", concurrency=flight, **sizes), 1)]
    for x, y in by_day([(1, 1), (2, 1)], [(1, 1), (2, 1), (1, 2)]):
        pooled = rl.pools(
            MODEL, prefills=x, decodes=y, prefill_layout="tp=1", decode_layout="tp=1", concurrency=flight, **sizes
        )
        answers.append((pooled, x + y))
    for a, used in answers:
        kept = percentiles_of(a).ttft.p99 <= limits.ttft
        each = np.broadcast_to(a.requests_per_second * demand.output_tokens / used, kept.shape)
        for p in front.plans:
            sooner = a.tpot.expected <= p.tpot.expected * (1 + 1e-9)
            assert not np.any(kept & sooner & (each > p.tokens_per_second_per_chip * (1 + 1e-9)))


def test_where_a_plan_stands() -> None:
    s = search(
        MODEL,
        Demand(1000, 100),
        Limits(ttft=0.2, tpot=0.006),
        on=ON,
        chips=4,
        layouts=by_day(["tp=1", "tp=2"], None),
        top=100,
    )
    for i, p in enumerate(s.plans[:3], 1):
        text = f"replicas={p.replicas},layout={p.layout},concurrency={p.concurrency}"
        if p.prefill is not None:
            text += f",prefills={p.prefills},prefill_layout={p.prefill_layout}"
        place = rank_plan(s, text)
        assert (place.rank, place.rejected) == (i, "")
        assert place.plan.tokens_per_second_per_chip == pytest.approx(p.tokens_per_second_per_chip, rel=1e-9)
    assert "of its limit" in rank_plan(s, "replicas=1,concurrency=1000").rejected
    assert rank_plan(s, "replicas=8,concurrency=8").rejected == "8 chips of 4"
    for wrong in ("replicas=4", "replicas=x,concurrency=1", "copies=4,concurrency=1", "replicas=1,replicas=2"):
        with pytest.raises(rl.InputError):
            rank_plan(s, wrong)


def test_plans_of_another_tool_are_in_the_space() -> None:
    """aiconfigurator's best for its README's case: pools of 5 and 3 with 64 in flight each, and 8 replicas with 16."""
    limits = Limits(ttft=0.3, tpot=0.010, attainment="mean")
    layouts, fewest = by_day((["tp=4"], 30), (None, 10_000))
    asked: dict[str, Any] = {"on": "h200-sxm", "chips": 32, "precision": "weights=fp8", "layouts": layouts}
    s = search("Qwen/Qwen3-32B", Demand(4000, 500, **EQUAL), limits, **asked)
    assert s.considered >= fewest
    pooled = rank_plan(s, "prefills=5,prefill_layout=tp=4,replicas=3,layout=tp=4,concurrency=192")
    assert pooled.rejected.startswith("tpot at 11")
    together = rank_plan(s, "replicas=8,layout=tp=4,concurrency=128")
    assert together.rejected.startswith("tpot at 104")


def test_a_simulation_confirms_the_best() -> None:
    """TPOT binds: near the most that a prefill pool takes, a simulation's TTFT may be longer by the 15 % allowed."""
    layouts = by_day(["tp=1"], None)
    for kind, chips, tpot in (("aggregated", by_day(1, 4), 0.006), ("disaggregated", by_day(3, 4), 0.0055)):
        limits = Limits(ttft=0.2, tpot=tpot, attainment="mean")
        best = search(MODEL, Demand(1000, 100), limits, on=ON, chips=chips, kinds=kind, layouts=layouts, confirm=1).best
        assert best.confirmation.keeps
        assert best.confirmation.tokens_per_second_per_chip == pytest.approx(best.tokens_per_second_per_chip, rel=0.15)


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    from roofline.doors.cli.main import main

    words = ["search", "Qwen/Qwen3-0.6B", "--on", ON, "--chips", "2", "--input", "1000", "--output-tokens", "100",
             "--ttft", "300ms", "--tpot", "10ms", "--kind", "aggregated",
             *by_day(["--layout", "tp=1"], [])]  # fmt: skip
    main([*words, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == Search.SCHEMA
    assert answer["considered"] >= answer["deployments"] > 0
    assert answer["plans"][0]["tpot"]["expected"] <= 0.010
    main([*words, "-o", str(tmp_path / "plans.json")])
    assert json.loads((tmp_path / "plans.json").read_text())["plans"]
    main(words)
    assert "tokens/s/chip" in capsys.readouterr().out
    picture = tmp_path / "front.svg"
    main([*words, "--front", "--plot", str(picture), "--plan", "replicas=2,concurrency=4"])
    captured = capsys.readouterr()
    assert "Pareto front" in captured.out
    assert "2 × one chip on" in captured.err
    assert picture.stat().st_size > 1000
    with pytest.raises(SystemExit) as left:
        main([*words, "--latency", "1us"])
    assert left.value.code == 1


def test_the_json_has_the_plan_that_is_asked_about(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    import jsonschema

    from roofline.doors.cli.main import main
    from roofline.schema import schemas

    words = ["search", "Qwen/Qwen2.5-0.5B", "--on", ON, "--chips", "2", "--input", "64", "--output-tokens", "28",
             "--kind", "aggregated", "--layout", "tp=1"]  # fmt: skip
    main([*words, "--json"])
    assert json.loads(capsys.readouterr().out)["asked_plan"] is None
    main([*words, "--json", "--plan", "replicas=2,concurrency=4"])
    place = json.loads(capsys.readouterr().out)
    jsonschema.validate(place, schemas()["search"])
    asked = place["asked_plan"]
    assert (asked["rejected"], asked["plan"]["replicas"], asked["plan"]["concurrency"]) == ("", 2, 4)
    assert 1 < asked["rank"] <= asked["of"] + 1
    alone = rl.serve("Qwen/Qwen2.5-0.5B", on=ON, input=64, output=28, concurrency=2)
    assert asked["plan"]["tpot"]["expected"] == pytest.approx(float(alone.tpot.expected), rel=1e-9)
    main([*words, "--ttft", "1s", "--plan", "replicas=9,concurrency=9", "--out", str(tmp_path / "s.json")])
    rejected = json.loads((tmp_path / "s.json").read_text())["asked_plan"]
    assert (rejected["rank"], rejected["rejected"]) == (None, "9 chips of 2")


def test_a_law_and_a_layout_that_are_asked_for() -> None:
    """The times of every plan are those of `serve` by that law."""
    demand, small = Demand(64, 28, concurrency=4), rl.load("Qwen/Qwen2.5-0.5B")
    for law in ("ideal", "fixed(0.5,0.8)"):
        s = search(small, demand, on=ON, chips=2, layouts=["tp=1", "tp=2"], law=law)
        assert s.law == law.partition("(")[0]
        for p in s.plans:
            alone = p.evaluated()
            assert alone.law == s.law
            assert alone.tpot.ends() == pytest.approx(p.tpot.ends(), rel=1e-9)
        assert {p.kind for p in s.plans} == {"aggregated", "disaggregated"}
    for wrong in (
        {"law": "nonsense"}, {"layouts": "tp=2,sp"}, {"layouts": "tp=2,zero=1"}, {"layouts": ["tp=8", "tp=16"]},
        {"layouts": "dp=2,ep=2,redundant=2"},
    ):  # fmt: skip
        with pytest.raises(rl.InputError, match=r"law|layout"):
            search(small, demand, on=ON, chips=2, **wrong)  # type: ignore[arg-type]


def test_a_site_feeds_each_kind_of_chip_by_its_own_watts() -> None:
    """1,500 W: four L40S of 350 W, but two H100 of 700 W, and no pools of both beyond that."""
    watts = {id: rl.chips()[id].limit or 0.0 for id in ("h100-sxm", "l40s")}
    for power in (1500, 2100):
        found = search(
            MODEL, Demand(1000, 100), Limits(tpot=0.05), on=["8xh100-sxm", "8xl40s"], power=power,
            layouts=["tp=1", "tp=2"], precision="weights=fp8", top=1000,
        )  # fmt: skip
        drawn = [sum(part.chips * watts[part.site.chip.id] for part in plan.groups) for plan in found.plans]
        assert max(drawn) <= power
        most = {on: max((p.chips for p in found.plans if p.on == on), default=0) for on in watts}
        assert most == {on: power // drawn_by for on, drawn_by in watts.items()}


def test_a_chip_that_a_site_cannot_feed_is_left_out() -> None:
    found = search(MODEL, Demand(1000, 100), Limits(tpot=0.05), on=["h100-sxm", "l40s"], power=400, layouts=["tp=1"])
    assert {plan.on for plan in found.plans} == {"l40s"}


def test_watts_are_a_limit_of_training_too() -> None:
    def best(**limit: object) -> int:
        return rl.search_training(
            "Qwen/Qwen2.5-0.5B", on="8xh100-sxm", batch=64, tokens=1024, top=1, **limit
        ).best.chips

    assert (best(), best(site_power=5600), best(site_power=5599), best(site_power=2100)) == (8, 8, 4, 2)
    with pytest.raises(rl.InputError, match="site_power: expected enough for one chip, 700"):
        best(site_power=600)
    with pytest.raises(rl.InputError, match="at most the 2 that the limit allows"):
        best(site_power=1400, chips=4)
