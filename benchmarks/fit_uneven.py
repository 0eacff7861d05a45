"""How far servers of mixtures whose ranks share out the experts fall, where their engine was not fitted on the chip.

    python benchmarks/fit_uneven.py DIR

Of each engine on a chip: rows, the median of ln(measured / expected), and the least share of a step's time that, beside
the interval of the law and of models with routed experts, holds four fifths of the rows. Then the same of all, and of
all but each one in turn, with the share of the rows left out that it holds. The last is `UNSERVED` of
`roofline/inference/plan.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import roofline.inference.plan as plans
from measured_serving import READERS
from roofline.declared.errors import InputError
from roofline.engines.engine import default_engine, engine_named
from roofline.inference.deployment import deploy
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import MeasuredRun, model_named, predictions

FEWEST = 10
"""Rows without which an engine on a chip says nothing."""
STEP, MOST = 0.01, 2.0
Rows = NDArray[np.float64]
"""Expected, measured and the ends of the interval without the term, by row."""


def spread(folder: Path) -> Iterable[MeasuredRun]:
    """Times between tokens of mixtures whose experts several ranks share."""
    for file, reader in READERS.items():
        for row in cells(folder / file) if (folder / file).exists() else ():
            try:
                runs = [run for run in reader(row) if run.quantity in ("served-tpot", "served-token")]
            except InputError:
                continue
            for run in runs:
                model = model_named(run.model) if isinstance(run.model, str) else run.model
                sparse = model.active_parameters != model.parameters
                if sparse and deploy(run.where.on, run.where.layout).layout.ep > 1:
                    yield run


def inside(rows: Rows, share: float) -> float:
    """Share of the rows that the interval holds, a share of the expected time added to it in quadrature."""
    expected, measured, low, high = rows
    below, above = (np.hypot(end / expected - 1, share) for end in (low, high))
    return float(np.mean((measured >= expected * (1 - below)) & (measured <= expected * (1 + above))))


def least(rows: Rows) -> float:
    """The least such share that holds four fifths."""
    return next(s for s in np.arange(0.0, MOST, STEP) if inside(rows, float(s)) >= 0.8)


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all."""
    return np.concatenate(parts, axis=1)


def main(folder: Path) -> None:
    """Prints the shares."""
    plans.UNEVEN = plans.UNSERVED = 0.0
    runs, systems = list(spread(folder)), defaultdict[tuple[str, str], list[tuple[float, ...]]](list)
    for run, answer in zip(runs, predictions(runs), strict=True):
        if isinstance(answer, InputError) or run.seconds < float(answer.floor):
            continue
        chip = deploy(run.where.on, run.where.layout).chip
        engine = default_engine(chip) if run.where.engine is None else engine_named(run.where.engine)
        if not engine.was_served_on(chip):
            row = (answer.expected, run.seconds, answer.low, answer.high)
            systems[engine.id, chip.id].append(tuple(map(float, row)))
    known = {name: np.array(rows).T for name, rows in systems.items() if len(rows) >= FEWEST}
    for (engine_id, chip_id), rows in known.items():
        bias = float(np.median(np.log(rows[1] / rows[0])))
        print(f"{engine_id} on {chip_id}: {rows.shape[1]} rows, bias {bias:+.2f}, {least(rows):.2f}")
    for name, rows in known.items():
        others = least(joined([other for key, other in known.items() if key != name]))
        print(f"without {' on '.join(name)}: {others:.2f}, holds {100 * inside(rows, others):.0f} % of it")
    every = joined(list(known.values()))
    print(f"all: {every.shape[1]} rows, {least(every):.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
