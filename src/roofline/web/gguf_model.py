"""The header of a GGUF file that somebody drops on the page: what of it makes a model, small enough for an address."""

from __future__ import annotations

from base64 import b64decode
from math import isfinite, prod
from typing import Any

from roofline.declared.errors import InputError
from roofline.model.families import build
from roofline.model.gguf.header import (
    MOST_ENTRIES,
    MOST_TENSORS,
    TENSOR_TYPES,
    ArrayLength,
    GgufHeader,
    TensorOfFile,
    gguf_header,
)
from roofline.model.gguf.metadata import as_in_file, config_of_gguf
from roofline.model.model import Model

FILE = "gguf"
"""What the file is called in errors: its own name never leaves the browser."""
LONGEST_HEAD = 16 * 2**20
"""Bytes of a file that are looked at: a tokeniser of 260,000 tokens takes some 12 MB."""
LONGEST_WORD = 256


def dropped(head: str, size: int) -> dict[str, Any]:
    """What the API answers of the first bytes of a file of `size` bytes, in base64. Raises InputError."""
    try:
        given = b64decode(head, validate=True)
    except ValueError:
        raise InputError("head", "other signs", "base64") from None
    if len(given) > size:
        raise InputError("size", size, f"at least the {len(given)} bytes that were sent")
    model = small_header(given, size)
    built = model_of_file(model[FILE])
    return {"model": model, "name": built.name, "parameters": built.parameters, "warnings": list(built.warnings)}


def small_header(given: bytes, size: int) -> dict[str, Any]:
    """Of the first bytes of a file of `size` bytes: the metadata and tensors that `model_of_file` takes.

    Raises InputError for what is no header, and for one that is longer than what was given.
    """
    header = gguf_header(FILE, lambda offset, length: (given[offset : offset + length], size))
    metadata = {key: value for key, value in header.metadata.items() if _is_small(value)}
    tensors = [[t.name, list(t.shape), t.type.number] for t in header.tensors]
    return {FILE: {"metadata": metadata, "tensors": tensors}}


def _is_small(value: Any) -> bool:
    """Whether it says something of the model's sizes: texts of tokenisers do not."""
    if isinstance(value, str):
        return len(value) <= LONGEST_WORD
    numbers = value if isinstance(value, tuple) else (value,)
    return not isinstance(value, ArrayLength) and all(isfinite(number) for number in numbers)


def model_of_file(given: Any) -> Model:
    """The model of a header's metadata and tensors, in the types of its tensors. Raises InputError."""
    if not isinstance(given, dict) or given.keys() != {"metadata", "tensors"}:
        raise InputError(FILE, "something else", "metadata and tensors")
    metadata, tensors = given["metadata"], given["tensors"]
    if not isinstance(metadata, dict) or len(metadata) > MOST_ENTRIES:
        raise InputError(f"{FILE}: metadata", "something else", f"at most {MOST_ENTRIES} entries")
    if not isinstance(tensors, list) or len(tensors) > MOST_TENSORS:
        raise InputError(f"{FILE}: tensors", "something else", f"a list of at most {MOST_TENSORS}")
    if metadata.get("split.count", 1) not in (0, 1):
        raise InputError(f"{FILE}: split.count", metadata["split.count"], "a file that holds all tensors")
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in metadata.items()}
    header = GgufHeader(plain, tuple(map(_tensor, tensors)))
    if len({t.name for t in header.tensors}) != len(header.tensors):
        raise InputError(f"{FILE}: tensors", "a tensor twice", "each tensor once")
    title = metadata.get("general.name")
    name = title if isinstance(title, str) and title.isprintable() and 0 < len(title) <= 100 else FILE
    return as_in_file(build(config_of_gguf(header, FILE), name), header)


def _tensor(given: Any) -> TensorOfFile:
    match given:
        case [str(name), [_, *_] as shape, int(number)] if number in TENSOR_TYPES and len(name) <= LONGEST_WORD:
            kind = TENSOR_TYPES[number]
            whole = all(type(side) is int and side >= 1 for side in shape) and len(shape) <= 4
            if whole and prod(shape) <= 2**60 and not shape[0] % kind.values:
                return TensorOfFile(name, tuple(shape), kind)
    raise InputError(f"{FILE}: tensors", str(given)[:80], "a name, up to four sizes, and the number of a type")
