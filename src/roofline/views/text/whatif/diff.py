"""Text of `diff`: tables of two sides, and causes in words."""

from __future__ import annotations

from roofline.declared.numbers.units import signed, written
from roofline.views.text.inference.analysis import step_text
from roofline.views.text.inference.estimate import misfit
from roofline.views.text.tables import Column, Table
from roofline.whatif.diff import SETTINGS, Difference, Turn, phase_pairs

LONGEST_HEADING = 14
"""Longest name of a side, in characters, that is used as a column heading."""


def misfit_text(d: Difference) -> str:
    """What does not fit, and what its times assume."""
    names = dict(zip("ab", labels(d), strict=True))
    return "\n".join(f"{m.phase} of {names[m.side]}: {misfit(m.memory)}" for m in d.misfits)


def steps_text(d: Difference) -> str:
    """The step of each phase, on each side if they differ."""
    lines = []
    for one, other in phase_pairs(d.a, d.b):
        phase = one if one == other else f"{one} → {other}"
        steps = dict.fromkeys(step_text(s.of(p)) for s, p in ((d.a, one), (d.b, other)))
        lines.append(f"{phase}: {' → '.join(steps)}")
    return "\n".join(lines)


def phases_engines_text(d: Difference) -> str:
    """Engine of each phase, on each side if they differ; empty without chips."""
    lines: dict[str, list[str]] = {}
    for phases in phase_pairs(d.a, d.b):
        one, other = (s.engine_of(p) for s, p in zip((d.a, d.b), phases, strict=True))
        names = [e.titled if e else "no chip" for e in (one, other)]
        if one or other:
            text = names[0] if names[0] == names[1] else f"{names[0]} → {names[1]}"
            lines.setdefault(text, []).append(phases[0] if phases[0] == phases[1] else " → ".join(phases))
    return "; ".join(f"{', '.join(phases)}: {text}" for text, phases in lines.items())


def difference_table(d: Difference) -> Table:
    """One line for each figure."""
    one, other = headings(d)
    columns = (
        Column("Phase", long=10),
        Column("Figure", long=14),
        Column(one, "plain"),
        Column(other, "plain"),
        Column("Change", "change", drop=1),
    )
    rows = [
        (
            c.phase, c.name, written(c.a, c.unit), written(c.b, c.unit),
            "same" if c.a == c.b else "new" if c.ratio is None else f"{signed(100 * (c.ratio - 1), '.1f')} %",
        )
        for c in d.changes
    ]  # fmt: skip
    return Table(columns, tuple(rows))


def labels(d: Difference) -> tuple[str, str]:
    """Names of the sides: model and chip, or what else differs."""
    if d.a.label != d.b.label:
        return d.a.label, d.b.label
    differing = [s for s in SETTINGS if getattr(d.a, s) != getattr(d.b, s)]
    one, other = (", ".join(f"{s} {side.said(s)}" for s in differing) for side in (d.a, d.b))
    return one or "A", other or "B"


def headings(d: Difference) -> tuple[str, str]:
    """Column headings of the sides: their labels, if short."""
    return _short(*labels(d))


def _short(one: str, other: str) -> tuple[str, str]:
    return (one, other) if max(len(one), len(other)) <= LONGEST_HEADING else ("A", "B")


def sides_text(d: Difference) -> str:
    """What the columns A and B are; empty if the headings say it."""
    pairs = zip(headings(d), labels(d), strict=True)
    return "\n".join(f"{name}  {label}" for name, label in pairs if name != label)


def facts_table(d: Difference) -> Table:
    """Properties in which the models differ, side by side."""
    columns = (Column("Property", long=14), *(Column(name, long=12) for name in _short(d.a.model.name, d.b.model.name)))
    return Table(columns, tuple((fact.property, fact.a, fact.b) for fact in d.facts))


def causes_text(d: Difference) -> str:
    """Causes of the change of each phase: settings one after another, then ops."""
    lines = []
    for phase in dict.fromkeys(c.phase for c in d.causes):
        turned = [f"{turn_text(d, t)} × {t.factor:.3g}" for t in d.turns if t.phase == phase]
        if turned:
            lines.append(f"{phase}: {', then '.join(turned)}")
        parts = [
            f"{c.op} {'+' if c.change > 0 else '−'}{written(abs(c.change), c.unit)}"
            for c in d.causes
            if c.phase == phase
        ]
        lines.append(f"{phase}: mostly {', '.join(parts)}")
    return "\n".join(lines) or "nothing differs"


def turn_text(d: Difference, turn: Turn) -> str:
    """Settings that are changed together, from and to."""
    return " and ".join(f"{s} {d.a.said(s)} → {d.b.said(s)}" for s in turn.settings)
