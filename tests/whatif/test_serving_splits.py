"""Splits of two pools: what a bound leaves has the best of all of them, and a search of many takes little memory."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.declared.groups import Where
from roofline.doors.cli.main import main
from roofline.layout.layout import layout_named
from roofline.whatif.query.figures import OBJECTIVES
from roofline.whatif.search.demand import Demand, Limits
from roofline.whatif.search.search import search
from roofline.whatif.search.serving import pools as serving_pools
from roofline.whatif.search.serving import replicas as serving_replicas
from roofline.whatif.search.serving import splits as serving_splits
from roofline.whatif.search.serving.plans import Site
from roofline.whatif.search.serving.pools import LEAST, pool_pairs
from roofline.whatif.search.serving.replicas import aggregated
from roofline.whatif.search.serving.space import SiteSpace
from roofline.whatif.search.serving.splits import Splits

MODEL = rl.load({
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 32000,
    "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 4, "dtype": "bfloat16",
    "max_position_embeddings": 32768,
})  # fmt: skip
ON = "h100-sxm"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = ("first", "then", "prefills", "decodes", "chips")
LOADS: tuple[dict[str, Any], ...] = ({}, {"concurrency": 40}, {"rate": 60.0}, {"concurrency": 2})


def drawn(seed: int) -> tuple[SiteSpace, tuple[Site, Site], Demand, Limits]:
    draw = random.Random(seed)
    sites = Site(Where(on=ON)), Site(Where(on=draw.choice([ON, ON, "h200-sxm"])))
    layouts = [
        layout_named(x) for x in draw.choice([("tp=1", "tp=2"), ("tp=1", "tp=2", "tp=4"), ("tp=1", "tp=1,pp=2")])
    ]
    demand = Demand(draw.choice([100, 1000, 6000]), draw.choice([1, 2, 30, 200]), 0.0, **LOADS[seed % len(LOADS)])
    times = {"ttft": (0.02, 0.6), "tpot": (0.002, 0.02), "latency": (0.2, 3.0)}
    bounds = {name: draw.uniform(*ends) for name, ends in times.items() if draw.random() < 0.6}
    limits = Limits(**bounds, attainment=("mean", 0.5, 0.99)[seed % 3])
    return SiteSpace(MODEL, sites, draw.choice([6, 9, 11]), layouts), sites, demand, limits


def cross(pair: Any, chips: int) -> Splits:
    """Every number of replicas of every pair of layouts, one by one."""
    first, then = ([int(c) for c in degrees.chips] for degrees in pair.degrees)
    rows = [
        (i, j, x, y, x * a + y * b)
        for (i, a), (j, b) in product(enumerate(first), enumerate(then))
        for x, y in product(range(1, chips + 1), repeat=2)
        if x * a + y * b <= chips
    ]
    return Splits(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


@pytest.mark.drawn(5)
@pytest.mark.parametrize("seed", range(12))
def test_what_a_bound_leaves_has_the_best_of_the_whole_cross(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_pools, "WHOLE", 30)
    monkeypatch.setattr(serving_pools, "SAMPLE", 26)
    monkeypatch.setattr(serving_splits, "PIECE", 17)
    space, sites, demand, limits = drawn(seed)
    for pair in pool_pairs(space, sites, demand, limits):
        every = cross(pair, space.chips)
        assert pair.splits.number == len(every)
        score, flights = pair.scored(every, OBJECTIVES["throughput"])
        best = np.argsort(-score, kind="stable")[: serving_pools.EXACT]
        best = best[score[best] > 0]
        walked = pair.walked(0.0, OBJECTIVES["throughput"])
        kept = walked.score > 0
        assert np.array_equal(walked.score[kept], score[best])
        assert np.array_equal(walked.flights[kept], flights[best])
        for name in ("first", "then", "prefills", "decodes", "chips"):
            assert np.array_equal(getattr(walked.splits, name)[kept], getattr(every, name)[best])
        possible = pair.bounded(LEAST)
        left = possible.at(np.arange(possible.number)) if possible.number else every.where(best[:0])
        assert len(left) >= np.sum(score > 0)
        assert np.all(score <= pair.bounded(0.0).bound(every) * (1 + 1e-9))


@pytest.mark.drawn(0)
def test_a_cross_of_two_million_splits_takes_little_memory() -> None:
    """Built whole it asked for more than 4 GB."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30,) * 2)\n"
        "import roofline as rl\n"
        "s = rl.search('gpt2', rl.Demand(512, 128, concurrency=64), on='h100-sxm', chips=2000, layouts='tp=1',"
        " kinds='disaggregated')\n"
        "print(s.deployments, s.best.chips, s.best.prefills, s.best.replicas)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.split() == [str(1999 * 2000 // 2), "2", "1", "1"], ended.stderr


@pytest.mark.drawn(2)
@pytest.mark.parametrize("case", "abcdefghi")
def test_the_largest_machines_take_little_memory_and_are_answered(case: str) -> None:
    """They took from 4 to 40 GB, or more splits than were looked at."""
    command = [sys.executable, str(BENCHMARKS / "search_memory.py"), "--one", case]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "the best on" in ended.stdout
    (peak,) = re.findall(r"([\d,]+) MiB", ended.stdout)
    assert int(peak.replace(",", "")) < 1024


def test_a_quarter_of_a_million_chips_of_one_layout() -> None:
    demand, limits = Demand(512, 128, rate=5000.0), Limits(ttft=0.1, tpot=0.005)
    few, many = (
        search("gpt2", demand, limits, on=ON, chips=chips, layouts="tp=1", kinds="disaggregated")
        for chips in (30, 2**18)
    )
    assert many.deployments == (2**18 - 1) * 2**18 // 2
    assert many.left_out["bound"] > 0.999 * many.deployments
    assert [(p.prefills, p.replicas, p.ttft.expected) for p in many.plans] == [
        (p.prefills, p.replicas, p.ttft.expected) for p in few.plans
    ]


def test_of_too_many_splits_the_best_of_some_is_told_and_how_many_were_not_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were refused."""
    monkeypatch.setattr(serving_pools, "WHOLE", 30)
    monkeypatch.setattr(serving_pools, "MANY_LEFT", 20)
    monkeypatch.setattr(serving_pools, "MOST_SPLITS", 20)
    words = ["search", "gpt2", "--on", ON, "--chips", "60", "--input", "512", "--output-tokens", "128"]
    main([*words, "--layout", "tp=1", "--kind", "disaggregated"])
    out = capsys.readouterr().out
    assert re.search(r"\d+ deployments not looked at, at most \d+(\.\d+)? % better by a bound", out), out


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(0, 12, 4))
def test_the_best_of_some_is_near_the_best_of_the_whole_cross(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was not looked at is no better than the bound says."""
    for name, number in {"WHOLE": 30, "MANY_LEFT": 10, "MOST_SPLITS": 10, "SAMPLE": 26, "SPREAD": 30}.items():
        monkeypatch.setattr(serving_pools, name, number)
    space, sites, demand, limits = drawn(seed)
    aim = OBJECTIVES["throughput"]
    for pair in pool_pairs(space, sites, demand, limits):
        every = cross(pair, space.chips)
        best = float(pair.scored(every, aim)[0].max())
        walked = pair.walked(0.0, aim)
        if best:
            assert walked.score[0] >= 0.98 * best
            assert walked.unseen or walked.score[0] == best
    looked = serving_pools.disaggregated(space, *sites, demand, limits, aim)
    if looked.plans and looked.beyond is not None:
        ours = max(plan.requests_per_second / plan.chips for plan in looked.plans)
        whole = max(float(pair.scored(cross(pair, space.chips), aim)[0].max())
                    for pair in pool_pairs(space, sites, demand, limits))  # fmt: skip
        assert whole <= ours * looked.beyond * 1.01


def test_a_search_whose_time_ends_answers_with_the_best_so_far() -> None:
    limits = Limits(ttft=0.2, tpot=0.005)
    chosen: dict[str, Any] = {"on": [ON, "h200-sxm"], "chips": 60, "layout": "tp=1"}
    whole, short = (search("gpt2", Demand(512, 128), limits, seconds=s, **chosen) for s in (600, 1e-6))
    assert whole.unseen == 0
    assert whole.unseen_gain == 0
    assert short.plans
    assert short.unseen_gain is None
    assert short.left_out["time"] == 1 + 4  # the other machine, and the pairs of machines
    assert short.considered < whole.considered
    only = search("gpt2", Demand(512, 128), limits, kind="disaggregated", seconds=1e-6, **{**chosen, "on": ON})
    assert only.plans
    assert only.deployments == 59 * 60 // 2


@pytest.mark.parametrize("words", ["60", "61.5", "60s", "2min"])
def test_a_time_is_a_number_of_seconds_or_has_a_unit(capsys: pytest.CaptureFixture[str], words: str) -> None:
    main(["search", "gpt2", "--on", ON, "--chips", "2", "--input", "9", "--output-tokens", "290", "--seconds", words])
    assert "not looked at" not in capsys.readouterr().out


def test_no_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("0", "-1", "soon", "1.2.3"):
        with pytest.raises(SystemExit) as ended:
            main(["search", "gpt2", "--on", ON, "--input", "9", "--output-tokens", "9", f"--seconds={words}"])
        assert ended.value.code == 2
        assert "--seconds" in capsys.readouterr().err


def test_replicas_at_a_rate_are_looked_at_until_the_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_replicas, "WIDTH", 12)
    demand = Demand(512, 128, rate=5000.0)
    answer = search(
        "gpt2", demand, Limits(tpot=1e-6), on=ON, chips=4000, layout="tp=1", kind="aggregated", seconds=1e-6
    )
    assert not answer.plans
    assert answer.unseen > 3000


def test_splits_around_others_are_legal_and_new() -> None:
    space, sites, demand, limits = drawn(1)
    for pair in pool_pairs(space, sites, demand, limits):
        every = cross(pair, space.chips)
        some = every.where(np.arange(0, len(every), 7))
        near = pair.splits.around(some, serving_pools.FACTORS)
        new = near.without(some)
        known = set(zip(*(getattr(every, name).tolist() for name in NAMES), strict=True))
        others = set(zip(*(getattr(some, name).tolist() for name in NAMES), strict=True))
        told = list(zip(*(getattr(new, name).tolist() for name in NAMES), strict=True))
        assert len(set(told)) == len(told) > 0
        assert set(told) <= known - others


def test_layouts_and_pairs_of_them_have_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rl.InputError, match="layouts: expected at most 1024, got 1025"):
        search(MODEL, Demand(100, 10), on=ON, chips=1, layouts=["tp=1"] * 1025)
    monkeypatch.setattr(serving_pools, "MOST_PAIRS", 3)
    with pytest.raises(rl.InputError, match="at most 3 pairs"):
        search(MODEL, Demand(100, 10), on=ON, chips=4, layouts=["tp=1", "tp=2"])


def test_replicas_at_a_rate_in_pieces_are_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    demand, limits = Demand(512, 128, rate=5000.0), Limits(ttft=0.1, tpot=0.005)
    site = Site(Where(on=ON))
    space = SiteSpace(rl.load("gpt2"), (site,), 40, [layout_named(x) for x in ("tp=1", "tp=2", "pp=2")])
    whole = aggregated(space, site, demand, limits)
    monkeypatch.setattr(serving_replicas, "WIDTH", 12)
    pieces = aggregated(space, site, demand, limits)
    assert [(p.replicas, p.layout) for p in pieces.plans] == [(p.replicas, p.layout) for p in whole.plans]
    assert len(whole.plans) == 3
    assert pieces.considered < whole.considered
    monkeypatch.setattr(serving_replicas, "MOST_NUMBERS", 20)
    with pytest.raises(rl.InputError, match="numbers of replicas did not"):
        aggregated(space, site, demand, Limits(tpot=1e-6))


def test_the_plans_are_counted_before_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    numbers: list[int] = []
    s = search(MODEL, Demand(1000, 100, concurrency=9), on=ON, chips=6, layouts="tp=1", counted=numbers.append)
    assert numbers == [6 + 15]
    assert s.deployments == 21
    words = "search gpt2 --on h100-sxm --chips 500 --concurrency 9 --input 512 --output-tokens 128 --layout tp=1"
    main(words.split())
    assert f"{500 + 499 * 500 // 2:,} plans to look at\n" in capsys.readouterr().err
