"""`roofline calibrate --llama-bench`: a file in, a chip file out, one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofline.doors.cli.main import main

ROWS = [
    {"n_prompt": 512, "n_gen": 0, "avg_ts": 20_000.0},
    {"n_prompt": 0, "n_gen": 128, "avg_ts": 400.0},
]
MODEL = "Qwen/Qwen3-0.6B"


def run(*words: str) -> int:
    try:
        main(["calibrate", *words])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.fixture
def bench(tmp_path: Path) -> str:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(ROWS))
    return str(path)


def test_a_chip_file_comes_out(bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.toml"
    asked = ("--llama-bench", bench, "--model", MODEL, "--precision", "q8_0", "--on", "rtx-3090")
    assert run(*asked, "--out", str(out)) == 0
    assert "answer" in capsys.readouterr().out
    assert '"llama.cpp-cuda"' in out.read_text()
    assert run(*asked, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "roofline.bench_fit/1"
    assert [row["measured"] for row in data["rows"]] == [20_000, 400]


def test_what_is_missing_is_one_line(bench: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('[{"avg_ts": ')
    for words, field in (
        (("--llama-bench", bench), "--model"), (("--llama-bench", bench, "--model", MODEL), "--on"),
        (("--model", MODEL), "--model"), (("--on", "rtx-3090"), "--on"),
        (("--llama-bench", str(broken), "--model", MODEL, "--on", "rtx-3090"), "broken.json"),
        (("--llama-bench", str(tmp_path / "none.json"), "--model", MODEL, "--on", "rtx-3090"), "none.json"),
        (("--llama-bench", bench, "--model", MODEL, "--on", "rtx-3090", "--engine", "vllm"), "--engine"),
        (("--llama-bench", bench, "--model", MODEL, "--on", "8xrtx-3090"), "chip"),
    ):  # fmt: skip
        assert run(*words) == 2, words
        said = capsys.readouterr().err.strip()
        assert field in said
        assert "\n" not in said
