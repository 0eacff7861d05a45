"""Root search: the last or the first value of one knob at which a condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.bracketing import real_end, whole_end
from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import counted
from roofline.whatif.query.knobs import Sought
from roofline.whatif.query.query import OpenQuestion
from roofline.whatif.query.questions import all_in_memory
from roofline.whatif.solve.solution import Met, Solution, binding_of, requirement_rows


def searched(of: Sought, extreme: str, against: str) -> Solution:
    """The greatest or least value at which the condition holds. The other side is evaluated at the same value."""
    greatest, q = extreme == "greatest", of.q

    def use(value: Count) -> Array:
        try:
            return np.asarray(of.at(value).use)
        except InputError:
            if np.ndim(value):
                raise
            return np.asarray(inf)  # no estimate there; if there is none anywhere, the answer says why

    def block(values: Array) -> Array:
        pieces = np.split(values, range(q.block, len(values), q.block))
        return np.concatenate([np.broadcast_to(use(piece), piece.shape) for piece in pieces])

    if of.whole:
        end = whole_end(int(of.low), int(of.high), block, greatest, q.block)
    else:
        end = real_end(of.low, of.high, lambda value: float(use(value)), greatest, of.tolerance)
    unlimited = end.value is not None and end.beyond is None and not _is_an_end(of, extreme)
    nearest = end.value if end.value is not None else of.low if greatest else of.high
    there, next_to = _at(of, nearest), None if end.beyond is None else _at(of, end.beyond)
    rows = requirement_rows(there, next_to)
    name = of.knob.name
    asked = (q.subject, name, extreme, tuple(part.text for part in q.condition.parts), against)
    method = "integer search" if of.whole else "root finding"
    if end.value is None or unlimited:
        why = _why(of, there, rows, nearest, unlimited, extreme)
        return Solution(
            there.asked, *asked, None, of.knob.unit, None, of.step, None, rows, None, end.single, method,
            end.evaluations, why,
        )  # fmt: skip
    beyond = None if end.beyond is None else _number(of, end.beyond)
    binding = binding_of(q, rows, next_to) if next_to is not None else of.ends if greatest else None
    return Solution(
        there.asked, *asked, _number(of, nearest), of.knob.unit, beyond, of.step, binding, rows,
        bool(all_in_memory(there.answer)), end.single, method, end.evaluations,
    )  # fmt: skip


def _is_an_end(of: Sought, extreme: str) -> bool:
    """Whether the end of the range is a real limit: the model's context, or one sequence."""
    return bool(of.ends) if extreme == "greatest" else of.whole


def _number(of: Sought, value: float) -> float | int:
    return int(value) * of.step if of.whole else float(value)


def _at(of: Sought, value: float) -> OpenQuestion:
    return of.at(int(value) if of.whole else float(value))


def _why(of: Sought, q: OpenQuestion, rows: Sequence[Met], value: float, unlimited: bool, extreme: str) -> str:
    number = _number(of, value)
    said = counted(number, of.knob.unit.removesuffix("s")) if of.whole else f"{number:,.6g} {of.knob.unit}"
    if unlimited:
        return f"nothing limits it: {said}, the {'most' if extreme == 'greatest' else 'least'} looked at, holds too"
    failing = [row for part, row in zip(q.condition.parts, rows, strict=True) if float(part.use(q.look)) > 1]
    exceeded = "; ".join(
        f"{k.metric} is {k.value if isinstance(k.value, str) else f'{k.value:.4g} {k.unit}'.strip()}" for k in failing
    )
    least = "most" if extreme == "least" else "least"
    return f"even the {least} looked at, {said}, does not do: {exceeded}" if exceeded else "no value looked at holds"
