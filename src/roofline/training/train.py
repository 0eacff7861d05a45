"""A training run on many chips: step time, memory of every stage, bubble, exposed communication, MFU, days and money.

A micro-batch's forward, input-gradient and weight-gradient times of each stage come from its ops, the pipeline's
schedule puts them in order, and what data parallelism sends is exposed where the passes do not hide it:

    step = schedule(stages, micro-batches) + exposed(gradients) + exposed(weights) + optimizer + waiting

Batches, lengths and degrees may be arrays: every line below serves a number and an array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from roofline.declared.errors import InputError
from roofline.declared.groups import KernelSettings, Where
from roofline.declared.kinds import EngineName, Names, Sequences, Tokens, Whole
from roofline.declared.maths import Count
from roofline.declared.question import Settings, arguments_of, declaration_of, flattened, group
from roofline.declared.question import question as declared_question
from roofline.engines.engine import trainer_named
from roofline.inference.bill import BY_ENERGY, Bill, MeanPower
from roofline.inference.contention import contention_on
from roofline.inference.deployment import Deployment, deploy, is_several
from roofline.inference.settings import Setup, bill_of, each, question
from roofline.inference.span import Span
from roofline.kernels.target import mode_named
from roofline.layout.layout import Layout
from roofline.layout.shard import parts_of, pipeline
from roofline.model.adapters import named_targets, with_drafts, with_lora
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.training.estimate import Stage, TrainingEstimate, TrainingSetup
from roofline.training.memory.memo import Shared
from roofline.training.memory.memory import TrainingMemory
from roofline.training.passes import (
    Passes,
    Sections,
    axes_beside,
    offloaded,
    on_ranks,
    passes_of,
    run_passes,
    timed_sections,
)
from roofline.training.replicas.optimizer import update_of
from roofline.training.replicas.replicas import between_replicas, sent_between
from roofline.training.replicas.stragglers import waiting_of
from roofline.training.validation import (
    EAGER,
    check,
    copies_of,
    memory_in_flight,
    of_whole_shape,
    stage_kind,
    stage_memory,
)
from roofline.work.training import (
    RECOMPUTE,
    USUAL_OPTIONS,
    Training,
    TrainingOptions,
    training_step,
    with_batch,
    with_options,
)


@group
@dataclass(frozen=True, kw_only=True)
class TrainerSettings(KernelSettings):
    """The training framework whose conventions a step follows, and its number formats."""

    engine: Annotated[
        EngineName | None,
        "Whose slow-downs and habits: `megatron` (containers 26.06 and later; `megatron@0.14`, a release), `nemo` "
        "(before), `megatron-2025`, `fsdp`, `torchtitan`, `deepspeed`, `maxtext`, or `none`. Default: `megatron`, but "
        "`none` with the schedule `dualpipe`, which no engine has.",
    ] = None


@group
@dataclass(frozen=True, kw_only=True)
class TrainingWhere(TrainerSettings, Where):
    """The machine that a model trains on, and the framework that trains it."""


@group
@dataclass(frozen=True, kw_only=True)
class Learner:
    """Which parts of a model train, and what is added to it: adapters, layers of multi-token prediction."""

    lora: Annotated[Whole | None, "Rank of adapters on frozen weights."] = None
    lora_targets: Annotated[
        Names | None,
        "Linear layers that have an adapter, separated by commas, such as `qkv_proj,o_proj` (default: all).",
    ] = None
    drafts: Annotated[Whole | None, "Multi-token-prediction layers that learn too."] = None

    def of(self, model: Model | Source) -> Model:
        """The model that trains: with multi-token-prediction layers, and with adapters on frozen weights."""
        built, targets = model_of(model), named_targets(self.lora_targets, self.lora)
        built = built if self.drafts is None else with_drafts(built, self.drafts)
        return built if self.lora is None else with_lora(built, self.lora, targets)


def is_one(name: str, value: object) -> bool:
    """Whether a list is a single setting: the names of modules to recompute, or of what to offload."""
    if name not in ("recompute", "offload") or not isinstance(value, (list, tuple)):
        return False
    words = RECOMPUTE if name == "recompute" else ()
    return all(isinstance(v, str) and v not in words for v in value) and (bool(value) or name == "offload")


def _each_step(run: Callable[..., TrainingEstimate], settings: Settings, names: Sequence[str]) -> object:
    """One training step, or a Grid of steps where a setting is a list of alternatives."""
    return each(run, settings, [name for name in names if not is_one(name, settings.get(name))])


@declared_question(_each_step)
def train(
    model: Model | Source,
    where: TrainingWhere,
    *,
    batch: Annotated[Sequences, "Sequences of one step, over all replicas."],
    tokens: Annotated[Tokens, "Tokens of a sequence."],
    how: TrainingOptions = USUAL_OPTIONS,
    learner: Learner = Learner(),
    bill: Bill | None = None,
    drawn: MeanPower = BY_ENERGY,
) -> TrainingEstimate:
    """One training step: its time, the memory of every stage and the exposed communication, as a `TrainingEstimate`.

    Without a layout all chips of the machine are used: ZeRO-1 replicas, then tensor parallelism within a node, then
    pipeline stages; the first layout that fits is taken. Numbers may be arrays, which broadcast. Lists of settings, or
    of recompute, recipe,
    optimizer, schedule, offload and loss, give a `Grid`. A list of module names to recompute or to offload is one
    setting. Raises InputError where the batch does not divide into micro-batches of every replica, tokens do not divide
    into context-parallel ranks, a degree does not divide what it shards, or the sequence is longer than the context.
    """
    step = training_step(batch, tokens, how)
    return _estimated(*_asked(learner.of(model), step, where, drawn.billed(bill)), Shared())


def asked_beside(shared: Shared, model: Model | Source, settings: Settings) -> tuple[TrainingSetup, Training, Count]:
    """The setup, step and micro-batches of one `train` call among others that differ only in ZeRO, chunks and
    recompute.

    `shared` caches what these calls have in common, so that it is computed once.
    """
    declared = declaration_of(train)
    asked = arguments_of(declared, flattened(declared, (), settings))
    step = training_step(asked["batch"], asked["tokens"], asked.get("how", USUAL_OPTIONS))
    learner = asked.get("learner", Learner())
    bill = asked.get("drawn", BY_ENERGY).billed(asked.get("bill"))
    return _asked(shared.of("model", (), lambda: learner.of(model)), step, asked["where"], bill)


@question
def train_step(model: Model | Source, step: Training, where: Where, bill: Bill | None = None) -> TrainingEstimate:
    """`train` for a `Training` step that exists already."""
    return _estimated(*_asked(model_of(model), step, where, bill), Shared())


def retrained(asked: TrainingSetup, step: Training, deployment: Deployment) -> TrainingEstimate:
    """Estimate another training step of the same setup on another deployment."""
    micro_batches = check(asked.model, step, deployment.layout)
    model, formats = formats_of(asked.model, asked.precision, step.precision)
    return _estimated(
        replace(asked, model=model, deployment=deployment, formats=formats), step, micro_batches, Shared()
    )


def _asked(model: Model, step: Training, where: Where, bill: Bill | None) -> tuple[TrainingSetup, Training, Count]:
    """The setup, the step with the framework's defaults filled in, and the micro-batches of a replica."""
    software = trainer_named(where.engine, step.schedule)
    if step.overlap is None:
        step = with_options(step, overlap=software.overlaps)
    if step.loss is None:
        step = with_options(step, loss="eager" if software.id in EAGER else "in-place")
    deployment = (
        deploy(where.on, where.layout)
        if where.layout is not None or not is_several(where.on)
        else of_whole_shape(model, step, where.on, software)
    )
    spread = deployment.layout
    for name in ("redundant", "overlap"):
        if getattr(spread, name):
            raise InputError(f"layout.{name}", getattr(spread, name), "nothing in training: it is of inference")
    micro_batches = check(model, step, spread)
    model, formats = formats_of(model, where.precision, step.precision)
    law, bill = mode_named(where.law), bill_of(bill)
    software = software.on(deployment.chip)
    return TrainingSetup(model, deployment, formats, software, law, bill, where.precision), step, micro_batches


@dataclass(frozen=True)
class Stages:
    """Stages of a pipeline: one per distinct kind, with one micro-batch in flight; all in order; the times of
    layers."""

    kinds: Mapping[int, Stage]
    order: Sequence[Stage]
    sections: Sections


@dataclass(frozen=True)
class _Ranks:
    """One layer of each block with embedding and head; for each kind of stage the first stage, its rank and its copy.

    `order`: the kind of every stage.
    """

    layers: Model
    kinds: Mapping[int, tuple[int, Model, Model | None]]
    order: tuple[int, ...]


def _ranks(model: Model, spread: Layout, step: Training, shared: Shared) -> _Ranks:
    if spread.alone:
        layers, ranks = pipeline(model, spread)
    else:
        layers, ranks = shared.of("parts", (), lambda: parts_of(model, spread)).pipeline(spread)
    known: dict[object, int] = shared.of("kinds", (), dict)
    kinds: dict[int, tuple[int, Model, Model | None]] = {}
    order = []
    for i, (rank, copy) in enumerate(zip(ranks, copies_of(ranks, step), strict=True)):
        kind = known.setdefault((stage_kind(rank), copy and stage_kind(copy)), len(known))
        kinds.setdefault(kind, (i, rank, copy))
        order.append(kind)
    return _Ranks(layers, kinds, tuple(order))


def stages_of(asked: Setup, step: Training, shared: Shared) -> Stages:
    """The stages of a step, with the passes and the memory of one micro-batch."""
    model, spread, micro = asked.model, asked.layout, with_batch(step, step.micro_batch)
    again, zero, vp, waits = step.recompute, spread.zero, spread.vp, chunks_waited(step, spread)
    ranks = shared.of("ranks", (vp,), lambda: _ranks(model, spread, step, shared))
    sections, known = shared.of("sections", (again,), lambda: timed_sections(asked, micro, ranks.layers))
    contention = contention_on(asked.target)
    kinds: dict[int, Stage] = {}
    for kind, (number, rank, copy) in ranks.kinds.items():

        def run(rank: Model = rank) -> Passes:
            alone = passes_of(rank, sections.running_again(rank, micro), micro, spread, contention)
            return offloaded(alone, rank, known, micro, asked.deployment.chip)

        def kept(rank: Model = rank, copy: Model | None = copy) -> TrainingMemory:
            return stage_memory(rank, copy, micro, spread, known, shared)

        passes = shared.of("passes", (again, waits, kind), run)
        kinds[kind] = Stage(number, rank, passes, shared.of("memory", (again, zero, kind), kept), passes, copy)
    turns = on_ranks(step, [kinds[kind].passes for kind in ranks.order])
    kinds = {kind: replace(stage, turns=turns[stage.number]) for kind, stage in kinds.items()}
    return Stages(kinds, [kinds[kind] for kind in ranks.order], sections)


def chunks_waited(step: Training, layout: Layout) -> int:
    """The number of chunks where it changes the time of a pass, which is where sends are exposed."""
    return 0 if "pp" in axes_beside(step) else layout.vp


def replicas_and_update(
    every: Stages, asked: Setup, step: Training, micro_batches: Count, shared: Shared
) -> tuple[Span, Span, Span]:
    """Exposed seconds of gradient reduction and of weight gathering, and seconds of an optimizer that is not paged."""
    deployment, spread, again = asked.deployment, asked.layout, step.recompute
    zero, waits, kinds, differing = spread.zero, chunks_waited(step, spread), every.kinds, list(every.kinds.values())
    sent = shared.of("sent", (zero, *kinds), lambda: sent_between(differing, deployment, step, micro_batches))
    reduction, gathering = shared.of(
        "replicas", (again, zero, waits, *kinds),
        lambda: between_replicas(differing, sent, step, zero, micro_batches, contention_on(asked.target)),
    )  # fmt: skip
    return reduction, gathering, shared.of("update", (zero, *kinds), lambda: update_of(differing, asked, step))


def _estimated(asked: TrainingSetup, step: Training, micro_batches: Count, shared: Shared) -> TrainingEstimate:
    deployment, software, spread = asked.deployment, asked.engine, asked.layout
    every = stages_of(asked, step, shared)
    passes = run_passes(step, [s.passes for s in every.order], micro_batches, spread.vp)
    stages = tuple(
        replace(stage, number=i, memory=memory_in_flight(stage.memory, i, step, deployment, software, micro_batches))
        for i, stage in enumerate(every.order)
    )
    reduction, gathering, update = replicas_and_update(every, asked, step, micro_batches, shared)
    if step.optimizer.paged:
        update = update_of(stages, asked, step)
    work = passes + reduction + gathering + update
    waiting = waiting_of(work, spread.chips, asked.target)
    parts = (passes, reduction.ordered(), gathering.ordered(), update, waiting)
    return TrainingEstimate(asked, step, micro_batches, stages, work + waiting, *parts, every.sections)
