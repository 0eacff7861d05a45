"""Workloads: blocks of requests with arrival times, prompt and answer lengths, and shared prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.declared.checks import count, integer
from roofline.declared.errors import InputError
from roofline.serving.simulate.load.arrivals import Arrivals, Closed
from roofline.serving.simulate.load.lengths import Lengths
from roofline.serving.simulate.tables.parsers import MOST_TOKENS

Chains = tuple[tuple[int, ...], ...]

BLOCK = 2**14
"""Number of requests drawn at once, whatever the requested block size."""
CHAIN_TOKENS = 512
"""Tokens per block in Mooncake's traces."""
NO_PREFIX = -1


@dataclass(frozen=True, eq=False)
class Requests:
    """A block of requests in order of arrival; arrays of one length.

    arrival: seconds from the start of the traffic, float64; NaN in a closed loop (`Closed`).
    input, output: tokens of the whole prompt, shared ones included, and of the answer, int64, each at least 1.
    prefix: id of a shared prefix or of a session, int64, −1 for none.
    shared: tokens at the front of the prompt that belong to that prefix and may be cached, int64, at most `input`.
    kept: tokens that stay cached under that id when the request is done, int64: `shared` for a prefix; input + output
    for a session, whose next turn shares them.
    chains: for each request the ids of its prompt's blocks of `chain_tokens` tokens, the last of which may be partly
    filled; equal ids at the front mean equal tokens. None without chains; with chains, prefix is −1.
    """

    arrival: NDArray[np.float64]
    input: NDArray[np.int64]
    output: NDArray[np.int64]
    prefix: NDArray[np.int64]
    shared: NDArray[np.int64]
    kept: NDArray[np.int64]
    chains: Chains | None = None
    chain_tokens: int = CHAIN_TOKENS

    def __len__(self) -> int:
        return len(self.arrival)

    def at(self, part: slice) -> Requests:
        """The requests of a slice."""
        arrays: dict[str, Any] = {name: getattr(self, name)[part] for name in ARRAYS}
        return replace(self, **arrays, chains=None if self.chains is None else self.chains[part])


ARRAYS = tuple(f.name for f in fields(Requests) if f.name not in ("chains", "chain_tokens"))
"""Fields of Requests that are arrays."""


@dataclass(frozen=True)
class Prefixes:
    """A number of distinct prefixes (system prompts) of equal length; each request has one at random.

    A prefix is the front of the prompt and part of its length. A shorter prompt is only the front of its prefix.
    """

    number: int
    tokens: int

    def __post_init__(self) -> None:
        for name in ("number", "tokens"):
            value = integer(getattr(self, name))
            if value is None or not 1 <= value <= MOST_TOKENS:
                raise InputError(f"prefix.{name}", getattr(self, name), f"a whole number from 1 to {MOST_TOKENS}")

    @property
    def text(self) -> str:
        """The prefixes in words."""
        return f"{self.number} prefix{'es' if self.number > 1 else ''} of {self.tokens} tokens"


@dataclass(frozen=True)
class Workload:
    """Random requests. lengths_in: tokens of whole prompts; lengths_out: tokens of answers."""

    lengths_in: Lengths
    lengths_out: Lengths
    arrivals: Arrivals
    prefix: Prefixes | None = None

    @property
    def equally_long(self) -> bool:
        """Whether all prompts have one length, and all answers."""
        return all(each.largest == each.mean for each in (self.lengths_in, self.lengths_out))

    @property
    def drawn(self) -> bool:
        """Whether anything is random: arrivals, lengths, or prefixes."""
        shared = self.prefix is not None and self.prefix.number > 1
        return self.arrivals.RANDOM or not self.equally_long or shared

    @property
    def text(self) -> str:
        """The traffic in words, such as `2 requests/s (poisson), input uniform(100,2000), output 256`.

        In a closed loop without a ramp, users with equally long requests stay in step, which determines their TTFT. The
        text then says so.
        """
        prefix = "" if self.prefix is None else f", {self.prefix.text}"
        begun = isinstance(self.arrivals, Closed) and not self.arrivals.ramp
        in_step = " (all equally long: users stay in step)" if begun and self.equally_long else ""
        return f"{self.arrivals.text}, input {self.lengths_in.text}, output {self.lengths_out.text}{prefix}{in_step}"

    def blocks(self, requests: int | None, seed: int, size: int = BLOCK) -> Iterator[Requests]:
        """`requests` requests, or an endless stream for None, in blocks of `size`; the last block may be shorter.

        A seed always gives the same requests, whatever the block size. Arrivals, prompts, answers and prefixes have
        separate random streams, so that changing one distribution leaves the others unchanged. Raises InputError for a
        number of requests or a size below 1, and for a negative seed.
        """
        check_blocks(requests, size)
        return in_blocks(self._drawn(count("seed", seed)), requests, size)

    def _drawn(self, seed: int) -> Iterator[Requests]:
        """An endless stream of requests in fixed blocks, so that results never depend on the requested block size."""
        streams = [np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(4)]
        when, prompts, answers, prefixes = streams
        first, last = 0, 0.0
        while True:
            arrival = self.arrivals.times(when, first, BLOCK, last)
            first, last = first + BLOCK, float(arrival[-1])
            new, out = self.lengths_in.draw(prompts, BLOCK), self.lengths_out.draw(answers, BLOCK)
            if self.prefix is None:
                prefix, shared = np.full(BLOCK, NO_PREFIX, dtype=np.int64), np.zeros(BLOCK, dtype=np.int64)
            else:
                prefix = prefixes.integers(0, self.prefix.number, BLOCK, dtype=np.int64)
                shared = np.minimum(new, self.prefix.tokens)
            yield Requests(arrival, new, out, prefix, shared, shared)


def check_blocks(requests: int | None, size: int) -> None:
    """Raises InputError for a number of requests or a block size below 1."""
    if requests is not None:
        count("requests", requests, 1)
    count("size", size, 1)


def in_blocks(parts: Iterator[Requests], requests: int | None, size: int) -> Iterator[Requests]:
    """Cut and join blocks to `size`, up to the first `requests` requests, or all for None."""
    waiting: list[Requests] = []
    ready, left = 0, requests
    while left is None or left > 0:
        goal = size if left is None else min(size, left)
        while ready < goal and (part := next(parts, None)) is not None:
            waiting.append(part)
            ready += len(part)
        if not ready:
            return
        together = waiting[0] if len(waiting) == 1 else joined(waiting)
        block, rest = together.at(slice(0, goal)), together.at(slice(goal, None))
        waiting, ready = ([rest], len(rest)) if len(rest) else ([], 0)
        left = None if left is None else left - len(block)
        yield block


def joined(parts: list[Requests]) -> Requests:
    """Consecutive blocks as one; either all of them have chains or none."""
    chains = None if parts[0].chains is None else tuple(c for part in parts for c in part.chains or ())
    arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    return replace(parts[0], **arrays, chains=chains)
