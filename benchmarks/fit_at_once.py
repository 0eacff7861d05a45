"""How far servers that are sent all requests at once fall from the interval of their decode step.

    python benchmarks/fit_at_once.py DIR

Of each figure of GPUStack's servers: the rows, the share of them that the interval of a decode step holds, and the
least deviation of the logarithm that, beside that interval, holds four fifths. Then of each model, and each engine on a
chip, the same, and that of the others with the share of the rows left out that it holds. The first are `AT_ONCE` of
`accuracy.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from accuracy import at_once
from fit_unmasked import inside, least
from measured_traffic import GPUSTACK
from roofline.declared.errors import InputError
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import scored
from roofline.measured.accuracy.scoring import Scored

FEWEST = 8
"""Rows without which a model, or an engine on a chip, says nothing."""
Row = tuple[Scored, str, str]
"""A row, its model, and its engine on its chip."""


def rows(folder: Path) -> dict[str, list[Row]]:
    """The rows of each figure."""
    figures: dict[str, list[Row]] = defaultdict(list)
    for r in cells(folder / GPUSTACK):
        with suppress(InputError):
            for what, asked, span, theirs in at_once(r):
                where = f"{asked.engine.plain().partition('@')[0]} on {asked.deployment.chip.id}"
                figures[what].append((scored(span, theirs), r.text("model").rpartition("/")[2], where))
    return figures


def main(folder: Path) -> None:
    """Prints the deviations."""
    for what, each in rows(folder).items():
        every = [row[0] for row in each]
        print(f"{what}: {len(each)} rows, {100 * inside(every, 0.0):.0f} % inside, {least(every):.2f}")
        for name in sorted({name for row in each for name in row[1:]}):
            own, others = ([row[0] for row in each if (name in row[1:]) is same] for same in (True, False))
            if len(own) >= FEWEST and others:
                rest = least(others)
                print(
                    f"    {name}: {len(own)} rows, {100 * inside(own, 0.0):.0f} % inside, {least(own):.2f}; "
                    f"without it {rest:.2f}, which holds {100 * inside(own, rest):.0f} %"
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
