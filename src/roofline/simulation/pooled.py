"""Disaggregated serving, request by request: replicas that prefill, others that decode, and caches on their way.

A prompt is prefilled by a replica of the one pool, with a scheduler, a memory and a prefix cache of its own; its cache
travels, layer by layer behind the prefill; then it waits for a replica of the other pool, whose decode steps make all
tokens of the answer. So the first token comes with the first of these, as `roofline.estimates.pools` has it, and as
vLLM's connectors do: the token of the prefill is not used, the last one of the prompt is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice
from math import inf, nextafter
from typing import Annotated, Any, ClassVar

from roofline.declared.checks import real
from roofline.declared.errors import InputError
from roofline.declared.kinds import Bandwidth, EngineName, LayoutText, MachineName
from roofline.declared.question import group
from roofline.estimates.deployment import deploy
from roofline.estimates.settings import Setup
from roofline.machine.chip import Chip
from roofline.machine.collectives import collective
from roofline.machine.fabric import Cluster
from roofline.simulation.arrivals import Closed
from roofline.simulation.recorder import Recorder, Watch
from roofline.simulation.replica import Replica, State
from roofline.simulation.request import Request
from roofline.simulation.run import CHECKED, Position, Sessions, by_readiness, router_of
from roofline.simulation.simulation import Prefilling, distribution
from roofline.simulation.statistics import Sample


@group
@dataclass(frozen=True)
class PrefillPool:
    """What prefills for a server that decodes elsewhere: its machine, layout (`dp` replicas) and engine.

    The machine is that of the server where it is None.
    The engine is that of the server where not given. `bandwidth`: bytes a second of the link of each chip between the
    pools; where not given, the slower of the networks that join nodes of either chip.
    """

    on: Any
    layout: Any = None
    engine: Any = None
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not (real(self.bandwidth) or 0.0) > 0:
            raise InputError("bandwidth", self.bandwidth, "bytes a second, more than 0")

    @classmethod
    def asked(
        cls,
        *,
        prefill_layout: Annotated[
            LayoutText | None,
            "Layout of replicas that only prefill (`tp=2,dp=3`: three of them), beside those of the layout that only "
            "decode.",
        ] = None,
        prefill_on: Annotated[
            MachineName | None, "Chip or cluster of the replicas that only prefill, where it is not that of the others."
        ] = None,
        prefill_engine: Annotated[EngineName | None, "Their engine, where it is not that of the others."] = None,
        prefill_bandwidth: Annotated[
            Bandwidth | None,
            "Of the link of each chip from one pool to the other, such as `50GB/s`; else that of the network of nodes.",
        ] = None,
    ) -> PrefillPool:
        """A pool as settings. Raises InputError for an engine or a bandwidth of no pool."""
        if prefill_layout is None and prefill_on is None:
            name, value = (
                ("prefill_bandwidth", prefill_bandwidth)
                if prefill_engine is None
                else ("prefill_engine", prefill_engine)
            )
            wanted = "prefill_layout or prefill_on beside it; without, no replica only prefills"
            raise InputError(name, value, wanted)
        return cls(prefill_on, prefill_layout, prefill_engine, prefill_bandwidth)


@dataclass(frozen=True)
class Travel:
    """Caches from replicas of one deployment to those of another.

    The busiest link carries what one rank holds of a sequence, on the side where that is more: ranks that hold copies,
    as those of a latent cache under tensor parallelism, do not share the work.
    """

    first: Setup
    then: Setup
    bandwidth: float | None
    _known: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    def cache(self, tokens: int) -> float:
        """Bytes that the busiest link carries of a prompt."""
        return max(float(rank.kv_bytes(tokens, s.formats) + rank.state_bytes(s.formats)) for s, rank in self._ranks)

    @cached_property
    def _ranks(self) -> tuple[tuple[Setup, Any], ...]:
        return tuple((s, rank) for s in (self.first, self.then) for rank in s.deployment.ranks(s.model))

    @cached_property
    def _networks(self) -> tuple[Cluster, ...]:
        """Nodes of either chip."""
        chips = {s.deployment.chip.name: s.deployment.chip for s in (self.first, self.then)}
        return tuple(map(networked, chips.values()))

    def seconds(self, tokens: int) -> float:
        """Seconds that the cache of a prompt is on its way, by itself."""
        if tokens not in self._known:
            size = self.cache(tokens)
            if self.bandwidth is not None:
                self._known[tokens] = size / self.bandwidth
            else:
                ways = (collective("p2p", size, cluster.chips, cluster) for cluster in self._networks)
                self._known[tokens] = max(float(way.expected) for way in ways)
        return self._known[tokens]

    @property
    def layers(self) -> int:
        """Pieces in which a cache travels, each as soon as it is there."""
        return max(1, len(self.first.model.layers))


def networked(chip: Chip) -> Cluster:
    """The smallest cluster of a chip in which nodes are joined by a network. Raises InputError where none is known."""
    for size in (2**i for i in range(1, 11)):
        try:
            cluster = deploy(chip, {"dp": size}).cluster
        except InputError:
            continue
        if any(level.kind == "network" for level in cluster.levels):
            return cluster
    raise InputError("bandwidth", "nothing", f"bytes a second between the pools: no network of {chip.name} is known")


@dataclass(eq=False)
class Handover:
    """What a replica that prefills does with prompts that are done: it sends their caches, one behind the other.

    A layer's cache leaves when the layer is computed, so that the first one waits for the first layer and the last one
    for the whole prefill; the link does one cache's work after another's.
    """

    SAVED: ClassVar[tuple[str, ...]] = ("busy", "sent")

    recorder: Recorder
    travel: Travel
    deliveries: list[tuple[float, int, Request]]
    replica: Replica | None = None
    busy: float = 0.0
    sent: float = 0.0

    def steps(self, start: float, end: float, number: int, decodes: int, state: State) -> None:
        """No sequence decodes."""

    def prompts(self, start: float, end: float, decodes: int, waits: bool, state: State) -> None:
        """A step."""
        self.busy += max(0.0, min(end, self.recorder.end) - max(start, self.recorder.start))

    def done(self, request: Request) -> None:
        """A prompt is done: when its cache will be where it decodes."""
        seconds, layers, done = self.travel.seconds(request.input), self.travel.layers, request.finished
        self.sent = max(self.sent, request.begun + (done - request.begun) / layers) + seconds
        there = max(self.sent, done + seconds / layers)
        request.travelled = there - done
        request.ready, request.first, request.finished = there, -1.0, -1.0
        request.computed, request.left, request.prompt = request.input - 1, request.output, request.input
        heappush(self.deliveries, (there, request.number, request))
        if self.replica is not None:
            self.replica.horizon = min(self.replica.horizon, there)


@dataclass(eq=False)
class TwoPools:
    """Replicas of both pools, and what is under way: caches between them, and requests on their way from users.

    `sent`: how far the stream has come, and `placed` how many caches have; `follows`: requests are sent when others are
    done, so that all that happens is to be in order.
    """

    first: Setup
    prefills: list[Replica]
    decodes: list[Replica]
    deliveries: list[tuple[float, int, Request]]
    recorder: Recorder
    router: str
    sent: Position = field(default_factory=Position)
    placed: Position = field(default_factory=Position)
    follows: bool = False
    transfer: Sample = field(default_factory=Sample)
    parked: Sample = field(default_factory=Sample)

    def answer(self, seconds: float) -> Prefilling:
        """What became of the pool that prefills, in so many seconds that count."""
        busy = sum(r.watcher.busy for r in self.prefills if isinstance(r.watcher, Handover))
        share = busy / seconds / len(self.prefills) if seconds > 0 else float("nan")
        first, number = self.first, len(self.prefills)
        spread = distribution(self.transfer), distribution(self.parked)
        return Prefilling(first.deployment, first.engine, number, share, *spread)

    def done(self, request: Request) -> None:
        """A request has its last token."""
        for replica in self.decodes:
            replica.horizon = min(replica.horizon, request.finished)
        if self.recorder.first <= request.number < self.recorder.last:
            self.transfer.add(request.travelled)
            self.parked.add(request.parked)

    # -- time ------------------------------------------------------------------------------------------------------
    def until(self, time: float) -> None:
        """All that happens before a time.

        In order, where that is needed: always the replica that is behind all others takes a step, or a row of them
        until it is not.
        """
        if not self.follows:
            _reach(self.prefills, time)
            while self.deliveries and self.deliveries[0][0] <= time:
                self._place(heappop(self.deliveries)[2])
            _reach(self.decodes, time)
            return
        while True:
            due = min(time, self.deliveries[0][0]) if self.deliveries else time
            behind = sorted((r for r in (*self.prefills, *self.decodes) if r.present and r.clock < due), key=_clock)
            if behind:
                most = min(due, behind[1].clock) if len(behind) > 1 else due
                behind[0].advance(max(most, nextafter(behind[0].clock, inf)))
                if self.changed(time):
                    return
            elif self.deliveries and self.deliveries[0][0] <= time and due < inf:
                self._place(heappop(self.deliveries)[2])
            else:
                return

    def changed(self, time: float) -> bool:
        """Whether a user sent a request that comes before a time."""
        return bool(self.sent.coming) and self.sent.coming[0][0] < time

    @cached_property
    def _choose(self) -> Callable[[Request], int]:
        return router_of(self.router, self.decodes, self.placed)

    def _place(self, request: Request) -> None:
        """A cache is there: a replica is chosen that decodes."""
        _reach(self.decodes, request.ready)
        self.decodes[self._choose(request)].receive(request)

    @property
    def present(self) -> bool:
        """Whether any request is under way."""
        return bool(self.deliveries) or any(r.present for r in (*self.prefills, *self.decodes))


def _reach(replicas: Sequence[Replica], time: float) -> None:
    """All steps that begin before a time, also where those told of an end would look at it first."""
    for replica in replicas:
        while replica.present and replica.clock < time:
            replica.advance(time)


def _clock(replica: Replica) -> float:
    return replica.clock


# -- drivers -------------------------------------------------------------------------------------------------------
def prompts_alone(requests: Iterator[Request]) -> Iterator[Request]:
    """The requests as the first pool sees them: one token to generate, and no answer that stays in its cache."""
    for request in requests:
        request.left, request.kept = 1, min(request.kept, request.input)
        yield request


def run_pools_open(requests: Iterator[Request], pools: TwoPools, enough: Callable[[], bool]) -> None:
    """Requests that come when they come, as `run_open` has it for one pool."""
    at = pools.sent
    sessions = Sessions(pools.prefills, at.later)

    def done(request: Request) -> None:
        pools.done(request)
        sessions.done(request)

    _tell(pools.decodes, done)
    choose = router_of(pools.router, pools.prefills, at)
    for request in islice(by_readiness(prompts_alone(requests), pools.recorder), at.number, None):
        at.number += 1
        pools.follows = pools.follows or (request.prefix >= 0 and request.kept > request.shared)
        pools.until(request.ready)
        if sessions.held_back(request):
            continue
        place = choose(request)
        sessions.begin(request, place)
        pools.prefills[place].receive(request)
        if at.number % CHECKED == 1 and enough():
            return
    while pools.present:
        pools.until(inf)


def run_pools_closed(
    requests: Iterator[Request], pools: TwoPools, clients: Closed, before: Callable[[int], Any],
    enough: Callable[[], bool],
) -> None:  # fmt: skip
    """Clients that each send the next request when their last one was answered, as `run_closed` has it for one pool.

    Replicas that prefill take turns. `before`: seconds from the arrival of a prompt of so many tokens until the
    scheduler sees it.
    """
    at, recorder, pools.follows = pools.sent, pools.recorder, True
    coming, requests = at.coming, islice(prompts_alone(requests), at.number, None)

    def send(user: int, time: float) -> None:
        request = next(requests, None)
        if request is None:
            return
        request.arrival, request.ready, request.source = time, time + float(before(request.input)), user
        recorder.arrived(at.number, time)
        at.number += 1
        heappush(coming, (request.ready, at.number, request))

    def done(request: Request) -> None:
        pools.done(request)
        send(request.source, request.finished + clients.think)

    _tell(pools.decodes, done)
    for user in range(0 if at.number else clients.concurrency):
        send(user, (clients.ramp or 0.0) * user / clients.concurrency)
    while not enough():
        following = coming[0] if coming else None
        if following is None and not pools.present:
            break
        pools.until(inf if following is None else following[0])
        if coming and coming[0] is following:
            _, turn, request = heappop(coming)
            pools.prefills[(turn - 1) % len(pools.prefills)].receive(request)


def _tell(replicas: Sequence[Replica], done: Callable[[Request], None]) -> None:
    for replica in replicas:
        assert isinstance(replica.watcher, Watch)
        replica.watcher.finished = done
