"""The answer of `solve`: a value, the requirements there and one step beyond, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.result import Figured, Units
from roofline.inference.settings import Deployed, Setup
from roofline.whatif.query.condition import Clause, ClauseValue, Compared, FigureName
from roofline.whatif.query.query import OpenQuestion


@dataclass(frozen=True)
class Met(Figured):
    """A requirement: its limit, and the figure at the answer and one step beyond it; null if there is no such value.

    `use`: how much of the limit is used at the answer; null for words.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("metric", "sign", "limit", "value", "beyond", "unit", "use"), "")

    metric: str
    sign: str
    limit: float | str
    value: float | str | None
    beyond: float | str | None
    unit: str
    use: float | None


@dataclass(frozen=True, repr=False)
class Solution(Deployed):
    """The greatest or least value of one setting at which the requirements hold, checked there and one step beyond.

    `subject`: the estimate evaluated at each value. `value`: in `unit`; null where there is none, and `why` says why.
    `beyond`: the next value: one more or less for integers, within a tolerance for real numbers. `step`: integers are
    multiples of it. `binding`: the requirement that fails there, or what ends the range. `requirements`: their figures
    at both. `fits`: whether everything fits in memory at once at the answer. `single`: every value evaluated nearer the
    start of the range holds too. `method`: `closed form`, `integer search`, `root finding` or `legal layouts`.
    `evaluations`: number of values evaluated.
    """

    SCHEMA: ClassVar[str] = "roofline.solve/1"
    FIGURES: ClassVar[Units] = {
        **Deployed.PLACE, "subject": "", "find": "", "extreme": "",
        "where": "", "against": "", "value": "", "unit": "", "beyond": "", "step": "", "binding": "",
        "requirements": "", "fits": "", "single": "", "method": "", "evaluations": "", "why": "",
    }  # fmt: skip

    asked: Setup
    subject: str
    find: str
    extreme: str
    where: tuple[str, ...]
    against: str
    value: float | int | None
    unit: str
    beyond: float | int | None
    step: int
    binding: str | None
    requirements: tuple[Met, ...]
    fits: bool | None
    single: bool
    method: str
    evaluations: int
    why: str = ""


def met(part: Clause, q: OpenQuestion, beyond: OpenQuestion | None) -> Met:
    """A part of the query's condition, with its figures at the answer and beyond."""
    if isinstance(part, Compared):
        sides = part.turned
        rows = [None if at is None else (_plain(sides.left.value(at.look)), _plain(sides.right.value(at.look)))
                for at in (q, beyond)]  # fmt: skip
        assert rows[0] is not None
        unit = sides.left.unit if isinstance(sides.left, FigureName) and sides.left.kind == "number" else ""
        use = float(part.use(q.look)) if part.of_order else None
        return Met(
            sides.left.text, sides.said, rows[0][1], rows[0][0], None if rows[1] is None else rows[1][0], unit, use
        )
    now, next_to = (None if at is None else "yes" if bool(part.value(at.look)) else "no" for at in (q, beyond))
    return Met(part.text, "=", "yes", now, next_to, "", None)


def requirement_rows(q: OpenQuestion, beyond: OpenQuestion | None) -> tuple[Met, ...]:
    """All parts of the query's condition, with their figures at the answer and, if there is an estimate, beyond."""
    try:
        return tuple(met(part, q, beyond) for part in q.condition.parts)
    except InputError:
        if beyond is None:
            raise
        return requirement_rows(q, None)


def _plain(value: ClauseValue) -> float | str:
    value = np.asarray(value)
    return str(value.item()) if value.dtype.kind in "US" else float(value.item())


def binding_of(q: OpenQuestion, rows: Sequence[Met], beyond: OpenQuestion) -> str:
    """The requirement that fails beyond the answer; of several, the one that is exceeded most."""
    try:
        uses = [float(part.use(beyond.look)) for part in q.condition.parts]
    except InputError:
        return rows[0].metric
    return rows[int(np.argmax(uses))].metric
