"""A queue of requests that shares its places among clients: no client waits for all that another has asked before."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import ceil, inf
from time import monotonic
from typing import TypeAlias

Gone: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether the client of a request has disconnected."""
FORGETS_S = 30.0
"""Time in which half of a client's working time is forgotten."""
MOST_REMEMBERED = 1024
"""Maximum number of clients whose working time is remembered."""
LOOK_IN_QUEUE_S = 0.5
"""Interval in seconds at which a queued request checks whether its client is still connected."""
LONGEST_RETRY_S = 120
"""Maximum of `Retry-After` in seconds."""


@dataclass(frozen=True)
class Asker:
    """Who asks: an address, and the session that a client of this address names. One address is one client to others,
    whatever sessions it names; its sessions share what it gets.
    """

    address: str = ""
    session: str = ""


NOBODY = Asker()


class BusyError(Exception):
    """A request that the server cannot take now. `of_client`: because of the client's other requests; `retry`: seconds
    after which it is worth another try.
    """

    def __init__(self, expected: str, retry: int, of_client: bool = False) -> None:
        super().__init__(f"queue: expected {expected}")
        self.expected, self.retry, self.of_client = expected, retry, of_client


@dataclass(frozen=True)
class QueueLimits:
    """`at_once`: requests at work; `of_one`: those of one address. `waiting`, `waiting_of_one`: the same of the queue.
    `longest`: seconds in the queue.
    """

    at_once: int
    of_one: int
    waiting: int
    waiting_of_one: int
    longest: float = inf


@dataclass(eq=False)
class _Waiting:
    number: int
    turn: asyncio.Future[None]


@dataclass
class FairQueue:
    """Requests at work and those that wait. The next one is of the client with the fewest at work; among equals, of the
    one that was worked for the least time lately; then the first to come.
    """

    limits: QueueLimits
    working: Counter[Asker] = field(default_factory=Counter)
    waiting: dict[Asker, deque[_Waiting]] = field(default_factory=dict)
    spent: dict[Asker, tuple[float, float]] = field(default_factory=dict)
    """Client → seconds of work, and when they were counted."""
    mean: float = 1.0
    """Running mean of the seconds of a request."""
    number: int = 0

    @asynccontextmanager
    async def turn(self, asker: Asker, gone: Gone) -> AsyncIterator[bool]:
        """Wait for a place, and keep it while the context is open. False: the client left meanwhile, without a place.

        Raises BusyError where the queue is full or the wait too long.
        """
        if not await self._entered(asker, gone):
            yield False
            return
        start = monotonic()
        try:
            yield True
        finally:
            self.leave(asker, monotonic() - start)

    def takes(self, asker: Asker) -> bool:
        """Take a place at once, if one is free and nobody waits for it. `leave` gives it back."""
        if self.waiting or not self._may(asker):
            return False
        self.working[asker] += 1
        return True

    def leave(self, asker: Asker, seconds: float) -> None:
        """Give a place back after this time of work."""
        self.working[asker] -= 1
        self.working += Counter()  # drops clients without work
        self.mean += (seconds - self.mean) / 16
        for client in {asker, Asker(asker.address)}:
            self.spent[client] = (self._lately(client) + seconds, monotonic())
        while len(self.spent) > MOST_REMEMBERED:
            del self.spent[min(self.spent, key=self._lately)]
        self._wake()

    def places(self, asker: Asker) -> list[int]:
        """Places in the queue of a client's requests, 1 for the next, if nobody else came."""
        order = sorted((rank, *self._order(each)) for each, line in self.waiting.items() for rank in range(len(line)))
        own = [(rank, *self._order(asker)) for rank in range(len(self.waiting.get(asker, ())))]
        return [order.index(each) + 1 for each in own]

    def retry(self, ahead: int) -> int:
        """Whole seconds after which `ahead` requests will have been answered."""
        return min(LONGEST_RETRY_S, max(1, ceil(ahead * self.mean / self.limits.at_once)))

    async def _entered(self, asker: Asker, gone: Gone) -> bool:
        if self.takes(asker):
            return True
        self._check_room(asker)
        self.number += 1
        entry = _Waiting(self.number, asyncio.get_running_loop().create_future())
        self.waiting.setdefault(asker, deque()).append(entry)
        self._wake()
        end, taken = monotonic() + self.limits.longest, False
        try:
            while not entry.turn.done():
                await asyncio.wait((entry.turn,), timeout=LOOK_IN_QUEUE_S)
                if not entry.turn.done():
                    if monotonic() > end:
                        expected = f"a queue of at most {self.limits.longest:g} s"
                        raise BusyError(expected, self.retry(self._number_waiting()))
                    if await gone():
                        return False
            taken = True
        finally:
            if not taken and entry.turn.done():
                self.leave(asker, 0.0)
            elif not taken:
                self._drop(asker, entry)
        return True

    def _check_room(self, asker: Asker) -> None:
        limits = self.limits
        own = sum(len(line) for each, line in self.waiting.items() if each.address == asker.address)
        if own >= limits.waiting_of_one:
            expected = f"at most {limits.waiting_of_one} requests of a client that wait"
            raise BusyError(expected, self.retry(own), of_client=True)
        if self._number_waiting() >= limits.waiting:
            raise BusyError(f"at most {limits.waiting} requests that wait", self.retry(self._number_waiting()))

    def _number_waiting(self) -> int:
        return sum(map(len, self.waiting.values()))

    def _drop(self, asker: Asker, entry: _Waiting) -> None:
        line = self.waiting[asker]
        line.remove(entry)
        if not line:
            del self.waiting[asker]

    def _wake(self) -> None:
        """Give free places to those whose turn it is."""
        while ready := [asker for asker in self.waiting if self._may(asker)]:
            asker = min(ready, key=self._order)
            entry = self.waiting[asker][0]
            self._drop(asker, entry)
            self.working[asker] += 1
            entry.turn.set_result(None)

    def _may(self, asker: Asker) -> bool:
        return self.working.total() < self.limits.at_once and self.at_work(asker) < self.limits.of_one

    def at_work(self, asker: Asker) -> int:
        """Requests at work of a client's address."""
        return sum(number for each, number in self.working.items() if each.address == asker.address)

    def _order(self, asker: Asker) -> tuple[float, ...]:
        lately = self._lately(Asker(asker.address)), self._lately(asker)
        first = self.waiting[asker][0].number if asker in self.waiting else 0
        return self.at_work(asker), lately[0], self.working[asker], lately[1], first

    def _lately(self, asker: Asker) -> float:
        seconds, then = self.spent.get(asker, (0.0, 0.0))
        return seconds * 0.5 ** ((monotonic() - then) / FORGETS_S) if seconds else 0.0
