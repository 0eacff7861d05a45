"""What a picture shows, as plain data: every number that is drawn, none that has still to be computed.

SI units. A renderer only places these on paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Ceiling:
    """Peak FLOP/s in a format, and the `ridge`, FLOP/B, where main memory reaches it. `vector`: ordinary arithmetic."""

    label: str
    peak: float
    ridge: float
    vector: bool = False


@dataclass(frozen=True)
class Slope:
    """Bytes/s of a level: main memory first, then links. `link`: not main memory."""

    label: str
    bandwidth: float
    link: bool = False


@dataclass(frozen=True)
class Roof:
    """The ceilings, highest first, and slopes of one chip."""

    chip: str
    ceilings: tuple[Ceiling, ...]
    slopes: tuple[Slope, ...]


@dataclass(frozen=True)
class Point:
    """One op, layer or step: FLOP/B, FLOP/s to expect, FLOP/s at the speed of light, share of its step's time."""

    label: str
    group: str
    phase: str
    intensity: float
    performance: float
    light: float
    share: float


@dataclass(frozen=True)
class Panel:
    """One chip's roof and the points on it."""

    roof: Roof
    points: tuple[Point, ...]


@dataclass(frozen=True)
class RooflinePlot:
    """Performance over arithmetic intensity, a panel for each chip. `note` says what is and is not drawn."""

    title: str
    panels: tuple[Panel, ...]
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """One stacked bar: a phase, a quantity, and the share of each group in it."""

    phase: str
    quantity: str
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class SharesPlot:
    """Where FLOPs, bytes and time go."""

    title: str
    bars: tuple[Bar, ...]
    note: str = ""


@dataclass(frozen=True)
class CrossingMark:
    """A value from which something else limits."""

    at: int
    label: str
    floor: bool


@dataclass(frozen=True)
class Curve:
    """Decode on one chip over the axis: tokens/s, seconds a step, its 80 % interval, its speed of light."""

    chip: str
    values: tuple[int, ...]
    tokens_per_second: tuple[float, ...]
    latency: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: tuple[float, ...]
    crossings: tuple[CrossingMark, ...]


@dataclass(frozen=True)
class SweepPlot:
    """Throughput and latency over batch or context."""

    title: str
    axis: str
    curves: tuple[Curve, ...]
    note: str = ""


@dataclass(frozen=True)
class Capacity:
    """A chip's memory, and the longest context in it: 0 where the weights alone do not fit, None beyond the axis."""

    chip: str
    bytes: float
    longest: int | None


@dataclass(frozen=True)
class MemoryPlot:
    """Bytes over context, stacked from the bottom up."""

    title: str
    context: tuple[int, ...]
    terms: tuple[tuple[str, tuple[float, ...]], ...]
    capacities: tuple[Capacity, ...]
    note: str = ""


@dataclass(frozen=True)
class ParametersPlot:
    """Parameters by part, largest first, each with its share."""

    title: str
    parts: tuple[tuple[str, int, float], ...]
    total: int
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """Decode at one batch and context."""

    batch: int
    context: int
    tokens_per_second: float
    latency: float
    bound: str
    fits: bool


@dataclass(frozen=True)
class MapPlot:
    """Decode over batch (rows) × context (columns) on one chip; `rows[i][j]`."""

    title: str
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class BarPanel:
    """Bars of one quantity: `values[phase][operation]`, nothing where there is none."""

    label: str
    unit: str
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class BarsPlot:
    """Quantities of each operation in each phase, side by side."""

    title: str
    operations: tuple[str, ...]
    phases: tuple[str, ...]
    panels: tuple[BarPanel, ...]
    note: str = ""


Plot: TypeAlias = RooflinePlot | SharesPlot | SweepPlot | MemoryPlot | ParametersPlot | MapPlot | BarsPlot
