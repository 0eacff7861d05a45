"""One bounded answer of the Hub, over huggingface_hub's session: so many bytes, so many seconds, and no more.

huggingface_hub's own downloader takes as many bytes as come, for as long as they come, puts them where the server's
ETag says, and asks the server for lists of its own beside; a server that means harm may fill a disk by it.
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
"""Seconds that a whole answer may take, and as many again as its largest size takes at `SLOWEST`."""
SLOWEST = 2**20
"""Bytes per second of a body, at least, behind `PATIENCE`."""
MOST_REDIRECTS = 10
LARGEST_REFUSAL = 2**16
"""Bytes that are read of an answer that refuses."""
_PIECE = 2**16
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ETAG = re.compile(r"[0-9A-Za-z_-]{1,128}")
_TOO_SLOW = "no whole answer within {:.0f} s"

T = TypeVar("T")


class LyingHubError(Exception):
    """An answer that no Hub gives: a name that is none, more bytes than were said, a packed body."""


class HubDeadlineError(Exception):
    """An answer that took too long as a whole."""


@dataclass(frozen=True)
class Reply:
    """An answer: its status, its headers, in lower case, and at most as many bytes of its body as were asked for.

    `longer`: whether the body had more.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    longer: bool


@dataclass(frozen=True)
class Described:
    """What the Hub says of a file: its commit, the name of its contents and its size, None where it does not say."""

    commit: str
    etag: str
    size: int | None


def described_at(url: str, timeout: float) -> Described:
    """What the Hub says of the file at `url`. Raises LyingHubError for a commit or an ETag that can be none."""
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
    """The answer to a request, with at most `most` bytes of its body, within a time that follows from these.

    `timeout`: the most seconds of silence. The token goes to the host of the Hub alone, wherever it sends us. Raises
    huggingface_hub's errors for answers that refuse, those of its HTTP client, LyingHubError and HubDeadlineError.
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
    """At most `most` bytes of a body as it was sent, and whether there were more."""
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
    """What says who asks; huggingface_hub's own headers would ask the server for a list first."""
    from huggingface_hub import constants, get_token

    from roofline.version import __version__

    token = get_token() if with_token and not constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else None
    return {"user-agent": f"roofline/{__version__}", **({"authorization": f"Bearer {token}"} if token else {})}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _within(seconds: float, work: Callable[[], T]) -> T:
    """What `work` returns, in a thread that is left to itself where it takes longer: headers may drip for ever."""
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
    """Puts a file into huggingface_hub's cache, in the folder of its repository, and returns where it stands.

    Contents lie in `blobs` under their ETag, `snapshots/COMMIT/NAME` links to them, `refs` says which commit a branch
    or tag was (https://huggingface.co/docs/huggingface_hub/guides/manage-cache). Raises OSError.
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
    """Writes a file whole or not at all."""
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
