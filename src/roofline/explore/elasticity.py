"""Elasticities: by how many percent a figure moves where a knob of chip, work or model moves by one, and the regimes.

d ln y / d ln x. Of hardware by central differences with Richardson's extrapolation, whose own error is told; under the
laws without constants also in closed form, by which these are checked. All rates together shorten what is not fixed
seconds (launches, latencies, the host): by Euler's theorem on homogeneous functions what is left of 1 is theirs.
Work and model change in whole numbers: there it is the slope between two neighbours, which are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from roofline.declared.checks import flag
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.result import Figured, Units
from roofline.estimates.settings import Deployed, Setup
from roofline.estimates.step import Estimate
from roofline.explore.asking import question_of
from roofline.explore.open_question import SIZES, OpenQuestion
from roofline.explore.requirements import METRICS, figure_of
from roofline.explore.sensitivity import OperatingPoint, knobs
from roofline.explore.sweep import map_decode
from roofline.frozen import frozen
from roofline.machine.kernels import is_matrix
from roofline.model.load import model_of

KnobSide: TypeAlias = Literal["hardware", "work", "model"]
STEP = 1e-3
"""Of the logarithm of a rate, to either side."""
PART = 16
"""A whole number is moved by this part of it, at least by one."""
DEGREE = {"s": 1, "USD": 1, "J": 1, "W": 0, "tokens/s": -1, "requests/s": -1, "share": 0, "FLOP/B": 0, "B": 0}
"""Unit of a figure → the power of seconds in it, chips' prices and watts aside: a faster unit draws what it drew."""
USUAL = {"decode": "time", "prefill": "time", "generate": "latency", "serve": "tpot", "train": "time"}
"""Kind of estimate → the figure that is looked at where none is named."""


@dataclass(frozen=True)
class Elasticity(Figured):
    """d ln(figure) / d ln(knob), between `low` and `high` as factors of what the knob is now.

    `error`: how far the differences at two steps lie apart, of hardware; a kink of the law shows there. `method`:
    `difference`, `between` two whole numbers or models, `homogeneous` (what the others leave), or `closed form`.
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


def sensitivity(model: Any, *, of: str | None = None, map: bool = False, **settings: Any) -> Sensitivity:
    """The elasticities of a figure to the knobs of chip, work and model, and the regime of every op.

    of: a figure such as `time`, `tpot`, `latency` or `usd_per_million_tokens`; where not given the time of a step or of
    training, the latency of a static batch, the TPOT of a server. map: what limits decodes over batch and context too.
    The settings are those of `solve`. Of training the
    work alone is turned. Raises InputError for what is not understood, and for a figure that is a word.
    """
    q = question_of(model_of(model), "", (), False, settings)
    name = USUAL[q.subject] if of is None else of
    if METRICS.get(name) not in DEGREE:
        raise not_one_of("of", name, (m for m, unit in METRICS.items() if unit))

    def figure(other: OpenQuestion) -> float:
        return float(np.asarray(figure_of(other.answer, name, False)))

    value = figure(q)
    if not value > 0:
        raise InputError("of", name, "a figure above 0")
    every = [*(_hardware(q, name, figure) if q.subject != "train" else ()), *_work(q, figure), *_model(q, figure)]
    regimes = tuple(regime(phase, step) for phase, step in _steps(q))
    drawn = regime_map(q) if flag("map", map) else None
    return Sensitivity(q.asked, q.subject, name, value, METRICS[name], tuple(every), regimes, drawn)


# -- hardware ------------------------------------------------------------------------------------------------------
def chip_rates(q: OpenQuestion) -> Iterator[tuple[str, Callable[[float], OpenQuestion]]]:
    """The rates of a chip and its links, each a factor turned into the question with it."""
    chip, cluster = q.asked.deployment.chip, q.asked.deployment.cluster

    def times(values: Any, factor: float) -> Any:
        return frozen({key: factor * value for key, value in values.items()})

    yield "bandwidth", lambda f: q.on(replace(chip, bandwidth=f * chip.bandwidth))
    yield "peak", lambda f: q.on(replace(chip, peaks=times(chip.peaks, f)))
    if chip.vector:
        yield "vector", lambda f: q.on(replace(chip, vector=times(chip.vector, f)))
    if q.asked.deployment.chips > 1:
        yield (
            "link",
            lambda f: q.joined(
                replace(cluster, levels=tuple(replace(x, bandwidth=f * x.bandwidth) for x in cluster.levels))
            ),
        )


def _hardware(q: OpenQuestion, name: str, figure: Callable[[OpenQuestion], float]) -> Iterator[Elasticity]:
    known = []
    for knob, turned in chip_rates(q):
        value, error = slope(partial(_logarithm, figure, turned))
        known.append(Elasticity(knob, "hardware", value, np.exp(-STEP), np.exp(STEP), error, "difference"))
    yield from known
    if "rate" not in q.numbers:
        left = DEGREE[METRICS[name]] + sum(e.value for e in known) if METRICS[name] != "share" else None
        if left is not None:
            error = sum(e.error for e in known)
            yield Elasticity("fixed seconds", "hardware", left, 1.0, 1.0, error, "homogeneous")
    if METRICS[name] == "USD":
        yield Elasticity("price", "hardware", 1.0, 1.0, 1.0, 0.0, "closed form")


def _logarithm(figure: Callable[[OpenQuestion], float], turned: Callable[[float], OpenQuestion], x: float) -> float:
    """ln of a figure where the logarithm of a rate is moved by x."""
    return log(figure(turned(float(np.exp(x)))))


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


# -- work and model ------------------------------------------------------------------------------------------------
def _work(q: OpenQuestion, figure: Callable[[OpenQuestion], float]) -> Iterator[Elasticity]:
    for name in SIZES[q.subject]:
        now = q.numbers.get(name)
        now = 1 if now is None and name == "batch" else now
        if not now or name == "rate":
            continue
        move = max(1, now // PART)
        if q.subject == "train":
            move = _unit(q, name) * max(1, now // PART // _unit(q, name))
        ends = []
        for n in (now - move, now + move):
            try:
                ends.append((n, log(figure(q.sized(**{name: n})))))
            except (InputError, ValueError):  # nothing there: beyond the context, no sequence
                ends.append((now, log(figure(q))))
        (low, below), (high, above) = ends
        if low < high:
            value = (above - below) / log(high / low)
            yield Elasticity(name.removesuffix("_tokens"), "work", value, low / now, high / now, 0.0, "between")


def _unit(q: OpenQuestion, name: str) -> int:
    """What a number of training is a multiple of."""
    degrees = q.asked.layout
    return int(degrees.dp) * int(q.others.get("micro_batch") or 1) if name == "batch" else 2 * int(degrees.cp)


def _model(q: OpenQuestion, figure: Callable[[OpenQuestion], float]) -> Iterator[Elasticity]:
    """The knobs of the architecture that `knobs` of a step has, turned there and asked of this figure."""
    point = OperatingPoint(q.asked, 1, 1)
    now = figure(q)
    for knob, kind, ends in knobs(point, "decode"):
        if kind != "architecture":
            continue
        (low, one), (high, other) = ends
        try:
            below, above = (
                now if end.model is q.model else figure(q.under(replace(q.asked, model=end.model)))
                for end in (one, other)
            )
        except InputError:  # a size that no longer divides
            continue
        value = (log(above) - log(below)) / (log(high) - log(low))
        yield Elasticity(knob, "model", value, low, high, 0.0, "between")


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
