"""The answer of `solve`: a value, what holds there and one step beyond, and why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.result import Figured, Units
from roofline.estimates.settings import Deployed, Setup
from roofline.explore.condition import Clause, ClauseValue, Compared, FigureName
from roofline.explore.open_question import OpenQuestion


@dataclass(frozen=True)
class Met(Figured):
    """A requirement: its limit, the figure at the answer and one step beyond it, null where there is none.

    `use`: how much of the limit the answer takes, null of a word.
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
    """The greatest or least value of one setting at which the requirements hold, worked out again there and beyond it.

    `subject`: the estimate asked at each value. `value` in `unit`, null where there is none, and `why` says so;
    `beyond`: the next value, one more or one less of whole numbers, within a tolerance of real ones; `step`: whole
    numbers are multiples of it. `binding`: what fails there, or what ends the range. `requirements`: their figures at
    both. `fits`: whether at the answer all is in memory at once. `single`: no value nearer the start of the range, of
    those looked at, fails. `method`: a closed form, whole numbers in blocks, or a root; `evaluations`: values that were
    worked out.
    """

    SCHEMA: ClassVar[str] = "roofline.solve/1"
    FIGURES: ClassVar[Units] = {
        "model": "", "deployment": "", "engine": "", "law": "", "formats": "", "subject": "", "find": "", "extreme": "",
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
    """A part of the condition of a question, with its figures there and beyond."""
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
    """All parts of the condition of a question, with their figures there and beyond, where there is an estimate."""
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
    """What fails beyond the answer: of several that do the one that is exceeded most."""
    try:
        uses = [float(part.use(beyond.look)) for part in q.condition.parts]
    except InputError:
        return rows[0].metric
    return rows[int(np.argmax(uses))].metric
