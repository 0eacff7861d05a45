"""Text of a search over training layouts."""

from __future__ import annotations

from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.search.training_search import TrainingPlan, TrainingSearch

TRAINING_COLUMNS = (
    Column("#"), Column("layout", long=20), Column("micro-batch", "count", drop=1), Column("recompute", drop=2),
    Column("schedule", drop=3),
    Column("recipe", drop=5), Column("chips", "count", drop=4), Column("step", "s"), Column("memory", "B"),
    Column("USD", "USD", drop=6), Column("energy", "J", drop=7), Column("run", "s", drop=8),
)  # fmt: skip


def training_search_text(s: TrainingSearch) -> str:
    """The question, and the size of the search."""
    said = [f"{number:,} by {reason}" for reason, number in s.left_out.items()]
    left_out = f"; left out: {', '.join(said)}" if said else ""
    return (
        f"{s.model.name}: {s.batch} sequences of {s.tokens} tokens a step\n"
        f"{s.considered:,} legal layouts, best by {s.objective}{left_out}"
    )


def training_search_table(s: TrainingSearch) -> Table:
    """The plans, best first; USD and energy are of the run where there is one, else of a step."""
    shown = len(TRAINING_COLUMNS) - (not s.plans or s.plans[0].run is None)
    rows = tuple(_row(i, p)[:shown] for i, p in enumerate(s.plans, 1))
    return Table(TRAINING_COLUMNS[:shown], rows, name="plans")


def _row(number: int, p: TrainingPlan) -> tuple[TableCell, ...]:
    return (
        str(number), p.layout, p.micro_batch, p.recompute, p.schedule, p.recipe, p.chips, p.seconds, p.bytes,
        p.usd, p.energy, p.run_time,
    )  # fmt: skip
