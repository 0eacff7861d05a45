"""Compare benchmark results with predictions of `estimate`, `generate` and `serve` for the same requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.groups import Load, PlaceSettings, RequestFlow
from roofline.declared.question import group_settings
from roofline.declared.result import Figured, Result, Units
from roofline.inference.generate import generate
from roofline.measured.compare.results import Measured
from roofline.model.model import Model
from roofline.programs.estimate import estimate
from roofline.serving.serve import serve
from roofline.serving.server import Serving
from roofline.work.step import prefill


@dataclass(frozen=True)
class ComparedResult(Figured):
    """A measurement and its prediction in the measurement's unit: seconds, or tokens per second.

    `error`: expected / measured − 1. `why`: reason why there is no prediction.
    """

    FIGURES: ClassVar[Units] = {
        "quantity": "", "input": "", "output": "", "depth": "", **dict.fromkeys(group_settings(RequestFlow), ""),
        "measured": "", "expected": "", "low": "", "high": "", "error": "share", "inside": "", "why": "",
    }  # fmt: skip

    of: Measured
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""

    @property
    def quantity(self) -> str:
        """Quantity that was measured."""
        return self.of.quantity

    @property
    def input(self) -> int:
        """Mean tokens per prompt."""
        return self.of.input

    @property
    def output(self) -> int:
        """Mean tokens per answer."""
        return self.of.output

    @property
    def depth(self) -> int:
        """Tokens in the cache beforehand."""
        return self.of.depth

    @property
    def concurrency(self) -> int | None:
        """Number of requests in flight."""
        return None if self.of.sent.concurrency is None else int(self.of.sent.concurrency)

    @property
    def rate(self) -> float | None:
        """Requests per second."""
        return None if self.of.sent.rate is None else float(self.of.sent.rate)

    @property
    def measured(self) -> float:
        """Value that the tool reports."""
        return self.of.value

    @property
    def error(self) -> float | None:
        """Relative error: expected / measured − 1."""
        return self.expected / self.measured - 1 if self.expected else None

    @property
    def inside(self) -> bool | None:
        """Whether the measurement lies within the predicted interval."""
        return None if self.low is None or self.high is None else self.low <= self.measured <= self.high


@dataclass(frozen=True, repr=False)
class ComparedResults(Result):
    """Result of `compare` for benchmark results."""

    SCHEMA: ClassVar[str] = "roofline.compared_results/1"
    FIGURES: ClassVar[Units] = {"model": "", "on": "", "engine": "", "results": ""}

    model: str
    on: str
    engine: str
    results: tuple[ComparedResult, ...]


def compared_results(model: Model, rows: Sequence[Measured], where: PlaceSettings) -> ComparedResults:
    """Compare each measurement with its prediction; rows that cannot be predicted give the reason."""

    @cache
    def served(load: Load) -> Serving:
        answer: Serving = serve(model, where, load)
        return answer

    def one(row: Measured) -> ComparedResult:
        try:
            spans = tuple(_spans(model, row, served, where))
        except InputError as error:
            return ComparedResult(row, why=str(error))
        if not spans:
            return ComparedResult(row, why="neither a concurrency nor a rate")
        expected, low, high = spans if len(spans) == 3 else (*spans, None, None)
        return ComparedResult(row, expected, low, high)

    at = generate(model, where, input=1, output_tokens=2)
    return ComparedResults(model.name, at.chip.id, at.engine.id, tuple(map(one, rows)))


def _spans(model: Model, row: Measured, served: Callable[[Load], Serving], where: PlaceSettings) -> Iterator[float]:
    """Expected value, and low and high where there is an interval, in the measurement's unit."""
    if row.quantity == "prompt":
        span = estimate(model, prefill(1, row.input, cached=row.depth), where).span
        yield from (row.input / float(t) for t in (span.expected, span.high, span.low))
    elif row.quantity == "answer":
        span = generate(model, where, input=max(1, row.depth), output_tokens=max(2, row.output)).tpot
        yield from (1 / float(t) for t in (span.expected, span.high, span.low))
    elif row.sent != RequestFlow():
        answer = served(row.load)
        if row.quantity == "throughput":
            yield float(answer.tokens_per_second)
            return
        span = {"ttft": answer.ttft, "tpot": answer.tpot, "latency": answer.latency}[row.quantity]
        yield from (float(t) for t in (span.expected, span.low, span.high))
