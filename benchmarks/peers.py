"""Peers beside this project on the same rows: what they publish (peers.toml), and errors of the predictions made here.

    python benchmarks/peers.py DIR [--out FILE.csv]

Prints, and writes where asked, a line for each quantity: rows, the peer's mean absolute error, the project's, and the
peer's source. A peer's figures are cited, and no constant is fitted on them.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import fmean

import replay
from measured_training import SIMUMAX, simumax
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import predictions

PEERS = tomllib.loads(Path(__file__).with_name("peers.toml").read_text(encoding="utf-8"))

GROUPS = Path(__file__).parents[1] / "docs" / "accuracy" / "groups.csv"


@dataclass(frozen=True)
class Beside:
    """A peer beside this project: what was measured, rows, mean absolute errors in percent, the peer's source."""

    what: str
    rows: int
    peer: str
    error_of_peer: float
    error: float
    source: str


def training(folder: Path) -> Iterator[Beside]:
    """SimuMax on its own runs of Megatron-LM on eight B200: iteration time and peak memory of a rank."""
    peer, rows = PEERS["simumax"], list(cells(folder / SIMUMAX))
    runs = [run for row in rows for run in simumax(row)]
    ours = predictions(runs)
    for place, what, unit in ((0, "iteration", 1e3), (1, "peak memory", 2**-30)):
        pairs, own = [], []
        for i, row in enumerate(rows):
            run, span = runs[2 * i + place], ours[2 * i + place]
            pairs.append(peer["predicted"][row.text("case")][place] / (run.seconds * unit) - 1)
            own.append(float(span.expected) / run.seconds - 1)
        yield Beside(
            f"Megatron-LM on 8 B200, {what}", len(rows), peer["name"], _mean(pairs), _mean(own), peer["source"]
        )


def servers(folder: Path) -> Iterator[Beside]:
    """LLMServingSim on servers that it replays: means of TTFT, TPOT and latency of 300 requests."""
    peer = PEERS["llmservingsim"]
    for run in replay.runs(folder):
        for off, (what, pairs) in zip(peer["off"][run.name], run.pairs.items(), strict=True):
            error = fmean(a for a, _ in pairs) / fmean(b for _, b in pairs) - 1
            yield Beside(
                f"{run.name}, mean {what}", len(pairs), peer["name"], abs(off), 100 * abs(error), peer["source"]
            )


def operators() -> Iterator[Beside]:
    """LLMCompass on the operators that it measured; the project's errors are those of the accuracy page."""
    peer = PEERS["llmcompass"]
    with GROUPS.open(encoding="utf-8", newline="") as file:
        whole = [g for g in csv.DictReader(file) if (g["system"], g["slice"]) == ("all", "all")]
    each = [(int(g["rows"]), float(g["mean error"])) for g in whole if g["file"] in peer["tables"]]
    rows = sum(n for n, _ in each)
    error = sum(n * mean for n, mean in each) / rows
    yield Beside("operators, fitted on here", rows, peer["name"], peer["off"], error, peer["source"])


def _mean(errors: list[float]) -> float:
    """Mean absolute error in percent."""
    return 100 * fmean(map(abs, errors))


def main(argv: list[str]) -> None:
    """Prints the lines, and writes them where asked."""
    parser = argparse.ArgumentParser(description="Peers beside this project on the same rows.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="a CSV file")
    options = parser.parse_args(argv)
    done = [*training(options.folder), *servers(options.folder), *operators()]
    for line in done:
        print(f"{line.what}: {line.rows} rows, {line.peer} {line.error_of_peer:.1f} %, here {line.error:.1f} %")
    if options.out:
        with options.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([f.name.replace("_", " ") for f in fields(Beside)])
            writer.writerows([f"{v:.3g}" if isinstance(v, float) else v for v in astuple(line)] for line in done)


if __name__ == "__main__":
    main(sys.argv[1:])
