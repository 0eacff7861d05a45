"""`solve`: the value of one setting at which what is asked for holds, or two ways cost the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.declared.checks import count, flag
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.question import OLD_NAMES
from roofline.explore.asking import other_side, question_of, side_text
from roofline.explore.break_even import break_even
from roofline.explore.condition import AGAINST
from roofline.explore.fewest_chips import MOST_CHIPS, fewest_chips
from roofline.explore.open_numbers import HARDWARE, WORK, number_named
from roofline.explore.open_question import ALL_SIZES
from roofline.explore.requirements import Requirement, requirements_named
from roofline.explore.seeking import searched
from roofline.explore.solution import Solution
from roofline.model.load import model_of

MONEY = ("price", "utilisation")
FINDS = (*WORK, *HARDWARE, "chips", *MONEY)
"""What can be looked for."""


def solve(
    model: Any, *, find: str, where: str | Sequence[str] | None = None, against: object = None,
    extreme: str | None = None, strict: bool = False, **settings: Any,
) -> Solution:  # fmt: skip
    """The value of one setting, `find`, at which what `where` says holds.

    find: `batch`, `context`, `input`, `output`, `concurrency`, `rate` (requests/s) or `tokens` (of training), the
    greatest where all limits are upper ones, else the least; `bandwidth`, `peak`, `memory` or `link` of a chip like the
    one given, or the number of `chips`, the least; `price` (USD an hour of a chip) or `utilisation` at which two ways
    cost the same. `extreme`: `greatest` or `least` instead.
    where: requirements such as `tpot <= 30ms and fits`; `bound = compute` makes it the critical batch or length;
    `time <= against` compares with the other settings. strict: times at the far end of their 80 % intervals.
    against: settings that differ on the other side, `on=b200,precision=fp8` or a mapping; of price and utilisation also
    owning (an `Owned`, or text such as `owned(capital=30000,years=4,kwh=0.1)`).
    The other settings are those of `estimate`, `generate`, `serve` or `train`, by the numbers given: `context`, or
    `input`: a step; `input` and `output`: a static batch; with `concurrency` or `rate`: a server; `tokens`: training.
    most_chips: of `chips`, as far as is looked (512, or those of the cluster).
    Raises InputError for what is not understood; where nothing holds, or nothing limits, `value` is None, `why` says
    which.
    """
    find = OLD_NAMES.get(find, find)
    if find not in FINDS:
        raise not_one_of("find", find, FINDS)
    if extreme is not None and extreme not in ("greatest", "least"):
        raise not_one_of("extreme", extreme, ("greatest", "least"))
    requirements = requirements_named(where)
    flag("strict", strict)
    if not requirements and find not in MONEY:
        raise InputError("where", where, "what must hold, such as `tpot <= 30ms and fits`")
    most_chips = settings.pop("most_chips", None)
    utilisation = settings.pop("utilisation", None)
    settings = {OLD_NAMES.get(name, name): value for name, value in settings.items()}
    if find in ALL_SIZES and settings.get(find) is not None:
        raise InputError(find, settings[find], "nothing: it is what is looked for")
    q = question_of(model_of(model), find, requirements, strict, settings)
    if find in MONEY:
        return break_even(q, find, against, utilisation)
    if utilisation is not None:
        raise InputError("utilisation", utilisation, "nothing: it is of price and utilisation")
    other = None if against is None else other_side(q, against)
    if (other is None) != all(r.limit != AGAINST for r in requirements):
        raise InputError("against", against, "other settings, and a limit that is `against`")
    end = extreme or _usual(find, requirements)
    if find == "chips":
        most = count("most_chips", MOST_CHIPS if most_chips is None else most_chips, 1)
        if end == "greatest" or other is not None:
            raise InputError("find", find, "the least of it, without against")
        return fewest_chips(q, settings["on"], most)
    return searched(q, other, number_named(find, q), end, side_text(against))


def _usual(find: str, requirements: Sequence[Requirement]) -> str:
    """The greatest of the work under upper limits, the least where a target is to be reached."""
    reached = any(r.metric == "bound" or not (r.upper or r.of_words) for r in requirements)
    return "least" if find in HARDWARE or find == "chips" or reached else "greatest"
