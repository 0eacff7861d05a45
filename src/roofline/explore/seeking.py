"""Looking for the last or the first value of one number at which requirements hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import inf
from typing import Any

import numpy as np

from roofline.distinct import Array
from roofline.explore.ends import End, real_end, whole_end
from roofline.explore.knobs import Knob, knob_named
from roofline.explore.question import Question, figures_of
from roofline.explore.requirements import Requirement, all_in_memory
from roofline.explore.solution import Kept, Solution, binding_of, kept
from roofline.model.errors import InputError


def used(q: Question, other: Question | None) -> Array:
    """How much of all limits is used, the most of them."""
    pairs = zip(q.requirements, figures_of(q, other), strict=True)
    return reduce(np.maximum, [r.use(*figures) for r, figures in pairs])


def searched(q: Question, other: Question | None, knob: Knob, extreme: str, against: str) -> Solution:
    """The greatest or least value at which all holds; the `other` side is asked at the same value."""
    greatest = extreme == "greatest"
    apart = None if other is None else knob_named(knob.name, other)

    def use(value: Any) -> Array:
        try:
            return np.asarray(used(knob.at(value), None if apart is None else apart.at(value)))
        except InputError:
            if np.size(value) == 1 and np.ndim(value) == 0:
                return np.asarray(inf)
            raise

    if knob.whole:

        def block(values: Array) -> Array:
            step = q.block
            parts = [use(values[i : i + step]) for i in range(0, len(values), step)]
            return np.concatenate([np.broadcast_to(p, np.shape(values[i * step : (i + 1) * step])) for i, p in
                                   enumerate(parts)])  # fmt: skip

        end = whole_end(int(knob.low), int(knob.high), block, greatest, q.block)
    else:
        end = real_end(knob.low, knob.high, lambda v: float(use(v)), greatest, knob.tolerance)
    return _told(q, other, knob, end, (extreme, against))


def _told(q: Question, other: Question | None, knob: Knob, end: End, words: tuple[str, str]) -> Solution:
    extreme, against = words
    unlimited = end.value is not None and end.beyond is None and not _is_an_end(knob, extreme)
    value = None if unlimited or end.value is None else end.value
    seen = end.value if value is not None else knob.high if extreme == "least" or unlimited else knob.low
    if unlimited:
        seen = end.value
    assert seen is not None
    rows, _ = _rows(knob, other, seen, end.beyond)
    binding = binding_of(rows) if value is not None and end.beyond is not None else None
    if value is not None and end.beyond is None and extreme == "greatest":
        binding = knob.ends
    why = "" if value is not None else _why(knob, rows, seen, unlimited, extreme)
    there = knob.at(_as(knob, seen))
    return Solution(
        there.asked, q.subject, knob.name, extreme, tuple(r.plain() for r in q.requirements), against,
        None if value is None else _number(knob, value), knob.unit,
        None if value is None or end.beyond is None else _number(knob, end.beyond), knob.step, binding,
        rows, None if value is None else bool(all_in_memory(there.answer)), end.single,
        "whole numbers in blocks" if knob.whole else "root", end.evaluations, why,
    )  # fmt: skip


def _is_an_end(knob: Knob, extreme: str) -> bool:
    """Whether the range ends there for a reason: the model's context, one sequence."""
    return bool(knob.ends) if extreme == "greatest" else knob.whole


def _number(knob: Knob, value: float) -> float | int:
    return int(value) * knob.step if knob.whole else float(value)


def _as(knob: Knob, value: float) -> float | int:
    return int(value) if knob.whole else float(value)


def _rows(knob: Knob, other: Question | None, value: float, beyond: float | None) -> tuple[tuple[Kept, ...], Question]:
    """The requirements worked out again, each value alone."""
    apart = None if other is None else knob_named(knob.name, other)

    def figures(at: float) -> tuple[tuple[Any, Any], ...]:
        return figures_of(knob.at(_as(knob, at)), None if apart is None else apart.at(_as(knob, at)))

    q = knob.at(_as(knob, value))
    now = figures(value)
    next_to: Sequence[tuple[Any, Any] | None] = [None] * len(now)
    if beyond is not None:
        try:
            next_to = figures(beyond)
        except InputError:  # no estimate there at all
            next_to = [None] * len(now)
    return tuple(kept(r, *each) for r, *each in zip(q.requirements, now, next_to, strict=True)), q


def _why(knob: Knob, rows: Sequence[Kept], seen: float, unlimited: bool, extreme: str) -> str:
    number = f"{_number(knob, seen):,.6g} {knob.unit}" if not knob.whole else f"{_number(knob, seen):,} {knob.unit}"
    if unlimited:
        return f"nothing limits it: {number}, the {'most' if extreme == 'greatest' else 'least'} looked at, holds too"
    failing = [k for k in rows if Requirement(k.metric, k.sign, k.limit).use(k.value, k.limit) > 1]
    said = "; ".join(
        f"{k.metric} is {k.value if isinstance(k.value, str) else f'{k.value:.4g} {k.unit}'.strip()}" for k in failing
    )
    least = "most" if extreme == "least" else "least"
    return f"even the {least} looked at, {number}, does not do: {said}" if said else "no value looked at holds"
