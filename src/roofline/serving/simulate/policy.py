"""Scheduler policy of an engine, and the memory available for sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.declared.errors import InputError
from roofline.inference.settings import Setup
from roofline.serving.drafting import Drafting, memory_with, running_at_once


class NoRoomError(InputError):
    """The memory does not hold a single request."""


@dataclass(frozen=True)
class Policy:
    """The rules of a scheduler.

    `tokens`: maximum new tokens per step; `running`: maximum concurrent sequences. `mixes`: prompts and decodes share a
    step (mixed batching); otherwise prompts run first, by themselves. `splits`: a prompt longer than the rest of a
    step's token budget is cut into chunks (chunked prefill). `reserves`: a request starts only where memory holds it to
    its last token, so that none is ever preempted. `caches`: prompts hit the prefix cache. `ahead`: a step is scheduled
    while the one before still runs. `width`: tokens per decode (drafts to verify plus one). `expects`: initial share of
    the remaining tokens of running requests for which memory is kept free when another request starts. `balanced`:
    steps for which prompts of a rank wait for those of the ranks that it steps together with.
    """

    tokens: int
    running: int
    mixes: bool = True
    splits: bool = True
    reserves: bool = False
    caches: bool = True
    ahead: bool = False
    width: int = 1
    expects: float = 0.0
    balanced: int = 0


@dataclass(frozen=True)
class Room:
    """Memory of a replica: shares of what its engine leaves for KV cache and recurrent state.

    A sequence of n tokens takes `each` + `token`·n; `each` includes half an empty block, on average. Sliding-window
    layers stop growing at `full` tokens, beyond which the slope is `later`.
    """

    each: float
    token: float
    full: float = float("inf")
    later: float = 0.0

    def held(self, tokens: float) -> float:
        """The share of memory of a sequence of this many tokens."""
        if tokens <= self.full:
            return self.each + self.token * tokens
        return self.each + self.token * self.full + self.later * (tokens - self.full)


def policy_of(asked: Setup, groups: int, room: Room, width: int = 1) -> Policy:
    """The scheduler policy of the engine, for one of `groups` pipeline groups.

    The number of running sequences is also limited by memory, with a block for each, and with speculative decoding by
    the tokens of a step.
    """
    engine, smallest = asked.engine, room.held(1)
    running = int(running_at_once(engine, groups, width))
    return Policy(
        engine.chunk, min(running, int(1 / smallest)) if smallest > 0 else running, mixes=engine.mixes,
        splits=engine.splits, reserves=engine.reserves, ahead=engine.ahead, width=width, expects=engine.expects,
        balanced=engine.balanced,
    )  # fmt: skip


def room_of(asked: Setup, groups: int, longest: int, drafting: Drafting | None = None) -> Room:
    """The memory of a replica, or of one of `groups` pipeline groups that share it.

    The weights and the cache of a draft model are subtracted, and drafted tokens take cache. Raises NoRoomError where a
    sequence of `longest` tokens does not fit.
    """

    def shares(tokens: Any) -> Any:
        memory = memory_with(asked, drafting, 1, tokens, asked.engine.chunk)
        budget = memory.capacity - (memory.total - memory.cache - memory.state)
        left = budget if memory.budget is None else np.minimum(budget, memory.budget)
        own = memory.cache + memory.state
        share = np.where(left > 0, groups * own / np.where(left > 0, left, 1.0), np.inf)
        return np.broadcast_to(share, np.shape(tokens))  # a recurrent state has the same size for any number of tokens

    if float(shares(longest)) > 1:
        raise NoRoomError("on", asked.deployment.cluster.name, f"memory for a request of {longest} tokens")
    return room_along(shares)


SPAN = 4096
"""Consecutive lengths over which whole blocks average out."""
FAR = 2**20
"""A number of tokens beyond every window."""


def room_along(share: Callable[[Any], Any]) -> Room:
    """Fit two straight lines to the memory share of a sequence by its length; whole blocks average out.

    `later` is the slope beyond every window. Where shorter sequences lie below that line, `each` and `token` describe a
    line from one token to the length at which the two lines meet.
    """
    block = np.arange(SPAN)
    near, far, farther = share(1.0 + block), share(FAR + block), share(2.0 * FAR + block)
    later = float((farther - far).mean() / FAR)
    beyond = float((far - later * (FAR + block)).mean())
    lengths = np.concatenate((1.0 + block, np.geomspace(SPAN, FAR, 257)[1:].round()))
    below = beyond + later * lengths - np.concatenate((near, share(lengths[SPAN:])))
    step = float(np.diff(far).max(initial=0.0))
    inside = below > step + 1e-9 * abs(beyond)
    if not inside.any():
        return Room(beyond, later)
    full = float(lengths[np.flatnonzero(inside)[-1]]) + 1
    run = np.linspace(1, full, SPAN).round()
    token, each = (float(v) for v in np.polyfit(run, share(run), 1))
    token, each = max(token, later), max(0.0, each)
    crossing = (beyond - each) / (token - later) if token > later else full
    return Room(each, token, crossing, later)
