"""A Hub on this machine: answers for config.json as huggingface.co does, its refusals and failures included."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

CONFIG = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLDER = "89abcdef0123456789abcdef0123456789abcdef"
TOKEN = "hf_valid"

FILES: dict[str, dict[str, bytes]] = {}
"""Repositories of a test's own: their files by name, beside a config.json."""
_GOOD = json.dumps(CONFIG).encode()
_OLD = json.dumps(CONFIG | {"num_hidden_layers": 1}).encode()
_GATED = "Access to model org/gated is restricted"


@dataclass(frozen=True)
class Answer:
    """Status, headers and body; a `cut` body ends after half of the length its header gives."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: bool = False


def refusal(status: int, code: str, message: str, body: bytes = b"") -> Answer:
    return Answer(status, {"X-Error-Code": code, "X-Error-Message": message}, body or message.encode())


NO_REPO = refusal(401, "RepoNotFound", "Repository not found", b"Invalid username or password.")
NO_REPO_FOR_TOKEN = refusal(404, "RepoNotFound", "Repository not found")
BAD_TOKEN = Answer(401, {"X-Error-Message": "Invalid credentials in Authorization header"})


def file(body: bytes, commit: str = COMMIT, cut: bool = False) -> Answer:
    etag = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
    return Answer(200, {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}, body, cut)


def part(whole: Answer, asked: str) -> Answer:
    """The bytes of a file that a Range header asks for."""
    if not whole.body:
        return Answer(416)
    first, _, last = asked.removeprefix("bytes=").partition("-")
    body = whole.body[int(first) : int(last) + 1]
    span = f"bytes {first}-{int(first) + len(body) - 1}/{len(whole.body)}"
    return Answer(206, {**whole.headers, "Content-Range": span}, body)


def answer(repo: str, revision: str, token: str | None, name: str = "config.json") -> Answer:
    """What the Hub says when asked for a file of `repo`: everywhere a config.json, in some what stands in `FILES`."""
    if token not in (None, TOKEN, "hf_stranger"):
        return BAD_TOKEN
    commit = {"main": COMMIT, COMMIT: COMMIT, "v1": OLDER, OLDER: OLDER, "refs/pr/1": OLDER}.get(revision)
    unknown = NO_REPO_FOR_TOKEN if token else NO_REPO
    if repo == "org/private" and token != TOKEN:
        return unknown
    if repo == "org/gated" and token != TOKEN:
        if token is None:
            return refusal(401, "GatedRepo", f"{_GATED}. You must have access to it and be authenticated to access it.")
        return refusal(403, "GatedRepo", f"{_GATED} and you are not in the authorized list.")
    answers = {
        "org/good": file(_GOOD if commit == COMMIT else _OLD, commit or ""),
        "org/private": file(_GOOD),
        "org/gated": file(_GOOD),
        "old-name": Answer(307, {"Location": f"/org/good/resolve/{revision}/{name}"}),
        "org/empty": refusal(404, "EntryNotFound", "Entry not found"),
        "org/disabled": Answer(403, {"X-Error-Message": "Access to this resource is disabled."}),
        "org/text": file(b"<html>not a config</html>"),
        "org/list": file(b"[1, 2]"),
        "org/huge": file(b" " * (16 * 2**20) + b"{}"),
        "org/cut": file(_GOOD, cut=True),
        "org/portal": Answer(200, {"Content-Type": "text/html"}, b"<html>Log in to this network</html>"),
        "org/broken": Answer(500, {}, b"Internal Error - We're working hard to fix this as soon as possible!"),
        "org/busy": Answer(429, {}, b"Too many requests"),
        "org/slow": file(_GOOD),
        **{name: file(_GOOD) for name in FILES},
        "org/hangs": Answer(0),
        "org/hangs-later": file(_GOOD),
    }
    if repo in answers and commit is None:
        return refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    said = answers.get(repo, unknown)
    if name == "config.json" or said.status != 200:
        return said
    if repo == "org/slow" and name == "hf_quant_config.json":
        return Answer(0)
    body = FILES.get(repo, {}).get(name)
    return file(body) if body is not None else refusal(404, "EntryNotFound", "Entry not found")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up while we were still answering is what some tests are about."""


class Hub:
    """Serves on a free port of 127.0.0.1 while entered; `asked` lists every config.json request with its token.

    `others` lists every request for another file: method, repository, name and range.
    """

    def __init__(self) -> None:
        self.others: list[tuple[str, str, str, str]] = []
        self.asked: list[tuple[str, str, str | None]] = []
        self._over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.reply()

            def do_GET(self) -> None:
                self.reply()

            def reply(self) -> None:
                said = self.wanted()
                if not said.status or (self.path.startswith("/org/hangs-later/") and self.command == "GET"):
                    hub._over.wait(30)
                    self.close_connection = True
                    return
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(said.body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(said.body[: len(said.body) // 2] if said.cut else said.body)
                    self.close_connection = self.close_connection or said.cut

            def wanted(self) -> Answer:
                repo, found, rest = self.path.strip("/").partition("/resolve/")
                revision, _, name = rest.partition("/")
                if not found:
                    return Answer(404)
                _, _, token = (self.headers["Authorization"] or "").partition("Bearer ")
                span = self.headers["Range"] or ""
                if name == "config.json":
                    hub.asked.append((self.command, repo, token or None))
                else:
                    hub.others.append((self.command, repo, name, span))
                whole = answer(repo, unquote(revision), token or None, name)
                return part(whole, span) if span and whole.status == 200 else whole

        return Handler
