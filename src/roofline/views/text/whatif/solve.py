"""Text of a solution: the answer in a line, and the requirements there and beyond."""

from __future__ import annotations

from roofline.declared.numbers.units import counted, si, written
from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.query.knobs import KNOBS
from roofline.whatif.solve.solution import Met, Solution

COLUMNS = (
    Column("figure"),
    Column("limit"),
    Column("at the answer"),
    Column("beyond it", drop=1),
    Column("of the limit", drop=2),
)


def solution_text(s: Solution) -> str:
    """The unknown and the answer."""
    where = f" where {' and '.join(s.where)}" if s.where else ""
    against = f", compared with {s.against}" if s.against else ""
    place = f"{s.model.name} on {s.deployment.chips} × {s.chip.id}, {s.deployment.layout.text()}, {s.engine.titled}"
    asked = f"{place}\n{_extreme(s)} {s.find} ({s.subject}){where}{against}"
    if s.value is None:
        return f"{asked}\n\nno {s.find}: {s.why}"
    about = KNOBS[s.find].about if s.find in KNOBS else ""
    says = f", {about}" if about and s.find != "price" else ""
    named = next((f"{k.metric} {k.sign} {_text(k.limit, k.unit)}" for k in s.requirements if k.metric == s.binding), "")
    reason = "limited by" if s.extreme == "greatest" else "the least for"
    bound = f"; {reason} {named or s.binding}" if s.binding else ""
    lines = [asked, "", f"{s.find} = {number_text(s.value, s.unit)}{says}{bound}"]
    if s.beyond is not None and isinstance(s.value, int):
        lines.append(f"beyond it: {number_text(s.beyond, s.unit)}; multiples of {s.step}" if s.step > 1
                     else f"beyond it: {number_text(s.beyond, s.unit)}")  # fmt: skip
    if not s.single:
        lines.append("some values on the other side fail too: it does not change in one place alone")
    if s.fits is False:
        lines.append("not all of it is in memory at once there: `fits` can be required")
    lines.append(f"{counted(s.evaluations, 'evaluation')} ({s.method})")
    return "\n".join(lines)


def solution_table(s: Solution) -> Table:
    """The requirements at the answer and beyond."""
    return Table(COLUMNS, tuple(_row(k) for k in s.requirements), name="requirements")


def number_text(value: float, unit: str) -> str:
    """A number with its unit; whole numbers in full."""
    if isinstance(value, int):
        return counted(value, unit.removesuffix("s"))
    if unit == "share":
        return f"{value:.4f} ({100 * value:.1f} %)"
    return si(value, unit) if unit in ("B", "B/s", "FLOP/s") else f"{value:,.6g} {unit}"


def _extreme(s: Solution) -> str:
    return "fewest" if s.find == "chips" else {"greatest": "largest", "least": "smallest"}[s.extreme]


def _row(k: Met) -> tuple[TableCell, ...]:
    limit = f"{k.sign} {_text(k.limit, k.unit)}"
    return k.metric, limit, _text(k.value, k.unit), _text(k.beyond, k.unit), "" if k.use is None else f"{k.use:.4%}"


def _text(value: float | str | None, unit: str) -> str:
    if value is None or isinstance(value, str):
        return value or "–"
    text = f"{1000 * value:,.6g} ms" if unit == "s" and value < 1 else ""
    return text or (f"{value:,.6g} {unit}".strip() if unit != "B" else written(value, unit))
