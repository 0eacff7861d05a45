"""ASGI middleware: security headers, limits on the size and time of bodies, bearer token and host check."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST_BODY = 512 * 1024
"""Maximum size in bytes of a request body."""
LARGEST_BODIES = {"/api/v1/gguf": 25 * 2**20}
"""Maximum size in bytes of request bodies of routes that accept the start of a file, in base64."""
MOST_BODIES, MOST_LARGE_BODIES = 16 * 2**20, 64 * 2**20
"""Maximum bytes of the bodies of all requests that are being answered, and of those of the routes above."""
BODY_S, LEAST_PACE = 10.0, 64 * 1024
"""Seconds in which a body has to come, and one more for each so many bytes that have come."""
BUSY_S = 5
"""`Retry-After` of a request whose body finds no room, in seconds."""
_PORT = re.compile(r":[0-9]*\Z")
"""Port suffix of a host, as in `localhost:8600` and `[::1]:8600`; `[::1]` has none."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: same origin only, except inline styles and blob images, which Plotly needs."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


@dataclass(frozen=True)
class Guard:
    """Middleware around the app. `token`: bearer token that API requests must carry, or None; `hosts`: accepted values
    of the Host header, or None for any, as protection against DNS rebinding.
    """

    app: AsgiApp
    token: str | None = None
    hosts: frozenset[str] | None = None
    room: dict[bool, int] = field(default_factory=lambda: {False: MOST_BODIES, True: MOST_LARGE_BODIES})
    """Bytes of bodies that still have room, by whether they are those of `LARGEST_BODIES`."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                own = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in dict(given)]
                message["headers"] = [*given, *own]
            await send(message)

        sent = {k.lower(): v for k, v in scope["headers"]}
        refused = self._refused(scope["path"], sent)
        if refused is not None:
            await _problem(headed, *refused)
            return
        body = _IncomingBody(
            self.room, scope["path"] in LARGEST_BODIES, LARGEST_BODIES.get(scope["path"], LARGEST_BODY)
        )
        try:
            content = await body.read(receive)
            if isinstance(content, tuple):
                await _problem(headed, *content)
            else:
                await self.app(scope, _again(content, receive), headed)
        finally:
            body.forget()

    def _refused(self, path: str, sent: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        host = _PORT.sub("", sent.get(b"host", b"").decode("latin-1"))
        if self.hosts is not None and host.lower() not in self.hosts:
            return 403, "Host", "the address that the server was started with"
        if self.token is not None and path.startswith("/api/"):
            shown = sent.get(b"authorization", b"")
            if not compare_digest(shown, f"Bearer {self.token}".encode()):
                return 401, "Authorization", "Bearer and the token that the server was started with"
        length = sent.get(b"content-length", b"0")
        most = LARGEST_BODIES.get(path, LARGEST_BODY)
        if not length.isdigit() or len(length) > 12 or int(length) > most:
            return 413, "body", f"at most {most} bytes"
        return None


@dataclass
class _IncomingBody:
    """A request's body, whose bytes take room from those of all bodies until they are forgotten."""

    room: dict[bool, int]
    large: bool
    most: int
    size: int = 0

    async def read(self, receive: Receive) -> bytes | tuple[int, str, str]:
        """The whole body; or status, field and expectation of a refusal: too large, too slow, or without room."""
        parts, clock = list[bytes](), asyncio.get_running_loop().time
        start = clock()
        try:
            async with asyncio.timeout_at(start + BODY_S) as limit:
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return b""
                    parts.append(message.get("body", b""))
                    self.size += len(parts[-1])
                    self.room[self.large] -= len(parts[-1])
                    if self.size > self.most:
                        return 413, "body", f"at most {self.most} bytes"
                    if self.room[self.large] < 0:
                        return 503, "queue", "less data of all requests at once"
                    if not message.get("more_body", False):
                        return b"".join(parts)
                    limit.reschedule(start + BODY_S + self.size / LEAST_PACE)
        except TimeoutError:
            return 408, "body", f"all of it within {BODY_S:g} s, or {LEAST_PACE} bytes a second"

    def forget(self) -> None:
        """Give the room back."""
        self.room[self.large] += self.size
        self.size = 0


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` callable that replays the body and then forwards later messages, such as a disconnect."""
    left = [body]

    async def replay() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replay


async def _problem(send: Send, status: int, field: str, expected: str) -> None:
    text = {"message": f"{field}: expected {expected}", "field": field, "expected": expected, "nearest": []}
    head = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if status == 503:
        head.append((b"retry-after", str(BUSY_S).encode()))
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": json.dumps(text).encode()})
