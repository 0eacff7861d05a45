"""Tensors of the checkpoint that belongs to a config, from the files beside it or from its repository on the Hub."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject
from roofline.model.checkpoints.headers import (
    LARGEST_INDEX,
    HeaderBytes,
    Tensor,
    check_index,
    header_tensors,
    index_files,
)
from roofline.model.sources.hub import hub_file_if_any, hub_ranges, in_cache, local_range
from roofline.model.sources.origin import Origin
from roofline.model.sources.untrusted import printable, read_config

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
_EXPECTED = f"a folder or a Hub id with {INDEX} or {SINGLE}"


def tensors_of(origin: Origin) -> tuple[Tensor, ...]:
    """All tensors of a checkpoint, from the headers of its safetensors files, which an index lists if there are more.

    Raises InputError where there are no such files, where the index and the headers differ, and for an invalid header;
    HubError where the Hub cannot be reached or fails.
    """
    if origin.folder is not None:
        return _of_folder(origin.folder)
    if origin.repository:
        return _of_repository(origin)
    known = f"{origin.name}, a config alone" if origin.name else "a config alone"
    raise InputError("headers", known, _EXPECTED)


def _of_folder(folder: Path) -> tuple[Tensor, ...]:
    place = printable(str(folder))

    def headers(names: Iterable[str]) -> list[tuple[Tensor, ...]]:
        read = HeaderBytes(place)
        return [header_tensors(f"{place}/{name}", read.counted(partial(local_range, folder / name))) for name in names]

    if os.path.lexists(folder / INDEX):
        return _of_index(read_config(folder / INDEX, f"{place}/{INDEX}", LARGEST_INDEX), f"{place}/{INDEX}", headers)
    if not os.path.lexists(folder / SINGLE):
        raise InputError("headers", f"{place} without them", _EXPECTED)
    return headers([SINGLE])[0]


def _of_repository(origin: Origin) -> tuple[Tensor, ...]:
    model, commit = origin.repository, origin.commit

    def headers(names: Iterable[str]) -> list[tuple[Tensor, ...]]:
        all_read = HeaderBytes(model)
        return hub_ranges(
            model, names, commit, lambda name, read: header_tensors(f"{model}/{name}", all_read.counted(read))
        )

    whole = in_cache(model, SINGLE, commit) and not in_cache(model, INDEX, commit)
    index = None if whole else hub_file_if_any(model, INDEX, commit, LARGEST_INDEX)
    if index is None:
        return headers([SINGLE])[0]
    return _of_index(read_config(index, f"{model}/{INDEX}", LARGEST_INDEX), f"{model}/{INDEX}", headers)


def _of_index(
    index: JsonObject, field: str, headers: Callable[[Iterable[str]], list[tuple[Tensor, ...]]]
) -> tuple[Tensor, ...]:
    files = index_files(index, field)
    names = sorted(set(files.values()))
    by_file = dict(zip(names, headers(names), strict=True))
    check_index(field, files, by_file)
    return tuple(tensor for tensors in by_file.values() for tensor in tensors)
