"""Connections of the web server: how many there are, of whom, and how long they may do nothing."""

from __future__ import annotations

import asyncio
import json
from time import monotonic

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS, MOST_OF_ONE = 512, 256
"""Connections at once, and those of one address."""
IDLE_S = 30.0
"""Time in seconds for a request's head to come, for the next request, and for the client to take more of an answer."""
LOOK_AT_S = 5.0
"""Interval in seconds at which a connection is looked at."""
REFUSED = {"message": "connections: expected fewer at once", "field": "connections", "expected": "fewer at once",
           "nearest": []}  # fmt: skip
"""Body of the answer to a connection for which there is no place."""


def _full() -> bytes:
    body = json.dumps(REFUSED).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 5\r\n"
        f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class BoundedConnection(H11Protocol):
    """A connection that ends if its client neither sends nor takes anything, or if others need its place.

    A new connection beyond the limits takes the place of the one that has been without a whole request for the longest
    time; if there is none, it is refused.
    """

    since: float = 0.0
    """When the connection was made, its last answer was complete, or its client last took something."""
    unsent: int = 0
    look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or refuse."""
        super().connection_made(transport)
        self.since = monotonic()
        self.look = self.loop.call_later(LOOK_AT_S, self.look_at)
        if not self._has_place():
            transport.write(_full())
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking."""
        if self.look is not None:
            self.look.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The time for the next request begins."""
        self.since = monotonic()
        super().on_response_complete()

    @property
    def waits(self) -> bool:
        """Whether it waits for its client: no request has come whole, or none since the last answer."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    @property
    def stays_open(self) -> bool:
        """Whether it is not about to end."""
        return not self.transport.is_closing()

    def look_at(self) -> None:
        """End the connection if nothing has happened for `IDLE_S`; bodies have a limit of their own."""
        unsent, now = self.transport.get_write_buffer_size(), monotonic()
        if unsent < self.unsent:
            self.since = now
        self.unsent = unsent
        between = self.cycle is None or self.cycle.response_complete
        if (between or unsent) and now - self.since > IDLE_S:
            self.transport.abort()
            return
        self.look = self.loop.call_later(LOOK_AT_S, self.look_at)

    def _has_place(self) -> bool:
        others = [each for each in self.connections if isinstance(each, BoundedConnection) and each.stays_open]
        others.remove(self)
        own = [each for each in others if _address(each) == _address(self)]
        if len(own) < MOST_OF_ONE and len(others) < MOST_CONNECTIONS:
            return True
        rivals = [each for each in (own if len(own) >= MOST_OF_ONE else others) if each.waits]
        if not rivals:
            return False
        min(rivals, key=lambda each: each.since).transport.abort()
        return True


def _address(connection: BoundedConnection) -> str:
    return "" if connection.client is None else connection.client[0]
