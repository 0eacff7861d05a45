"""Write measurements of a profile or benchmark as a table for `roofline accuracy` (docs/accuracy.md)."""

from __future__ import annotations

import csv
from io import StringIO

from roofline.declared.groups import RequestFlow
from roofline.declared.question import Settings, ungrouped
from roofline.measured.compare.benchmarks import ComparedResults
from roofline.measured.compare.comparison import Comparison
from roofline.measured.compare.results import Measured

FIRST = ("quantity", "model", "on", "seconds")
"""Columns that every such table has."""
_SERVED = {"ttft": "served-ttft", "tpot": "served-tpot", "latency": "served-latency"}


def accuracy_table(answer: Comparison | ComparedResults, asked: Settings, group: str) -> str:
    """CSV with a row for each measurement that the format can express.

    `asked`: model, on, layout, engine and precision as given. `group`: name under which the rows are scored.
    """
    sizes = (_step(answer),) if isinstance(answer, Comparison) else map(_sizes, (r.of for r in answer.results))
    given = {name: value for name, value in asked.items() if value is not None}
    rows = [{**row, **given, "group": group} for row in sizes if row]
    text = StringIO(newline="")
    table = csv.DictWriter(text, dict.fromkeys((*FIRST, *(name for row in rows for name in row))), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _step(c: Comparison) -> Settings:
    """Row of a profile's step."""
    query = c.predicted.step.queries[0]
    if query.new == 1 and query.cached:
        return {"quantity": "decode", "batch": query.count, "input": query.cached, "seconds": c.measured}
    more = {"cached": query.cached} if query.cached else {}
    return {"quantity": "prefill", "batch": query.count, "input": query.new, "seconds": c.measured, **more}


def _sizes(m: Measured) -> Settings:
    """Row of a benchmark's measurement, in seconds; empty for a server measurement without a load."""
    if m.quantity == "prompt":
        more = {"cached": m.depth} if m.depth else {}
        return {"quantity": "prefill", "batch": 1, "input": m.input, "seconds": m.input / m.value, **more}
    if m.quantity == "answer":
        return {"quantity": "decode", "batch": 1, "input": m.depth + max(1, m.output // 2), "seconds": 1 / m.value}
    load = ungrouped(m.flow, RequestFlow)
    if not load:
        return {}
    quantity = _SERVED.get(m.quantity, "served-token")
    seconds = m.value if m.quantity in _SERVED else 1 / m.value
    return {"quantity": quantity, "input": m.input, "output": m.output, "seconds": seconds, **load}
