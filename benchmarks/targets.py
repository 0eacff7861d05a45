"""Prints what the accuracy of whole models should be, beside what it is.

    python benchmarks/targets.py [FILE.json] [--apart DIR] [--missed] [--json FILE]

FILE.json is what `accuracy.py DIR --json FILE.json` wrote. Without it the figures are those of the tables beside
docs/accuracy.md. Nothing is scored again, and errors are medians of |predicted / measured − 1|.

--apart DIR adds what scores do not hold, from a folder of tables: how the error of vLLM's users in flight changes with
their number, and llama.cpp with each machine left out of its fit. It takes minutes.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

import fit_local
import measured_serving as serving
import measured_traffic as traffic
import measured_training as training
import replay
from accuracy import Report, coverage, of_decoders, read_report
from accuracy_page import SYSTEMS, read_tables
from local_rows import local_rows
from roofline.declared.errors import InputError
from roofline.inference.span import Span
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import predictions
from roofline.measured.accuracy.scoring import GroupScore
from roofline.views.text.tables import Column, Table, plain_text

PAGE = Path(__file__).parents[1] / "docs" / "accuracy"
"""Where the tables of the page are."""
ROUND = "e2e_mlperf_inference_v60.csv"
"""The table of MLPerf Inference 6.0, whose rows tell how each submission ran."""


@dataclass(frozen=True)
class Target:
    """A group of rows and its target, the percent that its median error should not exceed."""

    what: str
    file: str
    slice: str
    most: float
    system: str = "all"


TARGETS = (
    Target("serving TPOT, dense, one chip", serving.SERVING, "tpot,dense", 7),
    Target("serving TPOT, dense, many chips", serving.SERVING, "tpot,dense,many chips", 7),
    Target("serving TPOT, mixtures, one chip", serving.SERVING, "tpot,moe", 9),
    Target("serving TPOT, mixtures, many chips", serving.SERVING, "tpot,moe,many chips", 9),
    Target("vLLM of ML.ENERGY, all", serving.ENERGY, "all", 12),
    Target("vLLM of ML.ENERGY, dense", serving.ENERGY, "dense", 12),
    Target("vLLM of ML.ENERGY, mixtures", serving.ENERGY, "moe", 12),
    Target("static batch, MI300X", SYSTEMS, "static batch", 15, "mi300x"),
    Target("static batch, 8 MI300X, ROCm's vLLM", serving.ROCM, "latency", 15),
    Target("static batch, Max 1550", SYSTEMS, "static batch", 20, "max-1550"),
    Target("static batch, H100 of 2024, TensorRT-LLM", SYSTEMS, "static batch, trtllm", 8, "h100-sxm"),
    Target("static batch, H100 of 2024, vLLM", SYSTEMS, "static batch, vllm", 8, "h100-sxm"),
    Target("saturated TensorRT-LLM, many chips", serving.SATURATED, "many chips", 12),
    Target("llama.cpp, answers", serving.LOCAL, "generation", 8),
    Target("llama.cpp, prompts", serving.LOCAL, "prompt", 15),
    Target("llama.cpp, prompts, several cards", serving.LOCAL, "prompt, several cards", 15),
    Target("TPU, serving", serving.TPU, "serving", 15),
    Target("TPU, training", training.TPU, "training", 15),
    Target("Neuron, TPOT", serving.NEURON, "tpot", 20),
    Target("Neuron, TTFT", serving.NEURON, "ttft", 20),
    Target("MLPerf 6.0, Offline", ROUND, "Offline", 12),
    Target("MLPerf 6.0, Server and Interactive", ROUND, "within limits", 20),
    Target("GPUStack, TPOT", traffic.GPUSTACK, "tpot", 12),
    Target("GPUStack, requests/s", traffic.GPUSTACK, "requests/s", 12),
    *(Target(f"request by request over PCIe, {what}", replay.FILE, what, 12) for what in ("TTFT", "TPOT", "latency")),
)
OFF, BEYOND, SCORED = 15.0, 0.0, 80.0
"""Percent of groups whose interval may be wrong, groups that may be far off, and percent of rows to be scored."""
TREND = 10.0
"""Percent by which a median may be off at any number of users."""
USERS = (0, 8, 32, 128, 512, 1 << 30)
"""Bounds of users in flight between which rows are taken together."""
FEWEST = 10
"""Rows without which users in flight are no group."""


@dataclass(frozen=True)
class Line:
    """A figure beside its target, in percent; None where it is not known. call: of a default call, which may not be.

    least: whether the target is to be reached, not to be kept under.
    """

    what: str
    rows: int
    call: float | None
    told: float | None
    target: float
    least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the figure of all that is told meets the target."""
        if self.told is None:
            return None
        return self.told >= self.target if self.least else self.told <= self.target


def lines(report: Report) -> Iterator[Line]:
    """A line for each target that scores decide."""
    told, called = ({(s.file, s.system, s.slice): s for s in part} for part in (report.scores, report.called))
    for t in TARGETS:
        name = (t.file, t.system, t.slice)
        known, call = told.get(name), called.get(name)
        yield Line(t.what, known.n if known else 0, call and call.median, known and known.median, t.most)
    yield from intervals(report.scores)
    decoders = of_decoders(report.tallies)
    share = 100 * decoders.scored / max(1, decoders.rows)
    yield Line("rows of decoders scored, % of them", decoders.rows, None, share, SCORED, least=True)


def intervals(scores: Sequence[GroupScore]) -> Iterator[Line]:
    """How many groups have a wrong interval, and how many a very wrong one."""
    _, groups, wrong, _, _, far = coverage(scores).rows[-1]
    yield Line("intervals that are off, % of groups", groups, None, 100 * wrong / max(1, groups), OFF)  # type: ignore[operator, arg-type]
    yield Line("intervals beyond 4 deviations, groups", groups, None, float(far), BEYOND)  # type: ignore[arg-type]


def apart(folder: Path) -> Iterator[Line]:
    """What scores do not hold."""
    yield from by_users(folder / serving.ENERGY)
    yield from left_out(folder)


def by_users(path: Path) -> Iterator[Line]:
    """The signed median error of vLLM's servers by their users in flight; the largest is the trend."""
    runs = []
    for r in cells(path):
        try:
            runs += list(serving.energy_servers(r))
        except InputError:
            continue
    ratios = defaultdict[tuple[int, int], list[float]](list)
    for run, answer in zip(runs, predictions(runs), strict=True):
        users = run.settings["concurrency"]
        band = next((low, high) for low, high in pairwise(USERS) if low < users <= high)
        if isinstance(answer, Span):
            ratios[band].append(float(answer.expected) / run.seconds)
    for (low, high), near in sorted(ratios.items()):
        if len(near) >= FEWEST:
            name = f"{low + 1} to {high}" if high < USERS[-1] else f"more than {low}"
            off_by = 100 * abs(float(np.median(near)) - 1)
            yield Line(f"vLLM of ML.ENERGY, |median|, {name} users", len(near), None, off_by, TREND)


def left_out(folder: Path) -> Iterator[Line]:
    """llama.cpp's median errors with each machine left out of the fit, or each model where one machine was measured."""
    every = [row for row in local_rows(folder) if not isinstance(row, str)]
    errors = defaultdict[str, list[float]](list)
    for rows in fit_local.grouped(every).values():
        for test, ratios in fit_local.held_out(rows).items():
            errors[test] += [abs(ratio - 1) for ratio in ratios]
    for test, most in (("answer", 8), ("prompt", 15)):
        yield Line(
            f"llama.cpp, {test}s, machine left out", len(errors[test]), None, 100 * float(np.median(errors[test])), most
        )


def table(every: Iterable[Line]) -> Table:
    """The lines in columns."""
    heads = ("what", "rows", "default call", "all that is told", "target", "met")
    rows = tuple(
        (x.what, f"{x.rows:,}", _percent(x.call), _percent(x.told), f"{'≥' if x.least else '≤'} {x.target:g}",
         "" if x.met is None else "yes" if x.met else "no")
        for x in every
    )  # fmt: skip
    return Table(
        tuple(Column(head, "plain" if 0 < i < 5 else "") for i, head in enumerate(heads)), rows, name="targets"
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def main() -> None:
    """Prints the table and how many targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="what accuracy.py --json wrote; else the page's tables")
    parser.add_argument("--apart", type=Path, metavar="DIR", help="a folder of tables, for what scores do not hold")
    parser.add_argument("--missed", action="store_true", help="only targets that are not met")
    parser.add_argument("--json", type=Path, help="write the lines here")
    given = parser.parse_args()
    report = read_report(given.file) if given.file else Report(*read_tables(PAGE))
    every = [*lines(report), *(apart(given.apart) if given.apart else ())]
    shown = [line for line in every if not given.missed or line.met is False]
    print(plain_text(table(shown)))
    known = [line.met for line in every if line.met is not None]
    print(f"\n{sum(known)} of {len(known)} targets are met, {len(every) - len(known)} not known.")
    if given.json:
        written = [asdict(line) | {"met": line.met} for line in every]
        given.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
