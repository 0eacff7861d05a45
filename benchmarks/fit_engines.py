"""Fits what an engine's host adds to a step, on measured static batches; prints the lines for engines/engines.toml.

Then, chip generation by generation of those that nobody timed op by op under that engine: how much longer the
arithmetic of products, attention, streams and the latency of collectives take than alone, what the host adds to a step
and to a sequence, and how the heads of a group read the cache. Apart from these, before them, the seconds that the
first batch of a cold process waits. --left-out adds the errors with each model left out in turn.

    python benchmarks/fit_engines.py DIR [--held-out] [--only hosts] [--left-out] [--values FILE]

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
Logs = NDArray[np.float64]


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


@dataclass(frozen=True)
class SlowedTerms:
    """What is fitted of an engine on a chip whose kernels nobody timed op by op under it.

    factors: term of `slower` → where its two fits start, of which the better counts; 1 is the least. hosts: the same of
    `generations`. tried: points of a fit at most.
    """

    engine: str
    chip: str
    generation: str
    factors: Mapping[str, tuple[float, float]]
    hosts: Mapping[str, tuple[float, float]]
    tried: int = 400

    def named(self, point: Logs) -> dict[str, float]:
        """Terms at a point of logarithms."""
        pairs = zip((*self.factors, *self.hosts), point, strict=True)
        return {k: float(np.exp(max(x, 0.0) if k in self.factors else x)) for k, x in pairs}


FACTORS = {"arithmetic": (2.0, 4.0), "attention": (2.0, 4.0), "streams": (2.0, 8.0), "latency": (2.0, 50.0)}
HOSTS = {"step_s": (1e-3, 1e-3), "sequence_s": (1e-4, 1e-4), "rereads": (2.0, 1.0)}
"""Of vLLM. Rows of one sequence tell a step's host seconds, rows of a layer's share on eight chips a sequence's; models
with and without grouped heads tell how a group's heads read the cache."""
ONE_FACTORS = {"products": (2.0, 4.0), "attention": (2.0, 4.0), "streams": (2.0, 8.0)}
ONE_HOSTS = {"step_s": (1e-3, 1e-2)}
"""Of llama.cpp: one sequence, whose products are of few rows, so that their bytes are slow: GPUs of 64 lanes ran
kernels that were written for 32."""
SLOWED = (
    *(SlowedTerms("vllm@0.6", chip, generation, FACTORS, HOSTS)
      for chip, generation in (("mi250", "cdna2"), ("mi300x", "cdna3"), ("max-1550", "xe-hpc"))),
    *(SlowedTerms("llama-cpp", chip, generation, ONE_FACTORS, ONE_HOSTS, 120)
      for chip, generation in (("mi250", "cdna2"), ("mi300x", "cdna3"))),
)  # fmt: skip
MOST = 10
"""Rows of llama.cpp that a fit takes at most, evenly from all: they differ in few sizes."""


def batches(folder: Path, engine: str, chip: str) -> list[MeasuredRun]:
    """The static batches of an engine on a chip, of any number of them."""
    runs: list[MeasuredRun] = []
    for cell in cells(folder / STATIC):
        try:
            read = list(static_batches(cell))
        except InputError:
            continue
        runs += [run for run in read if run.system == chip and release_of(run) == engine]
    return runs[:: -(-len(runs) // MOST)] if engine == "llama-cpp" else runs


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


def with_terms(engine: Engine, of: SlowedTerms, terms: Mapping[str, float], start: float) -> Engine:
    """The engine with other factors, host times and start-up on a generation; nothing is said of intervals."""
    factors, host = ({k: v for k, v in terms.items() if k in names} for names in (of.factors, of.hosts))
    return replace(
        engine, slower={**engine.slower, of.generation: factors},
        generations={**engine.generations, of.generation: host}, starts={**engine.starts, of.generation: start},
    )  # fmt: skip


@dataclass(frozen=True)
class SlowedFit:
    """What whole batches on a generation say: its terms, seconds of a cold start, and the errors of the rows."""

    terms: Mapping[str, float]
    start: float
    logs: Logs

    @property
    def within(self) -> float:
        """What four fifths of |log(predicted / measured)| are within."""
        return float(np.quantile(np.abs(self.logs), 0.8))


def logs_of(runs: Sequence[MeasuredRun], of: SlowedTerms, terms: Mapping[str, float], start: float) -> Logs:
    """log(predicted / measured) of batches with other terms."""
    engines = {run.where.engine for run in runs}
    changed = {name: with_terms(engine_named(name), of, terms, start) for name in engines}
    others = [replace(run, where=replace(run.where, engine=changed[run.where.engine])) for run in runs]
    pairs = zip(runs, predictions(others), strict=True)
    return np.array([np.log(float(span.expected) / run.seconds) for run, span in pairs if isinstance(span, Span)])


def slowdowns(runs: Sequence[MeasuredRun], of: SlowedTerms) -> SlowedFit:
    """The terms of a generation, the seconds of its cold start being fitted apart, before them."""
    start = start_up(runs)

    def loss(point: Logs) -> float:
        return float(np.mean(np.abs(logs_of(runs, of, of.named(point), start))))

    found = []
    for first in np.log([*of.factors.values(), *of.hosts.values()]).T:
        simplex = np.vstack([first, first + 0.6 * np.eye(len(first))])
        options = {"maxfev": of.tried, "xatol": 0.01, "fatol": 0.0005, "initial_simplex": simplex}
        found.append(minimize(loss, first, method="Nelder-Mead", options=options))
    terms = of.named(min(found, key=lambda best: float(best.fun)).x)
    return SlowedFit(terms, start, logs_of(runs, of, terms, start))


def left_out(runs: Sequence[MeasuredRun], of: SlowedTerms) -> Logs:
    """Errors of batches whose model took no part."""
    models = [str(getattr(run.model, "name", run.model)) for run in runs]
    parts = []
    for name in dict.fromkeys(models):
        rest, out = ([r for r, m in zip(runs, models, strict=True) if (m == name) is same] for same in (False, True))
        fit = slowdowns(rest, of)
        parts.append(logs_of(out, of, fit.terms, fit.start))
        print(f"# without {name}: median {median(parts[-1]):.1f} % of its {len(out)} rows", flush=True)
    return np.concatenate(parts)


def median(logs: Logs) -> float:
    """Median of |predicted / measured − 1|, in percent."""
    return float(100 * np.median(np.abs(np.expm1(logs))))


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


def slower_values(folder: Path, apart: bool = False) -> dict[str, dict[str, float]]:
    """Table of an engine → its slow-downs, host times and start-up by generation; printed as they come.

    apart: print the error with each model left out in turn too.
    """
    found: dict[str, dict[str, float]] = {}
    for of in SLOWED:
        name, generation = of.engine, of.generation
        runs = batches(folder, name, of.chip)
        fit = slowdowns(runs, of)
        factors, host = ({k: float(f"{fit.terms[k]:.3g}") for k in names} for names in (of.factors, of.hosts))
        tables = {f"{name}.slower.{generation}": factors | {"within": float(f"{fit.within:.2f}")}}
        tables[f"{name}.generations.{generation}"] = host
        print(f"# {name} on {of.chip}: {len(runs)} rows, median {median(fit.logs):.1f} %", flush=True)
        if fit.start:
            tables[f"{name}.starts"] = {generation: float(f"{fit.start:.1f}")}
        for table, values in tables.items():
            lines = "\n".join(f"{kind} = {value}" for kind, value in values.items())
            print(f"[{table}]\n{lines}\n", flush=True)
        if apart:
            print(f"# each model left out: median {median(left_out(runs, of)):.1f} %\n", flush=True)
        found |= tables
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
    parser.add_argument("--left-out", action="store_true", help="errors of slow-downs with each model left out too")
    parser.add_argument("--only", default="hosts,slower", help="hosts or slower")
    parser.add_argument("--values", type=Path, help="a JSON file for the values")
    given = parser.parse_args()
    if given.held_out:
        print(held_out_page(given.folder), end="")
        return
    found = host_values(given.folder) if "hosts" in given.only else {}
    found |= slower_values(given.folder, given.left_out) if "slower" in given.only else {}
    if given.values:
        given.values.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
