"""Views of two sides: a table, and JSON."""

from __future__ import annotations

from typing import Any

from roofline.explore.difference import Difference, Side
from roofline.show.tables import Column, Table
from roofline.show.units import ratio, seconds, si, whole


def figure(value: float, unit: str) -> str:
    """A value with its unit."""
    if unit == "s":
        return seconds(value)
    if unit == "FLOP/B":
        return ratio(value)
    return si(value, unit) if unit else whole(int(value))


def difference_table(d: Difference) -> Table:
    """One line for each figure."""
    columns = (
        Column("Phase", False), Column("Figure", False), Column(d.a.label), Column(d.b.label), Column("Change"),
    )  # fmt: skip
    rows = [
        (
            c.phase, c.name, figure(c.a, c.unit), figure(c.b, c.unit),
            "same" if c.a == c.b else "new" if c.ratio is None else f"{100 * (c.ratio - 1):+.1f} %",
        )
        for c in d.changes
    ]  # fmt: skip
    return Table(columns, tuple(rows))


def causes_text(d: Difference) -> str:
    """What the change of each phase comes from."""
    lines = []
    for phase in dict.fromkeys(c.phase for c in d.causes):
        parts = [
            f"{c.op} {'+' if c.change > 0 else '−'}{figure(abs(c.change), c.unit)}"
            for c in d.causes
            if c.phase == phase
        ]
        lines.append(f"{phase}: mostly {', '.join(parts)}")
    return "\n".join(lines) or "nothing differs"


def side_json(s: Side) -> dict[str, Any]:
    """What one side is."""
    return {
        "model": s.model.name, "on": s.on, "layout": s.layout.text(), "precision": s.precision, "batch": s.batch,
        "context": s.context, "prompt": s.prompt,
    }  # fmt: skip


def difference_json(d: Difference) -> dict[str, Any]:
    """`roofline.diff/1`."""
    return {
        "schema": "roofline.diff/1",
        "a": side_json(d.a),
        "b": side_json(d.b),
        "changes": [
            {"phase": c.phase, "figure": c.name, "unit": c.unit, "a": c.a, "b": c.b, "ratio": c.ratio}
            for c in d.changes
        ],
        "causes": [{"phase": c.phase, "op": c.op, "unit": c.unit, "a": c.a, "b": c.b} for c in d.causes],
    }  # fmt: skip
