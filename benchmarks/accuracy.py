"""Scores the shipped constants on a folder of measurements, and accounts for every row of every file in it.

    python benchmarks/accuracy.py DIR|FILE.json [--json FILE] [--markdown | --readme | --coverage] [--page FILE]
                                  [--only PATTERN] [--fold N] [--without FOLDER]

First what became of the rows of each file: scored, or left out for a reason; the parts add up to the whole. Then, for
each file, system and slice: rows, mean and median absolute error and bias of predicted / measured − 1, the error on
rows that took no part in a fit, the error of the plain roofline, the share of rows faster than that (of those whose
working set exceeds the last-level cache), the share inside the stated 80 % interval, and what was fitted on these rows.
All in percent. The constants of a row are those of the software that it names. Generations, servers and training are
scored twice: by all that a row tells, and by a call that says model, machine, sizes, formats and the engine's name.

--json keeps the result, and a page or a table is made from it without scoring again. --only scores the files of a
pattern alone. --coverage prints how many groups of 50 rows and more, and of an engine on a chip of 30 and more, have an
interval that holds too few or too many: further from 80 % than 8 points and two standard deviations of a share.

--without FOLDER judges the intervals of collectives that took part in a fit by constants that fit_collectives.py fitted
without their sizes: `collectives-N.toml` for N from 0 to 4.

--fold N keeps the rows of one fifth of the shapes, by the hash that fit_laws.py holds them out with, and --constants
FOLDER takes constants fitted without them.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import accuracy_page
import measured_blocks
import measured_collectives
import measured_mlperf
import measured_serving
import measured_traffic
import measured_training
import replay
from accuracy_page import SYSTEMS
from left_out import KNOWN, REPEATED, SUPERSEDED, TOO_FAST, WHOLE_FILES, Sections, reasons, rows_of, sections
from measured_ops import LAWS, Case, cases, chip, last_level, other_sort, read
from measured_other_ops import ENCODER, newer, older_chips, others, streams
from roofline.declared.errors import InputError
from roofline.engines.engine import default_engine, engine_named
from roofline.hardware.named_chip import chip_named
from roofline.inference.deployment import deploy
from roofline.inference.generate import launched
from roofline.inference.settings import Setup
from roofline.inference.span import Span
from roofline.kernels import constants
from roofline.kernels.constants import Constants, constants_for
from roofline.measured.accuracy.accuracy import Groups, Reader, score_rows
from roofline.measured.accuracy.csvs import CellError, TableRow, cells
from roofline.measured.accuracy.fitted import NOTHING, OF_COLLECTIVES, OF_KERNELS, fitted_table, kernels_fitted
from roofline.measured.accuracy.measurements import MeasuredRun, as_called, predictions
from roofline.measured.accuracy.measurements import scored as scored_run
from roofline.measured.accuracy.scoring import AIM, ENOUGH, GroupScore, Scored, off_aim, pooled
from roofline.measured.accuracy.tally import Reason, Tally, tally, tally_of_all
from roofline.views.text.measured.accuracy import score_table, tally_table
from roofline.views.text.tables import Column, Table, markdown, plain_text
from roofline.work.step import decode

READERS = {**measured_serving.READERS, **measured_training.READERS}


@dataclass
class Books:
    """What is scored so far: the groups, those of default calls, and by file the rows scored and those left out."""

    groups: Groups = field(default_factory=dict)
    called: Groups = field(default_factory=dict)
    scored: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    left: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, file: str, system: str, names: Iterable[str], part: Scored, called: bool = False) -> None:
        """Some rows to groups of one file and system; `called`: to those of default calls."""
        for name in names:
            (self.called if called else self.groups).setdefault((file, system, name), []).append(part)


def constants_of(case: Case) -> Constants:
    """The constants of the row's own software, or of its op where element-wise ops have their own."""
    kind, _, op = case.kind.partition(".")
    return constants_for(chip_named(case.system), case.dtype, kind, op or case.software)


def score_case(case: Case, fitted: bool = True, seen: bool = True) -> Scored:
    """Predictions of the shipped laws and constants.

    fitted: whether the rows are of releases that were fitted, by which the interval goes. seen: whether these very rows
    took part in the fit.
    far: rows that come from main memory: a working set of 1.2 last-level caches, or of 4 where that cache is in one
    piece and part of a larger set survives in it (L40S, RTX PRO 6000).
    """
    known, machine = constants_of(case), chip(case.system, case.dtype)
    law = LAWS[case.kind.partition(".")[0]]
    with np.errstate(all="ignore"):  # sizes of nothing, which `one` leaves out
        predicted = np.asarray(law(**case.args, chip=machine, c=known.record), dtype=float)
    plain = np.maximum(case.flops / machine.peak, case.size / machine.bandwidth)
    wide = known.unmasked if case.file == ENCODER else known.of_sort(other_sort(case))
    low, high = wide.interval(predicted, fitted)
    far = case.footprint > (4.0 if machine.keeps else 1.2) * last_level(case.system)
    own = fitted and seen and known.grade == "A"
    apart = None if known.mape is None else 100 * known.mape
    return Scored(
        predicted, case.seconds, plain, low * predicted, high * predicted, far, known.grade,
        OF_KERNELS if own else NOTHING, apart,
    )  # fmt: skip


class _Seen(dict[str, bool]):
    """Whether the constants of kernels of a kind were fitted on a folder's file of a name; each is read once."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__()
        self._folder, self._kind = folder, kind

    def __missing__(self, file: str) -> bool:
        self[file] = kernels_fitted(self._kind, fitted_table(self._folder / file))
        return self[file]


def operators(folder: Path, books: Books, apart: Sections, fold: int, only: Sequence[str]) -> None:
    """Every operator row that a law speaks of."""
    older, seen = cases(folder), _Seen(folder, "laws")
    done = rows_of(older, apart)
    fitted = [*older, *streams(folder, done), *older_chips(folder)]
    for part, took_part in ((fitted, True), ([*newer(folder, done), *others(folder)], False)):
        for case in (c for c in part if wanted(c.file, only)):
            one(case, books, apart, fold, took_part, seen)


def one(case: Case, books: Books, apart: Sections, fold: int, took_part: bool, seen: _Seen) -> None:
    """A case: what another section corrects and what beats the speed of light is left out."""
    whole = score_case(case, took_part, seen[case.file])
    sound = np.isfinite(whole.predicted) & (whole.predicted > 0) & (case.flops >= 0) & (case.size > 0)
    case, scored = case.take(sound), whole.take(sound)
    old = np.isin(case.row, apart.superseded.get(case.file, np.array([], dtype=np.int64)))
    fast = scored.far & (scored.plain > case.seconds) & ~old
    books.left[case.file].update(dict.fromkeys(case.row[old].tolist(), SUPERSEDED))
    books.left[case.file].update(dict.fromkeys(case.row[fast].tolist(), TOO_FAST))
    chosen = ~old & ~fast & (case.shape == fold if fold >= 0 else True)
    books.scored[case.file].update(case.row[~old & ~fast].tolist())
    for name, keep in case.slices.items():
        if (keep & chosen).any():
            labels = dict.fromkeys((name, f"{case.dtype},{name}", f"{case.dtype},{case.software},{name}"))
            books.add(case.file, case.system, labels, scored.take(keep & chosen))


def collectives(
    folder: Path, books: Books, apart: Sections, fold: int, only: Sequence[str], without: Path | None = None
) -> None:
    """Every collective that a law speaks of.

    without: constants fitted without each fifth of the sizes, whose intervals then are those of the rows that were
    fitted.
    """
    seen = _Seen(folder, "collectives")
    both = ((measured_collectives.rows(folder), True), (measured_collectives.newer_rows(folder), False))
    for part, took_part in both:
        every = [rows for rows in part if wanted(rows.file, only)]
        ends = None if without is None or not took_part else measured_collectives.judged_apart(every, without)
        for place, r in enumerate(every):
            known_again = np.isin(r.shape.row, apart.repeated.get(r.file, np.array([], dtype=np.int64)))
            try:
                each = list(measured_collectives.scored(r, OF_COLLECTIVES if took_part and seen[r.file] else NOTHING))
            except InputError as error:
                books.left[r.file].update(dict.fromkeys(r.shape.row.tolist(), f"cannot be estimated: {error.field}"))
                continue
            fast = (each[0][1].plain > r.seconds) & ~known_again
            books.left[r.file].update(dict.fromkeys(r.shape.row[fast].tolist(), TOO_FAST))
            books.scored[r.file].update(r.shape.row[~known_again & ~fast].tolist())
            keep = ~known_again & ~fast & (r.shape.fold == fold if fold >= 0 else True)
            for names, scored in each if keep.any() else ():
                judged = scored if ends is None else replace(scored, low=ends[place][0], high=ends[place][1])
                books.add(r.file, r.system, names, judged.take(keep))


def attention_blocks(folder: Path, books: Books, apart: Sections, only: Sequence[str]) -> None:
    """Every attention block of a model of the catalog, as the sum of its ops."""
    nothing = np.array([], dtype=np.int64)
    for b in (b for b in measured_blocks.blocks(folder) if wanted(b.file, only)):
        again, old = (np.isin(b.row, rows.get(b.file, nothing)) for rows in (apart.repeated, apart.superseded))
        fast = (b.scored.plain > b.scored.measured) & ~again & ~old
        keep = ~again & ~old & ~fast
        books.left[b.file].update(dict.fromkeys(b.row[old].tolist(), SUPERSEDED))
        books.left[b.file].update(dict.fromkeys(b.row[fast].tolist(), TOO_FAST))
        books.scored[b.file].update(b.row[keep].tolist())
        if keep.any():
            books.add(b.file, b.system, b.slices, b.scored.take(keep))


def why(error: InputError) -> str:
    """The reason, as it is counted."""
    if isinstance(error, measured_serving.LeftOutError):
        return error.why
    if isinstance(error, CellError):
        return f"{error.field} cannot be read"
    return f"cannot be estimated: {error.field}: {error.expected}"


KINDS = {
    "latency": "static batch", "prefill": "prompt", "decode": "token", "training": "training step",
    "ttft": "first token", "served-ttft": "first token", "served-latency": "request",
    **dict.fromkeys(("tpot", "served-tpot", "served-token"), "token"),
}  # fmt: skip
"""Quantity → what a system's line calls it. Bytes and FLOPs of training, which are those of a layout, have none."""


def of_system(m: MeasuredRun) -> MeasuredRun:
    """The run, also in the groups of its chip, of all engines and of its own."""
    if m.quantity not in KINDS:
        return m
    there = deploy(m.where.on, m.where.layout)
    engine = engine_named(m.where.engine) if m.where.engine else default_engine(there.chip)
    kind = KINDS[m.quantity]
    names = (kind, f"{kind}, {engine.id.partition('@')[0]}")
    return replace(m, slices=(*m.slices, *(f"{SYSTEMS}:{there.chip.id}:{name}" for name in names)))


def of_systems(reader: Reader, r: TableRow) -> Iterator[MeasuredRun]:
    """What a row measured, also in the groups of its chip."""
    return map(of_system, reader(r))


def by_system(groups: Groups) -> Groups:
    """The groups, those of systems under the system's own name."""
    done: Groups = {}
    for (file, system, name), parts in groups.items():
        mark, _, whole = name.partition(":")
        chip, _, what = whole.partition(":")
        key = (SYSTEMS, chip, what) if mark == SYSTEMS else (file, system, name)
        done.setdefault(key, []).extend(parts)
    return done


def runs(folder: Path, books: Books, only: Sequence[str]) -> None:
    """Generations, servers and training, by all that a row tells and by a default call."""
    for file, reader in READERS.items():
        path = folder / file
        if not path.exists() or not wanted(file, only) or file == measured_serving.SATURATED:
            continue
        rows, table, began = list(cells(path)), fitted_table(path), time.monotonic()
        problems = score_rows(file, rows, partial(of_systems, reader), books.groups, why, table)
        books.left[file].update({p.row - 1: p.why for p in problems})
        books.scored[file].update({r.row for r in rows} - set(books.left[file]))
        between = time.monotonic()
        default_calls(file, [r for r in rows if r.row in books.scored[file]], reader, books.called)
        print(f"{file}: {between - began:.0f} s, by default calls {time.monotonic() - between:.0f} s", file=sys.stderr)


def default_calls(file: str, rows: Iterable[TableRow], reader: Reader, groups: Groups) -> None:
    """The same runs as a user asks for them. A call that is refused has no prediction."""
    asked: list[MeasuredRun] = []
    for r in rows:
        with suppress(InputError):
            asked += (as_called(m) for m in of_systems(reader, r) if m.quantity in KINDS)
    for m, answer in zip(asked, predictions(asked), strict=True):
        for name in () if isinstance(answer, InputError) else m.slices:
            groups.setdefault((file, m.system, name), []).append(scored_run(answer, m.seconds))


def mlperf_inference(folder: Path, books: Books, only: Sequence[str] = ()) -> None:
    """MLPerf Inference, seconds of a request of the whole system; each contest is predicted once.

    A row tells nothing beyond what a call says, so both predictions are one.
    """
    for file, month in measured_mlperf.FILES.items():
        path = folder / file
        if not path.exists() or not wanted(file, only):
            continue
        contests, left = measured_mlperf.contests(cells(path), month)
        books.left[file].update({row: why(error) for row, error in left.items()})
        for contest, rows in contests.items():
            limited = "Offline" if contest.scenario == "Offline" else "within limits"
            try:
                span = measured_mlperf.predicted(contest).span(contest)
            except InputError as error:
                books.left[file].update(dict.fromkeys((r.row for r in rows), why(error)))
                continue
            for r in rows:
                part = scored_run(span, measured_mlperf.seconds_of(r, contest))
                names = (limited, f"{limited},{contest.model}", f"{SYSTEMS}:{contest.chip}:requests/s")
                books.add(file, contest.chip, names, part)
                books.add(file, contest.chip, names, part, called=True)
                books.scored[file].add(r.row)


def step_like(asked: Setup, running: float, context: float, seconds: float) -> Span:
    """Seconds that are as certain as a decode step of so many sequences."""
    sequences = max(1, round(running))
    step = launched(asked.plan, decode(sequences, max(1, round(context))), asked.engine.host(sequences))
    return step.times(seconds / step.expected)


AT_ONCE: Mapping[str, float] = {"requests/s": 0.27, "tpot": 0.50, "latency": 0.20}
"""Figure of servers that are sent all requests at once → log deviation beside that of a decode step: of what their
commands do not say, of lengths whose mean alone is known, and of the scheduler. It holds 80 % of GPUStack's rows
(`fit_at_once.py`)."""


def at_once(r: TableRow) -> Iterator[tuple[str, Setup, Span, float]]:
    """What was measured of a server that is sent all requests at once: the figure, the server, ours as certain as a
    decode step, and theirs."""
    s = measured_traffic.at_once(r)
    context = r.number("input_len_mean") + r.number("output_len_mean") / 2
    for what, (ours, theirs) in measured_traffic.at_once_figures(r, s).items():
        yield what, s.asked, step_like(s.asked, s.running, context, ours), theirs


def simulated(folder: Path, books: Books, only: Sequence[str] = ()) -> None:
    """Servers that are followed request by request."""
    path = folder / measured_traffic.GPUSTACK
    for r in cells(path) if path.exists() and wanted(path.name, only) else ():
        try:
            figures = list(at_once(r))
        except InputError as error:
            books.left[path.name][r.row] = why(error)
            continue
        for what, asked, span, theirs in figures:
            part = scored_run(span.scattered(AT_ONCE[what]), theirs)
            books.add(path.name, asked.deployment.chip.id, (what, f"{what},{r.text('engine')}"), part)
        books.scored[path.name].add(r.row)
    path = folder / measured_serving.SATURATED
    rows = list(cells(path)) if path.exists() and wanted(path.name, only) else []
    for r in rows:
        try:
            run = of_system(*measured_serving.saturated(r))
            s = measured_traffic.queued(r, run)
        except InputError as error:
            books.left[path.name][r.row] = why(error)
            continue
        ours = 1 / (s.requests_per_second * run.settings["output_tokens"])
        context = run.settings["input"] + run.settings["output_tokens"] / 2
        part = scored_run(step_like(s.asked, s.running, context, ours), run.seconds)
        books.add(path.name, run.system, run.slices, part)
        books.scored[path.name].add(r.row)
    default_calls(path.name, rows, measured_serving.saturated, books.called)
    path = folder / replay.FILE
    if not path.exists() or not wanted(path.name, only):
        return
    with path.open(newline="") as handle:
        logged = list(csv.DictReader(handle))
    for run in replay.replays(logged):
        mine = [row for row in logged if row["run"] == run.name]
        context = fmean(int(row["input_tokens"]) + int(row["output_tokens"]) / 2 for row in mine)
        step = step_like(run.asked, run.running, context, 1.0)
        (fast,), (slow,) = (replay.replays(mine, float(pace)) for pace in (step.low, step.high))
        for what, pairs in run.pairs.items():
            for (ours, theirs), (low, _), (high, _) in zip(pairs, fast.pairs[what], slow.pairs[what], strict=True):
                span = Span(float(step.floor) * ours, ours, min(low, ours), max(high, ours))
                part = scored_run(span, theirs)
                books.add(path.name, run.asked.deployment.chip.id, (what, f"{what},{run.name}"), part)
    books.scored[path.name].update(range(len(logged)))


def wanted(file: str, only: Sequence[str]) -> bool:
    """Whether a file is to be scored: all where nothing is named."""
    return not only or any(fnmatch(file, pattern) for pattern in only)


def tallies(folder: Path, books: Books, apart: Sections, only: Sequence[str] = ()) -> Iterator[Tally]:
    """What became of the rows of every file."""
    for path in sorted(folder.glob("*.csv")):
        file = path.name
        if not wanted(file, only):
            continue
        try:
            count = sum(1 for _ in cells(path))
        except InputError as error:
            print(f"{file}: {error}", file=sys.stderr)
            continue
        left = {row: text for row, text in books.left[file].items() if row not in books.scored[file]}
        others_ = set(range(count)) - books.scored[file] - set(left)
        if file in WHOLE_FILES:
            left = dict.fromkeys(range(count), WHOLE_FILES[file])
        elif others_:
            nothing = np.array([], dtype=np.int64)
            for rows, text in ((apart.repeated, REPEATED), (apart.superseded, SUPERSEDED)):
                left |= dict.fromkeys((others_ - set(left)) & set(rows.get(file, nothing).tolist()), text)
            frame = read(folder, file)
            texts = reasons(frame, file) if file in KNOWN and frame.height == count else []
            left |= {row: texts[row] if texts else "nothing reads such a file" for row in others_ - set(left)}
        yield tally(file, count, len(books.scored[file]), left.values())


WHOLE_MODELS = ("e2e_", "serving_", "training_", "disaggregation_", "requests_", "rl_", "local_", "tpu_", "power_")
"""How tables of whole models begin."""
NO_DECODERS = ("_fp32_", "_nondecoder")
"""What the name of a table of other models, or of no engine, holds."""


def of_decoders(tallies: Iterable[Tally]) -> Tally:
    """The tables of decoders' inference and training, together."""
    names = [t for t in tallies if t.file.startswith(WHOLE_MODELS) and not any(n in t.file for n in NO_DECODERS)]
    return tally_of_all(names, "decoders")


@dataclass(frozen=True)
class Report:
    """Everything that is printed: the tallies, the scores, and those of the same rows by default calls."""

    tallies: tuple[Tally, ...] = ()
    scores: tuple[GroupScore, ...] = ()
    called: tuple[GroupScore, ...] = ()

    @property
    def total(self) -> Tally:
        """Of all files."""
        return tally_of_all(self.tallies)

    @property
    def outside(self) -> tuple[GroupScore, ...]:
        """Groups whose interval holds too few rows or too many."""
        return tuple(s for s in self.scores if s.outside or (s.n >= FEW and is_engine_on_chip(s) and off(s)))

    def over(self, before: Report) -> Report:
        """This, and of another report what is not in it. Groups of systems are those of the files that were scored."""
        new = {t.file for t in self.tallies}
        files = sorted((*self.tallies, *(t for t in before.tallies if t.file not in new)), key=lambda t: t.file)
        return Report(tuple(files), _over(self.scores, before.scores), _over(self.called, before.called))

    def text(self) -> str:
        """As JSON, which `read_report` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"


def _over(new: Iterable[GroupScore], before: Iterable[GroupScore]) -> tuple[GroupScore, ...]:
    every = {(s.file, s.system, s.slice): s for s in (*before, *new)}
    return tuple(every[name] for name in sorted(every))


FEW = 30
"""Fewest rows of an engine on a chip for which coverage is judged."""
FAR = 4.0
"""Standard deviations of a coverage beyond which no group should be."""


def is_engine_on_chip(s: GroupScore) -> bool:
    """Whether the group is what was measured of an engine on a chip."""
    return s.file == SYSTEMS and "," in s.slice and s.system != "all"


def off(s: GroupScore) -> bool:
    """Whether the interval holds too few or too many of the group's rows."""
    return off_aim(s.n, s.covered)


def coverage(scores: Sequence[GroupScore]) -> Table:
    """How many groups have an interval that holds too few or too many of their rows."""
    whole_files = [s for s in scores if s.system == "all" and s.file != SYSTEMS and s.n >= ENOUGH]
    kinds = {
        "kernels and collectives": [s for s in whole_files if s.file not in E2E],
        "whole models": [s for s in whole_files if s.file in E2E],
        "engines on a chip": [s for s in scores if is_engine_on_chip(s) and s.n >= FEW],
    }
    kinds["all"] = [s for each in kinds.values() for s in each]
    lines = tuple(
        (name, len(each), sum(map(off, each)), f"{100 * sum(map(off, each)) / max(1, len(each)):.1f}",
         sum(off(s) and s.covered < AIM for s in each), sum(off_aim(s.n, s.covered, FAR) for s in each))
        for name, each in kinds.items()
    )  # fmt: skip
    heads = ("groups", "rows are enough", "off", "% off", "too narrow", f"beyond {FAR:g} deviations")
    return Table(tuple(Column(head, "plain" if i else "text") for i, head in enumerate(heads)), lines, name="coverage")


E2E = frozenset({*READERS, *measured_mlperf.FILES, measured_traffic.GPUSTACK, replay.FILE})
"""The files of whole models."""


def report(folder: Path, fold: int = -1, only: Sequence[str] = (), without: Path | None = None) -> Report:
    """All of it, or what files of these patterns hold; the pseudo-system `all` pools the systems of a file."""
    books, apart = Books(), sections(folder)
    operators(folder, books, apart, fold, only)
    collectives(folder, books, apart, fold, only, without)
    attention_blocks(folder, books, apart, only)
    runs(folder, books, only)
    mlperf_inference(folder, books, only)
    simulated(folder, books, only)
    told, called = by_system(books.groups), by_system(books.called)
    return Report(tuple(tallies(folder, books, apart, only)), tuple(pooled(told)), tuple(pooled(called)))


def read_report(path: Path) -> Report:
    """A report that `Report.text` wrote."""

    def score(entry: dict[str, Any]) -> GroupScore:
        return GroupScore(**{**entry, "ratios": tuple(entry["ratios"])})

    data = json.loads(path.read_text(encoding="utf-8"))
    counted = (Tally(**{**t, "reasons": tuple(Reason(**r) for r in t["reasons"])}) for t in data["tallies"])
    return Report(tuple(counted), *(tuple(map(score, data[name])) for name in ("scores", "called")))


def main(argv: list[str]) -> None:
    """Prints the tables, and writes the JSON and the page where asked."""
    parser = argparse.ArgumentParser(description="Scores the shipped constants on a folder of measurements.")
    parser.add_argument("folder", type=Path, help="the folder, or a JSON file that --json wrote")
    parser.add_argument("--json", type=Path, help="write the rows of each file and the scores here")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="score these files alone")
    parser.add_argument("--over", type=Path, help="a JSON file whose other groups are kept; name all files of a kind")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument(
        "--coverage", action="store_true", help="print how many groups have a wrong interval, and which"
    )
    parser.add_argument("--readme", action="store_true", help="print the README's table")
    parser.add_argument("--page", type=Path, help="write the tables beside docs/accuracy.md, its picture and summary")
    parser.add_argument("--fold", type=int, default=-1, help="only the rows of this fifth of the shapes")
    parser.add_argument(
        "--without", type=Path, help="a folder of collectives-N.toml, fitted without fold N, to judge intervals by"
    )
    parser.add_argument("--constants", type=Path, default=constants.FOLDER, help="a folder that fit_laws.py wrote")
    options = parser.parse_args(argv)
    constants.FOLDER = options.constants
    if options.folder.suffix == ".json":
        done = read_report(options.folder)
    elif options.folder.is_dir():
        done = report(options.folder, options.fold, options.only, options.without)
    else:
        parser.error(f"{options.folder}: neither a folder nor a JSON file")
    if options.over:
        done = done.over(read_report(options.over))
    if options.json:
        options.json.write_text(done.text(), encoding="utf-8")
    if options.page:
        accuracy_page.write(options.page, done.tallies, done.scores, done.called)
    if options.readme:
        print(accuracy_page.readme(done.scores, done.called))
    elif options.markdown:
        print(markdown(tally_table(done.tallies, done.total)), markdown(score_table(done.scores)), sep="\n\n")
    elif options.coverage:
        print(plain_text(coverage(done.scores)), plain_text(score_table(done.outside)), sep="\n\n")
    else:
        print(plain_text(tally_table(done.tallies, done.total)), plain_text(score_table(done.scores)), sep="\n\n")
    known = of_decoders(done.tallies)
    share = known.scored / max(known.rows, 1)
    print(
        f"\nInference and training of decoders: {known.scored:,} of {known.rows:,} rows scored, {share:.0%}",
        file=sys.stderr,
    )
    print("\n".join(f"{r.rows:7,}  {r.why}" for r in known.reasons), file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
