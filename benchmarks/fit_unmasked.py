"""How far attention without a mask falls from the constants of causal prompts.

    python benchmarks/fit_unmasked.py DIR

Of encoders' attention by engine: the least deviation of the logarithm that, beside the interval of the constants, holds
four fifths of the rows. Then of each chip and each engine: its rows, the median of ln(measured / predicted), the same
deviation, and that of the others with the share of the rows left out that it holds. The first is `UNMASKED` of
`roofline/kernels/constants.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import roofline.kernels.constants as constants
from accuracy import score_case
from measured_other_ops import encoder, usable
from roofline.measured.accuracy.scoring import Scored

STEP, MOST = 0.01, 2.0


def inside(rows: Sequence[Scored], log: float) -> float:
    """Share of the rows that the interval holds, a deviation of the logarithm added to it in quadrature."""
    held = count = 0
    for s in rows:
        below, above = (np.hypot(np.log(end / s.predicted), log) for end in (s.low, s.high))
        error = np.log(s.measured / s.predicted)
        held, count = held + int(np.sum((error >= -below) & (error <= above))), count + len(error)
    return held / count


def least(rows: Sequence[Scored]) -> float:
    """The least such deviation that holds four fifths."""
    return next((log for log in np.arange(0.0, MOST, STEP) if inside(rows, float(log)) >= 0.8), MOST)


def main(folder: Path) -> None:
    """Prints the deviations."""
    constants.UNMASKED = 0.0
    cases = [(c.system, c.software, score_case(c, fitted=False, seen=False)) for c in usable(encoder(folder))]
    print(f"all: {least([s for *_, s in cases]):.2f}")
    for place in (0, 1):
        for name in sorted({str(c[place]) for c in cases}):
            own, others = ([c[2] for c in cases if (c[place] == name) is same] for same in (True, False))
            error = np.concatenate([np.log(s.measured / s.predicted) for s in own])
            print(
                f"{name}: {len(error)} rows, bias {np.median(error):+.2f}, {least(own):.2f}; "
                f"without it {least(others):.2f}, which holds {100 * inside(own, least(others)):.0f} %"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
