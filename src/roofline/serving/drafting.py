"""Speculative decoding on a server: what drafts tokens, what drafting costs, and how many steps an answer takes.

A decode step verifies `length` drafts of each sequence. It accepts A of them, with P(A ≥ k) = a^k up to `length`, and
yields A + 1 tokens (arXiv:2211.17192). An answer ends in the step in which the sum of these yields reaches its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil, sqrt

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, is_array, least, most, where
from roofline.engines.engine import Engine
from roofline.inference.cost.busy import busy_of, ranks_of
from roofline.inference.generate import Speculation, decode_of, draft_plan, launched
from roofline.inference.memory.memory import Memory, largest
from roofline.inference.plan import Plan
from roofline.inference.settings import Setup
from roofline.inference.span import Span
from roofline.kernels.power import Busy
from roofline.model.precision import Precision
from roofline.work.step import Queries, decode
from roofline.work.step import replace as replaced

SUMMED = 4096
"""Answer length, in tokens, up to which the distribution of the number of steps is exact; beyond, its limit is used."""
QUANTILES = 512
"""Size of the sample of step numbers that represents all answers."""


@dataclass(frozen=True)
class Drafting:
    """A server with speculative decoding. `asked`: the setup of the model that verifies.

    Before a decode step, the draft model proposes each token in a decode step of its own. It computes a prompt when the
    verifying model does.
    """

    asked: Setup
    speculation: Speculation

    @property
    def width(self) -> int:
        """Tokens that a decode step computes for each sequence: the drafts and one more."""
        return self.speculation.length + 1

    @property
    def chances(self) -> tuple[float, int]:
        """The acceptance and the length, which determine the distribution of the number of steps."""
        return self.speculation.acceptance, self.speculation.length

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of a step that proposes a token; None where n-grams propose them."""
        return draft_plan(self.asked, self.speculation)

    # -- time ------------------------------------------------------------------------------------------------------
    def proposed(self, decodes: Count, context: Count) -> Span:
        """Seconds to propose all drafts of a step for `decodes` sequences."""
        if self.plan is None:
            seconds = self.asked.engine.looks_up(decodes, context)
            return Span(0.0, seconds, seconds, seconds)
        step = launched(self.plan, decode_of(decodes, context, 1), self.asked.engine.host(decodes))
        return step.times(self.speculation.length)

    def work(self, decodes: Count, context: Count) -> Busy:
        """Work of all chips of a group together to propose all drafts of a step."""
        if self.plan is None:
            return Busy()
        ranks = 1 if self.speculation.draft is not None else ranks_of(self.asked)
        return busy_of(self.plan.total(decode_of(decodes, context, 1))).times(self.speculation.length * ranks)

    def prompt_work(self, cached: Count, new: Count) -> Busy:
        """Work of all chips of a group together to compute a prompt's `new` tokens with the draft."""
        if self.plan is None:
            return Busy()
        ranks = 1 if self.speculation.draft is not None else ranks_of(self.asked)
        return busy_of(self.plan.total(replaced(decode(1, 1), (Queries(cached, new, 1),)))).times(ranks)

    def steps(self, tokens: Count) -> Count:
        """Mean number of decode steps that yield `tokens` tokens."""
        return expected_steps(self.speculation, tokens)

    def varied(self, tokens: Count) -> Count:
        """Squared coefficient of variation of the number of steps that yield `tokens` tokens; σ²/μn in the limit."""
        mean, square = _moments(self.speculation)
        return (square - mean * mean) / mean / np.maximum(tokens, 1)

    # -- memory ----------------------------------------------------------------------------------------------------
    @property
    def _formats(self) -> Precision:
        draft = self.speculation.draft
        return self.asked.formats if draft is None else draft.precision

    @property
    def weights(self) -> float:
        """Bytes of the draft's weights on a rank that has them; draft layers share the model's embedding and head."""
        plan, formats = self.plan, self._formats
        if plan is None:
            return 0.0
        if self.speculation.draft is not None:
            return float(plan.rank.weight_bytes(formats))
        return float(sum(formats.weight_bytes(module) for block in plan.rank.layers for module in block.modules))

    def cache(self, tokens: Count) -> Count:
        """Bytes of the draft's cache and state for a sequence of `tokens` tokens."""
        if self.plan is None:
            return 0.0
        rank, formats = self.plan.rank, self._formats
        return formats.kv.bytes(rank.kv_elements(tokens)) + rank.state_bytes(formats)


def memory_with(asked: Setup, drafting: Drafting | None, sequences: Count, tokens: Count, new: Count = 0) -> Memory:
    """Memory of the fullest rank with these sequences of `tokens` tokens, by the engine's rule, drafting included.

    The draft's weights and cache take part of the memory, and proposed tokens also take the model's cache. `new`: new
    tokens of a step that is larger than the engine's.
    """
    if drafting is None:
        return asked.holding.memory(((sequences, tokens),), new)
    longer = tokens + drafting.speculation.length
    plain, weights = asked.holding.memory(((sequences, longer),), new), drafting.weights
    return plain.beside(weights, sequences * drafting.cache(longer), asked.deployment.chip.placement)


def sequences_held(asked: Setup, drafting: Drafting | None, tokens: Count, limit: Count) -> Count:
    """Most sequences of `tokens` tokens that the memory of a replica holds, with their drafts; 0 where none fits.

    At most `limit`, and at most as many as the engine runs at once.
    """
    if drafting is None:
        return asked.holding.most_sequences(tokens, limit)
    limit = least(limit, asked.engine.most_running)
    shape = np.broadcast_shapes(np.shape(tokens), np.shape(limit), asked.layout.shape)
    whole = np.broadcast_to(limit, shape) if shape else limit
    return largest(lambda number: memory_with(asked, drafting, number, tokens).fits, whole)


def running_at_once(engine: Engine, groups: Count, width: int) -> Count:
    """Most sequences in a step of one of `groups` groups, within the token budget at `width` tokens each."""
    running = np.maximum(1, engine.most_running // groups)
    if width > 1:
        running = np.minimum(running, max(1, engine.chunk // width))
    return running if is_array(groups) else int(running)


MOST_IN_FLIGHT = 2**20
"""Most requests in the memory of a replica that are considered."""


def places_of(asked: Setup, drafting: Drafting | None, tokens: Count, whole: Count) -> Count:
    """Most requests of a group of ranks that run at once, by the engine's limit and by memory.

    Memory has to hold `tokens` tokens of each, the mean over running requests (`ServedLoad.kept_by`). An engine that
    does not reserve room starts a request as soon as memory holds its prompt. `whole`: requests that memory holds to
    their last token; where that is not even one, the memory limit is ignored.
    """
    groups, width = asked.layout.pp, 1 if drafting is None else drafting.width
    running = least(MOST_IN_FLIGHT, running_at_once(asked.engine, groups, width))
    fitting = sequences_held(asked, drafting, tokens, MOST_IN_FLIGHT)
    return where(whole < 1, running, most(1, least(running, fitting // groups)))


# -- the law of the steps ------------------------------------------------------------------------------------------
def yields(speculation: Speculation) -> Array:
    """Probabilities that a step yields 1, 2, …, length + 1 tokens: (1 − a)·a^(k − 1), and a^length for the last."""
    a, length = speculation.acceptance, speculation.length
    chances = a ** np.arange(length + 1.0)
    return np.asarray(np.append(chances[:-1] * (1 - a), chances[-1]))


def expected_steps(speculation: Speculation, tokens: Count) -> Count:
    """Mean number of steps that yield `tokens` tokens: m(n) = 1 + Σ q_k·m(n − k), and m(n) = 0 for n ≤ 0.

    Beyond `SUMMED` tokens it is n/μ + E[X² − X]/2μ², with an error below one step (renewal theorem; Feller, An
    Introduction to Probability Theory and Its Applications, vol. 1, XIII).
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
    """E[X] and E[X²] of the tokens X that a step yields."""
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
    """Numbers of steps of `QUANTILES` equally likely answers of `tokens` tokens, sorted.

    Beyond `SUMMED` tokens the distribution is normal, with variance σ²·n/μ³.
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
    over: list[float] = []  # P(N ≤ n): the sum of n yields has reached the tokens
    while not over or over[-1] < shares[-1]:
        over.append(1 - float(after.sum()))
        after = np.convolve(after, chances)[:tokens]
    return np.searchsorted(over, shares)
