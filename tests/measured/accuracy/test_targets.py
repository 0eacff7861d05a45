"""The table of what accuracy should be: its groups exist, and the page's tables say what the scores say."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("polars")
sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import accuracy_page
import targets
from accuracy import Report
from roofline.measured.accuracy.scoring import GroupScore
from roofline.measured.accuracy.tally import Reason, Tally


def score(file: str, system: str, part: str, median: float, n: int = 40) -> GroupScore:
    """A group of rows with this median error."""
    return GroupScore(
        file, system, part, n, 1.2 * median, median, -1.5, None, 70.0, 0.0, 82.0, "no", "B", (0.9, 0.99, 1.1)
    )


def test_every_line_is_the_group_that_it_names() -> None:
    wanted = [score(t.file, t.system, t.slice, t.most) for t in targets.TARGETS]
    report = Report((Tally("e2e_a.csv", 100, 80, (Reason("a", 20),)),), tuple(wanted), (wanted[0],))
    lines = list(targets.lines(report))
    assert [line.met for line in lines[: len(wanted)]] == [True] * len(wanted)
    assert lines[0].call == targets.TARGETS[0].most
    assert (lines[-1].told, lines[-1].met) == (80.0, True)
    worse = replace(report, scores=tuple(replace(s, median=s.median + 0.1) for s in wanted))
    assert not any(line.met for line in list(targets.lines(worse))[: len(wanted)])
    assert [line.met for line in targets.lines(Report())][: len(wanted)] == [None] * len(wanted)


def test_groups_of_the_page_have_the_names_of_targets() -> None:
    """But for round 6.0 of MLPerf, all of them are in the tables that are in the repository."""
    known = {(s.file, s.system, s.slice) for s in targets.read_tables(targets.PAGE)[1]}
    missing = [t.what for t in targets.TARGETS if (t.file, t.system, t.slice) not in known and t.file != targets.ROUND]
    assert not missing


def test_tables_of_the_page_are_read_as_they_were_written(tmp_path: Path) -> None:
    told = score("local_machines.csv", "rtx-3090", "prompt", 12.25)
    called = replace(told, median=14.5, mape=15.5)
    tallies = (Tally("a.csv", 5, 5, ()), Tally("b.csv", 7, 4, (Reason("x", 2), Reason("y", 1))))
    accuracy_page.table(tmp_path / "rows.csv", ("file", "rows", "scored", "left out", "of these", "why"),
                        accuracy_page._rows(tallies))  # fmt: skip
    line = accuracy_page.cells(accuracy_page.Both("", told, called))
    accuracy_page.table(tmp_path / "groups.csv", ("file", "system", "slice", *accuracy_page.COLUMNS),
                        [(told.file, told.system, told.slice, *line)])  # fmt: skip
    accuracy_page.table(tmp_path / "systems.csv", ("measured", "chip", *accuracy_page.COLUMNS), [])
    counts, scores, calls = accuracy_page.read_tables(tmp_path)
    assert (counts, scores) == (tallies, (told,))
    assert (calls[0].median, calls[0].mape, calls[0].n) == (14.5, 15.5, 40)
