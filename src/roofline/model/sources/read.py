"""Read one response of the Hub through huggingface_hub's session, with limits on bytes and seconds.

huggingface_hub's own downloader accepts any number of bytes for any time, stores them at a path taken from the server's
ETag, and makes further requests; a malicious server could fill a disk with it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

PATIENCE = 60.0
"""Seconds allowed for a whole response, in addition to the time that its largest size takes at `SLOWEST`."""
SLOWEST = 2**20
"""Slowest accepted rate of a body after `PATIENCE`, bytes per second."""
MOST_REDIRECTS = 10
LARGEST_REFUSAL = 2**16
"""Most bytes that are read of an error response."""
_PIECE = 2**16
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ETAG = re.compile(r"[0-9A-Za-z_-]{1,128}")
_TOO_SLOW = "no whole answer within {:.0f} s"

T = TypeVar("T")


class LyingHubError(Exception):
    """A response that no Hub gives: an invalid commit or ETag, more bytes than announced, a compressed body."""


class HubDeadlineError(Exception):
    """A response that took too long in total."""


@dataclass(frozen=True)
class Reply:
    """A response: status, headers in lower case, and the body up to the requested number of bytes.

    `longer`: whether the body had more bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    longer: bool


@dataclass(frozen=True)
class Described:
    """The Hub's description of a file: its commit, its ETag, and its size in bytes, None if not given."""

    commit: str
    etag: str
    size: int | None


def described_at(url: str, timeout: float) -> Described:
    """The Hub's description of the file at `url`. Raises LyingHubError for an invalid commit or ETag."""
    from huggingface_hub import constants
    from huggingface_hub.errors import FileMetadataError

    headers = ask("HEAD", url, 0, timeout).headers
    commit = headers.get(constants.HUGGINGFACE_HEADER_X_REPO_COMMIT.lower())
    etag = headers.get(constants.HUGGINGFACE_HEADER_X_LINKED_ETAG.lower()) or headers.get("etag")
    if commit is None or etag is None:
        raise FileMetadataError("no commit and no ETag")
    etag = etag.removeprefix("W/").strip('"')
    for what, value, pattern in (("commit", commit, _COMMIT), ("ETag", etag, _ETAG)):
        if not pattern.fullmatch(value):
            raise LyingHubError(f"{what} {value[:60]!r}")
    linked = headers.get(constants.HUGGINGFACE_HEADER_X_LINKED_SIZE.lower())
    size = linked if linked is not None or "location" in headers else headers.get("content-length")
    return Described(commit, etag, int(size) if size is not None and re.fullmatch(r"\d{1,18}", size) else None)


def ask(method: str, url: str, most: int, timeout: float, wanted: Mapping[str, str] | None = None) -> Reply:
    """Response to a request, with at most `most` bytes of its body, within a time that depends on `most`.

    `timeout`: longest silence in seconds. The token is sent only to the Hub's host, not to hosts that it redirects to.
    Raises huggingface_hub's errors for error responses, errors of its HTTP client, LyingHubError and HubDeadlineError.
    """
    seconds = PATIENCE + most / SLOWEST
    until = time.monotonic() + seconds
    return _within(seconds, lambda: _asked(method, url, most, timeout, wanted or {}, until))


def _asked(method: str, url: str, most: int, timeout: float, wanted: Mapping[str, str], until: float) -> Reply:
    from huggingface_hub.utils import get_session, hf_raise_for_status  # type: ignore[attr-defined]

    hub = _origin(url)
    for _ in range(MOST_REDIRECTS):
        headers = {**_own_headers(with_token=_origin(url) == hub), **wanted, "accept-encoding": "identity"}
        with get_session().stream(method, url, headers=headers, timeout=timeout, follow_redirects=False) as response:
            target = response.headers.get("location") if 300 <= response.status_code < 400 else None
            if target is not None:
                beyond = _origin(urljoin(url, target)) != hub
                if method != "HEAD" or not beyond:  # of a file that lies elsewhere the Hub itself says what it is
                    url = urljoin(url, target)
                    continue
            refused = response.status_code >= 400
            body, longer = _bounded(response.iter_raw(_PIECE), LARGEST_REFUSAL if refused else most, until)
            packed = response.headers.get("content-encoding", "identity").lower() != "identity"
            if packed and not refused and method != "HEAD":
                raise LyingHubError("a packed body that was not asked for")
            said = {name.lower(): value for name, value in response.headers.items()}
            if refused:
                unsized = {n: v for n, v in said.items() if n not in ("content-encoding", "content-length")}
                hf_raise_for_status(
                    type(response)(
                        response.status_code, headers=unsized, content=b"" if packed else body, request=response.request
                    )
                )
            return Reply(response.status_code, said, body, longer)
    raise LyingHubError(f"more than {MOST_REDIRECTS} redirects")


def _bounded(sent: Iterable[bytes], most: int, until: float) -> tuple[bytes, bool]:
    """At most `most` bytes of a raw body, and whether there were more."""
    pieces, size = [], 0
    for piece in sent:
        pieces.append(piece)
        size += len(piece)
        if size > most:
            break
        if time.monotonic() > until:
            raise HubDeadlineError(_TOO_SLOW.format(PATIENCE + most / SLOWEST))
    return b"".join(pieces)[:most], size > most


def _own_headers(with_token: bool) -> dict[str, str]:
    """Headers with user agent and token; building huggingface_hub's own headers would make another request."""
    from huggingface_hub import constants, get_token

    from roofline.version import __version__

    token = get_token() if with_token and not constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else None
    return {"user-agent": f"roofline/{__version__}", **({"authorization": f"Bearer {token}"} if token else {})}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Result of `work`, run in a thread that is abandoned after `seconds`, since headers may trickle in endlessly."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise HubDeadlineError(_TOO_SLOW.format(seconds))
    return results[0]


def keep(folder: Path, name: str, revision: str | None, described: Described, content: bytes) -> Path:
    """Store a file in huggingface_hub's cache, in the folder of its repository, and return its path.

    Contents are in `blobs` under their ETag, `snapshots/COMMIT/NAME` links to them, and `refs` holds the commit of a
    branch or tag (https://huggingface.co/docs/huggingface_hub/guides/manage-cache). Raises OSError.
    """
    blob, pointer = folder / "blobs" / described.etag, folder / "snapshots" / described.commit / name
    _put(blob, content)
    pointer.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(pointer):
        try:
            pointer.symlink_to(os.path.relpath(blob, pointer.parent))
        except FileExistsError:
            pass
        except OSError:  # no symbolic links here
            _put(pointer, content)
    if revision != described.commit:
        _put(folder / "refs" / (revision or "main"), described.commit.encode())
    return pointer


def _put(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    number, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
