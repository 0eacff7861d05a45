"""Fits what boards draw, by generation, on measured servers and pipelines; writes kernels/power.toml.

    python benchmarks/fit_power.py DIR [--out FILE]

Each generation has shares of the TDP: `running`, `compute`, `memory`, `padding`, `tiles` and `slower`. A unit without
work in its rows keeps the default share. Watts are predicted at the measured rate and time of a step, so errors of
times do not matter. The fit minimises the sum of smooth absolute errors of logarithms. It also prints the median error
of each model's rows by the shares that the other models give; `low` and `high` are the ends of the interval that holds
80 % of these errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from measured_power import Powered, denoised, rows
from roofline.kernels.power import SHARES, draw_of

GENERATIONS = ("ampere", "hopper", "blackwell")
UNITS_OF_FIT = ("compute", "memory", "padding", "tiles", "slower")
NAMES = ("running", *UNITS_OF_FIT)
START, MOST = (0.3, 0.8, 0.5, 0.5, 0.5, 0.5), (1.0, 1.2, 4.0, 4.0, 20.0, 4.0)
"""Products at three fifths of peak, as large ones run, draw no more than the TDP: 1.2 · 0.6 and what a step draws."""
SCALE = 0.1
"""Errors of logarithms beyond which they count by their size, not their square."""
MARK = "\n# -- fitted by benchmarks/fit_power.py"
Values = NDArray[np.float64]


def logs(shares: Sequence[float], fitted: Sequence[Powered]) -> Values:
    """Logarithms of predicted over measured watts by shares of the TDP."""
    running, *units = shares
    errors = []
    for row in fitted:
        draw, tdp = draw_of(row.chip), row.chip.tdp
        assert draw is not None
        assert tdp is not None
        watts = {unit: share * tdp for unit, share in zip(UNITS_OF_FIT, units, strict=True)}
        draw = replace(draw, awake=max(0.0, running * tdp - draw.idle), **watts)
        errors.append(np.log(row.drawn(draw) / row.watts))
    return np.array(errors)


def fit(fitted: Sequence[Powered]) -> Values:
    """The shares of rows, in thousandths."""
    best = least_squares(
        logs, START, bounds=((0.0,) * len(MOST), MOST), loss="soft_l1", f_scale=SCALE, args=(fitted,), diff_step=1e-3
    )
    return np.asarray(np.round(best.x, 3))


def works(unit: str, fitted: Sequence[Powered]) -> bool:
    """Whether a unit has any work in the rows."""
    return unit == "running" or any(np.any(getattr(c.busy, unit)) for row in fitted for c in row.alone)


def table(generation: str, fitted: Sequence[Powered]) -> str:
    """The generation's lines of power.toml; prints the errors of models left out."""
    shares, left = fit(fitted), np.zeros(len(fitted))
    names = np.array([row.model for row in fitted])
    for name in sorted(set(names)):
        others = fit([row for row in fitted if row.model != name])
        left[names == name] = np.exp(logs(others, [row for row in fitted if row.model == name])) - 1
        print(f"{generation:10} without {name:55} {sum(names == name):4} rows {np.median(left[names == name]):+6.1%}")
    inside = np.exp(logs(shares, fitted)) - 1
    middle = (f"{np.median(abs(e)):.1%}, mean {np.mean(abs(e)):.1%}" for e in (inside, left))
    print(f"{generation:10} median error {next(middle)}; models left out {next(middle)}")
    low, high = np.quantile(1 / (1 + left), (0.1, 0.9))
    values = [f"{name} = {share:.3f}" for name, share in zip(NAMES, shares, strict=True) if works(name, fitted)]
    source = f"{len(fitted)} rows of {len(set(names))} models, {', '.join(sorted({r.source for r in fitted}))}"
    return "\n".join((
        f"[{generation}]", *values, f"low = {min(0.95, low):.2f}", f"high = {max(1.05, high):.2f}", 'grade = "B"',
        f'source = "{source}"', 'date = "2026-11"', "",
    ))  # fmt: skip


def main() -> None:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=SHARES)
    asked = parser.parse_args()
    scored = [*rows(asked.folder), *denoised(asked.folder)]
    kept = SHARES.read_text(encoding="utf-8").partition(MARK)[0].rstrip("\n")
    tables = [table(name, [row for row in scored if row.chip.generation == name]) for name in GENERATIONS]
    asked.out.write_text("\n".join((kept, MARK, *tables)), encoding="utf-8")


if __name__ == "__main__":
    main()
