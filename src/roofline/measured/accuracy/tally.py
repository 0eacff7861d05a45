"""Count the rows of files: scored, or left out for a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.result import Figured, Units


@dataclass(frozen=True)
class Reason(Figured):
    """A reason why rows of a file were not scored, and their number."""

    FIGURES: ClassVar[Units] = {"why": "", "rows": ""}

    why: str
    rows: int


@dataclass(frozen=True)
class Tally(Figured):
    """Number of rows of a file: rows = scored + Σ reasons."""

    FIGURES: ClassVar[Units] = {"file": "", "rows": "", "scored": "", "reasons": ""}

    file: str
    rows: int
    scored: int
    reasons: tuple[Reason, ...]

    @property
    def left(self) -> int:
        """Number of rows that were not scored."""
        return sum(r.rows for r in self.reasons)


def tally(file: str, rows: int, scored: int, reasons: Iterable[str]) -> Tally:
    """Tally of a file, in which each unscored row has a reason; the most frequent reason comes first.

    Raises ValueError if the parts do not add up to the whole.
    """
    counts = Counter(reasons)
    if scored + counts.total() != rows:
        raise ValueError(f"{file}: {rows} rows, of which {scored} were scored and {counts.total()} left out")
    return Tally(file, rows, scored, reasons_of(counts))


def reasons_of(counts: Mapping[str, int]) -> tuple[Reason, ...]:
    """Reasons sorted by frequency, the most frequent first."""
    return tuple(Reason(why, rows) for why, rows in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def tally_of_all(tallies: Iterable[Tally], name: str = "total") -> Tally:
    """The sum over files."""
    files, counts = tuple(tallies), Counter[str]()
    for one in files:
        counts.update({r.why: r.rows for r in one.reasons})
    return Tally(name, sum(t.rows for t in files), sum(t.scored for t in files), reasons_of(counts))
