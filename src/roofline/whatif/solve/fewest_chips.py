"""The fewest chips with a legal layout that keeps the requirements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.bracketing import adjacent, spread
from roofline.hardware.cluster import cluster_named
from roofline.inference.deployment import Machine, is_several
from roofline.inference.settings import setup
from roofline.layout.layout import Layout
from roofline.whatif.query.query import OpenQuestion
from roofline.whatif.query.questions import all_in_memory
from roofline.whatif.search.serving.layouts import serving_layouts
from roofline.whatif.solve.solution import Solution, binding_of, requirement_rows

MOST_CHIPS = 512
"""Maximum number of chips by default."""


@dataclass(frozen=True)
class Candidate:
    """An evaluated layout: its chips, and how much of the limits it uses."""

    layout: Layout
    chips: int
    use: float


def fewest_chips(q: OpenQuestion, on: Machine, most: int) -> Solution:
    """The fewest chips over the layouts of `serving_layouts`, and over replicas of those without expert parallelism.

    Among layouts with equally many chips, the one that uses least of the limits. `beyond`: the best with fewer chips.
    """
    room = _room(on, most)
    every = _looked(q, on, room)
    enough = [c for c in every if c.use <= 1]
    best = min(enough, key=lambda c: (c.chips, c.use), default=None)
    fewer = [c for c in every if best is None or c.chips < best.chips]
    next_to = min(fewer, key=lambda c: c.use, default=None)
    at = best or next_to
    if at is None:
        raise InputError("chips", most, "enough for one layout that divides")
    there = _under(q, on, at.layout)
    outside = None if next_to is None or best is None else _under(q, on, next_to.layout)
    rows = requirement_rows(there, outside)
    why = "" if best else f"even the best of {len(every)} layouts of at most {room} chips, {at.layout.text()}, does not"
    return Solution(
        there.asked, q.subject, "chips", "least", tuple(part.text for part in q.condition.parts), "",
        None if best is None else best.chips, "chips", None if outside is None or next_to is None else next_to.chips,
        1, None if outside is None else binding_of(q, rows, outside), rows,
        None if best is None else bool(all_in_memory(there.answer)), True, "legal layouts", len(every), why,
    )  # fmt: skip


def on_chips(q: OpenQuestion, on: Machine, most: int) -> Iterator[Callable[[], OpenQuestion]]:
    """The query as it is, then with every layout that is evaluated.

    Raises InputError for training, and where a layout is given.
    """
    if q.subject == "train":
        raise InputError("find", "chips", "inference: of training every layout is another question")
    if not q.asked.deployment.chosen and q.asked.layout.chips != 1:
        raise InputError("layout", q.asked.layout.text(), "nothing: every legal one is looked at")
    yield lambda: q
    for layout in _layouts(q, on, _room(on, most)):
        yield partial(_under, q, on, layout)


def _room(on: Machine, most: int) -> int:
    return min(most, cluster_named(on).chips) if is_several(on) else most


def _layouts(q: OpenQuestion, on: Machine, room: int) -> tuple[Layout, ...]:
    def holds(layout: Layout) -> bool:
        n = q.numbers
        tokens = n["context"] + 1 if "context" in n else n["input"] + n.get("output_tokens", 0)
        return bool(_under(q, on, layout).asked.holding.fits(1, tokens))

    return serving_layouts(q.model, on, room, holds)


def _looked(q: OpenQuestion, on: Machine, room: int) -> tuple[Candidate, ...]:
    """Every layout by itself, those of the fewest chips first, then as many replicas as needed and possible.

    Replicas are tried at four numbers per doubling, then to the exact number, up to the fewest chips known to suffice.
    """
    known: dict[Layout, Candidate] = {}

    def look(layout: Layout) -> Candidate:
        if layout not in known:
            known[layout] = Candidate(layout, int(layout.chips), _use(_under(q, on, layout)))
        return known[layout]

    def fewest() -> int:
        return min((c.chips for c in known.values() if c.use <= 1), default=room)

    legal = sorted(_layouts(q, on, room), key=lambda x: int(x.chips))
    for layout in legal:
        look(layout)
    for layout in (x for x in legal if x.ep == 1 and x.dp == 1):

        def does(sizes: Array, layout: Layout = layout) -> Array:
            return np.array([look(replace(layout, dp=int(size))).use <= 1 for size in sizes])

        fails = 1
        for n in spread(1, max(1, room // int(layout.chips))).tolist():
            if n * int(layout.chips) > fewest() or (n == 1 and look(layout).use <= 1):
                break
            if look(replace(layout, dp=n)).use <= 1:
                adjacent(n, fails, does)
                break
            fails = n
    return tuple(known.values())


def _use(q: OpenQuestion) -> float:
    """How much of the limits a layout uses; infinite where it has no answer."""
    try:
        return float(q.use)
    except InputError:  # a rate above the maximum, or a number of chips that no machine has
        return float("inf")


def _under(q: OpenQuestion, on: Machine, layout: Layout) -> OpenQuestion:
    return q.under(setup(q.model, **{**q.others, "on": on, "layout": layout}))
