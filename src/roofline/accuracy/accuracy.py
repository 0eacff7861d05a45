"""How well the shipped constants predict a table of measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from roofline.accuracy.csvs import TableRow, documented, measurement
from roofline.accuracy.fitted import fitted_table, fitted_words
from roofline.accuracy.measurements import MeasuredRun, predictions, scored
from roofline.accuracy.scoring import GroupName, GroupScore, Scored, pooled
from roofline.accuracy.tally import Tally, tally
from roofline.declared.errors import InputError
from roofline.declared.result import Result, Units

SAMPLE = Path(__file__).with_name("sample.csv")
"""A table in the documented format, whose seconds are made up."""
Groups: TypeAlias = dict[GroupName, list[Scored]]
Reader: TypeAlias = Callable[[TableRow], Iterable[MeasuredRun]]
"""A row → what was measured. Raises InputError, whose field says what is wrong."""
TOO_FAST = "faster than the speed of light: other work than the row says"
"""Of a row that took less than the roofline of what it names."""


@dataclass(frozen=True)
class Problem:
    """A row that could not be scored: its number, from 1 below the header, and why."""

    row: int
    why: str


@dataclass(frozen=True, repr=False)
class Accuracy(Result):
    """The answer of `accuracy`: what became of the rows, and how far predictions are off, group by group."""

    SCHEMA: ClassVar[str] = "roofline.accuracy/1"
    FIGURES: ClassVar[Units] = {"tally": "", "scores": "", "outside": "", "problems": ""}

    tally: Tally
    scores: tuple[GroupScore, ...]
    problems: tuple[Problem, ...]

    @property
    def outside(self) -> tuple[str, ...]:
        """Groups of 50 rows and more of which the 80 % interval holds less than 72 % or more than 88 %."""
        return tuple(f"{s.system}, {s.slice}" for s in self.scores if s.outside)


def accuracy(path: str | Path) -> Accuracy:
    """Scores a CSV file in the format of docs/accuracy.md. Raises InputError for a file that is not in it."""
    file = Path(path)
    groups: Groups = {}
    rows = list(documented(file))
    problems = score_rows(file.name, rows, lambda r: (measurement(r),), groups, str, fitted_table(file))
    counted = tally(file.name, len(rows), len(rows) - len(problems), (p.why for p in problems))
    return Accuracy(counted, tuple(pooled(groups)), tuple(problems))


def score_rows(
    file: str, rows: Iterable[TableRow], reader: Reader, groups: Groups, why: Callable[[InputError], str],
    table: str | None = None,
) -> list[Problem]:  # fmt: skip
    """Adds the rows that can be predicted to the groups, and gives the others with why they cannot.

    A row of several measurements is scored where one of them is. `table`: which of the tables that constants were
    fitted on the rows are of, None where of none.
    """
    runs: list[tuple[int, MeasuredRun]] = []
    problems: dict[int, str] = {}
    for r in rows:
        try:
            for m in reader(r):
                runs.append((r.row, m))  # noqa: PERF401 - those before one that cannot be read count
        except InputError as error:
            problems[r.row] = why(error)
    rows_scored: set[int] = set()
    for (row, m), answer in zip(runs, predictions([m for _, m in runs]), strict=True):
        if isinstance(answer, InputError):
            problems.setdefault(row, why(answer))
        elif m.seconds < float(answer.floor):
            problems.setdefault(row, TOO_FAST)
        else:
            rows_scored.add(row)
            for name in m.slices:
                groups.setdefault((file, m.system, name), []).append(scored(answer, m.seconds, fitted_words(table, m)))
    return [Problem(row + 1, text) for row, text in sorted(problems.items()) if row not in rows_scored]
