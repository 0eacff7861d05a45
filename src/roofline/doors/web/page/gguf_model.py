"""GGUF files dropped on the page: reduce a header to the part that defines the model, small enough for a URL."""

from __future__ import annotations

from base64 import b64decode
from math import isfinite, prod
from typing import TypeGuard

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject, JsonValue
from roofline.model.checkpoints.gguf.header import (
    MOST_ENTRIES,
    MOST_TENSORS,
    TENSOR_TYPES,
    ArrayLength,
    GgufHeader,
    MetadataValue,
    TensorOfFile,
    gguf_header,
)
from roofline.model.checkpoints.gguf.metadata import as_in_file, config_of_gguf
from roofline.model.families import build
from roofline.model.model import Model

FILE = "gguf"
"""Name of the file in error messages, as the real name never leaves the browser."""
LONGEST_HEAD = 16 * 2**20
"""Number of bytes read from the start of a file: a tokenizer of 260,000 tokens takes about 12 MB."""
LONGEST_WORD = 256


def dropped(head: str, size: int) -> JsonObject:
    """Answer of the `gguf` route. `head`: start of a file of `size` bytes, in base64. Raises InputError."""
    try:
        given = b64decode(head, validate=True)
    except ValueError:
        raise InputError("head", "other signs", "base64") from None
    if len(given) > size:
        raise InputError("size", size, f"at least the {len(given)} bytes that were sent")
    model = small_header(given, size)
    built = model_of_file(model[FILE])
    return {"model": model, "name": built.name, "parameters": built.parameters, "warnings": list(built.warnings)}


def small_header(given: bytes, size: int) -> dict[str, JsonValue]:
    """Extract the metadata and tensors for `model_of_file` from the first bytes of a file of `size` bytes.

    Raises InputError if they are not a GGUF header or the header is truncated.
    """
    header = gguf_header(FILE, lambda offset, length: (given[offset : offset + length], size))
    metadata = {key: value for key, value in header.metadata.items() if _is_small(value)}
    tensors: list[JsonValue] = [[t.name, list(t.shape), t.type.number] for t in header.tensors]
    return {FILE: {"metadata": metadata, "tensors": tensors}}


def _is_small(value: MetadataValue) -> TypeGuard[float | str | tuple[float, ...]]:
    """Whether a metadata value may describe the model: short strings and finite numbers, not tokenizer data."""
    if isinstance(value, (str, ArrayLength)):
        return isinstance(value, str) and len(value) <= LONGEST_WORD
    return all(isfinite(number) for number in (value if isinstance(value, tuple) else (value,)))


def model_of_file(given: JsonValue) -> Model:
    """Build a model from a header's metadata and tensors, in the formats of the tensors. Raises InputError."""
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


def _tensor(given: JsonValue) -> TensorOfFile:
    match given:
        case [str(name), [_, *_] as shape, int(number)] if number in TENSOR_TYPES and len(name) <= LONGEST_WORD:
            kind = TENSOR_TYPES[number]
            sides = tuple(side for side in shape if type(side) is int and side >= 1)
            if len(sides) == len(shape) <= 4 and prod(sides) <= 2**60 and not sides[0] % kind.values:
                return TensorOfFile(name, sides, kind)
    raise InputError(f"{FILE}: tensors", str(given)[:80], "a name, up to four sizes, and the number of a type")
