"""The work of a step's units, and who pays for the chips that do it."""

from __future__ import annotations

from roofline.declared.maths import Count, most
from roofline.estimates.cost import Cost, tariff
from roofline.estimates.plan import Plan, Total
from roofline.estimates.settings import Setup
from roofline.machine.energy import Busy
from roofline.work.step import Queries, decode, replace


def busy_of(t: Total) -> Busy:
    """What a step's ops do to the units of one chip."""
    return Busy(t.expected, t.compute, t.memory, t.network)


def least_busy(work: Busy) -> Busy:
    """The same, never below nothing."""
    return Busy(*(most(0.0, v) for v in (work.running, work.compute, work.memory, work.link)))


def step_busy(plan: Plan, *queries: Queries) -> Busy:
    """What a step of a group's queries does to the units of each of its chips, all stages one after another."""
    return busy_of(plan.total(replace(decode(1, 1), queries)))


def ranks_of(asked: Setup) -> Count:
    """Chips that run a step of one group together, in each stage."""
    layout = asked.layout
    return layout.chips // (layout.dp * layout.pp)


def shared(asked: Setup, chips: Count, seconds: Count, prompts: Busy, answers: Busy) -> tuple[Cost, Cost]:
    """Chips that do both phases for so long, shared out by the time that each has steps under way."""
    paid = tariff(asked.deployment.chip, asked.bill)
    part = prompts.running / (prompts.running + answers.running)
    return (
        Cost(chips, seconds * part, paid, busy=prompts),
        Cost(chips, seconds * (1 - part), paid, busy=answers),
    )
