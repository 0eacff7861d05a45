"""Energy roofline of a chip: the power of its board while its units work, and while they wait.

    J = idle·t + awake·t_steps + Σ watts·t over compute, memory, link, scaled and tiles, at most TDP·t

where t_steps is the time with a step under way, including gaps between kernels, during which clocks stay up. t_compute,
t_memory and t_link are the seconds that the work takes each unit at its peak, so compute·t_compute is the energy of the
FLOPs, and so on. Two kinds of arithmetic draw more: fp8 products with a scale for each block (`scaled`), and
attention's whole tiles of query rows, few of which are real while tokens are decoded (`tiles`). The watts are shares of
the TDP by generation (sources in `power.toml`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import ClassVar

from roofline.declared.maths import Count, least
from roofline.declared.result import Figured, Units
from roofline.declared.trees import TomlTable
from roofline.hardware.chip import Chip
from roofline.hardware.chip_files import Tables, raw

SHARES = Path(__file__).with_name("power.toml")
IDLE_SHARE = 0.12
"""Idle power relative to TDP where it is not known: an assumption."""


UNITS = ("compute", "memory", "link", "scaled", "tiles")
"""What draws power by its work."""


@dataclass(frozen=True)
class Busy:
    """Busy seconds of chips: with a step under way, and of each unit at its peak. Numbers or arrays.

    `scaled`, `tiles`: of products with a scale for each block, a part of `compute`, and of attention's whole tiles of
    query rows, both at the peak of the arithmetic.
    """

    running: Count = 0.0
    compute: Count = 0.0
    memory: Count = 0.0
    link: Count = 0.0
    scaled: Count = 0.0
    tiles: Count = 0.0

    def __add__(self, other: Busy) -> Busy:
        return Busy(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, factor: Count) -> Busy:
        """The work repeated `factor` times."""
        return Busy(*(factor * getattr(self, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Draw(Figured):
    """Watts of one board: `idle`; `awake`, added while a step is under way; `compute`, `memory`, `link`, `scaled` and
    `tiles`, added by each unit at its peak; capped at `most`. `low` and `high`: factors that hold 80 % of boards.
    """

    FIGURES: ClassVar[Units] = {
        **dict.fromkeys(("idle", "awake", *UNITS, "most"), "W"), "low": "", "high": "",
        "grade": "", "source": "",
    }  # fmt: skip

    idle: float
    awake: float
    compute: float
    memory: float
    link: float
    scaled: float
    tiles: float
    most: float
    low: float
    high: float
    grade: str
    source: str

    def joules(self, seconds: Count, busy: Busy) -> Count:
        """Joules of chips over `seconds` of chip time.

        >>> board = Draw(70.0, 140.0, 650.0, 320.0, 70.0, 0.0, 0.0, 700.0, 0.65, 1.35, "C", "")
        >>> board.joules(10.0, Busy(running=8.0, compute=1.0, memory=6.0)), board.joules(1.0, Busy(1.0, 1.0, 1.0))
        (4390.0, 700.0)
        """
        work = self.awake * busy.running
        for unit in UNITS:
            work = work + getattr(self, unit) * getattr(busy, unit)
        return least(self.idle * seconds + work, self.most * seconds)


@cache
def draw_of(chip: Chip) -> Draw | None:
    """The power of a chip's board, from the shares of its generation; None where its TDP is not known.

    A step under way draws at least running·TDP; each unit at its peak adds its share of the TDP.
    """
    if chip.tdp is None:
        return None
    tables = _shares()
    s: TomlTable = {**tables["default"], **tables.get(chip.generation, {})}
    idle = chip.idle if chip.idle is not None else IDLE_SHARE * chip.tdp
    kernel = max(idle, s["running"] * chip.tdp)
    return Draw(
        idle=idle, awake=kernel - idle, **{unit: s[unit] * chip.tdp for unit in UNITS},
        most=chip.tdp, low=s["low"], high=s["high"], grade=s["grade"], source=s["source"],
    )  # fmt: skip


@cache
def _shares() -> Tables[TomlTable]:
    """Generation → shares; `default` where a generation has none of its own."""
    return Tables(raw, SHARES)
