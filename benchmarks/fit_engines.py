"""Fits what an engine's host adds to a step, on measured static batches; prints the lines for engines/engines.toml.

Then, chip generation by generation of those that nobody timed op by op under that engine, how much longer its products,
attention and streams take than the kernels alone; and apart from these, before them, the seconds that the first batch
of a cold process waits.

    python benchmarks/fit_engines.py DIR [--held-out] [--only hosts] [--values FILE]

The kernels are those of the shipped constants and are not touched. For each engine a grid over `step_s`, `sequence_s`
and `rereads` is searched for the least mean |log(predicted / measured)|; the error beside it is of five folds of the
rows that took no part. --held-out prints only these errors, with each model, chip and engine left out in turn, as
Markdown: results/engines_held_out.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

import roofline as rl
from measured_serving import CHIPS, ENGINES, STATIC, known_model, rows_of, static_batches
from roofline.declared.errors import InputError
from roofline.engines.engine import Engine, engine_named
from roofline.inference.span import Span
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import MeasuredRun, predictions

REREADS = (0.0, 3.0, 4.0, 6.0)
STEP_S = np.linspace(0, 2e-3, 21)
SEQUENCE_S = np.linspace(0, 1e-4, 21)
FITTED_ON = ("a100-sxm-40gb", "h100-sxm", "gh200")
FOLDS = 5


@dataclass(frozen=True)
class Sample:
    """A batch: seconds of its kernels for each way of reading the cache, its steps, sequences · steps, the measured."""

    model: str
    chip: str
    kernels: tuple[float, ...]
    steps: int
    sequence_steps: int
    measured: float


def samples(folder: Path, framework: str, engine: Engine) -> Iterator[Sample]:
    """The rows of one engine on the chips it is fitted on."""
    bare = replace(engine, step_s=0.0, sequence_s=0.0)
    for r in rows_of(folder, STATIC):
        chip, model = CHIPS.get(r["hardware"]), known_model(r["model"])
        if r["framework"] != framework or chip not in FITTED_ON or model is None:
            continue
        if r["num_devices"] != "1" or r["consistent"] != "True":
            continue
        sizes = {"batch": int(r["batch_size"]), "input": int(r["in_len"]), "output": int(r["out_len"])}
        try:
            runs = [
                rl.generate(model, on=chip, engine=replace(bare, rereads=x), precision="fp16", **sizes) for x in REREADS
            ]
        except InputError:
            continue
        waves, sequences = int(runs[0].waves), sizes["batch"]
        yield Sample(
            r["model"], str(chip), tuple(g.latency.expected for g in runs), sizes["output"] * waves,
            sizes["output"] * sequences, float(r["latency_s"]),
        )  # fmt: skip


def errors(rows: list[Sample]) -> NDArray[np.float64]:
    """|log(predicted / measured)| for every point of the grid and every row."""
    kernels = np.array([r.kernels for r in rows]).T[:, None, None, :]
    steps, sequences, measured = (
        np.array([getattr(r, n) for r in rows]) for n in ("steps", "sequence_steps", "measured")
    )
    host = STEP_S[:, None, None] * steps + SEQUENCE_S[None, :, None] * sequences
    return np.abs(np.log((kernels + host) / measured))


SLOWED = {"mi250": "cdna2", "mi300x": "cdna3", "max-1550": "xe-hpc"}
KINDS = ("products", "attention", "streams")
MORE_KINDS = {"max-1550": ("latency",)}
"""Kinds beside KINDS that a chip's rows tell apart: on two and four Max 1550 a step of one sequence takes 40 and 60 ms
more than on one, whatever the length, which no factor of products or streams is like."""


def batches(folder: Path, engine: str, chip: str) -> list[MeasuredRun]:
    """The static batches of an engine on a chip, of any number of them."""
    runs: list[MeasuredRun] = []
    for cell in cells(folder / STATIC):
        try:
            read = list(static_batches(cell))
        except InputError:
            continue
        runs += [run for run in read if run.system == chip and release_of(run) == engine]
    return runs


def release_of(run: MeasuredRun) -> str:
    """The engine of a run and its release, without settings: `vllm@0.6`."""
    return engine_named(run.where.engine).plain().partition("(")[0]


def start_up(runs: Sequence[MeasuredRun]) -> float:
    """Seconds that a cold process waits: of batches of one sequence, where a line through seconds by length begins.

    No prediction takes part in it. 0 where no run was cold.
    """
    cold = [run for run in runs if engine_named(run.where.engine).cold and run.settings["batch"] == 1]
    if len({run.settings["output_tokens"] for run in cold}) < 2:
        return 0.0
    lengths = [float(run.settings["output_tokens"]) for run in cold]
    return float(np.polyfit(lengths, [run.seconds for run in cold], 1)[1])


def with_terms(engine: Engine, generation: str, factors: Mapping[str, float], start: float) -> Engine:
    """The engine with other factors and another start-up on a generation; nothing is said of intervals."""
    starts = {**engine.starts, generation: start}
    return replace(engine, slower={**engine.slower, generation: dict(factors)}, starts=starts)


@dataclass(frozen=True)
class SlowedFit:
    """What whole batches on a generation say: its factors, seconds of a cold start, the rows, and their errors.

    median: of |predicted / measured − 1|. within: what four fifths of |log(predicted / measured)| are within.
    """

    factors: Mapping[str, float]
    start: float
    rows: int
    median: float
    within: float


def slowdowns(folder: Path, name: str, chip: str) -> SlowedFit:
    """The factors of a generation, the seconds of its cold start being fitted apart, before them."""
    kinds, generation = (*KINDS, *MORE_KINDS.get(chip, ())), SLOWED[chip]
    runs = batches(folder, name, chip)
    start = start_up(runs)

    def logs_at(point: NDArray[np.float64]) -> NDArray[np.float64]:
        factors = dict(zip(kinds, np.exp(np.abs(point)).tolist(), strict=True))
        engines = {run.where.engine for run in runs}
        terms = {name: with_terms(engine_named(name), generation, factors, start) for name in engines}
        changed = [replace(run, where=replace(run.where, engine=terms[run.where.engine])) for run in runs]
        pairs = zip(runs, predictions(changed), strict=True)
        logs = [np.log(float(span.expected) / run.seconds) for run, span in pairs if isinstance(span, Span)]
        return np.abs(np.array(logs))

    best = minimize(
        lambda x: float(np.mean(logs_at(x))), np.full(len(kinds), 0.7), method="Nelder-Mead",
        options={"maxfev": 300, "xatol": 0.01, "fatol": 0.0005},
    )  # fmt: skip
    logs = logs_at(best.x)
    factors = dict(zip(kinds, np.exp(np.abs(best.x)).tolist(), strict=True))
    return SlowedFit(factors, start, len(runs), float(np.median(np.expm1(logs))), float(np.quantile(logs, 0.8)))


POINTS = list(product(REREADS, STEP_S, SEQUENCE_S))


@dataclass(frozen=True)
class HostFit:
    """Rows of one engine and their errors, |log(predicted / measured)|, at every point of the grid."""

    engine: str
    rows: list[Sample]
    errors: NDArray[np.float64]

    @property
    def best(self) -> int:
        """The point that all rows together choose."""
        return int(np.argmin(self.errors.mean(axis=1)))

    def left_out(self, labels: Sequence[str]) -> NDArray[np.float64]:
        """The error of each row at the point that the rows of other labels choose."""
        names = np.array(labels)
        held_out = np.empty(len(self.rows))
        for name in dict.fromkeys(labels):
            out = names == name
            held_out[out] = self.errors[np.argmin(self.errors[:, ~out].mean(axis=1))][out]
        return held_out


def host_fits(folder: Path) -> Iterator[HostFit]:
    """For each engine that has rows."""
    for framework, name in ENGINES.items():
        rows = list(samples(folder, framework, engine_named(name)))
        if rows:
            yield HostFit(name, rows, errors(rows).reshape(len(POINTS), len(rows)))


def held_out_page(folder: Path) -> str:
    """A table: mean error in and out of the fit, with each fifth, model, chip and engine left out in turn."""
    fits = list(host_fits(folder))
    lines = [
        "## Engines' host time, apart from the fit", "",
        "Mean error of whole latencies on one chip, in percent: of all rows at the constants that they choose; with",
        "every fifth row, every model and every chip left out in turn, each predicted by constants fitted on the",
        "others; and by the constants of the other engines.", "",
        "| engine | rows | fitted | fifths left out | models left out | chips left out | other engine's constants |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for fit in fits:
        fifths = [str(i % FOLDS) for i in range(len(fit.rows))]
        several = [fit.left_out(labels) for labels in (
            fifths, [r.model for r in fit.rows], [r.chip for r in fit.rows],
        )]  # fmt: skip
        foreign = [fit.errors[other.best] for other in fits if other is not fit]
        columns = [fit.errors[fit.best], *several, *([np.mean(foreign, axis=0)] if foreign else [])]
        figures = " | ".join(f"{100 * np.mean(np.expm1(c)):.1f}" for c in columns)
        lines.append(f"| {fit.engine} | {len(fit.rows)} | {figures} |{' – |' if not foreign else ''}")
    return "\n".join(lines) + "\n"


def slower_values(folder: Path) -> dict[str, dict[str, float]]:
    """Table of an engine → its slow-downs and start-up; printed as they come."""
    found: dict[str, dict[str, float]] = {}
    name = ENGINES["vLLM"]
    for chip, generation in SLOWED.items():
        fit = slowdowns(folder, name, chip)
        values = {**{kind: float(f"{x:.2f}") for kind, x in fit.factors.items()}, "within": float(f"{fit.within:.2f}")}
        values |= {"latency": float(f"{fit.factors['latency']:.0f}")} if "latency" in fit.factors else {}
        found[f"{name}.slower.{generation}"] = values
        lines = "\n".join(f"{kind} = {factor}" for kind, factor in values.items())
        print(
            f"[{name}.slower.{generation}]  # {fit.rows} rows, median {100 * fit.median:.1f} %\n{lines}\n", flush=True
        )
        if fit.start:
            found[f"{name}.starts"] = {generation: float(f"{fit.start:.1f}")}
            print(f"[{name}.starts]\n{generation} = {fit.start:.1f}\n", flush=True)
    return found


def host_values(folder: Path) -> dict[str, dict[str, float]]:
    """Engine → its host time; printed as they come."""
    found: dict[str, dict[str, float]] = {}
    for fit in host_fits(folder):
        rereads, step_s, sequence_s = (float(x) for x in POINTS[fit.best])
        found[fit.engine] = {"step_s": float(f"{step_s:.1e}"), "sequence_s": float(f"{sequence_s:.1e}")}
        found[fit.engine] |= {"rereads": rereads} if rereads else {}
        held_out = fit.left_out([str(i % FOLDS) for i in range(len(fit.rows))])
        print(f"[{fit.engine}]  # {len(fit.rows)} rows, held-out median {100 * np.median(np.expm1(held_out)):.1f} %")
        print(f"rereads = {rereads:.1f}\nstep_s = {step_s:.1e}\nsequence_s = {sequence_s:.1e}\n", flush=True)
    return found


def main() -> None:
    """One block of lines for each engine, or the table of errors apart from the fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--held-out", action="store_true", help="the errors apart from the fit, as Markdown")
    parser.add_argument("--only", default="hosts,slower", help="hosts or slower")
    parser.add_argument("--values", type=Path, help="a JSON file for the values")
    given = parser.parse_args()
    if given.held_out:
        print(held_out_page(given.folder), end="")
        return
    found = host_values(given.folder) if "hosts" in given.only else {}
    found |= slower_values(given.folder) if "slower" in given.only else {}
    if given.values:
        given.values.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
