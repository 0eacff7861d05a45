"""A question with one number left open: which estimate it is of, the other numbers, and the figures that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.declared.checks import count, flag, real, requests_a_second
from roofline.declared.errors import InputError
from roofline.estimates.generate import generation
from roofline.estimates.server import Server, rounded_down
from roofline.estimates.settings import Setup
from roofline.estimates.step import check_context, step_estimate
from roofline.estimates.train import train
from roofline.explore.requirements import Requirement, figure_of
from roofline.machine.chip import Chip, Price
from roofline.machine.engine import default_engine, engine_named
from roofline.machine.fabric import Cluster
from roofline.model.model import Model
from roofline.work.step import decode, prefill

Subject: TypeAlias = Literal["decode", "prefill", "generate", "serve", "train"]
"""Of which estimate: one step, a static batch, a server, a step of training."""
SIZES: Mapping[Subject, tuple[str, ...]] = MappingProxyType({
    "decode": ("batch", "context"), "prefill": ("batch", "input"), "generate": ("batch", "input", "output"),
    "serve": ("input", "output", "concurrency", "rate"), "train": ("batch", "tokens"),
})  # fmt: skip
"""The numbers that each takes; of a server either the concurrency or the rate."""
LARGEST_BATCH = 2**20
LONGEST_UNLIMITED = 2**22
"""Tokens that are looked at where a model has no limit of its own."""
FOLLOWED, BLOCK = 8, 2048
"""Whole numbers worked out together: of requests that are followed from step to step, and of formulas."""


@dataclass(frozen=True)
class Sizing:
    """The numbers of a question; None is not given, or left open."""

    batch: Any = None
    context: Any = None
    input: Any = None
    output: Any = None
    concurrency: Any = None
    rate: Any = None
    tokens: Any = None
    prefix: float = 0.0
    formula: bool | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "context", "input", "output", "concurrency", "tokens"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, count(name, getattr(self, name), int(name != "context")))
        if self.rate is not None:
            requests_a_second("rate", self.rate)
        share = real(self.prefix)
        if share is None or not 0 <= share < 1:
            raise InputError("prefix", self.prefix, "a share from 0 up to, but not including, 1")
        if self.formula is not None:
            flag("formula", self.formula)

    def subject(self, find: str) -> Subject:
        """The estimate that the numbers are of, one of them left open.

        Raises InputError where numbers do not go together, or one is missing.
        """
        given = {name for name in ALL_SIZES if getattr(self, name) is not None} | ({find} & set(ALL_SIZES))
        kind = _subject(given)
        missing = [name for name in SIZES[kind] if name not in given and name not in ("concurrency", "rate", "batch")]
        if missing:
            raise InputError(missing[0], None, f"a number: it is of {kind}")
        extra = sorted(given - set(SIZES[kind]))
        if extra:
            raise InputError(extra[0], getattr(self, extra[0]), f"nothing: {kind} has {', '.join(SIZES[kind])}")
        if kind == "serve" and len(given & {"concurrency", "rate"}) == 2:
            both = (self.concurrency or "open", self.rate or "open")
            raise InputError("concurrency and rate", both, "one of them alone")
        return kind


ALL_SIZES = ("batch", "context", "input", "output", "concurrency", "rate", "tokens")


def _subject(given: set[str]) -> Subject:
    if "tokens" in given:
        return "train"
    if given & {"concurrency", "rate"}:
        return "serve"
    if "output" in given:
        return "generate"
    return "prefill" if "input" in given and "context" not in given else "decode"


@dataclass(frozen=True)
class OpenQuestion:
    """An estimate of `subject` with its settings understood, its numbers, and what must be kept.

    `machine`: where training is told to run; `others`: its options. `strict`: times count at the far end of their
    intervals.
    """

    subject: Subject
    asked: Setup
    sizing: Sizing
    requirements: tuple[Requirement, ...] = ()
    machine: Any = None
    strict: bool = False
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """The whole model."""
        return self.asked.model

    @property
    def block(self) -> int:
        """Whole numbers that are worked out together."""
        s = self.sizing
        followed = s.formula is False if s.concurrency is not None else not s.formula
        return FOLLOWED if self.subject == "serve" and followed else BLOCK

    def sized(self, **numbers: Any) -> OpenQuestion:
        """The same with other numbers."""
        return replace(self, sizing=replace(self.sizing, **numbers))

    def under(self, asked: Setup) -> OpenQuestion:
        """The same in another place."""
        return replace(self, asked=asked)

    def on(self, chip: Chip) -> OpenQuestion:
        """The same on another chip, like the one given."""
        other = replace(chip, like=chip.like or chip.id, aliases=())
        asked = self._where(chip=other)
        if self.subject != "train":
            named = self.others.get("engine")
            how = default_engine(other) if named is None else engine_named(named)
            asked = replace(asked, engine=how.on(other))  # its defaults may hang on the chip's memory
        return replace(self.under(asked), machine=other)

    def joined(self, cluster: Cluster) -> OpenQuestion:
        """The same with other links between the chips."""
        return replace(self.under(self._where(cluster=cluster)), machine=cluster)

    def priced(self, usd_per_hour: float) -> OpenQuestion:
        """The same at another price of a chip hour."""
        return self.under(self._where(chip=replace(self.asked.deployment.chip, price=Price(usd_per_hour))))

    def _where(self, **deployment: Any) -> Setup:
        return replace(self.asked, deployment=replace(self.asked.deployment, **deployment))

    @property
    def answer(self) -> Any:
        """The estimate."""
        s, batch = self.sizing, 1 if self.sizing.batch is None else self.sizing.batch
        match self.subject:
            case "decode":
                return step_estimate(self.asked, decode(batch, s.context))
            case "prefill":
                return step_estimate(self.asked, prefill(batch, s.input))
            case "generate":
                return generation(self.asked, batch, s.input, s.output)
            case "serve":
                return self.server.at_rate(s.rate, bool(s.formula)) if s.rate is not None else self._closed()
            case "train":
                return self._trained(batch)

    def _closed(self) -> Any:
        one = self.sizing.concurrency
        return self.server.together(one) if self.sizing.formula is False else self.server.at(one)

    @property
    def server(self) -> Server:
        """Of a question about one: the server."""
        s = self.sizing
        check_context(self.model, prefill(1, s.input + s.output - 1))
        load = s.concurrency if s.rate is None else s.rate
        shape = np.broadcast_shapes(*map(np.shape, (s.input, s.output, load)), self.asked.layout.shape)
        return Server(self.asked, s.input, s.output, rounded_down(s.input * s.prefix), len(shape))

    def _trained(self, batch: Any) -> Any:
        return train(
            self.model, batch=batch, tokens=self.sizing.tokens, on=self.machine, layout=self.asked.layout,
            engine=self.asked.engine, law=self.asked.law, **self.others,
        )  # fmt: skip


def figures_of(question: OpenQuestion, against: OpenQuestion | None) -> tuple[tuple[Any, Any], ...]:
    """Of each requirement the figure and its limit."""
    answer, rows = question.answer, []
    other = None if against is None else against.answer
    for r in question.requirements:
        value = figure_of(answer, r.metric, question.strict)
        limit = r.limit if r.limit != "against" else figure_of(other, r.metric, question.strict)
        rows.append((value, limit))
    return tuple(rows)
