"""Limits that a share of the requests keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import by_day
from roofline.declared.groups import LIMITED
from roofline.inference.span import exactly
from roofline.serving.closed_forms.attainment import least_over_mean, pool_percentiles, seconds_of, share_beyond
from roofline.serving.closed_forms.percentiles import MOST_VARIED, SHARES, Percentiles, Tail, Varied
from roofline.serving.simulate.recorder import ROW
from roofline.whatif.search.demand import Limits

SMALL = rl.load(
    {
        "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 32000,
        "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 4, "dtype": "bfloat16",
        "max_position_embeddings": 32768,
    }
)  # fmt: skip
ON: dict[str, Any] = {"on": "h100-sxm"}
SIZES: dict[str, Any] = {"input": 1000, "output_tokens": 100}
TAIL = Tail(0.1, 0.2, 0.25, 0.4)


def test_percentiles_are_met_exactly_and_go_on_beyond_them() -> None:
    for share, name in zip(SHARES, TAIL.FIGURES, strict=True):
        assert seconds_of(TAIL, share) == pytest.approx(getattr(TAIL, name), rel=1e-12)
    seconds = [float(seconds_of(TAIL, share)) for share in (0.5, 0.7, 0.9, 0.93, 0.99, 0.995, 0.999)]
    assert seconds == sorted(seconds)
    for share in (0.5, 0.8, 0.96, 0.999):
        assert share_beyond(TAIL, float(seconds_of(TAIL, share))) == pytest.approx(1 - share, rel=1e-9)
    equal = Tail(0.2, 0.2, 0.2, 0.2)
    assert (share_beyond(equal, 0.1), share_beyond(equal, 0.2)) == (1, 0)
    several = Tail(*(np.array([p, 2 * p]) for p in (0.1, 0.2, 0.25, 0.4)))
    assert share_beyond(several, 0.4) == pytest.approx([0.01, 0.1], rel=1e-9)


def test_requests_that_miss_one_of_two_limits_are_added_up() -> None:
    """1 % miss each of two limits, so that 98 % keep both; a limit alone is of the 99 % point."""
    tails, mean = Percentiles(TAIL, TAIL, TAIL), exactly(0.12)
    times = mean, mean, mean
    two = Limits(ttft=0.4, tpot=0.4, attainment=0.98)
    assert two.attained(tails) == pytest.approx(0.98, rel=1e-9)
    assert two.used(times, tails) == pytest.approx(1, rel=1e-6)
    assert Limits(ttft=0.4, tpot=0.4).used(times, tails) == pytest.approx(2, rel=1e-6)
    assert Limits(ttft=0.4).limited(times, tails)[0].expected == pytest.approx(0.4)
    assert Limits(ttft=0.4).used(times, tails) <= 1 < Limits(ttft=0.399).used(times, tails)
    assert Limits(ttft=0.4, attainment="mean").limited(times, tails) == times
    assert Limits(ttft=0.4, attainment="mean").used(times, tails) == pytest.approx(0.3)
    assert Limits().used(times, tails) == 0


@pytest.mark.parametrize("share", [0.5, 0.6, 0.75, 0.9, 0.99])
def test_no_share_is_kept_by_means_beyond_the_loosest(share: float) -> None:
    """Of any variance that percentiles may have."""
    for variance in (0.0, 0.01, 0.3, 1.0, MOST_VARIED):
        for by_length in (0.0, 0.5, 1.0):
            own = [np.asarray(v) for v in (0.0, 1.0, variance)]
            tail = Varied(*own, by_length=np.asarray(by_length * variance)).tail()
            assert float(seconds_of(tail, share)) >= least_over_mean(share) * (1 - 1e-9)
    assert (least_over_mean(share) == 1) == (share >= 0.75)


def test_prompts_of_pools_vary_as_their_lengths_do() -> None:
    """Without waits TTFT is that of the prompt, in proportion to a lognormal length."""
    alone = pool_percentiles(0.1, 0.01, 99, (0.0, 0.0), (0.96**2, 0.0))
    deviation = np.sqrt(np.log(1 + 0.96**2))
    assert alone.ttft.p99 == pytest.approx(0.1 * np.exp(2.3263 * deviation - deviation**2 / 2), rel=1e-3)


def test_a_search_for_99_percent_equals_a_scan_of_the_percentiles_of_serve() -> None:
    every = np.arange(1, 1000)
    s = rl.serve(SMALL, concurrency=every, layout="tp=1", **ON, **SIZES)
    for limit in ({"ttft": 0.15}, {"tpot": 0.004}):
        [(name, most)] = limit.items()
        kept = getattr(s.percentiles, name).p99 <= most
        best = float(np.max(np.where(kept, s.tokens_per_second, 0.0)))
        found = rl.search(SMALL, chips=1, layout="tp=1", **ON, **SIZES, **limit)
        assert found.best.tokens_per_second == pytest.approx(best, rel=0.01)
        assert found.best.attained >= 0.99
        assert found.attainment == 0.99
        means = rl.search(SMALL, chips=1, layout="tp=1", attainment="mean", **ON, **SIZES, **limit)
        assert means.best.tokens_per_second > found.best.tokens_per_second
        assert means.best.attained < 0.99
        assert means.attainment is None


@pytest.mark.parametrize("load", [{}, {"concurrency": 24}, {"rate": 30.0}])
def test_every_plan_has_the_share_that_was_asked_for(load: dict[str, Any]) -> None:
    asked = {"chips": by_day(2, 4), "ttft": 0.4, "tpot": 0.008, **ON, **SIZES, **load}
    s = rl.search(SMALL, attainment=0.95, top=50, **asked)
    assert {p.kind for p in s.plans} == {"aggregated", "disaggregated"}
    assert all(p.attained >= 0.95 - 1e-9 for p in s.plans)
    assert s.recommended is not None
    assert s.recommended.attained >= 0.95 - 1e-9
    loose = rl.search(SMALL, attainment="mean", **asked)
    assert loose.best.tokens_per_second_per_chip >= s.best.tokens_per_second_per_chip


def test_a_simulation_says_whether_the_share_keeps_the_limits() -> None:
    s = rl.search(
        SMALL, chips=2, kind="aggregated", ttft=0.3, tpot=0.008, attainment=0.9, confirm=by_day(1, 2), **ON, **SIZES
    )
    for plan in s.plans:
        if (c := plan.confirmation) is not None:
            assert c.keeps == (c.attained + c.attained_half_width >= 0.9)
            assert 0 < c.attained_half_width < 0.1
            assert not plan.broken or "% of requests keep the limits" in plan.why


def test_a_simulation_by_hand_says_how_many_keep_the_limits() -> None:
    """The share of its rows within both limits, and what that is for 99 %, for another share and for the mean."""
    rows: list[Any] = []
    asked: dict[str, Any] = {**ON, **SIZES, "concurrency": 24, "requests": 2000, "seed": 3}
    s = rl.simulate(SMALL, ttft=0.2, tpot=0.005, written=rows.append, **asked)
    columns = list(ROW)
    ttft, tpot = (np.array([row[columns.index(name)] or 0.0 for row in rows]) for name in ("ttft_s", "tpot_s"))
    within = np.mean((ttft <= 0.2) & (tpot <= 0.005))
    assert s.attained == pytest.approx(within, rel=1e-12)
    assert (s.attainment, s.keeps) == (0.99, bool(within + s.attained_half_width >= 0.99))
    assert 0 < s.attained_half_width < 0.05
    less, mean = (rl.simulate(SMALL, ttft=0.2, tpot=0.005, attainment=a, **asked) for a in (within - 0.01, "mean"))
    assert less.keeps
    assert (mean.attainment, mean.keeps) == (None, True)
    assert not rl.simulate(SMALL, ttft=0.2, tpot=float(np.mean(tpot)) / 1.1, attainment="mean", **asked).keeps
    assert rl.simulate(SMALL, **asked).keeps is None


def test_a_word_in_place_of_a_share_is_read_beside_pydantic_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Which checks what an option is read into by its type, where it is imported."""
    import pydantic  # noqa: F401

    from roofline.doors.cli.main import main

    main(["simulate", "Qwen/Qwen2.5-0.5B", "--on", "h100-sxm", "--input", "64", "--output-tokens", "8", "--rate", "1",
          "--requests", "50", "--ttft", "10s", "--attainment", "mean"])  # fmt: skip
    assert "which means are to keep" in capsys.readouterr().out


def test_a_simulation_that_misses_its_limits_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    words = ["simulate", "Qwen/Qwen2.5-0.5B", "--on", "h100-sxm", "--input", "64", "--output-tokens", "8",
             "--concurrency", "4", "--requests", "200"]  # fmt: skip
    main([*words, "--ttft", "1s"])
    assert "the limits are kept, which 99 % of requests are to keep" in capsys.readouterr().out
    for attainment, whose in (("0.9", "90 % of requests"), ("mean", "means")):
        with pytest.raises(SystemExit) as left:
            main([*words, "--ttft", "1ms", "--attainment", attainment])
        assert left.value.code == 1
        assert f"the limits are missed, which {whose} are to keep" in capsys.readouterr().out


@pytest.mark.parametrize("load", [{}, {"concurrency": 24}, {"rate": 30.0}])
@pytest.mark.parametrize("kind", ["aggregated", "disaggregated"])
def test_where_nothing_keeps_the_limits_the_nearest_is_told(load: dict[str, Any], kind: str) -> None:
    """No way has less, by a scan of `serve` and `pools` with a request in each replica, or with the load."""
    asked: dict[str, Any] = {"chips": 2, "layout": "tp=1", "kind": kind, **ON, **SIZES, **load}
    s = rl.search(SMALL, ttft=1e-4, tpot=1.0, **asked)
    assert not s.plans
    first, then = s.nearest
    assert (first.name, first.limit, then.name, then.limit) == ("ttft", 1e-4, "tpot", 1.0)
    assert then.least < 1.0
    for near in s.nearest:
        plan = near.plan
        again = rl.serve(SMALL, layout=f"dp={plan.replicas}", **ON, **SIZES, **(load or {"concurrency": plan.replicas}))
        if kind == "aggregated":
            assert near.least == pytest.approx(getattr(again.percentiles, near.name).p99, rel=1e-9)
            assert plan.replicas == 2
        assert float(plan.limited[LIMITED.index(near.name)].expected) == near.least
    told = s.to_dict()["nearest"]
    assert [near["name"] for near in told] == ["ttft", "tpot"]
    assert rl.search(SMALL, ttft=1.0, **asked).nearest == ()


def test_the_command_says_how_near_anything_comes(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    words = ["search", "Qwen/Qwen2.5-0.5B", "--on", "h100-sxm", "--chips", "1", "--input", "64",
             "--output-tokens", "28", "--kind", "aggregated"]  # fmt: skip
    for more, said in (
        (["--ttft", "1ms", "--tpot", "20ms"], "nearest, with a request in each replica:\n  TTFT p99 is "),
        (["--ttft", "1ms", "--attainment", "mean"], "nearest, with a request in each replica:\n  TTFT is "),
        (["--ttft", "1s", "--rate", "100000"], "no way to serve takes this load"),
    ):
        with pytest.raises(SystemExit) as left:
            main([*words, *more])
        printed = capsys.readouterr()
        assert left.value.code == 1
        assert said in printed.out
        assert printed.err.endswith("nothing keeps these limits\n")


@pytest.mark.parametrize("wrong", [1.0, 0.2, "most", "1.5", float("nan")])
def test_a_share_that_cannot_be(wrong: object) -> None:
    with pytest.raises(rl.InputError, match="attainment"):
        rl.search(SMALL, chips=1, attainment=wrong, **ON, **SIZES)


def test_the_header_says_whose_limits_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    words = ["search", "Qwen/Qwen2.5-0.5B", "--on", "h100-sxm", "--chips", "1", "--input", "64",
             "--output-tokens", "28", "--ttft", "1s", "--tpot", "20ms", "--kind", "aggregated"]  # fmt: skip
    main(words)
    printed = capsys.readouterr().out
    assert "; 99 % of requests: TTFT ≤ 1 s, TPOT ≤ 20 ms" in printed
    assert "TTFT p99" in printed
    main([*words, "--attainment", "0.95"])
    assert "; 95 % of requests: TTFT ≤ 1 s, TPOT ≤ 20 ms" in capsys.readouterr().out
    main([*words, "--attainment", "mean"])
    printed = capsys.readouterr().out
    assert "; means: TTFT ≤ 1 s, TPOT ≤ 20 ms" in printed
    assert "p99" not in printed
