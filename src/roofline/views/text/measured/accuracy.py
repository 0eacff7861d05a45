"""Text of `accuracy`: outcome of the rows, and figures by group."""

from __future__ import annotations

from collections.abc import Iterable

from roofline.declared.numbers.units import signed, whole
from roofline.measured.accuracy.accuracy import Accuracy
from roofline.measured.accuracy.scoring import GroupScore
from roofline.measured.accuracy.tally import Tally
from roofline.views.text.tables import Column, Table

MOST_PROBLEMS = 10
"""Largest number of unscored rows whose reason is listed."""


def score_table(scores: Iterable[GroupScore]) -> Table:
    """A line for each group; errors and shares in percent."""
    columns = (
        Column("file", drop=7), Column("system"), Column("slice"), Column("rows", "plain"),
        Column("mean error", "plain"), Column("median", "plain", drop=2), Column("bias", "plain", drop=3),
        Column("held out", "plain", drop=5), Column("plain roofline", "plain", drop=4),
        Column("faster than it", "plain", drop=9), Column("in 80 %", "plain", drop=1),
        Column("fitted on these", drop=6),
        Column("grade", drop=8),
    )  # fmt: skip
    return Table(columns, tuple(_line(s) for s in scores), name="scores")


def _line(s: GroupScore) -> tuple[object, ...]:
    return (
        s.file, s.system, s.slice, whole(s.n), f"{s.mape:.1f}", f"{s.median:.1f}", signed(s.bias, ".1f"),
        _known(s.held_out), _known(s.plain_mape), _known(s.floor_exceeds), f"{s.covered:.0f}", s.fitted, s.grade,
    )  # fmt: skip


def _known(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def tally_table(tallies: Iterable[Tally], total: Tally | None = None) -> Table:
    """A line for each file: rows, rows scored, and the others by reason; `total` comes last."""

    def line(t: Tally) -> tuple[object, ...]:
        reasons = "; ".join(f"{whole(r.rows)} {r.why}" for r in t.reasons)
        return t.file, whole(t.rows), whole(t.scored), whole(t.left), reasons

    columns = (
        Column("file"), Column("rows", "plain"), Column("scored", "plain"), Column("left out", "plain"),
        Column("of these", long=20),
    )  # fmt: skip
    return Table(columns, tuple(map(line, tallies)), (line(total),) if total else (), name="rows")


def accuracy_text(a: Accuracy) -> str:
    """Number of rows and their outcome."""
    t = a.tally
    return f"{t.file}: {whole(t.rows)} rows, {whole(t.scored)} scored, {whole(t.left)} left out"


def accuracy_remarks(a: Accuracy) -> str:
    """Groups and rows that need attention."""
    lines = []
    if a.outside:
        lines += [f"50 rows and more, and too few or too many of them in the 80 % interval: {'; '.join(a.outside)}"]
    lines += [f"row {p.row} left out: {p.why}" for p in a.problems[:MOST_PROBLEMS]]
    more = len(a.problems) - MOST_PROBLEMS
    return "\n".join([*lines, *([f"and {more} more: --json"] if more > 0 else [])])
