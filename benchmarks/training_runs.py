"""Training runs beside what is predicted: every target with what we get, as Markdown.

    python benchmarks/training_runs.py DIR [--rows]

Rows of tables in DIR by stack, and runs of papers (`published_training`), whose assumptions are printed. Errors are of
the seconds of a step, signed: + where the prediction is slower.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import measured_training
import roofline as rl
from published_training import best, published
from roofline.declared.errors import InputError
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import MeasuredRun

LONG = 8192
"""Tokens of a sequence from which llm-foundry's are looked at apart."""


@dataclass(frozen=True)
class Comparison:
    """A run in a group: what it is, seconds measured and predicted, and the interval."""

    group: str
    label: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.low <= self.measured <= self.high


def compared(group: str, label: str, seconds: float, run: Any) -> Comparison:
    """A run and its estimate."""
    low, high = run.interval
    return Comparison(group, label, seconds, float(run.time), float(low), float(high))


def group_of(file: str, run: MeasuredRun) -> Iterator[str]:
    """The groups of a row, by the targets."""
    if file == measured_training.MLPERF:
        task = "LoRA" if "lora" in run.options else "pre-training"
        yield f"MLPerf {task}{', AMD' if run.system.startswith('mi') else ''}"
    elif file == measured_training.BRIDGE:
        yield "Megatron-Bridge"
        yield f"Megatron-Bridge, {'dense' if 'llama' in run.slices[-1] else 'sparse'}"
    elif file == measured_training.FOUNDRY:
        chip = "H100" if "h100" in run.system else "A100"
        yield f"llm-foundry {chip}"
        if chip == "H100" and run.settings["input"] >= LONG:
            yield f"llm-foundry H100, {LONG} tokens and more"
    elif file == measured_training.TITAN:
        yield "torchtitan"
    elif file == measured_training.PRIME:
        yield "prime-rl"
    else:
        yield f"Megatron-LM, {run.system}"


def tables(folder: Path) -> Iterator[Comparison]:
    """Every row that can be read."""
    for file, reader in measured_training.READERS.items():
        for row in cells(folder / file) if (folder / file).exists() else ():
            try:
                runs = [m for m in reader(row) if m.quantity == "training"]
                for m in runs:
                    run = rl.train(m.model, batch=m.settings["batch"], tokens=m.settings["input"], **m.others)
                    label = f"{m.system} {run.model.name} {run.recipe} {run.deployment.text} {run.asked.engine.plain()}"
                    for group in group_of(file, m):
                        yield compared(group, label, m.seconds, run)
            except InputError:
                continue


def papers() -> Iterator[Comparison]:
    """Every run of a paper; of settings that it leaves open, the fastest that fits."""
    for p in published():
        yield compared(p.paper, f"{p.label} ({p.assumed})" if p.assumed else p.label, p.seconds, best(p))


TARGETS = {
    "MLPerf pre-training": "mean 7 %, coverage 70-90 %", "MLPerf LoRA": "median 12 %, coverage 70-90 %",
    "Megatron-Bridge": "median 10 %, coverage 70 %", "llm-foundry H100": "mean 8 %",
    f"llm-foundry H100, {LONG} tokens and more": "bias within 8 %", "torchtitan": "median 10 %",
    "DeepSeek-V3": "15 %, inside", "PaLM": "inside, 25 %",
    **dict.fromkeys(("SC21", "Korthikanti", "Llama-3", "MegaScale", "BLOOM"), "8 % each"), "MT-NLG": "10 % each",
}  # fmt: skip


def report(rows: Iterable[Comparison], each: bool) -> str:
    """A line for each group, and one for each row of it."""
    groups: dict[str, list[Comparison]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    lines = [
        "| group | target | runs | bias % | mean % | median % | worst % | in the interval % |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, members in groups.items():
        off = np.array([m.error for m in members])
        bias = float(np.expm1(np.mean(np.log1p(off))))
        figures = (bias, np.mean(np.abs(off)), np.median(np.abs(off)), off[np.abs(off).argmax()])
        held = 100 * float(np.mean([m.inside for m in members]))
        cells_of = " | ".join(f"{100 * float(x):.1f}" for x in figures)
        lines.append(f"| {name} | {TARGETS.get(name, '')} | {len(members)} | {cells_of} | {held:.0f} |")
        if each:
            lines += [f"|  | {m.label} |  | {100 * m.error:+.1f} | {m.predicted:.4g} s of {m.measured:.4g} |  |  | "
                      f"{'yes' if m.inside else 'no'} |" for m in members]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    print(report([*tables(Path(sys.argv[1])), *papers()], "--rows" in sys.argv[2:]))
