"""Text of measurements beside predictions."""

from __future__ import annotations

from roofline.declared.numbers.units import si, signed
from roofline.measured.compare.benchmarks import ComparedResults
from roofline.measured.compare.comparison import Comparison
from roofline.views.text.tables import Column, Table


def compared_table(c: Comparison) -> Table:
    """One line for each op of a step."""
    columns = (
        Column("Op", long=20), Column("Block", drop=3), Column("Kernels", "plain", drop=4), Column("Measured", "s"),
        Column("Expected", "s"), Column("Interval", drop=2), Column("Floor", "s", drop=5), Column("Lost", "s"),
        Column("Bound", drop=1),
    )  # fmt: skip
    rows = [
        (
            op.name, op.block, f"{op.kernels:g}", op.measured, op.expected, "inside" if op.inside else "outside",
            op.floor, op.lost, op.bound,
        )
        for op in sorted(c.ops, key=lambda op: -op.measured)
    ]  # fmt: skip
    title = f"{c.model} on {c.on}, {c.step}: {c.steps} step{'s' if c.steps > 1 else ''}, {c.kernels:,} kernels"
    return Table(columns, tuple(rows), title=title)


def unmatched_table(c: Comparison) -> Table:
    """Kernels that belong to no op, the longest first."""
    columns = (Column("Not matched", long=20), Column("Kernels", "plain"), Column("Measured", "s"))
    return Table(columns, tuple((u.name, str(u.kernels), u.measured) for u in c.unmatched))


def results_table(c: ComparedResults) -> Table:
    """One line for each measurement."""
    columns = (
        Column("Quantity"), Column("Input", "plain"), Column("Output", "plain"), Column("At", drop=1),
        Column("Measured"), Column("Expected"), Column("Interval", drop=2), Column("Error"),
        Column("Note", long=20, drop=3),
    )  # fmt: skip
    rows = []
    for r in c.results:
        unit = "tokens/s" if r.quantity in ("prompt", "answer", "throughput") else "s"
        at = f"{r.concurrency} in flight" if r.concurrency else f"{r.rate:g}/s" if r.rate else f"depth {r.depth}"
        ends = f"{r.low:.4g} to {r.high:.4g}" if r.low is not None and r.high is not None else ""
        expected = f"{r.expected:.4g} {unit}" if r.expected else "–"
        error = f"{signed(100 * r.error, '.0f')} %" if r.error is not None else "–"
        measured = f"{r.measured:.4g} {unit}"
        rows.append((r.quantity, str(r.input), str(r.output), at, measured, expected, ends, error, r.why))
    return Table(columns, tuple(rows), title=f"{c.model} on {c.on}, {c.engine}")


def verdict(c: Comparison) -> str:
    """Measured and expected time of a step, the share that belongs to ops, and the op with the largest loss."""
    ends = f"{si(c.low, 's')} to {si(c.high, 's')}"
    return (
        f"{si(c.measured, 's')} a step measured, {si(c.expected, 's')} expected ({ends}).\n"
        f"{c.matched:.1%} of the time belongs to ops. {c.worst.name} loses most: {si(c.worst.lost, 's')}, "
        f"{c.worst_share:.0%} of the step."
    )
