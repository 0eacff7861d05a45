"""Open GGUF files by name, in a folder or a repository of the Hub; a file may be one of several parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from roofline.declared.errors import InputError
from roofline.model.checkpoints.gguf.header import GgufHeader, gguf_header
from roofline.model.checkpoints.gguf.metadata import config_of_gguf
from roofline.model.sources.hub import hub_ranges, local_range
from roofline.model.sources.origin import Origin
from roofline.model.sources.untrusted import printable

HUB_SCHEME = "hf://"
MOST_PARTS = 200
_PART = re.compile(r"(.*-)(\d{5})-of-(\d{5})\.gguf", re.DOTALL)
_ON_HUB = re.compile(r"(\w[\w.-]{0,95}/\w[\w.-]{0,95})/((?:\w[\w.+-]{0,127}/){0,4}\w[\w.+-]{0,200}\.gguf)", re.ASCII)


def on_hub(name: str) -> tuple[str, str] | None:
    """Repository and file of `owner/repo/file.gguf`, with or without the prefix `hf://`; None for any other name."""
    place = _ON_HUB.fullmatch(name.removeprefix(HUB_SCHEME))
    return (place[1], place[2]) if place is not None and ".." not in name else None


def origin_of_file(path: Path) -> Origin:
    """Config and header of a local GGUF file and its other parts. Raises InputError."""
    field = printable(str(path))
    headers = [gguf_header(name, partial(local_range, Path(name))) for name in _parts(str(path))]
    return _origin(field, path.stem, headers)


def origin_on_hub(repository: str, file: str, revision: str | None) -> Origin:
    """Config and header of a GGUF file on the Hub and its other parts; only headers are read.

    Raises InputError, and HubError where the Hub cannot be reached or fails.
    """
    headers = hub_ranges(repository, _parts(file), revision or "main", gguf_header)
    return _origin(f"{repository}/{file}", PurePosixPath(file).stem, headers)


def _origin(field: str, name: str, headers: list[GgufHeader]) -> Origin:
    first = headers[0]
    parts = first.metadata.get("split.count", 1)
    if parts not in (0, 1) and parts != len(headers):
        raise InputError(f"{field}: split.count", parts, f"{len(headers)}, as the file's name says")
    whole = replace(first, tensors=tuple(t for header in headers for t in header.tensors))
    if len({t.name for t in whole.tensors}) != len(whole.tensors):
        raise InputError(field, "a tensor in two parts", "each tensor once")
    title = first.metadata.get("general.name")
    known = title if isinstance(title, str) and title.isprintable() and 0 < len(title) <= 100 else printable(name)
    return Origin(known, config_of_gguf(whole, field), gguf=whole)


def _parts(file: str) -> Iterable[str]:
    """All parts of a split file, in order, from the name of one. Raises InputError for impossible numbers."""
    place = _PART.fullmatch(file)
    if place is None:
        return (file,)
    number, count = int(place[2]), int(place[3])
    if not 1 <= number <= count <= MOST_PARTS:
        raise InputError(printable(file), f"part {number} of {count}", f"a part of at most {MOST_PARTS}")
    return tuple(f"{place[1]}{i:05}-of-{count:05}.gguf" for i in range(1, count + 1))
