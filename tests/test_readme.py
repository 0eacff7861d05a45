"""The README's commands and snippets run as printed, with what its own install line brings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import documented
from documented import Told, installed
from roofline.cli.main import main
from roofline.compat import transformer_roofline_analyzer

README = documented.README.read_text(encoding="utf-8")


def test_the_first_screen_has_exactly_two_commands() -> None:
    first = README.split("## Commands")[0]
    assert len(re.findall(r"^    \S", first, re.MULTILINE)) == 2


@pytest.mark.parametrize("told", documented.commands(documented.README), ids=lambda t: t.text)
def test_commands(
    told: Told, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a command writes its file
    program, *argv = shlex.split(told.text)
    with installed(told.extras):
        {"roofline": main, "transformer-roofline-analyzer": transformer_roofline_analyzer.main}[program](argv)
    assert capsys.readouterr().out


def test_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    for told in documented.snippets(documented.README):
        with installed(told.extras):
            exec(compile(told.text, "README.md", "exec"), session)


def test_the_sample_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["analyze", "meta-llama/Llama-3.1-8B"])
    printed = capsys.readouterr().out.splitlines()
    sample = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert sample
    for line in sample[1].splitlines():
        assert line == "…" or line.rstrip() in [p.rstrip() for p in printed]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (documented.ROOT / target).exists(), target
