"""The commands as a user meets them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import roofline as rl
from folded import folded
from headed import write_all
from hub import CONFIG
from roofline.doors.cli.main import main
from roofline.doors.cli.table import COMMANDS

LLAMA = "meta-llama/Llama-3.1-8B"


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[str, str]:
    main(argv)
    done = capsys.readouterr()
    return done.out, done.err


def test_analyze_prints_every_op_of_both_phases(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "analyze", LLAMA)
    assert err == ""
    assert "8,030,261,248 parameters" in out
    assert "prefill: 1 × (0 cached, 1024 new)" in out
    assert "decode: 1 × (1024 cached, 1 new)" in out
    for op in ("embedding", "qkv_proj", "rope", "attention", "o_proj", "gate_up_proj", "act", "down_proj", "lm_head"):
        assert sum(line.split()[:1] == [op] for line in out.splitlines()) == 2
    assert "\x1b" not in out


def test_a_pipe_has_room_for_the_ops_of_a_large_model() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "roofline.doors.cli.main", "analyze", "deepseek-ai/DeepSeek-V3"],
        capture_output=True, text=True, check=True, env={"PATH": "", "HOME": "/nonexistent"},
    )  # fmt: skip
    assert "…" not in done.stdout
    assert any("experts_gate_up_proj" in line and "FLOP" in line for line in done.stdout.splitlines())


def test_json_says_what_the_library_says(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "analyze", LLAMA, "--context", "4096", "--batch", "32", "--traffic", "unfused", "--json")
    data = json.loads(out)
    assert data["schema"] == "roofline.analyze/3"
    assert data["model"]["parameters"] == 8_030_261_248
    (step,) = data["steps"]
    analysis = rl.analyze(rl.load(LLAMA), rl.decode(batch=32, context=4096), traffic="unfused")
    assert step["flops"] == analysis.flops == sum(op["flops"] for op in step["ops"])
    assert step["bytes"] == analysis.bytes == sum(op["bytes"] for op in step["ops"])
    assert step["queries"] == [{"cached": 4096, "new": 1, "count": 32}]
    assert {op["name"] for op in step["ops"]} == {row.name for row in analysis.ops}


def test_csv_has_a_row_for_each_op(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "analyze", LLAMA, "--input", "512", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    analysis = rl.analyze(rl.load(LLAMA), rl.prefill(batch=1, tokens=512))
    assert [r["op"] for r in rows] == [row.name for row in analysis.ops]
    assert sum(int(r["flops"]) for r in rows) == analysis.flops


def test_csv_with_a_chip_has_times(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "analyze", LLAMA, "--context", "512", "--on", "h100-sxm", "--precision", "fp8", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    estimate = rl.estimate(rl.load(LLAMA), rl.decode(batch=1, context=512), on="h100-sxm", precision="fp8")
    assert [r["op"] for r in rows] == [op.name for op in estimate.ops]
    assert sum(float(r["expected"]) for r in rows) == pytest.approx(estimate.time)
    assert sum(int(r["flops"] or 0) for r in rows) == estimate.analysis.flops
    assert {r["intensity"] for r in rows if r["op"] in ("rope", "o_proj_quantise")} == {""}


@pytest.mark.parametrize(("name", "starts"), [("a.json", "{"), ("a.csv", "step,op,"), ("a.md", LLAMA), ("a", LLAMA)])
def test_a_file_has_the_form_of_its_ending(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, starts: str
) -> None:
    assert run(capsys, "analyze", LLAMA, "--out", str(tmp_path / name)) == ("", "")
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(starts)


def test_without_a_step_it_stays_within_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    assert "1023 cached" in run(capsys, "analyze", "openai-community/gpt2", "--on", "l4")[0]


def test_what_does_not_fit_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("Qwen/Qwen3-32B", "--on", "l4", "--input", "9", "--output-tokens", "9")
    for command in (
        ["generate", *words], ["generate", *words, "--engine", "vllm"], ["serve", *words, "--concurrency", "2"],
        ["analyze", *words[:3]], ["fit", *words[:3], "--context", "18"],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert stop.value.code == 1
        out, err = capsys.readouterr()
        assert "does not fit, " in out.splitlines()[0]
        assert len(out.splitlines()) > 10
        assert err == ""
    assert "does not fit" not in run(capsys, "generate", LLAMA, *words[1:])[0]


@pytest.mark.parametrize("form", ["--json", "--csv", "--md"])
def test_what_does_not_fit_is_written_all_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    path = tmp_path / f"a.{form[2:]}"
    with pytest.raises(SystemExit) as stop:
        main(["analyze", "Qwen/Qwen3-32B", "--on", "l4", form, "--out", str(path)])
    assert stop.value.code == 1
    assert "qkv_proj" in path.read_text(encoding="utf-8")
    assert "does not fit, " in capsys.readouterr().err


def test_a_cluster_is_used_whole_and_says_so_first(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [LLAMA, "--on", "8xh100-sxm"]
    for words in (
        ["analyze", *argv], ["fit", *argv], ["generate", *argv, "--input", "9", "--output-tokens", "9"],
        ["serve", *argv, "--input", "9", "--output-tokens", "29", "--concurrency", "2"],
    ):  # fmt: skip
        assert run(capsys, *words)[0].startswith("8 × NVIDIA H100 SXM5 80GB (the whole machine as tp=8) · vLLM 0.25\n")
    trained = run(capsys, "train", *argv, "--batch", "64", "--tokens", "4096")[0]
    assert trained.startswith("8 × NVIDIA H100 SXM5 80GB (the whole machine as dp=8, zero=1) · Megatron-LM 0.18\n")
    assert "layout: the fastest that fits, of all legal ones on this machine\n" in trained


def test_replicas_that_have_less_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [LLAMA, "--on", "8xh100-sxm", "--layout", "tp=2,dp=4", "--input", "64", "--output-tokens", "8"]
    out = run(capsys, "generate", *argv, "--batch", "10")[0]
    assert "10 sequences over 4 replicas: 3 on the busiest, 2 replicas with fewer" in out
    data = json.loads(run(capsys, "generate", *argv, "--batch", "10", "--json")[0])
    assert (data["batch"], data["batch_per_replica"], data["idle_replicas"]) == (10, 3, 2)


def test_the_first_page_says_what_every_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    page = run(capsys, "--help")[0]
    assert page == run(capsys, "-h")[0]
    for name in COMMANDS:
        assert re.search(rf"^│ {name} +\w+ ", page, re.MULTILINE)


PROGRAMS = [
    ["roofline.doors.cli.main", "models", "--json"],
    ["roofline.doors.compat.transformer_roofline_analyzer", "--", LLAMA],
]


@pytest.mark.drawn(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", PROGRAMS)
def test_a_stdout_that_takes_nothing(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "stdout: expected something that can be written to" in done.stderr.splitlines()[-1]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("words", PROGRAMS)
def test_a_reader_that_left(words: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == 0


def test_an_interrupt_says_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("roofline.model.load.load", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(["analyze", LLAMA])
    assert stop.value.code == 130
    assert capsys.readouterr() == ("", "")


def test_an_encoding_without_the_signs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "roofline.doors.cli.main", "analyze", LLAMA], capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert b"8,030,261,248" in done.stdout


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "analyze", LLAMA, "--context", "10", "--md")
    table = [line for line in out.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    assert table[1].startswith("| :-- |")


def test_a_mixed_batch(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "analyze", LLAMA, "--cached", "0", "4096", "--new", "512", "1", "--batch", "4", "--json")
    assert json.loads(out)["steps"][0]["queries"] == [
        {"cached": 0, "new": 512, "count": 2},
        {"cached": 4096, "new": 1, "count": 2},
    ]


def test_output_never_overwrites_unless_forced(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    run(capsys, "analyze", "gpt2", "--json", "--out", str(target))
    first = target.read_text()
    with pytest.raises(SystemExit) as stop:
        main(["analyze", "gpt2", "--context", "5", "--json", "--out", str(target)])
    assert stop.value.code == 2
    assert "--force" in capsys.readouterr().err
    assert target.read_text() == first
    run(capsys, "analyze", "gpt2", "--context", "5", "--json", "--out", str(target), "--force")
    assert target.read_text() != first


def test_explain_shows_formula_numbers_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "explain", LLAMA, "qkv_proj", "--context", "4096", "--batch", "32")
    assert "2*B*T*inputs*outputs" in out
    assert "2*32*1*4096*6144" in out
    assert "1,610,612,736" in out
    assert "counting standard" in out
    data = json.loads(run(capsys, "explain", LLAMA, "attention", "--input", "64", "--json")[0])
    assert data["schema"] == "roofline.explain/2"
    assert data["steps"][0]["figures"][0]["per_layer"] == 4 * 32 * 128 * (64 * 65 // 2)


def test_models_lists_the_catalog_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "models")
    assert all(name in out for name in rl.catalog())
    data = json.loads(run(capsys, "models", LLAMA, "--json")[0])
    assert sum(m["layers"] * m["parameters"] for m in data["modules"]) == 8_030_261_248
    assert "qwen3_next" in json.loads(run(capsys, "models", "--types", "--json")[0])["model_types"]
    assert "gate_up_proj" in run(capsys, "models", LLAMA)[0]


def test_models_by_family_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capsys, "models", "--family", "qwen3_moe", "--size", "30B-31B", "--json")[0])
    assert {m["id"] for m in data["models"]} >= {"Qwen/Qwen3-30B-A3B"}
    assert {m["active_parameters"] for m in data["models"]} == {3_353_032_704}
    out, _ = run(capsys, "models", "--find", "qwen3-30b-a3b")
    assert re.search(r"30,532,122,624 +3,353,032,704", out)


def test_tensors_of_a_checkpoint_and_headers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    matrix = {"model.layers.0.mlp.down_proj.weight": ("F8_E4M3", (64, 128))}
    folder = str(write_all(tmp_path / "tiny", CONFIG, matrix))
    out, err = run(capsys, "models", folder, "--tensors")
    assert "model.layers.*.mlp.down_proj.weight" in out
    assert "no tensor of qkv_proj (2 of them)" in err
    data = json.loads(run(capsys, "models", folder, "--tensors", "--json")[0])
    assert (data["total"], data["stored"], data["tensors"][0]["module"]) == (8192, 8192, "down_proj")
    promised = json.loads(run(capsys, "analyze", folder, "--context", "9", "--json")[0])
    stored = json.loads(run(capsys, "analyze", folder, "--context", "9", "--json", "--headers")[0])
    assert promised != stored
    (tmp_path / "tiny" / "model.safetensors").write_bytes(b"\xff" * 64)
    for words in (
        ["models", folder, "--tensors"],
        ["analyze", folder, "--headers"],
        ["fit", folder, "--on", "l4", "--headers"],
    ):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2
        assert "a header of at most 56 bytes" in capsys.readouterr().err


def test_check_of_a_folder_exits_with_1_where_one_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(CONFIG))
    out, _ = run(capsys, "models", "--check", str(tmp_path))
    assert "1 exact, 0 warned, 0 refused" in out
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SystemExit) as stop:
        main(["models", "--check", str(tmp_path), "--json"])
    assert stop.value.code == 1
    data = json.loads(capsys.readouterr().out)
    assert [c["outcome"] for c in data["configs"]] == ["exact", "refused"]


@folded(
    "words",
    [["--types", "--size", "8B"], ["--check", ".", "--find", "x"], ["x", "--family", "llama"], ["--tensors"],
     ["--headers"], ["--size", "8"]],
)  # fmt: skip
def test_what_models_cannot_do_together(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["models", *words])
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_is_not_understood_or_not_counted_is_said_on_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = json.loads(run(capsys, "models", LLAMA, "--json")[0])
    from roofline.model.load import catalog_config

    config = {**catalog_config(LLAMA), "hiden_sizes": 5, "vision_config": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    out, err = run(capsys, "analyze", str(tmp_path), "--json")
    assert "hiden_sizes" in err
    assert "hidden_size" in err
    assert "vision_config" in err
    assert json.loads(out)["warnings"]


LASTING = ("calibrate", "web", "mcp")
"""Commands that take a minute, or run until they are ended."""


@pytest.mark.drawn(4)
@pytest.mark.parametrize("command", [[], *([c] for c in COMMANDS if c not in LASTING)])
def test_help_has_an_example_that_works(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # where an example writes its file, and reads one
    (tmp_path / "bench.json").write_text('[{"avg_ts": 5000.0, "n_prompt": 512, "n_gen": 0, "n_depth": 0}]')
    out, _ = run(capsys, *command, "--help")
    assert "Usage" in out
    if command:
        text = " ".join(out.split())
        example = text.split("Example: ")[1].split("  ")[0]
        words = example.replace("│", " ").split()
        wanted = words[: next((i for i, w in enumerate(words) if w in ("╭─", "Usage:", "Parameters")), len(words))]
        assert wanted[0] == "roofline"
        run(capsys, *shlex.split(" ".join(w.strip("`") for w in wanted[1:] if set(w) - set("─╭╮"))))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[0].strip() == rl.__version__


# -- times ---------------------------------------------------------------------------------------------------------
def test_analyze_on_a_chip_adds_times(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "analyze", LLAMA, "--on", "h100-sxm", "--context", "4096", "--batch", "32")
    assert "ridge 295 FLOP/B" in out
    assert "memory bound" in out
    assert "speed of light" in out
    data = json.loads(run(capsys, "analyze", LLAMA, "--on", "h100-sxm", "--context", "4096", "--json")[0])
    estimate = data["steps"][0]["estimate"]
    expected = rl.estimate(rl.load(LLAMA), rl.decode(batch=1, context=4096), on="h100-sxm")
    assert estimate["time"]["expected"] == expected.time
    assert estimate["bound"] == "memory"
    assert len(estimate["ops"]) == len(expected.ops)


def test_generate_prints_each_figure_with_its_definition(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["generate", LLAMA, "--on", "h100-sxm", "--batch", "4", "--input", "512", "--output-tokens", "64"]
    out, _ = run(capsys, *argv)
    for word in ("TTFT", "TPOT", "latency", "tokens/s per user", "(latency − TTFT) / (output − 1)", "speed of light"):
        assert word in out
    data = json.loads(run(capsys, *argv, "--json")[0])
    latency = rl.generate(rl.load(LLAMA), on="h100-sxm", batch=4, input=512, output=64).latency
    assert data["latency"]["expected"] == latency.expected
    drafted = json.loads(run(capsys, *argv, "--json", "--draft", "none", "--draft-length", "4")[0])
    assert drafted["latency"]["expected"] < latency.expected


def test_serve(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["serve", LLAMA, "--on", "h100-sxm", "--input", "512", "--output-tokens", "64", "--concurrency", "8"]
    assert "Little's law" in run(capsys, *argv)[0]
    assert json.loads(run(capsys, *argv, "--json")[0])["in_flight"] == 8


def test_pools_take_drafts_and_images(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "Qwen/Qwen3.5-9B", "--on", "8xh100-sxm", "--layout", "tp=2", "--prefill-layout", "tp=1"]
    words += ["--prefills", "2", "--decodes", "2", "--input", "300", "--output-tokens", "90", "--rate", "2"]
    words += ["--draft", "none", "--draft-length", "2", "--images", "1", "--image-size", "640x480"]
    data, text = json.loads(run(capsys, *words, "--json")[0]), run(capsys, *words)[0]
    p = rl.pools(
        rl.load("Qwen/Qwen3.5-9B"), on="8xh100-sxm", prefills=2, decodes=2, prefill_layout="tp=1",
        decode_layout="tp=2", input=300, output=90, rate=2, speculation=rl.Speculation(0.5, 2),
        images=rl.Images(1, 640, 480),
    )  # fmt: skip
    assert (data["tpot"]["expected"], data["speculation"]["length"]) == (p.tpot.expected, 2)
    assert data["input"] == 300 + data["images"]["tokens"]
    assert "2 tokens a step drafted" in text
    assert f"{p.images.tokens} of the input are" in text


def test_pools_of_prefill_and_decode(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", LLAMA, "--on", "8xh100-sxm", "--layout", "tp=4", "--prefill-layout", "tp=2", "--chips", "8"]
    words += ["--input", "900", "--output-tokens", "90", "--concurrency", "4"]
    data = json.loads(run(capsys, *words, "--json")[0])
    p = rl.pools(
        rl.load(LLAMA), on="8xh100-sxm", chips=8, prefill_layout="tp=2", decode_layout="tp=4", input=900, output=90,
        concurrency=4,
    )  # fmt: skip
    assert (data["prefills"], data["decodes"]) == (p.prefills, p.decodes)
    assert data["tpot"]["expected"] == p.tpot.expected
    assert data["prefill_requests_per_second"] == p.prefills * p.prefill_rate
    assert f"{p.tokens_per_second / p.chips:,.1f} per chip; {p.bottleneck}" in run(capsys, *words)[0]


def test_pools_of_unlike_chips_at_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "serve",
        LLAMA,
        "--on",
        "h200-sxm",
        "--layout",
        "tp=2",
        "--prefill-on",
        "h100-sxm",
        "--prefill-layout",
        "tp=1",
    ]
    words += [
        "--prefill-engine",
        "sglang",
        "--prefills",
        "2",
        "--decodes",
        "1",
        "--input",
        "900",
        "--output-tokens",
        "90",
    ]
    text = run(capsys, *words, "--rate", "5", "--prefix", "0.5")[0]
    assert "900 in, 450 of them from the prefix cache" in text
    assert (
        "2 × prefill on NVIDIA H100 SXM5 80GB by SGLang 0.5.14, "
        "1 × decode on 2 × NVIDIA H200 SXM 141GB (tp=2) by vLLM 0.25" in text
    )
    data = json.loads(run(capsys, *words, "--rate", "5", "--json")[0])
    assert (data["schema"], data["requests_per_second"], data["prefill_engine"]) == ("roofline.pools/4", 5, "sglang")
    assert data["prefill_utilisation"] == 5 / data["prefill_requests_per_second"]


def test_fit_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capsys, "fit", LLAMA, "--on", "l4", "--batch", "4", "--context", "4096", "--json")[0])
    f = rl.fit(rl.load(LLAMA), on="l4", batch=4, context=4096)
    memory = data["memory"]
    assert (memory["total"], memory["budget"], data["fits"]) == (f.memory.total, f.memory.budget, f.fits)
    assert (data["largest_batch"], data["longest_context"]) == (f.largest_batch, f.longest_context)


def test_fit_exits_with_1_where_it_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert "fits; " in run(capsys, "fit", LLAMA, "--on", "h100-sxm", "--context", "8192")[0]
    with pytest.raises(SystemExit) as stop:
        main(["fit", "meta-llama/Llama-3.1-70B", "--on", "h100-sxm", "--context", "8192"])
    assert stop.value.code == 1
    assert "would fit with: " in capsys.readouterr().out


def test_where_nothing_fits_no_context_is_any(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fit", "deepseek-ai/DeepSeek-V3", "--on", "h200-sxm", "--context", "1024"])
    assert "longest context at batch 1: 0;" in capsys.readouterr().out


def test_chips(capsys: pytest.CaptureFixture[str]) -> None:
    assert "h100-sxm" in run(capsys, "chips")[0]
    assert "295" in run(capsys, "chips", "h100-sxm")[0]
    (chip,) = json.loads(run(capsys, "chips", "H100 SXM", "--json")[0])["chips"]
    assert chip["peaks"]["bf16"] == 989.4e12


def test_one_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = json.loads(run(capsys, "chips", "--clusters", "dgx-h100", "--json")[0])["clusters"]
    cluster = rl.clusters()["dgx-h100"]
    assert (shown["name"], shown["chip"], shown["chips"]) == ("dgx-h100", cluster.chip, cluster.chips)
    assert [level["bandwidth"] for level in shown["levels"]] == [x.bandwidth for x in cluster.levels]


def test_parquet_has_the_columns_of_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import polars

    words = ["analyze", "meta-llama/Llama-3.1-8B", "--on", "h100-sxm", "--context", "100"]
    path = tmp_path / "ops.parquet"
    main([*words, "--out", str(path)])
    main([*words, "--csv"])
    header, *rows = capsys.readouterr().out.splitlines()
    table = polars.read_parquet(path)
    assert table.columns == header.split(",")
    assert table.height == len(rows)
    assert table["flops"].sum() == rl.analyze(rl.load("meta-llama/Llama-3.1-8B"), rl.decode(1, 100)).flops
    with pytest.raises(SystemExit):
        main([*words, "--out", str(path)])
    assert "--force" in capsys.readouterr().err
