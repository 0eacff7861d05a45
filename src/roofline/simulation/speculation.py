"""Drafted decoding of a server: what proposes tokens, what that takes, and how many steps a request then needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from roofline.distinct import Array
from roofline.estimates.generate import Speculation, draft_plan
from roofline.estimates.plan import Plan
from roofline.estimates.settings import Setup
from roofline.model.maths import Count
from roofline.model.precision import Precision
from roofline.simulation.request import Request

STREAM = 0x5EC
"""Sets the draws of acceptances apart from those of the traffic, of which the seed is the same."""


@dataclass(frozen=True)
class Drafting:
    """A server that speculates: `asked` is the model that verifies.

    A decode step verifies `length` tokens of each sequence and yields one more than it accepts. The tokens are proposed
    before, each by a decode step of the draft; its prompts are free, as in `generate`.
    """

    asked: Setup
    speculation: Speculation

    @property
    def width(self) -> int:
        """Tokens that a decode step brings for each sequence."""
        return self.speculation.length + 1

    @property
    def chances(self) -> tuple[float, int]:
        """What the draws depend on beside the seed."""
        return self.speculation.acceptance, self.speculation.length

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of a step that proposes; None where that is free."""
        return draft_plan(self.asked, self.speculation)

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

    def steps_of(self, seed: int) -> Callable[[Request], int]:
        """A request → the decode steps until its last token, drawn by the seed, its number and where it is.

        So a request needs as many whatever else there is, in any order.
        """

        def steps(request: Request) -> int:
            counter = (request.number << 64) + request.left
            random = np.random.Generator(np.random.Philox(key=(seed << 16) + STREAM, counter=counter << 64))
            return steps_until(random.random(request.left), request.left, self.speculation)

        return steps


def steps_until(uniform: Array, tokens: int, speculation: Speculation) -> int:
    """The steps that yield so many tokens, each by a number drawn uniformly from 0 to 1.

    A step accepts A drafts, P(A ≥ k) = a^k up to `length`, and yields A + 1 tokens.
    """
    a, length = speculation.acceptance, speculation.length
    if a in (0.0, 1.0):
        return -(-tokens // (1 if a == 0 else length + 1))
    accepted = np.minimum(np.log1p(-uniform) / log(a), length).astype(np.int64)
    return int(np.searchsorted(np.cumsum(accepted + 1), tokens)) + 1
