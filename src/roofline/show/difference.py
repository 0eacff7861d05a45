"""Views of two sides: tables, causes in words, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.explore.difference import SETTINGS, Change, Difference, Side, Turn
from roofline.show.report.model_part import fingerprint
from roofline.show.sheets import percent
from roofline.show.tables import Column, Table
from roofline.show.units import ratio, seconds, si, whole


def figure(value: float, unit: str) -> str:
    """A value with its unit."""
    if unit == "s":
        return seconds(value)
    if unit == "FLOP/B":
        return ratio(value)
    if unit == "share":
        return percent(value)
    return si(value, unit) if unit else whole(round(value))


def difference_table(d: Difference) -> Table:
    """One line for each figure."""
    columns = (Column("Phase", False), Column("Figure", False), *map(Column, labels(d)), Column("Change"))
    rows = [
        (
            c.phase, c.name, figure(c.a, c.unit), figure(c.b, c.unit),
            "same" if c.a == c.b else "new" if c.ratio is None else f"{100 * (c.ratio - 1):+.1f} %",
        )
        for c in d.changes
    ]  # fmt: skip
    return Table(columns, tuple(rows))


def labels(d: Difference) -> tuple[str, str]:
    """What the sides are called: model and chip, and where these are the same what else differs."""
    if d.a.label != d.b.label:
        return d.a.label, d.b.label
    differing = [s for s in SETTINGS if getattr(d.a, s) != getattr(d.b, s)]
    one, other = (", ".join(f"{s} {side.said(s)}" for s in differing) for side in (d.a, d.b))
    return one or "A", other or "B"


def facts(d: Difference) -> Iterator[tuple[str, str, str]]:
    """Properties in which the two models differ, with both values."""
    one, other = (dict(fingerprint(s.model).rows) for s in (d.a, d.b))
    for name in one | other:
        if one.get(name) != other.get(name):
            yield name, one.get(name, ""), other.get(name, "")


def facts_table(d: Difference) -> Table:
    """The properties side by side."""
    columns = (Column("Property", False), Column(d.a.model.name, False), Column(d.b.model.name, False))
    return Table(columns, tuple(facts(d)))


def causes_text(d: Difference) -> str:
    """What the change of each phase comes from: settings one after another, then ops."""
    lines = []
    for phase in dict.fromkeys(c.phase for c in d.causes):
        turned = [f"{turn_text(d, t)} × {t.factor:.3g}" for t in d.turns if t.phase == phase]
        if turned:
            lines.append(f"{phase}: {', then '.join(turned)}")
        parts = [
            f"{c.op} {'+' if c.change > 0 else '−'}{figure(abs(c.change), c.unit)}"
            for c in d.causes
            if c.phase == phase
        ]
        lines.append(f"{phase}: mostly {', '.join(parts)}")
    return "\n".join(lines) or "nothing differs"


def turn_text(d: Difference, turn: Turn) -> str:
    """Settings that are turned together, from what to what."""
    return " and ".join(f"{s} {d.a.said(s)} → {d.b.said(s)}" for s in turn.settings)


def side_json(s: Side) -> dict[str, Any]:
    """What one side is."""
    return {
        "model": s.model.name, "on": s.on, "layout": s.layout.text(), "precision": s.precision, "engine": s.engine,
        "batch": s.batch, "context": s.context, "prompt": s.prompt, "train": s.train, "step": s.step,
    }  # fmt: skip


def change_json(c: Change) -> dict[str, Any]:
    """One figure of both sides; a share in percent."""
    unit, scale = ("%", 100) if c.unit == "share" else (c.unit, 1)
    return {
        "phase": c.phase, "figure": c.name, "unit": unit, "a": scale * c.a, "b": scale * c.b, "ratio": c.ratio,
    }  # fmt: skip


def difference_json(d: Difference) -> dict[str, Any]:
    """`roofline.diff/1`."""
    return {
        "schema": "roofline.diff/1",
        "a": side_json(d.a),
        "b": side_json(d.b),
        "facts": [{"property": name, "a": a, "b": b} for name, a, b in facts(d)],
        "changes": [change_json(c) for c in d.changes],
        "turns": [{"phase": t.phase, "settings": list(t.settings), "factor": t.factor} for t in d.turns],
        "causes": [{"phase": c.phase, "op": c.op, "unit": c.unit, "a": c.a, "b": c.b} for c in d.causes],
    }  # fmt: skip
