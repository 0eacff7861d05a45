"""How far an engine's kernels fall from constants of other engines' on the same chip.

    python benchmarks/fit_other_engines.py DIR

Where an engine's kernels of a kind were measured beside another's, its rows are predicted by the other's constants. Of
each kind: the rows, the share of them that the other's interval holds, and the least deviation of the logarithm that,
beside that interval, holds four fifths. Then of each engine and each chip the same, and that of the others with the
share of the rows left out that it holds. The first are `ELSEWHERE` of `roofline/kernels/constants.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from accuracy import score_case
from fit_unmasked import inside, least
from measured_ops import Case, cases
from roofline.engines.engine import engines
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import measured_of
from roofline.measured.accuracy.scoring import Scored


@dataclass(frozen=True)
class Crossed:
    """Rows of an engine on a chip, predicted by another engine's constants."""

    kind: str
    engine: str
    chip: str
    scored: Scored


def crossed(measured: Iterable[Case]) -> Iterator[Crossed]:
    """The rows of each engine by the constants of each other one, where both have constants of the chip's own."""
    known = {engine.software for engine in engines().values()}
    for c in measured:
        own = measured_of(chip_named(c.system), c.dtype, c.kind) & known
        for other in sorted(own - {c.software}) if c.software in own else ():
            s = score_case(replace(c, software=other), seen=False)
            sound = np.isfinite(s.predicted) & (s.predicted > 0) & ~(s.far & (s.plain > s.measured))
            yield Crossed(c.kind, c.software, c.system, s.take(sound))


def main(folder: Path) -> None:
    """Prints the deviations."""
    kinds: dict[str, list[Crossed]] = defaultdict(list)
    for one in crossed(cases(folder)):
        kinds[one.kind].append(one)
    for kind, rows in kinds.items():
        every = [r.scored for r in rows]
        n = sum(len(s.measured) for s in every)
        print(f"{kind}: {n} rows, {100 * inside(every, 0.0):.0f} % inside, {least(every):.2f}")
        for name in (*sorted({r.engine for r in rows}), *sorted({r.chip for r in rows})):
            own, others = ([r.scored for r in rows if (name in (r.engine, r.chip)) is same] for same in (True, False))
            bias = np.median(np.concatenate([np.log(s.measured / s.predicted) for s in own]))
            held = ""
            if others:
                held = f"; without it {least(others):.2f}, which holds {100 * inside(own, least(others)):.0f} %"
            print(f"    {name}: bias {bias:+.2f}, {least(own):.2f}{held}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
