"""Whether published layouts of training are among the best that a search knows.

    python benchmarks/search_training.py FOLDER [ROWS]

For each MLPerf and Bridge row that is scored: the predicted step of the published layout, that of the best layout of
the search with the same recipe, engine and overlap, and the share of all fitting layouts that are predicted faster than
the published one. At most so many rows of each table (8), spread over it evenly. Prints layouts a second of a second
search too, of all runs and of those with at least `LARGE` layouts: legal ones, whose memory is worked out, and those
among them that fit, whose time is too. Then, of all rows, the layouts that ran but do not fit by our rule, with what is
missing. Exits with 1 where a target is missed, which is of the latter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import roofline as rl
from measured_serving import LeftOutError
from measured_training import BRIDGE, MLPERF, bridge, mlperf
from roofline.measured.accuracy.accuracy import Reader
from roofline.measured.accuracy.csvs import CellError, cells
from roofline.measured.accuracy.measurements import MeasuredRun

TOP_SHARE = 0.10
"""Share of layouts of which the published one is to be."""
SAME = (
    "recipe", "overlap", "optimizer", "lora", "lora_targets", "drafts", "fused_loss", "flash", "offload",
    "offload_layers",
)  # fmt: skip
"""What a run's options have that the search does not choose."""
EVERY = 10**6
NEAR = 0.10
"""Share by which the best may be faster before it is said what it does otherwise."""
LARGE = 10_000
"""Layouts of a space that is too large to try them one by one."""
PER_SECOND = 50_000
"""Layouts of such spaces that are to be timed in a second."""


WHY = {
    ("1xgb300-nvl72", 1, 2): "26.02.01's table has micro-batches of 2 and no stages; the config, and the tables of the "
    "releases before and after at the same rate, 4 stages of 5 chunks and micro-batches of 1",
    ("1xgb300-nvl72", 4, 2): "26.02.01's table has micro-batches of 2 and no chunks; the config, and the tables of the "
    "releases before and after at the same rate, 5 chunks and micro-batches of 1",
    (
        "64xh100-sxm",
        4,
        4,
    ): "25.11's table has micro-batches of 4, and 2 of them a step, where 16 replicas would take 8; "
    "the config has micro-batches of 1",
    ("1xgb200-nvl72", 1, 2): "half of the layers offloaded as its config says; of the loss, 11 GiB by our rule, the "
    "config has Transformer Engine's kernel, of which versions keep one or two copies of the logits",
}
"""Machine, stages and sequences of a micro-batch → why a layout that ran does not fit."""


def runs_of(folder: Path, file: str, reader: Reader) -> list[MeasuredRun]:
    """The runs of a table that can be read."""
    runs: list[MeasuredRun] = []
    for row in cells(folder / file):
        try:
            runs += [run for run in reader(row) if run.quantity == "training"]
        except (LeftOutError, CellError):
            continue
    return runs


TABLES = ((MLPERF, mlperf), (BRIDGE, bridge))


def published(folder: Path, rows: int) -> Iterator[MeasuredRun]:
    """Some runs of both tables."""
    for file, reader in TABLES:
        runs = runs_of(folder, file, reader)
        yield from runs[:: max(1, len(runs) // rows)][:rows]


def estimated(run: MeasuredRun) -> Any:
    """Its estimate under the published layout."""
    where = {"on": run.where.on, "engine": run.where.engine, "layout": run.where.layout}
    return rl.train(run.model, batch=run.settings["batch"], tokens=run.settings["input"], **where, **dict(run.options))


def exploits(theirs: Any, best: Any) -> str:
    """What the best plan does otherwise."""
    published = f"{theirs.deployment.layout.text()}, micro-batch {theirs.step.micro_batch}, {theirs.recompute}"
    return f"; {published}: the best has {best.layout}, micro-batch {best.micro_batch}, {best.recompute}"


def misfits(folder: Path) -> str:
    """The layouts of all rows that ran, and do not fit by our rule, each once."""
    lines: dict[str, None] = {}
    every: dict[str, None] = {}
    for file, reader in TABLES:
        for run in runs_of(folder, file, reader):
            e = estimated(run)
            sizes = f"batch {run.settings['batch']} × {run.settings['input']}"
            text = f"{e.model.name}, {run.where.on}, {e.deployment.layout.text()}, {sizes}, {e.recipe}"
            every[text] = None
            if not e.fits:
                missing = (float(e.fullest.total) - e.memory.capacity) / 2**30
                why = WHY.get((run.where.on, run.where.layout.pp, dict(run.options)["micro_batch"]), "not known")
                lines[f"  {text}: {missing:.0f} GiB missing; {why}"] = None
    return "\n".join((f"{len(lines)} of {len(every)} published layouts do not fit", *lines))


def main(words: list[str]) -> int:
    """Prints a line for each run and the shares."""
    slower, outside, number, legal, timed, spent = 0, 0, 0, [0, 0], [0, 0], [0.0, 0.0]
    for run in published(Path(words[0]), int(words[1]) if len(words) > 1 else 8):
        options = dict(run.options)
        where = {"on": run.where.on, "engine": run.where.engine}
        theirs = estimated(run)
        same = {name: options[name] for name in SAME if name in options}
        batch, tokens = run.settings["batch"], run.settings["input"]
        asked = {"batch": batch, "tokens": tokens, **where, **same, "chips": run.where.layout.chips}
        try:
            s = rl.search_training(run.model, **asked, top=EVERY)
        except rl.InputError as error:
            print(f"{run.system}, {run.where.on}: {error}")
            continue
        start = process_time()
        rl.search_training(run.model, **asked)
        spent_on_it, large = process_time() - start, s.considered >= LARGE
        legal[large], timed[large] = legal[large] + s.considered, timed[large] + len(s.plans)
        spent[large], number = spent[large] + spent_on_it, number + 1
        seconds = float(theirs.time)
        faster = sum(p.seconds < seconds * (1 - 1e-9) for p in s.plans)
        best = s.plans[0].seconds if s.plans else float("inf")
        slower += bool(theirs.fits) and best > seconds * (1 + 1e-9)
        outside += faster > TOP_SHARE * len(s.plans)
        print(
            f"{s.model.name}, {run.where.on}, batch {batch} × {tokens}: published {seconds:.3f} s"
            f"{'' if theirs.fits else ' (does not fit)'}, best {best:.3f} s, {faster:,} of {len(s.plans):,} faster; "
            f"{s.considered:,} layouts, {s.considered / spent_on_it:,.0f}/s, {len(s.plans) / spent_on_it:,.0f} timed"
            f"{exploits(theirs, s.plans[0]) if s.plans and best < seconds / (1 + NEAR) else ''}",
            flush=True,
        )
    print(misfits(Path(words[0])))
    rate, took = timed[True] / max(spent[True], 1e-9), max(sum(spent), 1e-9)
    print(
        f"{number} runs: the best is slower than a published one that fits in {slower}; that is not in the top "
        f"{100 * TOP_SHARE:.0f} % in {outside}; {sum(legal) / took:,.0f} layouts/s, of which {sum(timed) / took:,.0f} "
        f"fit and are timed; with {LARGE:,} or more {legal[True] / max(spent[True], 1e-9):,.0f} and {rate:,.0f}"
    )
    return 1 if slower or outside or (timed[True] and rate < PER_SECOND) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
