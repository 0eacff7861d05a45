"""How far servers' host times fall from those of the servers they were fitted on.

    python benchmarks/fit_hosts.py DIR

Of servers in whose steps the host takes more than a fifth of the time, each engine on a chip: rows, the share of them
that the interval holds without the term, and the least error of the host's time, as a share of it, that beside the
interval holds four fifths. Then the same of all but each one, with the share of the rows left out that it holds. That
of all is `HOSTED` of `roofline/inference/plan.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import roofline.inference.plan as plans
from fit_mixtures import FEWEST, inside, joined, least, measured_runs
from roofline.declared.errors import InputError
from roofline.engines.engine import default_engine, engine_named
from roofline.inference.deployment import deploy
from roofline.measured.accuracy.measurements import MeasuredRun, predictions

QUANTITIES = ("served-tpot", "served-token")
LEAST_SHARE = 0.2
"""Share of a step that is the host's, at least."""


def servers(folder: Path) -> Iterable[MeasuredRun]:
    """Servers at a concurrency whose time between tokens, or for each, was measured."""
    return (run for run in measured_runs(folder) if run.quantity in QUANTITIES and "concurrency" in run.settings)


def host_share(run: MeasuredRun, expected: float) -> tuple[str, float]:
    """The engine on its chip, and the host's share of a step of all requests in flight."""
    there = deploy(run.where.on, run.where.layout)
    engine = engine_named(run.where.engine) if run.where.engine else default_engine(there.chip)
    running = run.settings["concurrency"]
    host = float(engine.on(there.chip).host(running))
    step = expected * (running if run.quantity == "served-token" else 1)
    return f"{engine.plain().partition('(')[0]} on {there.chip.id}", host / step


def main(folder: Path) -> None:
    """Prints the errors."""
    plans.HOSTED = 0.0
    systems: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    runs = list(servers(folder))
    for run, answer in zip(runs, predictions(runs), strict=True):
        if not isinstance(answer, InputError) and run.seconds >= float(answer.floor):
            name, share = host_share(run, float(answer.expected))
            if share > LEAST_SHARE:
                row = (answer.expected, run.seconds, answer.low, answer.high, share)
                systems[name].append(tuple(map(float, row)))
    known = {name: np.array(rows).T for name, rows in systems.items() if len(rows) >= FEWEST}
    for name, rows in known.items():
        others = least(joined([other for key, other in known.items() if key != name]))
        print(
            f"{name}: {rows.shape[1]} rows, {100 * inside(rows, 0.0):.0f} % inside, {least(rows):.2f}; "
            f"without it {others:.2f}, which holds {100 * inside(rows, others):.0f} %"
        )
    print(f"all: {least(joined(list(known.values()))):.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
