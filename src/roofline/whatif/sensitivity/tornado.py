"""Sensitivity of a step's expected time to each knob: swings over a range, elasticities, and a grid.

A swing is the relative change of time over a knob's range. The elasticity is that of `sensitivity`, at the operating
point. Knobs of deployment (batch, context, formats, chip, links) are kept apart from those of the architecture (layers,
width, feed-forward, KV heads, experts per token), which change the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, TypeAlias

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.inference.settings import Setup
from roofline.inference.step import Estimate, step_estimate
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.whatif.query import model_variants
from roofline.whatif.query.knobs import Knob, eight_bits, experts_per_token, knobs_of, narrower_formats
from roofline.whatif.query.query import OpenQuestion
from roofline.whatif.sensitivity.quantized_weights import quantized_weights, weights_text
from roofline.whatif.sensitivity.sensitivity import elasticity
from roofline.work.step import PHASES, Phase, Step, decode, step_of

KnobKind: TypeAlias = Literal["deployment", "architecture"]
KINDS: tuple[KnobKind, ...] = ("deployment", "architecture")


@dataclass(frozen=True)
class OperatingPoint:
    """The operating point: a model with resolved settings, and `batch` sequences over all replicas.

    `context`: cached tokens of a decode step. `prompt`: tokens of a prefill; by default equal to `context`.
    """

    asked: Setup
    batch: int
    context: int
    prompt: int | None = None

    @property
    def model(self) -> Model:
        """The model, unsharded."""
        return self.asked.model

    @property
    def formats(self) -> Precision:
        """The formats of the model."""
        return self.asked.formats

    @property
    def prompted(self) -> int:
        """Tokens of a prefill."""
        return self.context if self.prompt is None else self.prompt

    def step(self, phase: Phase, longer: int = 1) -> Step:
        """A prefill of the prompt, or a decode step at the context; either scaled by `longer`."""
        return step_of(phase, self.batch, longer * (self.prompted if phase == "prefill" else self.context))

    def at(self, step: Step, traffic: str = "fused") -> Estimate:
        """The estimate of a step. The model's context is no limit."""
        return step_estimate(self.asked, step, traffic=traffic, within=False)

    def time(self, phase: Phase) -> float:
        """Expected seconds of a phase."""
        return float(self.at(self.step(phase)).time)

    def asks(self, phase: Phase) -> OpenQuestion:
        """The time of a phase as a query with knobs."""
        size = {"input": self.prompted} if phase == "prefill" else {"context": self.context}
        return OpenQuestion(phase, self.asked, {"batch": self.batch, **size}, within=False).knowing()

    def under(self, **changes: Given) -> OperatingPoint:
        """The operating point with another model or other formats."""
        return replace(self, asked=replace(self.asked, **changes))


@dataclass(frozen=True)
class Answer:
    """One knob: the ends of its range as factors, the times there over that at the point, and the elasticity.

    `elasticity`: d log(time) / d log(knob) at the point; None for formats, which do not vary continuously.
    """

    knob: str
    kind: KnobKind
    phase: Phase
    low: float
    high: float
    at_low: float
    at_high: float
    elasticity: float | None

    @property
    def swing(self) -> float:
        """The change of time over the range, relative to the time at the point."""
        return abs(self.at_high - self.at_low)


def answers(p: OperatingPoint) -> tuple[Answer, ...]:
    """The answer for every knob in both phases, the largest swing first; knobs that cannot be varied are left out."""
    every = (answer for phase in PHASES for answer in _of_phase(p.asks(phase), phase))
    return tuple(sorted(every, key=lambda a: (a.phase != "prefill", -a.swing)))


def _of_phase(q: OpenQuestion, phase: Phase) -> Iterator[Answer]:
    now = _time(q)
    for knob, value in knobs_of(q):
        low, high = (_turned(knob, q, value, end) for end in knob.ends)
        try:
            times = [now if end == value else _time(knob.set(q, end)) for end in (low, high)]
        except InputError:  # a size that no longer divides
            continue
        local = elasticity(knob, q, _time) if low < high else None
        if local is not None:
            kind: KnobKind = "architecture" if knob.side == "model" else "deployment"
            yield Answer(knob.name, kind, phase, low / value, high / value, times[0] / now, times[1] / now, local.value)
    for name, share, narrower in narrower_formats(q):
        try:
            yield Answer(name, "deployment", phase, share, 1.0, _time(narrower) / now, 1.0, None)
        except InputError:  # a format that the chip lacks
            continue


def _time(q: OpenQuestion) -> float:
    return float(q.figure("time"))


def _turned(knob: Knob, q: OpenQuestion, now: float, factor: float) -> float:
    """An end of a knob's range; integers are at least one."""
    if factor == 1.0 or not knob.grain(q):
        return factor * now
    return max(1, int(factor * now))


# -- the grid ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class GridPoint:
    """One combination of the knobs: formats by name, sizes as factors or counts, and figures of a decode step."""

    weights: str
    cache: str
    experts_per_token: int
    kv: float
    width: float
    batch: int
    context: int
    flops: float
    bytes: float
    time: float
    floor: float
    bound: str
    tokens_per_second: float
    memory: float


def grid(p: OperatingPoint) -> Iterator[GridPoint]:
    """Decode steps at every combination of formats, experts per token, KV heads or rank, width, batch and context.

    Figures of one rank: `flops`, `bytes` and `memory`; `time`: expected seconds; `floor`: seconds at the speed of
    light; `bound`: what limits the step. Invalid combinations are left out.
    """
    formats = [p.formats]
    weights = quantized_weights(p.model, p.formats, eight_bits(p.asked.deployment.chip))
    if weights is not None:
        formats.append(weights.precision)
    formats += [f.merged({"kv": "fp8"}) for f in formats if f.kv.bits > 8]
    k = experts_per_token(p.model)
    chosen = [n for n in (k // 2, k) if n] if k else [0]
    sizes = np.array(sorted({max(1, p.batch // 2), p.batch, 2 * p.batch, 4 * p.batch}))
    last = p.model.context or 8 * p.context
    lengths = np.array(sorted({n for n in (p.context // 2, p.context, 2 * p.context, 4 * p.context) if 0 < n < last}))
    step = decode(sizes[:, None], lengths[None, :])
    for top_k, kv, width in product(chosen, (1.0, 0.5), (0.75, 1.0, 1.25)):
        model = _variant(p.model, top_k, kv, width)
        if model is None:
            continue
        try:
            timed = [(f, p.under(model=model, formats=f).at(step)) for f in formats]
            for _, e in timed:
                e.time  # noqa: B018 - raises InputError if the combination is invalid
        except InputError:  # a size that no longer divides, a format that the chip lacks
            continue
        for f, e in timed:
            figures = (e.flops, e.bytes, e.time, e.serial_floor, e.bound, e.tokens_per_second, e.memory.total)
            columns = [np.broadcast_to(values, step.shape) for values in figures]
            for i, j in product(range(len(sizes)), range(len(lengths))):
                yield GridPoint(
                    weights_text(model, f), f.kv.name, top_k, kv, width, int(sizes[i]), int(lengths[j]),
                    *(column[i, j].item() for column in columns),
                )  # fmt: skip


def _variant(model: Model, top_k: int, kv: float, width: float) -> Model | None:
    """One architecture of the grid; None where keys and values do not divide."""
    variant: Model | None = model if kv == 1.0 else model_variants.with_kv(model, round(1 / kv))
    if variant is None:
        return None
    if top_k and top_k != experts_per_token(model):
        variant = model_variants.with_experts_per_token(variant, top_k)
    return variant if width == 1.0 else model_variants.with_width(variant, width)
