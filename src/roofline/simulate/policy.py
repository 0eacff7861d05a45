"""How an engine's scheduler puts steps together, and what its memory holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline.estimates.settings import Setup
from roofline.model.errors import InputError

if TYPE_CHECKING:
    from roofline.simulate.speculation import Drafting


@dataclass(frozen=True)
class Policy:
    """A scheduler's rules.

    `tokens`: most new tokens of a step; `running`: most sequences at once. `mixes`: prompts and decodes share a step,
    else prompts go first, alone. `splits`: a prompt longer than what is left of a step is cut into chunks. `reserves`:
    a request begins where the memory holds it to its last token, so that none is ever preempted. `caches`: prompts find
    prefixes that earlier ones left. `width`: tokens that a decode brings (drafts to verify and one more).
    """

    tokens: int
    running: int
    mixes: bool = True
    splits: bool = True
    reserves: bool = False
    caches: bool = True
    ahead: bool = False
    width: int = 1


@dataclass(frozen=True)
class Room:
    """What the memory of a replica holds: shares of what its engine leaves the KV cache and recurrent state.

    A sequence of n tokens takes `each` + `token`·(n + `slack`): the part of its last block that is empty is half a
    block on average. Layers that keep a window take no more beyond `full` tokens, when `token` falls to `later`.
    """

    each: float
    token: float
    slack: float
    full: float = float("inf")
    later: float = 0.0

    def held(self, tokens: float) -> float:
        """The share of a sequence of so many tokens."""
        whole = tokens + self.slack
        if whole <= self.full:
            return self.each + self.token * whole
        return self.each + self.token * self.full + self.later * (whole - self.full)


def policy_of(asked: Setup, groups: int, room: Room, width: int = 1) -> Policy:
    """The rules of the engine, for one of so many groups of sequences that take turns in a pipeline.

    Nor do more run than the memory holds, each with a block, and than a step's tokens are enough for where each decode
    brings several.
    """
    engine, smallest = asked.engine, room.held(1)
    running = max(1, engine.most_running // groups)
    if width > 1:
        running = min(running, max(1, engine.chunk // width))
    return Policy(
        engine.chunk, min(running, int(1 / smallest)) if smallest > 0 else running, mixes=engine.mixes, splits=engine.splits,
        reserves=engine.reserves, ahead=engine.ahead, width=width,
    )  # fmt: skip


def room_of(asked: Setup, groups: int, longest: int, drafting: Drafting | None = None) -> Room:
    """The memory of a replica, or of one of so many groups that share it.

    A draft's weights and cache take some of it, and tokens that are proposed have their places.

    The share of one sequence at two lengths beyond every window gives `later`, at one block `each` and `token`.
    Raises InputError where it does not hold one sequence of `longest` tokens.
    """
    engine, holding = asked.engine, asked.holding

    def share(tokens: int) -> float:
        memory = holding.memory(((1, tokens),), engine.chunk)
        budget = memory.capacity - (memory.total - memory.cache - memory.state)
        left = min(budget, memory.budget) if memory.budget is not None else budget
        own = memory.cache + memory.state
        if drafting is not None:
            left, own = left - drafting.weights, own + drafting.cache(tokens)
        return float(groups * own / left) if left > 0 else float("inf")

    proposed = 0 if drafting is None else drafting.speculation.length
    if share(longest + proposed) > 1:
        raise InputError("on", asked.deployment.cluster.name, f"memory for a request of {longest} tokens")
    block = engine.block
    spread = max(block, longest // block * block)
    points = [(n, share(n)) for n in sorted({block, 2 * block, spread, spread + 64 * block})]
    (n0, s0), (n1, s1), (n2, s2), (n3, s3) = (points + points[-1:] * 4)[:4]
    token = (s1 - s0) / (n1 - n0) if n1 > n0 else 0.0
    later = (s3 - s2) / (n3 - n2) if n3 > n2 else token
    each = s0 - token * n0
    if token - later <= 1e-9 * token:
        return Room(each, token, (block - 1) / 2 + proposed)
    full = (s2 - each - later * n2) / (token - later)
    return Room(each, token, (block - 1) / 2 + proposed, full, later)
