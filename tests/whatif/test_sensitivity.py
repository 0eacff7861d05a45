"""Elasticities against closed forms, Euler's theorem, and the slopes of the public estimates."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from typing import Any

import pytest

import roofline as rl
from roofline.doors.cli.main import main
from roofline.inference.settings import setup
from roofline.whatif.query.knobs import KNOBS, RATES
from roofline.whatif.query.query import OpenQuestion
from roofline.whatif.sensitivity.sensitivity import ideal_elasticities, slope
from roofline.whatif.sensitivity.tornado import OperatingPoint, answers

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
MIXTURE = rl.load("Qwen/Qwen3-30B-A3B")
ON = {"on": "h100-sxm"}


def test_a_power_has_its_exponent() -> None:
    for power in (-1.0, -0.5, 2.0):
        value, error = slope(lambda x, power=power: power * x)
        assert value == pytest.approx(power, rel=1e-12)
        assert error < 1e-12


@pytest.mark.parametrize("model", [LLAMA, MIXTURE], ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("layout", "sizes", "step"),
    [
        ("tp=1", {"batch": 16, "context": 2048}, rl.decode(16, 2048)),
        ("tp=4", {"batch": 16, "context": 2048}, rl.decode(16, 2048)),
        ("tp=2", {"batch": 2, "input": 1500}, rl.prefill(2, 1500)),
    ],
)
def test_differences_are_the_closed_form(model: rl.Model, layout: str, sizes: dict[str, int], step: rl.Step) -> None:
    """Under the speed of light an op's time is max(F/P, B/W, N/L): the elasticity is the share of the ops it limits."""
    s = rl.sensitivity(model, law="ideal", layout=layout, **sizes, **ON)
    closed = ideal_elasticities(rl.estimate(model, step, law="ideal", layout=layout, **ON))
    for knob, value in closed.items():
        if knob != "link" or layout != "tp=1":
            assert s.to(knob) == pytest.approx(value, abs=1e-9)
    assert sum(closed.values()) == pytest.approx(-1, abs=1e-9)
    assert s.to("fixed seconds") == pytest.approx(0, abs=1e-9)


def test_what_all_rates_leave_is_fixed() -> None:
    """All rates together by λ: d ln T / d ln λ = −(1 − fixed share), in one difference instead of four."""
    s = rl.sensitivity(LLAMA, batch=1, input=300, output=10, layout="tp=2", **ON)
    q = OpenQuestion("generate", setup(LLAMA, layout="tp=2", **ON), {"batch": 1, "input": 300, "output_tokens": 10})

    def everything(factor: float) -> OpenQuestion:
        turned = q
        for knob in map(KNOBS.__getitem__, RATES):
            now = knob.get(turned)
            turned = turned if now is None else knob.set(turned, factor * now)
        return turned

    together, _ = slope(lambda x: log(everything(2.718281828459045**x).answer.latency.expected))
    assert together == pytest.approx(s.to("fixed seconds") - 1, abs=1e-7)
    assert 0.05 < s.to("fixed seconds") < 0.9


def test_a_slope_is_that_of_chips_from_the_command_line() -> None:
    s = rl.sensitivity(LLAMA, batch=16, context=2048, **ON)
    times = [
        rl.estimate(LLAMA, rl.decode(16, 2048), on=f"like=h100-sxm,bw={3350 * f!r}GB/s").time for f in (0.99, 1.01)
    ]
    assert s.to("bandwidth") == pytest.approx(log(times[1] / times[0]) / log(1.01 / 0.99), rel=1e-4)
    assert s.value == rl.estimate(LLAMA, rl.decode(16, 2048), **ON).time


def test_cost_is_time_by_chips() -> None:
    sizes: dict[str, Any] = {"batch": 8, "input": 512, "output": 64}
    time, cost = (rl.sensitivity(LLAMA, of=of, **sizes, **ON) for of in ("latency", "usd_per_million_tokens"))
    for knob in ("bandwidth", "peak", "fixed seconds"):
        assert cost.to(knob) == pytest.approx(time.to(knob), abs=1e-8)
    assert cost.to("price") == 1
    assert cost.to("batch") == pytest.approx(time.to("batch") - 1, abs=1e-9)
    rate = rl.sensitivity(LLAMA, of="tokens_per_second", **sizes, **ON)
    assert rate.to("fixed seconds") == pytest.approx(-time.to("fixed seconds"), abs=1e-7)


def test_work_is_between_neighbours() -> None:
    s = rl.sensitivity(LLAMA, batch=32, context=1024, **ON)
    one, other = (rl.estimate(LLAMA, rl.decode(32, n), **ON).time for n in (960, 1088))
    assert s.to("context") == pytest.approx(log(other / one) / log(1088 / 960), rel=1e-12)
    alone = rl.sensitivity(LLAMA, batch=1, context=1024, **ON)
    one, two = (rl.estimate(LLAMA, rl.decode(n, 1024), **ON).time for n in (1, 2))
    assert alone.to("batch") == pytest.approx(log(two / one) / log(2), rel=1e-12)


def test_the_model_is_that_of_the_tornado() -> None:
    s = rl.sensitivity(MIXTURE, batch=16, context=1024, **ON)
    point = OperatingPoint(setup(MIXTURE, **ON), 16, 1024)
    every = {a.knob: a.elasticity for a in answers(point) if (a.phase, a.kind) == ("decode", "architecture")}
    ours = {e.knob: e.value for e in s.elasticities if e.side == "model"}
    assert ours == pytest.approx(every, rel=1e-9)
    assert "experts per token" in ours


def test_regimes_are_those_of_the_ops() -> None:
    s = rl.sensitivity(LLAMA, batch=8, input=512, output=64, **ON)
    assert [r.phase for r in s.regimes] == ["prefill", "decode"]
    for r in s.regimes:
        assert r.compute + r.memory + r.network + r.latency == pytest.approx(1, rel=1e-9)
    assert (s.regimes[0].bound, s.regimes[1].bound) == ("compute", "memory")
    m = rl.sensitivity(LLAMA, batch=1, context=128, map=True, **ON).map
    assert m is not None
    for i, j in ((0, 0), (3, 2), (9, 0)):
        step = rl.decode(m.batch[i], m.context[j])
        assert m.bound[i][j] == rl.estimate(LLAMA, step, **ON).bound
        assert m.fits[i][j] == (m.context[j] <= rl.fit(LLAMA, batch=m.batch[i], **ON, context=1).longest_context)


def test_training_and_servers() -> None:
    s = rl.sensitivity(LLAMA, batch=8, tokens=1024, on="8xh100-sxm", layout="dp=8,zero=1")
    assert {e.side for e in s.elasticities} == {"hardware", "work", "model"}
    assert 0 < s.to("batch") < 1
    rates = [s.to(name) for name in ("peak", "bandwidth", "vector", "link")]
    assert all(rate < 0 for rate in rates)
    assert s.to("fixed seconds") == pytest.approx(1 + sum(rates))
    step = rl.train(LLAMA, batch=8, tokens=1024, on="8xh100-sxm", layout="dp=8,zero=1")
    chip = rl.chips()["h100-sxm"]
    faster = replace(chip, id="faster", like="h100-sxm", bandwidth=1.01 * chip.bandwidth, aliases=())
    again = rl.train(
        LLAMA, batch=8, tokens=1024, on=replace(step.deployment.cluster, chip=faster), layout="dp=8,zero=1"
    )
    assert log(again.time / step.time) / log(1.01) == pytest.approx(s.to("bandwidth"), rel=0.02)
    served = rl.sensitivity(LLAMA, concurrency=16, input=256, output=32, **ON)
    assert served.of == "tpot"
    assert -1 < served.to("bandwidth") < 0 < served.to("concurrency")


def test_errors_and_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(rl.InputError, match="of: expected one of"):
        rl.sensitivity(LLAMA, of="bound", context=5, **ON)
    with pytest.raises(rl.InputError, match="knob: expected one of"):
        rl.sensitivity(LLAMA, context=5, **ON).to("colour")
    with pytest.raises(rl.InputError, match="law: expected `ideal`"):
        ideal_elasticities(rl.estimate(LLAMA, rl.decode(1, 5), **ON))
    words = ["sensitivity", "meta-llama/Llama-3.1-8B", "--on", "h100-sxm", "--batch", "16", "--context", "2048"]
    main([*words, "--map"])
    out = capsys.readouterr().out
    assert "bandwidth" in out
    assert "does not fit" in out
    main([*words, "--json"])
    assert json.loads(capsys.readouterr().out)["schema"] == "roofline.sensitivity/1"
    with pytest.raises(SystemExit) as stop:
        main([*words, "--of", "colour"])
    assert stop.value.code == 2


def test_a_chip_that_is_turned_keeps_its_name() -> None:
    q = OpenQuestion("decode", setup(LLAMA, **ON), {"batch": 1, "context": 5})
    chip = q.asked.deployment.chip
    assert q.on(replace(chip, bandwidth=1e12)).asked.deployment.chip.like == "h100-sxm"


def test_energy_moves_with_the_chips_rates() -> None:
    """d ln J / d ln x by the library's own joules on chips one per mille apart; all rates and fixed seconds make 1."""
    s = rl.sensitivity(LLAMA, of="joules_per_token", batch=16, input=1024, output=256, **ON)
    chip = rl.chips()["h100-sxm"]

    def joules(factor: float) -> float:
        other = replace(chip, bandwidth=factor * chip.bandwidth)
        return float(rl.generate(LLAMA, on=other, batch=16, input=1024, output=256).joules_per_token)

    by_hand = (log(joules(1.001)) - log(joules(0.999))) / (log(1.001) - log(0.999))
    assert s.to("bandwidth") == pytest.approx(by_hand, abs=1e-4)
    rates = sum(e.value for e in s.elasticities if e.side == "hardware" and e.method == "difference")
    assert s.to("fixed seconds") == pytest.approx(1 + rates)
    assert s.unit == "J"
    power = rl.sensitivity(LLAMA, of="power", batch=16, input=1024, output=256, **ON)
    assert abs(power.to("bandwidth")) < abs(s.to("bandwidth"))
