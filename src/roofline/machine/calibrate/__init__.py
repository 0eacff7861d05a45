"""Measure this machine, fit the laws to it, write its chip file.

Three steps, each a function of the one before: `plan` says what is timed, `measure` times it (NumPy, or PyTorch where
it is there), `fit` turns the times into a `Chip` with constants of its own. Nothing here runs a transformer: only
products, copies, attention and the elementwise work of a layer, each by itself and as eager PyTorch runs it.
"""

from roofline.machine.calibrate.cases import SHAPES, Calibration, Case, Fitted, Machine, Measurements, Row, plan
from roofline.machine.calibrate.file import chip_toml
from roofline.machine.calibrate.fitting import fit
from roofline.machine.calibrate.measuring import clock_for, measure

__all__ = [
    "SHAPES", "Calibration", "Case", "Fitted", "Machine", "Measurements", "Row", "chip_toml", "clock_for", "fit",
    "measure", "plan",
]  # fmt: skip
