"""Recommendations: changes to how a model is served or trained, each evaluated, the largest gains first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Annotated, TypeVar

from roofline.declared.errors import InputError
from roofline.declared.groups import StaticBatch, Where
from roofline.declared.kinds import OneSequences, OneTokens
from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import counted
from roofline.declared.question import group, question
from roofline.engines.engine import engines
from roofline.inference.deployment import Machine, deploy
from roofline.inference.generate import DRAFT_LENGTH, MTP_RIGHT, Generation, Speculation, generation
from roofline.inference.settings import Setup, setup
from roofline.layout.layout import Layout
from roofline.model.load import decoder_of
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.model.modules import Experts
from roofline.model.precision import Precision
from roofline.training.estimate import TrainingEstimate
from roofline.training.train import retrained
from roofline.whatif.sensitivity.quantized_weights import quantized_weights
from roofline.work.training import Training, with_batch, with_options

Choice = TypeVar("Choice")
SEQUENCES: Mapping[str, str] = MappingProxyType({"generate": "--batch", "report": "--batch", "serve": "--concurrency"})
"""Command → its option for the number of concurrent sequences."""
SERVERS = ("vllm", "sglang", "trtllm")
"""Engines of which each is tried in place of another."""
MACHINES = ("rtx-4090", "l40s", "h100-sxm", "h200-sxm", "b200", "mi300x")
"""Chips of which as many are tried in place of the present ones, where both have a price."""
LEAST_GAIN = 1.005
"""Smallest factor that counts as a gain; less does not show in whole percent."""


@dataclass(frozen=True)
class Served:
    """A serving configuration: its settings as given and resolved, and a batch over all replicas.

    `command`: the command whose options the recommendations name. `speculation`: drafts that are verified, if any.
    """

    where: Where
    asked: Setup
    load: StaticBatch
    command: str = "generate"
    speculation: Speculation | None = None
    images: Images | None = None

    @property
    def prompt(self) -> int:
        """Tokens of a prompt, those of its images and sound included."""
        return self.input + (0 if self.asked.seen is None else self.asked.seen.tokens)

    @property
    def batch(self) -> int:
        """Sequences over all replicas."""
        return int(self.load.batch)

    @property
    def input(self) -> int:
        """Prompt tokens per sequence."""
        return int(self.load.input)

    @property
    def output(self) -> int:
        """Generated tokens per sequence."""
        return int(self.load.output_tokens)

    @cached_property
    def generation(self) -> Generation:
        """The estimate. Raises InputError where the configuration is invalid."""
        return generation(self.asked, self.load, self.speculation)

    def under(self, layout: Layout) -> Served:
        """The configuration with another layout. Raises InputError where the machine has too few chips."""
        asked = replace(self.asked, deployment=deploy(self.where.on, layout))
        return replace(self, where=replace(self.where, layout=layout), asked=asked)

    def at(self, on: Machine) -> Served:
        """The configuration on another machine. Raises InputError where it is invalid there."""
        return self._elsewhere(replace(self.where, on=on))

    def by(self, engine: str) -> Served:
        """The configuration with another engine. Raises InputError where that engine does not run on the machine."""
        return self._elsewhere(replace(self.where, engine=engine))

    def _elsewhere(self, where: Where) -> Served:
        asked = setup(self.asked.model, replace(where, precision=self.asked.formats))
        return replace(self, where=where, asked=replace(asked, seen=self.asked.seen))


@dataclass(frozen=True)
class Trial:
    """A candidate change: its lever (weights, batch, tp …), in words, its option, and the changed configuration."""

    lever: str
    what: str
    option: str
    then: Callable[[], Served]


@dataclass(frozen=True)
class Advice:
    """An evaluated change: its lever, in words, its option, and figures as factors of those without the change.

    `per_chip`: generated tokens/s per chip of the whole generation. `per_dollar`: generated tokens per dollar, None
    without a price. `prefill`, `decode`: prompt and generated tokens/s per chip of that phase. `tpot`, `ttft`: times.
    `decode` and `tpot` are None where only one token is generated. `memory`: bytes of the fullest chip, not a factor.
    """

    lever: str
    what: str
    option: str
    generation: Generation
    memory: Count
    per_chip: float
    per_dollar: float | None
    prefill: float
    decode: float | None
    tpot: float | None
    ttft: float

    @property
    def gain(self) -> float:
        """By what changes are ranked: tokens per dollar of another machine, else tokens/s per chip."""
        return self.per_dollar if self.lever == "machine" and self.per_dollar is not None else self.per_chip

    @property
    def gain_of(self) -> str:
        """What the gain is a factor of."""
        return "tokens per dollar" if self.lever == "machine" else "tokens/s per chip"


def advice(now: Served, fewest: Layout | None = None) -> tuple[Advice, ...]:
    """Every possible change, sorted by its gain, largest first.

    `fewest`: the layout with the fewest chips, offered as a change too. Changes that do not fit in memory, or that need
    more waves than now, are left out.
    """
    every = []
    for trial in changes(now, fewest):
        try:
            changed = trial.then().generation
            advised = _advice(trial, changed, now.generation)
            priced = trial.lever != "machine" or advised.per_dollar is not None
            if changed.fits and changed.waves <= now.generation.waves and priced:
                every.append(advised)
        except InputError:  # the chip lacks a format, the machine has too few chips, or a degree does not divide
            continue
    return tuple(sorted(every, key=lambda a: -a.gain))


def best_of_levers(
    every: Iterable[Choice],
    lever: Callable[[Choice], str],
    gain: Callable[[Choice], float],
    grade: Callable[[Choice], str],
) -> tuple[Choice, ...]:
    """The best change of each lever, largest gain first; changes without a gain are left out.

    Within a lever, such as weights in 8 and in 4 bits, the change with the best grade wins, then the largest gain.
    """
    helping = [choice for choice in every if gain(choice) > LEAST_GAIN]
    best: dict[str, Choice] = {}
    for choice in sorted(helping, key=lambda c: (grade(c), -gain(c))):
        best.setdefault(lever(choice), choice)
    return tuple(sorted(best.values(), key=lambda c: -gain(c)))


def best_first(every: Iterable[Advice]) -> tuple[Advice, ...]:
    """All changes, with the best of each lever first."""
    changes = tuple(every)
    best = best_of_levers(changes, lambda a: a.lever, lambda a: a.gain, lambda a: a.generation.grade)
    return (*best, *(a for a in changes if not any(a is b for b in best)))


def _advice(trial: Trial, g: Generation, base: Generation) -> Advice:
    """An evaluated change: the generation with it, over that without it."""
    decodes = base.output > 1
    return Advice(
        trial.lever, trial.what, trial.option, g, g.memory.total,
        per_chip=float(g.tokens_per_second_per_chip / base.tokens_per_second_per_chip),
        per_dollar=_ratio(base.usd_per_million_tokens, g.usd_per_million_tokens),
        prefill=_rate(g, g.input, g.ttft.expected) / _rate(base, base.input, base.ttft.expected),
        decode=_rate(g, 1, g.tpot.expected) / _rate(base, 1, base.tpot.expected) if decodes else None,
        tpot=float(g.tpot.expected / base.tpot.expected) if decodes else None,
        ttft=float(g.ttft.expected / base.ttft.expected),
    )  # fmt: skip


def _ratio(one: Count | None, other: Count | None) -> float | None:
    return None if one is None or other is None else float(one / other)


def _rate(g: Generation, tokens: Count, seconds: Count) -> float:
    """Tokens/s per chip of the first wave over all replicas, where each sequence takes `tokens` in `seconds`."""
    sequences = min(g.batch, g.first_wave * g.deployment.layout.dp)
    return float(sequences * tokens / (seconds * g.deployment.chips))


def changes(now: Served, fewest: Layout | None = None) -> Iterator[Trial]:
    """Candidate changes: formats, batch, engine, drafts, machine and layout."""
    model, formats, layout = now.asked.model, now.asked.formats, now.asked.layout

    def narrowed(lever: str, what: str, precision: Precision) -> Trial:
        spec = precision.spec(model.precision)
        option = f"--precision {spec}" if spec else "no --precision"
        return Trial(lever, what, option, lambda: replace(now, asked=replace(now.asked, formats=precision)))

    def spread(lever: str, what: str, other: Layout) -> Trial:
        return Trial(lever, what, _option(other), lambda: now.under(other))

    def resized(lever: str, what: str, other: Callable[[], Layout]) -> Iterator[Trial]:
        try:
            yield spread(lever, what, other())
        except InputError:  # degrees that no longer divide: `ep=8` with half the TP
            return

    def larger(size: int) -> Trial:
        option = f"{SEQUENCES[now.command]} {size}"
        return Trial("batch", f"a batch of {size}", option, lambda: replace(now, load=replace(now.load, batch=size)))

    if formats.ffn.bits > 16:
        yield narrowed("formats", "everything in 16 bits", formats.merged("bf16"))
    for name, bits in (("fp8", 8), ("int4", 4)):
        narrow = quantized_weights(model, formats, name)
        if narrow is not None:
            yield narrowed("weights", f"{narrow.what} in {bits} bits", narrow.precision)
    if formats.kv.bits > 8 and model.kv_bytes(1):
        yield narrowed("cache", "KV cache in 8 bits", formats.merged("kv=fp8"))
    yield from (larger(factor * now.batch) for factor in (2, 4))
    if now.asked.engine.id in SERVERS:
        others = (engines()[name] for name in SERVERS if name != now.asked.engine.id)
        for engine in (e for e in others if e.runs_on(now.asked.deployment.chip)):
            yield Trial("engine", f"served by {engine.name}", f"--engine {engine.id}", partial(now.by, engine.id))
    if now.speculation is None and model.drafts:
        speculation = Speculation(acceptance=MTP_RIGHT, length=DRAFT_LENGTH, mtp=True)
        what = f"drafts by its own layer, {MTP_RIGHT:g} accepted"
        yield Trial("drafts", what, "--mtp", lambda: replace(now, speculation=speculation))
    chip = now.asked.deployment.chip
    if chip.price is not None and now.asked.bill.price is None:
        for name in (name for name in MACHINES if name != chip.id):
            on = name if layout.chips == 1 else f"{layout.chips}x{name}"
            yield Trial("machine", f"{on} instead", f"--on {on}", partial(now.at, on))
    for degree in ("tp", "dp"):
        size = 2 * getattr(layout, degree)
        yield from resized(degree, f"twice the {degree.upper()}", partial(replace, layout, **{degree: size}))
    if layout.tp > 1:
        yield from resized("tp", "half the TP", lambda: replace(layout, tp=layout.tp // 2))
    sparse = any(isinstance(x, Experts) for x, _ in model.modules())
    if sparse and layout.tp > 1 and layout.ep == 1:
        apart = partial(replace, layout, tp=1, dp=layout.dp * layout.tp, ep=layout.ranks)
        yield from resized("ep", "data-parallel attention and expert parallelism", apart)
    if fewest is not None and fewest != layout:
        yield spread("chips", counted(fewest.chips, "chip"), fewest)


def _option(layout: Layout) -> str:
    return "--layout tp=1" if layout.alone else f"--layout {layout.text().replace(' ', '')}"


@group
@dataclass(frozen=True, kw_only=True)
class BatchSizes:
    """A static batch of prompts."""

    batch: Annotated[OneSequences, "Sequences together, those of all replicas."] = 16
    input: Annotated[OneTokens | None, "Prompt tokens of each (1024, or what the model's context leaves)."] = None
    output_tokens: Annotated[
        OneTokens | None, "Generated tokens of each (256, at most a quarter of the model's context)."
    ] = None


USUAL_BATCH = BatchSizes()


@question()
def served(
    model: Model,
    where: Where,
    sizes: BatchSizes = USUAL_BATCH,
    *,
    images: Images | None = None,
    command: str = "generate",
) -> Served:
    """Resolve the settings of a serving configuration. Raises InputError for invalid settings.

    The defaults are prompts of 1024 and answers of 256 tokens, or less where the model's context is shorter. `command`:
    the command whose options the recommendations name. `images`: in every prompt, on top of its tokens.
    """
    built = decoder_of(model, images)
    lengths = usual_lengths(built, sizes.input, sizes.output_tokens)
    return Served(where, setup(built, where).seeing(images), StaticBatch(*lengths, sizes.batch), command, images=images)


def usual_lengths(model: Model, input: int | None, output_tokens: int | None) -> tuple[int, int]:
    """Tokens of a prompt and its answer: 1024 and 256, or what the model's context leaves, where they are not given."""
    longest = model.context or 4096
    answer = max(1, min(256, longest // 4)) if output_tokens is None else output_tokens
    return max(1, min(1024, longest - answer)) if input is None else input, answer


# -- training ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TrainingTrial:
    """A candidate change to a training step: its lever, in words, its option, the changed step and its layout."""

    lever: str
    what: str
    option: str
    step: Training
    layout: Layout


@dataclass(frozen=True)
class TrainingAdvice:
    """An evaluated change to a training step: its lever, in words, its option, and the estimate with it.

    `per_chip`: tokens/s per chip as a factor of that without the change.
    """

    lever: str
    what: str
    option: str
    estimate: TrainingEstimate
    per_chip: float


def training_advice(now: TrainingEstimate, on: Machine) -> tuple[TrainingAdvice, ...]:
    """Every change that fits, sorted by the gain in tokens/s per chip, largest first."""
    every = []
    for trial in training_changes(now.step, now.deployment.layout):
        try:
            e = retrained(now.asked, trial.step, deploy(on, trial.layout))
        except InputError:  # a size that does not divide, a format that the chip lacks
            continue
        if e.fits:
            gain = float(e.tokens_per_second_per_chip / now.tokens_per_second_per_chip)
            every.append(TrainingAdvice(trial.lever, trial.what, trial.option, e, gain))
    return tuple(sorted(every, key=lambda a: -a.per_chip))


def training_changes(step: Training, layout: Layout) -> Iterator[TrainingTrial]:
    """Candidate changes: matmul format, batch, micro-batch, loss and layout."""
    (query,) = step.queries

    def run(lever: str, what: str, option: str, other: Training) -> TrainingTrial:
        return TrainingTrial(lever, what, option, other, layout)

    def spread(lever: str, what: str, other: Layout) -> TrainingTrial:
        return TrainingTrial(lever, what, _option(other), step, other)

    if step.recipe.products != "fp8":
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
