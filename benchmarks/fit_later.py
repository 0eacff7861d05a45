"""How far later releases of engines' kernels fall from constants that were fitted on earlier ones.

    python benchmarks/fit_later.py DIR

Writes later_low and later_high, and those of short ops, beside the constants of a chip that measurements of a later
release speak of: the factors that hold 80 % of them, 1 at least within. After fit_laws.py, which leaves them out.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accuracy import constants_of, score_case
from left_out import rows_of, sections
from measured_ops import Case, Column, cases
from measured_other_ops import newer
from roofline.machine.chip import chip_named
from roofline.machine.constants import FOLDER, Constants

FEWEST = 40
"""Rows without which nothing is said, and half of those of the short ops, or the long ones, alone."""
ANOTHER = 3.0
"""A row that is further off than this ran another kernel (a fallback for its head size, one launched by the host),
which says nothing of how a newer release of the same one falls."""
Table = tuple[str, str]
"""Of which file which table."""


def tables(folder: Path, later: Iterable[Case]) -> Mapping[Table, list[Case]]:
    """The table that each case finds, among those of its own chip."""
    groups: dict[Table, list[Case]] = defaultdict(list)
    for c in later:
        file = chip_named(c.system).id
        path = folder / f"{file}.toml"
        text = path.read_text() if path.exists() else ""
        for software in (c.software, "default"):
            table = f"{c.dtype}.{c.kind}.{software}"
            if f"\n[{table}]\n" in text:
                groups[file, table].append(c)
                break
    return groups


def ends(group: Iterable[Case]) -> dict[str, float]:
    """The factors of short and of long ops."""
    from fit_laws import minor  # needs SciPy, which only fits do

    ratios: list[Column] = []
    short: list[NDArray[np.bool_]] = []
    for c in group:
        known: Constants = constants_of(c)
        s = score_case(c)
        keep = np.isfinite(s.predicted) & (s.predicted > 0) & ~(s.far & (s.plain > c.seconds))
        keep &= np.abs(np.log(c.seconds / np.where(keep, s.predicted, c.seconds))) <= np.log(ANOTHER)
        ratios.append((c.seconds / s.predicted)[keep])
        short.append(np.asarray(minor(c.args, s.predicted, known.record), dtype=bool)[keep])
    ratio, small = np.concatenate(ratios), np.concatenate(short)
    if len(ratio) < FEWEST:
        return {}
    factors: dict[str, float] = {}
    for name, part in (("_small", small), ("", ~small)):
        chosen = ratio[part] if part.sum() >= FEWEST / 2 else ratio
        factors[f"later_low{name}"] = min(1.0, float(np.quantile(chosen, 0.1)))
        factors[f"later_high{name}"] = max(1.0, float(np.quantile(chosen, 0.9)))
    return factors


def written(text: str, table: str, values: Mapping[str, float]) -> str:
    """The text of a file with these values at the end of a table, instead of those that stood there."""
    before, head, rest = text.partition(f"\n[{table}]\n")
    body, gap, after = rest.partition("\n\n[")
    lines = [line for line in body.rstrip("\n").split("\n") if not line.startswith("later_")]
    lines += [f"{k} = {v:.3f}" for k, v in values.items()]
    return before + head + "\n".join(lines) + (gap + after if gap else "\n")


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(list(argv))
    older = cases(options.folder)
    later = newer(options.folder, rows_of(older, sections(options.folder)))
    number = 0
    for (file, table), group in tables(FOLDER, later).items():
        if values := ends(group):
            path = FOLDER / f"{file}.toml"
            path.write_text(written(path.read_text(), table, values))
            number += 1
    print(f"{number} sets of constants", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
