"""Content of pictures as plain data: every number that is drawn, with nothing left to compute.

SI units. A renderer only places these numbers on paper.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, pairwise
from typing import Any, ClassVar, Literal, TypeAlias

from roofline.declared.numbers.units import counted, whole
from roofline.declared.result import Result, Units

IN_NOTEBOOKS: list[Callable[[Any], str]] = []
"""Renderer of pictures in notebooks; the drawing module registers itself here when it is loaded."""


class Picture(Result):
    """Base of all pictures. `fits`: whether everything that is timed fits in memory."""

    SCHEMA: ClassVar[str] = "roofline.plot/3"

    def _repr_html_(self) -> str:
        """The picture for notebooks, as a separate image: the ids of several SVGs on one page would clash."""
        if not IN_NOTEBOOKS:
            return super()._repr_html_()
        address = f"data:image/svg+xml;base64,{b64encode(IN_NOTEBOOKS[0](self).encode()).decode('ascii')}"
        about = "; ".join(f"{name} {value}" for name, value in self.lines())
        return f'<img src="{address}" alt="{escape(about)}">'


@dataclass(frozen=True)
class Ceiling:
    """Peak FLOP/s in a format, and the `ridge` point in FLOP/B of main memory. `vector`: arithmetic outside of matrix
    units."""

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
class DrawnRoof:
    """Ceilings, highest first, and slopes of one chip."""

    chip: str
    ceilings: tuple[Ceiling, ...]
    slopes: tuple[Slope, ...]

    @property
    def levels(self) -> tuple[Ceiling, ...]:
        """Ceilings as drawn: those of equal height are merged."""
        values = []
        for _, same in groupby(self.ceilings, key=lambda c: c.peak):
            joined = tuple(same)
            label = ", ".join(c.label for c in joined)
            values.append(replace(joined[0], label=label, vector=all(c.vector for c in joined)))
        return tuple(values)


MOST_NAMED = 5
"""Number of points of a phase that are named, those with the most time."""


@dataclass(frozen=True)
class RooflinePoint:
    """An op, layer or step: FLOP/B, expected FLOP/s, FLOP/s at the speed of light, and share of its step's time."""

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

    roof: DrawnRoof
    points: tuple[RooflinePoint, ...]


@dataclass(frozen=True, repr=False)
class RooflinePlot(Picture):
    """Performance over arithmetic intensity, with a panel for each chip. `note` says what is drawn and what is not."""

    kind: ClassVar[Literal["roofline"]] = "roofline"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "panels", "note", "fits"), "")

    title: str
    panels: tuple[Panel, ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class EnergyArch:
    """FLOP per joule that a chip attains in a format over FLOP/B. `most`: at infinitely many FLOP/B. `ridge`: FLOP/B
    at which FLOPs and bytes take as long; `balance`: as many joules."""

    label: str
    intensity: tuple[float, ...]
    work_per_joule: tuple[float, ...]
    most: float
    ridge: float
    balance: float


@dataclass(frozen=True)
class EnergyPanel:
    """One chip's arches and the points under them; `watts` is of its board, with the factors that hold 80 % of boards
    and the grade."""

    chip: str
    arches: tuple[EnergyArch, ...]
    points: tuple[RooflinePoint, ...]
    watts: float
    low: float
    high: float
    grade: str


@dataclass(frozen=True, repr=False)
class EnergyPlot(Picture):
    """Work per joule over arithmetic intensity, with a panel for each chip. `performance` and `light` of its points
    are FLOP per joule."""

    kind: ClassVar[Literal["energy"]] = "energy"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "panels", "note", "fits"), "")

    title: str
    panels: tuple[EnergyPanel, ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class Bar:
    """One stacked bar: a phase, a quantity, and the share of each group."""

    phase: str
    quantity: str
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True, repr=False)
class SharesPlot(Picture):
    """Shares of FLOPs, bytes and time."""

    kind: ClassVar[Literal["shares"]] = "shares"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "bars", "note", "fits"), "")

    title: str
    bars: tuple[Bar, ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class CrossingLabel:
    """A value at which the bottleneck changes."""

    at: int
    label: str
    floor: bool


@dataclass(frozen=True)
class Curve:
    """A phase on one chip over the axis: tokens/s, seconds per step with 80 % interval, and speed of light.

    `unfit_from`: first value that does not fit in memory, or None.
    """

    chip: str
    values: tuple[int, ...]
    tokens_per_second: tuple[float, ...]
    latency: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: tuple[float, ...]
    crossings: tuple[CrossingLabel, ...]
    unfit_from: int | None = None

    @property
    def fitting(self) -> int:
        """Number of values that fit in memory."""
        end = self.unfit_from
        return len(self.values) if end is None else sum(v < end for v in self.values)

    @property
    def memory_ends(self) -> str:
        """Where memory ends, as text."""
        return f"memory ends before {whole(self.unfit_from or 0)}" if self.fitting else "does not fit"


@dataclass(frozen=True, repr=False)
class SweepPlot(Picture):
    """Throughput and latency of a phase over batch or context."""

    kind: ClassVar[Literal["sweep"]] = "sweep"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "phase", "axis", "curves", "note", "fits"), "")

    title: str
    phase: str
    axis: str
    curves: tuple[Curve, ...]
    note: str = ""
    fits: bool = True

    @property
    def step_label(self) -> str:
        """Label of a step's time; in a decode each sequence gets one token from a step."""
        return "Time per token" if self.phase == "decode" else "Time of the prefill"

    @property
    def axis_label(self) -> str:
        """Label of the swept axis."""
        lengths = "Context (tokens)" if self.phase == "decode" else "Prompt (tokens)"
        return "Batch (sequences)" if self.axis == "batch" else lengths


@dataclass(frozen=True)
class Capacity:
    """A chip's memory, and the longest context that fits: 0 if the weights do not fit, None beyond the axis."""

    chip: str
    bytes: float
    longest: int | None

    @property
    def says(self) -> str:
        """Longest context that fits, as text."""
        known = {None: "fits throughout", 0: "does not fit"}
        return known[self.longest] if self.longest in known else f"up to {counted(self.longest or 0, 'token')}"


@dataclass(frozen=True, repr=False)
class MemoryPlot(Picture):
    """Bytes over context, stacked from the bottom up."""

    kind: ClassVar[Literal["memory"]] = "memory"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "context", "terms", "capacities", "note", "fits"), "")

    title: str
    context: tuple[int, ...]
    terms: tuple[tuple[str, tuple[float, ...]], ...]
    capacities: tuple[Capacity, ...]
    note: str = ""
    fits: bool = True

    @property
    def levels(self) -> tuple[Capacity, ...]:
        """Capacities as drawn, lowest first: those of equal height are merged."""
        ordered = sorted(self.capacities, key=lambda c: c.bytes)
        alike = (list(same) for _, same in groupby(ordered, key=lambda c: c.bytes))
        return tuple(replace(same[0], chip=", ".join(c.chip for c in same)) for same in alike)


@dataclass(frozen=True, repr=False)
class ParametersPlot(Picture):
    """Parameters by part, largest first, each with its share."""

    kind: ClassVar[Literal["parameters"]] = "parameters"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "parts", "total", "note", "fits"), "")

    title: str
    parts: tuple[tuple[str, int, float], ...]
    total: int
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class Cell:
    """A decode at one batch size and context."""

    batch: int
    context: int
    tokens_per_second: float
    latency: float
    bound: str
    fits: bool


@dataclass(frozen=True, repr=False)
class MapPlot(Picture):
    """Decode over batch (rows) × context (columns) on one chip; `rows[i][j]`."""

    kind: ClassVar[Literal["map"]] = "map"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "rows", "note", "fits"), "")

    title: str
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class BarPanel:
    """Bars of one quantity: `values[phase][operation]`, None if there is none."""

    label: str
    unit: str
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, repr=False)
class BarsPlot(Picture):
    """Quantities of each operation in each phase, side by side."""

    kind: ClassVar[Literal["bars"]] = "bars"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "operations", "phases", "panels", "note", "fits"), "")

    title: str
    operations: tuple[str, ...]
    phases: tuple[str, ...]
    panels: tuple[BarPanel, ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class Swing:
    """A knob: its ends as text, the step's time there relative to the base point, and its elasticity (None for
    formats)."""

    knob: str
    low: str
    high: str
    at_low: float
    at_high: float
    elasticity: float | None

    @property
    def shows(self) -> bool:
        """Whether time changes by at least 0.5 % at either end; a smaller bar has no visible length."""
        return max(abs(self.at_low - 1.0), abs(self.at_high - 1.0)) >= 0.005

    @property
    def label(self) -> str:
        """The knob, and its elasticity at the base point."""
        return self.knob if self.elasticity is None else f"{self.knob}  ε {self.elasticity:+z.2f}"


@dataclass(frozen=True)
class TornadoPanel:
    """Knobs of a kind (deployment, architecture) in a phase, largest swing first."""

    phase: str
    kind: str
    swings: tuple[Swing, ...]


@dataclass(frozen=True, repr=False)
class TornadoPlot(Picture):
    """Sensitivity of a step's time to each knob."""

    kind: ClassVar[Literal["tornado"]] = "tornado"
    AXIS: ClassVar[str] = "relative time when one parameter changes"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "panels", "note", "fits"), "")

    title: str
    panels: tuple[TornadoPanel, ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class Box:
    """A module or a run of layers: label, sizes, group. `adds`: where the residual stream is added.

    `lane`: number of its path, from 1, if several paths run in parallel; 0 if there is only one.
    """

    label: str
    detail: str
    group: str
    adds: bool = False
    lane: int = 0


@dataclass(frozen=True)
class Stack:
    """Boxes in execution order."""

    title: str
    boxes: tuple[Box, ...]

    @property
    def lanes(self) -> int:
        """Largest number of parallel paths."""
        return max(1, *(box.lane for box in self.boxes))

    @property
    def rows(self) -> tuple[int, ...]:
        """Of each box how far down it stands: paths side by side begin in one row, and what follows is below them all.

        >>> Stack("", tuple(Box(name, "", "", lane=lane) for name, lane in zip("abcde", (0, 1, 1, 2, 0)))).rows
        (0, 1, 2, 1, 3)
        """
        rows: list[int] = []
        start = 0
        for lane, run in groupby(self.boxes, key=lambda box: box.lane):
            if lane <= 1:
                start = max(rows, default=-1) + 1
            rows += range(start, start + len(list(run)))
        return tuple(rows)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Edges between boxes: a fork leads to the first box of each path, and the last box of each path to the next
        one."""
        edges: list[tuple[int, int]] = []
        ends: list[int] = []
        fork: list[int] = []
        for lane, run in groupby(range(len(self.boxes)), key=lambda i: self.boxes[i].lane):
            places = list(run)
            if lane == 0:
                before, ends = ends, [places[-1]]
            else:
                fork = ends if lane == 1 else fork
                before, ends = fork, [places[-1]] if lane == 1 else [*ends, places[-1]]
            edges += [(end, places[0]) for end in before] + list(pairwise(places))
        return tuple(edges)


@dataclass(frozen=True, repr=False)
class DiagramPlot(Picture):
    """A model from embedding to head, and each kind of its layers."""

    kind: ClassVar[Literal["diagram"]] = "diagram"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "model", "layers", "note", "fits"), "")

    title: str
    model: Stack
    layers: tuple[Stack, ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class Traced:
    """A quantity over time: its label, and its mean in each time interval."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Distributed:
    """Quantiles in seconds at equal steps, the last one the maximum; and the limit, if any."""

    label: str
    seconds: tuple[float, ...]
    most: float | None = None

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of requests that does not exceed each quantile."""
        return tuple((i + 1) / len(self.seconds) for i in range(len(self.seconds)))


@dataclass(frozen=True, repr=False)
class SimulationPlot(Picture):
    """A simulated server: requests and shares over time intervals that end at `seconds`, and distributions of times.

    `fits`: whether the server keeps up.
    """

    kind: ClassVar[Literal["simulation"]] = "simulation"
    FIGURES: ClassVar[Units] = {
        "kind": "", "title": "", "seconds": "s", "requests": "", "shares": "share", "distributions": "", "note": "",
        "fits": "",
    }  # fmt: skip

    title: str
    seconds: tuple[float, ...]
    requests: tuple[Traced, ...]
    shares: tuple[Traced, ...]
    distributions: tuple[Distributed, ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class StageMemory:
    """Memory of a pipeline stage's rank over a step: bytes from each of `seconds` on, and their maximum."""

    label: str
    seconds: tuple[float, ...]
    state: float
    total: tuple[float, ...]
    peak: float


@dataclass(frozen=True, repr=False)
class StepMemoryPlot(Picture):
    """Memory of training ranks over one step: the constant part, what the passes add, and the capacity."""

    kind: ClassVar[Literal["step-memory"]] = "step-memory"
    FIGURES: ClassVar[Units] = {
        "kind": "", "title": "", "stages": "", "length": "s", "capacity": "B", "note": "", "fits": "",
    }  # fmt: skip

    title: str
    stages: tuple[StageMemory, ...]
    length: float
    capacity: float
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class FrontPoint:
    """A plan: its name, and tokens/s per user and per chip."""

    label: str
    kind: str
    user: float
    chip: float


@dataclass(frozen=True, repr=False)
class FrontPlot(Picture):
    """Plans of which none is better than another both per user and per chip."""

    kind: ClassVar[Literal["front"]] = "front"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "plans", "note", "fits"), "")

    title: str
    plans: tuple[FrontPoint, ...]
    note: str = ""
    fits: bool = True


@dataclass(frozen=True)
class RowsLine:
    """Values of one column over another."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class RowsPlot(Picture):
    """A column of a sweep over an axis, with a line for each combination of the other axes. `unit`: of the column."""

    kind: ClassVar[Literal["rows"]] = "rows"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "x_label", "y_label", "unit", "lines", "note"), "")
    NAMES: ClassVar[Mapping[str, str]] = {"lines": "curves"}

    title: str
    x_label: str
    y_label: str
    unit: str
    curves: tuple[RowsLine, ...]
    note: str = ""
    fits: bool = True

    def logarithmic(self, axis: Literal["x", "y"]) -> bool:
        """Whether all values along the axis are positive and far enough apart for a logarithmic scale."""
        values = [v for line in self.curves for v in getattr(line, axis)]
        return bool(min(values) > 0 and max(values) >= 2 * min(values))

    @property
    def ticks(self) -> str:
        """Unit of the tick labels."""
        return self.unit if self.unit in ("s", "B", "FLOP", "J") else ""


@dataclass(frozen=True)
class RatioLine:
    """What was measured on a system: its name, and predicted / measured at 10, 50 and 90 % of the rows in each series;
    None where the series has none."""

    label: str
    ratios: tuple[tuple[float, float, float] | None, ...]


@dataclass(frozen=True, repr=False)
class RatiosPlot(Picture):
    """Predictions over measurements, a line for each system; `series`: ways to predict the same rows."""

    kind: ClassVar[Literal["ratios"]] = "ratios"
    FIGURES: ClassVar[Units] = dict.fromkeys(("kind", "title", "series", "lines", "note"), "")
    NAMES: ClassVar[Mapping[str, str]] = {"lines": "systems"}

    title: str
    series: tuple[str, ...]
    systems: tuple[RatioLine, ...]
    note: str = ""
    fits: bool = True


Plot: TypeAlias = (
    RooflinePlot | SharesPlot | SweepPlot | MemoryPlot | ParametersPlot | MapPlot | BarsPlot | TornadoPlot | DiagramPlot
    | SimulationPlot | StepMemoryPlot | FrontPlot | RowsPlot | RatiosPlot | EnergyPlot
)  # fmt: skip
