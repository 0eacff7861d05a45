"""Views of an estimate: op by op on a chip; and the words and JSON that views of times share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.estimates.generate import Span
from roofline.estimates.latency import Estimate, OpTime
from roofline.estimates.place import Placed
from roofline.machine.chip import Chip
from roofline.machine.timing import matrix_format
from roofline.show.analysis import CSV_HEADER, csv_row, precision_json, precision_text, rank_text, step_text
from roofline.show.tables import Column, Table
from roofline.show.units import ratio, seconds, share, si

GRADES = {
    "A": "constants fitted on this chip",
    "B": "constants of its generation",
    "C": "constants from other chips",
    "-": "a law without constants",
}
TIMED_CSV_HEADER = (*CSV_HEADER, "floor", "expected", "low", "high", "bound", "grade")


def time_table(name: str, e: Estimate) -> Table:
    """One line for each op: work, time, speed of light, and what limits it."""
    a = e.analysis
    columns = (
        Column("Op", False), Column("Block", False, drop=1), Column("Layers", drop=4), Column("FLOPs", drop=3),
        Column("Bytes", drop=2), Column("FLOP/B"), Column("Floor"), Column("Expected"), Column("Share"),
        Column("Bound", False), Column("Grade", False, drop=5),
    )  # fmt: skip
    rows = tuple(_op_cells(op, e) for op in e.ops)
    total = (
        (
            "Total", "", "", si(a.flops, "FLOP"), si(a.bytes, "B"), ratio(a.intensity), seconds(e.serial_floor),
            seconds(e.time), "100.0 %", e.bound, e.grade,
        ),
    )  # fmt: skip
    title = f"{name}: {step_text(a.step)}{rank_text(a)} · {e.chip.name} · {precision_text(a.precision)}{_ridges(e)}"
    return Table(columns, rows, total, title)


def _ridges(e: Estimate) -> str:
    """FLOPs per byte from which the formats of the products are compute bound."""
    formats = dict.fromkeys(matrix_format(op.cost.op, e.target) for op in e.ops if op.kind in ("matmul", "experts"))
    return "".join(f" · ridge {e.chip.ridge(f):.0f} FLOP/B in {f}" for f in formats if f in e.chip.peaks)


def _op_cells(op: OpTime, e: Estimate) -> tuple[str, ...]:
    cost, pass_ = op.cost, op.kind == "quantise"
    work = ("", "", "") if pass_ else (si(cost.flops, "FLOP"), si(cost.bytes, "B"), ratio(cost.intensity))
    times = seconds(op.floor), seconds(op.expected), share(op.expected, e.time)
    return (op.name, cost.block, str(cost.layers), *work, *times, op.bound, op.each.grade)


def timed_csv_rows(estimates: Sequence[tuple[str, Estimate]]) -> list[tuple[object, ...]]:
    """The rows under TIMED_CSV_HEADER; a pass that quantises has times alone."""
    rows: list[tuple[object, ...]] = []
    for name, e in estimates:
        for op in e.ops:
            cost = csv_row(name, op.cost)
            if op.kind == "quantise":
                cost = (name, op.name, op.kind, op.cost.block, op.cost.layers, *(None for _ in cost[5:]))
            rows.append((*cost, op.floor, op.expected, *op.interval, op.bound, op.each.grade))
    return rows


def summary(e: Estimate) -> str:
    """The step in two lines."""
    low, high = e.interval
    return (
        f"expected {seconds(e.time)} (80 % of measurements within {seconds(low)} to {seconds(high)}), {e.bound} bound; "
        f"speed of light {seconds(e.serial_floor)} one op after another, {seconds(e.floor)} overlapped\n"
        f"memory needed {held(e.memory, e.chip)}; grade {e.grade}: {GRADES[e.grade]}"
    )


def place_text(where: Placed) -> str:
    """The chip, or how many of them in which layout."""
    return where.chip.name if where.chips == 1 else f"{where.chips} × {where.chip.name} ({where.layout.text()})"


def chips_text(where: Placed) -> str:
    """Whose rate it is."""
    return "this chip" if where.chips == 1 else f"all {where.chips} chips"


def held(memory: float, chip: Chip) -> str:
    """Weights, cache and state beside what the chip has."""
    beyond = "" if memory <= chip.capacity else ": does not fit, the times are those of a chip with more"
    return f"{si(memory, 'B')} of {si(chip.capacity, 'B')}{beyond}"


def span_text(s: Span) -> str:
    """Expected, interval, floor."""
    return f"{seconds(s.expected)} ({seconds(s.low)} to {seconds(s.high)}; speed of light {seconds(s.floor)})"


def span_json(s: Span) -> dict[str, float]:
    """Seconds."""
    return {"floor": s.floor, "expected": s.expected, "low": s.low, "high": s.high}


def estimate_json(e: Estimate) -> dict[str, Any]:
    """The estimate's part of `roofline.analyze/1`."""
    low, high = e.interval
    return {
        "chip": e.chip.id,
        "law": e.target.mode.name,
        "seconds": {"floor": e.floor, "serial_floor": e.serial_floor, "expected": e.time, "low": low, "high": high},
        "bound": e.bound,
        "grade": e.grade,
        "memory_bytes": e.memory,
        "ops": [
            {
                "name": op.name,
                "kind": op.kind,
                "block": op.cost.block,
                "layers": op.cost.layers,
                "floor": op.floor,
                "expected": op.expected,
                "low": op.interval[0],
                "high": op.interval[1],
                "bound": op.bound,
                "grade": op.each.grade,
            }
            for op in e.ops
        ],
    }


def shares_text(e: Estimate, least: float = 0.02) -> str:
    """The kinds of op that take most of the time."""
    return ", ".join(f"{kind} {100 * part:.0f} %" for kind, part in e.shares if part >= least)


def setting_json(e: Estimate) -> dict[str, Any]:
    """What was asked of what."""
    return {
        "model": e.analysis.model.name,
        "precision": precision_json(e.analysis.precision),
        "chip": e.chip.id,
        "law": e.target.mode.name,
    }


def spread_json(where: Placed) -> dict[str, Any]:
    """How many chips, in which layout."""
    return {"chips": where.chips, "layout": where.layout.text()}
