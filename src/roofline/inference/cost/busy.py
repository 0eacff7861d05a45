"""The work of the units of chips during steps, and how the cost of chips is split between prefill and decode."""

from __future__ import annotations

from dataclasses import fields

from roofline.declared.numbers.maths import Count, most
from roofline.inference.cost.cost import Cost, tariff
from roofline.inference.plan import Plan, Total
from roofline.inference.settings import Setup
from roofline.kernels.power import Busy
from roofline.kernels.timing import Timing
from roofline.work.step import Queries, decode, replace


def busy_of(t: Total | Timing) -> Busy:
    """Work of one chip for an op or a step's ops: expected seconds, and seconds of each unit at its peak."""
    memory = t.memory + t.more_memory
    return Busy(t.expected, t.compute, memory, t.network, t.padding, t.tiles, t.more_compute)


def least_busy(work: Busy) -> Busy:
    """The work with negative entries set to 0."""
    return Busy(*(most(0.0, getattr(work, f.name)) for f in fields(work)))


def step_busy(plan: Plan, *queries: Queries) -> Busy:
    """Work of the units of each chip for a step of a group's queries, with all pipeline stages one after another."""
    return busy_of(plan.total(replace(decode(1, 1), queries)))


def ranks_of(asked: Setup) -> Count:
    """Chips of each pipeline stage that run a group's step together."""
    layout = asked.layout
    return layout.chips // (layout.dp * layout.pp)


def shared(asked: Setup, chips: Count, seconds: Count, prompts: Busy, answers: Busy) -> tuple[Cost, Cost]:
    """Costs of prefill and decode on chips that do both for `seconds`, split by the time that each runs."""
    paid = tariff(asked.deployment.chip, asked.bill)
    part = prompts.running / (prompts.running + answers.running)
    return (
        Cost(chips, seconds * part, paid, busy=prompts),
        Cost(chips, seconds * (1 - part), paid, busy=answers),
    )
