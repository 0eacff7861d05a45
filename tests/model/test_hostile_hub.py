"""A Hub that means harm: nothing it says is written elsewhere, kept beyond the limits, or waited for without end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hub import COMMIT, CONFIG, Hub
from roofline.declared.errors import InputError
from roofline.model.load import load
from roofline.model.sources import read as hub_read
from roofline.model.sources.untrusted import LARGEST_FILE

BODY = json.dumps(CONFIG).encode()
MEBIBYTE = b" " * 2**20


class Hostile(BaseHTTPRequestHandler):
    """A config.json for every repository, told as its name says."""

    protocol_version = "HTTP/1.1"
    sent = 0
    asked: list[tuple[str, str | None]] = []  # noqa: RUF012
    elsewhere = ""

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.reply(head=True)

    def do_GET(self) -> None:
        self.reply(head=False)

    def reply(self, head: bool) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        kind = self.path.split("/")[2] if self.path.count("/") > 2 else ""
        with suppress(OSError):
            if self.path.endswith("/config.json"):
                getattr(self, kind.replace("-", "_"))(head)
            else:
                self.nothing(head)

    def nothing(self, head: bool) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def said(self, etag: str = "a" * 40, length: int | None = len(BODY), commit: str = COMMIT, **more: str) -> None:
        self.send_response(200)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", commit)
        for name, value in more.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def whole(self, head: bool, **said: Any) -> None:
        self.said(**said)
        if not head:
            self.wfile.write(BODY)

    def flood(self, piece: bytes, times: int) -> None:
        for _ in range(times):
            self.wfile.write(piece)
            type(self).sent += len(piece)

    def absolute(self, head: bool) -> None:
        self.whole(head, etag=f"{self.server.folder}/owned")  # type: ignore[attr-defined]

    def climbing(self, head: bool) -> None:
        self.whole(head, etag="../../../../owned")

    def commit(self, head: bool) -> None:
        self.whole(head, commit="../../../../owned")

    def changing(self, head: bool) -> None:
        self.whole(head, etag="a" * 40 if head else "../../../../owned")

    def longer(self, head: bool) -> None:
        self.said(length=len(BODY) if head else 2**30)
        if not head:
            self.flood(MEBIBYTE, 1024)

    def chunked(self, head: bool) -> None:
        self.said(length=None, Transfer_Encoding="chunked")
        if not head:
            self.flood(b"100000\r\n" + MEBIBYTE + b"\r\n", 1024)

    def shorter(self, head: bool) -> None:
        self.said(length=len(BODY) + 7 if head else len(BODY))
        if not head:
            self.wfile.write(BODY)

    def packed(self, head: bool) -> None:
        import gzip

        bomb = gzip.compress(b" " * 2**24)
        self.said(length=len(BODY) if head else len(bomb), **({} if head else {"Content_Encoding": "gzip"}))
        if not head:
            self.wfile.write(bomb)

    def dripping(self, head: bool) -> None:
        self.said()
        for byte in b"" if head else BODY:
            self.wfile.write(bytes([byte]))
            time.sleep(0.05)

    def dripping_headers(self, head: bool) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        for _ in range(200):
            self.wfile.write(b"x")
            time.sleep(0.05)

    def refusing(self, head: bool) -> None:
        self.send_response(500)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if not head:
            self.flood(b"100000\r\n" + MEBIBYTE + b"\r\n", 1024)

    def sent_away(self, head: bool) -> None:
        if head:
            self.whole(head)
            return
        self.send_response(302)
        self.send_header("Location", f"{self.elsewhere}/org/good/resolve/{COMMIT}/config.json")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def round(self, head: bool) -> None:
        self.send_response(302)
        self.send_header("Location", self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def page(self, head: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "6")
        self.end_headers()
        if not head:
            self.wfile.write(b"<html>")


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave early are the point."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder above the cache; the server is asked in place of the Hub."""
    server = _Quiet(("127.0.0.1", 0), Hostile)
    server.folder = str(tmp_path / "outside")  # type: ignore[attr-defined]
    (tmp_path / "outside").mkdir()
    Hostile.sent = 0
    Hostile.asked.clear()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    for name, value in {
        "HF_HUB_CACHE": str(tmp_path / "cache"), "HF_TOKEN_PATH": str(tmp_path / "token"), "ENDPOINT": url,
        "HUGGINGFACE_CO_URL_TEMPLATE": url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_ETAG_TIMEOUT": 5, "HF_HUB_DOWNLOAD_TIMEOUT": 5, "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": False,
    }.items():  # fmt: skip
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    yield tmp_path
    server.shutdown()
    server.server_close()


def files(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]


def refused(name: str, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        load(f"org/{name}")
    line = str(caught.value)
    assert line.isprintable()
    assert all(part in line for part in parts), line


@pytest.mark.parametrize("kind", ["absolute", "climbing", "commit"])
def test_names_of_the_server_are_no_paths(server: Path, kind: str) -> None:
    refused(kind, "does not answer as a Hub does")
    assert files(server) == []


def test_a_second_answer_does_not_change_where_it_goes(server: Path) -> None:
    assert load("org/changing").vocab == CONFIG["vocab_size"]
    assert [p.name for p in files(server / "cache") if "blobs" in p.parts] == ["a" * 40]
    assert files(server / "outside") == []


@pytest.mark.parametrize("kind", ["longer", "chunked"])
def test_no_more_is_taken_than_the_limit(server: Path, kind: str) -> None:
    refused(kind, f"at most {LARGEST_FILE} bytes")
    assert Hostile.sent < 2 * LARGEST_FILE + 2**23  # what the sockets hold beside
    assert files(server) == []


@pytest.mark.parametrize("kind", ["shorter", "packed", "round", "page"])
def test_lies_are_said(server: Path, kind: str) -> None:
    refused(kind, "does not answer as a Hub does")
    assert files(server) == []


@pytest.mark.parametrize("kind", ["shorter", "longer", "dripping"])
def test_the_client_says_nothing_of_its_own(
    server: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    """No progress bar and no `Trying to resume download` beside the one line of the error."""
    monkeypatch.setattr(hub_read, "PATIENCE", 0.3)
    monkeypatch.setattr(hub_read, "SLOWEST", 2**40)
    with pytest.raises(InputError):
        load(f"org/{kind}")
    assert capfd.readouterr() == ("", "")


def test_a_long_refusal_is_not_read(server: Path) -> None:
    refused("refusing", "HTTP 500")
    assert Hostile.sent < 2**24


@pytest.mark.parametrize("kind", ["dripping", "dripping-headers"])
def test_a_total_deadline(server: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(hub_read, "PATIENCE", 0.3)
    monkeypatch.setattr(hub_read, "SLOWEST", 2**40)
    begin = time.monotonic()
    refused(kind, "did not answer in time")
    assert time.monotonic() - begin < 3
    assert files(server) == []


def test_the_token_stays_at_the_hub(server: Path) -> None:
    with Hub() as other:
        Hostile.elsewhere = other.url
        assert load("org/sent-away").vocab == CONFIG["vocab_size"]
        assert other.asked == [("GET", "org/good", None)]
    assert {token for _, token in Hostile.asked} == {"Bearer hf_secret"}


def test_nothing_beside_the_file_is_asked_for(server: Path) -> None:
    load("org/whole")
    assert {path.rpartition("/")[2] for path, _ in Hostile.asked} == {"config.json", "hf_quant_config.json"}
