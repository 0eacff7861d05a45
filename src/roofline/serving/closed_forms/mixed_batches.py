"""Seconds of mixed batches of k decodes and b prompts, on a grid of both.

Matrix products, norms and collectives process all new tokens of a step together. The attention of each prompt is
separate, so that b prompts take b times as long there, except for the fixed cost of a kernel, which is paid once. That
cost is derived from long chunks and is at most the whole time of a short one, as in `simulate`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count
from roofline.inference.overlap import OverlappedPlan
from roofline.inference.plan import EMPTY, Plan
from roofline.serving.closed_forms.batches import normal_share
from roofline.work.step import Queries, Step, View, decode, logits_alone, tokens_alone, tokens_and_phase
from roofline.work.step import replace as changed

COUNTED = (tokens_alone, tokens_and_phase, logits_alone)
"""Views of a step that do not depend on the contexts of its queries."""


@dataclass(frozen=True)
class Prompts:
    """Chunks of prompts: mean `new` tokens after `cached` ones; `longest`: tokens of the longest chunk.

    `varied`: squared coefficient of variation of both numbers.
    """

    new: Count
    cached: Count
    longest: Count
    varied: Count = 0.0

    def drawn(self, together: Count) -> tuple[Count, Count]:
        """`cached` and `new` of three chunks, along a first axis, whose weighted mean stands for `together` chunks."""
        if not np.any(self.varied):
            return self.cached, self.new
        factors = unequal(np.asarray(self.varied) / together)
        return np.rint(self.cached * factors), np.maximum(np.rint(self.new * factors), 1)


def chunked(new: Array, cached: Count, most: Count, longest: Count, varied: Count = 0.0) -> tuple[Array, Prompts]:
    """The number of chunks of at most `most` tokens in a mean prompt of `new` tokens, and the mean chunk.

    `cached`: tokens found in the prefix cache. `longest`: tokens of the longest sequence. `varied`: squared coefficient
    of variation of lengths. Longer prompts have more chunks, so that (1 + v)·new/2 tokens are before the middle of one.
    """
    chunks = np.ceil(new / most)
    each = np.ceil(new / chunks)
    begun = np.floor(np.where(chunks > 1, (1 + np.asarray(varied)) * new - each, 0.0) / 2)
    prompts = Prompts(each, cached + begun, np.minimum(most, longest), np.where(chunks > 1, 0.0, varied))
    return chunks, prompts


COUNTED_STEPS, MANY = 32, 8
"""Steps of a prompt that are counted one by one, and how many it has on average from which on they are not."""


def prompt_steps(new: Array, most: Count, varied: Count) -> Array:
    """Mean number of steps that a lone prompt takes, ⌈L/most⌉ for lognormal lengths L: Σ P(L > k·most), k ≥ 0.

    Of many it is half a step more than the mean length over `most`.
    """
    square = np.log1p(np.asarray(varied, dtype=float))
    deviation, mean = np.sqrt(np.maximum(square, 1e-12)), np.asarray(new / most, dtype=float)
    k = np.arange(1.0, COUNTED_STEPS).reshape(-1, *(1 for _ in np.broadcast_shapes(mean.shape, square.shape)))
    counted = 1 + normal_share((np.log(mean / k) - square / 2) / deviation).sum(axis=0)
    return np.where(square > 0, np.where(mean < MANY, counted, mean + 0.5), np.ceil(mean))


LENGTHS, PIECES, FARTHEST = 9, 12, 2.4
"""Lengths of prompts whose chunks are looked at, chunks of each of them, and standard deviations of the longest."""


@dataclass(frozen=True)
class Pieces:
    """Chunks of prompts of different lengths, sorted by time: `seconds` of each, and how many of it a mean prompt has.

    The first axis is that of the chunks.
    """

    seconds: Array
    numbers: Array

    @property
    def each(self) -> Array:
        """Chunks of a prompt, on average."""
        return np.asarray(self.numbers.sum(axis=0))

    def slowest(self, ranks: Array) -> Array:
        """Mean seconds of the slowest chunk of one on each of so many ranks: Σ t·(F(t)ⁿ − F(t−)ⁿ)."""
        upto = np.cumsum(self.numbers, axis=0) / self.each
        chance = np.diff(upto**ranks, axis=0, prepend=0.0)
        return np.asarray((self.seconds * chance).sum(axis=0))


def pieces_of(
    seconds: Callable[[Prompts], Array],
    new: Array,
    cached: Count,
    most: Count,
    longest: Count,
    varied: Count,
    splits: bool,
) -> Pieces:
    """Chunks of at most `most` tokens of prompts of lognormal lengths, `new` tokens on average; as for `chunked`.

    `longest`: tokens of the longest that the context holds. `seconds`: of a step with such a chunk. `splits`: another
    prompt fills what the last chunk of one leaves of a step.
    """
    square = np.log1p(np.asarray(varied, dtype=float))
    z = np.linspace(-FARTHEST, FARTHEST, LENGTHS).reshape(-1, 1, *(1 for _ in new.shape))
    factors, weights = np.exp(z * np.sqrt(square)), np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
    lengths = np.clip(np.rint(new * factors / (weights * factors).sum(axis=0)), 1.0, longest)
    number = np.ceil(lengths / most)
    stride = np.maximum(number / PIECES, 1.0)
    begins = np.arange(PIECES).reshape(-1, *(1 for _ in new.shape)) * stride
    before = np.floor(begins) * most
    tokens = np.clip(lengths - before, 0.0, most)
    part = tokens / most if splits else np.asarray(tokens > 0, dtype=float)
    numbers = (weights * stride * part).reshape(-1, *new.shape)
    size = most + 0 * tokens if splits else np.maximum(tokens, 1.0)
    each = seconds(Prompts(size.reshape(-1, *new.shape), cached + before.reshape(-1, *new.shape), most))
    each = np.broadcast_to(each, numbers.shape)
    order = np.argsort(each, axis=0)
    return Pieces(np.take_along_axis(each, order, axis=0), np.take_along_axis(numbers, order, axis=0))


WEIGHTS = np.array([1 / 6, 2 / 3, 1 / 6])
"""Gauss–Hermite weights of three points of a normal distribution."""
WIDE = 5.0
"""Largest mean square of lengths, in squared means, that three points have."""


def unequal(varied: Count) -> Array:
    """Three lengths whose weighted mean is 1 and whose squared coefficient of variation is given, [3, …].

    The logarithms are a apart, as at the points of a normal distribution. With c = cosh a the mean of e^(−a), 1 and e^a
    is (2 + c)/3 and their mean square (1 + 2c²)/3, which gives c. The seconds of attention grow with the square of a
    length, so that its mean has to be exact.

    >>> unequal(0.25).round(3).tolist(), round(float(WEIGHTS @ unequal(0.25) ** 2), 9)
    ([0.39, 0.892, 2.04], 1.25)
    """
    square = np.minimum(1 + np.asarray(varied, dtype=float), WIDE)
    cosh = (2 * square + 3 * np.sqrt(3 * square - 2)) / (6 - square)
    apart = np.arccosh(np.maximum(cosh, 1.0))
    factors = np.exp(apart * np.arange(-1.0, 2.0).reshape(-1, *(1 for _ in square.shape)))
    return np.asarray(factors / np.tensordot(WEIGHTS, factors, 1))


def mean_of(values: Array, varied: Count) -> Array:
    """The weighted mean over the three points; the value itself where lengths do not vary."""
    return np.tensordot(WEIGHTS, values, 1) if np.any(varied) else values


def mixed_seconds(
    plan: Plan,
    chunks: Prompts,
    prompts: Count,
    context: Count,
    decodes: Count,
    width: int = 1,
    draft: Plan | None = None,
) -> Array:
    """Expected seconds of steps with chunks of at least one prompt and any number of decodes; host time included.

    Arguments broadcast, those of the layout on the last axes. `width`: tokens of each decode, all of which have logits.
    `draft`: the plan of the draft model, which computes the prompts too.
    """
    engine = plan.target.engine
    seconds = _step_seconds(plan, chunks, prompts, context, decodes, width)
    if draft is not None:
        seconds = seconds + _step_seconds(draft, chunks, prompts, context, 0, 1)
    return seconds + engine.host(prompts + decodes, prompts * chunks.new + width * decodes)


def _step_seconds(plan: Plan, chunks: Prompts, prompts: Count, context: Count, decodes: Count, width: int) -> Array:
    """Seconds of these steps without the host."""
    one = decode(1, 1)
    chunk, single = (Queries(*chunks.drawn(n), n) for n in (prompts, 1))
    beside = Queries(context, width, decodes)
    step = changed(one, (chunk, beside))
    added: Count = 0.0
    if width > 1:
        head = _views(plan, _is_head)
        added = head(_tokens(prompts + width * decodes)) - head(_tokens(prompts + decodes))
    if isinstance(plan, OverlappedPlan):
        return np.asarray(mean_of(_launched(plan, plan.total(step)), chunks.varied) + added)
    counted, rest = _views(plan, COUNTED.__contains__), _views(plan, lambda view: view not in COUNTED)
    first = mean_of(rest(changed(one, (single,))), chunks.varied)
    long = (Queries(0, chunks.longest, 1), Queries(0, np.maximum(chunks.longest - 1, 1), 1))
    once = sum(rest(changed(one, (query,))) for query in long) - rest(changed(one, long))
    attention = first + (prompts - 1) * np.maximum(first - once, 0.0)
    others = rest(changed(one, (replaced(beside, np.maximum(decodes, 1)),)))
    return np.asarray(
        mean_of(counted(step), chunks.varied) + attention + np.where(np.asarray(decodes) > 0, others, 0.0) + added
    )


def replaced(query: Queries, count: Count) -> Queries:
    """The query with another count."""
    return Queries(query.cached, query.new, count)


def _tokens(number: Count) -> Step:
    """A step of `number` tokens, each with logits."""
    return changed(decode(1, 1), (Queries(0, 1, number),))


def _is_head(view: View[Step]) -> bool:
    return view is logits_alone


def _views(plan: Plan, wanted: Callable[[View[Step]], bool]) -> Callable[[Step], Array]:
    """Expected seconds of the modules whose view of a step is wanted, as a function of the step."""
    return lambda step: np.asarray(_launched(plan, sum(plan.by_view(step, wanted).values(), EMPTY)))


def _launched(plan: Plan, total: Any) -> Any:
    return np.maximum(total.expected, plan.target.engine.launch_s * np.asarray(total.launches))
