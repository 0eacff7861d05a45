"""What holds of a replica whatever it is sent: nothing is lost or done twice, and no memory used that is not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folded import by_day
from roofline.serving.simulate.checkpoint import restore, state_of
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.policy import Policy, Room
from roofline.serving.simulate.recorder import Objective, Recorder, Row, Watch
from roofline.serving.simulate.replica import Replica, State
from roofline.serving.simulate.run import Position
from roofline.serving.simulate.steps import Decodes

CAPACITY = 400
"""Tokens that the memory of the replicas holds, or more where windows do."""


@dataclass
class Rule:
    """Steps by a rule: seconds of a step, of a prompt token and of a decode, whatever the contexts."""

    alone: float = 0.5
    token: float = 0.25
    each: float = 0.125

    def mixed(self, chunks: Sequence[tuple[int, int]], decodes: int, context: float) -> float:
        assert all(cached >= 0 and new > 0 for cached, new in chunks)
        assert decodes == 0 or context > 0
        return self.alone + self.token * sum(n for _, n in chunks) + self.each * decodes

    def row(self, decodes: int) -> Decodes:
        seconds = self.alone + self.each * decodes
        return Decodes([0.0, 1e9], [seconds, seconds], [0.0, seconds * 1e9])


@dataclass
class Witness:
    """Sees all steps and ends of a replica and checks them."""

    replica: Any = None
    steps_seen: list[tuple[float, float, State]] = field(default_factory=list)
    done_requests: list[Request] = field(default_factory=list)

    def steps(self, start: float, end: float, number: int, decodes: int, state: State) -> None:
        assert number > 0
        assert decodes > 0
        self.step(start, end, state)

    def prompts(self, start: float, end: float, decodes: int, waits: bool, state: State) -> None:
        self.step(start, end, state)

    def step(self, start: float, end: float, state: State) -> None:
        assert end > start
        if self.steps_seen:
            assert start >= self.steps_seen[-1][1] - 1e-9
        self.steps_seen.append((start, end, state))
        running, waiting, full = state
        assert running >= 1
        assert waiting >= 0
        assert -1e-6 <= full <= 1 + 1e-6
        self.memory()

    def memory(self) -> None:
        cached = self.replica.prefixes
        assert cached.pinned >= -1e-9
        assert cached.loose >= -1e-9
        tokens = sum(e.tokens for e in cached.entries.values())
        assert cached.pinned + cached.loose == pytest.approx(cached.share(tokens), abs=1e-9)
        assert cached.pinned == pytest.approx(cached.share(sum(e.used for e in cached.entries.values())), abs=1e-9)
        assert all(0 <= e.used <= e.tokens for e in cached.entries.values())

    def done(self, request: Request) -> None:
        self.done_requests.append(request)


ROOMS = st.sampled_from([
    Room(0.0, 1 / CAPACITY),
    Room(0.01, 0.98 / CAPACITY),
    Room(0.0, 1 / CAPACITY, full=60, later=0.25 / CAPACITY),
    Room(0.0, 0.0),
])  # fmt: skip
POLICIES = st.builds(
    Policy, tokens=st.integers(1, 80), running=st.integers(1, 12), mixes=st.booleans(), splits=st.booleans(),
    reserves=st.booleans(), caches=st.booleans(), ahead=st.booleans(), expects=st.sampled_from([0.0, 0.7]),
)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> list[Request]:
    """Requests of at most 180 tokens, some of which share prefixes, chains of blocks or turns of a session."""
    time, all_of = 0.0, []
    for number in range(draw(st.integers(1, 25))):
        time += draw(st.sampled_from([0.0, 0.1, 3.0, 40.0]))
        new, out = draw(st.integers(1, 120)), draw(st.integers(1, 60))
        request = Request(number, time, time + draw(st.sampled_from([0.0, 0.0, 1.0])), new, out)
        kind = draw(st.sampled_from(["none", "prefix", "session", "chain"]))
        if kind == "prefix":
            request.prefix, request.shared = draw(st.integers(0, 2)), draw(st.integers(1, new))
            request.kept = request.shared
        elif kind == "session":
            request.prefix, request.shared = draw(st.integers(10, 12)), draw(st.integers(0, new))
            request.kept = new + out
        elif kind == "chain":
            front = draw(st.integers(0, 2))
            request.chain, request.shared = tuple(range(100 * (front + 1), 100 * (front + 1) + new // 8)), 8
        all_of.append(request)
    return sorted(all_of, key=lambda r: r.ready)


@settings(max_examples=by_day(40, 120), deadline=None)
@given(requests(), POLICIES, ROOMS, st.sampled_from([1, 4]), st.sampled_from([1, 3]))
def test_all_requests_are_done_once_in_the_memory_that_is_there(
    sent: list[Request], policy: Policy, room: Room, block: int, yields: int
) -> None:
    witness = Witness()
    replica = Replica(Rule(), policy, room, witness, lambda r: -(-r.left // yields), block)  # type: ignore[arg-type]
    witness.replica = replica
    clock = 0.0
    for request in sent:
        replica.advance(request.ready)
        assert replica.clock >= clock
        clock = replica.clock
        replica.receive(request)
    replica.advance(inf)
    assert sorted(r.number for r in witness.done_requests) == list(range(len(sent)))
    assert not replica.present
    for request in sent:
        assert request.left == 0
        assert request.ready <= request.begun < request.first <= request.finished
        steps = -(-(request.output - 1) // yields)
        assert request.finished >= request.first + steps * 0.625 - 1e-6 or request.preempted
        assert not request.pins
    if policy.reserves:
        assert not any(r.preempted for r in sent)
    assert replica.taken == 0.0
    assert replica.tokens == replica.growing == replica.rate == replica.finals == 0
    assert replica.prefixes.pinned == pytest.approx(0.0, abs=1e-9)
    assert replica.prefixes.loose <= 1 + 1e-6
    witness.memory()
    # it works for as long as anything is there: a gap ends when a request comes to an empty replica
    for (_, end, _), (start, _, _) in zip(witness.steps_seen, witness.steps_seen[1:], strict=False):
        if start > end + 1e-9:
            assert any(r.ready == pytest.approx(start) for r in sent)
            assert all(r.finished <= end + 1e-9 or r.ready >= start - 1e-9 for r in sent)


@settings(max_examples=by_day(13, 40), deadline=None)
@given(requests(), POLICIES)
def test_nobody_waits_while_there_is_room_for_all(sent: list[Request], policy: Policy) -> None:
    """Without a limit of memory a request waits for steps' tokens and for a place alone."""
    witness = Witness()
    replica = Replica(Rule(), policy, Room(0.0, 0.0), witness, lambda r: r.left)  # type: ignore[arg-type]
    witness.replica = replica
    for request in sent:
        replica.advance(request.ready)
        replica.receive(request)
    replica.advance(inf)
    assert not any(r.preempted for r in sent)
    busy = sum(end - start for start, end, _ in witness.steps_seen)
    tokens = sum(r.input - r.hit for r in sent)
    decodes = sum(r.output - 1 for r in sent)
    steps = busy - 0.25 * tokens - 0.125 * decodes
    assert steps >= 0.5 - 1e-6
    assert steps / 0.5 == pytest.approx(round(steps / 0.5), abs=1e-6)


def test_windows_end_with_the_memory_that_they_began_with() -> None:
    """Prompts on both sides of a window of 60, always two at once: shares go to what each takes at its end, exactly."""
    room = Room(0.0, 1 / CAPACITY, full=60, later=0.25 / CAPACITY)
    witness = Witness()
    replica = Replica(Rule(), Policy(tokens=64, running=8), room, witness, lambda r: r.left)  # type: ignore[arg-type]
    witness.replica = replica
    replica.receive(Request(0, 0.0, 0.0, 10, 1000))
    for number in range(1, 12):
        replica.advance(number * 10.0)
        replica.receive(Request(number, number * 10.0, number * 10.0, 30 + 8 * number, 8))
    replica.advance(580.0)
    (first,) = (r for _, _, r in replica.ending)
    steps = 1000 - 1 - (first.ends - replica.decoded)
    assert replica.taken == pytest.approx(1 / CAPACITY * 60 + 0.25 / CAPACITY * (10 + steps - 60), rel=1e-12)


@pytest.mark.parametrize(("tokens", "begun"), [(98, 5.5 + 39 * 0.625), (99, 5.5 + 0.625)])
def test_a_request_begins_where_what_others_may_still_say_is_kept_free(tokens: int, begun: float) -> None:
    """20 + 30 tokens beside 20 + 40, of which k of 39 steps are done and r = 0.7 − k·0.7·0.86/600 is expected.

    20 + k and one more, 21 and the 29 others of the new one, r·(39 − k): with k = 1, the first time that it is asked,
    98.56, and more later. So a memory of 99 takes it at once, and one of 98 when the first one has gone.
    """
    witness = Witness()
    policy = Policy(tokens=64, running=8, mixes=False, expects=0.7)
    replica = Replica(Rule(), policy, Room(0.0, 1 / tokens), witness, lambda r: r.left)  # type: ignore[arg-type]
    witness.replica = replica
    requests = [Request(0, 0.0, 0.0, 20, 40), Request(1, 6.0, 6.0, 20, 30)]
    for request in requests:
        replica.advance(request.ready)
        replica.receive(request)
    replica.advance(inf)
    assert requests[1].begun == pytest.approx(begun)
    assert not any(r.preempted for r in requests)


@settings(max_examples=by_day(13, 40), deadline=None)
@given(requests(), POLICIES, ROOMS, st.integers(0, 24))
def test_a_replica_that_was_saved_goes_on_as_if_it_had_not_been(
    sent: list[Request], policy: Policy, room: Room, saved: int
) -> None:
    """Rows of requests are the same to the last bit, with two tokens a step, windows and prefixes."""
    copies = [[_copied(r) for r in sent] for _ in range(2)]
    rows: list[list[Row]] = []
    for interrupted, own in zip((False, True), copies, strict=True):
        rows.append([])
        recorder = Recorder(0, inf, Objective(), rows[-1].append, start=0.0)
        replica = _watched(policy, room, recorder)
        for number, request in enumerate(own):
            replica.advance(request.ready)
            replica.receive(request)
            if interrupted and number == saved:
                state = json.loads(json.dumps(state_of(Position(), [replica], recorder)))
                recorder = Recorder(0, inf, Objective(), rows[-1].append, start=0.0)
                replica = _watched(policy, room, recorder)
                restore(state, Position(), [replica], recorder)
        replica.advance(inf)
    assert rows[0] == rows[1]
    assert len(rows[0]) == len(sent)


def _watched(policy: Policy, room: Room, recorder: Recorder) -> Replica:
    return Replica(Rule(), policy, room, Watch(recorder, 0), lambda r: -(-r.left // 2), 4)  # type: ignore[arg-type]


def _copied(request: Request) -> Request:
    copy = Request(request.number, request.arrival, request.ready, request.input, request.output)
    copy.prefix, copy.shared, copy.kept, copy.chain = request.prefix, request.shared, request.kept, request.chain
    return copy


@pytest.mark.parametrize(("ahead", "begun"), [(True, [0.0, 2.125, 3.75]), (False, [0.0, 1.5, 3.125])])
def test_an_idle_engine_that_schedules_ahead_puts_its_second_step_together_as_the_first_begins(
    ahead: bool, begun: list[float]
) -> None:
    """vLLM fills its queue of two steps before it waits for one (vllm/v1/engine/core.py, step_with_batch_queue).

    Steps of 0.5 + 0.25 a prompt token + 0.125 a decode: the first request alone until 1.5. Ahead, the next step is put
    together at 0, without the request of 0.1, and lasts until 2.125; the one after at 1.5, without that of 1.6, until
    3.75. Otherwise each request is in the step that follows.
    """
    witness = Witness()
    replica = Replica(Rule(), Policy(64, 8, ahead=ahead), Room(0.0, 0.0), witness, lambda r: r.left)  # type: ignore[arg-type]
    witness.replica = replica
    requests = [Request(i, ready, ready, 4, 10) for i, ready in enumerate((0.0, 0.1, 1.6))]
    for request in requests:
        replica.advance(request.ready)
        replica.receive(request)
    replica.advance(inf)
    assert [r.begun for r in requests] == begun


def test_those_who_come_together_to_an_idle_engine_begin_together() -> None:
    witness = Witness()
    replica = Replica(Rule(), Policy(64, 8, ahead=True), Room(0.0, 0.0), witness, lambda r: r.left)  # type: ignore[arg-type]
    witness.replica = replica
    requests = [Request(i, 3.0, 3.0, 4, 10) for i in range(3)]
    for request in requests:
        replica.advance(request.ready)
        replica.receive(request)
    replica.advance(inf)
    assert [r.begun for r in requests] == [3.0, 3.0, 3.0]
