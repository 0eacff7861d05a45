"""How an engine's scheduler puts steps together, and what its memory holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.declared.errors import InputError
from roofline.estimates.drafting import Drafting, memory_with, running_at_once
from roofline.estimates.settings import Setup


class NoRoomError(InputError):
    """A memory that does not hold one request."""


@dataclass(frozen=True)
class Policy:
    """A scheduler's rules.

    `tokens`: most new tokens of a step; `running`: most sequences at once. `mixes`: prompts and decodes share a step,
    else prompts go first, alone. `splits`: a prompt longer than what is left of a step is cut into chunks. `reserves`:
    a request begins where the memory holds it to its last token, so that none is ever preempted. `caches`: prompts find
    prefixes that earlier ones left. `width`: tokens that a decode brings (drafts to verify and one more).
    `expects`: at first, the share of the tokens still to come of running requests that is kept free for them where
    another begins.
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


@dataclass(frozen=True)
class Room:
    """What the memory of a replica holds: shares of what its engine leaves the KV cache and recurrent state.

    A sequence of n tokens takes `each` + `token`·n; half a block that is empty, on average, is in `each`. Layers that
    keep a window take no more beyond `full` tokens, when `token` falls to `later`.
    """

    each: float
    token: float
    full: float = float("inf")
    later: float = 0.0

    def held(self, tokens: float) -> float:
        """The share of a sequence of so many tokens."""
        if tokens <= self.full:
            return self.each + self.token * tokens
        return self.each + self.token * self.full + self.later * (tokens - self.full)


def policy_of(asked: Setup, groups: int, room: Room, width: int = 1) -> Policy:
    """The rules of the engine, for one of so many groups of sequences that take turns in a pipeline.

    Nor do more run than the memory holds, each with a block, and than a step's tokens are enough for where each decode
    brings several.
    """
    engine, smallest = asked.engine, room.held(1)
    running = int(running_at_once(engine, groups, width))
    return Policy(
        engine.chunk, min(running, int(1 / smallest)) if smallest > 0 else running, mixes=engine.mixes,
        splits=engine.splits, reserves=engine.reserves, ahead=engine.ahead, width=width, expects=engine.expects,
    )  # fmt: skip


def room_of(asked: Setup, groups: int, longest: int, drafting: Drafting | None = None) -> Room:
    """The memory of a replica, or of one of so many groups that share it.

    A draft's weights and cache take some of it, and tokens that are proposed have their places.
    Raises NoRoomError where it does not hold one sequence of `longest` tokens.
    """

    def shares(tokens: Any) -> Any:
        memory = memory_with(asked, drafting, 1, tokens, asked.engine.chunk)
        budget = memory.capacity - (memory.total - memory.cache - memory.state)
        left = budget if memory.budget is None else np.minimum(budget, memory.budget)
        own = memory.cache + memory.state
        share = np.where(left > 0, groups * own / np.where(left > 0, left, 1.0), np.inf)
        return np.broadcast_to(share, np.shape(tokens))  # that of a state is as large whatever the tokens

    if float(shares(longest)) > 1:
        raise NoRoomError("on", asked.deployment.cluster.name, f"memory for a request of {longest} tokens")
    return room_along(shares)


SPAN = 4096
"""Lengths, one after another, over which whole blocks average out."""
FAR = 2**20
"""Tokens beyond every window."""


def room_along(share: Callable[[Any], Any]) -> Room:
    """Two straight lines along the share of sequences by their length, in whole blocks: the mean over many lengths.

    `later` is the slope beyond every window; where shorter sequences lie below that line, `each` and `token` are those
    of a line from one token to the length at which they reach it.
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
