"""Fits how much longer kinds of work take in training than alone, engine by engine; prints lines for engines.toml.

    python benchmarks/fit_training.py DIR [--values FILE]

Of each engine and generation in FITTED the factors of the kinds named there are chosen for the least mean
|log(predicted / measured)|, every distinct run of a model counting once, but for the root of their number, however many
releases repeat it, and a small price for leaving 1. A step is taken as linear in each factor, which it is but for what
hides beside work: its slope is measured at a factor of 1.3. Then every model, of one alone every layout, is left out in
turn: the second error is of these, and `spread`, the ends between which 80 % of them fall. `scatter` and `between_s`
are fitted first, on MLPerf's runs on 4 to 8,192 chips, with products beside them, and printed beside those that are
taken (`SCATTER`).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

import measured_training
import roofline as rl
from roofline.declared.errors import InputError
from roofline.engines.engine import Engine, engine_named
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import MeasuredRun
from roofline.training.replicas.stragglers import NODE, deviations

Values = NDArray[np.float64]
FITTED = {
    ("nemo", "hopper"): ("exchanges",),
    ("nemo", "blackwell"): ("exchanges",),
    ("megatron", "ampere"): ("wide",),
    ("megatron", "hopper"): (),
    ("megatron", "blackwell"): (),
    ("megatron-2025", "blackwell"): ("wide", "attention", "collectives"),
    ("fsdp@2.1", "ampere"): ("attention",),
    ("fsdp@2.1", "hopper"): ("products", "wide", "attention"),
    ("torchtitan", "hopper"): ("products", "wide", "attention"),
}
"""Engine and generation → the kinds of work that its rows tell apart."""
KINDS = ("products", "wide", "experts", "exchanges", "attention", "collectives")
STEP = 0.3
"""How far a factor is moved for its slope."""
PRICE = 0.01
"""Of the mean log-error, what a factor e times 1 must gain."""
SCATTER, BETWEEN = 0.037, 0.035
"""MLPerf's runs hardly tell scatters apart: from 0.02 to 0.09 the mean error is 7.4 to 7.6 %, least at 0.077. Runs of
papers on 512 to 16,384 chips (published_training.py), of which none is fitted, do: their mean errors are 2 % (Llama-3)
and 6 % (SC21) with 0.037, and 10 and 9 % with 0.077."""
ENOUGH = 5
"""Rows without which no spread is printed."""


@dataclass(frozen=True)
class FitRow:
    """A run: its engine, generation and model; seconds predicted at factors of 1, the slope of each, those measured."""

    engine: str
    generation: str
    model: str
    sparse: bool
    mlperf: bool
    same: tuple[object, ...]
    chips: int
    seconds: float
    slopes: dict[str, float]
    measured: float


def plain(name: str, kind: str | None = None) -> Engine:
    """An engine without what is fitted, or with one kind of work slower."""
    engine = engine_named(name)
    factors = {k: 1 + STEP * (k == kind) for k in KINDS}
    return replace(engine, slower={"other": factors}, scatter=0.0, between_s=0.0, spread={})


def rows(folder: Path) -> Iterator[FitRow]:
    """Every run of training that can be read and that constants are fitted on, at factors of 1."""
    for file, reader in measured_training.READERS.items():
        if file in measured_training.ONLY_SCORED:
            continue
        for cell in cells(folder / file) if (folder / file).exists() else ():
            try:
                runs = [run for run in reader(cell) if run.quantity == "training" and run.where.engine]
                yield from (row(run, file == measured_training.MLPERF) for run in runs)
            except InputError:
                continue


def row(run: MeasuredRun, mlperf: bool) -> FitRow:
    """One of them."""

    def step(kind: str | None) -> Any:
        settings = {**run.others, "engine": plain(run.where.engine, kind)}
        return rl.train(run.model, batch=run.settings["batch"], tokens=run.settings["input"], **settings)

    base = step(None)
    seconds = float(base.time)
    slopes = {kind: (float(step(kind).time) - seconds) / STEP for kind in KINDS}
    model = f"{base.model.name} {base.model.parameters:.3g}"
    same = (model, run.system, run.options.get("recipe"), base.deployment.layout)
    sparse = any(type(module).__name__ == "Experts" for module, _ in base.model.modules())
    owner = engine_named(run.where.engine)
    apart = owner.plain() in {name for name, _ in FITTED}  # a release whose constants are its own
    return FitRow(
        owner.plain() if apart else owner.like or owner.id, base.deployment.chip.generation, model, sparse, mlperf,
        same, int(base.chips), seconds, slopes, run.seconds,
    )  # fmt: skip


def predicted(sample: Sequence[FitRow], kinds: Sequence[str], factors: Values, scale: tuple[float, float]) -> Values:
    """Seconds at factors, with the scatter of ranks and the host's seconds between steps."""
    base = np.array([r.seconds for r in sample])
    slopes = np.array([[r.slopes[kind] for kind in kinds] for r in sample]).reshape(len(sample), len(kinds))
    beyond = np.maximum(0.0, deviations(np.array([r.chips for r in sample], float)) - deviations(NODE))
    seconds: Values = (base + slopes @ (factors - 1)) * (1 + scale[0] * beyond) + scale[1]
    return seconds


def weights(sample: Sequence[FitRow]) -> Values:
    """Rows that repeat one run count as one together, but for the root of their number."""
    many = Counter(r.same for r in sample)
    each = np.array([many[r.same] ** -0.5 for r in sample])
    return each / each.sum()


def least(loss: Callable[[Values], float], starts: Sequence[Sequence[float]]) -> Values:
    """Where a loss is least, from several starts."""
    options = {"maxfev": 5000, "xatol": 1e-4, "fatol": 1e-6}
    results = [minimize(loss, np.array(s), method="Nelder-Mead", options=options) for s in starts]
    best: Values = min(results, key=lambda r: float(r.fun)).x
    return best


def fitted(sample: Sequence[FitRow], kinds: Sequence[str], scale: tuple[float, float]) -> Values:
    """The factors."""
    if not kinds:
        return np.ones(0)
    measured, share = np.array([r.measured for r in sample]), weights(sample)

    def loss(point: Values) -> float:
        off = np.abs(np.log(predicted(sample, kinds, np.exp(point), scale) / measured))
        return float(share @ off + PRICE * np.abs(point).sum())

    return np.exp(least(loss, [[start] * len(kinds) for start in (0.0, 0.3, -0.3)]))


def scale_of(sample: Sequence[FitRow]) -> tuple[float, float]:
    """The scatter of ranks, and the seconds between steps, with products by generation beside them."""
    generations = sorted({r.generation for r in sample})
    measured, share = np.array([r.measured for r in sample]), weights(sample)

    def loss(point: Values) -> float:
        scale = abs(float(point[0])), abs(float(point[1]))
        factors = dict(zip(generations, np.exp(point[2:]), strict=True))
        each = [predicted([r], ["products"], np.array([factors[r.generation]]), scale)[0] for r in sample]
        return float(share @ np.abs(np.log(np.array(each) / measured)))

    best = least(loss, [[0.03, 0.03, *(0.0 for _ in generations)]])
    return abs(float(best[0])), abs(float(best[1]))


def left_out(sample: Sequence[FitRow], kinds: Sequence[str], scale: tuple[float, float]) -> Values:
    """Of each row, predicted over measured by factors that its model took no part in."""
    ratio = np.empty(len(sample))
    labels = [r.model for r in sample]
    if len(set(labels)) == 1:  # of one model alone, the layouts
        labels = [str(r.same) for r in sample]
    for name in set(labels):
        out = np.array([label == name for label in labels])
        rest = [r for r, gone in zip(sample, out, strict=True) if not gone]
        factors = fitted(rest, kinds, scale) if rest else np.ones(len(kinds))
        chosen = [r for r, gone in zip(sample, out, strict=True) if gone]
        ratio[out] = predicted(chosen, kinds, factors, scale) / np.array([r.measured for r in chosen])
    return ratio


def shortest(values: Values) -> tuple[float, float]:
    """The shortest interval, in logarithms, that holds 80 % of the values: a few that no term explains stay outside.

    Its ends are rounded outward to a twentieth, for the rows are few.
    """
    ordered = np.sort(values)
    inside = round(0.8 * len(ordered))
    wide = np.log(ordered[inside - 1 :] / ordered[: len(ordered) - inside + 1])
    first = int(np.argmin(wide))
    return float(np.floor(20 * ordered[first]) / 20), float(np.ceil(20 * ordered[first + inside - 1]) / 20)


def main() -> None:
    """The lines of each engine and generation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--values", type=Path, help="a JSON file for the values")
    given = parser.parse_args()
    every = list(rows(given.folder))
    found: dict[str, dict[str, object]] = {}
    mlperf = [r for r in every if r.mlperf and r.generation in ("hopper", "blackwell")]
    best, scale = scale_of(mlperf), (SCATTER, BETWEEN)
    print(f"scatter = {SCATTER}, not {best[0]:.3f}\nbetween_s = {BETWEEN}, not {best[1]:.3f}  # {len(mlperf)} rows\n")
    for (engine, generation), kinds in FITTED.items():
        sample = [r for r in every if (r.engine, r.generation) == (engine, generation)]
        if not sample:
            continue
        own = scale if engine_named(engine).between_s else (engine_named(engine).scatter, 0.0)
        factors, apart = fitted(sample, kinds, own), left_out(sample, kinds, own)
        inside = predicted(sample, kinds, factors, own) / np.array([r.measured for r in sample])
        errors = " ".join(f"{100 * float(np.median(np.abs(x - 1))):.1f}" for x in (inside, apart))
        print(f"[{engine}.slower.{generation}]  # {len(sample)} rows, median error {errors} % (models left out)")
        print("\n".join(f"{kind} = {factor:.2f}" for kind, factor in zip(kinds, factors, strict=True)))
        rounded = {kind: float(f"{factor:.2f}") for kind, factor in zip(kinds, factors, strict=True)}
        found[f"{engine}.slower.{generation}"] = {kind: None if x == 1 else x for kind, x in rounded.items()}
        for name, sparse in (("dense", False), ("sparse", True)):
            ratio = np.array([x for x, r in zip(apart, sample, strict=True) if r.sparse is sparse])
            if len(ratio) >= ENOUGH:
                low, high = shortest(1 / ratio) if sparse else np.quantile(1 / ratio, (0.1, 0.9))
                ends = [float(f"{low:.2f}"), float(f"{high:.2f}")]
                print(f"[{engine}.spread.{generation}] {name} = [{low:.2f}, {high:.2f}]  # {len(ratio)}")
                found.setdefault(f"{engine}.spread.{generation}", {})[name] = ends
        print(flush=True)
    if given.values:
        given.values.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
