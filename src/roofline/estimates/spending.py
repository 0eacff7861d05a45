"""What steps, static batches, servers and pools spend: the work of their units, by phase.

The joules of a phase follow from the sums that its steps have already: seconds of every unit at its peak. A step is one
group's of a replica, on each of its ranks; with pipeline stages a group is in one stage at a time, so that a replica's
chips over its stages do the work of a step together.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from typing import Any

import numpy as np

from roofline.declared.maths import Count, is_array, least, most
from roofline.estimates.busy import busy_of, least_busy, ranks_of, shared, step_busy
from roofline.estimates.cost import Cost, Spending, tariff
from roofline.estimates.drafting import Drafting
from roofline.estimates.settings import Setup
from roofline.machine.energy import Busy
from roofline.work.step import Queries, decode, replace

HALF = 0.5 - 1e-6


@dataclass(frozen=True)
class SteadyLoad:
    """Requests a second in all, of `input` tokens of which `cached` are known, with answers of `output` tokens.

    `context`: tokens in the cache of a request that decodes, in the mean.
    """

    rate: Count
    input: Count
    output: Count
    context: Count
    cached: Count = 0


def server_spending(
    asked: Setup, load: SteadyLoad, tpot: Count, replicas: Count = 1, drafting: Drafting | None = None
) -> Spending:
    """What so many deployments that do both phases spend in a second; `tpot`: seconds between a request's tokens.

    Each phase has the time that its kernels take; what is between kernels is the answers', as there are many steps.
    A group decodes b = rate·(output − 1)·tpot requests at once, in 1 / tpot steps a second, at the mean context. A
    prompt adds to a step with these what the step takes with it beyond without; it has one of its own where the
    engine does not mix phases. With `drafting`, steps are fewer, verify drafts, and these are proposed before.
    """
    layout, plan = asked.layout, asked.plan
    chips, groups = layout.chips * replicas, layout.dp * layout.pp * replicas
    each = load.rate / groups
    running = most(1.0, each * (load.output - 1) * tpot)
    decodes, context, steps, width = rounded(running), load.context, load.output - 1, 1
    if drafting is not None:
        steps, width = drafting.steps(load.output - 1), drafting.width
    queries = Queries(load.cached, load.input - load.cached, 1), Queries(context, width, decodes)
    step = step_busy(plan, queries[1])
    mixed = step_busy(plan, *queries) + step.times(-1.0) if asked.engine.mixes else step_busy(plan, queries[0])
    ranks = groups * ranks_of(asked)
    prompts = least_busy(mixed).times(each * ranks)
    answers = step.times(each * steps / running * ranks)
    if drafting is not None:
        answers = verified_busy(asked, drafting, decodes, context).times(groups * each * steps / running)
        prompts = prompts + drafting.prompt_work(load.cached, load.input - load.cached).times(load.rate)
    awake = least(1.0, each * (load.output - 1) * tpot) * ranks
    answers = dataclass_replace(answers, running=most(answers.running, awake - prompts.running))
    costs = shared(asked, chips, 1.0, prompts, answers)
    return Spending(*costs, 1.0, load.rate * load.input, load.rate * load.output)


def verified_busy(asked: Setup, drafting: Drafting, decodes: Count, context: Count) -> Busy:
    """What a step that verifies drafts, and proposing them, do to the units of the chips of a group, together."""
    width = drafting.width
    every = replace(decode(1, 1, new=width), (Queries(context, width, decodes),))  # each of its tokens has logits
    return busy_of(asked.plan.total(every)).times(ranks_of(asked)) + drafting.work(decodes, context)


@dataclass(frozen=True)
class PhasePool:
    """So many deployments of one phase, whose steps hold so many sequences of a group.

    `awake`: the share of the time in which one has a step under way.
    """

    asked: Setup
    replicas: Count
    sequences: Count
    awake: Count


def pools_spending(first: PhasePool, then: PhasePool, load: SteadyLoad, drafting: Drafting | None = None) -> Spending:
    """What a pool that prefills and one that decodes spend in a second.

    A batch of prompts is a step of its own; every token but a request's first is one of a decode step's sequences, and
    so is its first, which the pool that decodes computes once more. With `drafting` there are fewer of these steps.
    """
    new, context = load.input - load.cached, load.context
    batch = step_busy(first.asked.plan, Queries(load.cached, new, first.sequences))
    if drafting is None:
        steps: Count = load.output
        step = step_busy(then.asked.plan, Queries(context, 1, then.sequences)).times(ranks_of(then.asked))
    else:
        steps, step = drafting.steps(load.output), verified_busy(then.asked, drafting, then.sequences, context)
    prompts = _pool_cost(first, batch.times(load.rate / first.sequences * ranks_of(first.asked)))
    answers = _pool_cost(then, step.times(load.rate * steps / then.sequences))
    return Spending(prompts, answers, 1.0, load.rate * load.input, load.rate * load.output)


def _pool_cost(pool: PhasePool, work: Busy) -> Cost:
    """A second of a pool whose chips together do so much work."""
    asked, chips = pool.asked, pool.asked.layout.chips * pool.replicas
    paid = tariff(asked.deployment.chip, asked.bill)
    return Cost(chips, 1.0, paid, busy=dataclass_replace(work, running=most(work.running, pool.awake * chips)))


def rounded(value: Count) -> Any:
    """The nearest whole number, at least one; of one that is halfway to within an error of rounding the lower."""
    if is_array(value):
        return np.maximum(1, np.floor(value + HALF)).astype(np.int64)
    return max(1, int(value + HALF))
