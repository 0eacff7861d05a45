"""Safetensors headers: the names, dtypes, shapes and bytes of a file's tensors, and nothing of the tensors themselves.

A file begins with the length of its header (8 bytes, little endian) and the header, a JSON object: name → dtype, shape
and the place of its bytes behind the header (https://huggingface.co/docs/safetensors). Headers are untrusted: what
cannot be is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonObject
from roofline.model.untrusted import parse_json

LARGEST_HEADER = 100_000_000
"""Bytes of a header; safetensors itself takes no longer one."""
LARGEST_INDEX = 128 * 2**20
"""Bytes of an index: a line for each tensor, of which a mixture of 400 experts in 61 layers has 200,000."""
MOST_FILES = 10_000
LARGEST_TENSOR = 2**60
"""Elements of a tensor."""
_FIRST = 64 * 1024
"""Bytes that are read first: nearly all headers are shorter, so one request serves."""
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
"""Bits of an element of each dtype."""
_FILE = re.compile(r"\w[\w.-]{0,200}\.safetensors", re.ASCII)

Read: TypeAlias = Callable[[int, int], tuple[bytes, int]]
"""Offset and length → at most so many bytes of a file, and the size of the file."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a checkpoint, as its file's header states it. `bytes`: what it takes in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """Elements of its dtype; of packed weights an element holds several."""
        return prod(self.shape)


def header_tensors(file: str, read: Read) -> tuple[Tensor, ...]:
    """The tensors of a safetensors file, of which only the header is read; `file` stands for it in errors.

    Raises InputError for a header that is longer than 100 MB or than the file, that is no JSON object, or whose
    tensors have an unknown dtype, a shape that does not fit their bytes, or bytes that overlap, leave gaps or lie
    outside the file.
    """
    start, size = read(0, _FIRST)
    if len(start) < 8:
        raise InputError(file, f"{len(start)} bytes", "a safetensors file, which begins with its header's length")
    length = int.from_bytes(start[:8], "little")
    if length > LARGEST_HEADER or length > size - 8:
        raise InputError(file, f"{length} bytes", f"a header of at most {min(LARGEST_HEADER, max(0, size - 8))} bytes")
    content = start[8 : 8 + length]
    if len(content) < length:
        content += read(8 + len(content), length - len(content))[0]
    if len(content) < length:
        raise InputError(file, f"{len(content)} bytes", f"a header of {length} bytes")
    if content[:1] != b"{":
        raise InputError(file, "something else", "a header that is a JSON object")
    header = parse_json(content, file)
    _check_metadata(file, header.pop("__metadata__", {}))
    placed = [_tensor(file, name, entry) for name, entry in header.items()]
    _check_places(file, placed, size - 8 - length)
    return tuple(tensor for tensor, _ in placed)


def index_files(index: JsonObject, field: str) -> dict[str, str]:
    """Tensor → the file that holds it, of a `model.safetensors.index.json`; `field` stands for it in errors.

    Raises InputError for an index without tensors or with files that are not beside it.
    """
    files = index.get("weight_map")
    if not isinstance(files, dict) or not files:
        raise InputError(f"{field}: weight_map", files, "the file of each tensor, by its name")
    for tensor, file in files.items():
        if not isinstance(file, str) or not _FILE.fullmatch(file):
            raise InputError(f"{field}: {_short(tensor)}", file, "the name of a .safetensors file beside the index")
    if len(set(files.values())) > MOST_FILES:
        raise InputError(f"{field}: weight_map", f"{len(set(files.values()))} files", f"at most {MOST_FILES}")
    return files


def check_index(field: str, files: Mapping[str, str], headers: Mapping[str, tuple[Tensor, ...]]) -> None:
    """Raises InputError where headers and an index differ: a tensor of two files, or one that its file lacks."""
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
    """A tensor and where its bytes begin."""
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
    """Tensors have to lie one behind the other in the `size` bytes that follow the header."""
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
    """A tensor's name with `*` for the numbers of layers and experts."""
    return _NUMBER.sub("*", name)


def numbers_of(name: str) -> Iterator[int]:
    """The numbers of layers and experts in a tensor's name."""
    return (int(number) for number in _NUMBER.findall(name))
