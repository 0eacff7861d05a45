"""Fits what hosts of served engines take, and their slow-downs, on the rows that their declarations name.

    python benchmarks/fit_servers.py DIR [--values FILE] [--only ENGINE,...]

Each value of a server in VALUES is fitted on the rows that `fitted_on` of its engine declares for it: those of the
table, quantity, models and chips. Values of the same rows are fitted together, from a start that is the same for every
engine, for the least mean |log(predicted / measured)|; all others stay as they are. Beside the fit: the median error
with the values of today, with those fitted, and with each chip (of one chip each model) left out in turn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

from measured_serving import READERS
from roofline.declared.errors import InputError
from roofline.engines.engine import Engine, default_engine, engine_named
from roofline.inference.deployment import deploy
from roofline.inference.span import Span
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.fitted import FittedRows, fits_of
from roofline.measured.accuracy.measurements import MeasuredRun, predictions

Values = NDArray[np.float64]
ENGINES = ("vllm", "trtllm", "sglang", "trtllm@0.9", "vllm@0.6", "vllm@0.5", "fastertransformer")
START = {"request_s": 2e-2, "request_token_s": 2e-5, "idle_step_s": 3e-4, "idle_sequence_s": 3e-5, "step_s": 5e-4,
         "sequence_s": 1e-5, "launch_s": 1e-5, "latency": 1.5}  # fmt: skip
"""Value → where its fit starts. `latency`: of collectives, in `slower` of the generation that the rows are of."""
TRIED = 15
"""Points of one fit at most, for each value."""
MOST = 48
"""Rows of one fit at most, evenly from all: a TTFT takes a second to predict."""
HOSTS = ("vllm@0.6", "trtllm@0.9")
"""Engines whose host time fit_engines.py fits."""


@dataclass(frozen=True)
class ServerFit:
    """Values of an engine that are fitted together, and the rows; generation: that of a slow-down, else ""."""

    engine: str
    names: tuple[str, ...]
    runs: tuple[MeasuredRun, ...]
    generation: str = ""

    def logs(self, runs: Sequence[MeasuredRun], values: Mapping[str, float] | None) -> Values:
        """|log(predicted / measured)| of rows with other values; with today's where there are none."""
        changed = list(runs) if values is None else [self._with(run, values) for run in runs]
        pairs = zip(runs, predictions(changed), strict=True)
        return np.array([
            abs(np.log(float(span.expected) / run.seconds)) for run, span in pairs if isinstance(span, Span)
        ])  # fmt: skip

    def _with(self, run: MeasuredRun, values: Mapping[str, float]) -> MeasuredRun:
        engine = engine_of(run)
        if self.generation:
            slower = {**engine.slower.get(self.generation, {}), **values}
            return replace(
                run, where=replace(run.where, engine=replace(engine, slower={**engine.slower, self.generation: slower}))
            )
        idle = {k.removeprefix("idle_"): v for k, v in values.items()}
        return replace(run, where=replace(run.where, engine=replace(engine, **idle)))

    def fitted(self, runs: Sequence[MeasuredRun]) -> dict[str, float]:
        """The values of the least mean error."""
        start = np.log([START[name] for name in self.names])

        def loss(point: Values) -> float:
            return float(np.mean(self.logs(runs, self.named(point))))

        options = {"maxfev": TRIED * len(self.names), "xatol": 0.02, "fatol": 2e-4, "initial_simplex": _simplex(start)}
        best = minimize(loss, start, method="Nelder-Mead", options=options)
        return self.named(best.x)

    def named(self, point: Values) -> dict[str, float]:
        """The values at a point of logarithms."""
        return dict(zip(self.names, np.exp(point).tolist(), strict=True))

    def left_out(self) -> Values:
        """Errors of rows whose chip, or of one chip whose model, took no part."""
        labels = [run.system for run in self.runs]
        if len(set(labels)) == 1:
            labels = [str(getattr(run.model, "name", run.model)) for run in self.runs]
        if len(set(labels)) == 1:
            labels = [str(run.where.layout) for run in self.runs]
        errors = []
        for name in dict.fromkeys(labels):
            rest = [run for run, label in zip(self.runs, labels, strict=True) if label != name]
            out = [run for run, label in zip(self.runs, labels, strict=True) if label == name]
            if rest:
                errors.append(self.logs(out, self.fitted(rest)))
        return np.concatenate(errors) if errors else np.array([np.nan])


def _simplex(start: Values) -> Values:
    return np.vstack([start, *(start + 0.7 * np.eye(len(start))[i] for i in range(len(start)))])


def engine_of(run: MeasuredRun) -> Engine:
    """The engine of a run, with its settings."""
    where = run.where
    return default_engine(deploy(where.on, where.layout).chip) if where.engine is None else engine_named(where.engine)


def table_runs(path: Path) -> list[MeasuredRun]:
    """Every row of a table that can be read."""
    runs: list[MeasuredRun] = []
    for cell in cells(path):
        try:
            runs += list(READERS[path.name](cell))
        except InputError:
            continue
    return runs


def fits(folder: Path, name: str, tables: dict[str, list[MeasuredRun]]) -> list[ServerFit]:
    """What is fitted of an engine: values that declare the same rows together."""
    engine = engine_named(name)
    together: dict[tuple[tuple[str, ...], str], list[FittedRows]] = {}
    for entry in fits_of(engine):
        fitted = tuple("latency" if value == "slower" else value for value in entry.values)
        if entry.table in READERS and set(fitted) <= set(START) and not (name in HOSTS and "latency" not in fitted):
            generation = next(iter(entry.generations), "") if "latency" in fitted else ""
            together.setdefault((fitted, generation), []).append(entry)
    done = []
    for (fitted, generation), entries in together.items():
        place = generation or next((g for g, factors in engine.slower.items() if "latency" in factors), "")
        if "latency" in fitted and "latency" not in engine.slower.get(place, {}):
            continue
        runs = []
        for entry in entries:
            table = tables.setdefault(entry.table, table_runs(folder / entry.table))
            runs += [run for run in table if _same(engine_of(run), engine, fitted) and entry.holds(run, engine_of(run))]
        if runs:
            done.append(
                ServerFit(name, fitted, tuple(runs[:: -(-len(runs) // MOST)]), place if "latency" in fitted else "")
            )
    return done


def _same(theirs: Engine, own: Engine, fitted: Sequence[str]) -> bool:
    """Whether a row's engine shares what is fitted: releases do, but for one that another's rows were declared for."""
    waits = any(value.startswith("idle_") for value in fitted)
    return theirs.id == own.id and theirs.fitted_on == own.fitted_on and (not waits or not theirs.ahead)


def heading(fit: ServerFit) -> str:
    """The table of the values, as fit_all.py names it."""
    return f"{fit.engine}.slower.{fit.generation}" if fit.generation else fit.engine


def main() -> None:
    """One block of lines for each fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--values", type=Path, help="a JSON file for the values")
    parser.add_argument("--only", default=",".join(ENGINES), help="engines, by comma")
    parser.add_argument("--left-out", action="store_true", help="the error with each chip left out too")
    given = parser.parse_args()
    tables: dict[str, list[MeasuredRun]] = {}
    found: dict[str, dict[str, float]] = {}
    for name in given.only.split(","):
        for fit in fits(given.folder, name, tables):
            values = fit.fitted(fit.runs)
            found.setdefault(heading(fit), {}).update({k: float(f"{v:.2g}") for k, v in values.items()})
            errors = [np.expm1(fit.logs(fit.runs, v)) for v in (None, values)]
            text = ", ".join(f"{100 * np.median(e):.1f} %" for e in errors)
            print(f"[{heading(fit)}]  # {len(fit.runs)} rows, median error today and fitted {text}", flush=True)
            print("\n".join(f"{k} = {v:.2g}" for k, v in values.items()))
            if given.left_out:
                print(f"# left out: median {100 * np.median(np.expm1(fit.left_out())):.1f} %")
            print(flush=True)
    if given.values:
        given.values.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
