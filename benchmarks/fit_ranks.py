"""How the interval of NCCL's collectives differs between numbers of ranks.

    python benchmarks/fit_ranks.py DIR WITHOUT

The interval of a chip's constants is that of all its numbers of ranks, but each has algorithms and protocols of its
own. Of each op and number of ranks: its rows, the share of them that the interval holds, and the power of its ends that
would hold four fifths. Then of each chip that power without its rows, and the share of them that it holds. The powers
are `BY_RANKS` of `roofline/kernels/links.py`.

WITHOUT holds `collectives-N.toml` for each fold N of the sizes, fitted without it by `fit_collectives.py
--without-fold N`: both the prediction and the interval of a row are of constants that its size took no part in.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from measured_collectives import FOLDS, NCCL, constants_from, predict, rows, scored
from measured_ops import Column
from roofline.kernels import links

Group = tuple[str, int]
PRIOR = 40
"""Rows that a power of 1 counts as."""


def distances(folder: Path, without: Path) -> dict[Group, dict[str, Column]]:
    """Of each op and number of ranks, by chip: the logarithm of measured over predicted, over that of the end."""
    links.BY_RANKS = {}
    parts: dict[Group, dict[str, list[Column]]] = defaultdict(lambda: defaultdict(list))
    measured = [r for r in rows(folder) if r.file == NCCL and r.single]
    plain = [next(s for _, s in scored(r)).plain for r in measured]
    for n in range(FOLDS):
        with constants_from(_of_fitted(without / f"collectives-{n}.toml")):
            for r, floor in zip(measured, plain, strict=True):
                out = (r.fold == n) & (floor <= r.seconds)
                if out.any():
                    t = predict(r, r.software)
                    error, low, high = (
                        np.log(np.broadcast_to(end, r.size.shape)[out] / np.broadcast_to(t.expected, r.size.shape)[out])
                        for end in (r.seconds, t.low, t.high)
                    )
                    ends = np.where(error < 0, low, high)
                    parts[r.op, r.ranks][r.cluster.chip].append(error / ends)
    return {name: {chip: np.concatenate(each) for chip, each in chips.items()} for name, chips in parts.items()}


def _of_fitted(constants: Path) -> Path:
    """A copy whose intervals are those of the fitted rows alone, without those of later releases."""
    lines = constants.read_text(encoding="utf-8").splitlines(keepends=True)
    copy = Path(mkdtemp()) / constants.name
    copy.write_text("".join(line for line in lines if not line.startswith("later_")), encoding="utf-8")
    return copy


def power(distance: Column) -> float:
    """The power of an interval's ends that would hold four fifths, drawn towards 1 as PRIOR rows of it would."""
    n = len(distance)
    return float(np.exp(np.log(np.quantile(distance, 0.8)) * n / (n + PRIOR)))


def main(folder: Path, without: Path) -> None:
    """Prints the powers."""
    for (op, ranks), chips in sorted(distances(folder, without).items()):
        every = np.concatenate(list(chips.values()))
        print(f"{op}, {ranks} ranks: {len(every)} rows, {100 * np.mean(every <= 1):.0f} % inside, {power(every):.2f}")
        for chip, own in sorted(chips.items()) if len(chips) > 1 else ():
            others = power(np.concatenate([d for name, d in chips.items() if name != chip]))
            inside = 100 * np.mean(own <= others)
            print(f"    without {chip}: {others:.2f}, which holds {inside:.0f} % of its {len(own)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
