"""Drivers that feed requests to replicas: an open stream and a closed loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from roofline.declared.errors import InputError
from roofline.engines.engine import Engine
from roofline.serving.simulate.load.arrivals import Closed
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.recorder import Recorder, Watch
from roofline.serving.simulate.replica import Replica

if TYPE_CHECKING:
    from roofline.serving.encoders import EncoderQueue
    from roofline.serving.simulate.load.workload import Requests

MOST_PRESENT = 2**20
"""Maximum concurrent requests in a server; each takes 0.6 kB."""
CHECKED = 256
"""Requests of an open stream between two checks of whether to stop."""
ROUTERS = ("round-robin", "least-loaded", "prefix-aware")
UNEVEN = 32
"""Requests that a replica may have more than the least loaded one and still be chosen for its cached prefix; from
SGLang's router, `balance_abs_threshold` (docs.sglang.ai, router).
"""


def sent(blocks: Iterator[Requests], engine: Engine, opening: bool = False) -> Iterator[Request]:
    """The requests of a stream, one by one; the scheduler sees each after the engine's front-end delay.

    `opening`: all are sent at once, and one front end prepares them one after another, beside the steps of the model.
    """
    number, prepared = 0, 0.0
    for block in blocks:
        columns = (block.arrival, block.input, block.output, block.prefix, block.shared, block.kept)
        chains = block.chains
        for i, (time, new, out, prefix, shared, kept) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            prepared = float(engine.before(new)) + (prepared if opening else 0.0)
            request = Request(number, time, time + prepared, new, out)
            request.prefix, request.shared, request.kept = prefix, shared, kept
            if chains is not None and chains[i]:
                request.chain, request.shared = chains[i], block.chain_tokens
            number += 1
            yield request


def behind_encoders(requests: Iterator[Request], front: EncoderQueue) -> Iterator[Request]:
    """An open stream behind the encoder pool."""
    for request in requests:
        request.ready = front.take(request.ready)
        yield request


def by_readiness(requests: Iterator[Request], recorder: Recorder) -> Iterator[Request]:
    """An open stream in the order in which the scheduler sees it: the front end takes longer for long prompts.

    The recorder is told when each request is sent.
    """
    late: list[tuple[float, int, Request]] = []
    last = 0.0
    for number, request in enumerate(requests):
        last = request.arrival
        recorder.arrived(number, last)
        while late and late[0][0] <= last:
            yield heappop(late)[2]
        heappush(late, (request.ready, number, request))
    if last > recorder.start:
        recorder.end = min(recorder.end, last)
    while late:
        yield heappop(late)[2]


@dataclass(eq=False)
class Position:
    """The position in a request stream: the number of requests taken from it.

    Open stream: `turn` counts round-robin choices; `later` maps each session with a turn in progress to its replica and
    waiting turns. Closed loop: `coming` holds the requests that the scheduler has not seen yet. `front`: the encoder
    pool that requests pass first.
    """

    number: int = 0
    turn: int = 0
    later: dict[int, tuple[int, deque[Request]]] = field(default_factory=dict)
    coming: list[tuple[float, int, Request]] = field(default_factory=list)
    front: EncoderQueue | None = None

    def encodes(self, request: Request, turn: int) -> bool:
        """Whether a request of a closed loop passes the encoder pool only now; it then comes again, with embeddings.

        Only here are requests in the order of their times: replicas send them as each gets on. `turn`: its place among
        all that were sent.
        """
        if self.front is None or request.encoded:
            return False
        request.ready, request.encoded = self.front.take(request.ready), True
        heappush(self.coming, (request.ready, turn, request))
        return True


# -- open loop -----------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Sessions:
    """Turns of conversations: a turn is sent when the one before is done, to the same replica."""

    replicas: Sequence[Replica]
    later: dict[int, tuple[int, deque[Request]]]

    def held_back(self, request: Request) -> bool:
        """Whether an earlier turn is still in progress when a request arrives; the request then waits."""
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
        """Assign a turn to a replica."""
        if request.kept > request.shared and request.prefix >= 0:
            self.later[request.prefix] = (replica, deque())

    def done(self, request: Request) -> None:
        """Send the next turn after one is done."""
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
    """Run an open stream of requests until all are done, or until `enough` says so.

    `position`: where the stream resumes; it is current whenever `enough` is called.
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
    """The routing function of this name: request → index of a replica."""
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


# -- closed loop ---------------------------------------------------------------------------------------------------
def run_closed(
    requests: Iterator[Request], replicas: Sequence[Replica], recorder: Recorder, clients: Closed, engine: Engine,
    enough: Callable[[], bool], position: Position | None = None, hosts: int = 1,
) -> None:  # fmt: skip
    """Run a closed loop: each client sends the next request `think` seconds after its last answer.

    Clients are assigned to replicas in turn and stay there. Ends when `enough` says so, or when the requests end.
    `position`: where the stream resumes; it is current whenever `enough` is called. `hosts`: front ends, each of which
    prepares the simultaneous first requests of its users one after another where the engine `queues` them.
    """
    at = position or Position()
    coming, requests = at.coming, islice(requests, at.number, None)
    opening = engine.queues and not clients.ramp

    def send(user: int, time: float) -> None:
        request = next(requests, None)
        if request is None:
            return
        request.arrival, request.ready, request.source = time, time + float(engine.before(request.input)), user
        recorder.arrived(at.number, time)
        at.number += 1
        request.hosted = request.ready - time if opening and user >= hosts else 0.0
        heappush(coming, (request.ready, at.number, request))
        replica = replicas[user % len(replicas)]
        replica.horizon = min(replica.horizon, request.ready)

    for replica in replicas:
        assert isinstance(replica.watcher, Watch)
        replica.watcher.finished = lambda request: send(request.source, request.finished + clients.think)
    for user in range(0 if at.number else clients.concurrency):
        send(user, (clients.ramp or 0.0) * user / clients.concurrency)
    opening = False
    while not enough():
        following = coming[0] if coming else None
        if following is None and not any(replica.present for replica in replicas):
            break
        for replica in replicas:
            replica.advance(inf if following is None else following[0])
            if replica.together is not None and coming and coming[0] is not following:
                break  # advancing the others now would pass the request that this one has triggered
        if coming and coming[0] is following:
            _, turn, request = heappop(coming)
            if at.encodes(request, turn):
                continue
            replicas[request.source % len(replicas)].receive(request)
