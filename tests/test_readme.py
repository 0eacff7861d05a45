"""The README's commands print what it shows, with what its install line brings; its figures are those of the docs."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from pathlib import Path
from statistics import median

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
PAGE = documented.ROOT / "docs" / "accuracy.md"
WORDS = 2000
"""Most words of the page."""


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of the first table of systems in a text."""
    table = re.search(r"^\| system \| rows .*\n\|[-:|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[1].splitlines()]


def systems() -> list[dict[str, str]]:
    """Lines of systems.csv of all engines together with ten rows and more, in the file's order."""
    with (PAGE.parent / "accuracy" / "systems.csv").open(encoding="utf-8", newline="") as file:
        return [
            line
            for line in csv.DictReader(file)
            if "," not in line["measured"] and int(line["rows"]) >= accuracy_page.SHOWN
        ]


def error_of(line: dict[str, str]) -> float:
    """The median error of a default call, else of all that is told."""
    return float(line["call: median error"] or line["median error"])


def shown(line: dict[str, str]) -> list[str]:
    """A line of systems.csv as tables show it."""
    what = f"{line['measured']}, {chip_named(line['chip']).name.removesuffix(', one GPU')}"
    call, told = ([line[f"{of}{name}"] for name in ("median error", "in 80 %")] for of in ("call: ", ""))
    fitted = line["fitted on these"]
    words = "in part" if fitted.startswith("in part") else "no" if fitted == "no" else "yes"
    figures = [
        f"{float(v):.{digits}f} %" if v else "–"
        for pair in (call, told)
        for v, digits in zip(pair, (1, 0), strict=True)
    ]
    return [what, f"{int(line['rows']):,}", *figures, words]


def close(one: str, other: str) -> bool:
    """Whether two cells are alike; the file's figures have four digits, so that the last digit may be one off."""
    numbers = [re.fullmatch(r"([\d.]+) %", cell) for cell in (one, other)]
    if not all(numbers):
        return one == other
    a, b = (float(m[1]) for m in numbers if m)
    return abs(a - b) <= (0.11 if "." in one else 1.01)


@pytest.mark.parametrize("page", [documented.README, PAGE], ids=["README", "page"])
def test_every_number_of_the_table_of_systems_is_that_of_the_file(page: Path) -> None:
    """The worst systems by a default call, as `benchmarks/accuracy.py FILE.json --readme` prints them."""
    lines = systems()
    assert [error_of(line) for line in lines] == sorted(map(error_of, lines), reverse=True)
    text = page.read_text(encoding="utf-8")
    table, file = rows(text), [shown(line) for line in lines[: accuracy_page.WORST]]
    assert len(table) == len(file) == accuracy_page.WORST
    assert [
        (a, b)
        for one, other in zip(table, file, strict=True)
        for a, b in zip(one, other, strict=True)
        if not close(a, b)
    ] == []
    number = r"([\d.]+)"
    told = rf"of all {number} systems is {number} % by a default call, and {number} % by all that is told"
    said = re.search(told, " ".join(text.split()))
    assert said
    assert int(said[1]) == len(lines)
    assert float(said[2]) == pytest.approx(median(map(error_of, lines)), abs=0.06)
    assert float(said[3]) == pytest.approx(median(float(line["median error"]) for line in lines), abs=0.06)


def test_the_page_is_short_and_its_tables_are_beside_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.split()) <= WORDS
    for path in (PAGE.parent / "accuracy").glob("*.csv"):
        assert f"](accuracy/{path.name})" in text
    assert "](pictures/accuracy.svg)" in text


def test_what_became_of_every_row_adds_up() -> None:
    with (PAGE.parent / "accuracy" / "rows.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    for name in {line["file"] for line in lines}:
        of = [line for line in lines if line["file"] == name]
        assert int(of[0]["rows"]) == int(of[0]["scored"]) + sum(int(line["of these"]) for line in of), name


def test_systems_have_lines_of_their_own() -> None:
    with (PAGE.parent / "accuracy" / "systems.csv").open(encoding="utf-8", newline="") as file:
        known = {(line["measured"], line["chip"]) for line in csv.DictReader(file)}
    for chip in ("a100-sxm-40gb", "h100-sxm", "gh200", "mi300x", "mi250", "max-1550"):
        assert ("static batch", chip) in known
    assert ("token, neuron", "trainium1") in known or ("token", "trainium1") in known


def test_a_system_is_named_by_the_catalog() -> None:
    score = GroupScore(accuracy_page.SYSTEMS, "gaudi2", "token", 12, *(1.0,) * 7, "no", "-")
    (both,) = accuracy_page.systems([score], [])
    assert both.what == f"token, {chip_named('gaudi2').name}"
    assert accuracy_page.row(both) == f"| {both.what} | 12 | – | – | 1.0 % | 1 % | no |"
