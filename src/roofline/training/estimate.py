"""Estimate of a training step: its stages, time, memory, FLOPs and cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count
from roofline.declared.result import Figured, Flag, Units, Word
from roofline.engines.stacks import StackSetting
from roofline.inference.cost.busy import busy_of
from roofline.inference.cost.cost import Cost, Spending, Spent, tariff
from roofline.inference.memory.memory import Memory
from roofline.inference.plan import Plan
from roofline.inference.settings import Deployed, Setup
from roofline.inference.span import NOTHING, Span, shaped
from roofline.inference.step import STEP_BILLED, Estimate
from roofline.kernels.constants import worse
from roofline.kernels.power import Busy
from roofline.layout.shard import PIPELINE
from roofline.model import modules as m
from roofline.model.model import Model
from roofline.training.layouts.validation import stage_kind
from roofline.training.memory.memory import TrainingMemory
from roofline.training.memory.saved_activations import Retained, layer_bytes
from roofline.training.passes import HOST, Passes, Sections, stage_times
from roofline.training.pipeline.schedule import Timeline, timeline
from roofline.training.replicas.stragglers import Stragglers, known_interval
from roofline.work.analysis import analyze
from roofline.work.checkpointing import layers_again
from roofline.work.counting import SQUARE, STANDARD, Counting
from roofline.work.training import Training, with_batch, with_options


@dataclass(frozen=True)
class Stage(Figured):
    """One pipeline stage: the model part on its rank, its passes, its memory.

    `copy`: with DualPipe, the stage at the other end, which the rank also holds. `turns`: one micro-batch on the rank:
    of its own stage, or the mean of the two stages that it alternates between.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("stage", "layers", "passes", "memory"), "")
    NAMES: ClassVar[Mapping[str, str]] = {"stage": "number"}

    number: int
    rank: Model
    passes: Passes
    memory: TrainingMemory
    turns: Passes
    copy: Model | None = None

    @property
    def holds(self) -> tuple[Model, ...]:
        """The stages whose parameters the rank holds."""
        return (self.rank,) if self.copy is None else (self.rank, self.copy)

    @property
    def layers(self) -> int:
        """Layers that the rank holds."""
        return sum(int(n) for block, n in self.rank.blocks if block.name != PIPELINE)


@dataclass(frozen=True)
class TrainingSetup(Setup):
    """Validated settings of training.

    `precision`: formats requested besides the recipe, as they were written. `stack`: settings that the call left to the
    recipes of its stack. `second`: a teacher or a reference. `stragglers`: chips that are slower.
    """

    precision: object = field(default=None, compare=False)
    stack: tuple[StackSetting, ...] = ()
    second: SecondModel | None = None
    stragglers: Stragglers | None = None


@dataclass(frozen=True)
class SecondModel:
    """A frozen model beside the one that learns. `logits`: kept until the loss; `shares`: its weights are those of the
    model that learns, without its adapters."""

    setup: TrainingSetup
    logits: bool
    shares: bool


@dataclass(frozen=True, repr=False)
class TrainingEstimate(Spent, Deployed):
    """One optimizer step of `batch` sequences on a deployment: numbers, or arrays over batches, lengths and degrees.

    `time` is expected, `floor` and `interval` bound it, in seconds. `passes`: the pipeline's schedule. `reduction` and
    `gathering`: exposed communication of gradients and weights between replicas. `update`: the optimizer. `second`:
    forward passes of a frozen second model, whose FLOPs are in no utilization. `waiting`: for the slowest rank, and
    between steps. `model_flops`: forward and backward of the whole step without recomputation; `hardware_flops`
    includes it.
    """

    SCHEMA: ClassVar[str] = "roofline.training/3"
    FIGURES: ClassVar[Units] = {
        "model": "", "deployment": "", "engine": "", "law": "", "formats": "", "recipe": "", "optimizer": "",
        "recompute": "", "loss": "", "schedule": "", "batch": "", "batch_per_replica": "", "tokens_each": "",
        "micro_batch": "", "micro_batches": "", "time": "s",
        "passes": "s", "reduction": "s", "gathering": "s", "update": "s", "second": "s", "waiting": "s",
        "bubble": "share",
        "model_flops": "FLOP", "hardware_flops": "FLOP", "mfu": "share", "mfu_palm": "share", "hfu": "share",
        "tokens_per_second": "tokens/s", "tokens_per_second_per_chip": "tokens/s", "memory": "B", "exposed": "s",
        **STEP_BILLED, "grade": "", "notes": "", "stack": "", "stages": "",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"time": "span"}

    asked: TrainingSetup
    step: Training
    micro_batches: Count
    stages: tuple[Stage, ...]
    whole: Span
    """The sum of the following parts; where communication overlaps with work the ends of the interval are put in
    order."""
    passes: Span
    reduction: Span
    gathering: Span
    update: Span
    waiting: Span
    sections: Sections
    second: Span = NOTHING
    second_busy: Busy = field(default_factory=Busy)

    # -- what and where --------------------------------------------------------------------------------------------
    @property
    def stack(self) -> tuple[StackSetting, ...]:
        """The settings that the call left to the recipes of its stack."""
        return self.asked.stack

    @property
    def recipe(self) -> str:
        """The recipe's name."""
        return self.step.recipe.name

    @property
    def optimizer(self) -> str:
        """The optimizer's name."""
        return self.step.optimizer.name

    @property
    def recompute(self) -> str:
        """What is recomputed in the backward pass."""
        again = self.step.recompute
        return again if isinstance(again, str) else ",".join(again)

    @property
    def loss(self) -> str:
        """How cross-entropy stores its logits."""
        return str(self.step.loss)

    @property
    def schedule(self) -> str:
        """The pipeline schedule."""
        return self.step.schedule

    @property
    def batch(self) -> Count:
        """Sequences of one step, over all replicas."""
        return self.step.batch

    @property
    def batch_per_replica(self) -> Count:
        """Sequences of each replica."""
        return self.batch // self.asked.layout.dp

    @property
    def tokens_each(self) -> Count:
        """Tokens of a sequence."""
        return self.step.tokens_each

    @property
    def micro_batch(self) -> Count:
        """Sequences that a replica processes at once."""
        return self.step.micro_batch

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of batch, tokens, micro-batch and the layout's degrees."""
        return np.broadcast_shapes(self.step.shape, np.shape(self.step.micro_batch), self.asked.layout.shape)

    # -- time ------------------------------------------------------------------------------------------------------
    @cached_property
    def span(self) -> Span:
        """Seconds of the step: floor, expected, and the interval."""
        sparse = any(isinstance(module, m.Experts) for module, _ in self.model.modules())
        return known_interval(self.whole, self.asked.target, sparse).shaped(self.shape)

    @property
    def time(self) -> Count:
        """Expected seconds of one step."""
        return self.span.expected

    @property
    def late(self) -> Count:
        """Expected seconds that a step waits for its slowest rank: `waiting` without the time between two steps."""
        target = self.asked.target
        return self.waiting.expected - (target.engine.between_s if target.mode.name == "calibrated" else 0.0)

    @property
    def floor(self) -> Count:
        """Lower bound of the step's seconds, at full peak and bandwidth."""
        return self.span.floor

    @property
    def interval(self) -> tuple[Count, Count]:
        """Interval, in seconds, that holds 80 % of measurements."""
        return self.span.interval

    @property
    def tokens(self) -> Count:
        """Tokens of one step."""
        return self.step.new_tokens

    @property
    def chips(self) -> Count:
        """Chips of the layout."""
        return self.asked.layout.chips

    @property
    def tokens_per_second(self) -> Count:
        """Tokens of all chips per expected second."""
        return self.tokens / self.time

    @property
    def tokens_per_second_per_chip(self) -> Count:
        """Tokens of all chips per expected second, over the chips of the layout."""
        return self.tokens_per_second / self.chips

    @cached_property
    def slowest(self) -> Stage:
        """The stage whose rank takes longest per micro-batch; for arrays, the one that is slowest in most elements."""
        return max(self.stages, key=lambda s: float(np.sum(s.turns.busy.expected)))

    def run_by(self, stage: Stage) -> tuple[tuple[Stage, Count], ...]:
        """The stages that a rank runs, with the micro-batches of each: with DualPipe half of them for either end."""
        if stage.copy is None:
            return ((stage, self.micro_batches),)
        other = self.stages[len(self.stages) - 1 - stage.number]
        return (stage, self.micro_batches / 2), (other, self.micro_batches / 2)

    @property
    def peak(self) -> float:
        """Peak FLOP/s of one chip in the products' format, the basis of MFU and HFU."""
        fmt = self.formats.ffn.compute or "bf16"
        return self.deployment.chip.peak(fmt)

    @cached_property
    def hardware_flops(self) -> Count:
        """FLOPs of one step, including recomputation, and masked pairs where attention is not fused."""
        counting = STANDARD if self.step.flash else SQUARE
        every = _flops(self.model, self.step, counting)
        if self.step.recompute_layers is None and self.step.recompute_every is None:
            return every
        plain = _flops(self.model, with_options(self.step, recompute="none"), counting)
        layers = [s.layers for s in self.stages]
        again = sum(layers_again(n, self.step.recompute_layers, self.step.recompute_every) for n in layers)
        return plain + (every - plain) * again / sum(layers)

    @cached_property
    def model_flops(self) -> Count:
        """FLOPs of one step's forward and backward, without recomputation."""
        return _flops(self.model, _nothing_again(self.step))

    @property
    def mfu(self) -> Count:
        """Model FLOPs utilization: FLOPs of forward and backward / (chips · peak · time).

        Attention counts the pairs that its mask leaves, as Megatron-LM does (training/training.py,
        `num_floating_point_operations`).
        """
        return self.model_flops / (self.chips * self.peak * self.time)

    @property
    def mfu_palm(self) -> Count:
        """MFU as PaLM defines it: attention counts its whole square (arXiv:2204.02311, App. B)."""
        whole = _flops(self.model, _nothing_again(self.step), SQUARE)
        return whole / (self.chips * self.peak * self.time)

    @property
    def hfu(self) -> Count:
        """Hardware FLOPs utilization: MFU with recomputation included (arXiv:2205.05198 §6.3)."""
        return self.hardware_flops / (self.chips * self.peak * self.time)

    @cached_property
    def bubble(self) -> Count:
        """Share of the passes in which a stage is idle, on average."""
        busy = sum(self.micro_batches * s.passes.busy.expected for s in self.stages)
        return shaped(1 - busy / (len(self.stages) * self.passes.expected), self.shape)

    @cached_property
    def timeline(self) -> Timeline:
        """Every item of the passes, with its start and end. Raises InputError for arrays, which have a timeline per
        element."""
        if self.shape:
            raise InputError("timeline", f"{self.shape} points", "one batch and one layout")
        chunks = self.asked.layout.vp
        times = [stage_times(s.passes, "expected", chunks) for s in self.stages]
        return timeline(self.step.schedule, times, int(self.micro_batches), chunks)

    @property
    def exposed(self) -> Mapping[str, Count]:
        """Expected exposed communication seconds per step on a rank of the slowest stage, by axis, largest first."""
        turns = self.slowest.turns.exchange
        seconds = {axis: span.expected * self.micro_batches for axis, span in turns.items() if axis != HOST}
        seconds["dp"] = self.reduction.expected + self.gathering.expected
        shown = {axis: value for axis, value in seconds.items() if np.any(np.asarray(value) > 0)}
        return dict(sorted(shown.items(), key=lambda item: -float(np.max(item[1]))))

    # -- memory ----------------------------------------------------------------------------------------------------
    @cached_property
    def fullest(self) -> TrainingMemory:
        """Memory of the stage that needs most."""
        return reduce(TrainingMemory.fuller, (s.memory for s in self.stages)).shaped(self.shape)

    @cached_property
    def memory(self) -> Memory:
        """Memory of the fullest rank, by term."""
        return self.fullest.on(self.deployment.chip.capacity).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether the fullest rank has enough memory."""
        return self.memory.fits

    @cached_property
    def grade(self) -> Word:
        """Grade of the fitted constants: the worst of all stages."""
        grade = reduce(
            worse, [self.sections.grade(rank) for rank in {stage_kind(s.rank): s.rank for s in self.stages}.values()]
        )
        return np.broadcast_to(grade, self.shape) if self.shape else grade

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Requested options that have next to no effect."""
        if self.step.recompute in ("none", "full"):
            return ()
        micro = with_batch(self.step, self.step.micro_batch)
        kept, plain = (
            _blocks_keep(self.stages, s, self.asked.engine.retained)
            for s in (micro, with_options(micro, recompute="none"))
        )
        freed = 1 - float(np.min(kept / plain)) if np.all(plain) else 0.0
        if freed >= LITTLE:
            return ()
        flash = self.step.recompute == "selective" and self.step.flash
        why = ": flash attention keeps no scores" if flash else ""
        return (f"recompute {self.recompute} costs time and frees {100 * freed:.1f} % of the activations{why}",)

    @cached_property
    def busy(self) -> Busy:
        """Busy seconds of the units of all chips: every stage's micro-batches, and the optimizer at its floor.

        Chips that wait for others are inside a collective and count as active.
        """
        ranks = self.chips / len(self.stages)
        work = Busy(memory=self.update.floor).times(self.chips)
        for stage in self.stages:
            work = work + busy_of(self.micro(stage).total).times(self.micro_batches * ranks)
        work = work + self.second_busy.times(self.micro_batches * ranks)
        return replace(work, running=self.chips * self.time)

    @cached_property
    def spending(self) -> Spending:
        """Energy and cost of a step, per token."""
        paid = tariff(self.deployment.chip, self.asked.bill)
        return Spending(Cost(self.chips, 0.0, paid, busy=Busy()), Cost(self.chips, self.time, paid, busy=self.busy),
                        self.time, 0, self.tokens)  # fmt: skip

    def micro(self, stage: Stage) -> Estimate:
        """One micro-batch on a stage, op by op."""
        step = with_batch(self.step, self.step.micro_batch)
        return Estimate(self.asked, step, stage_plan=Plan(stage.rank, self.asked.target))


LITTLE = 0.01
"""Share of the activations below which recomputation is reported to free nothing."""


def _blocks_keep(stages: Iterable[Stage], micro: Training, retained: Retained) -> Any:
    """Bytes that the layers of all stages keep for one micro-batch."""
    return np.asarray(
        sum(n * layer_bytes(block.modules, micro, retained).kept for s in stages for block, n in s.rank.blocks), float
    )


def _nothing_again(step: Training) -> Training:
    """The step with every op run once."""
    return with_options(step, recompute="none", loss="fused" if step.loss == "cut" else step.loss)


def _flops(model: Model, step: Training, counting: Counting = STANDARD) -> Count:
    """FLOPs of a step, from one micro-batch: all are alike."""
    one = analyze(model, with_batch(step, step.micro_batch), counting=counting).flops
    return one * (step.batch // step.micro_batch)
