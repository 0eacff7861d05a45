"""The answer of `solve`: a value, what holds there and one step beyond, and why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np

from roofline.declared.result import Figured, Units
from roofline.estimates.settings import Deployed, Setup
from roofline.explore.requirements import Requirement


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


def met(r: Requirement, now: tuple[Any, Any], beyond: tuple[Any, Any] | None) -> Met:
    """A requirement with its figures at the answer and beyond."""
    value, limit = (_plain(v) for v in now)
    use = float(r.use(value, limit))
    return Met(
        r.metric, r.sign, limit, value, None if beyond is None else _plain(beyond[0]), r.unit,
        None if r.of_words else use,
    )  # fmt: skip


def _plain(value: Any) -> Any:
    value = np.asarray(value)
    return str(value.item()) if value.dtype.kind in "US" else float(value.item())


def binding_of(rows: Sequence[Met]) -> str:
    """What fails beyond the answer: of several that do the one that is exceeded most."""
    beyond = [Requirement(k.metric, k.sign, k.limit).use(k.beyond, k.limit) if k.beyond is not None else inf
              for k in rows]  # fmt: skip
    return rows[int(np.argmax(np.asarray(beyond, dtype=float)))].metric
