"""Fit a chip's constants for llama.cpp to llama-bench measurements on it.

The backend's kernels keep their laws and launch times. Two factors are fitted: that of all kernels' share of the
bandwidth, from the answers, and that of their share of the peak, from the prompts. Each row gives one factor by itself;
the median over rows is used, and a row is held out by taking the median of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import exp, log
from statistics import median
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.frozen_mapping import frozen_tree
from roofline.declared.groups import PlaceSettings
from roofline.declared.result import Figured, Result, Units
from roofline.engines.engine import Engine, engine_named
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import constants_for
from roofline.kernels.law import RECORDS
from roofline.measured.compare.benchmarks import compared_results
from roofline.measured.compare.results import Measured
from roofline.model.load import Source, model_of
from roofline.model.model import Model

ENGINE = "llama.cpp"
FARTHEST = log(20)
"""Log of the largest factor; a machine more than twenty times as fast or slow as predicted is a different one."""
HALVINGS = 12
MOST_ROWS = 64
LEAST_WIDTH = 1.05
"""Narrowest interval: llama-bench results differ by a few per cent from day to day."""
DTYPES = ("bf16", "bf16_kv_bf16", "int8_wo", "int4_wo", "w4a16_mxfp4")
"""Formats of llama.cpp's products."""


@dataclass(frozen=True)
class FittedRow(Figured):
    """A row in tokens per second: measured, and predicted with three sets of constants.

    `before`: the catalog's constants. `fitted`: constants fitted on all rows. `held_out`: constants fitted on the other
    rows, None if there is no other row of its kind.
    """

    FIGURES: ClassVar[Units] = {
        "quantity": "", "input": "", "output": "", "depth": "", "measured": "tokens/s", "before": "tokens/s",
        "fitted": "tokens/s", "held_out": "tokens/s",
    }  # fmt: skip

    quantity: str
    input: int
    output: int
    depth: int
    measured: float
    before: float
    fitted: float
    held_out: float | None


@dataclass(frozen=True, repr=False)
class BenchFit(Result):
    """A chip with constants of its own.

    `memory`, `compute`: factors of the shares of bandwidth and of peak, 1 where no answer or no prompt was measured.
    `low`, `high`: ends of an op's interval over its expected time.
    """

    SCHEMA: ClassVar[str] = "roofline.bench_fit/1"
    FIGURES: ClassVar[Units] = {
        "model": "", "on": "", "engine": "", "memory": "", "compute": "", "low": "", "high": "", "rows": "",
    }  # fmt: skip

    chip: Chip
    model: str
    on: str
    engine: str
    memory: float
    compute: float
    low: float
    high: float
    rows: tuple[FittedRow, ...]


def bench_fit(
    model: Model | Source,
    rows: Sequence[Measured],
    on: str | Chip,
    engine: str | Engine | None = None,
    precision: str | None = None,
) -> BenchFit:
    """Fit constants of the chip `on` to rows of llama-bench, which ran `model` in `precision` on it.

    Raises InputError for a machine of several chips, an engine without constants of its own kernels, more than 64
    prompts and answers, and rows without a prompt or answer of one sequence that can be predicted.
    """
    built, chip = model_of(model), chip_named(on)
    how = engine_named(engine or ENGINE).on(chip)
    if how.software is None or not how.software.startswith("llama.cpp"):
        raise InputError("--engine", how.plain(), "llama.cpp, whose kernels llama-bench runs")
    known = [row for row in rows if row.quantity in ("answer", "prompt")]
    if not 0 < len(known) <= MOST_ROWS:
        raise InputError("--llama-bench", f"{len(known)} prompts and answers", f"from 1 to {MOST_ROWS}")
    question = _Question(built, chip, how.software, PlaceSettings(on=chip, engine=how.id, precision=precision))
    before = [question.rate(row, 1.0, 1.0) for row in known]
    answers = {i: question.alone(row, 1.0) for i, row in enumerate(known) if row.quantity == "answer"}
    memory = _middle(answers.values())
    prompts = {i: question.alone(row, memory) for i, row in enumerate(known) if row.quantity == "prompt"}
    compute = _middle(prompts.values())
    fitted: list[float] = []
    apart: list[float | None] = []
    for i, row in enumerate(known):
        fitted.append(question.rate(row, memory, compute))
        mine = answers if i in answers else prompts
        others = [share for j, share in mine.items() if j != i]
        share = _middle(others)
        shares = (share, compute) if i in answers else (memory, share)
        apart.append(question.rate(row, *shares) if others else None)
    off = [abs(log(rate / row.value)) for row, rate in zip(known, apart, strict=True) if rate]
    width = max(LEAST_WIDTH, exp(max(off))) if off else None
    own = question.chip_of(memory, compute, width, f"{chip.id}-llama-bench")
    low, high = (1 / width, width) if width else question.ends()
    told = tuple(
        FittedRow(row.quantity, row.input, row.output, row.depth, row.value, catalog, all_rows, others_alone)
        for row, catalog, all_rows, others_alone in zip(known, before, fitted, apart, strict=True)
    )
    return BenchFit(own, built.name, chip.id, how.id, memory, compute, low, high, told)


@dataclass(frozen=True)
class _Question:
    """A model on a chip with an engine's kernels."""

    model: Model
    chip: Chip
    software: str
    where: PlaceSettings

    def rate(self, row: Measured, memory: float, compute: float) -> float:
        """Predicted tokens per second of a row with these factors of the shares. Raises InputError if there is none."""
        id = f"{self.chip.id}*{memory:.12g}*{compute:.12g}"
        one = compared_results(
            self.model, [row], replace(self.where, on=self.chip_of(memory, compute, None, id))
        ).results[0]
        if not one.expected:
            raise InputError("--llama-bench", f"{row.quantity} of {row.input + row.output} tokens", one.why)
        return one.expected

    def alone(self, row: Measured, memory: float) -> float:
        """Factor of the share that limits a row with which the row's prediction is exact, by bisection."""
        low, high = -FARTHEST, FARTHEST
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            shares = (exp(middle), 1.0) if row.quantity == "answer" else (memory, exp(middle))
            low, high = (middle, high) if self.rate(row, *shares) < row.value else (low, middle)
        return exp((low + high) / 2)

    def chip_of(self, memory: float, compute: float, width: float | None, id: str) -> Chip:
        """The chip with scaled constants, shares at most 1; a `width` of None keeps the backend's intervals."""
        tree: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
        for dtype, kind in product(DTYPES, RECORDS):
            base = constants_for(self.chip, dtype, kind, self.software)
            values = {f.name: float(getattr(base.record, f.name)) for f in fields(base.record)}
            for name, factor in (("memory", memory), ("compute", compute)):
                if name in values:
                    values[name] = min(1.0, values[name] * factor)
            low, high = base.large if width is None else (1 / width, width)
            values |= {"low": low, "high": high, "low_small": low, "high_small": high}
            tree.setdefault(dtype, {})[kind] = {self.software: values}
        return replace(self.chip, id=id, name=f"{self.chip.name}, as measured", aliases=(), constants=frozen_tree(tree))

    def ends(self) -> tuple[float, float]:
        """The backend's interval of a matrix product."""
        return constants_for(self.chip, "bf16", "matmul", self.software).large


def _middle(shares: Iterable[float]) -> float:
    """The median; 1 if there are no values."""
    known = list(shares)
    return median(known) if known else 1.0
