"""Two-batch overlap: while one half of a batch exchanges tokens with the experts, the other computes.

The sequences of a step are halved (DeepSeek-V3, arXiv:2412.19437 §3.4; SGLang's two-batch overlap). For one layer, a
half computes for c seconds and its dispatch and combine take x. The layer then takes

    max(2x, 2c + 2fx)

where f is the share of the chip that the exchange kernels occupy during the products: 20 multiprocessors (of the 132 of
an H800, arXiv:2412.19437 §3.5). At both ends of the step one half runs alone, which adds min(c, x) once a step. A layer
without an exchange takes 2c.

Halves read all weights twice and have smaller products. Where that costs more than it hides, or where there is only one
sequence, the step is not split, so that overlap never makes a step slower.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from roofline.declared.numbers.maths import Count, least, most, where
from roofline.inference.plan import EMPTY, NUMBERS, Plan, Total
from roofline.kernels.deviation import Deviation
from roofline.work import ops as o
from roofline.work.step import Step

MULTIPROCESSORS = 20
"""Multiprocessors of DeepEP's kernels by default; assumed for decode too, whose kernels send and add up on them."""
ENDS_OF = ("expected", "low", "high", "floor")
"""Fields that follow the overlap law; the others are added up."""


@dataclass(frozen=True, eq=False)
class OverlappedPlan(Plan):
    """A plan whose steps run as two halves where that is faster."""

    def total(self, step: Step) -> Total:
        """The sum over all ops of a step: of two overlapped halves, or of the whole step where that is faster."""
        whole, halves = super().total(step), self._in_turn(step.of_replica(2))
        faster = halves.expected < whole.expected
        chosen = {name: where(faster, getattr(halves, name), getattr(whole, name)) for name in NUMBERS}
        graded = {
            grade: where(faster, halves.graded.get(grade, 0.0), whole.graded.get(grade, 0.0))
            for grade in {**whole.graded, **halves.graded}
        }
        return Total(**(chosen | {"floor": least(halves.floor, whole.floor)}), graded=graded)

    def _in_turn(self, half: Step) -> Total:
        """The total of two overlapped halves of a step."""
        parts = self.totals(half, by_exchange)
        layers: dict[str, Count] = {section: count for section, _, count in self.rank.placed()}
        both = EMPTY
        for part in parts.values():
            both = both + part.times(2)
        seconds = {name: self._law(parts, layers, name) for name in ENDS_OF}
        share = seconds["expected"] / where(both.expected > 0, both.expected, 1.0)
        expected, low, high, floor = (seconds[name] for name in ENDS_OF)
        together = both.with_error(Deviation(most(expected - low, 0.0), most(high - expected, 0.0)))
        return replace(
            together,
            expected=expected,
            floor=floor,
            graded={grade: share * value for grade, value in both.graded.items()},
        )

    def _taken(self, name: str) -> float:
        """The share f of the chip that exchanges occupy; 0 under an ideal law."""
        real = self.target.mode.name == "calibrated" and name != "floor"
        return MULTIPROCESSORS / (self.target.chip.units or 132) if real else 0.0

    def _law(self, parts: Mapping[Hashable, Total], layers: Mapping[str, Count], name: str) -> Count:
        """One field under the overlap law: its sum over layers plus the largest min(c, x) of a layer."""
        f = self._taken(name)
        seconds: Count = 0.0
        alone: Count = 0.0
        for section, count in layers.items():
            computed, exchanged = (getattr(parts.get((section, sends), EMPTY), name) for sends in (False, True))
            seconds = seconds + 2 * most(computed + f * exchanged, exchanged)
            alone = most(alone, least(computed, exchanged) / count)
        return seconds + alone


def by_exchange(section: str, op: o.Op, kind: str) -> Hashable:
    """Group ops by section of the model, and within it separate exchanges with experts from the rest."""
    return section, isinstance(op, o.Communicate) and op.collective in ("dispatch", "combine")
