"""`solve`: the value of one setting at which a condition holds, or at which two options cost the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Annotated

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.kinds import ExtremeName, Given, Names, OneChipCount, OtherSide, PlainNumber, Switch, Text
from roofline.declared.question import OLD_NAMES, question
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.whatif.query.condition import (
    Clause,
    Compared,
    Condition,
    FigureName,
    Not,
    NumberClause,
    condition_of,
    limit_text,
)
from roofline.whatif.query.figures import ColumnKind
from roofline.whatif.query.knobs import HARDWARE, WORK, Sought, sought
from roofline.whatif.query.parsing import ASKED, MONEY, TRAINED, other_side, question_of, side_text
from roofline.whatif.query.query import ALL_SIZES, OpenQuestion
from roofline.whatif.query.questions import AXIS_NAMES
from roofline.whatif.solve.break_even import break_even, owned_named
from roofline.whatif.solve.fewest_chips import MOST_CHIPS, fewest_chips, on_chips
from roofline.whatif.solve.root_search import searched
from roofline.whatif.solve.solution import Solution

FINDS = (*WORK, *HARDWARE, "chips", *MONEY)
"""Settings that can be the unknown."""
TRIED_VALUES = 4
"""Number of values of a knob at which a first estimate is tried."""


@question(beside={**ASKED, **TRAINED})
def solve(
    model: Model | Source,
    *,
    find: Annotated[
        Text,
        "`batch`, `context`, `input`, `output`, `concurrency`, `rate`, `tokens`: the greatest value that keeps upper "
        "limits, or the least that reaches lower ones. `bandwidth`, `peak`, `memory`, `link` of a chip like the given "
        "one, or `chips`: the least. `price` (USD per chip-hour) or `utilisation` at which two ways cost the same.",
    ],
    where: Annotated[
        Names | None,
        "What must hold: `tpot <= 30ms and fits`, `tokens_per_second >= 5000`, `bound = compute`, `time <= against`.",
    ] = None,
    against: Annotated[
        OtherSide | None,
        "The other side, where it differs: `on=b200,precision=fp8`; of price and utilisation also owning, "
        "`owned(capital=30000,years=4,kwh=0.1,pue=1.2)`.",
    ] = None,
    utilisation: Annotated[PlainNumber | None, "Share of time in which an owned chip works, to find the price."] = None,
    extreme: Annotated[ExtremeName | None, "The greatest or the least value, instead of the default."] = None,
    most_chips: Annotated[OneChipCount | None, "Maximum number of chips (512, or those of the cluster)."] = None,
    strict: Annotated[Switch, "Times at the far end of their 80 % intervals."] = False,
    **settings: Given,
) -> Solution:
    """The value of one setting, `find`, at which the condition `where` holds.

    find: `batch`, `context`, `input`, `output`, `concurrency`, `rate` (requests/s) or `tokens` (of training): the
    greatest value where all limits are upper limits, else the least. `bandwidth`, `peak`, `memory` or `link` of a chip
    like the given one, or the number of `chips`: the least value. `price` (USD per chip-hour) or `utilisation`: where
    two options cost the same. `extreme`: `greatest` or `least` instead.
    where: requirements such as `tpot <= 30ms and fits`; `bound = compute` gives the critical batch or length; `time <=
    against` compares with the other side. strict: times at the far end of their 80 % intervals.
    against: settings of the other side that differ, `on=b200,precision=fp8` or a mapping; for price and utilisation
    also owning (an `Owned`, or text such as `owned(capital=30000,years=4,kwh=0.1)`).
    The other settings are those of `estimate`, `generate`, `serve` or `train`. The numbers select the estimate:
    `context` or `input` a step; `input` and `output` a static batch; with `concurrency` or `rate` a server; `tokens`
    training.
    most_chips: for `chips`, the largest number evaluated (512, or those of the cluster).
    Raises InputError for invalid settings. Where no value holds, or nothing limits it, `value` is None and `why` says
    which.
    """
    find = OLD_NAMES.get(find, find)
    if find not in FINDS:
        raise not_one_of("find", find, [AXIS_NAMES.get(name, name) for name in FINDS])
    texts = () if where is None else (where,) if isinstance(where, str) else tuple(where)
    if not any(text.strip() for text in texts if isinstance(text, str)) and find not in MONEY:
        raise InputError("where", where, "what must hold, such as `tpot <= 30ms and fits`")
    if find in ALL_SIZES and settings.get(find) is not None:
        raise InputError(find, settings[find], "no value: it is what --find solves for")
    q = question_of(model_of(model), find, strict, settings)
    if find in MONEY:
        owned = owned_named(against) is not None
        if owned and any(texts):
            raise InputError("where", where, "nothing: owning and renting the same chip are compared")
        return break_even(q if owned else _under(q.knowing(), texts), find, against, utilisation)
    if utilisation is not None:
        raise InputError("utilisation", utilisation, "nothing: it is of price and utilisation")
    most = MOST_CHIPS if most_chips is None else most_chips
    of = None if find == "chips" else sought(find, q)
    q = replace(q, known=_known(_candidates(of) if of is not None else on_chips(q, settings["on"], most)))
    q = _under(q, texts)
    if (against is None) == q.condition.two_sided:
        raise InputError("against", against, "other settings, and a limit that is `against`")
    end = extreme or _usual(find, q.condition)
    if of is None:
        if end == "greatest" or against is not None:
            raise InputError("find", find, "the least of it, without against")
        return fewest_chips(q, settings["on"], most)
    if against is not None:
        q = replace(q, other=other_side(q, against))
    return searched(replace(of, q=q), end, side_text(against))


def _under(q: OpenQuestion, texts: Sequence[str]) -> OpenQuestion:
    """The query with a condition. Raises InputError where the condition is invalid or no target of a search."""
    units = {name: column.spelled for name, column in q.known.items()}
    condition = condition_of(texts, units, sides=True)
    for part in condition.parts:
        if isinstance(part, Compared) and isinstance(part.turned.right, NumberClause):
            _check_limit(part.turned, part.turned.right.amount)
    return replace(q, condition=condition)


def _check_limit(part: Compared, limit: float) -> None:
    """Raises InputError for a limit that is not above 0, and for a number that must be matched exactly."""
    if not isinstance(part.left, FigureName) or part.left.kind != "number":
        return
    expected = {"s": "a time above 0", "B": "bytes above 0"}.get(part.left.unit, "a number above 0")
    if not part.of_order:
        raise InputError(f"where {part.left.name}", part.text, f"one of <, <=, >, >= and {expected}")
    if not 0 < limit < inf:
        raise InputError(f"where {part.left.name}", limit_text(limit, part.left.unit), expected)


def _known(candidates: Iterable[Callable[[], OpenQuestion]]) -> Mapping[str, ColumnKind]:
    """The figures of the first candidate that has an estimate. Raises the first InputError if none has."""
    first: InputError | None = None
    for candidate in candidates:
        try:
            return candidate().knowing().known
        except InputError as error:
            first = first or error
    assert first is not None
    raise first


def _candidates(of: Sought) -> Iterator[Callable[[], OpenQuestion]]:
    """The query itself where the knob already has a value, then with a few values of its range."""
    if of.knob.side == "hardware":
        yield lambda: of.q
    for value in np.geomspace(of.low, of.high, TRIED_VALUES):
        yield partial(of.at, int(value) if of.whole else float(value))


def _usual(find: str, condition: Condition) -> str:
    """The greatest value of the work under upper limits; the least where a target must be reached."""
    if find in HARDWARE or find == "chips" or any(_reached(part) for part in condition.parts):
        return "least"
    return "greatest"


def _reached(part: Clause) -> bool:
    """Whether a requirement is a target that more work reaches: a lower limit, or a bound."""
    if isinstance(part, Not) and not isinstance(part.of.negated(), Not):
        return _reached(part.of.negated())
    if not isinstance(part, Compared):
        return any(_reached(term) for term in part.inner)
    return part.of_words or part.turned.sign in (">", ">=")
