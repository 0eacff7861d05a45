"""Commands on many chips: layouts, clusters, training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from folded import folded
from roofline.doors.cli.main import main

LLAMA = "meta-llama/Llama-3.1-8B"
TRAIN = ["train", LLAMA, "--on", "8xh100-sxm", "--batch", "16", "--tokens", "4096"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    code = 0
    try:
        main(list(words))
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_train_says_what_a_stage_holds_and_how_long_a_step_takes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *TRAIN, "--layout", "tp=2,pp=2,dp=2,zero=1", "--run-tokens", "1e12", "--timeline")
    assert (code, err) == (0, "")
    for word in (
        "Gradients",
        "Optimizer",
        "In flight",
        "bubble",
        "MFU",
        "HFU",
        "days",
        "checkpoints",
        "goodput",
        "stage 1 ",
    ):
        assert word in out


def test_train_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *TRAIN, "--layout", "tp=2,pp=2,dp=2,zero=1", "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["schema"], data["deployment"]["chips"], data["micro_batches"]) == ("roofline.train/4", 8, 8)
    assert [s["layers"] for s in data["stages"]] == [16, 16]
    memory = data["stages"][0]["memory"]
    terms = ("weights", "gradients", "optimizer", "activations", "working")
    assert memory["allocated"] == pytest.approx(sum(memory[t] for t in terms))
    assert data["mfu"] == pytest.approx(data["model_flops"] / (8 * 989.4e12 * data["time"]["expected"]), rel=0.01)


def test_train_that_does_not_fit_exits_with_one_and_says_what_would(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *TRAIN, "--layout", "dp=8")
    assert code == 1
    assert "does not fit; would with: " in out


def test_the_trace_is_written_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    words = [*TRAIN, "--layout", "tp=2,pp=2,dp=2,zero=1", "--trace", str(path)]
    assert run(capsys, *words)[0] == 0
    assert json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "--force" in err
    assert run(capsys, *words, "--force")[0] == 0


@folded(
    ("words", "said"),
    [
        ([*TRAIN, "--layout", "tp=3"], "attention heads"), ([*TRAIN, "--layout", "tpp=2"], "nearest: tp"),
        ([*TRAIN, "--layout", "dp=3"], "nearest: 15, 18"), ([*TRAIN, "--schedule", "1f2b"], "1f1b"),
        ([*TRAIN, "--recipe", "fp9"], "fp8"), ([*TRAIN, "--optimizer", "adam"], "adamw"),
        ([*TRAIN, "--drafts", "1"], "draft layers"), ([*TRAIN, "--run-tokens", "-1"], "tokens"),
        ([*TRAIN, "--lora", "0"], "--lora"), ([*TRAIN, "--recipe", "qlora"], "adapters"),
        (["train", LLAMA, "--on", "dgx-h1000", "--batch", "8", "--tokens", "8"], "dgx-h100"),
        (["fit", LLAMA, "--on", "8xl4", "--layout", "tp=16"], "8 chips"),
        (["generate", LLAMA, "--on", "l4", "--tp", "5", "--input", "8", "--output-tokens", "8"], "attention heads"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_analyze_shows_the_ops_of_one_rank(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "analyze", LLAMA, "--layout", "tp=8", "--context", "1000", "--json")
    (step,) = json.loads(out)["steps"]
    ops = {op["name"]: op for op in step["ops"]}
    assert code == 0
    assert ops["down_proj"]["flops_per_layer"] == 2 * 4096 * 14336 // 8
    assert ops["ffn_residual_reduce"]["kind"] == "communication"


def test_more_chips_are_faster_and_hold_more(capsys: pytest.CaptureFixture[str]) -> None:
    generated = ["generate", LLAMA, "--on", "dgx-h100", "--input", "512", "--output-tokens", "32", "--json"]
    seconds = [
        json.loads(run(capsys, *generated, "--layout", layout)[1])["latency"]["expected"]
        for layout in ("tp=1", "tp=2", "tp=8")
    ]
    assert seconds[0] > seconds[1] > seconds[2]
    words = [
        "serve",
        LLAMA,
        "--on",
        "dgx-h100",
        "--input",
        "512",
        "--output-tokens",
        "32",
        "--concurrency",
        "64",
        "--json",
    ]
    served = [json.loads(run(capsys, *words, "--layout", layout)[1]) for layout in ("dp=1", "dp=8")]
    assert served[1]["capacity"] == 8 * served[0]["capacity"]
    assert served[1]["tokens_per_second"] > 3 * served[0]["tokens_per_second"]


def test_a_cluster_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[mine]\nchip = "h100-sxm"\n[[mine.levels]]\nname = "node"\nsize = 4\nkind = "switch"\n'
        '[[mine.levels]]\nname = "rack"\nsize = 4\nkind = "network"\nbandwidth_gbs = 25\n',
        encoding="utf-8",
    )
    code, out, _ = run(capsys, "train", LLAMA, "--on", str(path), "--batch", "16", "--tokens", "2048", "--layout",
                       "tp=4,dp=4,zero=1", "--json")  # fmt: skip
    assert code == 0
    assert json.loads(out)["deployment"]["cluster"] == "mine"


def test_train_in_parts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    layout = ("--layout", "tp=2,pp=2,dp=2,zero=1")
    trace, picture = tmp_path / "step.json", tmp_path / "memory.svg"
    code, out, _ = run(capsys, *TRAIN, *layout, "--breakdown", "modules", "--trace", str(trace), "--plot", str(picture))
    assert code == 0
    for word in ("gate_up_proj", "waiting for other stages", "optimizer", "the step", "100.0 %", "by module"):
        assert word in out
    assert picture.exists()
    assert {"optimizer", "stage 1 collectives"} <= {
        event["args"].get("name", event["name"]) for event in json.loads(trace.read_text())["traceEvents"]
    }
    code, out, _ = run(capsys, *TRAIN, *layout, "--breakdown", "ops", "--json")
    data = json.loads(out)
    assert data["breakdown"]["total"] == pytest.approx(data["time"]["expected"])
    assert {row["module"] for row in data["modules"]} >= {"down_proj", "embedding"}
    code, _, err = run(capsys, *TRAIN, *layout, "--plot", str(picture))
    assert (code, "--force" in err) == (2, True)


@pytest.mark.parametrize("tokens", ["1e12", "1T", "1000G", "1000000000000"])
def test_tokens_of_a_run_are_written_as_people_do(capsys: pytest.CaptureFixture[str], tokens: str) -> None:
    _, out, _ = run(capsys, *TRAIN, "--layout", "tp=2,pp=2,dp=2,zero=1", "--run-tokens", tokens)
    assert "\n1T tokens: " in out
