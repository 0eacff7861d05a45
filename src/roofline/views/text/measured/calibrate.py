"""Tables of a calibration."""

from __future__ import annotations

from roofline.declared.numbers.units import si
from roofline.measured.calibrate.cases import Calibration, Fitted
from roofline.measured.compare.bench_fit import BenchFit
from roofline.views.text.tables import Column, Table

BOUNDLESS = 5.0
"""Shares above this count as no limit."""


def machine_table(calibration: Calibration) -> Table:
    """Measurements of the machine: sustained peaks, bandwidth, and the time of one small op."""
    chip, machine = calibration.chip, calibration.measurements.machine
    rows = [("Cores" if chip.kind == "cpu" else "SMs", str(chip.units))]
    rows += [(f"Matmul, {fmt}", si(peak, "FLOP/s")) for fmt, peak in chip.peaks.items()]
    rows += [("Memory bandwidth", si(chip.bandwidth, "B/s")), ("Memory", si(chip.capacity, "B"))]
    rows += [("Last-level cache", si(chip.cache or 0.0, "B"))]
    rows += [(f"Ridge, {fmt}", f"{chip.ridge(fmt):.4g} FLOP/B") for fmt in chip.peaks]
    rows += [("Measured", f"{len(calibration.measurements.rows)} cases with {machine.software}, {clock(calibration)}")]
    return Table((Column("Figure"), Column("Measured", long=20)), tuple(rows), title=chip.name, facts=True)


def clock(calibration: Calibration) -> str:
    """Which clock the seconds come from."""
    return "CPU time of one thread" if calibration.measurements.machine.clock == "cpu" else "wall clock"


def fit_table(calibration: Calibration) -> Table:
    """Fitted laws: launch floor, shares of peak and bandwidth, and error."""
    columns = (
        Column("Dtype"), Column("Op"), Column("Cases", "count", drop=3), Column("Launch", "s", drop=4),
        Column("Of peak", "plain"),
        Column("Of bandwidth", "plain"), Column("Median error", "share", drop=2), Column("Mean error", "share", drop=1),
        Column("Held out", "share"),
    )  # fmt: skip
    return Table(columns, tuple(_row(f) for f in calibration.fits), title="Laws, and |predicted / measured − 1|")


def _row(f: Fitted) -> tuple[object, ...]:
    shares = (f.constants.get("compute"), f.constants.get("memory"))
    return (
        f.dtype, f.kind, f.rows, f.constants["t0"],
        *("–" if s is None or s > BOUNDLESS else f"{s:.2f}" for s in shares), f.median, f.mape, f.held_out,
    )  # fmt: skip


def bench_table(fit: BenchFit) -> Table:
    """Rows of llama-bench with predictions before and after the calibration."""
    columns = (
        Column("Test"), Column("Tokens", "count", drop=3), Column("Depth", "count", drop=4),
        Column("Measured", "tokens/s"),
        Column("Catalog", "tokens/s", drop=2), Column("Fitted", "tokens/s"), Column("Held out", "tokens/s", drop=1),
    )  # fmt: skip
    rows = tuple(
        (row.quantity, row.input + row.output, row.depth, row.measured, row.before, row.fitted,
         "–" if row.held_out is None else row.held_out) for row in fit.rows
    )  # fmt: skip
    return Table(columns, rows, title=f"{fit.model} on {fit.on}, {fit.engine}, tokens per second")


def bench_text(fit: BenchFit) -> str:
    """Factors on the constants, and the new width of an op's interval."""
    return (
        f"shares of bandwidth times {fit.memory:.3f}, of peak times {fit.compute:.3f}; "
        f"an op takes {fit.low:.2f} to {fit.high:.2f} of what is expected"
    )
