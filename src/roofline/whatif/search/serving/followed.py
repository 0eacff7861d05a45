"""Plans of servers that are followed: as many requests in flight, or as few replicas, as keep the limits then.

A search looks at all plans by the formula, which takes arrays. `serve` follows servers of short answers step by step,
and at a rate the prefill pool. The best of those by the formula are therefore looked at again.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.groups import Load
from roofline.kernels.target import mode_named
from roofline.serving.replications import neighbouring_users
from roofline.serving.server import FIRST_IN_STEP, answers_are_followed
from roofline.whatif.query.figures import Aim
from roofline.whatif.search.serving.plans import Group, ServingPlan, error_of, simplicity
from roofline.whatif.search.serving.space import SiteSpace

LOOKED = 8
"""Numbers that are tried of a plan at most, before those between the last two."""
MORE_PREFILLS = 2
"""Prefill replicas that are tried on top of those that are enough by the formula."""
BETTER = 0.8
"""Share of the best plan's score, by the formula, from which a plan is looked at again: it may be the best."""
FEW = 5
"""Plans that are listed below which all that are within the error of the best are looked at again all the same."""
PlanOrder: TypeAlias = tuple[float, ...]
"""A plan's place among others: its objective, its simplicity, and the probability of missing the limits."""


@dataclass(frozen=True)
class _Tried:
    """A plan whose number of replicas, or of requests in flight of each, is free; `space` says how many chips.

    `faster`: under a load it has as many replicas as there is room for.
    """

    space: SiteSpace
    plan: ServingPlan
    faster: bool

    def at(self, number: int) -> ServingPlan | None:
        """The plan with so many requests in flight of each replica, or on so many replicas; None where that keeps no
        limit or is more than there is."""
        plan = self.plan
        if plan.demand.given:
            group = replace(plan.group, replicas=number)
            if number < 1 or group.chips > self.space.room(group.site):
                return None
            plan = replace(plan, group=group)
        else:
            plan = replace(plan, concurrency=number * plan.replicas)
        try:
            plan = plan.answered(plan.evaluated())
        except InputError:  # a rate beyond what it can take
            return None
        return plan if plan.keeps and plan.concurrency <= plan.capacity else None

    def best(self) -> ServingPlan | None:
        """The plan with the most requests in flight, or the fewest replicas, that keep the limits."""
        if self.plan.demand.given and self.faster:
            return self.at(self.plan.replicas)
        if self.plan.demand.given:
            return self._fewest(self.plan.replicas)
        return self._most(self.plan.concurrency // self.plan.replicas)

    def _fewest(self, number: int) -> ServingPlan | None:
        kept = self.at(number)
        for _ in range(LOOKED):
            following = self.at(number - 1 if kept is not None else number + 1)
            if kept is not None and following is None:
                return kept
            number += -1 if kept is not None else 1
            if kept is None and following is not None:
                return following
            kept = following if kept is not None else None
        return kept

    def _most(self, number: int) -> ServingPlan | None:
        most = self.plan.capacity // self.plan.replicas
        tried = max(1, known_numbers(self.plan, number)[0])
        kept, low, high = self.at(tried), 0, most + 1
        for _ in range(LOOKED):  # the limit is between `low` and `high`
            low, high = (max(low, tried), high) if kept is not None else (low, min(high, tried))
            below, above = known_numbers(self.plan, tried)
            tried = min(above, most) if kept is not None else below - (below == tried)
            if not low < tried < high:
                break
            again = self.at(tried)
            if (again is None) != (kept is None):
                low, high = (low, tried) if again is None else (tried, high)
                kept = kept or again
                break
            kept = again
        while kept is not None and high - low > 1 and high <= known_numbers(self.plan, low)[1]:
            between = self.at((low + high) // 2)
            low, high = ((low + high) // 2, high) if between is not None else (low, (low + high) // 2)
            kept = between or kept
        return kept


def answers_may_be_followed(demand: Load) -> bool:
    """Whether `serve` follows aggregated replicas of some layout under a load, with a number of users or at a rate."""
    return int(demand.output_tokens) <= FIRST_IN_STEP


def may_be_followed(demand: Load) -> bool:
    """Whether `serve` follows aggregated replicas of some layout under a load, or `pools` the prefill pool."""
    return answers_may_be_followed(demand) or demand.rate is not None


def is_followed(plan: ServingPlan) -> bool:
    """Whether the replicas of an aggregated plan, or the prefill pool of two, are followed step by step."""
    load, layout, law = plan.demand, plan.group.layout, mode_named(plan.group.site.where.law)
    if plan.prefill is not None:
        return load.rate is not None
    tokens, in_step, mixes = load.output_tokens, layout.in_step, plan.group.site.how.mixes
    return bool(answers_are_followed(tokens, in_step, load, load.rate is None, drafts=False, law=law, mixes=mixes))


def plan_order(aim: Aim, plan: ServingPlan) -> PlanOrder:
    """Sort key of plans: the best for an objective first, then the simplest."""
    return aim.least(plan), *simplicity(plan)


def known_numbers(plan: ServingPlan, number: int) -> tuple[int, int]:
    """The numbers of requests in flight of a replica, next to this one, between which its figures are linear."""
    layout = plan.group.layout
    stages, ranks = int(layout.pp), int(layout.in_step)
    if number < stages:
        return number, number + 1
    low, high = neighbouring_users(number / stages, ranks, every=False)
    return low * stages, high * stages


def followed_plans(space: SiteSpace, plans: Sequence[ServingPlan], aim: Aim, number: int) -> list[ServingPlan]:
    """The plans with the figures of `serve` within the limits, the best first.

    Plans that are not followed have them already. Of the others those are looked at, while there is time, that may be
    among the first `number`, all that may be the best, and the first of each machine. Others are left out.
    """
    kept, ranks, machines = list[ServingPlan](), list[PlanOrder](), set[str]()
    best, known, least = 0.0, set[tuple[Group, ...]](), BETTER
    for plan in plans:
        last = ranks[number - 1 :]
        if (
            kept
            and is_followed(plan)
            and (space.clock.is_over or not _may_rank(plan, aim, last, best, machines, least))
        ):
            continue
        again = _again(space, plan, aim)
        if again is None or again.groups in known:
            continue
        kept.append(again)
        insort(ranks, plan_order(aim, again))
        machines.add(again.on)
        known.add(again.groups)
        if _score(aim, again) > best:
            best = _score(aim, again)
            least = BETTER if number >= FEW else BETTER * (1 - error_of(again))
    return sorted(kept, key=lambda plan: plan_order(aim, plan))


def _may_rank(
    plan: ServingPlan, aim: Aim, last: Sequence[PlanOrder], best: float, machines: Set[str], least: float
) -> bool:
    """Whether a plan by the formula may be the best, the first of its machine, or before the `last` one that is listed.
    `least`: share of the best one's score by the formula from which it may matter.

    Following changes the chance that limits hold, and TTFT; a pool only gets more replicas. Short answers change all.
    """
    if not last or plan.on not in machines:
        return True
    if plan.prefill is None or aim.figure == "latency":
        return _score(aim, plan) >= least * best
    return plan_order(aim, plan)[:-1] <= last[0][:-1]


def _again(space: SiteSpace, plan: ServingPlan, aim: Aim) -> ServingPlan | None:
    """The plan with the figures of `serve`; None where it keeps its limits with no size that was tried."""
    if not is_followed(plan):
        return plan if plan.keeps else None
    if plan.prefill is None:
        return _Tried(space, plan, aim.faster).best()
    for replicas in range(plan.prefills, plan.prefills + MORE_PREFILLS + 1):
        more = replace(plan, prefill=replace(plan.prefill, replicas=replicas))
        if more.chips > space.together(part.site for part in more.groups):
            return None
        more = more.answered(more.evaluated())
        if more.keeps:
            return more
    return None


def _score(aim: Aim, plan: ServingPlan) -> float:
    """An objective as a number above 0 to maximise."""
    least = aim.least(plan)
    return -least if least < 0 else 1 / max(least, 1e-300)
