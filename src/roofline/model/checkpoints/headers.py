"""Read safetensors headers: names, dtypes, shapes and bytes of a file's tensors, without the tensors' data.

A file begins with the length of its header (8 bytes, little endian) and the header, a JSON object that maps each name
to its dtype, shape and byte offsets after the header (https://huggingface.co/docs/safetensors). Headers are untrusted:
invalid ones are refused.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonObject
from roofline.model.sources.untrusted import parse_json

LARGEST_HEADER = 100_000_000
"""Largest header in bytes, the limit of safetensors itself."""
LARGEST_INDEX = 128 * 2**20
"""Largest index in bytes: a line per tensor, and a model with 400 experts in 61 layers has 200,000 tensors."""
MOST_FILES = 10_000
LARGEST_HEADERS = 2**27
"""Most bytes of the headers of all files of a checkpoint."""
MOST_TENSORS = 400_000
"""Most tensors of a checkpoint."""
LARGEST_TENSOR = 2**60
"""Most elements of a tensor."""
_FIRST = 64 * 1024
"""Bytes of the first read; nearly all headers are shorter, so that one request suffices."""
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
"""Bits per element of each dtype."""
_ONE_AT_A_TIME = threading.Lock()
"""Held while a header is parsed, and while one is read that is longer than `_SHORT`: they may be many, and long."""
_SHORT = 2**22
_FILE = re.compile(r"\w[\w.-]{0,200}\.safetensors", re.ASCII)

Read: TypeAlias = Callable[[int, int], tuple[bytes, int]]
"""Reads a file: (offset, length) → at most `length` bytes, and the size of the file."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a checkpoint, as described in its file's header. `bytes`: its size in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """Number of elements of its dtype; an element of packed weights holds several weights."""
        return prod(self.shape)


def header_tensors(file: str, read: Read) -> tuple[Tensor, ...]:
    """Tensors of a safetensors file, of which only the header is read; `file` names it in errors.

    Raises InputError for a header that is longer than 100 MB or than the file, that is not a JSON object, or whose
    tensors have an unknown dtype, a shape that does not match their bytes, or bytes that overlap, leave gaps or lie
    outside the file.
    """
    start, size = read(0, _FIRST)
    if len(start) < 8:
        raise InputError(file, f"{len(start)} bytes", "a safetensors file, which begins with its header's length")
    length = int.from_bytes(start[:8], "little")
    if length > LARGEST_HEADER or length > size - 8:
        raise InputError(file, f"{length} bytes", f"a header of at most {min(LARGEST_HEADER, max(0, size - 8))} bytes")
    with _ONE_AT_A_TIME if length > _SHORT else nullcontext():
        content = start[8 : 8 + length]
        if len(content) < length:
            content += read(8 + len(content), length - len(content))[0]
        if len(content) < length:
            raise InputError(file, f"{len(content)} bytes", f"a header of {length} bytes")
        with nullcontext() if length > _SHORT else _ONE_AT_A_TIME:
            return _parsed(file, content, size - 8 - length)


def _parsed(file: str, content: bytes, size: int) -> tuple[Tensor, ...]:
    """Tensors of a header, which take `size` bytes behind it."""
    if content[:1] != b"{":
        raise InputError(file, "something else", "a header that is a JSON object")
    header = parse_json(content, file)
    _check_metadata(file, header.pop("__metadata__", {}))
    if len(header) > MOST_TENSORS:
        raise InputError(file, f"{len(header)} tensors", f"at most {MOST_TENSORS}")
    placed = [_tensor(file, name, entry) for name, entry in header.items()]
    _check_places(file, placed, size)
    return tuple(tensor for tensor, _ in placed)


class HeaderBytes:
    """Counts the headers of a checkpoint's files as they are read. Raises InputError for too many bytes in all."""

    def __init__(self, field: str) -> None:
        self.field, self.read, self._lock = field, 0, threading.Lock()

    def counted(self, read: Read) -> Read:
        """A reader that adds what it reads to the sum of all."""

        def also(offset: int, length: int) -> tuple[bytes, int]:
            with self._lock:
                self.read += length if offset else 0  # what is read of every file first is its length and little more
                if self.read > LARGEST_HEADERS:
                    raise InputError(self.field, "longer ones", f"headers of at most {LARGEST_HEADERS} bytes in all")
            return read(offset, length)

        return also


def index_files(index: JsonObject, field: str) -> dict[str, str]:
    """Tensor → file that holds it, from a `model.safetensors.index.json`; `field` names it in errors.

    Raises InputError for an index without tensors, or with files that are not beside it.
    """
    files = index.get("weight_map")
    if not isinstance(files, dict) or not files:
        raise InputError(f"{field}: weight_map", files, "the file of each tensor, by its name")
    if len(files) > MOST_TENSORS:
        raise InputError(f"{field}: weight_map", f"{len(files)} tensors", f"at most {MOST_TENSORS}")
    for tensor, file in files.items():
        if not isinstance(file, str) or not _FILE.fullmatch(file):
            raise InputError(f"{field}: {_short(tensor)}", file, "the name of a .safetensors file beside the index")
    if len(set(files.values())) > MOST_FILES:
        raise InputError(f"{field}: weight_map", f"{len(set(files.values()))} files", f"at most {MOST_FILES}")
    return files


def check_index(field: str, files: Mapping[str, str], headers: Mapping[str, tuple[Tensor, ...]]) -> None:
    """Raise an InputError where headers and index differ: a tensor in two files, or missing from its file."""
    if (count := sum(map(len, headers.values()))) > MOST_TENSORS:
        raise InputError(field, f"{count} tensors", f"at most {MOST_TENSORS}")
    holders: dict[str, str] = {}
    for file, tensors in headers.items():
        for tensor in tensors:
            if tensor.name in holders:
                raise InputError(f"{field}: {_short(tensor.name)}", f"{holders[tensor.name]} and {file}", "one file")
            holders[tensor.name] = file
    for name, file in files.items():
        if holders.get(name) != file:
            raise InputError(f"{field}: {_short(name)}", holders.get(name), f"a tensor of {file}")


# -- one tensor ----------------------------------------------------------------------------------------------------
def _tensor(file: str, name: str, entry: object) -> tuple[Tensor, int]:
    """A tensor, and the offset of its bytes."""
    field = f"{file}: {_short(name)}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise InputError(field, entry, "dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise InputError(f"{field}: dtype", dtype, "a dtype of safetensors", nearest(str(dtype), _BITS))
    if not isinstance(shape, list) or len(shape) > 16 or not all(type(n) is int and n >= 0 for n in shape):
        raise InputError(f"{field}: shape", shape, "a list of whole numbers from 0")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(n) is int and n >= 0 for n in offsets)):
        raise InputError(f"{field}: data_offsets", offsets, "two whole numbers from 0")
    elements, (begin, end) = prod(shape), offsets
    if elements > LARGEST_TENSOR:
        raise InputError(f"{field}: shape", shape, f"at most {LARGEST_TENSOR} elements")
    bits = elements * _BITS[dtype]
    if bits % 8 or end - begin != bits // 8:
        raise InputError(f"{field}: data_offsets", offsets, f"{bits / 8:g} bytes, as {dtype} of {shape} takes")
    return Tensor(name, dtype, tuple(shape), end - begin), begin


def _check_places(file: str, placed: list[tuple[Tensor, int]], size: int) -> None:
    """Check that tensors fill the `size` bytes after the header without gaps or overlaps."""
    end = 0
    for tensor, begin in sorted(placed, key=lambda place: (place[1], place[1] + place[0].bytes)):
        if begin != end:
            problem = "bytes of another tensor" if begin < end else "a gap before it"
            raise InputError(f"{file}: {_short(tensor.name)}", problem, f"bytes that begin at {end}")
        end += tensor.bytes
    if end != size:
        raise InputError(file, f"{size} bytes behind the header", f"{end}, as its tensors take")


def _check_metadata(file: str, metadata: object) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise InputError(f"{file}: __metadata__", metadata, "texts by name")


def _short(name: str) -> str:
    return name if len(name) <= 100 else f"{name[:97]}..."


# -- names ---------------------------------------------------------------------------------------------------------
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def pattern_of(name: str) -> str:
    """A tensor's name with `*` in place of layer and expert numbers."""
    return _NUMBER.sub("*", name)


def numbers_of(name: str) -> Iterator[int]:
    """Layer and expert numbers in a tensor's name."""
    return (int(number) for number in _NUMBER.findall(name))
