"""Limits that a share of the requests keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import by_day
from roofline.estimates.span import exactly
from roofline.estimates.tails import SHARES, Percentiles, Tail
from roofline.explore.attainment import seconds_of, share_within
from roofline.explore.demand import Limits

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
        assert share_within(TAIL, float(seconds_of(TAIL, share))) == pytest.approx(share, rel=1e-9)
    assert share_within(Tail(0.2, 0.2, 0.2, 0.2), 0.1) == 0
    assert share_within(Tail(0.2, 0.2, 0.2, 0.2), 0.2) == 1


def test_requests_that_miss_one_of_two_limits_are_added_up() -> None:
    tails, mean = Percentiles(TAIL, TAIL, TAIL), exactly(0.12)
    two = Limits(ttft=0.4, tpot=0.4, attainment=0.98)
    assert two.attained(tails) == pytest.approx(0.98, rel=1e-9)
    assert two.limited(mean, mean, mean, tails)[0].expected == pytest.approx(0.4, rel=1e-9)
    assert Limits(ttft=0.4, attainment=0.99).limited(mean, mean, mean, tails)[0].expected == pytest.approx(0.4)
    assert Limits(ttft=0.4).limited(mean, mean, mean, tails) == (mean, mean, mean)


def test_a_search_for_99_percent_equals_a_scan_of_the_percentiles_of_serve() -> None:
    every = np.arange(1, 400)
    s = rl.serve(SMALL, concurrency=every, layout="tp=1", **ON, **SIZES)
    for limit in ({"ttft": 0.12}, {"tpot": 0.004}):
        [(name, most)] = limit.items()
        kept = getattr(s.percentiles, name).p99 <= most
        best = float(np.max(np.where(kept, s.tokens_per_second, 0.0)))
        found = rl.search(SMALL, chips=1, layout="tp=1", attainment=0.99, **ON, **SIZES, **limit)
        assert found.best.tokens_per_second == pytest.approx(best, rel=0.01)
        assert found.best.attained >= 0.99
        assert found.attainment == 0.99
        means = rl.search(SMALL, chips=1, layout="tp=1", **ON, **SIZES, **limit)
        assert means.best.tokens_per_second > found.best.tokens_per_second
        assert means.best.attained < 0.99
        assert means.attainment is None


@pytest.mark.parametrize("load", [{}, {"concurrency": 24}, {"rate": 30.0}])
def test_every_plan_has_the_share_that_was_asked_for(load: dict[str, Any]) -> None:
    asked = {"chips": by_day(2, 4), "ttft": 0.3, "tpot": 0.008, **ON, **SIZES, **load}
    s = rl.search(SMALL, attainment=0.95, top=50, **asked)
    assert {p.kind for p in s.plans} == {"aggregated", "disaggregated"}
    assert all(p.attained >= 0.95 - 1e-9 for p in s.plans)
    assert s.recommended is not None
    assert s.recommended.attained >= 0.95 - 1e-9
    loose = rl.search(SMALL, **asked)
    assert loose.best.tokens_per_second_per_chip >= s.best.tokens_per_second_per_chip


def test_a_simulation_says_whether_the_share_keeps_the_limits() -> None:
    s = rl.search(SMALL, chips=2, kind="aggregated", ttft=0.3, tpot=0.008, attainment=0.9, confirm=2, **ON, **SIZES)
    for plan in s.plans:
        if plan.confirmation is not None:
            assert plan.confirmation.keeps == (plan.confirmation.attained >= 0.9 - 0.02)
            assert not plan.broken or "% of requests keep the limits" in plan.why


@pytest.mark.parametrize("wrong", [1.0, 0.2, "most"])
def test_a_share_that_cannot_be(wrong: object) -> None:
    with pytest.raises(rl.InputError, match="attainment"):
        rl.search(SMALL, chips=1, attainment=wrong, **ON, **SIZES)


def test_the_header_says_whose_limits_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.cli.main import main

    words = ["search", "Qwen/Qwen2.5-0.5B", "--on", "h100-sxm", "--chips", "1", "--input", "64", "--output-tokens", "8",
             "--ttft", "1s", "--tpot", "20ms", "--kind", "aggregated"]  # fmt: skip
    main(words)
    assert "TTFT ≤ 1 s, TPOT ≤ 20 ms in the mean" in capsys.readouterr().out
    main([*words, "--attainment", "0.99"])
    assert "TTFT ≤ 1 s, TPOT ≤ 20 ms for 99 % of requests" in capsys.readouterr().out
