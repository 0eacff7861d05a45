"""A sweep's rows are what the library says of each point alone."""

from __future__ import annotations

import pickle
from itertools import product
from typing import Any

import numpy as np
import polars
import pytest

import roofline as rl
from folded import by_day, folded
from hub import CONFIG
from roofline.whatif.query import compiled
from roofline.whatif.sweep import workers
from roofline.whatif.sweep.sweep import MOST_IN_MEMORY, sweep, sweep_digest
from roofline.whatif.sweep.workers import each_in_order

LLAMA = "meta-llama/Llama-3.1-8B"
MOE = "Qwen/Qwen3-30B-A3B"
V3, NEXT = "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct"
CLOSE = 1e-9


def drawn(result: Any, number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Some rows of a sweep."""
    rows = result.to_frame().to_dicts()
    places = np.random.default_rng(seed).choice(len(rows), min(number, len(rows)), replace=False)
    return [rows[i] for i in places]


def near(value: Any, expected: Any) -> bool:
    if isinstance(expected, (str, bool)):
        return bool(value == expected)
    if expected is None or expected != expected:
        return value is None or value != value
    return bool(abs(value - expected) <= CLOSE * abs(expected))


def same(row: dict[str, Any], result: Any) -> None:
    """Every figure of a row that the result has, is the result's."""
    leaves = {name: value for name, value, _ in result.leaves()}
    shared = [name for name in row if name in leaves and name not in ("model", "layout")]
    assert len(shared) > 8
    for name in shared:
        value = leaves[name].item() if hasattr(leaves[name], "item") else leaves[name]
        assert near(row[name], value), (name, row[name], value)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("model", [LLAMA, MOE])
def test_decode_steps(model: str) -> None:
    result = sweep(
        model, on=["h100-sxm", "mi300x"], layout="tp=1,2,4,pp=1,2,dp=1,2", precision=[None, "fp8"],
        batch=[1, 3, 17, 64, 300], context=[5, 1000, 4097], columns=["all"],
    )  # fmt: skip
    assert result.rows == result.points == 2 * 12 * 2 * 15
    for row in drawn(result, by_day(10, 25)):
        where = {"on": row["on"], "layout": row["layout"], "precision": formats(row["precision"])}
        alone = rl.estimate(model, rl.decode(row["batch"], row["context"]), **named(where))
        same(row, alone)
        generated = rl.generate(model, batch=row["batch"], input=row["context"], output=2, **named(where))
        if generated.waves == 1 and generated.fits:
            assert near(row["tpot"], generated.tpot.expected)
            assert near(row["tpot_high"], generated.tpot.high)
        assert near(row["tokens_per_second_per_chip"], alone.tokens_per_second / alone.deployment.chips)


def formats(label: str) -> str | None:
    return None if label == "checkpoint" else label


def named(where: dict[str, Any]) -> dict[str, Any]:
    """The settings of a row, whose layout in words may be one chip."""
    return where | {"layout": "tp=1" if where["layout"] == "one chip" else where["layout"]}


def test_prefills() -> None:
    result = sweep(LLAMA, phase="prefill", on="h100-sxm", layout="tp=1,2,pp=1,4", batch=[1, 2, 9], input=[7, 4096],
                   columns=["all"])  # fmt: skip
    for row in drawn(result, 12):
        where = named({"on": row["on"], "layout": row["layout"]})
        same(row, rl.estimate(LLAMA, rl.prefill(row["batch"], row["input"]), **where))
        generated = rl.generate(LLAMA, batch=row["batch"], input=row["input"], output=1, **where)
        assert generated.waves == 1
        assert near(row["ttft"], generated.ttft.expected)
        assert near(row["ttft_low"], generated.ttft.low)


def test_generations() -> None:
    result = sweep(LLAMA, phase="generate", on=["l4", "h100-sxm"], tp=[1, 2], batch=[1, 50, 400], input=[100, 3000],
                   output=[1, 30], columns="all")  # fmt: skip
    for row in drawn(result, by_day(6, 10)):
        where = named({"on": row["on"], "layout": row["layout"]})
        same(row, rl.generate(LLAMA, batch=row["batch"], input=row["input"], output=row["output"], **where))


def test_servers() -> None:
    outputs = by_day([128], [16, 128])
    load: dict[str, Any] = {"phase": "serve", "on": "h100-sxm", "input": [200, 2000], "output": outputs}
    layouts = by_day("tp=1,2", "tp=1,2,dp=1,2")
    closed = sweep(LLAMA, layout=layouts, concurrency=[1, 8, 600], prefix=[0, 0.5], columns="all", **load)
    for row in drawn(closed, by_day(4, 8)):
        where = named({"on": row["on"], "layout": row["layout"]})
        asked = {name: row[name] for name in ("input", "output", "prefix", "concurrency")}
        same(row, rl.serve(LLAMA, **asked, **where))
    open_ = sweep(LLAMA, rate=[0.5, 4, 16, 64], columns="all", **load)
    for row in drawn(open_, by_day(4, 8)):
        same(row, rl.serve(LLAMA, on="h100-sxm", input=row["input"], output=row["output"], rate=row["rate"]))
    kept = {(row["input"], row["output"], row["rate"]) for row in open_.to_frame().to_dicts()}
    for point in product([200, 2000], outputs, [0.5, 4, 16, 64]):
        if point not in kept:
            with pytest.raises(rl.InputError, match="rate"):
                rl.serve(LLAMA, on="h100-sxm", input=point[0], output=point[1], rate=point[2])
    assert sum(open_.dropped.values()) == 8 * len(outputs) - open_.rows


def test_training() -> None:
    result = sweep(
        LLAMA, phase="train", on="8xh100-sxm", layout="dp=8,4,tp=1,2,zero=1", batch=[8, 12, 16], tokens=[4096, 512],
        recompute=["none", "full"], micro_batch=[1, 2], columns="all",
    )  # fmt: skip
    assert result.points == 4 * 2 * 12
    assert result.rows + sum(result.dropped.values()) == result.points
    assert result.dropped["layout: expected at most the 8 chips of 8xh100-sxm"] == 24
    for row in drawn(result, by_day(3, 6)):
        asked = {name: row[name] for name in ("batch", "tokens", "micro_batch", "recompute")}
        same(row, rl.train(LLAMA, on=row["on"], layout=row["layout"], **asked))


def test_what_cannot_be_is_counted() -> None:
    result = sweep(LLAMA, on="h100-sxm", layout="tp=1,3", batch=[1, 2], context=[1024, 131071, 131072])
    assert result.rows == 4
    assert result.dropped == {
        "layout.tp: expected a divisor of attention heads, 32": 6, "longer than the context of the model": 2,
    }  # fmt: skip


def test_a_condition_keeps_the_rows_that_meet_it() -> None:
    axes: dict[str, Any] = {"on": ["l4", "h100-sxm"], "batch": range(1, 200, 7), "context": [64, 4096, 60000]}
    every = sweep(LLAMA, **axes).to_frame()
    kept = sweep(LLAMA, where="fits and tpot < 30ms and batch > 1", **axes).to_frame()
    expected = every.filter(polars.col("fits") & (polars.col("tpot") < 0.03) & (polars.col("batch") > 1))
    assert kept.select("on", "batch", "context").equals(expected.select("on", "batch", "context"))
    assert np.allclose(kept["tpot"], expected["tpot"], rtol=CLOSE, atol=0)
    assert 0 < kept.height < every.height


def test_what_does_not_fit_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory comes before time."""
    timed: list[int] = []
    from roofline.inference.step import Estimate

    total = Estimate.total.func  # type: ignore[attr-defined]
    watched = property(lambda e: (timed.append(int(np.prod(e.shape))), total(e))[1])
    monkeypatch.setattr(Estimate, "total", watched)
    result = sweep("meta-llama/Llama-3.1-70B", on="l4", batch=1, context=[10, 20], where="fits", columns=["time"])
    assert result.rows == 0
    assert max(timed, default=0) <= 1  # of the first point, which says what the columns are


def test_axes_in_memory_are_bounded() -> None:
    with pytest.raises(rl.InputError, match=f"at most {MOST_IN_MEMORY:,} points"):
        sweep(LLAMA, on="h100-sxm", batch="1..1000", context="1..100k")


@folded(
    ("axes", "says"),
    [
        ({"batch": 1}, "context: expected numbers"), ({"batch": 0, "context": 1}, "batch: expected whole numbers"),
        ({"context": 1, "batches": 1}, "axis: expected one of"), ({"context": 1, "phase": "decoding"}, "phase"),
        ({"context": 1, "layout": "tp=1", "pp": 2}, "either layouts or pp"), ({"context": 1, "engine": "vlm"}, "vllm"),
        ({"context": 1, "columns": ["tpots"]}, "nearest: tpot"), ({"context": 1, "precision": "fp7"}, "fp"),
        ({"context": 1, "layout": "tp=3"}, "a divisor of attention heads"), ({"context": []}, "context"),
        ({"context": 1, "figures": "bw=2T,bww=3"}, "nearest: bw"), ({"context": 1, "on": []}, "at least one"),
        ({"phase": "serve", "input": 1, "output": 1}, "either a concurrency or a rate"),
        ({"context": 2.5}, "context"),
    ],
)  # fmt: skip
def test_what_is_not_understood(axes: dict[str, Any], says: str) -> None:
    with pytest.raises(rl.InputError) as error:
        sweep(LLAMA, **{"on": "h100-sxm", **axes})
    assert says in str(error.value)


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CONNECT_S", 0.5)
    with pytest.raises(rl.InputError, match="cluster: expected"):
        sweep(LLAMA, on="h100-sxm", context=1, cluster="tcp://127.0.0.1:1")


def test_figures_of_a_chip() -> None:
    result = sweep(CONFIG, on=["h100-sxm", "l4"], figures="bw=1T,2T", batch=4, context=100, columns="time")
    for row in result.to_frame().to_dicts():
        alone = rl.estimate(CONFIG, rl.decode(4, 100), on=f"like={row['on']},{row['figures']}")
        assert near(row["time"], alone.time)


def test_pieces_are_the_same_in_any_process() -> None:
    result = sweep([LLAMA, MOE], on="h100-sxm", batch=[1, 2], context=[10, 20], where="fits")
    again = pickle.loads(pickle.dumps(result.sweeper))
    assert again.piece(0).rows["time"].tolist() == result["time"].tolist()
    assert sweep_digest(again) == sweep_digest(result.sweeper)


def test_in_order() -> None:
    assert list(each_in_order(str, range(3))) == ["0", "1", "2"]


def test_a_result_like_others() -> None:
    result = sweep(LLAMA, on="h100-sxm", batch=[1, 2], context=10)
    assert result.axes == {"model": 1, "on": 1, "batch": 2, "context": 1}
    assert result["batch"].tolist() == [1, 2]
    assert result["bound"].tolist() == result.table["bound"]
    assert "Sweep, 2 points" in repr(result)
    assert result.to_dict()["schema"] == "roofline.sweep/1"


TOGETHER: list[tuple[str, str, dict[str, Any]]] = [
    (LLAMA, "decode", {"on": "16xh100-sxm", "layout": "tp=1..8,pp=1,2,dp=1..4,cp=1,2", "context": [9, 5000]}),
    (MOE, "decode", {"on": "16xh200-sxm", "layout": "tp=1,2,4,dp=1..4,ep=1,2,4,8,sp", "context": [900]}),
    (V3, "decode", {"on": "32xh200-sxm", "layout": "tp=1,4,8,dp=1..4,ep=1,8,32", "context": 900}),
    (NEXT, "decode", {"on": "8xh200-sxm", "layout": "tp=1,2,4,dp=1,2,ep=1,2", "context": 9}),
    ("openai/gpt-oss-120b", "prefill", {"on": "8xb200", "layout": "tp=1,2,4,dp=1,2,ep=1,2", "input": [5, 3000]}),
    (MOE, "generate", {"on": "8xh200-sxm", "layout": "tp=1,2,4,dp=1,2,ep=1,2", "input": 300, "output": 20}),
    (LLAMA, "generate", {"on": "h100-sxm", "layout": "tp=1,2,dp=1..4,cp=1,2", "input": 300, "output": 20}),
]  # fmt: skip


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("model", "phase", "axes"), TOGETHER, ids=lambda v: v if isinstance(v, str) else "")
def test_plans_together_are_those_alone(
    model: str, phase: str, axes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ["tpot"] if phase in ("decode", "generate") else ["ttft"]
    columns = [*wanted, "memory_total", "memory_cache", "fits", "tokens_per_second_per_chip", "grade"]
    columns += ["time_low", "bound", "mfu", "network_time"] if phase in ("decode", "prefill") else ["latency", "waves"]
    batch = [1, 33, 700] if phase != "generate" else [33, 700]
    asked: dict[str, Any] = {"precision": [None, "kv=fp8"], "batch": batch, "columns": columns, **axes}
    together = sweep(model, phase=phase, where="memory_weights > 0GB and layout != 'tp=2, dp=2'", **asked)
    monkeypatch.setattr(compiled, "FEWEST_TOGETHER", 10**9)
    alone = sweep(model, phase=phase, where="memory_weights > 0GB and layout != 'tp=2, dp=2'", **asked)
    assert together.rows > 0
    assert together.dropped == alone.dropped
    assert "tp=2, dp=2" not in set(together["layout"])
    one, other = together.to_frame(), alone.to_frame()
    for name in one.columns:
        if one[name].dtype.is_float():
            assert np.allclose(one[name], other[name], rtol=CLOSE, atol=0), name
        else:
            assert one[name].equals(other[name]), name
