"""Checkpoints without weights: files with true headers and nothing behind them but the room that tensors take."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "I8": 1, "U8": 1, "I32": 4, "U32": 4, "I64": 8, "F8_E8M0": 1}
Shapes: TypeAlias = Mapping[str, tuple[str, Sequence[int]]]
"""Name of a tensor → its dtype and shape."""


def header(tensors: Shapes) -> dict[str, Any]:
    """The header of a file that holds them, one behind the other."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + BYTES[dtype] * prod(shape)
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    return entries


def size(tensors: Shapes) -> int:
    """Bytes of all of them."""
    return sum(BYTES[dtype] * prod(shape) for dtype, shape in tensors.values())


def beginning(entries: object) -> bytes:
    """What a file with that header begins with."""
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


def write(path: Path, tensors: Shapes) -> Path:
    """A file of them."""
    start = beginning(header(tensors))
    path.write_bytes(start)
    os.truncate(path, len(start) + size(tensors))
    return path


def write_all(folder: Path, config: Mapping[str, Any], tensors: Shapes, files: int = 1) -> Path:
    """A folder with a config and a checkpoint in one file, or in several with their index."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if files == 1:
        write(folder / "model.safetensors", tensors)
        return folder
    weight_map = {}
    for i in range(files):
        name = f"model-{i + 1:05}-of-{files:05}.safetensors"
        share = dict(list(tensors.items())[i::files])
        write(folder / name, share)
        weight_map.update(dict.fromkeys(share, name))
    index = {"metadata": {"total_size": size(tensors)}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
