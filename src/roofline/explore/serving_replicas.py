"""Replicas that do both phases: the most requests in flight, or the fewest replicas, that keep the limits.

Where requests are always as many they are followed from step to step, as `serve` does it: each number that is looked at
takes about 2 ms. At a rate the closed form looks at all numbers of replicas, and the best are followed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import Load
from roofline.distinct import Array
from roofline.estimates.server import Server
from roofline.estimates.settings import setup
from roofline.estimates.span import Span
from roofline.explore.demand import Limits
from roofline.explore.serving_plans import Group, ServingPlan, Site, part
from roofline.explore.serving_space import Looked, ReplicaKinds, SiteSpace

LOADS = 8
"""Numbers of requests in flight at which a layout is looked at first; then between the last that keeps the limits and
the next."""
CERTAINLY = 1.05
"""Share of a limit of TPOT or latency beyond which more in flight keep it no more; TTFT may fall again, where requests
then come in other groups."""


WIDTH, MOST_NUMBERS = 2**13, 2**19
"""Numbers of replicas at a rate that are looked at together, and in all."""
IDLE = 1000
"""Times as many replicas as a rate takes, beyond which more of them shorten nothing."""


@dataclass(frozen=True)
class _Question:
    """Replicas of one site under a demand."""

    space: SiteSpace
    site: Site
    demand: Load
    limits: Limits

    def plan(
        self, kinds: ReplicaKinds, i: int, several: tuple[int, int], times: tuple[Span, Span], rate: float
    ) -> ServingPlan:
        """The i-th layout, so many replicas of it with so many requests in flight in all."""
        replicas, flight = several
        group = Group(self.site, kinds.degrees.one(i), replicas)
        capacity = int(kinds.capacity[i]) * replicas
        return ServingPlan(
            self.space.model, self.demand, self.limits, group, None, flight, capacity, times[0], times[1], rate,
            formula=self.demand.rate is not None,
        )  # fmt: skip


def aggregated(space: SiteSpace, site: Site, demand: Load, limits: Limits) -> Looked:
    """Every layout of a replica, as many replicas as there is room for or as the load needs.

    Without a load: the most requests in flight within the limits, on all chips. With one: the fewest replicas that keep
    the limits.
    """
    asked, fitting = _Question(space, site, demand, limits), space.replicas(site, demand)
    ways = _arriving if demand.rate is not None else _always
    plans, deployments, considered, missed = list[ServingPlan](), 0, 0, 0
    for kinds in fitting.kinds:
        most = space.room(site) // kinds.degrees.chips
        looked = ways(asked, kinds, most)
        plans += looked.plans
        deployments, considered = deployments + looked.deployments, considered + looked.considered
        missed += len(kinds.degrees) - len({plan.group.layout for plan in looked.plans})
    reasons = {"memory": fitting.unfit, "limits": missed}
    return Looked(tuple(plans), deployments, considered, tuple((reason, n) for reason, n in reasons.items() if n))


# -- always so many ------------------------------------------------------------------------------------------------
def _always(asked: _Question, kinds: ReplicaKinds, most: Array) -> Looked:
    """So many requests are always in flight, or as many as keep the limits."""
    demand = asked.demand
    total = None if demand.concurrency is None else int(demand.concurrency)
    loads = [_Loads(asked, kinds, i) for i in range(len(kinds.degrees))]
    if total is None:
        flights = np.array([load.most() for load in loads])
        replicas = most
        deployments = int(np.sum(most))
    else:
        replicas = np.array([load.fewest(int(most[i]), total) for i, load in enumerate(loads)])
        flights = -(-total // np.maximum(replicas, 1)) * (replicas > 0)
        deployments = sum(min(int(n), total) for n in most)
    considered = sum(len(load.known) for load in loads)
    if not np.any(flights):
        return Looked((), deployments, considered)
    answer = kinds.server.together(np.maximum(flights, 1)[:, np.newaxis])
    plans = []
    for i in map(int, np.flatnonzero(flights)):
        number, flight = int(replicas[i]), int(flights[i])
        in_all = flight * number if total is None else total
        times = (part(answer.ttft, i), part(answer.tpot, i))
        rate = part(answer.requests_per_second, i) * number
        if total is not None:
            rate = total / float((times[0] + times[1].times(demand.output_tokens - 1)).expected)
        plans.append(asked.plan(kinds, i, (number, in_all), times, rate))
    return Looked(tuple(plans), deployments, considered)


@dataclass(frozen=True)
class _Loads:
    """A layout at numbers of requests in flight, each of which is followed once."""

    asked: _Question
    kinds: ReplicaKinds
    i: int
    known: dict[int, Array] = field(default_factory=dict)

    def used(self, number: int) -> Array:
        """How much of each limit is used with so many requests of a replica, [3]; all is too much without places."""
        if number not in self.known:
            places = number <= self.kinds.capacity[self.i]
            self.known[number] = self._shares(number) if places else np.full(3, np.inf)
        return self.known[number]

    def keeps(self, number: int) -> bool:
        """Whether that is within all."""
        return bool(self.used(number).max() <= 1)

    def _shares(self, number: int) -> Array:
        limits, more = self.asked.limits, self.asked.demand.output_tokens - 1
        if limits.strict:
            s = self._alone.together(number)
            return limits.spans(s.ttft, s.tpot, s.latency)
        ttft, tpot = self.kinds.looped(self.i, number)
        return limits.shares(ttft, tpot, ttft + more * tpot)

    @cached_property
    def _alone(self) -> Server:
        """The server of this layout alone, which gives intervals."""
        whole, layout = self.kinds.server, self.kinds.degrees.one(self.i)
        asked = setup(self.asked.space.model, layout=layout, **self.asked.site.settings)
        return replace(whole, asked=asked, axes=0)

    def most(self) -> int:
        """The most that keep the limits, by halving between the last of a few numbers that does and the next; or 0."""
        capacity = int(self.kinds.capacity[self.i])
        last, high = 0, capacity + 1
        for number in sorted({round(capacity ** (j / (LOADS - 1))) for j in range(LOADS)}):
            used = self.used(number)
            if used.max() <= 1:
                last, high = number, capacity + 1
            else:
                high = min(high, number)
            if used[1:].max() > CERTAINLY:
                break
        return _last(self.keeps, last, high) if last else 0

    def fewest(self, replicas: int, total: int) -> int:
        """The fewest replicas that keep the limits with so many requests in all, of so many replicas; or 0."""
        most = min(replicas, total)
        if not self.keeps(-(-total // most)):
            return 0
        return most - _last(lambda fewer: self.keeps(-(-total // (most - fewer))), 0, most)


def _last(keeps: Callable[[int], bool], low: int, high: int) -> int:
    """The last number that keeps the limits: `low` does, `high` does not or is not asked."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


# -- at a rate -----------------------------------------------------------------------------------------------------
def _arriving(asked: _Question, kinds: ReplicaKinds, most: Array) -> Looked:
    """So many requests a second, at random, by the closed form: every number of replicas of every layout, in pieces.

    A layout is looked at up to the first number that keeps the limits, to the end of its piece, and no further than
    where its replicas are busy for 1 / `IDLE` of the time. Raises InputError for more numbers than `MOST_NUMBERS`.
    """
    server, rate, layouts = kinds.server, float(asked.demand.rate or 0), len(most)
    fastest = np.broadcast_to(np.asarray(server.fastest), (layouts, 1))
    needed = rate / fastest[:, 0]
    last = np.minimum(most, np.maximum(WIDTH, IDLE * np.ceil(needed)).astype(np.int64))
    width, start, considered = max(1, WIDTH // layouts), 1, 0
    first: dict[int, ServingPlan] = {}
    while True:
        open_ = [i for i in range(layouts) if i not in first and last[i] >= start]
        if start > 1 and open_:
            start = max(start, int(min(needed[open_])))
            open_ = [i for i in open_ if last[i] >= start]
        if not open_:
            break
        if considered > MOST_NUMBERS:
            expected = f"fewer, or layouts that keep the limits: {considered:,} numbers of replicas did not"
            raise InputError("chips", asked.space.chips, expected)
        end = min(start + width, int(last[open_].max()) + 1)
        replicas = np.minimum(np.arange(start, end), last[:, np.newaxis])
        rates = rate / replicas
        s = server.at_rate(np.minimum(rates, fastest * (1 - 1e-9)), formula=True)
        keeps = (asked.limits.spans(s.ttft, s.tpot, s.latency).max(axis=0) <= 1) & (rates < fastest)
        considered += int(np.sum(np.maximum(0, np.minimum(end - 1, last) - start + 1)))
        for i in open_:
            j = int(np.argmax(keeps[i]))
            if keeps[i, j]:
                at, number = i * replicas.shape[1] + j, int(replicas[i, j])
                times = (part(s.ttft, at), part(s.tpot, at))
                first[i] = asked.plan(kinds, i, (number, part(s.in_flight, at) * number), times, rate)
        start = end
    return Looked(tuple(first[i] for i in sorted(first)), int(np.sum(most)), considered)


def followed(plan: ServingPlan, room: int) -> ServingPlan | None:
    """The same plan at its rate with requests that are followed, and as many more replicas as that takes, if it does.

    None where the `room` of so many chips does not suffice.
    """
    group, rate = plan.group, plan.demand.rate
    if plan.prefill is not None or rate is None or not plan.formula:
        return plan
    for replicas in range(group.replicas, room // int(group.layout.chips) + 1):
        more = replace(plan, group=replace(group, replicas=replicas), formula=False)
        s = more.evaluated()
        if plan.limits.spans(s.ttft, s.tpot, s.latency).max() <= 1:
            each = plan.capacity // group.replicas
            return replace(more, ttft=s.ttft, tpot=s.tpot, concurrency=s.in_flight * replicas, capacity=each * replicas)
    return None
