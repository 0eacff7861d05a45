"""Options from the environment and from `roofline.toml`: which comes first, what is said, what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from folded import folded
from roofline.doors.cli.defaults import settable
from roofline.doors.cli.main import app, main
from roofline.doors.cli.table import COMMANDS

GPT2 = "openai-community/gpt2"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in with a folder of the user's own beside it, and no variable set."""
    for name in [name for name in os.environ if name.startswith("ROOFLINE_")]:
        monkeypatch.delenv(name)
    (tmp_path / "user" / "roofline").mkdir(parents=True)
    (tmp_path / "project" / "deep" / "er").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path / "project" / "deep" / "er")
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], list[str]]:
    """The JSON of a command and what it says on stderr, but for the model's own warnings."""
    main([*words, "--json"])
    out, err = capsys.readouterr()
    return json.loads(out), [line for line in err.splitlines() if not line.startswith("warning: ")]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    return err.splitlines()[-1]


def test_option_environment_project_user(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = project / "user" / "roofline" / "roofline.toml", project / "project" / "roofline.toml"
    near = os.path.relpath(mine)
    mine.write_text('on = "l4"\nbatch = 2\nengine = "none"\n[fit]\ncontext = 64\n')
    got, said = answer(capsys, "fit", GPT2)
    assert (got["batch"], got["context"], got["deployment"]["chip"]) == (2, 64, "l4")
    assert said == [f"{near} sets --on l4, --batch 2, --engine none, --context 64"]
    theirs.write_text("batch = 3\n")
    got, said = answer(capsys, "fit", GPT2)
    assert got["batch"] == 3
    assert said == ["../../roofline.toml sets --batch 3", f"{near} sets --on l4, --engine none, --context 64"]
    monkeypatch.setenv("ROOFLINE_BATCH", "4")
    got, said = answer(capsys, "fit", GPT2)
    assert (got["batch"], said[0]) == (4, "ROOFLINE_BATCH sets --batch 4")
    got, said = answer(capsys, "fit", GPT2, "--batch", "5", "--on", "t4", "--engine", "vllm", "--context", "32")
    assert (got["batch"], got["context"], got["deployment"]["chip"], said) == (5, 32, "t4", [])


def test_a_commands_own_table_comes_first(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "project" / "roofline.toml").write_text('on = "l4"\nbatch = 2\n[fit]\nbatch = 7\n[serve]\nrate = 1\n')
    assert answer(capsys, "fit", GPT2, "--context", "9")[0]["batch"] == 7


def test_a_layout_that_is_given_takes_the_place_of_another(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "project" / "roofline.toml").write_text('layout = "tp=2,dp=2"\non = "4xl4"\n')
    got, said = answer(capsys, "fit", GPT2, "--dp", "4", "--context", "9")
    assert got["deployment"]["layout"] == "dp=4"
    assert said == ["../../roofline.toml sets --on 4xl4"]


def test_several_values(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "project" / "roofline.toml").write_text('on = ["l4", "a10"]\n')
    got, _ = answer(capsys, "sweep", GPT2, "--batch", "1", "--context", "9")
    assert got["rows"] == 2
    assert refused(capsys, "fit", GPT2).endswith("roofline.toml, on: expected one value, got ('l4', 'a10')")
    monkeypatch.setenv("ROOFLINE_ON", "l4 a10 a40")
    assert answer(capsys, "sweep", GPT2, "--batch", "1", "--context", "9")[0]["rows"] == 3


def test_a_default_that_says_nothing_is_no_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "project" / "roofline.toml").write_text('engine = "vllm"\nbatch = 3\n')
    assert answer(capsys, "analyze", GPT2)[0]["steps"]
    assert answer(capsys, "plot", GPT2, "--kind", "diagram")[0]["model"]
    assert answer(capsys, "chips", "l4") == answer(capsys, "chips", "l4")
    assert answer(capsys, "chips", "l4")[1] == []


@folded(
    ("content", "says"),
    [
        ('enigne = "vllm"', "an option that may be set, got 'enigne'; nearest: engine"),
        ('out = "/etc/passwd"', "an option that may be set, got 'out'"),
        ("force = 'yes'", "an option that may be set, got 'force'"),
        ("[analyse]\nbatch = 1", "a table of a command's name, got '[analyse]'; nearest: analyze"),
        ("batch = true", "batch: expected a text, a number or a list of them, got True"),
        ("batch = []", "batch: expected a text, a number or a list of them, got []"),
        ("batch = 1979-05-27", "batch: expected a text, a number or a list of them"),
        ('batch = "many"', "--batch: expected a whole number, such as 4096, 4k or 4Ki, got 'many'"),
        ("batch = ", "a TOML file"),
        ("batch = 1e999", "--batch: expected a whole number, such as 4096, 4k or 4Ki, got 'inf'"),
        ("a" * 5000, "at most 4096 characters"), ("\x00", "a TOML file"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be(project: Path, capsys: pytest.CaptureFixture[str], content: str, says: str) -> None:
    (project / "project" / "roofline.toml").write_text(content)
    line = refused(capsys, "fit", GPT2, "--on", "l4")
    assert says.replace("a TOML file", "expected") in line
    assert len(line) <= 160


def test_a_file_that_is_none(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "project" / "roofline.toml"
    path.mkdir()
    assert refused(capsys, "fit", GPT2, "--on", "l4").endswith("expected a regular file, got 'a folder or a device'")
    path.rmdir()
    os.mkfifo(path)
    assert refused(capsys, "fit", GPT2, "--on", "l4").endswith("expected a regular file, got 'a folder or a device'")
    path.unlink()
    path.write_bytes(b"#" * (2**20 + 1))
    assert "at most 1048576 bytes" in refused(capsys, "fit", GPT2, "--on", "l4")


def test_a_folder_that_everybody_may_write_to_is_passed_over(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "project" / "roofline.toml").write_text("batch = 3")
    (project / "project").chmod(0o777)
    got, said = answer(capsys, "fit", GPT2, "--on", "l4", "--context", "9")
    assert (got["batch"], said) == (1, [])


def test_a_variable_of_no_option_is_said(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROOFLINE_ENGIN", "vllm")
    assert answer(capsys, "fit", GPT2, "--on", "l4", "--context", "9")[1] == [
        "ROOFLINE_ENGIN sets nothing; nearest: ROOFLINE_ENGINE"
    ]


def test_every_name_is_an_option() -> None:
    options = {name for c in COMMANDS for a in app()[c].assemble_argument_collection() for name in a.names}
    assert {f"--{name}" for name in settable()} <= options
