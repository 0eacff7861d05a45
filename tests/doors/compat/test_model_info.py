"""The figures of dump_model_info: its report of DeepSeek-V3, 8 × 255 tokens on an H200, and its sensitivity grid."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import make_dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.doors.compat.chips import H200
from roofline.doors.compat.model_info.account import Account, account
from roofline.doors.compat.model_info.dump import dump_model_info
from roofline.doors.compat.model_info.floor import beyond_floor
from roofline.doors.compat.model_info.frontier import CriticalBatch, frontier, frontier_batch
from roofline.doors.compat.model_info.knobs import COLUMNS as CSV_HEADER
from roofline.doors.compat.model_info.knobs import knob_grid, ranking
from roofline.doors.compat.model_info.rules import EFFICIENT, NAIVE, RULES, ReportPhase
from roofline.views.plots.data import RooflinePlot

V3 = rl.load("deepseek-ai/DeepSeek-V3")
GOLDEN = json.loads((Path(__file__).parent / "golden" / "deepseek-v3.json").read_text(encoding="utf-8"))


LLAMA, QWEN, OSS = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b"
QUICK: dict[str, Any] = {"sensitivity_enable": False, "include_architecture_diagrams": False}
SHORT: dict[str, Any] = {**QUICK, "batch_size": 8, "seq_len": 255}
CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100, "dtype": "bfloat16",
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip


def section(text: str, heading: str) -> str:
    """What stands under a heading."""
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without the heads."""
    lines = [line for line in section(text, heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@cache
def report() -> str:
    """Of DeepSeek-V3, 8 × 255 tokens."""
    return dump_model_info(V3, **SHORT)


@cache
def knobs(ep: int = 1) -> tuple[Any, ...]:
    """The grid of DeepSeek-V3 with its own rules."""
    return tuple(knob_grid(V3, batch=8, ep=ep))


@cache
def of_config() -> str:
    """The report of a small config."""
    return dump_model_info(CONFIG, **QUICK)


def figures(a: Account) -> dict[str, float]:
    """Under the names of the golden file."""
    return {
        "F": a.flops, "Fr": a.realizable, "w": sum(t.weights for t in a.terms),
        "a": sum(t.activations for t in a.terms),
        "kv": sum(t.cache for t in a.terms), "t": sum(t.temporary for t in a.terms), "hbm": a.bytes,
        "net": a.network_bytes, "AI": a.intensity, "MFU": a.mfu, "tc": a.compute, "th": a.memory, "tn": a.network,
        "T": a.time, "TF": a.flops / a.time / 1e12,
    }  # fmt: skip


def of(phase: ReportPhase, rules: str, ep: int = 1, batch: int = 8) -> Account:
    return account(V3, phase, RULES[rules], batch=batch, length=255, ep=ep)


@folded("case", sorted(GOLDEN))
def test_every_figure(case: str) -> None:
    ep, phase, rules = case.split("/")
    step = of(phase, rules, int(ep.removeprefix("EP")))  # type: ignore[arg-type]
    wanted = {k: v for k, v in GOLDEN[case].items() if k != "reg"}
    assert figures(step) == pytest.approx(wanted, rel=1e-9)
    assert step.regime == GOLDEN[case]["reg"]


def test_the_articles_headlines() -> None:
    intensities = [
        of(p, r).intensity for p, r in (("training", "efficient"), ("training", "naive"), ("prefill", "efficient"))
    ]  # type: ignore[arg-type]
    assert [round(x, 2) for x in intensities] == [652.03, 319.05, 434.68]
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
    points = knobs(ep)
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
    below = beyond_floor(V3, one, batch=8, length=255)
    assert below is not None
    assert below.share < 0.51


def test_the_floor_is_that_of_the_accounts_own_widths() -> None:
    wide = account(V3, "decode", replace(RULES["naive"], weight_bytes=2.0), batch=8, length=255)
    below = beyond_floor(V3, wide, batch=8, length=255)
    assert below is not None
    assert 0.9 < below.share < 1  # by Poisson a little less than by the exact expectation


@pytest.mark.parametrize(
    "given", [{"activation_bytes": 0}, {"batch_size": 0}, {"seq_len": -1}, {"roofline": "h2000"}], ids=str
)
def test_bad_input(given: dict[str, object]) -> None:
    with pytest.raises(rl.InputError):
        dump_model_info(V3, **{"seq_len": 255, "sensitivity_enable": False, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(("length", "wanted"), [(2048, 471.3), (4096, 306.9), (8192, 224.7), (16384, 183.6)])
def test_the_frontier_of_decode(length: int, wanted: float) -> None:
    """FLOPs a byte of cache as the batch grows, at EP 64, as that report prints them."""
    edge = frontier(V3, ep=64, length=length)
    assert round(edge.memory, 1) == wanted
    assert (edge.batch is None) == (edge.memory < 0.9 * 1979e12 / 4.8e12)
    assert edge.limiter == ("cache" if edge.batch is None else "")


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


# -- the critical batch --------------------------------------------------------------------------------------------
@folded(
    ("given", "wanted"),
    [
        ({"roofline": "nand-pim"}, "naive: 1 already, the smallest asked for; efficient: 1 already"),
        ({"roofline": "groq-lpu"}, "naive: 1.251; efficient: 1 already"),
        ({"seq_len": 8, "decode_batch_sizes": [1024, 2048]}, "naive: 1024 already, the smallest asked for; efficient"),
        ({"decode_batch_sizes": [1024, 512, 256, 128]}, "naive: 490.878; efficient: 128 already"),
        ({"decode_batch_sizes": [128, 256, 512, 1024]}, "naive: 490.878; efficient: 128 already"),
        ({"decode_batch_sizes": [1, 2]}, "naive: none up to 2; efficient: none up to 2."),
    ],
    ids=str,
    drawn=3,
)
def test_the_critical_batch(given: dict[str, Any], wanted: str) -> None:
    assert wanted in section(dump_model_info(LLAMA, **{**SHORT, **given}), "Decode over batch")


def test_a_crossing_lies_between_two_batches() -> None:
    assert frontier_batch([4, 1, 2], float, 3.0) == CriticalBatch(3.0, False)
    assert frontier_batch([4, 2], float, 2.0) == CriticalBatch(2, True)
    assert frontier_batch([4, 2], float, 5.0) is None
    critical = frontier_batch((1, 64, 32, 128), lambda b: of("decode", "efficient", 64, b).intensity, H200.knee)
    assert critical is not None
    assert round(critical.batch, 3) == 61.928


# -- the grid ------------------------------------------------------------------------------------------------------
def test_the_grid_has_the_callers_rules(tmp_path: Path) -> None:
    mine = replace(NAIVE, name="mine", residency=(2.0, 2.0, 2.0))
    path = tmp_path / "grid.csv"
    text = dump_model_info(
        V3, batch_size=8, seq_len=255, rules=(NAIVE, mine), param_bytes_assumed=2, activation_bytes=2,
        enable_tensor_core_model=False, sensitivity_csv=path, include_architecture_diagrams=False,
    )  # fmt: skip
    table = list(csv.DictReader(path.open(encoding="utf-8")))
    assert [row["exec_model"] for row in table] == ["naive"] * 216 + ["mine"] * 216
    same = {"kv_dtype_bytes": "2", "top_k": "8", "kv_rank_scale": "1.0", "hidden_scale": "1.0", "cache_len": "4096"}
    one, other = (row for row in table if all(row[k] == v for k, v in same.items()))
    rules = replace(NAIVE, weight_bytes=2, activation_bytes=2, cache_bytes=2).at_peak()
    wanted = account(V3, "decode", rules, batch=8, length=4096)
    assert float(one["t_est_ms"]) == pytest.approx(1e3 * wanted.time, rel=1e-9)
    assert wanted.regime == "hbm"
    halved = account(V3, "decode", replace(rules, residency=mine.residency), batch=8, length=4096)
    assert float(other["t_est_ms"]) == pytest.approx(1e3 * halved.time, rel=1e-9)
    assert section(text, "Sensitivity").count(" %") == 5
    assert "Effect on the median decode time, mine" in text


def test_the_ranking_is_of_the_second_rules() -> None:
    renamed = (replace(NAIVE, name="one"), replace(EFFICIENT, name="two"))
    assert ranking(knob_grid(V3, batch=8, rules=renamed)) == ranking(knobs())


# -- ranks ---------------------------------------------------------------------------------------------------------
def test_physical_rows_are_of_one_rank() -> None:
    text = dump_model_info(V3, **SHORT, ep_size=64)
    regimes = {(r[0], r[1]): r[2:] for r in rows(text, "Regimes")}
    layout = rl.Layout(dp=64, ep=64)
    how = {"on": "h200-sxm", "layout": layout, "precision": "weights=fp8,kv=fp8", "engine": "none"}
    e = rl.estimate(V3, rl.decode(64 * 8, 255), **how)
    decode = regimes["decode", "physical"]
    assert decode[0] == f"{e.analysis.flops / 1e9:.2f} GFLOP"
    assert decode[1] == f"{e.analysis.bytes / 1e9:.2f} GB"
    assert float(decode[3].removesuffix(" ms")) == pytest.approx(1e3 * e.time, rel=0.01)
    assert all(regimes["training", "physical"][3:])
    sent = dict(rl.estimate(V3, rl.prefill(64 * 8, 255), **how).shares)
    assert sent["communication"] > 0.5
    assert regimes["prefill", "physical"][-1] == "network"


def test_the_floor_is_that_of_the_same_rank() -> None:
    """Decode at EP 64 in 2.1 ms, where reading each touched weight once takes 5.5 ms."""
    one = of("decode", "efficient", 64)
    below = beyond_floor(V3, one, batch=8, length=255, ep=64)
    assert below is not None
    assert [round(1e3 * t, 1) for t in (one.time, below.floor / 4.8e12)] == [2.1, 5.5]
    assert below.share == pytest.approx(0.385, abs=0.001)
    assert beyond_floor(V3, of("decode", "naive", 64), batch=8, length=255, ep=64) is None
    text = dump_model_info(V3, **SHORT, ep_size=64)
    assert "decode, efficient: 10.20 GB is 38.5 % of the 26.48 GB that must cross memory" in text


def test_ranks_that_do_not_share_the_experts_evenly() -> None:
    """⌈256 / 3⌉ = 86 experts of 58 layers on a rank, in memory as in the step."""
    text = dump_model_info(V3, **SHORT, ep_size=3)
    assert "No physical rows: 3 ranks do not share 256 experts evenly." in text
    assert "physical" not in {row[1] for row in rows(text, "Regimes")}
    expert = 3 * 7168 * 2048
    assert f"| routed experts of a rank | {58 * 86 * expert / 1e9:.2f} GB |" in text
    step = account(V3, "prefill", "naive", batch=8, length=255, ep=3)
    shared_and_router = 58 * (expert + 7168 * 256)
    assert step.term("experts").weights == pytest.approx(58 * 86 * expert + shared_and_router, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "ep", "words"),
    [(V3, 10**6, "at most 256"), (LLAMA, 2, "no experts"), (V3, 0, "from 1"), (V3, 2.0, "whole number")],
    ids=str,
)
def test_ranks_that_cannot_be(model: Any, ep: Any, words: str) -> None:
    with pytest.raises(rl.InputError, match=words) as error:
        dump_model_info(model, **SHORT, ep_size=ep)
    assert error.value.field == "ep_size"


def test_no_link_is_made_up() -> None:
    with pytest.raises(rl.InputError) as error:
        dump_model_info(QWEN, **SHORT, ep_size=2, roofline="m4-max")
    assert error.value.field == "interconnect_bw_gbps"
    text = dump_model_info(QWEN, **SHORT, ep_size=2, roofline="m4-max", interconnect_bw_gbps=100)
    sent = 2 * 8 * 255 * 8 * 2048 * 48 / 2
    assert rows(text, "Communication")[1] == [
        "prefill",
        f"{2 * sent / 1e9:.2f} GB",
        f"{sent / 1e9:.2f} GB",
        f"{1e3 * sent / 1e11:.3g} ms",
    ]
    alone = section(dump_model_info(QWEN, **SHORT, roofline="m4-max"), "Decode, compute bound")
    assert "The link of Apple M4 Max is not known: no batch is limited by the network." in alone
    assert "none: network" not in alone
    assert frontier(V3, ep=64, length=2048, on=replace(H200, link=None)).limiter == ""


# -- why they differ -----------------------------------------------------------------------------------------------
def test_categories_add_up_to_the_physical_step() -> None:
    table = rows(report(), "Why they differ")
    assert [r[1] for r in table if r[0] == "decode"] == ["attention", "ffn", "experts", "head", "embedding", "other"]
    decode = {r[1]: r for r in table if r[0] == "decode"}
    assert decode["head"][2:4] == ["14.83 GFLOP", "14.83 GFLOP"]
    assert decode["embedding"][4:] == ["926.74 MB", "231.70 MB", "229.38 kB"]
    scale = {"TFLOP": 1e12, "GFLOP": 1e9, "MFLOP": 1e6, "kFLOP": 1e3, "FLOP": 1.0}
    real = rl.analyze(V3, rl.prefill(8, 255), precision="weights=fp8,kv=fp8").flops
    cells = [r[3].split() for r in table if r[0] == "prefill"]
    assert sum(float(n) * scale[unit] for n, unit in cells) == pytest.approx(real, rel=1e-3)


@folded(
    "words",
    [
        "prefill: masks leave 15,928,320 of the 31,732,200 query-key pairs that the rules count, 50.2 %.",
        "prefill: the head runs for 8 of 2,040 positions, by the rules for all.",
        "prefill: latents are expanded: scores over 192 and values of 128 elements a head, as by the rules.",
        "decode: latents are absorbed: scores over 576 and values of 512 elements a head, by the rules 192 and 128.",
        "decode: the embedding looks up 8 of 129,280 rows, by the rules all are read.",
        "decode: tokens visit 56.63 of 256 experts by Poisson, exactly 57.42.",
        "decode: efficient divides weights by 4/4/2 (attention/dense/experts), 77.27 GB are left.",
        "training: 3 times the FLOPs and 2 times the bytes of a prefill by the rules",
        "decode, naive: 162.01 GB is 99.4 % of the 162.94 GB that must cross memory when each weight touched is read "
        "once: 56.63 of 256 experts by Poisson, exactly 57.42, 2.03 GB less.",
    ],
)
def test_causes_have_their_numbers(words: str) -> None:
    assert words in report()


def test_a_chunk_leaves_less_in_decode_too() -> None:
    """3 of 4 layers see the last 20000 % 8192 = 3616 tokens and the new one; by the rules 8192."""
    text = dump_model_info("meta-llama/Llama-4-Scout-17B-16E-Instruct", **QUICK, seq_len=20000)
    real, counted = 12 * 20001 + 36 * 3617, 12 * 20000 + 36 * 8192
    assert f"- decode: masks leave {real:,} of the {counted:,} query-key pairs that the rules count" in text


def test_no_cause_that_does_not_apply() -> None:
    text = section(dump_model_info(LLAMA, **SHORT), "Why they differ")
    assert "latents" not in text
    assert "Poisson" not in text
    lines = text.splitlines()
    assert not [line for line in lines if line.startswith("- decode: masks")]
    assert not [line for line in lines if line.startswith(("- decode: the head", "- training: the head"))]


def test_training_has_times() -> None:
    """On one H200, all sequences in one micro-batch, products in fp8."""
    row = next(r for r in rows(dump_model_info(LLAMA, **SHORT), "Regimes") if r[:2] == ["training", "physical"])
    e = rl.estimate(rl.load(LLAMA), rl.training(8, 255, recipe="fp8", micro_batch=8), on="h200-sxm")
    assert float(row[5].removesuffix(" ms")) == pytest.approx(1e3 * e.time, rel=0.01)
    assert float(row[6].removesuffix(" %")) == pytest.approx(100 * e.mfu, rel=0.01)


# -- formats -------------------------------------------------------------------------------------------------------
@folded(
    ("given", "chip", "target"),
    [
        ({"roofline": "b200"}, "fp8", "fp8"),
        ({"roofline": "b200", "param_bytes_assumed": 0.5}, "fp4", "fp4"),
        ({"roofline": "h100-sxm", "param_bytes_assumed": 0.5}, "fp8", "fp8"),
        ({"roofline": "h100-sxm", "param_bytes_assumed": 2}, "bf16", "bf16"),
        ({"roofline": "a100-sxm-80gb"}, "bf16", "bf16"),
        ({"roofline": "v100-sxm2-32gb"}, "fp16", "fp16"),
        ({"roofline": "b200", "roofline_targets": ["a100-sxm-80gb"]}, "fp8", "bf16"),
        ({"param_bytes_assumed": 2}, "fp8", "fp8"),
        ({"param_bytes_assumed": 0.5}, "fp8", "fp8"),
    ],
    ids=str,
    drawn=5,
)
def test_the_format_of_the_peak_is_said(given: dict[str, Any], chip: str, target: str) -> None:
    text = dump_model_info(LLAMA, **SHORT, **given)
    assert [row[1] for row in rows(text, "Chips")] == [chip, target]
    peak = rows(text, "Chips")[0][2]
    assert f"peak {peak} in {chip}," in text.partition("\n## ")[0]
    assert f"Peak: {peak}, that of {chip}." in section(text, "Assumptions")


def test_the_default_chip_keeps_its_peak() -> None:
    for width in (0.5, 1, 2, 4):
        assert "knee 412.29" in dump_model_info(LLAMA, **SHORT, param_bytes_assumed=width)


def test_physical_rows_have_a_peak_of_their_own() -> None:
    """Weights of 2 bytes: bf16, at half of the default chip's peak; of half a byte: 4 bits."""
    text = dump_model_info(LLAMA, **SHORT, param_bytes_assumed=2, activation_bytes=2)
    assert "- decode: bf16, MFU of 989.50 TFLOP/s in bf16." in text
    half = dump_model_info(LLAMA, **SHORT, param_bytes_assumed=0.5, roofline="b200")
    assert "- decode: bf16, weights fp4, kv fp8, MFU of 9.00 PFLOP/s in fp4." in half
    moved = rl.analyze(rl.load(LLAMA), rl.decode(8, 255), precision="weights=fp4,kv=fp8").bytes
    assert next(r for r in rows(half, "Regimes") if r[:2] == ["decode", "physical"])[3] == f"{moved / 1e9:.2f} GB"


# -- the frontier --------------------------------------------------------------------------------------------------
def test_the_frontier_has_the_rules_widths() -> None:
    plain = frontier(V3, ep=64, length=2048)
    wide = frontier(V3, ep=64, length=2048, rules=replace(NAIVE, cache_bytes=2.0))
    assert wide.memory == pytest.approx(plain.memory / 2)
    assert wide.network == plain.network
    assert wide.limiter == "cache"
    sent = frontier(V3, ep=64, length=2048, rules=replace(NAIVE, activation_bytes=2.0))
    assert sent.network == pytest.approx(plain.network / 2)
    assert sent.memory == plain.memory
    heavy = frontier(V3, ep=64, length=2048, rules=replace(NAIVE, weight_bytes=4.0))
    assert plain.batch is not None
    assert heavy.batch is not None
    assert heavy.batch > plain.batch
    text = section(dump_model_info(V3, **SHORT, kv_cache_bytes=2), "Decode, compute bound")
    assert f"| 64 | 2,048 | {wide.memory:.1f} |" in text


def test_lengths_stay_within_the_context() -> None:
    text = dump_model_info(QWEN, **{**QUICK, "seq_len": 300})
    assert {row[1] for row in rows(text, "Decode, compute bound")} == {"300", "2,048", "4,096", "8,192", "16,384"}
    assert "300" in [row[0] for row in rows(text, "Prefill over length")]
    small = dump_model_info("openai-community/gpt2", **{**QUICK, "seq_len": 100})
    assert [row[0] for row in rows(small, "Prefill over length")] == ["64", "100", "128", "256", "512", "1,024"]
    assert "Beyond the context of 1,024, left out: 2,048, 4,096, 8,192, 16,384, 32,768." in small


# -- windows -------------------------------------------------------------------------------------------------------
def test_windows_bound_scores_and_cache_alike() -> None:
    """24 layers, every other one with a window of 128: 8 heads of 64 for keys and as many for values."""
    model = rl.load(OSS)
    kept = 12 * 1024 * (4096 + 128)
    prefill, decode = (account(model, p, "naive", batch=2, length=4096) for p in ("prefill", "decode"))  # type: ignore[arg-type]
    assert prefill.term("attention").cache == 2 * kept == 2 * model.kv_elements(4096)
    assert decode.term("attention").cache == 2 * (kept + 24 * 1024)
    assert decode.term("attention").temporary == 2 * 2 * 64 * 12 * (4096 + 128)
    short = account(model, "decode", "naive", batch=2, length=100)
    assert short.term("attention").cache == 2 * 24 * 1024 * 101
    text = dump_model_info(model, **QUICK, batch_size=2, seq_len=4096)
    assert f"| KV cache | {2 * kept / 1e6:.2f} MB |" in text
    assert f"{2 * kept / 1e6:.2f} MB (" in section(text, "Bytes by term")
    f = frontier(model, ep=1, length=4096)
    projections = 24 * 2 * (2880 * (4096 + 2 * 512) + 4096 * 2880)
    scores = 12 * 64 * (4096 + 128) * (2 * 64 + 1 + 2 * 64)
    experts = 24 * (2 * 2880 * 32 + 4 * 2 * 3 * 2880 * 2880)
    assert f.memory == pytest.approx((projections + scores + experts) / (kept + 24 * 1024), rel=1e-12)


# -- rules ---------------------------------------------------------------------------------------------------------
def test_rules_by_name() -> None:
    assert account(V3, "decode", "naive", batch=8, length=255) == of("decode", "naive")
    for wrong in ("nave", 3, None):
        with pytest.raises(rl.InputError, match="rules"):
            account(V3, "decode", wrong, batch=8, length=255)  # type: ignore[arg-type]


def test_exact_experts_and_no_network() -> None:
    """256·(1 − (1 − 8/256)^8) experts for 8 tokens; over 64 ranks a 64th of those for 512."""
    exact = replace(NAIVE, poisson=False)
    expert, rest = 3 * 7168 * 2048, 58 * (7168 * 256 + 3 * 7168 * 2048)
    one = account(V3, "decode", exact, batch=8, length=255).term("experts").weights
    assert one == pytest.approx(rest + 58 * expert * 256 * (1 - (1 - 8 / 256) ** 8), rel=1e-12)
    rank = account(V3, "decode", exact, batch=8, length=255, ep=64).term("experts").weights
    assert rank == pytest.approx(rest + 58 * expert * 4 * (1 - (1 - 8 / 256) ** 512), rel=1e-12)
    alone = replace(NAIVE, network=False)
    step = account(V3, "prefill", alone, batch=8, length=255, ep=64, on=replace(H200, link=None))
    assert (step.network_bytes, step.network) == (0.0, 0.0)
    assert step.dispatch_bytes == of("prefill", "naive", 64).dispatch_bytes
    with pytest.raises(rl.InputError, match="link"):
        account(V3, "prefill", "naive", batch=8, length=255, ep=64, on=replace(H200, link=None))


@folded(
    "given",
    [
        {"residency": (0, 1, 1)}, {"residency": (1, 1)}, {"scalar": 0}, {"saturation": 0}, {"saturation": math.inf},
        {"fusion": -1}, {"elementwise": -0.1}, {"flash": 1}, {"poisson": 0}, {"network": None}, {"name": ""},
        {"tensor": (("attention", 0.9),)}, {"training_flops": 0}, {"weight_bytes": -1}, {"cache_bytes": True},
    ],
    ids=str,
)  # fmt: skip
def test_rules_that_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(rl.InputError) as error:
        replace(NAIVE, **given)
    assert error.value.field == f"rules.{next(iter(given))}"


def test_at_peak_says_so() -> None:
    text = dump_model_info(LLAMA, **SHORT, enable_tensor_core_model=False)
    assert [row[5] for row in rows(text, "Assumptions")] == ["at peak", "at peak"]
    assert next(r for r in rows(text, "Regimes") if r[:2] == ["training", "efficient"])[6] == "100.0 %"
    assert [row[5] for row in rows(dump_model_info(LLAMA, **SHORT), "Assumptions")] == ["64", "64"]


# -- what is given -------------------------------------------------------------------------------------------------
@folded(
    "given",
    [
        {"interconnect_bw_gbps": 0}, {"hbm_capacity_gb": 0}, {"training_flops_multiplier": 0},
        {"training_bytes_multiplier": -1}, {"decode_batch_sizes": []}, {"decode_batch_sizes": 4},
        {"decode_batch_sizes": ["8"]}, {"prefill_seq_lengths": []}, {"prefill_seq_lengths": 64}, {"rules": (1, 2)},
        {"rules": ()}, {"rules": (NAIVE,)}, {"rules": (NAIVE, NAIVE)}, {"kv_cache_bytes": 0},
        {"param_bytes_assumed": "1"}, {"tensor_core_b_sat": 0}, {"batch_size": [1, 2]}, {"seq_len": 2.5},
        {"roofline_targets": "b200"}, {"optimizer_state_bytes": -1}, {"report_path": 5}, {"plot_roofline": True},
        {"sensitivity_csv": "grid.csv"},
    ],
    ids=str,
)  # fmt: skip
def test_an_error_names_the_parameter(given: dict[str, Any]) -> None:
    with pytest.raises(rl.InputError) as error:
        dump_model_info(LLAMA, **{**SHORT, **given})
    assert error.value.field == next(iter(given))


class Plain:
    def __init__(self) -> None:
        self.__dict__.update(CONFIG)


@folded(
    "given",
    [
        SimpleNamespace(config=SimpleNamespace(**CONFIG)),
        SimpleNamespace(config=make_dataclass("C", CONFIG)(**CONFIG)), SimpleNamespace(config=CONFIG),
        SimpleNamespace(config=Plain()), SimpleNamespace(to_dict=lambda: CONFIG),
        make_dataclass("C", CONFIG)(**CONFIG), Plain(),
    ],
    ids=["namespace", "dataclass", "mapping", "object", "to_dict itself", "dataclass itself", "object itself"],
)  # fmt: skip
def test_configs_of_every_kind(given: Any) -> None:
    assert dump_model_info(given, **QUICK) == of_config()


def test_a_config_inside_a_config() -> None:
    text = {**CONFIG, "architectures": ["LlamaForCausalLM"]}
    outer = SimpleNamespace(model_type="llava", text_config=SimpleNamespace(**text), vision_config=SimpleNamespace(a=1))
    wanted = {"model_type": "llava", "text_config": text, "vision_config": {"a": 1}}
    assert dump_model_info(outer, **QUICK) == dump_model_info(wanted, **QUICK)


@folded(
    "given",
    [5, None, object(), dict, SimpleNamespace(config=5), SimpleNamespace(config="x")],
    ids=["number", "none", "object", "class", "config a number", "config a text"],
)
def test_no_config_at_all(given: Any) -> None:
    with pytest.raises(rl.InputError):
        dump_model_info(given, **QUICK)


@pytest.mark.parametrize(
    "name", ["state-spaces/mamba-130m-hf", "Qwen/Qwen3-Next-80B-A3B-Instruct", "ai21labs/Jamba-v0.1"]
)
def test_models_of_other_layers_are_refused(name: str) -> None:
    with pytest.raises(rl.InputError, match="one attention"):
        dump_model_info(name, **{**QUICK, "seq_len": 255})


# -- files ---------------------------------------------------------------------------------------------------------
@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("name", "field"),
    [("r.md", "report_path"), ("r_roofline.png", "plot_roofline"), ("grid.csv", "sensitivity_csv")],
)
def test_nothing_is_written_where_one_file_is_there(tmp_path: Path, name: str, field: str) -> None:
    (tmp_path / name).write_text("mine", encoding="utf-8")
    given: dict[str, Any] = {"sensitivity_csv": tmp_path / "grid.csv", "plot_roofline": True, "seq_len": 255}
    with pytest.raises(rl.InputError, match="force=True") as error:
        dump_model_info(LLAMA, tmp_path / "r.md", **given)
    assert error.value.field == field
    assert [p.name for p in tmp_path.iterdir()] == [name]
    dump_model_info(LLAMA, tmp_path / "r.md", force=True, **given)
    assert {p.name for p in tmp_path.iterdir()} == {"r.md", "r_roofline.png", "grid.csv"}


def test_one_file_for_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(rl.InputError) as error:
        dump_model_info(LLAMA, tmp_path / "r.md", sensitivity_csv=tmp_path / "r.md", seq_len=255)
    assert error.value.field == "sensitivity_csv"


# -- the picture ---------------------------------------------------------------------------------------------------
def drawn(monkeypatch: pytest.MonkeyPatch, path: Path, **given: Any) -> RooflinePlot:
    plots: list[RooflinePlot] = []
    monkeypatch.setattr("roofline.views.plots.write.write", lambda plot, *_, **__: plots.append(plot))
    dump_model_info(V3, path / "r.md", **SHORT, plot_roofline=True, **given)
    return plots[0]


def test_the_picture_is_of_the_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plot = drawn(monkeypatch, tmp_path)
    first, second = plot.panels
    (ceiling,) = first.roof.ceilings
    assert (ceiling.label, ceiling.peak, round(ceiling.ridge, 2)) == ("fp8", 1979e12, 412.29)
    assert second.roof.ceilings[0].label == "fp8"
    assert [(p.phase, p.group) for p in first.points] == [
        (phase, rules) for phase in ("training", "prefill", "decode") for rules in ("naive", "efficient")
    ]
    for p in first.points:
        one = of(p.phase, p.group)  # type: ignore[arg-type]
        assert (p.intensity, p.performance) == (one.intensity, one.flops / one.time)
        assert p.light == min(1979e12, 4.8e12 * one.intensity) >= p.performance * (1 - 1e-12)
    on = replace(H200, peak=4500e12, bandwidth=8e12)
    assert second.points[-1].performance == pytest.approx(
        (one := account(V3, "decode", "efficient", batch=8, length=255, on=on)).flops / one.time, rel=1e-3
    )


def test_a_target_without_a_link_has_a_roof_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plot = drawn(monkeypatch, tmp_path, ep_size=64, roofline_targets=["nand-pim"])
    assert [len(panel.points) for panel in plot.panels] == [6, 0]
    assert "no times where the link is not known: NAND-PIM" in plot.note


# -- the sections --------------------------------------------------------------------------------------------------
def test_formulas_name_each_op_once() -> None:
    for name in (V3, rl.load(OSS)):
        named = [tuple(row[:2]) for row in rows(dump_model_info(name, **SHORT), "Formulas")]
        assert len(named) == len(set(named)) == 6


def test_the_arrows_are_explained() -> None:
    text = dump_model_info(CONFIG, sensitivity_enable=False)
    assert (
        section(text, "Diagrams").strip().startswith("Arrows are the order in which modules run, not what each reads.")
    )


def test_modules_stand_in_the_order_of_their_size() -> None:
    totals = [int(row[3].replace(",", "")) for row in rows(report(), "Parameters by module")[:-1]]
    assert totals == sorted(totals, reverse=True)
    assert re.search(r"\| All \|  \|  \| 671,026,404,352 \|", report())
