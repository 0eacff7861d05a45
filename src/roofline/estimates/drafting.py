"""Drafted decoding of a server: what proposes tokens, what that takes, and in how many steps answers end.

A decode step verifies `length` drafts of each sequence and yields one token more than it accepts, P(A ≥ k) = a^k up to
`length` (arXiv:2211.17192). The steps of an answer are those after which the sum of such yields reaches its tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import ceil, sqrt

import numpy as np

from roofline.declared.maths import Count, is_array, least, most, where
from roofline.distinct import Array
from roofline.estimates.busy import busy_of, ranks_of
from roofline.estimates.generate import Speculation, decode_of, draft_plan, launched
from roofline.estimates.memory import Memory, largest
from roofline.estimates.plan import Plan
from roofline.estimates.settings import Setup
from roofline.estimates.span import Span
from roofline.machine.energy import Busy
from roofline.machine.engine import Engine
from roofline.model.precision import Precision
from roofline.work.step import Queries, decode
from roofline.work.step import replace as replaced

SUMMED = 4096
"""Tokens up to which the law of the steps is summed; beyond, it is its limit."""
QUANTILES = 512
"""Numbers of steps that stand for those of all answers."""


@dataclass(frozen=True)
class Drafting:
    """A server that speculates: `asked` is the model that verifies.

    The tokens are proposed before a decode step, each by a decode step of the draft, which takes prompts too when the
    model does.
    """

    asked: Setup
    speculation: Speculation

    @property
    def width(self) -> int:
        """Tokens that a decode step brings for each sequence."""
        return self.speculation.length + 1

    @property
    def chances(self) -> tuple[float, int]:
        """What the law of the steps depends on."""
        return self.speculation.acceptance, self.speculation.length

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of a step that proposes; None where n-grams do."""
        return draft_plan(self.asked, self.speculation)

    # -- time ------------------------------------------------------------------------------------------------------
    def proposed(self, decodes: Count, context: Count) -> Span:
        """Seconds in which all drafts of a step are proposed to so many sequences."""
        if self.plan is None:
            seconds = self.asked.engine.looks_up(decodes, context)
            return Span(0.0, seconds, seconds, seconds)
        step = launched(self.plan, decode_of(decodes, context, 1), self.asked.engine.host(decodes))
        return step.times(self.speculation.length)

    def work(self, decodes: Count, context: Count) -> Busy:
        """What proposing all drafts of a step does to the units of the chips of a group, together."""
        if self.plan is None:
            return Busy()
        ranks = 1 if self.speculation.draft is not None else ranks_of(self.asked)
        return busy_of(self.plan.total(decode_of(decodes, context, 1))).times(self.speculation.length * ranks)

    def prompt_work(self, cached: Count, new: Count) -> Busy:
        """The same of a prompt of so many new tokens."""
        if self.plan is None:
            return Busy()
        ranks = 1 if self.speculation.draft is not None else ranks_of(self.asked)
        return busy_of(self.plan.total(replaced(decode(1, 1), (Queries(cached, new, 1),)))).times(ranks)

    def steps(self, tokens: Count) -> Count:
        """The mean number of steps in which so many tokens come."""
        return expected_steps(self.speculation, tokens)

    def varied(self, tokens: Count) -> Count:
        """The variance of the number of those steps, over the square of its mean: σ²/μn in the limit."""
        mean, square = _moments(self.speculation)
        return (square - mean * mean) / mean / np.maximum(tokens, 1)

    # -- memory ----------------------------------------------------------------------------------------------------
    @property
    def _formats(self) -> Precision:
        draft = self.speculation.draft
        return self.asked.formats if draft is None else draft.precision

    @property
    def weights(self) -> float:
        """Bytes of the draft's weights on a rank that has them; embedding and head of draft layers are the model's."""
        plan, formats = self.plan, self._formats
        if plan is None:
            return 0.0
        if self.speculation.draft is not None:
            return float(plan.rank.weight_bytes(formats))
        return float(sum(formats.weight_bytes(module) for block in plan.rank.layers for module in block.modules))

    def cache(self, tokens: Count) -> Count:
        """Bytes of the draft's cache and state of a sequence of so many tokens."""
        if self.plan is None:
            return 0.0
        rank, formats = self.plan.rank, self._formats
        return formats.kv.bytes(rank.kv_elements(tokens)) + rank.state_bytes(formats)


def memory_with(asked: Setup, drafting: Drafting | None, sequences: Count, tokens: Count, new: Count = 0) -> Memory:
    """What the fullest rank needs for so many sequences of so many tokens, by the engine's rule, a draft included.

    A draft's weights and cache take some of the memory, and tokens that are proposed have their places. `new`: new
    tokens of the step that is asked for, where it is larger than the engine's.
    """
    if drafting is None:
        return asked.holding.memory(((sequences, tokens),), new)
    longer = tokens + drafting.speculation.length
    plain, weights = asked.holding.memory(((sequences, longer),), new), drafting.weights
    left = None if plain.budget is None else plain.budget - weights
    cache = plain.cache + sequences * drafting.cache(longer)
    return replace(plain, weights=plain.weights + weights, cache=cache, budget=left)


def sequences_held(asked: Setup, drafting: Drafting | None, tokens: Count, limit: Count) -> Count:
    """Sequences of so many tokens that a replica's memory holds, its draft's included, at most `limit` and those that
    the engine runs; 0 where not one fits."""
    if drafting is None:
        return asked.holding.most_sequences(tokens, limit)
    limit = least(limit, asked.engine.most_running)
    shape = np.broadcast_shapes(np.shape(tokens), np.shape(limit), asked.layout.shape)
    whole = np.broadcast_to(limit, shape) if shape else limit
    return largest(lambda number: memory_with(asked, drafting, number, tokens).fits, whole)


def running_at_once(engine: Engine, groups: Count, width: int) -> Count:
    """The most sequences of one of so many groups in a step, whose tokens are enough for `width` of each."""
    running = np.maximum(1, engine.most_running // groups)
    if width > 1:
        running = np.minimum(running, max(1, engine.chunk // width))
    return running if is_array(groups) else int(running)


MOST_IN_FLIGHT = 2**20
"""No server is looked at with more requests of a replica in its memory."""


def places_of(asked: Setup, drafting: Drafting | None, context: Count, whole: Count) -> Count:
    """Requests of a group of ranks that run at once: those that the engine runs and the memory holds.

    An engine that `reserves` holds `whole`, as many as there is memory for at their last token. Another lets one begin
    where there is memory for its prompt: as many run as there is memory for with the mean `context` of those that
    decode. Where not one fits, as many as on chips with more.
    """
    groups, width = asked.layout.pp, 1 if drafting is None else drafting.width
    running = least(MOST_IN_FLIGHT, running_at_once(asked.engine, groups, width))
    fitting = whole if asked.engine.reserves else sequences_held(asked, drafting, context, MOST_IN_FLIGHT)
    return where(whole < 1, running, most(1, least(running, fitting // groups)))


# -- the law of the steps ------------------------------------------------------------------------------------------
def yields(speculation: Speculation) -> Array:
    """The chances that a step yields one token, two, … up to length + 1: (1 − a)·a^(k − 1), and a^length of all."""
    a, length = speculation.acceptance, speculation.length
    chances = a ** np.arange(length + 1.0)
    return np.asarray(np.append(chances[:-1] * (1 - a), chances[-1]))


def expected_steps(speculation: Speculation, tokens: Count) -> Count:
    """The mean number of steps that yield so many tokens: m(n) = 1 + Σ q_k·m(n − k), 0 of none.

    Beyond `SUMMED` tokens n/μ + E[X² − X]/2μ², off by less than a step (the renewal theorem; Feller, An Introduction to
    Probability Theory and Its Applications, vol. 1, XIII).
    """
    each = _mean_steps(speculation.acceptance, speculation.length)
    if speculation.acceptance == 1:
        beyond = np.ceil(np.asarray(tokens) / (speculation.length + 1))
    else:
        mean, twice = _moments(speculation)
        beyond = np.asarray(tokens) / mean + (twice - mean) / (2 * mean * mean)
    steps = np.where(np.asarray(tokens) <= SUMMED, each[np.minimum(tokens, SUMMED)], beyond)
    return np.asarray(steps) if is_array(tokens) else float(steps)


def _moments(speculation: Speculation) -> tuple[float, float]:
    """E[X] and E[X²] of the tokens that a step yields."""
    chances = yields(speculation)
    numbers = np.arange(1.0, len(chances) + 1)
    return float(chances @ numbers), float(chances @ numbers**2)


@cache
def _mean_steps(acceptance: float, length: int) -> Array:
    chances = yields(Speculation(acceptance, length))[::-1]
    means = np.zeros(length + 1 + SUMMED + 1)
    for n in range(length + 2, len(means)):
        means[n] = 1 + chances @ means[n - length - 1 : n]
    return means[length + 1 :]


@cache
def step_quantiles(acceptance: float, length: int, tokens: int) -> Array:
    """The numbers of steps of `QUANTILES` answers of so many tokens, each as likely as the others, in order.

    Beyond `SUMMED` tokens normal, with a variance of σ²·n/μ³.
    """
    speculation = Speculation(acceptance, length)
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    if acceptance in (0, 1) or not tokens:
        return np.full(QUANTILES, ceil(tokens / speculation.tokens_per_step))
    if tokens > SUMMED:
        from statistics import NormalDist  # rarely needed, and slow to import

        mean, twice = _moments(speculation)
        normal = NormalDist(float(expected_steps(speculation, tokens)), sqrt((twice - mean**2) * tokens / mean**3))
        return np.rint([normal.inv_cdf(p) for p in shares]).astype(int)
    chances, after = np.append(0.0, yields(speculation)), np.ones(1)
    over: list[float] = []  # P(N ≤ n): that the sum of n yields has reached the tokens
    while not over or over[-1] < shares[-1]:
        over.append(1 - float(after.sum()))
        after = np.convolve(after, chances)[:tokens]
    return np.searchsorted(over, shares)
