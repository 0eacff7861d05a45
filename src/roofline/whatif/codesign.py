"""Co-design: hypothetical chips under a model of area, power and price, and their Pareto front.

A chip is described by its peak, memory stacks, last-level cache and link. Each model is one line. Its constants are a
`Process`: public figures, or estimates derived from the figures of one chip. All of them are rough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from math import pi, sqrt
from typing import ClassVar

import numpy as np

from roofline.declared.checks import count, numbers
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.kinds import Given
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.units import seconds_power
from roofline.declared.question import Settings
from roofline.declared.result import Figured, FigureValue, Units
from roofline.extras import install_line
from roofline.inference.settings import Deployed, Setup
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.whatif.query.condition import condition_of
from roofline.whatif.query.knobs import KNOBS
from roofline.whatif.query.parsing import question_of
from roofline.whatif.query.query import OpenQuestion
from roofline.whatif.query.questions import all_in_memory

TERA, GIGA, MIB, GIB = 1e12, 1e9, 2.0**20, 2.0**30
POPULATION, GENERATIONS, MOST_GENERATIONS = 32, 40, 1000
MADE: Units = {"area": "", "usd": "USD"}
"""Figures of the chip itself that a condition may name, in addition to those of the question."""
TAKEN = ("usd", "power", "area")
"""Costs of a chip that may be the second objective; less is better."""
PER_LINK = 25e9
"""Bytes/s in one direction of an NVLink 4 link (NVIDIA H100 whitepaper: 18 links, 900 GB/s in both)."""


@dataclass(frozen=True)
class Process(Figured):
    """Constants of area (mm²), power and price. The defaults describe a 5 nm class die with HBM3.

    `reticle`: 26 × 33 mm. `cache_mm2` per MiB: bit cells of 0.125 µm², with 0.602 of the area in the array.
    `stack_mm2`: PHY 10.45 and controller 5.62. `link_mm2` per 25 GB/s: 0.965 and 0.88 (all from LLMCompass's cost
    model, arXiv:2312.03134, controllers at GH100's 98.3 M transistors per mm²). `peak_mm2` per TFLOP/s of bf16: GH100's
    814 mm² (NVIDIA H100 whitepaper) less 50 MiB of cache, 6 stacks and 18 links, over 989.4. `stack_bandwidth`,
    `stack_bytes`: a fifth of H100 SXM's. `stack_joules` per byte: 3.9 pJ per bit (O'Connor et al., MICRO 2017). `idle`
    watts: H100's in the catalog. `peak_joules` per FLOP: the rest of its 700 W. `wafer`: USD of a 300 mm wafer (CSET,
    AI Chips, 2020, 5 nm). `defects` per cm² and `clustering`: parameters of the negative binomial yield (Stapper 1983),
    assumed. `memory_usd` per GB (LLMCompass, spot price of 2023). `rest_usd`: package and board, assumed.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(
        (
            "reticle", "peak_mm2", "cache_mm2", "stack_mm2", "link_mm2", "stack_bandwidth", "stack_bytes",
            "peak_joules", "stack_joules", "idle", "wafer", "diameter", "defects", "clustering", "memory_usd",
            "rest_usd",
        ),
        "",
    )  # fmt: skip

    reticle: float = 858.0
    peak_mm2: float = 0.6036
    cache_mm2: float = 1.742
    stack_mm2: float = 16.07
    link_mm2: float = 1.846
    stack_bandwidth: float = 670e9
    stack_bytes: float = 16 * GIB
    peak_joules: float = 0.531e-12
    stack_joules: float = 31.2e-12
    idle: float = 70.0
    wafer: float = 16988.0
    diameter: float = 300.0
    defects: float = 0.1
    clustering: float = 3.0
    memory_usd: float = 7.0
    rest_usd: float = 1000.0

    def __post_init__(self) -> None:
        for f in fields(self):
            above = f.name in ("reticle", "diameter", "clustering")
            expected = f"a number{' above 0' if above else ', zero or more'}"
            numbers(f"process {f.name}", getattr(self, f.name), 0.0, np.inf, expected, above)

    def yielded(self, area: float) -> float:
        """The yield, a share of dies: (1 + A·D/α)^−α, A in cm²."""
        return float((1 + area / 100 * self.defects / self.clustering) ** -self.clustering)

    def dies(self, area: float) -> float:
        """Dies per wafer: π·(d/2)²/A − π·d/√(2A) (de Vries 2005)."""
        return pi * (self.diameter / 2) ** 2 / area - pi * self.diameter / sqrt(2 * area)


@dataclass(frozen=True)
class Design(Figured):
    """A hypothetical chip: `peak` FLOP/s of bf16, `stacks` of memory, `cache` bytes and `link` bytes/s.

    Derived: `area` in mm² of one die, `power` in watts with everything busy, `usd` to make it. `value`: the figure
    asked for, infinite where the chip does not meet the requirements.
    """

    FIGURES: ClassVar[Units] = {
        "peak": "FLOP/s", "stacks": "", "cache": "B", "link": "B/s", "bandwidth": "B/s", "capacity": "B", "area": "",
        "power": "W", "usd": "USD", "value": "",
    }  # fmt: skip

    peak: float
    stacks: int
    cache: float
    link: float
    process: Process
    value: float = np.inf

    @property
    def bandwidth(self) -> float:
        """Memory bandwidth of all stacks, bytes/s."""
        return self.stacks * self.process.stack_bandwidth

    @property
    def capacity(self) -> float:
        """Memory capacity of all stacks, bytes."""
        return self.stacks * self.process.stack_bytes

    @property
    def area(self) -> float:
        """Die area in mm²: compute, cache, and the interfaces of memory and links."""
        p = self.process
        arithmetic, links = self.peak / TERA * p.peak_mm2, self.link / PER_LINK * p.link_mm2
        return arithmetic + self.cache / MIB * p.cache_mm2 + self.stacks * p.stack_mm2 + links

    @property
    def power(self) -> float:
        """Watts: idle power, plus compute and memory at full rate."""
        return self.process.idle + self.peak * self.process.peak_joules + self.bandwidth * self.process.stack_joules

    @property
    def usd(self) -> float:
        """USD per working chip: wafer cost per good die, memory, and the rest."""
        p = self.process
        die = p.wafer / p.dies(self.area) / p.yielded(self.area)
        return die + self.capacity / GIGA * p.memory_usd + p.rest_usd

    def figure_of(self, q: OpenQuestion, name: str) -> FigureValue:
        """A figure named in a condition: the chip's own area or cost, else a figure of the question on this chip."""
        return getattr(self, name) if name in MADE else q.figure(name)

    def put_in(self, q: OpenQuestion) -> OpenQuestion:
        """The question asked on this chip. Everything that a design does not set is taken from the given chip."""
        values = {"peak": self.peak, "bandwidth": self.bandwidth, "memory": self.capacity, "cache": self.cache,
                  "power": self.power, "link": self.link}  # fmt: skip
        return reduce(lambda there, name: KNOBS[name].set(there, values[name]), values, q)


@dataclass(frozen=True)
class Bounds:
    """The search space: each pair is a minimum and a maximum; `power` is a maximum in watts."""

    peak: tuple[float, float] = (50e12, 1300e12)
    stacks: tuple[int, int] = (1, 8)
    cache: tuple[float, float] = (8 * MIB, 256 * MIB)
    link: tuple[float, float] = (25e9, 900e9)
    power: float = np.inf

    def __post_init__(self) -> None:
        for name in ("peak", "stacks", "cache", "link"):
            low, high = getattr(self, name)
            if not 0 < low <= high < np.inf:
                raise InputError(name, [low, high], "two numbers above 0, the least first")
        if not self.power > 0:
            raise InputError("power", self.power, "watts above 0")


@dataclass(frozen=True, repr=False)
class Codesign(Deployed):
    """The Pareto front of chips for two objectives: the figure `of`, and `against` (`usd`, `power` or `area`).

    `designs`: sorted by the figure, in `unit`, the best first. `looked`: number of chips evaluated.
    """

    SCHEMA: ClassVar[str] = "roofline.codesign/1"
    FIGURES: ClassVar[Units] = {
        **Deployed.PLACE, "of": "", "unit": "", "against": "",
        "seed": "", "looked": "", "process": "", "designs": "",
    }  # fmt: skip

    asked: Setup
    of: str
    unit: str
    against: str
    seed: int
    looked: int
    process: Process
    designs: tuple[Design, ...]


def codesign(
    model: Model | Source, *, bounds: Bounds | None = None, process: Process | None = None, of: str | None = None,
    against: str = "usd", where: str | Sequence[str] = (), seed: int = 1, generations: int = GENERATIONS,
    **settings: Given,
) -> Codesign:  # fmt: skip
    """The Pareto front of hypothetical chips, by NSGA-II: a figure against a cost of the chip.

    of: the figure, with a power of seconds in its unit: minimised (times, USD, joules) or maximised
    (`tokens_per_second`).
    against: `usd`, `power` or `area`, minimised.
    where: a condition that chips must meet, on figures as in `solve`, and on their `area` in mm² and their `usd`.
    The settings are those of `solve`. Everything that a design does not set, the law included, comes from the given
    chip. A chip is feasible where its die fits the reticle, its power is within the bounds and the requested work fits
    its memory. The same seed gives the same front; each generation has 32 chips.
    Needs pymoo (the extra `codesign`). Raises InputError where no chip is feasible, and for invalid settings.
    """
    ends = ("n_gen", count("generations", generations, 1))
    if generations > MOST_GENERATIONS:
        raise InputError("generations", generations, f"a whole number from 1 to {MOST_GENERATIONS}")
    try:
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.problem import ElementwiseProblem
        from pymoo.optimize import minimize
    except ImportError:
        raise InputError("codesign", "no pymoo", install_line("codesign")) from None

    within, made_by = bounds or Bounds(), process or Process()
    q, name = drawing_board(model, of, against, settings, where)
    sign = towards(q, name)
    low = [within.peak[0], within.stacks[0], within.cache[0], within.link[0]]
    high = [within.peak[1], within.stacks[1], within.cache[1], within.link[1]]
    known: dict[tuple[float, ...], Design] = {}

    class Chips(ElementwiseProblem):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(n_var=4, n_obj=2, n_ieq_constr=3, xl=np.log(low), xu=np.log(high))

        def _evaluate(self, x: Array, out: dict[str, list[float]], *args: Array, **kwargs: Array) -> None:
            d = designed(np.exp(x), made_by)
            ok = d.area <= made_by.reticle and d.power <= within.power
            key = (d.peak, d.stacks, d.cache, d.link)
            if ok and key not in known:
                known[key] = worked_out(q, name, d)
            value = known[key].value if ok else np.inf
            fits = np.isfinite(value)
            out["F"] = [sign * value, getattr(d, against)] if fits else [1e30, 1e30]
            out["G"] = [d.area - made_by.reticle, min(d.power - within.power, 1e30), 0.0 if fits or not ok else 1.0]

    minimize(Chips(), NSGA2(pop_size=POPULATION), ends, seed=count("seed", seed), verbose=False)
    front = front_of([d for d in known.values() if np.isfinite(d.value)], against, sign)
    if not front:
        raise InputError("bounds", str(within), "some in which a chip holds what is asked for")
    return Codesign(q.asked, name, q.known[name].unit, against, seed, len(known), made_by, front)


def drawing_board(
    model: Model | Source, of: str | None, against: str, settings: Settings, where: str | Sequence[str] = ()
) -> tuple[OpenQuestion, str]:
    """The question to ask on every chip, with its condition, and the name of the objective."""
    q = question_of(model_of(model), "", False, settings).knowing()
    name = q.question.usual if of is None else of
    objectives = [figure for figure, column in q.known.items() if seconds_power(column.unit)]
    if name not in objectives:
        raise not_one_of("of", name, objectives)
    if against not in TAKEN:
        raise not_one_of("against", against, TAKEN)
    if q.subject == "train":
        raise InputError("tokens", q.numbers.get("tokens"), "nothing: it is of inference")
    units = {**{figure: column.spelled for figure, column in q.known.items()}, **MADE}
    return replace(q, condition=condition_of(where, units)), name


def towards(q: OpenQuestion, of: str) -> int:
    """1 where less of a figure is better, −1 where more is, by the sign of the power of seconds in its unit."""
    return 1 if seconds_power(q.known[of].unit) > 0 else -1


def designed(x: Iterable[float], process: Process) -> Design:
    """A design from four numbers; stacks are rounded to a whole number."""
    peak, stacks, cache, link = (float(v) for v in x)
    return Design(peak, max(1, round(stacks)), cache, link, process)


def worked_out(q: OpenQuestion, of: str, design: Design) -> Design:
    """The design with its figure; infinite where the work does not fit in memory at once, or the condition fails."""
    there = design.put_in(q)
    parts = q.condition.parts if bool(all_in_memory(there.answer)) else None
    meets = parts is not None and all(bool(part.value(partial(design.figure_of, there))) for part in parts)
    return replace(design, value=float(np.asarray(there.figure(of))) if meets else np.inf)


def front_of(designs: Sequence[Design], against: str, sign: int = 1) -> tuple[Design, ...]:
    """The Pareto front: designs that no other matches in both objectives and beats in one, sorted by their figure."""
    ordered = sorted(designs, key=lambda d: (sign * d.value, getattr(d, against)))
    front: list[Design] = []
    for d in ordered:
        if not front or getattr(d, against) < getattr(front[-1], against):
            front.append(d)
    return tuple(front)
