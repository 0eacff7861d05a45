"""Energy roofline of a chip: the power of its board while its units work, and while they wait.

    J = idle·t + awake·t_steps + compute·t_compute + memory·t_memory + link·t_link, at most TDP·t

where t_steps is the time with a step under way, including gaps between kernels, during which clocks stay up. t_compute,
t_memory and t_link are the seconds that the work takes each unit at its peak, so compute·t_compute is the energy of the
FLOPs, and so on. The watts are shares of the TDP (sources in `energy.toml`).
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Busy:
    """Busy seconds of chips: with a step under way, and of each unit at its peak. Numbers or arrays."""

    running: Count = 0.0
    compute: Count = 0.0
    memory: Count = 0.0
    link: Count = 0.0

    def __add__(self, other: Busy) -> Busy:
        return Busy(
            self.running + other.running, self.compute + other.compute, self.memory + other.memory,
            self.link + other.link,
        )  # fmt: skip

    def times(self, factor: Count) -> Busy:
        """The work repeated `factor` times."""
        return Busy(factor * self.running, factor * self.compute, factor * self.memory, factor * self.link)


@dataclass(frozen=True)
class Draw(Figured):
    """Watts of one board: `idle`; `awake`, added while a step is under way; `compute`, `memory` and `link`, added by
    each unit at its peak; capped at `most`. `low` and `high`: factors assumed to hold 80 % of boards.
    """

    FIGURES: ClassVar[Units] = {
        **dict.fromkeys(("idle", "awake", "compute", "memory", "link", "most"), "W"), "low": "", "high": "",
        "grade": "", "source": "",
    }  # fmt: skip

    idle: float
    awake: float
    compute: float
    memory: float
    link: float
    most: float
    low: float
    high: float
    grade: str
    source: str

    def joules(self, seconds: Count, busy: Busy) -> Count:
        """Joules of chips over `seconds` of chip time.

        >>> board = Draw(70.0, 140.0, 650.0, 320.0, 70.0, 700.0, 0.65, 1.35, "C", "")
        >>> board.joules(10.0, Busy(running=8.0, compute=1.0, memory=6.0)), board.joules(1.0, Busy(1.0, 1.0, 1.0))
        (4390.0, 700.0)
        """
        work = self.awake * busy.running + self.compute * busy.compute
        work = work + self.memory * busy.memory + self.link * busy.link
        return least(self.idle * seconds + work, self.most * seconds)


@cache
def draw_of(chip: Chip) -> Draw | None:
    """The power of a chip's board, from the shares of its generation; None where its TDP is not known.

    A step under way draws running·TDP, a matrix product at `matrix` of peak draws the TDP, and reading memory at
    `streaming` of its bandwidth draws `streaming_draws` of the TDP.
    """
    if chip.tdp is None:
        return None
    tables = _shares()
    s: TomlTable = {**tables["default"], **tables.get(chip.generation, {})}
    idle = chip.idle if chip.idle is not None else IDLE_SHARE * chip.tdp
    kernel = max(idle, s["running"] * chip.tdp)
    return Draw(
        idle=idle, awake=kernel - idle, compute=max(0.0, chip.tdp - kernel) / s["matrix"],
        memory=max(0.0, s["streaming_draws"] * chip.tdp - kernel) / s["streaming"], link=s["link"] * chip.tdp,
        most=chip.tdp, low=s["low"], high=s["high"], grade=s["grade"], source=s["source"],
    )  # fmt: skip


@cache
def _shares() -> Tables[TomlTable]:
    """Generation → shares; `default` where a generation has none of its own."""
    return Tables(raw, SHARES)
