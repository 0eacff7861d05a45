"""A training run on many chips: step time, memory of every stage, bubble, exposed communication, MFU, days and money.

A micro-batch's forward, input-gradient and weight-gradient times of each stage come from its ops, the pipeline's
schedule puts them in order, and what data parallelism sends is exposed where the passes do not hide it:

    step = schedule(stages, micro-batches) + exposed(gradients) + exposed(weights) + optimizer + waiting

Batches, lengths and degrees may be arrays: every line below serves a number and an array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, TypeAlias

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import Where
from roofline.declared.kinds import Sequences, Tokens
from roofline.declared.numbers.maths import Count, some
from roofline.declared.question import Settings
from roofline.declared.question import question as declared_question
from roofline.engines.engine import trainer_named
from roofline.hardware.chip import only_main
from roofline.hardware.cluster import cluster_named
from roofline.inference.cost.bill import BY_ENERGY, Bill, MeanPower
from roofline.inference.deployment import Deployment, deploy, is_several
from roofline.inference.settings import bill_of, broadcast, each, question
from roofline.kernels.target import mode_named
from roofline.layout.layout import layout_named
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.training.estimate import SecondModel, TrainingEstimate, TrainingSetup
from roofline.training.layouts.candidates import Asking, Candidates, Recomputed, first_of, recomputations
from roofline.training.layouts.validation import EAGER, check, has_room, of_whole_shape
from roofline.training.memory.memo import Shared
from roofline.training.replicas.stragglers import stragglers_named
from roofline.training.second_model import plainly
from roofline.training.settings import AS_IT_IS, Learner, TrainingWhere, is_one
from roofline.training.stack import Call, with_stack
from roofline.training.steps import estimated
from roofline.work.training import (
    USUAL_OPTIONS,
    Training,
    TrainingOptions,
    options_of,
    training,
    training_step,
    with_options,
)


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
    learner: Learner = AS_IT_IS,
    bill: Bill | None = None,
    drawn: MeanPower = BY_ENERGY,
) -> TrainingEstimate:
    """One training step: its time, the memory of every stage and the exposed communication, as a `TrainingEstimate`.

    What neither the call nor the recipes of its stack say is usual. Without a layout all chips of the machine are used,
    under the layout that fits and is fastest, with context parallelism and recomputation tried. Numbers may be arrays,
    which broadcast: one layout serves them all, chosen for the step with most tokens. Lists of settings, or of
    recompute, recipe, optimizer, schedule, offload and loss, give a `Grid`. A list of module names to recompute or to
    offload is one setting. Raises InputError where the batch does not divide into micro-batches of every replica,
    tokens do not divide into context-parallel ranks, a degree does not divide what it shards, or the sequence is longer
    than the context.
    """
    built, call = model_of(model), Call(where, how, learner)
    return estimated(*asked_of(built, (batch, tokens), call, drawn.billed(bill)), Shared())


AskedStep: TypeAlias = tuple[TrainingSetup, Training, Count]
"""A setup, a step with the framework's defaults filled in, and the micro-batches of a replica."""


def asked_of(model: Model, work: tuple[Count, Count], call: Call, bill: Bill | None) -> AskedStep:
    """A call resolved: completed by its stack, on the best layout where it names none.

    `work`: sequences and tokens of each.
    """
    said, batch = with_stack(model, call), work[0]
    chosen = said.where.layout is None and is_several(call.where.on)
    other = said.learner.second(model)
    if chosen and other is not None:
        raise InputError("layout", None, "a layout: none is chosen beside a second model")
    if said.learner.reference and some(batch % 2):
        raise InputError("batch", batch, "an even number: a pair is two sequences")
    if chosen:
        said = with_stack(model, with_best_layout(model, work, call, said, bill))
    step = training_step(*work, _ordered(said))
    setup, step, micro_batches = _asked(said.learner.of(model), step, said.where, bill)
    deployment = replace(setup.deployment, chosen=chosen or setup.deployment.chosen)
    setup = replace(setup, deployment=deployment, stack=said.stack)
    if other is not None:
        frozen = _asked(other, plainly(step), said.where, bill)[0]
        shares = said.learner.reference and said.learner.lora is not None
        setup = replace(setup, second=SecondModel(frozen, not said.learner.reference, shares))
    return setup, step, micro_batches


def _ordered(call: Call) -> TrainingOptions:
    """The options with a schedule: interleaved where stages have chunks."""
    if call.how.schedule is not None or call.where.layout is None or layout_named(call.where.layout).vp == 1:
        return call.how
    return replace(call.how, schedule="interleaved")


def asking(model: Model, work: tuple[int, int], call: Call, bill: Bill | None) -> Asking:
    """What resolves the candidates of a call."""

    def ask(chosen: Settings, shared: Shared) -> AskedStep:
        choices = dict(chosen)
        where = replace(call.where, layout=choices.pop("layout"))
        said = with_stack(model, replace(call, where=where, how=replace(call.how, **choices)))
        learning = shared.of("model", (), lambda: said.learner.of(model))
        return _asked(learning, training_step(*work, said.how), said.where, bill)

    return ask


def with_best_layout(model: Model, work: tuple[Count, Count], call: Call, said: Call, bill: Bill | None) -> Call:
    """A call under the fastest layout of the whole machine that fits, else under the first that divides.

    Of several steps it is the fastest for the one with most tokens, of those that divide and fit every step.
    `said`: the call completed by its stack. Schedule and recomputation are chosen too where neither says them.
    """
    on, how = call.where.on, said.how
    broadcast(batch=work[0], tokens=work[1], micro_batch=how.micro_batch)
    batches, lengths, micros = (np.ravel(x) for x in np.broadcast_arrays(*work, how.micro_batch))
    largest = np.lexsort((micros, batches * lengths))[-1]
    batch, tokens, micro = (int(x[largest]) for x in (batches, lengths, micros))
    every = Candidates(
        model, on, said.engine, (cluster_named(on).chips,), (batch, tokens), (micro,), schedules_of(said),
        recomputed_of(model, said),
    )  # fmt: skip
    _, timed = every.timed(asking(model, (batch, tokens), call, bill), Counter())
    alone, common = len(batches) == 1, (int(np.gcd.reduce(batches // micros)), int(np.gcd.reduce(lengths)))
    for best, i in first_of([t.dividing(*common) for t in timed], lambda t: (t.seconds, t.chips), 1 if alone else None):
        schedule, again, _ = best.how
        free: Settings = {"schedule": schedule, "recompute": again}
        placed = replace(call, where=replace(call.where, layout=best.layout(i)))
        own = with_stack(model, placed).how
        chosen: Settings = {name: value for name, value in free.items() if getattr(own, name) != value}
        placed = replace(placed, how=replace(call.how, **chosen))
        if alone or _has_room(model, work, placed, bill):
            return placed
    deployment = of_whole_shape(said.learner.of(model), training_step(*work, how), on, said.engine)
    return replace(call, where=replace(call.where, layout=deployment.layout))


def _has_room(model: Model, work: tuple[Count, Count], call: Call, bill: Bill | None) -> bool:
    """Whether every step of a call under a layout is possible, and fits."""
    said = with_stack(model, call)
    try:
        setup, step, _ = _asked(said.learner.of(model), training_step(*work, _ordered(said)), said.where, bill)
        return has_room(setup.model, step, setup.deployment, setup.engine)
    except InputError:
        return False


def schedules_of(call: Call) -> tuple[str, ...]:
    """The schedules to choose from: the one that is said, else those of the engine."""
    return call.engine.schedules if call.how.schedule is None else (call.how.schedule,)


def recomputed_of(model: Model, call: Call) -> tuple[Recomputed, ...]:
    """What may be run again: what is said, else what the engine can run again."""
    said = call.how.recompute
    return recomputations(model, call.engine) if said is None else (training(1, 1, recompute=said).recompute,)


@question
def train_step(model: Model | Source, step: Training, where: Where, bill: Bill | None = None) -> TrainingEstimate:
    """`train` for a `Training` step that exists already, which says all of its options but overlap and loss."""
    call = Call(TrainingWhere(**vars(where)), options_of(step), AS_IT_IS)
    return estimated(*asked_of(model_of(model), (step.batch, step.tokens_each), call, bill), Shared())


def retrained(asked: TrainingSetup, step: Training, deployment: Deployment) -> TrainingEstimate:
    """Estimate another training step of the same setup on another deployment."""
    micro_batches = check(asked.model, step, deployment.layout)
    model, formats = formats_of(asked.model, asked.precision, step.precision)
    return estimated(replace(asked, model=model, deployment=deployment, formats=formats), step, micro_batches, Shared())


def _asked(model: Model, step: Training, where: TrainingWhere, bill: Bill | None) -> AskedStep:
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
    only_main(deployment.chip, "training")
    spread = deployment.layout
    for name in ("redundant", "overlap"):
        if getattr(spread, name):
            raise InputError(f"layout.{name}", getattr(spread, name), "nothing in training: it is of inference")
    micro_batches = check(model, step, spread)
    model, formats = formats_of(model, where.precision, step.precision)
    law, bill = mode_named(where.law), bill_of(bill)
    software = software.on(deployment.chip)
    formats = software.dispatching(formats)
    slow = stragglers_named(where.stragglers)
    setup = TrainingSetup(model, deployment, formats, software, law, bill, where.precision, stragglers=slow)
    return setup, step, micro_batches
