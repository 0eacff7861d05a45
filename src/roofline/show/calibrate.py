"""A calibration as tables and JSON."""

from __future__ import annotations

from typing import Any

from roofline.machine.calibrate import SHAPES, Calibration, Fitted
from roofline.show.tables import Column, Table
from roofline.show.units import seconds, si

BOUNDLESS = 5.0
"""A share above this is no limit at all."""


def machine_table(calibration: Calibration) -> Table:
    """What was measured of the machine: peaks as sustained, bandwidth, and what one small op costs."""
    chip, machine = calibration.chip, calibration.measurements.machine
    rows = [("Cores" if chip.kind == "cpu" else "SMs", str(chip.units))]
    rows += [(f"Matmul, {fmt}", si(peak, "FLOP/s")) for fmt, peak in chip.peaks.items()]
    rows += [("Memory bandwidth", si(chip.bandwidth, "B/s")), ("Memory", si(chip.capacity, "B"))]
    rows += [("Last-level cache", si(chip.cache or 0.0, "B"))]
    rows += [(f"Ridge, {fmt}", f"{chip.ridge(fmt):.4g} FLOP/B") for fmt in chip.peaks]
    rows += [("Measured", f"{len(calibration.measurements.rows)} cases with {machine.software}, {clock(calibration)}")]
    return Table((Column("Figure", False), Column("Measured", False)), tuple(rows), title=chip.name)


def clock(calibration: Calibration) -> str:
    """Whose seconds they are."""
    return "CPU time of one thread" if calibration.measurements.machine.clock == "cpu" else "wall clock"


def fit_table(calibration: Calibration) -> Table:
    """The laws: launch floor, shares of peak and bandwidth, and the error."""
    columns = tuple(
        Column(name, right)
        for name, right in (
            ("Dtype", False), ("Op", False), ("Cases", True), ("Launch", True), ("Of peak", True),
            ("Of bandwidth", True), ("Median error", True), ("Mean error", True), ("Held out", True),
        )
    )  # fmt: skip
    return Table(columns, tuple(_row(f) for f in calibration.fits), title="Laws, and |predicted / measured − 1|")


def _row(f: Fitted) -> tuple[str, ...]:
    shares = (f.constants.get("compute"), f.constants.get("memory"))
    return (
        f.dtype, f.kind, str(f.rows), seconds(f.constants["t0"]),
        *("–" if s is None or s > BOUNDLESS else f"{s:.2f}" for s in shares),
        *(f"{100 * e:.1f} %" for e in (f.median, f.mape, f.held_out)),
    )  # fmt: skip


def calibration_json(calibration: Calibration) -> dict[str, Any]:
    """Schema `roofline.calibrate/1`: SI units; a constant that is infinite is null."""
    chip, machine = calibration.chip, calibration.measurements.machine
    return {
        "schema": "roofline.calibrate/1",
        "chip": {
            "id": chip.id, "name": chip.name, "kind": chip.kind, "units": chip.units,
            "peaks_flops": dict(chip.peaks),
            "bandwidth_bytes_per_second": chip.bandwidth, "capacity_bytes": chip.capacity, "cache_bytes": chip.cache,
        },
        "software": machine.software,
        "clock": machine.clock,
        "date": machine.date,
        "fits": [
            {
                "dtype": f.dtype, "kind": f.kind, "cases": f.rows, "median_error": f.median, "mean_error": f.mape,
                "held_out_error": f.held_out,
                "constants": {k: None if v == float("inf") else v for k, v in f.constants.items()},
            }
            for f in calibration.fits
        ],
        "measurements": [
            {
                "kind": r.case.kind, "dtype": r.case.dtype,
                "shape": dict(zip(SHAPES[r.case.kind], r.case.shape, strict=True)), "seconds": r.seconds,
                "repeats": r.repeats,
            }
            for r in calibration.measurements.rows
        ],
    }  # fmt: skip
