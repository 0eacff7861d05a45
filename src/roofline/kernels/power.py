"""Energy roofline of a chip: the power of its board while its units work, and while they wait.

    J = idle·t + awake·t_steps + Σ watts·t over compute, slower, memory, link, padding and tiles, at most TDP·t

where t_steps is the time with a step under way, including gaps between kernels, during which clocks stay up. t_compute,
t_memory and t_link are the seconds that the work takes each unit at its peak, so compute·t_compute is the energy of the
FLOPs, and so on. Products on instructions of older chips take longer than at peak, and draw power in that time too
(`slower`). Kernels also compute whole tiles where few rows are real, which happens while tokens are decoded:
grouped products fill tiles of every expert's rows (`padding`), and attention fills tiles of query rows (`tiles`). The
watts are shares of the TDP by generation (sources in `power.toml`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from math import inf
from pathlib import Path
from typing import ClassVar

from roofline.declared.numbers.maths import Count, least, most
from roofline.declared.result import Figured, Units
from roofline.declared.trees import TomlTable
from roofline.hardware.chip import Chip
from roofline.hardware.chip_files import Tables, raw

SHARES = Path(__file__).with_name("power.toml")
IDLE_SHARE = 0.12
"""Idle power relative to TDP where it is not known: an assumption."""


UNITS = ("compute", "memory", "link", "padding", "tiles", "slower")
"""What draws power by its work."""
CORES = ("compute", "padding", "tiles", "slower")
"""Those on the cores' clock; memory and links have clocks of their own."""
DRAM = {"HBM": 6.0e-12, "GDDR": 7.25e-12}
"""Joules a bit of memory devices by kind, HBM2E and GDDR6X: Micron, Ultra-bandwidth solutions (2020)."""
SLOWEST = 0.2
"""Share of its clock below which a board under a cap does not go."""


@dataclass(frozen=True)
class Busy:
    """Busy seconds of chips: with a step under way, and of each unit at its peak. Numbers or arrays.

    `padding`, `tiles`: of rows without a token in grouped products, and of attention's whole tiles of query rows, both
    at the peak of the arithmetic. `slower`: seconds by which products on slower instructions take longer than at peak.
    None is a part of `compute`.
    """

    running: Count = 0.0
    compute: Count = 0.0
    memory: Count = 0.0
    link: Count = 0.0
    padding: Count = 0.0
    tiles: Count = 0.0
    slower: Count = 0.0

    def __add__(self, other: Busy) -> Busy:
        return Busy(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, factor: Count) -> Busy:
        """The work repeated `factor` times."""
        return Busy(*(factor * getattr(self, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Draw(Figured):
    """Watts of one board: `idle`; `awake`, added while a step is under way; `compute`, `memory`, `link`, `padding`,
    `tiles` and `slower`, added by each unit at its peak; capped at `most`. `low` and `high`: factors that hold 80 % of
    boards.
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
    padding: float
    tiles: float
    slower: float
    most: float
    low: float
    high: float
    grade: str
    source: str

    def joules(self, seconds: Count, busy: Busy) -> Count:
        """Joules of chips over `seconds` of chip time.

        >>> board = Draw(70.0, 140.0, 650.0, 320.0, 70.0, 0.0, 0.0, 650.0, 700.0, 0.65, 1.35, "C", "")
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

    A step under way draws at least running·TDP; each unit at its peak adds its share of the TDP. Cores that are held at
    a share s of their clock, and so of their peak, draw s³ of that: P ∝ f·V² and V ∝ f.
    """
    if chip.tdp is None:
        return None
    tables = _shares()
    own = tables.get(chip.generation, {})
    s: TomlTable = {**tables["default"], **tables.get(own.get("like", ""), {}), **own}
    idle = chip.idle if chip.idle is not None else IDLE_SHARE * chip.tdp
    kernel = max(idle, s["running"] * chip.tdp)
    slow = {unit: chip.locked**3 if unit in CORES else 1.0 for unit in UNITS}
    return Draw(
        idle=idle, awake=(kernel - idle) * chip.locked**3, **{unit: slow[unit] * s[unit] * chip.tdp for unit in UNITS},
        most=chip.tdp if chip.cap is None else chip.cap, low=s["low"], high=s["high"], grade=s["grade"],
        source=s["source"],
    )  # fmt: skip


def work_per_joule(draw: Draw, chip: Chip, peak: float, intensity: Count) -> Count:
    """FLOP per joule that a chip attains on work of `intensity` FLOP/B at the speed of light: the energy roofline.

    A FLOP takes t = max(1/peak, 1/(I·W)) seconds and (idle + awake)·t + compute/peak + memory/(I·W) joules, at most
    TDP·t. So there is no ridge but an arch: at the balance of energy FLOPs and bytes take as many joules. (Choi,
    Bedard, Fowler, Vuduc, "A roofline model of energy", IPDPS 2013, eq. 4 and 5.)
    """
    arithmetic, moved = 1 / peak, 1 / (intensity * chip.bandwidth)
    seconds = most(arithmetic, moved)
    return 1 / draw.joules(seconds, Busy(running=seconds, compute=arithmetic, memory=moved))


def energy_balance(draw: Draw, chip: Chip, peak: float) -> float:
    """FLOP/B at which the bytes of work take as many joules as its FLOPs: (memory/W) / (compute/peak)."""
    return inf if draw.compute == 0 else draw.memory * peak / (draw.compute * chip.bandwidth)


def under_cap(chip: Chip, seconds: Count, busy: Busy) -> Count:
    """Seconds of an op that takes `seconds` at full clock, on a board with a cap below its TDP.

    At full clock it draws P watts, at most the TDP, of which Q for idling, memory devices and links. What moves their
    bytes on the chip has the cores' voltage. Dynamic power is ∝ f·V² and V ∝ f, so that P(s) = Q + (P − Q)·s³ at a
    share s of the clock (AccelWattch, MICRO 2021, fits P = βf³ + τf + P₀ to a V100). Where P is above the cap the clock
    falls to s = ((cap − Q)/(P − Q))^⅓. The cores' part of the time, t_compute/(t_compute + t_memory) with padded rows
    and slower instructions in t_compute, takes 1/s as long. Work that draws too much even at the lowest clock waits for
    its watts: P(s)·t/cap.
    """
    draw, cap = draw_of(chip), chip.cap
    if draw is None or cap is None or chip.tdp is None:
        return seconds
    time = most(seconds, TINY)
    devices = device_watts(chip, draw.memory)
    rest = draw.idle + (devices * busy.memory + draw.link * busy.link) / time
    work = sum((getattr(draw, unit) * getattr(busy, unit) for unit in CORES), start=0.0)
    core = draw.awake + (work + (draw.memory - devices) * busy.memory) / time
    core = most(least(rest + core, chip.tdp) - rest, TINY)
    share = most(least((cap - rest) / core, 1.0), SLOWEST**3) ** (1 / 3)
    arithmetic = busy.compute + busy.slower + busy.padding
    cores = arithmetic / most(arithmetic + busy.memory, TINY)
    longer = seconds * (1 + cores * (1 / share - 1))
    return most(longer, seconds * (rest + core * share**3) / cap)


TINY = 1e-30


def device_watts(chip: Chip, memory: float) -> float:
    """Watts of the `memory` watts at full bandwidth that the memory devices take, whatever the cores' clock is.

    Bits a second times joules a bit; all of it for kinds of memory without a published figure.
    """
    joules = next((j for kind, j in DRAM.items() if chip.memory_kind.startswith(kind)), None)
    return memory if joules is None else min(memory, 8 * chip.bandwidth * joules)


@cache
def _shares() -> Tables[TomlTable]:
    """Generation → shares; `default` where a generation has none of its own."""
    return Tables(raw, SHARES)
