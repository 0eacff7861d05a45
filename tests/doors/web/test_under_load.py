"""The server under load: real sockets, clients of several addresses, workers that die, bodies that never end.

A client is an address; on Linux every address of 127.0.0.0/8 is this machine, so that tests can be several clients.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import active_children
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from roofline.declared.errors import InputError
from roofline.doors.web import app as web_app
from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.app import page_app
from roofline.doors.web.page.files import plotly_name
from roofline.doors.web.server import connections, dispatcher, middleware
from roofline.doors.web.server.dispatcher import Desk
from roofline.doors.web.server.fair_queue import Asker, BusyError, FairQueue, QueueLimits
from roofline.doors.web.server.workers import Workers, stays
from served_page import RunningServer, shared_app, started

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from hostile import slow_config

PLACE = {"model": "meta-llama/Llama-3.1-8B", "on": "h100-sxm"}
SHORT = {**PLACE, "rate": 2.0, "requests": 20}
LONG = {"model": "deepseek-ai/DeepSeek-V3", "on": "512xh100-sxm", "concurrency": 16_384}
ONE, OTHER = "127.0.0.2", "127.0.0.3"
elsewhere = pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on all of 127.0.0.0/8")


@contextmanager
def served(application: Any = None) -> Iterator[RunningServer]:
    """A server of its own."""
    server = started(application or shared_app())
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def own_workers() -> Iterator[RunningServer]:
    """A server with processes of its own, all of which are ready, the spare one too."""
    desks: list[Desk] = []

    def desk(allowed: Allowed) -> Desk:
        desks.append(Desk(allowed))
        return desks[-1]

    with patch.object(web_app, "Desk", desk), served(page_app()) as server:
        end = monotonic() + 120
        while len(desks[0].quick.idle) < dispatcher.QUICK_QUEUE.at_once + 1:
            assert monotonic() < end, "not ready"
            sleep(0.1)
        yield server


def asked(server: RunningServer, name: str, body: dict[str, Any], address: str = "127.0.0.1") -> httpx.Response:
    """The answer to a question of a client at this address."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=60) as client:
        return client.post(f"{server.address}api/v1/{name}", json=body)


def half_sent(server: RunningServer, *, head: bool = False, address: str = "127.0.0.1") -> socket.socket:
    """A connection that has sent a part of a request's body, or of its head."""
    port = int(server.address.rpartition(":")[2].strip("/"))
    connection = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(address, 0))
    words = "POST /api/v1/fit HTTP/1.1\r\nhost: localhost\r\n"
    connection.sendall((words if head else f"{words}content-length: 100\r\n\r\n{{").encode())
    return connection


def rest(connection: socket.socket) -> bytes:
    """What a connection brings until it ends."""
    parts = []
    with closing(connection):
        try:
            while part := connection.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass
    return b"".join(parts)


def kill_workers() -> set[int]:
    """Kills all worker processes of this process's servers; their numbers."""
    pids = {child.pid for child in active_children() if child.pid is not None}
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return pids


# -- workers -------------------------------------------------------------------------------------------------------
def test_a_question_whose_worker_dies_is_asked_again_once() -> None:
    long = {**PLACE, "rate": 2.0, "requests": 1500}  # a worker is killed before it answers

    async def killed(times: int) -> Any:
        workers = Workers(1)

        async def kills() -> None:
            for _ in range(times):
                before = {child.pid for child in active_children()}
                while not (fresh := {child.pid for child in active_children()} - before):
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.1)
                for pid in filter(None, fresh):
                    os.kill(pid, signal.SIGKILL)

        killing = asyncio.create_task(kills())
        await asyncio.sleep(0)
        try:
            return await workers.ask([("simulate", json.dumps(long))], NOTHING_MORE, stays)
        finally:
            killing.cancel()
            workers.close()

    (answer,) = asyncio.run(killed(1))
    assert isinstance(answer, bytes)
    with pytest.raises(InputError, match="got 'work that ended its process'"):
        asyncio.run(killed(2))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are set on Linux only")
def test_work_beyond_a_process_s_memory_is_an_error_and_no_end() -> None:
    code = (
        "from roofline.doors.memory_limit import limit_memory\n"
        "import numpy as np\n"
        "limit_memory(2**28)\n"
        "np.ones(2**24)\n"
        "try:\n    np.ones(2**26)\nexcept MemoryError:\n    print('refused')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "refused\n"


# -- a queue with shares -------------------------------------------------------------------------------------------
def in_queue(limits: QueueLimits, askers: list[Asker], seconds: float = 0.02) -> list[int]:
    """The order in which requests, all of which come at once, are worked for."""

    async def every() -> list[int]:
        queue, order = FairQueue(limits), list[int]()

        async def works(number: int, asker: Asker) -> None:
            async with queue.turn(asker, stays):
                order.append(number)
                await asyncio.sleep(seconds)

        await asyncio.gather(*(works(i, asker) for i, asker in enumerate(askers)))
        assert not queue.working
        assert not queue.waiting
        return order

    return asyncio.run(every())


def test_a_client_does_not_wait_for_all_that_another_asked_before() -> None:
    greedy, modest = Asker("a"), Asker("b")
    order = in_queue(QueueLimits(1, 1, 99, 99), [*[greedy] * 8, modest])
    assert order.index(8) <= 1
    assert [number for number in order if number != 8] == list(range(8))


def test_sessions_of_an_address_share_what_the_address_gets() -> None:
    askers = [*(Asker("a", f"session {i}") for i in range(8)), Asker("b"), Asker("b")]
    order = in_queue(QueueLimits(2, 2, 99, 99), askers)
    assert max(order.index(8), order.index(9)) <= 4


def test_no_client_has_all_places() -> None:
    order = in_queue(QueueLimits(2, 1, 99, 99), [*[Asker("a")] * 4, Asker("b")])
    assert order.index(4) == 1


def test_a_full_queue_says_how_long() -> None:
    async def asks() -> list[BusyError]:
        queue, refused = FairQueue(QueueLimits(1, 1, 3, 2, longest=0.1)), list[BusyError]()

        async def works(asker: Asker) -> None:
            try:
                async with queue.turn(asker, stays):
                    await asyncio.sleep(2)
            except BusyError as error:
                refused.append(error)

        await asyncio.gather(*(works(Asker(name)) for name in "aaaabcd"))
        return refused

    refused = asyncio.run(asks())
    assert [error.of_client for error in refused] == [True, False, False, False, False, False]
    assert {error.expected for error in refused} == {
        "at most 2 requests of a client that wait", "at most 3 requests that wait", "a queue of at most 0.1 s",
    }  # fmt: skip
    assert all(1 <= error.retry <= 120 for error in refused)


def test_one_who_left_the_queue_leaves_no_trace() -> None:
    async def leaves() -> FairQueue:
        queue = FairQueue(QueueLimits(1, 1, 9, 9))

        async def gone() -> bool:
            return True

        async with queue.turn(Asker("a"), stays), queue.turn(Asker("b"), gone) as has_turn:
            assert not has_turn
        return queue

    queue = asyncio.run(leaves())
    assert not queue.working
    assert not queue.waiting


def sent(server: RunningServer, name: str, body: dict[str, Any], address: str) -> socket.socket:
    """A connection whose question is on its way."""
    port, text = int(server.address.rpartition(":")[2].strip("/")), json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
    head = f"POST /api/v1/{name} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(text)}\r\n"
    connection.sendall(f"{head}content-type: application/json\r\n\r\n".encode() + text)
    return connection


def answers_of(waiting: list[socket.socket]) -> int:
    """How many of these connections have an answer; they are closed."""
    ready = len(select.select(waiting, [], [], 0)[0])
    for connection in waiting:
        connection.close()
    return ready


@elsewhere
def test_long_questions_of_a_client_leave_a_place_to_others_and_have_places(own_workers: RunningServer) -> None:
    """Eight searches of one client kept another's small simulation waiting for two minutes."""
    waiting = [sent(own_workers, "search", {**LONG, "concurrency": 16_000 + i}, ONE) for i in range(8)]
    sleep(0.5)
    with httpx.Client(transport=httpx.HTTPTransport(local_address=ONE)) as client:
        places = client.get(f"{own_workers.address}api/v1/queue").json()["places"]
    assert asked(own_workers, "simulate", SHORT, OTHER).status_code == 200
    assert answers_of(waiting) < 6
    assert places == list(range(1, len(places) + 1))
    assert len(places) >= 4


@elsewhere
def test_six_slow_configs_of_a_client_do_not_hold_the_fit_of_another(own_workers: RunningServer) -> None:
    """They held it for 32 s."""
    configs = [{"model": slow_config(700 + i), "on": "h100-sxm"} for i in range(6)]
    waiting = [sent(own_workers, "fit", body, ONE) for body in configs]
    sleep(0.3)
    assert asked(own_workers, "fit", {**PLACE, "batch": 3}, OTHER).status_code == 200
    assert answers_of(waiting) < 4


def test_too_many_of_a_client_are_told_when_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "LONG_QUEUE", QueueLimits(1, 1, 2, 1, 300.0))
    with served(page_app()) as server:
        assert asked(server, "fit", PLACE).status_code == 200

        async def three() -> list[httpx.Response]:
            async with httpx.AsyncClient(base_url=server.address, timeout=300) as client:
                bodies = [{**PLACE, "rate": 2.0, "requests": 100, "seed": i} for i in range(3)]
                return await asyncio.gather(*(client.post("api/v1/simulate", json=body) for body in bodies))

        answers = asyncio.run(three())
        assert sorted(answer.status_code for answer in answers) == [200, 200, 429]
        (refused,) = (answer for answer in answers if answer.status_code != 200)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 120
        assert refused.json()["field"] == "queue"


# -- connections ---------------------------------------------------------------------------------------------------
def test_a_body_that_does_not_come_is_no_longer_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_S", 0.3)
    with served() as server:
        answer = rest(half_sent(server))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer
        assert asked(server, "fit", PLACE).status_code == 200


def test_a_head_that_does_not_come_is_no_longer_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.3)
    monkeypatch.setattr(connections, "LOOK_AT_S", 0.1)
    with served() as server:
        start = monotonic()
        assert rest(half_sent(server, head=True)) == b""
        assert monotonic() - start < 5
        assert asked(server, "fit", PLACE).status_code == 200


def test_an_answer_that_is_not_taken_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.5)
    monkeypatch.setattr(connections, "LOOK_AT_S", 0.1)
    with served() as server:
        port = int(server.address.rpartition(":")[2].strip("/"))
        with closing(socket.socket()) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", port))
            for _ in range(20):  # more than the system keeps for one who does not read
                slow.sendall(f"GET /static/{plotly_name()} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            sleep(0.3)
            assert len(server.server.server_state.connections) == 1
            end = monotonic() + 10
            while server.server.server_state.connections:
                assert monotonic() < end, "still kept"
                sleep(0.05)


def test_connections_that_send_nothing_whole_make_room_for_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """900 half-sent bodies were kept for ever."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(connections, "MOST_OF_ONE", 8)
    with served() as server:
        half = [half_sent(server, head=bool(i % 2)) for i in range(60)]
        sleep(0.2)
        assert len(server.server.server_state.connections) <= 9
        for i in range(3):
            assert asked(server, "fit", {**PLACE, "batch": i + 1}).status_code == 200
        for connection in half:
            connection.close()


@elsewhere
def test_connections_of_one_address_leave_others_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_OF_ONE", 2)
    with served() as server:
        other = half_sent(server, address=OTHER)
        half = [half_sent(server, address=ONE) for _ in range(5)]
        sleep(0.2)
        assert len(server.server.server_state.connections) == 3
        other.settimeout(0.1)
        with pytest.raises(TimeoutError):
            other.recv(1)
        for connection in (other, *half):
            connection.close()


def test_a_place_that_all_work_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 0)
    with served() as server:
        answer = httpx.get(f"{server.address}api/v1/engines")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.json()["field"] == "connections"


def test_bodies_have_room_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "MOST_BODIES", 150_000)
    with served() as server:
        port = int(server.address.rpartition(":")[2].strip("/"))
        with closing(socket.create_connection(("127.0.0.1", port))) as first:
            first.sendall(
                b"POST /api/v1/fit HTTP/1.1\r\nhost: localhost\r\ncontent-length: 140001\r\n\r\n" + b" " * 140_000
            )
            sleep(0.2)
            refused = asked(server, "fit", {**PLACE, "precision": "x" * 20_000})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        sleep(0.2)
        assert asked(server, "fit", PLACE).status_code == 200


def test_what_is_not_a_post_is_told_so_and_an_address_needs_no_port(own_workers: RunningServer) -> None:
    refused = httpx.get(f"{own_workers.address}api/v1/fit")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    with served(page_app(hosts=frozenset({"[::1]"}))) as server:
        for host, status in (("[::1]", 200), ("[::1]:8600", 200), ("[::2]", 403)):
            assert httpx.get(f"{server.address}api/v1/engines", headers={"host": host}).status_code == status


def test_idle_workers_that_were_killed_are_not_noticed_by_who_asks_next(own_workers: RunningServer) -> None:
    """They answered 422 "work beyond this server's memory", or 500 as plain text."""
    assert asked(own_workers, "fit", PLACE).status_code == 200
    assert asked(own_workers, "simulate", SHORT).status_code == 200
    assert len(kill_workers()) >= 2
    for i, name in enumerate(("fit", "simulate", "fit", "fit", "simulate")):
        body = {**PLACE, "batch": 2 + i} if name == "fit" else {**SHORT, "seed": 2 + i}
        assert asked(own_workers, name, body).status_code == 200
