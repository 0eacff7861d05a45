"""Text of an estimate op by op, and phrases shared by all times."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import counted, seconds, si
from roofline.inference.deployment import Deployment
from roofline.inference.memory.memory import Memory
from roofline.inference.settings import Deployed, Setup
from roofline.inference.span import Span
from roofline.inference.step import Estimate, OpTime
from roofline.kernels.kernels import is_matrix, matrix_format
from roofline.views.text.inference.analysis import CSV_HEADER, NamedStep, csv_row, rank_text, step_text
from roofline.views.text.tables import Column, Table

GRADES = {
    "A": "constants fitted on this chip",
    "B": "constants of its generation",
    "C": "constants from other chips",
    "-": "this law has no fitted constants",
}
TIMED_CSV_HEADER = (*CSV_HEADER, "floor", "expected", "low", "high", "joules", "bound", "grade")


def time_table(name: str, e: Estimate) -> Table:
    """One line for each op: work, time, speed of light, and what limits it."""
    a = e.analysis
    columns = (
        Column("Op"), Column("Block", drop=1), Column("Layers", "count", drop=5), Column("FLOPs", "FLOP", drop=4),
        Column("Bytes", "B", drop=3), Column("FLOP/B", "FLOP/B", drop=2), Column("Floor", "s"), Column("Expected", "s"),
        Column("80 % within", "interval", drop=1), Column("Share", "share"), Column("Energy", "J", drop=7),
        Column("Bound"), Column("Grade", drop=6),
    )  # fmt: skip
    rows = tuple(_op_row(op, e) for op in e.ops)
    total = (
        (
            "Total", "", None, a.flops, a.bytes, a.intensity, e.serial_floor, e.time, e.interval, 1.0, e.chip_joules,
            e.bound, e.grade,
        ),
    )  # fmt: skip
    title = f"{name}: {step_text(a.step)}{rank_text(a)} · {e.chip.name} · {e.formats.text()}{_ridges(e)}"
    return Table(columns, rows, total, title)


def _ridges(e: Estimate) -> str:
    """Ridge points in FLOP/B of the formats of products."""
    formats = dict.fromkeys(matrix_format(op.cost.op, e.target) for op in e.ops if is_matrix(op.cost.op))
    return "".join(f" · ridge {e.chip.ridge(f):.0f} FLOP/B in {f}" for f in formats if f in e.chip.peaks)


def _op_row(op: OpTime, e: Estimate) -> tuple[object, ...]:
    cost, quantises = op.cost, op.kind == "quantise"
    work = (None, None, None) if quantises else (cost.flops, cost.bytes, cost.intensity)
    times = (op.floor, op.expected, op.interval, e.part(op), op.joules)
    return (op.name, cost.block, cost.layers, *work, *times, op.bound, op.grade)


def timed_csv_rows(steps: Sequence[NamedStep]) -> list[tuple[object, ...]]:
    """Rows under TIMED_CSV_HEADER; quantization passes have only times."""
    rows: list[tuple[object, ...]] = []
    for step in steps:
        for op in step.estimate.ops if step.estimate is not None else ():
            cost = csv_row(step.name, op.cost)
            if op.kind == "quantise":
                cost = (step.name, op.name, op.kind, op.cost.block, op.cost.layers, *(None for _ in cost[5:]))
            rows.append((*cost, op.floor, op.expected, *op.interval, op.joules, op.bound, op.grade))
    return rows


def summary(e: Estimate) -> str:
    """Summary of the step in a few lines."""
    low, high = e.interval
    halves = "two halves of the sequences in turn where that is faster; the ops above stand for all at once\n"
    within = (
        f"80 % of measurements within {seconds(low)} to {seconds(high)}" if low < high else "this law has no interval"
    )
    return (
        f"expected {seconds(e.time)} ({within}), {e.bound} bound; "
        f"speed of light {seconds(e.serial_floor)} one op after another, {seconds(e.floor)} overlapped\n"
        f"{halves if e.deployment.layout.overlap else ''}"
        f"memory needed {memory_text(e.memory)}; grade {e.grade}: {GRADES[e.grade]}{_memory_traffic(e)}"
        + "".join(f"\nassumed: {line}" for line in routing_lines(e.assumed_popularity))
    )


def _memory_traffic(e: Estimate) -> str:
    """Bytes that cross each of a chip's memories, where it has several."""
    each = (f"{c.name} {si(c.bytes, 'B')} in {seconds(c.seconds)}" for c in e.memory_traffic)
    return f"\nread and written at full bandwidth: {', '.join(each)}" if e.memory_traffic else ""


# -- words ---------------------------------------------------------------------------------------------------------
def deployment_text(d: Deployment) -> str:
    """The chip, or the number of chips and the layout."""
    if d.chips == 1:
        return d.chip.name
    whole = "the whole machine as " if d.chosen else ""
    return f"{d.chips} × {d.chip.name} ({whole}{d.text})"


def routing_lines(exponent: float | None) -> list[str]:
    """How steps visit experts, by an answer's `assumed_popularity`: empty where nothing is assumed."""
    return [] if exponent is None else [f"experts visited as with popularity={exponent:g}"]


def first_line(answer: Deployed | Setup, memory: Memory) -> str:
    """Deployment and engine and, if so, that it does not fit."""
    where = f"{deployment_text(answer.deployment)} · {answer.engine.titled}"
    return where if memory.fits else f"{where}: {misfit(memory)}"


def misfit(memory: Memory) -> str:
    """Says that it does not fit, and what the times assume."""
    return f"does not fit, {memory_text(memory)} a chip; times ignore the memory limit"


def share_text(batch: Count, per_replica: Count, idle: Count, d: Deployment, noun: str = "sequence") -> str:
    """Share of a batch per replica; empty for one replica."""
    if d.layout.dp == 1:
        return ""
    fewer = f", {counted(idle, 'replica')} with fewer" if idle else ""
    return f"{counted(batch, noun)} over {d.layout.dp} replicas: {per_replica} on the busiest{fewer}"


def chips_text(d: Deployment) -> str:
    """Whether a rate is per chip or of all chips."""
    return "this chip" if d.chips == 1 else f"all {d.chips} chips"


def memory_text(memory: Memory) -> str:
    """Memory needed and available, and what the engine's rule leaves for the cache; of several memories, each."""
    if memory.tiers:
        return ", ".join(f"{t.name} {si(t.total, 'B')} of {si(t.capacity, 'B')}" for t in memory.tiers)
    wants = memory.cache + memory.state
    budget = memory.capacity if memory.budget is None else memory.budget
    over = wants > budget and memory.total <= memory.capacity
    rule = f", of which the engine leaves the cache {si(max(0.0, budget), 'B')}" if over else ""
    return f"{si(memory.total, 'B')} of {si(memory.capacity, 'B')}{rule}"


def span_text(s: Span) -> str:
    """Expected value, interval and floor."""
    return f"{seconds(s.expected)} ({seconds(s.low)} to {seconds(s.high)}; speed of light {seconds(s.floor)})"


def shares_text(e: Estimate, least: float = 0.02) -> str:
    """The kinds of op with the largest shares of time."""
    return ", ".join(f"{kind} {100 * part:.0f} %" for kind, part in e.shares if part >= least)
