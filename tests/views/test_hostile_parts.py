"""What is gone on from is a file like any other: a folder or a log that a stranger left is refused in one line."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.doors.cli.main import main
from roofline.views.files import requests, sweep_file
from roofline.views.files.requests import RequestFile

SIMULATE = "simulate openai-community/gpt2 --on h100-sxm --input 9 --output 9 --rate 1 --requests 20 --warmup 0"
SWEEP = "sweep openai-community/gpt2 --on h100-sxm --batch 1,2 --context 64"
ROW = (1, 0, 0.5, 3, 4, 0, 0.1, 0.2, None, 0.3, 0)


def signed(values: Any) -> str:
    text = json.dumps(values)
    return f"{sha256(text.encode()).hexdigest()}\n{text}"


def refused(capsys: pytest.CaptureFixture[str], words: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    line = err.splitlines()[-1]
    assert len(line) <= 160
    assert "Traceback" not in err
    return line


@pytest.mark.parametrize(
    "values",
    [
        {"parts": -1}, {"parts": "x"}, {"parts": 1.5}, {"waiting": 3}, {"waiting": [3]}, {"state": []}, {"state": None},
        {"parts": True}, {"waiting": [list(ROW)] * requests.PART}, {"waiting": [list(ROW[1:])]},
        {"waiting": [[*ROW[1:], "9"]]}, {"waiting": [[*ROW[1:], True]]},
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_shape(tmp_path: Path, values: dict[str, Any]) -> None:
    folder = tmp_path / "a.csv.part"
    folder.mkdir()
    right = {"fingerprint": "x", "parts": 0, "waiting": [], "state": {"a": 1}}
    for kept, fits in ((right, True), ({**right, **values}, False)):
        (folder / "checkpoint.json").write_text(signed(kept))
        with RequestFile(tmp_path / "a.csv") as file:
            if fits:
                assert file.begin("x") == {"a": 1}
            else:
                with pytest.raises(rl.InputError, match="a damaged checkpoint"):
                    file.begin("x")


@pytest.mark.parametrize(
    "content", ["[" * 5000, '{"a": 1, "a": 2}', "9" * 500, "[]", '{"fingerprint": %s}' % ("9" * 500)]
)
def test_a_checkpoint_that_is_no_object_of_ours(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "a.csv.part"
    folder.mkdir()
    (folder / "checkpoint.json").write_text(f"{sha256(content.encode()).hexdigest()}\n{content}")
    with pytest.raises(rl.InputError), RequestFile(tmp_path / "a.csv") as file:
        file.begin("x")


def test_a_checkpoint_larger_than_any(tmp_path: Path) -> None:
    folder = tmp_path / "a.csv.part"
    folder.mkdir()
    with (folder / "checkpoint.json").open("wb") as file:
        file.truncate(requests.LARGEST + 1)
    with (
        pytest.raises(rl.InputError, match=f"at most {requests.LARGEST} bytes"),
        RequestFile(tmp_path / "a.csv") as out,
    ):
        out.begin("x")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_no_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "a.csv.part"
    folder.mkdir()
    os.mkfifo(folder / "checkpoint.json")
    with RequestFile(tmp_path / "a.csv") as file:
        assert file.begin("x") is None


def test_a_state_that_no_simulation_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RequestFile, "begin", lambda self, fingerprint: {"number": 1})
    assert "the state that this simulation saved" in refused(capsys, f"{SIMULATE} --out a.csv")


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("parquet", b"ARROW1\0\0" + bytes(100)), ("csv", b""), ("csv", bytes(100)), ("csv", b"0\n1,0,0.5\n"),
        ("csv", None),
    ],
)  # fmt: skip
def test_parts_that_are_no_tables(tmp_path: Path, ending: str, content: bytes | None) -> None:
    path = tmp_path / f"a.{ending}"
    with RequestFile(path) as file:
        file.begin("x")
        file(ROW)
        file._write_part()
        (part,) = file.folder.iterdir()
        if content is None:
            part.write_bytes(part.read_bytes().replace(b"0.5", b"0.6"))
        else:
            part.write_bytes(content)
        with pytest.raises(rl.InputError, match="damaged parts"):
            file.finish()
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_no_part(tmp_path: Path) -> None:
    with RequestFile(tmp_path / "a.csv") as file:
        file.begin("x")
        file(ROW)
        file._write_part()
        (part,) = file.folder.iterdir()
        part.unlink()
        os.mkfifo(part)
        with pytest.raises(rl.InputError, match="damaged parts"):
            file.finish()


def line_of(values: Any) -> str:
    text = json.dumps(values)
    return f"{sha256(text.encode()).hexdigest()} {text}\n"


@folded(
    "line",
    [
        {}, {"end": 4}, {"end": -4, "rows": 1, "entry": "", "kept": {}},
        {"end": 4, "rows": "1", "entry": "", "kept": {}},
        {"end": 4, "rows": 1, "entry": "zz", "kept": {}}, {"end": 4, "rows": 1, "entry": "abc", "kept": {}},
        {"end": 4, "rows": 1, "entry": "", "kept": []},
        {"end": 1, "rows": 1, "entry": "", "kept": {"dropped": [1, {}]}},
        {"end": 1, "rows": 1, "entry": "", "kept": {"best": [1]}}, {"end": 1e300, "rows": 1, "entry": "", "kept": {}},
        {"end": 1, "rows": 1, "entry": "", "kept": {"best": {"batch": ["x"]}}},
    ],
)  # fmt: skip
def test_a_log_of_another_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep_file.SweepFile, "finish", stopped)
    with pytest.raises(SystemExit):
        main([*SWEEP.split(), "--out", "a.csv"])
    log = tmp_path / "a.csv.part.log"
    first = log.read_text().split("\n")[0]
    log.write_text(f"{first}\n{line_of(line)}")
    assert "the log of this sweep, or --force to begin anew" in refused(capsys, f"{SWEEP} --out a.csv --resume")


def stopped(self: sweep_file.SweepFile) -> None:
    self.close()
    raise KeyboardInterrupt


def test_a_log_larger_than_any(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "a.csv.part.log").open("wb") as file:
        file.truncate(sweep_file.LARGEST_LOG + 1)
    said = refused(capsys, f"{SWEEP} --out {tmp_path / 'a.csv'} --resume")
    assert f"at most {sweep_file.LARGEST_LOG} bytes" in said
