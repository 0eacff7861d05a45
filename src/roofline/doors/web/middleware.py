"""What stands before every route: headers, the size of bodies, the token, whose host is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST_BODY = 512 * 1024
"""Bytes of a request's body."""
LARGEST_BODIES = {"/api/v1/gguf": 25 * 2**20}
"""The same of routes that take the beginning of a file, in base64."""
_PORT = re.compile(r":[0-9]*\Z")
"""The end of `localhost:8600` and `[::1]:8600`; `[::1]` has none."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Plotly writes style attributes, and draws PNGs from blobs; nothing comes from elsewhere."""
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
    """The app behind its guard. `token`: what a bearer must show to ask the API, None where nobody need; `hosts`: the
    names by which it may be called, so that no other site's name leads here, None for any.
    """

    app: AsgiApp
    token: str | None = None
    hosts: frozenset[str] | None = None

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
        most = LARGEST_BODIES.get(scope["path"], LARGEST_BODY)
        body = await _body(receive, most)
        if body is None:
            await _problem(headed, 413, "body", f"at most {most} bytes")
            return
        await self.app(scope, _again(body, receive), headed)

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


async def _body(receive: Receive, most: int) -> bytes | None:
    """All of the body, or None where there is too much of it."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, then what comes: that the client leaves."""
    left = [body]

    async def replay() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replay


async def _problem(send: Send, status: int, field: str, expected: str) -> None:
    text = {"message": f"{field}: expected {expected}", "field": field, "expected": expected, "nearest": []}
    head = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": json.dumps(text).encode()})
