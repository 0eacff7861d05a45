"""Whether the layout and batch that come out best are those that were measured best.

    python benchmarks/search_measured.py FOLDER

A cell is a model, a chip, an engine, formats and lengths with several measured ways to serve: layouts at one number
in flight per chip (`layouts`), or layouts and numbers in flight within a TPOT (`limited`: the geometric mean of the
cell's measured ones). The way with the most predicted tokens per second and chip is chosen, among those whose predicted
TPOT keeps the limit. Beside it a random one, and the most tensor parallelism. Prints the shares of cells whose chosen
way has at least 90 % of the best measured; a choice that misses the limit as measured is none.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path
from statistics import fmean
from typing import Any

from measured_serving import SERVING, LeftOutError, servers
from roofline.accuracy.csvs import CellError, cells
from roofline.accuracy.measurements import MeasuredRun, predictions
from roofline.estimates.span import Span

WITHIN, TARGET = 0.9, 0.8
"""Share of the best measured rate that counts as found, and of cells that are to be."""


@dataclass(frozen=True)
class MeasuredWay:
    """A row: what was run, TTFT and TPOT as measured and as predicted, in seconds."""

    run: MeasuredRun
    measured: tuple[float, float]
    predicted: tuple[float, float]

    def rate(self, times: tuple[float, float]) -> float:
        """Generated tokens per second and chip of a closed loop: concurrency · output / latency / chips."""
        output, flight = self.run.output or 1, self.run.concurrency or 1
        return flight * output / (times[0] + (output - 1) * times[1]) / self.run.layout.chips

    @property
    def load(self) -> float:
        """Requests in flight of a chip."""
        return (self.run.concurrency or 1) / float(self.run.layout.chips)

    @property
    def cell(self) -> tuple[Any, ...]:
        """What is chosen for."""
        r = self.run
        return r.model.name, r.system, r.engine, r.precision, r.input, r.output


def ways(folder: Path) -> list[MeasuredWay]:
    """The rows that have both times and are not left out."""
    pairs = []
    for row in cells(folder / SERVING):
        try:
            runs = {run.quantity: run for run in servers(row)}
        except (LeftOutError, CellError):
            continue
        if len(runs) == 2:
            pairs.append((runs["served-ttft"], runs["served-tpot"]))
    answers = predictions([run for pair in pairs for run in pair])
    both = []
    for i, (first, after) in enumerate(pairs):
        ttft, tpot = answers[2 * i : 2 * i + 2]
        if isinstance(ttft, Span) and isinstance(tpot, Span):
            expected = (float(ttft.expected), float(tpot.expected))
            both.append(MeasuredWay(after, (first.seconds, after.seconds), expected))
    return both


def share(candidates: Sequence[MeasuredWay], chosen: MeasuredWay | None, limit: float) -> float:
    """Measured rate of the chosen way over the best measured within the limit; 0 where it misses it."""
    best = max((w.rate(w.measured) for w in candidates if w.measured[1] <= limit), default=0.0)
    if chosen is None or chosen.measured[1] > limit * 1.1 or not best:
        return 0.0
    return chosen.rate(chosen.measured) / best


def told(name: str, groups: Iterable[tuple[Sequence[MeasuredWay], float]]) -> float:
    """Prints how often each way to choose is near the best of its cell; the share of the search."""
    ours, random, widest, number = 0, 0.0, 0, 0
    for candidates, limit in groups:
        legal = [w for w in candidates if w.predicted[1] <= limit]
        chosen = max(legal, key=lambda w: w.rate(w.predicted), default=None)
        most = max(candidates, key=lambda w: (w.run.layout.tp, w.load))
        number += 1
        ours += share(candidates, chosen, limit) >= WITHIN
        random += fmean(share(candidates, w, limit) >= WITHIN for w in candidates)
        widest += share(candidates, most, limit) >= WITHIN
    print(
        f"{name}: {number} cells; within {100 * (1 - WITHIN):.0f} % of the best: chosen {100 * ours / number:.0f} %, "
        f"random {100 * random / number:.0f} %, most tensor parallelism {100 * widest / number:.0f} %"
    )
    return ours / number


def main(words: list[str]) -> int:
    """Prints both kinds of cells; exits with 1 where fewer than the target are found."""
    every = ways(Path(words[0]))
    by_load, by_cell = defaultdict(list), defaultdict(list)
    for way in every:
        by_cell[way.cell].append(way)
        by_load[way.cell, round(way.load, 6)].append(way)
    layouts = [(group, inf) for group in by_load.values() if len({w.run.layout.text() for w in group}) > 1]
    limited = [(group, exp(fmean(log(w.measured[1]) for w in group))) for group in by_cell.values() if len(group) > 2]
    print(f"{len(every)} rows of {SERVING}")
    shares = [told("layouts at one load", layouts), told("layouts and loads within a TPOT", limited)]
    return 0 if min(shares) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
