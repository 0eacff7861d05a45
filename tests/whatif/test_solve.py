"""`solve` against every value in turn, break-evens by hand, and figures that public functions give for its answers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import by_day, folded
from roofline.declared.numbers.bracketing import real_end, whole_end
from roofline.doors.cli.main import main
from roofline.whatif.query.condition import condition_of
from roofline.whatif.query.knobs import HARDWARE, WORK
from roofline.whatif.query.parsing import side_named
from roofline.whatif.solve.break_even import Owned
from roofline.whatif.solve.solve import FINDS

SMALL = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 32000,
    "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 4, "dtype": "bfloat16",
    "max_position_embeddings": 4096,
}  # fmt: skip
MODEL = rl.load(SMALL)
ON = {"on": "h100-sxm"}


def solved(**options: Any) -> rl.Solution:
    return rl.solve(MODEL, **{**ON, **options})


# -- the search itself ---------------------------------------------------------------------------------------------
@settings(max_examples=by_day(60, 200), deadline=None)
@given(st.integers(1, 50), st.integers(51, 5000), st.integers(0, 6000), st.booleans(), st.integers(2, 600))
def test_a_threshold_is_what_counting_gives(low: int, high: int, limit: int, greatest: bool, block: int) -> None:
    def use(values: Any) -> Any:
        return np.where((values <= limit) if greatest else (values >= limit), 0.5, 2.0)

    holding = [n for n in range(low, high + 1) if use(np.array([n]))[0] <= 1]
    end = whole_end(low, high, use, greatest, block)
    assert end.value == ((holding[-1] if greatest else holding[0]) if holding else None)
    assert end.single
    if end.value is not None and len(holding) < high - low + 1:
        assert end.beyond == end.value + (1 if greatest else -1)
    elif end.value is not None:
        assert end.beyond is None


def test_what_holds_in_several_stretches_is_said() -> None:
    def holds(values: Any) -> Any:  # up to 10, and again from 20 to 40
        return np.where((values <= 10) | ((values >= 20) & (values <= 40)), 0.5, 2.0)

    end = whole_end(1, 1000, holds, True, 2048)
    assert (end.value, end.beyond, end.single) == (40, 41, False)
    assert whole_end(1, 1000, holds, False, 2048).value == 1


@settings(max_examples=by_day(30, 100), deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(0.2, 3.0), st.booleans(), st.booleans())
def test_a_root_is_where_the_power_says(limit: float, power: float, greatest: bool, steps: bool) -> None:
    def use(x: float) -> float:  # (x / limit)^±p reaches 1 at the limit; `steps`: yes or no alone
        share = (x / limit) ** (power if greatest else -power)
        return (0.0 if share <= 1 else np.inf) if steps else share

    end = real_end(1e-4, 1e4, use, greatest, 1e-9)
    assert end.value == pytest.approx(limit, rel=2e-9)
    assert end.beyond is not None
    assert end.value is not None
    assert use(end.value) <= 1 < use(end.beyond)
    assert abs(end.beyond - end.value) <= 1.01e-9 * max(end.value, end.beyond)
    assert end.single


# -- whole numbers against every value -----------------------------------------------------------------------------
def drawn(seed: int) -> tuple[str, str, dict[str, Any], list[int], Any]:
    """A question, all of its values, and the figure at all of them as the public functions have it."""
    draw = random.Random(seed)
    find = draw.choice(["batch", "context", "input", "output"])
    if find == "batch":
        context, values = draw.randrange(100, 4000), list(range(1, 1200))
        time = rl.estimate(MODEL, rl.decode(batch=np.array(values), context=context), **ON).time
        return find, "time", {"context": context}, values, time
    if find == "context":
        batch, values = draw.randrange(1, 200), list(range(1, 4096))
        time = rl.estimate(MODEL, rl.decode(batch=batch, context=np.array(values)), **ON).time
        return find, "time", {"batch": batch}, values, time
    other = draw.randrange(1, 1000)
    values = list(range(1, 4096 - other + 2))
    sizes = {"input": other, "output": np.array(values)} if find == "output" else {"input": np.array(values),
                                                                                    "output": other}  # fmt: skip
    metric = draw.choice(["latency", "ttft"]) if find == "input" else "latency"
    given = {"output" if find == "input" else "input": other, "batch": draw.randrange(1, 64)}
    g = rl.generate(MODEL, **{**sizes, "batch": given["batch"]}, **ON)
    return find, metric, given, values, getattr(g, metric).expected


@folded("seed", range(30))
def test_whole_numbers_are_those_of_brute_force(seed: int) -> None:
    find, metric, others, values, figures = drawn(seed)
    limit = float(np.quantile(figures, random.Random(seed).random()))
    s = solved(find=find, where=f"{metric} <= {1e6 * limit:.12g}us", **others)
    bound = s.requirements[0].limit if s.requirements else limit
    holding = [v for v, f in zip(values, figures, strict=True) if f <= bound]
    assert s.value is not None
    assert s.extreme == "greatest"
    assert s.value == max(holding)
    if s.beyond is not None:
        (row,) = s.requirements
        assert s.beyond == s.value + 1
        assert row.value == pytest.approx(figures[values.index(int(s.value))], rel=1e-12)
        assert row.value <= row.limit < row.beyond  # type: ignore[operator]
        assert s.binding == metric
    else:
        assert s.binding == "the context of the model"


def test_the_largest_batch_is_that_of_fit() -> None:
    for context in (500, 1000, 3000):
        s = solved(find="batch", where="fits", context=context, on="l4", engine="vllm(max_num_seqs=4096)")
        most = rl.fit(MODEL, batch=1, context=context + 1, on="l4", engine="vllm(max_num_seqs=4096)").largest_batch
        assert s.value == most
        assert s.fits is True


def test_the_critical_batch_is_the_first_that_computes() -> None:
    s = solved(find="batch", where="bound = compute", context=128)
    bounds = rl.estimate(MODEL, rl.decode(batch=np.arange(1, 2000), context=128), **ON).bound
    assert s.extreme == "least"
    assert s.value == int(np.argmax(bounds == "compute")) + 1
    assert (s.requirements[0].value, s.requirements[0].beyond) == ("compute", "memory")


def test_a_target_takes_the_least() -> None:
    s = solved(find="batch", where="tokens_per_second >= 10k", context=500)
    rates = rl.estimate(MODEL, rl.decode(batch=np.arange(1, 400), context=500), **ON).tokens_per_second
    assert s.value == int(np.argmax(rates >= 1e4)) + 1
    assert s.binding == "tokens_per_second"
    both = solved(find="batch", where="tokens_per_second >= 10k and time <= 10ms", context=500, extreme="greatest")
    assert both.value is not None
    assert both.value > s.value
    assert both.binding == "time"


def test_concurrency_is_that_of_every_number_in_turn() -> None:
    s = solved(find="concurrency", where="tpot <= 5ms", input=200, output=50)
    tpot = rl.serve(MODEL, input=200, output=50, concurrency=np.arange(1, 500), **ON).tpot.expected
    assert s.value == int(np.flatnonzero(tpot <= 5e-3)[-1]) + 1
    assert s.subject == "serve"


# -- real numbers --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("formula", [True, False])
def test_a_rate_is_as_serve_has_it(formula: bool) -> None:
    s = solved(find="rate", where="tpot <= 5ms and ttft <= 1s", input=500, output=50, formula=formula)
    assert s.value is not None
    at, beyond = (rl.serve(MODEL, input=500, output=50, rate=r, formula=formula, **ON) for r in (s.value, s.beyond))
    assert at.tpot.expected <= 5e-3 < beyond.tpot.expected
    assert s.beyond / s.value - 1 <= 1.01e-4  # type: ignore[operator]
    assert s.requirements[0].value == at.tpot.expected


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("find", "key", "where", "now"),
    [("bandwidth", "bw", "tpot <= 1200us", 3.35e12), ("peak", "peak", "ttft <= 8ms", 989.4e12)],
)
def test_hypothetical_chips_are_those_of_the_command_line(find: str, key: str, where: str, now: float) -> None:
    """The figure put into `like=…` gives the very times, in a chip that nothing of `solve` builds."""
    sizes = {"input": 1024, "output": 64}
    s = solved(find=find, where=where, **sizes)
    assert s.value is not None
    assert s.beyond is not None
    (row,) = s.requirements
    for value, figure in ((s.value, row.value), (s.beyond, row.beyond)):
        on = f"like=h100-sxm,{key}={value!r}B/s"
        if find == "peak":
            peaks = rl.chips()["h100-sxm"].peaks
            on = "like=h100-sxm," + ",".join(f"{f}={v * value / peaks['bf16']!r}FLOP/s" for f, v in peaks.items())
        g = rl.generate(MODEL, on=on, **sizes)
        assert getattr(g, row.metric).expected == pytest.approx(figure, rel=1e-9)
    assert row.value <= row.limit < row.beyond  # type: ignore[operator]
    assert abs(s.beyond / s.value - 1) < 1e-8
    assert 0.1 < s.value / now < 10


def test_bandwidth_of_a_law_without_constants_is_bytes_over_seconds() -> None:
    """At the speed of light of a decode every op is memory bound: bandwidth = bytes / time, by hand."""
    step = rl.decode(batch=1, context=1024)
    ideal = rl.estimate(MODEL, step, law="ideal", engine="none", **ON)
    s = solved(find="bandwidth", where="time <= 500us", context=1024, law="ideal", engine="none")
    assert (ideal.compute_time, ideal.time) == (pytest.approx(0, abs=1e-4), pytest.approx(ideal.memory_time, rel=1e-3))
    assert s.value == pytest.approx(ideal.memory_time * 3.35e12 / 500e-6, rel=1e-3)


def test_memory_is_enough_and_no_more() -> None:
    s = solved(find="memory", where="fits", input=1000, output=100, batch=32)
    assert s.value is not None
    for value, fits in ((s.value, True), (s.beyond, False)):
        g = rl.generate(MODEL, on=f"like=h100-sxm,mem={value!r}B", input=1000, output=100, batch=32)
        assert bool(g.fits and g.waves == 1) is fits


def test_a_link_of_two_chips() -> None:
    options: dict[str, Any] = {"input": 2000, "output": 2, "batch": 8, "layout": "tp=2"}
    now = rl.generate(MODEL, **options, **ON).ttft.expected
    s = solved(find="link", where=f"ttft <= {now * 1e6:.12g}us", **options)
    assert s.value is not None
    assert s.value <= 450e9 * (1 + 1e-6)
    assert s.requirements[0].value == pytest.approx(now, rel=1e-6)
    with pytest.raises(rl.InputError, match="find: expected a layout of several chips"):
        solved(find="link", where="ttft <= 1ms", input=10, output=1)


# -- chips ---------------------------------------------------------------------------------------------------------
def test_the_fewest_chips_are_those_of_every_layout() -> None:
    sizes = {"input": 512, "output": 64, "batch": 64}
    s = solved(find="chips", where="tpot <= 1200us", most_chips=16, **sizes)
    every = {}
    for tp in (1, 2, 4, 8):
        for dp in range(1, 16 // tp + 1):
            g = rl.generate(MODEL, layout=f"tp={tp},dp={dp}", **sizes, **ON)
            if g.tpot.expected <= 1.2e-3:
                every[tp, dp] = tp * dp
    assert s.value == min(every.values())
    assert s.deployment.chips == s.value
    assert s.beyond is not None
    assert s.beyond < s.value
    assert s.requirements[0].beyond > 1.2e-3  # type: ignore[operator]


def test_more_chips_than_there_are_is_an_answer_in_words() -> None:
    s = solved(find="chips", where="tpot <= 10us", most_chips=4, input=100, output=10)
    assert s.value is None
    assert "of at most 4 chips" in s.why


# -- break even, by hand -------------------------------------------------------------------------------------------
def test_prices_break_even_as_rates_do() -> None:
    sizes = {"input": 512, "output": 64, "batch": 16}
    mine, theirs = (rl.generate(MODEL, on=on, **sizes) for on in ("h100-sxm", "b200"))
    price = rl.chips()["b200"].price.usd_per_hour  # type: ignore[union-attr]
    s = solved(find="price", against="on=b200", **sizes)
    assert s.value == pytest.approx(price * mine.tokens_per_second / theirs.tokens_per_second, rel=1e-12)
    assert s.requirements[0].value == pytest.approx(theirs.usd_per_million_tokens, rel=1e-12)
    chip = rl.generate(MODEL, on=f"like=h100-sxm,price={s.value!r}", **sizes)
    assert chip.usd_per_million_tokens == pytest.approx(theirs.usd_per_million_tokens, rel=1e-9)


def test_a_price_for_a_limit() -> None:
    s = solved(find="price", where="usd_per_million_tokens <= $0.5", input=512, output=64, batch=16)
    g = rl.generate(MODEL, input=512, output=64, batch=16, **ON)
    assert s.value == pytest.approx(0.5e-6 * g.tokens_per_second * 3600, rel=1e-12)


def test_utilisation_against_another_chip_is_the_ratio_of_costs() -> None:
    sizes = {"input": 512, "output": 64, "batch": 16}
    mine, theirs = (rl.generate(MODEL, on=on, **sizes).usd_per_million_tokens for on in ("l4", "h100-sxm"))
    cheap, dear = ("l4", "h100-sxm") if mine < theirs else ("h100-sxm", "l4")
    s = solved(find="utilisation", against=f"on={dear}", on=cheap, **sizes)
    assert s.value == pytest.approx(min(mine, theirs) / max(mine, theirs), rel=1e-12)
    other = solved(find="utilisation", against=f"on={cheap}", on=dear, **sizes)
    assert other.value is None
    assert "times as dear" in other.why


def test_owning_and_renting() -> None:
    """35 040 USD over 4 years are 1 USD an hour; 1 kW at 0.1 USD a kWh and PUE 1.5 are 0.15: u = 1 / (2 − 0.15)."""
    own = "owned(capital=35040,years=4,kwh=0.1,pue=1.5,power=1000,idle=0)"
    rent = "like=h100-sxm,price=2"
    s = solved(find="utilisation", against=own, on=rent)
    assert s.value == pytest.approx(1 / 1.85, rel=1e-12)
    assert s.requirements[0].value == pytest.approx(s.requirements[0].limit, rel=1e-12)
    # with 200 W idle: (1 + 0.03) = u · (2 − 0.12)
    idle = solved(find="utilisation", against=Owned(35040, 4, 0.1, 1.5, 1000, 200), on=rent)
    assert idle.value == pytest.approx(1.03 / 1.88, rel=1e-12)
    # used half the time: (1 + 0.075) / 0.5
    assert solved(find="price", against=own, utilisation=0.5).value == pytest.approx(2.15, rel=1e-12)
    assert solved(find="utilisation", against=own, on="like=h100-sxm,price=1").value is None


# -- training, and another side ------------------------------------------------------------------------------------
def test_training() -> None:
    options: dict[str, Any] = {"on": "8xh100-sxm", "layout": "dp=8,zero=1"}
    s = rl.solve(MODEL, find="batch", where="time <= 2s", tokens=2048, **options)
    assert s.value is not None
    assert s.step == 8
    assert s.beyond == s.value + 8
    at, beyond = (rl.train(MODEL, batch=int(b), tokens=2048, **options).time for b in (s.value, s.beyond))
    assert at <= 2 < beyond
    longest = rl.solve(MODEL, find="tokens", where="fits", batch=8, micro_batch=1, **options)
    assert longest.value == 4096
    assert longest.binding == "the context of the model"
    faster = rl.train(MODEL, batch=8, tokens=2048, on="like=h100-sxm,bw=4T", layout="dp=8")
    chip: dict[str, Any] = {"on": "h100-sxm", "layout": "dp=8", "batch": 8, "tokens": 2048}
    s = rl.solve(MODEL, find="bandwidth", where=f"time <= {faster.time * 1e6!r}us", **chip)
    assert s.value == pytest.approx(4e12, rel=1e-6)


def test_where_two_sides_cross() -> None:
    """The first batch at which two chips by tensor parallelism take less than one chip, one by one."""
    s = solved(find="batch", where="time < against", against="layout=tp=2", context=1024, extreme="least",
               on="like=h100-sxm,link=4G")  # fmt: skip
    sizes = np.arange(1, 3000)
    one, two = (
        rl.estimate(MODEL, rl.decode(batch=sizes, context=1024), on="like=h100-sxm,link=4G", layout=layout).time
        for layout in (None, "tp=2")
    )
    assert (one < two).any()
    assert s.value == int(sizes[np.argmax(one < two)])


# -- words and errors ----------------------------------------------------------------------------------------------
def test_no_answer_says_why() -> None:
    none = solved(find="batch", where="time <= 1us", context=100)
    assert none.value is None
    assert none.why.startswith("even the least looked at, 1 sequence, does not do: time is")
    unlimited = solved(find="batch", where="ttft <= 2000s", input=4, output=1, engine="none")
    assert unlimited.value is None or unlimited.requirements[0].beyond > 2000  # type: ignore[operator]
    assert solved(find="concurrency", where="tpot <= 1s", input=10, output=30).why.startswith("nothing limits it")


UNITS = {"tpot": "s", "fits": "flag", "bound": "word", "memory": "B", "mfu": "share", "tokens_per_second": "tokens/s",
         "usd_per_million_tokens": "USD"}  # fmt: skip


def spelled(*texts: str) -> list[str]:
    return [part.text for part in condition_of(texts, UNITS, sides=True).parts]


def test_requirements_are_spelled() -> None:
    assert spelled("tpot <= 30ms and fits and bound is memory") == ["tpot <= 30 ms", "fits", "bound = memory"]
    assert spelled("memory < 64GiB", "mfu > 40%") == ["memory < 6.871947674e+10 B", "mfu > 0.4 share"]
    assert spelled("usd_per_million_tokens <= $2") == ["usd_per_million_tokens <= 2 USD"]
    assert spelled("tokens_per_second >= 5k") == ["tokens_per_second >= 5000 tokens/s"]
    assert spelled("tokens_per_second >= 5000 tokens/s") == ["tokens_per_second >= 5000 tokens/s"]
    assert spelled("tpot < against or not fits") == ["tpot < against or not fits"]
    assert side_named("on=like=h100-sxm,bw=4T,layout=tp=2,pp=2") == {"on": "like=h100-sxm,bw=4T", "layout": "tp=2,pp=2"}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"find": "batches", "where": "fits", "context": 1}, "find: expected one of"),
    ({"find": "batch", "context": 1}, "where: expected what must hold"),
    ({"find": "batch", "where": "tpott <= 1ms", "context": 1}, "nearest: tpot"),
    ({"find": "batch", "where": "time <= 1", "context": 1}, "where time: expected a time"),
    ({"find": "batch", "where": "time <= 0ms", "context": 1}, "where time: expected a time above 0"),
    ({"find": "batch", "where": "memory <= 80", "context": 1}, "where memory: expected bytes"),
    ({"find": "batch", "where": "bound = cpu", "context": 1}, "where bound: expected one of"),
    ({"find": "batch", "where": "ttft <= 1ms", "context": 1}, "where: expected the name of a figure"),
    ({"find": "batch", "where": "ttft_p99 <= 1s", "input": 5, "output": 5}, "where: expected the name of a figure"),
    ({"find": "batch", "where": "fits", "batch": 1, "context": 1}, "batch: expected no value: it is what"),
    ({"find": "batch", "where": "fits", "context": 1, "input": 1}, "input: expected nothing"),
    ({"find": "batch", "where": "fits"}, "context: expected a number"),
    ({"find": "rate", "where": "ttft < 1s", "input": 1}, "output_tokens: expected a number"),
    ({"find": "batch", "where": "fits", "context": [1, 2]}, "context: expected one number"),
    ({"find": "batch", "where": "time <= against", "context": 1}, "against: expected other settings"),
    ({"find": "batch", "where": "fits", "against": "on=b200", "context": 1}, "against: expected other settings"),
    ({"find": "batch", "where": "time < against", "against": "b200", "context": 1}, "against: expected settings among"),
    ({"find": "batch", "where": "fits", "context": 1, "recipe": "fp8"}, "recipe: expected `tokens` as well"),
    ({"find": "batch", "where": "fits", "context": 1, "extreme": "most"}, "extreme: expected one of"),
    ({"find": "price", "input": 5, "output": 5}, "against: expected the settings to compare with"),
    ({"find": "price", "against": "owned(capital=1,years=1)", "utilisation": 1}, "against: expected owned"),
    ({"find": "price", "against": "owned(capital=1,years=1,kwh=1)"}, "utilisation: expected a share"),
    ({"find": "price", "against": "owned(capital=0,years=1,kwh=1)", "utilisation": 1}, "owned capital: expected"),
    ({"find": "chips", "where": "fits", "context": 1, "layout": "tp=2"}, "layout: expected nothing"),
    ({"find": "chips", "where": "fits", "batch": 1, "tokens": 10}, "find: expected inference"),
]  # fmt: skip


def test_a_setting_that_there_is_not() -> None:
    with pytest.raises(TypeError, match=r"solve\(\) has no setting 'tpp'; nearest: tp"):
        rl.solve(MODEL, find="batch", where="fits", on="h100-sxm", context=1, tpp=2)  # type: ignore[call-arg]


@folded(("options", "text"), BAD, ids=[text for _, text in BAD])
def test_errors(options: dict[str, Any], text: str) -> None:
    with pytest.raises(rl.InputError) as error:
        solved(**options)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_every_find_is_looked_for() -> None:
    assert set(FINDS) == {*WORK, *HARDWARE, "chips", "price", "utilisation"}


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SMALL))
    base = ["solve", str(config), "--on", "h100-sxm", "--context", "500"]
    main([*base, "--find", "batch", "--where", "time <= 8ms and fits", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["schema"] == "roofline.solve/1"
    assert result["value"] == solved(find="batch", where="time <= 8ms and fits", context=500).value
    main([*base, "--find", "batch", "--where", "time <= 8ms"])
    assert "beyond it" in capsys.readouterr().out
    for options, code in ((["--where", "time <= 1us"], 1), (["--where", "time <= 1"], 2)):
        with pytest.raises(SystemExit) as stop:
            main([*base, "--find", "batch", *options])
        assert stop.value.code == code
        assert len(capsys.readouterr().err.splitlines()) == 1
