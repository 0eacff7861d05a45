"""Drafted decoding, request by request: how many steps an answer needs is drawn."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np

from roofline.distinct import Array
from roofline.estimates.generate import Speculation
from roofline.simulation.request import Request

STREAM = 0x5EC
"""Sets the draws of acceptances apart from those of the traffic, of which the seed is the same."""


def steps_of(speculation: Speculation, seed: int) -> Callable[[Request], int]:
    """A request → the decode steps until its last token, drawn by the seed, its number and where it is.

    So a request needs as many whatever else there is, in any order.
    """

    def steps(request: Request) -> int:
        counter = (request.number << 64) + request.left
        random = np.random.Generator(np.random.Philox(key=(seed << 16) + STREAM, counter=counter << 64))
        return steps_until(random.random(request.left), request.left, speculation)

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
