"""Step times for the scheduler of a simulation, looked up in tables that a plan fills once.

Matmuls, norms and collectives depend only on the new tokens of a step, the head only on its sequences: both are lists,
exact at every integer. Attention is the sum of its kernels: all decodes together at their mean context, and each prompt
chunk by its cached and new tokens. Both are tables on geometric grids, interpolated linearly; between grid points they
are nearly linear.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import root
from roofline.inference.plan import EMPTY, Plan
from roofline.work.step import Queries, Step, logits_alone, prefill, tokens_alone, tokens_and_phase
from roofline.work.step import replace as changed

COUNTED = (tokens_alone, tokens_and_phase, logits_alone)
"""Views of a step for modules whose time does not depend on contexts."""
SPACING = 2**0.25
"""Ratio of neighbouring grid points. Linear interpolation of n² is off by at most 0.9 %, of n exact."""
FIRST = 32
"""Grids contain every integer up to this one."""


@dataclass(frozen=True, eq=False)
class Surface:
    """A function of two variables on a grid, interpolated linearly. `values[i][j]` is at `rows[i]`, `columns[j]`."""

    rows: list[float]
    columns: list[float]
    values: list[list[float]]

    def at(self, row: float, column: float) -> float:
        """The value at a point; beyond the grid it is extrapolated from the last cell."""
        i, a = _place(self.rows, row)
        j, b = _place(self.columns, column)
        low, high = self.values[i], self.values[i + 1]
        before = low[j] + b * (low[j + 1] - low[j])
        return before + a * (high[j] + b * (high[j + 1] - high[j]) - before)

    def row(self, row: float) -> list[float]:
        """The values along the columns at one row."""
        i, a = _place(self.rows, row)
        return [x + a * (y - x) for x, y in zip(self.values[i], self.values[i + 1], strict=True)]


def _place(points: list[float], value: float) -> tuple[int, float]:
    """The index of the cell that contains a value, and the position within it."""
    i = min(max(bisect_right(points, value) - 1, 0), len(points) - 2)
    return i, (value - points[i]) / (points[i + 1] - points[i])


class Counted(list[float]):
    """Seconds by a whole number of tokens or sequences, starting with 0 for none.

    Values up to `number` are computed at once; `at` extends the list on demand. An unlimited scheduler therefore costs
    no more than the sequences that it runs.
    """

    def __init__(self, seconds: Callable[[Array], Array], number: int) -> None:
        super().__init__([0.0])
        self._seconds = seconds
        self._until(number)

    def at(self, number: int) -> float:
        """Seconds for `number` tokens or sequences, without an upper limit."""
        if number >= len(self):
            self._until(max(number, 2 * len(self)))
        return self[number]

    def _until(self, number: int) -> None:
        self.extend(self._seconds(np.arange(len(self), number + 1, dtype=np.float64)).tolist())


@dataclass(frozen=True, eq=False)
class Decodes:
    """Steps of a fixed number of decodes by mean context: seconds, and their integral over the context."""

    contexts: list[float]
    seconds: list[float]
    until: list[float]

    def step(self, context: float) -> float:
        """Seconds of one step."""
        i, a = _place(self.contexts, context)
        return self.seconds[i] + a * (self.seconds[i + 1] - self.seconds[i])

    def steps(self, context: float, number: int, growth: float) -> float:
        """Seconds of consecutive steps, each `growth` tokens longer than the one before.

        Σ t(L + i·g) = ∫ t(x) dx / g from L − g/2 to L + (n − 1/2)·g: exact where t is linear.
        """
        start = context - growth / 2
        return (self._integral(start + number * growth) - self._integral(start)) / growth

    def number(self, context: float, seconds: float, growth: float) -> int:
        """The smallest number of steps that take at least this long."""
        start = context - growth / 2
        aim = self._integral(start) + seconds * growth
        i = min(max(bisect_right(self.until, aim) - 1, 0), len(self.until) - 2)
        left, t = aim - self.until[i], self.seconds[i]
        slope = (self.seconds[i + 1] - t) / (self.contexts[i + 1] - self.contexts[i])
        # t·x + slope·x²/2 = left, in the form that does not cancel
        into = 2 * left / (t + float(root(max(t * t + 2 * slope * left, 0.0))))
        steps = (self.contexts[i] + into - start) / growth
        return max(1, -int(-steps // 1) if steps - round(steps) > 1e-9 else round(steps))

    def _integral(self, context: float) -> float:
        i, _ = _place(self.contexts, context)
        into = context - self.contexts[i]
        slope = (self.seconds[i + 1] - self.seconds[i]) / (self.contexts[i + 1] - self.contexts[i])
        return self.until[i] + into * (self.seconds[i] + slope * into / 2)


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Expected seconds of the steps of one replica, host time included; see the module's docstring.

    `products[t]`: t new tokens, some of them of prompts. `decoding[b]`: b decodes. `heads[s]`: the head of s sequences.
    Products and heads are computed up to the scheduler's token budget, which a step with prompts never exceeds.
    `decodes`: attention by decodes and mean context; `prompts`: by new and cached tokens of a chunk. `shared`: seconds
    that only the first chunk of a step pays. `width`: tokens per decode, more than one where drafts are verified.
    `drafting`: step times of the draft model, which proposes all of them but one and computes prompts too; None for
    n-grams, which the host looks up in `lookup_s` per token of context.
    """

    products: Counted
    decoding: Counted
    heads: Counted
    decodes: Surface
    prompts: Surface
    shared: float
    sequence_s: float
    token_s: float
    step_s: float
    width: int = 1
    drafting: StepTimes | None = None
    lookup_s: float = 0.0
    _rows: dict[int, Decodes] = field(default_factory=dict, init=False, repr=False)

    def row(self, decodes: int) -> Decodes:
        """The decode-only steps of this many sequences."""
        row = self._rows.get(decodes)
        if row is None:
            row = self._rows[decodes] = self._row(decodes)
        return row

    def _row(self, decodes: int) -> Decodes:
        contexts = self.decodes.columns
        tokens = decodes * self.width
        products = self.decoding.at(tokens) if self.width == 1 else self.products.at(tokens)
        fixed = products + self.heads.at(tokens) + self._host(decodes, tokens)
        seconds = [fixed + t for t in self.decodes.row(decodes)]
        if self.width > 1:
            seconds = [t + self.proposed(decodes, c) for t, c in zip(seconds, contexts, strict=True)]
        parts = np.diff(contexts) * (np.array(seconds[:-1]) + np.array(seconds[1:])) / 2
        return Decodes(contexts, seconds, [0.0, *np.cumsum(parts).tolist()])

    def mixed(self, chunks: Sequence[tuple[int, int]], decodes: int, context: float) -> float:
        """Seconds of a step with prompt chunks, each (cached, new), and decodes of this mean context."""
        tokens, sequences = decodes * self.width, len(chunks) + decodes * self.width
        seconds = self.decodes.at(decodes, context) if decodes else 0.0
        if decodes and self.width > 1:
            seconds += self.proposed(decodes, context)
        new = sum(new for _, new in chunks)
        seconds += self._attending(chunks) + self.products[tokens + new] + self.heads[sequences]
        if self.drafting is not None:
            seconds += self.drafting._attending(chunks) + self.drafting.products[new] + self.drafting.heads[len(chunks)]
        return seconds + self._host(len(chunks) + decodes, tokens + new)

    def _attending(self, chunks: Sequence[tuple[int, int]]) -> float:
        """Seconds of the attention of prompt chunks."""
        seconds = once = 0.0
        for cached, new in chunks:
            alone = self.prompts.at(new, cached)
            shared = min(alone, self.shared)  # measured on long chunks; a short one takes at least 0 s
            once = max(once, shared)
            seconds += alone - shared
        return seconds + once

    def proposed(self, decodes: int, context: float) -> float:
        """Seconds to propose drafts for this many sequences."""
        if self.drafting is None:
            return self.lookup_s * decodes * context
        return (self.width - 1) * self.drafting.row(decodes).step(context)

    def _host(self, sequences: int, tokens: int) -> float:
        return self.step_s + self.sequence_s * sequences + self.token_s * tokens


def step_times(
    plan: Plan, most_tokens: int, most_running: int, longest: int, width: int = 1, draft: Plan | None = None
) -> StepTimes:
    """Step times of a plan, up to these numbers of new tokens and sequences, none longer than `longest`.

    `width`: tokens per decode. `draft`: the plan of the model that proposes all of them but one.
    """
    engine = plan.target.engine
    one = prefill(1, 1)

    def products(tokens: Array) -> Array:
        return _seconds(plan, changed(one, (Queries(0, tokens, 1),)), COUNTED[:2])

    def decoding(sequences: Array) -> Array:
        return _seconds(plan, changed(one, (Queries(1, 1, sequences),)), COUNTED[:2])

    def heads(sequences: Array) -> Array:
        return _seconds(plan, changed(one, (Queries(0, 1, sequences),)), COUNTED[2:])

    running, contexts = _spaced(most_running), _spaced(longest + width)
    new, cached = _spaced(min(most_tokens, longest)), [0.0, *_spaced(longest)]
    attending = tuple(view for view in plan.by_view(one) if view not in COUNTED)
    return StepTimes(
        Counted(products, most_tokens), Counted(decoding, min(most_running, most_tokens)), Counted(heads, most_tokens),
        _surface(plan, attending, running, contexts, lambda b, length: Queries(length, width, b)),
        _surface(plan, attending, new, cached, lambda fresh, before: Queries(before, fresh, 1)),
        _paid_once(plan, attending, min(most_tokens, longest)), engine.sequence_s, engine.token_s, engine.step_s, width,
        None if draft is None else step_times(draft, most_tokens, most_running, longest),
        float(engine.looks_up(1, 1)) if width > 1 and draft is None else 0.0,
    )  # fmt: skip


def _spaced(most: int) -> list[float]:
    """Grid points from 1 to at least `most`: every integer at first, then at a constant ratio; at least two."""
    numbers = list(range(1, min(most, FIRST) + 1)) or [1]
    while numbers[-1] < most or len(numbers) < 2:
        numbers.append(max(numbers[-1] + 1, round(numbers[-1] * SPACING)))
    return [float(n) for n in numbers]


def _seconds(plan: Plan, step: Step, views: Iterable[Any]) -> Array:
    """Expected seconds of the modules with some views, for each element of a step's arrays."""
    parts = plan.by_view(step)
    launch_s = plan.target.engine.launch_s
    total = sum((parts.get(view, EMPTY) for view in views), EMPTY)
    return np.maximum(total.expected, launch_s * np.asarray(total.launches)) + np.zeros(step.shape)


def _surface(plan: Plan, views: Sequence[Any], rows: list[float], columns: list[float], query: Any) -> Surface:
    down, across = np.meshgrid(np.array(rows), np.array(columns), indexing="ij")
    step = changed(prefill(1, 1), (query(down.reshape(-1), across.reshape(-1)),))
    values = _seconds(plan, step, views).reshape(down.shape)
    return Surface(rows, columns, values.tolist())


def _paid_once(plan: Plan, views: Sequence[Any], longest: int) -> float:
    """What two prompts in one step save compared with two separate steps, in seconds."""
    if longest < 2:
        return 0.0
    queries = (Queries(0, longest, 1), Queries(0, longest - 1, 1))
    steps = [changed(prefill(1, 1), q) for q in (queries[:1], queries[1:], queries)]
    first, second, both = (sum(plan.by_view(s).get(v, EMPTY).expected for v in views) for s in steps)
    return float(first + second - both)
