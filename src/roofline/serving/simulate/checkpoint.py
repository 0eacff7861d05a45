"""Checkpoints of a running simulation as plain data, so that a killed simulation resumes where it was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from roofline.declared.errors import InputError
from roofline.serving.simulate.disaggregated import Handover, TwoPools
from roofline.serving.simulate.load.prefixes import Entry
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.recorder import Recorder, Row, Watch
from roofline.serving.simulate.replica import Replica
from roofline.serving.simulate.run import Position
from roofline.serving.simulate.statistics import Means, OverTime, Sample

Saved = dict[str, Any]
"""Numbers, strings and lists, as in JSON."""
NUMBERS = (
    "clock", "horizon", "scheduled", "decoded", "tokens", "growing", "taken", "rate", "order", "entered", "finals",
    "expected",
)  # fmt: skip
"""Saved numbers of a replica."""


class Ledger(ABC):
    """A sink for the rows of a simulation that also stores its checkpoints."""

    @abstractmethod
    def __call__(self, row: Row) -> None:
        """Take the row of a finished request that counts."""

    @abstractmethod
    def begin(self, fingerprint: str) -> Saved | None:
        """The last checkpoint of the same simulation, or None; called before the first row.

        Rows after that checkpoint are sent again.
        """

    @abstractmethod
    def due(self, rows: int) -> bool:
        """Whether it is time for a checkpoint, after this number of rows."""

    @abstractmethod
    def save(self, state: Saved) -> None:
        """Store a checkpoint after all rows so far."""


# -- state ---------------------------------------------------------------------------------------------------------
def state_of(
    position: Position, replicas: Sequence[Replica], recorder: Recorder, pools: TwoPools | None = None
) -> Saved:
    """The state of a simulation, without the requests still to come."""
    return {
        "number": position.number,
        "turn": position.turn,
        "later": [[key, place, [_request(r) for r in turns]] for key, (place, turns) in position.later.items()],
        "coming": _queued(position.coming),
        "replicas": [_replica(replica) for replica in replicas],
        "recorder": {name: _sums(getattr(recorder, name)) for name in _summed(recorder)},
        "pools": None if pools is None else _pools(pools),
        "front": None if position.front is None else {n: getattr(position.front, n) for n in position.front.SAVED},
    }


def restore(
    state: Saved, position: Position, replicas: Sequence[Replica], recorder: Recorder, pools: TwoPools | None = None
) -> None:
    """Restore a state into a simulation that has not started. Raises InputError for any other data."""
    try:
        _put_back(state, position, replicas, recorder, pools)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError("checkpoint", type(error).__name__, "the state that this simulation saved") from error


def _put_back(
    state: Saved, position: Position, replicas: Sequence[Replica], recorder: Recorder, pools: TwoPools | None
) -> None:
    position.number, position.turn = state["number"], state["turn"]
    position.later.update((key, (place, deque(map(_requested, turns)))) for key, place, turns in state["later"])
    position.coming.extend(_unqueued(state["coming"]))
    for name, value in (state["front"] or {}).items():
        setattr(position.front, name, value)
    for replica, was in zip(replicas, state["replicas"], strict=True):
        _restore_replica(replica, was)
    for name, value in state["recorder"].items():
        if not _restored(getattr(recorder, name), value):
            setattr(recorder, name, value)
    if pools is not None:
        _restore_pools(pools, state["pools"])


def _pools(pools: TwoPools) -> Saved:
    """The state of two pools other than their decode replicas and the position of the stream."""
    return {
        "prefills": [_replica(replica) for replica in pools.prefills],
        "deliveries": _queued(pools.deliveries),
        "placed": pools.placed.turn,
        "follows": pools.follows,
        "transfer": _sums(pools.transfer),
        "parked": _sums(pools.parked),
    }


def _restore_pools(pools: TwoPools, state: Saved) -> None:
    for replica, was in zip(pools.prefills, state["prefills"], strict=True):
        _restore_replica(replica, was)
    pools.deliveries.extend(_unqueued(state["deliveries"]))
    pools.placed.turn, pools.follows = state["placed"], state["follows"]
    _restored(pools.transfer, state["transfer"])
    _restored(pools.parked, state["parked"])


def _queued(heap: list[tuple[float, int, Request]]) -> list[list[Any]]:
    return [[ready, number, _request(request)] for ready, number, request in heap]


def _unqueued(state: list[list[Any]]) -> list[tuple[float, int, Request]]:
    return [(ready, number, _requested(values)) for ready, number, values in state]


def _request(request: Request) -> list[Any]:
    return [getattr(request, name) for name in Request.__slots__]


def _requested(values: list[Any]) -> Request:
    request = Request.__new__(Request)
    for name, value in zip(Request.__slots__, values, strict=True):
        setattr(request, name, value)
    request.chain = tuple(request.chain)
    return request


def _replica(replica: Replica) -> Saved:
    cached, watcher = replica.prefixes, replica.watcher
    assert isinstance(watcher, (Watch, Handover))
    return {
        **{name: getattr(replica, name) for name in NUMBERS},
        "waiting": [_request(r) for r in replica.waiting],
        "filling": [_request(r) for r in replica.filling],
        "ending": [[ends, order, _request(r)] for ends, order, r in replica.ending],
        "bending": [[bends, order] for bends, order, _ in replica.bending],
        "entries": [[key, entry.tokens, entry.pins, entry.used] for key, entry in cached.entries.items()],
        "pinned": cached.pinned,
        "loose": cached.loose,
        "joined": [request.order for request in replica.joined],
        "watcher": {name: getattr(watcher, name) for name in watcher.SAVED},
    }


def _restore_replica(replica: Replica, state: Saved) -> None:
    for name in NUMBERS:
        setattr(replica, name, state[name])
    replica.waiting.extend(map(_requested, state["waiting"]))
    replica.filling.extend(map(_requested, state["filling"]))
    replica.ending.extend((ends, order, _requested(values)) for ends, order, values in state["ending"])
    decoding = {order: request for _, order, request in replica.ending}
    replica.bending.extend((bends, order, decoding[order]) for bends, order in state["bending"])
    cached = replica.prefixes
    for key, tokens, pins, used in state["entries"]:
        entry = cached.entries[key] = Entry()
        entry.tokens, entry.pins, entry.used = tokens, pins, used
    cached.pinned, cached.loose = state["pinned"], state["loose"]
    replica.joined.extend(decoding[order] for order in state["joined"])
    for name, value in state["watcher"].items():
        setattr(replica.watcher, name, value)


def _summed(recorder: Recorder) -> list[str]:
    return [f.name for f in fields(recorder) if f.name not in ("objective", "written", "settling")]


def _restored(part: Any, value: Any) -> bool:
    """Restore saved sums in place; False where the part is a plain number."""
    if isinstance(part, Sample):
        vars(part).update(value, bins=dict(value["bins"]))
    elif isinstance(part, (Means, OverTime)):
        vars(part).update(value)
    return isinstance(part, (Sample, Means, OverTime))


def _sums(part: Any) -> Any:
    if isinstance(part, Sample):
        return {**vars(part), "bins": list(part.bins.items())}
    return vars(part) if isinstance(part, (Means, OverTime)) else part


# -- identity ------------------------------------------------------------------------------------------------------
def digest_of(*parts: object) -> str:
    """SHA-256 of everything that determines a simulation: equal digests give equal rows."""
    digest = sha256()

    def take(part: object) -> None:
        if is_dataclass(part) and not isinstance(part, type):
            digest.update(type(part).__name__.encode())
            for f in fields(part):
                if f.init:
                    take(getattr(part, f.name))
        elif isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode() + part.tobytes())
        else:
            digest.update(f"{part!r};".encode())

    for part in parts:
        take(part)
    return digest.hexdigest()
