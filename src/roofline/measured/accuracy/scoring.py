"""Error figures of groups of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.declared.numbers.maths import Count
from roofline.declared.result import Figured, Units

RowValues: TypeAlias = NDArray[np.float64]
ENOUGH = 50
"""Fewest rows of a group for which coverage is judged."""
AIM, LEAST_OFF = 80.0, 8.0
"""Percent of a group's rows that an 80 % interval should hold, and how far off is never too far."""


def off_aim(n: int, covered: float, deviations: float = 2.0) -> bool:
    """Whether `covered` percent of n rows is further from 80 than max(8, deviations·√(0.8·0.2/n)) points.

    >>> off_aim(50, 70.0), off_aim(100, 71.0), off_aim(2500, 88.0)
    (False, True, False)
    """
    return abs(covered - AIM) > max(LEAST_OFF, 100 * deviations * sqrt(0.16 / n))


GroupName: TypeAlias = tuple[str, str, str]
"""File, system and slice."""


@dataclass(frozen=True)
class Scored:
    """Rows with their predictions, in one unit.

    plain: the roofline, max(FLOPs / peak, bytes / bandwidth), NaN if there is none. far: whether a row's data is too
    large for a cache. grade: grade of the constants. fitted: what was fitted on these rows, "no" for nothing. apart:
    mean absolute error in percent on rows excluded from the fit, None if unknown.
    """

    predicted: RowValues
    measured: RowValues
    plain: RowValues
    low: RowValues
    high: RowValues
    far: NDArray[np.bool_]
    grade: str = "-"
    fitted: str = "no"
    apart: float | None = None

    def columns(self) -> tuple[RowValues, RowValues, RowValues, RowValues, RowValues, NDArray[np.bool_]]:
        """All arrays with one value per row."""
        return self.predicted, self.measured, self.plain, self.low, self.high, self.far

    def take(self, keep: NDArray[np.bool_]) -> Scored:
        """The rows where `keep` is true."""
        names = ("predicted", "measured", "plain", "low", "high", "far")
        return replace(self, **{name: getattr(self, name)[keep] for name in names})


@dataclass(frozen=True)
class GroupScore(Figured):
    """Scores of a group of rows; errors and shares in percent.

    held_out: mean absolute error with constants refitted without the row (five folds); rows that were not fitted count
    with their own error. None where nothing was fitted on the group's rows, or no refit was made. plain_mape: mean
    absolute error of the roofline, None for quantities without one (bytes, FLOPs). floor_exceeds: rows that were faster
    than the plain roofline, None where all rows may fit in a cache. ratios: predicted / measured of the row at 10, 50
    and 90 % of them.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(
        (
            "file", "system", "slice", "n", "mape", "median", "bias", "held_out", "plain_mape", "floor_exceeds",
            "covered", "fitted", "grade", "ratios",
        ),
        "",
    )  # fmt: skip

    file: str
    system: str
    slice: str
    n: int
    mape: float
    median: float
    bias: float
    held_out: float | None
    plain_mape: float | None
    floor_exceeds: float | None
    covered: float
    fitted: str
    grade: str
    ratios: tuple[float, float, float] = (1.0, 1.0, 1.0)

    @property
    def outside(self) -> bool:
        """Whether the group has enough rows, and the interval holds too few or too many of them."""
        return self.n >= ENOUGH and off_aim(self.n, self.covered)


def scores_of(name: GroupName, parts: Iterable[Scored]) -> GroupScore:
    """Scores of all rows of several parts.

    The error of a row is predicted / measured − 1. mape, median: mean and median of its absolute value. bias: its mean.
    """
    together = tuple(parts)
    p, m, plain, low, high, far = (np.concatenate(c) for c in zip(*(s.columns() for s in together), strict=True))
    error = p / m - 1
    plain_error = _percent(np.mean(np.abs(plain / m - 1))) if np.isfinite(plain).all() else None
    exceeds = _percent(np.mean(plain[far] > m[far])) if far.any() and plain_error is not None else None
    return GroupScore(
        *name, len(m), _percent(np.mean(np.abs(error))), _percent(np.median(np.abs(error))), _percent(np.mean(error)),
        _held_out(together), plain_error, exceeds,
        _percent(np.mean((m >= low) & (m <= high))), _joined(s.fitted for s in together),
        "".join(sorted({s.grade for s in together})), _spread(p / m),
    )  # fmt: skip


def _spread(ratios: RowValues) -> tuple[float, float, float]:
    """The values at 10, 50 and 90 %."""
    low, middle, high = (float(v) for v in np.quantile(ratios, (0.1, 0.5, 0.9)))
    return low, middle, high


def _held_out(parts: Iterable[Scored]) -> float | None:
    """Mean over rows of the error apart from the fit, or of the own error if not fitted; None without fitted rows."""
    weighted, rows, each = 0.0, 0, tuple(parts)
    if all(s.fitted == "no" for s in each):
        return None
    for s in each:
        n = len(s.measured)
        own = _percent(np.mean(np.abs(s.predicted / s.measured - 1))) if s.fitted == "no" else s.apart
        if own is None:
            return None
        weighted, rows = weighted + n * own, rows + n
    return weighted / rows


def _joined(words: Iterable[str]) -> str:
    """The words without repeats; "in part" if nothing was fitted on some of the rows."""
    each = dict.fromkeys(word for text in words for word in text.split(", "))
    if len(each) > 1 and "no" in each:
        return f"in part: {', '.join(w for w in each if w != 'no')}"
    return ", ".join(each)


def _percent(share: Count) -> float:
    """A share in percent."""
    return 100 * float(share)


def pooled(groups: Mapping[GroupName, list[Scored]]) -> list[GroupScore]:
    """Scores of each group, and of all systems of a file together as system `all`; sorted by name."""
    every: dict[GroupName, list[Scored]] = {}
    for (file, system, part), scored in groups.items():
        every.setdefault((file, system, part), []).extend(scored)
        every.setdefault((file, "all", part), []).extend(scored)
    return [scores_of(name, every[name]) for name in sorted(every)]
