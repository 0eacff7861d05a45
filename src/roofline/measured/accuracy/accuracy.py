"""Score the shipped constants on a table of measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar, TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.result import Result, Units
from roofline.measured.accuracy.csvs import TableRow, documented, measurement
from roofline.measured.accuracy.fitted import fitted_table, fitted_words
from roofline.measured.accuracy.measurements import MeasuredRun, predictions, scored
from roofline.measured.accuracy.scoring import GroupName, GroupScore, Scored, pooled
from roofline.measured.accuracy.tally import Tally, tally

SAMPLE = Path(__file__).with_name("sample.csv")
"""A sample table in the documented format, with made-up times."""
Groups: TypeAlias = dict[GroupName, list[Scored]]
Reader: TypeAlias = Callable[[TableRow], Iterable[MeasuredRun]]
"""Reads the measurements of a row. Raises InputError, whose field says what is wrong."""
TOO_FAST = "faster than the speed of light: other work than the row says"
"""Reason for rows that took less time than the roofline of their work."""


@dataclass(frozen=True)
class Problem:
    """A row that could not be scored: its number, starting at 1 below the header, and the reason."""

    row: int
    why: str


@dataclass(frozen=True, repr=False)
class Accuracy(Result):
    """Result of `accuracy`: which rows were scored, and the errors of each group."""

    SCHEMA: ClassVar[str] = "roofline.accuracy/1"
    FIGURES: ClassVar[Units] = {"tally": "", "scores": "", "outside": "", "problems": ""}

    tally: Tally
    scores: tuple[GroupScore, ...]
    problems: tuple[Problem, ...]

    @property
    def outside(self) -> tuple[str, ...]:
        """Groups of at least 50 rows of which the 80 % interval holds too few or too many (`off_aim`)."""
        return tuple(f"{s.system}, {s.slice}" for s in self.scores if s.outside)


AT_ONCE = 2**13
"""Rows that are predicted, and in memory, at the same time."""


def accuracy(path: str | Path) -> Accuracy:
    """Score a CSV file in the format of docs/accuracy.md. Raises InputError for a file in another format."""
    file = Path(path)
    groups: Groups = {}
    rows, count, fitted = documented(file), 0, fitted_table(file)
    problems: list[Problem] = []
    while some := list(islice(rows, AT_ONCE)):
        problems += score_rows(file.name, some, lambda r: (measurement(r),), groups, str, fitted)
        count += len(some)
    counted = tally(file.name, count, count - len(problems), (p.why for p in problems))
    return Accuracy(counted, tuple(pooled(groups)), tuple(problems))


def score_rows(
    file: str, rows: Iterable[TableRow], reader: Reader, groups: Groups, why: Callable[[InputError], str],
    table: str | None = None,
) -> list[Problem]:  # fmt: skip
    """Add the rows that can be predicted to the groups, and return the others with their reasons.

    A row with several measurements counts as scored if one of them is. `table`: name of the table if constants were
    fitted on it, else None.
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
