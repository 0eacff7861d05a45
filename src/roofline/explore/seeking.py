"""Looking for the last or the first value of one number at which requirements hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import inf
from typing import Any

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.units import counted
from roofline.distinct import Array
from roofline.explore.ends import real_end, whole_end
from roofline.explore.open_numbers import OpenNumber, number_named
from roofline.explore.open_question import OpenQuestion, figures_of
from roofline.explore.requirements import Requirement, all_in_memory
from roofline.explore.solution import Met, Solution, binding_of, met


def all_used(q: OpenQuestion, other: OpenQuestion | None) -> Array:
    """How much of all limits is used, the most of them."""
    pairs = zip(q.requirements, figures_of(q, other), strict=True)
    return reduce(np.maximum, [r.use(*figures) for r, figures in pairs])


def searched(q: OpenQuestion, other: OpenQuestion | None, knob: OpenNumber, extreme: str, against: str) -> Solution:
    """The greatest or least value at which all holds; the `other` side is asked at the same value."""
    greatest = extreme == "greatest"
    apart = None if other is None else number_named(knob.name, other)

    def use(value: Any) -> Array:
        try:
            return np.asarray(all_used(knob.at(value), None if apart is None else apart.at(value)))
        except InputError:
            if np.ndim(value):
                raise
            return np.asarray(inf)  # no estimate there; where there is none anywhere, the answer says why

    def block(values: Array) -> Array:
        pieces = np.split(values, range(q.block, len(values), q.block))
        return np.concatenate([np.broadcast_to(use(piece), piece.shape) for piece in pieces])

    if knob.whole:
        end = whole_end(int(knob.low), int(knob.high), block, greatest, q.block)
    else:
        end = real_end(knob.low, knob.high, lambda v: float(use(v)), greatest, knob.tolerance)
    unlimited = end.value is not None and end.beyond is None and not _is_an_end(knob, extreme)
    seen = end.value if end.value is not None else knob.low if greatest else knob.high
    there = knob.at(_as(knob, seen))
    rows = _rows(knob, other, seen, end.beyond)
    asked = (q.subject, knob.name, extreme, tuple(r.plain() for r in q.requirements), against)
    method = "whole numbers in blocks" if knob.whole else "root"
    if end.value is None or unlimited:
        why = _why(knob, rows, seen, unlimited, extreme)
        return Solution(
            there.asked, *asked, None, knob.unit, None, knob.step, None, rows, None, end.single, method,
            end.evaluations, why,
        )  # fmt: skip
    beyond = None if end.beyond is None else _number(knob, end.beyond)
    binding = binding_of(rows) if beyond is not None else knob.ends if greatest else None
    return Solution(
        there.asked, *asked, _number(knob, seen), knob.unit, beyond, knob.step, binding, rows,
        bool(all_in_memory(there.answer)), end.single, method, end.evaluations,
    )  # fmt: skip


def _is_an_end(knob: OpenNumber, extreme: str) -> bool:
    """Whether the range ends there for a reason: the model's context, one sequence."""
    return bool(knob.ends) if extreme == "greatest" else knob.whole


def _number(knob: OpenNumber, value: float) -> float | int:
    return int(value) * knob.step if knob.whole else float(value)


def _as(knob: OpenNumber, value: float) -> float | int:
    return int(value) if knob.whole else float(value)


def _rows(knob: OpenNumber, other: OpenQuestion | None, value: float, beyond: float | None) -> tuple[Met, ...]:
    """The requirements worked out again, each value alone."""
    apart = None if other is None else number_named(knob.name, other)

    def figures(at: float) -> tuple[tuple[Any, Any], ...]:
        return figures_of(knob.at(_as(knob, at)), None if apart is None else apart.at(_as(knob, at)))

    now = figures(value)
    next_to: Sequence[tuple[Any, Any] | None] = [None] * len(now)
    if beyond is not None:
        try:
            next_to = figures(beyond)
        except InputError:  # no estimate there at all
            next_to = [None] * len(now)
    requirements = knob.at(_as(knob, value)).requirements
    return tuple(met(r, *pair) for r, pair in zip(requirements, zip(now, next_to, strict=True), strict=True))


def _why(knob: OpenNumber, rows: Sequence[Met], seen: float, unlimited: bool, extreme: str) -> str:
    number = _number(knob, seen)
    said = counted(number, knob.unit.removesuffix("s")) if knob.whole else f"{number:,.6g} {knob.unit}"
    if unlimited:
        return f"nothing limits it: {said}, the {'most' if extreme == 'greatest' else 'least'} looked at, holds too"
    failing = [k for k in rows if Requirement(k.metric, k.sign, k.limit).use(k.value, k.limit) > 1]
    exceeded = "; ".join(
        f"{k.metric} is {k.value if isinstance(k.value, str) else f'{k.value:.4g} {k.unit}'.strip()}" for k in failing
    )
    least = "most" if extreme == "least" else "least"
    return f"even the {least} looked at, {said}, does not do: {exceeded}" if exceeded else "no value looked at holds"
