"""Whether the layout and batch that come out best are those that were measured best.

    python benchmarks/search_measured.py FOLDER [--cells]

A cell is a model, a chip, an engine, formats and lengths with several measured ways to serve: layouts at one number
in flight per chip (`layouts`), or layouts and numbers in flight within a TPOT (`limited`: the geometric mean of the
cell's measured ones). The way with the most predicted tokens per second and chip is chosen, among those whose predicted
TPOT keeps the limit. Beside it a random one, and the most tensor parallelism. Prints the shares of cells whose chosen
way has at least 90 % of the best measured; a choice that misses the limit as measured is none. A way that was measured
several times counts once, with the median of its times; one whose requests wait longer than they take to be served is
left out, for its server holds fewer in flight than it was sent. Beside it what chance alone leaves: the share that
predictions find whose errors are independent, of so many per cent. `--cells` lists those that are missed, and why.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

from measured_serving import SERVING, LeftOutError, servers
from roofline.inference.span import Span
from roofline.measured.accuracy.csvs import CellError, cells
from roofline.measured.accuracy.measurements import SERVER, MeasuredRun, predictions

WITHIN, TARGET = 0.9, 0.8
"""Share of the best measured rate that counts as found, and of cells that are to be."""
SCATTERS, DRAWS = (0.05, 0.10, 0.15), 20
"""Errors of predictions that are drawn, and how many times."""


@dataclass(frozen=True)
class MeasuredWay:
    """A row: what was run, TTFT and TPOT as measured and as predicted, in seconds."""

    run: MeasuredRun
    measured: tuple[float, float]
    predicted: tuple[float, float]

    def rate(self, times: tuple[float, float]) -> float:
        """Generated tokens per second and chip of a closed loop: concurrency · output / latency / chips."""
        output, flight = self.run.settings["output_tokens"], self.run.settings["concurrency"]
        return flight * output / (times[0] + (output - 1) * times[1]) / self.run.where.layout.chips

    @property
    def load(self) -> float:
        """Requests in flight of a chip."""
        return self.run.settings["concurrency"] / float(self.run.where.layout.chips)

    @property
    def waits(self) -> bool:
        """Whether its requests wait longer than they take to be served."""
        return self.measured[0] > self.run.settings["output_tokens"] * self.measured[1]

    def off(self, errors: Sequence[float]) -> MeasuredWay:
        """The same, predicted as measured but for errors e times."""
        first, after = (t * exp(e) for t, e in zip(self.measured, errors, strict=True))
        return replace(self, predicted=(first, after))

    def text(self) -> str:
        """In a list."""
        both = (f"{1e3 * t:.1f}" for t in (self.measured[1], self.predicted[1]))
        where, users = self.run.where.layout.text() or "one chip", self.run.settings["concurrency"]
        return f"{where} at {users}: TPOT {' ms, predicted '.join(both)} ms"

    @property
    def cell(self) -> tuple[Any, ...]:
        """What is chosen for."""
        r = self.run
        engine = str(r.where.engine).partition("(")[0]
        return r.model.name, r.system, engine, r.where.precision, *map(r.settings.get, SERVER)


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
    return once([way for way in both if not way.waits])


def once(every: Iterable[MeasuredWay]) -> list[MeasuredWay]:
    """Each way once, with the medians of its times."""
    same: dict[tuple[Any, ...], list[MeasuredWay]] = {}
    for way in every:
        same.setdefault((*way.cell, way.run.where.layout.text(), way.run.settings["concurrency"]), []).append(way)
    return [
        replace(group[0], measured=(median(w.measured[0] for w in group), median(w.measured[1] for w in group)))
        for group in same.values()
    ]


def share(candidates: Sequence[MeasuredWay], chosen: MeasuredWay | None, limit: float) -> float:
    """Measured rate of the chosen way over the best measured within the limit; 0 where it misses it."""
    best = max((w.rate(w.measured) for w in candidates if w.measured[1] <= limit), default=0.0)
    if chosen is None or chosen.measured[1] > limit * 1.1 or not best:
        return 0.0
    return chosen.rate(chosen.measured) / best


Groups = Sequence[tuple[Sequence[MeasuredWay], float]]


def chosen_of(candidates: Sequence[MeasuredWay], limit: float) -> MeasuredWay | None:
    """The way that the predictions choose, None where all are predicted beyond the limit."""
    legal = [w for w in candidates if w.predicted[1] <= limit]
    return max(legal, key=lambda w: w.rate(w.predicted), default=None)


def found_in(groups: Groups) -> float:
    """Share of the cells whose chosen way is near the best."""
    return fmean(share(candidates, chosen_of(candidates, limit), limit) >= WITHIN for candidates, limit in groups)


def by_chance(groups: Groups, scatter: float) -> float:
    """The same of predictions that are right but for independent errors."""
    draw = random.Random(0)
    return fmean(
        found_in([([w.off([draw.gauss(0, scatter)] * 2) for w in group], limit) for group, limit in groups])
        for _ in range(DRAWS)
    )


def missed(candidates: Sequence[MeasuredWay], limit: float) -> str:
    """Why the best way of a cell was not chosen."""
    chosen = chosen_of(candidates, limit)
    best = max((w for w in candidates if w.measured[1] <= limit), key=lambda w: w.rate(w.measured))
    if chosen is None:
        why = "every way is predicted beyond the limit"
    elif chosen.measured[1] > 1.1 * limit:
        why = "the chosen one misses it as measured"
    else:
        why = "the best is predicted beyond it" if best.predicted[1] > limit else "the order is another"
    name, system, engine, _, prompt, answer = best.cell
    within = f" within {1e3 * limit:.1f} ms" if limit < inf else ""
    picked = chosen.text() if chosen else "none"
    return f"  {name} {system} {engine} {prompt}/{answer}{within}: {why}; chosen {picked}; best {best.text()}"


def told(name: str, groups: Groups, each: bool) -> float:
    """Prints how often each way to choose is near the best of its cell; the share of the search."""
    by_lot = fmean(fmean(share(group, w, limit) >= WITHIN for w in group) for group, limit in groups)
    widest = fmean(
        share(group, max(group, key=lambda w: (w.run.where.layout.tp, w.load)), limit) >= WITHIN
        for group, limit in groups
    )
    ours, lots = found_in(groups), ", ".join(f"{100 * by_chance(groups, s):.0f} %" for s in SCATTERS)
    print(
        f"{name}: {len(groups)} cells; within {100 * (1 - WITHIN):.0f} % of the best: chosen {100 * ours:.0f} %, "
        f"random {100 * by_lot:.0f} %, most tensor parallelism {100 * widest:.0f} %; independent errors of "
        f"{', '.join(f'{100 * s:.0f}' for s in SCATTERS)} % would leave {lots}"
    )
    for group, limit in groups if each else ():
        if share(group, chosen_of(group, limit), limit) < WITHIN:
            print(missed(group, limit))
    return ours


def main(words: list[str]) -> int:
    """Prints both kinds of cells; exits with 1 where fewer than the target are found."""
    every = ways(Path(words[0]))
    by_load, by_cell = defaultdict(list), defaultdict(list)
    for way in every:
        by_cell[way.cell].append(way)
        by_load[way.cell, round(way.load, 6)].append(way)
    layouts = [(group, inf) for group in by_load.values() if len({w.run.where.layout.text() for w in group}) > 1]
    limited = [(group, exp(fmean(log(w.measured[1]) for w in group))) for group in by_cell.values() if len(group) > 2]
    print(f"{len(every)} rows of {SERVING}")
    each = "--cells" in words
    shares = [told("layouts at one load", layouts, each), told("layouts and loads within a TPOT", limited, each)]
    return 0 if min(shares) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
