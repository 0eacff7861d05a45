"""Profiles and results beside predictions: recorded traces, hand-made files of each tool, and hostile ones.

`recorded/` holds traces of torch.profiler on a CPU, of one prefill and one decode step of a Qwen3 of four layers with
random weights, run by transformers.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.declared.groups import RequestFlow
from roofline.doors.cli.main import main
from roofline.measured.compare.comparison import Comparison, compared, step_of_kernels
from roofline.measured.compare.kernels import ProfiledKernel
from roofline.measured.compare.nsight import compute_kernels, systems_kernels
from roofline.measured.compare.read import compare, profiled_kernels
from roofline.measured.compare.results import measured_rows
from roofline.measured.compare.rows import accuracy_table
from roofline.measured.compare.rules import product_sizes

RECORDED = Path(__file__).with_name("recorded")
ON: dict[str, Any] = {"on": "xeon-8480", "precision": "fp32"}
LAYERS = 4


def of_recorded(phase: str) -> Comparison:
    answer = compare(RECORDED / "config.json", RECORDED / f"{phase}.json.gz", **ON)
    assert isinstance(answer, Comparison)
    return answer


@pytest.mark.parametrize(("phase", "cached", "new"), [("prefill", 0, 256), ("decode", 257, 1)])
def test_a_trace_of_a_real_transformer_is_matched(phase: str, cached: int, new: int) -> None:
    answer = of_recorded(phase)
    assert answer.matched >= 0.95
    assert answer.step == f"2 × ({cached} cached, {new} new)"
    assert answer.steps == 1
    kernels = {op.name: op.kernels for op in answer.ops}
    assert kernels["lm_head"] == 1
    assert kernels["down_proj"] == kernels["o_proj"] == LAYERS
    assert kernels["gate_up_proj"] >= 2 * LAYERS  # gate and up apart
    total = sum(k.seconds for k in profiled_kernels(RECORDED / f"{phase}.json.gz"))
    assert answer.measured == pytest.approx(total)
    assert sum(op.measured for op in answer.ops) == pytest.approx(answer.matched * total)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_products_have_the_time_that_the_trace_gives_their_shapes(phase: str) -> None:
    """A second way: the durations of aten::linear by the shape of their weights, read from the file by hand."""
    events = json.loads(gzip.decompress((RECORDED / f"{phase}.json.gz").read_bytes()))["traceEvents"]
    linear = [e for e in events if e.get("cat") == "cpu_op" and e["name"] == "aten::linear"]
    by_shape = {
        shape: sum(e["dur"] for e in linear if tuple(e["args"]["Input Dims"][1]) == shape) * 1e-6
        for shape in {tuple(e["args"]["Input Dims"][1]) for e in linear}
    }
    ops = {op.name: op for op in of_recorded(phase).ops}
    assert ops["down_proj"].measured >= by_shape[512, 1536]
    assert ops["down_proj"].measured == pytest.approx(by_shape[512, 1536], rel=0.02)
    assert ops["lm_head"].measured == pytest.approx(by_shape[32000, 512], rel=0.02)
    assert ops["gate_up_proj"].measured == pytest.approx(by_shape[1536, 512], rel=0.02)


def test_what_belongs_to_no_op_is_listed_with_its_time() -> None:
    kernels = [*profiled_kernels(RECORDED / "decode.json.gz"), ProfiledKernel("my_own_thing", 1e9, 0.5)]
    model = rl.load(RECORDED / "config.json")
    answer = compared(rl.estimate(model, step_of_kernels(kernels), **ON), kernels)
    assert [(u.name, u.kernels, u.measured) for u in answer.unmatched] == [("my_own_thing", 1, 0.5)]
    assert answer.matched < 0.2


def test_the_sizes_of_products() -> None:
    assert product_sizes(ProfiledKernel("", 0, 1, "aten::linear", ((2, 8, 64), (256, 64)))) == (16, 64, 256)
    assert product_sizes(ProfiledKernel("", 0, 1, "aten::mm", ((16, 64), (64, 256)))) == (16, 64, 256)
    assert product_sizes(ProfiledKernel("", 0, 1, "aten::addmm", ((256,), (16, 64), (64, 256)))) == (16, 64, 256)
    assert product_sizes(ProfiledKernel("", 0, 1, "aten::bmm", ((4, 16, 64), (4, 64, 256)))) is None


SERVED = ["rms_norm_kernel", "nvjet_tst_gemm", "rotary_kernel", "reshape_and_cache_kernel", "flash_fwd_splitkv_kernel",
          "nvjet_tst_gemm", "fused_add_rms_norm_kernel", "nvjet_tst_gemm", "silu_and_mul_kernel", "nvjet_tst_gemm",
          "fused_add_rms_norm_kernel"]  # fmt: skip
"""Kernels of a layer of a dense model as servers merge them."""


def a_step(layers: int) -> list[tuple[str, int]]:
    """Names and nanoseconds of the kernels of a step."""
    names = ["vectorized_gather_kernel", *SERVED * layers, "nvjet_tst_gemm"]
    return [(name, 1000 * (i + 1)) for i, name in enumerate(names)]


def test_nsight_systems_by_order_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    layers = 32
    steps = a_step(layers) * 2
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        base.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, demangledName INTEGER)')
        names = sorted({name for name, _ in steps})
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(names)))
        start = 0
        for name, nanoseconds in steps:
            row = (start, start + nanoseconds, names.index(name))
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?)", row)
            start += nanoseconds + 500
    base.close()
    answer = compare("meta-llama/Llama-3.1-8B", path, on="h100-sxm", batch=8, context=1024)
    assert isinstance(answer, Comparison)
    assert answer.steps == 2
    assert answer.matched == pytest.approx(1)
    counts = {op.name: op.kernels for op in answer.ops}
    for name in ("qkv_proj", "attention", "o_proj", "gate_up_proj", "act", "down_proj", "ffn_norm"):
        assert counts[name] >= layers, (name, counts)
    assert counts["lm_head"] == 1
    act = sum(nanoseconds for name, nanoseconds in a_step(layers) if name == "silu_and_mul_kernel")
    assert next(op for op in answer.ops if op.name == "act").measured == pytest.approx(act * 1e-9)


NCU = """==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","nvjet_tst_gemm","gpu__time_duration.sum","nsecond","12,345"
"0","1","nvjet_tst_gemm","dram__bytes.sum","Mbyte","33.5"
"1","1","rms_norm_kernel","gpu__time_duration.sum","usecond","2.5"
"""


def test_nsight_compute() -> None:
    first, second = compute_kernels((NCU,), "ncu.csv")
    assert (first.name, first.moved) == ("nvjet_tst_gemm", 33.5e6)
    assert first.seconds == pytest.approx(12.345e-6)
    assert second.seconds == pytest.approx(2.5e-6)
    raw = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n"0","gemm","7"\n'
    assert compute_kernels((raw,), "raw.csv")[0].seconds == pytest.approx(7e-6)


LLAMA_BENCH = [
    {"model_type": "llama 8B Q4_0", "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 5000.0},
    {"model_type": "llama 8B Q4_0", "n_prompt": 0, "n_gen": 128, "n_depth": 4096, "avg_ts": 100.0},
]
VLLM = {"model_id": "m", "max_concurrency": 8, "request_rate": "inf", "completed": 10, "total_input_tokens": 10240,
        "total_output_tokens": 1280, "mean_ttft_ms": 50.0, "mean_tpot_ms": 8.0, "output_throughput": 900.0}  # fmt: skip
GENAI = {"input_config": {"perf_analyzer": {"stimulus": {"concurrency": 4}}},
         "time_to_first_token": {"unit": "ms", "avg": 40.0}, "inter_token_latency": {"unit": "ms", "avg": 7.0},
         "input_sequence_length": {"unit": "tokens", "avg": 1000.2}, "request_latency": {"unit": "ms", "avg": 940.0},
         "output_sequence_length": {"unit": "tokens", "avg": 128.0}}  # fmt: skip


def test_rows_of_each_tool() -> None:
    prompt, answer = measured_rows(json.dumps(LLAMA_BENCH), "bench.json")
    assert (prompt.quantity, prompt.value, prompt.input) == ("prompt", 5000.0, 512)
    assert (answer.quantity, answer.output, answer.depth) == ("answer", 128, 4096)
    table = "model_type,n_prompt,n_gen,n_depth,avg_ts\nllama,512,0,0,5000.0\n"
    assert measured_rows(table, "bench.csv")[0].value == 5000.0
    rows = measured_rows(json.dumps(VLLM) + "\n" + json.dumps(VLLM), "sglang.jsonl")
    assert [(r.quantity, r.value) for r in rows[:3]] == [("ttft", 0.05), ("tpot", 0.008), ("throughput", 900.0)]
    assert {(r.input, r.output, r.sent) for r in rows} == {(1024, 128, RequestFlow(concurrency=8))}
    rows = measured_rows(json.dumps(GENAI), "genai.json")
    assert [(r.quantity, round(r.value, 9), r.sent.concurrency) for r in rows] == [
        ("ttft", 0.04, 4), ("tpot", 0.007, 4), ("latency", 0.94, 4),
    ]  # fmt: skip


def test_a_concurrency_comes_before_a_rate_and_no_server_has_more_than_can_be() -> None:
    both = measured_rows(json.dumps({**VLLM, "request_rate": 2.5}), "vllm.json")[0]
    assert both.sent == RequestFlow(concurrency=8, rate=2.5)
    assert both.load == rl.Load(1024, 128, concurrency=8)
    assert measured_rows(json.dumps({**VLLM, "max_concurrency": 1e14}), "vllm.json")[0].sent == RequestFlow()


def test_of_several_machines_a_profile_is_compared_with_each() -> None:
    grid = rl.compare(RECORDED / "config.json", RECORDED / "decode.json.gz", on=["xeon-8480", "l4"])
    assert [axis.name for axis in grid.axes] == ["on"]
    assert [one.on for one in grid.results] == ["xeon-8480", "l4"]
    assert {one.measured for one in grid.results} == {of_recorded("decode").measured}


def test_results_are_beside_what_generate_and_serve_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps(VLLM))
    main(["compare", "meta-llama/Llama-3.1-8B", "--measured", str(path), "--on", "h100-sxm", "--json"])
    told = json.loads(capsys.readouterr().out)
    served = rl.serve("meta-llama/Llama-3.1-8B", on="h100-sxm", input=1024, output=128, concurrency=8)
    by_name = {r["quantity"]: r for r in told["results"]}
    assert by_name["tpot"]["expected"] == pytest.approx(float(served.tpot.expected))
    assert by_name["throughput"]["expected"] == pytest.approx(float(served.tokens_per_second))
    assert by_name["ttft"]["error"] == pytest.approx(by_name["ttft"]["expected"] / 0.05 - 1)


HOSTILE = {
    "empty": b"", "text": b"hello", "cut.json": b'{"traceEvents": [', "deep.json": b"[" * 200_000,
    "none.json": b'{"traceEvents": []}', "odd.json": b'{"traceEvents": [{"ph": "X", "ts": "x", "cat": "cpu_op"}]}',
    "cut.gz": gzip.compress(b"x" * 10_000)[:40], "broken.gz": b"\x1f\x8b" + b"\0" * 100,
    "cut.sqlite": b"SQLite format 3\0" + b"\0" * 50, "ncu.csv": b'"ID","Kernel Name"\n"0","gemm"\n',
    "bytes": bytes(range(256)), "list.json": b"[1, 2, 3]", "nan.json": b'[{"avg_ts": NaN, "n_prompt": 1}]',
    "huge.json": b'[{"avg_ts": 1e999, "n_prompt": 1e999}]',
}  # fmt: skip


@folded("name", HOSTILE)
def test_what_is_no_profile_is_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    with pytest.raises(SystemExit) as end:
        main(["compare", "gpt2", "--measured", str(path), "--on", "l4"])
    lines = capsys.readouterr().err.splitlines()
    assert end.value.code == 2
    assert len(lines) == 1
    assert len(lines[0]) <= 160


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline.measured.compare.read.LARGEST_PROFILE", 10**6)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"0" * 2_000_000))
    with pytest.raises(InputError, match="unpacked"):
        profiled_kernels(path)


def test_a_profile_without_shapes_asks_for_the_step(tmp_path: Path) -> None:
    path = tmp_path / "ncu.csv"
    path.write_text(NCU)
    with pytest.raises(InputError, match="which say the step"):
        compare("gpt2", path, on="l4")


def test_views_of_sqlite_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "view.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        base.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start, 2 AS 'end', 3 AS shortName")
    base.close()
    with pytest.raises(InputError, match="no kernels"):
        systems_kernels(path)


SERVER = {"completed": 10, "total_input_tokens": 10240, "total_output_tokens": 1280, "max_concurrency": 4,
          "mean_ttft_ms": 160.0, "mean_tpot_ms": 21.0, "mean_e2el_ms": 2830.0, "output_throughput": 180.0}  # fmt: skip
BENCH = [{"avg_ts": 800.0, "n_prompt": 512, "n_gen": 0, "n_depth": 4096}, {"avg_ts": 30.0, "n_prompt": 0, "n_gen": 128}]


@pytest.mark.parametrize(("content", "engine", "rates"), [(SERVER, "vllm", ("throughput",)),
                                                          (BENCH, "llama.cpp", ("prompt", "answer"))])  # fmt: skip
def test_rows_are_scored_by_accuracy_as_by_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Any, engine: str, rates: tuple[str, ...]
) -> None:
    """The errors of seconds; of tokens a second 1 / (1 + error) − 1."""
    file, rows = tmp_path / "bench.json", tmp_path / "rows.csv"
    file.write_text(json.dumps(content))
    asked = ["meta-llama/Llama-3.1-8B", "--measured", str(file), "--on", "a100-sxm-80gb", "--engine", engine]
    assert not main(["compare", *asked, "--rows", str(rows), "--json"])
    compared_rows = json.loads(capsys.readouterr().out)["results"]
    errors = [1 / (1 + r["error"]) - 1 if r["quantity"] in rates else r["error"] for r in compared_rows]
    assert not main(["accuracy", str(rows), "--json"])
    scored = next(s for s in json.loads(capsys.readouterr().out)["scores"] if s["slice"] == "bench.json")
    assert scored["n"] == len(errors)
    assert scored["mape"] == pytest.approx(100 * sum(map(abs, errors)) / len(errors), rel=0.01)
    with pytest.raises(SystemExit, match="2"):
        main(["compare", *asked, "--rows", str(rows)])
    assert "--force" in capsys.readouterr().err


def test_a_profile_is_a_row_of_its_step(tmp_path: Path) -> None:
    for phase, row in (("prefill", "prefill,"), ("decode", "decode,")):
        table = accuracy_table(of_recorded(phase), {"model": "m", "on": "xeon-8480", "layout": None}, "run")
        head, line = table.splitlines()
        cells = dict(zip(head.split(","), line.split(","), strict=True))
        assert line.startswith(row)
        assert (cells["batch"], cells["input"]) == ("2", "256" if phase == "prefill" else "257")
        assert float(cells["seconds"]) == pytest.approx(of_recorded(phase).measured)
