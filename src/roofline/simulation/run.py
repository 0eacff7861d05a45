"""Requests into replicas: the drivers of an open stream of requests and of a closed loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from roofline.declared.errors import InputError
from roofline.machine.engine import Engine
from roofline.simulation.arrivals import Closed
from roofline.simulation.recorder import Recorder, Watch
from roofline.simulation.replica import Replica
from roofline.simulation.request import Request

if TYPE_CHECKING:
    from roofline.simulation.workload import Requests

MOST_PRESENT = 2**20
"""Requests at once in a server: they take 0.6 kB each."""
CHECKED = 256
"""After so many requests of an open stream it is asked whether they are enough."""
ROUTERS = ("round-robin", "least-loaded", "prefix-aware")
UNEVEN = 32
"""Requests that a replica may have beyond the least loaded one and still be chosen for the prefix it holds; from
SGLang's router, `balance_abs_threshold` (docs.sglang.ai, router)."""


def sent(blocks: Iterator[Requests], engine: Engine) -> Iterator[Request]:
    """The requests of a stream, one by one; the engine's scheduler sees each a while after it was sent."""
    number = 0
    for block in blocks:
        columns = (block.arrival, block.input, block.output, block.prefix, block.shared, block.kept)
        chains = block.chains
        for i, (time, new, out, prefix, shared, kept) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            request = Request(number, time, time + engine.before(new), new, out)
            request.prefix, request.shared, request.kept = prefix, shared, kept
            if chains is not None and chains[i]:
                request.chain, request.shared = chains[i], block.chain_tokens
            number += 1
            yield request


def by_readiness(requests: Iterator[Request], recorder: Recorder) -> Iterator[Request]:
    """An open stream in the order in which the scheduler sees it: long prompts take longer to get there.

    The recorder is told when the first and the last request that count were sent.
    """
    late: list[tuple[float, int, Request]] = []
    last = 0.0
    for number, request in enumerate(requests):
        last = request.arrival
        recorder.arrived(number, last)
        while late and late[0][0] <= last:
            yield heappop(late)[2]
        heappush(late, (request.ready, number, request))
    recorder.end = min(recorder.end, last)
    while late:
        yield heappop(late)[2]


@dataclass(eq=False)
class Position:
    """How far a stream has come: the number of requests that were taken from it.

    Of an open one `turn` replicas were chosen in turn, and `later` has the sessions whose turn is under way: the
    replica, and the turns that wait for it. Of a closed one `coming` are the requests that the scheduler has not seen.
    """

    number: int = 0
    turn: int = 0
    later: dict[int, tuple[int, deque[Request]]] = field(default_factory=dict)
    coming: list[tuple[float, int, Request]] = field(default_factory=list)


# -- open ----------------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Sessions:
    """Turns of conversations: one is sent when the one before is done, to the same replica."""

    replicas: Sequence[Replica]
    later: dict[int, tuple[int, deque[Request]]]

    def held_back(self, request: Request) -> bool:
        """Whether an earlier turn is under way when a request comes."""
        if request.kept <= request.shared or request.prefix < 0:
            return False
        known = self.later.get(request.prefix)
        if known is not None:
            self.replicas[known[0]].advance(request.ready)
            known = self.later.get(request.prefix)
        if known is not None:
            known[1].append(request)
        return known is not None

    def begin(self, request: Request, replica: int) -> None:
        """A turn goes to a replica."""
        if request.kept > request.shared and request.prefix >= 0:
            self.later[request.prefix] = (replica, deque())

    def done(self, request: Request) -> None:
        """A turn is done: the next one goes out."""
        replica, turns = self.later.get(request.prefix, (0, None))
        if turns is None:
            return
        if not turns:
            del self.later[request.prefix]
            return
        following = turns.popleft()
        late = max(0.0, request.finished - following.ready)
        following.arrival, following.ready = following.arrival + late, following.ready + late
        self.replicas[replica].receive(following)


def run_open(
    requests: Iterator[Request], replicas: Sequence[Replica], recorder: Recorder, router: str,
    enough: Callable[[], bool], position: Position | None = None,
) -> None:  # fmt: skip
    """Requests that come when they come. Ends when the stream does and all are done, or where it is `enough`.

    `position`: from where the stream goes on; it is up to date whenever `enough` is asked.
    """
    at = position or Position()
    sessions = Sessions(replicas, at.later)
    for replica in replicas:
        assert isinstance(replica.watcher, Watch)
        replica.watcher.finished = sessions.done
    choose = router_of(router, replicas, at)
    for request in islice(by_readiness(requests, recorder), at.number, None):
        at.number += 1
        if sessions.held_back(request):
            continue
        place = choose(request)
        replica = replicas[place]
        replica.advance(request.ready)
        sessions.begin(request, place)
        replica.receive(request)
        if not at.number % CHECKED:
            _check_waiting(replicas)
            if enough():
                return
    for replica in replicas:
        replica.advance(inf)
    while any(replica.present for replica in replicas):
        for replica in replicas:
            replica.advance(inf)


def _check_waiting(replicas: Sequence[Replica]) -> None:
    present = sum(replica.present for replica in replicas)
    if present > MOST_PRESENT:
        raise InputError("traffic", f"{present} at once", f"at most {MOST_PRESENT} requests that wait or run")


def router_of(name: str, replicas: Sequence[Replica], at: Position) -> Callable[[Request], int]:
    """A request → the replica it goes to."""
    if len(replicas) == 1:
        return lambda request: 0

    def in_turn(request: Request) -> int:
        at.turn += 1
        return (at.turn - 1) % len(replicas)

    def least(request: Request) -> int:
        for replica in replicas:
            replica.advance(request.ready)
        return min(range(len(replicas)), key=lambda i: (replicas[i].present, i))

    def prefix(request: Request) -> int:
        lightest = least(request)
        cached = [replica.prefixes.matching(request) for replica in replicas]
        best = max(range(len(replicas)), key=lambda i: (cached[i], -replicas[i].present, -i))
        uneven = replicas[best].present - replicas[lightest].present > UNEVEN
        return lightest if uneven or not cached[best] else best

    return {"round-robin": in_turn, "least-loaded": least, "prefix-aware": prefix}[name]


# -- closed --------------------------------------------------------------------------------------------------------
def run_closed(
    requests: Iterator[Request], replicas: Sequence[Replica], recorder: Recorder, clients: Closed, engine: Engine,
    enough: Callable[[], bool], position: Position | None = None,
) -> None:  # fmt: skip
    """Clients that each send the next request `think` seconds after their last one was answered.

    They are dealt out to the replicas in turn and stay there. Ends where it is `enough`, or the requests end.
    `position`: from where the stream goes on; it is up to date whenever `enough` is asked.
    """
    at = position or Position()
    coming, requests = at.coming, islice(requests, at.number, None)

    def send(user: int, time: float) -> None:
        request = next(requests, None)
        if request is None:
            return
        request.arrival, request.ready, request.source = time, time + float(engine.before(request.input)), user
        recorder.arrived(at.number, time)
        at.number += 1
        heappush(coming, (request.ready, at.number, request))
        replica = replicas[user % len(replicas)]
        replica.horizon = min(replica.horizon, request.ready)

    for replica in replicas:
        assert isinstance(replica.watcher, Watch)
        replica.watcher.finished = lambda request: send(request.source, request.finished + clients.think)
    for user in range(0 if at.number else clients.concurrency):
        send(user, (clients.ramp or 0.0) * user / clients.concurrency)
    while not enough():
        following = coming[0] if coming else None
        if following is None and not any(replica.present for replica in replicas):
            break
        for replica in replicas:
            replica.advance(inf if following is None else following[0])
            if replica.together is not None and coming and coming[0] is not following:
                break  # to go on with the others would take this one beyond what it has brought about
        if coming and coming[0] is following:
            request = heappop(coming)[2]
            replicas[request.source % len(replicas)].receive(request)
