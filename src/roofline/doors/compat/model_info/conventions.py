"""dump_model_info's conventions for the ops of its outline: FLOPs, traffic and time.

Each of its inaccuracies is a rule here: the full square of scores, in which a decoded token does not see itself; an
addition for each looked-up element; the whole embedding table read in every step; weights that move less than once;
experts drawn by a Poisson approximation; all FLOPs outside of products at a share of the matrix units' peak.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from roofline.declared.numbers.maths import Count, ceil_div, experts_visited, least, where
from roofline.doors.compat.model_info.rules import Rules
from roofline.model.formats import Format
from roofline.model.kind_table import KindTable
from roofline.model.model import Model
from roofline.model.modules import Part
from roofline.model.precision import Precision, uniform
from roofline.work import ops as o
from roofline.work.analysis import Analysis, OpCost, analyze
from roofline.work.counting import STANDARD, Counting, Formula, matmul_flops
from roofline.work.counting import not_counted as not_counted
from roofline.work.step import Queries, Step
from roofline.work.traffic import Factors, Moved, Traffic, TrafficRule
from roofline.work.traffic import nothing_moved as nothing_moved

FINEST = 10**6
RESIDENCY: dict[Part, int] = {
    "attention": 0, "other": 0, "ffn": 1, "embedding": 1, "head": 1, "router": 2, "experts": 2
}  # fmt: skip
"""Part of a layer → which of the three divisors applies to its weights; norms use that of attention."""


@dataclass(frozen=True)
class Convention:
    """Rules on one of `ep` ranks. `attention`: factor on the FLOPs and weights of attention, a knob of the report."""

    rules: Rules
    ep: int = 1
    attention: float = 1.0

    # -- FLOPs -----------------------------------------------------------------------------------------------------
    def product(self, op: o.MatMul) -> Count:
        """2·m·k·n, times the knob in attention; for the embedding one addition per element, m·n."""
        if op.part == "embedding":
            return op.m * op.n
        return self._knob(op.part, matmul_flops(op))

    def attend(self, op: o.Attend) -> Count:
        """heads·(2·qk_dim + 1 + 2·v_dim)·square: the softmax counts 1, and the mask saves nothing."""
        return self._knob("attention", op.heads * (2 * op.qk_dim + 1 + 2 * op.v_dim) * square(op))

    def _knob(self, part: Part, value: Count) -> Count:
        return value if self.attention == 1 or part not in ("attention", "other") else self.attention * value

    # -- elements that move ----------------------------------------------------------------------------------------
    def weight(self, part: Part, elements: Count) -> Count:
        """Elements divided by the residency of their part, times the knob in attention."""
        divisor = self.rules.residency[RESIDENCY[part]]
        return self._knob(part, elements if divisor == 1 else elements / divisor)

    def move_product(self, op: o.MatMul) -> Moved:
        """The matrix and, outside of attention, input and output; a gate counts as two products."""
        weight = self.weight(op.part, op.weight)
        if op.part == "attention":
            return Moved(weight)
        taken = 0 if op.part == "embedding" else (2 if op.gated else 1) * op.input
        return Moved(weight, input=taken, output=op.output)

    def move_experts(self, op: o.ExpertMatMul) -> Moved:
        """Matrices of the visited experts, with input and output as in a product."""
        weight = self.weight(op.part, op.k * op.n * self.touched(op))
        return Moved(weight, input=(2 if op.gated and op.up else 1) * op.input, output=op.output)

    def move_attention(self, op: o.Attend) -> Moved:
        """Prefill writes the visible cache; decode reads it and adds its own token.

        Scores and probabilities of all pairs move; with flash attention one value per row.
        """
        width, (query,) = op.kv_width, op.step.queries
        kept = width * query.count * seen(op, query)
        scratch = op.heads * (op.tokens if self.rules.flash else 2 * square(op))
        return Moved(
            cache_read=where(query.cached > 0, kept, 0), cache_write=least(op.cache_write, kept), scratch=scratch
        )

    def move_norm(self, op: o.Normalise) -> Moved:
        """Weights of norms inside attention."""
        return Moved(vector=self.weight("other", op.vector))

    # -- experts ---------------------------------------------------------------------------------------------------
    def largest_share(self, op: o.ExpertMatMul) -> Count:
        """Experts on the fullest rank, ⌈E / ep⌉."""
        return ceil_div(op.experts, self.ep)

    def touched(self, op: o.ExpertMatMul) -> Count:
        """Distinct experts on a rank that T tokens of each of `ep` ranks visit, of E_r = ⌈E / ep⌉ experts.

        Poisson: E_r·(1 − e^(−T·k / E_r)); exact: E_r·(1 − (1 − k/E)^(T·ep)).
        """
        own = self.largest_share(op)
        if self.rules.poisson:
            return own * (1 - math.e ** (-op.m / own))
        return own * experts_visited(op.experts, op.top_k, op.tokens * self.ep) / op.experts

    # -- time ------------------------------------------------------------------------------------------------------
    def realizable(self, category: str, costs: Sequence[OpCost]) -> float:
        """FLOPs of a category in units of peak: F·e/η + F·(1 − e)/scalar, η = min(1, rows / saturation)."""
        flops, tensor = float(sum(cost.flops for cost in costs)), dict(self.rules.tensor)[category]
        busy = min(1.0, self.rows(costs) / self.rules.saturation)
        return flops * tensor / busy + flops * (1 - tensor) / self.rules.scalar

    def rows(self, costs: Sequence[OpCost]) -> int:
        """Rows of a category's products without the router's, weighted by FLOPs and rounded."""
        rows = [(float(cost.flops), self._rows(cost.op)) for cost in costs if self._rows(cost.op)]
        return max(1, round(sum(f * n for f, n in rows) / sum(f for f, _ in rows)))

    def _rows(self, op: o.Op) -> float:
        if isinstance(op, o.ExpertMatMul):
            return float(op.m / self.touched(op))
        return float(op.m) if isinstance(op, o.MatMul) and op.part != "router" else 0.0


def seen(op: o.Attend, query: Queries) -> Count:
    """Keys visible to a query's last token, within its window; in a decode only those before it."""
    length = where(query.cached > 0, query.cached, query.new)
    return op.pairs_of(Queries(length - 1, 1))


def square(op: o.Attend) -> Count:
    """Pairs of every token and all keys visible to the last one."""
    return op.step.total(lambda q: q.new * seen(op, q))


@lru_cache(maxsize=1024)
def counting(c: Convention) -> Counting:
    """The FLOP counting rules."""
    table: KindTable[Formula] = KindTable("dump_model_info counting", o.Op, base=STANDARD.formulas)
    table.add(c.product, o.MatMul)
    table.add(c.attend, o.Attend)
    table.add(not_counted, o.Normalise, o.Activate, o.Sum, o.Choose)
    return Counting(f"dump_model_info {c.rules.name}", "products, the full square, softmax 1", table)


@lru_cache(maxsize=1024)
def traffic(c: Convention) -> Traffic:
    """The traffic rules, with the shares of activations and scores that remain."""
    table: KindTable[TrafficRule] = KindTable("dump_model_info traffic", o.Op)
    table.add(c.move_product, o.MatMul)
    table.add(c.move_experts, o.ExpertMatMul)
    table.add(c.move_attention, o.Attend)
    table.add(c.move_norm, o.Normalise)
    table.add(_stream, o.Sum)
    table.add(nothing_moved, o.Activate, o.Choose, o.Communicate)
    factors = Factors(activations=c.rules.fusion, scratch=c.rules.elementwise)
    return Traffic(f"dump_model_info {c.rules.name}", "weights over their residency", table, factors=factors)


def _stream(op: o.Sum) -> Moved:
    """The residual stream as often as the outline says; summing the rows of experts moves nothing."""
    return Moved() if op.weighted else Moved(input=op.elements)


@lru_cache(maxsize=1024)
def widths(rules: Rules) -> Precision:
    """Formats with exactly the widths of the rules."""

    def wide(width: float) -> Format:
        return Format(f"{width:g} B", 8 * Fraction(width).limit_denominator(FINEST))

    every = uniform(wide(rules.weight_bytes))
    return replace(every, activations=wide(rules.activation_bytes), kv=wide(rules.cache_bytes))


def work(outline: Model, step: Step, c: Convention) -> Analysis:
    """A step of an outline under the conventions."""
    own: Analysis = analyze(outline, step, counting=counting(c), traffic=traffic(c), precision=widths(c.rules))
    return own
