"""Text of a choice of machines: a row for each, cheapest first."""

from __future__ import annotations

from roofline.declared.numbers.units import percent
from roofline.views.text.inference.analysis import headline
from roofline.views.text.inference.estimate import routing_lines
from roofline.views.text.serving.search import limits_kept_text
from roofline.views.text.serving.serve import spread_text
from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.machine_choice import WORK, MachineChoice, MachineRow

UNITS = "$/M generated: USD per million generated tokens, prompts included; ≈: as cheap within the error of its times"
"""Explanations of short headings and marks."""
NONE_SERVES = (
    "none serves this load; try several servers (--on 8xdgx-h200 --chips 64), fewer users or wider limits"
    " (--tpot 100ms)"
)
"""What to try where no machine serves the demand."""


def demand_text(c: MachineChoice) -> str:
    """The model, the demand, the limits, and the assumed requests."""
    many = (
        f"{c.in_flight:,} requests under way" if c.in_flight is not None else f"{c.requests_per_second:,.3g} requests/s"
    )
    cached = f", {percent(c.prefix)} of prompts cached" if c.prefix else ""
    lengths = f"{c.input:,} tokens in{cached}, {c.output:,} out, {spread_text(c.demand)}"
    lengths += f"\n{c.images.tokens} of the input are {c.images.text}" if c.images else ""
    return f"{headline(c.model, c.model.precision)}\n{c.work}: {many} of {lengths}\n" + "; ".join(
        [f"{limits_kept_text(c)}; lengths by {WORK[c.work].source}", *routing_lines(c.assumed_popularity)]
    )


def notes_text(c: MachineChoice) -> str:
    """What stands below the table."""
    return UNITS if c.found else NONE_SERVES


def machines_table(c: MachineChoice) -> Table:
    """A row for each machine; `≈`: its price is within the error of the cheapest machine's."""
    heads = (
        Column(""), Column("machine"), Column("plan", drop=1, long=16), Column("chips", "count", drop=5),
        Column("USD/h", "USD"),
        Column("USD a month", "USD", drop=6), Column("$/M generated", "USD"), Column("TTFT", "s", drop=3),
        Column("TPOT", "s", drop=4),
        Column("chance", "share", drop=2), Column("power", "W", drop=8), Column("power (80 %)", drop=9),
        Column("why not", drop=7, long=20),
    )  # fmt: skip
    return Table(heads, tuple(_row(c, row) for row in c.machines), name="machines")


def _row(c: MachineChoice, row: MachineRow) -> tuple[TableCell, ...]:
    p = row.plan
    if p is None:
        return ("", row.machine, "none", *(None,) * 9, row.why)
    mark = "≈" if row.equal else "1" if row is c.machines[0] else ""
    watts = "" if row.power_low is None or row.power_high is None else f"{row.power_low:,.0f}–{row.power_high:,.0f} W"
    return (
        mark, row.machine, f"{p.replicas} × {p.layout}", p.chips, p.usd_per_hour, row.usd_per_month,
        p.usd_per_million_tokens, p.ttft.expected, p.tpot.expected, p.chance, p.power, watts, "",
    )  # fmt: skip
