"""Plans of a space of ways to serve that keep limits, by how good they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from roofline.declared.groups import Load
from roofline.explore.demand import Limits
from roofline.explore.serving_plans import ServingPlan
from roofline.explore.serving_pools import disaggregated, pool_pairs
from roofline.explore.serving_replicas import aggregated, followed
from roofline.explore.serving_space import Looked, SiteSpace, all_looked

MOST_FOLLOWED = 64
"""Ways at a rate whose requests are followed at most."""


def plans_to_look_at(space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str]) -> int:
    """Layouts × numbers of replicas, and splits of two pools, counted before any of them is built or worked out.

    Raises InputError for more layouts, or pairs of them, than a search takes.
    """
    number = 0
    for site in space.sites:
        if "aggregated" in kinds:
            fitting = space.replicas(site, demand)
            number += sum(int((space.room(site) // k.degrees.chips).sum()) for k in fitting.kinds)
        for prefill in space.sites if "disaggregated" in kinds else ():
            if prefill.how.id == site.how.id and prefill.where.precision == site.where.precision:
                pairs = pool_pairs(space, (prefill, site), demand, limits)
                number += sum(pair.splits.number for pair in pairs)
    return number


def ranked_plans(
    space: SiteSpace,
    demand: Load,
    limits: Limits,
    kinds: Sequence[str],
    aim: Callable[[ServingPlan], tuple[float, ...]],
    top: int = 1,
) -> tuple[list[ServingPlan], Looked]:
    """What keeps the limits, the least of an aim first, and all that was looked at.

    At a rate requests of the `top` ways are followed, as `serve` does; the others' times are the closed form's.
    """
    looked = all_looked(list(_looked(space, demand, limits, kinds)))
    return _followed(sorted(looked.plans, key=aim), space, aim, top), looked


def _followed(
    ranked: list[ServingPlan], space: SiteSpace, aim: Callable[[ServingPlan], tuple[float, ...]], top: int
) -> list[ServingPlan]:
    """The ranking, with requests of the best few followed, of which some then need more replicas or are no plan."""
    for _ in range(MOST_FOLLOWED):
        first = next((p for p in ranked[:top] if p.formula and p.prefill is None), None)
        if first is None:
            break
        better = followed(first, space.room(first.group.site))
        others = [p for p in ranked if p is not first]
        ranked = sorted(others if better is None else [*others, better], key=aim)
    return ranked


def _looked(space: SiteSpace, demand: Load, limits: Limits, kinds: Sequence[str]) -> Iterator[Looked]:
    for site in space.sites:
        if "aggregated" in kinds:
            yield aggregated(space, site, demand, limits)
        for prefill in space.sites if "disaggregated" in kinds else ():
            if prefill.how.id == site.how.id:
                yield disaggregated(space, prefill, site, demand, limits)
