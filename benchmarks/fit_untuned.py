"""Fits what a step of the loop of vLLM's kernel of experts takes longer without tuned blocks, by generation.

    python benchmarks/fit_untuned.py DIR [--values FILE]

Rows: ML.ENERGY 3.0 (vLLM 0.11.1), Qwen3-235B-A22B in bf16 whose experts are shared out over its boards. The seconds of
`untuned` are those of the least mean |log(predicted / measured)| of a grid. Printed beside them are median errors
without and with them, of the rows of the fit and of other models in bf16, which take no part.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from measured_serving import ENERGY, energy_servers
from roofline.declared.errors import InputError
from roofline.engines.engine import engine_named
from roofline.inference.span import Span
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import MeasuredRun, predictions

FITTED = "Qwen3-235B"
"""Models that are fitted, by how their names begin."""
RELEASE = "0.11"
GENERATIONS = {"h100-sxm": "hopper", "b200": "blackwell"}
GRID = np.arange(0, 15) * 1e-7
"""Seconds of a step that are tried."""


def runs(folder: Path) -> Iterator[tuple[str, str, MeasuredRun]]:
    """Model, generation and run of the rows in bf16 whose experts are shared out."""
    for r in cells(folder / ENERGY):
        model = r.text("model").rpartition("/")[2]
        if not r.text("engine_version").startswith(RELEASE) or r.text("precision") != "bfloat16":
            continue
        try:
            known = list(energy_servers(r))
        except InputError:
            continue
        yield from ((model, GENERATIONS[run.system], run) for run in known if "ep=" in str(run.where.layout))


def logs(part: Sequence[MeasuredRun], generation: str, seconds: float) -> NDArray[np.float64]:
    """log(predicted / measured) where a step takes so long."""
    changed = []
    for run in part:
        engine = engine_named(run.where.engine)
        untuned = {"bf16": {**engine.untuned.get("bf16", {}), generation: seconds}}
        changed.append(replace(run, where=replace(run.where, engine=replace(engine, untuned=untuned))))
    pairs = zip(part, predictions(changed), strict=True)
    return np.array([np.log(float(span.expected) / run.seconds) for run, span in pairs if isinstance(span, Span)])


def median(values: NDArray[np.float64]) -> float:
    """Median of |predicted / measured − 1|, in percent."""
    return float(100 * np.median(np.abs(np.expm1(values))))


def main() -> None:
    """Prints the seconds of each generation, and writes them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--values", type=Path, help="a JSON file for the values")
    given = parser.parse_args()
    parts: dict[tuple[str, str], list[MeasuredRun]] = defaultdict(list)
    for model, generation, run in runs(given.folder):
        parts[generation, FITTED if model.startswith(FITTED) else model].append(run)
    found: dict[str, float] = {}
    for generation in GENERATIONS.values():
        own = parts[generation, FITTED]
        losses = [float(np.mean(np.abs(logs(own, generation, s)))) for s in GRID]
        best = float(f"{GRID[int(np.argmin(losses))]:.1e}")
        found[generation] = best
        for (of, model), part in sorted(parts.items()):
            if of == generation:
                before, after = (median(logs(part, generation, s)) for s in (0.0, best))
                says = "fitted" if model == FITTED else "not fitted"
                print(
                    f"{generation}: {best} s a step; {model}, {says}: {len(part)} rows, {before:.1f} -> {after:.1f} %"
                )
    if given.values:
        given.values.write_text(json.dumps({f"vllm@{RELEASE}.untuned.bf16": found}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
