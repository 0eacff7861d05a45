"""How far a chip's collectives fall from constants of another chip.

    python benchmarks/fit_links.py DIR

Each chip's rows of an op and an engine are predicted by the constants of each other chip with that kind of link: of
its generation (B), and of others (C). The rows, the share of them that the other's interval holds, and the least
deviation of the logarithm that, beside that interval, holds four fifths. Then that of all but each op, engine and chip,
with the share of the rows left out that it holds. The first are `LONE` of `roofline/kernels/links.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fit_collectives import laws_seconds, table, usable
from fit_unmasked import inside, least
from measured_collectives import Rows, rows
from roofline.hardware.named_chip import chip_named
from roofline.kernels import links
from roofline.measured.accuracy.scoring import Scored


@dataclass(frozen=True)
class ByAnother:
    """Rows of a chip by the constants of another: the grade of these, and the rows' op, engine and chip."""

    grade: str
    names: tuple[str, str, str]
    scored: Scored


def by_others(r: Rows) -> Iterator[ByAnother]:
    """Some rows by the constants of each other chip that was measured at so many ranks."""
    chip, kind = r.cluster.chip, r.cluster.span(r.ranks, r.stride)[0].level.kind
    for other in links.measured_chips(kind, r.op, r.engine):
        entry = links.entry_of(other, kind, r.op, r.engine)
        if other == chip or entry is None or r.ranks not in entry["ranks"] or r.ranks > entry.get("measured", r.ranks):
            continue
        link, t = links.link_of(entry, r.ranks, "A"), table([r], "size")
        expected = laws_seconds(link, t)
        low, high = link.interval(expected)
        floor, far = np.full(len(expected), np.nan), np.ones(len(expected), dtype=bool)
        grade = "B" if chip_named(other).generation == chip_named(chip).generation else "C"
        scored = Scored(expected, r.seconds, floor, low * expected, high * expected, far)
        yield ByAnother(grade, (r.op, r.engine, chip), scored)


def main(folder: Path) -> None:
    """Prints the deviations."""
    grades: dict[str, list[ByAnother]] = defaultdict(list)
    for r in rows(folder):
        if usable(r) and r.cluster.levels[0].name != "bridge":
            for one in by_others(r):
                grades[one.grade].append(one)
    for grade, each in sorted(grades.items()):
        every = [one.scored for one in each]
        n = sum(len(s.measured) for s in every)
        print(f"{grade}: {n} rows, {100 * inside(every, 0.0):.0f} % inside, {least(every):.2f}")
        for name in sorted({name for one in each for name in one.names}):
            own, others = ([one.scored for one in each if (name in one.names) is same] for same in (True, False))
            if others:
                rest = least(others)
                print(f"    without {name}: {rest:.2f}, which holds {100 * inside(own, rest):.0f} %")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
