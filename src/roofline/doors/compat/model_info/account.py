"""Accounting of a step as in dump_model_info: its outline under the tool's conventions, with one time for the whole
step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.result import Result, Units
from roofline.doors.compat.chips import H200, Peaks
from roofline.doors.compat.model_info.conventions import Convention, work
from roofline.doors.compat.model_info.outline import checked_ranks, outline
from roofline.doors.compat.model_info.rules import CATEGORIES, PHASES, ReportPhase, Rules, rules_named
from roofline.doors.compat.numbers import whole_number
from roofline.model.model import Model
from roofline.work import ops as o
from roofline.work.analysis import Analysis, OpCost
from roofline.work.step import Step, decode, prefill


@dataclass(frozen=True)
class Term:
    """One category of work in a step, summed over all layers: FLOPs, FLOPs in units of the peak, and bytes by term."""

    category: str
    flops: float = 0.0
    realizable: float = 0.0
    weights: float = 0.0
    activations: float = 0.0
    cache: float = 0.0
    temporary: float = 0.0

    @property
    def bytes(self) -> float:
        """All bytes of memory traffic."""
        return self.weights + self.activations + self.cache + self.temporary


@dataclass(frozen=True, repr=False)
class Account(Result):
    """A step under the rules on a chip. `compute`, `memory`, `network` are seconds, and `time` is their maximum.

    `work`: ops of the outline under the conventions; a training step has those of its prefill.
    """

    SCHEMA: ClassVar[str] = "roofline.account/1"
    FIGURES: ClassVar[Units] = {
        "model": "", "phase": "", "rules": "", "tokens": "", "flops": "FLOP", "realizable": "FLOP", "bytes": "B",
        "intensity": "FLOP/B", "dispatch_bytes": "B", "network_bytes": "B", "compute": "s", "memory": "s",
        "network": "s", "time": "s", "regime": "", "mfu": "share", "tokens_per_second": "tokens/s", "terms": "",
    }  # fmt: skip

    phase: ReportPhase
    convention: Convention
    work: Analysis
    on: Peaks

    @property
    def model(self) -> Model:
        """The model as the tool sees it."""
        return self.work.model

    @property
    def rules(self) -> Rules:
        """The settings."""
        return self.convention.rules

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Categories that the model has, in the order of its layers."""
        costs: dict[str, list[OpCost]] = {}
        for cost in self.work.ops:
            costs.setdefault(_category(cost), []).append(cost)
        return tuple(self._term(name, each) for name, each in costs.items())

    def _term(self, name: str, costs: list[OpCost]) -> Term:
        """Sums of a category; a training step multiplies those of its prefill."""
        training = self.phase == "training"
        flops, moved = (self.rules.training_flops, self.rules.training_bytes) if training else (1, 1)
        each = [cost.moved for cost in costs]
        bytes_by_term = (
            sum(x.weights for x in each), sum(x.input + x.output for x in each), sum(x.cache for x in each),
            sum(x.scratch for x in each),
        )  # fmt: skip
        work = float(sum(cost.flops for cost in costs))
        realizable = self.convention.realizable(name, costs)
        return Term(name, flops * work, flops * realizable, *(float(moved * v) for v in bytes_by_term))

    def term(self, category: str) -> Term:
        """One category, empty if the model has no such work."""
        return next((t for t in self.terms if t.category == category), Term(category))

    def sum(self, field: str) -> float:
        """Sum of a field over all terms."""
        return math.fsum(getattr(t, field) for t in self.terms)

    @property
    def tokens(self) -> int:
        """Tokens of the step."""
        return int(self.work.step.tokens)

    @cached_property
    def flops(self) -> float:
        """Total FLOPs F."""
        return self.sum("flops")

    @cached_property
    def realizable(self) -> float:
        """FLOPs in units of peak, category by category."""
        return self.sum("realizable")

    @cached_property
    def bytes(self) -> float:
        """Bytes of memory traffic."""
        return self.sum("bytes")

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.bytes

    @cached_property
    def dispatch_bytes(self) -> float:
        """Bytes of tokens sent to experts and back, 2·T·H·k in every layer; in training those of a prefill."""
        sent = sum(c.layers * c.op.elements for c in self.work.ops if isinstance(c.op, o.Communicate))
        return float(self.rules.activation_bytes * sent)

    @cached_property
    def network_bytes(self) -> float:
        """Share of the dispatch bytes that goes to other chips, (ep − 1) / ep."""
        ep = self.convention.ep
        return self.dispatch_bytes * (ep - 1) / ep if self.rules.network else 0.0

    @cached_property
    def compute(self) -> float:
        """Seconds of arithmetic."""
        return self.realizable / self.on.peak

    @cached_property
    def memory(self) -> float:
        """Seconds of memory traffic."""
        return self.bytes / self.on.bandwidth

    @cached_property
    def network(self) -> float:
        """Seconds of traffic to other chips."""
        return self.network_bytes / self.on.link if self.network_bytes and self.on.link else 0.0

    @cached_property
    def time(self) -> float:
        """Largest of the three times: a lower bound that assumes full overlap."""
        return max(self.compute, self.memory, self.network)

    @property
    def attainable(self) -> float:
        """FLOP/s at its intensity: min(peak, bandwidth · intensity)."""
        return min(self.on.peak, self.on.bandwidth * self.intensity)

    @property
    def regime(self) -> str:
        """Which of the three times is largest."""
        return "compute" if self.compute == self.time else "hbm" if self.memory == self.time else "network"

    @property
    def mfu(self) -> float:
        """F / (peak · time)."""
        return self.flops / (self.on.peak * self.time)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the step divided by its time."""
        return self.tokens / self.time


def _category(cost: OpCost) -> str:
    """Category of an op of an outline: the name of its block without the number that distinguishes equal blocks."""
    return next(name for name in CATEGORIES if cost.block.partition(" ")[0] == name)


def account(
    model: Model, phase: ReportPhase, rules: Rules | str, *, batch: int, length: int, on: Peaks = H200, ep: int = 1
) -> Account:
    """A step of `batch` sequences, each with `length` tokens, or with one new token after that many.

    `ep`: every expert-parallel rank keeps its own tokens and ⌈experts / ep⌉ experts. Raises InputError for an unknown
    phase or rules, layers that cannot be counted, more ranks than experts, and a chip without a link if anything is
    sent.
    """
    if phase not in PHASES:
        raise not_one_of("phase", phase, PHASES)
    convention = Convention(rules_named(rules), checked_ranks(model, ep))
    b, n = whole_number("batch", batch), whole_number("length", length)
    step = decode(b, n) if phase == "decode" else prefill(b, n, logits="all")
    return accounted(outline(model, decoding=phase == "decode", ranks=ep), phase, step, convention, on)


def accounted(seen: Model, phase: ReportPhase, step: Step, convention: Convention, on: Peaks) -> Account:
    """A step of an outline; for training its prefill, with logits for all tokens. Raises the errors of `account`."""
    a = Account(phase, convention, work(seen, step, convention), on)
    if a.network_bytes and on.link is None:
        raise InputError("link", None, "bytes/s of the link, over which experts of other chips get their tokens")
    return a
