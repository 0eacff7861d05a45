"""Fetch files of the Hub into huggingface_hub's cache; failures are reported in one line."""

from __future__ import annotations

import re
import stat
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from roofline.declared.errors import InputError
from roofline.model.sources.read import HubDeadlineError, LyingHubError, ask, described_at, keep
from roofline.model.sources.untrusted import LARGEST_FILE

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

    from roofline.model.checkpoints.headers import Read

CONFIG_NAME = "config.json"
SOURCES = "a config.json or its folder, a name of the catalog or a Hub id"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ONE_AT_A_TIME = threading.Lock()
_AT_A_TIME = 8
"""Number of files whose headers are requested concurrently."""

T = TypeVar("T")


UNREACHED = "cannot reach"


class HubError(InputError):
    """A file could not be obtained from the Hub: what happened (`trouble`) and what to do (`expected`), in one line.

    `lost`: the model does not exist or is not visible, or the Hub cannot be reached. `absent`: the model exists without
    the file.
    """

    def __init__(
        self, model: str, trouble: str, remedy: str, near: Iterable[str] = (), *, lost: bool = False,
        absent: bool = False,
    ) -> None:  # fmt: skip
        super().__init__("model", model, remedy, near)
        self.trouble, self.lost, self.absent = trouble, lost, absent
        self.args = (self.forms()[0],)

    def forms(self) -> tuple[str, ...]:
        """The message in several lengths, longest first: without parenthesis, remedy, or all but one near name."""
        who, brief = f"model {self.value!r}: ", self.trouble.partition(" (")[0]
        full, short = f"{who}{self.trouble}; {self.expected}", f"{who}{brief}; {self.expected}"
        if not self.nearest:
            return full, short
        names = f"; nearest in the catalog: {', '.join(self.nearest)}"
        return f"{full}{names}", f"{short}{names}", f"{who}{brief}{names}", f"{who}{brief}; nearest: {self.nearest[0]}"


def hub_file(model: str, name: str, revision: str | None, largest: int = LARGEST_FILE) -> Path:
    """Path of a Hub model's file in huggingface_hub's cache; downloads it where needed, up to `largest` bytes.

    Raises InputError for a larger file, and HubError where the Hub cannot be reached or fails.
    """
    with _asking(model, name, revision):
        return Path(_download(model, name, revision, largest))


def hub_file_if_any(model: str, name: str, commit: str, largest: int = LARGEST_FILE) -> Path | None:
    """Path of a commit's file in the cache, None if the commit lacks the file, which is remembered. Raises HubError."""
    with _asking(model, name, commit):
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.file_download import _CACHED_NO_EXIST

        if try_to_load_from_cache(model, name, revision=commit) is _CACHED_NO_EXIST:
            return None
    try:
        return hub_file(model, name, commit, largest)
    except HubError as error:
        if not error.absent:
            raise
    _remember_absent(model, name, commit)
    return None


def in_cache(model: str, name: str, commit: str) -> bool:
    """Whether a commit's file is in huggingface_hub's cache; makes no request."""
    with _asking(model, name, commit):
        from huggingface_hub import try_to_load_from_cache

        return isinstance(try_to_load_from_cache(model, name, revision=commit), str)


def hub_ranges(model: str, names: Iterable[str], commit: str, use: Callable[[str, Read], T]) -> list[T]:
    """Apply `use` to each file of a commit, read piece by piece where it is not cached.

    Several files are requested concurrently. Raises HubError.
    """
    from concurrent.futures import ThreadPoolExecutor
    from functools import partial

    def one(name: str) -> T:
        try:
            return use(name, partial(_range, model, name, commit))
        except InputError:
            raise
        except Exception as error:
            raise _explained(model, name, commit, error) from error

    with _quiet(), ThreadPoolExecutor(_AT_A_TIME) as several:
        return list(several.map(one, names))


def local_range(path: Path, offset: int, length: int) -> tuple[bytes, int]:
    """At most `length` bytes of a local file from `offset`, and the file's size. Raises InputError."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise InputError(str(path), "a folder or a device", "a regular file")
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length), info.st_size
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a file that can be read") from error


def commit_of(path: Path) -> str:
    """The commit of a cached file, from its path; "main" if the path has none."""
    return next((part for part in reversed(path.parts) if _COMMIT.fullmatch(part)), "main")


# -- asking --------------------------------------------------------------------------------------------------------
@contextmanager
def _asking(model: str, name: str, revision: str | None) -> Iterator[None]:
    with _quiet():
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            raise _explained(model, name, revision, error) from error


def _download(model: str, name: str, revision: str | None, largest: int) -> str:
    """Request a file's size, ETag and commit, then the file if it is not cached; both requests are bounded."""
    from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import RemoteEntryNotFoundError, RevisionNotFoundError

    known = try_to_load_from_cache(model, name, revision=revision)
    cached = known if isinstance(known, str) else None
    if cached and revision and _COMMIT.fullmatch(revision):
        return cached
    try:
        said = described_at(hf_hub_url(model, name, revision=revision), constants.HF_HUB_ETAG_TIMEOUT)
    except (RemoteEntryNotFoundError, RevisionNotFoundError, LyingHubError):
        raise
    except Exception:
        if cached:
            return cached
        raise
    if cached and said.commit in Path(cached).parts:
        return cached
    if said.size is not None and said.size > largest:
        raise InputError(f"{model}/{name}", f"{said.size} bytes", f"at most {largest} bytes")
    reply = ask("GET", hf_hub_url(model, name, revision=said.commit), largest, constants.HF_HUB_DOWNLOAD_TIMEOUT)
    if reply.longer:
        raise InputError(f"{model}/{name}", "a longer file", f"at most {largest} bytes")
    if said.size is not None and len(reply.body) != said.size:
        raise LyingHubError(f"{len(reply.body)} bytes of {name}, where {said.size} were said")
    return str(keep(_folder(model), name, revision, said, reply.body))


def _folder(model: str) -> Path:
    """Folder in which huggingface_hub caches a model's files."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=model, repo_type="model")


def _remember_absent(model: str, name: str, commit: str) -> None:
    """Record in the cache, as huggingface_hub does, that a commit has no such file; an unwritable cache is ignored."""
    folder = _folder(model) / ".no_exist" / commit
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    except OSError:
        return


def _range(model: str, name: str, commit: str, offset: int, length: int) -> tuple[bytes, int]:
    """At most `length` bytes of a Hub file from `offset`, and the file's size; never reads more."""
    from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache

    cached = try_to_load_from_cache(model, name, revision=commit)
    if isinstance(cached, str):
        return local_range(Path(cached), offset, length)
    url, span = hf_hub_url(model, name, revision=commit), f"bytes={offset}-{offset + length - 1}"
    reply = ask("GET", url, length, constants.HF_HUB_DOWNLOAD_TIMEOUT, {"range": span})
    size = re.fullmatch(r"bytes \d+-\d+/(\d{1,18})", reply.headers.get("content-range", ""))
    if reply.status != 206 or size is None:
        raise HubError(model, f"{name} cannot be read in part", "check HF_ENDPOINT and the proxy")
    return reply.body, int(size[1])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence huggingface_hub's log, warnings and progress bar; errors carry all information."""
    import logging

    bar = "huggingface_hub.http_get"
    log = logging.getLogger("huggingface_hub")
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from huggingface_hub.utils.tqdm import (
                are_progress_bars_disabled,
                disable_progress_bars,
                enable_progress_bars,
            )
        except ImportError as error:
            raise InputError("huggingface_hub", str(error), "an installed package, to ask the Hub") from error
        except ValueError as error:
            raise InputError("environment", str(error), "HF_* variables that huggingface_hub understands") from error
        level, hidden = log.level, are_progress_bars_disabled(bar)
        log.setLevel(logging.CRITICAL + 1)
        disable_progress_bars(bar)
        try:
            yield
        finally:
            log.setLevel(level)
            if not hidden:
                enable_progress_bars(bar)


def _explained(model: str, name: str, revision: str | None, error: Exception) -> HubError:
    """HubError for a failed download, with a remedy."""
    from huggingface_hub import constants, errors

    hub = re.sub(r"//[^/@]*@", "//", constants.ENDPOINT)
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, errors.HfHubHTTPError):
        trouble, remedy = _refused(hub, f"{model}/{name}", revision, error)
    else:
        trouble, remedy = _unreached(hub, name, error)
    lost = (errors.RepositoryNotFoundError, errors.RemoteEntryNotFoundError, errors.OfflineModeIsEnabled)
    none_seen = isinstance(error, lost) and not isinstance(error, errors.GatedRepoError)
    is_lost = none_seen or trouble.startswith(UNREACHED)
    absent = isinstance(error, errors.RemoteEntryNotFoundError)
    return HubError(model, trouble, remedy, lost=is_lost, absent=absent)


def _refused(hub: str, file: str, revision: str | None, error: HfHubHTTPError) -> tuple[str, str]:
    """Trouble and remedy where the Hub answers without the file."""
    from huggingface_hub import errors

    model, _, name = file.rpartition("/")
    status = error.response.status_code
    said = _short(error.server_message or error.response.reason_phrase)
    match error:
        case errors.GatedRepoError():
            who = "token" if status == 403 else "request"
            return (
                f"gated, and the Hub does not let this {who} in (HTTP {status})",
                f"ask for access at {hub}/{model} and set HF_TOKEN to a token that has it",
            )
        case errors.RepositoryNotFoundError():
            return (
                f"no such path, and {hub} has no such model or it is private (HTTP {status})",
                "check the name, or set HF_TOKEN to a token that may read it",
            )
        case errors.RevisionNotFoundError():
            return (
                f"there is no revision {revision or 'main'!r} (HTTP {status})",
                f"take a branch, a tag or a commit from {hub}/{model}/tree/main",
            )
        case errors.RemoteEntryNotFoundError():
            return (
                f"the repository has no {name} (HTTP {status})",
                "name a model in the transformers format"
                + (f", or the path of its {name}" if name == CONFIG_NAME else ""),
            )
        case errors.DisabledRepoError():
            return f"the Hub has disabled access to it (HTTP {status})", f"see {hub}/{model}"
    if status in (401, 403):
        return f"the Hub refuses the token (HTTP {status}: {said})", "set HF_TOKEN to a valid token, or unset it"
    if status == 429:
        return f"{hub} got too many requests (HTTP 429)", "wait some minutes, or set HF_TOKEN"
    return f"{hub} answers HTTP {status} ({said})", "try again later, or check HF_ENDPOINT"


def _unreached(hub: str, name: str, error: Exception) -> tuple[str, str]:
    """Trouble and remedy where the Hub does not answer fully, or the cache cannot store the file."""
    from huggingface_hub import constants, errors

    said = _short(str(error) or type(error).__name__)
    kinds = {kind.__name__ for kind in type(error).__mro__}  # huggingface_hub 1 and 2 use different HTTP libraries
    if isinstance(error, errors.OfflineModeIsEnabled):
        return (
            f"no such path, its {name} is not in the cache, and HF_HUB_OFFLINE is set",
            f"unset HF_HUB_OFFLINE, or name the path of a {name}",
        )
    if isinstance(error, errors.HFValidationError):
        return f"not a Hub id ({said})", f"name {SOURCES}"
    if isinstance(error, HubDeadlineError):
        return f"{hub} did not answer in time ({said})", "try again, or check HF_ENDPOINT and the proxy"
    if isinstance(error, (errors.FileMetadataError, LyingHubError)):
        return f"{hub} does not answer as a Hub does ({said})", "check HF_ENDPOINT and the proxy"
    if kinds & {"LocalProtocolError", "UnicodeEncodeError"}:
        return "the token cannot be sent, as it has characters no token has", "set HF_TOKEN to a valid token"
    if "TimeoutException" in kinds:
        return (
            f"{hub} did not answer in time ({said})",
            "try again, or allow more seconds in HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT",
        )
    if "RemoteProtocolError" in kinds or "Consistency check failed" in said:
        return f"{hub} broke off its answer ({said})", "try again"
    if kinds & {"HTTPError", "InvalidURL"}:
        return f"{UNREACHED} {hub} ({said})", "check the network, the proxy and HF_ENDPOINT"
    if isinstance(error, OSError):
        return f"the cache {constants.HF_HUB_CACHE} cannot be used ({said})", "set HF_HOME to a folder with room"
    return f"huggingface_hub failed ({type(error).__name__}: {said})", "check the HF_* variables"


def _short(text: str) -> str:
    """First line of an external message, shortened and without control characters."""
    line = text.strip().partition("\n")[0]
    line = "".join(c if c.isprintable() else " " for c in line)
    return line if len(line) <= 160 else f"{line[:157]}..."
