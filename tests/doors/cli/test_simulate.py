"""`roofline simulate`: what it prints, what it writes, and what it refuses in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars
import pytest

import roofline as rl
from folded import folded
from roofline.declared.numbers.spelling import whole_named
from roofline.doors.cli.main import main
from roofline.serving.simulate.recorder import ROW
from roofline.serving.simulate.simulate import prefixes_named
from roofline.views.files import requests
from roofline.views.files.requests import RequestFile

LLAMA = "meta-llama/Llama-3.1-8B"
ON = ["simulate", LLAMA, "--on", "h100-sxm"]
SHORT = [
    *ON,
    "--input",
    "uniform(100,900)",
    "--output-tokens",
    "lognormal(40,0.5,max=200)",
    "--rate",
    "8",
    "--requests",
    "800",
]
RESUMED = """
import roofline.views.files.requests as requests
from roofline.doors.cli.main import main
import sys
requests.EVERY_ROWS, requests.PART = 500, 400
main(sys.argv[1:])
"""
"""A command that writes a checkpoint every 500 requests."""


def printed(capsys: pytest.CaptureFixture[str], argv: list[str], code: int = 0) -> tuple[str, str]:
    if code:
        with pytest.raises(SystemExit) as exit_:
            main(argv)
        assert exit_.value.code == code
    else:
        main(argv)
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_the_text_says_what_came_and_what_the_server_did(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = printed(capsys, [*SHORT, "--ttft", "10s", "--tpot", "1s"])
    lines = out.splitlines()
    assert lines[0] == "NVIDIA H100 SXM5 80GB · vLLM 0.25"
    assert " ".join(lines[3:5]).startswith(
        "8 requests/s (poisson), input uniform(100,900), output lognormal(40,0.5,max=200): "
        "800 requests after 80 to warm up in "
    )
    rows = ("TTFT ", "TPOT (request)", "TPOT (tokens)", "latency ", "queue ")
    assert [sum(line.startswith(name) for line in lines) for name in rows] == [2] * len(rows)
    assert "100.0 % of requests within TTFT 10 s, TPOT 1 s" in out
    assert "0 preemptions" in out
    assert err == ""


def test_json_is_the_library_answer(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = printed(capsys, [*SHORT, "--json"])
    answer = rl.simulate(
        LLAMA, on="h100-sxm", input="uniform(100,900)", output="lognormal(40,0.5,max=200)", rate=8,
        extent=rl.Extent(requests=800),
    )  # fmt: skip
    assert json.loads(out) == json.loads(json.dumps(answer.to_dict()))
    assert set(answer.to_dict()["ttft"]) == {"mean", "half_width", "p50", "p90", "p95", "p99"}
    assert len(answer.timeline.seconds) <= 512


def test_too_many_requests_are_called_overloaded_in_the_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [*ON, "--input", "2000", "--output-tokens", "500", "--rate", "200", "--requests", "800"]
    out, _ = printed(capsys, argv, 1)
    assert "overloaded" in out.splitlines()[0]
    out, err = printed(capsys, [*argv, "--json"], 1)
    assert json.loads(out)["overloaded"]
    assert err.count("\n") == 1
    assert "overloaded" in err


def test_a_memory_that_holds_no_request_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "simulate",
        "meta-llama/Llama-3.1-70B",
        "--on",
        "h100-sxm",
        "--input",
        "100",
        "--output-tokens",
        "9",
        "--rate",
        "1",
    ]
    out, err = printed(capsys, argv, 1)
    assert out == ""
    assert err == "roofline: on: expected memory for a request of 109 tokens, got '1xh100-sxm'\n"


@folded(
    "options",
    [
        "--input 9 --output-tokens 9",
        "--input 9 --rate 1",
        "--input 9 --output-tokens 9 --rate 1 --concurrency 2",
        "--input 9 --output-tokens 9 --rate 1 --think 1s",
        "--input 9 --output-tokens 9 --concurrency 2 --think 1",
        "--input 9 --output-tokens 9 --rate 0",
        "--input 9 --output-tokens 9 --rate nan",
        "--input unifrm(1,9) --output-tokens 9 --rate 1",
        "--input 9 --output-tokens 999999 --rate 1",
        "--input 9 --output-tokens 9 --rate 1 --arrivals gamma",
        "--input 9 --output-tokens 9 --rate 1 --prefixes 10",
        "--input 9 --output-tokens 9 --rate 1 --prefixes 10x0",
        "--input 9 --output-tokens 9 --rate 1 --requests 1.5",
        "--input 9 --output-tokens 9 --rate 1 --requests 0",
        "--input 9 --output-tokens 9 --rate 1 --requests 10kb",
        "--input 9 --output-tokens 9 --rate 1 --seed -1",
        "--input 9 --output-tokens 9 --rate 1 --until 2",
        "--input 9 --output-tokens 9 --rate 1 --slo ttft=2",
        "--input 9 --output-tokens 9 --rate 1 --slo tfft=2s",
        "--input 9 --output-tokens 9 --rate 1 --slo ttft=2s,ttft=3s",
        "--input 9 --output-tokens 9 --rate 1 --router fair",
        "--input 9 --output-tokens 9 --rate 1 --speed 2",
        "--input 9 --output-tokens 9 --rate 1 --out requests.txt",
        "--input 9 --output-tokens 9 --rate 1 --plot picture.jpg",
        "--input 9 --output-tokens 9 --concurrency 2 --router least-loaded",
        "--trace nowhere.csv",
        "--trace nowhere.csv --rate 2",
        "--trace nowhere.csv --until 0.1",
        "--input 9 --output-tokens 9 --rate 1 --prefill-engine vllm",
        "--input 9 --output-tokens 9 --rate 1 --prefill-on nochip",
        "--input 9 --output-tokens 9 --rate 1 --prefill-bandwidth 50GB/s",
        "--input 9 --output-tokens 9 --rate 1 --prefill-on l4 --prefill-bandwidth 50",
        "--input 9 --output-tokens 9 --rate 1 --prefill-on l4 --prefill-bandwidth 0GB/s",
        "--input 9 --output-tokens 9 --rate 1 --acceptance 0.5",
        "--input 9 --output-tokens 9 --rate 1 --draft none --acceptance 2",
        "--input 9 --output-tokens 9 --rate 1 --draft none --draft-length 99",
        "--input 9 --output-tokens 9 --rate 1 --draft meta-llama/Llama-3.2-1B --mtp",
        "--input 9 --output-tokens 9 --rate 1 --mtp",
        "--input 9 --output-tokens 9 --rate 1 --lora 0",
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    options: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out, err = printed(capsys, [*ON, *options.split()], 2)
    assert out == ""
    assert err.startswith("roofline: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_words_of_the_command_line() -> None:
    counts = ("10000", "10k", "1.5M", "2Ki", "1_000")
    assert [whole_named("n", text) for text in counts] == [10_000, 10_000, 1_500_000, 2048, 1000]
    assert prefixes_named("10x2048") == rl.Prefixes(10, 2048)


# -- files ---------------------------------------------------------------------------------------------------------
def test_every_request_that_counts_is_a_row(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out, _ = printed(capsys, [*SHORT, "-o", "a.parquet", "--json"])
    printed(capsys, [*SHORT, "-o", "a.csv"])
    frame, answer = polars.read_parquet("a.parquet"), json.loads(out)
    assert frame.columns == list(ROW)
    assert sorted(frame["request"]) == list(range(80, 880))
    assert frame["ttft_s"].mean() == pytest.approx(answer["ttft"]["mean"], rel=1e-12)
    assert frame["latency_s"].sort()[791] == answer["latency"]["p99"]
    assert (frame["tpot_s"].is_null() == (frame["output_tokens"] == 1)).all()
    expected = (frame["latency_s"] - frame["ttft_s"]) / (frame["output_tokens"] - 1)
    assert ((frame["tpot_s"] - expected).drop_nulls().abs() < 1e-15).all()
    assert polars.read_csv("a.csv").equals(frame, null_equal=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.parquet"]
    _, err = printed(capsys, [*SHORT, "-o", "a.parquet"], 2)
    assert "--force" in err


def test_the_same_seed_gives_the_same_bytes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.parquet", "b.parquet", "c.parquet")]
    for file, seed in zip(files, "112", strict=True):
        printed(capsys, [*SHORT, "--out", str(file), "--seed", seed])
    first, second, other = (file.read_bytes() for file in files)
    assert first == second != other


TRACE = "time,input,output,session\n" + "".join(
    f"{i * 0.09:.3f},{120 + 130 * (i // 40) + i % 7},{30 + i % 50},s{i % 40}\n" for i in range(2400)
)
STREAMS = {
    "routed": "--on 3xh100-sxm --layout dp=3 --input uniform(100,900) --output-tokens uniform(1,200) --rate 60 "
    "--prefixes 10x256 --router prefix-aware --requests 4k",
    "in turn": "--on 3xh100-sxm --layout dp=3 --input uniform(100,900) --output-tokens uniform(1,200) --rate 60 "
    "--arrivals gamma(3) --requests 4k",
    "users": "--on h100-sxm --input uniform(100,900) --output-tokens uniform(1,200) --concurrency 40 --think 1s "
    "--requests 4k",
    "tight": "--on like=h100-sxm,mem=24G --input uniform(100,900) --output-tokens uniform(1,400) --concurrency 64 "
    "--requests 2k",
    "sessions": "--on 2xh100-sxm --layout dp=2 --trace trace.csv",
    "pools": "--on 2xh200-sxm --layout dp=2 --prefill-on 3xh100-sxm --prefill-layout dp=3 --input uniform(100,900) "
    "--output-tokens uniform(1,200) --rate 60 --requests 3k --router least-loaded",
}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("stream", STREAMS)
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(
    stream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole run is of this process, with checkpoints as many as the others'."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requests, "EVERY_ROWS", 500)
    monkeypatch.setattr(requests, "PART", 400)
    (tmp_path / "trace.csv").write_text(TRACE, encoding="utf-8")
    words = ["simulate", LLAMA, *STREAMS[stream].split(), "--json", "-o"]
    argv = [sys.executable, "-c", RESUMED, *words]
    whole, _ = printed(capsys, [*words, "whole.parquet"])
    run = subprocess.Popen([*argv, "killed.parquet"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    checkpoint = tmp_path / "killed.parquet.part" / "checkpoint.json"
    wait_for(checkpoint, run)
    run.kill()
    assert run.wait() == -signal.SIGKILL
    assert checkpoint.exists()
    assert not (tmp_path / "killed.parquet").exists()
    resumed = subprocess.run([*argv, "killed.parquet"], cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / "killed.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert resumed.stdout.decode() == whole
    assert not checkpoint.parent.exists()


def wait_for(path: Path, run: subprocess.Popen[Any]) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert run.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)


def test_ctrl_c_says_how_to_go_on_and_other_arguments_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        *ON,
        "--input",
        "uniform(100,900)",
        "--output-tokens",
        "50",
        "--requests",
        "50k",
    ]
    file = ["-o", "a.parquet"]
    argv = [sys.executable, "-c", RESUMED, *words, "--rate", "8", *file]
    run = subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(tmp_path / "a.parquet.part" / "checkpoint.json", run)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate()
    assert run.returncode == 130
    assert err.startswith("interrupted: a.parquet.part keeps ")
    assert "the same command goes on from there" in err
    monkeypatch.chdir(tmp_path)
    _, err = printed(capsys, [*words, "--rate", "9", *file], 2)
    assert "another simulation's requests" in err
    assert err.count("\n") == 1


def test_an_interruption_keeps_a_checkpoint_that_was_just_written_and_those_of_other_runs(tmp_path: Path) -> None:
    """Between the writing of a checkpoint and its note in memory, and before a run has begun, Ctrl-C removed them."""
    with RequestFile(tmp_path / "a.parquet") as file:
        assert file.begin("x") is None
        file((1, 0, 0.5, 3, 4, 0, 0.1, 0.2, None, 0.3, 0))
        file.save({"state": 1.5})
        file.saved = 0
        assert file.interrupted() == 1
    assert RequestFile(tmp_path / "a.parquet").interrupted() == 0
    with RequestFile(tmp_path / "a.parquet") as again:
        assert again.begin("x") == {"state": 1.5}
    with RequestFile(tmp_path / "b.parquet") as file:
        assert file.begin("x") is None
        assert file.interrupted() == 0
        assert not (tmp_path / "b.parquet.part").exists()


def test_parts_of_a_damaged_or_foreign_folder_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a.parquet.part"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(rl.InputError, match="holds other files"), RequestFile(tmp_path / "a.parquet") as foreign:
        foreign.begin("x")
    os.remove(folder / "notes.txt")
    file = RequestFile(tmp_path / "a.parquet")
    assert file.begin("x") is None
    file((1, 0, 0.5, 3, 4, 0, 0.1, 0.2, None, 0.3, 0))
    file.save({"state": 1.5})
    file.lock.release()
    with RequestFile(tmp_path / "a.parquet") as again:
        assert again.begin("x") == {"state": 1.5}
        assert again.rows == 1
    (folder / "checkpoint.json").write_text((folder / "checkpoint.json").read_text()[:-5])
    with pytest.raises(rl.InputError, match="a damaged checkpoint"), RequestFile(tmp_path / "a.parquet") as damaged:
        damaged.begin("x")
    assert RequestFile(tmp_path / "a.parquet", force=True).begin("x") is None


def test_a_picture_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "a.svg"
    printed(capsys, [*SHORT, "--plot", str(picture), "--theme", "dark"])
    assert picture.read_text(encoding="utf-8").startswith("<?xml")


def test_lengths_without_a_most_leave_out_what_no_memory_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """Memory for some ten thousand tokens, where the model's context is 131,072: as many count all the same."""
    where = ["simulate", LLAMA, "--on", "like=h100-sxm,mem=21.5G"]
    lengths = ["--input", "lognormal(900,2)", "--output-tokens", "20"]
    out, _ = printed(capsys, [*where, *lengths, "--rate", "1", "--requests", "500", "--json"])
    answer = json.loads(out)
    assert answer["requests"] == 500
    assert answer["left_out"].keys() <= {"larger than the memory", "longer than the context, 131072"}
    assert 0 < answer["left_out"]["larger than the memory"] < 50


# -- pools, drafts and adapters ------------------------------------------------------------------------------------
FEW: dict[str, Any] = {"input": 400, "output": 40, "rate": 3, "extent": rl.Extent(requests=150)}
FEW_ARGV = "--input 400 --output-tokens 40 --rate 3 --requests 150".split()


def test_pools_of_unlike_chips_are_asked_for_as_those_of_serve_are(capsys: pytest.CaptureFixture[str]) -> None:
    where = ["simulate", LLAMA, *"--on h200-sxm --prefill-on 4xh100-sxm --prefill-layout tp=2,dp=2".split(), *FEW_ARGV]
    out, _ = printed(capsys, [*where, "--prefill-engine", "sglang", "--router", "least-loaded", "--json"])
    answer = rl.simulate(
        LLAMA, on="h200-sxm", router="least-loaded",
        prefill=rl.PrefillPool("4xh100-sxm", layout="tp=2,dp=2", engine="sglang"), **FEW,
    )  # fmt: skip
    pool = json.loads(out)["prefill"]
    assert json.loads(out) == json.loads(json.dumps(answer.to_dict()))
    assert (pool["replicas"], pool["deployment"]["layout"], pool["engine"]) == (2, "tp=2, dp=2", "sglang")
    slow = json.loads(printed(capsys, [*where, "--prefill-bandwidth", "0.1GB/s", "--json"])[0])
    assert slow["prefill"]["transfer"]["mean"] > 10 * pool["transfer"]["mean"]
    assert "prefill  on all 4 chips, 2 replicas" in printed(capsys, where)[0]


def test_a_pool_stands_on_the_machine_of_the_others_where_it_has_none_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, _ = printed(capsys, [*ON, *FEW_ARGV, "--prefill-layout", "dp=1", "--json"])
    assert json.loads(out)["prefill"]["deployment"]["chip"] == "h100-sxm"


def test_drafts_are_asked_for_as_those_of_generate_are(capsys: pytest.CaptureFixture[str]) -> None:
    draft = "meta-llama/Llama-3.2-1B"
    argv = [*ON, *FEW_ARGV, "--draft", draft, "--draft-length", "2", "--acceptance", "0.8"]
    out, _ = printed(capsys, [*argv, "--json"])
    answer = rl.simulate(LLAMA, on="h100-sxm", speculation=rl.Speculation(0.8, 2, rl.load(draft)), **FEW)
    assert json.loads(out) == json.loads(json.dumps(answer.to_dict()))
    assert json.loads(out)["speculation"]["tokens_per_step"] == pytest.approx(1 + 0.8 + 0.64)
    assert f"2 tokens a step drafted by {draft}, each right with probability 0.8" in printed(capsys, argv)[0]


def test_the_models_own_draft_layer_is_counted_where_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    where = ["simulate", "deepseek-ai/DeepSeek-V3", "--on", "8xh200-sxm", "--layout", "tp=8", *FEW_ARGV]
    plain, said = printed(capsys, [*where, "--json"])
    drafted, less = printed(capsys, [*where, "--mtp", "--draft-length", "1", "--acceptance", "1", "--json"])
    assert json.loads(drafted)["tpot"]["mean"] < json.loads(plain)["tpot"]["mean"]
    assert ("multi-token-prediction" in said, "multi-token-prediction" in less) == (True, False)


def test_an_adapter_makes_steps_longer_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    plain, adapted = (
        json.loads(printed(capsys, [*ON, *FEW_ARGV, *more, "--json"])[0]) for more in ([], ["--lora", "64"])
    )
    assert (plain["lora"], adapted["lora"]) == (None, 64)
    assert adapted["tpot"]["mean"] > plain["tpot"]["mean"]
    assert "an adapter of rank 64" in printed(capsys, [*ON, *FEW_ARGV, "--lora", "64"])[0]
