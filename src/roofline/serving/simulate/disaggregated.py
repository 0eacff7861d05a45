"""Disaggregated serving, request by request: a prefill pool, a decode pool, and KV cache transfers between them.

A prefill replica, with its own scheduler, memory and prefix cache, computes a prompt. The KV cache is sent layer by
layer behind the prefill. The request then waits for a decode replica, whose steps generate all tokens of the answer.
The first token therefore comes from the first decode step, as in `roofline.serving.pools` and in vLLM's connectors:
the token of the prefill is not used, and the last token of the prompt is computed again.
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
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import Cluster
from roofline.inference.deployment import deploy
from roofline.inference.settings import Setup
from roofline.kernels.collectives import collective
from roofline.serving.simulate.load.arrivals import Closed
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.recorder import Recorder, Watch
from roofline.serving.simulate.replica import Replica, State
from roofline.serving.simulate.run import CHECKED, Position, Sessions, by_readiness, router_of
from roofline.serving.simulate.simulation import Prefilling, distribution
from roofline.serving.simulate.statistics import Sample


@group
@dataclass(frozen=True)
class PrefillPool:
    """A prefill pool beside the server that decodes: its machine, layout (`dp` replicas) and engine.

    Machine and engine default to those of the server. `bandwidth`: bytes/s of each chip's link between the pools; by
    default the slower of the two chips' node networks.
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
            MachineName | None, "Chip or cluster of the replicas that only prefill, if it differs."
        ] = None,
        prefill_engine: Annotated[EngineName | None, "Engine of the replicas that only prefill, if it differs."] = None,
        prefill_bandwidth: Annotated[
            Bandwidth | None,
            "Bandwidth of each chip's link between the pools, such as `50GB/s` (default: that of the node network).",
        ] = None,
    ) -> PrefillPool:
        """A pool from settings. Raises InputError for an engine or a bandwidth without a pool."""
        if prefill_layout is None and prefill_on is None:
            name, value = (
                ("prefill_bandwidth", prefill_bandwidth)
                if prefill_engine is None
                else ("prefill_engine", prefill_engine)
            )
            wanted = "prefill_layout or prefill_on as well; without, no replica only prefills"
            raise InputError(name, value, wanted)
        return cls(prefill_on, prefill_layout, prefill_engine, prefill_bandwidth)


@dataclass(frozen=True)
class Travel:
    """KV cache transfers from prefill replicas to decode replicas.

    The busiest link carries what one rank holds of a sequence, on the side where that is more. Ranks that hold copies,
    such as those of a latent cache under tensor parallelism, do not share the work.
    """

    first: Setup
    then: Setup
    bandwidth: float | None
    _known: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    def cache(self, tokens: int) -> float:
        """Bytes of a prompt's cache on the busiest link."""
        return max(float(rank.kv_bytes(tokens, s.formats) + rank.state_bytes(s.formats)) for s, rank in self._ranks)

    @cached_property
    def _ranks(self) -> tuple[tuple[Setup, Any], ...]:
        return tuple((s, rank) for s in (self.first, self.then) for rank in s.deployment.ranks(s.model))

    @cached_property
    def _networks(self) -> tuple[Cluster, ...]:
        """The node networks of both chips."""
        chips = {s.deployment.chip.name: s.deployment.chip for s in (self.first, self.then)}
        return tuple(map(networked, chips.values()))

    def seconds(self, tokens: int) -> float:
        """Seconds to transfer the cache of a prompt, without contention."""
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
        """Number of pieces of a cache; each is sent as soon as it is computed."""
        return max(1, len(self.first.model.layers))


def networked(chip: Chip) -> Cluster:
    """The smallest cluster of a chip whose nodes are joined by a network. Raises InputError where none is known."""
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
    """The watcher of a prefill replica: it sends the caches of finished prompts, one after another.

    The cache of a layer is sent when the layer is computed: the first after the first layer, the last after the whole
    prefill. The link transfers one cache at a time.
    """

    SAVED: ClassVar[tuple[str, ...]] = ("busy", "sent")

    recorder: Recorder
    travel: Travel
    deliveries: list[tuple[float, int, Request]]
    replica: Replica | None = None
    busy: float = 0.0
    sent: float = 0.0

    def steps(self, start: float, end: float, number: int, decodes: int, state: State) -> None:
        """Ignored: a prefill replica never decodes."""

    def prompts(self, start: float, end: float, decodes: int, waits: bool, state: State) -> None:
        """Record a step."""
        self.busy += max(0.0, min(end, self.recorder.end) - max(start, self.recorder.start))

    def done(self, request: Request) -> None:
        """Record a finished prompt: determine when its cache arrives at the decode pool."""
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
    """The replicas of both pools, the caches in transit, and the position in the request stream.

    `sent`: position of the stream; `placed`: number of caches placed. `follows`: requests depend on earlier answers, so
    that all events must be processed in order.
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
        """The figures of the prefill pool, over the measured seconds."""
        busy = sum(r.watcher.busy for r in self.prefills if isinstance(r.watcher, Handover))
        share = busy / seconds / len(self.prefills) if seconds > 0 else float("nan")
        first, number = self.first, len(self.prefills)
        spread = distribution(self.transfer), distribution(self.parked)
        return Prefilling(first.deployment, first.engine, number, share, *spread)

    def done(self, request: Request) -> None:
        """Record a request's last token."""
        for replica in self.decodes:
            replica.horizon = min(replica.horizon, request.finished)
        if self.recorder.first <= request.number < self.recorder.last:
            self.transfer.add(request.travelled)
            self.parked.add(request.parked)

    # -- time ------------------------------------------------------------------------------------------------------
    def until(self, time: float) -> None:
        """Process all events before a time.

        If order matters, the replica that is furthest behind runs a step, or several until it no longer is.
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
        """Whether a user has sent a request that arrives before a time."""
        return bool(self.sent.coming) and self.sent.coming[0][0] < time

    @cached_property
    def _choose(self) -> Callable[[Request], int]:
        return router_of(self.router, self.decodes, self.placed)

    def _place(self, request: Request) -> None:
        """Assign a request whose cache has arrived to a decode replica."""
        _reach(self.decodes, request.ready)
        self.decodes[self._choose(request)].receive(request)

    @property
    def present(self) -> bool:
        """Whether any request is in progress."""
        return bool(self.deliveries) or any(r.present for r in (*self.prefills, *self.decodes))


def _reach(replicas: Sequence[Replica], time: float) -> None:
    """Run all steps that begin before a time, even where a finished request sets an earlier horizon."""
    for replica in replicas:
        while replica.present and replica.clock < time:
            replica.advance(time)


def _clock(replica: Replica) -> float:
    return replica.clock


# -- drivers -------------------------------------------------------------------------------------------------------
def prompts_alone(requests: Iterator[Request]) -> Iterator[Request]:
    """The requests as the prefill pool sees them: one token to generate, and no answer left in its prefix cache."""
    for request in requests:
        request.left, request.kept = 1, min(request.kept, request.input)
        yield request


def run_pools_open(requests: Iterator[Request], pools: TwoPools, enough: Callable[[], bool]) -> None:
    """An open stream of requests through two pools; the counterpart of `run_open`."""
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
    """A closed loop of clients through two pools; the counterpart of `run_closed`.

    Prefill replicas are chosen in turn. `before`: seconds from the arrival of a prompt until the scheduler sees it, by
    its number of tokens.
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
            if at.encodes(request, turn):
                continue
            pools.prefills[(turn - 1) % len(pools.prefills)].receive(request)


def _tell(replicas: Sequence[Replica], done: Callable[[Request], None]) -> None:
    for replica in replicas:
        assert isinstance(replica.watcher, Watch)
        replica.watcher.finished = done
