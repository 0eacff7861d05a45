"""Elasticities: by how many percent a figure moves where a knob of chip, work or model moves by one, and the regimes.

d ln y / d ln x at the question asked, with its error. Rates of the machine: central differences with Richardson's
extrapolation; under the laws without constants also in closed form, by which these are checked. All rates together
shorten what is not fixed seconds (launches, latencies, the host): by Euler's theorem on homogeneous functions what is
left of 1 is theirs. Whole numbers of work and model: the slope between the neighbours a sixteenth away, which are told.
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
from roofline.declared.result import Figured, Units
from roofline.declared.units import seconds_power
from roofline.estimates.settings import Deployed, Setup
from roofline.estimates.step import Estimate
from roofline.explore.asking import question_of
from roofline.explore.knobs import KNOBS, RATES, Knob, KnobSide
from roofline.explore.open_question import OpenQuestion
from roofline.explore.sweep import map_decode
from roofline.machine.kernels import is_matrix
from roofline.model.load import Source, model_of
from roofline.model.model import Model

STEP = 1e-3
"""Of the logarithm of a rate, to either side."""
PART = 16
"""A whole number is moved by this part of it, at least by one."""


@dataclass(frozen=True)
class Elasticity(Figured):
    """d ln(figure) / d ln(knob), between `low` and `high` as factors of what the knob is now.

    `error`: how far slopes at two steps, or to either side, lie apart, infinite where there is one alone; a kink of
    the law shows there. `method`: `difference`, `between` two whole numbers, `homogeneous` (what the others leave), or
    `closed form`.
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
    """An op: what limits it, and its share of the step's expected time."""

    FIGURES: ClassVar[Units] = {"name": "", "bound": "", "share": "share"}

    name: str
    bound: str
    share: float


@dataclass(frozen=True)
class Regime(Figured):
    """A step: what limits it as a whole, the shares of its expected time in ops under each bound, and every op."""

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
        """Share of the time in ops that arithmetic limits."""
        return self._share("compute")

    @property
    def memory(self) -> float:
        """The same of memory's bandwidth."""
        return self._share("memory")

    @property
    def network(self) -> float:
        """The same of links."""
        return self._share("network")

    @property
    def latency(self) -> float:
        """The same of launches and other fixed seconds."""
        return self._share("latency")


@dataclass(frozen=True)
class RegimeMap(Figured):
    """What limits a decode at each `batch` (of all replicas) and `context`, and whether it fits: [batch][context]."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("batch", "context", "bound", "fits"), "")

    batch: tuple[int, ...]
    context: tuple[int, ...]
    bound: tuple[tuple[str, ...], ...]
    fits: tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, repr=False)
class Sensitivity(Deployed):
    """How one figure (`of`) of an estimate answers to each knob; `value` in `unit` is what it is now.

    `elasticities`: hardware first, then work, then model. `regimes`: of the steps that it is made of. `map`: null where
    it was not asked for.
    """

    SCHEMA: ClassVar[str] = "roofline.sensitivity/1"
    FIGURES: ClassVar[Units] = {
        "model": "", "deployment": "", "engine": "", "law": "", "formats": "", "subject": "", "of": "", "value": "",
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
        """The elasticity to a knob. Raises InputError where there is none of that name."""
        for e in self.elasticities:
            if e.knob == knob:
                return e.value
        raise not_one_of("knob", knob, (e.knob for e in self.elasticities))


def sensitivity(model: Model | Source, *, of: str | None = None, map: bool = False, **settings: Given) -> Sensitivity:
    """The elasticities of a figure to the knobs of chip, work and model, and the regime of every op.

    of: a figure such as `time`, `tpot`, `latency` or `usd_per_million_tokens`; where not given the time of a step or of
    training, the latency of a static batch, the TPOT of a server. map: what limits decodes over batch and context too.
    The settings are those of `solve`. Of training the
    work alone is turned. Raises InputError for what is not understood, and for a figure that is a word.
    """
    q = question_of(model_of(model), "", False, settings).knowing()
    name = figure_of(q, of)

    def figure(other: OpenQuestion) -> float:
        return float(np.asarray(other.figure(name)))

    value, unit = figure(q), q.known[name].unit
    if not value > 0:
        raise InputError("of", name, "a figure above 0")
    every = [*(_hardware(q, unit, figure) if q.subject != "train" else ()), *_others(q, figure)]
    regimes = tuple(regime(phase, step) for phase, step in _steps(q))
    drawn = regime_map(q) if flag("map", map) else None
    return Sensitivity(q.asked, q.subject, name, value, unit, tuple(every), regimes, drawn)


def figure_of(q: OpenQuestion, of: str | None) -> str:
    """A figure by its name, that which is usual where none is given. Raises InputError for one that is no number."""
    numbers = [name for name, column in q.known.items() if column.kind == "float"]
    name = q.question.usual if of is None else of
    if name not in numbers:
        raise not_one_of("of", name, numbers)
    return name


# -- one definition ------------------------------------------------------------------------------------------------
def elasticity(knob: Knob, q: OpenQuestion, figure: Callable[[OpenQuestion], float]) -> Elasticity | None:
    """How a figure answers to a knob; None where the question lacks the knob, or it cannot be turned."""
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
    """ln of a figure at a whole number; None where there is none: beyond the context, a size that does not divide."""
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
    """The elasticities to work and model; requests that arrive at random are not turned."""
    for knob in KNOBS.values():
        if knob.side != "hardware" and knob.name != "rate":
            e = elasticity(knob, q, figure)
            if e is not None:
                yield e


def slope(y: Callable[[float], float]) -> tuple[float, float]:
    """dy/dx at 0 and how far two estimates of it lie apart: central differences, extrapolated (Richardson 1911).

    >>> value, error = slope(lambda x: log(1 + x))
    >>> abs(value - 1) < 1e-11, error < 1e-5
    (True, True)
    """
    wide, narrow = ((y(h) - y(-h)) / (2 * h) for h in (STEP, STEP / 2))
    return (4 * narrow - wide) / 3, abs(narrow - wide)


def ideal_elasticities(e: Estimate) -> dict[str, float]:
    """Of a step's time under a law without constants, in closed form: t = Σ max(F/P, B/W, N/L) of its ops.

    d ln t / d ln P = − Σ of the ops that P limits / t, and so with the others; an op at the ridge counts as compute.
    Raises InputError for another law, or arrays.
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
    """The steps that an estimate is made of: itself, those in the middle of a batch, a server's decode."""
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
    """What limits a step and its ops."""
    total = float(e.time)
    ops = tuple(OpRegime(op.name, str(op.bound), float(op.expected) / total) for op in e.ops)
    return Regime(phase, str(e.bound), ops)


def regime_map(q: OpenQuestion) -> RegimeMap:
    """What limits decodes of a model in a place, over batch and context. Raises InputError of training."""
    if q.subject == "train":
        raise InputError("map", True, "inference: it is of decode steps")
    drawn = map_decode(q.model, **q.others)
    return RegimeMap(
        tuple(drawn.batch.tolist()), tuple(drawn.context.tolist()),
        tuple(tuple(row) for row in drawn.estimate.bound.tolist()), tuple(tuple(row) for row in drawn.fits.tolist()),
    )  # fmt: skip
