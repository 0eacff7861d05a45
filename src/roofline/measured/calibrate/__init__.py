"""Calibration: measure this machine, fit the laws to it, write its chip file.

Three steps, each a function of the one before: `planned_cases` says what is timed, `measure` times it (NumPy, or
PyTorch where it is there), `fit_laws` turns the times into a `Chip` with constants of its own. Nothing here runs a
transformer: only products, copies, attention and the elementwise work of a layer, each by itself and as eager PyTorch
runs it.
"""

from __future__ import annotations

from roofline.declared.kinds import Given
from roofline.measured.calibrate.cases import (
    SHAPES,
    Calibration,
    Case,
    Fitted,
    MeasuredMachine,
    Measurement,
    Measurements,
    planned_cases,
)
from roofline.measured.calibrate.file import chip_toml
from roofline.measured.calibrate.fitting import fit_laws
from roofline.measured.calibrate.measuring import clock_for, measure

__all__ = [
    "SHAPES",
    "Calibration",
    "Case",
    "Fitted",
    "MeasuredMachine",
    "Measurement",
    "Measurements",
    "calibrate",
    "chip_toml",
    "clock_for",
    "fit_laws",
    "measure",
    "planned_cases",
]  # fmt: skip


def calibrate(**options: Given) -> Calibration:
    """Measure this machine and fit the laws to it; the options are those of `measure`.

    `chip_toml` writes the result as a chip file for `on=`.
    """
    return fit_laws(measure(**options))
