"""Numbers of a training estimate that frameworks need, and helpers to turn them into settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeAlias

from roofline.declared.errors import InputError
from roofline.training.estimate import TrainingEstimate
from roofline.work.packing import packed_text
from roofline.work.recipe import RECIPES
from roofline.work.training import V_SHAPED, Training


class MadeBy(NamedTuple):
    """An object that a Python config holds, which a call without arguments makes: its module and the call's name."""

    module: str
    name: str


OptionValue: TypeAlias = bool | int | float | str | tuple[str, ...] | tuple[tuple[str, ...], ...] | MadeBy | None


class ConfigEntry(NamedTuple):
    """A framework's option: its name, with dots after sections, and its value."""

    name: str
    value: OptionValue


class Missing(NamedTuple):
    """A part of the estimate that the framework has no option for, or does differently."""

    what: str


Told: TypeAlias = Iterator[ConfigEntry | Missing]


@dataclass(frozen=True)
class LayoutSizes:
    """Sizes of one training estimate.

    `sharers`: ranks over which ZeRO shards one copy of the state. `chunks`: layers of each stage and chunk, in the
    model's order. `domain`: chips of the cluster's innermost level, a node.
    """

    tp: int
    pp: int
    vp: int
    dp: int
    cp: int
    ep: int
    etp: int
    sharers: int
    micro_batch: int
    micro_batches: int
    batch: int
    tokens: int
    chips: int
    chunks: tuple[int, ...]
    domain: int

    @property
    def even(self) -> bool:
        """Whether all chunks have the same number of layers."""
        return len(set(self.chunks)) == 1


def sizes_of(e: TrainingEstimate) -> LayoutSizes:
    """Sizes of an estimate. Raises InputError for an estimate of an array of layouts."""
    if e.shape:
        raise InputError("emit", f"{e.shape} points", "one batch and one layout")
    layout, cluster = e.asked.layout, e.deployment.cluster
    return LayoutSizes(
        tp=int(layout.tp), pp=layout.pp, vp=int(layout.vp), dp=int(layout.dp), cp=int(layout.cp), ep=int(layout.ep),
        etp=int(layout.expert_tp), sharers=int(layout.sharers), micro_batch=int(e.micro_batch),
        micro_batches=int(e.micro_batches), batch=int(e.batch), tokens=int(e.tokens_each), chips=int(layout.chips),
        chunks=_chunks(e, sum(stage.layers for stage in e.stages)),
        domain=cluster.levels[0].size if cluster.levels else 1,
    )  # fmt: skip


def _chunks(e: TrainingEstimate, layers: int) -> tuple[int, ...]:
    """Layers of each stage and chunk, in the model's order; a chunk is a run of consecutive layers on one stage."""
    layout = e.asked.layout
    placed = layout.layers_of(layers, e.step.schedule in V_SHAPED)
    owners = {layer: stage for stage, own in enumerate(placed) for layer in own}
    runs = [(stage, len(list(run))) for stage, run in groupby(owners[layer] for layer in range(layers))]
    counts = []
    for chunk in range(layout.pp * layout.vp):
        there = bool(runs) and runs[0][0] == chunk % layout.pp
        counts.append(runs.pop(0)[1] if there else 0)
    return tuple(counts)


def overlaps(step: Training, axis: str) -> bool:
    """Whether communication of a layout's axis overlaps with computation."""
    return axis in (step.overlap or ())


def recompute_words(step: Training) -> str:
    """What is recomputed: one word, or comma-separated module names."""
    return step.recompute if isinstance(step.recompute, str) else ",".join(step.recompute)


def recipe_words(recipe: str) -> tuple[str, tuple[str, ...]]:
    """Name of a recipe, and its changes.

    >>> recipe_words("fp8(gradients=bf16,matrices=fp8)")
    ('fp8', ('gradients=bf16', 'matrices=fp8'))
    """
    name, _, changes = recipe.partition("(")
    return name, tuple(changes.removesuffix(")").split(",")) if changes else ()


def not_of_layout(e: TrainingEstimate, framework: str) -> Told:
    """What no framework's config expresses: load of experts, adapters, a second model, user-defined recipes."""
    layout, step = e.asked.layout, e.step
    if layout.imbalance != 1:
        yield Missing(f"imbalance {layout.imbalance:g}: how tokens spread over experts is the router's")
    if layout.popularity:
        yield Missing("popularity of experts: how tokens spread over experts is the router's")
    if any(module.frozen for module, _ in e.model.modules()):
        yield Missing(f"adapters on frozen weights: {framework} has them in its own fine-tuning")
    if e.step.lengths:
        yield Missing(f"packed sequences: {packed_text(e.step.lengths)}, which the data set of {framework} has to give")
    if e.asked.second is not None:
        what = "teacher" if e.asked.second.logits else "reference"
        yield Missing(f"{what} {e.asked.second.setup.model.name}: {framework} has it in recipes of its own")
    if recipe_words(step.recipe.name)[0] not in RECIPES:
        yield Missing(f"recipe {step.recipe.name}: one of your own")
