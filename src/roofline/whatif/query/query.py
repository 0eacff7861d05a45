"""A query: an estimate whose settings and numbers can be varied, and its figures by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import Load, StaticBatch, one_load
from roofline.declared.kinds import Given, ValueKind, count_kind
from roofline.declared.numbers.arrays import Array
from roofline.declared.question import Settings, arguments_of, declaration_of, group_settings, question_settings
from roofline.declared.result import FigureValue, Result
from roofline.engines.engine import default_engine, engine_named
from roofline.hardware.chip import Chip, Price
from roofline.hardware.cluster import Cluster
from roofline.inference.deployment import Machine
from roofline.inference.fit import fit
from roofline.inference.generate import generate, generation
from roofline.inference.settings import Setup
from roofline.inference.step import step_estimate
from roofline.model.model import Model
from roofline.serving.serve import serve, server_of, serving
from roofline.serving.server import Server
from roofline.training.train import train
from roofline.whatif.query.condition import AGAINST, ClauseValue, Condition
from roofline.whatif.query.figures import ColumnKind, figure_columns, figure_leaves, in_conditions
from roofline.whatif.query.questions import QUESTIONS, Question
from roofline.work.step import decode, prefill

Subject: TypeAlias = Literal["decode", "prefill", "generate", "serve", "train"]
"""Kind of estimate: a step, a static batch, a server or a training step."""
SIZES: Mapping[Subject, tuple[str, ...]] = MappingProxyType({
    "decode": ("batch", "context"), "prefill": ("batch", "input"),
    "generate": tuple(group_settings(StaticBatch)),
    "serve": tuple(name for name, s in group_settings(Load).items() if s.kind.unit != "share"),
    "train": ("batch", "tokens"),
})  # fmt: skip
"""Subject → the numbers it takes; a server takes either `concurrency` or `rate`."""
ALL_SIZES = tuple(dict.fromkeys(name for names in SIZES.values() for name in names))
SERVED = tuple(
    name for name, s in question_settings(serve).items() if s.parameter in ("load", "how", "speculation", "images")
)
"""Settings of a server other than its place."""
NUMBERS: Mapping[str, ValueKind] = MappingProxyType({
    **{name: question_settings(q)[name].kind for q in (fit, generate, serve) for name in ALL_SIZES
       if name in question_settings(q)},
    "context": count_kind("tokens", 0), "tokens": count_kind("tokens"),
})  # fmt: skip
"""Name of a number → its kind of value."""
LARGEST_BATCH = 2**20
LONGEST_UNLIMITED = 2**22
"""Maximum number of tokens evaluated for a model without a context limit."""
FOLLOWED, BLOCK = 8, 2048
"""Integers evaluated at once: for servers simulated step by step, and for closed forms."""


def subject_of(numbers: Mapping[str, float], find: str) -> Subject:
    """The kind of estimate that the numbers belong to, with `find` unknown.

    Raises InputError where numbers do not belong together, or one is missing.
    """
    given = {*numbers} | ({find} & set(ALL_SIZES))
    kind = _subject(given)
    missing = [name for name in SIZES[kind] if name not in given and name not in ("concurrency", "rate", "batch")]
    if missing:
        raise InputError(missing[0], None, f"a number: it is of {kind}")
    extra = sorted(given - set(SIZES[kind]))
    if extra:
        raise InputError(extra[0], numbers.get(extra[0]), f"nothing: {kind} has {', '.join(SIZES[kind])}")
    if kind == "serve" and len(given & {"concurrency", "rate"}) == 2:
        raise one_load("both")
    return kind


def _subject(given: set[str]) -> Subject:
    if "tokens" in given:
        return "train"
    if given & {"concurrency", "rate"}:
        return "serve"
    if "output_tokens" in given:
        return "generate"
    return "prefill" if "input" in given and "context" not in given else "decode"


@dataclass(frozen=True)
class OpenQuestion:
    """A query: an estimate of `subject` with resolved settings, numbers and a condition.

    `numbers`: the given ones, by name. `more`: other settings of a server. `machine`: the machine as given, of training
    and servers; `others`: settings and options as given. `strict`: figures are taken at the far end of their intervals.
    `other`: the other side of a comparison. `known`: figures by name. `within`: for a step, whether the model's context
    is a limit.
    """

    subject: Subject
    asked: Setup
    numbers: Mapping[str, float]
    condition: Condition = field(default_factory=Condition)
    machine: Machine | None = None
    strict: bool = False
    others: Settings = field(default_factory=dict)
    more: Settings = field(default_factory=dict)
    other: OpenQuestion | None = None
    known: Mapping[str, ColumnKind] = field(default_factory=dict)
    within: bool = True

    @property
    def model(self) -> Model:
        """The model, unsharded."""
        return self.asked.model

    @property
    def block(self) -> int:
        """Number of integers evaluated at once."""
        followed = self.subject == "serve" and self.more.get("formula") is False
        return FOLLOWED if followed else BLOCK

    def sized(self, **numbers: float) -> OpenQuestion:
        """The query with other numbers."""
        return replace(self, numbers={**self.numbers, **numbers})

    def under(self, asked: Setup) -> OpenQuestion:
        """The query with other resolved settings."""
        return replace(self, asked=asked)

    def on(self, chip: Chip) -> OpenQuestion:
        """The query on another chip, derived from the given one."""
        other = replace(chip, like=chip.like or chip.id, aliases=())
        asked = self._where(chip=other)
        if self.subject != "train":
            named = self.others.get("engine")
            how = default_engine(other) if named is None else engine_named(named)
            asked = replace(asked, engine=how.on(other))  # its defaults may depend on the chip's memory
        return replace(self.under(asked), machine=other)

    def joined(self, cluster: Cluster) -> OpenQuestion:
        """The query on another cluster."""
        return replace(self.under(self._where(cluster=cluster)), machine=cluster)

    def priced(self, usd_per_hour: float) -> OpenQuestion:
        """The query with another price per chip-hour."""
        return self.under(self._where(chip=replace(self.asked.deployment.chip, price=Price(usd_per_hour))))

    def _where(self, **deployment: Given) -> Setup:
        return replace(self.asked, deployment=replace(self.asked.deployment, **deployment))

    @property
    def question(self) -> Question:
        """The sweep question of this kind of estimate."""
        return QUESTIONS[self.subject]

    # -- figures ---------------------------------------------------------------------------------------------------
    def knowing(self) -> OpenQuestion:
        """The query with the figures of its answer available by name."""
        return replace(self, known=in_conditions(figure_columns(self.question, self.answer)))

    def figure(self, name: str) -> FigureValue:
        """A figure of the answer; with `strict` the far end of its interval, if any.

        Raises InputError for an unknown figure, and for a figure without a value here.
        """
        if name not in self.known:
            raise not_one_of("figure", name, self.known)
        column = self.known[name]
        end = f"{column.name}_high" if self.strict else ""
        leaf = end if end in self.known else column.name
        leaves = figure_leaves(self.question, self.answer, column.figure)
        value = next((value for each, value, _ in leaves if each == leaf), None)
        if value is None and column.unit == "USD":
            raise InputError("on", self.asked.deployment.chip.id, "a chip with a price, as in `like=h100-sxm,price=2`")
        if value is None:
            raise InputError("figure", name, "one that is known there")
        return value

    def look(self, name: str) -> ClauseValue:
        """A figure of this side, or after the prefix `against ` of the other side."""
        side, _, figure = name.rpartition(" ")
        value: ClauseValue = (self.other if side == AGAINST and self.other is not None else self).figure(figure)
        return value

    @property
    def use(self) -> Array:
        """How much of the limits is used: the maximum over all of them."""
        return self.condition.use(self.look)

    @cached_property
    def answer(self) -> Any:
        """The estimate."""
        n = self.numbers
        batch = n.get("batch", 1)
        match self.subject:
            case "decode":
                return step_estimate(self.asked, decode(batch, n["context"]), within=self.within)
            case "prefill":
                return step_estimate(self.asked, prefill(batch, n["input"]), within=self.within)
            case "generate":
                return generation(self.asked, StaticBatch(**{"batch": batch, **n}))
            case "serve":
                return serving(self.asked, **self._served())
            case "train":
                return self._trained(batch)

    def _served(self) -> Settings:
        """The arguments of `serve`, in groups."""
        flat = {"on": self.machine, **self.numbers, **self.more}
        groups = arguments_of(declaration_of(serve), flat)
        return {name: value for name, value in groups.items() if name != "where"}

    @property
    def server(self) -> Server:
        """The server of a query of subject `serve`."""
        return server_of(self.asked, **self._served())

    def _trained(self, batch: float) -> Result:
        place = {"on": self.machine, **{name: getattr(self.asked, name) for name in ("layout", "engine", "law")}}
        estimate: Result = train(self.model, batch=batch, tokens=self.numbers["tokens"], **place, **self.others)
        return estimate
