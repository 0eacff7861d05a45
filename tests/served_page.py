"""The page of a server of the tests' own, and how it is used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any
from unittest.mock import patch

import uvicorn

from browser import Watched
from roofline.doors.web import app
from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.run_page import page_config
from roofline.doors.web.server import dispatcher as desk
from roofline.doors.web.server.dispatcher import Desk
from roofline.doors.web.server.workers import Worker, Workers

READY = "document.body.dataset.ready ?? 0"
CARDS = "[...document.querySelectorAll('#verdict .card')].map((card) => card.textContent)"
DRAWN = "[...document.querySelectorAll('#view .plot')].map((p) => JSON.stringify(p.data?.map((d) => [d.x, d.y])))"


@dataclass(frozen=True)
class RunningServer:
    """A server of the page, and the thread that it runs in."""

    server: uvicorn.Server
    thread: threading.Thread

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}/"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)


RUNNING: dict[Allowed, RunningServer] = {}
"""Servers that run until the tests end: what one test asked is answered at once in the next."""


IDLE: list[Worker] = []
"""Processes that answered and wait: of all servers and clients, as each takes seconds to import the library."""


class SharedWorkers(Workers):
    """Workers that stay for the next server."""

    def close(self) -> None:
        """They end with the tests."""


def shared_desk(allowed: Allowed) -> Desk:
    """A desk whose processes are those of all."""
    return Desk(allowed, quick=SharedWorkers(2, desk.QUICK_S, idle=IDLE), patient=SharedWorkers(idle=IDLE))


def shared_app(allowed: Allowed = NOTHING_MORE) -> Any:
    """The application, with processes that others leave behind; its answers are its own."""
    with patch.object(app, "Desk", shared_desk):
        return app.page_app(allowed)


def started(application: Any = None) -> RunningServer:
    """A server of its own, on a port that is free; with processes of its own but for an application that shares."""
    application = application or app.page_app()
    server = uvicorn.Server(page_config(application, "127.0.0.1", 0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = monotonic() + 20
    while not server.started and monotonic() < end:
        sleep(0.02)
    return RunningServer(server, thread)


@contextmanager
def page_server(allowed: Allowed = NOTHING_MORE) -> Iterator[str]:
    """The address of a server that tests share."""
    if allowed not in RUNNING:
        RUNNING[allowed] = started(shared_app(allowed))
    yield RUNNING[allowed].address


def stop_servers() -> None:
    """Stops what runs."""
    while RUNNING:
        RUNNING.popitem()[1].stop()
    while IDLE:
        IDLE.pop().end()


@dataclass
class Page:
    """A tab at the page, and how it is used."""

    seen: Watched
    tab: Any

    def answers(self, do: Callable[[], Any]) -> None:
        """Does it, and waits until the page has answered whatever that asked."""
        before = int(self.tab.evaluate(READY))
        do()
        self.tab.wait_for_function(f"before => ({READY}) > before", arg=before, timeout=30_000, polling=30)
        assert not self.tab.is_visible("#problem"), self.tab.inner_text("#problem")

    def open(self, view: str) -> None:
        """Shows a view."""
        self.answers(lambda: self.tab.click(f"#tab-{view}"))

    def sees(self, script: str, given: Any = None) -> Any:
        """What a script of the tab evaluates to."""
        return self.tab.evaluate(script, given)

    def fresh(self, address: str) -> None:
        """The page as one who comes for the first time sees it."""
        self.tab.goto("about:blank")
        self.answers(lambda: self.tab.goto(address))

    def slide(self, name: str, by: int) -> None:
        """Moves a slider by so many stops."""
        script = f"(() => {{ const s = document.getElementById('{name}'); s.value = Number(s.value) + {by}; "
        self.answers(lambda: self.sees(script + "s.dispatchEvent(new Event('input', { bubbles: true })); })()"))

    def set_to(self, name: str, value: str) -> None:
        """Writes into a field, or chooses of a list."""
        field = self.tab.locator(f"#{name}")
        if field.evaluate("f => f.tagName") == "SELECT":
            self.answers(lambda: field.select_option(value))
        else:
            self.answers(lambda: (field.fill(value), field.blur()))
