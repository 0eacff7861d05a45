"""Speculative decoding, request by request: the number of steps of an answer is random."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.inference.generate import Speculation
from roofline.serving.simulate.load.request import Request

STREAM = 0x5EC
"""Separates the random stream of acceptances from those of the traffic, which have the same seed."""


def steps_of(speculation: Speculation, seed: int) -> Callable[[Request], int]:
    """A function from a request to its decode steps until the last token, drawn by seed, number and remaining tokens.

    A request therefore needs the same steps whatever other requests there are, in any order.
    """

    def steps(request: Request) -> int:
        counter = (request.number << 64) + request.left
        random = np.random.Generator(np.random.Philox(key=(seed << 16) + STREAM, counter=counter << 64))
        return steps_until(random.random(request.left), request.left, speculation)

    return steps


def steps_until(uniform: Array, tokens: int, speculation: Speculation) -> int:
    """Number of steps that generate `tokens`, each with a number drawn uniformly from 0 to 1.

    A step accepts A drafts, P(A ≥ k) = a^k up to `length`, and yields A + 1 tokens.
    """
    a, length = speculation.acceptance, speculation.length
    if a in (0.0, 1.0):
        return -(-tokens // (1 if a == 0 else length + 1))
    accepted = np.minimum(np.log1p(-uniform) / log(a), length).astype(np.int64)
    return int(np.searchsorted(np.cumsum(accepted + 1), tokens)) + 1
