"""The picture of a Pareto front."""

from __future__ import annotations

from roofline.declared.numbers.units import counted
from roofline.views.plots import data as d
from roofline.views.text.serving.search import limits_text, plan_text
from roofline.whatif.search.search import Search


def front_plot(front: Search) -> d.FrontPlot:
    """Plans of a Pareto front as points."""
    points = tuple(
        d.FrontPoint(
            f"{plan_text(p)}, {p.concurrency:,} in flight", p.kind, p.tokens_per_second_per_user,
            p.tokens_per_second_per_chip,
        )
        for p in front.plans
    )  # fmt: skip
    title = f"{front.model.name} · {front.input} in, {front.output} out · at most {counted(front.chips, 'chip')}"
    note = f"no plan is better both for a user and per chip{limits_text(front)}"
    return d.FrontPlot(title, points, note, bool(points))
