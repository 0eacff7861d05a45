"""LLM-para: its README's examples, its columns, every cell of its formula table, its pictures, its slips by name."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.doors.compat import llm_para
from roofline.doors.compat.llm_para import CsvRow, analyze_from_csv, compute_and_plot_transformer_analysis, read_csv
from roofline.doors.compat.llm_para_table import COLUMNS, Operation
from roofline.work.counting import STANDARD
from roofline.work.traffic import FUSED, TRAFFICS

BITS = {"activation": 16, "weight_attn": 16, "weight_ffn": 16, "kv_cache": 16, "rope_bit": 32}
COMMON: dict[str, Any] = {
    "hidden_size": 4096, "num_heads": 32, "seq_len": 2048, "batch_size": 1, "num_layers": 32,
    "num_key_value_heads": 8, "quant_config": BITS, "use_rope": True, "rope_theta": 500000.0,
}  # fmt: skip
LLAMA = {**COMMON, "intermediate_size": 14336, "use_gate_ffn": True}
MIXTRAL = {**COMMON, "intermediate_size": 14336, "num_experts_per_tok": 2, "num_local_experts": 8}
OLMOE = {
    **COMMON, "hidden_size": 2048, "num_heads": 16, "num_key_value_heads": 16, "seq_len": 128, "num_layers": 16,
    "intermediate_size": 1024, "num_experts_per_tok": 8, "num_local_experts": 64,
}  # fmt: skip
ONE_TOKEN = {**OLMOE, "seq_len": 1, "intermediate_size": 1000}
TERNARY = {**BITS, "activation": 8, "weight_attn": 1.58, "weight_ffn": 1.58, "kv_cache": 8}
BITNET = {
    **COMMON, "hidden_size": 2560, "num_heads": 20, "num_key_value_heads": 5, "intermediate_size": 6912,
    "num_layers": 30, "use_gate_ffn": True, "quant_config": TERNARY,
}  # fmt: skip
A100 = {"name": "NVIDIA A100", "peak_performance": 19.5e12, "memory_bandwidth": 1.555e12}


def run(folder: Path, name: str = "table.csv", **options: Any) -> list[Operation]:
    return compute_and_plot_transformer_analysis(**options, output_csv_path=folder / name)


@pytest.fixture
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables alone: the charts of these models are drawn in other tests."""
    monkeypatch.setattr(llm_para, "_draw_charts", lambda path, table: None)


@pytest.fixture
def no_charts_by_day(whole: bool, request: pytest.FixtureRequest) -> None:
    """Tables alone, but with `--whole` their charts too."""
    if not whole:
        request.getfixturevalue("no_charts")


def cell(table: list[Operation], phase: str, operation: str) -> Operation:
    (row,) = (r for r in table if (r.phase, r.operation) == (phase, operation))
    return row


# -- the README's examples, but for the import ---------------------------------------------------------------------
EXAMPLES = '''
from roofline.doors.compat.llm_para import compute_and_plot_transformer_analysis

compute_and_plot_transformer_analysis(
    hidden_size=4096, num_heads=32, seq_len=2048, batch_size=1, num_layers=32, intermediate_size=11008,
    num_key_value_heads=8,
    quant_config={"activation": 16, "weight_attn": 16, "weight_ffn": 16, "kv_cache": 16, "rope_bit": 32},
    use_rope=True, rope_theta=500000.0, output_csv_path="llama3_8b_analysis.csv"
)
compute_and_plot_transformer_analysis(
    hidden_size=4096, num_heads=32, seq_len=2048, batch_size=1, num_layers=32, intermediate_size=14336,
    num_key_value_heads=8, num_experts_per_tok=2, num_local_experts=8,
    quant_config={"activation": 16, "weight_attn": 16, "weight_ffn": 16, "kv_cache": 16, "rope_bit": 32},
    use_rope=True, rope_theta=1000000.0, output_csv_path="mixtral_8x7b_analysis.csv"
)

from roofline.doors.compat.llm_para import analyze_from_csv

hardware_config = {'name': 'NVIDIA A100', 'peak_performance': 19.5e12, 'memory_bandwidth': 1.555e12}
analyze_from_csv(
    csv_path="llama3_8b_analysis.csv", hardware_config=hardware_config, output_path="llama3_roofline.png"
)
'''  # fmt: skip


def test_the_three_examples_write_what_they_say_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(EXAMPLES, {})
    exec(EXAMPLES if whole else EXAMPLES[EXAMPLES.rindex("from roofline") :], {})  # again: overwrites its own files
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "llama3_8b_analysis.csv", "llama3_8b_analysis.png", "llama3_roofline.png", "llama3_roofline_legend.png",
        "mixtral_8x7b_analysis.csv", "mixtral_8x7b_analysis.png",
    ]  # fmt: skip
    for picture in tmp_path.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "prompt 256.00 MiB, generation 512.00 MiB, both 768.00 MiB" in out
    assert "131,072 B per token position (batch of 1)" in out


# -- the formula table, all cells, all phases ----------------------------------------------------------------------
def table_by_formula(o: dict[str, Any]) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """(phase, operation) → FLOPs, input 1, input 2 and output bytes, as the tool's formula table has them."""
    h, n, g, b, s = o["hidden_size"], o["num_heads"], o["num_key_value_heads"], o["batch_size"], o["seq_len"]
    d, wide, top, experts = h // n, o["intermediate_size"], o.get("num_experts_per_tok"), o.get("num_local_experts")
    a, w, f, kv, r = (o["quant_config"][k] // 8 for k in BITS)
    expected: dict[tuple[str, str], tuple[int, int, int, int]] = {}
    for phase, t, context in (("Prefill", s, s), ("Decode", 1, s + 1), ("Decode_Last", 1, s + o["max_gen_len"])):
        x, scores = b * t * h, b * n * t * context
        rows = {
            "xW_Q": (2 * b * t * h * h, x * a, h * h * w, x * a),
            "xW_K": (2 * b * t * h * h * g // n, x * a, h * h * g // n * w, b * t * h * g // n * a),
            "xW_V": (2 * b * t * h * h * g // n, x * a, h * h * g // n * w, b * t * h * g // n * a),
            "RoPE-Q": (4 * b * t * n * d // 2, b * n * t * d * a, t * d * r, b * n * t * d * a),
            "RoPE-K": (4 * b * t * g * d // 2, b * g * t * d * a, t * d * r, b * g * t * d * a),
            "Q × Kᵀ": (2 * b * n * t * context * d, b * n * t * d * a, b * g * d * context * kv, scores * a),
            "Attn × V": (2 * b * n * t * context * d, scores * a, b * g * context * d * kv, b * n * t * d * a),
            "xW_O": (2 * b * t * h * h, x * a, h * h * w, x * a),
        }
        if top:
            read = experts if phase == "Prefill" else top
            rows["Router"] = (2 * b * t * h * experts, x * a, h * experts * f, b * t * experts * a)
            rows["FFN-1(with MoE)"] = (
                4 * b * t * h * wide * top + b * t * top * wide, b * t * top * h * a, 2 * h * wide * read * f,
                b * t * top * wide * a,
            )  # fmt: skip
            rows["FFN-2(with MoE)"] = (
                2 * b * t * wide * h * top,
                b * t * top * wide * a,
                wide * h * read * f,
                b * t * top * h * a,
            )
        elif o.get("use_gate_ffn"):
            rows["FFN-1 (with Gate)"] = (4 * b * t * h * wide + b * t * wide, x * a, 2 * h * wide * f, b * t * wide * a)
        else:
            rows["FFN-1"] = (2 * b * t * h * wide, x * a, h * wide * f, b * t * wide * a)
        if not top:
            rows["FFN-2"] = (2 * b * t * h * wide, b * t * wide * a, wide * h * f, x * a)
        expected |= {(phase, name): row for name, row in rows.items()}
    return expected


VARIANTS = {
    "Llama-3-8B": LLAMA, "Mixtral-8x7B": MIXTRAL, "not gated": {**LLAMA, "use_gate_ffn": False},
    "OLMoE, hidden twice the experts' inner": OLMOE, "a prompt of one token": ONE_TOKEN,
    "one token of each": {**ONE_TOKEN, "batch_size": 3},
    "a batch": {**LLAMA, "batch_size": 3, "seq_len": 100}, "a batch of experts": {**MIXTRAL, "batch_size": 7},
    "bits": {**LLAMA, "quant_config": {"activation": 16, "weight_attn": 8, "weight_ffn": 32, "kv_cache": 8,
                                       "rope_bit": 64}},
}  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.usefixtures("no_charts_by_day")
@pytest.mark.parametrize("name", VARIANTS)
def test_every_cell_of_the_formula_table(name: str, tmp_path: Path) -> None:
    options = {"max_gen_len": 4096, **VARIANTS[name]}
    wanted = table_by_formula(options)
    table = run(tmp_path, **options)
    assert [(r.phase, r.operation) for r in table] == list(wanted)
    for row in table:
        assert (row.flops, row.input, row.second, row.output) == wanted[row.phase, row.operation], row
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == COLUMNS
    for row, line in zip(table, lines, strict=True):
        flops, one, two, out = wanted[row.phase, row.operation]
        total = one + two + out
        assert (line["Phase"], line["Operation"]) == (row.phase, row.operation)
        assert [int(line[c]) for c in COLUMNS[2:8] if c != "Param Count"] == [flops, one, two, out, total]
        assert float(line["Density (Op/Byte)"]) == round(flops / total, 2)


@pytest.mark.usefixtures("no_charts")
@folded(
    ("phase", "operation", "flops", "total", "density"),
    [
        ("Prefill", "xW_Q", 68719476736, 67108864, 1024.0), ("Prefill", "xW_K", 17179869184, 29360128, 585.14),
        ("Prefill", "Q × Kᵀ", 34359738368, 289406976, 118.72),
        ("Prefill", "FFN-1 (with Gate)", 481065697280, 310378496, 1549.93),
        ("Prefill", "FFN-2", 240518168576, 192937984, 1246.61), ("Decode", "Q × Kᵀ", 16785408, 4335680, 3.87),
    ],
)  # fmt: skip
def test_published_check_figures(
    phase: str, operation: str, flops: int, total: int, density: float, tmp_path: Path
) -> None:
    row = cell(run(tmp_path, **LLAMA), phase, operation)
    assert (row.flops, row.total, row.density) == (flops, total, density)


@pytest.mark.usefixtures("no_charts")
def test_parameters_and_shapes(tmp_path: Path) -> None:
    table = run(tmp_path, **MIXTRAL)
    prefill, decode = cell(table, "Prefill", "FFN-1(with MoE)"), cell(table, "Decode", "FFN-1(with MoE)")
    assert (prefill.parameters, decode.parameters) == (8 * 2 * 4096 * 14336, 2 * 2 * 4096 * 14336)
    assert cell(table, "Prefill", "Q × Kᵀ").parameters == cell(table, "Prefill", "RoPE-Q").parameters == 0
    last = cell(table, "Decode_Last", "Attn × V")
    assert (last.input_shape, last.weight_shape) == ((1, 32, 1, 6144), (1, 8, 6144, 128))


@pytest.mark.usefixtures("no_charts")
def test_the_down_product_of_experts_is_whole_whatever_the_sizes(tmp_path: Path) -> None:
    table = run(tmp_path, **OLMOE)
    assert cell(table, "Prefill", "FFN-2(with MoE)").output == 4194304
    assert cell(table, "Prefill", "FFN-1(with MoE)").output == 2097152


@pytest.mark.usefixtures("no_charts")
def test_a_prompt_of_one_token_reads_all_experts(tmp_path: Path) -> None:
    table = run(tmp_path, **ONE_TOKEN)
    first, then = cell(table, "Prefill", "FFN-1(with MoE)"), cell(table, "Decode", "FFN-1(with MoE)")
    assert (first.second, first.parameters, first.weight_shape) == (524_288_000, 262_144_000, (2048, 128_000))
    assert (first.total, first.density) == (524_288_000 + 32_768 + 16_000, 0.13)
    assert (then.second, then.parameters, then.weight_shape) == (65_536_000, 32_768_000, (2048, 16_000))
    assert cell(table, "Prefill", "FFN-2(with MoE)").weight_shape == (64, 1000, 2048)
    assert cell(table, "Decode", "FFN-2(with MoE)").weight_shape == (8, 1000, 2048)


@pytest.mark.usefixtures("no_charts_by_day")
def test_bitnet_with_fractional_bits(tmp_path: Path) -> None:
    table = run(tmp_path, **BITNET)
    row = cell(table, "Prefill", "FFN-2")
    assert row.second == -(-6912 * 2560 * 158 // 800)  # whole bytes
    assert row.input == 2048 * 6912
    assert cell(table, "Decode", "Q × Kᵀ").second == 5 * 128 * 2049


@pytest.mark.usefixtures("no_charts_by_day")
def test_rope_only_where_asked(tmp_path: Path) -> None:
    without = run(tmp_path, **{**LLAMA, "use_rope": None, "rope_theta": None})
    assert not [r for r in without if r.operation.startswith("RoPE")]
    assert [r.operation for r in run(tmp_path, **{**LLAMA, "use_rope": None})].count("RoPE-Q") == 3


def test_density_is_a_dash_where_no_byte_moves() -> None:
    assert Operation("Prefill", "x", 5, 0, 0, 0, 0, (), ()).density == "-"


@pytest.mark.usefixtures("no_charts")
def test_two_tables_do_not_run_into_each_other(tmp_path: Path) -> None:
    first = run(tmp_path, "a.csv", **LLAMA)
    assert run(tmp_path, "b.csv", **LLAMA) == first
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    assert len(first) == 30


# -- the named conventions, on any model ---------------------------------------------------------------------------
def test_the_conventions_serve_our_own_models() -> None:
    """The same bytes and FLOPs from the library's own ops of Llama-3.1-8B and Mixtral-8x7B."""
    llama, mixtral = rl.load("meta-llama/Llama-3.1-8B"), rl.load("mistralai/Mixtral-8x7B-v0.1")
    a = rl.analyze(llama, rl.prefill(batch=1, tokens=2048), counting="llm-para", traffic="llm-para")
    assert a.op("gate_up_proj").each_moved.total == 310378496
    assert a.op("gate_up_proj").each_flops + a.op("act").each_flops == 481065697280
    assert a.op("down_proj").each_moved.total == 192937984
    assert a.op("attention").each_flops == 2 * 34359738368
    assert a.op("attention").each_moved.total == 2 * 289406976
    b = rl.analyze(mixtral, rl.decode(batch=16, context=2048), counting="llm-para", traffic="llm-para")
    assert b.op("experts_gate_up_proj").each_moved.weight == 2 * 2 * 2 * 4096 * 14336


def test_slip_a_decode_reads_top_k_experts_whatever_the_batch() -> None:
    model = rl.load("mistralai/Mixtral-8x7B-v0.1")
    row = rl.analyze(model, rl.decode(batch=64, context=1)).op("experts_down_proj")
    assert TRAFFICS["llm-para"].elements(row.op).weight == 2 * 4096 * 14336
    assert FUSED.elements(row.op).weight == pytest.approx(8 * 4096 * 14336, rel=1e-6)


def test_experts_by_phase_and_layout() -> None:
    """All of 8 in a prefill of any length, 2 of them in a decode; in a sweep each point for itself."""
    model, one = rl.load("mistralai/Mixtral-8x7B-v0.1"), 2 * 4096 * 14336

    def read(step: rl.Step, of: rl.Model = model) -> Any:
        return rl.analyze(of, step, traffic="llm-para").op("experts_down_proj").each_moved.weight / one

    assert [read(s) for s in (rl.prefill(1, 1), rl.prefill(4, 9), rl.decode(4, 1), rl.decode(4, 1, new=2))] == [
        8, 8, 2, 8,
    ]  # fmt: skip
    assert read(rl.decode(batch=4, context=[0, 1, 99])).tolist() == [8, 2, 2]
    assert read(rl.Step([(0, 1), (9, 1)])) == 8
    halves, eighths = (rl.shard(model, rl.Layout(dp=n, ep=n)) for n in (2, 8))  # 4 experts on a rank, and 1
    assert [read(s, halves) for s in (rl.prefill(2, 1), rl.decode(2, 1))] == [4, 2]
    assert [read(s, eighths) for s in (rl.prefill(8, 1), rl.decode(8, 1))] == [1, 1]


def test_only_the_forward_product_writes_a_gated_half() -> None:
    for name, up in (("meta-llama/Llama-3.1-8B", "gate_up_proj"), ("allenai/OLMoE-1B-7B-0924", "experts_gate_up_proj")):
        a = rl.analyze(rl.load(name), rl.training(1, 64), traffic="llm-para")
        assert 2 * a.op(up).each_moved.output == 2 * a.op(up).op.output
        assert a.op(f"{up}_dgrad").each_moved.output == 2 * a.op(f"{up}_dgrad").op.output


def test_slip_no_causal_mask() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    step = rl.prefill(batch=1, tokens=2048)
    ours, theirs = (rl.analyze(model, step, counting=c).op("attention").flops for c in ("standard", "llm-para"))
    assert theirs / ours == 2 * 2048 / 2049


def test_slip_rope_is_four_flops_a_pair_without_its_sums() -> None:
    op = rl.analyze(rl.load("meta-llama/Llama-3.1-8B"), rl.decode(batch=1, context=1)).op("rope").op
    assert STANDARD.flops(op) == 3 * 40 * 128
    assert rl.work.counting.LLM_PARA.flops(op) == 2 * 40 * 128  # type: ignore[attr-defined]


# -- the roofline picture ------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("no_charts")
def test_points_of_the_roofline(tmp_path: Path) -> None:
    table = run(tmp_path, **LLAMA)
    chip = llm_para._hardware(A100)
    plot = llm_para._roofline_plot(tmp_path / "table.csv", read_csv(tmp_path / "table.csv"), chip, "peak")
    (panel,) = plot.panels
    assert [(c.label, c.peak, c.ridge) for c in panel.roof.ceilings] == [("peak", 19.5e12, 19.5e12 / 1.555e12)]
    for row, point in zip(table, panel.points, strict=True):
        assert (point.label, point.phase) == (row.operation, row.phase)
        assert point.intensity == row.flops / row.total
        assert point.performance == pytest.approx(min(19.5e12, point.intensity * 1.555e12), rel=1e-12)


@pytest.mark.drawn(1)
@pytest.mark.usefixtures("no_charts")
@pytest.mark.parametrize("ending", [".png", ".svg", ".html"])
def test_the_roofline_in_other_forms(ending: str, tmp_path: Path) -> None:
    run(tmp_path, **MIXTRAL)
    written = analyze_from_csv(tmp_path / "table.csv", A100, tmp_path / f"roof{ending}")
    assert all(p.exists() for p in written)
    assert len(written) == (1 if ending == ".html" else 2)


def test_the_charts_stand_beside_their_own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """By day their places alone: what they show is drawn in other tests."""
    if not whole:
        monkeypatch.setattr("roofline.views.plots.write.write", lambda plot, path, *_, **__: path.touch())
    for name in ("llama3.1_8b", "llama3.2_1b", "plain.CSV", "v1.csv.csv"):
        run(tmp_path, name, **LLAMA)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "llama3.1_8b", "llama3.1_8b.png", "llama3.2_1b", "llama3.2_1b.png", "plain.CSV", "plain.png", "v1.csv.csv",
        "v1.csv.png",
    ]  # fmt: skip


@pytest.mark.usefixtures("no_charts_by_day")
def test_the_cache_of_a_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, **{**LLAMA, "batch_size": 8})
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("KV cache"))
    assert line.split("     ")[1] == (
        "1,048,576 B per token position (batch of 8); prompt 2,048.00 MiB, generation 4,096.00 MiB, both 6,144.00 MiB"
    )


def test_figures_beyond_64_bits(tmp_path: Path) -> None:
    """Exact in the table, floats in the charts."""
    huge = {**LLAMA, "hidden_size": 16384, "num_heads": 128, "seq_len": 1_000_000, "batch_size": 512}
    row = cell(run(tmp_path, **huge), "Prefill", "Q × Kᵀ")
    assert row.flops == 2 * 512 * 128 * 10**12 * 128 > 2**63
    assert (tmp_path / "table.png").stat().st_size > 10_000
    assert len(analyze_from_csv(tmp_path / "table.csv", A100, tmp_path / "roof.png")) == 2


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("kind", "real"), [(np.int64, np.float64), (np.int32, np.float32), (np.uint16, np.float16), (np.array, np.array)]
)
def test_numpy_numbers_are_numbers(
    kind: Any, real: Any, tmp_path: Path, whole: bool, request: pytest.FixtureRequest
) -> None:
    bits = {**{k: kind(v) for k, v in TERNARY.items() if isinstance(v, int)}, "weight_attn": real(1.58)}
    bits["weight_ffn"] = real(1.58)
    plain = {**MIXTRAL, "quant_config": TERNARY, "max_gen_len": 4096}
    given = {k: kind(v) if type(v) is int else v for k, v in plain.items()}
    given |= {"quant_config": bits, "rope_theta": real(10000.0), "rope_scaling_factor": real(2.0)}
    table = run(tmp_path, "a.csv", **given)
    if not whole:  # charts of the plain numbers are those of other tests
        request.getfixturevalue("no_charts")
    assert table == run(tmp_path, "b.csv", **plain)
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    machine = {"name": "A", "peak_performance": real(2.0), "memory_bandwidth": kind(3)}
    assert len(analyze_from_csv(tmp_path / "a.csv", machine, tmp_path / "roof.png")) == 2


def test_nothing_runs_at_import() -> None:
    import subprocess

    code = "import sys, roofline.doors.compat.llm_para; assert not {'matplotlib', 'polars', 'sympy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- bad input -----------------------------------------------------------------------------------------------------
@folded(
    ("changes", "field"),
    [
        ({"hidden_size": "4096"}, "hidden_size"), ({"hidden_size": 0}, "hidden_size"), ({"num_heads": 33}, "num_heads"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"), ({"seq_len": 0}, "seq_len"),
        ({"batch_size": 1.5}, "batch_size"), ({"batch_size": [1, 2]}, "batch_size"),
        ({"seq_len": True}, "seq_len"), ({"hidden_size": np.float64(4096)}, "hidden_size"),
        ({"hidden_size": np.True_}, "hidden_size"), ({"rope_theta": 10**400}, "rope_theta"),
        ({"num_layers": -1}, "num_layers"),
        ({"num_layers": 10**9}, "num_layers"),
        ({"max_gen_len": 0}, "max_gen_len"),
        ({"num_experts_per_tok": 2}, "num_local_experts"), ({"num_local_experts": 8}, "num_experts_per_tok"),
        ({"num_experts_per_tok": 9, "num_local_experts": 8}, "num_experts_per_tok"),
        ({"quant_config": 16}, "quant_config"), ({"quant_config": {}}, "quant_config"),
        ({"quant_config": {**BITS, "kv_cache": "8"}}, "quant_config"),
        ({"quant_config": {**BITS, "kv_cache": 0}}, "quant_config"), ({"rope_theta": -1}, "rope_theta"),
        ({"rope_scaling_factor": "x"}, "rope_scaling_factor"),
    ],
)  # fmt: skip
def test_bad_sizes_name_their_field_and_write_nothing(changes: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        run(tmp_path, **{**LLAMA, **changes})
    assert error.value.field.startswith(field)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Phase,Operation,FLOPs\nPrefill,x,1\n", "Total Bytes"),
        ("Phase,Operation,FLOPs,Total Bytes\nPrefill,x,many,5\n", "line 2, FLOPs"),
        ("Phase,Operation,FLOPs,Total Bytes\nPrefill,x,1,5\nPrefill,y,nan,5\n", "line 3, FLOPs"),
        ("Phase,Operation,FLOPs,Total Bytes\nPrefill,x,1\n", "line 2, Total Bytes"),
        ("\n\nPhase,Operation,FLOPs,Total Bytes\n\nPrefill,x,1,5\n\nPrefill,y,many,5\n", "line 7, FLOPs"),
        ("Phase,Operation,FLOPs,Total Bytes\nPrefill,x,-1,5\n", "line 2, FLOPs"),
        ("Phase,Operation,FLOPs,Total Bytes\nPrefill,x,0,5\n", "at least one operation"),
        ("", "Phase, Operation, FLOPs, Total Bytes"), ("\0\xff", "Phase, Operation"),
        (200_000 * "x" + ",y\n1,2\n", "a CSV file that can be read"), (None, "a file that can be read"),
    ],
)  # fmt: skip
def test_bad_tables_say_what_is_wrong_in_a_line(text: str | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as error:
        analyze_from_csv(path, A100, tmp_path / "roof.png")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("*.png"))


def test_a_table_that_a_spreadsheet_saved(tmp_path: Path) -> None:
    """With a mark of its encoding in front, blank lines, and a row without its last cells."""
    path = tmp_path / "saved.csv"
    text = "FLOPs,Total Bytes,Phase,Operation\r\n\r\n,,,\r\n6,3,Prefill,x\r\n2,1,Decode\r\n"
    path.write_bytes(text.encode("utf-8-sig"))
    assert read_csv(path) == [CsvRow("Prefill", "x", 6, 3, "x"), CsvRow("Decode", "", 2, 1, "")]


@pytest.mark.usefixtures("no_charts")
@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {**A100, "peak_performance": "fast"},
        {**A100, "memory_bandwidth": 0},
        {**A100, "peak_performance": True},
    ],
)
def test_bad_hardware(config: Any, tmp_path: Path) -> None:
    run(tmp_path, **LLAMA)
    with pytest.raises(InputError, match=r"^hardware_config"):
        analyze_from_csv(tmp_path / "table.csv", config, tmp_path / "roof.png")


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^output_csv_path: .*not end in \.png"):
        run(tmp_path, "charts.png", **LLAMA)
    with pytest.raises(InputError, match=r"^output_csv_path"):
        run(tmp_path / "nowhere", **LLAMA)
    run(tmp_path, **LLAMA)
    for wrong in (None, 5, ".", "", "a\0b"):
        with pytest.raises(InputError, match=r"^output_csv_path: expected a file's name, got [^\n]+$"):
            compute_and_plot_transformer_analysis(**LLAMA, output_csv_path=wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"^csv_path: expected a file's name, got [^\n]+$"):
            analyze_from_csv(wrong, A100, tmp_path / "roof.png")  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"^output_path: expected a file's name, got [^\n]+$"):
            analyze_from_csv(tmp_path / "table.csv", A100, wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^output"):
        analyze_from_csv(tmp_path / "table.csv", A100, tmp_path / "nowhere" / "roof.png")
