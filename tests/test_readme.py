"""The README's commands print what it shows, with what its install line brings; its figures are those of the docs."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import documented
from documented import Told, installed
from roofline.doors.cli.main import main
from roofline.hardware.named_chip import chip_named
from roofline.measured.accuracy.scoring import GroupScore

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import accuracy_page

README = documented.README.read_text(encoding="utf-8")
SCREENS = 140
"""Lines of a screen and a half or two of a repository's page, its picture apart."""


def test_the_first_screen_has_exactly_two_commands() -> None:
    first = README.partition("\n## ")[0]
    assert len(re.findall(r"^    \S", first, re.MULTILINE)) == 2
    assert len(re.findall(r"^!\[[^\]]{20,}\]\(docs/pictures/\w+\.svg\)$", first, re.MULTILINE)) == 1
    assert README.count("\n") < SCREENS


@pytest.mark.parametrize("told", documented.commands(documented.README), ids=lambda t: t.text)
def test_commands(
    told: Told, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a command writes its file
    monkeypatch.setenv("COLUMNS", str(documented.COLUMNS))
    program, *argv = shlex.split(told.text)
    assert program == "roofline"
    with installed(told.extras):
        main(argv)
    assert told.output
    assert documented.differences(told.output, capsys.readouterr().out) == []


def test_five_questions() -> None:
    section = README.partition("## Five questions")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\*\*.+\?\*\*$", section, re.MULTILINE)) == section.count("\n$ ") == 5


def test_the_sample_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["analyze", "meta-llama/Llama-3.1-8B"])
    sample = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert sample
    assert documented.differences(sample[1].splitlines(), capsys.readouterr().out) == []


# -- accuracy ------------------------------------------------------------------------------------------------------
ACCURACY = (documented.ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of the tables of measured beside predicted."""
    head = r"\| what \| rows \| mean error .*\n\|[-:|]+\n((?:\|.*\n)+)"
    return [[cell.strip() for cell in line.split("|")[1:-1]] for m in re.findall(head, text) for line in m.splitlines()]


def test_accuracy_is_the_worst_and_the_middle_line_of_each_table_of_the_page() -> None:
    """As `benchmarks/accuracy.py --readme` prints them: each table has the worst line first."""
    short = ACCURACY.partition("\n## In short\n")[2]
    tables = [rows(part) for title in ("Kernels and collectives", "Whole models", "Training")
              for part in [re.search(rf"^{title}:\n\n((?:\|.*\n)+)", short, re.MULTILINE)[0]]]  # type: ignore[index]  # fmt: skip
    shown = rows(README.partition("\n## How accurate\n")[2])
    assert shown == [table[place] for table in tables for place in (0, (len(table) - 1) // 2)]
    said = accuracy_page.sentence([f"| {' | '.join(row)} |" for row in shown])
    assert said in " ".join(README.split())
    worst = max((row for table in tables for row in table), key=lambda row: float(row[2].removesuffix(" %")))
    assert f"“{worst[0]}”: {worst[2]} off in the mean" in said


def test_every_system_of_a_static_batch_has_a_line_of_its_own() -> None:
    names = {row[0] for row in rows(ACCURACY)}
    labels = ("A100 40 GB", "H100", "GH200", "MI300X", "MI250", "Max 1550")
    assert {f"static batch, {label}" for label in labels} <= names
    assert "static batch, Max 1550, several chips" in names
    assert "static batch, Trainium, TPOT" in names


def test_a_lines_system_is_named_by_the_catalog_where_the_page_has_no_label() -> None:
    score = GroupScore("e2e_static_batch_llm_inference_bench.csv", "gaudi2", "all", 1, *(1.0,) * 7, "no", "-")
    titles = [what for _, section in accuracy_page.summary([score]) for what, *_ in section]
    assert f"static batch, {chip_named('gaudi2').name}" in titles
