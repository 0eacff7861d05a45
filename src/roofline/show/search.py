"""Views of a search: what was looked at, and the best ways in a table."""

from __future__ import annotations

from roofline.declared.units import seconds
from roofline.explore.search import Search
from roofline.explore.serving_plans import PlanPlace, ServingPlan
from roofline.show.serve import spread_text
from roofline.show.tables import Column, Table

COLUMNS = (
    Column("#"), Column("plan", wrap=True), Column("chips", "count"), Column("in flight", "count"), Column("TTFT", "s"),
    Column("TPOT", "s"), Column("tokens/s/chip", "tokens/s"), Column("tokens/s/user", "tokens/s", drop=2),
    Column("$/Mtok out", "USD", drop=1), Column("J/token", drop=2), Column("chance", "share", drop=3),
    Column("why not first", wrap=True, drop=4),
)  # fmt: skip


def search_text(s: Search) -> str:
    """The question, and how much was looked at."""
    lines = [
        f"{s.model.name}: {s.input} in, {s.output} out, at most {s.chips} chips{limits_text(s)}",
        f"{s.considered:,} legal plans of {s.deployments:,} deployments; {_best_by(s)}{_law(s)}{_left_out(s)}",
        _assumed(s),
    ]
    return "\n".join(lines)


def answers_text(s: Search) -> str:
    """The two answers: the highest by the objective, and the simplest of those within its error."""
    if s.highest is None:
        return ""
    simplest = f"recommended, the simplest within {100 * (s.error or 0):.1f} % of it, the error of its TPOT (80 %)"
    rows = ((f"highest {s.objective}", s.highest), (simplest, s.recommended))
    none = "none of those simulated keeps the limits"
    return "\n".join(f"{name}:\n  {none if p is None else _plan_figures(p)}" for name, p in rows)


def _plan_figures(p: ServingPlan) -> str:
    times = f"TTFT {seconds(float(p.ttft.expected))}, TPOT {seconds(float(p.tpot.expected))}"
    return (
        f"{plan_text(p)}, {p.chips:,} chips, {p.concurrency:,} in flight: {times}, "
        f"{p.tokens_per_second_per_chip:,.0f} tokens/s per chip, chance {100 * p.chance:.0f} %"
        f"{f'; {p.why}' if p.why else ''}"
    )


def confirmed_text(s: Search) -> str:
    """What the simulations say, a line each, those of plans that break their limits last."""
    numbered = [(f"#{number}", plan) for number, plan in enumerate(s.plans, 1)]
    return "\n".join(
        f"{name} simulated: TTFT {seconds(c.ttft)}, TPOT {seconds(c.tpot)}, "
        f"{c.tokens_per_second_per_chip:,.0f} tokens/s per chip; {'keeps' if c.keeps else 'misses'} the limits"
        f"{' in the mean' if s.attainment is None else ''}, {100 * c.attained:.0f} % of requests keep them"
        for name, plan in (*numbered, ("recommended", s.recommended))
        if plan is not None and (c := plan.confirmation) is not None
    )


def search_table(s: Search) -> Table:
    """The ways, the best first; behind them the best of every machine that is not among them."""
    rows = [_row(i, plan) for i, plan in enumerate(s.plans, 1)]
    rows += [_row(place.rank, place.plan) for place in s.machines if (place.rank or 0) > len(s.plans)]
    return Table(COLUMNS, tuple(rows), name="plans")


def place_text(place: PlanPlace) -> str:
    """Where a plan that was asked about stands."""
    p = place.plan
    told = f"{plan_text(p)}, {p.concurrency:,} in flight"
    if place.rejected:
        return f"{told}: rejected, {place.rejected}"
    rank = f"#{place.rank} of {place.of}" if place.rank != place.of + 1 else f"behind the best {place.of}"
    return (
        f"{told}: {rank}; TTFT {seconds(float(p.ttft.expected))}, "
        f"TPOT {seconds(float(p.tpot.expected))}, {p.tokens_per_second_per_chip:,.0f} tokens/s per chip"
    )


def plan_text(p: ServingPlan) -> str:
    """One way in words: `8 × tp=4 on h200-sxm`, or `5 × tp=4 prefill, 3 × tp=4 decode on h200-sxm`."""
    formats = f", {p.precision}" if p.precision else ""
    if p.prefill is None:
        return f"{p.replicas} × {p.layout} on {p.on}{formats}"
    apart = f" on {p.prefill_on}" if p.prefill_on != p.on else ""
    return f"{p.prefills} × {p.prefill_layout} prefill{apart}, {p.replicas} × {p.layout} decode on {p.on}{formats}"


def _row(number: int | None, p: ServingPlan) -> tuple[object, ...]:
    return (
        str(number), plan_text(p), p.chips, p.concurrency, p.ttft.expected, p.tpot.expected,
        p.tokens_per_second_per_chip, p.tokens_per_second_per_user, p.usd_per_million_tokens, _joules(p), p.chance,
        p.why,
    )  # fmt: skip


def _joules(p: ServingPlan) -> str:
    joules = p.joules_per_token
    return "" if joules is None else f"{float(joules):.3g}"


def limits_text(s: Search) -> str:
    """The limits asked for, after a semicolon; nothing where there are none."""
    named = (("TTFT", s.ttft_limit), ("TPOT", s.tpot_limit), ("latency", s.latency_limit))
    said = [f"{name} ≤ {seconds(limit)}" for name, limit in named if limit is not None]
    whose = "in the mean" if s.attainment is None else f"for {100 * s.attainment:g} % of requests"
    return f"; {', '.join(said)} {whose}{', at the far end of intervals' if s.strict else ''}" if said else ""


def _assumed(s: Search) -> str:
    """What the times take the load to be."""
    when = "always as many" if s.demand.rate is None else "at random times"
    return f"mean times, as serve has them, of requests {when}; {spread_text(s.demand)}"


def _best_by(s: Search) -> str:
    return "their Pareto front" if s.objective == "front" else f"best by {s.objective}"


def _law(s: Search) -> str:
    """The law of the times, where it is not the usual one."""
    return "" if s.law == "calibrated" else f"; law {s.law}"


def _left_out(s: Search) -> str:
    said = [f"{number:,} by {reason}" for reason, number in s.left_out.items()]
    return f"; left out: {', '.join(said)}" if said else ""
