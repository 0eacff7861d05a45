"""A name → config.json → Model: a dict, a file, a folder, the catalog, the Hub. No weights, no remote code.

What stands in a config.json is untrusted: it is parsed as data, with limits, and nothing in it is ever run.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from roofline.model.errors import InputError, nearest
from roofline.model.families import build
from roofline.model.model import Model

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

CATALOG = Path(__file__).with_name("catalog")
LARGEST_FILE = 16 * 2**20
DEEPEST = 64
LONGEST_NUMBER = 100

_CONFIG = "config.json"
_QUANTIZATION = "hf_quant_config.json"
"""Where TensorRT Model Optimizer states a checkpoint's formats."""
_SOURCES = 'a file, a folder with a config.json, a name of the catalog or a Hub id such as "org/name"'
_HUB_ID = re.compile(r"(?:\w[\w.-]{0,95}/)?\w[\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"\w[\w.+-]*(?:/\w[\w.+-]*)*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ONE_AT_A_TIME = threading.Lock()


class HubError(InputError):
    """The Hub gave no config.json: what happened (`trouble`) and what to do (`expected`), in one line."""

    def __init__(self, model: str, trouble: str, remedy: str, near: Iterable[str] = ()) -> None:
        super().__init__("model", model, remedy, near)
        self.trouble = trouble
        hint = f"; nearest in the catalog: {', '.join(self.nearest)}" if self.nearest else ""
        self.args = (f"model {model!r}: {trouble}; {remedy}{hint}",)


@dataclass(frozen=True)
class CatalogEntry:
    """A model of the catalog.

    `parameters` is exact, `published` the size its makers give, `active` the parameters a token meets as they give them
    (None where all do), `source` where config and size come from, `scope` what the count covers.
    """

    id: str
    parameters: int
    published: str
    active: str | None
    source: str
    scope: str


Source = Mapping[str, Any] | os.PathLike[str] | str


def load(source: Source, *, revision: str | None = None) -> Model:
    """The model of a config.json: a dict, a file, a folder that holds one, a name of the catalog, a Hub id.

    A path that exists comes before the catalog, the catalog before the Hub. A catalog name may be the exact Hub id,
    the id in other case, or the part behind the slash where only one model has it; it never needs the network,
    unless a `revision` (branch, tag or commit) is asked for. Hub files stay in huggingface_hub's cache and are read
    from there offline; HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE work as they do there.

    Raises InputError (HubError where the Hub or the way to it fails) with one line that says what to do.
    """
    name, raw = config_of(source, revision=revision)
    return build(raw, name)


def model_of(model: Model | Source) -> Model:
    """A model as it is, or by its name, path or config. Raises InputError for what is none."""
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, os.PathLike, Mapping)):
        return load(model)
    raise InputError("model", model, "a Model, or its name, path or config")


def config_of(source: Source, *, revision: str | None = None) -> tuple[str, dict[str, Any]]:
    """The name and the unchecked contents of the config.json that `source` means; see `load`.

    A dict has the name "". A folder gives its own name, so does a config.json; any other file its name without the
    ending. Raises InputError.
    """
    if revision is not None and (
        not isinstance(revision, str) or not _REVISION.fullmatch(revision) or ".." in revision
    ):
        raise InputError("revision", revision, "a branch, a tag or a commit")
    if isinstance(source, str):
        if revision is None and (os.path.lexists(source) or _is_path(source)):
            return _from_path(source)
        return _from_name(source, revision)
    if revision is not None:
        raise InputError("revision", revision, "none, as only a name can have one")
    if isinstance(source, Mapping):
        return "", dict(source)
    if isinstance(source, os.PathLike):
        return _from_path(os.fsdecode(source))
    raise InputError("model", source, f"{_SOURCES}, or a dict")


@cache
def catalog() -> Mapping[str, CatalogEntry]:
    """The published models whose configs come along: Hub id → its entry, with the parameters it must have."""
    entries = json.loads((CATALOG / "index.json").read_text("utf-8"))
    return MappingProxyType({name: CatalogEntry(id=name, **entry) for name, entry in entries.items()})


def catalog_config(id: str) -> dict[str, Any]:
    """The config.json of a catalog model, named by its exact Hub id. Raises InputError for any other name."""
    if id not in catalog():
        raise InputError("model", id, "the id of a model in the catalog", _near(id))
    return read_config(CATALOG / f"{id}.json")


def read_config(path: Path, field: str = "") -> dict[str, Any]:
    """The JSON object in a file nobody vouches for; `field` stands for the path in errors.

    Raises InputError on anything but a regular, readable file of at most 16 MiB that holds one JSON object in UTF-8,
    without a key given twice, a number of more than 100 characters or more than 64 levels. NaN and Infinity, which
    transformers writes, pass as floats.
    """
    field = field or _printable(str(path))
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise InputError(field, "a folder or a device", "a regular file")
        size, content = info.st_size, b""
        if size <= LARGEST_FILE:
            with path.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(field, getattr(error, "strerror", None) or str(error), "a file that can be read") from error
    if max(size, len(content)) > LARGEST_FILE:
        raise InputError(field, f"{max(size, len(content))} bytes", f"at most {LARGEST_FILE} bytes")
    return _parse(content, field)


# -- where it comes from -------------------------------------------------------------------------------------------
def _is_path(source: str) -> bool:
    """Whether a name that does not exist was meant as a path."""
    return source.startswith((".", "/", "~")) or "\\" in source or source.endswith(".json")


def _from_path(source: str) -> tuple[str, dict[str, Any]]:
    path, field = Path(os.path.expanduser(source)), _printable(source) or "."
    if os.path.isdir(path):
        if not os.path.lexists(path / _CONFIG):
            raise InputError(field, "a folder without one", f"a folder with a {_CONFIG}")
        path, field = path / _CONFIG, f"{field.rstrip('/')}/{_CONFIG}"
    raw = read_config(path, field)
    name = path.absolute().parent.name if path.name == _CONFIG else path.stem
    beside = path.with_name(_QUANTIZATION)
    if path.name == _CONFIG and "quantization_config" not in raw and os.path.lexists(beside):
        raw = {**raw, "hf_quant_config": read_config(beside)}
    return _printable(name), raw


def _from_name(name: str, revision: str | None) -> tuple[str, dict[str, Any]]:
    known = _find(name)
    if known is not None and revision is None:
        return known, catalog_config(known)
    name = known or name
    if not _HUB_ID.fullmatch(name) or name.endswith(("-", ".", ".git")) or "--" in name or ".." in name:
        raise InputError("model", name, _SOURCES, _near(name))
    path = _fetch(name, revision)
    return name, read_config(path, f"{name}/{_CONFIG}")


def _find(name: str) -> str | None:
    """The catalog id that `name` means: itself, itself in other case, or the part behind the slash."""
    if name in catalog():
        return name
    lower = name.lower()
    same = [id for id in catalog() if lower in (id.lower(), id.lower().rpartition("/")[2])]
    if len(same) > 1:
        raise InputError("model", name, "the whole id, as more than one model has this name", same)
    return same[0] if same else None


def _near(name: str) -> list[str]:
    """The catalog ids most like `name`, by their last part where `name` has no slash."""
    by_name = {id if "/" in name else id.rpartition("/")[2]: id for id in catalog()}
    return [by_name[match] for match in nearest(name[:200], by_name)]


# -- what stands in it ---------------------------------------------------------------------------------------------
def _parse(content: bytes, field: str) -> dict[str, Any]:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise InputError(field, f"{key!r} twice", "each key once")
            if not key.isprintable():
                raise InputError(field, key, "keys of printable characters")
            values[key] = value
        return values

    def number(text: str) -> str:
        if len(text) > LONGEST_NUMBER:
            raise InputError(field, f"one of {len(text)}", f"numbers of at most {LONGEST_NUMBER} characters")
        return text

    try:
        raw = json.loads(
            content.decode("utf-8-sig"),
            object_pairs_hook=members,
            parse_int=lambda text: int(number(text)),
            parse_float=lambda text: float(number(text)),
        )
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise InputError(field, wrong, "JSON in UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(field, error.msg, f"JSON at line {error.lineno}, column {error.colno}") from error
    except RecursionError:
        raise InputError(field, "more", f"at most {DEEPEST} levels of nesting") from None
    if not isinstance(raw, dict):
        raise InputError(field, f"a {type(raw).__name__}", "a JSON object")
    if _deeper(raw, DEEPEST):
        raise InputError(field, "more", f"at most {DEEPEST} levels of nesting")
    return raw


def _deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists nest in more than `levels` levels."""
    level = [value]
    for _ in range(levels):
        inside = (v for node in level for v in (node.values() if isinstance(node, dict) else node))
        level = [v for v in inside if isinstance(v, (dict, list))]
    return bool(level)


def _printable(text: str) -> str:
    return text if text.isprintable() else repr(text)


# -- the Hub -------------------------------------------------------------------------------------------------------
def _fetch(model: str, revision: str | None) -> Path:
    """The path of a Hub model's config.json in huggingface_hub's cache. Raises HubError."""
    with _quiet():
        try:
            return Path(_download(model, revision))
        except InputError:
            raise
        except Exception as error:
            raise _explained(model, revision, error) from error


def _download(model: str, revision: str | None) -> str:
    """Asks once for the file's size and commit, then lets huggingface_hub fetch it where it is not yet cached.

    hf_hub_download alone would try for minutes to reach a Hub that does not answer, and would take any size.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import RemoteEntryNotFoundError, RevisionNotFoundError

    known = try_to_load_from_cache(model, _CONFIG, revision=revision)
    cached = known if isinstance(known, str) else None
    if cached and revision and _COMMIT.fullmatch(revision):
        return cached
    url = hf_hub_url(model, _CONFIG, revision=revision)
    try:
        asked = get_hf_file_metadata(url, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except (RemoteEntryNotFoundError, RevisionNotFoundError):
        raise
    except Exception:
        if cached:
            return cached
        raise
    if cached and asked.commit_hash and asked.commit_hash in Path(cached).parts:
        return cached
    if asked.size is not None and asked.size > LARGEST_FILE:
        raise InputError(f"{model}/{_CONFIG}", f"{asked.size} bytes", f"at most {LARGEST_FILE} bytes")
    return hf_hub_download(model, _CONFIG, revision=revision)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps huggingface_hub's log, warnings and progress bar off the terminal; errors say all there is to say."""
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


def _explained(model: str, revision: str | None, error: Exception) -> HubError:
    """The failure of a download, with what to do about it."""
    from huggingface_hub import constants, errors

    hub = re.sub(r"//[^/@]*@", "//", constants.ENDPOINT)
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, errors.HfHubHTTPError):
        trouble, remedy = _refused(hub, model, revision, error)
    else:
        trouble, remedy = _unreached(hub, error)
    lost = (errors.RepositoryNotFoundError, errors.RemoteEntryNotFoundError, errors.OfflineModeIsEnabled)
    near = isinstance(error, lost) and not isinstance(error, errors.GatedRepoError)
    return HubError(model, trouble, remedy, _near(model) if near else ())


def _refused(hub: str, model: str, revision: str | None, error: HfHubHTTPError) -> tuple[str, str]:
    """Trouble and remedy where the Hub answers, but not with the file."""
    from huggingface_hub import errors

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
                f"the repository has no {_CONFIG} (HTTP {status})",
                f"name a model in the transformers format, or the path of its {_CONFIG}",
            )
        case errors.DisabledRepoError():
            return f"the Hub has disabled access to it (HTTP {status})", f"see {hub}/{model}"
    if status in (401, 403):
        return f"the Hub refuses the token (HTTP {status}: {said})", "set HF_TOKEN to a valid token, or unset it"
    if status == 429:
        return f"{hub} got too many requests (HTTP 429)", "wait some minutes, or set HF_TOKEN"
    return f"{hub} answers HTTP {status} ({said})", "try again later, or check HF_ENDPOINT"


def _unreached(hub: str, error: Exception) -> tuple[str, str]:
    """Trouble and remedy where the Hub does not answer, or not to the end, or the cache does not take the file."""
    from huggingface_hub import constants, errors

    said = _short(str(error) or type(error).__name__)
    kinds = {kind.__name__ for kind in type(error).__mro__}  # huggingface_hub 1 and 2 use different HTTP libraries
    if isinstance(error, errors.OfflineModeIsEnabled):
        return (
            f"no such path, its {_CONFIG} is not in the cache, and HF_HUB_OFFLINE is set",
            f"unset HF_HUB_OFFLINE, or name the path of a {_CONFIG}",
        )
    if isinstance(error, errors.HFValidationError):
        return f"not a Hub id ({said})", f"name {_SOURCES}"
    if isinstance(error, errors.FileMetadataError):
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
        return f"cannot reach {hub} ({said})", "check the network, the proxy and HF_ENDPOINT"
    if isinstance(error, OSError):
        return f"the cache {constants.HF_HUB_CACHE} cannot be used ({said})", "set HF_HOME to a folder with room"
    return f"huggingface_hub failed ({type(error).__name__}: {said})", "check the HF_* variables"


def _short(text: str) -> str:
    """The first line of a message from outside, without control characters."""
    line = text.strip().partition("\n")[0]
    line = "".join(c if c.isprintable() else " " for c in line)
    return line if len(line) <= 160 else f"{line[:157]}..."
