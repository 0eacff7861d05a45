"""The figures of dump_model_info: its report of DeepSeek-V3, 8 × 255 tokens on an H200, and its sensitivity grid."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import roofline as rl
from roofline.compat.model_info import CSV_HEADER, dump_model_info
from roofline.compat.model_info_rules import H200, RULES, Account, Phase, account, beyond_floor, frontier, grid, ranking

V3 = rl.load("deepseek-ai/DeepSeek-V3")
GOLDEN = json.loads((Path(__file__).parent / "golden" / "deepseek-v3.json").read_text(encoding="utf-8"))


def figures(a: Account) -> dict[str, float]:
    """Under the names of the golden file."""
    return {
        "F": a.flops, "Fr": a.realizable, "w": sum(t.weights for t in a.terms),
        "a": sum(t.activations for t in a.terms),
        "kv": sum(t.cache for t in a.terms), "t": sum(t.temporary for t in a.terms), "hbm": a.bytes,
        "net": a.network_bytes, "AI": a.intensity, "MFU": a.mfu, "tc": a.compute, "th": a.memory, "tn": a.network,
        "T": a.time, "TF": a.flops / a.time / 1e12,
    }  # fmt: skip


def of(phase: Phase, rules: str, ep: int = 1, batch: int = 8) -> Account:
    return account(V3, phase, RULES[rules], batch=batch, length=255, ep=ep)


@pytest.mark.parametrize("case", sorted(GOLDEN))
def test_every_figure(case: str) -> None:
    ep, phase, rules = case.split("/")
    found = of(phase, rules, int(ep.removeprefix("EP")))  # type: ignore[arg-type]
    wanted = {k: v for k, v in GOLDEN[case].items() if k != "reg"}
    assert figures(found) == pytest.approx(wanted, rel=1e-9)
    assert found.regime == GOLDEN[case]["reg"]


def test_the_articles_headlines() -> None:
    found = [
        of(p, r).intensity for p, r in (("training", "efficient"), ("training", "naive"), ("prefill", "efficient"))
    ]  # type: ignore[arg-type]
    assert [round(x, 2) for x in found] == [652.03, 319.05, 434.68]
    assert round(of("decode", "efficient").intensity, 2) == 7.70
    assert round(1979e12 / 4.8e12, 2) == 412.29
    text = dump_model_info(V3, batch_size=8, seq_len=255, sensitivity_enable=False)
    for words in (
        "319.05 FLOP/B naive, 652.03 efficient",
        "434.68 efficient",
        "7.70 efficient",
        "knee 412.29",
        "97.8 %",
    ):
        assert words in text


def test_network_and_expert_parallelism() -> None:
    """Dispatch at EP 64: 12.64 GiB within, 12.44 GiB to other chips, 14.842 ms; decode 0.058 ms."""
    prefill, decode = of("prefill", "naive", 64), of("decode", "naive", 64)
    assert prefill.dispatch_bytes / 2**30 == pytest.approx(12.64, abs=0.005)
    assert prefill.network_bytes / 2**30 == pytest.approx(12.44, abs=0.005)
    assert 1e3 * prefill.network == pytest.approx(14.842, abs=0.0005)
    assert 1e3 * decode.network == pytest.approx(0.058, abs=0.0005)
    slices = {ep: of("decode", "efficient", ep) for ep in (32, 64, 128)}
    assert [round(a.intensity, 2) for a in slices.values()] == [38.96, 58.46, 78.00]
    assert [round(1e3 * a.time, 3) for a in slices.values()] == [3.188, 2.125, 1.592]
    worked = of("decode", "efficient", 64, batch=128)
    assert round(worked.intensity, 1) == 770.8
    assert [round(1e3 * x, 3) for x in (worked.compute, worked.memory, worked.network)] == [5.086, 2.578, 0.931]


@pytest.mark.parametrize(
    ("ep", "wanted"),
    [
        (1, [("top_k", 189.4), ("hidden_scale", 153.4), ("cache_len", 9.4), ("kv_rank_scale", 6.5),
             ("kv_dtype_bytes", 3.3)]),
        (64, [("hidden_scale", 121.3), ("cache_len", 90.0), ("kv_rank_scale", 45.2), ("kv_dtype_bytes", 6.1),
              ("top_k", 0.9)]),
    ],
)  # fmt: skip
def test_the_ranking_of_knobs(ep: int, wanted: list[tuple[str, float]]) -> None:
    points = list(grid(V3, batch=8, ep=ep))
    assert len(points) == 432
    assert [(knob, round(100 * effect, 1)) for knob, effect in ranking(points)] == wanted


def test_rules_below_the_floor_are_flagged() -> None:
    below = beyond_floor(V3, of("decode", "efficient"), batch=8, length=255)
    assert below is not None
    assert below.share == pytest.approx(0.475, abs=0.001)
    assert beyond_floor(V3, of("prefill", "naive"), batch=8, length=255) is None


def test_the_report_of_any_model(tmp_path: Path) -> None:
    path, rows = tmp_path / "report.md", tmp_path / "grid.csv"
    text = dump_model_info(
        "Qwen/Qwen3-30B-A3B", path, batch_size=4, seq_len=512, sensitivity_csv=rows, plot_roofline=True
    )
    assert path.read_text(encoding="utf-8") == text
    assert (tmp_path / "report_roofline.png").stat().st_size > 10_000
    table = list(csv.DictReader(rows.open(encoding="utf-8")))
    assert tuple(table[0]) == CSV_HEADER
    assert len(table) == 432
    for heading in (
        "Fingerprint",
        "Diagrams",
        "Assumptions",
        "Bytes by term",
        "Regimes",
        "Memory",
        "Communication",
        "Sensitivity",
    ):
        assert f"## {heading}" in text
    assert "```mermaid" in text
    with pytest.raises(rl.InputError, match="force"):
        dump_model_info("Qwen/Qwen3-30B-A3B", path, seq_len=512)
    with pytest.raises(rl.InputError, match="can be written"):
        dump_model_info("Qwen/Qwen3-30B-A3B", tmp_path / "no" / "report.md", seq_len=512)


def test_a_dense_model_keeps_its_grouped_queries() -> None:
    """Grouped keys and values are counted as they are: the original multiplies by all heads."""
    model = rl.load("meta-llama/Llama-3.1-8B")
    a = account(model, "decode", RULES["naive"], batch=1, length=1024)
    assert a.term("attention").cache == 32 * 1025 * 2 * 8 * 128
    assert "## Regimes" in dump_model_info(model, seq_len=1024, sensitivity_enable=False)


def test_a_module_that_carries_its_config() -> None:
    config = {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100, "dtype": "bfloat16",
        "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
    }  # fmt: skip
    module = SimpleNamespace(config=SimpleNamespace(to_dict=lambda: config))
    assert dump_model_info(module, sensitivity_enable=False) == dump_model_info(config, sensitivity_enable=False)


def test_the_parameters_of_the_original() -> None:
    quick = {"batch_size": 8, "seq_len": 255, "sensitivity_enable": False}
    text = dump_model_info(
        V3, **quick, hbm_capacity_gb=2000, interconnect_bw_gbps=450, decode_batch_sizes=(3, 5), ep_size=64,
        prefill_seq_lengths=(77,), include_architecture_diagrams=False, roofline_targets=("l40s",),
        optimizer_state_bytes=2, master_weight_bytes=0.5,
    )  # type: ignore[arg-type]  # fmt: skip
    assert "mermaid" not in text
    assert "| 3 |" in text
    assert "| 77 |" in text
    assert "| 64 |" not in text.partition("## Decode over batch")[2].partition("\n## ")[0]
    assert "L40S" in text
    assert "| inference fits | yes |" in text
    slow = account(V3, "prefill", RULES["naive"], batch=8, length=255, ep=64, on=replace(H200, link=450e9))
    assert slow.network == 2 * of("prefill", "naive", ep=64).network


def test_settings_of_ones_own() -> None:
    """Half the weights' bytes, nothing fused, every FLOP at the peak."""
    mine = replace(RULES["naive"], name="mine", residency=(2.0, 2.0, 2.0)).at_peak()
    text = dump_model_info(V3, batch_size=8, seq_len=255, sensitivity_enable=False, rules=(RULES["naive"], mine))
    assert "| mine | 2/2/2 |" in text
    one, plain = (account(V3, "decode", r, batch=8, length=255) for r in (mine, RULES["naive"]))
    assert sum(t.weights for t in one.terms) == pytest.approx(sum(t.weights for t in plain.terms) / 2)
    assert one.realizable == pytest.approx(one.flops)
    found = beyond_floor(V3, one, batch=8, length=255)
    assert found is not None
    assert found.share < 0.51


def test_the_floor_is_that_of_the_accounts_own_widths() -> None:
    wide = account(V3, "decode", replace(RULES["naive"], weight_bytes=2.0), batch=8, length=255)
    found = beyond_floor(V3, wide, batch=8, length=255)
    assert found is not None
    assert 0.9 < found.share < 1  # by Poisson a little less than by the exact expectation


@pytest.mark.parametrize(
    "given", [{"activation_bytes": 0}, {"batch_size": 0}, {"seq_len": -1}, {"roofline": "h2000"}], ids=str
)
def test_bad_input(given: dict[str, object]) -> None:
    with pytest.raises(rl.InputError):
        dump_model_info(V3, **{"seq_len": 255, "sensitivity_enable": False, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(("length", "wanted"), [(2048, 471.3), (4096, 306.9), (8192, 224.7), (16384, 183.6)])
def test_the_frontier_of_decode(length: int, wanted: float) -> None:
    """FLOPs a byte of cache as the batch grows, at EP 64, as that report prints them."""
    found = frontier(V3, ep=64, length=length)
    assert round(found.memory, 1) == wanted
    assert (found.batch is None) == (found.memory < 0.9 * 1979e12 / 4.8e12)
    assert found.limiter == ("cache" if found.batch is None else "")


def test_the_smallest_batch_keeps_up_and_its_half_does_not() -> None:
    """Layers of experts alone: projections, cache and the experts touched of 58 of them, by hand."""
    one = frontier(V3, ep=64, length=2048)
    assert one.batch is not None

    def keeps_up(batch: int) -> bool:
        matrices = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
        expert, cache = 3 * 7168 * 2048, 61 * 576 * 2049
        flops = one.memory * cache
        touched = 4 * 58 * expert * (1 - math.exp(-batch * 64 * 8 / 256))
        weights = 61 * matrices + 58 * (7168 * 256 + expert)
        return batch * flops / 1979e12 >= 0.9 * (weights + touched + batch * cache) / 4.8e12

    assert keeps_up(one.batch)
    assert not keeps_up(one.batch // 2)
    assert frontier(V3, ep=64, length=2048, on=replace(H200, link=1e9)).limiter == "network"
