"""What errors of products in one step have in common, of the fitted constants' residuals.

    python benchmarks/common_error.py DIR

Products of a step share their number of rows m and differ in width. Of each chip's own constants, the variance of the
mean residual ln(measured / predicted) of a band of m (half powers of two), beyond that of a mean of as many independent
rows, is what they have in common. Its share of all variance is printed, the median over sets of constants last.
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from accuracy import constants_of, score_case
from measured_ops import Column, cases

FEWEST = 200
"""Rows without which a set of constants says nothing, and a fortieth of those of a band."""
THINNEST = 256
"""Widths below which a product is a short op, whose interval is another."""


def share(rows: Column, residual: Column) -> float:
    """The common share of the variance, by bands of the number of rows."""
    band = np.round(2 * np.log2(rows))
    parts = [residual[band == b] for b in np.unique(band)]
    parts = [p for p in parts if len(p) >= FEWEST / 40]
    count = sum(len(p) for p in parts)
    inside = sum(float(((p - p.mean()) ** 2).sum()) for p in parts) / (count - len(parts))
    common = sum(len(p) * (float(p.mean()) ** 2 - float(p.var(ddof=1)) / len(p)) for p in parts) / count
    return max(common, 0.0) / (max(common, 0.0) + inside)


def main(folder: Path) -> None:
    """Prints the share of each set of constants, and the median."""
    residuals: dict[tuple[str, ...], list[tuple[Column, Column]]] = defaultdict(list)
    for c in cases(folder):
        if c.kind not in ("matmul", "quantised_matmul") or constants_of(c).grade != "A" or c.software == "host":
            continue
        residual = np.log(c.seconds / score_case(c).predicted)
        wide = (c.args["n"] >= THINNEST) & (c.args["k"] >= THINNEST) & (np.abs(residual) < 1)
        residuals[c.system, c.dtype, c.software].append((c.args["m"][wide], residual[wide]))
    shares = []
    for name, parts in residuals.items():
        rows, residual = (np.concatenate(column) for column in zip(*parts, strict=True))
        if len(rows) >= FEWEST:
            shares.append(share(rows, residual))
            print(f"{' '.join(name):40} {len(rows):6,} rows  {shares[-1]:.2f}")
    print(f"median of {len(shares)}: {np.median(shares):.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
