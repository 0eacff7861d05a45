"""Calibration: measure this machine, fit the laws to it, write its chip file.

In three steps, `planned_cases` lists the benchmarks, `measure` times them (with PyTorch if installed, else NumPy), and
`fit_laws` fits the constants of a `Chip`. No transformer is run: only products, copies, attention and the elementwise
work of a layer, each separately and in eager mode.
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
    """Measure this machine and fit the laws to it. Takes the options of `measure`.

    `chip_toml` converts the result to a chip file for `on=`.
    """
    return fit_laws(measure(**options))
