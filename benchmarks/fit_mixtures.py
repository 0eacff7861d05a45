"""How far steps of mixtures of experts fall from their kernels, by what of their experts was ever measured.

    python benchmarks/fit_mixtures.py DIR

Three classes: engines that were fitted on servers, with the experts whole on each rank; engines that never were, nor
their own kernels on whole models; and ranks that share out the experts, where the engine was not fitted on servers of
the chip. Of each engine on a chip:
rows, the median of ln(measured / expected), and the least share of a step's time that, beside the law's interval, holds
four fifths of the rows. Then the same of all, and of all but each one in turn, with the share of the rows left out that
it holds. These are `WHOLE`, `UNTRIED` and `UNSERVED` of `roofline/inference/plan.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
SERVED, BATCHED = ("served-tpot",), ("latency", "decode")
"""Quantities that are times of steps: of servers, and of whole batches."""
Rows = NDArray[np.float64]
"""Expected, measured, the ends of the interval without the term, and the share of a step that errs by it, by row."""


def measured_runs(folder: Path) -> Iterator[MeasuredRun]:
    """Every run of the tables of whole models."""
    for file, reader in READERS.items():
        for row in cells(folder / file) if (folder / file).exists() else ():
            try:
                yield from list(reader(row))
            except InputError:
                continue


def mixtures(folder: Path) -> Iterable[MeasuredRun]:
    """Steps and batches of models with routed experts."""
    for run in measured_runs(folder):
        if run.quantity in (*SERVED, *BATCHED, "served-token"):
            model = model_named(run.model) if isinstance(run.model, str) else run.model
            if model.active_parameters != model.parameters:
                yield run


def class_of(run: MeasuredRun) -> tuple[str, str, str] | None:
    """The run's class, engine and chip; None where another term rules."""
    there = deploy(run.where.on, run.where.layout)
    engine = default_engine(there.chip) if run.where.engine is None else engine_named(run.where.engine)
    name = engine.plain().partition("(")[0]
    if there.layout.ep > 1:
        shared = run.quantity in (*SERVED, "served-token") and not engine.was_served_on(there.chip)
        return ("shared out, never served on the chip", name, there.chip.id) if shared else None
    if engine.was_tried_on(there.chip):
        return ("experts measured", name, there.chip.id) if run.quantity in SERVED else None
    return ("experts never measured", name, there.chip.id) if run.quantity in BATCHED else None


def inside(rows: Rows, error: float) -> float:
    """Share of the rows that the interval holds, with an error of the term added to it in quadrature."""
    expected, measured, low, high, share = rows
    below, above = (np.hypot(end / expected - 1, error * share) for end in (low, high))
    return float(np.mean((measured >= expected * (1 - below)) & (measured <= expected * (1 + above))))


def least(rows: Rows) -> float:
    """The least such error that holds four fifths."""
    return next((s for s in np.arange(0.0, MOST, STEP) if inside(rows, float(s)) >= 0.8), MOST)


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all."""
    return np.concatenate(parts, axis=1)


def main(folder: Path) -> None:
    """Prints the shares."""
    plans.WHOLE = plans.UNEVEN = plans.UNTRIED = plans.UNSERVED = 0.0
    classes: dict[str, dict[str, list[tuple[float, ...]]]] = defaultdict(lambda: defaultdict(list))
    runs = [(run, known) for run in mixtures(folder) if (known := class_of(run)) is not None]
    for (run, (name, engine, chip)), answer in zip(runs, predictions([run for run, _ in runs]), strict=True):
        if not isinstance(answer, InputError) and run.seconds >= float(answer.floor):
            row = (answer.expected, run.seconds, answer.low, answer.high, 1.0)
            classes[name][f"{engine} on {chip}"].append(tuple(map(float, row)))
    for name, systems in classes.items():
        known = {system: np.array(rows).T for system, rows in systems.items() if len(rows) >= FEWEST}
        print(f"{name}:")
        for system, rows in known.items():
            bias = float(np.median(np.log(rows[1] / rows[0])))
            others = least(joined([other for key, other in known.items() if key != system]))
            print(
                f"  {system}: {rows.shape[1]} rows, bias {bias:+.2f}, {least(rows):.2f}; "
                f"without it {others:.2f}, which holds {100 * inside(rows, others):.0f} %"
            )
        every = joined(list(known.values()))
        print(f"  all: {every.shape[1]} rows, {least(every):.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
