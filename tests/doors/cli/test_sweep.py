"""`roofline sweep`: tables, files, pictures, and what it says where something cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import polars
import pytest

import roofline as rl
from folded import by_day, folded
from roofline.doors.cli.main import main

LLAMA = "meta-llama/Llama-3.1-8B"
AXES = [*"--on h100-sxm b200 --layout tp=1,2,4 --precision bf16 fp8 --batch 1..64:x2 --context 1Ki..4Ki:x2".split()]


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str, int]:
    code = 0
    try:
        main(["sweep", *words])
    except SystemExit as stop:
        code = int(stop.code or 0)
    said = capsys.readouterr()
    return said.out, said.err, code


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = [LLAMA, *AXES, "--where", "fits and tpot < 6ms", "--sort=-tokens_per_second", "--rows", "3"]
    out, err, code = run(words, capsys)
    assert code == 0
    assert "252 points of decode: 2 on × 3 layout × 2 precision × 7 batch × 3 context" in err
    table = rl.sweep(LLAMA, on=["h100-sxm", "b200"], layout="tp=1,2,4", precision=["bf16", "fp8"], batch="1..64:x2",
                     context="1Ki..4Ki:x2", where="fits and tpot < 6ms").to_frame()  # fmt: skip
    assert f"{table.height} of 252 points, 3 shown, those with the most tokens_per_second" in out
    best = table.sort("tokens_per_second", descending=True).head(3)
    shown = out.splitlines()[3:6]
    for line, rate in zip(shown, best["tokens_per_second"], strict=True):
        assert f"{rate:,.0f}" in line


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    out, _, _ = run([LLAMA, "--on", "l4", "--batch", "1,2", "--context", "9", "--json"], capsys)
    data = json.loads(out)
    assert data["schema"] == "roofline.sweep/1"
    assert data["rows"] == data["points"] == 2
    assert data["table"]["batch"] == [1, 2]


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_a_file(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"rows.{ending}"
    out, _, code = run([LLAMA, *AXES, "-o", str(path), "--rows", "2"], capsys)
    assert code == 0
    assert "252 of 252 points, 2 shown, the first" in out
    read: dict[str, Any] = {"parquet": polars.read_parquet, "csv": polars.read_csv, "arrow": polars.read_ipc_stream}
    rows = read[ending](path)
    assert rows.height == 252
    alone = rl.estimate(LLAMA, rl.decode(64, 4096), on="b200", layout="tp=4", precision="fp8")
    assert rows["time"][-1] == pytest.approx(alone.time, rel=1e-9)
    assert "--force" in run([LLAMA, *AXES, "-o", str(path)], capsys)[1]


def test_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tpot.svg"
    run([LLAMA, "--on", "l4", "--batch", "1..8:x2", "--context", "64,128", "--plot", str(path), "--y", "tpot"], capsys)
    assert path.read_text(encoding="utf-8").startswith("<?xml")


def test_no_row_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    words = [LLAMA, "--on", "l4", "--context", "9,200k", "--where", "tpot < 1us"]
    out, err, code = run(words, capsys)
    assert (code, "0 of 2 points" in out) == (1, True)
    assert "left out: 1 point, longer than the context of the model" in err


@folded(
    ("words", "says"),
    [
        (["--batch", "1..x"], "batch: expected numbers"), (["--where", "tpot < 3"], "a time with its unit"),
        (["--where", "tpt < 3ms"], "nearest: tpot"), (["--sort", "tpt"], "--sort: expected one of"),
        (["--batch", "1..12M"], "a file takes more"), (["--resume"], "--resume: expected --out"),
        (["--out", "x.txt"], "ends in .parquet, .csv, .arrow"), (["--out", "x.csv", "--json"], "either a file"),
        (["--layout", "tp=1,2,x=3"], "layout: expected one of"), (["--plot", "x.doc"], "--plot"),
        (["--columns", "tpots"], "nearest: tpot"), (["--rows", "0"], "--rows"), (["--engine", "vlm"], "nearest: vllm"),
        (["--batch", "1..10M", "--tp", "1..1000", "--precision", "bf16", "fp8", "int4", "int8", "nvfp4", "mxfp4",
          "--context", "1..100k", "--out", "x.csv"], "at most 1,000,000,000,000 points"),
        (["--rate", "3"], "axis: expected one of"),
    ],
)  # fmt: skip
def test_one_line_for_what_is_wrong(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--context", "9"] if "--context" not in words else []
    _, err, code = run([LLAMA, "--on", "l4", *given, *words], capsys)
    assert code == 2
    assert says in err
    assert len([line for line in err.splitlines() if line.startswith("roofline:")]) == 1
    assert "Traceback" not in err


def test_killed_and_resumed(tmp_path: Path) -> None:
    """A process that is killed on the way, and the same command with --resume: the bytes of an undisturbed run."""
    contexts = f"1..{by_day(30000, every=80000)}"
    axes = ["--on", "h100-sxm", "--batch", "1..16", "--context", contexts, "--columns", "tpot"]
    command = [sys.executable, "-m", "roofline.doors.cli.main", "sweep", LLAMA, *axes]
    env = {**os.environ, "PYTHONPATH": str(Path(rl.__file__).parents[1])}
    whole, path = tmp_path / "whole.parquet", tmp_path / "killed.parquet"
    subprocess.run([*command, "-o", str(whole)], check=True, capture_output=True, env=env)
    process = subprocess.Popen(
        [*command, "-o", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
    )
    log, start = Path(f"{path}.part.log"), monotonic()
    while (not log.exists() or log.read_bytes().count(b"\n") < by_day(2, every=4)) and process.poll() is None:
        assert monotonic() - start < 60
        sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = subprocess.run([*command, "-o", str(path), "--resume"], check=True, capture_output=True, env=env, text=True)
    assert path.read_bytes() == whole.read_bytes()
    assert "going on at piece" in done.stderr
