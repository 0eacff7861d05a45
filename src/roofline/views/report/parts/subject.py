"""The subject of a report: a serving configuration on one or several machines, and all results computed from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from roofline.declared.errors import InputError
from roofline.declared.groups import PlaceSettings, Where
from roofline.declared.question import question
from roofline.inference.deployment import Deployment, Machine, listed_machines
from roofline.inference.fit import Fit
from roofline.inference.generate import Generation
from roofline.inference.step import Estimate, step_estimate
from roofline.layout.layout import Layout
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.training.estimate import TrainingEstimate
from roofline.training.layouts.remedies import Fix, fixes
from roofline.training.train import train
from roofline.whatif.query.regimes import Critical, critical
from roofline.whatif.search.recommendations import (
    USUAL_BATCH,
    Advice,
    BatchSizes,
    Served,
    TrainingAdvice,
    advice,
    served,
    training_advice,
)
from roofline.whatif.sensitivity.tornado import Answer, OperatingPoint, answers
from roofline.work.lower import seeing
from roofline.work.step import Step, decode, prefill


@dataclass(frozen=True)
class Report:
    """A serving configuration and its results.

    `others`: machines to compare with. `train`: include training steps of the same batch.
    """

    now: Served
    others: tuple[Machine, ...] = ()
    train: bool = False

    @property
    def model(self) -> Model:
        """The whole model."""
        return self.now.asked.model

    @property
    def deployment(self) -> Deployment:
        """Chips and layout."""
        return self.now.asked.deployment

    @property
    def layout(self) -> Layout:
        """Its layout."""
        return self.deployment.layout

    @cached_property
    def rank(self) -> Model:
        """The part of the model on one rank."""
        return self.deployment.rank(self.model)

    @property
    def batch(self) -> int:
        """Sequences of the busiest replica."""
        return int(self.deployment.share(self.now.batch))

    @property
    def middle(self) -> int:
        """Tokens in the cache halfway through the answer."""
        return self.now.prompt + self.now.output // 2

    @cached_property
    def steps(self) -> tuple[tuple[str, Step], ...]:
        """A prefill of the batch, and a decode halfway through the answer."""
        first = seeing(self.model, prefill(self.now.batch, self.now.input), self.now.images)
        return ("prefill", first), ("decode", decode(self.now.batch, self.middle))

    @cached_property
    def estimates(self) -> tuple[tuple[str, Estimate], ...]:
        """Timed steps."""
        return tuple((name, step_estimate(self.now.asked, step, within=False)) for name, step in self.steps)

    def tokens_per_second(self, e: Estimate) -> float | None:
        """New tokens of all replicas per expected second of a step; None if a pass runs through several pipeline
        stages."""
        return None if self.layout.pp > 1 else float(e.tokens_per_second)

    @cached_property
    def training(self) -> TrainingEstimate | InputError | None:
        """An optimizer step of the same batch and prompts in the chip's main format, or the error that prevents it.

        None unless training is requested.
        """
        if not self.train:
            return None
        try:
            estimate: TrainingEstimate = train(
                self.model, batch=self.now.batch, tokens=self.now.input, recipe=self.deployment.chip.main_format,
                on=self.now.where.on, layout=self.now.where.layout,
            )  # fmt: skip
            return estimate
        except InputError as error:
            return error

    @cached_property
    def generation(self) -> Generation:
        """The whole batch, from prompts to last tokens."""
        return self.now.generation

    @cached_property
    def fit(self) -> Fit:
        """Memory of the fullest rank."""
        asked = self.now.asked
        return Fit(asked, self.now.batch, self.now.input + self.now.output, asked.engine.chunk)

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Changes that would help serving, largest gain first."""
        return advice(self.now, None if self.fit.fits else self.fit.fewest)

    @cached_property
    def training_fixes(self) -> tuple[Fix, ...]:
        """Changes that would make a training step fit, the least expensive first; empty if it fits."""
        t = self.training
        return () if t is None or isinstance(t, InputError) or t.fits else fixes(t, self.now.where.on)

    @cached_property
    def training_advice(self) -> tuple[TrainingAdvice, ...]:
        """Changes that would help training, largest gain first."""
        t = self.training
        return () if t is None or isinstance(t, InputError) else training_advice(t, self.now.where.on)

    @cached_property
    def point(self) -> OperatingPoint:
        """The point at which knobs are varied."""
        return OperatingPoint(self.now.asked, self.now.batch, self.middle, self.now.prompt)

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Sensitivity of prefill and decode to each knob."""
        return answers(self.point)

    @cached_property
    def critical(self) -> Critical:
        """Critical batch size and lengths."""
        return critical(self.point)

    @cached_property
    def elsewhere(self) -> tuple[tuple[Machine, Report | InputError], ...]:
        """This configuration on each of the other machines, or the error that prevents it."""
        every: list[tuple[Machine, Report | InputError]] = []
        for machine in self.others:
            try:
                other = Report(self.now.at(machine))
                other.generation.latency  # noqa: B018 - raises here what a machine cannot do
                every.append((machine, other))
            except InputError as error:
                every.append((machine, error))
        return tuple(every)


@question()
def report_on(
    model: Model,
    place: PlaceSettings,
    sizes: BatchSizes = USUAL_BATCH,
    *,
    train: bool = False,
    images: Images | None = None,
) -> Report:
    """A report on the first machine of a place, compared with the rest; settings as in `served`.

    `train`: include training steps of the same batch.

    Raises InputError for invalid settings.
    """
    first, *others = listed_machines(place.on) or (None,)
    if first is None:
        raise InputError("on", [], "at least one chip or cluster")
    where = Where(**{**vars(place), "on": first})
    report = Report(served(model, where, sizes, images=images, command="report"), tuple(others), train)
    report.generation.latency  # noqa: B018 - raises here what the machine cannot do
    return report
