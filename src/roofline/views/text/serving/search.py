"""Text of a search: what was searched, and a table of the best plans."""

from __future__ import annotations

from dataclasses import replace

from roofline.declared.numbers.units import counted, percent_known, seconds
from roofline.views.text.inference.estimate import routing_lines
from roofline.views.text.serving.serve import spread_text
from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.search.demand import UnderLimits
from roofline.whatif.search.search import Search
from roofline.whatif.search.serving.plans import PlanPlace, ServingPlan

UNITS = "$/M generated: USD per million generated tokens; J/generated: joules per generated token"
"""Explanations of short headings."""


def columns(s: Search) -> tuple[Column, ...]:
    """Columns of the plans; times are those to which limits apply."""
    of = _whose(s)
    own = {"total": (Column("tokens/s", "tokens/s"),), "latency": (Column("latency", "s"),)}.get(s.objective, ())
    every = (
        Column("#"), Column("plan", long=40), Column("chips", "count", drop=6), Column("in flight", "count", drop=5),
        Column(f"TTFT{of}", "s", drop=2), Column(f"TPOT{of}", "s", drop=1), *own, Column("tokens/s/chip", "tokens/s"),
        Column("tokens/s/user", "tokens/s", drop=8), Column("$/M generated", "USD", drop=3),
        Column("J/generated", drop=9), *((Column("within", "share", drop=7),) if of else ()),
        Column("chance", "share", drop=4), Column("why not first", drop=10, long=20),
    )  # fmt: skip
    return tuple(replace(column, drop=0) if column.name == _OF.get(s.objective) else column for column in every)


_MOST = {"cost": "least", "energy": "least", "latency": "least", "chips": "fewest"}
"""Objective → a word for the best of it, where less is better."""
_OF = {
    "throughput": "tokens/s/chip", "interactivity": "tokens/s/user", "cost": "$/M generated", "energy": "J/generated",
    "chips": "chips", "total": "tokens/s", "latency": "latency",
}  # fmt: skip
"""Objective → its column, which every width shows."""


def _whose(s: Search) -> str:
    """Suffix of a time's name: the percentile that limits apply to, empty for means and without limits."""
    return f" p{100 * s.attainment:g}" if s.attainment is not None and s.limits.limits else ""


def search_text(s: Search) -> str:
    """The question, and the size of the search."""
    lines = [
        f"{s.model.name}: {s.input} in, {s.output} out, at most {counted(s.chips, 'chip')}{limits_text(s)}",
        *([f"{s.images.tokens} of the input are {s.images.text}"] if s.images else []),
        f"{s.considered:,} legal plans of {s.deployments:,} deployments; {_best_by(s)}{_law(s)}{_left_out(s)}",
        _unseen(s),
        _assumed(s),
    ]
    return "\n".join(filter(None, lines))


def answers_text(s: Search) -> str:
    """Two answers: the highest by the objective, and the simplest within its error."""
    if s.highest is None:
        return ""
    of = "TPOT (80 %) and of percentiles" if _whose(s) else "TPOT (80 %)"
    simplest = f"recommended, the simplest within {100 * (s.error or 0):.1f} % of it, the error of its {of}"
    rows = ((f"{_MOST.get(s.objective, 'highest')} {s.objective}", s.highest), (simplest, s.recommended))
    none = "none of those simulated keeps the limits"
    return "\n".join(f"{name}:\n  {none if p is None else _plan_figures(s, p)}" for name, p in rows)


def _plan_figures(s: Search, p: ServingPlan) -> str:
    return (
        f"{plan_text(p)}, {counted(p.chips, 'chip')}, {p.concurrency:,} in flight: {_times_text(s, p)}, "
        f"{p.tokens_per_second_per_chip:,.0f} tokens/s per chip, chance {100 * p.chance:.0f} %"
        f"{f'; {p.why}' if p.why else ''}"
    )


def _limited(s: Search, p: ServingPlan) -> tuple[float, float]:
    """TTFT and TPOT at the percentile of the limits; means without limits."""
    ttft, tpot, _ = p.limited if s.limits.limits else p.means
    return float(ttft.expected), float(tpot.expected)


def _times_text(s: Search, p: ServingPlan) -> str:
    ttft, tpot = map(seconds, _limited(s, p))
    of = _whose(s)
    within = f", {_within(p.attained)} of requests within the limits" if of else ""
    return f"TTFT{of} {ttft}, TPOT{of} {tpot}{within}"


def _within(share: float) -> str:
    """A share of requests, with one more digit near 100 %."""
    return f"{100 * share:.4g} %"


def nearest_text(s: Search) -> str:
    """If no plan keeps the limits: the limits that no plan keeps, and the nearest values."""
    of = _whose(s)
    when = "this load" if s.demand.given else "a request in each replica"
    rows = []
    for near in s.nearest:
        beyond = near.least > near.limit
        name = near.name.upper() if near.name != "latency" else near.name
        rows.append(
            f"  {name}{of} {'is' if beyond else 'can be'} {seconds(near.least)} at least, of {seconds(near.limit)}"
            f"{', which nothing keeps' if beyond else ''}: {plan_text(near.plan)}"
        )
    if not rows:
        return "no way to serve takes this load"
    apart = all(near.least <= near.limit for near in s.nearest)
    return "\n".join([f"{'each limit can be kept, but not all together' if apart else 'nearest'}, with {when}:", *rows])


def confirmed_text(s: Search) -> str:
    """Results of the simulations, one line each; plans that miss their limits come last."""
    numbered = [(f"#{number}", plan) for number, plan in enumerate(s.plans, 1)]
    return "\n".join(
        f"{name} simulated: TTFT {seconds(c.ttft)}, TPOT {seconds(c.tpot)}, "
        f"{c.tokens_per_second_per_chip:,.0f} tokens/s per chip; {'keeps' if c.keeps else 'misses'} the limits"
        f"{' in the mean' if s.attainment is None else ''}, "
        f"{percent_known(c.attained, c.attained_half_width)} of {c.requests:,} requests keep them"
        for name, plan in (*numbered, ("recommended", s.recommended))
        if plan is not None and (c := plan.confirmation) is not None
    )


def search_table(s: Search) -> Table:
    """The plans, best first, followed by the best plan of every other machine."""
    placed: list[tuple[int | None, ServingPlan]] = list(enumerate(s.plans, 1))
    placed += [(place.rank, place.plan) for place in s.machines if (place.rank or 0) > len(s.plans)]
    machines, formats = ({getattr(plan, name) for _, plan in placed} for name in ("on", "precision"))
    said = (f" on {next(iter(machines))}" if len(machines) == 1 else "", f"{next(iter(formats)) or ''}")
    alike = len(machines) == 1, len(formats) == 1
    rows = tuple(_row(s, number, plan, *alike) for number, plan in placed)
    title = ", ".join(filter(None, (f"plans{said[0]}", said[1] if alike[1] else "")))
    return Table(columns(s), rows, title=title if any(alike) and placed else "", name="plans")


def place_text(s: Search, place: PlanPlace) -> str:
    """Rank of a given plan."""
    p = place.plan
    told = f"{plan_text(p)}, {p.concurrency:,} in flight"
    if place.rejected:
        return f"{told}: rejected, {place.rejected}"
    rank = f"#{place.rank} of {place.of}" if place.rank != place.of + 1 else f"behind the best {place.of}"
    return f"{told}: {rank}; {_times_text(s, p)}, {p.tokens_per_second_per_chip:,.0f} tokens/s per chip"


def plan_text(p: ServingPlan) -> str:
    """A plan in words: `8 × tp=4 on h200-sxm`, or `5 × tp=4 prefill, 3 × tp=4 decode on h200-sxm`."""
    return _plan_text(p, False, False)


def _plan_text(p: ServingPlan, one_machine: bool, one_format: bool) -> str:
    """A plan without its machine or format if all plans share it."""
    on = "" if one_machine else f" on {p.on}"
    return f"{_layouts_text(p)}{on}{'' if one_format or not p.precision else f', {p.precision}'}"


def _layouts_text(p: ServingPlan) -> str:
    if p.prefill is None:
        return f"{p.replicas} × {p.layout}"
    apart = f" on {p.prefill_on}" if p.prefill_on != p.on else ""
    return f"{p.prefills} × {p.prefill_layout} prefill{apart}, {p.replicas} × {p.layout} decode"


def _row(s: Search, number: int | None, p: ServingPlan, one_machine: bool, one_format: bool) -> tuple[TableCell, ...]:
    return (
        str(number), _plan_text(p, one_machine, one_format), p.chips, p.concurrency, *_limited(s, p),
        *_own(s, p), p.tokens_per_second_per_chip, p.tokens_per_second_per_user, p.usd_per_million_tokens, _joules(p),
        *((p.attained,) if _whose(s) else ()), p.chance, p.why,
    )  # fmt: skip


def _own(s: Search, p: ServingPlan) -> tuple[TableCell, ...]:
    """The figure of an objective that has a column only where it is asked for."""
    return {"total": (p.tokens_per_second,), "latency": (float(p.latency.expected),)}.get(s.objective, ())


def _joules(p: ServingPlan) -> str:
    joules = p.joules_per_token
    return "" if joules is None else f"{float(joules):.3g}"


def limits_text(s: Search) -> str:
    """The limits after a semicolon; empty without limits."""
    said = _limits(s)
    whose = "means" if s.attainment is None else _share_text(s.attainment)
    return f"; {whose}: {', '.join(said)}{', at the far end of intervals' if s.strict else ''}" if said else ""


def limits_kept_text(a: UnderLimits) -> str:
    """Which requests keep which limits: `99 % of requests at TTFT ≤ 2 s and TPOT ≤ 50 ms`."""
    said = _limits(a)
    whose = "the means" if a.attainment is None else _share_text(a.attainment)
    return f"{whose} at {' and '.join(said)}" if said else "no limits"


def _share_text(attainment: float) -> str:
    return f"{100 * attainment:g} % of requests"


def _limits(a: UnderLimits) -> list[str]:
    named = (("TTFT", a.ttft_limit), ("TPOT", a.tpot_limit), ("latency", a.latency_limit))
    return [f"{name} ≤ {seconds(limit)}" for name, limit in named if limit is not None]


def _assumed(s: Search) -> str:
    """The load that the times assume."""
    when = "at a constant concurrency" if s.demand.rate is None else "at random arrival times"
    what = "percentiles" if _whose(s) else "mean times"
    load = f"{what}, as serve has them, {when}; {spread_text(s.demand)}"
    return "; ".join([load, *routing_lines(s.assumed_popularity)])


def _best_by(s: Search) -> str:
    return "their Pareto front" if s.objective == "front" else f"best by {s.objective}"


def _law(s: Search) -> str:
    """The law of the times, if it is not the default."""
    return "" if s.law == "calibrated" else f"; law {s.law}"


def _unseen(s: Search) -> str:
    """What was not looked at; empty for a whole search."""
    late = s.left_out.get("time", 0)
    said = [f"{s.unseen:,} deployments"] if s.unseen else []
    said += [f"{late} combinations of machines, formats and engines"] if late else []
    if not said:
        return ""
    gain = "" if s.unseen_gain is None else f", at most {100 * s.unseen_gain:.2g} % better by a bound"
    return f"{' and '.join(said)} not looked at{gain}; --seconds gives it more time"


def _left_out(s: Search) -> str:
    said = [f"{number:,} by {reason}" for reason, number in s.left_out.items() if reason != "time"]
    return f"; left out: {', '.join(said)}" if said else ""
