"""Energy and money of steps, static batches, servers and pools: the work of their chips' units, by phase.

The joules of a phase follow from sums that its steps have already: seconds of every unit at its peak. A step belongs to
one group of a replica and runs on each of its ranks. With pipeline stages a group is in one stage at a time; the chips
that do a step's work together are then a replica's chips divided by its stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from typing import Any

import numpy as np

from roofline.declared.numbers.maths import Count, is_array, least, most
from roofline.inference.cost.busy import busy_of, least_busy, ranks_of, shared, step_busy
from roofline.inference.cost.cost import Cost, Spending, tariff
from roofline.inference.settings import Setup
from roofline.kernels.power import Busy
from roofline.serving.drafting import Drafting
from roofline.serving.requests import encoded_beside
from roofline.work.step import Queries, decode, replace

HALF = 0.5 - 1e-6


@dataclass(frozen=True)
class SteadyLoad:
    """Requests served at a steady `rate`, per second over all replicas.

    A request has `input` prompt tokens, `cached` of them in the prefix cache, and an answer of `output` tokens.
    `context`: mean number of tokens in the cache of a request that decodes.
    """

    rate: Count
    input: Count
    output: Count
    context: Count
    cached: Count = 0


def server_spending(
    asked: Setup, load: SteadyLoad, tpot: Count, replicas: Count = 1, drafting: Drafting | None = None
) -> Spending:
    """Energy and money per second of `replicas` deployments that do both phases. `tpot`: seconds per token.

    Each phase takes the time of its kernels; time between kernels counts as decoding, which has most of the steps. A
    group decodes b = rate·(output − 1)·tpot requests at once, in 1 / tpot steps per second at the mean context. A
    prompt takes the difference between a step with it and one without, or a step of its own where the engine does not
    mix phases, and the work of encoding its images. With `drafting` there are fewer steps, which verify drafts, and the
    drafts are proposed before each.
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
    prompts = (least_busy(mixed) + encoded_busy(asked)).times(each * ranks)
    answers = step.times(each * steps / running * ranks)
    if drafting is not None:
        answers = verified_busy(asked, drafting, decodes, context).times(groups * each * steps / running)
        prompts = prompts + drafting.prompt_work(load.cached, load.input - load.cached).times(load.rate)
    awake = least(1.0, each * (load.output - 1) * tpot) * ranks
    answers = dataclass_replace(answers, running=most(answers.running, awake - prompts.running))
    costs = shared(asked, chips, 1.0, prompts, answers)
    return Spending(*costs, 1.0, load.rate * load.input, load.rate * load.output)


def encoded_busy(asked: Setup) -> Busy:
    """Work of the units of each chip that encodes the images and sound of one request."""
    images = asked.seen
    if images is None or not images.encoded:
        return Busy()
    seen, text = encoded_beside(asked.plan, images)
    return least_busy(busy_of(seen) + busy_of(text).times(-1.0))


def verified_busy(asked: Setup, drafting: Drafting, decodes: Count, context: Count) -> Busy:
    """Work of all chips of a group together for a step that verifies drafts, and for proposing these."""
    width = drafting.width
    every = replace(decode(1, 1, new=width), (Queries(context, width, decodes),))  # each of its tokens has logits
    return busy_of(asked.plan.total(every)).times(ranks_of(asked)) + drafting.work(decodes, context)


@dataclass(frozen=True)
class PhasePool:
    """`replicas` deployments of one phase, whose steps hold `sequences` sequences of a group.

    `awake`: share of the time in which a deployment has a step under way.
    """

    asked: Setup
    replicas: Count
    sequences: Count
    awake: Count


def pools_spending(first: PhasePool, then: PhasePool, load: SteadyLoad, drafting: Drafting | None = None) -> Spending:
    """What a prefill pool and a decode pool spend per second.

    A batch of prompts is a step of its own, in which their images are encoded too. Every token of an answer takes part
    in a decode step, the first included, since the decode pool computes a prompt's last token once more. With
    `drafting` there are fewer of these steps.
    """
    new, context = load.input - load.cached, load.context
    batch = step_busy(first.asked.plan, Queries(load.cached, new, first.sequences))
    batch = batch + encoded_busy(first.asked).times(first.sequences)
    if drafting is None:
        steps: Count = load.output
        step = step_busy(then.asked.plan, Queries(context, 1, then.sequences)).times(ranks_of(then.asked))
    else:
        steps, step = drafting.steps(load.output), verified_busy(then.asked, drafting, then.sequences, context)
    prompts = _pool_cost(first, batch.times(load.rate / first.sequences * ranks_of(first.asked)))
    answers = _pool_cost(then, step.times(load.rate * steps / then.sequences))
    return Spending(prompts, answers, 1.0, load.rate * load.input, load.rate * load.output)


def _pool_cost(pool: PhasePool, work: Busy) -> Cost:
    """Cost of one second of a pool whose chips together do this work."""
    asked, chips = pool.asked, pool.asked.layout.chips * pool.replicas
    paid = tariff(asked.deployment.chip, asked.bill)
    return Cost(chips, 1.0, paid, busy=dataclass_replace(work, running=most(work.running, pool.awake * chips)))


def rounded(value: Count) -> Any:
    """The nearest whole number, at least one; halves are rounded down, to within an error of rounding."""
    if is_array(value):
        return np.maximum(1, np.floor(value + HALF)).astype(np.int64)
    return max(1, int(value + HALF))
