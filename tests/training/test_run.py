"""A whole run: what failures, checkpoints, stalls and evaluation take, and what it costs."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.hardware.named_chip import chip_named
from roofline.inference.cost.bill import Bill
from roofline.inference.cost.cost import Cost, Tariff, tariff
from roofline.training.runs.failures import LLAMA, RECORDS, best_interval, kept_share, share_short
from roofline.training.runs.ramp import ramp_steps
from roofline.training.runs.run import forward_seconds

LLAMA_8B = "meta-llama/Llama-3.1-8B"
STEP: dict[str, Any] = {"batch": 64, "tokens": 4096, "on": "dgx-h100"}


@pytest.fixture(scope="module")
def step() -> Any:
    return rl.train(LLAMA_8B, layout="tp=2,dp=4,zero=1", **STEP)


# -- failures ------------------------------------------------------------------------------------------------------
def test_the_record_of_llama_3_adds_up() -> None:
    """Table 5: 419 interruptions by root cause; 54 days of 16,384 chips are 50,677 chip hours for each."""
    assert sum(LLAMA.values()) == 419
    assert RECORDS["llama-3"].mtbf_hours == pytest.approx(54 * 24 * 16_384 / 419) == pytest.approx(50_677, abs=1)


def test_the_record_of_a_research_cluster_gives_its_published_projection() -> None:
    """arXiv:2410.21680: 16,384 chips of RSC-1 fail every 1.8 hours."""
    assert RECORDS["rsc-1"].mtbf_hours / 16_384 == pytest.approx(1.8, abs=0.01)


def played(interval: float, save: float, restart: float, apart: float, segments: int, seed: int) -> float:
    """The share that lasts, event by event: nothing but failures at random and a clock."""
    draw = random.Random(seed)
    clock, failing = 0.0, draw.expovariate(1 / apart)
    for _ in range(segments):
        while failing < clock + interval + save:
            clock = failing
            failing = clock + draw.expovariate(1 / apart)
            while failing < clock + restart:
                clock = failing
                failing = clock + draw.expovariate(1 / apart)
            clock += restart
        clock += interval + save
    return segments * interval / clock


@pytest.mark.parametrize(
    ("interval", "save", "restart", "apart"), [(472, 10, 600, 11_135), (1000, 60, 1800, 11_135), (3000, 600, 900, 4000)]
)
def test_what_lasts_is_what_a_simulation_leaves(interval: float, save: float, restart: float, apart: float) -> None:
    shares = [played(interval, save, restart, apart, 30_000, seed) for seed in range(4)]
    assert kept_share(interval, save, restart, apart) == pytest.approx(sum(shares) / 4, rel=0.01)


def test_the_best_interval_is_the_best_of_a_simulation() -> None:
    """Of intervals half and twice as long, none leaves more; the formula's optimum lies within a fifth of Young's."""
    save, apart = 60.0, 20_000.0
    best = best_interval(save, apart)
    here = kept_share(best, save, 0, apart)
    assert kept_share(best / 2, save, 0, apart) < here
    assert kept_share(best * 2, save, 0, apart) < here
    mine = played(best, save, 0, apart, 60_000, 1)
    assert played(best / 3, save, 0, apart, 60_000, 2) < mine
    assert played(best * 3, save, 0, apart, 60_000, 3) < mine


@given(
    interval=st.floats(1, 1e5), save=st.floats(0, 1e4), restart=st.floats(0, 1e5), apart=st.floats(1, 1e9),
    more=st.floats(1.01, 10),
)  # fmt: skip
def test_a_share_is_one_and_shrinks(interval: float, save: float, restart: float, apart: float, more: float) -> None:
    share = kept_share(interval, save, restart, apart)
    assert 0 <= share <= 1
    assert kept_share(interval, save * more + 1, restart, apart) <= share
    assert kept_share(interval, save, restart * more + 1, apart) <= share
    assert kept_share(interval, save, restart, apart * more) >= share * (1 - 1e-12)


# -- spare nodes ---------------------------------------------------------------------------------------------------
def played_short(spares: int, away: float, apart: float, failures: int, constant: bool) -> float:
    """The share of the time without nodes enough, event by event: a clock, failures, and the nodes that are away."""
    draw = random.Random(spares)
    clock, waited, back = 0.0, 0.0, list[float]()
    for _ in range(failures):
        clock += draw.expovariate(1 / apart)  # of time at work: nothing fails while the run waits
        back = [t for t in back if t > clock]
        back.append(clock + (away if constant else draw.expovariate(1 / away)))
        if len(back) > spares:
            first = min(back)
            waited, clock = waited + first - clock, first
            back.remove(first)
    return waited / clock


@folded("case", [(0, 2.0, True), (0, 0.3, False), (1, 1.0, True), (2, 1.0, False), (3, 5.0, True)], ids=str)
def test_spare_nodes_are_those_of_a_simulation(case: tuple[int, float, bool]) -> None:
    spares, away, constant = case
    share = share_short(spares, away, 1.0)
    assert share == pytest.approx(played_short(spares, away, 1.0, 60_000, constant), rel=0.06)
    a, c = away, spares + 1
    assert share == pytest.approx(a**c / math.factorial(c) / sum(a**k / math.factorial(k) for k in range(c + 1)))


def test_a_run_waits_for_a_node_where_no_spare_is_left(step: Any) -> None:
    """One failure in 100 hours of the run, a day until a node is back: without a spare 24 of 124 hours are lost."""
    said: dict[str, Any] = {"mtbf_hours": 800, "price": 2.0, "power": 1000.0}
    ready = rl.run(step, 1e12, **said)
    alone = rl.run(step, 1e12, spare_nodes=0, repair_hours=24, **said)
    assert alone.short == pytest.approx(24 / 124)
    assert alone.progress == pytest.approx(ready.progress * 100 / 124)
    assert alone.failures == pytest.approx(ready.failures)
    assert alone.parts["repairs"] == pytest.approx(24 * 3600 * alone.failures)
    assert sum(alone.parts.values()) == pytest.approx(alone.seconds)
    assert alone.parts["failures"] == pytest.approx(ready.parts["failures"])
    spare = rl.run(step, 1e12, spare_nodes=1, repair_hours=24, **said)
    assert spare.short == pytest.approx(share_short(1, 24, 100))
    assert spare.chip_hours == pytest.approx(16 * spare.seconds / 3600)
    assert spare.cost == pytest.approx(2 * spare.chip_hours)
    assert alone.seconds > spare.seconds > ready.seconds
    assert rl.run(step, 1e12, spare_nodes=0, repair_hours=0, **said).seconds == pytest.approx(ready.seconds)


# -- checkpoints ---------------------------------------------------------------------------------------------------
def test_the_bytes_of_a_checkpoint_by_hand(step: Any) -> None:
    """8,030,261,248 parameters: 2 bytes of weight, 4 of master, 8 of Adam's moments; 100 GB/s of storage."""
    run = rl.run(step, 1e12, storage=100e9)
    assert run.saving.size == 8_030_261_248 * 14
    assert run.saving.blocking == pytest.approx(8_030_261_248 * 14 / 100e9)
    assert run.saving.writing == 0


def test_an_asynchronous_checkpoint_waits_for_the_copy_alone(step: Any) -> None:
    """A rank copies its weights and its quarter of the state over PCIe at 80 % of 64 GB/s."""
    run = rl.run(step, 1e12, storage=1e9, asynchronous=True)
    memory = step.stages[0].memory
    assert run.saving.blocking == pytest.approx((memory.weights + memory.optimizer) / (0.8 * step.chip.host))
    assert run.saving.writing == pytest.approx(8_030_261_248 * 14 / 1e9)
    assert run.checkpoint_interval >= run.saving.writing
    less = rl.run(rl.train(LLAMA_8B, layout="tp=2,dp=4", **STEP), 1e12, storage=1e9, asynchronous=True)
    assert less.saving.size == run.saving.size
    assert less.saving.rank_size > run.saving.rank_size


# -- the run -------------------------------------------------------------------------------------------------------
def test_where_the_time_goes_adds_up(step: Any) -> None:
    run = rl.run(
        step, 1e12, mtbf_hours=500, storage=1e9, stall_seconds=0.01, evaluation_tokens=4096 * 64 * 10,
        evaluation_every=100, dataset_tokens=5e11,
    )  # fmt: skip
    parts = run.parts
    assert sum(parts.values()) == pytest.approx(run.seconds)
    assert min(value for name, value in parts.items() if name != "repairs") > 0
    assert parts["data"] == pytest.approx(run.steps * 0.01)
    assert parts["evaluation"] == pytest.approx(run.steps // 100 * 10 * forward_seconds(step))
    assert run.progress == pytest.approx(parts["steps"] / run.seconds)
    assert run.epochs == 2


def test_forward_passes_by_hand(step: Any) -> None:
    """One stage: every micro-batch's forward. Four: one starts on each as soon as it is there and free."""
    assert forward_seconds(step) == pytest.approx(step.micro_batches * step.stages[0].passes.forward.expected)
    piped = rl.train(LLAMA_8B, layout="pp=4,dp=2,zero=1", **STEP)
    free = [0.0] * 4
    for _ in range(int(piped.micro_batches)):
        there = 0.0
        for i, stage in enumerate(piped.stages):
            free[i] = max(free[i], there) + stage.passes.forward.expected
            there = free[i] + stage.passes.send.expected
    assert forward_seconds(piped) == pytest.approx(free[-1])


def test_failures_by_what_fails(step: Any) -> None:
    run = rl.run(step, 1e12)
    assert (
        sum(run.failures_by.values())
        == pytest.approx(run.failures)
        == pytest.approx(run.chip_hours * 419 / (54 * 24 * 16_384))
    )
    assert run.failures_by["GPU"] == pytest.approx(run.failures * 148 / 419)
    assert rl.run(step, 1e12, mtbf_hours=1e5).failures_by == {}
    assert rl.run(step, 1e12, failures="rsc-1").failures > run.failures


def test_what_it_costs_by_hand(step: Any) -> None:
    run = rl.run(step, 1e12, price=2.0, power=1000.0, pue=1.25, grid=0.4)
    hours = 8 * run.seconds / 3600
    assert run.cost == pytest.approx(2 * hours)
    assert run.energy == pytest.approx(hours * 3600 * 1000 * 1.25)
    assert run.carbon == pytest.approx(hours * 1.25 * 0.4)
    shared = rl.run(step, 1e12, power_share=0.8)
    assert shared.energy == pytest.approx(hours * 3600 * 0.8 * step.chip.tdp)


def test_every_assumption_names_its_setting(step: Any) -> None:
    said = " ".join(rl.run(step, 1e12, grid=0.4).assumptions)
    for name in (
        "mtbf_hours",
        "storage",
        "restart_seconds",
        "stall_seconds",
        "evaluation_tokens",
        "price",
        "pue",
        "grid",
    ):
        assert name in said


@folded(
    "options",
    [
        {"failures": "titanic"}, {"failures": "rsc-1", "mtbf_hours": 5}, {"storage": 0}, {"asynchronous": True},
        {"storage": 1e9, "save_seconds": 3}, {"stall_seconds": -1}, {"evaluation_tokens": 5}, {"evaluation_every": 5},
        {"pue": 0.9}, {"power": 500, "power_share": 0.5}, {"price": -1}, {"dataset_tokens": 0},
        {"restart_seconds": [1, 2]}, {"evaluation_every": 1.5, "evaluation_tokens": 9},
        {"spare_nodes": 1}, {"repair_hours": 5}, {"spare_nodes": -1, "repair_hours": 5},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_an_input_error(step: Any, options: dict[str, Any]) -> None:
    with pytest.raises(rl.InputError):
        rl.run(step, 1e12, **options)


def test_a_setting_that_a_run_does_not_have(step: Any) -> None:
    with pytest.raises(TypeError, match=r"run.* has no setting 'saves'; nearest: save_seconds"):
        rl.run(step, 1e12, saves=3)


def test_what_is_said_of_a_run_changes_the_bill_of_its_step() -> None:
    paid = rl.train(LLAMA_8B, layout="tp=2,dp=4", utilisation=0.5, price=2.0, **STEP)
    assert rl.run(paid, 1e12).cost == pytest.approx(2 * rl.run(paid, 1e12, utilisation=1.0).cost)
    assert rl.run(paid, 1e12, price=4.0).cost == pytest.approx(2 * rl.run(paid, 1e12).cost)


# -- cost, of anything ---------------------------------------------------------------------------------------------
def test_a_million_tokens_of_a_server_by_hand() -> None:
    """Eight chips at 2 $ and 1 kW make 10,000 tokens/s: 16 $ an hour over 36 million tokens; 0.8 J each."""
    second = Cost(8, 1.0, Tariff(Bill(2.0), 1000.0, 1000.0))
    assert second.usd_per(10_000 / 1e6) == pytest.approx(16 / 36)
    assert second.joules_per(10_000) == pytest.approx(0.8)


def test_nobody_knows_the_price() -> None:
    chip = chip_named("peak=100T,bw=1T,mem=16G")
    known = tariff(chip)
    assert (known.price, known.power) == (None, None)
    bill = Cost(1, 10.0, known)
    assert (bill.usd, bill.joules, bill.carbon, bill.usd_per(1), bill.joules_per(1)) == (None,) * 5
    with pytest.raises(rl.InputError, match="power_share"):
        tariff(chip, Bill(power_share=0.5))


# -- batch ramp-up -------------------------------------------------------------------------------------------------
@folded(
    ("batch", "start", "increment", "samples"),
    [(64, 16, 16, 300), (2048, 192, 16, 9_765_625), (1536, 16, 16, 5_859_375), (512, 512, 8, 100), (512, 32, 32, 10),
     (256, 64, 96, 1)],
)  # fmt: skip
def test_a_batch_grows_as_megatron_s_does(batch: int, start: int, increment: int, samples: int) -> None:
    """Step by step as its `update` has it: int(consumed / samples for each increment) increments."""
    consumed, steps = 0, Counter[int]()
    growths = (batch - start) // increment
    while growths and consumed <= samples:
        size = start + int(consumed / (samples / growths)) * increment
        if size >= batch:
            break
        steps[size] += 1
        consumed += size
    assert ramp_steps(batch, start, increment, samples) == tuple(sorted(steps.items()))


def test_a_ramp_adds_its_steps_and_nothing_else() -> None:
    e = rl.train("meta-llama/Llama-3.2-1B", batch=64, tokens=1024, on="dgx-h100", layout="dp=8,zero=1")
    plain, ramped = rl.run(e, 1e9), rl.run(e, 1e9, rampup_batch_size="16,16,3000")
    assert [(x.batch, x.steps) for x in ramped.ramp] == [(16, 63), (32, 31), (48, 21)]
    consumed = 63 * 16 + 31 * 32 + 21 * 48
    whole = math.ceil((1e9 - consumed * 1024) / (64 * 1024))
    assert ramped.steps == 63 + 31 + 21 + whole
    own = [
        float(rl.train("meta-llama/Llama-3.2-1B", batch=b, tokens=1024, on="dgx-h100", layout="dp=8,zero=1").time)
        for b in (16, 32, 48)
    ]
    assert ramped.ideal_seconds == pytest.approx(63 * own[0] + 31 * own[1] + 21 * own[2] + whole * float(e.time))
    assert ramped.seconds > plain.seconds
    assert sum(x.steps for x in rl.run(e, 2e5, rampup_batch_size=[16, 16, 3000]).ramp) == 13


@folded("ramp", ["16,16", "0,16,300", "24,16,300", "128,8,300", "4,4,300", 7])
def test_a_ramp_that_does_not_lead_to_the_batch_is_an_input_error(ramp: Any) -> None:
    e = rl.train("meta-llama/Llama-3.2-1B", batch=64, tokens=1024, on="dgx-h100", layout="dp=8,zero=1")
    with pytest.raises(rl.InputError, match="rampup_batch_size"):
        rl.run(e, 1e9, rampup_batch_size=ramp)
