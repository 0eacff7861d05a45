"""How far the generic constants fall on chips of vendors that took no part in them.

    python benchmarks/foreign.py DIR

One line for each chip, dtype and kind: measured over expected seconds, 10th percentile, median, 90th.  Then the same of
all of them, every group weighing the same: the interval of `roofline.kernels.constants.OTHER_VENDORS`.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from measured_ops import LAWS, Case, cases, chip
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import constants_for

HOST = ("host", "triton")


def ratios(c: Case) -> NDArray[np.float64]:
    """Measured over expected seconds of a case's rows on a chip of nobody's, of the same figures."""
    kind = c.kind.partition(".")[0]
    nobody = replace(chip_named(c.system), id="nobody", generation="nothing", vendor="nobody")
    record = constants_for(nobody, c.dtype, kind).record
    expected = LAWS[kind](**c.args, chip=chip(c.system, c.dtype), c=record)
    return np.asarray(c.seconds / expected)


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    every = []
    for c in cases(parser.parse_args(list(argv)).folder):
        if chip_named(c.system).vendor == "nvidia" or c.software in HOST or len(c.seconds) < 15:
            continue
        every.append(np.quantile(ratios(c), np.linspace(0.005, 0.995, 100)))
        low, middle, high = np.quantile(every[-1], (0.1, 0.5, 0.9))
        print(f"{c.system:12}{c.dtype:20}{c.kind:20}{len(c.seconds):6}{low:7.2f}{middle:7.2f}{high:7.2f}")
    low, middle, high = np.quantile(np.concatenate(every), (0.1, 0.5, 0.9))
    print(f"{'all':52}{len(every):6}{low:7.2f}{middle:7.2f}{high:7.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
