"""Money, energy and carbon of every result, by hand and in what always holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.inference.cost.bill import price_named
from roofline.inference.cost.cost import Cost, Tariff, tariff
from roofline.kernels.power import Busy, draw_of

LLAMA = "meta-llama/Llama-3.1-8B"
H100 = rl.chips()["h100-sxm"]
SIZE: dict[str, Any] = {"input": 1024, "output": 128, "on": "h100-sxm"}


# -- bills by hand -------------------------------------------------------------------------------------------------
def test_an_owned_chip_by_hand() -> None:
    """(30,000 + 10,000) USD over 4·8,766 h is 1.1408 $/h, of which 60 % are used; 0.5 kW working, 0.1 kW·2/3 idling."""
    own = rl.Own(30_000, rest=10_000, years=4, electricity=0.1)
    hour = Cost(1, 3600.0, Tariff(rl.Bill(own, pue=1.2, utilisation=0.6), 500.0, 100.0))
    assert own.usd_per_hour == pytest.approx(40_000 / 35_064)
    assert hour.joules == pytest.approx(3600 * (500 + 100 * (1 / 0.6 - 1)) * 1.2)
    assert hour.usd == pytest.approx(40_000 / 35_064 / 0.6 + (0.5 + 0.1 * 2 / 3) * 1.2 * 0.1)


def test_a_rented_chip_by_hand() -> None:
    """Two chips at 3 $ for half an hour, used half of the time: 6 $."""
    assert Cost(2, 1800.0, Tariff(rl.Bill(3.0, utilisation=0.5), None, None)).usd == pytest.approx(6)


def test_what_a_chip_draws_is_its_own_where_nothing_is_given() -> None:
    paid = tariff(H100, rl.Bill(pue=1.5, grid="fr"))
    d = draw_of(H100)
    assert d is not None
    busy = Busy(10.0, 1.0, 5.0)
    spent = Cost(1, 10.0, paid, busy=busy)
    assert spent.joules == pytest.approx(1.5 * d.joules(10.0, busy))
    assert spent.carbon == pytest.approx(1.5 * d.joules(10.0, busy) / 3.6e6 * 0.067)
    assert Cost(1, 10.0, paid).mean_power == 700


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("2.5", 2.5), ("own(30000)", rl.Own(30_000)), ("own(price=3e4,years=5)", rl.Own(30_000, years=5)),
        ("own(30000, rest=12000, electricity=0.08)", rl.Own(30_000, 12_000, 4, 0.08)),
    ],
)  # fmt: skip
def test_prices_as_they_are_written(text: str, price: object) -> None:
    assert price_named(text) == price


def test_years_are_of_what_is_owned() -> None:
    assert price_named("own(30000)", 3) == rl.Own(30_000, years=3)
    with pytest.raises(InputError, match="years"):
        price_named("2.5", 3)


@folded("text", ["", "own", "own()", "own(x)", "own(rest=3)", "own(1,2)", "own(1,cost=2)", "inf"])
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(InputError, match="price"):
        price_named(text)


@folded(
    "asked",
    [
        {"price": -1}, {"price": "two"}, {"utilisation": 0}, {"utilisation": 1.1}, {"pue": 0.9}, {"grid": "atlantis"},
        {"grid": 380}, {"power": -5}, {"power": 500, "power_share": 0.5}, {"pue": None}, {"power": [1, 2]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_bill(asked: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        rl.Bill(**asked)


def test_a_bill_is_a_bill() -> None:
    with pytest.raises(InputError, match="bill"):
        rl.generate(LLAMA, bill=2.5, **SIZE)


# -- results -------------------------------------------------------------------------------------------------------
def results(bill: rl.Bill) -> dict[str, Any]:
    return {
        "generation": rl.generate(LLAMA, batch=8, bill=bill, **SIZE),
        "serving": rl.serve(LLAMA, concurrency=8, bill=bill, **SIZE),
        "idle server": rl.serve(LLAMA, rate=0.1, bill=bill, **SIZE),
        "pools": rl.pools(LLAMA, concurrency=8, chips=4, bill=bill, **SIZE),
    }


PLAIN = results(rl.Bill(grid=0.4))


@pytest.mark.parametrize("name", PLAIN)
def test_input_and_output_are_all_that_is_paid(name: str) -> None:
    r = PLAIN[name]
    whole = 128 * r.usd_per_million_tokens
    assert 1024 * r.usd_per_million_input + 128 * r.usd_per_million_output == pytest.approx(whole)
    assert r.usd_per_million_input < r.usd_per_million_output
    assert r.usd_per_hour / 3600 / r.tokens_per_second * 1e6 == pytest.approx(r.usd_per_million_tokens)


@pytest.mark.parametrize("name", PLAIN)
def test_power_is_joules_a_second(name: str) -> None:
    r = PLAIN[name]
    assert r.joules_per_token == pytest.approx(r.power / r.tokens_per_second)
    assert r.co2_per_million_tokens == pytest.approx(r.joules_per_token * 1e6 / 3.6e6 * 0.4 * 1000)
    chips = r.chips if name == "pools" else 1
    assert 70 * chips < r.power <= 700 * chips


def test_the_price_of_a_chip_is_the_catalogs() -> None:
    assert H100.price is not None
    assert PLAIN["serving"].usd_per_hour == pytest.approx(H100.price.usd_per_hour)
    assert PLAIN["pools"].usd_per_hour == pytest.approx(4 * H100.price.usd_per_hour)


def test_the_site_scales_energy_and_no_power() -> None:
    for name, r in results(rl.Bill(grid=0.4, pue=1.25)).items():
        assert r.joules_per_token == pytest.approx(1.25 * PLAIN[name].joules_per_token)
        assert (r.power, r.usd_per_hour) == (PLAIN[name].power, PLAIN[name].usd_per_hour)


@given(share=st.floats(0.05, 0.99))
def test_more_of_the_hours_is_cheaper(share: float) -> None:
    for price in (3.0, rl.Own(30_000)):
        busy, little = (Cost(8, 10.0, tariff(H100, rl.Bill(price=price, utilisation=u))) for u in (1.0, share))
        assert busy.usd is not None
        assert little.usd is not None
        assert busy.usd < little.usd


def test_a_larger_batch_takes_less_energy_a_token() -> None:
    sizes = np.array([1, 2, 4, 8, 16, 32, 64])
    joules = np.asarray(rl.generate(LLAMA, batch=sizes, **SIZE).joules_per_token)
    assert np.all(np.diff(joules) < 0)
    for i, size in enumerate(sizes.tolist()):
        assert rl.generate(LLAMA, batch=size, **SIZE).joules_per_token == pytest.approx(joules[i])


def test_a_step_by_its_sums() -> None:
    """All chips for the step, and the work of every rank; here of one."""
    e = rl.estimate(LLAMA, rl.decode(batch=16, context=2048), on="h100-sxm")
    d = draw_of(H100)
    assert d is not None
    joules = (d.idle + d.awake) * e.time + d.compute * e.compute_time + d.memory * e.memory_time
    joules += d.tiles * e.total.tiles
    assert e.power * e.time == pytest.approx(joules)
    assert e.joules_per_token == pytest.approx(joules / 16)


def test_stages_do_the_work_of_a_step_together() -> None:
    """Two stages of one group each: the memory is read once, and each chip is idle half of the time."""
    one = rl.estimate(LLAMA, rl.decode(batch=1, context=2048), on="2xh100-sxm", layout="pp=2")
    d = draw_of(H100)
    assert d is not None
    work = d.awake * one.time + d.compute * one.compute_time + d.memory * one.memory_time
    work += d.tiles * one.total.tiles
    assert one.power * one.time == pytest.approx(2 * d.idle * one.time + work + d.link * one.network_time)


def test_given_watts_are_the_chips() -> None:
    r = rl.serve(LLAMA, concurrency=8, bill=rl.Bill(power=650.0), **SIZE)
    assert r.power == pytest.approx(650)


def test_nobody_knows_price_or_power() -> None:
    r = rl.generate(LLAMA, input=64, output=8, on="peak=100T,bw=1T,mem=64G", engine="none")
    assert (r.usd_per_hour, r.power, r.joules_per_token, r.co2_per_million_tokens) == (None,) * 4


def test_every_assumption_names_its_setting() -> None:
    said = " ".join(
        rl.serve(LLAMA, concurrency=8, bill=rl.Bill(price=rl.Own(30_000), grid="se"), **SIZE).cost_assumptions
    )
    for name in ("price", "utilisation", "power", "pue", "grid"):
        assert f"{name}" in said.replace("[power, power_share, pue]", "power pue")


def test_training_takes_the_same_bill() -> None:
    bill = rl.Bill(price=2.0, pue=1.1, grid=0.3)
    e = rl.train(LLAMA, batch=8, tokens=2048, on="8xh100-sxm", layout="dp=8,zero=3", bill=bill)
    assert e.usd_per_hour == pytest.approx(16)
    assert e.joules_per_token == pytest.approx(1.1 * e.power * e.time / e.tokens)
    assert 8 * 70 < e.power <= 8 * 700
    run: Any = rl.run(e, 1e9)
    assert run.cost == pytest.approx(16 * run.seconds / 3600)
    assert run.carbon == pytest.approx(run.energy / 3.6e6 * 0.3)
    assert run.energy <= 1.1 * 8 * 700 * run.seconds


def test_a_simulation_spends_what_the_server_does() -> None:
    """Request by request, at the means: as the server in steady state to a few percent."""
    bill = rl.Bill(pue=1.2)
    s: Any = rl.simulate(LLAMA, rate=4, extent=rl.Extent(requests=500), bill=bill, **SIZE)
    r = rl.serve(LLAMA, rate=4, bill=bill, **SIZE)
    assert s.power == pytest.approx(r.power, rel=0.05)
    assert s.joules_per_token == pytest.approx(1.2 * s.power / s.tokens_per_second, rel=0.01)
    assert s.usd_per_hour == pytest.approx(r.usd_per_hour)


def test_encoding_the_images_of_a_prompt_takes_energy() -> None:
    """Qwen2.5-VL's tower by hand (arXiv:2502.13923 table 1): 72² patches, windows of 64 in all but 4 of 32 layers.

    Multiply-adds of a patch: 6·14²·1280 to embed it, 4·1280² + 3·1280·3420 and 2·1280 a key in a layer, and a quarter
    of the merger's 5120² + 5120·3584. A server of two images a second also prefills the 1,298 tokens that they are.
    """
    asked: dict[str, Any] = {"on": "h100-sxm", "precision": "bf16", "output_tokens": 64, "rate": 2.0, "input_cv": 0}
    of = rl.load("Qwen/Qwen2.5-VL-7B-Instruct")
    seen = rl.serve(of, input=100, images=rl.Images(1, 1008, 1008), **asked)
    text = rl.serve(of, input=100 + 36 * 36 + 2, **asked)
    layer = 32 * (4 * 1280**2 + 3 * 1280 * 3420) + 2 * 1280 * (28 * 64 + 4 * 72**2)
    products = 2 * 72**2 * (6 * 14**2 * 1280 + layer + (5120**2 + 5120 * 3584) / 4) / H100.peak("bf16")
    assert seen.spending.prompts.busy.compute - text.spending.prompts.busy.compute == pytest.approx(
        2 * products, rel=0.01
    )
    draw, more = draw_of(H100), seen.power - text.power
    assert draw is not None
    assert more == pytest.approx(2 * (products * draw.compute + 0.0165 * draw.awake), rel=0.05)  # 16.5 ms an image
    pooled = {"prefill_layout": "tp=1", "layout": "tp=1", "prefills": 1, "decodes": 1, **asked}
    assert rl.pools(of, input=100, images=rl.Images(1, 1008, 1008), **pooled).power == pytest.approx(
        rl.pools(of, input=100 + 36 * 36 + 2, **pooled).power + more, rel=0.02
    )


def test_a_search_for_the_least_energy() -> None:
    demand, limits = rl.Demand(1000, 100), rl.Limits(tpot=0.02)
    asked: dict[str, Any] = {"on": "h100-sxm", "chips": 4, "kinds": "aggregated", "bill": rl.Bill(pue=1.2)}
    least, fastest = (rl.search(LLAMA, demand, limits, objective=o, **asked) for o in ("energy", "throughput"))
    best: Any = least.best
    assert best.joules_per_token <= np.asarray(fastest.best.joules_per_token)
    alone = best.evaluated()
    assert best.joules_per_token == pytest.approx(alone.joules_per_token)
    assert best.usd_per_hour == pytest.approx(best.replicas * alone.usd_per_hour)


def test_joules_of_ops_add_up_to_the_steps() -> None:
    """Each has its part by what it draws: a product that reads its weights draws more than a norm."""
    e = rl.estimate("meta-llama/Llama-3.1-8B", rl.decode(8, 2048), on="h100-sxm", precision="bf16")
    joules = {op.name: op.joules for op in e.ops}
    assert sum(joules.values()) == pytest.approx(e.chip_joules) == pytest.approx(e.power * e.time)
    idle, awake, memory, compute = 70, 0.258 * 700 - 70, 0.546 * 700, 1.2 * 700
    op = next(op for op in e.ops if op.name == "gate_up_proj")
    peak, bandwidth = e.chip.peak("bf16"), e.chip.bandwidth
    moved = 32 * 2 * 4096 * 28672 / bandwidth  # weights alone: activations stay on the chip
    alone = (idle + awake) * op.expected + memory * moved + compute * op.cost.flops / peak
    assert joules["gate_up_proj"] == pytest.approx(alone, rel=0.01)
    per_second = [op.joules / op.expected for op in e.ops if op.name in ("gate_up_proj", "ffn_norm")]
    assert per_second[0] < 2 * per_second[1] < 6 * per_second[0]


def test_joules_of_ops_under_a_boards_limit_over_batches_and_where_unknown() -> None:
    model = "meta-llama/Llama-3.1-8B"
    full = rl.estimate(model, rl.prefill(4, 4096), on="h100-sxm@300W", precision="bf16")
    assert sum(op.joules for op in full.ops) == pytest.approx(300 * full.time)
    many = rl.estimate(model, rl.decode(np.array([1, 64]), 512), on="h100-sxm", precision="bf16")
    one = rl.estimate(model, rl.decode(64, 512), on="h100-sxm", precision="bf16")
    assert [op.joules[1] for op in many.ops] == pytest.approx([op.joules for op in one.ops])
    unknown = rl.estimate(model, rl.decode(1, 512), on="vr200", precision="bf16")
    assert {op.joules for op in unknown.ops} == {unknown.chip_joules} == {None}


def test_an_op_that_takes_no_time_has_no_joules() -> None:
    """Of several layouts at once some run no collective."""
    layouts = rl.Layout(tp=np.array([1, 2]))
    e = rl.estimate("meta-llama/Llama-3.1-8B", rl.decode(8, 512), on="8xh100-sxm", layout=layouts, precision="bf16")
    idle = [op for op in e.ops if (np.broadcast_to(op.expected, e.shape) == 0).any()]
    assert idle
    assert all((op.joules[op.expected == 0] == 0).all() for op in idle)
    assert sum(op.joules for op in e.ops) == pytest.approx(e.chip_joules)
