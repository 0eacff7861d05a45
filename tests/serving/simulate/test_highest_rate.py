"""The highest rate within a limit, of a queue whose answer is known, and the arithmetic of the measured servers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import measured_mlperf
import measured_serving
import measured_traffic
from folded import folded
from highest_rate import highest_rate
from roofline.measured.accuracy.csvs import TableRow

SERVICE = 0.25


def wait(rate: float) -> float:
    """Mean seconds in an M/D/1 queue, service included: S + ρS / (2(1 − ρ)); it never ends at ρ = 1."""
    busy = rate * SERVICE
    return SERVICE + busy * SERVICE / (2 * (1 - busy)) if busy < 1 else float("inf")


def test_a_queue_with_a_known_answer() -> None:
    # W ≤ 0.5: ρ/(2(1 − ρ)) ≤ 1, so ρ = 2/3 and λ = 8/3, from whatever guess
    for high in (0.1, 2.0, 2.6, 4.0, 100.0):
        rate = highest_rate(lambda r: wait(r) <= 0.5, 0.0, high)
        assert 0.99 * 8 / 3 <= rate <= 8 / 3
    assert highest_rate(lambda r: wait(r) <= 0.5, 0.0, 4.0, within=1e-6) == pytest.approx(8 / 3, rel=2e-6)


def test_nothing_where_no_rate_or_not_the_lowest_meets_it() -> None:
    assert highest_rate(lambda _: False, 0.0, 4.0) == pytest.approx(0, abs=1e-8)
    assert highest_rate(lambda r: r <= 2, 3.0, 4.0) == 0.0
    assert highest_rate(lambda r: r <= 2, 1.0, 4.0) == pytest.approx(2, rel=0.02)


@given(st.floats(1e-3, 1e4), st.floats(1e-3, 1e4))
def test_never_above_and_within_a_hundredth(limit: float, guess: float) -> None:
    rate = highest_rate(lambda r: r <= limit, 0.0, guess)
    assert rate <= limit
    assert rate >= 0.98 * limit


def row(**values: str) -> TableRow:
    """A row of MLPerf's table, made up."""
    usual = {
        "model": "Llama-2-70B-chat", "division": "closed", "mixed_accelerators": "0", "software": "TensorRT 10",
        "weight_dtype": "fp8", "scenario": "Server", "accelerator": "H200", "num_accelerators": "8", "nodes": "2",
        "tokens_per_s": "5936", "samples_per_s": "20", "ttft_limit_ms": "2000", "tpot_limit_ms": "200",
    }  # fmt: skip
    return TableRow(0, usual | values)


def test_a_row_is_a_contest() -> None:
    c = measured_mlperf.contest(row())
    assert (c.chip, c.chips, c.engine, c.output, c.ttft, c.tpot) == ("h200-sxm", 16, "trtllm", 300, 2.0, 0.2)
    assert c.formats == "weights=fp8,kv=fp8"
    assert [choice.text(c) for choice in measured_mlperf.choices(c)][:3] == [
        "16 x tp=1, 2048", "16 x tp=1, 8192", "8 x tp=2, 2048",
    ]  # fmt: skip
    mixture = measured_mlperf.contest(row(model="Mixtral-8x7B-Instruct", weight_dtype="fp4", accelerator="B200"))
    assert mixture.formats == "experts=nvfp4,kv=fp8"
    assert any(choice.layout == "dp=8,ep=8" for choice in measured_mlperf.choices(mixture))


@folded(
    "values",
    [
        {"division": "open"}, {"mixed_accelerators": "1"}, {"software": "Mango"}, {"weight_dtype": "UINT4"},
        {"accelerator": "Z9"}, {"model": "Llama-9"},
    ],
)  # fmt: skip
def test_rows_that_are_not_clear_are_left_out(values: dict[str, str]) -> None:
    with pytest.raises(measured_serving.LeftOutError):
        measured_mlperf.contest(row(**values))


def test_errors_and_their_summary() -> None:
    scored = [measured_traffic.Scored("a", str(i), 2.0, predicted) for i, predicted in enumerate((1.0, 2.2, 3.0))]
    (summary,) = measured_traffic.summaries(scored)
    assert (summary.n, summary.worst) == (3, -50.0)
    assert (summary.mean, summary.median, summary.bias) == pytest.approx((110 / 3, 50.0, 10.0))
    part = measured_traffic.Part("x", rows=3, scored=scored, used=2)
    with pytest.raises(ValueError, match="3 rows, of which 2 were scored and 0 left out"):
        measured_traffic.tables(part)
    part.left["why"] += 1
    assert measured_traffic.tables(part).startswith("x: 3 rows = 2 scored + 1 left out")
