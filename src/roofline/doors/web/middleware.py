"""ASGI middleware: security headers, body size limit, bearer token and host check."""

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
"""Maximum size in bytes of a request body."""
LARGEST_BODIES = {"/api/v1/gguf": 25 * 2**20}
"""Maximum size in bytes of request bodies of routes that accept the start of a file, in base64."""
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
    """Read the whole body, or return None if it exceeds `most` bytes."""
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
    """A `receive` callable that replays the body and then forwards later messages, such as a disconnect."""
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
