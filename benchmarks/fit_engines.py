"""Fits what an engine's host adds to a step, on measured static batches; prints the lines for machine/engines.toml.

Then, chip generation by generation of those that nobody timed op by op under that engine, how much longer its products,
attention and streams take than the kernels alone.

    python benchmarks/fit_engines.py DIR [--held-out]

The kernels are those of the shipped constants and are not touched. For each engine a grid over `step_s`, `sequence_s`
and `rereads` is searched for the least mean |log(predicted / measured)|; the error beside it is of five folds of the
rows that took no part. --held-out prints only these errors, with each model, chip and engine left out in turn, as
Markdown: results/engines_held_out.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

import roofline as rl
from measured_serving import CHIPS, ENGINES, STATIC, known_model, rows_of
from roofline.machine.engine import Engine, engine_named
from roofline.model.errors import InputError

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


def slowdowns(folder: Path, framework: str, engine: Engine, chip: str) -> tuple[dict[str, float], int, float]:
    """The factors of a generation, the rows they are fitted on, and the median error of those rows."""
    rows: list[tuple[rl.Model, dict[str, int], int, float]] = []
    for r in rows_of(folder, STATIC):
        model, ways = known_model(r["model"]), int(r["num_devices"])
        if (
            r["framework"] != framework
            or CHIPS.get(r["hardware"]) != chip
            or model is None
            or r["consistent"] != "True"
        ):
            continue
        sizes = {"batch": int(r["batch_size"]), "input": int(r["in_len"]), "output": int(r["out_len"])}
        rows.append((model, sizes, ways, float(r["latency_s"])))

    def errors_at(point: NDArray[np.float64]) -> NDArray[np.float64]:
        slower = {SLOWED[chip]: dict(zip(KINDS, np.exp(point).tolist(), strict=True))}
        changed, found = replace(engine, slower={**engine.slower, **slower}), []
        for model, sizes, ways, measured in rows:
            try:
                run = rl.generate(
                    model, on=chip if ways == 1 else f"{ways}x{chip}", layout=f"tp={ways}", engine=changed,
                    precision="fp16", **sizes,
                )  # fmt: skip
            except InputError:
                continue
            found.append(np.log(run.latency.expected / measured))
        return np.abs(np.array(found))

    best = minimize(
        lambda x: float(np.mean(errors_at(np.abs(x)))), np.log([2.0, 2.0, 2.0]), method="Nelder-Mead",
        options={"maxfev": 80, "xatol": 0.03, "fatol": 0.003},
    )  # fmt: skip
    point = np.abs(best.x)
    error = float(np.median(np.expm1(errors_at(point))))
    return dict(zip(KINDS, np.exp(point).tolist(), strict=True)), len(rows), error


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


def main(folder: Path, only_held_out: bool) -> None:
    """One block of lines for each engine, or the table of errors apart from the fit."""
    if only_held_out:
        print(held_out_page(folder), end="")
        return
    for chip, generation in SLOWED.items():
        factors, count, error = slowdowns(folder, "vLLM", engine_named("vllm-2024"), chip)
        lines = "\n".join(f"{kind} = {factor:.2f}" for kind, factor in factors.items())
        print(f"[vllm-2024.slower.{generation}]  # {count} rows, median {100 * error:.1f} %\n{lines}\n", flush=True)
    for fit in host_fits(folder):
        rereads, step_s, sequence_s = POINTS[fit.best]
        held_out = fit.left_out([str(i % FOLDS) for i in range(len(fit.rows))])
        print(f"[{fit.engine}]  # {len(fit.rows)} rows, held-out median {100 * np.median(np.expm1(held_out)):.1f} %")
        print(f"rereads = {rereads:.1f}\nstep_s = {step_s:.1e}\nsequence_s = {sequence_s:.1e}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--held-out" in sys.argv[2:])
