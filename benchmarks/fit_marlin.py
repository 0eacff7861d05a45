"""How much longer Marlin's grouped products of mxfp4 weights take than by the law of its products of int4 weights.

    python benchmarks/fit_marlin.py DIR

The law's constants are those of the chip and engine, fitted on int4 weights. mxfp4 weights have a scale for each 32
values instead of 128, which the law counts as bytes, and are widened by other instructions, which it does not. A line
for each chip and engine: rows, the median of measured over predicted, and the median error by the factor of the other
chips. The last line is the factor, the mean over chips, which stands in kernels/target.py as MARLIN_FLOATS.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from measured_ops import LAWS, LYING, Case, chip, expert_cases, read, usable
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import constants_for

ROWS = "moe_engines_aic.csv"


def marlins(folder: Path) -> Iterator[Case]:
    """Rows of Marlin's kernels with mxfp4 weights, on chips whose int4 rows are Marlin's too."""
    kernel = pl.col("kernel_source").str.contains("marlin")
    frame = read(folder, ROWS).filter(~pl.col("flag").fill_null("").str.contains(LYING))
    known = frame.filter(kernel & (pl.col("moe_dtype") == "int4_wo")).select("system", "backend").unique()
    rows = frame.filter(kernel & (pl.col("moe_dtype") == "w4a16_mxfp4")).join(known, on=["system", "backend"])
    yield from usable(list(expert_cases(rows.with_columns(file=pl.lit(ROWS)))))


def ratios(case: Case) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Measured over predicted seconds of a case."""
    known = constants_for(chip_named(case.system), "int4_wo", "experts", case.software)
    return np.asarray(case.seconds / LAWS["experts"](**case.args, chip=chip(case.system, case.dtype), c=known.record))


def main(argv: Iterable[str]) -> None:
    """Prints the factor, and how well those of other chips hold on each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(list(argv))
    cases = list(marlins(options.folder))
    of: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        of[case.system].append(float(np.median(ratios(case))))
    mean = {system: float(np.mean(values)) for system, values in of.items()}
    for case in cases:
        left = np.mean([value for system, value in mean.items() if system != case.system])
        error = np.median(np.abs(left / ratios(case) - 1))
        print(
            f"{case.system:20} {case.software:7} {len(case.seconds):4} rows {np.median(ratios(case)):.3f}, "
            f"by others' {left:.3f} {100 * error:.1f} %"
        )
    print(f"{np.mean(list(mean.values())):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
