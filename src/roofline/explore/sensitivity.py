"""How a step's expected time answers to each knob: elasticities at the operating point, swings over a range, a grid.

The elasticity is d log(time) / d log(knob), here between the knob's two ends: −1 where the time halves as the knob
doubles, 0 where it does not care. Knobs of deployment (batch, context, formats, chip, links) stand apart from those of
the architecture (layers, width, feed-forward, KV heads, experts per token), which make another model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.declared.errors import InputError
from roofline.estimates.settings import Setup
from roofline.estimates.step import Estimate, step_estimate
from roofline.explore import variants
from roofline.explore.quantized_weights import quantized_weights, weights_text
from roofline.model import modules as m
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.work.step import PHASES, Phase, Step, decode, step_of

KnobKind: TypeAlias = Literal["deployment", "architecture"]
KINDS: tuple[KnobKind, ...] = ("deployment", "architecture")
MATTERS = 0.8
"""A knob on the weights' bits counts where it leaves no more than this share of their bytes."""


@dataclass(frozen=True)
class OperatingPoint:
    """Where the knobs are turned: a model as it is set up, and `batch` sequences of all replicas.

    `context`: tokens in the cache of a decode; `prompt`: tokens of a prefill, as many where None.
    """

    asked: Setup
    batch: int
    context: int
    prompt: int | None = None

    @property
    def model(self) -> Model:
        """The whole model."""
        return self.asked.model

    @property
    def formats(self) -> Precision:
        """The format of every role."""
        return self.asked.formats

    @property
    def prompted(self) -> int:
        """Tokens of a prefill."""
        return self.context if self.prompt is None else self.prompt

    def step(self, phase: Phase, longer: int = 1) -> Step:
        """A prefill of the prompt or one token after the context, either so many times as long."""
        return step_of(phase, self.batch, longer * (self.prompted if phase == "prefill" else self.context))

    def at(self, step: Step, traffic: str = "fused") -> Estimate:
        """The estimate of a step, however long."""
        return step_estimate(self.asked, step, traffic=traffic, within=False)

    def time(self, phase: Phase) -> float:
        """Expected seconds of a phase."""
        return float(self.at(self.step(phase)).time)

    def under(self, **changes: Any) -> OperatingPoint:
        """The same with another model or other formats."""
        return replace(self, asked=replace(self.asked, **changes))

    def on(self, **changes: Any) -> OperatingPoint:
        """The same on another chip or cluster."""
        return self.under(deployment=replace(self.asked.deployment, **changes))


@dataclass(frozen=True)
class Answer:
    """One knob: its range as a factor at either end, the time there over that at the point, and the elasticity."""

    knob: str
    kind: KnobKind
    phase: Phase
    low: float
    high: float
    at_low: float
    at_high: float

    @property
    def elasticity(self) -> float:
        """d log(time) / d log(knob)."""
        return math.log(self.at_high / self.at_low) / math.log(self.high / self.low)

    @property
    def swing(self) -> float:
        """How much the time moves over the range, of that at the point."""
        return abs(self.at_high - self.at_low)


def answers(p: OperatingPoint) -> tuple[Answer, ...]:
    """Every knob's answer in either phase, the largest swing first; none of a knob that its place does not allow."""
    every: list[Answer] = []
    for phase in PHASES:
        now = p.time(phase)
        for knob, kind, ((low, one), (high, other)) in knobs(p, phase):
            try:
                times = one.time(phase) / now, other.time(phase) / now
            except InputError:  # a size that no longer divides, a format that the chip lacks
                continue
            every.append(Answer(knob, kind, phase, low, high, *times))
    return tuple(sorted(every, key=lambda a: (a.phase != "prefill", -a.swing)))


End: TypeAlias = tuple[float, OperatingPoint]
Knob: TypeAlias = tuple[str, KnobKind, tuple[End, End]]


def knobs(p: OperatingPoint, phase: Phase) -> Iterator[Knob]:
    """The knobs that a model in a place has, each turned down and up."""
    yield from _deployment(p, phase)
    yield from _architecture(p)


def _deployment(p: OperatingPoint, phase: Phase) -> Iterator[Knob]:
    def turned(by: Callable[[float], OperatingPoint]) -> tuple[End, End]:
        return (0.5, by(0.5)), (2.0, by(2.0))

    chip, cluster = p.asked.deployment.chip, p.asked.deployment.cluster
    if p.batch > 1:
        sizes = (p.batch // 2, replace(p, batch=p.batch // 2)), (2 * p.batch, replace(p, batch=2 * p.batch))
        (less, fewer), (more, many) = sizes
        yield "batch", "deployment", ((less / p.batch, fewer), (more / p.batch, many))
    name, tokens = ("prompt", p.prompted) if phase == "prefill" else ("context", p.context)
    if tokens > 1:
        half = tokens // 2
        yield (
            name,
            "deployment",
            ((half / tokens, replace(p, prompt=half) if phase == "prefill" else replace(p, context=half)), (1.0, p)),
        )

    def faster(factor: float) -> OperatingPoint:
        return p.on(chip=replace(chip, bandwidth=factor * chip.bandwidth))

    def stronger(factor: float) -> OperatingPoint:
        return p.on(chip=replace(chip, peaks={f: factor * v for f, v in chip.peaks.items()}))

    def linked(factor: float) -> OperatingPoint:
        levels = tuple(replace(level, bandwidth=factor * level.bandwidth) for level in cluster.levels)
        return p.on(cluster=replace(cluster, levels=levels))

    yield "memory bandwidth", "deployment", turned(faster)
    yield "peak", "deployment", turned(stronger)
    if p.asked.deployment.chips > 1:
        yield "link bandwidth", "deployment", turned(linked)
    weights = quantized_weights(p.model, p.formats, eight_bits(p))
    if weights is not None and weights.bytes <= MATTERS:
        yield (
            f"weights in {eight_bits(p)}",
            "deployment",
            ((weights.bytes, p.under(formats=weights.precision)), (1.0, p)),
        )
    cache = p.formats.kv.bits
    if cache >= 16 and p.model.kv_bytes(1):
        narrow = p.under(formats=p.formats.merged("kv=fp8"))
        yield "cache in fp8", "deployment", ((float(8 / cache), narrow), (1.0, p))


def eight_bits(p: OperatingPoint) -> str:
    """The 8-bit format of weights there: fp8 where the chip multiplies it, else int8, for memory alone."""
    return "fp8" if "fp8" in p.asked.deployment.chip.peaks else "int8"


def _architecture(p: OperatingPoint) -> Iterator[Knob]:
    def other(model: Model) -> OperatingPoint:
        return p.under(model=model)

    layers = len(p.model.layers)
    if layers > 1:
        yield (
            "layers",
            "architecture",
            ((layers // 2 / layers, other(variants.with_layers(p.model, layers // 2))), (1.0, p)),
        )
    for name, turn in (("width", variants.with_width), ("feed-forward", variants.with_inner)):
        low, high = turn(p.model, 0.75), turn(p.model, 1.25)
        if low.parameters != high.parameters:
            yield name, "architecture", ((0.75, other(low)), (1.25, other(high)))
    narrow = variants.with_kv(p.model, 2)
    if narrow is not None:
        yield kv_knob(p.model), "architecture", ((0.5, other(narrow)), (1.0, p))
    k = experts_per_token(p.model)
    if k > 1:
        fewer = variants.with_experts_per_token(p.model, k // 2)
        yield "experts per token", "architecture", ((k // 2 / k, other(fewer)), (1.0, p))


def kv_knob(model: Model) -> str:
    """What the cache's size hangs on: the rank of latents, or the number of KV heads."""
    return "latent rank" if any(isinstance(x, m.LatentAttention) for x, _ in model.modules()) else "KV heads"


def experts_per_token(model: Model) -> int:
    """k of the first mixture, 0 for a dense model."""
    return next((x.top_k or 0 for x, _ in model.modules() if isinstance(x, m.Experts)), 0)


# -- the grid ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class GridPoint:
    """One combination of the knobs: formats by name, sizes as factors or counts, and what a decode step then is."""

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

    Of one rank: `flops`, `bytes` and `memory`; `time` expected seconds, `floor` the speed of light, `bound` what
    limits the step. A combination that the place does not allow is left out.
    """
    formats = [p.formats]
    weights = quantized_weights(p.model, p.formats, eight_bits(p))
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
                e.time  # noqa: B018 - raises here what the place does not allow
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
    """One architecture of the grid, None where the keys and values do not divide."""
    variant: Model | None = model if kv == 1.0 else variants.with_kv(model, round(1 / kv))
    if variant is None:
        return None
    if top_k and top_k != experts_per_token(model):
        variant = variants.with_experts_per_token(variant, top_k)
    return variant if width == 1.0 else variants.with_width(variant, width)
