"""What would help most: changes to how a model is served, each tried, the ones that gain most first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from roofline.estimates.generate import Generation, generate
from roofline.estimates.memory import Room, room
from roofline.estimates.place import Place
from roofline.estimates.training import TrainingEstimate, estimate_training
from roofline.explore.narrower import narrower_weights
from roofline.layout.layout import Layout, layout_named
from roofline.machine.engine import Engine
from roofline.model.errors import InputError
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.work.training import Training, with_batch, with_options


@dataclass(frozen=True)
class Served:
    """A way of serving: batch, prompt and answer, layout, formats."""

    on: Place
    layout: Layout
    batch: int
    input: int
    output: int
    precision: Precision
    engine: str | Engine | None = None

    def of(self, model: Model) -> Generation:
        """The generation."""
        return generate(
            model, on=self.on, layout=self.layout, batch=self.batch, input=self.input, output=self.output,
            precision=self.precision, engine=self.engine,
        )  # fmt: skip

    def room(self, model: Model, g: Generation) -> Room:
        """Memory of its fullest chip, by the rule of `fit`, while the largest wave runs."""
        batch = min(self.batch, g.waves[0].sequences * int(self.layout.dp))
        return room(
            model, self.layout, self.precision, g.chip, g.engine, batch, self.input + self.output, g.engine.chunk
        )


@dataclass(frozen=True)
class Advice:
    """One change: in words, its options, and what it gives, each over that without it.

    `per_chip`: generated tokens per second and chip of the whole generation; `prefill`, `decode`: prompt and generated
    tokens per second and chip of the phase alone; `tpot` and `ttft`: times. `memory`: bytes of the fullest chip.
    """

    what: str
    option: str
    generation: Generation
    memory: float
    per_chip: float
    prefill: float
    decode: float
    tpot: float
    ttft: float


def advice(model: Model, now: Served, base: Generation, fewest: Layout | None = None) -> tuple[Advice, ...]:
    """Every change that can be made, by what it gains in tokens per second and chip, largest first.

    `fewest`: the layout of the fewest chips, a change too where it does not fit now. What does not fit is left out.
    """
    found = []
    for what, option, other in changes(model, now, fewest):
        try:
            g = other.of(model)
        except InputError:  # the chip lacks a format, the memory room, or a degree does not divide
            continue
        held = other.room(model, g)
        if not held.fits:
            continue
        (prompts, tokens), (prompts_now, tokens_now) = _rates(g), _rates(base)
        found.append(
            Advice(
                what, option, g, held.needed, per_chip=g.tokens_per_second_per_chip / base.tokens_per_second_per_chip,
                prefill=_ratio(prompts, prompts_now),
                decode=_ratio(tokens, tokens_now), tpot=_ratio(g.tpot.expected, base.tpot.expected),
                ttft=_ratio(g.ttft.expected, base.ttft.expected),
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda a: -a.per_chip))


def _rates(g: Generation) -> tuple[float, float]:
    """Tokens per second and chip of the prefill and of the decode of the first wave of every replica."""
    sequences, chips = min(g.batch, g.waves[0].sequences * int(g.where.layout.dp)), g.where.chips
    prompts = _ratio(sequences * g.input, g.ttft.expected * chips)
    return prompts, _ratio(sequences, g.tpot.expected * chips)


def _ratio(after: float, before: float) -> float:
    return after / before if before else 1.0


def changes(model: Model, now: Served, fewest: Layout | None = None) -> Iterator[tuple[str, str, Served]]:
    """What may be changed of how a model is served: formats, batch, layout, an engine's kernels."""
    formats = now.precision

    def option(precision: Precision) -> str:
        spec = precision.spec(model.precision)
        return f"--precision {spec}" if spec else "no --precision"

    if formats.ffn.bits > 16:
        half = formats.merged("bf16")
        yield "everything in 16 bits", option(half), replace(now, precision=half)
    for name, bits in (("fp8", 8), ("int4", 4)):
        narrow = narrower_weights(model, formats, name)
        if narrow is not None:
            other = narrow.precision
            yield f"{narrow.what} in {bits} bits", option(other), replace(now, precision=other)
    if formats.kv.bits > 8 and model.kv_bytes(1):
        small = formats.merged("kv=fp8")
        yield "KV cache in 8 bits", option(small), replace(now, precision=small)
    for factor in (2, 4):
        size = factor * now.batch
        yield f"a batch of {size}", f"--batch {size}", replace(now, batch=size)
    for degree in ("tp", "dp"):
        size = 2 * getattr(now.layout, degree)
        spread = replace(now.layout, **{degree: size})
        yield f"twice the {degree.upper()}", _option(spread), replace(now, layout=spread)
    if now.layout.tp > 1:
        spread = replace(now.layout, tp=now.layout.tp // 2)
        yield "half the TP", _option(spread), replace(now, layout=spread)
    if now.layout.tp > 1 and now.layout.ep == 1 and now.batch % now.layout.tp == 0:
        spread = replace(now.layout, tp=1, dp=now.layout.dp * now.layout.tp, ep=now.layout.ranks)
        yield "attention data parallel, experts apart", _option(spread), replace(now, layout=spread)
    if fewest is not None and fewest != now.layout:
        yield f"{fewest.chips} chips", _option(fewest), replace(now, layout=fewest)


def _option(layout: Layout) -> str:
    return "--layout tp=1" if layout.alone else f"--layout {layout.text().replace(' ', '')}"


def served(
    model: Model, *, on: Place, layout: object = None, batch: int = 16, input: int | None = None,
    output: int | None = None, precision: object = None, engine: str | Engine | None = None,
) -> Served:  # fmt: skip
    """A way of serving, its layout and formats understood. Raises InputError for what is not.

    Prompts of 1024 and answers of 256 tokens where not given, less where the model's context is shorter.
    """
    longest = model.context or 4096
    answer = max(1, min(256, longest // 4)) if output is None else output
    prompt = max(1, min(1024, longest - answer)) if input is None else input
    return Served(on, layout_named(layout), batch, prompt, answer, model.precision.merged(precision), engine)


# -- training ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TrainingAdvice:
    """One change to a training step: in words, its option, and its tokens per second and chip over those without."""

    what: str
    option: str
    estimate: TrainingEstimate
    per_chip: float


def training_advice(now: TrainingEstimate, on: Place) -> tuple[TrainingAdvice, ...]:
    """Every change that fits, by what it gains in tokens per second and chip, largest first."""
    found = []
    for what, option, step, layout in _training_changes(now.step, now.where.layout):
        try:
            e = estimate_training(now.model, step, on=on, layout=layout)
        except InputError:  # a size that does not divide, a format that the chip lacks
            continue
        if e.fits:
            gain = e.tokens_per_second_per_chip / now.tokens_per_second_per_chip
            found.append(TrainingAdvice(what, option, e, gain))
    return tuple(sorted(found, key=lambda a: -a.per_chip))


def _training_changes(step: Training, layout: Layout) -> Iterator[tuple[str, str, Training, Layout]]:
    (query,) = step.queries
    if step.recipe.name != "fp8":
        yield "products in fp8", "--recipe fp8", with_options(step, recipe="fp8"), layout
    twice = with_batch(step, 2 * query.count)
    yield f"a batch of {2 * query.count}", f"--batch {2 * query.count}", twice, layout
    if not query.count % (2 * step.micro_batch * layout.dp):
        size = 2 * step.micro_batch
        yield f"micro-batches of {size}", f"--micro-batch {size}", with_options(step, micro_batch=size), layout
    if not step.fused_loss:
        yield "a fused loss", "--fused-loss", with_options(step, fused_loss=True), layout
    if layout.tp > 1 and not layout.sp:
        spread = replace(layout, sp=True)
        yield "sequence parallelism", _option(spread), step, spread
    for degree in ("dp", "tp"):
        spread = replace(layout, **{degree: 2 * getattr(layout, degree)})
        yield f"twice the {degree.upper()}", _option(spread), step, spread
