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
from roofline.model.modules import Experts
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
class Trial:
    """A change to make: the lever it turns (weights, batch, tp …), in words, its option, and what is then served."""

    lever: str
    what: str
    option: str
    then: Served


@dataclass(frozen=True)
class Advice:
    """One change: the lever that it turns, in words, its option, and what it gives, each over that without it.

    `per_chip`: generated tokens per second and chip of the whole generation; `prefill`, `decode`: prompt and generated
    tokens per second and chip of the phase alone; `tpot` and `ttft`: times. `decode` and `tpot` are None where one
    token alone is generated. `memory`: bytes of the fullest chip.
    """

    lever: str
    what: str
    option: str
    generation: Generation
    memory: float
    per_chip: float
    prefill: float
    decode: float | None
    tpot: float | None
    ttft: float


def advice(model: Model, now: Served, base: Generation, fewest: Layout | None = None) -> tuple[Advice, ...]:
    """Every change that can be made, by what it gains in tokens per second and chip, largest first.

    `fewest`: the layout of the fewest chips, a change too where it does not fit now. What does not fit is left out.
    """
    found = []
    for trial in changes(model, now, fewest):
        try:
            g = trial.then.of(model)
        except InputError:  # the chip lacks a format, the memory room, or a degree does not divide
            continue
        held = trial.then.room(model, g)
        if held.fits:
            found.append(_advice(trial, g, base, held.needed))
    return tuple(sorted(found, key=lambda a: -a.per_chip))


def _advice(trial: Trial, g: Generation, base: Generation, memory: float) -> Advice:
    """What a change gives: the generation with it over that without it."""
    decodes = base.output > 1
    return Advice(
        trial.lever, trial.what, trial.option, g, memory,
        per_chip=g.tokens_per_second_per_chip / base.tokens_per_second_per_chip,
        prefill=_rate(g, g.input, g.ttft.expected) / _rate(base, base.input, base.ttft.expected),
        decode=_rate(g, 1, g.tpot.expected) / _rate(base, 1, base.tpot.expected) if decodes else None,
        tpot=g.tpot.expected / base.tpot.expected if decodes else None,
        ttft=g.ttft.expected / base.ttft.expected,
    )  # fmt: skip


def _rate(g: Generation, tokens: int, seconds: float) -> float:
    """Tokens per second and chip of the first wave of every replica: each sequence's `tokens` in so many seconds."""
    sequences = min(g.batch, g.waves[0].sequences * int(g.where.layout.dp))
    return sequences * tokens / (seconds * g.where.chips)


def changes(model: Model, now: Served, fewest: Layout | None = None) -> Iterator[Trial]:
    """What may be changed of how a model is served: formats, batch, layout, an engine's kernels."""
    formats = now.precision

    def narrowed(lever: str, what: str, precision: Precision) -> Trial:
        spec = precision.spec(model.precision)
        return Trial(
            lever, what, f"--precision {spec}" if spec else "no --precision", replace(now, precision=precision)
        )

    def spread(lever: str, what: str, layout: Layout) -> Trial:
        return Trial(lever, what, _option(layout), replace(now, layout=layout))

    if formats.ffn.bits > 16:
        yield narrowed("formats", "everything in 16 bits", formats.merged("bf16"))
    for name, bits in (("fp8", 8), ("int4", 4)):
        narrow = narrower_weights(model, formats, name)
        if narrow is not None:
            yield narrowed("weights", f"{narrow.what} in {bits} bits", narrow.precision)
    if formats.kv.bits > 8 and model.kv_bytes(1):
        yield narrowed("cache", "KV cache in 8 bits", formats.merged("kv=fp8"))
    for factor in (2, 4):
        size = factor * now.batch
        yield Trial("batch", f"a batch of {size}", f"--batch {size}", replace(now, batch=size))
    for degree in ("tp", "dp"):
        size = 2 * getattr(now.layout, degree)
        yield spread(degree, f"twice the {degree.upper()}", replace(now.layout, **{degree: size}))
    if now.layout.tp > 1:
        yield spread("tp", "half the TP", replace(now.layout, tp=now.layout.tp // 2))
    sparse = any(isinstance(x, Experts) for x, _ in model.modules())
    if sparse and now.layout.tp > 1 and now.layout.ep == 1 and now.batch % now.layout.tp == 0:
        apart = replace(now.layout, tp=1, dp=now.layout.dp * now.layout.tp, ep=now.layout.ranks)
        yield spread("ep", "attention data parallel, experts apart", apart)
    if fewest is not None and fewest != now.layout:
        yield spread("chips", f"{fewest.chips} chips", fewest)


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
class TrainingTrial:
    """A change to make to a training step: the lever that it turns, in words, its option, the step and its layout."""

    lever: str
    what: str
    option: str
    step: Training
    layout: Layout


@dataclass(frozen=True)
class TrainingAdvice:
    """One change to a training step: the lever that it turns, in words, its option, and the step with it.

    `per_chip`: its tokens per second and chip over those without the change.
    """

    lever: str
    what: str
    option: str
    estimate: TrainingEstimate
    per_chip: float


def training_advice(now: TrainingEstimate, on: Place) -> tuple[TrainingAdvice, ...]:
    """Every change that fits, by what it gains in tokens per second and chip, largest first."""
    found = []
    for trial in training_changes(now.step, now.where.layout):
        try:
            e = estimate_training(now.model, trial.step, on=on, layout=trial.layout)
        except InputError:  # a size that does not divide, a format that the chip lacks
            continue
        if e.fits:
            gain = e.tokens_per_second_per_chip / now.tokens_per_second_per_chip
            found.append(TrainingAdvice(trial.lever, trial.what, trial.option, e, gain))
    return tuple(sorted(found, key=lambda a: -a.per_chip))


def training_changes(step: Training, layout: Layout) -> Iterator[TrainingTrial]:
    """What may be changed of a training step: products' format, batch, micro-batch, loss, layout."""
    (query,) = step.queries

    def run(lever: str, what: str, option: str, other: Training) -> TrainingTrial:
        return TrainingTrial(lever, what, option, other, layout)

    def spread(lever: str, what: str, other: Layout) -> TrainingTrial:
        return TrainingTrial(lever, what, _option(other), step, other)

    if step.recipe.name != "fp8":
        yield run("recipe", "products in fp8", "--recipe fp8", with_options(step, recipe="fp8"))
    twice = 2 * query.count
    yield run("batch", f"a batch of {twice}", f"--batch {twice}", with_batch(step, twice))
    if not query.count % (2 * step.micro_batch * layout.dp):
        size = 2 * step.micro_batch
        larger = with_options(step, micro_batch=size)
        yield run("micro-batch", f"micro-batches of {size}", f"--micro-batch {size}", larger)
    if not step.fused_loss:
        yield run("loss", "a fused loss", "--fused-loss", with_options(step, fused_loss=True))
    if layout.tp > 1 and not layout.sp:
        yield spread("sp", "sequence parallelism", replace(layout, sp=True))
    for degree in ("dp", "tp"):
        wider = replace(layout, **{degree: 2 * getattr(layout, degree)})
        yield spread(degree, f"twice the {degree.upper()}", wider)
