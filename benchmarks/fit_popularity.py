"""Fits the exponent by which tokens choose experts in timed steps: `ROUTED` of `roofline/inference/settings.py`.

    python benchmarks/fit_popularity.py DIR

Rows are TPOTs of served mixtures of experts, of every engine, chip and model. Experts are visited by a power law of
each exponent in turn, evenly over ranks, and all else is as it is. Beside each exponent: the error, and the deviation
about the group's own mean, which no constant of an engine changes; both as means over the groups (engine, chip, model),
so that no group counts more than another. The exponent is that of the least error, and so it is with each model left
out in turn.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fit_mixtures import mixtures
from roofline.inference.span import Span
from roofline.layout.layout import layout_named
from roofline.measured.accuracy.measurements import MeasuredRun, predictions

EXPONENTS = tuple(round(0.1 * i, 1) for i in range(11))
EVENLY = 1 + 1e-9
"""Tokens of the busiest rank over the mean where ranks have as many: 1 would follow from the popularity."""
Group = tuple[str, str, str]
Errors = NDArray[np.float64]


def served(folder: Path) -> list[MeasuredRun]:
    """The rows."""
    return [run for run in mixtures(folder) if run.quantity == "served-tpot"]


def group_of(run: MeasuredRun) -> Group:
    """Engine, chip and model of a row."""
    model = run.model if isinstance(run.model, str) else run.model.name
    return str(run.where.engine).partition("(")[0].partition("@")[0], run.system, model


def logs(runs: Iterable[MeasuredRun], exponent: float) -> Mapping[Group, Errors]:
    """ln(predicted / measured) of the rows of each group, with this exponent."""

    def routed(run: MeasuredRun) -> MeasuredRun:
        layout = replace(layout_named(run.where.layout), popularity=exponent, imbalance=EVENLY)
        return replace(run, where=replace(run.where, layout=layout))

    every, found = list(runs), defaultdict[Group, list[float]](list)
    for run, span in zip(every, predictions([routed(run) for run in every]), strict=True):
        if isinstance(span, Span):
            found[group_of(run)].append(float(np.log(float(span.expected) / run.seconds)))
    return {group: np.array(values) for group, values in found.items()}


def error(groups: Mapping[Group, Errors], without: str = "") -> float:
    """Mean over groups of the mean |ln(predicted / measured)|, without those of a model."""
    return float(np.mean([np.abs(values).mean() for group, values in groups.items() if group[2] != without]))


def spread(groups: Mapping[Group, Errors]) -> float:
    """Mean over groups of the standard deviation of ln(predicted / measured)."""
    return float(np.mean([values.std() for values in groups.values()]))


def main(words: list[str]) -> int:
    """Prints both for every exponent, and the best exponent, also with each model left out."""
    runs = served(Path(words[0]))
    tried = {exponent: logs(runs, exponent) for exponent in EXPONENTS}
    models = sorted({group[2] for group in tried[0.0]})
    print(f"{sum(map(len, tried[0.0].values()))} rows of {len(tried[0.0])} groups, {len(models)} models")
    for exponent, groups in tried.items():
        print(f"exponent {exponent}: error {100 * error(groups):.2f} %, deviation {100 * spread(groups):.2f} %")
    for name in ("", *models):
        best = min(EXPONENTS, key=lambda exponent: error(tried[exponent], name))
        print(f"{f'without {name}' if name else 'best'}: {best}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
