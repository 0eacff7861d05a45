"""Two pools, request by request and step by step: a second way to what `tandem.py` has in closed form."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Plant:
    """Replicas of one prompt batch or decode step at a time; times are functions of how many take part.

    `spread`: answers take from (1 − spread) to (1 + spread) times `steps`, so that a closed loop falls into no rhythm.
    """

    batch: Callable[[int], float]
    largest: int
    prefills: int
    step: Callable[[int], float]
    places: int
    decodes: int
    steps: int
    spread: float = 0.0


@dataclass
class Seen:
    """Means of what requests saw, and the throughput."""

    ttft: float
    tpot: float
    rate: float


@dataclass
class Run:
    plant: Plant
    requests: int
    events: list[tuple[float, int, str, int]] = field(default_factory=list)
    order: int = 0

    def at(self, time: float, kind: str, who: int) -> None:
        self.order += 1
        heapq.heappush(self.events, (time, self.order, kind, who))

    def go(self, rate: float | None = None, users: int = 0, seed: int = 1) -> Seen:
        p, rng = self.plant, random.Random(seed)
        queues: list[deque[int]] = [deque() for _ in range(p.prefills)]
        batches: list[list[int]] = [[] for _ in range(p.prefills)]
        outside: list[deque[int]] = [deque() for _ in range(p.decodes)]
        inside: list[dict[int, int]] = [{} for _ in range(p.decodes)]
        stepping = [False] * p.decodes
        begun: list[float] = []
        first: dict[int, float] = {}
        done: dict[int, float] = {}
        wanted: dict[int, int] = {}
        now, turn = 0.0, 0

        def arrive() -> None:
            begun.append(now)
            wanted[len(begun) - 1] = round(p.steps * rng.uniform(1 - p.spread, 1 + p.spread))
            group = (len(begun) - 1) % p.prefills
            queues[group].append(len(begun) - 1)
            if not batches[group]:
                start(group)

        def start(group: int) -> None:
            size = min(len(queues[group]), p.largest)
            batches[group] = [queues[group].popleft() for _ in range(size)]
            if size:
                self.at(now + p.batch(size), "batch", group)

        def decode(group: int) -> None:
            while outside[group] and len(inside[group]) < p.places:
                inside[group][outside[group].popleft()] = 0
            stepping[group] = bool(inside[group])
            if inside[group]:
                self.at(now + p.step(len(inside[group])), "step", group)

        if rate is not None:
            self.at(rng.expovariate(rate), "arrival", 0)
        for user in range(users):
            self.at(user * 0.37 * p.batch(1), "arrival", 0)
        while len(done) < self.requests:
            now, _, kind, who = heapq.heappop(self.events)
            if kind == "arrival":
                arrive()
                if rate is not None:
                    self.at(now + rng.expovariate(rate), "arrival", 0)
            elif kind == "batch":
                for request in batches[who]:
                    group, turn = turn % p.decodes, turn + 1
                    outside[group].append(request)
                    if not stepping[group]:
                        stepping[group] = True
                        self.at(now, "join", group)
                start(who)
            elif kind == "join":
                decode(who)
            else:
                for request in list(inside[who]):
                    inside[who][request] += 1
                    first.setdefault(request, now)
                    if inside[who][request] == wanted[request]:
                        del inside[who][request]
                        done[request] = now
                        if users:
                            self.at(now, "arrival", 0)
                decode(who)
        kept = sorted(done)[len(done) // 5 :]
        ttft = sum(first[r] - begun[r] for r in kept) / len(kept)
        tpot = sum(done[r] - first[r] for r in kept) / max(1, sum(wanted[r] - 1 for r in kept))
        ends = sorted(done.values())
        early = len(ends) // 5
        return Seen(ttft, tpot, (len(ends) - 1 - early) / (ends[-1] - ends[early]))
