"""The rank of a given plan in a search, or the limit that rejects it."""

from __future__ import annotations

import numpy as np

from roofline.declared.checks import count
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import LIMITED
from roofline.declared.question import Settings
from roofline.layout.layout import Layout, layout_named
from roofline.whatif.query.figures import OBJECTIVES
from roofline.whatif.search.search import Search
from roofline.whatif.search.serving.plans import Group, PlanPlace, ServingPlan, Site, unanswered

REPLICAS, PREFILLS = ("replicas", "layout"), ("prefills", "prefill_layout")
KEYS = (*REPLICAS, *PREFILLS, "concurrency")
"""Keys of a plan; without prefills, replicas do both phases."""
ALONE = Layout().text()


def rank_plan(s: Search, given: str | Settings) -> PlanPlace:
    """Rank a plan such as `prefills=5,prefill_layout=tp=4,replicas=3,layout=tp=4,concurrency=192` in a search.

    The plan serves the search's load; if there is none, `concurrency` requests in total. Raises InputError for an
    invalid plan, for a load where the search has one, and for a search of several machines, formats or engines.
    """
    if len(s.space.sites) > 1:
        raise InputError("plan", str(given), "a search of one machine, precision and engine")
    asked = _asked(given) if isinstance(given, str) else dict(given)
    for name in asked:
        if name not in KEYS:
            raise not_one_of("plan", name, KEYS)
    flight = None if s.demand.concurrency is None else int(s.demand.concurrency)
    if s.demand.given:
        if "concurrency" in asked:
            raise InputError("plan", f"concurrency={asked['concurrency']}", "none, as the demand has a load")
    else:
        flight = count("plan concurrency", _number(asked, "concurrency"), 1)
    site = s.space.sites[0]
    group = _group(site, asked, *REPLICAS)
    first = _group(site, asked, *PREFILLS) if set(PREFILLS) & set(asked) else None
    return _judged(s, unanswered(s.space.model, s.demand, s.limits, (group, first), flight or 1, s.space.images))


def _judged(s: Search, blank: ServingPlan) -> PlanPlace:
    if blank.chips > s.space.chips:
        return PlanPlace(blank, None, len(s.looked.plans), f"{blank.chips} chips of {s.space.chips}")
    try:
        answer = blank.evaluated()
    except InputError as error:
        if error.field != "rate":
            raise
        return PlanPlace(blank, None, len(s.looked.plans), f"a rate beyond {error.expected}")
    plan = blank.answered(answer)
    over = [] if np.all(answer.fits) else ["memory, which holds not one request"]
    if blank.prefill is None and plan.concurrency > plan.capacity >= 1:
        over.append(f"{plan.concurrency} in flight with {plan.capacity} places")
    used = s.limits.shares(plan.limited)
    over += [
        f"{name} at {100 * share:.0f} % of its limit" for name, share in zip(LIMITED, used, strict=True) if share > 1
    ]
    if not over and not plan.keeps:
        over.append(f"{100 * plan.attained:.1f} % of requests keep the limits")
    if over:
        return PlanPlace(plan, None, len(s.looked.plans), "; ".join(over))
    aim = OBJECTIVES[s.objective]
    mine = aim.least(plan)
    better = sum(aim.least(p) < mine - 1e-9 * abs(mine) for p in s.looked.plans)
    return PlanPlace(plan, 1 + better, len(s.looked.plans), "")


def _group(site: Site, asked: Settings, number: str, layout: str) -> Group:
    spelled = asked.get(layout, ALONE)
    replicas = count(f"plan {number}", _number(asked, number), 1)
    return Group(site, Layout() if spelled == ALONE else layout_named(spelled), replicas)


def _number(asked: Settings, name: str) -> int:
    value = asked.get(name)
    if value is None:
        raise InputError("plan", ", ".join(asked) or "nothing", f"a plan with {name}")
    try:
        return int(value)
    except ValueError:
        raise InputError(f"plan {name}", value, "a whole number") from None


def _asked(text: str) -> dict[str, str]:
    """Parse a plan. Words that are not keys continue the layout before them."""
    asked: dict[str, str] = {}
    last = ""
    for word in text.split(","):
        name, _, value = (part.strip() for part in word.partition("="))
        if last in (REPLICAS[1], PREFILLS[1]) and name not in KEYS:
            asked[last] += f",{word.strip()}"
            continue
        if name in asked:
            raise InputError("plan", name, "each word once")
        asked[name], last = value, name
    return asked
