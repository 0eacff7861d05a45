"""The README's commands and snippets run as printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from roofline.cli.main import main
from roofline.compat import transformer_roofline_analyzer

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = re.findall(r"^\$ (.+)$", README, re.MULTILINE)
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_first_screen_has_exactly_two_commands() -> None:
    first = README.split("## Commands")[0]
    assert len(re.findall(r"^    \S", first, re.MULTILINE)) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a command writes its file
    program, *argv = shlex.split(command)
    {"roofline": main, "transformer-roofline-analyzer": transformer_roofline_analyzer.main}[program](argv)
    assert capsys.readouterr().out


def test_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "README.md", "exec"), session)


def test_the_sample_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["analyze", "meta-llama/Llama-3.1-8B"])
    printed = capsys.readouterr().out.splitlines()
    sample = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert sample
    for line in sample[1].splitlines():
        assert line == "…" or line.rstrip() in [p.rstrip() for p in printed]


@pytest.mark.parametrize("kind", ["chip", "cluster"])
def test_a_machine_of_ones_own(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[1] / "docs" / f"{kind}.md").read_text(encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / f"my-{kind}.toml").write_text(toml, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for command in re.findall(r"^\$ roofline (.+)$", page, re.MULTILINE):
        main(shlex.split(command))
        assert capsys.readouterr().out


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (Path(__file__).parents[1] / target).exists(), target
