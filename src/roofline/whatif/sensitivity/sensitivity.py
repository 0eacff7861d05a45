"""Elasticities: percent change of a figure per percent change of a knob (chip, work or model), and regimes.

The elasticity is d ln y / d ln x at the query, with an error. For rates of the machine: central differences with
Richardson extrapolation; under laws without constants also in closed form, as a check. Scaling all rates together
scales all time but fixed seconds (launches, latencies, the host). By Euler's theorem on homogeneous functions, the
elasticity to fixed seconds is therefore the remainder to 1. For whole numbers of work and model: the slope between
neighbours a sixteenth away, which are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, log
from typing import ClassVar

import numpy as np

from roofline.declared.checks import flag
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.kinds import Given
from roofline.declared.numbers.units import seconds_power
from roofline.declared.result import Figured, Units
from roofline.inference.settings import Deployed, Setup
from roofline.inference.step import Estimate
from roofline.kernels.kernels import is_matrix
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.whatif.query.knobs import KNOBS, RATES, Knob, KnobSide
from roofline.whatif.query.parsing import question_of
from roofline.whatif.query.query import OpenQuestion
from roofline.whatif.sweep.crossovers import map_decode

STEP = 1e-3
"""Step of the logarithm of a rate, to either side."""
PART = 16
"""A whole number is moved by 1/16 of its value, at least by one."""


@dataclass(frozen=True)
class Elasticity(Figured):
    """The elasticity d ln(figure) / d ln(knob), measured from `low` to `high`, as factors of the knob's current value.

    `error`: the difference between slopes at two step sizes or on either side, infinite where there is only one slope;
    a kink in the law shows here. `method`: `difference`, `between` two whole numbers, `homogeneous` (the remainder
    after all rates), or `closed form`.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("knob", "side", "value", "low", "high", "error", "method"), "")

    knob: str
    side: KnobSide
    value: float
    low: float
    high: float
    error: float
    method: str


@dataclass(frozen=True)
class OpRegime(Figured):
    """An op: its bound, and its share of the step's expected time."""

    FIGURES: ClassVar[Units] = {"name": "", "bound": "", "share": "share"}

    name: str
    bound: str
    share: float


@dataclass(frozen=True)
class Regime(Figured):
    """A step: its bound, the shares of its expected time in ops of each bound, and every op."""

    FIGURES: ClassVar[Units] = {
        "phase": "", "bound": "", "compute": "share", "memory": "share", "network": "share", "latency": "share",
        "ops": "",
    }  # fmt: skip

    phase: str
    bound: str
    ops: tuple[OpRegime, ...]

    def _share(self, bound: str) -> float:
        return sum(op.share for op in self.ops if op.bound == bound)

    @property
    def compute(self) -> float:
        """Share of the time in compute-bound ops."""
        return self._share("compute")

    @property
    def memory(self) -> float:
        """Share of the time in ops bound by memory bandwidth."""
        return self._share("memory")

    @property
    def network(self) -> float:
        """Share of the time in ops bound by links."""
        return self._share("network")

    @property
    def latency(self) -> float:
        """Share of the time in ops bound by launches and other fixed seconds."""
        return self._share("latency")


@dataclass(frozen=True)
class RegimeMap(Figured):
    """The bound of a decode step at each `batch` (of all replicas) and `context`, and whether it fits.

    `bound`, `fits`: [batch][context].
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("batch", "context", "bound", "fits"), "")

    batch: tuple[int, ...]
    context: tuple[int, ...]
    bound: tuple[tuple[str, ...], ...]
    fits: tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, repr=False)
class Sensitivity(Deployed):
    """The elasticities of one figure (`of`) of an estimate; `value` in `unit` is its current value.

    `elasticities`: hardware first, then work, then model. `regimes`: of the steps of the estimate. `map`: None unless
    requested.
    """

    SCHEMA: ClassVar[str] = "roofline.sensitivity/1"
    FIGURES: ClassVar[Units] = {
        **Deployed.PLACE, "subject": "", "of": "", "value": "",
        "unit": "", "elasticities": "", "regimes": "", "map": "",
    }  # fmt: skip

    asked: Setup
    subject: str
    of: str
    value: float
    unit: str
    elasticities: tuple[Elasticity, ...]
    regimes: tuple[Regime, ...]
    map: RegimeMap | None = None

    def to(self, knob: str) -> float:
        """The elasticity to a knob. Raises InputError for an unknown knob."""
        for e in self.elasticities:
            if e.knob == knob:
                return e.value
        raise not_one_of("knob", knob, (e.knob for e in self.elasticities))


def sensitivity(model: Model | Source, *, of: str | None = None, map: bool = False, **settings: Given) -> Sensitivity:
    """The elasticities of a figure to the knobs of chip, work and model, and the regime of every op.

    of: a figure such as `time`, `tpot`, `latency` or `usd_per_million_tokens`. The default is the time of a step or of
    training, the latency of a static batch, or the TPOT of a server.
    map: also the bound of decode steps over batch and context.
    The settings are those of `solve`. Raises InputError for invalid settings, and for a figure that is not a number.
    """
    q = question_of(model_of(model), "", False, settings).knowing()
    name = figure_of(q, of)

    def figure(other: OpenQuestion) -> float:
        return float(np.asarray(other.figure(name)))

    value, unit = figure(q), q.known[name].unit
    if not value > 0:
        raise InputError("of", name, "a figure above 0")
    every = [*_hardware(q, unit, figure), *_others(q, figure)]
    regimes = tuple(regime(phase, step) for phase, step in _steps(q))
    drawn = regime_map(q) if flag("map", map) else None
    return Sensitivity(q.asked, q.subject, name, value, unit, tuple(every), regimes, drawn)


def figure_of(q: OpenQuestion, of: str | None) -> str:
    """The name of a figure; by default the question's usual one. Raises InputError where it is not a number."""
    numbers = [name for name, column in q.known.items() if column.kind == "float"]
    name = q.question.usual if of is None else of
    if name not in numbers:
        raise not_one_of("of", name, numbers)
    return name


# -- elasticities --------------------------------------------------------------------------------------------------
def elasticity(knob: Knob, q: OpenQuestion, figure: Callable[[OpenQuestion], float]) -> Elasticity | None:
    """The elasticity of a figure to a knob; None where the query lacks the knob, or it cannot be varied."""
    now, grain = knob.get(q), knob.grain(q)
    if not now:
        return None
    if not grain:
        value, error = slope(lambda x: log(figure(knob.set(q, now * float(np.exp(x))))))
        return Elasticity(knob.name, knob.side, value, float(np.exp(-STEP)), float(np.exp(STEP)), error, "difference")
    move = grain * max(1, int(now) // PART // grain)
    at = {n: y for n in (-1, 0, 1) if (y := _logarithm(knob, q, now + n * move, figure)) is not None}
    if len(at) < 2 or 0 not in at:
        return None

    def between(low: int, high: int) -> float:
        return (at[high] - at[low]) / log((now + high * move) / (now + low * move))

    low, high = min(at), max(at)
    if (low, high) == (-1, 1):
        error = abs(between(0, 1) - between(-1, 0))
    else:
        far = 2 * (low + high)
        further = _logarithm(knob, q, now + far * move, figure)
        error = inf
        if further is not None:
            at[far] = further
            error = abs(between(min(0, far), max(0, far)) - between(low, high))
    ends = (1 + low * move / now, 1 + high * move / now)
    return Elasticity(knob.name, knob.side, between(low, high), *ends, error, "between")


def _logarithm(knob: Knob, q: OpenQuestion, x: float, figure: Callable[[OpenQuestion], float]) -> float | None:
    """ln of the figure at a whole number; None where it is invalid, such as a size that does not divide."""
    try:
        return log(figure(knob.set(q, x))) if x > 0 else None
    except (InputError, ValueError):
        return None


def _hardware(q: OpenQuestion, unit: str, figure: Callable[[OpenQuestion], float]) -> Iterator[Elasticity]:
    known = [e for name in RATES if (e := elasticity(KNOBS[name], q, figure)) is not None]
    yield from known
    if "rate" not in q.numbers and unit != "share":
        left = seconds_power(unit) + sum(e.value for e in known)
        yield Elasticity("fixed seconds", "hardware", left, 1.0, 1.0, sum(e.error for e in known), "homogeneous")
    if unit == "USD":
        yield Elasticity("price", "hardware", 1.0, 1.0, 1.0, 0.0, "closed form")


def _others(q: OpenQuestion, figure: Callable[[OpenQuestion], float]) -> Iterator[Elasticity]:
    """The elasticities to work and model. A rate of random arrivals is not varied."""
    for knob in KNOBS.values():
        if knob.side != "hardware" and knob.name != "rate":
            e = elasticity(knob, q, figure)
            if e is not None:
                yield e


def slope(y: Callable[[float], float]) -> tuple[float, float]:
    """dy/dx at 0 and the difference of two estimates of it: central differences, extrapolated (Richardson 1911).

    >>> value, error = slope(lambda x: log(1 + x))
    >>> abs(value - 1) < 1e-11, error < 1e-5
    (True, True)
    """
    wide, narrow = ((y(h) - y(-h)) / (2 * h) for h in (STEP, STEP / 2))
    return (4 * narrow - wide) / 3, abs(narrow - wide)


def ideal_elasticities(e: Estimate) -> dict[str, float]:
    """Elasticities of a step's time under a law without constants, in closed form: t = Σ max(F/P, B/W, N/L) over ops.

    d ln t / d ln P = − (time of the ops bound by P) / t, and likewise for the others; an op at the ridge counts as
    compute. Raises InputError for another law, or for arrays.
    """
    if e.asked.law.name != "ideal" or e.shape:
        raise InputError("law", e.law, "`ideal`, of one step")
    sums = dict.fromkeys(("bandwidth", "peak", "vector", "link"), 0.0)
    for op in e.ops:
        which = {"memory": "bandwidth", "network": "link"}.get(op.bound) or ("peak" if is_matrix(op.cost.op) else
                                                                             "vector")  # fmt: skip
        sums[which] -= float(op.expected) / float(e.time)
    return sums


# -- regimes -------------------------------------------------------------------------------------------------------
def _steps(q: OpenQuestion) -> Iterator[tuple[str, Estimate]]:
    """The steps of an estimate: itself, the prefill and middle decode step of a batch, or a server's decode step."""
    answer = q.answer
    match q.subject:
        case "decode" | "prefill":
            yield q.subject, answer
        case "generate":
            yield "prefill", answer.prompts
            if q.numbers["output_tokens"] > 1:
                yield "decode", answer.middle
        case "serve":
            yield "decode", answer.decode
        case _:
            return


def regime(phase: str, e: Estimate) -> Regime:
    """The bounds of a step and of its ops."""
    total = float(e.time)
    ops = tuple(OpRegime(op.name, str(op.bound), float(op.expected) / total) for op in e.ops)
    return Regime(phase, str(e.bound), ops)


def regime_map(q: OpenQuestion) -> RegimeMap:
    """The bounds of decode steps over batch and context. Raises InputError for training."""
    if q.subject == "train":
        raise InputError("map", True, "inference: it is of decode steps")
    drawn = map_decode(q.model, **q.others)
    return RegimeMap(
        tuple(drawn.batch.tolist()), tuple(drawn.context.tolist()),
        tuple(tuple(row) for row in drawn.estimate.bound.tolist()), tuple(tuple(row) for row in drawn.fits.tolist()),
    )  # fmt: skip
