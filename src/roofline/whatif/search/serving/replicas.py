"""Aggregated replicas: the most requests in flight, or the fewest replicas, that keep the limits.

Times come from the server behind `serve`, for all layouts at once. In a closed loop it is evaluated on a grid of
concurrencies, then between the best that keeps the limits and its neighbour. At a rate, all numbers of replicas are
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import Load
from roofline.declared.numbers.arrays import Array
from roofline.serving.server import Serving, answers_are_followed
from roofline.whatif.search.demand import Limits
from roofline.whatif.search.serving.plans import Group, PlanTimes, ServingPlan, Site, part, plan_times
from roofline.whatif.search.serving.space import Looked, ReplicaKinds, SiteSpace

NUMBERS, FINER = 48, 16
"""Grid points over concurrency or replicas: first over the whole range, then between neighbours."""
WIDTH, MOST_NUMBERS = 2**13, 2**19
"""Numbers of replicas at a rate: evaluated at once, and in total."""
IDLE = 1000
"""More replicas than this multiple of the minimum do not shorten any time."""


@dataclass(frozen=True)
class _Question:
    """Replicas of one site under a load. `faster`: use as many as there is room for. `looser`: limits of replicas that
    `serve` follows, None where these are the same."""

    space: SiteSpace
    site: Site
    demand: Load
    limits: Limits
    faster: bool
    looser: Limits | None = None

    def plan(self, kinds: ReplicaKinds, i: int, several: tuple[int, int], times: PlanTimes, rate: float) -> ServingPlan:
        """The plan of the i-th layout, with numbers of replicas and of requests in flight in total."""
        replicas, flight = several
        group = Group(self.site, kinds.degrees.one(i), replicas)
        capacity = int(kinds.capacity[i]) * replicas
        return ServingPlan(
            self.space.model, self.demand, self.limits, group, None, flight, capacity, *times[:3], rate,
            longer=times[3], images=self.space.images,
        )  # fmt: skip

    def used(self, s: Serving) -> Array:
        """How much of the limits an answer uses."""
        load, means = self.demand, (s.ttft, s.tpot, s.latency)
        used = self.limits.used(means, s.percentiles)
        if self.looser is None:
            return used
        in_step = s.asked.layout.in_step
        closed, law, mixes = load.rate is None, s.asked.plan.target.mode, s.asked.engine.mixes
        followed = answers_are_followed(load.output_tokens, in_step, load, closed, drafts=False, law=law, mixes=mixes)
        return np.where(followed, self.looser.used(means, s.percentiles), used)


def aggregated(
    space: SiteSpace, site: Site, demand: Load, limits: Limits, faster: bool = False, looser: Limits | None = None
) -> Looked:
    """Every layout of a replica, with as many replicas as there is room for or as the load needs.

    Without a load: the most requests in flight within the limits, on all chips. With a load: the fewest replicas that
    keep the limits, or with `faster` the most that there is room for. `looser`: limits of replicas that are followed.
    """
    asked, fitting = _Question(space, site, demand, limits, faster, looser), space.replicas(site, demand)
    ways = _arriving if demand.rate is not None else _always
    plans, deployments, considered, missed, unseen = list[ServingPlan](), 0, 0, 0, 0
    for kinds in fitting.kinds:
        most = space.room(site) // kinds.degrees.chips
        looked = ways(asked, kinds, most)
        plans += looked.plans
        deployments, considered = deployments + looked.deployments, considered + looked.considered
        missed += len(kinds.degrees) - len({plan.group.layout for plan in looked.plans})
        unseen += looked.unseen
        space.clock.counts(looked.considered)
    reasons = {"memory": fitting.unfit, "limits": missed}
    left_out = tuple((reason, n) for reason, n in reasons.items() if n)
    return Looked(tuple(plans), deployments, considered, left_out, unseen, None if unseen else 1.0)


def lightest(space: SiteSpace, site: Site, demand: Load, limits: Limits) -> tuple[ServingPlan, ...]:
    """Every layout under the lightest load: one request per replica, or the load on as many replicas as possible.

    At a rate, only layouts that sustain it.
    """
    asked, plans = _Question(space, site, demand, limits, True), list[ServingPlan]()
    for kinds in space.replicas(site, demand).kinds:
        most = space.room(site) // kinds.degrees.chips
        if demand.rate is not None:
            rates, fastest = demand.rate / most, np.broadcast_to(np.asarray(kinds.server.fastest), (len(most), 1))[:, 0]
            taken, several = rates < fastest, most
            s = kinds.server.at_rate(np.minimum(rates, fastest * (1 - 1e-9))[:, np.newaxis], turns=most[:, np.newaxis])
        else:
            several = most if demand.concurrency is None else np.minimum(most, int(demand.concurrency))
            each = np.ones(len(most)) if demand.concurrency is None else demand.concurrency / several
            taken = np.ceil(each) <= kinds.capacity
            s = kinds.server.at(each[:, np.newaxis])
        for i in map(int, np.flatnonzero(taken)):
            replicas, times = int(several[i]), plan_times(s, i)
            flight = replicas * part(s.in_flight, i) if demand.concurrency is None else int(demand.concurrency)
            rate = demand.rate if demand.rate is not None else part(s.requests_per_second, i) * replicas
            plans.append(asked.plan(kinds, i, (replicas, round(flight)), times, float(rate)))
    return tuple(plans)


# -- closed loop ---------------------------------------------------------------------------------------------------
def _always(asked: _Question, kinds: ReplicaKinds, most: Array) -> Looked:
    """A closed loop: the given concurrency, or the highest that keeps the limits."""
    demand, capacity = asked.demand, kinds.capacity[:, np.newaxis]
    if demand.concurrency is None:
        highest, deployments = kinds.capacity, int(np.sum(most))

        def users(numbers: Array) -> Array:
            return numbers
    else:  # index n stands for `highest` + 1 − n replicas, so that more requests per replica come last
        total = int(demand.concurrency)
        highest = np.minimum(most, total)
        deployments = int(np.sum(highest))

        def users(numbers: Array) -> Array:
            return np.asarray(total / (highest[:, np.newaxis] + 1 - numbers))

    def keeps(numbers: Array) -> Array:
        s = kinds.server.at(users(numbers))
        return np.asarray((asked.used(s) <= 1) & (np.ceil(users(numbers)) <= capacity))

    spare = asked.faster and demand.concurrency is not None
    last, considered = _last(keeps, np.ones_like(highest) if spare else highest)
    if not np.any(last):
        return Looked((), deployments, considered)
    number = np.maximum(last, 1)[:, np.newaxis]
    answer = kinds.server.at(users(number))
    plans = []
    for i in map(int, np.flatnonzero(last)):
        replicas = int(most[i]) if demand.concurrency is None else int(highest[i] + 1 - last[i])
        in_all = int(last[i]) * replicas if demand.concurrency is None else int(demand.concurrency)
        times = plan_times(answer, i)
        plans.append(asked.plan(kinds, i, (replicas, in_all), times, part(answer.requests_per_second, i) * replicas))
    return Looked(tuple(plans), deployments, considered)


def _last(keeps: Callable[[Array], Array], highest: Array) -> tuple[Array, int]:
    """The last number from 1 to `highest` that keeps the limits, 0 where none does; and how many were evaluated.

    Times need not grow with the number. Each layout is evaluated on a grid, then between the last number that keeps the
    limits and the next one, until these are adjacent. `keeps` takes numbers [layouts, …].
    """
    low, high, considered = np.zeros_like(highest), highest + 1, 0
    while np.any(high - low > 1):
        count = FINER if considered else NUMBERS
        open_ = high - low > 1
        start, end = np.where(open_, low + 1, 1), np.where(open_, high - 1, 1)
        ratio = (end / start)[:, np.newaxis] ** np.linspace(0, 1, count)
        numbers = np.clip(np.rint(start[:, np.newaxis] * ratio), start[:, np.newaxis], end[:, np.newaxis])
        numbers = numbers.astype(np.int64)
        kept = keeps(numbers) & open_[:, np.newaxis]
        considered += int(sum(len(np.unique(row)) for row in numbers[open_]))
        best = np.where(kept, numbers, low[:, np.newaxis]).max(axis=1)
        beyond = np.where(numbers > best[:, np.newaxis], numbers, high[:, np.newaxis])
        low, high = best, beyond.min(axis=1)
    return low, considered


# -- open loop -----------------------------------------------------------------------------------------------------
def _arriving(asked: _Question, kinds: ReplicaKinds, most: Array) -> Looked:
    """Random arrivals at a rate, by the closed form: every number of replicas of every layout, in pieces.

    A layout is evaluated up to the first number that keeps the limits, to the end of its piece, and no further than
    where its replicas are busy 1 / `IDLE` of the time; with `faster` only at that number, and no further than the
    time of the search. Raises InputError for more than `MOST_NUMBERS` numbers.
    """
    server, rate, layouts = kinds.server, float(asked.demand.rate or 0), len(most)
    fastest = np.broadcast_to(np.asarray(server.fastest), (layouts, 1))
    needed = rate / fastest[:, 0]
    last = np.minimum(most, np.maximum(WIDTH, IDLE * np.ceil(needed)).astype(np.int64))
    width, start, considered = max(1, WIDTH // layouts), 1, 0
    first: dict[int, ServingPlan] = {}
    unseen = 0
    while True:
        open_ = [i for i in range(layouts) if i not in first and last[i] >= start]
        if asked.faster:
            open_ = open_ if start == 1 else []
        if start > 1 and open_:
            start = max(start, int(min(needed[open_])))
            open_ = [i for i in open_ if last[i] >= start]
        if not open_:
            break
        if considered and asked.space.clock.is_over:
            unseen = int(sum(last[i] - start + 1 for i in open_))
            break
        if considered > MOST_NUMBERS:
            expected = f"fewer, or layouts that keep the limits: {considered:,} numbers of replicas did not"
            raise InputError("chips", asked.space.chips, expected)
        end = min(start + width, int(last[open_].max()) + 1)
        replicas = np.minimum(np.arange(start, end), last[:, np.newaxis])
        if asked.faster:
            replicas = last[:, np.newaxis]
        rates = rate / replicas
        s = server.at_rate(np.minimum(rates, fastest * (1 - 1e-9)), turns=replicas)
        keeps = (asked.used(s) <= 1) & (rates < fastest)
        considered += layouts if asked.faster else int(np.sum(np.maximum(0, np.minimum(end - 1, last) - start + 1)))
        for i in open_:
            j = int(np.argmax(keeps[i]))
            if keeps[i, j]:
                at, number = i * replicas.shape[1] + j, int(replicas[i, j])
                times = plan_times(s, at)
                first[i] = asked.plan(kinds, i, (number, part(s.in_flight, at) * number), times, rate)
        start = end
    return Looked(tuple(first[i] for i in sorted(first)), int(np.sum(most)), considered, unseen=unseen)
