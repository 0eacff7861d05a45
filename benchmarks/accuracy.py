"""Scores the shipped constants on a folder of measurements.

    python benchmarks/accuracy.py DIR [--json FILE] [--markdown] [--fold N]

For each file, system and slice: rows, mean and median absolute error and bias of predicted / measured − 1, the error
of the plain roofline, the share of rows faster than the floor (of those whose working set exceeds the last-level
cache), and the share inside the stated 80 % interval. All in percent. The constants of a row are those of the
software that it names. --fold N keeps the rows of one fifth of the shapes, by the hash that fit_laws.py holds them out
with, and --constants FOLDER takes constants fitted without them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import measured_collectives
import measured_serving
import measured_training
from measured_ops import LAWS, Case, Column, cases, chip, last_level
from roofline.machine import constants
from roofline.machine.chip import chip_named
from roofline.machine.constants import Constants, constants_for

SERVED = (
    measured_serving.static_batches, measured_serving.faster_transformer, measured_serving.servers,
    measured_training.megatron, measured_training.simumax, measured_training.foundry, measured_training.flops,
)  # fmt: skip


@dataclass(frozen=True)
class Score:
    """One line of the table; errors and shares in percent. `floor_exceeds` is None where every row may sit in cache."""

    file: str
    system: str
    slice: str
    n: int
    mape: float
    median: float
    bias: float
    plain_mape: float
    floor_exceeds: float | None
    covered: float
    grade: str


@dataclass(frozen=True)
class Scored:
    """Rows with what was predicted for them, seconds.

    `far`: rows that come from main memory: a working set of 1.2 last-level caches, or of 4 where that cache is in one
    piece and part of a larger set survives in it (L40S, RTX PRO 6000).
    """

    predicted: Column
    measured: Column
    plain: Column
    low: Column
    high: Column
    far: NDArray[np.bool_]
    grade: str

    def take(self, keep: NDArray[np.bool_]) -> Scored:
        """Some of the rows."""
        parts = (self.predicted, self.measured, self.plain, self.low, self.high, self.far)
        return Scored(*(p[keep] for p in parts), self.grade)


def operators(folder: Path, fold: int) -> Iterator[tuple[str, str, str, Scored]]:
    """Every operator row that a law speaks of, by file, system and slice."""
    for case in cases(folder):
        scored = score_case(case)
        chosen = case.shape == fold if fold >= 0 else np.ones(len(case.seconds), dtype=bool)
        for name, keep in case.slices.items():
            if (keep & chosen).any():
                part = scored.take(keep & chosen)
                for label in dict.fromkeys((name, f"{case.dtype},{name}", f"{case.dtype},{case.software},{name}")):
                    yield case.file, case.system, label, part


def constants_of(case: Case) -> Constants:
    """The constants of the row's own software, or of its op where element-wise ops have their own."""
    kind, _, op = case.kind.partition(".")
    return constants_for(chip_named(case.system), case.dtype, kind, op or case.software)


def score_case(case: Case) -> Scored:
    """Predictions of the shipped laws and constants."""
    fitted, machine = constants_of(case), chip(case.system, case.dtype)
    predicted = np.asarray(LAWS[case.kind.partition(".")[0]](**case.args, chip=machine, c=fitted.record), dtype=float)
    plain = np.maximum(case.flops / machine.peak, case.size / machine.bandwidth)
    low, high = fitted.interval(predicted)
    far = case.footprint > (4.0 if machine.keeps else 1.2) * last_level(case.system)
    return Scored(predicted, case.seconds, plain, low * predicted, high * predicted, far, fitted.grade)


def served(folder: Path) -> Iterator[tuple[str, str, str, Scored]]:
    """Generations and servers on one chip."""
    for rows in SERVED:
        for row in rows(folder):
            p = row.predicted
            values = (p.expected, row.measured, p.floor, p.low, p.high)
            one = Scored(*(np.array([v]) for v in values), np.array([True]), "-")
            yield from ((row.file, row.system, name, one) for name in row.slices)


def summed(file: str, system: str, name: str, parts: list[Scored]) -> Score:
    """The figures of one line."""
    columns = ("predicted", "measured", "plain", "low", "high", "far")
    p, m, plain, low, high, far = (np.concatenate([getattr(s, c) for s in parts]) for c in columns)
    error = p / m - 1
    exceeds = 100 * float(np.mean(plain[far] > m[far])) if far.any() else None
    figures = (
        np.mean(np.abs(error)),
        np.median(np.abs(error)),
        np.mean(error),
        np.mean(np.abs(plain / m - 1)),
    )
    covered = float(np.mean((m >= low) & (m <= high)))
    grade = "".join(sorted({s.grade for s in parts}))
    return Score(file, system, name, len(m), *(100 * float(f) for f in figures), exceeds, 100 * covered, grade)


def scores(folder: Path, fold: int = -1) -> list[Score]:
    """All lines; the pseudo-system `all` pools the systems of a file."""
    groups: dict[tuple[str, str, str], list[Scored]] = defaultdict(list)
    for file, system, name, part in (*operators(folder, fold), *served(folder)):
        groups[file, system, name].append(part)
        groups[file, "all", name].append(part)
    lines = [summed(*key, parts) for key, parts in groups.items()]
    lines += [Score(**line) for line in measured_collectives.collectives(folder, fold)]
    return sorted(lines, key=lambda s: (s.file, s.system, s.slice))


def table(lines: Iterable[Score], markdown: bool) -> str:
    """The lines as text, or as a Markdown table."""
    head = ["file", "system", "slice", "n", "MAPE", "median", "bias", "plain", "floor exceeds", "covered", "grade"]
    rows = [
        [
            s.file,
            s.system,
            s.slice,
            str(s.n),
            f"{s.mape:.1f}",
            f"{s.median:.1f}",
            f"{s.bias:+.1f}",
            f"{s.plain_mape:.1f}",
            "" if s.floor_exceeds is None else f"{s.floor_exceeds:.2f}",
            f"{s.covered:.0f}",
            s.grade,
        ]
        for s in lines
    ]
    if markdown:
        rule = ["---"] * 3 + ["--:"] * 7 + ["---"]
        return "\n".join("| " + " | ".join(r) + " |" for r in [head, rule, *rows])
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines_out = (
        "  ".join(c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True)))
        for r in [head, *rows]
    )
    return "\n".join(lines_out)


# The lines of the README's table: what it is, file, systems (each, or all pooled), slice.
EACH = {
    "h100_sxm": "H100", "h200_sxm": "H200", "a100_sxm": "A100", "b200_sxm": "B200", "gb200": "GB200", "l40s": "L40S",
    "rtx_pro_6000_server": "RTX PRO 6000", "b60": "Arc B60",
}  # fmt: skip
SUMMARY = (
    *((f"bf16 GEMM, {name}", "gemm_bf16_aic.csv", s, "n,k>=256") for s, name in EACH.items()),
    ("fp8 GEMM", "gemm_lowprec_aic.csv", "all", "fp8,all"),
    ("fp8-block GEMM", "gemm_lowprec_aic.csv", "all", "fp8_block,all"),
    ("nvfp4 GEMM", "gemm_lowprec_aic.csv", "all", "nvfp4,all"),
    ("prefill attention, b·s ≥ 4096", "attention_prefill_aic.csv", "all", "b*s>=4096"),
    ("decode attention, KV beyond L2", "attention_decode_aic.csv", "all", "KV>L2"),
    ("decode attention", "attention_decode_aic.csv", "all", "all"),
    ("MoE layer, bf16", "moe_aic.csv", "all", "bf16,all"),
    ("MLA kernels", "mla_aic.csv", "all", "all"),
    ("gated delta net kernels", "gdn_linear_attention_aic.csv", "all", "all"),
    ("static batch, A100 40 GB, whole latency", measured_serving.STATIC, "a100-sxm-40gb", "all"),
    ("static batch, H100, whole latency", measured_serving.STATIC, "h100-sxm", "all"),
    ("static batch, GH200, whole latency", measured_serving.STATIC, "gh200", "all"),
    ("static batch, FasterTransformer, A100 80 GB", measured_serving.FASTER, "all", "all"),
    ("serving, TPOT, dense, H100 and H200", measured_serving.SERVING, "all", "tpot,dense"),
    ("serving, TPOT, mixtures of experts, H200", measured_serving.SERVING, "all", "tpot,moe"),
    ("static batch, FasterTransformer, A100, tensor parallel", measured_serving.FASTER, "all", "many chips"),
    ("serving, TPOT, dense, tensor parallel", measured_serving.SERVING, "all", "tpot,dense,many chips"),
    ("serving, TPOT, mixtures of experts, many chips", measured_serving.SERVING, "all", "tpot,moe,many chips"),
    ("training, Megatron-LM on A100, iteration", measured_training.MEGATRON, "all", "iteration"),
    ("training, Megatron-LM on 8 B200, iteration", measured_training.SIMUMAX, "all", "iteration"),
    ("training, Megatron-LM on 8 B200, peak memory", measured_training.SIMUMAX, "all", "peak memory, GiB"),
    ("training, llm-foundry FSDP on A100, bf16", measured_training.FOUNDRY, "all", "bf16 step"),
    ("training, FLOPs per token, Megatron-Bridge", measured_training.BRIDGE, "all", "GFLOP per token"),
)


def readme(lines: Iterable[Score]) -> str:
    """The README's table."""
    by_name = {(s.file, s.system, s.slice): s for s in lines}
    rows = [
        "| what | rows | mean error | median | plain roofline | in the 80 % interval |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for what, *key in SUMMARY:
        s = by_name.get((key[0], key[1], key[2]))
        if s is not None:
            figures = f"{s.mape:.1f} % | {s.median:.1f} % | {s.plain_mape:.0f} % | {s.covered:.0f} %"
            rows.append(f"| {what} | {s.n:,} | {figures} |")
    return "\n".join(rows)


def main(argv: list[str]) -> None:
    """Prints the table, and writes the JSON list where asked."""
    parser = argparse.ArgumentParser(description="Scores the shipped constants on a folder of measurements.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write the list of objects here")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--readme", action="store_true", help="print the README's table")
    parser.add_argument("--fold", type=int, default=-1, help="only the rows of this fifth of the shapes")
    parser.add_argument("--constants", type=Path, default=constants.FOLDER, help="a folder that fit_laws.py wrote")
    options = parser.parse_args(argv)
    constants.FOLDER = options.constants
    if not options.folder.is_dir():
        parser.error(f"{options.folder}: not a folder")
    lines = scores(options.folder, options.fold)
    print(readme(lines) if options.readme else table(lines, options.markdown))
    left = measured_serving.skipped(options.folder)
    print(f"{left} rows on more than one chip were not scored", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps([asdict(s) for s in lines], indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
