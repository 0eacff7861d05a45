"""What a report is of: a model served in one way, in one place or several, and everything that is computed of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from roofline.estimates.generate import Generation
from roofline.estimates.latency import Estimate
from roofline.estimates.memory import Fit, fit
from roofline.estimates.place import Place, Placed, placed
from roofline.estimates.training import TrainingEstimate, estimate_training
from roofline.estimates.training_changes import Fix, fixes
from roofline.explore.guidance import Advice, Served, TrainingAdvice, advice, served, training_advice
from roofline.explore.regimes import Critical, critical
from roofline.explore.sensitivity import Answer, Point, answers
from roofline.machine.engine import Engine
from roofline.model.errors import InputError
from roofline.model.maths import ceil_div
from roofline.model.model import Model
from roofline.work.step import Step, decode, prefill
from roofline.work.training import train


@dataclass(frozen=True)
class Report:
    """A model served in one way, and what is said of it. `others`: places that are compared with it."""

    model: Model
    now: Served
    others: tuple[Place, ...] = ()

    @cached_property
    def where(self) -> Placed:
        """Where it runs."""
        return placed(self.now.on, self.now.layout)

    @cached_property
    def rank(self) -> Model:
        """What one rank holds."""
        return self.where.rank(self.model)

    @property
    def batch(self) -> int:
        """Sequences of one replica."""
        return int(ceil_div(self.now.batch, self.now.layout.dp))

    @property
    def engine(self) -> str | None:
        """The engine's id, None for kernels alone."""
        return self.now.engine.id if isinstance(self.now.engine, Engine) else self.now.engine

    @property
    def middle(self) -> int:
        """Tokens in the cache in the middle of the answer."""
        return self.now.input + self.now.output // 2

    @cached_property
    def steps(self) -> tuple[tuple[str, Step], ...]:
        """A prefill of a replica's batch, and a decode in the middle of the answer."""
        return ("prefill", prefill(self.batch, self.now.input)), ("decode", decode(self.batch, self.middle))

    @cached_property
    def estimates(self) -> tuple[tuple[str, Estimate], ...]:
        """Their times."""
        from roofline.estimates.latency import time_of

        formats, engine = self.now.precision, self.now.engine
        return tuple(
            (name, time_of(self.rank, step, self.where, "calibrated", formats, engine)) for name, step in self.steps
        )

    def tokens_per_second(self, e: Estimate) -> float | None:
        """New tokens of all replicas per expected second of a step; None where a pass takes several stages in turn."""
        return None if self.now.layout.pp > 1 else float(e.tokens_per_second) * self.now.layout.dp

    @cached_property
    def training(self) -> TrainingEstimate | InputError:
        """An optimizer step of the same batch and prompts in the chip's main format, or why there can be none."""
        try:
            step = train(self.now.batch, self.now.input, recipe=self.where.chip.main_format)
            return estimate_training(self.model, step, on=self.now.on, layout=self.now.layout)
        except InputError as error:
            return error

    @cached_property
    def generation(self) -> Generation:
        """The batch from prompt to last token."""
        return self.now.of(self.model)

    @cached_property
    def fit(self) -> Fit:
        """Memory of the fullest rank."""
        s = self.now
        return fit(
            self.model, on=s.on, layout=s.layout, batch=s.batch, context=s.input + s.output, precision=s.precision,
            engine=s.engine or "none",
        )  # fmt: skip

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """What would help serving, largest gain first."""
        return advice(self.model, self.now, self.generation, None if self.fit.fits else self.fit.fewest)

    @cached_property
    def training_fixes(self) -> tuple[Fix, ...]:
        """What would make a training step fit, the least expensive first; nothing where it does."""
        t = self.training
        return () if isinstance(t, InputError) or t.fits else fixes(t, self.now.on)

    @cached_property
    def training_advice(self) -> tuple[TrainingAdvice, ...]:
        """What would help training, largest gain first."""
        return () if isinstance(self.training, InputError) else training_advice(self.training, self.now.on)

    @cached_property
    def point(self) -> Point:
        """Where the knobs are turned."""
        s = self.now
        return Point(self.model, self.where, s.precision, self.batch, self.middle, s.engine, s.input)

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """How prefill and decode answer to each knob."""
        return answers(self.point)

    @cached_property
    def critical(self) -> Critical:
        """Critical batch and lengths."""
        return critical(self.point)

    @cached_property
    def elsewhere(self) -> tuple[tuple[Place, Report | InputError], ...]:
        """The same in the other places, or why it cannot be."""
        found: list[tuple[Place, Report | InputError]] = []
        for place in self.others:
            try:
                other = Report(self.model, replace(self.now, on=place))
                other.generation  # noqa: B018 - raises here what a place cannot do
                found.append((place, other))
            except InputError as error:
                found.append((place, error))
        return tuple(found)


def report_on(
    model: Model, on: Sequence[Place], *, layout: object = None, batch: int = 16, input: int | None = None,
    output: int | None = None, precision: object = None, engine: str | Engine | None = None,
) -> Report:  # fmt: skip
    """A report on the first place, served as `served` has it, compared with the rest.

    Raises InputError for what is not understood.
    """
    if not on:
        raise InputError("on", list(on), "at least one chip or cluster")
    now = served(
        model, on=on[0], layout=layout, batch=batch, input=input, output=output, precision=precision, engine=engine
    )
    made = Report(model, now, tuple(on[1:]))
    made.generation  # noqa: B018 - raises here what the place cannot do
    return made
